//! The balancer in front of the API servers. It forwards bytes like any TCP balancer, and uses TLS itself only to simulate TLS faults.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpStream;

use super::conduct::Conduct;
use super::line::Line;
use crate::world::{Server, World};

/// The next API server in turn that accepts connections. A frozen one does, because its kernel accepts them.
pub(crate) fn backend(world: &World, turn: &AtomicUsize) -> Option<SocketAddr> {
    let accepts = |at: &IpAddr| Conduct::of(&Server::ApiServer(*at), world).accepts();
    let backends: Vec<_> = world.control_planes().filter(accepts).collect();
    let turn = turn.fetch_add(1, Ordering::Relaxed).checked_rem(backends.len())?;
    backends.get(turn).map(|at| SocketAddr::new(*at, world.api_port))
}

/// Forwards bytes until both sides have finished.
///
/// # Errors
/// If one side aborts the connection.
pub(super) async fn forward(mut client: Line, backend: SocketAddr) -> io::Result<()> {
    let mut server = TcpStream::connect(backend).await?;
    server.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
