//! Checks leader election: whether one instance of each component is active.

use super::{is_old, miss_mirrors, undated};
use crate::assess::Assessment;
use crate::assess::components::{Component, Election, Place, State};
use crate::assess::workloads::{RENEWAL, Renewal};
use crate::checks::Check;
use crate::checks::gaps::{self, listed, says_nothing};
use crate::checks::scope::control_planes;
use crate::model::{CheckId, Fact, Hint, Kind, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Gap, Node};

pub(in crate::checks) const LEASES: Check = Check {
    id: CheckId::K8sControlplaneLeases,
    stage: Stage::ControlPlane,
    summary: "kube-controller-manager and kube-scheduler each have a leader",
    explain: "Reads the leases kube-controller-manager and kube-scheduler in kube-system. One instance of each holds its lease \
and renews it every two seconds; only that one is active. Instances that run but do not lead pass every other check while \
nothing is scheduled and no controller acts. A lease that looks stale is read again before it counts.\n\n\
There is no leader when no instance reaches an API server, when etcd is too slow to renew a lease in time, or when a component \
is missing everywhere. Where the configuration disables a component on every control plane, or its only instance runs with \
`--leader-elect=false`, its lease is not checked. If there are several instances and one does not take part in the election, \
the check fails: two act at once. A leader on a host that is no known control plane is a warning.\n\n\
With --no-talos, the components may be processes of their nodes or run elsewhere. Their leases are still checked; a \
component that has neither a pod nor a lease cannot be checked, and k8s.pods.starting shows whether a scheduler works.\n\n\
`kubectl -n kube-system get lease` shows holders and ages; the log of an instance shows why it cannot acquire the lease.",
    severity: Severity::Fail,
    finds: &[Reason::ForeignLeader, Reason::NotLeading, Reason::ElectionOff],
    facts: &[
        Fact::TalosNodes,
        Fact::ComponentConfigs,
        Fact::StaticPods,
        Fact::StaticPodStatuses,
        Fact::Pods,
        Fact::KubeNodes,
        Fact::SystemLeases,
    ],
    judge: leases,
};

fn leases(cluster: &Assessment<'_>) -> Verdict {
    if !cluster.asks_kubernetes() {
        return Verdict::skipped("--no-kubernetes");
    }
    let mut verdict = leaders(cluster);
    let system = cluster.list(|kubernetes| &kubernetes.system_leases);
    if let Some(problem) = system.and_then(|leases| is_old(cluster, cluster.memory.system_leases.as_ref(), leases)) {
        verdict.problem(Target::cluster(), problem);
    }
    // Only the mirror pods show instances that do not take part in the election.
    miss_mirrors(cluster, &mut verdict);
    verdict
}

/// Judges whether each component has a leader.
pub(in crate::checks) fn leaders(cluster: &Assessment<'_>) -> Verdict {
    let nodes = match control_planes(cluster) {
        Ok(nodes) => nodes,
        // The leases are in this cluster wherever the components run.
        Err(Outcome::Skip(_)) => Vec::new(),
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    for component in [Component::ControllerManager, Component::Scheduler] {
        let disabled = |node: &&Node| component.enabled(&node.talos) == Ok(Some(false));
        let outcome = if !nodes.is_empty() && nodes.iter().all(disabled) {
            Outcome::Skip("disabled in the machine configuration of every control plane".to_owned())
        } else {
            led(cluster, &nodes, component, &mut verdict)
        };
        verdict.push(Target::new(Kind::Workload, format!("kube-system/{}", component.name())), outcome);
    }
    verdict
}

fn led(cluster: &Assessment<'_>, nodes: &[&Node], component: Component, verdict: &mut Verdict) -> Outcome {
    let expected = "an instance renews the lease";
    let leases = match listed(cluster, |kubernetes| &kubernetes.system_leases, expected) {
        Ok(leases) => leases,
        Err(outcome) => return outcome,
    };
    // Each API server has a lease in kube-system, so the list is never empty.
    if leases.by_name.is_empty() && !cluster.asks_talos() {
        return says_nothing("the leases of kube-system", "an empty list");
    }
    let election = cluster.election(component);
    let namespace = election.as_ref().map_or("kube-system", |it| it.namespace);
    let show = Hint::run("{kubectl} -n {} get lease {} -o yaml", [namespace, component.name()]);
    match unelected(cluster, nodes, component) {
        Some(Outcome::Skip(_)) if election.as_ref().is_some_and(|it| it.renewal == Renewal::Lapsed) => {
            return left_over(show);
        }
        Some(outcome) => return outcome,
        None => {}
    }
    let observed = match &election {
        Some(Election { holder: Some(holder), renewal: Renewal::Renewed, .. }) => {
            return led_by(cluster, component, holder);
        }
        Some(Election { holder: Some(_), renewal: Renewal::Unknown, .. }) => {
            verdict.resample_after = Some(RENEWAL);
            return undated(expected);
        }
        Some(Election { holder: Some(holder), renewed: Some(renewed), .. }) => {
            format!("{holder} holds it, but has not renewed it since {renewed}")
        }
        Some(Election { holder: Some(holder), .. }) => format!("{holder} holds it, but has never renewed it"),
        Some(Election { holder: None, .. }) => "held by no instance".to_owned(),
        None => "there is no such lease".to_owned(),
    };
    let has_led = election.is_some();
    // A lease shows that an instance was leading: skipping another check does not excuse that none renews it now.
    match cluster.place(component) {
        Place::Process if !has_led => {
            let name = component.name();
            verdict.leave_out(format!("whether {name} works: it has no pod and no lease; see k8s.pods.starting"));
            return Outcome::Skip("not measurable: it has no pod and no lease".to_owned());
        }
        _ if !has_led && !cluster.is_missed(component) => {
            return Outcome::Skip(format!("it runs nowhere, and `{}` is skipped", component.check()));
        }
        _ => {}
    }
    if let Some(gap) = may_be_disabled(cluster, nodes, component).filter(|_| !has_led) {
        return Outcome::problem(gaps::talos(&gap, "whether the machine configuration disables it").unseen());
    }
    let instances: Vec<&Node> = nodes.iter().copied().filter(|node| is_to_run(cluster, node, component)).collect();
    let runs = |node: &&Node| matches!(cluster.instance(node, component).state, State::Ready);
    if cluster.etcd.trouble.is_none() && instances.iter().any(runs) {
        // An instance that releases its lease leaves it to the next one, which retries every two seconds.
        verdict.resample_after = Some(RENEWAL);
    }
    let problem = Problem::fail(Reason::NotLeading, expected, observed).hint(show);
    // The log of the holder, or of any instance if there is none, shows why it cannot renew the lease.
    let holds = |node: &&&Node| {
        let holder = election.as_ref().and_then(|it| it.holder).unwrap_or_default();
        holder.rsplit_once('_').is_some_and(|(host, _)| host.split('.').next() == node.name.split('.').next())
    };
    let shown = instances.iter().find(holds).or(instances.first());
    let pod = cluster.list(|kubernetes| &kubernetes.pods).zip(shown);
    let problem = match pod.and_then(|(pods, node)| cluster.mirror_of(pods, node, component)) {
        Some(pod) => problem.hint(Hint::run("{kubectl} -n {} logs {} --tail=50", [&pod.namespace, &pod.name])),
        None => problem,
    };
    let problem = problem.on(instances.iter().map(|node| node.name.as_str()));
    Outcome::problem(problem)
}

/// Warning about a lease from before the only instance ran with `--leader-elect=false`.
fn left_over(show: Hint) -> Outcome {
    let observed = "no instance renews it: the only one runs with `--leader-elect=false`";
    let problem = Problem::warn(Reason::NotLeading, "a lease that is renewed, or none", observed)
        .hint(Hint::likely("the lease is from before that, and can be deleted"))
        .hint(show);
    Outcome::problem(problem)
}

/// Returns true if an instance should run on this control plane. The lease is shared by all instances, so machines outside of `--nodes`
/// count.
fn is_to_run(cluster: &Assessment<'_>, node: &Node, component: Component) -> bool {
    !matches!(cluster.instance(node, component).state, State::NoKubernetes | State::Disabled)
}

/// Judges the holder of a lease. If all known instances are only on standby, the leader is on a machine that is not checked.
fn led_by(cluster: &Assessment<'_>, component: Component, holder: &str) -> Outcome {
    if cluster.place(component) != Place::Here || !cluster.is_outsider(holder) {
        return Outcome::Pass(None);
    }
    let observed = format!("held by {holder}, which is on no known control plane");
    let problem = Problem::warn(Reason::ForeignLeader, "an instance on a control plane holds the lease", observed)
        .hint(Hint::likely("a control plane that was removed and still runs, or that no source lists"))
        .hint(Hint::run("{kubectl} -n kube-system get lease {} -o yaml", [component.name()]))
        .hint(Hint::run("{kubectl} get nodes -o wide", []));
    Outcome::problem(problem)
}

/// Returns the gap that leaves open whether any instance should lead: the component is disabled wherever its configuration is known, and
/// observed nowhere.
fn may_be_disabled(cluster: &Assessment<'_>, nodes: &[&Node], component: Component) -> Option<Gap> {
    let mut untold = None;
    for node in nodes {
        match (component.enabled(&node.talos), &cluster.instance(node, component).state) {
            (Ok(Some(false)), _) => {}
            (_, State::MayBeDisabled(gap)) => untold = Some(gap.clone()),
            (Err(gap), State::Unreliable | State::Unseen(_)) => untold = Some(gap),
            _ => return None,
        }
    }
    untold
}

/// Reports instances with `--leader-elect=false`, which act without a lease. A single instance may do so, as some single control planes are
/// set up. With other instances, it is a second leader regardless of the lease holder: both schedule the same pods, or both create the same
/// objects.
fn unelected(cluster: &Assessment<'_>, nodes: &[&Node], component: Component) -> Option<Outcome> {
    let pods = cluster.list(|kubernetes| &kubernetes.pods)?;
    let wanted = nodes.iter().filter(|node| component.enabled(&node.talos) != Ok(Some(false)));
    let instances = || wanted.clone().filter_map(|node| cluster.mirror_of(pods, node, component));
    let alone = instances().filter(|pod| pod.leader_elect == Some(false));
    let names: Vec<&str> = alone.map(|pod| pod.name.as_str()).collect();
    if names.is_empty() {
        return None;
    }
    if instances().nth(1).is_some() {
        let observed = format!("`--leader-elect=false` alongside other instances: {}", names.join(", "));
        let problem = Problem::fail(Reason::ElectionOff, "instances that elect a leader", observed)
            .hint(Hint::likely("`leader-elect` is among the `extraArgs` of the machine configuration: remove it"))
            .hint(Hint::run("{kubectl} -n kube-system describe pod {}", [names[0]]));
        return Some(Outcome::problem(problem));
    }
    let why = "the only instance runs with `--leader-elect=false`, so it renews no lease";
    (wanted.count() == 1).then(|| Outcome::Skip(why.to_owned()))
}
