//! What is proposed, and what must not be.

use super::*;

/// A single endpoint would be the next trouble.
#[test]
fn all_control_planes_are_proposed_as_endpoints() {
    let snapshot = broken(|snapshot| snapshot.talos_mut().endpoints[0].role = Ok(Some(Role::Worker)));
    let made = diagnosed(&snapshot);
    let remedies: Vec<_> = made[0].next.iter().filter(|hint| matches!(hint, Hint::Remedy { .. })).collect();
    let Hint::Remedy { command, arguments } = remedies[0] else { unreachable!() };
    assert!(command.ends_with("config endpoint {*}"), "{command}");
    assert_eq!(arguments[2..], ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
}

/// The commands that change something, of all diagnoses.
fn changes(snapshot: &Snapshot) -> Vec<&'static str> {
    let hints = diagnosed(snapshot).into_iter().flat_map(|diagnosis| diagnosis.next);
    hints
        .filter_map(|hint| match hint {
            Hint::Remedy { command, .. } => Some(command),
            _ => None,
        })
        .collect()
}

/// A worker that has been off for half an hour looks as one that was removed does.
#[test]
fn no_node_is_deleted_that_may_only_be_off() {
    let mut snapshot = broken(|snapshot| unreached(snapshot, GapKind::NodeUnreachable));
    snapshot.node_mut("w-1").sources.discovery = false;
    silent(&mut snapshot);
    let made = diagnosed(&snapshot);
    assert!(made[0].headline.starts_with("10.0.0.4 (w-1) was removed or has long been off"), "{}", made[0].headline);
    assert_eq!(changes(&snapshot), [""; 0]);
}

/// The Kubernetes that does not know the machine must be this cluster's.
#[test]
fn no_member_is_removed_on_the_word_of_another_cluster() {
    let mut snapshot = broken(stale_member);
    assert_eq!(changes(&snapshot), ["{talosctl} -n {} etcd remove-member {}"]);
    for node in snapshot.kube().nodes.as_mut().unwrap() {
        node.name.insert_str(0, "other-");
        node.addresses.clear();
    }
    assert_eq!(changes(&snapshot), [""; 0]);
}

/// Its old vote has to go before it joins again.
#[test]
fn a_voter_that_was_wiped_is_not_configured_at_once() {
    assert_eq!(changes(&broken(|snapshot| unreached(snapshot, GapKind::Maintenance))).len(), 1);
    let voter = broken(|snapshot| {
        snapshot.node_mut("cp-3").talos = TalosNode::unasked(&Gap::new(GapKind::Maintenance, "maintenance"));
    });
    assert!(ids(&voter).contains(&"machine-unconfigured"));
    assert_eq!(changes(&voter), [""; 0]);
}

/// Nobody has looked for an API server, so there may be control planes with data that nobody knows of.
#[test]
fn no_cluster_is_bootstrapped_that_may_have_been() {
    let mut snapshot = broken(never_bootstrapped);
    assert_eq!(changes(&snapshot), ["{talosctl} -n {} bootstrap"]);
    snapshot.kube().endpoint = Err(Gap::not_asked());
    for server in snapshot.kube().servers.values_mut() {
        *server = Err(Gap::not_asked());
    }
    assert_eq!(ids(&snapshot), ["cluster-not-bootstrapped"]);
    assert_eq!(changes(&snapshot), [""; 0]);
}
