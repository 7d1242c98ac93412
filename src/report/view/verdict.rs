//! The verdict in words, and its limitations.

use std::collections::BTreeSet;

use super::style::{Paint, TextStyle, paint};
use super::wording::{count, wrap};
use crate::model::{CheckId, Exit, Outcome, Status};
use crate::report::{PolicyFile, Readiness, Report, RunResult, Selection, Sources};
use crate::snapshot::Upgrade;
use crate::text::duration::human;
use crate::text::sanitize::{brief, clean};
use crate::text::{joined, some};

/// Returns the line that people grep for: `unhealthy: prod (10.0.0.10:6443), 2026-11-26 21:10 UTC, cluster-health 0.2.0: 9 failed, …`. Once
/// archived, it documents which cluster was judged, when, and by which version.
pub(crate) fn line(report: &Report, style: &TextStyle) -> String {
    headline(report, style, &format!("{}: ", identity(report)))
}

/// Returns the line without cluster, time and program, for places that show these separately.
pub(crate) fn short(report: &Report, style: &TextStyle) -> String {
    headline(report, style, "")
}

/// Returns the result, and whether an upgrade or a drain can begin, if one is planned. The plan of an upgrade shows that in its own words.
pub(crate) fn word(report: &Report) -> String {
    let result = report.result.name();
    let readiness = report.upgrade_readiness().filter(|_| report.rollout.is_none());
    let Upgrade { talos, kubernetes, drain, .. } = &report.asked;
    let machine = drain.as_deref().map(|machine| brief(&clean(machine), MACHINE));
    let versions = [("Talos", talos), ("Kubernetes", kubernetes)].into_iter();
    let versions = versions.filter_map(|(name, version)| Some(format!("{name} v{}", clean(version.as_deref()?))));
    let versions: Vec<String> = versions.collect();
    let versions = (!versions.is_empty()).then(|| versions.join(" and "));
    let all = |parts: [Option<String>; 2]| parts.into_iter().flatten().collect::<Vec<_>>().join(" and ");
    match readiness {
        Some(Readiness::Ready) if machine.is_some() || versions.is_some() => {
            let can = [
                machine.map(|machine| format!("{machine} can be drained")),
                versions.map(|versions| format!("it can be upgraded to {versions}")),
            ];
            format!("{result}, ready: {}", all(can))
        }
        Some(Readiness::Blocked) if report.is_healthy_but_not_ready() => {
            let aims = [
                machine.map(|machine| format!("to drain {machine}")),
                versions.map(|versions| format!("for the upgrade to {versions}")),
            ];
            format!("healthy, not ready {}", all(aims))
        }
        Some(Readiness::Ready | Readiness::Blocked | Readiness::Undetermined) | None => result.to_owned(),
    }
}

/// Maximum length of a machine's name in the verdict, in characters.
const MACHINE: usize = 63;

/// Returns cluster, time and program: `prod (10.0.0.10:6443), 2026-11-26 21:10 UTC, cluster-health 0.2.0`.
pub(crate) fn identity(report: &Report) -> String {
    let at = report.finished_at.strftime("%Y-%m-%d %H:%M UTC");
    let cluster = cluster(&report.sources).map(|cluster| format!("{cluster}, ")).unwrap_or_default();
    format!("{cluster}{at}, cluster-health {}", clean(&report.tool.version))
}

/// Returns the user's name for the cluster, and the server that was queried; `None`: no file names either.
fn cluster(sources: &Sources) -> Option<String> {
    match (sources.name().map(clean), sources.asked().map(clean)) {
        (Some(name), Some(server)) => Some(format!("{name} ({server})")),
        (name, server) => name.or(server),
    }
}

/// Returns the verdict line. `identity` comes before the figures and includes its colon.
fn headline(report: &Report, style: &TextStyle, identity: &str) -> String {
    let color = match report.result {
        RunResult::Healthy => Paint::Good,
        RunResult::Interrupted => Paint::Caution,
        RunResult::Unhealthy | RunResult::Undetermined | RunResult::Error => Paint::Bad,
    };
    let word = paint(style.color, color, &word(report));
    let took = human(report.took);
    let rounds = count(report.rounds as usize, "round");
    let judged = report.is_judged();
    let tally = tally(report);
    let scope = report.targeted.map(|(some, all)| format!(" (targeted: {some} of {all} nodes)")).unwrap_or_default();
    let deadline = match report.wait_timeout {
        Some(limit) if report.deadline_reached && report.took < limit => {
            format!(", no time for another round before the deadline of {}", human(limit))
        }
        Some(limit) if report.deadline_reached && report.cut_off => {
            format!(", deadline of {} reached in a later round that did not end", human(limit))
        }
        Some(limit) if report.deadline_reached => format!(", deadline of {} reached", human(limit)),
        _ => String::new(),
    };
    match report.result {
        RunResult::Interrupted => {
            let signal = match report.exit {
                Exit::Hangup => "SIGHUP",
                Exit::Terminated => "SIGTERM",
                _ => "SIGINT",
            };
            let seen =
                if judged { format!("last complete round: {tally}") } else { "no round was completed".to_owned() };
            format!("{word} ({signal}): {identity}after {took} ({rounds}), {seen}")
        }
        RunResult::Error if !judged => {
            let because = report.error.as_deref().map_or_else(|| report.exit.meaning().to_owned(), clean);
            format!("{word}: {because}")
        }
        RunResult::Undetermined if !judged => {
            let limit = report.wait_timeout.filter(|_| report.deadline_reached);
            match limit {
                Some(limit) => {
                    format!("{word}: {identity}no round was completed before the deadline of {}", human(limit))
                }
                None => format!("{word}: {identity}no round was completed in {took}"),
            }
        }
        RunResult::Healthy => format!("{word}{scope}: {identity}{tally} in {took} ({rounds}){deadline}"),
        _ => {
            let code = report.exit.code();
            format!("{word}{scope}: {identity}{tally} in {took} ({rounds}){deadline}, exit code {code}")
        }
    }
}

/// Words for the outcomes of checks, from worst to best.
pub(crate) const DONE: [(Status, &str); 6] = [
    (Status::Fail, "failed"),
    (Status::Error, "undetermined"),
    (Status::Blocked, "blocked"),
    (Status::Warn, "warned"),
    (Status::Pass, "passed"),
    (Status::Skip, "skipped"),
];

/// Returns `3 failed, 5 blocked, 1 warned, 29 passed (1 excused)`, from worst to best.
pub(crate) fn tally(report: &Report) -> String {
    let parts = counted(|status| report.count(status));
    match report.accepted() {
        _ if parts.is_empty() => "no checks".to_owned(),
        0 => parts,
        accepted => format!("{parts} ({accepted} excused)"),
    }
}

/// Returns `1 failed, 8 passed`, from worst to best.
pub(crate) fn counted(count: impl Fn(Status) -> usize) -> String {
    let counts = DONE.map(|(status, word)| (count(status), word));
    joined(counts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")))
}

pub(crate) fn notes(report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
    for (name, items) in remarks(report) {
        let lead = format!("{name}: ");
        match name {
            // These are sentences, each on a line of its own.
            UNSEEN => lines.extend(items.iter().map(|item| format!("{lead}{item}"))),
            HINT => lines.extend(items.iter().map(|item| paint(style.color, Paint::Hint, &format!("{lead}{item}")))),
            _ => lines.extend(wrap(&lead, items, style.columns())),
        }
    }
}

const UNSEEN: &str = "not checked";
const HINT: &str = "hint";

/// Number of checks that are named.
const NAMED: usize = 3;
/// Maximum length of the finding of one of them, in characters.
const LONGEST: usize = 200;

/// Returns the meaning of the exit code, and what interrupted the stability period of a cluster that did not stay healthy.
pub(crate) fn because(report: &Report) -> String {
    let Some(wanted) = report.stable_for.filter(|_| report.exit == Exit::Deadline).map(human) else {
        return report.exit.meaning().to_owned();
    };
    match report.history.last_break() {
        Some((at, checks)) => {
            let found = report.history.found(checks, at).map(|found| format!("; {}", brief(&clean(found), LONGEST)));
            format!(
                "not healthy for {wanted} in a row; the stability period last started over at {}: {}{}",
                human(at),
                some(checks.iter(), NAMED),
                found.unwrap_or_default()
            )
        }
        None => format!("not healthy for {wanted} in a row; it became healthy too late for that"),
    }
}

/// Returns why a run is undetermined although `--warn-only` or a policy has turned its problem into a warning: checks that need the relaxed
/// one are still blocked.
fn relaxed_blockers(report: &Report) -> Option<String> {
    let who = if report.is_relaxed() { "`--warn-only`" } else { "the policy" };
    if !(report.is_relaxed() || report.accepted() > 0) || report.exit != Exit::Undetermined {
        return None;
    }
    let is_warned = |id: &CheckId| report.checks.iter().any(|it| it.check.id == *id && it.status == Some(Status::Warn));
    let blocked = report.checks.iter().flat_map(|check| &check.findings).filter_map(|finding| match finding.outcome {
        Outcome::Blocked(by) => Some(by),
        _ => None,
    });
    let blockers: BTreeSet<CheckId> = blocked.filter(is_warned).collect();
    let names = joined(blockers.iter().map(|id| id.name()));
    let said = format!("{who} makes a failure a warning, but the checks that it blocks still have no result");
    (!blockers.is_empty()).then(|| format!("nothing is known behind {names}: {said}"))
}

/// Number of policy entries that are shown of those that weaken the verdict.
const ENTRIES: usize = 3;

fn weakened(report: &Report) -> Vec<String> {
    let (of_policy, options): (Vec<_>, Vec<_>) = report.weakened.iter().partition(|weak| weak.is_of_policy());
    let shown = options.into_iter().chain(of_policy.iter().copied().take(ENTRIES));
    let mut shown: Vec<String> =
        shown.map(|it| format!("{} ({})", clean(&it.option), clean(&it.origin.to_string()))).collect();
    if of_policy.len() > ENTRIES {
        shown.push(format!("{} more of the policy", of_policy.len() - ENTRIES));
    }
    shown
}

/// Returns `policy.yaml (SHA-256 1f2e3d4c5b6a…), 2 excuses`.
fn of_policy(report: &Report, policy: &PolicyFile) -> String {
    let digest = policy.sha256.get(..12).unwrap_or_default();
    format!("{} (SHA-256 {digest}…), {}", clean(&policy.path), count(report.accepted(), "excuse"))
}

/// Returns what the verdict leaves out, and what weakens it: a name, and one or more items.
pub(crate) fn remarks(report: &Report) -> Vec<(&'static str, Vec<String>)> {
    let judged = report.is_judged();
    let mut remarks = Vec::new();
    if let Some(error) = report.error.as_deref().filter(|_| judged || report.result != RunResult::Error) {
        remarks.push(("because", vec![clean(error)]));
    } else if judged && matches!(report.exit, Exit::Deadline | Exit::NothingChecked | Exit::Internal) {
        remarks.push(("because", vec![because(report)]));
    } else if let Some(relaxed) = relaxed_blockers(report) {
        remarks.push(("because", vec![relaxed]));
    }
    remarks.extend(report.hint.as_deref().map(|hint| (HINT, vec![clean(hint)])));
    if judged || report.result != RunResult::Error {
        remarks.push(("weakened by", weakened(report)));
    }
    remarks.extend(report.policy.as_ref().map(|policy| ("policy", vec![of_policy(report, policy)])));
    if judged {
        let needed = report.checks.iter().filter(|check| check.selection == Selection::Prerequisite);
        remarks.push(("also run, as prerequisites", needed.map(|check| check.check.id.to_string()).collect()));
        remarks.push((UNSEEN, by_reason(&report.not_observed)));
    }
    remarks.retain(|(_, items)| !items.is_empty());
    remarks
}

/// Combines checks that are not judged for the same reason.
fn by_reason(not_observed: &[String]) -> Vec<String> {
    let mut groups: Vec<(Vec<&str>, &str)> = Vec::new();
    for what in not_observed {
        let (check, why) = what.split_once(": ").unwrap_or(("", what));
        match groups.iter_mut().find(|(_, known)| *known == why) {
            Some((checks, _)) => checks.push(check),
            None => groups.push((vec![check], why)),
        }
    }
    let line = |(checks, why): (Vec<&str>, &str)| match checks.as_slice() {
        [""] => clean(why),
        checks => clean(&format!("{}: {why}", checks.join(", "))),
    };
    groups.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{CheckId, Verdict};
    use crate::report::history::Happened;
    use crate::report::{Origin, Weakening, fixture};

    #[test]
    fn a_relaxed_check_that_still_stands_in_the_way_is_named() {
        let mut report = fixture::healthy();
        let find = |report: &Report, id| report.checks.iter().position(|it| it.check.id == id).unwrap();
        let (relaxed, blocked) = (find(&report, CheckId::TalosNodesReachable), find(&report, CheckId::EtcdQuorum));
        report.checks[relaxed].status = Some(Status::Warn);
        report.checks[blocked].findings = Verdict::whole(Outcome::Blocked(CheckId::TalosNodesReachable)).findings;
        (report.exit, report.result) = (Exit::Undetermined, RunResult::Undetermined);
        let said = |report: &Report| relaxed_blockers(report).unwrap_or_default();
        assert_eq!(said(&report), "");
        let option = "--warn-only talos.nodes.reachable".to_owned();
        report.weakened = vec![Weakening { option, origin: Origin::Flag }];
        assert!(
            said(&report).starts_with("nothing is known behind talos.nodes.reachable: `--warn-only`"),
            "{}",
            said(&report)
        );
        report.checks[relaxed].status = Some(Status::Error);
        assert_eq!(said(&report), "");
    }

    #[test]
    fn what_broke_the_stability_period_is_told() {
        let mut report = fixture::healthy();
        (report.exit, report.stable_for) = (Exit::Deadline, Some(Duration::from_secs(30)));
        let said = |report: &Report| remarks(report)[0].1.concat();
        assert_eq!(said(&report), "not healthy for 30s in a row; it became healthy too late for that");
        for (at, check) in [(20, CheckId::EtcdQuorum), (42, CheckId::K8sDns)] {
            report.happened(Duration::from_secs(at), Happened::StabilityLost(vec![check]));
        }
        let expected = "not healthy for 30s in a row; the stability period last started over at 42s: k8s.dns";
        assert_eq!(said(&report), expected);
    }
}
