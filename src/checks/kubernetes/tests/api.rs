use std::time::Duration;

use jiff::SignedDuration;

use crate::checks::kubernetes::tests::{IDS, judge, lines, no, roots, said, status};
use crate::model::Role;
use crate::model::{CheckId, Hint, Status};
use crate::snapshot::{
    Certificate, Gap, GapKind, KubeNode, KubernetesCredentials, Observed, Readyz, Snapshot, TalosNode,
};
use crate::testing::fixture::{Shape, ago, healthy, now, readyz};

fn credentials(snapshot: &mut Snapshot) -> &mut KubernetesCredentials {
    snapshot.kube().credentials.as_mut().unwrap()
}

fn with_certificate(change: fn(&mut Certificate)) -> Snapshot {
    let mut snapshot = healthy();
    change(credentials(&mut snapshot).certificate.as_mut().unwrap());
    snapshot
}

fn answered(status: u16, failed: &[&str]) -> Readyz {
    let failed = failed.iter().map(|&name| name.to_owned()).collect();
    Readyz { status, failed, ..readyz("https://k8s.example:6443") }
}

#[test]
fn a_healthy_cluster_passes_and_says_what_people_look_for() {
    let snapshot = healthy();
    for id in IDS {
        assert_eq!(status(&snapshot, id), Status::Pass, "{id}: {:?}", judge(&snapshot, id));
        assert_eq!(judge(&snapshot, id).resample_after, None, "{id}");
    }
    assert_eq!(lines(&snapshot, "k8s.api.endpoint"), ["Kubernetes API server is reachable"]);
    assert_eq!(lines(&snapshot, "k8s.api.servers"), ["All Kubernetes API server endpoints are healthy"]);
    assert_eq!(lines(&snapshot, "k8s.controlplane.scheduler"), ["kube-scheduler: running"]);
    assert_eq!(lines(&snapshot, "k8s.nodes.ready")[3], "Node w-1: Ready");
    let pods = lines(&snapshot, "k8s.staticpods.running");
    assert!(
        pods.contains(&"kube-apiserver-cp-1: Running".to_owned()) && pods.contains(&"etcd-cp-3: Running".to_owned())
    );
}

#[test]
fn credentials_that_waiting_does_not_mend() {
    let id = "k8s.credentials";
    let source = "--kubeconfig /home/ci/kubeconfig";
    let only = |snapshot: &Snapshot, what: &str| assert_eq!(said(snapshot, id), [what.replace('@', source)]);
    only(&with_certificate(|it| it.not_after = ago(0)), "fail certificate-expired @ !");
    only(
        &with_certificate(|it| it.not_before = now() + SignedDuration::from_secs(60)),
        "fail certificate-not-yet-valid @",
    );
    only(&with_certificate(|it| it.client_auth = false), "fail client-auth-missing @ !");
    only(&with_certificate(|it| it.matches_key = false), "fail key-mismatch @ !");
    only(
        &with_certificate(|it| it.not_after = now() + SignedDuration::from_hours(24)),
        "warn certificate-expires-soon @ !",
    );
    // A certificate that is short-lived on purpose: a tenth of its lifetime counts.
    let short = with_certificate(|it| {
        it.not_before = ago(60);
        it.not_after = now() + SignedDuration::from_secs(540);
    });
    assert_eq!(status(&short, id), Status::Pass);
    let mut late = short;
    late.asked.deadline = Some(now() + SignedDuration::from_secs(600));
    only(&late, "fail certificate-expires-soon @ !");
    let mut plain = healthy();
    "http://k8s.example".clone_into(&mut credentials(&mut plain).server);
    only(&plain, "fail kubeconfig-insecure @ !");
}

#[test]
fn no_kubeconfig_names_what_was_passed_over_and_blocks_the_rest() {
    let mut snapshot = healthy();
    snapshot.kube().credentials = no(GapKind::NotAsked);
    snapshot.kube().passed_over = vec![("KUBECONFIG /a".to_owned(), "another cluster's".to_owned())];
    let verdict = judge(&snapshot, "k8s.credentials");
    let (_, problem) = verdict.problems().next().unwrap();
    assert_eq!(
        (problem.reason.code(), problem.observed.as_str()),
        ("no-kubeconfig", "KUBECONFIG /a: another cluster's")
    );
    assert_eq!(verdict.status(), Status::Error);
    assert!(!problem.waiting_helps, "nothing can change");
    snapshot.kube().may_still_find = true;
    assert_eq!(said(&snapshot, "k8s.credentials"), ["error no-kubeconfig kubeconfig"]);
    for id in ["k8s.api.endpoint", "k8s.api.servers", "k8s.nodes.ready", "k8s.dns", "k8s.kube-proxy"] {
        assert_eq!(said(&snapshot, id), ["blocked cluster < k8s.credentials"], "{id}");
    }
    // Talos reports these without Kubernetes.
    assert_eq!(status(&snapshot, "k8s.controlplane.scheduler"), Status::Pass);
    assert_eq!(roots(&snapshot), ["k8s.credentials no-kubeconfig kubeconfig"]);
    // Without Talos nothing can be checked.
    let mut alone = snapshot.without_talos();
    assert_eq!(said(&alone, "k8s.credentials"), ["error no-kubeconfig kubeconfig"]);
    alone.kube().may_still_find = false;
    assert_eq!(said(&alone, "k8s.credentials"), ["fail no-kubeconfig kubeconfig !"]);
}

#[test]
fn a_kubeconfig_that_was_named_and_cannot_be_used_is_final() {
    for (kind, expected) in [
        (GapKind::Malformed, "fail config-unreadable kubeconfig !"),
        (GapKind::ContextUnknown, "fail context-unknown kubeconfig !"),
        (GapKind::Insecure, "fail kubeconfig-insecure kubeconfig !"),
        (GapKind::PluginFailed, "fail exec-plugin-failed kubeconfig"),
        (GapKind::TimedOut, "error timed-out kubeconfig"),
    ] {
        let mut snapshot = healthy();
        snapshot.kube().credentials = no(kind);
        assert_eq!(said(&snapshot, "k8s.credentials"), [expected]);
        assert_eq!(said(&snapshot, "k8s.dns"), ["blocked cluster < k8s.credentials"]);
    }
}

#[test]
fn the_endpoint_tells_causes_apart() {
    let id = "k8s.api.endpoint";
    let cases = [
        (Err(GapKind::TimedOut), "fail api-frozen"),
        (Err(GapKind::ConnectionRefused), "fail connection-refused"),
        (Err(GapKind::NameNotFound), "fail name-not-found"),
        (Err(GapKind::UnknownCa), "fail unknown-ca"),
        (Err(GapKind::NameNotInCertificate), "fail name-not-in-certificate"),
        (Err(GapKind::Proxy), "fail proxy-refused"),
        (Err(GapKind::Malformed), "error unreadable-answer"),
        (Ok((500, &["etcd"][..])), "fail api-not-ready"),
        (Ok((200, &["etcd"][..])), "fail api-not-ready"),
        (Ok((401, &[][..])), "error unauthorized"),
        (Ok((429, &[][..])), "error throttled"),
        (Ok((302, &[][..])), "error unreadable-answer"),
    ];
    for (answer, expected) in cases {
        let mut snapshot = healthy();
        *snapshot.kube().servers.get_mut("cp-1").unwrap() = no(GapKind::NoRoute);
        snapshot.kube().endpoint = match answer {
            Ok((status, failed)) => Ok(answered(status, failed)),
            Err(kind) => no(kind),
        };
        assert_eq!(said(&snapshot, id), [format!("{expected} https://k8s.example:6443")]);
    }
}

/// A snapshot in which no answer of Talos, etcd or an API server is left.
fn unheard(endpoint: GapKind) -> Snapshot {
    let mut snapshot = healthy();
    for it in &mut snapshot.talos_mut().endpoints {
        it.version = no(GapKind::ConnectTimedOut);
    }
    for node in &mut snapshot.nodes {
        node.talos = TalosNode::unasked(&Gap::not_asked()).into();
    }
    let kubernetes = snapshot.kube();
    kubernetes.endpoint = no(endpoint);
    kubernetes.nodes = no(endpoint);
    kubernetes.servers.values_mut().for_each(|server| *server = no(endpoint));
    snapshot
}

/// An address that takes no connection is a warning while others of its family do.
#[test]
fn each_address_of_the_endpoints_name_is_judged() {
    let seen = |addresses: &[(&str, bool)]| {
        let mut snapshot = healthy();
        let taken = |works: bool| if works { Ok(()) } else { no(GapKind::ConnectionRefused) };
        snapshot.kube().endpoint_addresses =
            addresses.iter().map(|(address, works)| (address.parse().unwrap(), taken(*works))).collect();
        said(&snapshot, "k8s.api.endpoint")
    };
    let (v4, other, v6) = ("10.0.0.1:6443", "10.0.0.9:6443", "[fd00::1]:6443");
    assert_eq!(seen(&[(v4, true), (other, true)]), [""; 0]);
    assert_eq!(seen(&[(v4, true), (other, false)]), ["warn endpoint-address-dead 10.0.0.9:6443"]);
    assert_eq!(seen(&[(v4, true), (v6, false)]), [""; 0], "this runner may have no IPv6");
    assert_eq!(seen(&[(v4, false), (other, false)]), [""; 0], "and yet it answered: a proxy, or just now");
}

#[test]
fn what_lies_before_the_cluster_is_a_failure_only_if_something_of_it_answers() {
    let id = "k8s.api.endpoint";
    let of = |snapshot: &Snapshot| said(snapshot, id)[0].split(' ').take(2).collect::<Vec<_>>().join(" ");
    for (kind, alone, among_others) in [
        (GapKind::NameNotFound, "error name-not-found", "fail name-not-found"),
        (GapKind::NoRoute, "error no-route", "fail no-route"),
        (GapKind::ConnectTimedOut, "error timed-out", "fail timed-out"),
        (GapKind::UnknownCa, "error unknown-ca", "fail unknown-ca"),
        (GapKind::Proxy, "error proxy-refused", "fail proxy-refused"),
        (GapKind::ConnectionRefused, "fail connection-refused", "fail connection-refused"),
        (GapKind::Broken, "fail api-unreachable", "fail api-unreachable"),
        (GapKind::TimedOut, "fail api-frozen", "fail api-frozen"),
    ] {
        let snapshot = unheard(kind);
        assert_eq!(of(&snapshot), alone, "{kind:?}");
        let mut by_talos = snapshot.clone();
        by_talos.talos_mut().endpoints[0].version = healthy().talos_mut().endpoints[0].version.clone();
        assert_eq!(of(&by_talos), among_others, "{kind:?}");
        let mut by_server = snapshot.clone();
        *by_server.kube().servers.get_mut("cp-1").unwrap() = Ok(answered(500, &["etcd"]));
        assert_eq!(of(&by_server), among_others, "{kind:?}");
        let mut by_etcd = snapshot;
        by_etcd.external_etcd = Shape { external_etcd: 1, ..Shape::default() }.world().external_etcd;
        assert_eq!(of(&by_etcd), among_others, "{kind:?}");
    }
}

#[test]
fn a_foreign_ca_everywhere_is_no_failure_and_that_of_one_server_is() {
    let id = "k8s.api.servers";
    let mut snapshot = unheard(GapKind::UnknownCa);
    assert_eq!(said(&snapshot, id).iter().filter(|it| it.starts_with("fail")).count(), 0, "{:?}", said(&snapshot, id));
    snapshot = healthy();
    *snapshot.kube().servers.get_mut("cp-1").unwrap() = no(GapKind::UnknownCa);
    assert_eq!(said(&snapshot, id), ["fail unknown-ca cp-1"]);
}

#[test]
fn the_balancer_is_named_when_every_server_is_ready() {
    let mut snapshot = healthy();
    for endpoint in [no(GapKind::ConnectTimedOut), Ok(answered(503, &[]))] {
        snapshot.kube().endpoint = endpoint;
        assert_eq!(said(&snapshot, "k8s.api.endpoint"), ["fail endpoint-down-servers-ready https://k8s.example:6443"]);
    }
    snapshot.kube().endpoint = no(GapKind::UnknownCa);
    assert_eq!(said(&snapshot, "k8s.api.endpoint"), ["fail unknown-ca https://k8s.example:6443"]);
}

#[test]
fn a_403_is_final_with_quorum_or_after_90_seconds() {
    let id = "k8s.api.endpoint";
    let mut snapshot = healthy();
    snapshot.kube().endpoint = Ok(answered(403, &[]));
    assert_eq!(said(&snapshot, id), ["error forbidden https://k8s.example:6443 !"]);
    // A learner follows a leader and returns a list, but does not prove a quorum.
    let mut learner = snapshot.clone();
    for name in ["cp-2", "cp-3"] {
        learner.talos_of(name).etcd_status = no(GapKind::TimedOut);
        learner.talos_of(name).etcd_members = no(GapKind::TimedOut);
    }
    assert_eq!(said(&learner, id), ["error forbidden https://k8s.example:6443 !"]);
    learner.etcd_status_mut("cp-1").is_learner = true;
    learner.talos_of("cp-1").etcd_members.as_mut().unwrap()[0].is_learner = true;
    assert_eq!(said(&learner, id), ["error forbidden-or-starting https://k8s.example:6443"]);
    let mut blind = snapshot.without_talos();
    assert_eq!(said(&blind, id), ["error forbidden-or-starting https://k8s.example:6443"]);
    blind.memory = blind.memory.after(&blind, Duration::from_secs(5));
    blind.memory.elapsed = Duration::from_secs(94);
    assert_eq!(said(&blind, id), ["error forbidden-or-starting https://k8s.example:6443"]);
    blind.memory.elapsed = Duration::from_secs(95);
    assert_eq!(said(&blind, id), ["error forbidden https://k8s.example:6443 !"]);
    blind.kube().endpoint = Ok(answered(401, &[]));
    blind.memory.unauthenticated_rounds = 1;
    assert_eq!(said(&blind, id), ["error unauthorized https://k8s.example:6443 !"]);
}

/// The limit of 90 seconds also applies to refused lists while `/readyz` keeps answering.
#[test]
fn each_refusal_lasts_by_itself() {
    fn refused<T>(what: &str) -> Observed<T> {
        Err(Gap::new(GapKind::Forbidden, format!("403: {what} is forbidden")))
    }
    let at = |snapshot: &Snapshot, seconds| {
        let mut snapshot = snapshot.clone();
        snapshot.memory.elapsed = Duration::from_secs(seconds);
        ["k8s.dns", "k8s.kube-proxy", "k8s.api.servers"].map(|id| said(&snapshot, id).join(", "))
    };
    let mut snapshot = healthy().without_talos();
    snapshot.kube().dns_endpoints = refused("endpointslices");
    assert_eq!(at(&snapshot, 0), ["error forbidden-or-starting cluster", "", ""]);
    snapshot.memory = snapshot.memory.after(&snapshot, Duration::from_secs(5));
    assert_eq!(at(&snapshot, 94), ["error forbidden-or-starting cluster", "", ""]);
    assert_eq!(at(&snapshot, 95), ["error forbidden cluster !", "", ""]);
    // Behind a load balancer, one server may be starting while the others have loaded the rules.
    snapshot.kube().daemon_sets = refused("daemonsets");
    snapshot.kube().servers.insert("cp-2".to_owned(), Ok(answered(403, &[])));
    let starting = ["error forbidden-or-starting cluster", "error forbidden-or-starting cp-2"];
    assert_eq!(at(&snapshot, 95), ["error forbidden cluster !", starting[0], starting[1]]);
    snapshot.memory = snapshot.memory.after(&snapshot, Duration::from_secs(100));
    assert_eq!(at(&snapshot, 189), ["error forbidden cluster !", starting[0], starting[1]]);
    assert_eq!(
        at(&snapshot, 190),
        ["error forbidden cluster !", "error forbidden cluster !", "error forbidden cp-2 !"]
    );
    // A refusal without a subject counts from the latest refusal of its kind.
    let mut mute = snapshot.clone();
    mute.kube().dns_endpoints = refused("this");
    mute.kube().daemon_sets = refused("this");
    assert_eq!(at(&mute, 95)[..2], [starting[0]; 2]);
    assert_eq!(at(&mute, 190)[..2], ["error forbidden cluster !"; 2]);
    // After the permission was granted, the time starts over.
    let granted = healthy().without_talos();
    snapshot.memory = snapshot.memory.after(&granted, Duration::from_secs(195));
    assert_eq!(at(&snapshot, 200), [starting[0], starting[0], starting[1]]);
}

#[test]
fn a_frozen_server_is_one_problem() {
    let mut snapshot = healthy();
    snapshot.kube().servers.insert("cp-3".to_owned(), no(GapKind::TimedOut));
    assert_eq!(roots(&snapshot), ["k8s.api.servers api-frozen cp-3"]);
    let hints = |snapshot: &Snapshot, id| judge(snapshot, id).problems().next().unwrap().1.hints.clone();
    let ask =
        Hint::run("{kubectl} --server {} --request-timeout 5s get --raw '/readyz?verbose'", ["https://10.0.0.3:6443"]);
    let look = Hint::run("{talosctl} -n {} containers --kubernetes", ["10.0.0.3"]);
    let log = Hint::run("{kubectl} -n kube-system logs {} --tail 50", ["kube-apiserver-cp-3"]);
    assert_eq!(hints(&snapshot, "k8s.api.servers"), [log, ask.clone(), look]);
    assert_eq!(hints(&snapshot.without_talos(), "k8s.api.servers"), [ask]);
    let mut snapshot = healthy();
    snapshot.kube().endpoint = no(GapKind::TimedOut);
    let ask = Hint::run("{kubectl} --request-timeout 5s get --raw '/readyz?verbose'", []);
    assert_eq!(hints(&snapshot, "k8s.api.endpoint").last(), Some(&ask));
}

/// kubectl would reject the certificate as well, without further information.
#[test]
fn a_certificate_is_looked_at_itself() {
    for kind in [GapKind::PeerCertificateExpired, GapKind::UnknownCa, GapKind::NameNotInCertificate] {
        let mut snapshot = healthy();
        snapshot.kube().servers.insert("cp-3".to_owned(), no(kind));
        let verdict = judge(&snapshot, "k8s.api.servers");
        let Hint::Try { command, arguments } = &verdict.problems().next().unwrap().1.hints[0] else { panic!() };
        assert!(command.starts_with("openssl s_client -connect {} ") && arguments == &["10.0.0.3:6443"], "{command}");
    }
}

/// The checks that depend on Talos, and are blocked if it is not accessible.
const BY_TALOS: [&str; 6] = [
    "k8s.api.identity",
    "k8s.controlplane.apiserver",
    "k8s.controlplane.controller-manager",
    "k8s.controlplane.scheduler",
    "k8s.staticpods.rendered",
    "k8s.staticpods.running",
];

#[test]
fn what_closes_talos_is_named_all_along_the_path() {
    let silence = |snapshot: &mut Snapshot, kind| {
        for node in &mut snapshot.nodes {
            node.talos = TalosNode::unasked(&Gap::new(kind, "test")).into();
        }
    };
    let mut unreadable = healthy();
    unreadable.talos_mut().credentials = no(GapKind::NotAsked);
    unreadable.talos_mut().endpoints.clear();
    silence(&mut unreadable, GapKind::NotAsked);
    let mut workers = healthy();
    for endpoint in &mut workers.talos_mut().endpoints {
        endpoint.role = Ok(Some(Role::Worker));
    }
    let mut unforwarded = workers.clone();
    silence(&mut workers, GapKind::NotAsked);
    silence(&mut unforwarded, GapKind::NoForwarding);
    let cases = [(unreadable, "talos.credentials"), (workers, "talos.endpoints"), (unforwarded, "talos.endpoints")];
    for (snapshot, by) in cases {
        let mut nobody = snapshot.clone();
        nobody.nodes.clear();
        for id in BY_TALOS {
            for snapshot in [&snapshot, &nobody] {
                let said = said(snapshot, id);
                assert!(!said.is_empty() && said.iter().all(|it| it.ends_with(&format!("< {by}"))), "{id}: {said:?}");
                assert_eq!(status(snapshot, id), Status::Blocked, "{id}");
            }
        }
    }
}

#[test]
fn servers_out_of_reach_live_by_what_others_saw() {
    let id = "k8s.api.servers";
    let mut snapshot = healthy();
    for name in ["cp-1", "cp-2", "cp-3"] {
        snapshot.kube().servers.insert(name.to_owned(), no(GapKind::NoRoute));
    }
    assert_eq!(status(&snapshot, id), Status::Pass);
    assert!(lines(&snapshot, id)[0].contains("not reachable from this runner"));
    let all = |snapshot: &Snapshot| lines(snapshot, id).iter().any(|line| line.starts_with("All "));
    assert!(!all(&snapshot) && all(&healthy()), "not all were seen");
    // If other servers are reached, the fault is this server's.
    let mut one = snapshot.clone();
    one.kube().servers.insert("cp-1".to_owned(), Ok(answered(200, &[])));
    let unreachable = "warn api-unreachable-from-here";
    assert_eq!(said(&one, id), [format!("{unreachable} cp-2"), format!("{unreachable} cp-3")]);
    one.kube().servers.insert("cp-1".to_owned(), Ok(answered(500, &["log"])));
    assert_eq!(said(&one, id).len(), 3, "an answer, whatever it says, shows that the way is open");
    assert!(!all(&one));
    // The endpoints of default/kubernetes can replace a lease, but not outweigh one.
    let mut stale = snapshot.clone();
    for lease in stale.kube().system_leases.as_mut().unwrap().by_name.values_mut() {
        lease.renewed = Some(ago(41));
    }
    assert_eq!(status(&stale, id), Status::Fail);
    assert_eq!(judge(&stale, id).resample_after, Some(Duration::from_secs(11)));
    snapshot.kube().system_leases.as_mut().unwrap().by_name.retain(|_, lease| lease.hostname.is_none());
    assert_eq!(status(&snapshot, id), Status::Pass);
    snapshot.kube().api_endpoints.as_mut().unwrap()[2].ready = false;
    assert_eq!(said(&snapshot, id), ["fail server-not-directly-reachable cp-3"]);
    // Without readable evidence there is no verdict.
    snapshot.kube().system_leases = no(GapKind::Malformed);
    assert_eq!(said(&snapshot, id), ["error unreadable-answer cp-3"]);
}

#[test]
fn a_refusal_is_outweighed_by_a_moving_lease_only() {
    let id = "k8s.api.servers";
    let mut snapshot = healthy();
    snapshot.kube().servers.insert("cp-3".to_owned(), no(GapKind::ConnectionRefused));
    assert_eq!(said(&snapshot, id), ["fail connection-refused cp-3"]);
    assert_eq!(judge(&snapshot, id).resample_after, Some(Duration::from_secs(11)));
    for lease in snapshot.kube().system_leases.as_mut().unwrap().by_name.values_mut() {
        lease.moved_within = Some(Duration::from_secs(12));
    }
    assert_eq!(said(&snapshot, id), ["warn api-unreachable-from-here cp-3"]);
}

#[test]
fn a_dead_node_explains_its_dead_server() {
    let mut snapshot = healthy();
    snapshot.power_off("cp-3");
    // A lease remains fresh for some time after the death of its holder.
    for lease in snapshot.kube().system_leases.as_mut().unwrap().by_name.values_mut() {
        lease.renewed = Some(ago(1));
    }
    assert_eq!(said(&snapshot, "k8s.api.servers"), ["fail api-unreachable cp-3 < talos.nodes.reachable"]);
    assert_eq!(said(&snapshot, "k8s.controlplane.apiserver"), ["blocked cp-3 < talos.nodes.reachable"]);
    assert_eq!(said(&snapshot, "k8s.staticpods.running"), ["blocked cp-3 < talos.nodes.reachable"]);
    assert_eq!(said(&snapshot, "k8s.nodes.ready"), ["fail node-not-ready cp-3 < talos.nodes.reachable"]);
    assert_eq!(said(&snapshot, "k8s.kube-proxy"), ["fail daemonset-incomplete cp-3 < k8s.nodes.ready"]);
    assert_eq!(roots(&snapshot), Vec::<String>::new(), "one root, and it is Talos's to name");
}

#[test]
fn another_clusters_kubeconfig_is_one_problem() {
    // The other cluster's nodes have different names, or the same names at other addresses.
    for rename in [true, false] {
        let mut snapshot = healthy();
        for (index, node) in snapshot.kube().nodes.as_mut().unwrap().iter_mut().enumerate() {
            node.addresses = vec![format!("10.9.0.{index}")];
            if rename {
                node.name = format!("other-{index}");
            }
        }
        snapshot.kube().dns_endpoints.iter_mut().flatten().for_each(|endpoint| endpoint.node = None);
        // The population contains the addresses of every source.
        for (index, node) in snapshot.nodes.iter_mut().enumerate() {
            node.addresses.push(format!("10.9.0.{index}"));
        }
        for server in snapshot.kube().servers.values_mut() {
            *server = no(GapKind::UnknownCa);
        }
        assert_eq!(said(&snapshot, "k8s.api.identity"), ["fail wrong-cluster cluster !"]);
        assert_eq!(roots(&snapshot), ["k8s.api.identity wrong-cluster cluster"]);
        for id in ["k8s.api.servers", "k8s.nodes.registered", "k8s.nodes.ready", "k8s.dns", "k8s.kube-proxy"] {
            assert_eq!(said(&snapshot, id), ["blocked cluster < k8s.api.identity"], "{id}");
        }
        snapshot.asked.skipped.insert(CheckId::K8sApiIdentity);
        assert_eq!(status(&snapshot, "k8s.dns"), Status::Pass);
    }
}

#[test]
fn a_twin_of_the_cluster_is_another_one() {
    let id = "k8s.api.identity";
    let told = || Shape { machine_ids: true, ..Shape::default() }.world();
    let objects = |snapshot: &mut Snapshot, change: &dyn Fn(&mut KubeNode)| {
        snapshot.kube().nodes.as_mut().unwrap().iter_mut().for_each(change);
    };
    let mut twin = told();
    objects(&mut twin, &|object| object.machine_id.insert(0, 'f'));
    assert_eq!(said(&twin, id), ["fail wrong-cluster cluster"], "machines that were installed anew may register yet");
    for id in ["k8s.api.servers", "k8s.nodes.registered", "k8s.nodes.ready"] {
        assert_eq!(said(&twin, id), ["blocked cluster < k8s.api.identity"], "{id}");
    }
    let mut elsewhere = twin.clone();
    objects(&mut elsewhere, &|object| object.addresses = vec!["10.9.0.1".to_owned()]);
    assert_eq!(said(&elsewhere, id), ["fail wrong-cluster cluster !"]);
    // Machine IDs alone decide.
    objects(&mut twin, &|object| object.addresses.clear());
    assert_eq!(said(&twin, id), ["fail wrong-cluster cluster !"]);
    // One common machine is enough, and a missing ID is not a contradiction.
    let mut one = told();
    objects(&mut one, &|object| {
        if object.name != "w-1" {
            object.machine_id.insert(0, 'f');
        }
    });
    assert_eq!(status(&one, id), Status::Pass);
    let mut untold = told();
    objects(&mut untold, &|object| object.machine_id.clear());
    assert_eq!(status(&untold, id), Status::Pass);
    // Discovery may still list the machine that had the name before; the machine's own answer counts as well.
    let mut anew = told();
    for node in &mut anew.nodes {
        node.machine_id = Some("f".repeat(32));
    }
    assert_eq!(status(&anew, id), Status::Pass);
    // A machine without a Node does not contradict the others.
    let mut unregistered = healthy();
    unregistered.node_mut("cp-1").machine_id = Some("e875".to_owned());
    objects(&mut unregistered, &|object| object.machine_id = format!("id of {}", object.name));
    unregistered.kube().nodes.as_mut().unwrap().retain(|object| object.name != "cp-1");
    assert_eq!(status(&unregistered, id), Status::Pass);
}

#[test]
fn identity_may_be_told_by_etcds_addresses() {
    let mut snapshot = healthy();
    for node in &mut snapshot.nodes {
        node.talos.contact.as_mut().unwrap().address = format!("fd00::{}", node.name.len());
    }
    snapshot.talos_mut().endpoints.retain(|endpoint| endpoint.address.is_empty());
    assert_eq!(status(&snapshot, "k8s.api.identity"), Status::Pass);
    for node in &mut snapshot.nodes {
        node.talos.etcd_members = no(GapKind::TimedOut);
    }
    assert_eq!(said(&snapshot, "k8s.api.identity"), ["error no-answer cluster"]);
}

#[test]
fn an_access_proxy_is_a_warning() {
    let mut snapshot = healthy();
    for server in snapshot.kube().servers.values_mut() {
        *server = no(GapKind::UnknownCa);
    }
    assert_eq!(said(&snapshot, "k8s.api.identity"), ["warn endpoint-behind-proxy cluster"]);
    assert_eq!(status(&snapshot, "k8s.api.servers"), Status::Pass);
    // One foreign certificate among valid ones is a fault.
    snapshot.kube().servers.insert("cp-1".to_owned(), Ok(answered(200, &[])));
    assert_eq!(said(&snapshot, "k8s.api.servers"), ["fail unknown-ca cp-2", "fail unknown-ca cp-3"]);
}

#[test]
fn lists_are_blocked_by_the_endpoint_or_fail_by_themselves() {
    let mut snapshot = healthy();
    snapshot.kube().pods = no(GapKind::TimedOut);
    snapshot.kube().dns_endpoints = no(GapKind::TimedOut);
    assert_eq!(said(&snapshot, "k8s.dns"), ["error timed-out cluster"]);
    snapshot.kube().endpoint = Ok(answered(500, &["etcd"]));
    assert_eq!(said(&snapshot, "k8s.dns"), ["blocked cluster < k8s.api.endpoint"]);
    snapshot.asked.skipped.insert(CheckId::K8sApiEndpoint);
    assert_eq!(said(&snapshot, "k8s.dns"), ["error timed-out cluster"]);
    snapshot.kube().dns_endpoints = Err(Gap::new(GapKind::Forbidden, "endpointslices is forbidden"));
    assert_eq!(said(&snapshot, "k8s.dns"), ["error forbidden cluster !"]);
}

#[test]
fn a_lost_quorum_explains_the_api() {
    let mut snapshot = healthy();
    snapshot.etcd_status_mut("cp-1").leader = 0;
    for name in ["cp-1", "cp-2", "cp-3"] {
        snapshot.talos_of(name).etcd_members = no(GapKind::TimedOut);
        snapshot.kube().servers.insert(name.to_owned(), Ok(answered(500, &["etcd"])));
    }
    snapshot.kube().endpoint = Ok(answered(500, &["etcd"]));
    snapshot.kube().nodes = no(GapKind::TimedOut);
    assert_eq!(said(&snapshot, "k8s.api.endpoint"), ["fail api-not-ready https://k8s.example:6443 < etcd.quorum"]);
    assert_eq!(said(&snapshot, "k8s.api.servers").len(), 3);
    assert_eq!(said(&snapshot, "k8s.nodes.ready"), ["blocked cluster < k8s.api.endpoint"]);
    assert_eq!(roots(&snapshot), Vec::<String>::new());
}

#[test]
fn nodes_whose_addresses_are_not_told_yet_are_not_another_clusters() {
    let mut snapshot = healthy();
    for object in snapshot.kube().nodes.as_mut().unwrap() {
        object.addresses.clear();
    }
    assert_eq!(said(&snapshot, "k8s.api.identity"), ["error no-answer cluster"]);
    assert_eq!(said(&snapshot, "k8s.nodes.ready"), ["blocked cluster < k8s.api.identity"]);
}

#[test]
fn without_discovery_another_cluster_may_be_one_that_is_only_forming() {
    let mut snapshot = healthy();
    for object in snapshot.kube().nodes.as_mut().unwrap() {
        object.name.insert_str(0, "other-");
        object.addresses = vec!["10.9.0.1".to_owned()];
    }
    assert_eq!(said(&snapshot, "k8s.api.identity"), ["fail wrong-cluster cluster !"]);
    snapshot.talos_mut().discovery = Ok(0);
    assert_eq!(said(&snapshot, "k8s.api.identity"), ["fail wrong-cluster cluster"]);
}

#[test]
fn leases_of_an_unproven_cluster_vouch_for_nobody() {
    let mut snapshot = healthy();
    snapshot.kube().servers.insert("cp-2".to_owned(), no(GapKind::ConnectTimedOut));
    assert_eq!(said(&snapshot, "k8s.api.servers"), ["warn api-unreachable-from-here cp-2"]);
    snapshot.kube().nodes = no(GapKind::TimedOut);
    assert_eq!(said(&snapshot, "k8s.api.servers"), ["blocked cp-2 < k8s.api.identity"]);
}
