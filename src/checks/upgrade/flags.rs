//! Checks whether the Kubernetes components start with their current flags.

use std::collections::BTreeSet;

use super::knowledge::{self, APIS, FLAGS as OF_COMPONENTS, GATES, Known, PLUGINS};
use super::{beyond_scope, kubernetes_target, some_of, unknown};
use crate::assess::components::{Component, Place};
use crate::assess::{Assessment, has_kubernetes};
use crate::checks::Check;
use crate::checks::gaps::{listed, says_nothing, talos_fact};
use crate::checks::scope::{control_planes, each_node_to_upgrade, is_narrowed, reason_not_upgraded};
use crate::model::{CheckId, Fact, Hint, Kind, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Flags, GapKind, Node};

pub(in crate::checks) const FLAGS: Check = Check {
    id: CheckId::UpgradeFlags,
    stage: Stage::Upgrade,
    summary: "no component of Kubernetes has a flag that the target version refuses",
    explain: "Runs with `--upgrade-kubernetes VERSION`. Reads the command lines of kube-apiserver, kube-controller-manager and \
kube-scheduler from the static pods that Talos has rendered, and that of kube-proxy from its DaemonSet. Compares their flags, \
feature gates, admission plugins and the APIs of `--runtime-config` with tables of what each version accepts, which are extracted \
from Kubernetes itself. A component with a removed flag exits at once, and the upgrade loses the control plane. Setting a feature \
gate to a value that is no longer allowed fails, too. A flag that no version in the tables has, such as one of a custom \
build, is not checked; the report names it.\n\n\
The flags and feature gates of each kubelet are compared the same way (`KubeletSpecs`). Talos 1.12.9, 1.13.4, 1.14 and newer show \
them to os:admin only: with a lower role, a warning says that they were not checked. The upgrade includes machines outside of `--nodes`: the \
report says on how many of them the flags could not be read. They come from `machine.kubelet.extraArgs` \
and `extraConfig`; those of the control plane from `cluster.apiServer.extraArgs` and so on, those of kube-proxy from \
`cluster.proxy.extraArgs`.\n\n\
With --no-talos, the command lines are those of the static pods that Kubernetes lists. Components that are processes of their \
nodes, or that others host, show none, and Kubernetes does not show the flags of kubelets.",
    severity: Severity::Fail,
    finds: &[Reason::RemovedFlag, Reason::KubeletFlagsUnseen],
    // Kubernetes shows the command line of kube-proxy and, without Talos, those of all other components.
    facts: &[
        Fact::TalosNodes,
        Fact::StaticPods,
        Fact::KubeletFlags,
        Fact::KubeNodes,
        Fact::Pods,
        Fact::SystemLeases,
        Fact::DaemonSets,
    ],
    judge: flags,
};

fn flags(cluster: &Assessment<'_>) -> Verdict {
    let (_, to, _) = match kubernetes_target(cluster) {
        Ok(to) => to,
        Err(verdict) => return verdict,
    };
    let known = OF_COMPONENTS.targets();
    if !known.contains(&to) {
        let known = knowledge::in_words(1, &known);
        return Verdict::whole(Outcome::problem(unknown("Kubernetes", &format!("1.{to}"), &known)));
    }
    let nodes = match control_planes(cluster) {
        Ok(nodes) => nodes,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut judge = Judge { to, strange: BTreeSet::new() };
    let mut verdict = if cluster.asks_talos() {
        judge.with_talos(cluster, &nodes)
    } else {
        match judge.without_talos(cluster, &nodes) {
            Ok(verdict) => verdict,
            Err(outcome) => return Verdict::whole(outcome),
        }
    };
    judge.proxies(cluster, &mut verdict);
    if !judge.strange.is_empty() {
        let strange: Vec<&String> = judge.strange.iter().collect();
        let known = knowledge::in_words(1, &OF_COMPONENTS.minors());
        verdict.leave_out(format!("{}: no Kubernetes that cluster-health knows ({known}) has it", some_of(&strange)));
    }
    verdict
}

/// The reason why a kubelet's flags are unknown.
enum Unread {
    /// The `KubeletSpec` can contain secrets, so newer versions of Talos show it only to administrators.
    Secret,
    Other(Outcome),
}

fn kubelets_unseen(nodes: &[&str]) -> Problem {
    let of = some_of(nodes);
    let observed = format!("kubelet flags were not checked on {of}: the role os:admin is needed to read them");
    Problem::warn(Reason::KubeletFlagsUnseen, "the flags of each kubelet", observed).permanent()
}

struct Judge {
    /// Minor version of the target.
    to: u32,
    /// Flags, feature gates and plugins that are not in any table, each with its component.
    strange: BTreeSet<String>,
}

impl Judge {
    fn with_talos(&mut self, cluster: &Assessment<'_>, nodes: &[&Node]) -> Verdict {
        let mut unseen = Vec::new();
        let mut verdict = each_node_to_upgrade(cluster, |node, verdict| match self.of_kubelet(cluster, node) {
            Ok(None) => verdict.ok(node.target()),
            Ok(Some(problem)) => verdict.problem(node.target(), problem),
            Err(Unread::Secret) => unseen.push(node.name.as_str()),
            Err(Unread::Other(outcome)) => verdict.push(node.target(), outcome),
        });
        let mut unread = 0;
        for (node, _) in beyond_scope(cluster) {
            match self.of_kubelet(cluster, node) {
                Ok(None) => {}
                Ok(Some(problem)) => verdict.problem(node.target(), problem),
                Err(Unread::Secret) => unseen.push(node.name.as_str()),
                Err(Unread::Other(_)) => unread += 1,
            }
        }
        if unread > 0 {
            let machines = if unread == 1 { "1 machine".to_owned() } else { format!("{unread} machines") };
            let which = if is_narrowed(cluster) { "outside of --nodes" } else { "that the options leave out" };
            verdict.leave_out(format!("the flags of the kubelets on {machines} {which}"));
        }
        for node in nodes {
            match self.rendered(cluster, node) {
                Ok(problems) if problems.is_empty() => verdict.ok(node.target()),
                Ok(problems) => problems.into_iter().for_each(|problem| verdict.problem(node.target(), problem)),
                Err(outcome) => verdict.push(node.target(), outcome),
            }
        }
        let which = if unseen.is_empty() {
            "component of the control plane and no kubelet"
        } else {
            "component of the control plane"
        };
        verdict.sum_up(&format!("no {which} has a flag that Kubernetes 1.{} refuses", self.to));
        if !unseen.is_empty() {
            verdict.problem(Target::cluster(), kubelets_unseen(&unseen));
        }
        verdict
    }

    /// Reports flags with which this machine's kubelet would not start.
    fn of_kubelet(&mut self, cluster: &Assessment<'_>, node: &Node) -> Result<Option<Problem>, Unread> {
        let expected = "the flags of its kubelet";
        let flags = &node.talos.kubelet_flags;
        if node.talos.contact.is_ok() && flags.as_ref().is_err_and(|gap| gap.kind == GapKind::Forbidden) {
            return Err(Unread::Secret);
        }
        match talos_fact(cluster, node, |talos| &talos.kubelet_flags, expected).map_err(Unread::Other)? {
            Some(flags) => {
                let hint = Hint::run("{talosctl} -n {} get kubeletspecs -o yaml", [node.address.as_str()]);
                Ok(self.component("kubelet", flags).map(|problem| problem.hint(hint)))
            }
            None if has_kubernetes(node) == Some(false) => Ok(None),
            None => Err(Unread::Other(says_nothing(expected, "no KubeletSpec"))),
        }
    }

    /// Reports flags with which this control plane's components would not start.
    fn rendered(&mut self, cluster: &Assessment<'_>, node: &Node) -> Result<Vec<Problem>, Outcome> {
        let expected = "the command lines of its static pods";
        talos_fact(cluster, node, |talos| &talos.static_pods, expected)?;
        let mut problems = Vec::new();
        for component in Component::ALL {
            // A component that is not rendered here is not started.
            if component != Component::ApiServer && component.is_not_rendered(node) {
                continue;
            }
            let mut rendered = node.talos.component_flags.iter().filter(|_| !component.is_not_rendered(node));
            match rendered.find(|it| component.is_rendered_as(&it.pod, node)) {
                Some(flags) if !flags.names.is_empty() => problems.extend(self.component(component.name(), flags)),
                _ => return Err(says_nothing(expected, &format!("none of {}", component.name()))),
            }
        }
        let hint = || Hint::run("{talosctl} -n {} get staticpods kube-apiserver -o yaml", [node.address.as_str()]);
        Ok(problems.into_iter().map(|problem| problem.hint(hint())).collect())
    }

    /// Judges the components that are static pods, by the command lines that Kubernetes lists.
    fn without_talos(&mut self, cluster: &Assessment<'_>, nodes: &[&Node]) -> Result<Verdict, Outcome> {
        let pods = listed(cluster, |kubernetes| &kubernetes.pods, "the command lines of the static pods")?;
        let mut verdict = Verdict::default();
        if cluster.place(Component::ApiServer) == Place::Process {
            verdict.skip(Target::cluster(), "no component of the control plane is a static pod");
        }
        let mut unseen = Vec::new();
        for node in nodes {
            if let Some(why) = reason_not_upgraded(cluster, node) {
                verdict.skip(node.target(), why);
                continue;
            }
            let (mut seen, mut problems) = (false, Vec::new());
            for component in Component::ALL {
                let Some(pod) = cluster.mirror_of(pods, node, component) else { continue };
                match &pod.flags {
                    Some(flags) if !flags.names.is_empty() => {
                        seen = true;
                        let of = [pod.namespace.as_str(), pod.name.as_str()];
                        let hint = Hint::run("{kubectl} -n {} get pod {} -o yaml", of);
                        problems.extend(self.component(component.name(), flags).map(|problem| problem.hint(hint)));
                    }
                    // The component is started by a script, or configured in a file.
                    _ => unseen.push(pod.name.as_str()),
                }
            }
            if !seen {
                verdict.skip(node.target(), "no command line of a static pod shows flags");
            } else if problems.is_empty() {
                verdict.ok(node.target());
            }
            for problem in problems {
                verdict.problem(node.target(), problem);
            }
        }
        let which = if unseen.is_empty() { "flag" } else { "visible flag" };
        verdict.sum_up(&format!("no {which} of the control plane is refused by Kubernetes 1.{}", self.to));
        if !unseen.is_empty() {
            verdict.leave_out(format!("the flags of {}: not in the command lines", some_of(&unseen)));
        }
        verdict.leave_out(
            "the flags of the kubelets, and of components that are not static pods: Kubernetes does not show them",
        );
        Ok(verdict)
    }

    /// Adds problems of kube-proxy, which does not exist if the network plugin replaces it. On its own, it does not make the check pass.
    fn proxies(&mut self, cluster: &Assessment<'_>, verdict: &mut Verdict) {
        let sets = match listed(cluster, |kubernetes| &kubernetes.daemon_sets, "the command line of kube-proxy") {
            Ok(sets) => sets,
            Err(outcome) => return verdict.push(Target::cluster(), outcome),
        };
        for set in sets {
            let Some(flags) = &set.flags else { continue };
            let hint =
                Hint::run("{kubectl} -n {} get daemonset {} -o yaml", [set.namespace.as_str(), set.name.as_str()]);
            if let Some(problem) = self.component(&flags.pod, flags) {
                let target = Target::new(Kind::Workload, format!("{}/{}", set.namespace, set.name));
                verdict.problem(target, problem.hint(hint));
            }
        }
    }

    fn component(&mut self, name: &str, flags: &Flags) -> Option<Problem> {
        let Found { refused, unknown } = Found::of(name, flags, self.to);
        self.strange.extend(unknown.into_iter().map(|what| format!("{what} of {name}")));
        let expected = format!("flags that Kubernetes 1.{} accepts", self.to);
        let problem = || Problem::fail(Reason::RemovedFlag, expected, format!("{name} has {}", some_of(&refused)));
        (!refused.is_empty()).then(|| problem().permanent())
    }
}

/// Arguments of a component that the target refuses, and those that are not in any table.
#[derive(Default)]
struct Found {
    refused: Vec<String>,
    unknown: Vec<String>,
}

impl Found {
    fn note(&mut self, what: String, known: Known) {
        match known {
            Known::Present => {}
            Known::Gone(since) => self.refused.push(format!("{what} (removed in 1.{since})")),
            // The component runs with this argument, so it is not the component that the tables describe.
            Known::Later(_) | Known::Never => self.unknown.push(what),
        }
    }

    fn of(component: &str, flags: &Flags, to: u32) -> Self {
        let mut found = Self::default();
        for flag in &flags.names {
            found.note(format!("--{flag}"), OF_COMPONENTS.known(&format!("{component}\t{flag}"), to));
        }
        for (gate, is_on) in &flags.gates {
            found.note(format!("feature gate {gate}"), GATES.known(gate, to));
            if let Some(since) = GATES.locked(gate, *is_on, to) {
                found.refused.push(format!("feature gate {gate}={is_on} (locked since 1.{since})"));
            }
        }
        for plugin in flags.plugins.iter().filter(|_| component == Component::ApiServer.name()) {
            found.note(format!("admission plugin {plugin}"), PLUGINS.known(plugin, to));
        }
        // Values such as `api/all` are not group versions, and groups of extension servers are not in any table.
        for api in &flags.apis {
            if let Known::Gone(since) = APIS.known(&format!("{api}\t"), to) {
                found.refused.push(format!("--runtime-config {api} (removed in 1.{since})"));
            }
        }
        found
    }
}
