//! What is lost proves nothing wrong: of a healthy cluster, whatever part of the answers is missing, no check says that it fails.

use proptest::prelude::*;

use crate::model::{Fact, Role, Status};
use crate::snapshot::{GapKind, Snapshot};
use crate::testing::laws::removal::{Removal, removals};
use crate::testing::laws::worlds::any_world;
use crate::testing::laws::{config, verdicts};

/// A connection that is cut, a question that nobody came to ask, an answer that nobody can read: all of them are the way's.
const WAYS: [GapKind; 4] = [GapKind::Broken, GapKind::NotAsked, GapKind::Malformed, GapKind::TooLarge];

/// Where the absence itself is what is wrong: nobody is there, or the server that is judged is the one that does not answer.
fn is_evidence(removal: &Removal) -> bool {
    matches!(removal.fact, Fact::EndpointReadyz | Fact::ServerReadyz | Fact::ServerCheck)
        || matches!(removal.name.as_str(), "every node" | "an endpoint" | "all endpoints and nodes behind them")
}

/// What the snapshot would have become of: who has lost its own word about what it is, and has no other's.
fn roles_follow(snapshot: &mut Snapshot) {
    let names: Vec<String> = snapshot
        .nodes
        .iter()
        .flat_map(|node| node.talos.etcd_members.iter().flatten())
        .map(|it| it.name.clone())
        .collect();
    for node in snapshot.nodes.iter_mut().filter(|node| node.is_talos && node.talos.contact.is_ok()) {
        if node.talos.machine_type.is_err() && !node.sources.discovery && !names.contains(&node.name) {
            node.role = Role::Unknown;
        }
    }
}

proptest! {
    #![proptest_config(config(192))]

    #[test]
    fn what_is_lost_proves_nothing_wrong(
        shape in any_world(),
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
        roles_follow(&mut snapshot);
        for (check, verdict) in verdicts(&snapshot) {
            prop_assert!(
                verdict.status() != Status::Fail,
                "{} without {names:?} ({:?}): {:#?}", check.id, WAYS[way], verdict.findings
            );
        }
    }
}
