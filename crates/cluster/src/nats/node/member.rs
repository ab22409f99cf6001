//! A server as a node: the tasks of its membership, and what they share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use endpoint::NameChanges;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use types::LogicalPath;

use super::facts::{Event, NodeFacts, NodeSettings};
use super::names::Names;
use super::{talk, walk_all};
use crate::nats::announcement::{Announcement, NamesFacts};
use crate::nats::bus::{AccessFault, Bus, BusEvent, BusView};
use crate::nats::limits::{CHANGES_BYTES_MAX, CHANGES_MAX, OPEN_TREES_MAX};
use crate::nats::message::{Changes, NameChange};

/// Room for the head of a message of changes, in bytes.
const HEAD_BYTES: usize = 32;

/// What the tasks of a membership share.
pub(super) struct Shared<F> {
    pub(super) settings: NodeSettings,
    pub(super) facts: Arc<F>,
    pub(super) bus: Bus,
    names: Mutex<Names>,
    /// Keeps messages of changes in the order of their numbers.
    voice: tokio::sync::Mutex<()>,
    /// There is something to announce.
    pub(super) news: Arc<Notify>,
    /// The filter should be built anew.
    pub(super) worn: Notify,
    /// Trees that came by a rename.
    pub(super) trees: mpsc::Sender<LogicalPath>,
    pub(super) counts: Counts,
    /// Tells this process from others under the same name.
    instance: String,
}

/// What was received.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) questions: AtomicU64,
    pub(super) found: AtomicU64,
    pub(super) pieces: AtomicU64,
    pub(super) malformed: AtomicU64,
    pub(super) changes: AtomicU64,
}

/// A membership, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// The connection.
    pub bus: BusView,
    /// The filter.
    pub names: NamesFacts,
    /// Questions that came.
    pub questions: u64,
    /// Questions for names that are here.
    pub found: u64,
    /// Pieces of the filter that were sent.
    pub pieces: u64,
    /// Messages that could not be understood.
    pub malformed: u64,
    /// Changes of names that were sent.
    pub changes: u64,
}

impl<F: NodeFacts> Shared<F> {
    /// The names; nothing may be waited for while they are held.
    pub(super) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is announced now.
    pub(super) fn announcement(&self, is_leaving: bool) -> Announcement {
        Announcement {
            version: self.settings.version.clone(),
            instance: self.instance.clone(),
            doors: self.settings.doors.clone(),
            exports: self
                .settings
                .exports
                .iter()
                .map(|path| path.as_str().to_owned())
                .collect(),
            status: self.facts.status(),
            names: self.names().facts(),
            is_leaving,
            ..Announcement::default()
        }
    }

    /// Announces this node; answers whether it was sent.
    pub(super) async fn announce(&self, is_leaving: bool) -> bool {
        let subject = self.settings.subjects.state_of(self.settings.name.as_str());
        // In the order of changes, whose last number it tells.
        let _voice = self.voice.lock().await;
        let announcement = self.announcement(is_leaving).encode();
        self.bus.send(subject, announcement).await
    }

    /// Changes names, and tells redirectors. Without a connection, they see later that they have
    /// missed something.
    pub(super) async fn tell(&self, change: impl FnOnce(&mut Names) -> Vec<NameChange>) {
        let _voice = self.voice.lock().await;
        let list = change(&mut self.names());
        let count = list.len() as u64;
        for list in in_messages(list) {
            let changes = {
                let mut names = self.names();
                Changes {
                    generation: names.generation(),
                    sequence: names.next_sequence(),
                    list,
                }
            };
            let subject = self.settings.subjects.changes_of(self.settings.name.as_str());
            self.bus.send(subject, changes.encode()).await;
        }
        self.counts.changes.fetch_add(count, Ordering::Relaxed);
    }
}

/// Cuts changes into messages.
fn in_messages(list: Vec<NameChange>) -> Vec<Vec<NameChange>> {
    let (mut messages, mut bytes) = (Vec::<Vec<NameChange>>::new(), usize::MAX);
    for change in list {
        let size = change.bytes();
        let is_full = messages.last().is_none_or(|last| last.len() >= CHANGES_MAX);
        if is_full || bytes.saturating_add(size) > CHANGES_BYTES_MAX - HEAD_BYTES {
            messages.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        if let Some(last) = messages.last_mut() {
            last.push(change);
        }
    }
    messages
}

/// A server that takes part in a cluster over the bus. Dropping it ends that at once; redirectors
/// then find out by themselves.
pub struct Member<F> {
    shared: Arc<Shared<F>>,
    tasks: JoinSet<()>,
}

impl<F: NodeFacts> Member<F> {
    /// Begins to take part. `names` gives notice of new and removed names. It must be called within
    /// a runtime.
    ///
    /// # Errors
    /// [`AccessFault`] if the bus can never be reached with these settings.
    pub fn start(settings: NodeSettings, facts: Arc<F>, names: &NameChanges) -> Result<Self, AccessFault> {
        // Before the first walk, so that no change is missed.
        let (changed, missing) = (names.subscribe(), names.subscribe_missing());
        let (told, news) = (facts.clone(), Arc::new(Notify::new()));
        let has_news = news.clone();
        let note = move |event: BusEvent| {
            if event == BusEvent::Connected {
                has_news.notify_one();
            }
            told.note(&Event::Bus(event));
        };
        let bus = Bus::connect(&settings.access, settings.name.as_str(), note)?;
        let (trees, came) = mpsc::channel(OPEN_TREES_MAX);
        let names = Names::new(settings.exports.clone(), settings.unfiltered.clone(), fastrand::u32(..));
        let shared = Arc::new(Shared {
            settings,
            facts,
            bus,
            names: Mutex::new(names),
            voice: tokio::sync::Mutex::default(),
            news,
            worn: Notify::new(),
            trees,
            counts: Counts::default(),
            instance: format!("{:016x}", fastrand::u64(..)),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(talk::announce(shared.clone()));
        tasks.spawn(talk::answer(shared.clone()));
        tasks.spawn(talk::tell_changes(shared.clone(), changed));
        tasks.spawn(talk::tell_missing(shared.clone(), missing));
        tasks.spawn(walk_all::keep_filter(shared.clone()));
        tasks.spawn(walk_all::read_trees(shared.clone(), came));
        Ok(Self { shared, tasks })
    }

    /// Announces the state now: it has changed.
    pub fn announce(&self) {
        self.shared.news.notify_one();
    }

    /// How it is doing.
    #[must_use]
    pub fn view(&self) -> MemberView {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.shared.counts;
        MemberView {
            bus: self.shared.bus.view(),
            names: self.shared.names().facts(),
            questions: count(&counts.questions),
            found: count(&counts.found),
            pieces: count(&counts.pieces),
            malformed: count(&counts.malformed),
            changes: count(&counts.changes),
        }
    }

    /// Takes leave, so that redirectors need not find out by themselves, and waits for that no
    /// longer than `limit`.
    pub async fn stop(mut self, limit: Duration) {
        self.tasks.abort_all();
        let leave = async {
            self.shared.announce(true).await;
            self.shared.bus.flush().await;
        };
        let _ = timeout(limit, leave).await;
    }
}

impl<F> std::fmt::Debug for Member<F> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Member")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::filter::NameHash;
    use crate::testing::path;

    #[test]
    fn changes_are_cut_into_messages_that_fit() {
        let hashes = vec![NameChange::Name(NameHash(1)); 3 * CHANGES_MAX + 1];
        let sizes: Vec<usize> = in_messages(hashes).iter().map(Vec::len).collect();
        assert_eq!(sizes, [CHANGES_MAX, CHANGES_MAX, CHANGES_MAX, 1]);
        let long = vec![NameChange::File(path(&format!("/{}", "x/".repeat(1000).trim_end_matches('/')))); 100];
        let messages = in_messages(long);
        assert_eq!(messages.iter().map(Vec::len).sum::<usize>(), 100);
        for list in messages {
            let changes = Changes {
                generation: Default::default(),
                sequence: 0,
                list,
            };
            assert_eq!(Changes::decode(&changes.encode()), Some(changes));
        }
        assert!(in_messages(Vec::new()).is_empty());
    }
}
