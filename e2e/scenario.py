"""A scenario: its file, the run of the binary, and what of it is not as expected."""
import fnmatch
import hashlib
import json
import math
import os
import pathlib
import re
import shutil
import signal
import string
import subprocess
import sys
import threading
import time
import tomllib
import xml.etree.ElementTree

from beside import Talosctl, is_asked
from kinds import KINDS
from processes import end, start

HERE = pathlib.Path(__file__).resolve().parent
RUN_LIMIT = 180  # seconds beyond those that are expected, after which a binary that does not end is killed
ALWAYS = 20  # scenarios at most that every change is tested with: someone waits for them
TOP = {
    "title", "script", "beside", "cluster", "also", "phase", "only", "ruins", "faults", "until", "run", "during", "expect", "rows",
    "same_when_healthy", "within",
}
RUN = {"talos", "kube", "etcd", "args", "fault_talos", "fault_kube", "fault_args"}
EXPECT = {
    "exit", "result", "complete", "deadline_reached", "problems", "may", "explained", "warnings", "blocked", "skipped", "diagnoses",
    "text", "seconds", "at_least", "ends_within",
}


def fingerprint(contents):
    return hashlib.sha256(contents).hexdigest()[:16]


def load(only, full):
    """Those of these names, or all; without `full` only what every change is tested with."""
    scenarios = []
    for path in sorted((HERE / "scenarios").glob("*.toml")):
        contents = path.read_bytes()
        s = tomllib.loads(contents.decode())
        # The digest of the contents that were read: the file may have changed by the time a result is stored.
        s["name"], s["digest"] = path.stem.split("-", 1)[1], fingerprint(contents)
        unknown = (s.keys() - TOP - {"name", "digest"}) | (s.get("run", {}).keys() - RUN) | (s.get("expect", {}).keys() - EXPECT)
        if unknown:
            sys.exit(f"{path}: unknown: {', '.join(sorted(unknown))}")
        if ("script" in s) == ("expect" in s):
            sys.exit(f"{path}: either `script` or `[expect]`")
        if "script" in s:
            s["digest"] = fingerprint(contents + b"".join(source(HERE.parent / s["script"])))
        kinds = {s.setdefault("cluster", "ha"), *s.get("also", [])}
        if not kinds <= KINDS.keys() or s.get("only", "full") != "full":
            sys.exit(f"{path}: clusters are {', '.join(KINDS)}; `only` can be \"full\"")
        scenarios += rows(s)
        for kind in s.get("also", []):
            title = f"{s['title']}, {KINDS[kind].what}"
            scenarios.append({**s, "name": f"{s['name']}-{kind}", "title": title, "cluster": kind, "only": "full"})
    always = sum("only" not in s for s in scenarios)
    if always > ALWAYS:
        sys.exit(f"{always} scenarios are part of every `make e2e`, {ALWAYS} may be: the others want `only = \"full\"`")
    names = [s["name"] for s in scenarios]
    for name in only or []:
        if name not in names:
            sys.exit(f"no scenario `{name}`; --list shows them")
    return [s for s in scenarios if (s["name"] in only if only else full or "only" not in s)]


def source(script):
    """Of a script, and of the modules of the folder above that it names."""
    text = script.read_bytes()
    return [text, *(it.read_bytes() for it in sorted(script.parent.parent.glob("*.py")) if it.stem.encode() in text)]


def rows(scenario):
    """A file of several scenarios: `$KEY` in title and faults is the row's, and so are its expectations."""
    if "rows" not in scenario:
        return [scenario]
    common = {key: value for key, value in scenario.items() if key != "rows"}
    return [
        {
            **common,
            "name": row["name"],
            "title": string.Template(scenario["title"]).substitute(row),
            "faults": [string.Template(fault).substitute(row) for fault in scenario["faults"]],
            "expect": {**scenario["expect"], **{key: value for key, value in row.items() if key in EXPECT}},
            "same_when_healthy": row.get("same_when_healthy", False),
        }
        for row in scenario["rows"]
    ]


def is_early(scenario):
    """Before there is a Kubernetes."""
    return scenario.get("phase") in ("not-configured", "not-bootstrapped")


def tells_apart(scenario):
    """Whether the expectation may not hold on the healthy cluster. Not where nothing is different, or is again in the end."""
    is_changed = bool(scenario.get("faults")) or any(key.startswith("fault_") for key in scenario.get("run", {}))
    is_good = scenario["expect"]["exit"] == 0
    return not is_good or is_changed and "during" not in scenario and not scenario.get("same_when_healthy")


def as_each_user(scenario, cluster):
    """The binary runs once as each user of the kubeconfig that the scenario names, or that the rig has by default."""
    run = scenario.get("run", {})
    users = [run["kube"]] if "kube" in run else cluster.users
    return [{**scenario, "run": {**run, "kube": user}} for user in users]


def ask_talosctl(scenario, cluster, binary):
    """As the administrator, since others may not, unless the talosconfig is the fault."""
    if not is_asked(scenario):
        return None
    talosconfig = cluster.credentials("talos", scenario.get("run", {}).get("fault_talos", "os:admin"), binary)
    asked = Talosctl(cluster, talosconfig, options(scenario, cluster, with_fault=True)["args"])
    asked.start()
    return asked


class End(threading.Thread):
    """Waits for the end of the binary, which may come while the harness still heals, and looks at the cluster right then. What heals
    before this look is not noticed; what it finds had not healed when the binary said so."""

    def __init__(self, child, cluster):
        super().__init__(daemon=True)  # nobody waits for it where the rig breaks
        self.child, self.cluster = child, cluster
        self.over, self.at, self.complaint = threading.Event(), None, "nobody could look"

    def run(self):
        try:  # Not reaped here: its id must stay its own for those who may still signal it.
            end = os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOWAIT)
            healthy = (end.si_code, end.si_status) == (os.CLD_EXITED, 0)
        except ChildProcessError:  # killed for it did not end
            healthy = False
        self.at = time.monotonic()
        self.over.set()
        self.complaint = self.cluster.complaint() if healthy else None


class Run:
    """One run of the binary and all that it left behind."""

    def __init__(self, command, code, seconds, stdout, stderr, reports, variables):
        self.command, self.code, self.seconds = command, code, seconds
        self.stdout, self.stderr, self.reports = stdout, stderr, reports
        self.variables = variables  # CP1 and so on
        self.notes = []  # what was wrong before any comparison
        self.document = None
        self.ended_after = None
        self.recording = None
        self.beside = None

    def text(self):
        if is_verbose(self.command):
            return self.stdout
        path = self.reports["text"]
        return path.read_text(errors="replace") if path.exists() else "(no text report)"


def is_verbose(command):
    """Every object is in the report on stdout, and there alone: it is the text report then."""
    return "-v" in command


def waits(scenario):
    return "--wait-timeout" in scenario.get("run", {}).get("args", [])


def options(scenario, cluster, with_fault):
    """`[run]` with all its keys: as whom each side is asked, and other arguments."""
    run = {**cluster.defaults, "args": [], **scenario.get("run", {})}
    faults = {key.removeprefix("fault_"): run.pop(key) for key in list(run) if key.startswith("fault_")}
    if with_fault:
        run.update(faults, args=run["args"] + faults.get("args", []))
    run["args"] = [string.Template(a).substitute(cluster.env) for a in run["args"]]
    return run


def command_line(scenario, cluster, binary, with_fault, reports, variables):
    run = options(scenario, cluster, with_fault)
    form = "text" if is_verbose(run["args"]) else "json"
    args = [*run["args"], *cluster.arguments(run, binary), "-o", form]
    for form, path in reports.items():
        args += ["--report", f"{form}={path}"]
    # Nothing from the caller's environment: no CI variable, no kubeconfig in a home directory.
    variables = ["PATH=/usr/bin:/bin", f"HOME={cluster.work / 'home'}", "LANG=C.UTF-8", *variables]
    return cluster.enter(["env", "-i", *variables, binary, *args])


def read_json(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def problems_of(document, severities):
    """Each problem with its three columns: check, reason, target. Several may have the same."""
    found = []
    for check in document["checks"]:
        for p in check["problems"]:
            if p["severity"] in severities:
                target = p.get("target") or {}
                name = target.get("name") or target.get("address") or "-"
                found.append(((check["id"], p["reason"], name), p))
    return found


def state(scenario, cluster):
    """What a recording is told about itself."""
    run = options(scenario, cluster, with_fault=True)
    return {
        "name": scenario["name"],
        "title": scenario["title"],
        "phase": scenario.get("phase", "bootstrapped"),
        "faults": [" ".join(fault.split()) for fault in scenario.get("faults", [])],
        "talos": run["talos"],
        "kube": run["kube"],
        "args": run["args"],
    }


def execute(scenario, cluster, binary, with_fault=True, record=False, beside=False, blind=None):
    user = options(scenario, cluster, with_fault)["kube"]
    folder = cluster.work / "-".join([scenario["name"], user, *([] if with_fault else ["healthy"])])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    reports = {"json": folder / "report.json", "junit": folder / "report.xml", "text": folder / "report.txt"}
    recording, variables = folder / "recording.json", []
    if record:
        told = json.dumps(state(scenario, cluster))
        variables = [f"CLUSTER_HEALTH_RECORD={recording}", f"CLUSTER_HEALTH_RECORD_STATE={told}"]
    if blind:
        variables.append(f"CLUSTER_HEALTH_BLIND={blind}")
    command = command_line(scenario, cluster, binary, with_fault, reports, variables)
    during = scenario.get("during", {}).get("do") if with_fault else None
    notes, acted, ended = [], None, None
    talosctl = ask_talosctl(scenario, cluster, binary) if beside else None
    with open(folder / "stdout", "w+") as out, open(folder / "stderr", "w+") as err:
        begin = time.monotonic()
        child = start(command, stdout=out, stderr=err)
        try:
            if during:
                wait_for_problem(child, reports["json"], notes)
                if child.poll() is not None:
                    notes.append(f"ended before `{during}`")
                elif during in ("heal", "bootstrap"):
                    ended = End(child, cluster)
                    ended.start()
            if during == "heal":
                cluster.switch(scenario["faults"], "off")
                acted = time.monotonic()
            elif during == "bootstrap":
                cluster.call("rig.sh", "up", env={"WAIT": "0"})
                acted = time.monotonic()
            elif during and child.poll() is None:
                child.send_signal(getattr(signal, during))
                acted = time.monotonic()
            limit = max(scenario["expect"].get(key, 0) for key in ("seconds", "ends_within")) + RUN_LIMIT
            try:
                if not ended:
                    child.wait(limit)
                elif not ended.over.wait(limit):
                    raise subprocess.TimeoutExpired(command, limit)
            except subprocess.TimeoutExpired:
                notes.append(f"did not end within {limit} s")
        finally:
            end(child)
        over = time.monotonic()
        if ended:
            ended.join()
            over = ended.at
            if ended.complaint:
                notes.append(f"exit code 0, and the cluster is not healthy: {ended.complaint}")
        out.seek(0), err.seek(0)
        run = Run(command, child.returncode, over - begin, out.read(), err.read(), reports, cluster.env)
    if talosctl:
        talosctl.join()
        run.beside = talosctl.beside
    run.notes = notes
    run.recording = recording
    run.ended_after = max(0, over - acted) if acted else None
    # A killed process leaves nothing on stdout, so its report files are used instead.
    if during == "SIGKILL" or is_verbose(command):
        run.document = read_json(reports["json"])
    else:
        try:
            run.document = json.loads(run.stdout)
        except ValueError as e:
            run.notes.append(f"stdout is not one JSON document: {e}")
    check_reports(run)
    return run


def wait_for_problem(child, path, notes):
    """The report file is replaced while the binary waits: the first round is over when it shows a problem."""
    limit = time.monotonic() + 40
    while child.poll() is None and time.monotonic() < limit:
        document = read_json(path)
        if document and any(p["severity"] in ("fail", "error") for c in document["checks"] for p in c["problems"]):
            return
        time.sleep(0.05)
    notes.append("the JSON report showed no problem while the binary was waiting")


def check_reports(run):
    document = read_json(run.reports["json"])
    if document is None:
        run.notes.append("--report json=...: no valid JSON document")
    elif run.document is not None and document != run.document:
        run.notes.append("--report json=... differs from stdout")
    try:
        cases = list(xml.etree.ElementTree.parse(run.reports["junit"]).getroot().iter("testcase"))
    except (OSError, xml.etree.ElementTree.ParseError) as e:
        run.notes.append(f"--report junit=...: {e}")
        return
    bad = [c for c in cases if c.find("failure") is not None or c.find("error") is not None]
    if not cases:
        run.notes.append("--report junit=...: no test case")
    if bool(bad) != (run.code != 0):
        run.notes.append(f"--report junit=...: {len(bad)} of {len(cases)} cases failed, exit code {run.code}")


# A component that has crashed repeatedly is reported for ten minutes, and rows share a cluster.
OF_ROWS_BEFORE = "* restarting *"
# The kubeconfig of the Talos rig leads to its first control plane: the healthy row asserts the warning, no other row is about it.
OF_THE_RIG = "k8s.api.servers endpoint-on-machine cp1"


def compare(expect, run):
    """The differences between what was expected and what was seen, a line each."""
    lines = list(run.notes)

    def same(what, wanted, seen):
        if wanted is not None and wanted != seen:
            lines.append(f"{what}: expected {wanted}, got {seen}")

    same("exit code", expect["exit"], run.code)
    if run.seconds < expect.get("at_least", 0):
        lines.append(f"took {run.seconds:.2f} s, at least {expect['at_least']} s were expected")
    allowed, within = (expect.get(key, math.inf) for key in ("seconds", "ends_within"))
    if run.seconds > allowed:
        lines.append(f"took {run.seconds:.2f} s, {allowed} s are allowed")
    if run.ended_after is not None and run.ended_after > within:
        lines.append(f"ended {run.ended_after:.1f} s after the fault or the signal, {within} s are allowed")
    text, at = run.text(), 0
    for pattern in expect.get("text", []):
        pattern = string.Template(pattern).safe_substitute({k: re.escape(v) for k, v in run.variables.items()})
        found = re.compile(pattern, re.MULTILINE).search(text, at)
        if not found:
            lines.append(f"text report: no /{pattern}/{' after the one before' if at else ''}")
        else:
            at = found.end()
    d = run.document
    if d is None:
        return lines
    same("result", expect.get("result"), d.get("result"))
    same("complete", expect.get("complete", True), d.get("complete"))
    same("deadlineReached", expect.get("deadline_reached"), d.get("deadlineReached"))
    if run.code >= 0:
        same("exitCode in the report", run.code, d.get("exitCode"))
    try:
        bad = problems_of(d, ("fail", "error"))
        roots = {k for k, p in bad if not p.get("explainedBy")}
        explained = {k for k, p in bad if p.get("explainedBy")}
        warnings = {k for k, _ in problems_of(d, ("warn",))}
        for what, key, seen in (("problem", "problems", roots), ("explained problem", "explained", explained), ("warning", "warnings", warnings)):
            wanted, may = ([string.Template(line).safe_substitute(run.variables) for line in expect.get(k, [])] for k in (key, "may"))
            if what == "warning":
                may += [OF_ROWS_BEFORE, OF_THE_RIG]
            lines += unequal(what, wanted, seen, may)
        for key, status in (("blocked", "blocked"), ("skipped", "skip")):
            if key in expect:
                found = {c["id"] for c in d["checks"] if c["status"] == status}
                lines += [f"not {key}: {i}" for i in expect[key] if i not in found]
                lines += [f"{key}, unexpectedly: {i}" for i in sorted(found - set(expect[key]))]
        lines += unequal("diagnosis", expect.get("diagnoses", []), {(x["id"],) for x in d["diagnoses"]}, [])
    except (KeyError, TypeError, AttributeError) as e:
        lines.append(f"the JSON document is not of the agreed shape: {type(e).__name__} {e}")
    return lines


def unequal(what, wanted, seen, may):
    """Each wanted line must be seen and each seen one wanted. `a|b` in a column is either,
    `*` anything; what fits a line of `may` does not count."""

    def fits(line, found):
        columns = line.split(None, 2)  # a target may have blanks
        return len(columns) == len(found) and all(
            any(fnmatch.fnmatchcase(f, one) for one in c.split("|")) for c, f in zip(columns, found)
        )

    missing = [w for w in wanted if not any(fits(w, s) for s in seen)]
    extra = [s for s in sorted(seen) if not any(fits(w, s) for w in [*wanted, *may])]
    return [f"missing {what}: {' '.join(m.split())}" for m in missing] + [f"unexpected {what}: {' '.join(e)}" for e in extra]
