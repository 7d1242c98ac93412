//! `gitlab/templates/cluster-health.yml`: its inputs are filled in as GitLab does it, and its script is run as a runner does it.

use serde_yaml::Value;

use super::{duration, script, text, with_program, without_cluster, yaml};
use crate::cluster::cluster;
use crate::harness::Program;

const COMPONENT: &str = "gitlab/templates/cluster-health.yml";

/// Returns the job that an include with these inputs creates, and its name.
fn job(inputs: &[(&str, &str)]) -> (String, Value) {
    let header = yaml(COMPONENT).swap_remove(0);
    let text = text(COMPONENT);
    let mut body = text.split_once("\n---\n").unwrap().1.to_owned();
    for (name, input) in header["spec"]["inputs"].as_mapping().unwrap() {
        let name = name.as_str().unwrap();
        let given = inputs.iter().find(|(input, _)| *input == name).map(|(_, value)| *value);
        let value = given.or_else(|| input.get("default")?.as_str()).unwrap_or_else(|| panic!("{name} is mandatory"));
        let place = format!("$[[ inputs.{name} ]]");
        assert!(body.contains(&place), "{name} is of no use");
        body = body.replace(&place, value);
    }
    assert!(!body.contains("$[["), "{body}");
    let jobs: Value = serde_yaml::from_str(&body).unwrap();
    let (name, job) = jobs.as_mapping().unwrap().iter().next().unwrap();
    (name.as_str().unwrap().to_owned(), job.clone())
}

const IMAGE: (&str, &str) = ("image", "registry.example/ci@sha256:0");

/// Prepares the job's script as a runner executes it: in a shell that exits at the first error, with the job's variables.
fn runner(script: Program, job: &Value) -> Program {
    let lines: Vec<_> = job["script"].as_sequence().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let mut script = script.args(["-ec", &lines.join("\n")]);
    for (name, value) in job["variables"].as_mapping().unwrap() {
        script = script.env(name.as_str().unwrap(), value.as_str().unwrap());
    }
    script
}

#[test]
fn the_job_has_the_exit_code_of_the_gate_and_its_reports_whatever_that_is() {
    for (healthy, code, wait) in [(true, 0, "1m"), (false, 1, "10s")] {
        let cluster = cluster();
        if !healthy {
            cluster.change(|world| world.etcd_alarm("cp-2", simulator::world::AlarmKind::NoSpace));
        }
        let (_, job) = job(&[IMAGE, ("wait-timeout", wait)]);
        let (outcome, home) = runner(script("/bin/sh", &cluster), &job).run_and_keep();
        outcome.is(code, &[]);
        let artifacts = &job["artifacts"];
        assert_eq!(artifacts["when"], "always");
        let paths = artifacts["paths"].as_sequence().unwrap();
        assert!(paths.contains(&artifacts["reports"]["junit"]));
        for path in paths {
            let report = std::fs::read_to_string(home.path().join(path.as_str().unwrap())).unwrap();
            assert!(!report.contains("PRIVATE KEY") && !report.is_empty());
        }
        let junit = std::fs::read_to_string(home.path().join(artifacts["reports"]["junit"].as_str().unwrap())).unwrap();
        assert_eq!(junit.contains("<failure"), !healthy, "{junit}");
    }
}

#[test]
fn reports_of_an_earlier_job_are_not_taken_for_this_ones() {
    let script = without_cluster("/bin/sh").file("cluster-health.xml", "old").file("cluster-health.json", "old");
    let script = with_program(script, "cluster-health", "#!/bin/sh\nexit 127\n");
    let (outcome, home) = runner(script, &job(&[IMAGE]).1).run_and_keep();
    outcome.is(127, &[]);
    assert!(!home.path().join("cluster-health.xml").exists() && !home.path().join("cluster-health.json").exists());
}

#[test]
fn the_program_ends_before_the_job_does() {
    let (name, job) = job(&[IMAGE]);
    assert_eq!(name, "cluster-health");
    let wait = duration(job["variables"]["CLUSTER_HEALTH_WAIT_TIMEOUT"].as_str().unwrap());
    assert!(wait < duration(job["timeout"].as_str().unwrap()));
}

#[test]
fn only_what_could_not_be_seen_is_tried_again() {
    let (_, job) = job(&[IMAGE]);
    let codes: Vec<_> =
        job["retry"]["exit_codes"].as_sequence().unwrap().iter().map(|code| code.as_u64().unwrap()).collect();
    assert_eq!(codes, [69, 124]);
}

/// `gitlab-ci.yml` is for users who copy a file, the component for users who include it.
#[test]
fn the_complete_file_has_the_job_of_the_component() {
    let file = yaml("gitlab/gitlab-ci.yml").swap_remove(0);
    let image = file["cluster-health"]["image"]["name"].as_str().unwrap();
    let stage = file["stages"].as_sequence().unwrap().last().unwrap().as_str().unwrap();
    let (name, job) = job(&[("image", image), ("stage", stage)]);
    assert_eq!(file[name.as_str()], job);
}

#[test]
fn it_is_a_template_with_a_leading_dot() {
    assert_eq!(job(&[IMAGE, ("job", ".cluster-health")]).0, ".cluster-health");
}
