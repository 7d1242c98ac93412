//! Checks etcd's membership: whether all members agree on it, every member is a control plane, and every member is a voter.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::SignedDuration;

use super::{SETTLE, contact, look, members, not_running, overview, status, without_quorum};
use crate::assess::etcd::{Overview, Quorum, View, strangers};
use crate::assess::{Assessment, Identity, is_named_beyond_etcd, tells_healthy};
use crate::checks::Check;
use crate::checks::gaps::{says_nothing, talos_service};
use crate::model::{CheckId, Fact, Hint, Kind, Outcome, Problem, Reason, Role, Severity, Stage, Target, Verdict};
use crate::snapshot::{EtcdMember, Node};
use crate::text::{hex, host};

pub(in crate::checks) const MEMBERS_CONSISTENT: Check = Check {
    id: CheckId::EtcdMembersConsistent,
    stage: Stage::Etcd,
    summary: "all control planes report the same etcd members",
    explain: "Queries the etcd of each control plane for its member list, and compares IDs and votes. Names are ignored: etcd \
may report an empty name for a while after a restart.\n\n\
`split-cluster` means that two lists have no member in common, or that a running member is in no list: two independent \
clusters, usually because `talosctl bootstrap` was run on more than one control plane. Neither knows of the other, and the \
one without a quorum may be the one with your data. Keep the one with the data, and reset the control planes of the other so \
that they join it. `members-differ` is usually a change in progress, so the members \
are sampled again one second later before it counts.",
    severity: Severity::Fail,
    finds: &[Reason::SplitCluster, Reason::MembersDiffer],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::EtcdMembership],
    judge: consistent,
};

pub(in crate::checks) const MEMBERS_NODES: Check = Check {
    id: CheckId::EtcdMembersNodes,
    stage: Stage::Etcd,
    summary: "etcd members and control planes match one to one",
    explain: "Matches each etcd member with the control plane that reports the member's ID as its own. Names and addresses are \
used only where a control plane cannot be queried.\n\n\
`stale-member`: a member that no control plane owns, left behind by a machine that was removed or reinstalled. It counts as a \
voter that is permanently down, so the cluster survives fewer failures. Remove it with `talosctl etcd remove-member ID`. \
`not-a-member`: a control plane with no member in the list, because it was removed or could not join. While the others have a \
quorum, wipe its EPHEMERAL partition to let it rejoin.\n\n\
`peer-address`: no peer URL of a member is an address of its machine. Existing connections still work, but once all control \
planes have restarted, the members cannot find each other. This is a warning.\n\n\
A member without a name was added and has not started yet. That is normal for a few minutes while a control plane joins.",
    severity: Severity::Fail,
    finds: &[Reason::ForeignEtcd, Reason::StaleMember, Reason::NotAMember, Reason::MemberJoining, Reason::PeerAddress],
    facts: &[Fact::TalosNodes, Fact::Addresses, Fact::Services, Fact::EtcdMembership],
    judge: nodes,
};

pub(in crate::checks) const LEARNERS: Check = Check {
    id: CheckId::EtcdLearners,
    stage: Stage::Etcd,
    summary: "every etcd member votes",
    explain: "A new member joins as a learner: it receives data and has no vote until it has caught up. That takes seconds to \
a few minutes. One that stays a learner adds nothing to the cluster's tolerance, and keeps the next control plane from \
joining, since etcd allows one learner at a time.\n\n\
This is a warning in the first five minutes after the member's etcd started, and a failure after that. Usually the members \
cannot reach each \
other on port 2380 in both directions. If it does not recover: `talosctl etcd remove-member ID`, then wipe that machine's \
EPHEMERAL partition.",
    severity: Severity::Fail,
    finds: &[Reason::Learner],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::EtcdMembership],
    judge: learners,
};

/// Maximum time that a member may take to join.
const JOINING: SignedDuration = SignedDuration::from_mins(5);

fn consistent(cluster: &Assessment<'_>) -> Verdict {
    let Overview { views, is_split, quorum, .. } = match overview(cluster) {
        Ok(overview) => overview,
        Err(verdict) => return verdict,
    };
    let mut verdict = Verdict::default();
    let mut reports: BTreeMap<BTreeSet<(u64, bool)>, Vec<String>> = BTreeMap::new();
    for view in views {
        match members(cluster, view) {
            Ok(members) => {
                let ids = members.iter().map(|member| (member.id, !member.is_learner)).collect();
                reports.entry(ids).or_default().push(view.target.to_string());
            }
            // A learner refuses to list members.
            Err(_) if view.status.is_ok_and(|status| status.is_learner) => {
                verdict.skip(view.target.clone(), "a learner, which lists no members");
            }
            Err(outcome) => verdict.push(view.target.clone(), without_quorum(quorum, outcome)),
        }
    }
    let unlisted = strangers(views);
    if reports.is_empty() || (reports.len() < 2 && unlisted.is_empty()) {
        if !reports.is_empty() {
            verdict.ok(Target::cluster());
        }
        return verdict;
    }
    let reports = reports.iter().map(|(set, by)| {
        let ids: Vec<String> =
            set.iter().map(|(id, votes)| if *votes { hex(*id) } else { format!("{} (learner)", hex(*id)) }).collect();
        format!("{}: {}", by.join(", "), ids.join(" "))
    });
    let of_stranger =
        |view: &View<'_>| format!("{}: {}, in no list", view.target, view.id.map_or_else(String::new, hex));
    let reports: Vec<String> = reports.chain(unlisted.into_iter().map(of_stranger)).collect();
    let (reason, expected) = if *is_split {
        (Reason::SplitCluster, "one etcd cluster")
    } else {
        (Reason::MembersDiffer, "the same members on every control plane")
    };
    let problem = Problem::fail(reason, expected, reports.join("; "));
    verdict.problem(
        Target::cluster(),
        if *is_split {
            problem.hint(Hint::likely("`talosctl bootstrap` was run on more than one control plane"))
        } else {
            problem
        },
    );
    verdict.resample_after = (!is_split).then_some(SETTLE);
    verdict
}

fn member_target(member: &EtcdMember) -> Target {
    let target =
        Target::new(Kind::EtcdMember, if member.name.is_empty() { hex(member.id) } else { member.name.clone() });
    let target = target.with_id(hex(member.id));
    match member.hosts().into_iter().next() {
        Some(host) => target.with_address(host),
        None => target,
    }
}

fn nodes(cluster: &Assessment<'_>) -> Verdict {
    let Overview { views, members, quorum, .. } = match overview(cluster) {
        Ok(overview) => overview,
        Err(verdict) => return verdict,
    };
    if cluster.etcd.is_external {
        return match cluster.control_planes().find(|node| tells_healthy(node, "etcd")) {
            Some(node) if !cluster.some_member_is_own() => nameless(node),
            _ => Verdict::skipped("etcd runs outside of the control planes (`--etcd-endpoints`)"),
        };
    }
    let mut verdict = match members {
        Some(_) => Verdict::default(),
        None => no_list(cluster, views, quorum),
    };
    for view in &cluster.etcd.foreign {
        verdict.problem(view.target.clone(), foreign(view));
    }
    let Some(members) = *members else { return verdict };
    let owners: Vec<(&View<'_>, &Node)> = views
        .iter()
        .filter_map(|view| view.node.map(|node| (view, node)))
        .filter(|(_, node)| is_named_beyond_etcd(node))
        .collect();
    for (view, node) in &owners {
        let outcome = match owner(cluster, view, node, members) {
            Outcome::Pass(line) => elsewhere(view, node, members).map_or(Outcome::Pass(line), Outcome::problem),
            outcome => outcome,
        };
        verdict.push(view.target.clone(), outcome);
    }
    for member in members {
        let owned = owners.iter().any(|(view, _)| view.id == Some(member.id));
        let hidden = owners.iter().any(|(view, node)| view.id.is_none() && member.could_be(node));
        if owned || hidden {
            continue;
        }
        let candidate = owners.iter().map(|(_, node)| *node).find(|node| member.could_be(node));
        let problem = match candidate {
            Some(node) if member.name.is_empty() => joining(cluster, node, member),
            _ => stale(cluster, member),
        };
        verdict.problem(member_target(member), problem);
    }
    verdict
}

/// Reports that the cluster ID is unknown, so that the endpoints may belong to a different etcd.
fn nameless(node: &Node) -> Verdict {
    let mut verdict = Verdict::default();
    let observed = "Talos runs etcd but does not report its cluster ID";
    verdict.push(node.target(), says_nothing("a member that is behind `--etcd-endpoints`", observed));
    verdict
}

fn foreign(view: &View<'_>) -> Problem {
    let observed = match view.id {
        Some(id) => format!("member {} of another etcd cluster", hex(id)),
        None => "an endpoint of another etcd cluster".to_owned(),
    };
    Problem::fail(Reason::ForeignEtcd, "the etcd that the control planes run", observed)
        .permanent()
        .hint(Hint::likely("omit `--etcd-endpoints`: Talos reports the cluster's own members"))
}

/// Verdict if no member returned a list: each member reports why, or that it is waiting for the quorum.
fn no_list(cluster: &Assessment<'_>, views: &[View<'_>], quorum: &Quorum) -> Verdict {
    let mut verdict = Verdict::default();
    for view in views {
        if let Err(outcome) = members(cluster, view) {
            verdict.push(view.target.clone(), without_quorum(quorum, outcome));
        }
    }
    verdict
}

/// Determines whether this control plane is a member. Its own answer counts as much as the list.
fn owner(cluster: &Assessment<'_>, view: &View<'_>, node: &Node, listed: &[EtcdMember]) -> Outcome {
    if let Err(outcome) = contact(cluster, node) {
        return outcome;
    }
    let not_a_member = |observed: String| {
        let problem = Problem::fail(Reason::NotAMember, "a member of etcd", observed)
            .hint(Hint::run("{talosctl} -n {} service etcd", [node.address.as_str()]))
            .hint(Hint::run("{talosctl} -n {} logs etcd", [node.address.as_str()]));
        Outcome::problem(problem)
    };
    match view.id {
        Some(id) if !view.is_in(node, listed) => not_a_member(format!("its member {} is not in the list", hex(id))),
        None if !view.is_in(node, listed) => {
            not_a_member("no member in the list has its ID, name or address".to_owned())
        }
        Some(_) => members(cluster, view).map_or_else(|outcome| outcome, |_| Outcome::Pass(None)),
        None => status(cluster, view).map_or_else(|outcome| outcome, |_| not_running(node)),
    }
}

/// Reports a member whose peer URLs point only to addresses that its machine does not have. Host names cannot be checked here.
fn elsewhere(view: &View<'_>, node: &Node, listed: &[EtcdMember]) -> Option<Problem> {
    let links = node.talos.link_addresses.as_ref().ok()?;
    let member = listed.iter().find(|member| Some(member.id) == view.id)?;
    let is_elsewhere = |host: &String| {
        let address: Option<IpAddr> = host.parse().ok();
        let own = links.iter().map(|it| &it.address).chain(&node.own_addresses);
        address.is_some_and(|address| !own.filter_map(|it| it.parse::<IpAddr>().ok()).any(|it| it == address))
    };
    let hosts = member.hosts();
    (!hosts.is_empty() && hosts.iter().all(is_elsewhere)).then_some(())?;
    let observed = format!("its peer URL is at {}, which is not an address of its machine", hosts.join(", "));
    let problem = Problem::warn(Reason::PeerAddress, "a peer URL at an address of the machine", observed)
        .hint(Hint::likely("etcd has taken an address of the network plugin, or the machine's address has changed"))
        .hint(Hint::run("{talosctl} -n {} etcd members", [node.address.as_str()]))
        .hint(Hint::run("{talosctl} -n {} get addresses", [node.address.as_str()]));
    Some(problem)
}

/// Returns how long the node's etcd has been running or starting, by the runner's clock; `None` if the node's clock is too far ahead for
/// the difference to be meaningful.
fn etcd_age(cluster: &Assessment<'_>, node: &Node) -> Option<SignedDuration> {
    let service = talos_service(cluster, node, "etcd").ok().flatten()?;
    let started = service.running_since.or_else(|| service.last_event.as_ref()?.at)?;
    let age = cluster.taken.duration_since(started);
    (age > -SignedDuration::from_mins(1)).then_some(age)
}

fn joining(cluster: &Assessment<'_>, node: &Node, member: &EtcdMember) -> Problem {
    let expected = "a member that has started";
    let observed = format!("added for {}, not started", node.name);
    match etcd_age(cluster, node) {
        Some(age) if age < JOINING => Problem::warn(Reason::MemberJoining, expected, observed),
        _ => Problem::fail(Reason::MemberJoining, expected, observed)
            .hint(Hint::run("{talosctl} -n {} logs etcd", [node.address.as_str()]))
            .hint(Hint::likely(format!("member {} cannot reach the others on port 2380", hex(member.id)))),
    }
}

fn stale(cluster: &Assessment<'_>, member: &EtcdMember) -> Problem {
    let (observed, likely) = if member.has_never_started() {
        let observed = format!("added for {}, not started, and no control plane is there", member.hosts().join(", "));
        (observed, "its machine is about to join and not up yet, or was given up")
    } else {
        let observed = "no control plane reports its ID".to_owned();
        (observed, "its machine was removed or reinstalled without leaving etcd")
    };
    let problem = Problem::fail(Reason::StaleMember, "a member that belongs to a control plane", observed)
        .hint(Hint::likely(likely));
    let healthy = cluster
        .control_planes()
        .find(|node| matches!(talos_service(cluster, node, "etcd"), Ok(Some(service)) if service.is_healthy()));
    match healthy.filter(|_| !member.has_never_started() && is_gone(cluster, member)) {
        Some(node) => problem.hint(Hint::remedy(
            "{talosctl} -n {} etcd remove-member {}",
            [node.address.as_str(), hex(member.id).as_str()],
        )),
        None => problem,
    }
}

/// Returns true if the member's machine is known to be gone. Only then may the member be removed, which cannot be undone: discovery and
/// Kubernetes were read and have no machine with its name or address, and the user has not named one. A machine that is merely powered off
/// is still listed, but possibly under a different name, so while any control plane does not respond, it could be that one.
fn is_gone(cluster: &Assessment<'_>, member: &EtcdMember) -> bool {
    let hosts = member.hosts();
    let is_it = |name: &str, addresses: &[String]| {
        name.split('.').next() == member.name.split('.').next() || addresses.iter().any(|it| hosts.contains(it))
    };
    let objects = cluster.any_kubernetes().and_then(|kubernetes| kubernetes.nodes.as_ref().ok());
    let endpoints = || cluster.talos().into_iter().flat_map(|talos| &talos.endpoints);
    let given = &cluster.asked.control_plane_nodes;
    // A control plane that does not report its own member may own this one.
    let is_untold = |node: &Node| node.role == Role::ControlPlane && node.talos.etcd_member_id.is_err();
    let may_own = |node: &Node| is_named_beyond_etcd(node) && is_untold(node);
    // Neither another cluster's Kubernetes nor disabled discovery lists any of our machines.
    cluster.identity == Identity::Same
        && cluster.discovery_is_on()
        && cluster.every_control_plane_was_seen
        && !cluster.nodes().iter().any(may_own)
        && objects
            .is_some_and(|nodes| !nodes.is_empty() && !nodes.iter().any(|node| is_it(&node.name, &node.addresses)))
        && !endpoints()
            .map(|endpoint| host(&endpoint.address))
            .chain(given.iter().map(String::as_str))
            .any(|given| given == member.name || hosts.iter().any(|host| host == given))
}

fn learners(cluster: &Assessment<'_>) -> Verdict {
    let Overview { views, members, quorum, .. } = match overview(cluster) {
        Ok(overview) => overview,
        Err(verdict) => return verdict,
    };
    let members = members.unwrap_or_default();
    let mut verdict = Verdict::default();
    for view in views {
        let listed = |id: u64| members.iter().any(|member| member.id == id && member.is_learner);
        let outcome = match (status(cluster, view), super::members(cluster, view)) {
            (Ok(status), _) if status.is_learner || listed(status.member_id) => {
                Outcome::problem(learner(cluster, view.node))
            }
            (_, Err(outcome)) | (Err(outcome), _) => without_quorum(quorum, outcome),
            (Ok(_), Ok(_)) => Outcome::Pass(None),
        };
        verdict.push(view.target.clone(), outcome);
    }
    let answered = |id: u64| views.iter().any(|view| view.status.as_ref().is_ok_and(|it| it.member_id == id));
    for member in members.iter().filter(|member| member.is_learner && !answered(member.id)) {
        let node = views.iter().filter_map(|view| view.node).find(|node| member.could_be(node));
        verdict.problem(member_target(member), learner(cluster, node));
    }
    verdict
}

/// Judges a learner: one that started a moment ago only warns. An unknown age does not count as young.
fn learner(cluster: &Assessment<'_>, node: Option<&Node>) -> Problem {
    let expected = "a voter";
    if node.and_then(|node| etcd_age(cluster, node)).is_some_and(|age| age < JOINING) {
        return Problem::warn(Reason::Learner, expected, "a learner; it started less than 5 minutes ago");
    }
    let problem = Problem::fail(Reason::Learner, expected, "a learner")
        .hint(Hint::likely("the members cannot reach each other on port 2380 in both directions"));
    problem.hint(look(node, "{talosctl} -n {} logs etcd", "{etcdctl} member list"))
}
