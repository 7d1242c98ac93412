//! Control plane components and workloads, and reasons that any check can give.

use super::Step::{Change, Do, Look};
use super::Text;
use super::sources::{
    KUBERNETES_AGGREGATION, KUBERNETES_CONVERSION, KUBERNETES_CSI, KUBERNETES_DNS, KUBERNETES_IMAGES,
    KUBERNETES_LEASES, KUBERNETES_NETWORK, KUBERNETES_PODS, KUBERNETES_SKEW, KUBERNETES_WEBHOOKS,
    TALOS_TROUBLESHOOTING, TALOS_TROUBLESHOOTING_CONTROL_PLANE, TALOS_TROUBLESHOOTING_KUBELET,
};
use super::steps::{CONTAINERS, ETCD_SERVICE, ETCD_STATUS, KUBELET_LOGS, KUBELET_SERVICE, NODE_VERSION};

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
    explanation: "The pod is ready, and one of its containers has been restarted since the previous round of this run, or has been restarted repeatedly, the last time within 10 minutes, while its node was ready. After a bootstrap or an upgrade a few restarts are normal. Otherwise the container exits from time to time, or is killed by a failing liveness probe. With `--stable-for`, the stability period starts over.",
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
    explanation: "The lease of kube-controller-manager or kube-scheduler is held and renewed by an instance on a host that is not a known control plane. The instances on the control planes only stand by, so pods are scheduled, or controllers are run, by an instance that no check covers, possibly of another version. Usually a control plane was removed from the cluster but not reset, and still runs.",
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
    explanation: "A control plane applies the bootstrap manifests as soon as the API works: RBAC for kubelets that join, kube-proxy, flannel, CoreDNS. No control plane has the missing ones in its `ManifestStatuses`. Either the cluster was bootstrapped a moment ago, or the API server refuses a manifest, which holds up all of them, or the control planes cannot reach the API.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("talosctl -n CP get manifeststatus -o yaml"),
        Look("talosctl -n CP get manifests"),
        Look("talosctl -n CP logs controller-runtime"),
        Do(
            "Look there for the name of a manifest and the error of the API server. Correct that manifest in `cluster.inlineManifests` or `cluster.extraManifests`, or repair what makes the API server refuse it, such as a webhook that does not answer. Talos then retries automatically.",
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
    explanation: "A DaemonSet, Deployment or StatefulSet of kube-system or of the network plugin has fewer available pods than desired. It is a warning while something changes, as in a rollout. It is a failure once nothing has changed for 5 minutes, or the rollout has exceeded its deadline (ProgressDeadlineExceeded): then it does not recover on its own.",
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
    explanation: "A pod for the default scheduler has been pending for more than 5 minutes, and no scheduler has considered it: it has no condition `PodScheduled`, not even one that explains why it does not fit. The scheduler that holds the lease hangs, or its configuration has no profile named `default-scheduler`. Running pods keep running, but no new pod starts anywhere. If a scheduler has considered a younger pod, it is only a warning: the scheduler is slow, or another component holds this pod back.",
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
    explanation: "The node is Ready, but several of its pods have waited for their volumes for more than 5 minutes. The storage driver has not registered with the kubelet there, or it fails on this node: a missing system extension or kernel module, records that an upgrade left behind, a driver that crashes. A single waiting pod would have a problem of its own; several on one node point to the node. Pods that already have their volumes keep running, so the failure is easily overlooked, and every further machine that is upgraded loses its volumes, too.",
    source: KUBERNETES_CSI,
    remedy: &[
        Look("kubectl -n NAMESPACE describe pod POD"),
        Look("kubectl get csinode NODENAME -o yaml"),
        Look("kubectl get volumeattachments"),
        Look("kubectl get pods -A -o wide --field-selector spec.nodeName=NODENAME"),
        Do(
            "Check whether the pod of the driver's DaemonSet is ready on this node. If not, its log and its registrar's log show why.",
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
    explanation: "An admission webhook names a Service without a ready endpoint. If its failurePolicy is Fail, the API server refuses every request that matches the webhook: pods are not created, kubelets cannot update their Nodes, leases are not renewed. If it is Ignore, everything that the webhook checks or adds is skipped.",
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
    explanation: "Talos's own health check (run because of `--server`) reported this problem in its own words. It runs on a control plane, so it may see problems that this runner cannot see, and vice versa.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n CP health --server=true"),
        Do("Look first at the other checks of the same node or component; they are more specific."),
    ],
};

pub(super) const SERVER_CHECK_UNFINISHED: Text = Text {
    explanation: "Talos's own health check (run because of `--server`) did not finish within the round, or its stream ended early. This does not show whether the cluster is healthy. The health check runs its checks one after the other, and takes minutes on a large cluster.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Do("Allow more time with `--attempt-timeout`, or omit `--server`."),
        Look("talosctl -n CP health --server=true"),
    ],
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
