//! Rules for assembling a diagnosis, and a golden file of all texts.

use crate::model::CheckId;
use std::fmt::Write as _;

use super::*;
use crate::diagnosis::symptoms::{Symptoms, names};

fn hint(hint: &Hint) -> String {
    let filled = |command: &str, arguments: &[String]| {
        let (ones, rest) = arguments.split_at(command.matches("{}").count());
        let command = ones.iter().fold(command.to_owned(), |command, it| command.replacen("{}", it, 1));
        command.replace("{*}", &rest.join(" "))
    };
    match hint {
        Hint::Likely(text) => format!("likely: {text}"),
        Hint::Try { command, arguments } => format!("look: {}", filled(command, arguments)),
        Hint::Remedy { command, arguments } => format!("change: {}", filled(command, arguments)),
        Hint::Rendered { command, .. } => command.clone(),
    }
}

fn told(title: &str, snapshot: &Snapshot) -> String {
    let mut text = format!("# {title}\n");
    for it in diagnosed(snapshot) {
        writeln!(text, "{}: {}", it.id, it.headline).unwrap();
        for seen in &it.seen {
            writeln!(text, "  seen: {}: {}", seen.target, seen.observed).unwrap();
        }
        for next in &it.next {
            writeln!(text, "  {}", hint(next)).unwrap();
        }
        for it in &it.explains {
            writeln!(text, "  explains: {} {} {}", it.check, it.target, it.reason.code()).unwrap();
        }
    }
    text
}

fn crash(state: &mut crate::snapshot::PodState) {
    state.ready = Some(false);
    let container = &mut state.containers[0];
    (container.ready, container.running) = (false, false);
    (container.restarts, container.exit_code, container.finished) = (7, Some(1), Some(ago(20)));
}

/// No lease was written for a minute.
fn no_lease_is_renewed(snapshot: &mut Snapshot) {
    let kube = snapshot.kube();
    for leases in [&mut kube.node_leases, &mut kube.system_leases] {
        for lease in leases.as_mut().unwrap().by_name.values_mut() {
            lease.renewed = Some(ago(60));
        }
    }
}

pub(super) const MORE: &[(&str, Break)] = &[
    ("etcd has been out of space for a while", |snapshot| {
        raise(snapshot, &AlarmKind::NoSpace);
        no_lease_is_renewed(snapshot);
    }),
    ("etcd has been corrupt for a while", |snapshot| {
        raise(snapshot, &AlarmKind::Corrupt);
        no_lease_is_renewed(snapshot);
    }),
    ("a control plane is off", |snapshot| snapshot.power_off("cp-3")),
    ("a worker is off", |snapshot| snapshot.power_off("w-1")),
    ("two control planes are off", |snapshot| {
        snapshot.power_off("cp-2");
        snapshot.power_off("cp-3");
    }),
    ("the kubeconfig has expired", |snapshot| {
        let credentials = snapshot.kube().credentials.as_mut().unwrap();
        credentials.certificate.as_mut().unwrap().not_after = ago(1);
    }),
    ("all endpoints are workers", |snapshot| {
        for endpoint in &mut snapshot.talos_mut().endpoints {
            endpoint.role = Ok(Some(Role::Worker));
        }
    }),
    ("an old Talos asks for os:operator", |snapshot| {
        let talos = snapshot.talos_of("cp-1");
        "v1.9.0".clone_into(&mut talos.contact.as_mut().unwrap().version.tag);
        talos.etcd_alarms = gap(GapKind::Forbidden);
        talos.etcd_status = gap(GapKind::Forbidden);
    }),
    ("every API server is frozen", |snapshot| {
        for name in CONTROL_PLANES {
            snapshot.kube().servers.insert(name.to_owned(), gap(GapKind::TimedOut));
        }
        snapshot.kube().endpoint = gap(GapKind::TimedOut);
        lists(snapshot, GapKind::TimedOut);
    }),
    ("a machine boots with a failed extension", |snapshot| {
        stage(snapshot, "cp-2", "booting");
        service(snapshot, "cp-2", "cri", "Failed");
        service(snapshot, "cp-2", "etcd", "Waiting");
    }),
    ("a worker is off, and a member has no machine", |snapshot| {
        snapshot.power_off("w-1");
        stale_member(snapshot);
    }),
    ("only etcd names the machine of a member", |snapshot| {
        stale_member(snapshot);
        let mut machine = crate::testing::fixture::node(98, "cp-old");
        machine.talos = TalosNode::unasked(&Gap::new(GapKind::NodeUnreachable, "no route to host")).into();
        machine.sources = crate::snapshot::Sources { etcd: true, ..Default::default() };
        snapshot.nodes.push(machine);
    }),
    ("before the bootstrap, a small worker, and a kubeconfig that ends soon", |snapshot| {
        never_bootstrapped(snapshot);
        snapshot.talos_of("w-1").memory = Ok(1 << 20);
        let credentials = snapshot.kube().credentials.as_mut().unwrap();
        credentials.certificate.as_mut().unwrap().not_after = ago(0) + jiff::SignedDuration::from_hours(1);
    }),
    ("an etcd member hangs, and its service is still called healthy", member_hangs),
    ("an etcd member is cut off from its peers", member_is_cut_off),
    ("a control plane reboots", |snapshot| goes_down(snapshot, "cp-3", "rebooting")),
    ("a worker is off, and Kubernetes has not missed it", |snapshot| unreached(snapshot, GapKind::NodeUnreachable)),
    ("discovery alone still lists a machine", |snapshot| {
        let mut machine = crate::testing::fixture::node(98, "w-9");
        machine.talos = TalosNode::unasked(&Gap::new(GapKind::NodeUnreachable, "no route to host")).into();
        machine.sources = crate::snapshot::Sources { discovery: true, ..Default::default() };
        snapshot.nodes.push(machine);
    }),
    ("two of the components of a control plane crash", |snapshot| {
        for name in ["kube-apiserver-cp-2", "kube-controller-manager-cp-2"] {
            crash(
                &mut snapshot
                    .talos_of("cp-2")
                    .static_pod_statuses
                    .as_mut()
                    .unwrap()
                    .iter_mut()
                    .find(|it| it.name == name)
                    .unwrap()
                    .state,
            );
        }
    }),
    ("without Talos, a component crashes", |snapshot| {
        let pods = snapshot.kube().pods.as_mut().unwrap();
        crash(&mut pods.iter_mut().find(|it| it.name == "kube-scheduler-cp-2").unwrap().state);
        *snapshot = snapshot.clone().without_talos();
    }),
    ("without Talos, a static pod of the user's own crashes", |snapshot| {
        let pods = snapshot.kube().pods.as_mut().unwrap();
        let mut own = pods.iter().find(|it| it.name == "kube-scheduler-cp-2").unwrap().clone();
        (own.name, own.node) = ("own-w-1".to_owned(), Some("w-1".to_owned()));
        own.labels.clear();
        crash(&mut own.state);
        pods.push(own);
        *snapshot = snapshot.clone().without_talos();
    }),
    ("a static pod of the user's own crashes", |snapshot| {
        let talos = snapshot.talos_of("w-1");
        talos.static_pods.as_mut().unwrap().push("own".to_owned());
        let mut state = running_pod("own");
        crash(&mut state);
        talos.static_pod_statuses.as_mut().unwrap().push(crate::snapshot::StaticPodStatus {
            namespace: "default".to_owned(),
            name: "own-w-1".to_owned(),
            state,
        });
    }),
    ("a cordoned worker is held up at its boot", |snapshot| {
        stage(snapshot, "w-1", "booting");
        service(snapshot, "w-1", "cri", "Waiting");
        snapshot.kube_node_mut("w-1").unschedulable = true;
    }),
    ("a learner whose etcd is not healthy", |snapshot| {
        snapshot.etcd_status_mut("cp-3").is_learner = true;
        let etcd = snapshot.service_mut("cp-3", "etcd");
        (etcd.healthy, etcd.health_message) = (Some(false), "not supported for learner".to_owned());
    }),
    ("a machine cannot boot for its clock", |snapshot| {
        stage(snapshot, "cp-2", "booting");
        snapshot.talos_of("cp-2").time_status.as_mut().unwrap().as_mut().unwrap().synced = false;
    }),
    ("etcd waits for the clock of its machine", |snapshot| {
        stage(snapshot, "cp-2", "booting");
        snapshot.talos_of("cp-2").time_status.as_mut().unwrap().as_mut().unwrap().synced = false;
        service(snapshot, "cp-2", "trustd", "Failed");
        service(snapshot, "cp-2", "etcd", "Waiting");
        let etcd = snapshot.service_mut("cp-2", "etcd");
        "Waiting for time sync".clone_into(&mut etcd.last_event.as_mut().unwrap().message);
    }),
    ("a machine was removed, and was cordoned before", |snapshot| {
        unreached(snapshot, GapKind::NodeUnreachable);
        snapshot.node_mut("w-1").sources.discovery = false;
        silent(snapshot);
        snapshot.kube_node_mut("w-1").unschedulable = true;
    }),
    ("a clock is not corrected", |snapshot| {
        snapshot.talos_of("cp-2").adjtime.as_mut().unwrap().as_mut().unwrap().synced = false;
    }),
    ("a worker is missing, and none is being removed", |snapshot| snapshot.asked.expect_workers = Some(2)),
    ("a worker too many, and one that is being removed", |snapshot| {
        snapshot.asked.expect_workers = Some(0);
        snapshot.node_mut("w-1").leaving = true;
    }),
    ("a control plane is being upgraded", |snapshot| {
        "v1.12.4".clone_into(&mut snapshot.talos_of("cp-2").contact.as_mut().unwrap().version.tag);
        let node = snapshot.kube_node_mut("cp-2");
        (node.unschedulable, node.cordoned_by_talos) = (true, true);
        stage(snapshot, "cp-2", "upgrading");
    }),
];

#[test]
fn all_that_is_said() {
    let cases = CASES.iter().map(|case| told(case.cause, &broken(case.trouble)));
    let more = MORE.iter().map(|(title, trouble)| told(title, &broken(*trouble)));
    insta::assert_snapshot!(cases.chain(more).collect::<Vec<_>>().join("\n"));
}

#[test]
fn commands_are_told_once_and_those_that_change_something_last() {
    let (look, other) = (Hint::run("look", []), Hint::run("other", []));
    let (change, right) = (Hint::remedy("change", []), Hint::remedy("right", []));
    let recognized = Recognized::new("it", "it")
        .then(change.clone())
        .then(Hint::likely("the cause"))
        .then(look.clone())
        .then(look.clone())
        .then(other.clone());
    let next = |recognized: Recognized| recognized.diagnosis(Severity::Fail, Vec::new()).next;
    assert_eq!(next(recognized.clone()), [look.clone(), other.clone(), change]);
    assert_eq!(next(recognized.clone().without_remedies()), [look.clone(), other.clone()]);
    assert_eq!(next(recognized.only_remedy(right.clone())), [look, other, right]);
}

#[test]
fn a_diagnosis_is_about_the_problems_that_it_explains() {
    let target = Target::new(Kind::Node, "w-1");
    let explained = Explained {
        check: CheckId::EtcdLag,
        target: target.clone(),
        reason: Reason::NodeUnreachable,
        observed: "x".to_owned(),
    };
    let diagnosis = Recognized::new("it", "it").diagnosis(Severity::Fail, vec![explained]);
    assert!(diagnosis.is_about(CheckId::EtcdLag, &target, Reason::NodeUnreachable, "x"));
    assert!(!diagnosis.is_about(CheckId::EtcdSpace, &target, Reason::NodeUnreachable, "x"));
    assert!(!diagnosis.is_about(CheckId::EtcdLag, &Target::new(Kind::Node, "w-2"), Reason::NodeUnreachable, "x"));
    assert!(!diagnosis.is_about(CheckId::EtcdLag, &target, Reason::NodeFrozen, "x"));
    assert!(!diagnosis.is_about(CheckId::EtcdLag, &target, Reason::NodeUnreachable, "y"));
}

#[test]
fn names_are_told_as_people_do() {
    let target = |name: &str| Target::new(Kind::Node, name);
    assert_eq!(names(&[]), "");
    assert_eq!(names(&[target("a")]), "a");
    assert_eq!(names(&[target("a"), target("b"), target("a")]), "a and b");
    assert_eq!(names(&[target("a"), target("b"), target("c")]), "a, b and c");
}

#[test]
fn only_what_a_check_saw_of_this_machine_shows_that_it_is_well() {
    let mut snapshot = healthy();
    snapshot.power_off("w-1");
    let verdicts = verdicts(&snapshot);
    let [up, off] = ["cp-1", "w-1"].map(|name| snapshot.node(name).unwrap().target());
    let symptoms = Symptoms::new(&snapshot, &verdicts);
    assert!(symptoms.passed(CheckId::TalosNodesReachable, &up));
    assert!(!symptoms.passed(CheckId::TalosNodesReachable, &off), "it failed");
    assert!(!symptoms.passed(CheckId::EtcdService, &off), "it is no control plane");
    assert!(!symptoms.passed(CheckId::TalosNodesBooted, &off), "nobody could see it");
}

/// An address identifies the machine of a target that has no machine's name, such as an endpoint.
#[test]
fn machines_are_the_same_by_name_or_address() {
    let at = |kind, name: &str, address: &str| Target::new(kind, name).with_address(address);
    let node = at(Kind::Node, "cp-1", "10.0.0.1");
    for (other, same) in [
        (at(Kind::EtcdMember, "cp-1", "10.0.0.9"), true),
        (at(Kind::EtcdMember, "other", "10.0.0.1"), true),
        (at(Kind::EtcdMember, "other", "10.0.0.9"), false),
        (Target::new(Kind::Endpoint, "cp-1:50000"), false),
        (Target::new(Kind::Endpoint, "cp-1"), false),
        (Target::new(Kind::Endpoint, "[10.0.0.1]:50000"), true),
        (at(Kind::Workload, "cp-1", "10.0.0.1"), false),
    ] {
        assert_eq!(same_subject(&node, &other), same, "{other:?}");
        assert_eq!(same_subject(&other, &node), same, "{other:?}");
    }
    let bare = |kind, name: &str| Target::new(kind, name);
    assert!(!same_subject(&bare(Kind::Node, "a"), &bare(Kind::EtcdMember, "b")), "no address is no common address");
    assert!(!same_subject(&bare(Kind::Pod, "-cp-1"), &node), "a pod has a name of its own");
}

/// A machine may be allowed to be off, but not the loss of the webhook that ran on it, which stays a cause with an impact of its own.
#[test]
fn a_failure_is_no_part_of_what_only_warns() {
    let mut snapshot = without_backend("w-1");
    snapshot.power_off("w-1");
    let mut verdicts = verdicts(&snapshot);
    let others = verdicts.iter_mut().filter(|(check, _)| check.id != CheckId::K8sWebhooks);
    others.flat_map(|(_, verdict)| verdict.problems_mut()).for_each(|problem| problem.severity = Severity::Warn);
    let made = diagnose(&snapshot, &verdicts);
    let of = |id: &str| made.iter().find(|it| it.id == id).unwrap_or_else(|| panic!("no {id}: {made:#?}"));
    assert_eq!(of("node-down").severity, Severity::Warn);
    let webhook = of("webhook-refuses-writes");
    assert_eq!((webhook.severity, made[0].id), (Severity::Fail, webhook.id));
}

/// A cluster with a webhook for new pods, whose only backend is on this machine.
fn without_backend(machine: &str) -> Snapshot {
    let mut snapshot = healthy();
    let kube = snapshot.kube();
    kube.mutating_webhooks.as_mut().unwrap().clear();
    for endpoint in kube.webhook_endpoints.values_mut().flatten().flatten() {
        endpoint.node = Some(machine.to_owned());
    }
    snapshot
}

/// Nothing that is lost with a machine is replaced while the webhook that went with it refuses new pods.
#[test]
fn a_machine_that_takes_a_webhook_with_it_promises_no_replacement() {
    let mut snapshot = without_backend("w-1");
    snapshot.power_off("w-1");
    let made = diagnosed(&snapshot);
    let down = made.iter().find(|it| it.id == "node-down").unwrap();
    assert!(!down.impact.contains("5 minutes"), "{}", down.impact);
    assert!(down.headline.contains("validatingwebhookconfiguration/policy"), "{}", down.headline);
    assert!(down.seen.iter().any(|seen| seen.observed.contains("Service policy/webhook")), "{down:#?}");
    let next: Vec<_> = down.next.iter().map(hint).collect();
    assert!(next.iter().any(|it| it.contains("describe validatingwebhookconfiguration")), "{next:?}");
    // A webhook that stops no request of Kubernetes changes nothing about that.
    snapshot.kube().validating_webhooks.as_mut().unwrap()[0].fails_closed = false;
    let made = diagnosed(&snapshot);
    assert!(made.iter().find(|it| it.id == "node-down").unwrap().impact.contains("5 minutes"));
}

/// Each impact that promises replaced pods has another one for the time without a webhook.
#[test]
fn every_promise_of_replaced_pods_can_be_taken_back() {
    for cause in ALL.iter().filter(|it| it.impact.contains("Kubernetes replaces")) {
        let impact = webhooks::while_pods_are_refused(cause.id).unwrap_or_else(|| panic!("{}", cause.id));
        assert!(!impact.contains("5 minutes"), "{impact}");
    }
}
