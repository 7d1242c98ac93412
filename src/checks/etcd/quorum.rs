//! Checks whether etcd has a quorum, exactly one leader, and a member to spare.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{SETTLE, awaits_quorum, look, members, overview, status};
use crate::assess::Assessment;
use crate::assess::etcd::{Overview, Quorum, View, VoterSource, serves_at};
use crate::checks::Check;
use crate::checks::gaps::{self, says_nothing, unseen};
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Status, Target, Verdict};
use crate::snapshot::{EtcdMember, GapKind};
use crate::text::{hex, some};

/// Maximum number of members or endpoints that are named.
const NAMES: usize = 3;

pub(in crate::checks) const QUORUM: Check = Check {
    id: CheckId::EtcdQuorum,
    stage: Stage::Etcd,
    summary: "etcd has a quorum, or the API's storage in its place answers",
    explain: "Queries every member for its status, which it answers from its own state, and for the member list, which it can \
answer only with a majority. There is a quorum if a voter reports a leader and a member list was returned in the same round.\n\n\
`quorum-lost` means that a member answered that it has no leader, and no other member shows otherwise. Kubernetes then cannot \
write, and soon cannot read. Bring the missing members back; disaster recovery is needed only if the data of a majority is \
lost. `quorum-unproven` means that there was no answer either way.\n\n\
The number of voters is taken from this round's member list, else from an earlier one of this run, else assumed to be the \
number of control planes. Without Talos and without `--etcd-endpoints`, the proof is a list of nodes that the API server has \
to read with a quorum, or in one piece from a database that stands in for etcd; without such a list the reason is \
`storage-unproven`.",
    severity: Severity::Fail,
    finds: &[Reason::QuorumLost, Reason::SplitCluster],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::EtcdMembership, Fact::KubeNodes],
    judge: quorum,
};

pub(in crate::checks) const LEADER: Check = Check {
    id: CheckId::EtcdLeader,
    stage: Stage::Etcd,
    summary: "all etcd members agree on one leader and one term",
    explain: "Compares the leader and the raft term that the members report, and looks for the leader among the voters. \
Members are queried at slightly different moments, so a difference is sampled again one second later before it counts.\n\n\
Members that keep disagreeing belong to different clusters or cannot reach each other on port 2380. A term that grows during \
the run means that leaders are elected again and again: usually a slow disk or a lossy network. In etcd's log, look for `apply \
request took too long`, `slow fdatasync` and `leader failed to send out heartbeat on time`.\n\n\
An endpoint of `--etcd-endpoints` that refuses the connection, accepts it without answering, or presents a wrong certificate \
fails here if the other members list its address. An endpoint that cannot be reached at all may be up behind a broken network. \
One that no source lists may be a mistake.",
    severity: Severity::Fail,
    finds: &[
        Reason::ConnectionRefused,
        Reason::TimedOut,
        Reason::UnknownCa,
        Reason::NameNotInCertificate,
        Reason::ServerCertificateExpired,
        Reason::LeadersDiffer,
        Reason::LeaderChanges,
    ],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::EtcdMembership],
    judge: leader,
};

pub(in crate::checks) const TOLERANCE: Check = Check {
    id: CheckId::EtcdTolerance,
    stage: Stage::Etcd,
    summary: "etcd can lose one more member",
    explain: "Counts the voters and how many of them are up. A cluster of n voters needs n/2+1 of them; those beyond that \
number may fail. Three voters with one down still work but tolerate nothing: the next reboot, for example during an upgrade, \
takes the cluster down. So this check fails while there is still a quorum.\n\n\
An even number of voters tolerates no more failures than the odd number below it, and two are worse than one: losing either one \
stops the cluster. A \
single voter tolerates nothing by design, and passes. `--require-quorum-margin N` requires more.\n\n\
A voter that could not be queried may be up, so it is unknown how many may fail: `no-answer`. The same applies to a machine \
that does not answer Talos while its API server answers at its own address: machined does not respond there, but etcd may still work. It \
also applies to a voter that `--etcd-endpoints` does not name: nothing else would show what is wrong with it.",
    severity: Severity::Fail,
    finds: &[Reason::EvenMembers, Reason::TwoMembers, Reason::NoTolerance, Reason::MarginUnmet],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::EtcdMembership, Fact::ServerReadyz],
    judge: tolerance,
};

fn quorum(cluster: &Assessment<'_>) -> Verdict {
    if !cluster.asks_talos() && !cluster.asks_etcd() {
        return quorum_by_kubernetes(cluster);
    }
    let Overview { views, quorum, .. } = match overview(cluster) {
        Ok(overview) => overview,
        Err(verdict) => return verdict,
    };
    if quorum.proven {
        let mut verdict = Verdict::default();
        verdict.pass(Target::cluster(), format!("etcd cluster has quorum ({})", voters_up(quorum)));
        return verdict;
    }
    if quorum.is_lost() {
        let mut verdict = Verdict::whole(Outcome::problem(quorum_lost(views, quorum)));
        // Enough voters are up but none leads: possibly an election, which a second sample settles.
        verdict.resample_after = (quorum.up >= quorum.needed()).then_some(SETTLE);
        return verdict;
    }
    Verdict::whole(unproven(cluster, views))
}

fn voters_up(quorum: &Quorum) -> String {
    let (up, voters) = (quorum.following, quorum.voters);
    format!("{up} of {voters} voters up, tolerates {}", quorum.tolerates(up))
}

fn quorum_lost(views: &[View<'_>], quorum: &Quorum) -> Problem {
    let source = match quorum.source {
        VoterSource::ThisRound => "",
        VoterSource::EarlierRound => " (voters as seen earlier in this run)",
        VoterSource::Assumed if views.iter().all(|view| view.node.is_none()) => {
            " (voters assumed: one at each endpoint)"
        }
        VoterSource::Assumed => " (voters assumed: one on each control plane)",
    };
    let (up, voters) = (quorum.up, quorum.voters);
    // This number of voters would have elected a leader if etcd counted only them.
    let would_suffice = up >= quorum.needed() && quorum.source == VoterSource::Assumed;
    let observed = if would_suffice {
        format!("no leader, though {up} of {voters} voters are up{source}; etcd may still count removed machines")
    } else {
        format!("{up} of {voters} voters up, need {}; no leader{source}", quorum.needed())
    };
    let problem = Problem::fail(
        Reason::QuorumLost,
        format!("{} of {} voters up and a leader", quorum.needed(), quorum.voters),
        observed,
    )
    .hint(Hint::likely(if would_suffice {
        "etcd counts voters of machines that were removed, or the voters cannot reach each other on port 2380"
    } else if up < quorum.needed() {
        "too few control planes are up, or they cannot reach each other on port 2380"
    } else if voters == 1 {
        "it has just started, or its disk is too slow"
    } else {
        "they cannot reach each other on port 2380, or their disks are too slow"
    }));
    let node = views.iter().find_map(|view| view.node.filter(|_| view.status.is_ok()));
    problem.hint(look(node, "{talosctl} -n {} etcd status", "{etcdctl} endpoint status"))
}

/// Outcome if nothing proves a quorum. It lists the obstacles; if all of them are permanent, waiting is pointless.
fn unproven(cluster: &Assessment<'_>, views: &[View<'_>]) -> Outcome {
    let obstacles: Vec<Problem> = views
        .iter()
        .flat_map(|view| status(cluster, view).err().into_iter().chain(members(cluster, view).err()))
        .filter_map(|outcome| match outcome {
            Outcome::Problem(problem) => Some(*problem),
            _ => None,
        })
        .collect();
    let is_unseen = !obstacles.is_empty() && obstacles.iter().all(|problem| problem.unseen);
    let problems: Vec<&Problem> = obstacles.iter().filter(|problem| is_unseen || !problem.unseen).collect();
    let expected = "a voter that sees a leader, and a member list read with a quorum";
    let texts: BTreeSet<&str> = problems.iter().map(|problem| problem.observed.as_str()).collect();
    // Endpoints are what the user wrote; control planes are named by other checks.
    let endpoints: Vec<_> = views.iter().filter(|view| view.node.is_none()).map(|view| &view.target).collect();
    let observed = match texts.into_iter().collect::<Vec<_>>().join("; ") {
        none if none.is_empty() => "no voter among the members that answered".to_owned(),
        texts if endpoints.is_empty() => texts,
        texts => format!("{}: {texts}", some(endpoints.iter(), NAMES)),
    };
    let is_refusal = |problem: &&&Problem| {
        use Reason::{
            ClientCertificateRefused, EtcdAccessDenied, RoleTooLow, RoleTooLowForThisVersion, SignatureRefused,
        };
        let of_login = matches!(problem.reason, ClientCertificateRefused | SignatureRefused);
        of_login || matches!(problem.reason, EtcdAccessDenied | RoleTooLow | RoleTooLowForThisVersion)
    };
    let refusal = problems.iter().filter(is_refusal).min_by_key(|problem| problem.reason);
    let is_final =
        |fact: Option<Outcome>| matches!(fact, Some(Outcome::Problem(it)) if !it.waiting_helps && !it.unseen);
    let for_ever = !problems.is_empty()
        && views.iter().all(|view| is_final(status(cluster, view).err()) || is_final(members(cluster, view).err()));
    let reason = refusal.filter(|_| for_ever).map_or(Reason::QuorumUnproven, |problem| problem.reason);
    let mut problem = Problem::error(reason, expected, observed);
    for hint in problems.iter().flat_map(|problem| &problem.hints) {
        if !problem.hints.contains(hint) {
            problem.hints.push(hint.clone());
        }
    }
    let problem = if for_ever { problem.permanent() } else { problem };
    Outcome::problem(if is_unseen { problem.unseen() } else { problem })
}

/// Infers a quorum from a list of Kubernetes objects, which the API server reads from etcd with a quorum. The members are not counted.
fn quorum_by_kubernetes(cluster: &Assessment<'_>) -> Verdict {
    let Some(kubernetes) = cluster.any_kubernetes() else {
        return Verdict::skipped("none of Talos, etcd and Kubernetes is queried");
    };
    let expected = "a list of nodes, which the API server reads with a quorum";
    match &kubernetes.nodes {
        Ok(nodes) if !nodes.is_empty() => {
            let mut verdict = Verdict::default();
            let line = "The API's storage answers consistent reads (its members are not visible)";
            verdict.pass(Target::cluster(), line);
            verdict
        }
        Ok(_) => Verdict::whole(Outcome::problem(Problem::error(Reason::StorageUnproven, expected, "an empty list"))),
        Err(gap) if gap.kind == GapKind::Forbidden => {
            Verdict::whole(Outcome::problem(gaps::kubernetes(cluster, gap, expected).unseen()))
        }
        Err(gap) => Verdict::whole(unseen(Reason::StorageUnproven, expected, &gap.text)),
    }
}

/// Adds that no member has the address of this endpoint of `--etcd-endpoints`, if that is so.
fn with_doubt(view: &View<'_>, members: Option<&[EtcdMember]>, outcome: Outcome) -> Outcome {
    let members = members.unwrap_or_default();
    let is_unlisted = view.node.is_none() && !members.iter().any(|member| serves_at(member, &view.target.name));
    match outcome {
        Outcome::Problem(problem) if is_unlisted && !members.is_empty() => {
            let likely = format!(
                "no member has this client URL (members: {}): it was removed from etcd, or the URL is another name for one of them",
                some(members.iter().map(name), NAMES)
            );
            Outcome::problem(problem.hint(Hint::likely(likely)).hint(Hint::run("{etcdctl} member list", [])))
        }
        outcome => outcome,
    }
}

fn leader(cluster: &Assessment<'_>) -> Verdict {
    let Overview { views, members, is_split, quorum } = match overview(cluster) {
        Ok(overview) => overview,
        Err(verdict) => return verdict,
    };
    if !quorum.proven {
        return awaits_quorum();
    }
    let mut verdict = Verdict::default();
    let mut answers = Vec::new();
    for view in views {
        match status(cluster, view) {
            // A member that has ever had a leader has a term.
            Ok(status) if status.leader != 0 && status.raft_term == 0 => {
                verdict.push(view.target.clone(), says_nothing("the member's term", "a status without one"));
            }
            Ok(status) => answers.push((view, status)),
            Err(outcome) => verdict.push(view.target.clone(), with_doubt(view, *members, outcome)),
        }
    }
    if answers.is_empty() {
        return verdict;
    }
    let leaders: BTreeSet<u64> = answers.iter().map(|(_, status)| status.leader).collect();
    let terms: BTreeSet<u64> = answers.iter().map(|(_, status)| status.raft_term).collect();
    let leads = |id: &u64| members.iter().copied().flatten().any(|member| member.id == *id && !member.is_learner);
    let all_follow = answers.iter().all(|(view, _)| view.sees_leader());
    if leaders.len() != 1 || terms.len() != 1 || !leaders.iter().all(leads) || !all_follow {
        let leaders: Vec<String> = answers
            .iter()
            .map(|(view, status)| match status.leader {
                0 => format!("{}: no leader, term {}", view.target, status.raft_term),
                leader => format!("{}: leader {}, term {}", view.target, hex(leader), status.raft_term),
            })
            .collect();
        let expected = "one leader that is a voter, and one term";
        let leaderless =
            answers.iter().filter(|(view, _)| !view.sees_leader()).map(|(view, _)| view.target.name.as_str());
        let problem = Problem::fail(Reason::LeadersDiffer, expected, leaders.join("; ")).on(leaderless);
        verdict.problem(Target::cluster(), problem);
        verdict.resample_after = (!is_split).then_some(SETTLE);
        return verdict;
    }
    let term = terms.iter().max().copied().unwrap_or_default();
    let ago = cluster.memory.elected.map(|at| cluster.memory.elapsed.saturating_sub(at));
    let observed = match cluster.memory.raft_term {
        Some(before) if term > before => Some(format!("term {term}, after {before} earlier in this run")),
        _ if ago.is_some_and(|ago| ago < STEADY) => Some(format!("term {term}, for less than a minute")),
        _ => None,
    };
    if let Some(observed) = observed {
        let problem = Problem::warn(Reason::LeaderChanges, "the same leader during the last minute", observed)
            .hint(Hint::likely("a slow disk or a lossy network between control planes"));
        verdict.problem(Target::cluster(), problem);
    } else {
        let is_it = |member: &&EtcdMember| leaders.contains(&member.id);
        let leader = members.iter().copied().flatten().find(is_it).map_or("", |it| it.name.as_str());
        verdict.pass(Target::cluster(), format!("etcd leader: {leader}"));
    }
    verdict
}

/// Time during which a change of leader counts. Rounds of a wait are shorter.
const STEADY: Duration = Duration::from_secs(60);

/// Returns the voters that are down, each with the target that was queried. A voter that could not be queried may be up; a voter without
/// any machine is down.
fn voters_down<'v>(
    views: &'v [View<'_>],
    members: Option<&'v [EtcdMember]>,
) -> Vec<(&'v EtcdMember, Option<&'v Target>)> {
    let down = |member: &'v EtcdMember| {
        let by_id = views.iter().find(|view| view.id == Some(member.id));
        let by_name = || views.iter().find(|view| view.id.is_none() && view.node.is_some_and(|it| member.could_be(it)));
        let view = by_id.or_else(by_name);
        let is_down = match view {
            Some(view) => view.is_down || (view.status.is_ok() && !view.sees_leader()),
            // The cluster behind `--etcd-endpoints` can have voters that the option does not name.
            None => member.has_never_started() || views.iter().any(|view| view.node.is_some()),
        };
        is_down.then_some((member, view.map(|view| &view.target)))
    };
    members.into_iter().flatten().filter(|member| !member.is_learner).filter_map(down).collect()
}

/// Returns the names of voters that `--etcd-endpoints` does not cover.
fn voters_not_given(views: &[View<'_>], members: Option<&[EtcdMember]>) -> Vec<String> {
    // An endpoint with an unknown id may be any of them.
    if views.iter().any(|view| view.node.is_some() || view.id.is_none()) {
        return Vec::new();
    }
    let is_given = |member: &EtcdMember| views.iter().any(|view| view.id == Some(member.id));
    let voters = members.into_iter().flatten().filter(|member| !member.is_learner && !is_given(member));
    voters.map(name).collect::<BTreeSet<_>>().into_iter().collect()
}

const ODD: &str = "an odd number of voters";

/// Returns control planes whose member is not in the list.
fn outside<'v>(views: &'v [View<'_>], members: Option<&'v [EtcdMember]>) -> impl Iterator<Item = &'v str> {
    views.iter().filter_map(move |view| {
        let node = view.node?;
        (!view.is_in(node, members?)).then_some(view.target.name.as_str())
    })
}

fn name(member: &EtcdMember) -> String {
    if member.name.is_empty() { hex(member.id) } else { member.name.clone() }
}

/// Formats `2 of 3 voters up (cp-3 is not), tolerates 0, 1 required`.
fn margin(quorum: &Quorum, down: &[String], required: usize) -> String {
    let (up, voters) = (quorum.following, quorum.voters);
    let missing = match down {
        [] => String::new(),
        [name] => format!(" ({name} is not)"),
        names => format!(" ({} are not)", names.join(", ")),
    };
    let required = if required > 0 { format!(", {required} required") } else { String::new() };
    format!("{up} of {voters} voters up{missing}, tolerates {}{required}", quorum.tolerates(up))
}

fn incomplete_endpoints(expected: impl Into<String>, observed: String) -> Problem {
    Problem::error(Reason::NoAnswer, expected, observed)
        .hint(Hint::likely("pass the client URLs of all members with `--etcd-endpoints`"))
        .hint(Hint::run("{etcdctl} member list", []))
}

fn tolerance(cluster: &Assessment<'_>) -> Verdict {
    let Overview { views, members, quorum, .. } = match overview(cluster) {
        Ok(overview) => overview,
        // A margin that the user requires has to be observed.
        Err(verdict) if verdict.status() == Status::Skip && cluster.asked.require_quorum_margin.is_some() => {
            let problem = Problem::error(Reason::NoAnswer, "the required margin", "etcd is not queried");
            let hint = Hint::likely("pass `--etcd-endpoints`, or omit `--require-quorum-margin`");
            return Verdict::whole(Outcome::problem(problem.permanent().hint(hint)));
        }
        Err(verdict) => return verdict,
    };
    if !quorum.proven {
        return awaits_quorum();
    }
    let voters = quorum.voters;
    let worst = quorum.tolerates(quorum.following);
    // Members in unknown state may be up. The check fails only if that makes no difference.
    let best = quorum.tolerates(quorum.following + quorum.untold);
    let voters_down = voters_down(views, *members);
    let twins = |one: &EtcdMember| members.iter().copied().flatten().filter(|it| it.name == one.name).count();
    let unambiguous = |member: &EtcdMember| if twins(member) > 1 { hex(member.id) } else { name(member) };
    let down: BTreeSet<String> = voters_down.iter().map(|(member, _)| unambiguous(member)).collect();
    let down: Vec<String> = down.into_iter().collect();
    let wanted = cluster.asked.require_quorum_margin.unwrap_or(0);
    let margin = margin(quorum, &down, wanted);
    let needed = if voters > 2 { wanted.max(1) } else { wanted };
    let reason = if voters > 2 && best == 0 { Reason::NoTolerance } else { Reason::MarginUnmet };
    let expected = format!("tolerates {needed} or more");
    let outside: Vec<&str> = outside(views, *members).collect();
    // If all of these were members, the number of voters would be odd.
    let missing = outside.iter().copied().filter(|_| (voters + outside.len()) % 2 == 1);
    let outcome = if best < needed {
        let mut problem = Problem::fail(reason, expected, margin);
        if reason == Reason::NoTolerance {
            let back = if down.is_empty() { "it is back".to_owned() } else { format!("{} is back", down.join(" or ")) };
            problem = problem.hint(Hint::likely(format!("losing one more member stops the cluster until {back}")));
        } else if down.is_empty() {
            problem =
                problem.hint(Hint::likely("all voters are up: add control planes, or lower `--require-quorum-margin`"));
        }
        let living = views.iter().find_map(|view| view.node.filter(|_| view.sees_leader()));
        let look = look(living, "{talosctl} -n {} etcd members", "{etcdctl} member list");
        let place = |(member, target): &(&EtcdMember, Option<&Target>)| {
            target.map_or_else(|| name(member), |it| it.name.clone())
        };
        Outcome::problem(problem.hint(look).on(voters_down.iter().map(place)))
    } else if worst < needed {
        let not_given = voters_not_given(views, *members);
        let problem = if not_given.is_empty() {
            let observed = format!("{margin}; {} more could not be queried", quorum.untold);
            let silent = views.iter().filter(|view| view.status.is_err() && !view.is_down);
            Problem::error(Reason::NoAnswer, expected, observed).on(silent.map(|view| view.target.name.as_str()))
        } else {
            let (unseen, names) = (not_given.len(), not_given.join(", "));
            let down = if down.is_empty() { String::new() } else { format!("; down: {}", down.join(", ")) };
            let observed = format!(
                "{unseen} of {voters} voters could not be queried, because `--etcd-endpoints` does not include them: {names}{down}"
            );
            incomplete_endpoints(expected, observed)
        };
        let refusals = views.iter().filter_map(|view| match status(cluster, view) {
            Err(Outcome::Problem(problem)) if !problem.waiting_helps && !problem.unseen => Some(problem.reason),
            _ => None,
        });
        // The first reason in table order, so that the order of the nodes does not matter.
        Outcome::problem(match refusals.min() {
            Some(reason) => Problem { reason, ..problem.permanent() },
            None => problem,
        })
    } else if let not_given @ [_, ..] = voters_not_given(views, *members).as_slice() {
        let observed = format!("not among `--etcd-endpoints`: {}", not_given.join(", "));
        Outcome::problem(incomplete_endpoints("each voter is queried", observed))
    } else if voters == 1 {
        Outcome::Pass(Some("etcd has a single voter: tolerates 0".to_owned()))
    } else if voters == 2 {
        let observed = "2 voters";
        Outcome::problem(Problem::warn(Reason::TwoMembers, ODD, observed).on(missing))
    } else if voters % 2 == 0 {
        let spare = voters / 2 - 1;
        let failures = if spare == 1 { "failure" } else { "failures" };
        let observed = format!("{voters} voters survive only {spare} {failures}, the same as {}", voters - 1);
        Outcome::problem(Problem::warn(Reason::EvenMembers, ODD, observed).on(missing))
    } else {
        Outcome::Pass(None)
    };
    Verdict::whole(outcome)
}
