"""What the rows said: kept from run to run, as a table, and as the proof that every check was seen to pass and to fail."""
import datetime
import fcntl
import json
import pathlib
import re
import subprocess
import time

from beside import is_asked, is_comparable, untold
from kinds import cluster_of
from scenario import fingerprint, problems_of
from simulated import CACHE

HERE = pathlib.Path(__file__).resolve().parent
KEPT = HERE / "results.json"
WHOLE = HERE / "whole.json"


def commit(binary):
    """That the binary was built from, in short; the tree may have gone on."""
    said = subprocess.run([binary, "version", "-o", "json"], capture_output=True, text=True, check=True).stdout
    commit, *dirty = (json.loads(said)["commit"] or "unknown").split("-")
    return "-".join([commit[:7], *dirty])


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
        "problems": sorted({" ".join(k) for k, p in problems_of(d, ("fail", "error")) if not p.get("explainedBy")}) if d else [],
        "diagnoses": [x["headline"] for x in d.get("diagnoses", [])],
        "checks": checks,
    }


def read(path):
    return json.loads(path.read_text()) if path.exists() else {}


def change(path, how):
    """Lets `how` change what is kept in this file, and returns that."""
    with open(CACHE / "results.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two rigs may be at work
        kept = read(path)
        how(kept)
        kept = dict(sorted(kept.items()))
        new = path.with_suffix(".new")
        new.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
        new.replace(path)
        return kept


class Whole:
    """The time of a run of all rows, summed over the parts in which it was made. `open` has the seconds so far and the rows that have
    passed since its begin, `last` is the last run of which all rows have."""

    def __init__(self, binary, resume, path=WHOLE):
        self.path, self.mark = path, time.monotonic()
        self.binary = fingerprint(binary.read_bytes())

        def begin(kept):
            if not resume or self.open(kept)["binary"] != self.binary:
                kept.pop("open", None)
            self.open(kept)

        change(path, begin)

    def open(self, kept):
        return kept.setdefault("open", {"binary": self.binary, "seconds": 0, "rows": []})

    def spend(self, kept):
        """Written after each row, since a part may be killed."""
        seconds = int(time.monotonic() - self.mark)
        self.open(kept)["seconds"] += seconds
        self.mark += seconds

    def row(self, name, passed):
        def add(kept):
            self.spend(kept)
            rows = set(self.open(kept)["rows"]) - {name}
            kept["open"]["rows"] = sorted(rows | {name} if passed else rows)

        change(self.path, add)

    def end(self, names):
        """Of this part. `names` are those of all rows."""

        def finish(kept):
            self.spend(kept)
            if set(names) <= set(self.open(kept)["rows"]):
                seconds = kept.pop("open")["seconds"]
                kept["last"] = {"date": datetime.date.today().isoformat(), "rows": len(names), "seconds": seconds}

        change(self.path, finish)


class Results:
    """One entry a row, by its name. A row that has failed has none."""

    def __init__(self, path=KEPT):
        self.path, self.rows = path, read(path)
        self.whole = None  # the run of all rows that this is a part of

    def has(self, scenario, binary):
        row = self.current([scenario]).get(scenario["name"])
        if not row or row["binary"] != fingerprint(binary.read_bytes()):
            return False
        return "talosctl" in row or not is_asked(scenario)

    def current(self, scenarios):
        """The entries of these, without those whose file has changed since: they say nothing of what it says now."""
        kept = {s["name"]: (s, self.rows[s["name"]]) for s in scenarios if s["name"] in self.rows}
        return {name: row for name, (s, row) in kept.items() if row["scenario"] == s["digest"]}

    def keep(self, scenario, binary, run):
        row = {
            "title": scenario["title"],
            "cluster": scenario["cluster"],
            "date": datetime.date.today().isoformat(),
            "commit": commit(binary),
            "binary": fingerprint(binary.read_bytes()),
            "scenario": scenario["digest"],
            "ours": of_run(run),
        }
        if run.beside:
            row["talosctl"] = {"exit": run.beside.code, "seconds": round(run.beside.seconds, 1), "last": run.beside.last}
        self.rows = change(self.path, lambda rows: rows.update({scenario["name"]: row}))
        if self.whole:
            self.whole.row(scenario["name"], passed=True)

    def drop(self, scenario):
        """Of one that has failed: what it showed before holds no longer."""
        self.rows = change(self.path, lambda rows: rows.pop(scenario["name"], None))
        if self.whole:
            self.whole.row(scenario["name"], passed=False)


# ---- the table -------------------------------------------------------------------------------------------------------
def cell(text):
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def is_right(scenario, row):
    """Of talosctl's verdict."""
    return (row["talosctl"]["exit"] == 0) == (scenario["expect"]["exit"] == 0)


def theirs(scenario, row):
    """What talosctl said, or why it was not asked."""
    if not is_asked(scenario):
        return cell(scenario.get("beside", "" if cluster_of(scenario["cluster"]).talos else "no Talos"))
    said = row.get("talosctl")
    if not said:
        return "not asked yet"
    note = f", without {', '.join(f'`{option}`' for option in untold(scenario))}" if untold(scenario) else ""
    mark = " (wrong)" if is_comparable(scenario) and not is_right(scenario, row) else ""
    return f"**{said['exit']}**{mark} in {said['seconds']}{note}: {cell(said['last'])}"


def table(results, scenarios, missing, last):
    """docs/e2e.md. Rows that have no result say so; `missing` are states without a row, and checks, with the reasons; `last` is the
    last run of all rows."""
    current = results.current(scenarios)
    rows = [(s, current.get(s["name"])) for s in scenarios]
    seen = [row for _, row in rows if row]
    beside = [(s, row) for s, row in rows if row and "talosctl" in row and is_comparable(s)]
    right = sum(is_right(s, row) for s, row in beside)
    lines = [
        "# Against real clusters",
        "",
        "`e2e/run --table docs/e2e.md` generates this page from `e2e/results.json`, which `make e2e-full` updates. For each row, a real cluster is",
        "brought into the state, `cluster-health` and `talosctl health --wait-timeout 12s` run at the same time, and the result of `cluster-health` is",
        "compared with `e2e/scenarios`: exit code, checks, reasons and targets have to match exactly. Times are in seconds; `cluster-health` runs",
        "without `--wait-timeout` unless the row is about waiting. `talosctl` uses the same endpoints and node lists; in rows about an option that",
        "talosctl does not have, its verdict does not count. If a script in this repository runs `cluster-health`, the exit code is the script's. Rows",
        "named `k8s-…` are clusters without Talos, which `talosctl` cannot check.",
        "",
        f"{len(seen)} of {len(rows)} rows have a result. `talosctl health` has the right verdict in {right} of {len(beside)}.",
        *([f"The last complete run, on {last['date']}, took {last['seconds']} s for {last['rows']} rows."] if last else []),
        "",
        "| row | state | cluster-health | talosctl health | date, commit |",
        "| --- | --- | --- | --- | --- |",
    ]
    for s, row in rows:
        if not row:
            why = "expectation has changed since, not run again" if s["name"] in results.rows else "not run yet"
            lines.append(f"| `{s['name']}` | {cell(s['title'])} | {why} | | |")
            continue
        ours = row["ours"]
        says = ours["diagnoses"][0] if ours["diagnoses"] else "; ".join(ours["problems"][:2]) or ours["result"]
        says = says or s.get("script") or "killed"
        told = f"**{ours['exit']}** in {ours['seconds']}: {cell(says)}"
        lines.append(f"| `{s['name']}` | {cell(s['title'])} | {told} | {theirs(s, row)} | {row['date']}, {row['commit']} |")
    lines += ["", "## States that cannot be tested here", "", "| state or check | reason |", "| --- | --- |"]
    lines += [f"| {cell(what)} | {cell(why)} |" for what, why in missing.items()]
    return "\n".join(lines) + "\n"


# ---- coverage --------------------------------------------------------------------------------------------------------
def coverage(results, scenarios, ids, excused):
    """For each check a row in which it passed and one in which it did not, with its reason. Returns lines and what is open."""
    lines, uncovered = [], []
    rows = results.current(scenarios)
    for check in ids:
        passed, failed = [], []
        for name, row in rows.items():
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
    current = results.current(scenarios)
    seen = {right: rows[right] for right in granted if rows.get(right) in current}
    lines = [f"without the right to read {right:32} {seen.get(right, '-')}" for right in granted]
    return lines, [right for right in granted if right not in seen]
