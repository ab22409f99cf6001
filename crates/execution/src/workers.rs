//! The threads that serve connections: each has a runtime of its own, and a connection stays with
//! one of them.
//!
//! In a runtime of several threads all tasks share one queue, and third-party copies, which hold a
//! thread for half a millisecond at a time, make a small request wait for 30 to 130 ms. On threads
//! of its own it waits only for the processor, which the system shares out. And no thread wakes
//! another when two requests have come, which takes longer than answering one. Each thread accepts
//! connections itself, and keeps those that no other thread has more room for.
//!
//! An idle thread does not take over what a busy one has to do. So what takes long is not done
//! here: long transfers move to the background ([`background`](crate::background)), long files are
//! sent by threads of their own, copies run on the runtime of the process
//! ([`CopyRuntime`](crate::CopyRuntime)), and calls to a slow disk in the blocking pool.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime};

use crate::shared::Shared;

/// See [`beat`].
const BEAT: Duration = Duration::from_secs(1);

/// The threads, as long as the process serves.
#[derive(Debug)]
pub(crate) struct Workers(Vec<Runtime>);

impl Workers {
    /// Starts so many, at least one, with so many threads that wait for disks between them.
    ///
    /// # Errors
    /// The system gives no more threads.
    pub(crate) fn start(count: usize, blocking_threads: usize, shared: &Shared) -> io::Result<Self> {
        let count = count.max(1);
        let worker = |_| {
            let shared = shared.clone();
            let runtime = Builder::new_multi_thread()
                .worker_threads(1)
                .max_blocking_threads(blocking_threads.div_ceil(count).max(1))
                .thread_name("connections")
                .on_thread_start(move || shared.enter())
                .enable_all()
                .build()?;
            runtime.spawn(beat());
            Ok(runtime)
        };
        (0..count).map(worker).collect::<io::Result<_>>().map(Self)
    }

    /// Who takes the next connection.
    pub(crate) fn rota(&self) -> Rota {
        Rota::of(self.handles())
    }

    /// Their runtimes.
    pub(crate) fn handles(&self) -> impl Iterator<Item = Handle> {
        self.0.iter().map(|runtime| runtime.handle().clone())
    }

    /// Drops all tasks that are left, and waits for their clean-up, but no longer than this in all.
    pub(crate) fn shut_down(self, limit: Duration) {
        let end = Instant::now() + limit;
        for runtime in self.0 {
            runtime.shutdown_timeout(end.saturating_duration_since(Instant::now()));
        }
    }
}

/// Keeps a timer that is due before those of connections, which are of seconds. The runtime wakes
/// its own thread for each new timer that is the earliest of all: two system calls and a turn for
/// nothing, up to three times for a connection.
async fn beat() {
    loop {
        tokio::time::sleep(BEAT).await;
    }
}

/// Gives each connection to the worker that has fewest. Clones count together.
#[derive(Clone, Debug)]
pub struct Rota(Arc<[Worker]>);

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    connections: AtomicUsize,
}

impl Rota {
    /// For these runtimes; at least one.
    pub fn of(runtimes: impl IntoIterator<Item = Handle>) -> Self {
        let worker = |runtime| Worker {
            runtime,
            connections: AtomicUsize::new(0),
        };
        Self(runtimes.into_iter().map(worker).collect())
    }

    /// The runtimes of all workers, each with its number.
    pub fn runtimes(&self) -> impl Iterator<Item = (usize, &Handle)> {
        self.0.iter().map(|worker| &worker.runtime).enumerate()
    }

    /// A place for one connection that this worker has accepted: with it, unless another has fewer,
    /// because it takes 10 µs to hand a connection over.
    pub fn seat_near(&self, acceptor: usize) -> Seat {
        let connections = |number: &usize| self.0[*number].connections.load(Ordering::Relaxed);
        let others = (0..self.0.len()).filter(|number| *number != acceptor);
        let number = std::iter::once(acceptor)
            .chain(others)
            .min_by_key(connections)
            .unwrap_or(acceptor);
        self.0[number].connections.fetch_add(1, Ordering::Relaxed);
        Seat {
            rota: self.clone(),
            number,
        }
    }
}

/// A connection's place with one worker; free again when dropped.
#[derive(Debug)]
pub struct Seat {
    rota: Rota,
    number: usize,
}

impl Seat {
    /// Where the connection is served.
    pub fn runtime(&self) -> Handle {
        self.rota.0[self.number].runtime.clone()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.rota.0[self.number].connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_with_fewest_connections_takes_the_next() {
        let workers = Workers::start(3, 2, &Shared::default()).unwrap();
        let rota = workers.rota();
        let mut seats: Vec<Seat> = (0..6).map(|_| rota.seat_near(0)).collect();
        let numbers: Vec<usize> = seats.iter().map(|seat| seat.number).collect();
        assert_eq!(numbers, [0, 1, 2, 0, 1, 2]);
        seats.remove(4);
        seats.remove(1);
        assert_eq!([rota.seat_near(0).number, rota.clone().seat_near(0).number], [1, 1]);
        let _one = rota.seat_near(0);
        assert_eq!(rota.seat_near(0).number, 1);
    }

    #[test]
    fn among_workers_with_as_few_the_one_that_accepted_keeps_it() {
        let workers = Workers::start(3, 2, &Shared::default()).unwrap();
        let rota = workers.rota();
        let seats = [2, 1, 1, 2, 2, 0].map(|acceptor| rota.seat_near(acceptor));
        assert_eq!(seats.map(|seat| seat.number), [2, 1, 0, 2, 0, 1]);
    }

    #[test]
    fn a_connection_stays_with_its_thread_and_others_have_another() {
        let workers = Workers::start(2, 2, &Shared::default()).unwrap();
        let rota = workers.rota();
        let seats = [rota.seat_near(0), rota.seat_near(0)];
        let threads = seats.each_ref().map(|seat| {
            let tasks = (0..20).map(|_| seat.runtime().spawn(async { std::thread::current().id() }));
            let seen: Vec<_> = tasks.map(|task| seat.runtime().block_on(task).unwrap()).collect();
            assert!(seen.iter().all(|thread| *thread == seen[0]));
            seen[0]
        });
        assert_ne!(threads[0], threads[1]);
        workers.shut_down(Duration::from_secs(1));
    }
}
