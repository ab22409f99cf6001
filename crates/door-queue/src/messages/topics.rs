//! The topics: one reader of the catalog for all subscribers, and the latest messages in memory.
//!
//! Nothing is read while no client is connected. Each subscriber takes messages at its own pace
//! from the same memory; one that falls behind what is kept there has lost messages, and learns it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use queue::messages::{Feed, Message};
use tokio::sync::{Notify, watch};

use crate::limits::{
    FEED_EVENTS_MAX, FEED_GATHERING, FEED_PAUSE, SUBSCRIBERS_MAX, TOPIC_BYTES_MAX, TOPIC_MESSAGES_MAX,
};

/// The topics of a queue. Clones are the same.
#[derive(Clone)]
pub struct Topics(Arc<Inner>);

struct Inner {
    feed: Feed,
    memory: Mutex<Memory>,
    /// The number of the next message.
    next: watch::Sender<u64>,
    /// Whether all that happens is being published: from then on a subscriber misses nothing.
    is_following: watch::Sender<bool>,
    /// A client has come or left.
    clients: Notify,
}

#[derive(Default)]
struct Memory {
    subscribers: usize,
    /// The latest messages, the newest last.
    messages: VecDeque<Arc<Message>>,
    bytes: usize,
    /// The number of the next message.
    next: u64,
}

impl Memory {
    fn add(&mut self, message: Message) {
        self.bytes += message.body.len();
        self.messages.push_back(Arc::new(message));
        self.next += 1;
        while self.messages.len() > TOPIC_MESSAGES_MAX || self.bytes > TOPIC_BYTES_MAX {
            let oldest = self.messages.pop_front();
            self.bytes -= oldest.map_or(0, |message| message.body.len());
        }
    }

    /// The number of the oldest message.
    fn first(&self) -> u64 {
        self.next - self.messages.len() as u64
    }
}

/// What a subscriber gets next.
#[derive(Debug)]
pub(super) enum Next {
    Message(Arc<Message>),
    /// Nothing yet.
    Nothing,
    /// Messages were lost.
    Behind,
}

impl Topics {
    /// Topics with the messages of this feed. Nothing is published before [`Topics::follow`] runs.
    #[must_use]
    pub fn new(feed: Feed) -> Self {
        Self(Arc::new(Inner {
            feed,
            memory: Mutex::default(),
            next: watch::Sender::new(0),
            is_following: watch::Sender::new(false),
            clients: Notify::new(),
        }))
    }

    /// How many clients are logged in.
    #[must_use]
    pub fn subscribers(&self) -> usize {
        self.memory().subscribers
    }

    /// Publishes what happens while clients are connected. Never returns; may be dropped.
    pub async fn follow(&self) {
        loop {
            while self.subscribers() == 0 {
                self.0.clients.notified().await;
            }
            let mut changes = self.0.feed.catalog().changes();
            let Ok(mut last) = self.0.feed.catalog().last_event().await else {
                tokio::time::sleep(FEED_PAUSE).await;
                continue;
            };
            self.0.is_following.send_replace(true);
            loop {
                match self.0.feed.after(last, FEED_EVENTS_MAX).await {
                    Ok(batch) => {
                        last = batch.last;
                        self.publish(batch.messages);
                        if batch.has_more {
                            continue;
                        }
                    }
                    Err(_error) => {
                        tokio::time::sleep(FEED_PAUSE).await;
                        continue;
                    }
                }
                if self.rests() {
                    break;
                }
                tokio::select! {
                    () = changes.wait() => tokio::time::sleep(FEED_GATHERING).await,
                    () = self.0.clients.notified() => {}
                }
            }
        }
    }

    fn publish(&self, messages: Vec<Message>) {
        let mut memory = self.memory();
        messages.into_iter().for_each(|message| memory.add(message));
        self.0.next.send_replace(memory.next);
    }

    /// Ends the publishing when no client is left; whether it has.
    fn rests(&self) -> bool {
        let mut memory = self.memory();
        let rests = memory.subscribers == 0;
        if rests {
            memory.messages = VecDeque::new();
            memory.bytes = 0;
            // Under the lock: a client that comes now waits until publishing begins again.
            self.0.is_following.send_replace(false);
        }
        rests
    }

    /// A place for one more subscriber; `None` when [`SUBSCRIBERS_MAX`] have one. It misses nothing
    /// that happens later.
    pub(super) async fn seat(&self) -> Option<Seat> {
        let mut seat = {
            let mut memory = self.memory();
            if memory.subscribers >= SUBSCRIBERS_MAX {
                return None;
            }
            memory.subscribers += 1;
            Seat {
                topics: self.clone(),
                news: self.0.next.subscribe(),
                at: 0,
            }
        };
        self.0.clients.notify_one();
        // It fails only if the topics are gone.
        let _ = self.0.is_following.subscribe().wait_for(|follows| *follows).await;
        seat.skip();
        Some(seat)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Topics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Topics({})", self.subscribers())
    }
}

/// The place of a subscriber, until it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    topics: Topics,
    news: watch::Receiver<u64>,
    /// The number of its next message.
    at: u64,
}

impl Seat {
    /// Passes over all messages so far.
    pub(super) fn skip(&mut self) {
        self.at = self.topics.memory().next;
        self.news.mark_unchanged();
    }

    /// The next message.
    pub(super) fn next(&mut self) -> Next {
        let memory = self.topics.memory();
        if self.at < memory.first() {
            return Next::Behind;
        }
        let place = usize::try_from(self.at - memory.first()).unwrap_or(usize::MAX);
        match memory.messages.get(place) {
            None => Next::Nothing,
            Some(message) => {
                self.at += 1;
                Next::Message(message.clone())
            }
        }
    }

    /// Waits for further messages. May be dropped.
    pub(super) async fn changed(&mut self) {
        if self.topics.memory().next != self.at {
            return;
        }
        if self.news.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.topics.memory().subscribers -= 1;
        self.topics.0.clients.notify_one();
    }
}
