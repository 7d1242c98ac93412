//! The part of the cluster at which each problem was observed: one arm for each check.

use super::objects::is_workload;
use super::part::{Condition, Part, StaticPod};
use super::{Found, Graph, Machine};
use crate::assess::components::Component;
use crate::assess::{is_going_down, is_silent_altogether};
use crate::diagnosis::service::keeps_exiting;
use crate::model::{About, CheckId, Kind, Problem, Reason, Severity, Target};
use crate::snapshot::{Node, Service};

impl<'a> Graph<'a> {
    /// Returns the part at which a problem was observed.
    #[expect(clippy::too_many_lines, reason = "an arm for each check")]
    pub(super) fn part(&self, found: &Found<'a>, machine: Option<Machine<'a>>) -> Part {
        use CheckId as Id;
        let Found { target, problem, .. } = found;
        let reason = problem.reason;
        let waits = |id| self.service(machine, id).is_some_and(waits_to_start);
        let runs = |id| self.service(machine, id).is_some_and(|service| service.state == "Running");
        match found.check {
            Id::TalosCredentials => Part::TalosCredentials,
            // A machine without a configuration runs no part of the cluster.
            Id::TalosEndpoints | Id::TalosNodesReachable if reason == Reason::MaintenanceMode => Part::Power,
            Id::TalosEndpoints => Part::TalosEndpoint,
            Id::TalosNodesReachable => Part::TalosApi,
            Id::TalosNodesExpected => match reason {
                Reason::StaleNodeObject | Reason::StaleDiscoveryMember => Part::Record,
                Reason::SingleSource => Part::Sources,
                Reason::MachineTypeInit => Part::Property,
                _ => Part::Stated,
            },
            Id::TalosTime => Part::Clock,
            Id::TalosNodesBooted => match reason {
                Reason::StageNotRunning if !self.node(machine).is_some_and(is_going_down) => Part::Boot,
                Reason::ServiceBlocksBoot => Part::Boot,
                // The machine answers, so it has power.
                _ if problem.severity == Severity::Error => Part::Boot,
                _ => Part::Power,
            },
            Id::TalosNodesReady => match &problem.about {
                Some(About::Condition(name)) => Part::Condition(condition(name)),
                _ => Part::Condition(Condition::Other),
            },
            Id::TalosNodesServices => match &problem.about {
                Some(About::Service(id)) if matches!(id.as_str(), "containerd" | "cri") => Part::Runtime,
                _ => Part::Service,
            },
            Id::TalosNodesKubelet => match reason {
                Reason::KubeprismUnhealthy => Part::KubePrism,
                _ if waits("kubelet") => Part::KubeletStart,
                _ => Part::Kubelet,
            },
            Id::TalosNodesKubeletCertificate => Part::ServingCertificate,
            Id::TalosNodesNetwork => match reason {
                Reason::KubespanPeerDown => Part::Peers,
                _ => Part::Network,
            },
            Id::TalosNodesDisk => match (reason, &problem.about) {
                (Reason::VolumeFailed | Reason::DiskFull, about) if *about != Some(About::SpareVolume) => Part::Volumes,
                _ => Part::Property,
            },
            Id::EtcdService => match self.node(machine) {
                _ if waits("etcd") => Part::EtcdStart,
                Some(node) if runs("etcd") && node.talos.etcd_status.is_ok() => Part::EtcdMember,
                _ => Part::EtcdProcess,
            },
            Id::EtcdQuorum => match reason {
                Reason::SplitCluster => Part::EtcdIdentity,
                _ => Part::Quorum,
            },
            Id::EtcdLeader => match reason {
                Reason::LeadersDiffer | Reason::LeaderChanges => Part::Agreement,
                _ => Part::EtcdMember,
            },
            Id::EtcdMembersConsistent => match reason {
                Reason::SplitCluster => Part::EtcdIdentity,
                _ => Part::Agreement,
            },
            // Undetermined, because the member was not seen.
            Id::EtcdMembersNodes | Id::EtcdLearners | Id::EtcdAlarms if problem.severity == Severity::Error => {
                Part::Lag
            }
            Id::EtcdMembersNodes => match reason {
                Reason::ForeignEtcd => Part::EtcdIdentity,
                Reason::StaleMember => Part::Record,
                Reason::MemberJoining => Part::Joining,
                Reason::PeerAddress => Part::Property,
                _ => Part::Membership,
            },
            Id::EtcdLearners => Part::Joining,
            Id::EtcdAlarms => match reason {
                Reason::AlarmNospace | Reason::AlarmCorrupt => Part::Alarm,
                Reason::EtcdUnhealthy => Part::EtcdMember,
                _ => Part::Property,
            },
            Id::EtcdSpace => Part::Space,
            Id::EtcdLag => Part::Lag,
            Id::EtcdTolerance => Part::Tolerance,
            Id::K8sCredentials => Part::KubernetesCredentials,
            Id::K8sApiEndpoint if is_about_access(reason) => Part::KubernetesAccess,
            // If the address belongs to a machine, its API server is affected; otherwise only the name's DNS record is.
            Id::K8sApiEndpoint if reason == Reason::EndpointAddressDead => match machine {
                Some(Machine::Known(_)) => Part::ApiServer,
                _ => Part::Property,
            },
            Id::K8sApiEndpoint => Part::ApiEndpoint,
            Id::K8sApiServers if target.kind == Kind::Cluster || reason == Reason::EndpointOnMachine => Part::Property,
            // If the kubeconfig trusts another server, this one is at fault.
            Id::K8sApiServers if reason == Reason::UnknownCa && self.some_server_works() => Part::ApiServerItself,
            Id::K8sApiServers if is_about_access(reason) => Part::ServerAccess,
            Id::K8sApiServers if problem.about == Some(About::Itself) => Part::ApiServerItself,
            // Only a server that runs presents a certificate.
            Id::K8sApiServers if matches!(reason, Reason::ServerCertificateExpired | Reason::NameNotInCertificate) => {
                Part::ApiServerItself
            }
            Id::K8sApiServers => Part::ApiServer,
            Id::K8sApiCertificates => match reason {
                Reason::ServerCertificateExpired | Reason::NoAnswer => Part::ApiCertificate,
                _ => Part::Property,
            },
            Id::K8sControlplaneApiserver => component(Component::ApiServer, problem),
            Id::K8sControlplaneControllerManager => component(Component::ControllerManager, problem),
            Id::K8sControlplaneScheduler => component(Component::Scheduler, problem),
            Id::K8sControlplaneLeases if target.name.ends_with(Component::Scheduler.name()) => {
                Part::Leader(Component::Scheduler)
            }
            Id::K8sControlplaneLeases => Part::Leader(Component::ControllerManager),
            Id::K8sNodesRegistered => match reason {
                Reason::StaleNodeObject => Part::Record,
                _ => Part::Registration,
            },
            Id::K8sNodesReady => match reason {
                Reason::CniMissing => Part::NodeNetwork,
                _ if self.node(machine).is_some_and(|node| is_silent_altogether(self.snapshot, node)) => Part::Power,
                _ => Part::NodeReady,
            },
            Id::K8sNodesSchedulable => match reason {
                Reason::NothingSchedulable => Part::Place,
                _ => Part::Property,
            },
            Id::K8sNodesCsrs => Part::Request,
            Id::K8sManifests => Part::BootstrapManifests,
            Id::K8sKubeProxy => Part::KubeProxy,
            Id::K8sCni => Part::NetworkAgent,
            // The Deployment asks for no replicas.
            Id::K8sDns if reason == Reason::DnsScaledToZero => Part::Property,
            Id::K8sSystem if self.is_network_plugin(target) => Part::NetworkAgent,
            Id::K8sDns | Id::K8sSystem => Part::Workload,
            Id::K8sPodsStarting => match reason {
                Reason::PodsNotScheduled => Part::Scheduling,
                Reason::NodeCannotAttach | Reason::NodeCannotPull => Part::Property,
                _ => Part::Sandbox,
            },
            Id::K8sWebhooks => Part::Webhook,
            Id::K8sApiservices => Part::AggregatedApi,
            Id::K8sStaticpodsRendered => Part::Manifests,
            Id::K8sStaticpodsRunning if reason == Reason::NoTolerance => Part::Tolerance,
            Id::K8sStaticpodsRunning if target.kind != Kind::Pod => Part::PodStatuses,
            Id::K8sStaticpodsRunning => match static_pod(&target.name, self.node(machine)) {
                StaticPod::Etcd if self.snapshot.talos.is_none() => Part::EtcdPod,
                of => Part::StaticPod(of),
            },
            Id::UpgradeDrain => match reason {
                Reason::SlowTermination => Part::Drain,
                Reason::DrainImpossible => Part::AnyDrain,
                Reason::BudgetCountsLost => Part::Workload,
                _ => Part::Property,
            },
            Id::UpgradeRoom => Part::Place,
            Id::UpgradeQuorum => match reason {
                Reason::LastApiServer => Part::OtherServer,
                Reason::LastComponent => Part::OtherComponent,
                Reason::LastDnsEndpoint => Part::Workload,
                _ => Part::UpgradeQuorum,
            },
            // A property of the target; no other part depends on it.
            _ => Part::Property,
        }
    }
}

impl Graph<'_> {
    fn is_network_plugin(&self, target: &Target) -> bool {
        let sets = self.snapshot.kubernetes.iter().flat_map(|it| it.daemon_sets.iter().flatten());
        let mut plugins = sets.filter(|set| set.is_network_agent() || set.installs_network);
        plugins.any(|set| is_workload(target, &set.namespace, &set.name))
    }

    pub(super) fn some_server_works(&self) -> bool {
        self.passed.iter().any(|(check, machine)| *check == CheckId::K8sApiServers && machine.is_some())
    }
}

/// Returns whether the service has not started yet and has not exited on its own.
fn waits_to_start(service: &Service) -> bool {
    service.is_starting() && !keeps_exiting(service)
}

/// Returns whether the problem concerns access: a refusal depends on the request, and an unknown CA on what the kubeconfig trusts, no
/// matter which server answers.
fn is_about_access(reason: Reason) -> bool {
    use Reason::{Forbidden, ForbiddenOrStarting, Throttled, Unauthorized, UnknownCa};
    matches!(reason, Unauthorized | Forbidden | ForbiddenOrStarting | Throttled | UnknownCa)
}

fn component(component: Component, problem: &Problem) -> Part {
    match problem.reason {
        Reason::ComponentNotReady if problem.about != Some(About::NotStarted) => Part::Ready(component),
        Reason::StatusStale => Part::StaticPod(StaticPod::Component(component)),
        _ => Part::Component(component),
    }
}

fn static_pod(name: &str, node: Option<&Node>) -> StaticPod {
    let is_etcd = |node: &Node| name.strip_prefix("etcd-") == Some(node.name.as_str());
    match node.and_then(|node| Component::of_static_pod(name, node)) {
        Some(component) => StaticPod::Component(component),
        None if node.is_some_and(is_etcd) => StaticPod::Etcd,
        None => StaticPod::Own,
    }
}

fn condition(name: &str) -> Condition {
    match name {
        "services" => Condition::Services,
        "time" => Condition::Time,
        "network" => Condition::Network,
        "staticPods" => Condition::StaticPods,
        "nodeReady" => Condition::NodeReady,
        _ => Condition::Other,
    }
}
