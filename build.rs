//! Names the commit that the program is built from, for `version`.

use std::path::Path;
use std::process::Command;

/// What a release is made of; all else may differ from the commit.
const SOURCES: [&str; 5] = ["build.rs", "Cargo.toml", "Cargo.lock", "crates/talos-api", "src"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A debug build names none: it would have to be built again after each commit.
    if std::env::var("PROFILE").as_deref() == Ok("release")
        && let Some(commit) = packaged().or_else(checked_out)
    {
        println!("cargo::rustc-env=CLUSTER_HEALTH_COMMIT={commit}");
    }
}

/// Of a crate: `cargo package` has written it down.
fn packaged() -> Option<String> {
    let written = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = written.split_once("\"sha1\": \"")?;
    let (commit, _) = rest.split_once('"')?;
    Some(marked(commit, written.contains("\"dirty\": true")))
}

/// Of a clone; not of a folder inside of somebody else's repository.
fn checked_out() -> Option<String> {
    if !Path::new(".git").exists() {
        return None;
    }
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    let is_dirty = !git(&[&["status", "--porcelain", "--"], &SOURCES[..]].concat())?.is_empty();
    Some(marked(&git(&["rev-parse", "HEAD"])?, is_dirty))
}

fn marked(commit: &str, is_dirty: bool) -> String {
    format!("{commit}{}", if is_dirty { "-dirty" } else { "" })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
