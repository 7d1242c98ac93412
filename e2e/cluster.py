"""A real cluster, whatever its rig: what scenarios and the runner need of it, and when it is well."""
import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import shutil
import time

from processes import output
from simulated import CACHE

RIG = pathlib.Path(__file__).resolve().parent / "rig"
NAME = os.environ.get("E2E_NAME") or "ch"
STATE = CACHE / "rig" / NAME
HEAL_LIMIT = 240
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"  # label of a node, and its taint


# Functions for shell conditions, so that a failing tool does not count as an answer, as it does after `!` and in `test -z "$(...)"`.
CONDITIONS = """
set -o pipefail
hangs() { # SECONDS COMMAND...: it has to be ended, where one that works or fails ends by itself
  timeout "$@"
  [ $? = 124 ]
}
prints_nothing() { # COMMAND...: it succeeds
  local said
  said=$("$@") && [ -z "$said" ]
}
"""


class Broken(Exception):
    """The rig, not the binary, does not do what it should."""


def told_by(binary, *command):
    """What the binary prints of itself: commands that ask no cluster."""
    code, out, err = output([binary, *command], 20)
    if code:
        raise Broken(f"`{binary.name} {' '.join(command)}`: exit {code}: {err.strip()}")
    return out


def pinned(name):
    """A version at the top of build.sh."""
    return re.search(rf"^{name}=([0-9.]+)", (RIG / "build.sh").read_text(), re.MULTILINE)[1]


def variable(node):
    """What commands inside a rig call the address of a node: CP1, W1."""
    return node.upper().replace("-", "")


class Cluster:
    """One of a rig, or none yet. A subclass a rig."""

    rig: pathlib.Path  # folder of rig.sh and faults.sh
    network: str  # network namespace in which the binary runs
    state: pathlib.Path
    talos: bool  # whether there is a Talos API
    defaults: dict  # what a scenario's `[run]` means where it says nothing
    users = ("rbac",)  # kinds of kubeconfig: where a scenario names none, the binary runs once as each

    def __init__(self, kind):
        self.kind = kind
        self.env = {}  # of commands inside the rig
        self.files = {}  # credentials that were made already
        self.work = self.state / "work"

    # ---- provided by each rig --------------------------------------------------------------------------------------
    @property
    def settings(self):
        """Of `rig.sh up`, all that make a kind: none of the caller's environment or of an earlier cluster stands in for one."""
        raise NotImplementedError

    def is_of_this_kind(self):
        """Of a cluster that is up."""
        raise NotImplementedError

    def up(self, phase=None):
        """Idempotent. No further than a scenario of this phase wants it, where a rig knows the difference."""
        raise NotImplementedError

    def learn(self):
        """The environment of commands inside the rig."""
        raise NotImplementedError

    def arguments(self, run, binary):
        """Options of the binary that say where the cluster is and as whom it is asked. `run` is a scenario's, complete."""
        raise NotImplementedError

    def looks(self):
        """Functions that say what is wrong, or None. They may raise Broken."""
        raise NotImplementedError

    def after(self, scenario):
        """Ends what a scenario's credentials have needed."""

    def support(self):
        """What a cluster that is not healthy needs to become so, if anything."""

    # ---- shared by all rigs ----------------------------------------------------------------------------------------
    def call(self, program, *args, limit=900, env=None):
        """A command of the rig; what it prints."""
        code, out, err = output([self.rig / program, *args], limit, env={**os.environ, **self.settings, **(env or {})})
        if code:
            raise Broken(f"{program} {' '.join(map(str, args))}: exit {code}\n{out[-1000:]}{err[-2000:]}")
        return out

    def environment(self):
        """As commands find it inside the rig; and a home for the binary, with nothing of the caller's."""
        (self.work / "home").mkdir(parents=True, exist_ok=True, mode=0o700)
        entries = self.call("rig.sh", "exec", "env", "-0").split("\0")
        return dict(entry.split("=", 1) for entry in entries if "=" in entry)

    def switch(self, faults, how):
        """Lines `NAME OF-WHAT` of a scenario, `on`, or `off` in reverse order."""
        for fault in faults if how == "on" else reversed(faults):
            name, *of = fault.split()
            self.call("faults.sh", name, how, *of, limit=120)

    def is_up(self):
        """Of any kind: one of another kind has to go first."""
        return (self.state / "settings").exists()

    def down(self):
        shutil.rmtree(self.work, ignore_errors=True)
        self.files = {}
        self.call("rig.sh", "down")

    def enter(self, command):
        return ["nsenter", f"--net=/run/netns/{self.network}", *map(str, command)]

    def ask(self, *command, limit=6):
        """What a command inside the rig's network answers; Broken if it fails."""
        code, out, err = output(self.enter(command), limit, env=self.env)
        if code:
            raise Broken(f"{' '.join(command)}: exit {code}: {err.strip()[-300:]}")
        return out

    @property
    def nodes(self):
        return self.kind.nodes

    @property
    def api_servers(self):
        return len(self.control_planes)

    @property
    def control_planes(self):
        return tuple(node for node in self.nodes if node.startswith("cp"))

    def api_fine(self):
        for node in self.control_planes:
            self.ask("kubectl", "--server", f"https://{self.env[variable(node)]}:6443", "get", "--raw", "/readyz")
        return None

    def kubernetes_fine(self):
        # A list of several kinds needs a cluster-wide `-A`, which nodes ignore.
        kinds = (
            "nodes,pods,leases.coordination.k8s.io,endpointslices.discovery.k8s.io,"
            "certificatesigningrequests.certificates.k8s.io"
        )
        items = json.loads(self.ask("kubectl", "get", kinds, "-A", "-o", "json"))["items"]
        now = datetime.datetime.now(datetime.timezone.utc)
        nodes = 0
        for item in items:
            name = item["metadata"]["name"]
            ready = [c["status"] for c in item.get("status", {}).get("conditions", []) if c["type"] == "Ready"]
            if item["kind"] == "Node":
                nodes += 1
                taints = [t["key"] for t in item["spec"].get("taints", []) if t["key"] != CONTROL_PLANE]
                if ready != ["True"] or taints or item["spec"].get("unschedulable"):
                    return f"node {name}: Ready {ready}, taints {taints}"
            elif item["kind"] == "Pod" and (ready != ["True"] or item["metadata"].get("deletionTimestamp")):
                return f"pod {name}: Ready {ready}"
            elif item["kind"] == "Lease":
                age = now - datetime.datetime.fromisoformat(item["spec"]["renewTime"])
                if age.total_seconds() > 20:
                    return f"lease {name}: renewed {age.total_seconds():.0f} s ago"
            elif item["kind"] == "CertificateSigningRequest":
                decided = {c["type"] for c in item.get("status", {}).get("conditions", [])}
                if not decided & {"Approved", "Denied"}:
                    return f"certificate signing request {name}: pending"
            elif item["kind"] == "EndpointSlice" and name == "kubernetes":
                if len(item["endpoints"][0]["addresses"]) * len(item["endpoints"]) != self.api_servers:
                    return f"endpoints of the API server: {item['endpoints']}"
        return None if nodes == len(self.nodes) else f"{nodes} nodes"

    def complaint(self):
        """Why the cluster is not healthy, or None."""
        looks = self.looks()

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
            if why:
                self.support()
            if time.monotonic() - begin > limit:
                raise Broken(f"the cluster is not healthy after {limit} s: {why}")
            time.sleep(0.5)
        return time.monotonic() - begin

    def wait_until(self, until):
        """Polls a scenario's shell condition."""
        begin, limit = time.monotonic(), until.get("within", 60)
        while True:
            command = self.enter(["bash", "-c", CONDITIONS + until["sh"]])
            if output(command, 15, env=self.env)[0] == 0:
                return
            if time.monotonic() - begin > limit:
                raise Broken(f"not within {limit} s: {until['sh']}")
            time.sleep(0.5)
