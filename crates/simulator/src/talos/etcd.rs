//! Talos's queries to etcd.

use std::net::IpAddr;
use std::time::Duration;

pub(super) use talos_api::machine::EtcdMembers as Members;
use talos_api::machine::etcd_member_alarm::AlarmType;
use talos_api::machine::{EtcdAlarm, EtcdMember, EtcdMemberAlarm, EtcdMemberStatus, EtcdStatus};
use tonic::Status;

use crate::state::ClusterState;
use crate::version::TalosVersion;
use crate::world::{Alarm, AlarmKind, EtcdCluster, Member, NO_LEADER, Power, Process, World};

/// Time that etcd waits for a leader before it reports that there is none.
const ELECTION: Duration = Duration::from_secs(3);
const STORAGE_VERSION_SINCE: TalosVersion = TalosVersion::new(11, 0);

/// The members according to the machine's own etcd, or to any etcd that it reaches.
pub(super) async fn members(state: &ClusterState, target: IpAddr, own: bool) -> Result<Members, Status> {
    let look = |world: &World| listed(world, target, own);
    let mut told = state.when(look).await;
    if told.is_err() {
        // The members may still elect a leader.
        let elected = state.when(|world| look(world)?.ok().map(Ok));
        told = tokio::time::timeout(ELECTION, elected).await.unwrap_or(told);
    }
    told
}

/// The immediate answer, or `None` if no member answers.
pub(super) fn listed(world: &World, target: IpAddr, own: bool) -> Option<Result<Members, Status>> {
    asked(world, target, own).map(list)
}

/// The status of the machine's own member.
pub(super) async fn status(state: &ClusterState, target: IpAddr) -> EtcdStatus {
    state
        .when(|world| {
            let (cluster, member) = running(world, target)?;
            let status = member_status(cluster, member, world.versions.talos);
            Some(EtcdStatus { metadata: None, member_status: Some(status) })
        })
        .await
}

/// The alarms of the whole cluster. Without a leader there is no answer.
pub(super) async fn alarms(state: &ClusterState, target: IpAddr) -> Result<EtcdAlarm, Status> {
    state
        .when(|world| {
            let (cluster, member) = running(world, target)?;
            if member.learner {
                return Some(Err(not_for_learners()));
            }
            cluster.leader()?;
            let member_alarms = cluster.alarms.iter().map(alarm).collect();
            Some(Ok(EtcdAlarm { metadata: None, member_alarms }))
        })
        .await
}

/// The member of a machine, if it answers.
fn running(world: &World, at: IpAddr) -> Option<(&EtcdCluster, &Member)> {
    world.etcd_of(at).filter(|(_, member)| member.process == Process::Running)
}

/// The member that answers with the list: only the machine's own, or the first one that can be reached.
fn asked(world: &World, target: IpAddr, own: bool) -> Option<(&EtcdCluster, &Member)> {
    let reached = |at: &IpAddr| *at == target || world.machines.get(at).is_some_and(|of| of.power == Power::On);
    let others = world.control_planes().filter(|at| !own && *at != target);
    std::iter::once(target).chain(others).filter(reached).find_map(|at| running(world, at))
}

fn list((cluster, member): (&EtcdCluster, &Member)) -> Result<Members, Status> {
    if member.learner {
        return Err(not_for_learners());
    }
    if cluster.leader().is_none() {
        return Err(Status::unknown(NO_LEADER));
    }
    let members = cluster.members.iter().map(|member| EtcdMember {
        id: member.id,
        hostname: member.name.clone(),
        peer_urls: member.peer_urls.clone(),
        client_urls: member.client_urls.clone(),
        is_learner: member.learner,
    });
    let legacy_members = cluster.members.iter().map(|member| member.name.clone()).collect();
    Ok(Members { metadata: None, legacy_members, members: members.collect() })
}

fn member_status(cluster: &EtcdCluster, member: &Member, talos: TalosVersion) -> EtcdMemberStatus {
    EtcdMemberStatus {
        protocol_version: member.version.clone(),
        db_size: member.db_size,
        db_size_in_use: member.db_size_in_use,
        leader: cluster.leader().map_or(0, |leader| leader.id),
        raft_index: cluster.raft_index,
        raft_term: cluster.raft_term,
        raft_applied_index: cluster.raft_index.saturating_sub(member.behind),
        errors: cluster.errors(member),
        is_learner: member.learner,
        member_id: member.id,
        storage_version: if talos < STORAGE_VERSION_SINCE { String::new() } else { cluster.storage_version(member) },
    }
}

fn alarm(alarm: &Alarm) -> EtcdMemberAlarm {
    let kind = match alarm.kind {
        AlarmKind::NoSpace => AlarmType::Nospace,
        AlarmKind::Corrupt => AlarmType::Corrupt,
    };
    EtcdMemberAlarm { member_id: alarm.member, alarm: kind.into() }
}

fn not_for_learners() -> Status {
    Status::unknown("etcdserver: rpc not supported for learner")
}
