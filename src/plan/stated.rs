//! Requirements that the options state, and the checks that judge them. Any cluster would meet a requirement that no check judges.

use super::{Usage, selection};
use crate::checks::{self, Check};
use crate::cli::RunArgs;
use crate::model::{CheckId, Reason};
use crate::report::Selection;

/// Returns each option that states a requirement: its ID, whether it was given, and the checks any of which judges it.
fn demands(args: &RunArgs) -> [(&'static str, bool, &'static [CheckId]); 12] {
    use CheckId::{
        EtcdTolerance, K8sControlplaneVersions, K8sNodesReady, K8sNodesRegistered, TalosNodesExpected,
        TalosNodesReachable, TalosServer, TalosVersions, UpgradeDrain, UpgradeExtensions, UpgradeKubernetesPath,
        UpgradeTalosPath,
    };
    let RunArgs { connection, nodes, checks, verdict, .. } = args;
    let (named, numbers): (&[_], &[_]) = if connection.no_talos {
        (&[K8sNodesRegistered, K8sNodesReady], &[K8sNodesRegistered])
    } else {
        (&[TalosNodesExpected, TalosNodesReachable], &[TalosNodesExpected])
    };
    [
        ("server", connection.server, &[TalosServer]),
        ("control_plane_nodes", !nodes.control_plane_nodes.is_empty(), named),
        ("worker_nodes", !nodes.worker_nodes.is_empty(), named),
        ("expect_control_planes", nodes.expect_control_planes.is_some(), numbers),
        ("expect_workers", nodes.expect_workers.is_some(), numbers),
        ("expect_talos", nodes.expect_talos.is_some(), &[TalosVersions]),
        ("expect_kubernetes", nodes.expect_kubernetes.is_some(), &[K8sControlplaneVersions]),
        ("image", checks.image.is_some(), &[UpgradeExtensions]),
        ("upgrade_talos", checks.upgrade_talos.is_some(), &[UpgradeTalosPath]),
        ("upgrade_kubernetes", checks.upgrade_kubernetes.is_some(), &[UpgradeKubernetesPath]),
        ("drain", checks.drain.is_some(), &[UpgradeDrain]),
        ("require_quorum_margin", verdict.require_quorum_margin.is_some(), &[EtcdTolerance]),
    ]
}

/// Ensures that no requirement is left out by another option.
pub(super) fn all_judged(args: &RunArgs, selection: &[(&'static Check, Selection)]) -> Result<(), Usage> {
    for (id, _, judges) in demands(args).into_iter().filter(|(_, given, _)| *given) {
        let parts = || selection.iter().filter(|(check, _)| judges.contains(&check.id));
        if parts().any(|(_, part)| part.runs()) {
            continue;
        }
        if let Some((check, Selection::NotSelected(by))) = parts().next() {
            return Err(Usage::new(format!(
                "`--{}` needs the check {}, which is {}",
                dashed(id),
                check.id,
                by.words()
            )));
        }
    }
    sides(args)?;
    let RunArgs { nodes, checks, verdict, .. } = args;
    // The other names and addresses of the machine are not known yet.
    if let Some(named) = &checks.drain
        && !nodes.nodes.is_empty()
        && !nodes.nodes.iter().any(|it| it.eq_ignore_ascii_case(named))
    {
        let usage = Usage::new(format!("`--drain {named}` needs that machine, which `--nodes` leaves out"));
        return Err(usage.hint(format!("add it, spelled the same: `--nodes {},{named}`", nodes.nodes.join(","))));
    }
    names_run("fail_on", &verdict.fail_on, selection)?;
    names_run("check", &checks.check, selection)
}

/// Ensures that everything a policy requests is judged.
pub(super) fn policy_judged(asked: &[CheckId], selection: &[(&'static Check, Selection)]) -> Result<(), Usage> {
    for (check, part) in selection.iter().filter(|(check, _)| asked.contains(&check.id)) {
        if let Selection::NotSelected(by) = part {
            return Err(Usage::new(format!("the policy needs the check {}, which is {}", check.id, by.words())));
        }
    }
    Ok(())
}

/// Ensures that at least one check runs for each name; a reason represents the checks that find it.
fn names_run(id: &str, names: &[String], selection: &[(&'static Check, Selection)]) -> Result<(), Usage> {
    for name in names {
        let meant = selection::condition(name).map_or(name.as_str(), |_| Reason::NodeCondition.code());
        let is_meant =
            |check: &Check| selection::fits(check, meant) || check.finds.iter().any(|reason| reason.code() == meant);
        let parts = || selection.iter().filter(|(check, _)| is_meant(check));
        if parts().any(|(_, part)| part.runs()) {
            continue;
        }
        let option = format!("`--{} {name}`", dashed(id));
        if let Some((check, Selection::NotSelected(by))) = parts().next() {
            return Err(Usage::new(format!("{option} means {}, which is {}", check.id, by.words())));
        }
        if let Some(check) = checks::ALL.iter().find(|check| is_meant(check)) {
            let with = selection::asked_by(check);
            return Err(Usage::new(format!("{option} means {}, which runs only with {with}", check.id)));
        }
    }
    Ok(())
}

/// Ensures that the run queries the layer that a requirement is about: even a check that runs judges nothing else.
fn sides(args: &RunArgs) -> Result<(), Usage> {
    let RunArgs { connection, nodes, checks, verdict, .. } = args;
    if nodes.max_unready_workers.is_some() && !nodes.nodes.is_empty() {
        return Err(Usage::new(
            "`--max-unready-workers` would tolerate the workers that `--nodes` names, which have to be ready",
        ));
    }
    let of_kubernetes = [
        ("expect-kubernetes", nodes.expect_kubernetes.is_some()),
        ("upgrade-talos", checks.upgrade_talos.is_some()),
        ("upgrade-kubernetes", checks.upgrade_kubernetes.is_some()),
        ("drain", checks.drain.is_some()),
    ];
    if let Some((option, _)) = of_kubernetes.into_iter().find(|(_, given)| *given && connection.no_kubernetes) {
        return Err(Usage::new(format!("`--{option}` queries Kubernetes, which `--no-kubernetes` disables")));
    }
    if connection.no_talos && connection.etcd_endpoints.is_empty() && verdict.require_quorum_margin.is_some() {
        let usage = Usage::new("`--require-quorum-margin` queries etcd through Talos, which `--no-talos` disables");
        return Err(usage.hint("use `--etcd-endpoints` to query etcd directly"));
    }
    Ok(())
}

/// Returns the name of an option from its ID.
pub(super) fn dashed(id: &str) -> String {
    id.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use crate::checks;
    use crate::cli::Cli;
    use crate::engine;
    use crate::plan::tests::decide;
    use crate::snapshot::{Snapshot, Sources};
    use crate::testing::fixture;

    /// Requirements that the healthy cluster of the tests does not meet.
    const UNMET: [(&str, &str); 12] = [
        ("--control-plane-nodes", "cp-1,cp-2,cp-3,gone"),
        ("--worker-nodes", "w-1,gone"),
        ("--expect-control-planes", "5"),
        ("--expect-workers", "7"),
        ("--expect-talos", "v1.99.0"),
        ("--expect-kubernetes", "1.99"),
        ("--upgrade-talos", "v1.99.0"),
        ("--upgrade-kubernetes", "1.99.0"),
        ("--drain", "gone"),
        ("--image", "registry.example/installer:v1.13.0"),
        ("--require-quorum-margin", "2"),
        ("--fail-on", "node-condition=KernelDeadlock"),
    ];

    /// Returns combinations of options that leave something out.
    fn ways() -> Vec<Vec<&'static str>> {
        let layers = [vec![], vec!["--no-talos"], vec!["--no-kubernetes"]];
        let layers = [&layers[..], &[vec!["--no-talos", "--etcd-endpoints", "127.0.0.1:2379"]]].concat();
        // A check that runs only by an option of its own cannot be chosen.
        let is_free = |check: &&&checks::Check| !check.is_asked_by_option();
        let ids = || checks::ALL.iter().filter(is_free).map(|check| check.id.name());
        let levels = ["talos", "etcd", "api", "full"].map(|level| vec!["--level", level]);
        let stages = ["1", "2", "3", "4", "5", "6", "7", "etcd", "k8s", "talos", "*"];
        let one = || ids().chain(stages);
        let parts = one().map(|id| vec!["--skip", id]).chain(one().map(|id| vec!["--check", id]));
        let parts: Vec<_> = parts.chain(levels).chain([vec![]]).collect();
        layers.iter().flat_map(|layer| parts.iter().map(move |part| [&layer[..], part].concat())).collect()
    }

    /// Returns the snapshot of a run with these options: a node that was named and does not exist is queried anyway.
    fn seen(unmet: &str, way: &[&str]) -> Snapshot {
        let mut snapshot = fixture::healthy();
        if unmet == "--fail-on" {
            let condition = fixture::condition("KernelDeadlock", "True", "", "");
            snapshot.kube_node_mut("w-1").conditions.push(condition);
        }
        if unmet.ends_with("-nodes") {
            let mut node = fixture::node(if unmet == "--worker-nodes" { 4 } else { 2 }, "gone");
            node.sources = Sources { flags: true, ..Sources::default() };
            snapshot.nodes.push(node);
            snapshot.power_off("gone");
        }
        snapshot = if way.contains(&"--no-talos") { snapshot.without_talos() } else { snapshot };
        if way.contains(&"--no-talos")
            && let Some(node) = snapshot.nodes.iter_mut().find(|node| node.name == "gone")
        {
            node.sources = Sources { flags: true, ..Sources::default() };
        }
        if way.contains(&"--no-kubernetes") { snapshot.without_kubernetes() } else { snapshot }
    }

    #[test]
    fn what_is_demanded_is_judged_or_refused() {
        let (mut refused, mut judged) = (BTreeSet::new(), 0);
        for (option, value) in UNMET {
            for way in ways() {
                let needs: &[&str] = if option == "--image" { &["--upgrade-talos", "v1.13.0"] } else { &[] };
                match decide(&[&[option, value], needs, &way].concat()) {
                    Ok(plan) => {
                        let mut snapshot = seen(option, &way);
                        snapshot.asked = plan.inquiry.asked;
                        let verdicts = engine::judge(&plan.pace.checks, &snapshot);
                        let fine = verdicts.iter().all(|(_, verdict)| verdict.status().is_fine());
                        assert!(!fine, "{option} {value} {way:?}");
                        judged += 1;
                    }
                    Err(usage)
                        if way.iter().any(|word| {
                            let names = |it: &str| {
                                [format!("`{it}`"), format!("`{it} ")].iter().any(|it| usage.message.contains(it))
                            };
                            (names(option) || needs.iter().any(|it| names(it))) && usage.message.contains(word)
                        }) =>
                    {
                        refused.insert(option);
                    }
                    // The check that `--check` names does not run, whatever else is required.
                    Err(usage)
                        if way.windows(2).any(|it| usage.message.starts_with(&format!("`{}` means", it.join(" ")))) => {
                    }
                    Err(usage) => panic!("{option} {value} {way:?}: {usage:?}"),
                }
            }
        }
        assert_eq!(refused.len(), UNMET.len());
        assert!(judged > 500, "{judged}");
    }

    /// Options that require nothing of the cluster: connections, exclusions, weights, timing, and appearance.
    const DEMAND_NOTHING: &str = "talosconfig cluster_name context endpoints cluster no_talos kubeconfig kube_context k8s_endpoint in_cluster \
        no_kubernetes no_kubeconfig_from_talos etcd_endpoints etcd_cacert etcd_cert etcd_key nodes max_unready_workers skip \
        level wait_timeout interval attempt_timeout stable_for fail_fast strict warn_only \
        output report report_headers_file trace termination_log evidence quiet verbose color ci";

    /// Options that name checks, of which some have to run; for a policy, all of them.
    const NAME_CHECKS: [&str; 3] = ["check", "fail_on", "policy"];

    #[test]
    fn every_option_says_whether_it_demands_something() {
        let demands = super::demands(&crate::cli::RunArgs::default()).map(|(id, ..)| id);
        let said: BTreeSet<&str> =
            demands.into_iter().chain(NAME_CHECKS).chain(DEMAND_NOTHING.split_whitespace()).collect();
        let command = Cli::command();
        let options = command.get_arguments().filter(|argument| argument.get_env().is_some());
        let options: BTreeSet<&str> = options.map(|argument| argument.get_id().as_str()).collect();
        assert_eq!(said, options);
        let unmet: BTreeSet<String> = UNMET.iter().map(|(option, _)| option[2..].replace('-', "_")).collect();
        let demands: BTreeSet<String> = demands.map(str::to_owned).into();
        // A second opinion states nothing that could be unmet.
        assert_eq!(demands.difference(&unmet).collect::<Vec<_>>(), ["server"]);
        assert_eq!(unmet.difference(&demands).collect::<Vec<_>>(), ["fail_on"], "it names checks");
    }
}
