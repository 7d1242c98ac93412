//! Credentials, endpoints, and the connections to them.

use super::Step::{Change, Do, Look};
use super::Text;
use super::sources::{
    KUBERNETES_AUTHENTICATION, KUBERNETES_KUBECONFIG, OMNI_SERVICE_ACCOUNTS, TALOS_CLIENT, TALOS_CONNECTIVITY,
    TALOS_ENDPOINTS, TALOS_GETTING_STARTED, TALOS_PKI, TALOS_RBAC, TALOS_TROUBLESHOOTING, TALOS_TROUBLESHOOTING_API,
    TALOS_VIP,
};
use super::steps::{NEW_TALOSCONFIG, NODE_VERSION};

pub(super) const CERTIFICATE_EXPIRED: Text = Text {
    explanation: "A certificate has expired, by the clock of this runner. Client certificates of Talos and Kubernetes are usually valid for a year, and nothing renews the copy in a file. Until it is replaced, the health of the cluster is unknown.",
    source: TALOS_PKI,
    remedy: &[
        Do("Check the date of this runner first: a wrong clock looks the same."),
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
    explanation: "A certificate is still valid, but expires soon: in less than 30 days, or in less than a tenth of its lifetime if that is shorter. When the certificate of a talosconfig or kubeconfig expires, everything that uses the file stops working at once. When that of an API server expires, all its clients do. Talos renews the API servers' certificates after half of their lifetime, so this one was not renewed, or belongs to a load balancer.",
    source: TALOS_PKI,
    remedy: &[
        Look("talosctl config info"),
        Do("For a talosconfig or kubeconfig: renew it now, while the old one still works:"),
        NEW_TALOSCONFIG,
        Change("talosctl -n CP kubeconfig --force"),
        Do("For an API server: check why Talos did not renew it. The server loads the new one automatically."),
        Look("talosctl -n NODE logs controller-runtime"),
        Do(
            "For the Talos CA: preview a rotation first, and rotate only while every machine is up; one that misses it is locked out:",
        ),
        Look("talosctl -n CP rotate-ca --kubernetes=false"),
        Change("talosctl -n CP rotate-ca --kubernetes=false --dry-run=false"),
    ],
};

pub(super) const CERTIFICATE_NOT_YET_VALID: Text = Text {
    explanation: "A certificate is not valid yet. Nearly always a clock is wrong: that of this runner, or that of the node that issued the certificate before it was synchronized.",
    source: TALOS_PKI,
    remedy: &[
        Do("Compare the clock of this runner with a reference."),
        Look("talosctl -n NODE time"),
        Do(
            "If the clocks agree and the difference is only a few minutes, wait. Otherwise correct the clocks and issue a new certificate.",
        ),
    ],
};

pub(super) const CLIENT_AUTH_MISSING: Text = Text {
    explanation: "The client certificate lacks the extended key usage for client authentication. Older versions of Talos issued and accepted such certificates; newer ones refuse them with `bad certificate`, so a talosconfig that worked for years stops working after an upgrade.",
    source: TALOS_PKI,
    remedy: &[Do("Make a new talosconfig, from one that still works or from the secrets bundle:"), NEW_TALOSCONFIG],
};

pub(super) const KEY_MISMATCH: Text = Text {
    explanation: "The private key and the certificate in the same file do not match. This happens when a file was assembled manually, when a secret was only partly updated, or when two contexts were merged.",
    source: TALOS_PKI,
    remedy: &[
        Do("Take both from the same source again; do not mix a renewed certificate with an old key."),
        Look("talosctl config info"),
    ],
};

pub(super) const ROLE_TOO_LOW: Text = Text {
    explanation: "The server has authenticated the client and does not allow the request. The role is part of the client certificate (its organization), so no setting in the cluster changes it. The role os:reader is enough for everything except `--server`, which needs os:admin.",
    source: TALOS_RBAC,
    remedy: &[
        Look("talosctl config info"),
        Do("Use a talosconfig with the role os:reader or higher:"),
        NEW_TALOSCONFIG,
    ],
};

pub(super) const ROLE_TOO_LOW_FOR_THIS_VERSION: Text = Text {
    explanation: "On the Talos version of this node, the request needs os:operator; from 1.9.6 and 1.10.1 on, os:reader is enough. So the check could not run; the cluster itself may be healthy.",
    source: TALOS_RBAC,
    remedy: &[
        NODE_VERSION,
        Do("Use a talosconfig with os:operator until Talos is upgraded, or leave the check out with `--skip`."),
        Change("talosctl -n CP config new --roles os:operator --crt-ttl 8760h new-talosconfig"),
    ],
};

pub(super) const CONFIG_UNREADABLE: Text = Text {
    explanation: "A talosconfig, kubeconfig or certificate file is missing, cannot be opened or is invalid. No request was sent to the cluster. In CI the usual cause is a secret that was not mounted, is empty, or was encoded twice.",
    source: TALOS_CLIENT,
    remedy: &[
        Do("Check the path in the message: the file has to exist, be readable by this user, and be YAML."),
        Look("talosctl config info"),
    ],
};

pub(super) const CONTEXT_UNKNOWN: Text = Text {
    explanation: "The configuration has no context with the requested name, or its current context does not exist.",
    source: TALOS_CLIENT,
    remedy: &[
        Look("talosctl config contexts"),
        Look("kubectl config get-contexts"),
        Do("Pass the right name with `--context` or `--kube-context`."),
    ],
};

pub(super) const NO_KUBECONFIG: Text = Text {
    explanation: "No usable Kubernetes credentials for this cluster were found, so Kubernetes could not be checked. The report lists the sources that were skipped, each with the reason. With the role os:admin, a kubeconfig can be fetched through the Talos API; with os:reader it cannot.",
    source: KUBERNETES_KUBECONFIG,
    remedy: &[
        Do("Pass a kubeconfig with `--kubeconfig`. `cluster-health rbac` prints the rights that it needs."),
        Do("Or check without Kubernetes: `--no-kubernetes`."),
    ],
};

pub(super) const EXEC_PLUGIN_FAILED: Text = Text {
    explanation: "The kubeconfig gets its credentials from a program (`exec`), and that program is missing, failed, did not finish in time, or returned something that kubectl would not accept either. The message names the program and ends with the last lines that it wrote to stderr. No request was sent to the API server, so nothing is known about it. Plugins are run without a terminal: one that wants to open a browser or asks for a password cannot succeed.",
    source: KUBERNETES_AUTHENTICATION,
    remedy: &[
        Do(
            "Log in with the plugin's own tool first, or set the variables that it needs in CI; then try the kubeconfig:",
        ),
        Look("kubectl auth whoami"),
        Do("Or pass a kubeconfig without a plugin, with the rights that `cluster-health rbac` prints."),
    ],
};

pub(super) const KUBECONFIG_INSECURE: Text = Text {
    explanation: "The kubeconfig sets `insecure-skip-tls-verify`, or its server is `http://`. An attacker in between could then answer instead of the cluster and would receive the credentials; a gate must not trust that.",
    source: KUBERNETES_KUBECONFIG,
    remedy: &[
        Do("Put the cluster's CA into the kubeconfig instead. This command writes one that has it:"),
        Change("talosctl -n CP kubeconfig new-kubeconfig"),
    ],
};

pub(super) const CONNECTION_REFUSED: Text = Text {
    explanation: "The machine answered, but nothing listens on the port, or a firewall rejects the connection. This is typical while a node boots, when the service behind the port has crashed, or when the port is wrong (Talos: 50000, Kubernetes: 6443).",
    source: TALOS_TROUBLESHOOTING_API,
    remedy: &[
        NODE_VERSION,
        Look("nc -vz NODE 50000"),
        Do("If the machine has just been started, wait; otherwise look at its console."),
    ],
};

pub(super) const NO_ROUTE: Text = Text {
    explanation: "There is no route to the address: the host or network is down, a VPN is not connected, or the address no longer exists.",
    source: TALOS_TROUBLESHOOTING_API,
    remedy: &[
        Look("ip route get NODE"),
        Do(
            "On a CI runner, check that it is in the right network, and whether other addresses of the same cluster answer.",
        ),
    ],
};

pub(super) const TIMED_OUT: Text = Text {
    explanation: "Packets were sent, but nothing came back in time. A firewall that drops packets, a machine that is powered off, and an overloaded machine look the same from here.",
    source: TALOS_TROUBLESHOOTING_API,
    remedy: &[
        NODE_VERSION,
        Look("nc -vz -w 5 NODE 50000"),
        Do(
            "If other nodes answer, the problem is this node or its network. If answers are only slow, allow more time with `--attempt-timeout`.",
        ),
    ],
};

pub(super) const NAME_NOT_FOUND: Text = Text {
    explanation: "The DNS of this runner cannot resolve the hostname of an endpoint. The name may be mistyped, may exist only in an internal zone, or may not have been created yet.",
    source: TALOS_TROUBLESHOOTING_API,
    remedy: &[
        Look("getent hosts NAME"),
        Do("Correct the endpoint, or use addresses: `--endpoints 10.0.0.1,10.0.0.2`."),
    ],
};

pub(super) const UNKNOWN_CA: Text = Text {
    explanation: "The server presents a certificate that the CA in the configuration has not signed. The configuration belongs to another cluster, the cluster was rebuilt with new secrets, or the node is in maintenance mode, where its certificate is self-signed.",
    source: TALOS_PKI,
    remedy: &[
        Look("talosctl config info"),
        Look("talosctl -n NODE get machinestatus --insecure"),
        Do("Use the configuration of the current cluster. Do not disable verification."),
    ],
};

pub(super) const NAME_NOT_IN_CERTIFICATE: Text = Text {
    explanation: "The server's certificate is signed by the right CA, but does not include the address or name that was used. Usually this is a load balancer's name or a new address that was not added to the certificate.",
    source: TALOS_PKI,
    remedy: &[
        Do(
            "Use an address from the certificate (the message lists them), or add the name to `machine.certSANs` (Talos) or `cluster.apiServer.certSANs` (Kubernetes) of the control planes:",
        ),
        Change("talosctl -n CP patch machineconfig --patch @sans.yaml"),
    ],
};

pub(super) const SERVER_CERTIFICATE_EXPIRED: Text = Text {
    explanation: "The server's certificate has expired or is not valid yet. Talos renews its own certificates, so either the clock of the node or of this runner is wrong, or the renewal fails. Workers get theirs from trustd on the control planes (port 50001).",
    source: TALOS_PKI,
    remedy: &[
        Look("talosctl -n NODE time"),
        Look("talosctl -n CP logs controller-runtime"),
        Do("From a worker, port 50001 of the control planes must be reachable."),
    ],
};

pub(super) const CLIENT_CERTIFICATE_REFUSED: Text = Text {
    explanation: "The server was reached but does not accept the client certificate: it is signed by another CA, has expired by the server's clock, or lacks the usage for client authentication.",
    source: TALOS_PKI,
    remedy: &[
        Look("talosctl config info"),
        Do("Check that the context is this cluster's and that the clocks agree; then make a new talosconfig:"),
        NEW_TALOSCONFIG,
    ],
};

pub(super) const SIGNATURE_REFUSED: Text = Text {
    explanation: "Omni was reached, and does not accept the signature of the service account. It gives the same answer for a key that it does not know, that has expired, or that was revoked or renewed, and for a signature with a time that is more than five minutes from its own. An expired key is found without Omni, and a different clock is reported if the answer has a date; so it is usually one of the others.",
    source: OMNI_SERVICE_ACCOUNTS,
    remedy: &[
        Do("With your own login in Omni, check that the account exists and until when its key is valid:"),
        Look("omnictl serviceaccount list"),
        Do(
            "If the key was renewed or the account was recreated, put the new key into the variable. If the endpoint is another Omni's, use the talosconfig of this one. Compare the clock of this runner with a reference.",
        ),
        Change("omnictl serviceaccount renew NAME"),
    ],
};

pub(super) const SERVICE_KEY_EXPIRED: Text = Text {
    explanation: "The key of the service account has expired by the clock of this runner. Omni would refuse everything that it signs, so nothing was queried. Keys of service accounts are valid for a year unless another lifetime was requested, and nothing renews them.",
    source: OMNI_SERVICE_ACCOUNTS,
    remedy: &[
        Do("Check the date of this runner first: a wrong clock looks the same."),
        Do("With your own login in Omni, make a new key and put it into the variable:"),
        Look("omnictl serviceaccount list"),
        Change("omnictl serviceaccount renew NAME"),
    ],
};

pub(super) const SERVICE_KEY_EXPIRES_SOON: Text = Text {
    explanation: "The key of the service account is still valid, but not for long: less than 30 days, or less than a tenth of its lifetime if that is shorter. When it expires, everything that uses it stops working at once.",
    source: OMNI_SERVICE_ACCOUNTS,
    remedy: &[
        Look("omnictl serviceaccount list"),
        Do("Renew it now, and put the new key into the variable:"),
        Change("omnictl serviceaccount renew NAME"),
    ],
};

pub(super) const SERVICE_KEY_NOT_YET_VALID: Text = Text {
    explanation: "By the clock of this runner, the key of the service account has not been created yet. So a clock is wrong: that of this runner, or that of the machine on which the key was created.",
    source: OMNI_SERVICE_ACCOUNTS,
    remedy: &[Do("Compare the clock of this runner with a reference."), Look("omnictl serviceaccount list")],
};

pub(super) const ENDPOINT_IS_WORKER: Text = Text {
    explanation: "An endpoint of the talosconfig is a worker. Only control planes forward requests to other nodes. A worker refuses, so requests fail now and then, depending on which endpoint is used.",
    source: TALOS_ENDPOINTS,
    remedy: &[
        Look("talosctl config info"),
        Do("List control planes only:"),
        Change("talosctl config endpoint CP1 CP2 CP3"),
    ],
};

pub(super) const ENDPOINT_IS_VIP: Text = Text {
    explanation: "An endpoint of the talosconfig is the virtual IP of the Kubernetes API. That address depends on etcd: without a quorum no node holds it, and the Talos API is unreachable exactly when it is needed.",
    source: TALOS_VIP,
    remedy: &[
        Look("talosctl config info"),
        Do("List the control planes' own addresses:"),
        Change("talosctl config endpoint CP1 CP2 CP3"),
    ],
};

pub(super) const ENDPOINT_CUT_OFF: Text = Text {
    explanation: "This control plane answers, but cannot reach a node that answers through another control plane. So the network between the two is partitioned, or a firewall allows only some of the machines. The API server on this control plane has the same problem with logs and exec on that node, and Talos requests to that node through this endpoint fail.",
    source: TALOS_ENDPOINTS,
    remedy: &[
        Look("talosctl -e CP -n NODE version"),
        Do(
            "Compare the network paths from both control planes to the node: port 50000 has to be open from every control plane.",
        ),
    ],
};

pub(super) const ENDPOINT_UNREACHABLE: Text = Text {
    explanation: "An endpoint of the talosconfig does not answer on the Talos API. If others answer, the cluster can still be checked through them. If none does, nothing is known about the cluster, and the network of this runner is as likely the cause as the cluster.",
    source: TALOS_ENDPOINTS,
    remedy: &[
        Look("talosctl -e CP -n CP version"),
        Look("nc -vz CP 50000"),
        Do("Remove endpoints that no longer exist from the talosconfig."),
    ],
};

pub(super) const PROXY_REFUSED: Text = Text {
    explanation: "A proxy was used because of a variable such as HTTPS_PROXY, and it refused the connection. Proxies often allow only port 443.",
    source: TALOS_TROUBLESHOOTING_API,
    remedy: &[
        Look("env | grep -i proxy"),
        Do("Add the cluster's addresses to NO_PROXY, or allow the ports 50000 and 6443 at the proxy."),
    ],
};

pub(super) const MAINTENANCE_MODE: Text = Text {
    explanation: "The machine runs Talos but has no machine configuration: it was never configured, or was wiped. It belongs to no cluster until it gets one. Its API answers with a self-signed certificate.",
    source: TALOS_GETTING_STARTED,
    remedy: &[
        Look("talosctl -n NODE get machinestatus --insecure"),
        Do(
            "If it was a control plane, remove its old etcd member before it joins again. Then apply the configuration for its role, generated from the secrets of this cluster:",
        ),
        Change("talosctl apply-config --insecure -n NODE -f MACHINE-CONFIG.yaml"),
    ],
};

pub(super) const ANSWERED_BY_OTHER_NODE: Text = Text {
    explanation: "A request for one node was answered by another. Two machines may share an address, an address may have moved (DHCP, a virtual IP), or a load balancer has the address that was expected to be a node's own.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE get hostname"),
        Look("talosctl -n NODE get addresses"),
        Do("Use each node's own address."),
    ],
};

pub(super) const NODE_UNREACHABLE: Text = Text {
    explanation: "The endpoint answers, but cannot reach this node on port 50000. So the network of this runner works; the machine is down, is rebooting, has a new address, or is cut off from the control planes.",
    source: TALOS_CONNECTIVITY,
    remedy: &[
        NODE_VERSION,
        Look("kubectl get node -o wide"),
        Do("Look at the machine's console. Between nodes, port 50000 must be open."),
    ],
};
