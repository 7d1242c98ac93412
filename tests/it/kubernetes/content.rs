//! Kubernetes answers correctly, but reports a problem.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use simulator::world::World;

use super::{NODES, SLICES, SYSTEM, round, side_by_side};
use crate::cluster::cluster;

/// A change in Kubernetes alone, with the expected exit code and problems: check, reason, target.
type Case = (fn(&mut World), i32, &'static [(&'static str, &'static str, &'static str)]);

fn ready(world: &mut World, node: &str, status: &str, reason: &str, message: &str) {
    let condition = json!({"type": "Ready", "status": status, "reason": reason, "message": message});
    world.kubernetes.set_condition("nodes", None, node, &condition);
}

/// Adds a Node of this operating system without a machine, as a copy of a worker's Node.
fn foreign(world: &mut World, name: &str, system: &str) {
    let mut node = world.kubernetes.object("nodes", None, "worker-1").unwrap().clone();
    node["metadata"]["name"] = name.into();
    node["metadata"]["uid"] = "another".into();
    node["status"]["nodeInfo"]["osImage"] = system.into();
    node["status"]["nodeInfo"]["kernelVersion"] = "6.12.0".into();
    node["status"]["addresses"] = json!([{"type": "Hostname", "address": name}]);
    node["spec"].as_object_mut().unwrap().retain(|field, _| !field.starts_with("podCIDR"));
    world.kubernetes.put("nodes", node);
    ready(world, name, "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.");
}

const WITH_TALOS: [Case; 16] = [
    (
        |world| ready(world, "worker-1", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."),
        1,
        // The other DNS pod still works.
        &[("k8s.dns", "dns-degraded", "kube-system/kube-dns"), ("k8s.nodes.ready", "node-not-ready", "worker-1")],
    ),
    (
        |world| ready(world, "cp-2", "False", "KubeletNotReady", "container runtime is down"),
        1,
        &[("k8s.nodes.ready", "node-not-ready", "cp-2")],
    ),
    (
        |world| ready(world, "cp-2", "False", "KubeletNotReady", "Network plugin: cni plugin not initialized"),
        1,
        &[("k8s.nodes.ready", "cni-missing", "cp-2")],
    ),
    // A status other than the three valid ones.
    (|world| ready(world, "cp-2", "Yes", "", ""), 1, &[("k8s.nodes.ready", "node-not-ready", "cp-2")]),
    (
        |world| world.kubernetes.object_mut("nodes", None, "cp-2")["status"]["conditions"] = json!([]),
        1,
        &[("k8s.nodes.ready", "node-not-ready", "cp-2")],
    ),
    (
        |world| world.kubernetes.object_mut("nodes", None, "cp-2")["status"] = json!({}),
        1,
        &[("k8s.nodes.ready", "node-not-ready", "cp-2")],
    ),
    (
        |world| drop(world.kubernetes.remove("nodes", None, "worker-1")),
        1,
        &[("k8s.nodes.registered", "node-not-registered", "worker-1")],
    ),
    // Guests are not required to exist.
    (|world| foreign(world, "guest", "Debian GNU/Linux 13"), 0, &[("k8s.nodes.ready", "not-talos-not-ready", "guest")]),
    (
        |world| foreign(world, "worker-0", "Talos (v1.13.0)"),
        1,
        &[
            ("k8s.nodes.ready", "node-not-ready", "worker-0"),
            ("k8s.nodes.registered", "stale-node-object", "worker-0"),
            ("talos.nodes.expected", "stale-node-object", "worker-0"),
            ("talos.nodes.reachable", "no-answer", "worker-0"),
        ],
    ),
    // A DaemonSet without a status, one with too few pods, and a missing one.
    (
        |world| world.kubernetes.object_mut("daemonsets.apps", SYSTEM, "kube-proxy")["status"] = json!({}),
        1,
        &[("k8s.kube-proxy", "daemonset-incomplete", "kube-system/kube-proxy")],
    ),
    (
        |world| {
            let set = world.kubernetes.object_mut("daemonsets.apps", SYSTEM, "kube-proxy");
            set["status"]["numberAvailable"] = 3.into();
        },
        1,
        &[("k8s.kube-proxy", "daemonset-incomplete", "kube-system/kube-proxy")],
    ),
    (
        |world| drop(world.kubernetes.remove("daemonsets.apps", SYSTEM, "kube-proxy")),
        1,
        &[("k8s.kube-proxy", "daemonset-missing", "kube-system/kube-proxy")],
    ),
    (World::dns_scaled_to_zero, 1, &[("k8s.dns", "dns-scaled-to-zero", "kube-system/kube-dns")]),
    (
        |world| {
            for slice in world.kubernetes.objects.get_mut(SLICES).unwrap() {
                for endpoint in slice["endpoints"].as_array_mut().unwrap() {
                    endpoint["conditions"]["ready"] = false.into();
                }
            }
        },
        1,
        &[("k8s.api.servers", "api-service-empty", "cluster"), ("k8s.dns", "dns-no-endpoints", "kube-system/kube-dns")],
    ),
    // Warnings, which do not stop a pipeline.
    (
        |world| world.kubernetes.object_mut("nodes", None, "cp-3")["spec"]["unschedulable"] = true.into(),
        0,
        &[("k8s.nodes.schedulable", "cordoned", "cp-3")],
    ),
    (
        |world| {
            let taint = json!([{"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"}]);
            world.kubernetes.object_mut("nodes", None, "cp-3")["spec"]["taints"] = taint;
        },
        0,
        &[("k8s.nodes.schedulable", "uninitialized", "cp-3")],
    ),
];

#[test]
fn objects_that_are_wrong_beside_a_talos_that_is_well() {
    side_by_side(WITH_TALOS, 3, |(change, code, said)| {
        let cluster = cluster();
        cluster.change(change);
        cluster.run(&[]).is(code, said);
    });
}

const NO_SCHEDULER: [(&str, &str, &str); 2] = [
    ("k8s.controlplane.scheduler", "component-missing", "cp-2"),
    ("k8s.staticpods.running", "static-pod-missing", "kube-scheduler-cp-2"),
];

const WITHOUT_TALOS: [Case; 6] = [
    // The component may be disabled there, and another instance is the leader.
    (|world| drop(world.kubernetes.remove("pods", SYSTEM, "kube-scheduler-cp-2")), 0, &[NO_SCHEDULER[0]]),
    // The mirror pod represents the container that the kubelet runs; an ordinary pod of the same name does not.
    (
        |world| {
            let pod = world.kubernetes.object_mut("pods", SYSTEM, "kube-scheduler-cp-2");
            pod["metadata"]["annotations"] = json!({});
        },
        1,
        &NO_SCHEDULER,
    ),
    (
        |world| world.scheduler_broken("cp-2"),
        1,
        &[
            ("k8s.controlplane.scheduler", "crash-looping", "cp-2"),
            ("k8s.staticpods.running", "crash-looping", "kube-scheduler-cp-2"),
        ],
    ),
    (
        |world| ready(world, "worker-1", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."),
        1,
        // The other DNS pod still works.
        &[("k8s.dns", "dns-degraded", "kube-system/kube-dns"), ("k8s.nodes.ready", "node-not-ready", "worker-1")],
    ),
    // Only Talos shows which machines should exist, so nothing is missing.
    (|world| drop(world.kubernetes.remove("nodes", None, "worker-1")), 0, &[]),
    (World::dns_scaled_to_zero, 1, &[("k8s.dns", "dns-scaled-to-zero", "kube-system/kube-dns")]),
];

#[test]
fn objects_that_are_wrong_and_nothing_else_is_known() {
    side_by_side(WITHOUT_TALOS, 3, |(change, code, said)| {
        let cluster = cluster();
        cluster.change(change);
        cluster.run(&["--no-talos"]).is(code, said);
    });
    let cluster = cluster();
    cluster.change(|world| drop(world.kubernetes.remove("nodes", None, "worker-1")));
    let judged = cluster.run(&["--no-talos", "--expect-workers", "1"]);
    assert_eq!(judged.outcome.code, 1, "{judged}");
}

/// An API server without etcd still has a cache, and would serve requests from it that do not require a quorum.
#[test]
fn a_list_that_needs_a_quorum_is_not_taken_from_a_cache() {
    let cluster = cluster();
    cluster.change(|world| ["cp-2", "cp-3"].map(|name| world.etcd_stop(name)));
    let judged = round(&cluster, &["--no-talos", "--skip", "k8s.api.endpoint,k8s.api.servers"]);
    assert_eq!(judged.outcome.code, 69, "{judged}");
    assert_eq!(judged.of("etcd.quorum"), [("storage-unproven", "cluster")], "{judged}");
    assert_eq!(judged.of("k8s.nodes.ready"), [("timed-out", "cluster")], "{judged}");
    let asked = cluster.simulator().calls().counts().into_iter().filter(|count| count.call == NODES);
    assert_eq!(asked.map(|count| count.times).sum::<u64>(), 1);
}

/// The age of leases is measured by the server's own clock, regardless of this machine's clock.
#[test]
fn a_clock_of_the_cluster_that_is_an_hour_off_changes_nothing() {
    for seconds in [3600, -3600] {
        let cluster = cluster();
        cluster.change(|world| {
            world.clock_ahead = seconds;
            let stale = Timestamp::now() + SignedDuration::from_secs(seconds - 120);
            world.kubernetes.stalled_leases.insert("kube-node-lease/cp-2".to_owned(), stale);
        });
        let said = ("k8s.nodes.ready", "node-lease-stale", "cp-2");
        round(&cluster, &["--no-talos"]).is(1, &[said]);
        cluster.change(|world| world.kubernetes.stalled_leases.clear());
        round(&cluster, &["--no-talos"]).is(0, &[]);
    }
}
