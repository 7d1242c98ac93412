//! The table row of a pod, whose status combines phase, reasons and containers.

use jiff::Timestamp;
use serde_json::Value;

use super::table::{NONE, age, list, since, text};

pub(super) fn pod(pod: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let containers = list(&status["containerStatuses"]);
    let is_running = |it: &&Value| it["ready"] == true && !it["state"]["running"].is_null();
    let ready = format!("{}/{}", containers.iter().filter(is_running).count(), list(&spec["containers"]).len());
    let gates = list(&spec["readinessGates"]);
    let passed = gates.iter().filter(|gate| has_true(status, &gate["conditionType"])).count();
    let gates = if gates.is_empty() { NONE.to_owned() } else { format!("{passed}/{}", gates.len()) };
    vec![
        ready.into(),
        state(pod).into(),
        restarts(containers, now).into(),
        age(pod, now),
        text(&status["podIP"], NONE).into(),
        text(&spec["nodeName"], NONE).into(),
        text(&status["nominatedNodeName"], NONE).into(),
        gates.into(),
    ]
}

fn has_true(status: &Value, kind: &Value) -> bool {
    list(&status["conditions"]).iter().any(|it| it["type"] == *kind && it["status"] == "True")
}

/// `Init:1/2`, `CrashLoopBackOff`, `Running`
fn state(pod: &Value) -> String {
    let status = &pod["status"];
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        let is_lost = status["reason"] == "NodeLost";
        return if is_lost { "Unknown" } else { "Terminating" }.to_owned();
    }
    if let Some(state) = of_init_containers(pod) {
        return state;
    }
    let phase = text(&status["reason"], text(&status["phase"], "Unknown"));
    let containers = list(&status["containerStatuses"]);
    let reason = containers.iter().find_map(why_not_running);
    let runs = containers.iter().any(|it| it["ready"] == true && !it["state"]["running"].is_null());
    match reason {
        // A container that has completed does not hide others that still run.
        Some(reason) if reason == "Completed" && runs => {
            if has_true(status, &"Ready".into()) {
                "Running".to_owned()
            } else {
                "NotReady".to_owned()
            }
        }
        Some(reason) => reason,
        None => phase.to_owned(),
    }
}

fn why_not_running(container: &Value) -> Option<String> {
    let state = &container["state"];
    if let Some(reason) = state["waiting"]["reason"].as_str().filter(|reason| !reason.is_empty()) {
        return Some(reason.to_owned());
    }
    let terminated = state["terminated"].as_object()?;
    let number = |key: &str| terminated.get(key).and_then(Value::as_i64).unwrap_or_default();
    let reason = terminated.get("reason").and_then(Value::as_str).filter(|reason| !reason.is_empty());
    Some(match reason {
        Some(reason) => reason.to_owned(),
        None if number("signal") != 0 => format!("Signal:{}", number("signal")),
        None => format!("ExitCode:{}", number("exitCode")),
    })
}

/// State of the first init container that has not finished.
fn of_init_containers(pod: &Value) -> Option<String> {
    let statuses = list(&pod["status"]["initContainerStatuses"]);
    let total = list(&pod["spec"]["initContainers"]).len();
    let is_done = |it: &Value| it["state"]["terminated"]["exitCode"] == 0 || it["started"] == true;
    let (index, unfinished) = statuses.iter().enumerate().find(|(_, it)| !is_done(it))?;
    let reason = why_not_running(unfinished).filter(|reason| reason != "PodInitializing");
    Some(reason.map_or_else(|| format!("Init:{index}/{total}"), |reason| format!("Init:{reason}")))
}

/// `2 (91s ago)`
fn restarts(containers: &[Value], now: Timestamp) -> String {
    let count: i64 = containers.iter().filter_map(|it| it["restartCount"].as_i64()).sum();
    let ended = containers.iter().map(|it| &it["lastState"]["terminated"]["finishedAt"]);
    let last = ended.filter(|at| at.is_string()).max_by_key(|at| at.as_str());
    match last {
        Some(at) if count > 0 => format!("{count} ({} ago)", since(at, now)),
        _ => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(value: &Value) -> String {
        let now = "2026-11-21T14:00:00Z".parse().unwrap();
        let cells = pod(value, now);
        cells[..4].iter().map(|cell| cell.as_str().unwrap()).collect::<Vec<_>>().join(" | ")
    }

    fn example(status: &Value) -> Value {
        json!({
            "metadata": {"creationTimestamp": "2026-11-21T13:38:00Z"},
            "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "b"}]}, "status": status,
        })
    }

    #[test]
    fn a_pod_shows_what_keeps_it() {
        let running = json!({"phase": "Running", "containerStatuses": [{"ready": true, "restartCount": 0, "state": {"running": {}}}]});
        assert_eq!(row(&example(&running)), "1/1 | Running | 0 | 22m");
        let crashing = json!({"phase": "Running", "containerStatuses": [{
            "ready": false, "restartCount": 7, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"finishedAt": "2026-11-21T13:59:11Z"}},
        }]});
        assert_eq!(row(&example(&crashing)), "0/1 | CrashLoopBackOff | 7 (49s ago) | 22m");
        let initializing = json!({"phase": "Pending", "initContainerStatuses": [{"state": {"running": {}}}]});
        assert_eq!(row(&example(&initializing)), "0/1 | Init:0/1 | 0 | 22m");
        assert_eq!(row(&example(&json!({"phase": "Pending"}))), "0/1 | Pending | 0 | 22m");
        let mut deleted = example(&running);
        deleted["metadata"]["deletionTimestamp"] = "2026-11-21T13:59:00Z".into();
        assert_eq!(row(&deleted), "1/1 | Terminating | 0 | 22m");
    }
}
