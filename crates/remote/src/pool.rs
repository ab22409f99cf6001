//! Idle connections, kept for the next request to the same server: HEAD and GET of a file share one
//! TLS handshake.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::{IDLE_CONNECTIONS_MAX, IDLE_PEER_CONNECTIONS_MAX, IDLE_PEER_TIMEOUT};

/// The idle connections of one client, each with the origin that it belongs to.
pub(crate) struct Pool<O, C>(Mutex<Shelf<O, C>>);

struct Idle<O, C> {
    origin: O,
    since: Instant,
    connection: C,
}

struct Shelf<O, C> {
    /// Oldest first.
    idle: Vec<Idle<O, C>>,
    /// A task is running that closes old connections.
    swept: bool,
}

impl<O, C> Default for Pool<O, C> {
    fn default() -> Self {
        Self(Mutex::new(Shelf {
            idle: Vec::new(),
            swept: false,
        }))
    }
}

impl<O, C> Shelf<O, C> {
    fn drop_old(&mut self) {
        self.idle.retain(|entry| entry.since.elapsed() < IDLE_PEER_TIMEOUT);
    }
}

impl<O: PartialEq + Send + 'static, C: Send + 'static> Pool<O, C> {
    /// The connection that became idle last, if that was within `idle_max` and it is still good:
    /// open, without unexpected bytes on it. Those that are not good are closed.
    pub(crate) fn take(&self, origin: &O, idle_max: Duration, is_good: impl Fn(&mut C) -> bool) -> Option<C> {
        loop {
            let mut connection = {
                let mut shelf = self.lock();
                shelf.drop_old();
                let at = shelf.idle.iter().rposition(|entry| entry.origin == *origin)?;
                if shelf.idle[at].since.elapsed() > idle_max {
                    return None;
                }
                shelf.idle.remove(at).connection
            };
            if is_good(&mut connection) {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection whose last message is complete. The oldest ones make room.
    pub(crate) fn put(self: &Arc<Self>, origin: O, connection: C) {
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

    fn lock(&self) -> MutexGuard<'_, Shelf<O, C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes old connections until none is left or the client is dropped. Without it a quiet process
/// would hold its last connections forever.
async fn sweep<O: PartialEq + Send + 'static, C: Send + 'static>(pool: Weak<Pool<O, C>>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_used_again_only_within_the_time_that_the_request_allows() {
        let pool = Arc::new(Pool::default());
        pool.put("here", 1);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(pool.take(&"here", Duration::from_secs(2), |_| true), None);
        assert_eq!(pool.take(&"here", Duration::from_secs(4), |_| true), Some(1));
        pool.put("here", 2);
        tokio::time::advance(IDLE_PEER_TIMEOUT).await;
        assert_eq!(pool.take(&"here", IDLE_PEER_TIMEOUT, |_| true), None);
    }
}
