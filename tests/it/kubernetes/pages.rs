//! Lists with several pages.

use serde_json::{Value, json};
use simulator::world::{CallFault, Misbehavior};

use super::{LEASES, NODES, answers, round};
use crate::cluster::{Cluster, cluster};

fn is_of_a_daemon_set(pod: &Value, node: &str) -> bool {
    pod["spec"]["nodeName"] == node && pod["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet"
}

/// Adds copies of a worker, each with its own lease and pods, until there are as many nodes as wanted.
fn with_nodes(cluster: &Cluster, wanted: usize) {
    cluster.change(|world| {
        let copy = |object: &Value, name: &str| {
            let mut object = object.clone();
            object["metadata"]["name"] = name.into();
            object
        };
        let kubernetes = &mut world.kubernetes;
        let node = kubernetes.object("nodes", None, "worker-1").unwrap().clone();
        let lease = kubernetes.object(LEASES, Some("kube-node-lease"), "worker-1").unwrap().clone();
        let pods: Vec<_> =
            kubernetes.objects["pods"].iter().filter(|pod| is_of_a_daemon_set(pod, "worker-1")).cloned().collect();
        for number in kubernetes.objects["nodes"].len()..wanted {
            let name = format!("copy-{number:04}");
            let mut node = copy(&node, &name);
            // Images and fields are the largest part of a node, and take the most time.
            node["status"]["images"] = json!([]);
            node["metadata"]["managedFields"] = json!([]);
            // flannel on each node has a separate address.
            node["metadata"]["annotations"] = json!({});
            node["status"]["addresses"] =
                json!([{"type": "InternalIP", "address": format!("127.90.{}.{}", number >> 8, number & 255)}]);
            node["spec"]["podCIDRs"] = json!([format!("fd00:{number:x}::/64")]);
            kubernetes.objects.get_mut("nodes").unwrap().push(node);
            kubernetes.objects.get_mut(LEASES).unwrap().push(copy(&lease, &name));
            for pod in &pods {
                let mut pod =
                    copy(pod, &format!("{}-{number}", pod["metadata"]["labels"]["k8s-app"].as_str().unwrap()));
                pod["spec"]["nodeName"] = name.as_str().into();
                kubernetes.objects.get_mut("pods").unwrap().push(pod);
            }
        }
        for set in kubernetes.objects.get_mut("daemonsets.apps").unwrap() {
            for number in ["desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable"] {
                set["status"][number] = wanted.into();
            }
            set["status"]["updatedNumberScheduled"] = wanted.into();
        }
    });
}

fn unready(name: &str) -> impl FnOnce(&mut simulator::world::World) {
    let condition = json!({"type": "Ready", "status": "False", "reason": "KubeletNotReady"});
    move |world| world.kubernetes.set_condition("nodes", None, name, &condition)
}

#[test]
fn a_long_list_is_read_to_its_end() {
    let cluster = cluster();
    with_nodes(&cluster, 1200);
    // The simulator is slow on a busy machine.
    let run = || cluster.run(&["--no-talos", "--attempt-timeout", "60s"]);
    let judged = run();
    judged.is(0, &[]);
    assert_eq!(judged.check("k8s.nodes.ready")["targets"].as_array().unwrap().len(), 1200);
    cluster.change(unready("copy-1199"));
    run().is(1, &[("k8s.nodes.ready", "node-not-ready", "copy-1199")]);
}

/// A cluster that returns pages with a single node, as a server may do regardless of the requested limit.
fn small_pages() -> Cluster {
    let cluster = cluster();
    cluster.change(|world| world.kubernetes.page = Some(1));
    cluster
}

#[test]
fn pages_may_be_as_short_as_a_server_likes() {
    let cluster = small_pages();
    cluster.run(&[]).is(0, &[]);
    cluster.change(unready("cp-3"));
    cluster.run(&[]).is(1, &[("k8s.nodes.ready", "node-not-ready", "cp-3")]);
}

/// Makes a page after the first one fail with this error, `times` times.
fn expires(cluster: &Cluster, times: usize) {
    let gone = Misbehavior::Fail { code: 410, text: "The provided continue parameter is too old".to_owned() };
    let once = CallFault { after: 2, times: Some(1), ..CallFault::all(NODES, gone) };
    cluster.change(|world| world.call_faults = vec![once; times]);
}

#[test]
fn a_list_that_expires_is_read_anew_once() {
    let cluster = small_pages();
    expires(&cluster, 1);
    cluster.run(&["--no-talos"]).is(0, &[]);
    expires(&cluster, 2);
    let judged = cluster.run(&["--no-talos"]);
    assert_eq!((judged.outcome.code, judged.of("k8s.nodes.ready")), (69, vec![("no-answer", "cluster")]), "{judged}");
}

#[test]
fn a_page_that_fails_makes_no_shorter_list() {
    for (does, code, reason) in [
        (Misbehavior::Hang, 69, "timed-out"),
        (Misbehavior::Fail { code: 500, text: "no".to_owned() }, 69, "no-answer"),
        (Misbehavior::Fail { code: 403, text: "no".to_owned() }, 77, "forbidden-or-starting"),
        (Misbehavior::Cut, 69, "api-unreachable"),
        (Misbehavior::Garbage, 69, "unreadable-answer"),
    ] {
        let cluster = small_pages();
        let last = CallFault { after: 3, ..CallFault::all(NODES, does) };
        cluster.change(|world| world.call_faults = vec![last]);
        let judged = round(&cluster, &["--no-talos"]);
        assert_eq!((judged.outcome.code, judged.of("k8s.nodes.ready")), (code, vec![(reason, "cluster")]), "{judged}");
    }
}

/// Builds a list of nodes as the API server would write it, with these nodes and a token for further ones.
fn page(cluster: &Cluster, names: &[&str], more: &str) -> Misbehavior {
    let nodes = cluster.change(|world| {
        let node = |name: &&str| world.kubernetes.object("nodes", None, name).unwrap().clone();
        names.iter().map(node).collect::<Vec<_>>()
    });
    let list = json!({
        "kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1", "continue": more}, "items": nodes,
    });
    Misbehavior::Body(list.to_string())
}

#[test]
fn a_list_without_end_is_no_list() {
    for names in [&[][..], &["cp-1", "cp-2", "cp-3", "worker-1"]] {
        let cluster = cluster();
        let endless = page(&cluster, names, "more");
        answers(&cluster, NODES, endless);
        let judged = cluster.run(&["--no-talos"]);
        let said = judged.of("k8s.nodes.ready");
        assert_eq!(judged.outcome.code, 69, "{judged}");
        assert!(matches!(said[..], [("answer-too-large" | "unreadable-answer", "cluster")]), "{judged}");
    }
}

/// An intermediate cache that repeats a page hides the contents of the next one.
#[test]
fn a_page_that_comes_twice_is_no_next_page() {
    let cluster = cluster();
    let (first, again) = (page(&cluster, &["cp-1", "cp-2"], "more"), page(&cluster, &["cp-1", "cp-2"], ""));
    let first = CallFault { times: Some(1), ..CallFault::all(NODES, first) };
    cluster.change(|world| world.call_faults = vec![first, CallFault::all(NODES, again)]);
    let judged = cluster.run(&["--no-talos"]);
    assert_eq!(
        (judged.outcome.code, judged.of("k8s.nodes.ready")),
        (69, vec![("unreadable-answer", "cluster")]),
        "{judged}"
    );
}
