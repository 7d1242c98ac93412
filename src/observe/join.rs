//! The identity of machines: which reports, and which answers, are about the same machine.
//!
//! A machine is identified by its own name. One that has registered under another name is recognized by its machine ID, and so are two
//! machines of the same name. Addresses only help to recognize that two sources report the same machine. A suspected virtual IP does not
//! even do that, because different control planes hold it at different times.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::model::Role;
use crate::snapshot::Sources;

/// A machine, as the sources describe it.
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

impl Candidate {
    pub(crate) fn machine_ids(&self) -> impl Iterator<Item = &String> {
        self.machine_id.iter().chain(&self.own_machine_id).chain(&self.registered_id)
    }

    /// Returns the addresses that are not names, as they were written and as values.
    pub(super) fn ips(&self) -> impl Iterator<Item = (&str, IpAddr)> {
        self.addresses.iter().filter_map(|address| Some((address.as_str(), address.parse().ok()?)))
    }

    /// Returns whether a machine of this name may be the other one: either has no name, or the names are equal and were not given to two
    /// machines. Two machines share neither an id nor an address, and both have reported them. A reinstalled machine has a new id at its
    /// old addresses.
    pub(super) fn may_be(&self, name: Option<&String>, other: &Self, vip: Option<&str>) -> bool {
        fn apart<T: PartialEq>(a: &[T], b: &[T]) -> bool {
            !a.is_empty() && !b.is_empty() && !a.iter().any(|one| b.contains(one))
        }
        let (Some(name), Some(other_name)) = (name, &other.name) else { return true };
        let ids = |of: &Self| of.machine_ids().cloned().collect::<Vec<_>>();
        let ips = |of: &Self| of.ips().filter(|(text, _)| Some(*text) != vip).map(|(_, ip)| ip).collect::<Vec<_>>();
        name.eq_ignore_ascii_case(other_name) && !(apart(&ids(self), &ids(other)) && apart(&ips(self), &ips(other)))
    }

    /// Adds the report of another source about this machine.
    pub(super) fn merge(&mut self, new: Self) {
        // Machines overrule flags. A flag makes a control plane of an unlabeled Node, but not a worker of a labeled one: that would leave
        // out checks.
        let adds_checks = new.role == Some(Role::ControlPlane) && !self.role_told;
        let is_better = self.role.is_none() || (new.role_told && (!new.sources.flags || adds_checks));
        if let Some(role) = new.role.filter(|role| is_better && *role != Role::Unknown) {
            self.role = Some(role);
        }
        self.name = self.name.take().or(new.name);
        self.hostname = self.hostname.take().or(new.hostname);
        for address in new.addresses {
            // A name given by hand is dropped from the addresses once real ones are known.
            let mut names = self.name.iter().chain(&self.hostname);
            let is_name = names.any(|name| name.eq_ignore_ascii_case(&address));
            let useless = is_name && !self.addresses.is_empty();
            if !useless && !self.addresses.contains(&address) {
                self.addresses.push(address);
            }
        }
        for address in new.own_addresses {
            if !self.own_addresses.contains(&address) {
                self.own_addresses.push(address);
            }
        }
        self.machine_id = self.machine_id.take().or(new.machine_id);
        self.own_machine_id = self.own_machine_id.take().or(new.own_machine_id);
        self.registered_id = self.registered_id.take().or(new.registered_id);
        self.sources = Sources {
            discovery: self.sources.discovery || new.sources.discovery,
            kubernetes: self.sources.kubernetes || new.sources.kubernetes,
            etcd: self.sources.etcd || new.sources.etcd,
            flags: self.sources.flags || new.sources.flags,
            talosconfig: self.sources.talosconfig || new.sources.talosconfig,
        };
        self.api_port = self.api_port.or(new.api_port);
        self.role_told |= new.role_told;
        self.is_talos |= new.is_talos;
        self.by_hand |= new.by_hand;
        self.runs_another |= new.runs_another;
        self.leaving |= new.leaving;
    }

    /// Returns the name of the node in reports.
    pub(crate) fn label(&self) -> String {
        self.name.clone().or_else(|| self.addresses.first().cloned()).unwrap_or_default()
    }

    /// Formats `cp-3 (10.0.0.3)`, if both are known.
    pub(crate) fn shown(&self) -> String {
        match (&self.name, self.addresses.first()) {
            (Some(name), Some(address)) if name != address => format!("{name} ({address})"),
            _ => self.label(),
        }
    }
}

/// An index of machines, so that none has to be compared with all others. Keys are in lower case.
#[derive(Default)]
pub(super) struct Index {
    /// All machines of each name.
    by_name: HashMap<String, Vec<usize>>,
    by_hostname: HashMap<String, usize>,
    /// The first machine at each address. A virtual node on a machine may share the machine's address, and comes after it.
    by_address: HashMap<String, (bool, usize)>,
    /// The first machine without a name at each address.
    unnamed: HashMap<String, usize>,
}

impl Index {
    pub(super) fn of<'a>(all: impl Iterator<Item = &'a Candidate>) -> Self {
        let mut index = Self::default();
        all.enumerate().for_each(|(at, machine)| index.add(at, machine));
        index
    }

    /// Adds a machine, or what has become known about it.
    pub(super) fn add(&mut self, at: usize, machine: &Candidate) {
        if let Some(name) = &machine.name {
            let namesakes = self.by_name.entry(name.to_ascii_lowercase()).or_default();
            if !namesakes.contains(&at) {
                namesakes.push(at);
            }
        }
        if let Some(hostname) = &machine.hostname {
            self.by_hostname.entry(hostname.to_ascii_lowercase()).or_insert(at);
        }
        for address in machine.addresses.iter().map(|address| address.to_ascii_lowercase()) {
            if machine.name.is_none() {
                self.unnamed.entry(address.clone()).or_insert(at);
            }
            let place = (machine.runs_another, at);
            let first = self.by_address.entry(address).or_insert(place);
            *first = place.min(*first);
        }
    }

    /// Returns the machines of this name.
    pub(super) fn called(&self, name: &str) -> impl Iterator<Item = usize> + use<'_> {
        self.by_name.get(&name.to_ascii_lowercase()).into_iter().flatten().copied()
    }

    /// Returns the machines that may be this one: those of its name and those without a name at its addresses. If it has no name, those at
    /// its addresses, one of which may be a name that a user wrote.
    pub(super) fn near(&self, machine: &Candidate, vip: Option<&str>) -> impl Iterator<Item = usize> {
        let mut found: Vec<usize> = Vec::new();
        for place in machine.addresses.iter().chain(&machine.name) {
            let is_vip = vip == Some(place.as_str());
            let place = place.to_ascii_lowercase();
            if machine.name.is_some() {
                found.extend(self.unnamed.get(&place).filter(|_| !is_vip));
            } else {
                found.extend(self.by_address.get(&place).filter(|_| !is_vip).map(|(_, at)| *at));
                // The host of the endpoint may be the name of a machine.
                found.extend(self.called(&place));
            }
        }
        found.into_iter().chain(machine.name.iter().flat_map(|name| self.called(name)))
    }

    /// Returns the known entry of the same machine. A matching id decides first, because another machine of this name may not report one.
    pub(super) fn twin(&self, all: &[Candidate], new: &Candidate, vip: Option<&str>) -> Option<usize> {
        let may_be = |at: &usize| all[*at].may_be(all[*at].name.as_ref(), new, vip);
        let is_proven = |known: &Candidate| known.machine_ids().any(|id| new.machine_ids().any(|other| id == other));
        let rank = |at: &usize| (!is_proven(&all[*at]), all[*at].runs_another, *at);
        let of_hostname = || match &new.name {
            Some(_) => None,
            None => new.addresses.iter().find_map(|host| self.by_hostname.get(&host.to_ascii_lowercase())).copied(),
        };
        self.near(new, vip).filter(may_be).min_by_key(rank).or_else(of_hostname)
    }
}
