"""Each observer removed in turn: the row that rests on it must notice."""
import json

from cluster import Broken, told_by
from kinds import cluster_of
from runner import say
from scenario import compare, execute, is_early

# Rows in which these observers are needed; all others are needed in the healthy row.
ROWS = {
    "BootstrapManifestsConfigs": "bare",
    "HealthCheck": "healthy-server",
    "List /var/lib/etcd": "not-bootstrapped-reader",
    "SchedulerConfigs, ControllerManagerConfigs": "scheduler-disabled",
    "deployments (kube-system)": "dns-scaled-to-zero",
    "pods (kube-system)": "healthy-no-talos",
}


def observers(binary):
    """What the checks read, in the words of `cluster-health list`."""
    checks = json.loads(told_by(binary, "list", "-o", "json"))
    return sorted({read for check in checks for read in check["reads"]})


def try_each(binary, scenarios, excused):
    """Whether every observer is missed by its row, but those that are excused, and none of these. Clusters are brought up here, and
    the last one stays."""
    named = {s["name"]: s for s in scenarios}
    all_of_them = observers(binary)
    unnoticed, stale = [], sorted(excused.keys() - set(all_of_them))
    for what in stale:
        say(f"uncovered.toml: nothing reads `{what}`")
    rests_on = {what: ROWS.get(what, "healthy") for what in all_of_them}
    wanted = {what: named[row] for what, row in rests_on.items() if row in named}  # with --only, some
    # Rows before the bootstrap come first, and each kind of cluster is started once.
    rows = sorted({s["name"]: s for s in wanted.values()}.values(), key=lambda s: (s["cluster"], s.get("phase") is None))
    cluster, kind = None, None
    for scenario in rows:
        early = is_early(scenario)
        if scenario["cluster"] != kind:
            if cluster:
                cluster.down()
            kind = scenario["cluster"]
            cluster = cluster_of(kind)
            if cluster.is_up() and (early or not cluster.is_of_this_kind()):  # of an earlier --keep
                cluster.down()
        cluster.up(scenario.get("phase"))
        if not early:
            cluster.wait_healthy()
        faults = scenario.get("faults", [])
        cluster.switch(faults, "on")
        if "until" in scenario:
            cluster.wait_until(scenario["until"])
        if differences := compare(scenario["expect"], execute(scenario, cluster, binary)):
            raise Broken(f"`{scenario['name']}` is not as expected with all observers: {'; '.join(differences)}")
        for what in (what for what, row in wanted.items() if row is scenario):
            missed = compare(scenario["expect"], execute(scenario, cluster, binary, blind=what))
            if missed and what in excused:
                say(f"FAIL  {what:46} {scenario['name']} misses it, and uncovered.toml excuses it: {missed[0]}")
                stale.append(what)
            elif missed:
                say(f"{'ok':4}  {what:46} {scenario['name']}: {missed[0]}")
            elif what in excused:
                say(f"{'-':4}  {what:46} {excused[what]}")
            else:
                say(f"FAIL  {what:46} {scenario['name']} does not miss it")
                unnoticed.append(what)
        cluster.switch(faults, "off")
    excused_here = excused.keys() & wanted.keys() - set(stale)
    say(f"observers: {len(wanted.keys() - excused_here - set(unnoticed))} of {len(wanted)} are missed, {len(excused_here)} excused; "
        f"unnoticed: {', '.join(unnoticed) or 'none'}; stale excuses: {', '.join(stale) or 'none'}")
    return bool(wanted) and not unnoticed and not stale
