//! Credentials, endpoints, and the way to them.

use super::Step::{Change, Do, Look};
use super::Text;
use super::sources::{
    KUBERNETES_KUBECONFIG, TALOS_CLIENT, TALOS_CONNECTIVITY, TALOS_ENDPOINTS, TALOS_GETTING_STARTED, TALOS_PKI,
    TALOS_RBAC, TALOS_TROUBLESHOOTING, TALOS_TROUBLESHOOTING_API, TALOS_VIP,
};
use super::steps::{NEW_TALOSCONFIG, NODE_VERSION};

pub(super) const CERTIFICATE_EXPIRED: Text = Text {
    explanation: "The validity of a certificate has ended, by the clock of this machine. Client certificates of Talos and Kubernetes are usually valid for a year, and nothing renews the copy in a file. Until it is replaced, the cluster's own health is unknown.",
    source: TALOS_PKI,
    remedy: &[
        Do("Check the date of this machine first: a wrong clock looks the same."),
        Look("talosctl config info"),
        Do("With an administrator's talosconfig that still works, make a new one:"),
        NEW_TALOSCONFIG,
        Do(
            "Without one, generate it from the secrets bundle (`talosctl gen config --with-secrets secrets.yaml --output-types talosconfig`). A kubeconfig is renewed with:",
        ),
        Change("talosctl -n CP kubeconfig --force"),
    ],
};

pub(super) const CERTIFICATE_EXPIRES_SOON: Text = Text {
    explanation: "A certificate is still valid, but not for much longer: less than 30 days, or less than a tenth of its lifetime if that is shorter. When that of a talosconfig or kubeconfig ends, everything that uses the file stops working at once; when that of an API server ends, every client of it does. Talos renews the API servers' certificates at half of their life, so one that is about to end was not renewed, or is a load balancer's own.",
    source: TALOS_PKI,
    remedy: &[
        Look("talosctl config info"),
        Do("Of a file: renew it now, while the old one still opens the door:"),
        NEW_TALOSCONFIG,
        Change("talosctl -n CP kubeconfig --force"),
        Do("Of an API server: see whether Talos fails to renew it. The server reads the new one when it is there."),
        Look("talosctl -n NODE logs controller-runtime"),
        Do(
            "Of the CA of Talos: see what rotating it would do, and do it only while every machine is up; one that misses it is locked out:",
        ),
        Look("talosctl -n CP rotate-ca --kubernetes=false"),
        Change("talosctl -n CP rotate-ca --kubernetes=false --dry-run=false"),
    ],
};

pub(super) const CERTIFICATE_NOT_YET_VALID: Text = Text {
    explanation: "A certificate begins to be valid only in the future. Nearly always a clock is wrong: that of this machine, or that of the node that issued the certificate at a time when it had not synchronized.",
    source: TALOS_PKI,
    remedy: &[
        Do("Compare the clock of this machine with a reference."),
        Look("talosctl -n NODE time"),
        Do(
            "A few minutes' difference heals by itself when the clocks agree; otherwise correct them and issue a new certificate.",
        ),
    ],
};

pub(super) const CLIENT_AUTH_MISSING: Text = Text {
    explanation: "The client certificate lacks the extended key usage for client authentication. Older versions of Talos issued and accepted such certificates; newer ones refuse them with `bad certificate`, so a talosconfig that worked for years stops working after an upgrade.",
    source: TALOS_PKI,
    remedy: &[Do("Make a new talosconfig, from one that still works or from the secrets bundle:"), NEW_TALOSCONFIG],
};

pub(super) const KEY_MISMATCH: Text = Text {
    explanation: "The private key and the certificate in the same file do not belong together. That happens when a file was put together by hand, when a secret was updated only in part, or when two contexts were merged.",
    source: TALOS_PKI,
    remedy: &[
        Do("Take both from the same source again; do not mix a renewed certificate with an old key."),
        Look("talosctl config info"),
    ],
};

pub(super) const ROLE_TOO_LOW: Text = Text {
    explanation: "The server knows who is asking and does not allow the call. The role is written into the client certificate (its organization), so no setting on the cluster changes that. os:reader is enough for every call made here, except `--server`, which needs os:admin.",
    source: TALOS_RBAC,
    remedy: &[
        Look("talosctl config info"),
        Do("Use a talosconfig with the role os:reader or higher:"),
        NEW_TALOSCONFIG,
    ],
};

pub(super) const ROLE_TOO_LOW_FOR_THIS_VERSION: Text = Text {
    explanation: "This call needs os:operator on the version of Talos that the node runs; from 1.9.6 and 1.10.1 on os:reader is enough. So the check could not run; the cluster itself may be healthy.",
    source: TALOS_RBAC,
    remedy: &[
        NODE_VERSION,
        Do("Use a talosconfig with os:operator until Talos is upgraded, or leave the check out with `--skip`."),
        Change("talosctl -n CP config new --roles os:operator --crt-ttl 8760h new-talosconfig"),
    ],
};

pub(super) const CONFIG_UNREADABLE: Text = Text {
    explanation: "A talosconfig, kubeconfig or certificate file is missing, cannot be opened or does not have the form it should. No request was sent to the cluster. In CI the usual cause is a secret that was not mounted, is empty, or was encoded twice.",
    source: TALOS_CLIENT,
    remedy: &[
        Do("Look at the path in the message: does the file exist, is it readable by this user, is it YAML?"),
        Look("talosctl config info"),
    ],
};

pub(super) const CONTEXT_UNKNOWN: Text = Text {
    explanation: "The configuration has contexts, but none with the requested name or with the name of its current context.",
    source: TALOS_CLIENT,
    remedy: &[
        Look("talosctl config contexts"),
        Look("kubectl config get-contexts"),
        Do("Give the right name with `--context` or `--kube-context`."),
    ],
};

pub(super) const NO_KUBECONFIG: Text = Text {
    explanation: "No Kubernetes credentials were found that can be used and belong to this cluster, so Kubernetes could not be looked at. The report lists the sources that were passed over, each with its reason. With a talosconfig of the role os:admin they can be fetched through the Talos API; with os:reader they cannot.",
    source: KUBERNETES_KUBECONFIG,
    remedy: &[
        Do("Name a kubeconfig with `--kubeconfig`. `cluster-health rbac` prints the least rights that it needs."),
        Do("Or check without Kubernetes: `--no-kubernetes`."),
    ],
};

pub(super) const KUBECONFIG_INSECURE: Text = Text {
    explanation: "The kubeconfig sets `insecure-skip-tls-verify`, or its server is `http://`. A machine in between could then answer in the cluster's place and would receive the credentials; a gate must not trust that.",
    source: KUBERNETES_KUBECONFIG,
    remedy: &[
        Do("Put the cluster's CA into the kubeconfig instead. This one has it:"),
        Change("talosctl -n CP kubeconfig new-kubeconfig"),
    ],
};

pub(super) const CONNECTION_REFUSED: Text = Text {
    explanation: "The machine answered, but nothing listens on the port, or a firewall rejects the connection. Typical while a node boots, when the service behind the port has crashed, or when the port is wrong (Talos: 50000, Kubernetes: 6443).",
    source: TALOS_TROUBLESHOOTING_API,
    remedy: &[
        NODE_VERSION,
        Look("nc -vz NODE 50000"),
        Do("If the machine has just been started, wait; otherwise look at its console."),
    ],
};

pub(super) const NO_ROUTE: Text = Text {
    explanation: "The network has no way to the address: the host or network is down, a VPN is not up, or the address does not exist any more.",
    source: TALOS_TROUBLESHOOTING_API,
    remedy: &[
        Look("ip route get NODE"),
        Do("From a CI runner: is it in the right network? Do other addresses of the same cluster answer?"),
    ],
};

pub(super) const TIMED_OUT: Text = Text {
    explanation: "Packets were sent and nothing came back in time. A firewall that drops silently, a machine that is switched off, and an overloaded machine look the same from here.",
    source: TALOS_TROUBLESHOOTING_API,
    remedy: &[
        NODE_VERSION,
        Look("nc -vz -w 5 NODE 50000"),
        Do(
            "If other nodes answer, it is this machine or its network. If answers are only slow, allow more with `--attempt-timeout`.",
        ),
    ],
};

pub(super) const NAME_NOT_FOUND: Text = Text {
    explanation: "The host name of an endpoint cannot be resolved by the DNS that this machine uses. The name may be mistyped, may exist only in an internal zone, or may not have been created yet.",
    source: TALOS_TROUBLESHOOTING_API,
    remedy: &[
        Look("getent hosts NAME"),
        Do("Correct the endpoint, or use addresses: `--endpoints 10.0.0.1,10.0.0.2`."),
    ],
};

pub(super) const UNKNOWN_CA: Text = Text {
    explanation: "Something answers with a certificate that the CA in the configuration has not signed. Either the configuration belongs to another cluster, or the cluster was rebuilt with new secrets, or the node is in maintenance mode, where it signs its certificate itself.",
    source: TALOS_PKI,
    remedy: &[
        Look("talosctl config info"),
        Look("talosctl -n NODE get machinestatus --insecure"),
        Do("Use the configuration of the cluster that is there now. Do not switch verification off."),
    ],
};

pub(super) const NAME_NOT_IN_CERTIFICATE: Text = Text {
    explanation: "The server's certificate is genuine, but does not list the address or name that was dialed. It is usually a load balancer's name or a new address that was not added to the node's certificate.",
    source: TALOS_PKI,
    remedy: &[
        Do(
            "Dial an address that the certificate lists (it is in the message), or add the name to `machine.certSANs` (Talos) or `cluster.apiServer.certSANs` (Kubernetes) of the control planes:",
        ),
        Change("talosctl -n CP patch machineconfig --patch @sans.yaml"),
    ],
};

pub(super) const SERVER_CERTIFICATE_EXPIRED: Text = Text {
    explanation: "The certificate that the server shows is not valid now. Talos renews its own certificates by itself, so either the clock of the node or of this machine is wrong, or the renewal fails: workers get theirs from trustd on the control planes (port 50001).",
    source: TALOS_PKI,
    remedy: &[
        Look("talosctl -n NODE time"),
        Look("talosctl -n CP logs controller-runtime"),
        Do("From a worker, port 50001 of the control planes must be reachable."),
    ],
};

pub(super) const CLIENT_CERTIFICATE_REFUSED: Text = Text {
    explanation: "The server was reached and does not accept the client certificate: it is signed by another CA, is expired by the server's clock, or lacks the right usage. For Omni, the signature or the service account key may have expired.",
    source: TALOS_PKI,
    remedy: &[
        Look("talosctl config info"),
        Do("Check that the context is this cluster's and that the clocks agree; then make a new talosconfig:"),
        NEW_TALOSCONFIG,
    ],
};

pub(super) const ENDPOINT_IS_WORKER: Text = Text {
    explanation: "An endpoint of the talosconfig is a worker. Only control planes forward calls to other nodes; a worker refuses, so calls fail now and then, depending on which endpoint is taken.",
    source: TALOS_ENDPOINTS,
    remedy: &[
        Look("talosctl config info"),
        Do("List control planes only:"),
        Change("talosctl config endpoint CP1 CP2 CP3"),
    ],
};

pub(super) const ENDPOINT_IS_VIP: Text = Text {
    explanation: "An endpoint of the talosconfig is the virtual IP of the Kubernetes API. That address is held through etcd: without an etcd quorum no node holds it, and the Talos API is unreachable just when it is needed.",
    source: TALOS_VIP,
    remedy: &[
        Look("talosctl config info"),
        Do("List the control planes' own addresses:"),
        Change("talosctl config endpoint CP1 CP2 CP3"),
    ],
};

pub(super) const ENDPOINT_CUT_OFF: Text = Text {
    explanation: "This control plane answers, and does not get through to a node that answers through another control plane. So the network is partitioned somewhere between the two, or a firewall lets only some of the machines through. The API server on this control plane has the same trouble with logs and exec on that node, and whoever asks Talos through this endpoint does not see it.",
    source: TALOS_ENDPOINTS,
    remedy: &[
        Look("talosctl -e CP -n NODE version"),
        Do(
            "Compare the ways from both control planes to the node: port 50000 has to be open from every control plane.",
        ),
    ],
};

pub(super) const ENDPOINT_UNREACHABLE: Text = Text {
    explanation: "An endpoint of the talosconfig does not answer on the Talos API. If others do, the cluster can still be judged through them; if none does, nothing is known of it, and the network of this machine is as likely the cause as the cluster.",
    source: TALOS_ENDPOINTS,
    remedy: &[
        Look("talosctl -e CP -n CP version"),
        Look("nc -vz CP 50000"),
        Do("Take endpoints that are gone out of the talosconfig."),
    ],
};

pub(super) const PROXY_REFUSED: Text = Text {
    explanation: "A proxy was used because of a variable such as HTTPS_PROXY, and it did not let the connection through. Proxies often allow port 443 only.",
    source: TALOS_TROUBLESHOOTING_API,
    remedy: &[
        Look("env | grep -i proxy"),
        Do("Add the cluster's addresses to NO_PROXY, or allow the ports 50000 and 6443 at the proxy."),
    ],
};

pub(super) const MAINTENANCE_MODE: Text = Text {
    explanation: "The machine runs Talos but has no machine configuration: it was never configured, or was wiped. It belongs to no cluster until it gets one. Its API answers with a certificate that it signed itself.",
    source: TALOS_GETTING_STARTED,
    remedy: &[
        Look("talosctl -n NODE get machinestatus --insecure"),
        Do(
            "If it was a control plane, take its old member out of etcd before it joins again. Then give it the configuration of its role, made from the secrets of this cluster:",
        ),
        Change("talosctl apply-config --insecure -n NODE -f MACHINE-CONFIG.yaml"),
    ],
};

pub(super) const ANSWERED_BY_OTHER_NODE: Text = Text {
    explanation: "A call for one node was answered by another. Two machines may share an address, an address may have moved (DHCP, a virtual IP), or a load balancer stands where a node's own address was expected.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE get hostname"),
        Look("talosctl -n NODE get addresses"),
        Do("Name nodes by addresses of their own."),
    ],
};

pub(super) const NODE_UNREACHABLE: Text = Text {
    explanation: "The endpoint answers, but cannot reach this node on port 50000. So the network from here is fine: the machine is down, is rebooting, has another address now, or is cut off from the control planes.",
    source: TALOS_CONNECTIVITY,
    remedy: &[
        NODE_VERSION,
        Look("kubectl get node -o wide"),
        Do("Look at the machine's console. Between nodes, port 50000 must be open."),
    ],
};
