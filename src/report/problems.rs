//! The end of the text report: one block for each cause, the most important one last.
//!
//! On call, one looks at the last ten lines of a log. So warnings come first, then what could not be determined, then the
//! failures; and among these the catalogue's order, from cause to symptom, is turned round: the very last block is the
//! failure that the others are most likely to follow from. What only repeats a failure is one line of that failure's block,
//! and so are the checks that it blocked. What a diagnosis explains is left to it.

use std::collections::BTreeSet;

use super::hints::{self, Rendered};
use super::sanitise::clean;
use super::style::{Paint, paint};
use super::text::{TextStyle, count, is_unjudged, of_severity, shown, wrap};
use super::{CheckReport, Report, diagnoses};
use crate::checks::{Kind, Outcome, Problem, Reason, Severity, Status, Target};
use crate::diagnosis::Diagnosis;
use crate::duration::human;

/// Commands of one kind that differ only in their arguments: so many are shown.
const COMMANDS: usize = 3;

/// All problems of one check that have the same reason and severity.
struct Block<'a> {
    check: &'a CheckReport,
    reason: Reason,
    severity: Severity,
    problems: Vec<(&'a Target, &'a Problem)>,
}

pub(super) fn write(report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
    let mut blocks = Vec::new();
    for severity in [Severity::Warn, Severity::Error, Severity::Fail] {
        for check in report.checks.iter().rev() {
            blocks_of(check, severity, Some(report), &mut blocks);
        }
    }
    // A symptom whose cause has no block of its own stands before those that nothing explains: the end is for causes.
    let is_symptom = |block: &Block<'_>| block.problems.iter().all(|(_, problem)| problem.explained_by.is_some());
    blocks.sort_by_key(|block| (block.severity, !is_symptom(block)));
    unjudged(report, style, lines);
    for block in &blocks {
        lines.push(String::new());
        block.write(report, style, lines);
    }
}

/// Checks of which nothing is known are as bad as those that could not be determined, and are named.
fn unjudged(report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
    let all = report.checks.iter().filter(|check| is_unjudged(check)).count();
    let none_judged = report.checks.iter().all(|check| check.status.is_none());
    if all > 0 && !none_judged {
        let ids =
            report.checks.iter().filter(|check| is_unjudged(check)).map(|check| check.check.id.to_owned()).collect();
        lines.push(String::new());
        lines.extend(wrap("not judged: ", ids, style.columns()));
    }
    for check in &report.checks {
        if check.status == Some(Status::Error) && check.findings.is_empty() {
            lines.push(String::new());
            lines.push(format!("{}  said nothing, which is not a pass", check.check.id));
        }
    }
}

/// All that is to say of one check alone, in full, for formats that show each check by itself.
pub(super) fn body(check: &CheckReport, report: &Report) -> String {
    let style = TextStyle::default();
    let mut blocks = Vec::new();
    for severity in [Severity::Fail, Severity::Error, Severity::Warn] {
        blocks_of(check, severity, None, &mut blocks);
    }
    let mut lines = Vec::new();
    for diagnosis in of_check(check, report) {
        lines.push(format!("because   {} (cluster-health explain {})", clean(&diagnosis.headline), diagnosis.id));
    }
    for block in &blocks {
        block.write(report, &style, &mut lines);
        for (_, problem) in &block.problems {
            if let Some(cause) = problem.explained_by {
                lines.push(field("see", cause));
                break;
            }
        }
    }
    lines.join("\n")
}

/// The diagnoses that explain problems of this check.
pub(super) fn of_check<'a>(check: &CheckReport, report: &'a Report) -> impl Iterator<Item = &'a Diagnosis> {
    let id = check.check.id;
    report.diagnoses.iter().filter(move |it| it.explains.iter().any(|explained| explained.check == id))
}

/// With the report, problems that another check explains are left to that check's block, and those that a diagnosis explains
/// to the diagnosis.
fn blocks_of<'a>(check: &'a CheckReport, severity: Severity, report: Option<&Report>, blocks: &mut Vec<Block<'a>>) {
    let first = blocks.len();
    for (target, problem) in of_severity(&check.findings, severity) {
        let is_diagnosed = |report| diagnoses::of(report, check.check.id, target, problem).is_some();
        if report.is_some_and(is_diagnosed) {
            continue;
        }
        let carrier = |cause| report.and_then(|report| root(report, cause, target));
        if problem.explained_by.and_then(carrier).is_some_and(|root| root != check.check.id) {
            continue;
        }
        match blocks[first..].iter_mut().find(|block| block.reason == problem.reason) {
            Some(block) => block.problems.push((target, problem)),
            None => blocks.push(Block { check, reason: problem.reason, severity, problems: vec![(target, problem)] }),
        }
    }
}

/// The check at the end of the chain of explanations of a problem with this target, if that check has a block of its own that
/// can carry what it explains. (A proxy pod is down because its node is not ready, and that because its kubelet crashes.)
pub(super) fn root(report: &Report, cause: &'static str, target: &Target) -> Option<&'static str> {
    let mut cause = cause;
    for _ in 0..report.checks.len() {
        let check = report.checks.iter().find(|check| check.check.id == cause)?;
        let problems = || {
            check.findings.iter().filter_map(|finding| match &finding.outcome {
                Outcome::Problem(problem) => Some((&finding.target, problem)),
                _ => None,
            })
        };
        let same = problems().find(|(other, _)| *other == target);
        let own = problems().find(|(_, problem)| problem.explained_by.is_none());
        match same.or(own).or_else(|| problems().next())?.1.explained_by {
            None => return Some(cause),
            Some(next) => cause = next,
        }
    }
    None
}

impl Block<'_> {
    fn write(&self, report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
        lines.push(self.heading(report, style));
        self.targets(style, lines);
        let hints: Vec<_> = self.hints(report);
        for kind in ["likely", "try", "remedy"] {
            hint_lines(kind, hints.iter().filter(|hint| hint.kind == kind), lines);
        }
        if self.problems.iter().all(|(_, problem)| !problem.waiting_helps) && self.severity != Severity::Warn {
            lines.push(field("note", "waiting will not change it"));
        }
        if self.carries(report) {
            self.consequences(report, style, lines);
        }
        lines.push(field("more", &format!("cluster-health explain {}", self.reason.code())));
    }

    fn heading(&self, report: &Report, style: &TextStyle) -> String {
        let (word, colour) = match self.severity {
            Severity::Fail => ("failed", Paint::Bad),
            Severity::Error => ("could not be determined", Paint::Bad),
            Severity::Warn => ("warned", Paint::Caution),
        };
        let rounds = match self.check.bad_rounds {
            0 => String::new(),
            n => format!(" ({})", count(n as usize, "round")),
        };
        let since = match self.check.since {
            Some(since) if self.check.bad_rounds > 1 => format!(" for {}", human(report.took.saturating_sub(since))),
            _ => String::new(),
        };
        let flapped = if self.check.flapped { ", passed before" } else { "" };
        format!("{}  {}{since}{rounds}{flapped}", self.check.check.id, paint(style.colour, colour, word))
    }

    /// Who, what should be, what is. What is the same for all is said once; nobody is left out.
    fn targets(&self, style: &TextStyle, lines: &mut Vec<String>) {
        let (first, problem) = self.problems[0];
        let label = label(first.kind, self.problems.len() > 1);
        let alike = self.problems.iter().all(|(_, other)| other.observed == problem.observed);
        let same_expectation = self.problems.iter().all(|(_, other)| other.expected == problem.expected);
        let expected = clean(&problem.expected);
        let observed = clean(&problem.observed);
        if alike && same_expectation {
            if self.problems.iter().any(|(target, _)| target.kind != Kind::Cluster) {
                let names = self.problems.iter().map(|(target, _)| named(target)).collect();
                lines.extend(wrap(&field(label, ""), names, style.columns()));
            }
            let together = format!("{}     observed  {observed}", field("expected", &expected));
            if together.chars().count() <= style.columns() {
                lines.push(together);
            } else {
                lines.push(field("expected", &expected));
                lines.push(field("observed", &observed));
            }
            return;
        }
        if same_expectation {
            lines.push(field("expected", &expected));
        }
        for (n, (target, problem)) in self.problems.iter().enumerate() {
            let mut line = format!("{}: {}", named(target), clean(&problem.observed));
            if !same_expectation {
                line = format!("{line} (expected {})", clean(&problem.expected));
            }
            lines.push(field(if n == 0 { label } else { "" }, &line));
        }
    }

    /// Each hint once.
    fn hints(&self, report: &Report) -> Vec<Rendered> {
        let mut hints = Vec::new();
        for (_, problem) in &self.problems {
            for rendered in problem.hints.iter().filter_map(|hint| hints::render(hint, &report.sources)) {
                if !hints.contains(&rendered) {
                    hints.push(rendered);
                }
            }
        }
        hints
    }

    /// A check can have several blocks; what follows from it is said in the one that is shown last.
    fn carries(&self, report: &Report) -> bool {
        let mut blocks = Vec::new();
        for severity in [Severity::Warn, Severity::Error, Severity::Fail] {
            blocks_of(self.check, severity, Some(report), &mut blocks);
        }
        blocks.last().is_some_and(|last| (last.reason, last.severity) == (self.reason, self.severity))
    }

    fn consequences(&self, report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
        let id = self.check.check.id;
        let mut also = Vec::new();
        let mut blocked = BTreeSet::new();
        for check in &report.checks {
            let mut repeated: Vec<(String, Vec<String>)> = Vec::new();
            let is_root = |problem: &Problem, target: &Target| {
                diagnoses::of(report, check.check.id, target, problem).is_none()
                    && problem.explained_by.and_then(|cause| root(report, cause, target)) == Some(id)
            };
            for finding in &check.findings {
                match &finding.outcome {
                    Outcome::Problem(problem) if check.check.id != id && is_root(problem, &finding.target) => {
                        let (target, observed) = (shown(&finding.target), clean(&problem.observed));
                        match repeated.iter_mut().find(|(known, _)| *known == observed) {
                            Some((_, targets)) => targets.push(target),
                            None => repeated.push((observed, vec![target])),
                        }
                    }
                    Outcome::Blocked(by) if *by == id => {
                        blocked.insert(check.check.id);
                    }
                    _ => {}
                }
            }
            if !repeated.is_empty() {
                let each = repeated.iter().map(|(observed, targets)| format!("{}: {observed}", targets.join(", ")));
                also.push(format!("{} ({})", check.check.id, each.collect::<Vec<_>>().join("; ")));
            }
        }
        for (n, line) in also.iter().enumerate() {
            lines.push(field(if n == 0 { "also" } else { "" }, line));
        }
        if !blocked.is_empty() {
            let ids = blocked.into_iter().map(str::to_owned).collect();
            lines.extend(wrap(&field("blocks", ""), ids, style.columns()));
        }
    }
}

pub(super) fn hint_lines<'a>(kind: &str, hints: impl Iterator<Item = &'a Rendered>, lines: &mut Vec<String>) {
    let mut shown: Vec<(Option<&str>, usize)> = Vec::new();
    let mut label = kind;
    let mut more = 0;
    for hint in hints {
        let seen = if let Some((_, seen)) = shown.iter_mut().find(|(template, _)| *template == hint.template) {
            *seen += 1;
            *seen
        } else {
            shown.push((hint.template, 1));
            1
        };
        if hint.template.is_some() && seen > COMMANDS {
            more += 1;
            continue;
        }
        let text = match (&hint.command, &hint.text) {
            (Some(command), Some(text)) => format!("{command}   ({text})"),
            (Some(text), None) | (None, Some(text)) => text.clone(),
            (None, None) => continue,
        };
        lines.push(field(label, &text));
        label = "";
    }
    if more > 0 {
        lines.push(field("", &format!("(the same for {more} more)")));
    }
}

pub(super) fn field(name: &str, text: &str) -> String {
    format!("  {name:<9} {text}")
}

fn label(kind: Kind, many: bool) -> &'static str {
    match (kind, many) {
        (Kind::Cluster, _) => "cluster",
        (Kind::Credentials, _) => "source",
        (Kind::Endpoint, false) => "endpoint",
        (Kind::Endpoint, true) => "endpoints",
        (Kind::Node, false) => "node",
        (Kind::Node, true) => "nodes",
        (Kind::EtcdMember, false) => "member",
        (Kind::EtcdMember, true) => "members",
        (Kind::Pod, false) => "pod",
        (Kind::Pod, true) => "pods",
        (Kind::Workload, false) => "workload",
        (Kind::Workload, true) => "workloads",
        (Kind::ServerCheck, false) => "check",
        (Kind::ServerCheck, true) => "checks",
    }
}

/// `cp-3 (10.0.0.3)`, `cp-3 (10.0.0.3, id 8e9e05c52164694d)`.
fn named(target: &Target) -> String {
    let mut details = Vec::new();
    if let Some(address) = target.address.as_ref().filter(|address| **address != target.name) {
        details.push(clean(address));
    }
    if let Some(id) = &target.id {
        details.push(format!("id {}", clean(id)));
    }
    let name = clean(&target.name);
    if details.is_empty() { name } else { format!("{name} ({})", details.join(", ")) }
}
