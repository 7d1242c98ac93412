//! What is lost proves nothing wrong: of a healthy cluster, whatever part of the answers is missing, no check says that it fails.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::model::{Fact, Role, Status};
use crate::snapshot::{GapKind, Snapshot, Sources};
use crate::testing::fixture::{Servers, Shape};
use crate::testing::laws::removal::{Removal, removals};
use crate::testing::laws::worlds::any_world;
use crate::testing::laws::{config, verdicts};

/// A connection that is cut, a question that nobody came to ask, an answer that nobody can read: all of them are the way's.
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

/// Where the absence itself is what is wrong: nobody is there, or the server that is judged is the one that does not answer.
fn is_evidence(removal: &Removal) -> bool {
    matches!(removal.fact, Fact::EndpointReadyz | Fact::ServerReadyz | Fact::ServerCheck)
        || matches!(removal.name.as_str(), "every node" | "an endpoint" | "all endpoints and nodes behind them")
}

/// What would have become of the population: a machine that only a lost list has named is not there, and one that has lost its own
/// word about what it is, and has no other's, is nothing.
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
        // What only the identity of the cluster excuses, a certificate of somebody else, is wrong where nobody can tell it.
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
