//! The nodes: querying each machine, and merging the answers into the final list.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::join_all;
use tokio::time::Instant;

use super::endpoints::{Endpoints, Sighting, TalosSide};
use super::join::{Candidate, Index};
use super::kubelet::beside;
use super::population::{self, KnownEndpoint, Said};
use super::silent::Greeting;
use super::talos::{Lane, Member, NodeAsk, TalosClient};
use super::{API_PORT, Observer};
use crate::model::Fact;
use crate::model::{Role, Shared};
use crate::snapshot::{
    EtcdMember, Gap, GapKind, KubeNode, KubeNodes, Node, Observed, Part, ServingCertificate, Snapshot, TalosNode,
    own_role,
};

/// A node and its answers.
pub(super) struct Answered {
    pub(super) candidate: Candidate,
    pub(super) talos: Shared<TalosNode>,
    /// The addresses that are known to be its own: those that it reported, else those of the sources once all of them are known. Empty if
    /// they are unknown.
    known: BTreeSet<IpAddr>,
    /// The reason why a machine that no source knows by name did not report its addresses.
    unread: Option<Gap>,
}

impl Answered {
    fn new(candidate: Candidate, talos: Shared<TalosNode>, own_addresses: Observed<Vec<String>>) -> Self {
        let known = own_addresses.as_deref().map(ips).unwrap_or_default();
        Self { known, unread: own_addresses.err(), candidate, talos }
    }

    /// Takes the addresses of the sources for its own, if it has not reported any.
    fn learn_addresses(&mut self) {
        let Candidate { sources, addresses, own_addresses, .. } = &self.candidate;
        if self.known.is_empty() {
            self.known = ips(if sources.discovery || sources.kubernetes { addresses } else { own_addresses });
        }
    }

    /// Returns the name of the machine. One that was queried only by address may have reported its name.
    fn name(&self) -> Option<&String> {
        self.candidate.name.iter().chain(self.talos.nodename.iter().flatten()).next()
    }

    /// Returns whether candidates from different stages of a round are the same machine. An address that was assigned to another machine
    /// proves nothing.
    pub(super) fn is(&self, other: &Candidate) -> bool {
        let is_at = || self.candidate.addresses.iter().any(|address| other.addresses.contains(address));
        let has_names = self.name().is_some() && other.name.is_some();
        self.candidate.may_be(self.name(), other, None) && (has_names || is_at())
    }

    /// Whether machines of the same name are two machines: both have answered, and they share no address.
    fn is_another(&self, other: &Self) -> bool {
        let apart = !self.known.is_empty() && !other.known.is_empty() && self.known.is_disjoint(&other.known);
        apart && self.is_elsewhere(other)
    }

    /// Whether machines of the same name may be two machines: both have answered, and the addresses of at least one could not be read.
    fn may_be_another(&self, other: &Self) -> bool {
        (self.unread.is_some() || other.unread.is_some()) && self.is_elsewhere(other)
    }

    fn is_elsewhere(&self, other: &Self) -> bool {
        let at = |machine: &Self| match &machine.talos.contact {
            Ok(contact) if contact.answered_by_other.is_none() => Some(contact.address.clone()),
            _ => None,
        };
        matches!((at(self), at(other)), (Some(a), Some(b)) if a != b)
    }

    fn merge(&mut self, other: Self) {
        self.known.extend(other.known);
        self.candidate.merge(other.candidate);
        if self.talos.contact.is_err() && other.talos.contact.is_ok() {
            self.talos = other.talos;
        }
    }

    fn is_of_member(&self, member: &EtcdMember) -> bool {
        let TalosNode { nodename, etcd_member_id, etcd_status, .. } = &*self.talos;
        let ids = etcd_member_id.iter().copied().flatten().chain(etcd_status.iter().map(|status| status.member_id));
        let mut names = self.candidate.name.iter().chain(nodename.iter().flatten());
        ids.into_iter().any(|id| id == member.id)
            || names.any(|name| name.eq_ignore_ascii_case(&member.name))
            || member.hosts().iter().any(|host| self.candidate.addresses.contains(host))
    }
}

/// Returns the addresses of etcd members that these machines list but that are none of them.
fn other_members(nodes: &[Answered]) -> Vec<Candidate> {
    let is_own =
        |node: &&Answered| node.talos.contact.as_ref().is_ok_and(|contact| contact.answered_by_other.is_none());
    let lists = nodes.iter().filter(is_own).flat_map(|node| node.talos.etcd_members.iter().flatten());
    let mut found: Vec<Candidate> = Vec::new();
    for member in lists.filter(|member| !nodes.iter().any(|node| node.is_of_member(member))) {
        let addresses: Vec<String> = member.hosts().into_iter().filter(|host| host.parse::<IpAddr>().is_ok()).collect();
        let is_new = !found.iter().any(|known| known.addresses.iter().any(|address| addresses.contains(address)));
        if is_new && !addresses.is_empty() {
            found.push(Candidate { addresses, role: Some(Role::ControlPlane), is_talos: true, ..Candidate::default() });
        }
    }
    found
}

impl Observer<'_> {
    /// Returns every machine that some source has named so far.
    pub(super) fn population(&self, known: &Endpoints, kube_nodes: &[KubeNode]) -> Vec<Candidate> {
        let mut members: Vec<Member> = Vec::new();
        let mut names = HashSet::new();
        for member in known.answers.iter().flatten().filter_map(|answer| answer.members.as_ref().ok()).flatten() {
            if names.insert(&member.name) {
                members.push(member.clone());
            }
        }
        let hosts = self.talos.iter().flat_map(TalosSide::machines);
        let endpoints: Vec<KnownEndpoint> = hosts
            .zip(&known.answers)
            .filter_map(|(host, answer)| {
                let endpoint = &answer.as_ref()?.endpoint;
                endpoint.version.as_ref().ok()?;
                let own_addresses = answer.as_ref()?.addresses.clone().unwrap_or_default();
                let mut addresses = own_addresses.clone();
                if !addresses.contains(host) {
                    addresses.push(host.clone());
                }
                Some(KnownEndpoint {
                    addresses,
                    own_addresses,
                    name: endpoint.nodename.clone().ok().flatten(),
                    role: endpoint.role.clone().ok().flatten(),
                    machine_id: answer.as_ref()?.machine_id.clone().ok().flatten(),
                })
            })
            .collect();
        // A node that the per-node checks are narrowed to has to exist.
        let by_hand: Vec<String> =
            self.talos.iter().flat_map(|side| &side.context_nodes).chain(&self.asked.nodes).cloned().collect();
        population::population(&Said {
            members: &members,
            lists_are_own: !known.discovery_tells_of_others(),
            kube_nodes,
            control_plane_flags: &self.asked.control_plane_nodes,
            worker_flags: &self.asked.worker_nodes,
            context_nodes: &by_hand,
            asks_talos: self.talos.is_some(),
            endpoints: &endpoints,
            kubernetes_host: self.kubernetes_host.as_deref(),
        })
    }

    /// Queries the nodes, and then the control planes that only etcd lists. If such a control plane does not answer, it does not count as a
    /// node; its etcd member is judged instead.
    pub(super) async fn ask_nodes_and_members(&self, seen: &Sighting, until: Instant) -> Vec<Answered> {
        if let Some(TalosSide { client: Some(client), .. }) = &self.talos {
            client.expect(seen.population.len());
        }
        let mut nodes = self.ask_nodes(seen.population.clone(), &seen.endpoints, until).await;
        let members = self.ask_nodes(other_members(&nodes), &seen.endpoints, until).await;
        nodes.extend(members.into_iter().filter(|member| member.talos.contact.is_ok()));
        nodes
    }

    /// Queries all nodes at once, each independently.
    pub(super) async fn ask_nodes(
        &self,
        candidates: Vec<Candidate>,
        known: &Endpoints,
        until: Instant,
    ) -> Vec<Answered> {
        let working = known.forwarding();
        // Shared, because there may be thousands of them.
        let not_talos = Shared::from(TalosNode::unasked(&Gap::new(GapKind::NotAsked, "not a Talos node")));
        join_all(candidates.into_iter().map(|candidate| {
            let (working, not_talos) = (&working, &not_talos);
            async move {
                let before = self.repeated.as_ref().and_then(|all| all.get(&candidate.label()));
                if let Some(talos) = before {
                    return Answered::new(candidate, talos.clone(), Ok(Vec::new()));
                }
                if !candidate.is_talos && self.has_client() {
                    return Answered::new(candidate, not_talos.clone(), Ok(Vec::new()));
                }
                // Boxed, because most of thousands of machines wait for their turn.
                Box::pin(self.ask(candidate, working, known, until)).await
            }
        }))
        .await
    }

    fn has_client(&self) -> bool {
        self.talos.as_ref().is_some_and(|side| side.client.is_some())
    }

    async fn ask(&self, candidate: Candidate, working: &[usize], known: &Endpoints, until: Instant) -> Answered {
        let asked = self.ask_node(&candidate, working, known, until);
        let (mut talos, certificate) = beside(asked, self.kubelet_certificate(&candidate, until)).await;
        talos.kubelet_certificate = certificate;
        let own_addresses = self.own_addresses(&candidate, &talos, until).await;
        Answered::new(candidate, talos, own_addresses)
    }

    async fn ask_node(
        &self,
        candidate: &Candidate,
        working: &[usize],
        known: &Endpoints,
        until: Instant,
    ) -> Shared<TalosNode> {
        let Some(TalosSide { client: Some(client), .. }) = &self.talos else {
            return TalosNode::unasked(&Gap::not_asked()).into();
        };
        if working.is_empty() {
            return TalosNode::unasked(&known.no_way()).into();
        }
        let name = candidate.label();
        let expected: Vec<String> = candidate.name.iter().cloned().collect();
        let role = candidate.role.unwrap_or(Role::Unknown);
        let ask =
            NodeAsk { name: &name, addresses: &candidate.addresses, expected: &expected, role, lane: Lane::Normal };
        let asked = Box::pin(async {
            // If the silent machine is one of the endpoints, answers through the others are delayed.
            let patient_until = (self.began + self.patience).max(Instant::now() + self.patience / 2);
            let waits_until = until.min(patient_until);
            match self.silent.has_answered(&name, || self.greeting(client, &ask, working), waits_until).await {
                Ok(()) => client.node(&ask, &self.facts, working, until).await,
                Err(gap) => TalosNode::unasked(&gap).into(),
            }
        });
        let shown = candidate.shown();
        self.awaited.one(Part::Nodes, shown, |node: &Shared<TalosNode>| node.contact.is_ok(), asked).await
    }

    /// Begins a greeting that outlives the round.
    fn greeting(&self, client: &Arc<TalosClient>, ask: &NodeAsk<'_>, working: &[usize]) -> Greeting {
        // Each call has its own limit, and with hundreds of silent machines it takes a while until this one is next.
        let until = Instant::now() + 6 * self.attempt_timeout;
        let (client, working) = (Arc::clone(client), working.to_vec());
        let (name, addresses, expected, role) =
            (ask.name.to_owned(), ask.addresses.to_vec(), ask.expected.to_vec(), ask.role);
        let greeted = tokio::spawn(async move {
            let ask = NodeAsk { name: &name, addresses: &addresses, expected: &expected, role, lane: Lane::Slow };
            client.greet(&ask, &working, until).await
        });
        let ended =
            greeted.map(|ended| ended.unwrap_or_else(|error| Err(Gap::new(GapKind::Broken, error.to_string()))));
        ended.boxed().shared()
    }

    async fn kubelet_certificate(&self, candidate: &Candidate, until: Instant) -> Observed<ServingCertificate> {
        let mut shown = Err(Gap::not_asked());
        if candidate.is_talos && self.facts.contains(&Fact::KubeletCertificate) {
            for address in &candidate.addresses {
                shown = self.handshakes.with(address, until).await;
                // A network may be closed to this runner, so the next address is tried.
                let is_closed = |gap: &Gap| matches!(gap.kind, GapKind::ConnectionRefused | GapKind::NoRoute);
                if !shown.as_ref().is_err_and(is_closed) {
                    break;
                }
            }
        }
        shown
    }

    /// Returns the addresses of control planes that the configuration names: their kubelets need not wait for discovery.
    pub(super) fn expected_kubelets(&self) -> impl Iterator<Item = &str> {
        let is_whole = self.repeated.is_none() && self.facts.contains(&Fact::KubeletCertificate);
        self.expected_control_planes().filter(move |_| is_whole)
    }

    async fn own_addresses(&self, candidate: &Candidate, talos: &TalosNode, until: Instant) -> Observed<Vec<String>> {
        match (&self.talos, &talos.contact) {
            (Some(TalosSide { client: Some(client), .. }), Ok(contact)) if candidate.name.is_none() => {
                Box::pin(client.own_addresses(contact, until)).await
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Reads only etcd's status again, from the control planes that can be queried.
    pub(super) async fn etcd_again(
        &self,
        facts: &BTreeSet<Fact>,
        snapshot: &Snapshot,
        until: Instant,
    ) -> Vec<(String, Shared<TalosNode>)> {
        let Some(TalosSide { client: Some(client), hosts, .. }) = &self.talos else { return Vec::new() };
        if !facts.contains(&Fact::EtcdMembership) {
            return Vec::new();
        }
        let working: Vec<usize> = snapshot
            .talos
            .iter()
            .flat_map(|talos| talos.endpoints.iter().enumerate())
            .filter(|(index, endpoint)| *index < hosts.len() && endpoint.version.is_ok())
            // Workers do not forward.
            .filter(|(_, endpoint)| !matches!(endpoint.role, Ok(Some(Role::Worker))))
            .map(|(index, _)| index)
            .collect();
        let only = BTreeSet::from([Fact::EtcdMembership]);
        // A machine whose etcd was silent throughout the first sample is not waited for again.
        let is_silent = |node: &&Node| matches!(&node.talos.etcd_status, Err(gap) if gap.kind == GapKind::TimedOut);
        let control_planes = snapshot.control_planes().filter(|node| node.talos.contact.is_ok());
        let control_planes = control_planes.filter(|node| !is_silent(node));
        join_all(control_planes.map(|node| {
            let (working, only) = (&working, &only);
            async move {
                let names = [node.name.clone()];
                let ask = NodeAsk {
                    name: &node.name,
                    addresses: &node.addresses,
                    expected: &names,
                    role: node.role,
                    lane: Lane::Normal,
                };
                (node.name.clone(), Box::pin(client.node(&ask, only, working, until)).await)
            }
        }))
        .await
    }

    /// Turns answers into nodes: merges those of one machine, and prefers the roles that machines report themselves.
    pub(super) fn finish(&self, asked: Vec<Answered>) -> Vec<Node> {
        let mut nodes = Vec::new();
        let mut guesses = HashSet::new();
        for (name, Answered { candidate, talos, .. }) in machines(asked) {
            let own_role = Some(own_role(&talos.machine_type)).filter(|role| *role != Role::Unknown);
            let is_silent = talos.contact.is_err();
            // A machine that answers without reporting its role may be more than its label in Kubernetes shows. A silent machine cannot be
            // assumed to be a worker because its Node lacks a label.
            let is_guess = !candidate.role_told && candidate.is_talos;
            if is_guess && is_silent {
                guesses.insert(name.clone());
            }
            let mut node = Node {
                address: address(&candidate, &talos),
                hostname: candidate.hostname,
                role: own_role.or(candidate.role.filter(|_| !is_guess || is_silent)).unwrap_or(Role::Unknown),
                sources: candidate.sources,
                is_talos: candidate.is_talos,
                leaving: candidate.leaving,
                out_of_scope: false,
                api_port: candidate.api_port.unwrap_or(API_PORT),
                addresses: candidate.addresses,
                own_addresses: candidate.own_addresses,
                machine_id: candidate.machine_id,
                own_machine_id: candidate.own_machine_id,
                name: candidate.name.unwrap_or_default(),
                talos,
            };
            let is_named = self.asked.names(&node);
            // A machine that the user named has to exist, and one that is to be drained is judged even if its removal has begun.
            node.leaving &= !node.sources.flags && !is_named && !self.asked.upgrade.drains(&node);
            node.out_of_scope = !is_named && !self.asked.nodes.is_empty();
            nodes.push(Node { name, ..node });
        }
        mark_etcd_members(&mut nodes, &guesses);
        keep_etcd_members(&mut nodes);
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        nodes
    }
}

/// Returns the address at which the machine answers, or was expected to.
fn address(candidate: &Candidate, talos: &TalosNode) -> String {
    match &talos.contact {
        Ok(contact) => contact.address.clone(),
        Err(_) => candidate.addresses.first().cloned().unwrap_or_else(|| candidate.label()),
    }
}

/// Merges the answers of each machine. Two addresses given by hand usually belong to one machine. If they belong to two, both have to be
/// judged, and because no other source has a name for the second one, its address is added to the name. Each machine comes with the name
/// that it is shown by.
fn machines(asked: Vec<Answered>) -> Vec<(String, Answered)> {
    let mut all: Vec<Answered> = Vec::new();
    let mut index = Index::default();
    for mut new in asked {
        new.learn_addresses();
        let name = new.name().cloned().unwrap_or_else(|| new.candidate.label());
        new.candidate.name = Some(name.clone());
        if let Some(at) = index.called(&name).find(|at| !all[*at].is_another(&new)) {
            let known = &mut all[at];
            if !known.may_be_another(&new) {
                known.merge(new);
                continue;
            }
            // Neither known to be the same machine nor known to be another: it counts as unseen and must not be left out.
            if known.unread.is_some() {
                mem::swap(known, &mut new);
            }
            if let Some(gap) = &new.unread {
                new.talos = TalosNode::unasked(gap).into();
            }
        }
        if let Some(first) = index.called(&name).next() {
            let known = &mut all[first];
            if new.candidate.sources.kubernetes && !known.candidate.sources.kubernetes {
                // The Node belongs to the new machine.
                mem::swap(known, &mut new);
            }
        }
        index.add(all.len(), &new.candidate);
        all.push(new);
    }
    let named = all.into_iter().enumerate().map(|(at, machine)| {
        let name = machine.candidate.label();
        match index.called(&name).next() {
            Some(first) if first != at => {
                (format!("{name} ({})", address(&machine.candidate, &machine.talos)), machine)
            }
            _ => (name, machine),
        }
    });
    named.collect()
}

fn ips(addresses: &[String]) -> BTreeSet<IpAddr> {
    addresses.iter().filter_map(|address| address.parse().ok()).collect()
}

/// Returns the addresses of a control plane at which another machine may answer, such as a virtual IP, which discovery lists for its
/// current holder: neither Kubernetes nor the machine's etcd reports these addresses. Empty if they report none of its addresses.
fn doubtful(node: &Node, members: &[EtcdMember], kube_nodes: &KubeNodes<'_>) -> Vec<String> {
    if node.role != Role::ControlPlane {
        return Vec::new();
    }
    let id = node.talos.etcd_member_id.clone().ok().flatten();
    let is_own = |member: &&EtcdMember| id.map_or(member.name == node.name, |id| member.id == id);
    let hosts = members.iter().filter(is_own).flat_map(EtcdMember::hosts);
    let objects = kube_nodes.called(&node.name);
    let known: BTreeSet<String> = hosts.chain(objects.flat_map(|object| object.addresses.clone())).collect();
    let (own, others): (Vec<_>, Vec<_>) = node.addresses.iter().cloned().partition(|it| known.contains(it));
    if own.is_empty() { Vec::new() } else { others }
}

/// Puts each machine's own address first, regardless of which one has answered. Returns the doubtful addresses of each machine.
pub(super) fn put_own_first(nodes: &mut [Node], kube_nodes: &[KubeNode]) -> BTreeMap<String, Vec<String>> {
    let members: Vec<_> = nodes.iter().flat_map(|node| node.talos.etcd_members.iter().flatten()).cloned().collect();
    let kube_nodes = KubeNodes::of(kube_nodes);
    let mut found = BTreeMap::new();
    for node in nodes {
        let doubtful = doubtful(node, &members, &kube_nodes);
        node.addresses.sort_by_key(|address| doubtful.contains(address));
        if doubtful.contains(&node.address) {
            node.address.clone_from(&node.addresses[0]);
        }
        found.insert(node.name.clone(), doubtful);
    }
    found
}

/// Uses etcd as a source of nodes: a member with a machine's id, name or address belongs to that machine. Only control planes have members,
/// so a machine that has not reported its role is a control plane if it has one. `guesses` contains the names of machines whose role is
/// only a guess.
fn mark_etcd_members(nodes: &mut [Node], guesses: &HashSet<String>) {
    let members = || nodes.iter().filter_map(|node| node.talos.etcd_members.as_ref().ok()).flatten();
    let ids: HashSet<u64> = members().map(|member| member.id).collect();
    let names: HashSet<String> = members().map(|member| member.name.clone()).collect();
    let hosts: HashSet<String> = members().flat_map(EtcdMember::hosts).collect();
    for node in nodes {
        let id = node.talos.etcd_member_id.clone().ok().flatten();
        node.sources.etcd = id.is_some_and(|id| ids.contains(&id)) || names.contains(&node.name);
        let is_untold = node.role == Role::Unknown || guesses.contains(&node.name);
        if is_untold && (node.sources.etcd || node.addresses.iter().any(|it| hosts.contains(it))) {
            node.role = Role::ControlPlane;
        }
    }
}

/// Clears `leaving` on control planes that are, or may be, etcd members: marking a Node for removal does not remove its member.
fn keep_etcd_members(nodes: &mut [Node]) {
    let members: Vec<_> = nodes
        .iter()
        .filter(|node| !node.leaving)
        .flat_map(|node| node.talos.etcd_members.iter().flatten())
        .cloned()
        .collect();
    for node in nodes.iter_mut().filter(|node| node.role == Role::ControlPlane) {
        node.leaving &=
            !(members.is_empty() || node.sources.etcd || members.iter().any(|member| member.could_be(node)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Contact, Sources, Version};

    fn talos(address: &str) -> TalosNode {
        let version = Version { tag: "v1.13.0".into(), mode: "metal".into() };
        let contact = Contact {
            endpoint: "10.0.0.1".into(),
            address: address.into(),
            version,
            answered_by_other: None,
            not_through: Vec::new(),
        };
        TalosNode { contact: Ok(contact), ..TalosNode::unasked(&Gap::not_asked()) }
    }

    fn node(name: &str, address: &str) -> Node {
        Node {
            name: name.into(),
            hostname: None,
            address: address.into(),
            addresses: vec![address.into()],
            own_addresses: Vec::new(),
            machine_id: None,
            own_machine_id: None,
            role: Role::Worker,
            sources: Sources::default(),
            is_talos: true,
            leaving: false,
            out_of_scope: false,
            api_port: API_PORT,
            talos: talos(address).into(),
        }
    }

    fn machine(name: &str, address: &str, known: &[&str]) -> Answered {
        let (name, addresses) = (Some(name.to_owned()), vec![address.to_owned()]);
        let candidate = Candidate { name, addresses, is_talos: true, ..Candidate::default() };
        let known = known.iter().map(|&address| address.to_owned()).collect();
        Answered::new(candidate, talos(address).into(), Ok(known))
    }

    fn names(all: impl IntoIterator<Item = Answered>) -> Vec<String> {
        machines(all.into_iter().collect()).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn two_machines_of_one_name_are_two() {
        let first = || machine("w-1", "10.0.0.4", &["10.0.0.4"]);
        assert_eq!(names([first(), machine("w-1", "10.0.0.5", &["10.0.0.5"])]), ["w-1", "w-1 (10.0.0.5)"]);
        let third = machine("w-1", "10.0.0.6", &["10.0.0.6"]);
        let again = machine("w-1", "w-1.k8s.example", &["10.0.0.6"]);
        let second = machine("w-1", "10.0.0.5", &["10.0.0.5"]);
        assert_eq!(names([first(), second, third, again]), ["w-1", "w-1 (10.0.0.5)", "w-1 (10.0.0.6)"]);
    }

    #[test]
    fn two_addresses_of_one_machine_are_one() {
        let first = || machine("w-1", "10.0.0.4", &["10.0.0.4", "2001:db8::4"]);
        assert_eq!(names([first(), machine("w-1", "2001:DB8::4", &["2001:db8::4", "10.0.0.4"])]), ["w-1"]);
        assert_eq!(names([first(), machine("w-1", "w-1.k8s.example", &["10.0.0.4"])]), ["w-1"]);
        assert_eq!(names([first(), machine("w-1", "203.0.113.4", &[])]), ["w-1"], "nobody knows its addresses");
        let mut silent = machine("w-1", "10.0.0.5", &["10.0.0.5"]);
        silent.talos.contact = Err(Gap::not_asked());
        assert_eq!(names([first(), silent]), ["w-1"], "it did not answer");
    }

    #[test]
    fn a_machine_of_unread_addresses_is_not_taken_for_its_namesake() {
        let first = || machine("w-1", "10.0.0.4", &["10.0.0.4"]);
        let unread = |address| Answered { unread: Some(Gap::not_asked()), ..machine("w-1", address, &[]) };
        for all in [[first(), unread("10.0.0.5")], [unread("10.0.0.5"), first()]] {
            let seen: Vec<_> =
                machines(all.into()).into_iter().map(|(name, it)| (name, it.talos.contact.is_ok())).collect();
            assert_eq!(seen, [("w-1".to_owned(), true), ("w-1 (10.0.0.5)".to_owned(), false)]);
        }
        assert_eq!(names([first(), unread("10.0.0.4")]), ["w-1"], "it answered there");
    }

    fn member(name: &str, host: &str) -> EtcdMember {
        let peer_urls = vec![format!("https://{host}:2380")];
        EtcdMember { id: 1, name: name.into(), peer_urls, client_urls: Vec::new(), is_learner: false }
    }

    #[test]
    fn members_that_nobody_else_names_are_asked_where_their_peers_find_them() {
        let first = |change: &dyn Fn(&mut TalosNode)| {
            let Node { name, addresses, mut talos, .. } = node("cp-1", "10.0.0.1");
            talos.etcd_members = Ok(vec![
                EtcdMember { id: 2, ..member("cp-2", "10.0.0.2") },
                EtcdMember { id: 3, ..member("", "10.0.0.3") },
                EtcdMember { id: 4, ..member("cp-4", "cp-4.example") },
            ]);
            change(&mut talos);
            let candidate = Candidate { name: Some(name), addresses, ..Candidate::default() };
            Answered::new(candidate, talos, Ok(Vec::new()))
        };
        let asked = |nodes: &[Answered]| -> Vec<String> {
            other_members(nodes).into_iter().flat_map(|candidate| candidate.addresses).collect()
        };
        // Each machine resolves a name itself and may reach a different machine by it, so only addresses are used.
        assert_eq!(asked(&[first(&|_| ())]), ["10.0.0.2", "10.0.0.3"]);
        // A machine that is already known by id, name or address is not queried again.
        assert_eq!(asked(&[first(&|talos| talos.etcd_member_id = Ok(Some(2)))]), ["10.0.0.3"]);
        let known = |name: Option<&str>, address: &str| {
            let candidate = Candidate {
                name: name.map(str::to_owned),
                addresses: vec![address.to_owned()],
                ..Candidate::default()
            };
            let talos = TalosNode::unasked(&Gap::not_asked()).into();
            Answered::new(candidate, talos, Ok(Vec::new()))
        };
        assert_eq!(asked(&[first(&|_| ()), known(Some("CP-2"), "10.9.0.2")]), ["10.0.0.3"]);
        assert_eq!(asked(&[first(&|_| ()), known(None, "10.0.0.3")]), ["10.0.0.2"]);
        // An answer that another machine gave in place of this one does not count.
        let other = first(&|talos| talos.contact.as_mut().unwrap().answered_by_other = Some("cp-9".into()));
        assert_eq!(asked(&[other]), [""; 0]);
    }

    #[test]
    fn a_virtual_ip_that_discovery_lists_is_not_what_its_machine_is_called() {
        let with = |change: &dyn Fn(&mut Node), kube_nodes: &[KubeNode]| {
            let mut other = node("cp-2", "10.0.0.2");
            other.role = Role::ControlPlane;
            other.talos.etcd_members = Ok(vec![member("cp-1", "10.0.0.1"), member("cp-2", "10.0.0.2")]);
            let mut node = node("cp-1", "10.0.0.100");
            node.role = Role::ControlPlane;
            node.addresses = ["10.0.0.100", "10.9.0.1", "10.0.0.1"].map(str::to_owned).to_vec();
            change(&mut node);
            let mut nodes = [other, node];
            let doubtful = put_own_first(&mut nodes, kube_nodes).remove("cp-1").unwrap();
            let [_, Node { address, addresses, .. }] = nodes;
            (address, addresses.join(" "), doubtful.join(" "))
        };
        let text = |parts: [&str; 3]| (parts[0].to_owned(), parts[1].to_owned(), parts[2].to_owned());
        let own = text(["10.0.0.1", "10.0.0.1 10.0.0.100 10.9.0.1", "10.0.0.100 10.9.0.1"]);
        assert_eq!(with(&|_| (), &[]), own, "by the name of its member");
        assert_eq!(with(&|node| node.talos.contact = Err(Gap::not_asked()), &[]), own, "it is down");
        let as_it_was = text(["10.0.0.100", "10.0.0.100 10.9.0.1 10.0.0.1", ""]);
        assert_eq!(with(&|node| node.talos.etcd_member_id = Ok(Some(9)), &[]), as_it_was, "it is no member");
        assert_eq!(with(&|node| node.role = Role::Worker, &[]), as_it_was);
        let object = |address: &str| KubeNode {
            name: "cp-1".to_owned(),
            addresses: vec![address.to_owned()],
            internal: vec![address.to_owned()],
            overlay: Vec::new(),
            overlay_is_set: false,
            labels: BTreeMap::new(),
            machine_id: String::new(),
            boot_id: String::new(),
            control_plane_label: true,
            os_image: String::new(),
            kernel: String::new(),
            kubelet_version: String::new(),
            unschedulable: false,
            cordoned_by_talos: false,
            cordoned_since: None,
            taints: Vec::new(),
            pod_cidrs: Vec::new(),
            out_of: Vec::new(),
            conditions: Vec::new(),
            deleting: false,
            leaving_since: None,
            told: None,
            created: None,
        };
        let both = text(["10.9.0.1", "10.9.0.1 10.0.0.1 10.0.0.100", "10.0.0.100"]);
        assert_eq!(with(&|_| (), &[object("10.9.0.1")]), both, "Kubernetes has another of its addresses");
        // The only address is used, whether doubtful or not.
        let only = |node: &mut Node| node.addresses.truncate(1);
        assert_eq!(with(&only, &[]), text(["10.0.0.100", "10.0.0.100", ""]));
    }

    #[test]
    fn whom_etcd_lists_is_a_control_plane_unless_it_says_otherwise() {
        let role_of = |told: Role, members: Observed<Vec<EtcdMember>>, guesses: &[&str]| {
            let cp_3 = Node { role: told, ..node("cp-3", "10.0.0.3") };
            let mut other = node("cp-1", "10.0.0.1");
            other.talos.etcd_members = members;
            let mut nodes = [other, cp_3];
            mark_etcd_members(&mut nodes, &guesses.iter().map(|&name| name.to_owned()).collect());
            nodes[1].role
        };
        let role = |told: Role, members: Observed<Vec<EtcdMember>>| role_of(told, members, &[]);
        let own = member("cp-1", "10.0.0.1");
        let of = |name, address| Ok(vec![own.clone(), member(name, address)]);
        assert_eq!(role(Role::Unknown, of("cp-3", "10.9.0.3")), Role::ControlPlane, "by its name");
        assert_eq!(role(Role::Unknown, of("cp-3.example.org", "10.0.0.3")), Role::ControlPlane, "by its address");
        assert_eq!(role(Role::Worker, of("cp-3", "10.0.0.3")), Role::Worker, "it was one");
        assert_eq!(
            role_of(Role::Worker, of("cp-3", "10.0.0.3"), &["cp-3"]),
            Role::ControlPlane,
            "its Node lacks a label"
        );
        assert_eq!(role_of(Role::Worker, Ok(vec![own.clone()]), &["cp-3"]), Role::Worker);
        assert_eq!(role(Role::Unknown, Ok(vec![own.clone()])), Role::Unknown);
        assert_eq!(role(Role::Unknown, Err(Gap::not_asked())), Role::Unknown);
    }

    #[test]
    fn a_control_plane_leaves_once_etcd_no_longer_knows_it() {
        let leaves = |role: Role, members: Observed<Vec<EtcdMember>>| {
            let mut leaving = node("cp-3", "10.0.0.3");
            (leaving.role, leaving.leaving) = (role, true);
            let mut other = node("cp-1", "10.0.0.1");
            other.talos.etcd_members = members;
            let mut nodes = [other, leaving];
            mark_etcd_members(&mut nodes, &HashSet::new());
            keep_etcd_members(&mut nodes);
            nodes[1].leaving
        };
        let own = member("cp-1", "10.0.0.1");
        assert!(leaves(Role::ControlPlane, Ok(vec![own.clone()])));
        assert!(!leaves(Role::ControlPlane, Ok(vec![own.clone(), member("cp-3", "10.9.0.3")])), "by its name");
        assert!(!leaves(Role::ControlPlane, Ok(vec![own, member("", "10.0.0.3")])), "by its address");
        assert!(!leaves(Role::ControlPlane, Ok(Vec::new())), "nobody tells of members");
        assert!(!leaves(Role::ControlPlane, Err(Gap::not_asked())));
        assert!(leaves(Role::Worker, Err(Gap::not_asked())));
    }
}
