//! `upgrade/upgrade-gate` if two clusters have machines of the same names, and files, contexts and variables lead to both: only the planned
//! cluster is upgraded.

use std::collections::BTreeSet;
use std::path::Path;

use serde_yaml::Value;
use simulator::world::Shape;

use super::upgrade::ids;
use super::{path, with_program, without_cluster};
use crate::cluster::Cluster;
use crate::harness::{Program, side_by_side};

/// Stands in for talosctl, and connects like talosctl: according to its options, or else its variables and the current context. A context
/// has the CA of its own cluster, and no other cluster accepts it.
const TALOSCTL: &str = r#"#!/bin/sh
file=$TALOSCONFIG context='' endpoints=''
while :; do
  case $1 in
    --talosconfig) file=$2 ;;
    --context) context=$2 ;;
    --endpoints) endpoints=$2 ;;
    *) break ;;
  esac
  shift 2
done
case $* in *--help) exit 0 ;; esac
[ -n "$context" ] || context=$(sed -n 's/^context: //p' "$file")
[ -n "$endpoints" ] || endpoints=$(cat "$HOME/endpoints-of-$context")
at=$(grep -lF "${endpoints%%,*}" "$HOME"/endpoints-of-* | sed 's/.*-//')
[ "$at" = "$context" ] || { echo "x509: certificate signed by unknown authority" >&2; exit 1; }
if [ "$1" = get ]; then printf 'spec:\n    clusterId: %s\n' "$(cat "$HOME/talos-$context")"; exit; fi
echo "talosctl $1 $context" >> "$HOME/touched"
exit 9
"#;

/// Stands in for kubectl in the same way, without storing a Lease.
const KUBECTL: &str = r#"#!/bin/sh
context='' server=''
while :; do
  case $1 in
    --request-timeout) ;;
    --context) context=$2 ;;
    --server) server=$2 ;;
    *) break ;;
  esac
  shift 2
done
[ -n "$context" ] || context=$(sed -n 's/^current-context: //p' "$KUBECONFIG")
context=${context#*@}
if [ -n "$server" ] && ! grep -qF "$server" "$HOME/server-of-$context"; then echo "x509: certificate signed by unknown authority" >&2; exit 1; fi
case $1 in get) cat "$HOME/kubernetes-$context"; exit ;; esac
cat > /dev/null
echo "kubectl $1 $context" >> "$HOME/touched"
printf '1|u1'
"#;

const NAMES: [&str; 2] = ["prod", "staging"];

fn cluster(name: &str) -> Cluster {
    Cluster::of(&Shape { cluster: name.to_owned(), ..Shape::default() })
}

fn yaml(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap()
}

/// Returns one file with the contexts of both clusters, with this one as the current context.
fn talosconfig(clusters: &[Cluster; 2], current: &str) -> String {
    let mut all = yaml(&clusters[0].talosconfig);
    let other = yaml(&clusters[1].talosconfig);
    let contexts = all["contexts"].as_mapping_mut().unwrap();
    contexts.extend(other["contexts"].as_mapping().unwrap().clone());
    all["context"] = current.into();
    serde_yaml::to_string(&all).unwrap()
}

/// Returns one file like that, with contexts named `reader@prod` and `reader@staging`.
fn kubeconfig(clusters: &[Cluster; 2], current: &str) -> String {
    let mut all = Value::Null;
    for (cluster, name) in clusters.iter().zip(NAMES) {
        let mut its = yaml(cluster.kubeconfig());
        let context = format!("reader@{name}");
        for (list, to) in [("clusters", name), ("users", name), ("contexts", context.as_str())] {
            its[list][0]["name"] = to.into();
        }
        its["contexts"][0]["context"]["cluster"] = name.into();
        its["contexts"][0]["context"]["user"] = name.into();
        if all.is_null() {
            all = its;
            continue;
        }
        for list in ["clusters", "users", "contexts"] {
            let more = its[list].as_sequence().unwrap().clone();
            all[list].as_sequence_mut().unwrap().extend(more);
        }
    }
    all["current-context"] = format!("reader@{current}").into();
    serde_yaml::to_string(&all).unwrap()
}

fn server(cluster: &Cluster) -> String {
    yaml(cluster.kubeconfig())["clusters"][0]["cluster"]["server"].as_str().unwrap().to_owned()
}

fn endpoints(cluster: &Cluster) -> String {
    let addresses = ["cp-1", "cp-2", "cp-3"].map(|name| format!("{}:50000", cluster.address(name)));
    addresses.join(",")
}

/// Prepares a gate with real plans, and checks that always pass.
fn gate(clusters: &[Cluster; 2]) -> Program {
    let health = format!(
        "#!/bin/sh\ncase $1 in upgrade-plan | sanitize) exec {} \"$@\" ;; esac\nexit 0\n",
        env!("CARGO_BIN_EXE_cluster-health")
    );
    let script = without_cluster(path("upgrade/upgrade-gate")).args(["--image", "registry.example/installer:v1.13.1"]);
    let script = script.args(["--no-snapshot"]).env("CLUSTER_HEALTH_ATTEMPT_TIMEOUT", "60s");
    let script = with_program(script, "cluster-health", &health);
    let script = with_program(with_program(script, "talosctl", TALOSCTL), "kubectl", KUBECTL);
    let script = with_program(script, "sleep", "#!/bin/sh\n");
    let files = clusters.iter().zip(NAMES).fold(script, |script, (cluster, name)| {
        let (talos, kubernetes) = ids(cluster);
        let script = script.file(&format!("talos-{name}"), talos).file(&format!("kubernetes-{name}"), kubernetes);
        script
            .file(&format!("endpoints-of-{name}"), endpoints(cluster))
            .file(&format!("server-of-{name}"), server(cluster))
    });
    NAMES.into_iter().fold(files, |script, name| {
        script
            .file(&format!("talosconfig.{name}"), talosconfig(clusters, name))
            .file(&format!("kubeconfig.{name}"), kubeconfig(clusters, name))
    })
}

fn touched(home: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(home.join("touched")).unwrap_or_default();
    text.lines().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
}

/// Each variable leads to one cluster, to the other one, or is not set.
#[test]
fn what_is_touched_is_what_was_planned() {
    let clusters = NAMES.map(cluster);
    let choices = [None, Some(0), Some(1)];
    let mut cases = Vec::new();
    for context in choices {
        for kube_context in choices {
            for own_file in choices {
                for [current, kube_current] in [[0, 0], [0, 1], [1, 0]] {
                    cases.push((context, kube_context, own_file, None, current, kube_current));
                }
            }
        }
        for address in [Some(0), Some(1)] {
            cases.push((context, context, None, address, 1, 1));
        }
    }
    let upgraded = std::sync::atomic::AtomicUsize::new(0);
    side_by_side(cases, 6, |case| {
        let (context, kube_context, own_file, address, current, kube_current) = case;
        let mut script = gate(&clusters);
        let file = |script: &Program, kind: &str, of: usize| script.path(&format!("{kind}.{}", NAMES[of]));
        let own = [file(&script, "talosconfig", current), file(&script, "kubeconfig", kube_current)];
        script = script.env("TALOSCONFIG", &own[0]).env("KUBECONFIG", &own[1]);
        if let Some(of) = own_file {
            let files = [file(&script, "talosconfig", of), file(&script, "kubeconfig", of)];
            script = script.env("CLUSTER_HEALTH_TALOSCONFIG", &files[0]).env("CLUSTER_HEALTH_KUBECONFIG", &files[1]);
        }
        if let Some(of) = context {
            script = script.env("CLUSTER_HEALTH_CONTEXT", NAMES[of]);
        }
        if let Some(of) = kube_context {
            script = script.env("CLUSTER_HEALTH_KUBE_CONTEXT", format!("reader@{}", NAMES[of]));
        }
        if let Some(of) = address {
            script = script.env("CLUSTER_HEALTH_ENDPOINTS", endpoints(&clusters[of]));
            script = script.env("CLUSTER_HEALTH_K8S_ENDPOINT", server(&clusters[of]));
        }
        let planned = context.or(own_file).unwrap_or(current);
        let kube_planned = kube_context.or(own_file).unwrap_or(kube_current);
        let (outcome, home) = script.run_and_keep();
        let touched = touched(home.path());
        let is_one = planned == kube_planned && address.is_none_or(|of| of == planned);
        let expected: BTreeSet<_> = if is_one { [NAMES[planned].to_owned()].into() } else { BTreeSet::new() };
        assert_eq!(touched, expected, "{case:?}: {outcome}");
        // The failure of talosctl itself is the first obstacle for a rollout that stays in one cluster.
        assert_eq!(outcome.code == 9, is_one, "{case:?}: {outcome}");
        upgraded.fetch_add(usize::from(is_one), std::sync::atomic::Ordering::Relaxed);
    });
    assert!(upgraded.into_inner() > 20);
}
