//! Credentials that allow less than is asked: the checks concerned cannot tell, and none passes for it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::checks::{ALL, facts, find};
use crate::model::{Fact, Reason, Right, Severity, Status};
use crate::snapshot::{EtcdEndpoint, Gap, GapKind, Kubernetes, Observed, Readyz, Snapshot, Talos, TalosNode};
use crate::testing::fixture::{Shape, Sides, by_check};
use crate::testing::laws::{judged, verdicts};

fn refuse<T>(fact: &mut Observed<T>) {
    if fact.is_ok() {
        *fact = Err(Gap::new(GapKind::Forbidden, "not authorized"));
    }
}

fn refuse_readyz(readyz: &mut Observed<Readyz>) {
    if let Ok(readyz) = readyz {
        (readyz.status, readyz.text) = (403, "forbidden: User \"reader\" cannot get path \"/readyz\"".to_owned());
    }
}

/// As servers refuse it. Each fact of Kubernetes has its place here, or this does not compile.
#[expect(clippy::too_many_lines, reason = "an arm for each fact")]
fn refuse_fact(snapshot: &mut Snapshot, refused: Fact) {
    let nodes: fn(&mut Snapshot, fn(&mut TalosNode)) = |snapshot, refuse| {
        snapshot.nodes.iter_mut().filter(|node| node.talos.contact.is_ok()).for_each(|node| refuse(&mut node.talos));
    };
    let kube: fn(&mut Snapshot, fn(&mut Kubernetes)) = |snapshot, refuse| {
        snapshot.kubernetes.iter_mut().for_each(refuse);
    };
    match refused {
        Fact::TalosNodes => {
            let Some(Talos { endpoints, discovery, .. }) = &mut snapshot.talos else { return };
            refuse(discovery);
            for endpoint in endpoints {
                refuse(&mut endpoint.version);
                refuse(&mut endpoint.role);
                refuse(&mut endpoint.nodename);
            }
            let gap = Gap::new(GapKind::Forbidden, "not authorized");
            for node in snapshot.nodes.iter_mut().filter(|node| node.is_talos) {
                node.talos = TalosNode::unasked(&gap).into();
                (node.sources.discovery, node.sources.etcd, node.sources.talosconfig) = (false, false, false);
            }
        }
        Fact::MachineStatus => nodes(snapshot, |node| refuse(&mut node.machine_status)),
        Fact::Services => nodes(snapshot, |node| refuse(&mut node.services)),
        Fact::TimeStatus => nodes(snapshot, |node| {
            refuse(&mut node.time_status);
            refuse(&mut node.adjtime);
        }),
        Fact::NetworkStatus => nodes(snapshot, |node| refuse(&mut node.network_status)),
        Fact::Addresses => nodes(snapshot, |node| refuse(&mut node.link_addresses)),
        Fact::KubePrism => nodes(snapshot, |node| refuse(&mut node.kube_prism)),
        Fact::KubeSpan => nodes(snapshot, |node| refuse(&mut node.kube_span_peers)),
        Fact::Memory => nodes(snapshot, |node| refuse(&mut node.memory)),
        Fact::Volumes => nodes(snapshot, |node| {
            refuse(&mut node.volumes);
            refuse(&mut node.mounts);
        }),
        // Anybody may see it.
        Fact::KubeletCertificate => {}
        Fact::Diagnostics => nodes(snapshot, |node| refuse(&mut node.diagnostics)),
        Fact::StaticPods => nodes(snapshot, |node| refuse(&mut node.static_pods)),
        Fact::StaticPodStatuses => nodes(snapshot, |node| refuse(&mut node.static_pod_statuses)),
        Fact::ConfigStatuses => nodes(snapshot, |node| refuse(&mut node.config_statuses)),
        Fact::ComponentConfigs => nodes(snapshot, |node| {
            refuse(&mut node.scheduler_enabled);
            refuse(&mut node.controller_manager_enabled);
        }),
        Fact::BootstrapManifests => nodes(snapshot, |node| refuse(&mut node.bootstrap_manifests)),
        Fact::ManifestStatuses => nodes(snapshot, |node| {
            refuse(&mut node.manifests_applied);
            refuse(&mut node.extra_manifests);
        }),
        Fact::EtcdMembership => {
            nodes(snapshot, |node| {
                refuse(&mut node.etcd_status);
                refuse(&mut node.etcd_members);
                refuse(&mut node.etcd_member_id);
            });
            for EtcdEndpoint { status, members, .. } in snapshot.external_etcd.iter_mut().flatten() {
                refuse(status);
                refuse(members);
            }
        }
        Fact::EtcdAlarms => {
            nodes(snapshot, |node| refuse(&mut node.etcd_alarms));
            snapshot.external_etcd.iter_mut().flatten().for_each(|endpoint| refuse(&mut endpoint.alarms));
        }
        Fact::EtcdSpecs => nodes(snapshot, |node| refuse(&mut node.etcd_spec)),
        Fact::KubeletFlags => nodes(snapshot, |node| refuse(&mut node.kubelet_flags)),
        Fact::Extensions => nodes(snapshot, |node| refuse(&mut node.extensions)),
        Fact::Installation => nodes(snapshot, |node| refuse(&mut node.installed)),
        Fact::TalosCluster => nodes(snapshot, |node| refuse(&mut node.cluster_id)),
        Fact::ServerVersion => kube(snapshot, |kube| refuse(&mut kube.version)),
        Fact::KubernetesCluster => kube(snapshot, |kube| refuse(&mut kube.cluster_uid)),
        Fact::EtcdData => nodes(snapshot, |node| refuse(&mut node.etcd_data_absent)),
        Fact::EndpointReadyz => kube(snapshot, |kube| refuse_readyz(&mut kube.endpoint)),
        Fact::ServerReadyz => kube(snapshot, |kube| kube.servers.values_mut().for_each(refuse_readyz)),
        Fact::KubeNodes => {
            kube(snapshot, |kube| refuse(&mut kube.nodes));
            // They name no node then.
            let has_talos = snapshot.talos.is_some();
            snapshot.nodes.retain(|node| has_talos || node.sources.flags);
            snapshot.nodes.iter_mut().for_each(|node| node.sources.kubernetes = false);
        }
        Fact::NodeLeases => kube(snapshot, |kube| refuse(&mut kube.node_leases)),
        Fact::SystemLeases => kube(snapshot, |kube| refuse(&mut kube.system_leases)),
        Fact::Pods => kube(snapshot, |kube| refuse(&mut kube.pods)),
        Fact::DaemonSets => kube(snapshot, |kube| {
            refuse(&mut kube.daemon_sets);
            refuse(&mut kube.plugin_namespaces);
        }),
        Fact::Deployments => kube(snapshot, |kube| refuse(&mut kube.deployments)),
        Fact::StatefulSets => kube(snapshot, |kube| refuse(&mut kube.stateful_sets)),
        Fact::StartingPods => kube(snapshot, |kube| refuse(&mut kube.starting_pods)),
        // Asked for while pods wait for volumes.
        Fact::CsiNodes => kube(snapshot, |kube| refuse(&mut kube.csi_nodes)),
        Fact::AttachedVolumes => kube(snapshot, |kube| refuse(&mut kube.attached_volumes)),
        Fact::BoundPods => kube(snapshot, |kube| refuse(&mut kube.bound_pods)),
        Fact::DisruptionBudgets => kube(snapshot, |kube| refuse(&mut kube.disruption_budgets)),
        Fact::NodeRoom => kube(snapshot, |kube| refuse(&mut kube.node_room)),
        Fact::VolumeAttachments => kube(snapshot, |kube| refuse(&mut kube.volume_attachments)),
        Fact::PersistentVolumes => kube(snapshot, |kube| refuse(&mut kube.persistent_volumes)),
        Fact::RequestedApis => kube(snapshot, |kube| kube.requested_apis.values_mut().for_each(refuse)),
        Fact::PodEvents => kube(snapshot, |kube| refuse(&mut kube.pod_events)),
        Fact::DnsEndpoints => kube(snapshot, |kube| refuse(&mut kube.dns_endpoints)),
        Fact::ApiEndpoints => kube(snapshot, |kube| refuse(&mut kube.api_endpoints)),
        Fact::SigningRequests => kube(snapshot, |kube| refuse(&mut kube.signing_requests)),
        Fact::ValidatingWebhooks => kube(snapshot, |kube| refuse(&mut kube.validating_webhooks)),
        Fact::MutatingWebhooks => kube(snapshot, |kube| refuse(&mut kube.mutating_webhooks)),
        Fact::Conversions => kube(snapshot, |kube| refuse(&mut kube.conversions)),
        Fact::WebhookEndpoints => kube(snapshot, |kube| kube.webhook_endpoints.values_mut().for_each(refuse)),
        Fact::ApiServices => kube(snapshot, |kube| refuse(&mut kube.api_services)),
        Fact::Required => kube(snapshot, |kube| kube.required.values_mut().for_each(refuse)),
        Fact::ServerCheck => snapshot.talos.iter_mut().for_each(|talos| refuse(&mut talos.server)),
    }
}

/// What is no longer as it was, by status: `error k8s.dns k8s.cni; skip k8s.nodes.csrs`.
fn changed(shape: &Shape, refused: &[Fact]) -> String {
    let before = shape.world();
    let mut after = before.clone();
    for fact in refused {
        refuse_fact(&mut after, *fact);
    }
    let mut by_status: BTreeMap<Status, Vec<&str>> = BTreeMap::new();
    let (before, after) = (by_check(&before), by_check(&after));
    for check in ALL {
        let status = after[check.id.name()].status();
        if status != before[check.id.name()].status() {
            by_status.entry(status).or_default().push(check.id.name());
        }
    }
    let of_each = by_status.into_iter().rev().map(|(status, ids)| format!("{} {}", status.name(), ids.join(" ")));
    of_each.collect::<Vec<_>>().join("; ")
}

/// Every right of the ClusterRole with the facts that need it, as `cluster-health rbac` writes it.
fn rights() -> BTreeMap<Right, Vec<Fact>> {
    let mut rights: BTreeMap<Right, Vec<Fact>> = BTreeMap::new();
    for fact in facts(ALL) {
        if let Some(right) = fact.right() {
            rights.entry(right).or_default().push(fact);
        }
    }
    rights
}

/// Each right, and what becomes of the checks: with Talos, and without.
const RIGHTS: &[(&str, &str, &str)] = &[
    ("events", "error k8s.pods.starting", "error k8s.pods.starting"),
    (
        "nodes",
        "error k8s.api.identity; \
         blocked k8s.controlplane.apiserver k8s.controlplane.controller-manager k8s.controlplane.scheduler \
         k8s.controlplane.leases k8s.controlplane.versions k8s.nodes.registered k8s.nodes.ready k8s.nodes.pressure \
         k8s.nodes.conditions k8s.nodes.schedulable k8s.nodes.csrs k8s.manifests k8s.kube-proxy k8s.dns k8s.cni k8s.system k8s.pods.starting k8s.webhooks \
         k8s.apiservices k8s.staticpods.running upgrade.kubernetes.path upgrade.matrix upgrade.flags upgrade.apis upgrade.drain upgrade.room \
         upgrade.volumes upgrade.quorum",
        "error etcd.quorum k8s.api.servers k8s.api.certificates k8s.controlplane.apiserver \
         k8s.controlplane.controller-manager k8s.controlplane.scheduler k8s.controlplane.leases \
         k8s.controlplane.versions k8s.nodes.ready k8s.nodes.pressure k8s.nodes.conditions k8s.nodes.schedulable \
         k8s.pods.starting k8s.staticpods.running",
    ),
    ("persistentvolumes", "error upgrade.drain upgrade.room", ""),
    // Talos tells what runs on the nodes, and of two words the worse counts.
    (
        "pods",
        "error k8s.controlplane.apiserver k8s.controlplane.controller-manager k8s.controlplane.scheduler \
         k8s.controlplane.leases k8s.kube-proxy k8s.dns k8s.cni k8s.system k8s.pods.starting k8s.staticpods.running upgrade.drain \
         upgrade.room upgrade.volumes upgrade.quorum",
        "error k8s.controlplane.apiserver k8s.controlplane.controller-manager k8s.controlplane.scheduler \
         k8s.controlplane.leases k8s.controlplane.versions k8s.kube-proxy k8s.dns k8s.cni k8s.system k8s.pods.starting k8s.staticpods.running",
    ),
    ("mutatingwebhookconfigurations", "error k8s.webhooks upgrade.drain", "error k8s.webhooks"),
    ("validatingwebhookconfigurations", "error k8s.webhooks upgrade.drain", "error k8s.webhooks"),
    // Their webhooks are skipped, of which a warning is the worst.
    ("customresourcedefinitions", "", ""),
    ("apiservices", "skip k8s.apiservices", "skip k8s.apiservices"),
    ("daemonsets", "error k8s.kube-proxy k8s.cni k8s.system upgrade.flags", "error k8s.kube-proxy k8s.cni k8s.system"),
    // They tell how many pods of DNS there should be.
    ("deployments", "error k8s.dns k8s.system", "error k8s.dns k8s.system"),
    ("statefulsets", "error k8s.system", "error k8s.system"),
    ("certificatesigningrequests", "skip k8s.nodes.csrs", "skip k8s.nodes.csrs"),
    (
        "leases",
        "error k8s.controlplane.leases k8s.nodes.ready k8s.nodes.schedulable k8s.dns k8s.webhooks upgrade.drain upgrade.room upgrade.quorum; \
         blocked k8s.nodes.pressure k8s.pods.starting",
        "error k8s.controlplane.leases k8s.nodes.ready k8s.nodes.schedulable k8s.dns k8s.webhooks; \
         blocked k8s.controlplane.apiserver k8s.controlplane.controller-manager k8s.controlplane.scheduler \
         k8s.nodes.pressure k8s.pods.starting k8s.staticpods.running",
    ),
    (
        "endpointslices",
        "error k8s.api.servers k8s.dns k8s.webhooks upgrade.drain upgrade.quorum",
        "error k8s.api.servers k8s.dns k8s.webhooks",
    ),
    ("poddisruptionbudgets", "error upgrade.drain", ""),
    // Asked for while pods wait for volumes, and only show whose matter that is.
    ("csinodes", "", ""),
    ("volumeattachments", "error upgrade.volumes", ""),
    ("/metrics", "error upgrade.apis", ""),
    (
        "/readyz",
        "error k8s.api.endpoint k8s.api.servers; blocked upgrade.quorum",
        "error k8s.api.endpoint k8s.api.servers",
    ),
    // Images tell the versions.
    ("/version", "", ""),
];

#[test]
fn each_right_is_missed_by_the_checks_that_need_it() {
    let no_talos = Shape { sides: Sides::NoTalos, ..Shape::default() };
    let mut seen = Vec::new();
    for (right, facts) in rights() {
        let name = match right {
            Right::Resource(_, plural) | Right::Object(_, plural, _) => plural,
            Right::Url(url) => url,
        };
        seen.push((name, changed(&Shape::default(), &facts), changed(&no_talos, &facts)));
    }
    let seen: Vec<_> = seen.iter().map(|(name, with, without)| (*name, with.as_str(), without.as_str())).collect();
    assert_eq!(seen, RIGHTS);
}

/// Each call of the Talos API. Without the first, nothing is told at all (see below).
const CALLS: &[(&str, &str)] = &[
    ("MachineStatuses", "error talos.nodes.booted; blocked talos.nodes.ready"),
    (
        "ServiceList",
        "error talos.nodes.services talos.nodes.kubelet etcd.service; \
         blocked k8s.controlplane.apiserver k8s.controlplane.controller-manager k8s.controlplane.scheduler \
         k8s.controlplane.versions k8s.staticpods.running upgrade.kubernetes.path upgrade.matrix",
    ),
    ("TimeStatuses, AdjtimeStatuses", "error talos.time"),
    ("NetworkStatuses", "error talos.nodes.network"),
    ("AddressStatuses, LinkStatuses", "error talos.nodes.network"),
    // What they tell only warns.
    ("KubePrismStatuses", ""),
    ("KubeSpanPeerStatuses (of control planes)", ""),
    ("Memory", "error talos.nodes.memory"),
    ("VolumeStatuses, Mounts", "error talos.nodes.disk"),
    ("Diagnostics", "skip talos.nodes.diagnostics"),
    ("StaticPods", "error k8s.staticpods.rendered k8s.staticpods.running upgrade.flags"),
    // The mirror pods tell of the components.
    ("StaticPodStatuses", "error k8s.staticpods.running"),
    ("ConfigStatuses", "error k8s.staticpods.rendered"),
    // Both tell what need not be there, and all is.
    ("SchedulerConfigs, ControllerManagerConfigs", ""),
    ("BootstrapManifestsConfigs", ""),
    ("ManifestStatuses, ExtraManifestsConfigs (of control planes)", "error k8s.manifests"),
    (
        "EtcdStatus, EtcdMemberList, EtcdMembers",
        "error etcd.quorum etcd.members.consistent etcd.members.nodes etcd.learners etcd.alarms; \
         blocked etcd.leader etcd.space etcd.lag etcd.tolerance etcd.versions upgrade.etcd upgrade.quorum",
    ),
    ("EtcdAlarmList", "error etcd.alarms"),
    ("EtcdSpecs", "error etcd.space upgrade.etcd"),
    // Asked while etcd has not started.
    ("List /var/lib/etcd", ""),
    // Newer versions of Talos show it to administrators alone.
    ("KubeletSpecs", "warn upgrade.flags"),
    ("ExtensionStatuses", "error upgrade.extensions"),
    // For administrators, which is said in its place.
    ("HealthCheck", "skip talos.server"),
];

#[test]
fn each_call_of_talos_is_missed_by_the_checks_that_need_it() {
    let calls = facts(ALL).into_iter().filter(|fact| fact.role().is_some() && *fact != Fact::TalosNodes);
    let seen: Vec<_> = calls.map(|fact| (fact.reads(), changed(&Shape::default(), &[fact]))).collect();
    let seen: Vec<_> = seen.iter().map(|(call, changed)| (*call, changed.as_str())).collect();
    assert_eq!(seen, CALLS);
}

/// `os:etcd:backup`, and any name that Talos does not know: what still passes was read from files, or by Kubernetes.
#[test]
fn below_reader_nothing_of_talos_is_told() {
    let mut snapshot = Shape::default().world();
    for fact in facts(ALL).into_iter().filter(|fact| fact.role().is_some()) {
        refuse_fact(&mut snapshot, fact);
    }
    let passed = ALL.iter().filter(|check| judged(check, &snapshot).status() == Status::Pass).map(|check| check.id);
    let of_files = ["talos.credentials", "k8s.credentials"];
    let of_servers = ["k8s.api.endpoint", "k8s.api.servers", "k8s.api.certificates"];
    assert_eq!(passed.collect::<Vec<_>>(), [&of_files[..], &of_servers].concat());
    let verdict = judged(find("talos.endpoints").unwrap(), &snapshot);
    assert!(verdict.problems().all(|(_, problem)| problem.reason == Reason::RoleTooLow), "{verdict:#?}");
    assert_eq!(verdict.status(), Status::Error);
}

/// Before 1.9.6, and in 1.10.0, Talos asks for more than os:reader for etcd's status and alarms.
#[test]
fn readers_of_old_releases_do_not_look_into_etcd() {
    for tag in ["v1.9.5", "v1.10.0"] {
        let mut snapshot = Shape { talos: [tag; 2], ..Shape::default() }.world();
        for node in &mut snapshot.nodes {
            refuse(&mut node.talos.etcd_status);
            refuse(&mut node.talos.etcd_alarms);
        }
        for (check, verdict) in verdicts(&snapshot).iter().filter(|(check, _)| check.id.name().starts_with("etcd.")) {
            assert_ne!(verdict.status(), Status::Fail, "{}", check.id);
            for (_, problem) in verdict.problems() {
                assert_eq!(problem.reason, Reason::RoleTooLowForThisVersion, "{}", check.id);
            }
        }
    }
}

/// Whatever is refused: what cannot be told is no failure, it stays so, and only what warns at most is skipped for it.
#[test]
fn a_refusal_is_an_error_and_no_verdict() {
    let shapes = [
        Shape::default(),
        Shape { sides: Sides::NoTalos, ..Shape::default() },
        Shape { sides: Sides::NoKubernetes, ..Shape::default() },
        Shape { external_etcd: 3, ..Shape::default() },
    ];
    for shape in shapes {
        let before = shape.world();
        let granted = by_check(&before);
        for fact in facts(ALL) {
            let mut snapshot = before.clone();
            refuse_fact(&mut snapshot, fact);
            let refused = by_check(&snapshot);
            for check in ALL {
                let (was, verdict) = (granted[check.id.name()].status(), &refused[check.id.name()]);
                let status = verdict.status();
                assert_ne!(status, Status::Fail, "{} without {fact:?}", check.id);
                let is_second_opinion = fact == Fact::ServerCheck;
                let may_skip = was == Status::Skip || check.severity == Severity::Warn || is_second_opinion;
                assert!(status != Status::Skip || may_skip, "{} without {fact:?}", check.id);
                for (target, problem) in verdict.problems().filter(|(_, problem)| problem.severity == Severity::Error) {
                    assert!(
                        !problem.waiting_helps || is_unsettled(problem.reason),
                        "{} {target} {problem:?}",
                        check.id
                    );
                }
            }
        }
    }
}

/// Without Talos nothing proves etcd's quorum: only time tells a right that is missing from an API server that starts.
#[test]
fn a_refusal_that_lasts_ends_the_waiting() {
    let before = Shape { sides: Sides::NoTalos, ..Shape::default() }.world();
    for fact in facts(ALL) {
        let mut snapshot = before.clone();
        refuse_fact(&mut snapshot, fact);
        let unsettled = |snapshot: &Snapshot| {
            let verdicts = verdicts(snapshot);
            let unsettled = verdicts.iter().flat_map(|(check, verdict)| {
                let problems = verdict.problems().filter(|(_, it)| it.severity > Severity::Warn && it.waiting_helps);
                problems.map(|(target, problem)| format!("{} {target} {}", check.id, problem.reason.code()))
            });
            unsettled.collect::<Vec<_>>()
        };
        let first = unsettled(&snapshot);
        snapshot.memory = snapshot.memory.after(&snapshot, Duration::from_secs(1));
        snapshot.memory.elapsed = Duration::from_secs(91);
        assert_eq!(unsettled(&snapshot), [""; 0], "{fact:?}, at first {first:?}");
    }
}

/// A refusal of an API server that has only just started, and what is missing rather than refused.
fn is_unsettled(reason: Reason) -> bool {
    matches!(reason, Reason::ForbiddenOrStarting | Reason::NoAnswer | Reason::QuorumUnproven | Reason::NodeMissing)
}
