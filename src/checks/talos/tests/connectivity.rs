use jiff::SignedDuration;

use crate::model::{CheckId, Hint, MachineType, Role, Status};
use crate::snapshot::{Certificate, Gap, GapKind, Snapshot, Sources, TalosNode};
use crate::testing::fixture::{ago, gap, healthy, now};
use crate::testing::judged::{failing, judge, lines, observed, status, wrong};

/// The fixture with one thing changed.
fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = healthy();
    change(&mut snapshot);
    snapshot
}

fn with_certificate(change: impl FnOnce(&mut Certificate)) -> Snapshot {
    with(|snapshot| {
        let credentials = snapshot.talos_mut().credentials.as_mut().unwrap();
        change(credentials.certificate.as_mut().unwrap());
    })
}

const FILE: &str = "/home/ci/.talos/config";

#[test]
fn credentials_fail_for_what_no_server_accepts() {
    let day = SignedDuration::from_hours(24);
    let cases: Vec<(Snapshot, &str)> = vec![
        (with_certificate(|it| it.not_after = now()), "fail certificate-expired, for ever"),
        (with_certificate(|it| it.not_before = now() + day), "fail certificate-not-yet-valid"),
        (with_certificate(|it| it.client_auth = false), "fail client-auth-missing, for ever"),
        (with_certificate(|it| it.matches_key = false), "fail key-mismatch, for ever"),
        (with_certificate(|it| it.not_after = now() + day * 15), "warn certificate-expires-soon, for ever"),
        (with(|snapshot| snapshot.asked.deadline = Some(now() + day * 400)), "fail certificate-expires-soon, for ever"),
        (
            with(|snapshot| snapshot.talos_mut().credentials.as_mut().unwrap().certificate = None),
            "fail config-unreadable, for ever",
        ),
    ];
    for (snapshot, expected) in cases {
        assert_eq!(wrong("talos.credentials", &snapshot), [format!("{FILE}: {expected}")]);
    }
    let unreadable = with(|snapshot| snapshot.talos_mut().credentials = gap(GapKind::Malformed));
    assert_eq!(wrong("talos.credentials", &unreadable), ["talosconfig: fail config-unreadable, for ever"]);
}

#[test]
fn short_lived_credentials_are_no_warning() {
    let hourly = with_certificate(|it| {
        it.not_before = ago(600);
        it.not_after = now() + SignedDuration::from_mins(50);
    });
    assert_eq!(status("talos.credentials", &hourly), Status::Pass);
}

#[test]
fn dead_endpoints_warn_while_one_works() {
    let one_dead = with(|snapshot| snapshot.talos_mut().endpoints[1].version = gap(GapKind::ConnectionRefused));
    assert_eq!(wrong("talos.endpoints", &one_dead), ["10.0.0.2:50000: warn connection-refused"]);
    let worker = with(|snapshot| snapshot.talos_mut().endpoints[1].role = Ok(Some(Role::Worker)));
    assert_eq!(wrong("talos.endpoints", &worker), ["10.0.0.2:50000: warn endpoint-is-worker, for ever"]);
    let vip = with(|snapshot| snapshot.talos_mut().endpoints[0].vip = true);
    assert_eq!(wrong("talos.endpoints", &vip), ["10.0.0.1:50000: warn endpoint-is-vip, for ever"]);
}

#[test]
fn only_a_machine_without_kubernetes_may_have_no_name() {
    let nameless = |tag: &str| {
        let mut snapshot = healthy().without_kubernetes();
        let talos = snapshot.talos_of("w-1");
        talos.nodename = Ok(None);
        tag.clone_into(&mut talos.contact.as_mut().unwrap().version.tag);
        snapshot
    };
    assert_eq!(wrong("talos.nodes.reachable", &nameless("v1.13.0")), ["w-1: error no-answer"]);
    assert_eq!(wrong("talos.nodes.reachable", &nameless("v1.14.0")), [""; 0]);
    let mut unnamed = nameless("v1.13.0");
    unnamed.node_mut("w-1").name = "10.0.0.4".to_owned();
    assert_eq!(wrong("talos.nodes.reachable", &unnamed), [""; 0], "nobody else names it either");
}

/// A snapshot in which no endpoint answers, all for the same reason, so that no node was queried.
fn cut_off(kind: GapKind) -> Snapshot {
    with(|snapshot| {
        snapshot.talos_mut().endpoints.truncate(1);
        for endpoint in &mut snapshot.talos_mut().endpoints {
            endpoint.version = gap(kind);
        }
        for node in &mut snapshot.nodes {
            node.talos = TalosNode::unasked(&Gap::not_asked()).into();
        }
    })
}

#[test]
fn without_an_endpoint_nothing_is_known() {
    let cases = [
        (GapKind::ConnectionRefused, "fail connection-refused"),
        (GapKind::TimedOut, "fail timed-out"),
        (GapKind::Broken, "fail no-answer"),
        (GapKind::ConnectTimedOut, "fail timed-out"),
        (GapKind::NameNotFound, "fail name-not-found"),
        // Kubernetes does not show which cluster a foreign certificate belongs to.
        (GapKind::UnknownCa, "error unknown-ca"),
        (GapKind::NameNotInCertificate, "error name-not-in-certificate"),
        (GapKind::Maintenance, "fail maintenance-mode"),
        (GapKind::ClientCertificateRefused, "error client-certificate-refused"),
        (GapKind::Proxy, "fail proxy-refused"),
    ];
    for (kind, expected) in cases {
        let snapshot = cut_off(kind);
        assert_eq!(wrong("talos.endpoints", &snapshot), [format!("10.0.0.1:50000: {expected}")]);
        for id in crate::testing::judged::IDS.into_iter().skip(2) {
            assert_eq!(wrong(id, &snapshot), ["cluster: blocked talos.endpoints"], "{id}");
        }
    }
}

#[test]
fn what_lies_before_the_endpoints_is_a_failure_only_if_something_of_the_cluster_answers() {
    for kind in [GapKind::ConnectTimedOut, GapKind::NameNotFound, GapKind::NoRoute, GapKind::Proxy] {
        let among_others = cut_off(kind);
        assert!(wrong("talos.endpoints", &among_others)[0].starts_with("10.0.0.1:50000: fail "), "{kind:?}");
        let alone = among_others.without_kubernetes();
        assert!(wrong("talos.endpoints", &alone)[0].starts_with("10.0.0.1:50000: error "), "{kind:?}");
    }
}

#[test]
fn a_refused_certificate_is_final_only_when_it_is_refused_again() {
    let mut snapshot = cut_off(GapKind::ClientCertificateRefused);
    snapshot.memory.rounds = 2;
    let expected = "10.0.0.1:50000: error client-certificate-refused, for ever";
    assert_eq!(wrong("talos.endpoints", &snapshot), [expected]);
}

#[test]
fn an_unknown_ca_is_final_once_every_endpoint_has_shown_it_for_long() {
    let mut snapshot = cut_off(GapKind::UnknownCa);
    snapshot.memory.unknown_ca_rounds = 2;
    assert_eq!(wrong("talos.endpoints", &snapshot), ["10.0.0.1:50000: error unknown-ca, for ever"]);
    let mut another = snapshot.talos_mut().endpoints[0].clone();
    another.version = gap(GapKind::Maintenance);
    snapshot.talos_mut().endpoints.push(another);
    assert_eq!(
        wrong("talos.endpoints", &snapshot),
        ["10.0.0.1:50000: error unknown-ca", "10.0.0.1:50000: fail maintenance-mode"]
    );
}

#[test]
fn workers_alone_cannot_be_endpoints() {
    let mut snapshot = cut_off(GapKind::NoForwarding);
    let endpoint = &mut snapshot.talos_mut().endpoints[0];
    endpoint.version = Ok(crate::testing::fixture::version());
    endpoint.role = Ok(Some(Role::Worker));
    assert_eq!(wrong("talos.endpoints", &snapshot), ["10.0.0.1:50000: fail endpoint-is-worker, for ever"]);
    assert_eq!(wrong("talos.nodes.reachable", &snapshot), ["cluster: blocked talos.endpoints"]);
}

#[test]
fn an_unusable_certificate_is_the_one_cause() {
    let mut snapshot = cut_off(GapKind::ClientCertificateRefused);
    snapshot.talos_mut().credentials.as_mut().unwrap().certificate.as_mut().unwrap().not_after = ago(1);
    let expected = "10.0.0.1:50000: error client-certificate-refused, for ever, see talos.credentials";
    assert_eq!(wrong("talos.endpoints", &snapshot), [expected]);
    assert_eq!(wrong("talos.nodes.reachable", &snapshot), ["cluster: blocked talos.credentials"]);
    assert_eq!(wrong("etcd.quorum", &snapshot), ["cluster: blocked talos.credentials"]);
}

#[test]
fn nodes_show_how_they_are_lost() {
    let cases = [
        (GapKind::NodeUnreachable, "fail node-unreachable"),
        (GapKind::TimedOut, "fail node-unreachable"),
        (GapKind::Maintenance, "fail maintenance-mode"),
        (GapKind::NoForwarding, "error endpoint-is-worker"),
        (GapKind::Forbidden, "error role-too-low, for ever"),
        (GapKind::Malformed, "error unreadable-answer"),
        (GapKind::NotAsked, "error no-answer"),
        // The connection to the endpoint itself was lost.
        (GapKind::Broken, "error no-answer"),
        (GapKind::ConnectionRefused, "error connection-refused"),
        (GapKind::NoRoute, "error no-route"),
        (GapKind::ConnectTimedOut, "error timed-out"),
        (GapKind::UnknownCa, "error unknown-ca"),
    ];
    for (kind, expected) in cases {
        let snapshot = with(|snapshot| snapshot.talos_of("w-1").contact = gap(kind));
        assert_eq!(wrong("talos.nodes.reachable", &snapshot), [format!("w-1: {expected}")]);
    }
    // Only a direct query shows that the node accepts connections.
    let frozen = with(|snapshot| {
        snapshot.talos_of("cp-1").contact = gap(GapKind::TimedOut);
        snapshot.talos_mut().endpoints[0].version = gap(GapKind::TimedOut);
    });
    assert_eq!(wrong("talos.nodes.reachable", &frozen), ["cp-1: fail node-frozen"]);
    let other = with(|snapshot| {
        snapshot.talos_of("w-1").contact.as_mut().unwrap().answered_by_other = Some("cp-1".to_owned());
    });
    assert_eq!(wrong("talos.nodes.reachable", &other), ["w-1: fail answered-by-other-node"]);
    assert_eq!(wrong("talos.nodes.kubelet", &other), ["w-1: blocked talos.nodes.reachable"]);
}

#[test]
fn a_lost_node_comes_with_the_next_step() {
    let mut snapshot = healthy();
    snapshot.power_off("cp-3");
    let verdict = judge("talos.nodes.reachable", &snapshot);
    let (_, problem) = verdict.problems().next().unwrap();
    assert_eq!(
        problem.hints,
        [
            Hint::likely(
                "the machine is down, or port 50000 is filtered between 10.0.0.1 and it; look at the machine's console"
            ),
            Hint::run("{talosctl} -n {} version", ["10.0.0.3"]),
            Hint::run("{kubectl} describe node {}", ["cp-3"]),
        ]
    );
}

#[test]
fn a_dead_endpoint_comes_with_its_cause_and_the_next_step() {
    let cases = [
        (GapKind::ConnectionRefused, "nothing listens on that port: apid is not up, or the address is wrong"),
        (GapKind::ConnectTimedOut, "a firewall drops packets to port 50000, or the machine is down"),
        (GapKind::NameNotFound, "`10.0.0.1` is misspelled, or the DNS of this runner cannot resolve it"),
    ];
    for (kind, likely) in cases {
        let verdict = judge("talos.endpoints", &cut_off(kind));
        let (_, problem) = verdict.problems().next().unwrap();
        let version = Hint::run("{talosctl} -e {} -n {} version", ["10.0.0.1", "10.0.0.1"]);
        assert_eq!(problem.hints, [Hint::likely(likely), version]);
    }
    for kind in crate::testing::fixture::GAPS.into_iter().filter(|kind| *kind != GapKind::NotAsked) {
        let verdict = judge("talos.endpoints", &cut_off(kind));
        let (_, problem) = verdict.problems().next().unwrap();
        assert!(problem.hints.iter().any(|hint| matches!(hint, Hint::Try { .. })), "{kind:?}");
    }
}

#[test]
fn a_lost_node_explains_its_dead_endpoint() {
    let mut snapshot = healthy();
    snapshot.power_off("cp-3");
    assert_eq!(wrong("talos.endpoints", &snapshot), ["10.0.0.3:50000: warn no-route, see talos.nodes.reachable"]);
    // A check that was skipped explains nothing.
    snapshot.asked.skipped.insert(CheckId::TalosNodesReachable);
    assert_eq!(wrong("talos.endpoints", &snapshot), ["10.0.0.3:50000: warn no-route"]);
    // The node answers through the other endpoints, so only the path from this runner is closed.
    let only_here = with(|snapshot| snapshot.talos_mut().endpoints[2].version = gap(GapKind::NoRoute));
    assert_eq!(wrong("talos.endpoints", &only_here), ["10.0.0.3:50000: warn no-route"]);
}

#[test]
fn one_control_plane_down_fails_exactly_two_checks() {
    let mut snapshot = healthy();
    snapshot.power_off("cp-3");
    assert_eq!(failing(&snapshot), ["talos.nodes.reachable", "etcd.tolerance"]);
    for id in ["talos.nodes.booted", "talos.nodes.services", "etcd.service", "etcd.members.nodes", "etcd.alarms"] {
        assert_eq!(wrong(id, &snapshot), ["cp-3: blocked talos.nodes.reachable"], "{id}");
    }
    assert_eq!(lines("etcd.quorum", &snapshot), ["etcd cluster has quorum (2 of 3 voters up, tolerates 0)"]);
}

#[test]
fn connected_nodes_are_listed_as_people_know_them() {
    let mut snapshot = healthy();
    snapshot.node_mut("w-1").name = "10.0.0.4".to_owned();
    let lines = lines("talos.nodes.reachable", &snapshot);
    assert_eq!(lines[0], "Node cp-1 (10.0.0.1): connected");
    assert_eq!(lines[3], "Node 10.0.0.4: connected");
}

#[test]
fn expected_numbers_are_exact() {
    let cases =
        [(Some(3), Some(1), None), (Some(4), None, Some("node-missing")), (None, Some(0), Some("node-unexpected"))];
    for (control_planes, workers, reason) in cases {
        let snapshot = with(|snapshot| {
            snapshot.asked.expect_control_planes = control_planes;
            snapshot.asked.expect_workers = workers;
        });
        let expected: Vec<String> = reason.iter().map(|reason| format!("cluster: fail {reason}")).collect();
        assert_eq!(wrong("talos.nodes.expected", &snapshot), expected);
    }
    for (workers, said) in [(2, "1 worker, 2 expected: w-1"), (0, "1 worker, 0 expected: w-1")] {
        let snapshot = with(|snapshot| snapshot.asked.expect_workers = Some(workers));
        assert_eq!(observed("talos.nodes.expected", &snapshot), [said]);
    }
    let mut none = healthy().only(&["cp-1"]);
    (none.asked.expect_control_planes, none.asked.expect_workers) = (Some(3), Some(1));
    assert_eq!(observed("talos.nodes.expected", &none), ["1 control plane, 3 expected: cp-1", "no worker, 1 expected"]);
}

#[test]
fn flags_are_the_population() {
    let asked = |workers: &[&str]| {
        with(|snapshot| {
            snapshot.asked.control_plane_nodes = ["10.0.0.1", "cp-2", "cp-3"].map(str::to_owned).to_vec();
            snapshot.asked.worker_nodes = workers.iter().map(|&name| name.to_owned()).collect();
            for node in &mut snapshot.nodes {
                let is_named = || workers.iter().any(|name| node.is_called(name));
                node.sources.flags = node.role == Role::ControlPlane || is_named();
            }
        })
    };
    assert_eq!(status("talos.nodes.expected", &asked(&["w-1"])), Status::Pass);
    assert_eq!(wrong("talos.nodes.expected", &asked(&["W-1"])), Vec::<String>::new(), "names have no case");
    let mut more = asked(&["w-1"]);
    let mut other = more.nodes.iter().find(|node| node.name == "w-1").unwrap().clone();
    (other.name, other.sources.flags) = ("w-9".to_owned(), false);
    more.nodes.push(other);
    assert_eq!(wrong("talos.nodes.expected", &more), ["w-9: warn node-unexpected"]);
    assert_eq!(wrong("talos.nodes.expected", &asked(&["w-1", "w-2"])), ["w-2: fail node-missing"]);
    assert_eq!(wrong("talos.nodes.expected", &asked(&["w-1", "cp-1"])), ["cp-1: fail node-missing"]);
    // Flags for one role do not change the population of the other role.
    let mut control_planes = asked(&[]);
    assert_eq!(status("talos.nodes.expected", &control_planes), Status::Pass);
    control_planes.service_mut("w-1", "kubelet").healthy = Some(false);
    assert_eq!(wrong("talos.nodes.kubelet", &control_planes), ["w-1: fail kubelet-unhealthy"]);
    let mut workers = asked(&["w-1"]);
    workers.asked.control_plane_nodes.clear();
    workers.nodes.iter_mut().for_each(|node| node.sources.flags = node.role == Role::Worker);
    assert_eq!(status("talos.nodes.expected", &workers), Status::Pass);
    workers.service_mut("cp-2", "kubelet").healthy = Some(false);
    assert_eq!(wrong("talos.nodes.kubelet", &workers), ["cp-2: fail kubelet-unhealthy"]);
}

#[test]
fn a_single_source_is_a_warning_unless_numbers_are_stated() {
    let mut snapshot = healthy().without_kubernetes();
    assert_eq!(status("talos.nodes.expected", &snapshot), Status::Pass, "etcd confirms discovery");
    snapshot.talos_mut().discovery = Ok(0);
    for node in &mut snapshot.nodes {
        node.sources.discovery = false;
    }
    assert_eq!(wrong("talos.nodes.expected", &snapshot), ["cluster: warn single-source"]);
    assert_eq!(observed("talos.nodes.expected", &snapshot), ["only etcd names nodes, and it knows no workers"]);
    snapshot.asked.expect_workers = Some(1);
    assert_eq!(status("talos.nodes.expected", &snapshot), Status::Pass);
}

/// Adds a machine that only these sources name and that does not answer.
fn ghost(snapshot: &mut Snapshot, sources: Sources) {
    let mut node = crate::testing::fixture::node(3, "w-1");
    node.name = "w-9".to_owned();
    node.address = "10.0.0.9".to_owned();
    node.addresses = vec![node.address.clone()];
    node.sources = sources;
    node.talos = TalosNode::unasked(&Gap::new(GapKind::NodeUnreachable, "no route to host")).into();
    snapshot.nodes.push(node);
}

#[test]
fn a_member_of_discovery_alone_is_stale_only_with_proof() {
    let discovery = Sources { discovery: true, ..Sources::default() };
    let mut snapshot = with(|snapshot| ghost(snapshot, discovery));
    assert_eq!(wrong("talos.nodes.expected", &snapshot), ["w-9: warn stale-discovery-member"]);
    assert!(failing(&snapshot).is_empty());
    assert_eq!(wrong("talos.nodes.reachable", &snapshot), [""; 0]);

    let refuses = |snapshot: &mut Snapshot| {
        let gap = Gap::new(GapKind::NodeUnreachable, "dial tcp 10.0.0.9:50000: connect: connection refused");
        snapshot.node_mut("w-9").talos = TalosNode::unasked(&gap).into();
    };
    let unproven: [fn(&mut Snapshot); 6] = [
        refuses,
        |snapshot| snapshot.kube().nodes = gap(GapKind::Forbidden),
        |snapshot| snapshot.kube().nodes = Ok(Vec::new()),
        |snapshot| snapshot.asked.expect_workers = Some(2),
        |snapshot| snapshot.memory.answered.extend(["w-9".to_owned()]),
        |snapshot| snapshot.set_members(&[]),
    ];
    for change in unproven {
        let mut changed = snapshot.clone();
        change(&mut changed);
        assert_eq!(wrong("talos.nodes.reachable", &changed), ["w-9: fail node-unreachable"]);
    }
    // A scale-down that began during the run has ended.
    let mut scaled = snapshot.clone();
    scaled.memory.answered.extend(["w-9".to_owned()]);
    scaled.memory.leaving.extend(["w-9".to_owned()]);
    assert_eq!(wrong("talos.nodes.reachable", &scaled), [""; 0]);
    snapshot.node_mut("w-9").sources.kubernetes = true;
    assert_eq!(wrong("talos.nodes.reachable", &snapshot), ["w-9: fail node-unreachable"]);
}

#[test]
fn a_node_object_without_a_machine_is_stale() {
    let snapshot = with(|snapshot| ghost(snapshot, Sources { kubernetes: true, ..Sources::default() }));
    assert_eq!(wrong("talos.nodes.expected", &snapshot), ["w-9: fail stale-node-object"]);
    assert_eq!(wrong("talos.nodes.reachable", &snapshot), ["w-9: fail node-unreachable, see talos.nodes.expected"]);
}

#[test]
fn nodes_of_another_system_and_leaving_nodes_are_passed_over() {
    let mut snapshot = with(|snapshot| ghost(snapshot, Sources { kubernetes: true, ..Sources::default() }));
    snapshot.node_mut("w-9").is_talos = false;
    let mut object = crate::testing::fixture::kube_node(3, "w-9");
    object.os_image = "Debian GNU/Linux 13".to_owned();
    snapshot.kube().nodes.as_mut().unwrap().push(object);
    snapshot.power_off("w-1");
    snapshot.node_mut("w-1").leaving = true;
    for id in crate::testing::judged::IDS {
        assert_eq!(wrong(id, &snapshot), [""; 0], "{id}");
    }
}

#[test]
fn narrowing_passes_over_nodes_and_never_over_etcd() {
    let mut snapshot = healthy();
    snapshot.power_off("cp-3");
    snapshot.node_mut("cp-3").out_of_scope = true;
    assert_eq!(failing(&snapshot), ["etcd.tolerance"]);
}

#[test]
fn another_clusters_list_proves_nothing_about_a_silent_member() {
    let mut snapshot = with(|snapshot| ghost(snapshot, Sources { discovery: true, ..Sources::default() }));
    for (index, object) in snapshot.kube().nodes.as_mut().unwrap().iter_mut().enumerate() {
        object.name = format!("other-{index}");
        object.addresses = vec![format!("10.9.0.{index}")];
    }
    // The check is also skipped with `--level talos`.
    for skipped in [false, true] {
        if skipped {
            snapshot.asked.skipped.insert(CheckId::K8sApiIdentity);
        }
        assert_eq!(wrong("talos.nodes.reachable", &snapshot), ["w-9: fail node-unreachable"]);
    }
}

#[test]
fn an_answer_without_a_name_is_nobodys() {
    let mut snapshot = healthy();
    snapshot.talos_of("cp-2").nodename = gap(GapKind::TimedOut);
    assert_eq!(wrong("talos.nodes.reachable", &snapshot), ["cp-2: error timed-out"]);
    // There is no known name to compare with.
    let node = snapshot.node_mut("cp-2");
    node.name = node.address.clone();
    assert_eq!(wrong("talos.nodes.reachable", &snapshot), [""; 0]);
}

#[test]
fn an_endpoint_that_is_cut_off_from_a_node_is_a_warning() {
    let mut snapshot = healthy();
    let endpoint = snapshot.talos_mut().endpoints[1].address.clone();
    snapshot.talos_of("w-1").contact.as_mut().unwrap().not_through = vec![endpoint.clone()];
    assert_eq!(wrong("talos.endpoints", &snapshot), [format!("{endpoint}: warn endpoint-cut-off")]);
    assert_eq!(status("talos.nodes.reachable", &snapshot), Status::Pass);
    snapshot.node_mut("w-1").out_of_scope = true;
    assert_eq!(status("talos.endpoints", &snapshot), Status::Pass);
}

#[test]
fn a_machine_of_type_init_is_told_what_to_become() {
    let init = with(|snapshot| snapshot.talos_of("cp-1").machine_type = Ok(Some(MachineType::Init)));
    assert_eq!(wrong("talos.nodes.expected", &init), ["cp-1: warn machine-type-init"]);
    let other = with(|snapshot| {
        let talos = snapshot.talos_of("cp-1");
        talos.machine_type = Ok(Some(MachineType::Init));
        talos.contact.as_mut().unwrap().answered_by_other = Some("cp-9".to_owned());
    });
    assert!(!wrong("talos.nodes.expected", &other).iter().any(|it| it.contains("init")), "it is not its own word");
}
