"""The Talos rig: its kinds of cluster, credentials, and whether one is well, asked by talosctl and kubectl."""
import dataclasses
import json
import re
import shutil

from cluster import NAME, RIG, STATE, Cluster, pinned, told_by

# A role without rules.
NO_RIGHTS = """apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: nothing}
rules: []
"""


@dataclasses.dataclass(frozen=True)
class Kind:
    """A cluster as `rig.sh up` makes it with these settings."""

    what: str
    nodes: tuple = ("cp1", "cp2", "cp3", "w1")
    settings: dict = dataclasses.field(default_factory=dict)


KINDS = {
    "ha": Kind("three control planes and a worker"),
    "single": Kind("one node", ("cp1",), {"MODE": "single"}),
    "pair": Kind("two control planes and a worker", ("cp1", "cp2", "w1"), {"MODE": "pair"}),
    "even": Kind("four control planes", ("cp1", "cp2", "cp3", "cp4"), {"MODE": "even"}),
    "own-cni": Kind("`cni: none`, with a network plugin of the users' own", settings={"CNI": "none"}),
    "bare": Kind(
        "three control planes and a worker without kube-proxy, coredns and discovery",
        settings={"NOPROXY": "true", "NODNS": "true", "NODISC": "true"},
    ),
    "talos-1.12": Kind("Talos 1.12", settings={"TALOS": "1.12.6"}),
    "talos-1.13": Kind("Talos 1.13", settings={"TALOS": "1.13.0"}),
}


class TalosCluster(Cluster):
    rig, network, state = RIG, f"{NAME}-net", STATE
    talos = True
    defaults = {"talos": "os:reader", "kube": "rbac"}

    @property
    def settings(self):
        standard = {"MODE": "ha", "TALOS": pinned("TALOS_DEFAULT"), "CNI": "flannel"}
        return {**standard, "NOPROXY": "false", "NODNS": "false", "NODISC": "false", **self.kind.settings}

    def is_of_this_kind(self):
        there = dict(re.findall(r"\$\{(\w+):=(.*)\}", (self.state / "settings").read_text()))
        return self.settings.items() <= there.items()

    def up(self, phase=None):
        ends = {"not-configured": {"CONFIGURE": "0"}, "not-bootstrapped": {"BOOTSTRAP": "0"}}.get(phase, {})
        shutil.rmtree(self.work, ignore_errors=True)
        self.call("rig.sh", "up", env=ends)
        self.learn()

    def learn(self):
        self.env = self.environment()
        self.files = {"talos os:admin": self.env["TALOSCONFIG"], "kube admin": self.env["KUBECONFIG"]}

    def arguments(self, run, binary):
        arguments = []
        if run["talos"] != "none":
            arguments += ["--talosconfig", self.credentials("talos", run["talos"], binary)]
        if run["kube"] != "none":
            arguments += ["--kubeconfig", self.credentials("kube", run["kube"], binary)]
        return arguments

    def credentials(self, kind, name, binary):
        """The path of a talosconfig (kind `talos`, name a role) or kubeconfig (kind `kube`), made on first use."""
        key = f"{kind} {name}"
        if key not in self.files:
            path = self.work / key.replace(" ", "-").replace(":", "-")
            if kind == "talos":
                text = self.call("rig.sh", "talosconfig", name)
            elif name == "foreign":
                text = self.call("rig.sh", "foreign", "up")
            elif name == "no-rights":  # a ServiceAccount that may do nothing
                manifest = self.work / "no-rights.yaml"
                manifest.write_text(NO_RIGHTS)
                text = self.call("rig.sh", "kubeconfig", "nobody", manifest)
            else:  # rbac: no right more than what the binary itself says it needs
                manifest = self.work / "rbac.yaml"
                manifest.write_text(told_by(binary, "rbac"))
                text = self.call("rig.sh", "kubeconfig", "cluster-health", manifest)
            path.write_text(text)
            path.chmod(0o600)
            self.files[key] = path
        return self.files[key]

    def after(self, scenario):
        if scenario.get("run", {}).get("fault_kube") == "foreign":
            self.call("rig.sh", "foreign", "down")
            self.files.pop("kube foreign", None)

    # Conditions for all nodes, pods and members before the next fault. Talos's and Kubernetes' own tools check them.
    def looks(self):
        return (self.talos_fine, self.services_fine, self.static_pods_fine, self.etcd_fine, self.api_fine, self.kubernetes_fine)

    def resources(self, kind, nodes=None):
        nodes = ",".join(self.env[n.upper()] for n in nodes or self.nodes)
        answer = self.ask("talosctl", "-n", nodes, "get", kind, "-o", "json")
        decoder, at, found = json.JSONDecoder(), 0, []
        while answer[at:].strip():
            at += len(answer[at:]) - len(answer[at:].lstrip())
            value, at = decoder.raw_decode(answer, at)
            found.append(value)
        return found

    def talos_fine(self):
        machines = self.resources("machinestatus")
        for m in machines:
            if m["spec"]["stage"] != "running" or not m["spec"]["status"]["ready"]:
                return f"{m['node']}: stage {m['spec']['stage']}, ready {m['spec']['status']['ready']}"
        if len(machines) != len(self.nodes):
            return f"{len(machines)} machines"
        return None

    def services_fine(self):
        services = self.resources("services")
        for s in services:
            if not s["spec"]["running"] or not (s["spec"]["healthy"] or s["spec"]["unknown"]):
                return f"{s['node']}: service {s['metadata']['id']} {s['spec']}"
        for service, nodes in (("kubelet", self.nodes), ("etcd", self.control_planes), ("apid", self.nodes)):
            if sum(s["metadata"]["id"] == service for s in services) != len(nodes):
                return f"service {service} is missing on some node"
        return None

    def static_pods_fine(self):
        pods = self.resources("staticpodstatus", self.control_planes)
        for p in pods:
            ready = [c["status"] for c in p["spec"].get("conditions", []) if c["type"] == "Ready"]
            if ready != ["True"]:
                return f"{p['node']}: static pod {p['metadata']['id']} Ready {ready}"
        if len(pods) != 3 * len(self.control_planes):
            return f"{len(pods)} static pods"
        for n in self.resources("nodestatus"):
            if not n["spec"]["nodeReady"] or n["spec"]["unschedulable"]:
                return f"{n['node']}: node status {n['spec']}"
        return None

    def etcd_fine(self):
        cps = ",".join(self.env[n.upper()] for n in self.control_planes)
        header, *rows = self.ask("talosctl", "-n", cps, "etcd", "status").splitlines()
        column = {name: header.index(name) for name in ("LEADER", "RAFT INDEX", "LEARNER", "PROTOCOL", "ERRORS")}
        leaders = {row[column["LEADER"]:column["RAFT INDEX"]].strip() for row in rows}
        if len(rows) != len(self.control_planes) or len(leaders) != 1 or leaders & {"", "0000000000000000"}:
            return f"etcd: {len(rows)} members, leaders {leaders}"
        for row in rows:
            if "true" in row[column["LEARNER"]:column["PROTOCOL"]] or row[column["ERRORS"]:].strip():
                return f"etcd: {row}"
        alarms = self.ask("talosctl", "-n", self.env["CP1"], "etcd", "alarm", "list").splitlines()[1:]
        return f"etcd: {alarms}" if alarms else None
