use std::time::Duration;

use crate::checks::kubernetes::tests::{OF_STATIC_PODS, judge, lines, no, roots, said, status};
use crate::model::Status;
use crate::snapshot::{ContainerState, GapKind, Observed, Pod, PodState, Snapshot, StaticPodStatus, UserPod};
use crate::testing::fixture::{CONTROL_PLANES, ago, healthy, running_pod};

/// State of a scheduler with a wrong flag, as Talos reported it.
pub(super) fn crashing(container: &str) -> PodState {
    PodState {
        phase: "Running".to_owned(),
        ready: Some(false),
        containers: vec![ContainerState {
            name: container.to_owned(),
            restarts: 2,
            waiting_reason: Some("CrashLoopBackOff".to_owned()),
            waiting_message: Some("back-off 20s restarting failed container".to_owned()),
            exit_code: Some(1),
            ..ContainerState::default()
        }],
        message: String::new(),
    }
}

pub(super) fn status_of<'a>(snapshot: &'a mut Snapshot, node: &str, pod: &str) -> &'a mut PodState {
    let statuses = snapshot.talos_of(node).static_pod_statuses.as_mut().unwrap();
    &mut statuses.iter_mut().find(|status| status.name == pod).unwrap().state
}

#[test]
fn a_crashing_scheduler_is_one_problem() {
    let mut snapshot = healthy();
    *status_of(&mut snapshot, "cp-3", "kube-scheduler-cp-3") = crashing("kube-scheduler");
    assert_eq!(roots(&snapshot), ["k8s.controlplane.scheduler crash-looping cp-3"]);
    assert_eq!(
        said(&snapshot, "k8s.staticpods.running"),
        ["fail crash-looping kube-scheduler-cp-3 < k8s.controlplane.scheduler"]
    );
    let verdict = judge(&snapshot, "k8s.controlplane.scheduler");
    let observed = &verdict.problems().next().unwrap().1.observed;
    assert!(observed.contains("CrashLoopBackOff, exit code 1, 2 restarts"), "{observed}");
    assert_eq!(lines(&snapshot, "k8s.controlplane.scheduler"), Vec::<String>::new());
}

#[test]
fn neither_phase_nor_absence_of_conditions_is_health() {
    let mut snapshot = healthy();
    let pending = PodState { phase: "Pending".to_owned(), ..PodState::default() };
    let silent = PodState { phase: "Running".to_owned(), ..PodState::default() };
    for state in [pending, silent, PodState::default()] {
        *status_of(&mut snapshot, "cp-3", "kube-apiserver-cp-3") = state;
        assert_eq!(said(&snapshot, "k8s.controlplane.apiserver"), ["fail component-not-ready cp-3"]);
    }
    // The other components reach any API server (KubePrism), so a crash on a node with a broken API server is a root
    // problem of its own.
    *status_of(&mut snapshot, "cp-3", "kube-scheduler-cp-3") = crashing("kube-scheduler");
    assert_eq!(said(&snapshot, "k8s.controlplane.scheduler"), ["fail crash-looping cp-3"]);
}

#[test]
fn a_component_may_be_missing_disabled_or_not_rendered() {
    let id = "k8s.controlplane.scheduler";
    let without = |snapshot: &mut Snapshot| {
        let statuses = snapshot.talos_of("cp-2").static_pod_statuses.as_mut().unwrap();
        statuses.retain(|status| status.name != "kube-scheduler-cp-2");
    };
    let mut snapshot = healthy();
    without(&mut snapshot);
    assert_eq!(said(&snapshot, id), ["fail component-missing cp-2"]);
    assert_eq!(
        said(&snapshot, "k8s.staticpods.running"),
        ["fail static-pod-missing kube-scheduler-cp-2 < k8s.controlplane.scheduler"]
    );
    snapshot.talos_of("cp-2").static_pods.as_mut().unwrap().retain(|id| id != "kube-scheduler");
    assert_eq!(said(&snapshot, id), ["fail component-missing cp-2 < k8s.staticpods.rendered"]);
    assert_eq!(said(&snapshot, "k8s.staticpods.rendered"), ["fail static-pod-not-rendered cp-2"]);
    snapshot.talos_of("cp-2").scheduler_enabled = Ok(Some(false));
    for id in [id, "k8s.staticpods.rendered", "k8s.staticpods.running"] {
        assert_eq!(status(&snapshot, id), Status::Pass, "{id}");
    }
}

#[test]
fn mirror_pods_stand_in_only_where_talos_does_not_tell() {
    let id = "k8s.controlplane.scheduler";
    let mut snapshot = healthy();
    snapshot.talos_of("cp-2").static_pod_statuses = no(GapKind::Unsupported);
    assert_eq!(status(&snapshot, id), Status::Pass);
    assert_eq!(said(&snapshot, "k8s.staticpods.running"), ["error not-supported-by-version cp-2 !"]);
    snapshot.kube().pods = no(GapKind::Forbidden);
    let first = "k8s.controlplane.apiserver";
    assert_eq!(said(&snapshot, first), ["error not-supported-by-version cp-2 !"]);
    assert_eq!(said(&snapshot, id), [format!("error not-supported-by-version cp-2 < {first} !")]);
}

fn mirror<'a>(snapshot: &'a mut Snapshot, pod: &str) -> &'a mut PodState {
    let pods = snapshot.kube().pods.as_mut().unwrap();
    &mut pods.iter_mut().find(|it| it.mirror && it.name == pod).unwrap().state
}

/// Talos or Kubernetes may keep reporting a kubelet's earlier status.
#[test]
fn of_two_words_on_one_pod_the_worse_counts() {
    let id = "k8s.controlplane.scheduler";
    let both = |snapshot: &Snapshot| [said(snapshot, id), said(snapshot, "k8s.staticpods.running")].concat();
    let fails = ["fail crash-looping cp-3", "fail crash-looping kube-scheduler-cp-3 < k8s.controlplane.scheduler"];
    let mut frozen = healthy();
    *mirror(&mut frozen, "kube-scheduler-cp-3") = crashing("kube-scheduler");
    assert_eq!(both(&frozen), fails);
    *status_of(&mut frozen, "cp-3", "kube-scheduler-cp-3") = crashing("kube-scheduler");
    assert_eq!(both(&frozen), fails, "both say so");
    // Once Kubernetes no longer hears from the kubelet, its status is the older one, and the node fails for that.
    let mut silent = healthy();
    *mirror(&mut silent, "kube-scheduler-cp-3") = crashing("kube-scheduler");
    let leases = snapshot_leases(&mut silent);
    leases.by_name.get_mut("cp-3").unwrap().renewed = Some(ago(90));
    assert_eq!(both(&silent), [""; 0]);
    assert_eq!(said(&silent, "k8s.nodes.ready"), ["fail node-lease-stale cp-3"]);
    // The silence of the kubelet has to be observed.
    silent.kube().node_leases = no(GapKind::Forbidden);
    assert_eq!(both(&silent), fails);
    // If Kubernetes is not queried, it has no status.
    assert_eq!(both(&healthy().without_kubernetes()), [""; 0]);
    // Users' static pods have mirror pods, too.
    let mut own = healthy();
    own.talos_of("cp-1").static_pods.as_mut().unwrap().push("kube-system-cache".to_owned());
    let statuses = own.talos_of("cp-1").static_pod_statuses.as_mut().unwrap();
    let state = statuses[0].state.clone();
    statuses.push(StaticPodStatus { namespace: "kube-system".to_owned(), name: "cache-cp-1".to_owned(), state });
    let pods = own.kube().pods.as_mut().unwrap();
    let shown = Pod { name: "cache-cp-1".to_owned(), state: crashing("cache"), ..pods[0].clone() };
    pods.push(shown);
    assert_eq!(said(&own, "k8s.staticpods.running"), ["fail crash-looping cache-cp-1"]);
}

fn snapshot_leases(snapshot: &mut Snapshot) -> &mut crate::snapshot::Leases {
    snapshot.kube().node_leases.as_mut().unwrap()
}

/// A mirror pod can replace the status as long as its kubelet is alive.
#[test]
fn a_mirror_pod_alone_is_as_old_as_the_lease() {
    let id = "k8s.controlplane.scheduler";
    let mut snapshot = healthy();
    snapshot.talos_of("cp-2").static_pod_statuses = no(GapKind::Unsupported);
    assert_eq!(status(&snapshot, id), Status::Pass);
    *mirror(&mut snapshot, "kube-scheduler-cp-2") = crashing("kube-scheduler");
    assert_eq!(said(&snapshot, id), ["fail crash-looping cp-2"]);
    let mut silent = healthy();
    silent.talos_of("cp-2").static_pod_statuses = no(GapKind::Unsupported);
    snapshot_leases(&mut silent).by_name.get_mut("cp-2").unwrap().renewed = Some(ago(90));
    assert_eq!(said(&silent, id), ["blocked cp-2 < k8s.nodes.ready"]);
}

#[test]
fn the_list_of_pods_is_evidence_like_any_other() {
    let checks = ["k8s.controlplane.apiserver", "k8s.controlplane.scheduler", "k8s.controlplane.leases"];
    for (kind, reason) in [
        (GapKind::Throttled, "throttled"),
        (GapKind::ServerError, "no-answer"),
        (GapKind::Malformed, "unreadable-answer"),
        (GapKind::TimedOut, "timed-out"),
    ] {
        let mut snapshot = healthy();
        snapshot.kube().pods = no(kind);
        assert_eq!(roots(&snapshot), [format!("k8s.controlplane.apiserver {reason} cluster")]);
        for id in checks {
            let see = if id == "k8s.controlplane.apiserver" { "" } else { " < k8s.controlplane.apiserver" };
            let expected = format!("error {reason} cluster{see}");
            assert_eq!(said(&snapshot, id), [expected], "{id}");
        }
        // The image contains the version even without a mirror pod, but not if it is only a digest.
        let id = "k8s.controlplane.versions";
        assert_eq!(status(&snapshot, id), Status::Pass);
        let status = status_of(&mut snapshot, "cp-2", "kube-scheduler-cp-2");
        status.containers[0].image = "sha256:abc".to_owned();
        assert_eq!(said(&snapshot, id), [format!("error {reason} kube-scheduler-cp-2")]);
    }
    let mut empty = healthy();
    empty.kube().pods = Ok(Vec::new());
    assert_eq!(roots(&empty), ["k8s.controlplane.apiserver no-answer cluster"]);
    // A complete outage is reported once.
    let mut down = healthy();
    (down.kube().pods, down.kube().endpoint) = (no(GapKind::ConnectionRefused), no(GapKind::ConnectionRefused));
    assert_eq!(said(&down, "k8s.staticpods.running"), ["blocked cluster < k8s.api.endpoint"]);
}

#[test]
fn all_statuses_missing_is_undetermined() {
    let mut snapshot = healthy();
    snapshot.talos_of("cp-2").static_pod_statuses = Ok(Vec::new());
    assert_eq!(said(&snapshot, "k8s.staticpods.running"), ["error status-stale cp-2"]);
    assert_eq!(roots(&snapshot), ["k8s.staticpods.running status-stale cp-2"]);
    snapshot.kube().pods = no(GapKind::TimedOut);
    assert_eq!(said(&snapshot, "k8s.controlplane.apiserver"), ["error status-stale cp-2 < k8s.staticpods.running"]);
}

#[test]
fn before_the_bootstrap_everything_waits_for_etcd() {
    let mut snapshot = healthy().without_kubernetes();
    for name in CONTROL_PLANES {
        let etcd = snapshot.service_mut(name, "etcd");
        (etcd.state, etcd.healthy) = ("Preparing".to_owned(), None);
        let node = snapshot.talos_of(name);
        (node.static_pods, node.static_pod_statuses) = (Ok(Vec::new()), Ok(Vec::new()));
        (node.config_statuses, node.scheduler_enabled) = (Ok(Vec::new()), Ok(None));
    }
    assert_eq!(said(&snapshot, "k8s.staticpods.rendered")[0], "fail static-pod-not-rendered cp-1 < etcd.service");
    assert_eq!(
        said(&snapshot, "k8s.controlplane.scheduler")[0],
        "fail component-missing cp-1 < k8s.staticpods.rendered"
    );
    assert_eq!(roots(&snapshot), Vec::<String>::new());
}

#[test]
fn pods_of_the_users_own_count() {
    let id = "k8s.staticpods.running";
    let mut snapshot = healthy();
    let node = snapshot.talos_of("w-1");
    node.static_pods = Ok(vec!["default-cache".to_owned()]);
    let state = crashing("cache");
    snapshot.talos_of("w-1").static_pod_statuses =
        Ok(vec![StaticPodStatus { namespace: "default".to_owned(), name: "cache-w-1".to_owned(), state }]);
    assert_eq!(said(&snapshot, id), ["fail crash-looping cache-w-1"]);
}

/// A static pod with the name of a component, in another namespace.
#[test]
fn a_pod_of_the_users_own_stands_for_no_component() {
    let (id, scheduler) = ("k8s.staticpods.running", "k8s.controlplane.scheduler");
    let namesake = |state: PodState| {
        let mut snapshot = healthy().without_kubernetes();
        let node = snapshot.talos_of("cp-2");
        node.static_pods.as_mut().unwrap().push("default-kube-scheduler".to_owned());
        let name = "kube-scheduler-cp-2".to_owned();
        let own = StaticPodStatus { namespace: "default".to_owned(), name, state };
        node.static_pod_statuses.as_mut().unwrap().insert(0, own);
        snapshot
    };
    let well = healthy().talos_of("cp-2").static_pod_statuses.as_ref().unwrap()[0].state.clone();
    assert_eq!([said(&namesake(well.clone()), id), said(&namesake(well.clone()), scheduler)], [[""; 0]; 2]);
    // Its own problem is not explained by the component's.
    let crashes = namesake(crashing("own"));
    assert_eq!(said(&crashes, id), ["fail crash-looping kube-scheduler-cp-2"]);
    assert_eq!(said(&crashes, scheduler), [""; 0]);
    let mut gone = namesake(well.clone());
    let statuses = gone.talos_of("cp-2").static_pod_statuses.as_mut().unwrap();
    statuses.retain(|it| it.namespace == "default" || it.name != "kube-scheduler-cp-2");
    assert_eq!(said(&gone, scheduler), ["fail component-missing cp-2"]);
    let missing = "fail static-pod-missing kube-scheduler-cp-2 < k8s.controlplane.scheduler";
    assert_eq!(said(&gone, id), [missing]);
    let mut sick = namesake(well);
    let statuses = sick.talos_of("cp-2").static_pod_statuses.as_mut().unwrap();
    let it = statuses.iter_mut().find(|it| it.namespace != "default" && it.name == "kube-scheduler-cp-2");
    it.unwrap().state = crashing("kube-scheduler");
    assert_eq!(said(&sick, scheduler), ["fail crash-looping cp-2"]);
}

/// The lease distinguishes a disabled component from a missing one when Talos is not queried.
#[test]
fn without_its_lease_nobody_knows_whether_a_component_is_missing() {
    let id = "k8s.controlplane.scheduler";
    let lacks = |nodes: &[&str]| {
        let mut snapshot = healthy().without_talos();
        let names: Vec<_> = nodes.iter().map(|node| format!("kube-scheduler-{node}")).collect();
        snapshot.kube().pods.as_mut().unwrap().retain(|pod| !names.contains(&pod.name));
        snapshot
    };
    let blind = |mut snapshot: Snapshot| {
        snapshot.kube().system_leases = no(GapKind::TimedOut);
        snapshot
    };
    assert_eq!(said(&lacks(&["cp-2"]), id), ["warn component-missing cp-2"]);
    assert_eq!(said(&blind(lacks(&["cp-2"])), id), ["error timed-out cp-2"]);
    assert_eq!(
        said(&blind(lacks(&["cp-2"])), "k8s.staticpods.running"),
        ["error static-pod-missing kube-scheduler-cp-2 < k8s.controlplane.scheduler"]
    );
    // The component may run outside the cluster.
    assert_eq!(said(&blind(lacks(&CONTROL_PLANES)), id), CONTROL_PLANES.map(|node| format!("error timed-out {node}")));
    // An API server cannot run outside the cluster.
    let mut without = blind(lacks(&[]));
    without.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "kube-apiserver-cp-2");
    assert_eq!(said(&without, "k8s.controlplane.apiserver"), ["fail component-missing cp-2"]);
}

#[test]
fn without_its_configuration_nobody_knows_whether_a_component_is_missing() {
    let mut snapshot = healthy();
    let node = snapshot.talos_of("cp-2");
    node.scheduler_enabled = Ok(None);
    node.static_pods.as_mut().unwrap().retain(|id| id != "kube-scheduler");
    node.static_pod_statuses.as_mut().unwrap().retain(|status| status.name != "kube-scheduler-cp-2");
    assert_eq!(said(&snapshot, "k8s.controlplane.scheduler"), ["error no-answer cp-2"]);
    assert_eq!(said(&snapshot, "k8s.staticpods.rendered"), ["error no-answer cp-2"]);
    snapshot.talos_of("cp-2").scheduler_enabled = Ok(Some(true));
    assert_eq!(
        said(&snapshot, "k8s.controlplane.scheduler"),
        ["fail component-missing cp-2 < k8s.staticpods.rendered"]
    );
}

#[test]
fn a_pod_of_the_users_own_may_end() {
    let id = "k8s.staticpods.running";
    let ended = |phase: &str, exit_code| PodState {
        phase: phase.to_owned(),
        ready: Some(false),
        containers: vec![ContainerState { name: "job".to_owned(), exit_code, ..ContainerState::default() }],
        message: String::new(),
    };
    let of_users = |state: PodState| {
        let mut snapshot = healthy();
        snapshot.talos_of("cp-1").static_pods.as_mut().unwrap().push("default-job".to_owned());
        let statuses = snapshot.talos_of("cp-1").static_pod_statuses.as_mut().unwrap();
        statuses.push(StaticPodStatus { namespace: "default".to_owned(), name: "job-cp-1".to_owned(), state });
        snapshot
    };
    let done = of_users(ended("Succeeded", Some(0)));
    assert_eq!(status(&done, id), Status::Pass);
    assert_eq!(lines(&done, id).iter().filter(|line| *line == "job-cp-1: Succeeded").count(), 1);
    // Similar cases: the pod failed, it reports both states, it is still waiting, or it belongs to a component, which
    // never ends.
    for state in [ended("Failed", Some(1)), ended("Succeeded", Some(1)), ended("Pending", None)] {
        assert_eq!(said(&of_users(state), id), ["fail static-pod-failed job-cp-1"]);
    }
    let mut component = healthy();
    *status_of(&mut component, "cp-1", "kube-scheduler-cp-1") = ended("Succeeded", Some(0));
    assert_eq!(said(&component, "k8s.controlplane.scheduler"), ["fail component-not-ready cp-1"]);
    assert_eq!(said(&component, id), ["fail static-pod-failed kube-scheduler-cp-1 < k8s.controlplane.scheduler"]);
}

/// Talos 1.13 has a `StaticPod` but no `StaticPodStatus` on workers, even if the pod is healthy.
#[test]
fn on_workers_kubernetes_tells_of_static_pods() {
    let id = "k8s.staticpods.running";
    let mut snapshot = healthy();
    snapshot.talos_of("w-1").static_pods = Ok(vec!["kube-system-cache".to_owned()]);
    assert_eq!(said(&snapshot, id), ["fail static-pod-missing kube-system-cache-w-1"]);
    let pods = snapshot.kube().pods.as_mut().unwrap();
    let mut mirror = pods.iter().find(|pod| pod.mirror).unwrap().clone();
    (mirror.name, mirror.node) = ("cache-w-1".to_owned(), Some("w-1".to_owned()));
    pods.push(mirror);
    assert_eq!(status(&snapshot, id), Status::Pass, "{:?}", said(&snapshot, id));
    snapshot.kube().pods.as_mut().unwrap().last_mut().unwrap().state = crashing("cache");
    assert_eq!(said(&snapshot, id), ["fail crash-looping cache-w-1"]);
    // A pod that merely has the name is not the mirror pod.
    snapshot.kube().pods.as_mut().unwrap().last_mut().unwrap().mirror = false;
    assert_eq!(said(&snapshot, id), ["fail static-pod-missing kube-system-cache-w-1"]);
    snapshot.kube().pods = no(GapKind::TimedOut);
    assert_eq!(said(&snapshot, id), ["error timed-out w-1 < k8s.controlplane.leases"]);
    // A worker with a static pod that only control planes have.
    let mut snapshot = healthy();
    snapshot.talos_of("w-1").static_pods = Ok(vec!["kube-scheduler".to_owned()]);
    assert_eq!(said(&snapshot, id), ["fail static-pod-missing kube-scheduler-w-1"]);
    // Other namespaces are not read.
    let mut snapshot = healthy();
    snapshot.talos_of("w-1").static_pods = Ok(vec!["default-cache".to_owned()]);
    let shown = judge(&snapshot, id).findings.into_iter().find(|it| it.target.name == "default-cache-w-1");
    assert_eq!(shown.unwrap().outcome.status(), Status::Skip);
    // Without a kubelet, Kubernetes' status is outdated.
    snapshot.service_mut("w-1", "kubelet").healthy = Some(false);
    assert!(said(&snapshot, id).iter().any(|it| it == "blocked w-1 < talos.nodes.kubelet"));
}

#[test]
fn on_workers_pods_of_the_users_own_are_looked_for_one_by_one() {
    let id = "k8s.staticpods.running";
    let said_of = |answer: Observed<Option<Pod>>| {
        let mut snapshot = healthy();
        let node = snapshot.talos_of("w-1");
        node.static_pods = Ok(vec!["web-cache".to_owned()]);
        let pod = UserPod { id: "web-cache".to_owned(), namespace: "web".to_owned(), name: "cache".to_owned() };
        node.user_pods = vec![pod];
        snapshot.kube().user_pods.insert(("web".to_owned(), "cache-w-1".to_owned()), answer);
        let finding = judge(&snapshot, id).findings.into_iter().find(|it| it.target.name == "web-cache-w-1").unwrap();
        (finding.outcome.status(), said(&snapshot, id))
    };
    let mirror = |state: PodState| {
        let pod = healthy().kube().pods.iter().flatten().find(|pod| pod.mirror).unwrap().clone();
        let (namespace, name, node) = ("web".to_owned(), "cache-w-1".to_owned(), Some("w-1".to_owned()));
        Pod { namespace, name, node, state, ..pod }
    };
    assert_eq!(said_of(Ok(Some(mirror(running_pod("cache"))))).0, Status::Pass);
    assert_eq!(said_of(Ok(Some(mirror(crashing("cache"))))).1, ["fail crash-looping web-cache-w-1"]);
    // The pod does not exist, or it is a different pod with the same name.
    let missing = ["fail static-pod-missing web-cache-w-1"];
    assert_eq!(said_of(Ok(None)).1, missing);
    let healthy_mirror = || mirror(running_pod("cache"));
    assert_eq!(said_of(Ok(Some(Pod { mirror: false, ..healthy_mirror() }))).1, missing);
    assert_eq!(said_of(Ok(Some(Pod { node: Some("w-2".to_owned()), ..healthy_mirror() }))).1, missing);
    // Without permission the pod is skipped; any other missing answer is an error.
    assert_eq!(said_of(no(GapKind::Forbidden)).0, Status::Skip);
    for (kind, reason) in [(GapKind::TimedOut, "timed-out"), (GapKind::Throttled, "throttled")] {
        assert_eq!(said_of(no(kind)).1, [format!("error {reason} web-cache-w-1")]);
    }
}

#[test]
fn etcd_is_shown_beside_the_static_pods() {
    let mut snapshot = healthy();
    snapshot.service_mut("cp-2", "etcd").healthy = None;
    assert_eq!(said(&snapshot, "k8s.staticpods.running"), ["fail static-pod-failed etcd-cp-2 < etcd.service"]);
}

#[test]
fn without_talos_mirror_pods_are_judged() {
    let mut snapshot = healthy().without_talos();
    for id in ["k8s.controlplane.scheduler", "k8s.staticpods.running", "k8s.kube-proxy", "k8s.dns", "k8s.api.servers"] {
        assert_eq!(status(&snapshot, id), Status::Pass, "{id}: {:?}", judge(&snapshot, id));
    }
    for id in ["k8s.api.identity", "k8s.nodes.registered", "k8s.staticpods.rendered"] {
        assert_eq!(status(&snapshot, id), Status::Skip, "{id}");
    }
    snapshot.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "kube-scheduler-cp-2");
    assert_eq!(roots(&snapshot), ["k8s.controlplane.scheduler component-missing cp-2"]);
    // A control plane that runs elsewhere is not a fault.
    let mut hosted = healthy().only(&["w-1"]).without_talos();
    hosted.kube().servers.clear();
    for id in ["k8s.controlplane.scheduler", "k8s.staticpods.running", "k8s.api.servers"] {
        assert_eq!(status(&hosted, id), Status::Skip, "{id}");
    }
    hosted.kube().nodes = Ok(Vec::new());
    assert_eq!(said(&hosted, "k8s.controlplane.scheduler"), ["error no-answer cluster < etcd.quorum"]);
}

/// The last status from a dead kubelet's pods remains for a while.
#[test]
fn a_mirror_pod_is_as_old_as_the_lease_of_its_node() {
    let ids = OF_STATIC_PODS;
    let mut snapshot = healthy().without_talos();
    let lease = |snapshot: &mut Snapshot, seconds| {
        let leases = snapshot.kube().node_leases.as_mut().unwrap();
        leases.by_name.get_mut("cp-2").unwrap().renewed = Some(ago(seconds));
    };
    lease(&mut snapshot, 40);
    assert!(ids.iter().all(|id| status(&snapshot, id) == Status::Pass));
    lease(&mut snapshot, 41);
    for id in ids {
        let said = said(&snapshot, id);
        assert!(!said.is_empty() && said.iter().all(|it| it.contains("cp-2 < k8s.nodes.ready")), "{id}: {said:?}");
        assert_eq!(judge(&snapshot, id).resample_after, Some(Duration::from_secs(11)), "{id}");
    }
    snapshot.kube().node_leases = no(GapKind::Forbidden);
    assert!(ids.iter().all(|id| status(&snapshot, id) == Status::Blocked));
}

/// Neither an early boot nor an empty answer indicates a machine without Kubernetes.
#[test]
fn only_a_machine_that_tells_so_has_no_kubernetes() {
    let without = |version: &str, services: &[&str]| {
        let mut snapshot = healthy();
        let node = snapshot.talos_of("cp-3");
        node.nodename = Ok(None);
        node.contact.as_mut().unwrap().version.tag = version.to_owned();
        node.services.as_mut().unwrap().retain(|service| services.contains(&&*service.id));
        snapshot
    };
    for id in ["k8s.controlplane.scheduler", "k8s.staticpods.rendered", "k8s.staticpods.running"] {
        assert_eq!(said(&without("v1.14.0", &["machined", "apid", "etcd"]), id), [""; 0], "{id}");
        assert!(!said(&without("v1.14.0", &[]), id).is_empty() || id == "k8s.staticpods.rendered", "{id}");
    }
    for id in ["k8s.controlplane.scheduler", "k8s.staticpods.running"] {
        assert!(!said(&without("v1.13.0", &["machined", "apid", "etcd"]), id).is_empty(), "{id}");
    }
}
