//! Stage 9: compares a policy with the cluster.

use super::Check;
use super::stated;
use crate::assess::{Assessment, Presence, Side};
use crate::model::{CheckId, Excuse, Fact, Hint, Kind, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Declared, ExcuseState, Node};

pub(super) const MACHINES: Check = Check {
    id: CheckId::PolicyMachines,
    stage: Stage::Policy,
    summary: "the machines that the policy declares off are off, and still excused",
    explain: "Runs with `machines` in a policy (`--policy`). A machine that is off on purpose is one warning here, with the reason and \
the end of the excuse; its other findings are skipped, and what ran on it is checked on the machines where it should run now.\n\n\
Only absence is excused: nothing may come from the machine's Talos API, its kubelet or its API server. A machine that answers is checked \
like any other, and warned about here. So is an entry that has expired, by the clock of this runner or of any API server, and a name \
that no source lists.\n\n\
A machine that is declared off counts as expected, and does not use up `--max-unready-workers`. The etcd member of a control plane that \
is off is lost all the same. Before an upgrade (stage 8) nothing is excused.",
    severity: Severity::Warn,
    finds: &[
        Reason::MachineOff,
        Reason::MachineNotOff,
        Reason::ExcuseExpired,
        Reason::ExcuseUnproven,
        Reason::NodeUnknown,
    ],
    facts: &[Fact::TalosNodes, Fact::KubeNodes, Fact::NodeLeases],
    judge: machines,
};

pub(super) const ACCEPT: Check = Check {
    id: CheckId::PolicyAccept,
    stage: Stage::Policy,
    summary: "every problem that the policy accepts exists, and may still be accepted",
    explain: "Runs with `accept` in a policy (`--policy`). A problem with the check, the reason and the target of an entry becomes a \
warning marked as accepted, which `--strict` and `--fail-on` leave alone.\n\n\
This check warns about entries that accept nothing: nothing matches, more problems match than `max`, or the time has passed, by the \
clock of this runner or of any API server. If no API server has reported its time, nothing is accepted.",
    severity: Severity::Warn,
    finds: &[Reason::ExcuseExpired, Reason::ExcuseUnproven, Reason::AcceptUnused, Reason::AcceptExceeded],
    facts: &[Fact::NodeLeases],
    judge: accept,
};

fn machines(cluster: &Assessment<'_>) -> Verdict {
    let declared = &cluster.asked.policy.machines;
    if declared.is_empty() {
        return Verdict::skipped("no policy declares machines off");
    }
    let mut verdict = Verdict::default();
    for entry in declared {
        of_machine(cluster, entry, &mut verdict);
    }
    verdict
}

fn of_machine(cluster: &Assessment<'_>, entry: &Declared, verdict: &mut Verdict) {
    let is_it = |node: &&Node| {
        let declaration = cluster.machine(node).declaration;
        declaration.is_some_and(|declaration| std::ptr::eq(declaration.entry, entry))
    };
    let Some(node) = cluster.nodes().iter().find(is_it) else {
        // Another entry may name the same machine.
        if !cluster.nodes().iter().any(|node| node.is_called(&entry.name)) {
            let problem = Problem { severity: Severity::Warn, ..stated::unknown(cluster, &entry.name) };
            verdict.problem(Target::new(Kind::Policy, format!("machine {}", entry.name)), problem);
        }
        return;
    };
    let machine = cluster.machine(node);
    let Some(declaration) = machine.declaration else { return };
    // The target is the entry and not the machine, so that causes of the machine's problems do not explain it.
    let own = Target::new(Kind::Policy, format!("machine {}", entry.name));
    if let Some(problem) = invalid(declaration.state, &entry.excuse) {
        verdict.problem(own, problem);
        return;
    }
    match declaration.presence {
        Presence::Off => {
            let mut problem = Problem::warn(Reason::MachineOff, "a machine that is on", "nothing comes from it");
            problem.accept(&entry.excuse);
            verdict.problem(node.target(), problem.permanent());
        }
        Presence::Answers(side) => {
            let who = match side {
                Side::TalosApi => "its Talos API answers, or something at its address refuses the connection",
                Side::Kubernetes => "its kubelet or its API server answers",
            };
            let observed = format!("{who}, so it is checked like any other");
            let problem = Problem::warn(Reason::MachineNotOff, "a machine that is off, as the policy says", observed);
            verdict.problem(own, problem.hint(Hint::run("{kubectl} get nodes -o wide", [])));
        }
        Presence::Unknown => {
            verdict.skip(node.target(), "it is unknown whether the machine is off, so it is checked like any other");
        }
    }
}

fn accept(cluster: &Assessment<'_>) -> Verdict {
    let accepted = &cluster.asked.policy.accept;
    if accepted.is_empty() {
        return Verdict::skipped("no policy accepts problems");
    }
    let mut verdict = Verdict::default();
    for entry in accepted {
        let target = Target::new(Kind::Policy, entry.name());
        match invalid(cluster.excuse_state(&entry.excuse), &entry.excuse) {
            Some(problem) => verdict.problem(target, problem),
            None => verdict.ok(target),
        }
    }
    verdict
}

/// Explains why an excuse does not count.
fn invalid(state: ExcuseState, excuse: &Excuse) -> Option<Problem> {
    let until = excuse.until;
    let unproven = |observed: String| {
        Problem::warn(Reason::ExcuseUnproven, format!("the time of an API server, before {until}"), observed)
    };
    match state {
        ExcuseState::Holds => None,
        ExcuseState::Expired => {
            let observed = format!("it ended at {until}, and has excused nothing since then ({})", excuse.because);
            Some(Problem::warn(Reason::ExcuseExpired, "an excuse that has not ended", observed).permanent())
        }
        ExcuseState::Unproven => {
            Some(unproven("no API server has reported its time, so nothing is excused".to_owned()))
        }
        ExcuseState::TooFar => {
            Some(unproven(format!("it ends at {until}, more than 90 days after the time of an API server")))
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use crate::assess::Assessment;
    use crate::checks::{Check, accept};
    use crate::model::{Excuse, Reason, Severity, Stage, Status, Verdict};
    use crate::snapshot::{Acceptance, Declared, Endpoint, Gap, GapKind, Policy, Snapshot};
    use crate::testing::fixture::{self, gap, healthy, now};

    fn excuse(until: Timestamp) -> Excuse {
        Excuse { because: "OPS-1".to_owned(), until, line: 7 }
    }

    fn for_a_day() -> Excuse {
        excuse(now() + SignedDuration::from_hours(24))
    }

    fn declared(snapshot: &mut Snapshot, name: &str, excuse: Excuse) {
        snapshot.asked.policy.machines.push(Declared { name: name.to_owned(), excuse });
    }

    fn judged(snapshot: &Snapshot) -> Vec<(&'static Check, Verdict)> {
        let mut verdicts = fixture::verdicts(snapshot);
        accept::apply(&Assessment::of(snapshot), &mut verdicts);
        verdicts.retain(|(check, _)| check.stage != Stage::Upgrade);
        verdicts
    }

    /// Returns all problems: check, target, reason and severity.
    fn said(snapshot: &Snapshot) -> Vec<String> {
        let mut said = Vec::new();
        for (check, verdict) in judged(snapshot) {
            for (target, problem) in verdict.problems() {
                let weight = problem.severity.status().name();
                said.push(format!("{} {} {} {weight}", check.id, target.name, problem.reason.code()));
            }
        }
        said
    }

    fn is_fine(snapshot: &Snapshot) -> bool {
        judged(snapshot).iter().all(|(_, verdict)| verdict.status().is_fine())
    }

    #[test]
    fn a_machine_that_is_off_on_purpose_is_one_warning() {
        let mut snapshot = healthy();
        snapshot.power_off("w-1");
        assert!(!is_fine(&snapshot));
        declared(&mut snapshot, "w-1", for_a_day());
        let about_it: Vec<String> = said(&snapshot).into_iter().filter(|line| line.contains("w-1")).collect();
        assert_eq!(about_it, ["policy.machines w-1 machine-off warn"]);
        assert!(is_fine(&snapshot), "{:?}", said(&snapshot));
        let address = snapshot.node("w-1").unwrap().address.clone();
        snapshot.asked.policy.machines[0].name = address;
        assert!(is_fine(&snapshot), "by its address, too");
    }

    #[test]
    fn before_an_upgrade_nothing_is_excused() {
        let mut snapshot = healthy();
        snapshot.power_off("w-1");
        declared(&mut snapshot, "w-1", for_a_day());
        let verdict = fixture::verdict("upgrade.extensions", &snapshot);
        assert_eq!(verdict.status(), Status::Blocked);
        let path = fixture::verdict("upgrade.talos.path", &snapshot);
        assert_eq!(path.status(), Status::Fail);
    }

    #[test]
    fn it_counts_as_expected_and_uses_up_no_allowance() {
        let mut snapshot = healthy();
        snapshot.power_off("w-1");
        declared(&mut snapshot, "w-1", for_a_day());
        snapshot.asked.expect_workers = Some(1);
        assert!(is_fine(&snapshot), "{:?}", said(&snapshot));
        snapshot.asked.expect_workers = Some(2);
        assert!(!is_fine(&snapshot));
    }

    #[test]
    fn the_member_of_a_control_plane_is_lost_all_the_same() {
        let mut snapshot = healthy();
        snapshot.power_off("cp-3");
        declared(&mut snapshot, "cp-3", for_a_day());
        let said = said(&snapshot);
        assert!(said.contains(&"policy.machines cp-3 machine-off warn".to_owned()), "{said:?}");
        assert!(said.contains(&"etcd.tolerance cluster no-tolerance fail".to_owned()), "{said:?}");
    }

    /// If one of five control planes is off, etcd can lose one more.
    #[test]
    fn one_control_plane_of_five_may_be_off() {
        let mut snapshot = fixture::Shape { control_planes: 5, ..fixture::Shape::default() }.world();
        snapshot.power_off("cp-5");
        declared(&mut snapshot, "cp-5", for_a_day());
        assert!(is_fine(&snapshot), "{:?}", said(&snapshot));
    }

    /// Returns a cluster whose cp-5 is declared off, with an endpoint at its address.
    fn with_endpoint_of_off(kind: GapKind) -> Snapshot {
        let mut snapshot = fixture::Shape { control_planes: 5, ..fixture::Shape::default() }.world();
        snapshot.power_off("cp-5");
        declared(&mut snapshot, "cp-5", for_a_day());
        let address = format!("{}:50000", snapshot.node("cp-5").unwrap().address);
        let endpoints = &mut snapshot.talos.as_mut().unwrap().endpoints;
        let dead = Endpoint { address, version: gap(kind), ..endpoints[0].clone() };
        endpoints.push(dead);
        snapshot
    }

    /// Its endpoint in the talosconfig and its removal are the same absence.
    #[test]
    fn the_endpoint_and_the_removal_of_a_machine_that_is_off_are_no_other_problems() {
        let snapshot = with_endpoint_of_off(GapKind::ConnectTimedOut);
        assert_eq!(said(&snapshot), ["policy.machines cp-5 machine-off warn"]);
        let leaving = off(for_a_day(), |it| it.node_mut("w-1").leaving = true);
        let about_it: Vec<_> = leaving.iter().filter(|line| line.contains("w-1")).collect();
        assert_eq!(about_it, ["policy.machines w-1 machine-off warn"]);
    }

    #[test]
    fn an_endpoint_at_which_something_answers_is_told_although_its_machine_is_off() {
        let snapshot = with_endpoint_of_off(GapKind::UnknownCa);
        assert!(said(&snapshot).iter().any(|line| line.starts_with("talos.endpoints")), "{:?}", said(&snapshot));
    }

    /// A usage error stays one.
    #[test]
    fn contradicting_options_are_no_absence() {
        let contradiction = off(for_a_day(), |it| {
            it.asked.nodes = vec!["w-1".to_owned()];
            it.asked.worker_nodes = vec!["w-2".to_owned()];
            it.nodes.iter_mut().filter(|node| node.name != "w-1").for_each(|node| node.out_of_scope = true);
        });
        let told = contradiction.iter().any(|line| line == "talos.nodes.expected w-1 nodes-contradict fail");
        assert!(told, "{contradiction:?}");
    }

    /// Kubernetes alone knows such a machine.
    #[test]
    fn a_machine_with_another_system_may_be_off() {
        let mut snapshot = fixture::Shape { workers: 2, foreign: 1, ..fixture::Shape::default() }.world();
        snapshot.power_off("x-1");
        assert!(said(&snapshot).iter().any(|line| line.contains("x-1")), "{:?}", said(&snapshot));
        declared(&mut snapshot, "x-1", for_a_day());
        assert_eq!(said(&snapshot), ["policy.machines x-1 machine-off warn"]);
    }

    /// Covers a wrong kubelet version in the Node, and discovery that shows two machines.
    #[test]
    fn only_absence_is_excused() {
        let version = off(for_a_day(), |it| {
            it.asked.expect_kubernetes = Some("1.35".to_owned());
            "v1.32.4".clone_into(&mut it.kube_node_mut("w-1").kubelet_version);
        });
        assert!(version.contains(&"k8s.controlplane.versions w-1 version-unexpected fail".to_owned()), "{version:?}");
        let identity = off(for_a_day(), |it| {
            "one".clone_into(&mut it.kube_node_mut("w-1").machine_id);
            it.node_mut("w-1").machine_id = Some("another".to_owned());
        });
        assert!(identity.contains(&"k8s.nodes.registered w-1 duplicate-name warn".to_owned()), "{identity:?}");
    }

    #[test]
    fn what_every_list_has_forgotten_still_counts_as_expected() {
        let mut snapshot = healthy();
        declared(&mut snapshot, "w-2", for_a_day());
        snapshot.asked.expect_workers = Some(2);
        assert_eq!(said(&snapshot), ["policy.machines machine w-2 node-unknown warn"]);
        snapshot.asked.expect_workers = Some(3);
        assert!(!is_fine(&snapshot));
        snapshot.asked.expect_workers = Some(1);
        snapshot.asked.expect_control_planes = Some(4);
        assert!(!is_fine(&snapshot), "no control plane");
    }

    /// Discovery forgets a machine within half an hour, but its Node remains.
    #[test]
    fn a_machine_that_discovery_has_forgotten_is_excused() {
        let forgotten = off(for_a_day(), |it| {
            let node = it.node_mut("w-1");
            (node.sources.discovery, node.sources.talosconfig) = (false, false);
        });
        assert_eq!(forgotten, ["policy.machines w-1 machine-off warn"]);
    }

    /// Returns the problems of a cluster in which w-1 is off, with further changes.
    fn off(excuse: Excuse, change: impl Fn(&mut Snapshot)) -> Vec<String> {
        let mut snapshot = healthy();
        snapshot.power_off("w-1");
        declared(&mut snapshot, "w-1", excuse);
        change(&mut snapshot);
        let said = said(&snapshot);
        assert_eq!(is_fine(&snapshot), said.iter().all(|line| line.ends_with(" warn")), "{said:?}");
        said
    }

    #[test]
    fn an_excuse_counts_only_as_long_as_every_clock_says() {
        let hour = SignedDuration::from_hours(1);
        let fails = |said: &[String]| said.contains(&"k8s.nodes.ready w-1 node-not-ready fail".to_owned());
        let own = |said: &[String]| said.iter().find(|line| line.starts_with("policy.")).cloned().unwrap_or_default();
        for (until, change, expected) in [
            (now() - hour, (|_| {}) as fn(&mut Snapshot), "policy.machines machine w-1 excuse-expired warn"),
            (now(), |_| {}, "policy.machines machine w-1 excuse-expired warn"),
            // The runner's clock is behind.
            (
                now() + hour,
                |it| {
                    let leases = it.kube().node_leases.as_mut().unwrap();
                    leases.last_date = Some(now() + SignedDuration::from_hours(2));
                },
                "policy.machines machine w-1 excuse-expired warn",
            ),
            // The runner's clock is ahead.
            (
                now() + hour,
                |it| it.taken = now() + SignedDuration::from_hours(2),
                "policy.machines machine w-1 excuse-expired warn",
            ),
            (now() + hour * 24 * 92, |_| {}, "policy.machines machine w-1 excuse-unproven warn"),
            (
                now() + hour,
                |it| {
                    it.kube().node_leases = Err(Gap::new(GapKind::Forbidden, "test"));
                    it.kube().system_leases = Err(Gap::new(GapKind::Forbidden, "test"));
                },
                "policy.machines machine w-1 excuse-unproven warn",
            ),
        ] {
            let said = off(excuse(until), change);
            assert_eq!(own(&said), expected, "{said:?}");
            assert!(fails(&said), "{said:?}");
        }
    }

    #[test]
    fn a_machine_that_answers_is_judged() {
        for change in [
            (|it: &mut Snapshot| it.talos_of("w-1").contact = healthy().talos_of("w-1").contact.clone())
                as fn(&mut Snapshot),
            |it| {
                it.talos_of("w-1").contact =
                    Err(Gap::new(GapKind::NodeUnreachable, "dial tcp 10.0.0.4:50000: connect: connection refused"));
            },
            |it| it.talos_of("w-1").contact = Err(Gap::new(GapKind::Maintenance, "test")),
            |it| {
                let leases = it.kube().node_leases.as_mut().unwrap();
                leases.by_name.get_mut("w-1").unwrap().renewed = Some(now());
            },
        ] {
            let said = off(for_a_day(), change);
            assert!(said.contains(&"policy.machines machine w-1 machine-not-off warn".to_owned()), "{said:?}");
            assert!(said.iter().any(|line| line.ends_with(" fail")), "{said:?}");
        }
        // An entry for a healthy machine is reported, too.
        let mut snapshot = healthy();
        declared(&mut snapshot, "w-1", for_a_day());
        assert_eq!(said(&snapshot), ["policy.machines machine w-1 machine-not-off warn"]);
    }

    #[test]
    fn what_is_not_known_to_be_off_is_not_excused() {
        for change in [
            (|it: &mut Snapshot| it.talos_of("w-1").contact = Err(Gap::new(GapKind::NoForwarding, "test")))
                as fn(&mut Snapshot),
            |it| it.kube().nodes = Err(Gap::new(GapKind::TimedOut, "test")),
            |it| it.kube().node_leases = Err(Gap::new(GapKind::TimedOut, "test")),
        ] {
            let said = off(for_a_day(), change);
            assert!(!said.iter().any(|line| line.contains("machine-off")), "{said:?}");
            assert!(said.iter().any(|line| line.ends_with(" fail") || line.ends_with(" error")), "{said:?}");
        }
    }

    #[test]
    fn a_name_that_nobody_lists_is_a_warning() {
        let mut snapshot = healthy();
        declared(&mut snapshot, "w-77", for_a_day());
        assert_eq!(said(&snapshot), ["policy.machines machine w-77 node-unknown warn"]);
    }

    fn accepted(target: &str, max: usize, excuse: Excuse) -> Acceptance {
        let (check, reason) = ("k8s.nodes.schedulable".into(), Reason::Cordoned);
        Acceptance { check, reason, target: target.to_owned(), max, excuse }
    }

    /// Returns the problems of a cluster in which these machines are cordoned.
    fn cordoned(names: &[&str], accept: &[Acceptance]) -> Vec<String> {
        let mut snapshot = healthy();
        for name in names {
            snapshot.kube_node_mut(name).unschedulable = true;
        }
        snapshot.asked.policy = Policy { accept: accept.to_vec(), ..Policy::default() }.into();
        said(&snapshot)
    }

    #[test]
    fn an_accepted_problem_is_a_warning_that_says_so() {
        let mut snapshot = healthy();
        snapshot.kube_node_mut("w-1").unschedulable = true;
        snapshot.asked.policy.accept.push(accepted("w-1", 1, for_a_day()));
        let verdicts = judged(&snapshot);
        let (_, verdict) = verdicts.iter().find(|(check, _)| check.id.name() == "k8s.nodes.schedulable").unwrap();
        let (_, problem) = verdict.problems().find(|(target, _)| target.name == "w-1").unwrap();
        assert_eq!(problem.severity, Severity::Warn);
        assert_eq!(problem.accepted.as_deref(), Some(&for_a_day()));
        let (_, own) = verdicts.iter().find(|(check, _)| check.id.name() == "policy.accept").unwrap();
        assert_eq!(own.status(), Status::Pass);
    }

    #[test]
    fn more_than_are_accepted_are_none() {
        let of = |names: &[&str], target: &str, max| {
            let own = |line: &String| line.starts_with("policy.accept");
            cordoned(names, &[accepted(target, max, for_a_day())]).into_iter().find(own)
        };
        assert_eq!(of(&["w-1"], "w-*", 1), None);
        assert_eq!(of(&["cp-1", "w-1"], "*", 2), None);
        let own = |target: &str, code: &str| {
            Some(format!("policy.accept k8s.nodes.schedulable cordoned {target} {code} warn"))
        };
        assert_eq!(of(&["cp-1", "w-1"], "*", 1), own("*", "accept-exceeded"));
        assert_eq!(of(&["cp-1"], "w-1", 1), own("w-1", "accept-unused"));
        assert_eq!(of(&[], "w-1", 1), own("w-1", "accept-unused"));
        let ended = cordoned(&["w-1"], &[accepted("w-1", 1, excuse(now()))]);
        assert!(ended.contains(&own("w-1", "excuse-expired").unwrap()), "{ended:?}");
    }

    #[test]
    fn what_could_not_be_determined_is_not_accepted() {
        let mut snapshot = healthy();
        snapshot.kube().nodes = Err(Gap::new(GapKind::TimedOut, "test"));
        let before = said(&snapshot);
        snapshot.asked.policy.accept.push(accepted("*", 100, for_a_day()));
        assert_eq!(said(&snapshot), before, "and nobody says that it is unused");
    }
}
