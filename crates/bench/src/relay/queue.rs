//! What is under way in one direction of a connection, and when it arrives.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::limits::RELAY_BUFFERS_KEPT_MAX;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Most bytes to read from a socket at a time.
pub(super) const CHUNK_BYTES: usize = 256 * 1024;
/// Chunks up to this size are copied out of the buffer they were read into, so that many small ones
/// do not hold a large buffer each.
const SMALL_BYTES: usize = 32 * 1024;

/// Bytes that were read together.
#[derive(Debug)]
pub(super) struct Chunk {
    buffer: Box<[u8]>,
    length: usize,
}

impl Chunk {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

/// Buffers that are used again, by all connections of a relay.
#[derive(Debug, Default)]
pub(super) struct Buffers(Mutex<Vec<Box<[u8]>>>);

impl Buffers {
    /// A buffer of [`CHUNK_BYTES`].
    pub(super) fn take(&self) -> Box<[u8]> {
        let kept = lock(&self.0).pop();
        kept.unwrap_or_else(|| vec![0; CHUNK_BYTES].into())
    }

    /// Keeps a buffer for the next who needs one.
    pub(super) fn put_back(&self, buffer: Box<[u8]>) {
        let mut kept = lock(&self.0);
        if buffer.len() == CHUNK_BYTES && kept.len() < RELAY_BUFFERS_KEPT_MAX {
            kept.push(buffer);
        }
    }

    /// The first bytes of `buffer` as a chunk, in no more memory than they are worth.
    pub(super) fn chunk(&self, buffer: Box<[u8]>, length: usize) -> Chunk {
        if length > SMALL_BYTES {
            return Chunk { buffer, length };
        }
        let small = buffer[..length].into();
        self.put_back(buffer);
        Chunk { buffer: small, length }
    }

    /// Takes back what held a chunk.
    pub(super) fn recycle(&self, chunk: Chunk) {
        self.put_back(chunk.buffer);
    }
}

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Queue {
    delay: Duration,
    window_bytes: u64,
    inner: Mutex<Inner>,
    /// Something has been put in, or has arrived.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// Chunks and when they are to arrive; `None` is the end of the direction.
    chunks: VecDeque<(Instant, Option<Chunk>)>,
    /// What the sender does not know to have arrived.
    unacknowledged_bytes: u64,
    /// When it will know of how much, in this order.
    acknowledgements: VecDeque<(Instant, u64)>,
}

impl Queue {
    pub(super) fn new(delay: Duration, window_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            delay,
            window_bytes,
            inner: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Waits until the sender may send, and gives how many bytes that may be.
    pub(super) async fn room(&self) -> usize {
        loop {
            let changed = self.changed.notified();
            let next = {
                let mut inner = lock(&self.inner);
                inner.hear_of(Instant::now());
                let room = self.window_bytes.saturating_sub(inner.unacknowledged_bytes);
                if room > 0 {
                    return usize::try_from(room).unwrap_or(usize::MAX).min(CHUNK_BYTES);
                }
                inner.acknowledgements.front().map(|(when, _)| *when)
            };
            match next {
                Some(when) => sleep_until(when).await,
                None => changed.await,
            }
        }
    }

    /// Sends a chunk on its way; `None` ends the direction.
    pub(super) fn push(&self, chunk: Option<Chunk>) {
        let mut inner = lock(&self.inner);
        inner.unacknowledged_bytes += chunk.as_ref().map_or(0, |chunk| chunk.length as u64);
        inner.chunks.push_back((Instant::now() + self.delay, chunk));
        drop(inner);
        self.changed.notify_waiters();
    }

    /// The next chunk, when its time has come.
    pub(super) async fn pop(&self) -> Option<Chunk> {
        loop {
            let changed = self.changed.notified();
            let next = lock(&self.inner).chunks.front().map(|(when, _)| *when);
            match next {
                None => changed.await,
                Some(when) => {
                    // Reading the clock is cheaper than a timer for what is overdue.
                    if when > Instant::now() {
                        sleep_until(when).await;
                    }
                    // This is the only reader of this side.
                    return lock(&self.inner).chunks.pop_front().and_then(|(_, chunk)| chunk);
                }
            }
        }
    }

    /// Notes that so many bytes have reached the other side; the sender learns of it later.
    pub(super) fn arrived(&self, bytes: usize) {
        let mut inner = lock(&self.inner);
        inner
            .acknowledgements
            .push_back((Instant::now() + self.delay, bytes as u64));
        drop(inner);
        self.changed.notify_waiters();
    }
}

impl Inner {
    fn hear_of(&mut self, now: Instant) {
        while let Some((when, bytes)) = self.acknowledgements.front()
            && *when <= now
        {
            self.unacknowledged_bytes -= bytes;
            self.acknowledgements.pop_front();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
