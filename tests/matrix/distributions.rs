//! `--no-talos` on clusters that were not set up by Talos: each way to make such a cluster, with each fault.
//!
//! Without a fault, each cluster exits with 0, without any flag. Each cell states whether the run fails, warns, or cannot observe the fault
//! in this cluster; in the last case, `notObserved` must say so. `UPDATE=1` writes the table into docs/support.md.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use libtest_mimic::{Failed, Trial};
use serde_json::{Value, json};
use simulator::world::World;

use crate::row::{Quality, Row};
use crate::run::judged;

/// A way to make a cluster.
struct Distribution {
    name: &'static str,
    /// Tools that make clusters like this, for readers.
    like: &'static str,
    make: fn(&mut World),
    /// Faults that do not make a run fail, each with the actual result. All other faults do.
    otherwise: &'static [(&'static str, Cell)],
}

/// The effect of a fault on a run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cell {
    Fails,
    Warns,
    /// The part of `notObserved` that states this.
    Unseen(&'static str),
    /// The cluster has no component that could have the fault.
    Missing,
}

use Cell::{Fails, Missing, Unseen, Warns};

const HOSTED: &str = "the control plane runs elsewhere";
const NO_LEASES: &str = "no Node has a lease";
const NO_LEASE: &str = "it has no pod and no lease";

const DISTRIBUTIONS: &[Distribution] = &[
    Distribution {
        name: "static pods",
        like: "kubeadm, kind, Talos",
        make: |_| {},
        otherwise: &[("network agent excludes a node", Warns)],
    },
    Distribution {
        name: "processes",
        like: "k3s with etcd, k0s",
        make: processes,
        otherwise: &[
            ("network agent crashes", Missing),
            ("network agent excludes a node", Missing),
            ("kube-proxy crashes", Missing),
        ],
    },
    Distribution {
        name: "processes without leader election",
        like: "k3s with SQLite",
        make: |world| {
            processes(world);
            without_elections(world);
        },
        otherwise: &[
            ("network agent crashes", Missing),
            ("network agent excludes a node", Missing),
            ("scheduler is dead", Unseen(NO_LEASE)),
            ("kube-proxy crashes", Missing),
        ],
    },
    Distribution {
        name: "hosted",
        like: "EKS, AKS, GKE, Kamaji",
        make: hosted,
        otherwise: &[
            ("network agent excludes a node", Warns),
            ("one API server is not ready", Unseen(HOSTED)),
            ("one API server refuses", Unseen(HOSTED)),
        ],
    },
    Distribution {
        name: "hosted, DNS of the nodes",
        like: "EKS Auto Mode, GKE with Cloud DNS",
        make: |world| {
            hosted(world);
            without_dns(world);
        },
        otherwise: &[
            ("DNS is down", Unseen("cluster DNS")),
            ("DNS pods crash", Unseen("cluster DNS")),
            ("network agent excludes a node", Warns),
            ("one API server is not ready", Unseen(HOSTED)),
            ("one API server refuses", Unseen(HOSTED)),
        ],
    },
    Distribution {
        name: "DNS of another name",
        like: "RKE2, Kubespray, CoreDNS by its own chart",
        make: named_dns,
        otherwise: &[("network agent excludes a node", Warns)],
    },
    Distribution {
        name: "namespaces of its own",
        like: "OpenShift",
        make: own_namespaces,
        otherwise: &[("network agent excludes a node", Warns)],
    },
    Distribution {
        name: "no labels",
        like: "MicroK8s",
        make: |world| {
            processes(world);
            without_labels(world);
        },
        otherwise: &[
            ("network agent crashes", Missing),
            ("network agent excludes a node", Missing),
            ("kube-proxy crashes", Missing),
        ],
    },
    Distribution {
        name: "virtual",
        like: "vcluster",
        make: |world| {
            hosted(world);
            without_elections(world);
            remove(world, LEASES, |lease| lease["metadata"]["namespace"] == "kube-node-lease");
        },
        otherwise: &[
            ("kubelet does not respond", Unseen(NO_LEASES)),
            ("network agent excludes a node", Warns),
            ("one API server is not ready", Unseen(HOSTED)),
            ("one API server refuses", Unseen(HOSTED)),
            ("scheduler is dead", Unseen(NO_LEASE)),
        ],
    },
];

type Fault = (&'static str, fn(&mut World));

const FAULTS: &[Fault] = &[
    ("node is not ready", |world| {
        let ready = json!({"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "down"});
        world.kubernetes.set_condition("nodes", None, NODE, &ready);
    }),
    ("kubelet does not respond", |world| stall(world, "kube-node-lease", NODE)),
    ("DNS is down", dns_is_down),
    ("DNS pods crash", |world| {
        dns_is_down(world);
        crash(world, |pod| pod["metadata"]["labels"]["k8s-app"] == "kube-dns");
    }),
    ("network agent crashes", |world| {
        lacks_one(world, AGENT);
        crash(world, |pod| pod["metadata"]["labels"]["k8s-app"] == "flannel" && pod["spec"]["nodeName"] == NODE);
    }),
    ("network agent excludes a node", |world| {
        let other = json!({"metadata": {"labels": {"network": "none"}}});
        world.kubernetes.merge("nodes", None, NODE, &other);
        let term = json!({"key": "network", "operator": "DoesNotExist"});
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [term]}]});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        change(
            world,
            "daemonsets.apps",
            |set| set["metadata"]["name"] == AGENT,
            |set| {
                set["spec"]["template"]["spec"]["affinity"].clone_from(&affinity);
                for number in COUNTED {
                    set["status"][number] = (set["status"][number].as_i64().unwrap_or_default() - 1).into();
                }
            },
        );
        remove(world, "pods", |pod| {
            pod["metadata"]["labels"]["k8s-app"] == "flannel" && pod["spec"]["nodeName"] == NODE
        });
    }),
    ("one API server is not ready", |world| {
        let server = world.machine_mut("cp-3").api_server.as_mut();
        server.expect("an API server").failing = vec!["poststarthook/rbac/bootstrap-roles".to_owned()];
    }),
    ("one API server refuses", |world| world.api_server_stop("cp-3")),
    ("all API servers refuse", |world| ["cp-1", "cp-2", "cp-3"].into_iter().for_each(|it| world.api_server_stop(it))),
    ("scheduler is dead", |world| {
        for namespace in ["kube-system", "scheduler"] {
            stall(world, namespace, "kube-scheduler");
        }
    }),
    ("no sandbox is created", |world| world.pods_cannot_start(NODE)),
    ("kube-proxy crashes", |world| {
        lacks_one(world, "kube-proxy");
        crash(world, |pod| pod["metadata"]["labels"]["k8s-app"] == "kube-proxy" && pod["spec"]["nodeName"] == NODE);
    }),
];

/// The node with the fault.
const NODE: &str = "worker-1";
const AGENT: &str = "kube-flannel";
const LEASES: &str = "leases.coordination.k8s.io";
const SLICES: &str = "endpointslices.discovery.k8s.io";
const COUNTED: [&str; 5] =
    ["desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberReady", "numberAvailable"];

/// Returns a trial of each cluster without a fault and with each fault.
pub(crate) fn trials(rows: &[Arc<Row>]) -> Vec<Trial> {
    let usual = rows.iter().find(|row| row.name == "k8s-1-api-server-stopped").expect("a row of the usual cluster");
    let mut row = usual.healthy();
    // DNS needs two workers.
    row.scenario.shape.workers = 2;
    row.arguments = vec!["--no-talos".to_owned()];
    row.credentials.talosconfig = Quality::Absent;
    let mut before_an_upgrade = row.clone();
    before_an_upgrade.arguments.extend(["--drain", NODE, "--upgrade-kubernetes", NEXT].map(str::to_owned));
    let (row, before_an_upgrade) = (Arc::new(row), Arc::new(before_an_upgrade));
    let mut trials = vec![Trial::test("distributions: docs/support.md", || documented().map_err(told))];
    for its in DISTRIBUTIONS {
        let healthy = Arc::clone(&row);
        let name = format!("distribution {}: healthy", its.name);
        trials.push(Trial::test(name, move || is_healthy(its, &healthy).map_err(told)));
        let upgraded = Arc::clone(&before_an_upgrade);
        let name = format!("distribution {}: before an upgrade", its.name);
        trials.push(Trial::test(name, move || may_begin(its, &upgraded).map_err(told)));
        for fault in FAULTS.iter().filter(|(fault, _)| its.cell(fault) != Missing) {
            let row = Arc::clone(&row);
            let name = format!("distribution {}: {}", its.name, fault.0);
            trials.push(Trial::test(name, move || is_told(its, fault, &row).map_err(told)));
        }
    }
    trials
}

/// The Kubernetes version after the simulated one.
const NEXT: &str = "1.36.4";

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn told(error: anyhow::Error) -> Failed {
    format!("{error:#}").into()
}

impl Distribution {
    fn cell(&self, fault: &str) -> Cell {
        self.otherwise.iter().find(|(name, _)| *name == fault).map_or(Fails, |(_, cell)| *cell)
    }
}

/// Makes the cluster, on machines of another system.
fn make(its: &Distribution, world: &mut World) {
    change(
        world,
        "nodes",
        |_| true,
        |node| {
            node["status"]["nodeInfo"]["osImage"] = "Ubuntu 24.04.3 LTS".into();
            node["status"]["nodeInfo"]["kernelVersion"] = "6.8.0-60-generic".into();
        },
    );
    (its.make)(world);
}

fn is_healthy(its: &Distribution, row: &Row) -> anyhow::Result<()> {
    let (_, judged) = judged(row, |world| make(its, world))?;
    ensure!(judged.outcome.code == 0, "exit code {}\n{judged}", judged.outcome.code);
    let fails = its.otherwise.iter().filter(|(_, cell)| matches!(cell, Unseen(_)));
    for (fault, cell) in fails {
        let Unseen(why) = cell else { continue };
        ensure!(says(&judged.report, why), "{fault}: notObserved does not say `{why}`\n{judged}");
    }
    Ok(())
}

/// Verifies that an upgrade can begin on each cluster, but not while a budget protects a pod.
fn may_begin(its: &Distribution, row: &Row) -> anyhow::Result<()> {
    let (_, fine) = judged(row, |world| make(its, world))?;
    ensure!(fine.outcome.code == 0, "exit code {}\n{fine}", fine.outcome.code);
    let (_, held) = judged(row, |world| {
        make(its, world);
        hold_a_pod(world);
    })?;
    let names_budget = held.report["checks"].to_string().contains("default/hold");
    ensure!(held.outcome.code == 1 && names_budget, "exit code {}\n{held}", held.outcome.code);
    Ok(())
}

fn hold_a_pod(world: &mut World) {
    let labels = json!({"app": "held"});
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "held-1", "uid": "held", "controller": true});
    world.kubernetes.objects.entry("pods".to_owned()).or_default().push(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "held-1-x", "namespace": "default", "labels": labels, "ownerReferences": [owner]},
        "spec": {"nodeName": NODE, "serviceAccountName": "default", "containers": [{"name": "it", "image": "it:1"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }));
    world.kubernetes.objects.entry("poddisruptionbudgets.policy".to_owned()).or_default().push(json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "hold", "namespace": "default", "generation": 1},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        "status": {
            "observedGeneration": 1,
            "disruptionsAllowed": 0,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
        },
    }));
}

fn is_told(its: &Distribution, (name, fault): &Fault, row: &Row) -> anyhow::Result<()> {
    let (_, judged) = judged(row, |world| {
        make(its, world);
        fault(world);
    })?;
    let code = judged.outcome.code;
    let of_node = || judged.report["checks"].to_string().contains(NODE);
    let warns = judged.report["checks"].as_array().into_iter().flatten().any(|check| check["status"] == "warn");
    let is_right = match its.cell(name) {
        Fails => code != 0,
        Warns => code == 0 && warns && of_node(),
        Unseen(why) => code == 0 && says(&judged.report, why),
        Missing => true,
    };
    ensure!(is_right, "not {:?}: exit code {code}\n{judged}", its.cell(name));
    Ok(())
}

fn says(report: &Value, why: &str) -> bool {
    report["notObserved"].as_array().into_iter().flatten().any(|it| it.to_string().contains(why))
}

fn documented() -> anyhow::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/support.md");
    let text = std::fs::read_to_string(&path)?;
    let (begin, end) = ("<!-- distributions -->\n", "<!-- end of distributions -->");
    let (before, rest) = text.split_once(begin).context("no place for the table of distributions")?;
    let (_, after) = rest.split_once(end).context("no end of the table of distributions")?;
    let wanted = format!("{before}{begin}{}{end}{after}", table());
    if text != wanted && std::env::var_os("UPDATE").is_some() {
        return Ok(std::fs::write(path, wanted)?);
    }
    ensure!(text == wanted, "the table is another one: `UPDATE=1 cargo test --test matrix distributions`");
    Ok(())
}

fn table() -> String {
    let line = |first: &str, of: &dyn Fn(&Distribution) -> &'static str| {
        let cells: Vec<_> = DISTRIBUTIONS.iter().map(of).collect();
        format!("| {first} | {} |\n", cells.join(" | "))
    };
    let cell = |its: &Distribution, fault: &str| match its.cell(fault) {
        Fails => "fails",
        Warns => "warns",
        Unseen(_) => "not seen",
        Missing => "–",
    };
    let head = [line("fault", &|its| its.name), line("---", &|_| "---"), line("*examples*", &|its| its.like)];
    let faults = FAULTS.iter().map(|(fault, _)| line(fault, &|its| cell(its, fault)));
    head.into_iter().chain(faults).collect()
}

fn change(world: &mut World, resource: &str, which: impl Fn(&Value) -> bool, how: impl Fn(&mut Value)) {
    world.kubernetes.objects.entry(resource.to_owned()).or_default().iter_mut().filter(|it| which(it)).for_each(how);
}

fn remove(world: &mut World, resource: &str, which: impl Fn(&Value) -> bool) {
    world.kubernetes.objects.entry(resource.to_owned()).or_default().retain(|it| !which(it));
}

fn stall(world: &mut World, namespace: &str, name: &str) {
    let at = world.now() - std::time::Duration::from_secs(300);
    world.kubernetes.stalled_leases.insert(format!("{namespace}/{name}"), at);
}

fn is_static(pod: &Value) -> bool {
    !pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null()
}

fn crash(world: &mut World, which: impl Fn(&Value) -> bool) {
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}});
    let last = json!({"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": world.now().to_string()}});
    let container = json!({"name": "it", "ready": false, "restartCount": 9, "state": waiting, "lastState": last});
    let long_ago = (world.now() - std::time::Duration::from_secs(3600)).to_string();
    let ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": long_ago});
    change(world, "pods", which, |pod| {
        pod["status"]["containerStatuses"] = json!([container]);
        pod["status"]["conditions"] = json!([ready]);
    });
}

/// Changes the status of a DaemonSet to one missing pod.
fn lacks_one(world: &mut World, name: &str) {
    change(
        world,
        "daemonsets.apps",
        |set| set["metadata"]["name"] == name,
        |set| {
            for number in ["numberReady", "numberAvailable"] {
                set["status"][number] = (set["status"][number].as_i64().unwrap_or_default() - 1).into();
            }
            set["status"]["numberUnavailable"] = 1.into();
        },
    );
}

fn dns_is_down(world: &mut World) {
    let is_dns = |slice: &Value| slice["ports"].to_string().contains("\"dns\"");
    change(world, SLICES, is_dns, |slice| {
        for endpoint in slice["endpoints"].as_array_mut().into_iter().flatten() {
            endpoint["conditions"] = json!({"ready": false, "serving": false, "terminating": false});
        }
    });
    for resource in ["deployments.apps", "daemonsets.apps"] {
        change(
            world,
            resource,
            |it| it["metadata"]["name"].as_str().is_some_and(|name| name.contains("dns")),
            |it| {
                for number in ["readyReplicas", "availableReplicas", "numberReady", "numberAvailable"] {
                    it["status"][number] = 0.into();
                }
            },
        );
    }
}

/// Makes a cluster in which no component of Kubernetes runs as a pod.
fn processes(world: &mut World) {
    remove(world, "pods", is_static);
    let is_of_nodes = |name: &Value| [AGENT, "kube-proxy"].iter().any(|it| name == it);
    remove(world, "pods", |pod| is_of_nodes(&pod["metadata"]["ownerReferences"][0]["name"]));
    remove(world, "daemonsets.apps", |set| is_of_nodes(&set["metadata"]["name"]));
}

fn without_elections(world: &mut World) {
    remove(world, LEASES, |lease| {
        ["kube-scheduler", "kube-controller-manager"].iter().any(|it| lease["metadata"]["name"] == *it)
    });
}

fn without_labels(world: &mut World) {
    change(
        world,
        "nodes",
        |_| true,
        |node| {
            if let Some(labels) = node["metadata"]["labels"].as_object_mut() {
                labels.retain(|key, _| !key.starts_with("node-role.kubernetes.io/"));
            }
            node["spec"]["taints"] = json!([]);
        },
    );
}

/// Makes a cluster whose control planes are not nodes.
fn hosted(world: &mut World) {
    let is_hidden = |name: &Value| name.as_str().is_some_and(|name| name.starts_with("cp-"));
    remove(world, "nodes", |node| is_hidden(&node["metadata"]["name"]));
    remove(world, "pods", |pod| is_hidden(&pod["spec"]["nodeName"]));
    remove(world, LEASES, |lease| is_hidden(&lease["metadata"]["name"]));
    let nodes = world.kubernetes.objects["nodes"].len();
    change(
        world,
        "daemonsets.apps",
        |_| true,
        |set| {
            for number in COUNTED {
                set["status"][number] = nodes.into();
            }
        },
    );
    change(
        world,
        LEASES,
        |lease| is_hidden(&lease["spec"]["holderIdentity"]),
        |lease| {
            lease["spec"]["holderIdentity"] = "hosted-1_25b3572b".into();
        },
    );
}

fn without_dns(world: &mut World) {
    let is_dns = |it: &Value| it["metadata"]["labels"]["k8s-app"] == "kube-dns";
    for resource in ["pods", "deployments.apps", SLICES] {
        remove(world, resource, is_dns);
    }
}

fn named_dns(world: &mut World) {
    change(
        world,
        SLICES,
        |slice| slice["metadata"]["labels"]["k8s-app"] == "kube-dns",
        |slice| {
            slice["metadata"]["labels"]["kubernetes.io/service-name"] = "rke2-coredns".into();
        },
    );
    change(
        world,
        "deployments.apps",
        |it| it["metadata"]["name"] == "coredns",
        |it| {
            it["metadata"]["name"] = "rke2-coredns".into();
        },
    );
}

/// Makes a cluster whose `kube-system` has no pods. Components, network and DNS are in separate namespaces.
fn own_namespaces(world: &mut World) {
    let namespace_of = |name: &str| {
        let known =
            [("kube-scheduler", "scheduler"), ("coredns", "dns"), (AGENT, "network"), ("kube-proxy", "network")];
        let known = known.into_iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, namespace)| namespace);
        known.unwrap_or("components")
    };
    let is_of_system = |it: &Value| it["metadata"]["namespace"] == "kube-system";
    for resource in ["pods", "daemonsets.apps", "deployments.apps", "replicasets.apps"] {
        change(world, resource, is_of_system, |it| {
            let namespace = namespace_of(it["metadata"]["name"].as_str().unwrap_or_default());
            it["metadata"]["namespace"] = namespace.into();
        });
    }
    change(
        world,
        SLICES,
        |it| it["metadata"]["labels"]["k8s-app"] == "kube-dns",
        |slice| {
            slice["metadata"]["namespace"] = "dns".into();
            slice["metadata"]["labels"]["kubernetes.io/service-name"] = "dns-default".into();
            for endpoint in slice["endpoints"].as_array_mut().into_iter().flatten() {
                endpoint["targetRef"]["namespace"] = "dns".into();
            }
        },
    );
    change(
        world,
        LEASES,
        |lease| lease["metadata"]["name"] == "kube-scheduler",
        |lease| {
            lease["metadata"]["namespace"] = "scheduler".into();
        },
    );
}
