//! Idle connections, kept a while for the next request to the same server: a HEAD and the GET behind
//! it then share one TLS handshake.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
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

/// The idle connections of one client.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Shelf>);

#[derive(Default)]
struct Shelf {
    /// Oldest first.
    idle: Vec<Idle>,
    /// A task is there that closes what has been idle for too long.
    swept: bool,
}

impl Shelf {
    fn drop_old(&mut self) {
        self.idle.retain(|entry| entry.since.elapsed() < IDLE_PEER_TIMEOUT);
    }
}

impl Pool {
    /// The connection that became idle last, if one is still good: open, and with nothing on it that
    /// nobody asked for.
    pub(crate) fn take(&self, origin: &Origin) -> Option<Connection> {
        loop {
            let mut connection = {
                let mut shelf = self.lock();
                shelf.drop_old();
                let at = shelf.idle.iter().rposition(|entry| entry.origin == *origin)?;
                shelf.idle.remove(at).connection
            };
            let silent = matches!(connection.response_available(&HeadLimits::default()), Ok(None));
            if silent && !connection.has_leftover() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection whose last message is whole. The oldest ones make room.
    pub(crate) fn put(self: &Arc<Self>, origin: Origin, connection: Connection) {
        let mut shelf = self.lock();
        shelf.drop_old();
        let idle = &mut shelf.idle;
        if idle.iter().filter(|entry| entry.origin == origin).count() >= IDLE_PEER_CONNECTIONS_MAX
            && let Some(oldest) = idle.iter().position(|entry| entry.origin == origin)
        {
            idle.remove(oldest);
        }
        if idle.len() >= IDLE_CONNECTIONS_MAX {
            idle.remove(0);
        }
        let since = Instant::now();
        idle.push(Idle {
            origin,
            since,
            connection,
        });
        if !std::mem::replace(&mut shelf.swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes what has been idle for too long, until nothing is left or the client is gone. Without it a
/// quiet process would hold its last connections for ever.
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(IDLE_PEER_TIMEOUT).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut shelf = pool.lock();
        shelf.drop_old();
        if shelf.idle.is_empty() {
            shelf.swept = false;
            return;
        }
    }
}
