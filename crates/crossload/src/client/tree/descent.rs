//! Detects loops in a tree. Neither protocol reports that a directory is a symbolic link, so a
//! directory with the same entries as one above it is taken for a loop.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use crate::client::place::Place;
use crate::client::session::Info;
use crate::limits::TREE_DEPTH_MAX;

/// The number of equal directories above that makes a loop if they contain only directories. Empty
/// directories that were made together look alike.
const SAME_WITHOUT_FILES: usize = 3;

/// What a directory contains, in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    hash: u64,
    has_files: bool,
    has_directories: bool,
}

impl Content {
    /// Adds an entry.
    pub(super) fn add(&mut self, entry: &Info) {
        let mut hasher = DefaultHasher::new();
        (
            &entry.name,
            entry.is_directory,
            entry.size_bytes,
            entry.modified_s,
            &entry.etag,
        )
            .hash(&mut hasher);
        // Servers list in any order.
        self.hash = self.hash.wrapping_add(hasher.finish());
        self.has_files |= !entry.is_directory;
        self.has_directories |= entry.is_directory;
    }
}

/// A directory on the path from the top.
pub(super) struct Level {
    place: Place,
    content: Content,
    depth: usize,
    above: Option<Arc<Level>>,
}

impl Level {
    /// A directory below another; `None` if it is too deep, or a loop. Only servers can show loops:
    /// here links are resolved before they are followed.
    pub(super) fn below(above: Option<&Arc<Self>>, place: &Place, content: Content) -> Option<Arc<Self>> {
        let level = Self {
            place: place.clone(),
            content,
            depth: above.map_or(0, |above| above.depth + 1),
            above: above.cloned(),
        };
        let allowed = if content.has_files { 0 } else { SAME_WITHOUT_FILES - 1 };
        // A loop needs a directory among the entries.
        let may_loop = content.has_directories && matches!(place, Place::Remote(_));
        let is_loop = may_loop && level.same_above() > allowed;
        (!is_loop && level.depth < TREE_DEPTH_MAX).then(|| Arc::new(level))
    }

    /// Whether this directory or one above it is the one that is looked for.
    pub(super) fn any(&self, is_it: impl Fn(&Place) -> bool) -> bool {
        let above = std::iter::successors(self.above.as_ref(), |level| level.above.as_ref());
        is_it(&self.place) || above.into_iter().any(|level| is_it(&level.place))
    }

    fn same_above(&self) -> usize {
        let above = std::iter::successors(self.above.as_ref(), |level| level.above.as_ref());
        above.filter(|level| level.content == self.content).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(above: Option<&Arc<Level>>, entries: &[Info]) -> Option<Arc<Level>> {
        let mut content = Content::default();
        entries.iter().for_each(|entry| content.add(entry));
        Level::below(above, &Place::parse("https://a/").expect("a URL"), content)
    }

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
        let mut entries = [entry("file", false), entry("loop", true)];
        let first = below(None, &entries).expect("the first");
        assert!(below(Some(&first), &entries).is_none());
        // Through another directory, and in another order, too.
        let between = below(Some(&first), &[entry("up", true)]).expect("another");
        entries.reverse();
        assert!(below(Some(&between), &entries).is_none());
    }

    #[test]
    fn directories_that_look_alike_are_no_loop() {
        let same = [entry("file", false)];
        let first = below(None, &same).expect("the first");
        assert!(below(Some(&first), &same).is_some(), "it has no directories");
        let nested = [entry("a", true)];
        let mut level = below(None, &nested).expect("the first");
        for _ in 1..SAME_WITHOUT_FILES {
            level = below(Some(&level), &nested).expect("made by mkdir -p a/a/a");
        }
        assert!(below(Some(&level), &nested).is_none());
    }

    #[test]
    fn a_tree_ends_at_the_depth_limit() {
        let mut level = None;
        let mut count = 0_usize;
        while let Some(next) = below(level.as_ref(), &[entry(&count.to_string(), false)]) {
            count += 1;
            level = Some(next);
        }
        assert_eq!(count, TREE_DEPTH_MAX);
    }
}
