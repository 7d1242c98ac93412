//! The Kubernetes side of a round: selecting the credentials, reading the API, and probing each API server separately.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::net::IpAddr;
use std::rc::Rc;

use futures::future::{Shared, join_all};
use futures::stream::{FuturesUnordered, Stream, StreamExt};
use tokio::time::{Instant, timeout_at};

use super::credentials::KubernetesSide;
use super::endpoints::{Endpoints, Sighting, TalosSide};
use super::join::Candidate;
use super::kubernetes::KubeClient;
use super::{API_PORT, Observer};
use crate::model::Fact;
use crate::model::Role;
use crate::snapshot::{Gap, GapKind, Kubernetes, Leases, Node, Observed, Part, Pod, Readyz, RequestedApis, TalosNode};
use crate::text::host;

/// Limit for the addresses of a control plane that are tried to find its API server.
const API_ADDRESSES: usize = 3;
/// Limit for control planes that are connected to before discovery has named them.
const EXPECTED: usize = 16;
/// Limit for user-defined static pods that are looked up.
const USER_PODS: usize = 100;

impl Observer<'_> {
    /// Observes the Kubernetes side: finds its credentials, queries the API, and meanwhile probes the API servers that discovery names.
    pub(super) async fn observe_kubernetes(
        &self,
        side: &mut KubernetesSide,
        first: &Shared<impl Future<Output = Rc<Sighting>>>,
        until: Instant,
    ) -> Kubernetes {
        side.begin_round();
        loop {
            let connected = side.connect(self.kubeconfig_from_talos(first, until)).await;
            let Some(client) = side.client() else {
                let credentials = Err(connected.err().unwrap_or_else(Gap::not_asked));
                let may_still_find = side.may_still_find();
                return Kubernetes { may_still_find, ..Kubernetes::unasked(credentials, side.passed_over().to_vec()) };
            };
            client.begin_round(self.repeated.is_none());
            let servers = async {
                let seen = first.clone().await;
                self.probe_servers(client, &seen.population, until).await
            };
            let name = self.kubernetes_host.clone().unwrap_or_else(|| "its endpoint".to_owned());
            let asked = async {
                let seen = client.observe(&self.facts, &self.known_leases, self.talos.is_some());
                let required = Box::pin(client.required(&self.facts, &self.asked.policy.require));
                let (seen, required) = tokio::join!(seen, required);
                Kubernetes { required, ..seen }
            };
            let has_answered = |seen: &Kubernetes| seen.endpoint.is_ok() || seen.nodes.is_ok();
            let asked = self.awaited.one(Part::Api, name, has_answered, asked);
            // Connections to API servers are opened before discovery names the servers. A connection that leads nowhere delays nothing.
            let expected = async {
                client.expect(self.expected_servers(), API_PORT).await;
                pending().await
            };
            let (mut kubernetes, servers) = tokio::select! {
                seen = async { tokio::join!(asked, servers) } => seen,
                never = expected => never,
            };
            kubernetes.servers = servers;
            // A file that the user did not name may belong to another cluster; then the next source is tried.
            if let Some(why) = side.is_stranger(&kubernetes, &first.clone().await.population) {
                side.pass_over(why);
                continue;
            }
            kubernetes.passed_over = side.passed_over().to_vec();
            return kubernetes;
        }
    }

    /// Returns the addresses in the configuration that may belong to a control plane.
    pub(super) fn expected_control_planes(&self) -> impl Iterator<Item = &str> {
        let hosts = self.talos.iter().flat_map(TalosSide::machines).chain(&self.asked.control_plane_nodes);
        hosts.filter(|host| host.parse::<IpAddr>().is_ok()).take(EXPECTED).map(String::as_str)
    }

    fn expected_servers(&self) -> impl Iterator<Item = &str> {
        self.expected_control_planes().filter(move |_| self.facts.contains(&Fact::ServerReadyz))
    }

    async fn kubeconfig_from_talos(
        &self,
        first: &Shared<impl Future<Output = Rc<Sighting>>>,
        until: Instant,
    ) -> Observed<String> {
        let Some(TalosSide { client: Some(client), .. }) = &self.talos else { return Err(Gap::not_asked()) };
        let forwarding = first.clone().await.endpoints.forwarding();
        client.kubeconfig(&forwarding, until).await
    }

    async fn probe_servers(
        &self,
        client: &KubeClient,
        candidates: &[Candidate],
        until: Instant,
    ) -> BTreeMap<String, Observed<Readyz>> {
        if !self.facts.contains(&Fact::ServerReadyz) {
            return BTreeMap::new();
        }
        let control_planes = candidates.iter().filter(|candidate| candidate.role == Some(Role::ControlPlane));
        let probes = control_planes.map(|candidate| async move {
            let port = candidate.api_port.unwrap_or(API_PORT);
            let asked = probe(client, &candidate.addresses, port, None, until);
            let shown = candidate.shown();
            let answer = self.awaited.one(Part::Servers, shown, Result::is_ok, asked).await;
            (candidate.label(), answer)
        });
        join_all(probes).await.into_iter().collect()
    }

    /// Reads user-defined static pods on workers one by one: Talos does not report their status, and lists of their namespaces may be long.
    pub(super) async fn ask_user_pods(
        &self,
        side: &KubernetesSide,
        nodes: &[Node],
        until: Instant,
    ) -> BTreeMap<(String, String), Observed<Option<Pod>>> {
        let Some(client) = side.client().filter(|_| self.facts.contains(&Fact::Pods)) else { return BTreeMap::new() };
        let has_no_status = |node: &&Node| {
            let TalosNode { static_pod_statuses, skips_registration, .. } = &*node.talos;
            node.role == Role::Worker && !skips_registration && static_pod_statuses.as_ref().is_ok_and(Vec::is_empty)
        };
        let pods = nodes.iter().filter(has_no_status).flat_map(|node| {
            node.talos.user_pods.iter().map(|pod| (pod.namespace.clone(), format!("{}-{}", pod.name, node.name)))
        });
        let asked = pods.take(USER_PODS).map(|key| async move {
            let answer = timeout_at(until, client.pod(&key.0, &key.1)).await;
            (key, answer.unwrap_or_else(|_| late()))
        });
        join_all(asked).await.into_iter().collect()
    }

    /// Probes the control planes that only Kubernetes or only the nodes themselves reported, those for which another machine may have
    /// answered, and those that were queried `elsewhere`, at a port that is not theirs.
    pub(super) async fn probe_missing_servers(
        &self,
        side: &KubernetesSide,
        kubernetes: &mut Kubernetes,
        known: &Endpoints,
        nodes: &[Node],
        (doubtful, elsewhere): (&BTreeMap<String, Vec<String>>, &BTreeSet<String>),
        until: Instant,
    ) {
        let Some(client) = side.client().filter(|_| self.facts.contains(&Fact::ServerReadyz)) else { return };
        let servers = &kubernetes.servers;
        let is_untrusted = |name: &String| servers.get(name).is_some_and(is_untrusted);
        let mut lists = self.members_by_named_machines(known, until);
        // Waiting for a machine whose etcd does not respond would use up the time that its API server needs for `/readyz`.
        let lacks_a_voucher = |node: &Node| is_untrusted(&node.name) && !client.vouches_for_any(&node.addresses);
        while nodes.iter().any(lacks_a_voucher)
            && let Some(members) = lists.next().await
        {
            client.vouch(&members);
        }
        drop(lists);
        let asked = nodes.iter().filter(|node| node.role == Role::ControlPlane).filter_map(|node| {
            let doubtful = doubtful.get(&node.name).map_or(&[][..], Vec::as_slice);
            let before = servers.get(&node.name).filter(|_| !elsewhere.contains(&node.name));
            let may_be_asked_now = is_untrusted(&node.name) && client.vouches_for_any(&node.addresses);
            if before.is_some_and(|before| is_own(before, doubtful)) && !may_be_asked_now {
                return None;
            }
            let own: Vec<String> = node.addresses.iter().filter(|it| !doubtful.contains(it)).cloned().collect();
            Some(async move {
                let name = self.talos.is_none().then_some(node.name.as_str());
                let answer = probe(client, &own, node.api_port, name, until).await;
                (node.name.clone(), settled(before.cloned(), answer, node.talos.contact.is_ok()))
            })
        });
        let answers = join_all(asked).await;
        kubernetes.servers.extend(answers);
    }

    /// Returns the addresses of etcd members, as listed by machines whose addresses the user named: one list for each machine, as they
    /// arrive. Each machine is queried directly, since a forwarding machine could answer in another's name.
    fn members_by_named_machines(&self, known: &Endpoints, until: Instant) -> impl Stream<Item = Vec<String>> {
        let Some(TalosSide { client: Some(client), through_omni: false, hosts, .. }) = &self.talos else {
            return FuturesUnordered::new();
        };
        let is_worker = |host: &String| self.asked.worker_nodes.contains(host);
        let named = known.forwarding().into_iter().filter(|index| !hosts.get(*index).is_none_or(is_worker));
        let list = |index| async move {
            let members = client.members_listed_by(index, until).await.into_iter().flatten();
            // A member that has never started may have an address that now belongs to another machine.
            members.filter(|member| !member.has_never_started()).flat_map(|member| member.hosts()).collect()
        };
        named.map(list).collect()
    }
}

fn is_untrusted(server: &Observed<Readyz>) -> bool {
    server.as_ref().is_err_and(|gap| gap.kind == GapKind::Untrusted)
}

impl Observer<'_> {
    /// Queries each API server that has answered at its own address, because a balancer would hide all but one. The endpoint is queried
    /// as well if none has answered there, as behind Omni or where no machine runs an API server as far as Kubernetes alone reports.
    pub(super) async fn ask_requested_apis(
        &self,
        side: &KubernetesSide,
        kubernetes: &Kubernetes,
        until: Instant,
    ) -> BTreeMap<String, Observed<RequestedApis>> {
        let Some(client) = side.client().filter(|_| self.facts.contains(&Fact::RequestedApis)) else {
            return BTreeMap::new();
        };
        let asked = kubernetes.servers.iter().map(|(name, server)| async move {
            let answer = match server {
                Ok(readyz) => timeout_at(until, client.requested_apis(name, readyz)).await.unwrap_or_else(|_| late()),
                Err(gap) => Err(gap.clone()),
            };
            (name.clone(), answer)
        });
        let mut found: BTreeMap<_, _> = join_all(asked).await.into_iter().collect();
        if kubernetes.servers.values().all(Result::is_err) {
            let answer = timeout_at(until, client.requested_apis_of_endpoint()).await.unwrap_or_else(|_| late());
            found.extend(kubernetes.credentials.iter().map(|it| (it.server.clone(), answer.clone())));
        }
        found
    }
}

fn late<T>() -> Observed<T> {
    Err(Gap::new(GapKind::NotAsked, "no time left in this round"))
}

/// Marks machines that serve the API as control planes, regardless of their labels, for use when Talos does not report roles. A machine
/// serves the API if default/kubernetes lists it, if an API server on it has an identity lease (Kubernetes keeps the lease for an hour
/// after the server has stopped), or if it has the static pod. Machines named by the user keep their role.
pub(super) fn mark_servers(nodes: &mut [Node], kubernetes: &Kubernetes) {
    let endpoints: BTreeSet<&String> = kubernetes.api_endpoints.iter().flatten().flat_map(|it| &it.addresses).collect();
    let leases = kubernetes.system_leases.iter().flat_map(Leases::of_api_servers);
    let holders: BTreeSet<&String> = leases.filter_map(|lease| lease.hostname.as_ref()).collect();
    // In other namespaces, anyone who can create pods can imitate an API server.
    let is_of_system = |pod: &&Pod| pod.namespace == "kube-system" && pod.is_api_server();
    let pods = kubernetes.pods.iter().flatten().filter(is_of_system);
    let hosts: BTreeSet<&String> = pods.filter_map(|pod| pod.node.as_ref()).collect();
    for node in nodes.iter_mut().filter(|node| node.sources.kubernetes && !node.sources.flags) {
        let is_endpoint = node.addresses.iter().any(|address| endpoints.contains(address));
        if is_endpoint || holders.contains(&node.name) || hosts.contains(&node.name) {
            node.role = Role::ControlPlane;
        }
    }
}

/// Corrects the assumed ports of API servers. Discovery reports the ports; if it is off or not queried, the servers do so as endpoints of
/// default/kubernetes. Returns the names of the servers that did not answer at the assumed port.
pub(super) fn correct_ports(nodes: &mut [Node], kubernetes: &Kubernetes) -> BTreeSet<String> {
    let ports: BTreeSet<u16> = kubernetes.api_endpoints.iter().flatten().filter_map(|endpoint| endpoint.port).collect();
    let mut corrected = BTreeSet::new();
    let Some(port) = ports.first().filter(|_| ports.len() == 1) else { return corrected };
    let is_silent = |node: &&mut Node| !kubernetes.servers.get(&node.name).is_some_and(Result::is_ok);
    let control_planes = nodes.iter_mut().filter(|node| node.role == Role::ControlPlane && node.api_port != *port);
    for node in control_planes.filter(is_silent) {
        node.api_port = *port;
        corrected.insert(node.name.clone());
    }
    corrected
}

/// Returns whether only this machine can have given the answer, no matter which machine holds the doubtful addresses.
fn is_own(answer: &Observed<Readyz>, doubtful: &[String]) -> bool {
    let is_from = |readyz: &Readyz| doubtful.iter().any(|address| address == host(&readyz.server));
    doubtful.is_empty() || answer.as_ref().is_ok_and(|readyz| !is_from(readyz))
}

/// Decides between two answers for a machine. If its own address is unreachable from here, the other address may be a translation of it,
/// provided that the machine itself answers elsewhere.
fn settled(before: Option<Observed<Readyz>>, own: Observed<Readyz>, is_alive: bool) -> Observed<Readyz> {
    let translated = before.filter(|before| before.is_ok() && is_alive);
    match &own {
        Err(gap) if leads_nowhere(gap.kind) => translated.unwrap_or(own),
        _ => own,
    }
}

fn leads_nowhere(kind: GapKind) -> bool {
    matches!(kind, GapKind::NoRoute | GapKind::ConnectTimedOut | GapKind::NameNotFound)
}

/// Probes addresses in order; the first one that leads to an API server decides. An address that leads nowhere from here, or that may not
/// be queried, does not count. `name` is the machine name that a certificate without the address may prove instead.
async fn probe(
    client: &KubeClient,
    addresses: &[String],
    port: u16,
    name: Option<&str>,
    until: Instant,
) -> Observed<Readyz> {
    let mut last = None;
    let Ok(addresses) = timeout_at(until, client.in_order(addresses)).await else { return late() };
    for address in addresses.into_iter().take(API_ADDRESSES) {
        let asked = async {
            match (client.server(address, port).await, name) {
                // Talos puts every address of a machine into the certificate; kubeadm does not.
                (Err(gap), Some(name)) if gap.kind == GapKind::NameNotInCertificate => {
                    Box::pin(client.server_by_name((address, port), name, gap)).await
                }
                (answer, _) => answer,
            }
        };
        let Ok(answer) = timeout_at(until, asked).await else {
            // Running out of time proves nothing about the server: neither that it is frozen, nor that it is unreachable.
            return last.unwrap_or_else(late);
        };
        if !answer.as_ref().is_err_and(|gap| leads_nowhere(gap.kind) || gap.kind == GapKind::Untrusted) {
            return answer;
        }
        last = Some(answer);
    }
    last.unwrap_or_else(|| Err(Gap::new(GapKind::NoRoute, "no address is known")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(server: &str) -> Readyz {
        let server = server.to_owned();
        Readyz { server, status: 200, failed: Vec::new(), text: String::new(), certificate: None, unnamed: None }
    }

    fn gap(kind: GapKind) -> Observed<Readyz> {
        Err(Gap::new(kind, "test"))
    }

    #[test]
    fn what_a_virtual_ip_says_is_no_word_of_its_last_holder() {
        let vip = ["10.0.0.100".to_owned()];
        assert!(is_own(&Ok(ready("https://10.0.0.1:6443")), &vip));
        assert!(!is_own(&Ok(ready("https://10.0.0.100:6443")), &vip));
        assert!(!is_own(&gap(GapKind::ConnectionRefused), &vip), "nobody knows which of them refused");
        assert!(is_own(&gap(GapKind::ConnectionRefused), &[]) && is_own(&Ok(ready("https://10.0.0.100:6443")), &[]));
    }

    #[test]
    fn who_serves_the_api_is_a_control_plane_whatever_its_label_says() {
        use crate::testing::fixture::{ago, healthy};
        let marked = |change: fn(&mut crate::snapshot::Snapshot)| {
            let mut snapshot = healthy().without_talos();
            snapshot.nodes.iter_mut().for_each(|node| node.role = Role::Worker);
            let kube = snapshot.kube();
            (kube.api_endpoints, kube.pods) = (Ok(Vec::new()), Ok(Vec::new()));
            kube.system_leases.as_mut().unwrap().by_name.clear();
            change(&mut snapshot);
            let kubernetes = snapshot.kubernetes.take().unwrap();
            mark_servers(&mut snapshot.nodes, &kubernetes);
            let servers = snapshot.nodes.into_iter().filter(|node| node.role == Role::ControlPlane);
            servers.map(|node| node.name).collect::<Vec<_>>()
        };
        assert_eq!(marked(|_| ()), [""; 0]);
        assert_eq!(
            marked(|it| it.kube().api_endpoints = healthy().kube().api_endpoints.clone()),
            ["cp-1", "cp-2", "cp-3"]
        );
        let lease = |it: &mut crate::snapshot::Snapshot| {
            let mut lease = healthy().kube().system_leases.as_ref().unwrap().by_name["kube-scheduler"].clone();
            (lease.hostname, lease.renewed) = (Some("w-1".to_owned()), Some(ago(600)));
            it.kube().system_leases.as_mut().unwrap().by_name.insert("apiserver-x".to_owned(), lease);
        };
        assert_eq!(marked(lease), ["w-1"]);
        let pods = |it: &mut crate::snapshot::Snapshot| {
            let mut pods = healthy().kube().pods.clone().unwrap();
            pods.retain(|pod| pod.name == "kube-apiserver-cp-2" || !pod.mirror);
            it.kube().pods = Ok(pods);
        };
        assert_eq!(marked(pods), ["cp-2"]);
        // The user's own statement takes precedence.
        assert_eq!(
            marked(|it| {
                it.kube().api_endpoints = healthy().kube().api_endpoints.clone();
                it.node_mut("cp-1").sources.flags = true;
            }),
            ["cp-2", "cp-3"]
        );
    }

    #[test]
    fn a_translated_address_stands_for_one_that_cannot_be_reached() {
        let elsewhere = || Some(Ok(ready("https://203.0.113.1:6443")));
        assert_eq!(settled(elsewhere(), gap(GapKind::NoRoute), true), Ok(ready("https://203.0.113.1:6443")));
        assert_eq!(settled(elsewhere(), gap(GapKind::NoRoute), false), gap(GapKind::NoRoute), "its machine is lost");
        for kind in [GapKind::ConnectionRefused, GapKind::TimedOut] {
            assert_eq!(settled(elsewhere(), gap(kind), true), gap(kind), "it was reached");
        }
        let own = || Ok(ready("https://10.0.0.1:6443"));
        assert_eq!(settled(elsewhere(), own(), true), own());
        assert_eq!(settled(Some(gap(GapKind::TimedOut)), gap(GapKind::NoRoute), true), gap(GapKind::NoRoute));
        assert_eq!(settled(None, gap(GapKind::NoRoute), true), gap(GapKind::NoRoute));
    }
}
