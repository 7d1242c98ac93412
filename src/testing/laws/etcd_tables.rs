//! Wrong values in etcd's answers, through Talos and through its own API.

use std::time::Duration;

use crate::model::Fact;
use crate::snapshot::{AlarmKind, EtcdAlarm, EtcdEndpoint, EtcdMember, EtcdSpec, EtcdStatus, RaftProgress, Snapshot};
use crate::testing::laws::corruption::{Corruption, Table, at, bad, differs, harmless, table, warns};
use crate::testing::laws::tables::{SHOWN, control_planes};

fn statuses(snapshot: &mut Snapshot) -> Vec<&mut EtcdStatus> {
    control_planes(snapshot).into_iter().flat_map(|node| &mut node.etcd_status).collect()
}

fn specs(snapshot: &mut Snapshot) -> Vec<&mut EtcdSpec> {
    control_planes(snapshot).into_iter().flat_map(|node| &mut node.etcd_spec).flatten().collect()
}

/// Returns the specs if Talos is about to be upgraded.
fn specs_of_upgrades(snapshot: &mut Snapshot) -> Vec<&mut EtcdSpec> {
    let is_asked = snapshot.asked.upgrade.talos.is_some();
    specs(snapshot).into_iter().filter(|_| is_asked).collect()
}

/// Wrong values of etcd through Talos.
pub(super) fn of_talos(to: &mut Vec<Corruption>) {
    at(to, "control plane", &[Fact::EtcdMembership, Fact::EtcdSpecs], statuses, etcd_status());
    at(to, "control plane", &[Fact::EtcdSpecs], specs, quota());
    at(to, "control plane", &[Fact::EtcdSpecs], specs_of_upgrades, etcd_spec());
    at(
        to,
        "control plane",
        &[Fact::EtcdMembership],
        |it| control_planes(it).into_iter().flat_map(|it| &mut it.etcd_members).flatten().collect(),
        etcd_member(),
    );
}

/// Wrong values of etcd through its own API.
pub(super) fn of_external_etcd() -> Vec<Corruption> {
    let mut all = Vec::new();
    let of_etcd = &[Fact::EtcdMembership, Fact::EtcdAlarms];
    at(&mut all, "etcd", of_etcd, |it| it.external_etcd.iter_mut().flatten().collect(), etcd_endpoint());
    at(
        &mut all,
        "etcd",
        of_etcd,
        |it| it.external_etcd.iter_mut().flatten().flat_map(|it| &mut it.members).flatten().collect(),
        etcd_member(),
    );
    all
}

/// A member of another cluster.
pub(super) fn stranger() -> EtcdMember {
    let url = |port: u16| vec![format!("https://10.9.9.9:{port}")];
    let name = "somebody".to_owned();
    EtcdMember { id: 7, name, peer_urls: url(2380), client_urls: url(2379), is_learner: false }
}

fn etcd_status() -> Table<EtcdStatus> {
    table!(EtcdStatus {
        member_id: [bad(|it| it.member_id = 0), bad(|it| it.member_id = 7)],
        leader: [bad(|it| it.leader = 0), bad(|it| it.leader = 7)],
        raft_term: [differs(|it| it.raft_term += 1), bad(|it| it.raft_term = 0)],
        raft_index: [bad(|it| it.raft_index = 0), bad(|it| it.raft_index = u64::MAX)],
        raft_applied_index: [bad(|it| it.raft_applied_index = 0)],
        is_learner: [bad(|it| it.is_learner = true)],
        errors: [
            bad(|it| it.errors.push("etcdserver: no leader".to_owned())),
            bad(|it| it.errors.push(format!("memberID:{} alarm:NOSPACE ", it.member_id))),
            bad(|it| it.errors.push(String::new())),
        ],
        db_size: [bad(|it| it.db_size = 0), bad(|it| it.db_size = u64::MAX), warns(|it| it.db_size = 1_800_000_000)],
        db_size_in_use: [harmless("small files are not worth it", |it| it.db_size_in_use = 1)],
        quota: [harmless("Talos tells it", |it| it.quota = Some(1))],
        version: [bad(|it| it.version.clear()), warns(|it| it.version = "3.6.15".to_owned())],
        storage_version: [harmless("not every version tells it", |it| it.storage_version.clear())],
        earlier: [harmless("it is not behind", |it| it.earlier = Some(RaftProgress { index: 1, applied: 1 }))],
        slower: [harmless("one sample proves nothing", |it| it.slower = Duration::from_secs(9))],
    })
}

fn quota() -> Table<EtcdSpec> {
    let off = harmless("the quota is off", |it: &mut EtcdSpec| it.quota = Some(-1));
    vec![("quota", vec![bad(|it| it.quota = Some(1)), off])]
}

fn etcd_spec() -> Table<EtcdSpec> {
    table!(EtcdSpec {
        quota: [bad(|it| it.quota = Some(1))],
        image: [
            bad(|it| it.image.clear()),
            bad(|it| it.image = "registry.k8s.io/etcd@sha256:5eed".to_owned()),
            bad(|it| it.image = "registry.k8s.io/etcd:v3.8.0".to_owned()),
        ],
        arguments: [bad(|it| it.arguments.push("enable-v2".to_owned()))],
    })
}

fn etcd_member() -> Table<EtcdMember> {
    table!(EtcdMember {
        id: [bad(|it| it.id = 0), bad(|it| it.id = 7)],
        name: [harmless("empty for a while after a restart", |it| it.name.clear())],
        peer_urls: [harmless("ids are compared", |it| it.peer_urls.clear())],
        client_urls: [harmless("ids are compared", |it| it.client_urls.clear())],
        is_learner: [bad(|it| it.is_learner = true)],
    })
}

fn etcd_endpoint() -> Table<EtcdEndpoint> {
    table!(EtcdEndpoint {
        address: [harmless(SHOWN, |it| it.address.clear())],
        status: [
            bad(|it| it.status.as_mut().unwrap().leader = 0),
            bad(|it| it.status.as_mut().unwrap().member_id = 7),
            bad(|it| it.status.as_mut().unwrap().raft_term += 1),
            bad(|it| it.status.as_mut().unwrap().quota = Some(1)),
            bad(|it| it.status.as_mut().unwrap().is_learner = true),
        ],
        members: [bad(|it| it.members.as_mut().unwrap().clear()), bad(|it| it.members = Ok(vec![stranger()]))],
        alarms: [bad(|it| it.alarms = Ok(vec![EtcdAlarm { member_id: 7, kind: AlarmKind::Corrupt }]))],
    })
}
