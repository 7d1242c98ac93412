//! Reports of several clusters, read as one.
//!
//! Merging never improves a result. A cluster counts as healthy only if a report shows it, and files that cannot be used are named: reports
//! can be merged in any groups and in any order with the same result. A merged report therefore keeps what its result is based on: the
//! expected names and the maximum age that were given, and the files that could not be read.

pub(crate) mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::format::json;
use super::history::History;
use super::view::grid::{self, Grid};
use super::view::wording::{count, skip_reason};
use super::{CheckReport, Report, ledger};
use crate::model::{Exit, Finding, Kind, Outcome, Stage, Status, Target};
use crate::text::duration::human;
use crate::text::sanitize::clean;
use crate::text::{joined, some};

/// Maximum difference between the clocks of two machines.
const SKEW: Duration = Duration::from_secs(60);
/// Maximum number of clusters that a message names.
const NAMES: usize = 10;

/// Everything that was read. The order of its parts has no effect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Merged {
    members: Vec<Member>,
    /// Files that cannot be used, and why.
    unusable: BTreeSet<(String, String)>,
    /// Clusters that are expected; `None`: none were given.
    expected: Option<BTreeSet<String>>,
    max_age: Option<Duration>,
}

/// A property that no two clusters have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Identity<'a> {
    /// Statement about two reports with the same ID.
    shared: &'static str,
    id: &'a str,
}

/// A report, and the file it was read from.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) file: String,
    /// Whether the run had not even ended by the reader's clock when the report was read.
    pub(crate) is_of_future: bool,
    /// The report without the findings of checks that passed.
    pub(crate) report: Report,
}

impl Member {
    pub(crate) fn new(file: &str, report: Report, now: Timestamp) -> Self {
        let is_of_future = report.finished_at.max(report.started_at) > now + SKEW;
        Self { file: clean(file), is_of_future, report: reduced(report) }
    }

    fn name(&self) -> String {
        name(&self.report)
    }

    /// Returns the identities of the cluster, regardless of its name, as far as they were observed.
    fn identities(&self) -> impl Iterator<Item = Identity<'_>> {
        let sources = &self.report.sources;
        let known = [
            ("were verified with the same Talos CA", &sources.talos_id),
            ("have the same kube-system (by its UID)", &sources.kube_system_uid),
        ];
        let known = known.into_iter().filter_map(|(shared, id)| Some(Identity { shared, id: id.as_deref()? }));
        known.filter(|identity| !identity.id.is_empty())
    }

    /// Returns the age by the earlier of two end times: the clock of a runner can be set in the middle of a run.
    fn age(&self, now: Timestamp) -> SignedDuration {
        let ended = self.report.started_at.checked_add(self.report.took).unwrap_or(self.report.started_at);
        now.duration_since(self.report.finished_at.min(ended))
    }
}

/// Returns the name of the cluster, as in the report itself and in `--expect`.
pub(crate) fn name(report: &Report) -> String {
    let name = report.sources.name().or_else(|| report.sources.asked()).map(clean);
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "(without a name)".to_owned())
}

/// Keeps problems and causes in full. Checks that passed are only counted, without details.
fn reduced(mut report: Report) -> Report {
    for check in &mut report.checks {
        check.findings = essential(check).into();
        check.left_out.clear();
        if is_brief(check) {
            *check = CheckReport {
                status: check.status,
                findings: std::mem::take(&mut check.findings),
                rounds: if check.status.is_some() { report.rounds } else { 0 },
                ..CheckReport::unjudged(check.check, check.selection)
            };
        }
    }
    report.sources.nodes = Vec::new().into();
    report.history = History::default();
    report
}

fn essential(check: &CheckReport) -> Vec<Finding> {
    let is_kept = |finding: &&Finding| matches!(finding.outcome, Outcome::Problem(_) | Outcome::Blocked(_));
    let mut findings: Vec<Finding> = check.findings.iter().filter(is_kept).cloned().collect();
    if check.findings.iter().any(|finding| matches!(finding.outcome, Outcome::Pass(_))) {
        findings.push(Finding::new(Target::cluster(), Outcome::Pass(None)));
    } else if findings.is_empty() && !check.findings.is_empty() {
        let reason = skip_reason(check).unwrap_or_default();
        findings.push(Finding::new(Target::cluster(), Outcome::Skip(reason)));
    }
    findings
}

/// Whether the check needs no entry of its own, because its name is enough.
pub(crate) fn is_brief(check: &CheckReport) -> bool {
    !check.selection.runs() || matches!(check.status, Some(Status::Pass | Status::Skip))
}

/// From the highest weight to the lowest: one file that cannot be used must not hide an unhealthy cluster.
const PRECEDENCE: [Exit; 6] =
    [Exit::Unhealthy, Exit::Refused, Exit::Configuration, Exit::Undetermined, Exit::Deadline, Exit::Healthy];

fn rank(exit: Exit) -> usize {
    PRECEDENCE.iter().position(|it| *it == exit).unwrap_or(0)
}

pub(crate) fn worse(one: Exit, other: Exit) -> Exit {
    if rank(one) <= rank(other) { one } else { other }
}

/// One cluster, or one file that belongs to none.
pub(crate) struct Row<'a> {
    pub(crate) name: String,
    pub(crate) exit: Exit,
    pub(crate) member: Option<&'a Member>,
    /// Reasons other than its checks why it does not count as healthy.
    pub(crate) concerns: Vec<String>,
    /// Whether the report is out of date, regardless of its content.
    is_outdated: bool,
}

/// The state of the clusters at one time.
pub(crate) struct Overview<'a> {
    pub(crate) merged: &'a Merged,
    /// Sorted from the worst to the best.
    pub(crate) rows: Vec<Row<'a>>,
    pub(crate) exit: Exit,
    pub(crate) missing: Vec<&'a str>,
    /// Notes that do not change the exit code.
    pub(crate) notes: Vec<String>,
}

impl Merged {
    pub(crate) fn of(member: Member) -> Self {
        Self { members: vec![member], ..Self::default() }
    }

    pub(crate) fn unusable(file: &str, why: &str) -> Self {
        Self { unusable: BTreeSet::from([(clean(file), clean(why))]), ..Self::default() }
    }

    pub(crate) fn stored(
        members: Vec<Member>,
        unusable: BTreeSet<(String, String)>,
        expected: Option<BTreeSet<String>>,
        max_age: Option<Duration>,
    ) -> Self {
        Self { members, unusable, expected, max_age }
    }

    pub(crate) fn expecting(self, expected: Option<BTreeSet<String>>, max_age: Option<Duration>) -> Self {
        self.with(Self { expected, max_age, ..Self::default() })
    }

    /// Returns both together.
    pub(crate) fn with(mut self, other: Self) -> Self {
        self.members.extend(other.members);
        self.unusable.extend(other.unusable);
        self.expected = match (self.expected, other.expected) {
            (Some(mut one), Some(more)) => {
                one.extend(more);
                Some(one)
            }
            (one, more) => one.or(more),
        };
        self.max_age = match (self.max_age, other.max_age) {
            (Some(one), Some(more)) => Some(one.min(more)),
            (one, more) => one.or(more),
        };
        self
    }

    pub(crate) fn unusable_files(&self) -> &BTreeSet<(String, String)> {
        &self.unusable
    }

    pub(crate) fn expected(&self) -> Option<&BTreeSet<String>> {
        self.expected.as_ref()
    }

    pub(crate) fn max_age(&self) -> Option<Duration> {
        self.max_age
    }

    pub(crate) fn overview(&self, now: Timestamp) -> Overview<'_> {
        let mut files: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        let mut counted: BTreeMap<String, usize> = BTreeMap::new();
        let mut called: BTreeMap<Identity<'_>, BTreeSet<String>> = BTreeMap::new();
        let mut seen: BTreeMap<(String, &str), BTreeSet<&str>> = BTreeMap::new();
        for member in &self.members {
            files.entry(member.name()).or_default().insert(&member.file);
            *counted.entry(member.name()).or_default() += 1;
            for identity in member.identities() {
                called.entry(identity).or_default().insert(member.name());
                seen.entry((member.name(), identity.shared)).or_default().insert(identity.id);
            }
        }
        // A rotation changes the CA, so two reports with anything in common may still be of one cluster.
        let is_ambiguous = |name: &str| {
            let mut ids = seen.iter().filter(|((of, _), _)| of == name).map(|(_, ids)| ids.len()).peekable();
            ids.peek().is_some() && ids.all(|different| different > 1)
        };
        let mut rows: Vec<Row<'_>> = self.members.iter().map(|member| self.row(member, now)).collect();
        for row in &mut rows {
            if counted[&row.name] > 1 {
                let files = some(files[&row.name].iter(), NAMES);
                let clusters = if is_ambiguous(&row.name) { ", and they are of different clusters" } else { "" };
                let reports = count(counted[&row.name], "report");
                row.doubt(format!("there are {reports} of {}{clusters}: {files}", row.name));
            }
        }
        // A job that uses the credentials of another job has checked that job's cluster.
        for row in &mut rows {
            let shared = row.member.iter().flat_map(|member| member.identities());
            let shared = shared.map(|identity| (identity, &called[&identity])).find(|(_, names)| names.len() > 1);
            if let Some((Identity { shared, .. }, names)) = shared {
                let names = some(names.iter(), NAMES);
                row.doubt(format!("one cluster has several names: {names} {shared}"));
            }
        }
        let missing: Vec<&str> =
            self.expected.iter().flatten().filter(|name| !counted.contains_key(*name)).map(String::as_str).collect();
        rows.extend(missing.iter().map(|name| Row::without_report(name, "missing: there is no report of it")));
        rows.extend(self.unusable.iter().map(|(file, why)| Row::without_report(file, &format!("unreadable: {why}"))));
        rows.sort_by_cached_key(|row| (rank(row.exit), row.name.clone(), row.member.map(Member::key)));
        let exit = rows.iter().map(|row| row.exit).reduce(worse).unwrap_or(Exit::Undetermined);
        let unexpected: Vec<&String> =
            counted.keys().filter(|name| self.expected.as_ref().is_some_and(|it| !it.contains(*name))).collect();
        let mut notes = Vec::new();
        if !unexpected.is_empty() {
            notes.push(format!("not expected: {}", some(unexpected.iter(), NAMES)));
        }
        let names = |is: fn(&Member) -> bool| {
            let names: BTreeSet<_> = self.members.iter().filter(|member| is(member)).map(Member::name).collect();
            (!names.is_empty()).then(|| some(names.iter(), NAMES))
        };
        let times = || self.members.iter().map(|member| member.report.finished_at);
        if let (Some(first), Some(last)) = (times().min(), times().max()) {
            let [first, last] = [first, last].map(|at| at.strftime("%Y-%m-%d %H:%M UTC"));
            notes.push(format!("the runs ended between {first} and {last}"));
        }
        if let Some(names) = names(|member| member.report.is_weakened()) {
            notes.push(format!("weakened by options or a policy: {names}"));
        }
        if self.members.len() > 1
            && let Some(names) = names(|member| member.identities().next().is_none())
        {
            notes.push(format!(
                "the identity of the cluster is unknown for {names}: two names for one cluster would not be noticed"
            ));
        }
        if self.expected.is_none() {
            notes.push("a cluster without a report would go unnoticed; name all clusters with --expect".to_owned());
        }
        Overview { merged: self, rows, exit, missing, notes }
    }

    fn row<'a>(&self, member: &'a Member, now: Timestamp) -> Row<'a> {
        let Member { report, .. } = member;
        let exit = ledger::gate(report);
        let mut row = Row { name: member.name(), exit, member: Some(member), concerns: Vec::new(), is_outdated: false };
        if !report.complete {
            row.doubt("incomplete: the run did not finish".to_owned());
        } else if report.exit == Exit::Healthy && exit != Exit::Healthy {
            row.doubt("nothing was checked".to_owned());
        }
        let age = member.age(now);
        if member.is_of_future {
            row.is_outdated = true;
            row.doubt("it is dated in the future: the clock of its runner or of this machine is wrong".to_owned());
        } else if let Some(most) = self.max_age
            && age > SignedDuration::try_from(most).unwrap_or(SignedDuration::MAX)
        {
            row.is_outdated = true;
            row.doubt(format!("old: it ended {} ago", human(age.unsigned_abs())));
        }
        row
    }
}

impl Member {
    /// Returns the sort key among reports of one cluster.
    fn key(&self) -> (Timestamp, String, String) {
        (self.report.finished_at, self.file.clone(), json::reduced_text(&self.report))
    }
}

impl Row<'_> {
    fn without_report(name: &str, concern: &str) -> Self {
        let concerns = vec![concern.to_owned()];
        Self { name: name.to_owned(), exit: Exit::Undetermined, member: None, concerns, is_outdated: false }
    }

    fn doubt(&mut self, concern: String) {
        self.exit = worse(self.exit, Exit::Undetermined);
        self.concerns.push(concern);
    }

    pub(crate) fn report(&self) -> Option<&Report> {
        self.member.map(|member| &member.report)
    }

    /// Returns the status that the row's mark shows.
    pub(crate) fn status(&self) -> Status {
        match self.exit {
            Exit::Healthy => Status::Pass,
            Exit::Unhealthy => Status::Fail,
            _ => Status::Error,
        }
    }

    /// Returns `healthy`, `unhealthy`, or why the health is unknown.
    pub(crate) fn state(&self) -> &'static str {
        match self.exit {
            Exit::Healthy => "healthy",
            Exit::Unhealthy => "unhealthy",
            Exit::Refused => "refused",
            Exit::Configuration => "not checked",
            Exit::Deadline => "not healthy in time",
            Exit::Undetermined
            | Exit::Usage
            | Exit::NothingChecked
            | Exit::Internal
            | Exit::ReportNotWritten
            | Exit::Hangup
            | Exit::Interrupted
            | Exit::Terminated => "undetermined",
        }
    }
}

impl Overview<'_> {
    /// Whether there is a single row, and its report is not out of date.
    pub(crate) fn is_of_one(&self) -> bool {
        self.rows.len() == 1 && self.rows.iter().all(|row| !row.is_outdated)
    }

    /// Returns the line that people grep for: `unhealthy: 1 unhealthy, 2 undetermined, 17 healthy of 20 clusters, exit code 1`.
    pub(crate) fn verdict(&self) -> String {
        let mut states: Vec<(&str, usize)> = Vec::new();
        for row in &self.rows {
            match states.iter_mut().find(|(state, _)| *state == row.state()) {
                Some((_, n)) => *n += 1,
                None => states.push((row.state(), 1)),
            }
        }
        let states = joined(states.iter().map(|(state, n)| format!("{n} {state}")));
        let result = ledger::result(self.exit).name();
        let all = count(self.rows.len(), "cluster");
        match self.exit {
            Exit::Healthy => format!("{result}: {states} of {all}"),
            _ if self.rows.is_empty() => format!("{result}: no report, exit code {}", self.exit.code()),
            exit => format!("{result}: {states} of {all}, exit code {}", exit.code()),
        }
    }

    /// Returns the table of clusters and stages. A cluster without a report is unknown in every stage.
    pub(crate) fn grid(&self) -> Grid {
        let known: Vec<_> = self.rows.iter().map(|row| (row, row.report().map(stages))).collect();
        let shown =
            |stage: &Stage| known.iter().any(|(_, stages)| stages.as_ref().is_some_and(|it| it.contains_key(stage)));
        let columns: Vec<Stage> = Stage::ALL.into_iter().filter(shown).collect();
        let rows = known.into_iter().map(|(row, stages)| {
            // A stage that passed earlier, or perhaps in another cluster, is not known to pass here and now.
            let doubt = (!row.concerns.is_empty()).then_some(Status::Error);
            let cell = |stage: &Stage| match &stages {
                Some(stages) => {
                    let seen = stages.get(stage).copied().flatten();
                    seen.max(doubt.filter(|_| seen.is_some()))
                }
                None => Some(Status::Error),
            };
            grid::Row {
                target: Target::new(Kind::Workload, row.name.clone()),
                role: None,
                cells: columns.iter().map(cell).collect(),
                found: vec![None; columns.len()],
            }
        });
        Grid { rows: rows.collect(), stages: columns }
    }
}

/// Returns the worst status of each stage that has checks.
fn stages(report: &Report) -> BTreeMap<Stage, Option<Status>> {
    let mut stages: BTreeMap<Stage, Option<Status>> = BTreeMap::new();
    for check in report.checks.iter().filter(|check| check.selection.runs()) {
        let worst = stages.entry(check.check.stage).or_default();
        *worst = (*worst).max(Some(check.shown_status()).filter(|status| *status != Status::Skip));
    }
    stages
}

#[cfg(test)]
mod tests;
