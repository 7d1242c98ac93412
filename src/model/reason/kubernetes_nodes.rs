//! Nodes in Kubernetes.

use super::Step::{Change, Do, Look};
use super::Text;
use super::sources::{
    KUBERNETES_DRAIN, KUBERNETES_NETWORK, KUBERNETES_NODE_HEALTH, KUBERNETES_NODES, KUBERNETES_PRESSURE,
    KUBERNETES_TLS, TALOS_DISCOVERY, TALOS_TROUBLESHOOTING_CONTROL_PLANE, TALOS_TROUBLESHOOTING_KUBELET, TALOS_UPGRADE,
};
use super::steps::{DESCRIBE_NODE, KUBELET_LOGS, KUBELET_SERVICE, NODE_VERSION};

pub(super) const NODE_PRESSURE: Text = Text {
    explanation: "The kubelet reports that the node is running out of memory, disk space or process IDs, or its network is marked as unavailable. Under pressure a kubelet evicts pods, deletes images and takes no new pods; eventually this also affects the control plane's own pods.",
    source: KUBERNETES_PRESSURE,
    remedy: &[
        DESCRIBE_NODE,
        Look("talosctl -n NODE memory"),
        Look("talosctl -n NODE mounts"),
        Look("talosctl -n NODE usage -d 2 /var"),
        Do(
            "Find what uses the resource: logs, images, volumes in /var, pods without limits. An unavailable network has to be fixed in the network plugin or the cloud's route controller.",
        ),
    ],
};

pub(super) const NODE_CONDITION: Text = Text {
    explanation: "A node condition that Kubernetes itself does not set is True. Such conditions come from node-problem-detector or a cloud provider and report what the kubelet cannot see: a kernel deadlock, a read-only file system, a machine that is about to be terminated.",
    source: KUBERNETES_NODE_HEALTH,
    remedy: &[
        DESCRIBE_NODE,
        Look("talosctl -n NODE dmesg"),
        Do(
            "The reason and the message of the condition describe the problem. To make it a failure, use `--fail-on node-condition=TYPE`.",
        ),
    ],
};

pub(super) const CSR_PENDING: Text = Text {
    explanation: "A kubelet has requested a certificate, and the request was neither approved nor denied. Without its serving certificate nothing that connects to the kubelet works: logs, exec, metrics, and Talos's own view of the static pods. With `rotate-server-certificates` every node sends such requests, and Talos approves none of them automatically.",
    source: KUBERNETES_TLS,
    remedy: &[
        Look("kubectl get csr"),
        Look("kubectl describe csr CSR"),
        Do(
            "Approve a request only if its node is yours and has these addresses; better, install an approver that checks this.",
        ),
        Change("kubectl certificate approve CSR"),
    ],
};

pub(super) const CSR_DENIED: Text = Text {
    explanation: "A kubelet's certificate request was denied, by an administrator or by an approver that does not accept its names or addresses, and no later request of this kubelet has been issued. The kubelet requests again and is denied again. Without its serving certificate nothing that connects to the kubelet works: logs, exec, metrics, and Talos's own view of the static pods.",
    source: KUBERNETES_TLS,
    remedy: &[
        Look("kubectl get csr"),
        Look("kubectl describe csr CSR"),
        Do("Look at the log of the approver: it shows which name or address is not accepted."),
    ],
};

pub(super) const CSR_NOT_ISSUED: Text = Text {
    explanation: "A kubelet's certificate request was approved, but kube-controller-manager, which signs it, has not issued the certificate. Its signing controllers are disabled, have no CA key, or refuse the request. Without a new certificate the kubelet stops working when the current one expires; a new node cannot join.",
    source: KUBERNETES_TLS,
    remedy: &[
        Look("kubectl describe csr CSR"),
        Look("kubectl -n kube-system logs -l k8s-app=kube-controller-manager --tail=100"),
        Do("Check `cluster.controllerManager.extraArgs` for options that disable or change signing."),
    ],
};

pub(super) const NODE_NOT_REGISTERED: Text = Text {
    explanation: "A machine runs Talos and should be a Kubernetes node, but Kubernetes does not list it. Its kubelet has not registered: it cannot reach the API server, its bootstrap token is not accepted, it waits for its certificate, or it has registered under another name.",
    source: TALOS_TROUBLESHOOTING_KUBELET,
    remedy: &[
        KUBELET_SERVICE,
        KUBELET_LOGS,
        Do("Look at the certificate requests (needs administrator rights):"),
        Look("kubectl get csr"),
        Look("talosctl -n NODE get nodename"),
        Change("talosctl -n NODE service kubelet restart"),
    ],
};

pub(super) const NODENAME_MISMATCH: Text = Text {
    explanation: "The machine has one hostname, but its kubelet has registered under another; the machine ID shows that it is the same machine. The hostname has changed since, usually because it comes from DHCP or the platform. Talos then waits for a Node that does not exist, and cannot drain or cordon it.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("talosctl -n NODE get nodename"),
        Look("talosctl -n NODE get hostnamestatus"),
        Look("kubectl get nodes -o wide"),
        KUBELET_LOGS,
        Do("Set the hostname in the machine configuration, so that nothing else changes it."),
        Do("If the new name is intended: drain the Node, let the kubelet register again, and delete the old Node."),
        Change("talosctl -n NODE service kubelet restart"),
    ],
};

pub(super) const DUPLICATE_NAME: Text = Text {
    explanation: "The machine that discovery knows by this name is not the one that registered the Node: their machine IDs differ. Two machines with one hostname share one Node, and its addresses and pods change from one to the other. A machine that was wiped and reinstalled looks the same for up to 30 minutes, until discovery has forgotten its old ID.",
    source: TALOS_DISCOVERY,
    remedy: &[
        Look("talosctl -n CP get affiliates -o yaml"),
        Look("kubectl get nodes -o wide"),
        Do("Give each machine its own hostname, and delete the Node; the kubelets then register again."),
    ],
};

pub(super) const NODE_ADDRESS: Text = Text {
    explanation: "The InternalIP of a Node is not an address of its machine, or another Node has it, too, or the Node has no address at all. The API server uses it for the kubelet (logs, exec, metrics) and the network plugin for the pods, so both reach nothing, or another machine. Usually a machine has several networks and the kubelet has picked the wrong one. It is the same on all machines, like a hypervisor's NAT network, or no longer exists. Or flannel of two nodes has taken such an address, or a virtual IP is held by two machines at once, so that packets sometimes reach one machine, sometimes the other.",
    source: KUBERNETES_NODES,
    remedy: &[
        Look("kubectl get nodes -o wide"),
        Look("talosctl -n NODE get nodeips"),
        Look("talosctl -n NODE get addresses"),
        Do(
            "Set the right subnet in the machine configuration (`machine.kubelet.nodeIP.validSubnets`); the kubelet then registers again.",
        ),
        Do(
            "flannel's public-ip: give flannel the right interface (`--iface` in `cluster.network.cni.flannel.extraArgs`).",
        ),
        Do(
            "A virtual IP on two machines: repair what moves it (etcd for Talos's own, leases for kube-vip), then reboot the machine that should not have it.",
        ),
    ],
};

pub(super) const POD_CIDR_SHARED: Text = Text {
    explanation: "The podCIDRs of two Nodes overlap, so pods on both can get the same address, and flannel sends what is meant for one node's pods to the other. kube-controller-manager never assigns a range twice while it works on one etcd. It happens after etcd was restored from a snapshot that does not know one of the Nodes, when two controller managers assign ranges, or when a range was set by hand. A network plugin that assigns its own ranges (Cilium in its default mode, Calico) is not affected.",
    source: KUBERNETES_NETWORK,
    remedy: &[
        Look("kubectl get nodes -o custom-columns=NAME:.metadata.name,CIDRS:.spec.podCIDRs"),
        Do(
            "The range of a Node cannot be changed. Only once the newer of the two is drained, delete it and reboot its machine: it registers again, and its bridge gets an address of the new range:",
        ),
        Change("kubectl delete node NODENAME"),
        Change("talosctl -n NODE reboot"),
    ],
};

pub(super) const NODE_NOT_READY: Text = Text {
    explanation: "Kubernetes reports the node as not Ready, with the reason in the message. `Unknown` means that the kubelet has stopped reporting: the machine is down, cut off, or its kubelet has stopped. `False` comes from the kubelet itself, usually because of the network or the container runtime.",
    source: KUBERNETES_NODES,
    remedy: &[DESCRIBE_NODE, KUBELET_SERVICE, KUBELET_LOGS, NODE_VERSION],
};

pub(super) const NODE_LEASE_STALE: Text = Text {
    explanation: "The kubelet renews a lease every 10 seconds to show that it is alive, and has stopped doing so. The Ready condition follows only after about 50 seconds, so the node may still be shown as Ready. The kubelet or the machine is down, or cannot reach the API server.",
    source: KUBERNETES_NODES,
    remedy: &[Look("kubectl -n kube-node-lease get lease NODENAME -o yaml"), KUBELET_SERVICE, NODE_VERSION],
};

pub(super) const NODE_FLAPPING: Text = Text {
    explanation: "The node was Ready in two consecutive rounds, but its condition changed in between: for a while it was not. Its kubelet, its network plugin or its connection to the API servers is unstable. With `--stable-for`, the stability period starts over.",
    source: KUBERNETES_NODES,
    remedy: &[
        DESCRIBE_NODE,
        Look("kubectl get events --field-selector involvedObject.kind=Node"),
        Look("talosctl -n NODE logs kubelet"),
    ],
};

pub(super) const CNI_MISSING: Text = Text {
    explanation: "Nodes are not Ready because no network plugin is installed. With `cni: none` in the machine configuration this is normal after a bootstrap, until one is installed; otherwise its DaemonSet does not come up.",
    source: KUBERNETES_NETWORK,
    remedy: &[
        Look("kubectl -n kube-system get daemonsets"),
        DESCRIBE_NODE,
        Do("Install the cluster's network plugin."),
    ],
};

pub(super) const CORDONED_BY_TALOS: Text = Text {
    explanation: "Talos has cordoned the node for an upgrade or reboot, and uncordons it when it is up again. If the node has been running for a long time, the upgrade or reboot was interrupted.",
    source: TALOS_UPGRADE,
    remedy: &[
        DESCRIBE_NODE,
        Look("talosctl -n NODE get machinestatus"),
        Do("If the machine is in stage running and no upgrade is in progress:"),
        Change("kubectl uncordon NODENAME"),
    ],
};

pub(super) const CORDONED: Text = Text {
    explanation: "An administrator or a controller has cordoned the node. No new pods are scheduled there until it is uncordoned.",
    source: KUBERNETES_DRAIN,
    remedy: &[DESCRIBE_NODE, Do("Find out who cordoned it and why. Then:"), Change("kubectl uncordon NODENAME")],
};

pub(super) const UNINITIALIZED: Text = Text {
    explanation: "The node waits for a cloud controller manager to initialize it, and takes no ordinary pods until then. The controller is not installed, does not run, or does not find the machine in its cloud.",
    source: KUBERNETES_NODES,
    remedy: &[
        DESCRIBE_NODE,
        Look("kubectl get pods -A -o wide"),
        Do("Look at the log of the cloud controller manager."),
    ],
};

pub(super) const OUT_OF_SERVICE: Text = Text {
    explanation: "The node is ready and has the taint node.kubernetes.io/out-of-service. An administrator or a controller sets it when the machine is lost, so that its pods and volumes move elsewhere; it stays until it is removed. Until then all pods that do not tolerate it are evicted.",
    source: KUBERNETES_NODES,
    remedy: &[
        DESCRIBE_NODE,
        Do("Make sure that nothing is replacing the machine. Then:"),
        Change("kubectl taint node NODENAME node.kubernetes.io/out-of-service-"),
    ],
};

pub(super) const STALE_TAINT: Text = Text {
    explanation: "The node has a taint that Kubernetes sets while a condition lasts (not ready, unreachable, under pressure, without network, cordoned), and the condition is over. Pods that do not tolerate the taint are not scheduled there; with effect NoExecute running pods are evicted. kube-controller-manager removes such a taint within seconds, if it works and has set it itself. A taint `…/agent-not-ready` is removed by the network plugin or storage driver once its agent on the node works.",
    source: KUBERNETES_NODES,
    remedy: &[
        DESCRIBE_NODE,
        Look("kubectl -n kube-system get lease kube-controller-manager"),
        Do("Find out what has set the taint: a script, an operator, a configuration of the kubelet. Then:"),
        Change("kubectl taint node NODENAME KEY-"),
    ],
};

pub(super) const NOTHING_ALLOCATABLE: Text = Text {
    explanation: "The node is Ready, but has no allocatable CPU, memory or pods, so the scheduler places no pod there. Usually the kubelet's configuration reserves as much as the machine has (`systemReserved`, `kubeReserved`, `evictionHard`) or sets `maxPods` to 0.",
    source: KUBERNETES_NODES,
    remedy: &[
        DESCRIBE_NODE,
        Look("talosctl -n NODE get kubeletconfig -o yaml"),
        Do("Correct `machine.kubelet.extraConfig` in the machine configuration; the kubelet restarts with it."),
    ],
};

pub(super) const NOTHING_SCHEDULABLE: Text = Text {
    explanation: "Every node that takes workloads is cordoned, tainted, without anything allocatable, or not ready. Running pods keep running; new ones stay Pending, and so does every pod that is evicted or recreated.",
    source: KUBERNETES_DRAIN,
    remedy: &[
        Look("kubectl get nodes"),
        DESCRIBE_NODE,
        Do(
            "Find out what cordoned or tainted the nodes: an interrupted upgrade, a script, a missing controller. Then:",
        ),
        Change("kubectl uncordon NODENAME"),
    ],
};

pub(super) const NODE_LEAVING: Text = Text {
    explanation: "The node is being removed, by an autoscaler or because its Node object is being deleted. For 30 minutes from then on it is listed but not checked. After that, or if a flag names it, it is checked like any other node. A control plane is always checked while it is an etcd member.",
    source: KUBERNETES_NODES,
    remedy: &[DESCRIBE_NODE, Do("Nothing to do, unless it stays like this.")],
};

pub(super) const NOT_TALOS_NOT_READY: Text = Text {
    explanation: "A Kubernetes node that does not run Talos is not Ready. This is only a warning, because nothing else is known about such a machine.",
    source: KUBERNETES_NODES,
    remedy: &[DESCRIBE_NODE],
};

pub(super) const TOO_MANY_UNREADY: Text = Text {
    explanation: "More workers are not ready than `--max-unready-workers` allows. The report lists them, each with its own reason.",
    source: KUBERNETES_NODES,
    remedy: &[Look("kubectl get nodes"), Do("Look for what they have in common: a rack, a network, an upgrade.")],
};
