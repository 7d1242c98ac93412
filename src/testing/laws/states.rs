//! The verdict of every check on a machine in every combination of standing and life, and on an endpoint for every reason not to serve, as
//! a golden table. A cell that differs from its neighbors is either a hole or has a reason.
//!
//! Each cell is the worst verdict of a check in a whole run in which everything else is healthy.

use std::time::Duration;

use crate::checks::{ALL, Check};
use crate::model::{Stage, Status, Verdict};
use crate::snapshot::{
    Allowance, BoundPod, Condition, Gap, GapKind, KubeNode, Node, Pod, ServiceEndpoint, Snapshot, Sources, TalosNode,
    Upgrade,
};
use crate::testing::fixture::{Shape, ago, bound_pod, gap};
use crate::testing::laws::verdicts;

/// The machines that are put into states: a control plane and a worker.
const SUBJECTS: [&str; 2] = ["cp-3", "w-2"];

type State = (&'static str, fn(&mut Snapshot, &str));

/// Standings of a machine.
const STANDINGS: &[State] = &[
    ("judged", |_, _| {}),
    ("tolerated by --max-unready-workers 1", |snapshot, _| {
        snapshot.asked.max_unready_workers = Allowance::Count(1);
    }),
    ("a guest: another system", |snapshot, name| {
        let node = snapshot.node_mut(name);
        node.is_talos = false;
        node.talos = TalosNode::unasked(&Gap::not_asked()).into();
        named_by_kubernetes_alone(snapshot, name);
        objects(snapshot, name).for_each(|object| "Ubuntu 24.04".clone_into(&mut object.os_image));
    }),
    ("being removed", |snapshot, name| {
        let is_listed = objects(snapshot, name).map(|object| object.deleting = true).count() > 0;
        snapshot.node_mut(name).leaving = is_listed;
    }),
    ("outside of --nodes", |snapshot, name| snapshot.node_mut(name).out_of_scope = true),
    ("not among the stated nodes", |snapshot, name| {
        let stated: Vec<String> = snapshot.nodes.iter().map(|node| node.name.clone()).filter(|it| it != name).collect();
        let (control_planes, workers) = stated.into_iter().partition(|it| it.starts_with("cp-"));
        (snapshot.asked.control_plane_nodes, snapshot.asked.worker_nodes) = (control_planes, workers);
        for node in snapshot.nodes.iter_mut().filter(|node| node.name != name) {
            node.sources.flags = true;
        }
    }),
    ("known to discovery alone", |snapshot, name| {
        snapshot.node_mut(name).sources = Sources { discovery: true, ..Sources::default() };
        lose_object(snapshot, name);
        let id = snapshot.node_mut(name).talos.etcd_status.as_ref().ok().map(|status| status.member_id);
        for node in &mut snapshot.nodes {
            node.talos.etcd_members.iter_mut().for_each(|members| members.retain(|member| Some(member.id) != id));
        }
    }),
    ("known to Kubernetes alone", |snapshot, name| {
        named_by_kubernetes_alone(snapshot, name);
    }),
];

/// Returns its Node object, if it exists.
fn objects<'a>(snapshot: &'a mut Snapshot, name: &'a str) -> impl Iterator<Item = &'a mut KubeNode> {
    snapshot.kube().nodes.iter_mut().flatten().filter(move |object| object.name == name)
}

fn named_by_kubernetes_alone(snapshot: &mut Snapshot, name: &str) {
    let kubernetes = objects(snapshot, name).next().is_some();
    snapshot.node_mut(name).sources = Sources { kubernetes, ..Sources::default() };
}

/// States of a machine, as reported by its kubelet and its own Talos.
const LIVES: &[State] = &[
    ("works", |_, _| {}),
    ("kubelet not ready", |snapshot, name| kubelet_says(snapshot, name, "False")),
    ("kubelet silent", stale),
    ("unreachable", |snapshot, name| {
        kubelet_says(snapshot, name, "Unknown");
        stale(snapshot, name);
    }),
    ("Talos silent", talos_silent),
    ("powered off", |snapshot, name| {
        stale(snapshot, name);
        kubelet_says(snapshot, name, "Unknown");
        talos_silent(snapshot, name);
    }),
    ("Node removed", lose_object),
    ("removed, powered off", |snapshot, name| {
        lose_object(snapshot, name);
        talos_silent(snapshot, name);
    }),
    ("no leases", |snapshot, _| snapshot.kube().node_leases = gap(GapKind::Forbidden)),
    ("no nodes", |snapshot, _| snapshot.kube().nodes = gap(GapKind::Forbidden)),
];

fn kubelet_says(snapshot: &mut Snapshot, name: &str, status: &str) {
    for object in objects(snapshot, name) {
        let ready = |condition: &&mut Condition| condition.kind == "Ready";
        object.conditions.iter_mut().filter(ready).for_each(|ready| status.clone_into(&mut ready.status));
    }
    unready_pods(snapshot, name);
}

/// Marks the pods as the node controller does.
fn unready_pods(snapshot: &mut Snapshot, name: &str) {
    for pod in snapshot.kube().pods.iter_mut().flatten().filter(|pod| pod.node.as_deref() == Some(name)) {
        pod.state.ready = Some(false);
        pod.unready_for = Some(Duration::from_secs(60));
    }
    for set in snapshot.kube().daemon_sets.iter_mut().flatten() {
        set.available -= 1;
    }
}

fn stale(snapshot: &mut Snapshot, name: &str) {
    for lease in snapshot.kube().node_leases.iter_mut().filter_map(|leases| leases.by_name.get_mut(name)) {
        lease.renewed = Some(ago(120));
    }
}

fn talos_silent(snapshot: &mut Snapshot, name: &str) {
    let node = snapshot.node_mut(name);
    if node.is_talos || node.sources.discovery {
        let cause = Gap::new(GapKind::NodeUnreachable, "dial tcp: connect: no route to host");
        node.talos = TalosNode::unasked(&cause).into();
    }
}

/// Removes the Node. Its pods stay listed for a while.
fn lose_object(snapshot: &mut Snapshot, name: &str) {
    snapshot.kube().nodes.iter_mut().for_each(|nodes| nodes.retain(|object| object.name != name));
    snapshot.kube().node_leases.iter_mut().for_each(|leases| leases.by_name.retain(|it, _| it != name));
    snapshot.node_mut(name).sources.kubernetes = false;
}

/// Whether this machine alone serves cluster DNS and a webhook, or another one serves them too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Serves {
    Alone,
    BesideAnother,
}

/// A healthy cluster in which everything is about to be upgraded.
fn world(subject: &str, serves: Serves) -> Snapshot {
    let shape = Shape { workers: 3, ..Shape::default() };
    let mut snapshot = shape.world();
    snapshot.asked.upgrade =
        Upgrade { talos: Some("1.13.1".to_owned()), kubernetes: Some("1.35.5".to_owned()), ..Upgrade::default() };
    let kubernetes = snapshot.kube();
    let stays = usize::from(serves == Serves::BesideAnother);
    for endpoint in kubernetes.dns_endpoints.iter_mut().flatten().skip(stays) {
        endpoint.node = Some(subject.to_owned());
    }
    let dns = kubernetes.pods.iter_mut().flatten().filter(|pod| pod.name.starts_with("coredns-"));
    for pod in dns.skip(stays) {
        pod.node = Some(subject.to_owned());
    }
    for (name, node) in [("webhook-1", subject), ("webhook-2", "cp-1")].into_iter().take(1 + stays) {
        let mut pod = bound_pod("policy", "webhook", node, Some(("ReplicaSet", "webhook-6f7")));
        name.clone_into(&mut pod.name);
        kubernetes.bound_pods.as_mut().unwrap().push(pod);
        let endpoints = kubernetes.webhook_endpoints.get_mut(&webhook_of("policy")).unwrap().as_mut().unwrap();
        let mut endpoint = endpoints[0].clone();
        (endpoint.node, endpoint.pod) = (Some(node.to_owned()), Some(name.to_owned()));
        if name == "webhook-1" {
            endpoints[0] = endpoint;
        } else {
            endpoints.push(endpoint);
        }
    }
    snapshot
}

/// Returns the key of the webhook's endpoints.
fn webhook_of(namespace: &str) -> (String, String) {
    (namespace.to_owned(), "webhook".to_owned())
}

fn letter(status: Status) -> char {
    match status {
        Status::Pass => '.',
        Status::Skip => '-',
        Status::Warn => 'w',
        Status::Fail => 'F',
        Status::Blocked => 'b',
        Status::Error => '?',
    }
}

/// Formats one column per state, with a row for each check that has a result and one for all checks except those of upgrades.
fn rows(columns: &[(&str, Snapshot)]) -> Vec<String> {
    let judged: Vec<_> = columns.iter().map(|(_, snapshot)| verdicts(snapshot)).collect();
    let of_health = |it: &&(&'static Check, Verdict)| it.0.stage != Stage::Upgrade;
    let health = |verdicts: &Vec<(&'static Check, Verdict)>| {
        verdicts.iter().filter(of_health).map(|(_, verdict)| verdict.status()).max().unwrap()
    };
    let checks = ALL.iter().enumerate().map(|(at, check)| {
        (check.id.name(), judged.iter().map(|verdicts| verdicts[at].1.status()).collect::<Vec<_>>())
    });
    let all = std::iter::once(("(health)", judged.iter().map(health).collect())).chain(checks);
    let says_anything = |statuses: &[Status]| statuses.iter().any(|it| !matches!(it, Status::Pass | Status::Skip));
    let told = all.filter(|(name, statuses)| name.starts_with('(') || says_anything(statuses));
    let line = |(name, statuses): (&str, Vec<Status>)| {
        let letters: Vec<String> = statuses.into_iter().map(|status| letter(status).to_string()).collect();
        format!("{name:36}{}", letters.join(" "))
    };
    told.map(line).collect()
}

fn table(title: &str, names: impl Iterator<Item = &'static str>, rows: &[String]) -> String {
    let head = names.enumerate().map(|(at, name)| format!("{:36}{}{name}", "", "| ".repeat(at)));
    let lines: Vec<String> = std::iter::once(format!("== {title}")).chain(head).chain(rows.iter().cloned()).collect();
    lines.join("\n") + "\n\n"
}

#[test]
fn machines_in_every_state() {
    let mut text = String::new();
    for subject in SUBJECTS {
        for (standing, stand) in STANDINGS {
            let judged = |serves| {
                let column = |(life, live): &State| {
                    let mut snapshot = world(subject, serves);
                    live(&mut snapshot, subject);
                    stand(&mut snapshot, subject);
                    // A node that no source names is not part of the population.
                    let is_named = |node: &Node| node.sources != Sources::default();
                    snapshot.nodes.retain(|node| node.name != subject || is_named(node));
                    (*life, snapshot)
                };
                rows(&LIVES.iter().map(column).collect::<Vec<_>>())
            };
            let beside = judged(Serves::BesideAnother);
            let mut alone = judged(Serves::Alone);
            alone.retain(|row| !beside.contains(row));
            let names = || LIVES.iter().map(|(life, _)| *life);
            text += &table(&format!("{subject}, {standing}"), names(), &beside);
            text += &table(&format!("{subject}, {standing}, serves alone: what differs"), names(), &alone);
        }
    }
    insta::assert_snapshot!(text);
}

/// Reasons for which an endpoint may not serve: they affect the pods behind cluster DNS and behind a webhook in two namespaces.
const ENDPOINTS: &[State] = &[
    ("serves", |_, _| {}),
    ("not ready", |snapshot, _| each_endpoint(snapshot, |endpoint| endpoint.ready = false)),
    ("no port", |snapshot, _| each_endpoint(snapshot, |endpoint| endpoint.protocols = Some(Vec::new()))),
    ("another protocol", |snapshot, _| each_endpoint(snapshot, |it| it.protocols = Some(vec!["SCTP".to_owned()]))),
    ("pod gone", |snapshot, _| each_endpoint(snapshot, |endpoint| endpoint.pod = Some("gone-1".to_owned()))),
    ("pod not ready", |snapshot, _| {
        let unready = |pod: &mut Pod| {
            (pod.state.ready, pod.unready_for) = (Some(false), Some(Duration::from_secs(60)));
        };
        each_pod(snapshot, unready, |pod| pod.ready = false);
    }),
    ("pod being deleted, and stopped", |snapshot, _| {
        let stopped = |pod: &mut Pod| (pod.deleting, pod.state.ready) = (true, Some(false));
        each_pod(snapshot, stopped, |pod| (pod.deleting, pod.ready) = (true, false));
    }),
    ("pod with another address", |snapshot, _| {
        each_pod(snapshot, |pod| pod.addresses = vec!["10.244.77.77".to_owned()], |_| {});
    }),
    ("node silent", stale),
    ("node removed", |snapshot, name| {
        let object = snapshot.kube().nodes.iter_mut();
        object.for_each(|nodes| nodes.retain(|object| object.name != name));
    }),
    ("pods of kube-system unknown", |snapshot, _| snapshot.kube().pods = gap(GapKind::Forbidden)),
    ("pods of all namespaces unknown", |snapshot, _| snapshot.kube().bound_pods = gap(GapKind::Forbidden)),
    ("endpoints unknown", |snapshot, _| {
        snapshot.kube().dns_endpoints = gap(GapKind::Forbidden);
        snapshot.kube().webhook_endpoints.values_mut().for_each(|endpoints| *endpoints = gap(GapKind::Forbidden));
    }),
    ("leases unknown", |snapshot, _| snapshot.kube().node_leases = gap(GapKind::Forbidden)),
    ("nodes unknown", |snapshot, _| snapshot.kube().nodes = gap(GapKind::Forbidden)),
];

/// Changes the pods behind the endpoints, in both lists.
fn each_pod(snapshot: &mut Snapshot, change: impl Fn(&mut Pod), change_bound: impl Fn(&mut BoundPod)) {
    let is_it = |name: &str| name.starts_with("webhook-") || name.starts_with("coredns-");
    let kubernetes = snapshot.kube();
    kubernetes.pods.iter_mut().flatten().filter(|pod| is_it(&pod.name)).for_each(change);
    kubernetes.bound_pods.iter_mut().flatten().filter(|pod| is_it(&pod.name)).for_each(change_bound);
}

fn each_endpoint(snapshot: &mut Snapshot, change: impl Fn(&mut ServiceEndpoint)) {
    let kubernetes = snapshot.kube();
    kubernetes.dns_endpoints.iter_mut().flatten().for_each(&change);
    kubernetes.webhook_endpoints.values_mut().flat_map(|endpoints| endpoints.iter_mut().flatten()).for_each(change);
}

/// Resources that the webhook is called for.
const CONCERNS: &[(&str, &str)] = &[("pods", "fails closed on pods"), ("pods/eviction", "fails closed on evictions")];

#[test]
fn endpoints_in_every_state() {
    let mut text = String::new();
    for namespace in ["policy", "kube-system"] {
        for (resource, concern) in CONCERNS {
            let column = |(state, change): &State| {
                let mut snapshot = world("w-2", Serves::Alone);
                move_webhook(&mut snapshot, namespace, resource);
                change(&mut snapshot, "w-2");
                (*state, snapshot)
            };
            let rows = rows(&ENDPOINTS.iter().map(column).collect::<Vec<_>>());
            let names = ENDPOINTS.iter().map(|(state, _)| *state);
            text += &table(&format!("endpoints; a webhook of {namespace} {concern}"), names, &rows);
        }
    }
    insta::assert_snapshot!(text);
}

fn move_webhook(snapshot: &mut Snapshot, namespace: &str, resource: &str) {
    let kubernetes = snapshot.kube();
    let hook = &mut kubernetes.validating_webhooks.as_mut().unwrap()[0];
    hook.rules[0].resources = vec![resource.to_owned()];
    hook.service = Some(webhook_of(namespace));
    let endpoints = kubernetes.webhook_endpoints.remove(&webhook_of("policy")).unwrap();
    kubernetes.webhook_endpoints.insert(webhook_of(namespace), endpoints);
    for pod in kubernetes.bound_pods.iter_mut().flatten().filter(|pod| pod.name == "webhook-1") {
        namespace.clone_into(&mut pod.namespace);
    }
    if namespace == "kube-system" {
        let pods = kubernetes.pods.as_mut().unwrap();
        let mut pod = pods.iter().find(|pod| pod.name.starts_with("coredns-")).unwrap().clone();
        "webhook-1".clone_into(&mut pod.name);
        pod.labels.clear();
        pods.push(pod);
    }
}
