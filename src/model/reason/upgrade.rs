//! What stands in the way of an upgrade.

use super::Step::{Change, Do, Look};
use super::Text;
use super::sources::{
    ETCD_FAILURES, KUBERNETES_ASSIGN, KUBERNETES_DEPRECATIONS, KUBERNETES_DISRUPTIONS, KUBERNETES_DNS,
    KUBERNETES_DRAIN, KUBERNETES_GATES_REMOVED, KUBERNETES_RESOURCES, KUBERNETES_VOLUMES, TALOS_RBAC, TALOS_SUPPORT,
    TALOS_TROUBLESHOOTING_CONTROL_PLANE, TALOS_UPGRADE, TALOS_UPGRADE_KUBERNETES,
};
use super::steps::NODE_VERSION;

pub(super) const TARGET_UNKNOWN: Text = Text {
    explanation: "The tables of this program do not have this version, so whether the cluster can be upgraded to it is unknown. They end with the newest versions released when the program was built. The cluster itself is not at fault.",
    source: TALOS_SUPPORT,
    remedy: &[
        Do("Is the version spelled correctly?"),
        Do("Use a newer release of cluster-health that knows the version."),
        Do("Compare with the support matrix in Talos's documentation by hand."),
    ],
};

pub(super) const UPGRADE_PATH_UNSUPPORTED: Text = Text {
    explanation: "Talos or Kubernetes does not support going from the version that runs to the target in one step. Talos's installer refuses it, but only once the machine was drained and the image was pulled; `talosctl upgrade-k8s` goes one minor version at a time, and never back.",
    source: TALOS_UPGRADE,
    remedy: &[
        NODE_VERSION,
        Do(
            "Go to the newest patch of each minor version in between, one after the other, and check each with this program.",
        ),
    ],
};

pub(super) const MINOR_SKIPPED: Text = Text {
    explanation: "The installer accepts the upgrade, but it skips a minor version. Talos is tested for upgrades from the newest patch of one minor version to the next only.",
    source: TALOS_UPGRADE,
    remedy: &[NODE_VERSION, Do("Upgrade to the newest patch of the minor version in between first.")],
};

pub(super) const DOWNGRADE: Text = Text {
    explanation: "The machine runs a newer version than the target. Talos accepts it within bounds, and what the newer version has written, such as the machine configuration, may be more than the older one understands.",
    source: TALOS_UPGRADE,
    remedy: &[
        NODE_VERSION,
        Do("If the upgrade before it went wrong, go back to the image that the machine booted before:"),
        Change("talosctl -n NODE rollback"),
    ],
};

pub(super) const VERSIONS_INCOMPATIBLE: Text = Text {
    explanation: "Each minor version of Talos supports certain minor versions of Kubernetes. During or after the upgrade, one of the two would run with a version of the other that it does not support: its machine configuration may be refused, or components may get flags that they do not know.",
    source: TALOS_UPGRADE_KUBERNETES,
    remedy: &[
        NODE_VERSION,
        Look("kubectl get nodes -o wide"),
        Do(
            "Upgrade the other one first, in the order that the report names; where there is none, by way of a version in between.",
        ),
    ],
};

pub(super) const EVICTION_BLOCKED: Text = Text {
    explanation: "A PodDisruptionBudget allows 0 disruptions and selects pods of this machine, so the API server refuses to evict them. A drain waits until it is allowed or gives up: `talosctl upgrade` after 5 minutes, with the new version installed and the machine cordoned, but not rebooted. Usually a replica is not ready; or the budget can never allow any, as with one replica and `minAvailable: 1`.",
    source: KUBERNETES_DISRUPTIONS,
    remedy: &[
        Look("kubectl get poddisruptionbudgets -A"),
        Look("kubectl describe poddisruptionbudget NAME -n NAMESPACE"),
        Do("Bring the pods that are not ready back, or wait for the operator that owns the budget."),
        Do("If it can never allow one, add a replica, or relax the budget for the time of the upgrade."),
    ],
};

pub(super) const SEVERAL_BUDGETS: Text = Text {
    explanation: "More than one PodDisruptionBudget selects the same pod. The eviction API does not support that and answers every attempt with an error, whatever the budgets allow, so the machine cannot be drained.",
    source: KUBERNETES_DISRUPTIONS,
    remedy: &[
        Look("kubectl get poddisruptionbudgets -n NAMESPACE -o wide"),
        Do("Leave one of them, or make their selectors disjoint."),
    ],
};

pub(super) const BUDGET_STALE: Text = Text {
    explanation: "The PodDisruptionBudget was changed, and the disruption controller has not counted its pods since. What its status allows belongs to the specification before, so it is not known whether pods may be evicted; until then, the API server refuses it. That takes seconds, unless kube-controller-manager is down.",
    source: KUBERNETES_DISRUPTIONS,
    remedy: &[
        Look("kubectl get poddisruptionbudget NAME -n NAMESPACE -o yaml"),
        Look("kubectl get pods -n kube-system -l k8s-app=kube-controller-manager"),
    ],
};

pub(super) const QUORUM_AT_RISK: Text = Text {
    explanation: "A cluster of n voters needs n/2+1 of them. Without the member on this machine fewer are up, so etcd stops, and nothing can change in Kubernetes until the machine is back: not even the upgrade that waits for it. With one or two voters that is so by design, and a warning.",
    source: ETCD_FAILURES,
    remedy: &[
        Look("talosctl -n NODE etcd status"),
        Look("talosctl -n NODE etcd members"),
        Do("Bring the other members back first; two voters tolerate no loss at all, so add a third."),
    ],
};

pub(super) const LAST_API_SERVER: Text = Text {
    explanation: "While the machine is down, no API server answers: nothing is scheduled, no endpoint is updated, and the drain of the next machine cannot begin. With a single control plane that is so by design, and a warning.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("kubectl get pods -n kube-system -l k8s-app=kube-apiserver -o wide"),
        Do("Bring the API servers of the other control planes back first."),
    ],
};

pub(super) const LAST_DNS_ENDPOINT: Text = Text {
    explanation: "All ready replicas of CoreDNS run on the machine, so no name resolves in the cluster from the moment they are evicted until one is ready elsewhere. Applications that look up names without retrying fail. In a cluster of one machine that is so by design, and a warning.",
    source: KUBERNETES_DNS,
    remedy: &[
        Look("kubectl get pods -n kube-system -l k8s-app=kube-dns -o wide"),
        Change("kubectl -n kube-system rollout restart deployment coredns"),
    ],
};

pub(super) const UNMANAGED_POD: Text = Text {
    explanation: "The pod was created by itself, not by a Deployment, a StatefulSet or the like. A drain deletes it, and nothing starts it again.",
    source: KUBERNETES_DRAIN,
    remedy: &[
        Look("kubectl get pod NAME -n NAMESPACE -o yaml"),
        Do("If it is needed, have a Deployment or a Job run it; if not, delete it before."),
    ],
};

pub(super) const LAST_REPLICA: Text = Text {
    explanation: "All pods of this workload that are ready run on the machine. While it is drained, the workload is down until a replica is ready elsewhere. No PodDisruptionBudget forbids that.",
    source: KUBERNETES_DISRUPTIONS,
    remedy: &[
        Look("kubectl get pods -A -o wide --field-selector spec.nodeName=NODENAME"),
        Do("Run more than one replica, on different machines, where the interruption matters."),
    ],
};

pub(super) const LOCAL_DATA: Text = Text {
    explanation: "These pods have volumes of kind emptyDir, which are deleted with the pod. Caches and sockets may go; data that is nowhere else is lost. `talosctl upgrade` deletes them without asking, `kubectl drain` wants `--delete-emptydir-data`.",
    source: KUBERNETES_DRAIN,
    remedy: &[
        Look("kubectl get pod NAME -n NAMESPACE -o yaml"),
        Do("Is it more than a cache? Then keep it in a PersistentVolumeClaim."),
    ],
};

pub(super) const REMOVED_FLAG: Text = Text {
    explanation: "A static pod of the control plane has a flag, a feature gate or an admission plugin in its command line that the Kubernetes of the upgrade does not have, or a feature gate with a value that is no longer possible. The component prints an error and exits at once, so the upgrade loses it on the first control plane. The lines come from `extraArgs` in the machine configuration.",
    source: KUBERNETES_GATES_REMOVED,
    remedy: &[
        Look("talosctl -n NODE get staticpods kube-apiserver -o yaml"),
        Do(
            "Remove it from `cluster.apiServer`, `cluster.controllerManager` or `cluster.scheduler` in the configuration of every control plane:",
        ),
        Change("talosctl -n NODE edit machineconfig"),
    ],
};

pub(super) const KUBELET_FLAGS_UNSEEN: Text = Text {
    explanation: "Kubelets are started with flags and a configuration of their own, which only the Talos role os:admin may read, so this program does not. A flag or feature gate that the target has removed keeps the kubelet of every machine from starting.",
    source: TALOS_RBAC,
    remedy: &[
        Look("talosctl -n NODE get kubeletspecs -o yaml"),
        Do(
            "Compare `machine.kubelet.extraArgs` and `machine.kubelet.extraConfig` with the removals in the changelog of the target.",
        ),
    ],
};

pub(super) const REMOVED_API_REQUESTED: Text = Text {
    explanation: "Since the API server was started, some client has requested an API that the Kubernetes of the upgrade no longer has. After the upgrade this client gets 404. Often it is an old release of a controller, a Helm chart or a CI job. Only a restart of the API server forgets the request.",
    source: KUBERNETES_DEPRECATIONS,
    remedy: &[
        Look("kubectl get --raw /metrics"),
        Do("Find the client in the audit log: its requests are annotated with `k8s.io/deprecated`."),
        Do("Upgrade it to a release that uses the newer API, and apply its manifests again."),
    ],
};

pub(super) const LOCAL_VOLUME: Text = Text {
    explanation: "The pod uses a PersistentVolume that is a directory or a disk of this machine, so it can run nowhere else. It is down from the drain until the machine is back and uncordoned, and if the machine loses its disk, the data is lost.",
    source: KUBERNETES_VOLUMES,
    remedy: &[
        Look("kubectl get persistentvolumes -o wide"),
        Do("Be sure that the application has a replica elsewhere, or that it may be down for the time of a reboot."),
    ],
};

pub(super) const PODS_DO_NOT_FIT: Text = Text {
    explanation: "The requests of the pods that leave the machine are more than what the others have left, counted as the scheduler does: allocatable minus requests, where node selectors, required node affinity and taints let the pods run. They stay Pending until the machine is back, and PodDisruptionBudgets that wait for them keep the next machine from being drained.",
    source: KUBERNETES_RESOURCES,
    remedy: &[
        Look("kubectl describe nodes"),
        Look("kubectl get pods -A -o wide --field-selector spec.nodeName=NODENAME"),
        Do("Add a machine for the time of the upgrade, or scale down what can be spared."),
    ],
};

pub(super) const LITTLE_ROOM: Text = Text {
    explanation: "The pods of the machine fit on the others by what they request, but hardly: less than 20 % would be left, or no arrangement was found for all of them. Rules between pods, such as anti-affinity and topology spread, are not counted and may need more.",
    source: KUBERNETES_RESOURCES,
    remedy: &[
        Look("kubectl describe nodes"),
        Do("Add a machine for the time of the upgrade, or upgrade when there is less load."),
    ],
};

pub(super) const PINNED_POD: Text = Text {
    explanation: "By its node selector, its required node affinity or the taints of the others, the pod may run on this machine only. It is down from the drain until the machine is back and uncordoned. In a cluster of one machine that is so by design.",
    source: KUBERNETES_ASSIGN,
    remedy: &[
        Look("kubectl get pods -A -o wide --field-selector spec.nodeName=NODENAME"),
        Do("Label another machine for it as well, where the interruption matters."),
    ],
};

pub(super) const VOLUME_ATTACHED: Text = Text {
    explanation: "The machine is cordoned and its pods are gone, but VolumeAttachments still name it. Pods elsewhere that need these volumes wait. Detaching takes seconds; after a machine went down without it, up to 6 minutes. It fails if the storage driver reports an error while detaching.",
    source: KUBERNETES_VOLUMES,
    remedy: &[
        Look("kubectl get volumeattachments"),
        Look("kubectl describe volumeattachment NAME"),
        Do("Look at the logs of the storage driver's controller before the next machine is taken down."),
    ],
};
