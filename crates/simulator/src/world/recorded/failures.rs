//! Missing and failed answers.

use std::net::IpAddr;

use serde_json::Value;

use super::recording::{KubernetesCall, Recording, Silence, TalosCall};
use crate::world::{CallFault, Misbehavior, Power, Process, Server, Transport, World};

pub(super) fn tell(world: &mut World, recording: &Recording) {
    let machines: Vec<_> = world.machines.keys().copied().collect();
    for at in machines {
        machine(world, recording, at);
        api_server(world, recording, at);
    }
    members(world, recording);
    endpoint(world, recording);
}

/// Reproduces a machine that could not be reached, or failed calls of one that could.
fn machine(world: &mut World, recording: &Recording, at: IpAddr) {
    let calls: Vec<_> = recording.talos().filter(|call| call.target() == Some(at)).collect();
    let Some(machine) = world.machines.get_mut(&at) else { return };
    let directly = |silence| calls.iter().any(|call| call.asked_directly() && call.silence() == Some(silence));
    let no_route =
        |call: &&TalosCall| call.status.as_ref().is_some_and(|status| status.text.contains("no route to host"));
    if calls.iter().any(no_route) {
        machine.power = Power::Off;
    } else if directly(Silence::ConnectTimedOut) {
        machine.power = Power::Unplugged;
    } else if directly(Silence::ConnectionRefused) {
        machine.process = Process::Stopped;
    } else if !calls.is_empty()
        && calls.iter().filter(|call| !call.method.is_empty()).all(|call| call.silence().is_some())
    {
        if calls.iter().any(|call| call.asked_directly()) {
            machine.process = Process::Frozen;
        } else if recording.state.faults.contains(&format!("apid-frozen {}", machine.name)) {
            // The machine's own answers do not distinguish it from one that is cut off, because it was not dialed directly.
            world.transport.insert(Server::Apid(at), Transport::Silent);
        } else {
            machine.power = Power::Unplugged;
        }
    } else {
        world.call_faults.extend(calls.iter().filter_map(|call| fault(call, at)));
    }
}

fn fault(call: &TalosCall, at: IpAddr) -> Option<CallFault> {
    let does = match (&call.status, call.silence()) {
        (_, Some(Silence::TimedOut)) => Misbehavior::Hang,
        // The absence of a resource follows from the resources.
        (Some(status), _) if status.code != "NotFound" || call.kind().is_none() => {
            Misbehavior::Fail { code: code(&status.code)?, text: status.text.clone() }
        }
        _ => return None,
    };
    Some(CallFault { server: Some(Server::Apid(at)), ..CallFault::all(&call.name(), does) })
}

/// The number of a gRPC code other than success.
fn code(name: &str) -> Option<u16> {
    const NAMES: [&str; 17] = [
        "Ok",
        "Cancelled",
        "Unknown",
        "InvalidArgument",
        "DeadlineExceeded",
        "NotFound",
        "AlreadyExists",
        "PermissionDenied",
        "ResourceExhausted",
        "FailedPrecondition",
        "Aborted",
        "OutOfRange",
        "Unimplemented",
        "Internal",
        "Unavailable",
        "DataLoss",
        "Unauthenticated",
    ];
    let index = NAMES.iter().position(|known| *known == name).filter(|index| *index > 0)?;
    u16::try_from(index).ok()
}

/// Reproduces the state of a machine's API server from the result of its own probe.
fn api_server(world: &mut World, recording: &Recording, at: IpAddr) {
    let Some(machine) = world.machines.get_mut(&at) else { return };
    let Some(server) = &mut machine.api_server else { return };
    let own = recording.kubernetes().filter(|call| call.host().parse() == Ok(at) && call.path() == "/readyz");
    for call in own {
        match call.silence() {
            Some(Silence::ConnectionRefused) => server.process = Process::Stopped,
            Some(Silence::TimedOut) => server.process = Process::Frozen,
            Some(Silence::ConnectTimedOut) if machine.power == Power::On => {
                world.transport.insert(Server::ApiServer(at), Transport::Blackhole);
            }
            Some(Silence::UnknownCa) => {
                world.transport.insert(Server::ApiServer(at), Transport::WrongCa);
            }
            _ => server.failing.extend(failed(&call.body)),
        }
    }
    server.failing.sort();
    server.failing.dedup();
}

/// Failed checks of `/readyz?verbose`.
fn failed(body: &Value) -> impl Iterator<Item = String> {
    let lines = body.as_str().unwrap_or_default().lines().filter_map(|line| line.strip_prefix("[-]"));
    lines.filter_map(|line| Some(line.split_once(' ')?.0.to_owned()))
}

/// Reproduces etcd members that did not answer: those of unreachable machines, and those that did not answer Talos.
fn members(world: &mut World, recording: &Recording) {
    let silent = |at: IpAddr| {
        recording.talos().any(|call| {
            call.target() == Some(at)
                && call.short_method() == "EtcdStatus"
                && call.silence() == Some(Silence::TimedOut)
        })
    };
    for member in world.etcd.iter_mut().flat_map(|cluster| &mut cluster.members) {
        let Some(at) = member.machine else { continue };
        let Some(machine) = world.machines.get(&at) else { continue };
        member.process = match machine.power {
            Power::On if machine.process == Process::Running && silent(at) => Process::Frozen,
            // If the machine answers nothing at all, its silence does not show how its member is.
            Power::On => Process::Running,
            _ => Process::Stopped,
        };
    }
}

/// Reproduces the results of requests through the kubeconfig's endpoint.
fn endpoint(world: &mut World, recording: &Recording) {
    world.call_faults.extend(recording.through_kubeconfig().filter_map(request_fault));
    // The endpoint belongs to another cluster. It answers requests itself, because the servers behind it are not that cluster's.
    if world.transport.values().any(|transport| *transport == Transport::WrongCa) {
        world.transport.insert(Server::Balancer, Transport::CloseAfter(u32::MAX));
    }
}

fn request_fault(call: &KubernetesCall) -> Option<CallFault> {
    let does = match (call.status, call.silence()) {
        (_, Some(Silence::TimedOut)) => Misbehavior::Hang,
        (Some(code), _) if code >= 400 => Misbehavior::Fail { code, text: call.body.to_string() },
        _ => return None,
    };
    Some(CallFault::all(call.path(), does))
}
