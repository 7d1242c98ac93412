//! The real `talosctl health` against the same clusters. Its results are measured, never written by hand.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use simulator::world::Role;

use crate::cluster::Cluster;
use crate::harness::code;
use crate::row::Row;
use crate::run::start;

/// Time that it may wait for a cluster to become healthy.
const WAITS: &str = "6s";
/// Limit for the process, which normally exits long before.
const HUNG: Duration = Duration::from_secs(60);
/// Maximum number of characters per line that are shown.
const SHOWN: usize = 120;

/// A real talosctl.
pub(crate) struct Talosctl {
    path: PathBuf,
    /// `v1.13.0`
    pub(crate) version: String,
}

/// The result of talosctl for a cluster.
pub(crate) struct Said {
    pub(crate) exit: i32,
    /// The last step that was reached, and the last line if that is a different one; shortened, with machine names instead of addresses.
    pub(crate) last: Vec<String>,
}

impl Talosctl {
    pub(crate) fn new(path: PathBuf) -> Self {
        let output = Command::new(&path).args(["version", "--client", "--short"]).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        let version = told.split_whitespace().last().unwrap_or_default().to_owned();
        Self { path, version }
    }

    /// Runs with the row's credentials, or as an administrator if the row has no role, because talosctl needs that.
    pub(crate) fn health(&self, row: &Row) -> Said {
        let cluster = start(row).unwrap();
        let role = row.credentials.role.as_deref().unwrap_or("os:admin");
        let cluster = cluster.with_credentials(&row.credentials, role).unwrap();
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("talosconfig");
        std::fs::write(&config, &cluster.talosconfig).unwrap();
        let mut command = Command::new(&self.path);
        command.env_clear().env("HOME", home.path()).current_dir(home.path()).stdin(Stdio::null());
        command.arg("--talosconfig").arg(&config).args(["-n", &asked(&cluster, row), "health", "--server=false"]);
        command.args(["--wait-timeout", WAITS]);
        let output = assert_cmd::Command::from_std(command).timeout(HUNG).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        let told: Vec<_> = told.lines().filter(|line| !line.trim().is_empty()).collect();
        let step = told.iter().rposition(|line| line.starts_with("waiting for "));
        let last = told.len().checked_sub(1);
        // A step with several errors continues on further lines.
        let shown = match (step, last) {
            (Some(step), Some(last)) if step < last => vec![told[step..last].join(" "), told[last].to_owned()],
            (_, Some(last)) => vec![told[last].to_owned()],
            (_, None) => Vec::new(),
        };
        Said { exit: code(output.status), last: shown.iter().map(|text| cluster.shown(text)).collect() }
    }
}

/// Returns the control plane to query: one that the row does not change, if possible.
fn asked(cluster: &Cluster, row: &Row) -> String {
    let touched = format!("{:?}", row.scenario.steps);
    cluster.change(|world| {
        let control_planes = world.machines.iter().filter(|(_, machine)| machine.role == Role::ControlPlane);
        let mut control_planes: Vec<_> = control_planes.collect();
        control_planes.sort_by_key(|(_, machine)| touched.contains(&format!("{:?}", machine.name)));
        control_planes[0].0.to_string()
    })
}

impl Cluster {
    /// Prepares foreign text for a table cell.
    fn shown(&self, text: &str) -> String {
        let named = self.change(|world| {
            world
                .machines
                .iter()
                .rev()
                .fold(text.to_owned(), |text, (at, machine)| text.replace(&at.to_string(), &machine.name))
        });
        let named = named.replace(&self.simulator().network().balancer().to_string(), "balancer");
        let plain: String = named.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
        let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "/").replace('`', "'");
        match plain.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", &plain[..end]),
            None => plain,
        }
    }
}
