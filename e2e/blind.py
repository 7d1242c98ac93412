"""Each observer removed in turn: the row that rests on it must notice."""
import json

from cluster import Broken, told_by
from runner import say
from scenario import compare, execute

# What each is asked for is needed on the healthy cluster, but for these.
ROWS = {"List /var/lib/etcd": "not-bootstrapped-reader", "HealthCheck": "healthy-server"}


def observers(binary):
    """What the checks read, in the words of `cluster-health list`."""
    checks = json.loads(told_by(binary, "list", "-o", "json"))
    return sorted({read for check in checks for read in check["reads"]})


def try_each(binary, cluster, scenarios, excused):
    """Whether every observer that is not excused is missed by its row. The cluster is brought up here."""
    named = {s["name"]: s for s in scenarios}
    wanted = {what: named[ROWS.get(what, "healthy")] for what in observers(binary)}
    for what in excused.keys() - wanted.keys():
        say(f"uncovered.toml: nothing reads `{what}`")
    unnoticed = sorted(excused.keys() - wanted.keys())
    for early in (True, False):
        rows = {what: s for what, s in wanted.items() if (s.get("phase") == "not-bootstrapped") == early}
        cluster.up(bootstrap=not early)
        if not early:
            cluster.wait_healthy()
        for scenario in {s["name"]: s for s in rows.values()}.values():
            if "until" in scenario:
                cluster.wait_until(scenario["until"])
            if differences := compare(scenario["expect"], execute(scenario, cluster, binary)):
                raise Broken(f"`{scenario['name']}` is not as expected with all observers: {'; '.join(differences)}")
        for what, scenario in rows.items():
            missed = compare(scenario["expect"], execute(scenario, cluster, binary, blind=what))
            if what in excused:
                say(f"{'-':4}  {what:46} {excused[what]}")
            elif missed:
                say(f"{'ok':4}  {what:46} {scenario['name']}: {missed[0]}")
            else:
                say(f"FAIL  {what:46} {scenario['name']} does not miss it")
                unnoticed.append(what)
    say(f"observers: {len(wanted) - len(unnoticed) - len(excused)} of {len(wanted)} are missed, {len(excused)} excused; "
        f"unnoticed: {', '.join(unnoticed) or 'none'}")
    return not unnoticed
