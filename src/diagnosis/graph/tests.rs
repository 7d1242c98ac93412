use super::broken::means_broken;
use super::part::{Condition, Part, StaticPod};
use super::{Causes, explain};
use crate::assess::components::Component;
use crate::checks::{Check, problems};
use crate::model::{CheckId, Reason, Severity, Verdict};
use crate::snapshot::{Gap, GapKind, KubeNode, Pod, Snapshot};
use crate::testing::fixture::{ago, healthy, mount, verdicts};

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
        Part::AnyDrain,
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
    let at = problems(&verdicts).position(|(check, target, _)| check == CheckId::K8sNodesReady && target.name == "w-1");
    assert_eq!(Causes::of(&snapshot, &verdicts).behind(at.unwrap()), [0; 0], "nor is its diagnosis lost to it");
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

const POLICY: &str = "k8s.webhooks validatingwebhookconfiguration/policy";

/// A cluster with a webhook for updates of this resource, whose only backend, on this machine, is not ready.
fn refused(group: &str, resource: &str, backend: &str) -> Snapshot {
    let mut snapshot = healthy();
    let kube = snapshot.kube();
    kube.mutating_webhooks.as_mut().unwrap().clear();
    let rule = &mut kube.validating_webhooks.as_mut().unwrap()[0].rules[0];
    (rule.groups, rule.resources) = (vec![group.to_owned()], vec![resource.to_owned()]);
    rule.operations = vec!["UPDATE".to_owned()];
    for endpoint in kube.webhook_endpoints.values_mut().flatten().flatten() {
        (endpoint.ready, endpoint.node) = (false, Some(backend.to_owned()));
    }
    snapshot
}

/// No kubelet has renewed its lease for a while.
fn silence(snapshot: &mut Snapshot) {
    let kube = snapshot.kube();
    kube.node_leases.as_mut().unwrap().by_name.values_mut().for_each(|lease| lease.renewed = Some(ago(90)));
    kube.nodes.as_mut().unwrap().iter_mut().for_each(unknown);
}

fn unknown(node: &mut KubeNode) {
    let ready = node.conditions.iter_mut().find(|it| it.kind == "Ready").unwrap();
    (ready.status, ready.reason) = ("Unknown".to_owned(), "NodeStatusUnknown".to_owned());
}

#[test]
fn kubelets_are_silent_because_a_webhook_refuses_their_leases() {
    for of in [|it: Snapshot| it, Snapshot::without_talos, |it: Snapshot| it.only(&["cp-1", "w-1"])] {
        let mut snapshot = of(refused("coordination.k8s.io", "leases", "w-1"));
        silence(&mut snapshot);
        assert_eq!(behind(&snapshot, POLICY), [""; 0]);
        assert_eq!(behind(&snapshot, "k8s.nodes.ready cp-1"), [POLICY]);
        assert_eq!(behind(&snapshot, "k8s.nodes.ready w-1"), [POLICY]);
    }
}

/// The API server may still reach a backend on a machine whose kubelet is silent.
#[test]
fn a_webhook_with_a_ready_endpoint_does_not_silence_its_machine() {
    let mut snapshot = refused("coordination.k8s.io", "leases", "w-1");
    snapshot.kube().webhook_endpoints.values_mut().flatten().flatten().for_each(|endpoint| endpoint.ready = true);
    silence(&mut snapshot);
    assert_eq!(behind(&snapshot, "k8s.nodes.ready cp-1"), [""; 0]);
    assert_eq!(behind(&snapshot, POLICY), ["k8s.nodes.ready w-1"]);
}

/// The machine that is off takes the webhook with it, which then silences the others.
#[test]
fn a_machine_that_is_off_explains_the_webhook_whose_backend_it_has() {
    let mut snapshot = refused("coordination.k8s.io", "leases", "w-1");
    snapshot.power_off("w-1");
    silence(&mut snapshot);
    assert_eq!(behind(&snapshot, "k8s.nodes.ready w-1"), ["talos.nodes.reachable w-1"]);
    assert!(behind(&snapshot, POLICY).contains(&"talos.nodes.reachable w-1".to_owned()));
    assert_eq!(behind(&snapshot, "k8s.nodes.ready cp-1"), [POLICY]);
}

/// A webhook without a backend stops all kubelets, or none.
#[test]
fn silence_that_no_webhook_brings_about_explains_it() {
    for (group, resource) in [("", "pods"), ("coordination.k8s.io", "leases")] {
        let mut snapshot = refused(group, resource, "w-1").without_talos();
        snapshot.power_off("w-1");
        assert_eq!(behind(&snapshot, "k8s.nodes.ready w-1"), [""; 0], "{resource}");
        assert_eq!(behind(&snapshot, POLICY)[0], "k8s.nodes.ready w-1", "{resource}");
    }
    let mut pods = refused("", "pods", "w-1").without_talos();
    silence(&mut pods);
    assert_eq!(behind(&pods, "k8s.nodes.ready cp-1"), [""; 0]);
    assert_eq!(behind(&pods, POLICY)[0], "k8s.nodes.ready w-1");
}

/// A kubelet that renews its lease is alive, but the status that the node controller has set stays.
#[test]
fn a_status_that_cannot_be_written_stays() {
    let of = |resource: &str| {
        let mut snapshot = refused("", resource, "cp-1");
        unknown(snapshot.kube_node_mut("w-1"));
        behind(&snapshot, "k8s.nodes.ready w-1")
    };
    assert_eq!(of("nodes/status"), [POLICY]);
    assert_eq!(of("nodes"), [""; 0]);
    let mut told = refused("", "nodes/status", "cp-1");
    unknown(told.kube_node_mut("w-1"));
    "False"
        .clone_into(&mut told.kube_node_mut("w-1").conditions.iter_mut().find(|it| it.kind == "Ready").unwrap().status);
    assert_eq!(behind(&told, "k8s.nodes.ready w-1"), [""; 0], "the kubelet itself has said so");
}

#[test]
fn no_component_leads_while_a_webhook_refuses_the_leases() {
    let of = |group: &str, resource: &str| {
        let mut snapshot = refused(group, resource, "cp-1");
        let leases = snapshot.kube().system_leases.as_mut().unwrap();
        leases.by_name.values_mut().for_each(|lease| lease.renewed = Some(ago(90)));
        behind(&snapshot, "k8s.controlplane.leases kube-system/kube-scheduler")
    };
    assert_eq!(of("coordination.k8s.io", "leases"), [POLICY]);
    assert_eq!(of("", "pods"), [""; 0]);
}

#[test]
fn missing_pods_follow_from_the_webhook_that_refuses_them() {
    let of = |words: &str| {
        let mut snapshot = refused("", "pods", "cp-1");
        let kube = snapshot.kube();
        kube.validating_webhooks.as_mut().unwrap()[0].rules[0].operations = vec!["CREATE".to_owned()];
        let sets = kube.stateful_sets.as_mut().unwrap();
        (sets[0].available, sets[0].refused) = (0, Some(words.to_owned()));
        behind(&snapshot, "k8s.system kube-system/csi-controller")
    };
    for (words, expected) in [
        ("Internal error occurred: failed calling webhook \"pods.policy.example.com\": no endpoints", true),
        ("admission webhook \"pods.policy.example.com\" denied the request: no", true),
        ("failed calling webhook \"other.example.com\": no endpoints", false),
        ("exceeded quota", false),
    ] {
        let causes = of(words);
        assert_eq!(causes.contains(&POLICY.to_owned()), expected, "{words}: {causes:?}");
    }
}

/// A DaemonSet has no condition that quotes the webhook.
#[test]
fn a_pod_that_was_not_created_follows_from_the_webhook_that_refuses_pods() {
    let of = |operation: &str, has_pod: bool| {
        let mut snapshot = refused("", "pods", "cp-1");
        let kube = snapshot.kube();
        kube.validating_webhooks.as_mut().unwrap()[0].rules[0].operations = vec![operation.to_owned()];
        kube.daemon_sets.as_mut().unwrap().iter_mut().for_each(|set| set.available -= 1);
        let is_its = |pod: &Pod| pod.node.as_deref() == Some("w-1") && pod.name.starts_with("kube-");
        let pods = kube.pods.as_mut().unwrap();
        for pod in pods.iter_mut() {
            let set = ["kube-proxy", "kube-flannel"].into_iter().find(|set| pod.name.starts_with(set));
            pod.controller = set.map(|set| ("DaemonSet".to_owned(), set.to_owned()));
        }
        if has_pod {
            pods.iter_mut().filter(|pod| is_its(pod)).for_each(|pod| pod.state.ready = Some(false));
        } else {
            pods.retain(|pod| !is_its(pod));
        }
        ["k8s.kube-proxy w-1", "k8s.cni w-1"].map(|of| behind(&snapshot, of))
    };
    assert_eq!(of("CREATE", false), [[POLICY], [POLICY]]);
    assert_eq!(of("CREATE", true), [[""; 0]; 2]);
    assert_eq!(of("DELETE", false), [[""; 0]; 2]);
}
