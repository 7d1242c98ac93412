//! Connections from one machine's apid to another's.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;

use crate::address::{APID, host};
use crate::world::{Power, Process, Server, Transport, World};

/// The result of dialing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// The machine answers, after this delay.
    Machine(IpAddr, Duration),
    /// The connection failed, for this reason in the words of Go's gRPC client.
    Failed(String),
    /// There is no answer.
    Silence,
}

/// Resolves the address of a target for the machine at `from`. Machines know each other by name.
pub(super) fn resolve(world: &World, from: IpAddr, target: &str) -> Option<IpAddr> {
    if ["localhost", "127.0.0.1", "::1"].contains(&target) {
        return Some(from);
    }
    if let Ok(address) = target.parse() {
        return Some(address);
    }
    let mut named = world.machines.iter().filter(|(_, machine)| machine.name.eq_ignore_ascii_case(target));
    named.next().map(|(address, _)| *address)
}

pub(super) fn dial(world: &World, from: IpAddr, target: &str) -> Reached {
    let Some(address) = resolve(world, from, target) else {
        return Reached::Failed("name resolver error: produced zero addresses".to_owned());
    };
    if address == from {
        return Reached::Machine(address, Duration::ZERO);
    }
    let host = host(address);
    let Some(machine) = world.machines.get(&address) else {
        return Reached::Failed(dialing(&host, "no route to host"));
    };
    match (machine.power, machine.process) {
        (Power::Off, _) => Reached::Failed(dialing(&host, "no route to host")),
        (Power::Unplugged, _) | (Power::On, Process::Frozen) => Reached::Silence,
        (Power::On, Process::Stopped) => Reached::Failed(dialing(&host, "connection refused")),
        (Power::On, Process::Running) if machine.maintenance => Reached::Failed(handshake(
            "tls: failed to verify certificate: x509: certificate signed by unknown authority",
        )),
        (Power::On, Process::Running) => match way(world, from, address) {
            Some(transport) => disturbed(world.now(), address, transport),
            None => Reached::Machine(address, Duration::ZERO),
        },
    }
}

/// The fault of the connection between two machines, or else the one that affects every client of the second.
fn way(world: &World, from: IpAddr, to: IpAddr) -> Option<&Transport> {
    world.ways.get(&(from, to)).or_else(|| world.transport.get(&Server::Apid(to)))
}

fn disturbed(now: Timestamp, address: IpAddr, transport: &Transport) -> Reached {
    let unverified =
        |why: String| Reached::Failed(handshake(&format!("tls: failed to verify certificate: x509: {why}")));
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ");
    match transport {
        Transport::Refuse => Reached::Failed(dialing(&host(address), "connection refused")),
        Transport::Blackhole | Transport::Silent | Transport::SilentInTls => Reached::Silence,
        Transport::Close => Reached::Failed(handshake("EOF")),
        Transport::PlainHttp | Transport::Garbage => {
            Reached::Failed(handshake("tls: first record does not look like a TLS handshake"))
        }
        Transport::WrongCa => unverified(
            "certificate signed by unknown authority (possibly because of \"x509: Ed25519 verification failure\" while \
             trying to verify candidate authority certificate \"talos\")"
                .to_owned(),
        ),
        Transport::Expired => unverified(format!(
            "certificate has expired or is not yet valid: current time {now} is after 2021-01-01T00:00:00Z"
        )),
        Transport::NotYetValid => unverified(format!(
            "certificate has expired or is not yet valid: current time {now} is before 2999-01-01T00:00:00Z"
        )),
        Transport::WrongName => unverified(format!("certificate is valid for 127.0.0.1, not {address}")),
        Transport::Delay(delay) => Reached::Machine(address, *delay),
        // An apid of the same version does not notice these, or they do not affect its connections, which it keeps
        // open.
        Transport::ExpiresSoon | Transport::NoAlpn | Transport::Drip(_) | Transport::CloseAfter(_) => {
            Reached::Machine(address, Duration::ZERO)
        }
    }
}

fn dialing(host: &str, reason: &str) -> String {
    connection_error(&format!("transport: Error while dialing: dial tcp {host}:{APID}: connect: {reason}"))
}

fn handshake(reason: &str) -> String {
    connection_error(&format!("transport: authentication handshake failed: {reason}"))
}

/// Formats a connection error. Go quotes the reason, and thereby escapes the quotes inside.
fn connection_error(reason: &str) -> String {
    format!("connection error: desc = {reason:?}")
}
