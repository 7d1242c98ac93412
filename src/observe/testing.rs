//! Loopback peers that refuse connections or never answer.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpSocket};
use tokio::time;

/// Returns an address that refuses connections: a port that is bound but not listened on. The port cannot be assigned again while the
/// socket exists. A released port could be taken by another test, or still be listened on by a child process that was forked before.
pub(super) fn refusing() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Returns the outcome of `ask` with a server that accepts the connection and is silent for `limit`. The clock jumps ahead once the client
/// has sent data: by then it is connected even on a slow machine, and the test does not have to wait.
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
    // The answer may come as soon as the clock has jumped.
    if is_frozen.get() {
        time::resume();
    }
    answer
}
