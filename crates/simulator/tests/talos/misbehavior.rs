//! Calls that are answered wrongly.

use std::time::Duration;

use simulator::world::{CallFault, Misbehavior, Server};
use talos_api::google::protobuf::Empty;
use talos_api::machine::LogsRequest;
use tokio::time::Instant;
use tonic::Code;

use crate::client::{address, admin, cluster, failed, hostnames, to};

#[tokio::test]
async fn calls_fail_are_late_or_come_from_elsewhere() {
    let simulator = cluster(|world| {
        let fail = Misbehavior::Fail { code: 13, text: "it broke".to_owned() };
        let once = CallFault { after: 1, times: Some(1), ..CallFault::all("Hostname", fail) };
        let from = CallFault::all("Version", Misbehavior::From("cp-3".to_owned()));
        world.call_faults = vec![once, from, CallFault::all("Memory", Misbehavior::Late(Duration::from_millis(200)))];
    });
    let mut client = admin(&simulator, "cp-1").await;
    let well = Ok(vec![(String::new(), "cp-1".to_owned())]);
    assert_eq!(hostnames(&mut client, &[]).await, well);
    assert_eq!(hostnames(&mut client, &[]).await, Err((Code::Internal, "it broke".to_owned())));
    assert_eq!(hostnames(&mut client, &[]).await, well);

    simulator.change(|world| world.machine_mut("cp-3").maintenance = true);
    let version = client.version(Empty {}).await.unwrap().into_inner();
    assert_eq!(version.messages[0].features, None);

    let began = Instant::now();
    client.memory(Empty {}).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn empty_answers_have_their_form() {
    let simulator = cluster(|world| {
        let empty = |call| CallFault::all(call, Misbehavior::Empty);
        world.call_faults = vec![empty("Hostname"), empty("Logs")];
    });
    let mut client = admin(&simulator, "cp-1").await;
    assert_eq!(client.hostname(Empty {}).await.unwrap().into_inner().messages, []);
    let mut logs = client.logs(LogsRequest::default()).await.unwrap().into_inner();
    assert_eq!(logs.message().await.unwrap(), None);
    let of_both = hostnames(&mut client, &[("nodes", "cp-1"), ("nodes", "cp-2")]).await.unwrap();
    assert_eq!(of_both, [("cp-1".to_owned(), String::new()), ("cp-2".to_owned(), String::new())]);
}

/// Not even the deadline of a call leads to an answer.
#[tokio::test]
async fn a_call_that_hangs_hangs_for_good() {
    let simulator = cluster(|_| {});
    let server = Some(Server::Apid(address(&simulator, "cp-2")));
    let fault = CallFault { server, ..CallFault::all("Hostn*", Misbehavior::Hang) };
    simulator.change(|world| world.call_faults.push(fault));
    let mut client = admin(&simulator, "cp-1").await;
    let mut request = to(Empty {}, &[("node", "cp-2")]);
    request.metadata_mut().insert("grpc-timeout", "50m".parse().unwrap());
    let answer = tokio::time::timeout(Duration::from_millis(400), client.hostname(request)).await;
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(hostnames(&mut client, &[]).await.unwrap()[0].1, "cp-1");
}

#[tokio::test]
async fn a_late_answer_does_not_outlast_the_deadline() {
    let simulator = cluster(|world| {
        world.call_faults = vec![CallFault::all("*", Misbehavior::Late(Duration::from_secs(60)))];
    });
    let mut client = admin(&simulator, "cp-1").await;
    let mut request = to(Empty {}, &[]);
    request.metadata_mut().insert("grpc-timeout", "100m".parse().unwrap());
    assert_eq!(failed(client.hostname(request).await).0, Code::DeadlineExceeded);
}
