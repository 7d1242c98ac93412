//! Policy entries, objects from an API server, and the resulting findings.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::config::policy::Document;
use crate::model::{Outcome, Status};
use crate::observe::taken;
use crate::plan::policy::decide;
use crate::snapshot::{Gap, GapKind, Require, RequiredObjects, Served, Snapshot};
use crate::testing::fixture::{self, healthy, now};
use crate::testing::laws::blinding::WAYS;

fn entry(fields: &str) -> Require {
    let text = format!("apiVersion: cluster-health/v1\nrequire: [{{id: it, {fields}}}]\n");
    let document = Document::of_text(&text).unwrap_or_else(|error| panic!("{fields}: {}", error.message));
    let decided = decide(&document, now()).unwrap_or_else(|usage| panic!("{fields}: {}", usage.message));
    decided.policy.require.into_iter().next().unwrap()
}

fn world(entry: &Require, served: Result<Served, Gap>) -> Snapshot {
    let mut snapshot = healthy();
    snapshot.asked.policy.require.push(entry.clone());
    snapshot.kube().required.insert(entry.id.clone(), served);
    snapshot
}

fn objects(entry: &Require, objects: &[Value]) -> RequiredObjects {
    let objects = objects.iter().map(|it| taken(entry, it).unwrap()).collect();
    RequiredObjects { date: Some(now()), objects }
}

/// Formats the result as `fail requirement-unmet: …` or `pass: …`.
fn said(snapshot: &Snapshot) -> String {
    let verdict = fixture::verdict("policy.require", snapshot);
    let [finding] = verdict.findings.as_slice() else { panic!("{verdict:?}") };
    assert_eq!(finding.target.name, "policy.it");
    let status = finding.outcome.status().name();
    match &finding.outcome {
        Outcome::Problem(it) => format!("{status} {}: {}", it.reason.code(), it.observed),
        Outcome::Pass(line) => format!("{status}: {}", line.as_deref().unwrap_or_default()),
        Outcome::Skip(why) => format!("{status}: {why}"),
        Outcome::Blocked(by) => format!("{status}: {by}"),
    }
}

fn judged(fields: &str, given: &[Value]) -> String {
    let entry = entry(fields);
    said(&world(&entry, Ok(Served::Objects(objects(&entry, given)))))
}

fn ago(time: SignedDuration) -> String {
    (now() - time).to_string()
}

const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// An object with this status, an hour old and of its first generation.
#[expect(clippy::needless_pass_by_value, reason = "made where it is given")]
fn object(name: &str, status: Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ns", "creationTimestamp": ago(HOUR), "generation": 1},
        "status": status,
    })
}

fn young(mut object: Value) -> Value {
    object["metadata"]["creationTimestamp"] = ago(SignedDuration::from_mins(4)).into();
    object
}

const CEPH: &str =
    "resource: cephclusters.ceph.rook.io, namespace: ns, for: 'jsonpath={.status.ceph.health}=HEALTH_OK'";

#[test]
fn a_field_has_one_value_which_is_the_one() {
    let of = |status: Value| judged(CEPH, &[object("rook", status)]);
    assert_eq!(of(json!({"ceph": {"health": "HEALTH_OK"}})), "pass: 1 of 1 as required");
    assert_eq!(
        of(json!({"ceph": {"health": "HEALTH_WARN"}})),
        "fail requirement-unmet: ns/rook: {.status.ceph.health} is HEALTH_WARN"
    );
    let absent = "error requirement-unclear: ns/rook: {.status.ceph.health} is absent";
    for nothing in [json!({}), json!(null), json!({"ceph": null}), json!({"ceph": {"health": null}})] {
        assert_eq!(of(nothing), absent);
    }
    assert_eq!(
        judged(CEPH, &[young(object("rook", json!({})))]),
        "fail requirement-progressing: ns/rook: {.status.ceph.health} is absent"
    );
    assert_eq!(
        of(json!({"ceph": {"health": ["HEALTH_OK"]}})),
        "error requirement-unclear: ns/rook: {.status.ceph.health} is not a single value"
    );
    // The status belongs to an earlier generation.
    let old = of(json!({"ceph": {"health": "HEALTH_OK"}, "observedGeneration": 0}));
    assert_eq!(old, "fail requirement-progressing: ns/rook: its status is of generation 0, and it has 1");
}

#[test]
fn numbers_are_compared_as_numbers_and_texts_as_texts() {
    let of = |wanted: &str, is: Value| {
        let fields = format!("resource: things.example.com, namespace: ns, for: 'jsonpath={{.status.it}}={wanted}'");
        judged(&fields, &[object("a", json!({"it": is}))]).starts_with("pass")
    };
    for (wanted, is, holds) in [
        ("3", json!(3), true),
        ("3.0", json!(3), true),
        ("3", json!("3"), true),
        ("3.0", json!("3"), false),
        ("true", json!(true), true),
        ("True", json!(true), false),
        ("9007199254740993", json!(9_007_199_254_740_992_u64), false),
        ("9007199254740993", json!(9_007_199_254_740_993_u64), true),
        ("nan", json!(0), false),
        ("a b", json!("a b"), true),
    ] {
        assert_eq!(of(wanted, is.clone()), holds, "{wanted} {is}");
    }
}

#[test]
fn what_the_api_leaves_out_has_a_value_only_by_or_else() {
    let fields = "resource: deployments.apps, namespace: ns, for: 'jsonpath={.status.readyReplicas}=0'";
    let idle = object("a", json!({"observedGeneration": 1}));
    assert!(judged(fields, std::slice::from_ref(&idle)).starts_with("error requirement-unclear"));
    assert_eq!(judged(&format!("{fields}, orElse: 0"), std::slice::from_ref(&idle)), "pass: 1 of 1 as required");
    let other = "fail requirement-unmet: ns/a: {.status.readyReplicas} is 1";
    assert_eq!(judged(&format!("{fields}, orElse: 1"), &[idle]), other);
}

#[test]
fn a_path_without_a_value_leads_to_something() {
    let fields = "resource: services, namespace: ns, for: 'jsonpath={.status.loadBalancer.ingress[0].ip}'";
    let with = |ip: Value| object("lb", json!({"loadBalancer": {"ingress": [{"ip": ip}]}}));
    assert_eq!(judged(fields, &[with(json!("192.0.2.1"))]), "pass: 1 of 1 as required");
    let absent = "requirement-unmet: ns/lb: {.status.loadBalancer.ingress[0].ip} is absent or empty";
    assert_eq!(judged(fields, &[with(json!(""))]), format!("fail {absent}"));
    let pending = object("lb", json!({"loadBalancer": {}}));
    assert_eq!(judged(fields, std::slice::from_ref(&pending)), format!("fail {absent}"));
    assert!(judged(fields, &[young(pending)]).starts_with("fail requirement-progressing"));
    let list = "resource: services, namespace: ns, for: 'jsonpath={.status.loadBalancer.ingress}'";
    assert!(judged(list, &[object("lb", json!({"loadBalancer": {"ingress": []}}))]).starts_with("fail"));
    assert!(judged(list, &[with(json!("192.0.2.1"))]).starts_with("pass"));
}

#[test]
fn a_condition_is_of_the_present_generation() {
    let fields = "resource: certificates.cert-manager.io, namespace: ns, for: condition=Ready";
    let of = |conditions: Value| judged(fields, &[object("a", json!({ "conditions": conditions }))]);
    assert_eq!(of(json!([{"type": "Ready", "status": "True"}])), "pass: 1 of 1 as required");
    assert_eq!(
        of(json!([{"type": "Ready", "status": "False", "reason": "DoesNotExist", "message": "no secret"}])),
        "fail requirement-unmet: ns/a: Ready is False (DoesNotExist): no secret"
    );
    assert_eq!(of(json!([{"type": "Ready", "status": "Unknown"}])), "fail requirement-unmet: ns/a: Ready is Unknown");
    assert_eq!(
        of(json!([{"type": "Ready", "status": "True", "observedGeneration": 0}])),
        "fail requirement-progressing: ns/a: condition Ready is of generation 0, and it has 1"
    );
    assert_eq!(
        of(json!([{"type": "Issuing", "status": "True"}])),
        "error requirement-unclear: ns/a: condition Ready is absent"
    );
    assert_eq!(of(json!([])), "error requirement-unclear: ns/a: condition Ready is absent");
    // If a condition appears several times, the worst counts.
    assert!(of(json!([{"type": "Ready", "status": "True"}, {"type": "Ready", "status": "False"}])).starts_with("fail"));
    let fields = "resource: nodes, for: condition=MemoryPressure=False";
    let node =
        json!({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "MemoryPressure", "status": "False"}]}});
    assert_eq!(judged(fields, &[node]), "pass: 1 of 1 as required");
}

#[test]
fn age_is_by_the_clock_of_the_server() {
    let fields = "resource: cronjobs.batch, namespace: ns, name: backup, for: 'age={.status.lastSuccessfulTime}<24h'";
    let of = |time: Timestamp| judged(fields, &[object("backup", json!({"lastSuccessfulTime": time.to_string()}))]);
    assert!(of(now() - HOUR * 23).starts_with("pass"));
    assert!(of(now()).starts_with("pass"));
    assert_eq!(of(now() - HOUR * 30), "fail requirement-unmet: ns/backup: {.status.lastSuccessfulTime} is 30h ago");
    assert!(of(now() - HOUR * 24).starts_with("fail requirement-unmet"), "not younger");
    assert!(of(now() + HOUR).starts_with("error requirement-unclear"));
    assert!(judged(fields, &[object("backup", json!({"lastSuccessfulTime": "yesterday"}))]).starts_with("error"));
    assert!(judged(fields, &[object("backup", json!({"lastSuccessfulTime": 1}))]).starts_with("error"));
    assert!(judged(fields, &[object("backup", json!({}))]).starts_with("error"));
    // The server's clock counts, not the runner's.
    let entry = entry(fields);
    let mut seen = objects(&entry, &[object("backup", json!({"lastSuccessfulTime": ago(HOUR)}))]);
    seen.date = Some(now() + HOUR * 48);
    assert!(said(&world(&entry, Ok(Served::Objects(seen.clone())))).starts_with("fail requirement-unmet"));
    seen.date = None;
    let unknown = said(&world(&entry, Ok(Served::Objects(seen))));
    assert_eq!(unknown, "error requirement-unclear: ns/backup: the API server has not reported its time");
}

#[test]
fn current_is_what_its_controller_is_done_with() {
    let fields = "resource: kustomizations.kustomize.toolkit.fluxcd.io, allNamespaces: true, for: current";
    let of = |status: Value| judged(fields, &[object("apps", status)]);
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "R"});
    let pass = "pass: 1 of 1 as required";
    assert_eq!(of(json!({"observedGeneration": 1, "conditions": [condition("Ready", "True")]})), pass);
    assert_eq!(of(json!({"conditions": [condition("Ready", "True")]})), pass);
    for (status, expected) in [
        (json!({}), "error requirement-unclear: ns/apps: a status that shows whether it is current is absent"),
        (
            json!({"phase": "fine"}),
            "error requirement-unclear: ns/apps: a status that shows whether it is current is absent",
        ),
        (
            json!({"observedGeneration": 0, "conditions": [condition("Ready", "True")]}),
            "fail requirement-progressing: ns/apps: its status is of generation 0, and it has 1",
        ),
        (
            json!({"observedGeneration": 1, "conditions": [condition("Ready", "False")]}),
            "fail requirement-unmet: ns/apps: Ready is False (R)",
        ),
        (
            json!({"observedGeneration": 1, "conditions": [condition("Ready", "Unknown")]}),
            "fail requirement-progressing: ns/apps: Ready is Unknown (R)",
        ),
        (
            json!({"observedGeneration": 1, "conditions": [condition("Reconciling", "True"), condition("Ready", "True")]}),
            "fail requirement-progressing: ns/apps: Reconciling is True (R)",
        ),
        (
            json!({"observedGeneration": 1, "conditions": [condition("Stalled", "True")]}),
            "fail requirement-unmet: ns/apps: Stalled is True (R)",
        ),
    ] {
        assert_eq!(of(status.clone()), expected, "{status}");
    }
    let mut without_generation = object("apps", json!({"observedGeneration": 1}));
    without_generation["metadata"]["generation"] = json!(null);
    assert!(judged(fields, &[without_generation]).starts_with("error requirement-unclear"));
    let mut deleted = object("apps", json!({"observedGeneration": 1, "conditions": [condition("Ready", "True")]}));
    deleted["metadata"]["deletionTimestamp"] = ago(HOUR).into();
    assert_eq!(judged(fields, &[deleted]), "fail requirement-unmet: ns/apps: it is being deleted");
}

#[test]
fn a_workload_is_current_by_its_replicas() {
    let of = |resource: &str, spec: Value, status: Value| {
        let mut it = object("web", status);
        it["spec"] = spec;
        judged(&format!("resource: {resource}.apps, namespace: ns, name: web, for: current"), &[it])
    };
    let progressing = json!([{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]);
    let late = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
    let three = json!({"replicas": 3});
    let full = json!({"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3, "conditions": progressing});
    let without = |name: &str, value: Value| {
        let mut status = full.clone();
        status[name] = value;
        status
    };
    assert!(of("deployments", three.clone(), full.clone()).starts_with("pass"));
    assert!(of("deployments", json!({"replicas": 0}), json!({"observedGeneration": 1})).starts_with("pass"));
    for (name, value, expected) in [
        ("updatedReplicas", json!(1), "requirement-progressing: ns/web: 1 of 3 pods are updated"),
        ("replicas", json!(4), "requirement-progressing: ns/web: 1 pods of an earlier revision still run"),
        ("readyReplicas", json!(null), "requirement-progressing: ns/web: 0 of 3 pods are ready"),
        ("availableReplicas", json!(2), "requirement-progressing: ns/web: 2 of 3 pods are available"),
        ("conditions", late, "requirement-unmet: ns/web: Progressing is False (ProgressDeadlineExceeded)"),
    ] {
        assert_eq!(of("deployments", three.clone(), without(name, value)), format!("fail {expected}"));
    }
    assert!(of("deployments", three.clone(), without("observedGeneration", json!(null))).starts_with("error"));
    // Without a status, no pods are desired, and none is missing.
    assert!(of("daemonsets", json!({}), json!({})).starts_with("error requirement-unclear"));
    let daemons = json!({"observedGeneration": 1, "desiredNumberScheduled": 5, "updatedNumberScheduled": 5, "numberReady": 5, "numberAvailable": 5});
    assert!(of("daemonsets", json!({}), daemons).starts_with("pass"));
    let partition = json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}});
    assert!(of("statefulsets", partition, without("updatedReplicas", json!(1))).starts_with("pass"));
    assert!(of("statefulsets", three, without("updatedReplicas", json!(1))).starts_with("fail"));
}

#[test]
fn all_objects_have_to_be_so_unless_some_are_enough() {
    let all = "resource: things.example.com, allNamespaces: true, for: condition=Ready";
    let with = |name: &str, status: &str| object(name, json!({"conditions": [{"type": "Ready", "status": status}]}));
    let (good, bad) = (with("a", "True"), with("b", "False"));
    let (unclear, late) = (object("c", json!({})), young(object("d", json!({}))));
    let of =
        |fields: &str, objects: &[&Value]| judged(fields, &objects.iter().map(|it| (*it).clone()).collect::<Vec<_>>());
    assert_eq!(
        of(all, &[&good, &bad, &unclear]),
        "fail requirement-unmet: 1 of 3 are as required, 3 should be; ns/b: Ready is False"
    );
    assert!(of(all, &[&good, &unclear]).starts_with("error requirement-unclear"));
    assert!(of(all, &[&good, &unclear, &late]).starts_with("fail requirement-progressing"));
    let two = format!("{all}, atLeast: 2");
    assert_eq!(of(&two, &[&good, &good, &bad]), "pass: 2 of 3 as required");
    assert_eq!(of(&two, &[&good]), "fail requirement-unmet: there are only 1");
    assert!(of(&two, &[&good, &bad]).starts_with("fail requirement-unmet"));
    assert!(of(&two, &[&good, &bad, &unclear]).starts_with("error requirement-unclear"), "it may be the second");
    assert!(of(&two, &[&good, &bad, &late]).starts_with("fail requirement-progressing"));
}

#[test]
fn what_does_not_exist_fails() {
    assert_eq!(judged(CEPH, &[]), "fail object-missing: there are no cephclusters.ceph.rook.io in ns");
    let named = "resource: cronjobs.batch, namespace: ns, name: backup, for: current";
    assert_eq!(judged(named, &[]), "fail object-missing: cronjobs.batch ns/backup does not exist");
    assert!(
        judged(&format!("{CEPH}, allowNone: true"), &[])
            .starts_with("pass: there are no cephclusters.ceph.rook.io in ns, which")
    );
    assert!(
        judged(&format!("{named}, allowNone: true"), &[])
            .starts_with("pass: cronjobs.batch ns/backup does not exist, which")
    );
}

/// A field is not considered omitted before the controller has written the status.
#[test]
fn or_else_is_for_what_the_api_leaves_out() {
    let fields =
        "resource: deployments.apps, namespace: ns, for: 'jsonpath={.status.unavailableReplicas}=0', orElse: 0";
    let seen = object("web", json!({"observedGeneration": 1}));
    assert!(judged(fields, std::slice::from_ref(&seen)).starts_with("pass"));
    assert!(judged(fields, &[young(seen)]).starts_with("fail requirement-progressing"));
    for never in [json!({}), json!(null)] {
        assert!(judged(fields, &[object("web", never.clone())]).starts_with("error requirement-unclear"));
        assert!(judged(fields, &[young(object("web", never))]).starts_with("fail requirement-progressing"));
    }
    // Fields outside the status do not depend on a controller.
    let annotation =
        "resource: storageclasses.storage.k8s.io, for: 'jsonpath={.metadata.annotations.a}=no', orElse: no";
    assert!(judged(annotation, &[object("a", json!(null))]).starts_with("pass"));
}

/// Argo Rollouts writes the generation as text.
#[test]
fn a_generation_may_be_a_text_and_is_compared_all_the_same() {
    let of = |observed: Value| {
        let status = json!({"observedGeneration": observed, "phase": "Healthy", "conditions": [{"type": "Available", "status": "True"}]});
        ["condition=Available", "'jsonpath={.status.phase}=Healthy'", "'jsonpath={.*.phase}=Healthy'", "current"].map(
            |demand| {
                judged(
                    &format!("resource: rollouts.argoproj.io, namespace: ns, for: {demand}"),
                    &[object("web", status.clone())],
                )
            },
        )
    };
    assert!(of(json!("1")).iter().all(|it| it.starts_with("pass")), "{:?}", of(json!("1")));
    for old in [json!("0"), json!(0), json!(1.5), json!({"a": 1}), json!("")] {
        assert!(
            of(old.clone()).iter().all(|it| it.starts_with("fail requirement-progressing")),
            "{old}: {:?}",
            of(old.clone())
        );
    }
}

#[test]
fn other_workloads_have_their_counts() {
    let of = |resource: &str, spec: Value, status: Value| {
        let mut it = object("it", status);
        it["spec"] = spec;
        judged(&format!("resource: {resource}, namespace: ns, for: current"), &[it])
    };
    let three = json!({"replicas": 3});
    assert!(of("replicationcontrollers", three.clone(), json!({"observedGeneration": 1})).starts_with("fail"));
    let full = json!({"observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3});
    assert!(of("replicationcontrollers", three, full).starts_with("pass"));
    let budget = |current| json!({"observedGeneration": 1, "currentHealthy": current, "desiredHealthy": 2});
    assert!(of("poddisruptionbudgets.policy", json!({}), budget(0)).starts_with("fail"));
    assert!(of("poddisruptionbudgets.policy", json!({}), budget(2)).starts_with("pass"));
    assert!(of("daemonsets.apps", json!({}), json!({"observedGeneration": 1})).starts_with("error"));
}

#[test]
fn with_less_weight_what_is_unknown_stays_so() {
    let fields = "resource: things.example.com, namespace: ns, severity: warn, for: ['jsonpath={.status.a}=1', 'jsonpath={.status.b}=1']";
    assert!(judged(fields, &[object("x", json!({"a": 1, "b": 2}))]).starts_with("warn requirement-unmet"));
    assert!(judged(fields, &[object("x", json!({"b": 2}))]).starts_with("error requirement-unclear"));
    let two = [object("x", json!({"a": 1, "b": 2})), object("y", json!({"a": 1}))];
    assert!(judged(fields, &two).starts_with("error requirement-unclear"));
}

#[test]
fn several_values_are_something_only_if_none_is_empty() {
    let fields = "resource: services, namespace: ns, for: 'jsonpath={.status.loadBalancer.ingress[*].ip}'";
    let of = |ips: Value| judged(fields, &[object("lb", json!({"loadBalancer": {"ingress": ips}}))]);
    assert!(of(json!([{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}])).starts_with("pass"));
    assert!(of(json!([{"ip": ""}, {"ip": ""}])).starts_with("fail"));
    assert!(of(json!([{"ip": "192.0.2.1"}, {"ip": ""}])).starts_with("fail"));
}

#[test]
fn conditions_that_are_not_all_read_are_no_answer() {
    let entry = entry("resource: things.example.com, namespace: ns, for: current");
    let with =
        |conditions: Value| taken(&entry, &object("x", json!({"observedGeneration": 1, "conditions": conditions})));
    assert!(with(json!([])).is_ok() && with(json!(null)).is_ok());
    let many: Vec<Value> = (0..300).map(|it| json!({"type": format!("C{it}"), "status": "True"})).collect();
    for odd in [json!(many), json!({"Stalled": "True"}), json!("Ready")] {
        assert_eq!(with(odd).unwrap_err().kind, GapKind::Malformed);
    }
}

/// Refused, interrupted, not served, and not requested at all.
#[test]
fn what_was_not_seen_passes_nothing() {
    for fields in [CEPH.to_owned(), format!("{CEPH}, allowNone: true"), format!("{CEPH}, severity: warn")] {
        let entry = entry(&fields);
        for kind in WAYS.into_iter().chain([GapKind::NotAsked]) {
            let said = said(&world(&entry, Err(Gap::new(kind, "test"))));
            assert!(said.starts_with("error ") || said.starts_with("blocked"), "{said}");
        }
        let not_served = world(&entry, Ok(Served::Not("no such resource".to_owned())));
        assert_eq!(said(&not_served), "error kind-not-served: no such resource");
        let mut never = world(&entry, Ok(Served::Not(String::new())));
        never.kube().required.clear();
        assert!(said(&never).starts_with("error no-answer"));
    }
    // Another cluster's objects do not count.
    let entry = entry(CEPH);
    let good = objects(&entry, &[object("rook", json!({"ceph": {"health": "HEALTH_OK"}}))]);
    let mut foreign = world(&entry, Ok(Served::Objects(good)));
    assert!(said(&foreign).starts_with("pass"));
    for node in foreign.kube().nodes.as_mut().unwrap() {
        node.machine_id = format!("another-{}", node.name);
        node.addresses.clear();
    }
    let verdict = fixture::verdict("policy.require", &foreign);
    assert!(!verdict.status().is_fine(), "{verdict:?}");
}

#[test]
fn weight_is_the_policys_and_what_is_unknown_has_its_own() {
    let warn = format!("{CEPH}, severity: warn");
    assert!(
        judged(&warn, &[object("a", json!({"ceph": {"health": "HEALTH_ERR"}}))]).starts_with("warn requirement-unmet")
    );
    assert!(judged(&warn, &[]).starts_with("warn object-missing"));
    assert!(judged(&warn, &[object("a", json!({}))]).starts_with("error requirement-unclear"));
}

/// A selector was dropped by a proxy.
#[test]
fn an_object_that_was_not_selected_is_no_answer() {
    let named = entry("resource: cronjobs.batch, namespace: ns, name: backup, for: current");
    assert_eq!(taken(&named, &object("other", json!({}))).unwrap_err().kind, GapKind::Malformed);
    let selected =
        entry("resource: pods, namespace: ns, selector: 'app=backup,tier in (a, b),!canary', for: condition=Ready");
    let with = |labels: Value| {
        let mut pod = object("p", json!({}));
        pod["metadata"]["labels"] = labels;
        taken(&selected, &pod).is_ok()
    };
    assert!(with(json!({"app": "backup", "tier": "b"})));
    for other in [
        json!({}),
        json!(null),
        json!({"app": "web", "tier": "a"}),
        json!({"app": "backup", "tier": "c"}),
        json!({"app": "backup", "tier": "a", "canary": ""}),
    ] {
        assert!(!with(other.clone()), "{other}");
    }
}

#[test]
fn values_are_short_and_hold_no_secrets() {
    let token = "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB";
    let said = judged(CEPH, &[object("rook", json!({"ceph": {"health": format!("{token} {}", "x".repeat(500))}}))]);
    assert!(!said.contains(token), "{said}");
    assert!(said.chars().count() < 200, "{said}");
    let long = "resource: things.example.com, namespace: ns, for: condition=Ready";
    let message = json!({"conditions": [{"type": "Ready", "status": "False", "message": format!("{token} {}", "y".repeat(5000))}]});
    let said = judged(long, &[object("a", message)]);
    assert!(!said.contains(token) && said.chars().count() < 200, "{said}");
}

#[test]
fn without_a_policy_it_is_skipped() {
    assert_eq!(fixture::verdict("policy.require", &healthy()).status(), Status::Skip);
}
