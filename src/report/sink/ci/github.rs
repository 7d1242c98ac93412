//! GitHub reads commands in the log of a step, and Markdown from a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::model::{Exit, Severity};
use crate::report::Report;
use crate::report::format::MARKDOWN;
use crate::report::sink::files::{Identity, IsRead};
use crate::report::view::causes::{self, STEPS};
use crate::report::view::index::Index;
use crate::report::view::style::TextStyle;
use crate::report::view::verdict;
use crate::report::view::wording::{count, field};
use crate::text::sanitize::{brief, clean};

/// Annotations of one level, apart from the one that sums up: a step shows ten of each level, and other programs of the step add some, too.
const ANNOTATIONS: usize = 8;
/// Maximum length of an annotation's message, in characters: the runner cuts at 4096.
const MESSAGE: usize = 4000;
/// Maximum size of the file with a step's summary, in bytes: a larger one is rejected as a whole.
const SUMMARY: u64 = 1024 * 1024;

/// A statement to annotate.
struct Remark {
    severity: Severity,
    /// ID of a check or a cause, or the name of the program.
    id: &'static str,
    lines: Vec<String>,
}

/// Writes one command per line: the problems, the most important first, and last the verdict if it is not a good one.
pub(super) fn annotate(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let style = TextStyle::default();
    let (errors, warnings): (Vec<_>, Vec<_>) =
        remarks(report).into_iter().partition(|remark| remark.severity > Severity::Warn);
    for (level, remarks) in [("error", &errors), ("warning", &warnings)] {
        for Remark { id, lines, .. } in remarks.iter().take(ANNOTATIONS) {
            command(level, id, lines, out)?;
        }
    }
    let mut more = Vec::new();
    if warnings.len() > ANNOTATIONS {
        command("warning", "cluster-health", &[others(&warnings)], out)?;
    }
    if errors.len() > ANNOTATIONS {
        more.push(others(&errors));
    }
    if report.exit != Exit::Healthy {
        let mut lines = vec![verdict::line(report, &style)];
        verdict::notes(report, &style, &mut lines);
        lines.extend(more);
        command("error", "cluster-health", &lines, out)?;
    }
    out.flush()
}

/// Returns `3 more: etcd.service, k8s.dns, k8s.nodes.ready`.
fn others(remarks: &[Remark]) -> String {
    let ids: Vec<_> = remarks.iter().skip(ANNOTATIONS).map(|remark| remark.id).collect();
    format!("{} more: {}", ids.len(), ids.join(", "))
}

/// Returns the causes that were recognized, then the problems that they do not explain.
fn remarks(report: &Report) -> Vec<Remark> {
    let style = TextStyle::default();
    let mut remarks = Vec::new();
    for cause in causes::of(&Index::of(report), &style) {
        let lines = [cause.headline.clone()].into_iter().chain(cause.lines(STEPS, &style)).collect();
        remarks.push(Remark { severity: cause.severity, id: cause.id, lines });
    }
    // A run that ended before any request has nothing but its error.
    if let Some(hint) = report.hint.as_deref().filter(|_| remarks.is_empty() && report.exit != Exit::Healthy) {
        let error = report.error.as_deref().unwrap_or(report.exit.meaning());
        let lines = vec![clean(error), field("hint", &clean(hint))];
        remarks.push(Remark { severity: Severity::Fail, id: "cluster-health", lines });
    }
    remarks
}

fn command(level: &str, title: &str, lines: &[String], out: &mut impl Write) -> io::Result<()> {
    let mut message = String::new();
    let mut length = 0;
    for (n, line) in lines.iter().enumerate() {
        let line = line.trim_end();
        length += line.chars().count() + 1;
        if length > MESSAGE {
            let text = if n == 0 { brief(line, MESSAGE) } else { "\n…".to_owned() };
            message.push_str(&text);
            break;
        }
        if n > 0 {
            message.push('\n');
        }
        message.push_str(line);
    }
    writeln!(out, "::{level} title={}::{}", property(title), data(&message))
}

/// Escapes text the way the runner unescapes it.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// The summary of the step, which other programs of the step may have begun. Opened at the start: a file that appears under its name later
/// is not written to.
pub(crate) struct Summary {
    shown: PathBuf,
    file: io::Result<File>,
}

impl Summary {
    /// Opens the summary. `None`: the file is an input, which is known for sure only of an open file.
    pub(crate) fn open(path: &Path, is_read: IsRead) -> Option<Self> {
        let file = open(path);
        let found = file.as_ref().ok().and_then(|file| file.metadata().ok());
        let is_input = found.is_some_and(|found| is_read(&Identity::Is(found.dev(), found.ino())));
        (!is_input).then(|| Self { shown: path.to_owned(), file })
    }

    pub(super) fn append(self, report: &Report) -> anyhow::Result<()> {
        let written = self.file.and_then(|file| append(report, file));
        written.with_context(|| format!("could not write the step summary `{}`", self.shown.display()))
    }
}

fn open(path: &Path) -> io::Result<File> {
    let is_other = || Err(io::Error::other("not a regular file"));
    match fs::metadata(path) {
        // Opening a pipe that is never read would never end.
        Ok(found) if !found.is_file() => return is_other(),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { is_other() }
}

fn append(report: &Report, mut file: File) -> io::Result<()> {
    let written = file.metadata()?.len();
    let fits = |document: &[u8]| document.len() as u64 <= SUMMARY.saturating_sub(written);
    let mut document = b"\n".to_vec();
    // The page may be public, while logs were requested for files that only their owner can read.
    let report = &Report { logs: Vec::new(), ..report.clone() };
    document.extend(MARKDOWN.render(report, &TextStyle::default())?);
    if !fits(&document) {
        // The heading contains the verdict.
        document.truncate(document.iter().skip(1).position(|byte| *byte == b'\n').map_or(0, |end| end + 2));
        document.extend(format!("\n({}; the log has them)\n", count(report.checks.len(), "check")).bytes());
    }
    if !fits(&document) {
        return Err(io::Error::other("it has no space left"));
    }
    file.write_all(&document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Problem, Reason};
    use crate::report::fixture;
    use crate::report::tests::hostile::{HARMLESS, INJECTIONS, with};

    fn annotations(report: &Report) -> String {
        let mut out = Vec::new();
        annotate(report, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_cause_comes_first_and_the_verdict_last() {
        insta::assert_snapshot!(annotations(&fixture::diagnosed()).replace(env!("CARGO_PKG_VERSION"), "VERSION"));
    }

    #[test]
    fn only_a_success_has_no_error() {
        assert_eq!(annotations(&fixture::healthy()), "");
        for (name, report) in fixture::all() {
            let text = annotations(&report);
            assert_eq!(text.contains("::error "), report.exit != Exit::Healthy, "{name}: {text}");
        }
    }

    #[test]
    fn no_level_has_more_than_a_step_shows() {
        let mut report = fixture::unhealthy();
        for (n, entry) in report.checks.iter_mut().enumerate() {
            let problem = Problem::fail(Reason::NodeNotReady, "well", "ill ".repeat(5000));
            let warning = Problem::warn(Reason::NoTolerance, "well", format!("100% of {n}"));
            let (one, other) = (fixture::node(1), fixture::node(2));
            entry.findings = vec![fixture::problem(one, problem), fixture::problem(other, warning)].into();
        }
        let text = annotations(&report);
        for level in ["error", "warning"] {
            let lines: Vec<_> = text.lines().filter(|line| line.starts_with(&format!("::{level} "))).collect();
            assert_eq!(lines.len(), ANNOTATIONS + 1, "{text}");
            assert!(lines[ANNOTATIONS].contains("2 more: "), "{text}");
            assert!(lines.iter().all(|line| line.chars().count() <= 4096 * 3), "{text}");
        }
        assert!(text.contains("100%25 of 1"), "{text}");
        let longest = text.lines().map(|line| line.replace("%0A", "\n").replace("%25", "%").chars().count()).max();
        assert!(longest.unwrap() <= 4096, "{longest:?}");
    }

    /// Foreign text of any kind leaves the number, levels and titles of the commands as they are with harmless words.
    #[test]
    fn no_injection_changes_the_commands() {
        let form = |text: &str| -> Vec<String> {
            let commands = text.lines().map(|line| line.strip_prefix("::").unwrap().split_once("::").unwrap());
            commands
                .map(|(command, data)| {
                    assert!(!data.contains("##["), "{data}");
                    command.to_owned()
                })
                .collect()
        };
        for (aim, injection) in INJECTIONS {
            let text = annotations(&with(injection));
            assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{aim}: {text:?}");
            assert_eq!(form(&text), form(&annotations(&with(HARMLESS))), "{aim}");
        }
    }

    #[test]
    fn the_summary_is_appended_as_far_as_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summary");
        let limit = usize::try_from(SUMMARY).unwrap();
        let report = fixture::diagnosed();
        let whole = String::from_utf8(MARKDOWN.render(&report, &TextStyle::default()).unwrap()).unwrap();
        let heading = whole.lines().next().unwrap();
        let after = |before: usize| {
            fs::write(&path, "x".repeat(before)).unwrap();
            let written = Summary::open(&path, |_| false).unwrap().append(&report);
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.len() <= limit, "GitHub would refuse all of it");
            (written.is_ok(), text[before..].to_owned())
        };
        assert_eq!(after(0), (true, format!("\n{whole}")));
        assert_eq!(after(limit - whole.len() - 1), (true, format!("\n{whole}")));
        let (written, text) = after(limit - whole.len());
        assert!(
            written && text.starts_with(&format!("\n{heading}\n")) && text.ends_with("checks; the log has them)\n")
        );
        assert_eq!(after(limit - 10), (false, String::new()));
        fs::remove_file(&path).unwrap();
        Summary::open(&path, |_| false).unwrap().append(&report).unwrap();
        assert!(Summary::open(&path, |_| true).is_none());
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("\n{whole}"));
        for no_file in [folder.path(), Path::new("/dev/full"), Path::new("/proc/no/such"), &path.join("below")] {
            let error = Summary::open(no_file, |_| false).unwrap().append(&report).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(&format!("step summary `{}`: ", no_file.display())), "{error}");
        }
    }
}
