//! Extensions registered with the API server.

use crate::checks::kubernetes::tests::{judge, no, not_ready, said, status};
use crate::model::Status;
use crate::snapshot::{GapKind, Requirement, Snapshot, Webhook, WebhookRule};
use crate::testing::fixture::{condition, healthy};

const WEBHOOKS: &str = "k8s.webhooks";

/// Changes the validating webhook, and leaves no backend behind it.
fn dead(change: impl Fn(&mut Webhook)) -> Snapshot {
    let mut snapshot = healthy();
    change(&mut snapshot.kube().validating_webhooks.as_mut().unwrap()[0]);
    snapshot.kube().webhook_endpoints.values_mut().for_each(|it| *it = Ok(Vec::new()));
    snapshot.kube().mutating_webhooks.as_mut().unwrap().clear();
    snapshot
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> Requirement {
    let values = values.iter().map(|&value| value.to_owned()).collect();
    Requirement { key: key.to_owned(), operator: operator.to_owned(), values }
}

fn concerning(groups: &[&str], resources: &[&str], operations: &[&str]) -> Snapshot {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    dead(|hook| {
        let rule = &mut hook.rules[0];
        (rule.groups, rule.resources, rule.operations) = (owned(groups), owned(resources), owned(operations));
    })
}

#[test]
fn a_webhook_that_stops_the_cluster_fails() {
    for (groups, resources, operations) in [
        (&[""][..], &["pods"][..], &["CREATE"][..]),
        (&["*"], &["*"], &["*"]),
        (&["*"], &["*/*"], &["UPDATE"]),
        (&["apps", ""], &["deployments", "nodes"], &["DELETE", "UPDATE"]),
        (&[""], &["nodes/status"], &["UPDATE"]),
        (&[""], &["pods/binding"], &["CREATE"]),
        (&["coordination.k8s.io"], &["leases"], &["UPDATE"]),
        (&[""], &["serviceaccounts/token"], &["CREATE"]),
        (&[""], &["serviceaccounts/*"], &["CREATE"]),
    ] {
        let said = said(&concerning(groups, resources, operations), WEBHOOKS);
        assert_eq!(said, ["fail webhook-unavailable validatingwebhookconfiguration/policy"], "{resources:?}");
    }
    let verdict = judge(&dead(|_| {}), WEBHOOKS);
    let observed = &verdict.problems().next().unwrap().1.observed;
    assert_eq!(observed, "pods.policy.example.com: Service policy/webhook has no ready endpoint (failurePolicy Fail)");
}

#[test]
fn one_that_stops_others_only_warns() {
    for (groups, resources, operations) in [
        (&["apps"][..], &["deployments"][..], &["CREATE"][..]),
        (&["apps"], &["pods"], &["CREATE"]),
        (&[""], &["configmaps"], &["*"]),
        (&[""], &["pods"], &["DELETE"]),
        (&[""], &["pods/exec"], &["CONNECT"]),
        (&[""], &["serviceaccounts"], &["CREATE"]),
        (&[""], &["serviceaccounts/token"], &["UPDATE"]),
        (&[""], &["pods/ephemeralcontainers"], &["UPDATE"]),
    ] {
        let status = status(&concerning(groups, resources, operations), WEBHOOKS);
        assert_eq!(status, Status::Warn, "{groups:?} {resources:?} {operations:?}");
    }
    let changes: [fn(&mut Webhook); 3] =
        [|hook| hook.fails_closed = false, |hook| hook.is_conditional = true, |hook| hook.rules.clear()];
    for change in changes {
        assert_eq!(status(&dead(change), WEBHOOKS), Status::Warn);
    }
}

#[test]
fn a_selector_that_leaves_out_the_system_makes_it_a_warning() {
    let name = "kubernetes.io/metadata.name";
    for (requirement, expected) in [
        (requirement(name, "NotIn", &["kube-system", "kube-node-lease"]), Status::Warn),
        // There are no pods in the namespace of the nodes' leases.
        (requirement(name, "NotIn", &["kube-system"]), Status::Warn),
        (requirement(name, "In", &["shop"]), Status::Warn),
        (requirement("istio-injection", "In", &["enabled"]), Status::Warn),
        (requirement("policy", "Exists", &[]), Status::Warn),
        (requirement(name, "NotIn", &["policy"]), Status::Fail),
        (requirement(name, "Exists", &[]), Status::Fail),
        (requirement("policy.example.com/ignore", "DoesNotExist", &[]), Status::Fail),
        (requirement("policy", "Anything", &[]), Status::Fail),
    ] {
        let snapshot = dead(|hook| hook.namespaces = vec![requirement.clone()]);
        assert_eq!(status(&snapshot, WEBHOOKS), expected, "{requirement:?}");
    }
    let objects = dead(|hook| hook.objects = vec![requirement("policy", "Exists", &[])]);
    assert_eq!(status(&objects, WEBHOOKS), Status::Warn);
    let leases = dead(|hook| {
        hook.rules[0] = WebhookRule {
            groups: vec!["coordination.k8s.io".to_owned()],
            resources: vec!["leases".to_owned()],
            ..hook.rules[0].clone()
        };
        hook.namespaces = vec![requirement(name, "NotIn", &["kube-system"])];
    });
    assert_eq!(status(&leases, WEBHOOKS), Status::Fail, "those of the nodes");
    // Nodes are cluster-scoped.
    let nodes = dead(|hook| {
        hook.rules[0].resources = vec!["nodes".to_owned()];
        hook.namespaces = vec![requirement(name, "In", &["shop"])];
    });
    assert_eq!(status(&nodes, WEBHOOKS), Status::Fail);
}

/// Kubelets write their Nodes, which have labels.
#[test]
fn a_selector_is_compared_with_the_labels_of_the_nodes() {
    let of = |resource: &str, selector: &Requirement| {
        dead(|hook| {
            hook.rules[0].resources = vec![resource.to_owned()];
            hook.rules[0].operations = vec!["UPDATE".to_owned()];
            hook.objects = vec![selector.clone()];
        })
    };
    for (selector, expected) in [
        (requirement("kubernetes.io/os", "In", &["linux"]), Status::Fail),
        (requirement("kubernetes.io/os", "Exists", &[]), Status::Fail),
        (requirement("kubernetes.io/os", "In", &["windows"]), Status::Warn),
        (requirement("kubernetes.io/os", "DoesNotExist", &[]), Status::Warn),
        (requirement("node-role.kubernetes.io/control-plane", "Exists", &[]), Status::Fail),
        (requirement("gpu", "Exists", &[]), Status::Warn),
    ] {
        for resource in ["nodes", "nodes/status"] {
            let mut snapshot = of(resource, &selector);
            let labels = &mut snapshot.kube_node_mut("cp-1").labels;
            labels.insert("node-role.kubernetes.io/control-plane".to_owned(), String::new());
            assert_eq!(status(&snapshot, WEBHOOKS), expected, "{resource} {selector:?}");
            snapshot.kube().nodes = no(GapKind::Forbidden);
            assert!(status(&snapshot, WEBHOOKS) >= Status::Blocked, "{resource} {selector:?}");
        }
    }
    // Leases have none of these labels.
    let mut leases = of("leases", &requirement("kubernetes.io/os", "Exists", &[]));
    let hook = &mut leases.kube().validating_webhooks.as_mut().unwrap()[0];
    hook.rules[0].groups = vec!["coordination.k8s.io".to_owned()];
    assert_eq!(status(&leases, WEBHOOKS), Status::Warn);
}

#[test]
fn an_endpoint_of_no_pod_is_no_backend() {
    let of = |namespace: &str, pod: &str, edit: fn(&mut Snapshot)| {
        let mut snapshot = healthy();
        let service = (namespace.to_owned(), "webhook".to_owned());
        let kube = snapshot.kube();
        let mut endpoint = kube.webhook_endpoints.values().flatten().flatten().next().unwrap().clone();
        let coredns = kube.pods.iter_mut().flatten().find(|it| it.name.starts_with("coredns")).unwrap();
        coredns.addresses.clone_from(&endpoint.addresses);
        namespace.clone_into(&mut endpoint.namespace);
        endpoint.pod = Some(if pod.is_empty() { coredns.name.clone() } else { pod.to_owned() });
        kube.webhook_endpoints.insert(service.clone(), Ok(vec![endpoint]));
        for hook in kube.validating_webhooks.iter_mut().flatten() {
            hook.service = Some(service.clone());
            hook.rules[0].resources = vec!["pods".to_owned()];
            (hook.namespaces, hook.objects) = (Vec::new(), Vec::new());
        }
        kube.mutating_webhooks.as_mut().unwrap().clear();
        edit(&mut snapshot);
        said(&snapshot, WEBHOOKS)
    };
    let fails = ["fail webhook-unavailable validatingwebhookconfiguration/policy"];
    assert_eq!(of("kube-system", "", |_| ()), [""; 0]);
    assert_eq!(of("kube-system", "webhook-5d4f-x", |_| ()), fails);
    assert_eq!(
        of("kube-system", "", |it| it
            .kube()
            .pods
            .iter_mut()
            .flatten()
            .for_each(|it| it.addresses = vec!["10.9.9.9".to_owned()])),
        fails
    );
    // If the pods were not read, the backend is unknown. Pods of other namespaces are not read here.
    let unread = of("kube-system", "webhook-5d4f-x", |it| it.kube().pods = no(GapKind::TimedOut));
    assert_eq!(unread, ["error timed-out cluster < k8s.controlplane.apiserver"]);
    assert_eq!(of("policy", "webhook-5d4f-x", |_| ()), [""; 0]);
}

#[test]
fn what_stands_behind_a_webhook_has_to_be_seen() {
    let mut unread = healthy();
    unread.kube().webhook_endpoints.values_mut().for_each(|it| *it = no(GapKind::TimedOut));
    assert_eq!(said(&unread, WEBHOOKS), ["error timed-out validatingwebhookconfiguration/policy"]);
    unread.kube().webhook_endpoints.clear();
    assert_eq!(status(&unread, WEBHOOKS), Status::Error);
    let mut late = healthy();
    for endpoint in late.kube().webhook_endpoints.values_mut().flatten().flatten() {
        endpoint.ready = false;
    }
    assert_eq!(
        said(&late, WEBHOOKS),
        [
            "fail webhook-unavailable validatingwebhookconfiguration/policy",
            "warn webhook-unavailable mutatingwebhookconfiguration/sidecars"
        ]
    );
    // The backend of a webhook that is called by URL is unknown.
    assert_eq!(status(&dead(|hook| hook.service = None), WEBHOOKS), Status::Skip);
    let mut none = healthy();
    none.kube().validating_webhooks.as_mut().unwrap().clear();
    none.kube().mutating_webhooks.as_mut().unwrap().clear();
    assert_eq!(status(&none, WEBHOOKS), Status::Pass);
}

#[test]
fn an_aggregated_api_that_is_not_available_warns() {
    let id = "k8s.apiservices";
    let mut snapshot = healthy();
    let its = snapshot.kube().api_services.as_mut().unwrap();
    its[1].available = Some(condition("Available", "False", "MissingEndpoints", "endpoints for service are missing"));
    assert_eq!(said(&snapshot, id), ["warn apiservice-unavailable v1beta1.metrics.k8s.io"]);
    let verdict = judge(&snapshot, id);
    let observed = &verdict.problems().next().unwrap().1.observed;
    assert_eq!(observed, "False, MissingEndpoints: endpoints for service are missing");
    // The API server's own APIs are not judged.
    let mut local = healthy();
    local.kube().api_services.as_mut().unwrap()[0].available = None;
    assert_eq!(status(&local, id), Status::Pass);
    let mut refused = healthy();
    refused.kube().api_services = no(GapKind::Forbidden);
    assert_eq!(status(&refused, id), Status::Skip);
}

/// The message names the node if it is to blame, and otherwise the pod.
#[test]
fn who_does_not_serve_is_named() {
    let observed = |change: fn(&mut Snapshot, &str)| {
        let mut snapshot = healthy();
        snapshot.kube().mutating_webhooks.as_mut().unwrap().clear();
        let service = ("kube-system".to_owned(), "webhook".to_owned());
        let kube = snapshot.kube();
        let mut endpoint = kube.webhook_endpoints.values().flatten().flatten().next().unwrap().clone();
        endpoint.namespace.clone_from(&service.0);
        (endpoint.node, endpoint.pod) = (Some("w-1".to_owned()), Some("webhook-1".to_owned()));
        let mut pod = kube.pods.as_ref().unwrap()[0].clone();
        (pod.name, pod.mirror, pod.node) = ("webhook-1".to_owned(), false, Some("w-1".to_owned()));
        pod.addresses.clone_from(&endpoint.addresses);
        kube.pods.as_mut().unwrap().push(pod);
        kube.webhook_endpoints.insert(service.clone(), Ok(vec![endpoint]));
        for hook in kube.validating_webhooks.iter_mut().flatten() {
            hook.service = Some(service.clone());
        }
        change(&mut snapshot, "webhook-1");
        judge(&snapshot, WEBHOOKS).problems().map(|(_, problem)| problem.observed.clone()).next()
    };
    assert_eq!(observed(|_, _| {}), None);
    let silent = observed(|snapshot, _| not_ready(snapshot, "w-1")).unwrap();
    assert!(silent.contains("are on nodes that are down or have stopped reporting (w-1)"), "{silent}");
    let gone = observed(|it, name| it.kube().pods.as_mut().unwrap().retain(|pod| pod.name != name)).unwrap();
    assert!(gone.contains("lead to pods that no longer exist (webhook-1)"), "{gone}");
}

#[test]
fn custom_resources_that_cannot_be_converted_are_a_warning() {
    let converted = |names: &[&str], change: &dyn Fn(&mut Snapshot)| {
        let mut snapshot = healthy();
        let kubernetes = snapshot.kube();
        let hook = kubernetes.validating_webhooks.as_ref().unwrap()[0].clone();
        let of = |name: &&str| Webhook { configuration: (*name).to_owned(), ..hook.clone() };
        let service = hook.service.clone().unwrap();
        kubernetes.conversions = Ok(names.iter().map(of).collect());
        kubernetes.validating_webhooks.as_mut().unwrap().clear();
        kubernetes.webhook_endpoints.insert(service, Ok(Vec::new()));
        change(&mut snapshot);
        snapshot
    };
    let warns = ["warn conversion-unavailable customresourcedefinition/a.example.com"];
    let of = |names: &[&str], change: &dyn Fn(&mut Snapshot)| said(&converted(names, change), WEBHOOKS);
    assert_eq!(of(&["b.example.com", "a.example.com"], &|_| {}), warns, "one Service, one warning");
    let verdict = judge(&converted(&["b.example.com", "a.example.com"], &|_| {}), WEBHOOKS);
    let observed = &verdict.problems().next().unwrap().1.observed;
    assert_eq!(observed, "Service policy/webhook has no ready endpoint (conversion of a.example.com, b.example.com)");
    let by_url = |snapshot: &mut Snapshot| {
        snapshot.kube().conversions.iter_mut().flatten().for_each(|hook| hook.service = None);
    };
    assert_eq!(of(&["a.example.com"], &by_url), [""; 0]);
    let left_out = judge(&converted(&["a.example.com"], &by_url), WEBHOOKS).left_out;
    assert_eq!(left_out, ["conversion webhooks that are called by URL: a.example.com"]);
    let unread = |snapshot: &mut Snapshot| {
        snapshot.kube().webhook_endpoints.values_mut().for_each(|it| *it = no(GapKind::TimedOut));
        snapshot.kube().mutating_webhooks.as_mut().unwrap().clear();
    };
    assert_eq!(of(&["a.example.com"], &unread), [""; 0], "it only warns");
    // An unreadable list is skipped if it is refused or too large.
    let lost = |kind| {
        move |snapshot: &mut Snapshot| {
            snapshot.kube().conversions = no(kind);
            snapshot.kube().mutating_webhooks.as_mut().unwrap().clear();
        }
    };
    for kind in [GapKind::Forbidden, GapKind::TooLarge] {
        let snapshot = converted(&[], &lost(kind));
        assert_eq!(said(&snapshot, WEBHOOKS), [""; 0], "{kind:?}");
        let mut skips = judge(&snapshot, WEBHOOKS).findings.iter().map(|it| it.outcome.status()).collect::<Vec<_>>();
        assert_eq!(skips.pop(), Some(Status::Skip), "{kind:?}");
    }
    assert_eq!(of(&[], &lost(GapKind::TimedOut)), ["error timed-out customresourcedefinitions"]);
}
