//! Peers on loopback that refuse, and that say nothing.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpSocket};
use tokio::time;

/// An address that refuses connections: a port that is taken and not listened on. Nobody else is given it while the socket lives,
/// whereas one that was given back may be taken by another test, or still be listened on by a child process that was forked before.
pub(super) fn refusing() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// What `ask` makes of a server that takes its connection and says nothing for `limit`. The clock jumps there once the client has
/// spoken: by then it is connected, however slow the machine is, and nobody waits.
pub(super) async fn unanswered<F: Future>(limit: Duration, ask: impl FnOnce(SocketAddr) -> F) -> F::Output {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ask = ask(listener.local_addr().unwrap());
    let is_frozen = Cell::new(false);
    let silence = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        time::pause();
        is_frozen.set(true);
        time::advance(limit).await;
        time::resume();
        is_frozen.set(false);
        std::future::pending::<()>().await;
    };
    let answer = tokio::select! {
        answer = ask => answer,
        () = silence => unreachable!(),
    };
    // It may come as soon as the clock has jumped.
    if is_frozen.get() {
        time::resume();
    }
    answer
}
