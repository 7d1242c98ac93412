//! What a browser shows of these pages is tested by `make html`.

use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::checks::Check;
use crate::model::{CheckId, Hint, Outcome, Target};
use crate::report::history::Happened;
use crate::report::{RunResult, fixture};
use crate::snapshot::logs::{Log, Source, Tail};
use crate::text::sanitize::shell_quote;

fn shown(report: &Report) -> String {
    page(report).into_string()
}

/// Without what is a file of its own.
fn body(report: &Report) -> String {
    let html = shown(report).replace(SCRIPT, "").replace(env!("CARGO_PKG_VERSION"), "VERSION");
    html[html.find("<body>").unwrap()..].replace("><", ">\n<")
}

/// Late, flapping, and at last broken in one place.
pub(super) fn late() -> Report {
    let mut report = fixture::diagnosed();
    let down = || "cp-3 (10.0.0.3): unavailable: connection refused".to_owned();
    let told: [(u64, u32, &'static Check, Option<Status>, Status); 16] = [
        (1, 1, &fixture::REACHABLE, None, Status::Fail),
        (1, 1, &fixture::READY, None, Status::Blocked),
        (1, 1, &fixture::SERVICE, None, Status::Blocked),
        (1, 1, &fixture::QUORUM, None, Status::Pass),
        (1, 1, &fixture::TOLERANCE, None, Status::Warn),
        (1, 1, &fixture::ENDPOINT, None, Status::Pass),
        (1, 1, &fixture::PROXY, None, Status::Skip),
        (1, 1, &fixture::SCHEDULER, None, Status::Error),
        (1, 1, &fixture::NODES, None, Status::Fail),
        (41, 9, &fixture::REACHABLE, Some(Status::Fail), Status::Pass),
        (41, 9, &fixture::READY, Some(Status::Blocked), Status::Fail),
        (41, 9, &fixture::SERVICE, Some(Status::Blocked), Status::Pass),
        (96, 20, &fixture::READY, Some(Status::Fail), Status::Pass),
        (96, 20, &fixture::NODES, Some(Status::Fail), Status::Pass),
        (151, 31, &fixture::REACHABLE, Some(Status::Pass), Status::Fail),
        (151, 31, &fixture::NODES, Some(Status::Pass), Status::Fail),
    ];
    for (at, round, check, before, now) in told {
        report.rounds = round;
        let message = (!now.is_fine()).then(down);
        report.happened(Duration::from_secs(at), Happened::Check { check, before, now, reasons: Vec::new(), message });
    }
    report.happened(Duration::from_secs(151), Happened::StabilityLost(vec![CheckId::TalosNodesReachable]));
    report.rounds = 60;
    report
}

/// What would do something if it were taken for more than text.
const INJECTIONS: [&str; 9] = [
    "<script>window.ran = 1</script>",
    "<img src=x onerror=\"window.ran = 1\">",
    "\" autofocus onfocus=\"window.ran = 1\" x=\"",
    "' onmouseover='window.ran = 1' x='",
    "</style></title></script><svg onload=window.ran=1><iframe srcdoc=\"<script>parent.ran=1</script>\">",
    "--><base href=//10.0.0.1/><meta http-equiv=refresh content=\"0;url=javascript:window.ran=1\">",
    "&lt;script&gt;window.ran=1&lt;/script&gt;&#60;script>",
    "javascript:window.ran=1",
    "\u{202e}<b>\u{1b}[31m]]>{{7*7}}${window.ran=1}",
];

/// A report in which everything that others write is this.
fn hostile(text: &str) -> Report {
    let mut report = late();
    let text = || text.to_owned();
    report.error = Some(text());
    report.hint = Some(text());
    report.not_observed = vec![text()];
    report.weakened.iter_mut().for_each(|weak| (weak.option, weak.origin) = (text(), text()));
    report.sources.context = Some(text());
    report.sources.endpoints = vec![text()];
    report.sources.kubeconfig = Some(text());
    report.sources.talosconfig = Some(text());
    report.sources.server = Some(text());
    report.sources.talos_versions = vec![text()];
    report.sources.nodes.iter_mut().for_each(|node| (node.name, node.address) = (text(), text()));
    let target = |target: &mut Target| {
        target.name = text();
        target.address = Some(text());
        target.id = Some(text());
        target.node = Some(text());
    };
    for finding in report.checks.iter_mut().flat_map(|check| &mut check.findings) {
        target(&mut finding.target);
        match &mut finding.outcome {
            Outcome::Pass(line) => *line = Some(text()),
            Outcome::Skip(reason) => *reason = text(),
            Outcome::Blocked(_) => {}
            Outcome::Problem(problem) => {
                (problem.expected, problem.observed) = (text(), text());
                problem.hints = vec![Hint::likely(text()), Hint::run("{talosctl} -n {} version", [&text()])];
            }
        }
    }
    for diagnosis in &mut report.diagnoses {
        diagnosis.headline = "it is down".to_owned();
        for seen in &mut diagnosis.seen {
            target(&mut seen.target);
            seen.observed = text();
        }
        for explained in &mut diagnosis.explains {
            target(&mut explained.target);
            explained.observed = text();
        }
    }
    if let Some(first) = report.diagnoses.first().cloned() {
        report.diagnoses.push(crate::diagnosis::Diagnosis { headline: text(), ..first });
    }
    for entry in report.history.entries_mut() {
        if let Happened::Check { message, .. } = &mut entry.happened {
            *message = Some(text());
        }
    }
    let log = |of| Log { node: text(), of };
    report.logs = vec![
        Tail { log: log(Source::Service(text())), lines: Ok(vec![text()]) },
        Tail { log: log(Source::Container { pod: text(), container: text() }), lines: Ok(vec![text(), text()]) },
    ];
    report
}

/// Everything between `<` and `>`, but the values of attributes that quote others.
fn tags(html: &str) -> Vec<&str> {
    html.split('<').skip(1).map(|rest| &rest[..rest.find('>').unwrap()]).collect()
}

#[test]
fn golden() {
    insta::assert_snapshot!(body(&late()));
}

#[test]
fn without_a_round_the_reason_is_all_there_is() {
    for (name, report) in fixture::all() {
        let html = body(&report);
        let judged = report.is_judged();
        assert_eq!(html.contains("id=\"nodes\""), judged, "{name}");
        assert!(html.contains(&format!("<h1>{} ", report.result.name())), "{name}");
        assert!(!html.contains("id=\"timeline\""), "{name}: nothing is known of what was before");
    }
    assert!(body(&fixture::configuration()).contains("could not read `/home/ci/talosconfig`: no such file"));
    assert!(body(&fixture::interrupted()).contains("The run has not finished"));
}

#[test]
fn what_others_write_is_text_and_nothing_else() {
    for injection in INJECTIONS {
        // A command with something in it that is not fit for a terminal is left out.
        let harmless = if shell_quote(injection).is_some() { "cp-3" } else { "cp-3\n" };
        let html = shown(&hostile(injection));
        assert_eq!(tags(&html), tags(&shown(&hostile(harmless))), "{injection}");
        assert!(!html.contains('\u{202e}') && !html.contains('\u{1b}'));
    }
}

#[test]
fn the_policy_allows_the_style_sheet_and_the_script_alone() {
    let html = shown(&late());
    let between = |from: &str, to: &str| {
        let begin = html.find(from).unwrap() + from.len();
        &html[begin..begin + html[begin..].find(to).unwrap()]
    };
    let policy = between("http-equiv=\"Content-Security-Policy\" content=\"", "\"");
    let (style, script) = (digest(between("<style>", "</style>")), digest(between("<script>", "</script>")));
    assert_eq!(
        policy,
        format!("default-src 'none'; style-src '{style}'; script-src '{script}'; base-uri 'none'; form-action 'none'")
    );
    assert_eq!(digest(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    assert!(html.find("Content-Security-Policy").unwrap() < html.find("<style>").unwrap(), "it binds what follows it");
    // What the policy would refuse, and what would ask somebody for something.
    for tag in tags(&html.replace(SCRIPT, "").replace(STYLE, "")) {
        for attribute in [" style=", " on", " src=", " href=\"h", " action=", " xlink:"] {
            assert!(!tag.contains(attribute), "{tag}");
        }
    }
    assert!(!STYLE.contains("url(") && !STYLE.contains("@import") && !STYLE.contains("</"));
}

#[test]
fn a_thousand_nodes_are_less_than_two_mebibytes() {
    for bad in [0, 1, 300, 1000] {
        let size = shown(&fixture::large(1000, bad)).len();
        assert!(size < 2 << 20, "{bad} of 1000 are down: {size} bytes");
    }
    let names: Vec<String> =
        fixture::large(1000, 300).sources.nodes.into_iter().take(300).map(|node| node.name).collect();
    let html = shown(&fixture::large(1000, 300));
    let problems = &html[html.find("id=\"problems\"").unwrap()..html.find("id=\"nodes\"").unwrap()];
    assert!(names.iter().all(|name| problems.contains(name)), "every node with a problem is named");
}

/// For `make html`: pages for a browser, in the folder that `HTML_PAGES` names.
#[test]
#[ignore = "writes files, for `make html`"]
fn pages_for_a_browser() {
    let folder = PathBuf::from(std::env::var_os("HTML_PAGES").unwrap());
    let mut pages = vec![("late".to_owned(), late())];
    pages.extend(fixture::all().map(|(name, report)| (name.replace([',', ' '], "-"), report)));
    pages.extend(INJECTIONS.iter().enumerate().map(|(n, text)| (format!("hostile-{n}"), hostile(text))));
    let mut healthy = fixture::large(1000, 0);
    healthy.result = RunResult::Healthy;
    pages.extend([("large-healthy".to_owned(), healthy), ("large".to_owned(), fixture::large(1000, 300))]);
    for (name, report) in pages {
        std::fs::write(folder.join(format!("{name}.html")), shown(&report)).unwrap();
    }
}
