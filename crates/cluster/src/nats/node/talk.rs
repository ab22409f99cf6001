//! What a node says: announcements, answers, changed names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::Message;
use futures_util::stream::{self, StreamExt as _};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::{sleep, timeout};
use types::LogicalPath;

use super::facts::NodeFacts;
use super::member::Shared;
use crate::locator::Says;
use crate::nats::limits::{ANNOUNCE_INTERVAL_MS, ANNOUNCE_PAUSE_MS, GREETING_SPREAD_MS, LOOKUP_TIME_MS, LOOKUPS_MAX};
use crate::nats::message::{NameChange, Reply, Request};

/// Changed names that are looked at together at most.
const CHANGES_TOGETHER: usize = 512;
/// Changed names that are looked at ahead.
const CHANGES_AHEAD: usize = 64;

/// Announces this node at its interval and when there is news.
pub(super) async fn announce<F: NodeFacts>(shared: Arc<Shared<F>>) {
    loop {
        if shared.names().take_lost_unknown() {
            shared.tell(|_| vec![NameChange::Missed]).await;
        }
        let was_sent = shared.announce(false).await;
        sleep(Duration::from_millis(ANNOUNCE_PAUSE_MS)).await;
        if !was_sent {
            continue;
        }
        let rest = Duration::from_millis(ANNOUNCE_INTERVAL_MS - ANNOUNCE_PAUSE_MS);
        tokio::select! {
            () = shared.news.notified() => {}
            () = sleep(rest) => {}
        }
    }
}

/// Answers redirectors.
pub(super) async fn answer<F: NodeFacts>(shared: Arc<Shared<F>>) {
    let subjects = &shared.settings.subjects;
    let mut wanted = vec![subjects.to(shared.settings.name.as_str()), subjects.hello()];
    wanted.extend(
        shared
            .settings
            .exports
            .iter()
            .map(|export| subjects.who(export.as_str())),
    );
    let mut heard = Vec::with_capacity(wanted.len());
    for subject in wanted {
        heard.extend(shared.bus.hear(subject).await);
    }
    let hello = subjects.hello();
    stream::select_all(heard)
        .for_each_concurrent(LOOKUPS_MAX, |message| answer_one(&shared, &hello, message))
        .await;
}

async fn answer_one<F: NodeFacts>(shared: &Arc<Shared<F>>, hello: &str, message: Message) {
    if message.subject.as_str() == hello {
        sleep(Duration::from_millis(fastrand::u64(0..GREETING_SPREAD_MS))).await;
        shared.news.notify_one();
        return;
    }
    // A trial of the bus ([`crate::nats::trial`]).
    if message.payload.is_empty() {
        return;
    }
    let count = |counter: &AtomicU64| {
        counter.fetch_add(1, Ordering::Relaxed);
    };
    let Some(request) = Request::decode(&message.payload) else {
        return count(&shared.counts.malformed);
    };
    let (redirector, reply) = match request {
        Request::Who { id, redirector, path } => {
            count(&shared.counts.questions);
            let says = look_up(shared, &path).await;
            if matches!(says, Says::File { .. } | Says::Directory) {
                count(&shared.counts.found);
            }
            (redirector, Reply::Says { id, says })
        }
        Request::Piece {
            id,
            redirector,
            generation,
            piece,
        } => {
            count(&shared.counts.pieces);
            let piece = shared.names().piece(id, generation, piece);
            (redirector, Reply::Piece(piece))
        }
    };
    let name = shared.settings.name.as_str();
    let subject = shared.settings.subjects.answers_of(name, redirector.as_str());
    shared.bus.send(subject, reply.encode()).await;
}

async fn look_up<F: NodeFacts>(shared: &Arc<Shared<F>>, path: &LogicalPath) -> Says {
    if !shared.names().is_exported(path) {
        return Says::Nothing;
    }
    let late = |_| Says::Failed("it took too long to look".to_owned());
    let limit = Duration::from_millis(LOOKUP_TIME_MS);
    timeout(limit, shared.facts.has(path)).await.unwrap_or_else(late)
}

/// A name that has changed, and what is there now.
struct Changed {
    path: LogicalPath,
    says: Says,
    is_filled: bool,
}

/// Tells redirectors which files their clients have missed here.
pub(super) async fn tell_missing<F: NodeFacts>(shared: Arc<Shared<F>>, mut missing: broadcast::Receiver<LogicalPath>) {
    loop {
        let path = match missing.recv().await {
            Ok(path) => path,
            // Its next reader reports it again.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        // Unlike a change: a reader must not wear out the filter, or make redirectors forget more.
        if shared.names().is_exported(&path) && look_up(&shared, &path).await == Says::Nothing {
            shared.tell(|_| vec![NameChange::Gone(path)]).await;
        }
    }
}

/// Tells redirectors which names come and go. Several are looked at side by side, and told in
/// the order of their notices.
pub(super) async fn tell_changes<F: NodeFacts>(shared: Arc<Shared<F>>, changed: broadcast::Receiver<LogicalPath>) {
    let notices = stream::unfold(changed, |mut changed| async {
        match changed.recv().await {
            Ok(path) => Some((Some(path), changed)),
            Err(RecvError::Lagged(_)) => Some((None, changed)),
            // The exports are gone: the server ends.
            Err(RecvError::Closed) => None,
        }
    });
    let looked = notices.map(|notice| look(&shared, notice)).buffered(CHANGES_AHEAD);
    let mut together = Box::pin(looked.ready_chunks(CHANGES_TOGETHER));
    while let Some(list) = together.next().await {
        tell(&shared, list).await;
    }
}

async fn look<F: NodeFacts>(shared: &Arc<Shared<F>>, notice: Option<LogicalPath>) -> Option<Changed> {
    let path = notice?;
    let says = look_up(shared, &path).await;
    let is_filled = says == Says::Directory && {
        // One that cannot be read may contain anything.
        let first = shared.facts.list(&path).next().await;
        first.is_some_and(|page| page.map_or(true, |entries| !entries.is_empty()))
    };
    Some(Changed { path, says, is_filled })
}

/// `None` stands for changes that were missed.
async fn tell<F: NodeFacts>(shared: &Arc<Shared<F>>, list: Vec<Option<Changed>>) {
    let (mut trees, mut has_missed) = (Vec::new(), false);
    shared
        .tell(|names| {
            let mut told = Vec::with_capacity(list.len());
            for change in list {
                let Some(changed) = change else {
                    names.missed();
                    has_missed = true;
                    told.push(NameChange::Missed);
                    continue;
                };
                if !names.is_exported(&changed.path) {
                    continue;
                }
                names.changed(&changed.path, &changed.says, changed.is_filled, &mut told);
                if changed.is_filled {
                    trees.push(changed.path);
                }
            }
            told
        })
        .await;
    for tree in trees {
        // A tree too many stays open until the next filter.
        if shared.trees.try_send(tree).is_err() {
            shared.worn.notify_one();
        }
    }
    if has_missed || shared.names().is_worn() {
        shared.worn.notify_one();
    }
}
