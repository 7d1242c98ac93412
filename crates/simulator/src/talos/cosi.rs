//! COSI: the resources of a machine.

use std::net::IpAddr;
use std::sync::Arc;

use futures::StreamExt as _;
use talos_api::cosi::resource::{
    GetRequest, GetResponse, ListRequest, ListResponse, Metadata, Resource, Spec, WatchRequest, WatchResponse,
    state_server,
};
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::{Call, query::Query, watch};
use crate::cosi::{self, OfKind, Type, kind, timestamp};
use crate::state::ClusterState;
use crate::version::TalosVersion;
use crate::world::{self, Power, Process, World};

/// The State service of all machines.
pub(super) struct State {
    state: Arc<ClusterState>,
}

impl State {
    pub(super) fn new(state: Arc<ClusterState>) -> Self {
        Self { state }
    }
}

/// Resources of one type on one machine, named by a caller.
#[derive(Clone, Debug)]
pub(super) struct Source {
    machine: IpAddr,
    /// Namespace and name are as the caller wrote them, because answers repeat them.
    pub(super) namespace: String,
    pub(super) name: String,
    of: &'static Type,
    version: TalosVersion,
}

impl Source {
    /// Checks that the caller has access, and that type and namespace exist.
    fn admit(world: &World, call: Call, namespace: &str, name: &str) -> Result<Self, Status> {
        let version = world.versions.talos;
        let of = cosi::find(name, version)
            .ok_or_else(|| Status::permission_denied(format!("resource type {name:?} is not supported")))?;
        if of.sensitive(version) && !call.roles.admin {
            return Err(Status::permission_denied("not authorized"));
        }
        let machine = world.machines.get(&call.target);
        if machine.is_none_or(|machine| machine.resources.get(kind::NAMESPACES, namespace).is_none()) {
            return Err(Status::permission_denied(format!("namespace {namespace:?} is not supported")));
        }
        Ok(Self { machine: call.target, namespace: namespace.to_owned(), name: name.to_owned(), of, version })
    }

    /// All resources of this type. There are none in another namespace, or if the name differs in case.
    pub(super) fn all(&self, world: &World) -> OfKind {
        let machine = world.machines.get(&self.machine).filter(|_| self.namespace == self.of.namespace);
        machine.map(|machine| machine.resources.of_kind(&self.name)).unwrap_or_default()
    }

    /// Whether the machine answers. Returns an error if its connections have ended.
    pub(super) fn answers(&self, world: &World) -> Result<bool, Status> {
        let gone = || Err(Status::unavailable("error reading from server: EOF"));
        let Some(machine) = world.machines.get(&self.machine) else { return gone() };
        match (machine.power, machine.process) {
            (Power::Off, _) | (Power::On, Process::Stopped) => gone(),
            (Power::Unplugged, _) | (Power::On, Process::Frozen) => Ok(false),
            (Power::On, Process::Running) => Ok(true),
        }
    }

    /// Converts a resource for sending.
    pub(super) fn encode(&self, id: &str, resource: &world::Resource) -> Resource {
        let owner = if resource.owner.is_empty() { self.of.owner } else { &resource.owner };
        let metadata = Metadata {
            version: resource.version.to_string(),
            owner: owner.to_owned(),
            created: Some(timestamp(resource.created)),
            updated: Some(timestamp(resource.updated)),
            finalizers: resource.finalizers.clone(),
            labels: resource.labels.clone().into_iter().collect(),
            annotations: resource.annotations.clone().into_iter().collect(),
            ..self.metadata(id, &resource.phase)
        };
        Resource { metadata: Some(metadata), spec: Some(resource.encoded(self.of.name, self.version)) }
    }

    /// The placeholder of a resource that does not exist.
    pub(super) fn tombstone(&self, id: &str) -> Resource {
        let metadata = Metadata { version: "undefined".to_owned(), ..self.metadata(id, "running") };
        Resource { metadata: Some(metadata), spec: Some(Spec::default()) }
    }

    fn metadata(&self, id: &str, phase: &str) -> Metadata {
        Metadata {
            namespace: self.namespace.clone(),
            r#type: self.name.clone(),
            id: id.to_owned(),
            phase: phase.to_owned(),
            ..Metadata::default()
        }
    }
}

#[tonic::async_trait]
impl state_server::State for State {
    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let call = Call::of(&request)?;
        let GetRequest { namespace, r#type, id, .. } = request.into_inner();
        let world = self.state.world();
        let source = Source::admit(&world, call, &namespace, &r#type)?;
        let all = source.all(&world);
        let Some(resource) = all.get(&id) else {
            let text = format!("resource {type}({namespace}/{id}@undefined) doesn't exist");
            return Err(Status::not_found(text));
        };
        Ok(Response::new(GetResponse { resource: Some(source.encode(&id, resource)) }))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<BoxStream<ListResponse>>, Status> {
        let call = Call::of(&request)?;
        let ListRequest { namespace, r#type, options } = request.into_inner();
        let options = options.unwrap_or_default();
        let query = Query::new(options.label_query, options.id_query.as_ref())?;
        let (source, all) = {
            let world = self.state.world();
            let source = Source::admit(&world, call, &namespace, &r#type)?;
            let all = source.all(&world);
            (source, all)
        };
        // Resources are encoded when they are sent: the first answer does not wait for all of them, and the world is
        // not locked meanwhile.
        let ids: Vec<_> = all.iter().filter(|(id, it)| query.fits(id, it)).map(|(id, _)| id.clone()).collect();
        let answers = ids.into_iter().filter_map(move |id| {
            let resource = source.encode(&id, all.get(&id)?);
            Some(Ok(ListResponse { resource: Some(resource) }))
        });
        Ok(Response::new(futures::stream::iter(answers).boxed()))
    }

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<BoxStream<WatchResponse>>, Status> {
        let call = Call::of(&request)?;
        let request = request.into_inner();
        let source = Source::admit(&self.state.world(), call, &request.namespace, &request.r#type)?;
        Ok(Response::new(watch::watch(Arc::clone(&self.state), source, request)?))
    }
}
