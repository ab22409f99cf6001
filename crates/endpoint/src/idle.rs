//! Idle connections: the one that has been idle longest makes room for a new one.

use std::collections::HashMap;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Instant;

use tokio::sync::Notify;

/// Stands for a connection that serves a request.
const BUSY: u64 = u64::MAX;

/// The open connections of a server. Clones are the same.
#[derive(Clone)]
pub(crate) struct IdleConnections(Arc<Inner>);

struct Inner {
    began: Instant,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, Arc<State>>,
}

struct State {
    /// The client's address, or its network.
    address: IpAddr,
    /// When it became idle, in microseconds since the server began; [`BUSY`] when it is not.
    idle_since_us: AtomicU64,
    leave: Notify,
}

impl Default for IdleConnections {
    fn default() -> Self {
        Self(Arc::new(Inner {
            began: Instant::now(),
            open: Mutex::default(),
        }))
    }
}

impl IdleConnections {
    /// Adds a connection of a client. It counts as busy until it waits for input.
    pub(crate) fn add(&self, address: IpAddr) -> IdleConnection {
        let state = Arc::new(State {
            address,
            idle_since_us: AtomicU64::new(BUSY),
            leave: Notify::new(),
        });
        let mut open = self.lock();
        let number = open.next;
        open.next += 1;
        open.connections.insert(number, state.clone());
        drop(open);
        IdleConnection {
            all: self.clone(),
            number,
            state,
        }
    }

    /// Asks the connection that has been idle longest to end, among all or those of one client;
    /// false when none is idle. None is asked twice.
    pub(crate) fn dismiss_longest(&self, among: Option<IpAddr>) -> bool {
        let mut open = self.lock();
        let since = |state: &State| state.idle_since_us.load(Ordering::Relaxed);
        let all = open.connections.iter();
        let all = all.filter(|(_, state)| among.is_none_or(|address| state.address == address));
        let longest = all.map(|(number, state)| (since(state), *number)).min();
        let dismissed = longest
            .filter(|(since, _)| *since != BUSY)
            .and_then(|(_, number)| open.connections.remove(&number));
        dismissed.is_some_and(|state| {
            state.leave.notify_one();
            true
        })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open connection, until it is dropped.
pub struct IdleConnection {
    all: IdleConnections,
    number: u64,
    state: Arc<State>,
}

impl IdleConnection {
    /// Waits for `input`. Meanwhile the connection is idle; `None` when it must end, to make room
    /// for another.
    pub async fn wait<T>(&self, input: impl Future<Output = T>) -> Option<T> {
        let (mut input, mut leave) = (pin!(input), pin!(self.state.leave.notified()));
        let mut idle = None;
        poll_fn(|context| {
            if let Poll::Ready(output) = input.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            // Often the next request has come already; then the connection is not idle at all.
            idle.get_or_insert_with(|| Idle::begin(self));
            leave.as_mut().poll(context).map(|()| None)
        })
        .await
    }
}

impl Drop for IdleConnection {
    fn drop(&mut self) {
        self.all.lock().connections.remove(&self.number);
    }
}

impl std::fmt::Debug for IdleConnection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "IdleConnection({})", self.number)
    }
}

/// The connection is idle until this is dropped.
struct Idle<'c>(&'c State);

impl<'c> Idle<'c> {
    fn begin(connection: &'c IdleConnection) -> Self {
        let now_us = connection.all.0.began.elapsed().as_micros();
        let state = &connection.state;
        let now_us = u64::try_from(now_us).unwrap_or(BUSY - 1);
        state.idle_since_us.store(now_us, Ordering::Relaxed);
        Self(state)
    }
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.idle_since_us.store(BUSY, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn input_that_comes_before_the_end_is_taken_first() {
        let all = IdleConnections::default();
        let [here, elsewhere] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let one = all.add(here);
        assert!(!all.dismiss_longest(None), "it is busy");
        let (give, input) = oneshot::channel();
        let mut wait = Box::pin(one.wait(input));
        tokio::select! {
            biased;
            _ = &mut wait => panic!("nothing has come"),
            () = std::future::ready(()) => {}
        }
        assert!(!all.dismiss_longest(Some(elsewhere)), "it is of another client");
        assert!(all.dismiss_longest(Some(here)));
        assert!(!all.dismiss_longest(None), "none is asked twice");
        give.send(5).unwrap();
        assert_eq!(wait.await, Some(Ok(5)));
        assert_eq!(one.wait(pending::<()>()).await, None);
    }
}
