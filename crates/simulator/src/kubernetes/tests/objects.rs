//! Contents and order of lists.

use std::pin::pin;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::{Http, kube_as, simulator, simulator_of};
use crate::world::{Shape, World};
use crate::{Network, Simulator};

#[tokio::test]
async fn a_client_library_reads_a_healthy_cluster() {
    let simulator = simulator();
    let client = kube_as(&simulator, "reader").await;
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    let names: Vec<_> = nodes.iter().map(Node::name_any).collect();
    assert_eq!(names, ["cp-1", "cp-2", "cp-3", "worker-1"]);
    for node in &nodes {
        let status = node.status.as_ref().unwrap();
        let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready").unwrap();
        assert_eq!(ready.status, "True");
        assert_eq!(status.node_info.as_ref().unwrap().os_image, "Talos (v1.13.0)");
        assert!(node.uid().is_some() && node.resource_version().is_some() && node.creation_timestamp().is_some());
    }
    let system = |client: &Client| client.clone();
    let pods = Api::<Pod>::namespaced(system(&client), "kube-system");
    let control = pods.list(&ListParams::default().labels("tier=control-plane,k8s-app!=kube-scheduler")).await.unwrap();
    assert_eq!(control.iter().count(), 6);
    assert!(control.iter().all(|pod| pod.annotations().contains_key("kubernetes.io/config.mirror")));
    let on_worker =
        pods.list(&ListParams::default().fields("spec.nodeName=worker-1,status.phase=Running")).await.unwrap();
    assert!(on_worker.iter().any(|pod| pod.name_any().starts_with("kube-proxy-")));
    let sets = Api::<DaemonSet>::namespaced(system(&client), "kube-system").list(&ListParams::default()).await.unwrap();
    assert!(sets.iter().all(|set| set.status.as_ref().unwrap().number_ready == 4));
    let dns = Api::<Deployment>::namespaced(system(&client), "kube-system").get("coredns").await.unwrap();
    assert_eq!(dns.status.unwrap().available_replicas, Some(2));
    let slices = ListParams::default().labels("kubernetes.io/service-name=kubernetes");
    let slices = Api::<EndpointSlice>::namespaced(system(&client), "default").list(&slices).await.unwrap();
    assert_eq!(slices.items[0].endpoints.len(), 3);
}

#[tokio::test]
async fn what_is_owned_has_its_owner() {
    let simulator = simulator();
    let client = kube_as(&simulator, "admin").await;
    let set = Api::<DaemonSet>::namespaced(client.clone(), "kube-system").get("kube-proxy").await.unwrap();
    let pods = Api::<Pod>::namespaced(client.clone(), "kube-system");
    let pods = pods.list(&ListParams::default().labels("k8s-app=kube-proxy")).await.unwrap();
    assert_eq!(pods.items.len(), 4);
    assert!(pods.iter().all(|pod| Some(&pod.owner_references()[0].uid) == set.uid().as_ref()));
    let services = Api::<Service>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    assert_eq!(services.iter().map(Service::name_any).collect::<Vec<_>>(), ["kubernetes", "kube-dns"]);
    let namespace = Api::<Namespace>::all(client).get("kube-system").await.unwrap();
    assert_eq!(namespace.status.unwrap().phase.as_deref(), Some("Active"));
}

#[tokio::test]
async fn leases_are_as_fresh_as_the_cluster_clock() {
    let simulator = simulator_of(|world| {
        world.clock_ahead = -7200;
        world.kubernetes.stalled_leases.insert("kube-node-lease/worker-1".to_owned(), world.now());
    });
    let client = kube_as(&simulator, "reader").await;
    let http = Http::reader(&simulator);
    let leases = Api::<Lease>::namespaced(client, "kube-node-lease").list(&ListParams::default()).await.unwrap();
    let date = http.get("/readyz").await.header("date").to_owned();
    let now = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).unwrap();
    assert_eq!(leases.items.len(), 4);
    for lease in leases {
        let renewed = lease.spec.unwrap().renew_time.unwrap().0;
        assert!((0..12).contains(&(now.as_second() - renewed.as_second())), "{renewed} {now}");
    }
}

#[tokio::test]
async fn lists_come_in_pages() {
    let simulator = simulator_of(|world| world.kubernetes.page = Some(3));
    let client = kube_as(&simulator, "reader").await;
    let pods = Api::<Pod>::namespaced(client, "kube-system");
    let mut names = Vec::new();
    let mut parameters = ListParams::default().limit(500);
    loop {
        let page = pods.list(&parameters).await.unwrap();
        assert!(page.items.len() <= 3);
        names.extend(page.iter().map(Pod::name_any));
        let Some(next) = page.metadata.continue_.filter(|next| !next.is_empty()) else { break };
        parameters = ListParams::default().limit(500).continue_token(&next);
    }
    assert_eq!(names.len(), 19);
    assert!(names.is_sorted());
}

#[tokio::test]
async fn a_page_of_a_list_that_has_changed_has_expired() {
    let simulator = simulator();
    let http = Http::admin(&simulator);
    let first = http.get("/api/v1/nodes?limit=1").await.json();
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    let next = |list: &serde_json::Value| {
        format!("/api/v1/nodes?limit=1&continue={}", list["metadata"]["continue"].as_str().unwrap())
    };
    // Changes of other resources do not matter.
    simulator.change(|world| world.kubernetes.remove("services", Some("kube-system"), "kube-dns"));
    let second = http.get(&next(&first)).await.json();
    assert_eq!(second["items"][0]["metadata"]["name"], "cp-2");
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    simulator.change(|world| world.kubernetes.remove("nodes", None, "worker-1"));
    let gone = http.get(&next(&second)).await;
    assert_eq!((gone.status, gone.json()["reason"].as_str()), (410, Some("Expired")));
    let message = "The provided continue parameter is too old to display a consistent list result.";
    assert!(gone.json()["message"].as_str().unwrap().starts_with(message));
    // The error contains a token that continues the list.
    let rest = http.get(&next(&gone.json())).await.json();
    assert_eq!(rest["items"][0]["metadata"]["name"], "cp-3");
    assert!(rest["metadata"].get("continue").is_none());
    // A real server created this token long ago.
    let old = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJjcC0xXHUwMDAwIn0";
    let old = http.get(&format!("/api/v1/nodes?continue={old}")).await;
    assert_eq!(old.status, 410);
    let resume = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiY3AtMVx1MDAwMCJ9";
    assert_eq!(old.json()["metadata"]["continue"], resume);
    assert_eq!(http.get("/api/v1/nodes?continue=abc").await.status, 400);
}

#[tokio::test]
async fn the_next_answer_tells_of_a_change() {
    let simulator = simulator();
    let client = kube_as(&simulator, "admin").await;
    let nodes = Api::<Node>::all(client);
    let before = nodes.get("worker-1").await.unwrap();
    let mut watch = pin!(nodes.watch(&WatchParams::default().timeout(30), "0").await.unwrap());
    for name in ["cp-1", "cp-2", "cp-3", "worker-1"] {
        match watch.next().await.unwrap().unwrap() {
            WatchEvent::Added(node) => assert_eq!(node.name_any(), name),
            other => panic!("{other:?}"),
        }
    }
    let condition = json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"});
    simulator.change(|world| world.kubernetes.set_condition("nodes", None, "worker-1", &condition));
    let after = nodes.get("worker-1").await.unwrap();
    assert_ne!(after.resource_version(), before.resource_version());
    match watch.next().await.unwrap().unwrap() {
        WatchEvent::Modified(node) => assert_eq!(node.resource_version(), after.resource_version()),
        other => panic!("{other:?}"),
    }
    simulator.change(|world| world.kubernetes.remove("nodes", None, "worker-1"));
    assert!(matches!(watch.next().await.unwrap().unwrap(), WatchEvent::Deleted(node) if node.name_any() == "worker-1"));
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 3);
}

#[tokio::test]
async fn a_thousand_nodes_are_listed_in_full() {
    let network = Network::claim().unwrap();
    let world = World::healthy(&network, &Shape { workers: 997, ..Shape::default() });
    let _ = crate::pki::provider().as_ref().clone().install_default();
    let simulator = Simulator::start(network, world).unwrap();
    let http = Http::reader(&simulator);
    let list = http.get("/api/v1/nodes").await;
    assert!(list.body.len() > 4_000_000, "{}", list.body.len());
    let list = list.json();
    let names = list["items"].as_array().unwrap().iter().map(|node| node["metadata"]["name"].as_str().unwrap());
    assert_eq!(names.clone().count(), 1000);
    assert!(names.is_sorted());
    let uids: std::collections::BTreeSet<_> =
        list["items"].as_array().unwrap().iter().map(|node| node["metadata"]["uid"].as_str().unwrap()).collect();
    assert_eq!(uids.len(), 1000);
}
