//! `k8s.controlplane.versions`

use crate::checks::kubernetes::tests::{judge, lines, no, not_ready, said, status};
use crate::model::{Outcome, Status};
use crate::snapshot::{GapKind, Pod, Snapshot};
use crate::testing::fixture::{Shape, healthy};

const ID: &str = "k8s.controlplane.versions";

/// Sets the image of a control plane component, as reported by Talos and Kubernetes.
fn image(snapshot: &mut Snapshot, node: &str, component: &str, image: &str) {
    let name = format!("{component}-{node}");
    for status in snapshot.talos_of(node).static_pod_statuses.iter_mut().flatten().filter(|it| it.name == name) {
        image.clone_into(&mut status.state.containers[0].image);
    }
    for pod in snapshot.kube().pods.iter_mut().flatten().filter(|pod| pod.name == name) {
        image.clone_into(&mut pod.state.containers[0].image);
    }
}

fn version(snapshot: &mut Snapshot, node: &str, component: &str, version: &str) {
    image(snapshot, node, component, &format!("registry.k8s.io/{component}:{version}"));
}

fn kubelet(snapshot: &mut Snapshot, node: &str, version: &str) {
    version.clone_into(&mut snapshot.kube_node_mut(node).kubelet_version);
}

/// Sets the version of kube-proxy on all nodes.
fn proxies(snapshot: &mut Snapshot, version: &str) {
    let is_proxy = |pod: &&mut Pod| pod.name.starts_with("kube-proxy-");
    for pod in snapshot.kube().pods.iter_mut().flatten().filter(is_proxy) {
        pod.state.containers[0].image = format!("registry.k8s.io/kube-proxy:{version}");
    }
}

#[test]
fn one_version_everywhere_is_told() {
    assert_eq!(lines(&healthy(), ID), ["Kubernetes: v1.35.4"]);
    assert_eq!(status(&healthy().without_talos(), ID), Status::Pass);
    let single = healthy().only(&["cp-1"]);
    assert_eq!((status(&single, ID), status(&single.without_talos(), ID)), (Status::Pass, Status::Pass));
}

/// An old kube-proxy remains after an incomplete upgrade.
#[test]
fn kube_proxy_follows_the_api_servers() {
    let with = |version: &str| {
        let mut snapshot = healthy();
        let mut pod = snapshot.kube().pods.as_ref().unwrap()[0].clone();
        (pod.name, pod.node, pod.mirror) = ("kube-proxy-x2b5c".to_owned(), Some("w-1".to_owned()), false);
        *pod.labels = [("k8s-app".to_owned(), "kube-proxy".to_owned())].into();
        let container = &mut pod.state.containers[0];
        "kube-proxy".clone_into(&mut container.name);
        container.image = format!("registry.k8s.io/kube-proxy{version}");
        snapshot.kube().pods.as_mut().unwrap().push(pod);
        snapshot
    };
    for skewed in [":v1.29.3", ":v1.31.9", ":v1.36.0"] {
        assert_eq!(said(&with(skewed), ID), ["fail version-skew kube-proxy-x2b5c"], "{skewed}");
    }
    assert_eq!(said(&with(":v1.32.0"), ID), ["warn versions-mixed cluster"]);
    assert_eq!(said(&with(":v1.35.4"), ID), [""; 0]);
    assert_eq!(said(&with("@sha256:0"), ID), [""; 0]);
    let mut expected = with(":v1.35.3");
    expected.asked.expect_kubernetes = Some("1.35.4".to_owned());
    assert_eq!(said(&expected, ID), ["fail version-unexpected kube-proxy-x2b5c"]);
}

#[test]
fn kubelets_follow_the_api_servers() {
    // The kubelet's version, and the finding if the API servers run 1.35.
    for (version, expected) in [
        ("v1.35.3", "warn versions-mixed cluster"),
        ("v1.34.0", "warn versions-mixed cluster"),
        ("v1.32.9", "warn versions-mixed cluster"),
        ("v1.31.9", "fail version-skew w-1"),
        ("v1.36.0", "fail version-skew w-1"),
        ("v2.35.4", "fail version-skew w-1"),
        ("v0.35.4", "fail version-skew w-1"),
        ("", "error unreadable-answer w-1"),
        ("latest", "error unreadable-answer w-1"),
    ] {
        let mut snapshot = healthy();
        kubelet(&mut snapshot, "w-1", version);
        assert_eq!(said(&snapshot, ID), [expected], "{version}");
    }
    // A part that is too old is compared with the newest API server, one that is too new with the oldest.
    let mut snapshot = healthy();
    version(&mut snapshot, "cp-1", "kube-apiserver", "v1.36.0");
    kubelet(&mut snapshot, "w-1", "v1.36.0");
    assert_eq!(said(&snapshot, ID), ["fail version-skew w-1"]);
    kubelet(&mut snapshot, "w-1", "v1.32.0");
    assert_eq!(said(&snapshot, ID), ["fail version-skew w-1"]);
}

/// Talos's status of a static pod can be minutes old.
#[test]
fn two_statuses_of_one_pod_show_one_version() {
    let frozen = |talos: &str, kubernetes: &str| {
        let mut snapshot = healthy();
        version(&mut snapshot, "cp-2", "kube-scheduler", kubernetes);
        let statuses = snapshot.talos_of("cp-2").static_pod_statuses.as_mut().unwrap();
        let status = statuses.iter_mut().find(|it| it.name == "kube-scheduler-cp-2").unwrap();
        status.state.containers[0].image = format!("registry.k8s.io/kube-scheduler{talos}");
        snapshot
    };
    let stale = ["error status-stale kube-scheduler-cp-2"];
    assert_eq!(said(&frozen(":v1.35.4", "v1.35.3"), ID), stale);
    assert_eq!(said(&frozen(":v1.35.3", "v1.35.4"), ID), stale);
    assert_eq!(said(&frozen(":v1.35.4", "v1.35.4"), ID), [""; 0]);
    assert_eq!(said(&frozen("@sha256:0", "v1.35.4"), ID), [""; 0], "the runtime reports only a digest");
    let mut silent = frozen(":v1.35.4", "v1.35.3");
    silent.kube().node_leases.as_mut().unwrap().by_name.remove("cp-2");
    assert_eq!(said(&silent, ID), [""; 0], "the mirror pod is the outdated one");
}

#[test]
fn old_kubelets_had_a_narrower_policy() {
    for (kubelet_version, fine) in [("v1.24.0", true), ("v1.23.17", false)] {
        let mut snapshot = healthy();
        for node in ["cp-1", "cp-2", "cp-3"] {
            for component in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
                version(&mut snapshot, node, component, "v1.26.0");
            }
            kubelet(&mut snapshot, node, "v1.26.0");
        }
        kubelet(&mut snapshot, "w-1", kubelet_version);
        proxies(&mut snapshot, kubelet_version);
        assert_eq!(status(&snapshot, ID), if fine { Status::Warn } else { Status::Fail }, "{kubelet_version}");
    }
}

#[test]
fn components_stay_within_one_minor_version() {
    for (component, version_of_it, expected) in [
        // No kubelet may be newer than any API server, and the server is the exception here.
        ("kube-apiserver", "v1.34.1", "fail version-skew kube-apiserver-cp-2"),
        ("kube-apiserver", "v1.35.3", "warn versions-mixed cluster"),
        ("kube-apiserver", "v1.33.1", "fail version-skew kube-apiserver-cp-2"),
        ("kube-scheduler", "v1.34.1", "warn versions-mixed cluster"),
        ("kube-scheduler", "v1.33.1", "fail version-skew kube-scheduler-cp-2"),
        ("kube-scheduler", "v1.36.0", "fail version-skew kube-scheduler-cp-2"),
        ("kube-controller-manager", "v1.36.0", "fail version-skew kube-controller-manager-cp-2"),
    ] {
        let mut snapshot = healthy();
        version(&mut snapshot, "cp-2", component, version_of_it);
        let said = said(&snapshot, ID);
        assert!(said.contains(&expected.to_owned()), "{component} {version_of_it}: {said:?}");
    }
}

/// kubeadm upgrades one machine at a time, and these components are clients of the API server beside them.
#[test]
fn a_component_is_compared_with_the_api_server_of_its_machine() {
    let mut snapshot = healthy();
    for component in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        version(&mut snapshot, "cp-1", component, "v1.36.0");
    }
    assert_eq!(said(&snapshot, ID), ["warn versions-mixed cluster"]);
    assert_eq!(said(&snapshot.clone().without_talos(), ID), ["warn versions-mixed cluster"]);
    // The requests of a kubelet may reach any API server.
    kubelet(&mut snapshot, "cp-1", "v1.36.0");
    assert_eq!(said(&snapshot, ID), ["fail version-skew cp-1"]);
    assert_eq!(said(&snapshot.without_talos(), ID), ["fail version-skew cp-1"]);
}

/// The report names the exception, not the parts that it differs from.
#[test]
fn what_differs_is_reported_and_not_all_that_it_differs_from() {
    let mut snapshot = healthy();
    version(&mut snapshot, "cp-2", "kube-apiserver", "v1.34.1");
    assert_eq!(said(&snapshot, ID), ["fail version-skew kube-apiserver-cp-2"]);
    version(&mut snapshot, "cp-3", "kube-apiserver", "v1.34.1");
    let both = ["fail version-skew kube-apiserver-cp-2", "fail version-skew kube-apiserver-cp-3"];
    assert_eq!(said(&snapshot, ID), both);
    // If all API servers are older, any newer part was upgraded too early.
    version(&mut snapshot, "cp-1", "kube-apiserver", "v1.34.1");
    assert!(said(&snapshot, ID).iter().all(|it| !it.contains("apiserver")), "{:?}", said(&snapshot, ID));
    let mut early = healthy();
    kubelet(&mut early, "w-1", "v1.36.0");
    version(&mut early, "cp-1", "kube-apiserver", "v1.36.0");
    assert_eq!(said(&early, ID), ["fail version-skew w-1"]);
}

#[test]
fn the_version_that_was_asked_for_is_demanded_of_all() {
    for (asked, fine) in
        [("1.35.4", true), ("1.35", true), ("1.3", false), ("1.35.5", false), ("1.36", false), ("1.35.4-rc.0", false)]
    {
        let mut snapshot = healthy();
        snapshot.asked.expect_kubernetes = Some(asked.to_owned());
        let said = said(&snapshot, ID);
        assert_eq!(said.is_empty(), fine, "{asked}: {said:?}");
        assert!(
            fine || said.len() == 17 && said.iter().all(|it| it.starts_with("fail version-unexpected")),
            "{said:?}"
        );
    }
    let mut snapshot = healthy();
    snapshot.asked.expect_kubernetes = Some("1.35.4".to_owned());
    kubelet(&mut snapshot, "w-1", "v1.35.3");
    assert_eq!(said(&snapshot, ID), ["fail version-unexpected w-1"]);
    kubelet(&mut snapshot, "w-1", "v1.35.4-rc.0");
    assert_eq!(said(&snapshot, ID), ["fail version-unexpected w-1"]);
    kubelet(&mut snapshot, "w-1", "v1.35.4+build");
    assert_eq!(said(&snapshot, ID), [""; 0]);
}

/// The version skew policy is the API server's, whatever runs on the kubelet's machine.
#[test]
fn kubelets_of_other_systems_follow_the_api_servers_too() {
    let with = |version: &str, asked: Option<&str>| {
        let mut snapshot = Shape { foreign: 1, ..Shape::default() }.world();
        kubelet(&mut snapshot, "x-1", version);
        snapshot.asked.expect_kubernetes = asked.map(str::to_owned);
        snapshot
    };
    for (version, is_fine) in [("v1.36.0", false), ("v1.35.1", true), ("v1.32.0", true), ("v1.31.9", false)] {
        let expected: &[&str] = if is_fine { &[] } else { &["fail version-skew x-1"] };
        assert_eq!(said(&with(version, None), ID), expected, "{version}");
    }
    assert_eq!(said(&with("v1.35.1", Some("1.35.4")), ID), ["fail version-unexpected x-1"]);
    // The kubelet does not run.
    let mut silent = with("v1.31.9", None);
    not_ready(&mut silent, "x-1");
    assert_eq!(said(&silent, ID), [""; 0]);
}

#[test]
fn images_are_read_as_people_write_them() {
    for (as_written, fine) in [
        ("registry:5000/mirror/kube-scheduler:v1.35.4", true),
        ("registry:5000/kube-scheduler:v1.35.4@sha256:abc", true),
        ("kube-scheduler:1.35.4", true),
        ("registry:5000/kube-scheduler", false),
        ("registry/kube-scheduler@sha256:abc", false),
        ("sha256:abc", false),
        ("registry/kube-scheduler:latest", false),
        ("", false),
    ] {
        let mut snapshot = healthy();
        image(&mut snapshot, "cp-3", "kube-scheduler", as_written);
        let expected: &[&str] =
            if as_written.is_empty() { &["error unreadable-answer kube-scheduler-cp-3"] } else { &[] };
        assert_eq!(said(&snapshot, ID), expected, "{as_written}");
        let seen =
            judge(&snapshot, ID).findings.into_iter().find(|it| it.target.name == "kube-scheduler-cp-3").unwrap();
        assert_eq!(matches!(seen.outcome, Outcome::Pass(_)), fine, "{as_written}");
        // A version that is demanded has to be observed.
        snapshot.asked.expect_kubernetes = Some("1.35.4".to_owned());
        assert_eq!(status(&snapshot, ID), if fine { Status::Pass } else { Status::Error }, "{as_written}");
    }
    // The runtime reports a digest, and the mirror pod the tag.
    let mut snapshot = healthy();
    for status in snapshot.talos_of("cp-1").static_pod_statuses.iter_mut().flatten() {
        "sha256:abc".clone_into(&mut status.state.containers[0].image);
    }
    assert_eq!(status(&snapshot, ID), Status::Pass);
}

/// Images that are pinned by digest stay that way, which is not a problem.
#[test]
fn what_images_do_not_tell_is_left_out_and_the_rest_is_compared() {
    let mut snapshot = healthy();
    for node in ["cp-1", "cp-2", "cp-3"] {
        image(&mut snapshot, node, "kube-apiserver", "registry:5000/kube-apiserver@sha256:abc");
    }
    assert_eq!((said(&snapshot, ID), status(&snapshot, ID)), (vec![], Status::Skip));
    let why = judge(&snapshot, ID).findings.into_iter().find(|it| it.target.name == "kube-apiserver-cp-1").unwrap();
    let expected = "not-measurable: image registry:5000/kube-apiserver@sha256:abc names no version";
    assert_eq!(why.outcome, Outcome::Skip(expected.to_owned()));
    kubelet(&mut snapshot, "w-1", "v1.34.0");
    assert_eq!(said(&snapshot, ID), ["warn versions-mixed cluster"]);
    // API servers are at least as new as the newest of the other parts.
    kubelet(&mut snapshot, "w-1", "v1.31.0");
    assert_eq!(said(&snapshot, ID), ["fail version-skew w-1"]);
    kubelet(&mut snapshot, "w-1", "v1.35.4");
    version(&mut snapshot, "cp-2", "kube-scheduler", "v1.33.0");
    assert_eq!(said(&snapshot, ID), ["fail version-skew kube-scheduler-cp-2"]);
    // One API server with a known version is enough for the comparison.
    let mut one = healthy();
    image(&mut one, "cp-1", "kube-apiserver", "kube-apiserver@sha256:abc");
    assert_eq!(status(&one, ID), Status::Pass);
    kubelet(&mut one, "w-1", "v1.36.0");
    assert_eq!(said(&one, ID), ["fail version-skew w-1"]);
}

#[test]
fn what_is_not_there_is_left_to_those_who_miss_it() {
    let mut snapshot = healthy();
    snapshot.talos_of("cp-2").static_pod_statuses.as_mut().unwrap().retain(|it| it.name != "kube-scheduler-cp-2");
    assert_eq!(said(&snapshot, ID), ["blocked kube-scheduler-cp-2 < k8s.controlplane.scheduler"]);
    snapshot.talos_of("cp-2").scheduler_enabled = Ok(Some(false));
    assert_eq!(status(&snapshot, ID), Status::Pass);
    let mut off = healthy();
    off.power_off("cp-3");
    assert_eq!(said(&off, ID), ["blocked cp-3 < talos.nodes.reachable"]);
    let mut alone = healthy().without_kubernetes();
    assert_eq!(status(&alone, ID), Status::Pass);
    alone.nodes.clear();
    assert_eq!(said(&alone, ID), ["error no-answer cluster < k8s.controlplane.apiserver"]);
    let mut blind = healthy();
    blind.kube().nodes = no(GapKind::TimedOut);
    assert_eq!(said(&blind, ID), ["blocked cluster < k8s.api.identity"]);
}

#[test]
fn without_api_servers_of_its_own_the_endpoint_tells_its_version() {
    let mut elsewhere = healthy().without_talos();
    for node in &mut elsewhere.nodes {
        node.role = crate::model::Role::Worker;
    }
    elsewhere.kube().pods.as_mut().unwrap().retain(|pod| !pod.mirror);
    assert_eq!(status(&elsewhere, ID), Status::Pass);
    // The provider upgrades the control plane independently.
    elsewhere.kube().version = Ok("v1.36.2-eks-3cfe0ce".to_owned());
    assert_eq!(said(&elsewhere, ID), [""; 0]);
    elsewhere.kube().version = Ok("v1.34.9".to_owned());
    let skewed = said(&elsewhere, ID);
    assert!(skewed.contains(&"fail version-skew w-1".to_owned()), "{skewed:?}");
    for unread in [no(GapKind::Forbidden), no(GapKind::NotAsked), Ok("new".to_owned())] {
        elsewhere.kube().version = unread;
        assert!(status(&elsewhere, ID) >= Status::Blocked);
    }
    elsewhere.kube().version = Ok("v1.35.4".to_owned());
    elsewhere.asked.expect_kubernetes = Some("1.35".to_owned());
    assert_eq!(status(&elsewhere, ID), Status::Pass);
    elsewhere.asked.expect_kubernetes = Some("1.36".to_owned());
    assert_eq!(status(&elsewhere, ID), Status::Fail);
    // API servers that are not running have no version, so there is nothing to compare with.
    let mut down = healthy();
    for node in ["cp-1", "cp-2", "cp-3"] {
        let pods = down.talos_of(node).static_pod_statuses.as_mut().unwrap();
        pods.retain(|it| !it.name.starts_with("kube-apiserver"));
    }
    let said = said(&down, ID);
    assert!(!said.is_empty() && said.iter().all(|it| it.ends_with("< k8s.controlplane.apiserver")), "{said:?}");
}

#[test]
fn nodes_outside_of_the_scope_are_compared_with_and_not_judged() {
    let mut snapshot = healthy();
    for name in ["cp-1", "cp-2", "cp-3"] {
        snapshot.node_mut(name).out_of_scope = true;
    }
    version(&mut snapshot, "cp-1", "kube-scheduler", "v1.36.0");
    assert_eq!(status(&snapshot, ID), Status::Pass);
    kubelet(&mut snapshot, "w-1", "v1.36.0");
    assert_eq!(said(&snapshot, ID), ["fail version-skew w-1"]);
    // One API server that was left behind is to blame, not the machine that is as new as all others.
    kubelet(&mut snapshot, "w-1", "v1.35.4");
    version(&mut snapshot, "cp-2", "kube-apiserver", "v1.34.1");
    assert_eq!(said(&snapshot, ID), ["fail version-skew kube-apiserver-cp-2"]);
    kubelet(&mut snapshot, "w-1", "v1.34.1");
    proxies(&mut snapshot, "v1.34.1");
    assert_eq!(status(&snapshot, ID), Status::Pass, "nothing that is judged is newer");
}

#[test]
fn kubelets_may_be_three_minor_versions_older_from_1_25_on() {
    for (kubelet_version, fine) in [("v1.25.0", true), ("v1.24.17", false)] {
        let mut snapshot = healthy();
        for node in ["cp-1", "cp-2", "cp-3"] {
            for component in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
                version(&mut snapshot, node, component, "v1.28.0");
            }
            kubelet(&mut snapshot, node, "v1.28.0");
        }
        kubelet(&mut snapshot, "w-1", kubelet_version);
        proxies(&mut snapshot, kubelet_version);
        assert_eq!(status(&snapshot, ID), if fine { Status::Warn } else { Status::Fail }, "{kubelet_version}");
    }
}

#[test]
fn what_the_policy_allows_is_told_with_the_skew() {
    let expected = |snapshot: &Snapshot| judge(snapshot, ID).problems().next().unwrap().1.expected.clone();
    let mut old = healthy();
    version(&mut old, "cp-2", "kube-scheduler", "v1.33.1");
    assert_eq!(expected(&old), "at most 1 minor version older than the newest API server (v1.35.4)");
    let mut old = healthy();
    kubelet(&mut old, "w-1", "v1.31.9");
    assert_eq!(expected(&old), "at most 3 minor versions older than the newest API server (v1.35.4)");
}

#[test]
fn a_mixture_names_three_of_each_version() {
    let mixed = |nodes: &[&str]| {
        let mut snapshot = healthy();
        for node in nodes {
            kubelet(&mut snapshot, node, "v1.35.3");
        }
        judge(&snapshot, ID).problems().next().unwrap().1.observed.clone()
    };
    let rest = "kube-controller-manager-cp-1, kube-controller-manager-cp-2";
    assert_eq!(
        mixed(&["w-1"]),
        format!(
            "v1.35.3: kubelet of w-1; v1.35.4: kube-apiserver-cp-1, kube-apiserver-cp-2, kube-apiserver-cp-3 and 13 more"
        )
    );
    assert!(mixed(&["w-1", "cp-1", "cp-2"]).starts_with("v1.35.3: kubelet of cp-1, kubelet of cp-2, kubelet of w-1; "));
    assert!(!mixed(&["w-1"]).contains(rest));
}

#[test]
fn a_kubelet_that_has_not_reported_is_not_judged_yet() {
    let mut snapshot = healthy();
    kubelet(&mut snapshot, "w-1", "");
    for condition in &mut snapshot.kube_node_mut("w-1").conditions {
        "Unknown".clone_into(&mut condition.status);
    }
    assert_eq!(said(&snapshot, ID), ["blocked w-1 < k8s.nodes.ready"]);
    kubelet(&mut snapshot, "w-1", "latest");
    assert_eq!(said(&snapshot, ID), ["error unreadable-answer w-1"]);
}

#[test]
fn nobody_listed_is_no_answer_and_nobody_asked_for_is_no_matter() {
    let mut empty = healthy().without_talos();
    empty.kube().nodes = Ok(Vec::new());
    assert_eq!(said(&empty, ID), ["error no-answer cluster"]);
    let mut narrowed = healthy();
    narrowed.node_mut("cp-3").out_of_scope = true;
    narrowed.talos_of("cp-3").static_pod_statuses.as_mut().unwrap().retain(|it| it.name != "kube-scheduler-cp-3");
    assert_eq!(said(&narrowed, ID), [""; 0]);
}
