//! Determines whether an endpoint of a Service serves. Kubernetes removes an endpoint some time after its pod or its node has ended, and a
//! Service may publish endpoints that are not ready.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::Assessment;
use super::life::Life;
use super::workloads::{is_well, workload_of};
use crate::snapshot::{BoundPod, Pod, ServiceEndpoint};

/// Time within which the endpoints of a Service follow its pods, even if their controller is busy.
pub(crate) const UNNOTICED: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Serving {
    Yes,
    No(Why),
    /// No evidence against it, but a list that may contain some was not read. Checks that count it as serving report what is missing.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    /// Not ready by the endpoint's own conditions, or not serving this protocol.
    NotReady,
    /// No list has its pod.
    PodGone,
    /// The pod has been unready for a while.
    PodUnready,
    /// The pod is being deleted and is no longer ready.
    PodDeleted,
    /// The pod is being deleted and serves for as long as it takes to stop.
    PodStopping,
    /// The pod has other addresses.
    OtherAddress,
    /// The kubelet of its node is silent, or reports that the node is not ready, or Talos shows that the machine is down.
    NodeLost,
    /// The node was removed, or is being removed and no longer works. Its pods are created elsewhere.
    NodeGone,
}

impl Serving {
    /// Returns true if nothing is known to prevent serving.
    pub(crate) fn may_be(self) -> bool {
        self.fault().is_none()
    }

    pub(crate) fn fault(self) -> Option<Why> {
        match self {
            Self::Yes | Self::Unknown => None,
            Self::No(why) => Some(why),
        }
    }

    /// Returns true if the endpoint serves, or would on a working node.
    pub(crate) fn but_for_its_node(self) -> bool {
        matches!(self, Self::Yes | Self::Unknown | Self::No(Why::NodeLost | Why::NodeGone))
    }

    /// Combines two findings about an endpoint: the worse one counts.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No(why), _) | (_, Self::No(why)) => Self::No(why),
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Yes, Self::Yes) => Self::Yes,
        }
    }
}

/// The number of instances that a Service needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    AtLeastOne,
    Replicas(usize),
}

/// Whether a Service has the instances that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Met<'e> {
    Fully,
    /// Every missing instance is on a lost node. Lists these nodes, including those that are being removed or are gone.
    Excused(Vec<&'e str>),
    Short,
}

/// Instances of a Service, keyed by pod name because a pod has an endpoint for each address family. Instances that do not serve have the
/// name of their node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Instances<'e> {
    pub(crate) serving: BTreeSet<Cow<'e, str>>,
    /// Instances on nodes that are being removed or are gone. They count while others serve, because replacements are being created.
    pub(crate) moving: BTreeMap<Cow<'e, str>, &'e str>,
    /// Instances on nodes whose kubelet is silent or reports that the node is not ready.
    pub(crate) lost: BTreeMap<Cow<'e, str>, &'e str>,
}

impl<'e> Instances<'e> {
    /// Returns the number of instances that serve or are about to be replaced.
    pub(crate) fn enough(&self) -> usize {
        self.serving.len() + self.moving.len()
    }

    pub(crate) fn met(&self, want: Want) -> Met<'e> {
        match want {
            Want::AtLeastOne if self.serving.is_empty() => Met::Short,
            Want::Replicas(replicas) if replicas > self.enough() + self.lost.len() => Met::Short,
            Want::Replicas(replicas) if replicas > self.enough() => Met::Excused(self.hosts()),
            Want::AtLeastOne | Want::Replicas(_) => Met::Fully,
        }
    }

    /// Returns the nodes whose state keeps instances from serving.
    pub(crate) fn hosts(&self) -> Vec<&'e str> {
        self.lost.values().chain(self.moving.values()).copied().collect()
    }

    /// Adds pods that do not work because their nodes are lost.
    pub(crate) fn lose(&mut self, pods: impl IntoIterator<Item = &'e Pod>) {
        let placed = pods.into_iter().filter_map(|pod| Some((Cow::from(&pod.name), pod.node.as_deref()?)));
        self.lost.extend(placed);
    }
}

/// The pod lists in which a check looks for the pod of an endpoint. The check has to declare them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodLists {
    /// Pods of kube-system. Pods of other namespaces are not looked up, and their endpoints are trusted.
    System,
    /// Pods of all namespaces that are bound to a node as well.
    Bound,
}

/// Bound pods by namespace and name.
pub(super) type BoundPods<'a> = HashMap<(&'a str, &'a str), &'a BoundPod>;

pub(super) fn bound_pods<'a>(cluster: &Assessment<'a>) -> Option<BoundPods<'a>> {
    let pods = cluster.list(|kubernetes| &kubernetes.bound_pods)?;
    Some(pods.iter().map(|pod| ((pod.namespace.as_str(), pod.name.as_str()), pod)).collect())
}

impl Assessment<'_> {
    /// Returns whether an endpoint of a Service serves clients that use `protocol`.
    pub(crate) fn serving(&self, lists: PodLists, endpoint: &ServiceEndpoint, protocol: &str) -> Serving {
        if !endpoint.serves(protocol) {
            return Serving::No(Why::NotReady);
        }
        let Some(pod) = &endpoint.pod else { return self.serving_on(endpoint.node.as_deref()) };
        let by_bound = match lists {
            PodLists::System => Serving::Yes,
            PodLists::Bound => self.bound_pod_serving(&endpoint.namespace, pod),
        };
        let by_system = match endpoint.namespace.as_str() {
            "kube-system" => self.system_pod_serving(pod, endpoint),
            _ => Serving::Yes,
        };
        by_bound.and(by_system).and(self.serving_on(endpoint.node.as_deref()))
    }

    /// Returns the instances of a Service that have an endpoint for this protocol.
    pub(crate) fn instances<'e>(
        &self,
        lists: PodLists,
        endpoints: &'e [ServiceEndpoint],
        protocol: &str,
    ) -> Instances<'e> {
        let mut instances = Instances::default();
        for endpoint in endpoints {
            let name = endpoint.pod.as_ref().map_or_else(|| endpoint.addresses.join(" ").into(), Cow::from);
            let node = endpoint.node.as_deref().unwrap_or_default();
            match self.serving(lists, endpoint, protocol) {
                Serving::Yes | Serving::Unknown => _ = instances.serving.insert(name),
                Serving::No(Why::NodeLost) => _ = instances.lost.insert(name, node),
                Serving::No(Why::NodeGone) => _ = instances.moving.insert(name, node),
                Serving::No(Why::PodStopping) if self.is_replaced(endpoint) => _ = instances.serving.insert(name),
                Serving::No(
                    Why::PodStopping
                    | Why::NotReady
                    | Why::PodGone
                    | Why::PodUnready
                    | Why::PodDeleted
                    | Why::OtherAddress,
                ) => {}
            }
        }
        instances
    }

    /// Returns true if another pod of the same workload in kube-system works and stays. The endpoints follow in a moment.
    fn is_replaced(&self, endpoint: &ServiceEndpoint) -> bool {
        let pods = self.list(|kubernetes| &kubernetes.pods).map_or(&[][..], Vec::as_slice);
        let is_it = |pod: &&Pod| Some(&pod.name) == endpoint.pod.as_ref() && pod.namespace == endpoint.namespace;
        let Some(workload) = pods.iter().find(is_it).and_then(workload_of) else { return false };
        let stays = |pod: &Pod| !pod.deleting && is_well(&pod.state) && pod.namespace == endpoint.namespace;
        pods.iter().any(|pod| stays(pod) && workload_of(pod) == Some(workload))
    }

    /// Returns whether anything on the node with this name can serve. `None`: the endpoint is not on a node.
    pub(crate) fn serving_on(&self, node: Option<&str>) -> Serving {
        let Some(name) = node else { return Serving::Yes };
        let is_leaving = self.machine_of(name).is_some_and(|node| node.leaving);
        match self.life(name) {
            Life::Works => Serving::Yes,
            Life::Unknown => Serving::Unknown,
            Life::Removed => Serving::No(Why::NodeGone),
            Life::Down | Life::Unready | Life::Silent if is_leaving => Serving::No(Why::NodeGone),
            Life::Down | Life::Unready | Life::Silent => Serving::No(Why::NodeLost),
        }
    }

    fn bound_pod_serving(&self, namespace: &str, name: &str) -> Serving {
        let Some(bound) = &self.bound_pods else { return Serving::Unknown };
        match bound.get(&(namespace, name)) {
            None => Serving::No(Why::PodGone),
            // This list does not contain the time of the change; endpoints follow within a second or two.
            Some(BoundPod { ready: true, deleting: false, .. }) => Serving::Yes,
            Some(BoundPod { ready: false, deleting: false, .. }) => Serving::No(Why::PodUnready),
            Some(BoundPod { ready: true, deleting: true, .. }) => Serving::No(Why::PodStopping),
            Some(BoundPod { ready: false, deleting: true, .. }) => Serving::No(Why::PodDeleted),
        }
    }

    fn system_pod_serving(&self, name: &str, endpoint: &ServiceEndpoint) -> Serving {
        // An empty list is not a valid answer if static pods run in the namespace.
        let Some(pods) = self.list(|kubernetes| &kubernetes.pods).filter(|pods| !pods.is_empty()) else {
            return Serving::Unknown;
        };
        let mut its = pods.iter().filter(|pod| pod.name == name).peekable();
        let why = if its.peek().is_none() { Some(Why::PodGone) } else { its.find_map(|pod| fault(pod, endpoint)) };
        why.map_or(Serving::Yes, Serving::No)
    }
}

fn fault(pod: &Pod, endpoint: &ServiceEndpoint) -> Option<Why> {
    // An endpoint has addresses of one family.
    let is_of_its_family = |it: &&String| endpoint.addresses.iter().all(|its| its.contains(':') == it.contains(':'));
    let mut own = pod.addresses.iter().filter(is_of_its_family).peekable();
    // A pod that is being deleted does not become ready again.
    if pod.deleting {
        Some(if is_well(&pod.state) { Why::PodStopping } else { Why::PodDeleted })
    } else if !is_well(&pod.state) && pod.unready_for.is_none_or(|since| since >= UNNOTICED) {
        Some(Why::PodUnready)
    } else if own.peek().is_some() && !own.any(|it| endpoint.addresses.contains(it)) {
        Some(Why::OtherAddress)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{GapKind, Snapshot};
    use crate::testing::fixture::{gap, healthy};

    /// The first endpoint of cluster DNS.
    fn of_dns(change: fn(&mut Snapshot)) -> Serving {
        let mut snapshot = healthy();
        change(&mut snapshot);
        let cluster = Assessment::of(&snapshot);
        let endpoint = &cluster.list(|kubernetes| &kubernetes.dns_endpoints).unwrap()[0];
        cluster.serving(PodLists::System, endpoint, "UDP")
    }

    #[test]
    fn what_might_speak_against_an_endpoint_has_to_be_read() {
        assert_eq!(of_dns(|_| {}), Serving::Yes);
        assert_eq!(of_dns(|it| it.kube().pods = gap(GapKind::Forbidden)), Serving::Unknown);
        assert_eq!(of_dns(|it| it.kube().pods = Ok(Vec::new())), Serving::Unknown);
        assert_eq!(of_dns(|it| it.kube().node_leases = gap(GapKind::Forbidden)), Serving::Unknown);
        let outside = |it: &mut Snapshot| {
            let endpoint = &mut it.kube().dns_endpoints.as_mut().unwrap()[0];
            (endpoint.pod, endpoint.node) = (None, None);
        };
        assert_eq!(of_dns(outside), Serving::Yes, "it is behind no pod and on no node");
        // Known evidence outweighs missing evidence.
        let removed = |it: &mut Snapshot| {
            it.kube().node_leases = gap(GapKind::Forbidden);
            it.kube().pods.as_mut().unwrap().retain(|pod| !pod.name.starts_with("coredns"));
        };
        assert_eq!(of_dns(removed), Serving::No(Why::PodGone));
    }

    #[test]
    fn of_two_words_the_one_against_it_counts() {
        let all = [Serving::Yes, Serving::Unknown, Serving::No(Why::PodGone)];
        for (at, one) in all.into_iter().enumerate() {
            for (other_at, other) in all.into_iter().enumerate() {
                assert_eq!(one.and(other), all[at.max(other_at)]);
            }
        }
    }
}
