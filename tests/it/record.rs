//! Recordings of raw answers: only on request, and only by a program that was built for it.

use std::path::Path;

use crate::harness::{Program, program};
use crate::pki::{authority, reader};

const VARIABLE: &str = "CLUSTER_HEALTH_RECORD";

/// A run whose endpoint has no listener.
fn refused() -> Program {
    program().talosconfig(reader(&authority(), &[([127, 0, 0, 1], 1).into()]))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn nothing_is_written_that_was_not_asked_for() {
    let (mut child, home) = refused().spawn();
    child.wait().unwrap();
    assert_eq!(names(home.path()), [".talos"]);
}

#[test]
#[cfg(not(feature = "record"))]
fn an_ordinary_build_knows_no_recordings() {
    let folder = tempfile::tempdir().unwrap();
    refused().env(VARIABLE, folder.path().join("state.json")).run();
    assert!(names(folder.path()).is_empty());
}

#[cfg(feature = "record")]
mod built_for_it {
    use serde_json::{Value, json};

    use super::*;

    const STATE: &str = "CLUSTER_HEALTH_RECORD_STATE";

    fn recording(program: Program) -> Value {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        program.env(VARIABLE, &path).env(STATE, r#"{"name":"refused"}"#).run();
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    #[test]
    fn a_call_that_failed_is_recorded_with_its_cause() {
        let document = recording(refused());
        assert_eq!(document["state"], json!({ "name": "refused" }));
        let [call] = document["calls"].as_array().unwrap().as_slice() else { panic!("{document}") };
        assert_eq!((&call["expects"], &call["endpoint"]), (&json!("Connection"), &json!("127.0.0.1:1")));
        assert_eq!((&call["gap"]["kind"], &call["messages"]), (&json!("ConnectionRefused"), &json!([])));
    }

    #[test]
    fn a_run_that_waits_has_the_calls_of_its_first_round() {
        let document = recording(refused().args(["--wait-timeout", "1s", "--interval", "100ms"]));
        assert_eq!(document["calls"].as_array().map(Vec::len), Some(1), "{document}");
    }

    #[test]
    fn a_recording_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        std::fs::write(&path, "another").unwrap();
        let run = refused().env(VARIABLE, &path).run();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "another");
        assert!(run.stderr.contains("could not record"), "{}", run.stderr);
    }
}
