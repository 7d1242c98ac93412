//! Selection of the checks that run: `--level`, `--check`, `--skip`, `--no-talos`, `--no-kubernetes`, over the catalog.

use crate::checks::{self, Check};
use crate::cli::Level;
use crate::engine::Named;
use crate::model::{CheckId, Reason, Stage};
use crate::report::{NotSelected, Selection};
use crate::text::{self, nearest};

/// The options that select checks.
#[derive(Debug, Default)]
pub(crate) struct Wanted<'a> {
    pub(crate) level: Option<Level>,
    pub(crate) check: &'a [String],
    pub(crate) skip: &'a [String],
    pub(crate) no_talos: bool,
    pub(crate) no_kubernetes: bool,
    /// `--server`, which selects its check regardless of `--check` and `--level`.
    pub(crate) server: bool,
    /// The checks of stage 8 that the options request, and those that the policy requests, also regardless of `--check` and `--level`.
    pub(crate) asked: &'a [CheckId],
}

/// A pattern that matches no check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownCheck {
    pub(crate) pattern: String,
    pub(crate) nearest: Option<&'static str>,
}

/// Returns every check of the catalog with its part in this run.
pub(crate) fn select(wanted: &Wanted<'_>) -> Result<Vec<(&'static Check, Selection)>, UnknownCheck> {
    select_from(checks::ALL, wanted)
}

fn select_from(
    catalog: &[&'static Check],
    wanted: &Wanted<'_>,
) -> Result<Vec<(&'static Check, Selection)>, UnknownCheck> {
    let chosen = matching(catalog, wanted.check)?;
    let skipped = matching(catalog, wanted.skip)?;
    let verdict = |check: &'static Check| {
        if skipped.contains(&check.id) {
            Selection::NotSelected(NotSelected::Skip)
        } else if wanted.no_talos && is_talos_only(check) {
            Selection::NotSelected(NotSelected::NoTalos)
        } else if wanted.no_kubernetes && check.is_kubernetes_only() {
            Selection::NotSelected(NotSelected::NoKubernetes)
        } else if check.is_asked_by_option() {
            Selection::Selected
        } else if !in_level(check, wanted.level) {
            Selection::NotSelected(NotSelected::Level)
        } else if !wanted.check.is_empty() && !chosen.contains(&check.id) {
            Selection::NotSelected(NotSelected::Check)
        } else {
            Selection::Selected
        }
    };
    // Reports do not mention the second opinion or the checks of an upgrade unless they were requested.
    let planned = catalog.iter().filter(|check| match check.stage {
        Stage::Server => wanted.server,
        _ if check.is_asked_by_option() => wanted.asked.contains(&check.id),
        _ => true,
    });
    let mut selection: Vec<_> = planned.map(|check| (*check, verdict(check))).collect();
    add_prerequisites(&mut selection);
    Ok(selection)
}

/// Adds the prerequisites of selected checks, and theirs in turn, unless the user left them out.
fn add_prerequisites(selection: &mut [(&'static Check, Selection)]) {
    loop {
        let needed: Vec<CheckId> =
            selection.iter().filter(|(_, part)| part.runs()).flat_map(|(check, _)| check.requires()).collect();
        let mut added = false;
        for (check, part) in selection.iter_mut() {
            let is_free = matches!(part, Selection::NotSelected(option) if !option.is_left_out());
            if is_free && needed.contains(&check.id) {
                *part = Selection::Prerequisite;
                added = true;
            }
        }
        if !added {
            return;
        }
    }
}

/// Returns the options that request such a check.
pub(crate) fn asked_by(check: &Check) -> &'static str {
    match check.stage {
        Stage::Server => "`--server`",
        Stage::Policy => "`--policy`",
        _ if check.id == CheckId::TalosNodesExtensions => "`--policy`",
        _ => "`--upgrade-talos`, `--upgrade-kubernetes` or `--drain`",
    }
}

/// Returns the first check that a pattern of `--check` names, if the pattern names only checks that run by an option of their own, and none
/// of them is `planned`.
pub(crate) fn means_only_unasked(pattern: &str, planned: &[(&'static Check, Selection)]) -> Option<&'static Check> {
    let fitting: Vec<_> = checks::ALL.iter().filter(|check| fits(check, pattern)).collect();
    let is_planned = |check: &Check| planned.iter().any(|(it, _)| it.id == check.id);
    let is_unasked = fitting.iter().all(|check| check.is_asked_by_option() && !is_planned(check));
    fitting.first().filter(|_| is_unasked).map(|check| **check)
}

/// Whether a check needs Talos: stages 1 and 2, comparisons of Talos with Kubernetes, and the needs of an upgrade of Talos.
fn is_talos_only(check: &Check) -> bool {
    use CheckId::{
        K8sApiIdentity, K8sStaticpodsRendered, UpgradeEtcd, UpgradeExtensions, UpgradeMatrix, UpgradeTalosPath,
    };
    check.stage.number() <= 2
        || check.stage == Stage::Server
        || matches!(check.id, K8sApiIdentity | K8sStaticpodsRendered)
        || matches!(check.id, UpgradeTalosPath | UpgradeMatrix | UpgradeEtcd | UpgradeExtensions)
}

fn in_level(check: &Check, level: Option<Level>) -> bool {
    match (level.unwrap_or(Level::Full), check.stage.number()) {
        (Level::Full, _) => true,
        (Level::Talos, stage) => stage <= 2,
        (Level::Etcd, stage) => stage <= 3,
        (Level::Api, stage) => stage != 6,
    }
}

/// Returns the IDs of the checks that some pattern matches: an ID, a prefix up to a dot, a stage's number or name, a glob with `*`.
fn matching(catalog: &[&'static Check], patterns: &[String]) -> Result<Vec<CheckId>, UnknownCheck> {
    let mut all = Vec::new();
    for pattern in patterns {
        let fitting: Vec<CheckId> = catalog.iter().filter(|check| fits(check, pattern)).map(|check| check.id).collect();
        if fitting.is_empty() {
            let nearest = nearest(pattern, catalog.iter().flat_map(|check| names(check.id)));
            return Err(UnknownCheck { pattern: pattern.clone(), nearest });
        }
        all.extend(fitting);
    }
    Ok(all)
}

/// Returns an ID and its prefixes, each of which represents all checks below it.
fn names(id: CheckId) -> impl Iterator<Item = &'static str> {
    let name = id.name();
    name.match_indices('.').map(move |(dot, _)| &name[..dot]).chain([name])
}

/// Returns the checks and reasons that `--fail-on` or `--warn-only` names.
pub(crate) fn named(patterns: &[String]) -> Result<Named, UnknownCheck> {
    let mut named = Named::default();
    for pattern in patterns {
        if let Some(reason) = Reason::ALL.iter().find(|reason| reason.code() == pattern) {
            named.reasons.insert(*reason);
            continue;
        }
        let known =
            || checks::ALL.iter().flat_map(|check| names(check.id)).chain(Reason::ALL.iter().map(|it| it.code()));
        let unknown = |unknown| UnknownCheck { nearest: nearest(pattern, known()), ..unknown };
        named.checks.extend(matching(checks::ALL, std::slice::from_ref(pattern)).map_err(unknown)?);
    }
    Ok(named)
}

/// Returns the type in `node-condition=TYPE`, which limits this reason to conditions of one type.
pub(super) fn condition(pattern: &str) -> Option<&str> {
    pattern.strip_prefix(Reason::NodeCondition.code())?.strip_prefix('=')
}

pub(super) fn fits(check: &Check, pattern: &str) -> bool {
    let prefix = || check.id.name().strip_prefix(pattern).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let stage = || pattern.parse() == Ok(check.stage.number()) || pattern == check.stage.name();
    prefix() || stage() || (pattern.contains('*') && text::fits(pattern, check.id.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Severity, Verdict};

    const fn check(id: CheckId, stage: Stage) -> Check {
        Check {
            id,
            stage,
            summary: "",
            explain: "",
            severity: Severity::Fail,
            finds: Reason::ALL,
            facts: &[],
            judge: |_| Verdict::default(),
        }
    }

    const REACHABLE: Check = check(CheckId::TalosNodesReachable, Stage::Connectivity);
    const SERVICE: Check = check(CheckId::EtcdService, Stage::Etcd);
    const QUORUM: Check = check(CheckId::EtcdQuorum, Stage::Etcd);
    const READY: Check = check(CheckId::K8sNodesReady, Stage::Nodes);
    const CATALOG: &[&Check] = &[&REACHABLE, &SERVICE, &QUORUM, &READY];

    fn part(wanted: &Wanted<'_>) -> Vec<(&'static str, char)> {
        let selection = select_from(CATALOG, wanted).unwrap();
        selection
            .into_iter()
            .map(|(check, part)| {
                let letter = match part {
                    Selection::Selected => 's',
                    Selection::Prerequisite => 'p',
                    Selection::NotSelected(_) => '-',
                };
                (check.id.name(), letter)
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
    fn a_reason_is_no_check() {
        for reason in Reason::ALL {
            assert!(!checks::ALL.iter().any(|check| fits(check, reason.code())), "{}", reason.code());
        }
        let wanted = ["etcd.alarms", "cordoned", "k8s.api"].map(str::to_owned);
        let Named { checks, reasons, .. } = named(&wanted).unwrap();
        assert!(checks.contains(&CheckId::EtcdAlarms) && checks.contains(&CheckId::K8sApiServers));
        assert_eq!(reasons.into_iter().collect::<Vec<_>>(), [Reason::Cordoned]);
        for (typo, meant) in [("cordonned", "cordoned"), ("etcd.alarm", "etcd.alarms")] {
            assert_eq!(named(&[typo.to_owned()]).unwrap_err().nearest, Some(meant));
        }
    }

    #[test]
    fn what_the_user_leaves_out_stays_out() {
        let check = ["etcd.quorum".to_owned()];
        let skip = ["etcd.service".to_owned()];
        assert_eq!(letters(&Wanted { check: &check, skip: &skip, ..Wanted::default() }), "p-s-");
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
        let error = select_from(CATALOG, &Wanted { check: &check, ..Wanted::default() }).unwrap_err();
        assert_eq!(error.nearest, Some("etcd.quorum"));
        let check = ["ectd".to_owned()];
        let error = select_from(CATALOG, &Wanted { check: &check, ..Wanted::default() }).unwrap_err();
        assert_eq!(error.nearest, Some("etcd"), "a prefix, too");
        let check = ["etc".to_owned()];
        assert!(
            select_from(CATALOG, &Wanted { check: &check, ..Wanted::default() }).is_err(),
            "a prefix ends at a dot"
        );
    }
}
