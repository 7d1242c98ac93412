//! Machines to which the pods could move.

use std::time::Duration;

use super::*;
use crate::snapshot::{BoundPod, NodeRoom, Placement, PodEvent, Requirement, Sources, Taint, Term, Toleration};
use crate::testing::fixture::{ago, amounts, bound_pod, taint};

const ROOM: &str = "upgrade.room";
const NO_ROOM: [&str; 1] = ["w-1: fail pods-do-not-fit"];
const LITTLE: [&str; 1] = ["w-1: warn little-room"];
const PINNED: [&str; 1] = ["w-1: warn pinned-pod, for ever"];

/// w-1 is to be drained. Each machine has a pod with 100m CPU and 64 MiB, out of 4 CPU and 8 GiB.
fn world() -> Snapshot {
    let mut snapshot = before(None, None);
    snapshot.asked.upgrade.drain = Some("w-1".to_owned());
    snapshot
}

fn pods(snapshot: &mut Snapshot) -> &mut Vec<BoundPod> {
    snapshot.kube().bound_pods.as_mut().unwrap()
}

fn rooms(snapshot: &mut Snapshot) -> &mut Vec<NodeRoom> {
    snapshot.kube().node_room.as_mut().unwrap()
}

fn web(snapshot: &mut Snapshot) -> &mut BoundPod {
    pods(snapshot).iter_mut().find(|pod| pod.name == "web-w-1").unwrap()
}

fn requests(snapshot: &mut Snapshot, requests: &[(&str, u64)]) {
    web(snapshot).needs.requests = Some(amounts(requests));
}

fn placed(change: impl FnOnce(&mut Placement)) -> Snapshot {
    let mut snapshot = world();
    change(&mut web(&mut snapshot).needs.placement);
    snapshot
}

fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = world();
    change(&mut snapshot);
    snapshot
}

#[test]
fn the_pods_of_a_machine_fit_on_the_others() {
    assert_eq!(lines(ROOM, &world()), ["the pods of w-1 fit on the other machines"]);
    assert_eq!(lines(ROOM, &before(Some("1.13.1"), None)), ["the pods of every machine fit on the other machines"]);
    assert_eq!(status(ROOM, &before(None, Some("1.36.0"))), Status::Skip);
}

#[test]
fn a_pod_that_is_larger_than_what_any_has_left_does_not() {
    // 100m CPU each for kube-proxy, the API server and the other pod of the workload.
    let fits = with(|it| requests(it, &[("cpu", 3700), ("pods", 1)]));
    assert_eq!(status(ROOM, &fits), Status::Pass, "{:?}", wrong(ROOM, &fits));
    let does_not = with(|it| requests(it, &[("cpu", 3701), ("pods", 1)]));
    assert_eq!(wrong(ROOM, &does_not), NO_ROOM);
    assert_eq!(
        observed(ROOM, &does_not),
        ["pod default/web-w-1 requests 3.7 CPU, more than any of the 3 machines that take it has left"]
    );
    assert_eq!(wrong(ROOM, &with(|it| requests(it, &[("memory", 9 << 30)]))), NO_ROOM);
    // No other machine has the device, and none ever will.
    let device = |amount: u64| {
        with(|it| {
            requests(it, &[("nvidia.com/gpu", 2)]);
            let others = rooms(it).iter_mut().filter(|room| room.name != "w-1");
            others.for_each(|room| {
                _ = room.allocatable.as_mut().unwrap().insert("nvidia.com/gpu".to_owned(), amount);
            });
        })
    };
    assert_eq!(wrong(ROOM, &device(0)), PINNED);
    assert_eq!(wrong(ROOM, &device(1)), NO_ROOM);
    assert_eq!(wrong(ROOM, &device(2)), [""; 0]);
    let full = with(|it| {
        for room in rooms(it) {
            room.allocatable = Some(amounts(&[("cpu", 4000), ("memory", 8 << 30), ("pods", 3)]));
        }
    });
    assert_eq!(wrong(ROOM, &full), NO_ROOM, "there is no place for one more pod");
}

#[test]
fn the_sum_of_them_counts() {
    let with_more = |many: usize, cpu: u64| {
        with(|it| {
            requests(it, &[("cpu", cpu), ("pods", 1)]);
            let pod = web(it).clone();
            let more = (1..many).map(|at| BoundPod { name: format!("web-{at}"), ..pod.clone() });
            pods(it).extend(more);
        })
    };
    let much = with_more(6, 2000);
    assert_eq!(wrong(ROOM, &much), NO_ROOM);
    assert_eq!(observed(ROOM, &much), ["6 pods request 12 CPU, and the 3 machines that take them have 11.1 CPU left"]);
    let scattered = with_more(5, 2000);
    assert_eq!(wrong(ROOM, &scattered), LITTLE);
    assert_eq!(
        observed(ROOM, &scattered),
        ["no placement was found for pods default/web-3, default/web-4, though all would fit in total"]
    );
    let low = with_more(3, 3000);
    assert_eq!(wrong(ROOM, &low), LITTLE);
    assert_eq!(observed(ROOM, &low), ["17 % would be left: 2.1 CPU of 12 CPU"]);
    assert_eq!(wrong(ROOM, &with_more(3, 2700)), [""; 0]);
}

#[test]
fn who_does_not_come_back_elsewhere_needs_no_room() {
    for change in [
        |pod: &mut BoundPod| pod.controller = None,
        |pod: &mut BoundPod| pod.controller = Some(("DaemonSet".to_owned(), "web".to_owned())),
        |pod: &mut BoundPod| pod.mirror = true,
        |pod: &mut BoundPod| pod.deleting = true,
        |pod: &mut BoundPod| pod.phase = "Succeeded".to_owned(),
    ] {
        let snapshot = with(|it| {
            requests(it, &[("cpu", 9000)]);
            change(web(it));
        });
        assert_eq!(wrong(ROOM, &snapshot), [""; 0]);
    }
    let local = with(|it| {
        requests(it, &[("cpu", 9000)]);
        it.kube().persistent_volumes.as_mut().unwrap()[0].terms = Some(Vec::new());
    });
    assert_eq!(wrong(ROOM, &local), [""; 0]);
    let drain = wrong("upgrade.drain", &local);
    assert_eq!(drain, ["w-1: warn local-volume, for ever"]);
}

#[test]
fn only_nodes_that_take_the_pod_count() {
    let require = |key: &str, operator: &str, values: &[&str]| Requirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: values.iter().map(|&value| value.to_owned()).collect(),
    };
    let host = "kubernetes.io/hostname";
    assert_eq!(wrong(ROOM, &placed(|it| drop(it.labels.insert(host.to_owned(), "w-1".to_owned())))), PINNED);
    assert_eq!(wrong(ROOM, &placed(|it| drop(it.labels.insert(host.to_owned(), "cp-1".to_owned())))), [""; 0]);
    assert_eq!(wrong(ROOM, &placed(|it| it.tolerations.clear())), PINNED, "the others are control planes");
    let term = |labels: Vec<Requirement>, fields: Vec<Requirement>| Term { labels, fields };
    for (terms, expected) in [
        (vec![], &PINNED[..]),
        (vec![Term::default()], &PINNED),
        (vec![term(vec![require(host, "In", &["cp-2"])], vec![])], &[]),
        (vec![term(vec![require(host, "NotIn", &["cp-1", "cp-2", "cp-3"])], vec![])], &PINNED),
        (vec![term(vec![require("x", "Exists", &[])], vec![]), term(vec![require(host, "Exists", &[])], vec![])], &[]),
        (vec![term(vec![], vec![require("metadata.name", "In", &["w-1"])])], &PINNED),
        (vec![term(vec![], vec![require("metadata.name", "In", &["cp-1"])])], &[]),
        (vec![term(vec![require("generation", "Gt", &["3"])], vec![])], &PINNED),
        (
            vec![term(vec![require(host, "Like", &["x"])], vec![])],
            &["cluster: error unreadable-answer, see upgrade.drain"],
        ),
    ] {
        let snapshot = placed(|it| it.terms = Some(terms.clone()));
        assert_eq!(wrong(ROOM, &snapshot), expected, "{terms:?}");
    }
}

/// A volume in a zone, or on storage that only some machines have.
#[test]
fn a_pod_goes_where_its_volumes_are() {
    let zoned = |zones: &[&str], cpu: u64| {
        with(|it| {
            requests(it, &[("cpu", cpu)]);
            for (room, zone) in rooms(it).iter_mut().zip(["a", "b", "b", "a"]) {
                room.labels.insert("zone".to_owned(), zone.to_owned());
            }
            rooms(it)[0].allocatable = Some(amounts(&[("cpu", 1000), ("memory", 8 << 30), ("pods", 10)]));
            let values = zones.iter().map(|&zone| zone.to_owned()).collect();
            let zone = Requirement { key: "zone".to_owned(), operator: "In".to_owned(), values };
            let term = Term { labels: vec![zone], fields: Vec::new() };
            it.kube().persistent_volumes.as_mut().unwrap()[0].terms = Some(vec![term]);
        })
    };
    assert_eq!(wrong(ROOM, &zoned(&["a", "b"], 2000)), [""; 0]);
    assert_eq!(wrong(ROOM, &zoned(&["a"], 2000)), NO_ROOM, "cp-1 alone is in the zone, and has too little");
    assert_eq!(wrong(ROOM, &zoned(&["c"], 2000)), [""; 0], "held by its volume");
    assert_eq!(wrong("upgrade.drain", &zoned(&["c"], 2000)), ["w-1: warn local-volume, for ever"]);
}

#[test]
fn taints_and_cordons_keep_pods_away() {
    let all = |change: fn(&mut NodeRoom)| with(|it| rooms(it).iter_mut().for_each(change));
    assert_eq!(wrong(ROOM, &all(|room| room.unschedulable = true)), NO_ROOM, "somebody has cordoned them");
    assert_eq!(wrong(ROOM, &all(|room| room.taints.push(taint("gpu")))), PINNED);
    assert_eq!(wrong(ROOM, &all(|room| room.taints.push(taint("node.kubernetes.io/not-ready")))), NO_ROOM);
    assert_eq!(wrong(ROOM, &all(|room| room.deleting = true)), NO_ROOM);
    let cilium = |room: &mut NodeRoom| room.taints.push(taint("node.cilium.io/agent-not-ready"));
    assert_eq!(wrong(ROOM, &all(cilium)), NO_ROOM);
    let both = |room: &mut NodeRoom| room.taints.extend(["node.cilium.io/agent-not-ready", "gpu"].map(taint));
    assert_eq!(wrong(ROOM, &all(both)), PINNED, "it would stay away");
    let soft = |room: &mut NodeRoom| room.taints.push(Taint { effect: "PreferNoSchedule".to_owned(), ..taint("gpu") });
    assert_eq!(wrong(ROOM, &all(soft)), [""; 0]);
    for (key, operator, value, effect, tolerates) in [
        ("gpu", "Exists", "", "", true),
        ("gpu", "Exists", "", "NoSchedule", true),
        ("gpu", "Exists", "", "NoExecute", false),
        ("gpu", "Equal", "", "NoSchedule", true),
        ("gpu", "", "", "", true),
        ("gpu", "Equal", "yes", "", false),
        ("gpu", "Like", "", "", false),
        ("", "Exists", "", "", true),
        ("", "Equal", "", "", false),
        ("other", "Exists", "", "", false),
    ] {
        let mut snapshot = all(|room| room.taints.push(taint("gpu")));
        let [key, operator, value, effect] = [key, operator, value, effect].map(str::to_owned);
        let toleration = Toleration { key, operator, value, effect };
        web(&mut snapshot).needs.placement.tolerations.push(toleration.clone());
        let expected: &[&str] = if tolerates { &[] } else { &PINNED };
        assert_eq!(wrong(ROOM, &snapshot), expected, "{toleration:?}");
    }
}

#[test]
fn what_was_not_read_is_no_pass() {
    for kind in [GapKind::Forbidden, GapKind::TimedOut, GapKind::TooLarge, GapKind::NotAsked] {
        let changes: [fn(&mut Snapshot, GapKind); 3] = [
            |it, kind| it.kube().bound_pods = gap(kind),
            |it, kind| it.kube().node_room = gap(kind),
            |it, kind| it.kube().persistent_volumes = gap(kind),
        ];
        for change in changes {
            assert_eq!(status(ROOM, &with(|it| change(it, kind))), Status::Error, "{kind:?}");
        }
    }
    assert_eq!(wrong(ROOM, &with(|it| rooms(it).retain(|room| room.name != "w-1"))), ["w-1: error no-answer"]);
    let unreadable = ["cluster: error unreadable-answer"];
    assert_eq!(wrong(ROOM, &with(|it| rooms(it)[0].allocatable = None)), unreadable);
    assert_eq!(wrong(ROOM, &with(|it| web(it).needs.requests = None)), unreadable);
}

#[test]
fn a_thousand_machines_of_a_hundred_pods_are_judged_at_once() {
    let mut snapshot = world();
    snapshot.asked.upgrade = Upgrade { talos: Some("1.13.1".to_owned()), ..Upgrade::default() };
    let model = rooms(&mut snapshot)[3].clone();
    let names: Vec<String> = (0..1000).map(|at| format!("n-{at}")).collect();
    rooms(&mut snapshot).extend(names.iter().map(|name| NodeRoom { name: name.clone(), ..model.clone() }));
    let kinds = (0..110).map(|kind| format!("app-{kind}"));
    let kinds: Vec<_> = kinds.map(|app| bound_pod("default", &app, "", Some(("ReplicaSet", &app)))).collect();
    for name in &names {
        let here = kinds.iter().map(|pod| BoundPod { node: name.clone(), ..pod.clone() });
        pods(&mut snapshot).extend(here.map(|mut pod| {
            pod.needs.requests = Some(amounts(&[("cpu", 30), ("memory", 1 << 20), ("pods", 1)]));
            pod
        }));
    }
    let plain = crate::engine::judge(&[crate::checks::find(ROOM).unwrap()], &snapshot);
    assert!(plain[0].1.status().is_fine(), "{:?}", plain[0].1.status());
}

#[test]
fn a_node_that_runs_as_many_pods_as_it_may_is_named_with_its_limit() {
    let full = with(|it| {
        requests(it, &[("cpu", 100), ("pods", 1)]);
        for room in rooms(it) {
            room.allocatable = Some(amounts(&[("cpu", 4000), ("pods", 2)]));
        }
        for pod in pods(it) {
            pod.needs.requests = Some(amounts(&[("pods", 1)]));
        }
    });
    assert_eq!(wrong(ROOM, &full), NO_ROOM);
    let said = &observed(ROOM, &full)[0];
    assert!(said.starts_with("cp-1 runs ") && said.ends_with(": no place for default/web-w-1"), "{said}");
}

/// A pod on the control plane that has waited for its sandbox for this many seconds, as its events show.
fn waits(snapshot: &mut Snapshot, node: &str, seconds: u64) {
    let kube = snapshot.kube();
    let pod = kube.starting_pods.as_mut().unwrap().first_mut().unwrap();
    (pod.node, pod.waiting_for, pod.overtaken_by) = (Some(node.to_owned()), Some(Duration::from_secs(seconds)), None);
    let event = PodEvent {
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        uid: pod.uid.clone(),
        reason: "FailedCreatePodSandBox".to_owned(),
        message: "because".to_owned(),
        at: Some(ago(5)),
    };
    kube.pod_events.as_mut().unwrap().push(event);
}

/// No standing of a machine makes it a place: neither of a guest, nor of a machine outside of `--nodes`.
#[test]
fn a_machine_that_starts_no_pods_is_no_place() {
    let pressed = |snapshot: &mut Snapshot, name: &str, kind: &str| {
        let condition = snapshot.kube_node_mut(name).conditions.iter_mut().find(|it| it.kind == kind).unwrap();
        "True".clone_into(&mut condition.status);
    };
    let only = |snapshot: &mut Snapshot, name: &str| {
        let labels = &mut web(snapshot).needs.placement.labels;
        labels.insert("kubernetes.io/hostname".to_owned(), name.to_owned());
    };
    let standings: [fn(&mut Snapshot); 3] = [
        |_| {},
        |it| it.node_mut("cp-1").out_of_scope = true,
        |it| {
            let node = it.node_mut("cp-1");
            (node.is_talos, node.sources) = (false, Sources { kubernetes: true, ..Sources::default() });
            "Flatcar".clone_into(&mut it.kube_node_mut("cp-1").os_image);
        },
    ];
    for standing in standings {
        let place = |change: &dyn Fn(&mut Snapshot)| {
            let snapshot = with(|it| {
                standing(it);
                only(it, "cp-1");
                change(it);
            });
            (wrong(ROOM, &snapshot), observed(ROOM, &snapshot))
        };
        let closed = |by: &str| {
            let observed = format!("the machine that takes pod default/web-w-1 accepts no pods: cp-1 ({by})");
            (NO_ROOM.map(str::to_owned).to_vec(), vec![observed])
        };
        assert_eq!(place(&|_| {}).0, [""; 0]);
        for kind in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
            assert_eq!(place(&|it| pressed(it, "cp-1", kind)), closed(kind));
        }
        assert_eq!(place(&|it| waits(it, "cp-1", 90)).1, closed("starts no pods").1);
        assert_eq!(place(&|it| waits(it, "cp-1", 50)).0, [""; 0], "it may start in a moment");
        assert_eq!(place(&|it| waits(it, "cp-2", 90)).0, [""; 0], "another machine");
        for missing in [
            |it: &mut Snapshot| it.kube().starting_pods = gap(GapKind::Forbidden),
            |it: &mut Snapshot| {
                it.kube().pod_events = gap(GapKind::Forbidden);
            },
        ] {
            assert_eq!(place(&missing).0.len(), 1);
        }
    }
}
