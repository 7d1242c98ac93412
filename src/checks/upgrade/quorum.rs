//! Checks whether the cluster keeps working without each machine that will be taken down.

use super::{each_to_go, not_asked};
use crate::assess::Assessment;
use crate::assess::components::{Component, Place, State};
use crate::assess::contact;
use crate::assess::etcd::View;
use crate::assess::servers::Server;
use crate::checks::Check;
use crate::checks::etcd::overview;
use crate::checks::gaps::{self, listed, unregistered};
use crate::checks::kubernetes::dns::{deployment, dns_serving, own, show_dns_pods};
use crate::checks::kubernetes::leases::leases;
use crate::checks::kubernetes::servers::on_machine;
use crate::checks::kubernetes::serving::unread_pods;
use crate::checks::kubernetes::static_pods::etcd_pods;
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Role, Severity, Stage, Verdict};
use crate::snapshot::{Node, ServiceEndpoint};

pub(in crate::checks) const QUORUM: Check = Check {
    id: CheckId::UpgradeQuorum,
    stage: Stage::Upgrade,
    summary: "etcd, the API and DNS keep working without the machine to be upgraded or drained",
    explain: "Runs with `--upgrade-talos`, for every machine as the next one, and with `--drain NODE`, for that one. Counts \
the etcd voters that are up without the machine, the working API servers, kube-controller-managers and kube-schedulers on other \
control planes, even those outside of `--nodes`, and the ready endpoints of cluster DNS on other machines that are ready.\n\n\
`quorum-at-risk` means that fewer voters than n/2+1 would be left. Unavoidable risks are warnings: etcd with one or two \
voters, a single control plane, a component that is disabled on all others, and DNS in a cluster of one node or with one replica. A member or API server of unknown \
state counts as down; if \
the result depends on it, the check is an error. It warns if the Kubernetes endpoint in use is an address of the machine itself.\n\n\
With --no-talos, etcd members are counted by their static pods. Where etcd has none, as on k3s, which member is on which machine is \
unknown, and only API servers and DNS are checked; the report says so.\n\n\
`etcd.tolerance` and `--require-quorum-margin` check the cluster as it is; this check shows what one reboot leaves.",
    severity: Severity::Fail,
    finds: &[
        Reason::NodeUnknown,
        Reason::NodesContradict,
        Reason::QuorumAtRisk,
        Reason::LastApiServer,
        Reason::LastComponent,
        Reason::EndpointOnMachine,
        Reason::LastDnsEndpoint,
    ],
    facts: &[
        Fact::TalosNodes,
        Fact::MachineStatus,
        Fact::Services,
        Fact::EtcdMembership,
        Fact::ServerReadyz,
        Fact::ComponentConfigs,
        Fact::StaticPods,
        Fact::StaticPodStatuses,
        Fact::KubeNodes,
        Fact::NodeLeases,
        Fact::SystemLeases,
        Fact::Pods,
        Fact::DnsEndpoints,
    ],
    judge: quorum,
};

fn quorum(cluster: &Assessment<'_>) -> Verdict {
    if !cluster.asked.upgrade.takes_down_machines() {
        return not_asked("--drain");
    }
    let fine = |which: &str| {
        if cluster.asks_talos() {
            format!("etcd, the API and DNS keep working: {which} can go down")
        } else {
            format!("neither the last API server nor the last DNS endpoint is on {which}")
        }
    };
    let mut hosts_control_plane = false;
    let dns = dns(cluster);
    let mut verdict = each_to_go(cluster, fine, |node, verdict| {
        let left = [etcd_without(cluster, node), servers_without(cluster, node), dns_without(cluster, &dns, node)];
        let led = [Component::ControllerManager, Component::Scheduler].map(|it| component_without(cluster, node, it));
        let problems: Vec<Outcome> = left.into_iter().chain(led).flatten().collect();
        hosts_control_plane |= node.role == Role::ControlPlane;
        if problems.is_empty() {
            verdict.ok(node.target());
        }
        for problem in problems {
            verdict.push(node.target(), problem);
        }
    });
    if hosts_control_plane && !cluster.asks_talos() {
        let has_pods = etcd_pods(cluster).is_ok_and(|pods| !pods.is_empty());
        verdict.leave_out(if has_pods {
            "etcd members that no static pod shows, such as those of deleted Nodes"
        } else {
            "whether etcd, or whatever else stores the API's objects, keeps working without the machine"
        });
    }
    verdict
}

/// Turns a problem into a permanent warning if it is by design, because waiting for other machines would never resolve it and the upgrade
/// would be blocked forever.
fn unless_by_design(by_design: bool, problem: Problem) -> Outcome {
    Outcome::problem(if by_design { Problem { severity: Severity::Warn, ..problem }.permanent() } else { problem })
}

fn etcd_without(cluster: &Assessment<'_>, node: &Node) -> Option<Outcome> {
    if !cluster.asks_talos() {
        return etcd_pods_without(cluster, node);
    }
    // No member runs on the machines if `--etcd-endpoints` is given.
    if node.role == Role::Worker || cluster.etcd.is_external {
        return None;
    }
    let overview = match overview(cluster) {
        Ok(overview) => overview,
        Err(verdict) => return verdict.findings.into_iter().map(|finding| finding.outcome).next(),
    };
    let quorum = &overview.quorum;
    let own = overview.views.iter().find(|view| view.node.is_some_and(|it| it.name == node.name));
    let learns = |view: &View<'_>| view.status.as_ref().is_ok_and(|status| status.is_learner);
    let is_up = own.is_some_and(|view| view.sees_leader() && !learns(view));
    let is_untold = own.is_none_or(|view| view.status.is_err() && !view.is_down);
    let left = quorum.following.saturating_sub(usize::from(is_up));
    let untold = quorum.untold.saturating_sub(usize::from(is_untold));
    let needed = quorum.needed();
    if left >= needed {
        return None;
    }
    let expected = match quorum.voters {
        1 => "another voter that works".to_owned(),
        voters => format!("{needed} of {voters} voters up without it"),
    };
    if !quorum.proven {
        return Some(Outcome::problem(
            Problem::error(Reason::QuorumUnproven, expected, "no quorum is proven").unseen(),
        ));
    }
    let by_design = quorum.tolerates(quorum.voters) == 0;
    if left + untold >= needed || (by_design && quorum.following < quorum.voters) {
        let observed = format!("{left} up, {untold} of unknown state");
        return Some(Outcome::problem(Problem::error(Reason::NoAnswer, expected, observed).unseen()));
    }
    let problem = Problem::fail(Reason::QuorumAtRisk, expected, format!("{left} would be left"))
        .hint(Hint::run("{talosctl} -n {} etcd members", [node.address.as_str()]));
    Some(unless_by_design(by_design, problem))
}

/// Counts etcd members by their static pods, if Talos is not queried.
fn etcd_pods_without(cluster: &Assessment<'_>, node: &Node) -> Option<Outcome> {
    let members = match etcd_pods(cluster) {
        Ok(members) => members,
        Err(outcome) => return Some(outcome),
    };
    let is_up = *members.get(node.name.as_str())?;
    let up = members.values().filter(|works| **works).count();
    let (left, needed) = (up - usize::from(is_up), members.len() / 2 + 1);
    if left >= needed {
        return None;
    }
    let expected = format!("{needed} of {} etcd members up without it", members.len());
    let problem = Problem::fail(Reason::QuorumAtRisk, expected, format!("{left} would be left")).hint(Hint::run(
        "{kubectl} get pods -A -o wide --field-selector spec.nodeName={}",
        [cluster.name_in_kubernetes(node)],
    ));
    // If all of one or two members work, waiting for another one changes nothing.
    Some(unless_by_design(members.len() < 3 && up == members.len(), problem))
}

fn servers_without(cluster: &Assessment<'_>, node: &Node) -> Option<Outcome> {
    if node.role == Role::Worker {
        return None;
    }
    let others: Vec<Server<'_>> =
        cluster.control_planes().filter(|other| other.name != node.name).map(|other| cluster.server(other)).collect();
    // If this runner reaches no server, the endpoint leads to any of them. If it reaches only this one, the others are cut off.
    let is_seen = matches!(cluster.server(node), Server::Ready | Server::NotReady(_));
    if others
        .iter()
        .any(|server| matches!(server, Server::Ready) || (!is_seen && matches!(server, Server::AliveBy(..))))
    {
        // Clients of this endpoint cannot reach the other API servers, although these work.
        return on_machine(cluster, node).map(Outcome::problem);
    }
    let expected = "a working API server on another control plane";
    let is_wrong = |server: &Server<'_>| match server {
        Server::NotReady(readyz) => gaps::readyz(cluster, readyz).severity == Severity::Fail,
        server => matches!(server, Server::Lost(_) | Server::Refused(_)),
    };
    if !others.iter().all(is_wrong) {
        let problem = Problem::error(Reason::NoAnswer, expected, "no other API server reported whether it is ready");
        return Some(Outcome::problem(problem.unseen()));
    }
    let observed = if others.is_empty() { "it is the only control plane" } else { "no other API server works" };
    let hint = if cluster.asks_talos() {
        Hint::run("{kubectl} -n kube-system get pods -l k8s-app=kube-apiserver -o wide", [])
    } else {
        Hint::run("{kubectl} -n default get endpointslices -l kubernetes.io/service-name=kubernetes", [])
    };
    let elsewhere = cluster.control_planes().filter(|other| other.name != node.name);
    let problem = Problem::fail(Reason::LastApiServer, expected, observed)
        .hint(hint)
        .on(elsewhere.map(|other| other.name.as_str()));
    Some(unless_by_design(others.is_empty(), problem))
}

/// Reports a component of which no other instance works. Instances outside of `--nodes` count: pods wait for any of them.
fn component_without(cluster: &Assessment<'_>, node: &Node, component: Component) -> Option<Outcome> {
    let others: Vec<&Node> = cluster.control_planes().filter(|other| other.name != node.name).collect();
    // A single control plane is reported for its API server.
    if node.role == Role::Worker || others.is_empty() || cluster.place(component) != Place::Here {
        return None;
    }
    let state = |node: &Node| &cluster.instance(node, component).state;
    let is_of_this = cluster.control_planes().any(|it| it.name == node.name);
    // Nothing is lost with an instance that is known not to work.
    if !is_of_this || works(cluster, node, state(node)) == Some(false) {
        return None;
    }
    let elsewhere: Vec<Option<bool>> = others.iter().map(|other| works(cluster, other, state(other))).collect();
    if elsewhere.contains(&Some(true)) {
        return None;
    }
    let name = component.name();
    let expected = format!("a working {name} on another control plane");
    if elsewhere.contains(&None) {
        let observed = format!("no other {name} is known to work");
        return Some(Outcome::problem(Problem::error(Reason::NoAnswer, expected, observed).unseen()));
    }
    let is_off = |other: &&Node| matches!(state(other), State::NoKubernetes | State::Disabled | State::Untold);
    let wanted: Vec<&Node> = others.into_iter().filter(|other| !is_off(other)).collect();
    let observed = if wanted.is_empty() { "no other one runs it".to_owned() } else { format!("no other {name} works") };
    let problem = Problem::fail(Reason::LastComponent, expected, observed)
        .hint(Hint::run("{kubectl} -n kube-system get pods -o wide", []))
        .on(wanted.iter().map(|other| other.name.as_str()));
    Some(unless_by_design(wanted.is_empty(), problem))
}

/// Returns whether an instance of a component works; `None` if that is unknown.
fn works(cluster: &Assessment<'_>, node: &Node, state: &State<'_>) -> Option<bool> {
    match state {
        _ if !cluster.life_of(node).may_serve() => Some(false),
        State::Ready => Some(true),
        State::Unreliable | State::Unseen(_) | State::Silent | State::MayBeDisabled(_) => None,
        State::NoKubernetes
        | State::Disabled
        | State::NotReady(_)
        | State::Untold
        | State::NotRendered
        | State::Missing => Some(false),
    }
}

/// Returns the endpoints of the cluster's DNS, provided that the facts that show which of them serve were read.
fn dns(cluster: &Assessment<'_>) -> Result<Vec<ServiceEndpoint>, Outcome> {
    let endpoints = listed(cluster, |kubernetes| &kubernetes.dns_endpoints, "the endpoints of kube-system/kube-dns")?;
    let endpoints = own(cluster, endpoints);
    // The endpoint of a node that has fallen silent remains for a while.
    leases(cluster)?;
    unread_pods(cluster, &endpoints).map_or(Ok(endpoints), Err)
}

fn dns_without(cluster: &Assessment<'_>, dns: &Result<Vec<ServiceEndpoint>, Outcome>, node: &Node) -> Option<Outcome> {
    let expected = "a ready endpoint of the cluster DNS on another machine";
    let endpoints = match dns {
        Ok(endpoints) => endpoints,
        Err(outcome) => return Some(outcome.clone()),
    };
    let Some(object) = cluster.object(node) else { return Some(unregistered(node)) };
    let ready = || endpoints.iter().filter(|endpoint| dns_serving(cluster, endpoint).but_for_its_node());
    let is_here = |name: &str| name == object.name;
    let lives_elsewhere = |name: &str| !is_here(name) && cluster.serving_on(Some(name)).may_be();
    // An endpoint without a pod and on no machine serves from outside the cluster.
    let is_outside = |endpoint: &ServiceEndpoint| {
        let has = |address: &String| cluster.nodes().iter().any(|it| it.addresses.contains(address));
        endpoint.pod.is_none() && !endpoint.addresses.iter().any(has)
    };
    // Kubernetes reports the pods of a machine that is about to reboot as ready.
    let stays = |name: &str| stage_is_read(cluster, name).is_ok();
    let is_elsewhere = ready().any(|endpoint| match &endpoint.node {
        Some(name) => lives_elsewhere(name) && stays(name),
        None => is_outside(endpoint),
    });
    // If there is no endpoint at all, `k8s.dns` reports that, and no machine is to blame.
    if is_elsewhere || !ready().any(|endpoint| endpoint.node.as_deref().is_none_or(is_here)) {
        return None;
    }
    let mut others = ready().filter_map(|endpoint| endpoint.node.as_deref()).filter(|name| lives_elsewhere(name));
    if let Some(outcome) = others.find_map(|name| stage_is_read(cluster, name).err()) {
        return Some(outcome);
    }
    if ready().any(|endpoint| endpoint.node.is_none()) {
        let observed = "an endpoint without a node name";
        return Some(Outcome::problem(Problem::error(Reason::NoAnswer, expected, observed)));
    }
    let hint = show_dns_pods(cluster, endpoints);
    // No endpoint on another machine works.
    let elsewhere = ready().filter_map(|endpoint| endpoint.node.as_deref()).filter(|name| !is_here(name));
    let here_too = || cluster.serving_on(Some(&object.name)).may_be();
    let observed = if here_too() { "all working ones are on this machine" } else { "none works, here or elsewhere" };
    let problem = Problem::fail(Reason::LastDnsEndpoint, expected, observed).hint(hint).on(elsewhere);
    let is_only_node = cluster.list(|kubernetes| &kubernetes.nodes).is_some_and(|nodes| nodes.len() == 1);
    // k3s runs one replica. It moves with the drain, and DNS is unavailable for a moment.
    let is_one_wanted = deployment(cluster).is_some_and(|it| it.is_observed() && it.desired == 1);
    Some(unless_by_design(is_only_node || is_one_wanted, problem))
}

/// Returns the reason why a machine that answers does not tell whether it is going down.
fn stage_is_read(cluster: &Assessment<'_>, name: &str) -> Result<(), Outcome> {
    let Some(node) = cluster.machine_of(name).filter(|node| contact(node).is_some()) else { return Ok(()) };
    match &node.talos.machine_status {
        Err(gap) => Err(Outcome::problem(gaps::talos(gap, "the stage of the machine").unseen())),
        Ok(_) => Ok(()),
    }
}
