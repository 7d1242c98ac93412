//! etcd behind `--etcd-endpoints`: a member that does not serve us while the others do. Talos may not be involved, so the proposed commands
//! query etcd itself.

use super::symptoms::Sign;
use super::{Cause, Recognized, Symptoms};
use crate::assess::etcd::listed_at;
use crate::model::reason::sources::{ETCD_FAILURES, ETCD_RECONFIGURATION};
use crate::model::{CheckId, Hint, Kind, Reason, Severity, Step, Target};
use crate::snapshot::EtcdMember;
use crate::text::{hex, host};

use Step::{Change, Do, Look};

pub(super) const MUTE: Cause = Cause {
    id: "etcd-endpoint-mute",
    title: "one etcd member does not serve clients; the others do",
    impact: "clients of this member fail; the other members serve theirs",
    explain: "The other members answer and list this address as a member's. So address and credentials are correct, and the \
problem is the member's own. If it refuses the connection, no etcd runs there. If it accepts the connection and does not \
answer, its process or its machine is frozen. Either way etcd survives fewer failures.\n\n\
If its certificate has expired or is signed by another CA, it may still vote: members connect to each other on port 2380 with \
other certificates. But API servers cannot use it, and its state cannot be queried.",
    source: ETCD_FAILURES,
    remedy: &[
        Look("etcdctl --endpoints=ENDPOINTS endpoint status"),
        Look("etcdctl --endpoints=ENDPOINTS member list"),
        Do(
            "On its machine, find out how etcd runs, as a systemd unit, as a container or within another server, and read its log:",
        ),
        Look("systemctl status etcd"),
        Look("journalctl -u etcd"),
        Look("crictl ps -a --name etcd"),
        Look("openssl x509 -noout -subject -issuer -enddate -in SERVER.crt"),
        Do("Leave the other members alone until it is back: no upgrade, no reboot."),
    ],
    recognize: |symptoms| {
        // The judge reports a failure only if the fault is the member's own and the other members confirm that it exists.
        use Reason::{ConnectionRefused, NameNotInCertificate, ServerCertificateExpired, TimedOut, UnknownCa};
        let signs = symptoms.of_check(
            CheckId::EtcdLeader,
            &[ConnectionRefused, NameNotInCertificate, ServerCertificateExpired, TimedOut, UnknownCa],
        );
        // The pod that the member runs in shows why it does not answer.
        let is_in_a_pod = |sign: &Sign<'_>| sign.problem.explained_by == Some(CheckId::K8sStaticpodsRunning);
        signs
            .filter(|sign| sign.problem.severity == Severity::Fail && symptoms.is_open(sign) && !is_in_a_pod(sign))
            .filter_map(|sign| Some(mute(symptoms, &sign, listed_at(symptoms.endpoints_of_etcd(), &sign.target.name)?)))
            .collect()
    },
};

fn mute(symptoms: &Symptoms<'_>, sign: &Sign<'_>, member: &EtcdMember) -> Recognized {
    let observed = &sign.problem.observed;
    let without = "the others keep a quorum";
    let how = match sign.problem.reason {
        Reason::ConnectionRefused => format!("is down: {observed}; {without}"),
        Reason::TimedOut => format!("accepts connections and does not answer: {observed}; {without}"),
        _ if member.is_learner => format!("cannot be queried: {observed}; the others list it as a learner"),
        _ => format!("cannot be queried: {observed}; the others list it as a voter"),
    };
    let id = hex(member.id);
    let name = if member.name.is_empty() { &id } else { &member.name };
    let headline = format!("etcd member {name} ({}) {how}", sign.target);
    let margin =
        symptoms.of_check(CheckId::EtcdTolerance, &[Reason::NoTolerance, Reason::MarginUnmet, Reason::NoAnswer]);
    // If Talos runs this etcd, it has evidence of its own.
    let service: Vec<_> = symptoms.about(sign.target).filter(|it| it.check == CheckId::EtcdService).collect();
    // One that cannot be reached cannot catch up either.
    let learns = symptoms.of_check(CheckId::EtcdLearners, &[Reason::Learner]);
    let learns = learns.filter(|it| it.target.id.as_ref() == Some(&id));
    Recognized::new(MUTE.id, headline)
        .rests_on(sign)
        .rests_on_all(&service)
        .explains(learns)
        .explains(margin.filter(|_| !member.is_learner))
        .then(Hint::run("{etcdctl} endpoint status", []))
        .then(on_its_machine(symptoms, &sign.target.name))
}

pub(super) const UNSTARTED: Cause = Cause {
    id: "etcd-member-never-started",
    title: "an etcd member was added but never started",
    impact: "etcd works, but tolerates fewer failures than it seems",
    explain: "etcd's list has a member without a name and without a client URL: it was added (`etcdctl member add`), but its \
etcd has never started. It counts as a voter from the moment it was added, so the quorum is larger and the cluster survives no \
more failures than before, or fewer.\n\n\
Start etcd on its machine, with `--initial-cluster-state existing` and an empty data directory. If it is not wanted, remove \
the member by its ID. Add the next one as a learner: it has no vote until it has caught up.",
    source: ETCD_RECONFIGURATION,
    remedy: &[
        Look("etcdctl --endpoints=ENDPOINTS member list"),
        Do("On the machine of its peer address, check whether etcd runs, and read its log:"),
        Look("systemctl status etcd"),
        Look("crictl ps -a --name etcd"),
        Do(
            "Start it. Only if it should not be a member after all, remove the member that is listed as unstarted, and no other:",
        ),
        Change("etcdctl --endpoints=ENDPOINTS member remove MEMBER-ID"),
    ],
    recognize: |symptoms| {
        let margin: Vec<_> = symptoms
            .of_check(CheckId::EtcdTolerance, &[Reason::NoTolerance, Reason::MarginUnmet, Reason::EvenMembers])
            .filter(|sign| symptoms.is_open(sign))
            .collect();
        if margin.is_empty() {
            return Vec::new();
        }
        let lists = symptoms.endpoints_of_etcd().iter().flat_map(|endpoint| &endpoint.members).flatten();
        let mut unstarted: Vec<_> = lists.filter(|member| member.has_never_started() && !member.is_learner).collect();
        unstarted.sort_by_key(|member| member.id);
        unstarted.dedup_by_key(|member| member.id);
        if unstarted.is_empty() {
            return Vec::new();
        }
        let named: Vec<String> = unstarted.iter().map(|member| peer(member)).collect();
        let (was, counts) = if named.len() == 1 { ("was", "counts as a voter") } else { ("were", "count as voters") };
        let headline = format!("etcd member {} {was} added but never started, and {counts}", named.join(" and "));
        let recognized = Recognized::new(UNSTARTED.id, headline).rests_on_all(&margin);
        let recognized = unstarted.iter().fold(recognized, |it, member| {
            it.sees(Target::new(Kind::EtcdMember, hex(member.id)), "has no name and no client URL")
        });
        let recognized = recognized.then(Hint::run("{etcdctl} member list", []));
        let urls = unstarted.iter().flat_map(|member| &member.peer_urls);
        vec![urls.fold(recognized, |it, url| it.then(on_its_machine(symptoms, url)))]
    },
};

/// Proposes a command on the member's machine. etcd's API does not show whether it runs as a Talos service, as a unit, as a container or
/// within another server.
fn on_its_machine(symptoms: &Symptoms<'_>, url: &str) -> Hint {
    match symptoms.machine(&Target::new(Kind::Endpoint, url)) {
        Some(node) if node.is_talos => Hint::run("{talosctl} -n {} service etcd", [node.address.as_str()]),
        _ => Hint::run("ssh {} 'ss -tlnp; systemctl status etcd; crictl ps -a --name etcd'", [host(url)]),
    }
}

/// Formats a member that has no name and no client URLs: `e9bbdc766306f2b6 (https://127.0.10.4:2380)`.
fn peer(member: &EtcdMember) -> String {
    match member.peer_urls.as_slice() {
        [] => hex(member.id),
        urls => format!("{} ({})", hex(member.id), urls.join(", ")),
    }
}
