//! Which checks run: `--level`, `--check`, `--skip`, `--no-talos`, `--no-kubernetes`, over the catalogue.

use crate::checks::{self, Check, Stage};
use crate::cli::Level;
use crate::nearest::nearest;
use crate::report::Selection;

/// What was asked for.
#[derive(Debug, Default)]
pub(crate) struct Wanted<'a> {
    pub(crate) level: Option<Level>,
    pub(crate) check: &'a [String],
    pub(crate) skip: &'a [String],
    pub(crate) no_talos: bool,
    pub(crate) no_kubernetes: bool,
    /// Names its check, whatever `--check` and `--level` name.
    pub(crate) server: bool,
}

/// A pattern that fits no check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownCheck {
    pub(crate) pattern: String,
    pub(crate) nearest: Option<&'static str>,
}

/// Every check of the catalogue with its part in this run.
pub(crate) fn select(wanted: &Wanted<'_>) -> Result<Vec<(&'static Check, Selection)>, UnknownCheck> {
    select_from(checks::ALL, wanted)
}

fn select_from(
    catalogue: &[&'static Check],
    wanted: &Wanted<'_>,
) -> Result<Vec<(&'static Check, Selection)>, UnknownCheck> {
    let chosen = matching(catalogue, wanted.check)?;
    let skipped = matching(catalogue, wanted.skip)?;
    let verdict = |check: &'static Check| {
        if skipped.contains(&check.id) {
            Selection::NotSelected("left out with --skip")
        } else if wanted.no_talos && is_talos_only(check) {
            Selection::NotSelected("left out with --no-talos")
        } else if wanted.no_kubernetes && matches!(check.stage, Stage::ApiServer | Stage::Nodes) {
            Selection::NotSelected("left out with --no-kubernetes")
        } else if check.stage == Stage::Server {
            Selection::Selected
        } else if !in_level(check, wanted.level) {
            Selection::NotSelected("outside of --level")
        } else if !wanted.check.is_empty() && !chosen.contains(&check.id) {
            Selection::NotSelected("not among --check")
        } else {
            Selection::Selected
        }
    };
    // Who does not ask for the second opinion does not read of it either.
    let planned = catalogue.iter().filter(|check| wanted.server || check.stage != Stage::Server);
    let mut selection: Vec<_> = planned.map(|check| (*check, verdict(check))).collect();
    add_prerequisites(&mut selection, &skipped);
    Ok(selection)
}

/// A selected check takes along what it needs, and that what it needs in turn, unless the user left it out.
fn add_prerequisites(selection: &mut [(&'static Check, Selection)], skipped: &[&'static str]) {
    loop {
        let needed: Vec<&'static str> = selection
            .iter()
            .filter(|(_, part)| !matches!(part, Selection::NotSelected(_)))
            .flat_map(|(check, _)| check.requires.iter().copied())
            .collect();
        let mut added = false;
        for (check, part) in selection.iter_mut() {
            let by_layer =
                matches!(part, Selection::NotSelected("left out with --no-talos" | "left out with --no-kubernetes"));
            if matches!(part, Selection::NotSelected(_))
                && !by_layer
                && needed.contains(&check.id)
                && !skipped.contains(&check.id)
            {
                *part = Selection::Prerequisite;
                added = true;
            }
        }
        if !added {
            return;
        }
    }
}

/// Does a pattern of `--check` name the second opinion, and nothing else?
pub(crate) fn means_server(pattern: &str) -> bool {
    let mut fitting = checks::ALL.iter().filter(|check| fits(check, pattern)).peekable();
    fitting.peek().is_some() && fitting.all(|check| check.stage == Stage::Server)
}

/// Stages 1 and 2, and what compares Talos with Kubernetes.
fn is_talos_only(check: &Check) -> bool {
    check.stage.number() <= 2
        || check.stage == Stage::Server
        || check.id == "k8s.api.identity"
        || check.id == "k8s.staticpods.rendered"
}

fn in_level(check: &Check, level: Option<Level>) -> bool {
    match (level.unwrap_or(Level::Full), check.stage.number()) {
        (Level::Full, _) => true,
        (Level::Talos, stage) => stage <= 2,
        (Level::Etcd, stage) => stage <= 3,
        (Level::Api, stage) => stage != 6,
    }
}

/// Ids of the checks that some pattern fits: an id, a prefix up to a dot, a stage's number or name, a glob with `*`.
fn matching(catalogue: &[&'static Check], patterns: &[String]) -> Result<Vec<&'static str>, UnknownCheck> {
    let mut all = Vec::new();
    for pattern in patterns {
        let fitting: Vec<&'static str> =
            catalogue.iter().filter(|check| fits(check, pattern)).map(|check| check.id).collect();
        if fitting.is_empty() {
            let nearest = nearest(pattern, catalogue.iter().map(|check| check.id));
            return Err(UnknownCheck { pattern: pattern.clone(), nearest });
        }
        all.extend(fitting);
    }
    Ok(all)
}

/// The ids that `--warn-only` means.
pub(crate) fn ids(patterns: &[String]) -> Result<Vec<&'static str>, UnknownCheck> {
    matching(checks::ALL, patterns)
}

fn fits(check: &Check, pattern: &str) -> bool {
    let prefix = || check.id.strip_prefix(pattern).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let stage = || pattern.parse() == Ok(check.stage.number()) || pattern == check.stage.name();
    prefix() || stage() || (pattern.contains('*') && glob(pattern, check.id))
}

/// `*` fits any run of characters, dots included.
fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text
            .strip_prefix(head)
            .is_some_and(|rest| (0..=rest.len()).filter_map(|at| rest.get(at..)).any(|rest| glob(tail, rest))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{Severity, Verdict};

    const fn check(id: &'static str, stage: Stage, requires: &'static [&'static str]) -> Check {
        Check {
            id,
            stage,
            summary: "",
            explain: "",
            severity: Severity::Fail,
            requires,
            facts: &[],
            judge: |_| Verdict::default(),
        }
    }

    const REACHABLE: Check = check("talos.nodes.reachable", Stage::Connectivity, &[]);
    const SERVICE: Check = check("etcd.service", Stage::Etcd, &["talos.nodes.reachable"]);
    const QUORUM: Check = check("etcd.quorum", Stage::Etcd, &["etcd.service"]);
    const READY: Check = check("k8s.nodes.ready", Stage::Nodes, &[]);
    const CATALOGUE: &[&Check] = &[&REACHABLE, &SERVICE, &QUORUM, &READY];

    fn part(wanted: &Wanted<'_>) -> Vec<(&'static str, char)> {
        let selection = select_from(CATALOGUE, wanted).unwrap();
        selection
            .into_iter()
            .map(|(check, part)| {
                let letter = match part {
                    Selection::Selected => 's',
                    Selection::Prerequisite => 'p',
                    Selection::NotSelected(_) => '-',
                };
                (check.id, letter)
            })
            .collect()
    }

    fn letters(wanted: &Wanted<'_>) -> String {
        part(wanted).into_iter().map(|(_, letter)| letter).collect()
    }

    #[test]
    fn prerequisites_come_along() {
        let check = ["etcd.quorum".to_owned()];
        assert_eq!(letters(&Wanted { check: &check, ..Wanted::default() }), "pps-");
    }

    #[test]
    fn what_the_user_leaves_out_stays_out() {
        let check = ["etcd.quorum".to_owned()];
        let skip = ["etcd.service".to_owned()];
        assert_eq!(letters(&Wanted { check: &check, skip: &skip, ..Wanted::default() }), "--s-");
    }

    #[test]
    fn patterns() {
        for (pattern, expected) in
            [("etcd", "pss-"), ("3", "pss-"), ("k8s.*", "---s"), ("*.nodes.*", "s--s"), ("etcd.q*", "pps-")]
        {
            let check = [pattern.to_owned()];
            assert_eq!(letters(&Wanted { check: &check, ..Wanted::default() }), expected, "{pattern}");
        }
    }

    #[test]
    fn levels_and_layers() {
        assert_eq!(letters(&Wanted { level: Some(Level::Talos), ..Wanted::default() }), "s---");
        assert_eq!(letters(&Wanted { level: Some(Level::Api), ..Wanted::default() }), "sss-");
        assert_eq!(letters(&Wanted { no_talos: true, ..Wanted::default() }), "-sss");
        assert_eq!(letters(&Wanted { no_kubernetes: true, ..Wanted::default() }), "sss-");
    }

    #[test]
    fn an_unknown_pattern_names_the_nearest() {
        let check = ["etcd.qorum".to_owned()];
        let error = select_from(CATALOGUE, &Wanted { check: &check, ..Wanted::default() }).unwrap_err();
        assert_eq!(error.nearest, Some("etcd.quorum"));
        let check = ["etc".to_owned()];
        assert!(
            select_from(CATALOGUE, &Wanted { check: &check, ..Wanted::default() }).is_err(),
            "a prefix ends at a dot"
        );
    }
}
