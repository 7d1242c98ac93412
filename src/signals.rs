//! SIGINT, SIGTERM, SIGHUP: the first ends the run with reports, the second ends the process. SIGWINCH: the terminal was resized.
//! SIGXFSZ: a file is larger than it may be, which whoever writes it is told as well.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::model::Exit;

/// When the terminal gets another size.
#[derive(Debug)]
pub(crate) struct Resizes(Signal);

impl Resizes {
    pub(crate) fn listen() -> io::Result<Self> {
        signal(SignalKind::window_change()).map(Self)
    }

    pub(crate) async fn next(&mut self) {
        // Without a listener behind it, there is nothing to wait for.
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// Listens from its creation on, so no signal of a short run is lost.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    /// Listened to so that it does not end the process.
    _file_size: Signal,
}

/// SIGXFSZ, on every machine that Linux runs on but MIPS.
const FILE_SIZE: i32 = 25;

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            _file_size: signal(SignalKind::from_raw(FILE_SIZE))?,
        })
    }

    /// The next signal, as the exit code that belongs to it.
    pub(crate) async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
            _ = self.hangup.recv() => Exit::Hangup,
        }
    }
}
