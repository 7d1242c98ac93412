"""Runs scenarios, cluster by cluster: fault, run of the binary beside talosctl, comparison, healing."""
import json
import shutil
import time

from cluster import RIG, Broken
from kinds import cluster_of
from processes import output
from scenario import Run, as_each_user, compare, execute, is_early, options, read_json, tells_apart, waits


REPOSITORY = RIG.parent.parent
SCRIPTS_OWN = {"talos": "none", "kube": "none", "etcd": "root"}  # what a script is not given, it has of its own


def say(text):
    print(text, flush=True)


class Runner:
    def __init__(self, binary, record=None, simulator=None, keeper=None):
        self.binary, self.record = binary, record
        self.simulator = simulator  # function that compares a simulated cluster with the healthy one
        self.keeper = keeper  # of the results; with it talosctl is asked, too
        self.cluster, self.simulator_differs = None, False
        self.results = {}
        self.healthy_runs = {}
        self.uncompared = []  # rows before the bootstrap, with their runs: what a healthy cluster says comes later

    def report(self, scenario, differences, run, begin, extra=""):
        name = scenario["name"]
        self.results[name] = self.results.get(name, True) and not differences
        took = f"{time.monotonic() - begin:6.1f}s"
        say(f"{'FAIL' if differences else 'ok':4}  {name:28} {took}  {extra or scenario['title']}")
        if not differences:
            return
        if self.keeper:
            self.keeper.drop(scenario)
        for line in differences:
            say(f"      | {line}")
        if run:
            say(f"      command: {' '.join(map(str, run.command))}")
            say(f"      exit code {run.code} after {run.seconds:.2f} s")
            for title, text in (("text report", run.text()), ("stderr, its end", run.stderr[-2000:])):
                say(f"      ---- {title} ----")
                for line in text.splitlines():
                    say(f"      {line}")
            say("      ----")

    def healthy(self, scenario):
        """A run with the same options on the healthy cluster. One for all scenarios that have them in common, until the next heal."""
        key = json.dumps({k: v for k, v in scenario.get("run", {}).items() if not k.startswith("fault_")}, sort_keys=True)
        if key not in self.healthy_runs:
            self.healthy_runs[key] = execute(scenario, self.cluster, self.binary, with_fault=False)
        return self.healthy_runs[key]

    def keep_recording(self, scenario, run):
        """Of a state that is what it was meant to be."""
        if "could not record" in run.stderr or read_json(run.recording) is None:
            raise Broken(f"no recording; is the binary built with the feature `record`? {run.stderr[-300:]}")
        self.record.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run.recording, self.record / f"{scenario['name']}.json")

    def against_healthy(self, scenario):
        """An expectation that the healthy cluster meets, too, would prove nothing."""
        if not tells_apart(scenario):
            return
        for one in as_each_user(scenario, self.cluster):
            self.against_healthy_as(one)

    def against_healthy_as(self, scenario):
        run = self.healthy(scenario)
        if not compare(scenario["expect"], run):
            self.report(scenario, ["the healthy cluster meets the same expectation"], run, time.monotonic())
        elif run.code != 0:
            self.report(scenario, ["the same options on the healthy cluster: not exit code 0"], run, time.monotonic())

    def script(self, scenario):
        """One that drives the binary itself, as the administrator and inside the rig's network; it tells by its exit code."""
        begin = time.monotonic()
        command = [REPOSITORY / scenario["script"], self.binary, *self.cluster.arguments(SCRIPTS_OWN, self.binary)]
        code, out, err = output(self.cluster.enter(command), scenario.get("within", 120), env=self.cluster.env)
        run = Run(command, code, time.monotonic() - begin, out, err, {}, self.cluster.env)
        self.healthy_runs = {}  # it may leave something behind, as a fault may
        last = (out + err).strip().splitlines()[-10:]
        self.report(scenario, [f"exit code {code}", *last] if code else [], None, begin)
        self.keep(scenario, [run])

    def scenario(self, scenario, heal=True):
        if "script" in scenario:
            return self.script(scenario)
        begin, runs, differences, times = time.monotonic(), [], [], []
        try:
            if not is_early(scenario):
                self.against_healthy(scenario)
                for one in as_each_user(scenario, self.cluster):  # made on first use, which no fault may be in the way of
                    self.cluster.arguments(options(one, self.cluster, with_fault=True), self.binary)
            mark = time.monotonic()
            self.cluster.switch(scenario.get("faults", []), "on")
            if "until" in scenario:
                self.cluster.wait_until(scenario["until"])
            times.append(f"fault {time.monotonic() - mark:.1f}s")
            for one in as_each_user(scenario, self.cluster):
                run, differences = self.run(one, times)
                runs.append(run)
                if differences:
                    break
        except Broken as e:
            differences = [f"rig: {e}"]
        try:
            self.cluster.after(scenario)
        except Broken as e:
            differences = [*differences, f"rig: {e}"]
        broken = None
        if scenario.get("faults") and not scenario.get("ruins"):
            broken = self.heal(scenario, differences, heal, times)
        last = runs[-1] if runs else None
        self.report(scenario, differences, last, begin, extra=f"{scenario['title']} ({', '.join(times)})")
        if is_early(scenario):
            self.uncompared.append((scenario, runs))
        else:
            self.keep(scenario, runs)
        if broken:
            raise broken

    def keep(self, scenario, runs):
        """Unless anything of the row has failed."""
        if self.keeper and self.results[scenario["name"]]:
            self.keeper.keep(scenario, self.binary, runs[0])

    def run(self, scenario, times):
        """The run, and what of it is not as expected."""
        # A scenario about waiting shows a state that another scenario shows as well.
        record = self.record and not waits(scenario)
        run = execute(scenario, self.cluster, self.binary, record=record, beside=self.keeper is not None)
        times.append(f"run {run.seconds:.1f}s")
        if run.ended_after is not None:
            times.append(f"ended {run.ended_after:.1f}s after `{scenario['during']['do']}`")
        if run.beside:
            times.append(f"talosctl health: {run.beside.code} after {run.beside.seconds:.1f}s")
        differences = compare(scenario["expect"], run)
        if record and not differences:
            self.keep_recording(scenario, run)
        return run, differences

    def heal(self, scenario, differences, heal, times):
        """Undoes the faults. What it could not undo is returned; it says nothing about the binary."""
        try:
            self.healthy_runs = {}  # what a fault leaves behind may be seen in the next one only
            if scenario.get("during", {}).get("do") != "heal" or differences:
                self.cluster.switch(scenario["faults"], "off")
            if heal:
                times.append(f"heal {self.cluster.wait_healthy():.1f}s")
        except Broken as e:
            times.append("not healed")
            return e
        return None

    def all(self, scenarios):
        """Scenarios that share a kind of cluster share the cluster."""
        for kind in dict.fromkeys(s["cluster"] for s in scenarios):
            cluster = cluster_of(kind)
            if self.cluster and self.cluster.rig != cluster.rig:
                self.cluster.down()  # one at a time: they share the machine
            self.cluster, self.uncompared = cluster, []
            try:
                self.of_kind([s for s in scenarios if s["cluster"] == kind])
            except Broken as e:
                # Scenarios that were not run have not passed; the other clusters can still report theirs.
                say(f"FAIL  the cluster `{kind}`: {e}")
                for s, _ in self.uncompared:
                    self.report(s, ["never compared with a healthy cluster"], None, time.monotonic())
                self.cluster.down()

    def of_kind(self, scenarios):
        early = [s for s in scenarios if is_early(s)]
        late = [s for s in scenarios if s not in early]
        self.take_over(early)
        for s in early:
            if s["phase"] == "not-configured" and self.cluster.is_up():
                self.cluster.down()  # there is no way back
            if not self.cluster.is_up():
                begin = time.monotonic()
                self.cluster.up(s["phase"])
                say(f"{self.cluster.kind.what}: up after {time.monotonic() - begin:.0f} s")
            self.scenario(s, heal=False)
            if s.get("ruins"):
                self.cluster.down()
        if early and not late and not self.keeper:
            say("not bootstrapped, because no other scenario was asked for; no comparison with a healthy cluster")
            return
        self.make_healthy()
        if self.simulator and self.cluster.talos:  # before any fault leaves traces
            self.simulator_differs = not self.simulator(self.cluster)
            self.simulator = None
        while self.uncompared:
            self.against_healthy(self.uncompared[0][0])
            self.keep(*self.uncompared.pop(0))
        for n, s in enumerate(late):
            try:
                self.scenario(s)
            except Broken as e:
                say(f"the cluster did not heal, and is made anew: {e}")
                self.cluster.down()
            if s.get("ruins"):
                self.cluster.down()
            if not self.cluster.is_up() and n + 1 < len(late):
                self.make_healthy()

    def take_over(self, early):
        """Uses what an earlier --keep left, if it is such a cluster and well; else ends it."""
        if not self.cluster.is_up():
            return
        if early or not self.cluster.is_of_this_kind():
            self.cluster.down()
            return
        try:
            self.cluster.up()
            self.cluster.wait_healthy(60)
        except Broken as e:
            say(f"a cluster is there, but cannot be used: {e}")
            self.cluster.down()

    def make_healthy(self):
        begin = time.monotonic()
        self.healthy_runs = {}
        self.cluster.up()
        self.cluster.wait_healthy()
        say(f"{self.cluster.kind.what}: healthy after another {time.monotonic() - begin:.0f} s")
