//! A client of one endpoint, and calls that all tests use.

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use simulator::pki::Flaw;
use simulator::world::{Shape, World};
use simulator::{Network, Simulator};
use talos_api::google::protobuf::Empty;
use talos_api::machine::machine_service_client::MachineServiceClient;
use tonic::{Code, Request, Status};

pub(crate) use crate::connection::Channel;

/// Long enough for every answer that comes at all.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A cluster with three control planes and a worker, changed before it starts.
pub(crate) fn cluster(edit: impl FnOnce(&mut World)) -> Simulator {
    let network = Network::claim().unwrap();
    let mut world = World::healthy(&network, &Shape::default());
    edit(&mut world);
    Simulator::start(network, world).unwrap()
}

/// The address of `cp-1` …, `worker-1`.
pub(crate) fn address(simulator: &Simulator, name: &str) -> IpAddr {
    simulator.change(|world| world.machine(name).unwrap().0)
}

/// Connects to a machine, with these roles in the certificate.
pub(crate) async fn connect(simulator: &Simulator, name: &str, roles: &[&str]) -> Channel {
    let at = address(simulator, name);
    let authority = &simulator.pki().talos;
    let leaf = authority.client("test", roles, Flaw::None).unwrap();
    // A machine without configuration has its own certificate, which this client trusts.
    let maintained = simulator.change(|world| world.machine(name).unwrap().1.maintenance);
    let trusted = if maintained { &simulator.pki().maintenance } else { authority };
    crate::connection::connect(SocketAddr::new(at, 50_000), trusted, &leaf).await.unwrap()
}

pub(crate) async fn machine(simulator: &Simulator, name: &str, roles: &[&str]) -> MachineServiceClient<Channel> {
    MachineServiceClient::new(connect(simulator, name, roles).await)
}

/// Connects as an administrator.
pub(crate) async fn admin(simulator: &Simulator, name: &str) -> MachineServiceClient<Channel> {
    machine(simulator, name, &["os:admin"]).await
}

/// A message with metadata.
pub(crate) fn to<T>(message: T, metadata: &[(&'static str, &str)]) -> Request<T> {
    let mut request = Request::new(message);
    for (key, value) in metadata {
        request.metadata_mut().append(*key, value.parse().unwrap());
    }
    request
}

/// The host names in an answer, each with the machine that it is from, or the text of that machine's failure.
pub(crate) async fn hostnames(
    client: &mut MachineServiceClient<Channel>,
    metadata: &[(&'static str, &str)],
) -> Result<Vec<(String, String)>, (Code, String)> {
    let answer = tokio::time::timeout(SOON, client.hostname(to(Empty {}, metadata))).await.unwrap();
    let messages = answer.map_err(|status| told(&status))?.into_inner().messages;
    let part = |message: talos_api::machine::Hostname| match message.metadata {
        None => (String::new(), message.hostname),
        Some(metadata) => match metadata.status {
            Some(status) => {
                let (code, text) = (Code::from(status.code), status.message);
                let code = if code == Code::Cancelled { "Canceled".to_owned() } else { format!("{code:?}") };
                assert_eq!(metadata.error, format!("rpc error: code = {code} desc = {text}"));
                (metadata.hostname, text)
            }
            None => (metadata.hostname, message.hostname),
        },
    };
    let mut parts: Vec<_> = messages.into_iter().map(part).collect();
    parts.sort();
    Ok(parts)
}

/// Code and text of a failed call.
#[track_caller]
pub(crate) fn failed<T: Debug>(answer: Result<T, Status>) -> (Code, String) {
    told(&answer.expect_err("it should have failed"))
}

fn told(status: &Status) -> (Code, String) {
    (status.code(), status.message().to_owned())
}
