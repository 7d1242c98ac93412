"""What the rows said: kept from run to run, as a table, and as the proof that every check was seen to pass and to fail."""
import datetime
import fcntl
import hashlib
import json
import pathlib
import re
import subprocess

from scenario import problems_of
from simulated import CACHE

HERE = pathlib.Path(__file__).resolve().parent
KEPT = HERE / "results.json"


def fingerprint(*paths):
    digest = hashlib.sha256()
    for path in paths:
        digest.update(pathlib.Path(path).read_bytes())
    return digest.hexdigest()[:16]


def commit():
    said = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return said.stdout.strip() or "unknown"


def of_run(run):
    """What is worth keeping of a run: the verdict of each check with the reasons of its problems."""
    d = run.document or {}
    checks = {}
    for check in d.get("checks", []):
        reasons = sorted({p["reason"] for p in check["problems"]})
        checks[check["id"]] = " ".join([check["status"], *reasons])
    return {
        "exit": run.code,
        "seconds": round(run.seconds, 1),
        "result": d.get("result"),
        "problems": sorted(" ".join(k) for k, p in problems_of(d, ("fail", "error")).items() if not p.get("explainedBy"))
        if d else [],
        "diagnoses": [x["headline"] for x in d.get("diagnoses", [])],
        "checks": checks,
    }


class Results:
    """One entry a row, by its name. A row that has failed is not kept."""

    def __init__(self, path=KEPT):
        self.path = path
        self.rows = self.read()

    def read(self):
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def has(self, scenario, binary):
        row = self.rows.get(scenario["name"])
        return bool(row) and (row["binary"], row["scenario"]) == (fingerprint(binary), fingerprint(scenario["file"]))

    def keep(self, scenario, binary, run):
        row = {
            "title": scenario["title"],
            "cluster": scenario["cluster"],
            "date": datetime.date.today().isoformat(),
            "commit": commit(),
            "binary": fingerprint(binary),
            "scenario": fingerprint(scenario["file"]),
            "ours": of_run(run),
        }
        if run.beside:
            row["talosctl"] = {"exit": run.beside.code, "seconds": round(run.beside.seconds, 1), "last": run.beside.last}
        with open(CACHE / "results.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two rigs may be at work
            self.rows = self.read() | {scenario["name"]: row}
            self.write()

    def write(self):
        rows = {name: self.rows[name] for name in sorted(self.rows)}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
        new.replace(self.path)


# ---- the table -------------------------------------------------------------------------------------------------------
def cell(text):
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")



def is_comparable(scenario):
    """Where the state changes during the run, the shorter of the two has not seen its end."""
    return scenario.get("during", {}).get("do") not in ("heal", "bootstrap")


def table(results, scenarios, missing):
    """docs/e2e.md. Rows that have no result say so; `missing` are states without a row, and checks, with the reasons."""
    rows = [(s, results.rows.get(s["name"])) for s in scenarios if "expect" in s]
    seen = [row for _, row in rows if row]
    beside = [(s, row) for s, row in rows if row and "talosctl" in row and is_comparable(s)]
    right = sum((row["talosctl"]["exit"] == 0) == (s["expect"]["exit"] == 0) for s, row in beside)
    lines = [
        "# Against real clusters",
        "",
        "Written by `e2e/run --table docs/e2e.md` from `e2e/results.json`, which `make e2e-full` keeps. Each row: a real cluster is",
        "brought into the state, `cluster-health` and `talosctl health --wait-timeout 12s` are asked at the same time, and the answer",
        "of `cluster-health` is compared with `e2e/scenarios`: exit code, checks, reasons and targets, exactly. Times are in seconds;",
        "`cluster-health` runs without `--wait-timeout` unless the row is about waiting. Rows named `k8s-…` are of a cluster without",
        "Talos, which `talosctl` cannot be asked about.",
        "",
        f"{len(seen)} of {len(rows)} rows have been seen. `talosctl health` has the right verdict in {right} of {len(beside)}.",
        "",
        "| row | state | cluster-health | talosctl health | date, commit |",
        "| --- | --- | --- | --- | --- |",
    ]
    for s, row in rows:
        if not row:
            lines.append(f"| `{s['name']}` | {cell(s['title'])} | not run yet | | |")
            continue
        ours, theirs = row["ours"], row.get("talosctl")
        says = ours["diagnoses"][0] if ours["diagnoses"] else "; ".join(ours["problems"][:2]) or ours["result"] or "killed"
        told = f"**{ours['exit']}** in {ours['seconds']}: {cell(says)}"
        if theirs:
            wrong = is_comparable(s) and (theirs["exit"] == 0) != (s["expect"]["exit"] == 0)
            mark = " (wrong)" if wrong else ""
            theirs = f"**{theirs['exit']}**{mark} in {theirs['seconds']}: {cell(theirs['last'])}"
        lines.append(f"| `{s['name']}` | {cell(s['title'])} | {told} | {theirs or ''} | {row['date']}, {row['commit']} |")
    lines += ["", "## What cannot be had here", "", "| what | why |", "| --- | --- |"]
    lines += [f"| {cell(what)} | {cell(why)} |" for what, why in missing.items()]
    return "\n".join(lines) + "\n"


# ---- coverage --------------------------------------------------------------------------------------------------------
def coverage(results, ids, excused):
    """For each check a row in which it passed and one in which it did not, with its reason. Returns lines and what is open."""
    lines, uncovered = [], []
    for check in ids:
        passed, failed = [], []
        for name, row in results.rows.items():
            status, *reasons = row["ours"]["checks"].get(check, "").split()[:2] or [""]
            if status == "pass":
                passed.append(name)
            elif status in ("fail", "error", "warn") and reasons:
                failed.append(f"{name} ({reasons[0]})")
        missing = [what for what, seen in (("pass", passed), ("fail", failed)) if not seen]
        note = f"never seen to {' or '.join(missing)}" if missing else ""
        if missing and check in excused:
            note += f"; {excused[check]}"
        elif missing:
            uncovered.append(check)
        lines.append(f"{check:32} {passed[0] if passed else '-':24} {failed[0] if failed else '-':48} {note}".rstrip())
    stale = [check for check in excused if check not in ids]
    return lines, uncovered, stale


def rights_coverage(results, scenarios, role):
    """For each right of the ClusterRole that `cluster-health rbac` prints the row in which it was missing. Lines, and what is open."""
    granted = [right for line in re.findall(r"(?:resources|nonResourceURLs): \[(.*)\]", role) for right in re.findall(r'"(.+?)"', line)]
    rows = {fault.split()[1]: s["name"] for s in scenarios for fault in s.get("faults", []) if fault.startswith("right-removed ")}
    seen = {right: rows[right] for right in granted if rows.get(right) in results.rows}
    lines = [f"without the right to read {right:32} {seen.get(right, '-')}" for right in granted]
    return lines, [right for right in granted if right not in seen]
