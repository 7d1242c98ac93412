//! The API server and its clients.

use super::Step::{Change, Do, Look};
use super::Text;
use super::sources::{
    KUBERNETES_AUTHENTICATION, KUBERNETES_FAIRNESS, KUBERNETES_KUBECONFIG, KUBERNETES_RBAC,
    TALOS_TROUBLESHOOTING_CONTROL_PLANE, TALOS_TROUBLESHOOTING_KUBERNETES_API,
};
use super::steps::{API_LOGS, CONTAINERS, ETCD_STATUS, NODE_DMESG};

pub(super) const API_UNREACHABLE: Text = Text {
    explanation: "There is no connection to the Kubernetes API server. It may not run, its endpoint (load balancer, virtual IP, DNS name) may be wrong, or a firewall may block it. etcd without quorum also stops API servers.",
    source: TALOS_TROUBLESHOOTING_KUBERNETES_API,
    remedy: &[
        Look("nc -vz CP 6443"),
        CONTAINERS,
        API_LOGS,
        Do("Check DNS name, load balancer and firewall for port 6443."),
    ],
};

pub(super) const API_NOT_READY: Text = Text {
    explanation: "The API server answers and reports that it is not ready; the message lists the failed checks. This is normal for a minute after its start. Later, a failing `etcd` check means that it cannot reach its etcd member.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[Look("kubectl get --raw '/readyz?verbose'"), API_LOGS, ETCD_STATUS],
};

pub(super) const API_FROZEN: Text = Text {
    explanation: "The API server accepts connections but never answers. Its process or its machine hangs: often because of a disk that does not respond, or exhausted memory. Load balancers with a TCP health check do not notice.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("curl -k --max-time 5 https://NODE:6443/readyz"),
        API_LOGS,
        NODE_DMESG,
        CONTAINERS,
        Do("If only the API server hangs, restart its container, by the ID that the list shows:"),
        Change("talosctl -n NODE restart -k CONTAINER-ID"),
        ETCD_STATUS,
        Do("If that does not help, reboot the node, but only while etcd can spare its member:"),
        Change("talosctl -n NODE reboot"),
    ],
};

pub(super) const ENDPOINT_DOWN_SERVERS_READY: Text = Text {
    explanation: "Every API server is ready when queried directly, but their common endpoint is not. So the problem is the load balancer, the virtual IP or the DNS name. Nodes and users connect through this endpoint.",
    source: TALOS_TROUBLESHOOTING_KUBERNETES_API,
    remedy: &[
        Look("getent hosts ENDPOINT"),
        Look("nc -vz ENDPOINT 6443"),
        Look("talosctl -n CP1,CP2,CP3 get addresses"),
        Do("Check that the load balancer lists the current control planes, and that one of them holds the virtual IP."),
    ],
};

pub(super) const ENDPOINT_ADDRESS_DEAD: Text = Text {
    explanation: "The name of the Kubernetes endpoint has several addresses, and this one does not accept connections from here. Clients that get it wait, then try the next address, or fail if they try only one. Either the API server at this address is down, or a control plane was removed and its address is still in the DNS records.",
    source: TALOS_TROUBLESHOOTING_KUBERNETES_API,
    remedy: &[
        Look("getent ahosts ENDPOINT"),
        Look("nc -vz NODE 6443"),
        Do("Bring that API server back. If the control plane was removed, remove its address from the DNS records."),
    ],
};

pub(super) const UNAUTHORIZED: Text = Text {
    explanation: "The API server does not accept the credentials: the client certificate or token has expired, was revoked, or belongs to another cluster.",
    source: KUBERNETES_AUTHENTICATION,
    remedy: &[Look("kubectl auth whoami"), Do("Renew the kubeconfig:"), Change("talosctl -n CP kubeconfig --force")],
};

pub(super) const FORBIDDEN: Text = Text {
    explanation: "The API server has authenticated the client, but RBAC does not allow the request. The check could not run; the cluster itself may be healthy.",
    source: KUBERNETES_RBAC,
    remedy: &[
        Look("kubectl auth can-i --list"),
        Do(
            "Grant the rights that `cluster-health rbac` prints. Pass the `--upgrade` and `--policy` that the run needs, because applying the ClusterRole without them removes their rights:",
        ),
        Change("cluster-health rbac | kubectl apply -f -"),
    ],
};

pub(super) const FORBIDDEN_OR_STARTING: Text = Text {
    explanation: "The API server refuses the request. An API server that has just started, or lost etcd for a while, refuses every request for about a minute, because it has not read the roles yet. A single pass cannot distinguish that from missing rights.",
    source: KUBERNETES_RBAC,
    remedy: &[
        Do("Run again in a minute or two, or with `--wait-timeout 3m`."),
        Look("kubectl auth can-i --list"),
        Look("cluster-health rbac"),
    ],
};

pub(super) const THROTTLED: Text = Text {
    explanation: "The API server has more requests than it can serve and responds with 429 (try again later). A client sends too many requests, or the server is too small or waits for a slow etcd.",
    source: KUBERNETES_FAIRNESS,
    remedy: &[
        Look("kubectl get --raw /debug/api_priority_and_fairness/dump_priority_levels"),
        ETCD_STATUS,
        Do("Look for a controller or operator that keeps listing everything."),
    ],
};

pub(super) const WRONG_CLUSTER: Text = Text {
    explanation: "None of the nodes that Talos knows is a node of the Kubernetes cluster in the kubeconfig: the two files belong to different clusters. A combined verdict would be about neither.",
    source: KUBERNETES_KUBECONFIG,
    remedy: &[
        Look("talosctl config info"),
        Look("kubectl config view --minify"),
        Do("Select both explicitly: `--context`, and `--kubeconfig` with `--kube-context`."),
    ],
};

pub(super) const ENDPOINT_BEHIND_PROXY: Text = Text {
    explanation: "The endpoint presents a certificate that the cluster's own CA has not signed, although it leads to this cluster. This is expected behind Omni, Rancher or a load balancer that terminates TLS.",
    source: KUBERNETES_KUBECONFIG,
    remedy: &[
        Do("Nothing to do if such a proxy is expected. Otherwise find out what answers:"),
        Look("kubectl cluster-info"),
    ],
};

pub(super) const API_UNREACHABLE_FROM_HERE: Text = Text {
    explanation: "This runner cannot reach an API server at its node's address, but can reach those of other control planes. Its lease or its endpoint of the `kubernetes` Service shows that it is alive, but whether it is ready is unknown. Usually a firewall drops the packets, or the machine's network has a problem; then other clients of this server are cut off, too.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("kubectl --server https://NODE:6443 get --raw '/readyz?verbose'"),
        Look("talosctl -n NODE netstat"),
        CONTAINERS,
    ],
};

pub(super) const API_SERVICE_EMPTY: Text = Text {
    explanation: "The Service `kubernetes` in namespace `default` has no ready endpoint, although an API server is ready. Pods reach the Kubernetes API through this Service: cluster DNS, network plugins and operators lose it. API servers enter their own addresses there, and do so again every ten seconds.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("kubectl -n default get endpointslices -l kubernetes.io/service-name=kubernetes -o yaml"),
        Look("talosctl -n CP logs --kubernetes kube-system/kube-apiserver-CP:kube-apiserver"),
        Do(
            "Look for `--endpoint-reconciler-type` among the API server's arguments. With `none`, something else has to enter the endpoints.",
        ),
    ],
};

pub(super) const API_SERVICE_INCOMPLETE: Text = Text {
    explanation: "An API server reports ready, but is not among the ready endpoints of the Service `kubernetes` in namespace `default`. Pods reach the Kubernetes API through this Service, so they lose it with the servers that are listed, although another one works. Each API server lists itself every 10 seconds, and removes those that do not; with `--endpoint-reconciler-type=none` none does.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("kubectl -n default get endpointslices -l kubernetes.io/service-name=kubernetes -o yaml"),
        Look("kubectl -n kube-system get lease"),
        Do(
            "Look for `--endpoint-reconciler-type` and `--advertise-address` among the arguments of each API server, and for anything else that writes these endpoints.",
        ),
    ],
};

pub(super) const API_SERVICE_STRAY: Text = Text {
    explanation: "The Service `kubernetes` in namespace `default` has an endpoint that is a worker, or an address of no known machine, alongside the control planes. Pods reach the Kubernetes API through this Service, so a share of their requests goes to an address at which no API server of this cluster answers. API servers enter their own `--advertise-address` there; a wrong one, a copied configuration, or a control plane of another cluster with the same etcd looks like this.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("kubectl -n default get endpointslices -l kubernetes.io/service-name=kubernetes -o yaml"),
        Look("kubectl -n kube-system get lease"),
        Do(
            "Look for `--advertise-address` among the arguments of each API server, and for anything else that writes these endpoints.",
        ),
    ],
};

pub(super) const SERVER_NOT_DIRECTLY_REACHABLE: Text = Text {
    explanation: "This runner cannot reach an API server at its node's address, and neither its lease nor an endpoint of the `kubernetes` Service shows that it is alive. It may be down, or only unreachable from this network.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[Look("kubectl -n kube-system get lease"), Look("kubectl -n default get endpointslices"), CONTAINERS],
};
