//! The results of individual checks in a cluster that is healthy except for one fault.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use simulator::world::{Server, Shape, Transport};

use super::{SYSTEM, side_by_side};
use crate::cluster::{Cluster, cluster};

const REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";

const CHECKS: [&str; 6] = [
    "k8s.api.certificates",
    "k8s.controlplane.leases",
    "k8s.controlplane.versions",
    "k8s.nodes.pressure",
    "k8s.nodes.csrs",
    "k8s.cni",
];

#[test]
fn a_healthy_cluster_passes_with_and_without_talos() {
    side_by_side([true, false], 2, |single| {
        let shape = if single { Shape { control_planes: 1, workers: 0, ..Shape::default() } } else { Shape::default() };
        let cluster = Cluster::of(&shape);
        for arguments in [&[][..], &["--no-talos"], &["--no-talos", "--expect-kubernetes", "1.35"]] {
            let judged = cluster.run(arguments);
            for check in CHECKS {
                assert_eq!(judged.status(check), "pass", "{check}: {judged}");
            }
            assert_eq!(judged.outcome.code, 0, "{judged}");
        }
    });
}

#[test]
fn certificates_that_end_soon_are_a_warning() {
    let cluster = cluster();
    let server = cluster.api_server("cp-2");
    cluster.change(|world| world.transport.insert(server, Transport::ExpiresSoon));
    cluster
        .run(&["--k8s-endpoint", &format!("{}:6443", cluster.address("cp-1"))])
        .is(0, &[("k8s.api.certificates", "certificate-expires-soon", "cp-2")]);
    cluster.change(|world| {
        world.transport.clear();
        world.transport.insert(Server::Balancer, Transport::ExpiresSoon);
    });
    cluster.run(&[]).is(0, &[("k8s.api.certificates", "certificate-expires-soon", "balancer")]);
}

/// A scheduler that runs but has not renewed its lease for two minutes: only the lease shows this, on a second look.
#[test]
fn nobody_leads_though_all_run() {
    side_by_side([&[][..], &["--no-talos"]], 2, |arguments| {
        let cluster = cluster();
        let since = Timestamp::now() - SignedDuration::from_mins(2);
        cluster.change(|world| world.kubernetes.stalled_leases.insert("kube-system/kube-scheduler".to_owned(), since));
        let judged = cluster.run(arguments);
        judged.is(1, &[("k8s.controlplane.leases", "not-leading", "kube-system/kube-scheduler")]);
        judged.within(Duration::from_secs(25));
    });
}

#[test]
fn versions_that_differ() {
    let kubelet = |cluster: &Cluster, version: &str| {
        let patch = json!({"status": {"nodeInfo": {"kubeletVersion": version}}});
        cluster.change(|world| world.kubernetes.merge("nodes", None, "worker-1", &patch));
    };
    let check = "k8s.controlplane.versions";
    let cluster = cluster();
    kubelet(&cluster, "v1.34.9");
    cluster.run(&[]).is(0, &[(check, "versions-mixed", "cluster")]);
    cluster.run(&["--expect-kubernetes", "v1.35"]).is(1, &[(check, "version-unexpected", "worker-1")]);
    for version in ["v1.36.0", "v1.31.0"] {
        kubelet(&cluster, version);
        cluster.run(&[]).is(1, &[(check, "version-skew", "worker-1")]);
        cluster.run(&["--no-talos"]).is(1, &[(check, "version-skew", "worker-1")]);
    }
}

#[test]
fn pressure_on_a_node_that_is_ready() {
    let cluster = cluster();
    let pressed =
        json!({"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure", "message": "full"});
    cluster.change(|world| world.kubernetes.set_condition("nodes", None, "worker-1", &pressed));
    cluster.run(&[]).is(1, &[("k8s.nodes.pressure", "node-pressure", "worker-1")]);
}

fn request(name: &str, signer: &str, conditions: &Value) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "request": "", "signerName": signer, "username": "system:node:worker-1",
            "groups": ["system:nodes", "system:authenticated"], "usages": ["digital signature", "server auth"],
        },
        "status": {"conditions": conditions, "certificate": "LS0tLS1CRUdJTi4uLg=="},
    })
}

#[test]
fn requests_for_certificates_that_nobody_has_answered() {
    let cluster = cluster();
    let serving = "kubernetes.io/kubelet-serving";
    cluster.change(|world| {
        let answered = |kind: &str| json!([{"type": kind, "status": "True", "reason": "", "message": ""}]);
        world.kubernetes.put(REQUESTS, request("csr-1", serving, &answered("Approved")));
        world.kubernetes.put(REQUESTS, request("csr-2", serving, &answered("Denied")));
        world.kubernetes.put(REQUESTS, request("csr-3", "example.com/other", &Value::Null));
    });
    cluster.run(&[]).is(0, &[]);
    cluster.change(|world| world.kubernetes.put(REQUESTS, request("csr-4", serving, &Value::Null)));
    let judged = cluster.run(&[]);
    judged.is(0, &[("k8s.nodes.csrs", "csr-pending", "worker-1")]);
    assert!(judged.outcome.stdout.contains("csr-4") && !judged.outcome.stdout.contains("csr-2"), "{judged}");
    cluster.change(|world| {
        world.kubernetes.reader.iter_mut().for_each(|rule| {
            rule.resources.retain(|resource| resource != "certificatesigningrequests");
        });
    });
    let judged = cluster.run(&[]);
    judged.is(0, &[]);
    assert_eq!(judged.status("k8s.nodes.csrs"), "skip", "{judged}");
}

#[test]
fn flannel_that_does_not_run_everywhere() {
    let cluster = cluster();
    cluster.change(|world| {
        let status = json!({"status": {"numberAvailable": 3, "numberReady": 3, "numberUnavailable": 1}});
        world.kubernetes.merge("daemonsets.apps", SYSTEM, "kube-flannel", &status);
    });
    cluster.run(&[]).is(1, &[("k8s.cni", "daemonset-incomplete", "kube-system/kube-flannel")]);
    cluster.change(|world| world.kubernetes.remove("daemonsets.apps", SYSTEM, "kube-flannel"));
    cluster.run(&[]).is(1, &[("k8s.cni", "daemonset-missing", "kube-system/kube-flannel")]);
    assert_eq!(cluster.run(&["--no-talos"]).status("k8s.cni"), "skip");
}
