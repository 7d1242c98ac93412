//! Rows whose clusters need a separate network namespace, because loopback has only one IPv6 address.
//!
//! This program starts itself there for one row, and reads the observations from that process.

use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, ensure};

use crate::row::Row;
use crate::run::{Ran, Seen, run_here};

/// Name of the row that a process in a namespace is to run.
const ROW: &str = "MATRIX_ROW_IN_A_NAMESPACE";

/// Gives loopback the addresses of [`simulator::Network::ipv6`], enough for the largest row, and then executes the program.
const SET_UP: &str = "ip link set lo up && for n in 2 3 4 5 6 7 8 9 ff01; do ip addr add fd00::$n/128 dev lo nodad || exit; done \
                      && exec \"$0\"";

/// Returns whether this process may create a namespace, as root may.
pub(crate) fn can_be_made() -> bool {
    let ended = Command::new("unshare").args(["--net", "ip", "link", "set", "lo", "up"]).stderr(Stdio::null()).status();
    ended.is_ok_and(|status| status.success())
}

/// Within a namespace, runs the row for which it was created.
pub(crate) fn of_a_row(rows: &[Arc<Row>]) -> Option<ExitCode> {
    let name = std::env::var(ROW).ok()?;
    let row = rows.iter().find(|row| row.name == name.trim_end_matches(WITHOUT_TROUBLE))?;
    let ran = if name == row.name { run_here(row) } else { run_here(&row.healthy()) };
    match ran.map(|seen| serde_json::to_writer(std::io::stdout(), &seen)) {
        Ok(Ok(())) => Some(ExitCode::SUCCESS),
        Ok(Err(error)) => Some(failed(&error.to_string())),
        Err(why) => Some(failed(&why)),
    }
}

fn failed(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::FAILURE
}

/// Suffix of the name of a row without its trouble.
pub(crate) const WITHOUT_TROUBLE: &str = " without its trouble";

/// Runs a row in a namespace.
pub(crate) fn run(row: &Row) -> Ran {
    try_run(row).map_err(|error| format!("{error:#}"))
}

fn try_run(row: &Row) -> anyhow::Result<Seen> {
    let me = std::env::current_exe()?;
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", SET_UP]).arg(me).env(ROW, &row.name);
    let output = command.output().context("cannot run unshare")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "in a network namespace: {}", said.trim());
    serde_json::from_slice(&output.stdout).context("what was seen in a network namespace")
}
