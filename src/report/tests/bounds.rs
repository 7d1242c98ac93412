//! The maximum size of the report of a run that waits for a day.

use std::time::Duration;

use super::super::format;
use super::super::history::{self, Happened};
use super::super::{Report, fixture};
use super::shown;
use crate::model::{CheckId, Problem, Reason, Status};

const DAY: Duration = Duration::from_secs(86_400);
/// Default interval of rounds.
const INTERVAL: Duration = Duration::from_secs(5);
const HEARTBEAT: Duration = Duration::from_secs(30);
const KIBIBYTE: usize = 1024;

/// Returns a report of rounds for a day, in which the first `flapping` checks change each time; if all do, stability is lost each time,
/// too.
fn day(flapping: usize) -> Report {
    let mut report = fixture::large(100, 0);
    let checks = report.checks.clone();
    let down = [fixture::problem(
        fixture::node(3),
        Problem::fail(Reason::NodeUnreachable, "answers", "rpc error: code = Unavailable desc = connection refused"),
    )];
    let flapping = flapping.min(report.checks.len());
    for at in (1..=17_280).map(|round| INTERVAL * round) {
        report.rounds += 1;
        report.took = at;
        let is_down = report.rounds % 2 == 1;
        for n in 0..flapping {
            let findings = if is_down { &down[..] } else { &[] };
            let now = if is_down { Status::Fail } else { Status::Pass };
            let change = history::change(&report.checks[n], now, findings).unwrap();
            report.checks[n].status = Some(now);
            report.happened(at, change);
        }
        if is_down && flapping == report.checks.len() {
            report.happened(at, Happened::StabilityLost(vec![CheckId::TalosNodesReachable]));
        }
        report.round_ended(at);
        report.heartbeat(at, HEARTBEAT);
    }
    assert_eq!(report.took, DAY);
    report.checks = checks;
    report.happened(DAY, Happened::Finished);
    report
}

/// Returns the size of all lines but the last, which has the JSON report.
fn events(report: &Report) -> usize {
    let text = shown(&format::NDJSON, report);
    text.len() - text.trim_end().rsplit('\n').next().unwrap().len()
}

#[test]
fn a_day_of_one_flapping_check_is_little_to_tell() {
    let (still, flapping) = (day(0), day(1));
    for format in [&format::JUNIT, &format::TEXT, &format::MARKDOWN, &format::PROMETHEUS] {
        let (still, flapping) = (shown(format, &still).len(), shown(format, &flapping).len());
        assert_eq!(flapping, still, "{format:?} tells of more than the last round");
    }
    for format in [&format::HTML, &format::JSON] {
        let more = shown(format, &flapping).len() - shown(format, &still).len();
        assert!(more < 128 * KIBIBYTE, "{format:?}: {more} bytes");
    }
    // Most of it is heartbeats, which name the checks that the run waits for.
    let ndjson = events(&flapping);
    assert!(ndjson < 1024 * KIBIBYTE, "{ndjson} bytes");
}

#[test]
fn a_day_in_which_every_check_flaps_is_bounded() {
    let report = day(usize::MAX);
    let (html, ndjson) = (shown(&format::HTML, &report).len(), events(&report));
    assert!(html < 1024 * KIBIBYTE, "{html} bytes");
    let json = shown(&format::JSON, &report).len() - shown(&format::JSON, &day(0)).len();
    assert!(json < 1024 * KIBIBYTE, "{json} bytes");
    assert!(ndjson < 10240 * KIBIBYTE, "{ndjson} bytes");
}
