//! machined's answers about a machine.

use std::net::IpAddr;
use std::sync::Arc;

use talos_api::common::Data;
use talos_api::google::protobuf::Empty;
use talos_api::machine::machine_service_server::MachineService;
use talos_api::machine::{
    ContainersRequest, ContainersResponse, EtcdAlarmListResponse, EtcdMemberListRequest, EtcdMemberListResponse,
    EtcdStatusResponse, FeaturesInfo, FileInfo, Hostname, HostnameResponse, ListRequest, LogsRequest, MemInfo, Memory,
    MemoryResponse, Mounts, MountsResponse, PlatformInfo, ServiceList, ServiceListResponse, Version, VersionInfo,
    VersionResponse,
};
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::{Call, containers, etcd, files, kubeconfig, logs};
use crate::cosi::kind;
use crate::state::ClusterState;
use crate::world::{self, Role, World};

/// The `MachineService` of all machines.
pub(super) struct Machine {
    state: Arc<ClusterState>,
}

impl Machine {
    pub(super) fn new(state: Arc<ClusterState>) -> Self {
        Self { state }
    }

    /// Answers from the state of the called machine.
    fn tell<Q, T>(
        &self,
        request: &Request<Q>,
        say: impl FnOnce(&World, &world::Machine) -> T,
    ) -> Result<Response<T>, Status> {
        let world = self.state.world();
        let machine = world.machines.get(&Call::of(request)?.target).ok_or_else(gone)?;
        Ok(Response::new(say(&world, machine)))
    }

    /// Returns the called machine, if it is a control plane.
    fn control_plane<Q>(&self, request: &Request<Q>, api: &str) -> Result<IpAddr, Status> {
        let target = Call::of(request)?.target;
        match self.state.world().machines.get(&target).ok_or_else(gone)?.role {
            Role::ControlPlane => Ok(target),
            Role::Worker => Err(Status::unimplemented(format!("{api} is only available on control plane nodes"))),
        }
    }
}

/// The error for a machine that was removed from the world after the call arrived.
pub(super) fn gone() -> Status {
    Status::unavailable("the machine is gone")
}

#[tonic::async_trait]
impl MachineService for Machine {
    async fn version(&self, request: Request<Empty>) -> Result<Response<VersionResponse>, Status> {
        self.tell(&request, |world, machine| VersionResponse { messages: vec![version(world, machine)] })
    }

    async fn hostname(&self, request: Request<Empty>) -> Result<Response<HostnameResponse>, Status> {
        self.tell(&request, |_, machine| {
            let hostname = Hostname { metadata: None, hostname: machine.name.clone() };
            HostnameResponse { messages: vec![hostname] }
        })
    }

    async fn service_list(&self, request: Request<Empty>) -> Result<Response<ServiceListResponse>, Status> {
        self.tell(&request, |_, machine| {
            let services = ServiceList { metadata: None, services: machine.services.clone() };
            ServiceListResponse { messages: vec![services] }
        })
    }

    async fn memory(&self, request: Request<Empty>) -> Result<Response<MemoryResponse>, Status> {
        self.tell(&request, |_, machine| MemoryResponse { messages: vec![memory(machine)] })
    }

    async fn mounts(&self, request: Request<Empty>) -> Result<Response<MountsResponse>, Status> {
        self.tell(&request, |_, machine| {
            let mounts = Mounts { metadata: None, stats: machine.mounts.clone() };
            MountsResponse { messages: vec![mounts] }
        })
    }

    async fn etcd_member_list(
        &self,
        request: Request<EtcdMemberListRequest>,
    ) -> Result<Response<EtcdMemberListResponse>, Status> {
        let target = self.control_plane(&request, "member list")?;
        let members = etcd::members(&self.state, target, request.get_ref().query_local).await?;
        Ok(Response::new(EtcdMemberListResponse { messages: vec![members] }))
    }

    async fn etcd_status(&self, request: Request<Empty>) -> Result<Response<EtcdStatusResponse>, Status> {
        let target = self.control_plane(&request, "etcd status")?;
        Ok(Response::new(EtcdStatusResponse { messages: vec![etcd::status(&self.state, target).await] }))
    }

    async fn etcd_alarm_list(&self, request: Request<Empty>) -> Result<Response<EtcdAlarmListResponse>, Status> {
        let target = self.control_plane(&request, "etcd alarm list")?;
        Ok(Response::new(EtcdAlarmListResponse { messages: vec![etcd::alarms(&self.state, target).await?] }))
    }

    async fn kubeconfig(&self, request: Request<Empty>) -> Result<Response<BoxStream<Data>>, Status> {
        self.control_plane(&request, "kubeconfig")?;
        let bytes = kubeconfig::archive(&self.state).map_err(|error| Status::unknown(error.to_string()))?;
        let archive = Data { metadata: None, bytes };
        Ok(Response::new(Box::pin(futures::stream::iter([Ok(archive)]))))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<BoxStream<FileInfo>>, Status> {
        let entries = self.tell(&request, |_, machine| files::list(machine, request.get_ref()))?.into_inner()?;
        Ok(Response::new(Box::pin(futures::stream::iter(entries.into_iter().map(Ok)))))
    }

    async fn logs(&self, request: Request<LogsRequest>) -> Result<Response<BoxStream<Data>>, Status> {
        let target = Call::of(&request)?.target;
        Ok(Response::new(logs::stream(&self.state, target, request.into_inner())?))
    }

    async fn containers(&self, request: Request<ContainersRequest>) -> Result<Response<ContainersResponse>, Status> {
        let containers =
            self.tell(&request, |_, machine| containers::list(machine, request.get_ref()))?.into_inner()?;
        Ok(Response::new(ContainersResponse { messages: vec![containers] }))
    }
}

fn version(world: &World, machine: &world::Machine) -> Version {
    let version = VersionInfo {
        tag: format!("v{}", machine.talos.unwrap_or(world.versions.talos)),
        sha: "5a2e6c31".to_owned(),
        built: String::new(),
        go_version: "go1.26.2".to_owned(),
        os: "linux".to_owned(),
        arch: "amd64".to_owned(),
    };
    let metadata = machine.resources.get(kind::PLATFORM_METADATAS, "platformmetadata");
    let platform = metadata.and_then(|metadata| metadata.spec()["platform"].as_str()).unwrap_or("metal");
    let mode = if ["metal", "container"].contains(&platform) { platform } else { "cloud" };
    Version {
        metadata: None,
        version: Some(version),
        platform: Some(PlatformInfo { name: platform.to_owned(), mode: mode.to_owned() }),
        // This feature is set in the configuration.
        features: (!machine.maintenance).then_some(FeaturesInfo { rbac: true }),
    }
}

fn memory(machine: &world::Machine) -> Memory {
    let (memtotal, memavailable) = machine.memory;
    // Most of the available memory is page cache.
    let (cached, buffers) = (memavailable / 4 * 3, memavailable / 100);
    let memfree = memavailable - cached;
    let meminfo = MemInfo { memtotal, memfree, memavailable, buffers, cached };
    Memory { metadata: None, meminfo: Some(meminfo) }
}
