//! What a redirector hears on the bus. The subject of a message says who sent it; each node is
//! believed only for the names that the configuration gives to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_nats::{Message, StatusCode};
use futures_util::StreamExt as _;

use super::peer::{Effect, effects};
use super::source::{Event, NatsSource};
use crate::director::Director;
use crate::nats::announcement::Announcement;
use crate::nats::message::{Coming, Reply};
use crate::nats::subjects::{FromNode, is_redirector};
use crate::node::{Change, NodeId};

/// Hears announcements and changes.
pub(super) async fn hear_news(source: Arc<NatsSource>, director: Arc<Director>) {
    let subject = source.settings.subjects.all_news();
    let Some(mut news) = source.bus.hear(subject).await else {
        return;
    };
    while let Some(message) = news.next().await {
        hear_one(&source, &director, &message);
    }
}

fn hear_one(source: &NatsSource, director: &Director, message: &Message) {
    let subject = message.subject.as_str();
    let Some(sent) = source.settings.subjects.sender(subject) else {
        return;
    };
    if sent.node == source.me.as_str() {
        if let Ok(sent_ms) = <[u8; 8]>::try_from(&*message.payload) {
            source
                .counts
                .echoed_ms
                .fetch_max(u64::from_be_bytes(sent_ms), Ordering::Relaxed);
        }
        return;
    }
    let sender = source.by_name.get(sent.node).copied();
    // Other redirectors hear themselves, and a trial of the bus ([`crate::nats::trial`]) sends
    // messages without content in the name of a node.
    let is_echo = sent.kind == FromNode::State && sender.is_none() && is_redirector(sent.node);
    if message.payload.is_empty() || is_echo {
        return;
    }
    // A node must not speak for others, and one that is unknown here not for redirectors.
    if sent.kind == FromNode::Placed && sender.is_none() && is_redirector(sent.node) {
        hear_coming(source, director, &message.payload);
        return;
    }
    let Some(node) = sender else {
        source.counts.strangers.fetch_add(1, Ordering::Relaxed);
        return;
    };
    match sent.kind {
        FromNode::State => hear_announcement(source, director, node, &message.payload),
        FromNode::Changes => hear_changes(source, director, node, &message.payload),
        FromNode::Placed | FromNode::To(_) => {}
    }
}

/// Another redirector tells of a name that comes.
fn hear_coming(source: &NatsSource, director: &Director, bytes: &[u8]) {
    if !source.placements().takes(source.now_ms()) {
        source.counts.left_out.fetch_add(1, Ordering::Relaxed);
        return;
    }
    match Coming::decode(bytes) {
        Some(Coming::File { node, path }) => {
            let node = source.by_name.get(node.as_str()).copied();
            if let Some(node) = node.filter(|node| source.may_hold(*node, &path)) {
                source.placements().hear(&path, node);
                director.expect(&path, node);
            }
        }
        Some(Coming::Directory(path)) => {
            source.placements().made(&path);
            director.heard_made(&path);
        }
        None => {
            source.counts.strangers.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn hear_announcement(source: &NatsSource, director: &Director, node: NodeId, bytes: &[u8]) {
    let Some(mut peer) = source.peer(node) else { return };
    if !peer.takes_announcement() {
        return;
    }
    let Some(said) = Announcement::decode(bytes) else {
        peer.counts.malformed += 1;
        return;
    };
    let (status, is_leaving) = (said.status, said.is_leaving);
    let has_missed = peer.announced(said);
    let exports = peer.exports().to_vec();
    let name = source.name(node).unwrap_or_default();
    let reason = is_leaving.then(|| "it has stopped".to_owned());
    if let Some(reason) = peer.two_speakers(name).or(reason) {
        peer.lost();
        drop(peer);
        lose(source, director, node, &reason);
        return;
    }
    let tells_changes = !peer.is_flooding();
    drop(peer);
    if has_missed {
        director.forget(node);
    }
    director.exports(node, (!exports.is_empty()).then_some(exports));
    director.tells(node, tells_changes);
    if director.told(node, Some(status)) == Some(Change::Came) {
        (source.note)(&Event::Came(node));
    }
}

fn hear_changes(source: &NatsSource, director: &Director, node: NodeId, bytes: &[u8]) {
    let Some(mut peer) = source.peer(node) else { return };
    let was_flooding = peer.is_flooding();
    let Some(changes) = peer.read_changes(bytes) else {
        if peer.is_flooding() && !was_flooding {
            drop(peer);
            // What it has is asked for again, as with nodes that tell no changes.
            director.forget(node);
            director.tells(node, false);
            (source.note)(&Event::Floods(node));
        }
        return;
    };
    let has_all = peer.changed(&changes).is_some();
    let count = changes.list.len() as u64;
    let effects = effects(changes, |path| source.may_hold(node, path), &mut peer.counts);
    drop(peer);
    if !has_all {
        director.forget(node);
    }
    for effect in effects {
        match effect {
            Effect::Created(path) => {
                source.placements().came(&path, node);
                director.created(&path, node);
            }
            Effect::Removed(path) => director.removed(&path, node),
            Effect::Forget => director.forget(node),
        }
    }
    // Not earlier: the count tells what the director knows.
    if let Some(mut peer) = source.peer(node) {
        peer.counts.changes += count;
    }
}

/// A node does not answer any more.
pub(super) fn lose(source: &NatsSource, director: &Director, node: NodeId, reason: &str) {
    source.questions.failed(node, reason);
    if director.lost(node, reason) == Some(Change::Went) {
        (source.note)(&Event::Went {
            node,
            reason: reason.to_owned(),
        });
    }
}

/// Hears answers to questions, and pieces of filters.
pub(super) async fn hear_answers(source: Arc<NatsSource>, director: Arc<Director>) {
    let subject = source.settings.subjects.all_answers(source.me.as_str());
    let Some(mut answers) = source.bus.hear(subject).await else {
        return;
    };
    while let Some(message) = answers.next().await {
        let sent = source.settings.subjects.sender(message.subject.as_str());
        let Some(node) = sent.and_then(|sent| source.by_name.get(sent.node).copied()) else {
            source.counts.strangers.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            hear_absence(&source, &director, node);
            continue;
        }
        hear_answer(&source, node, &message.payload).await;
    }
}

/// The server of the bus says that a node is not connected. It may be on its way back if the bus
/// was away.
fn hear_absence(source: &NatsSource, director: &Director, node: NodeId) {
    const REASON: &str = "it is not connected to the message bus";
    if !*source.is_steady.borrow() {
        source.questions.failed(node, REASON);
        return;
    }
    if let Some(mut peer) = source.peer(node) {
        peer.lost();
    }
    lose(source, director, node, REASON);
}

async fn hear_answer(source: &NatsSource, node: NodeId, bytes: &[u8]) {
    let wanted = match Reply::decode(bytes) {
        Some(Reply::Says { id, says }) => {
            source.questions.answered(id, node, says);
            return;
        }
        Some(Reply::Piece(piece)) => source.peer(node).and_then(|mut peer| peer.received(&piece)),
        None => {
            if let Some(mut peer) = source.peer(node) {
                peer.counts.malformed += 1;
            }
            return;
        }
    };
    match wanted {
        Some(wanted) => source.request_piece(node, wanted).await,
        None => source.was_fetched.notify_one(),
    }
}
