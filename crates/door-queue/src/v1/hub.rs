//! Events for all streams: one reader of the queue, however many clients listen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use endpoint::Gate;
use tokio::sync::broadcast;
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::limits::{EVENT_STREAMS_MAX, EVENT_STREAMS_PER_USER_MAX, EVENTS_KEPT_MAX, EVENTS_READ_MAX};
use crate::queue::{Event, Queue};

/// What streams of events share. Clones are the same.
#[derive(Clone)]
pub(super) struct Hub(Arc<Inner>);

struct Inner {
    gate: Gate,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The reader's end, while it runs.
    sender: Option<broadcast::Sender<Arc<Event>>>,
    /// Streams that are open, by user.
    open: HashMap<String, usize>,
}

/// A place among the streams; given back when dropped.
pub(super) struct Place {
    hub: Hub,
    user: String,
}

impl Hub {
    /// A hub for a door with this gate.
    pub(super) fn new(gate: Gate) -> Self {
        Self(Arc::new(Inner {
            gate,
            state: Mutex::default(),
        }))
    }

    /// Waits until the door closes.
    pub(super) async fn closing(&self) {
        self.0.gate.draining().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a stream of this user.
    ///
    /// # Errors
    /// `share_used_up` if the user has [`EVENT_STREAMS_PER_USER_MAX`]; `overloaded` if there are
    /// [`EVENT_STREAMS_MAX`].
    pub(super) fn enter(&self, user: &str) -> Result<Place> {
        let mut state = self.lock();
        let refused = |code, limit: usize| {
            let error = Error::new(code, Side::Client, Phase::Open);
            Err(error.with_detail(format!("{limit} streams of events are open")))
        };
        let all: usize = state.open.values().sum();
        let own = state.open.get(user).copied().unwrap_or_default();
        if own >= EVENT_STREAMS_PER_USER_MAX {
            return refused(ErrorCode::ShareUsedUp, own);
        }
        if all >= EVENT_STREAMS_MAX {
            return refused(ErrorCode::Overloaded, all);
        }
        *state.open.entry(user.to_owned()).or_default() += 1;
        Ok(Place {
            hub: self.clone(),
            user: user.to_owned(),
        })
    }

    /// All events from now on. A receiver that falls [`EVENTS_KEPT_MAX`] behind learns
    /// of it.
    pub(super) fn listen(&self, queue: &Arc<dyn Queue>) -> broadcast::Receiver<Arc<Event>> {
        let mut state = self.lock();
        if let Some(sender) = &state.sender {
            return sender.subscribe();
        }
        let (sender, receiver) = broadcast::channel(EVENTS_KEPT_MAX);
        state.sender = Some(sender.clone());
        let latest = queue.latest_event();
        let after = *latest.borrow();
        tokio::spawn(self.clone().read(queue.clone(), sender, after));
        receiver
    }

    /// Reads events as long as there are listeners.
    async fn read(self, queue: Arc<dyn Queue>, sender: broadcast::Sender<Arc<Event>>, mut after: i64) {
        let mut latest = queue.latest_event();
        latest.mark_changed();
        loop {
            tokio::select! {
                changed = latest.changed() => if changed.is_err() { break },
                () = sender.closed() => {}
                () = self.closing() => break,
            }
            if self.ends(&sender) {
                return;
            }
            // What cannot be read now is read after the next change.
            while let Ok(events) = queue.events_after(after, EVENTS_READ_MAX).await {
                let is_last = events.len() < EVENTS_READ_MAX;
                for event in events {
                    after = event.sequence;
                    // Without a listener the next look ends the loop.
                    let _ = sender.send(Arc::new(event));
                }
                if is_last {
                    break;
                }
            }
        }
        self.lock().sender = None;
    }

    /// Whether no stream listens any more; the next one then begins a new reader.
    fn ends(&self, sender: &broadcast::Sender<Arc<Event>>) -> bool {
        let mut state = self.lock();
        let is_idle = sender.receiver_count() == 0;
        if is_idle {
            state.sender = None;
        }
        is_idle
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.hub.lock();
        let left = state.open.get_mut(&self.user).map(|count| {
            *count -= 1;
            *count
        });
        if left == Some(0) {
            state.open.remove(&self.user);
        }
    }
}
