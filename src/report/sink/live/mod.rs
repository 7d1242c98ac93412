//! Progress on stderr during the run.
//!
//! Outside a terminal, only whole lines are appended, and only when something changes or a heartbeat is due. On a terminal, one region
//! below the lines, drawn by indicatif, shows what is pending and for how long; it is cleared at the end, also when a panic unwinds.
//! Nothing here can fail: a closed stderr does not change the verdict.

mod region;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::rc::Rc;
use std::time::Duration;

use self::region::{Region, Row};
use super::ci::Section;
use super::terminal::Size;
use super::why;
use crate::checks::Check;
use crate::engine::event::Event;
use crate::model::{CheckId, Outcome, Reason, Severity, Stage, Status, Verdict};
use crate::report::view::style::{Paint, mark, paint};
use crate::report::view::wording::{count, plural_kind};
use crate::snapshot::{Awaited, Part, Progress, ServerProgress};
use crate::text::clock;
use crate::text::duration::human;
use crate::text::sanitize::{ascii, brief};
use crate::text::{excerpt, joined};

/// Appearance of the progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveStyle {
    pub(crate) color: bool,
    pub(crate) ascii: bool,
    /// Whether only errors are shown.
    pub(crate) quiet: bool,
    /// Whether every check is shown by name, including blocked ones, and every round.
    pub(crate) verbose: bool,
    /// Whether each round is followed by an explanation of each check's verdict.
    pub(crate) why: bool,
    /// Maximum time between two lines, outside a terminal.
    pub(crate) heartbeat: Duration,
    /// `None`: one pass, without waiting.
    pub(crate) wait_timeout: Option<Duration>,
}

/// Maximum number of lines with the same word in one round; more are folded into one.
const LINES: usize = 6;
/// Maximum number of rows of the region that each name a check.
const ROWS: usize = 8;
/// The check that reports what the cluster's own health check finds.
const SERVER: CheckId = CheckId::TalosServer;
/// Maximum number of subjects that the cluster's own health check can report on. Talos has about sixteen.
const SAID: usize = 200;
/// Outside a terminal: when the first round is first reported as in progress, and how often its progress is reported.
const FIRST: Duration = Duration::from_millis(900);
const NEXT: Duration = Duration::from_secs(5);

/// The view and its output.
#[derive(Debug)]
pub(crate) struct Live<W: Write> {
    style: LiveStyle,
    out: W,
    region: Option<Region>,
    section: Option<Section>,
    /// Whether the section was opened and has to be closed.
    is_open: bool,
    /// Last state shown of each check, in catalog order.
    shown: BTreeMap<usize, Shown>,
    last_line: Duration,
    /// Duration of the run, as of the last call.
    now: Duration,
    rounds: u32,
    /// End of the last round.
    judged_at: Duration,
    /// Start of the period in which everything passes, and its required duration.
    stable: Option<(Duration, Duration)>,
    /// Last report of the cluster's own health check on each subject.
    said: BTreeMap<String, String>,
    /// Its last message, during its round.
    saying: Option<String>,
    /// The requests of the round in progress.
    awaited: Rc<Awaited>,
    /// Last text shown about them.
    said_awaited: String,
}

#[derive(Debug)]
struct Shown {
    id: CheckId,
    stage: Stage,
    status: Status,
    word: Word,
    /// When it stopped passing.
    since: Option<Duration>,
    reasons: BTreeSet<Reason>,
    because: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Pass,
    Skip,
    Warn,
    Blocked,
    /// Does not pass, and waiting may help.
    Wait,
    Error,
    Fail,
}

impl Word {
    fn text(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Skip => "skip",
            Self::Warn => "warn",
            Self::Blocked => "block",
            Self::Wait => "wait",
            Self::Error => "error",
            Self::Fail => "fail",
        }
    }

    fn paint(self) -> Paint {
        match self {
            Self::Pass | Self::Skip => Paint::Good,
            Self::Warn | Self::Blocked | Self::Wait => Paint::Caution,
            Self::Error | Self::Fail => Paint::Bad,
        }
    }

    fn is_pending(self) -> bool {
        self > Self::Warn
    }
}

impl<W: Write> Live<W> {
    /// Returns a view that appends lines to `out`.
    pub(crate) fn lines(style: LiveStyle, out: W) -> Self {
        Self {
            style,
            out,
            region: None,
            section: None,
            is_open: false,
            shown: BTreeMap::new(),
            last_line: Duration::ZERO,
            now: Duration::ZERO,
            rounds: 0,
            judged_at: Duration::ZERO,
            stable: None,
            said: BTreeMap::new(),
            saying: None,
            awaited: Rc::default(),
            said_awaited: String::new(),
        }
    }

    /// Returns a view that draws over the terminal `out`. Only allowed where [`super::terminal::redraws`] returns true.
    pub(crate) fn region(style: LiveStyle, out: W, size: fn() -> Size) -> Self {
        let mut live = Self::lines(style, out);
        live.region = (!style.quiet).then(|| Region::new(size, style.ascii));
        live
    }

    /// Puts all lines, if there are any, into this section.
    pub(crate) fn within(mut self, section: Section) -> Self {
        self.section = Some(section);
        self
    }

    /// Returns the requests in progress, for the observer that sends them; the view shows them.
    pub(crate) fn awaited(&self) -> Rc<Awaited> {
        self.awaited.clone()
    }

    /// Whether a spinner is shown, which needs more frames than one per second.
    pub(crate) fn spins(&self) -> bool {
        self.region.is_some() && self.rounds == 0
    }

    /// Writes the first line, which names the context and the deadline.
    pub(crate) fn start(&mut self, context: Option<&str>) {
        let context = context.map(|name| format!("  context {}", brief(name, excerpt::MOST))).unwrap_or_default();
        let deadline = match self.style.wait_timeout {
            Some(limit) => format!("  deadline {}", human(limit)),
            None => "  one pass".to_owned(),
        };
        self.line(&format!("cluster-health {}{context}{deadline}", env!("CARGO_PKG_VERSION")));
        self.redraw();
    }

    pub(crate) fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::ServerSaid { at, said } => self.said(*at, said),
            Event::Round(round) => {
                self.judged(round.number, round.at, round.took, &round.verdicts);
                if self.style.why && !self.style.quiet {
                    for line in why::lines(round) {
                        self.stamped(round.at, "why", Some(line.of), &line.text);
                    }
                }
            }
            Event::StabilityLost { after, because } => {
                let because = joined(because);
                self.line(&format!(
                    "no longer healthy after {}: {because}; the stability period starts over",
                    human(*after)
                ));
            }
            Event::Stable { begun, so_far, wanted } => {
                self.stable = Some((self.judged_at.saturating_sub(*so_far), *wanted));
                if *begun || self.style.verbose {
                    self.line(&format!("healthy for {} of {}", human(*so_far), human(*wanted)));
                }
            }
            // The report contains these.
            Event::Logs(_) | Event::CutOff => {}
            Event::Waiting { next_in } => {
                if self.style.verbose {
                    self.line(&format!("next round in {}", human(*next_in)));
                }
            }
        }
        self.redraw();
    }

    /// Writes a note during the run; not with `-q`.
    pub(crate) fn note(&mut self, text: &str) {
        self.line(&brief(text, crate::text::sanitize::LIMIT));
        self.redraw();
    }

    /// Redraws the region after the terminal was resized.
    pub(crate) fn resized(&mut self, elapsed: Duration) {
        self.now = elapsed;
        self.redraw();
    }

    /// Refreshes the region, or writes the heartbeat if no line was written for long. Has to be called about once a second.
    pub(crate) fn tick(&mut self, elapsed: Duration) {
        self.now = elapsed;
        if self.region.is_some() {
            self.redraw();
        } else if self.rounds == 0 && self.is_news(elapsed) {
            self.said_awaited = self.awaiting();
            let state = self.state(elapsed);
            self.stamped(elapsed, "....", None, &state);
        } else if elapsed.saturating_sub(self.last_line) >= self.style.heartbeat {
            let state = self.state(elapsed);
            self.stamped(elapsed, "....", None, &state);
        }
    }

    /// Whether the first round has progressed since the last line, which was written long enough ago.
    fn is_news(&self, elapsed: Duration) -> bool {
        let pause = if self.said_awaited.is_empty() { FIRST } else { NEXT };
        elapsed.saturating_sub(self.last_line) >= pause && self.awaiting() != self.said_awaited
    }

    /// Returns `endpoints: 3 of 3 answered; nodes: 2 of 4 answered, waiting for cp-2 (10.0.0.2)`.
    fn awaiting(&self) -> String {
        let parts = self.awaited.parts();
        let parts = parts.iter().map(|(part, progress)| format!("{}: {}", title(*part), how_far(progress)));
        parts.collect::<Vec<_>>().join("; ")
    }

    /// Writes a line if the message has news about its subject; the beginning of a wait is news only once.
    fn said(&mut self, at: Duration, said: &ServerProgress) {
        self.now = at;
        let who = if said.hostname.is_empty() { String::new() } else { format!("{}: ", said.hostname) };
        let text = said.error.as_ref().map_or(said.message.as_str(), |gap| &*gap.text);
        let (thing, state) = text.split_once(": ").unwrap_or((text, ""));
        let thing = brief(&format!("{who}{thing}"), excerpt::MOST);
        let state = brief(state, excerpt::MOST);
        let line = if state.is_empty() { thing.clone() } else { format!("{thing}: {state}") };
        let is_news = match self.said.get(&thing) {
            Some(before) => *before != state && state != "...",
            None => self.said.len() < SAID,
        };
        if is_news {
            self.said.insert(thing, state);
        }
        if self.region.is_some() {
            self.saying = Some(line);
        } else if is_news {
            self.stamped(at, "says", Some(SERVER.name()), &line);
        }
    }

    fn judged(&mut self, number: u32, at: Duration, took: Duration, verdicts: &[(&'static Check, Verdict)]) {
        self.rounds = number;
        (self.judged_at, self.now) = (at, at);
        self.saying = None;
        let mut lines: BTreeMap<Word, Vec<(CheckId, String)>> = BTreeMap::new();
        for (n, (check, verdict)) in verdicts.iter().enumerate() {
            let mut next = self.judge(check, verdict, number);
            let before = self.shown.get(&n);
            next.since = before.and_then(|before| before.since).or(Some(at)).filter(|_| next.word.is_pending());
            if before.is_none_or(|before| (before.word, &before.reasons) != (next.word, &next.reasons)) {
                lines.entry(next.word).or_default().push((next.id, next.because.clone()));
            }
            self.shown.insert(n, next);
        }
        if self.shown.values().any(|shown| shown.word.is_pending()) {
            self.stable = None;
        }
        if self.style.verbose {
            let ended = format!("ended after {}", human(took));
            self.stamped(at, "info", Some(&format!("round {number}")), &ended);
        }
        for (word, of) in lines {
            let plain = matches!(word, Word::Pass | Word::Skip | Word::Blocked);
            // The causes of blocked checks are among the lines below.
            let fold = !self.style.verbose && plain && (of.len() > LINES || word != Word::Pass);
            if fold {
                self.painted(at, word, None, &count(of.len(), "check"));
            } else {
                for (id, because) in of {
                    self.painted(at, word, Some(id.name()), &because);
                }
            }
        }
    }

    fn judge(&self, check: &Check, verdict: &Verdict, round: u32) -> Shown {
        let waits = self.style.wait_timeout.is_some();
        let mut reasons = BTreeSet::new();
        let mut told = Vec::new();
        let mut bad = 0;
        let mut healable = true;
        for (target, problem) in verdict.problems() {
            reasons.insert(problem.reason);
            bad += 1;
            healable &= problem.waiting_helps || problem.severity == Severity::Warn;
            if told.len() < 2 {
                told.push(format!(
                    "{}: {}",
                    brief(&target.to_string(), excerpt::MOST),
                    brief(&problem.observed, excerpt::MOST)
                ));
            }
        }
        let word = match verdict.status() {
            Status::Pass => Word::Pass,
            Status::Skip => Word::Skip,
            Status::Warn => Word::Warn,
            Status::Blocked => Word::Blocked,
            Status::Fail | Status::Error if waits && healable => Word::Wait,
            Status::Error => Word::Error,
            Status::Fail => Word::Fail,
        };
        // One target may have several findings; it passes if all of them do.
        let mut targets = BTreeMap::new();
        for finding in &verdict.findings {
            *targets.entry(&finding.target).or_insert(true) &= finding.outcome.status().is_fine();
        }
        let total = targets.len();
        let fine = targets.values().filter(|fine| **fine).count();
        let mut parts = Vec::new();
        if let (Some(first), true) = (verdict.findings.first(), total > 1) {
            let alike = verdict.findings.iter().all(|finding| finding.target.kind == first.target.kind);
            let all = count(total, if alike { plural_kind(first.target.kind) } else { "result" });
            parts.push(if fine == total { all } else { format!("{fine} of {all}") });
        }
        if bad > told.len() {
            told.push(format!("and {} more", bad - told.len()));
        }
        parts.extend(told);
        if bad == 0 {
            for finding in &verdict.findings {
                match &finding.outcome {
                    Outcome::Skip(reason) if word == Word::Skip => {
                        parts.push(brief(reason, excerpt::MOST));
                        break;
                    }
                    Outcome::Blocked(by) => {
                        parts.push(format!("blocked by {by}"));
                        break;
                    }
                    _ => {}
                }
            }
        }
        if total == 0 {
            parts.push("no result".to_owned());
        }
        if word == Word::Pass && round > 1 {
            parts.push(count(round as usize, "round"));
        }
        Shown {
            id: check.id,
            stage: check.stage,
            status: verdict.status(),
            word,
            since: None,
            reasons,
            because: parts.join("; "),
        }
    }

    /// Returns `all passed, stable for 8s of 30s`.
    fn stability(&self, elapsed: Duration) -> Option<String> {
        let (since, wanted) = self.stable?;
        let so_far = elapsed.saturating_sub(since).min(wanted);
        Some(format!("all passed, stable for {} of {}", human(so_far), human(wanted)))
    }

    /// Returns `15 of 16 passed, waiting 30s of 5m00s: k8s.nodes.ready (w-4: container network not ready)`.
    fn state(&self, elapsed: Duration) -> String {
        let waiting = match self.style.wait_timeout {
            Some(limit) => format!("waiting {} of {}", human(elapsed), human(limit)),
            None => format!("after {}", human(elapsed)),
        };
        if self.rounds == 0 {
            let awaiting = self.awaiting();
            let awaiting = if awaiting.is_empty() { awaiting } else { format!(": {awaiting}") };
            return format!("first check in progress, {waiting}{awaiting}");
        }
        if let Some(stability) = self.stability(elapsed) {
            return stability;
        }
        let pending: Vec<_> = self.pending().collect();
        let fine = self.shown.len() - self.shown.values().filter(|shown| shown.word.is_pending()).count();
        let mut named: Vec<_> = pending
            .iter()
            .take(3)
            .map(|shown| format!("{} ({})", shown.id, brief(&shown.because, excerpt::MOST)))
            .collect();
        if pending.len() > named.len() {
            named.push(format!("and {} more", pending.len() - named.len()));
        }
        let named = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
        format!("{fine} of {} passed, {waiting}{named}", self.shown.len())
    }

    /// Returns the checks that the run waits for; blocked ones only if no other is left to name.
    fn pending(&self) -> impl Iterator<Item = &Shown> {
        let causes = self.shown.values().any(|shown| shown.word > Word::Blocked);
        self.shown.values().filter(move |shown| shown.word > Word::Blocked || (!causes && shown.word == Word::Blocked))
    }

    fn painted(&mut self, at: Duration, word: Word, id: Option<&str>, text: &str) {
        let painted = paint(self.style.color, word.paint(), &format!("{:<5}", word.text()));
        self.stamped(at, &painted, id, text);
    }

    fn stamped(&mut self, at: Duration, word: &str, id: Option<&str>, text: &str) {
        let id = id.map(|id| format!("{id:<28}  ")).unwrap_or_default();
        self.last_line = at;
        self.line(format!("[{:>6}] {word:<5} {id}{text}", human(at)).trim_end());
    }

    fn line(&mut self, line: &str) {
        if !self.style.quiet {
            self.emit(line);
        }
    }

    fn emit(&mut self, line: &str) {
        let line = self.ascii(line);
        if let Some(section) = self.section.as_ref().filter(|_| !self.is_open) {
            let open = section.open(clock::now());
            self.is_open = true;
            self.write(&format!("{open}\n"));
        }
        match &mut self.region {
            Some(region) => region.append(&line),
            None => self.write(&format!("{line}\n")),
        }
    }

    fn write(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }

    /// Redraws the region. Called after every possible change of its content, and after lines.
    fn redraw(&mut self) {
        let Some(room) = self.region.as_ref().map(Region::room) else { return };
        let rows = self.rows(self.now, room);
        if let Some(frame) = self.region.as_mut().map(|region| region.frame(rows)) {
            self.write(&frame);
        }
    }

    /// Returns the rows of the region: the progress stage by stage, and what is pending for how long.
    fn rows(&self, elapsed: Duration, room: usize) -> Vec<Row> {
        let saying = self.saying.iter().map(|said| self.plain(&format!("  {SERVER}  {said}")));
        if self.rounds == 0 {
            return self.first_rows(elapsed).into_iter().chain(saying).collect();
        }
        let (fine, all) = (self.shown.values().filter(|shown| !shown.word.is_pending()).count(), self.shown.len());
        let limit = self.style.wait_timeout.map(|limit| format!(" of {}", human(limit))).unwrap_or_default();
        let counts = format!("{fine} of {all} passed, {}{limit}", human(elapsed));
        let mut rows = vec![match (self.stable, self.stability(elapsed)) {
            (Some((since, wanted)), Some(text)) => {
                Row::Bar(text, elapsed.saturating_sub(since).as_secs(), wanted.as_secs())
            }
            _ => Row::Bar(counts, fine as u64, all as u64),
        }];
        rows.push(self.plain(&self.stages()));
        rows.extend(saying);
        let pending: Vec<_> = self.pending().collect();
        let named = match room.saturating_sub(rows.len()).min(ROWS) {
            some if some < pending.len() => some.saturating_sub(1),
            all => all,
        };
        rows.extend(pending.iter().take(named).map(|Shown { id, since, because, .. }| {
            let since = elapsed.saturating_sub(since.unwrap_or(elapsed));
            self.plain(&format!("  {id}  for {}  {because}", human(since)))
        }));
        if pending.len() > named {
            rows.push(self.plain(&format!("  and {} more", pending.len() - named)));
        }
        rows
    }

    /// Returns the rows of the first round, which show the requests that it waits for.
    fn first_rows(&self, elapsed: Duration) -> Vec<Row> {
        let limit = self.style.wait_timeout.map(|limit| format!(" of {}", human(limit))).unwrap_or_default();
        let head = Row::Spinner(format!("first check in progress, {}{limit}", human(elapsed)));
        let parts = self.awaited.parts();
        let parts = parts.iter().map(|(part, progress)| {
            let text = self.ascii(&format!("{:<14}  {}", title(*part), how_far(progress)));
            if progress.pending == 0 { Row::Done(text) } else { Row::Spinner(text) }
        });
        [head].into_iter().chain(parts).collect()
    }

    fn plain(&self, text: &str) -> Row {
        Row::Plain(self.ascii(text))
    }

    fn ascii(&self, text: &str) -> String {
        if self.style.ascii { ascii(text) } else { text.to_owned() }
    }

    /// Returns the worst status of each stage: `connect ✓  ready ✓  etcd ✗`.
    fn stages(&self) -> String {
        let mut stages: BTreeMap<Stage, Status> = BTreeMap::new();
        for shown in self.shown.values() {
            let worst = stages.entry(shown.stage).or_insert(shown.status);
            *worst = shown.status.max(*worst);
        }
        let marked = stages
            .iter()
            .map(|(stage, status)| format!("{} {}", stage.column(), mark(Some(*status), self.style.ascii)));
        marked.collect::<Vec<_>>().join("  ")
    }
}

fn title(part: Part) -> &'static str {
    match part {
        Part::Endpoints => "endpoints",
        Part::Nodes => "nodes",
        Part::Etcd => "external etcd",
        Part::Api => "Kubernetes API",
        Part::Servers => "API servers",
    }
}

/// Returns `2 of 4 answered, 1 failed, waiting for cp-2 (10.0.0.2)`; for a single request, only whether it was answered.
fn how_far(progress: &Progress) -> String {
    let Progress { answered, failed, pending, first } = progress;
    let of = answered + failed + pending;
    let mut parts = match (of, *answered, *failed) {
        (1, 1, _) => vec!["answered".to_owned()],
        (1, _, 1) => vec!["failed".to_owned()],
        (1, ..) => Vec::new(),
        (_, _, 0) => vec![format!("{answered} of {of} answered")],
        _ => vec![format!("{answered} of {of} answered, {failed} failed")],
    };
    let named: Vec<_> = first.iter().map(|name| brief(name, 60)).collect();
    if !named.is_empty() {
        let more = pending - named.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        parts.push(format!("waiting for {}{more}", named.join(", ")));
    }
    parts.join(", ")
}

/// Removes the region and closes the section, however the run ends.
impl<W: Write> Drop for Live<W> {
    fn drop(&mut self) {
        if let Some(frame) = self.region.as_mut().map(Region::end) {
            self.write(&frame);
        }
        if let Some(section) = self.section.take().filter(|_| self.is_open) {
            self.write(&format!("{}\n", section.close(clock::now())));
        }
    }
}
