//! Troubles begin, overlap and end.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use talos_api::machine::ServiceHealth;

use crate::Network;
use crate::cosi::{Resource, kind};
use crate::timeline::{Change, from_text};
use crate::world::{AlarmKind, Machine, Process, Shape, World};

fn healthy() -> World {
    let shape = Shape { control_planes: 3, workers: 2, ..Shape::default() };
    World::healthy(&Network::claim().unwrap(), &shape)
}

/// Everything that does not change on its own: no times, versions and events, and lists without their order.
fn essence(mut world: World) -> (Vec<Value>, String, BTreeMap<String, Vec<Value>>) {
    let machine = |machine: &Machine| {
        let health = |health: &ServiceHealth| json!([health.unknown, health.healthy, health.last_message]);
        let services = machine.services.iter();
        let services: Vec<_> =
            services.map(|service| json!([service.id, service.state, service.health.as_ref().map(health)])).collect();
        let kinds = [
            kind::SERVICES,
            kind::MACHINE_STATUSES,
            kind::NODE_STATUSES,
            kind::STATIC_POD_STATUSES,
            kind::ETCD_MEMBERS,
            kind::MEMBERS,
        ];
        let specs = kinds.map(|kind| {
            machine.resources.list(kind).map(|(id, resource)| json!([id, resource.spec(), resource.owner])).collect()
        });
        let Machine { name, power, process, maintenance, api_server, .. } = machine;
        json!([name, format!("{power:?} {process:?} {maintenance} {api_server:?}"), services, specs.map(Value::Array)])
    };
    let machines = world.machines.values().map(machine).collect();
    let rest = format!("{:?} {:?} {:?}", world.etcd, world.states, world.kubernetes.stalled_leases.keys());
    for objects in world.kubernetes.objects.values_mut() {
        for object in &mut *objects {
            object["metadata"]["resourceVersion"] = Value::Null;
        }
        objects.sort_by_cached_key(|object| object["metadata"]["uid"].as_str().map(str::to_owned));
    }
    (machines, rest, world.kubernetes.objects)
}

/// Every trouble, with its machine.
const TROUBLES: &[(&str, &str)] = &[
    ("power-off", "worker-2"),
    ("power-off", "cp-1"),
    ("unplug", "cp-2"),
    ("freeze-machined", "cp-3"),
    ("rebooting", "cp-1"),
    ("rebooting", "worker-1"),
    ("maintenance", "cp-3"),
    ("kubelet-crash", "worker-1"),
    ("kubelet-crash", "cp-1"),
    ("etcd-stop", "cp-1"),
    ("etcd-stop", "cp-2"),
    ("etcd-freeze", "cp-3"),
    ("etcd-learner", "cp-3"),
    ("etcd-remove-member", "cp-2"),
    ("etcd-no-space", "cp-1"),
    ("etcd-corrupt", "cp-2"),
    ("not-bootstrapped", ""),
    ("bootstrapped-twice", ""),
    ("api-server-stop", "cp-1"),
    ("api-server-freeze", "cp-2"),
    ("scheduler-broken", "cp-1"),
    ("controller-manager-broken", "cp-1"),
    ("cordon", "worker-1"),
    ("cni-missing", ""),
    ("dns-scaled-to-zero", ""),
];

/// `key` is `do` or `end`.
fn change(key: &str, name: &str, node: &str) -> Change {
    let text = if node.is_empty() { json!({key: name}) } else { json!({key: name, "node": node}) };
    from_text(&text.to_string()).unwrap().remove(0).change
}

#[test]
fn every_trouble_shows_and_ends_where_it_began() {
    let mut world = healthy();
    let before = essence(world.clone());
    for (trouble, node) in TROUBLES {
        change("do", trouble, node).make(&mut world).unwrap();
        assert_ne!(essence(world.clone()), before, "{trouble} {node} shows");
        change("end", trouble, node).make(&mut world).unwrap();
        assert_eq!(essence(world.clone()), before, "{trouble} {node} has ended");
    }
}

#[test]
fn troubles_overlap_in_any_order() {
    let healthy = healthy();
    let before = essence(healthy.clone());
    for (first, node) in TROUBLES {
        for (second, other) in TROUBLES {
            let mut world = healthy.clone();
            let members =
                |name: &str| name.starts_with("etcd") || name.starts_with("boot") || name.starts_with("not-boot");
            // Troubles of the same member end together, or there is no such member.
            if (first, node) == (second, other) || members(first) && members(second) {
                continue;
            }
            // Each pair occurs twice: the first trouble ends first in one case, and the second in the other.
            let (begin, mut ends) =
                ([("do", first, node), ("do", second, other)], [("end", first, node), ("end", second, other)]);
            if first > second {
                ends.reverse();
            }
            for (key, name, node) in begin.into_iter().chain(ends) {
                change(key, name, node).make(&mut world).unwrap();
            }
            assert_eq!(essence(world), before, "{first} {node}, {second} {other}");
        }
    }
}

fn spec<'a>(world: &'a World, node: &str, kind: &str, id: &str) -> Option<&'a Value> {
    world.machine(node).unwrap().1.resources.get(kind, id).map(Resource::spec)
}

fn unmet(world: &World, node: &str) -> Vec<String> {
    let status = &spec(world, node, kind::MACHINE_STATUSES, "machine").unwrap()["status"];
    let unmet = status["unmetConditions"].as_array().unwrap().iter();
    unmet.map(|unmet| unmet["reason"].as_str().unwrap().to_owned()).collect()
}

/// Matches the recordings of a kubelet that crashes on a control plane.
#[test]
fn a_kubelet_that_crashes_takes_its_static_pods_from_sight() {
    let mut world = healthy();
    world.kubelet_crash("cp-2");
    let kubelet = world.machine_mut("cp-2").service_mut("kubelet").clone();
    assert_eq!(kubelet.state, "Waiting");
    assert_eq!(kubelet.health.unwrap().last_message, "service not running");
    assert!(kubelet.events.unwrap().events.last().unwrap().msg.contains("going to restart forever"));
    assert_eq!(spec(&world, "cp-2", kind::SERVICES, "kubelet"), None);
    assert_eq!(spec(&world, "cp-2", kind::STATIC_POD_STATUSES, "kube-system/kube-scheduler-cp-2"), None);
    assert!(spec(&world, "cp-1", kind::STATIC_POD_STATUSES, "kube-system/kube-scheduler-cp-1").is_some());
    assert_eq!(spec(&world, "cp-2", kind::NODE_STATUSES, "cp-2").unwrap()["nodeReady"], false);
    assert_eq!(unmet(&world, "cp-2"), ["kubelet not running", "node \"cp-2\" is not ready"]);
}

#[test]
fn a_scheduler_that_crashes_is_told_by_its_machine() {
    let mut world = healthy();
    world.scheduler_broken("cp-3");
    assert_eq!(unmet(&world, "cp-3"), ["kube-system/kube-scheduler-cp-3 not ready"]);
    let status = spec(&world, "cp-3", kind::STATIC_POD_STATUSES, "kube-system/kube-scheduler-cp-3").unwrap();
    assert_eq!(status["containerStatuses"][0]["state"]["waiting"]["reason"], "CrashLoopBackOff");
    let ready = status["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == "Ready").unwrap();
    assert_eq!(ready["reason"], "ContainersNotReady");
}

/// Matches the recordings of a cluster before the bootstrap.
#[test]
fn nothing_is_told_of_nodes_before_bootstrap() {
    let mut world = healthy();
    world.not_bootstrapped();
    assert_eq!(unmet(&world, "cp-1"), ["etcd not running", "node \"cp-1\" status is not available yet"]);
    assert_eq!(spec(&world, "cp-1", kind::MACHINE_STATUSES, "machine").unwrap()["stage"], "booting");
    assert_eq!(spec(&world, "worker-1", kind::MACHINE_STATUSES, "machine").unwrap()["stage"], "running");
    for kind in [kind::ETCD_MEMBERS, kind::NODE_STATUSES, kind::STATIC_POD_STATUSES] {
        assert_eq!(world.machine("cp-2").unwrap().1.resources.list(kind).count(), 0, "{kind}");
    }
    assert_eq!(world.machine("cp-1").unwrap().1.api_server.as_ref().unwrap().process, Process::Stopped);
    assert!(!world.can_write());
}

#[test]
fn quorum_follows_from_the_members() {
    let mut world = healthy();
    world.power_off("cp-2");
    assert!(world.can_write());
    world.unplug("cp-3");
    assert!(!world.can_write());
    let etcd = world.machine_mut("cp-1").service_mut("etcd").clone();
    assert_eq!(
        (etcd.state.as_str(), etcd.health.unwrap().last_message.as_str()),
        ("Running", "context deadline exceeded")
    );
    world.etcd_stop("cp-2");
    world.power_on("cp-2");
    assert!(!world.can_write(), "its etcd was stopped while it was off");
    world.etcd_start("cp-2");
    assert!(world.can_write());
}

#[test]
fn nothing_can_be_written_under_an_alarm() {
    let mut world = healthy();
    world.etcd_alarm("cp-2", AlarmKind::NoSpace);
    world.etcd_alarm("cp-2", AlarmKind::NoSpace);
    assert_eq!(world.etcd[0].alarms.len(), 1);
    let nodes = world.kubernetes.objects.get("nodes").cloned();
    world.kubelet_crash("worker-1");
    assert_eq!(world.kubernetes.objects.get("nodes").cloned(), nodes);
    // The machine itself reports the trouble.
    assert_eq!(unmet(&world, "worker-1"), ["kubelet not running"]);
}

fn object<'a>(world: &'a World, resource: &str, namespace: Option<&str>, name: &str) -> &'a Value {
    world.kubernetes.object(resource, namespace, name).unwrap_or_else(|| panic!("no {resource} {name}"))
}

/// Status and reason of a condition.
fn condition<'a>(object: &'a Value, kind: &str) -> (&'a str, Option<&'a str>) {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    let condition = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
    (condition["status"].as_str().unwrap(), condition["reason"].as_str())
}

fn pods_of<'a>(world: &'a World, node: &'a str) -> impl Iterator<Item = &'a Value> {
    world.kubernetes.objects["pods"].iter().filter(move |pod| pod["spec"]["nodeName"] == node)
}

fn ready_dns(world: &World) -> usize {
    let slices = world.kubernetes.objects["endpointslices.discovery.k8s.io"].iter();
    let dns = slices.filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "kube-dns");
    let endpoints = dns.flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true).count()
}

const SYSTEM: Option<&str> = Some("kube-system");

/// Matches the recordings of a machine without power.
#[test]
fn kubernetes_loses_sight_of_a_machine_without_power() {
    let mut world = healthy();
    let dns = ready_dns(&world);
    let node = world.kubernetes.objects["pods"].iter().find(|pod| pod["metadata"]["labels"]["k8s-app"] == "kube-dns");
    let node = node.unwrap()["spec"]["nodeName"].as_str().unwrap().to_owned();
    world.power_off(&node);
    let shown = object(&world, "nodes", None, &node);
    assert_eq!(condition(shown, "Ready"), ("Unknown", Some("NodeStatusUnknown")));
    assert_eq!(condition(shown, "NetworkUnavailable").0, "False");
    let taints = shown["spec"]["taints"].as_array().unwrap().iter();
    let effects: Vec<_> = taints.filter(|taint| taint["key"] == "node.kubernetes.io/unreachable").collect();
    assert_eq!(effects.len(), 2);
    for pod in pods_of(&world, &node) {
        assert_eq!(condition(pod, "Ready"), ("False", None));
        assert_eq!((condition(pod, "ContainersReady").0, &pod["status"]["phase"]), ("True", &json!("Running")));
    }
    let proxy = &object(&world, "daemonsets.apps", SYSTEM, "kube-proxy")["status"];
    assert_eq!((&proxy["numberReady"], &proxy["numberUnavailable"]), (&json!(4), &json!(1)));
    assert_eq!(ready_dns(&world), dns - 1);
    let stalled = world.kubernetes.stalled_leases[&format!("kube-node-lease/{node}")];
    assert!(world.now().duration_since(stalled).as_secs() >= 40, "Kubernetes has noticed");
}

#[test]
fn another_leads_when_the_leader_crashes_and_nobody_when_all_do() {
    let mut world = healthy();
    let holder = |world: &World| {
        let lease = object(world, "leases.coordination.k8s.io", SYSTEM, "kube-scheduler");
        lease["spec"]["holderIdentity"].as_str().unwrap().split('_').next().unwrap().to_owned()
    };
    let first = holder(&world);
    world.scheduler_broken(&first);
    let pod = object(&world, "pods", SYSTEM, &format!("kube-scheduler-{first}"));
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_ne!(holder(&world), first);
    assert!(world.kubernetes.stalled_leases.is_empty());
    for node in ["cp-1", "cp-2", "cp-3"] {
        world.scheduler_broken(node);
    }
    assert_eq!(world.kubernetes.stalled_leases.keys().collect::<Vec<_>>(), ["kube-system/kube-scheduler"]);
}

/// Matches the recordings of a cluster whose CNI cannot be pulled.
#[test]
fn without_a_cni_no_node_is_ready() {
    let mut world = healthy();
    world.cni_missing();
    for node in &world.kubernetes.objects["nodes"] {
        assert_eq!(condition(node, "Ready"), ("False", Some("KubeletNotReady")));
    }
    let pods = || world.kubernetes.objects["pods"].iter();
    let dns = pods().find(|pod| pod["metadata"]["labels"]["k8s-app"] == "kube-dns").unwrap();
    assert_eq!((&dns["status"]["phase"], &dns["spec"]["nodeName"]), (&json!("Pending"), &Value::Null));
    let pulling = pods()
        .filter(|pod| pod["status"]["initContainerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff");
    assert_eq!(pulling.count(), 5);
    let dns = object(&world, "deployments.apps", SYSTEM, "coredns");
    assert_eq!(condition(dns, "Available").0, "False");
    assert_eq!(spec(&world, "worker-1", kind::NODE_STATUSES, "worker-1").unwrap()["nodeReady"], false);
    assert_eq!(unmet(&world, "cp-1"), ["node \"cp-1\" is not ready"]);
}

#[test]
fn dns_can_be_scaled_to_nothing() {
    let mut world = healthy();
    world.dns_scaled_to_zero();
    let dns = object(&world, "deployments.apps", SYSTEM, "coredns");
    assert_eq!((&dns["spec"]["replicas"], &dns["status"]["readyReplicas"]), (&json!(0), &Value::Null));
    assert!(!world.kubernetes.objects["pods"].iter().any(|pod| pod["metadata"]["labels"]["k8s-app"] == "kube-dns"));
    assert_eq!(ready_dns(&world), 0);
}

#[test]
fn a_cordoned_node_is_ready_and_takes_no_pods() {
    let mut world = healthy();
    world.cordon("worker-1");
    let node = object(&world, "nodes", None, "worker-1");
    assert_eq!((condition(node, "Ready").0, &node["spec"]["unschedulable"]), ("True", &json!(true)));
    assert_eq!(spec(&world, "worker-1", kind::NODE_STATUSES, "worker-1").unwrap()["unschedulable"], true);
    assert!(unmet(&world, "worker-1").is_empty());
}
