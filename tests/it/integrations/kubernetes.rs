//! `kubernetes/` and `argocd/`: rights that match the program's own, one pod in two places, and limits that are compatible.
//! `kubernetes/try` tests them against an API server.

use std::ffi::OsStr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_yaml::Value;
use simulator::world::{AlarmKind, User};

use super::{duration, text, yaml};
use crate::cluster::{Cluster, cluster};
use crate::harness::{Program, program, tool};

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
    // The files of a pod are missing here; unknown options would end with 2.
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
    for (name, hook) in [("presync", "PreSync"), ("postsync", "PostSync")] {
        let own = yaml(&format!("argocd/{name}.yaml")).swap_remove(0);
        assert_eq!(own["spec"], job()["spec"]);
        assert_eq!(own["metadata"]["name"], format!("cluster-health-{name}"));
        assert_eq!(own["metadata"]["namespace"], job()["metadata"]["namespace"]);
        let annotations = &own["metadata"]["annotations"];
        assert_eq!(annotations["argocd.argoproj.io/hook"], hook);
        assert_eq!(annotations["argocd.argoproj.io/hook-delete-policy"], "BeforeHookCreation");
    }
}

/// Creates the mounts of a pod in a separate namespace, from the directories below `$1`, and executes the container.
const POD: &str = r#"
    mount -t tmpfs tmpfs /run
    secrets=$1
    shift
    for mount in "$secrets"/*; do
        at=$(cat "$mount/at")
        mkdir -p "$at"
        mount --bind "$mount/files" "$at"
    done
    exec "$@""#;

/// Returns the options that create a mount namespace here: as root, or in a user namespace if the kernel allows it.
fn unshare() -> Option<Vec<&'static str>> {
    let ways = [vec!["--mount"], vec!["--user", "--map-root-user", "--mount"]];
    ways.into_iter().find(|options| {
        let mut command = std::process::Command::new("unshare");
        command.args(options).args(["mount", "-t", "tmpfs", "tmpfs", "/run"]);
        command.output().is_ok_and(|output| output.status.success())
    })
}

/// Prepares the container of a Job as a kubelet starts it: its arguments and variables, its mounts, and the account's token.
fn pod(job: &Value, cluster: &Cluster, unshare: &[&str]) -> Program {
    let pod = &job["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert!(container.get("command").is_none(), "the image's entrypoint is the program");
    let mut program = tool("unshare").args(unshare).args(["sh", "-euc", POD, "sh"]);
    let mounts = container["volumeMounts"].as_sequence().unwrap();
    let token = "token-of-the-account";
    cluster.change(|world| {
        let name = format!("system:serviceaccount:cluster-health:{}", pod["serviceAccountName"].as_str().unwrap());
        world.kubernetes.tokens.insert(token.to_owned(), User { name, groups: Vec::new() });
    });
    let kubeconfig: Value = serde_yaml::from_str(cluster.kubeconfig()).unwrap();
    let server = &kubeconfig["clusters"][0]["cluster"];
    let ca = STANDARD.decode(server["certificate-authority-data"].as_str().unwrap()).unwrap();
    program = program
        .file("mounts/account/at", "/run/secrets/kubernetes.io/serviceaccount")
        .file("mounts/account/files/ca.crt", ca)
        .file("mounts/account/files/token", token);
    for mount in mounts {
        let name = mount["name"].as_str().unwrap();
        let volumes = pod["volumes"].as_sequence().unwrap();
        let volume = volumes.iter().find(|it| it["name"] == mount["name"]).unwrap();
        // Talos creates the Secret of this name, which contains the file `config`.
        assert_eq!(volume["secret"]["secretName"], "cluster-health-talos");
        program = program
            .file(&format!("mounts/{name}/at"), mount["mountPath"].as_str().unwrap())
            .file(&format!("mounts/{name}/files/config"), &cluster.talosconfig);
    }
    for variable in container["env"].as_sequence().unwrap() {
        program = program.env(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap());
    }
    let address = server["server"].as_str().unwrap().strip_prefix("https://").unwrap().to_owned();
    let (host, port) = address.rsplit_once(':').unwrap();
    let mounts = program.path("mounts");
    program
        .env("KUBERNETES_SERVICE_HOST", host)
        .env("KUBERNETES_SERVICE_PORT", port)
        .args([mounts.as_os_str(), OsStr::new(env!("CARGO_BIN_EXE_cluster-health"))])
        .args(
            arguments(job)
                .into_iter()
                .map(|it| if it.starts_with("--wait-timeout") { "--wait-timeout=10s".to_owned() } else { it }),
        )
}

#[test]
fn the_jobs_run_as_a_kubelet_starts_them() {
    let Some(unshare) = unshare() else {
        eprintln!("skipped: mount namespaces need root here");
        return;
    };
    for file in [JOB, "argocd/presync.yaml", "argocd/postsync.yaml"] {
        let (cluster, job) = (cluster(), yaml(file).swap_remove(0));
        let healthy = pod(&job, &cluster, &unshare).run();
        healthy.is(0, &["healthy: "]);
        cluster.change(|world| world.etcd_alarm("cp-2", AlarmKind::NoSpace));
        pod(&job, &cluster, &unshare).run().is(1, &["etcd-out-of-space"]);
    }
}
