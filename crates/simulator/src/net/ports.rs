//! Ports, and how they follow the world.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use socket2::{Domain, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use super::conduct::Conduct;
use super::connection::Served;
use super::{Service, connection};
use crate::state::ClusterState;
use crate::world::{Server, World};

/// Connections that wait to be taken, as Go asks for.
const BACKLOG: i32 = 4096;

/// All ports of a cluster.
#[derive(Clone, Default)]
pub(crate) struct Ports(Arc<Mutex<Vec<Port>>>);

/// The port of one server. Its socket stays bound whatever happens; what changes is whether it listens.
struct Port {
    server: Server,
    at: SocketAddr,
    socket: Arc<Socket>,
    hole: Option<BlackHole>,
    state: watch::Sender<State>,
}

/// What connections have to know of their port.
#[derive(Clone, Debug)]
struct State {
    conduct: Conduct,
    /// Counts the times that all connections ended.
    epoch: u64,
    /// The epoch that began by resetting all connections.
    reset: u64,
}

/// What ties a connection to its port.
#[derive(Clone, Debug)]
pub(super) struct Tie {
    state: watch::Receiver<State>,
    epoch: u64,
}

/// How connections end that a server did not end itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The other side is told.
    Reset,
    /// It is not.
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
        for service in services {
            let at = service.at;
            let socket = Arc::new(bind(at).with_context(|| format!("cannot bind {at}"))?);
            let state = watch::Sender::new(State { conduct: Conduct::Closed, epoch: 0, reset: 0 });
            let mut port = Port { server: service.server.clone(), at, socket: Arc::clone(&socket), hole: None, state };
            port.follow(&world);
            let served = Served::new(Arc::clone(cluster), service);
            tokio::spawn(accept(socket, port.state.subscribe(), Arc::new(served)));
            all.push(port);
        }
        Ok(())
    }

    /// When this returns, all ports are as the world says.
    pub(crate) fn follow(&self, world: &World) {
        for port in self.all().iter_mut() {
            port.follow(world);
        }
    }

    /// Nobody listens any more; the addresses can be bound anew.
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
        if listens && !listened {
            self.socket.listen(BACKLOG).expect("a bound socket can listen");
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
        if listened && !listens {
            // Linux: it stays bound, is told nothing more, and whoever waited in its queue is reset.
            self.socket.shutdown(std::net::Shutdown::Both).expect("a socket that listens can cease to");
        }
        if digs {
            self.hole = Some(BlackHole::dig(self.at).expect("an address that was bound can be bound again"));
        }
    }
}

fn bind(at: SocketAddr) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, None)?;
    // Old connections of this address do not matter.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&at.into())?;
    Ok(socket)
}

/// An address where connecting leads to nothing: the kernel drops what would open a connection as long as the queue of those
/// that are not taken yet is full.
struct BlackHole {
    _listener: Socket,
    /// The one connection that fills the queue.
    _filling: Option<TcpStream>,
}

impl BlackHole {
    fn dig(at: SocketAddr) -> std::io::Result<Self> {
        let listener = bind(at)?;
        listener.listen(0)?;
        // If it does not come about, somebody else's fills the queue.
        let filling = TcpStream::connect_timeout(&at, Duration::from_millis(10)).ok();
        Ok(Self { _listener: listener, _filling: filling })
    }
}

/// Takes connections whenever the port does.
async fn accept(socket: Arc<Socket>, mut state: watch::Receiver<State>, served: Arc<Served>) {
    // With the epoch in which it began: tokio takes a socket that has ceased to listen for one that has ended, so there is a new
    // registration for every time that it listens. Not of a second descriptor: a cluster of thousands has few enough.
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
            // Out of file descriptors: nothing tells when there are some again.
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
    /// Neither reading nor writing does anything once this is false.
    pub(super) fn holds(&self) -> bool {
        self.state.borrow().epoch == self.epoch
    }

    pub(super) fn conduct(&self) -> Conduct {
        self.state.borrow().conduct.clone()
    }

    /// Of a round trip, and between two bytes, as they are now.
    pub(super) fn pace(&self) -> (Duration, Duration) {
        match &self.state.borrow().conduct {
            Conduct::Serve(service) => (service.delay, service.drip),
            _ => (Duration::ZERO, Duration::ZERO),
        }
    }

    /// Waits until it does not hold.
    pub(super) async fn broken(&mut self) -> End {
        let epoch = self.epoch;
        match self.state.wait_for(|state| state.epoch != epoch).await {
            Ok(state) if state.reset <= epoch => End::Silence,
            // The cluster has ended.
            Ok(_) | Err(_) => End::Reset,
        }
    }

    /// Waits until all that were silent are reset, too.
    pub(super) async fn reset(&mut self) {
        let epoch = self.epoch;
        let _ = self.state.wait_for(|state| state.reset > epoch).await;
    }
}
