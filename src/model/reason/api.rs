//! The API server, and who asks it.

use super::Step::{Change, Do, Look};
use super::Text;
use super::sources::{
    KUBERNETES_AUTHENTICATION, KUBERNETES_FAIRNESS, KUBERNETES_KUBECONFIG, KUBERNETES_RBAC,
    TALOS_TROUBLESHOOTING_CONTROL_PLANE, TALOS_TROUBLESHOOTING_KUBERNETES_API,
};
use super::steps::{API_LOGS, CONTAINERS, ETCD_STATUS, NODE_DMESG};

pub(super) const API_UNREACHABLE: Text = Text {
    explanation: "No connection to the Kubernetes API server comes about. It may not run, its endpoint (load balancer, virtual IP, DNS name) may lead nowhere, or the way from here may be blocked. etcd without quorum stops API servers too.",
    source: TALOS_TROUBLESHOOTING_KUBERNETES_API,
    remedy: &[
        Look("nc -vz CP 6443"),
        CONTAINERS,
        API_LOGS,
        Do("Check DNS name, load balancer and firewall for port 6443."),
    ],
};

pub(super) const API_NOT_READY: Text = Text {
    explanation: "The API server answers and reports that it is not ready; the checks that failed are in the message. For a minute after its start that is normal. Later, a failing `etcd` check means that it cannot reach its etcd member.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[Look("kubectl get --raw '/readyz?verbose'"), API_LOGS, ETCD_STATUS],
};

pub(super) const API_FROZEN: Text = Text {
    explanation: "The API server accepts connections and never answers. Its process hangs, or the machine below does: often a disk that does not respond, or memory that is used up. Load balancers that only open a connection do not notice.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("curl -k --max-time 5 https://NODE:6443/readyz"),
        API_LOGS,
        NODE_DMESG,
        CONTAINERS,
        Do("If only the API server hangs, restart its container, by the id that the list shows:"),
        Change("talosctl -n NODE restart -k CONTAINER-ID"),
        ETCD_STATUS,
        Do("If that does not help, reboot the node, but only while etcd can do without its member:"),
        Change("talosctl -n NODE reboot"),
    ],
};

pub(super) const ENDPOINT_DOWN_SERVERS_READY: Text = Text {
    explanation: "Every API server is ready when queried directly, but their common endpoint is not: so the fault lies between, in the load balancer, the virtual IP or the DNS name. Nodes and users come through this endpoint.",
    source: TALOS_TROUBLESHOOTING_KUBERNETES_API,
    remedy: &[
        Look("getent hosts ENDPOINT"),
        Look("nc -vz ENDPOINT 6443"),
        Look("talosctl -n CP1,CP2,CP3 get addresses"),
        Do("Does the load balancer list the present control planes? Does one of them hold the virtual IP?"),
    ],
};

pub(super) const UNAUTHORIZED: Text = Text {
    explanation: "The API server does not know who is asking: the client certificate or token is expired, was revoked, or belongs to another cluster.",
    source: KUBERNETES_AUTHENTICATION,
    remedy: &[Look("kubectl auth whoami"), Do("Renew the kubeconfig:"), Change("talosctl -n CP kubeconfig --force")],
};

pub(super) const FORBIDDEN: Text = Text {
    explanation: "The API server knows who is asking, and RBAC does not allow it. The check could not run; the cluster itself may be healthy.",
    source: KUBERNETES_RBAC,
    remedy: &[
        Look("kubectl auth can-i --list"),
        Do("Grant the rights that `cluster-health rbac` prints:"),
        Change("cluster-health rbac | kubectl apply -f -"),
    ],
};

pub(super) const FORBIDDEN_OR_STARTING: Text = Text {
    explanation: "The API server refuses the request. An API server that has just started, or lost etcd for a while, refuses every request for about a minute, because it has not read the roles yet. A single pass cannot distinguish that from missing rights.",
    source: KUBERNETES_RBAC,
    remedy: &[
        Do("Ask again in a minute or two, or with `--wait-timeout 3m`."),
        Look("kubectl auth can-i --list"),
        Look("cluster-health rbac"),
    ],
};

pub(super) const THROTTLED: Text = Text {
    explanation: "The API server has more requests than it can serve and asks to come back later. Something asks too much, or the server is too small or waits for a slow etcd.",
    source: KUBERNETES_FAIRNESS,
    remedy: &[
        Look("kubectl get --raw /debug/api_priority_and_fairness/dump_priority_levels"),
        ETCD_STATUS,
        Do("Look for a controller or operator that lists everything again and again."),
    ],
};

pub(super) const WRONG_CLUSTER: Text = Text {
    explanation: "None of the nodes that Talos knows is a node of the Kubernetes that the kubeconfig leads to: the two files belong to different clusters. A verdict made of both would be about neither.",
    source: KUBERNETES_KUBECONFIG,
    remedy: &[
        Look("talosctl config info"),
        Look("kubectl config view --minify"),
        Do("Name both explicitly: `--context` and `--kubeconfig` with `--kube-context`."),
    ],
};

pub(super) const ENDPOINT_BEHIND_PROXY: Text = Text {
    explanation: "The endpoint shows a certificate that is not signed by the cluster's own CA, though it leads to this cluster. That is as intended behind Omni, Rancher or a load balancer that ends TLS.",
    source: KUBERNETES_KUBECONFIG,
    remedy: &[
        Do("Nothing to do if such a proxy is intended. Otherwise find out who answers:"),
        Look("kubectl cluster-info"),
    ],
};

pub(super) const API_UNREACHABLE_FROM_HERE: Text = Text {
    explanation: "An API server cannot be reached at its node's address from here, while those of other control planes can. Its lease or its entry among the endpoints of the `kubernetes` service shows that it is alive, but whether it is ready was not observed. Usually a firewall drops the packets, or the machine's own network is not well; then nodes and clients that use this server are cut off, too.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("kubectl --server https://NODE:6443 get --raw '/readyz?verbose'"),
        Look("talosctl -n NODE netstat"),
        CONTAINERS,
    ],
};

pub(super) const SERVER_NOT_DIRECTLY_REACHABLE: Text = Text {
    explanation: "An API server cannot be dialed from here by its node's address, and neither its lease nor its entry among the endpoints of the `kubernetes` service shows that it is alive. It may be down, or only unreachable from this network.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[Look("kubectl -n kube-system get lease"), Look("kubectl -n default get endpointslices"), CONTAINERS],
};
