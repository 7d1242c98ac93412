//! Laws for the causes in a JSON report, regardless of the cluster: those that need only the report. The matrix, the recordings of real
//! clusters and the chaos tests check every report against them.

use std::collections::BTreeSet;

use serde_json::Value;

/// A violation of a law.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken {
    /// `direction`, `disappeared`, `dangerous`
    pub law: &'static str,
    pub why: String,
}

/// Commands that cannot be undone: proposing them requires having seen every machine that they could affect.
const DESTROYS: &[&str] = &["remove-member", " reset ", " wipe ", " bootstrap ", "delete node"];

/// Returns all violations in the report.
#[must_use]
pub fn broken(report: &Value) -> Vec<Broken> {
    let problems = problems(report);
    let mut broken = Vec::new();
    direction(&problems, &mut broken);
    disappeared(report, &problems, &mut broken);
    dangerous(report, &mut broken);
    broken
}

/// A problem in the report.
#[derive(Debug)]
struct Problem<'a> {
    check: &'a str,
    target: &'a str,
    reason: &'a str,
    observed: &'a str,
    is_warning: bool,
    explained_by: Option<&'a str>,
}

fn problems(report: &Value) -> Vec<Problem<'_>> {
    list(&report["checks"]).iter().flat_map(of_check).collect()
}

fn of_check(check: &Value) -> impl Iterator<Item = Problem<'_>> {
    list(&check["problems"]).iter().map(|problem| Problem {
        check: text(&check["id"]),
        target: text(&problem["target"]["name"]),
        reason: text(&problem["reason"]),
        observed: text(&problem["observed"]),
        is_warning: problem["severity"] == "warn",
        explained_by: problem["explainedBy"].as_str(),
    })
}

/// Verifies that a check which explains a failure has failed itself, and that every chain of explanations has an end.
fn direction(problems: &[Problem<'_>], broken: &mut Vec<Broken>) {
    let mut add = |why| broken.push(Broken { law: "direction", why });
    for problem in problems {
        let Some(by) = problem.explained_by else { continue };
        let weighs = |other: &&Problem<'_>| other.check == by && (!other.is_warning || problem.is_warning);
        if !problems.iter().any(|other| weighs(&other)) {
            add(format!("{problem:?} is explained by {by}, which has not failed"));
        }
    }
    // Checks with a problem that is a root cause, and checks with a problem that such a check explains.
    let mut told: BTreeSet<&str> = problems.iter().filter(|it| it.explained_by.is_none()).map(|it| it.check).collect();
    loop {
        let follows = |it: &&Problem<'_>| it.explained_by.is_some_and(|by| told.contains(by));
        let more: Vec<_> = problems.iter().filter(follows).map(|it| it.check).filter(|it| !told.contains(it)).collect();
        if more.is_empty() {
            break;
        }
        told.extend(more);
    }
    let lost = problems.iter().filter(|it| it.explained_by.is_some_and(|by| !told.contains(by)));
    for problem in lost {
        add(format!("{problem:?} is explained in a circle"));
    }
}

/// Verifies that every problem that a diagnosis explains is reported, and that only one diagnosis explains it.
fn disappeared(report: &Value, problems: &[Problem<'_>], broken: &mut Vec<Broken>) {
    let mut add = |why| broken.push(Broken { law: "disappeared", why });
    let mut known = BTreeSet::new();
    for diagnosis in list(&report["diagnoses"]) {
        let id = text(&diagnosis["id"]);
        if list(&diagnosis["explains"]).is_empty() {
            add(format!("{id} explains nothing"));
        }
        for explained in list(&diagnosis["explains"]) {
            let [check, reason, observed] = ["check", "reason", "observed"].map(|key| text(&explained[key]));
            let target = text(&explained["target"]["name"]);
            let is_it =
                |it: &Problem<'_>| (it.check, it.reason, it.observed, it.target) == (check, reason, observed, target);
            if !problems.iter().any(is_it) {
                add(format!("{id} explains {check} {reason} {target}, which is not reported"));
            }
            if !known.insert((check, reason, observed, explained["target"].to_string())) {
                add(format!("{id} explains {check} {reason} {target}, which another diagnosis does"));
            }
        }
    }
}

/// Verifies that commands that cannot be undone are proposed only if every control plane was seen in this round.
fn dangerous(report: &Value, broken: &mut Vec<Broken>) {
    let reachable = list(&report["checks"]).iter().find(|check| check["id"] == "talos.nodes.reachable");
    let is_seen = |node: &Value| {
        let mut targets = reachable.into_iter().flat_map(|check| list(&check["targets"]));
        targets.any(|it| it["name"] == node["name"] && matches!(text(&it["status"]), "pass" | "warn"))
    };
    let control_planes = list(&report["sources"]["nodes"]).iter().filter(|node| node["role"] == "control-plane");
    let unseen: Vec<_> = control_planes.filter(|node| !is_seen(node)).map(|node| text(&node["name"])).collect();
    if unseen.is_empty() {
        return;
    }
    let hints = list(&report["checks"]).iter().flat_map(|check| list(&check["problems"])).map(|it| &it["hints"]);
    let next = list(&report["diagnoses"]).iter().map(|it| &it["next"]);
    for command in hints.chain(next).flat_map(list).map(|hint| text(&hint["command"])) {
        if DESTROYS.iter().any(|word| format!("{command} ").contains(word)) {
            broken.push(Broken { law: "dangerous", why: format!("`{command}`, though {unseen:?} were not seen") });
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn laws(report: &Value) -> Vec<&'static str> {
        broken(report).into_iter().map(|it| it.law).collect()
    }

    /// A problem with a separate check.
    fn check(id: &str, severity: &str, explained_by: Option<&str>) -> Value {
        let problem = json!({"severity": severity, "reason": "r", "observed": "o", "target": {"name": "cp-1"},
            "explainedBy": explained_by});
        json!({"id": id, "problems": [problem], "targets": []})
    }

    fn report(checks: &[Value]) -> Value {
        json!({"checks": checks, "diagnoses": [], "sources": {"nodes": [{"name": "cp-1", "role": "control-plane"}]}})
    }

    #[test]
    fn every_chain_leads_to_a_failure_that_nothing_explains() {
        let told = [check("a", "fail", None), check("b", "fail", Some("a")), check("c", "warn", Some("b"))];
        assert_eq!(laws(&report(&told)), [""; 0]);
        assert_eq!(laws(&report(&[check("a", "fail", Some("b")), check("b", "fail", Some("a"))])), ["direction"; 2]);
        assert_eq!(laws(&report(&[check("a", "warn", None), check("b", "fail", Some("a"))])), ["direction"]);
        assert_eq!(laws(&report(&[check("b", "fail", Some("a"))])), ["direction"; 2]);
    }

    #[test]
    fn what_is_explained_is_reported_and_explained_once() {
        let of = |check: &str| json!({"check": check, "reason": "r", "observed": "o", "target": {"name": "cp-1"}});
        let diagnosed = |explains: Value| {
            let mut report = report(&[check("a", "fail", None)]);
            report["diagnoses"] = json!([{"id": "d", "explains": explains, "next": []}]);
            laws(&report)
        };
        assert_eq!(diagnosed(json!([of("a")])), [""; 0]);
        for wrong in [json!([]), json!([of("b")]), json!([of("a"), of("a")])] {
            assert_eq!(diagnosed(wrong.clone()), ["disappeared"], "{wrong}");
        }
    }

    #[test]
    fn nothing_is_destroyed_while_a_control_plane_is_unseen() {
        let with = |status: &str, command: &str| {
            let mut report = report(&[check("talos.nodes.reachable", "fail", None)]);
            report["checks"][0]["targets"] = json!([{"name": "cp-1", "status": status}]);
            report["checks"][0]["problems"][0]["hints"] = json!([{"kind": "remedy", "command": command}]);
            laws(&report)
        };
        for command in ["talosctl -n 127.0.0.2 etcd remove-member 7", "talosctl -n 127.0.0.2 bootstrap"] {
            assert_eq!(with("fail", command), ["dangerous"], "{command}");
            assert_eq!(with("pass", command), [""; 0], "{command}");
        }
        assert_eq!(with("fail", "talosctl -n 127.0.0.2 etcd members"), [""; 0]);
    }
}
