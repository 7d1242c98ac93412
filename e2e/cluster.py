"""The real cluster: up and down, its credentials, and whether it is well, asked by its own tools."""
import concurrent.futures
import dataclasses
import datetime
import json
import os
import pathlib
import shutil
import time

from processes import output
from simulated import CACHE

RIG = pathlib.Path(__file__).resolve().parent / "rig"
NAME = os.environ.get("E2E_NAME") or "ch"
STATE = CACHE / "rig" / NAME
HEAL_LIMIT = 240


# A role with nothing in it.
NO_RIGHTS = """apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: nothing}
rules: []
"""


class Broken(Exception):
    """The rig, not the binary, does not do what it should."""


def rig(*args, limit=900, env=None, program="rig.sh"):
    code, out, err = output([RIG / program, *args], limit, env={**os.environ, **(env or {})})
    if code:
        raise Broken(f"{program} {' '.join(map(str, args))}: exit {code}\n{out[-1000:]}{err[-2000:]}")
    return out


@dataclasses.dataclass(frozen=True)
class Kind:
    """A cluster as `rig.sh up MODE` makes it with these settings."""

    what: str
    mode: str = "ha"
    nodes: tuple = ("cp1", "cp2", "cp3", "w1")
    settings: dict = dataclasses.field(default_factory=dict)

    @property
    def control_planes(self):
        return tuple(n for n in self.nodes if n.startswith("cp"))


KINDS = {
    "ha": Kind("three control planes and a worker"),
    "single": Kind("one node", "single", ("cp1",)),
    "pair": Kind("two control planes and a worker", "pair", ("cp1", "cp2", "w1")),
    "own-cni": Kind("`cni: none`, with a network plugin of the users' own", settings={"CNI": "none"}),
    "bare": Kind(
        "one node without kube-proxy, coredns and discovery", "single", ("cp1",),
        {"NOPROXY": "true", "NODNS": "true", "NODISC": "true"},
    ),
    "talos-1.12": Kind("Talos 1.12", settings={"TALOS": "1.12.6"}),
}


class Cluster:
    def __init__(self, kind="ha"):
        self.kind = KINDS[kind]
        self.env = {}
        self.files = {}
        self.work = STATE / "work"

    def enter(self, command):
        return ["nsenter", f"--net=/run/netns/{NAME}-net", *map(str, command)]

    def ask(self, *command, limit=6):
        """What a command inside the rig's network answers; Broken if it fails."""
        code, out, err = output(self.enter(command), limit, env=self.env)
        if code:
            raise Broken(f"{' '.join(command)}: exit {code}: {err.strip()[-300:]}")
        return out

    def is_up(self):
        """Of any kind: one of another kind has to go first."""
        return (STATE / "settings").exists()

    def is_of_this_kind(self):
        wanted = {"CNI": "flannel", "NOPROXY": "false", "NODNS": "false", "NODISC": "false", **self.kind.settings}
        settings = (STATE / "settings").read_text()
        return all(f":={value}}}" in line for name, value in {"MODE": self.kind.mode, **wanted}.items()
                   for line in settings.splitlines() if f"${{{name}:=" in line)

    def up(self, bootstrap):
        shutil.rmtree(self.work, ignore_errors=True)
        rig("up", self.kind.mode, env={**self.kind.settings, "BOOTSTRAP": "1" if bootstrap else "0"})
        self.learn()

    def learn(self):
        """The environment of commands inside the rig."""
        entries = rig("exec", "env", "-0").split("\0")
        self.env = dict(entry.split("=", 1) for entry in entries if "=" in entry)
        (self.work / "home").mkdir(parents=True, exist_ok=True, mode=0o700)
        self.files = {"talos os:admin": self.env["TALOSCONFIG"], "kube admin": self.env["KUBECONFIG"]}

    def down(self):
        shutil.rmtree(self.work, ignore_errors=True)
        rig("down")

    def credentials(self, kind, name, binary):
        """The path of a talosconfig (kind `talos`, name a role) or kubeconfig (kind `kube`), made on first use."""
        key = f"{kind} {name}"
        if key not in self.files:
            path = self.work / key.replace(" ", "-").replace(":", "-")
            if kind == "talos":
                text = rig("talosconfig", name)
            elif name == "foreign":
                text = rig("foreign", "up")
            elif name == "no-rights":  # a ServiceAccount that may do nothing
                manifest = self.work / "no-rights.yaml"
                manifest.write_text(NO_RIGHTS)
                text = rig("kubeconfig", "nobody", manifest)
            else:  # rbac: no right more than what the binary itself says it needs
                manifest = self.work / "rbac.yaml"
                code, out, err = output([binary, "rbac"], 20)
                if code:
                    raise Broken(f"`{binary.name} rbac`: exit {code}: {err.strip()}")
                manifest.write_text(out)
                text = rig("kubeconfig", "cluster-health", manifest)
            path.write_text(text)
            path.chmod(0o600)
            self.files[key] = path
        return self.files[key]

    def end_foreign(self):
        rig("foreign", "down")
        self.files.pop("kube foreign", None)

    # What must hold for all nodes, pods and members before the next fault. Asked of Talos and Kubernetes by their own tools.
    def resources(self, kind, nodes=None):
        nodes = ",".join(self.env[n.upper()] for n in nodes or self.kind.nodes)
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
        if len(machines) != len(self.kind.nodes):
            return f"{len(machines)} machines"
        return None

    def services_fine(self):
        services = self.resources("services")
        for s in services:
            if not s["spec"]["running"] or not (s["spec"]["healthy"] or s["spec"]["unknown"]):
                return f"{s['node']}: service {s['metadata']['id']} {s['spec']}"
        for service, nodes in (("kubelet", self.kind.nodes), ("etcd", self.kind.control_planes), ("apid", self.kind.nodes)):
            if sum(s["metadata"]["id"] == service for s in services) != len(nodes):
                return f"service {service} is missing on some node"
        return None

    def static_pods_fine(self):
        pods = self.resources("staticpodstatus", self.kind.control_planes)
        for p in pods:
            ready = [c["status"] for c in p["spec"].get("conditions", []) if c["type"] == "Ready"]
            if ready != ["True"]:
                return f"{p['node']}: static pod {p['metadata']['id']} Ready {ready}"
        if len(pods) != 3 * len(self.kind.control_planes):
            return f"{len(pods)} static pods"
        for n in self.resources("nodestatus"):
            if not n["spec"]["nodeReady"] or n["spec"]["unschedulable"]:
                return f"{n['node']}: node status {n['spec']}"
        return None

    def etcd_fine(self):
        cps = ",".join(self.env[n.upper()] for n in self.kind.control_planes)
        header, *rows = self.ask("talosctl", "-n", cps, "etcd", "status").splitlines()
        column = {name: header.index(name) for name in ("LEADER", "RAFT INDEX", "LEARNER", "PROTOCOL", "ERRORS")}
        leaders = {row[column["LEADER"]:column["RAFT INDEX"]].strip() for row in rows}
        if len(rows) != len(self.kind.control_planes) or len(leaders) != 1 or leaders & {"", "0000000000000000"}:
            return f"etcd: {len(rows)} members, leaders {leaders}"
        for row in rows:
            if "true" in row[column["LEARNER"]:column["PROTOCOL"]] or row[column["ERRORS"]:].strip():
                return f"etcd: {row}"
        alarms = self.ask("talosctl", "-n", self.env["CP1"], "etcd", "alarm", "list").splitlines()[1:]
        return f"etcd: {alarms}" if alarms else None

    def api_fine(self):
        for node in self.kind.control_planes:
            self.ask("kubectl", "--server", f"https://{self.env[node.upper()]}:6443", "get", "--raw", "/readyz")
        return None

    def kubernetes_fine(self):
        # Several kinds in one list need a cluster-wide `-A`, which nodes ignore.
        kinds = "nodes,pods,leases.coordination.k8s.io,endpointslices.discovery.k8s.io"
        items = json.loads(self.ask("kubectl", "get", kinds, "-A", "-o", "json"))["items"]
        now = datetime.datetime.now(datetime.timezone.utc)
        nodes = 0
        for item in items:
            name = item["metadata"]["name"]
            ready = [c["status"] for c in item.get("status", {}).get("conditions", []) if c["type"] == "Ready"]
            if item["kind"] == "Node":
                nodes += 1
                if ready != ["True"] or item["spec"].get("unschedulable") or item["spec"].get("taints"):
                    return f"node {name}: Ready {ready}, taints {item['spec'].get('taints')}"
            elif item["kind"] == "Pod" and (ready != ["True"] or item["metadata"].get("deletionTimestamp")):
                return f"pod {name}: Ready {ready}"
            elif item["kind"] == "Lease":
                age = now - datetime.datetime.fromisoformat(item["spec"]["renewTime"])
                if age.total_seconds() > 20:
                    return f"lease {name}: renewed {age.total_seconds():.0f} s ago"
            elif item["kind"] == "EndpointSlice" and name == "kubernetes":
                if len(item["endpoints"][0]["addresses"]) * len(item["endpoints"]) != len(self.kind.control_planes):
                    return f"endpoints of the API server: {item['endpoints']}"
        return None if nodes == len(self.kind.nodes) else f"{nodes} nodes"

    def complaint(self):
        """Why the cluster is not healthy, or None."""
        looks = (self.talos_fine, self.services_fine, self.static_pods_fine, self.etcd_fine, self.api_fine, self.kubernetes_fine)

        def look(f):
            try:
                return f()
            except (Broken, KeyError, ValueError, IndexError) as e:
                return f"{f.__name__}: {e or type(e).__name__}"

        with concurrent.futures.ThreadPoolExecutor(len(looks)) as pool:
            return next((c for c in pool.map(look, looks) if c), None)

    def wait_healthy(self, limit=HEAL_LIMIT):
        """Twice in a row, since a crash-looping process is up for moments. Returns the seconds that it took."""
        begin, good, why = time.monotonic(), 0, None
        while good < 2:
            why = self.complaint()
            good = 0 if why else good + 1
            if time.monotonic() - begin > limit:
                raise Broken(f"the cluster is not healthy after {limit} s: {why}")
            time.sleep(0.5)
        return time.monotonic() - begin

    def wait_until(self, until):
        """Polls a scenario's shell condition."""
        begin, limit = time.monotonic(), until.get("within", 60)
        while True:
            command = self.enter(["bash", "-c", "set -o pipefail; " + until["sh"]])
            if output(command, 15, env=self.env)[0] == 0:
                return
            if time.monotonic() - begin > limit:
                raise Broken(f"not within {limit} s: {until['sh']}")
            time.sleep(0.5)


