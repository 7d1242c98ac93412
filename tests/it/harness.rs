//! A builder that runs the program in a clean environment and verifies the guarantees that hold for every run.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A prepared run: an empty home directory, none of our variables, and nothing inherited except PATH.
pub(crate) struct Program {
    command: Command,
    home: TempDir,
}

/// Longer than any run of these tests takes, unless it hangs.
const HUNG: Duration = Duration::from_secs(300);

/// The results of a run.
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

pub(crate) fn program() -> Program {
    tool(env!("CARGO_BIN_EXE_cluster-health"))
}

/// A check that needs only a valid talosconfig: a run with it is healthy even without a cluster.
pub(crate) const HEALTHY: [&str; 2] = ["--check", "talos.credentials"];

/// Prepares another program in the same clean environment.
pub(crate) fn tool(path: impl AsRef<OsStr>) -> Program {
    let home = tempfile::tempdir_in(folder()).unwrap();
    let mut command = Command::new(path);
    command.env_clear().env("HOME", home.path()).current_dir(home.path()).stdin(Stdio::null());
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    Program { command, home }
}

/// Returns the directory for test files. Reports are flushed to disk, which takes seconds on a busy one, so memory is preferred if programs
/// may be executed from it.
fn folder() -> PathBuf {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let may_run = |mount: &str| {
        let mut fields = mount.split(' ').skip(1);
        fields.next() == Some("/dev/shm") && fields.nth(1).is_some_and(|it| it.split(',').all(|it| it != "noexec"))
    };
    if mounts.lines().any(may_run) { PathBuf::from("/dev/shm") } else { std::env::temp_dir() }
}

impl Program {
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Writes a file below the home directory, including its parent directories.
    pub(crate) fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        // The mode in which talosctl and kubectl write their files.
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        self
    }

    /// Authenticates as a user of etcd.
    pub(crate) fn etcd_user(self, name: &str, password: &str) -> Self {
        let file = self.path("password");
        let program = self.file("password", password).env("CLUSTER_HEALTH_ETCD_USER", name);
        program.env("CLUSTER_HEALTH_ETCD_PASSWORD_FILE", file)
    }

    /// Writes the talosconfig to its default location.
    pub(crate) fn talosconfig(self, content: impl AsRef<[u8]>) -> Self {
        self.file(".talos/config", content)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn run(self) -> Outcome {
        self.run_and_keep().0
    }

    /// Runs the program. The second value keeps the home directory with the files that the run left.
    pub(crate) fn run_and_keep(self) -> (Outcome, TempDir) {
        let started = Instant::now();
        let output = assert_cmd::Command::from_std(self.command).timeout(HUNG).output().unwrap();
        let outcome = Outcome {
            code: code(output.status),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
            took: started.elapsed(),
        };
        outcome.keeps_its_promises();
        (outcome, self.home)
    }

    /// For tests that interact with the running process. The second value keeps the home directory.
    pub(crate) fn spawn(self) -> (Child, TempDir) {
        self.spawn_into(Stdio::piped())
    }

    /// Returns a script for sh that executes this run, in its environment plus TERM.
    pub(crate) fn into_script(self) -> (String, TempDir) {
        let quoted = |text: &OsStr| format!("'{}'", text.to_str().unwrap().replace('\'', r"'\''"));
        let mut words = vec!["exec env -i TERM=\"$TERM\"".to_owned()];
        let variables = self.command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        words.extend(variables.map(|(name, value)| format!("{}={}", name.to_str().unwrap(), quoted(value))));
        words.push(quoted(self.command.get_program()));
        words.extend(self.command.get_args().map(quoted));
        (format!("echo $$ > pid\n{}\n", words.join(" ")), self.home)
    }

    pub(crate) fn spawn_into(self, stdout: impl Into<Stdio>) -> (Child, TempDir) {
        self.spawn_between(stdout, Stdio::piped())
    }

    pub(crate) fn spawn_between(mut self, stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> (Child, TempDir) {
        let child = self.command.stdout(stdout).stderr(stderr).spawn().unwrap();
        (child, self.home)
    }
}

/// Returns the exit code as a shell sees it.
pub(crate) fn code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// Runs cases concurrently, since most of them wait for an answer that never comes, and reports all that fail.
#[track_caller]
pub(crate) fn side_by_side<T: Send>(cases: impl IntoIterator<Item = T>, threads: usize, run: impl Fn(T) + Sync) {
    let cases = Mutex::new(cases.into_iter().collect::<Vec<_>>());
    let wrong = Mutex::new(0);
    let work = || {
        loop {
            let Some(case) = cases.lock().unwrap().pop() else { return };
            if catch_unwind(AssertUnwindSafe(|| run(case))).is_err() {
                *wrong.lock().unwrap() += 1;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    assert_eq!(wrong.into_inner().unwrap(), 0, "cases went wrong; each is told above");
}

impl Outcome {
    fn keeps_its_promises(&self) {
        for text in [&self.stdout, &self.stderr] {
            // If a thread cannot allocate a stack for its signal handlers, Rust's own code panics before ours begins.
            let is_of_rust = text.contains("failed to allocate an alternative stack");
            assert!(is_of_rust || !text.contains("panicked"), "{self}");
            assert!(!text.contains('\u{1b}'), "escape sequences without a terminal: {self}");
            assert!(!text.contains("PRIVATE KEY"), "{self}");
        }
    }

    /// Asserts the exit code, and words that must appear on stderr or in the report.
    #[track_caller]
    pub(crate) fn is(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self}");
        for word in words {
            assert!(self.stderr.contains(word) || self.stdout.contains(word), "`{word}` is not in {self}");
        }
    }

    /// Parses stdout as exactly one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit {} after {:?}\nstdout:\n{}\nstderr:\n{}", self.code, self.took, self.stdout, self.stderr)
    }
}
