//! Determines whether talosconfig and kubeconfig refer to the same cluster.

use std::collections::{HashMap, HashSet};

use super::access::contact;
use crate::model::CheckId;
use crate::snapshot::{
    Endpoint, EtcdMember, GapKind, KubeNode, KubeNodes, Kubernetes, Node, Observed, Readyz, Snapshot,
};
use crate::text::host;

/// The result of comparing the machines with the Node objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Only Talos or only Kubernetes is queried.
    NotCompared,
    /// The list of Node objects is missing.
    NoList,
    /// No Talos machine answers.
    NoMachine,
    Same,
    Different {
        talos: Vec<String>,
        kubernetes: Vec<String>,
        likeness: Likeness,
    },
    Undecided(Undecided),
}

/// Common features of two clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Likeness {
    Nothing,
    /// Names of some nodes, but not their addresses.
    Names,
    /// Names and addresses of some nodes, but not the machines.
    NamesAndAddresses,
}

/// The reason why the comparison is undecided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Undecided {
    EmptyList,
    /// The machines that both sides name do not answer.
    CommonAreSilent,
    /// Shared node names; Kubernetes does not list all of their addresses yet.
    NoAddress(Vec<String>),
    /// Shared node names at different addresses; etcd may know those addresses, but no machine returned a member list.
    NoMembers(Vec<String>),
}

/// The maximum number of names to show.
const NAMES: usize = 5;

pub(super) fn compare(snapshot: &Snapshot) -> Identity {
    let (Some(_), Some(kubernetes)) = (&snapshot.talos, &snapshot.kubernetes) else { return Identity::NotCompared };
    let Ok(objects) = &kubernetes.nodes else { return Identity::NoList };
    if objects.is_empty() {
        return Identity::Undecided(Undecided::EmptyList);
    }
    let answers = |node: &&Node| node.is_talos && contact(node).is_some();
    let seen: Vec<&Node> = snapshot.nodes.iter().filter(answers).collect();
    if seen.is_empty() {
        return Identity::NoMachine;
    }
    let nodes = KubeNodes::of(objects);
    if seen.iter().any(|node| node.machine_ids().any(|id| nodes.count_with_id(id) > 0)) {
        return Identity::Same;
    }
    let any = |is_it: &dyn Fn(&Node, &KubeNode) -> bool| {
        seen.iter().any(|node| nodes.called(&node.name).any(|object| is_it(node, object)))
    };
    // Machines with the same name and address in two clusters are distinguished by their machine IDs.
    let is_twin = any(&|node, object| object.is_of_a_namesake(&node.name, node.machine_ids()));
    let told = Told::of(snapshot);
    let is_at = any(&|node, object| object.is_at(&node.name, told.addresses(node)));
    if is_at && !is_twin {
        return Identity::Same;
    }
    let same_name = |node: &&&Node| nodes.called(&node.name).any(|object| object.name == node.name);
    let alike = names(seen.iter().filter(same_name).map(|node| node.name.as_str()));
    // The common nodes may be those that no longer answer, and etcd may know the addresses that Kubernetes uses.
    let discovers = snapshot.talos.as_ref().is_some_and(|talos| talos.discovery.is_ok());
    let is_silent =
        |node: &Node| node.sources.kubernetes && node.talos.contact.is_err() && (node.sources.discovery || !discovers);
    if alike.is_empty() && snapshot.nodes.iter().any(is_silent) {
        return Identity::Undecided(Undecided::CommonAreSilent);
    }
    // An external cloud provider sets the addresses of a Node some time after its kubelet has registered it.
    let known: HashSet<&str> = seen.iter().map(|node| node.name.as_str()).collect();
    let is_bare = |object: &KubeNode| object.addresses.is_empty() && known.contains(object.name.as_str());
    if !is_twin && objects.iter().any(is_bare) {
        return Identity::Undecided(Undecided::NoAddress(alike));
    }
    if !is_twin && !alike.is_empty() && snapshot.nodes.iter().all(|node| node.talos.etcd_members.is_err()) {
        return Identity::Undecided(Undecided::NoMembers(alike));
    }
    Identity::Different {
        talos: names(seen.iter().map(|node| node.name.as_str())),
        kubernetes: names(objects.iter().map(|object| object.name.as_str())),
        likeness: match is_at {
            true => Likeness::NamesAndAddresses,
            false if alike.is_empty() => Likeness::Nothing,
            false => Likeness::Names,
        },
    }
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.take(NAMES).map(str::to_owned).collect()
}

impl Identity {
    /// Returns true if Kubernetes' lists describe this cluster, if there is nothing to compare them with, or if the user has skipped the
    /// check.
    pub(super) fn is_trusted(&self, snapshot: &Snapshot) -> bool {
        matches!(self, Self::Same | Self::NotCompared) || snapshot.asked.skips(CheckId::K8sApiIdentity)
    }

    /// Returns true if Kubernetes was found to belong to another cluster and the user has not skipped the check.
    fn is_other(&self, snapshot: &Snapshot) -> bool {
        matches!(self, Self::Different { .. }) && !snapshot.asked.skips(CheckId::K8sApiIdentity)
    }
}

impl super::Assessment<'_> {
    /// Returns true if Kubernetes' lists are considered to describe this cluster.
    pub(crate) fn is_trusted(&self) -> bool {
        self.identity.is_trusted(self.snapshot)
    }

    /// Returns true if Kubernetes was found to belong to another cluster.
    pub(crate) fn is_other_cluster(&self) -> bool {
        self.identity.is_other(self.snapshot)
    }
}

/// Returns true if most API servers' certificates do not verify and none of the servers answered, while the endpoint did, and the
/// comparison does not show a different cluster.
pub(super) fn is_behind_proxy(snapshot: &Snapshot, identity: &Identity) -> bool {
    let foreign = |kubernetes: &Kubernetes| {
        let is_foreign = |it: &Observed<Readyz>| it.as_ref().is_err_and(|gap| gap.kind == GapKind::UnknownCa);
        let servers = kubernetes.servers.values();
        let foreign = servers.clone().filter(|it| is_foreign(it)).count();
        foreign * 2 > servers.len() && servers.clone().all(Result::is_err)
    };
    !matches!(identity, Identity::Different { .. })
        && snapshot.kubernetes.as_ref().is_some_and(|it| it.endpoint.is_ok() && foreign(it))
}

/// Returns true if this machine's kubelet registered this Node: both have the identity that Talos assigned to the machine.
pub(crate) fn is_machine(node: &Node, object: &KubeNode) -> bool {
    object.is_of_machine(node.machine_ids())
}

/// Addresses that Talos reports. `Node::addresses` is not suitable, because it also contains Kubernetes' addresses for nodes with the same
/// name.
struct Told<'a> {
    endpoints: HashMap<&'a str, Vec<&'a Endpoint>>,
    members: HashMap<u64, Vec<&'a EtcdMember>>,
}

impl<'a> Told<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let mut told = Self { endpoints: HashMap::new(), members: HashMap::new() };
        for endpoint in snapshot.talos.iter().flat_map(|talos| &talos.endpoints) {
            if let Ok(Some(name)) = &endpoint.nodename {
                told.endpoints.entry(name).or_default().push(endpoint);
            }
        }
        for member in snapshot.nodes.iter().flat_map(|any| &any.talos.etcd_members).flatten() {
            told.members.entry(member.id).or_default().push(member);
        }
        told
    }

    /// Returns the addresses that Talos reports for this machine.
    fn addresses<'b>(&'b self, node: &'b Node) -> impl Iterator<Item = &'b str> {
        let contact = node.talos.contact.iter().map(|contact| contact.address.as_str());
        let own = self.endpoints.get(node.name.as_str()).into_iter().flatten();
        let id = node.talos.etcd_member_id.as_ref().ok().copied().flatten();
        let members = id.and_then(|id| self.members.get(&id)).into_iter().flatten();
        let urls = members.flat_map(|member| member.peer_urls.iter().chain(&member.client_urls));
        contact.chain(own.map(|endpoint| host(&endpoint.address))).chain(urls.map(|url| host(url)))
    }
}
