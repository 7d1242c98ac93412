//! Answers other than the expected list: refusals, redirects, endless answers, repeated pages.

use super::*;

#[tokio::test]
async fn refusals_of_lists_are_told_apart() {
    let pki = Pki::new();
    let status = |code: u16, message: &str| {
        format!(r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"{message}","code":{code}}}"#)
    };
    for (line, body, kind, text) in [
        ("401 Unauthorized", status(401, "Unauthorized"), GapKind::Unauthenticated, "401: Unauthorized"),
        ("403 Forbidden", status(403, "nodes is forbidden"), GapKind::Forbidden, "403: nodes is forbidden"),
        ("404 Not Found", "404 page not found\n".to_owned(), GapKind::ServerError, "404: 404 page not found"),
        (
            "429 Too Many Requests",
            "Too many requests, please try again later.\n".to_owned(),
            GapKind::Throttled,
            "429: Too many requests, please try again later.",
        ),
        ("410 Gone", EXPIRED.to_owned(), GapKind::ServerError, "410: The provided continue parameter is too old"),
        (
            "500 Internal Server Error",
            status(500, "etcdserver: no leader"),
            GapKind::ServerError,
            "500: etcdserver: no leader",
        ),
        ("503 Service Unavailable", String::new(), GapKind::ServerError, "503 Service Unavailable"),
    ] {
        let server = good(&pki, move |_| http(line, "retry-after: 0\r\n", &body)).await;
        let gap = nodes(pki.config(&server.url()), CALL).await.unwrap_err();
        assert_eq!((gap.kind, &*gap.text), (kind, text));
        let tries = if kind == GapKind::Throttled { 3 } else { 1 };
        assert_eq!(server.heads().len(), tries, "{line}");
    }
}

#[tokio::test]
async fn redirects_are_answers_and_are_not_followed() {
    let pki = Pki::new();
    let other = good(&pki, |_| http("200 OK", "", READY)).await;
    let location = format!("location: {}/readyz\r\n", other.url());
    let server = good(&pki, move |_| http("302 Found", &location, "")).await;
    let config = pki.config(&server.url());
    assert_eq!(readyz(config.clone(), CALL).await.unwrap().status, 302);
    assert_eq!(nodes(config, CALL).await.unwrap_err().kind, GapKind::ServerError);
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn endless_answers_are_cut_off() {
    let pki = Pki::new();
    let server =
        good(&pki, |_| Reply::Endless(b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), b"[+]ping ok\n".repeat(1000))).await;
    assert_eq!(readyz(pki.config(&server.url()), CALL).await.unwrap_err().kind, GapKind::TooLarge);
}

#[tokio::test]
async fn answers_that_are_no_such_list_are_malformed() {
    let pki = Pki::new();
    for body in [
        "",
        "{",
        "<html>",
        "[]",
        r#"{"kind":"NodeList","apiVersion":"v1","metadata":{}}"#,
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}"#,
        r#"{"kind":"NodeList","apiVersion":"v2","metadata":{},"items":[]}"#,
        r#"{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[{"metadata":{}}]}"#,
        r#"{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":""}}]}"#,
        r#"{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":7}}]}"#,
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no"}"#,
    ] {
        let server = good(&pki, move |_| http("200 OK", "", body)).await;
        let gap = nodes(pki.config(&server.url()), CALL).await.unwrap_err();
        assert_eq!(gap.kind, GapKind::Malformed, "{body}: {}", gap.text);
    }
    let foreign = r#"[{"metadata":{"name":"a","namespace":"default"}}]"#;
    let server = good(&pki, |_| list("PodList", "v1", "", foreign)).await;
    let client = client(pki.config(&server.url()), CALL).await;
    let seen = client.observe(&BTreeSet::from([Fact::Pods]), &KnownLeases::default(), true).await;
    assert_eq!(seen.pods.unwrap_err().kind, GapKind::Malformed);
}

#[tokio::test]
async fn long_lists_are_read_to_their_end() {
    let pki = Pki::new();
    let server = good(&pki, |head| {
        assert!(head.contains("limit=500"), "{head}");
        if head.contains("continue=second") { node_list("", &["w-2"]) } else { node_list("second", &["cp-1", "w-1"]) }
    })
    .await;
    let names: Vec<_> =
        nodes(pki.config(&server.url()), CALL).await.unwrap().into_iter().map(|node| node.name).collect();
    assert_eq!(names, ["cp-1", "w-1", "w-2"]);
}

#[tokio::test]
async fn an_expired_continuation_is_begun_anew_once() {
    let pki = Pki::new();
    let asked = AtomicUsize::new(0);
    let server = good(&pki, move |head| {
        let round = asked.fetch_add(1, Ordering::Relaxed);
        match (round, head.contains("continue=")) {
            (0 | 2, false) => node_list("next", &["cp-1"]),
            (1, true) => http("410 Gone", "", EXPIRED),
            (3, true) => node_list("", &["w-1"]),
            _ => http("500 Internal Server Error", "", ""),
        }
    })
    .await;
    assert_eq!(nodes(pki.config(&server.url()), CALL).await.unwrap().len(), 2, "nothing twice");

    let server = good(&pki, |head| {
        if head.contains("continue=") { http("410 Gone", "", EXPIRED) } else { node_list("next", &["cp-1"]) }
    })
    .await;
    assert_eq!(nodes(pki.config(&server.url()), CALL).await.unwrap_err().kind, GapKind::ServerError);
    assert_eq!(server.heads().len(), 4);
}

#[tokio::test]
async fn a_list_without_end_is_too_large() {
    let pki = Pki::new();
    let number = AtomicUsize::new(0);
    let server = good(&pki, move |_| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        node_list("again", &[&format!("w-{number}")])
    })
    .await;
    assert_eq!(nodes(pki.config(&server.url()), CALL).await.unwrap_err().kind, GapKind::TooLarge);
}

/// Elements of three bytes on the wire that take a hundred in memory.
#[tokio::test]
async fn lists_of_crumbs_are_not_read() {
    let pki = Pki::new();
    let crumbs = |one: &str, times: usize| format!("[{}{one}]", format!("{one},").repeat(times));
    for pod in [
        format!(
            r#"{{"metadata":{{"name":"a","namespace":"kube-system"}},"spec":{{"containers":{}}}}}"#,
            crumbs("{}", 1000)
        ),
        format!(r#"{{"metadata":{{"name":"a","namespace":"kube-system","managedFields":{}}}}}"#, crumbs("{}", 1000)),
        (0..200)
            .map(|at| {
                format!(
                    r#"{{"metadata":{{"name":"a{at}","namespace":"kube-system"}},"status":{{"conditions":{}}}}}"#,
                    crumbs("{}", 900)
                )
            })
            .collect::<Vec<_>>()
            .join(","),
    ] {
        let server = good(&pki, move |_| list("PodList", "v1", "", &format!("[{pod}]"))).await;
        let client = client(pki.config(&server.url()), CALL).await;
        let seen = client.observe(&BTreeSet::from([Fact::Pods]), &KnownLeases::default(), true).await;
        let gap = seen.pods.unwrap_err();
        assert_eq!(gap.kind, GapKind::TooLarge, "{}", gap.text);
    }
    let labels: Vec<_> = (0..2000).map(|at| format!(r#""{at}":"""#)).collect();
    let node = format!(r#"[{{"metadata":{{"name":"a","labels":{{{}}}}}}}]"#, labels.join(","));
    let server = good(&pki, move |_| list("NodeList", "v1", "", &node)).await;
    assert_eq!(nodes(pki.config(&server.url()), CALL).await.unwrap_err().kind, GapKind::TooLarge);
}

/// The list is as large as a page of large nodes, including all the fields that are ignored.
#[tokio::test]
async fn what_nobody_reads_of_an_object_may_be_much() {
    let pki = Pki::new();
    let image = r#"{"names":["registry.k8s.io/pause@sha256:0","registry.k8s.io/pause:3.10"],"sizeBytes":320368}"#;
    let images = format!("{}{image}", format!("{image},").repeat(250));
    let nodes_: Vec<_> = (0..400)
        .map(|at| format!(r#"{{"metadata":{{"name":"w-{at}"}},"spec":null,"status":{{"images":[{images}]}}}}"#))
        .collect();
    let page = format!("[{}]", nodes_.join(","));
    assert!(page.len() > 8 << 20);
    let server = good(&pki, move |_| list("NodeList", "v1", "", &page)).await;
    assert_eq!(nodes(pki.config(&server.url()), CALL).await.unwrap().len(), 400);
}

#[tokio::test]
async fn a_page_that_comes_twice_is_no_next_page() {
    let pki = Pki::new();
    let server =
        good(&pki, |head| node_list(if head.contains("continue=") { "" } else { "next" }, &["cp-1", "cp-2"])).await;
    let gap = nodes(pki.config(&server.url()), CALL).await.unwrap_err();
    assert_eq!((gap.kind, &*gap.text), (GapKind::Malformed, "`NodeList` has `cp-1` twice"));
}

#[tokio::test]
async fn a_second_page_that_fails_is_no_shorter_list() {
    let pki = Pki::new();
    let server = good(&pki, |head| {
        if head.contains("continue=") { http("403 Forbidden", "", "") } else { node_list("next", &["cp-1"]) }
    })
    .await;
    assert_eq!(nodes(pki.config(&server.url()), CALL).await.unwrap_err().kind, GapKind::Forbidden);
}

#[tokio::test]
async fn pods_of_a_driver_are_read_where_it_lacks_some() {
    let pki = Pki::new();
    let set = |namespace: &str, available: u32, path: &str| {
        serde_json::json!({
            "metadata": {"name": "node", "namespace": namespace, "generation": 1},
            "spec": {"template": {"spec": {"volumes": [{"name": "a", "hostPath": {"path": path}}]}}},
            "status": {"observedGeneration": 1, "desiredNumberScheduled": 2, "numberAvailable": available, "updatedNumberScheduled": 2},
        })
    };
    let folder = "/var/lib/kubelet/plugins_registry";
    let sets = serde_json::json!([set("well", 2, folder), set("nfs", 1, folder), set("users", 0, "/var/lib/kubelet")]);
    for is_refused in [false, true] {
        let sets = sets.to_string();
        let server = good(&pki, move |head| {
            let path = head.split(' ').nth(1).unwrap_or_default();
            match path.split_once('?').map_or(path, |(path, _)| path) {
                "/apis/apps/v1/daemonsets" => list("DaemonSetList", "apps/v1", "", &sets),
                "/api/v1/namespaces/nfs/pods" if !is_refused => {
                    let owner = r#"[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"node","uid":"1","controller":true}]"#;
                    let items = format!(
                        r#"[{{"metadata":{{"name":"node-1","namespace":"nfs","ownerReferences":{owner}}}}},{{"metadata":{{"name":"app","namespace":"nfs"}}}}]"#
                    );
                    list("PodList", "v1", "", &items)
                }
                "/api/v1/namespaces/kube-system/pods" => list("PodList", "v1", "", "[]"),
                _ => http("403 Forbidden", "", r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","code":403}"#),
            }
        })
        .await;
        let client = client(pki.config(&server.url()), CALL).await;
        let facts = BTreeSet::from([Fact::DaemonSets, Fact::Pods]);
        let seen = client.observe(&facts, &KnownLeases::default(), true).await;
        let namespaces: Vec<_> = seen.daemon_sets.unwrap().into_iter().map(|set| set.namespace).collect();
        assert_eq!(namespaces, ["well", "nfs"]);
        let names: Vec<_> = seen.plugin_pods.iter().map(|pod| pod.name.as_str()).collect();
        assert_eq!(names, if is_refused { &[][..] } else { &["node-1"] });
        let kind = seen.plugin_namespaces.err().map(|gap| gap.kind);
        assert_eq!(kind, is_refused.then_some(GapKind::Forbidden));
        assert!(
            server.heads().iter().all(|head| !head.contains("namespaces/well") && !head.contains("namespaces/users"))
        );
    }
}

#[tokio::test]
async fn definitions_are_read_once_in_a_run() {
    let pki = Pki::new();
    let definition = |name: &str| {
        let config = serde_json::json!({"service": {"namespace": "a", "name": "b"}});
        let conversion = serde_json::json!({"strategy": "Webhook", "webhook": {"clientConfig": config}});
        serde_json::json!({"metadata": {"name": name}, "spec": {"conversion": conversion}})
    };
    let pages =
        [serde_json::json!([definition("x"), {"metadata": {"name": "plain"}}]), serde_json::json!([definition("y")])];
    for (status, reads) in [("200 OK", 2), ("403 Forbidden", 2), ("500 Internal Server Error", 2)] {
        let pages = pages.clone().map(|page| page.to_string());
        let server = good(&pki, move |head| {
            let path = head.split(' ').nth(1).unwrap_or_default();
            let list =
                |next: &str, items: &str| list("CustomResourceDefinitionList", "apiextensions.k8s.io/v1", next, items);
            match path {
                path if !path.contains("customresourcedefinitions") => http("404 Not Found", "", "no"),
                _ if status != "200 OK" => http(status, "", "no"),
                path if path.contains("continue=2") => list("", &pages[1]),
                path => {
                    assert!(path.contains("limit=20"), "{path}");
                    list("2", &pages[0])
                }
            }
        })
        .await;
        let client = client(pki.config(&server.url()), CALL).await;
        let facts = BTreeSet::from([Fact::Conversions]);
        for _ in 0..2 {
            client.begin_round(false);
            let seen = client.observe(&facts, &KnownLeases::default(), true).await;
            let names =
                seen.conversions.map(|hooks| hooks.into_iter().map(|hook| hook.configuration).collect::<Vec<_>>());
            assert_eq!(names.is_ok(), status == "200 OK");
            if let Ok(names) = names {
                assert_eq!(names, ["x", "y"]);
            }
        }
        let asked = server.heads().iter().filter(|head| head.contains("customresourcedefinitions")).count();
        assert_eq!(asked, reads, "{status}: two pages once, or a refusal twice");
    }
}

#[tokio::test]
async fn drivers_are_asked_for_while_several_pods_of_a_node_wait() {
    let pki = Pki::new();
    let pod = |name: &str, node: &str| {
        serde_json::json!({
            "metadata": {"name": name, "namespace": "a", "creationTimestamp": "2026-11-21T13:40:00Z"},
            "spec": {"nodeName": node, "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]},
            "status": {"phase": "Pending"},
        })
    };
    for (nodes, is_asked) in [(["w-1", "w-1"], true), (["w-1", "w-2"], false)] {
        let pods = serde_json::json!([pod("one", nodes[0]), pod("two", nodes[1])]).to_string();
        let server = good(&pki, move |head| {
            let path = head.split(' ').nth(1).unwrap_or_default();
            match path.split_once('?').map_or(path, |(path, _)| path) {
                "/api/v1/pods" if path.contains("Pending") && !path.contains("spec.nodeName") => list("PodList", "v1", "", &pods),
                "/api/v1/pods" => list("PodList", "v1", "", "[]"),
                "/api/v1/events" => list("EventList", "v1", "", "[]"),
                "/apis/storage.k8s.io/v1/csinodes" => list(
                    "CSINodeList",
                    "storage.k8s.io/v1",
                    "",
                    r#"[{"metadata":{"name":"w-1"},"spec":{"drivers":[{"name":"d","nodeID":"w-1","topologyKeys":null}]}}]"#,
                ),
                "/apis/storage.k8s.io/v1/volumeattachments" => list(
                    "VolumeAttachmentList",
                    "storage.k8s.io/v1",
                    "",
                    r#"[{"metadata":{"name":"x"},"spec":{"attacher":"d","nodeName":"w-2","source":{"persistentVolumeName":"pv-1"}},"status":{"attached":true}}]"#,
                ),
                _ => http("404 Not Found", "", "no"),
            }
        })
        .await;
        let client = client(pki.config(&server.url()), CALL).await;
        let facts = BTreeSet::from([Fact::StartingPods, Fact::PodEvents, Fact::CsiNodes, Fact::AttachedVolumes]);
        let seen = client.observe(&facts, &KnownLeases::default(), true).await;
        assert_eq!(seen.starting_pods.unwrap().len(), 2);
        if is_asked {
            let [node] = &seen.csi_nodes.unwrap()[..] else { panic!() };
            assert_eq!((node.name.as_str(), node.drivers.as_slice()), ("w-1", &["d".to_owned()][..]));
            let [volume] = &seen.attached_volumes.unwrap()[..] else { panic!() };
            let told = (volume.node.as_str(), volume.driver.as_str(), volume.volume.as_str(), volume.attached);
            assert_eq!(told, ("w-2", "d", "pv-1", true));
        } else {
            assert_eq!((seen.csi_nodes, seen.attached_volumes), (Err(Gap::not_asked()), Err(Gap::not_asked())));
        }
    }
}
