//! Nodes that start pods, and nodes that do not.

use std::time::Duration;

use crate::checks::kubernetes::tests::{judge, lines, no, said};
use crate::model::Hint;
use crate::snapshot::{AttachedVolume, CsiNode, GapKind, PodEvent, PullingPod, Snapshot, StartingPod, UnplacedPod};
use crate::testing::fixture::{ago, healthy};

const STARTING: &str = "k8s.pods.starting";
const FAILED: [&str; 1] = ["fail pods-cannot-start w-1"];
const WARNED: [&str; 1] = ["warn pods-cannot-start w-1"];
const FINE: [&str; 0] = [];

fn event(reason: &str, seconds: u64) -> PodEvent {
    PodEvent {
        namespace: "default".to_owned(),
        pod: "web-1".to_owned(),
        uid: "a".to_owned(),
        reason: reason.to_owned(),
        message: "because".to_owned(),
        at: Some(ago(seconds)),
    }
}

/// A pod on w-1 that has been waiting for this many seconds, with these events.
fn waiting(seconds: u64, events: &[(&str, u64)]) -> Snapshot {
    let mut snapshot = healthy();
    snapshot.kube().starting_pods = Ok(vec![StartingPod {
        namespace: "default".to_owned(),
        name: "web-1".to_owned(),
        uid: "a".to_owned(),
        node: Some("w-1".to_owned()),
        by_default_scheduler: true,
        waiting_for: Some(Duration::from_secs(seconds)),
        lost_at: None,
        has_own_volumes: true,
        mounts_storage: true,
        owner: "default/ReplicaSet/web".to_owned(),
        overtaken_by: None,
        says: "ContainerCreating".to_owned(),
    }]);
    snapshot.kube().pod_events = Ok(events.iter().map(|(reason, at)| event(reason, *at)).collect());
    snapshot
}

/// API servers keep events for an hour, and a volume may have caused only one.
#[test]
fn a_pod_that_waits_for_its_volume_longer_than_events_last_is_a_warning() {
    assert_eq!(said(&waiting(3599, &[]), STARTING), ["error pods-cannot-start w-1"]);
    assert_eq!(said(&waiting(3600, &[]), STARTING), ["warn pods-cannot-start w-1"]);
    assert_eq!(said(&bare(waiting(3600, &[])), STARTING), FAILED);
}

/// Removes the volumes that have to be provided for the pods.
fn bare(mut snapshot: Snapshot) -> Snapshot {
    snapshot.kube().starting_pods.iter_mut().flatten().for_each(|pod| pod.has_own_volumes = false);
    snapshot
}

#[test]
fn a_node_that_gives_no_sandbox_cannot_start_pods() {
    assert_eq!(lines(&healthy(), STARTING), ["Pods start on all nodes"]);
    let sandbox = [("FailedCreatePodSandBox", 5)];
    assert_eq!(said(&waiting(59, &sandbox), STARTING), FINE);
    assert_eq!(said(&waiting(60, &sandbox), STARTING), FAILED);
    let verdict = judge(&waiting(660, &sandbox), STARTING);
    let observed = &verdict.problems().next().unwrap().1.observed;
    assert!(
        observed.ends_with("default/web-1 has waited 11m00s for its sandbox: FailedCreatePodSandBox: because"),
        "{observed}"
    );
    let mut anew = waiting(60, &sandbox);
    anew.kube().pod_events.as_mut().unwrap()[0].message =
        "failed to set bridge addr: \"cni0\" already has an IP address different from 10.244.5.1/24".to_owned();
    let knows = |hint: &Hint| matches!(hint, Hint::Likely(words) if words.contains("new podCIDR"));
    assert!(judge(&anew, STARTING).problems().next().unwrap().1.hints.iter().any(knows));
    let mut untold = waiting(0, &sandbox);
    untold.kube().starting_pods.as_mut().unwrap()[0].waiting_for = None;
    assert_eq!(said(&untold, STARTING), FAILED);
}

#[test]
fn what_a_pod_waits_for_itself_is_not_the_nodes() {
    for reason in ["FailedMount", "FailedAttachVolume", "FailedPrepareDynamicResources", "Pulling"] {
        assert_eq!(said(&waiting(4000, &[(reason, 5)]), STARTING), FINE, "{reason}");
        // The newest event counts.
        let later = waiting(4000, &[(reason, 5), ("FailedCreatePodSandBox", 4), ("SuccessfulAttachVolume", 3)]);
        assert_eq!(said(&later, STARTING), FAILED);
        let before = waiting(4000, &[("FailedCreatePodSandBox", 50), (reason, 5)]);
        assert_eq!(said(&before, STARTING), FINE);
    }
    // A pod without volumes of its own is not the reason for the wait.
    assert_eq!(said(&bare(waiting(4000, &[("FailedMount", 5)])), STARTING), FAILED);
    assert_eq!(said(&bare(waiting(4000, &[("Pulling", 5)])), STARTING), FINE);
    // Events of a different pod do not count.
    let mut other = bare(waiting(4000, &[("FailedMount", 5)]));
    "web-2".clone_into(&mut other.kube().pod_events.as_mut().unwrap()[0].pod);
    assert_eq!(said(&other, STARTING), FAILED);
    "web-1".clone_into(&mut other.kube().pod_events.as_mut().unwrap()[0].pod);
    "shop".clone_into(&mut other.kube().pod_events.as_mut().unwrap()[0].namespace);
    assert_eq!(said(&other, STARTING), FAILED);
}

#[test]
fn one_pods_trouble_does_not_hide_anothers() {
    let mut snapshot = waiting(4000, &[("FailedMount", 5)]);
    let mut second = snapshot.kube().starting_pods.as_ref().unwrap()[0].clone();
    (second.name, second.waiting_for) = ("web-2".to_owned(), Some(Duration::from_secs(61)));
    snapshot.kube().starting_pods.as_mut().unwrap().push(second);
    assert_eq!(said(&snapshot, STARTING), WARNED, "nothing is told of it yet");
    let mut told = event("FailedCreatePodSandBox", 1);
    "web-2".clone_into(&mut told.pod);
    snapshot.kube().pod_events.as_mut().unwrap().push(told);
    assert_eq!(said(&snapshot, STARTING), FAILED);
}

#[test]
fn without_a_word_the_pods_own_status_decides() {
    assert_eq!(said(&waiting(299, &[]), STARTING), WARNED);
    assert_eq!(said(&waiting(300, &[]), STARTING), ["error pods-cannot-start w-1"], "a volume takes long");
    assert_eq!(said(&bare(waiting(299, &[])), STARTING), WARNED);
    assert_eq!(said(&bare(waiting(300, &[])), STARTING), FAILED);
    for (kind, reason) in [
        (GapKind::Forbidden, "forbidden w-1 !"),
        (GapKind::TimedOut, "timed-out w-1"),
        (GapKind::TooLarge, "answer-too-large w-1"),
        (GapKind::NotAsked, "no-answer w-1"),
    ] {
        let blind = |mut snapshot: Snapshot| {
            snapshot.kube().pod_events = no(kind);
            snapshot
        };
        let whole = format!("error {}", reason.replace("w-1", "cluster"));
        let untold = [whole.clone(), format!("error {reason}")];
        assert_eq!(said(&blind(waiting(59, &[])), STARTING), untold[..1], "others may have lost their sandbox");
        assert_eq!(said(&blind(waiting(4000, &[])), STARTING), untold, "a volume, maybe");
        assert_eq!(said(&blind(bare(waiting(299, &[]))), STARTING), untold, "a large image, maybe");
        assert_eq!(said(&blind(bare(waiting(300, &[]))), STARTING), [whole, FAILED[0].to_owned()]);
    }
}

#[test]
fn what_fails_for_one_pod_alone_is_a_warning() {
    let overtaken = |mut snapshot: Snapshot| {
        let pod = &mut snapshot.kube().starting_pods.as_mut().unwrap()[0];
        pod.overtaken_by = Some("shop/web-7".to_owned());
        snapshot
    };
    let sandbox = [("FailedCreatePodSandBox", 5)];
    let one = overtaken(waiting(4000, &sandbox));
    assert_eq!(said(&one, STARTING), WARNED);
    let verdict = judge(&one, STARTING);
    let observed = &verdict.problems().next().unwrap().1.observed;
    assert!(observed.ends_with("(shop/web-7 got its sandbox there later)"), "{observed}");
    assert_eq!(said(&overtaken(waiting(4000, &[])), STARTING), WARNED);
    let mut blind = overtaken(waiting(4000, &[]));
    blind.kube().pod_events = no(GapKind::Forbidden);
    assert_eq!(said(&blind, STARTING), ["error forbidden cluster !", WARNED[0]]);
    // A second pod that was not overtaken points to the node.
    let mut both = one.clone();
    let mut second = both.kube().starting_pods.as_ref().unwrap()[0].clone();
    (second.name, second.overtaken_by) = ("web-2".to_owned(), None);
    both.kube().starting_pods.as_mut().unwrap().push(second);
    let told = PodEvent { pod: "web-2".to_owned(), ..event("FailedCreatePodSandBox", 5) };
    both.kube().pod_events.as_mut().unwrap().push(told);
    assert_eq!(said(&both, STARTING), FAILED);
}

/// A pod that has run loses its sandbox in a reboot.
#[test]
fn a_pod_that_lost_its_sandbox_is_told_by_events_since_then() {
    let lost = |events: &[(&str, u64)]| {
        let mut snapshot = waiting(660, events);
        snapshot.kube().starting_pods.as_mut().unwrap()[0].lost_at = Some(ago(660));
        snapshot
    };
    for at in [660, 5] {
        assert_eq!(said(&lost(&[("FailedCreatePodSandBox", at)]), STARTING), FAILED);
    }
    assert_eq!(said(&lost(&[("FailedCreatePodSandBox", 30), ("FailedMount", 5)]), STARTING), FINE);
    // The event belongs to an earlier start.
    let before = lost(&[("FailedCreatePodSandBox", 661)]);
    assert_eq!(said(&before, STARTING), ["error pods-cannot-start w-1"], "a volume, maybe");
    assert_eq!(said(&bare(before), STARTING), FAILED);
}

#[test]
fn words_of_an_earlier_pod_of_the_same_name_are_not_of_this_one() {
    let sandbox = [("FailedCreatePodSandBox", 5)];
    let of = |uid: &str| {
        let mut snapshot = waiting(299, &sandbox);
        uid.clone_into(&mut snapshot.kube().pod_events.as_mut().unwrap()[0].uid);
        said(&snapshot, STARTING)
    };
    assert_eq!(of("a"), FAILED);
    assert_eq!(of(""), FAILED);
    assert_eq!(of("b"), WARNED);
}

#[test]
fn only_nodes_that_are_ready_and_ours_are_judged() {
    let sandbox = [("FailedCreatePodSandBox", 5)];
    let of = |change: fn(&mut Snapshot)| {
        let mut snapshot = waiting(4000, &sandbox);
        change(&mut snapshot);
        said(&snapshot, STARTING)
    };
    let silent = |snapshot: &mut Snapshot| {
        drop(snapshot.kube().node_leases.as_mut().unwrap().by_name.remove("w-1"));
    };
    assert_eq!(of(silent), ["blocked w-1 < k8s.nodes.ready"]);
    assert_eq!(of(|it| it.node_mut("w-1").leaving = true), FINE);
    assert_eq!(of(|it| it.node_mut("w-1").is_talos = false), FINE, "a guest");
    assert_eq!(of(|it| it.kube().starting_pods = no(GapKind::Forbidden)), ["error forbidden cluster !"]);
}

/// The scheduler that holds the lease does nothing, or nothing for this profile.
#[test]
fn a_pod_that_no_scheduler_looks_at_is_told() {
    let ignored = |seconds: u64, events: &[(&str, u64)]| {
        let mut snapshot = waiting(seconds, events);
        snapshot.kube().starting_pods.iter_mut().flatten().for_each(|pod| pod.node = None);
        snapshot
    };
    let fails = ["fail pods-not-scheduled cluster"];
    let warns = ["warn pods-not-scheduled cluster"];
    assert_eq!(said(&ignored(299, &[]), STARTING), FINE);
    assert_eq!(said(&ignored(300, &[]), STARTING), fails);
    assert_eq!(said(&ignored(600, &[("FailedScheduling", 900)]), STARTING), fails, "it was older");
    assert_eq!(said(&ignored(600, &[("FailedScheduling", 60)]), STARTING), warns);
    let mut ageless = ignored(600, &[("FailedScheduling", 60)]);
    ageless.kube().starting_pods.iter_mut().flatten().for_each(|pod| pod.waiting_for = None);
    assert_eq!(said(&ageless, STARTING), fails);
    let mut other = ignored(600, &[]);
    let pods = other.kube().starting_pods.as_mut().unwrap();
    let mut younger = pods[0].clone();
    (younger.node, younger.waiting_for) = (Some("w-1".to_owned()), Some(Duration::from_secs(5)));
    pods.push(younger);
    assert_eq!(said(&other, STARTING), warns);
}

/// Builds a volume's attachment: its name, its node, and the driver that attaches it.
fn attached(volume: &str, node: &str, driver: &str, attached: bool) -> AttachedVolume {
    let [volume, node, driver] = [volume, node, driver].map(str::to_owned);
    AttachedVolume { node, driver, volume, attached }
}

const NO_DRIVER: &str =
    "AttachVolume.Attach failed for volume \"pvc-0\" : CSINode w-1 does not contain driver driver.example.com";
const NOT_REGISTERED: &str = "MountVolume.SetUp failed for volume \"pvc-0\" : kubernetes.io/csi: mounter.SetUpAt failed to get \
CSI client: driver name driver.example.com not found in the list of registered CSI drivers";
const FAILS: &str = "AttachVolume.Attach failed for volume \"pvc-0\" : rpc error: code = DeadlineExceeded desc = no";
const TIMED_OUT: &str =
    "Unable to attach or mount volumes: unmounted volumes=[data]: timed out waiting for the condition";

/// Pods on w-1 with these owners that have been waiting for this many seconds with this event.
fn volumes(seconds: u64, message: &str, owners: &[&str]) -> Snapshot {
    let reason = if message.starts_with("AttachVolume") { "FailedAttachVolume" } else { "FailedMount" };
    let mut snapshot = waiting(seconds, &[]);
    let first = snapshot.kube().starting_pods.as_ref().unwrap()[0].clone();
    let pod = |(index, owner): (usize, &&str)| StartingPod {
        name: format!("db-{index}"),
        owner: (*owner).to_owned(),
        ..first.clone()
    };
    let pods: Vec<_> = owners.iter().enumerate().map(pod).collect();
    let told = |pod: &StartingPod| PodEvent { pod: pod.name.clone(), message: message.to_owned(), ..event(reason, 5) };
    snapshot.kube().pod_events = Ok(pods.iter().map(told).collect());
    snapshot.kube().starting_pods = Ok(pods);
    snapshot
}

const CANNOT_ATTACH: [&str; 1] = ["fail node-cannot-attach w-1"];

#[test]
fn pods_that_wait_for_a_driver_that_has_not_registered_are_the_nodes() {
    for message in [NO_DRIVER, NOT_REGISTERED] {
        assert_eq!(said(&volumes(300, message, &["db", "db"]), STARTING), CANNOT_ATTACH, "{message}");
        assert_eq!(said(&volumes(299, message, &["db", "db"]), STARTING), FINE);
        assert_eq!(said(&volumes(4000, message, &["db"]), STARTING), FINE, "one pod's own");
    }
    let of = |message: &str, drivers: &[&str]| {
        let mut snapshot = volumes(300, message, &["db", "db"]);
        let drivers = drivers.iter().map(|&it| it.to_owned()).collect();
        let other = CsiNode { name: "cp-1".to_owned(), drivers: vec!["driver.example.com".to_owned()] };
        snapshot.kube().csi_nodes = Ok(vec![other, CsiNode { name: "w-1".to_owned(), drivers }]);
        said(&snapshot, STARTING)
    };
    assert_eq!(of(NO_DRIVER, &[]), CANNOT_ATTACH);
    assert_eq!(of(NO_DRIVER, &["driver.example.com"]), FINE, "it has registered since");
    assert_eq!(of(NOT_REGISTERED, &["driver.example.com"]), CANNOT_ATTACH, "the kubelet knows");
    // The time of waiting is unknown.
    let mut ageless = volumes(300, NO_DRIVER, &["db", "db"]);
    ageless.kube().starting_pods.iter_mut().flatten().for_each(|pod| pod.waiting_for = None);
    assert_eq!(said(&ageless, STARTING), FINE);
    let verdict = judge(&volumes(300, NO_DRIVER, &["db", "db"]), STARTING);
    let observed = &verdict.problems().next().unwrap().1.observed;
    assert!(
        observed.starts_with("pods without their volumes: default/db-0, default/db-1; default/db-0 has"),
        "{observed}"
    );
}

#[test]
fn a_driver_that_attaches_elsewhere_and_not_here_is_the_nodes() {
    let of = |known: Vec<AttachedVolume>, change: &dyn Fn(&mut Snapshot)| {
        let mut snapshot = volumes(300, FAILS, &["db", "db"]);
        snapshot.kube().attached_volumes = Ok(known);
        change(&mut snapshot);
        said(&snapshot, STARTING)
    };
    let here = attached("pvc-0", "w-1", "a", false);
    let elsewhere = attached("pvc-7", "cp-2", "a", true);
    assert_eq!(of(vec![here.clone(), elsewhere.clone()], &|_| {}), CANNOT_ATTACH);
    for other in [
        attached("pvc-7", "cp-2", "b", true),
        attached("pvc-7", "cp-2", "a", false),
        attached("pvc-7", "w-1", "a", true),
        attached("pvc-7", "cp-9", "a", true),
    ] {
        assert_eq!(of(vec![here.clone(), other.clone()], &|_| {}), FINE, "{other:?}");
    }
    assert_eq!(of(vec![elsewhere.clone()], &|_| {}), FINE, "nothing tells the driver");
    let registered = |drivers: &'static [&'static str]| {
        move |snapshot: &mut Snapshot| {
            let drivers = drivers.iter().map(|&it| it.to_owned()).collect();
            snapshot.kube().csi_nodes = Ok(vec![CsiNode { name: "w-1".to_owned(), drivers }]);
        }
    };
    assert_eq!(of(vec![here.clone()], &registered(&[])), CANNOT_ATTACH);
    assert_eq!(of(vec![here], &registered(&["a"])), FINE);
}

#[test]
fn pods_of_several_workloads_that_wait_for_volumes_are_the_nodes() {
    let two = ["db", "mail"];
    for message in [FAILS, TIMED_OUT] {
        assert_eq!(said(&volumes(300, message, &two), STARTING), CANNOT_ATTACH, "{message}");
        assert_eq!(said(&volumes(300, message, &["db", "db", "db"]), STARTING), FINE, "their own");
    }
    for message in [
        "Multi-Attach error for volume \"pvc-0\" Volume is already used by pod(s) db-0",
        "AttachVolume.Attach failed for volume \"pvc-0\" : rpc error: code = NotFound desc = volume not found",
        "MountVolume.SetUp failed for volume \"config\" : secret \"config\" not found",
    ] {
        assert_eq!(said(&volumes(300, message, &two), STARTING), FINE, "{message}");
    }
    let changed = |change: &dyn Fn(&mut Snapshot)| {
        let mut snapshot = volumes(300, FAILS, &two);
        change(&mut snapshot);
        said(&snapshot, STARTING)
    };
    let storage = |snapshot: &mut Snapshot| {
        snapshot.kube().starting_pods.iter_mut().flatten().for_each(|pod| pod.mounts_storage = false);
    };
    assert_eq!(changed(&storage), FINE, "made from objects of the API");
    let elsewhere = |snapshot: &mut Snapshot| {
        snapshot.kube().starting_pods.as_mut().unwrap()[1].node = Some("cp-1".to_owned());
    };
    assert_eq!(changed(&elsewhere), FINE, "each is alone");
    let guest = |snapshot: &mut Snapshot| snapshot.node_mut("w-1").is_talos = false;
    assert_eq!(changed(&guest), FINE);
    // An event that shows more than a timeout decides, regardless of its age. An event about a Secret or ConfigMap is
    // the pod's own fault.
    let more = |reason: &str, message: &str, at: u64| {
        let told = PodEvent { pod: "db-1".to_owned(), message: message.to_owned(), ..event(reason, at) };
        changed(&|snapshot| snapshot.kube().pod_events.as_mut().unwrap().push(told.clone()))
    };
    assert_eq!(more("FailedMount", TIMED_OUT, 1), CANNOT_ATTACH);
    assert_eq!(more("FailedMount", "MountVolume.SetUp failed for volume \"c\" : configmap \"c\" not found", 1), FINE);
    // The volumes have become available since.
    assert_eq!(more("FailedCreatePodSandBox", "no network", 1), ["fail pods-cannot-start w-1"]);
    // The event belongs to an earlier pod with this name.
    let earlier = |snapshot: &mut Snapshot| {
        snapshot.kube().pod_events.as_mut().unwrap()[1].uid = "b".to_owned();
    };
    assert_eq!(changed(&earlier), ["error pods-cannot-start w-1"]);
}

#[test]
fn what_is_asked_of_drivers_only_shows_whose_matter_it_is() {
    for kind in [GapKind::Forbidden, GapKind::TimedOut, GapKind::NotAsked] {
        for (message, expected) in [(NO_DRIVER, &CANNOT_ATTACH[..]), (FAILS, &FINE)] {
            let mut snapshot = volumes(300, message, &["db", "db"]);
            (snapshot.kube().csi_nodes, snapshot.kube().attached_volumes) = (no(kind), no(kind));
            assert_eq!(said(&snapshot, STARTING), expected, "{kind:?} {message}");
        }
    }
}

/// Pods on w-1, spread over this many workloads, that wait for an image which runs elsewhere.
fn pulling(count: usize, owners: usize, change: impl Fn(&mut PullingPod)) -> Vec<String> {
    let mut snapshot = healthy();
    let pod = |index: usize| PullingPod {
        namespace: "default".to_owned(),
        name: format!("web-{index}"),
        node: "w-1".to_owned(),
        owner: format!("web-{}", index % owners),
        image: "example.com/web:v1".to_owned(),
        waiting_for: Some(Duration::from_secs(300)),
        says: "ImagePullBackOff".to_owned(),
        runs_on: Some("cp-1".to_owned()),
    };
    snapshot.kube().pulling_pods = (0..count).map(pod).collect();
    snapshot.kube().pulling_pods.iter_mut().for_each(change);
    said(&snapshot, STARTING)
}

#[test]
fn images_that_run_elsewhere_and_do_not_arrive_are_a_warning() {
    assert_eq!(pulling(5, 2, |_| {}), ["warn node-cannot-pull w-1"]);
    assert_eq!(pulling(5, 1, |_| {}), FINE, "one workload's own");
    assert_eq!(pulling(4, 2, |_| {}), FINE);
    assert_eq!(pulling(5, 2, |pod| pod.runs_on = None), FINE, "nobody has it");
    assert_eq!(pulling(5, 2, |pod| pod.waiting_for = Some(Duration::from_secs(299))), FINE);
    assert_eq!(pulling(5, 2, |pod| pod.waiting_for = None), FINE);
    let alternate = |pod: &mut PullingPod| {
        if pod.name.ends_with(['0', '2']) {
            pod.node = "cp-2".to_owned();
        }
    };
    assert_eq!(pulling(5, 2, alternate), FINE, "on two nodes");
}

/// Returns the pods that the check leaves out in this snapshot.
fn left_out(snapshot: &Snapshot) -> Vec<String> {
    judge(snapshot, STARTING).left_out
}

#[test]
fn pods_that_are_nobodys_matter_are_named() {
    assert_eq!(left_out(&healthy()), [""; 0]);
    let own = "pods that wait for a volume, a device, a Secret or an image of their own: default/web-1";
    assert_eq!(left_out(&waiting(4000, &[("FailedMount", 5)])), [own]);
    assert_eq!(left_out(&waiting(59, &[("FailedMount", 5)])), [""; 0], "it may still come");
    assert_eq!(left_out(&waiting(4000, &[("FailedCreatePodSandBox", 5)])), [""; 0], "it is a problem");
    assert_eq!(left_out(&volumes(300, FAILS, &["db", "mail"])), [""; 0]);
    assert_eq!(left_out(&volumes(300, FAILS, &["db", "db"])).len(), 1);
    let mut unplaced = healthy();
    let pod = |namespace: &str, name: &str, seconds: Option<u64>| UnplacedPod {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        waiting_for: seconds.map(Duration::from_secs),
        why: "Unschedulable".to_owned(),
    };
    unplaced.kube().unplaced_pods = vec![
        pod("shop", "web-1", Some(300)),
        pod("shop", "web-2", Some(299)),
        pod("shop", "web-3", None),
        pod("kube-system", "dns", Some(300)),
    ];
    assert_eq!(left_out(&unplaced), ["pods without a node: shop/web-1 (Unschedulable)"]);
    assert_eq!(said(&unplaced, STARTING), FINE);
}
