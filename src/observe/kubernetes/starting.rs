//! Pods that are starting, and the events, volumes and images that explain why they are late.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use futures::future::{join_all, try_join_all};

use super::lists::{Kept, Selection, list};
use super::objects::{Ages, Since, aged};
use super::pending::PendingPod;
use super::pods::RunningImages;
use super::sandboxes::{StartedPod, StrandedPod};
use super::wire::core;
use super::{KubeClient, kept, wanted};
use crate::model::Fact;
use crate::observe::fill;
use crate::snapshot::{AttachedVolume, CsiNode, Gap, Observed, PodEvent, PullingPod, StartingPod, UnplacedPod, WAITED};
use crate::text::is_label;

/// Limit for pods or nodes that are queried individually; beyond it, one list is read.
const LOOKED_AT: usize = 8;

/// Pods that are starting, and facts that explain why they are late.
pub(super) struct Starting {
    pub(super) pods: Observed<Vec<StartingPod>>,
    pub(super) pulling: Vec<PullingPod>,
    pub(super) unplaced: Vec<UnplacedPod>,
    pub(super) events: Observed<Vec<PodEvent>>,
    pub(super) csi_nodes: Observed<Vec<CsiNode>>,
    pub(super) attached: Observed<Vec<AttachedVolume>>,
}

fn split(pending: Observed<Vec<PendingPod>>) -> (Observed<Vec<StartingPod>>, Vec<PullingPod>, Vec<UnplacedPod>) {
    let (mut starting, mut pulling, mut unplaced) = (Vec::new(), Vec::new(), Vec::new());
    let pending = match pending {
        Ok(pending) => pending,
        Err(gap) => return (Err(gap), pulling, unplaced),
    };
    for pod in pending {
        match pod {
            PendingPod::Starting(pod) => starting.push(pod),
            PendingPod::Pulling(pod) => pulling.push(pod),
            PendingPod::Unplaced(pod) => unplaced.push(pod),
        }
    }
    (Ok(starting), pulling, unplaced)
}

/// Returns whether several pods are waiting for volumes on one node.
fn wait_together(pods: &[StartingPod]) -> bool {
    let waits = |pod: &&StartingPod| pod.mounts_storage && pod.waiting_for.is_some_and(|waiting| waiting >= WAITED);
    let mut nodes = BTreeSet::new();
    pods.iter().filter(waits).filter_map(|pod| pod.node.as_ref()).any(|node| !nodes.insert(node))
}

impl KubeClient {
    /// Reads pods that no scheduler has considered or that are waiting on their node, with events: only sandbox failures, unless a pod has
    /// been waiting for long. Other explanations are read only if several pods are waiting on one node.
    pub(super) async fn starting(&self, facts: &BTreeSet<Fact>) -> Starting {
        let pending = self.pods::<PendingPod>(None, "status.phase=Pending");
        let failed = self.events("involvedObject.kind=Pod,reason=FailedCreatePodSandBox");
        let (pending, failed) =
            tokio::join!(wanted(facts, Fact::StartingPods, pending), wanted(facts, Fact::PodEvents, failed));
        let (mut pods, pulling, unplaced) = split(pending);
        if let (Ok(pending), Ok(failed)) = (&mut pods, &failed) {
            match self.stranded(failed).await {
                Ok(stranded) => pending.extend(stranded),
                Err(gap) => pods = Err(gap),
            }
        }
        let pulling = self.running_elsewhere(pulling).await;
        let mut seen = Starting {
            pods,
            pulling,
            unplaced,
            events: failed,
            csi_nodes: Err(Gap::not_asked()),
            attached: Err(Gap::not_asked()),
        };
        if !seen.pods.iter().flatten().any(StartingPod::is_late) {
            return seen;
        }
        let waits = seen.pods.as_ref().is_ok_and(|pods| wait_together(pods));
        // Excludes events that every pod has, and those that come after the sandbox.
        let events = self.events(
            "involvedObject.kind=Pod,reason!=Scheduled,reason!=Pulled,reason!=Created,reason!=Started,reason!=Killing,\
             reason!=BackOff,reason!=Unhealthy",
        );
        let drivers = fill(&mut seen.csi_nodes, waits && facts.contains(&Fact::CsiNodes), || self.everywhere());
        let attached = fill(&mut seen.attached, waits && facts.contains(&Fact::AttachedVolumes), || self.everywhere());
        let overtaken = self.overtaken(seen.pods);
        (seen.pods, seen.events, ..) =
            tokio::join!(overtaken, wanted(facts, Fact::PodEvents, events), drivers, attached);
        seen
    }

    /// Finds the other nodes that already run the images for which many pods of one node are waiting. If they cannot be read, nothing is
    /// added.
    async fn running_elsewhere(&self, mut pulling: Vec<PullingPod>) -> Vec<PullingPod> {
        let mut late: BTreeMap<&str, Vec<&PullingPod>> = BTreeMap::new();
        for pod in pulling.iter().filter(|pod| pod.is_late()) {
            late.entry(&pod.node).or_default().push(pod);
        }
        if !late.values().any(|pods| PullingPod::are_many(pods.iter().copied())) {
            return pulling;
        }
        let select = Selection { fields: Some("spec.nodeName!=,status.phase=Running"), ..Selection::default() };
        let running = self.limited(list(&self.transport, &self.lists, select)).await;
        let mut nodes: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        let running: Vec<RunningImages> = running.into_iter().flat_map(kept).collect();
        for pod in &running {
            for image in &pod.images {
                nodes.entry(image).or_default().insert(&pod.node);
            }
        }
        for pod in &mut pulling {
            let others = nodes.get(pod.image.as_str()).into_iter().flatten();
            pod.runs_on = others.copied().find(|node| *node != pod.node).map(str::to_owned);
        }
        pulling
    }

    /// Reads pods that have already run and that these events are about: a few individually, more with one list.
    async fn stranded(&self, events: &[PodEvent]) -> Observed<Vec<StartingPod>> {
        let mut named: BTreeMap<(&str, &str), Vec<&PodEvent>> = BTreeMap::new();
        // An invalid name matches no pod, and must not change the path of the request. The results are filtered again because a server or
        // proxy may ignore the selector.
        let is_name = |it: &&PodEvent| is_label(&it.namespace) && it.pod.split('.').all(is_label);
        for event in events.iter().filter(is_name).filter(|it| it.reason == "FailedCreatePodSandBox") {
            named.entry((&event.namespace, &event.pod)).or_default().push(event);
        }
        let pods = if named.len() <= LOOKED_AT {
            try_join_all(named.keys().map(async |(namespace, name)| {
                self.pods::<StrandedPod>(Some(namespace), &format!("metadata.name={name},status.phase=Running")).await
            }))
            .await?
        } else {
            vec![self.pods::<StrandedPod>(None, "spec.nodeName!=,status.phase=Running").await?]
        };
        let is_told = |it: &StrandedPod| {
            let events = named.get(&(it.pod.namespace.as_str(), it.pod.name.as_str()));
            events.is_some_and(|events| it.is_told(events))
        };
        Ok(pods.into_iter().flatten().filter(is_told).map(|it| it.pod).collect())
    }

    /// Reads pods, dropping those of which nothing is kept.
    async fn pods<T>(&self, namespace: Option<&str>, fields: &str) -> Observed<Vec<T>>
    where
        Option<T>: Ages,
        Since<Option<T>, core::Pod>: Kept<Object = core::Pod>,
    {
        let select = Selection { namespace, fields: Some(fields), ..Selection::default() };
        let pods = self.limited(list(&self.transport, &self.lists, select)).await?;
        Ok(aged::<Option<T>, core::Pod>(pods).into_iter().flatten().collect())
    }

    async fn events(&self, fields: &str) -> Observed<Vec<PodEvent>> {
        let select = Selection { fields: Some(fields), ..Selection::default() };
        Ok(kept::<Option<PodEvent>>(self.limited(list(&self.transport, &self.lists, select)).await?)
            .flatten()
            .collect())
    }

    /// Finds pods that were bound to the same node later than a late pod and already have their sandbox. If they cannot be read, nothing
    /// changes.
    async fn overtaken(&self, mut pods: Observed<Vec<StartingPod>>) -> Observed<Vec<StartingPod>> {
        let late = || pods.iter().flatten().filter(|pod| pod.is_late());
        let nodes: BTreeSet<String> = late().filter_map(|pod| pod.node.clone()).collect();
        let selections = match nodes.len() {
            0..=LOOKED_AT => nodes.iter().map(|node| format!("spec.nodeName={node},status.phase!=Pending")).collect(),
            _ => vec!["spec.nodeName!=,status.phase!=Pending".to_owned()],
        };
        let started = join_all(selections.iter().map(|fields| self.pods::<StartedPod>(None, fields))).await;
        let mut youngest: HashMap<&str, (Duration, &str)> = HashMap::new();
        for pod in started.iter().flatten().flatten() {
            let Some(age) = pod.has_run_for else { continue };
            let known = youngest.entry(&pod.node).or_insert((age, &pod.name));
            *known = (*known).min((age, &pod.name));
        }
        for pod in pods.iter_mut().flatten() {
            let other = pod.node.as_deref().and_then(|node| youngest.get(node));
            let later = other.filter(|(age, _)| pod.waiting_for.is_some_and(|waiting| *age < waiting));
            pod.overtaken_by = later.map(|(_, name)| (*name).to_owned());
        }
        pods
    }
}
