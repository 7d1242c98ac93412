//! `simulator`: runs a Talos cluster on loopback until it is interrupted.

mod files;
mod run;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::Parser;
use simulator::scenario::Scenario;
use simulator::timeline::Span;
use simulator::world::{Shape, TalosVersion, Versions, World, plain_version};
use simulator::{Network, Simulator};

use crate::files::Files;

/// Simulates a Talos cluster on loopback that talosctl, kubectl, etcdctl and cluster-health cannot distinguish from a real one.
///
/// Without a command, the cluster runs until it is interrupted; its credentials are then removed. With a command, it runs the command
/// against the cluster and exits with the command's exit code.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// Scenario file that describes the cluster and its changes; a healthy cluster if not given
    scenario: Option<PathBuf>,
    /// Number of control planes; overrides the scenario
    #[arg(long, value_name = "N")]
    control_planes: Option<usize>,
    /// Number of workers; overrides the scenario
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Talos version; overrides the scenario
    #[arg(long, value_name = "VERSION")]
    talos: Option<TalosVersion>,
    /// Kubernetes version; overrides the scenario
    #[arg(long, value_name = "VERSION", value_parser = plain_version)]
    kubernetes: Option<String>,
    /// Delay of every round trip to the cluster
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    delay: Span,
    /// Directory for the credentials; a temporary directory if not given
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Command to run against the cluster
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn main() -> ExitCode {
    match simulate(&Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "simulator: {error:#}");
            ExitCode::from(70)
        }
    }
}

fn simulate(cli: &Cli) -> anyhow::Result<ExitCode> {
    run::allow_many_sockets();
    let scenario = match &cli.scenario {
        Some(path) => Scenario::read(path)?,
        None => Scenario { title: "a healthy cluster".to_owned(), ..Scenario::default() },
    };
    let counted = cli.control_planes.or(cli.workers).is_some();
    ensure!(scenario.shape.machines.is_empty() || !counted, "the scenario has `machines`, which are all of them");
    let title = scenario.title.clone();
    let scenario = Scenario { shape: cli.shape(scenario.shape), ..scenario };
    let network = Network::claim()?;
    let begun = scenario.begin(&network);
    let (mut world, later) = match &cli.scenario {
        Some(path) => begun.with_context(|| path.display().to_string())?,
        None => begun?,
    };
    let description = describe(&title, &world);
    world.delay = cli.delay.0;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Signals are handled before anything is written, so that they always remove the files.
    let mut signals = runtime.block_on(async { run::Signals::listen() })?;
    let simulator = Simulator::start(network, world)?;
    let files = Files::write(&simulator, cli.dir.as_deref())?;
    let control = simulator.control()?;
    simulator.play(later)?;
    let environment = files.environment(&simulator, control);
    if cli.command.is_empty() {
        announce(&description, &environment)?;
        runtime.block_on(signals.next());
        return Ok(ExitCode::SUCCESS);
    }
    runtime.block_on(run::command(&cli.command, &environment, &mut signals))
}

impl Cli {
    fn shape(&self, mut shape: Shape) -> Shape {
        shape.control_planes = self.control_planes.unwrap_or(shape.control_planes);
        shape.workers = self.workers.unwrap_or(shape.workers);
        if let Some(talos) = self.talos {
            shape.versions.set_talos(talos);
        }
        if let Some(version) = &self.kubernetes {
            version.clone_into(&mut shape.versions.kubernetes);
        }
        shape
    }
}

/// Describes the cluster in shell comments.
fn describe(title: &str, world: &World) -> String {
    let control_planes = world.control_planes().count();
    let number = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let workers = number(world.machines.len() - control_planes, "worker");
    let control_planes = number(control_planes, "control plane");
    let Versions { talos, kubernetes, etcd } = &world.versions;
    format!(
        "# {title}\n# {control_planes}, {workers}; Talos {talos}, Kubernetes {kubernetes}, etcd {etcd}; Ctrl-C ends it\n"
    )
}

/// Prints the description, and the cluster's environment as shell commands.
fn announce(description: &str, environment: &[(&str, String)]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    write!(out, "{description}")?;
    for (name, value) in environment {
        writeln!(out, "export {name}='{}'", value.replace('\'', r"'\''"))?;
    }
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
        let cli =
            Cli::parse_from(["simulator", "a.toml", "--delay", "20ms", "--workers=4", "--", "kubectl", "get", "-A"]);
        assert_eq!((cli.delay.0.as_millis(), cli.workers), (20, Some(4)));
        assert_eq!(cli.command, ["kubectl", "get", "-A"]);
        assert!(Cli::try_parse_from(["simulator", "--delay", "20"]).is_err());
        assert!(Cli::try_parse_from(["simulator", "--kubernetes", "1.35"]).is_err());
        let network = Network::claim().unwrap();
        let text = describe("healthy", &World::healthy(&network, &Shape::default()));
        assert!(text.contains("\n# 3 control planes, 1 worker; Talos"), "{text}");
    }
}
