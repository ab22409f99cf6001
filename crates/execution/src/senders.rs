//! Threads that send files, kept for a moment for the next file: a client of the XRootD protocol
//! asks for 8 MiB at a time, and a new thread for each took a tenth of the sending time.

use std::cell::Cell;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::limits::STEADY_IDLE_MAX;
use tokio::sync::Semaphore;
use types::limits::{STEADY_EQUALS, STEADY_SENDERS_MAX};

use crate::shared::Shared;

/// What a thread needs: nothing but system calls.
const STACK_BYTES: usize = 128 * 1024;
/// How long a thread waits for more to do.
const IDLE_WAIT: Duration = Duration::from_secs(1);

/// Something to do. It calls what it is given when the thread may be given more, at the latest when
/// it ends.
type Work = Box<dyn FnOnce(&dyn Fn()) + Send>;

thread_local! {
    /// Whether this thread has become nicer. There is no way back: that is a privilege.
    static IS_NICER: Cell<bool> = const { Cell::new(false) };
}

/// The sending threads of one server or command.
#[derive(Debug)]
pub(crate) struct Senders {
    places: Arc<Semaphore>,
    idle: Idle,
    /// How many may send in clear text as what they are.
    equals: usize,
}

impl Default for Senders {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self {
            places: Arc::new(Semaphore::new(STEADY_SENDERS_MAX)),
            idle: Idle::default(),
            equals: (STEADY_EQUALS * processors).min(STEADY_SENDERS_MAX - 1),
        }
    }
}

/// Places for files that are sent at the same time, [`STEADY_SENDERS_MAX`] for a server. Who sends
/// holds one.
#[must_use]
pub fn places() -> Arc<Semaphore> {
    Shared::current().senders().places.clone()
}

/// Whether so many threads send that each should give way to those who do anything else.
#[must_use]
pub fn is_crowded() -> bool {
    let threads = Shared::current();
    let senders = threads.senders();
    STEADY_SENDERS_MAX - senders.places.available_permits() > senders.equals
}

/// How many threads may send in clear text as what they are.
#[must_use]
pub fn equals() -> usize {
    Shared::current().senders().equals
}

/// A thread as others see it.
#[derive(Clone, Debug)]
struct Handle {
    id: ThreadId,
    give: SyncSender<Work>,
}

/// Those that are as nice as the rest of the process, and those that are nicer. Who came last is
/// first: its stack is in the processor's cache, and the others may leave.
#[derive(Debug, Default)]
struct Idle(Mutex<[Vec<Handle>; 2]>);

impl Idle {
    fn lock(&self) -> MutexGuard<'_, [Vec<Handle>; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a thread in, unless there are enough.
    fn park(&self, is_nicer: bool, thread: Handle) -> bool {
        let mut idle = self.lock();
        let has_room = idle.iter().map(Vec::len).sum::<usize>() < STEADY_IDLE_MAX;
        if has_room {
            idle[usize::from(is_nicer)].push(thread);
        }
        has_room
    }

    /// Lets a thread end, unless a caller has taken it.
    fn leave(&self, is_nicer: bool, id: ThreadId) -> bool {
        let mut idle = self.lock();
        let shelf = &mut idle[usize::from(is_nicer)];
        let at = shelf.iter().position(|thread| thread.id == id);
        at.map(|at| shelf.remove(at)).is_some()
    }
}

/// A reserved thread that waits for its job. Dropped without one, it waits for the next caller.
pub struct Thread(Option<SyncSender<Work>>);

impl Thread {
    /// A waiting thread, or a new one: one with a higher nice value, if available, for callers that
    /// give way at once, and never for others.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn take(gives_way: bool) -> io::Result<Self> {
        let threads = Shared::current();
        let waiting = threads.senders().idle.lock()[usize::from(gives_way)].pop();
        waiting.map_or_else(|| Self::begin(threads), |thread| Ok(Self(Some(thread.give))))
    }

    fn begin(threads: Shared) -> io::Result<Self> {
        let (give, taken) = sync_channel(1);
        let own = give.clone();
        thread::Builder::new()
            .name("send".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || serve(&threads, own, &taken))?;
        Ok(Self(Some(give)))
    }

    /// Has it do this. It may be given more to do as soon as `work` has called what it is given.
    ///
    /// # Errors
    /// When the thread is gone; `work` is dropped then.
    pub fn run(mut self, work: impl FnOnce(&dyn Fn()) + Send + 'static) -> io::Result<()> {
        let gone = || io::Error::other("the sending thread is gone");
        let give = self.0.take().ok_or_else(gone)?;
        give.send(Box::new(work)).map_err(|_| gone())
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some(give) = self.0.take() {
            let _ = give.send(Box::new(|park| park()));
        }
    }
}

/// Makes this thread nicer than the process.
pub fn give_way() {
    if !IS_NICER.replace(true) {
        Shared::current().give_way();
    }
}

/// What a thread does all its life.
fn serve(threads: &Shared, give: SyncSender<Work>, taken: &Receiver<Work>) {
    threads.enter();
    let idle = &threads.senders().idle;
    let id = thread::current().id();
    let own = Handle { id, give };
    // The holder of a thread always sends it a message, if only that there is no job.
    let mut next = taken.recv().ok();
    while let Some(work) = next {
        let is_parked = Cell::new(false);
        let park = || is_parked.set(is_parked.get() || idle.park(IS_NICER.get(), own.clone()));
        work(&park);
        next = match is_parked.get() {
            true => wait(idle, id, taken),
            false => None,
        };
    }
}

/// What is to be done next, `None` after a time without anything.
fn wait(idle: &Idle, id: ThreadId, taken: &Receiver<Work>) -> Option<Work> {
    match taken.recv_timeout(IDLE_WAIT) {
        Ok(work) => Some(work),
        Err(RecvTimeoutError::Timeout) if !idle.leave(IS_NICER.get(), id) => taken.recv().ok(),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the thread that does this is called by the system, once it is done.
    fn worker(gives_way: bool) -> ThreadId {
        let (tell, told) = sync_channel(1);
        let work = move |park: &dyn Fn()| {
            if gives_way {
                give_way();
            }
            park();
            tell.send(thread::current().id()).expect("somebody listens");
        };
        Thread::take(gives_way)
            .expect("a thread")
            .run(work)
            .expect("it is there");
        told.recv().expect("it was done")
    }

    fn all_leave() {
        let deadline = std::time::Instant::now() + IDLE_WAIT * 10;
        while Shared::current()
            .senders()
            .idle
            .lock()
            .iter()
            .any(|shelf| !shelf.is_empty())
        {
            assert!(std::time::Instant::now() < deadline, "they stay");
            thread::sleep(IDLE_WAIT / 10);
        }
    }

    #[test]
    fn threads_are_used_again_by_who_gives_way_as_they_do_and_end_after_a_while() {
        all_leave();
        let (equal, nicer) = (worker(false), worker(true));
        assert_ne!(equal, nicer);
        assert_eq!([worker(false), worker(true), worker(false)], [equal, nicer, equal]);
        // One that is taken and not used waits for the next.
        drop(Thread::take(false).expect("a thread"));
        while Shared::current().senders().idle.lock()[0]
            .last()
            .is_none_or(|thread| thread.id != equal)
        {
            thread::yield_now();
        }
        assert_eq!(worker(false), equal);
        all_leave();
        assert_ne!(worker(false), equal);
    }

    #[test]
    fn no_more_wait_than_are_allowed() {
        let taken: Vec<_> = (0..STEADY_IDLE_MAX + 5)
            .map(|_| Thread::take(false).expect("a thread"))
            .collect();
        drop(taken);
        let deadline = std::time::Instant::now() + IDLE_WAIT / 2;
        let mut most = 0_usize;
        while std::time::Instant::now() < deadline {
            most = most.max(Shared::current().senders().idle.lock().iter().map(Vec::len).sum());
            thread::yield_now();
        }
        assert_eq!(most, STEADY_IDLE_MAX);
    }
}
