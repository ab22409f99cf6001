//! A long line in a box: what comes in at one address goes on to another one later, as if the two
//! were far apart. No rights and no changes of the system are needed.
//!
//! Each direction holds every chunk back for half of the round-trip time. A line of a real length
//! differs in this: the sender's kernel waits for acknowledgements that take the whole way and
//! back, so that it has at most one window of bytes under way, while here each leg is a connection
//! within the machine, acknowledged at once. Hence the *window*: with one given, the relay takes no
//! more bytes from a sender than that until the first of them would have been acknowledged, which
//! is half of the round-trip time after they reached the other side. The rate is then the window
//! divided by the round-trip time, as on a line without losses on which the windows have grown to
//! their full size. Slow start, losses and queues in routers are not imitated.
//!
//! Without a window, a direction of one connection is as fast as this machine, up to
//! [`crate::limits::RELAY_QUEUE_BYTES_MAX`] under way: 10 Gbit/s over 200 ms.

mod line;
mod queue;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::RELAY_QUEUE_BYTES_MAX;
use tokio::task::JoinHandle;

use line::Line;
use queue::Buffers;

/// A relay that runs until it is dropped; its connections break then.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// Starts to listen on `listen` (port 0 is any free one) and passes every connection on to
    /// `to`, over a line of the round-trip time `rtt`, in its times precise to about a millisecond
    /// and never too short.
    ///
    /// # Errors
    /// The system's, such as an address in use. That `to` refuses is seen by each connection, which
    /// breaks.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(listen: SocketAddr, to: SocketAddr, rtt: Duration) -> io::Result<Self> {
        Self::start_with_window(listen, to, rtt, None)
    }

    /// As [`Relay::start`], with at most `window_bytes` of each direction of a connection under
    /// way: what the buffers of its two sockets would allow on a line of that length.
    ///
    /// # Errors
    /// As [`Relay::start`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start_with_window(
        listen: SocketAddr,
        to: SocketAddr,
        rtt: Duration,
        window_bytes: Option<u64>,
    ) -> io::Result<Self> {
        let listener = net::listen::listen(listen)?;
        let address = listener.local_addr()?;
        let window_bytes = window_bytes.unwrap_or(u64::MAX).clamp(1, RELAY_QUEUE_BYTES_MAX);
        let line = Line {
            to,
            one_way: rtt / 2,
            window_bytes,
            buffers: Arc::new(Buffers::default()),
        };
        let accepting = tokio::spawn(line.serve(listener));
        Ok(Self { address, accepting })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
