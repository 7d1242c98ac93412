//! A cluster behind Omni: which servers are queried, with what data, and the results.

use std::time::Duration;

use simulator::pki::Flaw;
use simulator::scenario::Scenario;
use simulator::world::{CallFault, Misbehavior, Server, Transport};
use simulator::{Count, Network};

use crate::cluster::Cluster;

fn behind_omni() -> (Cluster, String) {
    let network = Network::claim().unwrap();
    let scenario = Scenario { omni: true, ..Scenario::default() };
    let (world, _) = scenario.begin(&network).unwrap();
    let cluster = Cluster::begin(network, world);
    let key = cluster.simulator().service_account("ci", Flaw::None).unwrap();
    (cluster.through_omni(key.clone()), key)
}

#[test]
fn a_healthy_cluster_is_healthy_and_its_machines_are_not_dialed() {
    let (cluster, _) = behind_omni();
    cluster.run(&[]).is(0, &[]);
    let counts = cluster.simulator().calls().counts();
    let is_server = |count: &&Count| matches!(count.server, Server::ApiServer(_)) && count.call == "/readyz";
    let asked: u64 = counts.iter().filter(is_server).map(|count| count.times).sum();
    assert!(asked > 0, "through Omni alone");
    for name in ["cp-1", "cp-2", "cp-3", "worker-1"] {
        let server = cluster.apid(name);
        assert!(counts.iter().any(|count| count.server == server && count.call == "Version"), "{name} was asked");
    }
}

#[test]
fn the_key_is_in_no_output() {
    let (cluster, key) = behind_omni();
    for revoked in [false, true] {
        if revoked {
            cluster.change(|world| world.omni.as_mut().unwrap().keys.clear());
        }
        let formats = ["json", "text", "markdown", "junit", "html", "prometheus"];
        let files = formats.map(|format| format!("{format}={format}")).join(",");
        let program = cluster.program().args(["-vv", "--trace", "trace", "--report", &files]);
        let (outcome, home) = program.run_and_keep();
        outcome.is(if revoked { 77 } else { 0 }, &[]);
        let read = |name: &str| std::fs::read_to_string(home.path().join(name)).unwrap();
        let texts: Vec<String> = formats.iter().copied().map(read).chain([read("trace")]).collect();
        for text in texts.iter().chain([&outcome.stdout, &outcome.stderr]) {
            assert!(!text.contains(&key[40..80]) && !text.contains("siderov1 ci"), "{text}");
        }
    }
}

#[test]
fn without_roots_nothing_is_asked() {
    let (cluster, _) = behind_omni();
    let program = cluster.program();
    let empty = program.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let program = program.env("SSL_CERT_FILE", "").env("SSL_CERT_DIR", &empty);
    program.run().is(78, &["SSL_CERT_FILE", "SSL_CERT_DIR", "no root certificates"]);
    // A kubeconfig without a CA has the same requirement, with a talosconfig for the machines.
    let talosconfig = cluster.simulator().talosconfig("os:reader", Flaw::None).unwrap();
    let program = cluster.program().talosconfig(talosconfig).args(["--kubeconfig", ".kube/config"]);
    let empty = program.path("empty");
    std::fs::create_dir(&empty).unwrap();
    program
        .env("SSL_CERT_FILE", "")
        .env("SSL_CERT_DIR", &empty)
        .run()
        .is(78, &["SSL_CERT_FILE", "certificate-authority-data"]);
}

#[test]
fn an_omni_that_says_nothing_is_given_up() {
    for transport in [true, false] {
        let (cluster, _) = behind_omni();
        cluster.change(|world| {
            if transport {
                world.transport.insert(Server::Omni, Transport::SilentInTls);
            } else {
                world.call_faults.push(CallFault::all("*", Misbehavior::Hang));
            }
        });
        let judged = cluster.run(&["--attempt-timeout", "6s"]);
        assert!([1, 69].contains(&judged.outcome.code), "{judged}");
        judged.within(Duration::from_secs(15));
    }
}

#[test]
fn a_key_that_omni_does_not_know_is_named_with_what_it_may_be() {
    let (cluster, _) = behind_omni();
    cluster.change(|world| world.omni.as_mut().unwrap().keys.clear());
    let judged = cluster.run(&[]);
    judged.is(77, &[("talos.endpoints", "signature-refused", "omni")]);
    let hints = judged.check("talos.endpoints")["problems"][0]["hints"].to_string();
    assert!(hints.contains("revoked or renewed") && hints.contains("another Omni instance"), "{hints}");
    cluster.change(|world| world.omni.as_mut().unwrap().clock_ahead = -3600);
    let judged = cluster.run(&[]);
    assert!(judged.to_string().contains("the clock of this runner is 1h00m ahead of that of Omni"), "{judged}");
}
