//! Descends a tree, and detects loops. Neither protocol reports that a directory is a symbolic
//! link, so a directory with the same entries as one above it is taken for a loop.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use crate::limits::TREE_DEPTH_MAX;

use super::super::place::Place;
use super::super::session::Info;

/// The number of equal directories above that makes a loop if they contain only directories. Empty
/// directories that were made together look alike.
const SAME_WITHOUT_FILES: usize = 3;

/// A file or directory to copy.
pub(super) struct Item {
    pub(super) source: Place,
    pub(super) target: Place,
    pub(super) info: Info,
    /// Its directory, within a tree.
    pub(super) level: Option<Arc<Level>>,
}

impl Item {
    /// An argument of the command line.
    pub(super) fn first(source: Place, target: Place, info: Info) -> Self {
        Self {
            source,
            target,
            info,
            level: None,
        }
    }

    /// An entry of a directory.
    pub(super) fn below(level: &Arc<Level>, source: Place, target: Place, info: Info) -> Self {
        Self {
            level: Some(Arc::clone(level)),
            ..Self::first(source, target, info)
        }
    }
}

/// A directory on the path from the top.
pub(super) struct Level {
    /// A hash of its listing.
    content: u64,
    depth: usize,
    above: Option<Arc<Level>>,
}

impl Level {
    /// The top directory, which cannot be a loop.
    pub(super) fn top() -> Arc<Self> {
        Arc::new(Self {
            content: 0,
            depth: 0,
            above: None,
        })
    }

    /// A directory below another, with these entries; `None` if it is a loop, or too deep.
    pub(super) fn below(above: Option<&Arc<Self>>, entries: &[Info]) -> Option<Arc<Self>> {
        let mut hasher = DefaultHasher::new();
        for entry in entries {
            (
                &entry.name,
                entry.is_directory,
                entry.size_bytes,
                entry.modified_s,
                &entry.etag,
            )
                .hash(&mut hasher);
        }
        let level = Self {
            content: hasher.finish(),
            depth: above.map_or(0, |above| above.depth + 1),
            above: above.cloned(),
        };
        let has_files = entries.iter().any(|entry| !entry.is_directory);
        let allowed = if has_files { 0 } else { SAME_WITHOUT_FILES - 1 };
        // A loop needs a directory among the entries.
        let may_loop = entries.iter().any(|entry| entry.is_directory);
        let is_loop = may_loop && level.same_above() > allowed;
        (!is_loop && level.depth < TREE_DEPTH_MAX).then(|| Arc::new(level))
    }

    fn same_above(&self) -> usize {
        let above = std::iter::successors(self.above.as_ref(), |level| level.above.as_ref());
        above.filter(|level| level.content == self.content).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, is_directory: bool) -> Info {
        Info {
            name: name.to_owned(),
            is_directory,
            modified_s: Some(1),
            ..Info::default()
        }
    }

    #[test]
    fn a_directory_inside_itself_is_detected() {
        let entries = [entry("file", false), entry("loop", true)];
        let first = Level::below(None, &entries).expect("the first");
        assert!(Level::below(Some(&first), &entries).is_none());
        // Through another directory, too.
        let between = Level::below(Some(&first), &[entry("up", true)]).expect("another");
        assert!(Level::below(Some(&between), &entries).is_none());
    }

    #[test]
    fn directories_that_look_alike_are_no_loop() {
        let same = [entry("file", false)];
        let first = Level::below(None, &same).expect("the first");
        assert!(Level::below(Some(&first), &same).is_some(), "it has no directories");
        let nested = [entry("a", true)];
        let mut level = Level::below(None, &nested).expect("the first");
        for _ in 1..SAME_WITHOUT_FILES {
            level = Level::below(Some(&level), &nested).expect("made by mkdir -p a/a/a");
        }
        assert!(Level::below(Some(&level), &nested).is_none());
    }

    #[test]
    fn a_tree_ends_at_the_depth_limit() {
        let mut level = None;
        let mut count = 0_usize;
        while let Some(next) = Level::below(level.as_ref(), &[entry(&count.to_string(), false)]) {
            count += 1;
            level = Some(next);
        }
        assert_eq!(count, TREE_DEPTH_MAX);
    }
}
