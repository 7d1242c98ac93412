"""A simulated cluster, and where the real programs are."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.request

from processes import end, start

CACHE = pathlib.Path(
    os.environ.get("E2E_CACHE")
    or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "cluster-health"
)


class Simulated:
    """A simulated cluster that lives as long as the `with` block."""

    def __init__(self, simulator, control_planes, workers, delay=0, scenario="", talos=None):
        """`scenario` is TOML without the title, which makes no difference."""
        self.command = [simulator, "--control-planes", str(control_planes), "--workers", str(workers), "--delay", f"{delay}ms"]
        self.command += ["--talos", talos] if talos else []
        self.scenario = scenario

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="simulated-")
        scenario = pathlib.Path(self.dir, "scenario.toml")
        scenario.write_text(f'title = "simulated"\n{self.scenario}')
        self.child = start([*self.command, "--dir", self.dir, scenario], stdout=subprocess.PIPE, text=True)
        self.env = {}
        for line in self.child.stdout:
            found = re.match(r"export (\w+)=(.*)$", line.strip())
            if found:
                self.env[found[1]] = found[2].strip("'\"")
            if "SIMULATOR_CONTROL" in self.env:
                return self
        raise SystemExit(f"the simulator ended: exit code {self.child.wait()}")

    def __exit__(self, *_):
        end(self.child)
        shutil.rmtree(self.dir, ignore_errors=True)

    def _control(self, path, method="GET", data=None, patience=60):
        request = urllib.request.Request(self.env["SIMULATOR_CONTROL"].rstrip("/") + path, data=data, method=method)
        # No proxy from the environment is used between two programs on one machine.
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=patience) as answer:
            return answer.read()

    def calls(self, method="GET"):
        return json.loads(self._control("/calls", method) or "null")

    def change(self, changes):
        """All of them, or none."""
        self._control("/changes", "POST", json.dumps(changes).encode(), patience=600)

    def credentials(self):
        """A reader's, for a cluster-health binary."""
        return ["--talosconfig", f"{self.dir}/talosconfig", "--kubeconfig", f"{self.dir}/kubeconfig"]

    def machine(self, index):
        """Address of a machine; control planes come first."""
        network = self.env["SIMULATOR_CONTROL"].removeprefix("http://").split(".")[1]
        return f"127.{network}.{(index + 2) // 256}.{(index + 2) % 256}"
