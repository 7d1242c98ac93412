//! Who belongs to etcd: do all agree on it, is every member a control plane, and is every one a voter?

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use super::super::common::{host, is_healthy, member_hosts, talos_contact, talos_service};
use super::super::hex;
use super::super::{Check, Fact, Hint, Kind, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use super::quorum::SETTLE;
use super::{Quorum, View, is_named_beyond_etcd, look, member_list, without_quorum};
use crate::snapshot::{EtcdMember, Node, Snapshot};

pub(in crate::checks) const MEMBERS_CONSISTENT: Check = Check {
    id: "etcd.members.consistent",
    stage: Stage::Etcd,
    summary: "all control planes report the same etcd members",
    explain: "Asks each control plane's own etcd for the list of members, and compares ids and votes. Names are ignored: etcd \
may report an empty one for a while after a restart.\n\n\
`split-cluster` means that two lists have no member in common: two independent clusters, usually because \
`talosctl bootstrap` was run on more than one control plane. Both take writes, and neither knows of the other. Keep the one \
with the data, and reset the control planes of the other so that they join it. `members-differ` usually is a change on its \
way, so it is looked at again a second later before it counts.",
    severity: Severity::Fail,
    requires: &["etcd.quorum"],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::EtcdMembership],
    judge: consistent,
};

pub(in crate::checks) const MEMBERS_NODES: Check = Check {
    id: "etcd.members.nodes",
    stage: Stage::Etcd,
    summary: "etcd members and control planes match one to one",
    explain: "Matches each etcd member with the control plane that reports the member's id as its own. Names and addresses only \
serve where a control plane cannot be asked.\n\n\
`stale-member`: a member that no control plane owns, left behind by a machine that was removed or set up anew. It counts as a \
voter that is down for ever, so it eats the cluster's tolerance: `talosctl etcd remove-member ID`. `not-a-member`: a control \
plane whose member is not in the list, because it was removed or could not join. Wipe its EPHEMERAL partition to let it join \
anew, while the others have a quorum.\n\n\
A member without a name was added and has not started yet. That is normal for a few minutes while a control plane joins.",
    severity: Severity::Fail,
    requires: &["etcd.quorum"],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::EtcdMembership],
    judge: nodes,
};

pub(in crate::checks) const LEARNERS: Check = Check {
    id: "etcd.learners",
    stage: Stage::Etcd,
    summary: "every etcd member votes",
    explain: "A new member joins as a learner: it receives data and has no vote until it has caught up. That takes seconds to a \
few minutes. One that stays a learner adds nothing to the cluster's tolerance, and keeps the next control plane from joining, \
since etcd allows one learner at a time.\n\n\
It warns while the member's etcd started less than five minutes ago, and fails later. Usually the members cannot reach each \
other on port 2380 in both directions. If it does not heal: `talosctl etcd remove-member ID`, then wipe that machine's \
EPHEMERAL partition.",
    severity: Severity::Fail,
    requires: &["etcd.quorum"],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::EtcdMembership],
    judge: learners,
};

/// As long as joining may take.
const JOINING: SignedDuration = SignedDuration::from_mins(5);

fn consistent(snapshot: &Snapshot) -> Verdict {
    let (views, quorum) = match look(snapshot) {
        Ok(seen) => seen,
        Err(verdict) => return verdict,
    };
    let mut verdict = Verdict::default();
    let mut reports: BTreeMap<BTreeSet<(u64, bool)>, Vec<String>> = BTreeMap::new();
    for view in &views {
        match &view.members {
            Ok(members) => {
                let ids = members.iter().map(|member| (member.id, !member.is_learner)).collect();
                reports.entry(ids).or_default().push(view.target.to_string());
            }
            Err(outcome) => verdict.push(view.target.clone(), without_quorum(&quorum, outcome.clone())),
        }
    }
    if reports.len() < 2 {
        if !reports.is_empty() {
            verdict.ok(Target::cluster());
        }
        return verdict;
    }
    let split = are_split(&views);
    let seen: Vec<String> = reports
        .iter()
        .map(|(set, by)| {
            let ids: Vec<String> = set
                .iter()
                .map(|(id, votes)| if *votes { hex(*id) } else { format!("{} (learner)", hex(*id)) })
                .collect();
            format!("{}: {}", by.join(", "), ids.join(" "))
        })
        .collect();
    let (reason, expected) = if split {
        (Reason::SplitCluster, "one etcd cluster")
    } else {
        (Reason::MembersDiffer, "the same members on every control plane")
    };
    let problem = Problem::fail(reason, expected, seen.join("; "));
    verdict.problem(
        Target::cluster(),
        if split {
            problem.hint(Hint::likely("`talosctl bootstrap` was run on more than one control plane"))
        } else {
            problem
        },
    );
    verdict.resample_after = (!split).then_some(SETTLE);
    verdict
}

/// Two of the lists have nothing in common.
pub(super) fn are_split(views: &[View<'_>]) -> bool {
    let ids = |members: &[EtcdMember]| members.iter().map(|member| member.id).collect::<BTreeSet<u64>>();
    let lists = views.iter().filter_map(|view| Some(ids(view.members.as_ref().ok()?)));
    let lists: Vec<BTreeSet<u64>> = lists.filter(|list| !list.is_empty()).collect();
    lists.iter().any(|one| lists.iter().any(|other| one.is_disjoint(other)))
}

fn member_target(member: &EtcdMember) -> Target {
    let target =
        Target::new(Kind::EtcdMember, if member.name.is_empty() { hex(member.id) } else { member.name.clone() });
    let target = target.with_id(hex(member.id));
    match member_hosts(member).into_iter().next() {
        Some(host) => target.with_address(host),
        None => target,
    }
}

/// The member could be this node's, by its name or the address of its peers.
pub(super) fn could_be(member: &EtcdMember, node: &Node) -> bool {
    (!member.name.is_empty() && member.name == node.name)
        || member_hosts(member).iter().any(|host| *host == node.address || node.addresses.contains(host))
}

fn nodes(snapshot: &Snapshot) -> Verdict {
    let (views, quorum) = match look(snapshot) {
        Ok(seen) => seen,
        Err(verdict) => return verdict,
    };
    if snapshot.external_etcd.is_some() {
        return Verdict::skipped("etcd runs outside of the control planes (`--etcd-endpoints`)");
    }
    let Some(members) = member_list(&views) else { return no_list(&views, &quorum) };
    let split = are_split(&views);
    let mut verdict = Verdict::default();
    let owners: Vec<(&View<'_>, &Node)> = views
        .iter()
        .filter_map(|view| view.node.map(|node| (view, node)))
        .filter(|(_, node)| is_named_beyond_etcd(node))
        .collect();
    for (view, node) in &owners {
        verdict.push(view.target.clone(), owner(snapshot, view, node, members, split));
    }
    for member in members {
        let owned = owners.iter().any(|(view, _)| view.id == Some(member.id));
        let hidden = owners.iter().any(|(view, node)| view.id.is_none() && could_be(member, node));
        if owned || hidden {
            continue;
        }
        let candidate = owners.iter().map(|(_, node)| *node).find(|node| could_be(member, node));
        let problem = match candidate {
            Some(node) if member.name.is_empty() => joining(snapshot, node, member),
            _ => stale(snapshot, member),
        };
        verdict.problem(member_target(member), problem);
    }
    verdict
}

/// Nobody gave a list: each member says why, or that it waits for the quorum.
fn no_list(views: &[View<'_>], quorum: &Quorum) -> Verdict {
    let mut verdict = Verdict::default();
    for view in views {
        if let Err(outcome) = &view.members {
            verdict.push(view.target.clone(), without_quorum(quorum, outcome.clone()));
        }
    }
    verdict
}

/// Is this control plane a member? Its own answer about that counts as much as the list.
fn owner(snapshot: &Snapshot, view: &View<'_>, node: &Node, members: &[EtcdMember], split: bool) -> Outcome {
    if let Err(outcome) = talos_contact(snapshot, node) {
        return outcome;
    }
    let not_a_member = |observed: String| {
        let problem = Problem::fail(Reason::NotAMember, "a member of etcd", observed)
            .hint(Hint::run("{talosctl} -n {} service etcd", [node.address.as_str()]))
            .hint(Hint::run("{talosctl} -n {} logs etcd", [node.address.as_str()]));
        // Of two clusters, no member of one is in the list of the other.
        Outcome::Problem(if split { problem.explained_by(MEMBERS_CONSISTENT.id) } else { problem })
    };
    match view.id {
        Some(id) if members.iter().any(|member| member.id == id) => match &view.members {
            Ok(_) => Outcome::Pass(None),
            Err(outcome) => outcome.clone(),
        },
        Some(id) => not_a_member(format!("its member {} is not in the list", hex(id))),
        None if !members.iter().any(|member| could_be(member, node)) => {
            not_a_member("no member of the list has its id, name or address".to_owned())
        }
        None => match &view.status {
            Err(outcome) => outcome.clone(),
            Ok(_) => Outcome::Blocked("etcd.service"),
        },
    }
}

/// How long the node's etcd has been running or starting, by the runner's clock; `None` if the node's clock is so far ahead
/// that the difference says nothing.
fn etcd_age(snapshot: &Snapshot, node: &Node) -> Option<SignedDuration> {
    let service = talos_service(snapshot, node, "etcd").ok().flatten()?;
    let started = service.running_since.or_else(|| service.last_event.as_ref()?.at)?;
    let age = snapshot.taken.duration_since(started);
    (age > -SignedDuration::from_mins(1)).then_some(age)
}

fn joining(snapshot: &Snapshot, node: &Node, member: &EtcdMember) -> Problem {
    let expected = "a member that has started";
    let observed = format!("added for {}, not started", node.name);
    match etcd_age(snapshot, node) {
        Some(age) if age < JOINING => Problem::warn(Reason::MemberJoining, expected, observed),
        _ => Problem::fail(Reason::MemberJoining, expected, observed)
            .hint(Hint::run("{talosctl} -n {} logs etcd", [node.address.as_str()]))
            .hint(Hint::likely(format!("member {} cannot reach the others on port 2380", hex(member.id)))),
    }
}

fn stale(snapshot: &Snapshot, member: &EtcdMember) -> Problem {
    let observed = "no control plane reports its id";
    let problem = Problem::fail(Reason::StaleMember, "a member that is a control plane's", observed)
        .hint(Hint::likely("its machine was removed or set up anew without leaving etcd"));
    let healthy = super::control_planes(snapshot)
        .find(|node| matches!(talos_service(snapshot, node, "etcd"), Ok(Some(service)) if is_healthy(service)));
    match healthy.filter(|_| is_gone(snapshot, member)) {
        Some(node) => problem.hint(Hint::remedy(
            "{talosctl} -n {} etcd remove-member {}",
            [node.address.as_str(), hex(member.id).as_str()],
        )),
        None => problem,
    }
}

/// Only then may it be removed, which cannot be taken back: Kubernetes was read and knows no machine of its name or address, and
/// nobody has named one. A machine that is merely switched off is known to one of them.
fn is_gone(snapshot: &Snapshot, member: &EtcdMember) -> bool {
    let hosts = member_hosts(member);
    let is_it = |name: &str, addresses: &[String]| {
        name.split('.').next() == member.name.split('.').next() || addresses.iter().any(|it| hosts.contains(it))
    };
    let objects = snapshot.kubernetes.as_ref().and_then(|kubernetes| kubernetes.nodes.as_ref().ok());
    let endpoints = snapshot.talos.iter().flat_map(|talos| &talos.endpoints);
    let given = &snapshot.asked.control_plane_nodes;
    // Another cluster's Kubernetes knows none of our machines.
    super::super::identity::is_proven(snapshot)
        && objects
            .is_some_and(|nodes| !nodes.is_empty() && !nodes.iter().any(|node| is_it(&node.name, &node.addresses)))
        && !endpoints
            .map(|endpoint| host(&endpoint.address))
            .chain(given.iter().map(String::as_str))
            .any(|given| given == member.name || hosts.iter().any(|host| host == given))
}

fn learners(snapshot: &Snapshot) -> Verdict {
    let (views, quorum) = match look(snapshot) {
        Ok(seen) => seen,
        Err(verdict) => return verdict,
    };
    let members = member_list(&views).unwrap_or_default();
    let mut verdict = Verdict::default();
    for view in &views {
        let listed = |id: u64| members.iter().any(|member| member.id == id && member.is_learner);
        let outcome = match (&view.status, &view.members) {
            (Ok(status), _) if status.is_learner || listed(status.member_id) => {
                Outcome::Problem(learner(snapshot, view.node))
            }
            (_, Err(outcome)) | (Err(outcome), _) => without_quorum(&quorum, outcome.clone()),
            (Ok(_), Ok(_)) => Outcome::Pass(None),
        };
        verdict.push(view.target.clone(), outcome);
    }
    let answered = |id: u64| views.iter().any(|view| view.status.as_ref().is_ok_and(|it| it.member_id == id));
    for member in members.iter().filter(|member| member.is_learner && !answered(member.id)) {
        let node = views.iter().filter_map(|view| view.node).find(|node| could_be(member, node));
        verdict.problem(member_target(member), learner(snapshot, node));
    }
    verdict
}

/// Young learners are on their way. Of unknown age, one that is seen once cannot be told from one that is stuck.
fn learner(snapshot: &Snapshot, node: Option<&Node>) -> Problem {
    let expected = "a voter";
    let young = match node.and_then(|node| etcd_age(snapshot, node)) {
        Some(age) => age < JOINING,
        None => !snapshot.asked.one_pass && snapshot.memory.elapsed < JOINING.unsigned_abs(),
    };
    if young {
        return Problem::warn(Reason::Learner, expected, "a learner; it started less than 5 minutes ago");
    }
    let problem = Problem::fail(Reason::Learner, expected, "a learner")
        .hint(Hint::likely("the members cannot reach each other on port 2380 in both directions"));
    match node {
        Some(node) => problem.hint(Hint::run("{talosctl} -n {} logs etcd", [node.address.as_str()])),
        None => problem,
    }
}
