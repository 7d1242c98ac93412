//! Disks and volumes of a machine.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{Facts, Subject};
use crate::cosi::{Resource, kind};

/// Sizes of the system disk's partitions in bytes. `talosctl health` requires 3,932 MiB for EPHEMERAL.
const DISK: u64 = 20 << 30;
const META: u64 = 1 << 20;
const STATE: u64 = 100 << 20;
const EPHEMERAL: u64 = DISK - (2200 << 20);

/// Directories below EPHEMERAL: path, parent and mode.
const DIRECTORIES: [(&str, &str, u32); 12] = [
    ("/var/lib", "EPHEMERAL", 0o700),
    ("/var/lib/cni", "/var/lib", 0o700),
    ("/var/lib/containerd", "/var/lib", 0o711),
    ("/var/lib/kubelet", "/var/lib", 0o700),
    ("/var/lib/kubelet/seccomp", "/var/lib/kubelet", 0o700),
    ("/var/lib/kubelet/seccomp/profiles", "/var/lib/kubelet/seccomp", 0o700),
    ("/var/log", "EPHEMERAL", 0o755),
    ("/var/log/audit", "/var/log", 0o700),
    ("/var/log/audit/kube", "/var/log/audit", 0o700),
    ("/var/log/containers", "/var/log", 0o755),
    ("/var/log/pods", "/var/log", 0o755),
    ("/var/mnt", "EPHEMERAL", 0o755),
];

pub(super) fn tell(subject: &Subject<'_>, facts: &mut Facts) {
    partition(facts, "META", 3, META, None);
    partition(facts, "STATE", 4, STATE, Some(("xfs", "/system/state")));
    partition(facts, "EPHEMERAL", 5, EPHEMERAL, Some(("xfs", "/var")));
    for (path, parent, mode) in DIRECTORIES {
        let target = path.rsplit('/').next().unwrap_or(path);
        volume(facts, path, directory(target, parent, mode));
    }
    if subject.is_control_plane() {
        let mut spec = directory("etcd", "/var/lib", 0o700);
        spec["mountSpec"]["uid"] = json!(60);
        spec["mountSpec"]["gid"] = json!(60);
        volume(facts, "ETCD", spec);
    }
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
    volume(facts, label, spec);
    facts.put(kind::DISCOVERED_VOLUMES, &format!("sda{index}"), discovered);
}

fn directory(target: &str, parent: &str, mode: u32) -> Value {
    json!({"phase": "ready", "type": "directory", "mountSpec": {
        "targetPath": target, "selinuxLabel": "system_u:object_r:ephemeral_t:s0", "projectQuotaSupport": false,
        "parentId": parent, "fileMode": mode,
    }})
}

fn volume(facts: &mut Facts, id: &str, spec: Value) {
    let mut resource = Resource::new(spec, facts.booted);
    resource.version = 2;
    resource.updated += SignedDuration::from_secs(1);
    resource.labels.insert("talos.dev/system-volume".to_owned(), String::new());
    resource.finalizers.push("block.MountController".to_owned());
    facts.insert(kind::VOLUME_STATUSES, id, resource);
}

/// Formats a size for people: `18 GB`.
fn pretty(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}
