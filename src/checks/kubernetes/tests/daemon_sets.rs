//! kube-proxy and flannel: missing pods, and the checks that report them.

use std::time::Duration;

use crate::assess::Assessment;
use crate::checks::kubernetes::tests::{beside, judge, lines, no, not_ready, pod, proxy, said, status, with};
use crate::checks::{allowance, find};
use crate::model::Status;
use crate::snapshot::{Allowance, GapKind, Snapshot};
use crate::testing::fixture::{CONTROL_PLANES, healthy};

const PROXY: &str = "k8s.kube-proxy";

#[test]
fn a_daemon_set_has_a_label_or_a_name() {
    assert_eq!(said(&with(|it| "proxy".clone_into(&mut proxy(it).name)), PROXY), [""; 0]);
    assert_eq!(said(&with(|it| proxy(it).labels.clear()), PROXY), [""; 0]);
    let other = with(|it| {
        proxy(it).labels.clear();
        "proxy".clone_into(&mut proxy(it).name);
    });
    assert_eq!(said(&other, PROXY), ["fail daemonset-missing kube-system/kube-proxy"]);
}

#[test]
fn what_only_carries_the_label_hides_no_daemon_set() {
    let incomplete = with(|snapshot| {
        proxy(snapshot).available = 0;
        beside(snapshot.kube().daemon_sets.as_mut().unwrap(), "kube-proxy");
    });
    assert_eq!(said(&incomplete, PROXY), ["fail daemonset-incomplete kube-system/kube-proxy"]);
    let windows = with(|snapshot| {
        let set = proxy(snapshot);
        "kube-proxy-windows".clone_into(&mut set.name);
        set.labels.insert("k8s-app".to_owned(), "kube-proxy".to_owned());
        (set.desired, set.available) = (0, 0);
    });
    assert_eq!(said(&windows, PROXY), ["fail daemonset-missing kube-system/kube-proxy"]);
}

/// Another network plugin, which Talos does not install.
fn without_flannel(snapshot: &mut Snapshot) {
    snapshot.kube().daemon_sets.as_mut().unwrap().retain(|set| set.name != "kube-flannel");
    for name in CONTROL_PLANES {
        snapshot.talos_of(name).bootstrap_manifests.as_mut().unwrap().as_mut().unwrap().flannel_enabled = false;
    }
}

/// Calico's eBPF mode replaces kube-proxy, flannel does not.
#[test]
fn a_kube_proxy_that_wants_no_node_may_be_replaced() {
    let none = |snapshot: &mut Snapshot| {
        (proxy(snapshot).desired, proxy(snapshot).available) = (0, 0);
        snapshot.kube().pods.as_mut().unwrap().retain(|pod| !pod.name.starts_with("kube-proxy"));
    };
    let nodes = ["cp-1", "cp-2", "cp-3", "w-1"].map(|node| format!("fail daemonset-incomplete {node}"));
    assert_eq!(said(&with(none), PROXY), nodes);
    let without_talos = with(none).without_talos();
    assert_eq!(said(&without_talos, PROXY), ["warn daemonset-incomplete kube-system/kube-proxy"]);
    let mut replaced = with(none);
    without_flannel(&mut replaced);
    assert_eq!((said(&replaced, PROXY), status(&replaced, PROXY)), (Vec::new(), Status::Skip));
}

/// During a change of the configuration, the control planes differ.
#[test]
fn what_one_control_plane_wants_is_wanted() {
    for name in CONTROL_PLANES {
        let snapshot = with(|snapshot| {
            snapshot.kube().daemon_sets.as_mut().unwrap().retain(|set| set.name != "kube-proxy");
            for other in CONTROL_PLANES.into_iter().filter(|other| *other != name) {
                let manifests = snapshot.talos_of(other).bootstrap_manifests.as_mut().unwrap();
                manifests.as_mut().unwrap().proxy_enabled = false;
            }
        });
        assert_eq!(said(&snapshot, PROXY), ["fail daemonset-missing kube-system/kube-proxy"], "{name}");
    }
}

#[test]
fn numbers_of_a_form_that_is_past_are_no_numbers() {
    for (generation, observed, fine) in [(2, 1, false), (2, 2, true), (1, 2, true)] {
        let snapshot = with(|snapshot| {
            (proxy(snapshot).generation, proxy(snapshot).observed_generation) = (generation, Some(observed));
        });
        assert_eq!(status(&snapshot, PROXY).is_fine(), fine, "{generation} {observed}");
    }
}

#[test]
fn the_nodes_that_lack_a_pod_are_those_whose_pod_is_not_ready_first() {
    let short = |change: fn(&mut Snapshot)| {
        with(|snapshot| {
            proxy(snapshot).available = 3;
            change(snapshot);
        })
    };
    let unready = |snapshot: &mut Snapshot| pod(snapshot, "kube-proxy-abcd3").state.ready = Some(false);
    let remove = |snapshot: &mut Snapshot, name: &str| {
        snapshot.kube().pods.as_mut().unwrap().retain(|pod| pod.name != name);
    };
    let mut one = short(|_| {});
    unready(&mut one);
    assert_eq!(said(&one, PROXY), ["fail daemonset-incomplete w-1"]);
    // cp-1 has no pod, regardless of the numbers.
    remove(&mut one, "kube-proxy-abcd0");
    assert_eq!(said(&one, PROXY), ["fail daemonset-incomplete cp-1", "fail daemonset-incomplete w-1"]);
    let mut narrowed = short(|snapshot| snapshot.node_mut("w-1").out_of_scope = true);
    unready(&mut narrowed);
    assert_eq!(said(&narrowed, PROXY), [""; 0], "nobody asked after this one");
    // A machine that Kubernetes does not list needs no pod, and a guest's pod does not count.
    let whole = ["fail daemonset-incomplete kube-system/kube-proxy"];
    let mut outside = short(|snapshot| {
        snapshot.node_mut("w-1").sources.kubernetes = false;
        snapshot.kube().nodes.as_mut().unwrap().retain(|object| object.name != "w-1");
    });
    remove(&mut outside, "kube-proxy-abcd3");
    assert_eq!(said(&outside, PROXY), whole);
    let mut guest = short(|snapshot| snapshot.node_mut("w-1").is_talos = false);
    remove(&mut guest, "kube-proxy-abcd3");
    assert_eq!(said(&guest, PROXY), [""; 0]);
    proxy(&mut guest).available = 2;
    assert_eq!(said(&guest, PROXY), whole);
}

/// Up to `maxUnavailable` pods can be missing, for as long as pods take to start.
#[test]
fn what_a_rollout_replaces_is_a_warning() {
    let of = |change: fn(&mut Snapshot)| {
        let mut snapshot = with(|snapshot| {
            (proxy(snapshot).available, proxy(snapshot).updated) = (3, Some(2));
            let pod = pod(snapshot, "kube-proxy-abcd3");
            (pod.state.ready, pod.unready_for) = (Some(false), Some(Duration::from_secs(3)));
        });
        change(&mut snapshot);
        said(&snapshot, PROXY)
    };
    let [warned, failed] = ["warn", "fail"].map(|status| [format!("{status} daemonset-incomplete w-1")]);
    assert_eq!(of(|_| {}), warned);
    // A pod counts as updated before it is ready.
    let counted = |snapshot: &mut Snapshot| {
        let set = proxy(snapshot);
        (set.updated, set.generation, set.observed_generation) = (Some(4), 2, Some(2));
    };
    let last = |waits: &'static str, changed: bool| {
        let mut snapshot = with(|snapshot| {
            proxy(snapshot).available = 3;
            counted(snapshot);
            proxy(snapshot).generation = if changed { 2 } else { 1 };
            let pod = pod(snapshot, "kube-proxy-abcd3");
            (pod.state.ready, pod.unready_for) = (Some(false), Some(Duration::from_secs(3)));
            "Pending".clone_into(&mut pod.state.phase);
            let container = &mut pod.state.containers[0];
            (container.ready, container.running, container.waiting_reason) = (false, false, Some(waits.to_owned()));
        });
        let created = said(&snapshot, PROXY);
        proxy(&mut snapshot).available = 0;
        assert_eq!(said(&snapshot, PROXY)[0], "fail daemonset-incomplete kube-system/kube-proxy", "{waits}: nowhere");
        created
    };
    assert_eq!(last("ContainerCreating", true), warned);
    assert_eq!(last("ContainerCreating", false), failed, "its template was never changed");
    assert_eq!(last("ImagePullBackOff", true), failed);
    let running: fn(&mut Snapshot) = |snapshot| {
        let set = proxy(snapshot);
        (set.updated, set.generation, set.observed_generation) = (Some(4), 2, Some(2));
    };
    assert_eq!(of(running), failed, "it has started");
    let terminating = of(|it| {
        let mut old = pod(it, "kube-proxy-abcd3").clone();
        (old.name, old.deleting, old.unready_for) = ("kube-proxy-old".to_owned(), true, Some(Duration::MAX));
        it.kube().pods.as_mut().unwrap().push(old);
    });
    assert_eq!(terminating, warned, "the old one is on its way out");
    assert_eq!(of(|it| pod(it, "kube-proxy-abcd3").unready_for = Some(Duration::from_secs(300))), failed);
    assert_eq!(of(|it| pod(it, "kube-proxy-abcd3").unready_for = None), failed);
    assert_eq!(of(|it| proxy(it).spread.max_unavailable = 0), failed, "new pods come first");
    let crash = |snapshot: &mut Snapshot| {
        let container = &mut pod(snapshot, "kube-proxy-abcd3").state.containers[0];
        (container.ready, container.waiting_reason) = (false, Some("CrashLoopBackOff".to_owned()));
    };
    assert_eq!(of(crash), ["fail daemonset-incomplete w-1"]);
    let remove = |snapshot: &mut Snapshot| {
        snapshot.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "kube-proxy-abcd3");
    };
    assert_eq!(of(remove), failed, "it has been gone for a day");
    let replace = |snapshot: &mut Snapshot| {
        snapshot.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "kube-proxy-abcd3");
        proxy(snapshot).unchanged_for = Some(Duration::from_secs(1));
    };
    assert_eq!(of(replace), warned);
}

/// A guest's pod does not block a rollout, because guests' pods are not judged.
#[test]
fn the_crash_of_a_guest_leaves_a_rollout_a_warning() {
    let snapshot = with(|snapshot| {
        snapshot.node_mut("w-1").is_talos = false;
        (proxy(snapshot).available, proxy(snapshot).updated) = (3, Some(2));
        let container = &mut pod(snapshot, "kube-proxy-abcd3").state.containers[0];
        (container.ready, container.restarts) = (false, 431);
        container.waiting_reason = Some("CrashLoopBackOff".to_owned());
        pod(snapshot, "kube-proxy-abcd3").state.ready = Some(false);
    });
    assert_eq!(said(&snapshot, PROXY), ["warn daemonset-incomplete kube-system/kube-proxy"]);
}

/// A selector or an affinity keeps the DaemonSet from wanting a pod on a machine that needs one.
#[test]
fn a_daemon_set_has_to_want_every_machine() {
    let fewer = |gone: &[&str]| {
        with(|snapshot| {
            let wanted = 4 - i32::try_from(gone.len()).unwrap();
            (proxy(snapshot).desired, proxy(snapshot).available) = (wanted, wanted);
            snapshot.kube().pods.as_mut().unwrap().retain(|pod| !gone.contains(&&*pod.name));
        })
    };
    let mut one = fewer(&["kube-proxy-abcd3"]);
    assert_eq!(said(&one, PROXY), ["fail daemonset-incomplete w-1"]);
    let two = ["fail daemonset-incomplete cp-1", "fail daemonset-incomplete w-1"];
    assert_eq!(said(&fewer(&["kube-proxy-abcd0", "kube-proxy-abcd3"]), PROXY), two);
    // Each machine has a pod of one DaemonSet or another.
    let numbers =
        |snapshot: &mut Snapshot, number| (proxy(snapshot).desired, proxy(snapshot).available) = (number, number);
    assert_eq!(said(&with(|it| numbers(it, 3)), PROXY), [""; 0]);
    // The pods have no label, so their controller identifies them.
    assert_eq!(
        said(&with(|it| it.kube().pods.iter_mut().flatten().for_each(|pod| pod.labels.clear())), PROXY),
        [""; 0]
    );
    // The numbers are complete although no pod exists.
    let gone =
        with(|it| it.kube().pods.iter_mut().for_each(|pods| pods.retain(|pod| !pod.name.starts_with("kube-proxy"))));
    assert_eq!(
        said(&gone, PROXY),
        ["cp-1", "cp-2", "cp-3", "w-1"].map(|name| format!("fail daemonset-incomplete {name}"))
    );
    // The nodes of the pods are unknown.
    one.kube().pods = no(GapKind::TimedOut);
    assert_eq!(said(&one, PROXY), ["error timed-out kube-system/kube-proxy < k8s.controlplane.apiserver"]);
    // A guest does not need a pod, and neither does a machine that is being removed.
    let mut guest = fewer(&["kube-proxy-abcd3"]);
    guest.node_mut("w-1").is_talos = false;
    assert_eq!(said(&guest, PROXY), [""; 0]);
    let mut leaving = fewer(&["kube-proxy-abcd3"]);
    leaving.node_mut("w-1").leaving = true;
    assert_eq!(said(&leaving, PROXY), [""; 0]);
    // A network plugin that replaces kube-proxy on every node.
    let mut replaced = fewer(&["kube-proxy-abcd0", "kube-proxy-abcd1", "kube-proxy-abcd2", "kube-proxy-abcd3"]);
    without_flannel(&mut replaced);
    assert_eq!(said(&replaced, PROXY), [""; 0]);
}

/// The DaemonSet's controller has not counted for a while.
#[test]
fn the_pods_count_more_than_what_their_daemon_set_says_of_them() {
    let since = |unready_for: Option<u64>| {
        with(|snapshot| {
            let pod = pod(snapshot, "kube-proxy-abcd3");
            pod.state.ready = Some(false);
            pod.unready_for = unready_for.map(Duration::from_secs);
        })
    };
    for (unready_for, expected) in [(Some(29), None), (Some(30), Some("w-1")), (None, Some("w-1"))] {
        let expected = expected.map(|node| format!("fail daemonset-incomplete {node}"));
        assert_eq!(said(&since(unready_for), PROXY), Vec::from_iter(expected), "{unready_for:?}");
    }
    let gone = with(|it| it.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "kube-proxy-abcd3"));
    assert_eq!(said(&gone, PROXY), ["fail daemonset-incomplete w-1"]);
    // During a replacement there are two pods.
    let mut replaced = since(None);
    let mut other = pod(&mut replaced, "kube-proxy-abcd3").clone();
    (other.name, other.state.ready) = ("kube-proxy-new".to_owned(), Some(true));
    replaced.kube().pods.as_mut().unwrap().push(other);
    assert_eq!(said(&replaced, PROXY), [""; 0]);
}

#[test]
fn the_pod_of_a_guest_counts_for_nothing() {
    let mut snapshot = with(|snapshot| {
        proxy(snapshot).available = 3;
        pod(snapshot, "kube-proxy-abcd3").state.ready = Some(false);
        not_ready(snapshot, "w-1");
    });
    assert_eq!(said(&snapshot, PROXY), ["fail daemonset-incomplete w-1 < k8s.nodes.ready"]);
    snapshot.node_mut("w-1").is_talos = false;
    assert_eq!(said(&snapshot, PROXY), [""; 0]);
}

#[test]
fn kube_proxy_covers_nodes_or_is_not_wanted() {
    let id = "k8s.kube-proxy";
    let set = |change: fn(&mut crate::snapshot::Workload)| {
        let mut snapshot = healthy();
        change(&mut snapshot.kube().daemon_sets.as_mut().unwrap()[1]);
        snapshot
    };
    assert_eq!(
        said(&set(|it| it.observed_generation = None), id),
        ["fail daemonset-incomplete kube-system/kube-proxy"]
    );
    assert_eq!(status(&set(|it| (it.desired, it.available) = (0, 0)), id), Status::Skip);
    // The numbers count even if the pods contradict them.
    assert_eq!(said(&set(|it| it.available = 3), id), ["fail daemonset-incomplete kube-system/kube-proxy"]);
    let mut snapshot = set(|it| it.available = 3);
    let pods = snapshot.kube().pods.as_mut().unwrap();
    pods.retain(|pod| pod.name != "kube-proxy-abcd3");
    assert_eq!(said(&snapshot, id), ["fail daemonset-incomplete w-1"]);
    snapshot.node_mut("w-1").leaving = true;
    assert_eq!(status(&snapshot, id), Status::Pass);

    snapshot.kube().daemon_sets = Ok(Vec::new());
    assert_eq!(said(&snapshot, id), ["fail daemonset-missing kube-system/kube-proxy"]);
    for name in CONTROL_PLANES {
        snapshot.talos_of(name).bootstrap_manifests = no(GapKind::TimedOut);
    }
    assert_eq!(said(&snapshot, id), ["error daemonset-missing kube-system/kube-proxy"]);
    let mut disabled = healthy();
    for name in CONTROL_PLANES {
        disabled.talos_of(name).bootstrap_manifests.as_mut().unwrap().as_mut().unwrap().proxy_enabled = false;
    }
    assert_eq!(status(&disabled, id), Status::Skip);
}

/// A worker that is allowed to be missing accounts for only one of the missing pods.
#[test]
fn what_the_missing_workers_do_not_account_for_is_not_allowed() {
    let id = "k8s.kube-proxy";
    let mut snapshot = healthy();
    snapshot.power_off("w-1");
    snapshot.asked.max_unready_workers = Allowance::Count(1);
    assert_eq!(said(&snapshot, id), ["fail daemonset-incomplete w-1 < k8s.nodes.ready"]);
    snapshot.kube().daemon_sets.as_mut().unwrap()[1].available = 1;
    let expected =
        ["fail daemonset-incomplete kube-system/kube-proxy", "fail daemonset-incomplete w-1 < k8s.nodes.ready"];
    assert_eq!(said(&snapshot, id), expected);
    let mut verdicts = vec![(find(id).unwrap(), judge(&snapshot, id))];
    allowance::apply(&Assessment::of(&snapshot), &mut verdicts);
    assert_eq!(verdicts[0].1.status(), Status::Fail);
}

#[test]
fn flannel_is_judged_where_talos_installs_it() {
    let id = "k8s.cni";
    let mut snapshot = healthy();
    snapshot.kube().daemon_sets.as_mut().unwrap()[0].available = 3;
    snapshot.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "kube-flannel-abcd3");
    assert_eq!(said(&snapshot, id), ["fail daemonset-incomplete w-1"]);
    assert_eq!(said(&snapshot.clone().without_talos(), id), ["fail daemonset-incomplete w-1"]);
    assert_eq!(status(&snapshot, "k8s.kube-proxy"), Status::Pass);
    snapshot.kube().daemon_sets.as_mut().unwrap().retain(|set| set.name != "kube-flannel");
    assert_eq!(said(&snapshot, id), ["fail daemonset-missing kube-system/kube-flannel"]);
    assert_eq!(status(&snapshot.clone().without_talos(), id), Status::Skip);
    for name in CONTROL_PLANES {
        snapshot.talos_of(name).bootstrap_manifests.as_mut().unwrap().as_mut().unwrap().flannel_enabled = false;
    }
    assert_eq!(status(&snapshot, id), Status::Skip);
    assert_eq!(lines(&healthy(), id), ["kube-flannel: available on 4 of 4 nodes"]);
}

#[test]
fn absurd_numbers_of_a_daemon_set_are_no_pass() {
    let mut snapshot = healthy();
    let set = snapshot.kube().daemon_sets.as_mut().unwrap().iter_mut().find(|set| set.name == "kube-proxy").unwrap();
    (set.desired, set.available) = (i32::MAX, i32::MIN);
    assert_eq!(status(&snapshot, "k8s.kube-proxy"), Status::Fail);
}
