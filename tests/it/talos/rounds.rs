//! Clusters that change during a run: only a single round in which everything passes counts, and it must end before the deadline.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use simulator::world::{CallFault, EtcdCluster, Machine, Member, Misbehavior};

use super::SLACK;
use crate::cluster::{Cluster, Judgment, cluster};
use crate::harness::code;

/// Options for short intervals between rounds.
const WAITING: [&str; 4] = ["--wait-timeout", "60s", "--interval", "100ms"];

/// One call to the endpoint, and one to the node.
const VERSIONS_PER_ROUND: u64 = 2;

fn internal() -> Misbehavior {
    Misbehavior::Fail { code: 13, text: "it broke".to_owned() }
}

impl Cluster {
    /// Makes `times` calls to a machine misbehave, after `after` calls that do not.
    fn fault_after(&self, machine: &str, call: &str, does: Misbehavior, after: u64, times: Option<u64>) {
        let server = Some(self.apid(machine));
        let fault = CallFault { server, after, times, ..CallFault::all(call, does) };
        self.change(|world| world.call_faults.push(fault));
    }
}

fn rounds(judged: &Judgment) -> u64 {
    judged.report["rounds"].as_u64().unwrap()
}

/// Asserts that the recovery is seen in the second round, or in the third if Kubernetes was queried before the change.
#[track_caller]
fn heals_at_once(judged: &Judgment) {
    judged.is(0, &[]);
    assert!((2..=3).contains(&rounds(judged)), "{judged}");
}

#[test]
fn a_machine_that_comes_up_late_is_waited_for() {
    for trouble in ["power-off", "rebooting", "maintenance"] {
        let cluster = cluster();
        cluster.change(|world| match trouble {
            "power-off" => world.power_off("worker-1"),
            "rebooting" => world.rebooting("worker-1"),
            _ => world.maintenance("worker-1"),
        });
        cluster.when_asked(json!({"end": trouble, "node": "worker-1"}), "cp-1", "Version", VERSIONS_PER_ROUND + 1);
        heals_at_once(&cluster.run(&WAITING));
    }
}

#[test]
fn a_machine_that_goes_down_while_others_are_waited_for_is_seen() {
    let cluster = cluster();
    cluster.fault("cp-2", "ServiceList", internal());
    cluster.when_asked(json!({"do": "power-off", "node": "worker-1"}), "cp-1", "Version", VERSIONS_PER_ROUND + 1);
    let judged = cluster.run(&["--wait-timeout", "6s", "--interval", "100ms", "--no-kubernetes"]);
    judged.is(
        1,
        &[
            ("talos.nodes.reachable", "node-unreachable", "worker-1"),
            ("talos.nodes.services", "no-answer", "cp-2"),
            ("talos.nodes.kubelet", "no-answer", "cp-2"),
            ("etcd.service", "no-answer", "cp-2"),
        ],
    );
    let reachable = judged.check("talos.nodes.reachable");
    assert_eq!(reachable["flapped"], true, "{judged}");
}

/// Each check passes in one of the first two rounds, but all of them in neither.
#[test]
fn halves_of_two_rounds_are_no_whole() {
    let cluster = cluster();
    cluster.fault_after("worker-1", "ServiceList", internal(), 0, Some(1));
    cluster.fault_after("worker-1", "Get MachineStatuses", internal(), 1, Some(1));
    let judged = cluster.run(&WAITING);
    judged.is(0, &[]);
    assert_eq!(rounds(&judged), 3, "{judged}");
}

#[test]
fn a_check_that_has_passed_and_fails_again_has_failed() {
    let cluster = cluster();
    cluster.fault("worker-1", "Get MachineStatuses", internal());
    cluster.fault_after("worker-1", "ServiceList", internal(), 1, None);
    let judged = cluster.run(&["--wait-timeout", "6s", "--interval", "100ms", "--no-kubernetes"]);
    judged.is(
        69,
        &[
            ("talos.nodes.booted", "no-answer", "worker-1"),
            ("talos.nodes.services", "no-answer", "worker-1"),
            ("talos.nodes.kubelet", "no-answer", "worker-1"),
        ],
    );
    assert_eq!(judged.check("talos.nodes.services")["flapped"], true, "{judged}");
    assert_eq!(judged.check("talos.nodes.booted")["flapped"], false, "{judged}");
    assert!(rounds(&judged) >= 2, "{judged}");
}

#[test]
fn zero_is_one_round() {
    let cluster = cluster();
    cluster.fault_after("worker-1", "ServiceList", internal(), 0, Some(1));
    let judged = cluster.run(&["--wait-timeout", "0"]);
    assert_eq!((judged.outcome.code, rounds(&judged)), (69, 1), "{judged}");
}

/// An interrupted round is not evaluated. The previous one is.
#[test]
fn the_deadline_is_kept_in_the_middle_of_a_round_that_hangs() {
    let cluster = cluster();
    cluster.fault("worker-1", "ServiceList", internal());
    cluster.fault_after("worker-1", "Version", Misbehavior::Hang, 1, None);
    let deadline = Duration::from_secs(6);
    let judged = cluster.run(&["--wait-timeout", "6s", "--interval", "4s"]);
    let unanswered = ["talos.nodes.services", "talos.nodes.kubelet"].map(|check| (check, "no-answer", "worker-1"));
    judged.is(69, &unanswered).within(deadline + Duration::from_secs(1));
    assert!(judged.outcome.took >= deadline, "{judged}");
    assert!(cluster.asked("worker-1", "Version") >= 2, "the second round has begun: {judged}");
    assert_eq!((rounds(&judged), &judged.report["deadlineReached"]), (1, &true.into()), "{judged}");
}

/// At least one round has to finish, so that the hanging machines are reported.
#[test]
fn an_attempt_that_is_longer_than_the_deadline_is_shortened() {
    let cluster = cluster();
    let control_planes = ["cp-1", "cp-2", "cp-3"];
    for machine in control_planes {
        cluster.fault(machine, "Version", Misbehavior::Hang);
    }
    let judged = cluster.run(&["--wait-timeout", "4s", "--attempt-timeout", "1h"]);
    judged.is(1, &control_planes.map(|machine| ("talos.endpoints", "timed-out", machine)));
    judged.within(Duration::from_secs(5));
}

/// The run is interrupted neither while writing nor during a call.
#[test]
fn an_interrupt_while_a_machine_hangs() {
    let cluster = cluster();
    cluster.fault("worker-1", "ServiceList", Misbehavior::Hang);
    let program =
        cluster.program().args(["--wait-timeout", "1h", "--attempt-timeout", "1h", "--report", "json=r.json"]);
    let (mut child, home) = program.spawn();
    let started = Instant::now();
    while cluster.asked("worker-1", "ServiceList") == 0 {
        assert!(started.elapsed() < Duration::from_secs(20), "it is never asked");
        std::thread::yield_now();
    }
    let interrupted = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(code(child.wait().unwrap()), 130);
    assert!(interrupted.elapsed() < SLACK, "it goes on for {:?}", interrupted.elapsed());
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(home.path().join("r.json")).unwrap()).unwrap();
    assert_eq!((&report["result"], &report["complete"]), (&"interrupted".into(), &false.into()), "{report}");
}

/// A member that reports an earlier term than the others, as during an election.
#[test]
fn members_that_agree_a_moment_later_agree() {
    let cluster = cluster();
    let (spare, before) = (cluster.simulator().network().machine(100), "before-the-election");
    cluster.change(|world| {
        let (at, machine) = world.machine("cp-3").unwrap();
        let machine = Machine { name: before.to_owned(), ..machine.clone() };
        let now = &world.etcd[0];
        let own = |member: &Member| Member { machine: (member.machine == Some(at)).then_some(spare), ..member.clone() };
        let members = now.members.iter().map(own).collect();
        let earlier = EtcdCluster { raft_term: now.raft_term - 1, members, ..now.clone() };
        world.machines.insert(spare, machine);
        world.etcd.push(earlier);
    });
    let earlier = || Misbehavior::From(before.to_owned());
    cluster.fault_after("cp-3", "EtcdStatus", earlier(), 0, Some(1));
    let judged = cluster.run(&["--no-kubernetes"]);
    judged.is(0, &[]);
    assert_eq!((rounds(&judged), cluster.asked("cp-3", "EtcdStatus")), (1, 2), "{judged}");
    // If they still differ, the round does not pass.
    cluster.fault("cp-3", "EtcdStatus", earlier());
    cluster.run(&["--no-kubernetes"]).is(1, &[("etcd.leader", "leaders-differ", "cluster")]);
}

#[test]
fn a_member_that_joins_slowly_is_waited_for() {
    let cluster = cluster();
    cluster.change(|world| world.etcd_learner("cp-3"));
    cluster.when_asked(json!({"end": "etcd-learner", "node": "cp-3"}), "cp-1", "Version", VERSIONS_PER_ROUND + 1);
    // The API server next to a learner does not answer a list until the call times out.
    heals_at_once(&cluster.run(&[&WAITING[..], &["--attempt-timeout", "10s"]].concat()));
}
