//! The machines themselves: versions, clocks, network, memory, disks.

use super::Step;
use super::Step::{Change, Do, Look};
use super::Text;
use super::sources::{
    KUBERNETES_PRESSURE, TALOS_KUBEPRISM, TALOS_KUBESPAN, TALOS_REQUIREMENTS, TALOS_TIME, TALOS_TROUBLESHOOTING,
    TALOS_UPGRADE, TALOS_VOLUMES,
};
use super::steps::{KUBELET_LOGS, NODE_DMESG, NODE_VERSION};

const TIME_STATUS: Step = Look("talosctl -n NODE get timestatus -o yaml");
const ADJTIME: Step = Look("talosctl -n NODE get adjtimestatus -o yaml");
const VOLUMES: Step = Look("talosctl -n NODE get volumestatus");
const MOUNTS: Step = Look("talosctl -n NODE mounts");

pub(super) const NETWORK_NOT_READY: Text = Text {
    explanation: "Talos reports that a part of the machine's network is missing: an address, outbound connectivity (a default route, or the configured probes), a hostname, or the files `/etc/hosts` and `/etc/resolv.conf`. Services that need it wait, so such a machine often does not finish booting.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE get networkstatus -o yaml"),
        Do("No address: is the link up, and does DHCP or the machine configuration give one?"),
        Look("talosctl -n NODE get links"),
        Look("talosctl -n NODE get addresses"),
        Do("No connectivity: is there a default route, and do the configured probes succeed?"),
        Look("talosctl -n NODE get routes"),
        Look("talosctl -n NODE get probestatus"),
    ],
};

pub(super) const KUBESPAN_PEER_DOWN: Text = Text {
    explanation: "KubeSpan keeps an encrypted way from each machine to each other one, and has heard nothing from this peer for some minutes. Where all traffic has to take it, the two machines and the pods on them do not reach each other. Usually UDP port 51820 is filtered between them, or none of the addresses at which a machine can be found leads to it.",
    source: TALOS_KUBESPAN,
    remedy: &[
        Look("talosctl -n NODE get kubespanpeerstatuses"),
        Look("talosctl -n NODE get kubespanpeerspecs -o yaml"),
        Do("Open UDP port 51820 between the machines; one side that can be reached from the other is enough."),
        Do("Leave out addresses that lead nowhere, with `filters.endpoints` of KubeSpan's configuration."),
    ],
};

pub(super) const KUBEPRISM_UNHEALTHY: Text = Text {
    explanation: "KubePrism is the balancer on each machine through which its kubelet and its host network reach the API servers. It reaches none of them: not one control plane takes connections from this machine. The kubelet cannot renew its lease then, and within a minute the node is NotReady.",
    source: TALOS_KUBEPRISM,
    remedy: &[
        Look("talosctl -n NODE get kubeprismstatuses"),
        Look("talosctl -n NODE get kubeprismendpoints"),
        Look("talosctl -n NODE logs controller-runtime"),
        Do("Look for a firewall between this machine and port 6443 of the control planes."),
    ],
};

pub(super) const MEMORY_TOO_SMALL: Text = Text {
    explanation: "The machine has less memory than Talos asks for in its role. It may run for a while; under load the kernel ends processes, and etcd or the API server is a likely victim. Nothing but more memory helps.",
    source: TALOS_REQUIREMENTS,
    remedy: &[
        Look("talosctl -n NODE memory"),
        Do(
            "Give the machine more memory: at least 2 GiB for a control plane and 1 GiB for a worker; twice that is recommended.",
        ),
    ],
};

pub(super) const DISK_TOO_SMALL: Text = Text {
    explanation: "The disk on which Talos keeps its data, images and etcd (the partition EPHEMERAL, mounted at `/var`) is smaller than Talos needs. Images and logs will fill it, and the kubelet then evicts pods.",
    source: TALOS_REQUIREMENTS,
    remedy: &[
        VOLUMES,
        Look("talosctl -n NODE get disks"),
        Do("Enlarge the disk and reboot the machine, which grows the partition; or install on a larger disk."),
    ],
};

pub(super) const DISK_NEARLY_FULL: Text = Text {
    explanation: "Less than a tenth of `/var` is free. The kubelet begins to remove images and to evict pods at about this point, and etcd, which keeps its data there too, stops when nothing is left. Usual causes: large images, logs, pods that write into emptyDir volumes.",
    source: KUBERNETES_PRESSURE,
    remedy: &[
        MOUNTS,
        Look("talosctl -n NODE usage -H --depth 2 /var"),
        Do("Remove what is not needed: pods with large volumes first, then images. Or enlarge the disk."),
    ],
};

pub(super) const VOLUME_FAILED: Text = Text {
    explanation: "Talos could not find, make, unlock or grow a volume of this machine. Services that store data on it do not start. Encrypted volumes fail when their key is out of reach (a TPM that was replaced, a KMS that does not answer), user volumes when no disk fits their selector.",
    source: TALOS_VOLUMES,
    remedy: &[
        VOLUMES,
        Look("talosctl -n NODE get discoveredvolumes"),
        NODE_DMESG,
        Do("Correct what the volume's message names: the disk, the key, or the volume's configuration."),
    ],
};

pub(super) const DIAGNOSTIC: Text = Text {
    explanation: "Talos looks at itself once a minute and has found a problem that lasts. `kubelet-csr`: certificates requested by kubelets wait for approval, so that logs and exec fail. `address-overlap`: the machine's own addresses lie in the networks of pods or services.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE get diagnostics -o yaml"),
        Do("Each has a page of its own at talos.dev/diagnostic/ID."),
        Look("kubectl get csr"),
    ],
};

pub(super) const TIME_NOT_SYNCED: Text = Text {
    explanation: "The machine has not set its clock by a time server. Until it has, Talos starts neither etcd nor the kubelet on it; later on, an uncorrected clock drifts until certificates are refused. Usually the time servers cannot be reached: UDP port 123 is filtered (TCP port 4460 where NTS is used), or their names do not resolve.",
    source: TALOS_TIME,
    remedy: &[
        TIME_STATUS,
        Look("talosctl -n NODE get timeservers -o yaml"),
        Look("talosctl -n NODE logs controller-runtime"),
        Do("Name time servers that the machine can reach, in `machine.time.servers`."),
    ],
};

pub(super) const CLOCK_SKEW: Text = Text {
    explanation: "The clock of the machine is off. One second is enough for etcd to complain and for leases and logs to mislead; half a minute makes leases look stale, and minutes make certificates expired or not yet valid. A clock can also look wrong because the one that it is compared with, that of the API server, is.",
    source: TALOS_TIME,
    remedy: &[
        TIME_STATUS,
        ADJTIME,
        Look("talosctl -n NODE time"),
        Do("If all machines show the same difference, look at the control plane that served the API request instead."),
        Do(
            "Name time servers that the machine can reach in `machine.time.servers`, and correct the clock of the host of virtual machines.",
        ),
    ],
};

pub(super) const VERSION_UNEXPECTED: Text = Text {
    explanation: "Something runs a version other than the one expected on the command line. Either an upgrade has not come this far, or has passed over this node, or the expectation is out of date.",
    source: TALOS_UPGRADE,
    remedy: &[
        NODE_VERSION,
        Look("kubectl get nodes -o wide"),
        Do(
            "During an upgrade wait (`--wait-timeout`). Otherwise correct the expectation, or upgrade what is left: one machine after the other, and a control plane only while etcd tolerates the loss of its member.",
        ),
        Change("talosctl -n NODE upgrade --image INSTALLER:VERSION"),
        Change("talosctl -n CP upgrade-k8s --to VERSION"),
    ],
};

pub(super) const NOT_MEASURABLE: Text = Text {
    explanation: "The check needs something that this machine does not report, and is not expected to report: in container mode a machine has neither a clock nor disks of its own, and a clock is compared with Kubernetes' only where a lease of the node is fresh. So the check is left out there.",
    source: TALOS_TIME,
    remedy: &[TIME_STATUS, KUBELET_LOGS, Do("Nothing to do, unless the lease of the node is stale.")],
};
