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
    explanation: "Talos reports that the machine's network is not ready. It lacks an address, outbound connectivity (a default route, or successful probes), a hostname, or the files `/etc/hosts` and `/etc/resolv.conf`. Services wait for these, so such a machine often does not finish booting.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE get networkstatus -o yaml"),
        Do("No address: check that the link is up, and that DHCP or the machine configuration provides an address."),
        Look("talosctl -n NODE get links"),
        Look("talosctl -n NODE get addresses"),
        Do("No connectivity: check for a default route, and whether the configured probes succeed."),
        Look("talosctl -n NODE get routes"),
        Look("talosctl -n NODE get probestatus"),
    ],
};

pub(super) const KUBESPAN_PEER_DOWN: Text = Text {
    explanation: "KubeSpan keeps an encrypted WireGuard tunnel between all machines, and has received nothing from this peer for a few minutes. If all traffic has to use the tunnel, the two machines and the pods on them cannot reach each other. Usually UDP port 51820 is filtered between them, or none of the peer's known endpoints leads to it.",
    source: TALOS_KUBESPAN,
    remedy: &[
        Look("talosctl -n NODE get kubespanpeerstatuses"),
        Look("talosctl -n NODE get kubespanpeerspecs -o yaml"),
        Do("Open UDP port 51820 between the machines; it is enough if one side can reach the other."),
        Do("Exclude endpoints that cannot be reached, with `filters.endpoints` in the KubeSpan configuration."),
    ],
};

pub(super) const KUBEPRISM_UNHEALTHY: Text = Text {
    explanation: "KubePrism is the load balancer on each machine through which its kubelet and host network connect to the API servers. It cannot reach any of them: no control plane accepts connections from this machine. So the kubelet cannot renew its lease, and within a minute the node is NotReady.",
    source: TALOS_KUBEPRISM,
    remedy: &[
        Look("talosctl -n NODE get kubeprismstatuses"),
        Look("talosctl -n NODE get kubeprismendpoints"),
        Look("talosctl -n NODE logs controller-runtime"),
        Do("Look for a firewall between this machine and port 6443 of the control planes."),
    ],
};

pub(super) const MEMORY_TOO_SMALL: Text = Text {
    explanation: "The machine has less memory than Talos requires for its role. It may run for a while, but under load the kernel kills processes (OOM), and etcd or the API server is a likely victim. Only more memory helps.",
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
    explanation: "Less than a tenth of `/var`, or of a partition below it, is free. At about this point the kubelet starts to remove images and evict pods. etcd, which also keeps its data there, stops when no space is left. Usual causes: large images, logs, pods that write into emptyDir volumes.",
    source: KUBERNETES_PRESSURE,
    remedy: &[
        MOUNTS,
        Look("talosctl -n NODE usage -H --depth 2 /var"),
        Do("Remove what is not needed: pods with large volumes first, then images. Or enlarge the disk."),
    ],
};

pub(super) const DISK_FULL: Text = Text {
    explanation: "No byte is free on `/var`, or on a partition below it such as `/var/lib/etcd`. etcd cannot append to its log and stops, the container runtime cannot unpack images or start containers, and the kubelet cannot record what it does. The kubelet may not notice, and its Node stays Ready. Usual causes: large images, logs, pods that write into emptyDir or hostPath volumes.",
    source: KUBERNETES_PRESSURE,
    remedy: &[
        MOUNTS,
        Look("talosctl -n NODE usage -H --depth 2 /var"),
        Do("Remove what is not needed: pods with large volumes first, then images. Or enlarge the disk."),
        Do("If etcd has stopped, free space before anything else; etcd then starts again on its own."),
    ],
};

pub(super) const VOLUME_FAILED: Text = Text {
    explanation: "Talos could not find, create, unlock or grow a volume of this machine. Services that store data on it do not start. Encrypted volumes fail when their key is not available (a TPM that was replaced, a KMS that does not answer), user volumes when no disk matches their selector. If only its keys could not be updated, the volume is open, but may not open after the next reboot.",
    source: TALOS_VOLUMES,
    remedy: &[
        VOLUMES,
        Look("talosctl -n NODE get discoveredvolumes"),
        NODE_DMESG,
        Do("Correct what the volume's error message shows: the disk, the key, or the volume's configuration."),
    ],
};

pub(super) const DIAGNOSTIC: Text = Text {
    explanation: "Talos diagnoses itself once a minute and has found a problem that persists. `kubelet-csr`: certificates requested by kubelets wait for approval, so logs and exec fail. `address-overlap`: addresses of the machine are in the pod or service networks.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE get diagnostics -o yaml"),
        Do("Each has its own page at talos.dev/diagnostic/ID."),
        Look("kubectl get csr"),
    ],
};

pub(super) const TIME_NOT_SYNCED: Text = Text {
    explanation: "The machine has not synchronized its clock with a time server. Until it has, Talos starts neither etcd nor the kubelet on it; later, an uncorrected clock drifts until certificates are rejected. Usually the time servers cannot be reached: UDP port 123 is filtered (TCP port 4460 with NTS), or their names do not resolve.",
    source: TALOS_TIME,
    remedy: &[
        TIME_STATUS,
        Look("talosctl -n NODE get timeservers -o yaml"),
        Look("talosctl -n NODE logs controller-runtime"),
        Do("Set time servers that the machine can reach in `machine.time.servers`."),
    ],
};

pub(super) const CLOCK_SKEW: Text = Text {
    explanation: "The clock of the machine is wrong. One second is enough for warnings from etcd and misleading leases and logs. Half a minute makes leases look stale; minutes make certificates expired or not yet valid. A clock can also look wrong because it is compared with that of the API server, which may be wrong itself.",
    source: TALOS_TIME,
    remedy: &[
        TIME_STATUS,
        ADJTIME,
        Look("talosctl -n NODE time"),
        Do("If all machines show the same difference, look at the control plane that served the API request instead."),
        Do(
            "Set time servers that the machine can reach in `machine.time.servers`. For a virtual machine, also correct the clock of its host.",
        ),
    ],
};

pub(super) const VERSION_UNEXPECTED: Text = Text {
    explanation: "Something runs another version than the one expected on the command line. An upgrade has not reached this node yet or has skipped it, or the expectation is out of date.",
    source: TALOS_UPGRADE,
    remedy: &[
        NODE_VERSION,
        Look("kubectl get nodes -o wide"),
        Do(
            "During an upgrade wait (`--wait-timeout`). Otherwise correct the expectation, or upgrade the rest: one machine at a time, and a control plane only while etcd can spare its member.",
        ),
        Change("talosctl -n NODE upgrade --image INSTALLER:VERSION"),
        Change("talosctl -n CP upgrade-k8s --to VERSION"),
    ],
};

pub(super) const NOT_MEASURABLE: Text = Text {
    explanation: "The check needs something that this machine cannot report. In container mode a machine has neither its own clock nor its own disks. And a clock can be compared with that of Kubernetes only if the node's lease is current. So the check is skipped there.",
    source: TALOS_TIME,
    remedy: &[TIME_STATUS, KUBELET_LOGS, Do("Nothing to do, unless the node's lease is stale.")],
};
