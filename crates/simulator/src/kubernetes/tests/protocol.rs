//! Paths, headers, forms and error answers.

use serde_json::json;

use super::{Http, kube_as, simulator, simulator_of};

#[tokio::test]
async fn answers_are_dated_by_the_cluster_over_both_versions_of_http() {
    let simulator = simulator_of(|world| world.clock_ahead = 3600);
    let leaf = simulator.pki().kubernetes.client("reader", &[], crate::pki::Flaw::None).unwrap();
    let old = reqwest::Client::builder().http1_only();
    for http in [Http::with(&simulator, Some(&leaf)), Http::built(&simulator, Some(&leaf), old)] {
        let ready = http.get("/readyz?verbose").await;
        assert_eq!((ready.status, ready.header("content-type")), (200, "text/plain; charset=utf-8"));
        assert_eq!(ready.header("audit-id").len(), 36);
        let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(ready.header("date")).unwrap();
        let ahead = date.as_second() - jiff::Timestamp::now().as_second();
        assert!((3590..=3600).contains(&ahead), "{ahead}");
        assert!(ready.body.ends_with("[+]shutdown ok\nreadyz check passed\n"));
    }
}

#[tokio::test]
async fn versions_and_groups_are_discovered() {
    let simulator = simulator();
    let client = kube_as(&simulator, "reader").await;
    assert_eq!(client.apiserver_version().await.unwrap().git_version, "v1.35.4");
    let groups = client.list_api_groups().await.unwrap().groups;
    assert!(groups.iter().any(|group| group.name == "coordination.k8s.io"));
    let resources = client.list_api_group_resources("apps/v1").await.unwrap().resources;
    assert!(resources.iter().any(|resource| resource.name == "daemonsets" && resource.namespaced));
    let core = client.list_core_api_resources("v1").await.unwrap().resources;
    assert!(core.iter().any(|resource| resource.name == "nodes" && !resource.namespaced));
    let http = Http::reader(&simulator);
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let seen = Http::send(http.request("/apis").header("accept", aggregated)).await;
    assert!(seen.header("content-type").ends_with("as=APIGroupDiscoveryList"));
    let group = json!("leases");
    let items = seen.json()["items"].as_array().unwrap().clone();
    assert!(items.iter().any(|it| it["versions"][0]["resources"][0]["resource"] == group));
    assert_eq!(http.get("/api").await.json()["kind"], "APIVersions");
}

#[tokio::test]
async fn a_table_has_what_kubectl_prints() {
    let simulator = simulator();
    simulator.change(|world| {
        world.kubernetes.merge("nodes", None, "worker-1", &json!({"spec": {"unschedulable": true}}));
    });
    let http = Http::reader(&simulator);
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let table = Http::send(http.request("/api/v1/nodes?limit=500").header("accept", accept)).await.json();
    assert_eq!(table["kind"], "Table");
    let row = |index: usize| {
        let cells = table["rows"][index]["cells"].as_array().unwrap();
        cells[..5].iter().map(|cell| cell.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(row(0), ["cp-1", "Ready", "control-plane", "21d", "v1.35.4"]);
    assert_eq!(row(3), ["worker-1", "Ready,SchedulingDisabled", "<none>", "21d", "v1.35.4"]);
    let columns = table["columnDefinitions"].as_array().unwrap();
    assert_eq!((columns.len(), &columns[9]["name"]), (10, &json!("Container-Runtime")));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let one = Http::send(http.request("/api/v1/nodes/cp-1").header("accept", accept)).await.json();
    assert_eq!(one["rows"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_not_there_is_told_as_by_a_real_one() {
    let simulator = simulator();
    let http = Http::admin(&simulator);
    let missing = http.get("/api/v1/nodes/none").await;
    assert_eq!(missing.status, 404);
    let expected = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"nodes \"none\" not found","reason":"NotFound","details":{"name":"none","kind":"nodes"},"code":404}"#;
    assert_eq!(missing.body.trim_end(), expected);
    let unknown = "the server could not find the requested resource";
    for path in ["/api/v1/foos", "/apis/apps/v9", "/api/v1/pods/x", "/api/v1/namespaces/default/nodes"] {
        let seen = http.get(path).await;
        assert_eq!((seen.status, seen.json()["message"].as_str()), (404, Some(unknown)), "{path}");
    }
    for path in ["/nope", "/readyz/nope", "/readyz/", "/apis/nope.io"] {
        let seen = http.get(path).await;
        assert_eq!((seen.status, seen.body.as_str()), (404, "404 page not found\n"), "{path}");
    }
    for query in ["limit=x", "labelSelector=a(b", "fieldSelector=status.foo=1", "resourceVersion=abc", "continue=*"] {
        let seen = http.get(&format!("/api/v1/nodes?{query}")).await;
        assert_eq!((seen.status, seen.json()["reason"].as_str()), (400, Some("BadRequest")), "{query}");
    }
    let too_new = http.get("/api/v1/nodes?resourceVersion=99999999999").await;
    assert_eq!((too_new.status, too_new.header("retry-after")), (504, "1"));
    let written = Http::send(http.client.delete(format!("{}/api/v1/nodes/cp-1", http.base))).await;
    assert_eq!((written.status, written.json()["reason"].as_str()), (405, Some("MethodNotAllowed")));
    let protobuf = http.request("/api/v1/nodes").header("accept", "application/vnd.kubernetes.protobuf");
    assert_eq!(Http::send(protobuf).await.status, 406);
    let head = Http::send(http.client.head(format!("{}/readyz", http.base))).await;
    assert_eq!((head.status, head.header("content-length"), head.body.as_str()), (200, "2", ""));
    let person = Http::send(http.request("/api/v1/nodes?limit=1").header("user-agent", "curl/8.5.0")).await;
    assert!(person.body.starts_with("{\n  \"kind\": \"NodeList\",\n"));
}
