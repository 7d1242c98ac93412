//! Stage 8 for a cluster that is queried only through Kubernetes.

use super::*;
use crate::model::Role;
use crate::snapshot::{Flags, Observed, RequestedApi, RequestedApis};
use crate::testing::fixture::ago;

/// A cluster with static pods, as set up by kubeadm.
fn cluster(upgrade: Upgrade) -> Snapshot {
    let mut snapshot = healthy().without_talos();
    snapshot.asked.upgrade = upgrade;
    for pod in snapshot.kube().pods.iter_mut().flatten().filter(|pod| pod.mirror) {
        let names = vec!["v".to_owned(), "profiling".to_owned()];
        let pod_name = pod.name.clone();
        pod.flags = Some(Flags { pod: pod_name, names, gates: Vec::new(), plugins: Vec::new(), apis: Vec::new() });
    }
    snapshot
}

fn to_kubernetes() -> Upgrade {
    Upgrade { kubernetes: Some("1.36.0".to_owned()), ..Upgrade::default() }
}

fn drain(node: &str) -> Upgrade {
    Upgrade { drain: Some(node.to_owned()), ..Upgrade::default() }
}

/// A cluster with a hosted control plane behind a load balancer.
fn hosted(upgrade: Upgrade) -> Snapshot {
    let mut snapshot = cluster(upgrade);
    for node in &mut snapshot.nodes {
        node.role = Role::Worker;
    }
    let kubernetes = snapshot.kube();
    kubernetes.pods.as_mut().unwrap().retain(|pod| !pod.mirror);
    kubernetes.servers.clear();
    let requested = kubernetes.requested_apis.pop_first().unwrap().1;
    let endpoint = kubernetes.credentials.as_ref().unwrap().server.clone();
    kubernetes.requested_apis = [(endpoint, requested)].into();
    snapshot
}

fn at_endpoint(snapshot: &mut Snapshot) -> &mut Observed<RequestedApis> {
    snapshot.kube().requested_apis.values_mut().next().unwrap()
}

fn left_out(id: &str, snapshot: &Snapshot) -> Vec<String> {
    judge(id, snapshot).left_out
}

#[test]
fn machines_can_be_drained_if_kubernetes_says_so() {
    let snapshot = cluster(drain("w-1"));
    for id in ["upgrade.drain", "upgrade.room", "upgrade.volumes", "upgrade.quorum"] {
        assert_eq!((wrong(id, &snapshot), status(id, &snapshot)), (vec![], Status::Pass), "{id}");
    }
    assert_eq!(lines("upgrade.quorum", &snapshot), ["neither the last API server nor the last DNS endpoint is on w-1"]);
    assert_eq!(left_out("upgrade.quorum", &snapshot), [""; 0]);
    // The etcd behind `--etcd-endpoints` may have a member on the machine.
    assert!(left_out("upgrade.quorum", &cluster(drain("cp-1")))[0].starts_with("whether etcd"));
    let mut held = cluster(drain("w-1"));
    let budget = &mut held.kube().disruption_budgets.as_mut().unwrap()[0];
    (budget.disruptions_allowed, budget.current_healthy, budget.desired_healthy) = (0, 2, 3);
    assert_eq!(status("upgrade.drain", &held), Status::Fail);
    // The last API server that works, and a machine that does not exist.
    let mut last = cluster(drain("cp-1"));
    for name in ["cp-2", "cp-3"] {
        last.kube().servers.insert(name.to_owned(), gap(GapKind::ConnectionRefused));
        let leases = &mut last.kube().system_leases.as_mut().unwrap().by_name;
        leases.retain(|_, lease| lease.hostname.as_deref() != Some(name));
    }
    assert_eq!(wrong("upgrade.quorum", &last), ["cp-1: fail last-api-server, see k8s.api.servers"]);
    assert_eq!(wrong("upgrade.drain", &cluster(drain("w-9"))), ["cluster: fail node-unknown"]);
}

#[test]
fn the_endpoint_tells_its_version_where_no_image_does() {
    let id = "upgrade.kubernetes.path";
    assert_eq!(lines(id, &cluster(to_kubernetes())), ["Kubernetes can be upgraded to v1.36.0"]);
    let mut snapshot = hosted(to_kubernetes());
    assert_eq!((wrong(id, &snapshot), status(id, &snapshot)), (vec![], Status::Pass));
    snapshot.kube().version = Ok("v1.34.9-eks-3cfe0ce".to_owned());
    assert_eq!(wrong(id, &snapshot), ["cluster: fail upgrade-path-unsupported, for ever"]);
    for unread in [gap(GapKind::Forbidden), gap(GapKind::NotAsked), Ok("latest".to_owned())] {
        snapshot.kube().version = unread;
        assert_eq!(status(id, &snapshot), Status::Error);
    }
}

#[test]
fn behind_a_balancer_one_api_server_tells_which_apis_were_requested() {
    let id = "upgrade.apis";
    assert_eq!((wrong(id, &cluster(to_kubernetes())), status(id, &cluster(to_kubernetes()))), (vec![], Status::Pass));
    let mut snapshot = hosted(to_kubernetes());
    assert_eq!(wrong(id, &snapshot), ["cluster: warn requests-partly-seen, for ever"]);
    assert_eq!(observed(id, &snapshot), ["1 of 3 API servers has answered, behind the endpoint"]);
    // Leases of servers that have ended do not count.
    let leases = &mut snapshot.kube().system_leases.as_mut().unwrap().by_name;
    leases.retain(|name, _| !name.starts_with("apiserver-") || name.ends_with('1'));
    let servers = leases.iter().filter(|(name, _)| name.starts_with("apiserver-")).count();
    assert_eq!((servers, wrong(id, &snapshot)), (1, vec![]));
    snapshot.kube().system_leases = gap(GapKind::Forbidden);
    assert_eq!(observed(id, &snapshot), ["1 of an unknown number of API servers has answered, behind the endpoint"]);
    let removed = RequestedApi {
        group: "batch".to_owned(),
        version: "v1beta1".to_owned(),
        resource: "cronjobs".to_owned(),
        subresource: String::new(),
        removed: "1.25".to_owned(),
    };
    at_endpoint(&mut snapshot).as_mut().unwrap().apis.push(removed);
    assert_eq!(status(id, &snapshot), Status::Fail);
    for kind in [GapKind::Forbidden, GapKind::NotAsked, GapKind::Malformed] {
        *at_endpoint(&mut snapshot) = gap(kind);
        assert_eq!(status(id, &snapshot), Status::Error, "{kind:?}");
    }
    snapshot.kube().requested_apis.clear();
    assert_eq!(status(id, &snapshot), Status::Error);
    // If the control planes are known, each of them is queried.
    let mut one = cluster(to_kubernetes());
    one.kube().requested_apis.remove("cp-2");
    assert_eq!(status(id, &one), Status::Error);
}

#[test]
fn command_lines_are_those_that_kubernetes_lists() {
    let id = "upgrade.flags";
    let snapshot = cluster(to_kubernetes());
    assert_eq!(lines(id, &snapshot), ["no flag of the control plane is refused by Kubernetes 1.36"]);
    assert!(left_out(id, &snapshot)[0].starts_with("the flags of the kubelets"));
    let with = |change: &dyn Fn(&mut Option<Flags>)| {
        let mut snapshot = cluster(to_kubernetes());
        let pods = snapshot.kube().pods.iter_mut().flatten();
        pods.filter(|pod| pod.name == "kube-apiserver-cp-2").for_each(|pod| change(&mut pod.flags));
        snapshot
    };
    let gone = with(&|flags| flags.as_mut().unwrap().gates.push(("AppArmor".to_owned(), true)));
    assert_eq!(wrong(id, &gone), ["cp-2: fail removed-flag, for ever"]);
    // A script starts the component.
    let unseen = with(&|flags| *flags = None);
    assert_eq!(lines(id, &unseen), ["no visible flag of the control plane is refused by Kubernetes 1.36"]);
    assert!(left_out(id, &unseen)[0].contains("kube-apiserver-cp-2"));
    let mut none = cluster(to_kubernetes());
    none.kube().pods.iter_mut().flatten().for_each(|pod| pod.flags = None);
    assert_eq!((wrong(id, &none), status(id, &none)), (vec![], Status::Skip));
    assert_eq!(status(id, &hosted(to_kubernetes())), Status::Skip);
    let mut blind = cluster(to_kubernetes());
    blind.kube().pods = gap(GapKind::Forbidden);
    assert_eq!(status(id, &blind), Status::Error);
}

/// A server that ended a while ago keeps its lease for an hour.
#[test]
fn servers_that_have_ended_are_not_counted() {
    let mut snapshot = hosted(to_kubernetes());
    let leases = &mut snapshot.kube().system_leases.as_mut().unwrap().by_name;
    let ended = leases.iter_mut().filter(|(name, _)| name.starts_with("apiserver-")).skip(1);
    ended.for_each(|(_, lease)| lease.renewed = Some(ago(2400)));
    assert_eq!(wrong("upgrade.apis", &snapshot), [""; 0]);
}

/// `OpenShift` pins all images by digest.
#[test]
fn images_without_versions_are_no_obstacle_if_the_api_server_tells_its_own() {
    let id = "upgrade.kubernetes.path";
    let mut snapshot = cluster(to_kubernetes());
    for pod in snapshot.kube().pods.iter_mut().flatten().filter(|pod| pod.mirror) {
        pod.state.containers[0].image = "quay.io/release@sha256:0f2a".to_owned();
    }
    assert_eq!((wrong(id, &snapshot), status(id, &snapshot)), (vec![], Status::Pass));
    snapshot.kube().version = Ok("v1.34.9".to_owned());
    assert_eq!(wrong(id, &snapshot), ["cluster: fail upgrade-path-unsupported, for ever"]);
    snapshot.kube().version = gap(GapKind::TimedOut);
    assert_eq!(status(id, &snapshot), Status::Error);
}

/// A tag in one image does not show the versions of the others.
#[test]
fn the_endpoint_tells_its_version_if_any_image_does_not() {
    let id = "upgrade.kubernetes.path";
    let mut snapshot = cluster(to_kubernetes());
    let pods = snapshot.kube().pods.iter_mut().flatten();
    for pod in pods.filter(|pod| pod.name == "kube-apiserver-cp-2") {
        pod.state.containers[0].image = "kube-apiserver@sha256:0f2a".to_owned();
    }
    assert_eq!(wrong(id, &snapshot), [""; 0]);
    snapshot.kube().version = Ok("v1.34.9".to_owned());
    assert_eq!(wrong(id, &snapshot), ["cluster: fail upgrade-path-unsupported, for ever"]);
}

/// kubeadm runs etcd as a static pod beside each API server.
#[test]
fn etcd_members_are_counted_by_their_static_pods() {
    let of = |node: &str, change: fn(&mut Vec<crate::snapshot::Pod>)| {
        let mut snapshot = cluster(drain(node));
        let pods = snapshot.kube().pods.as_mut().unwrap();
        let servers: Vec<_> = pods.iter().filter(|pod| pod.is_api_server()).cloned().collect();
        let member = |mut pod: crate::snapshot::Pod| {
            pod.name = pod.name.replace("kube-apiserver", "etcd");
            pod
        };
        pods.extend(servers.into_iter().map(member));
        change(pods);
        wrong("upgrade.quorum", &snapshot)
    };
    assert_eq!(of("cp-1", |_| {}), [""; 0]);
    let at_risk = ["cp-1: fail quorum-at-risk"];
    let missing: fn(&mut Vec<crate::snapshot::Pod>) = |pods| pods.retain(|pod| pod.name != "etcd-cp-3");
    assert_eq!(of("cp-1", missing), at_risk, "a member that should be there");
    let crashes: fn(&mut Vec<crate::snapshot::Pod>) =
        |pods| pods.iter_mut().find(|pod| pod.name == "etcd-cp-3").unwrap().state.ready = Some(false);
    assert_eq!(of("cp-1", crashes), ["cp-1: fail quorum-at-risk, see k8s.staticpods.running"]);
    assert_eq!(of("cp-3", crashes), [""; 0], "the one that does not work goes");
    assert_eq!(of("w-1", crashes), [""; 0]);
    // Two members, one of which does not work: the other must stay.
    let pair: fn(&mut Vec<crate::snapshot::Pod>) = |pods| {
        pods.retain(|pod| pod.name != "etcd-cp-3" && pod.name != "kube-apiserver-cp-3");
        pods.iter_mut().find(|pod| pod.name == "etcd-cp-2").unwrap().state.ready = Some(false);
    };
    assert!(of("cp-1", pair).contains(&"cp-1: fail quorum-at-risk".to_owned()));
}
