//! The parts of `integrations/`, run as their target systems run them: by the same shell, with the same variables, against a simulated
//! cluster. Tests that need third-party tools are in `tools/lint-integrations`.

mod crossed;
mod github;
mod gitlab;
mod jenkins;
mod kubernetes;
mod systemd;
mod upgrade;
mod upgraders;
mod workflow;

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize as _;
use serde_yaml::Value;

use crate::cluster::Cluster;
use crate::harness::{Program, tool};

/// Returns the path of a file below `integrations/`.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("integrations").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

/// Parses the documents of a YAML file below `integrations/`.
fn yaml(name: &str) -> Vec<Value> {
    let text = text(name);
    serde_yaml::Deserializer::from_str(&text).map(|document| Value::deserialize(document).unwrap()).collect()
}

/// Prepares a script with the real program in its PATH. Credentials for the cluster are only in the program's variables.
fn script(path: impl AsRef<Path>, cluster: &Cluster) -> Program {
    let script =
        without_cluster(path).file("talosconfig", &cluster.talosconfig).file("kubeconfig", cluster.kubeconfig());
    let (talosconfig, kubeconfig) = (script.path("talosconfig"), script.path("kubeconfig"));
    let attempt = ("CLUSTER_HEALTH_ATTEMPT_TIMEOUT", "60s");
    script.env("TALOSCONFIG", talosconfig).env("KUBECONFIG", kubeconfig).env(attempt.0, attempt.1)
}

/// Prepares a script that queries no cluster.
fn without_cluster(path: impl AsRef<Path>) -> Program {
    let script = tool(path.as_ref()).file("bin/README", "programs that the script finds first");
    let folder = script.path("bin");
    symlink(env!("CARGO_BIN_EXE_cluster-health"), folder.join("cluster-health")).unwrap();
    let inherited = std::env::var("PATH").unwrap();
    script.env("PATH", format!("{}:{inherited}", folder.display()))
}

/// Puts a program into the PATH of a script, replacing an existing one.
fn with_program(script: Program, name: &str, text: &str) -> Program {
    let place = script.path("bin").join(name);
    let _ = std::fs::remove_file(&place);
    std::fs::write(&place, text).unwrap();
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).unwrap();
    script
}

/// Returns a stand-in for the program that exits with these codes, one after the other, and adds a line to `attempts` each time.
fn ending_with(codes: &[i32]) -> String {
    let codes: Vec<_> = codes.iter().map(i32::to_string).collect();
    format!(
        "#!/bin/sh\necho once >> \"$HOME/attempts\"\nset -- {}\nshift $(($(wc -l < \"$HOME/attempts\") - 1))\nexit \"$1\"\n",
        codes.join(" ")
    )
}

/// Returns the number of times that the stand-in was run.
fn attempts(home: &tempfile::TempDir) -> usize {
    std::fs::read_to_string(home.path().join("attempts")).unwrap_or_default().lines().count()
}

/// Exit codes of the first two runs, with the gate's expected exit code and number of runs: only some codes are worth a retry.
const RETRIES: [(&[i32], i32, usize); 9] = [
    (&[0], 0, 1),
    (&[1, 0], 1, 1),
    (&[2, 0], 2, 1),
    (&[69, 0], 0, 2),
    (&[69, 1], 1, 2),
    (&[69, 69, 0], 69, 2),
    (&[77, 0], 77, 1),
    (&[78, 0], 78, 1),
    (&[124, 0], 0, 2),
];

/// Parses a duration as written in YAML and options: `15m`, `1h 30m`, `10 minutes` or a number of seconds.
fn duration(said: &str) -> Duration {
    let seconds = said.parse().map(Duration::from_secs);
    seconds.unwrap_or_else(|_| said.parse::<jiff::SignedDuration>().unwrap().unsigned_abs())
}

#[test]
fn nothing_weakens_the_verdict_by_itself() {
    let weakening = ["warn-only", "skip", "max-unready-workers", "no-talos", "no-kubernetes"];
    let mut folders = vec![path("")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_none_or(|it| it != "md") {
                let text = std::fs::read_to_string(&path).unwrap();
                for option in weakening {
                    let variable = format!("CLUSTER_HEALTH_{}", option.to_uppercase().replace('-', "_"));
                    let used = text.lines().filter(|line| !line.trim_start().starts_with('#'));
                    let mut used =
                        used.filter(|line| line.contains(&format!("--{option}")) || line.contains(&variable));
                    assert_eq!(used.next(), None, "{}", path.display());
                }
            }
        }
    }
}
