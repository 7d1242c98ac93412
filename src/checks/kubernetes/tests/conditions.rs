//! Node conditions that are not set by the kubelet.

use crate::checks::kubernetes::tests::{judge, said};
use crate::snapshot::Snapshot;
use crate::testing::fixture::{condition, healthy};

fn with_condition(kind: &str, status: &str) -> Snapshot {
    let mut snapshot = healthy();
    snapshot.kube_node_mut("w-1").conditions.push(condition(kind, status, "DockerHung", "task blocked for 300 s"));
    snapshot
}

#[test]
fn conditions_of_others_warn_when_true() {
    let id = "k8s.nodes.conditions";
    for (kind, state, expected) in [
        ("KernelDeadlock", "True", &["warn node-condition w-1"][..]),
        ("VMEventScheduled", "True", &["warn node-condition w-1"]),
        ("ConsistentlyNotReady", "True", &["warn node-condition w-1"]),
        ("KernelDeadlock", "False", &[]),
        ("KernelDeadlock", "Unknown", &[]),
        // True is good, or judged elsewhere.
        ("EtcdIsVoter", "True", &[]),
        ("NetworkingReady", "True", &[]),
        ("NetworkUnavailable", "True", &[]),
    ] {
        assert_eq!(said(&with_condition(kind, state), id), expected, "{kind} {state}");
    }
    let mut guest = with_condition("KernelDeadlock", "True");
    guest.node_mut("w-1").is_talos = false;
    assert_eq!(said(&guest, id), [""; 0]);
}

#[test]
fn a_condition_that_the_user_names_fails() {
    let id = "k8s.nodes.conditions";
    let mut snapshot = with_condition("KernelDeadlock", "True");
    snapshot.asked.fail_on_node_condition = vec!["KernelDeadlock".to_owned()];
    assert_eq!(said(&snapshot, id), ["fail node-condition w-1"]);
    let problem = judge(&snapshot, id).problems().next().unwrap().1.clone();
    assert_eq!(problem.observed, "KernelDeadlock, DockerHung: task blocked for 300 s");
    // A condition that no component sets does not count as healthy.
    snapshot.asked.fail_on_node_condition = vec!["KernelDeadLock".to_owned()];
    assert_eq!(said(&snapshot, id), ["warn node-condition cluster", "warn node-condition w-1"]);
}
