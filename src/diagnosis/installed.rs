//! Components that are installed in a new cluster: Talos's bootstrap manifests, and a network plugin.

use std::collections::HashMap;

use super::nodes::{EACH, NAMES};
use super::symptoms::{Sign, first_names};
use super::{Cause, Recognized};
use crate::assess::workloads::{WorkloadKind, lacks_image};
use crate::model::reason::sources::{KUBERNETES_NETWORK, TALOS_TROUBLESHOOTING_CONTROL_PLANE};
use crate::model::{CheckId, Hint, NO_NODE, Reason, Severity, Step};
use crate::snapshot::{ContainerState, Pod, Snapshot, Workload};
use crate::text::excerpt;

use Step::{Do, Look};

pub(super) const NO_MANIFESTS: Cause = Cause {
    id: "bootstrap-manifests-missing",
    title: "Talos has not applied the bootstrap manifests",
    impact: "no network, no Services and no DNS for pods, and no further machine can join",
    explain: "After the bootstrap a control plane applies the manifests that every cluster needs: RBAC for kubelets that join, \
kube-proxy, flannel, CoreDNS. None of them has been applied, so what they would install is missing. In the first minute \
after the bootstrap that is normal.\n\n\
If it lasts, the API server refuses one of the manifests, which holds up the others too, or the control planes cannot reach \
the API through the cluster endpoint.",
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
        // The network plugin's own failure shows the reason, if it is a plugin that is judged.
        let agents = symptoms.of_check(CheckId::K8sCni, &[Reason::DaemonsetIncomplete, Reason::DaemonsetMissing]);
        let agents: Vec<_> = agents.filter(Sign::is_root).collect();
        let failing = alike(symptoms.snapshot, if agents.is_empty() { &signs } else { &agents }.iter().copied());
        let (headline, look) = match (failing.first(), agents.first()) {
            (Some((failing, its)), _) => (
                format!("{}; no network plugin works there, and they stay NotReady", failing.told(its)),
                failing.look(),
            ),
            (None, Some(agent)) => (format!("{headline}: {}", excerpt::of(&agent.problem.observed)), all_pods()),
            (None, None) => (headline, all_pods()),
        };
        let recognized = Recognized::new(NO_NETWORK.id, headline).then(look);
        let recognized =
            agents.iter().take(EACH).fold(recognized, Recognized::rests_on).explains(agents.iter().copied());
        vec![recognized.rests_on_all(&signs)]
    },
};

fn all_pods() -> Hint {
    Hint::run("{kubectl} -n kube-system get pods -o wide", [])
}

pub(super) const AGENT: Cause = Cause {
    id: "node-agent-not-running",
    title: "the network plugin or kube-proxy does not start on some machines",
    impact: "on these machines new pods get no network, or changes to Services do not take effect; running pods keep running",
    explain: "Every machine needs a pod of the network plugin and, unless the plugin replaces it, one of kube-proxy. On some \
machines it cannot pull its image, or exits again and again. Without the plugin new pods get no network; a machine on which \
it has never worked \
stays NotReady. Without kube-proxy the addresses of Services lead to pods that are gone.\n\n\
An image that no machine can pull has a wrong name or tag, or its registry cannot be reached. If one machine alone cannot pull it, \
look at the network of that machine, its registry mirrors and its disk.",
    source: KUBERNETES_NETWORK,
    remedy: &[
        Look("kubectl -n kube-system get pods -o wide"),
        Look("kubectl -n kube-system describe pod POD"),
        Look("kubectl -n kube-system logs POD --previous"),
        Do("Correct the image, the registry or the option that the events or the log name."),
    ],
    recognize: |symptoms| {
        let signs = [CheckId::K8sCni, CheckId::K8sKubeProxy].map(|check| {
            let signs = symptoms.of_check(check, &[Reason::DaemonsetIncomplete]);
            signs.filter(|sign| sign.is_root() && symptoms.is_open(sign) && sign.problem.severity == Severity::Fail)
        });
        let failing = alike(symptoms.snapshot, signs.into_iter().flatten());
        failing.iter().map(|(failing, signs)| failing.recognized(signs)).collect()
    },
};

/// Groups pods that fail in the same way, with the problems that show them.
fn alike<'a>(snapshot: &'a Snapshot, signs: impl Iterator<Item = Sign<'a>>) -> Vec<(Failing<'a>, Vec<Sign<'a>>)> {
    let mut alike: Vec<(Failing<'_>, Vec<Sign<'_>>)> = Vec::new();
    let mut signs = signs.peekable();
    if signs.peek().is_none() {
        return alike;
    }
    let kubernetes = snapshot.kubernetes.as_ref();
    let sets = kubernetes.and_then(|it| it.daemon_sets.as_deref().ok()).unwrap_or_default();
    let pods = kubernetes.and_then(|it| it.pods.as_deref().ok()).unwrap_or_default();
    // The index avoids comparing each machine with all pods.
    let mut on_machine: HashMap<&str, Vec<&Pod>> = HashMap::new();
    for pod in pods.iter().filter(|pod| !pod.deleting) {
        on_machine.entry(pod.node.as_deref().unwrap_or(NO_NODE)).or_default().push(pod);
    }
    for sign in signs {
        let its = on_machine.get(sign.target.name.as_str()).map_or(&[][..], Vec::as_slice);
        let Some(failing) = Failing::of(sets, its, &sign) else { continue };
        match alike.iter_mut().find(|(known, _)| known.is_like(&failing)) {
            Some((_, signs)) => signs.push(sign),
            None => alike.push((failing, vec![sign])),
        }
    }
    alike
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// The image cannot be pulled.
    Pull,
    Restarts,
}

/// A pod of a DaemonSet whose container does not start, or does not keep running.
struct Failing<'a> {
    set: &'a Workload,
    pod: &'a Pod,
    container: &'a ContainerState,
    how: Failure,
}

impl<'a> Failing<'a> {
    fn of(sets: &'a [Workload], on_machine: &[&'a Pod], sign: &Sign<'_>) -> Option<Self> {
        let is_agent = |set: &&Workload| match sign.check {
            CheckId::K8sKubeProxy => set.name == "kube-proxy",
            _ => set.is_network_agent() || set.installs_network,
        };
        sets.iter().filter(is_agent).find_map(|set| {
            let pod: &'a Pod = on_machine.iter().find(|pod| WorkloadKind::DaemonSet.owns(set, pod))?;
            let mut containers = pod.state.containers.iter().filter(|container| !container.ready);
            containers.find_map(|container| {
                let backs_off = container.waiting_reason.as_deref() == Some("CrashLoopBackOff");
                let ends = container.restarts > 1 || backs_off;
                let how = if lacks_image(container) { Some(Failure::Pull) } else { ends.then_some(Failure::Restarts) };
                how.map(|how| Self { set, pod, container, how })
            })
        })
    }

    fn is_like(&self, other: &Self) -> bool {
        let told = |it: &Self| (it.how, it.container.image.clone(), it.container.name.clone());
        std::ptr::eq(self.set, other.set) && told(self) == told(other)
    }

    fn told(&self, signs: &[Sign<'_>]) -> String {
        let Self { set, container, .. } = self;
        let does = match self.how {
            Failure::Pull if container.image.is_empty() => "cannot pull its image".to_owned(),
            Failure::Pull => format!("cannot pull {}", container.image),
            Failure::Restarts => match container.exit_code {
                Some(code) => format!("keeps exiting with exit code {code}"),
                None => "keeps restarting".to_owned(),
            },
        };
        let targets: Vec<_> = signs.iter().map(|sign| sign.target).collect();
        let (count, names) = (signs.len(), first_names(&targets, NAMES));
        format!("{} {does} on {count} of {} nodes ({names})", set.name, set.desired)
    }

    /// Returns the command that shows the reason.
    fn look(&self) -> Hint {
        let Self { pod, container, .. } = self;
        match self.how {
            Failure::Pull => Hint::run("{kubectl} -n {} describe pod {}", [&pod.namespace, &pod.name]),
            Failure::Restarts => {
                Hint::run("{kubectl} -n {} logs {} -c {} --previous", [&pod.namespace, &pod.name, &container.name])
            }
        }
    }

    fn recognized(&self, signs: &[Sign<'_>]) -> Recognized {
        let impact = signs
            .iter()
            .all(|sign| sign.check == CheckId::K8sKubeProxy)
            .then_some("on these machines changes to Services do not take effect; running pods keep running");
        let recognized = Recognized::new(AGENT.id, self.told(signs)).with_impact(impact).then(self.look());
        signs.iter().take(EACH).fold(recognized, Recognized::rests_on).explains(signs.iter().copied())
    }
}
