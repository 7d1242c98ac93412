//! Do talosconfig and kubeconfig speak of the same cluster?

use super::common::{discovery_is_on, host};
use super::kube_common::{ENDPOINT, IDENTITY as ID, answer, is_machine, skipped, talos_closed};
use super::{Check, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Verdict};
use crate::snapshot::{GapKind, KubeNode, Kubernetes, Node, Snapshot};

pub(super) const IDENTITY: Check = Check {
    id: ID,
    stage: Stage::ApiServer,
    summary: "kubeconfig and talosconfig belong to the same cluster",
    explain: "At least one machine that answers the Talos API has to be among the Kubernetes nodes, by its machine id, or by its \
name and an address that Talos itself tells. Names alone do not prove it: staging and production like to call their nodes alike.\n\n\
Without this, a healthy staging cluster could vouch for a broken production one. Everything that the API server lists is \
therefore `blocked` until the clusters are known to be the same.\n\n\
If it fails, compare the contexts in use with --context and --kube-context. A warning `endpoint-behind-proxy` means that the \
clusters are the same, but the API servers' own certificates are not signed by the CA in the kubeconfig: an access proxy such \
as Omni or Rancher, or a load balancer with a certificate of its own, stands in between.",
    severity: Severity::Fail,
    requires: &["k8s.credentials", ENDPOINT, "talos.nodes.reachable"],
    facts: &[Fact::TalosNodes, Fact::KubeNodes, Fact::EtcdMembership],
    judge: identity,
};

fn identity(snapshot: &Snapshot) -> Verdict {
    Verdict::whole(outcome(snapshot))
}

/// The check that stands before every list of the API server, if it did not pass.
pub(super) fn gate(snapshot: &Snapshot) -> Option<&'static str> {
    match outcome(snapshot) {
        outcome if outcome.status().is_fine() || skipped(snapshot, ID) => None,
        Outcome::Blocked(by) if by == ENDPOINT => Some(by),
        _ => Some(ID),
    }
}

/// The clusters were seen to be the same, whatever the user has left out.
pub(super) fn is_proven(snapshot: &Snapshot) -> bool {
    snapshot.talos.is_some() && matches!(likeness(snapshot), Ok(Likeness::Same))
}

pub(super) fn is_other_cluster(snapshot: &Snapshot) -> bool {
    let is_other = |outcome| matches!(outcome, Outcome::Problem(problem) if problem.reason == Reason::WrongCluster);
    is_other(outcome(snapshot)) && !skipped(snapshot, ID)
}

/// The clusters are the same and no API server's own certificate verifies, while the endpoint's does.
pub(super) fn is_behind_proxy(snapshot: &Snapshot, kubernetes: &Kubernetes) -> bool {
    let foreign = kubernetes.servers.values().all(|it| it.as_ref().is_err_and(|gap| gap.kind == GapKind::UnknownCa));
    let works = kubernetes.endpoint.as_ref().is_ok_and(|readyz| readyz.status == 200);
    works && foreign && !kubernetes.servers.is_empty() && matches!(likeness(snapshot), Ok(Likeness::Same))
}

fn outcome(snapshot: &Snapshot) -> Outcome {
    let Some(kubernetes) = &snapshot.kubernetes else {
        return Outcome::Skip("--no-kubernetes".to_owned());
    };
    if snapshot.talos.is_none() {
        return Outcome::Skip("--no-talos: nothing to compare with".to_owned());
    }
    let expected = "a Talos node among the Kubernetes nodes, by machine id or by name and address";
    match likeness(snapshot) {
        Err(outcome) => outcome,
        Ok(Likeness::Same) if is_behind_proxy(snapshot, kubernetes) => Outcome::Problem(Problem::warn(
            Reason::EndpointBehindProxy,
            "API servers with certificates of the kubeconfig's CA",
            "only the endpoint's certificate is signed by it",
        )),
        Ok(Likeness::Same) => Outcome::Pass(None),
        Ok(Likeness::Undecided(why)) => Outcome::Problem(Problem::error(Reason::NoAnswer, expected, why)),
        Ok(Likeness::Different(observed)) => {
            let problem = Problem::fail(Reason::WrongCluster, expected, observed)
                .hint(Hint::likely("one of the contexts is another cluster's: compare --context and --kube-context"));
            // Without discovery Talos tells of some nodes only, and those may not have registered yet.
            Outcome::Problem(if discovery_is_on(snapshot) { problem.permanent() } else { problem })
        }
    }
}

enum Likeness {
    Same,
    Different(String),
    Undecided(String),
}

fn likeness(snapshot: &Snapshot) -> Result<Likeness, Outcome> {
    let objects = answer(snapshot, |kubernetes| &kubernetes.nodes, "the list of nodes")?;
    if objects.is_empty() {
        return Ok(Likeness::Undecided("Kubernetes lists no node".to_owned()));
    }
    let mut obstacle = None;
    let mut seen: Vec<&Node> = Vec::new();
    for node in snapshot.nodes.iter().filter(|node| node.is_talos) {
        match super::kube_common::talos_path(snapshot, node) {
            None if node.talos.contact.is_ok() => seen.push(node),
            by => obstacle = obstacle.or(by),
        }
    }
    if seen.is_empty() {
        return Err(match obstacle.or_else(|| talos_closed(snapshot)) {
            Some(by) => Outcome::Blocked(by),
            None => Outcome::Problem(Problem::error(
                Reason::NoAnswer,
                "a Talos node that answers",
                "no Talos node is known",
            )),
        });
    }
    let same_name = |node: &&&Node| objects.iter().any(|object| object.name == node.name);
    if seen.iter().any(|node| {
        objects
            .iter()
            .any(|object| is_machine(node, object) || (object.name == node.name && told_alike(snapshot, node, object)))
    }) {
        return Ok(Likeness::Same);
    }
    let names = |names: &mut dyn Iterator<Item = &str>| names.take(5).collect::<Vec<_>>().join(", ");
    let alike = names(&mut seen.iter().filter(same_name).map(|node| node.name.as_str()));
    // Nodes that no longer answer can be the common ones, and etcd may know the addresses that Kubernetes uses.
    let both = |node: &Node| node.sources.discovery && node.sources.kubernetes;
    if snapshot.nodes.iter().any(|node| both(node) && node.talos.contact.is_err()) && alike.is_empty() {
        return Ok(Likeness::Undecided("the nodes that both name do not answer the Talos API".to_owned()));
    }
    // An external cloud provider writes the addresses of a Node some time after its kubelet has registered it.
    let is_bare = |object: &&KubeNode| object.addresses.is_empty() && seen.iter().any(|node| node.name == object.name);
    if objects.iter().any(|object| is_bare(&object)) {
        return Ok(Likeness::Undecided(format!("the names are the same ({alike}), and Kubernetes tells no address")));
    }
    if !alike.is_empty() && snapshot.nodes.iter().all(|node| node.talos.etcd_members.is_err()) {
        let why = format!("the names are the same ({alike}), the addresses differ, and etcd tells none");
        return Ok(Likeness::Undecided(why));
    }
    Ok(Likeness::Different(format!(
        "Talos: {}; Kubernetes: {}{}",
        names(&mut seen.iter().map(|node| node.name.as_str())),
        names(&mut objects.iter().map(|object| object.name.as_str())),
        if alike.is_empty() { "" } else { " (the same names at other addresses)" },
    )))
}

/// An address of the Node object is one that Talos tells of this machine. `Node::addresses` will not do: it holds what
/// Kubernetes says as well, under the same name.
fn told_alike(snapshot: &Snapshot, node: &Node, object: &KubeNode) -> bool {
    let contact = node.talos.contact.iter().map(|contact| contact.address.as_str());
    let endpoints = snapshot.talos.iter().flat_map(|talos| &talos.endpoints);
    let own = endpoints.filter(|endpoint| matches!(&endpoint.nodename, Ok(Some(name)) if *name == node.name));
    let id = node.talos.etcd_member_id.as_ref().ok().copied().flatten();
    let members = snapshot.nodes.iter().flat_map(|any| &any.talos.etcd_members).flatten();
    let members = members.filter(|member| Some(member.id) == id);
    let urls = members.flat_map(|member| member.peer_urls.iter().chain(&member.client_urls));
    let told = contact.chain(own.map(|endpoint| host(&endpoint.address))).chain(urls.map(|url| host(url)));
    told.into_iter().any(|address| object.addresses.iter().any(|other| other == address))
}
