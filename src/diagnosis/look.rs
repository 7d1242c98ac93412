//! Missing answers behind undetermined problems, and commands that show them.

use std::collections::HashMap;

use crate::checks::Check;
use crate::model::{Hint, Outcome, Problem, Severity, Target, Verdict};
use crate::snapshot::{GapKind, Missing, Snapshot, Source};

/// The missing answers of one check's facts, by machine and by the words in which their problems report them.
pub(super) struct Answers<'a>(HashMap<(Option<&'a str>, &'a str), Vec<Missing<'a>>>);

impl<'a> Answers<'a> {
    pub(super) fn of(snapshot: &'a Snapshot, check: &Check) -> Self {
        let mut answers: HashMap<_, Vec<_>> = HashMap::new();
        for missing in check.facts.iter().flat_map(|fact| snapshot.missing(*fact)) {
            let whose = match missing.by {
                Source::Machine(node) => Some(node.name.as_str()),
                Source::Etcd(address) => Some(address),
                Source::Discovery | Source::Server(_) | Source::ApiServer(_) | Source::Kubernetes => None,
            };
            answers.entry((whose, &*missing.gap.text)).or_default().push(missing);
        }
        Self(answers)
    }

    /// Returns the server that did not give the answer that the problem lacks, or the name of the answer if it belongs to no machine. Talos
    /// forwards some calls to etcd, which may hang while Talos itself answers.
    pub(super) fn silent_server(&self, target: &Target, problem: &Problem) -> Option<&'a str> {
        let missing = self.in_these_words(target, problem).next()?;
        Some(match missing.by {
            Source::Machine(_) if !missing.what.starts_with("Etcd") => "Talos",
            Source::Machine(_) | Source::Etcd(_) => "etcd",
            Source::Discovery | Source::Server(_) | Source::ApiServer(_) | Source::Kubernetes => missing.what,
        })
    }

    /// Returns the answers that the problem lacks.
    fn in_these_words<'m>(&'m self, target: &'m Target, problem: &'m Problem) -> impl Iterator<Item = &'m Missing<'a>> {
        let of = |whose| self.0.get(&(whose, problem.observed.as_str())).into_iter().flatten();
        let all = of(Some(target.name.as_str())).chain(of(None));
        all.filter(|_| problem.severity == Severity::Error)
    }
}

/// Adds a command to each undetermined problem that has none, if it reports a missing answer.
pub(crate) fn propose(snapshot: &Snapshot, verdicts: &mut [(&'static Check, Verdict)]) {
    for (check, verdict) in verdicts {
        if !verdict.problems().any(|(_, problem)| has_no_command(problem)) {
            continue;
        }
        let answers = Answers::of(snapshot, check);
        for finding in &mut *verdict.findings {
            let Outcome::Problem(problem) = &mut finding.outcome else { continue };
            if !has_no_command(problem) {
                continue;
            }
            // If several answers are missing in the same words, any of them shows it.
            let shown = answers.in_these_words(&finding.target, problem).find_map(look);
            if let Some(look) = shown {
                problem.hints.retain(|hint| matches!(hint, Hint::Likely(_)));
                problem.hints.push(look);
            }
        }
    }
}

fn has_no_command(problem: &Problem) -> bool {
    problem.severity == Severity::Error && problem.hints.iter().all(shows_no_answer)
}

/// Returns whether the hint is no command, or one that only shows whether the machine answers at all.
fn shows_no_answer(hint: &Hint) -> bool {
    matches!(hint, Hint::Likely(_) | Hint::Try { command: "{talosctl} -n {} version", .. })
}

/// Returns a command that asks for the answer, or, where it would hang, one that shows the state of the service that should give it.
fn look(missing: &Missing<'_>) -> Option<Hint> {
    use GapKind::{Broken, Malformed, NodeUnreachable, ServerError, TimedOut, TooLarge};
    let hangs = missing.gap.kind == TimedOut;
    if !hangs && !matches!(missing.gap.kind, Broken | Malformed | NodeUnreachable | ServerError | TooLarge) {
        return None;
    }
    match missing.by {
        Source::Machine(node) => of_talos(missing.what, hangs, &node.address),
        Source::Kubernetes => of_kubernetes(missing.what),
        Source::Etcd(_) => match missing.what {
            "Status" => Some(Hint::run("{etcdctl} endpoint status", [])),
            "MemberList" => Some(Hint::run("{etcdctl} member list", [])),
            "Alarm" => Some(Hint::run("{etcdctl} alarm list", [])),
            _ => None,
        },
        Source::Discovery | Source::Server(_) | Source::ApiServer(_) => None,
    }
}

fn of_talos(what: &str, hangs: bool, address: &str) -> Option<Hint> {
    let command = match what {
        "ServiceList" if hangs => return None,
        _ if hangs && what.starts_with("Etcd") => "{talosctl} -n {} service etcd",
        _ if hangs => "{talosctl} -n {} services",
        "ServiceList" => "{talosctl} -n {} services",
        "EtcdStatus" => "{talosctl} -n {} etcd status",
        "EtcdMemberList" => "{talosctl} -n {} etcd members",
        "EtcdAlarmList" => "{talosctl} -n {} etcd alarm list",
        "Memory" => "{talosctl} -n {} memory",
        "Mounts" => "{talosctl} -n {} mounts",
        "Logs (machined)" => "{talosctl} -n {} logs machined",
        "List /var/lib/etcd" => "{talosctl} -n {} list /var/lib/etcd",
        // A type of resource.
        _ if what.bytes().all(|byte| byte.is_ascii_alphabetic()) => {
            return Some(Hint::run("{talosctl} -n {} get {}", [address, &what.to_ascii_lowercase()]));
        }
        _ => return None,
    };
    Some(Hint::run(command, [address]))
}

fn of_kubernetes(what: &str) -> Option<Hint> {
    const ALL: &str = "{kubectl} --request-timeout 10s get {} -A";
    match what.split_once(" (") {
        Some((kind, "kube-system)" | "kube-node-lease)" | "default)")) => {
            let namespace = what.split_once('(')?.1.trim_end_matches(')');
            Some(Hint::run("{kubectl} --request-timeout 10s -n {} get {}", [namespace, kind]))
        }
        Some((kind, _)) => Some(Hint::run(ALL, [kind])),
        None if what == "GET /version" => Some(Hint::run("{kubectl} --request-timeout 10s get --raw /version", [])),
        None if what == "nodes" => Some(Hint::run("{kubectl} --request-timeout 10s get nodes", [])),
        None if what.bytes().all(|byte| byte.is_ascii_lowercase()) => Some(Hint::run(ALL, [what])),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::Assessment;
    use crate::checks;
    use crate::model::CheckId;
    use crate::testing::fixture::{gap, healthy};

    fn commands(id: CheckId, change: fn(&mut Snapshot)) -> Vec<Hint> {
        let mut snapshot = healthy();
        change(&mut snapshot);
        let check = checks::ALL.iter().copied().find(|check| check.id == id).unwrap();
        let mut verdicts = vec![(check, (check.judge)(&Assessment::of(&snapshot)))];
        propose(&snapshot, &mut verdicts);
        let hints = verdicts[0].1.problems().flat_map(|(_, problem)| problem.hints.clone());
        hints.filter(|hint| !matches!(hint, Hint::Likely(_))).collect()
    }

    #[test]
    fn the_answer_itself_is_shown_or_who_should_give_it() {
        let seen = commands(CheckId::EtcdLeader, |snapshot| {
            snapshot.talos_of("cp-3").etcd_status = gap(GapKind::ServerError);
        });
        assert_eq!(seen, [Hint::run("{talosctl} -n {} etcd status", ["10.0.0.3"])]);
        let seen = commands(CheckId::EtcdLeader, |snapshot| {
            snapshot.talos_of("cp-3").etcd_status = gap(GapKind::TimedOut);
        });
        assert_eq!(seen, [Hint::run("{talosctl} -n {} service etcd", ["10.0.0.3"])]);
        let seen = commands(CheckId::K8sDns, |snapshot| snapshot.kube().deployments = gap(GapKind::Malformed));
        assert_eq!(seen, [Hint::run("{kubectl} --request-timeout 10s get {} -A", ["deployments"])]);
        let seen = commands(CheckId::K8sNodesReady, |snapshot| snapshot.kube().node_leases = gap(GapKind::Malformed));
        let leases = Hint::run("{kubectl} --request-timeout 10s -n {} get {}", ["kube-node-lease", "leases"]);
        assert!(seen.iter().all(|hint| *hint == leases) && !seen.is_empty(), "{seen:?}");
    }

    /// A refusal is explained by rights, and an answer that the run has not asked for by the options.
    #[test]
    fn a_refused_answer_is_not_asked_for_again() {
        let seen = commands(CheckId::K8sDns, |snapshot| snapshot.kube().deployments = gap(GapKind::Forbidden));
        assert!(
            !seen.iter().any(|hint| matches!(hint, Hint::Try { command, .. } if command.contains(" -A"))),
            "{seen:?}"
        );
    }
}
