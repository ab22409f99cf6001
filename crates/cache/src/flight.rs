//! A block that is being fetched once, for all of its readers.

use std::sync::Arc;

use tokio::sync::watch;
use types::Error;

/// Why there are no more parts.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// All parts are there.
    Complete,
    /// It was not fetched: readers go to the origin themselves.
    NotFetched,
    /// The origin failed for the reader that began it.
    Failed(Error),
}

#[derive(Default)]
struct State {
    parts: Vec<Arc<Vec<u8>>>,
    end: Option<End>,
}

/// A block on its way. Readers get its parts as they arrive.
pub(crate) struct Flight(watch::Sender<State>);

impl Flight {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(State::default()))
    }

    /// A part, when it has arrived.
    ///
    /// # Errors
    /// It will not arrive.
    pub(crate) async fn part(&self, number: usize) -> Result<Arc<Vec<u8>>, End> {
        let mut states = self.0.subscribe();
        loop {
            {
                let state = states.borrow_and_update();
                match (state.parts.get(number), &state.end) {
                    (Some(part), _) => return Ok(part.clone()),
                    (None, Some(end)) => return Err(end.clone()),
                    (None, None) => {}
                }
            }
            if states.changed().await.is_err() {
                return Err(End::NotFetched);
            }
        }
    }

    pub(crate) fn add(&self, part: Arc<Vec<u8>>) {
        self.0.send_modify(|state| state.parts.push(part));
    }

    pub(crate) fn parts(&self) -> Vec<Arc<Vec<u8>>> {
        self.0.borrow().parts.clone()
    }

    /// The first end counts.
    pub(crate) fn end(&self, end: End) {
        self.0.send_modify(|state| {
            state.end.get_or_insert(end);
        });
    }
}
