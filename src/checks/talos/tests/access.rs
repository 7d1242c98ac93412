//! Rules that many checks share.

use jiff::SignedDuration;

use crate::model::{Role, Status};
use crate::snapshot::{EtcdMember, Gap, GapKind, Snapshot, Sources, TalosNode};
use crate::testing::fixture::{by_check, gap, healthy, kube_node, node, now, readyz};
use crate::testing::judged::{status, wrong};
use crate::text::host;

fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = healthy();
    change(&mut snapshot);
    snapshot
}

#[test]
fn hosts_of_addresses() {
    for (address, expected) in [
        ("https://cp-1.example:2380", "cp-1.example"),
        ("https://[fd00::1]:2380/path", "fd00::1"),
        ("10.0.0.1:50000", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("[fd00::1]:50000", "fd00::1"),
        ("fd00::1", "fd00::1"),
    ] {
        assert_eq!(host(address), expected);
    }
}

#[test]
fn certificates_last_to_the_second() {
    let certificate = |not_before: SignedDuration, not_after: SignedDuration| {
        with(|snapshot| {
            let credentials = snapshot.talos_mut().credentials.as_mut().unwrap();
            let certificate = credentials.certificate.as_mut().unwrap();
            (certificate.not_before, certificate.not_after) = (now() + not_before, now() + not_after);
        })
    };
    let day = SignedDuration::from_hours(24);
    let second = SignedDuration::from_secs(1);
    let of = |not_before, not_after| status("talos.credentials", &certificate(not_before, not_after));
    assert_eq!(of(-day * 400, day * 30), Status::Pass);
    assert_eq!(of(-day * 400, day * 30 - second), Status::Warn);
    assert_eq!(of(-day * 9, day), Status::Pass, "a tenth of its life is left");
    assert_eq!(of(-day * 9, day - second), Status::Warn);
    assert_eq!(of(SignedDuration::ZERO, day), Status::Pass, "it is valid from now on");
    assert_eq!(of(-day, SignedDuration::ZERO), Status::Fail);
    for (deadline, expected) in [(day, Status::Pass), (day + second, Status::Fail)] {
        let mut snapshot = certificate(-day, day);
        snapshot.asked.deadline = Some(now() + deadline);
        assert_eq!(status("talos.credentials", &snapshot), expected);
    }
    // If every peer rejects the certificate, no answers can be expected.
    let silent = |mut snapshot: Snapshot| {
        for node in &mut snapshot.nodes {
            node.talos = TalosNode::unasked(&Gap::not_asked()).into();
        }
        wrong("talos.nodes.kubelet", &snapshot)
    };
    assert_eq!(silent(certificate(SignedDuration::ZERO, day))[0], "cp-1: blocked talos.nodes.reachable");
    assert_eq!(silent(certificate(second, day)), ["cluster: blocked talos.credentials"]);
    assert_eq!(silent(certificate(-day, SignedDuration::ZERO)), ["cluster: blocked talos.credentials"]);
}

#[test]
fn an_endpoint_that_does_not_forward_blocks_the_node_behind_it() {
    let mut snapshot = with(|snapshot| snapshot.talos_of("w-1").contact = gap(GapKind::NoForwarding));
    // The endpoints appear healthy, so only the answer itself shows the problem.
    assert_eq!(wrong("talos.nodes.reachable", &snapshot), ["w-1: error endpoint-is-worker"]);
    assert_eq!(wrong("talos.time", &snapshot), ["w-1: blocked talos.nodes.reachable"]);
    snapshot.talos_mut().endpoints.iter_mut().for_each(|endpoint| endpoint.role = Ok(Some(Role::Worker)));
    for check in ["talos.nodes.reachable", "talos.nodes.kubelet", "talos.nodes.booted", "talos.time"] {
        assert_eq!(wrong(check, &snapshot), ["w-1: blocked talos.endpoints"]);
    }
}

/// A machine at 10.0.0.9 that only these sources name and that does not answer.
pub(super) fn ghost(sources: Sources) -> Snapshot {
    with(|snapshot| {
        let mut machine = node(8, "w-9");
        machine.sources = sources;
        machine.talos = TalosNode::unasked(&Gap::new(GapKind::NodeUnreachable, "no route to host")).into();
        snapshot.nodes.push(machine);
    })
}

#[test]
fn a_node_is_foreign_only_if_its_own_object_says_so() {
    let mut snapshot = ghost(Sources { kubernetes: true, ..Sources::default() });
    snapshot.node_mut("w-9").is_talos = false;
    let mut object = kube_node(8, "w-9");
    "Debian GNU/Linux 13".clone_into(&mut object.os_image);
    snapshot.kube().nodes.as_mut().unwrap().push(object);
    assert_eq!(wrong("talos.nodes.reachable", &snapshot), [""; 0]);
    snapshot.kube_node_mut("w-9").become_virtual();
    assert_eq!(wrong("talos.nodes.reachable", &snapshot), [""; 0]);
    // A machine whose Node does not report its system is judged as a Talos machine.
    "boot".clone_into(&mut snapshot.kube_node_mut("w-9").boot_id);
    assert_eq!(wrong("talos.nodes.reachable", &snapshot), ["w-9: fail node-unreachable, see talos.nodes.expected"]);
    snapshot.kube_node_mut("w-9").become_virtual();
    // Any other source that names the machine takes precedence.
    snapshot.node_mut("w-9").sources.etcd = true;
    assert_eq!(wrong("talos.nodes.reachable", &snapshot), ["w-9: fail node-unreachable"]);
}

#[test]
fn whoever_is_known_by_name_or_address_is_no_stale_member() {
    let discovery = || ghost(Sources { discovery: true, ..Sources::default() });
    let is_stale = |snapshot: &Snapshot| wrong("talos.nodes.reachable", snapshot).is_empty();
    assert!(is_stale(&discovery()));
    let object = |index: usize, name: &str| {
        let mut snapshot = discovery();
        snapshot.kube().nodes.as_mut().unwrap().push(kube_node(index, name));
        snapshot
    };
    assert!(is_stale(&object(18, "other")));
    assert!(!is_stale(&object(18, "w-9")), "by its name");
    assert!(!is_stale(&object(8, "other")), "by its address");
    let member = |name: &str, host: &str| {
        let mut snapshot = discovery();
        let peer_urls = vec![format!("https://{host}:2380")];
        let extra = EtcdMember { id: 9, name: name.to_owned(), peer_urls, ..crate::testing::fixture::member(0) };
        snapshot.talos_of("cp-1").etcd_members.as_mut().unwrap().push(extra);
        snapshot
    };
    assert!(is_stale(&member("other", "10.0.0.19")));
    assert!(!is_stale(&member("w-9", "10.0.0.19")));
    assert!(!is_stale(&member("other", "10.0.0.9")));
}

/// A control plane that has just left etcd and Kubernetes, and that discovery still lists.
fn removed_control_plane() -> Snapshot {
    let mut snapshot = ghost(Sources { discovery: true, ..Sources::default() });
    let node = snapshot.node_mut("w-9");
    (node.name, node.role) = ("cp-9".into(), Role::ControlPlane);
    snapshot.kube().servers.insert("cp-9".into(), gap(GapKind::ConnectTimedOut));
    snapshot
}

#[test]
fn a_control_plane_that_was_removed_is_a_warning_as_long_as_discovery_lists_it() {
    let verdicts = by_check(&removed_control_plane());
    let problems = verdicts.iter().flat_map(|(id, verdict)| verdict.problems().map(move |it| (*id, it)));
    let mut told: Vec<_> =
        problems.map(|(id, (target, problem))| format!("{id} {} {}", target.name, problem.reason.code())).collect();
    told.sort();
    assert_eq!(told, ["talos.nodes.expected cp-9 stale-discovery-member"]);
}

#[test]
fn a_control_plane_is_not_gone_as_long_as_anything_speaks_against_it() {
    let is_gone = |change: &dyn Fn(&mut Snapshot)| {
        let mut snapshot = removed_control_plane();
        change(&mut snapshot);
        wrong("talos.nodes.reachable", &snapshot).iter().all(|line| !line.starts_with("cp-9:"))
    };
    assert!(is_gone(&|_| ()));
    let contact = |kind, text: &'static str| {
        move |snapshot: &mut Snapshot| snapshot.talos_of("cp-9").contact = Err(Gap::new(kind, text))
    };
    assert!(is_gone(&contact(GapKind::TimedOut, "")));
    // The machine, or a different one in its place, is still there.
    assert!(!is_gone(&contact(GapKind::Maintenance, "")));
    assert!(!is_gone(&contact(GapKind::NodeUnreachable, "tls: failed to verify certificate: x509: expired")));
    assert!(!is_gone(&|snapshot| {
        snapshot.talos_of("cp-9").kubelet_certificate = snapshot.talos_of("cp-1").kubelet_certificate.clone();
    }));
    assert!(!is_gone(&|snapshot| {
        snapshot.kube().servers.insert("cp-9".into(), Ok(readyz("https://10.0.0.9:6443")));
    }));
    // The connection was lost.
    for kind in [GapKind::ConnectionRefused, GapKind::Broken, GapKind::Forbidden, GapKind::Throttled] {
        assert!(!is_gone(&contact(kind, "")), "{kind:?}");
    }
    assert!(!is_gone(&|snapshot| {
        snapshot.memory.answered.insert("cp-9".into());
    }));
    // Not every relevant source was read.
    assert!(!is_gone(&|snapshot| snapshot.talos_of("cp-2").etcd_members = gap(GapKind::TimedOut)));
    assert!(!is_gone(&|snapshot| snapshot.talos_of("cp-2").etcd_members = Ok(Vec::new())));
    assert!(!is_gone(&|snapshot| snapshot.power_off("cp-2")));
    assert!(!is_gone(&|snapshot| snapshot.kube().nodes = gap(GapKind::TimedOut)));
    // At least one source still lists the machine.
    assert!(!is_gone(&|snapshot| snapshot.kube().nodes.as_mut().unwrap().push(kube_node(8, "cp-9"))));
    assert!(!is_gone(&|snapshot| {
        let members = snapshot.talos_of("cp-2").etcd_members.as_mut().unwrap();
        members.push(EtcdMember { id: 9, name: "cp-9".into(), ..crate::testing::fixture::member(0) });
    }));
}

#[test]
fn a_stale_member_is_not_one_that_is_expected() {
    let mut snapshot = ghost(Sources { discovery: true, ..Sources::default() });
    let is_stale = |snapshot: &Snapshot| wrong("talos.nodes.reachable", snapshot).is_empty();
    for (control_planes, workers, stale) in
        [(Some(3), Some(1), true), (Some(4), None, false), (None, Some(2), false), (None, Some(0), false)]
    {
        (snapshot.asked.expect_control_planes, snapshot.asked.expect_workers) = (control_planes, workers);
        assert_eq!(is_stale(&snapshot), stale, "{control_planes:?} {workers:?}");
    }
    // A machine that is being removed no longer counts.
    snapshot.asked.expect_workers = Some(1);
    let mut leaving = node(7, "w-8");
    leaving.leaving = true;
    snapshot.nodes.push(leaving);
    assert!(is_stale(&snapshot));
}

#[test]
fn a_talosconfig_that_cannot_be_used_says_why() {
    let broken = |kind| with(|snapshot| snapshot.talos_mut().credentials = gap(kind));
    let said = |kind| wrong("talos.credentials", &broken(kind));
    assert_eq!(said(GapKind::ContextUnknown), ["talosconfig: fail context-unknown, for ever"]);
    assert_eq!(said(GapKind::Malformed), ["talosconfig: fail config-unreadable, for ever"]);
    assert_eq!(said(GapKind::TimedOut), ["talosconfig: error timed-out"]);
}

#[test]
fn a_ca_that_ends_is_no_pass_beside_its_warning() {
    let ending = with(|snapshot| {
        let ca = snapshot.talos_mut().credentials.as_mut().unwrap().ca.as_mut().unwrap();
        (ca.not_before, ca.not_after) =
            (now() - SignedDuration::from_hours(24 * 3650), now() + SignedDuration::from_hours(24));
    });
    let verdict = crate::testing::judged::judge("talos.credentials", &ending);
    assert_eq!((verdict.status(), verdict.findings.len()), (Status::Warn, 1));
}

#[test]
fn a_kubelet_without_a_certificate_is_looked_for_among_the_requests() {
    let diagnosed = |id: &str| {
        let found = crate::snapshot::Diagnostic { id: id.to_owned(), message: "it".to_owned(), details: Vec::new() };
        crate::testing::judged::hints(
            "talos.nodes.diagnostics",
            &with(|snapshot| snapshot.talos_of("w-1").diagnostics = Ok(vec![found])),
        )
    };
    let requests = crate::model::Hint::run("{kubectl} get csr", []);
    assert!(diagnosed("kubelet-csr").contains(&requests));
    assert!(!diagnosed("address-overlap").contains(&requests));
}
