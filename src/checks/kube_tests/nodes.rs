use std::time::Duration;

use super::{judge, no, roots, said, status};
use crate::checks::Status;
use crate::checks::fixture::{ago, condition, healthy, kube_node, node, now};
use crate::snapshot::{GapKind, Snapshot, Sources};

fn set_ready(snapshot: &mut Snapshot, name: &str, state: &str, message: &str) {
    let conditions = &mut snapshot.kube_node_mut(name).conditions;
    conditions.retain(|condition| condition.kind != "Ready");
    conditions.push(condition("Ready", state, "KubeletNotReady", message));
}

#[test]
fn a_node_without_a_ready_condition_is_not_ready() {
    let mut snapshot = healthy();
    snapshot.kube_node_mut("w-1").conditions.clear();
    assert_eq!(said(&snapshot, "k8s.nodes.ready"), ["fail node-not-ready w-1"]);
    set_ready(&mut snapshot, "w-1", "Maybe", "");
    assert_eq!(said(&snapshot, "k8s.nodes.ready"), ["fail node-not-ready w-1"]);
}

#[test]
fn a_missing_network_plugin_is_told_apart() {
    let mut snapshot = healthy();
    set_ready(&mut snapshot, "w-1", "False", "Network plugin returns error: cni plugin not initialized");
    assert_eq!(said(&snapshot, "k8s.nodes.ready"), ["fail cni-missing w-1"]);
}

#[test]
fn a_stale_lease_is_looked_at_again() {
    let id = "k8s.nodes.ready";
    let mut snapshot = healthy();
    let lease = |snapshot: &mut Snapshot, seconds| {
        let leases = snapshot.kube().node_leases.as_mut().unwrap();
        leases.by_name.get_mut("w-1").unwrap().renewed = Some(ago(seconds));
    };
    lease(&mut snapshot, 40);
    assert_eq!(status(&snapshot, id), Status::Pass);
    lease(&mut snapshot, 41);
    assert_eq!(said(&snapshot, id), ["fail node-lease-stale w-1"]);
    assert_eq!(judge(&snapshot, id).resample_after, Some(Duration::from_secs(11)));
    let leases = snapshot.kube().node_leases.as_mut().unwrap();
    leases.by_name.get_mut("w-1").unwrap().moved_within = Some(Duration::from_secs(12));
    assert_eq!(status(&snapshot, id), Status::Pass);
    // A clock that runs far ahead keeps a dead kubelet's lease fresh for ever.
    let leases = snapshot.kube().node_leases.as_mut().unwrap();
    let lease = leases.by_name.get_mut("w-1").unwrap();
    (lease.moved_within, lease.renewed) = (None, Some(now() + jiff::SignedDuration::from_hours(1)));
    assert_eq!(said(&snapshot, id), ["fail node-lease-stale w-1"]);
    snapshot.kube().node_leases.as_mut().unwrap().by_name.remove("w-1");
    assert_eq!(said(&snapshot, id), ["fail node-lease-stale w-1"]);
    snapshot.kube().node_leases.as_mut().unwrap().date = None;
    assert_eq!(said(&snapshot, id).len(), 4);
}

#[test]
fn a_crashing_kubelet_blocks_what_it_tells() {
    let mut snapshot = healthy();
    let kubelet = snapshot.service_mut("w-1", "kubelet");
    (kubelet.state, kubelet.healthy) = ("Waiting".to_owned(), Some(false));
    snapshot.talos_of("w-1").static_pod_statuses = Ok(Vec::new());
    set_ready(&mut snapshot, "w-1", "Unknown", "Kubelet stopped posting node status.");
    assert_eq!(said(&snapshot, "k8s.nodes.ready"), ["fail node-not-ready w-1 < talos.nodes.kubelet"]);
    assert_eq!(said(&snapshot, "k8s.staticpods.running"), ["blocked w-1 < talos.nodes.kubelet"]);
    assert_eq!(roots(&snapshot), Vec::<String>::new(), "Talos has named the kubelet");
}

#[test]
fn missing_and_stale_nodes_are_found() {
    let id = "k8s.nodes.registered";
    let mut snapshot = healthy();
    snapshot.kube().nodes.as_mut().unwrap().retain(|node| node.name != "w-1");
    assert_eq!(said(&snapshot, id), ["fail node-not-registered w-1"]);
    assert_eq!(said(&snapshot, "k8s.nodes.ready"), ["blocked w-1 < k8s.nodes.registered"]);

    let mut stale = healthy();
    let mut gone = node(4, "w-2");
    gone.sources = Sources { kubernetes: true, ..Sources::default() };
    gone.talos.contact = no(GapKind::NodeUnreachable);
    stale.nodes.push(gone);
    stale.kube().nodes.as_mut().unwrap().push(kube_node(4, "w-2"));
    assert_eq!(status(&stale, id), Status::Pass);
    set_ready(&mut stale, "w-2", "Unknown", "");
    assert_eq!(said(&stale, id), ["fail stale-node-object w-2"]);
    // Without discovery nobody can know.
    stale.talos_mut().discovery = no(GapKind::Forbidden);
    assert_eq!(said(&stale, id), ["blocked w-2 < talos.nodes.reachable"]);
}

#[test]
fn guests_only_warn_and_leaving_nodes_are_passed_over() {
    let mut snapshot = healthy();
    set_ready(&mut snapshot, "w-1", "False", "");
    snapshot.node_mut("w-1").is_talos = false;
    assert_eq!(said(&snapshot, "k8s.nodes.ready"), ["warn not-talos-not-ready w-1"]);
    snapshot.node_mut("w-1").leaving = true;
    assert_eq!(status(&snapshot, "k8s.nodes.ready"), Status::Pass);
    // Where no node is a Talos machine, all count in full.
    let mut other = snapshot.without_talos();
    for node in &mut other.nodes {
        (node.is_talos, node.leaving) = (false, false);
    }
    assert_eq!(said(&other, "k8s.nodes.ready"), ["fail node-not-ready w-1"]);
}

#[test]
fn cordons_and_taints_warn() {
    let id = "k8s.nodes.schedulable";
    let mut snapshot = healthy();
    snapshot.kube_node_mut("cp-1").unschedulable = true;
    snapshot.kube_node_mut("cp-2").unschedulable = true;
    snapshot.kube_node_mut("cp-2").cordoned_by_talos = true;
    snapshot.kube_node_mut("w-1").taints = vec!["node.cloudprovider.kubernetes.io/uninitialized".to_owned()];
    assert_eq!(said(&snapshot, id), ["warn cordoned cp-1", "warn cordoned-by-talos cp-2", "warn uninitialised w-1"]);
}

#[test]
fn machines_that_share_an_address_have_an_object_each() {
    let mut snapshot = healthy();
    let mut other = node(4, "w-2");
    // The address of a NAT, which Talos tells of both.
    other.addresses.push("203.0.113.7".to_owned());
    snapshot.nodes.push(other);
    snapshot.kube_node_mut("w-1").addresses.push("203.0.113.7".to_owned());
    assert_eq!(said(&snapshot, "k8s.nodes.registered"), ["fail node-not-registered w-2"]);
    assert_eq!(said(&snapshot, "k8s.nodes.ready"), ["blocked w-2 < k8s.nodes.registered"]);
}

#[test]
fn without_talos_stated_numbers_are_still_seen() {
    let id = "k8s.nodes.registered";
    let mut snapshot = healthy().without_talos();
    assert_eq!(status(&snapshot, id), Status::Skip);
    snapshot.asked.expect_workers = Some(1);
    assert_eq!(status(&snapshot, id), Status::Pass);
    snapshot.asked.expect_workers = Some(2);
    assert_eq!(said(&snapshot, id), ["fail node-missing cluster"]);
    snapshot.kube().nodes = no(GapKind::TimedOut);
    assert_eq!(said(&snapshot, id), ["error timed-out cluster"]);

    let mut named = healthy().without_talos();
    named.asked.worker_nodes = vec!["w-1".to_owned(), "w-9".to_owned()];
    named.nodes.iter_mut().for_each(|node| node.sources.flags = true);
    assert_eq!(said(&named, id), ["fail node-missing w-9"]);
}

#[test]
fn pressure_fails_and_a_silent_kubelet_says_nothing() {
    let id = "k8s.nodes.pressure";
    let set = |snapshot: &mut Snapshot, kind: &str, state: Option<&str>| {
        let conditions = &mut snapshot.kube_node_mut("w-1").conditions;
        conditions.retain(|condition| condition.kind != kind);
        conditions.extend(state.map(|state| condition(kind, state, "Because", "")));
    };
    for kind in ["MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"] {
        let mut snapshot = healthy();
        set(&mut snapshot, kind, Some("True"));
        assert_eq!(said(&snapshot, id), ["fail node-pressure w-1"], "{kind}");
        set(&mut snapshot, kind, Some("Unknown"));
        assert_eq!(said(&snapshot, id), ["error no-answer w-1"], "{kind}");
        set(&mut snapshot, kind, None);
        let required = kind != "NetworkUnavailable";
        assert_eq!(said(&snapshot, id).len(), usize::from(required), "{kind}");
        set(&mut snapshot, kind, Some("False"));
        assert_eq!(status(&snapshot, id), Status::Pass, "{kind}");
    }
    // A kubelet that is alive and not ready still tells of its resources.
    let mut snapshot = healthy();
    set_ready(&mut snapshot, "w-1", "False", "");
    assert_eq!(status(&snapshot, id), Status::Pass);
    set(&mut snapshot, "DiskPressure", Some("True"));
    assert_eq!(said(&snapshot, id), ["fail node-pressure w-1"]);
    // One that has fallen silent said it a while ago.
    let mut snapshot = healthy();
    let leases = snapshot.kube().node_leases.as_mut().unwrap();
    leases.by_name.get_mut("w-1").unwrap().renewed = Some(ago(41));
    assert_eq!(said(&snapshot, id), ["blocked w-1 < k8s.nodes.ready"]);
    let mut off = healthy();
    off.power_off("cp-2");
    assert_eq!(said(&off, id), ["blocked cp-2 < k8s.nodes.ready"]);
    // Of guests only readiness counts.
    let mut guest = healthy();
    set(&mut guest, "DiskPressure", Some("True"));
    guest.node_mut("w-1").is_talos = false;
    assert_eq!(status(&guest, id), Status::Pass);
}

#[test]
fn without_talos_nodes_that_nobody_asked_for_are_a_warning() {
    let mut named = healthy().without_talos();
    named.asked.worker_nodes = vec!["w-1".to_owned()];
    for name in ["w-1", "cp-1", "cp-2"] {
        named.node_mut(name).sources.flags = true;
    }
    assert_eq!(said(&named, "k8s.nodes.registered"), ["warn node-unexpected cp-3"]);
    set_ready(&mut named, "cp-3", "False", "");
    assert_eq!(status(&named, "k8s.nodes.ready"), Status::Pass);
}

/// A kubelet that has never reported has not told its system. That is no guest.
#[test]
fn what_a_node_runs_has_to_be_told_before_it_counts_for_less() {
    for (image, expected) in [("Ubuntu 24.04", "warn not-talos-not-ready w-1"), ("", "fail node-not-ready w-1")] {
        let mut snapshot = healthy().without_talos();
        set_ready(&mut snapshot, "w-1", "False", "test");
        snapshot.node_mut("w-1").is_talos = false;
        image.clone_into(&mut snapshot.kube_node_mut("w-1").os_image);
        assert_eq!(said(&snapshot, "k8s.nodes.ready"), [expected]);
    }
}

/// `w-1` has another name by now; the fixture's machines show no ids, so this one gets some.
fn renamed() -> Snapshot {
    let mut snapshot = healthy();
    snapshot.kube_node_mut("w-1").machine_id = "072f".to_owned();
    let node = snapshot.node_mut("w-1");
    (node.machine_id, node.name) = (Some("072f".to_owned()), "w-one".to_owned());
    snapshot
}

#[test]
fn a_machine_that_has_registered_under_another_name_is_told_as_such() {
    let mut snapshot = renamed();
    assert_eq!(said(&snapshot, "k8s.nodes.registered"), ["fail nodename-mismatch w-one"]);
    assert_eq!(status(&snapshot, "k8s.nodes.ready"), Status::Pass, "its Node is judged as its own");
    // Capital letters are no other name.
    snapshot.node_mut("w-one").name = "W-1".to_owned();
    assert_eq!(status(&snapshot, "k8s.nodes.registered"), Status::Pass);
    // Who shows another id is another machine, though it is at the same address.
    let mut other = renamed();
    other.kube_node_mut("w-1").machine_id = "e875".to_owned();
    let mut own = node(3, "w-1");
    own.sources = Sources { kubernetes: true, ..Sources::default() };
    own.talos.contact.as_mut().unwrap().answered_by_other = Some("w-one".to_owned());
    other.nodes.push(own);
    assert_eq!(said(&other, "k8s.nodes.registered"), ["fail node-not-registered w-one"]);
    set_ready(&mut other, "w-1", "Unknown", "");
    assert_eq!(said(&other, "k8s.nodes.registered"), ["fail node-not-registered w-one", "fail stale-node-object w-1"]);
}

#[test]
fn an_internal_address_is_the_machines_and_nobody_elses() {
    let id = "k8s.nodes.registered";
    let set = |snapshot: &mut Snapshot, name: &str, address: &str| {
        let node = snapshot.kube_node_mut(name);
        (node.internal, node.addresses) = (vec![address.to_owned()], vec![address.to_owned()]);
    };
    let mut foreign = healthy();
    set(&mut foreign, "w-1", "10.0.9.9");
    assert_eq!(said(&foreign, id), ["fail node-address w-1"]);
    // The machine answers there: addresses are translated on the way.
    let contact = foreign.talos_of("w-1").contact.as_mut().unwrap();
    contact.address = "10.0.9.9".to_owned();
    assert_eq!(status(&foreign, id), Status::Pass);
    // Nobody tells what it has, or it has told nothing itself.
    let mut untold = healthy();
    set(&mut untold, "w-1", "10.0.9.9");
    untold.node_mut("w-1").own_addresses.clear();
    assert_eq!(status(&untold, id), Status::Pass);
    untold.node_mut("w-1").own_addresses = vec!["10.0.0.4".to_owned()];
    untold.talos_of("w-1").contact = no(GapKind::NodeUnreachable);
    assert_eq!(status(&untold, id), Status::Pass, "`talos.nodes.reachable` tells it");

    // One address of two Nodes: whoever has it is right.
    let mut shared = healthy();
    set(&mut shared, "w-1", "10.0.0.3");
    assert_eq!(said(&shared, id), ["fail node-address w-1"]);
    shared.node_mut("w-1").own_addresses.push("10.0.0.3".to_owned());
    assert_eq!(said(&shared, id), ["fail node-address cp-3", "fail node-address w-1"]);
    // One of two addresses is its own, and that is not the one which it shares.
    let mut two = healthy();
    two.kube_node_mut("w-1").internal.push("10.0.0.3".to_owned());
    assert_eq!(status(&two, id), Status::Pass, "nobody else may have it");
    // Guests may pose as many nodes at one address.
    shared.node_mut("w-1").is_talos = false;
    assert_eq!(status(&shared, id), Status::Pass);

    // Two families, several networks and an external address.
    let mut several = healthy();
    several.kube_node_mut("w-1").internal = vec!["2001:db8::4".to_owned(), "10.0.0.4".to_owned()];
    several.node_mut("w-1").own_addresses.insert(0, "192.168.7.4".to_owned());
    several.kube_node_mut("cp-1").internal.clear();
    assert_eq!(status(&several, id), Status::Pass);
}

#[test]
fn two_machines_of_one_name_are_a_warning() {
    let mut snapshot = healthy();
    snapshot.kube_node_mut("w-1").machine_id = "072f".to_owned();
    snapshot.node_mut("w-1").machine_id = Some("e875".to_owned());
    assert_eq!(said(&snapshot, "k8s.nodes.registered"), ["warn duplicate-name w-1"]);
    snapshot.kube_node_mut("w-1").machine_id.clear();
    assert_eq!(status(&snapshot, "k8s.nodes.registered"), Status::Pass, "Kubernetes does not tell");
}
