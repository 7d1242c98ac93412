//! `-vv`: why each check came to its verdict, which machines do not answer, which single answers are missing, how that was interpreted, and
//! which checks block others.
//!
//! Everything is computed again from the round, so that a run without `-vv` neither keeps nor computes any of it.

use std::collections::BTreeMap;

use crate::assess::etcd::{Etcd, Overview, Quorum, QuorumState, Unseen, VoterSource};
use crate::assess::{Assessment, Identity, Likeness, MachineAccess, NotJudged, TalosAccess, Undecided};
use crate::checks::Check;
use crate::engine::event::Round;
use crate::engine::own_verdict;
use crate::model::{CheckId, Finding, Outcome, Problem, Target, Verdict};
use crate::report::view::wording::{count, named};
use crate::snapshot::{Gap, GapKind, Node};
use crate::text::joined;
use crate::text::sanitize::clean;

/// Maximum number of lines about one check, and about the machines.
const LINES: usize = 200;

/// One line, safe for a terminal.
pub(super) struct Line {
    /// The check that the line is about, or the assessment.
    pub(super) of: &'static str,
    pub(super) text: String,
}

/// Returns all lines about a round: first the assessment, then the checks in their order.
pub(super) fn lines(round: &Round) -> Vec<Line> {
    let cluster = Assessment::of(&round.snapshot);
    let whole = [talos(&cluster), identity(&cluster), etcd(&cluster.etcd)];
    let assessment = ("assessment", whole.into_iter().chain(machines(&cluster)).collect());
    let checks = round.verdicts.iter().map(|(check, verdict)| (check.id.name(), why(round, &cluster, check, verdict)));
    let subjects = [assessment].into_iter().chain(checks);
    subjects.flat_map(|(of, lines)| bounded(lines).map(move |text| Line { of, text })).collect()
}

fn bounded(mut lines: Vec<String>) -> impl Iterator<Item = String> {
    let more = lines.len().saturating_sub(LINES);
    lines.truncate(LINES);
    lines.into_iter().chain((more > 0).then(|| format!("and {more} more")))
}

fn talos(cluster: &Assessment<'_>) -> String {
    match &cluster.talos_access {
        TalosAccess::LeftOut => "Talos: not queried (--no-talos)".to_owned(),
        TalosAccess::Open => "Talos: open".to_owned(),
        TalosAccess::Closed(gap) => format!("Talos: closed: {}", gap_words(gap)),
    }
}

fn identity(cluster: &Assessment<'_>) -> String {
    let names = |names: &[String]| joined(names.iter().map(|name| clean(name)));
    let identity = match &cluster.identity {
        Identity::NotCompared => "not compared: only one of Talos and Kubernetes is queried".to_owned(),
        Identity::NoList => "unknown: no list of Kubernetes nodes".to_owned(),
        Identity::NoMachine => "unknown: no Talos machine answers".to_owned(),
        Identity::Same => "Talos and Kubernetes are the same cluster".to_owned(),
        Identity::Different { talos, kubernetes, likeness } => {
            let alike = match likeness {
                Likeness::Nothing => "",
                Likeness::Names => "; some names are the same, but at other addresses",
                Likeness::NamesAndAddresses => "; some names and addresses are the same, but no machine ID is",
            };
            let (talos, kubernetes) = (names(talos), names(kubernetes));
            format!("Talos and Kubernetes are different clusters: machines {talos}; nodes {kubernetes}{alike}")
        }
        Identity::Undecided(why) => match why {
            Undecided::EmptyList => "unknown: the list of Kubernetes nodes is empty".to_owned(),
            Undecided::CommonAreSilent => "unknown: the machines that both list do not answer Talos".to_owned(),
            Undecided::NoAddress(of) => format!("unknown: Kubernetes has no address of {}", names(of)),
            Undecided::NoMembers(of) => {
                format!("unknown: {} at other addresses in Kubernetes, and no etcd member list", names(of))
            }
        },
    };
    let skipped = cluster.asked.skips(CheckId::K8sApiIdentity);
    let trusted = if skipped { "; treated as the same cluster, because k8s.api.identity is skipped" } else { "" };
    let proxy = if cluster.behind_proxy { "; a proxy answers in place of every API server" } else { "" };
    format!("identity: {identity}{trusted}{proxy}")
}

fn etcd(etcd: &Etcd<'_>) -> String {
    let quorum = match etcd.quorum_state {
        QuorumState::Proven => "proven",
        QuorumState::Lost => "lost",
        QuorumState::Unknown => "unknown",
    };
    let votes = match &etcd.overview {
        Ok(Overview { quorum, .. }) => vote_counts(quorum),
        Err(Unseen::LeftOut) => "not queried (--no-talos without --etcd-endpoints)".to_owned(),
        Err(Unseen::NoEndpoint) => "no etcd endpoint".to_owned(),
        Err(Unseen::TalosClosed) => "no access to Talos".to_owned(),
        Err(Unseen::NoControlPlane) => "no control plane".to_owned(),
    };
    let trouble = etcd.trouble.map(|by| format!("; failing API servers are explained by {by}")).unwrap_or_default();
    format!("etcd: quorum {quorum}: {votes}{trouble}")
}

fn vote_counts(quorum: &Quorum) -> String {
    let source = match quorum.source {
        VoterSource::ThisRound => "member list",
        VoterSource::EarlierRound => "member list of an earlier round",
        VoterSource::Assumed => "one per control plane, no member list",
    };
    let Quorum { voters, up, following, untold, .. } = quorum;
    let (voters, needed) = (count(*voters, "voter"), quorum.needed());
    format!("{voters} ({source}), {needed} needed, {up} up, {following} following a leader, {untold} unknown")
}

/// Returns a line for each machine that has remarks.
fn machines(cluster: &Assessment<'_>) -> impl Iterator<Item = String> {
    cluster.nodes().iter().filter_map(|node| {
        let remarks = remarks(cluster, node);
        (!remarks.is_empty()).then(|| format!("machine {}: {}", named(&node.target()), remarks.join("; ")))
    })
}

fn remarks(cluster: &Assessment<'_>, node: &Node) -> Vec<String> {
    let machine = cluster.machine(node);
    let mut remarks = Vec::new();
    let why = machine.standing.not_judged();
    remarks.extend(why.map(|why| match why {
        NotJudged::Leaving => "not checked: it is being removed".to_owned(),
        NotJudged::OutOfScope => "not checked: outside of --nodes".to_owned(),
        NotJudged::OutsideFlags => "not checked: not in --control-plane-nodes or --worker-nodes".to_owned(),
        NotJudged::StaleDiscovery => "not checked: stale discovery member".to_owned(),
        NotJudged::DeclaredOff => "not checked: off, as the policy says".to_owned(),
    }));
    if machine.is_stale_discovery_member && why != Some(NotJudged::StaleDiscovery) {
        remarks.push("stale discovery member".to_owned());
    }
    if machine.is_guest {
        remarks.push("does not run Talos".to_owned());
    }
    match MachineAccess::of(node) {
        MachineAccess::Closed(gap) if machine.talos_unreachable => remarks.push(format!("lost: {}", gap_words(gap))),
        MachineAccess::Closed(gap) if gap.kind != GapKind::NotAsked => {
            remarks.push(format!("does not answer: {}", gap_words(gap)));
        }
        MachineAccess::Other(other) => remarks.push(format!("lost: {} answers at its address", clean(other))),
        _ => {}
    }
    if cluster.kubelet_is_doubtful(node) {
        remarks.push("kubelet not known to be healthy, its reports may be old".to_owned());
    }
    let listed = cluster.any_kubernetes().is_some_and(|kubernetes| kubernetes.nodes.is_ok());
    if listed && machine.object.is_none() {
        remarks.push("no Node object".to_owned());
    }
    remarks
}

/// Returns the lines about one check: its dependencies, then its targets that do not pass, then the missing answers.
fn why(round: &Round, cluster: &Assessment<'_>, check: &Check, verdict: &Verdict) -> Vec<String> {
    let mut lines = vec![format!("{}{}", verdict.status().name(), chain(round, check))];
    let is_worth_a_line = |outcome: &Outcome| matches!(outcome, Outcome::Blocked(_) | Outcome::Problem(_));
    if verdict.findings.iter().any(|finding| is_worth_a_line(&finding.outcome)) {
        let own = own_verdict(check, cluster);
        let mut by_target: BTreeMap<&Target, Vec<String>> = BTreeMap::new();
        for (at, Finding { target, outcome }) in verdict.findings.iter().enumerate() {
            // The options change weights and add findings at the end; a run that ends before the first round has not judged anything.
            let own = own.findings.get(at).filter(|own| own.target == *target).map(|own| &own.outcome);
            by_target.entry(target).or_default().extend(finding_words(outcome, own));
        }
        by_target.retain(|_, words| !words.is_empty());
        lines.extend(
            by_target.into_iter().map(|(target, words)| format!("{}: {}", named(target), words.join("; also "))),
        );
    }
    let mut missing: BTreeMap<(&str, GapKind, &str), Vec<&str>> = BTreeMap::new();
    for it in check.facts.iter().flat_map(|fact| round.snapshot.missing(*fact)) {
        let what = missing.entry((it.by.name(), it.gap.kind, &it.gap.text)).or_default();
        if !what.contains(&it.what) {
            what.push(it.what);
        }
    }
    lines.extend(missing.into_iter().map(|((by, kind, text), what)| {
        format!("missing from {}: {}: {kind:?}: {}", clean(by), joined(what), clean(text))
    }));
    lines
}

/// Returns `: requires talos.endpoints (pass); after etcd.quorum (not run)`.
fn chain(round: &Round, check: &Check) -> String {
    let status = |id: CheckId| {
        let verdict = round.verdicts.iter().find(|(check, _)| check.id == id);
        format!("{id} ({})", verdict.map_or("not run", |(_, verdict)| verdict.status().name()))
    };
    let part = |word: &str, ids: &[CheckId]| {
        (!ids.is_empty()).then(|| format!("{word} {}", joined(ids.iter().map(|id| status(*id)))))
    };
    let parts: Vec<_> =
        [part("requires", &check.requires()), part("after", &check.after())].into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!(": {}", parts.join("; ")) }
}

/// Returns the words of a finding, and how the check's own finding differs from it. `None`: it passes or is skipped.
fn finding_words(outcome: &Outcome, own: Option<&Outcome>) -> Option<String> {
    let own = match own {
        Some(Outcome::Problem(problem)) => Some(problem),
        _ => None,
    };
    match outcome {
        Outcome::Pass(_) | Outcome::Skip(_) => None,
        Outcome::Blocked(by) => {
            let own = own.map(|own| format!("; by itself: {}", problem_words(own))).unwrap_or_default();
            Some(format!("blocked by {by}{own}"))
        }
        Outcome::Problem(problem) => {
            let other_weight = own.map(|own| own.severity).filter(|own| *own != problem.severity);
            let weight = other_weight.map(|own| format!("; by itself: {}", own.status().name())).unwrap_or_default();
            let explanation = problem.explained_by.map(|by| format!("; explained by {by}")).unwrap_or_default();
            Some(format!("{}{weight}{explanation}", problem_words(problem)))
        }
    }
}

/// Returns `fail node-not-ready: expected Ready, observed NotReady`.
fn problem_words(problem: &Problem) -> String {
    let Problem { reason, severity, expected, observed, .. } = problem;
    let (status, expected, observed) = (severity.status().name(), clean(expected), clean(observed));
    format!("{status} {}: expected {expected}, observed {observed}", reason.code())
}

/// Returns the kind of a gap as the source code names it, and its text.
fn gap_words(gap: &Gap) -> String {
    format!("{:?}: {}", gap.kind, clean(&gap.text))
}

#[cfg(test)]
mod tests;
