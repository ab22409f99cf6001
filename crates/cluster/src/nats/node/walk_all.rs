//! The walks of a node: through all exports for a new filter, and through trees that came by a
//! rename.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use types::LogicalPath;

use super::facts::{Event, NodeFacts};
use super::member::Shared;
use super::walk::{Found, Halted, walk};
use crate::nats::filter::Generation;
use crate::nats::limits::{FILTER_NAMES_MAX, HASHES_MAX, REBUILD_PAUSE_MS, WALK_DIRECTORIES_MAX};
use crate::nats::message::NameChange;

/// Pause before a walk begins again that missed changes.
const AGAIN: Duration = Duration::from_secs(1);

/// Builds the filter, and builds it anew when it is worn out or old.
pub(super) async fn keep_filter<F: NodeFacts>(shared: Arc<Shared<F>>) {
    loop {
        let began = Instant::now();
        let generation = Generation(fastrand::u64(1..));
        shared.names().begin_build(generation);
        let halted = read_exports(&shared).await;
        if halted.is_ok() && shared.names().finish_build() {
            tell_of_filter(&shared, began);
            shared.news.notify_one();
        } else if shared.names().are_too_many() {
            give_up(&shared, format!("there are more than {FILTER_NAMES_MAX} names"));
        } else if halted == Err(Halted::TooLarge) {
            give_up(
                &shared,
                format!("more than {WALK_DIRECTORIES_MAX} directories wait to be read"),
            );
        } else {
            // Changes were missed, and what was read is of no use.
            sleep(AGAIN).await;
            continue;
        }
        sleep(Duration::from_millis(REBUILD_PAUSE_MS)).await;
        tokio::select! {
            () = shared.worn.notified() => {}
            () = sleep(Duration::from_millis(shared.settings.rebuild_ms)) => {}
        }
    }
}

async fn read_exports<F: NodeFacts>(shared: &Arc<Shared<F>>) -> Result<(), Halted> {
    let exports = shared.settings.exports.clone();
    let take = |found: Vec<Found>| {
        let mut names = shared.names();
        found.into_iter().all(|one| match one {
            Found::File(path) => names.found(&path, false),
            Found::Directory(path) => names.found(&path, true),
            Found::Unread(path) => {
                names.found(&path, true) && {
                    names.unread(path);
                    true
                }
            }
        })
    };
    walk(&shared.facts, exports, take).await
}

fn tell_of_filter<F: NodeFacts>(shared: &Arc<Shared<F>>, began: Instant) {
    let facts = shared.names().facts();
    shared.facts.note(&Event::NamesRead {
        names: facts.count,
        bytes: facts.blocks as usize * crate::nats::filter::BLOCK_BYTES,
        took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    });
}

fn give_up<F: NodeFacts>(shared: &Arc<Shared<F>>, reason: String) {
    shared.facts.note(&Event::NamesUnread { reason });
}

/// Reads trees that came by a rename, one after the other.
pub(super) async fn read_trees<F: NodeFacts>(shared: Arc<Shared<F>>, mut trees: mpsc::Receiver<LogicalPath>) {
    while let Some(tree) = trees.recv().await {
        while let Read::OldFilter = read_tree(&shared, &tree).await {}
        shared.news.notify_one();
    }
}

enum Read {
    Done,
    /// There is a new filter meanwhile, which may lack some names.
    OldFilter,
}

async fn read_tree<F: NodeFacts>(shared: &Arc<Shared<F>>, tree: &LogicalPath) -> Read {
    let generation = shared.names().generation();
    let (mut hashes, mut is_whole) = (Vec::new(), true);
    let take = |found: Vec<Found>| {
        let mut names = shared.names();
        found.into_iter().all(|one| {
            let (path, is_directory) = match one {
                Found::File(path) => (path, false),
                Found::Directory(path) => (path, true),
                Found::Unread(path) => {
                    is_whole = false;
                    (path, true)
                }
            };
            let hash = names.found_in_tree(generation, &path, is_directory);
            hash.is_some_and(|hash| {
                hashes.push(NameChange::Name(hash));
                hashes.len() <= HASHES_MAX
            })
        })
    };
    let walked = walk(&shared.facts, vec![tree.clone()], take).await;
    if hashes.len() > HASHES_MAX || walked == Err(Halted::TooLarge) || !is_whole {
        // It stays open until the next filter, which has all of it.
        shared.worn.notify_one();
        return Read::Done;
    }
    if walked.is_err() {
        return Read::OldFilter;
    }
    shared.tell(|_| hashes).await;
    let mut names = shared.names();
    if names.generation() != generation {
        return Read::OldFilter;
    }
    names.close_tree(tree);
    Read::Done
}
