//! `omni/`, `tuppr/`, `system-upgrade-controller/`, `terraform/`: tools that perform upgrades, with the gate before each upgrade. The keys
//! are those of the published schemas; `tools/lint-integrations` tests the rest with kustomize and an HCL parser.

use std::time::Duration;

use serde_json::json;
use serde_yaml::Value;

use super::{duration, path, script, text, with_program, yaml};
use crate::cluster::{Cluster, cluster};
use crate::harness::program;

const OMNI: &str = "omni/job.yaml";
const TUPPR: &str = "tuppr/talos-upgrade.yaml";
const PLAN: &str = "system-upgrade-controller/plan.yaml";

fn container() -> Value {
    yaml(OMNI)[0]["spec"]["template"]["spec"]["containers"][0].clone()
}

fn hook() -> Value {
    yaml(TUPPR)[0]["spec"]["hooks"]["pre"][0].clone()
}

fn prepare() -> Value {
    yaml(PLAN)[0]["spec"]["prepare"].clone()
}

fn arguments(of: &Value) -> Vec<String> {
    of["args"].as_sequence().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
}

fn option(of: &Value, name: &str) -> Option<String> {
    arguments(of).iter().find_map(|it| it.strip_prefix(&format!("--{name}="))).map(str::to_owned)
}

fn keys(of: &Value) -> Vec<&str> {
    of.as_mapping().unwrap().keys().map(|key| key.as_str().unwrap()).collect()
}

#[test]
fn the_cluster_role_has_the_rights_of_stage_eight() {
    let outcome = program().args(["rbac", "--upgrade"]).run();
    let file = "kubernetes/upgrade/cluster-role.yaml";
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path(file), &outcome.stdout).unwrap();
    }
    assert_eq!(text(file), outcome.stdout, "cluster-health rbac --upgrade > integrations/{file}");
}

#[test]
fn the_program_knows_its_options() {
    for of in [container(), hook(), prepare()] {
        let outcome = program().args(arguments(&of)).run();
        // The files of a pod are missing here; unknown options would end with 2.
        outcome.is(78, &["talosconfig"]);
        assert!(of["image"].as_str().unwrap().contains("@sha256:"), "{of:?}");
    }
}

#[test]
fn the_program_ends_before_its_surroundings_end_it() {
    let omni = Duration::from_secs(yaml(OMNI)[0]["spec"]["activeDeadlineSeconds"].as_u64().unwrap());
    let tuppr = Duration::from_secs(hook()["activeDeadlineSeconds"].as_u64().unwrap());
    for (of, limit) in [(container(), omni), (hook(), tuppr)] {
        assert!(duration(&option(&of, "wait-timeout").unwrap()) < limit);
    }
}

/// Accounts, limits and mounts are the same.
#[test]
fn the_job_of_omni_is_the_job_of_kubernetes() {
    let (omni, plain) = (container(), yaml("kubernetes/gate/job.yaml")[0]["spec"]["template"]["spec"].clone());
    for key in ["name", "env", "resources", "securityContext", "volumeMounts"] {
        assert_eq!(omni[key], plain["containers"][0][key], "{key}");
    }
    let pod = yaml(OMNI)[0]["spec"]["template"]["spec"].clone();
    for key in ["restartPolicy", "serviceAccountName", "tolerations", "securityContext", "volumes"] {
        assert_eq!(pod[key], plain[key], "{key}");
    }
}

/// The format of Omni's cluster template: `name`, `job` or `file`, `interval` (at least 5 s); the file is a Job.
#[test]
fn omni_finds_its_job() {
    let check = yaml("omni/cluster.yaml")[0]["kubernetes"]["healthchecks"][0].clone();
    assert_eq!(keys(&check), ["name", "file", "interval"]);
    assert!(path("omni").join(check["file"].as_str().unwrap()).exists());
    assert!(duration(check["interval"].as_str().unwrap()) >= Duration::from_secs(5));
    let job = &yaml(OMNI)[0];
    assert_eq!((&job["apiVersion"], &job["kind"]), (&"batch/v1".into(), &"Job".into()));
}

#[test]
fn the_hook_of_tuppr_is_of_its_schema_and_of_its_upgrade() {
    const HOOK: [&str; 12] = [
        "name",
        "image",
        "imagePullPolicy",
        "command",
        "args",
        "env",
        "envFrom",
        "volumeMounts",
        "volumes",
        "serviceAccountName",
        "activeDeadlineSeconds",
        "backoffLimit",
    ];
    let (upgrade, hook) = (&yaml(TUPPR)[0], hook());
    assert_eq!(upgrade["apiVersion"], "tuppr.home-operations.com/v1alpha1");
    assert!(keys(&hook).iter().all(|key| HOOK.contains(key)), "{hook:?}");
    assert_eq!(option(&hook, "upgrade-talos").as_deref(), upgrade["spec"]["talos"]["version"].as_str());
}

#[test]
fn the_plan_is_of_the_schema_of_its_controller() {
    const SPEC: [&str; 18] = [
        "concurrency",
        "jobActiveDeadlineSecs",
        "nodeSelector",
        "serviceAccountName",
        "channel",
        "version",
        "secrets",
        "tolerations",
        "exclusive",
        "window",
        "prepare",
        "upgrade",
        "cordon",
        "drain",
        "imagePullSecrets",
        "postCompleteDelay",
        "priorityClassName",
        "postCompleteLabels",
    ];
    const CONTAINER: [&str; 7] = ["image", "command", "args", "envs", "envFrom", "volumes", "securityContext"];
    let plan = &yaml(PLAN)[0];
    let spec = &plan["spec"];
    assert_eq!(plan["apiVersion"], "upgrade.cattle.io/v1");
    assert!(keys(spec).iter().all(|key| SPEC.contains(key)), "{spec:?}");
    for container in [&spec["prepare"], &spec["upgrade"]] {
        assert!(keys(container).iter().all(|key| CONTAINER.contains(key)), "{container:?}");
    }
    let version = spec["version"].as_str().unwrap();
    assert_eq!(option(&prepare(), "upgrade-talos").as_deref(), Some(version));
    assert!(option(&spec["upgrade"], "image").unwrap().ends_with(&format!(":{version}")));
    assert!(spec["upgrade"]["image"].as_str().unwrap().ends_with(&format!(":{version}")));
    // The pod also drains, so it uses the controller's account, which can read everything that the gate reads.
    let subject = yaml("system-upgrade-controller/binding.yaml")[0]["subjects"][0].clone();
    assert_eq!(
        (&subject["name"], &subject["namespace"]),
        (&spec["serviceAccountName"], &plan["metadata"]["namespace"])
    );
    // The node that the controller chose; each container has a separate variable for it.
    assert_eq!(option(&prepare(), "drain").as_deref(), Some("$(SYSTEM_UPGRADE_NODE_NAME)"));
}

/// Runs the commands of the example's first resource in a shell, with the variables that it sets.
fn before_upgrade(cluster: &Cluster) -> crate::harness::Outcome {
    let main = text("terraform/main.tf");
    let commands: Vec<String> = main
        .lines()
        .filter_map(|line| line.trim().strip_prefix("command = "))
        .map(|quoted| serde_json::from_str(quoted).unwrap())
        .collect();
    let [before, upgrade] = &commands[..] else { panic!("{commands:?}") };
    assert!(
        path("terraform").join("../upgrade/upgrade-gate").exists() && upgrade.contains("/../upgrade/upgrade-gate ")
    );
    let shell = script("/bin/sh", cluster).env("TALOS_VERSION", "v1.13.1");
    let once = format!("#!/bin/sh\nexec {} \"$@\" --wait-timeout 0\n", env!("CARGO_BIN_EXE_cluster-health"));
    with_program(shell, "cluster-health", &once).args(["-c", &before.replace("--wait-timeout 10m", "")]).run()
}

#[test]
fn terraform_fails_before_anything_is_touched() {
    let cluster = cluster();
    before_upgrade(&cluster).is(0, &["healthy, ready: "]);
    cluster.change(|world| {
        world.kubernetes.put("pods", json!({
            "metadata": {"name": "db-0", "namespace": "default", "labels": {"app": "db"}, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "1", "controller": true}]},
            "spec": {"nodeName": "worker-1", "containers": [{"name": "db", "image": "registry.example/db:v1"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }));
        world.kubernetes.put("poddisruptionbudgets.policy", json!({
            "metadata": {"name": "db", "namespace": "default", "generation": 1},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}},
            "status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
        }));
    });
    before_upgrade(&cluster).is(1, &["drain-blocked", "db-0"]);
}
