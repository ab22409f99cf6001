//! Idle connections, kept a while for the next request to the same server: a HEAD and the GET behind
//! it then share one TLS handshake.

use std::sync::Mutex;
use std::time::Instant;

use http_wire::HeadLimits;
use net::http::Connection;
use types::limits::{IDLE_CONNECTIONS_MAX, IDLE_PEER_CONNECTIONS_MAX, IDLE_PEER_TIMEOUT};
use types::{Scheme, Side};

use crate::resource::Resource;

/// What a connection may be used again for. The side belongs to it, as a connection blames it for
/// its own failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    scheme: Scheme,
    host: String,
    port: u16,
    side: Side,
}

impl Origin {
    /// The origin of a file.
    pub(crate) fn of(file: &Resource) -> Self {
        Self {
            scheme: file.location.scheme(),
            host: file.location.host().to_ascii_lowercase(),
            port: file.location.port(),
            side: file.side,
        }
    }
}

struct Idle {
    origin: Origin,
    since: Instant,
    connection: Connection,
}

/// The idle connections of one client, oldest first.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<Idle>>);

impl Pool {
    /// The connection that became idle last, if one is still good: open, and with nothing on it that
    /// nobody asked for.
    pub(crate) fn take(&self, origin: &Origin) -> Option<Connection> {
        loop {
            let mut connection = {
                let mut idle = self.lock();
                idle.retain(|entry| entry.since.elapsed() < IDLE_PEER_TIMEOUT);
                let at = idle.iter().rposition(|entry| entry.origin == *origin)?;
                idle.remove(at).connection
            };
            let silent = matches!(connection.response_available(&HeadLimits::default()), Ok(None));
            if silent && !connection.has_leftover() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection whose last message is whole. The oldest ones make room.
    pub(crate) fn put(&self, origin: Origin, connection: Connection) {
        let since = Instant::now();
        let mut idle = self.lock();
        idle.retain(|entry| entry.since.elapsed() < IDLE_PEER_TIMEOUT);
        if idle.iter().filter(|entry| entry.origin == origin).count() >= IDLE_PEER_CONNECTIONS_MAX
            && let Some(oldest) = idle.iter().position(|entry| entry.origin == origin)
        {
            idle.remove(oldest);
        }
        if idle.len() >= IDLE_CONNECTIONS_MAX {
            idle.remove(0);
        }
        idle.push(Idle {
            origin,
            since,
            connection,
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Idle>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
