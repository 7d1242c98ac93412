//! Steps that several remedies share.

use super::Step;
use super::Step::{Change, Do, Look};

pub(super) const NEW_TALOSCONFIG: Step =
    Change("talosctl -n CP config new --roles os:reader --crt-ttl 8760h new-talosconfig");
pub(super) const NODE_VERSION: Step = Look("talosctl -n NODE version");
pub(super) const NODE_SERVICES: Step = Look("talosctl -n NODE services");
pub(super) const NODE_DMESG: Step = Look("talosctl -n NODE dmesg");
pub(super) const KUBELET_SERVICE: Step = Look("talosctl -n NODE service kubelet");
pub(super) const KUBELET_LOGS: Step = Look("talosctl -n NODE logs kubelet");
pub(super) const ETCD_SERVICE: Step = Look("talosctl -n NODE service etcd");
pub(super) const ETCD_LOGS: Step = Look("talosctl -n NODE logs etcd");
pub(super) const ETCD_MEMBERS: Step = Look("talosctl -n CP etcd members");
pub(super) const ETCD_STATUS: Step = Look("talosctl -n CP1,CP2,CP3 etcd status");
pub(super) const ETCD_SNAPSHOT: Step = Look("talosctl -n CP etcd snapshot db.snapshot");
pub(super) const REMOVE_MEMBER: Step = Change("talosctl -n CP etcd remove-member MEMBER-ID");
pub(super) const WIPE: Step =
    Change("talosctl -n NODE reset --system-labels-to-wipe=EPHEMERAL --graceful=false --reboot");
pub(super) const DEFRAGMENT: Step = Do(
    "Defragment one member at a time, the leader last, and only while all voters are up: a member does not respond while it is defragmented. With one or two voters etcd, and Kubernetes with it, is unavailable for those seconds. After each, check that it is healthy again:",
);
/// A working member and a lost member are replaced in opposite orders.
pub(super) const ADD_BEFORE_REMOVING: Step = Do(
    "To replace a control plane that works, add the new one first, wait until its member votes, and only then remove the old one. Remove a lost one before you add the new one.",
);
/// Conditions for removing a member or wiping its data.
pub(super) const ONLY_WITH_QUORUM: Step = Do(
    "Only with a snapshot at hand, never with a single control plane, and only while the other members have a quorum. `etcd status` has to show a leader, and more than half of the voters have to answer without this one.",
);
pub(super) const CONTAINERS: Step = Look("talosctl -n NODE containers --kubernetes");
pub(super) const API_LOGS: Step =
    Look("talosctl -n NODE logs --kubernetes kube-system/kube-apiserver-NODENAME:kube-apiserver");
pub(super) const DESCRIBE_NODE: Step = Look("kubectl describe node NODENAME");
