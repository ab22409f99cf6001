//! Reading all names of an export, at a bounded rate.

use std::collections::{HashSet, VecDeque};
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
    /// A file.
    File(LogicalPath),
    /// A directory, whose entries follow.
    Directory(LogicalPath),
    /// A directory whose entries do not follow: they were found under another name, or cannot be
    /// read.
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
    let mut directories = Directories {
        waiting: trees.into(),
        seen: HashSet::new(),
    };
    while let Some(directory) = directories.waiting.pop_front() {
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
                found.extend(directories.look(path, &entry));
            }
            if directories.waiting.len() > WALK_DIRECTORIES_MAX {
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

/// Directories that are to be read, and those that were found.
struct Directories {
    waiting: VecDeque<LogicalPath>,
    seen: HashSet<u64>,
}

impl Directories {
    /// An entry of a directory, unless it is read later.
    fn look(&mut self, path: LogicalPath, entry: &Named) -> Option<Found> {
        if entry.kind == Kind::File {
            return Some(Found::File(path));
        }
        if entry.identity.is_some_and(|identity| !self.seen.insert(identity)) {
            return Some(Found::Unread(path));
        }
        self.waiting.push_back(path);
        None
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::path;

    #[test]
    fn a_directory_is_read_under_one_of_its_names() {
        let mut directories = Directories {
            waiting: VecDeque::new(),
            seen: HashSet::new(),
        };
        let mut look = |name: &str, kind, identity| {
            let entry = Named {
                name: name.to_owned(),
                kind,
                identity,
            };
            directories.look(path(&format!("/{name}")), &entry)
        };
        assert!(matches!(look("file", Kind::File, Some(1)), Some(Found::File(_))));
        assert!(look("one", Kind::Directory, Some(2)).is_none());
        assert!(matches!(look("link", Kind::Directory, Some(2)), Some(Found::Unread(_))));
        assert!(look("unknown", Kind::Directory, None).is_none());
        assert!(look("unknown2", Kind::Directory, None).is_none());
        assert_eq!(directories.waiting.len(), 3);
    }
}
