use std::time::Duration;

use crate::checks::kubernetes::tests::{judge, no, roots, said, status};
use crate::model::Status;
use crate::snapshot::{Gap, GapKind, LinkAddress, Pod, PodState, Snapshot, Sources, System, TalosNode, Workload};
use crate::testing::fixture::{Shape, Sides, ago, condition, healthy, kube_node, node, now, taint};

pub(super) fn set_ready(snapshot: &mut Snapshot, name: &str, state: &str, message: &str) {
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
    // A clock that is far ahead would keep a dead kubelet's lease fresh forever.
    let leases = snapshot.kube().node_leases.as_mut().unwrap();
    let lease = leases.by_name.get_mut("w-1").unwrap();
    (lease.moved_within, lease.renewed) = (None, Some(now() + jiff::SignedDuration::from_hours(1)));
    assert_eq!(said(&snapshot, id), ["fail node-lease-stale w-1"]);
    snapshot.kube().node_leases.as_mut().unwrap().by_name.remove("w-1");
    assert_eq!(said(&snapshot, id), ["fail node-lease-stale w-1"]);
    snapshot.kube().node_leases.as_mut().unwrap().date = None;
    assert_eq!(said(&snapshot, id).len(), 4);
}

/// `nodeLeaseDurationSeconds` of the kubelet's configuration: the kubelet renews the lease four times in that period.
#[test]
fn a_lease_lives_as_long_as_it_says_within_bounds() {
    let id = "k8s.nodes.ready";
    for (lasts, alive) in [(None, 40), (Some(20), 20), (Some(40), 40), (Some(300), 300), (Some(3600), 300)] {
        let mut snapshot = healthy();
        let lease = |snapshot: &mut Snapshot, age, moved: Option<u64>| {
            let leases = snapshot.kube().node_leases.as_mut().unwrap();
            let lease = leases.by_name.get_mut("w-1").unwrap();
            lease.lasts = lasts.map(Duration::from_secs);
            (lease.renewed, lease.moved_within) = (Some(ago(age)), moved.map(Duration::from_secs));
        };
        lease(&mut snapshot, alive, None);
        assert_eq!(status(&snapshot, id), Status::Pass, "{lasts:?}");
        lease(&mut snapshot, alive + 1, None);
        assert_eq!(said(&snapshot, id), ["fail node-lease-stale w-1"], "{lasts:?}");
        lease(&mut snapshot, 9999, Some(alive));
        assert_eq!(status(&snapshot, id), Status::Pass, "{lasts:?}");
        lease(&mut snapshot, 9999, Some(alive + 1));
        assert_eq!(said(&snapshot, id), ["fail node-lease-stale w-1"], "{lasts:?}");
    }
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
    // Without discovery this is unknown.
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
    // If no node is a Talos machine, all nodes count in full.
    let mut other = snapshot.without_talos();
    for node in &mut other.nodes {
        (node.is_talos, node.leaving) = (false, false);
    }
    assert_eq!(said(&other, "k8s.nodes.ready"), ["fail node-not-ready w-1"]);
}

/// The node is Ready in each round.
#[test]
fn a_node_that_was_not_ready_between_two_rounds_is_told() {
    let id = "k8s.nodes.ready";
    let since = |snapshot: &mut Snapshot, seconds: u64| {
        let conditions = &mut snapshot.kube_node_mut("w-1").conditions;
        conditions.iter_mut().filter(|it| it.kind == "Ready").for_each(|it| it.since = Some(ago(seconds)));
    };
    let next = |before: &Snapshot, seconds: u64| {
        let mut after = before.clone();
        after.memory = before.memory.after(before, Duration::from_secs(30));
        since(&mut after, seconds);
        after
    };
    let mut first = healthy();
    since(&mut first, 600);
    assert_eq!(said(&first, id), [""; 0]);
    assert_eq!(said(&next(&first, 600), id), [""; 0]);
    let flapped = next(&first, 5);
    assert_eq!(said(&flapped, id), ["warn node-flapping w-1"]);
    assert!(judge(&flapped, id).problems().all(|(_, problem)| problem.between_rounds));
    assert_eq!(said(&next(&flapped, 5), id), [""; 0], "it stays");
    // The change was observed in a round.
    set_ready(&mut first, "w-1", "False", "");
    let mut back = next(&first, 5);
    set_ready(&mut back, "w-1", "True", "");
    assert_eq!(said(&back, id), [""; 0]);
}

/// A machine that is back before the next round was still away.
#[test]
fn a_node_that_was_rebooted_between_two_rounds_is_told() {
    let id = "k8s.nodes.ready";
    let next = |before: &Snapshot, boot: &str| {
        let mut after = before.clone();
        after.memory = before.memory.after(before, Duration::from_secs(30));
        boot.clone_into(&mut after.kube_node_mut("w-1").boot_id);
        after
    };
    let first = healthy();
    let rebooted = next(&first, "another");
    assert_eq!(said(&rebooted, id), ["warn node-rebooted w-1"]);
    assert!(judge(&rebooted, id).problems().all(|(_, problem)| problem.between_rounds));
    assert_eq!(said(&next(&rebooted, "another"), id), [""; 0], "once");
    assert_eq!(said(&next(&first, ""), id), [""; 0], "who does not tell says nothing");
    let mut away = first;
    set_ready(&mut away, "w-1", "False", "");
    let mut back = next(&away, "another");
    set_ready(&mut back, "w-1", "True", "");
    assert_eq!(said(&back, id), [""; 0], "a round has seen it");
}

/// Two controllers write one condition, or one writes it twice.
#[test]
fn of_two_words_on_one_condition_the_worse_counts() {
    for (kind, status, id, expected) in [
        ("Ready", "False", "k8s.nodes.ready", "fail node-not-ready w-1"),
        ("Ready", "Unknown", "k8s.nodes.ready", "fail node-not-ready w-1"),
        ("DiskPressure", "True", "k8s.nodes.pressure", "fail node-pressure w-1"),
        ("MemoryPressure", "Unknown", "k8s.nodes.pressure", "error no-answer w-1"),
    ] {
        for at_front in [true, false] {
            let mut snapshot = healthy();
            let conditions = &mut snapshot.kube_node_mut("w-1").conditions;
            let at = if at_front { 0 } else { conditions.len() };
            conditions.insert(at, condition(kind, status, "", ""));
            assert_eq!(said(&snapshot, id), [expected], "{kind} {status} {at_front}");
        }
    }
}

#[test]
fn machines_that_share_an_address_have_an_object_each() {
    let mut snapshot = healthy();
    let mut other = node(4, "w-2");
    // The address of a NAT, which Talos reports for both machines.
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
    assert_eq!(said(&snapshot, id), ["error timed-out cluster < etcd.quorum"]);

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
        // On a ready node, the component that sets up the network need not have reported yet.
        let required = kind != "NetworkUnavailable";
        let severity = if required { "error" } else { "warn" };
        assert_eq!(said(&snapshot, id), [format!("{severity} no-answer w-1")], "{kind}");
        set(&mut snapshot, kind, Some("maybe"));
        assert_eq!(said(&snapshot, id), ["error no-answer w-1"], "{kind}");
        set(&mut snapshot, kind, None);
        assert_eq!(said(&snapshot, id).len(), usize::from(required), "{kind}");
        set(&mut snapshot, kind, Some("False"));
        assert_eq!(status(&snapshot, id), Status::Pass, "{kind}");
    }
    // A live kubelet that is not ready still reports its resources.
    let mut snapshot = healthy();
    set_ready(&mut snapshot, "w-1", "False", "");
    assert_eq!(status(&snapshot, id), Status::Pass);
    set(&mut snapshot, "NetworkUnavailable", Some("Unknown"));
    assert_eq!(said(&snapshot, id), ["error no-answer w-1"], "nobody knows whether it has a network");
    set(&mut snapshot, "DiskPressure", Some("True"));
    assert_eq!(said(&snapshot, id), ["fail node-pressure w-1"]);
    // The conditions of a silent kubelet are outdated.
    let mut snapshot = healthy();
    let leases = snapshot.kube().node_leases.as_mut().unwrap();
    leases.by_name.get_mut("w-1").unwrap().renewed = Some(ago(41));
    assert_eq!(said(&snapshot, id), ["blocked w-1 < k8s.nodes.ready"]);
    let mut off = healthy();
    off.power_off("cp-2");
    assert_eq!(said(&off, id), ["blocked cp-2 < k8s.nodes.ready"]);
    // For guests, only readiness counts.
    let mut guest = healthy();
    set(&mut guest, "DiskPressure", Some("True"));
    guest.node_mut("w-1").is_talos = false;
    assert_eq!(status(&guest, id), Status::Pass);
}

#[test]
fn a_network_takes_an_address_and_a_range_that_is_no_other_nodes() {
    let id = "k8s.nodes.pressure";
    let shared = |shape: &Shape| {
        let mut snapshot = shape.world();
        let range = snapshot.kube_node_mut("cp-1").pod_cidrs.clone();
        snapshot.kube_node_mut("w-1").pod_cidrs = range;
        said(&snapshot, id)
    };
    let [fail, warn] = ["fail", "warn"].map(|it| ["cp-1", "w-1"].map(|name| format!("{it} pod-cidr-shared {name}")));
    assert_eq!(shared(&Shape::default()), fail);
    assert_eq!(shared(&Shape { sides: Sides::NoTalos, ..Shape::default() }), fail, "flannel is there");
    assert_eq!(shared(&Shape { flannel: false, ..Shape::default() }), warn);
    let mut bare = healthy();
    let node = bare.kube_node_mut("w-1");
    node.addresses.clear();
    node.internal.clear();
    assert_eq!(said(&bare, id), ["fail node-address w-1"]);
    bare.kube_node_mut("w-1").taints.push(taint("node.cloudprovider.kubernetes.io/uninitialized"));
    assert_eq!(said(&bare, id), [""; 0], "the cloud provider sets it later");
    // A range belongs to its Node until the Node is deleted, because flannel routes the range there.
    let mut stale = healthy();
    let range = stale.kube_node_mut("cp-1").pod_cidrs.clone();
    stale.kube_node_mut("w-1").pod_cidrs = range;
    set_ready(&mut stale, "w-1", "False", "");
    assert_eq!(said(&stale, id), fail);
    // The node's operating system does not matter.
    let mut guest = Shape { workers: 2, foreign: 1, ..Shape::default() }.world();
    let range = guest.kube_node_mut("cp-1").pod_cidrs.clone();
    let name = guest
        .kubernetes
        .as_ref()
        .unwrap()
        .nodes
        .iter()
        .flatten()
        .find(|it| it.system() != System::Talos)
        .unwrap()
        .name
        .clone();
    guest.kube_node_mut(&name).pod_cidrs = range;
    let both = ["cp-1", &name].map(|name| format!("fail pod-cidr-shared {name}"));
    assert_eq!(said(&guest, id), both);
}

#[test]
fn without_talos_nodes_that_nobody_asked_for_are_a_warning() {
    let mut named = healthy().without_talos();
    named.asked.worker_nodes = vec!["w-1".to_owned()];
    named.asked.control_plane_nodes = vec!["cp-1".to_owned(), "cp-2".to_owned()];
    for name in ["w-1", "cp-1", "cp-2"] {
        named.node_mut(name).sources.flags = true;
    }
    assert_eq!(said(&named, "k8s.nodes.registered"), ["warn node-unexpected cp-3"]);
    set_ready(&mut named, "cp-3", "False", "");
    assert_eq!(status(&named, "k8s.nodes.ready"), Status::Pass);
}

/// Turns w-1 into a Node of kwok or a virtual kubelet, which reports no system, does not renew its lease, and whose
/// pods run nowhere.
fn posing(snapshot: &mut Snapshot) {
    let node = snapshot.kube_node_mut("w-1");
    node.become_virtual();
    node.kubelet_version = "fake".to_owned();
    node.conditions.retain(|condition| condition.kind == "Ready");
    node.unschedulable = true;
    snapshot.node_mut("w-1").is_talos = false;
    snapshot.node_mut("w-1").sources = Sources { kubernetes: true, ..Sources::default() };
    snapshot.node_mut("w-1").talos = TalosNode::unasked(&Gap::not_asked()).into();
    let kube = snapshot.kube();
    kube.node_leases.as_mut().unwrap().by_name.remove("w-1");
    kube.daemon_sets.iter_mut().flatten().for_each(|set| set.available -= 1);
}

#[test]
fn of_what_poses_as_a_node_only_readiness_is_judged_as_a_warning() {
    let checks = [
        "k8s.nodes.registered",
        "k8s.nodes.ready",
        "k8s.nodes.pressure",
        "k8s.nodes.schedulable",
        "k8s.controlplane.versions",
        "k8s.kube-proxy",
        "k8s.cni",
        "k8s.staticpods.running",
        "talos.nodes.reachable",
    ];
    let both = |snapshot: &Snapshot| [snapshot.clone(), snapshot.clone().without_talos()];
    for pods in ["Pending", ""] {
        let mut snapshot = healthy();
        posing(&mut snapshot);
        let is_its = |pod: &Pod| pod.node.as_deref() == Some("w-1");
        if pods.is_empty() {
            snapshot.kube().pods.as_mut().unwrap().retain(|pod| !is_its(pod));
        }
        for pod in snapshot.kube().pods.iter_mut().flatten().filter(|pod| is_its(pod)) {
            pod.state = PodState { phase: pods.to_owned(), ..PodState::default() };
        }
        for snapshot in both(&snapshot) {
            for id in checks {
                assert!(status(&snapshot, id) <= Status::Pass, "{id} {pods}: {:?}", said(&snapshot, id));
            }
        }
        set_ready(&mut snapshot, "w-1", "False", "");
        for snapshot in both(&snapshot) {
            assert_eq!(said(&snapshot, "k8s.nodes.ready"), ["warn not-talos-not-ready w-1"]);
        }
        set_ready(&mut snapshot, "w-1", "True", "");
        // Similar cases: two pods are missing and there is one guest, or a Talos machine lacks a pod.
        for set in snapshot.kube().daemon_sets.iter_mut().flatten() {
            set.available -= 1;
        }
        assert_eq!(said(&snapshot, "k8s.kube-proxy"), ["fail daemonset-incomplete kube-system/kube-proxy"]);
        snapshot.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "kube-proxy-abcd1");
        assert_eq!(said(&snapshot, "k8s.kube-proxy"), ["fail daemonset-incomplete cp-2"]);
        // Without the list of pods, it is unknown which node lacks one.
        for set in snapshot.kube().daemon_sets.iter_mut().flatten() {
            set.available += 1;
        }
        snapshot.kube().pods = no(GapKind::TimedOut);
        assert_eq!(
            said(&snapshot, "k8s.kube-proxy"),
            ["error timed-out kube-system/kube-proxy < k8s.controlplane.apiserver"]
        );
    }
}

/// A machine that any source identifies as Talos counts as Talos, no matter what its Node reports.
#[test]
fn a_talos_machine_whose_node_names_no_system_is_no_guest() {
    let mut snapshot = healthy();
    snapshot.kube_node_mut("w-1").os_image.clear();
    set_ready(&mut snapshot, "w-1", "False", "");
    assert_eq!(said(&snapshot, "k8s.nodes.ready"), ["fail node-not-ready w-1"]);
    // A machine that a flag names counts in full, regardless of its system.
    posing(&mut snapshot);
    snapshot.node_mut("w-1").sources.flags = true;
    set_ready(&mut snapshot, "w-1", "False", "");
    assert_eq!(said(&snapshot, "k8s.nodes.ready"), ["fail node-not-ready w-1"]);
}

/// `skipNodeRegistration`, as used for a machine that runs only static pods.
#[test]
fn a_kubelet_that_registers_no_node_misses_none() {
    let mut snapshot = healthy();
    snapshot.kube().nodes.as_mut().unwrap().retain(|node| node.name != "w-1");
    snapshot.node_mut("w-1").sources.kubernetes = false;
    snapshot.talos_of("w-1").static_pods = Ok(vec!["kube-system-cache".to_owned()]);
    assert_eq!(said(&snapshot, "k8s.nodes.registered"), ["fail node-not-registered w-1"]);
    assert_eq!(said(&snapshot, "k8s.staticpods.running"), ["fail static-pod-missing kube-system-cache-w-1"]);
    snapshot.talos_of("w-1").skips_registration = true;
    for id in ["k8s.nodes.registered", "k8s.nodes.ready", "k8s.controlplane.versions", "k8s.staticpods.running"] {
        assert_eq!(status(&snapshot, id), Status::Pass, "{id}: {:?}", said(&snapshot, id));
    }
    // A Node that is registered is judged.
    let mut registered = healthy();
    registered.talos_of("w-1").skips_registration = true;
    set_ready(&mut registered, "w-1", "False", "");
    assert_eq!(said(&registered, "k8s.nodes.ready"), ["fail node-not-ready w-1"]);
}

/// `w-1` has been renamed. The fixture's machines have no ids, so this one gets one.
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
    // Capital letters do not make a different name.
    snapshot.node_mut("w-one").name = "W-1".to_owned();
    assert_eq!(status(&snapshot, "k8s.nodes.registered"), Status::Pass);
    // A machine with a different id is a different machine, even at the same address.
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
    // The machine's addresses are unknown, or the machine itself has not answered.
    let mut untold = healthy();
    set(&mut untold, "w-1", "10.0.9.9");
    untold.node_mut("w-1").own_addresses.clear();
    assert_eq!(status(&untold, id), Status::Pass);
    untold.node_mut("w-1").own_addresses = vec!["10.0.0.4".to_owned()];
    untold.talos_of("w-1").contact = no(GapKind::NodeUnreachable);
    assert_eq!(status(&untold, id), Status::Pass, "`talos.nodes.reachable` tells it");

    // Two Nodes share an address: the machine that has it is right.
    let mut shared = healthy();
    set(&mut shared, "w-1", "10.0.0.3");
    assert_eq!(said(&shared, id), ["fail node-address w-1"]);
    shared.node_mut("w-1").own_addresses.push("10.0.0.3".to_owned());
    assert_eq!(said(&shared, id), ["fail node-address cp-3", "fail node-address w-1"]);
    // One of its two addresses is its own, and the other one is shared.
    let mut two = healthy();
    two.kube_node_mut("w-1").internal.push("10.0.0.3".to_owned());
    assert_eq!(status(&two, id), Status::Pass, "nobody else may have it");
    // Guests may pose as several nodes at one address.
    shared.kube_node_mut("w-1").become_virtual();
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
    let mut snapshot = Shape { machine_ids: true, ..Shape::default() }.world();
    snapshot.node_mut("w-1").machine_id = Some("e875".to_owned());
    assert_eq!(said(&snapshot, "k8s.nodes.registered"), ["warn duplicate-name w-1"]);
    // The other machine answered, so the one that owns the Node was not observed.
    let mut other = snapshot.clone();
    other.node_mut("w-1").own_addresses = vec!["10.0.0.9".to_owned()];
    other.talos_of("w-1").contact.as_mut().unwrap().address = "10.0.0.9".to_owned();
    assert_eq!(said(&other, "k8s.nodes.registered"), ["fail node-address w-1"]);
    snapshot.kube_node_mut("w-1").machine_id.clear();
    assert_eq!(status(&snapshot, "k8s.nodes.registered"), Status::Pass, "Kubernetes does not tell");
}

#[test]
fn without_talos_two_live_nodes_cannot_have_one_address() {
    let id = "k8s.nodes.pressure";
    let mut shared = healthy().without_talos();
    assert_eq!(said(&shared, id), [""; 0]);
    let address = shared.kube_node_mut("cp-2").internal.clone();
    shared.kube_node_mut("cp-3").internal = address;
    assert_eq!(said(&shared, id), ["fail node-address cp-2", "fail node-address cp-3"]);
    // Clouds reuse addresses before the old Node is gone.
    let mut dead = shared.clone();
    dead.power_off("cp-3");
    assert_eq!(said(&dead, id), ["blocked cp-3 < k8s.nodes.ready"], "its lease has ended");
    dead = shared.clone();
    dead.node_mut("cp-3").leaving = true;
    assert_eq!(said(&dead, id), ["warn node-address cp-2"]);
    shared.kube_node_mut("cp-3").become_virtual();
    assert_eq!(said(&shared, id), [""; 0], "virtual nodes have no address of their own");
}

/// If two nodes report one address, flannel on one of them receives packets for the other's pods.
#[test]
fn flannel_of_each_node_has_an_address_of_its_own() {
    let id = "k8s.nodes.pressure";
    let set = |snapshot: &mut Snapshot, name: &str, address: &str| {
        snapshot.kube_node_mut(name).overlay = vec![address.to_owned()];
    };
    let mut shared = healthy();
    set(&mut shared, "cp-1", "192.0.2.15");
    set(&mut shared, "w-1", "192.0.2.15");
    assert_eq!(said(&shared, id), ["fail node-address cp-1", "fail node-address w-1"]);
    // An address that is set on purpose is just as wrong.
    shared.kube_node_mut("w-1").overlay_is_set = true;
    assert_eq!(said(&shared, id), ["fail node-address cp-1", "fail node-address w-1"]);
    // A Node that no longer reports may have lost its address to another.
    let mut silent = shared.clone();
    silent.kube().node_leases.as_mut().unwrap().by_name.remove("w-1");
    assert_eq!(said(&silent, id), ["blocked w-1 < k8s.nodes.ready", "warn node-address cp-1"]);
    let mut guest = shared.clone();
    guest.node_mut("w-1").is_talos = false;
    assert_eq!(said(&guest, id), ["warn node-address cp-1"], "whatever a guest says");
    let mut replaced = Shape { flannel: false, ..Shape::default() }.world();
    set(&mut replaced, "cp-1", "192.0.2.15");
    set(&mut replaced, "w-1", "192.0.2.15");
    assert_eq!(said(&replaced, id), ["warn node-address cp-1", "warn node-address w-1"], "left over");
    let set_of_flannel = replaced.kube().daemon_sets.as_ref().unwrap()[0].clone();
    let canal = Workload { name: "canal".to_owned(), namespace: "canal".to_owned(), ..set_of_flannel };
    replaced.kube().daemon_sets.as_mut().unwrap().push(canal);
    assert_eq!(said(&replaced, id), ["fail node-address cp-1", "fail node-address w-1"]);
    // An address that no known machine has.
    let foreign = |change: &dyn Fn(&mut Snapshot)| {
        let mut snapshot = healthy();
        set(&mut snapshot, "w-1", "192.0.2.15");
        change(&mut snapshot);
        said(&snapshot, id)
    };
    assert_eq!(foreign(&|_| {}), ["warn node-address w-1"]);
    assert_eq!(foreign(&|it| it.kube_node_mut("w-1").overlay_is_set = true), [""; 0]);
    assert_eq!(foreign(&|it| it.kube_node_mut("w-1").addresses.push("192.0.2.15".to_owned())), [""; 0]);
    assert_eq!(foreign(&|it| it.talos_of("w-1").link_addresses = no(GapKind::TimedOut)), [""; 0], "nobody knows");
    let link = |is_single| LinkAddress { address: "192.0.2.15".to_owned(), link: "eth1".to_owned(), is_single };
    assert_eq!(foreign(&|it| it.talos_of("w-1").link_addresses.as_mut().unwrap().push(link(false))), [""; 0]);
}
