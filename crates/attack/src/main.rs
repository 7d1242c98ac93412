//! `make attack`: runs the built program against malicious servers and files. Prints the cost of each run, and fails if one exceeds a
//! limit: memory, time beyond the deadline, time beyond SIGTERM.

#![expect(clippy::print_stdout, reason = "a program for the terminal of whoever develops this one")]
#![allow(clippy::cast_possible_truncation, reason = "lengths of what is made here")]

mod inputs;
mod server;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use hyper::HeaderMap;
use rcgen::DnType;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use crate::inputs::{Attack, Kind, nodes, part, resource};
use crate::server::{Answer, Authority, framed, stream};

const DEADLINE: Duration = Duration::from_secs(3);
const SIGNAL: Duration = Duration::from_secs(2);
/// Longest time that a run may take beyond its deadline.
const AFTER_DEADLINE: Duration = Duration::from_secs(1);
const AFTER_SIGNAL: Duration = Duration::from_secs(2);
/// Time after which the run is killed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the built program against malicious servers and files.
#[derive(Parser)]
struct Cli {
    /// The program that is attacked
    #[arg(long, value_name = "PATH")]
    program: PathBuf,
    /// Only attacks of this name
    #[arg(long, default_value = "")]
    only: String,
}

struct Outcome {
    code: Option<i32>,
    /// Peak memory, in MiB.
    memory: u64,
    late: Duration,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let mut is_fine = true;
    println!("{:<42} {:>5} {:>9} {:>9} {:>9} {:>9}", "input", "exit", "peak", "late", "signaled", "late");
    for attack in inputs::all().into_iter().filter(|attack| attack.name.contains(&cli.only)) {
        let home = tempfile::tempdir()?;
        let has_leaked = prepare(&attack, home.path()).await?;
        let by_deadline = run(&cli.program, home.path(), "3s", None).await?;
        let by_signal = run(&cli.program, home.path(), "60s", Some(SIGNAL)).await?;
        let memory = by_deadline.memory.max(by_signal.memory);
        let within = memory <= attack.memory && by_deadline.late <= AFTER_DEADLINE && by_signal.late <= AFTER_SIGNAL;
        let healthy = by_deadline.code == Some(0) || by_signal.code == Some(0);
        let leaks = has_leaked.load(Ordering::Relaxed);
        is_fine &= within && !healthy && !leaks;
        let code = |outcome: &Outcome| outcome.code.map_or_else(|| "killed".to_owned(), |code| code.to_string());
        println!(
            "{:<42} {:>5} {:>5} MiB {:>7} ms {:>9} {:>6} ms{}",
            attack.name,
            code(&by_deadline),
            memory,
            by_deadline.late.as_millis(),
            code(&by_signal),
            by_signal.late.as_millis(),
            if leaks {
                "  has the token"
            } else if !within {
                "  too much"
            } else if healthy {
                "  healthy?"
            } else {
                ""
            }
        );
    }
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Starts the attacking servers, and writes the files that lead to them. The returned flag is set once credentials have been sent to the
/// attacker.
async fn prepare(attack: &Attack, home: &Path) -> anyhow::Result<Arc<AtomicBool>> {
    let has_leaked = Arc::<AtomicBool>::default();
    let authority = Authority::new()?;
    let (talosconfig, kubeconfig) = (home.join("talosconfig"), home.join("kubeconfig"));
    // Addresses without a server.
    let (mut talos, mut kubernetes) = (authority.talosconfig(1)?, authority.kubeconfig(1));
    match attack.kind {
        Kind::Kubernetes(path, body) => {
            let body = Answer::Json(body().into());
            let is_it = move |asked: &str| asked.split('?').next().is_some_and(|asked| asked.ends_with(path));
            let port = authority.serve(move |asked| if is_it(asked) { body.clone() } else { api(asked) }).await?;
            kubernetes = authority.kubeconfig(port);
        }
        Kind::Nodes(many, system) => {
            let pages: Vec<_> = (0..many).step_by(500).map(|from| nodes(many, from, system)).collect();
            let answer = move |asked: &str| match asked.split_once("/api/v1/nodes") {
                Some((_, query)) => {
                    let from = query.split("continue=").nth(1).and_then(|it| it.split('&').next()?.parse().ok());
                    pages[from.unwrap_or(0_usize) / 500].clone()
                }
                None => api(asked),
            };
            kubernetes = authority.kubeconfig(authority.serve(answer).await?);
            talos = authority.talosconfig(authority.serve(machine).await?)?;
        }
        Kind::Talos(method, message) => {
            let message = framed(&message());
            let answer = move |asked: &str| match asked {
                it if it.contains(method) => message.clone(),
                other => machine(other),
            };
            talos = authority.talosconfig(authority.serve(answer).await?)?;
        }
        Kind::Stranger(message) => {
            let message = framed(&message());
            let port = Authority::new()?.serve(move |_| message.clone()).await?;
            talos = authority.talosconfig(port)?;
        }
        Kind::Worker(organization, name) => {
            let subject = [(DnType::OrganizationName, organization), (DnType::CommonName, name)];
            let leaked = Arc::clone(&has_leaked);
            let worker = move |asked: &str, headers: &HeaderMap| {
                leaked.fetch_or(headers.contains_key("authorization"), Ordering::Relaxed);
                api(asked)
            };
            let port = authority.serve_as("127.0.0.2", &subject, worker).await?;
            let discovered = move |asked: &str| match asked.rsplit('/').next() {
                Some("List") if asked.contains("cosi") => {
                    stream(&[member("cp-1", 1, 6443), member("worker-1", 2, port)])
                }
                _ => machine(asked),
            };
            talos = authority.talosconfig(authority.serve(discovered).await?)?;
            kubernetes = authority.kubeconfig(authority.serve(api).await?);
        }
        Kind::Talosconfig(text) => talos = String::from_utf8(text())?,
        Kind::Kubeconfig(text) => kubernetes = String::from_utf8(text())?,
    }
    std::fs::write(talosconfig, talos)?;
    std::fs::write(kubeconfig, kubernetes)?;
    Ok(has_leaked)
}

/// An API server that is ready, but refuses every list.
fn api(asked: &str) -> Answer {
    if asked.contains("/readyz") { Answer::Text("[+]ping ok\nreadyz check passed\n") } else { Answer::Refused }
}

/// The minimal answers of the only machine.
fn machine(asked: &str) -> Answer {
    let tag = part(1, &part(2, &part(1, b"v1.13.0")));
    match asked.rsplit('/').next() {
        Some("Version") => framed(&tag),
        Some("List") if asked.contains("cosi") => framed(&member("cp-1", 1, 6443)),
        _ => Answer::NotFound,
    }
}

/// Encodes a control plane at 127.0.0.`address`, as discovery reports it.
fn member(name: &str, address: u8, port: u16) -> Vec<u8> {
    let spec = format!(
        "nodeId: {name}\naddresses: [127.0.0.{address}]\nhostname: {name}\nmachineType: controlplane\ncontrolPlane: {{port: {port}}}\n"
    );
    resource("cluster", "Members.cluster.talos.dev", name, &spec)
}

async fn run(program: &Path, home: &Path, wait: &str, signal: Option<Duration>) -> anyhow::Result<Outcome> {
    let file = |name: &str| home.join(name).into_os_string();
    let mut child = Command::new(program)
        .env_clear()
        .env("HOME", home)
        .current_dir(home)
        .args(["--wait-timeout", wait, "--report", "json=report.json", "--report", "html=report.html"])
        .args(["--talosconfig".into(), file("talosconfig"), "--kubeconfig".into(), file("kubeconfig")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start the program")?;
    let begun = Instant::now();
    let (mut memory, mut is_signaled) = (0, false);
    loop {
        // Read before `try_wait`, because the figure is gone once the process has ended.
        memory = memory.max(peak(&child).unwrap_or_default());
        if let Some(status) = child.try_wait()? {
            let expected = signal.unwrap_or(DEADLINE);
            let late = begun.elapsed().saturating_sub(expected);
            return Ok(Outcome { code: status.code(), memory, late });
        }
        if signal.is_some_and(|after| begun.elapsed() >= after) && !is_signaled {
            is_signaled = true;
            kill_process(Pid::from_child(&child), Signal::TERM)?;
        }
        if begun.elapsed() > PATIENCE {
            child.kill()?;
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Returns the process's peak memory according to the kernel, in MiB.
fn peak(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? >> 10)
}
