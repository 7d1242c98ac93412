//! Credentials with insufficient rights: the affected checks are undetermined, and none passes because of it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::checks::{ALL, facts, find};
use crate::model::{Fact, Reason, Right, Severity, Status};
use crate::snapshot::{EtcdEndpoint, Gap, GapKind, Kubernetes, Observed, Readyz, Snapshot, Talos, TalosNode};
use crate::testing::fixture::{Shape, Sides, by_check};
use crate::testing::laws::{judged, verdicts};

fn refuse<T>(fact: &mut Observed<T>) {
    if fact.is_ok() {
        *fact = Err(Gap::new(GapKind::Forbidden, "not authorized"));
    }
}

fn refuse_readyz(readyz: &mut Observed<Readyz>) {
    if let Ok(readyz) = readyz {
        (readyz.status, readyz.text) = (403, "forbidden: User \"reader\" cannot get path \"/readyz\"".to_owned());
    }
}

/// Refuses a fact as servers do.
fn refuse_fact(snapshot: &mut Snapshot, refused: Fact) {
    let kubernetes = snapshot.kubernetes.iter_mut();
    match refused {
        Fact::TalosNodes => return refuse_population(snapshot),
        // Every client may see it.
        Fact::KubeletCertificate => return,
        Fact::ServerCheck => snapshot.talos.iter_mut().for_each(|talos| refuse(&mut talos.server)),
        Fact::EtcdMembership => {
            for EtcdEndpoint { status, members, .. } in snapshot.external_etcd.iter_mut().flatten() {
                refuse(status);
                refuse(members);
            }
        }
        Fact::EtcdAlarms => {
            snapshot.external_etcd.iter_mut().flatten().for_each(|endpoint| refuse(&mut endpoint.alarms));
        }
        Fact::EndpointReadyz => return kubernetes.for_each(|kube| refuse_readyz(&mut kube.endpoint)),
        Fact::ServerReadyz => kubernetes.for_each(|kube| kube.servers.values_mut().for_each(refuse_readyz)),
        Fact::RequestedApis => kubernetes.for_each(|kube| kube.requested_apis.values_mut().for_each(refuse)),
        Fact::WebhookEndpoints => kubernetes.for_each(|kube| kube.webhook_endpoints.values_mut().for_each(refuse)),
        Fact::Required => kubernetes.for_each(|kube| kube.required.values_mut().for_each(refuse)),
        Fact::KubeNodes => {
            // Without this list, Kubernetes names no node.
            let has_talos = snapshot.talos.is_some();
            snapshot.nodes.retain(|node| has_talos || node.sources.flags);
            snapshot.nodes.iter_mut().for_each(|node| node.sources.kubernetes = false);
        }
        _ => {}
    }
    let answering = snapshot.nodes.iter_mut().filter(|node| node.talos.contact.is_ok());
    let of_nodes = answering.flat_map(|node| node.talos.answers_mut());
    let of_kubernetes = snapshot.kubernetes.iter_mut().flat_map(Kubernetes::answers_mut);
    for (fact, _, answer) in of_nodes.chain(of_kubernetes) {
        if fact == refused && answer.is_there() {
            answer.lose(Gap::new(GapKind::Forbidden, "not authorized"));
        }
    }
}

fn refuse_population(snapshot: &mut Snapshot) {
    let Some(Talos { endpoints, discovery, .. }) = &mut snapshot.talos else { return };
    refuse(discovery);
    for endpoint in endpoints {
        refuse(&mut endpoint.version);
        refuse(&mut endpoint.role);
        refuse(&mut endpoint.nodename);
    }
    let gap = Gap::new(GapKind::Forbidden, "not authorized");
    for node in snapshot.nodes.iter_mut().filter(|node| node.is_talos) {
        node.talos = TalosNode::unasked(&gap).into();
        (node.sources.discovery, node.sources.etcd, node.sources.talosconfig) = (false, false, false);
    }
}

/// Returns the checks whose status changed, by status: `error k8s.dns k8s.cni; skip k8s.nodes.csrs`.
fn changed(shape: &Shape, refused: &[Fact]) -> String {
    let before = shape.world();
    let mut after = before.clone();
    for fact in refused {
        refuse_fact(&mut after, *fact);
    }
    let mut by_status: BTreeMap<Status, Vec<&str>> = BTreeMap::new();
    let (before, after) = (by_check(&before), by_check(&after));
    for check in ALL {
        let status = after[check.id.name()].status();
        if status != before[check.id.name()].status() {
            by_status.entry(status).or_default().push(check.id.name());
        }
    }
    let of_each = by_status.into_iter().rev().map(|(status, ids)| format!("{} {}", status.name(), ids.join(" ")));
    of_each.collect::<Vec<_>>().join("; ")
}

/// Returns every right of the ClusterRole with the facts that need it, as `cluster-health rbac` writes it.
fn rights() -> BTreeMap<Right, Vec<Fact>> {
    let mut rights: BTreeMap<Right, Vec<Fact>> = BTreeMap::new();
    for fact in facts(ALL) {
        if let Some(right) = fact.right() {
            rights.entry(right).or_default().push(fact);
        }
    }
    rights
}

/// Each empty line has a reason: webhooks of definitions are skipped, because they cause a warning at most; `csinodes` is requested only
/// while pods wait for volumes; images show the versions; and without Talos, nothing is requested for an upgrade. Talos reports the system
/// of the nodes, and of two statements the worse one counts.
#[test]
fn each_right_is_missed_by_the_checks_that_need_it() {
    let no_talos = Shape { sides: Sides::NoTalos, ..Shape::default() };
    let mut seen = String::new();
    for (right, facts) in rights() {
        let name = match right {
            Right::Resource(_, plural) | Right::Object(_, plural, _) => plural,
            Right::Url(url) => url,
        };
        let of = |shape: &Shape, words: &str| format!("  {words}: {}\n", changed(shape, &facts)).replace(": \n", ":\n");
        seen.extend([name, "\n", &of(&Shape::default(), "with Talos"), &of(&no_talos, "without Talos")]);
    }
    insta::assert_snapshot!(seen);
}

/// Refuses each call of the Talos API except the first, without which nothing is reported (see below). Each empty line has a reason:
/// KubePrism and KubeSpan only warn, mirror pods show the components, optional facts are present, and etcd's data is only looked at while
/// etcd has not started.
#[test]
fn each_call_of_talos_is_missed_by_the_checks_that_need_it() {
    let calls = facts(ALL).into_iter().filter(|fact| fact.role().is_some() && *fact != Fact::TalosNodes);
    let seen: Vec<_> = calls.map(|fact| format!("{}: {}", fact.reads(), changed(&Shape::default(), &[fact]))).collect();
    insta::assert_snapshot!(seen.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n"));
}

/// `os:etcd:backup`, and any role that Talos does not know: facts that still pass were read from files or from Kubernetes.
#[test]
fn below_reader_nothing_of_talos_is_told() {
    let mut snapshot = Shape::default().world();
    for fact in facts(ALL).into_iter().filter(|fact| fact.role().is_some()) {
        refuse_fact(&mut snapshot, fact);
    }
    let passed = ALL.iter().filter(|check| judged(check, &snapshot).status() == Status::Pass).map(|check| check.id);
    let of_files = ["talos.credentials", "k8s.credentials"];
    let of_servers = ["k8s.api.endpoint", "k8s.api.servers", "k8s.api.certificates"];
    assert_eq!(passed.collect::<Vec<_>>(), [&of_files[..], &of_servers].concat());
    let verdict = judged(find("talos.endpoints").unwrap(), &snapshot);
    assert!(verdict.problems().all(|(_, problem)| problem.reason == Reason::RoleTooLow), "{verdict:#?}");
    assert_eq!(verdict.status(), Status::Error);
}

/// Before 1.9.6, and in 1.10.0, Talos requires more than os:reader for etcd's status and alarms.
#[test]
fn readers_of_old_releases_do_not_look_into_etcd() {
    for tag in ["v1.9.5", "v1.10.0"] {
        let mut snapshot = Shape { talos: [tag; 2], ..Shape::default() }.world();
        for node in &mut snapshot.nodes {
            refuse(&mut node.talos.etcd_status);
            refuse(&mut node.talos.etcd_alarms);
        }
        for (check, verdict) in verdicts(&snapshot).iter().filter(|(check, _)| check.id.name().starts_with("etcd.")) {
            assert_ne!(verdict.status(), Status::Fail, "{}", check.id);
            for (_, problem) in verdict.problems() {
                assert_eq!(problem.reason, Reason::RoleTooLowForThisVersion, "{}", check.id);
            }
        }
    }
}

/// Regardless of which right is refused, an undetermined check is not a failure, it stays undetermined, and only checks that warn at most
/// are skipped.
#[test]
fn a_refusal_is_an_error_and_no_verdict() {
    let shapes = [
        Shape::default(),
        Shape { sides: Sides::NoTalos, ..Shape::default() },
        Shape { sides: Sides::NoKubernetes, ..Shape::default() },
        Shape { external_etcd: 3, ..Shape::default() },
    ];
    for shape in shapes {
        let before = shape.world();
        let granted = by_check(&before);
        for fact in facts(ALL) {
            let mut snapshot = before.clone();
            refuse_fact(&mut snapshot, fact);
            let refused = by_check(&snapshot);
            for check in ALL {
                let (was, verdict) = (granted[check.id.name()].status(), &refused[check.id.name()]);
                let status = verdict.status();
                assert_ne!(status, Status::Fail, "{} without {fact:?}", check.id);
                let is_second_opinion = fact == Fact::ServerCheck;
                let may_skip = was == Status::Skip || check.severity == Severity::Warn || is_second_opinion;
                assert!(status != Status::Skip || may_skip, "{} without {fact:?}", check.id);
                for (target, problem) in verdict.problems().filter(|(_, problem)| problem.severity == Severity::Error) {
                    assert!(
                        !problem.waiting_helps || is_unsettled(problem.reason),
                        "{} {target} {problem:?}",
                        check.id
                    );
                }
            }
        }
    }
}

/// Without Talos, nothing proves etcd's quorum: only time distinguishes a missing right from an API server that is starting.
#[test]
fn a_refusal_that_lasts_ends_the_waiting() {
    let before = Shape { sides: Sides::NoTalos, ..Shape::default() }.world();
    for fact in facts(ALL) {
        let mut snapshot = before.clone();
        refuse_fact(&mut snapshot, fact);
        let unsettled = |snapshot: &Snapshot| {
            let verdicts = verdicts(snapshot);
            let unsettled = verdicts.iter().flat_map(|(check, verdict)| {
                let problems = verdict.problems().filter(|(_, it)| it.severity > Severity::Warn && it.waiting_helps);
                problems.map(|(target, problem)| format!("{} {target} {}", check.id, problem.reason.code()))
            });
            unsettled.collect::<Vec<_>>()
        };
        let first = unsettled(&snapshot);
        snapshot.memory = snapshot.memory.after(&snapshot, Duration::from_secs(1));
        snapshot.memory.elapsed = Duration::from_secs(91);
        assert_eq!(unsettled(&snapshot), [""; 0], "{fact:?}, at first {first:?}");
    }
}

/// Returns whether the reason is a refusal of an API server that has only just started, or missing evidence rather than a refusal.
fn is_unsettled(reason: Reason) -> bool {
    matches!(reason, Reason::ForbiddenOrStarting | Reason::NoAnswer | Reason::QuorumUnproven | Reason::NodeMissing)
}
