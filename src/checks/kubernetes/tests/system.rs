//! Other workloads in kube-system and in the network plugin's namespace.

use std::time::Duration;

use crate::checks::kubernetes::tests::{judge, lines, no, not_ready, said, status, with};
use crate::model::{Hint, Status};
use crate::snapshot::{GapKind, Pod, Snapshot, Workload};
use crate::testing::fixture::{CONTROL_PLANES, healthy};

const SYSTEM: &str = "k8s.system";

/// The Deployment that no other check judges, with two pods.
fn metrics(snapshot: &mut Snapshot) -> &mut Workload {
    let mut deployments = snapshot.kube().deployments.as_mut().unwrap().iter_mut();
    deployments.find(|it| it.name == "metrics-server").unwrap()
}

#[test]
fn what_is_available_is_counted_and_what_others_judge_is_not() {
    assert_eq!(lines(&healthy(), SYSTEM), ["Other system workloads: all 2 available"]);
    let others = with(|snapshot| {
        snapshot.kube().daemon_sets.iter_mut().flatten().for_each(|set| set.available = 0);
        snapshot.kube().deployments.as_mut().unwrap()[0].available = 0;
    });
    assert_eq!(said(&others, SYSTEM), [""; 0]);
    let none = with(|snapshot| {
        snapshot.kube().deployments.as_mut().unwrap().truncate(1);
        snapshot.kube().stateful_sets = Ok(Vec::new());
    });
    assert_eq!(status(&none, SYSTEM), Status::Pass);
    let empty = with(|snapshot| {
        let kubernetes = snapshot.kube();
        for list in [&mut kubernetes.daemon_sets, &mut kubernetes.deployments, &mut kubernetes.stateful_sets] {
            *list = Ok(Vec::new());
        }
    });
    assert_eq!(status(&empty, SYSTEM), Status::Skip);
}

#[test]
fn a_rollout_is_told_from_one_that_is_stuck() {
    let of = |change: fn(&mut Workload)| {
        let snapshot = with(|snapshot| {
            metrics(snapshot).available = 1;
            metrics(snapshot).unchanged_for = Some(Duration::from_secs(299));
            change(metrics(snapshot));
        });
        said(&snapshot, SYSTEM)
    };
    let [warned, failed, untold] =
        ["warn", "fail", "error"].map(|status| [format!("{status} workload-degraded kube-system/metrics-server")]);
    assert_eq!(of(|_| {}), warned);
    assert_eq!(of(|it| it.unchanged_for = Some(Duration::from_secs(300))), failed);
    assert_eq!(of(|it| it.unchanged_for = None), untold);
    assert_eq!(of(|it| (it.available, it.given_up) = (2, Some("it timed out".to_owned()))), failed);
    assert_eq!(of(|it| it.available = 0), ["fail workload-unavailable kube-system/metrics-server"]);
    // Numbers from an earlier generation do not count.
    assert_eq!(of(|it| (it.available, it.generation) = (2, 2)), warned);
    assert_eq!(of(|it| (it.available, it.observed_generation) = (0, None)), warned);
    assert_eq!(of(|it| (it.generation, it.unchanged_for) = (2, Some(Duration::from_secs(300)))), failed);
    assert_eq!(of(|it| it.desired = 0), [""; 0]);
}

#[test]
fn pods_of_a_daemon_set_on_nodes_that_are_not_ready_are_the_nodes() {
    let of = |available: i32, change: &dyn Fn(&mut Snapshot)| {
        let snapshot = with(|snapshot| {
            let mut set = snapshot.kube().daemon_sets.as_ref().unwrap()[0].clone();
            (set.namespace, set.name, set.available) =
                ("calico-system".to_owned(), "calico-node".to_owned(), available);
            snapshot.kube().daemon_sets.as_mut().unwrap().push(set);
            change(snapshot);
        });
        said(&snapshot, SYSTEM)
    };
    let not_ready = |snapshot: &mut Snapshot| not_ready(snapshot, "w-1");
    assert_eq!(of(3, &|_| {}), ["fail workload-degraded calico-system/calico-node"]);
    assert_eq!(of(3, &not_ready), ["warn workload-degraded calico-system/calico-node < k8s.nodes.ready"]);
    assert_eq!(of(2, &not_ready), ["fail workload-degraded calico-system/calico-node"]);
    // A ready node runs the pods even if it is being removed or has another system.
    let incomplete = ["fail workload-degraded calico-system/calico-node"];
    assert_eq!(of(3, &|it| it.node_mut("w-1").leaving = true), incomplete);
    assert_eq!(of(3, &|it| it.node_mut("w-1").is_talos = false), incomplete, "a guest");
    let virtual_kubelet = |snapshot: &mut Snapshot| {
        snapshot.node_mut("w-1").is_talos = false;
        snapshot.kube_node_mut("w-1").become_virtual();
    };
    assert_eq!(of(3, &virtual_kubelet), [""; 0], "it runs no containers");
    assert_eq!(of(3, &|it| (not_ready(it), it.node_mut("w-1").leaving = true).1), [""; 0]);
    assert_eq!(of(3, &|it| (not_ready(it), it.node_mut("w-1").is_talos = false).1), [""; 0], "a guest");
}

/// If pods show their owner, the missing ones are known.
#[test]
fn pods_show_where_a_daemon_set_lacks_one() {
    let since = |namespace: &str, guest: &str, unwell: &str, restarts: u32, unready_for: u64| {
        let snapshot = with(|snapshot| {
            snapshot.node_mut(guest).is_talos = false;
            let kubernetes = snapshot.kube();
            let mut set = kubernetes.daemon_sets.as_ref().unwrap()[0].clone();
            (set.name, set.available, set.unchanged_for) = ("cilium".to_owned(), 3, Some(Duration::from_secs(30)));
            namespace.clone_into(&mut set.namespace);
            kubernetes.daemon_sets.as_mut().unwrap().push(set);
            let of_nodes = ["cp-1", "cp-2", "cp-3", "w-1"].map(|node| {
                let mut pod = kubernetes.pods.as_ref().unwrap()[0].clone();
                (pod.name, pod.node, pod.mirror) = (format!("cilium-{node}"), Some(node.to_owned()), false);
                namespace.clone_into(&mut pod.namespace);
                pod.controller = Some(("DaemonSet".to_owned(), "cilium".to_owned()));
                if node == unwell {
                    pod.state.ready = Some(false);
                    pod.unready_for = Some(Duration::from_secs(unready_for));
                    let container = &mut pod.state.containers[0];
                    (container.ready, container.running, container.restarts) = (false, false, restarts);
                    container.waiting_reason = Some("CrashLoopBackOff".to_owned());
                }
                pod
            });
            match namespace {
                "kube-system" => kubernetes.pods.as_mut().unwrap().extend(of_nodes),
                _ => kubernetes.plugin_pods.extend(of_nodes),
            }
        });
        said(&snapshot, SYSTEM)
    };
    for namespace in ["kube-system", "cilium"] {
        let of = |guest, unwell, restarts| since(namespace, guest, unwell, restarts, 60);
        assert_eq!(of("w-1", "w-1", 431), [""; 0], "the guest's own");
        assert_eq!(of("w-1", "cp-2", 431), [format!("fail workload-degraded {namespace}/cilium")]);
        // The pod may still become ready.
        assert_eq!(of("w-1", "cp-2", 3), [format!("warn workload-degraded {namespace}/cilium")]);
        // Other pods of the set have changed its status since.
        let missing = since(namespace, "w-1", "cp-2", 0, 300);
        assert_eq!(missing, [format!("fail workload-degraded {namespace}/cilium")]);
    }
}

#[test]
fn pods_of_the_network_plugin_that_restart_are_named_wherever_they_are() {
    let mut snapshot = with(|snapshot| {
        let kubernetes = snapshot.kube();
        let mut set = kubernetes.daemon_sets.as_ref().unwrap()[0].clone();
        (set.name, set.namespace) = ("calico-node".to_owned(), "calico-system".to_owned());
        kubernetes.daemon_sets.as_mut().unwrap().push(set);
        let mut pod = kubernetes.pods.as_ref().unwrap()[0].clone();
        (pod.name, pod.mirror) = ("calico-node-x".to_owned(), false);
        pod.controller = Some(("DaemonSet".to_owned(), "calico-node".to_owned()));
        // A different workload with the same name.
        kubernetes.pods.as_mut().unwrap().push(pod.clone());
        "calico-system".clone_into(&mut pod.namespace);
        for node in kubernetes.nodes.as_ref().unwrap() {
            pod.node = Some(node.name.clone());
            kubernetes.plugin_pods.push(pod.clone());
            pod.name.push('x');
        }
    });
    assert_eq!(said(&snapshot, SYSTEM), [""; 0]);
    let mut lacking = snapshot.clone();
    lacking.kube().plugin_pods.pop();
    assert_eq!(said(&lacking, SYSTEM), ["fail daemonset-incomplete calico-system/calico-node"]);
    snapshot.memory = snapshot.memory.after(&snapshot, snapshot.memory.elapsed);
    snapshot.kube().plugin_pods[0].state.containers[0].restarts += 1;
    assert_eq!(said(&snapshot, SYSTEM), ["warn restarting calico-node-x"]);
    assert!(judge(&snapshot, SYSTEM).problems().all(|(_, problem)| problem.between_rounds));
}

/// A pod that crashed repeatedly before it was evicted stays in the list.
#[test]
fn a_pod_that_has_ended_says_nothing_of_its_successors() {
    let of = |phase: &str| {
        let snapshot = with(|snapshot| {
            (metrics(snapshot).available, metrics(snapshot).unchanged_for) = (1, Some(Duration::from_secs(40)));
            let mut pod = snapshot.kube().pods.as_ref().unwrap()[0].clone();
            (pod.name, pod.mirror) = ("metrics-server-7f-a".to_owned(), false);
            pod.controller = Some(("ReplicaSet".to_owned(), "metrics-server-7f".to_owned()));
            (pod.state.ready, pod.state.phase) = (Some(false), phase.to_owned());
            let container = &mut pod.state.containers[0];
            (container.ready, container.running, container.restarts) = (false, false, 431);
            container.waiting_reason = Some("CrashLoopBackOff".to_owned());
            snapshot.kube().pods.as_mut().unwrap().push(pod);
        });
        said(&snapshot, SYSTEM)
    };
    assert_eq!(of("Running"), ["fail workload-degraded kube-system/metrics-server"]);
    assert_eq!(of("Failed"), ["warn workload-degraded kube-system/metrics-server"]);
}

/// The status counts the pod until Kubernetes notices, so its age says nothing.
#[test]
fn pods_on_nodes_that_are_down_are_named() {
    let snapshot = with(|snapshot| {
        (metrics(snapshot).available, metrics(snapshot).desired) = (1, 1);
        metrics(snapshot).unchanged_for = Some(Duration::from_secs(864_000));
        let mut pod = snapshot.kube().pods.as_ref().unwrap()[0].clone();
        (pod.name, pod.mirror, pod.node) = ("metrics-server-7f-x".to_owned(), false, Some("w-9".to_owned()));
        pod.controller = Some(("ReplicaSet".to_owned(), "metrics-server-7f".to_owned()));
        snapshot.kube().pods.as_mut().unwrap().push(pod);
    });
    let verdict = judge(&snapshot, SYSTEM);
    let observed: Vec<_> = verdict.problems().map(|(_, problem)| problem.observed.as_str()).collect();
    assert_eq!(observed, ["0 of 1 pods available, metrics-server-7f-x is on w-9, which was removed"]);
}

/// The pods are on the lost node, or wait for it.
#[test]
fn pods_of_a_deployment_that_went_with_their_node_are_the_nodes() {
    let of = |change: &dyn Fn(&mut Vec<Pod>)| {
        let snapshot = with(|snapshot| {
            snapshot.power_off("w-1");
            (metrics(snapshot).available, metrics(snapshot).unchanged_for) = (1, Some(Duration::from_secs(600)));
            let mut pods = ["w-1", "cp-1", ""].map(|node| {
                let mut pod = snapshot.kube().pods.as_ref().unwrap()[0].clone();
                (pod.name, pod.mirror) = (format!("metrics-server-7f-{node}"), false);
                pod.node = Some(node.to_owned()).filter(|node| !node.is_empty());
                pod.controller = Some(("ReplicaSet".to_owned(), "metrics-server-7f".to_owned()));
                pod.state.ready = Some(node == "cp-1");
                pod
            });
            pods[0].deleting = true;
            pods[2].state.phase = "Pending".to_owned();
            "0/4 nodes are available: 1 had untolerated taint {node.kubernetes.io/unreachable: }"
                .clone_into(&mut pods[2].state.message);
            let mut pods = pods.to_vec();
            change(&mut pods);
            snapshot.kube().pods.as_mut().unwrap().append(&mut pods);
        });
        said(&snapshot, SYSTEM)
    };
    let theirs = ["warn workload-degraded kube-system/metrics-server < talos.nodes.reachable"];
    assert_eq!(of(&|_| {}), theirs);
    assert_eq!(of(&|pods| drop(pods.remove(0))), theirs);
    assert_eq!(of(&|pods| drop(pods.remove(2))), theirs);
    let fails = ["fail workload-degraded kube-system/metrics-server"];
    assert_eq!(of(&|pods| drop(pods.drain(..))), fails, "nobody says where the second one is");
    assert_eq!(of(&|pods| (pods.remove(0), pods[1].state.message.clear()).1), fails);
}

/// The controller that counts the pods has stopped.
#[test]
fn numbers_that_do_not_follow_the_pods_are_not_believed() {
    let of = |count: usize, unready_for: u64| {
        let snapshot = with(|snapshot| {
            let kubernetes = snapshot.kube();
            let pods = (0..count).map(|at| {
                let mut pod = kubernetes.pods.as_ref().unwrap()[0].clone();
                (pod.name, pod.mirror) = (format!("metrics-server-7f-{at}"), false);
                pod.controller = Some(("ReplicaSet".to_owned(), "metrics-server-7f".to_owned()));
                if at == 0 {
                    (pod.state.ready, pod.unready_for) = (Some(false), Some(Duration::from_secs(unready_for)));
                }
                pod
            });
            let pods: Vec<Pod> = pods.collect();
            kubernetes.pods.as_mut().unwrap().extend(pods);
        });
        said(&snapshot, SYSTEM)
    };
    let degraded = |status| [format!("{status} workload-degraded kube-system/metrics-server")];
    assert_eq!(of(2, 29), [""; 0], "they follow in a moment");
    assert_eq!(of(2, 30), degraded("warn"));
    assert_eq!(of(2, 300), degraded("fail"));
    // Two other pods are enough.
    assert_eq!(of(3, 300), [""; 0]);
}

/// A machine without its agent cannot give new pods a network, whether or not the DaemonSet wants a pod there.
#[test]
fn a_network_plugin_wants_a_pod_on_every_talos_machine() {
    let of = |desired: i32, change: fn(&mut Snapshot)| {
        let snapshot = with(|snapshot| {
            let mut sets = Vec::new();
            for (name, desired) in [("cilium", desired), ("kube-multus-ds", 4)] {
                let mut set = snapshot.kube().daemon_sets.as_ref().unwrap()[0].clone();
                (set.name, set.labels) = (name.to_owned(), [("k8s-app".to_owned(), name.to_owned())].into());
                (set.desired, set.available) = (desired, desired);
                sets.push(set);
            }
            snapshot.kube().daemon_sets = Ok(sets);
            change(snapshot);
        });
        said(&snapshot, SYSTEM)
    };
    let failed = ["fail daemonset-incomplete kube-system/cilium"];
    assert_eq!(of(4, |_| {}), [""; 0]);
    assert_eq!(of(3, |_| {}), failed);
    assert_eq!(of(0, |_| {}), failed);
    assert_eq!(of(3, |it| it.node_mut("w-1").leaving = true), [""; 0]);
    assert_eq!(of(3, |it| it.node_mut("w-1").is_talos = false), [""; 0], "a guest has its own");
    // Node pools with different plugins.
    let second = |it: &mut Snapshot| {
        let mut set = it.kube().daemon_sets.as_ref().unwrap()[0].clone();
        (set.namespace, set.name, set.labels) = ("calico-system".to_owned(), "calico-node".to_owned(), [].into());
        (set.desired, set.available) = (1, 1);
        it.kube().daemon_sets.as_mut().unwrap().push(set);
    };
    assert_eq!(of(3, second), [""; 0]);
}

/// A list may be incomplete, and a `ReplicaSet` may have no Deployment.
#[test]
fn the_pods_decide_on_a_workload_that_is_not_listed() {
    let of = |kind: &str, name: &str, change: fn(&mut Pod)| {
        let snapshot = with(|snapshot| {
            let mut pod = snapshot.kube().pods.as_ref().unwrap()[0].clone();
            (pod.name, *pod.labels, pod.mirror) = ("csi-x2b5c".to_owned(), [].into(), false);
            pod.controller = Some((kind.to_owned(), name.to_owned()));
            (pod.state.ready, pod.unready_for) = (Some(false), Some(Duration::from_secs(299)));
            change(&mut pod);
            snapshot.kube().pods.as_mut().unwrap().push(pod);
        });
        said(&snapshot, SYSTEM)
    };
    let [warned, failed] = ["warn", "fail"].map(|status| [format!("{status} workload-degraded kube-system/csi")]);
    for (kind, name) in [("DaemonSet", "csi"), ("StatefulSet", "csi"), ("ReplicaSet", "csi-7f9c")] {
        assert_eq!(of(kind, name, |_| {}), warned, "{kind}");
        assert_eq!(of(kind, name, |it| it.unready_for = Some(Duration::from_secs(300))), failed, "{kind}");
        assert_eq!(of(kind, name, |it| it.state.ready = Some(true)), [""; 0], "{kind}");
        assert_eq!(of(kind, name, |it| it.deleting = true), [""; 0], "{kind}");
        assert_eq!(of(kind, name, |it| "Failed".clone_into(&mut it.state.phase)), [""; 0], "{kind}: evicted");
    }
    assert_eq!(of("Job", "csi-7f9c", |_| {}), [""; 0], "what is meant to end");
    assert_eq!(of("ReplicaSet", "coredns-5d8c4cc7b", |_| {}), [""; 0], "listed");
}

#[test]
fn what_talos_does_not_install_is_judged_here() {
    let disabled = |snapshot: &mut Snapshot| {
        for name in CONTROL_PLANES {
            let manifests = snapshot.talos_of(name).bootstrap_manifests.as_mut().unwrap().as_mut().unwrap();
            (manifests.proxy_enabled, manifests.flannel_enabled) = (false, false);
        }
        snapshot.kube().daemon_sets.iter_mut().flatten().for_each(|set| set.available = 0);
    };
    let failed = ["kube-flannel", "kube-proxy"].map(|name| format!("fail workload-unavailable kube-system/{name}"));
    assert_eq!(said(&with(disabled), SYSTEM), failed);
    // DNS that the user has installed.
    let mut dns = with(|snapshot| {
        for name in CONTROL_PLANES {
            let manifests = snapshot.talos_of(name).bootstrap_manifests.as_mut().unwrap().as_mut().unwrap();
            manifests.dns_enabled = false;
        }
        snapshot.kube().dns_endpoints = Ok(Vec::new());
    });
    assert_eq!(status(&dns, "k8s.dns"), Status::Skip, "its Service has another name");
    dns.kube().deployments.as_mut().unwrap()[0].available = 1;
    assert_eq!(said(&dns, "k8s.dns"), ["fail dns-no-endpoints kube-system/kube-dns"]);
    dns.kube().deployments.as_mut().unwrap()[0].desired = 0;
    assert_eq!(status(&dns, "k8s.dns"), Status::Skip);
}

#[test]
fn every_list_is_needed() {
    for lose in [
        (|it| it.kube().daemon_sets = no(GapKind::TimedOut)) as fn(&mut Snapshot),
        |it| it.kube().deployments = no(GapKind::TimedOut),
        |it| it.kube().stateful_sets = no(GapKind::TimedOut),
    ] {
        assert_eq!(said(&with(lose), SYSTEM), ["error timed-out cluster"]);
    }
    // If only kube-system is accessible, its workloads are judged, and the rest is reported as missing.
    let narrow = |snapshot: &mut Snapshot| snapshot.kube().plugin_namespaces = no(GapKind::Forbidden);
    assert_eq!(said(&with(narrow), SYSTEM), ["error forbidden cluster !"]);
    let worse = with(|snapshot| {
        narrow(snapshot);
        metrics(snapshot).available = 0;
    });
    assert_eq!(
        said(&worse, SYSTEM),
        ["error forbidden cluster !", "fail workload-unavailable kube-system/metrics-server"]
    );
    for id in ["k8s.kube-proxy", "k8s.cni", "k8s.dns"] {
        assert_eq!(status(&with(narrow), id), Status::Pass, "{id}");
    }
}

#[test]
fn the_workload_is_named_in_commands() {
    let snapshot = with(|snapshot| metrics(snapshot).available = 0);
    let look = Hint::run("{kubectl} -n {} describe {} {}", ["kube-system", "deployment", "metrics-server"]);
    assert!(judge(&snapshot, SYSTEM).problems().next().unwrap().1.hints.contains(&look));
}

/// Creates a DaemonSet `agent` in kube-system, with working pods on some nodes and crashing pods on others.
fn agent(snapshot: &mut Snapshot, well: &[&str], crashing: &[&str]) -> Workload {
    let mut set = snapshot.kube().daemon_sets.as_ref().unwrap()[0].clone();
    "agent".clone_into(&mut set.name);
    set.labels.clear();
    (set.desired, set.available) = (4, i32::try_from(well.len()).unwrap());
    for (at, node) in well.iter().chain(crashing).enumerate() {
        let mut pod = snapshot.kube().pods.as_ref().unwrap()[0].clone();
        (pod.name, pod.node, pod.mirror) = (format!("agent-{at}"), Some((*node).to_owned()), false);
        pod.controller = Some(("DaemonSet".to_owned(), "agent".to_owned()));
        pod.labels.clear();
        if at >= well.len() {
            (pod.state.ready, pod.unready_for) = (Some(false), Some(Duration::from_secs(3600)));
            let container = &mut pod.state.containers[0];
            (container.ready, container.running, container.restarts) = (false, false, 431);
            container.waiting_reason = Some("CrashLoopBackOff".to_owned());
        }
        snapshot.kube().pods.as_mut().unwrap().push(pod);
    }
    set
}

/// Returns the findings about `agent`, after `change` adjusts its numbers and template.
fn said_of_agent(well: &[&str], crashing: &[&str], change: impl FnOnce(&mut Snapshot, &mut Workload)) -> Vec<String> {
    let snapshot = with(|snapshot| {
        let mut set = agent(snapshot, well, crashing);
        change(snapshot, &mut set);
        snapshot.kube().daemon_sets.as_mut().unwrap().push(set);
    });
    said(&snapshot, SYSTEM)
}

const AGENT_FAILS: [&str; 1] = ["fail workload-degraded kube-system/agent"];

/// The DaemonSet wants one worker, and has no pod at all.
#[test]
fn a_machine_that_is_not_wanted_excuses_nothing() {
    let wants_worker = |change: fn(&mut Snapshot)| {
        said_of_agent(&[], &[], |snapshot, set| {
            snapshot.kube_node_mut("w-1").labels.insert("gpu".to_owned(), "yes".to_owned());
            set.spread.placement.labels.insert("gpu".to_owned(), "yes".to_owned());
            (set.desired, set.updated) = (1, Some(0));
            change(snapshot);
        })
    };
    let fails = ["fail workload-unavailable kube-system/agent"];
    assert_eq!(wants_worker(|_| {}), fails);
    assert_eq!(wants_worker(|snapshot| not_ready(snapshot, "cp-3")), fails);
    assert_eq!(wants_worker(|snapshot| snapshot.node_mut("cp-3").leaving = true), fails);
    assert_eq!(wants_worker(|snapshot| snapshot.node_mut("w-1").leaving = true), [""; 0], "nobody judges it");
}

/// A new pod crashes next to the old one, while a machine that is being removed lacks its own.
#[test]
fn what_may_be_missing_does_not_excuse_a_rollout_that_crashes() {
    let of = |crashing: &[&str]| {
        said_of_agent(&["cp-1", "cp-2", "cp-3"], crashing, |snapshot, set| {
            snapshot.node_mut("w-1").leaving = true;
            set.updated = Some(1);
        })
    };
    assert_eq!(of(&["cp-2"]), AGENT_FAILS);
    assert_eq!(of(&[]), ["warn workload-degraded kube-system/agent"]);
}

/// The status reports all pods as available.
#[test]
fn another_pod_does_not_stand_in_for_the_one_of_a_machine() {
    let counted = |_: &mut Snapshot, set: &mut Workload| set.available = 4;
    assert_eq!(said_of_agent(&["cp-1", "cp-2", "cp-3", "cp-3"], &["w-1"], counted), AGENT_FAILS);
    // The DaemonSet no longer wants a pod there, but Kubernetes leaves it running.
    let unwanted = |snapshot: &mut Snapshot, set: &mut Workload| {
        snapshot.kube_node_mut("w-1").taints.push(crate::testing::fixture::taint("gpu"));
        set.spread.placement.tolerations[0].key = "node-role.kubernetes.io/control-plane".to_owned();
        (set.desired, set.available, set.updated) = (3, 3, Some(3));
    };
    let all = ["cp-1", "cp-2", "cp-3"];
    assert_eq!(said_of_agent(&all, &["w-1"], unwanted), ["warn workload-degraded kube-system/agent"]);
}

/// A node that is not ready has Kubernetes' own taints, which disappear once it is ready.
#[test]
fn a_network_plugin_leaves_a_machine_out_by_what_lasts() {
    let of = |change: fn(&mut Snapshot)| {
        let snapshot = with(|snapshot| {
            let mut set = agent(snapshot, &["cp-1", "cp-2", "cp-3"], &[]);
            "cilium".clone_into(&mut set.name);
            (set.desired, set.updated, set.generation) = (3, Some(3), 1);
            let pods = snapshot.kube().pods.as_mut().unwrap();
            pods.iter_mut().filter(|pod| pod.name.starts_with("agent")).for_each(|pod| {
                pod.controller = Some(("DaemonSet".to_owned(), "cilium".to_owned()));
            });
            snapshot.kube_node_mut("w-1").taints.push(crate::testing::fixture::taint("gpu"));
            set.spread.placement.tolerations[0].key = "node-role.kubernetes.io/control-plane".to_owned();
            let sets = snapshot.kube().daemon_sets.as_mut().unwrap();
            sets.retain(|set| set.name != "kube-flannel");
            sets.push(set);
            change(snapshot);
        });
        said(&snapshot, SYSTEM)
    };
    let left_out = ["fail daemonset-incomplete kube-system/cilium"];
    assert_eq!(of(|_| {}), left_out);
    assert_eq!(of(|snapshot| not_ready(snapshot, "w-1")), left_out, "that may be why it is not ready");
    let own_taint = |snapshot: &mut Snapshot| {
        not_ready(snapshot, "w-1");
        snapshot.kube_node_mut("w-1").taints = vec![crate::testing::fixture::taint("node.kubernetes.io/not-ready")];
    };
    assert_eq!(of(own_taint), [""; 0]);
    assert_eq!(of(|snapshot| snapshot.node_mut("w-1").out_of_scope = true), [""; 0]);
    // Numbers that exceed any number of machines.
    let endless = |snapshot: &mut Snapshot| {
        let sets = snapshot.kube().daemon_sets.as_mut().unwrap();
        let mut other = sets.last().unwrap().clone();
        "calico-node".clone_into(&mut other.name);
        sets.push(other);
        sets.iter_mut().rev().take(2).for_each(|set| (set.desired, set.available) = (i32::MAX, i32::MAX));
    };
    assert_eq!(of(endless).len(), 2);
}

/// A replica of a Deployment crashes, which its status does not show yet.
#[test]
fn a_replica_belongs_to_its_workload_wherever_it_is_judged() {
    let of = |controller: (&str, &str), change: fn(&mut Snapshot)| {
        let snapshot = with(|snapshot| {
            agent(snapshot, &[], &["w-1"]);
            let pod = snapshot.kube().pods.as_mut().unwrap().last_mut().unwrap();
            pod.controller = Some((controller.0.to_owned(), controller.1.to_owned()));
            change(snapshot);
        });
        said(&snapshot, SYSTEM)
    };
    let replica = ("ReplicaSet", "metrics-server-5d8f7");
    let failed = ["fail workload-degraded kube-system/metrics-server"];
    let guest: fn(&mut Snapshot) = |snapshot| snapshot.node_mut("w-1").is_talos = false;
    let leaving: fn(&mut Snapshot) = |snapshot| snapshot.node_mut("w-1").leaving = true;
    assert_eq!(of(replica, |_| {}), failed);
    assert_eq!(of(replica, guest), failed, "a guest can run it");
    assert_eq!(of(replica, leaving), [""; 0], "it is replaced elsewhere");
    let unlisted = ["fail workload-degraded kube-system/lone-agent"];
    assert_eq!(of(("DaemonSet", "lone-agent"), |_| {}), unlisted);
    assert_eq!(of(("DaemonSet", "lone-agent"), guest), [""; 0], "it is the guest's");
}

/// A driver is judged like any system workload, in any namespace.
#[test]
fn a_driver_of_the_kubelets_counts_in_any_namespace() {
    let of = |available: i32, crashes: bool| {
        let snapshot = with(|snapshot| {
            let kubernetes = snapshot.kube();
            let mut set = kubernetes.daemon_sets.as_ref().unwrap()[0].clone();
            (set.namespace, set.name, set.registers_driver) = ("nfs".to_owned(), "node".to_owned(), true);
            (set.available, set.unchanged_for) = (available, Some(Duration::from_secs(30)));
            let mut pod = kubernetes.pods.as_ref().unwrap()[0].clone();
            (pod.namespace, pod.name, pod.mirror) = ("nfs".to_owned(), "node-1".to_owned(), false);
            (pod.node, pod.controller) = (Some("w-1".to_owned()), Some(("DaemonSet".to_owned(), "node".to_owned())));
            pod.state.ready = Some(false);
            let container = &mut pod.state.containers[0];
            (container.ready, container.running, container.restarts) = (false, false, if crashes { 560 } else { 0 });
            container.waiting_reason = Some("CrashLoopBackOff".to_owned());
            if available < set.desired {
                kubernetes.plugin_pods.push(pod);
            }
            kubernetes.daemon_sets.as_mut().unwrap().push(set);
        });
        said(&snapshot, SYSTEM)
    };
    assert_eq!(of(4, true), [""; 0]);
    assert_eq!(of(0, true), ["fail workload-unavailable nfs/node"]);
}

/// Agents of many kinds have a critical priority class.
#[test]
fn what_only_its_priority_class_names_fails_if_none_of_it_works() {
    let of = |namespace: &str, available: i32, is_critical: bool| {
        let mut snapshot = with(|snapshot| {
            let kubernetes = snapshot.kube();
            let mut agent = kubernetes.deployments.as_ref().unwrap()[0].clone();
            (agent.namespace, agent.name, agent.is_critical) = (namespace.to_owned(), "agent".to_owned(), is_critical);
            agent.labels.clear();
            (agent.desired, agent.available, agent.unchanged_for) = (2, available, Some(Duration::from_secs(3600)));
            kubernetes.deployments.as_mut().unwrap().push(agent);
        });
        snapshot = snapshot.without_talos();
        said(&snapshot, SYSTEM)
    };
    assert_eq!(of("agents", 2, true), [""; 0]);
    assert_eq!(of("agents", 1, true), ["warn workload-degraded agents/agent"]);
    assert_eq!(of("agents", 0, true), ["fail workload-unavailable agents/agent"]);
    assert_eq!(of("kube-system", 1, true), ["fail workload-degraded kube-system/agent"]);
}

#[test]
fn a_workload_whose_own_check_is_skipped_is_judged_here() {
    let mut snapshot = with(|snapshot| {
        let mut deployments = snapshot.kube().deployments.as_mut().unwrap().iter_mut();
        deployments.find(|it| it.name == "coredns").unwrap().available = 0;
    });
    assert_eq!(said(&snapshot, SYSTEM), [""; 0]);
    snapshot.asked.skipped.insert(crate::model::CheckId::K8sDns);
    assert_eq!(said(&snapshot, SYSTEM), ["fail workload-unavailable kube-system/coredns"]);
}
