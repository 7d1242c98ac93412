"""The rig without Talos: etcd and Kubernetes control planes on loopback, nodes played by kwok."""
import dataclasses
import json

from cluster import NAME, RIG, STATE, Cluster, pinned, told_by


MEMBERS = 3  # of etcd
NODES = tuple(f"worker-{n:04d}" for n in range(1, 6))


@dataclasses.dataclass(frozen=True)
class Kind:
    """A cluster as `rig.sh up` makes it with these settings."""

    what: str
    settings: dict = dataclasses.field(default_factory=dict)
    nodes: tuple = ("cp-1", "cp-2", "cp-3", *NODES)
    servers: int = 3  # used whether or not their machines are Nodes
    has_etcd: bool = True


KINDS = {
    "k8s": Kind("no Talos: three etcd members, three API servers behind a balancer, nodes by kwok"),
    "kubernetes-1.34": Kind("Kubernetes 1.34", {"KUBERNETES": "1.34.4"}),
    "kubernetes-1.36": Kind("Kubernetes 1.36", {"KUBERNETES": "1.36.3"}),
    "kubernetes-1.37": Kind("Kubernetes 1.37", {"KUBERNETES": "1.37.2"}),
    "etcd-3.7": Kind("etcd 3.7", {"ETCD": "3.7.3"}),
    "processes": Kind("the control plane as processes of its machines, as k3s has it", {"SHAPE": "processes"}),
    "hosted": Kind("a control plane that is no part of the cluster's Nodes, as with a provider", {"SHAPE": "hosted"}, NODES),
    "named-dns": Kind("DNS behind a Service of another name, as RKE2 has it", {"SHAPE": "named-dns"}),
    "sqlite": Kind("API servers that store in sqlite through kine, without etcd", {"SHAPE": "sqlite"}, has_etcd=False),
    "one-server": Kind(
        "one control plane with sqlite, without leader election and without a DaemonSet of kube-proxy, as k3s begins",
        {"SHAPE": "one-server"}, ("cp-1", *NODES), servers=1, has_etcd=False,
    ),
}
# Names in `[run]`, and the rig's names for their certificates.
USERS = {"admin": "admin", "rbac": "reader", "no-rights": "nobody", "expired": "reader-expired", "foreign-ca": "reader-foreign"}


class KubernetesCluster(Cluster):
    rig, network, state = RIG / "k8s", f"{NAME}-k8s", STATE.with_name(f"{NAME}-k8s")
    talos = False
    defaults = {"talos": "none", "kube": "rbac", "etcd": "root"}
    users = ("rbac", "admin")

    @property
    def api_servers(self):
        return self.kind.servers

    def is_up(self):
        return (self.state / "pki").exists()

    @property
    def settings(self):
        return {"KUBERNETES": pinned("KUBERNETES_DEFAULT"), "ETCD": pinned("ETCD"), "SHAPE": "static-pods", **self.kind.settings}

    def is_of_this_kind(self):
        files = {setting: self.state / setting.lower() for setting in self.settings}
        there = {setting: file.read_text().strip() for setting, file in files.items() if file.exists()}
        return self.settings == there

    def up(self, phase=None):
        self.call("rig.sh", "up")
        self.learn()

    def learn(self):
        self.env = self.environment()

    def pki(self, name):
        return self.state / "pki" / name

    def arguments(self, run, binary):
        arguments = ["--no-talos"]
        if run["kube"] != "none":
            if run["kube"] == "rbac":
                self.grant(binary)
            arguments += ["--kubeconfig", self.pki(f"{USERS[run['kube']]}.kubeconfig")]
        if run["etcd"] != "none":
            arguments += ["--etcd-endpoints", self.env["ETCD_ENDPOINTS"], "--etcd-cacert", self.pki("etcd-ca.crt")]
            arguments += ["--etcd-cert", self.pki("etcd-root.crt"), "--etcd-key", self.pki("etcd-root.key")]
        return arguments

    def grant(self, binary):
        """No right more than what the binary itself says it needs. Once: a fault may have taken some away since."""
        if "rights" in self.files:
            return
        role = told_by(binary, "rbac")
        rights = self.work / "rights.yaml"
        rights.write_text(role)
        self.call("rig.sh", "rights", rights)
        self.files["rights"] = rights

    def support(self):
        """Nothing supervises the rig, and who loses its lease on a busy machine ends by design: it is started again."""
        self.call("rig.sh", "up")

    def looks(self):
        return *([self.etcd_fine] if self.kind.has_etcd else []), self.api_fine, self.kubernetes_fine

    def etcd_fine(self):
        etcdctl = ("etcdctl", "--endpoints", self.env["ETCD_ENDPOINTS"], "--command-timeout", "5s", "-w", "json")
        members = json.loads(self.ask(*etcdctl, "endpoint", "status"))
        leaders = {m["Status"].get("leader") for m in members}
        errors = [e for m in members for e in m["Status"].get("errors", [])]
        listed = json.loads(self.ask(*etcdctl, "member", "list"))["members"]
        if not len(members) == len(listed) == MEMBERS or len(leaders) != 1 or None in leaders or errors:
            return f"etcd: {len(members)} of {len(listed)} members answer, leaders {leaders}, {errors}"
        return None
