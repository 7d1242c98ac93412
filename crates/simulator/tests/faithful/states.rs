//! Simulation of the recorded states.

use serde_json::json;
use simulator::world::{AlarmKind, Server, Shape, Transport, World};
use simulator::{Network, Simulator};

use crate::ask::Client;
use crate::recording::Recording;

/// A simulated cluster in the state of a recording.
pub(crate) fn simulated(recording: &Recording) -> Client {
    let network = Network::claim().unwrap();
    let world = world(&network, recording);
    let simulator = Simulator::start(network, world).unwrap();
    let foreign = (recording.state.kube == "foreign").then(|| {
        let network = Network::claim().unwrap();
        let world = foreign(&network);
        Simulator::start(network, world).unwrap()
    });
    Client::new(simulator, foreign, &recording.state.talos, &recording.state.kube)
}

fn world(network: &Network, recording: &Recording) -> World {
    let mut shape = Shape::default();
    if let Some(talos) = recording.talos() {
        shape.versions.set_talos(talos);
    }
    let mut world = World::healthy(network, &shape);
    let state = &recording.state.name;
    match state.split_once("-talos-").map_or(state.as_str(), |(state, _)| state) {
        "healthy" | "healthy-admin" | "healthy-no-talos" | "worker-endpoint" | "other-cluster" => {}
        "not-bootstrapped-reader" | "not-bootstrapped-admin" => world.not_bootstrapped(),
        "etcd-nospace" => world.etcd_alarm("cp-1", AlarmKind::NoSpace),
        "etcd-corrupt" => world.etcd_alarm("cp-1", AlarmKind::Corrupt),
        "quorum-lost" => ["cp-2", "cp-3"].into_iter().for_each(|node| world.etcd_freeze(node)),
        "apiserver-frozen" => world.api_server_freeze("cp-3"),
        "scheduler-broken" => world.scheduler_broken("cp-3"),
        "node-down" => world.power_off("cp-3"),
        "node-unplugged" => world.unplug("cp-3"),
        "node-frozen" => world.freeze_machined("cp-3"),
        "worker-unplugged" => world.unplug("worker-1"),
        "worker-cordoned" => world.cordon("worker-1"),
        "kubelet-crash" => world.kubelet_crash("worker-1"),
        "apid-frozen" => {
            let (at, _) = world.machine("worker-1").unwrap();
            world.transport.insert(Server::Apid(at), Transport::Silent);
        }
        state => panic!("how is `{state}` brought about?"),
    }
    world
}

/// The world of a recording, with the roles of the recorder.
pub(crate) fn recorded(recording: &Recording) -> Client {
    let network = Network::claim().unwrap();
    let path = Recording::directory().join(format!("{}.json", recording.state.name));
    let world = World::from_recording(&network, &std::fs::read_to_string(path).unwrap()).unwrap();
    Client::new(Simulator::start(network, world).unwrap(), None, &recording.state.talos, &recording.state.kube)
}

/// Another cluster like that of the rig: an API server with two manually created nodes, and nothing else.
fn foreign(network: &Network) -> World {
    let mut world = World::healthy(network, &Shape { control_planes: 1, workers: 0, ..Shape::default() });
    let objects = &mut world.kubernetes.objects;
    let kept = ["endpointslices.discovery.k8s.io", "leases.coordination.k8s.io", "namespaces"];
    objects.retain(|kind, _| kept.contains(&kind.as_str()));
    for objects in objects.values_mut() {
        objects.retain(|object| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            ["kubernetes", "kube-system"].contains(&name) || name.starts_with("apiserver-")
        });
    }
    for name in ["other-1", "other-2"] {
        let ready = json!({
            "type": "Ready", "status": "True", "lastHeartbeatTime": null, "lastTransitionTime": null,
            "reason": "KubeletReady", "message": "kubelet is posting ready status",
        });
        let node = json!({
            "metadata": {"name": name, "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}\n"}},
            "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
            "status": {
                "conditions": [ready],
                "addresses": [{"type": "InternalIP", "address": "10.99.0.1"}, {"type": "Hostname", "address": name}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                "nodeInfo": {
                    "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
                    "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "", "operatingSystem": "",
                    "architecture": "",
                },
            },
        });
        world.kubernetes.put("nodes", node);
    }
    world
}
