//! The cause is the deepest part that was seen to fail: a machine's stage before its services, an etcd member before the API server.

use super::*;

fn headlines(snapshot: &Snapshot) -> Vec<String> {
    diagnosed(snapshot).into_iter().map(|diagnosis| diagnosis.headline).collect()
}

/// Returns whether none of the proposed commands changes anything.
fn only_looks(snapshot: &Snapshot) -> bool {
    !diagnosed(snapshot).iter().flat_map(|it| &it.next).any(|hint| matches!(hint, Hint::Remedy { .. }))
}

/// Returns the problems that no diagnosis explains.
fn left(snapshot: &Snapshot) -> Vec<String> {
    let made = diagnosed(snapshot);
    let is_explained = |id, target: &Target, problem: &crate::model::Problem| {
        made.iter().any(|it| it.is_about(id, target, problem.reason, &problem.observed))
    };
    let verdicts = verdicts(snapshot);
    let all = verdicts.iter().flat_map(|(check, verdict)| verdict.problems().map(move |it| (check.id, it)));
    let left = all.filter(|(id, (target, problem))| !is_explained(*id, target, problem));
    left.map(|(id, (target, problem))| format!("{id} {target}: {}", problem.observed)).collect()
}

#[test]
fn a_member_that_hangs_comes_before_its_api_server() {
    let mut snapshot = broken(member_hangs);
    let seen = "etcd on cp-3 (10.0.0.3) is not responding; the others keep a quorum: test: TimedOut";
    assert_eq!(headlines(&snapshot), [seen]);
    assert_eq!(left(&snapshot), [""; 0]);
    // A frozen API server on the same machine adds nothing.
    snapshot.kube().servers.insert("cp-3".to_owned(), gap(GapKind::TimedOut));
    assert_eq!(headlines(&snapshot), [seen]);
    // Talos has noticed in the meantime.
    let etcd = snapshot.service_mut("cp-3", "etcd");
    (etcd.healthy, etcd.health_message) = (Some(false), "context deadline exceeded".to_owned());
    let service = "etcd on cp-3 (10.0.0.3) does not work; the others keep a quorum: Running, not healthy: context \
                   deadline exceeded; last event: Health check successful";
    assert_eq!(headlines(&snapshot), [service]);
    assert_eq!(left(&snapshot), [""; 0]);
}

#[test]
fn a_member_without_peers_comes_before_its_api_server() {
    let mut snapshot = broken(member_is_cut_off);
    let seen = "etcd on cp-3 (10.0.0.3) is cut off from its peers and sees no leader; the others keep a quorum";
    assert_eq!(headlines(&snapshot), [seen]);
    assert_eq!(left(&snapshot), [""; 0]);
    let etcd = snapshot.service_mut("cp-3", "etcd");
    (etcd.healthy, etcd.health_message) = (Some(false), "context deadline exceeded".to_owned());
    assert_eq!(headlines(&snapshot), [seen], "Talos has noticed by now");
    assert_eq!(left(&snapshot), [""; 0]);
}

/// The load balancer leads to the API server on the member's machine.
#[test]
fn an_endpoint_that_waits_for_the_same_member_is_no_cause_of_its_own() {
    let mut snapshot = broken(member_hangs);
    let server = snapshot.kube().servers["cp-3"].clone();
    snapshot.kube().endpoint = server;
    assert_eq!(ids(&snapshot), ["etcd-member-down"]);
    assert_eq!(left(&snapshot), [""; 0]);
    snapshot.kube().endpoint.as_mut().unwrap().failed.push("informer-sync".to_owned());
    assert_ne!(left(&snapshot), [""; 0], "that is none of etcd's");
}

/// A failed check other than etcd's is the API server's own problem.
#[test]
fn an_api_server_that_fails_for_itself_is_told_of() {
    let mut snapshot = broken(member_hangs);
    let server = snapshot.kube().servers.get_mut("cp-3").unwrap().as_mut().unwrap();
    server.failed.push("informer-sync".to_owned());
    assert_eq!(ids(&snapshot), ["etcd-member-down", "api-server-down"]);
    let mut healthy_member = broken(member_hangs);
    let whole = healthy();
    healthy_member.node_mut("cp-3").talos = whole.node("cp-3").unwrap().talos.clone();
    assert_eq!(ids(&healthy_member), ["api-server-down"], "its etcd answers and follows the leader");
}

#[test]
fn a_machine_that_stops_on_purpose_has_nothing_broken() {
    for stage in ["rebooting", "shutting down", "upgrading", "resetting"] {
        for (node, who) in [("cp-3", "control plane node cp-3 (10.0.0.3)"), ("w-1", "worker w-1 (10.0.0.4)")] {
            let mut snapshot = healthy();
            goes_down(&mut snapshot, node, stage);
            let stage = if stage == "resetting" { "being reset" } else { stage };
            assert_eq!(headlines(&snapshot), [format!("{who} is {stage}")], "{:#?}", problems(&snapshot));
            assert_eq!(left(&snapshot), [""; 0], "{stage}");
            assert!(only_looks(&snapshot), "{stage}");
        }
    }
}

/// Talos cordons a machine while it upgrades it; the machine's other problems are not consequences.
#[test]
fn a_stage_explains_a_cordon_by_talos_and_no_more_than_follows() {
    let mut snapshot = broken(|snapshot| goes_down(snapshot, "cp-2", "upgrading"));
    snapshot.talos_of("cp-2").memory = Ok(1 << 20);
    let node = snapshot.kube_node_mut("cp-2");
    (node.unschedulable, node.cordoned_by_talos) = (true, true);
    let left = left(&snapshot);
    assert!(left.iter().all(|it| it.starts_with("talos.nodes.memory ")) && left.len() == 1, "{left:#?}");
}

/// A booting machine starts its kubelet automatically.
#[test]
fn no_kubelet_is_restarted_while_its_machine_boots() {
    let mut snapshot = broken(|snapshot| service(snapshot, "w-1", "kubelet", "Preparing"));
    assert!(!only_looks(&snapshot));
    stage(&mut snapshot, "w-1", "booting");
    assert!(only_looks(&snapshot), "{:#?}", diagnosed(&snapshot));
}

#[test]
fn who_has_survived_is_not_told_to_be_broken() {
    let mut snapshot = broken(quorum_lost);
    let etcd = snapshot.service_mut("cp-1", "etcd");
    (etcd.healthy, etcd.health_message) = (Some(false), "context deadline exceeded".to_owned());
    let made = diagnosed(&snapshot);
    assert_eq!(made.len(), 1, "{made:#?}");
    assert!(
        made[0].headline.starts_with(
            "etcd has lost its quorum: etcd is down on cp-2 (10.0.0.2) and cp-3 (10.0.0.3); 1 of 3 voters up"
        ),
        "{}",
        made[0].headline
    );
    assert_eq!(left(&snapshot), [""; 0]);
    let log = Hint::run("{talosctl} -n {} logs etcd", ["10.0.0.1"]);
    assert!(!made[0].next.contains(&log), "{made:#?}");
}

/// Members that hang count as lost, regardless of how Talos reports their services.
#[test]
fn who_hangs_has_not_survived() {
    let mut snapshot = broken(quorum_lost);
    for name in ["cp-2", "cp-3"] {
        let etcd = snapshot.service_mut(name, "etcd");
        (etcd.state, etcd.health_message) = ("Running".to_owned(), "context deadline exceeded".to_owned());
    }
    let headline = &headlines(&snapshot)[0];
    assert!(headline.contains("etcd is down on cp-2 (10.0.0.2) and cp-3 (10.0.0.3); "), "{headline}");
}

/// More workers are expected than exist, but none is being removed.
#[test]
fn nothing_is_removed_where_nobody_leaves() {
    let mut snapshot = broken(|snapshot| snapshot.asked.expect_workers = Some(2));
    let mut foreign = crate::testing::fixture::node(98, "kwok");
    (foreign.is_talos, foreign.role) = (false, Role::Worker);
    foreign.talos = TalosNode::unasked(&Gap::not_asked()).into();
    foreign.sources = crate::snapshot::Sources { kubernetes: true, ..Default::default() };
    snapshot.nodes.push(foreign);
    assert!(!ids(&snapshot).contains(&"autoscaler-removes-nodes"), "{:#?}", diagnosed(&snapshot));
}

/// This is the first information that an engineer on call needs.
#[test]
fn what_takes_the_kubernetes_api_from_everybody_comes_first() {
    let mut snapshot = broken(|snapshot| service(snapshot, "w-1", "kubelet", "Failed"));
    assert_eq!(ids(&snapshot), ["kubelet-not-running"]);
    snapshot.kube().endpoint = gap(GapKind::TimedOut);
    assert_eq!(ids(&snapshot), ["load-balancer-down", "kubelet-not-running"]);
}

/// An outage of the whole cluster comes before trouble on one machine, and a later upgrade last, even if no diagnosis explains the problem.
#[test]
fn the_wider_reach_comes_first() {
    let reach = |id: &str, reason| Reach::of_problem(checks::find(id).unwrap(), reason);
    let sorted = [
        reach("etcd.quorum", Reason::QuorumLost),
        reach("k8s.dns", Reason::DnsNoEndpoints),
        reach("k8s.api.endpoint", Reason::TimedOut),
        reach("k8s.kube-proxy", Reason::DaemonsetIncomplete),
        reach("etcd.tolerance", Reason::TwoMembers),
        reach("upgrade.room", Reason::PodsDoNotFit),
    ];
    assert!(sorted.is_sorted_by(|one, other| one < other), "{sorted:?}");
    assert_eq!(reach("k8s.nodes.pressure", Reason::NodePressure), Reach::Property);
}
