//! Exec plugins of kubeconfigs: programs of others, which may hang, print without end, and leave children behind.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::sleep;
use std::time::Duration;

use kube::config::ExecConfig;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

use super::gaps::short;
use crate::config::plugin::PluginCredentials;
use crate::snapshot::{Gap, GapKind, Observed};

/// Of what a plugin prints.
const MOST: u64 = 1 << 20;

/// How often, a millisecond apart, the lock of one that is being started is tried. A kernel that starts no program keeps nobody from
/// ending.
const TRIES: u32 = 500;

/// Process groups of plugins that run. Whoever starts one holds it until the group is in it.
static RUNNING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<i32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends all plugins, and lets none start any more: for a process that ends at once.
pub(crate) fn abandon() {
    for _ in 0..TRIES {
        let running = match RUNNING.try_lock() {
            Ok(running) => running,
            Err(TryLockError::Poisoned(running)) => running.into_inner(),
            Err(TryLockError::WouldBlock) => {
                sleep(Duration::from_millis(1));
                continue;
            }
        };
        running.iter().for_each(|group| kill(*group));
        std::mem::forget(running);
        return;
    }
}

fn kill(group: i32) {
    if let Some(group) = Pid::from_raw(group) {
        // It may be gone already.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// A plugin with all that it has started. Nothing of it outlives this value.
struct Group(i32);

impl Group {
    fn start(mut command: Command) -> std::io::Result<(Child, Option<Self>)> {
        let mut running = running();
        let child = command.spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok());
        running.extend(group);
        Ok((child, group.map(Self)))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        kill(self.0);
        running().remove(&self.0);
    }
}

/// Runs it once, for as long as the caller waits.
pub(super) async fn run(exec: &ExecConfig) -> Observed<PluginCredentials> {
    let failed = |text: String| Gap::new(GapKind::Unauthenticated, short(&text));
    let start = |error: std::io::Error| failed(format!("the exec plugin cannot be started: {error}"));
    let name = exec.command.as_deref().unwrap_or_default();
    let program =
        located(name, &env::var_os("PATH").unwrap_or_default()).map_err(|problem| failed(problem.to_owned()))?;
    let (mut child, group) = Group::start(command(&program, exec)).map_err(start)?;
    let mut answer = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let read = stdout.take(MOST + 1).read_to_end(&mut answer).await;
        read.map_err(|error| failed(format!("the exec plugin cannot be read: {error}")))?;
    }
    if answer.len() as u64 > MOST {
        return Err(failed("the exec plugin printed more than 1 MiB".to_owned()));
    }
    let status = child.wait().await.map_err(start)?;
    drop(group);
    if !status.success() {
        return Err(failed(format!("the exec plugin failed: {status}")));
    }
    // What it has printed may hold a token, and is not repeated.
    let version = exec.api_version.as_deref().unwrap_or_default();
    PluginCredentials::parse(answer, version).map_err(|error| failed(error.message))
}

/// The program of this name, as kubectl finds it: in PATH as it is here, not as the plugin's own variables say, and never in a folder
/// that depends on where this process was started. Whoever can write there could replace the plugin.
fn located(name: &str, path: &OsStr) -> Result<PathBuf, &'static str> {
    if name.contains('/') {
        return Ok(name.into());
    }
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    // An empty element means the current folder.
    let mut places = env::split_paths(path).map(|folder| folder.join(name));
    match places.find(is_program).filter(|_| !name.is_empty()) {
        Some(found) if found.is_absolute() => Ok(found),
        Some(_) => Err("the exec plugin is in the current folder, where PATH leads: name it with its path"),
        None => Err("the exec plugin is not in PATH"),
    }
}

fn command(program: &Path, exec: &ExecConfig) -> Command {
    let about = json!({
        "apiVersion": exec.api_version,
        "kind": "ExecCredential",
        "spec": { "interactive": false, "cluster": exec.cluster },
    });
    let mut command = Command::new(program);
    command.args(exec.args.iter().flatten());
    let variable = |pair: &std::collections::HashMap<String, String>| {
        Some((pair.get("name")?.clone(), pair.get("value")?.clone()))
    };
    command.envs(exec.env.iter().flatten().filter_map(variable));
    command.env("KUBERNETES_EXEC_INFO", about.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.process_group(0).kill_on_drop(true);
    command
}
