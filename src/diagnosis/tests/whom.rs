//! The subject of a cause, and which of a machine's problems follow from it.

use super::*;
use crate::snapshot::RequestState;
use crate::testing::fixture::Shape;

/// Returns `CHECK TARGET` for each problem that this cause explains; empty if it was not recognized.
fn explained(snapshot: &Snapshot, cause: &str) -> Vec<String> {
    let made = diagnosed(snapshot).into_iter().find(|it| it.id == cause);
    made.iter().flat_map(|it| &it.explains).map(|it| format!("{} {}", it.check, it.target.name)).collect()
}

#[test]
fn a_machine_without_configuration_is_named_by_its_name() {
    let snapshot = broken(|snapshot| {
        snapshot.talos_mut().endpoints[1].version = gap(GapKind::Maintenance);
        snapshot.node_mut("cp-2").talos.contact = gap(GapKind::Maintenance);
    });
    let made = diagnosed(&snapshot);
    assert!(made[0].headline.starts_with("cp-2 (10.0.0.2) is in maintenance mode"), "{}", made[0].headline);
}

#[test]
fn a_learner_explains_that_its_etcd_is_not_well() {
    let snapshot = broken(|snapshot| {
        snapshot.etcd_status_mut("cp-3").is_learner = true;
        let mut members = members(snapshot);
        members[2].is_learner = true;
        snapshot.set_members(&members);
        snapshot.service_mut("cp-3", "etcd").healthy = Some(false);
        snapshot.talos_of("cp-3").memory = Ok(1 << 20);
    });
    let explained = explained(&snapshot, "etcd-member-stuck-joining");
    assert!(explained.contains(&"etcd.service cp-3".to_owned()), "{explained:?}");
    assert!(!explained.contains(&"talos.nodes.memory cp-3".to_owned()), "{explained:?}");
    assert!(!ids(&snapshot).contains(&"etcd-member-down"));
}

#[test]
fn a_request_that_waits_explains_what_talos_says_of_it_and_no_other_diagnostic() {
    let snapshot = broken(|snapshot| {
        let request = &mut snapshot.kube().signing_requests.as_mut().unwrap()[0];
        request.state = RequestState::Pending;
        "system:node:cp-2".clone_into(&mut request.user);
        let node = snapshot.talos_of("cp-2");
        node.static_pod_statuses = Ok(Vec::new());
        let diagnostic = |id: &str| Diagnostic { id: id.to_owned(), message: "so".to_owned(), details: Vec::new() };
        node.diagnostics = Ok(vec![diagnostic("kubelet-csr"), diagnostic("address-overlap")]);
    });
    let explained = explained(&snapshot, "kubelet-certificate-unapproved");
    assert_eq!(explained.iter().filter(|it| *it == "talos.nodes.diagnostics cp-2").count(), 1, "{explained:?}");
}

#[test]
fn who_is_in_the_other_list_was_not_removed() {
    let snapshot = broken(|snapshot| {
        let all = members(snapshot);
        let (first, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|member| member.name == "cp-1");
        snapshot.set_members(&others);
        snapshot.talos_of("cp-1").etcd_members = Ok(first);
        service(snapshot, "cp-3", "etcd", "Preparing");
    });
    let made = ids(&snapshot);
    assert!(made.contains(&"bootstrapped-twice") && !made.contains(&"etcd-member-removed"), "{made:?}");
}

/// Shortly before its machine reports it too, or shortly after it was promoted.
#[test]
fn who_speaks_of_learners_is_not_down() {
    let snapshot = broken(|snapshot| {
        let etcd = snapshot.service_mut("cp-3", "etcd");
        etcd.healthy = Some(false);
        etcd.health_message = "etcdserver: rpc not supported for learner".to_owned();
    });
    assert!(!ids(&snapshot).contains(&"etcd-member-down"));
}

#[test]
fn a_voter_is_known_by_its_name_or_by_its_address() {
    for (name, url) in [("cp-3", "https://10.9.9.9:2380"), ("", "https://10.0.0.3:2380")] {
        let mut snapshot = healthy();
        let mut members = members(&snapshot);
        (members[2].name, members[2].peer_urls) = (name.to_owned(), vec![url.to_owned()]);
        snapshot.set_members(&members);
        let node = snapshot.node_mut("cp-3");
        node.talos = TalosNode::unasked(&Gap::not_asked()).into();
        node.talos.contact = gap(GapKind::NodeUnreachable);
        snapshot.kube().servers.insert("cp-3".to_owned(), gap(GapKind::NoRoute));
        let explained = explained(&snapshot, "node-down");
        assert!(explained.contains(&"etcd.tolerance cluster".to_owned()), "{name}: {explained:?}");
    }
}

/// The clock of w-1 is not synchronized, so this service waits for it, as its Talos event shows.
fn waits_for(id: &str, condition: &str) -> Snapshot {
    waits_on("w-1", id, condition)
}

fn waits_on(name: &str, id: &str, condition: &str) -> Snapshot {
    let mut snapshot = healthy();
    stage(&mut snapshot, name, "booting");
    snapshot.talos_of(name).time_status.as_mut().unwrap().as_mut().unwrap().synced = false;
    service(&mut snapshot, name, id, "Waiting");
    let event = snapshot.service_mut(name, id).last_event.as_mut().unwrap();
    event.message = format!("Waiting for {condition}");
    snapshot.talos_of(name).memory = Ok(1 << 20);
    snapshot
}

#[test]
fn etcd_that_waits_for_the_clock_is_told_of_once() {
    let mut snapshot = waits_on("cp-3", "etcd", "time sync");
    snapshot.talos_of("cp-3").etcd_status = gap(GapKind::NotAsked);
    let explained = explained(&snapshot, "clock-not-synchronized");
    assert!(explained.contains(&"etcd.service cp-3".to_owned()), "{explained:?}");
    assert!(!ids(&snapshot).contains(&"etcd-member-down"), "{:?}", ids(&snapshot));
}

#[test]
fn a_clock_explains_what_waits_for_it_and_no_more() {
    let cause = "clock-not-synchronized";
    let waits = explained(&waits_for("kubelet", "time sync"), cause);
    assert!(waits.contains(&"talos.time w-1".to_owned()), "{waits:?}");
    assert!(waits.contains(&"talos.nodes.kubelet w-1".to_owned()), "{waits:?}");
    assert!(!waits.contains(&"talos.nodes.memory w-1".to_owned()), "{waits:?}");
    let other = explained(&waits_for("kubelet", "network"), cause);
    assert_eq!(other, ["talos.time w-1"]);
    // A running service does not wait, regardless of its last event.
    let mut running = waits_for("kubelet", "time sync");
    let kubelet = running.service_mut("w-1", "kubelet");
    (kubelet.state, kubelet.healthy) = ("Running".to_owned(), Some(false));
    assert_eq!(explained(&running, cause), ["talos.time w-1"]);
}

#[test]
fn a_clock_that_is_only_uncorrected_is_no_cause() {
    let mut snapshot = healthy();
    snapshot.talos_of("w-1").adjtime.as_mut().unwrap().as_mut().unwrap().synced = false;
    assert_eq!(ids(&snapshot), [""; 0]);
}

/// Counting one more machine, which an earlier cause explains, would merge the diagnoses.
#[test]
fn machines_that_are_gone_are_not_counted_among_those_that_are_down() {
    let mut snapshot = Shape { workers: 5, ..Shape::default() }.world();
    let workers: Vec<String> =
        snapshot.nodes.iter().filter(|node| node.role == Role::Worker).map(|node| node.name.clone()).take(4).collect();
    for name in &workers {
        snapshot.node_mut(name).talos = TalosNode::unasked(&Gap::new(GapKind::NodeUnreachable, "rpc error")).into();
    }
    let gone = &workers[0];
    snapshot.node_mut(gone).sources.discovery = false;
    let ready = condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.");
    snapshot.kube_node_mut(gone).conditions = vec![ready];
    assert_eq!(ids(&snapshot), ["node-removed-but-listed", "node-down", "node-down", "node-down"]);
}

/// The other members list its name. An address would not show which machine to look at.
#[test]
fn an_endpoint_of_etcd_is_named_by_its_member() {
    let who = "etcd member cp-3 (https://10.0.0.3:2379)";
    let (without, votes) = ("the others keep a quorum", "the others list it as a voter");
    for (kind, how) in [
        (GapKind::ConnectionRefused, format!("is down: test: ConnectionRefused; {without}")),
        (GapKind::TimedOut, format!("accepts connections and does not answer: test: TimedOut; {without}")),
        (GapKind::PeerCertificateExpired, format!("cannot be queried: test: PeerCertificateExpired; {votes}")),
        (GapKind::UnknownCa, format!("cannot be queried: test: UnknownCa; {votes}")),
        (GapKind::NameNotInCertificate, format!("cannot be queried: test: NameNotInCertificate; {votes}")),
    ] {
        let mut snapshot = healthy().without_talos();
        mute_endpoint(&mut snapshot, kind);
        let made = diagnosed(&snapshot);
        assert_eq!(made.len(), 1, "{made:#?}");
        assert_eq!(made[0].headline, format!("{who} {how}"));
        let explained = explained(&snapshot, "etcd-endpoint-mute");
        assert_eq!(explained, ["etcd.leader https://10.0.0.3:2379", "etcd.tolerance cluster"]);
    }
}

/// Talos machines have no login, and machines of other systems have no talosctl.
#[test]
fn an_endpoint_of_etcd_is_looked_at_where_it_runs() {
    let mut snapshot = healthy().without_talos();
    mute_endpoint(&mut snapshot, GapKind::ConnectionRefused);
    let status = Hint::run("{etcdctl} endpoint status", []);
    let next = |snapshot: &Snapshot| diagnosed(snapshot)[0].next.clone();
    assert_eq!(next(&snapshot), [status.clone(), Hint::run("{talosctl} -n {} service etcd", ["10.0.0.3"])]);
    snapshot.node_mut("cp-3").is_talos = false;
    let unit = Hint::run("ssh {} 'ss -tlnp; systemctl status etcd; crictl ps -a --name etcd'", ["10.0.0.3"]);
    assert_eq!(next(&snapshot), [status, unit]);
}

/// A learner's failure does not cost etcd any tolerance, and a member without a name is identified by its id.
#[test]
fn an_endpoint_of_etcd_that_learns_explains_no_margin() {
    let mut snapshot = healthy().without_talos();
    mute_endpoint(&mut snapshot, GapKind::UnknownCa);
    snapshot.asked.require_quorum_margin = Some(1);
    listed(&mut snapshot, |members| {
        members[2].is_learner = true;
        members[2].name.clear();
    });
    eprintln!("{:#?}", diagnosed(&snapshot));
    let made = diagnosed(&snapshot).into_iter().find(|it| it.id == "etcd-endpoint-mute").unwrap();
    assert!(made.headline.ends_with("; the others list it as a learner"), "{}", made.headline);
    let id = crate::text::hex(crate::testing::fixture::member_id(2));
    assert!(made.headline.starts_with(&format!("etcd member {id} (")), "{}", made.headline);
    let symptoms = ["etcd.leader https://10.0.0.3:2379".to_owned(), format!("etcd.learners {id}")];
    assert_eq!(explained(&snapshot, "etcd-endpoint-mute"), symptoms);
}

/// The reader has to look at each of these machines.
#[test]
fn all_members_that_never_started_are_named() {
    let mut snapshot = healthy().without_talos();
    external_etcd(&mut snapshot);
    let name = |snapshot: &Snapshot| diagnosed(snapshot)[0].headline.clone();
    listed(&mut snapshot, |members| members.push(unstarted()));
    let one = "etcd member 000000000000004d (https://10.0.0.9:2380) was added but never started, and counts as a voter";
    assert_eq!(name(&snapshot), one);
    listed(&mut snapshot, |members| {
        members[3].peer_urls.clear();
        members.push(EtcdMember { id: 0x4e, ..unstarted() });
    });
    let both = "etcd member 000000000000004d and 000000000000004e (https://10.0.0.9:2380) were added but never started, and \
                count as voters";
    assert_eq!(name(&snapshot), both);
}

/// Talos runs this etcd, and saw that its service is unhealthy.
#[test]
fn talos_has_its_own_word_about_an_endpoint_of_etcd() {
    let mut snapshot = broken(|snapshot| mute_endpoint(snapshot, GapKind::TimedOut));
    service(&mut snapshot, "cp-3", "etcd", "Failed");
    assert_eq!(ids(&snapshot), ["etcd-endpoint-mute"]);
    let explained = explained(&snapshot, "etcd-endpoint-mute");
    assert!(explained.contains(&"etcd.service cp-3".to_owned()), "{explained:?}");
    snapshot.power_off("cp-3");
    assert_eq!(ids(&snapshot), ["node-down"]);
}

#[test]
fn a_lost_quorum_names_the_endpoints_of_etcd() {
    let mut snapshot = healthy().without_talos();
    mute_endpoint(&mut snapshot, GapKind::ConnectionRefused);
    let endpoints = snapshot.external_etcd.as_mut().unwrap();
    endpoints[1] = EtcdEndpoint { address: endpoints[1].address.clone(), ..endpoints[2].clone() };
    endpoints[0].status.as_mut().unwrap().leader = 0;
    endpoints[0].members = gap(GapKind::TimedOut);
    let made = diagnosed(&snapshot);
    assert_eq!(made.len(), 1, "{made:#?}");
    assert_eq!(
        made[0].headline,
        "etcd has lost its quorum: no answer from https://10.0.0.2:2379 and https://10.0.0.3:2379; 1 of 3 voters up, need 2; \
         no leader (voters assumed: one at each endpoint); answers came from https://10.0.0.1:2379"
    );
    assert_eq!(made[0].next, [Hint::run("{etcdctl} endpoint status", [])]);
}

/// Returns the headline of this cause; `None` if it was not recognized.
fn headline(snapshot: &Snapshot, cause: &str) -> Option<String> {
    diagnosed(snapshot).into_iter().find(|it| it.id == cause).map(|it| it.headline)
}

/// etcd or the user still uses the old name of w-1, under which its kubelet stopped reporting.
fn renamed(machine_id: &str) -> Snapshot {
    let mut snapshot = healthy();
    let mut node = snapshot.node_mut("w-1").clone();
    let mut object = snapshot.kube_node_mut("w-1").clone();
    "48a12b7f".clone_into(&mut snapshot.kube_node_mut("w-1").machine_id);
    silent(&mut snapshot);
    snapshot.talos_of("w-1").contact.as_mut().unwrap().answered_by_other = Some("w-one".to_owned());
    "w-one".clone_into(&mut node.name);
    "w-one".clone_into(&mut object.name);
    machine_id.clone_into(&mut object.machine_id);
    node.machine_id = Some(machine_id.to_owned());
    snapshot.nodes.push(node);
    snapshot.kube().nodes.as_mut().unwrap().push(object);
    snapshot
}

#[test]
fn a_machine_that_was_renamed_is_known_by_its_machine_id() {
    let told = headline(&renamed("48a12b7f"), "machine-renamed").unwrap();
    assert_eq!(told, "the machine at 10.0.0.4 now registers as w-one, and no longer w-1; its hostname has changed");
    assert_eq!(headline(&renamed("another"), "machine-renamed"), None);
    assert_eq!(headline(&renamed(""), "machine-renamed"), None);
}

#[test]
fn a_kubelet_that_has_not_registered_has_or_has_not_asked_for_a_certificate() {
    let told = |change: Break| {
        let mut snapshot = broken(not_registered);
        change(&mut snapshot);
        headline(&snapshot, "kubelet-not-registered")
    };
    let asked_nothing = told(|snapshot| snapshot.kube().signing_requests = Ok(Vec::new())).unwrap();
    assert!(asked_nothing.ends_with("has neither a Node nor an open certificate request for it"), "{asked_nothing}");
    let had_one = told(|snapshot| {
        let request = &mut snapshot.kube().signing_requests.as_mut().unwrap()[0];
        request.state = RequestState::Settled;
    });
    assert_eq!(had_one.as_ref(), Some(&asked_nothing), "it was issued to the machine that it was before");
    let unread = told(|snapshot| snapshot.kube().signing_requests = gap(GapKind::Forbidden)).unwrap();
    assert!(unread.ends_with("has no Node for it"), "{unread}");
    // A request that is pending or not signed is more specific evidence.
    let waits = |snapshot: &mut Snapshot| {
        let request = &mut snapshot.kube().signing_requests.as_mut().unwrap()[0];
        request.state = RequestState::Unissued;
    };
    assert_eq!(told(waits), None);
}

#[test]
fn pods_that_fail_alike_are_one_cause() {
    let snapshot = broken(|snapshot| {
        cannot_pull(snapshot, "ImagePullBackOff");
        let pods = snapshot.kube().pods.as_mut().unwrap();
        let state = pods.iter().find(|pod| pod.name == "kube-flannel-abcd3").unwrap().state.clone();
        let others = pods.iter_mut().filter(|pod| pod.name.starts_with("kube-flannel-abcd"));
        others.for_each(|pod| pod.state = state.clone());
        let first = pods.iter_mut().find(|pod| pod.name == "kube-flannel-abcd0").unwrap();
        first.state.containers[0].waiting_reason = Some("CrashLoopBackOff".to_owned());
        let sets = snapshot.kube().daemon_sets.as_mut().unwrap();
        sets.iter_mut().filter(|set| set.name == "kube-flannel").for_each(|set| set.available = 0);
    });
    let made = diagnosed(&snapshot).into_iter().filter(|it| it.id == "node-agent-not-running");
    let told: Vec<_> = made.map(|it| it.headline).collect();
    assert_eq!(
        told,
        [
            "kube-flannel keeps restarting on 1 of 4 nodes (cp-1 (10.0.0.1))",
            "kube-flannel cannot pull ghcr.io/siderolabs/flannel:v0.0.1 on 3 of 4 nodes (cp-2 (10.0.0.2), cp-3 (10.0.0.3) and w-1 (10.0.0.4))",
        ]
    );
}
