//! Versions, network, memory, disks, diagnostics.

use jiff::SignedDuration;

use crate::model::Role;
use crate::model::{Outcome, Status};
use crate::snapshot::{Diagnostic, GapKind, LinkAddress, Mount, NetworkStatus, Peer, Snapshot, Volume};
use crate::testing::fixture::{gap, healthy, mount, volume};
use crate::testing::judged::{judge, observed, status, wrong};

type Change = fn(&mut Snapshot);

const MIB: u64 = 1 << 20;

fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = healthy();
    change(&mut snapshot);
    snapshot
}

fn run(snapshot: &mut Snapshot, node: &str, tag: &str, mode: &str) {
    let contact = snapshot.talos_of(node).contact.as_mut().unwrap();
    (contact.version.tag, contact.version.mode) = (tag.to_owned(), mode.to_owned());
}

/// A cluster in which `w-1` runs this version and the others v1.13.0.
fn mixed(tag: &str) -> Snapshot {
    with(|snapshot| run(snapshot, "w-1", tag, "metal"))
}

fn skips(id: &str, snapshot: &Snapshot) -> Vec<String> {
    let skip = |outcome| match outcome {
        Outcome::Skip(why) => Some(why),
        _ => None,
    };
    judge(id, snapshot).findings.into_iter().filter_map(|finding| skip(finding.outcome)).collect()
}

#[test]
fn versions_may_differ_by_one_minor_during_an_upgrade() {
    for (tag, expected) in [
        ("v1.13.0", None),
        ("v1.13.1", Some("warn")),
        ("v1.13.0-beta.1", Some("warn")),
        ("v1.12.6", Some("warn")),
        ("v1.14.0", Some("warn")),
        ("v1.11.9", Some("fail")),
        ("v1.15.0", Some("fail")),
        ("v2.13.0", Some("fail")),
    ] {
        let expected = expected.map(|severity| format!("cluster: {severity} versions-mixed"));
        assert_eq!(wrong("talos.versions", &mixed(tag)), Vec::from_iter(expected), "{tag}");
    }
    assert_eq!(observed("talos.versions", &mixed("v1.9.0")), ["v1.9.0 on w-1; v1.13.0 on cp-1, cp-2, cp-3"]);
}

/// `--nodes w-1`: the others' versions are known from their Nodes.
#[test]
fn a_named_machine_is_compared_with_the_others() {
    let id = "talos.versions";
    let named = |tag: &str| {
        let mut snapshot = mixed(tag);
        for name in ["cp-1", "cp-2", "cp-3"] {
            snapshot.node_mut(name).out_of_scope = true;
            snapshot.kube_node_mut(name).os_image = "Talos (v1.13.0)".to_owned();
        }
        snapshot
    };
    for (tag, expected) in [("v1.13.1", None), ("v1.12.6", None), ("v1.11.9", Some("fail")), ("v1.15.0", Some("fail"))]
    {
        let expected = expected.map(|severity| format!("cluster: {severity} versions-mixed"));
        assert_eq!(wrong(id, &named(tag)), Vec::from_iter(expected), "{tag}");
    }
    let mut far = named("v1.11.9");
    assert_eq!(observed(id, &far), ["v1.11.9 on w-1; v1.13.0 on cp-1, cp-2, cp-3"]);
    // Nodes that do not run Talos, or that no longer work, are not compared.
    far.kube_node_mut("cp-1").os_image = "Ubuntu 24.04".to_owned();
    for name in ["cp-2", "cp-3"] {
        far.power_off(name);
    }
    assert_eq!(wrong(id, &far), [""; 0]);
    // The others differ from each other, but the named machine does not differ too much from any of them.
    let mut between = named("v1.13.0");
    between.kube_node_mut("cp-1").os_image = "Talos (v1.12.0)".to_owned();
    between.kube_node_mut("cp-2").os_image = "Talos (v1.14.0)".to_owned();
    assert_eq!(wrong(id, &between), [""; 0]);
}

#[test]
fn a_version_that_is_none_is_not_compared() {
    for tag in ["", "undefined", "v1.13", "v1.x.0"] {
        assert_eq!(wrong("talos.versions", &mixed(tag)), ["w-1: error unreadable-answer"], "{tag}");
    }
}

#[test]
fn another_version_than_the_expected_one_fails() {
    let expecting = |expected: &str, mut snapshot: Snapshot| {
        snapshot.asked.expect_talos = Some(expected.to_owned());
        wrong("talos.versions", &snapshot)
    };
    assert_eq!(expecting("1.13.0", healthy()), Vec::<String>::new());
    let behind = ["w-1: fail version-unexpected", "cluster: warn versions-mixed"];
    assert_eq!(expecting("1.13.0", mixed("v1.12.6")), behind);
    assert_eq!(expecting("1.13.0", mixed("v1.13.0-rc.0")), behind);
    assert_eq!(expecting("1.13.1", healthy()).len(), 4);
    let lost = with(|snapshot| snapshot.power_off("w-1"));
    assert_eq!(expecting("1.13.0", lost), ["w-1: blocked talos.nodes.reachable"]);
}

#[test]
fn nodes_outside_of_the_scope_are_not_compared() {
    let mut snapshot = mixed("v1.12.6");
    snapshot.node_mut("w-1").out_of_scope = true;
    assert_eq!(status("talos.versions", &snapshot), Status::Pass);
}

#[test]
fn each_part_of_the_network_is_needed() {
    let ready =
        NetworkStatus { address_ready: true, connectivity_ready: true, hostname_ready: true, etc_files_ready: true };
    for (status, part) in [
        (NetworkStatus { address_ready: false, ..ready }, "address"),
        (NetworkStatus { connectivity_ready: false, ..ready }, "connectivity"),
        (NetworkStatus { hostname_ready: false, ..ready }, "hostname"),
        (NetworkStatus { etc_files_ready: false, ..ready }, "etcFiles"),
        (NetworkStatus { address_ready: false, connectivity_ready: false, ..ready }, "address, connectivity"),
    ] {
        let snapshot = with(|snapshot| snapshot.talos_of("w-1").network_status = Ok(Some(status)));
        assert_eq!(wrong("talos.nodes.network", &snapshot), ["w-1: fail network-not-ready"]);
        assert_eq!(observed("talos.nodes.network", &snapshot), [format!("not ready: {part}")]);
    }
    let absent = with(|snapshot| snapshot.talos_of("w-1").network_status = Ok(None));
    assert_eq!(wrong("talos.nodes.network", &absent), ["w-1: error no-answer"]);
}

#[test]
fn memory_depends_on_role_and_release() {
    for (node, tag, least) in
        [("cp-1", "v1.13.0", 1698), ("cp-1", "v1.8.0", 1698), ("cp-1", "v1.7.7", 1898), ("w-1", "v1.5.0", 874)]
    {
        let of = |bytes| {
            let snapshot = with(|snapshot| {
                run(snapshot, node, tag, "metal");
                snapshot.talos_of(node).memory = Ok(bytes);
            });
            wrong("talos.nodes.memory", &snapshot)
        };
        assert_eq!(of(least * MIB), Vec::<String>::new(), "{node} {tag}");
        assert_eq!(of(least * MIB - 1), [format!("{node}: fail memory-too-small")], "{tag}");
        assert_eq!(of(0), [format!("{node}: error no-answer")], "{tag}");
    }
    let unknown = with(|snapshot| snapshot.node_mut("w-1").role = Role::Unknown);
    assert_eq!(wrong("talos.nodes.memory", &unknown), ["w-1: error no-answer"]);
}

#[test]
fn what_is_the_hosts_is_not_judged() {
    let mut snapshot = with(|snapshot| {
        run(snapshot, "w-1", "v1.13.0", "container");
        let talos = snapshot.talos_of("w-1");
        (talos.memory, talos.mounts) = (Ok(MIB), Ok(vec![mount("/var", 0)]));
        talos.volumes = Ok(vec![volume("EPHEMERAL", None)]);
    });
    for id in ["talos.nodes.memory", "talos.nodes.disk"] {
        assert_eq!((status(id, &snapshot), wrong(id, &snapshot)), (Status::Pass, Vec::new()), "{id}");
        assert_eq!(skips(id, &snapshot), ["container mode: memory and disks are the host's"]);
    }
    // The volumes belong to the machine, not to the host.
    "failed".clone_into(&mut snapshot.talos_of("w-1").volumes.as_mut().unwrap()[0].phase);
    assert_eq!(wrong("talos.nodes.disk", &snapshot), ["w-1: fail volume-failed"]);
}

fn with_disk(change: impl FnOnce(&mut Snapshot)) -> Vec<String> {
    wrong("talos.nodes.disk", &with(change))
}

#[test]
fn a_disk_has_to_be_large_enough() {
    let of = |size| with_disk(|snapshot| snapshot.talos_of("w-1").volumes = Ok(vec![volume("EPHEMERAL", Some(size))]));
    assert_eq!(of(4_123_000_832), Vec::<String>::new());
    assert_eq!(of(4_123_000_831), ["w-1: fail disk-too-small"]);
    let none = with_disk(|snapshot| snapshot.talos_of("w-1").volumes = Ok(vec![volume("STATE", Some(1 << 40))]));
    assert_eq!(none, ["w-1: error no-answer"]);
}

#[test]
fn before_volumes_the_mount_tells_the_size() {
    let of = |tag: &str, size| {
        with_disk(|snapshot| {
            run(snapshot, "w-1", tag, "metal");
            let talos = snapshot.talos_of("w-1");
            talos.volumes = gap(GapKind::Unsupported);
            talos.mounts.as_mut().unwrap()[1].size = size;
        })
    };
    assert_eq!(of("v1.7.7", 4744 * MIB), ["w-1: warn disk-nearly-full"; 0]);
    assert_eq!(of("v1.7.7", 4744 * MIB - 1), ["w-1: fail disk-too-small"]);
    assert_eq!(of("v1.8.0", 1 << 40), ["w-1: error not-supported-by-version, for ever"]);
}

#[test]
fn a_tenth_of_the_disk_has_to_be_free() {
    let of = |available| with_disk(|snapshot| snapshot.talos_of("w-1").mounts = Ok(vec![mount("/var", available)]));
    assert_eq!(of((18 << 30) / 10), Vec::<String>::new());
    assert_eq!(of((18 << 30) / 10 - 1), ["w-1: warn disk-nearly-full"]);
    assert_eq!(of(1), ["w-1: warn disk-nearly-full"]);
    assert_eq!(of(0), ["w-1: fail disk-full"]);
}

#[test]
fn each_partition_with_data_is_judged_by_its_own_space() {
    let of = |mounts: &[(&str, &str, u64)]| {
        let mount = |(path, device, available): &(&str, &str, u64)| Mount {
            device: (*device).to_owned(),
            ..mount(path, *available)
        };
        let mut all = vec![crate::testing::fixture::mount("/var", 1 << 40)];
        all.extend(mounts.iter().map(mount));
        with_disk(|snapshot| snapshot.talos_of("w-1").mounts = Ok(all))
    };
    for path in ["/var/lib/etcd", "/var/lib/containerd", "/var/lib/kubelet"] {
        assert_eq!(of(&[(path, "/dev/sdb1", 0)]), ["w-1: fail disk-full"], "{path}");
        assert_eq!(of(&[(path, "/dev/sdb1", 1)]), ["w-1: warn disk-nearly-full"], "{path}");
        assert_eq!(of(&[(path, "/dev/sdb1", 1 << 40)]), [""; 0], "{path}");
    }
    assert_eq!(of(&[("/var/log", "/dev/sdb1", 0)]), ["w-1: warn disk-full"]);
    // Directories of a partition that was judged, and a mount that is listed twice.
    let both = [("/var/lib/etcd", "/dev/sdb1", 0), ("/var/lib/kubelet", "/dev/sdb1", 0)];
    assert_eq!(of(&both), ["w-1: fail disk-full"]);
    assert_eq!(of(&[("/var/lib/etcd", "", 0), ("/var/lib/etcd", "/dev/sdb1", 0)]), ["w-1: fail disk-full"]);
    // Nothing shows that these are the same device.
    let untold = [("/var/lib/etcd", "", 0), ("/var/lib/kubelet", "", 0)];
    assert_eq!(of(&untold), ["w-1: fail disk-full", "w-1: fail disk-full"]);
}

#[test]
fn sizes_that_are_not_told_are_left_out() {
    let unknown: [(Change, &str); 4] = [
        (
            |snapshot| snapshot.talos_of("w-1").volumes = Ok(vec![volume("EPHEMERAL", None)]),
            "the size of EPHEMERAL is not reported; its phase is ready",
        ),
        (|snapshot| snapshot.talos_of("w-1").mounts = Ok(vec![]), "the size of /var is not reported"),
        (|snapshot| snapshot.talos_of("w-1").mounts.as_mut().unwrap()[1].size = 0, "the size of /var is not reported"),
        (
            |snapshot| snapshot.talos_of("w-1").mounts = gap(GapKind::ServerError),
            "its mounts are not reported: test: ServerError",
        ),
    ];
    for (lose, expected) in unknown {
        assert_eq!(skips("talos.nodes.disk", &with(lose)), [expected]);
        let left_out = judge("talos.nodes.disk", &with(lose)).left_out;
        assert_eq!(left_out, [format!("w-1 (10.0.0.4): {expected}")]);
    }
    let both = with_disk(|snapshot| {
        snapshot.talos_of("w-1").mounts = gap(GapKind::ServerError);
        snapshot.talos_of("w-1").volumes = Ok(vec![volume("EPHEMERAL", Some(MIB))]);
    });
    assert_eq!(both, ["w-1: fail disk-too-small"]);
}

#[test]
fn volumes_that_failed_are_named_one_by_one() {
    let phase = |phase: &str| {
        with(|snapshot| {
            let mut user = volume("u-data", None);
            (user.phase, user.error) = (phase.to_owned(), "no disks matched".to_owned());
            snapshot.talos_of("w-1").volumes.as_mut().unwrap().push(user);
        })
    };
    for fine in ["ready", "missing", "located", "provisioned", "prepared", "closed"] {
        assert_eq!(status("talos.nodes.disk", &phase(fine)), Status::Pass, "{fine}");
    }
    assert_eq!(wrong("talos.nodes.disk", &phase("waiting")), ["w-1: warn volume-failed"]);
    assert_eq!(wrong("talos.nodes.disk", &phase("failed")), ["w-1: fail volume-failed"]);
    assert_eq!(observed("talos.nodes.disk", &phase("failed")), ["u-data: no disks matched"]);
    let meta = with(|snapshot| {
        let volumes = snapshot.talos_of("w-1").volumes.as_mut().unwrap();
        volumes.push(Volume { phase: "waiting".to_owned(), ..volume("META", None) });
    });
    assert_eq!(status("talos.nodes.disk", &meta), Status::Pass, "it has no partition in container mode");
    let unsynced = with(|snapshot| {
        let volumes = snapshot.talos_of("w-1").volumes.as_mut().unwrap();
        volumes[0].failed_syncs = vec!["slot 1: the KMS does not answer".to_owned()];
    });
    assert_eq!(wrong("talos.nodes.disk", &unsynced), ["w-1: warn volume-failed"]);
    assert_eq!(wrong("talos.nodes.disk", &phase("exploded")), ["w-1: error unreadable-answer"]);
}

#[test]
fn diagnostics_are_told_with_their_details() {
    let diagnostic = |id: &str, details: &[&str]| Diagnostic {
        id: id.to_owned(),
        message: "it hurts".to_owned(),
        details: details.iter().map(|&it| it.to_owned()).collect(),
    };
    let snapshot = with(|snapshot| {
        snapshot.talos_of("w-1").diagnostics =
            Ok(vec![diagnostic("address-overlap", &[]), diagnostic("kubelet-csr", &["csr-1", "csr-2"])]);
    });
    assert_eq!(wrong("talos.nodes.diagnostics", &snapshot), ["w-1: warn diagnostic", "w-1: warn diagnostic"]);
    let expected = ["address-overlap: it hurts", "kubelet-csr: it hurts (csr-1; csr-2)"];
    assert_eq!(observed("talos.nodes.diagnostics", &snapshot), expected);
}

#[test]
fn who_has_no_diagnostics_is_not_judged() {
    let of = |tag: &str, kind| {
        with(|snapshot| {
            run(snapshot, "w-1", tag, "metal");
            snapshot.talos_of("w-1").diagnostics = gap(kind);
        })
    };
    assert_eq!(wrong("talos.nodes.diagnostics", &of("v1.7.7", GapKind::Unsupported)), Vec::<String>::new());
    assert_eq!(wrong("talos.nodes.diagnostics", &of("v1.13.0", GapKind::Forbidden)), Vec::<String>::new());
    let expected = ["w-1: error not-supported-by-version, for ever"];
    assert_eq!(wrong("talos.nodes.diagnostics", &of("v1.8.0", GapKind::Unsupported)), expected);
}

#[test]
fn a_peer_of_kubespan_that_is_down_is_a_warning() {
    let id = "talos.nodes.network";
    let peers = |states: &[(&str, &str)]| {
        with(|snapshot| {
            let peer = |(name, state): &(&str, &str)| Peer {
                name: (*name).to_owned(),
                state: (*state).to_owned(),
                last_handshake: None,
            };
            snapshot.talos_of("cp-1").kube_span_peers = Ok(states.iter().map(peer).collect());
        })
    };
    // While Talos tries a peer's endpoints in turn, a peer without a recent handshake is effectively down.
    let mut silent = peers(&[("cp-2", "unknown"), ("cp-3", "unknown"), ("w-1", "unknown")]);
    let now = silent.taken;
    let heard = [Some("0001-01-01T00:00:00Z".parse().unwrap()), Some(now - SignedDuration::from_secs(120)), None];
    for (peer, heard) in silent.talos_of("cp-1").kube_span_peers.as_mut().unwrap().iter_mut().zip(heard) {
        peer.last_handshake = heard;
    }
    assert_eq!(observed(id, &silent), ["down: cp-2"]);
    assert_eq!(status(id, &peers(&[("cp-2", "up"), ("cp-3", "unknown"), ("w-1", "up")])), Status::Pass);
    let down = peers(&[("cp-2", "up"), ("cp-3", "down"), ("w-1", "down")]);
    assert_eq!(wrong(id, &down), ["cp-1: warn kubespan-peer-down"]);
    assert_eq!(observed(id, &down), ["down: cp-3, w-1"]);
    assert_eq!(wrong(id, &peers(&[("cp-2", "asleep"), ("cp-3", "down")])), ["cp-1: error unreadable-answer"]);
    // A machine that does not answer at all is reported as such.
    let mut off = peers(&[("w-1", "down")]);
    off.power_off("w-1");
    assert_eq!(
        wrong(id, &off),
        ["cp-1: warn kubespan-peer-down, see talos.nodes.reachable", "w-1: blocked talos.nodes.reachable"]
    );
    // Workers are not queried.
    let worker = with(|snapshot| snapshot.talos_of("w-1").kube_span_peers = gap(GapKind::TimedOut));
    assert_eq!(status(id, &worker), Status::Pass);
}

#[test]
fn an_address_that_stands_alone_is_on_one_machine() {
    let id = "talos.nodes.network";
    let with_single = |on: &[(&str, &str)], change: &dyn Fn(&mut Snapshot)| {
        let mut snapshot = healthy();
        for (name, link) in on {
            let (address, link) = ("192.0.2.10".to_owned(), (*link).to_owned());
            let single = LinkAddress { address, link, is_single: true };
            snapshot.talos_of(name).link_addresses.as_mut().unwrap().push(single);
        }
        change(&mut snapshot);
        snapshot
    };
    let of = |on: &[(&str, &str)], change: &dyn Fn(&mut Snapshot)| wrong(id, &with_single(on, change));
    let both = ["cp-1: fail node-address", "w-1: fail node-address"];
    assert_eq!(of(&[("cp-1", "eth0")], &|_| {}), [""; 0]);
    assert_eq!(of(&[("cp-1", "eth0"), ("w-1", "bond0")], &|_| {}), both);
    let told = observed(id, &with_single(&[("cp-1", "eth0"), ("w-1", "bond0")], &|_| {}));
    assert_eq!(told[0], "192.0.2.10 on eth0, which w-1 has as well, on bond0");
    let network = |snapshot: &mut Snapshot| {
        for node in &mut snapshot.nodes {
            node.talos.link_addresses.iter_mut().flatten().for_each(|it| it.is_single = false);
        }
    };
    assert_eq!(of(&[("cp-1", "eth0"), ("w-1", "eth0")], &network), [""; 0], "of a network that each may have");
    let silent = |snapshot: &mut Snapshot| snapshot.talos_of("w-1").contact = gap(GapKind::NodeUnreachable);
    assert_eq!(of(&[("cp-1", "eth0"), ("w-1", "eth0")], &silent), ["w-1: blocked talos.nodes.reachable"]);
    let namesake = |snapshot: &mut Snapshot| {
        for name in ["cp-1", "w-1"] {
            snapshot.node_mut(name).machine_id = Some("1".to_owned());
        }
    };
    assert_eq!(of(&[("cp-1", "eth0"), ("w-1", "eth0")], &namesake), [""; 0], "one machine of two names");
    let lost = |kind| move |snapshot: &mut Snapshot| snapshot.talos_of("w-1").link_addresses = gap(kind);
    assert_eq!(of(&[("cp-1", "eth0")], &lost(GapKind::TimedOut)), ["w-1: error timed-out"]);
    assert_eq!(of(&[("cp-1", "eth0")], &lost(GapKind::Forbidden)), ["w-1: error role-too-low, for ever"]);
    assert_eq!(of(&[("cp-1", "eth0")], &lost(GapKind::TooLarge)), [""; 0], "one of each Service");
    let out_of_scope = |snapshot: &mut Snapshot| snapshot.node_mut("w-1").out_of_scope = true;
    assert_eq!(
        of(&[("cp-1", "eth0"), ("w-1", "eth0")], &out_of_scope),
        both[..1],
        "the other one is there all the same"
    );
}
