//! Lost answers are not evidence of a failure: in a healthy cluster, no check fails, regardless of which answers are missing.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::model::{Fact, Role, Status};
use crate::snapshot::{GapKind, Snapshot, Sources};
use crate::testing::fixture::{Servers, Shape};
use crate::testing::laws::removal::{Removal, removals};
use crate::testing::laws::worlds::any_world;
use crate::testing::laws::{config, verdicts};

/// A broken connection, a request that was not sent, an answer that cannot be parsed: all of them are failures of the connection.
const WAYS: [GapKind; 8] = [
    GapKind::Broken,
    GapKind::NotAsked,
    GapKind::Malformed,
    GapKind::TooLarge,
    GapKind::ServerError,
    GapKind::Throttled,
    GapKind::Unsupported,
    GapKind::Forbidden,
];

/// Returns whether the absence itself is the problem: no machine answers, or the judged server is the one that does not.
fn is_evidence(removal: &Removal) -> bool {
    matches!(removal.fact, Fact::EndpointReadyz | Fact::ServerReadyz | Fact::ServerCheck)
        || matches!(removal.name.as_str(), "every node" | "an endpoint" | "all endpoints and nodes behind them")
}

/// Adjusts the population to the lost answers: a machine that only a lost list named does not exist, and a machine without its own or any
/// other statement of its role has none.
fn settle(snapshot: &mut Snapshot) {
    let is_listed = snapshot.kubernetes.as_ref().is_some_and(|kubernetes| kubernetes.nodes.is_ok());
    let lists = snapshot.nodes.iter().flat_map(|node| node.talos.etcd_members.iter().flatten());
    let members: BTreeSet<String> = lists.map(|member| member.name.clone()).collect();
    for node in &mut snapshot.nodes {
        node.sources.kubernetes &= is_listed;
        node.sources.etcd = members.contains(&node.name);
        let is_told = node.talos.machine_type.is_ok() || node.sources.discovery || node.sources.etcd;
        if node.is_talos && node.talos.contact.is_ok() && !is_told {
            node.role = Role::Unknown;
        }
    }
    snapshot.nodes.retain(|node| {
        let Sources { discovery, kubernetes, flags, talosconfig, etcd } = node.sources;
        discovery || kubernetes || flags || talosconfig || etcd || node.talos.contact.is_ok()
    });
}

proptest! {
    #![proptest_config(config(192))]

    #[test]
    fn what_is_lost_proves_nothing_wrong(
        // Without the cluster's identity, a certificate of another CA cannot be excused and counts as a failure.
        shape in any_world().prop_map(|shape| match shape.servers {
            Servers::BehindProxy => Shape { servers: Servers::Direct, ..shape },
            _ => shape,
        }),
        way in 0..WAYS.len(),
        lost in prop::collection::vec(any::<prop::sample::Index>(), 1..60),
    ) {
        let mut snapshot = shape.world();
        let removals: Vec<Removal> = removals(&snapshot).into_iter().filter(|it| !is_evidence(it)).collect();
        prop_assume!(!removals.is_empty());
        let mut names = Vec::new();
        for index in lost {
            let removal = index.get(&removals);
            (removal.apply)(&mut snapshot, Some(WAYS[way]));
            names.push(&removal.name);
        }
        settle(&mut snapshot);
        for (check, verdict) in verdicts(&snapshot) {
            prop_assert!(
                verdict.status() != Status::Fail,
                "{} without {names:?} ({:?}): {:#?}", check.id, WAYS[way], verdict.findings
            );
        }
    }
}
