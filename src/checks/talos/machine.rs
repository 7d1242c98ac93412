//! Stage 2: each machine's network, memory, and own diagnostics.

use std::collections::{BTreeSet, HashMap};

use super::{CONTAINER, MIB};
use crate::assess::{Assessment, contact, is_container, is_older};
use crate::checks::Check;
use crate::checks::gaps::{self, says_nothing, talos_contact, talos_fact};
use crate::checks::scope::each_node;
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Role, Severity, Stage, Verdict};
use crate::snapshot::{Diagnostic, GapKind, LinkAddress, NetworkStatus, Node};
use crate::text::some;

pub(in crate::checks) const NETWORK: Check = Check {
    id: CheckId::TalosNodesNetwork,
    stage: Stage::Readiness,
    summary: "every machine has an address, connectivity, a hostname and network files",
    explain: "Reads the network status of each machine: whether it has an address, outbound connectivity (a default route or, \
if configured, successful probes), a hostname, and the files `/etc/hosts` and `/etc/resolv.conf`. Services wait for all of \
these, so a machine without one of them does not finish booting. A machine that loses one later keeps running for a while \
without symptoms.\n\n\
A single address (/32, /128), such as a virtual IP, fails if two machines have it on a link: traffic for it \
sometimes reaches one machine, sometimes the other. Loopback and dummy interfaces do not count; they have addresses that are on \
every machine on purpose. A \
virtual IP that moves may be seen on both for a moment.\n\n\
Where KubeSpan is enabled, each control plane reports which peers it can reach. A peer that is down is a warning: the two \
machines, and the pods on them, reach each other in other ways or not at all. Pairs of workers are not checked.",
    severity: Severity::Fail,
    finds: &[Reason::NetworkNotReady, Reason::NodeAddress, Reason::KubespanPeerDown],
    facts: &[Fact::TalosNodes, Fact::NetworkStatus, Fact::Addresses, Fact::KubeSpan],
    judge: network,
};

pub(in crate::checks) const MEMORY: Check = Check {
    id: CheckId::TalosNodesMemory,
    stage: Stage::Readiness,
    summary: "every machine has the memory that Talos requires for its role",
    explain: "Compares the memory of each machine with the minimum of Talos: 1698 MiB for a control plane (1898 MiB before \
Talos 1.8), 874 MiB for a worker. That is 2 GiB and 1 GiB minus what firmware and kernel reserve. With less, the kernel kills \
processes under load (OOM), and etcd is a likely victim.\n\n\
In container mode the memory is the host's, and the machine is skipped.",
    severity: Severity::Fail,
    finds: &[Reason::MemoryTooSmall],
    facts: &[Fact::TalosNodes, Fact::Memory],
    judge: memory,
};

pub(in crate::checks) const DIAGNOSTICS: Check = Check {
    id: CheckId::TalosNodesDiagnostics,
    stage: Stage::Readiness,
    summary: "Talos diagnostics report no problem on any machine",
    explain: "Talos diagnoses itself once a minute and keeps a diagnostic for each problem that persists. `kubelet-csr`: \
kubelet certificates wait for approval, so `kubectl logs` and `exec` fail. `address-overlap`: addresses of the machine are in \
the pod or service networks. Each is a warning, with its details. `talosctl -n NODE get diagnostics` lists them, and \
talos.dev/diagnostic/ID explains each.\n\n\
Talos before 1.8 has no diagnostics, and such machines are skipped.",
    severity: Severity::Warn,
    finds: &[Reason::Diagnostic],
    facts: &[Fact::TalosNodes, Fact::Diagnostics],
    judge: diagnostics,
};

fn network(cluster: &Assessment<'_>) -> Verdict {
    let expected = "the state of the machine's network";
    let single = single_addresses(cluster);
    each_node(cluster, |node, verdict| {
        let target = node.target();
        let outcome = match talos_fact(cluster, node, |talos| &talos.network_status, expected) {
            Ok(Some(status)) => network_of(node, *status),
            Ok(None) => says_nothing(expected, "the machine has no NetworkStatus"),
            Err(outcome) => outcome,
        };
        let is_unseen = outcome.is_unseen();
        let more = [shared_address(node, &single), peers_of(cluster, node)].into_iter().flatten();
        let more: Vec<Problem> = more.filter(|_| !is_unseen).collect();
        if more.is_empty() || !matches!(outcome, Outcome::Pass(_)) {
            verdict.push(target.clone(), outcome);
        }
        for problem in more {
            verdict.problem(target.clone(), problem);
        }
        if let Err(gap) = &node.talos.link_addresses
            && gap.kind == GapKind::TooLarge
        {
            verdict.leave_out(format!("{target}: whether other machines have its addresses: {}", gap.text));
        }
    })
}

/// Machines by their stand-alone addresses (/32 or /128), with the link that has each.
type Holders<'a> = HashMap<&'a str, Vec<(&'a Node, &'a LinkAddress)>>;

/// Holders among all machines that answer, whether or not they are judged.
fn single_addresses<'a>(cluster: &Assessment<'a>) -> Holders<'a> {
    let mut holders = Holders::new();
    for node in cluster.nodes().iter().filter(|node| contact(node).is_some()) {
        for it in node.talos.link_addresses.iter().flatten().filter(|it| it.is_single) {
            holders.entry(it.address.as_str()).or_default().push((node, it));
        }
    }
    holders
}

fn shared_address(node: &Node, holders: &Holders<'_>) -> Option<Problem> {
    let expected = "no address of another machine";
    let own = match &node.talos.link_addresses {
        Ok(own) => own,
        // The list may be too long because it has an address for each Service, which does not show anything about the
        // machine.
        Err(gap) if gap.kind == GapKind::TooLarge => return None,
        Err(gap) => return Some(gaps::talos(gap, expected)),
    };
    // One machine may be listed under two names.
    let at = |node: &Node| contact(node).map(|contact| contact.address.clone());
    let is_another = |other: &Node| {
        let has_same_id = node.machine_ids().any(|id| other.machine_ids().any(|it| it == id));
        other.name != node.name && !has_same_id && at(other) != at(node)
    };
    let others = own.iter().filter(|it| it.is_single).filter_map(|it| {
        let others = holders.get(it.address.as_str())?.iter().filter(|(other, _)| is_another(other));
        let (other, its) = others.min_by_key(|(other, _)| &other.name)?;
        Some(format!("{} on {}, which {} has as well, on {}", it.address, it.link, other.name, its.link))
    });
    let observed = others.collect::<BTreeSet<_>>();
    if observed.is_empty() {
        return None;
    }
    let problem = Problem::fail(Reason::NodeAddress, expected, some(observed.into_iter(), ADDRESSES))
        .hint(Hint::likely("two machines hold one virtual IP: whatever moves it believes that the other is gone"))
        .hint(Hint::run("{talosctl} -n {} get addresses", [node.address.as_str()]));
    Some(problem)
}

/// Maximum number of addresses that are named.
const ADDRESSES: usize = 3;

/// Reports this control plane's unreachable KubeSpan peers.
fn peers_of(cluster: &Assessment<'_>, node: &Node) -> Option<Problem> {
    if node.role != Role::ControlPlane {
        return None;
    }
    let expected = "KubeSpan reaches every peer";
    let peers = match &node.talos.kube_span_peers {
        Ok(peers) => peers,
        // The check only warns, so a role that is too low is not reported.
        Err(gap) if gap.kind == GapKind::Forbidden => return None,
        Err(gap) => return Some(gaps::talos(gap, expected)),
    };
    let down = || peers.iter().filter(|peer| peer.is_down(cluster.taken));
    let names: Vec<&str> = down().map(|peer| peer.name.as_str()).collect();
    if let Some(odd) = peers.iter().find(|peer| !matches!(&*peer.state, "up" | "down" | "unknown")) {
        let observed = format!("{} is `{}`", odd.name, odd.state);
        return Some(Problem::error(Reason::UnreadableAnswer, expected, observed));
    }
    if names.is_empty() {
        return None;
    }
    let problem = Problem::warn(Reason::KubespanPeerDown, expected, format!("down: {}", names.join(", ")))
        .hint(Hint::run("{talosctl} -n {} get kubespanpeerstatuses", [node.address.as_str()]));
    Some(problem.on(names))
}

fn network_of(node: &Node, status: NetworkStatus) -> Outcome {
    let parts = [
        (status.address_ready, "address"),
        (status.connectivity_ready, "connectivity"),
        (status.hostname_ready, "hostname"),
        (status.etc_files_ready, "etcFiles"),
    ];
    let missing: Vec<&str> = parts.into_iter().filter(|(ready, _)| !ready).map(|(_, part)| part).collect();
    if missing.is_empty() {
        return Outcome::Pass(None);
    }
    let observed = format!("not ready: {}", missing.join(", "));
    let expected = "address, connectivity, hostname and etcFiles ready";
    let problem = Problem::fail(Reason::NetworkNotReady, expected, observed);
    let problem = match missing.as_slice() {
        ["connectivity"] => problem.hint(Hint::likely("there is no default route, or a configured probe fails")),
        _ => problem,
    };
    Outcome::problem(problem.hint(Hint::run("{talosctl} -n {} get networkstatus -o yaml", [node.address.as_str()])))
}

fn memory(cluster: &Assessment<'_>) -> Verdict {
    each_node(cluster, |node, verdict| verdict.push(node.target(), memory_of(cluster, node)))
}

fn memory_of(cluster: &Assessment<'_>, node: &Node) -> Outcome {
    if is_container(node) {
        return Outcome::Skip(CONTAINER.to_owned());
    }
    let expected = "the size of the machine's memory";
    let size = match talos_fact(cluster, node, |talos| &talos.memory, expected) {
        Ok(0) => return says_nothing(expected, "0 bytes"),
        Ok(size) => *size,
        Err(outcome) => return outcome,
    };
    let least = MIB
        * match node.role {
            Role::ControlPlane if is_older(node, (1, 8, 0)) => 1898,
            Role::ControlPlane => 1698,
            Role::Worker => 874,
            Role::Unknown => {
                let expected = "a role, because the required memory depends on it";
                return says_nothing(expected, "the node's role is unknown to every source");
            }
        };
    if size >= least {
        return Outcome::Pass(None);
    }
    let (expected, observed) = (format!("at least {} MiB", least / MIB), format!("{} MiB", size / MIB));
    let problem = Problem::fail(Reason::MemoryTooSmall, expected, observed);
    Outcome::problem(problem.hint(Hint::run("{talosctl} -n {} memory", [node.address.as_str()])))
}

fn diagnostics(cluster: &Assessment<'_>) -> Verdict {
    each_node(cluster, |node, verdict| {
        let target = node.target();
        let found = match talos_contact(cluster, node) {
            Ok(_) => &node.talos.diagnostics,
            Err(outcome) => return verdict.push(target, outcome),
        };
        match found {
            Ok(found) if found.is_empty() => verdict.ok(target),
            Ok(found) => found.iter().for_each(|it| verdict.problem(target.clone(), diagnosed(node, it))),
            Err(gap) if gap.kind == GapKind::Unsupported && is_older(node, (1, 8, 0)) => {
                verdict.skip(target, "this version of Talos has no diagnostics");
            }
            // The check only warns, so a role that is too low is not an obstacle.
            Err(gap) if gap.kind == GapKind::Forbidden => {
                verdict.skip(target, format!("the role does not allow it: {}", gap.text));
            }
            Err(gap) => verdict.problem(target, gaps::talos(gap, "the machine's diagnostics")),
        }
    })
}

fn diagnosed(node: &Node, found: &Diagnostic) -> Problem {
    let mut observed = format!("{}: {}", found.id, found.message);
    if !found.details.is_empty() {
        observed = format!("{observed} ({})", found.details.join("; "));
    }
    let problem = Problem::warn(Reason::Diagnostic, "no diagnostic", observed)
        .hint(Hint::run("{talosctl} -n {} get diagnostics -o yaml", [node.address.as_str()]));
    match found.id.as_str() {
        "kubelet-csr" => problem.hint(Hint::run("{kubectl} get csr", [])),
        _ => problem,
    }
}
