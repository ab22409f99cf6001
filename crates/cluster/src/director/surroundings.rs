//! Names above and below a new one: a file has nothing below it, on whatever node.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use types::LogicalPath;

use super::Director;
use super::state::State;
use crate::expected::ancestors;
use crate::explanation::Undirected;
use crate::limits::{DIRECTORIES_MAX, UNTOLD_TIME_MS};
use crate::locations::Known;

/// Directories that nodes have lately said they have, so that the next file in one costs no
/// question. At most [`DIRECTORIES_MAX`]; with more, all are asked for again.
#[derive(Debug, Default)]
pub(super) struct Directories {
    keys: RandomState,
    seen: HashMap<u64, u64>,
}

impl Directories {
    fn note(&mut self, path: &LogicalPath, now_ms: u64) {
        if self.seen.len() >= DIRECTORIES_MAX {
            self.seen.clear();
        }
        self.seen.insert(self.keys.hash_one(path.as_str()), now_ms);
    }

    /// No longer than for nodes that tell no changes: a file may have taken the place.
    fn has(&self, path: &LogicalPath, now_ms: u64) -> bool {
        let seen_ms = self.seen.get(&self.keys.hash_one(path.as_str()));
        seen_ms.is_some_and(|seen_ms| now_ms.saturating_sub(*seen_ms) < UNTOLD_TIME_MS)
    }
}

impl State {
    /// What is known to stand against a new file of this name.
    pub(super) fn in_the_way(&mut self, path: &LogicalPath, now_ms: u64) -> Option<Undirected> {
        let is_directory = self.making.contains_key(path) || self.is_above(path, now_ms);
        if is_directory {
            return Some(Undirected::AboveFile);
        }
        self.file_above(path, now_ms).map(Undirected::BelowFile)
    }

    fn keep_directories(&mut self, directories: impl Iterator<Item = LogicalPath>) {
        directories.for_each(|directory| *self.making.entry(directory).or_default() += 1);
    }

    fn release_directories(&mut self, directories: impl Iterator<Item = LogicalPath>) {
        for directory in directories {
            if let Some(count) = self.making.get_mut(&directory) {
                *count -= 1;
                if *count == 0 {
                    self.making.remove(&directory);
                }
            }
        }
    }

    /// A name above this one that is a file, or will be one.
    fn file_above(&mut self, path: &LogicalPath, now_ms: u64) -> Option<LogicalPath> {
        ancestors(path).find(|above| {
            let is_coming = self.claims.contains(above) || self.coming(above, now_ms).is_some();
            is_coming || matches!(self.locations.find(above, &self.nodes, now_ms), Known::Held { .. })
        })
    }

    /// Whether there is a directory of this name, or one comes with a file.
    fn is_directory(&mut self, path: &LogicalPath, now_ms: u64) -> bool {
        let is_export = |path: &LogicalPath| self.nodes.iter().any(|(_, node)| node.config.exports.contains(path));
        is_export(path) || self.directories.has(path, now_ms) || self.is_above(path, now_ms)
    }
}

impl Director {
    /// Asks whether a name above this one is a file, up to the nearest directory. Nodes that do not
    /// answer are no reason to refuse a new name, as with the name itself.
    pub(super) async fn check_above(&self, path: &LogicalPath) -> Result<(), Undirected> {
        for above in ancestors(path) {
            let now_ms = self.now_ms();
            if self.state().is_directory(&above, now_ms) {
                return Ok(());
            }
            match self.locate_now(&above, false).await {
                Ok(_) => return Err(Undirected::BelowFile(above)),
                Err(Undirected::Directory(_)) => {
                    self.state().directories.note(&above, now_ms);
                    return Ok(());
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// A directory is about to be made: until this is dropped, no file gets its name or that of one
    /// above it.
    ///
    /// # Errors
    /// [`Undirected::BelowFile`]; [`Undirected::Claimed`] if a file of this name is on its way.
    pub(crate) async fn make<'a>(&'a self, path: &'a LogicalPath) -> Result<Making<'a>, Undirected> {
        self.check_above(path).await?;
        let (state, now_ms) = (&mut *self.state(), self.now_ms());
        if state.claims.contains(path) || state.coming(path, now_ms).is_some() {
            return Err(Undirected::Claimed);
        }
        if let Some(above) = state.file_above(path, now_ms) {
            return Err(Undirected::BelowFile(above));
        }
        state.keep_directories(std::iter::once(path.clone()).chain(ancestors(path)));
        Ok(Making { director: self, path })
    }

    /// A rename that could be made was refused because a file of its new name is expected: it goes
    /// before the next file of this name.
    pub(crate) fn wait_for(&self, path: &LogicalPath) {
        let now_ms = self.now_ms();
        self.state().wait_for(path, now_ms);
    }

    /// Takes a name that a file or directory is to get by a rename, until the claim is dropped.
    ///
    /// # Errors
    /// [`Undirected::Claimed`] if another rename is about to give it, or a file of this name is on
    /// its way, at this redirector or at one that has told of it: an upload may take long, and two
    /// files would have the name. [`Undirected::BelowFile`], [`Undirected::AboveFile`].
    pub(crate) async fn claim<'a>(&'a self, path: &'a LogicalPath) -> Result<Claim<'a>, Undirected> {
        self.check_above(path).await?;
        let (state, now_ms) = (&mut *self.state(), self.now_ms());
        if state.claims.contains(path) || state.coming(path, now_ms).is_some() {
            return Err(Undirected::Claimed);
        }
        if let Some(why) = state.in_the_way(path, now_ms) {
            return Err(why);
        }
        state.waiting.remove(path);
        state.claims.insert(path.clone());
        state.keep_directories(ancestors(path));
        Ok(Claim { director: self, path })
    }
}

/// A name that is about to be given by a rename.
pub(crate) struct Claim<'a> {
    director: &'a Director,
    path: &'a LogicalPath,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let state = &mut *self.director.state();
        state.claims.remove(self.path);
        state.release_directories(ancestors(self.path));
    }
}

/// A directory that is being made, with those above it.
pub(crate) struct Making<'a> {
    director: &'a Director,
    path: &'a LogicalPath,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let state = &mut *self.director.state();
        state.release_directories(std::iter::once(self.path.clone()).chain(ancestors(self.path)));
    }
}
