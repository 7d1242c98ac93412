//! Checks whether etcd can be upgraded to the version in the new Talos, and whether it starts there.

use std::collections::BTreeSet;

use super::data::{self, KNOWN_TALOS, Numbers};
use super::etcd_releases::{self as releases, Release};
use super::knowledge::Known;
use super::{not_asked, some_of, talos_of, unknown};
use crate::assess::Assessment;
use crate::assess::etcd::{Overview, View};
use crate::checks::Check;
use crate::checks::etcd::{overview, status_after_leader};
use crate::checks::gaps::{says_nothing, talos_contact, talos_fact, unseen};
use crate::checks::scope::control_planes;
use crate::model::{CheckId, Fact, Hint, Kind, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{EtcdMember, Node};
use crate::text::version;

pub(in crate::checks) const ETCD: Check = Check {
    id: CheckId::UpgradeEtcd,
    stage: Stage::Upgrade,
    summary: "etcd can go to the version that the new Talos brings, and starts there",
    explain: "Runs with `--upgrade-talos VERSION`. Each release of Talos brings an etcd, and since 1.13 `talosctl upgrade` \
no longer checks etcd. Compares the version and the storage version that each member reports, and the image and the extra \
arguments of each control plane (EtcdSpecs), with etcd's upgrade guides.\n\n\
etcd goes to 3.6 only from 3.5.26 or newer (3.5.32 is recommended), to 3.7 only from 3.6.11 or newer, and never skips a minor \
version. Talos 1.10.0 to 1.10.8, 1.12.0 to 1.12.7 and 1.13.0 bring an older etcd: the report names the release to upgrade to \
first.\n\n\
An image in `cluster.etcd.image` stays after the upgrade. Talos 1.14 does not start etcd 3.5, and older Talos does not start \
etcd 3.7. An image that is older than the etcd that runs counts as what will run. etcd does not start with an argument in \
`cluster.etcd.extraArgs` that it has removed, or does not have yet, or that Talos denies. An argument that no version in the tables has \
is not checked; the report names it.\n\n\
Once all members run etcd 3.7, an older etcd refuses their data, unless the downgrade was enabled and the storage version of \
each member went down.\n\n\
An image counts as set in the configuration if its version is not the default of the Talos that the machine runs. A release of \
Talos that is not in cluster-health's table of etcd versions is an error (`target-unknown`), never a pass.",
    severity: Severity::Fail,
    finds: &[Reason::EtcdTooOld, Reason::EtcdImageUnfit, Reason::EtcdFlagRefused, Reason::EtcdDowngrade],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::EtcdMembership, Fact::EtcdSpecs],
    judge: etcd,
};

/// etcd on a control plane, before and after the upgrade.
struct Member<'a> {
    node: &'a Node,
    /// Version of Talos.
    talos: Numbers,
    running: Numbers,
    /// Empty if it is not reported.
    storage: &'a str,
    arguments: &'a [String],
    after: Numbers,
    /// Whether the machine configuration sets the image, which then differs from the running Talos' default.
    is_set: bool,
    /// Whether the image is the running Talos' default, and the new Talos has a different one.
    follows: bool,
}

fn etcd(cluster: &Assessment<'_>) -> Verdict {
    let Some(target) = &cluster.asked.upgrade.talos else { return not_asked("--upgrade-talos") };
    if cluster.etcd.is_external {
        return Verdict::skipped("etcd does not run on the control planes (`--etcd-endpoints`)");
    }
    let Some(to) = data::target(target).filter(|to| data::known_talos(*to).is_some()) else {
        return Verdict::whole(Outcome::problem(unknown("Talos", &format!("v{target}"), KNOWN_TALOS)));
    };
    let overview = match overview(cluster) {
        Ok(overview) => overview,
        Err(verdict) => return verdict,
    };
    let nodes = match control_planes(cluster) {
        Ok(nodes) => nodes,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    let mut members = Vec::new();
    for node in nodes {
        match member(cluster, overview, node, target) {
            Ok(member) => members.push(member),
            Err(outcome) => verdict.push(node.target(), outcome),
        }
    }
    for (target, outcome) in others(overview) {
        verdict.push(target, outcome);
    }
    for member in &members {
        let problems = judge(member, &members, to);
        if problems.is_empty() {
            verdict.ok(member.node.target());
        }
        for problem in problems {
            verdict.problem(member.node.target(), problem.permanent());
        }
    }
    let follow: Vec<&str> = members.iter().filter(|it| it.follows).map(|it| it.node.name.as_str()).collect();
    if !follow.is_empty() {
        verdict.leave_out(format!(
            "whether `cluster.etcd.image` names the image of {}: it is the default of the Talos that runs, so etcd is expected to \
             follow Talos",
            some_of(&follow)
        ));
    }
    let strange: BTreeSet<String> = members.iter().flat_map(strange).collect();
    if !strange.is_empty() {
        let (strange, known) = (strange.into_iter().collect::<Vec<_>>(), releases::known_etcd());
        verdict.leave_out(format!("{}: no etcd that cluster-health knows ({known}) has it", some_of(&strange)));
    }
    verdict.sum_up(&format!("etcd is ready for Talos v{target}: {}", ways(&members)));
    verdict
}

/// Formats the changes of version, such as `3.6.12 to 3.7.1`, or the version that stays.
fn ways(members: &[Member<'_>]) -> String {
    let mut ways: Vec<_> = members.iter().map(|it| (it.running, it.after)).collect();
    ways.sort_unstable();
    ways.dedup();
    let way = |(from, to): &(Numbers, Numbers)| {
        if from == to { format!("{} stays", dotted(*from)) } else { format!("{} to {}", dotted(*from), dotted(*to)) }
    };
    ways.iter().map(way).collect::<Vec<_>>().join(", ")
}

fn dotted((major, minor, patch): Numbers) -> String {
    format!("{major}.{minor}.{patch}")
}

fn member<'a>(
    cluster: &Assessment<'a>,
    overview: &'a Overview<'_>,
    node: &'a Node,
    target: &str,
) -> Result<Member<'a>, Outcome> {
    let tag = talos_contact(cluster, node)?.version.tag.as_str();
    let talos = talos_of(cluster, node)?;
    let expected = "the image and the arguments of etcd (EtcdSpecs)";
    let spec = talos_fact(cluster, node, |talos| &talos.etcd_spec, expected)?;
    let spec = spec.as_ref().ok_or_else(|| says_nothing(expected, "no EtcdSpec"))?;
    let image = version_of(&spec.image)
        .ok_or_else(|| says_nothing("an image of etcd with a version", &format!("image `{}`", spec.image)))?;
    let is_its = |view: &&View<'_>| view.node.is_some_and(|it| it.name == node.name);
    let view = overview.views.iter().find(is_its);
    let view = view.ok_or_else(|| unseen(Reason::NoAnswer, "EtcdStatus", "etcd on this machine was not queried"))?;
    let status = status_after_leader(cluster, view)?;
    let running = version::numbers(&status.version)
        .ok_or_else(|| says_nothing("a version of etcd", &format!("version `{}`", status.version)))?;
    let is_set = releases::etcd_of(tag) != Some(image);
    let (after, follows) = if tag.trim_start_matches('v') == target {
        (image, false)
    } else {
        let default = |tag: &str| releases::etcd_of(tag).ok_or_else(|| unlisted(tag));
        let (new, old) = (default(target)?, default(tag)?);
        if is_set { (image, false) } else { (new, new != old) }
    };
    let (storage, arguments) = (status.storage_version.as_str(), spec.arguments.as_slice());
    Ok(Member { node, talos, running, storage, arguments, after, is_set, follows })
}

/// Error for a release of Talos that is not in the table, so that its version of etcd is unknown.
fn unlisted(tag: &str) -> Outcome {
    let expected = format!("a release of Talos with an etcd that cluster-health knows ({})", releases::known_words());
    let observed = format!("Talos v{}", tag.trim_start_matches('v'));
    Outcome::problem(Problem::error(Reason::TargetUnknown, expected, observed).permanent())
}

/// Returns the version in `registry.k8s.io/etcd:v3.6.12@sha256:…`. A registry's port is not a tag.
fn version_of(image: &str) -> Option<Numbers> {
    let name = image.split('@').next()?;
    version::numbers(name.rsplit('/').next()?.split_once(':')?.1)
}

/// Reports members that do not belong to any control plane, or the lack of a member list: the versions are then
/// unknown.
fn others(overview: &Overview<'_>) -> Vec<(Target, Outcome)> {
    let expected = "the version of every etcd member";
    let Some(members) = overview.members else {
        return vec![(Target::cluster(), unseen(Reason::NoAnswer, expected, "no member list was seen"))];
    };
    // A control plane that was not read has its own finding.
    let is_of = |member: &EtcdMember, view: &View<'_>| match view.id {
        Some(id) => id == member.id,
        None => view.node.is_some_and(|node| member.could_be(node)),
    };
    let is_seen = |member: &&EtcdMember| overview.views.iter().any(|view| is_of(member, view));
    let of = |member: &EtcdMember| {
        let name = if member.name.is_empty() { "unnamed" } else { &member.name };
        let target = Target::new(Kind::EtcdMember, name).with_id(format!("{:016x}", member.id));
        (target, unseen(Reason::NoAnswer, expected, "the member belongs to no known control plane"))
    };
    members.iter().filter(|member| !is_seen(member)).map(of).collect()
}

fn judge(member: &Member<'_>, members: &[Member<'_>], to: Numbers) -> Vec<Problem> {
    let look = || Hint::run("{talosctl} -n {} get etcdspec -o yaml", [member.node.address.as_str()]);
    let status = || Hint::run("{talosctl} -n {} etcd status", [member.node.address.as_str()]);
    let mut problems = Vec::new();
    problems.extend(too_old(member, members, to).map(|problem| problem.hint(status())));
    problems.extend(taken_back(member, members).map(|problem| problem.hint(status())));
    problems.extend(unfit(member, to).map(|problem| problem.hint(look())));
    problems.extend(refused(member, to).map(|problem| problem.hint(look())));
    problems.extend(downgrade(member, members).map(|problem| problem.hint(status())));
    problems
}

/// Returns the newest minor version of etcd that any machine starts after the upgrade.
fn newest_after(members: &[Member<'_>]) -> u32 {
    members.iter().map(|it| it.after.1).max().unwrap_or_default()
}

/// Reports a member that is too old. All members have to be new enough before the first one is upgraded to the next
/// minor version.
fn too_old(member: &Member<'_>, members: &[Member<'_>], to: Numbers) -> Option<Problem> {
    // If the image is set to an older version than the running one, the other members meet that version.
    let (runs, target) = (member.running.min(member.after), newest_after(members));
    if runs.1 >= target {
        return None;
    }
    let observed = if runs < member.running {
        format!("the image of etcd is {}", dotted(runs))
    } else {
        format!("etcd {}", dotted(runs))
    };
    let fail = |expected: String| Problem::fail(Reason::EtcdTooOld, expected, observed.as_str());
    // An unknown target is reported for the machine whose image it is.
    let (least, recommended) = releases::before(target)?;
    let problem = if runs.1 + 1 < target {
        fail(format!("etcd 3.{}, because etcd 3.{target} follows and no minor version can be skipped", target - 1))
    } else if runs < least {
        fail(format!("etcd {} or newer on every member before any goes to 3.{target}", dotted(least)))
    } else if runs < recommended {
        let expected = format!("etcd {} or newer, which etcd recommends before 3.{target}", dotted(recommended));
        return Some(Problem::warn(Reason::EtcdTooOld, expected, observed.as_str()));
    } else {
        return None;
    };
    let stops: Vec<String> = stops(member, to, target).into_iter().map(named).collect();
    Some(problem.hint(Hint::likely(if stops.is_empty() {
        format!("set `cluster.etcd.image` to etcd {} or newer first, on every control plane", dotted(least))
    } else {
        format!("upgrade Talos to {} first", stops.join(", then to "))
    })))
}

/// Reports data of an earlier minor version than all members run: an enabled downgrade has taken it back, or the last upgrade has only just
/// ended. In the middle of an upgrade the data is as old as the oldest member.
fn taken_back(member: &Member<'_>, members: &[Member<'_>]) -> Option<Problem> {
    let oldest = members.iter().map(|it| it.running.1).min()?;
    let (_, stored, _) = version::numbers(member.storage)?;
    if stored >= oldest || member.after.1 <= member.running.1 {
        return None;
    }
    let expected = format!("storage version 3.{oldest} on every member before any goes to 3.{}", member.after.1);
    let observed = format!("storage version 3.{stored}");
    let hint = "unless etcd has just been upgraded, a downgrade is enabled: finish it, or cancel it (`etcdctl downgrade cancel`)";
    Some(Problem::fail(Reason::EtcdTooOld, expected, observed).hint(Hint::likely(hint)))
}

/// Returns releases that upgrade the member to a version of etcd that is new enough. Empty if the image is set.
fn stops(member: &Member<'_>, to: Numbers, target: u32) -> Vec<Release> {
    if member.is_set { Vec::new() } else { releases::stops(member.talos, member.running, to, target) }
}

fn named((talos, etcd): Release) -> String {
    format!("v{} (etcd {})", dotted(talos), dotted(etcd))
}

/// Reports an image that the new Talos cannot start.
fn unfit(member: &Member<'_>, to: Numbers) -> Option<Problem> {
    let (after, starts) = (member.after, releases::started_by(to.1));
    if starts.contains(&after.1) {
        return None;
    }
    if !releases::flags_known().contains(&after.1) {
        return Some(unknown("etcd", &dotted(after), &releases::known_etcd()));
    }
    let expected = format!("etcd 3.{} or 3.{}, which Talos 1.{} can start", starts.start(), starts.end(), to.1);
    let problem = Problem::fail(Reason::EtcdImageUnfit, expected, format!("the image of etcd is {}", dotted(after)));
    Some(problem.hint(Hint::likely("`cluster.etcd.image` in the machine configuration names this version")))
}

/// Returns arguments that are not in the table for any version of etcd, so that they cannot be judged.
fn strange(member: &Member<'_>) -> Vec<String> {
    let is_strange = |argument: &&String| releases::flag_of(argument, member.after.1) == Known::Never;
    member.arguments.iter().filter(is_strange).map(|argument| format!("--{argument}")).collect()
}

/// Reports arguments with which etcd does not start after the upgrade.
fn refused(member: &Member<'_>, to: Numbers) -> Option<Problem> {
    let etcd = member.after.1;
    // An unknown version of etcd is reported for its image.
    if !releases::flags_known().contains(&etcd) {
        return None;
    }
    let why = |argument: &String| match releases::flag_of(argument, etcd) {
        Known::Gone(since) => Some(format!("--{argument} (removed in etcd 3.{since})")),
        Known::Later(since) if since <= member.running.1 => Some(format!("--{argument} (new in etcd 3.{since})")),
        Known::Present | Known::Later(_) | Known::Never => {
            releases::is_denied(argument, to.1).then(|| format!("--{argument} (denied by Talos 1.{})", to.1))
        }
    };
    let mut found: Vec<String> = member.arguments.iter().filter_map(why).collect();
    found.sort_unstable();
    let expected = format!("arguments that etcd 3.{etcd} and Talos 1.{} accept", to.1);
    let problem = || Problem::fail(Reason::EtcdFlagRefused, expected, format!("etcd has {}", some_of(&found)));
    (!found.is_empty()).then(problem)
}

/// Judges a downgrade. An older minor version can read the data only if the storage version of each newer member is
/// that of the older one.
fn downgrade(member: &Member<'_>, members: &[Member<'_>]) -> Option<Problem> {
    let (runs, after) = (member.running, member.after);
    if runs.1 <= after.1 {
        return None;
    }
    let way = format!("etcd {} to {}", dotted(runs), dotted(after));
    if runs.1 - after.1 > 1 {
        let expected = format!("etcd 3.{} first, because no minor version can be skipped", runs.1 - 1);
        return Some(Problem::fail(Reason::EtcdDowngrade, expected, way));
    }
    let expected = format!("storage version 3.{} on every member", after.1);
    let newer = || members.iter().filter(|it| it.running.1 > after.1);
    let stored = |it: &Member<'_>| version::numbers(it.storage).map(|(_, minor, _)| minor);
    let names = |of: Vec<&Member<'_>>| some_of(&of.iter().map(|it| it.node.name.as_str()).collect::<Vec<_>>());
    let above: Vec<&Member<'_>> = newer().filter(|it| stored(it).is_some_and(|minor| minor > after.1)).collect();
    if let Some(first) = above.first() {
        let observed = format!("{way}, and the storage version is {} on {}", first.storage, names(above.clone()));
        let hint = format!(
            "etcd refuses the data of a newer version: enable the downgrade first (`etcdctl downgrade enable {}.{}`)",
            after.0, after.1
        );
        return Some(Problem::fail(Reason::EtcdDowngrade, expected, observed).hint(Hint::likely(hint)));
    }
    let untold: Vec<&Member<'_>> = newer().filter(|it| stored(it).is_none()).collect();
    let observed = || format!("{way}, and no storage version is reported on {}", names(untold.clone()));
    (!untold.is_empty()).then(|| Problem::error(Reason::NoAnswer, expected, observed()))
}

/// A version of etcd that the next one requires but that does not run yet, and the releases of Talos that contain it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EtcdStops {
    /// `cp-1 runs etcd 3.6.9; …`
    pub(crate) why: String,
    /// Versions of Talos and of etcd, in order, without `v`. Empty if only a different image in the configuration
    /// helps.
    pub(crate) releases: Vec<(String, String)>,
}

/// Returns the intermediate releases that the upgrade requires, as far as the round shows. [`ETCD`] reports facts that
/// are missing.
pub(crate) fn etcd_stops(cluster: &Assessment<'_>) -> Option<EtcdStops> {
    let target = cluster.asked.upgrade.talos.as_ref()?;
    let to = data::target(target).filter(|_| !cluster.etcd.is_external)?;
    let overview = overview(cluster).ok()?;
    let nodes = control_planes(cluster).ok()?;
    let members: Vec<_> = nodes.into_iter().filter_map(|node| member(cluster, overview, node, target).ok()).collect();
    let etcd = newest_after(&members);
    let failing = |it: &&Member<'_>| too_old(it, &members, to).is_some_and(|it| it.severity == Severity::Fail);
    let ways = members.iter().rev().filter(failing).map(|it| (it, stops(it, to, etcd)));
    let (farthest, stops) = ways.max_by_key(|(_, stops)| (stops.is_empty(), stops.len()))?;
    let problem = too_old(farthest, &members, to)?;
    let bare = |(talos, etcd): &Release| (dotted(*talos), dotted(*etcd));
    Some(EtcdStops {
        why: format!("{} runs {}; required: {}", farthest.node.name, problem.observed, problem.expected),
        releases: stops.iter().map(bare).collect(),
    })
}
