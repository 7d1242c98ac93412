//! What is installed in a new cluster: the bootstrap manifests of Talos, and a network plugin.

use std::collections::HashSet;

use super::nodes::{EACH, NAMES};
use super::symptoms::{Sign, first_names};
use super::{Cause, Recognized};
use crate::assess::workloads::describe_unready;
use crate::model::reason::sources::{KUBERNETES_NETWORK, TALOS_TROUBLESHOOTING_CONTROL_PLANE};
use crate::model::{CheckId, Hint, Reason, Severity, Step, Target};
use crate::snapshot::{Pod, Snapshot};
use crate::text::excerpt;

use Step::{Do, Look};

pub(super) const NO_MANIFESTS: Cause = Cause {
    id: "bootstrap-manifests-missing",
    title: "Talos has not applied the bootstrap manifests",
    impact: "no network, no Services and no DNS for pods, and no further machine can join",
    explain: "After the bootstrap a control plane applies the manifests that every cluster needs: RBAC for kubelets that join, \
kube-proxy, flannel, CoreDNS. None of them has been applied, so what they would install is missing. In the first minute \
after the bootstrap that is normal.\n\n\
If it lasts, the API server refuses one of the manifests, which holds up the others too, or the control planes do not reach the \
API through the cluster endpoint.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("talosctl -n CP logs controller-runtime"),
        Look("talosctl -n CP get manifests"),
        Do("Look there for the name of a manifest and the error of the API server, and correct that manifest."),
    ],
    recognize: |symptoms| {
        let signs = symptoms.of_check(CheckId::K8sManifests, &[Reason::ManifestsNotApplied]);
        let follows = symptoms.of(&[Reason::DaemonsetMissing, Reason::DnsMissing]);
        let follows: Vec<_> = follows.filter(|sign| symptoms.is_open(sign)).collect();
        signs
            .filter(|sign| sign.problem.severity == Severity::Fail && sign.is_root())
            .map(|sign| {
                let missing = first_names(&follows.iter().map(|sign| sign.target).collect::<Vec<_>>(), NAMES);
                let so = if follows.is_empty() { String::new() } else { format!(", so there is no {missing}") };
                let headline = format!("Talos has applied no bootstrap manifest{so}");
                let recognized = Recognized::new(NO_MANIFESTS.id, headline).rests_on(&sign);
                let control_plane = symptoms.snapshot.control_planes().take(1).map(|node| node.address.as_str());
                let look = control_plane.map(|it| Hint::run("{talosctl} -n {} logs controller-runtime", [it]));
                look.fold(recognized.explains(follows.iter().copied()), Recognized::then)
            })
            .collect()
    },
};

pub(super) const NO_NETWORK: Cause = Cause {
    id: "network-plugin-missing",
    title: "no network plugin works, so nodes stay NotReady",
    impact: "no new pod gets a network on these nodes",
    explain: "The kubelets report that no network plugin (CNI) is initialized. With `cni: none` Talos installs none, and nodes \
stay NotReady until one is installed; with flannel, its pods do not start. Pods that need a network, including DNS, wait for \
it.\n\n\
The machines themselves are healthy.",
    source: KUBERNETES_NETWORK,
    remedy: &[
        Look("kubectl -n kube-system get pods -o wide"),
        Look("talosctl -n CP get manifests"),
        Do("Install a network plugin, or look at the logs of the one that is installed."),
    ],
    recognize: |symptoms| {
        let signs: Vec<_> = symptoms.of(&[Reason::CniMissing]).collect();
        if signs.is_empty() {
            return Vec::new();
        }
        let total = symptoms.snapshot.nodes.iter().filter(|node| node.sources.kubernetes).count();
        let headline = format!(
            "no network plugin works on {} of {total} nodes ({}), which stay NotReady",
            signs.len(),
            first_names(&signs.iter().map(|sign| sign.target).collect::<Vec<_>>(), NAMES)
        );
        // The network plugin shows why, if it is one of those that are judged.
        let agents = symptoms.of_check(CheckId::K8sCni, &[Reason::DaemonsetIncomplete, Reason::DaemonsetMissing]);
        let agents: Vec<_> = agents.filter(Sign::is_root).collect();
        let headline = match agents.first() {
            Some(agent) => format!("{headline}: {}", excerpt::of(&agent.problem.observed)),
            None => headline,
        };
        let recognized = Recognized::new(NO_NETWORK.id, headline);
        let recognized =
            agents.iter().take(EACH).fold(recognized, Recognized::rests_on).explains(agents.iter().copied());
        let recognized = match crashing_agent(symptoms.snapshot, &signs) {
            Some((pod, words)) => recognized
                .sees(Target::pod(pod.name.as_str(), pod.node.as_deref()), words)
                .then(Hint::run("{kubectl} -n {} logs {} --previous", [&pod.namespace, &pod.name])),
            None => recognized.then(Hint::run("{kubectl} -n kube-system get pods -o wide", [])),
        };
        vec![recognized.rests_on_all(&signs)]
    },
};

/// A pod of the network plugin that crashes again and again on one of these machines, and what is said of it.
fn crashing_agent<'a>(snapshot: &'a Snapshot, signs: &[Sign<'_>]) -> Option<(&'a Pod, String)> {
    let kubernetes = snapshot.kubernetes.as_ref()?;
    let agents = kubernetes.daemon_sets.as_ref().ok()?.iter().filter(|set| set.is_network_agent());
    let agents: HashSet<_> = agents.map(|set| ("DaemonSet", set.namespace.as_str(), set.name.as_str())).collect();
    let is_of_one = |pod: &&Pod| {
        let owner = pod.controller.as_ref().map(|(kind, name)| (kind.as_str(), pod.namespace.as_str(), name.as_str()));
        owner.is_some_and(|owner| agents.contains(&owner))
    };
    let is_there = |pod: &&Pod| signs.iter().any(|sign| pod.node.as_ref() == Some(&sign.target.name));
    kubernetes.pods.as_ref().ok()?.iter().filter(is_of_one).filter(is_there).find_map(|pod| {
        let trouble = describe_unready(&pod.state, snapshot.server_time()).filter(|trouble| trouble.crash_looping)?;
        Some((pod, trouble.words))
    })
}
