//! The control plane's own components: where each one runs, and its state on each control plane.

use std::collections::HashMap;

use jiff::Timestamp;

use super::Assessment;
use super::access::contact;
use super::life::Life;
use super::population::{etcd_is_bad, has_kubernetes};
use super::workloads::{Renewal, Trouble, describe_unready, renewal, worse};
use crate::model::CheckId;
use crate::snapshot::{Gap, GapKind, Lease, Node, Observed, Pod, PodState, StaticPodStatus, TalosNode};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Component {
    ApiServer,
    ControllerManager,
    Scheduler,
}

impl Component {
    pub(crate) const ALL: [Self; 3] = [Self::ApiServer, Self::ControllerManager, Self::Scheduler];

    /// Returns the name of the static pod, without the node's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
        }
    }

    /// Returns the check that judges the component.
    pub(crate) fn check(self) -> CheckId {
        match self {
            Self::ApiServer => CheckId::K8sControlplaneApiserver,
            Self::ControllerManager => CheckId::K8sControlplaneControllerManager,
            Self::Scheduler => CheckId::K8sControlplaneScheduler,
        }
    }

    /// Returns whether the machine configuration enables the component. The API server cannot be disabled.
    pub(crate) fn enabled(self, node: &TalosNode) -> Observed<Option<bool>> {
        match self {
            Self::ApiServer => Ok(Some(true)),
            Self::ControllerManager => node.controller_manager_enabled.clone(),
            Self::Scheduler => node.scheduler_enabled.clone(),
        }
    }

    /// Returns true if `id` is the id of the component's static pod. Older versions of Talos append the node's name.
    pub(crate) fn is_rendered_as(self, id: &str, node: &Node) -> bool {
        let rest = id.strip_prefix(self.name());
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-') == Some(node.name.as_str()))
    }

    /// Returns the component that a static pod belongs to.
    pub(crate) fn of_static_pod(id: &str, node: &Node) -> Option<Self> {
        Self::ALL.into_iter().find(|component| component.is_rendered_as(id, node))
    }

    /// Returns true if Talos lists its static pods and the component is among them.
    fn is_rendered(self, node: &Node) -> bool {
        node.talos.static_pods.as_ref().is_ok_and(|ids| ids.iter().any(|id| self.is_rendered_as(id, node)))
    }

    /// Returns true if Talos lists its static pods and the component is not among them.
    pub(crate) fn is_not_rendered(self, node: &Node) -> bool {
        node.talos.static_pods.as_ref().is_ok_and(|ids| !ids.iter().any(|id| self.is_rendered_as(id, node)))
    }

    /// Returns true if the static pod is this component's on this node. A pod with the same name in another namespace belongs to the user.
    pub(crate) fn is_of(self, status: &StaticPodStatus, node: &Node) -> bool {
        status.namespace == "kube-system" && status.name == self.pod_name(node)
    }

    pub(crate) fn pod_name(self, node: &Node) -> String {
        format!("{}-{}", self.name(), node.name)
    }
}

/// The lease for which the instances of a component compete.
pub(crate) struct Election<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) holder: Option<&'a str>,
    pub(crate) renewed: Option<Timestamp>,
    pub(crate) renewal: Renewal,
}

/// A component on one control plane.
pub(crate) struct Instance<'a> {
    /// State of the static pod from Talos, otherwise of its mirror pod. `None`: the pod was looked up and does not exist.
    pub(crate) pod: Result<Option<&'a PodState>, NoPods<'a>>,
    pub(crate) state: State<'a>,
}

/// The state of a component on a control plane.
pub(crate) enum State<'a> {
    /// The machine reports that it does not run Kubernetes.
    NoKubernetes,
    /// The machine does not respond, or its kubelet's last report may be outdated.
    Unreliable,
    /// Disabled in the machine configuration.
    Disabled,
    /// No source reports the pod.
    Unseen(NoPods<'a>),
    Ready,
    /// The mirror pod is listed as ready, but the kubelet is no longer known to report.
    Silent,
    NotReady(Trouble),
    /// No pod here, but another control plane runs the component and its lease is renewed. Nothing shows whether the component is disabled
    /// here.
    Untold,
    /// No pod, and neither the machine configuration nor, without Talos, the lease shows whether the component is disabled.
    MayBeDisabled(Gap),
    /// No pod, because Talos has not rendered it.
    NotRendered,
    /// No pod, although one is expected.
    Missing,
}

impl State<'_> {
    pub(crate) fn is_fine(&self) -> bool {
        matches!(self, Self::NoKubernetes | Self::Disabled | Self::Ready | Self::Untold)
    }
}

/// The reason why no source reports the pods of a control plane.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoPods<'a> {
    /// Only Kubernetes was queried, and it has no pod list.
    NotListed,
    /// Kubernetes has no pod list, and Talos returned an empty one although it may have rendered the pod.
    NoStatus,
    /// Kubernetes has no pod list, and Talos returned this gap.
    Gap(&'a Gap),
}

/// The place where a component runs, if only Kubernetes was queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// Control planes. Also assumed with Talos or without a list of pods; the [`State`] of each instance then has the details.
    Here,
    /// No pod anywhere: the component is disabled or missing, and nothing shows which.
    Nowhere,
    /// No pod anywhere, but this holder, which is on no known control plane, renews the lease.
    Elsewhere(&'a str),
    /// No static pod of it or of any API server exists: the component is a process of its nodes, or is hosted elsewhere. Its lease, the
    /// endpoints of default/kubernetes and the servers' own answers show its state.
    Process,
}

#[derive(Default)]
pub(super) struct Components<'a> {
    places: Vec<Place<'a>>,
    /// Instances by the node name of their control plane.
    instances: HashMap<&'a str, Vec<Instance<'a>>>,
}

impl<'a> Components<'a> {
    pub(super) fn of(cluster: &Assessment<'a>) -> Self {
        let on = |node: &'a Node| (node.name.as_str(), Component::ALL.map(|it| instance(cluster, node, it)).into());
        Self {
            places: Component::ALL.map(|component| place(cluster, component)).into(),
            instances: cluster.control_planes().map(on).collect(),
        }
    }
}

impl<'a> Assessment<'a> {
    pub(crate) fn place(&self, component: Component) -> Place<'a> {
        self.components.places[component as usize]
    }

    /// Returns the instance of a component on a control plane.
    pub(crate) fn instance(&self, node: &Node, component: Component) -> &Instance<'a> {
        &self.components.instances[node.name.as_str()][component as usize]
    }

    /// Returns the state of a static pod on this machine. Talos can keep reporting the kubelet's earlier status, so if Kubernetes also
    /// lists the pod, the worse of the two counts. If the kubelet is silent, Kubernetes' status is the older one and is ignored.
    pub(crate) fn static_pod(&self, node: &Node, status: &'a StaticPodStatus) -> &'a PodState {
        let is_silent = matches!(self.life_of(node), Life::Silent | Life::Removed);
        let pods = self.list(|it| &it.pods).filter(|_| !is_silent).into_iter().flatten();
        let is_it = |pod: &Pod| (&pod.namespace, &pod.name) == (&status.namespace, &status.name);
        let of_node = |pod: &&Pod| pod.mirror && self.is_on(pod, node) && is_it(pod);
        worse(&status.state, pods.filter(of_node).map(|pod| &pod.state).next())
    }

    /// Returns true if the holder of a lease is not on any known control plane. The holder's name begins with its hostname, which may be
    /// longer or shorter than the machine's name by a domain.
    pub(crate) fn is_outsider(&self, holder: &str) -> bool {
        let host = holder.rsplit_once('_').map_or(holder, |(host, _)| host);
        // Talos derives the node name from the hostname.
        let first = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase().replace('_', "-");
        let is_host = |name: &str| first(name) == first(host);
        let names = |node: &'a Node| node.talos.nodename.iter().flatten().chain([&node.name]);
        !self.control_planes().any(|node| names(node).any(|name| is_host(name)))
    }

    /// Returns true if control planes should run the component. They should not if it runs elsewhere, or if it runs nowhere and its check
    /// is skipped.
    pub(crate) fn is_missed(&self, component: Component) -> bool {
        match self.place(component) {
            Place::Here => true,
            Place::Nowhere => !self.asked.skips(component.check()),
            Place::Elsewhere(_) | Place::Process => false,
        }
    }

    /// Returns the component's lease, if it exists and the leases were read.
    pub(crate) fn election(&self, component: Component) -> Option<Election<'a>> {
        let leases = self.list(|kubernetes| &kubernetes.system_leases)?;
        let lease = leases.by_name.get(component.name())?;
        let Lease { namespace, holder, renewed, .. } = lease;
        let renewal = renewal(lease, leases.date);
        Some(Election { namespace, holder: holder.as_deref(), renewed: *renewed, renewal })
    }
}

fn place<'a>(cluster: &Assessment<'a>, component: Component) -> Place<'a> {
    let Some(pods) = cluster.list(|kubernetes| &kubernetes.pods) else { return Place::Here };
    if cluster.asks_talos() || !is_shown_nowhere(cluster, pods, component) {
        return Place::Here;
    }
    if !pods.iter().any(Pod::is_api_server) && (!pods.is_empty() || cluster.system_has_no_pods()) {
        return Place::Process;
    }
    if component == Component::ApiServer {
        return Place::Here;
    }
    // A lease that may still be renewed has a holder.
    let election = cluster.election(component).filter(|it| it.renewal != Renewal::Lapsed);
    election
        .and_then(|it| it.holder)
        .filter(|holder| cluster.is_outsider(holder))
        .map_or(Place::Nowhere, Place::Elsewhere)
}

fn instance<'a>(cluster: &Assessment<'a>, node: &'a Node, component: Component) -> Instance<'a> {
    let pod = pod(cluster, node, component);
    Instance { pod, state: state(cluster, node, component, pod) }
}

fn pod<'a>(cluster: &Assessment<'a>, node: &'a Node, component: Component) -> Result<Option<&'a PodState>, NoPods<'a>> {
    let mirror = |why| {
        let pods = cluster.list(|kubernetes| &kubernetes.pods).ok_or(why)?;
        Ok(cluster.mirror_of(pods, node, component).map(|pod| &pod.state))
    };
    if !cluster.asks_talos() {
        return mirror(NoPods::NotListed);
    }
    match &node.talos.static_pod_statuses {
        // The kubelet is running and Talos cannot read its pods. Kubernetes may have more information.
        Ok(statuses) if statuses.is_empty() && !component.is_not_rendered(node) => mirror(NoPods::NoStatus),
        Ok(statuses) => {
            let it = statuses.iter().find(|status| component.is_of(status, node));
            Ok(it.map(|status| cluster.static_pod(node, status)))
        }
        Err(gap) => mirror(NoPods::Gap(gap)),
    }
}

/// Returns true if, without Talos, this control plane runs an API server but not this component, while another control plane runs it and
/// its lease is renewed. Returns the gap if the lease cannot be read.
fn leads_elsewhere(cluster: &Assessment<'_>, node: &Node, component: Component) -> Observed<bool> {
    let Some(pods) = cluster.list(|it| &it.pods).filter(|_| !cluster.asks_talos()) else { return Ok(false) };
    let is_led = || cluster.election(component).is_some_and(|it| it.renewal == Renewal::Renewed);
    let runs = |node: &Node, component: Component| {
        let pod = cluster.mirror_of(pods, node, component);
        cluster.life_of(node) == Life::Works
            && pod.is_some_and(|pod| describe_unready(&pod.state, cluster.server_time()).is_none())
    };
    // Every control plane runs an API server.
    let may_lack_it = component != Component::ApiServer
        && runs(node, Component::ApiServer)
        // Rules out even a pod that merely has the component's name.
        && pods.iter().all(|pod| pod.name != component.pod_name(node));
    let is_here = cluster.control_planes().any(|other| other.name != node.name && runs(other, component));
    match cluster.any_kubernetes().map(|it| &it.system_leases) {
        _ if !may_lack_it => Ok(false),
        Some(Ok(_)) => Ok(is_here && is_led()),
        // The component may also run outside the cluster.
        Some(Err(gap)) if is_here || is_shown_nowhere(cluster, pods, component) => Err(gap.clone()),
        _ => Ok(false),
    }
}

fn is_shown_nowhere(cluster: &Assessment<'_>, pods: &[Pod], component: Component) -> bool {
    cluster.nodes().iter().all(|node| cluster.mirror_of(pods, node, component).is_none())
}

fn state<'a>(
    cluster: &Assessment<'a>,
    node: &Node,
    component: Component,
    pod: Result<Option<&PodState>, NoPods<'a>>,
) -> State<'a> {
    if cluster.asks_talos() {
        // The machine itself reports this, so its lack of a kubelet is not an obstacle.
        if contact(node).is_some() && has_kubernetes(node) == Some(false) {
            return State::NoKubernetes;
        }
        if contact(node).is_none() || cluster.kubelet_is_doubtful(node) {
            return State::Unreliable;
        }
        if component.enabled(&node.talos) == Ok(Some(false)) {
            return State::Disabled;
        }
    }
    // Talos reports none of the machine's pods.
    let is_mirror = node.talos.static_pod_statuses.as_ref().map_or(true, Vec::is_empty);
    match pod {
        Err(why) => State::Unseen(why),
        Ok(Some(pod)) => match describe_unready(pod, cluster.server_time()) {
            Some(trouble) => State::NotReady(trouble),
            None if is_mirror && cluster.kubelet_is_silent(node) => State::Silent,
            None => State::Ready,
        },
        Ok(None) => match (leads_elsewhere(cluster, node, component), component.enabled(&node.talos)) {
            (Ok(true), _) => State::Untold,
            (Err(gap), _) => State::MayBeDisabled(gap),
            (_, Err(gap)) if cluster.asks_talos() && !component.is_rendered(node) => State::MayBeDisabled(gap),
            // Before the bootstrap, nothing is rendered.
            (_, Ok(None)) if component.is_not_rendered(node) && !etcd_is_bad(node) => State::MayBeDisabled(Gap::new(
                GapKind::ServerError,
                format!("Talos has no configuration of {}", component.name()),
            )),
            _ if component.is_not_rendered(node) => State::NotRendered,
            _ => State::Missing,
        },
    }
}
