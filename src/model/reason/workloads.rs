//! Control plane components, nodes in Kubernetes, workloads; and what any check can say.

use super::Step::{Change, Do, Look};
use super::Text;
use super::sources::{
    KUBERNETES_AGGREGATION, KUBERNETES_DNS, KUBERNETES_DRAIN, KUBERNETES_LEASES, KUBERNETES_NETWORK,
    KUBERNETES_NODE_HEALTH, KUBERNETES_NODES, KUBERNETES_PODS, KUBERNETES_PRESSURE, KUBERNETES_SKEW, KUBERNETES_TLS,
    KUBERNETES_WEBHOOKS, TALOS_DISCOVERY, TALOS_TROUBLESHOOTING, TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    TALOS_TROUBLESHOOTING_KUBELET, TALOS_UPGRADE,
};
use super::steps::{CONTAINERS, DESCRIBE_NODE, ETCD_SERVICE, ETCD_STATUS, KUBELET_LOGS, KUBELET_SERVICE, NODE_VERSION};

pub(super) const COMPONENT_MISSING: Text = Text {
    explanation: "A control plane component should run on this control plane and does not exist there. The kubelet has not started it, or Talos has not written its static pod, which it does only when etcd is up.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("talosctl -n NODE get staticpods"),
        CONTAINERS,
        KUBELET_LOGS,
        Look("talosctl -n NODE logs controller-runtime"),
    ],
};

pub(super) const COMPONENT_NOT_READY: Text = Text {
    explanation: "A control plane component exists and is not ready. For a short time after a start that is normal. If it lasts, its log shows why: a wrong argument, a certificate, an API server or etcd that it cannot reach.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[CONTAINERS, Look("talosctl -n NODE logs -k kube-system/POD:CONTAINER"), KUBELET_LOGS],
};

pub(super) const CRASH_LOOPING: Text = Text {
    explanation: "A container ends soon after each start, and the kubelet waits longer and longer before it tries again. The exit code and the last log lines show why. Exit code 137 is the kernel's or the kubelet's kill, mostly for memory.",
    source: KUBERNETES_PODS,
    remedy: &[
        CONTAINERS,
        Look("talosctl -n NODE logs -k kube-system/POD:CONTAINER"),
        Look("kubectl -n kube-system logs POD --previous"),
        Look("kubectl -n kube-system describe pod POD"),
    ],
};

pub(super) const RESTARTING: Text = Text {
    explanation: "The pod is ready, and one of its containers has been restarted since the previous round of this run. After a bootstrap or an upgrade a few restarts are normal. Otherwise the container exits from time to time, or a failing liveness probe has it killed. A run with `--stable-for` starts counting again.",
    source: KUBERNETES_PODS,
    remedy: &[
        CONTAINERS,
        Look("talosctl -n NODE logs -k kube-system/POD:CONTAINER"),
        Look("kubectl -n kube-system logs POD --previous"),
        Look("kubectl -n kube-system describe pod POD"),
    ],
};

pub(super) const NOT_LEADING: Text = Text {
    explanation: "Of kube-controller-manager and kube-scheduler one instance works at a time: the one that renews the lease of that name in kube-system. It has not been renewed lately, so nothing is scheduled, or no controller acts, though the processes may run and look well. Usually the instances cannot reach an API server, or etcd is too slow for them to keep the lease.",
    source: KUBERNETES_LEASES,
    remedy: &[
        Look("kubectl -n kube-system get lease kube-controller-manager kube-scheduler -o yaml"),
        CONTAINERS,
        Look("talosctl -n NODE logs -k kube-system/POD:CONTAINER"),
        Do("Look there for `leaderelection lost`, `failed to acquire lease`, and for what it cannot reach."),
        ETCD_STATUS,
    ],
};

pub(super) const ELECTION_OFF: Text = Text {
    explanation: "Of kube-controller-manager and kube-scheduler one instance is to work at a time. One with `--leader-elect=false` works without asking, beside the one that was elected: two schedulers fill the same node, two controller managers create the same objects. It is meant for a single control plane, and stays in the machine configuration when a second one joins.",
    source: KUBERNETES_LEASES,
    remedy: &[
        Look("kubectl -n kube-system get pods -l tier=control-plane -o yaml"),
        Do(
            "Take `leader-elect` out of `extraArgs` of `cluster.controllerManager` and `cluster.scheduler`, on every control plane.",
        ),
    ],
};

pub(super) const VERSION_SKEW: Text = Text {
    explanation: "A component is of a version that Kubernetes does not support beside the others. API servers may be one minor version apart; kube-controller-manager and kube-scheduler may be one older than the API servers and never newer; a kubelet may be three older (two before 1.25) and never newer. It usually comes from an upgrade that stopped halfway, or from a machine that was added with a configuration of another version.",
    source: KUBERNETES_SKEW,
    remedy: &[
        Look("kubectl get nodes -o wide"),
        Look("talosctl -n CP get staticpods -o yaml"),
        Do(
            "Bring all to the newest version that is there; going back to an older one is not supported. See first what would be done, and do it only while the rest of the cluster is healthy:",
        ),
        Look("talosctl -n CP upgrade-k8s --to VERSION --dry-run"),
        Change("talosctl -n CP upgrade-k8s --to VERSION"),
    ],
};

pub(super) const NODE_PRESSURE: Text = Text {
    explanation: "The kubelet reports that the node runs out of memory, disk space or process ids, or its network is marked as unavailable. Under pressure a kubelet evicts pods, deletes images, and takes no new pods; the control plane's own pods are not spared for ever.",
    source: KUBERNETES_PRESSURE,
    remedy: &[
        DESCRIBE_NODE,
        Look("talosctl -n NODE memory"),
        Look("talosctl -n NODE mounts"),
        Look("talosctl -n NODE usage -d 2 /var"),
        Do(
            "Find what takes the resource: logs, images, volumes in /var, pods without limits. An unavailable network has to be fixed in the network plugin or the cloud's route controller.",
        ),
    ],
};

pub(super) const NODE_CONDITION: Text = Text {
    explanation: "A condition of the node that Kubernetes does not set itself is True. Conditions of this kind come from node-problem-detector or from a cloud provider and report what the kubelet cannot see: a kernel deadlock, a file system that became read-only, a machine that is about to be taken away.",
    source: KUBERNETES_NODE_HEALTH,
    remedy: &[
        DESCRIBE_NODE,
        Look("talosctl -n NODE dmesg"),
        Do(
            "The reason and the message of the condition name the problem. Where it is meant to stop a gate, use `--fail-on-node-condition TYPE`.",
        ),
    ],
};

pub(super) const CSR_PENDING: Text = Text {
    explanation: "A kubelet has requested a certificate, and the request was neither approved nor denied. Without its serving certificate nothing that connects to the kubelet works: logs, exec, metrics, and Talos's own view of the static pods. With `rotate-server-certificates` every node asks, and Talos approves none of these by itself.",
    source: KUBERNETES_TLS,
    remedy: &[
        Look("kubectl get csr"),
        Look("kubectl describe csr CSR"),
        Do(
            "Approve a request only if the node it names is yours and has these addresses; better, install an approver that checks this.",
        ),
        Change("kubectl certificate approve CSR"),
    ],
};

pub(super) const NODE_NOT_REGISTERED: Text = Text {
    explanation: "A machine runs Talos and should be a Kubernetes node, and Kubernetes does not know it. Its kubelet has not registered: it cannot reach the control plane endpoint, waits for its certificate, or registered under another name.",
    source: TALOS_TROUBLESHOOTING_KUBELET,
    remedy: &[
        KUBELET_SERVICE,
        KUBELET_LOGS,
        Do("As an administrator, which a monitoring role is not, look at the certificate requests:"),
        Look("kubectl get csr"),
        Look("talosctl -n NODE get nodename"),
        Change("talosctl -n NODE service kubelet restart"),
    ],
};

pub(super) const NODENAME_MISMATCH: Text = Text {
    explanation: "The machine calls itself one name, and its kubelet has registered under another; the machine id shows that it is the same machine. Its host name has changed since, mostly because DHCP or the platform gives it. Talos then waits for a Node that does not exist, and drains and cordons nothing.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("talosctl -n NODE get nodename"),
        Look("talosctl -n NODE get hostnamestatus"),
        Look("kubectl get nodes -o wide"),
        KUBELET_LOGS,
        Do("Give the machine its name in the machine configuration, so that nothing else changes it."),
        Do("If the new name is meant: drain the Node, let the kubelet register again, and delete the old Node."),
        Change("talosctl -n NODE service kubelet restart"),
    ],
};

pub(super) const DUPLICATE_NAME: Text = Text {
    explanation: "The machine that discovery knows by this name is not the one that registered the Node: their machine ids differ. Two machines with one host name share one Node, and its addresses and pods change from one to the other. A machine that was wiped and reinstalled looks the same for up to 30 minutes, until discovery has forgotten what it was before.",
    source: TALOS_DISCOVERY,
    remedy: &[
        Look("talosctl -n CP get affiliates -o yaml"),
        Look("kubectl get nodes -o wide"),
        Do("Give each machine a host name of its own, and delete the Node; the kubelets then register again."),
    ],
};

pub(super) const NODE_ADDRESS: Text = Text {
    explanation: "The InternalIP of a Node is none of its machine's addresses, or is that of another Node as well. There the API server looks for the kubelet (logs, exec, metrics) and the network plugin for the pods, and finds nothing, or another machine. Usually a machine has several networks and the kubelet has taken the wrong one: one that is the same on all machines, as that of a hypervisor's NAT, or one that is gone since.",
    source: KUBERNETES_NODES,
    remedy: &[
        Look("kubectl get nodes -o wide"),
        Look("talosctl -n NODE get nodeips"),
        Look("talosctl -n NODE get addresses"),
        Do(
            "Say in the machine configuration which subnet is meant (`machine.kubelet.nodeIP.validSubnets`); the kubelet then registers again.",
        ),
    ],
};

pub(super) const NODE_NOT_READY: Text = Text {
    explanation: "Kubernetes reports the node as not Ready, with the reason in the message. `Unknown` means that the kubelet has gone silent: the machine is down, cut off, or its kubelet has stopped. `False` comes from the kubelet itself, mostly about network or container runtime.",
    source: KUBERNETES_NODES,
    remedy: &[DESCRIBE_NODE, KUBELET_SERVICE, KUBELET_LOGS, NODE_VERSION],
};

pub(super) const NODE_LEASE_STALE: Text = Text {
    explanation: "The kubelet renews a lease every ten seconds to show that it is alive, and has stopped. The Ready condition follows only after most of a minute, so the node may still be shown as Ready. The kubelet or the machine is down, or cannot reach the API server.",
    source: KUBERNETES_NODES,
    remedy: &[Look("kubectl -n kube-node-lease get lease NODENAME -o yaml"), KUBELET_SERVICE, NODE_VERSION],
};

pub(super) const CNI_MISSING: Text = Text {
    explanation: "Nodes are not Ready because no network plugin is installed. With `cni: none` in the machine configuration that is the state after bootstrapping, until one is installed; otherwise its DaemonSet does not come up.",
    source: KUBERNETES_NETWORK,
    remedy: &[
        Look("kubectl -n kube-system get daemonsets"),
        DESCRIBE_NODE,
        Do("Install the network plugin that the cluster is meant to have."),
    ],
};

pub(super) const CORDONED_BY_TALOS: Text = Text {
    explanation: "Talos has marked the node as unschedulable for an upgrade or reboot. It takes the mark away when the node is up again. If the node has long been running, that was interrupted.",
    source: TALOS_UPGRADE,
    remedy: &[
        DESCRIBE_NODE,
        Look("talosctl -n NODE get machinestatus"),
        Do("If the machine is in stage running and no upgrade is in progress:"),
        Change("kubectl uncordon NODENAME"),
    ],
};

pub(super) const CORDONED: Text = Text {
    explanation: "An administrator or a controller has marked the node as unschedulable. No new pods are placed there until the mark is taken away.",
    source: KUBERNETES_DRAIN,
    remedy: &[DESCRIBE_NODE, Do("Ask who did it. Then:"), Change("kubectl uncordon NODENAME")],
};

pub(super) const UNINITIALIZED: Text = Text {
    explanation: "The node waits for a cloud controller manager to initialize it, and until then takes no ordinary pods. The controller is not installed, does not run, or does not find the machine in its cloud.",
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
        Do("Make sure that nothing is about to replace the machine. Then:"),
        Change("kubectl taint node NODENAME node.kubernetes.io/out-of-service-"),
    ],
};

pub(super) const NOTHING_SCHEDULABLE: Text = Text {
    explanation: "Every node that takes workloads is cordoned, tainted, or not ready. Pods that run go on running; new ones stay Pending, and so does every pod that is evicted or restarted elsewhere.",
    source: KUBERNETES_DRAIN,
    remedy: &[
        Look("kubectl get nodes"),
        DESCRIBE_NODE,
        Do(
            "Find out who cordoned or tainted the nodes: an upgrade that was interrupted, a script, a missing controller. Then:",
        ),
        Change("kubectl uncordon NODENAME"),
    ],
};

pub(super) const NODE_LEAVING: Text = Text {
    explanation: "The node is being removed, by an autoscaler or because its object is being deleted. It is listed and not judged for 30 minutes from then on; after that, or if a flag names it, it is judged like any other, and so is a control plane for as long as it is a member of etcd.",
    source: KUBERNETES_NODES,
    remedy: &[DESCRIBE_NODE, Do("Nothing to do, unless it stays like this.")],
};

pub(super) const NOT_TALOS_NOT_READY: Text = Text {
    explanation: "A Kubernetes node that does not run Talos is not Ready. Only its condition is looked at, and only as a warning, because nothing else is known of such a machine.",
    source: KUBERNETES_NODES,
    remedy: &[DESCRIBE_NODE],
};

pub(super) const DAEMONSET_INCOMPLETE: Text = Text {
    explanation: "A DaemonSet that every node needs (kube-proxy, the network plugin) is not available on all of them. Nodes without it have no working service or pod network. During a rollout that is normal for a while.",
    source: KUBERNETES_PODS,
    remedy: &[
        Look("kubectl -n kube-system get daemonsets"),
        Look("kubectl -n kube-system get pods -o wide"),
        Look("kubectl -n kube-system describe pod POD"),
    ],
};

pub(super) const DAEMONSET_MISSING: Text = Text {
    explanation: "The machine configuration asks for this DaemonSet, and Kubernetes does not have it. It was deleted, or Talos has not applied its manifests since the cluster was bootstrapped.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("kubectl -n kube-system get daemonsets"),
        Look("talosctl -n CP get manifeststatus -o yaml"),
        Do(
            "Say in the machine configuration if it is not wanted, or let Talos apply its manifests again. VERSION is the one that runs now; see first what would be done, and do it only while the rest of the cluster is healthy:",
        ),
        Look("talosctl -n CP upgrade-k8s --to VERSION --dry-run"),
        Change("talosctl -n CP upgrade-k8s --to VERSION"),
    ],
};

pub(super) const DNS_SCALED_TO_ZERO: Text = Text {
    explanation: "The Deployment of the cluster's DNS asks for no replicas, so no name resolves in any pod. It was scaled down and not scaled up again.",
    source: KUBERNETES_DNS,
    remedy: &[
        Look("kubectl -n kube-system get deployment coredns"),
        Change("kubectl -n kube-system scale deployment coredns --replicas=2"),
    ],
};

pub(super) const DNS_NO_ENDPOINTS: Text = Text {
    explanation: "The service of the cluster's DNS has no pod behind it that is ready, so no name resolves in any pod. Its pods are pending (often because the network plugin is missing or no node takes them), or crash.",
    source: KUBERNETES_DNS,
    remedy: &[
        Look("kubectl -n kube-system get pods -l k8s-app=kube-dns -o wide"),
        Look("kubectl -n kube-system describe pods -l k8s-app=kube-dns"),
        Look("kubectl -n kube-system logs -l k8s-app=kube-dns"),
    ],
};

pub(super) const DNS_DEGRADED: Text = Text {
    explanation: "Fewer pods of the cluster's DNS are ready than its Deployment wants, so DNS is slower and has less redundancy than intended. Endpoints on nodes that are not ready do not count. It is a warning while pods start, and a failure once a missing pod has not become ready for 5 minutes: it crashes, no node takes it, or the pod network of its node is broken.",
    source: KUBERNETES_DNS,
    remedy: &[
        Look("kubectl -n kube-system get pods -l k8s-app=kube-dns -o wide"),
        Look("kubectl -n kube-system describe pods -l k8s-app=kube-dns"),
        Look("kubectl -n kube-system logs -l k8s-app=kube-dns"),
        Do("Check whether other pods on the same node start and reach the API server."),
    ],
};

pub(super) const DNS_MISSING: Text = Text {
    explanation: "The machine configuration asks for the cluster's own DNS, and Kubernetes has neither its Deployment nor a replacement with ready endpoints. It was deleted, or never applied. Where the configuration cannot be read, as with `--no-talos`, it may as well be switched off: that is undetermined, and no failure.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("kubectl -n kube-system get deployments"),
        Look("talosctl -n CP get manifeststatus -o yaml"),
        Do(
            "Say so in the machine configuration if another DNS is used (`cluster.coreDNS.disabled`), or with `--skip k8s.dns` where Talos is not queried.",
        ),
    ],
};

pub(super) const WORKLOAD_UNAVAILABLE: Text = Text {
    explanation: "A DaemonSet, Deployment or StatefulSet of kube-system or of the network plugin wants pods and has none that is available. What it does for the cluster is not done: metrics, storage, network policies, or whatever it is there for. Its image cannot be pulled, its pods crash or cannot be scheduled, or the cluster has only just started.",
    source: KUBERNETES_PODS,
    remedy: &[
        Look("kubectl -n NAMESPACE describe deployment NAME"),
        Look("kubectl -n NAMESPACE get pods -o wide"),
        Look("kubectl -n NAMESPACE describe pod POD"),
    ],
};

pub(super) const WORKLOAD_DEGRADED: Text = Text {
    explanation: "A DaemonSet, Deployment or StatefulSet of kube-system or of the network plugin has fewer available pods than it wants. It is a warning while something changes, as in a rollout. It is a failure once nothing has changed for 5 minutes, or once Kubernetes has given up on the rollout (ProgressDeadlineExceeded): then it does not recover by itself.",
    source: KUBERNETES_PODS,
    remedy: &[
        Look("kubectl -n NAMESPACE describe deployment NAME"),
        Look("kubectl -n NAMESPACE get pods -o wide"),
        Look("kubectl -n NAMESPACE describe pod POD"),
        Do(
            "If a rollout is stuck on a new version that does not start, look at its pods, then go back to the version before:",
        ),
        Change("kubectl -n NAMESPACE rollout undo deployment NAME"),
    ],
};

pub(super) const PODS_CANNOT_START: Text = Text {
    explanation: "The node is Ready, and pods that were given to it have waited for their sandbox for more than a minute. No container of theirs can start. Pods that run already go on, so that the failure is easily overlooked until something moves. The network plugin or the container runtime of the node is broken: its DaemonSet does not run there, it has no addresses left, or the Node was deleted and registered again, which gives it another podCIDR while the bridge `cni0` keeps its address. If another pod got its sandbox there later, the failure is that pod's own, such as a RuntimeClass that the node does not have, and only a warning.",
    source: KUBERNETES_NETWORK,
    remedy: &[
        Look("kubectl -n NAMESPACE describe pod POD"),
        Look("kubectl get pods -A -o wide --field-selector spec.nodeName=NODENAME"),
        Look("talosctl -n NODE service cri"),
        Look("talosctl -n NODE get addresses"),
        Do(
            "If the events report that `cni0` already has another address, the podCIDR of the Node has changed. A reboot recreates the bridge. Drain the node first, because its running pods lose their network:",
        ),
        Change("kubectl drain NODENAME --ignore-daemonsets --delete-emptydir-data"),
        Change("talosctl -n NODE reboot"),
    ],
};

pub(super) const WEBHOOK_UNAVAILABLE: Text = Text {
    explanation: "An admission webhook names a Service without a ready endpoint. If its failurePolicy is Fail, the API server refuses every request that the webhook concerns: pods are not created, kubelets cannot update their Nodes, leases are not renewed. If it is Ignore, what the webhook checks or adds is left out.",
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
        Do("Repair the Service and its pods. If the API server is no longer meant to be there, delete its APIService:"),
        Change("kubectl delete apiservice NAME"),
    ],
};

pub(super) const STATIC_POD_MISSING: Text = Text {
    explanation: "A static pod that Talos has written is not reported by the kubelet. The kubelet is down, has not come to it yet, or refuses the definition.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[Look("talosctl -n NODE get staticpods"), Look("talosctl -n NODE get staticpodstatus"), KUBELET_LOGS],
};

pub(super) const STATIC_POD_NOT_RENDERED: Text = Text {
    explanation: "Talos has not written the definition of a static pod that the configuration calls for. It waits for something: mostly for etcd, for time synchronization or for certificates.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        ETCD_SERVICE,
        Look("talosctl -n NODE get staticpods"),
        Look("talosctl -n NODE get configstatuses"),
        Look("talosctl -n NODE logs controller-runtime"),
    ],
};

pub(super) const STATIC_POD_FAILED: Text = Text {
    explanation: "A static pod exists and is not ready. Why is in the state of its containers: an image that cannot be pulled, a crash with an exit code, a probe that fails.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[CONTAINERS, Look("talosctl -n NODE logs -k kube-system/POD:CONTAINER"), KUBELET_LOGS],
};

pub(super) const STATUS_STALE: Text = Text {
    explanation: "The statuses of the static pods on this node have not been refreshed, so they are out of date. Talos asks the kubelet for them; that fails when the kubelet is down, or when its serving certificate was never approved.",
    source: TALOS_TROUBLESHOOTING_KUBELET,
    remedy: &[
        KUBELET_SERVICE,
        Do("As an administrator, which a monitoring role is not, look at the certificate requests:"),
        Look("kubectl get csr"),
        Do("Pending requests of the signer `kubernetes.io/kubelet-serving` must be approved, after a look at each:"),
        Change("kubectl certificate approve CSR"),
    ],
};

pub(super) const SERVER_CHECK_FAILED: Text = Text {
    explanation: "Run because of `--server`, Talos's own health check reported this problem in its own words. It looks at the same cluster from within, so a difference to the checks before is telling: it sees from a control plane what is not seen from here, and the reverse.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n CP health --server=true"),
        Do("Look first at the other checks of the same node or component; they are more specific."),
    ],
};

pub(super) const SERVER_CHECK_UNFINISHED: Text = Text {
    explanation: "Run because of `--server`, Talos's own health check did not finish within the round, or its stream ended early. Nothing follows from that for the cluster. It does one thing after the other, and takes minutes on a large cluster.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Do("Give it more time with `--attempt-timeout`, or leave out `--server`."),
        Look("talosctl -n CP health --server=true"),
    ],
};

pub(super) const TOO_MANY_UNREADY: Text = Text {
    explanation: "More workers are not ready than `--max-unready-workers` allows. They are named in the report, each with its own reason.",
    source: KUBERNETES_NODES,
    remedy: &[Look("kubectl get nodes"), Do("Look at what they have in common: a rack, a network, an upgrade.")],
};

pub(super) const UNREADABLE_ANSWER: Text = Text {
    explanation: "An answer came that does not have the form it should. Something else listens on the port, a proxy has put its own page in between, or the server is of a version that this program does not know.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        NODE_VERSION,
        Look("kubectl version"),
        Do("If it stays, report it with the output of `cluster-health -o json`."),
    ],
};

pub(super) const ANSWER_TOO_LARGE: Text = Text {
    explanation: "An answer was longer than this program is willing to read, so it was not used. In a very large cluster that can be genuine; otherwise something else answers.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[Look("kubectl get pods -n kube-system"), Do("Leave the check out with `--skip` if the size is genuine.")],
};

pub(super) const NOT_SUPPORTED_BY_VERSION: Text = Text {
    explanation: "The version of Talos on this node does not offer what the check reads, so it could not be done there.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[NODE_VERSION, Do("Upgrade Talos, or leave the check out with `--skip`.")],
};

pub(super) const NO_ANSWER: Text = Text {
    explanation: "The request was sent, and no usable answer arrived in time. That is not taken for a pass. Usually the node or the API server is overloaded or about to go away.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[NODE_VERSION, Do("Allow more time with `--attempt-timeout`, or wait with `--wait-timeout`.")],
};
