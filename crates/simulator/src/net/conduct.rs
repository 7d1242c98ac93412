//! The behavior of a port, derived from the world.

use std::net::IpAddr;
use std::time::Duration;

use crate::world::{Machine, Power, Process, Server, Transport, World};

/// The way in which a port treats connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Conduct {
    /// Connections are refused.
    Closed,
    /// Connections are never established, because all packets are dropped.
    BlackHole,
    /// Connections are accepted, and nothing is ever sent.
    Silent,
    /// Connections are accepted and closed immediately.
    Close,
    /// Connections are accepted, and the server uses HTTP without TLS.
    PlainHttp,
    /// Connections are accepted, and the server sends random bytes without end.
    Garbage,
    Serve(Service),
}

/// The way in which a port serves requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) tls: Tls,
    /// Whether nothing is sent after the handshake.
    pub(super) silent: bool,
    /// Delay of a round trip.
    pub(super) delay: Duration,
    /// Pause between two bytes.
    pub(super) drip: Duration,
    /// Number of answers on one connection.
    pub(super) answers: Option<u32>,
    /// Whether the bytes are forwarded to another server, without TLS here.
    pub(super) forwards: bool,
}

/// Everything that determines a TLS configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tls {
    pub(super) certificate: Certificate,
    pub(super) without_alpn: bool,
    /// In seconds.
    pub(super) clock_ahead: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Certificate {
    #[default]
    Right,
    /// Signed by another authority.
    Foreign,
    Expired,
    ExpiresSoon,
    NotYetValid,
    /// Valid for another address.
    Misnamed,
    /// Certificate of a machine without configuration, which does not request client certificates either.
    Maintenance,
}

impl Conduct {
    /// Whether TCP connections are established.
    pub(super) fn accepts(&self) -> bool {
        !matches!(self, Self::Closed | Self::BlackHole)
    }

    /// Whether existing connections continue.
    pub(super) fn keeps_connections(&self) -> bool {
        match self {
            Self::Closed | Self::BlackHole | Self::Silent => false,
            Self::Serve(service) => !service.silent,
            Self::Close | Self::PlainHttp | Self::Garbage => true,
        }
    }

    pub(super) fn of(server: &Server, world: &World) -> Self {
        let transport = world.transport.get(server);
        let (power, process) = alive(server, world);
        match (power, transport, process) {
            (Power::Off, ..) => Self::Closed,
            (Power::Unplugged, ..) | (_, Some(Transport::Blackhole), _) => Self::BlackHole,
            (_, Some(Transport::Refuse), _) | (.., Process::Stopped) => Self::Closed,
            (_, Some(Transport::Silent), _) | (.., Process::Frozen) => Self::Silent,
            (_, Some(Transport::Close), _) => Self::Close,
            (_, Some(Transport::PlainHttp), _) => Self::PlainHttp,
            (_, Some(Transport::Garbage), _) => Self::Garbage,
            (_, transport, Process::Running) => Self::Serve(serve(server, transport, world)),
        }
    }
}

/// The states of the machine and the process behind a port. An unknown port counts as one whose process is stopped.
fn alive(server: &Server, world: &World) -> (Power, Process) {
    let on = |at: &IpAddr, process: &dyn Fn(&Machine) -> Option<Process>| match world.machines.get(at) {
        None => (Power::Off, Process::Stopped),
        Some(machine) => (machine.power, process(machine).unwrap_or(Process::Stopped)),
    };
    match server {
        // If machined is frozen, apid still runs: it accepts calls, which then wait.
        Server::Apid(at) => {
            on(at, &|machine| Some(if machine.process == Process::Frozen { Process::Running } else { machine.process }))
        }
        Server::ApiServer(at) => on(at, &|machine| {
            let server = machine.api_server.as_ref().filter(|_| !machine.maintenance)?;
            Some(server.process)
        }),
        Server::Etcd(at) => on(at, &|machine| {
            let (_, member) = world.etcd_of(*at).filter(|_| !machine.maintenance)?;
            (!member.name.is_empty()).then_some(member.process)
        }),
        Server::Kubelet(at) => on(at, &|machine| world.kubelet_runs(machine).then_some(Process::Running)),
        Server::Balancer | Server::Omni => (Power::On, Process::Running),
    }
}

fn serve(server: &Server, transport: Option<&Transport>, world: &World) -> Service {
    let balancer = *server == Server::Balancer;
    let mut service = Service {
        // Connections through the balancer are already delayed by the server behind it.
        delay: if balancer { Duration::ZERO } else { world.delay },
        forwards: balancer && matches!(transport, None | Some(Transport::Delay(_) | Transport::Drip(_))),
        ..Service::default()
    };
    service.tls.clock_ahead = world.clock_ahead;
    if let Server::Apid(at) = server {
        let machine = &world.machines[at];
        service.silent = machine.process == Process::Frozen;
        if machine.maintenance {
            service.tls.certificate = Certificate::Maintenance;
        }
    }
    let tls = &mut service.tls;
    match transport {
        Some(Transport::WrongCa) => tls.certificate = Certificate::Foreign,
        Some(Transport::Expired) => tls.certificate = Certificate::Expired,
        Some(Transport::ExpiresSoon) => tls.certificate = Certificate::ExpiresSoon,
        Some(Transport::NotYetValid) => tls.certificate = Certificate::NotYetValid,
        Some(Transport::WrongName) => tls.certificate = Certificate::Misnamed,
        Some(Transport::NoAlpn) => tls.without_alpn = true,
        Some(Transport::SilentInTls) => service.silent = true,
        Some(Transport::Delay(delay)) => service.delay = *delay,
        Some(Transport::Drip(pause)) => service.drip = *pause,
        Some(Transport::CloseAfter(answers)) => service.answers = Some(*answers),
        // A server with one of these faults never gets here.
        Some(
            Transport::Refuse
            | Transport::Blackhole
            | Transport::Silent
            | Transport::Close
            | Transport::PlainHttp
            | Transport::Garbage,
        )
        | None => {}
    }
    service
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Network;
    use crate::world::Shape;

    fn conduct(server: fn(IpAddr) -> Server, edit: impl FnOnce(&mut World, IpAddr)) -> Conduct {
        let mut world = World::healthy(&Network::claim().unwrap(), &Shape::default());
        let (at, _) = world.machine("cp-1").unwrap();
        edit(&mut world, at);
        Conduct::of(&server(at), &world)
    }

    #[test]
    fn a_machine_takes_its_servers_along() {
        for server in [Server::Apid, Server::ApiServer, Server::Etcd] {
            assert_eq!(conduct(server, |_, _| {}), Conduct::Serve(Service::default()));
            let power = |power| conduct(server, |world, _| world.machine_mut("cp-1").power = power);
            assert_eq!(power(Power::Off), Conduct::Closed);
            assert_eq!(power(Power::Unplugged), Conduct::BlackHole);
        }
    }

    #[test]
    fn every_process_answers_for_itself() {
        let frozen = |server| {
            conduct(server, |world, _| {
                world.machine_mut("cp-1").process = Process::Stopped;
                world.machine_mut("cp-1").api_server.as_mut().unwrap().process = Process::Frozen;
                world.etcd[0].members.remove(0);
            })
        };
        assert_eq!(frozen(Server::Apid), Conduct::Closed);
        assert_eq!(frozen(Server::ApiServer), Conduct::Silent);
        assert_eq!(frozen(Server::Etcd), Conduct::Closed, "a member that was removed has exited");
    }

    #[test]
    fn a_machine_in_maintenance_runs_apid_alone() {
        let maintained = |server| conduct(server, |world, _| world.machine_mut("cp-1").maintenance = true);
        let Conduct::Serve(service) = maintained(Server::Apid) else { panic!("apid does not serve") };
        assert_eq!(service.tls.certificate, Certificate::Maintenance);
        assert_eq!(maintained(Server::ApiServer), Conduct::Closed);
        assert_eq!(maintained(Server::Etcd), Conduct::Closed);
    }

    #[test]
    fn a_machine_that_is_off_hides_what_its_servers_would_do() {
        let off = |transport| {
            conduct(Server::Apid, |world, at| {
                world.machine_mut("cp-1").power = Power::Off;
                world.transport.insert(Server::Apid(at), transport);
            })
        };
        assert_eq!(off(Transport::Silent), Conduct::Closed);
        assert_eq!(off(Transport::WrongCa), Conduct::Closed);
    }

    #[test]
    fn a_delay_of_its_own_counts_instead_of_the_worlds() {
        let delay = |server: fn(IpAddr) -> Server, own: Option<u64>| {
            let conduct = conduct(server, |world, at| {
                world.delay = Duration::from_millis(20);
                world.transport.extend(own.map(|own| (server(at), Transport::Delay(Duration::from_millis(own)))));
            });
            let Conduct::Serve(service) = conduct else { panic!("it does not serve") };
            service.delay.as_millis()
        };
        assert_eq!(delay(Server::Apid, None), 20);
        assert_eq!(delay(Server::Apid, Some(5)), 5);
        assert_eq!(delay(|_| Server::Balancer, None), 0);
        assert_eq!(delay(|_| Server::Balancer, Some(5)), 5);
    }
}
