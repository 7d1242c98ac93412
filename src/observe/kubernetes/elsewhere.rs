//! Cluster components outside kube-system in a cluster that Talos has not set up: DNS, static pods with their leases, and workloads marked
//! as critical to the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::try_join_all;

use super::lists::{Kept, Selection, list, list_in};
use super::objects::{Since, aged};
use super::slices::Slice;
use super::wire::{apps, core};
use super::{KubeClient, SYSTEM, kept};
use crate::model::Fact;
use crate::snapshot::{Gap, GapKind, Kubernetes, Leases, Observed, Pod, ServiceEndpoint, Workload};

/// Labels of the EndpointSlices of cluster DNS, copied from its Service.
const DNS_LABELS: [&str; 2] =
    ["k8s-app in (kube-dns,coredns,vcluster-kube-dns)", "dns.operator.openshift.io/owning-dns"];

/// Components that elect a leader, and their leases.
const ELECTING: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];

pub(super) struct Elsewhere {
    /// Static pods of all namespaces, including kube-system.
    mirrors: Observed<Arc<Vec<Pod>>>,
    dns: Observed<Vec<ServiceEndpoint>>,
    /// Deployments and `StatefulSets`.
    critical: [Everywhere; 2],
}

/// Workloads of one kind in all namespaces.
struct Everywhere {
    /// The workloads marked as critical to the cluster.
    critical: Observed<Vec<Workload>>,
    /// The number of listed workloads in kube-system.
    of_system: usize,
}

impl Everywhere {
    const UNASKED: Self = Self { critical: Ok(Vec::new()), of_system: usize::MAX };

    /// Returns the critical workloads that are not in `list`, which has all of kube-system.
    fn beside(&self, list: &[Workload]) -> Observed<Vec<Workload>> {
        let critical = self.critical.as_ref().map_err(Gap::clone)?;
        if self.of_system == 0 && list.iter().any(|it| it.namespace == SYSTEM) {
            return Err(Gap::new(GapKind::Malformed, "the list of all namespaces lacks kube-system"));
        }
        let known: BTreeSet<_> = list.iter().map(|it| (&it.namespace, &it.name)).collect();
        Ok(critical.iter().filter(|it| !known.contains(&(&it.namespace, &it.name))).cloned().collect())
    }
}

impl Default for Elsewhere {
    fn default() -> Self {
        Self { mirrors: Ok(Arc::default()), dns: Ok(Vec::new()), critical: [Everywhere::UNASKED, Everywhere::UNASKED] }
    }
}

impl Elsewhere {
    pub(super) fn mirrors(&self) -> Arc<Vec<Pod>> {
        self.mirrors.clone().unwrap_or_default()
    }

    /// Returns the namespaces in which something was found.
    pub(super) fn namespaces(&self) -> BTreeSet<String> {
        let of_pods = self.mirrors.iter().flat_map(|pods| pods.iter()).map(|pod| &pod.namespace);
        let all = of_pods.chain(self.dns.iter().flatten().map(|endpoint| &endpoint.namespace));
        all.filter(|namespace| *namespace != SYSTEM).cloned().collect()
    }

    /// Adds these objects to those read from kube-system. If they could not be read, the combined list counts as unknown, because an
    /// important object may be missing.
    pub(super) fn add_to(&self, seen: &mut Kubernetes) {
        // If kube-system has the static pods, other namespaces need not be readable.
        let is_seen_here = seen.pods.iter().flatten().any(|pod| pod.mirror);
        let is_excused = |gap: &Gap| gap.kind == GapKind::Forbidden && is_seen_here;
        if !self.mirrors.as_ref().is_err_and(is_excused) {
            let others = |pods: &Arc<Vec<Pod>>| pods.iter().filter(|pod| pod.namespace != SYSTEM).cloned().collect();
            extend(&mut seen.pods, self.mirrors.as_ref().map(others).map_err(Gap::clone));
        }
        extend(&mut seen.dns_endpoints, self.dns.clone());
        for (list, all) in [&mut seen.deployments, &mut seen.stateful_sets].into_iter().zip(&self.critical) {
            let Ok(list) = list else { continue };
            match all.beside(list) {
                Ok(critical) => list.extend(critical),
                // The objects of kube-system are known nevertheless.
                Err(gap) if seen.plugin_namespaces.is_ok() => seen.plugin_namespaces = Err(gap),
                Err(_) => {}
            }
        }
    }
}

/// Adds the items that the list does not have yet.
fn extend<T: PartialEq>(list: &mut Observed<Vec<T>>, others: Observed<Vec<T>>) {
    match (list.as_mut(), others) {
        (Ok(list), Ok(others)) => {
            for other in others {
                if !list.contains(&other) {
                    list.push(other);
                }
            }
        }
        (Ok(_), Err(gap)) => *list = Err(gap),
        (Err(_), _) => {}
    }
}

/// Returns the namespaces, other than kube-system, in which a component elects a leader: those with a ready static pod of it on a machine
/// that serves the API, unless kube-system has one. Users who may create pods and leases in other namespaces must not be able to hide a
/// dead scheduler.
pub(super) fn elections(mirrors: &[Pod], leases: &Leases, api: &[ServiceEndpoint]) -> BTreeSet<(String, &'static str)> {
    let addresses: BTreeSet<&String> = api.iter().flat_map(|endpoint| &endpoint.addresses).collect();
    let hosts: BTreeSet<&String> = leases.of_api_servers().filter_map(|lease| lease.hostname.as_ref()).collect();
    let serves = |pod: &Pod| {
        let is_known = pod.node.as_ref().is_some_and(|node| hosts.contains(node));
        is_known || pod.addresses.iter().any(|address| addresses.contains(address))
    };
    let electing = |component: &'static str| {
        let its = || mirrors.iter().filter(move |pod| pod.is_mirror_of(component));
        let is_here = its().any(|pod| pod.namespace == SYSTEM);
        // Only the pod's kubelet can report it ready.
        let others = its().filter(|pod| !is_here && pod.state.ready == Some(true) && serves(pod));
        others.map(|pod| (pod.namespace.clone(), component)).collect::<Vec<_>>()
    };
    ELECTING.into_iter().flat_map(electing).collect()
}

impl KubeClient {
    pub(super) async fn elsewhere(&self, facts: &BTreeSet<Fact>) -> Elsewhere {
        let none = |fact: Fact| !facts.contains(&fact);
        let mirrors = async { if none(Fact::Pods) { Ok(Arc::default()) } else { self.mirror_pods().await } };
        let dns = async { if none(Fact::DnsEndpoints) { Ok(Vec::new()) } else { self.labeled_dns().await } };
        let deployments = self.critical::<apps::Deployment>(facts, Fact::Deployments);
        let stateful_sets = self.critical::<apps::StatefulSet>(facts, Fact::StatefulSets);
        let (mirrors, dns, deployments, stateful_sets) = tokio::join!(mirrors, dns, deployments, stateful_sets);
        Elsewhere { mirrors, dns, critical: [deployments, stateful_sets] }
    }

    async fn critical<K>(&self, facts: &BTreeSet<Fact>, fact: Fact) -> Everywhere
    where
        Since<Workload, K>: Kept,
    {
        if !facts.contains(&fact) {
            return Everywhere::UNASKED;
        }
        let all = self.limited(list(&self.transport, &self.lists, Selection::default())).await;
        let mut critical = all.map(aged::<Workload, K>);
        let of_system = critical.iter().flatten().filter(|workload| workload.namespace == SYSTEM).count();
        if let Ok(all) = &mut critical {
            all.retain(|workload| workload.is_critical);
        }
        Everywhere { critical, of_system }
    }

    /// Reads the static pods of all namespaces: they are the only pods without a service account.
    async fn mirror_pods(&self) -> Observed<Arc<Vec<Pod>>> {
        let select = Selection { fields: Some("spec.serviceAccountName="), ..Selection::default() };
        let mut pods = aged::<Pod, core::Pod>(self.limited(list(&self.transport, &self.lists, select)).await?);
        pods.retain(|pod| pod.mirror);
        Ok(pods.into())
    }

    /// Reads the endpoints of DNS Services of any name. If kube-system has one, those in other namespaces serve another purpose, such as a
    /// virtual cluster.
    async fn labeled_dns(&self) -> Observed<Vec<ServiceEndpoint>> {
        let labeled = try_join_all(DNS_LABELS.map(async |labels| {
            let select = Selection { labels: Some(labels), ..Selection::default() };
            match self.limited(list::<Slice>(&self.transport, &self.lists, select)).await {
                Err(gap) if gap.kind == GapKind::Forbidden => {
                    let here = self.limited(list_in(&self.transport, &self.lists, SYSTEM, Some(labels))).await?;
                    Ok((kept(here).collect::<Vec<Slice>>(), Some(gap)))
                }
                slices => Ok((kept(slices?).collect(), None)),
            }
        }));
        let (slices, gaps): (Vec<_>, Vec<_>) = labeled.await?.into_iter().unzip();
        let mut slices: Vec<Slice> = slices.into_iter().flatten().filter(|slice| slice.has_dns_port).collect();
        if slices.iter().any(|slice| slice.namespace == SYSTEM) {
            slices.retain(|slice| slice.namespace == SYSTEM);
        } else if let Some(gap) = gaps.into_iter().flatten().next() {
            return Err(gap);
        }
        Ok(slices.into_iter().flat_map(Slice::shown).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixture::healthy;

    #[test]
    fn an_election_counts_beside_static_pods_of_machines_that_serve_the_api() {
        let mut snapshot = healthy();
        let kubernetes = snapshot.kube();
        let pods = kubernetes.pods.as_ref().unwrap();
        let mut scheduler = pods.iter().find(|pod| pod.name == "kube-scheduler-cp-1").unwrap().clone();
        let all = kubernetes.system_leases.clone().unwrap();
        let mut leases = all.clone();
        leases.by_name.retain(|name, _| !name.starts_with("apiserver-"));
        let api = kubernetes.api_endpoints.clone().unwrap();
        let of = |pods: &[Pod], leases: &Leases| {
            elections(pods, leases, &api).into_iter().map(|(namespace, _)| namespace).collect::<Vec<_>>()
        };
        "own".clone_into(&mut scheduler.namespace);
        scheduler.addresses = vec!["10.9.9.9".to_owned()];
        assert_eq!(of(&[scheduler.clone()], &leases), [""; 0], "its machine serves nothing");
        scheduler.addresses.clone_from(&api[0].addresses);
        assert_eq!(of(&[scheduler.clone()], &leases), ["own"]);
        scheduler.addresses.clear();
        assert_eq!(of(&[scheduler.clone()], &all), ["own"], "its server has a lease");
        let here = Pod { namespace: "kube-system".to_owned(), ..scheduler.clone() };
        assert_eq!(of(&[scheduler.clone(), here], &all), [""; 0]);
        scheduler.state.ready = Some(false);
        assert_eq!(of(&[scheduler], &all), [""; 0]);
    }
}
