//! The problems, cause by cause and the worst first: what is wrong, where, the evidence, the next steps, and the consequences.
//!
//! Within one severity, the cause with the wider [`Reach`] comes first, then causes that a diagnosis recognized come before those that only
//! a check reports, and a cause before its consequences; a restart that is over comes last. Many machines in the same trouble are one cause. Anything that is left out is counted;
//! `-v` and the JSON report have it.

use std::collections::{BTreeSet, HashMap};

use super::hints::{self, HintKind, Rendered};
use super::index::Index;
use super::problems::{self, Block, PERMANENT};
use super::style::{Paint, TextStyle, paint};
use super::wording::{count, field, label, shown, wrap};
use super::{diagnoses, groups};
use crate::diagnosis::{Diagnosis, Explained, Reach};
use crate::model::{CheckId, Exit, Kind, Page, Reason, Severity, Status, Target, log_line};
use crate::report::Report;
use crate::snapshot::logs::{Source, Tail};
use crate::text::sanitize::{brief, clean, ends, log_lines};
use crate::text::{excerpt, some};

/// Number of causes that are shown in full; as many more are shown with their headline.
pub(crate) const FULL: usize = 5;
/// Number of lines of evidence, and of steps, of a cause.
const EVIDENCE: usize = 2;
pub(crate) const STEPS: usize = 3;
/// Number of steps up to which a procedure that changes something is never cut.
const PROCEDURE: usize = 5;
/// Above this number of causes, each has fewer steps.
const FEW: usize = 2;
const STEPS_OF_MANY: usize = 2;
/// Length of the headline in the last lines, in characters; some readers read nothing else.
const LAST: usize = 300;
/// Width of the titles of the last lines, in characters.
const TITLES: usize = 13;
/// Number of machines that are named if several share a trouble.
pub(crate) const NAMES: usize = 2;

/// Reasons that do not tell which answer is missing.
const MISSING: [Reason; 4] = [Reason::TimedOut, Reason::NoAnswer, Reason::UnreadableAnswer, Reason::AnswerTooLarge];

/// The origin of a cause.
pub(crate) enum Origin<'a> {
    /// A diagnosis, of one machine or of several in the same trouble; never empty.
    Recognized(Vec<&'a Diagnosis>),
    /// A check whose problems no diagnosis explains.
    Found(Block<'a>),
}

impl Origin<'_> {
    pub(crate) fn severity(&self) -> Severity {
        match self {
            Self::Recognized(those) => those.iter().map(|it| it.severity).max().unwrap_or(Severity::Fail),
            Self::Found(block) => block.severity,
        }
    }

    fn reach(&self) -> Option<Reach> {
        match self {
            Self::Recognized(those) => those.iter().map(|it| Reach::of(it)).min(),
            Self::Found(block) => Some(Reach::of_problem(block.check.check, block.reason)),
        }
    }

    /// Returns whether only a trace is left: a container that restarted works again, so what is still wrong comes first.
    fn is_over(&self) -> bool {
        matches!(self, Self::Found(block) if block.severity == Severity::Warn && block.reason == Reason::Restarting)
    }
}

/// Returns the origins of a report's causes in order, the one to begin with first.
pub(crate) fn origins<'a>(index: &Index<'a>) -> Vec<Origin<'a>> {
    let recognized = alike(index.report).into_iter().map(Origin::Recognized);
    let found = problems::blocks(index).into_iter().rev().map(Origin::Found);
    let mut origins: Vec<_> = recognized.chain(found).collect();
    origins.sort_by_key(|origin| (std::cmp::Reverse(origin.severity()), origin.is_over(), origin.reach()));
    origins
}

/// One cause, ready to be shown.
#[derive(Debug)]
pub(crate) struct Cause {
    pub(crate) severity: Severity,
    /// ID of the diagnosis, or of the check.
    pub(crate) id: &'static str,
    pub(crate) headline: String,
    /// Labels and lines.
    evidence: Vec<(&'static str, String)>,
    /// The log line that explains the cause, with `--evidence logs`.
    log: Option<String>,
    pub(crate) hints: Vec<Rendered>,
    is_permanent: bool,
    /// Checks that show it, completely or in part.
    pub(crate) shows: BTreeSet<CheckId>,
    pub(crate) blocked: BTreeSet<CheckId>,
    /// Topic for `explain`.
    explained_as: &'static str,
    /// Page of the topic on the web.
    page: Page,
    /// Impact on the cluster, if a diagnosis recognized the cause.
    pub(crate) impact: Option<String>,
    /// Consequences that concern the whole cluster, and would otherwise only be counted.
    also: Vec<&'static str>,
}

/// Returns all causes of a report, the one to begin with first.
pub(crate) fn of(index: &Index<'_>, style: &TextStyle) -> Vec<Cause> {
    origins(index).iter().map(|origin| Cause::of(origin, index, style)).collect()
}

/// Groups diagnoses that differ in nothing but the machine; no group is empty.
fn alike(report: &Report) -> Vec<Vec<&Diagnosis>> {
    let mut groups: Vec<Vec<&Diagnosis>> = Vec::new();
    let mut known: HashMap<(&str, String), usize> = HashMap::new();
    for diagnosis in &report.diagnoses {
        let mut targets: Vec<&Target> =
            diagnosis.explains.iter().map(|it| &it.target).chain(diagnosis.seen.iter().map(|it| &it.target)).collect();
        targets.dedup();
        let outline =
            targets.into_iter().fold(diagnosis.headline.clone(), |text, target| groups::outline(target, &text));
        let group = *known.entry((diagnosis.id, outline)).or_insert(groups.len());
        match groups.get_mut(group) {
            Some(group) => group.push(diagnosis),
            None => groups.push(vec![diagnosis]),
        }
    }
    groups
}

/// Returns `… does not run: crashed; the same on 39 more machines: w-2 (10.0.0.5), w-3 (10.0.0.6) and 37 more`.
pub(crate) fn headline(those: &[&Diagnosis]) -> String {
    let first = clean(&those[0].headline);
    let others: Vec<_> = those[1..].iter().filter_map(|it| machine(it)).map(shown).collect();
    match others.len() {
        0 => first,
        n => format!("{first}; the same on {n} more: {}", some(others.iter(), NAMES)),
    }
}

/// Returns the machine that a diagnosis is about.
fn machine(diagnosis: &Diagnosis) -> Option<&Target> {
    let targets = || diagnosis.explains.iter().map(|it| &it.target).chain(diagnosis.seen.iter().map(|it| &it.target));
    targets().find(|target| target.kind == Kind::Node).or_else(|| targets().next())
}

/// Returns the observation after the title of its reason, unless one repeats the other.
fn finding(title: &str, observed: &str) -> String {
    fn subject(text: &str) -> impl Iterator<Item = &str> {
        text.split_whitespace().take(2)
    }
    let mut words = observed.split_whitespace();
    if words.all(|word| title.split_whitespace().any(|it| it == word)) {
        title.to_owned()
    } else if subject(title).eq(subject(observed)) {
        observed.to_owned()
    } else {
        format!("{title}: {observed}")
    }
}

/// Returns the beginning that all observations share, up to the last clause before they differ: `v.example.com: Service policy/webhook has
/// no working endpoint`. Empty if there is none.
fn shared(observed: &[String]) -> &str {
    let Some((first, others)) = observed.split_first() else { return "" };
    let length = |other: &String| first.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    let same = others.iter().map(length).min().unwrap_or_default();
    let clauses = [": ", "; ", ", "].into_iter().flat_map(|end| first.match_indices(end));
    clauses.map(|(at, _)| at).filter(|at| *at < same).max().map_or("", |at| &first[..at])
}

impl Cause {
    pub(crate) fn of<'a>(origin: &Origin<'a>, index: &Index<'a>, style: &TextStyle) -> Self {
        match origin {
            Origin::Recognized(those) => Self::recognized(those, index, style),
            Origin::Found(block) => Self::found(block, index, style),
        }
    }

    fn recognized<'a>(those: &[&'a Diagnosis], report: &Index<'a>, style: &TextStyle) -> Self {
        let facts: Vec<_> = those.iter().flat_map(|it| diagnoses::facts(it)).map(|seen| (&seen.target, seen)).collect();
        let most = if style.verbose { facts.len().max(1) } else { EVIDENCE };
        let (told, left) = groups::lines(&facts, most, shown, style, |it| format!("{}: {}", it.whom, it.observed));
        let told = if style.verbose { told } else { told.iter().map(|line| brief(line, excerpt::MOST)).collect() };
        let left = (left > 0).then(|| groups::more(left));
        Self {
            severity: those.iter().map(|it| it.severity).max().unwrap_or(Severity::Fail),
            id: those[0].id,
            headline: headline(those),
            evidence: labeled("seen", told.into_iter().chain(left)),
            log: machine(those[0]).and_then(|target| telling_log_line(report.report, target, &those[0].headline)),
            hints: those.iter().flat_map(|it| diagnoses::next(it, report)).collect(),
            is_permanent: false,
            shows: those.iter().flat_map(|it| &it.explains).map(|it| it.check).collect(),
            blocked: counted(report, those.iter().flat_map(|it| report.blocked(it))),
            explained_as: those[0].id,
            page: Page::Cause(those[0].id),
            impact: Some(clean(&those[0].impact)),
            // The impact of a diagnosis says that already.
            also: outages(consequences(those).filter(|reason| *reason != Reason::NoTolerance)),
        }
    }

    /// Returns the cause for problems of a check that no diagnosis explains.
    fn found<'a>(block: &Block<'a>, report: &Index<'a>, style: &TextStyle) -> Self {
        let id = block.check.check.id;
        let (first, problem) = block.problems[0];
        let is_alike = block.problems.iter().all(|(_, other)| other.observed == problem.observed);
        let whom = match first.kind {
            Kind::Cluster => String::new(),
            _ => format!("{}: ", some(block.problems.iter().map(|(target, _)| shown(target)), NAMES)),
        };
        let title = block.reason.title();
        let mut evidence = Vec::new();
        let headline = if is_alike {
            format!("{whom}{}", finding(title, &clean(&problem.observed)))
        } else {
            let most = if style.verbose { block.problems.len() } else { groups::FEW };
            let (told, left) =
                groups::lines(&block.problems, most, shown, style, |it| format!("{}: {}", it.whom, it.observed));
            evidence = labeled("seen", told.into_iter().chain((left > 0).then(|| groups::more(left))));
            let observed: Vec<_> = block.problems.iter().map(|(_, problem)| clean(&problem.observed)).collect();
            match shared(&observed) {
                "" => format!("{whom}{title}"),
                shared => format!("{whom}{}", finding(title, shared)),
            }
        };
        if is_alike && style.verbose && block.problems.len() > NAMES + 1 {
            let names = block.problems.iter().map(|(target, _)| shown(target)).collect();
            let names = wrap("", names, style.columns() - field("", "").chars().count());
            evidence = labeled(label(first.kind, true), names.into_iter());
        }
        let expected = format!("; expected: {}", clean(&problem.expected));
        let check = format!("{id} {}{}", block.word(), block.duration(report));
        // The last lines only have the headline.
        let (headline, check) =
            if MISSING.contains(&block.reason) { (headline + &expected, check) } else { (headline, check + &expected) };
        evidence.insert(0, ("check", check));
        let consequences = block.consequences(report);
        let follow = consequences.iter().flat_map(|it| &it.also).flat_map(|(_, problems)| problems);
        let also = outages(follow.map(|(_, problem)| problem.reason).filter(|reason| *reason != block.reason));
        Self {
            severity: block.severity,
            id: id.name(),
            evidence,
            log: telling_log_line(report.report, first, &headline),
            headline,
            hints: block.hints(report),
            is_permanent: block.is_permanent(),
            shows: consequences.iter().flat_map(|it| &it.also).map(|(also, _)| *also).chain([id]).collect(),
            blocked: counted(report, consequences.into_iter().flat_map(|it| it.blocked)),
            explained_as: block.reason.code(),
            page: Page::Reason(block.reason),
            impact: None,
            also,
        }
    }

    /// Returns the lines below the headline.
    pub(crate) fn lines(&self, steps: usize, style: &TextStyle) -> Vec<String> {
        let mut lines: Vec<String> = self.evidence.iter().map(|(label, line)| field(label, line)).collect();
        lines.extend((!self.also.is_empty()).then(|| field("also", &self.also.join("; "))));
        lines.extend(self.log.iter().map(|line| field("log", line)));
        let mut likely = Vec::new();
        hints::lines(HintKind::Likely, &self.hints, &mut likely);
        lines.extend(likely.into_iter().take(if style.verbose { usize::MAX } else { 1 }));
        self.steps(if style.verbose { usize::MAX } else { steps }, style, &mut lines);
        if self.is_permanent {
            lines.push(field("note", PERMANENT));
        }
        if style.verbose {
            lines.extend(self.impact.iter().map(|impact| field("impact", impact)));
        }
        if style.verbose && !self.blocked.is_empty() {
            let blocked = groups::blocked(self.blocked.iter().copied(), style);
            lines.extend(wrap(&field("blocks", ""), blocked, style.columns()));
        }
        lines.push(field("more", &format!("{}{}", self.extent(), self.explain(style))));
        // Readers of a pipeline's log do not have the program at hand, nor a link to follow.
        if !style.links {
            lines.push(field("", &self.page.to_string()));
        }
        lines
    }

    fn explain(&self, style: &TextStyle) -> String {
        paint(style.color, Paint::Hint, &format!("cluster-health explain {}", self.explained_as))
    }

    /// Adds the steps: read-only commands before changes, each command once, the first of each kind before similar ones.
    fn steps(&self, most: usize, style: &TextStyle, lines: &mut Vec<String>) {
        let mut commands: Vec<&Rendered> = Vec::new();
        let mut templates = BTreeSet::new();
        let of_kinds = || HintKind::COMMANDS.into_iter().flat_map(|kind| hints::selected(kind, &self.hints).0);
        // One of each template comes before a second one of any, so that the steps differ.
        for is_first in [true, false] {
            for hint in of_kinds().filter(|hint| hint.command.is_some()) {
                let is_new = !commands.iter().any(|known| known.command == hint.command);
                if is_new && (!is_first || templates.insert((hint.kind.name(), hint.template.as_deref()))) {
                    commands.push(hint);
                }
            }
        }
        commands.sort_by_key(|hint| hint.kind == HintKind::Remedy);
        let all = self.hints.iter().filter_map(|hint| hint.command.as_ref()).collect::<BTreeSet<_>>().len();
        // Half of a procedure is worse than none.
        let changes = commands.iter().any(|hint| hint.kind == HintKind::Remedy);
        let most = if changes && commands.len() <= PROCEDURE { PROCEDURE } else { most };
        let shown = commands.len().min(most);
        for (n, hint) in commands[..shown].iter().enumerate() {
            let label = if n == 0 { "next" } else { "" };
            lines.push(field(label, &format!("{}. {}", n + 1, step(hint, style))));
        }
        if all > shown {
            lines.push(field("", &format!("({} more with -v or -o json)", count(all - shown, "command"))));
        }
    }

    /// Returns `shows in 3 checks, blocks 2; `, so that the figures of the verdict add up. If it shows in a single check, that is not
    /// mentioned.
    fn extent(&self) -> String {
        let shows = (self.shows.len() > 1).then(|| format!("shows in {} checks", self.shows.len()));
        let blocked = (!self.blocked.is_empty()).then(|| match &shows {
            Some(_) => format!("blocks {}", self.blocked.len()),
            None => format!("blocks {}", count(self.blocked.len(), "check")),
        });
        let parts: Vec<String> = shows.into_iter().chain(blocked).collect();
        if parts.is_empty() { String::new() } else { format!("{}; ", parts.join(", ")) }
    }
}

/// Returns those of these checks that count as blocked. A check that is blocked for one machine and fails for another counts as failed.
fn counted(index: &Index<'_>, blocked: impl Iterator<Item = CheckId>) -> BTreeSet<CheckId> {
    let counts = |id: &CheckId| {
        index.checks.iter().any(|check| check.check.id == *id && check.shown_status() == Status::Blocked)
    };
    blocked.filter(counts).collect()
}

/// Consequences that a reader must not miss although the cause names something else: outages for all pods, a quorum that one more failure or
/// an upgrade would take, and budgets that a drain would break.
const OUTAGES: [Reason; 6] = [
    Reason::NoTolerance,
    Reason::DnsNoEndpoints,
    Reason::WebhookUnavailable,
    Reason::NothingSchedulable,
    Reason::QuorumAtRisk,
    Reason::BudgetCountsLost,
];

/// Returns the reasons of the outages that follow from these diagnoses and are not their evidence.
fn consequences(those: &[&Diagnosis]) -> impl Iterator<Item = Reason> {
    let is_seen = |it: &Explained| those.iter().flat_map(|it| &it.seen).any(|seen| seen.target == it.target);
    let explained = those.iter().flat_map(|it| &it.explains).filter(|it| OUTAGES.contains(&it.reason));
    explained.filter(move |it| !is_seen(it)).map(|it| it.reason)
}

fn outages(consequences: impl Iterator<Item = Reason>) -> Vec<&'static str> {
    let follow: BTreeSet<Reason> = consequences.collect();
    OUTAGES.iter().filter(|it| follow.contains(it)).map(|it| it.title()).collect()
}

/// Returns `etcd: …`, the log line that explains the cause, or else the last line of the service or container on this machine that the
/// headline names first.
fn telling_log_line(report: &Report, target: &Target, headline: &str) -> Option<String> {
    let machine = target.node.as_deref().unwrap_or(&target.name);
    let of_machine = || report.logs.iter().filter(|tail| target.kind == Kind::Cluster || tail.log.node == machine);
    if let Some(line) = of_machine().find_map(|tail| known_line(tail, target)) {
        return Some(line);
    }
    // The last line of a kubelet that works is not about one of its pods.
    let may_tell = |tail: &&Tail| target.kind != Kind::Pod || matches!(tail.log.of, Source::Container { .. });
    let named = of_machine().filter(may_tell).filter_map(|tail| Some((headline.find(tail.log.of.name())?, tail)));
    let (_, tail) = named.min_by_key(|(place, _)| *place)?;
    let lines = log_lines(tail.lines.as_ref().ok()?);
    let last = lines.iter().rfind(|line| !line.is_empty())?;
    Some(brief(&format!("{}: {last}", tail.log.of.name()), excerpt::MOST))
}

/// Returns `kubelet: … (the kubelet rejects the manifest)`. A line of the kubelet about a manifest counts for the pod of that manifest.
fn known_line(tail: &Tail, target: &Target) -> Option<String> {
    let machine = target.node.as_deref().unwrap_or_default();
    let pod = target.name.strip_suffix(machine).unwrap_or(&target.name).trim_end_matches('-');
    let counts = |line: &str| match &tail.log.of {
        Source::Controllers => log_line::is_telling(line),
        Source::Service(id) => {
            id == "kubelet" && target.kind == Kind::Pod && line.contains(pod) && log_line::meaning(line).is_some()
        }
        Source::Container { .. } => false,
    };
    let line = tail.lines.as_ref().ok()?.iter().rfind(|line| counts(line))?;
    let said = log_lines(&[log_line::message(line)]).concat();
    let meaning = log_line::meaning(line).map(|it| format!(" ({it})")).unwrap_or_default();
    Some(format!("{}{meaning}", brief(&format!("{}: {said}", tail.log.of.name()), 2 * excerpt::MOST)))
}

fn labeled(label: &'static str, lines: impl Iterator<Item = String>) -> Vec<(&'static str, String)> {
    lines.enumerate().map(|(n, line)| (if n == 0 { label } else { "" }, line)).collect()
}

fn step(hint: &Rendered, style: &TextStyle) -> String {
    let command = paint(style.color, Paint::Hint, hint.command.as_deref().unwrap_or_default());
    hint.text.as_ref().map_or_else(|| command.clone(), |text| format!("{command}   ({text})"))
}

/// Writes all causes, numbered; those far down the list with their headline only. Warnings beside a failure have no number and a line
/// each: they are not to be dealt with first, and readers of the last lines need the failure.
pub(crate) fn write(causes: &[Cause], style: &TextStyle, lines: &mut Vec<String>) {
    let steps = if causes.len() > FEW { STEPS_OF_MANY } else { STEPS };
    for (n, cause) in causes.iter().enumerate() {
        if !style.verbose && n >= 2 * FULL {
            lines.push(groups::more(causes.len() - n));
            break;
        }
        let color = if cause.severity == Severity::Warn { Paint::Caution } else { Paint::Bad };
        let is_aside = cause.severity == Severity::Warn && causes[0].severity != Severity::Warn;
        let number = if is_aside { "warning:".to_owned() } else { format!("{}.", n + 1) };
        let number = paint(style.color, color, &number);
        if !style.verbose && is_aside {
            lines.extend((causes[n - 1].severity != Severity::Warn).then(String::new));
            lines.push(format!("{number} {} (explain {})", brief(&cause.headline, excerpt::MOST), cause.explained_as));
        } else if style.verbose || n < FULL {
            lines.extend([String::new(), format!("{number} {}", cause.headline)]);
            lines.extend(cause.lines(steps, style));
        } else {
            lines.extend((n == FULL).then(String::new));
            lines.push(format!("{number} {}", brief(&cause.headline, excerpt::MOST)));
        }
    }
}

/// Writes the first cause and the first step, for readers of nothing but the last lines. A single warning of a healthy cluster is among them
/// anyway.
pub(crate) fn conclude(causes: &[Cause], exit: Exit, style: &TextStyle, lines: &mut Vec<String>) {
    let Some(cause) = causes.first() else { return };
    // A warning may be the cause that blocks the rest, because of `--warn-only`.
    let (color, title) = match cause.severity {
        Severity::Warn if exit != Exit::Undetermined && causes.len() == 1 => return,
        Severity::Warn if exit != Exit::Undetermined => (Paint::Caution, "warning"),
        _ => (Paint::Bad, "first cause"),
    };
    let mut line = |color: Paint, title: &str, text: &str| {
        let space = " ".repeat(TITLES.saturating_sub(title.chars().count()));
        lines.push(format!("{}{space}{text}", paint(style.color, color, title)));
    };
    line(color, title, &ends(&cause.headline, LAST));
    let impact: Vec<_> = cause.impact.as_deref().into_iter().chain(cause.also.iter().copied()).collect();
    if !impact.is_empty() {
        line(Paint::Heading, "impact", &impact.join("; "));
    }
    // A log line tells more than a guess.
    if let Some(log) = &cause.log {
        line(Paint::Heading, "last log", log);
    } else if let Some(likely) = hints::first_guess(&cause.hints) {
        line(Paint::Heading, "likely", likely);
    }
    let look = hints::first_step(&cause.hints);
    line(Paint::Heading, "first step", &look.map_or_else(|| cause.explain(style), |hint| step(hint, style)));
}

#[cfg(test)]
mod tests {
    use super::shared;

    #[test]
    fn what_all_have_in_common_ends_at_a_colon() {
        let of = |observed: &[&str]| {
            let observed: Vec<String> = observed.iter().map(|it| (*it).to_owned()).collect();
            shared(&observed).to_owned()
        };
        assert_eq!(of(&["hook: no backend: pods of a", "hook: no backend: pods of b", "hook: no backend"]), "hook");
        assert_eq!(of(&["hook: no backend: pods of a", "hook: no backend: pods of b"]), "hook: no backend");
        assert_eq!(of(&["3 of 4", "2 of 4"]), "");
        assert_eq!(of(&["größe: ä", "größe: ö"]), "größe");
        assert_eq!(of(&[]), "");
    }
}
