"""`talosctl health` beside the binary: of the same cluster at the same time, with those of its options that talosctl has, too."""
import dataclasses
import threading
import time

from cluster import variable
from kinds import cluster_of
from processes import output

WAITS = "12s"
# Options that mean the same in both programs.
OPTIONS = ("-e", "--endpoints", "--control-plane-nodes", "--worker-nodes")


def is_asked(scenario):
    """Not without Talos, not beside a script, and not where the scenario says why not."""
    return "expect" in scenario and "beside" not in scenario and cluster_of(scenario["cluster"]).talos


def untold(scenario):
    """What is the fault, and talosctl has no option for it."""
    run = scenario.get("run", {})
    options = [word for word in run.get("fault_args", []) if word.startswith("-") and word not in OPTIONS]
    return [*options, *(["--kubeconfig"] if run.get("fault_kube", "none") != "none" else [])]


def is_comparable(scenario):
    """Where the state changes during the run, the shorter of the two has not seen its end; and both have to be asked the same."""
    return scenario.get("during", {}).get("do") not in ("heal", "bootstrap") and not untold(scenario)


def own_options(args, cluster):
    """Those of the binary that talosctl has, too. It takes a list of workers for all that there is, without the other list."""
    values = dict(zip(args, args[1:]))
    own = {name: values[name] for name in OPTIONS if name in values}
    if "--worker-nodes" in own:
        own.setdefault("--control-plane-nodes", ",".join(cluster.env[variable(node)] for node in cluster.control_planes))
    return [word for option in own.items() for word in option]


@dataclasses.dataclass
class Beside:
    """What `talosctl health` says of the same state at the same time."""

    code: int
    seconds: float
    last: str


class Talosctl(threading.Thread):
    """Asks it while the binary runs with these options."""

    def __init__(self, cluster, talosconfig, args):
        super().__init__()
        self.cluster, self.beside = cluster, None
        self.command = ["talosctl", "--talosconfig", talosconfig, "-n", cluster.env["CP1"], "health", "--wait-timeout", WAITS]
        self.command += own_options(args, cluster)

    def run(self):
        begin = time.monotonic()
        code, out, err = output(self.cluster.enter(self.command), 60, env=self.cluster.env)
        lines = [line.strip() for line in (out + "\n" + err).splitlines() if line.strip()]
        # talosctl repeats the name of its current step, and finally prints an error that only states the timeout.
        waiting = [line for line in lines if line.startswith("waiting for") and not line.endswith(("...", ": OK"))]
        last = (waiting or lines or ["(nothing)"])[-1]
        self.beside = Beside(code, time.monotonic() - begin, last[:300])
