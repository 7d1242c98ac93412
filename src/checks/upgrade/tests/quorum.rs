//! Whether the cluster keeps working without the machine.

use std::time::Duration;

use super::*;

const QUORUM: &str = "upgrade.quorum";

#[test]
fn the_cluster_goes_on_without_any_one_machine() {
    let line = "etcd, the API and DNS keep working: every machine can go down";
    assert_eq!(lines(QUORUM, &before(Some("1.14.1"), None)), [line]);
    // `talosctl upgrade-k8s` does not take any machine down.
    assert_eq!(status(QUORUM, &before(None, Some("1.36.0"))), Status::Skip);
}

#[test]
fn an_endpoint_that_is_the_machine_itself_goes_with_it() {
    let at = |endpoint: &str| {
        let mut snapshot = before(Some("1.14.1"), None);
        endpoint.clone_into(&mut snapshot.kube().endpoint.as_mut().unwrap().server);
        wrong(QUORUM, &snapshot)
    };
    assert_eq!(at("https://k8s.example:6443"), [""; 0]);
    assert_eq!(at("https://10.0.0.2:6443"), ["cp-2: warn endpoint-on-machine, for ever"]);
    assert_eq!(at("https://cp-3:6443"), ["cp-3: warn endpoint-on-machine, for ever"]);
    // A virtual IP is among the addresses of the machine that holds it.
    let mut held = before(Some("1.14.1"), None);
    held.node_mut("cp-1").addresses.push("10.0.0.100".to_owned());
    "https://10.0.0.100:6443".clone_into(&mut held.kube().endpoint.as_mut().unwrap().server);
    assert_eq!(wrong(QUORUM, &held), [""; 0]);
}

#[test]
fn a_learner_is_no_voter_that_would_be_missed() {
    let mut snapshot = before(Some("1.14.1"), None);
    snapshot.talos_of("cp-3").etcd_status.as_mut().unwrap().is_learner = true;
    let id = snapshot.talos_of("cp-3").etcd_status.as_ref().unwrap().member_id;
    for node in ["cp-1", "cp-2", "cp-3"] {
        let members = snapshot.talos_of(node).etcd_members.as_mut().unwrap();
        members.iter_mut().filter(|member| member.id == id).for_each(|member| member.is_learner = true);
    }
    assert!(!wrong(QUORUM, &snapshot).iter().any(|it| it.starts_with("cp-3")), "{:?}", wrong(QUORUM, &snapshot));
}

/// A lease shows that a server is alive, but not that it can be reached.
#[test]
fn the_only_server_that_was_seen_is_not_taken_down() {
    let seen = |names: &[&str]| {
        let mut snapshot = before(Some("1.14.1"), None);
        for name in ["cp-1", "cp-2", "cp-3"].into_iter().filter(|name| !names.contains(name)) {
            snapshot.kube().servers.insert(name.to_owned(), gap(GapKind::ConnectTimedOut));
        }
        wrong(QUORUM, &snapshot)
    };
    assert_eq!(seen(&["cp-1", "cp-2"]), [""; 0]);
    assert_eq!(seen(&["cp-1"]), ["cp-1: error no-answer"]);
    assert_eq!(seen(&[]), [""; 0], "a runner that reaches the endpoint alone");
}

#[test]
fn a_second_member_is_not_taken_down() {
    let mut snapshot = before(Some("1.14.1"), None);
    snapshot.talos_of("cp-2").contact = gap(GapKind::NodeUnreachable);
    snapshot.talos_of("cp-2").etcd_status = gap(GapKind::NotAsked);
    snapshot.kube().servers.insert("cp-2".to_owned(), gap(GapKind::NoRoute));
    snapshot.kube().api_endpoints.as_mut().unwrap().truncate(1);
    assert_eq!(
        wrong(QUORUM, &snapshot),
        ["cp-1: fail quorum-at-risk, see etcd.tolerance", "cp-3: fail quorum-at-risk, see etcd.tolerance"]
    );
    assert_eq!(observed(QUORUM, &snapshot), ["1 would be left", "1 would be left"]);
    // The member may be up.
    let mut untold = before(Some("1.14.1"), None);
    untold.talos_of("cp-2").etcd_status = gap(GapKind::Broken);
    assert_eq!(wrong(QUORUM, &untold), ["cp-1: blocked etcd.tolerance", "cp-3: blocked etcd.tolerance"]);
}

#[test]
fn only_the_machine_that_goes_is_judged() {
    let mut snapshot = before(None, None);
    snapshot.talos_of("cp-2").contact = gap(GapKind::NodeUnreachable);
    snapshot.talos_of("cp-2").etcd_status = gap(GapKind::NotAsked);
    snapshot.kube().servers.insert("cp-2".to_owned(), gap(GapKind::NoRoute));
    snapshot.kube().api_endpoints.as_mut().unwrap().truncate(1);
    for (name, expected) in
        [("cp-1", &["cp-1: fail quorum-at-risk, see etcd.tolerance"][..]), ("w-1", &[]), ("cp-2", &[])]
    {
        snapshot.asked.upgrade.drain = Some(name.to_owned());
        assert_eq!(wrong(QUORUM, &snapshot), expected, "{name}");
    }
}

#[test]
fn the_last_api_server_and_the_last_dns_endpoint_stay() {
    let mut snapshot = before(Some("1.14.1"), None);
    for name in ["cp-2", "cp-3"] {
        let unready = crate::snapshot::Readyz { status: 500, ..snapshot.kube().servers[name].clone().unwrap() };
        snapshot.kube().servers.insert(name.to_owned(), Ok(unready));
    }
    for endpoint in snapshot.kube().dns_endpoints.as_mut().unwrap() {
        endpoint.node = Some("w-1".to_owned());
    }
    assert_eq!(
        wrong(QUORUM, &snapshot),
        ["cp-1: fail last-api-server, see k8s.api.servers", "w-1: fail last-dns-endpoint"]
    );
    snapshot.kube().dns_endpoints.as_mut().unwrap()[0].node = None;
    assert_eq!(wrong(QUORUM, &snapshot), ["cp-1: fail last-api-server, see k8s.api.servers", "w-1: error no-answer"]);
    // A resolver outside the cluster, with Talos' DNS disabled.
    let first = &mut snapshot.kube().dns_endpoints.as_mut().unwrap()[0];
    (first.pod, first.addresses) = (None, vec!["192.0.2.53".to_owned()]);
    assert_eq!(wrong(QUORUM, &snapshot), ["cp-1: fail last-api-server, see k8s.api.servers"]);
    // `k8s.dns` reports this problem.
    snapshot.kube().dns_endpoints.as_mut().unwrap().clear();
    assert_eq!(wrong(QUORUM, &snapshot), ["cp-1: fail last-api-server, see k8s.api.servers"]);
}

/// The endpoint is still reported as ready although its pod has been unready for a long time.
#[test]
fn a_dns_endpoint_works_as_its_pod_does() {
    let mut snapshot = before(Some("1.14.1"), None);
    let endpoints = snapshot.kube().dns_endpoints.clone().unwrap();
    let [here, there] = endpoints.as_slice() else { panic!("{endpoints:?}") };
    let (node, pod) = (here.node.clone().unwrap(), there.pod.clone());
    assert_ne!(here.node, there.node);
    let pods = snapshot.kube().pods.as_mut().unwrap();
    let unwell = pods.iter_mut().find(|it| Some(&it.name) == pod.as_ref()).unwrap();
    (unwell.state.ready, unwell.unready_for) = (Some(false), Some(Duration::from_secs(90)));
    assert_eq!(wrong(QUORUM, &snapshot), [format!("{node}: fail last-dns-endpoint")]);
    snapshot.kube().pods = gap(GapKind::TimedOut);
    assert!(wrong(QUORUM, &snapshot).iter().all(|it| it.contains(": error timed-out")), "nobody knows");
}

/// Makes the component fail on these control planes.
fn fails(snapshot: &mut Snapshot, component: &str, names: &[&str]) {
    for name in names {
        let statuses = snapshot.talos_of(name).static_pod_statuses.as_mut().unwrap();
        let its = statuses.iter_mut().filter(|status| status.name.starts_with(component));
        its.for_each(|status| status.state.ready = Some(false));
    }
}

/// `k8s.controlplane.scheduler` does not judge the others with `--nodes cp-1`.
#[test]
fn the_last_scheduler_stays() {
    for component in ["kube-scheduler", "kube-controller-manager"] {
        let mut snapshot = before(None, None);
        snapshot.asked.upgrade.drain = Some("cp-1".to_owned());
        for name in ["cp-2", "cp-3", "w-1"] {
            snapshot.node_mut(name).out_of_scope = true;
        }
        assert_eq!(wrong(QUORUM, &snapshot), [""; 0]);
        fails(&mut snapshot, component, &["cp-2"]);
        assert_eq!(wrong(QUORUM, &snapshot), [""; 0], "that of cp-3 works");
        fails(&mut snapshot, component, &["cp-3"]);
        assert_eq!(wrong(QUORUM, &snapshot), ["cp-1: fail last-component"]);
        assert_eq!(observed(QUORUM, &snapshot), [format!("no other {component} works")]);
        let mut untold = snapshot.clone();
        untold.talos_of("cp-3").static_pod_statuses = gap(GapKind::TimedOut);
        untold.kube().pods = gap(GapKind::TimedOut);
        assert!(wrong(QUORUM, &untold).iter().any(|it| it.starts_with("cp-1: error")), "{:?}", wrong(QUORUM, &untold));
        // Its drain does not lose what does not work.
        fails(&mut snapshot, component, &["cp-1"]);
        assert_eq!(wrong(QUORUM, &snapshot), [""; 0]);
    }
    let mut disabled = before(Some("1.14.1"), None);
    for name in ["cp-2", "cp-3"] {
        let talos = disabled.talos_of(name);
        talos.scheduler_enabled = Ok(Some(false));
        talos.static_pod_statuses.as_mut().unwrap().retain(|status| !status.name.starts_with("kube-scheduler"));
    }
    assert_eq!(wrong(QUORUM, &disabled), ["cp-1: warn last-component, for ever"]);
    assert_eq!(observed(QUORUM, &disabled), ["no other one runs it"]);
}
