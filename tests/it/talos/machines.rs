//! Machines that answer but have a fault: versions, clocks, network, memory, disks, diagnostics.

use simulator::world::{Misbehavior, TalosVersion, World, kind};

use crate::cluster::{Cluster, cluster, release};

fn broken(change: impl FnOnce(&mut World)) -> Cluster {
    let cluster = cluster();
    cluster.change(change);
    cluster
}

/// Changes the specification of a resource of `worker-1`.
fn told(kind: &str, id: &str, change: impl FnOnce(&mut serde_json::Value)) -> Cluster {
    broken(|world| {
        world.machine_mut("worker-1").resources.edit(kind, id, change);
    })
}

/// A cluster during a rolling upgrade: `worker-1` runs this release, the others run 1.13.0.
fn upgraded(minor: u8, patch: u8) -> Cluster {
    broken(|world| world.machine_mut("worker-1").talos = Some(TalosVersion::new(minor, patch)))
}

#[test]
fn versions_in_the_middle_of_an_upgrade() {
    let mixed = |target| ("talos.versions", "versions-mixed", target);
    upgraded(13, 1).run(&[]).is(0, &[mixed("cluster")]);
    upgraded(12, 9).run(&[]).is(0, &[mixed("cluster")]);
    upgraded(12, 9).run(&["--strict"]).is(1, &[mixed("cluster")]);
    upgraded(11, 0).run(&[]).is(1, &[mixed("cluster")]);
}

#[test]
fn the_version_that_is_expected() {
    let unexpected = |target| ("talos.versions", "version-unexpected", target);
    cluster().run(&["--expect-talos", "v1.13.0"]).is(0, &[]);
    cluster().run(&["--expect-talos", "1.13.0"]).is(0, &[]);
    let all = ["cp-1", "cp-2", "cp-3", "worker-1"].map(unexpected);
    cluster().run(&["--expect-talos", "v1.13.1"]).is(1, &all);
    let left_behind = [unexpected("worker-1"), ("talos.versions", "versions-mixed", "cluster")];
    upgraded(12, 9).run(&["--expect-talos", "v1.13.0"]).is(1, &left_behind);
    let narrowed = upgraded(13, 1);
    let node = narrowed.address("worker-1").to_string();
    narrowed.run(&["-n", &node, "--expect-talos", "v1.13.1"]).is(0, &[]);
}

#[test]
fn a_clock_without_time_servers() {
    let cluster = broken(|world| world.time_not_synced("worker-1"));
    let expected =
        [("talos.time", "time-not-synced", "worker-1"), ("talos.nodes.ready", "condition-unmet", "worker-1")];
    let judged = cluster.run(&[]);
    judged.is(1, &expected);
    assert_eq!(judged.check("talos.nodes.ready")["problems"][0]["explainedBy"], "talos.time");
    cluster.change(|world| world.time_synced("worker-1"));
    cluster.run(&[]).is(0, &[]);
}

#[test]
fn a_clock_that_is_off() {
    for (offset, code) in [("1.2s", 0), ("-31s", 1)] {
        let cluster = told(kind::ADJTIME_STATUSES, "node", |spec| spec["offset"] = offset.into());
        cluster.run(&[]).is(code, &[("talos.time", "clock-skew", "worker-1")]);
    }
}

#[test]
fn a_clock_that_is_switched_off() {
    let cluster = told(kind::TIME_STATUSES, "node", |spec| spec["syncDisabled"] = true.into());
    cluster.run(&[]).is(0, &[]);
}

/// No call makes a machine query a time server.
#[test]
fn time_is_never_asked_for() {
    let cluster = cluster();
    cluster.run(&[]).is(0, &[]);
    assert_eq!(cluster.asked("worker-1", "Time"), 0);
    assert_eq!(cluster.asked("worker-1", "Get TimeStatuses"), 1);
}

#[test]
fn a_network_that_is_not_ready() {
    let cluster = told(kind::NETWORK_STATUSES, "status", |spec| spec["connectivityReady"] = false.into());
    cluster.run(&[]).is(1, &[("talos.nodes.network", "network-not-ready", "worker-1")]);
}

#[test]
fn a_machine_that_is_too_small() {
    let memory = broken(|world| world.machine_mut("worker-1").memory = (512 << 10, 256 << 10));
    memory.run(&[]).is(1, &[("talos.nodes.memory", "memory-too-small", "worker-1")]);
    let disk = told(kind::VOLUME_STATUSES, "EPHEMERAL", |spec| spec["size"] = (1_u64 << 30).into());
    disk.run(&[]).is(1, &[("talos.nodes.disk", "disk-too-small", "worker-1")]);
    let old = release("1.7.7").role("os:admin");
    old.change(|world| world.machine_mut("worker-1").set_var(4 << 30, 4 << 30));
    old.run(&[]).is(1, &[("talos.nodes.disk", "disk-too-small", "worker-1")]);
}

#[test]
fn a_disk_that_is_nearly_full() {
    let cluster = broken(|world| world.machine_mut("worker-1").set_var(18 << 30, 1 << 30));
    cluster.run(&[]).is(0, &[("talos.nodes.disk", "disk-nearly-full", "worker-1")]);
    // The error of a lost network file system.
    let text = "1 error occurred: input/output error".to_owned();
    cluster.fault("worker-1", "Mounts", Misbehavior::Fail { code: 2, text });
    cluster.run(&[]).is(0, &[]);
}

#[test]
fn a_volume_that_failed() {
    let cluster = told(kind::VOLUME_STATUSES, "STATE", |spec| {
        (spec["phase"], spec["errorMessage"]) = ("failed".into(), "no key opens it".into());
    });
    let judged = cluster.run(&[]);
    judged.is(1, &[("talos.nodes.disk", "volume-failed", "worker-1")]);
    assert_eq!(judged.check("talos.nodes.disk")["problems"][0]["observed"], "STATE: no key opens it");
}

#[test]
fn what_a_machine_has_diagnosed() {
    let cluster = broken(|world| {
        let now = world.now();
        let spec =
            serde_json::json!({"message": "kubelet server certificate rotation is enabled", "details": ["csr-1"]});
        let resource = simulator::world::Resource::new(spec, now);
        world.machine_mut("worker-1").resources.insert(kind::DIAGNOSTICS, "kubelet-csr", resource);
    });
    cluster.run(&[]).is(0, &[("talos.nodes.diagnostics", "diagnostic", "worker-1")]);
    cluster.run(&["--strict"]).is(1, &[("talos.nodes.diagnostics", "diagnostic", "worker-1")]);
}

/// Memory, clock and disks belong to the host.
#[test]
fn container_mode() {
    let cluster = broken(|world| {
        for machine in world.machines.values_mut() {
            machine.memory = (1024, 1024);
            machine.set_var(0, 0);
            let resources = &mut machine.resources;
            resources.edit(kind::PLATFORM_METADATAS, "platformmetadata", |spec| spec["platform"] = "container".into());
            resources.edit(kind::TIME_STATUSES, "node", |spec| spec["syncDisabled"] = true.into());
            resources.remove(kind::ADJTIME_STATUSES, "node");
        }
    });
    let judged = cluster.run(&[]);
    judged.is(0, &[]);
    for check in ["talos.time", "talos.nodes.memory", "talos.nodes.disk"] {
        assert_eq!(judged.status(check), "skip", "{check}: {judged}");
    }
}
