//! Which nodes there are, and whether they are ready.

use super::Step::{Change, Do, Look};
use super::Text;
use super::sources::{
    TALOS_DISCOVERY, TALOS_EXTENSIONS, TALOS_SCALE_DOWN, TALOS_TROUBLESHOOTING, TALOS_TROUBLESHOOTING_KUBELET,
};
use super::steps::{KUBELET_LOGS, KUBELET_SERVICE, NODE_DMESG, NODE_SERVICES};

pub(super) const NODE_FROZEN: Text = Text {
    explanation: "The node accepts connections and then sends nothing. The kernel still works, the programs above it do not: usually the disk no longer responds, memory is exhausted, or a virtual machine is paused.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Do("Look at the console and at the hypervisor; check disk and memory there."),
        NODE_DMESG,
        Do("If nothing answers, only a hard reset from outside helps."),
    ],
};

pub(super) const NODE_MISSING: Text = Text {
    explanation: "A node named on the command line is known to no source: not to discovery, not to Kubernetes, not to etcd. It never joined, was removed, or is known by another name or address.",
    source: TALOS_DISCOVERY,
    remedy: &[
        Look("talosctl -n CP get members"),
        Look("kubectl get nodes -o wide"),
        Do("Correct the expectation, or look at the console of the missing machine."),
    ],
};

pub(super) const NODE_UNEXPECTED: Text = Text {
    explanation: "The cluster has a node that the expectation on the command line does not list. It was added without updating the list, or it comes from another cluster that shares the same secrets.",
    source: TALOS_DISCOVERY,
    remedy: &[Look("talosctl -n CP get members"), Look("kubectl get nodes -o wide")],
};

pub(super) const STALE_DISCOVERY_MEMBER: Text = Text {
    explanation: "Discovery still lists a machine that neither Kubernetes nor etcd knows and that does not answer. It is what remains of a node that was removed; the entry expires by itself, at the latest after 30 minutes.",
    source: TALOS_DISCOVERY,
    remedy: &[Look("talosctl -n CP get members"), Do("Wait. If the machine should be there, look at its console.")],
};

pub(super) const STALE_NODE_OBJECT: Text = Text {
    explanation: "Kubernetes has a Node object for a machine that does not answer and that discovery has forgotten, which it does after half an hour of silence. The machine was removed, or it has merely been off for that long. As long as the Node is there, its pods are counted as if they could come back, and volumes and DaemonSets wait for it.",
    source: TALOS_SCALE_DOWN,
    remedy: &[
        Look("kubectl describe node NODENAME"),
        Look("talosctl -n CP get members"),
        Do(
            "Is it switched off, or cut off? Look at its console, its hypervisor, or your inventory; switched on, it is back by itself.",
        ),
        Do("Only if the machine is gone for good:"),
        Change("kubectl delete node NODENAME"),
    ],
};

pub(super) const SINGLE_SOURCE: Text = Text {
    explanation: "Only one source lists the nodes, so a node that this source has forgotten would not be missed. Usually discovery is switched off, or Kubernetes could not be read.",
    source: TALOS_DISCOVERY,
    remedy: &[
        Do(
            "Say what there should be: `--control-plane-nodes`, `--worker-nodes`, `--expect-control-planes`, `--expect-workers`.",
        ),
        Look("talosctl -n CP get members"),
    ],
};

pub(super) const STAGE_NOT_RUNNING: Text = Text {
    explanation: "Talos on this machine is not in its normal state: it is booting, installing, upgrading, rebooting, shutting down or being reset. During an upgrade that is as it should be, for some minutes. A machine that stays there is held up by something.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE get machinestatus -o yaml"),
        NODE_SERVICES,
        NODE_DMESG,
        Do(
            "Only a machine that has hung for many minutes in `shutting down` or `rebooting`, and never one that installs, upgrades or is being reset, nor a control plane that etcd cannot do without:",
        ),
        Change("talosctl -n NODE reboot --mode=force"),
    ],
};

pub(super) const REBOOT_LOOP: Text = Text {
    explanation: "The machine was up, rebooted and came up again, and that more than once while it was looked at; an upgrade needs one reboot. Whatever runs on it is moved or restarted each time. Usually it is out of memory, a watchdog or the hypervisor resets it, or its hardware fails.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        NODE_DMESG,
        NODE_SERVICES,
        Do("Look at the console while it goes down, and at the hypervisor or the log of the board."),
    ],
};

pub(super) const CONDITION_UNMET: Text = Text {
    explanation: "Talos runs, and reports what keeps the node from being ready; the conditions are in the message. Common ones are time that is not synchronized, services that are not healthy, static pods that do not run, and a Kubernetes node that is not Ready.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[Look("talosctl -n NODE get machinestatus -o yaml"), NODE_SERVICES, NODE_DMESG],
};

pub(super) const SERVICE_FAILED: Text = Text {
    explanation: "A service that Talos manages on this node is not running, or runs and fails its health check. Its last event and health message show why: an image that cannot be pulled, a file it waits for, a crash.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE service SERVICE"),
        Look("talosctl -n NODE logs SERVICE"),
        Do("After the cause is gone:"),
        Change("talosctl -n NODE service SERVICE restart"),
    ],
};

pub(super) const SERVICE_MISSING: Text = Text {
    explanation: "A service that a node of this kind needs is not even registered. Either the boot has not come that far, or the machine has another role than it should: a control plane that got a worker's configuration has no etcd and no trustd.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[NODE_SERVICES, Look("talosctl -n NODE get machinetype"), NODE_DMESG],
};

pub(super) const SERVICE_BLOCKS_BOOT: Text = Text {
    explanation: "The machine does not finish booting, because it waits until this service is up. Often it is a system extension that waits for a device or a file that this machine does not have. After 70 minutes Talos reboots and starts over.",
    source: TALOS_EXTENSIONS,
    remedy: &[
        Look("talosctl -n NODE service SERVICE"),
        Look("talosctl -n NODE logs SERVICE"),
        Do("Give the extension what it waits for, or install an image without it."),
    ],
};

pub(super) const KUBELET_UNHEALTHY: Text = Text {
    explanation: "The kubelet, which runs the pods of a node, is not running or not healthy. Without it, static pods are not started and the node drops out of Kubernetes within a minute. Common causes: an invalid kubelet configuration or argument, an image that cannot be pulled, time that is not synchronized, a control plane endpoint that cannot be reached.",
    source: TALOS_TROUBLESHOOTING_KUBELET,
    remedy: &[
        KUBELET_SERVICE,
        KUBELET_LOGS,
        Do("Fix what the log reports; if it reports nothing, restart the kubelet, which leaves its pods running:"),
        Change("talosctl -n NODE service kubelet restart"),
    ],
};
