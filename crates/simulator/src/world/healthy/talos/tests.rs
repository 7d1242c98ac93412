//! Compares healthy machines with the YAML of real ones.

use std::collections::BTreeSet;

use super::*;
use crate::Network;
use crate::world::{Shape, Versions};

fn world(version: &str) -> World {
    let versions = Versions { talos: version.parse().unwrap(), ..Shape::default().versions };
    World::healthy(&Network::claim().unwrap(), &Shape { versions, ..Shape::default() })
}

fn yaml(world: &World, machine: &str, kind: &str, id: &str) -> String {
    let (address, machine) = world.machine(machine).unwrap();
    let resource = machine.resources.get(kind, id).unwrap_or_else(|| panic!("no {kind} {id}"));
    // The real machines have other addresses.
    resource.encoded(kind, world.versions.talos).yaml_spec.replace(&address.to_string(), "10.55.0.2")
}

#[test]
fn machines_say_what_real_ones_say() {
    let world = world("1.13.0");
    let told = |kind, id| yaml(&world, "cp-1", kind, id);
    assert_eq!(
        told(kind::MACHINE_STATUSES, "machine"),
        "stage: running\nstatus:\n    ready: true\n    unmetConditions: []\n"
    );
    assert_eq!(told(kind::MACHINE_TYPES, "machine-type"), "controlplane\n");
    assert_eq!(
        told(kind::MEMBERS, "cp-1"),
        format!(
            "nodeId: {}\naddresses:\n    - 10.55.0.2\nhostname: cp-1\nmachineType: controlplane\noperatingSystem: Talos \
             (v1.13.0)\ncontrolPlane:\n    port: 6443\n",
            identity("cp-1", world.machine("cp-1").unwrap().0)
        )
    );
    assert_eq!(
        told(kind::NODENAMES, "nodename"),
        "nodename: cp-1\nhostnameVersion: \"1\"\nskipNodeRegistration: false\n"
    );
    assert_eq!(told(kind::CONFIG_STATUSES, "static-pods"), "ready: true\nversion: \"1111\"\n");
    assert_eq!(told(kind::ETCD_MEMBERS, "local"), format!("memberID: {:016x}\n", world.etcd[0].members[0].id));
    assert_eq!(
        told(kind::ETCD_SPECS, "etcd"),
        "name: cp-1\nadvertisedAddresses:\n    - 10.55.0.2\nlistenPeerAddresses:\n    - 0.0.0.0\nlistenClientAddresses:\n    \
         - 0.0.0.0\nimage: registry.k8s.io/etcd:v3.6.9\nextraArgs: {}\n"
    );
    assert_eq!(told(kind::SERVICES, "etcd"), "running: true\nhealthy: true\nunknown: false\n");
    assert_eq!(told(kind::VERSIONS, "version"), "name: Talos\nversion: v1.13.0\n");
    assert_eq!(told(kind::HOSTNAME_STATUSES, "hostname"), "hostname: cp-1\ndomainname: \"\"\n");
    assert_eq!(told(kind::NODE_ADDRESSES, "routed-no-k8s"), "addresses:\n    - 10.55.0.2/16\nsortAlgorithm: v1\n");
    assert_eq!(
        told(kind::VOLUME_STATUSES, "/var/lib"),
        "phase: ready\ntype: directory\nmountSpec:\n    targetPath: lib\n    selinuxLabel: \
         system_u:object_r:ephemeral_t:s0\n    projectQuotaSupport: false\n    parentId: EPHEMERAL\n    fileMode: 448\n"
    );
    let status = yaml(&world, "worker-1", kind::NODE_STATUSES, "worker-1");
    let beginning =
        "nodename: worker-1\nnodeReady: true\nunschedulable: false\nlabels:\n    beta.kubernetes.io/arch: amd64\n";
    assert!(status.starts_with(beginning), "{status}");
    assert!(status.ends_with("podCIDRs:\n    - 10.244.3.0/24\n"), "{status}");
}

#[test]
fn static_pods_are_told_as_the_kubelet_tells_them() {
    let world = world("1.13.0");
    let status = yaml(&world, "cp-1", kind::STATIC_POD_STATUSES, "kube-system/kube-scheduler-cp-1");
    let without_times: Vec<_> =
        status.lines().filter(|line| !line.contains("Time:") && !line.contains("sha256:")).collect();
    let expected =
        "conditions:\n    - lastProbeTime: null\n      status: \"True\"\n      type: PodReadyToStartContainers\n";
    assert!(status.contains("    - lastProbeTime: null\n      lastTransitionTime: \"20"), "{status}");
    assert!(without_times.join("\n").starts_with(&expected.replace("    - lastProbeTime: null\n", "")), "{status}");
    for part in [
        "containerStatuses:\n    - allocatedResources:\n        cpu: 10m\n        memory: 64Mi\n      containerID: containerd://",
        "      lastState: {}\n      name: kube-scheduler\n      ready: true\n      resources:\n        requests:\n            cpu: 10m\n",
        "      restartCount: 0\n      started: true\n      state:\n        running:\n            startedAt: \"",
        "      user:\n        linux:\n            gid: 65536\n            supplementalGroups:\n                - 65536\n",
        "hostIP: 10.55.0.2\nhostIPs:\n    - ip: 10.55.0.2\nphase: Running\npodIP: 10.55.0.2\n",
    ] {
        assert!(status.contains(part), "{part}\nis not in\n{status}");
    }
    let pod = yaml(&world, "cp-1", kind::STATIC_PODS, "kube-scheduler");
    assert!(pod.contains("    priority: 2e+09\n") && pod.ends_with("status: {}\n"), "{pod}");
}

#[test]
fn a_role_and_a_release_have_their_own() {
    let ids = |world: &World, machine: &str, kind: &str| -> Vec<String> {
        world.machine(machine).unwrap().1.resources.list(kind).map(|(id, _)| id.to_owned()).collect()
    };
    let services = |world: &World, machine: &str| -> Vec<String> {
        world.machine(machine).unwrap().1.services.iter().map(|service| service.id.clone()).collect()
    };
    let old = world("1.7.0");
    let new = world("1.14.0");
    assert_eq!(services(&new, "cp-1"), ["apid", "containerd", "cri", "etcd", "kubelet", "machined", "trustd"]);
    assert_eq!(services(&new, "worker-1"), ["apid", "containerd", "cri", "kubelet", "machined"]);
    assert_eq!(ids(&new, "worker-1", kind::SERVICES), services(&new, "worker-1"));
    assert_eq!(ids(&old, "cp-1", kind::SCHEDULER_CONFIGS), ["kube-scheduler"]);
    assert_eq!(ids(&new, "cp-1", kind::SCHEDULER_CONFIGS), ["final-kube-scheduler", "kube-scheduler"]);
    let control_planes_only = [
        kind::SCHEDULER_CONFIGS,
        kind::STATIC_PODS,
        kind::STATIC_POD_STATUSES,
        kind::ETCD_MEMBERS,
        kind::CONFIG_STATUSES,
    ];
    for kind in control_planes_only {
        assert!(ids(&new, "worker-1", kind).is_empty(), "{kind}");
    }
    for kind in [kind::VOLUME_STATUSES, kind::VERSIONS, kind::KUBELET_STATUSES] {
        assert!(ids(&old, "cp-1", kind).is_empty(), "{kind}");
        assert!(!ids(&new, "cp-1", kind).is_empty(), "{kind}");
    }
    assert_eq!(ids(&new, "worker-1", kind::MEMBERS), ["cp-1", "cp-2", "cp-3", "worker-1"]);
}

#[test]
fn a_thousand_machines_share_what_they_all_know() {
    let network = Network::claim().unwrap();
    let mut world = World::healthy(&network, &Shape { workers: 997, ..Shape::default() });
    let members = |world: &World, index| world.machines[&network.machine(index)].resources.of_kind(kind::MEMBERS);
    assert_eq!(members(&world, 0).len(), 1000);
    assert!(Arc::ptr_eq(&members(&world, 0), &members(&world, 999)));
    world.change_everywhere(kind::MEMBERS, |resources| resources.remove(kind::MEMBERS, "worker-5"));
    assert_eq!(members(&world, 999).len(), 999);
    assert!(Arc::ptr_eq(&members(&world, 0), &members(&world, 999)));

    let pods = |index: usize| {
        let machine = &world.machines[&network.machine(index)];
        let status = machine.resources.get(kind::NODE_STATUSES, &machine.name).unwrap();
        status.spec()["podCIDRs"][0].as_str().unwrap().to_owned()
    };
    assert_eq!((0..1000).map(pods).collect::<BTreeSet<_>>().len(), 1000);
    let ids: BTreeSet<_> = (0..1000).map(|number| node_id(&format!("worker-{number}"))).collect();
    assert_eq!(ids.len(), 1000);
}
