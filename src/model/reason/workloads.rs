//! Control plane components, nodes in Kubernetes, workloads; and what any check can say.

use super::Step::{Change, Do, Look};
use super::Text;
use super::sources::{
    KUBERNETES_AGGREGATION, KUBERNETES_CONVERSION, KUBERNETES_CSI, KUBERNETES_DNS, KUBERNETES_DRAIN, KUBERNETES_IMAGES,
    KUBERNETES_LEASES, KUBERNETES_NETWORK, KUBERNETES_NODE_HEALTH, KUBERNETES_NODES, KUBERNETES_PODS,
    KUBERNETES_PRESSURE, KUBERNETES_SKEW, KUBERNETES_TLS, KUBERNETES_WEBHOOKS, TALOS_DISCOVERY, TALOS_TROUBLESHOOTING,
    TALOS_TROUBLESHOOTING_CONTROL_PLANE, TALOS_TROUBLESHOOTING_KUBELET, TALOS_UPGRADE,
};
use super::steps::{CONTAINERS, DESCRIBE_NODE, ETCD_SERVICE, ETCD_STATUS, KUBELET_LOGS, KUBELET_SERVICE, NODE_VERSION};

pub(super) const COMPONENT_MISSING: Text = Text {
    explanation: "A control plane component should run on this control plane but does not exist there. The kubelet has not started it, or Talos has not rendered its static pod, which needs etcd.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("talosctl -n NODE get staticpods"),
        CONTAINERS,
        KUBELET_LOGS,
        Look("talosctl -n NODE logs controller-runtime"),
    ],
};

pub(super) const COMPONENT_NOT_READY: Text = Text {
    explanation: "A control plane component exists but is not ready. This is normal for a short time after a start. If it persists, its log shows why: a wrong argument, a certificate, an API server or etcd that it cannot reach.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[CONTAINERS, Look("talosctl -n NODE logs --kubernetes kube-system/POD:CONTAINER"), KUBELET_LOGS],
};

pub(super) const CRASH_LOOPING: Text = Text {
    explanation: "A container exits soon after each start, and the kubelet waits longer and longer before it restarts it. The exit code and the last log lines show why. Exit code 137 means that the kernel or the kubelet killed it, usually for lack of memory.",
    source: KUBERNETES_PODS,
    remedy: &[
        CONTAINERS,
        Look("talosctl -n NODE logs --kubernetes kube-system/POD:CONTAINER"),
        Look("kubectl -n kube-system logs POD --previous"),
        Look("kubectl -n kube-system describe pod POD"),
    ],
};

pub(super) const RESTARTING: Text = Text {
    explanation: "The pod is ready, and one of its containers has been restarted since the previous round of this run, or has crashed repeatedly, the last time within 10 minutes, while its node was ready. After a bootstrap or an upgrade a few restarts are normal. Otherwise the container exits from time to time, or is killed by a failing liveness probe. With `--stable-for`, the stability period starts over.",
    source: KUBERNETES_PODS,
    remedy: &[
        CONTAINERS,
        Look("talosctl -n NODE logs --kubernetes kube-system/POD:CONTAINER"),
        Look("kubectl -n kube-system logs POD --previous"),
        Look("kubectl -n kube-system describe pod POD"),
    ],
};

pub(super) const NOT_LEADING: Text = Text {
    explanation: "Only one instance of kube-controller-manager and of kube-scheduler is active at a time: the one that renews the lease of that name in kube-system. The lease has not been renewed lately, so nothing is scheduled, or no controller acts, although the processes may run and look healthy. Usually the instances cannot reach an API server, or etcd is too slow for them to keep the lease.",
    source: KUBERNETES_LEASES,
    remedy: &[
        Look("kubectl -n kube-system get lease kube-controller-manager kube-scheduler -o yaml"),
        CONTAINERS,
        Look("talosctl -n NODE logs --kubernetes kube-system/POD:CONTAINER"),
        Do("Look there for `leaderelection lost`, `failed to acquire lease`, and connection errors."),
        ETCD_STATUS,
    ],
};

pub(super) const FOREIGN_LEADER: Text = Text {
    explanation: "The lease of kube-controller-manager or kube-scheduler is held and renewed by an instance on a host that is none of the known control planes. The instances on the control planes only stand by, so what schedules pods or runs the controllers is one that no check looks at, possibly of another version. Usually a control plane was removed from the cluster but not reset, and still runs.",
    source: KUBERNETES_LEASES,
    remedy: &[
        Look("kubectl -n kube-system get lease kube-controller-manager kube-scheduler -o yaml"),
        Look("kubectl get nodes -o wide"),
        Do(
            "Find the host that the lease names. If it was removed from the cluster, shut it down or reset it; another instance takes over within seconds.",
        ),
    ],
};

pub(super) const ELECTION_OFF: Text = Text {
    explanation: "Only one instance of kube-controller-manager and of kube-scheduler may be active at a time. One with `--leader-elect=false` is always active, alongside the elected leader: two schedulers fill the same node, two controller managers create the same objects. The flag is meant for a single control plane, and often stays in the machine configuration when a second one joins.",
    source: KUBERNETES_LEASES,
    remedy: &[
        Look("kubectl -n kube-system get pods -l tier=control-plane -o yaml"),
        Do(
            "Remove `leader-elect` from `extraArgs` of `cluster.controllerManager` and `cluster.scheduler`, on every control plane.",
        ),
    ],
};

pub(super) const VERSION_SKEW: Text = Text {
    explanation: "The version of a component is outside of Kubernetes' version skew policy. API servers may be one minor version apart. kube-controller-manager and kube-scheduler may be one older than the API servers, never newer. A kubelet may be three older (two before 1.25), never newer. Usually an upgrade stopped halfway, or a machine was added with a configuration for another version.",
    source: KUBERNETES_SKEW,
    remedy: &[
        Look("kubectl get nodes -o wide"),
        Look("talosctl -n CP get staticpods -o yaml"),
        Do(
            "Upgrade all components to the newest version in use; a downgrade is not supported. Preview the changes first, and apply them only while the rest of the cluster is healthy:",
        ),
        Look("talosctl -n CP upgrade-k8s --to VERSION --dry-run"),
        Change("talosctl -n CP upgrade-k8s --to VERSION"),
    ],
};

pub(super) const NODE_PRESSURE: Text = Text {
    explanation: "The kubelet reports that the node runs out of memory, disk space or process IDs, or its network is marked as unavailable. Under pressure a kubelet evicts pods, deletes images and takes no new pods; in the end this also affects the control plane's own pods.",
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
    explanation: "A kubelet has requested a certificate, and the request was neither approved nor denied. Without its serving certificate nothing that connects to the kubelet works: logs, exec, metrics, and Talos's own view of the static pods. With `rotate-server-certificates` every node sends such requests, and Talos approves none of them by itself.",
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
        Do("Look at the log of the approver: it says which name or address it does not accept."),
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
    explanation: "The InternalIP of a Node is not an address of its machine, or another Node has it, too, or the Node has no address at all. The API server uses it for the kubelet (logs, exec, metrics) and the network plugin for the pods, so both reach nothing, or another machine. Usually a machine has several networks and the kubelet has picked the wrong one. It is the same on all machines, like a hypervisor's NAT network, or no longer exists. Or flannel of two nodes has taken such an address, or a virtual IP is held by two machines at once, so that packets for both reach now one and now the other.",
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
    explanation: "The node is Ready, but of CPU, memory or pods it has nothing allocatable, so the scheduler places no pod there. Usually the kubelet's configuration reserves as much as the machine has (`systemReserved`, `kubeReserved`, `evictionHard`) or sets `maxPods` to 0.",
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

pub(super) const DAEMONSET_INCOMPLETE: Text = Text {
    explanation: "A DaemonSet that every node needs (kube-proxy, the network plugin) is not available on all of them. Nodes without it have no working Service or pod network. This is normal for a while during a rollout.",
    source: KUBERNETES_PODS,
    remedy: &[
        Look("kubectl -n kube-system get daemonsets"),
        Look("kubectl -n kube-system get pods -o wide"),
        Look("kubectl -n kube-system describe pod POD"),
    ],
};

pub(super) const MANIFESTS_NOT_APPLIED: Text = Text {
    explanation: "A control plane applies the bootstrap manifests as soon as the API works: RBAC for kubelets that join, kube-proxy, flannel, CoreDNS. No control plane has the missing ones in its `ManifestStatuses`. Either the cluster was bootstrapped a moment ago, or the API server refuses a manifest, which holds up all of them, or the control planes do not reach the API.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("talosctl -n CP get manifeststatus -o yaml"),
        Look("talosctl -n CP get manifests"),
        Look("talosctl -n CP logs controller-runtime"),
        Do(
            "Look there for the name of a manifest and the error of the API server. Correct that manifest in `cluster.inlineManifests` or `cluster.extraManifests`, or repair what makes the API server refuse it, such as a webhook that does not answer. Talos then tries again by itself.",
        ),
    ],
};

pub(super) const DAEMONSET_MISSING: Text = Text {
    explanation: "The machine configuration enables this DaemonSet, but Kubernetes does not have it. It was deleted, or Talos has not applied its manifests since the cluster was bootstrapped.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("kubectl -n kube-system get daemonsets"),
        Look("talosctl -n CP get manifeststatus -o yaml"),
        Do(
            "If it is not wanted, disable it in the machine configuration. Otherwise let Talos apply its manifests again, with the current VERSION. Preview the changes first, and apply them only while the rest of the cluster is healthy:",
        ),
        Look("talosctl -n CP upgrade-k8s --to VERSION --dry-run"),
        Change("talosctl -n CP upgrade-k8s --to VERSION"),
    ],
};

pub(super) const DNS_SCALED_TO_ZERO: Text = Text {
    explanation: "The Deployment of cluster DNS has 0 replicas, so no pod can resolve names. It was scaled down and not scaled up again.",
    source: KUBERNETES_DNS,
    remedy: &[
        Look("kubectl -n kube-system get deployment coredns"),
        Change("kubectl -n kube-system scale deployment coredns --replicas=2"),
    ],
};

pub(super) const DNS_NO_ENDPOINTS: Text = Text {
    explanation: "The Service of cluster DNS has no ready endpoint, so no pod can resolve names. Its pods are Pending (often because the network plugin is missing or no node takes them), or crash.",
    source: KUBERNETES_DNS,
    remedy: &[
        Look("kubectl -n kube-system get pods -l k8s-app=kube-dns -o wide"),
        Look("kubectl -n kube-system describe pods -l k8s-app=kube-dns"),
        Look("kubectl -n kube-system logs -l k8s-app=kube-dns"),
    ],
};

pub(super) const DNS_DEGRADED: Text = Text {
    explanation: "Cluster DNS has fewer ready pods than replicas, or its rollout is stuck, so it has less redundancy than intended. Endpoints on nodes that are not ready do not count. It is a warning while pods start. It is a failure once a pod has not become ready for 5 minutes: it crashes, no node takes it, or the pod network of its node is broken.",
    source: KUBERNETES_DNS,
    remedy: &[
        Look("kubectl -n kube-system get pods -l k8s-app=kube-dns -o wide"),
        Look("kubectl -n kube-system describe pods -l k8s-app=kube-dns"),
        Look("kubectl -n kube-system logs -l k8s-app=kube-dns"),
        Do("Check whether other pods on the same node start and reach the API server."),
    ],
};

pub(super) const DNS_MISSING: Text = Text {
    explanation: "The machine configuration enables cluster DNS, but Kubernetes has neither its Deployment nor a replacement with ready endpoints. It was deleted, or never applied. Where the configuration cannot be read, as with `--no-talos`, DNS may also be disabled: then this could not be determined and is not a failure.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("kubectl -n kube-system get deployments"),
        Look("talosctl -n CP get manifeststatus -o yaml"),
        Do(
            "If another DNS is used, set `cluster.coreDNS.disabled` in the machine configuration or, without Talos, use `--skip k8s.dns`.",
        ),
    ],
};

pub(super) const WORKLOAD_UNAVAILABLE: Text = Text {
    explanation: "A DaemonSet, Deployment or StatefulSet of kube-system or of the network plugin has no available pod, so its function is missing: metrics, storage, network policies or others. Its image cannot be pulled, its pods crash or cannot be scheduled, or the cluster has just started.",
    source: KUBERNETES_PODS,
    remedy: &[
        Look("kubectl -n NAMESPACE describe deployment NAME"),
        Look("kubectl -n NAMESPACE get pods -o wide"),
        Look("kubectl -n NAMESPACE describe pod POD"),
    ],
};

pub(super) const WORKLOAD_DEGRADED: Text = Text {
    explanation: "A DaemonSet, Deployment or StatefulSet of kube-system or of the network plugin has fewer available pods than desired. It is a warning while something changes, as in a rollout. It is a failure once nothing has changed for 5 minutes, or the rollout has exceeded its deadline (ProgressDeadlineExceeded): then it does not recover by itself.",
    source: KUBERNETES_PODS,
    remedy: &[
        Look("kubectl -n NAMESPACE describe deployment NAME"),
        Look("kubectl -n NAMESPACE get pods -o wide"),
        Look("kubectl -n NAMESPACE describe pod POD"),
        Do(
            "If a rollout is stuck on a new version that does not start, look at its pods, then roll back to the previous version:",
        ),
        Change("kubectl -n NAMESPACE rollout undo deployment NAME"),
    ],
};

pub(super) const PODS_NOT_SCHEDULED: Text = Text {
    explanation: "A pod for the default scheduler has been pending for more than 5 minutes, and no scheduler has looked at it: it has no condition `PodScheduled`, not even one that says why it does not fit. The scheduler that holds the lease hangs, or its configuration has no profile named `default-scheduler`. Running pods keep running, but no new pod starts anywhere. If a scheduler has looked at a younger pod, it is only a warning: the scheduler is slow, or another component holds this pod back.",
    source: KUBERNETES_PODS,
    remedy: &[
        Look("kubectl -n NAMESPACE describe pod POD"),
        Look("kubectl -n kube-system get lease kube-scheduler -o yaml"),
        Look("kubectl -n kube-system logs -l k8s-app=kube-scheduler --tail=50"),
        Look("talosctl -n CP get schedulerconfigs -o yaml"),
        Do(
            "Fix the configuration that the log names. If the scheduler hangs, restart its pod on the node that holds the lease; another instance takes over.",
        ),
    ],
};

pub(super) const CONVERSION_UNAVAILABLE: Text = Text {
    explanation: "The objects of a custom resource are stored in one version and requested in another, and the webhook that converts them has no working backend. Every list of this resource fails. The garbage collector and the namespace controller list all resources, so nothing that was deleted is cleaned up in the whole cluster, and namespaces stay in Terminating. Usually the operator that serves the webhook is down, or it was removed and its CustomResourceDefinitions were not.",
    source: KUBERNETES_CONVERSION,
    remedy: &[
        Look("kubectl get crd NAME -o jsonpath={.spec.conversion}"),
        Look("kubectl -n NAMESPACE get endpointslices -o wide"),
        Look("kubectl -n NAMESPACE get pods -o wide"),
        Do("Start the operator that serves the webhook."),
        Do(
            "If it was removed for good, install it once more, delete the objects of the resource, and then the CustomResourceDefinition.",
        ),
    ],
};

pub(super) const NODE_CANNOT_ATTACH: Text = Text {
    explanation: "The node is Ready, but several of its pods have waited for their volumes for more than 5 minutes. The storage driver has not registered with the kubelet there, or it fails on this node: a missing system extension or kernel module, records that an upgrade left behind, a driver that crashes. A single waiting pod would be its own matter; several on one node are the node's. Pods that already have their volumes keep running, so the failure is easily overlooked, and every further machine that is upgraded loses its volumes, too.",
    source: KUBERNETES_CSI,
    remedy: &[
        Look("kubectl -n NAMESPACE describe pod POD"),
        Look("kubectl get csinode NODENAME -o yaml"),
        Look("kubectl get volumeattachments"),
        Look("kubectl get pods -A -o wide --field-selector spec.nodeName=NODENAME"),
        Do(
            "Is the pod of the driver's DaemonSet ready on this node? Its log, and that of its registrar, show why not.",
        ),
        Look("talosctl -n NODE get extensions"),
        Do(
            "If the machine was just upgraded, compare its system extensions with those of a machine on which volumes attach.",
        ),
        Do("Do not upgrade another machine until volumes attach here."),
    ],
};

pub(super) const NODE_CANNOT_PULL: Text = Text {
    explanation: "Many pods of several workloads on one node have waited for their images for more than 5 minutes, and the same images run on other nodes. So the images exist, and it is this node that does not get them: its DNS, its route or proxy to the registry, a mirror in its configuration, its clock, or one pull that blocks all others.",
    source: KUBERNETES_IMAGES,
    remedy: &[
        Look("kubectl -n NAMESPACE describe pod POD"),
        Look("talosctl -n NODE logs cri"),
        Look("talosctl -n NODE get resolvers"),
        Do("Compare registry mirrors, proxy and DNS of the machine with those of one that pulls the image."),
        Look("talosctl -n NODE image list"),
    ],
};

pub(super) const PODS_CANNOT_START: Text = Text {
    explanation: "The node is Ready, but pods scheduled to it have waited for their sandbox for more than a minute, so their containers cannot start. Running pods keep running, so the failure is easily overlooked. The network plugin or the container runtime of the node is broken. Its DaemonSet does not run there, it has no addresses left, or the Node was deleted and registered again: then it has a new podCIDR, but the bridge `cni0` keeps its old address. If another pod got its sandbox there later, the problem is the waiting pod's own (such as a RuntimeClass that the node does not have), and only a warning.",
    source: KUBERNETES_NETWORK,
    remedy: &[
        Look("kubectl -n NAMESPACE describe pod POD"),
        Look("kubectl get pods -A -o wide --field-selector spec.nodeName=NODENAME"),
        Look("talosctl -n NODE service cri"),
        Look("talosctl -n NODE get addresses"),
        Do(
            "If the events report that `cni0` already has a different address, the podCIDR of the Node has changed. A reboot recreates the bridge. Drain the node first, because its running pods lose their network:",
        ),
        Change("kubectl drain NODENAME --ignore-daemonsets --delete-emptydir-data"),
        Change("talosctl -n NODE reboot"),
    ],
};

pub(super) const WEBHOOK_UNAVAILABLE: Text = Text {
    explanation: "An admission webhook names a Service without a ready endpoint. If its failurePolicy is Fail, the API server refuses every request that matches the webhook: pods are not created, kubelets cannot update their Nodes, leases are not renewed. If it is Ignore, whatever the webhook checks or adds is skipped.",
    source: KUBERNETES_WEBHOOKS,
    remedy: &[
        Look("kubectl get validatingwebhookconfigurations"),
        Look("kubectl get mutatingwebhookconfigurations"),
        Look("kubectl -n NAMESPACE get endpointslices -l kubernetes.io/service-name=SERVICE"),
        Look("kubectl -n NAMESPACE get pods"),
        Do(
            "Repair the pods behind the Service. Only if they cannot start because of the webhook itself, delete its configuration; the controller behind it creates it again:",
        ),
        Change("kubectl delete validatingwebhookconfiguration NAME"),
    ],
};

pub(super) const APISERVICE_UNAVAILABLE: Text = Text {
    explanation: "The API server forwards an API group to a Service and gets no usable answer, so requests to that group fail, discovery is incomplete, and namespaces may stay in Terminating. The reason of the condition Available shows whether the Service, its endpoints, or the connection is missing.",
    source: KUBERNETES_AGGREGATION,
    remedy: &[
        Look("kubectl get apiservices"),
        Look("kubectl describe apiservice NAME"),
        Do("Repair the Service and its pods. If the aggregated API is no longer wanted, delete its APIService:"),
        Change("kubectl delete apiservice NAME"),
    ],
};

pub(super) const STATIC_POD_MISSING: Text = Text {
    explanation: "The kubelet does not report a static pod that Talos has rendered. The kubelet is down, has not processed it yet, or rejects its definition.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        KUBELET_LOGS,
        Look("talosctl -n NODE logs controller-runtime"),
        Look("talosctl -n NODE get staticpods"),
        Look("talosctl -n NODE get staticpodstatus"),
    ],
};

pub(super) const STATIC_POD_NOT_RENDERED: Text = Text {
    explanation: "Talos has not rendered a static pod that the configuration requires. It waits for something: usually etcd, time synchronization or certificates.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        ETCD_SERVICE,
        Look("talosctl -n NODE get staticpods"),
        Look("talosctl -n NODE get configstatuses"),
        Look("talosctl -n NODE logs controller-runtime"),
    ],
};

pub(super) const STATIC_POD_FAILED: Text = Text {
    explanation: "A static pod exists but is not ready. The states of its containers show why: an image that cannot be pulled, a crash with an exit code, a failing probe.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[CONTAINERS, Look("talosctl -n NODE logs --kubernetes kube-system/POD:CONTAINER"), KUBELET_LOGS],
};

pub(super) const STATUS_STALE: Text = Text {
    explanation: "The statuses of the static pods on this node have not been refreshed, so they are out of date. Talos reads them from the kubelet; this fails when the kubelet is down, or when its serving certificate was never approved.",
    source: TALOS_TROUBLESHOOTING_KUBELET,
    remedy: &[
        KUBELET_SERVICE,
        Do("Look at the certificate requests (needs administrator rights):"),
        Look("kubectl get csr"),
        Do("Review and approve each pending request of the signer `kubernetes.io/kubelet-serving`:"),
        Change("kubectl certificate approve CSR"),
    ],
};

pub(super) const SERVER_CHECK_FAILED: Text = Text {
    explanation: "Talos's own health check (run because of `--server`) reported this problem in its own words. It runs on a control plane, so it may see problems that this runner cannot see, and the reverse.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n CP health --server=true"),
        Do("Look first at the other checks of the same node or component; they are more specific."),
    ],
};

pub(super) const SERVER_CHECK_UNFINISHED: Text = Text {
    explanation: "Talos's own health check (run because of `--server`) did not finish within the round, or its stream ended early. This says nothing about the cluster. It runs its checks one after the other, and takes minutes on a large cluster.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Do("Allow more time with `--attempt-timeout`, or omit `--server`."),
        Look("talosctl -n CP health --server=true"),
    ],
};

pub(super) const TOO_MANY_UNREADY: Text = Text {
    explanation: "More workers are not ready than `--max-unready-workers` allows. The report lists them, each with its own reason.",
    source: KUBERNETES_NODES,
    remedy: &[Look("kubectl get nodes"), Do("Look at what they have in common: a rack, a network, an upgrade.")],
};

pub(super) const UNREADABLE_ANSWER: Text = Text {
    explanation: "An answer does not have the expected form. Something else listens on the port, a proxy has returned its own page, or cluster-health does not know the version of the server.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        NODE_VERSION,
        Look("kubectl version"),
        Do("If it persists, report it with the output of `cluster-health -o json`."),
    ],
};

pub(super) const ANSWER_TOO_LARGE: Text = Text {
    explanation: "An answer exceeded the size limit, so it was not used. In a very large cluster this can be legitimate; otherwise something else answers.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("kubectl get pods -n kube-system"),
        Do("If the size is legitimate, leave the check out with `--skip`."),
    ],
};

pub(super) const NOT_SUPPORTED_BY_VERSION: Text = Text {
    explanation: "The version of Talos on this node does not provide what the check reads, so it could not run there.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[NODE_VERSION, Do("Upgrade Talos, or leave the check out with `--skip`.")],
};

pub(super) const NO_ANSWER: Text = Text {
    explanation: "No answer arrived in time, or it was empty or lacks what a healthy cluster reports. This does not count as a pass. Usually the machine or the API server is overloaded, starting or shutting down.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[NODE_VERSION, Do("Allow more time with `--attempt-timeout`, or wait with `--wait-timeout`.")],
};
