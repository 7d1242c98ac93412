use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::model::{Problem, Reason};
use crate::report::stored::{self, Stored};
use crate::report::{RunResult, TextStyle, fixture, format};

fn now() -> Timestamp {
    "2026-11-21T04:00:00Z".parse().unwrap()
}

/// Returns the report under this cluster name, with the checks of the real catalog.
fn named(name: &str, mut report: Report) -> Report {
    for check in &mut report.checks {
        check.check = crate::checks::find(check.check.id.name()).unwrap();
    }
    report.sources.cluster_name = Some(name.to_owned());
    report
}

fn undetermined(reason: Reason, exit: Exit) -> Report {
    let mut report = fixture::healthy();
    let error = fixture::problem(fixture::node(1), Problem::error(reason, "an answer", "none"));
    report.checks[1].findings.push(error);
    report.checks[1].status = Some(Status::Error);
    (report.exit, report.result) = (exit, RunResult::Undetermined);
    report
}

/// Returns a report of each kind.
fn kinds() -> Vec<Report> {
    let mut late = fixture::healthy();
    (late.exit, late.result, late.deadline_reached) = (Exit::Deadline, RunResult::Undetermined, true);
    let mut old = fixture::healthy();
    old.finished_at = "2026-11-20T04:00:00Z".parse().unwrap();
    let mut early = fixture::healthy();
    early.finished_at = "2026-11-21T05:00:00Z".parse().unwrap();
    vec![
        fixture::healthy(),
        fixture::healthy_with(5),
        fixture::unhealthy(),
        fixture::diagnosed(),
        fixture::followed(),
        fixture::interrupted(),
        fixture::configuration(),
        fixture::nothing_judged(),
        undetermined(Reason::NoAnswer, Exit::Undetermined),
        undetermined(Reason::Forbidden, Exit::Refused),
        late,
        old,
        early,
    ]
}

fn of(name: &str, report: Report) -> Merged {
    Merged::of(Member::new(&format!("{name}.json"), named(name, report), now()))
}

/// Returns a report with a Talos CA that all such reports share.
fn as_one(name: &str) -> Merged {
    let mut report = fixture::healthy();
    report.sources.talos_id = Some("ca-sha256:1f2e".to_owned());
    of(name, report)
}

/// Returns a report that identifies its cluster through the API server alone, as without Talos.
fn by_kubernetes(name: &str, uid: &str) -> Merged {
    let mut report = fixture::healthy();
    report.sources.kube_system_uid = Some(uid.to_owned());
    of(name, report)
}

fn shown(format: &format::Format, merged: &Merged) -> String {
    let mut out = Vec::new();
    format.write_merged(&merged.overview(now()), &TextStyle::default(), &mut out).unwrap().unwrap();
    String::from_utf8(out).unwrap()
}

fn again(merged: &Merged) -> Merged {
    let json = shown(&format::JSON, merged);
    match stored::read(json.as_bytes(), now()) {
        Ok(Stored::Several(merged)) => merged,
        Ok(Stored::One(_)) => panic!("one report: {json}"),
        Err(error) => panic!("{error}: {json}"),
    }
}

fn together(parts: impl IntoIterator<Item = Merged>) -> Merged {
    parts.into_iter().fold(Merged::default(), Merged::with)
}

fn formats() -> impl Iterator<Item = &'static format::Format> {
    [&format::TEXT, &format::JSON, &format::JUNIT, &format::MARKDOWN, &format::PROMETHEUS].into_iter()
}

/// Files of some clusters: a report of any kind, or an unusable file; with or without expectations.
fn part() -> impl Strategy<Value = Merged> {
    let kinds = kinds();
    let report = ("[a-d]", any::<Index>()).prop_map(move |(name, kind)| of(&name, kind.get(&kinds).clone()));
    let same = ("[a-d]", "[0-2]").prop_map(|(name, uid)| match uid.as_str() {
        "0" => as_one(&name),
        uid => by_kubernetes(&name, uid),
    });
    let unusable = "[a-d]\\.json".prop_map(|file| Merged::unusable(&file, "is not JSON"));
    let part = prop_oneof![8 => report, 1 => same, 1 => unusable];
    let expected = proptest::option::weighted(0.2, proptest::collection::btree_set("[a-e]", 1..4));
    let age = proptest::option::weighted(0.2, (1_u64..48).prop_map(|hours| Duration::from_secs(hours * 3600)));
    (part, expected, age).prop_map(|(part, expected, age)| part.expecting(expected, age))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Reports can be merged in any groups and in any order: the reports are the same, and so is every format.
    #[test]
    fn groups_and_order_say_nothing(
        parts in proptest::collection::vec((part(), 0_usize..3, any::<u32>()), 1..7),
    ) {
        let whole = together(parts.iter().map(|(part, ..)| part.clone()));
        let mut shuffled = parts.clone();
        shuffled.sort_by_key(|(_, _, order)| *order);
        let group = |n: usize| shuffled.iter().filter(move |(_, group, _)| *group == n).map(|(part, ..)| part.clone());
        let groups = (0..3).filter(|n| group(*n).next().is_some()).map(|n| again(&together(group(n))));
        let merged = together(groups);
        for format in formats() {
            prop_assert_eq!(shown(format, &whole), shown(format, &merged), "{:?}", format);
        }
    }

    /// The whole is at least as bad as the worst of its parts, and healthy only if each cluster was seen to be.
    #[test]
    fn nothing_gets_better(parts in proptest::collection::vec(part(), 1..7)) {
        let whole = together(parts.clone());
        let exit = whole.overview(now()).exit;
        for part in &parts {
            // One part may have what another lacks.
            let alone = Merged { expected: None, ..part.clone() };
            let alone = alone.overview(now()).exit;
            prop_assert_eq!(worse(exit, alone), exit);
        }
        if exit == Exit::Healthy {
            let names: BTreeSet<String> = whole.members.iter().map(Member::name).collect();
            prop_assert_eq!(names.len(), parts.len());
            prop_assert!(whole.expected.iter().flatten().all(|name| names.contains(name)));
            prop_assert!(whole.members.iter().all(|it| ledger::gate(&it.report) == Exit::Healthy));
        }
    }
}

#[test]
fn each_kind_of_trouble_is_named() {
    let old = Duration::from_secs(7200);
    let expected = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    let kinds = kinds();
    let of = |kind: usize| of("a", kinds[kind].clone());
    for (merged, exit, words) in [
        (of(0).expecting(expected(&["a"]), None), Exit::Healthy, "healthy: 1 healthy of 1 cluster"),
        (of(0), Exit::Healthy, "name all clusters with --expect"),
        (of(2), Exit::Unhealthy, "a: unhealthy"),
        (of(5), Exit::Undetermined, "incomplete: "),
        (of(6), Exit::Configuration, "a: not checked"),
        (of(9), Exit::Refused, "a: refused"),
        (of(10), Exit::Deadline, "a: not healthy in time"),
        (of(11).expecting(None, Some(old)), Exit::Undetermined, "old: it ended 24h ago"),
        (of(12), Exit::Undetermined, "it is dated in the future"),
        (of(0).with(of(1)), Exit::Undetermined, "there are 2 reports of a: a.json"),
        (as_one("a").with(as_one("b")), Exit::Undetermined, "one cluster has several names: a, b were verified"),
        (
            by_kubernetes("a", "1").with(by_kubernetes("b", "1")),
            Exit::Undetermined,
            "one cluster has several names: a, b have the same kube-system (by its UID)",
        ),
        (
            by_kubernetes("a", "1").with(by_kubernetes("a", "2")),
            Exit::Undetermined,
            "there are 2 reports of a, and they are of different clusters: a.json",
        ),
        (of(0).expecting(expected(&["a", "b"]), None), Exit::Undetermined, "missing: there is no report of it"),
        (of(0).expecting(expected(&["b"]), None), Exit::Undetermined, "not expected: a"),
        (of(0).with(Merged::unusable("b.json", "is cut")), Exit::Undetermined, "unreadable: is cut"),
        // One file that cannot be used does not hide the other results.
        (of(2).with(Merged::unusable("b.json", "is cut")), Exit::Unhealthy, "unreadable: is cut"),
        (Merged::default(), Exit::Undetermined, "no report"),
    ] {
        let overview = merged.overview(now());
        let text = shown(&format::TEXT, &merged);
        assert_eq!(overview.exit, exit, "{text}");
        assert!(text.contains(words), "{text}");
    }
}

/// A cluster without a report has a time series, so that an alert finds it.
#[test]
fn a_missing_cluster_is_not_healthy_in_metrics() {
    let merged = of("a", fixture::healthy()).expecting(Some(["a", "b"].map(str::to_owned).into()), None);
    let text = shown(&format::PROMETHEUS, &merged);
    assert!(
        text.contains("cluster_health_healthy{cluster=\"b\"} 0\ncluster_health_healthy{cluster=\"a\"} 1\n"),
        "{text}"
    );
    assert_eq!(text.matches("# TYPE cluster_health_healthy gauge").count(), 1);
}

#[test]
fn two_hundred_clusters_are_a_small_document() {
    let healthy = |n: usize| of(&format!("cluster-{n}"), fixture::large(100, 0));
    let merged = together((0..200).map(healthy));
    let size = shown(&format::JSON, &merged).len();
    assert!(size < 5_000_000, "{size} bytes");
}

#[test]
fn the_worst_cluster_comes_first_with_its_causes() {
    let clusters = (0..3).map(|n| of(&format!("prod-{n}"), kinds()[n * 3].clone()));
    let merged = together(clusters).with(Merged::unusable("x.json", "is cut"));
    let text = shown(&format::TEXT, &merged).replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_snapshot!(text);
}
