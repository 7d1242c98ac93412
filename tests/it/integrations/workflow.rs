//! `github/deploy.yml`: its last job, with the steps of `action.yml` one after the other, as a runner executes them. Expressions are
//! replaced by their values, and the release is an archive that runs the program under test.

use std::collections::BTreeMap;

use regex::{Captures, Regex};
use serde_yaml::Value;
use simulator::world::AlarmKind;
use tempfile::TempDir;

use super::github::{NAME, output, runner, with_release_of};
use super::{duration, script, yaml};
use crate::cluster::{Cluster, cluster};
use crate::harness::Outcome;

fn job() -> Value {
    yaml("github/deploy.yml")[0]["jobs"]["cluster-health"].clone()
}

/// Values by their names in expressions.
type Context = BTreeMap<String, String>;

/// Returns a text with its expressions replaced; the first non-empty alternative counts.
fn evaluated(text: &str, context: &Context) -> String {
    let expression = Regex::new(r"\$\{\{ (.*?) \}\}").unwrap();
    let value = |name: &str| context.get(name).unwrap_or_else(|| panic!("{name} is unknown")).as_str();
    let replace = |found: &Captures<'_>| {
        let mut values = found[1].split(" || ").map(value);
        values.find(|it| !it.is_empty()).unwrap_or_default().to_owned()
    };
    expression.replace_all(text, replace).into_owned()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value:?} is not a text")).to_owned()
}

/// Returns the inputs of the action, as passed by the job or by default.
fn inputs(action: &Value, context: &Context) -> Context {
    let step = &job()["steps"][0];
    assert!(text(&step["uses"]).starts_with("cluster-health/cluster-health@"));
    let with = step["with"].as_mapping().unwrap();
    let declared = action["inputs"].as_mapping().unwrap();
    assert!(with.keys().all(|name| declared.contains_key(name)), "{with:?}");
    let value = |(name, input): (&Value, &Value)| {
        let value = with.get(name).map(|given| evaluated(&text(given), context));
        let default = || input.get("default").map(text).unwrap_or_default();
        (format!("inputs.{}", text(name)), value.unwrap_or_else(default))
    };
    declared.iter().map(value).collect()
}

/// Runs the job, and returns the outcome of each step with its directory.
fn run(cluster: &Cluster) -> Vec<(Outcome, TempDir)> {
    let program = format!("#!/bin/sh\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_cluster-health"));
    let (release, checksum) = with_release_of(&program);
    let release = release.file("integrations/github/pinned", format!("{checksum}  {NAME}.tar.gz\n"));
    let mut context: Context = [
        ("secrets.TALOSCONFIG", cluster.talosconfig.as_str()),
        ("secrets.KUBECONFIG", cluster.kubeconfig()),
        ("github.action_path", release.home().to_str().unwrap()),
        ("github.action_repository", "o/r"),
        ("github.repository", "o/other"),
        ("github.token", "t"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let action = yaml("../action.yml").swap_remove(0);
    context.extend(inputs(&action, &context));
    // The test does not wait five minutes for a cluster that stays unhealthy.
    context.insert("inputs.wait-timeout".to_owned(), "10s".to_owned());
    let (mut release, mut ran) = (Some(release), Vec::new());
    for step in action["runs"]["steps"].as_sequence().unwrap().iter().filter(|step| step.get("run").is_some()) {
        let id = text(&step["id"]);
        let variables = step["env"].as_mapping().unwrap().iter();
        let variables: Vec<_> =
            variables.map(|(name, value)| (text(name), evaluated(&text(value), &context))).collect();
        let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let place = release.take().unwrap_or_else(|| script("/usr/bin/env", cluster));
        let (outcome, home) = runner(place, &id, &variables).run_and_keep();
        for name in ["binary", "exit-code", "reports"] {
            context.extend(output(&home, name).map(|value| (format!("steps.{id}.outputs.{name}"), value)));
        }
        let failed = outcome.code != 0;
        ran.push((outcome, home));
        if failed {
            break;
        }
    }
    ran
}

#[test]
fn the_job_installs_a_release_and_has_the_exit_code_of_the_gate() {
    let cluster = cluster();
    for (alarm, code) in [(None, 0), (Some(AlarmKind::NoSpace), 1)] {
        if let Some(alarm) = alarm {
            cluster.change(|world| world.etcd_alarm("cp-2", alarm));
        }
        let ran = run(&cluster);
        let [(installed, _), (checked, home)] = &ran[..] else { panic!("{} steps", ran.len()) };
        installed.is(0, &["cluster-health 0.1.0"]);
        checked.is(code, &[]);
        let junit = format!("{}/cluster-health.xml", output(home, "reports").unwrap());
        assert_eq!(std::fs::read_to_string(junit).unwrap().contains("<failure"), code == 1);
    }
}

#[test]
fn the_program_ends_before_the_job_does() {
    let action = yaml("../action.yml").swap_remove(0);
    let inputs = inputs(
        &action,
        &[("secrets.TALOSCONFIG", ""), ("secrets.KUBECONFIG", "")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    );
    let attempts = 1 + inputs["inputs.retries"].parse::<u32>().unwrap();
    let minutes = job()["timeout-minutes"].as_u64().unwrap();
    assert!(duration(&inputs["inputs.wait-timeout"]) * attempts < duration(&format!("{minutes}m")));
}
