//! The API server of each control plane, and explanations for the endpoint in front of them.

use std::time::Duration;

use jiff::SignedDuration;

use crate::checks::kubernetes::tests::{judge, no, said, status};
use crate::model::{Hint, Status};
use crate::snapshot::{Certificate, GapKind, Lease, Readyz, ServiceEndpoint, Snapshot};
use crate::testing::fixture::{Shape, ago, healthy, now, readyz};

const ID: &str = "k8s.api.servers";
const ENDPOINT: &str = "k8s.api.endpoint";

fn answered(status: u16, failed: &[&str]) -> Readyz {
    let failed = failed.iter().map(|&name| name.to_owned()).collect();
    Readyz { status, failed, ..readyz("https://k8s.example:6443") }
}

fn server(answer: crate::snapshot::Observed<Readyz>) -> Snapshot {
    let mut snapshot = healthy();
    snapshot.kube().servers.insert("cp-3".to_owned(), answer);
    snapshot
}

fn lease<'a>(snapshot: &'a mut Snapshot, hostname: &str) -> &'a mut Lease {
    let leases = snapshot.kube().system_leases.as_mut().unwrap().by_name.values_mut();
    leases.into_iter().find(|lease| lease.hostname.as_deref() == Some(hostname)).unwrap()
}

fn hints(snapshot: &Snapshot, id: &str) -> Vec<Hint> {
    judge(snapshot, id).problems().flat_map(|(_, problem)| problem.hints.clone()).collect()
}

#[test]
fn only_a_lease_that_may_still_move_is_looked_at_again() {
    let again = |snapshot: &Snapshot| judge(snapshot, ID).resample_after;
    assert_eq!(again(&server(no(GapKind::ConnectionRefused))), Some(Duration::from_secs(11)));
    let frozen = server(no(GapKind::TimedOut));
    assert_eq!((status(&frozen, ID), again(&frozen)), (Status::Fail, None), "it took the connection");
    let filtered = server(no(GapKind::NoRoute));
    assert_eq!((status(&filtered, ID), again(&filtered)), (Status::Warn, None), "its lease is fresh");
    let mut off = healthy();
    off.power_off("cp-3");
    assert_eq!((status(&off, ID), again(&off)), (Status::Fail, None), "the machine is lost");
}

#[test]
fn a_server_that_names_a_failing_part_is_not_ready() {
    assert_eq!(said(&server(Ok(answered(200, &["log"]))), ID), ["fail api-not-ready cp-3"]);
    let failing = server(Ok(answered(500, &["etcd", "log"])));
    let verdict = judge(&failing, ID);
    assert_eq!(verdict.problems().next().unwrap().1.observed, "500: [-]etcd [-]log");
}

#[test]
fn a_refusal_is_the_endpoints_where_both_refuse() {
    let mut refused = server(Ok(answered(401, &[])));
    assert_eq!(said(&refused, ID), ["error unauthorized cp-3"]);
    assert_eq!(hints(&refused, ID), [], "asking again tells no more");
    refused.kube().endpoint = Ok(answered(401, &[]));
    assert_eq!(said(&refused, ID), ["error unauthorized cp-3 < k8s.api.endpoint"]);
    // The endpoint does not explain a server's own failure.
    let mut broken = server(Ok(answered(500, &["log"])));
    broken.kube().endpoint = Ok(answered(500, &["log"]));
    assert_eq!(said(&broken, ID), ["fail api-not-ready cp-3"]);
}

#[test]
fn of_a_lost_machine_nobody_asks_the_server() {
    for kind in [GapKind::NoRoute, GapKind::ConnectionRefused, GapKind::TimedOut] {
        let mut off = healthy();
        off.power_off("cp-3");
        off.kube().servers.insert("cp-3".to_owned(), no(kind));
        assert_eq!(said(&off, ID), ["fail api-unreachable cp-3 < talos.nodes.reachable"], "{kind:?}");
        assert_eq!(hints(&off, ID), [Hint::run("{kubectl} describe node {}", ["cp-3"])]);
    }
}

#[test]
fn a_server_that_nobody_sees_needs_its_own_lease_or_its_place_in_the_service() {
    let mut hidden = server(no(GapKind::NoRoute));
    hidden.kube().api_endpoints.as_mut().unwrap().truncate(2);
    assert_eq!(status(&hidden, ID), Status::Warn);
    lease(&mut hidden, "cp-3").renewed = Some(ago(41));
    assert_eq!(
        said(&hidden, ID),
        ["fail server-not-directly-reachable cp-3"],
        "its lease is stale, whatever others say"
    );
    let observed = |snapshot: &Snapshot| judge(snapshot, ID).problems().next().unwrap().1.observed.clone();
    assert_eq!(observed(&hidden), "test; its lease is stale");
    hidden.kube().api_endpoints = healthy().kube().api_endpoints.clone();
    assert_eq!(said(&hidden, ID), ["fail server-not-directly-reachable cp-3"], "it may stay there though it is dead");
    lease(&mut hidden, "cp-3").hostname = None;
    assert_eq!(
        said(&hidden, ID),
        ["warn api-unreachable-from-here cp-3"],
        "it has no lease, as where they are switched off"
    );
    hidden.kube().api_endpoints = no(GapKind::TimedOut);
    assert_eq!(said(&hidden, ID), ["error timed-out cluster", "error timed-out cp-3"], "nothing is known of it");
    hidden.kube().api_endpoints = healthy().kube().api_endpoints.clone();
    hidden.kube().api_endpoints.as_mut().unwrap().truncate(2);
    assert_eq!(said(&hidden, ID), ["fail server-not-directly-reachable cp-3"]);
    assert_eq!(observed(&hidden), "test; it has no lease");
}

/// Requests from pods do not reach any API server.
#[test]
fn the_service_of_the_servers_needs_an_endpoint() {
    let endpoints = |change: fn(&mut Vec<ServiceEndpoint>)| {
        let mut snapshot = healthy();
        change(snapshot.kube().api_endpoints.as_mut().unwrap());
        snapshot
    };
    let empty = ["fail api-service-empty cluster"];
    assert_eq!(said(&endpoints(Vec::clear), ID), empty);
    assert_eq!(said(&endpoints(|it| it.iter_mut().for_each(|it| it.ready = false)), ID), empty);
    // One server is not reachable for pods; a load balancer leads to all of them.
    assert_eq!(said(&endpoints(|it| it.truncate(2)), ID), ["warn api-service-incomplete cluster"]);
    assert_eq!(
        said(&endpoints(|it| it.iter_mut().for_each(|it| it.addresses = vec!["192.0.2.1".into()])), ID),
        [""; 0]
    );
    // Some of the requests go to a machine without an API server.
    let another = |address: &'static str| {
        let mut snapshot = healthy();
        let endpoints = snapshot.kube().api_endpoints.as_mut().unwrap();
        let mut more = endpoints[0].clone();
        more.addresses = vec![address.to_owned()];
        endpoints.push(more);
        snapshot
    };
    assert_eq!(said(&another("10.0.0.4"), ID), ["fail api-service-stray cluster"], "w-1");
    assert_eq!(said(&another("192.0.2.1"), ID), ["warn api-service-stray cluster"]);
    assert_eq!(
        said(&endpoints(|it| it.iter_mut().for_each(|it| it.addresses = vec!["10.0.0.4".into()])), ID),
        ["fail api-service-stray cluster", "warn api-service-incomplete cluster"]
    );
    // A load balancer has a single address.
    let two: fn(&mut Vec<ServiceEndpoint>) = |it| {
        it.truncate(2);
        it[0].addresses = vec!["192.0.2.1".to_owned()];
        it[1].addresses = vec!["192.0.2.2".to_owned()];
    };
    assert_eq!(said(&endpoints(two), ID), ["warn api-service-stray cluster"]);
    assert_eq!(said(&endpoints(two).without_talos(), ID), [""; 0]);
    let mut untold = healthy();
    untold.kube().api_endpoints = no(GapKind::Forbidden);
    assert_eq!(said(&untold, ID), ["error forbidden cluster !"]);
    // While no server is ready, that is the only problem.
    let mut down = endpoints(Vec::clear);
    down.kube().endpoint = no(GapKind::TimedOut);
    for name in ["cp-1", "cp-2", "cp-3"] {
        down.kube().servers.insert(name.to_owned(), no(GapKind::TimedOut));
    }
    assert!(said(&down, ID).iter().all(|said| !said.contains("api-service-empty")));
}

#[test]
fn credentials_that_no_server_accepts_are_not_used() {
    let with = |change: fn(&mut Certificate)| {
        let mut snapshot = healthy();
        change(snapshot.kube().credentials.as_mut().unwrap().certificate.as_mut().unwrap());
        snapshot
    };
    let mut plain = healthy();
    "http://k8s.example".clone_into(&mut plain.kube().credentials.as_mut().unwrap().server);
    let mut plain_and_bare = plain.clone();
    plain_and_bare.kube().credentials.as_mut().unwrap().certificate = None;
    for snapshot in [plain, plain_and_bare, with(|it| it.not_after = ago(1)), with(|it| it.matches_key = false)] {
        assert_eq!(said(&snapshot, "k8s.dns"), ["blocked cluster < k8s.credentials"]);
    }
    assert_eq!(status(&with(|it| it.not_before = now()), "k8s.dns"), Status::Pass, "it is valid from now on");
}

#[test]
fn a_certificate_lasts_to_the_second() {
    let left = |seconds: i64| {
        let mut snapshot = healthy();
        let certificate = snapshot.kube().credentials.as_mut().unwrap().certificate.as_mut().unwrap();
        certificate.not_before = now() - SignedDuration::from_hours(24 * 400);
        certificate.not_after = now() + SignedDuration::from_hours(24 * 30) + SignedDuration::from_secs(seconds);
        snapshot
    };
    assert_eq!(status(&left(0), "k8s.credentials"), Status::Pass);
    assert_eq!(status(&left(-1), "k8s.credentials"), Status::Warn);
    for (seconds, expected) in [(0, Status::Pass), (1, Status::Fail)] {
        let mut snapshot = left(0);
        snapshot.asked.deadline =
            Some(now() + SignedDuration::from_hours(24 * 30) + SignedDuration::from_secs(seconds));
        assert_eq!(status(&snapshot, "k8s.credentials"), expected);
    }
}

#[test]
fn what_was_seen_of_the_other_side_fails() {
    for (kind, expected) in [
        (GapKind::Broken, "fail api-unreachable"),
        (GapKind::NodeUnreachable, "fail api-unreachable"),
        (GapKind::ServerError, "fail api-not-ready"),
        (GapKind::NoRoute, "fail no-route"),
        (GapKind::ConnectTimedOut, "fail timed-out"),
        (GapKind::PeerCertificateExpired, "fail server-certificate-expired"),
    ] {
        let mut snapshot = server(no(GapKind::NoRoute));
        snapshot.kube().endpoint = no(kind);
        assert_eq!(said(&snapshot, ENDPOINT), [format!("{expected} https://k8s.example:6443")]);
    }
}

#[test]
fn the_endpoint_is_explained_by_what_stands_behind_it() {
    let with = |endpoint: crate::snapshot::Observed<Readyz>, servers: &[crate::snapshot::Observed<Readyz>]| {
        let mut snapshot = healthy();
        snapshot.kube().endpoint = endpoint;
        snapshot.kube().servers = std::iter::zip(["cp-1", "cp-2", "cp-3"], servers)
            .map(|(name, server)| (name.to_owned(), server.clone()))
            .collect();
        let verdict = judge(&snapshot, ENDPOINT);
        let (_, problem) = verdict.problems().next().unwrap();
        let by = problem.explained_by.map(|by| format!(" < {by}")).unwrap_or_default();
        format!("{}: {}{by}", problem.reason.code(), problem.observed)
    };
    let (good, slow) = (|| Ok(answered(200, &[])), || no(GapKind::ConnectTimedOut));
    let ready = [good(), good(), good()];
    let between = "endpoint-down-servers-ready: all 3 API servers are ready, the endpoint is not: ";
    assert_eq!(with(slow(), &ready), format!("{between}test"));
    assert_eq!(with(Ok(answered(503, &[])), &ready), format!("{between}503"));
    // This answer does not come from the load balancer.
    assert_eq!(with(Ok(answered(503, &["etcd"])), &ready), "api-not-ready: 503: [-]etcd");
    assert_eq!(with(Ok(answered(500, &[])), &ready), "api-not-ready: 500");
    // Not all servers are ready, so the endpoint may only show their state.
    for server in [Ok(answered(503, &[])), Ok(answered(200, &["log"]))] {
        assert_eq!(with(slow(), &[good(), good(), server]), "timed-out: test");
    }
    let frozen = || no(GapKind::TimedOut);
    assert_eq!(with(frozen(), &[frozen(), frozen(), frozen()]), "api-frozen: test < k8s.api.servers");
    let leads_there = with(frozen(), &[frozen(), frozen(), slow()]);
    assert_eq!(leads_there, "api-frozen: test < k8s.api.servers", "the lease of the third one is current");
    assert_eq!(with(frozen(), &[]), "api-frozen: test", "no server was seen");
}

/// If nothing listens, the server's pod explains why.
#[test]
fn a_refused_connection_is_explained_by_the_servers_pod() {
    let refused = |change: fn(&mut Snapshot)| {
        let mut snapshot = server(no(GapKind::ConnectionRefused));
        change(&mut snapshot);
        said(&snapshot, ID)
    };
    let plain = "fail connection-refused cp-3";
    assert_eq!(refused(|_| {}), [plain]);
    let stopped = refused(|it| {
        it.talos_of("cp-3").static_pod_statuses.as_mut().unwrap().retain(|pod| pod.name != "kube-apiserver-cp-3");
    });
    assert_eq!(stopped, [format!("{plain} < k8s.controlplane.apiserver")]);
    assert_eq!(
        refused(|it| it.talos_of("cp-3").static_pods.as_mut().unwrap().retain(|id| id != "kube-apiserver")),
        [format!("{plain} < k8s.staticpods.rendered")]
    );
    let without_etcd = refused(|it| {
        it.talos_of("cp-3").static_pods.as_mut().unwrap().retain(|id| id != "kube-apiserver");
        it.service_mut("cp-3", "etcd").healthy = Some(false);
    });
    // The pod's absence is in turn explained by etcd.
    assert_eq!(without_etcd, [format!("{plain} < k8s.staticpods.rendered")]);
    // Facts that are missing explain nothing.
    let silent = refused(|it| {
        it.talos_of("cp-3").static_pod_statuses = no(GapKind::TimedOut);
        it.kube().pods = no(GapKind::TimedOut);
    });
    assert_eq!(silent, [plain]);
}

/// A server becomes unready without its etcd, and reports that.
#[test]
fn a_server_that_goes_down_without_etcd_is_the_members() {
    let of = |failed: &[&str]| {
        let mut snapshot = server(Ok(answered(500, failed)));
        snapshot.service_mut("cp-3", "etcd").healthy = Some(false);
        said(&snapshot, ID)
    };
    let plain = "fail api-not-ready cp-3";
    assert_eq!(of(&["etcd", "etcd-readiness", "shutdown"]), [format!("{plain} < etcd.service")]);
    assert_eq!(of(&["shutdown"]), [plain]);
    assert_eq!(of(&["etcd", "log"]), [plain]);
}

#[test]
fn an_endpoint_that_is_one_machine_goes_with_it() {
    let at = |server: &str| {
        let mut snapshot = healthy();
        server.clone_into(&mut snapshot.kube().endpoint.as_mut().unwrap().server);
        snapshot
    };
    assert_eq!(said(&at("https://10.0.0.2:6443"), ID), ["warn endpoint-on-machine cp-2 !"]);
    assert!(said(&at("https://10.0.0.100:6443"), ID).is_empty(), "a virtual IP, or a balancer");
    let mut named = at("https://10.0.0.2:6443");
    named.asked.k8s_endpoint = Some("10.0.0.2:6443".to_owned());
    assert!(said(&named, ID).is_empty(), "the one that the user wants to know of");
    let mut single = Shape { control_planes: 1, ..Shape::default() }.world();
    "https://10.0.0.1:6443".clone_into(&mut single.kube().endpoint.as_mut().unwrap().server);
    assert!(said(&single, ID).is_empty(), "there is no other");
}

#[test]
fn a_server_without_a_port_is_told_where_the_api_usually_is() {
    let hints_of = |server: &str, kind| {
        let mut snapshot = healthy();
        server.clone_into(&mut snapshot.kube().credentials.as_mut().unwrap().server);
        snapshot.kube().endpoint = no(kind);
        hints(&snapshot, ENDPOINT).iter().any(|hint| format!("{hint:?}").contains("usually listens on 6443"))
    };
    assert!(hints_of("https://k8s.example", GapKind::ConnectionRefused));
    assert!(hints_of("https://k8s.example/clusters/a", GapKind::ConnectTimedOut));
    assert!(!hints_of("https://k8s.example:443", GapKind::ConnectionRefused));
    assert!(!hints_of("https://k8s.example", GapKind::UnknownCa), "something answers there");
}

/// kubeadm, kind and others run etcd as a static pod beside each API server.
#[test]
fn the_pod_of_a_member_explains_its_api_server() {
    let mut snapshot = healthy().without_talos();
    let kube = snapshot.kube();
    let pods = kube.pods.as_mut().unwrap();
    let members = pods.iter().filter(|pod| pod.is_api_server()).cloned().map(|pod| {
        let name = pod.name.replace("kube-apiserver", "etcd");
        crate::snapshot::Pod { name, ..pod }
    });
    let members: Vec<_> = members.collect();
    pods.extend(members);
    pods.iter_mut().find(|pod| pod.name == "etcd-cp-3").unwrap().state.ready = Some(false);
    kube.servers.insert("cp-3".to_owned(), Ok(answered(500, &["etcd"])));
    assert_eq!(said(&snapshot, ID), ["fail api-not-ready cp-3 < k8s.staticpods.running"]);
    let pods = said(&snapshot, "k8s.staticpods.running");
    assert_eq!(pods, ["fail no-tolerance cluster", "fail static-pod-failed etcd-cp-3"], "one check, one story");
}
