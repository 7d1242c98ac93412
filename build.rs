//! Records the commit that the program is built from, for `version`, and leaves the tables for unwinding out of a static release.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The sources of a release; other files may differ from the commit.
const SOURCES: [&str; 5] = ["build.rs", "Cargo.toml", "Cargo.lock", "crates/talos-api", "src"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |variable: &str, value: &str| std::env::var(variable).as_deref() == Ok(value);
    // Debug builds unwind, and record no commit: they would have to be rebuilt after each one.
    if !is("PROFILE", "release") {
        return;
    }
    if let Some(commit) = packaged().or_else(checked_out) {
        println!("cargo::rustc-env=CLUSTER_HEALTH_COMMIT={commit}");
    }
    if is("CARGO_CFG_TARGET_ENV", "musl") {
        discard_unwind_tables();
    }
}

/// Discards the tables for unwinding, which compilers emit even where a panic aborts: a fourteenth of the program.
fn discard_unwind_tables() {
    const SCRIPT: &str = "SECTIONS { /DISCARD/ : { *(.eh_frame .eh_frame.*) *(.gcc_except_table .gcc_except_table.*) } }\n\
                          INSERT AFTER .text;\n";
    let path = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("no-unwind.ld");
    std::fs::write(&path, SCRIPT).expect("cargo has made the folder");
    println!("cargo::rustc-link-arg-bins=-T{}", path.display());
}

/// Returns the commit of a crate, as recorded by `cargo package`.
fn packaged() -> Option<String> {
    let written = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = written.split_once("\"sha1\": \"")?;
    let (commit, _) = rest.split_once('"')?;
    Some(marked(commit, written.contains("\"dirty\": true")))
}

/// Returns the commit of a clone, but not that of another repository which contains this folder.
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
