//! The cluster to which a kubeconfig leads.

use simulator::pki::Flaw;
use simulator::world::kind;

use crate::cluster::{Cluster, cluster};

#[test]
fn the_kubeconfig_of_a_twin_vouches_for_nothing() {
    let (ours, twin) = (cluster(), cluster());
    // A kubeconfig that the user named is the intended one.
    let program = ours.program().file("twin", twin.kubeconfig());
    let path = program.path("twin");
    let judged = ours.judgment(program.args(["-o", "json", "--kubeconfig"]).args([path]).run());
    judged.is(1, &[("k8s.api.identity", "wrong-cluster", "cluster")]);
    assert_eq!(judged.status("k8s.nodes.ready"), "blocked", "{judged}");
    // A kubeconfig that was found by default is skipped, and there is no other one.
    let ours = ours.with_kubeconfig(twin.kubeconfig().to_owned());
    let judged = ours.run(&[]);
    assert_eq!(judged.of("k8s.credentials"), [("no-kubeconfig", "kubeconfig")], "{judged}");
    assert_ne!(judged.outcome.code, 0, "{judged}");
}

#[test]
fn talos_hands_out_a_kubeconfig_to_administrators_alone() {
    let cluster = cluster().role("os:admin").with_kubeconfig(String::new());
    cluster.run(&[]).is(0, &[]);
    let judged = cluster.run(&["--no-kubeconfig-from-talos"]);
    judged.is(69, &[("k8s.credentials", "no-kubeconfig", "kubeconfig")]);
    let cluster = cluster.role("os:reader");
    cluster.run(&[]).is(69, &[("k8s.credentials", "no-kubeconfig", "kubeconfig")]);
}

/// The default kubeconfig belongs to another cluster, but Talos issues a correct one.
#[test]
fn a_stranger_is_passed_over_for_what_talos_hands_out() {
    let twin = cluster();
    let ours = cluster().role("os:admin").with_kubeconfig(twin.kubeconfig().to_owned());
    let judged = ours.run(&[]);
    judged.is(0, &[]);
    let over = judged.report["sources"]["passedOver"].to_string();
    assert!(over.contains("another cluster"), "{over}");
}

/// The CA in the kubeconfig is not the servers' CA, as after the cluster was set up again at the same addresses.
#[test]
fn a_kubeconfig_from_before_the_cluster_was_set_up_anew() {
    let (ours, before) = (cluster(), cluster());
    let old = before.simulator().kubeconfig("reader", Flaw::None).unwrap();
    let server = |config: &str| config.lines().find(|line| line.contains("server: ")).unwrap().to_owned();
    let stale = old.replace(&server(&old), &server(ours.kubeconfig()));
    let ours = ours.with_kubeconfig(stale);
    let judged = ours.run(&["--no-talos"]);
    judged.is(69, &[("k8s.api.endpoint", "unknown-ca", "balancer")]);
    assert_eq!(ours.simulator().calls().counts(), [], "no credentials are shown to a server that is not known");
}

/// Two sites have the same names and addresses; only the machines differ.
#[test]
fn a_site_with_the_same_names_and_addresses_is_another_cluster() {
    let shows_others = |cluster: &Cluster| {
        cluster.change(|world| {
            for node in world.kubernetes.objects.get_mut("nodes").unwrap() {
                node["status"]["nodeInfo"]["machineID"] = "e875c2372e92f08f61556762349ae4a4".into();
            }
        });
    };
    let cluster = cluster();
    shows_others(&cluster);
    let explicit = cluster.program();
    let path = explicit.path(".kube/config");
    let judged = cluster.judgment(explicit.args(["-o", "json", "--kubeconfig"]).args([path]).run());
    judged.is(1, &[("k8s.api.identity", "wrong-cluster", "cluster")]);
    assert_eq!(judged.status("k8s.nodes.ready"), "blocked", "{judged}");
    let judged = cluster.run(&[]);
    assert_eq!(judged.of("k8s.credentials"), [("no-kubeconfig", "kubeconfig")], "{judged}");
    // Without discovery, the endpoints themselves report their identity.
    let alone = crate::cluster::cluster();
    alone.change(|world| world.change_everywhere(kind::MEMBERS, |resources| resources.clear(kind::MEMBERS)));
    shows_others(&alone);
    assert_ne!(alone.run(&[]).outcome.code, 0);
}

/// The machines were reinstalled, and discovery still lists the former ones of the same names for a while.
#[test]
fn machines_that_were_installed_anew_are_still_themselves() {
    let cluster = cluster();
    cluster.change(|world| {
        world.change_everywhere(kind::MEMBERS, |resources| {
            for name in ["cp-1", "cp-2", "cp-3", "worker-1"] {
                let former = "Htf36ewvueIqlPLjHRUWIQgoSe46lSoJgkXqW6tf4XOA";
                resources.edit(kind::MEMBERS, name, |spec| spec["nodeId"] = former.into());
            }
        });
    });
    let names = ["cp-1", "cp-2", "cp-3", "worker-1"];
    cluster.run(&[]).is(0, &names.map(|name| ("k8s.nodes.registered", "duplicate-name", name)));
}
