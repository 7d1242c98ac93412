//! `--check ID`: a check on its own finds the same problems as in a whole run, and does not pass if their evidence is lost.

use std::collections::{BTreeMap, BTreeSet};

use crate::assess::Assessment;
use crate::checks::{self, Check};
use crate::engine;
use crate::model::{CheckId, Stage, Status};
use crate::plan::selection::{Wanted, select};
use crate::snapshot::{GapKind, Snapshot};
use crate::testing::laws::corruption::sick;
use crate::testing::laws::exceptions::SECRET;
use crate::testing::laws::monotony::failing;
use crate::testing::laws::removal::{is_named, removals};
use crate::testing::laws::{verdicts, worst};

/// Returns the checks that `--check` selects, with the option that enables the check if it needs one.
fn selection(check: &'static Check) -> Vec<&'static Check> {
    let name = [check.id.name().to_owned()];
    let asked: &[CheckId] = if check.is_asked_by_option() { &[check.id] } else { &[] };
    let wanted = Wanted { check: &name, asked, server: check.stage == Stage::Server, ..Wanted::default() };
    let selected = select(&wanted).unwrap().into_iter();
    selected.filter(|(_, part)| part.runs()).map(|(check, _)| check).collect()
}

/// Returns the worst status of a run with this selection.
fn status(selection: &[&'static Check], snapshot: &Snapshot) -> Status {
    let mut verdicts = engine::judge(selection, snapshot);
    checks::allowance::apply(&Assessment::of(snapshot), &mut verdicts);
    checks::evidence::require(snapshot, &mut verdicts);
    worst(&verdicts)
}

/// Combinations in which the lost answer itself is the problem, and the reason why no run can do better.
const HIDDEN: &[(&str, &str, &str)] = &[
    ("talos.nodes.kubelet-certificate", "kubelet_certificate of a control plane", "not every runner reaches the port"),
    ("talos.nodes.disk", "mounts of a control plane", "one file system that hangs keeps Talos from telling of any"),
    ("talos.nodes.disk", "mounts of a worker", "one file system that hangs keeps Talos from telling of any"),
    ("upgrade.flags", "refused kubelet_flags of a control plane", SECRET),
    ("upgrade.flags", "refused kubelet_flags of a worker", SECRET),
    ("talos.server", "refused the server's check", "a second opinion that only administrators get"),
    ("talos.time", "adjtime of a control plane", "its lease, which tells of the same clock, is right here"),
    ("talos.time", "adjtime of a worker", "its lease, which tells of the same clock, is right here"),
    ("talos.time", "node_leases", "checks of Talos do without Kubernetes, and the kernel tells of the same clock"),
    ("talos.time", "nodes", "checks of Talos do without Kubernetes, and the kernel tells of the same clock"),
    (
        "k8s.api.servers",
        "all endpoints and nodes behind them",
        "the servers themselves were asked, whatever Talos says",
    ),
];

/// Ways to lose an answer, in addition to an empty list where no healthy cluster has one.
const WAYS: [GapKind; 3] = [GapKind::Forbidden, GapKind::TimedOut, GapKind::Malformed];

#[test]
fn a_check_alone_is_no_blinder_than_among_all() {
    let mut holes = BTreeMap::<String, Vec<String>>::new();
    let mut hidden = BTreeSet::new();
    let mut pairs = 0;
    for (name, world) in sick().map(|(name, _, world)| (name, world)).chain(failing()) {
        for (check, _) in verdicts(&world).into_iter().filter(|(_, verdict)| verdict.status() == Status::Fail) {
            let selection = selection(check);
            let facts = checks::facts(&selection);
            let mut alone = world.clone();
            for removal in removals(&world).iter().filter(|removal| !facts.contains(&removal.fact)) {
                (removal.apply)(&mut alone, Some(GapKind::NotAsked));
            }
            if status(&selection, &alone).is_fine() {
                holes.entry(format!("{} alone", check.id)).or_default().push(name.clone());
                continue;
            }
            for removal in removals(&world).iter().filter(|removal| facts.contains(&removal.fact)) {
                // Each answer is lost in a different way than the one before.
                pairs += 1;
                let is_empty = pairs % 4 == 3 && removal.fact.is_never_empty() && world.talos.is_some();
                let way = (!is_empty).then(|| WAYS[pairs % WAYS.len()]);
                // Entries of the table are always tried, so that an entry that no longer hides anything is found.
                let is_entry =
                    |(of, fact, _): &(&str, &str, &str)| *of == check.id.name() && fact.ends_with(&removal.name);
                let way = if HIDDEN.iter().any(is_entry) { Some(GapKind::Forbidden) } else { way };
                let mut blind = alone.clone();
                (removal.apply)(&mut blind, way);
                if !status(&selection, &blind).is_fine() {
                    continue;
                }
                let is_known = |(of, fact, _): &&(&str, &'static str, &str)| {
                    *of == check.id.name() && is_named(&[fact], removal, way)
                };
                if let Some((of, fact, _)) = HIDDEN.iter().find(is_known) {
                    hidden.insert((of, fact));
                } else {
                    let hole = format!("{} without {} ({way:?})", check.id, removal.name);
                    holes.entry(hole).or_default().push(name.clone());
                }
            }
        }
    }
    assert!(holes.is_empty(), "{holes:#?}");
    assert_eq!(hidden.len(), HIDDEN.len(), "{hidden:?}");
}
