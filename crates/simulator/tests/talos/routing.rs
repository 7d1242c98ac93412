//! Routing of calls to machines.

use std::net::IpAddr;
use std::time::Duration;

use simulator::world::{Power, Process, Server, TalosVersion, Transport};
use talos_api::common::Data;
use talos_api::cosi::resource::GetRequest;
use talos_api::cosi::resource::state_client::StateClient;
use talos_api::google::protobuf::Empty;
use talos_api::machine::{EtcdMemberListRequest, LogsRequest};
use tokio::time::Instant;
use tonic::Code;

use crate::client::{SOON, address, admin, cluster, connect, failed, hostnames, to};

fn parts(parts: &[(&str, &str)]) -> Vec<(String, String)> {
    parts.iter().map(|(from, text)| ((*from).to_owned(), (*text).to_owned())).collect()
}

fn error(code: Code, text: impl Into<String>) -> (Code, String) {
    (code, text.into())
}

#[tokio::test]
async fn one_machine_is_asked_by_address_or_name() {
    let simulator = cluster(|_| {});
    let mut client = admin(&simulator, "cp-1").await;
    let worker = address(&simulator, "worker-1").to_string();
    assert_eq!(hostnames(&mut client, &[]).await, Ok(parts(&[("", "cp-1")])));
    assert_eq!(hostnames(&mut client, &[("node", &worker)]).await, Ok(parts(&[("", "worker-1")])));
    assert_eq!(hostnames(&mut client, &[("node", "cp-3")]).await, Ok(parts(&[("", "cp-3")])));
    assert_eq!(hostnames(&mut client, &[("node", "cp-1")]).await, Ok(parts(&[("", "cp-1")])));
    assert_eq!(hostnames(&mut client, &[("node", "cp-3"), ("proxyfrom", "cp-2")]).await, Ok(parts(&[("", "cp-1")])));
    let counts = simulator.calls().counts();
    let of = |name| {
        let server = Server::Apid(address(&simulator, name));
        counts
            .iter()
            .filter(|count| count.server == server && count.call == "Hostname")
            .map(|count| count.times)
            .sum::<u64>()
    };
    assert_eq!([of("cp-1"), of("cp-2"), of("cp-3"), of("worker-1")], [3, 0, 1, 1]);
}

#[tokio::test]
async fn several_machines_answer_together_under_the_names_they_were_called() {
    let simulator = cluster(|world| world.machine_mut("cp-3").power = Power::Off);
    let mut client = admin(&simulator, "cp-1").await;
    let off = address(&simulator, "cp-3");
    let metadata = [("nodes", "cp-1"), ("nodes", "worker-1"), ("nodes", &off.to_string()), ("node", "cp-2")];
    let unreachable = format!(
        "connection error: desc = \"transport: Error while dialing: dial tcp {off}:50000: connect: no route to host\""
    );
    let expected =
        [(off.to_string(), unreachable), ("cp-1".into(), "cp-1".into()), ("worker-1".into(), "worker-1".into())];
    assert_eq!(hostnames(&mut client, &metadata).await, Ok(expected.to_vec()));

    let request = EtcdMemberListRequest { query_local: true };
    let members = client.etcd_member_list(to(request, &[("nodes", "worker-1"), ("nodes", "cp-1")])).await;
    for message in members.unwrap().into_inner().messages {
        let metadata = message.metadata.unwrap();
        match metadata.hostname.as_str() {
            "cp-1" => assert_eq!((message.members.len(), metadata.status), (3, None)),
            _ => assert_eq!(
                metadata.error,
                "rpc error: code = Unimplemented desc = member list is only available on control plane nodes"
            ),
        }
    }
}

#[tokio::test]
async fn streams_of_several_machines_are_interleaved_and_end_well() {
    let simulator = cluster(|world| {
        for name in ["cp-1", "cp-2"] {
            let lines = vec![format!("first of {name}"), format!("second of {name}")];
            world.machine_mut(name).logs.insert("etcd".to_owned(), lines);
        }
        world.machine_mut("worker-1").logs.remove("etcd");
    });
    let mut client = admin(&simulator, "cp-3").await;
    let request = LogsRequest { id: "etcd".to_owned(), tail_lines: -1, ..LogsRequest::default() };
    let nodes = [("nodes", "cp-1"), ("nodes", "worker-1"), ("nodes", "cp-2")];
    let mut stream = client.logs(to(request, &nodes)).await.unwrap().into_inner();
    let mut lines = Vec::new();
    while let Some(Data { metadata, bytes }) = stream.message().await.unwrap() {
        let metadata = metadata.unwrap();
        lines.push(format!("{} {}{}", metadata.hostname, String::from_utf8(bytes).unwrap().trim(), metadata.error));
    }
    lines.sort();
    let expected = [
        "cp-1 first of cp-1",
        "cp-1 second of cp-1",
        "cp-2 first of cp-2",
        "cp-2 second of cp-2",
        "worker-1 rpc error: code = Unknown desc = log \"etcd\" was not registered",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn workers_forward_to_nobody_but_themselves() {
    let simulator = cluster(|_| {});
    let mut client = admin(&simulator, "worker-1").await;
    let own = address(&simulator, "worker-1").to_string();
    let refused = || Err(error(Code::PermissionDenied, "no request forwarding"));
    assert_eq!(hostnames(&mut client, &[]).await, Ok(parts(&[("", "worker-1")])));
    assert_eq!(hostnames(&mut client, &[("node", &own)]).await, Ok(parts(&[("", "worker-1")])));
    assert_eq!(hostnames(&mut client, &[("nodes", "worker-1")]).await, Ok(parts(&[("", "worker-1")])));
    assert_eq!(hostnames(&mut client, &[("node", "cp-1")]).await, refused());
    assert_eq!(hostnames(&mut client, &[("nodes", "cp-1")]).await, refused());
    assert_eq!(hostnames(&mut client, &[("nodes", &own), ("nodes", "cp-1")]).await, refused());
}

#[tokio::test]
async fn targets_that_are_none_are_refused() {
    let simulator = cluster(|_| {});
    let mut client = admin(&simulator, "cp-1").await;
    let twice = [("node", "cp-1"), ("node", "cp-2")];
    let single = Err(error(Code::InvalidArgument, "node metadata must be single-valued"));
    assert_eq!(hostnames(&mut client, &twice).await, single);
    for target in ["", "cp-2:50000", "[::1]:50000"] {
        let invalid = Err(error(Code::Internal, format!("invalid target {target:?}")));
        assert_eq!(hostnames(&mut client, &[("node", target)]).await, invalid);
        assert_eq!(hostnames(&mut client, &[("nodes", "cp-1"), ("nodes", target)]).await, invalid);
    }
}

#[tokio::test]
async fn resources_are_refused_to_several_nodes() {
    let simulator = cluster(|_| {});
    let mut client = StateClient::new(connect(&simulator, "cp-1", &["os:admin"]).await);
    let refused = "one-2-many proxying is not supported for method /cosi.resource.State/Get";
    let answer = client.get(to(GetRequest::default(), &[("nodes", "cp-1")])).await;
    assert_eq!(failed(answer), (Code::InvalidArgument, refused.to_owned()));
    simulator.change(|world| world.versions.talos = TalosVersion::new(12, 6));
    let refused = "one-2-many proxying is not supported for COSI methods";
    let answer = client.get(to(GetRequest::default(), &[("nodes", "cp-1")])).await;
    assert_eq!(failed(answer), (Code::InvalidArgument, refused.to_owned()));
}

#[tokio::test]
async fn machines_that_cannot_be_reached_are_told_as_go_tells_them() {
    let simulator = cluster(|world| {
        world.machine_mut("cp-2").process = Process::Stopped;
        world.machine_mut("cp-3").maintenance = true;
        let worker = world.machine("worker-1").unwrap().0;
        world.transport.insert(Server::Apid(worker), Transport::Close);
    });
    let mut client = admin(&simulator, "cp-1").await;
    let dialing = |at: IpAddr, why: &str| {
        format!("connection error: desc = \"transport: Error while dialing: dial tcp {at}:50000: connect: {why}\"")
    };
    let handshake =
        |why: &str| format!("connection error: desc = \"transport: authentication handshake failed: {why}\"");
    let nobody = simulator.network().machine(200);
    let unknown_authority = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    for (target, text) in [
        ("cp-2".to_owned(), dialing(address(&simulator, "cp-2"), "connection refused")),
        ("cp-3".to_owned(), handshake(unknown_authority)),
        ("worker-1".to_owned(), handshake("EOF")),
        (nobody.to_string(), dialing(nobody, "no route to host")),
        ("nonsense".to_owned(), "name resolver error: produced zero addresses".to_owned()),
    ] {
        let expected = Err(error(Code::Unavailable, text.clone()));
        assert_eq!(hostnames(&mut client, &[("node", &target)]).await, expected);
        assert_eq!(hostnames(&mut client, &[("nodes", &target)]).await, Ok(parts(&[(&target, &text)])));
    }
}

#[tokio::test]
async fn silent_machines_hold_a_call_until_its_deadline() {
    let simulator = cluster(|world| {
        world.machine_mut("cp-2").process = Process::Frozen;
        world.machine_mut("cp-3").power = Power::Unplugged;
    });
    let mut client = admin(&simulator, "cp-1").await;
    let expired = (Code::DeadlineExceeded, "context deadline exceeded".to_owned());
    // The answers of the other machines are lost, too, if the call uses `nodes`.
    for metadata in [vec![("node", "cp-2")], vec![("node", "cp-3")], vec![("nodes", "cp-1"), ("nodes", "cp-3")]] {
        let mut request = to(Empty {}, &metadata);
        request.metadata_mut().insert("grpc-timeout", "300m".parse().unwrap());
        let began = Instant::now();
        assert_eq!(failed(client.version(request).await), expired, "{metadata:?}");
        assert!(began.elapsed() >= Duration::from_millis(300));
    }
}

#[tokio::test]
async fn a_machine_that_comes_back_answers_who_has_waited() {
    let simulator = cluster(|world| world.machine_mut("cp-3").power = Power::Unplugged);
    let mut client = admin(&simulator, "cp-1").await;
    let waiting = tokio::spawn(async move { hostnames(&mut client, &[("node", "cp-3")]).await });
    // The call is answered whether it arrives before or after this change.
    simulator.change(|world| world.machine_mut("cp-3").power = Power::On);
    assert_eq!(tokio::time::timeout(SOON, waiting).await.unwrap().unwrap(), Ok(parts(&[("", "cp-3")])));
}
