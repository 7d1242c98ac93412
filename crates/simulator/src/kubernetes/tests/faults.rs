//! Unhealthy servers and wrong answers.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Http, simulator, simulator_of};
use crate::world::{CallFault, Misbehavior, Process, Server};

#[tokio::test]
async fn an_api_server_is_as_well_as_the_etcd_beside_it() {
    let simulator = simulator_of(|world| world.etcd[0].members[0].process = Process::Stopped);
    let (first, second) = (Http::admin(&simulator).at(&simulator, 0), Http::admin(&simulator).at(&simulator, 1));
    let begun = Instant::now();
    let (live, ready, one) = tokio::join!(first.get("/livez"), first.get("/readyz"), first.get("/readyz/etcd"));
    assert!(begun.elapsed() >= Duration::from_secs(4));
    assert_eq!((live.status, ready.status, one.status), (500, 500, 500));
    let failing: Vec<_> = ready.body.lines().filter(|line| line.starts_with("[-]")).collect();
    assert_eq!(failing, ["[-]etcd failed: reason withheld", "[-]etcd-readiness failed: reason withheld"]);
    assert!(first.hangs("/api/v1/nodes").await && first.hangs("/api/v1/nodes/cp-1").await);
    let cached = first.get("/api/v1/nodes?resourceVersion=0").await;
    assert_eq!(cached.json()["items"].as_array().unwrap().len(), 4);
    assert_eq!(first.get("/version").await.status, 200);
    assert_eq!(second.get("/readyz").await.status, 200);
    assert_eq!(second.get("/api/v1/nodes").await.status, 200);
    // Without a quorum, no API server works.
    simulator.change(|world| world.etcd[0].members[2].process = Process::Frozen);
    assert!(second.hangs("/api/v1/nodes").await);
    simulator.change(|world| world.etcd[0].members.iter_mut().for_each(|member| member.process = Process::Running));
    assert_eq!(first.get("/readyz").await.body, "ok");
}

#[tokio::test]
async fn checks_can_fail_at_one_server_alone() {
    let simulator = simulator();
    simulator.change(|world| {
        let failing = vec!["shutdown".to_owned()];
        world.machine_mut("cp-2").api_server.as_mut().unwrap().failing = failing;
    });
    let second = Http::reader(&simulator).at(&simulator, 1);
    let seen = second.get("/readyz").await;
    assert_eq!(seen.status, 500);
    assert!(seen.body.contains("[-]shutdown failed: reason withheld\nreadyz check failed\n"));
    assert_eq!(second.get("/livez").await.body, "ok");
    assert_eq!(Http::reader(&simulator).at(&simulator, 0).get("/readyz").await.body, "ok");
}

#[tokio::test]
async fn calls_misbehave_as_they_are_told() {
    let simulator = simulator();
    let http = Http::reader(&simulator);
    let fault = |call: &str, does: Misbehavior| {
        simulator.change(|world| world.call_faults = vec![CallFault::all(call, does)]);
    };
    fault(
        "/api/v1/nodes",
        Misbehavior::Fail { code: 429, text: "Too many requests, please try again later.\n".into() },
    );
    let throttled = http.get("/api/v1/nodes?limit=500").await;
    assert_eq!((throttled.status, throttled.header("retry-after")), (429, "1"));
    assert_eq!(throttled.body, "Too many requests, please try again later.\n");
    assert_eq!(http.get("/readyz").await.status, 200);

    let status = json!({"kind": "Status", "message": "etcdserver: mvcc: database space exceeded", "code": 500});
    fault("/api/*", Misbehavior::Fail { code: 500, text: status.to_string() });
    let failed = http.get("/api/v1/nodes").await;
    assert_eq!((failed.status, failed.header("content-type")), (500, "application/json"));

    fault("/api/v1/nodes", Misbehavior::Hang);
    assert!(http.hangs("/api/v1/nodes").await);

    fault("/api/v1/nodes", Misbehavior::Empty);
    let empty = http.get("/api/v1/nodes?limit=1").await.json();
    assert_eq!((&empty["kind"], &empty["items"]), (&json!("NodeList"), &json!([])));
    assert_eq!(empty["metadata"]["continue"], Value::Null);
    fault("/readyz", Misbehavior::Empty);
    assert_eq!(http.get("/readyz?verbose").await.body, "");

    fault("/readyz", Misbehavior::Body("<html>Welcome</html>".to_owned()));
    let page = http.get("/readyz?verbose").await;
    assert_eq!((page.status, page.body.as_str()), (200, "<html>Welcome</html>"));

    fault("/readyz", Misbehavior::Redirect("https://192.0.2.1/login".to_owned()));
    let elsewhere = http.get("/readyz").await;
    assert_eq!((elsewhere.status, elsewhere.header("location")), (302, "https://192.0.2.1/login"));

    fault("/readyz", Misbehavior::Late(Duration::from_millis(200)));
    let begun = Instant::now();
    assert_eq!(http.get("/readyz").await.body, "ok");
    assert!(begun.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn of_two_faults_that_of_the_longer_name_counts() {
    let simulator = simulator();
    let fails = |code| Misbehavior::Fail { code, text: "no".to_owned() };
    simulator.change(|world| {
        world.call_faults = vec![CallFault::all("/ready*", fails(500)), CallFault::all("/readyz", fails(503))];
    });
    assert_eq!(Http::reader(&simulator).at(&simulator, 0).get("/readyz").await.status, 503);
}

#[tokio::test]
async fn one_server_can_be_told_to_fail_for_a_while() {
    let simulator = simulator();
    let server = Server::ApiServer(simulator.network().machine(1));
    simulator.change(|world| {
        let fails = Misbehavior::Fail { code: 503, text: "starting".to_owned() };
        world.call_faults =
            vec![CallFault { server: Some(server.clone()), times: Some(1), ..CallFault::all("/readyz", fails) }];
    });
    assert_eq!(Http::reader(&simulator).at(&simulator, 0).get("/readyz").await.status, 200);
    let http = Http::reader(&simulator).at(&simulator, 1);
    assert_eq!(http.get("/readyz?verbose").await.status, 503);
    assert_eq!(http.get("/readyz").await.status, 200);
    let counts = simulator.calls().counts();
    assert!(counts.iter().any(|count| count.server == server && count.call == "/readyz" && count.times == 2));
}
