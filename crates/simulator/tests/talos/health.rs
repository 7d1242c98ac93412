//! The cluster's own health check.

use serde_json::json;
use simulator::Simulator;
use simulator::world::{Process, Role, TalosVersion, World};
use talos_api::cluster::cluster_service_client::ClusterServiceClient;
use talos_api::cluster::{ClusterInfo, HealthCheckRequest};
use talos_api::google::protobuf::Duration;
use talos_api::machine::{ServiceEvent, ServiceEvents, ServiceHealth, ServiceInfo};
use tonic::Code;

use crate::client::{cluster, connect, failed, to};

/// Makes everything healthy that the checks query.
fn well(world: &mut World) {
    let of: Vec<_> =
        world.machines.iter().map(|(at, machine)| (at.to_string(), machine.name.clone(), machine.role)).collect();
    for machine in world.machines.values_mut() {
        let event = ServiceEvent { msg: "Health check successful".into(), state: "Running".into(), ts: None };
        let service = |id: &str| ServiceInfo {
            id: id.to_owned(),
            state: "Running".to_owned(),
            events: Some(ServiceEvents { events: vec![event.clone()] }),
            health: Some(ServiceHealth { healthy: true, ..ServiceHealth::default() }),
        };
        machine.services = vec![service("etcd"), service("kubelet")];
        machine.resources.clear("Members.cluster.talos.dev");
        for (address, name, role) in &of {
            let machine_type = if *role == Role::ControlPlane { "controlplane" } else { "worker" };
            let member = json!({"addresses": [address], "machineType": machine_type});
            machine.resources.put("Members.cluster.talos.dev", name, member);
        }
        machine.resources.put("MachineStatuses.runtime.talos.dev", "machine", json!({"stage": "running"}));
        for pod in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
            let id = format!("kube-system/{pod}-{}", machine.name);
            machine.resources.put("StaticPodStatuses.kubernetes.talos.dev", &id, json!({}));
        }
    }
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let nodes = of.iter().map(|(address, name, role)| {
        let labels =
            if *role == Role::ControlPlane { json!({"node-role.kubernetes.io/control-plane": ""}) } else { json!({}) };
        let addresses = json!([{"type": "InternalIP", "address": address}]);
        json!({"metadata": {"name": name, "labels": labels}, "status": {"conditions": ready, "addresses": addresses}})
    });
    let nodes = nodes.collect();
    let pods = of.iter().filter(|(.., role)| *role == Role::ControlPlane).flat_map(|(_, name, _)| {
        ["kube-apiserver", "kube-scheduler", "kube-controller-manager"].map(|app| {
            let metadata =
                json!({"name": format!("{app}-{name}"), "namespace": "kube-system", "labels": {"k8s-app": app}});
            json!({"metadata": metadata, "status": {"conditions": ready}})
        })
    });
    let pods = pods.collect();
    world.kubernetes.objects = [("nodes".to_owned(), nodes), ("pods".to_owned(), pods)].into();
}

/// Returns the lines, and the code with which the check ended.
async fn check(simulator: &Simulator, endpoint: &str, roles: &[&str], milliseconds: i32) -> (Vec<String>, Code) {
    let mut client = ClusterServiceClient::new(connect(simulator, endpoint, roles).await);
    let timeout = Duration { seconds: i64::from(milliseconds / 1000), nanos: milliseconds % 1000 * 1_000_000 };
    let request = HealthCheckRequest { wait_timeout: Some(timeout), cluster_info: None };
    let mut stream = client.health_check(request).await.unwrap().into_inner();
    let mut lines = Vec::new();
    loop {
        match stream.message().await {
            Ok(Some(progress)) => lines.push(progress.message),
            Ok(None) => return (lines, Code::Ok),
            Err(status) => return (lines, status.code()),
        }
    }
}

#[tokio::test]
async fn all_checks_are_told_in_their_order() {
    let simulator = cluster(well);
    let (lines, code) = check(&simulator, "cp-1", &["os:admin"], 20_000).await;
    assert_eq!(code, Code::Ok, "{lines:#?}");
    let addresses: Vec<_> = (0..4).map(|index| format!("\"{}\"", simulator.network().machine(index))).collect();
    assert_eq!(lines[0], format!("discovered nodes: [{}]", addresses.join(" ")));
    assert_eq!(lines[1..3], ["waiting for etcd to be healthy: ...", "waiting for etcd to be healthy: OK"]);
    assert_eq!(lines.len(), 1 + 2 * 16);
    assert_eq!(lines[28], "waiting for kube-proxy to report ready: SKIP");
    assert_eq!(lines[32], "waiting for all k8s nodes to report schedulable: OK");
}

#[tokio::test]
async fn the_last_line_says_what_it_waited_for() {
    let simulator = cluster(|world| {
        well(world);
        let etcd = &mut world.machine_mut("cp-2").services[0];
        etcd.events.as_mut().unwrap().events.push(ServiceEvent {
            msg: "Running pre state".into(),
            state: "Preparing".into(),
            ts: None,
        });
        world.machine_mut("cp-3").process = Process::Stopped;
    });
    let last = |lines: Vec<String>| lines.last().unwrap().clone();
    let (lines, code) = check(&simulator, "cp-1", &["os:admin"], 300).await;
    assert_eq!(code, Code::DeadlineExceeded);
    let at = simulator.network().machine(2);
    let refused = format!(
        "1 error occurred:\n\t* {at}: rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while \
         dialing: dial tcp {at}:50000: connect: connection refused\""
    );
    assert_eq!(last(lines), format!("waiting for etcd to be healthy: {refused}"));

    simulator.change(|world| world.machine_mut("cp-3").process = Process::Running);
    let (lines, _) = check(&simulator, "cp-1", &["os:admin"], 300).await;
    let at = simulator.network().machine(1);
    let preparing = "service \"etcd\" not in expected state \"Running\": current state [Preparing] Running pre state";
    assert_eq!(last(lines), format!("waiting for etcd to be healthy: 1 error occurred:\n\t* {at}: {preparing}"));

    simulator.change(|world| world.machine_mut("cp-3").process = Process::Frozen);
    let (lines, code) = check(&simulator, "cp-1", &["os:admin"], 300).await;
    assert_eq!(code, Code::DeadlineExceeded);
    let silent = "rpc error: code = DeadlineExceeded desc = context deadline exceeded";
    assert_eq!(last(lines), format!("waiting for etcd to be healthy: {silent}"));
}

#[tokio::test]
async fn only_administrators_get_a_result() {
    let simulator = cluster(well);
    let refused =
        |label: &str| format!("waiting for {label}: rpc error: code = PermissionDenied desc = not authorized");
    let (lines, code) = check(&simulator, "cp-1", &["os:reader"], 300).await;
    assert_eq!((lines.last().unwrap(), code), (&refused("all k8s nodes to report"), Code::DeadlineExceeded));
    simulator.change(|world| world.versions.talos = TalosVersion::new(14, 0));
    let (lines, code) = check(&simulator, "cp-1", &["os:reader"], 300).await;
    assert_eq!((lines.last().unwrap(), code), (&refused("etcd to be healthy"), Code::DeadlineExceeded));
}

#[tokio::test]
async fn without_time_and_on_workers_there_is_none() {
    let simulator = cluster(well);
    let (lines, code) = check(&simulator, "cp-1", &["os:admin"], 0).await;
    assert_eq!((lines.len(), code), (1, Code::DeadlineExceeded));

    let mut client = ClusterServiceClient::new(connect(&simulator, "cp-1", &["os:admin"]).await);
    let refused = "cluster health check is only available on control plane nodes";
    let answer = client.health_check(to(HealthCheckRequest::default(), &[("node", "worker-1")])).await;
    assert_eq!(failed(answer), (Code::Unimplemented, refused.to_owned()));

    let control_plane_nodes = vec!["cp-1".to_owned()];
    let cluster_info = Some(ClusterInfo { control_plane_nodes, ..ClusterInfo::default() });
    let answer = client.health_check(HealthCheckRequest { wait_timeout: None, cluster_info }).await;
    assert_eq!(failed(answer).0, Code::Unknown);

    // Calls with `nodes` report failures as messages.
    let mut stream =
        client.health_check(to(HealthCheckRequest::default(), &[("nodes", "worker-1")])).await.unwrap().into_inner();
    let metadata = stream.message().await.unwrap().unwrap().metadata.unwrap();
    assert_eq!((metadata.hostname.as_str(), metadata.status.unwrap().message.as_str()), ("worker-1", refused));
    assert_eq!(stream.message().await.unwrap(), None);
}
