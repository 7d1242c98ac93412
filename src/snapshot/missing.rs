//! Which answers are missing behind a fact, and why: for people who ask how a verdict came about.

use super::{EtcdEndpoint, Gap, GapKind, Kubernetes, Node, Observed, Snapshot, TalosNode};
use crate::model::{Fact, Role};

/// An answer that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missing<'a> {
    /// Who should have given it: a machine, an endpoint, or one of the two configurations.
    pub(crate) by: &'a str,
    /// In the words of the API concerned.
    pub(crate) what: &'static str,
    pub(crate) gap: &'a Gap,
}

/// An answer by name, and why it is missing if it is.
type Answer<'a> = (&'static str, Option<&'a Gap>);

const KUBERNETES: &str = "Kubernetes API";

impl Snapshot {
    /// The answers that this fact is made of and that are missing. Not those of whom gives none at all, for want of credentials,
    /// of an endpoint, or of power: that is said of the machine, not of each fact. What is never asked, such as etcd of a worker,
    /// is not missing.
    pub(crate) fn missing(&self, fact: Fact) -> Vec<Missing<'_>> {
        match fact {
            Fact::TalosNodes => self.of_population(),
            Fact::MachineStatus => self.of_machines(|it| vec![answer("MachineStatuses", &it.machine_status)]),
            Fact::Services => self.of_machines(|it| vec![answer("ServiceList", &it.services)]),
            Fact::TimeStatus => self.of_machines(|it| {
                vec![answer("TimeStatuses", &it.time_status), answer("AdjtimeStatuses", &it.adjtime)]
            }),
            Fact::NetworkStatus => self.of_machines(|it| vec![answer("NetworkStatuses", &it.network_status)]),
            Fact::KubePrism => self.of_machines(|it| vec![answer("KubePrismStatuses", &it.kube_prism)]),
            Fact::KubeSpan => self.of_control_planes(|it| vec![answer("KubeSpanPeerStatuses", &it.kube_span_peers)]),
            Fact::Memory => self.of_machines(|it| vec![answer("Memory", &it.memory)]),
            Fact::Volumes => {
                self.of_machines(|it| vec![answer("VolumeStatuses", &it.volumes), answer("Mounts", &it.mounts)])
            }
            Fact::Diagnostics => self.of_machines(|it| vec![answer("Diagnostics", &it.diagnostics)]),
            Fact::KubeletCertificate => {
                self.of_machines(|it| vec![answer("TLS handshake (kubelet, port 10250)", &it.kubelet_certificate)])
            }
            Fact::StaticPods => self.of_machines(|it| vec![answer("StaticPods", &it.static_pods)]),
            Fact::StaticPodStatuses => {
                self.of_machines(|it| vec![answer("StaticPodStatuses", &it.static_pod_statuses)])
            }
            Fact::ConfigStatuses => self.of_machines(|it| vec![answer("ConfigStatuses", &it.config_statuses)]),
            Fact::ComponentConfigs => self.of_machines(|it| {
                vec![
                    answer("SchedulerConfigs", &it.scheduler_enabled),
                    answer("ControllerManagerConfigs", &it.controller_manager_enabled),
                ]
            }),
            Fact::BootstrapManifests => {
                self.of_machines(|it| vec![answer("BootstrapManifestsConfigs", &it.bootstrap_manifests)])
            }
            Fact::EtcdMembership => self.of_etcd(
                |it| {
                    vec![
                        answer("EtcdStatus", &it.etcd_status),
                        answer("EtcdMemberList", &it.etcd_members),
                        answer("EtcdMembers", &it.etcd_member_id),
                    ]
                },
                |it| vec![answer("Status", &it.status), answer("MemberList", &it.members)],
            ),
            Fact::EtcdAlarms => self
                .of_etcd(|it| vec![answer("EtcdAlarmList", &it.etcd_alarms)], |it| vec![answer("Alarm", &it.alarms)]),
            Fact::EtcdSpecs => self.of_control_planes(|it| vec![answer("EtcdSpecs", &it.etcd_spec)]),
            Fact::EtcdData => self.of_control_planes(|it| vec![answer("List /var/lib/etcd", &it.etcd_data_absent)]),
            Fact::KubeletFlags => self.of_machines(|it| vec![answer("KubeletSpecs", &it.kubelet_flags)]),
            Fact::Extensions => self.of_machines(|it| vec![answer("ExtensionStatuses", &it.extensions)]),
            Fact::Installation => self.of_machines(|it| vec![answer("Logs (machined)", &it.installed)]),
            Fact::TalosCluster => self.of_machines(|it| vec![answer("Infos", &it.cluster_id)]),
            Fact::EndpointReadyz => self.of_kubernetes(|it| answer("/readyz", &it.endpoint)),
            Fact::ServerReadyz => self.of_api_servers(),
            Fact::KubeNodes => self.of_kubernetes(|it| answer("nodes", &it.nodes)),
            Fact::NodeLeases => self.of_kubernetes(|it| answer("leases (kube-node-lease)", &it.node_leases)),
            Fact::SystemLeases => self.of_kubernetes(|it| answer("leases (kube-system)", &it.system_leases)),
            Fact::Pods => self.of_kubernetes(|it| answer("pods (kube-system)", &it.pods)),
            Fact::DaemonSets => self.of_kubernetes(|it| match &it.daemon_sets {
                Ok(_) => answer("workloads of the network plugin", &it.plugin_namespaces),
                sets => answer("daemonsets", sets),
            }),
            Fact::Deployments => self.of_kubernetes(|it| answer("deployments", &it.deployments)),
            Fact::StatefulSets => self.of_kubernetes(|it| answer("statefulsets", &it.stateful_sets)),
            Fact::StartingPods => self.of_kubernetes(|it| answer("pods (without a sandbox)", &it.starting_pods)),
            Fact::PodEvents => self.of_kubernetes(|it| answer("events", &it.pod_events)),
            Fact::BoundPods => self.of_kubernetes(|it| answer("pods (all namespaces)", &it.bound_pods)),
            Fact::DisruptionBudgets => self.of_kubernetes(|it| answer("poddisruptionbudgets", &it.disruption_budgets)),
            Fact::NodeRoom => self.of_kubernetes(|it| answer("nodes (allocatable)", &it.node_room)),
            Fact::VolumeAttachments => self.of_kubernetes(|it| answer("volumeattachments", &it.volume_attachments)),
            Fact::PersistentVolumes => self.of_kubernetes(|it| answer("persistentvolumes", &it.persistent_volumes)),
            Fact::RequestedApis => self.of_metrics(),
            Fact::DnsEndpoints => self.of_kubernetes(|it| answer("endpointslices (kube-system)", &it.dns_endpoints)),
            Fact::ApiEndpoints => self.of_kubernetes(|it| answer("endpointslices (default)", &it.api_endpoints)),
            Fact::SigningRequests => {
                self.of_kubernetes(|it| answer("certificatesigningrequests", &it.signing_requests))
            }
            Fact::ValidatingWebhooks => {
                self.of_kubernetes(|it| answer("validatingwebhookconfigurations", &it.validating_webhooks))
            }
            Fact::MutatingWebhooks => {
                self.of_kubernetes(|it| answer("mutatingwebhookconfigurations", &it.mutating_webhooks))
            }
            Fact::WebhookEndpoints => self.of_webhooks(),
            Fact::ApiServices => self.of_kubernetes(|it| answer("apiservices", &it.api_services)),
            Fact::KubernetesCluster => self.of_kubernetes(|it| answer("namespaces (kube-system)", &it.cluster_uid)),
            Fact::ServerCheck => self.of_server_check(),
        }
    }

    fn of_population(&self) -> Vec<Missing<'_>> {
        let Some(talos) = &self.talos else { return Vec::new() };
        let mut missing =
            self.of_machines(|it| vec![answer("MachineTypes", &it.machine_type), answer("Nodenames", &it.nodename)]);
        if talos.credentials.is_ok() {
            missing.extend(of("discovery", vec![answer("Members", &talos.discovery)]));
        }
        missing
    }

    fn of_machines<'a>(&'a self, answers: impl Fn(&'a TalosNode) -> Vec<Answer<'a>>) -> Vec<Missing<'a>> {
        self.of_nodes(|_| true, answers)
    }

    fn of_control_planes<'a>(&'a self, answers: impl Fn(&'a TalosNode) -> Vec<Answer<'a>>) -> Vec<Missing<'a>> {
        self.of_nodes(|node| node.role != Role::Worker, answers)
    }

    fn of_nodes<'a>(
        &'a self,
        are_asked: impl Fn(&Node) -> bool,
        answers: impl Fn(&'a TalosNode) -> Vec<Answer<'a>>,
    ) -> Vec<Missing<'a>> {
        let answering = self.nodes.iter().filter(|node| node.is_talos && are_asked(node) && node.talos.contact.is_ok());
        answering.flat_map(|node| of(&node.name, answers(&node.talos))).collect()
    }

    fn of_etcd<'a>(
        &'a self,
        of_machine: impl Fn(&'a TalosNode) -> Vec<Answer<'a>>,
        of_endpoint: impl Fn(&'a EtcdEndpoint) -> Vec<Answer<'a>>,
    ) -> Vec<Missing<'a>> {
        match &self.external_etcd {
            Some(endpoints) => endpoints.iter().flat_map(|it| of(&it.address, of_endpoint(it))).collect(),
            None => self.of_control_planes(of_machine),
        }
    }

    fn of_kubernetes<'a>(&'a self, answer: impl Fn(&'a Kubernetes) -> Answer<'a>) -> Vec<Missing<'a>> {
        self.usable_kubernetes().flat_map(|it| of(KUBERNETES, vec![answer(it)])).collect()
    }

    fn of_api_servers(&self) -> Vec<Missing<'_>> {
        let servers = self.usable_kubernetes().flat_map(|it| &it.servers);
        servers.flat_map(|(node, readyz)| of(node, vec![answer("/readyz", readyz)])).collect()
    }

    fn of_metrics(&self) -> Vec<Missing<'_>> {
        let servers = self.usable_kubernetes().flat_map(|it| &it.requested_apis);
        servers.flat_map(|(node, metrics)| of(node, vec![answer("/metrics", metrics)])).collect()
    }

    fn of_webhooks(&self) -> Vec<Missing<'_>> {
        let services = self.usable_kubernetes().flat_map(|it| it.webhook_endpoints.values());
        services.flat_map(|it| of(KUBERNETES, vec![answer("endpointslices (of webhooks)", it)])).collect()
    }

    fn usable_kubernetes(&self) -> impl Iterator<Item = &Kubernetes> {
        self.kubernetes.iter().filter(|it| it.credentials.is_ok())
    }

    fn of_server_check(&self) -> Vec<Missing<'_>> {
        let Some(talos) = &self.talos else { return Vec::new() };
        match &talos.server {
            Err(gap) => vec![Missing { by: "Talos API", what: "HealthCheck", gap }],
            Ok(check) => of(&check.endpoint, vec![answer("HealthCheck", &check.end)]).collect(),
        }
    }
}

fn answer<'a, T>(what: &'static str, observed: &'a Observed<T>) -> Answer<'a> {
    (what, observed.as_ref().err())
}

/// Those of `answers` that are missing and were asked for.
fn of<'a>(by: &'a str, answers: Vec<Answer<'a>>) -> impl Iterator<Item = Missing<'a>> {
    let was_asked = |gap: &Gap| gap.kind != GapKind::NotAsked || *gap != Gap::not_asked();
    answers
        .into_iter()
        .filter_map(move |(what, gap)| Some(Missing { by, what, gap: gap.filter(|gap| was_asked(gap))? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixture::{Shape, gap, healthy};

    fn missing(snapshot: &Snapshot, fact: Fact) -> Vec<(&str, &str, GapKind)> {
        snapshot.missing(fact).into_iter().map(|it| (it.by, it.what, it.gap.kind)).collect()
    }

    #[test]
    fn whoever_gives_no_answer_at_all_misses_none() {
        let mut lost = healthy();
        lost.talos_of("w-1").volumes = gap(GapKind::TimedOut);
        assert_eq!(missing(&lost, Fact::Volumes), [("w-1", "VolumeStatuses", GapKind::TimedOut)]);
        lost.power_off("w-1");
        assert_eq!(missing(&lost, Fact::Volumes), []);
        lost.kube().pods = gap(GapKind::Forbidden);
        assert_eq!(missing(&lost, Fact::Pods), [("Kubernetes API", "pods (kube-system)", GapKind::Forbidden)]);
        lost.kube().credentials = gap(GapKind::NotAsked);
        for fact in [Fact::Pods, Fact::EndpointReadyz, Fact::ServerReadyz] {
            assert_eq!(missing(&lost, fact), [], "{fact:?}");
        }
    }

    #[test]
    fn what_is_not_asked_is_not_missing() {
        for world in [healthy().without_talos(), healthy().without_kubernetes()] {
            for fact in [Fact::TalosNodes, Fact::ServerCheck, Fact::EtcdData, Fact::KubeSpan, Fact::Pods] {
                assert_eq!(missing(&world, fact), [], "{fact:?}");
            }
        }
        let mut external = Shape { external_etcd: 3, ..Shape::default() }.world();
        external.external_etcd.as_mut().unwrap()[0].alarms = gap(GapKind::TimedOut);
        let [(_, "Alarm", GapKind::TimedOut)] = missing(&external, Fact::EtcdAlarms)[..] else { panic!() };
    }
}
