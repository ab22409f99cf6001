//! What the threads of one server, or of one command, share.

use std::any::Any;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::runtime::Handle;

use crate::niceness;
use crate::senders::Senders;

thread_local! {
    /// With whom this thread shares.
    static CURRENT: RefCell<Option<Shared>> = const { RefCell::new(None) };
    /// What this thread has used of what its owner keeps, to find it without a lock.
    static AT_HAND: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

/// Something that an owner keeps for all of its threads, of a type that `execution` need not know.
type Kept = Arc<dyn Any + Send + Sync>;

/// What all threads of the same server, or of the same command, use together: buffers, for example.
/// There is one of each type, and the first thread that asks makes it.
///
/// It takes some nanoseconds and no lock, except for the first time on a thread.
#[must_use]
pub fn shared<T: Any + Default + Send + Sync>() -> Arc<T> {
    AT_HAND.with_borrow(|kept| find(kept)).unwrap_or_else(|| {
        let made = Shared::current().kept::<T>();
        AT_HAND.with_borrow_mut(|kept| kept.push(made.clone()));
        made
    })
}

fn find<T: Any + Send + Sync>(kept: &[Kept]) -> Option<Arc<T>> {
    let one = kept.iter().find(|one| (***one).is::<T>())?;
    one.clone().downcast().ok()
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
    kept: Mutex<Vec<Kept>>,
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
        AT_HAND.take();
    }

    fn kept<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        find(&kept).unwrap_or_else(|| {
            let made = Arc::new(T::default());
            kept.push(made.clone());
            made
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Count(Mutex<u32>);

    #[derive(Debug, Default)]
    struct Other;

    fn counted() -> u32 {
        let count = shared::<Count>();
        let mut count = count.0.lock().unwrap();
        *count += 1;
        *count
    }

    #[test]
    fn threads_of_one_owner_have_one_of_each_type_and_those_of_another_their_own() {
        let owners = [Shared::default(), Shared::default()];
        owners[0].enter();
        assert_eq!((counted(), counted()), (1, 2));
        let _other = shared::<Other>();
        let own = owners[0].clone();
        let elsewhere = std::thread::spawn(move || {
            own.enter();
            (counted(), Arc::as_ptr(&shared::<Other>()).addr())
        });
        let here = Arc::as_ptr(&shared::<Other>()).addr();
        assert_eq!(elsewhere.join().unwrap(), (3, here));
        owners[1].enter();
        assert_eq!(counted(), 1);
        owners[0].enter();
        assert_eq!(counted(), 4);
    }
}
