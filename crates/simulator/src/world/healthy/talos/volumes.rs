//! Disks and volumes of a machine.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{Facts, Subject};
use crate::cosi::{Resource, kind};
use crate::version::TalosVersion;

/// Sizes of the system disk's partitions in bytes. `talosctl health` requires 3,932 MiB for EPHEMERAL.
const DISK: u64 = 20 << 30;
const META: u64 = 1 << 20;
const STATE: u64 = 100 << 20;
const EPHEMERAL: u64 = DISK - (2200 << 20);

/// Directories below EPHEMERAL: path, parent and mode. Without a mode, the volume states none.
const DIRECTORIES: [(&str, &str, u32); 13] = [
    ("/var/lib", "EPHEMERAL", 0o700),
    ("/var/lib/cni", "/var/lib", 0o700),
    ("/var/lib/containerd", "/var/lib", 0),
    ("/var/lib/kubelet", "/var/lib", 0o700),
    ("/var/lib/kubelet/seccomp", "/var/lib/kubelet", 0o700),
    ("/var/lib/kubelet/seccomp/profiles", "/var/lib/kubelet/seccomp", 0o700),
    ("/var/log", "EPHEMERAL", 0o755),
    ("/var/log/audit", "/var/log", 0o700),
    ("/var/log/audit/kube", "/var/log/audit", 0o700),
    ("/var/log/containers", "/var/log", 0o755),
    ("/var/log/pods", "/var/log", 0o755),
    ("/var/mnt", "EPHEMERAL", 0o755),
    ("/var/run/lock", "/var/run", 0o755),
];

/// From this release on, these directories can be partitions of their own, and their volumes have names.
const NAMED_SINCE: TalosVersion = TalosVersion::new(14, 0);
const NAMED: [(&str, &str); 3] = [("/var/lib/containerd", "CRI"), ("/var/lib/kubelet", "KUBELET"), ("/var/log", "LOG")];

/// Volumes that Talos labels again with everything in them.
const RELABELED: [&str; 3] = ["/var/lib/cni", "/var/lib/kubelet/seccomp/profiles", "/var/log/audit/kube"];

pub(super) fn tell(subject: &Subject<'_>, facts: &mut Facts) {
    partition(facts, "META", 3, META, None);
    partition(facts, "STATE", 4, STATE, Some(("xfs", "/system/state")));
    partition(facts, "EPHEMERAL", 5, EPHEMERAL, Some(("xfs", "/var")));
    let is_named = facts.version >= NAMED_SINCE;
    let id = |path: &'static str| NAMED.iter().find(|(of, _)| is_named && *of == path).map_or(path, |(_, id)| *id);
    for (path, parent, mode) in DIRECTORIES {
        let target = path.rsplit('/').next().unwrap_or(path);
        let mut spec = directory(target, id(parent), mode);
        if RELABELED.contains(&path) {
            spec["mountSpec"]["recursiveRelabel"] = json!(true);
        }
        if path == "/var/log/audit/kube" {
            spec["mountSpec"]["uid"] = json!(65534);
            spec["mountSpec"]["gid"] = json!(65534);
        }
        volume(facts, id(path), spec, true);
    }
    let link = json!({"phase": "ready", "type": "symlink", "symlink": {"symlinkTargetPath": "/run", "force": true}, "mountSpec": {
        "targetPath": "/var/run", "selinuxLabel": "", "projectQuotaSupport": false,
    }});
    volume(facts, "/var/run", link, true);
    let mut etcd = directory("etcd", "/var/lib", 0o700);
    for (key, value) in [("uid", json!(60)), ("gid", json!(60)), ("recursiveRelabel", json!(true))] {
        etcd["mountSpec"][key] = value;
    }
    // Workers have the volume, but nothing on them mounts it.
    volume(facts, "ETCD", etcd, subject.is_control_plane());
    facts.put(kind::SYSTEM_DISKS, "system-disk", json!({"diskID": "sda", "devPath": "/dev/sda"}));
    let disk = json!({
        "dev_path": "/dev/sda", "size": DISK, "pretty_size": pretty(DISK), "io_size": 512, "sector_size": 512,
        "readonly": false, "cdrom": false, "model": "Simulated", "transport": "virtio",
    });
    facts.put(kind::DISKS, "sda", disk);
    let whole = json!({
        "dev_path": "/dev/sda", "type": "disk", "device_path": "/dev/sda", "offset": 0, "size": DISK, "pretty_size": pretty(DISK),
        "name": "gpt",
    });
    facts.put(kind::DISCOVERED_VOLUMES, "sda", whole);
}

/// Adds a partition; `mounted` contains its file system and mount point.
fn partition(facts: &mut Facts, label: &str, index: u32, size: u64, mounted: Option<(&str, &str)>) {
    let device = format!("/dev/sda{index}");
    let mut spec = json!({
        "phase": "ready", "type": "partition", "location": device, "mountLocation": device, "partitionIndex": index,
        "parentLocation": "/dev/sda", "size": size, "prettySize": pretty(size),
    });
    let mut discovered = json!({
        "dev_path": device, "type": "partition", "device_path": device, "parent": "sda", "offset": 0, "size": size,
        "pretty_size": pretty(size), "name": "talosmeta", "partition_label": label,
    });
    if let Some((filesystem, target)) = mounted {
        spec["filesystem"] = json!(filesystem);
        spec["mountSpec"] = json!({
            "targetPath": target, "selinuxLabel": "system_u:object_r:ephemeral_t:s0", "projectQuotaSupport": true,
        });
        discovered["name"] = json!(filesystem);
        let mount = json!({
            "source": device, "target": target, "filesystemType": filesystem, "options": [], "encrypted": false,
        });
        facts.put(kind::MOUNT_STATUSES, label, mount);
    }
    volume(facts, label, spec, mounted.is_some());
    facts.put(kind::DISCOVERED_VOLUMES, &format!("sda{index}"), discovered);
}

fn directory(target: &str, parent: &str, mode: u32) -> Value {
    let mut spec = json!({"phase": "ready", "type": "directory", "mountSpec": {
        "targetPath": target, "selinuxLabel": "system_u:object_r:ephemeral_t:s0", "projectQuotaSupport": false,
        "parentId": parent,
    }});
    if mode != 0 {
        spec["mountSpec"]["fileMode"] = json!(mode);
    }
    spec
}

fn volume(facts: &mut Facts, id: &str, spec: Value, is_mounted: bool) {
    let mut resource = Resource::new(spec, facts.booted);
    resource.version = 2;
    resource.updated += SignedDuration::from_secs(1);
    resource.labels.insert("talos.dev/system-volume".to_owned(), String::new());
    if is_mounted {
        resource.finalizers.push("block.MountController".to_owned());
    }
    facts.insert(kind::VOLUME_STATUSES, id, resource);
}

/// Formats a size for people: `18 GB`.
fn pretty(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}
