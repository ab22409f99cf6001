//! Whether the bus works, which nodes are silent, and whose filters are to be fetched.
//!
//! A redirector sends itself a message several times a second, over the subscription over which it
//! hears the nodes. When none comes back, the bus is away, or we are too slow to hear the nodes:
//! their silence then says nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::ear::lose;
use super::peer::Wanted;
use super::source::{Event, NatsSource};
use crate::director::Director;
use crate::nats::limits::{ECHO_INTERVAL_MS, ECHO_TIME_MS, FETCHES_MAX, LOOK_INTERVAL_MS, SILENCE_MS};
use crate::nats::message::Request;
use crate::node::NodeId;

/// Sends messages to ourselves.
pub(super) async fn echo(source: Arc<NatsSource>) {
    let subject = source.settings.subjects.state_of(source.me.as_str());
    loop {
        source.bus.send(subject.clone(), Vec::new()).await;
        sleep(Duration::from_millis(ECHO_INTERVAL_MS)).await;
    }
}

/// What is known about the bus.
struct Health {
    echoes: u64,
    heard: Option<Instant>,
    works_since: Option<Instant>,
}

impl Health {
    fn look(&mut self, source: &NatsSource) {
        let echoes = source.counts.echoes.load(Ordering::Relaxed);
        if echoes != self.echoes {
            self.echoes = echoes;
            self.heard = Some(Instant::now());
        }
        let limit = Duration::from_millis(ECHO_TIME_MS);
        let is_fresh = self.heard.is_some_and(|heard| heard.elapsed() < limit);
        match is_fresh && source.bus.is_connected() {
            true => _ = self.works_since.get_or_insert_with(Instant::now),
            false => self.works_since = None,
        }
    }

    /// Nodes that were away with the bus have come back, or will not.
    fn is_steady(&self) -> bool {
        let limit = Duration::from_millis(SILENCE_MS);
        self.works_since.is_some_and(|since| since.elapsed() >= limit)
    }
}

/// Looks at everything at its interval.
pub(super) async fn watch(source: Arc<NatsSource>, director: Arc<Director>) {
    let mut ticks = interval(Duration::from_millis(LOOK_INTERVAL_MS));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut health = Health {
        echoes: 0,
        heard: None,
        works_since: None,
    };
    loop {
        let is_tick = tokio::select! {
            _ = ticks.tick() => true,
            () = source.was_fetched.notified() => false,
            () = source.was_slow.notified() => {
                doubt_all(&source);
                false
            }
        };
        health.look(&source);
        let works = health.works_since.is_some();
        source.is_steady.send_replace(health.is_steady());
        if works != source.works.send_replace(works) {
            turn(&source, works).await;
        }
        if works && is_tick {
            pass(&source, &director, health.is_steady());
        }
        if works {
            fetch(&source).await;
        }
    }
}

fn doubt_all(source: &NatsSource) {
    for node in source.ids() {
        if let Some(mut peer) = source.peer(node) {
            peer.doubt();
        }
    }
}

/// The bus works again, or has stopped working.
async fn turn(source: &NatsSource, works: bool) {
    (source.note)(if works { &Event::Works } else { &Event::Away });
    if works {
        doubt_all(source);
        let hello = source.settings.subjects.hello();
        source.bus.send(hello, Vec::new()).await;
    }
}

fn pass(source: &NatsSource, director: &Director, is_steady: bool) {
    for node in source.ids() {
        let Some(mut peer) = source.peer(node) else { continue };
        let is_lost = peer.pass(LOOK_INTERVAL_MS);
        if is_lost {
            peer.lost();
        }
        let is_unheard = is_steady && !peer.is_present && source.is_on_bus(node);
        drop(peer);
        // It may have been found directly while the bus was away.
        if is_lost || (is_unheard && director.is_present(node)) {
            let name = source.name(node).unwrap_or_default();
            let reason = format!("it is silent on the message bus, where its name is {name}");
            lose(source, director, node, &reason);
        }
    }
}

/// Begins to fetch filters, a bounded number at a time.
async fn fetch(source: &NatsSource) {
    let (mut running, mut bytes) = (0, 0);
    for node in source.ids() {
        if let Some(peer) = source.peer(node) {
            running += usize::from(peer.is_fetching());
            bytes += peer.bytes();
        }
    }
    for node in source.ids() {
        if running >= FETCHES_MAX {
            return;
        }
        let begun = source.peer(node).and_then(|mut peer| {
            let size = peer.wants_copy()?;
            let fits = bytes + size <= source.settings.filters_bytes_max;
            bytes += if fits { size } else { 0 };
            fits.then(|| peer.begin_fetch(fastrand::u64(..)))?
        });
        if let Some(wanted) = begun {
            running += 1;
            source.request_piece(node, wanted).await;
        }
    }
}

impl NatsSource {
    /// Asks a node for a piece of its filter.
    pub(super) async fn request_piece(&self, node: NodeId, wanted: Wanted) {
        let Some(name) = self.name(node) else { return };
        let request = Request::Piece {
            id: wanted.id,
            redirector: self.me.clone(),
            generation: wanted.generation,
            piece: wanted.piece,
        };
        let subject = self.settings.subjects.to(name);
        self.bus.send(subject, request.encode()).await;
    }
}
