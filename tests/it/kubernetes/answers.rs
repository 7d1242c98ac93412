//! Every Kubernetes path that the program requests, with each kind of wrong answer, one at a time.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use simulator::world::{CallFault, Misbehavior};

use super::servers::forget_endpoint;
use super::{
    API_ENDPOINTS, API_SERVICES, DAEMON_SETS, DEFINITIONS, DEPLOYMENTS, DNS_ENDPOINTS, EVENTS, MUTATING_WEBHOOKS,
    NODE_LEASES, NODES, PENDING_PODS, PODS, READYZ, SIGNING_REQUESTS, SLICES, STATEFUL_SETS, SYSTEM_LEASES,
    SYSTEM_NAMESPACE, VALIDATING_WEBHOOKS, answers, round, side_by_side,
};
use crate::cluster::{Cluster, Judgment, cluster};

/// A list that serves as evidence.
#[derive(Clone, Copy)]
struct List {
    path: &'static str,
    kind: &'static str,
    api_version: &'static str,
    /// Prepares the cluster so that the list is evidence.
    given: fn(&Cluster),
    /// The check that needs it.
    check: &'static str,
    /// The expected result for an empty list. `None` if it may be empty.
    empty: Option<Said>,
}

const LISTS: [List; 16] = [
    List {
        path: NODES,
        kind: "NodeList",
        api_version: "v1",
        given: |_| {},
        check: "k8s.nodes.ready",
        empty: Some((69, "no-answer")),
    },
    List {
        path: NODE_LEASES,
        kind: "LeaseList",
        api_version: "coordination.k8s.io/v1",
        given: |_| {},
        check: "k8s.nodes.ready",
        // If no Node has a lease, as in a virtual cluster, Ready counts, and the report states this.
        empty: None,
    },
    List {
        path: PODS,
        kind: "PodList",
        api_version: "v1",
        given: |_| {},
        check: "k8s.controlplane.apiserver",
        empty: Some((1, "component-missing")),
    },
    List {
        path: DAEMON_SETS,
        kind: "DaemonSetList",
        api_version: "apps/v1",
        given: |_| {},
        check: "k8s.system",
        // Another component may do its work; only Talos shows that it is required.
        empty: None,
    },
    List {
        path: DEPLOYMENTS,
        kind: "DeploymentList",
        api_version: "apps/v1",
        given: |_| {},
        check: "k8s.dns",
        // Another component may serve DNS.
        empty: None,
    },
    List {
        path: STATEFUL_SETS,
        kind: "StatefulSetList",
        api_version: "apps/v1",
        given: |_| {},
        check: "k8s.system",
        empty: None,
    },
    List {
        path: PENDING_PODS,
        kind: "PodList",
        api_version: "v1",
        given: |_| {},
        check: "k8s.pods.starting",
        empty: None,
    },
    List { path: EVENTS, kind: "EventList", api_version: "v1", given: |_| {}, check: "k8s.pods.starting", empty: None },
    List {
        path: DNS_ENDPOINTS,
        kind: "EndpointSliceList",
        api_version: "discovery.k8s.io/v1",
        // The list of objects with a DNS label contains them as well.
        given: |cluster| {
            cluster.change(|world| {
                for slice in world.kubernetes.objects.get_mut("endpointslices.discovery.k8s.io").unwrap() {
                    slice["metadata"]["labels"].as_object_mut().unwrap().remove("k8s-app");
                }
            });
        },
        check: "k8s.dns",
        empty: Some((1, "dns-no-endpoints")),
    },
    List {
        path: SIGNING_REQUESTS,
        kind: "CertificateSigningRequestList",
        api_version: "certificates.k8s.io/v1",
        given: |_| {},
        check: "k8s.nodes.csrs",
        empty: None,
    },
    List {
        path: VALIDATING_WEBHOOKS,
        kind: "ValidatingWebhookConfigurationList",
        api_version: "admissionregistration.k8s.io/v1",
        given: |_| {},
        check: "k8s.webhooks",
        empty: None,
    },
    List {
        path: MUTATING_WEBHOOKS,
        kind: "MutatingWebhookConfigurationList",
        api_version: "admissionregistration.k8s.io/v1",
        given: |_| {},
        check: "k8s.webhooks",
        empty: None,
    },
    List {
        path: DEFINITIONS,
        kind: "CustomResourceDefinitionList",
        api_version: "apiextensions.k8s.io/v1",
        given: |_| {},
        check: "k8s.webhooks",
        empty: None,
    },
    List {
        path: API_SERVICES,
        kind: "APIServiceList",
        api_version: "apiregistration.k8s.io/v1",
        given: |_| {},
        check: "k8s.apiservices",
        empty: None,
    },
    List {
        path: SYSTEM_LEASES,
        kind: "LeaseList",
        api_version: "coordination.k8s.io/v1",
        given: |cluster| {
            forget_endpoint(cluster, "cp-1");
            hide(cluster, "cp-1");
        },
        check: "k8s.api.servers",
        empty: Some((1, "server-not-directly-reachable")),
    },
    List {
        path: API_ENDPOINTS,
        kind: "EndpointSliceList",
        api_version: "discovery.k8s.io/v1",
        given: |_| (),
        check: "k8s.api.servers",
        empty: Some((1, "api-service-empty")),
    },
];

/// Gives a control plane an address in Kubernetes that leads nowhere from here. This one fails immediately, while lost packets would cause
/// a wait.
fn hide(cluster: &Cluster, name: &str) {
    let (address, nowhere) = (cluster.address(name).to_string(), "a".repeat(64));
    cluster.change(|world| {
        let node = world.kubernetes.object_mut("nodes", None, name);
        node["status"]["addresses"] = json!([{"type": "InternalIP", "address": nowhere}]);
        for slice in world.kubernetes.objects.get_mut(SLICES).unwrap() {
            for endpoint in slice["endpoints"].as_array_mut().unwrap() {
                for at in endpoint["addresses"].as_array_mut().unwrap().iter_mut().filter(|at| **at == *address) {
                    *at = nowhere.clone().into();
                }
            }
        }
    });
}

fn fail(code: u16) -> Misbehavior {
    Misbehavior::Fail { code, text: "it broke".to_owned() }
}

fn body(text: &str) -> Misbehavior {
    Misbehavior::Body(text.to_owned())
}

/// Exit code and reason.
type Said = (i32, &'static str);

/// Possible answers of every path, with the result for a list and the result for `/readyz`.
fn misbehaviors() -> Vec<(Misbehavior, Said, Said)> {
    let unreadable = (69, "unreadable-answer");
    let no_answer = (69, "no-answer");
    let forbidden = (77, "forbidden-or-starting");
    let not_ready = (1, "api-not-ready");
    vec![
        (Misbehavior::Hang, (69, "timed-out"), (1, "api-frozen")),
        (fail(401), (77, "unauthorized"), (77, "unauthorized")),
        (fail(403), forbidden, forbidden),
        (fail(404), no_answer, unreadable),
        (fail(409), no_answer, unreadable),
        (fail(410), no_answer, unreadable),
        (fail(429), (69, "throttled"), (69, "throttled")),
        (fail(500), no_answer, not_ready),
        (fail(503), no_answer, not_ready),
        (fail(504), no_answer, not_ready),
        (Misbehavior::Garbage, unreadable, unreadable),
        (Misbehavior::Cut, (69, "api-unreachable"), (1, "api-unreachable")),
        (Misbehavior::Stall, (69, "timed-out"), (1, "api-frozen")),
        (Misbehavior::Endless, (69, "timed-out"), (69, "answer-too-large")),
        (body(""), unreadable, unreadable),
        (body("null"), unreadable, unreadable),
        (body("[]"), unreadable, unreadable),
        (body("{}"), unreadable, unreadable),
        (body("<html>Welcome</html>"), unreadable, unreadable),
        (body(r#"{"kind":"SecretList","apiVersion":"v1","metadata":{},"items":[]}"#), unreadable, unreadable),
    ]
}

/// Ways in which a list of the right kind can be wrong.
const WRONG_LISTS: [&str; 8] = [
    r#"{"kind":"KIND","apiVersion":"v0","metadata":{},"items":[]}"#,
    r#"{"kind":"KIND","apiVersion":"VERSION","metadata":{}}"#,
    r#"{"kind":"KIND","apiVersion":"VERSION","metadata":{},"items":{}}"#,
    r#"{"kind":"KIND","apiVersion":"VERSION","metadata":{},"items":[{}]}"#,
    r#"{"kind":"KIND","apiVersion":"VERSION","metadata":{},"items":[{"metadata":{"name":""}}]}"#,
    r#"{"kind":"KIND","apiVersion":"VERSION","metadata":{},"items":[{"metadata":{"name":"a","namespace":"elsewhere"}}]}"#,
    r#"{"kind":"KIND","apiVersion":"VERSION","metadata":{},"items":[null]}"#,
    r#"[{"kind":"KIND","apiVersion":"VERSION","metadata":{},"items":[]}]"#,
];

/// Lists whose objects have no namespace, or are in any namespace.
const CLUSTER_SCOPED: [&str; 9] = [
    DAEMON_SETS,
    PENDING_PODS,
    EVENTS,
    NODES,
    SIGNING_REQUESTS,
    VALIDATING_WEBHOOKS,
    MUTATING_WEBHOOKS,
    DEFINITIONS,
    API_SERVICES,
];

/// Returns the possible answers of one path, with the results.
fn ways(list: &List) -> Vec<(Misbehavior, Said)> {
    let of = |text: &str| body(&text.replace("KIND", list.kind).replace("VERSION", list.api_version));
    // A refusal that only affects a warning is skipped.
    let is_skipped = |does: &Misbehavior| match list.path {
        SIGNING_REQUESTS | API_SERVICES => *does == fail(403),
        // These may also be too large.
        DEFINITIONS => *does == fail(403) || *does == Misbehavior::Endless,
        _ => false,
    };
    let every = misbehaviors().into_iter().map(|(does, said, _)| (does, said)).filter(|(does, _)| !is_skipped(does));
    let wrong = WRONG_LISTS.map(|text| {
        if CLUSTER_SCOPED.contains(&list.path) {
            text.replace("elsewhere", "").replace(r#""a""#, r#""""#)
        } else {
            text.to_owned()
        }
    });
    let mut ways: Vec<_> = every.chain(wrong.iter().map(|text| (of(text), (69, "unreadable-answer")))).collect();
    if let Some(empty) = list.empty {
        // `null` is Go's empty list.
        let null = of(r#"{"kind":"KIND","apiVersion":"VERSION","metadata":{},"items":null}"#);
        ways.extend([(Misbehavior::Empty, empty), (null, empty)]);
    }
    ways
}

/// Asserts that a check reports this reason, and no other.
#[track_caller]
fn says(judged: &Judgment, check: &str, reason: &str, what: &str) {
    let said: BTreeSet<_> = judged.of(check).into_iter().map(|(reason, _)| reason).collect();
    // An endless stream of blanks is either a list that has not begun or one that is too long, whichever is detected first.
    let instead = if reason == "timed-out" { "answer-too-large" } else { reason };
    let is_said = said == BTreeSet::from([reason]) || said == BTreeSet::from([instead]);
    assert!(is_said, "{what}: {judged}");
}

/// Lists that depend on each other are tried one at a time, the others all at once, because each has a separate check.
#[test]
fn every_list_is_evidence_only_as_a_whole() {
    let together = [NODE_LEASES, PODS, DAEMON_SETS, DNS_ENDPOINTS, SIGNING_REQUESTS, VALIDATING_WEBHOOKS, API_SERVICES];
    let (some, alone): (Vec<_>, Vec<_>) = LISTS.into_iter().partition(|list| together.contains(&list.path));
    let groups = alone.into_iter().map(|list| vec![list]).chain([some]);
    let cases = groups.flat_map(|lists| {
        let most = lists.iter().map(|list| ways(list).len()).max().unwrap();
        (0..most).map(move |way| (lists.clone(), way))
    });
    side_by_side(cases, 6, |(lists, way)| {
        let cluster = cluster();
        let said: Vec<_> = lists.iter().filter_map(|list| Some((list, ways(list).into_iter().nth(way)?))).collect();
        for (list, (does, _)) in &said {
            (list.given)(&cluster);
            answers(&cluster, list.path, does.clone());
        }
        let judged = round(&cluster, &["--no-talos"]);
        for (list, (does, (_, reason))) in &said {
            says(&judged, list.check, reason, &format!("{} {does:?}", list.path));
        }
        let code = [1, 77, 69].into_iter().find(|code| said.iter().any(|(_, (_, (its, _)))| its == code));
        assert_eq!(Some(judged.outcome.code), code, "{judged}");
    });
}

#[test]
fn readyz_passes_with_its_own_words_alone() {
    let more = [(Misbehavior::Empty, (69, "unreadable-answer")), (body("okay"), (69, "unreadable-answer"))];
    let all = misbehaviors().into_iter().map(|(does, _, said)| (does, said)).chain(more);
    side_by_side(all, 6, |(does, (code, reason))| {
        let cluster = cluster();
        let what = format!("{does:?}");
        answers(&cluster, READYZ, does);
        let judged = round(&cluster, &["--no-talos"]);
        says(&judged, "k8s.api.endpoint", reason, &what);
        assert_eq!(judged.outcome.code, code, "{what}: {judged}");
        assert_ne!(judged.status("k8s.api.servers"), "pass", "{what}: {judged}");
    });
}

/// The UID only identifies the cluster, and no check needs it.
#[test]
fn without_its_identity_a_cluster_is_as_healthy() {
    let other = body(r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"default","uid":"0f2a"}}"#);
    let all = misbehaviors().into_iter().map(|(does, ..)| does).chain([Misbehavior::Empty, other]);
    side_by_side(all, 6, |does| {
        let cluster = cluster();
        let what = format!("{does:?}");
        answers(&cluster, SYSTEM_NAMESPACE, does);
        let judged = round(&cluster, &["--no-talos"]);
        assert_eq!(judged.outcome.code, 0, "{what}: {judged}");
        assert!(judged.outcome.json()["cluster"].get("kubeSystemUid").is_none(), "{what}: {judged}");
    });
}

/// Reads a path with an independent client and the credentials of the kubeconfig.
fn read_by_another_client(kubeconfig: &str, path: &str) -> (u16, String) {
    let kubeconfig: serde_yaml::Value = serde_yaml::from_str(kubeconfig).unwrap();
    let (cluster, user) = (&kubeconfig["clusters"][0]["cluster"], &kubeconfig["users"][0]["user"]);
    let pem = |data: &serde_yaml::Value| STANDARD.decode(data.as_str().unwrap()).unwrap();
    let identity = [pem(&user["client-certificate-data"]), pem(&user["client-key-data"])].concat();
    let url = format!("{}{path}", cluster["server"].as_str().unwrap());
    let _ = rustls::crypto::ring::default_provider().install_default();
    let read = async {
        let client = reqwest::Client::builder()
            .tls_certs_only([reqwest::Certificate::from_pem(&pem(&cluster["certificate-authority-data"]))?])
            .identity(reqwest::Identity::from_pem(&identity)?)
            .no_proxy()
            .build()?;
        let answer = client.get(url).send().await?;
        Ok::<_, reqwest::Error>((answer.status().as_u16(), answer.text().await?))
    };
    tokio::runtime::Runtime::new().unwrap().block_on(read).unwrap()
}

#[test]
fn another_client_reads_the_same_of_readyz() {
    let cluster = cluster();
    let readyz = || read_by_another_client(cluster.kubeconfig(), "/readyz?verbose");
    let (code, text) = readyz();
    assert_eq!((code, text.contains("[-]")), (200, false), "{text}");
    cluster.run(&["--no-talos"]).is(0, &[]);
    cluster.change(|world| {
        for machine in world.machines.values_mut() {
            machine.api_server.iter_mut().for_each(|server| server.failing.push("informer-sync".to_owned()));
        }
    });
    let (code, text) = readyz();
    assert_eq!((code, text.contains("[-]informer-sync")), (500, true), "{text}");
    let judged = cluster.run(&["--no-talos"]);
    says(&judged, "k8s.api.endpoint", "api-not-ready", "informer-sync");
}

/// One of three servers answers like this, while the endpoint leads to another one.
#[test]
fn one_server_whose_readyz_is_wrong() {
    side_by_side(misbehaviors(), 6, |(does, _, (code, reason))| {
        let cluster = cluster();
        let server = Some(cluster.api_server("cp-1"));
        cluster.change(|world| world.call_faults = vec![CallFault { server, ..CallFault::all(READYZ, does) }]);
        let other = format!("{}:6443", cluster.address("cp-2"));
        round(&cluster, &["--no-talos", "--k8s-endpoint", &other]).is(code, &[("k8s.api.servers", reason, "cp-1")]);
    });
}

#[test]
fn a_cluster_without_anything_in_it_is_not_healthy() {
    let cluster = cluster();
    answers(&cluster, "/api*", Misbehavior::Empty);
    let judged = round(&cluster, &["--no-talos"]);
    let said = (judged.outcome.code, judged.status("k8s.api.endpoint"), judged.status("k8s.nodes.ready"));
    assert_eq!(said, (69, "pass", "error"), "{judged}");
}

#[test]
fn no_path_is_asked_that_is_not_tried_here() {
    let cluster = cluster();
    cluster.run(&[]).is(0, &[]);
    let counts = cluster.simulator().calls().counts();
    let asked: BTreeSet<_> =
        counts.iter().map(|count| count.call.as_str()).filter(|call| call.starts_with('/')).collect();
    let tried = LISTS.iter().map(|list| list.path).chain([READYZ, SYSTEM_NAMESPACE]);
    assert_eq!(asked, tried.collect());
}

#[test]
fn what_is_late_and_in_time_counts() {
    let cluster = cluster();
    let late = Misbehavior::Late(std::time::Duration::from_millis(300));
    answers(&cluster, "/*", late);
    round(&cluster, &["--no-talos"]).is(0, &[]);
}

/// Redirects are followed neither to a foreign server nor to another server of the same CA.
#[test]
fn redirects_are_not_followed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let elsewhere = listener.local_addr().unwrap();
    let cluster = cluster();
    let sibling = cluster.address("cp-3");
    for to in
        [format!("https://{elsewhere}/"), format!("http://{elsewhere}/"), format!("https://{sibling}:6443/elsewhere")]
    {
        for (path, check, reason) in
            [(NODES, "k8s.nodes.ready", "no-answer"), (READYZ, "k8s.api.endpoint", "unreadable-answer")]
        {
            cluster.change(|world| {
                world.call_faults = vec![CallFault::all(path, Misbehavior::Redirect(to.clone()))];
            });
            let judged = round(&cluster, &["--no-talos"]);
            says(&judged, check, reason, &to);
            assert_eq!(judged.outcome.code, 69, "{judged}");
        }
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody came");
    let counts = cluster.simulator().calls().counts();
    assert!(counts.iter().all(|count| count.call != "/elsewhere"), "{counts:?}");
}
