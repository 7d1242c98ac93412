//! Signals: the first SIGINT, SIGTERM or SIGHUP ends the run with reports, the second ends the process. SIGWINCH: the terminal was resized.
//! SIGXFSZ: a file exceeds the size limit, which its writer sees as an error as well.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::model::Exit;

/// Notifies about changes of the terminal's size.
#[derive(Debug)]
pub(crate) struct Resizes(Signal);

impl Resizes {
    pub(crate) fn listen() -> io::Result<Self> {
        signal(SignalKind::window_change()).map(Self)
    }

    pub(crate) async fn next(&mut self) {
        // Without a listener, no resize will ever be reported.
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// The signals that end a run. Listens from its creation on, so no signal of a short run is lost.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    /// Received so that it does not end the process.
    _file_size: Signal,
}

/// SIGXFSZ, on every architecture of Linux except MIPS.
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

    /// Waits for the next signal and returns its exit code.
    pub(crate) async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
            _ = self.hangup.recv() => Exit::Hangup,
        }
    }
}
