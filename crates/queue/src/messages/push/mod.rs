//! Sends all messages to brokers, each at least once.
//!
//! Each broker has a place in the events of the catalog. One process at a time sends for it, under
//! a lease: it sends the messages after that place, waits until the broker has confirmed them, and
//! moves the place on. Whatever breaks in between, the next attempt begins at the place.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use broker::Session;
use broker::limits::{PAUSE_MAX, PAUSE_MIN};
pub use broker::{Broker, BrokerLogin};
use catalog::Catalog;
use net::tls::ClientTls;
use tokio::sync::watch;
use tokio::time::Instant;
use types::Error;

use super::{Batch, Feed, Message};
use crate::clock::now_ms;
use crate::limits::{
    BROKER_BATCH_EVENTS_MAX, BROKER_GATHERING, BROKER_LEASE, BROKER_LEASE_RENEWAL, CATALOG_PAUSE, MESSAGE_LIFE,
};

/// What all brokers have in common.
#[derive(Clone)]
pub struct BrokerSettings {
    /// The name of this process among those that share the catalog.
    pub worker: String,
    /// What stands before the names of topics.
    pub prefix: String,
    /// Whether the broker keeps messages on disk.
    pub is_persistent: bool,
    /// The user; `None`: the broker asks for none, or for a certificate.
    pub login: Option<BrokerLogin>,
    /// Whom we trust, and the certificate that we show.
    pub tls: ClientTls,
}

impl fmt::Debug for BrokerSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "BrokerSettings({})", self.prefix)
    }
}

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
        let mut pause = PAUSE_MIN;
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
                pause = PAUSE_MIN;
            }
            if let End::Failed(error) = end {
                self.log.failed(self.broker.url(), &error, pause);
                // Perhaps another process reaches it.
                self.leave().await;
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
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
        let mut session = Session::open(&self.broker, self.settings.login.as_ref(), &self.settings.tls).await?;
        self.log.connected(self.broker.url());
        loop {
            let batch = self.feed.after(place, BROKER_BATCH_EVENTS_MAX).await?;
            if batch.last != place {
                self.send(&mut session, &batch, has_sent).await?;
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

    /// Sends the messages of a batch, and waits until the broker has confirmed each. If it fails in
    /// between, the place moves to the first that it has not confirmed.
    async fn send(&self, session: &mut Session, batch: &Batch, has_sent: &mut bool) -> std::result::Result<(), End> {
        let expires_ms = now_ms() + i64::try_from(MESSAGE_LIFE.as_millis()).unwrap_or(i64::MAX);
        let facts = |message: &Message| {
            let destination = format!("{}{}", self.settings.prefix, message.kind.topic());
            let headers = [("expires", expires_ms.to_string()), ("vo", message.vo.clone())];
            (destination, headers)
        };
        let facts: Vec<_> = batch.messages.iter().map(facts).collect();
        let outgoing = batch
            .messages
            .iter()
            .zip(&facts)
            .map(|(message, (destination, headers))| broker::Message {
                destination,
                body: &message.body,
                is_persistent: self.settings.is_persistent,
                headers,
            });
        let outgoing: Vec<_> = outgoing.collect();
        let (mut count, mut moved_at) = (0, Instant::now());
        while count < outgoing.len() {
            let mut sent = session.send(&outgoing[count..]).await;
            while !sent.is_empty() {
                match session.confirmed(&mut sent).await {
                    Ok(more) => count += more,
                    Err(error) => {
                        let _ = self.move_to(place_after(batch, count)).await;
                        return Err(error.into());
                    }
                }
                *has_sent = true;
                // A slow broker may take longer for a batch than the lease lasts.
                if moved_at.elapsed() >= BROKER_LEASE_RENEWAL {
                    moved_at = Instant::now();
                    self.move_to(place_after(batch, count)).await?;
                }
            }
        }
        Ok(())
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

impl fmt::Debug for Push {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Push({})", self.broker.url())
    }
}

/// The place when the first `count` messages of a batch are confirmed: before the next one's event.
fn place_after(batch: &Batch, count: usize) -> i64 {
    let next = batch.messages.get(count);
    next.map_or(batch.last, |message| message.sequence - 1)
}

fn lease_ms() -> i64 {
    now_ms().saturating_add(i64::try_from(BROKER_LEASE.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    #[test]
    fn an_event_is_done_when_all_its_messages_are_confirmed() {
        let message = |sequence| Message {
            sequence,
            kind: Kind::State,
            vo: String::new(),
            body: "{}".into(),
        };
        let batch = Batch {
            messages: [4, 7, 7, 9].map(message).to_vec(),
            last: 12,
            has_more: false,
        };
        let places: Vec<_> = (0..=4).map(|count| place_after(&batch, count)).collect();
        assert_eq!(places, [3, 6, 6, 8, 12]);
    }
}
