//! The set of nodes and their readiness.

use super::Step::{Change, Do, Look};
use super::Text;
use super::sources::{
    TALOS_DISASTER, TALOS_DISCOVERY, TALOS_EXTENSIONS, TALOS_SCALE_DOWN, TALOS_TROUBLESHOOTING,
    TALOS_TROUBLESHOOTING_KUBELET,
};
use super::steps::{KUBELET_LOGS, KUBELET_SERVICE, NODE_DMESG, NODE_SERVICES};

pub(super) const NODE_FROZEN: Text = Text {
    explanation: "The node accepts connections but sends nothing. The kernel still works, but its programs do not: usually the disk no longer responds, memory is exhausted, or a virtual machine is paused.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Do("Look at the console and at the hypervisor; check disk and memory there."),
        NODE_DMESG,
        Do("If nothing answers, only a hard reset from outside helps."),
    ],
};

pub(super) const NODE_MISSING: Text = Text {
    explanation: "No source knows a node from the command line: neither discovery, nor Kubernetes, nor etcd. It never joined, was removed, or has another name or address.",
    source: TALOS_DISCOVERY,
    remedy: &[
        Look("talosctl -n CP get members"),
        Look("kubectl get nodes -o wide"),
        Do("Correct the expectation, or look at the console of the missing machine."),
    ],
};

pub(super) const NODE_UNKNOWN: Text = Text {
    explanation: "`--nodes` or `--drain` names a node that neither discovery, nor Kubernetes, nor etcd lists, and the name does not resolve to an address. If all of these lists were read, it is a mistake on the command line: exit code 2. Otherwise the node may be in the list that is missing: exit code 69. An address that nothing lists is not a mistake; it is a machine that does not answer.",
    source: TALOS_DISCOVERY,
    remedy: &[
        Look("talosctl -n CP get members"),
        Look("kubectl get nodes -o wide"),
        Do("Correct the name. The message lists the names that are known."),
    ],
};

pub(super) const NODES_CONTRADICT: Text = Text {
    explanation: "`--nodes` or `--drain` names a node that another option leaves out, so no check would look at it: `--control-plane-nodes` and `--worker-nodes` do not list it, `--nodes` does not, or it has another operating system and `--upgrade-talos` does not concern it. Exit code 2.",
    source: TALOS_DISCOVERY,
    remedy: &[
        Do("Add the node to the list of its role, or leave it out of `--nodes`."),
        Do("Drain a node with another operating system without `--upgrade-talos`."),
    ],
};

pub(super) const NODE_UNEXPECTED: Text = Text {
    explanation: "The cluster has a node that the command line does not list. It was added without updating the list, or belongs to another cluster with the same secrets.",
    source: TALOS_DISCOVERY,
    remedy: &[Look("talosctl -n CP get members"), Look("kubectl get nodes -o wide")],
};

pub(super) const STALE_DISCOVERY_MEMBER: Text = Text {
    explanation: "Discovery still lists a machine that neither Kubernetes nor etcd knows and that does not answer. It is left over from a node that was removed; the entry expires on its own within 30 minutes.",
    source: TALOS_DISCOVERY,
    remedy: &[Look("talosctl -n CP get members"), Do("Wait. If the machine should be there, look at its console.")],
};

pub(super) const MACHINE_TYPE_INIT: Text = Text {
    explanation: "The machine has the type `init` instead of `controlplane`. Talos no longer recommends that type: such a machine bootstraps etcd on its own, which is incompatible with recovering etcd from a snapshot. Nothing is broken now; it matters once etcd has to be recovered.",
    source: TALOS_DISASTER,
    remedy: &[
        Look("talosctl -n NODE get machinetype"),
        Do("Write `type: controlplane` into the machine configuration, which takes effect with the next boot:"),
        Change("talosctl -n NODE edit machineconfig --mode staged"),
        Do("Reboot only while etcd can lose a member:"),
        Change("talosctl -n NODE reboot"),
    ],
};

pub(super) const STALE_NODE_OBJECT: Text = Text {
    explanation: "Kubernetes has a Node object for a machine that does not answer and that discovery has forgotten, which takes half an hour without contact. The machine was removed, or has only been off for that long. While the Node object exists, its pods are counted as if they could come back, and volumes and DaemonSets wait for it.",
    source: TALOS_SCALE_DOWN,
    remedy: &[
        Look("kubectl describe node NODENAME"),
        Look("talosctl -n CP get members"),
        Do(
            "Check its console, its hypervisor or your inventory: it may be powered off or cut off. Once powered on, it recovers on its own.",
        ),
        Do("Only if the machine is permanently gone:"),
        Change("kubectl delete node NODENAME"),
    ],
};

pub(super) const SINGLE_SOURCE: Text = Text {
    explanation: "Only one source lists the nodes, so a node that is missing there would go unnoticed. Usually discovery is disabled, or Kubernetes could not be read.",
    source: TALOS_DISCOVERY,
    remedy: &[
        Do(
            "Pass the expected nodes or their numbers: `--control-plane-nodes`, `--worker-nodes`, `--expect-control-planes`, `--expect-workers`.",
        ),
        Look("talosctl -n CP get members"),
    ],
};

pub(super) const STAGE_NOT_RUNNING: Text = Text {
    explanation: "Talos on this machine is not in its normal state: it is booting, installing, upgrading, rebooting, shutting down or being reset. This is normal for a few minutes during an upgrade. A machine that stays in such a stage is held up by something.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE get machinestatus -o yaml"),
        NODE_SERVICES,
        NODE_DMESG,
        Do(
            "Only a machine that has been stuck for many minutes in `shutting down` or `rebooting`. Never one that is installing, upgrading or being reset, nor a control plane that etcd cannot spare:",
        ),
        Change("talosctl -n NODE reboot --mode=force"),
    ],
};

pub(super) const REBOOT_LOOP: Text = Text {
    explanation: "The machine rebooted more than once during this run; an upgrade needs one reboot. Each time, its workloads are moved or restarted. Usually it is out of memory, a watchdog or the hypervisor resets it, or its hardware fails.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        NODE_DMESG,
        NODE_SERVICES,
        Do("Look at the console while it goes down, and at the log of the hypervisor or the BMC."),
    ],
};

pub(super) const NODE_REBOOTED: Text = Text {
    explanation: "The machine was running in two consecutive rounds, but rebooted in between. During an upgrade this is expected once. With `--stable-for`, the stability period starts over.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Do("Check whether the machine was rebooted on purpose, for example by an upgrade."),
        NODE_DMESG,
        Do("Look at the console, and at the log of the hypervisor or the BMC; the kernel log begins with the reboot."),
    ],
};

pub(super) const CONDITION_UNMET: Text = Text {
    explanation: "Talos reports the conditions that keep the node from being ready; the message lists them. Common ones are a clock that is not synchronized, services that are not healthy, static pods that do not run, and a Kubernetes node that is not Ready.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[Look("talosctl -n NODE get machinestatus -o yaml"), NODE_SERVICES, NODE_DMESG],
};

pub(super) const SERVICE_FAILED: Text = Text {
    explanation: "A service that Talos manages on this node is not running, or runs and fails its health check. Its last event and health message show why: an image that cannot be pulled, a file it waits for, a crash.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE service SERVICE"),
        Look("talosctl -n NODE logs SERVICE"),
        Do("Once the cause is fixed:"),
        Change("talosctl -n NODE service SERVICE restart"),
    ],
};

pub(super) const SERVICE_MISSING: Text = Text {
    explanation: "A service that a node with this role needs does not exist. Either the machine is still booting, or it has the wrong role: a control plane with a worker's configuration has no etcd and no trustd.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[NODE_SERVICES, Look("talosctl -n NODE get machinetype"), NODE_DMESG],
};

pub(super) const SERVICE_BLOCKS_BOOT: Text = Text {
    explanation: "The machine does not finish booting, because it waits for this service. Often it is a system extension that waits for a device or a file that the machine does not have. After 70 minutes Talos reboots and starts over.",
    source: TALOS_EXTENSIONS,
    remedy: &[
        Look("talosctl -n NODE service SERVICE"),
        Look("talosctl -n NODE logs SERVICE"),
        Do("Provide what the extension waits for, or install an image without it."),
    ],
};

pub(super) const KUBELET_UNHEALTHY: Text = Text {
    explanation: "The kubelet, which runs the pods of a node, is not running or not healthy. Without it, static pods are not started and the node drops out of Kubernetes within a minute. Common causes: an invalid kubelet configuration or argument, an image that cannot be pulled, time that is not synchronized, a control plane endpoint that cannot be reached.",
    source: TALOS_TROUBLESHOOTING_KUBELET,
    remedy: &[
        KUBELET_SERVICE,
        KUBELET_LOGS,
        Do("Fix what the log reports. If it reports nothing, restart the kubelet; its pods keep running:"),
        Change("talosctl -n NODE service kubelet restart"),
    ],
};
