//! Sends all messages to brokers, each at least once.
//!
//! Each broker has a place in the events of the catalog. One process at a time sends for it, under
//! a lease: it sends the messages after that place, waits until the broker has confirmed all of
//! them, and moves the place on. Whatever breaks in between, the next attempt begins at the place.

mod broker;
mod session;

use std::sync::Arc;
use std::time::Duration;

use catalog::Catalog;
use tokio::sync::watch;
use types::Error;

use super::Feed;
use crate::clock::now_ms;
use crate::limits::{
    BROKER_BATCH_EVENTS_MAX, BROKER_GATHERING, BROKER_LEASE, BROKER_LEASE_RENEWAL, BROKER_PAUSE_MAX, BROKER_PAUSE_MIN,
    CATALOG_PAUSE,
};
use crate::urls::Concealed;
pub use broker::{Broker, BrokerLogin, BrokerSettings};
use session::Session;

/// Learns how it goes with brokers. All calls must return at once.
pub trait PushLog: Send + Sync + 'static {
    /// Messages are sent to it from now on.
    fn connected(&self, broker: &str);
    /// They cannot be sent. The next attempt follows after `pause`.
    fn failed(&self, broker: &str, error: &Error, pause: Duration);
}

/// Sends the messages of a catalog to one broker.
pub struct Push {
    feed: Feed,
    broker: Broker,
    settings: Arc<BrokerSettings>,
    log: Arc<dyn PushLog>,
}

/// What ends a session with a broker.
enum End {
    /// Another process sends now.
    LeaseLost,
    Failed(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Push {
    /// Sends the messages of `feed` to `broker`.
    #[must_use]
    pub fn new(feed: Feed, broker: Broker, settings: Arc<BrokerSettings>, log: Arc<dyn PushLog>) -> Self {
        Self {
            feed,
            broker,
            settings,
            log,
        }
    }

    /// Sends until `stopping` is true.
    pub async fn run(self, mut stopping: watch::Receiver<bool>) {
        tokio::select! {
            () = self.send_for_ever() => {}
            _ = stopping.wait_for(|stops| *stops) => {}
        }
        self.leave().await;
    }

    /// Gives the lease up. If this fails, it ends by itself.
    async fn leave(&self) {
        let (reader, worker) = (self.reader(), &self.settings.worker);
        let _ = self.catalog().leave_reader(&reader, worker, now_ms()).await;
    }

    async fn send_for_ever(&self) {
        let mut pause = BROKER_PAUSE_MIN;
        loop {
            let taken = self
                .catalog()
                .take_reader(&self.reader(), &self.settings.worker, now_ms(), lease_ms())
                .await;
            let place = match taken {
                Ok(Some(place)) => place,
                Ok(None) => {
                    tokio::time::sleep(BROKER_LEASE_RENEWAL).await;
                    continue;
                }
                Err(_error) => {
                    tokio::time::sleep(CATALOG_PAUSE).await;
                    continue;
                }
            };
            let mut has_sent = false;
            let Err(end) = self.send_after(place, &mut has_sent).await;
            if has_sent {
                pause = BROKER_PAUSE_MIN;
            }
            if let End::Failed(error) = end {
                self.log.failed(self.broker.url(), &self.without_password(error), pause);
                // Perhaps another process reaches it.
                self.leave().await;
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(BROKER_PAUSE_MAX);
            }
        }
    }

    /// Brokers may quote the password that they refuse.
    fn without_password(&self, error: Error) -> Error {
        match &self.settings.login {
            Some(login) => Concealed::of_password(&login.password).clear(error),
            None => error,
        }
    }

    /// One session, from the first message to what ends it.
    async fn send_after(
        &self,
        mut place: i64,
        has_sent: &mut bool,
    ) -> std::result::Result<std::convert::Infallible, End> {
        // Before the place is read: what happens from here on wakes us.
        let mut changes = self.catalog().changes();
        let mut session = Session::open(&self.broker, &self.settings).await?;
        self.log.connected(self.broker.url());
        loop {
            let batch = self.feed.after(place, BROKER_BATCH_EVENTS_MAX).await?;
            if batch.last != place {
                session.send(&batch.messages).await?;
                *has_sent |= !batch.messages.is_empty();
                place = batch.last;
                self.move_to(place).await?;
            }
            if batch.has_more {
                continue;
            }
            let renewal = tokio::time::sleep(BROKER_LEASE_RENEWAL);
            tokio::pin!(renewal);
            loop {
                tokio::select! {
                    () = changes.wait() => {
                        tokio::time::sleep(BROKER_GATHERING).await;
                        break;
                    }
                    () = &mut renewal => {
                        self.move_to(place).await?;
                        break;
                    }
                    ended = session.idle() => {
                        ended?;
                        session.flush().await?;
                    }
                }
            }
        }
    }

    /// The broker has all messages up to here.
    async fn move_to(&self, place: i64) -> std::result::Result<(), End> {
        let moved = self
            .catalog()
            .move_reader(&self.reader(), &self.settings.worker, place, lease_ms())
            .await?;
        match moved {
            true => Ok(()),
            false => Err(End::LeaseLost),
        }
    }

    fn catalog(&self) -> &Catalog {
        self.feed.catalog()
    }

    /// The broker's name among the readers of events.
    fn reader(&self) -> String {
        format!("broker {} {}", self.broker.url(), self.settings.prefix)
    }
}

impl std::fmt::Debug for Push {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Push({})", self.broker.url())
    }
}

fn lease_ms() -> i64 {
    now_ms().saturating_add(i64::try_from(BROKER_LEASE.as_millis()).unwrap_or(i64::MAX))
}
