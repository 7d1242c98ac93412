//! Checks before an upgrade: whether it can begin, and whether a machine can be taken down now.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use simulator::world::{Process, RequestedApi, Shape, World, kind};

use crate::cluster::{Cluster, cluster};
use crate::harness::program;

const BUDGETS: &str = "poddisruptionbudgets.policy";

fn put_pod(world: &mut World, name: &str, node: &str) {
    // The pod tolerates control planes, because no other machine could take it.
    let spec = json!({
        "nodeName": node, "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "web", "image": "registry.example/web:v1"}],
    });
    world.kubernetes.put(
        "pods",
        json!({
            "metadata": {
                "name": name, "namespace": "default", "labels": {"app": "web"},
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6f7", "uid": "1", "controller": true,
                }],
            },
            "spec": spec,
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }),
    );
}

/// Adds a budget for these pods.
fn put_budget(world: &mut World, name: &str, allowed: i32) {
    world.kubernetes.put(BUDGETS, json!({
        "metadata": {"name": name, "namespace": "default", "generation": 1},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
        "status": {
            "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1 + allowed, "desiredHealthy": 2,
            "expectedPods": 2,
        },
    }));
}

/// A cluster with a pod on the worker and one on a control plane, and a budget that allows this many disruptions.
fn with_web(allowed: i32) -> Cluster {
    let cluster = cluster();
    cluster.change(|world| {
        put_pod(world, "web-a", "worker-1");
        put_pod(world, "web-b", "cp-1");
        put_budget(world, "web", allowed);
    });
    cluster
}

fn ids(report: &Value) -> Vec<&str> {
    let checks = report["checks"].as_array().unwrap().iter();
    checks.map(|check| check["id"].as_str().unwrap()).filter(|id| id.starts_with("upgrade.")).collect()
}

#[test]
fn a_budget_that_allows_none_holds_a_machine_until_it_opens() {
    let cluster = with_web(0);
    let judged = cluster.run(&["--drain", "worker-1"]);
    judged.is(1, &[("upgrade.drain", "eviction-blocked", "worker-1")]);
    let observed = judged.check("upgrade.drain")["problems"][0]["observed"].as_str().unwrap();
    assert!(observed.contains("default/web allows 0") && observed.contains("web-a"), "{observed}");
    cluster.run(&["--drain", "cp-2"]).is(0, &[]);
    cluster.change(|world| put_budget(world, "web", 1));
    cluster.run(&["--drain", "worker-1"]).is(0, &[]);
}

#[test]
fn each_machine_is_judged_as_the_next_to_be_upgraded() {
    let judged = with_web(0).run(&["--upgrade-talos", "v1.13.9"]);
    judged.is(1, &[("upgrade.drain", "eviction-blocked", "cp-1"), ("upgrade.drain", "eviction-blocked", "worker-1")]);
    assert_eq!(
        ids(&judged.report),
        [
            "upgrade.talos.path",
            "upgrade.matrix",
            "upgrade.etcd",
            "upgrade.extensions",
            "upgrade.drain",
            "upgrade.room",
            "upgrade.volumes",
            "upgrade.quorum"
        ]
    );
}

/// The options before each machine of a rollout: the upgrade path of all machines, and the drain of one.
#[test]
fn of_an_upgrade_one_machine_may_be_the_next() {
    let cluster = with_web(0);
    cluster.run(&["--upgrade-talos", "v1.13.9", "--drain", "cp-2"]).is(0, &[]);
    let judged = cluster.run(&["--upgrade-talos", "v1.13.9", "--drain", "worker-1"]);
    judged.is(1, &[("upgrade.drain", "eviction-blocked", "worker-1")]);
}

#[test]
fn two_budgets_and_a_stale_one_are_told_apart() {
    let cluster = with_web(1);
    cluster.change(|world| {
        world.kubernetes.merge(BUDGETS, Some("default"), "web", &json!({"metadata": {"generation": 2}}));
    });
    cluster.run(&["--drain", "worker-1"]).is(69, &[("upgrade.drain", "budget-stale", "worker-1")]);
    cluster.change(|world| put_budget(world, "more", 1));
    cluster.run(&["--drain", "worker-1"]).is(1, &[("upgrade.drain", "several-budgets", "worker-1")]);
}

#[test]
fn versions_are_held_against_the_tables() {
    let cluster = cluster();
    for (arguments, code, problem) in [
        (["--upgrade-kubernetes", "1.36.4"], 0, None),
        (["--upgrade-kubernetes", "1.99.0"], 69, Some("target-unknown")),
        (["--upgrade-kubernetes", "1.37.0"], 1, Some("upgrade-path-unsupported")),
        (["--upgrade-talos", "v1.13.9"], 0, None),
        (["--upgrade-talos", "v1.14.1"], 1, Some("etcd-too-old")),
        (["--upgrade-talos", "v1.14.99"], 69, Some("target-unknown")),
        (["--upgrade-talos", "v1.16.0"], 69, Some("target-unknown")),
        (["--upgrade-talos", "v1.9.0"], 1, Some("upgrade-path-unsupported")),
    ] {
        let judged = cluster.run(&arguments);
        assert_eq!(judged.outcome.code, code, "{arguments:?}: {judged}");
        let reasons = judged.problems.iter().map(|said| said.reason.as_str());
        let reasons: Vec<_> = reasons.collect();
        assert_eq!(problem.is_none(), reasons.is_empty(), "{arguments:?}: {judged}");
        assert!(problem.is_none_or(|reason| reasons.contains(&reason)), "{arguments:?}: {judged}");
    }
}

#[test]
fn who_does_not_ask_reads_nothing_of_it() {
    let cluster = with_web(0);
    let judged = cluster.run(&[]);
    judged.is(0, &[]);
    assert!(ids(&judged.report).is_empty());
    let counts = cluster.simulator().calls().counts();
    assert!(counts.iter().all(|count| !count.call.contains("poddisruptionbudgets")), "{counts:?}");
}

#[test]
fn the_right_that_is_missing_is_named() {
    let cluster = with_web(1);
    cluster.change(|world| {
        for rule in &mut world.kubernetes.reader {
            rule.resources.retain(|it| it != "poddisruptionbudgets");
        }
    });
    cluster.run(&[]).is(0, &[]);
    let judged = cluster.run(&["--drain", "worker-1"]);
    judged.is(77, &[("upgrade.drain", "forbidden", "cluster")]);
    let problem = &judged.check("upgrade.drain")["problems"][0];
    assert!(problem["observed"].as_str().unwrap().contains("poddisruptionbudgets.policy"), "{problem}");
    assert!(problem.to_string().contains("cluster-health rbac --upgrade"), "{problem}");
}

#[test]
fn what_is_asked_of_an_upgrade_is_not_left_out() {
    for arguments in [
        &["--upgrade-talos", "1.14"][..],
        &["--upgrade-kubernetes", "1.36"],
        &["--upgrade-talos", "v1.14.1", "--no-kubernetes"],
        &["--upgrade-talos", "1.14.1", "--drain", "worker-1", "--no-talos"],
        &["--drain", "worker-1", "--skip", "upgrade"],
        &["--check", "upgrade.drain"],
    ] {
        let outcome = program().args(arguments).run();
        assert_eq!(outcome.code, 2, "{arguments:?}: {outcome}");
    }
    let judged = with_web(0).run(&["--drain", "worker-1", "--level", "talos", "--check", "talos.versions"]);
    assert_eq!(judged.outcome.code, 1, "{judged}");
    assert_eq!(judged.of("upgrade.drain"), [("eviction-blocked", "worker-1")]);
}

/// Returns `text` with `content` between the line that begins with `<!-- MARK` and the one with `<!-- end -->`.
fn filled(text: &str, mark: &str, content: &str) -> String {
    let at = text.find(&format!("<!-- {mark}: ")).unwrap();
    let begin = at + text[at..].find('\n').unwrap() + 1;
    let end = begin + text[begin..].find("<!-- end -->").unwrap();
    format!("{}```text\n{}\n```\n{}", &text[..begin], content.trim_end(), &text[end..])
}

/// A database whose budget requires a number of pods. `UPDATE=1` rewrites the output in the guide.
#[test]
fn the_guide_shows_a_machine_that_is_held_and_one_that_may_go() {
    let cluster = cluster();
    let shown = |allowed: i32| {
        cluster.change(|world| {
            for (name, node) in [("db-0", "worker-1"), ("db-1", "cp-1")] {
                let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "1", "controller": true});
                world.kubernetes.put("pods", json!({
                    "metadata": {
                        "name": name, "namespace": "default", "labels": {"app": "db"}, "ownerReferences": [owner],
                    },
                    "spec": {
                        "nodeName": node, "tolerations": [{"operator": "Exists"}],
                        "containers": [{"name": "db", "image": "registry.example/db:v1"}],
                    },
                    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
                }));
            }
            let needed = 2 - allowed;
            world.kubernetes.put(BUDGETS, json!({
                "metadata": {"name": "db", "namespace": "default", "generation": 1},
                "spec": {"minAvailable": needed, "selector": {"matchLabels": {"app": "db"}}},
                "status": {
                    "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": needed,
                    "expectedPods": 2,
                },
            }));
        });
        let outcome = cluster.program().args(["--drain", "worker-1", "--attempt-timeout", "60s"]).run();
        assert_eq!(outcome.code, 1 - allowed, "{outcome}");
        let text = outcome.stdout.replace(&cluster.address("worker-1").to_string(), "10.0.0.4");
        let replaced = [
            (r" in [0-9.]+s \(1 round\)", " in 0.3s (1 round)"),
            (r"simulated \([^()]*\), [0-9-]{10} [0-9:]{5} UTC", "prod (k8s.example:6443), 2026-11-21 03:00 UTC"),
        ];
        let replace = |text: String, (pattern, with): (&str, &str)| {
            regex::Regex::new(pattern).unwrap().replace_all(&text, with).into_owned()
        };
        replaced.into_iter().fold(text, replace)
    };
    let (blocked, free) = (shown(0), shown(1));
    let blocked = blocked[blocked.find("\n1. ").unwrap()..].trim_start().split("\n\n").next().unwrap().to_owned();
    let free = &free[free.find("Upgrade readiness").unwrap()..];
    let guide = "docs/site/src/guides/upgrade.md";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(guide);
    let committed = std::fs::read_to_string(&path).unwrap();
    let made = filled(&filled(&committed, "blocked", &blocked), "free", free);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    assert!(std::env::var_os("UPDATE").is_some() || committed == made, "{guide} is old: run the tests with UPDATE=1");
}

fn request(cluster: &Cluster, node: &str, removed: &str) {
    let api = RequestedApi {
        group: "flowcontrol.apiserver.k8s.io".to_owned(),
        version: "v1beta3".to_owned(),
        resource: "flowschemas".to_owned(),
        removed: removed.to_owned(),
        ..RequestedApi::default()
    };
    cluster.change(|world| world.machine_mut(node).api_server.as_mut().unwrap().requested.push(api));
}

#[test]
fn each_api_server_tells_what_was_requested_of_it() {
    let cluster = cluster();
    request(&cluster, "cp-1", "1.37");
    let free = cluster.run(&["--upgrade-kubernetes", "1.36.4"]);
    free.is(0, &[]);
    request(&cluster, "cp-2", "1.32");
    let judged = cluster.run(&["--upgrade-kubernetes", "1.36.4"]);
    judged.is(1, &[("upgrade.apis", "removed-api-requested", "cp-2")]);
    let observed = judged.check("upgrade.apis")["problems"][0]["observed"].as_str().unwrap();
    assert!(observed.ends_with("flowcontrol.apiserver.k8s.io/v1beta3 flowschemas (removed in 1.32)"), "{observed}");
    let diagnosis = &judged.report["diagnoses"][0];
    assert_eq!(diagnosis["id"], "api-removed", "{judged}");
    // Only the right to the metrics is missing.
    cluster.change(|world| {
        for rule in &mut world.kubernetes.reader {
            rule.non_resource_urls.retain(|it| it != "/metrics");
        }
    });
    let refused = cluster.run(&["--upgrade-kubernetes", "1.36.4"]);
    assert_eq!(refused.outcome.code, 77, "{refused}");
    assert!(refused.check("upgrade.apis").to_string().contains("cluster-health rbac --upgrade"), "{refused}");
    // An upgrade of Talos alone does not read them.
    cluster.run(&["--upgrade-talos", "v1.13.9"]).is(0, &[]);
}

#[test]
fn an_api_server_that_is_not_seen_is_no_pass() {
    let cluster = cluster();
    cluster.change(|world| world.machine_mut("cp-2").api_server.as_mut().unwrap().process = Process::Frozen);
    let judged = cluster.run(&["--upgrade-kubernetes", "1.36.4"]);
    assert_ne!(judged.check("upgrade.apis")["status"], "pass", "{judged}");
}

#[test]
fn a_flag_that_the_target_refuses_is_found_in_the_static_pod() {
    let cluster = cluster();
    cluster.change(|world| {
        world.machine_mut("cp-3").resources.edit(kind::STATIC_PODS, "kube-apiserver", |pod| {
            pod["spec"]["containers"][0]["command"]
                .as_array_mut()
                .unwrap()
                .push("--feature-gates=AppArmor=true".into());
        });
    });
    let judged = cluster.run(&["--upgrade-kubernetes", "1.36.4"]);
    judged.is(1, &[("upgrade.flags", "removed-flag", "cp-3")]);
}

/// Talos 1.13.4 shows them only to administrators.
#[test]
fn flags_of_kubelets_are_compared_where_the_role_shows_them() {
    let cluster = cluster();
    let arguments = ["--upgrade-kubernetes", "1.36.4", "--strict"];
    cluster.run(&arguments).is(0, &[]);
    cluster.change(|world| {
        world.machine_mut("worker-1").resources.edit(kind::KUBELET_SPECS, "kubelet", |spec| {
            spec["config"]["featureGates"] = json!({"AppArmor": false});
        });
    });
    let judged = cluster.run(&arguments);
    judged.is(1, &[("upgrade.flags", "removed-flag", "worker-1")]);
    let observed = judged.check("upgrade.flags")["problems"][0]["observed"].as_str().unwrap();
    assert_eq!(observed, "kubelet has feature gate AppArmor (removed in 1.33)");
}

#[test]
fn an_image_without_the_extensions_of_a_machine_is_found() {
    const ID: &str = "c9078f9419961640c712a8bf2bb9174933dfcf1da383fd8ea2b7dc21493f8bac";
    let cluster = cluster();
    cluster.change(|world| {
        for (id, name, version) in [("000", "iscsi-tools", "v0.2.0"), ("001", "schematic", ID)] {
            let spec = json!({"image": format!("{id}.sqsh"), "metadata": {"name": name, "version": version}});
            let machine = world.machine_mut("worker-1");
            machine.resources.put(kind::EXTENSION_STATUSES, id, spec);
        }
    });
    let run =
        |image: &str, more: &[&str]| cluster.run(&[&["--upgrade-talos", "v1.13.9", "--image", image], more].concat());
    let lost = run("ghcr.io/siderolabs/installer:v1.13.9", &[]);
    lost.is(1, &[("upgrade.extensions", "extensions-lost", "worker-1")]);
    run("ghcr.io/siderolabs/installer:v1.13.9", &["--drain", "cp-1"]).is(0, &[]);
    let factory = |id: &str| format!("factory.talos.dev/metal-installer/{id}:v1.13.9");
    run(&factory(ID), &["--drain", "worker-1"]).is(0, &[]);
    run(&factory("{schematic}"), &["--drain", "worker-1"]).is(0, &[]);
    let other = factory(&ID.replace('c', "d"));
    run(&other, &[]).is(69, &[("upgrade.extensions", "image-unknown", "worker-1")]);
    run(&other, &["--warn-only", "image-unknown"]).is(0, &[("upgrade.extensions", "image-unknown", "worker-1")]);
    let skipped = cluster.run(&["--upgrade-talos", "v1.13.9"]);
    skipped.is(0, &[]);
    assert_eq!(skipped.check("upgrade.extensions")["status"], "skip", "{skipped}");
}

#[test]
fn the_pods_of_a_machine_need_room_on_the_others() {
    let cluster = with_web(1);
    cluster.run(&["--drain", "worker-1"]).is(0, &[]);
    cluster.change(|world| {
        let resources = json!({"requests": {"cpu": "3900m"}});
        let spec = json!({"containers": [{"name": "web", "image": "registry.example/web:v1", "resources": resources}]});
        world.kubernetes.merge("pods", Some("default"), "web-a", &json!({"spec": spec}));
    });
    let judged = cluster.run(&["--drain", "worker-1"]);
    judged.is(1, &[("upgrade.room", "pods-do-not-fit", "worker-1")]);
    assert_eq!(judged.report["diagnoses"][0]["id"], "no-room", "{judged}");
}

/// A cluster with two workers, the first of which has no pods that a drain would evict.
fn with_an_empty_worker() -> Cluster {
    let cluster = Cluster::of(&Shape { workers: 2, ..Shape::default() });
    cluster.change(|world| {
        // All pods on it have moved.
        for pod in world.kubernetes.objects.get_mut("pods").unwrap() {
            if pod["spec"]["nodeName"] == "worker-1" && pod["metadata"]["ownerReferences"][0]["kind"] != "DaemonSet" {
                pod["spec"]["nodeName"] = "worker-2".into();
            }
        }
        for slice in world.kubernetes.objects.get_mut("endpointslices.discovery.k8s.io").unwrap() {
            for endpoint in slice["endpoints"].as_array_mut().unwrap() {
                if endpoint["nodeName"] == "worker-1" {
                    endpoint["nodeName"] = "worker-2".into();
                }
            }
        }
        world.kubernetes.put(
            "volumeattachments.storage.k8s.io",
            json!({
                "metadata": {"name": "csi-1"},
                "spec": {"attacher": "csi.example", "nodeName": "worker-1", "source": {"persistentVolumeName": "pv-1"}},
                "status": {"attached": true, "detachError": {"message": "the volume is busy"}},
            }),
        );
    });
    cluster
}

#[test]
fn a_machine_that_was_drained_has_let_go_of_its_volumes() {
    let cluster = with_an_empty_worker();
    cluster.run(&["--drain", "cp-2"]).is(0, &[]);
    cluster.change(|world| {
        world.kubernetes.merge("nodes", None, "worker-1", &json!({"spec": {"unschedulable": true}}));
    });
    let judged = cluster.run(&["--drain", "cp-2"]);
    judged.is(
        1,
        &[("k8s.nodes.schedulable", "cordoned", "worker-1"), ("upgrade.volumes", "volume-attached", "worker-1")],
    );
}

/// Returns pods as a real API server lists them.
fn pods(nodes: &[String], of_each: usize) -> impl Iterator<Item = Value> {
    let toleration =
        |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let tolerations = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].map(toleration);
    (0..of_each).flat_map(move |app| {
        let tolerations = tolerations.clone();
        nodes.iter().enumerate().map(move |(at, node)| {
            json!({
                "metadata": {
                    "name": format!("app-{app}-6f7b8c9d-{at:05}"), "namespace": format!("team-{}", app % 20),
                    "uid": format!("{app:08}-0000-4000-8000-{at:012}"), "resourceVersion": "1000",
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                    "labels": {"app": format!("app-{app}"), "pod-template-hash": "6f7b8c9d", "team": "some"},
                    "ownerReferences": [{
                        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("app-{app}-6f7b8c9d"), "uid": "1",
                        "controller": true, "blockOwnerDeletion": true,
                    }],
                },
                "spec": {
                    "nodeName": node, "tolerations": tolerations, "serviceAccountName": "default",
                    "containers": [{
                        "name": "main", "image": "registry.example/app:v1",
                        "resources": {"requests": {"cpu": "20m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
                    }],
                    "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
                },
                "status": {
                    "phase": "Running", "podIP": "10.244.0.1",
                    "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
                    "containerStatuses": [{"name": "main", "image": "registry.example/app:v1", "ready": true, "restartCount": 0}],
                },
            })
        })
    })
}

/// Prints the cost: `cargo test --test it -- --ignored --nocapture a_thousand_machines`.
#[test]
#[ignore = "a minute and more, and gigabytes for the simulator"]
fn a_thousand_machines_of_110_pods() {
    let cluster = Cluster::of(&Shape { workers: 997, ..Shape::default() });
    let workers: Vec<String> = (1..=997).map(|at| format!("worker-{at}")).collect();
    cluster.change(|world| {
        for name in &workers {
            world.kubernetes.merge("nodes", None, name, &json!({"status": {"allocatable": {"pods": "250"}}}));
        }
        world.kubernetes.objects.get_mut("pods").unwrap().extend(pods(&workers, 110));
    });
    for arguments in [&[][..], &["--upgrade-talos", "v1.13.9"]] {
        let program = cluster.program().args(["-o", "json", "--attempt-timeout", "590s"]).args(arguments);
        let began = Instant::now();
        let (mut child, _home) = program.spawn_into(Stdio::null());
        let status = format!("/proc/{}/status", child.id());
        let mut peak = String::new();
        while child.try_wait().unwrap().is_none() {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            if let Some(line) = text.lines().find_map(|line| line.strip_prefix("VmHWM:")) {
                line.trim().clone_into(&mut peak);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        println!("{arguments:?}: exit {:?} in {:?}, {peak} at the peak", child.wait().unwrap().code(), began.elapsed());
    }
}
