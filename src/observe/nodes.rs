//! The nodes: which there are, what each says of itself, and what is known of it in the end.

use std::collections::BTreeSet;
use std::net::IpAddr;

use futures::future::join_all;
use tokio::time::Instant;

use super::endpoints::{Endpoints, TalosSide};
use super::population::{self, Candidate, KnownEndpoint, Said};
use super::talos::{Lane, Member, NodeAsk};
use super::{API_PORT, Observer};
use crate::checks::Fact;
use crate::snapshot::{Gap, GapKind, KubeNode, Node, Role, Snapshot, TalosNode};

/// A node and what it says.
pub(super) struct Answered {
    pub(super) candidate: Candidate,
    pub(super) talos: TalosNode,
    /// Addresses that it has by its own word. Asked only of machines that no source knows by name.
    pub(super) own_addresses: BTreeSet<IpAddr>,
}

impl Answered {
    /// Two candidates of different rounds of questions that mean the same machine.
    pub(super) fn is(&self, other: &Candidate) -> bool {
        match (&self.candidate.name, &other.name) {
            (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
            _ => self.candidate.addresses.iter().any(|address| other.addresses.contains(address)),
        }
    }
}

impl Observer<'_> {
    /// Every machine that some source names by now.
    pub(super) fn population(&self, known: &Endpoints, kube_nodes: &[KubeNode]) -> Vec<Candidate> {
        let mut members: Vec<Member> = Vec::new();
        for member in known.answers.iter().flatten().filter_map(|answer| answer.members.as_ref().ok()).flatten() {
            if !members.iter().any(|known| known.name == member.name) {
                members.push(member.clone());
            }
        }
        let hosts = self.talos.iter().flat_map(|side| &side.hosts);
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
                })
            })
            .collect();
        // A node that the per-node checks are narrowed to has to be there.
        let by_hand: Vec<String> =
            self.talos.iter().flat_map(|side| &side.context_nodes).chain(&self.scope).cloned().collect();
        population::population(&Said {
            members: &members,
            lists_are_own: !known.discovery_tells_of_others(),
            kube_nodes,
            control_plane_flags: &self.asked.control_plane_nodes,
            worker_flags: &self.asked.worker_nodes,
            context_nodes: &by_hand,
            endpoints: &endpoints,
            kubernetes_host: self.kubernetes_host.as_deref(),
        })
    }

    /// Asks each node for itself, all at once.
    pub(super) async fn ask_nodes(
        &self,
        candidates: Vec<Candidate>,
        known: &Endpoints,
        until: Instant,
    ) -> Vec<Answered> {
        let working = known.forwarding();
        join_all(candidates.into_iter().map(|candidate| {
            let working = &working;
            async move {
                let talos = self.ask_node(&candidate, working, known, until).await;
                let own_addresses = self.own_addresses(&candidate, &talos, until).await;
                Answered { candidate, talos, own_addresses }
            }
        }))
        .await
    }

    async fn ask_node(&self, candidate: &Candidate, working: &[usize], known: &Endpoints, until: Instant) -> TalosNode {
        let Some(TalosSide { client: Some(client), .. }) = &self.talos else {
            return TalosNode::unasked(&Gap::not_asked());
        };
        if !candidate.is_talos {
            return TalosNode::unasked(&Gap::new(GapKind::NotAsked, "not a Talos node"));
        }
        if working.is_empty() {
            return TalosNode::unasked(&known.no_way());
        }
        let name = population::label(candidate);
        let expected: Vec<String> = candidate.name.iter().cloned().collect();
        let lane = if self.slow.contains(&name) { Lane::Slow } else { Lane::Normal };
        let role = candidate.role.unwrap_or(Role::Unknown);
        let ask = NodeAsk { name: &name, addresses: &candidate.addresses, expected: &expected, role, lane };
        Box::pin(client.node(&ask, &self.facts, working, until)).await
    }

    async fn own_addresses(&self, candidate: &Candidate, talos: &TalosNode, until: Instant) -> BTreeSet<IpAddr> {
        match (&self.talos, &talos.contact) {
            (Some(TalosSide { client: Some(client), .. }), Ok(contact)) if candidate.name.is_none() => {
                ips(&Box::pin(client.own_addresses(contact, until)).await.unwrap_or_default())
            }
            _ => BTreeSet::new(),
        }
    }

    /// Only etcd's word on itself, from the control planes that can be asked.
    pub(super) async fn etcd_again(
        &self,
        facts: &BTreeSet<Fact>,
        snapshot: &Snapshot,
        until: Instant,
    ) -> Vec<(String, TalosNode)> {
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
        let control_planes = snapshot.control_planes().filter(|node| node.talos.contact.is_ok());
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

    /// From what was asked to what is known: names and roles as the nodes themselves tell them, duplicates merged.
    pub(super) fn finish(&self, asked: Vec<Answered>) -> Vec<Node> {
        let mut machines: Vec<Machine> = Vec::new();
        for Answered { candidate, talos, own_addresses } in asked {
            let own_name = talos.nodename.clone().ok().flatten();
            let name = candidate.name.clone().or(own_name).unwrap_or_else(|| population::label(&candidate));
            let own_role = talos.machine_type.clone().ok().flatten().filter(|role| *role != Role::Unknown);
            let address = match &talos.contact {
                Ok(contact) => contact.address.clone(),
                Err(_) => candidate.addresses.first().unwrap_or(&name).clone(),
            };
            let told = candidate.sources.discovery || candidate.sources.kubernetes;
            let known = if own_addresses.is_empty() && told { ips(&candidate.addresses) } else { own_addresses };
            // A machine that answers and does not say what it is may be more than its label in Kubernetes admits.
            let is_guess = !candidate.role_told && candidate.is_talos && talos.contact.is_ok();
            let node = Node {
                address,
                role: own_role.or(candidate.role.filter(|_| !is_guess)).unwrap_or(Role::Unknown),
                sources: candidate.sources,
                is_talos: candidate.is_talos,
                leaving: candidate.leaving,
                out_of_scope: !self.in_scope(&name, &candidate.addresses),
                api_port: candidate.api_port.unwrap_or(API_PORT),
                addresses: candidate.addresses,
                own_addresses: candidate.own_addresses,
                machine_id: candidate.machine_id,
                name,
                talos,
            };
            add(&mut machines, Machine { name: node.name.clone(), known, node });
        }
        let mut nodes: Vec<Node> = machines.into_iter().map(|machine| machine.node).collect();
        mark_etcd_members(&mut nodes);
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        nodes
    }

    fn in_scope(&self, name: &str, addresses: &[String]) -> bool {
        self.scope.is_empty()
            || self.scope.iter().any(|wanted| wanted.eq_ignore_ascii_case(name) || addresses.contains(wanted))
    }
}

/// It has not answered, in a way that costs time.
pub(super) fn is_slow(node: &TalosNode) -> bool {
    matches!(&node.contact, Err(gap) if matches!(gap.kind, GapKind::TimedOut | GapKind::ConnectTimedOut | GapKind::NodeUnreachable))
}

/// A node on its way to the snapshot.
struct Machine {
    /// What it calls itself, or is called.
    name: String,
    node: Node,
    /// The addresses that are known to be its own; none: nobody knows.
    known: BTreeSet<IpAddr>,
}

impl Machine {
    /// Both have answered, and no address is both's: two machines were given one name.
    fn is_another(&self, other: &Self) -> bool {
        let at = |machine: &Self| match &machine.node.talos.contact {
            Ok(contact) if contact.answered_by_other.is_none() => Some(contact.address.clone()),
            _ => None,
        };
        let apart = !self.known.is_empty() && !other.known.is_empty() && self.known.is_disjoint(&other.known);
        apart && matches!((at(self), at(other)), (Some(a), Some(b)) if a != b)
    }
}

/// Two addresses given by hand mostly turn out to be one machine. Where they are two, both have to be judged: nothing else
/// knows the second one by its name.
fn add(machines: &mut Vec<Machine>, mut new: Machine) {
    if let Some(index) = machines.iter().position(|known| known.name == new.name && !known.is_another(&new)) {
        let known = &mut machines[index];
        known.known.extend(new.known);
        merge(&mut known.node, new.node);
        return;
    }
    if machines.iter().any(|known| known.name == new.name) {
        new.node.name = format!("{} ({})", new.name, new.node.address);
    }
    machines.push(new);
}

fn ips(addresses: &[String]) -> BTreeSet<IpAddr> {
    addresses.iter().filter_map(|address| address.parse().ok()).collect()
}

fn merge(known: &mut Node, other: Node) {
    for address in other.addresses {
        if !known.addresses.contains(&address) {
            known.addresses.push(address);
        }
    }
    known.own_addresses.extend(other.own_addresses);
    known.machine_id = known.machine_id.take().or(other.machine_id);
    known.sources.discovery |= other.sources.discovery;
    known.sources.kubernetes |= other.sources.kubernetes;
    known.sources.flags |= other.sources.flags;
    known.sources.talosconfig |= other.sources.talosconfig;
    known.is_talos |= other.is_talos;
    known.leaving |= other.leaving;
    known.out_of_scope &= other.out_of_scope;
    if known.talos.contact.is_err() && other.talos.contact.is_ok() {
        known.talos = other.talos;
        known.address = other.address;
    }
    if known.role == Role::Unknown {
        known.role = other.role;
    }
}

/// etcd is a source of nodes, too: a member of this id or name belongs to this machine.
fn mark_etcd_members(nodes: &mut [Node]) {
    let members: Vec<_> =
        nodes.iter().filter_map(|node| node.talos.etcd_members.as_ref().ok()).flatten().cloned().collect();
    for node in nodes {
        let id = node.talos.etcd_member_id.clone().ok().flatten();
        node.sources.etcd = members.iter().any(|member| Some(member.id) == id || member.name == node.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Contact, Sources, Version};

    fn machine(name: &str, address: &str, known: &[&str]) -> Machine {
        let version = Version { tag: "v1.13.0".into(), mode: "metal".into() };
        let contact = Contact {
            endpoint: "10.0.0.1".into(),
            address: address.into(),
            version,
            answered_by_other: None,
            not_through: Vec::new(),
        };
        let node = Node {
            name: name.into(),
            address: address.into(),
            addresses: vec![address.into()],
            own_addresses: Vec::new(),
            machine_id: None,
            role: Role::Worker,
            sources: Sources::default(),
            is_talos: true,
            leaving: false,
            out_of_scope: false,
            api_port: API_PORT,
            talos: TalosNode { contact: Ok(contact), ..TalosNode::unasked(&Gap::not_asked()) },
        };
        let known: Vec<String> = known.iter().map(|&address| address.to_owned()).collect();
        Machine { name: name.into(), node, known: ips(&known) }
    }

    fn names(all: impl IntoIterator<Item = Machine>) -> Vec<String> {
        let mut machines = Vec::new();
        for machine in all {
            add(&mut machines, machine);
        }
        machines.into_iter().map(|machine| machine.node.name).collect()
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
        silent.node.talos.contact = Err(Gap::not_asked());
        assert_eq!(names([first(), silent]), ["w-1"], "it did not answer");
    }
}
