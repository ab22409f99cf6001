//! Reading all names of an export, at a bounded rate.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep_until};
use types::LogicalPath;

use super::facts::{Kind, Named, NodeFacts};
use crate::locator::Says;
use crate::nats::limits::{WALK_DIRECTORIES_MAX, WALK_NAMES_A_SECOND};

/// What a walk finds.
pub(super) enum Found {
    /// A file, or a link to one.
    File(LogicalPath),
    /// A directory, whose entries follow.
    Directory(LogicalPath),
    /// A directory whose entries do not follow: it is reached over a link, or cannot be read.
    Unread(LogicalPath),
}

/// Why a walk ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halted {
    /// Its receiver wanted no more.
    Stopped,
    /// Too many directories wait to be read.
    TooLarge,
}

/// Reads these trees, page by page: `take` gets what is found and says whether to go on. It comes
/// back when all is read.
pub(super) async fn walk<F: NodeFacts>(
    facts: &Arc<F>,
    trees: Vec<LogicalPath>,
    mut take: impl FnMut(Vec<Found>) -> bool,
) -> Result<(), Halted> {
    let mut pace = Pace::new();
    let mut waiting: VecDeque<LogicalPath> = trees.into();
    while let Some(directory) = waiting.pop_front() {
        let mut found = vec![Found::Directory(directory.clone())];
        let mut pages = facts.list(&directory);
        while let Some(page) = pages.next().await {
            let Ok(page) = page else {
                // It may have gone meanwhile.
                if facts.has(&directory).await != Says::Nothing {
                    found.push(Found::Unread(directory.clone()));
                }
                break;
            };
            pace.keep(page.len()).await;
            for entry in page {
                let Ok(path) = directory.join(&entry.name) else {
                    continue;
                };
                found.extend(look(facts, path, &entry, &mut waiting).await);
            }
            if waiting.len() > WALK_DIRECTORIES_MAX {
                return Err(Halted::TooLarge);
            }
            if !take(std::mem::take(&mut found)) {
                return Err(Halted::Stopped);
            }
        }
        if !take(found) {
            return Err(Halted::Stopped);
        }
    }
    Ok(())
}

async fn look<F: NodeFacts>(
    facts: &Arc<F>,
    path: LogicalPath,
    entry: &Named,
    waiting: &mut VecDeque<LogicalPath>,
) -> Option<Found> {
    match entry.kind {
        Kind::File => Some(Found::File(path)),
        Kind::Directory => {
            // Found when it is read.
            waiting.push_back(path);
            None
        }
        // Links can make circles, so none is followed.
        Kind::Link => match facts.has(&path).await {
            Says::Nothing => None,
            Says::File { .. } => Some(Found::File(path)),
            Says::Directory | Says::Failed(_) => Some(Found::Unread(path)),
        },
    }
}

/// Spreads names over time.
struct Pace {
    next: Instant,
}

impl Pace {
    fn new() -> Self {
        Self { next: Instant::now() }
    }

    /// Waits until so many more names may be read.
    async fn keep(&mut self, names: usize) {
        sleep_until(self.next).await;
        let time = Duration::from_secs(1).mul_f64(names as f64 / WALK_NAMES_A_SECOND as f64);
        self.next = self.next.max(Instant::now()) + time;
    }
}
