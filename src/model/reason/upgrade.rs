//! Obstacles to an upgrade.

use super::Step::{Change, Do, Look};
use super::Text;
use super::sources::{
    ETCD_DOWNGRADES, ETCD_FAILURES, ETCD_UPGRADE_3_7, ETCD_UPGRADES, KUBERNETES_ASSIGN, KUBERNETES_DEPRECATIONS,
    KUBERNETES_DISRUPTIONS, KUBERNETES_DNS, KUBERNETES_DRAIN, KUBERNETES_GATES_REMOVED, KUBERNETES_RESOURCES,
    KUBERNETES_VOLUMES, KUBERNETES_WEBHOOKS, TALOS_ETCD_IMAGE, TALOS_EXTENSIONS_INSTALL, TALOS_RBAC, TALOS_SUPPORT,
    TALOS_TROUBLESHOOTING_CONTROL_PLANE, TALOS_UPGRADE, TALOS_UPGRADE_KUBERNETES, TALOS_VIP,
};
use super::steps::NODE_VERSION;

pub(super) const WEBHOOK_EVICTED: Text = Text {
    explanation: "An admission webhook with failurePolicy Fail decides about a request that every new pod needs, those behind itself included: the creation of pods, their binding to a node, their token, their status, the endpoints of Services, or the leases of the scheduler and the controllers. The drain of this machine evicts all pods behind it that work. Until one runs again, the API server refuses these requests, so none of them can come back. If the webhook decides about evictions, the API server refuses those of the remaining pods, and the drain gives up.",
    source: KUBERNETES_WEBHOOKS,
    remedy: &[
        Look("kubectl -n NAMESPACE get endpointslices -l kubernetes.io/service-name=SERVICE"),
        Do(
            "Run at least two replicas on different machines, or exclude the webhook's own namespace in its `namespaceSelector`.",
        ),
    ],
};

pub(super) const TARGET_UNKNOWN: Text = Text {
    explanation: "cluster-health does not know this version, so it is unknown whether the cluster can be upgraded to it. Its tables end with the latest versions released when it was built. Nothing is wrong with the cluster.",
    source: TALOS_SUPPORT,
    remedy: &[
        Do("Check that the version is spelled correctly."),
        Do("Use a newer release of cluster-health that knows the version."),
        Do("Compare with the support matrix in Talos's documentation manually."),
    ],
};

pub(super) const TARGET_IN_DEVELOPMENT: Text = Text {
    explanation: "The minor version of the target is not released yet. cluster-health has the compatibility table of its development version, which can change until the release. Nothing is wrong with the cluster.",
    source: TALOS_SUPPORT,
    remedy: &[
        NODE_VERSION,
        Do("Upgrade to the newest released minor version instead, unless this is a test cluster."),
        Do("After the release, use a newer cluster-health to check the upgrade."),
    ],
};

pub(super) const UPGRADE_PATH_UNSUPPORTED: Text = Text {
    explanation: "Talos or Kubernetes does not support upgrading from the current version to the target in one step. Talos's installer refuses it, but only after the machine was drained and the image was pulled. `talosctl upgrade-k8s` upgrades one minor version at a time, and never downgrades.",
    source: TALOS_UPGRADE,
    remedy: &[
        NODE_VERSION,
        Do(
            "Upgrade to the latest patch of each minor version in between, one after the other, and check each with cluster-health.",
        ),
    ],
};

pub(super) const MINOR_SKIPPED: Text = Text {
    explanation: "The installer accepts the upgrade, but it skips a minor version. Talos is tested only for upgrades from the latest patch of one minor version to the next.",
    source: TALOS_UPGRADE,
    remedy: &[NODE_VERSION, Do("Upgrade to the latest patch of the minor version in between first.")],
};

pub(super) const DOWNGRADE: Text = Text {
    explanation: "The machine runs a newer version than the target. Talos accepts a downgrade within limits, but the older version may not understand what the newer one has written, such as the machine configuration.",
    source: TALOS_UPGRADE,
    remedy: &[
        NODE_VERSION,
        Do("If the last upgrade failed, roll back to the image that the machine booted before:"),
        Change("talosctl -n NODE rollback"),
    ],
};

pub(super) const VERSIONS_INCOMPATIBLE: Text = Text {
    explanation: "Each minor version of Talos supports certain minor versions of Kubernetes. During or after the upgrade, one of the two would run with a version of the other that it does not support. The machine configuration may be rejected, or components may get flags that they do not know.",
    source: TALOS_UPGRADE_KUBERNETES,
    remedy: &[
        NODE_VERSION,
        Look("kubectl get nodes -o wide"),
        Do(
            "Upgrade the other one first, in the order that the report shows. If no order works, upgrade to a version in between first.",
        ),
    ],
};

pub(super) const DRAIN_IMPOSSIBLE: Text = Text {
    explanation: "A drain evicts pods, which etcd has to store, and waits until their controllers have replaced them. etcd accepts no changes while it has raised an alarm or has no leader; without a leading kube-controller-manager and kube-scheduler, evicted pods are not replaced. No machine can be drained until that is repaired, whether or not other checks report it as a failure.",
    source: KUBERNETES_DISRUPTIONS,
    remedy: &[
        Look("talosctl -n CP etcd alarm list"),
        Look("talosctl -n CP etcd status"),
        Look("kubectl get leases -A"),
        Do("Repair etcd first, then the components that hold no lease."),
    ],
};

pub(super) const EVICTION_BLOCKED: Text = Text {
    explanation: "A PodDisruptionBudget allows 0 disruptions and selects pods of this machine, so the API server refuses to evict them. A drain waits until eviction is allowed or gives up. `talosctl upgrade` gives up after 5 minutes, with the new version installed and the machine cordoned, but not rebooted. Usually a replica is not ready. Or the budget can never allow any disruption, as with one replica and `minAvailable: 1`.",
    source: KUBERNETES_DISRUPTIONS,
    remedy: &[
        Look("kubectl get poddisruptionbudgets -A"),
        Look("kubectl describe poddisruptionbudget NAME -n NAMESPACE"),
        Do("Repair the pods that are not ready, or wait for the operator that owns the budget."),
        Do("If the budget can never allow one, add a replica, or relax the budget during the upgrade."),
    ],
};

pub(super) const SEVERAL_BUDGETS: Text = Text {
    explanation: "More than one PodDisruptionBudget selects the same pod. The eviction API does not support that and answers every attempt with an error, whatever the budgets allow, so the machine cannot be drained.",
    source: KUBERNETES_DISRUPTIONS,
    remedy: &[
        Look("kubectl get poddisruptionbudgets -n NAMESPACE -o wide"),
        Do("Keep only one of them, or make sure that their selectors do not overlap."),
    ],
};

pub(super) const BUDGET_STALE: Text = Text {
    explanation: "The PodDisruptionBudget was changed, and the disruption controller has not counted its pods since. Its status belongs to the previous spec, so it is unknown whether pods can be evicted; until then, the API server refuses evictions. This takes seconds, unless kube-controller-manager is down.",
    source: KUBERNETES_DISRUPTIONS,
    remedy: &[
        Look("kubectl get poddisruptionbudget NAME -n NAMESPACE -o yaml"),
        Look("kubectl get pods -n kube-system -l k8s-app=kube-controller-manager"),
    ],
};

pub(super) const BUDGET_COUNTS_LOST: Text = Text {
    explanation: "The PodDisruptionBudget allows an eviction only because its status still counts pods as healthy although their nodes have stopped reporting, are down, or were removed. Kubernetes notices after about a minute and then allows fewer evictions, or none. A drain before that leaves fewer working pods than the budget requires, which can cost a database its quorum.",
    source: KUBERNETES_DISRUPTIONS,
    remedy: &[
        Look("kubectl describe poddisruptionbudget NAME -n NAMESPACE"),
        Look("kubectl get nodes"),
        Look("kubectl get pods -n NAMESPACE -o wide"),
    ],
};

pub(super) const SLOW_TERMINATION: Text = Text {
    explanation: "A drain waits until every pod that it evicts is gone, and `talosctl upgrade` gives up after 5 minutes (`--drain-timeout`), with the new version installed and the machine cordoned, but not rebooted. A pod that is past its deadline waits for a finalizer, a volume that cannot be unmounted, or a kubelet that does not answer; it is a failure. A pod with a longer terminationGracePeriodSeconds may still stop in time; it is a warning.",
    source: KUBERNETES_DRAIN,
    remedy: &[
        Look("kubectl get pod NAME -n NAMESPACE -o yaml"),
        Do("If it has finalizers, repair the controller that removes them. If it has none, read the kubelet's log."),
        Do("If it needs the longer time, drain the machine before the upgrade, or pass a longer `--drain-timeout`."),
    ],
};

pub(super) const QUORUM_AT_RISK: Text = Text {
    explanation: "A cluster of n voters needs n/2+1 of them. Without the member on this machine fewer are up, so etcd stops, and nothing in Kubernetes can change until the machine is back. Even the upgrade that waits for it cannot continue. With one or two voters this cannot be avoided, so it is a warning.",
    source: ETCD_FAILURES,
    remedy: &[
        Look("talosctl -n NODE etcd status"),
        Look("talosctl -n NODE etcd members"),
        Do(
            "Take a snapshot before anything else; with a single control plane it is the only way back if the machine does not return:",
        ),
        Look("talosctl -n CP etcd snapshot etcd.snapshot"),
        Do("Bring the other members back first; two voters tolerate no loss at all, so add a third."),
    ],
};

pub(super) const LAST_API_SERVER: Text = Text {
    explanation: "While the machine is down, no API server answers: nothing is scheduled, no endpoint is updated, and the drain of the next machine cannot start. With a single control plane this cannot be avoided, so it is a warning.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("kubectl get pods -n kube-system -l k8s-app=kube-apiserver -o wide"),
        Do("Bring the API servers of the other control planes back first."),
    ],
};

pub(super) const LAST_COMPONENT: Text = Text {
    explanation: "While the machine is down, no kube-scheduler places pods, or no kube-controller-manager creates them: evicted pods are not replaced, and the endpoints of Services are not updated. Where the other control planes have disabled the component this cannot be avoided, so it is a warning.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("kubectl get pods -n kube-system -o wide"),
        Do("Bring the component back on another control plane first."),
    ],
};

pub(super) const ENDPOINT_ON_MACHINE: Text = Text {
    explanation: "The server of the kubeconfig, or `--k8s-endpoint`, is an address of the machine itself. Its clients have no API while the machine is down, no matter how many other API servers work. If it is the endpoint of the whole cluster, that includes kubelets that do not use KubePrism.",
    source: TALOS_VIP,
    remedy: &[
        Look("kubectl cluster-info"),
        Do("Use a virtual IP, a load balancer or a DNS name with the addresses of all control planes as the endpoint."),
    ],
};

pub(super) const LAST_DNS_ENDPOINT: Text = Text {
    explanation: "All ready replicas of CoreDNS run on the machine, so no name resolves in the cluster from the moment they are evicted until one is ready elsewhere. Applications that do not retry lookups fail. In a cluster of one machine this cannot be avoided, so it is a warning.",
    source: KUBERNETES_DNS,
    remedy: &[
        Look("kubectl get pods -n kube-system -l k8s-app=kube-dns -o wide"),
        Change("kubectl -n kube-system rollout restart deployment coredns"),
    ],
};

pub(super) const UNMANAGED_POD: Text = Text {
    explanation: "The pod was created directly, not by a controller such as a Deployment or StatefulSet. A drain deletes it, and nothing recreates it.",
    source: KUBERNETES_DRAIN,
    remedy: &[
        Look("kubectl get pod NAME -n NAMESPACE -o yaml"),
        Do("If it is needed, run it with a Deployment or a Job; if not, delete it first."),
    ],
};

pub(super) const LAST_REPLICA: Text = Text {
    explanation: "All ready pods of this workload run on the machine. When it is drained, the workload is down until a replica is ready elsewhere. No PodDisruptionBudget prevents that.",
    source: KUBERNETES_DISRUPTIONS,
    remedy: &[
        Look("kubectl get pods -A -o wide --field-selector spec.nodeName=NODENAME"),
        Do("If the interruption matters, run more than one replica, on different machines."),
    ],
};

pub(super) const LOCAL_DATA: Text = Text {
    explanation: "These pods have emptyDir volumes, which are deleted with the pod. Caches and sockets can be deleted, but data that exists nowhere else is lost. `talosctl upgrade` deletes them without confirmation; `kubectl drain` requires `--delete-emptydir-data`.",
    source: KUBERNETES_DRAIN,
    remedy: &[
        Look("kubectl get pod NAME -n NAMESPACE -o yaml"),
        Do("If it is more than a cache, keep it in a PersistentVolumeClaim."),
    ],
};

pub(super) const ETCD_TOO_OLD: Text = Text {
    explanation: "The new Talos brings a newer minor version of etcd, and etcd's upgrade guide requires every member to run a certain patch of the previous minor version first: 3.5.26 before 3.6, 3.6.11 before 3.7. From an older version, members can fail to start or to agree with the others while the upgrade is halfway. Neither the installer nor `talosctl upgrade` checks this. An etcd that is new enough but older than etcd recommends (3.5.32) is a warning.",
    source: ETCD_UPGRADES,
    remedy: &[
        Look("talosctl -n NODE etcd status"),
        NODE_VERSION,
        Do("Upgrade all control planes to the release of Talos that the report names first: its etcd is new enough."),
        Do("Or set `cluster.etcd.image` to that version of etcd, one control plane after the other."),
        Do(
            "From 3.5 to 3.7 by way of 3.6: let every member write a snapshot with 3.6 first, which it does after 10,000 writes. etcd 3.7 cannot read what 3.5 has logged, and exits.",
        ),
    ],
};

pub(super) const ETCD_IMAGE_UNFIT: Text = Text {
    explanation: "`cluster.etcd.image` in the machine configuration names a version of etcd, and it stays after the upgrade. Talos 1.14 passes arguments that etcd 3.5 does not have, and older releases pass arguments that etcd 3.7 has removed. etcd would exit at once on the first control plane that is upgraded.",
    source: TALOS_ETCD_IMAGE,
    remedy: &[
        Look("talosctl -n NODE get etcdspec -o yaml"),
        Do(
            "Remove `cluster.etcd.image`, or set it to a version that both releases of Talos start, such as the newest 3.6:",
        ),
        Change("talosctl -n NODE edit machineconfig"),
    ],
};

pub(super) const ETCD_FLAG_REFUSED: Text = Text {
    explanation: "`cluster.etcd.extraArgs` in the machine configuration has an argument that the etcd after the upgrade no longer has, or does not have yet, or that the new Talos sets itself and denies. etcd then does not start on the first control plane that is upgraded. etcd 3.7 has removed all `--experimental-*` flags; etcd 3.6 has the same ones under new names.",
    source: ETCD_UPGRADE_3_7,
    remedy: &[
        Look("talosctl -n NODE get etcdspec -o yaml"),
        Do("Replace the argument with its new name, or remove it, on every control plane:"),
        Change("talosctl -n NODE edit machineconfig"),
    ],
};

pub(super) const ETCD_DOWNGRADE: Text = Text {
    explanation: "The target brings an older minor version of etcd. Once all members run the newer one, the storage version goes up, and the older etcd refuses the data. `etcdctl downgrade enable` takes the storage version of every member down first. As long as one member still runs the older version, the cluster can go back without this command.",
    source: ETCD_DOWNGRADES,
    remedy: &[
        Look("talosctl -n NODE etcd status"),
        Look("talosctl -n CP etcd snapshot etcd.snapshot"),
        Do("Stay at the newer Talos, or set `cluster.etcd.image` to the current etcd if the older Talos can start it."),
        Do(
            "Otherwise enable the downgrade with etcdctl, and check again once the storage version of every member is the older one.",
        ),
    ],
};

pub(super) const REMOVED_FLAG: Text = Text {
    explanation: "The command line of a component of Kubernetes has a flag, feature gate, admission plugin or API version that the target version has removed, or sets a locked feature gate. The component then exits with an error at once, so the upgrade fails on the first machine. The flags come from `extraArgs` in the machine configuration.",
    source: KUBERNETES_GATES_REMOVED,
    remedy: &[
        Look("talosctl -n NODE get staticpods kube-apiserver -o yaml"),
        Do(
            "Remove it from `cluster.apiServer`, `cluster.controllerManager`, `cluster.scheduler` or `cluster.proxy` in the configuration of every control plane, or from `machine.kubelet` of every machine:",
        ),
        Change("talosctl -n NODE edit machineconfig"),
    ],
};

pub(super) const KUBELET_FLAGS_UNSEEN: Text = Text {
    explanation: "Kubelets have their own flags and configuration, which Talos 1.12.9, 1.13.4, 1.14 and newer show to the role os:admin only, so they are not checked. A flag or feature gate that the target has removed keeps the kubelet of every machine from starting.",
    source: TALOS_RBAC,
    remedy: &[
        Do("Run the check once with a talosconfig of the role os:admin; the check only reads. Or look yourself:"),
        Look("talosctl -n NODE get kubeletspecs -o yaml"),
        Do(
            "Compare `machine.kubelet.extraArgs` and `machine.kubelet.extraConfig` with the removals in the changelog of the target.",
        ),
    ],
};

pub(super) const EXTENSIONS_LOST: Text = Text {
    explanation: "System extensions are part of the installer image. The image of the upgrade lacks some that the machine has, so they are gone after the reboot. Talos still boots, but everything that needs them breaks: volumes over iSCSI, drivers, guest agents.",
    source: TALOS_EXTENSIONS_INSTALL,
    remedy: &[
        Look("talosctl -n NODE get extensions"),
        Do(
            "Use the installer of the schematic that the machine runs: `factory.talos.dev/metal-installer/SCHEMATIC:VERSION`, where SCHEMATIC is the version of the extension called `schematic`.",
        ),
        Do(
            "Machines with different schematics need different images: `upgrade-gate` takes `{schematic}` in `--image`, or `--images`.",
        ),
    ],
};

pub(super) const IMAGE_UNKNOWN: Text = Text {
    explanation: "The image of the upgrade has a different schematic than the machine, or none, and no machine of the cluster runs it. Its name does not show which extensions it has, so it is unknown whether the machine would lose extensions.",
    source: TALOS_EXTENSIONS_INSTALL,
    remedy: &[
        Look("talosctl -n NODE get extensions"),
        Do("Compare them with the schematic that the image was made from."),
        Do(
            "If it has all of them: `--warn-only image-unknown`. Once the first machine is upgraded, cluster-health compares the others with it.",
        ),
    ],
};

pub(super) const REQUESTS_PARTLY_SEEN: Text = Text {
    explanation: "Each API server counts its own requests. The control plane runs outside of the cluster's Nodes, so it can be queried only at its endpoint, where one of its API servers answers. Others may have received requests for an API that the target has removed.",
    source: KUBERNETES_DEPRECATIONS,
    remedy: &[
        Look("kubectl get --raw /metrics"),
        Do(
            "Run the check several times: a load balancer leads to another API server each time. Providers list deprecated requests, too, such as the upgrade insights of EKS and the recommendations of GKE.",
        ),
    ],
};

pub(super) const REMOVED_API_REQUESTED: Text = Text {
    explanation: "Since the API server was started, some client has requested an API that the target version of Kubernetes has removed. After the upgrade this client gets 404. Often it is an old release of a controller, a Helm chart or a CI job. The record is cleared only when the API server restarts.",
    source: KUBERNETES_DEPRECATIONS,
    remedy: &[
        Look("kubectl get --raw /metrics"),
        Do("Find the client in the audit log: its requests are annotated with `k8s.io/deprecated`."),
        Do("Upgrade it to a release that uses the newer API, and reapply its manifests."),
    ],
};

pub(super) const LOCAL_VOLUME: Text = Text {
    explanation: "The pod uses a PersistentVolume on a local directory or disk of this machine, so it can run nowhere else. It is down from the drain until the machine is back and uncordoned. If the machine loses its disk, the data is lost.",
    source: KUBERNETES_VOLUMES,
    remedy: &[
        Look("kubectl get persistentvolumes -o wide"),
        Do("Make sure that the application has a replica elsewhere, or that it may be down during a reboot."),
    ],
};

pub(super) const PODS_DO_NOT_FIT: Text = Text {
    explanation: "The evicted pods request more than the other machines have left. This is counted as the scheduler does: allocatable minus requests, on nodes that match node selectors, required node affinity and taints. The pods stay Pending until the machine is back, and PodDisruptionBudgets that wait for them block the drain of the next machine.",
    source: KUBERNETES_RESOURCES,
    remedy: &[
        Look("kubectl describe nodes"),
        Look("kubectl get pods -A -o wide --field-selector spec.nodeName=NODENAME"),
        Do("Add a machine during the upgrade, or scale down what is not needed."),
    ],
};

pub(super) const LITTLE_ROOM: Text = Text {
    explanation: "By their requests, the pods of the machine barely fit on the others: less than 20 % would be left, or no placement was found for all of them. Rules between pods, such as anti-affinity and topology spread, are not counted and may need more room.",
    source: KUBERNETES_RESOURCES,
    remedy: &[
        Look("kubectl describe nodes"),
        Do("Add a machine during the upgrade, or upgrade when there is less load."),
    ],
};

pub(super) const PINNED_POD: Text = Text {
    explanation: "Because of its node selector, its required node affinity or the taints of the other nodes, the pod can run only on this machine. It is down from the drain until the machine is back and uncordoned. In a cluster of one machine this cannot be avoided.",
    source: KUBERNETES_ASSIGN,
    remedy: &[
        Look("kubectl get pods -A -o wide --field-selector spec.nodeName=NODENAME"),
        Do("If the interruption matters, label another machine for it."),
    ],
};

pub(super) const VOLUME_ATTACHED: Text = Text {
    explanation: "The machine is cordoned and its pods are gone, but VolumeAttachments still refer to it. Pods elsewhere that need these volumes wait. Detaching takes seconds, or up to 6 minutes if the machine went down with volumes attached. It is a failure if the storage driver reports a detach error.",
    source: KUBERNETES_VOLUMES,
    remedy: &[
        Look("kubectl get volumeattachments"),
        Look("kubectl describe volumeattachment NAME"),
        Do("Look at the logs of the storage driver's controller before the next machine is taken down."),
    ],
};
