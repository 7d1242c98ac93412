//! Facts that are too old do not count as current.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use crate::checks::find;
use crate::model::Role;
use crate::model::Status;
use crate::snapshot::{GapKind, Pod, RaftProgress, Snapshot};
use crate::testing::fixture::{Servers, Shape, Sides, ago, now};
use crate::testing::laws::worlds::full_world;
use crate::testing::laws::{config, judged, overall, said, verdicts};

/// Ages a fact on this machine by this many seconds.
type Age = fn(&mut Snapshot, &str, i64);

/// A fact with a time, a position or a version, the check that depends on its freshness, and its maximum age in seconds.
struct Aged {
    check: &'static str,
    what: &'static str,
    allowed: i64,
    apply: Age,
}

fn before(moment: Timestamp, seconds: i64) -> Timestamp {
    moment - SignedDuration::from_secs(seconds)
}

/// Sets the kubelet's lease this many seconds behind the server's clock.
fn node_lease(snapshot: &mut Snapshot, node: &str, seconds: i64) {
    let leases = snapshot.kube().node_leases.as_mut().unwrap();
    let renewed = leases.date.map(|date| before(date, seconds));
    leases.by_name.get_mut(node).unwrap().renewed = renewed;
}

fn leader_lease(snapshot: &mut Snapshot, component: &str, seconds: i64) {
    let leases = snapshot.kube().system_leases.as_mut().unwrap();
    let renewed = leases.date.map(|date| before(date, seconds));
    leases.by_name.get_mut(component).unwrap().renewed = renewed;
}

const AGED: &[Aged] = &[
    Aged { check: "k8s.nodes.ready", what: "the kubelet's lease", allowed: 40, apply: node_lease },
    Aged { check: "k8s.nodes.pressure", what: "the kubelet's lease", allowed: 40, apply: node_lease },
    Aged {
        check: "k8s.controlplane.leases",
        what: "the scheduler's lease",
        allowed: 15,
        apply: |snapshot, _, seconds| leader_lease(snapshot, "kube-scheduler", seconds),
    },
    Aged {
        check: "k8s.controlplane.leases",
        what: "the controller manager's lease",
        allowed: 15,
        apply: |snapshot, _, seconds| leader_lease(snapshot, "kube-controller-manager", seconds),
    },
    Aged {
        check: "k8s.nodes.ready",
        what: "the leases, by a server whose clock runs on",
        allowed: 37,
        apply: |snapshot, _, seconds| {
            snapshot.kube().node_leases.as_mut().unwrap().date = Some(before(now(), -seconds));
        },
    },
    Aged {
        check: "k8s.controlplane.leases",
        what: "the leases, by a server whose clock runs on",
        allowed: 12,
        apply: |snapshot, _, seconds| {
            snapshot.kube().system_leases.as_mut().unwrap().date = Some(before(now(), -seconds));
        },
    },
    Aged {
        check: "k8s.api.servers",
        what: "the lease of a server out of reach that nobody serves",
        allowed: 40,
        apply: |snapshot, node, seconds| {
            let address = snapshot.node(node).unwrap().address.clone();
            let kube = snapshot.kube();
            kube.servers.insert(node.to_owned(), crate::testing::fixture::gap(GapKind::NoRoute));
            kube.api_endpoints.as_mut().unwrap().retain(|it| !it.addresses.contains(&address));
            for lease in kube.system_leases.as_mut().unwrap().by_name.values_mut() {
                if lease.hostname.as_deref() == Some(node) {
                    lease.renewed = Some(before(now(), seconds));
                }
            }
        },
    },
    Aged {
        check: "talos.credentials",
        what: "the client certificate of Talos",
        allowed: 0,
        apply: |snapshot, _, seconds| {
            let credentials = snapshot.talos_mut().credentials.as_mut().unwrap();
            credentials.certificate.as_mut().unwrap().not_after = before(now(), seconds);
        },
    },
    Aged {
        check: "k8s.credentials",
        what: "the client certificate of Kubernetes",
        allowed: 0,
        apply: |snapshot, _, seconds| {
            if let Some(certificate) = &mut snapshot.kube().credentials.as_mut().unwrap().certificate {
                certificate.not_after = before(now(), seconds);
            }
        },
    },
];

proptest! {
    #![proptest_config(config(96))]

    #[test]
    fn what_is_too_old_does_not_pass(
        shape in full_world(),
        aged in 0..AGED.len(),
        node in any::<prop::sample::Index>(),
        seconds in prop_oneof![1..5_i64, 5..100_000_000_i64],
    ) {
        let shape = Shape { bare: 0, token: false, ..shape };
        let mut world = shape.world();
        let control_planes: Vec<String> = world.control_planes().map(|node| node.name.clone()).collect();
        let node = node.get(&control_planes);
        let Aged { check, what, allowed, apply } = &AGED[aged];
        let status = |world: &Snapshot| judged(find(check).unwrap(), world).status();
        apply(&mut world, node, allowed + seconds);
        prop_assert!(!status(&world).is_fine(), "{} with {}", check, what);
        prop_assert!(!overall(&world).is_fine(), "the cluster with {}", what);
    }

    /// A lease from the future is not evidence of life either: its writer has another clock.
    #[test]
    fn what_is_of_the_future_does_not_pass(shape in full_world(), seconds in 41..100_000_000_i64) {
        let mut world = shape.world();
        let name = shape.name(0);
        node_lease(&mut world, &name, -seconds);
        prop_assert!(!judged(find("k8s.nodes.ready").unwrap(), &world).status().is_fine());
        let mut world = shape.world();
        leader_lease(&mut world, "kube-scheduler", -seconds);
        prop_assert!(!judged(find("k8s.controlplane.leases").unwrap(), &world).status().is_fine());
    }

    /// A lease that is old by its own timestamp counts as alive once its version has changed, unless the pause is long.
    #[test]
    fn what_moves_is_alive(shape in full_world(), seconds in 41..100_000_000_i64, within in 0..100_u64) {
        let within = Duration::from_secs(within);
        let mut world = shape.world();
        let name = shape.name(0);
        node_lease(&mut world, &name, seconds);
        world.kube().node_leases.as_mut().unwrap().by_name.get_mut(&name).unwrap().moved_within = Some(within);
        let is_fresh = within <= Duration::from_secs(40);
        prop_assert_eq!(judged(find("k8s.nodes.ready").unwrap(), &world).status().is_fine(), is_fresh);
    }

    /// A member that is far behind passes only if it moves.
    #[test]
    fn a_member_that_does_not_move_lags(
        shape in full_world(),
        member in any::<prop::sample::Index>(),
        behind in 1000..1_000_000_u64,
        moved in 0..2_000_000_u64,
        sampled in any::<bool>(),
    ) {
        let shape = Shape { index: shape.index + 4_000_000, ..shape };
        let mut world = shape.world();
        let name = shape.name(member.index(shape.control_planes));
        let status = world.etcd_status_mut(&name);
        status.raft_applied_index = status.raft_index - behind;
        let now = status.progress();
        status.earlier = sampled.then(|| RaftProgress { applied: now.applied - moved, index: now.applied - moved + behind });
        let keeps_pace = sampled && moved > 0;
        let after = judged(find("etcd.lag").unwrap(), &world).status();
        prop_assert_eq!(after.is_fine(), keeps_pace, "{:?}", after);
    }

    /// The term of an earlier round was lower.
    #[test]
    fn a_new_term_is_told(shape in full_world(), grown in 1..1000_u64) {
        let shape = Shape { term: shape.term + 1000, ..shape };
        let mut world = shape.world();
        world.memory.raft_term = Some(shape.term - grown);
        prop_assert_eq!(judged(find("etcd.leader").unwrap(), &world).status(), Status::Warn);
    }

    /// If anything restarts between two rounds, a check reports it.
    #[test]
    fn a_restart_is_told(shape in full_world(), which in any::<prop::sample::Index>(), grown in 1..1000_u32) {
        let mut world = shape.world();
        world.memory = world.memory.after(&world, Duration::from_secs(5));
        let guests = world.nodes.iter().filter(|node| !node.is_talos).map(|node| node.name.clone());
        let guests: BTreeSet<String> = guests.collect();
        let statuses = world.nodes.iter_mut().flat_map(|node| &mut node.talos.static_pod_statuses).flatten();
        let pods = world.kubernetes.iter_mut().flat_map(|kubernetes| &mut kubernetes.pods).flatten();
        // Talos reports on static pods, and pods on machines of another system are not judged.
        let is_judged = |pod: &&mut Pod| !pod.mirror && pod.node.as_ref().is_none_or(|node| !guests.contains(node));
        let pods = pods.filter(is_judged).map(|pod| &mut pod.state);
        let mut states: Vec<_> = statuses.map(|status| &mut status.state).chain(pods).collect();
        let state = which.index(states.len());
        states[state].containers[0].restarts += grown;
        let said = said(&verdicts(&world));
        prop_assert!(said.iter().any(|it| it.contains("restarting")), "{:?}", said);
    }

    /// The age of its service decides how long a member has been joining. A clock ahead of ours leaves the age unknown.
    #[test]
    fn who_joins_for_too_long_has_not_joined(
        shape in full_world(),
        member in any::<prop::sample::Index>(),
        seconds in prop_oneof![-100_000..-60_i64, 300..100_000_i64],
    ) {
        let mut world = shape.world();
        let name = shape.name(member.index(shape.control_planes));
        let id = world.etcd_status_mut(&name).member_id;
        world.etcd_status_mut(&name).is_learner = true;
        for node in &mut world.nodes {
            for member in node.talos.etcd_members.iter_mut().flatten().filter(|member| member.id == id) {
                member.is_learner = true;
            }
        }
        world.service_mut(&name, "etcd").running_since = Some(before(now(), seconds));
        prop_assert_eq!(judged(find("etcd.learners").unwrap(), &world).status(), Status::Fail);
    }
}

/// Certificates of servers, and the CA, cause a warning before they expire.
#[test]
fn what_ends_soon_is_told() {
    let soon = now() + SignedDuration::from_hours(10 * 24);
    let mut snapshot = Shape::default().world();
    for node in snapshot.kube().servers.values_mut().flatten() {
        node.certificate.as_mut().unwrap().not_after = soon;
    }
    assert_eq!(judged(find("k8s.api.certificates").unwrap(), &snapshot).status(), Status::Warn);
    let mut snapshot = Shape::default().world();
    let credentials = snapshot.talos_mut().credentials.as_mut().unwrap();
    credentials.ca.as_mut().unwrap().not_before = ago(86_400 * 300);
    credentials.ca.as_mut().unwrap().not_after = soon;
    assert_eq!(judged(find("talos.credentials").unwrap(), &snapshot).status(), Status::Warn);
}

/// The only clock for a machine without a kernel of its own is its kubelet's, and an old lease is not evidence of it.
#[test]
fn an_old_lease_measures_no_clock() {
    let shape = Shape { container: true, servers: Servers::OutOfReach, sides: Sides::Both, ..Shape::default() };
    let mut world = shape.world();
    for node in world.nodes.iter_mut().filter(|node| node.role == Role::Worker) {
        node.talos.time_status.as_mut().unwrap().as_mut().unwrap().sync_disabled = false;
    }
    let time = |world: &Snapshot| {
        let verdict = judged(find("talos.time").unwrap(), world);
        let of_worker = verdict.findings.into_iter().find(|finding| finding.target.name == "w-1").unwrap();
        of_worker.outcome.status()
    };
    assert_eq!(time(&world), Status::Pass);
    node_lease(&mut world, "w-1", 31);
    assert_eq!(time(&world), Status::Skip, "not measurable");
    node_lease(&mut world, "w-1", -32);
    assert_eq!(time(&world), Status::Fail, "its clock is ahead");
}
