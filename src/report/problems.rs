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
use super::text::{TextStyle, count, is_unjudged, shown, wrap};
use super::{CheckReport, Report, alike, diagnoses};
use crate::checks::{Finding, Kind, Outcome, Problem, Reason, Severity, Status, Target};
use crate::diagnosis::Diagnosis;
use crate::duration::human;

/// Commands of one kind that differ only in their arguments: so many are shown.
const COMMANDS: usize = 3;

/// Said of a block whose problems are [permanent](Block::is_permanent).
pub(super) const PERMANENT: &str = "waiting will not change it";

/// All problems of one check that have the same reason and severity.
pub(super) struct Block<'a> {
    pub(super) check: &'a CheckReport,
    pub(super) reason: Reason,
    pub(super) severity: Severity,
    /// Never empty.
    pub(super) problems: Vec<(&'a Target, &'a Problem)>,
}

/// What follows from the problems of a block.
pub(super) struct Consequences<'a> {
    /// Checks that only repeat it, and what each found.
    pub(super) also: Vec<(&'static str, Vec<(&'a Target, &'a Problem)>)>,
    /// Checks that could not look because of it.
    pub(super) blocked: BTreeSet<&'static str>,
}

/// The blocks of a report in the order of the text report: the one to begin with comes last.
pub(super) fn blocks(report: &Report) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    for severity in [Severity::Warn, Severity::Error, Severity::Fail] {
        for check in report.checks.iter().rev() {
            blocks_of(check, severity, Some(report), &mut blocks);
        }
    }
    // A symptom whose cause has no block of its own stands before those that nothing explains: the end is for causes.
    let is_symptom = |block: &Block<'_>| block.problems.iter().all(|(_, problem)| problem.explained_by.is_some());
    blocks.sort_by_key(|block| (block.severity, !is_symptom(block)));
    blocks
}

pub(super) fn write(report: &Report, blocks: &[Block<'_>], style: &TextStyle, lines: &mut Vec<String>) {
    unjudged(report, style, lines);
    for block in blocks {
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
    body_of(check, report, |block, style, lines| block.write(report, style, lines))
}

/// The same without what follows from it elsewhere.
pub(super) fn body_alone(check: &CheckReport, report: &Report) -> String {
    body_of(check, report, |block, style, lines| block.write_alone(report, style, lines))
}

fn body_of(check: &CheckReport, report: &Report, write: impl Fn(&Block<'_>, &TextStyle, &mut Vec<String>)) -> String {
    // A document of its own has room for all.
    let style = TextStyle { verbose: true, ..TextStyle::default() };
    let mut blocks = Vec::new();
    for severity in [Severity::Fail, Severity::Error, Severity::Warn] {
        blocks_of(check, severity, None, &mut blocks);
    }
    let mut lines = Vec::new();
    for diagnosis in of_check(check, report) {
        lines.push(format!("because   {} (cluster-health explain {})", clean(&diagnosis.headline), diagnosis.id));
    }
    for block in &blocks {
        write(block, &style, &mut lines);
        for (_, problem) in &block.problems {
            if let Some(cause) = problem.explained_by {
                lines.push(field("see", cause));
                break;
            }
        }
    }
    lines.join("\n")
}

/// The diagnoses that explain problems of this check, with the targets that it has here.
pub(super) fn of_check<'a>(check: &CheckReport, report: &'a Report) -> impl Iterator<Item = &'a Diagnosis> {
    let id = check.check.id;
    let found: BTreeSet<&Target> = check.problems().map(|(target, _)| target).collect();
    report.diagnoses.iter().filter(move |it| it.explains.iter().any(|it| it.check == id && found.contains(&it.target)))
}

/// With the report, problems that another check explains are left to that check's block, and those that a diagnosis explains
/// to the diagnosis.
fn blocks_of<'a>(check: &'a CheckReport, severity: Severity, report: Option<&Report>, blocks: &mut Vec<Block<'a>>) {
    let first = blocks.len();
    for (target, problem) in check.problems_of(severity) {
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
        let same = check.problems().find(|(other, _)| *other == target);
        let own = check.problems().find(|(_, problem)| problem.explained_by.is_none());
        match same.or(own).or_else(|| check.problems().next())?.1.explained_by {
            None => return Some(cause),
            Some(next) => cause = next,
        }
    }
    None
}

impl Block<'_> {
    pub(super) fn write(&self, report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
        self.write_itself(report, style, lines);
        self.consequence_lines(report, style, lines);
        lines.push(self.more());
    }

    fn write_alone(&self, report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
        self.write_itself(report, style, lines);
        lines.push(self.more());
    }

    fn more(&self) -> String {
        field("more", &format!("cluster-health explain {}", self.reason.code()))
    }

    fn write_itself(&self, report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
        lines.push(self.heading(report, style));
        self.targets(style, lines);
        let hints = self.hints(report);
        for kind in ["likely", "try", "remedy"] {
            hint_lines(kind, &hints, lines);
        }
        if self.is_permanent() {
            lines.push(field("note", PERMANENT));
        }
    }

    fn heading(&self, report: &Report, style: &TextStyle) -> String {
        let colour = if self.severity == Severity::Warn { Paint::Caution } else { Paint::Bad };
        format!("{}  {}{}", self.check.check.id, paint(style.colour, colour, self.word()), self.duration(report))
    }

    /// What is said of a check with such problems.
    pub(super) fn word(&self) -> &'static str {
        match self.severity {
            Severity::Fail => "failed",
            Severity::Error => "could not be determined",
            Severity::Warn => "warned",
        }
    }

    /// Follows the word: ` for 4m58s (60 rounds), passed before`.
    pub(super) fn duration(&self, report: &Report) -> String {
        let rounds = match self.check.bad_rounds {
            0 => String::new(),
            n => format!(" ({})", count(n as usize, "round")),
        };
        let since = match self.check.since {
            Some(since) if self.check.bad_rounds > 1 => format!(" for {}", human(report.took.saturating_sub(since))),
            _ => String::new(),
        };
        let flapped = if self.check.flapped { ", passed before" } else { "" };
        format!("{since}{rounds}{flapped}")
    }

    /// Waiting longer would have been in vain.
    pub(super) fn is_permanent(&self) -> bool {
        self.severity != Severity::Warn && self.problems.iter().all(|(_, problem)| !problem.waiting_helps)
    }

    /// Who, what should be, what is. What is the same for all is said once.
    fn targets(&self, style: &TextStyle, lines: &mut Vec<String>) {
        let (first, problem) = self.problems[0];
        let label = label(first.kind, self.problems.len() > 1);
        let alike = self.problems.iter().all(|(_, other)| other.observed == problem.observed);
        let same_expectation = self.problems.iter().all(|(_, other)| other.expected == problem.expected);
        let expected = clean(&problem.expected);
        let observed = clean(&problem.observed);
        if alike && same_expectation {
            if self.problems.iter().any(|(target, _)| target.kind != Kind::Cluster) {
                let all = self.problems.len();
                let more = if style.verbose || all <= alike::NAMES { 0 } else { all - alike::SOME };
                let names = self.problems[..all - more].iter().map(|(target, _)| named(target)).collect();
                lines.extend(wrap(&field(label, ""), names, style.columns()));
                if more > 0 {
                    lines.push(field("", &alike::more(more)));
                }
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
        let (told, left) = alike::lines(&self.problems, alike::LINES, named, style, |it| {
            let expected = clean(&it.first.expected);
            let expected = if same_expectation { String::new() } else { format!(" (expected {expected})") };
            format!("{}: {}{expected}", it.whom, it.observed)
        });
        for (n, line) in told.into_iter().enumerate() {
            lines.push(field(if n == 0 { label } else { "" }, &line));
        }
        if left > 0 {
            lines.push(field("", &alike::more(left)));
        }
    }

    /// Each hint once.
    pub(super) fn hints(&self, report: &Report) -> Vec<Rendered> {
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

    /// `None` where another block of the same check says it.
    pub(super) fn consequences<'r>(&self, report: &'r Report) -> Option<Consequences<'r>> {
        if !self.carries(report) {
            return None;
        }
        let id = self.check.check.id;
        let mut consequences = Consequences { also: Vec::new(), blocked: BTreeSet::new() };
        for check in &report.checks {
            let mut repeated = Vec::new();
            let is_root = |problem: &Problem, target: &Target| {
                problem.explained_by.and_then(|cause| root(report, cause, target)) == Some(id)
                    && diagnoses::of(report, check.check.id, target, problem).is_none()
            };
            for Finding { target, outcome } in &check.findings {
                match outcome {
                    Outcome::Problem(problem) if check.check.id != id && is_root(problem, target) => {
                        repeated.push((target, problem));
                    }
                    Outcome::Blocked(by) if *by == id => {
                        consequences.blocked.insert(check.check.id);
                    }
                    _ => {}
                }
            }
            if !repeated.is_empty() {
                consequences.also.push((check.check.id, repeated));
            }
        }
        Some(consequences)
    }

    fn consequence_lines(&self, report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
        let Some(Consequences { also, blocked }) = self.consequences(report) else { return };
        let mut label = "also";
        for (id, problems) in &also {
            let (told, left) =
                alike::lines(problems, alike::FEW, shown, style, |it| format!("{}: {}", it.whom, it.observed));
            let left = (left > 0).then(|| alike::more(left));
            for line in told.into_iter().chain(left) {
                lines.push(field(label, &format!("{id}  {line}")));
                label = "";
            }
        }
        if !blocked.is_empty() {
            let ids = blocked.into_iter().map(str::to_owned).collect();
            lines.extend(wrap(&field("blocks", ""), alike::blocked(ids, style), style.columns()));
        }
    }
}

/// The hints of one kind that are shown, and how many more there are that differ from these only in their arguments.
pub(super) fn selected<'a>(kind: &str, hints: &'a [Rendered]) -> (Vec<&'a Rendered>, usize) {
    let mut seen: Vec<(Option<&str>, usize)> = Vec::new();
    let mut shown = Vec::new();
    let mut more = 0;
    for hint in hints.iter().filter(|hint| hint.kind == kind) {
        let known = seen.iter().position(|(template, _)| *template == hint.template).unwrap_or_else(|| {
            seen.push((hint.template, 0));
            seen.len() - 1
        });
        seen[known].1 += 1;
        if hint.template.is_some() && seen[known].1 > COMMANDS {
            more += 1;
        } else {
            shown.push(hint);
        }
    }
    (shown, more)
}

pub(super) fn hint_lines(kind: &str, hints: &[Rendered], lines: &mut Vec<String>) {
    let (shown, more) = selected(kind, hints);
    let mut label = kind;
    for hint in shown {
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

pub(super) fn label(kind: Kind, many: bool) -> &'static str {
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
pub(super) fn named(target: &Target) -> String {
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
