//! The rows of the matrix behind Omni: problems do not look healthy there, and healthy clusters do.
//!
//! Only the connection differs: one endpoint that is not a machine, and a kubeconfig that vouches for none. `OMNI=9999` runs all rows.

use std::sync::Arc;

use libtest_mimic::Trial;

use crate::row::{Credentials, Row};
use crate::run::judged;

/// Number of rows in the sample.
const USUAL: usize = 100;

/// Rows with a different result behind Omni, and the reason.
const OTHERWISE: [(&str, &str); 9] = [
    ("acc-13-clock-behind", "the clock of Omni is its own, and it verifies the certificates of machines"),
    ("acc-8-role-too-low", "Omni decides the role"),
    ("acc-9-proxy-refuses-token", "the balancer is not on the way"),
    ("k8s-2-balancer-down", "the balancer is not on the way"),
    ("k8s-2-balancer-silent", "the balancer is not on the way"),
    ("release-1.5-operator", "Omni decides the role, and a Reader may ask less of this version"),
    ("shape-kubelet-flags", "Omni decides the role, and a Reader does not see these flags"),
    ("shape-translated-addresses", "the talosconfig names no machines, and Omni knows another address"),
    ("upg-24-only-server-that-was-seen", "no API server is asked directly: their leases count"),
];

/// Options that select a connection other than through Omni.
const WAYS: [&str; 9] = [
    "--endpoints",
    "-e",
    "--k8s-endpoint",
    "--no-talos",
    "--no-kubernetes",
    "--talosconfig",
    "--kubeconfig",
    "--context",
    "--cluster",
];

pub(crate) fn trials(rows: &[Arc<Row>]) -> Vec<Trial> {
    let sample = std::env::var("OMNI").ok().and_then(|rows| rows.parse().ok()).unwrap_or(USUAL);
    let rows: Vec<_> = rows.iter().filter(|row| row.may_be_behind_omni()).collect();
    let is_in_it = |at: &usize| (at + 1) * sample / rows.len() > at * sample / rows.len();
    (0..rows.len()).filter(is_in_it).map(|at| trial(Arc::clone(rows[at]))).collect()
}

fn trial(row: Arc<Row>) -> Trial {
    Trial::test(format!("omni: {}", row.name), move || {
        let (_, seen) = judged(&row.behind_omni(), |_| ()).map_err(|error| format!("{error:#}"))?;
        let is_healthy = seen.outcome.code == 0;
        if is_healthy == (row.expect.exit == 0) { Ok(()) } else { Err(seen.to_string().into()) }
    })
}

impl Row {
    fn may_be_behind_omni(&self) -> bool {
        let names_a_way = |argument: &String| WAYS.iter().any(|way| argument.split('=').next() == Some(*way));
        let is_about_credentials = Credentials { role: None, ..self.credentials.clone() } != Credentials::default();
        let is_left_out = self.cannot.is_some() || self.known_wrong.is_some() || self.ipv6 || self.scenario.omni;
        let is_otherwise = OTHERWISE.iter().any(|(name, _)| *name == self.name);
        !(is_left_out || is_otherwise || is_about_credentials || self.arguments.iter().any(names_a_way))
    }

    fn behind_omni(&self) -> Self {
        let mut row = self.clone();
        row.scenario.omni = true;
        row.credentials = Credentials::default();
        row
    }
}
