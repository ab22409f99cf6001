//! The signals that end a server, and those that let it read its configuration again.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// `SIGTERM` or `SIGINT`.
    Stop,
    /// `SIGHUP`.
    Reload,
}

/// The signals of a server. Those that come between [`Signals::receive`] and [`Signals::next`] are
/// kept: without, one that comes as soon as the server says that it is ready would end the process.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Receives them from now on.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn receive() -> Result<Self, Failure> {
        let of = |kind| signal(kind).map_err(|cause| Failure::system("cannot receive signals", &cause));
        Ok(Self {
            terminate: of(SignalKind::terminate())?,
            interrupt: of(SignalKind::interrupt())?,
            hang_up: of(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.hang_up.recv() => Asked::Reload,
        }
    }

    /// Waits until one asks to stop.
    pub(crate) async fn stop(&mut self) {
        while self.next().await != Asked::Stop {}
    }
}
