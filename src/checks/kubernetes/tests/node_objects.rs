//! Matching of Node objects and machines.

use crate::checks::kubernetes::tests::{said, status};
use crate::model::Status;
use crate::snapshot::{GapKind, Snapshot, Sources};
use crate::testing::fixture::{condition, healthy, kube_node};

fn set_ready(snapshot: &mut Snapshot, name: &str, state: &str, message: &str) {
    let conditions = &mut snapshot.kube_node_mut(name).conditions;
    conditions.retain(|condition| condition.kind != "Ready");
    conditions.push(condition("Ready", state, "KubeletNotReady", message));
}

#[test]
fn every_node_object_is_judged() {
    let id = "k8s.nodes.ready";
    let mut more = healthy();
    more.kube().nodes.as_mut().unwrap().push(kube_node(8, "w-9"));
    assert_eq!(said(&more, id), ["error node-unexpected w-9"]);
    // A Node with a known name or address is known.
    let mut moved = healthy();
    moved.kube_node_mut("w-1").addresses = vec!["10.5.5.5".to_owned()];
    assert_eq!(status(&moved, id), Status::Pass);
    let mut renamed = healthy();
    "worker".clone_into(&mut renamed.kube_node_mut("w-1").name);
    let leases = &mut renamed.kube().node_leases.as_mut().unwrap().by_name;
    let lease = leases.remove("w-1").unwrap();
    leases.insert("worker".to_owned(), lease);
    assert_eq!(said(&renamed, id), [""; 0]);
}

#[test]
fn where_discovery_tells_nothing_no_node_object_is_stale() {
    let mut snapshot = healthy();
    set_ready(&mut snapshot, "w-1", "Unknown", "");
    let node = snapshot.node_mut("w-1");
    node.sources = Sources { kubernetes: true, ..Default::default() };
    node.talos =
        crate::snapshot::TalosNode::unasked(&crate::snapshot::Gap::new(GapKind::NodeUnreachable, "no route")).into();
    assert_eq!(said(&snapshot, "k8s.nodes.registered"), ["fail stale-node-object w-1"]);
    snapshot.talos_mut().discovery = Ok(0);
    assert_eq!(said(&snapshot, "k8s.nodes.registered"), ["blocked w-1 < talos.nodes.reachable"]);
}

#[test]
fn an_unknown_object_is_not_that_of_whoever_lacks_one() {
    let mut snapshot = healthy();
    let objects = snapshot.kube().nodes.as_mut().unwrap();
    objects.retain(|object| object.name != "w-1");
    objects.push(kube_node(8, "w-9"));
    assert_eq!(said(&snapshot, "k8s.nodes.registered"), ["fail node-not-registered w-1"]);
}

#[test]
fn a_foreign_address_is_told_with_its_machine() {
    let mut snapshot = healthy();
    snapshot.kube_node_mut("w-1").internal = vec!["10.0.0.2".to_owned()];
    let verdict = crate::checks::kubernetes::tests::judge(&snapshot, "k8s.nodes.registered");
    let observed = verdict.problems().map(|(_, problem)| problem.observed.as_str()).collect::<Vec<_>>();
    assert!(observed.contains(&"10.0.0.2, an address of cp-2; the machine has 10.0.0.4"), "{observed:?}");
}

#[test]
fn only_its_own_static_pod_shows_that_a_control_plane_is_here() {
    let id = "k8s.controlplane.scheduler";
    let hosted = |name: &str, mirror: bool| {
        let mut snapshot = healthy().only(&["w-1"]).without_talos();
        let pods = snapshot.kube().pods.as_mut().unwrap();
        let mut pod = pods[0].clone();
        (pod.name, pod.mirror) = (name.to_owned(), mirror);
        pods.push(pod);
        status(&snapshot, id)
    };
    assert_eq!(hosted("kube-apiserver-w-1", true), Status::Error);
    assert_eq!(hosted("own-w-1", true), Status::Skip);
    assert_eq!(hosted("kube-apiserver-proxy", false), Status::Skip);
}

#[test]
fn whoever_answers_in_anothers_place_says_nothing_of_its_versions() {
    let mut snapshot = healthy();
    let talos = snapshot.talos_of("cp-2");
    let contact = talos.contact.as_mut().unwrap();
    contact.answered_by_other = Some("w-1".to_owned());
    talos.nodename = Ok(None);
    talos.services.as_mut().unwrap().retain(|service| service.id != "kubelet");
    let said = said(&snapshot, "k8s.controlplane.versions");
    assert!(said.contains(&"blocked cp-2 < talos.nodes.reachable".to_owned()), "{said:?}");
}

/// If other control planes run the component, it is not disabled.
#[test]
fn to_leave_a_check_out_is_proposed_only_where_nobody_runs_its_component() {
    let proposed = |id: &str, pod: &str| {
        let mut snapshot = healthy().without_talos();
        snapshot.kube().pods.as_mut().unwrap().retain(|it| !it.name.starts_with(pod));
        let verdict = crate::checks::kubernetes::tests::judge(&snapshot, id);
        let hints: Vec<_> = verdict.problems().flat_map(|(_, problem)| problem.hints.clone()).collect();
        hints.iter().any(|hint| matches!(hint, crate::model::Hint::Likely(text) if text.contains("--skip")))
    };
    assert!(proposed("k8s.controlplane.scheduler", "kube-scheduler"));
    assert!(!proposed("k8s.controlplane.scheduler", "kube-scheduler-cp-2"));
    assert!(!proposed("k8s.controlplane.apiserver", "kube-apiserver"), "it cannot be switched off");
    let mut held = healthy().without_talos();
    let lease = held.kube().system_leases.as_mut().unwrap().by_name.get_mut("kube-scheduler").unwrap();
    lease.holder = Some("outside_1f0c".to_owned());
    assert_eq!(
        crate::checks::kubernetes::tests::lines(&held, "k8s.controlplane.scheduler"),
        ["kube-scheduler: running"]
    );
}
