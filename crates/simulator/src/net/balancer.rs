//! The balancer before the API servers. It forwards bytes, as one for TCP does; only to have a fault of TLS it speaks that itself.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpStream;

use super::conduct::Conduct;
use super::line::Line;
use crate::world::{Server, World};

/// The next in turn of the API servers that take connections. One that is frozen does: its kernel takes them.
pub(crate) fn backend(world: &World, turn: &AtomicUsize) -> Option<SocketAddr> {
    let accepts = |at: &IpAddr| Conduct::of(&Server::ApiServer(*at), world).accepts();
    let backends: Vec<_> = world.control_planes().filter(accepts).collect();
    let turn = turn.fetch_add(1, Ordering::Relaxed).checked_rem(backends.len())?;
    backends.get(turn).map(|at| SocketAddr::new(*at, world.api_port))
}

/// Passes bytes on until both sides have ended.
///
/// # Errors
/// If one side breaks off.
pub(super) async fn forward(mut client: Line, backend: SocketAddr) -> io::Result<()> {
    let mut server = TcpStream::connect(backend).await?;
    server.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
