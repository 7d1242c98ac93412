//! Problems found by checks, in blocks of one check and one reason, from the least severe to the most severe.
//!
//! Warnings come first, then what could not be determined, then the failures. Among these the catalog's order, from cause to symptom, is
//! reversed: the very last block is the failure that the others most likely follow from. Problems that only repeat a failure belong to that
//! failure's block, and so do the checks that it blocked. Problems that a diagnosis explains are left to the diagnosis.

use std::collections::{BTreeSet, HashSet};

use super::groups;
use super::hints::{self, HintKind, Rendered};
use super::index::Index;
use super::style::{Paint, TextStyle, paint};
use super::wording::{count, field, label, named, shown, wrap};
use crate::model::{CheckId, Finding, Kind, Outcome, Problem, Reason, Severity, Status, Target};
use crate::report::{CheckReport, Report};
use crate::text::duration::human;
use crate::text::sanitize::clean;

/// Note on a block whose problems are [permanent](Block::is_permanent).
pub(crate) const PERMANENT: &str = "waiting does not help";

/// All problems of one check that have the same reason and severity.
pub(crate) struct Block<'a> {
    pub(crate) check: &'a CheckReport,
    pub(crate) reason: Reason,
    pub(crate) severity: Severity,
    /// Never empty.
    pub(crate) problems: Vec<(&'a Target, &'a Problem)>,
}

/// Consequences of the problems of a block.
pub(crate) struct Consequences<'a> {
    /// Checks that only repeat it, and the problems of each.
    pub(crate) also: Vec<(CheckId, Vec<(&'a Target, &'a Problem)>)>,
    /// Checks that are blocked by it.
    pub(crate) blocked: BTreeSet<CheckId>,
}

/// Returns the blocks of a report in the order of the text report: the one to begin with comes last.
pub(crate) fn blocks<'a>(index: &Index<'a>) -> Vec<Block<'a>> {
    let mut blocks = Vec::new();
    let report = index.report;
    for severity in [Severity::Warn, Severity::Error, Severity::Fail] {
        for check in report.checks.iter().rev() {
            blocks_of(check, severity, Some(index), &mut blocks);
        }
    }
    // A symptom whose cause has no block of its own comes before the problems that nothing explains: the end is for causes.
    let is_symptom = |block: &Block<'_>| block.problems.iter().all(|(_, problem)| problem.explained_by.is_some());
    blocks.sort_by_key(|block| (block.severity, !is_symptom(block)));
    blocks
}

/// Names checks without a result, which are as bad as those that could not be determined.
pub(crate) fn unjudged(report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
    let all = report.checks.iter().filter(|check| check.is_unjudged()).count();
    let none_judged = report.checks.iter().all(|check| check.status.is_none());
    if all > 0 && !none_judged {
        let ids =
            report.checks.iter().filter(|check| check.is_unjudged()).map(|check| check.check.id.to_string()).collect();
        lines.push(String::new());
        lines.extend(wrap("not checked: ", ids, style.columns()));
    }
    for check in &report.checks {
        if check.status == Some(Status::Error) && check.findings.is_empty() {
            lines.push(String::new());
            lines.push(format!("{}  no result, which does not count as a pass", check.check.id));
        }
    }
}

/// Returns everything about one check alone, in full, for formats that show each check separately; with its consequences elsewhere, if they
/// are shown in one place only.
pub(crate) fn body(check: &CheckReport, index: &Index<'_>, with_consequences: bool) -> String {
    // A separate document has room for everything.
    let style = TextStyle { verbose: true, ..TextStyle::default() };
    let mut blocks = Vec::new();
    for severity in [Severity::Fail, Severity::Error, Severity::Warn] {
        blocks_of(check, severity, None, &mut blocks);
    }
    let mut lines = Vec::new();
    for diagnosis in index.diagnoses_of(check) {
        lines.push(format!("because   {} (cluster-health explain {})", clean(&diagnosis.headline), diagnosis.id));
    }
    for block in &blocks {
        block.lines(index, &style, with_consequences, &mut lines);
        let cause = block.problems.iter().find_map(|(_, problem)| problem.explained_by);
        lines.extend(cause.map(|cause| field("see", cause.name())));
    }
    lines.join("\n")
}

/// Adds the blocks of a check. With the index, problems that another check explains are left to that check's block, and those that a
/// diagnosis explains to the diagnosis.
fn blocks_of<'a>(check: &'a CheckReport, severity: Severity, index: Option<&Index<'a>>, blocks: &mut Vec<Block<'a>>) {
    let first = blocks.len();
    for (target, problem) in check.problems_of(severity) {
        let is_diagnosed = |index: &Index<'a>| index.diagnosis(check.check.id, target, problem).is_some();
        if index.is_some_and(is_diagnosed) {
            continue;
        }
        let carrier = |cause| index.and_then(|index| index.root(cause, target));
        if problem.explained_by.and_then(carrier).is_some_and(|root| root != check.check.id) {
            continue;
        }
        // Requirements of a policy have nothing in common but their check.
        let is_alone = check.check.id == CheckId::PolicyRequire;
        match blocks[first..].iter_mut().find(|block| block.reason == problem.reason && !is_alone) {
            Some(block) => block.problems.push((target, problem)),
            None => blocks.push(Block { check, reason: problem.reason, severity, problems: vec![(target, problem)] }),
        }
    }
}

impl<'a> Block<'a> {
    fn lines(&self, index: &Index<'a>, style: &TextStyle, with_consequences: bool, lines: &mut Vec<String>) {
        lines.push(self.heading(index, style));
        self.targets(style, lines);
        let hints = self.hints(index);
        for kind in HintKind::ALL {
            hints::lines(kind, &hints, lines);
        }
        if self.is_permanent() {
            lines.push(field("note", PERMANENT));
        }
        if with_consequences {
            self.consequence_lines(index, style, lines);
        }
        lines.push(field("more", &format!("cluster-health explain {}", self.reason.code())));
    }

    fn heading(&self, report: &Report, style: &TextStyle) -> String {
        let color = if self.severity == Severity::Warn { Paint::Caution } else { Paint::Bad };
        format!("{}  {}{}", self.check.check.id, paint(style.color, color, self.word()), self.duration(report))
    }

    /// Returns the word for a check with such problems.
    pub(crate) fn word(&self) -> &'static str {
        match self.severity {
            Severity::Fail => "failed",
            Severity::Error => "could not be determined",
            Severity::Warn => "warned",
        }
    }

    /// Returns the text that follows the word: ` for 4m58s (60 rounds), passed before`.
    pub(crate) fn duration(&self, report: &Report) -> String {
        let rounds = match self.check.bad_rounds {
            0 | 1 => String::new(),
            n => format!(" ({})", count(n as usize, "round")),
        };
        let since = match self.check.since {
            Some(since) if self.check.bad_rounds > 1 => format!(" for {}", human(report.took.saturating_sub(since))),
            _ => String::new(),
        };
        let flapped = if self.check.flapped { ", passed before" } else { "" };
        format!("{since}{rounds}{flapped}")
    }

    /// Whether waiting longer would have been in vain.
    pub(crate) fn is_permanent(&self) -> bool {
        self.severity != Severity::Warn && self.problems.iter().all(|(_, problem)| !problem.waiting_helps)
    }

    /// Writes targets, expectation and observation. A value that is the same for all appears once.
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
                let more = if style.verbose || all <= groups::NAMES { 0 } else { all - groups::SOME };
                let names = self.problems[..all - more].iter().map(|(target, _)| named(target)).collect();
                lines.extend(wrap(&field(label, ""), names, style.columns()));
                if more > 0 {
                    lines.push(field("", &groups::more(more)));
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
        let (told, left) = groups::lines(&self.problems, groups::LINES, named, style, |it| {
            let expected = clean(&it.first.expected);
            let expected = if same_expectation { String::new() } else { format!(" (expected {expected})") };
            format!("{}: {}{expected}", it.whom, it.observed)
        });
        for (n, line) in told.into_iter().enumerate() {
            lines.push(field(if n == 0 { label } else { "" }, &line));
        }
        if left > 0 {
            lines.push(field("", &groups::more(left)));
        }
    }

    /// Returns each hint once.
    pub(crate) fn hints(&self, report: &Report) -> Vec<Rendered> {
        let (mut hints, mut known) = (Vec::new(), HashSet::new());
        for (_, problem) in &self.problems {
            for rendered in problem.hints.iter().filter_map(|hint| hints::render(hint, &report.sources)) {
                if known.insert(rendered.clone()) {
                    hints.push(rendered);
                }
            }
        }
        hints
    }

    /// Whether this block shows the consequences: a check can have several blocks, and the one that is shown last has them.
    fn carries(&self, index: &Index<'a>) -> bool {
        let mut blocks = Vec::new();
        for severity in [Severity::Warn, Severity::Error, Severity::Fail] {
            blocks_of(self.check, severity, Some(index), &mut blocks);
        }
        blocks.last().is_some_and(|last| (last.reason, last.severity) == (self.reason, self.severity))
    }

    /// Returns the consequences, or `None` if another block of the same check shows them.
    pub(crate) fn consequences(&self, index: &Index<'a>) -> Option<Consequences<'a>> {
        if !self.carries(index) {
            return None;
        }
        let id = self.check.check.id;
        let mut consequences = Consequences { also: Vec::new(), blocked: BTreeSet::new() };
        for check in &index.report.checks {
            let mut repeated = Vec::new();
            let is_root = |problem: &'a Problem, target: &'a Target| {
                problem.explained_by.and_then(|cause| index.root(cause, target)) == Some(id)
                    && index.diagnosis(check.check.id, target, problem).is_none()
            };
            for Finding { target, outcome } in &check.findings {
                match outcome {
                    Outcome::Problem(problem) if check.check.id != id && is_root(problem, target) => {
                        repeated.push((&**target, &**problem));
                    }
                    // A warning does not block anything, whatever else its check has found.
                    Outcome::Blocked(by) if *by == id && self.severity != Severity::Warn => {
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

    fn consequence_lines(&self, index: &Index<'a>, style: &TextStyle, lines: &mut Vec<String>) {
        let Some(Consequences { also, blocked }) = self.consequences(index) else { return };
        let mut label = "also";
        for (id, problems) in &also {
            let (told, left) =
                groups::lines(problems, groups::FEW, shown, style, |it| format!("{}: {}", it.whom, it.observed));
            let left = (left > 0).then(|| groups::more(left));
            for line in told.into_iter().chain(left) {
                lines.push(field(label, &format!("{id}  {line}")));
                label = "";
            }
        }
        if !blocked.is_empty() {
            lines.extend(wrap(&field("blocks", ""), groups::blocked(blocked, style), style.columns()));
        }
    }
}
