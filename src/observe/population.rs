//! The machines of the cluster, from the reports of all sources.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use super::join::{Candidate, Index};
use super::talos::{Member, machine_id};
use crate::model::Role;
use crate::snapshot::{KubeNode, KubeNodes, Sources, System};

/// The reports of all sources.
#[derive(Debug, Default)]
pub(crate) struct Said<'a> {
    pub(crate) members: &'a [Member],
    /// Set if each machine has listed only itself: its own report counts, but discovery is not a source.
    pub(crate) lists_are_own: bool,
    pub(crate) kube_nodes: &'a [KubeNode],
    pub(crate) control_plane_flags: &'a [String],
    pub(crate) worker_flags: &'a [String],
    /// `nodes` of the talosconfig's context.
    pub(crate) context_nodes: &'a [String],
    /// Endpoints that have identified themselves.
    pub(crate) endpoints: &'a [KnownEndpoint],
    /// Whether Talos is queried, so that a machine that a user names is assumed to run it unless another system is reported.
    pub(crate) asks_talos: bool,
    /// Host of the Kubernetes endpoint: a virtual IP, unless it is some node's only address.
    pub(crate) kubernetes_host: Option<&'a str>,
}

/// An endpoint that answered for itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KnownEndpoint {
    /// The endpoint's addresses, and last the host it was queried at, which may belong to a balancer.
    pub(crate) addresses: Vec<String>,
    /// Addresses that the endpoint itself reports.
    pub(crate) own_addresses: Vec<String>,
    pub(crate) name: Option<String>,
    pub(crate) role: Option<Role>,
    pub(crate) machine_id: Option<String>,
}

/// Returns the union of all sources, sorted by name. A role given by a flag counts only if no other source reports one.
pub(crate) fn population(said: &Said<'_>) -> Vec<Candidate> {
    let vip = virtual_ip(said);
    let (mut all, mut index): (Vec<Candidate>, _) = (Vec::new(), Index::default());
    for candidate in everything_said(said) {
        let at = index.twin(&all, &candidate, vip.as_deref()).unwrap_or(all.len());
        match all.get_mut(at) {
            Some(known) => known.merge(candidate),
            None => all.push(candidate),
        }
        index.add(at, &all[at]);
    }
    for candidate in &mut all {
        put_last(&mut candidate.addresses, vip.as_deref());
        // If Talos is queried, a machine named by the user is assumed to run it unless its Node reports another system.
        candidate.is_talos |= candidate.by_hand && said.asks_talos && !candidate.runs_another;
        // Another machine has this hostname as its name.
        candidate.hostname.take_if(|hostname| index.called(hostname).next().is_some());
    }
    // If two machines have the same name, the one that has a Node keeps it.
    let place = |of: &Candidate| (of.label(), !of.sources.kubernetes);
    all.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| a.addresses.cmp(&b.addresses)));
    all
}

/// Collects all reports. The order matters: earlier sources have the better addresses. Kubernetes' `InternalIP` comes before discovery's
/// list, which may begin with a public or virtual address.
fn everything_said(said: &Said<'_>) -> impl Iterator<Item = Candidate> {
    let names = OwnNames::of(said);
    let kubernetes = said.kube_nodes.iter().map(move |node| Candidate {
        name: Some(names.of_node(node).unwrap_or(&node.name).to_owned()),
        addresses: node.addresses.clone(),
        // The label is only a hint; machine types overrule it.
        role: Some(if node.control_plane_label { Role::ControlPlane } else { Role::Worker }),
        sources: Sources { kubernetes: true, ..Sources::default() },
        is_talos: match node.system() {
            System::Talos => true,
            System::Untold => said.asks_talos,
            System::Another | System::Virtual => false,
        },
        runs_another: node.system() == System::Another,
        leaving: node.is_leaving(),
        registered_id: Some(node.machine_id.clone()).filter(|id| !id.is_empty()),
        ..Candidate::default()
    });
    let discovery = said.members.iter().map(|member| Candidate {
        name: Some(member.name.clone()),
        hostname: member.qualified_name().cloned(),
        addresses: member.addresses.clone(),
        own_addresses: member.addresses.clone(),
        machine_id: machine_id(&member.node_id),
        role: Some(member.role),
        role_told: member.role != Role::Unknown,
        sources: Sources { discovery: !said.lists_are_own, ..Sources::default() },
        api_port: member.api_port,
        is_talos: true,
        ..Candidate::default()
    });
    let endpoints = said.endpoints.iter().map(|endpoint| Candidate {
        name: endpoint.name.clone(),
        addresses: endpoint.addresses.clone(),
        own_addresses: endpoint.own_addresses.clone(),
        own_machine_id: endpoint.machine_id.clone(),
        role: endpoint.role,
        role_told: endpoint.role.is_some_and(|role| role != Role::Unknown),
        sources: Sources { talosconfig: true, ..Sources::default() },
        is_talos: true,
        ..Candidate::default()
    });
    let context = said.context_nodes.iter().map(|node| Candidate {
        sources: Sources { talosconfig: true, ..Sources::default() },
        ..named_by_hand(node, None)
    });
    let flags = said.control_plane_flags.iter().map(|node| named_by_hand(node, Some(Role::ControlPlane)));
    let flags = flags.chain(said.worker_flags.iter().map(|node| named_by_hand(node, Some(Role::Worker))));
    let flags =
        flags.map(|candidate| Candidate { sources: Sources { flags: true, ..Sources::default() }, ..candidate });
    // Discovery overrules Kubernetes' label, so its role is merged later (see `merge`).
    kubernetes.chain(discovery).chain(flags).chain(context).chain(endpoints)
}

/// The own names of machines that have registered under another name. Each requires proof: the same machine id, which no other Node shows,
/// and neither of the two names belongs to another machine in the other list.
struct OwnNames<'a> {
    /// Names of discovery members, in lower case.
    members: HashSet<String>,
    /// First member with each machine ID.
    by_id: HashMap<String, &'a Member>,
    nodes: KubeNodes<'a>,
}

impl<'a> OwnNames<'a> {
    fn of(said: &Said<'a>) -> Self {
        let mut by_id = HashMap::new();
        for member in said.members {
            if let Some(id) = machine_id(&member.node_id) {
                by_id.entry(id).or_insert(member);
            }
        }
        Self {
            members: said.members.iter().map(|member| member.name.to_ascii_lowercase()).collect(),
            by_id,
            nodes: KubeNodes::of(said.kube_nodes),
        }
    }

    fn of_node(&self, node: &KubeNode) -> Option<&'a String> {
        if self.members.contains(&node.name.to_ascii_lowercase()) {
            return None;
        }
        let member = self.by_id.get(&node.machine_id)?;
        let is_alone = self.nodes.count_with_id(&node.machine_id) == 1;
        let is_free = self.nodes.called(&member.name).next().is_none();
        (is_alone && is_free).then_some(&member.name)
    }
}

/// Returns the candidate for an address or node name written by a user. A text that is not an address is both tried as one and matched as a
/// name.
fn named_by_hand(node: &str, role: Option<Role>) -> Candidate {
    let role_told = role.is_some();
    Candidate { addresses: vec![node.to_owned()], role, role_told, by_hand: true, ..Candidate::default() }
}

/// The Kubernetes endpoint's host, if no machine has it as its only address and more than one control plane exists.
fn virtual_ip(said: &Said<'_>) -> Option<String> {
    let host = said.kubernetes_host?;
    let only_address = |addresses: &[String]| addresses.len() == 1 && addresses[0] == host;
    let owned = said.members.iter().any(|member| only_address(&member.addresses))
        || said.kube_nodes.iter().any(|node| only_address(&node.addresses));
    let control_planes: BTreeSet<&str> = said
        .members
        .iter()
        .filter(|member| member.role == Role::ControlPlane)
        .map(|member| member.name.as_str())
        .chain(said.kube_nodes.iter().filter(|node| node.control_plane_label).map(|node| node.name.as_str()))
        .collect();
    (!owned && control_planes.len() > 1).then(|| host.to_owned())
}

/// Returns whether these Kubernetes nodes may belong to the same cluster as these Talos nodes, as far as this is known before the machines
/// are queried. One of them has to be the same machine: by its id, or by name and address unless reported ids contradict that. If either
/// side is empty, nothing contradicts it. The final verdict, from all answers of the machines, is up to `assess::identity`.
pub(crate) fn same_cluster(talos: &[Candidate], kube_nodes: &[KubeNode]) -> bool {
    let nodes = KubeNodes::of(kube_nodes);
    let named = || talos.iter().filter_map(|candidate| Some((candidate, candidate.name.as_ref()?)));
    let namesakes = || named().flat_map(|(it, name)| nodes.called(name).map(move |node| (it, name, node)));
    let has_name_and_address = |(candidate, name, node): (&Candidate, &String, &KubeNode)| {
        let known: Vec<&str> = candidate.ips().map(|(address, _)| address).collect();
        // An external cloud provider sets the addresses some time after the node has registered.
        known.is_empty() || node.addresses.is_empty() || node.is_at(name, known.into_iter())
    };
    kube_nodes.is_empty()
        || named().next().is_none()
        || talos.iter().flat_map(Candidate::machine_ids).any(|id| nodes.count_with_id(id) > 0)
        || !namesakes().any(|(it, name, node)| node.is_of_a_namesake(name, it.machine_ids()))
            && namesakes().any(has_name_and_address)
}

/// The Kubernetes endpoint's host if several control planes exist and none of them has it as its first address.
pub(crate) fn endpoint_vip(kubernetes_host: Option<&str>, population: &[Candidate]) -> Option<String> {
    let host = kubernetes_host?;
    let control_planes = population.iter().filter(|candidate| candidate.role == Some(Role::ControlPlane)).count();
    let owned = population.iter().any(|candidate| candidate.addresses.first().is_some_and(|first| first == host));
    let is_address = host.parse::<IpAddr>().is_ok();
    (is_address && control_planes > 1 && !owned).then(|| host.to_owned())
}

/// Moves the virtual IP to the end. It is not removed, because it may be the node's only address.
fn put_last(addresses: &mut Vec<String>, vip: Option<&str>) {
    if let Some(index) = addresses.iter().position(|address| Some(address.as_str()) == vip) {
        let address = addresses.remove(index);
        addresses.push(address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::work::{is_square, work};

    /// Discovery's ID of a real machine, and its `machineID` in Kubernetes.
    const NODE_ID: &str = "Htf36ewvueIqlPLjHRUWIQgoSe46lSoJgkXqW6tf4XOA";
    const MACHINE_ID: &str = "072fc7ede96a979202684a5eb8f25440";

    fn member(name: &str, addresses: &[&str], role: Role) -> Member {
        Member {
            name: name.to_owned(),
            node_id: String::new(),
            hostname: name.to_owned(),
            addresses: addresses.iter().map(|&a| a.to_owned()).collect(),
            role,
            api_port: None,
        }
    }

    fn kube_node(name: &str, address: &str) -> KubeNode {
        KubeNode {
            kubelet_version: String::new(),
            name: name.to_owned(),
            addresses: vec![address.to_owned()],
            internal: vec![address.to_owned()],
            overlay: Vec::new(),
            overlay_is_set: false,
            labels: std::collections::BTreeMap::new(),
            machine_id: String::new(),
            boot_id: String::new(),
            control_plane_label: false,
            os_image: "Talos (v1.13.0)".to_owned(),
            kernel: String::new(),
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
        }
    }

    fn names(said: &Said<'_>) -> Vec<String> {
        population(said).iter().map(Candidate::label).collect()
    }

    #[test]
    fn a_node_that_is_being_removed_leaves() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let node = |leaving_since| KubeNode { leaving_since, told: Some(now), ..kube_node("w-1", "10.0.0.4") };
        for (since, leaves) in [(None, false), (Some(now), true)] {
            assert_eq!(population(&Said { kube_nodes: &[node(since)], ..Said::default() })[0].leaving, leaves);
        }
    }

    #[test]
    fn sources_meet_by_name() {
        let members = [member("cp-1", &["10.0.0.1"], Role::ControlPlane)];
        let nodes = [kube_node("CP-1", "10.0.0.1")];
        let all = population(&Said { members: &members, kube_nodes: &nodes, ..Said::default() });
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].role, Some(Role::ControlPlane), "the machine type overrules the label");
        assert!(all[0].role_told);
        assert!(!population(&Said { kube_nodes: &nodes, ..Said::default() })[0].role_told, "a label is a guess");
        assert!(all[0].sources.discovery && all[0].sources.kubernetes);
    }

    #[test]
    fn a_flag_makes_a_control_plane_of_a_node_without_the_label_and_no_worker_of_one_that_has_it() {
        let label = |label| [KubeNode { control_plane_label: label, ..kube_node("cp-1", "10.0.0.1") }];
        let (named, none) = (["cp-1".to_owned()], []);
        let role = |labeled, flags: (&[String], &[String]), members: &[Member]| {
            let said = Said { control_plane_flags: flags.0, worker_flags: flags.1, members, ..Said::default() };
            population(&Said { kube_nodes: &label(labeled), ..said })[0].role
        };
        assert_eq!(role(false, (&named, &none), &[]), Some(Role::ControlPlane));
        assert_eq!(role(true, (&none, &named), &[]), Some(Role::ControlPlane));
        let worker = member("cp-1", &["10.0.0.1"], Role::Worker);
        assert_eq!(role(false, (&named, &none), &[worker]), Some(Role::Worker), "the machine's own report");
    }

    #[test]
    fn what_a_machine_lists_of_itself_alone_is_known_and_no_word_of_discovery() {
        let members = [Member { node_id: NODE_ID.into(), ..member("cp-1", &["10.0.0.1"], Role::ControlPlane) }];
        let nodes = [kube_node("cp-1", "10.0.0.1"), kube_node("w-1", "10.0.0.2")];
        let said = Said { members: &members, lists_are_own: true, kube_nodes: &nodes, ..Said::default() };
        let all = population(&said);
        assert_eq!(all.iter().map(Candidate::label).collect::<Vec<_>>(), ["cp-1", "w-1"]);
        assert!(all.iter().all(|node| node.sources.kubernetes && !node.sources.discovery));
        assert_eq!(all[0].role, Some(Role::ControlPlane), "the machine type overrules the label");
        assert!(all[0].machine_id.is_some());
    }

    #[test]
    fn a_machine_that_has_registered_under_another_name_is_one_machine() {
        let renamed = Member { node_id: NODE_ID.into(), ..member("w-one", &["10.0.0.4"], Role::Worker) };
        let node = KubeNode { machine_id: MACHINE_ID.into(), ..kube_node("w-1", "10.0.0.4") };
        let names = |members: Vec<Member>, nodes: Vec<KubeNode>| {
            names(&Said { members: &members, kube_nodes: &nodes, ..Said::default() })
        };
        assert_eq!(names(vec![renamed.clone()], vec![node.clone()]), ["w-one"]);
        let members = [renamed.clone()];
        let talos = population(&Said { members: &members, ..Said::default() });
        assert!(same_cluster(&talos, std::slice::from_ref(&node)));
        // A machine that is not proven to be the same counts as another, even at the same address.
        let other = KubeNode { machine_id: "e875c2372e92f08f61556762349ae4a4".into(), ..node.clone() };
        let untold = KubeNode { machine_id: String::new(), ..node.clone() };
        for stranger in [other, untold.clone()] {
            assert_eq!(names(vec![renamed.clone()], vec![stranger]), ["w-1", "w-one"]);
        }
        let unknown = Member { node_id: String::new(), ..renamed.clone() };
        assert_eq!(names(vec![unknown], vec![untold]), ["w-1", "w-one"]);
        // A machine with a Node of its own name has not registered under another. If two Nodes show the same id, neither is believed.
        let anew = kube_node("w-one", "10.0.0.4");
        assert_eq!(names(vec![renamed.clone()], vec![node.clone(), anew]), ["w-1", "w-one"]);
        let again = KubeNode { name: "w-2".into(), ..node.clone() };
        assert_eq!(names(vec![renamed.clone()], vec![node.clone(), again]), ["w-1", "w-2", "w-one"]);
        let namesake = member("w-1", &["10.0.0.5"], Role::Worker);
        assert_eq!(names(vec![renamed, namesake], vec![node]), ["w-1", "w-one"]);
    }

    #[test]
    fn an_address_given_by_hand_is_the_node_that_has_it() {
        let members = [member("cp-1", &["10.0.0.1", "2001:db8::1"], Role::ControlPlane)];
        let flags = ["2001:db8::1".to_owned(), "w-1".to_owned()];
        let all = population(&Said { members: &members, control_plane_flags: &flags, ..Said::default() });
        assert_eq!(all.iter().map(Candidate::label).collect::<Vec<_>>(), ["cp-1", "w-1"]);
        assert!(all[0].sources.flags);
    }

    #[test]
    fn a_machine_may_be_named_as_talosctl_lists_it() {
        let named = |name: &str, hostname: &str, address: &str| Member {
            hostname: hostname.to_owned(),
            ..member(name, &[address], Role::Worker)
        };
        // The other hostnames are only claims.
        let members = [
            named("w-1", "W-1.example.org", "10.0.0.11"),
            named("w-3", "w-1.example.com", "10.0.0.13"),
            named("10", "10.0.0.13", "10.0.0.10"),
            named("w-4", "w-4.example.org", "10.0.0.14"),
            named("w-4.example.org", "w-4", "10.0.0.15"),
        ];
        let flags = ["w-1.example.org", "w-1.example.com", "10.0.0.13", "w-4.example.org"].map(str::to_owned);
        let found = population(&Said { members: &members, worker_flags: &flags, ..Said::default() });
        let told: Vec<_> = found.iter().filter(|it| it.sources.flags).map(Candidate::label).collect();
        assert_eq!(told, ["w-1", "w-1.example.com", "w-3", "w-4.example.org"]);
        let hostnames: Vec<_> = found.iter().filter_map(|it| it.hostname.as_deref()).collect();
        assert_eq!(hostnames, ["W-1.example.org"]);
    }

    #[test]
    fn a_name_given_by_hand_is_no_address() {
        let members = [member("w-1", &["10.0.0.9"], Role::Worker)];
        let flags = ["w-1".to_owned()];
        let all = population(&Said { members: &members, worker_flags: &flags, ..Said::default() });
        assert_eq!(all[0].addresses, ["10.0.0.9"]);
    }

    #[test]
    fn a_virtual_ip_joins_nobody_and_comes_last() {
        let members = [
            member("cp-1", &["10.0.0.100", "10.0.0.1"], Role::ControlPlane),
            member("cp-2", &["10.0.0.2"], Role::ControlPlane),
        ];
        let all = population(&Said { members: &members, kubernetes_host: Some("10.0.0.100"), ..Said::default() });
        assert_eq!(all[0].addresses, ["10.0.0.1", "10.0.0.100"]);
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn the_endpoint_of_a_single_node_is_its_address() {
        let members = [member("cp-1", &["10.0.0.1"], Role::ControlPlane)];
        let all = population(&Said { members: &members, kubernetes_host: Some("10.0.0.1"), ..Said::default() });
        assert_eq!(all[0].addresses, ["10.0.0.1"]);
    }

    #[test]
    fn without_discovery_endpoints_and_nodes_remain() {
        let nodes = [kube_node("w-1", "10.0.0.9")];
        let endpoints = [KnownEndpoint {
            addresses: vec!["10.0.0.1".to_owned()],
            own_addresses: Vec::new(),
            name: Some("cp-1".to_owned()),
            role: Some(Role::ControlPlane),
            machine_id: None,
        }];
        assert_eq!(names(&Said { kube_nodes: &nodes, endpoints: &endpoints, ..Said::default() }), ["cp-1", "w-1"]);
    }

    #[test]
    fn clusters_are_told_apart_by_name_and_address() {
        let talos =
            population(&Said { members: &[member("cp-1", &["10.0.0.1"], Role::ControlPlane)], ..Said::default() });
        assert!(same_cluster(&talos, &[kube_node("w-9", "10.0.0.9"), kube_node("CP-1", "10.0.0.1")]));
        assert!(!same_cluster(&talos, &[kube_node("cp-1", "10.9.0.1")]), "the same name elsewhere is another machine");
        assert!(!same_cluster(&talos, &[kube_node("other", "10.0.0.1")]));
        let bare = KubeNode { addresses: Vec::new(), ..kube_node("cp-1", "") };
        assert!(same_cluster(&talos, &[bare]), "no address is no contradiction");
        assert!(same_cluster(&talos, &[]) && same_cluster(&[], &[kube_node("cp-1", "10.0.0.1")]));
    }

    #[test]
    fn twins_are_told_apart_by_what_the_machines_are() {
        let known = Member { node_id: NODE_ID.into(), ..member("cp-1", &["10.0.0.1"], Role::ControlPlane) };
        let with = |member: &Member, own: Option<&str>| {
            let endpoint = KnownEndpoint {
                addresses: vec!["10.0.0.1".to_owned()],
                own_addresses: Vec::new(),
                name: Some("cp-1".to_owned()),
                role: None,
                machine_id: own.map(str::to_owned),
            };
            population(&Said { members: std::slice::from_ref(member), endpoints: &[endpoint], ..Said::default() })
        };
        let other = "e875c2372e92f08f61556762349ae4a4";
        let shows = |id: &str| [KubeNode { machine_id: id.into(), ..kube_node("cp-1", "10.0.0.1") }];
        assert!(!same_cluster(&with(&known, None), &shows(other)));
        assert!(same_cluster(&with(&known, None), &shows(MACHINE_ID)));
        assert!(same_cluster(&with(&known, None), &shows("")), "Kubernetes does not tell");
        assert!(same_cluster(&with(&known, Some(other)), &shows(other)), "discovery lists what it was before, too");
        // Without discovery, only the machine's own report is available.
        let unknown = member("cp-1", &["10.0.0.1"], Role::ControlPlane);
        assert!(!same_cluster(&with(&unknown, Some(MACHINE_ID)), &shows(other)));
        assert!(same_cluster(&with(&unknown, None), &shows(other)));
    }

    #[test]
    fn two_machines_of_one_name_are_two() {
        let other = "e875c2372e92f08f61556762349ae4a4";
        let of = |address: &str, node_id: &str, shown: &str| {
            let members = [Member { node_id: node_id.into(), ..member("w-1", &[address], Role::Worker) }];
            let nodes = [KubeNode { machine_id: shown.into(), ..kube_node("w-1", "10.0.0.4") }];
            let all = population(&Said { members: &members, kube_nodes: &nodes, ..Said::default() });
            all.into_iter().map(|candidate| candidate.addresses).collect::<Vec<_>>()
        };
        assert_eq!(of("10.0.0.9", NODE_ID, other), [["10.0.0.4"], ["10.0.0.9"]]);
        // One machine with two networks; one that does not report an id; one that was reinstalled.
        assert_eq!(of("10.0.0.9", NODE_ID, MACHINE_ID), [["10.0.0.4", "10.0.0.9"]]);
        assert_eq!(of("10.0.0.9", "", other), [["10.0.0.4", "10.0.0.9"]]);
        assert_eq!(of("10.0.0.9", NODE_ID, ""), [["10.0.0.4", "10.0.0.9"]]);
        assert_eq!(of("10.0.0.4", NODE_ID, other), [["10.0.0.4"]]);
    }

    #[test]
    fn an_endpoint_is_the_one_of_its_name_whose_id_it_shows() {
        let other = "e875c2372e92f08f61556762349ae4a4";
        let members = [Member { node_id: NODE_ID.into(), ..member("cp-1", &["10.0.0.9"], Role::Worker) }];
        let nodes = [KubeNode { machine_id: other.into(), ..kube_node("cp-1", "10.0.0.4") }];
        let endpoint = |address: &str, id: &str| KnownEndpoint {
            addresses: vec![address.to_owned()],
            own_addresses: vec![address.to_owned()],
            name: Some("cp-1".to_owned()),
            role: Some(Role::ControlPlane),
            machine_id: Some(id.to_owned()),
        };
        for (address, id, at) in [("10.0.0.4", other, 0), ("10.0.0.9", MACHINE_ID, 1), ("10.0.0.2", "0", 1)] {
            let endpoints = [endpoint(address, id)];
            let all =
                population(&Said { members: &members, kube_nodes: &nodes, endpoints: &endpoints, ..Said::default() });
            assert!(all.iter().all(|candidate| candidate.addresses.len() == 1), "{all:?}");
            assert_eq!(all.iter().position(|candidate| candidate.sources.talosconfig), Some(at), "{all:?}");
        }
    }

    #[test]
    fn a_member_without_address_stays_a_node() {
        let members = [member("w-2", &[], Role::Worker)];
        assert_eq!(names(&Said { members: &members, ..Said::default() }), ["w-2"]);
    }

    #[test]
    fn no_machine_is_compared_with_all_others() {
        let of = |many: usize| {
            let address = |at: usize| format!("10.{}.{}.{}", at >> 16, at >> 8 & 255, at & 255);
            let members: Vec<_> =
                (0..many).map(|at| member(&format!("m-{at}"), &[&address(at)], Role::Worker)).collect();
            let nodes: Vec<_> = (0..many).map(|at| kube_node(&format!("n-{at}"), &address(at + many))).collect();
            let flags: Vec<_> = (0..many).map(|at| address(at + many / 2)).collect();
            let said = Said { members: &members, kube_nodes: &nodes, worker_flags: &flags, ..Said::default() };
            let all = population(&said);
            assert_eq!(all.len(), 2 * many);
            let apart = Said { members: &members, ..Said::default() };
            let talos = population(&apart);
            work(|| (population(&said), same_cluster(&talos, &nodes)))
        };
        let (few, many) = (of(300), of(3000));
        assert!(!is_square(few, many), "{few:?}, and {many:?}");
    }
}
