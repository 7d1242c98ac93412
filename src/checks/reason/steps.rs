//! Steps that several remedies take.

use super::Step::{self, Change, Look};

pub(super) const NEW_TALOSCONFIG: Step =
    Change("talosctl config new --roles os:reader --crt-ttl 8760h new-talosconfig");
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
pub(super) const CONTAINERS: Step = Look("talosctl -n NODE containers -k");
pub(super) const API_LOGS: Step = Look("talosctl -n NODE logs -k kube-system/kube-apiserver-NODENAME:kube-apiserver");
pub(super) const DESCRIBE_NODE: Step = Look("kubectl describe node NODENAME");
