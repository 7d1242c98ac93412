//! What may be upgraded, and what not.

use crate::model::{Hint, Status};
use crate::snapshot::{GapKind, Snapshot, Upgrade};
use crate::testing::fixture::{NODES, gap, healthy};
use crate::testing::judged::{hints, judge, lines, observed, status, wrong};

const TALOS: &str = "upgrade.talos.path";
const KUBERNETES: &str = "upgrade.kubernetes.path";
const MATRIX: &str = "upgrade.matrix";

/// The healthy cluster, about to be upgraded: Talos 1.13.0 and Kubernetes 1.35.4 run.
fn before(talos: Option<&str>, kubernetes: Option<&str>) -> Snapshot {
    let mut snapshot = healthy();
    snapshot.asked.upgrade =
        Upgrade { talos: talos.map(str::to_owned), kubernetes: kubernetes.map(str::to_owned), ..Upgrade::default() };
    snapshot
}

fn runs(snapshot: &mut Snapshot, names: &[&str], tag: &str) {
    for name in names {
        tag.clone_into(&mut snapshot.talos_of(name).contact.as_mut().unwrap().version.tag);
    }
}

/// Of all parts of Kubernetes.
fn kubernetes_runs(snapshot: &mut Snapshot, version: &str) {
    for node in &mut snapshot.nodes {
        for status in node.talos.static_pod_statuses.iter_mut().flatten() {
            for container in &mut status.state.containers {
                container.image = format!("registry.k8s.io/{}:{version}", container.name);
            }
        }
    }
    for object in snapshot.kube().nodes.as_mut().unwrap() {
        version.clone_into(&mut object.kubelet_version);
    }
    for pod in snapshot.kube().pods.as_mut().unwrap().iter_mut().filter(|pod| pod.name.starts_with("kube-proxy-")) {
        pod.state.containers[0].image = format!("registry.k8s.io/kube-proxy:{version}");
    }
}

fn likely(id: &str, snapshot: &Snapshot) -> Vec<String> {
    let text = |hint| if let Hint::Likely(text) = hint { Some(text) } else { None };
    hints(id, snapshot).into_iter().filter_map(text).collect()
}

#[test]
fn talos_goes_to_the_same_and_to_the_next_minor_version() {
    for target in ["1.13.0", "1.13.9", "1.14.1"] {
        let snapshot = before(Some(target), None);
        assert_eq!(lines(TALOS, &snapshot), [format!("every machine can be upgraded to Talos v{target}")]);
    }
}

#[test]
fn each_machine_is_judged_by_its_own_version() {
    let mut snapshot = before(Some("1.14.1"), None);
    runs(&mut snapshot, &["w-1"], "v1.11.5");
    runs(&mut snapshot, &["cp-2"], "v1.12.4");
    assert_eq!(
        wrong(TALOS, &snapshot),
        ["cp-2: warn minor-skipped, for ever", "w-1: fail upgrade-path-unsupported, for ever"]
    );
    assert_eq!(observed(TALOS, &snapshot), ["Talos v1.12.4", "Talos v1.11.5"]);
    assert_eq!(
        likely(TALOS, &snapshot),
        [
            "upgrade to the latest patch of 1.13 first",
            "upgrade to the latest patch of each minor version in between, first to 1.12"
        ]
    );
}

#[test]
fn talos_goes_back_within_bounds_and_not_unnoticed() {
    let mut snapshot = before(Some("1.12.4"), None);
    runs(&mut snapshot, &["w-1"], "v1.14.0");
    let warned = NODES[..3].iter().map(|name| format!("{name}: warn downgrade, for ever"));
    let expected: Vec<_> = warned.chain(["w-1: fail upgrade-path-unsupported, for ever".to_owned()]).collect();
    assert_eq!(wrong(TALOS, &snapshot), expected);
    let mut final_release = before(Some("1.14.0-beta.1"), None);
    runs(&mut final_release, &NODES, "v1.14.0");
    assert_eq!(wrong(TALOS, &final_release)[0], "cp-1: warn downgrade, for ever");
}

#[test]
fn what_the_tables_do_not_have_never_passes() {
    for target in ["1.15.0", "1.99.0", "2.0.0", "0.14.0", "1.4.0", "x"] {
        let snapshot = before(Some(target), None);
        for id in [TALOS, MATRIX] {
            assert_eq!(status(id, &snapshot), Status::Error, "{id} {target}");
            assert!(wrong(id, &snapshot).iter().all(|it| it.ends_with("error target-unknown, for ever")), "{target}");
        }
    }
    for target in ["1.38.0", "1.23.0", "2.35.0", "0.35.0", "x"] {
        let snapshot = before(None, Some(target));
        for id in [KUBERNETES, MATRIX] {
            assert_eq!(wrong(id, &snapshot), ["cluster: error target-unknown, for ever"], "{id} {target}");
        }
    }
}

#[test]
fn a_machine_whose_version_was_not_seen_does_not_pass() {
    let both = || before(Some("1.14.1"), Some("1.36.0"));
    let mut silent = both();
    silent.talos_of("w-1").contact = gap(GapKind::TimedOut);
    let mut unreadable = both();
    runs(&mut unreadable, &["w-1"], "dirty");
    for snapshot in [silent, unreadable] {
        for id in [TALOS, MATRIX] {
            assert!(!status(id, &snapshot).is_fine(), "{id}");
        }
    }
    let mut silent = both();
    for node in &mut silent.nodes {
        node.talos.static_pod_statuses = gap(GapKind::TimedOut);
    }
    silent.kube().pods = gap(GapKind::Forbidden);
    let mut unnamed = both();
    kubernetes_runs(&mut unnamed, "");
    let mut unlisted = both();
    unlisted.kube().nodes = Ok(Vec::new());
    for snapshot in [silent, unnamed, unlisted] {
        for id in [KUBERNETES, MATRIX] {
            assert!(!status(id, &snapshot).is_fine(), "{id} {:#?}", judge(id, &snapshot));
        }
    }
}

#[test]
fn a_talos_that_no_table_has_is_no_talos_that_supports_anything() {
    let mut snapshot = before(None, Some("1.36.0"));
    runs(&mut snapshot, &["w-1"], "v1.16.0");
    assert_eq!(wrong(MATRIX, &snapshot), ["cluster: error target-unknown, for ever"]);
    runs(&mut snapshot, &["w-1"], "v2.0.0");
    assert_eq!(wrong(MATRIX, &snapshot), ["w-1: error target-unknown, for ever"]);
}

#[test]
fn kubernetes_goes_one_minor_version_at_a_time_and_never_back() {
    for target in ["1.35.4", "1.35.9", "1.36.0"] {
        let snapshot = before(None, Some(target));
        assert_eq!(lines(KUBERNETES, &snapshot), [format!("Kubernetes can be upgraded to v{target}")]);
    }
    for target in ["1.37.0", "1.35.3", "1.34.9"] {
        let snapshot = before(None, Some(target));
        // Kubelets may be three minor versions older.
        let parts = if target == "1.37.0" { 9 } else { 17 };
        let wrong = wrong(KUBERNETES, &snapshot);
        assert_eq!(wrong.len(), parts, "{target} {wrong:?}");
        assert!(wrong.iter().all(|it| it.ends_with("fail upgrade-path-unsupported, for ever")), "{wrong:?}");
    }
}

#[test]
fn kubelets_bear_with_the_new_api_server_while_it_is_upgraded() {
    let mut snapshot = before(None, Some("1.36.0"));
    snapshot.kube_node_mut("w-1").kubelet_version = "v1.33.1".to_owned();
    assert_eq!(status(KUBERNETES, &snapshot), Status::Pass);
    snapshot.kube_node_mut("w-1").kubelet_version = "v1.32.1".to_owned();
    assert_eq!(wrong(KUBERNETES, &snapshot), ["w-1: fail upgrade-path-unsupported, for ever"]);
}

#[test]
fn the_new_talos_has_to_support_what_runs() {
    let mut snapshot = before(Some("1.14.0"), None);
    assert_eq!(lines(MATRIX, &snapshot), ["Talos 1.14 supports the current Kubernetes"]);
    kubernetes_runs(&mut snapshot, "v1.31.2");
    assert_eq!(wrong(MATRIX, &snapshot), ["cluster: fail versions-incompatible, for ever"]);
    assert_eq!(likely(MATRIX, &snapshot), ["upgrade Kubernetes to 1.32 first"]);
}

#[test]
fn the_present_talos_has_to_support_the_new_kubernetes() {
    assert_eq!(lines(MATRIX, &before(None, Some("1.36.0"))), ["the current Talos supports the new Kubernetes"]);
    let mut snapshot = before(None, Some("1.36.0"));
    runs(&mut snapshot, &["cp-3"], "v1.12.4");
    assert_eq!(wrong(MATRIX, &snapshot), ["cluster: fail versions-incompatible, for ever"]);
    assert_eq!(observed(MATRIX, &snapshot), ["Talos 1.12 on cp-3"]);
    assert_eq!(likely(MATRIX, &snapshot), ["upgrade Talos to 1.13 first"]);
}

#[test]
fn both_go_in_an_order_that_works() {
    let mut snapshot = before(Some("1.14.0"), Some("1.36.0"));
    assert_eq!(lines(MATRIX, &snapshot), ["Talos and Kubernetes may be upgraded in either order"]);
    snapshot.asked.upgrade.kubernetes = Some("1.37.0".to_owned());
    assert_eq!(lines(MATRIX, &snapshot), ["upgrade Talos first, then Kubernetes"]);
    let mut snapshot = before(Some("1.14.0"), Some("1.32.0"));
    kubernetes_runs(&mut snapshot, "v1.31.2");
    assert_eq!(lines(MATRIX, &snapshot), ["upgrade Kubernetes first, then Talos"]);
    snapshot.asked.upgrade.kubernetes = Some("1.37.0".to_owned());
    assert_eq!(wrong(MATRIX, &snapshot), ["cluster: fail versions-incompatible, for ever"]);
    assert_eq!(
        observed(MATRIX, &snapshot),
        [
            "neither order works: Kubernetes 1.31 on kube-apiserver-cp-1, kube-controller-manager-cp-1, kube-scheduler-cp-1 and 14 more, \
          Talos 1.13 on cp-1, cp-2, cp-3 and 1 more"
        ]
    );
    snapshot.asked.upgrade.talos = Some("1.12.0".to_owned());
    assert_eq!(wrong(MATRIX, &snapshot), ["cluster: fail versions-incompatible, for ever"], "the two new ones");
}

mod drain {
    use super::*;
    use crate::checks::find;
    use crate::engine;
    use crate::model::Reason;
    use crate::snapshot::{BoundPod, DisruptionBudget, Requirement};
    use crate::testing::fixture::{bound_pod, budget};

    const DRAIN: &str = "upgrade.drain";

    /// About to take down w-1, on which a pod of `web` runs as on each of the others.
    fn world() -> Snapshot {
        let mut snapshot = before(None, None);
        snapshot.asked.upgrade.drain = Some("w-1".to_owned());
        snapshot
    }

    fn with(change: impl FnOnce(&mut BoundPod, &mut DisruptionBudget)) -> Snapshot {
        let mut snapshot = world();
        let kube = snapshot.kube();
        let pods = kube.bound_pods.as_mut().unwrap();
        let pod = pods.iter_mut().find(|pod| pod.name == "web-w-1").unwrap();
        change(pod, &mut kube.disruption_budgets.as_mut().unwrap()[0]);
        snapshot
    }

    /// With a budget that allows nothing.
    fn closed(change: impl FnOnce(&mut BoundPod, &mut DisruptionBudget)) -> Snapshot {
        with(|pod, budget| {
            (budget.disruptions_allowed, budget.current_healthy, budget.desired_healthy) = (0, 2, 3);
            change(pod, budget);
        })
    }

    const BLOCKED: [&str; 1] = ["w-1: fail eviction-blocked"];

    fn passes(snapshot: &Snapshot) {
        assert_eq!(status(DRAIN, snapshot), Status::Pass, "{:#?}", judge(DRAIN, snapshot));
    }

    #[test]
    fn a_budget_that_allows_one_is_enough() {
        passes(&world());
        assert_eq!(lines(DRAIN, &world()), ["w-1 may be drained now"]);
    }

    #[test]
    fn a_budget_that_allows_none_holds_the_machine() {
        let snapshot = closed(|_, _| {});
        assert_eq!(wrong(DRAIN, &snapshot), BLOCKED);
        assert_eq!(
            observed(DRAIN, &snapshot),
            [
                "PodDisruptionBudget default/web allows 0 disruptions (2 of 3 required pods are healthy); it selects pod web-w-1"
            ]
        );
        // Of all machines, if all are to be upgraded.
        let mut all = snapshot;
        all.asked.upgrade = Upgrade { talos: Some("1.13.1".to_owned()), ..Upgrade::default() };
        assert_eq!(wrong(DRAIN, &all).len(), NODES.len());
        assert_eq!(status(DRAIN, &closed(|_, budget| budget.disruptions_allowed = -1)), Status::Fail);
    }

    #[test]
    fn what_is_not_evicted_asks_no_budget() {
        passes(&closed(|pod, _| pod.mirror = true));
        passes(&closed(|pod, _| pod.controller = Some(("DaemonSet".to_owned(), "web".to_owned()))));
        for phase in ["Succeeded", "Failed", "Pending"] {
            passes(&closed(|pod, _| pod.phase = phase.to_owned()));
        }
        passes(&closed(|pod, _| pod.deleting = true));
        assert_eq!(wrong(DRAIN, &closed(|pod, _| pod.phase = "Unknown".to_owned())), BLOCKED);
    }

    #[test]
    fn a_pod_that_is_not_ready_goes_by_the_policy_of_its_budget() {
        let unready = |change: fn(&mut DisruptionBudget)| {
            closed(|pod, budget| {
                pod.ready = false;
                change(budget);
            })
        };
        assert_eq!(wrong(DRAIN, &unready(|_| {})), BLOCKED, "too few others are healthy");
        passes(&unready(|budget| budget.always_allows_unready = true));
        passes(&unready(|budget| (budget.current_healthy, budget.desired_healthy) = (3, 3)));
        assert_eq!(wrong(DRAIN, &unready(|it| (it.current_healthy, it.desired_healthy) = (0, 0))), BLOCKED);
        // A ready one has to ask, whatever the policy says of others.
        assert_eq!(wrong(DRAIN, &closed(|_, budget| budget.always_allows_unready = true)), BLOCKED);
    }

    #[test]
    fn selectors_are_those_of_kubernetes() {
        let require = |key: &str, operator: &str, values: &[&str]| Requirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        };
        for (selector, holds) in [
            (None, false),
            (Some(vec![]), true),
            (Some(vec![require("app", "In", &["web", "x"])]), true),
            (Some(vec![require("app", "In", &["x"])]), false),
            (Some(vec![require("app", "NotIn", &["x"])]), true),
            (Some(vec![require("tier", "NotIn", &["x"])]), true),
            (Some(vec![require("app", "NotIn", &["web"])]), false),
            (Some(vec![require("app", "Exists", &[])]), true),
            (Some(vec![require("tier", "Exists", &[])]), false),
            (Some(vec![require("tier", "DoesNotExist", &[])]), true),
            (Some(vec![require("app", "Exists", &[]), require("tier", "Exists", &[])]), false),
        ] {
            let snapshot = closed(|_, budget| budget.selector.clone_from(&selector));
            let expected = if holds { Status::Fail } else { Status::Pass };
            assert_eq!(status(DRAIN, &snapshot), expected, "{selector:?}");
        }
        let unlabeled = closed(|pod, budget| {
            pod.labels.clear();
            budget.selector = Some(Vec::new());
        });
        assert_eq!(wrong(DRAIN, &unlabeled), BLOCKED, "an empty selector selects what has no label, too");
        passes(&closed(|_, budget| budget.namespace = "other".to_owned()));
        let newer = closed(|_, budget| budget.selector = Some(vec![require("app", "Like", &["w*"])]));
        assert_eq!(wrong(DRAIN, &newer), ["cluster: error unreadable-answer"]);
    }

    #[test]
    fn two_budgets_of_one_pod_refuse_it_whatever_they_allow() {
        let mut snapshot = world();
        let more = DisruptionBudget { name: "all".to_owned(), selector: Some(Vec::new()), ..budget("web") };
        snapshot.kube().disruption_budgets.as_mut().unwrap().push(more);
        assert_eq!(wrong(DRAIN, &snapshot), ["w-1: fail several-budgets, for ever"]);
        assert_eq!(observed(DRAIN, &snapshot), ["pod default/web-w-1 is selected by 2 PodDisruptionBudgets: web, all"]);
    }

    #[test]
    fn a_budget_that_nobody_has_counted_is_an_error() {
        let stale = with(|_, budget| budget.generation = 2);
        assert_eq!(wrong(DRAIN, &stale), ["w-1: error budget-stale"]);
        let closed = closed(|_, budget| budget.generation = 2);
        assert_eq!(wrong(DRAIN, &closed), ["w-1: error budget-stale"], "what it allows is of the past");
        let other = with(|_, budget| {
            budget.generation = 2;
            budget.namespace = "other".to_owned();
        });
        passes(&other);
    }

    #[test]
    fn what_a_drain_breaks_is_a_warning() {
        assert_eq!(wrong(DRAIN, &with(|pod, _| pod.controller = None)), ["w-1: warn unmanaged-pod, for ever"]);
        assert_eq!(wrong(DRAIN, &with(|pod, _| pod.has_empty_dir = true)), ["w-1: warn local-data, for ever"]);
        let mut alone = world();
        let pods = alone.kube().bound_pods.as_mut().unwrap();
        pods.retain(|pod| pod.name != "web-cp-1" && pod.name != "web-cp-2");
        pods.iter_mut().filter(|pod| pod.name == "web-cp-3").for_each(|pod| pod.ready = false);
        assert_eq!(wrong(DRAIN, &alone), ["w-1: warn last-replica, for ever"]);
        assert_eq!(observed(DRAIN, &alone), ["pod default/web-w-1 has no ready replica on another machine"]);
        // It is no replica that serves, or it goes anyway.
        for change in [|pod: &mut BoundPod| pod.ready = false, |pod: &mut BoundPod| pod.deleting = true] {
            let mut gone = alone.clone();
            gone.kube().bound_pods.iter_mut().flatten().filter(|pod| pod.name == "web-w-1").for_each(change);
            passes(&gone);
        }
    }

    /// The drain waits for it, and gives up.
    #[test]
    fn a_pod_that_should_be_gone_holds_the_machine() {
        let deleted = |seconds: Option<u64>| {
            with(|pod, _| (pod.deleting, pod.overdue) = (true, seconds.map(std::time::Duration::from_secs)))
        };
        for seconds in [None, Some(0), Some(60)] {
            passes(&deleted(seconds));
        }
        assert_eq!(wrong(DRAIN, &deleted(Some(720))), ["w-1: fail slow-termination"]);
        assert_eq!(
            observed(DRAIN, &deleted(Some(720))),
            ["pod default/web-w-1 is still terminating, and should have stopped 12m00s ago"]
        );
        let mut of_daemon = deleted(Some(720));
        for pod in of_daemon.kube().bound_pods.iter_mut().flatten() {
            pod.controller = Some(("DaemonSet".to_owned(), "web".to_owned()));
        }
        passes(&of_daemon);
        let slow = with(|pod, _| pod.grace = std::time::Duration::from_secs(301));
        assert_eq!(wrong(DRAIN, &slow), ["w-1: warn slow-termination, for ever"]);
        passes(&with(|pod, _| pod.grace = std::time::Duration::from_secs(300)));
    }

    /// It is deleted like any other, and something keeps it.
    #[test]
    fn a_finished_pod_that_should_be_gone_holds_the_machine() {
        for phase in ["Succeeded", "Failed"] {
            let finished = with(|pod, _| {
                pod.phase = phase.to_owned();
                (pod.deleting, pod.overdue) = (true, Some(std::time::Duration::from_secs(720)));
            });
            assert_eq!(wrong(DRAIN, &finished), ["w-1: fail slow-termination"], "{phase}");
        }
    }

    /// Longhorn and `CloudNativePG` open theirs once the node is cordoned.
    #[test]
    fn a_budget_of_an_operator_may_open_with_the_cordon() {
        let cordons = |kind: &str| {
            let closed = closed(|pod, _| pod.controller = Some((kind.to_owned(), "web".to_owned())));
            hints(DRAIN, &closed).contains(&Hint::remedy("{kubectl} cordon {}", ["w-1"]))
        };
        assert!(cordons("InstanceManager") && !cordons("ReplicaSet"));
    }

    /// The API server asks it of every eviction.
    #[test]
    fn a_webhook_for_evictions_without_a_backend_blocks() {
        let dead = |change: fn(&mut crate::snapshot::Webhook)| {
            let mut snapshot = world();
            let kubernetes = snapshot.kube();
            for hook in kubernetes.validating_webhooks.iter_mut().flatten() {
                hook.service = Some(("policy".to_owned(), "dead".to_owned()));
                change(hook);
            }
            kubernetes.webhook_endpoints.insert(("policy".to_owned(), "dead".to_owned()), Ok(Vec::new()));
            snapshot
        };
        assert_eq!(wrong(DRAIN, &dead(|_| {})), ["w-1: fail webhook-unavailable"]);
        passes(&dead(|hook| hook.fails_closed = false));
        passes(&dead(|hook| hook.is_conditional = true));
        passes(&dead(|hook| hook.rules[0].resources = vec!["pods".to_owned()]));
        passes(&dead(|hook| hook.rules[0].operations = vec!["DELETE".to_owned()]));
        let elsewhere = |hook: &mut crate::snapshot::Webhook| {
            hook.namespaces = vec![Requirement {
                key: "kubernetes.io/metadata.name".to_owned(),
                operator: "In".to_owned(),
                values: vec!["other".to_owned()],
            }];
        };
        passes(&dead(elsewhere));
    }

    /// The budget allows one, and after that one never another.
    #[test]
    fn a_budget_of_pods_that_do_not_come_back_is_used_up() {
        let with_two = |change: &dyn Fn(&mut BoundPod)| {
            let mut snapshot = world();
            let pods = snapshot.kube().bound_pods.as_mut().unwrap();
            for pod in pods.iter_mut().filter(|pod| ["web-w-1", "web-cp-1"].contains(&pod.name.as_str())) {
                "w-1".clone_into(&mut pod.node);
                change(pod);
            }
            snapshot
        };
        passes(&with_two(&|_| {}));
        let bare = with_two(&|pod| pod.controller = None);
        assert_eq!(wrong(DRAIN, &bare), ["w-1: fail eviction-blocked", "w-1: warn unmanaged-pod, for ever"]);
        assert_eq!(
            observed(DRAIN, &bare)[0],
            "PodDisruptionBudget default/web allows 1 disruption, but 2 of its pods here cannot run elsewhere: pods web-cp-1, web-w-1"
        );
        let nowhere = with_two(&|pod| pod.needs.placement.labels = [("pool".to_owned(), "a".to_owned())].into());
        assert_eq!(wrong(DRAIN, &nowhere), ["w-1: fail eviction-blocked"], "no other machine takes what replaces them");
        let mut cordoned = with_two(&|_| {});
        for room in cordoned.kube().node_room.as_mut().unwrap().iter_mut().filter(|room| room.name != "w-1") {
            room.unschedulable = true;
        }
        assert_eq!(wrong(DRAIN, &cordoned), ["w-1: fail eviction-blocked"]);
        let mut local = with_two(&|_| {});
        let claim = ("default".to_owned(), "data".to_owned());
        let volume = crate::snapshot::PersistentVolume { claim: Some(claim), terms: Some(Vec::new()) };
        local.kube().persistent_volumes = Ok(vec![volume]);
        assert_eq!(wrong(DRAIN, &local)[0], "w-1: fail eviction-blocked");
        for enough in [bare, local] {
            let mut enough = enough;
            enough.kube().disruption_budgets.as_mut().unwrap()[0].disruptions_allowed = 2;
            assert_ne!(status(DRAIN, &enough), Status::Fail);
        }
    }

    #[test]
    fn the_machine_is_known_by_name_or_address() {
        let mut snapshot = closed(|_, _| {});
        let address = snapshot.node("w-1").unwrap().address.clone();
        snapshot.asked.upgrade.drain = Some(address);
        assert_eq!(wrong(DRAIN, &snapshot), BLOCKED);
        snapshot.asked.upgrade.drain = Some("gone".to_owned());
        assert_eq!(wrong(DRAIN, &snapshot), ["cluster: error node-missing"]);
    }

    #[test]
    fn a_machine_that_is_not_judged_does_not_pass() {
        let mut outside = world();
        outside.node_mut("w-1").out_of_scope = true;
        let mut leaving = world();
        leaving.node_mut("w-1").leaving = true;
        assert_eq!(wrong(DRAIN, &outside), ["cluster: error node-missing, for ever"]);
        assert_eq!(wrong(DRAIN, &leaving), ["cluster: error node-leaving, for ever"]);
        let mut unregistered = world();
        unregistered.kube().nodes.as_mut().unwrap().retain(|node| node.name != "w-1");
        assert!(!status(DRAIN, &unregistered).is_fine());
    }

    #[test]
    fn no_list_is_no_pass() {
        for kind in [GapKind::Forbidden, GapKind::TimedOut, GapKind::TooLarge, GapKind::NotAsked] {
            let (mut pods, mut budgets) = (world(), world());
            pods.kube().bound_pods = gap(kind);
            budgets.kube().disruption_budgets = gap(kind);
            assert_eq!(status(DRAIN, &pods), Status::Error, "{kind:?}");
            assert_eq!(status(DRAIN, &budgets), Status::Error, "{kind:?}");
        }
        let mut empty = world();
        empty.kube().bound_pods = Ok(Vec::new());
        assert_eq!(wrong(DRAIN, &empty), ["cluster: error no-answer"]);
        let mut without = world();
        without.kube().disruption_budgets = Ok(Vec::new());
        passes(&without);
    }

    #[test]
    fn the_right_that_is_missing_is_named() {
        let mut snapshot = world();
        let text = "poddisruptionbudgets.policy is forbidden: User \"reader\" cannot list resource";
        snapshot.kube().disruption_budgets = Err(crate::snapshot::Gap::new(GapKind::Forbidden, text));
        let verdict = judge(DRAIN, &snapshot);
        let (_, problem) = verdict.problems().next().unwrap();
        assert_eq!((problem.reason, problem.observed.as_str()), (Reason::Forbidden, text));
        assert!(likely(DRAIN, &snapshot)[0].contains("`cluster-health rbac --upgrade`"));
    }

    #[test]
    fn a_thousand_machines_of_a_hundred_pods_are_judged_at_once() {
        let mut snapshot = world();
        snapshot.asked.upgrade = Upgrade { talos: Some("1.13.1".to_owned()), ..Upgrade::default() };
        let web = Some(("ReplicaSet", "web-6f7"));
        let nodes = (0..1000).map(|node| format!("n-{node}"));
        let pods = nodes.flat_map(|node| (0..110).map(move |pod| (node.clone(), pod)));
        let pods = pods.map(|(node, pod)| bound_pod("default", &format!("web-{pod}"), &node, web));
        snapshot.kube().bound_pods.as_mut().unwrap().extend(pods);
        let began = tokio::time::Instant::now();
        let check = find(DRAIN).unwrap();
        let verdicts = engine::judge(&[check], &crate::assess::Assessment::of(&snapshot));
        assert!(verdicts[0].1.status().is_fine());
        assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
    }
}

const QUORUM: &str = "upgrade.quorum";

#[test]
fn the_cluster_goes_on_without_any_one_machine() {
    let line = "etcd, the API and DNS keep working: every machine may go down";
    assert_eq!(lines(QUORUM, &before(Some("1.14.1"), None)), [line]);
    // `talosctl upgrade-k8s` takes none of them down.
    assert_eq!(status(QUORUM, &before(None, Some("1.36.0"))), Status::Skip);
}

/// A lease shows that a server lives, and not that anybody reaches it.
#[test]
fn the_only_server_that_was_seen_is_not_taken_down() {
    let seen = |names: &[&str]| {
        let mut snapshot = before(Some("1.14.1"), None);
        for name in ["cp-1", "cp-2", "cp-3"].into_iter().filter(|name| !names.contains(name)) {
            snapshot.kube().servers.insert(name.to_owned(), gap(GapKind::ConnectTimedOut));
        }
        wrong(QUORUM, &snapshot)
    };
    assert_eq!(seen(&["cp-1", "cp-2"]), [""; 0]);
    assert_eq!(seen(&["cp-1"]), ["cp-1: error no-answer"]);
    assert_eq!(seen(&[]), [""; 0], "a runner that reaches the endpoint alone");
}

#[test]
fn a_second_member_is_not_taken_down() {
    let mut snapshot = before(Some("1.14.1"), None);
    snapshot.talos_of("cp-2").contact = gap(GapKind::NodeUnreachable);
    snapshot.talos_of("cp-2").etcd_status = gap(GapKind::NotAsked);
    snapshot.kube().servers.insert("cp-2".to_owned(), gap(GapKind::NoRoute));
    snapshot.kube().api_endpoints.as_mut().unwrap().truncate(1);
    assert_eq!(
        wrong(QUORUM, &snapshot),
        ["cp-1: fail quorum-at-risk, see etcd.tolerance", "cp-3: fail quorum-at-risk, see etcd.tolerance"]
    );
    assert_eq!(observed(QUORUM, &snapshot), ["1 would be left", "1 would be left"]);
    // It may be up.
    let mut untold = before(Some("1.14.1"), None);
    untold.talos_of("cp-2").etcd_status = gap(GapKind::Broken);
    assert_eq!(wrong(QUORUM, &untold), ["cp-1: blocked etcd.tolerance", "cp-3: blocked etcd.tolerance"]);
}

#[test]
fn only_the_machine_that_goes_is_judged() {
    let mut snapshot = before(None, None);
    snapshot.talos_of("cp-2").contact = gap(GapKind::NodeUnreachable);
    snapshot.talos_of("cp-2").etcd_status = gap(GapKind::NotAsked);
    snapshot.kube().servers.insert("cp-2".to_owned(), gap(GapKind::NoRoute));
    snapshot.kube().api_endpoints.as_mut().unwrap().truncate(1);
    for (name, expected) in
        [("cp-1", &["cp-1: fail quorum-at-risk, see etcd.tolerance"][..]), ("w-1", &[]), ("cp-2", &[])]
    {
        snapshot.asked.upgrade.drain = Some(name.to_owned());
        assert_eq!(wrong(QUORUM, &snapshot), expected, "{name}");
    }
}

#[test]
fn the_last_api_server_and_the_last_dns_endpoint_stay() {
    let mut snapshot = before(Some("1.14.1"), None);
    for name in ["cp-2", "cp-3"] {
        let unready = crate::snapshot::Readyz { status: 500, ..snapshot.kube().servers[name].clone().unwrap() };
        snapshot.kube().servers.insert(name.to_owned(), Ok(unready));
    }
    for endpoint in snapshot.kube().dns_endpoints.as_mut().unwrap() {
        endpoint.node = Some("w-1".to_owned());
    }
    assert_eq!(
        wrong(QUORUM, &snapshot),
        ["cp-1: fail last-api-server, see k8s.api.servers", "w-1: fail last-dns-endpoint"]
    );
    snapshot.kube().dns_endpoints.as_mut().unwrap()[0].node = None;
    assert_eq!(wrong(QUORUM, &snapshot), ["cp-1: fail last-api-server, see k8s.api.servers", "w-1: error no-answer"]);
    // That is the trouble of `k8s.dns`.
    snapshot.kube().dns_endpoints.as_mut().unwrap().clear();
    assert_eq!(wrong(QUORUM, &snapshot), ["cp-1: fail last-api-server, see k8s.api.servers"]);
}

mod apis {
    use super::*;
    use crate::snapshot::RequestedApi;

    const APIS: &str = "upgrade.apis";

    fn with(node: &str, change: impl FnOnce(&mut RequestedApi)) -> Snapshot {
        let mut snapshot = before(None, Some("1.36.0"));
        let requested = snapshot.kube().requested_apis.get_mut(node).unwrap().as_mut().unwrap();
        change(&mut requested.apis[0]);
        snapshot
    }

    #[test]
    fn what_the_target_lacks_was_not_requested() {
        let snapshot = before(None, Some("1.36.0"));
        assert_eq!(
            lines(APIS, &snapshot),
            ["no API that Kubernetes 1.36 has removed was requested since 2026-01-14 12:00 UTC"]
        );
        assert_eq!(status(APIS, &before(Some("1.14.1"), None)), Status::Skip);
    }

    #[test]
    fn one_server_that_was_asked_for_a_removed_one_is_enough() {
        for (removed, is_gone) in [("1.36", true), ("1.9", true), ("1.37", false), ("", false), ("2.0", false)] {
            let snapshot = with("cp-2", |api| removed.clone_into(&mut api.removed));
            let expected: &[&str] = match removed {
                "2.0" => &["cp-2: error unreadable-answer"],
                _ if is_gone => &["cp-2: fail removed-api-requested, for ever"],
                _ => &[],
            };
            assert_eq!(wrong(APIS, &snapshot), expected, "{removed}");
        }
        let snapshot = with("cp-3", |api| {
            *api = RequestedApi {
                group: "flowcontrol.apiserver.k8s.io".to_owned(),
                version: "v1beta3".to_owned(),
                resource: "flowschemas".to_owned(),
                subresource: "status".to_owned(),
                removed: "1.32".to_owned(),
            };
        });
        let seen = observed(APIS, &snapshot);
        let name = "flowcontrol.apiserver.k8s.io/v1beta3 flowschemas/status (removed in 1.32)";
        assert!(seen[0].starts_with("requested since its start at 2026-01-14") && seen[0].ends_with(name), "{seen:?}");
    }

    #[test]
    fn a_server_that_was_not_seen_is_no_pass() {
        let mut refused = before(None, Some("1.36.0"));
        refused.kube().requested_apis.insert("cp-2".to_owned(), gap(GapKind::Forbidden));
        assert_eq!(wrong(APIS, &refused), ["cp-2: error forbidden, for ever"]);
        assert!(likely(APIS, &refused)[0].contains("`cluster-health rbac --upgrade`"));
        for kind in [GapKind::ConnectTimedOut, GapKind::TooLarge, GapKind::Malformed, GapKind::NotAsked] {
            let mut snapshot = before(None, Some("1.36.0"));
            snapshot.kube().requested_apis.insert("cp-2".to_owned(), gap(kind));
            assert_eq!(status(APIS, &snapshot), Status::Error, "{kind:?}");
        }
        let mut none = before(None, Some("1.36.0"));
        none.kube().requested_apis.clear();
        assert_eq!(status(APIS, &none), Status::Error);
        assert_eq!(wrong(APIS, &before(None, Some("1.99.0"))), ["cluster: error target-unknown, for ever"]);
    }
}

mod flags {
    use super::*;
    use crate::snapshot::Flags;

    const FLAGS: &str = "upgrade.flags";

    fn with(pod: &str, change: impl FnOnce(&mut Flags)) -> Snapshot {
        let mut snapshot = before(None, Some("1.36.0"));
        let flags = &mut snapshot.talos_of("cp-2").component_flags;
        change(flags.iter_mut().find(|it| it.pod.starts_with(pod)).unwrap());
        snapshot
    }

    #[test]
    fn kubelets_are_not_checked_without_the_role() {
        let mut snapshot = before(None, Some("1.36.0"));
        assert_eq!(lines(FLAGS, &snapshot), ["no component has a flag that Kubernetes 1.36 refuses"]);
        assert_eq!(status(FLAGS, &snapshot), Status::Pass);
        for node in NODES {
            snapshot.talos_of(node).kubelet_flags = gap(GapKind::Forbidden);
        }
        assert_eq!(wrong(FLAGS, &snapshot), ["cluster: warn kubelet-flags-unseen, for ever"]);
        assert!(observed(FLAGS, &snapshot)[0].contains("cp-1, cp-2, cp-3 and 1 more"));
        assert_eq!(
            lines(FLAGS, &snapshot),
            ["no component of the control plane has a flag that Kubernetes 1.36 refuses"]
        );
        assert_eq!(status(FLAGS, &before(Some("1.14.1"), None)), Status::Skip);
    }

    #[test]
    fn an_api_that_is_gone_may_not_be_configured() {
        let with_api = |api: &str| with("kube-apiserver", |flags| flags.apis.push(api.to_owned()));
        let gone = observed(FLAGS, &with_api("networking.k8s.io/v1alpha1"));
        assert_eq!(gone, ["kube-apiserver has --runtime-config networking.k8s.io/v1alpha1 (removed in 1.34)"]);
        assert_eq!(wrong(FLAGS, &with_api("scheduling.k8s.io/v1alpha2")), [""; 0], "not before 1.37");
    }

    #[test]
    fn a_kubelet_has_flags_and_gates_of_its_own() {
        let with = |change: &dyn Fn(&mut Flags)| {
            let mut snapshot = before(None, Some("1.36.0"));
            change(snapshot.talos_of("w-1").kubelet_flags.as_mut().unwrap().as_mut().unwrap());
            snapshot
        };
        for (flag, expected) in [
            ("pod-infra-container-image", Some("kubelet has --pod-infra-container-image (removed in 1.35)")),
            ("concurrent-service-syncs", None),
        ] {
            let snapshot = with(&|it| it.names.push(flag.to_owned()));
            assert_eq!(observed(FLAGS, &snapshot).first().map(String::as_str), expected);
        }
        let gate = with(&|it| it.gates.push(("AppArmor".to_owned(), true)));
        assert_eq!(wrong(FLAGS, &gate), ["w-1: fail removed-flag, for ever"]);
        // Whoever shows none has not shown them.
        let mut silent = before(None, Some("1.36.0"));
        silent.talos_of("w-1").kubelet_flags = gap(GapKind::TimedOut);
        assert_eq!(wrong(FLAGS, &silent), ["w-1: error timed-out"]);
        silent.talos_of("w-1").kubelet_flags = Ok(None);
        assert_eq!(wrong(FLAGS, &silent), ["w-1: error no-answer"]);
    }

    #[test]
    fn what_is_gone_is_named_with_its_version() {
        let gate = |gate: &str, is_on| {
            let gate = (gate.to_owned(), is_on);
            with("kube-scheduler", |it| it.gates.push(gate))
        };
        for (snapshot, expected) in [
            (with("kube-apiserver", |it| it.names.push("cloud-config".to_owned())), "--cloud-config (removed in 1.33)"),
            (
                with("kube-apiserver", |it| it.plugins.push("SecurityContextDeny".to_owned())),
                "admission plugin SecurityContextDeny (removed in 1.30)",
            ),
            (gate("AppArmor", true), "feature gate AppArmor (removed in 1.33)"),
            (gate("AppArmor", false), "feature gate AppArmor (removed in 1.33)"),
            (gate("NodeSwap", false), "feature gate NodeSwap=false (locked since 1.34)"),
            (gate("SeparateCacheWatchRPC", true), "feature gate SeparateCacheWatchRPC=true (locked since 1.36)"),
        ] {
            assert_eq!(wrong(FLAGS, &snapshot), ["cp-2: fail removed-flag, for ever"], "{expected}");
            assert!(
                observed(FLAGS, &snapshot)[0].ends_with(&format!(" has {expected}")),
                "{:?}",
                observed(FLAGS, &snapshot)
            );
        }
        for snapshot in [
            gate("NodeSwap", true),
            gate("SidecarContainers", true),
            gate("MyOwn", false),
            with("kube-scheduler", |it| it.names.push("cloud-config".to_owned())),
            with("kube-controller-manager", |it| it.names.push("concurrent-service-syncs".to_owned())),
        ] {
            assert_eq!(wrong(FLAGS, &snapshot), [""; 0]);
        }
        let mut later = with("kube-controller-manager", |it| it.names.push("concurrent-service-syncs".to_owned()));
        later.asked.upgrade.kubernetes = Some("1.37.0".to_owned());
        assert_eq!(wrong(FLAGS, &later), ["cp-2: fail removed-flag, for ever"]);
    }

    #[test]
    fn what_was_not_read_is_no_pass() {
        let mut unread = before(None, Some("1.36.0"));
        unread.talos_of("cp-2").static_pods = gap(GapKind::TimedOut);
        assert_eq!(wrong(FLAGS, &unread), ["cp-2: error timed-out"]);
        let mut empty = before(None, Some("1.36.0"));
        empty.talos_of("cp-2").component_flags.clear();
        assert_eq!(wrong(FLAGS, &empty), ["cp-2: error no-answer"]);
        assert_eq!(wrong(FLAGS, &with("kube-scheduler", |it| it.names.clear())), ["cp-2: error no-answer"]);
        for target in ["1.29.0", "1.38.0"] {
            assert_eq!(
                wrong(FLAGS, &before(None, Some(target))),
                ["cluster: error target-unknown, for ever"],
                "{target}"
            );
        }
        // Switched off on this machine.
        let mut without = before(None, Some("1.36.0"));
        let talos = without.talos_of("cp-2");
        talos.static_pods.as_mut().unwrap().retain(|id| !id.starts_with("kube-scheduler"));
        talos.component_flags.retain(|it| !it.pod.starts_with("kube-scheduler"));
        assert_eq!(wrong(FLAGS, &without), [""; 0]);
    }
}

mod extensions {
    use super::*;

    const EXTENSIONS: &str = "upgrade.extensions";
    const NONE: &str = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";
    const PLAIN: &str = "ghcr.io/siderolabs/installer:v1.14.1";

    /// Machines run schematic `a…`, and have what it has.
    fn with(image: &str) -> Snapshot {
        let mut snapshot = before(Some("1.14.1"), None);
        snapshot.asked.upgrade.image = Some(image.to_owned());
        for node in NODES {
            runs(&mut snapshot, node, &id('a'), &["iscsi-tools", "modules.dep"]);
        }
        snapshot
    }

    fn id(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    fn runs(snapshot: &mut Snapshot, node: &str, schematic: &str, extensions: &[&str]) {
        let extensions = extensions.iter().map(|name| ((*name).to_owned(), "v1".to_owned()));
        let schematic = (!schematic.is_empty()).then(|| ("schematic".to_owned(), schematic.to_owned()));
        snapshot.talos_of(node).extensions = Ok(extensions.chain(schematic).collect());
    }

    fn of(schematic: &str) -> Snapshot {
        with(&format!("factory.talos.dev/metal-installer/{schematic}:v1.14.1"))
    }

    #[test]
    fn the_schematic_of_the_machine_keeps_what_it_has() {
        for snapshot in [
            of(&id('a')),
            of("{schematic}"),
            with(&format!("mirror.example/factory.talos.dev/installer-secureboot/{}:v1.14.1@sha256:00", id('a'))),
        ] {
            assert_eq!(lines(EXTENSIONS, &snapshot), ["the image has the extensions of every machine"]);
        }
    }

    #[test]
    fn an_image_without_extensions_loses_them() {
        for snapshot in [of(NONE), with(PLAIN), with("ghcr.io/siderolabs/installer@sha256:00")] {
            let all = NODES.map(|node| format!("{node}: fail extensions-lost, for ever"));
            assert_eq!(wrong(EXTENSIONS, &snapshot), all);
            assert_eq!(observed(EXTENSIONS, &snapshot)[0], "iscsi-tools would be lost: the image has none");
        }
        // Kernel arguments or an overlay.
        let mut other = with(PLAIN);
        runs(&mut other, "w-1", &id('a'), &[]);
        assert_eq!(observed(EXTENSIONS, &other)[3], "the customization of schematic aaaaaaaaaaaa would be lost");
        // No Image Factory made it.
        runs(&mut other, "w-1", "", &["mine"]);
        assert_eq!(observed(EXTENSIONS, &other)[3], "mine would be lost: the image has none");
    }

    #[test]
    fn what_an_image_has_that_nobody_runs_is_not_known() {
        for (image, why) in [
            (
                format!("factory.talos.dev/metal-installer/{}:v1.14.1", id('b')),
                "no machine runs schematic bbbbbbbbbbbb",
            ),
            ("registry.example/siderolabs/installer:v1.14.1".to_owned(), "the image names no schematic"),
        ] {
            let mut snapshot = with(&image);
            assert_eq!(
                wrong(EXTENSIONS, &snapshot),
                NODES.map(|node| format!("{node}: error image-unknown, for ever"))
            );
            let expected = format!("it runs schematic aaaaaaaaaaaa with iscsi-tools; {why}");
            assert_eq!(observed(EXTENSIONS, &snapshot)[0], expected);
            // Who has nothing loses nothing.
            for node in NODES {
                runs(&mut snapshot, node, if node == "w-1" { "" } else { NONE }, &[]);
            }
            assert_eq!(status(EXTENSIONS, &snapshot), Status::Pass, "{image}");
        }
        let mut snapshot = of("{schematic}");
        runs(&mut snapshot, "w-1", "", &["mine"]);
        assert_eq!(wrong(EXTENSIONS, &snapshot), ["w-1: error image-unknown, for ever"]);
    }

    #[test]
    fn a_machine_that_runs_the_image_shows_what_it_has() {
        let mut snapshot = of(&id('b'));
        runs(&mut snapshot, "cp-1", &id('b'), &["util-linux-tools", "iscsi-tools"]);
        assert_eq!(status(EXTENSIONS, &snapshot), Status::Pass);
        runs(&mut snapshot, "w-1", &id('a'), &["iscsi-tools", "nvidia"]);
        assert_eq!(wrong(EXTENSIONS, &snapshot), ["w-1: fail extensions-lost, for ever"]);
        assert_eq!(observed(EXTENSIONS, &snapshot), ["nvidia would be lost: schematic bbbbbbbbbbbb lacks them"]);
        // Not if another machine has answered in its place.
        snapshot.talos_of("cp-1").contact = gap(GapKind::TimedOut);
        assert_eq!(wrong(EXTENSIONS, &snapshot)[1], "cp-2: error image-unknown, for ever");
    }

    #[test]
    fn without_an_image_nothing_is_compared() {
        let mut snapshot = before(Some("1.14.1"), None);
        assert_eq!(status(EXTENSIONS, &snapshot), Status::Skip);
        snapshot = of(&id('a'));
        snapshot.talos_of("w-1").extensions = gap(GapKind::TimedOut);
        assert_eq!(wrong(EXTENSIONS, &snapshot), ["w-1: error timed-out"]);
        snapshot = with(PLAIN);
        snapshot.asked.upgrade.drain = Some("w-1".to_owned());
        assert_eq!(wrong(EXTENSIONS, &snapshot), ["w-1: fail extensions-lost, for ever"], "the one that goes");
    }
}

mod room {
    use super::*;
    use crate::snapshot::{BoundPod, NodeRoom, Placement, Requirement, Taint, Term, Toleration};
    use crate::testing::fixture::{amounts, bound_pod, taint};

    const ROOM: &str = "upgrade.room";
    const NO_ROOM: [&str; 1] = ["w-1: fail pods-do-not-fit"];
    const LITTLE: [&str; 1] = ["w-1: warn little-room"];
    const PINNED: [&str; 1] = ["w-1: warn pinned-pod, for ever"];

    /// w-1 is to go, and on each machine is a pod of 100m CPU and 64 MiB of 4 CPU and 8 GiB.
    fn world() -> Snapshot {
        let mut snapshot = before(None, None);
        snapshot.asked.upgrade.drain = Some("w-1".to_owned());
        snapshot
    }

    fn pods(snapshot: &mut Snapshot) -> &mut Vec<BoundPod> {
        snapshot.kube().bound_pods.as_mut().unwrap()
    }

    fn rooms(snapshot: &mut Snapshot) -> &mut Vec<NodeRoom> {
        snapshot.kube().node_room.as_mut().unwrap()
    }

    fn web(snapshot: &mut Snapshot) -> &mut BoundPod {
        pods(snapshot).iter_mut().find(|pod| pod.name == "web-w-1").unwrap()
    }

    fn requests(snapshot: &mut Snapshot, requests: &[(&str, u64)]) {
        web(snapshot).needs.requests = Some(amounts(requests));
    }

    fn placed(change: impl FnOnce(&mut Placement)) -> Snapshot {
        let mut snapshot = world();
        change(&mut web(&mut snapshot).needs.placement);
        snapshot
    }

    fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
        let mut snapshot = world();
        change(&mut snapshot);
        snapshot
    }

    #[test]
    fn the_pods_of_a_machine_fit_on_the_others() {
        assert_eq!(lines(ROOM, &world()), ["the pods of w-1 fit on the other machines"]);
        assert_eq!(lines(ROOM, &before(Some("1.13.1"), None)), ["the pods of every machine fit on the other machines"]);
        assert_eq!(status(ROOM, &before(None, Some("1.36.0"))), Status::Skip);
    }

    #[test]
    fn a_pod_that_is_larger_than_what_any_has_left_does_not() {
        // 100m for the pod of kube-proxy and the API server, each, and for the other pod of the workload.
        let fits = with(|it| requests(it, &[("cpu", 3700), ("pods", 1)]));
        assert_eq!(status(ROOM, &fits), Status::Pass, "{:?}", wrong(ROOM, &fits));
        let does_not = with(|it| requests(it, &[("cpu", 3701), ("pods", 1)]));
        assert_eq!(wrong(ROOM, &does_not), NO_ROOM);
        assert_eq!(
            observed(ROOM, &does_not),
            ["pod default/web-w-1 requests 3.7 CPU, more than any of the 3 machines that take it has left"]
        );
        assert_eq!(wrong(ROOM, &with(|it| requests(it, &[("memory", 9 << 30)]))), NO_ROOM);
        // No other machine has any, and none ever will.
        let device = |amount: u64| {
            with(|it| {
                requests(it, &[("nvidia.com/gpu", 2)]);
                let others = rooms(it).iter_mut().filter(|room| room.name != "w-1");
                others.for_each(|room| {
                    _ = room.allocatable.as_mut().unwrap().insert("nvidia.com/gpu".to_owned(), amount);
                });
            })
        };
        assert_eq!(wrong(ROOM, &device(0)), PINNED);
        assert_eq!(wrong(ROOM, &device(1)), NO_ROOM);
        assert_eq!(wrong(ROOM, &device(2)), [""; 0]);
        let full = with(|it| {
            for room in rooms(it) {
                room.allocatable = Some(amounts(&[("cpu", 4000), ("memory", 8 << 30), ("pods", 3)]));
            }
        });
        assert_eq!(wrong(ROOM, &full), NO_ROOM, "there is no place for one more pod");
    }

    #[test]
    fn the_sum_of_them_counts() {
        let with_more = |many: usize, cpu: u64| {
            with(|it| {
                requests(it, &[("cpu", cpu), ("pods", 1)]);
                let pod = web(it).clone();
                let more = (1..many).map(|at| BoundPod { name: format!("web-{at}"), ..pod.clone() });
                pods(it).extend(more);
            })
        };
        let much = with_more(6, 2000);
        assert_eq!(wrong(ROOM, &much), NO_ROOM);
        assert_eq!(observed(ROOM, &much), ["6 pods request 12 CPU, and 11.1 CPU is left on 3 machines for them"]);
        let scattered = with_more(5, 2000);
        assert_eq!(wrong(ROOM, &scattered), LITTLE);
        assert_eq!(
            observed(ROOM, &scattered),
            ["no placement was found for pods default/web-3, default/web-4, though all would fit in total"]
        );
        let low = with_more(3, 3000);
        assert_eq!(wrong(ROOM, &low), LITTLE);
        assert_eq!(observed(ROOM, &low), ["17 % would be left: 2.1 CPU of 12 CPU"]);
        assert_eq!(wrong(ROOM, &with_more(3, 2700)), [""; 0]);
    }

    #[test]
    fn who_does_not_come_back_elsewhere_needs_no_room() {
        for change in [
            |pod: &mut BoundPod| pod.controller = None,
            |pod: &mut BoundPod| pod.controller = Some(("DaemonSet".to_owned(), "web".to_owned())),
            |pod: &mut BoundPod| pod.mirror = true,
            |pod: &mut BoundPod| pod.deleting = true,
            |pod: &mut BoundPod| pod.phase = "Succeeded".to_owned(),
        ] {
            let snapshot = with(|it| {
                requests(it, &[("cpu", 9000)]);
                change(web(it));
            });
            assert_eq!(wrong(ROOM, &snapshot), [""; 0]);
        }
        let local = with(|it| {
            requests(it, &[("cpu", 9000)]);
            it.kube().persistent_volumes.as_mut().unwrap()[0].terms = Some(Vec::new());
        });
        assert_eq!(wrong(ROOM, &local), [""; 0]);
        let drain = wrong("upgrade.drain", &local);
        assert_eq!(drain, ["w-1: warn local-volume, for ever"]);
    }

    #[test]
    fn only_nodes_that_take_the_pod_count() {
        let require = |key: &str, operator: &str, values: &[&str]| Requirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        };
        let host = "kubernetes.io/hostname";
        assert_eq!(wrong(ROOM, &placed(|it| drop(it.labels.insert(host.to_owned(), "w-1".to_owned())))), PINNED);
        assert_eq!(wrong(ROOM, &placed(|it| drop(it.labels.insert(host.to_owned(), "cp-1".to_owned())))), [""; 0]);
        assert_eq!(wrong(ROOM, &placed(|it| it.tolerations.clear())), PINNED, "the others are control planes");
        let term = |labels: Vec<Requirement>, fields: Vec<Requirement>| Term { labels, fields };
        for (terms, expected) in [
            (vec![], &PINNED[..]),
            (vec![Term::default()], &PINNED),
            (vec![term(vec![require(host, "In", &["cp-2"])], vec![])], &[]),
            (vec![term(vec![require(host, "NotIn", &["cp-1", "cp-2", "cp-3"])], vec![])], &PINNED),
            (
                vec![term(vec![require("x", "Exists", &[])], vec![]), term(vec![require(host, "Exists", &[])], vec![])],
                &[],
            ),
            (vec![term(vec![], vec![require("metadata.name", "In", &["w-1"])])], &PINNED),
            (vec![term(vec![], vec![require("metadata.name", "In", &["cp-1"])])], &[]),
            (vec![term(vec![require("generation", "Gt", &["3"])], vec![])], &PINNED),
            (vec![term(vec![require(host, "Like", &["x"])], vec![])], &["cluster: error unreadable-answer"]),
        ] {
            let snapshot = placed(|it| it.terms = Some(terms.clone()));
            assert_eq!(wrong(ROOM, &snapshot), expected, "{terms:?}");
        }
    }

    /// A volume of a zone, or of storage that some machines alone have.
    #[test]
    fn a_pod_goes_where_its_volumes_are() {
        let zoned = |zones: &[&str], cpu: u64| {
            with(|it| {
                requests(it, &[("cpu", cpu)]);
                for (room, zone) in rooms(it).iter_mut().zip(["a", "b", "b", "a"]) {
                    room.labels.insert("zone".to_owned(), zone.to_owned());
                }
                rooms(it)[0].allocatable = Some(amounts(&[("cpu", 1000), ("memory", 8 << 30), ("pods", 10)]));
                let values = zones.iter().map(|&zone| zone.to_owned()).collect();
                let zone = Requirement { key: "zone".to_owned(), operator: "In".to_owned(), values };
                let term = Term { labels: vec![zone], fields: Vec::new() };
                it.kube().persistent_volumes.as_mut().unwrap()[0].terms = Some(vec![term]);
            })
        };
        assert_eq!(wrong(ROOM, &zoned(&["a", "b"], 2000)), [""; 0]);
        assert_eq!(wrong(ROOM, &zoned(&["a"], 2000)), NO_ROOM, "cp-1 alone is in the zone, and has too little");
        assert_eq!(wrong(ROOM, &zoned(&["c"], 2000)), [""; 0], "held by its volume");
        assert_eq!(wrong("upgrade.drain", &zoned(&["c"], 2000)), ["w-1: warn local-volume, for ever"]);
    }

    #[test]
    fn taints_and_cordons_keep_pods_away() {
        let all = |change: fn(&mut NodeRoom)| with(|it| rooms(it).iter_mut().for_each(change));
        assert_eq!(wrong(ROOM, &all(|room| room.unschedulable = true)), NO_ROOM, "somebody has cordoned them");
        assert_eq!(wrong(ROOM, &all(|room| room.taints.push(taint("gpu")))), PINNED);
        assert_eq!(wrong(ROOM, &all(|room| room.taints.push(taint("node.kubernetes.io/not-ready")))), PINNED);
        let soft =
            |room: &mut NodeRoom| room.taints.push(Taint { effect: "PreferNoSchedule".to_owned(), ..taint("gpu") });
        assert_eq!(wrong(ROOM, &all(soft)), [""; 0]);
        for (key, operator, value, effect, tolerates) in [
            ("gpu", "Exists", "", "", true),
            ("gpu", "Exists", "", "NoSchedule", true),
            ("gpu", "Exists", "", "NoExecute", false),
            ("gpu", "Equal", "", "NoSchedule", true),
            ("gpu", "", "", "", true),
            ("gpu", "Equal", "yes", "", false),
            ("gpu", "Like", "", "", false),
            ("", "Exists", "", "", true),
            ("", "Equal", "", "", false),
            ("other", "Exists", "", "", false),
        ] {
            let mut snapshot = all(|room| room.taints.push(taint("gpu")));
            let [key, operator, value, effect] = [key, operator, value, effect].map(str::to_owned);
            let toleration = Toleration { key, operator, value, effect };
            web(&mut snapshot).needs.placement.tolerations.push(toleration.clone());
            let expected: &[&str] = if tolerates { &[] } else { &PINNED };
            assert_eq!(wrong(ROOM, &snapshot), expected, "{toleration:?}");
        }
    }

    #[test]
    fn what_was_not_read_is_no_pass() {
        for kind in [GapKind::Forbidden, GapKind::TimedOut, GapKind::TooLarge, GapKind::NotAsked] {
            let changes: [fn(&mut Snapshot, GapKind); 3] = [
                |it, kind| it.kube().bound_pods = gap(kind),
                |it, kind| it.kube().node_room = gap(kind),
                |it, kind| it.kube().persistent_volumes = gap(kind),
            ];
            for change in changes {
                assert_eq!(status(ROOM, &with(|it| change(it, kind))), Status::Error, "{kind:?}");
            }
        }
        assert_eq!(wrong(ROOM, &with(|it| rooms(it).retain(|room| room.name != "w-1"))), ["w-1: error no-answer"]);
        let unreadable = ["cluster: error unreadable-answer"];
        assert_eq!(wrong(ROOM, &with(|it| rooms(it)[0].allocatable = None)), unreadable);
        assert_eq!(wrong(ROOM, &with(|it| web(it).needs.requests = None)), unreadable);
    }

    #[test]
    fn a_thousand_machines_of_a_hundred_pods_are_judged_at_once() {
        let mut snapshot = world();
        snapshot.asked.upgrade = Upgrade { talos: Some("1.13.1".to_owned()), ..Upgrade::default() };
        let model = rooms(&mut snapshot)[3].clone();
        let names: Vec<String> = (0..1000).map(|at| format!("n-{at}")).collect();
        rooms(&mut snapshot).extend(names.iter().map(|name| NodeRoom { name: name.clone(), ..model.clone() }));
        let kinds = (0..110).map(|kind| format!("app-{kind}"));
        let kinds: Vec<_> = kinds.map(|app| bound_pod("default", &app, "", Some(("ReplicaSet", &app)))).collect();
        for name in &names {
            let here = kinds.iter().map(|pod| BoundPod { node: name.clone(), ..pod.clone() });
            pods(&mut snapshot).extend(here.map(|mut pod| {
                pod.needs.requests = Some(amounts(&[("cpu", 30), ("memory", 1 << 20), ("pods", 1)]));
                pod
            }));
        }
        let plain =
            crate::engine::judge(&[crate::checks::find(ROOM).unwrap()], &crate::assess::Assessment::of(&snapshot));
        assert!(plain[0].1.status().is_fine(), "{:?}", plain[0].1.status());
    }
}

mod volumes {
    use super::*;

    const VOLUMES: &str = "upgrade.volumes";

    /// cp-1 has a volume, and is drained; w-1 is to go.
    fn drained() -> Snapshot {
        let mut snapshot = before(None, None);
        snapshot.asked.upgrade.drain = Some("w-1".to_owned());
        snapshot.kube_node_mut("cp-1").unschedulable = true;
        snapshot.kube().bound_pods.as_mut().unwrap().retain(|pod| pod.name != "web-cp-1");
        snapshot
    }

    fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
        let mut snapshot = drained();
        change(&mut snapshot);
        snapshot
    }

    #[test]
    fn a_machine_that_was_drained_keeps_no_volume() {
        assert_eq!(wrong(VOLUMES, &drained()), ["cp-1: warn volume-attached"]);
        assert_eq!(observed(VOLUMES, &drained()), ["still attached: volume pv-1"]);
        let stuck = with(|it| {
            it.kube().volume_attachments.as_mut().unwrap()[0].detach_error = Some("the volume is busy".to_owned());
        });
        assert_eq!(wrong(VOLUMES, &stuck), ["cp-1: fail volume-attached"]);
        assert_eq!(
            observed(VOLUMES, &stuck),
            ["still attached: volume pv-1; pv-1 cannot be detached: the volume is busy"]
        );
        let none = with(|it| it.kube().volume_attachments.as_mut().unwrap().clear());
        assert_eq!(lines(VOLUMES, &none), ["no volume is attached to a machine that was drained"]);
        assert_eq!(status(VOLUMES, &before(None, Some("1.36.0"))), Status::Skip);
    }

    #[test]
    fn volumes_in_use_are_where_they_belong() {
        let schedulable = with(|it| it.kube_node_mut("cp-1").unschedulable = false);
        let running = with(|it| {
            let pod = crate::testing::fixture::bound_pod("default", "web", "cp-1", Some(("ReplicaSet", "web-6f7")));
            it.kube().bound_pods.as_mut().unwrap().push(pod);
        });
        let elsewhere = with(|it| it.kube().volume_attachments.as_mut().unwrap()[0].node = "gone".to_owned());
        for snapshot in [schedulable, running, elsewhere] {
            assert_eq!(wrong(VOLUMES, &snapshot), [""; 0]);
        }
    }

    #[test]
    fn no_list_is_no_pass() {
        for kind in [GapKind::Forbidden, GapKind::TimedOut, GapKind::NotAsked] {
            assert_eq!(
                status(VOLUMES, &with(|it| it.kube().volume_attachments = gap(kind))),
                Status::Error,
                "{kind:?}"
            );
            assert_eq!(status(VOLUMES, &with(|it| it.kube().bound_pods = gap(kind))), Status::Error, "{kind:?}");
        }
        let unregistered = with(|it| it.kube().nodes.as_mut().unwrap().retain(|node| node.name != "cp-1"));
        assert!(!status(VOLUMES, &unregistered).is_fine());
    }
}
