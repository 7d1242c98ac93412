//! Metrics in the text format of Prometheus, for node-exporter's textfile collector.
//!
//! The file has the state of the last run, so the time of the last success is carried over from the file that is replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use jiff::Timestamp;

use crate::model::Status;
use crate::report::merged::Overview;
use crate::report::view::grid::Nodes;
use crate::report::view::style::TextStyle;
use crate::report::{CheckReport, Report, RunResult};
use crate::text::sanitize::clean;

const LAST_SUCCESS: &str = "cluster_health_last_success_timestamp_seconds";
/// Maximum number of bytes that are read of an earlier file.
const EARLIER: u64 = 64 * 1024 * 1024;

/// Writes the document.
pub(crate) fn write(report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
    families(&[(cluster(report), Some(report))], true, out)
}

/// Writes the document for a Pushgateway, which has no earlier file to carry the time of the last success over from, but keeps each metric
/// that a later document leaves out.
pub(crate) fn write_posted(report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
    families(&[(cluster(report), Some(report))], is_healthy(report), out)
}

/// Writes several clusters: each family once, with the series of all. A cluster without a report does not count as healthy.
pub(crate) fn write_merged(overview: &Overview<'_>, _: &TextStyle, out: &mut dyn io::Write) -> io::Result<()> {
    // Two reports of one cluster would be two values of one series: the worse one counts, which comes before the other.
    let mut known = BTreeSet::new();
    let rows = overview.rows.iter().filter(|row| known.insert(row.name.as_str()));
    let clusters: Vec<_> =
        rows.map(|row| (row.name.clone(), row.report().filter(|_| row.concerns.is_empty()))).collect();
    families(&clusters, true, out)
}

/// Returns the label of the cluster on every series: without it, the series of two clusters would collide.
fn cluster(report: &Report) -> String {
    let sources = &report.sources;
    clean(sources.name().or_else(|| sources.asked()).unwrap_or_default())
}

/// Clusters by name, each with the report that counts.
type Clusters<'a> = [(String, Option<&'a Report>)];

fn is_healthy(report: &Report) -> bool {
    report.complete && report.result == RunResult::Healthy
}

fn families(clusters: &Clusters<'_>, with_last_success: bool, out: &mut dyn io::Write) -> io::Result<()> {
    let mut metrics = Metrics { clusters, out };
    let is_complete = |report: Option<&Report>| report.is_some_and(|report| report.complete);
    metrics.of_all("healthy", "1 if the cluster was seen to be healthy, 0 otherwise.", |report| {
        u8::from(report.is_some_and(is_healthy)).to_string()
    })?;
    metrics.of_all("complete", "1 if the run finished, 0 while it runs or if it was interrupted.", |report| {
        u8::from(is_complete(report)).to_string()
    })?;
    metrics.many("result", "1 for the result of the run.", |report| {
        RunResult::ALL
            .map(|it| (vec![("result", it.name().to_owned())], u8::from(it == report.result).to_string()))
            .to_vec()
    })?;
    metrics.one("exit_code", "Exit code of the process, as far as known.", |report| report.exit.code().to_string())?;
    metrics.one("duration_seconds", "How long the run took.", |report| format!("{:.3}", report.took.as_secs_f64()))?;
    metrics.one("rounds", "Complete rounds of observation.", |report| report.rounds.to_string())?;
    metrics.one("finished_timestamp_seconds", "When this file was written.", |report| seconds(report.finished_at))?;
    if with_last_success {
        let help = "When a run last saw a healthy cluster; 0 if unknown.";
        metrics.one("last_success_timestamp_seconds", help, |report| {
            let last_success = if is_healthy(report) { Some(report.finished_at) } else { report.last_success };
            last_success.map_or_else(|| "0".to_owned(), seconds)
        })?;
    }
    metrics.many("info", "Version, context and endpoint of the run; always 1.", |report| {
        let text = |text: &Option<String>| clean(text.as_deref().unwrap_or_default());
        let about = vec![
            ("version", clean(&report.tool.version)),
            ("context", text(&report.sources.context)),
            ("server", text(&report.sources.server)),
        ];
        vec![(about, "1".to_owned())]
    })?;
    metrics.many("checks", "Checks by status.", |report| {
        [Status::Pass, Status::Warn, Status::Fail, Status::Error, Status::Blocked, Status::Skip]
            .map(|status| (vec![("status", status.name().to_owned())], report.count(status).to_string()))
            .to_vec()
    })?;
    metrics.one("weakened", "Options and entries of the policy that loosen the verdict.", |report| {
        report.weakened.len().to_string()
    })?;
    metrics.one("excused", "Problems that the policy excuses.", |report| report.accepted().to_string())?;
    let help =
        "0 skipped, 1 passed, 2 warned, 3 blocked, 4 could not be determined, 5 failed; more than 2 is not healthy.";
    metrics.many("check_status", help, |report| {
        report.checks.iter().map(|check| (of_check(check), value(check.shown_status()).to_string())).collect()
    })?;
    metrics.many("node_status", &format!("The worst result of a check for a node: {help}"), of_nodes)
}

fn of_check(check: &CheckReport) -> Labels {
    vec![("check", check.check.id.to_string()), ("stage", check.check.stage.name().to_owned())]
}

fn of_nodes(report: &Report) -> Vec<(Labels, String)> {
    let nodes = Nodes::of(report);
    // Keyed by labels, because two names that are not fit to be shown may look the same: the worse status counts.
    let mut worst: BTreeMap<(usize, String, String), Status> = BTreeMap::new();
    for (n, check) in report.checks.iter().enumerate() {
        for finding in &check.findings {
            if let Some(node) = nodes.find(&finding.target) {
                let target = &nodes.all[node].0;
                let address = target.address.as_deref().unwrap_or_default();
                let status = finding.outcome.status();
                let known = worst.entry((n, clean(&target.name), clean(address))).or_insert(status);
                *known = status.max(*known);
            }
        }
    }
    let series = worst.into_iter().map(|((n, name, address), status)| {
        let mut labels = of_check(&report.checks[n]);
        labels.extend([("node", name), ("address", address)]);
        (labels, value(status).to_string())
    });
    series.collect()
}

/// Returns when a run was last healthy, from the file that this run replaces; `None` for anything that is not such a file.
pub(crate) fn last_success(path: &Path) -> Option<Timestamp> {
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(EARLIER).read_to_string(&mut text).ok()?;
    // The value of a label may contain anything, including blanks and braces; a file of an earlier version has no label.
    let line =
        text.lines().find(|line| line.strip_prefix(LAST_SUCCESS).is_some_and(|it| it.starts_with(['{', ' '])))?;
    let value = line.rsplit_once(' ')?.1;
    let (seconds, milliseconds) = value.split_once('.')?;
    let milliseconds = seconds.parse::<i64>().ok()?.checked_mul(1000)?.checked_add(milliseconds.parse().ok()?)?;
    Timestamp::from_millisecond(milliseconds).ok().filter(|it| *it > Timestamp::UNIX_EPOCH)
}

/// Returns the status as a number. Higher is worse, and anything above a warning does not pass.
fn value(status: Status) -> u8 {
    status as u8
}

fn seconds(time: Timestamp) -> String {
    let milliseconds = time.as_millisecond();
    format!("{}.{:03}", milliseconds.div_euclid(1000), milliseconds.rem_euclid(1000))
}

struct Metrics<'a> {
    clusters: &'a Clusters<'a>,
    out: &'a mut dyn io::Write,
}

/// Names and values of the labels of one series.
type Labels = Vec<(&'static str, String)>;

impl Metrics<'_> {
    /// Writes a value for each cluster, including those without a report that counts.
    fn of_all(&mut self, name: &str, help: &str, value: impl Fn(Option<&Report>) -> String) -> io::Result<()> {
        let series = self.clusters.iter().map(|(cluster, report)| (cluster, Labels::new(), value(*report)));
        family(name, help, series, self.out)
    }

    fn one(&mut self, name: &str, help: &str, value: impl Fn(&Report) -> String) -> io::Result<()> {
        self.many(name, help, |report| vec![(Labels::new(), value(report))])
    }

    fn many(&mut self, name: &str, help: &str, of: impl Fn(&Report) -> Vec<(Labels, String)>) -> io::Result<()> {
        let reports = self.clusters.iter().filter_map(|(cluster, report)| Some((cluster, (*report)?)));
        let series = reports
            .flat_map(|(cluster, report)| of(report).into_iter().map(move |(labels, value)| (cluster, labels, value)));
        family(name, help, series, self.out)
    }
}

/// Writes a gauge with its series, or nothing if there are none.
fn family<'a>(
    name: &str,
    help: &str,
    series: impl Iterator<Item = (&'a String, Labels, String)>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut series = series.peekable();
    if series.peek().is_none() {
        return Ok(());
    }
    writeln!(out, "# HELP cluster_health_{name} {help}\n# TYPE cluster_health_{name} gauge")?;
    for (cluster, labels, value) in series {
        let labels = std::iter::once(("cluster", cluster.clone())).chain(labels);
        let labels: Vec<_> = labels.map(|(key, text)| format!("{key}=\"{}\"", escaped(&text))).collect();
        writeln!(out, "cluster_health_{name}{{{}}} {value}", labels.join(","))?;
    }
    Ok(())
}

/// Escapes the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn shown(report: &Report) -> String {
        let mut out = Vec::new();
        write(report, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_last_success_outlives_a_failure() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut report = fixture::unhealthy();
        for (earlier, expected) in [
            (shown(&fixture::healthy()), Some(fixture::healthy().finished_at)),
            (shown(&fixture::unhealthy()), None),
            (format!("{LAST_SUCCESS} 1795230300.000\n"), Timestamp::from_second(1_795_230_300).ok()),
            (
                format!("{LAST_SUCCESS}{{cluster=\"a b}} 7\"}} 1795230300.000\n"),
                Timestamp::from_second(1_795_230_300).ok(),
            ),
            (format!("{LAST_SUCCESS} x.y\n"), None),
            (format!("{LAST_SUCCESS} 9223372036854775807.0\n"), None),
            (String::new(), None),
        ] {
            std::fs::write(file.path(), earlier).unwrap();
            assert_eq!(last_success(file.path()), expected);
        }
        report.last_success = Some(fixture::healthy().finished_at);
        std::fs::write(file.path(), shown(&report)).unwrap();
        assert_eq!(last_success(file.path()), report.last_success, "and another one");
        assert!(shown(&fixture::unhealthy()).contains(&format!("\n{LAST_SUCCESS}{{cluster=\"prod\"}} 0\n")));
        assert_eq!(last_success(Path::new("/dev/zero")), None, "it has no end");
    }

    #[test]
    fn a_run_that_did_not_end_is_no_success() {
        let mut report = fixture::healthy();
        report.complete = false;
        let text = shown(&report);
        assert!(
            text.contains("\ncluster_health_healthy{cluster=\"prod\"} 0\n")
                && text.contains(&format!("\n{LAST_SUCCESS}{{cluster=\"prod\"}} 0\n")),
            "{text}"
        );
    }

    #[test]
    fn escapes_what_stands_in_labels() {
        assert_eq!(escaped("a\\b\"c\nd"), r#"a\\b\"c\nd"#);
    }
}
