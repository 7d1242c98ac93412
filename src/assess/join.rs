//! Finds the machine behind a name in Kubernetes. Pods, leases, endpoints and certificate requests name Nodes, and a Node is matched with
//! its machine by name, machine ID or address, so comparing names is not enough.

use std::collections::HashMap;

use super::Assessment;
use super::components::Component;
use super::population::Machine;
use super::workloads::mirror_pod;
use crate::snapshot::{Node, Pod};

/// Returns the index of each machine by the name of its Node object.
pub(super) fn by_object<'a>(machines: &[Machine<'a>]) -> HashMap<&'a str, usize> {
    let objects = machines.iter().enumerate().filter_map(|(at, machine)| Some((machine.object?.name.as_str(), at)));
    // If two machines match one Node, the first counts.
    objects.rev().collect()
}

impl<'a> Assessment<'a> {
    /// Returns the machine behind the Node with this name. If there is no such Node, returns the machine with this name.
    pub(crate) fn machine_of(&self, name: &str) -> Option<&'a Node> {
        let at = self.by_object.get(name).or_else(|| self.by_name.get(name))?;
        Some(&self.snapshot.nodes[*at])
    }

    /// Returns the machine that a pod is on.
    pub(crate) fn host_of(&self, pod: &Pod) -> Option<&'a Node> {
        self.machine_of(pod.node.as_deref()?)
    }

    /// Returns true if the pod is on this machine.
    pub(crate) fn is_on(&self, pod: &Pod, node: &Node) -> bool {
        pod.node.as_deref() == Some(self.name_in_kubernetes(node))
    }

    /// Returns the mirror pod of a control plane component on this machine.
    pub(crate) fn mirror_of(&self, pods: &'a [Pod], node: &Node, component: Component) -> Option<&'a Pod> {
        mirror_pod(pods, self.name_in_kubernetes(node), component.name())
    }

    /// Returns the name of a machine in Kubernetes, or its own name if it has no Node.
    pub(crate) fn name_in_kubernetes<'b>(&self, node: &'b Node) -> &'b str
    where
        'a: 'b,
    {
        self.object(node).map_or(&node.name, |object| &object.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Snapshot;
    use crate::testing::fixture::healthy;

    /// A cluster with a worker whose hostname changed after its kubelet registered: the Node has the same machine ID, but another name.
    fn renamed() -> Snapshot {
        let mut snapshot = healthy();
        let id = snapshot.kube_node_mut("w-1").machine_id.clone();
        let node = snapshot.node_mut("w-1");
        "worker-1".clone_into(&mut node.name);
        node.machine_id = Some(id);
        snapshot.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        snapshot
    }

    #[test]
    fn a_name_in_kubernetes_leads_to_the_machine_behind_the_node() {
        let snapshot = renamed();
        let cluster = Assessment::of(&snapshot);
        let machine = cluster.machine_of("w-1").unwrap();
        assert_eq!((machine.name.as_str(), cluster.name_in_kubernetes(machine)), ("worker-1", "w-1"));
        assert!(cluster.node("w-1").is_none());
        let pod = cluster.all_pods().find(|pod| pod.node.as_deref() == Some("w-1")).unwrap();
        assert_eq!(cluster.host_of(pod).unwrap().name, "worker-1");
        // Without a Node, the machine's own name counts.
        let mut alone = snapshot.clone();
        alone.kube().nodes.as_mut().unwrap().retain(|object| object.name != "w-1");
        let cluster = Assessment::of(&alone);
        assert_eq!(cluster.machine_of("worker-1").map(|node| cluster.name_in_kubernetes(node)), Some("worker-1"));
        assert!(cluster.machine_of("w-1").is_none());
    }

    /// A machine that is being removed serves no requests, under either name.
    #[test]
    fn a_machine_that_leaves_does_so_under_both_names() {
        let mut snapshot = renamed();
        snapshot.node_mut("worker-1").leaving = true;
        let cluster = Assessment::of(&snapshot);
        assert!(cluster.machine_of("w-1").is_some_and(|machine| machine.leaving));
    }
}
