//! Every call that the program makes, with each kind of wrong answer: facts that are not known to be good never count as good, and the
//! report names the machine.

use std::collections::BTreeSet;
use std::time::Duration;

use simulator::world::{CallFault, Misbehavior, World};

use super::{ATTEMPT, SHORT, SLACK, side_by_side};
use crate::cluster::{Cluster, Said, cluster};

/// The endpoint itself, a control plane behind it, and a worker.
const MACHINES: [&str; 3] = ["cp-1", "cp-2", "worker-1"];

/// The machine that answers in place of another one.
const STRANGER: &str = "cp-3";

fn only_endpoint() -> Cluster {
    cluster().endpoints(&["cp-1"])
}

/// Returns the calls that a machine receives during a run in a healthy cluster.
fn calls(cluster: &Cluster, machine: &str) -> BTreeSet<String> {
    let server = cluster.apid(machine);
    let counts = cluster.simulator().calls().counts();
    counts.into_iter().filter(|count| count.server == server).map(|count| count.call).collect()
}

fn fail(code: u16, text: &str) -> Misbehavior {
    Misbehavior::Fail { code, text: text.to_owned() }
}

/// Misbehaviors that are tried with each call.
fn always() -> [Misbehavior; 9] {
    [
        Misbehavior::Hang,
        Misbehavior::Stall,
        Misbehavior::Empty,
        Misbehavior::Garbage,
        Misbehavior::Cut,
        Misbehavior::From(STRANGER.to_owned()),
        fail(7, "not authorized"),
        fail(12, "unknown method"),
        fail(14, "error reading from server: EOF"),
    ]
}

/// Misbehaviors of which each call gets two, because one function reads them for all calls.
fn in_turn() -> [Misbehavior; 8] {
    [
        Misbehavior::Endless,
        fail(1, "context canceled"),
        fail(2, "it broke"),
        fail(4, "context deadline exceeded"),
        fail(5, "resource doesn't exist"),
        fail(8, "too many requests"),
        fail(13, "it broke"),
        fail(16, "who are you"),
    ]
}

/// Returns the misbehaviors of the `nth` call, each with the machine that is affected.
fn cases<'a>(nth: usize, asked: &[&'a str]) -> Vec<(&'a str, Misbehavior)> {
    let turn = in_turn().into_iter().cycle().skip(2 * nth).take(2);
    let all = always().into_iter().chain(turn).enumerate();
    // A hanging call affects all machines; any other misbehavior affects one after the other.
    let machines = |turn: usize, does: &Misbehavior| match does {
        Misbehavior::Hang => asked.to_vec(),
        _ => vec![asked[(nth + turn) % asked.len()]],
    };
    all.flat_map(|(turn, does)| machines(turn, &does).into_iter().map(move |machine| (machine, does.clone()))).collect()
}

/// apid has verified the certificate of the machine that it queries; these answers do not identify their machine.
const WELL: &str = "it looks the same on every machine that is well";

/// Returns whether the machine has the same resources of a type as the one that answers in its place.
fn is_alike(cluster: &Cluster, machine: &str, call: &str) -> bool {
    let Some((_, short)) = call.split_once(' ') else { return false };
    let of = |world: &World, name: &str| {
        let (_, machine) = world.machine(name).unwrap();
        let kind = machine.resources.kinds().find(|kind| kind.split('.').next() == Some(short))?;
        Some(machine.resources.list(kind).map(|(id, it)| (id.to_owned(), it.spec().clone())).collect::<Vec<_>>())
    };
    cluster.change(|world| of(world, machine) == of(world, STRANGER))
}

/// Returns the reason why a wrong answer does not hide any required fact.
fn harmless(machine: &str, call: &str, does: &Misbehavior) -> Option<&'static str> {
    let worker = machine == "worker-1";
    let stranger = matches!(does, Misbehavior::From(_));
    let empty = *does == Misbehavior::Empty;
    let refused = matches!(does, Misbehavior::Fail { code: 7, .. });
    let absent = matches!(does, Misbehavior::Fail { code: 5, .. });
    Some(match call {
        "Get Identities" => "discovery has the machine's id, too",
        "Get NodeAddresses" => "it tells machines from addresses, and nothing is judged by it",
        "Get AdjtimeStatuses" => "the lease of the node tells how far its clock is off, too",
        "Mounts" if !empty && *does != Misbehavior::Garbage => {
            "a file system that hangs keeps Talos from telling of any"
        }
        "Get ExtraManifestsConfigs" => "what it tells only warns",
        "List Diagnostics" if empty || refused => "what it tells only warns, and no diagnostic is a good one",
        "List KubeSpanPeerStatuses" if empty || refused => {
            "what it tells only warns, and without KubeSpan there is no peer"
        }
        "Get KubePrismStatuses" if absent || refused => "what it tells only warns, and KubePrism may be switched off",
        "Get EtcdMembers" => "EtcdStatus has the id of the member, too",
        "Get MachineTypes" if !(stranger && worker) => "discovery has the role, too",
        "List SchedulerConfigs" | "List ControllerManagerConfigs" => "it only excuses a component that is not there",
        "Get BootstrapManifestsConfigs" => "it only excuses workloads that are not there",
        "Get ManifestStatuses" if machine != "any" => "any other control plane tells what was applied",
        "List AddressStatuses" if *does == Misbehavior::Endless => {
            "there may be as many as there are Services, and what they would tell is named as not observed"
        }
        "List ConfigStatuses" if worker => "Talos renders static pods on control planes alone",
        "List StaticPods" | "List StaticPodStatuses" if worker && empty => "a worker has none",
        "List Members" if empty => "discovery may be off: the talosconfig and Kubernetes name the machines",
        "Version" | "ServiceList" | "Get EtcdSpecs" | "List VolumeStatuses" | "Memory" if stranger => WELL,
        "List StaticPods" if stranger && !worker => WELL,
        "List StaticPodStatuses" if worker && stranger => "static pods are judged wherever they run",
        "List Members" | "EtcdMemberList" | "EtcdAlarmList" if stranger => {
            "it tells of the cluster, and all tell the same"
        }
        _ => return None,
    })
}

#[test]
fn no_wrong_answer_is_taken_for_a_right_one() {
    let healthy = only_endpoint();
    healthy.run(&[]).is(0, &[]);
    let asked = MACHINES.map(|machine| (machine, calls(&healthy, machine)));
    let all: BTreeSet<&String> = asked.iter().flat_map(|(_, calls)| calls).collect();
    assert!(all.len() > 15, "{all:?}");
    let all: Vec<_> = all.into_iter().enumerate().collect();
    side_by_side(all, 8, |(nth, call)| {
        let of_this = asked.iter().filter(|(_, calls)| calls.contains(call));
        let machines: Vec<&str> = of_this.map(|(machine, _)| *machine).collect();
        let cluster = only_endpoint();
        for (machine, does) in cases(nth, &machines) {
            cluster.change(|world| world.call_faults.clear());
            cluster.fault(machine, call, does.clone());
            goes_wrong(&cluster, machine, call, &does);
        }
    });
}

fn goes_wrong(cluster: &Cluster, machine: &str, call: &str, does: &Misbehavior) {
    let silent = matches!(does, Misbehavior::Hang | Misbehavior::Stall);
    let judged = cluster.run(if silent { &SHORT } else { &[] });
    let case = format!("{call} of {machine} does {does:?}: {judged}");
    if silent {
        // A second sample has a separate attempt.
        judged.within(2 * ATTEMPT + SLACK);
    }
    let alike = (matches!(does, Misbehavior::From(_)) && is_alike(cluster, machine, call)).then_some(WELL);
    match harmless(machine, call, does).or(alike) {
        // Calls that time out one after the other leave no time for the rest.
        Some(_) if silent => {}
        Some(why) => assert!(judged.outcome.code == 0 && judged.problems.is_empty(), "{why}, but {case}"),
        None => {
            assert_ne!(judged.outcome.code, 0, "{case}");
            let names = |said: &Said| match call {
                "List Members" => said.check == "talos.nodes.expected",
                // A static pod's name contains the name of its machine.
                _ => said.target == machine || said.target.ends_with(&format!("-{machine}")),
            };
            assert!(judged.problems.iter().any(names), "nobody is named: {case}");
        }
    }
}

/// If one machine cannot report a fact, another one may; here none can.
#[test]
fn what_no_machine_tells_is_not_known() {
    let healthy = cluster();
    healthy.run(&[]).is(0, &[]);
    let ways = |call: String| [fail(13, "it broke"), Misbehavior::Empty].map(|does| (call.clone(), does));
    side_by_side(calls(&healthy, "cp-1").into_iter().flat_map(ways), 3, |(call, does)| {
        let cluster = cluster();
        cluster.change(|world| world.call_faults.push(CallFault::all(&call, does.clone())));
        let judged = cluster.run(&[]);
        let case = format!("{call} does {does:?}: {judged}");
        match harmless("any", &call, &does) {
            Some(why) => assert_eq!(judged.outcome.code, 0, "{why}, but {case}"),
            None => assert_ne!(judged.outcome.code, 0, "{case}"),
        }
    });
}

#[test]
fn what_is_missing_is_not_excused_when_nobody_says_that_it_may_be() {
    let cluster = cluster();
    cluster.change(|world| {
        world.kubernetes.remove("daemonsets.apps", Some("kube-system"), "kube-proxy");
        world.call_faults.push(CallFault::all("Get BootstrapManifestsConfigs", fail(13, "it broke")));
    });
    cluster.run(&[]).is(69, &[("k8s.kube-proxy", "daemonset-missing", "kube-system/kube-proxy")]);
}

/// A late answer is not a wrong one.
#[test]
fn an_answer_that_comes_late_and_in_time_is_an_answer() {
    let cluster = cluster();
    let late = Misbehavior::Late(Duration::from_millis(100));
    cluster.change(|world| world.call_faults.push(CallFault::all("*", late)));
    cluster.run(&[]).is(0, &[]);
}

#[test]
fn an_answer_that_comes_too_late_is_none() {
    let cluster = cluster();
    cluster.fault("worker-1", "ServiceList", Misbehavior::Late(Duration::from_secs(60)));
    let judged = cluster.run(&SHORT);
    judged
        .is(69, &[("talos.nodes.services", "timed-out", "worker-1"), ("talos.nodes.kubelet", "timed-out", "worker-1")]);
    judged.within(ATTEMPT + SLACK);
}

/// If every machine listed its peers, the number of answers would be quadratic.
#[test]
fn peers_are_asked_of_control_planes_alone() {
    let cluster = cluster();
    cluster.run(&[]).is(0, &[]);
    for (machine, peers) in [("cp-1", 1), ("cp-3", 1), ("worker-1", 0)] {
        assert_eq!(cluster.asked(machine, "List KubeSpanPeerStatuses"), peers, "{machine}");
        assert_eq!(cluster.asked(machine, "Get KubePrismStatuses"), 1, "{machine}");
    }
}
