//! Missing answers behind a fact: which ones, why, and whether a verdict is possible without them.

use super::{EtcdEndpoint, Gap, GapKind, Kubernetes, Node, Observed, RequestedApis, Snapshot, TalosNode};
use crate::model::{Fact, Role};

/// A missing answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Missing<'a> {
    pub(crate) by: Source<'a>,
    /// Name of the answer in its API.
    pub(crate) what: &'static str,
    pub(crate) gap: &'a Gap,
    /// Checks that use the answer cannot pass without it.
    pub(crate) is_needed: bool,
}

/// The source that should have given an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Source<'a> {
    Machine(&'a Node),
    /// The members that the Talos API lists.
    Discovery,
    Server(&'a str),
    /// An API server, by the name of its machine.
    ApiServer(&'a str),
    Kubernetes,
    /// An endpoint of `--etcd-endpoints`.
    Etcd(&'a str),
}

impl<'a> Source<'a> {
    pub(crate) fn name(self) -> &'a str {
        match self {
            Self::Machine(node) => &node.name,
            Self::Discovery => "discovery",
            Self::Kubernetes => "Kubernetes API",
            Self::Server(name) | Self::ApiServer(name) | Self::Etcd(name) => name,
        }
    }
}

/// A named answer.
struct Answer<'a> {
    what: &'static str,
    /// The reason why the answer is missing, if it is.
    gap: Option<&'a Gap>,
    need: Need,
}

/// The condition under which a missing answer makes the checks that use it undetermined.
#[derive(Clone, Copy)]
enum Need {
    Always,
    /// Optional: older releases lack it, some roles cannot read it, and its checks only warn.
    UnlessRefused,
    /// Older releases do not support it.
    UnlessUnsupported,
    /// Not required: another answer covers it, or it only adds detail.
    Never,
}

impl Snapshot {
    /// Returns the missing answers behind this fact. Sources that give no answer at all, for lack of credentials, of an endpoint or of
    /// power, are left out: that is reported once for the machine, not for each fact. Answers that are never requested, such as etcd's from
    /// a worker, are not missing.
    pub(crate) fn missing(&self, fact: Fact) -> Vec<Missing<'_>> {
        match fact {
            Fact::TalosNodes => self.of_population(),
            Fact::MachineStatus => self.of_machines(|it| [answer("MachineStatuses", &it.machine_status)]),
            Fact::Services => self.of_machines(|it| [answer("ServiceList", &it.services)]),
            Fact::TimeStatus => self.of_machines(|it| {
                [answer("TimeStatuses", &it.time_status), answer("AdjtimeStatuses", &it.adjtime).optional()]
            }),
            Fact::NetworkStatus => self.of_machines(|it| [answer("NetworkStatuses", &it.network_status)]),
            Fact::Addresses => self.of_machines(|it| [answer("AddressStatuses", &it.link_addresses).optional()]),
            Fact::KubePrism => self.of_machines(|it| [answer("KubePrismStatuses", &it.kube_prism).unless_refused()]),
            Fact::KubeSpan => {
                self.of_control_planes(|it| [answer("KubeSpanPeerStatuses", &it.kube_span_peers).unless_refused()])
            }
            Fact::Memory => self.of_machines(|it| [answer("Memory", &it.memory)]),
            Fact::Volumes => self.of_machines(|it| {
                [answer("VolumeStatuses", &it.volumes).unless_unsupported(), answer("Mounts", &it.mounts).optional()]
            }),
            Fact::Diagnostics => self.of_machines(|it| [answer("Diagnostics", &it.diagnostics).unless_refused()]),
            Fact::KubeletCertificate => self
                .of_machines(|it| [answer("TLS handshake (kubelet, port 10250)", &it.kubelet_certificate).optional()]),
            Fact::StaticPods => self.of_machines(|it| [answer("StaticPods", &it.static_pods)]),
            Fact::StaticPodStatuses => self.of_machines(|it| [answer("StaticPodStatuses", &it.static_pod_statuses)]),
            Fact::ConfigStatuses => self.of_config_statuses(),
            Fact::ComponentConfigs => self.of_machines(|it| {
                [
                    answer("SchedulerConfigs", &it.scheduler_enabled).optional(),
                    answer("ControllerManagerConfigs", &it.controller_manager_enabled).optional(),
                ]
            }),
            Fact::BootstrapManifests => {
                self.of_machines(|it| [answer("BootstrapManifestsConfigs", &it.bootstrap_manifests).optional()])
            }
            Fact::ManifestStatuses => self.of_manifests(),
            Fact::EtcdMembership => self.of_etcd(
                |it| {
                    [
                        answer("EtcdStatus", &it.etcd_status),
                        answer("EtcdMemberList", &it.etcd_members),
                        answer("EtcdMembers", &it.etcd_member_id).optional(),
                    ]
                },
                |it| [answer("Status", &it.status), answer("MemberList", &it.members)],
            ),
            Fact::EtcdAlarms => {
                self.of_etcd(|it| [answer("EtcdAlarmList", &it.etcd_alarms)], |it| [answer("Alarm", &it.alarms)])
            }
            Fact::EtcdSpecs => self.of_control_planes(|it| [answer("EtcdSpecs", &it.etcd_spec)]),
            Fact::EtcdData => self.of_control_planes(|it| [answer("List /var/lib/etcd", &it.etcd_data_absent)]),
            Fact::KubeletFlags => self.of_machines(|it| [answer("KubeletSpecs", &it.kubelet_flags).unless_refused()]),
            Fact::Extensions => self.of_machines(|it| [answer("ExtensionStatuses", &it.extensions)]),
            Fact::Installation => self.of_machines(|it| [answer("Logs (machined)", &it.installed)]),
            Fact::TalosCluster => self.of_machines(|it| [answer("Infos", &it.cluster_id)]),
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
            Fact::CsiNodes => self.of_kubernetes(|it| answer("csinodes", &it.csi_nodes).optional()),
            Fact::AttachedVolumes => {
                self.of_kubernetes(|it| answer("volumeattachments", &it.attached_volumes).optional())
            }
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
                self.of_kubernetes(|it| answer("certificatesigningrequests", &it.signing_requests).unless_refused())
            }
            Fact::ValidatingWebhooks => {
                self.of_kubernetes(|it| answer("validatingwebhookconfigurations", &it.validating_webhooks))
            }
            Fact::MutatingWebhooks => {
                self.of_kubernetes(|it| answer("mutatingwebhookconfigurations", &it.mutating_webhooks))
            }
            Fact::Conversions => {
                self.of_kubernetes(|it| answer("customresourcedefinitions", &it.conversions).unless_refused())
            }
            Fact::WebhookEndpoints => self.of_webhooks(),
            Fact::ApiServices => self.of_kubernetes(|it| answer("apiservices", &it.api_services).unless_refused()),
            Fact::ServerVersion if self.talos.is_some() => Vec::new(),
            Fact::ServerVersion => self.of_kubernetes(|it| answer("GET /version", &it.version).optional()),
            Fact::KubernetesCluster => self.of_kubernetes(|it| answer("namespaces (kube-system)", &it.cluster_uid)),
            Fact::Required => self.of_required(),
            Fact::ServerCheck => self.of_server_check(),
        }
    }

    fn of_config_statuses(&self) -> Vec<Missing<'_>> {
        let of = |it| answer("ConfigStatuses", it);
        let mut missing = self.of_control_planes(|it| [of(&it.config_statuses)]);
        // Workers have none.
        missing.extend(self.of_nodes(|it| it.role == Role::Worker, |it| [of(&it.config_statuses).optional()]));
        missing
    }

    /// One control plane's answer shows which manifests were applied, and `ExtraManifestsConfigs` is requested only if the user's own
    /// manifests are among them, so both answers are optional.
    fn of_manifests(&self) -> Vec<Missing<'_>> {
        self.of_control_planes(|it| {
            [
                answer("ManifestStatuses", &it.manifests_applied).optional(),
                answer("ExtraManifestsConfigs", &it.extra_manifests).optional(),
            ]
        })
    }

    fn of_population(&self) -> Vec<Missing<'_>> {
        let Some(talos) = &self.talos else { return Vec::new() };
        let mut missing = self
            .of_machines(|it| [answer("MachineTypes", &it.machine_type).optional(), answer("Nodenames", &it.nodename)]);
        if talos.credentials.is_ok() {
            missing.extend(of(Source::Discovery, [answer("Members", &talos.discovery)]));
        }
        missing
    }

    fn of_machines<'a, const N: usize>(
        &'a self,
        answers: impl Fn(&'a TalosNode) -> [Answer<'a>; N],
    ) -> Vec<Missing<'a>> {
        self.of_nodes(|_| true, answers)
    }

    fn of_control_planes<'a, const N: usize>(
        &'a self,
        answers: impl Fn(&'a TalosNode) -> [Answer<'a>; N],
    ) -> Vec<Missing<'a>> {
        self.of_nodes(|node| node.role != Role::Worker, answers)
    }

    fn of_nodes<'a, const N: usize>(
        &'a self,
        are_asked: impl Fn(&Node) -> bool,
        answers: impl Fn(&'a TalosNode) -> [Answer<'a>; N],
    ) -> Vec<Missing<'a>> {
        let answering = self.nodes.iter().filter(|node| node.is_talos && are_asked(node) && node.talos.contact.is_ok());
        answering.flat_map(|node| of(Source::Machine(node), answers(&node.talos))).collect()
    }

    fn of_etcd<'a, const N: usize, const M: usize>(
        &'a self,
        of_machine: impl Fn(&'a TalosNode) -> [Answer<'a>; N],
        of_endpoint: impl Fn(&'a EtcdEndpoint) -> [Answer<'a>; M],
    ) -> Vec<Missing<'a>> {
        match &self.external_etcd {
            Some(endpoints) => endpoints.iter().flat_map(|it| of(Source::Etcd(&it.address), of_endpoint(it))).collect(),
            None => self.of_control_planes(of_machine),
        }
    }

    fn of_kubernetes<'a>(&'a self, answer: impl Fn(&'a Kubernetes) -> Answer<'a>) -> Vec<Missing<'a>> {
        self.usable_kubernetes().flat_map(|it| of(Source::Kubernetes, [answer(it)])).collect()
    }

    fn of_api_servers(&self) -> Vec<Missing<'_>> {
        let servers = self.usable_kubernetes().flat_map(|it| &it.servers);
        servers.flat_map(|(node, it)| of(Source::ApiServer(node), [answer("/readyz", it).optional()])).collect()
    }

    fn of_metrics<'a>(&'a self) -> Vec<Missing<'a>> {
        let servers = || self.usable_kubernetes().flat_map(|it| &it.requested_apis);
        let is_a_machines = |name: &str| self.nodes.iter().any(|node| node.name == name);
        let has_answered =
            |of_machines: bool| servers().any(|(name, metrics)| metrics.is_ok() && is_a_machines(name) == of_machines);
        // No server can be queried at its own address, as behind Omni: one of them has answered through the endpoint instead.
        let by_endpoint = has_answered(false) && !has_answered(true);
        let of_server = |(name, metrics): (&'a String, &'a Observed<RequestedApis>)| {
            let metrics = answer("/metrics", metrics);
            match is_a_machines(name) {
                true if by_endpoint => of(Source::ApiServer(name), [metrics.optional()]),
                true => of(Source::ApiServer(name), [metrics]),
                false => of(Source::Kubernetes, [metrics]),
            }
        };
        servers().flat_map(of_server).collect()
    }

    fn of_webhooks(&self) -> Vec<Missing<'_>> {
        let services = self.usable_kubernetes().flat_map(|it| it.webhook_endpoints.values());
        services.flat_map(|it| of(Source::Kubernetes, [answer("endpointslices (of webhooks)", it)])).collect()
    }

    fn of_required(&self) -> Vec<Missing<'_>> {
        let lists = self.usable_kubernetes().flat_map(|it| it.required.values());
        lists.flat_map(|it| of(Source::Kubernetes, [answer("objects that the policy requires", it)])).collect()
    }

    fn usable_kubernetes(&self) -> impl Iterator<Item = &Kubernetes> {
        self.kubernetes.iter().filter(|it| it.credentials.is_ok())
    }

    fn of_server_check(&self) -> Vec<Missing<'_>> {
        let Some(talos) = &self.talos else { return Vec::new() };
        match &talos.server {
            Err(gap) => vec![Missing { by: Source::Server("Talos API"), what: "HealthCheck", gap, is_needed: false }],
            Ok(check) => {
                of(Source::Server(&check.endpoint), [answer("HealthCheck", &check.end).unless_refused()]).collect()
            }
        }
    }
}

fn answer<'a, T>(what: &'static str, observed: &'a Observed<T>) -> Answer<'a> {
    Answer { what, gap: observed.as_ref().err(), need: Need::Always }
}

impl Answer<'_> {
    fn unless_refused(self) -> Self {
        Self { need: Need::UnlessRefused, ..self }
    }

    fn unless_unsupported(self) -> Self {
        Self { need: Need::UnlessUnsupported, ..self }
    }

    fn optional(self) -> Self {
        Self { need: Need::Never, ..self }
    }
}

/// Finds the `answers` that were requested and are missing.
fn of<'a, const N: usize>(by: Source<'a>, answers: [Answer<'a>; N]) -> impl Iterator<Item = Missing<'a>> {
    let was_asked = |gap: &Gap| gap.kind != GapKind::NotAsked || *gap != Gap::not_asked();
    answers.into_iter().filter_map(move |Answer { what, gap, need }| {
        let gap = gap.filter(|gap| was_asked(gap))?;
        let is_needed = match need {
            Need::Always => true,
            Need::UnlessRefused => !matches!(gap.kind, GapKind::Forbidden | GapKind::Unsupported),
            Need::UnlessUnsupported => gap.kind != GapKind::Unsupported,
            Need::Never => false,
        };
        Some(Missing { by, what, gap, is_needed })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixture::{Shape, gap, healthy};

    fn missing(snapshot: &Snapshot, fact: Fact) -> Vec<(&str, &str, GapKind)> {
        snapshot.missing(fact).into_iter().map(|it| (it.by.name(), it.what, it.gap.kind)).collect()
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
