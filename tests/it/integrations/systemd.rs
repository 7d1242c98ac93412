//! `systemd/`: the program accepts the unit's command line, and writes to the directory that node-exporter reads.

use super::{duration, script, text};
use crate::cluster::cluster;

/// Returns the value of a setting that occurs once.
fn setting(unit: &str, name: &str) -> String {
    let text = text(unit);
    let mut values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let value = values.next().unwrap_or_else(|| panic!("{unit} has no {name}"));
    assert!(values.next().is_none(), "{unit}: {name}");
    value.to_owned()
}

const SERVICE: &str = "systemd/cluster-health.service";

fn options() -> Vec<String> {
    setting(SERVICE, "ExecStart").split(' ').skip(1).map(str::to_owned).collect()
}

fn report() -> String {
    let options = options();
    options.iter().find_map(|option| option.strip_prefix("prometheus=")).unwrap().to_owned()
}

#[test]
fn the_program_ends_before_systemd_ends_it() {
    let options = options();
    let wait = options.iter().position(|option| option == "--wait-timeout").unwrap();
    assert!(duration(&options[wait + 1]) < duration(&setting(SERVICE, "TimeoutStartSec")));
}

#[test]
fn node_exporter_sees_what_the_service_writes() {
    let folder = format!("/var/lib/{}", setting(SERVICE, "StateDirectory"));
    let report = report();
    assert_eq!(report, format!("{folder}/cluster-health.prom"));
    assert!(
        text("systemd/tmpfiles.d/cluster-health.conf")
            .lines()
            .any(|line| line.starts_with("L ") && line.ends_with(&report))
    );
    let user = setting(SERVICE, "User");
    assert!(text("systemd/sysusers.d/cluster-health.conf").contains(&format!("u {user} ")));
}

#[test]
fn it_writes_the_metrics_that_the_alerts_ask_for() {
    let cluster = cluster();
    let options = options().into_iter().map(|option| option.replace("/var/lib/cluster-health/", ""));
    let (outcome, home) = script(env!("CARGO_BIN_EXE_cluster-health"), &cluster).args(options).run_and_keep();
    outcome.is(0, &[]);
    let metrics = std::fs::read_to_string(home.path().join("cluster-health.prom")).unwrap();
    assert!(metrics.contains("\ncluster_health_healthy{cluster=\"simulated\"} 1\n"), "{metrics}");
    let alerts = text("systemd/alerts.yaml");
    let words = alerts.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    for metric in words.filter(|word| word.starts_with("cluster_health_")) {
        assert!(metrics.contains(&format!("\n{metric}{{")), "{metric} is not in {metrics}");
    }
}
