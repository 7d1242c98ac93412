//! Deployments, DaemonSets and `StatefulSet`s: which are read, and their conversion to facts.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::lists::{Kept, Selection, list};
use super::objects::{Ages, Since, aged, is_critical, labels, name};
use super::pods::component_flags;
use super::room;
use super::wire::meta::ObjectMeta;
use super::wire::{apps, core};
use super::{KubeClient, SYSTEM, wanted};
use crate::model::Fact;
use crate::snapshot::{Gap, GapKind, Observed, Pod, Spread, Workload};
use crate::text::sanitize::without_secrets;

impl KubeClient {
    /// Reads the workloads in `kube-system` and in the namespaces of the network plugin, which are found through its DaemonSet, and the
    /// DaemonSets of drivers in any namespace. Without Talos, workloads marked as critical are added; if they cannot be read, the results
    /// for `kube-system` still stand. The returned pods are those of the network plugin, and of drivers with missing pods.
    pub(super) async fn workloads(
        &self,
        facts: &BTreeSet<Fact>,
        others: impl Future<Output = BTreeSet<String>>,
        asks_talos: bool,
    ) -> ([Observed<Vec<Workload>>; 3], Observed<Vec<String>>, Vec<Pod>) {
        let (others, sets, mut deployments, mut stateful_sets) = tokio::join!(
            others,
            wanted(facts, Fact::DaemonSets, self.daemon_sets()),
            wanted(facts, Fact::Deployments, self.aged::<_, apps::Deployment>(SYSTEM)),
            wanted(facts, Fact::StatefulSets, self.aged::<_, apps::StatefulSet>(SYSTEM)),
        );
        let (sets, all) = match sets {
            Ok((sets, all)) => (Ok(sets), all),
            Err(gap) => (Err(gap.clone()), Err(gap)),
        };
        let mut namespaces = all.map(|()| {
            let of_plugin = network_namespaces(sets.iter().flatten());
            of_plugin.into_iter().chain(others).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        });
        let of_plugin = namespaces.iter().flatten().map(async |namespace| {
            tokio::join!(
                wanted(facts, Fact::Deployments, self.aged::<_, apps::Deployment>(namespace)),
                wanted(facts, Fact::StatefulSets, self.aged::<_, apps::StatefulSet>(namespace)),
                wanted(facts, Fact::Pods, self.aged::<_, core::Pod>(namespace)),
            )
        });
        let mut pods = Vec::new();
        for (more_deployments, more_sets, more_pods) in join_all(of_plugin).await {
            let parts = [
                extend(deployments.as_mut().ok(), more_deployments),
                extend(stateful_sets.as_mut().ok(), more_sets),
                extend(Some(&mut pods), more_pods),
            ];
            if let Some(gap) = parts.into_iter().find_map(Result::err) {
                namespaces = Err(gap);
            }
        }
        let is_system = |set: &Workload| {
            let is_beside = |namespaces: &Vec<String>| namespaces.contains(&set.namespace);
            let is_known = set.installs_network || set.registers_driver || namespaces.iter().any(is_beside);
            set.namespace == SYSTEM || is_known || (set.is_critical && !asks_talos)
        };
        let sets: Observed<Vec<Workload>> = sets.map(|sets| sets.into_iter().filter(is_system).collect());
        let (more_pods, lost) = self.pods_beside(facts, sets.iter().flatten(), namespaces.iter().flatten()).await;
        pods.extend(more_pods);
        let namespaces = lost.map_or(namespaces, Err);
        ([sets, deployments, stateful_sets], namespaces, pods)
    }

    /// Reads the pods of DaemonSets with missing pods in namespaces that have not been read. For complete DaemonSets, their counts are
    /// enough.
    async fn pods_beside<'a>(
        &self,
        facts: &BTreeSet<Fact>,
        sets: impl Iterator<Item = &'a Workload>,
        read: impl Iterator<Item = &'a String>,
    ) -> (Vec<Pod>, Option<Gap>) {
        let read: BTreeSet<&str> = read.map(String::as_str).chain([SYSTEM]).collect();
        let lacks = |set: &&Workload| !set.is_observed() || set.missing() > 0 || set.rollout(0).is_some();
        let lacking: BTreeSet<(&str, &str)> = sets
            .filter(|set| !read.contains(set.namespace.as_str()))
            .filter(lacks)
            .map(|set| (set.namespace.as_str(), set.name.as_str()))
            .collect();
        let namespaces: BTreeSet<&str> = lacking.iter().map(|(namespace, _)| *namespace).collect();
        let lists = namespaces.into_iter().map(async |namespace| {
            let pods: Observed<Vec<Pod>> = wanted(facts, Fact::Pods, self.aged::<_, core::Pod>(namespace)).await;
            pods
        });
        let (mut pods, mut lost) = (Vec::new(), None);
        for answer in join_all(lists).await {
            match answer {
                Ok(found) => pods.extend(found),
                Err(gap) => lost = lost.or(Some(gap)),
            }
        }
        let is_theirs = |pod: &Pod| match &pod.controller {
            Some((kind, name)) => kind == "DaemonSet" && lacking.contains(&(pod.namespace.as_str(), name.as_str())),
            None => false,
        };
        pods.retain(is_theirs);
        (pods, lost)
    }

    /// Reads the DaemonSets of all namespaces. If only those of `kube-system` may be read, returns these and the reason for the missing
    /// others.
    async fn daemon_sets(&self) -> Observed<(Vec<Workload>, Observed<()>)> {
        let all = self.limited(list(&self.transport, &self.lists, Selection::default())).await;
        match all {
            Ok(all) => Ok((aged::<Workload, apps::DaemonSet>(all), Ok(()))),
            Err(gap) if matches!(gap.kind, GapKind::Forbidden | GapKind::TooLarge) => {
                Ok((self.aged::<_, apps::DaemonSet>(SYSTEM).await?, Err(gap)))
            }
            Err(gap) => Err(gap),
        }
    }
}

/// Returns the namespaces of the network plugin other than `kube-system`.
fn network_namespaces<'a>(sets: impl Iterator<Item = &'a Workload>) -> Vec<String> {
    let own = sets.filter(|set| set.is_of_network_plugin()).map(|set| set.namespace.as_str());
    // Calico's operator has its own namespace, and so does the API server that it runs.
    let with_operator = |namespace| match namespace {
        "calico-system" => vec![namespace, "tigera-operator", "calico-apiserver"],
        _ => vec![namespace],
    };
    let all: BTreeSet<&str> = own.flat_map(with_operator).filter(|namespace| *namespace != SYSTEM).collect();
    all.into_iter().map(str::to_owned).collect()
}

/// Appends additional results to the list, if the list was read.
fn extend<T>(list: Option<&mut Vec<T>>, part: Observed<Vec<T>>) -> Observed<()> {
    let part = part?;
    if let Some(list) = list {
        list.extend(part);
    }
    Ok(())
}

impl Ages for Workload {
    fn set_age(&mut self, age: Option<Duration>) {
        self.unchanged_for = age;
    }
}

/// Returns when the workload last changed: each writer to an object leaves its name and the time there. Once the controller has observed
/// the specification, only writes to the status count, since any client may touch an annotation.
fn changed(metadata: &ObjectMeta, workload: &Workload) -> Option<Timestamp> {
    let writes = || metadata.managed_fields.iter().flatten().filter_map(|entry| Some((entry, entry.time.as_ref()?.0)));
    let of_status = writes().filter(|(entry, _)| workload.is_observed() && entry.subresource == "status");
    of_status.map(|(_, at)| at).max().or_else(|| writes().map(|(_, at)| at).max())
}

impl Kept for Since<Workload, apps::DaemonSet> {
    type Object = apps::DaemonSet;

    fn of(set: apps::DaemonSet) -> Self {
        let status = set.status.unwrap_or_default();
        let spec = set.spec.unwrap_or_default();
        let desired = status.desired_number_scheduled;
        let pod = spec.template.spec.unwrap_or_default();
        let workload = Workload {
            observed_generation: status.observed_generation,
            desired,
            available: status.number_available.unwrap_or_default(),
            updated: rolls_out(&spec.update_strategy).then(|| status.updated_number_scheduled.unwrap_or_default()),
            installs_network: installs_network(&pod),
            registers_driver: registers_driver(&pod),
            is_critical: is_critical(pod.priority_class_name.as_deref()),
            spread: Spread {
                host_network: pod.host_network == Some(true),
                placement: room::placement(pod.node_selector, pod.affinity, pod.tolerations),
                max_unavailable: max_unavailable(spec.update_strategy.rolling_update, desired),
            },
            flags: pod.containers.and_then(component_flags),
            ..workload(&set.metadata)
        };
        let changed = changed(&set.metadata, &workload);
        Self::new(workload, changed)
    }
}

impl Kept for Since<Workload, apps::Deployment> {
    type Object = apps::Deployment;

    fn of(deployment: apps::Deployment) -> Self {
        let status = deployment.status.unwrap_or_default();
        let updated = status.updated_replicas.unwrap_or_default();
        let says = |kind: &str, wrong: &str| {
            let mut conditions = status.conditions.iter().flatten();
            let it = conditions.find(|condition| condition.type_ == kind && condition.status == wrong)?;
            Some(without_secrets(it.message.as_deref().or(it.reason.as_deref()).unwrap_or_default()))
        };
        let spec = deployment.spec.unwrap_or_default();
        let workload = Workload {
            observed_generation: status.observed_generation,
            desired: replicas(spec.replicas),
            is_critical: is_ranked_critical(&spec.template),
            available: status.available_replicas.unwrap_or_default(),
            updated: Some(updated),
            outdated: status.replicas.unwrap_or_default().saturating_sub(updated).max(0),
            given_up: says("Progressing", "False"),
            refused: says("ReplicaFailure", "True"),
            ..workload(&deployment.metadata)
        };
        let changed = changed(&deployment.metadata, &workload);
        Self::new(workload, changed)
    }
}

impl Kept for Since<Workload, apps::StatefulSet> {
    type Object = apps::StatefulSet;

    fn of(set: apps::StatefulSet) -> Self {
        let status = set.status.unwrap_or_default();
        let spec = set.spec.unwrap_or_default();
        // If the newest revision is the only one, all pods belong to it, regardless of the count.
        let is_rolling = status.current_revision != status.update_revision && rolls_out(&spec.update_strategy);
        let workload = Workload {
            observed_generation: status.observed_generation,
            desired: replicas(spec.replicas),
            available: status.available_replicas.unwrap_or_default(),
            updated: is_rolling.then(|| status.updated_replicas.unwrap_or_default()),
            is_critical: is_ranked_critical(&spec.template),
            ..workload(&set.metadata)
        };
        let changed = changed(&set.metadata, &workload);
        Self::new(workload, changed)
    }
}

/// Returns whether a DaemonSet installs a network plugin, regardless of its name: its pods mount the folder where every container runtime
/// looks for network plugins or, if they run in the host's network and so do not need a plugin themselves, the folder of their
/// configuration.
fn installs_network(pod: &apps::PodTemplateSpec) -> bool {
    let mut folders = host_folders(pod);
    let is_in = |folder: &str, parent: &str| {
        folder.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    folders.any(|it| is_in(it, "/opt/cni") || pod.host_network == Some(true) && is_in(it, "/etc/cni"))
}

/// Returns whether a DaemonSet registers a driver: the kubelet looks for drivers' sockets in a folder of this name, wherever its own folder
/// is. Without a CSI socket, no volume of the driver can be mounted on the node.
fn registers_driver(pod: &apps::PodTemplateSpec) -> bool {
    host_folders(pod).any(|folder| folder.ends_with("/plugins_registry"))
}

fn is_ranked_critical(template: &apps::RankedTemplate) -> bool {
    is_critical(template.spec.as_ref().and_then(|spec| spec.priority_class_name.as_deref()))
}

/// Returns the folders of the node that the pods mount.
fn host_folders(pod: &apps::PodTemplateSpec) -> impl Iterator<Item = &str> {
    let paths = pod.volumes.iter().flatten().filter_map(|volume| volume.host_path.as_ref());
    paths.map(|path| path.path.trim_end_matches('/'))
}

/// Returns whether the controller replaces all pods with those of its newest template. With `OnDelete` or a partition, users do that.
fn rolls_out(strategy: &apps::UpdateStrategy) -> bool {
    let partition = strategy.rolling_update.as_ref().and_then(|rolling| rolling.partition);
    strategy.type_.as_deref() != Some("OnDelete") && partition.unwrap_or_default() == 0
}

/// Returns how many of the desired pods may be unavailable. The API server's default is one, and a percentage is rounded up.
fn max_unavailable(rolling: Option<apps::RollingUpdate>, desired: i32) -> usize {
    let count = match rolling.and_then(|it| it.max_unavailable) {
        None => 1,
        Some(IntOrString::Int(count)) => i64::from(count),
        Some(IntOrString::String(share)) => {
            let percent = share.strip_suffix('%').and_then(|number| number.parse::<u32>().ok()).unwrap_or_default();
            (i64::from(desired) * i64::from(percent) + 99) / 100
        }
    };
    usize::try_from(count).unwrap_or_default()
}

/// Returns the number of replicas. The API server's default is one.
fn replicas(replicas: Option<i32>) -> i32 {
    replicas.unwrap_or(1)
}

/// Returns a workload whose pods have not been counted.
fn workload(metadata: &ObjectMeta) -> Workload {
    Workload {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: name(metadata),
        labels: labels(metadata),
        generation: metadata.generation.unwrap_or_default(),
        observed_generation: None,
        desired: 0,
        available: 0,
        updated: None,
        outdated: 0,
        given_up: None,
        refused: None,
        unchanged_for: None,
        installs_network: false,
        registers_driver: false,
        flags: None,
        is_critical: false,
        spread: Spread::default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::observe::kubernetes::objects::tests::{ages, read};

    #[test]
    fn a_network_plugin_is_known_by_what_it_mounts() {
        let installs = |path: &str, host_network: bool| {
            let pod = json!({"hostNetwork": host_network, "volumes": [{"name": "a"}, {"name": "b", "hostPath": {"path": path}}]});
            let set = json!({"metadata": {"name": "agent"}, "spec": {"template": {"spec": pod}}});
            Since::<Workload, apps::DaemonSet>::of(read(set)).kept.installs_network
        };
        for path in ["/opt/cni/bin", "/opt/cni/bin/", "/opt/cni"] {
            assert!(installs(path, false) && installs(path, true), "{path}");
        }
        assert!(installs("/etc/cni/net.d", true) && !installs("/etc/cni/net.d", false));
        for path in ["/", "/opt", "/etc", "/opt/cnix", "/var/lib/cni"] {
            assert!(!installs(path, true), "{path}");
        }
    }

    #[test]
    fn a_driver_is_known_by_the_folder_in_which_it_registers() {
        let registers = |path: &str| {
            let pod = json!({"volumes": [{"name": "a"}, {"name": "b", "hostPath": {"path": path}}]});
            let set = json!({"metadata": {"name": "node"}, "spec": {"template": {"spec": pod}}});
            Since::<Workload, apps::DaemonSet>::of(read(set)).kept.registers_driver
        };
        for path in ["/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/plugins_registry/", "/k/plugins_registry"] {
            assert!(registers(path), "{path}");
        }
        for path in ["/", "/var/lib/kubelet", "/var/lib/kubelet/plugins", "/var/lib/my-plugins_registry", ""] {
            assert!(!registers(path), "{path}");
        }
    }

    #[test]
    fn a_daemon_set_tells_where_it_wants_its_pods() {
        let spread = |pod: Value, rolling: Value| {
            let spec = json!({"template": {"spec": pod}, "updateStrategy": {"rollingUpdate": rolling}});
            let set = json!({"metadata": {"name": "agent"}, "spec": spec, "status": {"desiredNumberScheduled": 5}});
            Since::<Workload, apps::DaemonSet>::of(read(set)).kept.spread
        };
        let pod = json!({
            "hostNetwork": true,
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}],
            }}},
        });
        let Spread { placement, host_network, max_unavailable } = spread(pod, json!(null));
        assert!(host_network && placement.labels["disk"] == "ssd");
        assert_eq!((placement.tolerations.len(), placement.terms.unwrap().len()), (1, 1));
        assert_eq!(max_unavailable, 1, "the API server's default");
        for (told, expected) in
            [(json!(0), 0), (json!(2), 2), (json!("10%"), 1), (json!("50%"), 3), (json!("much"), 0), (json!(-1), 0)]
        {
            let rolling = json!({"maxUnavailable": told});
            assert_eq!(spread(json!({}), rolling).max_unavailable, expected, "{told}");
        }
    }

    #[test]
    fn workloads_keep_their_numbers() {
        let of_set = |value| Since::<Workload, apps::DaemonSet>::of(read(value)).kept;
        let of_deployment = |value| Since::<Workload, apps::Deployment>::of(read(value)).kept;
        let set = of_set(json!({
            "metadata": {"name": "kube-proxy", "generation": 2, "labels": {"k8s-app": "kube-proxy"}},
            "status": {"observedGeneration": 1, "desiredNumberScheduled": 4, "numberAvailable": 3,
                       "currentNumberScheduled": 4, "numberMisscheduled": 0, "numberReady": 3},
        }));
        assert_eq!((set.generation, set.observed_generation, set.desired, set.available), (2, Some(1), 4, 3));
        let unseen = of_set(json!({"metadata": {"name": "kube-flannel", "generation": 1}}));
        assert_eq!((unseen.observed_generation, unseen.desired, unseen.available), (None, 0, 0));
        let dns = of_deployment(json!({"metadata": {"name": "coredns"}, "status": {"availableReplicas": 2}}));
        assert_eq!((dns.desired, dns.available, dns.given_up), (1, 2, None));
        let stuck = of_deployment(json!({"metadata": {"name": "coredns"}, "status": {"conditions": [
            {"type": "Available", "status": "False"},
            {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out\ntoken: x"},
        ]}}));
        assert_eq!(stuck.given_up.as_deref(), Some("timed out\ntoken ***"));
    }

    #[test]
    fn a_workload_is_unchanged_since_somebody_last_wrote_to_it() {
        let workload = |times: &[&str]| {
            let entries: Vec<_> = times.iter().map(|time| json!({"manager": "m", "time": time})).collect();
            json!({"metadata": {"name": "a", "namespace": "b", "managedFields": entries}})
        };
        let sets = ages::<Workload, apps::DaemonSet>(vec![
            workload(&["2026-11-21T00:08:00Z", "2026-11-21T00:01:00Z"]),
            workload(&[]),
        ]);
        let seconds: Vec<_> = sets.iter().map(|set| set.unchanged_for.map(|age| age.as_secs())).collect();
        assert_eq!(seconds, [Some(120), None]);
        // Other writes prove nothing about its pods, once its controller has observed the specification.
        let annotated = |observed: i64| {
            json!({"metadata": {"name": "a", "namespace": "b", "generation": 2, "managedFields": [
                {"manager": "argocd", "time": "2026-11-21T00:09:00Z"},
                {"manager": "kube-controller-manager", "subresource": "status", "time": "2026-11-21T00:01:00Z"},
            ]}, "status": {"observedGeneration": observed}})
        };
        let sets = ages::<Workload, apps::DaemonSet>(vec![annotated(2), annotated(1)]);
        let seconds: Vec<_> = sets.iter().map(|set| set.unchanged_for.map(|age| age.as_secs())).collect();
        assert_eq!(seconds, [Some(540), Some(60)]);
    }
}
