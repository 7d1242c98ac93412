//! `jenkins/Jenkinsfile`: the shell block of its last stage, with the variables of the stage, run as by an agent. `tools/lint-integrations`
//! covers Groovy itself.

use regex::Regex;
use simulator::world::AlarmKind;

use super::{RETRIES, attempts, duration, ending_with, script, text, with_program, without_cluster};
use crate::cluster::cluster;
use crate::harness::Program;

const FILE: &str = "jenkins/Jenkinsfile";

/// Returns the variables of the stage with their values, and the names of those that are files of credentials.
fn variables() -> (Vec<(String, String)>, Vec<String>) {
    let text = text(FILE);
    let block = text.split("environment {\n").nth(1).unwrap().split('}').next().unwrap();
    let line = Regex::new(r"^ +(\w+) = (credentials\()?'([^']+)'\)?$").unwrap();
    let (mut variables, mut files) = (Vec::new(), Vec::new());
    for found in block.lines().filter(|it| !it.trim().is_empty()) {
        let found = line.captures(found).unwrap_or_else(|| panic!("{found}"));
        if found.get(2).is_some() {
            files.push(found[1].to_owned());
        } else {
            variables.push((found[1].to_owned(), found[3].to_owned()));
        }
    }
    (variables, files)
}

/// Prepares the block as an agent executes it: with `sh -xe`.
fn agent(script: Program) -> Program {
    let text = text(FILE);
    let block = text.split("sh '''\n").nth(1).unwrap().split("'''").next().unwrap();
    let script = script.args(["-xec", block]);
    variables().0.into_iter().fold(script, |script, (name, value)| script.env(&name, value))
}

#[test]
fn the_stage_has_the_exit_code_of_the_gate_and_its_reports_whatever_that_is() {
    assert_eq!(variables().1, ["TALOSCONFIG", "KUBECONFIG"]);
    let cluster = cluster();
    for (alarm, code) in [(None, 0), (Some(AlarmKind::NoSpace), 1)] {
        if let Some(alarm) = alarm {
            cluster.change(|world| world.etcd_alarm("cp-2", alarm));
        }
        let script = agent(script("/bin/sh", &cluster)).env("CLUSTER_HEALTH_WAIT_TIMEOUT", "10s");
        let (outcome, home) = script.file("cluster-health.xml", "old").run_and_keep();
        outcome.is(code, &[]);
        let junit = std::fs::read_to_string(home.path().join("cluster-health.xml")).unwrap();
        assert!(junit.starts_with("<?xml") && junit.contains("<failure") == (code == 1), "{junit}");
        assert!(home.path().join("cluster-health.json").exists());
    }
}

#[test]
fn only_what_could_not_be_determined_is_run_again() {
    for (codes, code, times) in RETRIES {
        let script = with_program(without_cluster("/bin/sh"), "cluster-health", &ending_with(codes));
        let (outcome, home) = agent(script).run_and_keep();
        assert_eq!((outcome.code, attempts(&home)), (code, times), "{codes:?}");
    }
}

#[test]
fn the_program_ends_before_the_stage_does() {
    let (variables, _) = variables();
    let wait = variables.iter().find(|(name, _)| name == "CLUSTER_HEALTH_WAIT_TIMEOUT").unwrap();
    let limit = Regex::new(r"timeout\(time: (\d+), unit: 'MINUTES'\)").unwrap();
    let minutes = limit.captures(&text(FILE)).unwrap()[1].to_owned();
    assert!(duration(&wait.1) * 2 < duration(&format!("{minutes}m")));
}
