use super::broken::means_broken;
use super::part::{Condition, Part, StaticPod};
use super::{Causes, explain};
use crate::assess::components::Component;
use crate::checks::Check;
use crate::model::{CheckId, Reason, Severity, Verdict};
use crate::snapshot::{Gap, GapKind, Snapshot};
use crate::testing::fixture::{healthy, mount, verdicts};

/// Parts that no other part needs; every other part is needed by one of them.
fn last() -> Vec<Part> {
    let mut last = vec![
        Part::ServerAccess,
        Part::TalosEndpoint,
        Part::Boot,
        Part::Stated,
        Part::Peers,
        Part::Agreement,
        Part::Space,
        Part::Lag,
        Part::ApiServerItself,
        Part::ApiCertificate,
        Part::KubePrism,
        Part::Sources,
        Part::KubeProxy,
        Part::Unplaced,
        Part::Workload,
        Part::Webhook,
        Part::AggregatedApi,
        Part::UpgradeQuorum,
        Part::OtherServer,
        Part::OtherComponent,
        Part::Drain,
        Part::StaticPod(StaticPod::Etcd),
        Part::StaticPod(StaticPod::Own),
    ];
    last.extend(Component::ALL.map(|component| Part::StaticPod(StaticPod::Component(component))));
    last.extend(
        [
            Condition::Services,
            Condition::Time,
            Condition::Network,
            Condition::StaticPods,
            Condition::NodeReady,
            Condition::Other,
        ]
        .map(Part::Condition),
    );
    last
}

/// No part needs itself, directly or indirectly, so causes have one direction.
#[test]
fn needs_form_no_circle() {
    fn visit(part: Part, path: &mut Vec<Part>) {
        assert!(!path.contains(&part), "{part:?} needs itself: {path:?}");
        path.push(part);
        for next in part.needs() {
            visit(*next, path);
        }
        path.pop();
    }
    for part in last() {
        visit(part, &mut Vec::new());
    }
}

/// Returns the causes of each problem of a round, named by check and target.
fn causes(snapshot: &Snapshot) -> Vec<(String, Vec<String>)> {
    let verdicts = verdicts(snapshot);
    let name = |check: &Check, verdict: &Verdict| {
        let names = verdict.problems().map(|(target, _)| format!("{} {}", check.id, target.name));
        names.collect::<Vec<_>>()
    };
    let names: Vec<String> = verdicts.iter().flat_map(|(check, verdict)| name(check, verdict)).collect();
    let causes = Causes::of(snapshot, &verdicts);
    let of = |at: usize| causes.behind(at).iter().map(|cause| names[*cause].clone()).collect();
    (0..names.len()).map(|at| (names[at].clone(), of(at))).collect()
}

fn behind(snapshot: &Snapshot, of: &str) -> Vec<String> {
    causes(snapshot).into_iter().find(|(name, _)| name == of).unwrap_or_else(|| panic!("no problem {of}")).1
}

/// Whichever server the endpoint leads to, the expired certificate is that server's own.
#[test]
fn the_endpoint_shows_the_certificate_of_a_server() {
    let expired = || Err(Gap::new(GapKind::PeerCertificateExpired, "certificate expired"));
    let mut snapshot = healthy();
    snapshot.kube().endpoint = expired();
    assert_eq!(behind(&snapshot, "k8s.api.endpoint https://k8s.example:6443"), [""; 0]);
    snapshot.kube().servers.insert("cp-2".to_owned(), expired());
    assert_eq!(behind(&snapshot, "k8s.api.endpoint https://k8s.example:6443"), ["k8s.api.servers cp-2"]);
    // A server that fails in a different way is unrelated.
    snapshot.kube().servers.insert("cp-2".to_owned(), Err(Gap::new(GapKind::TimedOut, "no answer")));
    assert_eq!(behind(&snapshot, "k8s.api.endpoint https://k8s.example:6443"), [""; 0]);
}

/// A booting worker whose cri and kubelet wait, each with this event.
fn boots(cri: &str, kubelet: &str) -> Snapshot {
    let mut snapshot = healthy();
    "booting".clone_into(&mut snapshot.machine_status_mut("w-1").stage);
    for (id, event) in [("cri", cri), ("kubelet", kubelet)] {
        let service = snapshot.service_mut("w-1", id);
        (service.state, service.healthy) = ("Waiting".to_owned(), Some(false));
        event.clone_into(&mut service.last_event.as_mut().unwrap().message);
    }
    snapshot
}

#[test]
fn services_follow_from_the_volume_that_they_wait_for() {
    let mut snapshot = boots(
        "Waiting for volume \"/var/lib\" to be mounted",
        "Waiting for service \"cri\" to be \"up\", time sync, network",
    );
    let volumes = snapshot.talos_of("w-1").volumes.as_mut().unwrap();
    let volume = volumes.iter_mut().find(|volume| volume.id == "EPHEMERAL").unwrap();
    (volume.phase, volume.error) = ("failed".to_owned(), "encryption key rejected".to_owned());
    assert_eq!(behind(&snapshot, "talos.nodes.disk w-1"), [""; 0]);
    assert_eq!(behind(&snapshot, "talos.nodes.services w-1"), ["talos.nodes.disk w-1"]);
    assert_eq!(behind(&snapshot, "talos.nodes.kubelet w-1"), ["talos.nodes.services w-1"]);
    // A volume of the user's own does not delay any service.
    let volumes = snapshot.talos_of("w-1").volumes.as_mut().unwrap();
    let volume = volumes.iter_mut().find(|volume| volume.id == "EPHEMERAL").unwrap();
    "ready".clone_into(&mut volume.phase);
    let mut own = volume.clone();
    (own.id, own.phase) = ("u-data".to_owned(), "failed".to_owned());
    volumes.push(own);
    assert_eq!(behind(&snapshot, "talos.nodes.services w-1"), [""; 0]);
}

#[test]
fn a_kubelet_follows_from_the_network_only_if_it_waits_for_it() {
    let without_network = |event: &str| {
        let mut snapshot = boots("Service is up", event);
        let cri = snapshot.service_mut("w-1", "cri");
        (cri.state, cri.healthy) = ("Running".to_owned(), Some(true));
        snapshot.talos_of("w-1").network_status.as_mut().unwrap().as_mut().unwrap().connectivity_ready = false;
        behind(&snapshot, "talos.nodes.kubelet w-1")
    };
    assert_eq!(without_network("Waiting for network"), ["talos.nodes.network w-1"]);
    assert_eq!(without_network("Waiting for time sync"), [""; 0]);
    for exits in [
        "Error running Containerd(kubelet), going to restart forever: task \"kubelet\" failed: exit code 1",
        "Runner Containerd(kubelet) exited without error, going to restart it",
    ] {
        assert_eq!(without_network(exits), [""; 0], "it has started, and exits by itself");
    }
}

#[test]
fn what_containerd_runs_follows_from_it_and_from_the_room_in_var() {
    let crashed = || {
        let mut snapshot = healthy();
        let kubelet = snapshot.service_mut("w-1", "kubelet");
        (kubelet.state, kubelet.healthy) = ("Waiting".to_owned(), Some(false));
        "Error running Containerd(kubelet), going to restart forever: connection refused"
            .clone_into(&mut kubelet.last_event.as_mut().unwrap().message);
        snapshot
    };
    assert_eq!(behind(&crashed(), "talos.nodes.kubelet w-1"), [""; 0]);
    let mut without_cri = crashed();
    let cri = without_cri.service_mut("w-1", "cri");
    (cri.state, cri.healthy) = ("Failed".to_owned(), Some(false));
    assert_eq!(behind(&without_cri, "talos.nodes.kubelet w-1"), ["talos.nodes.services w-1"]);
    let full = |path: &str| {
        let mut snapshot = crashed();
        let free = if path == "/var" { 0 } else { 20 << 30 };
        *snapshot.talos_of("w-1").mounts.as_mut().unwrap() = vec![mount("/var", free), mount(path, 0)];
        behind(&snapshot, "talos.nodes.kubelet w-1")
    };
    assert_eq!(full("/var"), ["talos.nodes.disk w-1"]);
    assert_eq!(full("/var/log"), [""; 0], "a full log stops nothing");
}

/// Problems do not propagate through parts that were seen to work, nor from one machine to another.
#[test]
fn one_machine_does_not_explain_another() {
    let mut snapshot = healthy();
    snapshot.service_mut("cp-3", "kubelet").healthy = Some(false);
    snapshot.kube_node_mut("w-1").conditions.clear();
    assert_eq!(behind(&snapshot, "k8s.nodes.ready w-1"), [""; 0]);
    snapshot.kube_node_mut("cp-3").conditions.clear();
    assert_eq!(behind(&snapshot, "k8s.nodes.ready cp-3"), ["talos.nodes.kubelet cp-3"]);
}

/// A warning must not explain a failure, because a reader who filters for failures would not find the cause.
#[test]
fn a_failure_is_not_explained_by_a_warning() {
    let mut snapshot = healthy();
    snapshot.service_mut("w-1", "kubelet").healthy = Some(false);
    snapshot.kube_node_mut("w-1").conditions.clear();
    let mut verdicts = verdicts(&snapshot);
    let by = |verdicts: &[(&'static Check, Verdict)]| {
        let ready = verdicts.iter().find(|(check, _)| check.id == CheckId::K8sNodesReady).unwrap();
        ready.1.problems().next().unwrap().1.explained_by
    };
    assert_eq!(by(&verdicts), Some(CheckId::TalosNodesKubelet));
    let kubelet = verdicts.iter_mut().filter(|(check, _)| check.id == CheckId::TalosNodesKubelet);
    kubelet.flat_map(|(_, verdict)| verdict.problems_mut()).for_each(|problem| problem.severity = Severity::Warn);
    explain(&snapshot, &mut verdicts);
    assert_eq!(by(&verdicts), None);
}

/// Too small, nearly full, skewed, mixed: none of these stops another part.
#[test]
fn properties_explain_nothing() {
    for reason in [
        Reason::MemoryTooSmall,
        Reason::DiskTooSmall,
        Reason::DiskNearlyFull,
        Reason::SpaceNearlyFull,
        Reason::VersionsMixed,
        Reason::VersionSkew,
        Reason::CertificateExpiresSoon,
        Reason::Cordoned,
    ] {
        assert!(!means_broken(reason), "{}", reason.code());
    }
}
