//! Tests of the text of these pages; `make html` tests how a browser shows them.

use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::checks::Check;
use crate::model::{CheckId, Exit, Hint, Outcome, Status, Target};
use crate::report::history::Happened;
use crate::report::merged::{Member, Merged};
use crate::report::tests::sizes::Size;
use crate::report::{Origin, RunResult, fixture};
use crate::snapshot::logs::{Log, Source, Tail};
use crate::text::sanitize::shell_quote;

fn shown(report: &Report) -> String {
    page(report).into_string()
}

/// Returns the body without the script, which is a file of its own.
fn body(report: &Report) -> String {
    let html = shown(report).replace(SCRIPT, "").replace(env!("CARGO_PKG_VERSION"), "VERSION");
    html[html.find("<body>").unwrap()..].replace("><", ">\n<")
}

/// Returns the report of a run that was late, flapped, and in the end was broken in one place.
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

/// Injections that would have an effect if they were taken for more than text.
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

/// Returns a report in which everything that others write is this text.
fn hostile(text: &str) -> Report {
    let mut report = late();
    let text = || text.to_owned();
    report.error = Some(text());
    report.hint = Some(text());
    report.not_observed = vec![text()];
    report.weakened.iter_mut().for_each(|weak| (weak.option, weak.origin) = (text(), Origin::Variable(text())));
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

/// Returns everything between `<` and `>`.
fn tags(html: &str) -> Vec<&str> {
    html.split('<').skip(1).map(|rest| &rest[..rest.find('>').unwrap()]).collect()
}

/// Returns the page without the numbers of lines, which depend on the length of a text.
fn unmeasured(html: &str) -> String {
    (0..=5).fold(html.to_owned(), |html, n| html.replace(&format!(" lines-{n}\""), "\""))
}

/// Sites that links may lead to.
const DOCUMENTS: [&str; 4] =
    [crate::model::SITE, "https://docs.siderolabs.com/", "https://etcd.io/docs/", "https://kubernetes.io/"];

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
        // A command that contains something unfit for a terminal is left out.
        let harmless = if shell_quote(injection).is_some() { "cp-3" } else { "cp-3\n" };
        let html = shown(&hostile(injection));
        assert_eq!(tags(&unmeasured(&html)), tags(&unmeasured(&shown(&hostile(harmless)))), "{injection}");
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
    // No tag has anything that the policy would refuse, or that would send a request. Links lead to documents, and do not reveal where they
    // come from.
    for tag in tags(&html.replace(SCRIPT, "").replace(STYLE, "")) {
        for attribute in [" style=", " on", " src=", " action=", " xlink:"] {
            assert!(!tag.contains(attribute), "{tag}");
        }
        if let Some((_, address)) = tag.split_once(" href=\"h") {
            assert!(address.ends_with(" rel=\"noreferrer\"") && tag.starts_with("a "), "{tag}");
            assert!(DOCUMENTS.iter().any(|site| format!("h{address}").starts_with(site)), "{tag}");
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
    let problems = &html[html.find("id=\"causes\"").unwrap()..html.find("id=\"nodes\"").unwrap()];
    assert!(names.iter().all(|name| problems.contains(name)), "every node with a problem is named");
}

/// Returns the IDs of all elements.
fn anchors(html: &str) -> Vec<&str> {
    tags(html).iter().filter_map(|tag| tag.split_once(" id=\"")?.1.split('"').next()).collect()
}

#[test]
fn every_link_within_the_page_leads_somewhere() {
    let mut reports: Vec<_> = fixture::all().map(|(_, report)| report).into_iter().collect();
    reports.extend([late(), fixture::large(1000, 300), hostile("cp-3")]);
    for report in reports {
        let html = shown(&report);
        let anchors = anchors(&html);
        let unique: std::collections::BTreeSet<_> = anchors.iter().collect();
        assert_eq!(unique.len(), anchors.len(), "an id is there once");
        for tag in tags(&html) {
            if let Some((_, rest)) = tag.split_once(" href=\"#") {
                let anchor = rest.split('"').next().unwrap();
                assert!(anchors.contains(&anchor), "{tag}");
            }
        }
    }
}

/// The first check is one that failed, with its expectation, its observation, the reason, and a link to the steps.
#[test]
fn what_failed_is_the_first_check() {
    let html = body(&late());
    let checks = &html[html.find("id=\"checks\"").unwrap()..];
    let first = &checks[checks.find("<details").unwrap()..];
    assert!(first.starts_with("<details class=\"check\" data-status=\"fail\">"), "{}", &first[..200]);
    let first = &first[..first.find("</details>").unwrap()];
    for expected in [">fail<", "class=\"expected\"", "reference/reasons/", "href=\"#cause-"] {
        assert!(first.contains(expected), "{expected} in {first}");
    }
}

/// The page opens with the causes, whatever else it contains.
#[test]
fn the_first_section_has_the_causes() {
    for (name, report) in fixture::all().into_iter().filter(|(_, report)| report.result == RunResult::Unhealthy) {
        let html = body(&report);
        let first = &html[html.find("<section").unwrap()..];
        assert!(first.starts_with("<section id=\"causes\""), "{name}");
    }
}

/// Returns a fleet: each cluster by its name, with its problems.
fn fleet(names: &[&str]) -> Merged {
    let reports = || fixture::all().into_iter().map(|(_, report)| report).cycle();
    let members = names.iter().zip(reports()).map(|(name, mut report)| {
        report.sources.cluster_name = Some((*name).to_owned());
        Merged::of(Member::new(&format!("{name}.json"), report.clone(), report.finished_at))
    });
    members.fold(Merged::unusable("z.json", names[0]), Merged::with)
}

fn shown_fleet(merged: &Merged) -> String {
    clusters::page(&merged.overview(late().finished_at)).into_string()
}

#[test]
fn a_fleet_has_a_card_for_each_cluster_that_is_not_healthy() {
    let merged = fleet(&["a", "b", "c", "d", "e", "f", "g", "h"]);
    let html = shown_fleet(&merged);
    let bad = merged.overview(late().finished_at).rows.iter().filter(|row| row.exit != Exit::Healthy).count();
    assert_eq!(html.matches("class=\"card ").count(), bad);
    assert!(html.contains("unreadable: a"));
    for injection in INJECTIONS {
        let html = shown_fleet(&fleet(&[injection]));
        assert_eq!(tags(&html), tags(&shown_fleet(&fleet(&["a"]))), "{injection}");
    }
}

/// Each cell of the grid that has a status links to the check that found it.
#[test]
fn cells_lead_to_what_was_found() {
    let html = body(&fixture::unhealthy());
    let grid = &html[html.find("class=\"grid\"").unwrap()..html.find("class=\"legend\"").unwrap()];
    let cells = |class: &str| grid.matches(&format!("<td class=\"{class}\">\n<a href=\"#check-")).count();
    assert!(cells("fail") > 0 && cells("pass") > 0, "{grid}");
    assert_eq!(cells("fail"), grid.matches("<td class=\"fail\">").count());
}

#[test]
fn a_line_of_time_without_a_change_is_not_drawn() {
    let html = body(&late());
    let timeline = &html[html.find("id=\"timeline\"").unwrap()..];
    let timeline = &timeline[..timeline.find("</section>").unwrap()];
    assert_eq!(timeline.matches("<svg").count(), 5, "all checks, and the four that changed: {timeline}");
    assert!(timeline.contains(" failed or undetermined from the first round on."), "{timeline}");
}

/// Writes pages for a browser, for `make html`, to the folder that `HTML_PAGES` names.
#[test]
#[ignore = "writes files, for `make html`"]
fn pages_for_a_browser() {
    let folder = PathBuf::from(std::env::var_os("HTML_PAGES").unwrap());
    let mut pages = vec![("late".to_owned(), late())];
    pages.extend(fixture::all().map(|(name, report)| (name.replace([',', ' '], "-"), report)));
    pages.extend(INJECTIONS.iter().enumerate().map(|(n, text)| (format!("hostile-{n}"), hostile(text))));
    let mut healthy = fixture::large(1000, 0);
    healthy.result = RunResult::Healthy;
    // In these reports, checks are really judged, and causes are really found.
    let judged = |nodes, failures| Report { started_at: late().started_at, ..Size { nodes, failures }.report() };
    pages.extend([("four".to_owned(), judged(4, 1)), ("thousand".to_owned(), judged(1000, 500))]);
    pages.extend([("large-healthy".to_owned(), healthy), ("large".to_owned(), fixture::large(1000, 300))]);
    let names: Vec<String> = (1..=20).map(|n| format!("prod-{n}")).collect();
    let fleet = shown_fleet(&fleet(&names.iter().map(String::as_str).collect::<Vec<_>>()));
    std::fs::write(folder.join("fleet.html"), fleet).unwrap();
    for (name, report) in pages {
        std::fs::write(folder.join(format!("{name}.html")), shown(&report)).unwrap();
    }
}
