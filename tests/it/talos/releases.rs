//! Talos releases, roles and cluster shapes: healthy clusters, and the results for each.

use simulator::world::{Shape, Transport};

use super::side_by_side;
use crate::cluster::{Cluster, Judgment, cluster, release};

const CONTROL_PLANES: [&str; 3] = ["cp-1", "cp-2", "cp-3"];

fn judged(talos: &str, role: &str) -> Judgment {
    let cluster = release(talos).role(role);
    // Releases from 1.7.0 to 1.8.1 do not negotiate their protocol.
    if talos == "1.7.0" {
        for machine in CONTROL_PLANES {
            cluster.transport(machine, Transport::NoAlpn);
        }
    }
    cluster.run(&[])
}

/// Until 1.9.5, and in 1.10.0, os:reader cannot read etcd's status and alarms.
#[test]
fn old_releases_do_not_let_readers_look_into_etcd() {
    let of_each = ["etcd.learners", "etcd.alarms"];
    let refused = of_each.iter().flat_map(|check| CONTROL_PLANES.map(|machine| (*check, machine)));
    let refused = refused.chain([("etcd.quorum", "cluster")]);
    let expected: Vec<_> = refused.map(|(check, target)| (check, "role-too-low-for-this-version", target)).collect();
    side_by_side(["1.5.0", "1.7.0", "1.9.0", "1.9.5", "1.10.0"], 3, |talos| {
        let judged = judged(talos, "os:reader");
        judged.is(77, &expected);
        for check in ["etcd.leader", "etcd.members.consistent", "etcd.members.nodes", "etcd.tolerance"] {
            assert_ne!(judged.status(check), "fail", "{check}: {judged}");
        }
    });
}

#[test]
fn a_healthy_cluster_of_any_release_is_healthy() {
    let operators = ["1.5.0", "1.7.0", "1.9.0"].map(|talos| (talos, "os:operator"));
    let admins = ["1.5.0", "1.7.0", "1.9.0", "1.14.0"].map(|talos| (talos, "os:admin"));
    let readers = ["1.9.6", "1.12.6", "1.13.0", "1.14.0"].map(|talos| (talos, "os:reader"));
    let rest = [("1.9.6", "os:operator"), ("1.13.0", "os:admin"), ("1.14.0", "os:operator")];
    let all = [&operators[..], &admins, &readers, &rest].concat();
    side_by_side(all, 3, |(talos, role)| {
        let judged = judged(talos, role);
        judged.is(0, &[]);
        assert_eq!(judged.report["sources"]["talosVersions"][0], format!("v{talos}"), "{judged}");
    });
}

#[test]
fn a_role_that_may_not_even_ask_for_the_version() {
    for (talos, role) in [("1.13.0", "os:etcd:backup"), ("1.5.0", "os:nobody")] {
        let expected = CONTROL_PLANES.map(|machine| ("talos.endpoints", "role-too-low", machine));
        let judged = judged(talos, role);
        judged.is(77, &expected);
        let checks = judged.report["checks"].as_array().unwrap();
        let passed: Vec<_> = checks.iter().filter(|it| it["status"] == "pass").map(|it| &it["id"]).collect();
        // Facts from files, and from the API servers themselves.
        let told =
            ["talos.credentials", "k8s.credentials", "k8s.api.endpoint", "k8s.api.servers", "k8s.api.certificates"];
        assert_eq!(passed, told, "{judged}");
    }
}

#[test]
fn clusters_of_any_shape() {
    let warning = |reason| vec![("etcd.tolerance", reason, "cluster")];
    let shapes = [
        (1, 0, Vec::new()),
        (1, 2, Vec::new()),
        (2, 1, warning("two-members")),
        (4, 0, warning("even-members")),
        (5, 20, Vec::new()),
    ];
    side_by_side(shapes, 2, |(control_planes, workers, expected)| {
        let shape = Shape { control_planes, workers, ..Shape::default() };
        let judged = Cluster::of(&shape).run(&["--expect-control-planes", &control_planes.to_string()]);
        judged.is(0, &expected);
        let nodes = judged.report["sources"]["nodes"].as_array().unwrap();
        assert_eq!(nodes.len(), control_planes + workers, "{judged}");
    });
}

#[test]
fn warnings_fail_if_that_is_asked_for() {
    let two = Cluster::of(&Shape { control_planes: 2, ..Shape::default() });
    two.run(&["--strict"]).is(1, &[("etcd.tolerance", "two-members", "cluster")]);
    cluster().run(&["--strict"]).is(0, &[]);
}
