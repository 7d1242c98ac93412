//! Ports that follow the state of the world.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Resource, getrlimit};
use socket2::{Domain, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use super::conduct::Conduct;
use super::connection::Served;
use super::{Service, connection};
use crate::state::ClusterState;
use crate::world::{Server, World};

/// Maximum number of connections that wait to be accepted, as in Go.
const BACKLOG: i32 = 4096;

/// All ports of a cluster.
#[derive(Clone, Default)]
pub(crate) struct Ports(Arc<Mutex<Vec<Port>>>);

/// The port of one server. Its socket always stays bound, and only starts and stops listening.
struct Port {
    server: Server,
    at: SocketAddr,
    /// `None` if one socket accepts the connections to all addresses.
    socket: Option<Arc<Socket>>,
    hole: Option<BlackHole>,
    state: watch::Sender<State>,
}

/// The state of a port that its connections follow.
#[derive(Clone, Debug)]
struct State {
    conduct: Conduct,
    /// Number of times that all connections were ended.
    epoch: u64,
    /// The epoch that began with a reset of all connections.
    reset: u64,
}

/// The link between a connection and its port.
#[derive(Clone, Debug)]
pub(super) struct Tie {
    state: watch::Receiver<State>,
    epoch: u64,
}

/// The end of a connection that the server did not close itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The other side is notified.
    Reset,
    /// The other side is not notified.
    Silence,
}

impl Ports {
    fn all(&self) -> MutexGuard<'_, Vec<Port>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens ports on the current runtime.
    ///
    /// # Errors
    /// If an address cannot be bound.
    pub(crate) fn open(&self, cluster: &Arc<ClusterState>, services: Vec<Service>) -> anyhow::Result<()> {
        let world = cluster.world();
        let mut all = self.all();
        let wide = are_too_many(&services);
        let mut shared: HashMap<u16, Doors> = HashMap::new();
        for service in services {
            let at = service.at;
            let is_shared = wide && matches!(service.server, Server::Apid(_) | Server::Kubelet(_));
            let own = || bind(at).with_context(|| format!("cannot bind {at}")).map(Arc::new);
            let socket = (!is_shared).then(own).transpose()?;
            let state = watch::Sender::new(State { conduct: Conduct::Closed, epoch: 0, reset: 0 });
            let mut port = Port { server: service.server.clone(), at, socket, hole: None, state };
            port.follow(&world);
            let (state, served) = (port.state.subscribe(), Arc::new(Served::new(Arc::clone(cluster), service)));
            match &port.socket {
                Some(socket) => drop(tokio::spawn(accept(Arc::clone(socket), state, served))),
                None => drop(shared.entry(at.port()).or_default().insert(at.ip(), (state, served))),
            }
            all.push(port);
        }
        for (port, doors) in shared {
            let listener = listen_everywhere(port).with_context(|| {
                format!("so many machines share port {port} of all of 127.0.0.0/8: no other cluster can be simulated beside them")
            })?;
            tokio::spawn(accept_for_all(listener, doors));
        }
        Ok(())
    }

    /// Applies the world to all ports before it returns.
    pub(crate) fn follow(&self, world: &World) {
        for port in self.all().iter_mut() {
            port.follow(world);
        }
    }

    /// Stops listening on all ports; their addresses can be bound again.
    pub(crate) fn close(&self) {
        for port in self.all().iter_mut() {
            port.turn(Conduct::Closed);
        }
    }
}

impl Port {
    fn follow(&mut self, world: &World) {
        let conduct = Conduct::of(&self.server, world);
        if self.state.borrow().conduct != conduct {
            self.turn(conduct);
        }
    }

    fn turn(&mut self, conduct: Conduct) {
        let (listened, listens) = (self.state.borrow().conduct.accepts(), conduct.accepts());
        let digs = conduct == Conduct::BlackHole;
        self.hole = None;
        if let Some(socket) = self.socket.as_ref().filter(|_| listens && !listened) {
            socket.listen(BACKLOG).expect("a bound socket can listen");
        }
        self.state.send_modify(|state| {
            if !conduct.keeps_connections() {
                state.epoch += 1;
                if conduct == Conduct::Closed {
                    state.reset = state.epoch;
                }
            }
            state.conduct = conduct;
        });
        let Some(socket) = &self.socket else { return };
        if listened && !listens {
            // On Linux, the socket stays bound and receives nothing more, and connections that wait in its queue are reset.
            socket.shutdown(std::net::Shutdown::Both).expect("a socket that listens can cease to");
        }
        if digs {
            self.hole = Some(BlackHole::dig(self.at).expect("an address that was bound can be bound again"));
        }
    }
}

fn bind(at: SocketAddr) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, None)?;
    // Old connections of the address must not prevent binding.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&at.into())?;
    Ok(socket)
}

/// An address at which connections are never established: the kernel drops connection attempts as long as the queue of connections that
/// wait to be accepted is full.
struct BlackHole {
    _listener: Socket,
    /// The connection that fills the queue.
    _filling: Option<TcpStream>,
}

impl BlackHole {
    fn dig(at: SocketAddr) -> std::io::Result<Self> {
        let listener = bind(at)?;
        listener.listen(0)?;
        // If this connection fails, one of another client fills the queue.
        let filling = TcpStream::connect_timeout(&at, Duration::from_millis(10)).ok();
        Ok(Self { _listener: listener, _filling: filling })
    }
}

/// Ports by address.
type Doors = HashMap<IpAddr, (watch::Receiver<State>, Arc<Served>)>;

/// Whether there are too many services to have a descriptor each, considering that clients need just as many.
fn are_too_many(services: &[Service]) -> bool {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let all_v4 = services.iter().all(|service| service.at.is_ipv4());
    all_v4 && u64::try_from(services.len()).is_ok_and(|count| count > limit / 2)
}

/// Listens on all addresses, but only on the loopback device, like everything here.
fn listen_everywhere(port: u16) -> std::io::Result<tokio::net::TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind_device(Some(b"lo"))?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
    socket.listen(BACKLOG)?;
    tokio::net::TcpListener::from_std(socket.into())
}

/// Accepts the connections to all machines. Connections to a machine that does not listen are reset instead of refused.
async fn accept_for_all(listener: tokio::net::TcpListener, doors: Doors) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let door = stream.local_addr().ok().and_then(|at| doors.get(&at.ip()));
        if let Some((state, served)) = door {
            let epoch = state.borrow().epoch;
            let tie = Tie { state: state.clone(), epoch };
            tokio::spawn(connection::run(stream, tie, Arc::clone(served)));
        }
    }
}

/// Accepts connections whenever the port does.
async fn accept(socket: Arc<Socket>, mut state: watch::Receiver<State>, served: Arc<Served>) {
    // The epoch is that in which the registration began: tokio treats a socket that has stopped listening as closed, so every period of
    // listening needs a new registration. It does not use a second descriptor, because a cluster with thousands of machines has few to
    // spare.
    let mut listener: Option<(AsyncFd<Arc<Socket>>, u64)> = None;
    loop {
        let (open, epoch) = {
            let state = state.borrow_and_update();
            (state.conduct.accepts(), state.epoch)
        };
        listener = listener.filter(|(_, begun)| open && *begun == epoch);
        let taken = async {
            if open && listener.is_none() {
                listener = Some((registered(&socket)?, epoch));
            }
            match &listener {
                Some((listener, _)) => {
                    let (stream, _) = listener.async_io(Interest::READABLE, |socket| socket.accept()).await?;
                    stream.set_nonblocking(true)?;
                    tokio::net::TcpStream::from_std(stream.into())
                }
                None => std::future::pending().await,
            }
        };
        let taken = tokio::select! {
            biased;
            changed = state.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
            taken = taken => taken,
        };
        match taken {
            Ok(stream) => {
                let epoch = state.borrow().epoch;
                let tie = Tie { state: state.clone(), epoch };
                tokio::spawn(connection::run(stream, tie, Arc::clone(&served)));
            }
            // File descriptors are exhausted, and there is no notification when some are available again.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

#[expect(
    deprecated,
    reason = "what replaces it is unsafe, for types whose descriptor may change; that of a socket does not"
)]
fn registered(socket: &Arc<Socket>) -> std::io::Result<AsyncFd<Arc<Socket>>> {
    AsyncFd::with_interest(Arc::clone(socket), Interest::READABLE)
}

impl Tie {
    /// Whether the connection still exists. Reading and writing do nothing otherwise.
    pub(super) fn holds(&self) -> bool {
        self.state.borrow().epoch == self.epoch
    }

    pub(super) fn conduct(&self) -> Conduct {
        self.state.borrow().conduct.clone()
    }

    /// The current delays: of a round trip, and between two bytes.
    pub(super) fn pace(&self) -> (Duration, Duration) {
        match &self.state.borrow().conduct {
            Conduct::Serve(service) => (service.delay, service.drip),
            _ => (Duration::ZERO, Duration::ZERO),
        }
    }

    /// Waits until the connection is broken.
    pub(super) async fn broken(&mut self) -> End {
        let epoch = self.epoch;
        match self.state.wait_for(|state| state.epoch != epoch).await {
            Ok(state) if state.reset <= epoch => End::Silence,
            // The cluster has been shut down.
            Ok(_) | Err(_) => End::Reset,
        }
    }

    /// Waits until silent connections are reset, too.
    pub(super) async fn reset(&mut self) {
        let epoch = self.epoch;
        let _ = self.state.wait_for(|state| state.reset > epoch).await;
    }
}
