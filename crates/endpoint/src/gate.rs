//! Shutdown of a door: all doors end their connections in the same steps, whatever protocol they
//! speak.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use types::Result;
use types::limits::LAST_WORDS_WAIT;

/// The steps of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Closing {
    Open,
    /// No new connections and requests; running ones continue.
    Draining,
    /// Transfers are aborted, and report it.
    Aborting,
    /// Everything is cut off, even in the middle of an answer.
    Cut,
}

/// The gate of a door. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    closing: Arc<watch::Sender<Closing>>,
    open: Arc<watch::Sender<usize>>,
}

/// Counts as one open connection until it is dropped.
#[derive(Debug)]
pub struct OpenConnection(Arc<watch::Sender<usize>>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            closing: Arc::new(watch::Sender::new(Closing::Open)),
            open: Arc::new(watch::Sender::new(0)),
        }
    }
}

impl Gate {
    /// Counts one more connection.
    #[must_use]
    pub fn enter(&self) -> OpenConnection {
        self.open.send_modify(|count| *count += 1);
        OpenConnection(self.open.clone())
    }

    /// How many connections are open.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        *self.open.borrow()
    }

    /// Serves one connection, which counts as open from this call on. When the time is up, the
    /// connection is cut off even in the middle of an answer. `serving` is polled once more first,
    /// so that it can end by itself when it notices ([`Gate::cut`]).
    ///
    /// # Errors
    /// Those of `serving`.
    pub fn serve<F: Future<Output = Result<()>> + Send>(
        &self,
        serving: F,
    ) -> impl Future<Output = Result<()>> + Send + use<F> {
        let (gate, connection) = (self.clone(), self.enter());
        async move {
            let result = tokio::select! {
                biased;
                result = serving => result,
                () = gate.cut() => Ok(()),
            };
            drop(connection);
            result
        }
    }

    async fn reached(&self, stage: Closing) {
        let mut seen = self.closing.subscribe();
        // The sender lives as long as we do.
        let _ = seen.wait_for(|now| *now >= stage).await;
    }

    /// Waits until no new request may begin.
    pub async fn draining(&self) {
        self.reached(Closing::Draining).await;
    }

    /// Waits until running requests must abort.
    pub async fn aborting(&self) {
        self.reached(Closing::Aborting).await;
    }

    /// Waits until everything is cut off.
    pub async fn cut(&self) {
        self.reached(Closing::Cut).await;
    }

    /// Whether no new request may begin.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        *self.closing.borrow() >= Closing::Draining
    }

    /// Closes the gate: nothing new begins from now on, requests that still run near the end of
    /// `grace` must abort, and the rest is cut off at its end. Returns when no connection is left.
    /// A second call can only shorten the grace time of the first.
    pub async fn shut_down(&self, grace: Duration) {
        let last_words = LAST_WORDS_WAIT.min(grace / 2);
        let mut open = self.open.subscribe();
        let stages = [(Closing::Draining, grace - last_words), (Closing::Aborting, last_words)];
        for (stage, patience) in stages {
            self.close_to(stage);
            let empty = open.wait_for(|count| *count == 0);
            if tokio::time::timeout(patience, empty).await.is_ok() {
                return;
            }
        }
        self.close_to(Closing::Cut);
        // The sender lives as long as we do.
        let _ = open.wait_for(|count| *count == 0).await;
    }

    fn close_to(&self, stage: Closing) {
        self.closing.send_if_modified(|now| {
            let closes = *now < stage;
            *now = stage.max(*now);
            closes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_stays_too_long_must_abort() {
        let gate = Gate::default();
        let (connection, other) = (gate.enter(), gate.clone());
        let task = tokio::spawn(async move {
            other.draining().await;
            other.aborting().await;
            drop(connection);
        });
        assert!(!gate.is_draining());
        gate.shut_down(Duration::from_secs(1)).await;
        assert!(gate.is_draining());
        assert_eq!(gate.open_connections(), 0);
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn everything_ends_with_the_grace_time() {
        for grace in [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(20)] {
            let gate = Gate::default();
            let served = gate.serve(std::future::pending());
            let task = tokio::spawn(served);
            let began = tokio::time::Instant::now();
            gate.shut_down(grace).await;
            // The clock advances only while everything waits.
            assert!(
                began.elapsed() <= grace + Duration::from_millis(5),
                "{:?}",
                began.elapsed()
            );
            task.await.unwrap().unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_call_shortens_the_grace_time() {
        let gate = Gate::default();
        let task = tokio::spawn(gate.serve(std::future::pending()));
        let first = gate.clone();
        let closing = tokio::spawn(async move { first.shut_down(Duration::from_secs(600)).await });
        gate.draining().await;
        let began = tokio::time::Instant::now();
        gate.shut_down(Duration::ZERO).await;
        closing.await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert!(gate.is_draining());
        task.await.unwrap().unwrap();
    }
}
