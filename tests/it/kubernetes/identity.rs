//! Whose cluster a kubeconfig leads to.

use simulator::pki::Flaw;

use crate::cluster::cluster;

#[test]
fn the_kubeconfig_of_a_twin_vouches_for_nothing() {
    let (ours, twin) = (cluster(), cluster());
    // One that the user has named is what the user meant.
    let program = ours.program().file("twin", twin.kubeconfig());
    let path = program.path("twin");
    let judged = ours.judgement(program.args(["-o", "json", "--kubeconfig"]).args([path]).run());
    judged.is(1, &[("k8s.api.identity", "wrong-cluster", "cluster")]);
    assert_eq!(judged.status("k8s.nodes.ready"), "blocked", "{judged}");
    // One that was found is passed over, and there is no other.
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

/// The found one is another cluster's, and Talos has a right one.
#[test]
fn a_stranger_is_passed_over_for_what_talos_hands_out() {
    let twin = cluster();
    let ours = cluster().role("os:admin").with_kubeconfig(twin.kubeconfig().to_owned());
    let judged = ours.run(&[]);
    judged.is(0, &[]);
    let over = judged.report["sources"]["passedOver"].to_string();
    assert!(over.contains("another cluster's"), "{over}");
}

/// The authority in the kubeconfig is not that of the servers, as after a cluster was set up anew at the same addresses.
#[test]
fn a_kubeconfig_from_before_the_cluster_was_set_up_anew() {
    let (ours, before) = (cluster(), cluster());
    let old = before.simulator().kubeconfig("reader", Flaw::None).unwrap();
    let server = |config: &str| config.lines().find(|line| line.contains("server: ")).unwrap().to_owned();
    let stale = old.replace(&server(&old), &server(ours.kubeconfig()));
    let ours = ours.with_kubeconfig(stale);
    let judged = ours.run(&["--no-talos"]);
    judged.is(1, &[("k8s.api.endpoint", "unknown-ca", "balancer")]);
    assert_eq!(ours.simulator().calls().counts(), [], "no credentials are shown to a server that is not known");
}
