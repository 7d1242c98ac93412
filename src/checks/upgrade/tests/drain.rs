//! Pods that would not leave the machine.

use super::*;
use crate::checks::find;
use crate::engine;
use crate::model::{Problem, Reason, Target};
use crate::snapshot::{AlarmKind, BoundPod, DisruptionBudget, EtcdAlarm, Gap, Requirement};
use crate::testing::fixture::{Shape, ago, bound_pod, budget};

const DRAIN: &str = "upgrade.drain";

/// A cluster in which w-1, like each of the others, runs a pod of `web` and is about to be drained.
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

/// The world, with a budget that allows no disruption.
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
    assert_eq!(lines(DRAIN, &world()), ["w-1 can be drained now"]);
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
    // If all machines are to be upgraded, each of them is judged.
    let mut all = snapshot;
    all.asked.upgrade = Upgrade { talos: Some("1.13.1".to_owned()), ..Upgrade::default() };
    assert_eq!(wrong(DRAIN, &all).len(), NODES.len());
    assert_eq!(status(DRAIN, &closed(|_, budget| budget.disruptions_allowed = -1)), Status::Fail);
}

#[test]
fn a_budget_that_counts_pods_on_nodes_that_do_not_work_is_not_believed() {
    let mut removed = world();
    removed.kube().nodes.as_mut().unwrap().retain(|node| node.name != "cp-3");
    assert_eq!(wrong(DRAIN, &removed), ["w-1: warn budget-counts-lost, see k8s.nodes.registered"]);
    assert_eq!(
        observed(DRAIN, &removed),
        [
            "PodDisruptionBudget default/web requires 2 pods and counts 3 as healthy, 1 of them on nodes that do not work: cp-3; it selects pod web-w-1"
        ]
    );
    let changed = |change: fn(&mut BoundPod, &mut DisruptionBudget)| {
        let mut snapshot = removed.clone();
        let kube = snapshot.kube();
        let lost = kube.bound_pods.as_mut().unwrap().iter_mut().find(|pod| pod.name == "web-cp-3").unwrap();
        change(lost, &mut kube.disruption_budgets.as_mut().unwrap()[0]);
        snapshot
    };
    // Kubernetes has noticed, or enough others work.
    passes(&changed(|pod, _| pod.ready = false));
    passes(&changed(|pod, _| pod.deleting = true));
    passes(&changed(|pod, _| pod.labels = std::collections::BTreeMap::new().into()));
    passes(&changed(|_, budget| (budget.disruptions_allowed, budget.current_healthy) = (2, 4)));
    // Two leave at once.
    let mut two = changed(|_, budget| (budget.disruptions_allowed, budget.current_healthy) = (2, 4));
    let pods = two.kube().bound_pods.as_mut().unwrap();
    pods.push(bound_pod("default", "web", "w-1", Some(("ReplicaSet", "web-6f7"))));
    assert_eq!(wrong(DRAIN, &two), ["w-1: warn budget-counts-lost, see k8s.nodes.registered"]);
    // Without a list of leases it is unknown whether nodes work, and another check reports that.
    let mut silent = world();
    silent.kube().node_leases.as_mut().unwrap().by_name.remove("cp-3");
    assert_eq!(wrong(DRAIN, &silent), ["w-1: warn budget-counts-lost, see k8s.nodes.ready"]);
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
    // Budgets apply to a ready pod, regardless of their policy for unready ones.
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
    // The pod is not a serving replica, or is being deleted already.
    for change in [|pod: &mut BoundPod| pod.ready = false, |pod: &mut BoundPod| pod.deleting = true] {
        let mut gone = alone.clone();
        gone.kube().bound_pods.iter_mut().flatten().filter(|pod| pod.name == "web-w-1").for_each(change);
        passes(&gone);
    }
}

/// The drain waits for the pod until it times out.
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

/// A finished pod is deleted like any other, and something prevents that.
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

/// Longhorn and `CloudNativePG` open their budgets once the node is cordoned.
#[test]
fn a_budget_of_an_operator_may_open_with_the_cordon() {
    let cordons = |kind: &str| {
        let closed = closed(|pod, _| pod.controller = Some((kind.to_owned(), "web".to_owned())));
        hints(DRAIN, &closed).contains(&Hint::remedy("{kubectl} cordon {}", ["w-1"]))
    };
    assert!(cordons("InstanceManager") && !cordons("ReplicaSet"));
}

/// Endpoints may still be ready; only the list of pods shows that the pod does not serve.
#[test]
fn a_webhook_for_evictions_whose_pods_do_not_serve_blocks() {
    let hooked = |change: fn(&mut BoundPod)| {
        let mut snapshot = world();
        let kubernetes = snapshot.kube();
        let endpoints = kubernetes.webhook_endpoints.get_mut(&("policy".to_owned(), "webhook".to_owned())).unwrap();
        endpoints.as_mut().unwrap()[0].pod = Some("webhook-cp-1".to_owned());
        let mut pod = bound_pod("policy", "webhook", "cp-1", Some(("ReplicaSet", "webhook-6f7")));
        change(&mut pod);
        kubernetes.bound_pods.as_mut().unwrap().push(pod);
        snapshot
    };
    passes(&hooked(|_| {}));
    let changes: [fn(&mut BoundPod); 4] = [
        |pod| pod.ready = false,
        |pod| pod.deleting = true,
        |pod| (pod.ready, pod.deleting) = (false, true),
        |pod| pod.name.push_str("-x"),
    ];
    for change in changes {
        assert_eq!(wrong(DRAIN, &hooked(change)), ["w-1: fail webhook-unavailable"]);
    }
}

/// Without the endpoints it is unknown whether every backend of the webhook is evicted.
#[test]
fn a_webhook_for_pods_whose_endpoints_are_not_told_is_unknown() {
    let mut snapshot = world();
    let kubernetes = snapshot.kube();
    kubernetes.validating_webhooks.as_mut().unwrap()[0].rules[0].resources = vec!["pods".to_owned()];
    kubernetes.webhook_endpoints.values_mut().for_each(|endpoints| *endpoints = gap(GapKind::Forbidden));
    assert_eq!(wrong(DRAIN, &snapshot), ["w-1: error forbidden, for ever"]);
}

/// Pods on a silent node are reported as ready until the node controller notices.
#[test]
fn a_replica_on_a_node_that_has_fallen_silent_is_none() {
    let mut snapshot = world();
    let leases = snapshot.kube().node_leases.as_mut().unwrap();
    for name in crate::testing::fixture::CONTROL_PLANES {
        leases.by_name.get_mut(name).unwrap().renewed = Some(ago(120));
    }
    assert!(wrong(DRAIN, &snapshot).contains(&"w-1: warn last-replica, for ever".to_owned()));
}

/// Evicting the pod is what starts the migration.
#[test]
fn a_virtual_machine_is_moved_by_kubevirt() {
    let machine = || closed(|pod, _| pod.controller = Some(("VirtualMachineInstance".to_owned(), "vm".to_owned())));
    assert_eq!(wrong(DRAIN, &machine()), ["w-1: warn eviction-blocked", "w-1: warn last-replica, for ever"]);
    assert!(!hints(DRAIN, &machine()).contains(&Hint::remedy("{kubectl} cordon {}", ["w-1"])));
}

/// The API server calls the webhook for every eviction.
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
    assert_eq!(wrong(DRAIN, &dead(|_| {})), ["w-1: fail webhook-unavailable, see k8s.webhooks"]);
    passes(&dead(|hook| hook.fails_closed = false));
    passes(&dead(|hook| hook.is_conditional = true));
    for (operation, expected) in [
        ("CREATE", "pods of default cannot be created again"),
        ("DELETE", "pods of default cannot be deleted after they have stopped"),
    ] {
        let mut snapshot = dead(|hook| hook.rules[0].resources = vec!["pods".to_owned()]);
        for hook in snapshot.kube().validating_webhooks.iter_mut().flatten() {
            hook.rules[0].operations = vec![operation.to_owned()];
        }
        assert!(observed(DRAIN, &snapshot)[0].ends_with(expected), "{:?}", observed(DRAIN, &snapshot));
        for hook in snapshot.kube().validating_webhooks.iter_mut().flatten() {
            hook.rules[0].operations = vec!["UPDATE".to_owned()];
        }
        passes(&snapshot);
    }
    for (group, resource, operation) in [
        ("", "pods/binding", "CREATE"),
        ("", "serviceaccounts/token", "CREATE"),
        ("", "pods/status", "UPDATE"),
        ("discovery.k8s.io", "endpointslices", "CREATE"),
    ] {
        let mut snapshot = dead(|_| {});
        for hook in snapshot.kube().validating_webhooks.iter_mut().flatten() {
            on(hook, group, resource, operation);
        }
        let seen = observed(DRAIN, &snapshot);
        assert!(seen[0].ends_with("pods of default cannot be replaced by pods that serve"), "{resource}: {seen:?}");
    }
    let elsewhere = |hook: &mut crate::snapshot::Webhook| {
        hook.namespaces = vec![Requirement {
            key: "kubernetes.io/metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: vec!["other".to_owned()],
        }];
    };
    passes(&dead(elsewhere));
}

/// Leaves the namespace of its own pods out.
fn elsewhere(hook: &mut crate::snapshot::Webhook) {
    hook.namespaces = vec![Requirement {
        key: "kubernetes.io/metadata.name".to_owned(),
        operator: "NotIn".to_owned(),
        values: vec!["default".to_owned()],
    }];
}

/// Narrows the webhook to one kind of request.
fn on(hook: &mut crate::snapshot::Webhook, group: &str, resource: &str, operation: &str) {
    let rule = &mut hook.rules[0];
    (rule.groups, rule.resources) = (vec![group.to_owned()], vec![resource.to_owned()]);
    rule.operations = vec![operation.to_owned()];
}

/// Once the webhook's pods are gone, the API server calls it before creating them again.
#[test]
fn a_webhook_whose_only_backend_leaves_with_the_machine_locks_itself_out() {
    let hooked = |change: fn(&mut crate::snapshot::Webhook, &mut crate::snapshot::ServiceEndpoint)| {
        let mut snapshot = world();
        let kubernetes = snapshot.kube();
        let service = ("default".to_owned(), "web".to_owned());
        let mut endpoint = kubernetes.api_endpoints.as_ref().unwrap()[0].clone();
        endpoint.pod = Some("web-w-1".to_owned());
        let hook = &mut kubernetes.validating_webhooks.as_mut().unwrap()[0];
        hook.service = Some(service.clone());
        (hook.fails_closed, hook.is_conditional) = (true, false);
        (hook.namespaces, hook.objects) = (Vec::new(), Vec::new());
        let all = || vec!["*".to_owned()];
        hook.rules = vec![crate::snapshot::WebhookRule {
            groups: all(),
            resources: vec!["*/*".to_owned()],
            operations: all(),
            scope: "*".to_owned(),
        }];
        change(hook, &mut endpoint);
        let mut other = endpoint.clone();
        other.pod = Some("web-cp-1".to_owned());
        let all = if endpoint.port == Some(1) { vec![endpoint, other] } else { vec![endpoint] };
        kubernetes.webhook_endpoints.insert(service, Ok(all));
        snapshot
    };
    let snapshot = hooked(|_, _| {});
    assert_eq!(wrong(DRAIN, &snapshot), ["w-1: fail webhook-evicted"]);
    assert!(observed(DRAIN, &snapshot)[0].ends_with("evicted; without them no new pod comes up, theirs included"));
    passes(&hooked(|_, endpoint| endpoint.port = Some(1)));
    passes(&hooked(|hook, _| hook.fails_closed = false));
    passes(&hooked(|hook, _| hook.is_conditional = true));
    // None of these is created again, or becomes an endpoint of the webhook's Service.
    let locked = |snapshot: &Snapshot| assert_eq!(wrong(DRAIN, snapshot), ["w-1: fail webhook-evicted"]);
    locked(&hooked(|hook, _| on(hook, "", "pods", "CREATE")));
    locked(&hooked(|hook, _| on(hook, "", "pods/binding", "CREATE")));
    locked(&hooked(|hook, _| on(hook, "", "pods/status", "UPDATE")));
    locked(&hooked(|hook, _| on(hook, "", "serviceaccounts/token", "CREATE")));
    locked(&hooked(|hook, _| on(hook, "discovery.k8s.io", "endpointslices", "UPDATE")));
    locked(&hooked(|hook, _| on(hook, "coordination.k8s.io", "leases", "UPDATE")));
    // Its own pods can be replaced, but the drain gives up on the others.
    let evictions: fn(&mut crate::snapshot::Webhook, &mut crate::snapshot::ServiceEndpoint) =
        |hook, _| on(hook, "", "pods/eviction", "CREATE");
    passes(&hooked(evictions));
    let mut beside = hooked(evictions);
    let pod = bound_pod("shop", "db-0", "w-1", Some(("ReplicaSet", "db")));
    beside.kube().bound_pods.as_mut().unwrap().push(pod);
    assert_eq!(wrong(DRAIN, &beside)[0], "w-1: fail webhook-evicted");
    assert!(observed(DRAIN, &beside)[0].ends_with("without them pods of shop cannot be evicted"));
    passes(&hooked(|hook, _| on(hook, "", "pods", "DELETE")));
    passes(&hooked(|hook, _| on(hook, "", "pods", "UPDATE")));
    passes(&hooked(|hook, _| on(hook, "apps", "deployments", "CREATE")));
    passes(&hooked(|hook, _| {
        on(hook, "", "pods", "CREATE");
        elsewhere(hook);
    }));
    // Without their leases, the controllers that replace its pods stop.
    locked(&hooked(|hook, _| {
        on(hook, "coordination.k8s.io", "leases", "UPDATE");
        elsewhere(hook);
    }));
    // The webhook's own namespace may have that label.
    passes(&hooked(|hook, _| {
        hook.namespaces = vec![Requirement {
            key: "admission.gatekeeper.sh/ignore".to_owned(),
            operator: "DoesNotExist".to_owned(),
            values: Vec::new(),
        }];
    }));
    passes(&hooked(|hook, _| {
        hook.objects =
            vec![Requirement { key: "app".to_owned(), operator: "NotIn".to_owned(), values: vec!["web".to_owned()] }];
    }));
}

/// The budget allows one disruption, and never another one after that.
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
    let mut operated = bare.clone();
    operated.kube().disruption_budgets.as_mut().unwrap()[0].is_operated = true;
    assert_eq!(wrong(DRAIN, &operated)[0], "w-1: warn eviction-blocked", "its operator may open it");
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
    assert_eq!(wrong(DRAIN, &snapshot), ["cluster: fail node-unknown"]);
    snapshot.talos_mut().discovery = Err(Gap::new(GapKind::TimedOut, "test"));
    assert_eq!(wrong(DRAIN, &snapshot), ["cluster: error node-unknown"]);
}

#[test]
fn a_machine_that_is_not_judged_does_not_pass() {
    let mut outside = world();
    outside.node_mut("w-1").out_of_scope = true;
    let mut leaving = world();
    leaving.node_mut("w-1").leaving = true;
    assert_eq!(wrong(DRAIN, &outside), ["cluster: fail nodes-contradict, for ever"]);
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
    snapshot.kube().disruption_budgets = Err(Gap::new(GapKind::Forbidden, text));
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
    let verdicts = engine::judge(&[check], &snapshot);
    assert!(verdicts[0].1.status().is_fine());
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
}

/// Kubernetes alone answers whether its pods can leave.
#[test]
fn a_machine_with_another_system_can_be_drained_too() {
    let mut guest = Shape { workers: 1, foreign: 1, ..Shape::default() }.world();
    guest.asked.upgrade = Upgrade { drain: Some("x-1".to_owned()), ..Upgrade::default() };
    assert_eq!(lines(DRAIN, &guest), ["x-1 can be drained now"]);
    let pod = bound_pod("default", "web", "x-1", Some(("ReplicaSet", "web")));
    guest.kube().bound_pods.as_mut().unwrap().push(pod);
    guest.kube().disruption_budgets.as_mut().unwrap()[0].disruptions_allowed = 0;
    assert!(wrong(DRAIN, &guest).contains(&"x-1: fail eviction-blocked".to_owned()));
    // A policy excuses nothing before a drain.
    let mut off = guest.clone();
    off.power_off("x-1");
    off.declare_off("x-1");
    assert!(!observed(DRAIN, &off).iter().any(|words| words.contains("not checked")), "{:?}", observed(DRAIN, &off));
    // An upgrade of Talos passes it over.
    guest.asked.upgrade = Upgrade { talos: Some("1.13.1".to_owned()), ..Upgrade::default() };
    assert!(!wrong(DRAIN, &guest).iter().any(|line| line.starts_with("x-1")));
    guest.asked.upgrade.drain = Some("x-1".to_owned());
    assert_eq!(wrong(DRAIN, &guest), ["cluster: fail nodes-contradict, for ever"], "it does not run Talos");
}

/// The checks that judge the same may only warn, or not run.
#[test]
fn nothing_is_drained_while_nothing_is_written() {
    let impossible = |snapshot: &Snapshot| {
        let verdict = judge(DRAIN, snapshot);
        let is_it = |(target, it): (&Target, &Problem)| {
            (it.reason == Reason::DrainImpossible).then(|| format!("{target}: {}", it.observed))
        };
        assert_eq!(lines(DRAIN, snapshot), [""; 0]);
        verdict.problems().filter_map(is_it).collect::<Vec<_>>()
    };
    for (kind, name) in [(AlarmKind::NoSpace, "NOSPACE"), (AlarmKind::Corrupt, "CORRUPT")] {
        let mut full = world();
        let member_id = full.etcd_status_mut("cp-2").member_id;
        full.talos_of("cp-3").etcd_alarms = Ok(vec![EtcdAlarm { member_id, kind }]);
        full.talos_of("cp-1").etcd_alarms = gap(GapKind::TimedOut);
        let observed = format!("cluster: etcd accepts no changes while it has raised the alarm {name} (cp-2)");
        assert_eq!(impossible(&full), [observed.as_str()]);
        assert_eq!(wrong(DRAIN, &full), ["cluster: fail drain-impossible, see etcd.alarms"]);
    }
    let mut unknown = world();
    let member_id = unknown.etcd_status_mut("cp-2").member_id;
    unknown.talos_of("cp-3").etcd_alarms = Ok(vec![EtcdAlarm { member_id, kind: AlarmKind::Other(9) }]);
    passes(&unknown);
    let mut untold = world();
    untold.talos_of("cp-3").etcd_alarms = gap(GapKind::Forbidden);
    assert_eq!(wrong(DRAIN, &untold), ["cluster: blocked etcd.alarms"]);
    let mut alone = engine::judge(&[find(DRAIN).unwrap()], &untold);
    assert_eq!(alone.pop().unwrap().1.status(), Status::Error, "if the other check does not run");
    let mut leaderless = world();
    for name in ["cp-1", "cp-2", "cp-3"] {
        leaderless.etcd_status_mut(name).leader = 0;
        leaderless.talos_of(name).etcd_members = gap(GapKind::TimedOut);
    }
    assert_eq!(impossible(&leaderless), ["cluster: etcd has no leader, so it accepts no changes"]);
    let mut stalled = world().without_talos();
    let kube = stalled.kube();
    for leases in [&mut kube.node_leases, &mut kube.system_leases] {
        for lease in leases.as_mut().unwrap().by_name.values_mut() {
            (lease.renewed, lease.moved_within) = (Some(ago(90)), None);
        }
    }
    let observed = "cluster: no kubelet and no leader renews its lease, so no changes are accepted";
    assert_eq!(impossible(&stalled), [observed]);
    let mut idle = world();
    let lease = idle.kube().system_leases.as_mut().unwrap().by_name.get_mut("kube-controller-manager").unwrap();
    (lease.renewed, lease.moved_within) = (Some(ago(90)), None);
    let observed = &impossible(&idle)[0];
    assert!(observed.starts_with("cluster: no kube-controller-manager leads, so evicted pods are not replaced: "));
    assert_eq!(judge(DRAIN, &idle).resample_after, Some(std::time::Duration::from_secs(11)), "it may change hands");
}
