//! The API servers: the shared endpoint, and each control plane's own server.

use std::collections::HashMap;

use super::Assessment;
use super::access::MachineAccess;
use super::population::is_seen_lost;
use super::workloads::{LEASE_LASTS, was_renewed};
use crate::snapshot::{EtcdEndpoint, Gap, GapKind, Kubernetes, Lease, Leases, Node, Readyz, ServiceEndpoint};

/// A control plane's own API server.
#[derive(Clone, Copy)]
pub(crate) enum Server<'a> {
    NotAsked,
    Ready,
    /// Answered, but not with a plain 200.
    NotReady(&'a Readyz),
    /// Does not answer, and neither does its machine, which is down or cut off.
    Lost(&'a Gap),
    /// Not reachable from here, but alive by other evidence.
    AliveBy(ApiserverEvidence, &'a Gap),
    /// The port refuses connections, and the lease is not renewed.
    Refused(&'a Gap),
    /// Not reachable from here, and without other evidence.
    OutOfReach {
        gap: &'a Gap,
        has_lease: bool,
    },
    /// No answer, for another reason.
    Unanswered(&'a Gap),
}

/// Evidence that a server is alive although it cannot be queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiserverEvidence {
    /// The server renews its lease.
    Lease,
    /// The server is among the endpoints of the Service default/kubernetes.
    Endpoints,
}

pub(super) fn of<'a>(cluster: &Assessment<'a>) -> HashMap<&'a str, Server<'a>> {
    let of = |kubernetes, node: &'a Node| (node.name.as_str(), server(cluster, kubernetes, node));
    let kubernetes = cluster.snapshot.kubernetes.iter();
    kubernetes.flat_map(|it| cluster.control_planes().map(move |node| of(it, node))).collect()
}

fn server<'a>(cluster: &Assessment<'a>, kubernetes: &'a Kubernetes, node: &Node) -> Server<'a> {
    let gap = match kubernetes.servers.get(&node.name) {
        None => return Server::NotAsked,
        Some(Ok(readyz)) if is_ready(readyz) => return Server::Ready,
        Some(Ok(readyz)) => return Server::NotReady(readyz),
        Some(Err(gap)) => gap,
    };
    // If the machine merely could not be queried, the server's lease is better evidence.
    let is_seen = is_seen_lost(node) || matches!(MachineAccess::of(node), MachineAccess::Other(_));
    let is_lost = cluster.machine(node).talos_unreachable && is_seen;
    match gap.kind {
        GapKind::TimedOut if is_lost => Server::Lost(gap),
        kind if is_closed(kind) && is_lost => Server::Lost(gap),
        kind if is_closed(kind) => indirectly(cluster, node, gap),
        GapKind::UnknownCa if cluster.behind_proxy => indirectly(cluster, node, gap),
        _ => Server::Unanswered(gap),
    }
}

/// Returns true for a plain 200 without failed checks. A 200 that lists failures contradicts itself.
pub(crate) fn is_ready(readyz: &Readyz) -> bool {
    readyz.status == 200 && readyz.failed.is_empty()
}

/// Returns true if the endpoint was queried and did not report that it is ready.
pub(crate) fn endpoint_is_down(kubernetes: &Kubernetes) -> bool {
    let asked = !kubernetes.endpoint.as_ref().is_err_and(|gap| gap.kind == GapKind::NotAsked);
    let ready = kubernetes.endpoint.as_ref().is_ok_and(|readyz| readyz.status == 200);
    asked && !ready
}

/// Returns true if the server was not reached because nothing listens, the network path is closed, or credentials are withheld from it.
/// None of these is evidence of the server's state.
pub(crate) fn is_closed(kind: GapKind) -> bool {
    use GapKind::{ConnectTimedOut, ConnectionRefused, NameNotFound, NoRoute, NodeUnreachable, Proxy, Untrusted};
    matches!(kind, ConnectionRefused | NoRoute | ConnectTimedOut | NameNotFound | NodeUnreachable | Proxy | Untrusted)
}

/// Looks for evidence from other sources that the server is alive.
fn indirectly<'a>(cluster: &Assessment<'a>, node: &Node, gap: &'a Gap) -> Server<'a> {
    // A fresh lease may belong to a server that has just died; one that is still being renewed does not.
    let refused = gap.kind == GapKind::ConnectionRefused;
    let leases = cluster.list(|kubernetes| &kubernetes.system_leases);
    let renews = |leases: &Leases| {
        let date = leases.date.filter(|_| !refused);
        // An API server claims an hour for its lease and renews it every 10 s.
        leases_of(leases, node).any(|lease| was_renewed(lease, date, LEASE_LASTS))
    };
    let serves = |endpoints: &Vec<ServiceEndpoint>| {
        let has = |endpoint: &ServiceEndpoint| endpoint.addresses.iter().any(|it| node.addresses.contains(it));
        endpoints.iter().any(|endpoint| endpoint.ready && has(endpoint))
    };
    let has_lease = leases.is_some_and(|leases| leases_of(leases, node).next().is_some());
    if leases.is_some_and(renews) {
        Server::AliveBy(ApiserverEvidence::Lease, gap)
    } else if refused {
        Server::Refused(gap)
    // A dead server may remain in the Service; the lease that it no longer renews is more recent evidence.
    } else if !has_lease && cluster.list(|kubernetes| &kubernetes.api_endpoints).is_some_and(serves) {
        Server::AliveBy(ApiserverEvidence::Endpoints, gap)
    } else {
        Server::OutOfReach { gap, has_lease }
    }
}

/// Returns the identity leases of this node's API server, including those of former processes.
pub(crate) fn leases_of<'a>(leases: &'a Leases, node: &Node) -> impl Iterator<Item = &'a Lease> {
    leases.of_api_servers().filter(move |lease| lease.hostname.as_deref() == Some(node.name.as_str()))
}

impl<'a> Assessment<'a> {
    /// Returns the API server of a control plane.
    pub(crate) fn server(&self, node: &Node) -> Server<'a> {
        self.servers.get(node.name.as_str()).copied().unwrap_or(Server::NotAsked)
    }

    /// Returns true if each server was seen to be ready at its own address.
    pub(crate) fn servers_are_all_ready(&self) -> bool {
        self.servers.values().all(|server| matches!(server, Server::Ready))
    }

    pub(crate) fn some_server_is_ready(&self) -> bool {
        self.servers.values().any(|server| matches!(server, Server::Ready))
    }

    /// Returns true if any API server answers at its own address, so that the servers are reachable from here.
    pub(crate) fn some_server_is_reached(&self) -> bool {
        self.servers.values().any(|server| matches!(server, Server::Ready | Server::NotReady(_)))
    }

    /// Returns true if a machine, an API server or etcd has answered in this round. Otherwise the runner's network is as likely to be the
    /// reason as the cluster.
    pub(crate) fn something_answers(&self) -> bool {
        let talos = self.talos().is_some_and(|it| it.endpoints.iter().any(|endpoint| endpoint.version.is_ok()));
        let machines = || self.nodes().iter().any(|node| node.talos.contact.is_ok());
        let kubernetes = || {
            self.any_kubernetes()
                .is_some_and(|it| it.endpoint.is_ok() || it.nodes.is_ok() || it.servers.values().any(Result::is_ok))
        };
        let etcd = || {
            let answers = |it: &EtcdEndpoint| it.status.is_ok() || it.members.is_ok() || it.alarms.is_ok();
            self.snapshot.external_etcd.iter().flatten().any(answers)
        };
        talos || machines() || kubernetes() || etcd()
    }

    /// Returns the address of the shared endpoint.
    pub(crate) fn endpoint_address(&self, kubernetes: &Kubernetes) -> String {
        let configured = || kubernetes.credentials.as_ref().map(|credentials| credentials.server.clone()).ok();
        let answered = kubernetes.endpoint.as_ref().map(|readyz| readyz.server.clone()).ok();
        answered.or_else(|| self.asked.k8s_endpoint.clone()).or_else(configured).unwrap_or_default()
    }
}
