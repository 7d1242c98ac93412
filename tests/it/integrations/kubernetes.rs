//! `kubernetes/` and `argocd/`: rights that are the program's own words, one pod in two places, and limits that fit each other. What
//! an API server says of them is in `kubernetes/try`.

use std::time::Duration;

use serde_yaml::Value;

use super::{duration, text, yaml};
use crate::harness::program;

const JOB: &str = "kubernetes/gate/job.yaml";

fn job() -> Value {
    yaml(JOB).swap_remove(0)
}

fn arguments(job: &Value) -> Vec<String> {
    let arguments = job["spec"]["template"]["spec"]["containers"][0]["args"].as_sequence().unwrap();
    arguments.iter().map(|argument| argument.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_cluster_role_is_what_the_program_prints() {
    let outcome = program().args(["rbac"]).run();
    assert_eq!(
        text("kubernetes/base/cluster-role.yaml"),
        outcome.stdout,
        "cluster-health rbac > integrations/kubernetes/base/cluster-role.yaml"
    );
}

#[test]
fn the_account_has_this_role_and_no_other() {
    let documents = yaml("kubernetes/base/service-account.yaml");
    let [account, binding] = &documents[..] else { panic!("{documents:?}") };
    let role = &yaml("kubernetes/base/cluster-role.yaml")[0];
    assert_eq!(binding["roleRef"]["kind"], role["kind"]);
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    let subjects = binding["subjects"].as_sequence().unwrap();
    assert_eq!(subjects.len(), 1);
    for key in ["name", "namespace"] {
        assert_eq!(subjects[0][key], account["metadata"][key]);
    }
    let pod = &job()["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], account["metadata"]["name"]);
    let talos = &yaml("kubernetes/base/talos-service-account.yaml")[0];
    assert_eq!(talos["spec"]["roles"], serde_yaml::from_str::<Value>("[os:reader]").unwrap());
    assert_eq!(pod["volumes"][0]["secret"]["secretName"], talos["metadata"]["name"]);
    let allowed = &yaml("kubernetes/talos-patch.yaml")[0]["machine"]["features"]["kubernetesTalosAPIAccess"];
    assert_eq!(allowed["allowedRoles"], talos["spec"]["roles"]);
    assert_eq!(allowed["allowedKubernetesNamespaces"][0], talos["metadata"]["namespace"]);
}

#[test]
fn the_cron_job_runs_the_job() {
    assert_eq!(yaml("kubernetes/cronjob/cronjob.yaml")[0]["spec"]["jobTemplate"]["spec"], job()["spec"]);
}

#[test]
fn the_program_knows_its_options_and_does_without_a_shell() {
    let outcome = program().args(arguments(&job())).run();
    // Nothing of a pod is there; options that are not known would end with 2.
    outcome.is(78, &["talosconfig"]);
}

#[test]
fn the_program_ends_before_the_job_does() {
    let job = job();
    let said = arguments(&job).into_iter().find_map(|it| it.strip_prefix("--wait-timeout=").map(duration)).unwrap();
    let tries = u32::try_from(job["spec"]["backoffLimit"].as_u64().unwrap()).unwrap() + 1;
    let deadline = Duration::from_secs(job["spec"]["activeDeadlineSeconds"].as_u64().unwrap());
    assert!(said * tries < deadline);
}

#[test]
fn only_what_could_not_be_seen_is_tried_again() {
    let rules = job()["spec"]["podFailurePolicy"]["rules"].clone();
    let fails = rules.as_sequence().unwrap().iter().find(|rule| rule["action"] == "FailJob").unwrap();
    assert_eq!(fails["onExitCodes"]["operator"], "NotIn");
    assert_eq!(fails["onExitCodes"]["values"], serde_yaml::from_str::<Value>("[69, 124]").unwrap());
}

#[test]
fn argo_cd_takes_the_same_job() {
    for (folder, hook) in [("presync", "PreSync"), ("postsync", "PostSync")] {
        let kustomization = &yaml(&format!("argocd/{folder}/kustomization.yaml"))[0];
        assert_eq!(kustomization["resources"][0], "../../kubernetes/gate");
        let patch: Value = serde_yaml::from_str(kustomization["patches"][0]["patch"].as_str().unwrap()).unwrap();
        assert_eq!(patch[0]["value"]["argocd.argoproj.io/hook"], hook);
        assert_eq!(patch[0]["value"]["argocd.argoproj.io/hook-delete-policy"], "BeforeHookCreation");
    }
}
