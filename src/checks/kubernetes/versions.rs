//! Checks whether the versions of Kubernetes' components are compatible, and match the versions that the user expects.

use std::collections::BTreeMap;

use super::node_objects;
use super::workloads::{is_labeled, system_pods};
use crate::assess::components::{Component, Place, State};
use crate::assess::workloads::{is_well, says_ready};
use crate::assess::{Assessment, Life, NotJudged, Standing};
use crate::checks::Check;
use crate::checks::gaps::{kubelet_word, listed, no_pods, unregistered, unseen};
use crate::checks::scope::{GUEST, control_planes, reason_not_judged, reason_not_upgraded};
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Node, Pod, PodState, System};
use crate::text::version;

pub(in crate::checks) const VERSIONS: Check = Check {
    id: CheckId::K8sControlplaneVersions,
    stage: Stage::ControlPlane,
    summary: "the components of Kubernetes have compatible, expected versions",
    explain: "Reads the versions of kube-apiserver, kube-controller-manager and kube-scheduler from the images of their static \
pods, that of each kubelet from its Node object, and that of each kube-proxy from its pod. With --no-talos, `GET /version` \
provides the API server's version if no image does. Compares them with Kubernetes' version skew policy. API servers are at \
most one minor version apart. The other two are no newer than the API server of their machine and at most one minor version older than any. \
Kubelets and kube-proxy are no newer than any API server and at most three older (two before 1.25); this also applies to ready \
nodes with another operating system. Anything else fails.\n\n\
Different versions within the policy are a warning: an upgrade is in progress, or was interrupted. With --expect-kubernetes V \
every component has to run version V (`1.35.4`, or `1.35` for any patch).\n\n\
If Talos and Kubernetes show different versions of one pod, one of the two statuses is outdated, and the version is undetermined. \
This is normal for seconds while the pod is being replaced.\n\n\
An image without a version in its tag (pinned by digest) has no version to compare and is ignored, unless --expect-kubernetes \
requires one. `talosctl -n CP upgrade-k8s --to VERSION` brings all components to one version.",
    severity: Severity::Fail,
    finds: &[Reason::VersionUnexpected, Reason::VersionsMixed, Reason::VersionSkew],
    facts: FACTS,
    judge: versions,
};

/// Facts from which the versions are read.
pub(in crate::checks) const FACTS: &[Fact] = &[
    Fact::TalosNodes,
    Fact::ComponentConfigs,
    Fact::StaticPods,
    Fact::StaticPodStatuses,
    Fact::Pods,
    Fact::KubeNodes,
    Fact::SystemLeases,
    Fact::ServerVersion,
];

/// Major and minor version; the version skew policy considers nothing else.
type Minor = (u32, u32);

/// A component that has a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Component(Component),
    /// The API server that answers at the endpoint, used if images are not available. Its owner may upgrade it long before the nodes.
    Endpoint,
    Kubelet,
    /// kube-proxy on one node, in the pod of its DaemonSet.
    Proxy,
}

/// A running process and its observed version.
pub(in crate::checks) struct Running {
    part: Part,
    pub(in crate::checks) target: Target,
    /// `kube-apiserver-cp-1`, `kubelet of w-1`.
    pub(in crate::checks) name: String,
    /// Version without `v`.
    pub(in crate::checks) version: String,
    pub(in crate::checks) numbers: (u32, u32, u32),
    /// Whether the process serves only for comparison, and nothing is reported about it.
    is_not_judged: bool,
}

impl Running {
    pub(in crate::checks) fn minor(&self) -> Minor {
        (self.numbers.0, self.numbers.1)
    }

    /// Returns true for the kubelet of a machine with another operating system, which is upgraded by other means.
    pub(in crate::checks) fn is_guest(&self) -> bool {
        self.part == Part::Kubelet && self.is_not_judged
    }

    /// Suggests a command that shows the version.
    fn look(&self) -> Hint {
        match self.part {
            Part::Component(_) | Part::Proxy => Hint::run(
                "{kubectl} get pods -A --field-selector metadata.name={} -o 'custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image'",
                [&self.target.name],
            ),
            Part::Kubelet => Hint::run("{kubectl} get nodes -o wide", []),
            Part::Endpoint => Hint::run("{kubectl} version", []),
        }
    }

    /// Returns the API server on the same machine if the process is a client of that one alone, as kube-controller-manager and kube-scheduler
    /// are. Requests of kubelets and of kube-proxy may reach any API server.
    fn own_server<'r>(&self, running: &'r [Self]) -> Option<&'r Self> {
        let is_local = matches!(self.part, Part::Component(_)) && !self.is_api_server();
        let machine = self.target.node.as_ref().filter(|_| is_local)?;
        running.iter().find(|it| it.is_api_server() && it.target.node.as_ref() == Some(machine))
    }

    pub(in crate::checks) fn is_api_server(&self) -> bool {
        matches!(self.part, Part::Component(Component::ApiServer) | Part::Endpoint)
    }

    /// Returns true if the process may lag behind the API servers as much as a kubelet may.
    pub(in crate::checks) fn is_of_nodes(&self) -> bool {
        matches!(self.part, Part::Kubelet | Part::Proxy)
    }
}

/// Running processes with an observed version, and the findings about all others.
pub(in crate::checks) struct Seen {
    pub(in crate::checks) running: Vec<Running>,
    pub(in crate::checks) verdict: Verdict,
    /// Outcome for processes that cannot be compared with any API server.
    alone: Outcome,
    /// Whether any API server runs from an image whose name does not contain a version.
    untold: bool,
}

/// The machines whose kubelets and proxies matter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::checks) enum Extent {
    /// Machines that this run judges.
    Scope,
    /// All machines: `--nodes` and lists of nodes do not narrow an upgrade of Kubernetes.
    Cluster,
}

impl Extent {
    pub(in crate::checks) fn includes(self, why: NotJudged) -> bool {
        match why {
            NotJudged::OutOfScope | NotJudged::OutsideFlags => self == Self::Cluster,
            NotJudged::DeclaredOff | NotJudged::Leaving | NotJudged::StaleDiscovery => false,
        }
    }
}

/// Collects the versions of all running processes. If a version is `demanded`, an image without one is an error.
pub(in crate::checks) fn seen(cluster: &Assessment<'_>, demanded: Option<&str>, extent: Extent) -> Seen {
    let mut verdict = Verdict::default();
    let mut running = Vec::new();
    let mut alone = unseen(Reason::ComponentMissing, "an API server to compare with", "no API server is seen");
    let mut untold = false;
    match control_planes(cluster) {
        Ok(nodes) => {
            for node in nodes {
                untold |= of_components(cluster, node, demanded, &mut running, &mut verdict);
            }
            // API servers that are processes of their nodes have no images. By Kubernetes' policy, they are at least as new as the newest
            // kubelet.
            if cluster.place(Component::ApiServer) == Place::Process {
                untold = true;
                alone = not_measurable("no API server is a static pod with an image that names its version");
            } else if untold {
                alone = not_measurable("no API server's image names its version");
            }
        }
        Err(outcome) => {
            alone = outcome.clone();
            verdict.push(Target::cluster(), outcome);
        }
    }
    if !cluster.asks_talos() && (untold || !running.iter().any(Running::is_api_server)) {
        of_endpoint(cluster, &mut running, &mut verdict);
    }
    of_kubelets(cluster, extent, &mut running, &mut verdict);
    of_proxies(cluster, demanded, extent, &mut running, &mut verdict);
    Seen { running, verdict, alone, untold }
}

fn versions(cluster: &Assessment<'_>) -> Verdict {
    let demanded = cluster.asked.expect_kubernetes.as_ref().map(|asked| format!("version {asked}"));
    let Seen { running, mut verdict, alone, untold } = seen(cluster, demanded.as_deref(), Extent::Scope);
    let own_server = |it: &Running| it.own_server(&running);
    let left_behind = left_behind(&running, own_server);
    // The number of parts that are newer than this API server, if it was left behind.
    let newer =
        |it: &Running| left_behind.iter().find(|(server, _)| std::ptr::eq(*server, it)).map(|(_, newer)| *newer);
    let servers = || running.iter().filter(|it| it.is_api_server());
    let oldest = servers().filter(|it| newer(it).is_none()).min_by_key(|it| it.numbers);
    let newest = servers().max_by_key(|it| it.numbers);
    // No part may be newer than the API servers, so the newest part takes their place in the comparison with parts that are too old.
    let judged = || running.iter().filter(|it| !it.is_not_judged);
    let newest = newest.or_else(|| judged().filter(|_| untold).max_by_key(|it| it.numbers));
    let mut agree = true;
    let mut uncompared = false;
    // The policy is the API server's, so it applies to every kubelet that reports to it, whatever its machine runs.
    let reports = |it: &Running| {
        let object = cluster.node(&it.target.name).and_then(|node| cluster.object(node));
        object.is_some_and(says_ready)
    };
    // An API server outside of `--nodes` that was left behind is named instead of the judged parts that are newer than it.
    let is_to_blame = |it: &Running| newer(it).is_some() && judged().any(|part| part.minor() > it.minor());
    for it in running.iter().filter(|it| !it.is_not_judged || (it.is_guest() && reports(it)) || is_to_blame(it)) {
        let skew = if let Some(newer) = newer(it) {
            Some(format!("not older than {newer} other parts"))
        } else {
            let own = own_server(it).filter(|own| newer(own).is_none());
            newest.and_then(|newest| skew(it, own, oldest, newest))
        };
        let expected = cluster.asked.expect_kubernetes.as_deref().filter(|_| !is_to_blame(it) || !it.is_not_judged);
        let unexpected = expected.filter(|asked| !meets(&it.version, asked));
        if skew.is_none() && unexpected.is_none() {
            if it.is_guest() {
                continue;
            }
            let is_asked_for = cluster.asked.expect_kubernetes.is_some();
            match &alone {
                _ if oldest.is_some() || is_asked_for => verdict.ok(it.target.clone()),
                // This outcome is the same for all parts, so it is reported once.
                outcome if outcome.is_unseen() => uncompared = true,
                outcome => verdict.push(it.target.clone(), outcome.clone()),
            }
            continue;
        }
        agree = false;
        let skew = skew.map(|expected| (Reason::VersionSkew, expected));
        let unexpected = unexpected.map(|asked| (Reason::VersionUnexpected, format!("version {asked}")));
        for (reason, expected) in skew.into_iter().chain(unexpected) {
            let whose = if it.part == Part::Endpoint { "the API server: " } else { "" };
            let problem = Problem::fail(reason, expected, format!("{whose}v{}", it.version));
            verdict.problem(it.target.clone(), problem.hint(it.look()));
        }
    }
    if uncompared {
        verdict.push(Target::cluster(), alone);
    }
    if agree {
        mixture(&running, &mut verdict);
    }
    verdict
}

/// Returns API servers that are a minor version behind the newest, each with the number of parts that are newer than it and not newer than
/// the newest. If these parts are the majority, the API server is the exception; otherwise the parts are too new.
fn left_behind<'r>(
    running: &'r [Running],
    own_server: impl Fn(&Running) -> Option<&'r Running>,
) -> Vec<(&'r Running, usize)> {
    let servers = || running.iter().filter(|it| it.is_api_server());
    let Some(newest) = servers().map(Running::minor).max() else { return Vec::new() };
    let older: Vec<&Running> = servers().filter(|it| it.minor() < newest).collect();
    let newer = |server: &Running| {
        // A process that is no newer than its own API server shows nothing about the others.
        let is_served = |it: &Running| own_server(it).is_some_and(|own| it.minor() <= own.minor());
        let others = running.iter().filter(|it| !it.is_api_server() && !it.is_guest() && !is_served(it));
        others.filter(|it| it.minor() > server.minor() && it.minor() <= newest).count()
    };
    let counted = older.iter().map(|server| (*server, newer(server)));
    counted.filter(|(_, newer)| *newer > older.len()).collect()
}

/// Adds the control plane's components on one node. Returns true if its API server runs and the image's name does not contain a version.
fn of_components(
    cluster: &Assessment<'_>,
    node: &Node,
    demanded: Option<&str>,
    running: &mut Vec<Running>,
    verdict: &mut Verdict,
) -> bool {
    // A version that is demanded before an upgrade also applies to a machine that is declared off.
    let why = match demanded {
        Some(_) => reason_not_upgraded(cluster, node),
        None => reason_not_judged(cluster, node),
    };
    if matches!(cluster.instance(node, Component::ApiServer).state, State::NoKubernetes) {
        return false;
    }
    if let Some(why) = why {
        verdict.skip(node.target(), why);
    } else if cluster.asks_talos()
        && let Err(outcome) = kubelet_word(cluster, node)
    {
        verdict.push(node.target(), outcome);
        return false;
    }
    let mut untold = false;
    for component in Component::ALL {
        let is_untold = matches!(cluster.instance(node, component).state, State::Untold);
        if component.enabled(&node.talos) == Ok(Some(false)) || is_untold || !cluster.is_missed(component) {
            continue;
        }
        let name = component.pod_name(node);
        let target = Target::pod(name.as_str(), Some(&node.name));
        match image_version(cluster, node, component, &name) {
            Ok(Image::Names(version, numbers)) => running.push(Running {
                part: Part::Component(component),
                target,
                name,
                version,
                numbers,
                is_not_judged: why.is_some(),
            }),
            Ok(Image::NamesNone(image)) => {
                untold |= component == Component::ApiServer;
                if why.is_none() {
                    verdict.push(target, without_version(demanded, &image));
                }
            }
            Err(outcome) if why.is_none() => verdict.push(target, outcome),
            Err(_) => {}
        }
    }
    untold
}

/// Outcome for an image with a digest or a tag that is a word. That will not change, so it is an error only if a version was demanded.
fn without_version(demanded: Option<&str>, image: &str) -> Outcome {
    let Some(expected) = demanded else {
        return not_measurable(&format!("image {image} names no version"));
    };
    let problem = Problem::error(Reason::UnreadableAnswer, expected, format!("image {image}"));
    Outcome::problem(problem.permanent())
}

fn not_measurable(why: &str) -> Outcome {
    Outcome::Skip(format!("{}: {why}", Reason::NotMeasurable.code()))
}

/// The version in an image's name.
enum Image {
    /// Version without `v`, and its numbers.
    Names(String, (u32, u32, u32)),
    NamesNone(String),
}

fn image_version(cluster: &Assessment<'_>, node: &Node, component: Component, name: &str) -> Result<Image, Outcome> {
    let missing = || unseen(Reason::ComponentMissing, &format!("pod {name}"), "none that runs");
    let pod = cluster.instance(node, component).pod.map_err(|why| no_pods(cluster, name, why))?;
    let state = pod.ok_or_else(missing)?;
    let listed = system_pods(cluster);
    let mirror = listed.as_ref().ok().and_then(|pods| cluster.mirror_of(pods, node, component));
    if let Some(outcome) = mirror.and_then(|mirror| two_versions(cluster, node, component, mirror)) {
        return Err(outcome);
    }
    let image = image_of(state, component);
    if let Some(version) = image.and_then(tagged) {
        return Ok(version);
    }
    // The mirror pod shows the requested image if the runtime reports only a digest.
    if let Some(version) = mirror.and_then(|pod| image_of(&pod.state, component)).and_then(tagged) {
        return Ok(version);
    }
    if !is_well(state) {
        return Err(missing());
    }
    if let Err(Outcome::Problem(problem)) = listed {
        return Err(Outcome::Problem(problem));
    }
    let image = image.or_else(|| mirror.and_then(|pod| image_of(&pod.state, component)));
    image.map(|image| Image::NamesNone(image.to_owned())).ok_or_else(|| {
        let expected = "an image tagged with a version";
        Outcome::problem(Problem::error(Reason::UnreadableAnswer, expected, "no image is reported"))
    })
}

/// Reports that Talos and Kubernetes show different versions of one pod, so that one of them is outdated: Talos can keep reporting the
/// status of the pod that ran before an upgrade. While the pod is being replaced, this lasts for seconds.
fn two_versions(cluster: &Assessment<'_>, node: &Node, component: Component, mirror: &Pod) -> Option<Outcome> {
    // The mirror pod of a silent kubelet is known to be outdated.
    if matches!(cluster.life_of(node), Life::Silent | Life::Removed) {
        return None;
    }
    let mut statuses = node.talos.static_pod_statuses.iter().flatten();
    let status = statuses.find(|status| component.is_of(status, node))?;
    let version = |state| match image_of(state, component).and_then(tagged) {
        Some(Image::Names(version, _)) => Some(version),
        Some(Image::NamesNone(_)) | None => None,
    };
    let (by_talos, by_kubernetes) = version(&status.state).zip(version(&mirror.state))?;
    let observed = format!("v{by_talos} in Talos's status of the pod, v{by_kubernetes} in Kubernetes's");
    let problem = Problem::error(Reason::StatusStale, "one version in both statuses of the pod", observed)
        .hint(Hint::likely("the pod was just replaced, or Talos's status of it is no longer updated"))
        .hint(Hint::run("{talosctl} -n {} get staticpodstatus -o yaml", [node.address.as_str()]));
    (by_talos != by_kubernetes).then(|| Outcome::problem(problem))
}

fn image_of(state: &PodState, component: Component) -> Option<&str> {
    let container = state.containers.iter().find(|container| container.name == component.name())?;
    Some(container.image.as_str()).filter(|image| !image.is_empty())
}

/// Returns the version in `registry:5000/kube-apiserver:v1.35.4@sha256:…`.
fn tagged(image: &str) -> Option<Image> {
    let (_, tag) = image.split('@').next()?.rsplit('/').next()?.split_once(':')?;
    Some(Image::Names(tag.trim_start_matches('v').to_owned(), version::numbers(tag)?))
}

/// Adds the API server at the endpoint, by its own answer.
fn of_endpoint(cluster: &Assessment<'_>, running: &mut Vec<Running>, verdict: &mut Verdict) {
    let expected = "the version of the API server";
    match listed(cluster, |kubernetes| &kubernetes.version, expected) {
        Ok(version) => {
            let Some(numbers) = version::numbers(version) else {
                let observed = format!("version `{version}`");
                let problem = Problem::error(Reason::UnreadableAnswer, expected, observed);
                return verdict.problem(Target::cluster(), problem);
            };
            running.push(Running {
                part: Part::Endpoint,
                target: Target::cluster(),
                name: "the API server".to_owned(),
                version: version.trim_start_matches('v').to_owned(),
                numbers,
                is_not_judged: false,
            });
        }
        Err(outcome) => verdict.push(Target::cluster(), outcome),
    }
}

fn of_kubelets(cluster: &Assessment<'_>, extent: Extent, running: &mut Vec<Running>, verdict: &mut Verdict) {
    if let Err(outcome) = node_objects(cluster, "the versions of the kubelets") {
        return verdict.push(Target::cluster(), outcome);
    }
    for node in cluster.nodes() {
        let target = node.target();
        let is_guest = match cluster.standing(node) {
            // A declaration that the machine is off does not excuse a wrong version.
            Standing::NotJudged(NotJudged::DeclaredOff) if cluster.object(node).is_some() => cluster.is_guest(node),
            Standing::NotJudged(why) if extent.includes(why) && cluster.object(node).is_some() => {
                cluster.is_guest(node)
            }
            Standing::NotJudged(_) => continue,
            Standing::Guest => true,
            Standing::Judged => false,
        };
        let Some(object) = cluster.object(node) else {
            verdict.push(target, unregistered(node));
            continue;
        };
        let version = object.kubelet_version.as_str();
        if is_guest {
            verdict.skip(target.clone(), GUEST);
            // A virtual kubelet chooses the version that it reports.
            if object.system() != System::Another || version::numbers(version).is_none() {
                continue;
            }
        }
        match version::numbers(version) {
            Some(numbers) => running.push(Running {
                part: Part::Kubelet,
                target,
                name: format!("kubelet of {}", object.name),
                version: version.trim_start_matches('v').to_owned(),
                numbers,
                is_not_judged: is_guest,
            }),
            // A kubelet that has not reported yet has not reported its version either.
            None if version.is_empty() && !says_ready(object) => {
                verdict.push(target, unseen(Reason::NodeNotReady, "the kubelet's version", "it has not reported yet"));
            }
            None => {
                let observed = if version.is_empty() { "none" } else { version };
                verdict.problem(target, Problem::error(Reason::UnreadableAnswer, "the kubelet's version", observed));
            }
        }
    }
}

/// Adds every running kube-proxy on judged nodes. Those that do not run are judged elsewhere, and an image without a version gives nothing
/// to compare.
fn of_proxies(
    cluster: &Assessment<'_>,
    demanded: Option<&str>,
    extent: Extent,
    running: &mut Vec<Running>,
    verdict: &mut Verdict,
) {
    let is_proxy = |pod: &&Pod| pod.namespace == "kube-system" && is_labeled(pod, PROXY);
    let mut pods: Vec<&Pod> = system_pods(cluster).into_iter().flatten().filter(is_proxy).collect();
    pods.sort_by_key(|pod| &pod.name);
    for pod in pods.into_iter().filter(|pod| is_well(&pod.state)) {
        let node = cluster.host_of(pod);
        let is_left_out = node.is_none_or(|node| match cluster.standing(node) {
            Standing::Judged => false,
            Standing::NotJudged(why) => !extent.includes(why),
            Standing::Guest => true,
        });
        let container = pod.state.containers.iter().find(|container| container.name == PROXY);
        let target = Target::pod(pod.name.as_str(), pod.node.as_deref());
        match container.map(|it| (tagged(&it.image), &it.image)).filter(|_| !is_left_out) {
            Some((Some(Image::Names(version, numbers)), _)) => running.push(Running {
                part: Part::Proxy,
                target,
                name: pod.name.clone(),
                version,
                numbers,
                is_not_judged: false,
            }),
            Some((_, image)) if demanded.is_some() => verdict.push(target, without_version(demanded, image)),
            _ => {}
        }
    }
}

const PROXY: &str = "kube-proxy";

/// Describes the version that the version skew policy requires, if this process violates it.
fn skew(it: &Running, own: Option<&Running>, oldest: Option<&Running>, newest: &Running) -> Option<String> {
    let behind = match it.part {
        Part::Component(_) | Part::Endpoint => 1,
        Part::Kubelet | Part::Proxy if it.minor() < (1, 25) => 2,
        Part::Kubelet | Part::Proxy => 3,
    };
    let which = if own.is_some() { "the API server of its machine" } else { "the oldest API server" };
    if let Some(server) = own.or(oldest).filter(|server| !it.is_api_server() && it.minor() > server.minor()) {
        return Some(format!("not newer than {which} (v{})", server.version));
    }
    let (major, minor) = newest.minor();
    let too_old = it.numbers.0 != major || minor.saturating_sub(it.numbers.1) > behind;
    too_old.then(|| {
        let plural = if behind == 1 { "" } else { "s" };
        let than = if newest.is_api_server() { "the newest API server" } else { newest.name.as_str() };
        format!("at most {behind} minor version{plural} older than {than} (v{})", newest.version)
    })
}

/// Returns true if the version matches `asked`, which is a full version or major and minor. Suffixes of providers (`-eks-…`, `-gke.…`,
/// `+k3s1`) are ignored unless they are part of `asked`; suffixes of Kubernetes itself denote an earlier version.
fn meets(version: &str, asked: &str) -> bool {
    if asked.split('.').count() > 2 {
        let appended = version.strip_prefix(asked);
        let is_earlier = |it: &str| ["-alpha.", "-beta.", "-rc."].iter().any(|stage| it.starts_with(stage));
        return appended.is_some_and(|it| it.is_empty() || (it.starts_with(['-', '+']) && !is_earlier(it)));
    }
    version.strip_prefix(asked).is_some_and(|rest| rest.starts_with('.'))
}

/// Reports mixed versions, or the single version.
fn mixture(running: &[Running], verdict: &mut Verdict) {
    let mut by_version: BTreeMap<(u32, u32, u32), Vec<&Running>> = BTreeMap::new();
    for it in running.iter().filter(|it| !it.is_not_judged && it.part != Part::Endpoint) {
        by_version.entry(it.numbers).or_default().push(it);
    }
    let mut versions = by_version.values();
    match (versions.next(), versions.next()) {
        (Some(only), None) => {
            let nodes = &only[0].version;
            // Its owner may upgrade the API server long before the nodes.
            let other = running.iter().find(|it| it.part == Part::Endpoint && it.version != *nodes);
            let server = other.map_or_else(String::new, |it| format!("; API server: v{}", it.version));
            verdict.sum_up(&format!("Kubernetes: v{nodes}{server}"));
        }
        (Some(_), Some(_)) => {
            let observed: Vec<String> = by_version.values().map(|those| named(those)).collect();
            let problem = Problem::warn(Reason::VersionsMixed, "one version everywhere", observed.join("; "));
            verdict.problem(Target::cluster(), problem);
        }
        _ => {}
    }
}

/// Formats `v1.35.3: kubelet of w-1, kubelet of w-2 and 7 more`.
fn named(those: &[&Running]) -> String {
    const SHOWN: usize = 3;
    let mut names: Vec<&str> = those.iter().map(|it| it.name.as_str()).collect();
    names.sort_unstable();
    let shown = names[..names.len().min(SHOWN)].join(", ");
    let more = names.len().saturating_sub(SHOWN);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("v{}: {shown}{more}", those[0].version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_provider_appends_is_no_part_of_a_version() {
        for (version, asked, expected) in [
            ("1.35.4", "1.35.4", true),
            ("1.35.4-eks-3cfe0ce", "1.35.4", true),
            ("1.35.4-gke.1200", "1.35.4", true),
            ("1.35.4+k3s1", "1.35.4", true),
            ("1.35.4+k3s1", "1.35.4+k3s2", false),
            ("1.35.4-gke.1200", "1.35.4-gke.1200", true),
            ("1.35.4", "1.35.4-gke.1200", false),
            ("1.35.40", "1.35.4", false),
            ("1.36.0-rc.1", "1.36.0", false),
            ("1.35.4+k3s1", "1.35", true),
            ("1.3.4", "1.35", false),
        ] {
            assert_eq!(meets(version, asked), expected, "{version} {asked}");
        }
    }
}
