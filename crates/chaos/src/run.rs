//! One run of the built program against the cluster of a case.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use simulator::pki::Flaw;
use simulator::scenario::Scenario;
use simulator::{Network, Simulator};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::case::{Case, Machine};
use crate::plan::Plan;
use crate::tools::Tools;

/// A run that takes longer than this no longer responds.
const HUNG: Duration = Duration::from_secs(90);

/// The program under test.
#[derive(Default)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// Whether clusters only have IPv6 addresses.
    pub(crate) ipv6: bool,
    /// Tools that run the commands proposed in reports.
    pub(crate) tools: Option<Tools>,
}

/// The result of a run.
pub(crate) struct Said {
    /// The exit code as a shell sees it.
    pub(crate) exit: i32,
    pub(crate) report: Value,
    pub(crate) stderr: String,
    /// Seconds from the start of the cluster to the end of the run.
    pub(crate) after: f64,
    /// Name, address and machine.
    machines: Vec<(String, String, Machine)>,
    balancer: String,
}

impl Program {
    pub(crate) fn run(&self, case: &Case) -> anyhow::Result<Said> {
        let network = if self.ipv6 { Network::ipv6() } else { Network::claim() }?;
        let plan = Plan::of(case);
        let addresses: Vec<_> = (0..plan.names.len()).map(|index| network.machine(index).to_string()).collect();
        let text = plan
            .names
            .iter()
            .zip(&addresses)
            .fold(plan.scenario("chaos"), |text, (name, address)| filled(&text, name, address));
        let (world, later) = Scenario::parse(&text).and_then(|scenario| scenario.begin(&network)).context(text)?;
        let balancer = network.balancer().to_string();
        let simulator = Simulator::start(network, world)?;
        let role = plan.role.unwrap_or(case.release.role);
        let mut talosconfig = simulator.talosconfig(role, Flaw::None)?;
        if let Some(endpoints) = &plan.endpoints {
            let at = |name: &String| plan.names.iter().position(|it| it == name).map(|index| addresses[index].as_str());
            talosconfig = with_endpoints(&talosconfig, endpoints.iter().filter_map(at))?;
        }
        let kubeconfig = simulator.kubeconfig("reader", Flaw::None)?;

        let home = home()?;
        let files = [
            ("--talosconfig", (!case.has_choice("no-talos")).then_some(talosconfig)),
            ("--kubeconfig", (!case.has_choice("no-kubernetes")).then_some(kubeconfig)),
            ("--policy", plan.policy.as_ref().map(|policy| format!("apiVersion: cluster-health/v1\n{policy}\n"))),
        ];
        let mut command = self.command(home.path(), &files)?;
        let waits = case.choices.iter().any(|choice| choice.waits.is_some());
        command.args(["-o", "json", "--ci", "none", "--attempt-timeout", if waits { "4s" } else { "8s" }]);
        command.args(&plan.arguments);

        let started = Instant::now();
        simulator.play(later)?;
        let Ended { exit, stdout, stderr, took, .. } = finish(&mut command, HUNG, None)?;
        ensure!(took < HUNG, "a run has not ended after {HUNG:?}: {stderr}");
        let after = started.elapsed().as_secs_f64();
        let report = serde_json::from_str(&stdout).unwrap_or(Value::Null);
        let machines = plan.machines.iter().zip(plan.names).zip(addresses);
        let machines = machines.map(|((machine, name), address)| (name, address, *machine)).collect();
        let said = Said { exit, report, stderr, after, machines, balancer };
        if let Some(tools) = &self.tools {
            tools.try_all(&said, home.path())?;
        }
        Ok(said)
    }

    /// Prepares a run in this folder, with these options that name a file, and the content of each file.
    pub(crate) fn command(&self, home: &Path, files: &[(&str, Option<String>)]) -> anyhow::Result<Command> {
        let mut command = Command::new(&self.path);
        command.env_clear().env("HOME", home).current_dir(home);
        for (option, content) in files {
            if let Some(content) = content {
                let path = home.join(option.trim_start_matches('-'));
                std::fs::write(&path, content)?;
                command.arg(option).arg(path);
            }
        }
        Ok(command)
    }
}

/// Replaces the placeholder of a machine by its address, in brackets if it is an IPv6 address in a URL.
fn filled(text: &str, name: &str, address: &str) -> String {
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    text.replace(&format!("://{{{name}}}"), &format!("://{host}")).replace(&format!("{{{name}}}"), address)
}

fn with_endpoints<'a>(talosconfig: &str, endpoints: impl Iterator<Item = &'a str>) -> anyhow::Result<String> {
    let (before, rest) = talosconfig.split_once("        endpoints:\n").context("a talosconfig with endpoints")?;
    let (_, after) = rest.split_once("        nodes:\n").context("a talosconfig with nodes")?;
    let endpoints: Vec<_> = endpoints.map(|endpoint| format!("            - {endpoint}\n")).collect();
    Ok(format!("{before}        endpoints:\n{}        nodes:\n{after}", endpoints.concat()))
}

/// Creates the home directory of a run, in memory if the system has such a folder.
pub(crate) fn home() -> anyhow::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    Ok(if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }?)
}

/// A process that has ended.
pub(crate) struct Ended {
    /// The exit code as a shell sees it.
    pub(crate) exit: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
    /// Peak memory according to the kernel, in MiB.
    pub(crate) peak: u64,
}

/// Runs a command without input. The process gets a SIGTERM after the time `signal`, and is killed after the time `patience`.
pub(crate) fn finish(command: &mut Command, patience: Duration, mut signal: Option<Duration>) -> anyhow::Result<Ended> {
    use std::os::unix::process::ExitStatusExt as _;

    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("{}", command.get_program().display()))?;
    let begun = Instant::now();
    let (mut stdout, mut stderr) = (child.stdout.take().context("stdout")?, child.stderr.take().context("stderr")?);
    let read = |from: &mut dyn std::io::Read| {
        let mut text = Vec::new();
        let _ = from.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    };
    std::thread::scope(|scope| {
        let stderr = scope.spawn(move || read(&mut stderr));
        let stdout = scope.spawn(move || read(&mut stdout));
        let mut peak = 0;
        let status = loop {
            // Read before `try_wait`, because the figure is gone once the process has ended.
            peak = peak.max(memory(&child).unwrap_or_default());
            if let Some(status) = child.try_wait()? {
                break status;
            }
            let took = begun.elapsed();
            if signal.take_if(|after| took >= *after).is_some() {
                kill_process(Pid::from_child(&child), Signal::TERM)?;
            }
            if took > patience {
                child.kill()?;
            }
            std::thread::sleep(Duration::from_millis(3));
        };
        let took = begun.elapsed();
        let exit = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
        let joined = |thread: std::thread::ScopedJoinHandle<'_, String>| thread.join().unwrap_or_default();
        Ok(Ended { exit, stdout: joined(stdout), stderr: joined(stderr), took, peak })
    })
}

/// Returns the process's peak memory so far, in MiB.
fn memory(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? >> 10)
}

/// A problem; machines have the names that the case uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    pub(crate) check: String,
    pub(crate) reason: String,
    pub(crate) target: String,
}

/// A cause from the report.
pub(crate) struct Cause {
    /// The cause's id, and the reasons that it explains.
    pub(crate) words: Vec<String>,
    /// The cause's targets and headline.
    pub(crate) about: Vec<String>,
    pub(crate) is_warning: bool,
}

impl Said {
    /// Problems of all checks.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for check in list(&self.report["checks"]) {
            for problem in list(&check["problems"]) {
                problems.push(Problem {
                    check: text(&check["id"]),
                    reason: text(&problem["reason"]),
                    target: self.target(&problem["target"]),
                });
            }
        }
        problems
    }

    /// Reasons and diagnoses that can identify a fault, each with what it is about, in the names that the case uses.
    pub(crate) fn named(&self) -> Vec<(String, String)> {
        let problems = list(&self.report["checks"]).iter().flat_map(|check| list(&check["problems"]));
        let about = |problem: &Value| {
            format!("{} {}", self.target(&problem["target"]), self.translated(&text(&problem["observed"])))
        };
        let mut named: Vec<_> = problems.map(|problem| (text(&problem["reason"]), about(problem))).collect();
        for diagnosis in list(&self.report["diagnoses"]) {
            let about = list(&diagnosis["evidence"])
                .iter()
                .chain(list(&diagnosis["explains"]))
                .map(|it| self.target(&it["target"]));
            let headline = std::iter::once(self.translated(&text(&diagnosis["headline"])));
            named.extend(about.chain(headline).map(|about| (text(&diagnosis["id"]), about)));
        }
        named
    }

    /// Causes in the order in which people read them: diagnoses first, then problems that no diagnosis explains.
    pub(crate) fn causes(&self) -> Vec<Cause> {
        let (mut causes, mut told) = (Vec::new(), BTreeSet::new());
        let key = |it: &Value, check: &Value| {
            (text(check), text(&it["reason"]), text(&it["observed"]), it["target"].to_string())
        };
        for diagnosis in list(&self.report["diagnoses"]) {
            let explains = list(&diagnosis["explains"]);
            told.extend(explains.iter().map(|it| key(it, &it["check"])));
            let targets = list(&diagnosis["evidence"]).iter().chain(explains).map(|it| self.target(&it["target"]));
            causes.push(Cause {
                words: [text(&diagnosis["id"])]
                    .into_iter()
                    .chain(explains.iter().map(|it| text(&it["reason"])))
                    .collect(),
                about: targets.chain([self.translated(&text(&diagnosis["headline"]))]).collect(),
                is_warning: diagnosis["severity"] == "warn",
            });
        }
        for check in list(&self.report["checks"]) {
            let begins =
                |problem: &&Value| problem["explainedBy"].is_null() && !told.contains(&key(problem, &check["id"]));
            for problem in list(&check["problems"]).iter().filter(begins) {
                causes.push(Cause {
                    words: vec![text(&problem["reason"])],
                    about: vec![self.target(&problem["target"]), self.translated(&text(&problem["observed"]))],
                    is_warning: problem["severity"] == "warn",
                });
            }
        }
        causes
    }

    /// Commands of kind `try`, from problems and from diagnoses.
    pub(crate) fn tries(&self) -> Vec<String> {
        self.proposed("try")
    }

    /// Proposed commands of a kind: `try`, `remedy`.
    pub(crate) fn proposed(&self, kind: &str) -> Vec<String> {
        let problems = list(&self.report["checks"]).iter().flat_map(|check| list(&check["problems"]));
        let hints = problems.flat_map(|problem| list(&problem["hints"]));
        let next = list(&self.report["diagnoses"]).iter().flat_map(|diagnosis| list(&diagnosis["next"]));
        hints
            .chain(next)
            .filter(|hint| hint["kind"] == kind)
            .filter_map(|hint| hint["command"].as_str().map(str::to_owned))
            .collect()
    }

    fn target(&self, target: &Value) -> String {
        let parts = ["name", "node", "address"].map(|key| self.translated(&text(&target[key])));
        parts.join(" ").trim().to_owned()
    }

    /// Replaces names and addresses of machines by the names that the case uses.
    pub(crate) fn translated(&self, text: &str) -> String {
        let mut names: Vec<_> =
            self.machines.iter().flat_map(|(name, address, machine)| [(name, machine), (address, machine)]).collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        // Two steps prevent inserted text from being taken for a name.
        let marked = names
            .iter()
            .enumerate()
            .fold(text.to_owned(), |text, (at, (name, _))| text.replace(name.as_str(), &format!("\u{1}{at}\u{2}")));
        let marked = marked.replace(&self.balancer, "balancer");
        names
            .iter()
            .enumerate()
            .fold(marked, |text, (at, (_, machine))| text.replace(&format!("\u{1}{at}\u{2}"), &machine.to_string()))
    }

    /// Whether the word is a name or address of a machine, or the balancer.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.machines.iter().any(|(name, address, _)| name == word || address == word) || word == self.balancer
    }

    /// Summarizes the report in a few lines.
    pub(crate) fn shown(&self) -> String {
        let mut lines = vec![format!("exit {} after {:.1}s", self.exit, self.after)];
        for check in list(&self.report["checks"]) {
            for problem in list(&check["problems"]) {
                let explained =
                    problem["explainedBy"].as_str().map(|by| format!(" (explained by {by})")).unwrap_or_default();
                lines.push(format!(
                    "{} {} {} {}: {}{explained}",
                    text(&problem["severity"]),
                    text(&check["id"]),
                    text(&problem["reason"]),
                    self.translated(&text(&problem["target"]["name"])),
                    self.translated(&text(&problem["observed"])),
                ));
            }
        }
        for diagnosis in list(&self.report["diagnoses"]) {
            lines.push(format!(
                "diagnosis {}: {}",
                text(&diagnosis["id"]),
                self.translated(&text(&diagnosis["headline"]))
            ));
        }
        if self.report.is_null() {
            lines.push(self.stderr.clone());
        }
        lines.join("\n")
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
