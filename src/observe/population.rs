//! The machines of the cluster: the reports of all sources, merged by identity.
//!
//! A machine is identified by its own name. One that has registered under another name is recognized by its machine id, and so are two
//! machines of the same name. Addresses only help to recognize that two sources report the same machine. A suspected virtual IP does not
//! even do that, because different control planes hold it at different times.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use super::talos::{Member, machine_id};
use crate::model::Role;
use crate::snapshot::{KubeNode, Sources, System};

/// A machine that some source names, before it was queried.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Candidate {
    /// Node name, if any source knows it.
    pub(crate) name: Option<String>,
    /// DNS name from discovery, which users may have written instead of the node name.
    pub(crate) hostname: Option<String>,
    /// Addresses to query it at, most promising first. Names only if nothing else is known.
    pub(crate) addresses: Vec<String>,
    /// Addresses reported by Talos: by discovery, or by the machine itself.
    pub(crate) own_addresses: Vec<String>,
    /// The `machineID` expected in Kubernetes, from the machine's id in discovery and from its own report.
    pub(crate) machine_id: Option<String>,
    pub(crate) own_machine_id: Option<String>,
    /// The `machineID` that Kubernetes reports.
    pub(crate) registered_id: Option<String>,
    pub(crate) role: Option<Role>,
    /// Whether a source has stated the role. Kubernetes' label is only a guess, and a missing label is not even that.
    pub(crate) role_told: bool,
    pub(crate) sources: Sources,
    pub(crate) api_port: Option<u16>,
    pub(crate) is_talos: bool,
    /// Whether the machine's Node reports another system.
    pub(crate) runs_another: bool,
    /// Whether a user named the machine; the name may belong to any machine.
    pub(crate) by_hand: bool,
    pub(crate) leaving: bool,
}

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
    let mut known = Known::default();
    for candidate in everything_said(said) {
        known.add(candidate, vip.as_deref());
    }
    let Known { mut all, by_name, .. } = known;
    for candidate in &mut all {
        put_last(&mut candidate.addresses, vip.as_deref());
        // If Talos is queried, a machine named by the user is assumed to run it unless its Node reports another system.
        candidate.is_talos |= candidate.by_hand && said.asks_talos && !candidate.runs_another;
        // Another machine has this hostname as its name.
        candidate.hostname.take_if(|hostname| by_name.contains_key(&hostname.to_ascii_lowercase()));
    }
    // If two machines have the same name, the one that has a Node keeps it.
    let place = |of: &Candidate| (label(of), !of.sources.kubernetes);
    all.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| a.addresses.cmp(&b.addresses)));
    all
}

/// The machines known so far, indexed so that no machine has to be compared with all others.
#[derive(Default)]
struct Known {
    all: Vec<Candidate>,
    /// All machines of each name, in lower case, and the first at each address. A virtual node on a machine may share the machine's
    /// address.
    by_name: HashMap<String, Vec<usize>>,
    by_address: HashMap<String, usize>,
    by_hostname: HashMap<String, usize>,
    /// Machines known only by addresses that a user wrote down.
    unnamed: BTreeSet<usize>,
}

impl Known {
    fn add(&mut self, candidate: Candidate, vip: Option<&str>) {
        let at = self.twin(&candidate, vip).unwrap_or(self.all.len());
        let addresses = candidate.addresses.clone();
        match self.all.get_mut(at) {
            Some(known) => merge(known, candidate),
            None => self.all.push(candidate),
        }
        for address in addresses {
            let first = self.by_address.entry(address).or_insert(at);
            *first = [at, *first].into_iter().min_by_key(|at| (self.all[*at].runs_another, *at)).unwrap_or(at);
        }
        if let Some(hostname) = &self.all[at].hostname {
            self.by_hostname.entry(hostname.to_ascii_lowercase()).or_insert(at);
        }
        match &self.all[at].name {
            Some(name) => {
                self.unnamed.remove(&at);
                let namesakes = self.by_name.entry(name.to_ascii_lowercase()).or_default();
                if !namesakes.contains(&at) {
                    namesakes.push(at);
                }
            }
            None => drop(self.unnamed.insert(at)),
        }
    }

    /// Returns the first known entry of the same machine.
    fn twin(&self, new: &Candidate, vip: Option<&str>) -> Option<usize> {
        let named = |name: &String| self.by_name.get(&name.to_ascii_lowercase()).into_iter().flatten();
        if let Some(name) = &new.name {
            let is_it = |at: &&usize| same(&self.all[**at], new, vip);
            let namesakes = || named(name).filter(|at| !are_two(&self.all[**at], new, vip));
            // A matching id decides first, because another machine of this name may not report one.
            let proven = namesakes().find(|at| ids(&self.all[**at]).any(|id| ids(new).any(|other| id == other)));
            let one = proven.or_else(|| namesakes().min());
            return one.into_iter().chain(self.unnamed.iter().find(is_it)).min().copied();
        }
        let telling = new.addresses.iter().filter(|address| Some(address.as_str()) != vip);
        let sharing = telling.filter_map(|address| self.by_address.get(address));
        let of_hostname = || new.addresses.iter().find_map(|host| self.by_hostname.get(&host.to_ascii_lowercase()));
        let known = sharing.chain(new.addresses.iter().flat_map(named));
        known.min_by_key(|at| (self.all[**at].runs_another, **at)).or_else(of_hostname).copied()
    }
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
    /// Names of discovery members and of Nodes, in lower case.
    members: HashSet<String>,
    nodes: HashSet<String>,
    /// First member with each machine ID, and how many Nodes show it.
    by_id: HashMap<String, &'a Member>,
    shown: HashMap<&'a str, usize>,
}

impl<'a> OwnNames<'a> {
    fn of(said: &Said<'a>) -> Self {
        let (mut by_id, mut shown) = (HashMap::new(), HashMap::new());
        for member in said.members {
            if let Some(id) = machine_id(&member.node_id) {
                by_id.entry(id).or_insert(member);
            }
        }
        for node in said.kube_nodes {
            *shown.entry(node.machine_id.as_str()).or_default() += 1;
        }
        Self {
            members: said.members.iter().map(|member| member.name.to_ascii_lowercase()).collect(),
            nodes: said.kube_nodes.iter().map(|node| node.name.to_ascii_lowercase()).collect(),
            by_id,
            shown,
        }
    }

    fn of_node(&self, node: &KubeNode) -> Option<&'a String> {
        if self.members.contains(&node.name.to_ascii_lowercase()) {
            return None;
        }
        let member = self.by_id.get(&node.machine_id)?;
        let is_alone = self.shown.get(node.machine_id.as_str()) == Some(&1);
        let is_free = !self.nodes.contains(&member.name.to_ascii_lowercase());
        (is_alone && is_free).then_some(&member.name)
    }
}

/// Returns the candidate for an address or node name written by a user. A text that is not an address is both tried as one and matched as a
/// name.
fn named_by_hand(node: &str, role: Option<Role>) -> Candidate {
    let role_told = role.is_some();
    Candidate { addresses: vec![node.to_owned()], role, role_told, by_hand: true, ..Candidate::default() }
}

fn ids(candidate: &Candidate) -> impl Iterator<Item = &String> {
    candidate.machine_id.iter().chain(&candidate.own_machine_id).chain(&candidate.registered_id)
}

/// Returns whether two machines were given the same name: they share neither an id nor an address, and both have reported them. A
/// reinstalled machine has a new id at its old addresses.
pub(crate) fn are_two(known: &Candidate, new: &Candidate, vip: Option<&str>) -> bool {
    fn apart<T: PartialEq>(a: &[T], b: &[T]) -> bool {
        !a.is_empty() && !b.is_empty() && !a.iter().any(|one| b.contains(one))
    }
    let all_ids = |of| ids(of).collect::<Vec<_>>();
    let addresses = |of: &Candidate| {
        let telling = of.addresses.iter().filter(|address| Some(address.as_str()) != vip);
        telling.filter_map(|address| address.parse::<IpAddr>().ok()).collect::<Vec<_>>()
    };
    apart(&all_ids(known), &all_ids(new)) && apart(&addresses(known), &addresses(new))
}

fn same(known: &Candidate, new: &Candidate, vip: Option<&str>) -> bool {
    if let (Some(a), Some(b)) = (&known.name, &new.name) {
        return a.eq_ignore_ascii_case(b);
    }
    let telling = |address: &&String| Some(address.as_str()) != vip;
    let shares = known.addresses.iter().filter(telling).any(|address| new.addresses.contains(address));
    // A name given by hand is in the address list.
    let by_name = |name: &Option<String>, other: &Candidate| {
        name.as_ref().is_some_and(|name| other.addresses.iter().any(|given| given.eq_ignore_ascii_case(name)))
    };
    shares || by_name(&known.name, new) || by_name(&new.name, known)
}

fn merge(known: &mut Candidate, new: Candidate) {
    // Machines overrule flags. A flag makes a control plane of an unlabeled Node, but not a worker of a labeled one: that would leave out
    // checks.
    let adds_checks = new.role == Some(Role::ControlPlane) && !known.role_told;
    let is_better = known.role.is_none() || (new.role_told && (!new.sources.flags || adds_checks));
    if let Some(role) = new.role.filter(|role| is_better && *role != Role::Unknown) {
        known.role = Some(role);
    }
    known.name = known.name.take().or(new.name);
    known.hostname = known.hostname.take().or(new.hostname);
    for address in new.addresses {
        // A name given by hand is dropped from the addresses once real ones are known.
        let mut names = known.name.iter().chain(&known.hostname);
        let is_name = names.any(|name| name.eq_ignore_ascii_case(&address));
        let useless = is_name && !known.addresses.is_empty();
        if !useless && !known.addresses.contains(&address) {
            known.addresses.push(address);
        }
    }
    for address in new.own_addresses {
        if !known.own_addresses.contains(&address) {
            known.own_addresses.push(address);
        }
    }
    known.machine_id = known.machine_id.take().or(new.machine_id);
    known.own_machine_id = known.own_machine_id.take().or(new.own_machine_id);
    known.registered_id = known.registered_id.take().or(new.registered_id);
    known.sources = Sources {
        discovery: known.sources.discovery || new.sources.discovery,
        kubernetes: known.sources.kubernetes || new.sources.kubernetes,
        etcd: known.sources.etcd || new.sources.etcd,
        flags: known.sources.flags || new.sources.flags,
        talosconfig: known.sources.talosconfig || new.sources.talosconfig,
    };
    known.api_port = known.api_port.or(new.api_port);
    known.role_told |= new.role_told;
    known.is_talos |= new.is_talos;
    known.by_hand |= new.by_hand;
    known.runs_another |= new.runs_another;
    known.leaving |= new.leaving;
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
pub(crate) fn same_cluster<'a>(talos: &'a [Candidate], kube_nodes: &[KubeNode]) -> bool {
    let mut by_name: HashMap<String, Vec<&KubeNode>> = HashMap::new();
    for node in kube_nodes {
        by_name.entry(node.name.to_ascii_lowercase()).or_default().push(node);
    }
    let of_name = |name: &String| by_name.get(&name.to_ascii_lowercase()).into_iter().flatten().copied();
    let any = |is_it: &dyn Fn(&'a Candidate, &KubeNode) -> bool| {
        talos.iter().any(|candidate| candidate.name.iter().flat_map(of_name).any(|node| is_it(candidate, node)))
    };
    let shown: HashSet<&String> = kube_nodes.iter().map(|node| &node.machine_id).collect();
    let ids = |candidate: &'a Candidate| candidate.machine_id.iter().chain(&candidate.own_machine_id);
    let is_namesake = |candidate: &'a Candidate, node: &KubeNode| {
        candidate.name.as_ref().is_some_and(|name| node.is_of_a_namesake(name, ids(candidate)))
    };
    let has_name_and_address = |candidate: &Candidate, node: &KubeNode| {
        let is_address = |address: &&str| address.parse::<IpAddr>().is_ok();
        let known: Vec<&str> = candidate.addresses.iter().map(String::as_str).filter(is_address).collect();
        let has_name = |name: &String, node: &KubeNode| {
            // An external cloud provider sets the addresses some time after the node has registered.
            let is_bare = known.is_empty() || node.addresses.is_empty();
            (is_bare && node.name.eq_ignore_ascii_case(name)) || node.is_at(name, known.iter().copied())
        };
        candidate.name.as_ref().is_some_and(|name| has_name(name, node))
    };
    kube_nodes.is_empty()
        || talos.iter().all(|candidate| candidate.name.is_none())
        || talos.iter().flat_map(ids).any(|id| shown.contains(id))
        || (!any(&is_namesake) && any(&has_name_and_address))
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

/// Returns the name of the node in reports.
pub(crate) fn label(candidate: &Candidate) -> String {
    candidate.name.clone().or_else(|| candidate.addresses.first().cloned()).unwrap_or_default()
}

/// Formats `cp-3 (10.0.0.3)`, if both are known.
pub(crate) fn shown(candidate: &Candidate) -> String {
    match (&candidate.name, candidate.addresses.first()) {
        (Some(name), Some(address)) if name != address => format!("{name} ({address})"),
        _ => label(candidate),
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
            operating_system: String::new(),
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
        population(said).iter().map(label).collect()
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
        assert_eq!(all.iter().map(label).collect::<Vec<_>>(), ["cp-1", "w-1"]);
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
        assert_eq!(all.iter().map(label).collect::<Vec<_>>(), ["cp-1", "w-1"]);
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
        let told: Vec<_> = found.iter().filter(|it| it.sources.flags).map(label).collect();
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
