//! Answers of the members.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use tonic::body::Body;
use tonic::{Request, Response, Status};
use tower::ServiceExt as _;

use super::Asked;
use super::auth;
use super::proto::alarm_request::AlarmAction;
use super::proto::auth_server::{self, AuthServer};
use super::proto::cluster_server::{self, Cluster, ClusterServer};
use super::proto::kv_server::{self, Kv, KvServer};
use super::proto::maintenance_server::{self, Maintenance, MaintenanceServer};
use super::proto::{
    AlarmMember, AlarmRequest, AlarmResponse, AlarmType, DowngradeInfo, Member as ListedMember, MemberListRequest,
    MemberListResponse, RangeRequest, RangeResponse, ResponseHeader, StatusRequest, StatusResponse,
};
use crate::state::ClusterState;
use crate::world::{AlarmKind, EtcdCluster, Member, NO_LEADER};

/// Time limit of a member for agreeing with the others: 5 s, and two elections of 1 s.
const AGREEMENT: Duration = Duration::from_secs(7);

/// Default of `--quota-backend-bytes`.
const QUOTA: i64 = 2 << 30;

/// Header of a client that does not want to wait for a leader.
const REQUIRES_LEADER: (&str, &str) = ("hasleader", "true");

/// All members; the [`Asked`] of each call selects one.
#[derive(Clone)]
pub(super) struct Members {
    pub(super) state: Arc<ClusterState>,
}

impl Members {
    pub(super) fn new(state: Arc<ClusterState>) -> Self {
        Self { state }
    }

    /// Routes a request to the service that its path names. tonic's own router would add axum as a dependency, for four
    /// names.
    pub(super) async fn serve(self, request: http::Request<Incoming>) -> http::Response<Body> {
        let Ok(response) = match request.uri().path().split('/').nth(1) {
            Some(auth_server::SERVICE_NAME) => AuthServer::new(self).oneshot(request).await,
            Some(kv_server::SERVICE_NAME) => KvServer::new(self).oneshot(request).await,
            Some(cluster_server::SERVICE_NAME) => ClusterServer::new(self).oneshot(request).await,
            Some(maintenance_server::SERVICE_NAME) => MaintenanceServer::new(self).oneshot(request).await,
            _ => Ok(Status::unimplemented("").into_http()),
        };
        response
    }

    /// Reads the member that receives a call, and its cluster.
    pub(super) fn look<T>(&self, Asked(at): Asked, look: impl FnOnce(&EtcdCluster, &Member) -> T) -> Result<T, Status> {
        let world = self.state.world();
        let (cluster, member) = world.etcd_of(at).ok_or_else(|| Status::unavailable("etcdserver: server stopped"))?;
        Ok(look(cluster, member))
    }

    /// Checks that precede every call.
    pub(super) fn admit<T>(&self, request: &Request<T>, learners_answer: bool) -> Result<Asked, Status> {
        let asked = request.extensions().get::<Asked>().copied();
        let asked = asked.ok_or_else(|| Status::internal("the call has no member"))?;
        let (key, value) = REQUIRES_LEADER;
        let requires_leader = request.metadata().get(key).is_some_and(|given| given == value);
        self.look(asked, |cluster, member| {
            if member.learner && !learners_answer {
                Err(not_for_learners(member))
            } else if requires_leader && cluster.leader().is_none() {
                Err(Status::unavailable(NO_LEADER))
            } else {
                Ok(asked)
            }
        })?
    }

    /// Waits for a leader, like every operation on which the members have to agree.
    pub(super) async fn agree(&self, asked: Asked) -> Result<(), Status> {
        let Asked(at) = asked;
        let led = self.state.when(|world| world.etcd_of(at)?.0.leader().map(drop));
        let timed_out = |_| Status::unavailable("etcdserver: request timed out");
        tokio::time::timeout(AGREEMENT, led).await.map_err(timed_out)
    }
}

#[tonic::async_trait]
impl Kv for Members {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        let serializable = request.get_ref().serializable;
        let asked = self.admit(&request, serializable)?;
        if !serializable {
            self.agree(asked).await?;
        }
        self.look(asked, |cluster, _| auth::rights(cluster, request.metadata())?.of_root())??;
        self.look(asked, |cluster, member| Response::new(RangeResponse { header: Some(header(cluster, member)) }))
    }
}

#[tonic::async_trait]
impl Cluster for Members {
    async fn member_list(&self, request: Request<MemberListRequest>) -> Result<Response<MemberListResponse>, Status> {
        let asked = self.admit(&request, false)?;
        if request.get_ref().linearizable {
            self.agree(asked).await?;
        }
        self.look(asked, |cluster, member| auth::of_lists(cluster, member, request.metadata()))??;
        self.look(asked, |cluster, member| {
            let mut members: Vec<_> = cluster.members.iter().map(listed).collect();
            members.sort_unstable_by_key(|member| member.id);
            // Members are not part of the store, so its revision is not sent.
            let header = ResponseHeader { revision: 0, ..header(cluster, member) };
            Response::new(MemberListResponse { header: Some(header), members })
        })
    }
}

#[tonic::async_trait]
impl Maintenance for Members {
    async fn alarm(&self, request: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        let asked = self.admit(&request, false)?;
        if request.get_ref().action() != AlarmAction::Get {
            return Err(Status::unimplemented("alarms are raised and cleared by changing the simulated world"));
        }
        self.look(asked, |cluster, member| auth::of_lists(cluster, member, request.metadata()))??;
        let AlarmRequest { member_id: of, alarm: kind, .. } = *request.get_ref();
        self.agree(asked).await?;
        self.look(asked, |cluster, member| {
            let alarms = cluster.alarms.iter().map(|alarm| {
                let kind = match alarm.kind {
                    AlarmKind::NoSpace => AlarmType::Nospace,
                    AlarmKind::Corrupt => AlarmType::Corrupt,
                };
                AlarmMember { member_id: alarm.member, alarm: kind.into() }
            });
            // Zero selects all members or all kinds.
            let wanted = |alarm: &AlarmMember| (of == 0 || of == alarm.member_id) && (kind == 0 || kind == alarm.alarm);
            let alarms = alarms.filter(wanted).collect();
            Response::new(AlarmResponse { header: Some(header(cluster, member)), alarms })
        })
    }

    async fn status(&self, request: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let asked = self.admit(&request, true)?;
        self.look(asked, |cluster, member| auth::of_status(cluster, member, request.metadata()))??;
        self.look(asked, |cluster, member| Response::new(status(cluster, member)))
    }
}

pub(super) fn header(cluster: &EtcdCluster, member: &Member) -> ResponseHeader {
    ResponseHeader {
        cluster_id: cluster.id,
        member_id: member.id,
        // The revision is calculated as if every log entry were a write.
        revision: i64::try_from(applied(cluster, member)).unwrap_or(i64::MAX),
        raft_term: cluster.raft_term,
    }
}

fn applied(cluster: &EtcdCluster, member: &Member) -> u64 {
    cluster.raft_index.saturating_sub(member.behind)
}

fn listed(member: &Member) -> ListedMember {
    ListedMember {
        id: member.id,
        name: member.name.clone(),
        peer_ur_ls: member.peer_urls.clone(),
        client_ur_ls: member.client_urls.clone(),
        is_learner: member.learner,
    }
}

fn status(cluster: &EtcdCluster, member: &Member) -> StatusResponse {
    let status = StatusResponse {
        header: Some(header(cluster, member)),
        version: member.version.clone(),
        db_size: member.db_size,
        db_size_in_use: member.db_size_in_use,
        leader: cluster.leader().map_or(0, |leader| leader.id),
        raft_index: cluster.raft_index,
        raft_term: cluster.raft_term,
        raft_applied_index: applied(cluster, member),
        errors: cluster.errors(member),
        is_learner: member.learner,
        ..StatusResponse::default()
    };
    if member.minor() < 6 {
        return status;
    }
    StatusResponse {
        storage_version: cluster.storage_version(member),
        db_size_quota: cluster.quota.unwrap_or(QUOTA),
        downgrade_info: Some(DowngradeInfo {}),
        ..status
    }
}

fn not_for_learners(member: &Member) -> Status {
    let text = "etcdserver: rpc not supported for learner";
    if member.minor() < 6 { Status::unavailable(text) } else { Status::failed_precondition(text) }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::Network;
    use crate::pki::Pki;
    use crate::world::{Process, Shape, World};

    fn asked<T>(at: IpAddr, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.extensions_mut().insert(Asked(at));
        request
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_quorum_members_give_up_in_the_end() {
        let network = Network::claim().unwrap();
        let mut world = World::healthy(&network, &Shape::default());
        for member in &mut world.etcd[0].members[1..] {
            member.process = Process::Stopped;
        }
        let members = Members::new(Arc::new(ClusterState::new(world, Pki::new().unwrap(), network.balancer())));
        let at = network.machine(0);
        let begun = tokio::time::Instant::now();
        let (range, list, alarms) = tokio::join!(
            members.range(asked(at, RangeRequest::default())),
            members.member_list(asked(at, MemberListRequest { linearizable: true })),
            members.alarm(asked(at, AlarmRequest::default())),
        );
        for refused in [range.map(drop), list.map(drop), alarms.map(drop)] {
            assert_eq!(refused.unwrap_err().message(), "etcdserver: request timed out");
        }
        assert_eq!(begun.elapsed().as_secs(), 7);

        let mut waiting = Box::pin(members.range(asked(at, RangeRequest::default())));
        assert!(futures::poll!(&mut waiting).is_pending());
        members.state.change(|world| world.etcd[0].members[1].process = Process::Running);
        waiting.await.unwrap();
    }
}
