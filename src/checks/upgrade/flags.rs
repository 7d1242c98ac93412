//! Will the components of the control plane start with the flags that they have?

use super::removed::{self, since};
use super::{kubernetes_target, some_of, unknown};
use crate::assess::Assessment;
use crate::assess::components::Component;
use crate::checks::Check;
use crate::checks::gaps::{says_nothing, talos_fact};
use crate::checks::scope::control_planes;
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Flags, Node};

pub(in crate::checks) const FLAGS: Check = Check {
    id: CheckId::UpgradeFlags,
    stage: Stage::Upgrade,
    summary: "the control plane components have no flag that the target version of Kubernetes refuses",
    explain: "Runs with `--upgrade-kubernetes VERSION`. Reads the command lines of kube-apiserver, kube-controller-manager and \
kube-scheduler from the static pods that Talos has rendered. Compares their flags, feature gates and admission plugins with a \
table of those that Kubernetes has removed. A component with a removed flag exits at once, and the upgrade loses the control \
plane. Setting a feature gate to a value that is no longer allowed fails, too.\n\n\
The flags of kubelets are in the machine configuration, which only os:admin may read, so a warning says that they were not \
checked. They come from `machine.kubelet.extraArgs` and `extraConfig`; those of the control plane from \
`cluster.apiServer.extraArgs` and so on.",
    severity: Severity::Fail,
    requires: &[CheckId::TalosNodesReachable],
    after: &[],
    facts: &[Fact::TalosNodes, Fact::StaticPods],
    judge: flags,
};

fn flags(cluster: &Assessment<'_>) -> Verdict {
    let (_, to, _) = match kubernetes_target(cluster) {
        Ok(to) => to,
        Err(verdict) => return verdict,
    };
    if !removed::KNOWN.contains(&to) {
        return Verdict::whole(Outcome::Problem(unknown("Kubernetes", &format!("1.{to}"), removed::KNOWN_WORDS)));
    }
    let nodes = match control_planes(cluster) {
        Ok(nodes) => nodes,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    for node in nodes {
        match refused(cluster, node, to) {
            Ok(problems) if problems.is_empty() => verdict.ok(node.target()),
            Ok(problems) => problems.into_iter().for_each(|problem| verdict.problem(node.target(), problem)),
            Err(outcome) => verdict.push(node.target(), outcome),
        }
    }
    verdict.sum_up(&format!("the control plane has no flag that Kubernetes 1.{to} refuses"));
    verdict.problem(Target::cluster(), kubelets_unseen());
    verdict
}

/// Their specification may hold secrets, so Talos shows it to administrators alone.
fn kubelets_unseen() -> Problem {
    let observed = "kubelet flags were not checked: the role os:admin is needed to read them";
    Problem::warn(Reason::KubeletFlagsUnseen, "the flags of each kubelet", observed).permanent()
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
            Some(flags) if !flags.names.is_empty() => problems.extend(of_component(component, flags, to)),
            _ => return Err(says_nothing(expected, &format!("none of {}", component.name()))),
        }
    }
    let hint = || Hint::run("{talosctl} -n {} get staticpods kube-apiserver -o yaml", [node.address.as_str()]);
    Ok(problems.into_iter().map(|problem| problem.hint(hint())).collect())
}

fn of_component(component: Component, flags: &Flags, to: u32) -> Vec<Problem> {
    let name = component.name();
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
    let plugins = flags.plugins.iter().filter(|_| component == Component::ApiServer);
    found.extend(
        plugins.filter_map(|it| Some(gone(&format!("admission plugin {it}"), since(removed::PLUGINS, it, to)?))),
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
    vec![Problem::fail(Reason::RemovedFlag, format!("flags that 1.{to} accepts"), observed).permanent()]
}
