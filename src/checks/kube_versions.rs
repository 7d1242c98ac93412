//! Do the versions of Kubernetes' parts belong together, and are they those that were asked for?

use std::collections::BTreeMap;

use super::common::{passed_over, version_numbers};
use super::components::{self, Component};
use super::kube_common::{
    READY, control_planes, has_kubernetes, kubelet_path, listed, mirror_pod, object_of, says_ready, talos_path, trouble,
};
use super::kube_nodes::{is_secondary, unregistered};
use super::{Check, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Node, PodState, Snapshot};

pub(super) const VERSIONS: Check = Check {
    id: "k8s.controlplane.versions",
    stage: Stage::ControlPlane,
    summary: "the versions of control plane and kubelets belong together, and are those asked for",
    explain: "Reads the version of kube-apiserver, kube-controller-manager and kube-scheduler on each control plane from the image \
of its static pod, and that of each kubelet from its Node object, and compares them by Kubernetes' version-skew policy: API servers \
at most one minor version apart; the other two no newer than any API server and at most one older; kubelets no newer and at most \
three older (two before 1.25). Outside of that it fails.\n\n\
Different versions within the policy are a warning: an upgrade is under way, or was interrupted. With --expect-kubernetes V every \
part has to be of version V (`1.35.4`, or `1.35` for any patch).\n\n\
An image without a version in its tag (pinned by a digest alone) tells nothing and is left out, unless --expect-kubernetes demands a \
version; the others are compared all the same. `talosctl -n CP upgrade-k8s --to VERSION` brings all to \
one version.",
    severity: Severity::Fail,
    requires: &["talos.nodes.reachable", "talos.nodes.kubelet"],
    facts: &[
        Fact::TalosNodes,
        Fact::ComponentConfigs,
        Fact::StaticPods,
        Fact::StaticPodStatuses,
        Fact::Pods,
        Fact::KubeNodes,
        Fact::SystemLeases,
    ],
    judge: versions,
};

/// Major and minor version, which are all that the policy is about.
type Minor = (u32, u32);

/// What runs in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Component(Component),
    Kubelet,
}

/// One process, as it was seen.
struct Running {
    part: Part,
    target: Target,
    /// `kube-apiserver-cp-1`, `kubelet of w-1`.
    name: String,
    /// Without `v`.
    version: String,
    numbers: (u32, u32, u32),
    /// Others are compared with it, and nothing is said of it.
    passed_over: bool,
}

impl Running {
    fn minor(&self) -> Minor {
        (self.numbers.0, self.numbers.1)
    }
}

fn versions(snapshot: &Snapshot) -> Verdict {
    let mut verdict = Verdict::default();
    let mut running = Vec::new();
    // For what cannot be compared with any API server.
    let mut alone = Outcome::Blocked(components::APISERVER.id);
    // API servers that run, of images that name no version.
    let mut untold = false;
    match control_planes(snapshot) {
        Ok(nodes) => {
            for node in nodes {
                untold |= of_components(snapshot, node, &mut running, &mut verdict);
            }
            if untold {
                alone = not_measurable("no API server's image names its version");
            }
        }
        Err(outcome) => {
            alone = outcome.clone();
            verdict.push(Target::cluster(), outcome);
        }
    }
    of_kubelets(snapshot, &mut running, &mut verdict);
    let is_server = |it: &&Running| it.part == Part::Component(Component::ApiServer);
    let oldest = running.iter().filter(is_server).min_by_key(|it| it.numbers);
    let newest = running.iter().filter(is_server).max_by_key(|it| it.numbers);
    // No part may be newer than the API servers, so whichever is the newest stands for them to those that are too old.
    let newest = newest.or_else(|| running.iter().filter(|_| untold).max_by_key(|it| it.numbers));
    let mut agree = true;
    for it in running.iter().filter(|it| !it.passed_over) {
        let skew = newest.and_then(|newest| skew(it, oldest, newest));
        let unexpected = snapshot.asked.expect_kubernetes.as_deref().filter(|asked| !meets(&it.version, asked));
        let problem = match (skew, unexpected) {
            (Some(expected), _) => Problem::fail(Reason::VersionSkew, expected, format!("v{}", it.version)),
            (None, Some(asked)) => {
                Problem::fail(Reason::VersionUnexpected, format!("version {asked}"), format!("v{}", it.version))
            }
            (None, None) => {
                let is_asked_for = snapshot.asked.expect_kubernetes.is_some();
                let outcome = if oldest.is_some() || is_asked_for { Outcome::Pass(None) } else { alone.clone() };
                verdict.push(it.target.clone(), outcome);
                continue;
            }
        };
        agree = false;
        verdict.problem(it.target.clone(), problem.hint(Hint::run("{kubectl} get nodes -o wide", [])));
    }
    if agree {
        mixture(&running, &mut verdict);
    }
    verdict
}

/// The control plane's components on one node. `true`: its API server runs, and its image names no version.
fn of_components(snapshot: &Snapshot, node: &Node, running: &mut Vec<Running>, verdict: &mut Verdict) -> bool {
    let why = passed_over(snapshot, node);
    // It says so itself; that it has no kubelet stands in nobody's way.
    if snapshot.talos.is_some() && talos_path(snapshot, node).is_none() && has_kubernetes(node) == Some(false) {
        return false;
    }
    if let Some(why) = why {
        verdict.skip(Target::node(node), why);
    } else if let Some(by) = kubelet_path(snapshot, node) {
        verdict.block(Target::node(node), by);
        return false;
    }
    let mut untold = false;
    for component in Component::ALL {
        if component.enabled(&node.talos) == Ok(Some(false)) || components::not_missed(snapshot, component).is_some() {
            continue;
        }
        let name = component.pod_name(node);
        let target = Target::pod(name.as_str(), Some(&node.name));
        match image_version(snapshot, node, component) {
            Ok(Image::Names(version, numbers)) => running.push(Running {
                part: Part::Component(component),
                target,
                name,
                version,
                numbers,
                passed_over: why.is_some(),
            }),
            Ok(Image::NamesNone(image)) => {
                untold |= component == Component::ApiServer;
                if why.is_none() {
                    verdict.push(target, without_version(snapshot, &image));
                }
            }
            Err(outcome) if why.is_none() => verdict.push(target, outcome),
            Err(_) => {}
        }
    }
    untold
}

/// Pinned by a digest, or by a tag that is a word. It stays so; only where a version was demanded, it has to be seen.
fn without_version(snapshot: &Snapshot, image: &str) -> Outcome {
    let Some(asked) = &snapshot.asked.expect_kubernetes else {
        return not_measurable(&format!("image {image} names no version"));
    };
    let problem = Problem::error(Reason::UnreadableAnswer, format!("version {asked}"), format!("image {image}"));
    Outcome::Problem(problem.permanent())
}

fn not_measurable(why: &str) -> Outcome {
    Outcome::Skip(format!("{}: {why}", Reason::NotMeasurable.code()))
}

/// What an image says of its version.
enum Image {
    /// Without `v`.
    Names(String, (u32, u32, u32)),
    NamesNone(String),
}

fn image_version(snapshot: &Snapshot, node: &Node, component: Component) -> Result<Image, Outcome> {
    let missing = Outcome::Blocked(component.check());
    let state = components::pod(snapshot, node, component)?.ok_or_else(|| missing.clone())?;
    let image = image_of(state, component);
    if let Some(version) = image.and_then(tagged) {
        return Ok(version);
    }
    // The mirror pod tells what was asked for, where the runtime has told a digest.
    let mirrors = listed(snapshot, |kubernetes| &kubernetes.pods, "the pods of kube-system").ok();
    let mirror = mirrors.and_then(|pods| mirror_pod(pods, node, component.name()));
    if let Some(version) = mirror.and_then(|pod| image_of(&pod.state, component)).and_then(tagged) {
        return Ok(version);
    }
    if trouble(state).is_some() {
        return Err(missing);
    }
    let image = image.or_else(|| mirror.and_then(|pod| image_of(&pod.state, component)));
    image.map(|image| Image::NamesNone(image.to_owned())).ok_or_else(|| {
        let expected = "an image whose tag is a version";
        Outcome::Problem(Problem::error(Reason::UnreadableAnswer, expected, "no image is told"))
    })
}

fn image_of(state: &PodState, component: Component) -> Option<&str> {
    let container = state.containers.iter().find(|container| container.name == component.name())?;
    Some(container.image.as_str()).filter(|image| !image.is_empty())
}

/// The version in `registry:5000/kube-apiserver:v1.35.4@sha256:…`.
fn tagged(image: &str) -> Option<Image> {
    let (_, tag) = image.split('@').next()?.rsplit('/').next()?.split_once(':')?;
    Some(Image::Names(tag.trim_start_matches('v').to_owned(), version_numbers(tag)?))
}

fn of_kubelets(snapshot: &Snapshot, running: &mut Vec<Running>, verdict: &mut Verdict) {
    let objects = match listed(snapshot, |kubernetes| &kubernetes.nodes, "the versions of the kubelets") {
        Ok(objects) if objects.is_empty() => {
            let problem = Problem::error(Reason::NoAnswer, "nodes", "Kubernetes lists no node");
            return verdict.problem(Target::cluster(), problem);
        }
        Ok(objects) => objects,
        Err(outcome) => return verdict.push(Target::cluster(), outcome),
    };
    for node in snapshot.nodes.iter().filter(|node| passed_over(snapshot, node).is_none()) {
        let target = Target::node(node);
        let Some(object) = object_of(snapshot, node, objects) else {
            verdict.push(target, unregistered(node));
            continue;
        };
        if is_secondary(snapshot, node) {
            verdict.skip(target, "not a Talos machine");
            continue;
        }
        let version = object.kubelet_version.as_str();
        match version_numbers(version) {
            Some(numbers) => running.push(Running {
                part: Part::Kubelet,
                target,
                name: format!("kubelet of {}", object.name),
                version: version.trim_start_matches('v').to_owned(),
                numbers,
                passed_over: false,
            }),
            // A kubelet that has not reported yet has not told its version either.
            None if version.is_empty() && !says_ready(object) => verdict.block(target, READY),
            None => {
                let observed = if version.is_empty() { "none" } else { version };
                verdict.problem(target, Problem::error(Reason::UnreadableAnswer, "the kubelet's version", observed));
            }
        }
    }
}

/// What the policy demands of this one and it does not keep to.
fn skew(it: &Running, oldest: Option<&Running>, newest: &Running) -> Option<String> {
    let behind = match it.part {
        Part::Component(_) => 1,
        Part::Kubelet if it.minor() < (1, 25) => 2,
        Part::Kubelet => 3,
    };
    let is_server = |it: &Running| it.part == Part::Component(Component::ApiServer);
    if let Some(oldest) = oldest.filter(|oldest| !is_server(it) && it.minor() > oldest.minor()) {
        return Some(format!("not newer than the oldest API server (v{})", oldest.version));
    }
    let (major, minor) = newest.minor();
    let too_old = it.numbers.0 != major || minor.saturating_sub(it.numbers.1) > behind;
    too_old.then(|| {
        let plural = if behind == 1 { "" } else { "s" };
        let than = if is_server(newest) { "the newest API server" } else { newest.name.as_str() };
        format!("at most {behind} minor version{plural} older than {than} (v{})", newest.version)
    })
}

/// `asked` is a whole version, or major and minor. Build metadata is no part of a version.
fn meets(version: &str, asked: &str) -> bool {
    if asked.split('.').count() > 2 {
        return version == asked || version.split('+').next() == Some(asked);
    }
    version.strip_prefix(asked).is_some_and(|rest| rest.starts_with('.'))
}

/// More than one version, or the one.
fn mixture(running: &[Running], verdict: &mut Verdict) {
    let mut by_version: BTreeMap<(u32, u32, u32), Vec<&Running>> = BTreeMap::new();
    for it in running.iter().filter(|it| !it.passed_over) {
        by_version.entry(it.numbers).or_default().push(it);
    }
    let mut versions = by_version.values();
    match (versions.next(), versions.next()) {
        (Some(only), None) => verdict.sum_up(&format!("Kubernetes: v{}", only[0].version)),
        (Some(_), Some(_)) => {
            let observed: Vec<String> = by_version.values().map(|those| named(those)).collect();
            let problem = Problem::warn(Reason::VersionsMixed, "one version everywhere", observed.join("; "));
            verdict.problem(Target::cluster(), problem);
        }
        _ => {}
    }
}

/// `v1.35.3: kubelet of w-1, kubelet of w-2 and 7 more`.
fn named(those: &[&Running]) -> String {
    const SHOWN: usize = 3;
    let mut names: Vec<&str> = those.iter().map(|it| it.name.as_str()).collect();
    names.sort_unstable();
    let shown = names[..names.len().min(SHOWN)].join(", ");
    let more = names.len().saturating_sub(SHOWN);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("v{}: {shown}{more}", those[0].version)
}
