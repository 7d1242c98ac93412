//! etcd, and the effects on Kubernetes when etcd fails.

use jiff::SignedDuration;

use super::symptoms::{Sign, names};
use super::{Cause, Recognized, Symptoms, on_all, service};
use crate::assess::etcd::{MemberTrouble, are_foreign, listed_at, member_trouble};
use crate::assess::workloads::lapsed_alone;
use crate::assess::{every_control_plane_was_seen, shows_life};
use crate::model::reason::sources::{ETCD_CORRUPTION, ETCD_LEARNER, ETCD_RECONFIGURATION, TALOS_DISASTER, TALOS_ETCD};
use crate::model::{CheckId, Hint, Kind, Reason, Severity, Step, Target};
use crate::snapshot::{EtcdEndpoint, EtcdStatus, Gap, GapKind, Node, Service};
use crate::text::hex;

use Step::{Change, Do, Look};

pub(super) const QUORUM: Cause = Cause {
    id: "etcd-quorum-lost",
    title: "etcd has lost its quorum: Kubernetes accepts no changes",
    impact: "Kubernetes accepts no changes and soon stops answering: nothing is scheduled, replaced or updated; running pods keep running",
    explain: "More than half of etcd's voters have to be up and connected. They are not: a member that answers reports no \
leader, and no other answer contradicts it. Kubernetes cannot change anything and soon stops answering; running pods keep \
running.\n\n\
etcd recovers on its own as soon as enough members are back. So power on or repair the missing control planes; if their \
disks are \
intact, nothing else is needed. Do not reset, upgrade or reboot the others. Restore a snapshot only if the data of a majority \
is permanently lost.",
    source: TALOS_DISASTER,
    remedy: &[
        Look("talosctl -n CP1,CP2,CP3 etcd status"),
        Look("talosctl -n CP1,CP2,CP3 service etcd"),
        Do("Bring back enough of the missing control planes, with their data."),
        Do(
            "Only if that is impossible, follow the disaster recovery guide exactly, with the latest snapshot: wipe etcd on all remaining control planes, and recover on one of them:",
        ),
        Change("talosctl -n CP bootstrap --recover-from=./db.snapshot"),
    ],
    recognize: |symptoms| {
        let signs = symptoms.of_check(CheckId::EtcdQuorum, &[Reason::QuorumLost]);
        signs
            .map(|sign| {
                // A machine that answers has survived: its service is unhealthy because the other members are gone.
                let survives =
                    |sign: &Sign<'_>| views(symptoms).any(|(target, _)| target == *sign.target && !sign.is_root());
                let down = symptoms.of_check(CheckId::EtcdService, &[Reason::EtcdUnhealthy, Reason::EtcdStarting]);
                let down: Vec<_> = down.filter(|sign| !survives(sign)).collect();
                let who = names(down.iter().map(|sign| sign.target));
                let who = if down.is_empty() { who } else { format!("etcd is down on {who}; ") };
                let voices: Vec<_> = views(symptoms).collect();
                let answer = names(voices.iter().map(|(target, _)| target));
                let silent: Vec<_> = silent(symptoms).collect();
                let others: Vec<_> = silent
                    .iter()
                    .map(|(target, ..)| target)
                    .filter(|target| !down.iter().any(|sign| sign.target == *target))
                    .collect();
                // Talos itself may answer on a machine whose etcd is silent.
                let by_talos = |target: &Target| symptoms.machine(target).is_some_and(|it| it.talos.contact.is_ok());
                let nothing = match others.as_slice() {
                    [] => String::new(),
                    others => {
                        let of = if others.iter().all(|target| by_talos(target)) { "etcd on " } else { "" };
                        format!("no answer from {of}{}; ", names(others.iter().copied()))
                    }
                };
                // The machines to bring back come first, because the end may be cut off.
                let observed = &sign.problem.observed;
                let headline =
                    format!("etcd has lost its quorum: {who}{nothing}{observed}; answers came from {answer}");
                // Commands look at the missing members first, where Talos answers for them.
                let look = if silent.iter().any(|(_, node, _)| node.is_none()) {
                    Some(Hint::run("{etcdctl} endpoint status", []))
                } else {
                    on_all(silent.iter().filter_map(|(_, node, _)| *node), "{talosctl} -n {} service etcd")
                };
                let diagnosis = look.into_iter().fold(Recognized::new(QUORUM.id, headline), Recognized::then);
                let diagnosis = silent
                    .into_iter()
                    .fold(diagnosis, |it, (target, _, gap)| it.sees(target, format!("etcd's status: {}", gap.text)));
                let diagnosis = diagnosis.rests_on_all(&down).rests_on(&sign);
                let diagnosis = voices.into_iter().fold(diagnosis, |it, (node, status)| {
                    let leader = if status.leader == 0 { "no leader".to_owned() } else { hex(status.leader) };
                    it.sees(node, format!("etcd's leader: {leader}, term {}", status.raft_term))
                });
                diagnosis.explains(of_no_database(symptoms))
            })
            .collect()
    },
};

/// A source that was queried for etcd's status, and its answer: an endpoint of `--etcd-endpoints`, or else a control plane.
type Asked<'a> = (Target, Option<&'a Node>, Result<&'a EtcdStatus, &'a Gap>);

fn asked<'a>(symptoms: &Symptoms<'a>) -> Vec<Asked<'a>> {
    let snapshot = symptoms.snapshot;
    let endpoint = |it: &'a EtcdEndpoint| (Target::new(Kind::Endpoint, it.address.as_str()), None, it.status.as_ref());
    match snapshot.external_etcd.as_ref().filter(|endpoints| !are_foreign(snapshot, endpoints)) {
        Some(endpoints) => endpoints.iter().map(endpoint).collect(),
        None => snapshot.control_planes().map(|node| (node.target(), Some(node), status(node))).collect(),
    }
}

/// Returns the status of etcd. It was not requested from a machine that does not answer at all.
fn status(node: &Node) -> Result<&EtcdStatus, &Gap> {
    node.talos.contact.as_ref().and(node.talos.etcd_status.as_ref())
}

/// Returns the sources that gave no answer. A refusal is not evidence about etcd.
fn silent<'a>(symptoms: &Symptoms<'a>) -> impl Iterator<Item = (Target, Option<&'a Node>, &'a Gap)> {
    let told = |gap: &&Gap| !matches!(gap.kind, GapKind::NotAsked | GapKind::Forbidden | GapKind::Unsupported);
    asked(symptoms)
        .into_iter()
        .filter_map(move |(target, node, status)| Some((target, node, status.err().filter(told)?)))
}

fn views<'a>(symptoms: &Symptoms<'a>) -> impl Iterator<Item = (Target, &'a EtcdStatus)> {
    asked(symptoms).into_iter().filter_map(|(target, _, status)| Some((target, status.ok()?)))
}

pub(super) const OUT_OF_SPACE: Cause = Cause {
    id: "etcd-out-of-space",
    title: "etcd's database is full, so Kubernetes cannot write",
    impact: "Kubernetes creates and updates nothing: no pod is scheduled or replaced; running pods keep running",
    explain: "A member's database has reached its quota (2 GiB unless configured), and etcd accepts no new data, only \
deletions, until the alarm is cleared manually. Talos and `/readyz` still report healthy, while leases expire, nodes turn NotReady and nothing can \
be deployed.\n\n\
Often most of the file is free space: then defragment the members one at a time, and disarm the alarm last. If the data itself \
is that large, find out what writes so much, or raise `quota-backend-bytes` (8 GiB at most).",
    source: TALOS_ETCD,
    remedy: &[
        Look("talosctl -n CP1,CP2,CP3 etcd status"),
        Look("talosctl -n CP etcd alarm list"),
        Look("talosctl -n CP etcd snapshot db.snapshot"),
        Do(
            "Then defragment one member at a time, the leader last, and only while all voters are up: a member does not respond while it is defragmented. With one or two voters etcd is unavailable for those seconds.",
        ),
        Change("talosctl -n NODE etcd defrag"),
        Do(
            "Only when every database is smaller than its quota, and never while there is a CORRUPT alarm, which this also clears:",
        ),
        Change("talosctl -n CP etcd alarm disarm"),
    ],
    recognize: |symptoms| alarm(symptoms, &OUT_OF_SPACE, &[Reason::AlarmNospace], "accepts no new data"),
};

/// Makes one diagnosis for all members that raised the alarm. With either alarm, leases are no longer renewed.
fn alarm(symptoms: &Symptoms<'_>, cause: &Cause, reasons: &'static [Reason], what: &str) -> Vec<Recognized> {
    let signs: Vec<_> = symptoms.of_check(CheckId::EtcdAlarms, reasons).collect();
    if signs.is_empty() {
        return Vec::new();
    }
    let whom = |target| symptoms.machine(target).map_or_else(|| target.to_string(), |node| node.target().to_string());
    let seen: Vec<String> =
        signs.iter().map(|sign| format!("{}: {}", whom(sign.target), sign.problem.observed)).collect();
    let headline = format!("etcd {what}: {}", seen.join("; "));
    let lapsed_alone =
        |sign: &Sign<'_>| symptoms.machine(sign.target).is_some_and(|node| lapsed_alone(symptoms.snapshot, node));
    let leases = symptoms.of(&[Reason::NodeLeaseStale, Reason::NotLeading]).filter(|sign| !lapsed_alone(sign));
    let diagnosis = Recognized::new(cause.id, headline).rests_on_all(&signs).explains(leases);
    // The sizes and indexes of all members, side by side, show which one differs.
    let of_talos = symptoms.snapshot.external_etcd.is_none();
    let machines = symptoms.snapshot.control_planes().filter(|_| of_talos);
    let look = on_all(machines, "{talosctl} -n {} etcd status");
    vec![diagnosis.then(look.unwrap_or_else(|| Hint::run("{etcdctl} endpoint status", [])))]
}

pub(super) const CORRUPT: Cause = Cause {
    id: "etcd-data-corrupt",
    title: "the data of an etcd member differs from that of the others",
    impact: "Kubernetes accepts no changes, and reads through this member may return wrong data; running pods keep running",
    explain: "etcd has compared its members and found that one has different data: a disk or memory fault, or a copied data \
directory. Reads from this member may be wrong, and as long as the alarm is raised every member refuses writes (`etcdserver: corrupt \
cluster`).\n\n\
Never disarm this alarm to continue working. Take a snapshot from an intact member, remove the corrupt one, wipe its data and \
let it rejoin; then the alarm, which outlives the member, can be disarmed. If it is not clear which member is intact, restore a \
backup.",
    source: ETCD_CORRUPTION,
    remedy: &[
        Look("talosctl -n CP1,CP2,CP3 etcd status"),
        Look("talosctl -n CP etcd snapshot db.snapshot"),
        Do(
            "Never with a single control plane, and only while the others have a quorum without it: remove the corrupt member by its ID, then wipe the data of its machine.",
        ),
        Change("talosctl -n CP etcd remove-member MEMBER-ID"),
        Change("talosctl -n NODE reset --system-labels-to-wipe=EPHEMERAL --graceful=false --reboot"),
        Do("When it has rejoined, and only then:"),
        Change("talosctl -n CP etcd alarm disarm"),
    ],
    recognize: |symptoms| {
        let made = alarm(
            symptoms,
            &CORRUPT,
            &[Reason::AlarmCorrupt],
            "refuses every write, because the data of a member differs",
        );
        made.into_iter().map(|diagnosis| replaced(symptoms, diagnosis)).collect()
    },
};

/// Adds the commands that replace the member, if exactly one is corrupt, every control plane was seen and is reported, no member is a
/// learner, and the others have a quorum and serve.
fn replaced(symptoms: &Symptoms<'_>, diagnosis: Recognized) -> Recognized {
    let corrupt: Vec<_> = symptoms.of_check(CheckId::EtcdAlarms, &[Reason::AlarmCorrupt]).collect();
    let control_planes: Vec<&Node> = symptoms.snapshot.control_planes().collect();
    let are_up = control_planes.iter().all(|node| node.talos.etcd_status.is_ok());
    // etcd accepts no second learner, so the wiped member could not rejoin.
    let nobody_joins = control_planes.iter().all(|node| {
        node.talos.etcd_members.as_ref().is_ok_and(|members| members.iter().all(|member| !member.is_learner))
    });
    let are_seen = are_up && nobody_joins && every_control_plane_was_seen(symptoms.snapshot);
    let keep_a_quorum = control_planes.len() > 2 && others_keep_a_quorum(symptoms);
    let ([sign], true) = (&*corrupt, are_seen && keep_a_quorum) else { return diagnosis };
    let (Some(machine), Some(id)) = (symptoms.machine(sign.target), sign.target.id.as_deref()) else {
        return diagnosis;
    };
    let others = || control_planes.iter().filter(|node| node.address != machine.address);
    let kubernetes = symptoms.snapshot.kubernetes.as_ref();
    let is_served = |node: &&Node| kubernetes.is_some_and(|it| it.servers.get(&node.name).is_some_and(Result::is_ok));
    let Some(intact) = others().next().filter(|_| others().all(is_served)) else { return diagnosis };
    let (intact, machine) = (intact.address.as_str(), machine.address.as_str());
    diagnosis
        .sees(sign.target.clone(), format!("its member ID is {id}"))
        .then(Hint::remedy("{talosctl} -n {} etcd snapshot db.snapshot", [intact]))
        .then(Hint::remedy("{talosctl} -n {} etcd remove-member {}", [intact, id]))
        .then(Hint::remedy(
            "{talosctl} -n {} reset --system-labels-to-wipe=EPHEMERAL --graceful=false --reboot",
            [machine],
        ))
        // Last, because as long as the alarm is set, no other member can serve wrong data unnoticed.
        .then(Hint::remedy("{talosctl} -n {} etcd alarm disarm", [intact]))
}

/// Reasons that show that a member does not take part yet.
const JOINING: &[Reason] = &[Reason::Learner, Reason::MemberJoining];

pub(super) const LEARNER: Cause = Cause {
    id: "etcd-member-stuck-joining",
    title: "an etcd member is stuck joining",
    impact: "etcd works with its other members, but no further control plane can join",
    explain: "A new member starts as a learner, copies the database and then becomes a voter, usually within two or three \
minutes. This one does not: it cannot reach the others on port 2380, or they cannot reach it, or its disk is too slow to catch \
up. The next control plane has to wait, because etcd allows only one learner.\n\n\
Repair the network in both directions. If that does not help, remove the member, wipe its data and let it rejoin.",
    source: ETCD_LEARNER,
    remedy: &[
        Look("talosctl -n CP etcd members"),
        Look("talosctl -n NODE logs etcd"),
        Do("Check port 2380 between all control planes."),
        Look("talosctl -n CP etcd snapshot db.snapshot"),
        Do(
            "If that does not help, remove the member that is listed as a learner, and no other, and wipe its machine, which then joins again:",
        ),
        Change("talosctl -n CP etcd remove-member MEMBER-ID"),
        Change("talosctl -n NODE reset --system-labels-to-wipe=EPHEMERAL --graceful=false --reboot"),
    ],
    recognize: |symptoms| {
        let stuck = symptoms.of(JOINING);
        // A young learner only causes a warning and is still on its way. A member without a machine will never finish joining.
        let is_stuck = |sign: &Sign<'_>| {
            sign.problem.severity == Severity::Fail
                && !symptoms.about(sign.target).any(|it| it.problem.reason == Reason::StaleMember)
        };
        let groups = symptoms.by_subject(stuck.filter(is_stuck));
        groups
            .iter()
            .map(|signs| {
                let target = signs[0].target;
                let listed = listed_at(symptoms.endpoints_of_etcd(), &target.name).map(|member| member.name.as_str());
                let name = match listed {
                    Some(name) if !name.is_empty() => format!("{name} ({target})"),
                    _ => target.to_string(),
                };
                let headline = format!("etcd member {name} is stuck joining: {}", signs[0].problem.observed);
                let etcd = symptoms.about(target).filter(|sign| sign.check == CheckId::EtcdService);
                // The number of voters is right once it has joined.
                let margin = symptoms.of_check(CheckId::EtcdTolerance, &[Reason::TwoMembers, Reason::EvenMembers]);
                Recognized::new(LEARNER.id, headline).rests_on_all(signs).explains(etcd).explains(margin)
            })
            .collect()
    },
};

pub(super) const STALE: Cause = Cause {
    id: "etcd-member-without-machine",
    title: "a stale etcd member counts toward quorum",
    impact: "etcd works, but the member counts as a voter that is lost, so fewer others can be lost than it seems",
    explain: "etcd's list has a member that belongs to no control plane: a machine was destroyed, forcibly reset or \
reinstalled without leaving etcd. A voter still counts, so the cluster survives fewer failures than it seems. A learner does not \
vote, but etcd adds no other one while it is there.\n\n\
Make sure that its machine is permanently gone, then remove the member by its ID. Remove the old member before you add a \
replacement.",
    source: ETCD_RECONFIGURATION,
    remedy: &[
        Look("talosctl -n CP etcd members"),
        Look("talosctl -n CP etcd snapshot db.snapshot"),
        Do(
            "Only if its machine is permanently gone, and no control plane that answers has this ID. If the machine is only powered off, power it on instead: once removed, it cannot rejoin without being wiped.",
        ),
        Change("talosctl -n CP etcd remove-member MEMBER-ID"),
    ],
    recognize: |symptoms| {
        let signs = symptoms.of_check(CheckId::EtcdMembersNodes, &[Reason::StaleMember]);
        signs.map(|sign| stale(symptoms, &sign)).collect()
    },
};

fn stale(symptoms: &Symptoms<'_>, sign: &Sign<'_>) -> Recognized {
    // A member that has never started has only its id for a name.
    let id = sign.target.id.as_deref().filter(|id| *id != sign.target.name);
    let id = id.map(|id| format!(" ({id})")).unwrap_or_default();
    let answering = views(symptoms).count();
    let learner = symptoms.about(sign.target).any(|it| it.problem.reason == Reason::Learner);
    let counts = if learner { "and blocks the next learner" } else { "but counts toward quorum" };
    let headline = match &sign.target.address {
        Some(host) if id.is_empty() => format!(
            "etcd member {} was added for {host} and has never started: it matches none of the {answering} control planes that answer, {counts}",
            sign.target
        ),
        _ => format!(
            "stale etcd member {}{id}: matches none of the {answering} control planes that answer, {counts}",
            sign.target
        ),
    };
    let margin = symptoms.of_check(
        CheckId::EtcdTolerance,
        &[Reason::NoTolerance, Reason::EvenMembers, Reason::MarginUnmet, Reason::TwoMembers],
    );
    let joining = symptoms.about(sign.target).filter(|it| JOINING.contains(&it.problem.reason));
    let margin = margin.filter(|_| !learner);
    let blocks = learner.then_some("etcd works, but no further control plane can join while the learner is there");
    let diagnosis =
        Recognized::new(STALE.id, headline).with_impact(blocks).rests_on(sign).explains(margin).explains(joining);
    match symptoms.snapshot.control_planes().find(|node| node.talos.etcd_members.is_ok()) {
        Some(node) => diagnosis.then(Hint::run("{talosctl} -n {} etcd members", [node.address.as_str()])),
        None => diagnosis,
    }
}

pub(super) const REMOVED: Cause = Cause {
    id: "etcd-member-removed",
    title: "a control plane is not an etcd member",
    impact: "etcd works without this control plane, and tolerates fewer failures",
    explain: "The machine is configured as a control plane and answers, but etcd's list does not have its member. It was \
removed manually, or by an upgrade or reset that did not finish. Its etcd cannot start with its old data, so its API server, \
if it still runs, has no database. etcd survives one failure fewer than planned.\n\n\
It does not recover by itself. Wipe its data and let it rejoin; that needs a quorum of the others.",
    source: ETCD_RECONFIGURATION,
    remedy: &[
        Look("talosctl -n CP etcd members"),
        Look("talosctl -n NODE logs etcd"),
        Look("talosctl -n CP etcd snapshot db.snapshot"),
        Do(
            "Only while the others have a quorum without it. Everything that exists only on this machine's disk is lost, including its etcd data:",
        ),
        Change("talosctl -n NODE reset --system-labels-to-wipe=EPHEMERAL --graceful=false --reboot"),
    ],
    recognize: |symptoms| {
        let signs = symptoms.of_check(CheckId::EtcdMembersNodes, &[Reason::NotAMember]);
        // If this many machines are outside of the list, they may be the actual cluster, and the list may be another cluster's.
        let outside = symptoms.of_check(CheckId::EtcdMembersNodes, &[Reason::NotAMember]).count();
        let lists = symptoms.snapshot.control_planes().flat_map(|node| &node.talos.etcd_members);
        if outside > 1 && lists.map(Vec::len).max().is_none_or(|listed| listed <= outside) {
            return Vec::new();
        }
        let removed = signs.filter(|sign| {
            // A service that waits for its machine's network or disk is not evidence about the member.
            let is_of_etcd = |it: &Sign<'_>| it.check == CheckId::EtcdService && it.is_root();
            let is_out = |it: &Sign<'_>| is_of_etcd(it) && it.problem.severity == Severity::Fail;
            symptoms.is_open(sign)
                && others_keep_a_quorum(symptoms)
                && symptoms.about(sign.target).any(|it| is_out(&it))
                && !symptoms.node(sign.target).is_some_and(joins_first)
        });
        removed
            .map(|sign| {
                let headline = format!("control plane {} is not an etcd member", sign.target);
                let own = symptoms.about(sign.target).filter(|it| it.check == CheckId::EtcdService);
                let margin = symptoms.of_check(CheckId::EtcdTolerance, &[Reason::TwoMembers, Reason::MarginUnmet]);
                Recognized::new(REMOVED.id, headline).rests_on(&sign).explains(own).explains(margin)
            })
            .collect()
    },
};

/// Returns whether the other members have a quorum, and there is only one cluster.
fn others_keep_a_quorum(symptoms: &Symptoms<'_>) -> bool {
    let is_split = symptoms.of(&[Reason::SplitCluster]).next().is_some();
    symptoms.passed_on_the_whole(CheckId::EtcdQuorum) && !is_split
}

/// Returns whether the machine has no data of a member that could have been removed, or lacks only the etcd image.
fn joins_first(node: &Node) -> bool {
    let etcd = node.talos.services.iter().flatten().find(|service| service.id == "etcd");
    node.talos.etcd_data_absent == Ok(true) || etcd.is_some_and(|it| it.to_string().contains("failed to pull"))
}

pub(super) const STILL_JOINING: Cause = Cause {
    id: "etcd-joining",
    title: "a control plane is still joining etcd",
    impact: "etcd works with the members that it has, and tolerates fewer failures until all have joined",
    explain: "The etcd service of the machine prepares to start, and the machine is not in etcd's list of members yet. After a bootstrap, \
or when a control plane is added, this is normal and takes up to a few minutes: the image is pulled, and members join one \
after the other. Its API server starts once etcd runs.\n\n\
If it takes longer than 10 minutes, the machine cannot join. Its log shows why: it cannot reach the other members on port \
2380, the \
list of members has an old member of the same name, or the others have no quorum.",
    source: TALOS_ETCD,
    remedy: &[
        Look("talosctl -n NODE service etcd"),
        Look("talosctl -n NODE logs etcd"),
        Look("talosctl -n CP etcd members"),
        Do("Wait a few minutes; `--wait-timeout 10m` does that. Do not wipe or reset the machine while it joins."),
    ],
    recognize: |symptoms| {
        if !others_keep_a_quorum(symptoms) {
            return Vec::new();
        }
        let starting = symptoms.of_check(CheckId::EtcdService, &[Reason::EtcdStarting]);
        let joins = |sign: &Sign<'_>| {
            // A machine that still has a member's ID was removed.
            let was_member =
                symptoms.node(sign.target).is_some_and(|node| matches!(node.talos.etcd_member_id, Ok(Some(_))));
            let is_new = !was_member && symptoms.about(sign.target).any(|it| it.problem.reason == Reason::NotAMember);
            let service = symptoms.service(sign.target, "etcd");
            let began = service.and_then(|it| it.last_event.as_ref()).filter(|event| event.state == "Preparing");
            let began = began.and_then(|event| event.at);
            let is_recent = began.is_none_or(|at| symptoms.snapshot.taken.duration_since(at) < JOINS_WITHIN);
            // A service that reports an error is not just slow to start.
            let prepares = |it: &Service| it.state == "Preparing" && it.health_message.is_empty();
            sign.is_root() && symptoms.is_open(sign) && is_new && is_recent && service.is_some_and(prepares)
        };
        let joining: Vec<_> = starting.filter(joins).collect();
        if joining.is_empty() {
            return Vec::new();
        }
        let targets: Vec<_> = joining.iter().map(|sign| sign.target).collect();
        let be = if targets.len() == 1 { "is" } else { "are" };
        let headline =
            format!("etcd on {} {be} still joining, which can take a few minutes", names(targets.iter().copied()));
        let own = joining.iter().flat_map(|sign| symptoms.about(sign.target)).filter(|it| it.check.is_of_etcd());
        let margin =
            symptoms.of_check(CheckId::EtcdTolerance, &[Reason::NoTolerance, Reason::MarginUnmet, Reason::NoAnswer]);
        vec![Recognized::new(STILL_JOINING.id, headline).rests_on_all(&joining).explains(own).explains(margin)]
    },
};

/// Time for a member to join before it counts as stuck.
const JOINS_WITHIN: SignedDuration = SignedDuration::from_mins(10);

pub(super) const STOPPED: Cause = Cause {
    id: "etcd-works-nowhere",
    title: "etcd works on no control plane",
    impact: "Kubernetes has no database: it accepts no changes and soon stops answering; running pods keep running",
    explain: "The machines answer, but etcd works on none of them. Kubernetes cannot read or change anything until a majority of \
the members is back.\n\n\
The log of the service shows why. If the reason is the same everywhere, it comes from the machine configuration: an unknown \
argument, an image that cannot be pulled, a certificate. After a loss of power at all machines, etcd starts on its own once a \
majority of them runs, unless the data of a member is damaged.\n\n\
Do not reset or bootstrap anything: as long as the disks are intact, nothing is lost.",
    source: TALOS_ETCD,
    remedy: &[
        Look("talosctl -n CP1,CP2,CP3 service etcd"),
        Look("talosctl -n CP logs etcd"),
        Do("Fix what the log reports, on one control plane first."),
    ],
    recognize: |symptoms| {
        let all: Vec<_> = symptoms.of_check(CheckId::EtcdService, &[Reason::EtcdUnhealthy]).collect();
        // A member may have a reason of its own, such as a full disk. That does not make the outage of all of them disappear.
        let is_own = |sign: &Sign<'_>| sign.is_root() && symptoms.is_open(sign);
        let (signs, others): (Vec<_>, Vec<_>) = all.iter().copied().partition(is_own);
        let members = symptoms.snapshot.control_planes().count();
        let answering = symptoms.snapshot.control_planes().filter(|node| node.talos.contact.is_ok()).count();
        let is_unreached = |gap: &Gap| gap.kind == GapKind::NodeUnreachable && !gap.is_refused_connection();
        let is_off =
            |node: &&Node| node.talos.contact.as_ref().is_err_and(is_unreached) && !shows_life(symptoms.snapshot, node);
        let down = all.len() + symptoms.snapshot.control_planes().filter(is_off).count();
        // Machines that are not off may be unreachable, and their members may work.
        let is_lost = all.len() == answering && members - down.min(members) < members / 2 + 1;
        let Some(first) = signs.first().filter(|_| is_lost && views(symptoms).next().is_none()) else {
            return Vec::new();
        };
        let reason = service::of_problem(&first.problem.observed, symptoms.service(first.target, "etcd"));
        let headline = match members {
            1 => format!("etcd does not work on the only control plane: {reason}"),
            _ if answering == members => {
                format!("etcd works on none of the {members} control planes; {}: {reason}", first.target)
            }
            _ if answering == 1 => {
                format!("etcd does not work on {}, the only control plane that answers: {reason}", first.target)
            }
            _ => {
                format!("etcd works on none of the {answering} control planes that answer; {}: {reason}", first.target)
            }
        };
        let stopped = signs.iter().filter_map(|sign| symptoms.node(sign.target));
        let logs = stopped.map(|node| Hint::run("{talosctl} -n {} logs etcd", [node.address.as_str()]));
        let recognized =
            logs.take(1).fold(Recognized::new(STOPPED.id, headline).rests_on_all(&signs), Recognized::then);
        let recognized = others.iter().fold(recognized, |it, sign| {
            it.sees(sign.target.clone(), format!("{}: {}", sign.check, sign.problem.observed))
        });
        vec![recognized.explains(of_no_database(symptoms))]
    },
};

/// Returns the problems of parts that cannot work without etcd. API servers answer from it, and without it no lease is renewed and no node
/// is listed.
fn of_no_database<'a>(symptoms: &Symptoms<'a>) -> impl Iterator<Item = Sign<'a>> {
    symptoms.all().filter(|sign| {
        use Reason::{ApiFrozen, ApiNotReady, EtcdUnhealthy, NodeLeaseStale, QuorumUnproven, SingleSource};
        matches!(
            sign.problem.reason,
            ApiFrozen | ApiNotReady | EtcdUnhealthy | NodeLeaseStale | QuorumUnproven | SingleSource
        )
    })
}

pub(super) const DOWN: Cause = Cause {
    id: "etcd-member-down",
    title: "etcd does not work on one control plane; the others keep a quorum",
    impact: "etcd works without this member, and tolerates fewer failures",
    explain: "The machine answers, but its etcd does not work, and the other members have a quorum without it. The cluster \
works, but the next failure may stop it. The API server of that machine has no database, so a load balancer has to exclude it.\n\n\
A member that hangs accepts connections but never answers. One that is cut off from its peers on port 2380 answers but sees no \
leader. Talos checks it only every 20 seconds, so its service is reported as healthy for a while.\n\n\
The log of the service shows why: a full or slow disk, an unknown argument, damaged data, or no connection to the others on \
port 2380. Fix this before any upgrade or reboot of another control plane.",
    source: TALOS_ETCD,
    remedy: &[
        Look("talosctl -n NODE service etcd"),
        Look("talosctl -n NODE logs etcd"),
        Look("talosctl -n CP etcd status"),
        Do("Do not reboot or upgrade other control planes until it is back."),
    ],
    recognize: |symptoms| {
        if !others_keep_a_quorum(symptoms) {
            return Vec::new();
        }
        symptoms.snapshot.control_planes().filter_map(|node| down(symptoms, node)).collect()
    },
};

fn down(symptoms: &Symptoms<'_>, node: &Node) -> Option<Recognized> {
    let target = node.target();
    let is_open = |sign: &Sign<'_>| sign.is_root() && symptoms.is_open(sign);
    // A learner refuses some calls, and may have been promoted a moment ago.
    if symptoms.service(&target, "etcd").is_some_and(|service| service.health_message.contains("learner")) {
        return None;
    }
    let service = symptoms.of_check(CheckId::EtcdService, &[Reason::EtcdUnhealthy, Reason::EtcdStarting]);
    let mut signs: Vec<_> = service.filter(|sign| is_open(sign) && *sign.target == target).collect();
    let trouble = member_trouble(node).filter(|_| symptoms.snapshot.external_etcd.is_none());
    let leader = symptoms.of_check(CheckId::EtcdLeader, &[Reason::LeadersDiffer, Reason::TimedOut]);
    signs.extend(leader.filter(|sign| {
        let whose = match trouble {
            Some(MemberTrouble::NoAnswer) => *sign.target == target,
            Some(MemberTrouble::NoLeader) => sign.target.kind == Kind::Cluster,
            None => false,
        };
        whose && is_open(sign)
    }));
    let observed = &signs.first()?.problem.observed;
    let headline = match trouble {
        Some(MemberTrouble::NoLeader) => {
            format!("etcd on {target} is cut off from its peers and sees no leader; the others keep a quorum")
        }
        Some(MemberTrouble::NoAnswer) => {
            format!("etcd on {target} is not responding; the others keep a quorum: {observed}")
        }
        None => format!(
            "etcd on {target} does not work; the others keep a quorum: {}",
            service::of_problem(observed, symptoms.service(&target, "etcd"))
        ),
    };
    let margin = symptoms
        .of_check(CheckId::EtcdTolerance, &[Reason::NoTolerance, Reason::MarginUnmet, Reason::NoAnswer])
        .filter(|sign| sign.problem.reason != Reason::NoAnswer || trouble.is_some());
    // Other calls that this member did not answer.
    let unanswered = symptoms
        .about(&target)
        .filter(|sign| sign.check.is_of_etcd() && matches!(sign.problem.reason, Reason::TimedOut | Reason::NoAnswer));
    let address = node.address.as_str();
    // The endpoint may lead to an API server that lacks only its etcd.
    let endpoint = symptoms.of_check(CheckId::K8sApiEndpoint, &[Reason::ApiNotReady]);
    let waiting = endpoint.filter(|it| {
        let mut failed = it.problem.observed.split("[-]").skip(1).peekable();
        failed.peek().is_some() && failed.all(|check| check.starts_with("etcd"))
    });
    let diagnosis = Recognized::new(DOWN.id, headline).rests_on_all(&signs).explains(margin).explains(waiting);
    Some(match trouble {
        Some(_) => diagnosis
            .explains(unanswered)
            .then(Hint::run("{talosctl} -n {} service etcd", [address]))
            .then(Hint::run("{talosctl} -n {} logs etcd", [address])),
        None => diagnosis,
    })
}
