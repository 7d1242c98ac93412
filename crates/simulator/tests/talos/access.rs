//! Authorization, and calls of unknown methods.

use http_body_util::BodyExt as _;
use simulator::Simulator;
use simulator::world::TalosVersion;
use talos_api::google::protobuf::Empty;
use talos_api::machine::EtcdMemberListRequest;
use tonic::Code;
use tonic::body::Body;
use tower::ServiceExt as _;

use crate::client::{Channel, admin, cluster, connect, failed, machine, to};

async fn codes(simulator: &Simulator, roles: &[&str]) -> [Code; 4] {
    let mut client = machine(simulator, "cp-1", roles).await;
    // The called machine rejects the call, and not the endpoint.
    let request = || to(Empty {}, &[("node", "cp-2")]);
    let code = |result: Result<(), tonic::Status>| result.map_or_else(|status| status.code(), |()| Code::Ok);
    [
        code(client.version(request()).await.map(drop)),
        code(client.etcd_member_list(to(EtcdMemberListRequest::default(), &[("node", "cp-2")])).await.map(drop)),
        code(client.etcd_status(request()).await.map(drop)),
        code(client.kubeconfig(request()).await.map(drop)),
    ]
}

#[tokio::test]
async fn roles_come_from_the_certificate_and_rights_from_the_version() {
    use Code::{Ok as Yes, PermissionDenied as No};
    let simulator = cluster(|_| {});
    assert_eq!(codes(&simulator, &["os:admin"]).await, [Yes, Yes, Yes, Yes]);
    assert_eq!(codes(&simulator, &["os:operator"]).await, [Yes, Yes, Yes, No]);
    assert_eq!(codes(&simulator, &["os:reader"]).await, [Yes, Yes, Yes, No]);
    assert_eq!(codes(&simulator, &["os:etcd:backup"]).await, [No, Yes, Yes, No]);
    assert_eq!(codes(&simulator, &["os:etcd:backup", "os:admin"]).await, [Yes, Yes, Yes, Yes]);
    assert_eq!(codes(&simulator, &[]).await, [No, No, No, No]);
    assert_eq!(codes(&simulator, &["os:superuser"]).await, [No, No, No, No]);
    simulator.change(|world| world.versions.talos = TalosVersion::new(9, 5));
    assert_eq!(codes(&simulator, &["os:reader"]).await, [Yes, Yes, No, No]);
    assert_eq!(codes(&simulator, &["os:etcd:backup"]).await, [No, No, No, No]);

    let mut client = machine(&simulator, "cp-1", &["os:reader"]).await;
    assert_eq!(failed(client.kubeconfig(Empty {}).await), (Code::PermissionDenied, "not authorized".to_owned()));
}

#[tokio::test]
async fn workers_do_not_know_control_planes() {
    let simulator = cluster(|_| {});
    let mut client = admin(&simulator, "worker-1").await;
    let only = |api: &str| (Code::Unimplemented, format!("{api} is only available on control plane nodes"));
    let members = client.etcd_member_list(EtcdMemberListRequest::default()).await;
    assert_eq!(failed(members), only("member list"));
    assert_eq!(failed(client.etcd_status(Empty {}).await), only("etcd status"));
    assert_eq!(failed(client.etcd_alarm_list(Empty {}).await), only("etcd alarm list"));
    assert_eq!(failed(client.kubeconfig(Empty {}).await), only("kubeconfig"));
}

/// Calls a method without a message.
async fn call(channel: &Channel, path: &str, node: Option<&str>) -> (String, String) {
    let mut request = http::Request::post(path).header("content-type", "application/grpc").header("te", "trailers");
    if let Some(node) = node {
        request = request.header("node", node);
    }
    let message = Body::new(http_body_util::Full::new(bytes::Bytes::from_static(&[0; 5])));
    let answer = channel.clone().oneshot(request.body(message).unwrap()).await.unwrap();
    let headers = answer.headers().clone();
    let trailers = answer.into_body().collect().await.unwrap().trailers().cloned().unwrap_or_default();
    let text = |name| {
        let value = headers.get(name).or_else(|| trailers.get(name));
        value.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    (text("grpc-status"), text("grpc-message"))
}

#[tokio::test]
async fn what_is_not_there_is_unimplemented_to_everybody() {
    let simulator = cluster(|_| {});
    // Unknown methods are reported before roles are checked.
    let channel = connect(&simulator, "cp-1", &[]).await;
    for (path, text) in [
        ("/machine.MachineService/Dmesg", "unknown method Dmesg for service machine.MachineService"),
        ("/cluster.ClusterService/Heal", "unknown method Heal for service cluster.ClusterService"),
        ("/time.TimeService/Time", "unknown service time.TimeService"),
    ] {
        for node in [None, Some("worker-1")] {
            let (status, message) = call(&channel, path, node).await;
            assert_eq!((status.as_str(), message.replace("%20", " ").as_str()), ("12", text));
        }
    }
}

#[tokio::test]
async fn nobody_writes_resources() {
    let simulator = cluster(|_| {});
    for (role, text) in [("os:admin", "write access is not allowed"), ("os:reader", "not authorized")] {
        let channel = connect(&simulator, "cp-1", &[role]).await;
        for method in ["Create", "Update", "Destroy"] {
            let (status, message) = call(&channel, &format!("/cosi.resource.State/{method}"), None).await;
            assert_eq!((status.as_str(), message.replace("%20", " ").as_str()), ("7", text), "{method}");
        }
    }
}

#[tokio::test]
async fn a_machine_without_configuration_lets_everybody_read() {
    let simulator = cluster(|world| world.machine_mut("cp-1").maintenance = true);
    let mut client = admin(&simulator, "cp-1").await;
    let version = client.version(to(Empty {}, &[("node", "cp-2")])).await.unwrap().into_inner();
    assert_eq!(version.messages[0].features, None);
    assert_eq!(failed(client.kubeconfig(Empty {}).await).0, Code::PermissionDenied);
    simulator.change(|world| world.versions.talos = TalosVersion::new(12, 6));
    let refused = (Code::Unimplemented, "API is not implemented in maintenance mode".to_owned());
    assert_eq!(failed(client.version(Empty {}).await), refused);
}
