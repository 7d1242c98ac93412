//! Exec plugins of kubeconfigs: foreign programs, which may hang, print without end, and leave child processes behind.

use std::collections::{BTreeSet, VecDeque};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::future::pending;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::sleep;
use std::time::Duration;

use futures::FutureExt as _;
use kube::config::ExecConfig;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::{Instant, timeout, timeout_at};

use super::gaps::short;
use crate::config::plugin::PluginCredentials;
use crate::observe::dial::cause;
use crate::snapshot::{Gap, GapKind, Observed};
use crate::text::sanitize::without_secrets;

/// Size limit for a plugin's output.
const MOST: u64 = 1 << 20;
/// Bytes of its stderr that are kept, and characters that are shown.
const COMPLAINT: usize = 2048;
const SHOWN: usize = 200;
/// Time to wait for the rest of its stderr after it has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Number of attempts to take the lock, a millisecond apart, while a plugin is being started. If the kernel cannot start the program, the
/// process must still be able to exit.
const TRIES: u32 = 500;

/// Process groups of running plugins. The lock is held while a plugin is started, until its group has been added.
static RUNNING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<i32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills all plugins and prevents new ones from starting, for a process that is about to exit.
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
        // The group may already be gone.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// A plugin and all processes that it has started. None of them outlives this value.
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

/// Runs the plugin once, until `until` at most; `limit` is that duration for the error text.
pub(super) async fn run(exec: &ExecConfig, until: Instant, limit: Duration) -> Observed<PluginCredentials> {
    let name = exec.command.as_deref().unwrap_or_default();
    let failed = |text: &str| Gap::new(GapKind::PluginFailed, short(&format!("the exec plugin `{name}` {text}")));
    let start = |error: std::io::Error| failed(&format!("cannot be started: {}", plain(&error)));
    let program = located(name, &env::var_os("PATH").unwrap_or_default()).map_err(failed)?;
    let (mut child, group) = Group::start(command(&program, exec)).map_err(start)?;
    let mut complaint = Complaint::default();
    let stderr = child.stderr.take();
    let ended = async {
        let mut answer = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            let read = stdout.take(MOST + 1).read_to_end(&mut answer).await;
            read.map_err(|error| format!("cannot be read: {}", plain(&error)))?;
        }
        if answer.len() as u64 > MOST {
            return Err("printed more than 1 MiB".to_owned());
        }
        let status = child.wait().await.map_err(|error| format!("cannot be waited for: {}", plain(&error)))?;
        if status.success() { Ok(answer) } else { Err(format!("failed: {status}")) }
    };
    let heard = complaint.hear(stderr).shared();
    let ended = tokio::select! {
        ended = timeout_at(until, ended) => ended.unwrap_or_else(|_| Err(format!("did not finish within {limit:?}"))),
        never = async { heard.clone().await; pending().await } => never,
    };
    // Also kills processes that could still write to stderr.
    drop(group);
    let answer = match ended {
        Ok(answer) => answer,
        Err(problem) => {
            let _ = timeout(LAST_WORDS, heard).await;
            return Err(failed(&format!("{problem}{}", complaint.words())));
        }
    };
    // The output may contain a token, so it is not repeated.
    let version = exec.api_version.as_deref().unwrap_or_default();
    PluginCredentials::parse(answer, version).map_err(|error| {
        Gap::new(
            GapKind::PluginFailed,
            short(&error.message.replace("the exec plugin", &format!("the exec plugin `{name}`"))),
        )
    })
}

fn plain(error: &std::io::Error) -> String {
    cause::clean(cause::without_number(&error.to_string()))
}

/// The end of a plugin's stderr, which is meant for users.
#[derive(Default)]
struct Complaint(VecDeque<u8>);

impl Complaint {
    async fn hear(&mut self, stderr: Option<ChildStderr>) {
        let Some(mut stderr) = stderr else { return };
        let mut part = [0; 1024];
        while let Ok(read @ 1..) = stderr.read(&mut part).await {
            self.0.extend(&part[..read]);
            self.0.drain(..self.0.len().saturating_sub(COMPLAINT));
        }
    }

    /// Returns the text in one bounded line, without possible secrets. The end is the most informative part.
    fn words(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().copied().collect();
        let text = without_secrets(&String::from_utf8_lossy(&bytes));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let from = words.char_indices().rev().nth(SHOWN - 1).map_or(0, |(at, _)| at);
        match words.get(from..).unwrap_or_default() {
            "" => ", and wrote nothing to stderr".to_owned(),
            all if from == 0 => format!(": {all}"),
            end => format!(": …{end}"),
        }
    }
}

/// Finds a program as kubectl does: in this process's PATH, not in the one of the plugin's own variables, and never in a folder that
/// depends on the working directory. Anyone who can write there could replace the plugin.
fn located(name: &str, path: &OsStr) -> Result<PathBuf, &'static str> {
    if name.contains('/') {
        return Ok(name.into());
    }
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    // An empty element stands for the current folder.
    let mut places = env::split_paths(path).map(|folder| folder.join(name));
    match places.find(is_program).filter(|_| !name.is_empty()) {
        Some(found) if found.is_absolute() => Ok(found),
        Some(_) => Err("was found through PATH in the current folder: name it with its path"),
        None => Err("is not in PATH"),
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
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    command
}
