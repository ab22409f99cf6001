//! Long transfers in the background: tasks that move to a runtime whose threads are nicer while
//! they move much.
//!
//! A task that moves data without ever waiting holds a worker for half a millisecond at a time
//! (`TASK_TURN_BYTES`), and small requests wait behind all such tasks: beside 64 uploads for 20 ms.
//! The runtime knows no priorities, but the system does. So a task that has moved some megabytes
//! for one request continues on a second runtime, whose threads have a higher nice value, and comes
//! back to wait for the next request.
//!
//! The futures of such tasks know nothing of it: [`movable`] holds the future and hands it from one
//! runtime to the other, between two polls, when the connection in it says so. The caller of such a
//! task cannot wait for the end of its clean-up, as the end of a third-party copy requires: copies
//! stay in the foreground.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::shared::Shared;

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Priority {
    Foreground,
    Background,
}

thread_local! {
    /// Where the task is that this thread is polling, if it can move.
    static HERE: Cell<Option<Priority>> = const { Cell::new(None) };
    /// Where it wants to be polled next.
    static WANTED: Cell<Option<Priority>> = const { Cell::new(None) };
}

/// The threads, as long as the process serves.
#[derive(Debug)]
pub struct Background {
    runtime: Runtime,
    shared: Shared,
}

impl Background {
    /// Starts them for this thread and those that share with it. Without them tasks stay where they
    /// are. They, and the threads that send long files, are by `niceness` steps of nice(1) nicer
    /// than the process; 0 leaves them as they are.
    ///
    /// # Errors
    /// The system gives no more threads.
    pub fn start(worker_threads: usize, blocking_threads: usize, niceness: i32) -> io::Result<Self> {
        let shared = Shared::new(niceness);
        shared.enter();
        let own = shared.clone();
        let runtime = Builder::new_multi_thread()
            .worker_threads(worker_threads)
            .max_blocking_threads(blocking_threads)
            .thread_name("background")
            .on_thread_start(move || {
                own.enter();
                own.give_way();
            })
            .enable_all()
            .build()?;
        shared.set_background(runtime.handle().clone());
        Ok(Self { runtime, shared })
    }

    /// From now on tasks of this thread go there, too.
    pub fn enter(&self) {
        self.shared.enter();
    }

    /// What all threads share that use these.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Its runtime.
    pub(crate) fn handle(&self) -> Handle {
        self.runtime.handle().clone()
    }

    /// Drops all tasks that are left, and waits for their clean-up, but no longer than this.
    pub fn shut_down(self, limit: Duration) {
        self.runtime.shutdown_timeout(limit);
    }
}

/// Does what `future` does, in the background while it moves much. When it is dropped there, the
/// future ends soon, but not at once.
pub fn movable<F>(future: F) -> impl Future<Output = F::Output> + Send
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    // Before anything is awaited: what holds a future by itself would keep room for it after it has
    // moved.
    moving(Box::pin(future))
}

async fn moving<F>(mut future: Pin<Box<F>>) -> F::Output
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    loop {
        if let Some(output) = polled(&mut future, Priority::Foreground).await {
            return output;
        }
        // It wants nothing without them.
        let threads = Shared::current();
        let Some(background) = threads.background() else {
            continue;
        };
        let task = background.spawn(async move {
            let output = polled(&mut future, Priority::Background).await;
            output.ok_or(future)
        });
        match End(task).await {
            Ok(output) => return output,
            Err(back) => future = back,
        }
    }
}

/// Polls the future until it has ended, or wants to be elsewhere, which gives nothing.
async fn polled<F: Future>(future: &mut Pin<Box<F>>, place: Priority) -> Option<F::Output> {
    poll_fn(|context| {
        WANTED.set(None);
        HERE.set(Some(place));
        let _left = Left;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if WANTED.get().is_some_and(|wanted| wanted != place) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// The thread polls something else now, whether this ended well or not.
struct Left;

impl Drop for Left {
    fn drop(&mut self) {
        HERE.set(None);
    }
}

/// The end of a task in the background, which is given up with this.
struct End<T>(JoinHandle<T>);

impl<T> Future for End<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match Pin::new(&mut self.0).poll(context) {
            Poll::Ready(Ok(output)) => Poll::Ready(output),
            Poll::Ready(Err(cause)) => match cause.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Its runtime ends only with the process.
                Err(_) => Poll::Pending,
            },
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T> Drop for End<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Goes on in the background, or lets others go first where it cannot. Whether it has moved.
pub async fn enter() -> bool {
    go(Priority::Background).await
}

/// Moves to the foreground, at once if it is there already. Returns whether it has moved.
pub async fn leave() -> bool {
    if HERE.get() != Some(Priority::Background) {
        return false;
    }
    go(Priority::Foreground).await
}

async fn go(place: Priority) -> bool {
    let began = HERE.get();
    let mut has_asked = false;
    poll_fn(|context| {
        if has_asked {
            return Poll::Ready(());
        }
        has_asked = true;
        if began.is_some() && Shared::current().background().is_some() {
            WANTED.set(Some(place));
        }
        // Whatever lies between this and the task is to poll this again.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    HERE.get() != began
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, OnceLock};

    use types::limits::STEADY_NICENESS;

    use super::*;
    use crate::niceness::of_this_thread as niceness;

    /// The threads for all tests of this crate.
    pub(crate) fn started() {
        static THREADS: OnceLock<Background> = OnceLock::new();
        THREADS
            .get_or_init(|| Background::start(2, 2, STEADY_NICENESS).unwrap())
            .enter();
    }

    #[tokio::test]
    async fn a_task_goes_to_the_background_and_comes_back() {
        started();
        let usual = niceness();
        let task = movable(async move {
            assert!(!leave().await);
            assert_eq!(niceness(), usual);
            assert!(enter().await);
            assert_eq!(niceness(), (usual + STEADY_NICENESS).min(19));
            // It is there, and lets others run.
            assert!(!enter().await);
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert_eq!(HERE.get(), Some(Priority::Background));
            assert!(leave().await);
            assert_eq!(niceness(), usual);
            assert!(enter().await);
            "over"
        });
        assert_eq!(tokio::spawn(task).await.unwrap(), "over");
        assert_eq!(HERE.get(), None);
    }

    #[tokio::test]
    async fn who_asks_in_a_task_of_its_own_stays() {
        started();
        assert!(!enter().await && !leave().await);
        let inner = movable(async { tokio::spawn(async { enter().await }).await.unwrap() });
        assert!(!inner.await);
    }

    #[tokio::test]
    async fn one_of_several_futures_takes_the_others_along() {
        started();
        let both = movable(async {
            let asking = async {
                let moved = enter().await;
                tokio::time::sleep(Duration::from_millis(5)).await;
                moved
            };
            let beside = async {
                tokio::time::sleep(Duration::from_millis(2)).await;
                HERE.get()
            };
            tokio::join!(asking, beside)
        });
        assert_eq!(both.await, (true, Some(Priority::Background)));
    }

    #[tokio::test]
    async fn a_panic_in_the_background_is_one_of_the_task() {
        started();
        let task = tokio::spawn(movable(async {
            enter().await;
            panic!("a test's");
        }));
        assert!(task.await.unwrap_err().is_panic());
    }

    /// Says so when it is dropped.
    struct Flag(Arc<AtomicBool>);

    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    #[tokio::test]
    async fn giving_the_task_up_ends_it_in_the_background_too() {
        started();
        let dropped = Arc::new(AtomicBool::new(false));
        let flag = Flag(dropped.clone());
        let task = movable(async move {
            let _flag = flag;
            enter().await;
            std::future::pending::<()>().await;
        });
        assert!(tokio::time::timeout(Duration::from_millis(50), task).await.is_err());
        for _ in 0..200 {
            if dropped.load(Ordering::Acquire) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("it is still there");
    }
}
