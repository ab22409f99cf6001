//! What the threads of one server, or of one command, share.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use tokio::runtime::Handle;

use crate::niceness;
use crate::senders::Senders;

thread_local! {
    /// With whom this thread shares.
    static CURRENT: RefCell<Option<Shared>> = const { RefCell::new(None) };
}

/// The owner holds one, and each thread that it starts has a clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// How much nicer the threads of long transfers are than the process.
    niceness: i32,
    /// Not set where there is no background.
    background: OnceLock<Handle>,
    senders: Senders,
}

impl Shared {
    /// Threads of long transfers will be so much nicer than the process.
    pub(crate) fn new(niceness: i32) -> Self {
        Self(Arc::new(Inner {
            niceness,
            ..Inner::default()
        }))
    }

    /// What this thread shares with others; by default with none.
    pub(crate) fn current() -> Self {
        CURRENT.with_borrow_mut(|current| current.get_or_insert_default().clone())
    }

    /// From now on this thread shares this.
    pub(crate) fn enter(&self) {
        CURRENT.set(Some(self.clone()));
    }

    /// Makes this thread nicer, as those of long transfers are.
    pub(crate) fn give_way(&self) {
        niceness::give_way(self.0.niceness);
    }

    /// The runtime in the background.
    pub(crate) fn background(&self) -> Option<&Handle> {
        self.0.background.get()
    }

    /// Says where the background is, once.
    pub(crate) fn set_background(&self, runtime: Handle) {
        // A second one has nothing to do.
        let _ = self.0.background.set(runtime);
    }

    pub(crate) fn senders(&self) -> &Senders {
        &self.0.senders
    }
}
