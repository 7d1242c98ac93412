//! Recordings of raw answers: only where they are asked for, and only by a program that was built for it.

use std::path::Path;

use crate::harness::{Program, program};
use crate::pki::{Authority, Flaw, talosconfig};

const VARIABLE: &str = "CLUSTER_HEALTH_RECORD";

/// Nothing listens at its endpoint.
fn refused() -> Program {
    let authority = Authority::new();
    let client = authority.client("os:reader", Flaw::default());
    program().talosconfig(talosconfig(authority.pem(), &client, &["127.0.0.1:1".to_owned()]))
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
    refused().env(VARIABLE, folder.path()).run();
    assert!(names(folder.path()).is_empty());
}

#[test]
#[cfg(feature = "record")]
fn a_call_that_failed_is_recorded_with_its_cause() {
    let folder = tempfile::tempdir().unwrap();
    refused().env(VARIABLE, folder.path()).run();
    assert_eq!(names(folder.path()), ["001-talos-127.0.0.1-1-connection.json", "run.json"]);
    let text = std::fs::read(folder.path().join("001-talos-127.0.0.1-1-connection.json")).unwrap();
    let call: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!((&call["gap"]["kind"], &call["messages"]), (&"ConnectionRefused".into(), &serde_json::json!([])));
}
