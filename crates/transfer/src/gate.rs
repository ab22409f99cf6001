//! How far a door is closed, and how many are inside: every door ends its connections in the same
//! order, whatever protocol they speak.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use types::Result;
use types::limits::LAST_WORDS_WAIT;

/// How far a door is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Closing {
    Open,
    /// No new connections and requests; what is under way goes on.
    Draining,
    /// Transfers are aborted, then everything ends.
    Aborting,
}

/// The gate of a door. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    closing: Arc<watch::Sender<Closing>>,
    inside: Arc<watch::Sender<usize>>,
}

/// One that is inside, until it is dropped.
#[derive(Debug)]
pub struct Visit(Arc<watch::Sender<usize>>);

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            closing: Arc::new(watch::Sender::new(Closing::Open)),
            inside: Arc::new(watch::Sender::new(0)),
        }
    }
}

impl Gate {
    /// Counts one more inside.
    #[must_use]
    pub fn enter(&self) -> Visit {
        self.inside.send_modify(|count| *count += 1);
        Visit(self.inside.clone())
    }

    /// How many are inside.
    #[must_use]
    pub fn visitors(&self) -> usize {
        *self.inside.borrow()
    }

    /// Serves one connection; it counts as inside from the call on. Some time after the word to abort it
    /// ends in the middle of whatever it still says.
    ///
    /// # Errors
    /// Those of `serving`.
    pub fn host<F: Future<Output = Result<()>> + Send>(
        &self,
        serving: F,
    ) -> impl Future<Output = Result<()>> + Send + use<F> {
        let (gate, visit) = (self.clone(), self.enter());
        async move {
            let too_late = async {
                gate.aborting().await;
                tokio::time::sleep(LAST_WORDS_WAIT).await;
            };
            let result = tokio::select! {
                result = serving => result,
                () = too_late => Ok(()),
            };
            drop(visit);
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

    /// Waits until what is under way must end.
    pub async fn aborting(&self) {
        self.reached(Closing::Aborting).await;
    }

    /// Whether no new request may begin.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        *self.closing.borrow() >= Closing::Draining
    }

    /// Closes: nothing new at once; what is not through after `grace` is told to abort. Returns when
    /// nobody is inside.
    pub async fn shut_down(&self, grace: Duration) {
        self.closing.send_replace(Closing::Draining);
        let mut inside = self.inside.subscribe();
        if tokio::time::timeout(grace, inside.wait_for(|count| *count == 0))
            .await
            .is_err()
        {
            self.closing.send_replace(Closing::Aborting);
            // The sender lives as long as we do.
            let _ = inside.wait_for(|count| *count == 0).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_does_not_go_in_time_is_told_to_abort() {
        let gate = Gate::default();
        let (visit, other) = (gate.enter(), gate.clone());
        let visitor = tokio::spawn(async move {
            other.draining().await;
            other.aborting().await;
            drop(visit);
        });
        assert!(!gate.is_draining());
        gate.shut_down(Duration::from_secs(1)).await;
        assert!(gate.is_draining());
        assert_eq!(gate.visitors(), 0);
        visitor.await.unwrap();
    }
}
