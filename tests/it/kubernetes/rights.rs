//! Credentials with insufficient rights, and the required rights.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use serde::Deserialize;
use simulator::Count;
use simulator::pki::{Flaw, Leaf};
use simulator::world::{Rule, Server, User};

use super::side_by_side;
use crate::cluster::{Cluster, cluster, with_user};
use crate::harness::program;

#[derive(Deserialize)]
struct ClusterRole {
    rules: Vec<Rule>,
}

#[test]
fn the_reader_of_the_simulated_cluster_has_the_rights_that_the_program_asks_for() {
    let role: ClusterRole = serde_yaml::from_str(&program().args(["rbac", "--upgrade"]).run().stdout).unwrap();
    assert_eq!(cluster().change(|world| world.kubernetes.reader.clone()), role.rules);
}

/// Administrators who grant the rights want to know the purpose of each.
#[test]
fn the_guide_says_why_each_right_is_needed() {
    let role: ClusterRole = serde_yaml::from_str(&program().args(["rbac", "--upgrade"]).run().stdout).unwrap();
    let guide = include_str!("../../../docs/site/src/guides/access.md");
    let (_, table) = guide.split_once("| right | purpose | without it |").unwrap();
    let rights: String = table.lines().filter_map(|line| line.split(" | ").next()).collect();
    for right in role.rules.iter().flat_map(|rule| rule.resources.iter().chain(&rule.non_resource_urls)) {
        assert!(rights.contains(&format!("`{right}`")), "{right}: {rights}");
    }
}

/// Each empty line has a reason: `csinodes` and `volumeattachments` are requested only while pods wait for volumes, and the other lists
/// only affect warnings, which are skipped.
#[test]
fn every_right_is_missed_by_the_checks_that_need_it_and_by_no_other() {
    let role: ClusterRole = serde_yaml::from_str(&program().args(["rbac"]).run().stdout).unwrap();
    let resources: BTreeSet<_> = role.rules.into_iter().flat_map(|rule| rule.resources).collect();
    let seen = Mutex::new(BTreeMap::new());
    let cases = resources.iter().flat_map(|resource| [(resource, "with Talos"), (resource, "without Talos")]);
    side_by_side(cases, 3, |(resource, how)| {
        let cluster = cluster();
        cluster.change(|world| {
            for rule in &mut world.kubernetes.reader {
                rule.resources.retain(|it| it != resource);
            }
        });
        let judged = cluster.run(if how == "with Talos" { &[] } else { &["--no-talos"] });
        let all = judged.report["checks"].as_array().unwrap();
        let errors = all.iter().filter(|check| check["status"] == "error");
        let errors: Vec<_> = errors.map(|check| check["id"].as_str().unwrap()).collect();
        assert_eq!(judged.outcome.code, if errors.is_empty() { 0 } else { 77 }, "{resource}: {judged}");
        for check in &errors {
            assert!(judged.of(check).iter().all(|(reason, _)| reason.starts_with("forbidden")), "{resource}: {judged}");
        }
        for (check, its) in [("k8s.nodes.csrs", "certificatesigningrequests"), ("k8s.apiservices", "apiservices")] {
            assert_eq!(judged.status(check) == "skip", *resource == its, "{resource}: {judged}");
        }
        let line = format!("  {how}: {}", errors.join(" "));
        seen.lock().unwrap().insert((resource, how), line.trim_end().to_owned());
    });
    let seen = seen.into_inner().unwrap();
    let of = |resource| {
        [resource, &seen[&(resource, "with Talos")], &seen[&(resource, "without Talos")]].map(String::as_str)
    };
    insta::assert_snapshot!(resources.iter().flat_map(of).collect::<Vec<_>>().join("\n"));
}

#[test]
fn without_any_right_nothing_passes_that_is_read_from_lists() {
    let cluster = cluster();
    cluster.change(|world| world.kubernetes.reader.clear());
    let judged = cluster.run(&["--no-talos"]);
    assert_eq!(judged.outcome.code, 77, "{judged}");
    let passed: Vec<_> =
        judged.report["checks"].as_array().unwrap().iter().filter(|it| it["status"] == "pass").collect();
    let passed: Vec<_> = passed.iter().map(|check| check["id"].as_str().unwrap()).collect();
    // Every user may request whether a server is ready.
    assert_eq!(passed, ["k8s.credentials", "k8s.api.endpoint"], "{judged}");
}

/// Returns the reader's kubeconfig with another certificate.
fn with_certificate(cluster: &Cluster, leaf: &Leaf) -> String {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let lines = cluster.kubeconfig().lines().map(|line| match line.split_once("-data: ") {
        Some((key, _)) if key.ends_with("client-certificate") => format!("{key}-data: {}\n", encode(&leaf.certificate)),
        Some((key, _)) if key.ends_with("client-key") => format!("{key}-data: {}\n", encode(&leaf.key)),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

#[test]
fn a_certificate_of_another_authority_is_not_accepted() {
    let cluster = cluster();
    let leaf = cluster.simulator().pki().foreign.client("reader", &[], Flaw::None).unwrap();
    let kubeconfig = with_certificate(&cluster, &leaf);
    let cluster = cluster.with_kubeconfig(kubeconfig);
    let judged = cluster.run(&["--no-talos"]);
    assert_eq!(judged.outcome.code, 77, "{judged}");
    assert_eq!(judged.of("k8s.api.endpoint"), [("unauthorized", "balancer")], "{judged}");
}

#[test]
fn certificates_that_no_server_would_accept_are_not_shown_to_one() {
    for (flaw, reason) in [
        (Flaw::Expired, "certificate-expired"),
        (Flaw::NotYetValid, "certificate-not-yet-valid"),
        (Flaw::WithoutClientAuth, "client-auth-missing"),
    ] {
        let cluster = cluster();
        let kubeconfig = cluster.simulator().kubeconfig("reader", flaw).unwrap();
        let program = cluster.program().file("flawed", kubeconfig);
        let path = program.path("flawed");
        let path = path.to_str().unwrap();
        let judged = cluster.judgment(program.args(["--no-talos", "-o", "json", "--kubeconfig", path]).run());
        judged.is(78, &[("k8s.credentials", reason, &format!("--kubeconfig {path}"))]);
        assert_eq!(cluster.simulator().calls().counts(), [], "{flaw:?}");
    }
}

#[test]
fn tokens_and_nobody() {
    let known = User { name: "system:serviceaccount:kube-system:cluster-health".to_owned(), groups: Vec::new() };
    for (user, anonymous, code, endpoint, nodes) in [
        ("{token: good}", false, 0, "pass", "pass"),
        ("{token: bad}", false, 77, "error", "blocked"),
        ("{}", false, 77, "error", "blocked"),
        // Ready, which every user may know, but nothing else.
        ("{}", true, 77, "pass", "error"),
    ] {
        let cluster = cluster();
        cluster.change(|world| {
            world.kubernetes.tokens.insert("good".to_owned(), known.clone());
            world.kubernetes.anonymous = anonymous;
        });
        let kubeconfig = with_user(cluster.kubeconfig(), user);
        let cluster = cluster.with_kubeconfig(kubeconfig);
        let judged = cluster.run(&["--no-talos"]);
        let said = (judged.outcome.code, judged.status("k8s.api.endpoint"), judged.status("k8s.nodes.ready"));
        assert_eq!(said, (code, endpoint, nodes), "{user}: {judged}");
        assert!(!judged.outcome.stdout.contains("token"), "{judged}");
    }
}

/// A token is sent to an API server's own address only if default/kubernetes or the etcd of a named machine lists that address. Without
/// either, the server's lease has to show that it is alive.
#[test]
fn a_token_goes_where_a_worker_cannot_send_it() {
    let known = User { name: "system:serviceaccount:kube-system:cluster-health".to_owned(), groups: Vec::new() };
    // The endpoint is one of them.
    for (options, hides_endpoints, asked, code) in [
        (&["--no-talos"][..], false, 3, 0),
        (&["--no-talos"], true, 1, 77),
        (&[], false, 3, 0),
        // According to etcd's member list.
        (&[], true, 3, 77),
    ] {
        let cluster = cluster();
        cluster.change(|world| {
            world.kubernetes.tokens.insert("good".to_owned(), known.clone());
            if hides_endpoints {
                world.kubernetes.reader.iter_mut().for_each(|rule| rule.resources.retain(|it| it != "endpointslices"));
            }
        });
        let kubeconfig = with_user(cluster.kubeconfig(), "{token: good}");
        let cluster = cluster.with_kubeconfig(kubeconfig);
        let judged = cluster.run(options);
        assert_eq!(judged.outcome.code, code, "{judged}");
        let counts = cluster.simulator().calls().counts();
        let is_direct = |it: &&Count| it.call == "/readyz" && matches!(it.server, Server::ApiServer(_));
        let direct = counts.iter().filter(is_direct).count();
        assert_eq!(direct, asked, "{options:?}, {hides_endpoints}: {counts:?}");
    }
}
