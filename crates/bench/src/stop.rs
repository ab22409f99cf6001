//! Whether a run is to end early.

use tokio::sync::watch;

/// A wish to end early, which all loads of a run hear. What was measured until then counts. Clones
/// are the same wish.
#[derive(Clone, Debug)]
pub struct Stop(watch::Sender<bool>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Stop {
    /// Asks all loads to end soon. There is no way back.
    pub fn set(&self) {
        self.0.send_replace(true);
    }

    /// Whether it was asked for. Loads look before each repetition, and in long ones before each
    /// file.
    #[must_use]
    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is asked for.
    pub async fn wait(&self) {
        let mut receiver = self.0.subscribe();
        // The sender lives as long as `self`, so this cannot fail.
        let _ = receiver.wait_for(|is_set| *is_set).await;
    }

    /// What `work` comes to; `None` when the wish to end comes first. `work` is dropped then, with
    /// its connections.
    pub async fn or<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.wait() => None,
            done = work => Some(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_clone_hears_and_work_is_given_up() {
        let stop = Stop::default();
        let other = stop.clone();
        assert_eq!(other.or(async { 7 }).await, Some(7));
        let waiting = tokio::spawn(async move { other.or(std::future::pending::<u8>()).await });
        stop.set();
        assert_eq!(waiting.await.unwrap(), None);
        assert!(stop.is_set());
        assert_eq!(stop.or(async { 7 }).await, None);
    }
}
