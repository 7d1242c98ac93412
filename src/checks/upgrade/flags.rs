//! Will the components of Kubernetes start with the flags that they have?

use super::removed::{self, since};
use super::{kubernetes_target, some_of, unknown};
use crate::assess::components::{Component, Place};
use crate::assess::{Assessment, has_kubernetes};
use crate::checks::Check;
use crate::checks::gaps::{listed, says_nothing, talos_fact};
use crate::checks::scope::{control_planes, each_node_to_upgrade, reason_not_upgraded};
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Flags, GapKind, Node, Pod};

pub(in crate::checks) const FLAGS: Check = Check {
    id: CheckId::UpgradeFlags,
    stage: Stage::Upgrade,
    summary: "no component of Kubernetes has a flag that the target version refuses",
    explain: "Runs with `--upgrade-kubernetes VERSION`. Reads the command lines of kube-apiserver, kube-controller-manager and \
kube-scheduler from the static pods that Talos has rendered. Compares their flags, feature gates, admission plugins and the APIs \
of `--runtime-config` with a table of those that Kubernetes has removed. A component with a removed flag exits at once, and the upgrade loses the control \
plane. Setting a feature gate to a value that is no longer allowed fails, too.\n\n\
The flags and feature gates of each kubelet are compared the same way (`KubeletSpecs`). Talos 1.12.9, 1.13.4, 1.14 and newer show \
them to os:admin only: with a lower role, a warning says that they were not checked. They come from `machine.kubelet.extraArgs` \
and `extraConfig`; those of the control plane from `cluster.apiServer.extraArgs` and so on.\n\n\
With --no-talos, the command lines are those of the static pods that Kubernetes lists. Components that are processes of their \
nodes, or that others host, show none, and Kubernetes does not show the flags of kubelets.",
    severity: Severity::Fail,
    finds: &[Reason::RemovedFlag, Reason::KubeletFlagsUnseen],
    requires: &[CheckId::TalosNodesReachable],
    // Without Talos, Kubernetes shows the command lines.
    after: &[CheckId::K8sCredentials, CheckId::K8sApiEndpoint],
    facts: &[Fact::TalosNodes, Fact::StaticPods, Fact::KubeletFlags, Fact::KubeNodes, Fact::Pods, Fact::SystemLeases],
    judge: flags,
};

fn flags(cluster: &Assessment<'_>) -> Verdict {
    let (_, to, _) = match kubernetes_target(cluster) {
        Ok(to) => to,
        Err(verdict) => return verdict,
    };
    if !removed::KNOWN.contains(&to) {
        return Verdict::whole(Outcome::problem(unknown("Kubernetes", &format!("1.{to}"), removed::KNOWN_WORDS)));
    }
    let nodes = match control_planes(cluster) {
        Ok(nodes) => nodes,
        Err(outcome) => return Verdict::whole(outcome),
    };
    if !cluster.asks_talos() {
        return without_talos(cluster, &nodes, to);
    }
    let mut unseen = Vec::new();
    let mut verdict = each_node_to_upgrade(cluster, |node, verdict| match of_kubelet(cluster, node, to) {
        Ok(problems) => note(verdict, node, problems),
        Err(Unread::Secret) => unseen.push(node.name.as_str()),
        Err(Unread::Other(outcome)) => verdict.push(node.target(), outcome),
    });
    for node in nodes {
        match refused(cluster, node, to) {
            Ok(problems) => note(&mut verdict, node, problems),
            Err(outcome) => verdict.push(node.target(), outcome),
        }
    }
    let which = if unseen.is_empty() {
        "component of the control plane and no kubelet"
    } else {
        "component of the control plane"
    };
    verdict.sum_up(&format!("no {which} has a flag that Kubernetes 1.{to} refuses"));
    if !unseen.is_empty() {
        verdict.problem(Target::cluster(), kubelets_unseen(&unseen));
    }
    verdict
}

fn note(verdict: &mut Verdict, node: &Node, problems: Vec<Problem>) {
    if problems.is_empty() {
        verdict.ok(node.target());
    }
    for problem in problems {
        verdict.problem(node.target(), problem);
    }
}

/// Why it is not known what a kubelet is started with.
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

/// What the kubelet of this machine would not start with.
fn of_kubelet(cluster: &Assessment<'_>, node: &Node, to: u32) -> Result<Vec<Problem>, Unread> {
    let expected = "the flags of its kubelet";
    if node.talos.contact.is_ok() && node.talos.kubelet_flags.as_ref().is_err_and(|gap| gap.kind == GapKind::Forbidden)
    {
        return Err(Unread::Secret);
    }
    match talos_fact(cluster, node, |talos| &talos.kubelet_flags, expected).map_err(Unread::Other)? {
        Some(flags) => {
            let hint = || Hint::run("{talosctl} -n {} get kubeletspecs -o yaml", [node.address.as_str()]);
            Ok(with_flags("kubelet", flags, to).into_iter().map(|problem| problem.hint(hint())).collect())
        }
        None if has_kubernetes(node) == Some(false) => Ok(Vec::new()),
        None => Err(Unread::Other(says_nothing(expected, "no KubeletSpec"))),
    }
}

/// The components that are static pods, by the command lines that Kubernetes lists.
fn without_talos(cluster: &Assessment<'_>, nodes: &[&Node], to: u32) -> Verdict {
    let pods = match listed(cluster, |kubernetes| &kubernetes.pods, "the command lines of the static pods") {
        Ok(pods) => pods,
        Err(outcome) => return Verdict::whole(outcome),
    };
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
        let mut seen = None;
        for component in Component::ALL {
            let Some(pod) = cluster.mirror_of(pods, node, component) else { continue };
            match &pod.flags {
                Some(flags) if !flags.names.is_empty() => {
                    seen.get_or_insert_with(Vec::new).extend(of_mirror(component, pod, flags, to));
                }
                // A script starts it, or a file has its configuration.
                _ => unseen.push(pod.name.as_str()),
            }
        }
        match seen {
            Some(problems) => note(&mut verdict, node, problems),
            None => verdict.skip(node.target(), "no command line of a static pod shows flags"),
        }
    }
    let which = if unseen.is_empty() { "flag" } else { "flag that was seen" };
    verdict.sum_up(&format!("no {which} of the control plane is one that Kubernetes 1.{to} refuses"));
    if !unseen.is_empty() {
        verdict.leave_out(format!("the flags of {}: not in the command lines", some_of(&unseen)));
    }
    verdict.leave_out("the flags of the kubelets, and of what is not a static pod: Kubernetes does not show them");
    verdict
}

fn of_mirror(component: Component, pod: &Pod, flags: &Flags, to: u32) -> Vec<Problem> {
    let hint = || Hint::run("{kubectl} -n {} get pod {} -o yaml", [pod.namespace.as_str(), pod.name.as_str()]);
    with_flags(component.name(), flags, to).into_iter().map(|problem| problem.hint(hint())).collect()
}

/// What the components of this control plane would not start with.
fn refused(cluster: &Assessment<'_>, node: &Node, to: u32) -> Result<Vec<Problem>, Outcome> {
    let expected = "the command lines of its static pods";
    talos_fact(cluster, node, |talos| &talos.static_pods, expected)?;
    let mut problems = Vec::new();
    for component in Component::ALL {
        // Whoever does not run here is started by nobody.
        if component != Component::ApiServer && component.is_not_rendered(node) {
            continue;
        }
        let mut rendered = node.talos.component_flags.iter().filter(|_| !component.is_not_rendered(node));
        match rendered.find(|it| component.is_rendered_as(&it.pod, node)) {
            Some(flags) if !flags.names.is_empty() => problems.extend(with_flags(component.name(), flags, to)),
            _ => return Err(says_nothing(expected, &format!("none of {}", component.name()))),
        }
    }
    let hint = || Hint::run("{talosctl} -n {} get staticpods kube-apiserver -o yaml", [node.address.as_str()]);
    Ok(problems.into_iter().map(|problem| problem.hint(hint())).collect())
}

fn with_flags(name: &str, flags: &Flags, to: u32) -> Vec<Problem> {
    let gone = |what: &str, since: u32| format!("{what} (removed in 1.{since})");
    let own = removed::FLAGS.iter().filter(|(minor, of, _)| *minor <= to && *of == name);
    let own: Vec<(u32, &[&str])> = own.map(|(minor, _, flags)| (*minor, *flags)).collect();
    let mut found: Vec<String> = Vec::new();
    found.extend(flags.names.iter().filter_map(|it| Some(gone(&format!("--{it}"), since(&own, it, to)?))));
    found.extend(
        flags
            .gates
            .iter()
            .filter_map(|(it, _)| Some(gone(&format!("feature gate {it}"), since(removed::GATES, it, to)?))),
    );
    let plugins = flags.plugins.iter().filter(|_| name == Component::ApiServer.name());
    found.extend(
        plugins.filter_map(|it| Some(gone(&format!("admission plugin {it}"), since(removed::PLUGINS, it, to)?))),
    );
    found.extend(
        flags.apis.iter().filter_map(|it| Some(gone(&format!("--runtime-config {it}"), since(removed::APIS, it, to)?))),
    );
    let locked = flags.gates.iter().filter_map(|(gate, is_on)| {
        let table = if *is_on { removed::LOCKED_OFF } else { removed::LOCKED_ON };
        let locked = since(table, gate, to).filter(|_| since(removed::GATES, gate, to).is_none())?;
        Some(format!("feature gate {gate}={is_on} (locked since 1.{locked})"))
    });
    found.extend(locked);
    if found.is_empty() {
        return Vec::new();
    }
    let observed = format!("{name} has {}", some_of(&found));
    vec![Problem::fail(Reason::RemovedFlag, format!("flags that Kubernetes 1.{to} accepts"), observed).permanent()]
}
