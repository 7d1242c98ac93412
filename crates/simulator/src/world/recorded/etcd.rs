//! etcd, according to the recorded answers about its members.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::recording::Recording;
use super::talos::{items, text};
use crate::cosi::kind;
use crate::world::{Alarm, AlarmKind, EtcdCluster, Member, World};

pub(super) fn tell(world: &mut World, recording: &Recording) {
    if !recording.talos().any(|call| call.short_method().starts_with("Etcd")) {
        return;
    }
    let at = |name: &str| world.machine(name).map(|(at, _)| at);
    let listed = recording.answers("EtcdMemberList").next();
    let mut members: Vec<_> = match listed {
        Some((call, _)) => items(&call.part()["members"]).map(|told| member(told, at)).collect(),
        // A machine knows its own member's id, even if no list of members was recorded.
        None => world.control_planes().filter_map(|at| own(world, at)).collect(),
    };
    let mut cluster = EtcdCluster { id: 0x9d5f_2c01_77ab_e340, ..EtcdCluster::default() };
    for (call, at) in recording.answers("EtcdStatus") {
        let status = &call.part()["member_status"];
        let number = |key: &str| status[key].as_u64().unwrap_or_default();
        cluster.raft_index = cluster.raft_index.max(number("raft_index"));
        cluster.raft_term = cluster.raft_term.max(number("raft_term"));
        cluster.elected = Some(number("leader")).filter(|id| *id != 0).or(cluster.elected);
        if let Some(member) = members.iter_mut().find(|member| member.machine == Some(at)) {
            if listed.is_none() {
                member.id = number("member_id");
            }
            member.db_size = status["db_size"].as_i64().unwrap_or_default();
            member.db_size_in_use = status["db_size_in_use"].as_i64().unwrap_or_default();
            member.version = text(&status["protocol_version"]);
            member.learner = status["is_learner"] == json!(true);
            member.behind = number("raft_index").saturating_sub(number("raft_applied_index"));
        }
    }
    if let Some((call, _)) = recording.answers("EtcdAlarmList").next() {
        cluster.alarms = items(&call.part()["member_alarms"]).filter_map(alarm).collect();
    }
    cluster.members = members;
    world.etcd = if cluster.members.is_empty() { Vec::new() } else { vec![cluster] };
}

fn member(told: &Value, at: impl Fn(&str) -> Option<IpAddr>) -> Member {
    let name = text(&told["hostname"]);
    Member {
        id: told["id"].as_u64().unwrap_or_default(),
        machine: at(&name),
        name,
        peer_urls: items(&told["peer_urls"]).map(text).collect(),
        client_urls: items(&told["client_urls"]).map(text).collect(),
        learner: told["is_learner"] == json!(true),
        ..Member::default()
    }
}

/// The member of a machine, according to Talos's resources.
fn own(world: &World, at: IpAddr) -> Option<Member> {
    let machine = world.machines.get(&at)?;
    let id = machine.resources.get(kind::ETCD_MEMBERS, "local")?.spec()["memberID"].as_str()?;
    Some(Member {
        id: u64::from_str_radix(id, 16).ok()?,
        name: machine.name.clone(),
        machine: Some(at),
        peer_urls: vec![format!("https://{}:2380", crate::address::host(at))],
        client_urls: vec![format!("https://{}:2379", crate::address::host(at))],
        version: world.versions.etcd.clone(),
        ..Member::default()
    })
}

fn alarm(told: &Value) -> Option<Alarm> {
    let kind = match told["alarm"].as_i64()? {
        1 => AlarmKind::NoSpace,
        2 => AlarmKind::Corrupt,
        _ => return None,
    };
    Some(Alarm { member: told["member_id"].as_u64()?, kind })
}
