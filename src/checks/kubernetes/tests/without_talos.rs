//! Places of control plane components, as Kubernetes alone shows them.

use crate::checks::kubernetes::tests::pods::crashing;
use crate::checks::kubernetes::tests::{OF_STATIC_PODS, judge, lines, no, not_ready, roots, said, status};
use crate::model::{Hint, Shared, Status};
use crate::snapshot::{GapKind, Pod, Snapshot};
use crate::testing::fixture::{Shape, ago, healthy, running_pod};

/// Kubernetes alone does not show which components are disabled.
#[test]
fn without_talos_a_component_that_is_nowhere_is_missed_unless_it_works_elsewhere() {
    let id = "k8s.controlplane.scheduler";
    let mut snapshot = healthy().without_talos();
    snapshot.kube().pods.as_mut().unwrap().retain(|pod| !pod.name.starts_with("kube-scheduler"));
    // The lease is held by one of the control planes: an instance that has just ended.
    let all = ["cp-1", "cp-2", "cp-3"].map(|node| format!("fail component-missing {node}"));
    assert_eq!(said(&snapshot, id), all);
    let hint = "if it is disabled on every control plane: `--skip k8s.controlplane.scheduler`";
    let problems = judge(&snapshot, id);
    assert!(problems.problems().all(|(_, problem)| problem.hints.contains(&Hint::likely(hint))));
    let held = |snapshot: &mut Snapshot, holder: &str, seconds| {
        let leases = snapshot.kube().system_leases.as_mut().unwrap();
        let lease = leases.by_name.get_mut("kube-scheduler").unwrap();
        (lease.holder, lease.renewed) = (Some(holder.to_owned()), Some(ago(seconds)));
    };
    let others = ["k8s.controlplane.leases", "k8s.controlplane.versions", "k8s.staticpods.running"];
    held(&mut snapshot, "outside_1f0c", 3);
    assert_eq!(lines(&snapshot, id), ["kube-scheduler: running elsewhere, its lease is held by outside_1f0c"]);
    for id in [id].into_iter().chain(others) {
        assert_eq!((said(&snapshot, id), status(&snapshot, id)), (vec![], Status::Pass), "{id}");
    }
    held(&mut snapshot, "outside_1f0c", 41);
    assert_eq!(said(&snapshot, id), all);
    for id in others {
        assert!(status(&snapshot, id) >= Status::Blocked, "{id}");
    }
    // A user who skips the check confirms that the component need not run.
    snapshot.asked.skipped.insert(id.into());
    for id in &others[1..] {
        assert_eq!((said(&snapshot, id), status(&snapshot, id)), (vec![], Status::Pass), "{id}");
    }
    // Skipping does not excuse the lapsed lease of a component that has led.
    assert_eq!(said(&snapshot, others[0]), ["fail not-leading kube-system/kube-scheduler"]);
    snapshot.kube().system_leases.as_mut().unwrap().by_name.remove("kube-scheduler");
    assert_eq!((said(&snapshot, others[0]), status(&snapshot, others[0])), (vec![], Status::Pass));
    // Skipping does not excuse a broken instance either.
    let mut one = healthy().without_talos();
    one.asked.skipped.insert(id.into());
    one.kube().pods.as_mut().unwrap().retain(|pod| !pod.name.starts_with("kube-scheduler-cp-1"));
    held(&mut one, "cp-1_1", 41);
    assert_eq!(said(&one, "k8s.controlplane.leases"), ["fail not-leading kube-system/kube-scheduler"]);
    assert_eq!(status(&one, "k8s.staticpods.running"), Status::Fail);
    // Static pods are required wherever one of the API servers is a static pod.
    let mut servers = healthy().without_talos();
    servers.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "kube-apiserver-cp-2");
    assert_eq!(said(&servers, "k8s.controlplane.apiserver"), ["fail component-missing cp-2"]);
}

#[test]
fn without_talos_a_component_that_leads_elsewhere_may_be_switched_off_here() {
    let [id, running] = ["k8s.controlplane.scheduler", "k8s.staticpods.running"];
    let missing = |change: &dyn Fn(&mut Snapshot)| {
        let mut snapshot = healthy().without_talos();
        snapshot.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "kube-scheduler-cp-2");
        change(&mut snapshot);
        snapshot
    };
    let off = missing(&|_| ());
    assert_eq!(said(&off, id), ["warn component-missing cp-2"]);
    assert_eq!(
        (said(&off, running), roots(&off)),
        (vec![], vec!["k8s.controlplane.scheduler component-missing cp-2".to_owned()])
    );
    let is_missed = |change: &dyn Fn(&mut Snapshot)| status(&missing(change), id) >= Status::Blocked;
    // No instance is leading.
    assert!(is_missed(&|snapshot| {
        let leases = snapshot.kube().system_leases.as_mut().unwrap();
        leases.by_name.get_mut("kube-scheduler").unwrap().renewed = Some(ago(41));
    }));
    assert!(is_missed(&|snapshot| snapshot.kube().system_leases = no(GapKind::Forbidden)));
    // None of the other instances is healthy.
    assert!(is_missed(&|snapshot| {
        let pods = snapshot.kube().pods.iter_mut().flatten();
        pods.filter(|pod| pod.name.starts_with("kube-scheduler"))
            .for_each(|pod| pod.state = crashing("kube-scheduler"));
    }));
    // The node is not healthy, or nothing else shows that it is a control plane.
    assert!(is_missed(&|snapshot| {
        snapshot.kube().node_leases.as_mut().unwrap().by_name.get_mut("cp-2").unwrap().renewed = Some(ago(41));
    }));
    assert!(is_missed(&|snapshot| {
        snapshot.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "kube-apiserver-cp-2");
    }));
    // Talos makes the state known, and every control plane has an API server.
    let mut known = healthy();
    known.talos_of("cp-2").static_pod_statuses.as_mut().unwrap().retain(|pod| pod.name != "kube-scheduler-cp-2");
    assert_eq!(said(&known, id), ["fail component-missing cp-2"]);
    let mut server = healthy().without_talos();
    server.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "kube-apiserver-cp-2");
    assert_eq!(said(&server, "k8s.controlplane.apiserver"), ["fail component-missing cp-2"]);
}

/// Nodes that lost their labels do not count as control planes, although one runs here.
#[test]
fn a_control_plane_that_lost_its_labels_does_not_run_elsewhere() {
    let mut snapshot = healthy().without_talos();
    for node in &mut snapshot.nodes {
        node.role = crate::model::Role::Worker;
    }
    let ids = ["k8s.controlplane.scheduler", "k8s.controlplane.leases", "k8s.controlplane.versions"];
    for id in ids {
        assert_eq!(said(&snapshot, id)[0], "error no-answer cluster < k8s.api.servers", "{id}");
    }
    snapshot.kube().pods.as_mut().unwrap().retain(|pod| !pod.mirror);
    // A hosted component is visible through its lease.
    assert_eq!(ids.map(|id| status(&snapshot, id)), [Status::Skip, Status::Pass, Status::Pass]);
    let leases = snapshot.kube().system_leases.as_mut().unwrap();
    leases.by_name.get_mut("kube-scheduler").unwrap().renewed = Some(ago(41));
    assert_eq!(said(&snapshot, ids[1]), ["fail not-leading kube-system/kube-scheduler"]);
}

/// Components that are processes of their nodes or hosted elsewhere: without static pods, none are required.
#[test]
fn without_talos_and_static_pods_leases_and_servers_tell_of_the_control_plane() {
    let ids = OF_STATIC_PODS;
    let mut snapshot = healthy().without_talos();
    snapshot.kube().pods.as_mut().unwrap().retain(|pod| !pod.mirror);
    for id in ids {
        assert_eq!((said(&snapshot, id), status(&snapshot, id)), (vec![], Status::Skip), "{id}");
    }
    let leases = "k8s.controlplane.leases";
    assert_eq!(status(&snapshot, leases), Status::Pass);
    // If the list of pods was not read, their absence is unknown.
    let mut unread = snapshot.clone();
    unread.kube().pods = no(GapKind::TimedOut);
    assert!(ids.iter().all(|id| status(&unread, id) >= Status::Blocked));
    // An empty list does not prove their absence either, if workloads want pods.
    unread.kube().pods = Ok(Vec::new());
    assert!(ids.iter().all(|id| status(&unread, id) >= Status::Blocked));
    let lease = |snapshot: &mut Snapshot, seconds| {
        let leases = snapshot.kube().system_leases.as_mut().unwrap();
        leases.by_name.get_mut("kube-scheduler").unwrap().renewed = Some(ago(seconds));
    };
    lease(&mut snapshot, 41);
    snapshot.asked.skipped.insert("k8s.controlplane.scheduler".into());
    assert_eq!(said(&snapshot, leases), ["fail not-leading kube-system/kube-scheduler"]);
    snapshot.kube().system_leases.as_mut().unwrap().by_name.remove("kube-scheduler");
    assert_eq!(status(&snapshot, leases), Status::Pass);
    assert!(judge(&snapshot, leases).left_out[0].contains("whether kube-scheduler works"));
}

#[test]
fn a_lease_that_is_left_over_is_a_warning() {
    let mut snapshot = Shape { control_planes: 1, ..Shape::default() }.world().without_talos();
    for pod in snapshot.kube().pods.iter_mut().flatten().filter(|pod| pod.name.starts_with("kube-scheduler")) {
        pod.leader_elect = Some(false);
    }
    let leases = "k8s.controlplane.leases";
    let lease = snapshot.kube().system_leases.as_mut().unwrap().by_name.get_mut("kube-scheduler").unwrap();
    lease.renewed = Some(ago(41));
    assert_eq!(said(&snapshot, leases), ["warn not-leading kube-system/kube-scheduler"]);
    snapshot.kube().system_leases.as_mut().unwrap().by_name.remove("kube-scheduler");
    assert_eq!(said(&snapshot, leases), [""; 0]);
}

#[test]
fn without_talos_static_pods_are_judged_on_every_node() {
    let running = "k8s.staticpods.running";
    let mut snapshot = Shape { workers: 3, ..Shape::default() }.world().without_talos();
    let proxy = snapshot.kube().pods.as_ref().unwrap().iter().find(|pod| pod.mirror).unwrap().clone();
    for name in ["w-1", "w-2", "w-3"] {
        let (name, node) = (format!("kube-proxy-{name}"), Some(name.to_owned()));
        let state = running_pod("kube-proxy");
        let pod = Pod { name, node, state, labels: Shared::default(), ..proxy.clone() };
        snapshot.kube().pods.as_mut().unwrap().push(pod);
    }
    assert_eq!(said(&snapshot, running), [""; 0]);
    let mut lacking = snapshot.clone();
    lacking.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "kube-proxy-w-2");
    assert_eq!(said(&lacking, running), ["warn static-pod-missing kube-proxy-w-2"]);
    // Workers' mirror pods are also judged if no control plane is a Node.
    for pod in snapshot.kube().pods.iter_mut().flatten().filter(|pod| pod.name == "kube-proxy-w-1") {
        pod.state = crashing("kube-proxy");
    }
    snapshot.nodes.retain(|node| node.name.starts_with("w-"));
    snapshot.kube().nodes.as_mut().unwrap().retain(|node| node.name.starts_with("w-"));
    snapshot.kube().pods.as_mut().unwrap().retain(|pod| pod.node.as_deref().is_some_and(|node| node.starts_with("w-")));
    assert_eq!(said(&snapshot, running), ["fail crash-looping kube-proxy-w-1"]);
}

/// A node selector that matches nothing can also be deliberate.
#[test]
fn without_talos_a_network_plugin_that_is_wanted_nowhere_is_a_warning() {
    let mut snapshot = healthy().without_talos();
    let kubernetes = snapshot.kube();
    kubernetes.pods.as_mut().unwrap().retain(|pod| !pod.name.starts_with("kube-flannel"));
    let sets = kubernetes.daemon_sets.as_mut().unwrap();
    let flannel = sets.iter_mut().find(|set| set.name == "kube-flannel").unwrap();
    (flannel.desired, flannel.available, flannel.updated) = (0, 0, Some(0));
    let mut other = flannel.clone();
    assert_eq!(said(&snapshot, "k8s.cni"), ["warn daemonset-incomplete kube-system/kube-flannel"]);
    (other.name, other.desired, other.available, other.installs_network) = ("cilium".to_owned(), 4, 4, true);
    snapshot.kube().daemon_sets.as_mut().unwrap().push(other);
    assert_eq!(said(&snapshot, "k8s.cni"), [""; 0], "another plugin has replaced it");
}

/// While a cluster is moved to Talos, and Talos is not queried.
#[test]
fn without_talos_machines_of_any_system_are_judged() {
    let mut snapshot = healthy().without_talos();
    for name in ["cp-2", "w-1"] {
        let object = snapshot.kube_node_mut(name);
        "Ubuntu 24.04.1 LTS".clone_into(&mut object.os_image);
        "6.8.0-45-generic".clone_into(&mut object.kernel);
        snapshot.node_mut(name).is_talos = false;
    }
    assert_eq!(said(&snapshot, "k8s.nodes.ready"), [""; 0]);
    not_ready(&mut snapshot, "w-1");
    assert_eq!(said(&snapshot, "k8s.nodes.ready"), ["fail node-not-ready w-1"]);
    snapshot.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "kube-scheduler-cp-2");
    assert_eq!(said(&snapshot, "k8s.controlplane.scheduler"), ["warn component-missing cp-2"]);
}
