//! Events and the queues of those who hear of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::client::Client;
use crate::copied::Copied;
use crate::file_use::{FileUse, Used};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A client opened a file.
    Opened(Arc<FileUse>),
    /// A file was closed.
    Closed(Arc<FileUse>),
    /// The connection of a client ended.
    Left(SocketAddr),
    /// A third-party copy ended.
    Copied(Arc<Copied>),
}

struct Outlet {
    name: &'static str,
    queue: SyncSender<Event>,
    dropped: Arc<AtomicU64>,
}

/// Where doors tell events. Clones are the same hub.
#[derive(Clone, Default)]
pub struct Hub(Option<Arc<Inner>>);

struct Inner {
    outlets: Vec<Outlet>,
    files: AtomicU64,
}

/// The events of one sink.
#[derive(Debug)]
pub struct Queue {
    events: Receiver<Event>,
    dropped: Arc<AtomicU64>,
}

impl Hub {
    /// A hub with sinks of these names, each with a queue for so many events.
    #[must_use]
    pub fn new<const SINKS: usize>(sinks: [(&'static str, usize); SINKS]) -> (Self, [Queue; SINKS]) {
        let mut outlets = Vec::with_capacity(SINKS);
        let queues = sinks.map(|(name, events_max)| {
            let (queue, events) = sync_channel(events_max);
            let dropped = Arc::new(AtomicU64::new(0));
            outlets.push(Outlet {
                name,
                queue,
                dropped: dropped.clone(),
            });
            Queue { events, dropped }
        });
        let files = AtomicU64::new(0);
        (Self(Some(Arc::new(Inner { outlets, files }))), queues)
    }

    /// Whether anything is heard.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// A client opens a file. `client` is asked only where it is watched.
    #[must_use]
    pub fn open(&self, client: impl FnOnce() -> Client, path: &str, size_bytes: u64, is_written: bool) -> Used {
        let Some(inner) = &self.0 else { return Used::default() };
        let number = inner.files.fetch_add(1, Ordering::Relaxed);
        let file = Arc::new(FileUse::new(number, client(), path, size_bytes, is_written));
        self.tell(&Event::Opened(file.clone()));
        Used::new(file, self.clone())
    }

    /// Tells all sinks. A queue that is full drops it.
    pub fn tell(&self, event: &Event) {
        for outlet in self.0.iter().flat_map(|inner| &inner.outlets) {
            if outlet.queue.try_send(event.clone()).is_err() {
                outlet.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// How many events each sink has not taken.
    #[must_use]
    pub fn dropped(&self) -> Vec<(&'static str, u64)> {
        let outlets = self.0.iter().flat_map(|inner| &inner.outlets);
        outlets
            .map(|outlet| (outlet.name, outlet.dropped.load(Ordering::Relaxed)))
            .collect()
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Hub").field(&self.dropped()).finish()
    }
}

impl Queue {
    /// The next event; `None` when there is none for so long.
    ///
    /// # Errors
    /// The hub is gone: no event will come.
    pub fn next(&self, patience: Duration) -> Result<Option<Event>, Gone> {
        match self.events.recv_timeout(patience) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Gone),
        }
    }

    /// Events that it has not taken.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// No event will come any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;
