//! Whether the bus works, which nodes are silent, and whose filters are to be fetched.
//!
//! A redirector sends itself a message several times a second, over the subscription over which it
//! hears the nodes. When none comes back, the bus is away, or we are too slow to hear the nodes:
//! their silence then says nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, sleep};

use super::ear::lose;
use super::peer::Wanted;
use super::source::{Event, NatsSource};
use crate::director::Director;
use crate::nats::limits::{
    ECHO_BACK_TIME_MS, ECHO_INTERVAL_MS, ECHO_TIME_MS, FETCHES_MAX, LOOK_INTERVAL_MS, SILENCE_MS,
};
use crate::nats::message::Request;
use crate::node::NodeId;

/// Sends messages to ourselves, with their time: one that comes back late shows a slow bus, on
/// which the news of nodes are late, too.
pub(super) async fn echo(source: Arc<NatsSource>) {
    let subject = source.settings.subjects.state_of(source.me.as_str());
    loop {
        let sent_ms = source.now_ms().to_be_bytes();
        source.bus.send(subject.clone(), sent_ms.to_vec()).await;
        sleep(Duration::from_millis(ECHO_INTERVAL_MS)).await;
    }
}

/// What is known about the bus.
#[derive(Default)]
struct Health {
    works_since_ms: Option<u64>,
}

impl Health {
    /// The latest message that came back was sent then.
    fn look(&mut self, echoed_ms: u64, now_ms: u64, is_connected: bool) {
        let limit_ms = match self.works_since_ms {
            Some(_) => ECHO_TIME_MS,
            None => ECHO_BACK_TIME_MS,
        };
        let is_fresh = echoed_ms > 0 && now_ms.saturating_sub(echoed_ms) < limit_ms;
        match is_fresh && is_connected {
            true => _ = self.works_since_ms.get_or_insert(now_ms),
            false => self.works_since_ms = None,
        }
    }

    /// Nodes that were away with the bus have come back, or will not.
    fn is_steady(&self, now_ms: u64) -> bool {
        let works_since_ms = self.works_since_ms;
        works_since_ms.is_some_and(|since_ms| now_ms.saturating_sub(since_ms) >= SILENCE_MS)
    }
}

/// Looks at everything at its interval.
pub(super) async fn watch(source: Arc<NatsSource>, director: Arc<Director>) {
    let mut ticks = interval(Duration::from_millis(LOOK_INTERVAL_MS));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut health = Health::default();
    loop {
        let is_tick = tokio::select! {
            _ = ticks.tick() => true,
            () = source.was_fetched.notified() => false,
            () = source.was_slow.notified() => {
                doubt_all(&source);
                false
            }
        };
        let (echoed_ms, now_ms) = (source.counts.echoed_ms.load(Ordering::Relaxed), source.now_ms());
        health.look(echoed_ms, now_ms, source.bus.is_connected());
        let works = health.works_since_ms.is_some();
        let is_steady = health.is_steady(now_ms);
        source.is_steady.send_replace(is_steady);
        if works != source.works.send_replace(works) {
            turn(&source, works).await;
        }
        if works && is_tick {
            pass(&source, &director, is_steady);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the bus works at each look, when messages come back after this time.
    fn looks(health: &mut Health, from_ms: u64, after_ms: u64) -> Vec<bool> {
        let times = (from_ms..from_ms + 10_000).step_by(LOOK_INTERVAL_MS as usize);
        let look = |now_ms: u64| {
            let sent_ms = now_ms.saturating_sub(after_ms) / ECHO_INTERVAL_MS * ECHO_INTERVAL_MS;
            health.look(sent_ms, now_ms, true);
            health.works_since_ms.is_some()
        };
        times.map(look).collect()
    }

    #[test]
    fn a_slow_bus_is_away_and_does_not_come_and_go() {
        let mut health = Health::default();
        let quick = looks(&mut health, 1_000, 100);
        assert!(quick.iter().all(|works| *works) && health.is_steady(11_000));
        // A round trip of this time is no news, in either direction.
        assert!(looks(&mut health, 11_000, 600).iter().all(|works| *works));
        let slow = looks(&mut health, 21_000, 1_500);
        assert!(slow.iter().all(|works| !*works) && !health.is_steady(31_000));
        for after_ms in [1_500, 900, 600] {
            let slow = looks(&mut health, 31_000, after_ms);
            assert!(slow.iter().all(|works| !*works), "{after_ms}");
        }
        assert!(looks(&mut health, 41_000, 100).iter().all(|works| *works));
        health.look(51_000, 51_000, false);
        assert_eq!(health.works_since_ms, None);
    }
}
