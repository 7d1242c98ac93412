//! Readers for the document of each format, as strict as its actual readers may be.

use serde_json::Value;

/// All formats of `--output` and `--report`; a test compares them with the program's own list.
pub(crate) const FORMATS: [&str; 7] = ["text", "json", "ndjson", "junit", "markdown", "html", "prometheus"];

/// Returns whether the document reports a completed run with a healthy cluster. Panics if the document is incomplete.
#[track_caller]
pub(crate) fn is_success(format: &str, text: &str) -> bool {
    assert!(text.ends_with('\n'), "{format} is cut off: {text}");
    match format {
        "text" => text.starts_with("healthy: "),
        "json" => is_healthy(&serde_json::from_str(text).unwrap()),
        "ndjson" => {
            let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(events[0]["type"], "runStarted");
            let last = events.last().unwrap();
            last["type"] == "runFinished" && is_healthy(&last["report"])
        }
        "junit" => {
            let report = quick_junit::Report::deserialize_from_str(text).unwrap();
            assert!(report.tests > 0);
            report.failures + report.errors == 0
        }
        "markdown" => {
            assert!(text.starts_with("## ") && text.ends_with("</details>\n"), "{text}");
            text.starts_with("## ✓ healthy: ")
        }
        "html" => {
            assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>\n"), "{text}");
            text.contains("<h1>healthy ") && !text.contains("The run has not finished")
        }
        "prometheus" => {
            let line =
                |name: &str| text.lines().find(|line| line.strip_prefix(name).is_some_and(|it| it.starts_with('{')));
            let value = |name: &str| line(name).unwrap().rsplit_once(' ').unwrap().1;
            // The last metrics are present.
            assert!(text.contains("cluster_health_check_status{"), "{text}");
            value("cluster_health_healthy") == "1" && value("cluster_health_complete") == "1"
        }
        other => panic!("nobody can read {other}"),
    }
}

fn is_healthy(report: &Value) -> bool {
    report["complete"] == true && report["result"] == "healthy" && report["exitCode"] == 0
}
