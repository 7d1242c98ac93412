//! Rules for every format and every way in which a run can end.

mod bounds;
mod docs;
mod goldens;
pub(super) mod hostile;
mod junit;
mod schema;
pub(in crate::report) mod sizes;

use serde_json::Value;

use super::format::text;
use super::format::{self, Format};
use super::{CheckReport, NotSelected, Readiness, Report, RunResult, Selection, TextStyle, Weakening, fixture};
use crate::diagnosis::Diagnosis;
use crate::model::{CheckId, Exit, Hint, Problem, Reason, Status};
use crate::snapshot::Upgrade;

fn shown(format: &Format, report: &Report) -> String {
    String::from_utf8(format.render(report, &TextStyle::default()).unwrap()).unwrap()
}

fn styled(report: &Report, style: TextStyle) -> String {
    let mut out = Vec::new();
    text::write(report, &style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn json_of(report: &Report) -> Value {
    serde_json::from_str(&shown(&format::JSON, report)).unwrap()
}

/// Returns the output without the version, for goldens, which outlive a release.
fn versionless(format: &Format, report: &Report) -> String {
    shown(format, report).replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

/// A reader on call needs no more than the tail of a log.
#[test]
fn the_last_lines_name_machine_cause_and_next_command() {
    let mut report = fixture::diagnosed();
    for n in 0..9 {
        let other = Diagnosis { headline: format!("trouble {}", "x".repeat(n)), ..report.diagnoses[0].clone() };
        report.diagnoses.push(other);
    }
    let text = shown(&format::TEXT, &report);
    let lines: Vec<_> = text.lines().collect();
    let last = lines[lines.len() - 10..].join("\n");
    assert!(last.contains("control plane node cp-3 (10.0.0.3) does not answer"), "{last}");
    assert!(last.contains("talosctl --context prod -n 10.0.0.3 version"), "{last}");
    assert!(text.contains("(and 1 more; -v and -o json name each)"), "{text}");
    let verdict = format!("\nunhealthy: {}: 4 failed", super::view::verdict::identity(&report));
    assert!(last.contains(&verdict), "{last}");
}

#[test]
fn an_incomplete_report_never_looks_like_a_success() {
    let mut report = fixture::healthy();
    report.complete = false;
    let parsed = quick_junit::Report::deserialize_from_str(&shown(&format::JUNIT, &report)).unwrap();
    assert_eq!(parsed.errors, 1);
    assert_eq!(json_of(&report)["complete"], false);
}

/// Writes documents for `make integrations`: the inputs for readers of the machine formats, in the folder that `DOCUMENTS` names.
#[test]
#[ignore = "writes files, for `make integrations`"]
fn documents_for_readers() {
    let folder = std::path::PathBuf::from(std::env::var_os("DOCUMENTS").unwrap());
    let mut reports: Vec<_> = fixture::all().into_iter().collect();
    reports.extend([("hostile", hostile::hostile()), ("followed", fixture::followed())]);
    reports.push(("large", fixture::large(1000, 500)));
    for (name, report) in reports {
        for format in [&format::JSON, &format::JUNIT, &format::PROMETHEUS] {
            let name = format!("{}.{}", name.replace([',', ' '], "-"), format.extension);
            std::fs::write(folder.join(name), shown(format, &report)).unwrap();
        }
    }
}

#[test]
fn color_is_only_where_it_was_asked_for() {
    for (_, report) in fixture::all() {
        for format in format::ALL {
            assert!(!shown(format, &report).contains('\u{1b}'));
        }
        let colored = styled(&report, TextStyle { color: true, ..TextStyle::default() });
        assert!(colored.contains('\u{1b}'));
        let mut plain = colored;
        for code in ["0", "1", "1;31", "2", "32", "33", "36"].map(|code| format!("\u{1b}[{code}m")) {
            plain = plain.replace(&code, "");
        }
        assert_eq!(plain, shown(&format::TEXT, &report));
    }
}

#[test]
fn every_offender_is_named_and_hints_are_not_repeated() {
    let mut report = fixture::unhealthy();
    let entry = &mut report.checks[0];
    entry.findings = (1..=40)
        .map(|n| {
            let problem = Problem::fail(Reason::NodeUnreachable, "answers", "connection refused")
                .permanent()
                .hint(Hint::likely("the machine is down"))
                .hint(Hint::run("{talosctl} -n {} version", [&format!("10.0.0.{n}")]));
            fixture::problem(fixture::node(n), problem)
        })
        .collect();
    let of_it = |text: &str| text.split("\n\n").find(|it| it.starts_with("1. ")).unwrap().to_owned();
    let end = of_it(&shown(&format::TEXT, &report));
    assert!(end.starts_with("1. cp-1 (10.0.0.1), cp-2 (10.0.0.2) and 38 more: the endpoint cannot reach"), "{end}");
    assert_eq!(end.matches("the machine is down").count(), 1);
    assert_eq!(end.matches(" version").count(), 2);
    assert!(end.contains("(38 commands more with -v or -o json)"), "{end}");
    assert!(end.contains("waiting does not help"), "{end}");
    assert!(end.lines().all(|line| line.len() <= 110), "{end}");
    let all = of_it(&styled(&report, TextStyle { verbose: true, ..TextStyle::default() }));
    for n in 1..=40 {
        assert!(all.contains(&format!("cp-{n} (10.0.0.{n})")), "{all}");
    }
    assert_eq!(all.matches("the machine is down").count(), 1);
}

/// Half of a change may leave the cluster worse than before.
#[test]
fn a_change_is_shown_whole() {
    let steps = [
        Hint::run("{talosctl} -n {} etcd status", ["10.0.0.1"]),
        Hint::remedy("{talosctl} -n {} etcd snapshot db.snapshot", ["10.0.0.1"]),
        Hint::remedy("{talosctl} -n {} etcd remove-member {}", ["10.0.0.1", "1f"]),
        Hint::remedy("{talosctl} -n {} reset --reboot", ["10.0.0.2"]),
    ];
    let looks = ["status", "members", "alarm list", "snapshot"]
        .map(|what| Hint::run("{talosctl} -n {} etcd {}", ["10.0.0.1", what]));
    for (next, is_whole) in [(steps, true), (looks, false)] {
        let mut report = fixture::diagnosed();
        report.diagnoses[0].next = next.to_vec();
        let text = shown(&format::TEXT, &report);
        assert_eq!(text.contains("  4. talosctl"), is_whole, "{text}");
        assert_eq!(text.contains("more with -v"), !is_whole, "{text}");
    }
}

#[test]
fn a_symptom_points_to_the_end_of_its_chain() {
    let mut report = fixture::unhealthy();
    let proxy =
        Problem::fail(Reason::ComponentNotReady, "Ready", "Running, not ready").explained_by(CheckId::K8sNodesReady);
    let lease = Problem::fail(Reason::NodeLeaseStale, "renewed", "stale").explained_by(CheckId::TalosNodesReachable);
    let set = |report: &mut Report, n: usize, problem| {
        report.checks[n].findings = vec![fixture::problem(fixture::node(3), problem)].into();
        report.checks[n].status = Some(Status::Fail);
    };
    set(&mut report, 8, proxy);
    set(&mut report, 7, lease);
    let text = styled(&report, TextStyle { verbose: true, ..TextStyle::default() });
    let line = "[cp-3 (10.0.0.3)] ERROR k8s.kube-proxy: Running, not ready (see talos.nodes.reachable)";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_reason_to_skip_is_said_once_of_each_check() {
    let mut report = fixture::healthy();
    let skipped = &mut report.checks[8].findings;
    let again = skipped[0].clone();
    skipped.push(again);
    let text = styled(&report, TextStyle { verbose: true, ..TextStyle::default() });
    assert!(
        text.contains("\nk8s.kube-proxy: skipped: kube-proxy is disabled in the machine configuration\n"),
        "{text}"
    );
}

#[test]
fn prerequisites_are_noted() {
    let mut report = fixture::healthy();
    report.checks[0].selection = Selection::Prerequisite;
    report.checks[5].selection = Selection::Prerequisite;
    let text = shown(&format::TEXT, &report);
    assert!(text.contains("\nalso run, as prerequisites: talos.nodes.reachable, k8s.api.endpoint\n"), "{text}");
}

#[test]
fn checks_that_only_files_have_judged_are_one_block() {
    let mut report = fixture::unhealthy();
    report.rounds = 0;
    report.result = RunResult::Error;
    report.exit = Exit::Configuration;
    let text = shown(&format::TEXT, &report);
    assert!(
        text.starts_with("error: talosconfig, kubeconfig, or a certificate or exec plugin in them cannot be used\n"),
        "{text}"
    );
    assert!(!text.contains("Checking") && !text.contains("not checked: "), "{text}");
    assert!(text.contains("\n  check     talos.nodes.reachable failed"), "{text}");
}

#[test]
fn verdict_lines() {
    let verdict = |report: &Report| {
        let text = shown(&format::TEXT, report);
        let first = text.lines().next().unwrap_or_default().to_owned();
        assert_eq!(text.lines().filter(|line| *line == first).count(), 2, "at the top and at the end: {text}");
        first
    };
    let mut report = fixture::healthy();
    let identity = super::view::verdict::identity(&report);
    assert!(
        identity.ends_with(concat!(", 2026-11-21 03:00 UTC, cluster-health ", env!("CARGO_PKG_VERSION"))),
        "{identity}"
    );
    assert_eq!(verdict(&report), format!("healthy: {identity}: 9 passed, 1 skipped in 0.4s (1 round)"));
    report.deadline_reached = true;
    assert!(verdict(&report).ends_with("(1 round), no time for another round before the deadline of 5m00s"));
    report.took = std::time::Duration::from_secs(300);
    assert!(verdict(&report).ends_with("in 5m00s (1 round), deadline of 5m00s reached"));
    report.cut_off = true;
    assert!(verdict(&report).ends_with("(1 round), deadline of 5m00s reached in a later round that did not end"));
    let mut report = fixture::healthy();
    report.targeted = Some((1, 4));
    let expected = format!("healthy (targeted: 1 of 4 nodes): {identity}: 9 passed, 1 skipped in 0.4s (1 round)");
    assert_eq!(verdict(&report), expected);
    let interrupted = fixture::interrupted();
    let seen = "2 failed, 3 undetermined, 2 blocked, 1 warned, 2 passed";
    let identity = super::view::verdict::identity(&interrupted);
    let expected = format!("interrupted (SIGINT): {identity}: after 12s (3 rounds), last complete round: {seen}");
    assert_eq!(verdict(&interrupted), expected);
    // Without a context, the server identifies the cluster; without either, only time and program are known.
    let mut report = fixture::healthy();
    let cluster = |report: &Report| verdict(report).split(", 2026-").next().unwrap_or_default().to_owned();
    assert_eq!(cluster(&report), "healthy: prod (k8s.example:6443)");
    (report.sources.context, report.sources.kube_context) = (None, None);
    assert_eq!(cluster(&report), "healthy: k8s.example:6443");
    report.sources = super::Sources::default();
    assert!(verdict(&report).starts_with("healthy: 2026-"), "{}", verdict(&report));
}

/// A cluster that an upgrade has to wait for is not unhealthy.
#[test]
fn stage_8_has_words_of_its_own() {
    let check = crate::checks::find("upgrade.drain").unwrap();
    let said = |report: &Report| super::view::verdict::word(report);
    let asked = |upgrade: Upgrade| {
        let mut report = fixture::healthy();
        let drain = CheckReport { check, ..report.checks[0].clone() };
        report.checks.push(drain);
        report.asked = upgrade;
        report
    };
    let drain = || asked(Upgrade { drain: Some("worker-1".to_owned()), ..Upgrade::default() });
    let fail = |report: &mut Report, at: usize| {
        (report.result, report.exit) = (RunResult::Unhealthy, Exit::Unhealthy);
        report.checks[at].status = Some(Status::Fail);
    };
    let last = drain().checks.len() - 1;
    assert_eq!(said(&drain()), "healthy, ready: worker-1 can be drained");
    assert_eq!(drain().upgrade_readiness(), Some(Readiness::Ready));
    let mut blocked = drain();
    fail(&mut blocked, last);
    assert_eq!(said(&blocked), "healthy, not ready to drain worker-1");
    assert_eq!(json_of(&blocked)["upgradeReadiness"], "blocked");
    let mut part = blocked.clone();
    part.checks[0].selection = Selection::NotSelected(NotSelected::Check);
    assert_eq!(said(&part), "unhealthy", "nobody has looked at all of the cluster");
    let mut weakened = drain();
    weakened.checks[last].status = Some(Status::Warn);
    assert_eq!(said(&weakened), "healthy, ready: worker-1 can be drained");
    weakened.weakened =
        vec![Weakening { option: "--warn-only upgrade.drain".to_owned(), origin: crate::report::Origin::Flag }];
    assert_eq!((said(&weakened), weakened.upgrade_readiness()), ("healthy".to_owned(), Some(Readiness::Undetermined)));
    fail(&mut blocked, 0);
    assert_eq!(said(&blocked), "unhealthy", "that is more than a drain that has to wait");
    let both =
        Upgrade { talos: Some("1.14.1".to_owned()), kubernetes: Some("1.36.4".to_owned()), ..Upgrade::default() };
    let mut upgrade = asked(both);
    assert_eq!(said(&upgrade), "healthy, ready: it can be upgraded to Talos v1.14.1 and Kubernetes v1.36.4");
    fail(&mut upgrade, last);
    assert_eq!(said(&upgrade), "healthy, not ready for the upgrade to Talos v1.14.1 and Kubernetes v1.36.4");
    assert_eq!((said(&fixture::healthy()), fixture::healthy().upgrade_readiness()), ("healthy".to_owned(), None));
}
