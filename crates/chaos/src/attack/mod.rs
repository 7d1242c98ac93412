//! `chaos --attack`: malicious servers and files instead of clusters. Prints the cost of each run, and fails if one exceeds a limit
//! (memory, time beyond the deadline, time beyond SIGTERM), reports a healthy cluster, or gives the attacker a token.

#![allow(clippy::cast_possible_truncation, reason = "lengths of messages that are made here")]

mod inputs;
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use http::HeaderMap;
use rcgen::DnType;
use tokio::runtime::Runtime;

use crate::attack::inputs::{Attack, Kind, nodes, part, resource};
use crate::attack::server::{Answer, Authority, framed, stream};
use crate::run::{Ended, Program, finish, home};

const DEADLINE: Duration = Duration::from_secs(3);
const SIGNAL: Duration = Duration::from_secs(2);
/// Longest time that a run may take beyond its deadline.
const AFTER_DEADLINE: Duration = Duration::from_secs(1);
const AFTER_SIGNAL: Duration = Duration::from_secs(2);
/// Time after which a run is killed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Makes the attacks whose names contain this text. Returns whether the program withstood all of them.
pub(crate) fn run(program: &Program, only: &str) -> anyhow::Result<bool> {
    let attacks: Vec<_> = inputs::all().into_iter().filter(|attack| attack.name.contains(only)).collect();
    ensure!(!attacks.is_empty(), "no attack has `{only}` in its name");
    let mut is_fine = true;
    println!("{:<42} {:>5} {:>9} {:>9} {:>9} {:>9}", "input", "exit", "peak", "late", "signaled", "late");
    for attack in attacks {
        // The servers end with their runtime.
        let runtime = Runtime::new()?;
        let (talosconfig, kubeconfig, has_leaked) = runtime.block_on(prepare(&attack))?;
        let home = home()?;
        let files = [("--talosconfig", Some(talosconfig)), ("--kubeconfig", Some(kubeconfig))];
        let run = |wait, signal: Option<Duration>| {
            let mut command = program.command(home.path(), &files)?;
            command.args(["--wait-timeout", wait, "--report", "json=report.json", "--report", "html=report.html"]);
            let ended = finish(&mut command, PATIENCE, signal)?;
            let late = ended.took.saturating_sub(signal.unwrap_or(DEADLINE));
            anyhow::Ok((ended, late))
        };
        let ((deadline, late), (signal, slow)) = (run("3s", None)?, run("60s", Some(SIGNAL))?);
        let peak = deadline.peak.max(signal.peak);
        let any = |is: fn(&Ended) -> bool| is(&deadline) || is(&signal);
        let fault = if has_leaked.load(Ordering::Relaxed) {
            "  has the token"
        } else if peak > attack.memory || late > AFTER_DEADLINE || slow > AFTER_SIGNAL {
            "  too much"
        } else if any(|ended| ended.exit == 0) {
            "  healthy?"
        } else if any(|ended| ended.stderr.contains("panicked")) {
            "  panicked"
        } else {
            ""
        };
        is_fine &= fault.is_empty();
        let (name, late, slow) = (attack.name, late.as_millis(), slow.as_millis());
        let (exit, signaled) = (deadline.exit, signal.exit);
        println!("{name:<42} {exit:>5} {peak:>5} MiB {late:>6} ms {signaled:>9} {slow:>6} ms{fault}");
    }
    Ok(is_fine)
}

/// Starts the attacking servers. Returns the talosconfig and the kubeconfig that lead to them, and a flag that is set once credentials
/// have been sent to the attacker.
async fn prepare(attack: &Attack) -> anyhow::Result<(String, String, Arc<AtomicBool>)> {
    let has_leaked = Arc::<AtomicBool>::default();
    let authority = Authority::new()?;
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
            let answer = move |asked: &str| if asked.contains(method) { message.clone() } else { machine(asked) };
            talos = authority.talosconfig(authority.serve(answer).await?)?;
        }
        Kind::Stranger(message) => {
            let message = framed(&message());
            talos = authority.talosconfig(Authority::new()?.serve(move |_| message.clone()).await?)?;
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
    Ok((talos, kubernetes, has_leaked))
}

/// An API server that is ready, but refuses every list.
fn api(asked: &str) -> Answer {
    if asked.contains("/readyz") { Answer::Text("[+]ping ok\nreadyz check passed\n") } else { Answer::Refused }
}

/// The minimal answers of the only machine.
fn machine(asked: &str) -> Answer {
    match asked.rsplit('/').next() {
        Some("Version") => framed(&part(1, &part(2, &part(1, b"v1.13.0")))),
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
