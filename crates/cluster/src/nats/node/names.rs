//! The names of this node: the filter, what it does not contain yet, and the numbers by which
//! redirectors see that they have missed something.

use types::LogicalPath;

use crate::locator::Says;
use crate::nats::announcement::NamesFacts;
use crate::nats::filter::{BLOCK_BYTES, Filter, Generation, NameHash};
use crate::nats::limits::{FILTER_NAMES_MAX, OPEN_TREES_MAX, PIECE_BYTES, REMOVED_SHARE, REMOVED_TREE_NAMES};
use crate::nats::message::{NameChange, Piece, above};

/// A filter that is being built, by a walk through all exports.
#[derive(Debug)]
struct Build {
    generation: Generation,
    names: Vec<NameHash>,
    directories: Vec<NameHash>,
    /// Trees that the walk could not read.
    unread: Vec<LogicalPath>,
    /// The directory of the file that was added last.
    last_directory: Option<LogicalPath>,
    /// Trees that were open when it began: it reads them too.
    covered: Vec<LogicalPath>,
    is_given_up: bool,
}

/// A finished filter.
#[derive(Debug)]
struct Built {
    filter: Filter,
    /// Not for others: it tells whether a name that has gone may have been a directory.
    directories: Filter,
    names: u64,
    removed: u64,
    capacity: usize,
}

/// All names of a node.
#[derive(Debug)]
pub(super) struct Names {
    exports: Vec<LogicalPath>,
    /// Trees whose names change without a door: they are asked for always.
    unfiltered: Vec<LogicalPath>,
    built: Option<Built>,
    build: Option<Build>,
    /// Trees whose names are missing in the finished filter.
    open: Vec<LogicalPath>,
    sequence: u64,
    /// An unknown name has gone: what it contained may have gone too.
    has_lost_unknown: bool,
}

impl Names {
    /// Nothing is known yet: the node is asked about everything. `start` is a random number.
    pub(super) fn new(exports: Vec<LogicalPath>, unfiltered: Vec<LogicalPath>, start: u32) -> Self {
        Self {
            exports,
            unfiltered,
            built: None,
            build: None,
            open: Vec::new(),
            // Differs from the start of the previous process, whose numbers redirectors remember.
            sequence: u64::from(start) << 32,
            has_lost_unknown: false,
        }
    }

    /// What redirectors learn.
    pub(super) fn facts(&self) -> NamesFacts {
        let paths = |list: &[LogicalPath]| list.iter().map(|path| path.as_str().to_owned()).collect();
        let Some(built) = &self.built else {
            return NamesFacts {
                sequence: self.sequence,
                open: paths(&bounded(self.exports.clone())),
                ..NamesFacts::default()
            };
        };
        NamesFacts {
            generation: format!("{:x}", built.filter.generation().0),
            sequence: self.sequence,
            blocks: u32::try_from(built.filter.block_count()).unwrap_or(u32::MAX),
            count: built.names.saturating_sub(built.removed),
            open: paths(&bounded([&self.unfiltered[..], &self.open[..]].concat())),
        }
    }

    /// Whether this node exports the name.
    pub(super) fn is_exported(&self, path: &LogicalPath) -> bool {
        self.exports.iter().any(|export| path.is_within(export))
    }

    /// A name has changed, and this is there now. `is_filled` says that it is a directory with
    /// something in it, which came by a rename.
    pub(super) fn changed(&mut self, path: &LogicalPath, now: &Says, is_filled: bool, out: &mut Vec<NameChange>) {
        match now {
            Says::File { .. } => {
                self.add(path, false);
                out.push(NameChange::File(path.clone()));
            }
            Says::Directory => {
                self.add(path, true);
                out.push(NameChange::Directory(path.clone()));
                if is_filled {
                    self.open_tree(path);
                    out.push(NameChange::Open(path.clone()));
                }
            }
            Says::Nothing | Says::Excluded => out.push(self.lost(path)),
            // Whatever it is: the node is asked about it.
            Says::Failed(_) | Says::Refused(_) => {
                self.add(path, true);
                out.push(NameChange::Directory(path.clone()));
            }
        }
    }

    fn lost(&mut self, path: &LogicalPath) -> NameChange {
        let Some(built) = &mut self.built else {
            self.has_lost_unknown = true;
            return NameChange::Gone(path.clone());
        };
        let was_directory = built.directories.may_contain(built.filter.generation().hash(path));
        built.removed += if was_directory { REMOVED_TREE_NAMES } else { 1 };
        if was_directory || self.open.iter().any(|tree| path.is_within(tree)) {
            return NameChange::GoneTree(path.clone());
        }
        NameChange::Gone(path.clone())
    }

    /// Whether names have gone that may have been directories, since this was asked last.
    pub(super) fn take_lost_unknown(&mut self) -> bool {
        std::mem::take(&mut self.has_lost_unknown)
    }

    /// Adds a name that has come, with the directories above it: an upload makes those that are
    /// missing, without a notice for each.
    fn add(&mut self, path: &LogicalPath, is_directory: bool) {
        let above: Vec<LogicalPath> = above(path).filter(|directory| self.is_exported(directory)).collect();
        if let Some(built) = &mut self.built {
            built.add(path, is_directory);
            for directory in &above {
                if !built.filter.may_contain(built.filter.generation().hash(directory)) {
                    built.add(directory, true);
                }
            }
        }
        if let Some(build) = &mut self.build {
            build.add(path, is_directory);
            if build.last_directory.as_ref() != above.first() {
                above.iter().for_each(|directory| build.add(directory, true));
                build.last_directory = above.into_iter().next();
            }
        }
    }

    /// The number of the next message of changes.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// The generation of the filter; 0 without one.
    pub(super) fn generation(&self) -> Generation {
        self.built
            .as_ref()
            .map_or_else(Generation::default, |built| built.filter.generation())
    }

    /// Changes were missed: the filter is not complete any more.
    pub(super) fn missed(&mut self) {
        self.built = None;
        self.build = None;
        self.open.clear();
    }

    /// A piece of the filter. Of another generation than the wanted one, or of none, it is empty.
    pub(super) fn piece(&self, id: u64, wanted: Generation, piece: u32) -> Piece {
        let blocks = PIECE_BYTES / BLOCK_BYTES;
        let filter = self.built.as_ref().map(|built| &built.filter);
        let found = filter.filter(|filter| filter.generation() == wanted);
        Piece {
            id,
            generation: self.generation(),
            sequence: self.sequence,
            piece,
            blocks: found.map_or(0, |filter| u32::try_from(filter.block_count()).unwrap_or(u32::MAX)),
            data: found.map_or_else(Vec::new, |filter| filter.piece(piece as usize * blocks, blocks)),
        }
    }

    /// A walk through all exports begins. Names that change meanwhile are counted in.
    pub(super) fn begin_build(&mut self, generation: Generation) {
        self.build = Some(Build {
            generation,
            names: Vec::new(),
            directories: Vec::new(),
            unread: Vec::new(),
            last_directory: None,
            covered: self.open.clone(),
            is_given_up: false,
        });
    }

    /// The walk has found a name. Answers whether it goes on.
    pub(super) fn found(&mut self, path: &LogicalPath, is_directory: bool) -> bool {
        let Some(build) = &mut self.build else { return false };
        build.add(path, is_directory);
        !build.is_given_up
    }

    /// The walk cannot read a tree, or it is reached over a link: the node is asked about all names
    /// in it.
    pub(super) fn unread(&mut self, path: LogicalPath) {
        if let Some(build) = &mut self.build {
            build.unread.push(path);
            build.unread = bounded(std::mem::take(&mut build.unread));
        }
    }

    /// The walk has read everything. Answers whether there is a new filter now.
    pub(super) fn finish_build(&mut self) -> bool {
        let Some(build) = self.build.take().filter(|build| !build.is_given_up) else {
            return false;
        };
        let made = |names: &[NameHash]| {
            let mut filter = Filter::for_names(build.generation, names.len());
            names.iter().for_each(|name| filter.add(*name));
            filter
        };
        self.built = Some(Built {
            filter: made(&build.names),
            directories: made(&build.directories),
            names: build.names.len() as u64,
            removed: 0,
            capacity: Filter::capacity_for(build.names.len()),
        });
        // Trees that came meanwhile are still to be read.
        build.covered.iter().for_each(|tree| self.close_tree(tree));
        self.open.extend(build.unread);
        self.open = bounded(std::mem::take(&mut self.open));
        true
    }

    /// Whether the filter is so full, or so old, that another is due.
    pub(super) fn is_worn(&self) -> bool {
        self.built.as_ref().is_some_and(|built| {
            let is_full = built.names > built.capacity as u64;
            is_full || built.removed as f64 > built.capacity as f64 * REMOVED_SHARE
        })
    }

    /// Whether there are more names than a filter may have.
    pub(super) fn are_too_many(&self) -> bool {
        self.build.as_ref().is_some_and(|build| build.is_given_up)
    }

    fn open_tree(&mut self, path: &LogicalPath) {
        self.open.push(path.clone());
        self.open = bounded(std::mem::take(&mut self.open));
    }

    /// Names in a tree that came by a rename: redirectors get their hashes. `None` if the filter
    /// is another than that of `generation`.
    pub(super) fn found_in_tree(
        &mut self,
        generation: Generation,
        path: &LogicalPath,
        is_directory: bool,
    ) -> Option<NameHash> {
        if self.generation() != generation {
            return None;
        }
        self.add(path, is_directory);
        Some(generation.hash(path))
    }

    /// All names of a tree are in the filter now.
    pub(super) fn close_tree(&mut self, path: &LogicalPath) {
        if let Some(place) = self.open.iter().position(|tree| tree == path) {
            self.open.swap_remove(place);
        }
    }
}

impl Built {
    fn add(&mut self, path: &LogicalPath, is_directory: bool) {
        let name = self.filter.generation().hash(path);
        self.filter.add(name);
        self.names += 1;
        if is_directory {
            self.directories.add(name);
        }
    }
}

impl Build {
    fn add(&mut self, path: &LogicalPath, is_directory: bool) {
        if self.names.len() >= FILTER_NAMES_MAX {
            self.is_given_up = true;
            self.names = Vec::new();
            self.directories = Vec::new();
        }
        if self.is_given_up {
            return;
        }
        let name = self.generation.hash(path);
        self.names.push(name);
        if is_directory {
            self.directories.push(name);
        }
    }
}

/// Too many trees become one, the root.
fn bounded(trees: Vec<LogicalPath>) -> Vec<LogicalPath> {
    match trees.len() > OPEN_TREES_MAX {
        true => vec![LogicalPath::root()],
        false => trees,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::path;

    const FILE: Says = Says::File { size_bytes: None };

    fn built(names: &[&str]) -> Names {
        let mut all = Names::new(vec![path("/d")], Vec::new(), 1);
        all.begin_build(Generation(5));
        for name in names {
            assert!(all.found(&path(name), name.ends_with("dir")));
        }
        assert!(all.finish_build());
        all
    }

    fn after(names: &mut Names, name: &str, now: &Says, is_filled: bool) -> Vec<NameChange> {
        let mut out = Vec::new();
        names.changed(&path(name), now, is_filled, &mut out);
        out
    }

    #[test]
    fn until_the_first_walk_ends_everything_is_asked_for() {
        let mut names = Names::new(vec![path("/d")], Vec::new(), 1);
        assert_eq!(names.facts().open, ["/d"]);
        assert_eq!(names.facts().build(), None);
        names.begin_build(Generation(5));
        // A name that comes during the walk, behind it.
        after(&mut names, "/d/new", &FILE, false);
        assert_eq!(
            after(&mut names, "/d/x", &Says::Nothing, false),
            [NameChange::Gone(path("/d/x"))]
        );
        assert!(names.take_lost_unknown() && !names.take_lost_unknown());
        assert!(names.finish_build());
        let facts = names.facts();
        assert_eq!((facts.build(), facts.open.len()), (Some(Generation(5)), 0));
        let filter = &names.built.as_ref().unwrap().filter;
        assert!(filter.may_contain(Generation(5).hash(&path("/d/new"))));
        assert!(!filter.may_contain(Generation(5).hash(&path("/d/other"))));
    }

    #[test]
    fn directories_come_with_the_first_file_in_them() {
        let has = |names: &Names, name: &str| {
            let filter = &names.built.as_ref().unwrap().filter;
            filter.may_contain(filter.generation().hash(&path(name)))
        };
        let mut names = built(&["/d/file"]);
        after(&mut names, "/d/new/sub/file", &FILE, false);
        names.begin_build(Generation(6));
        after(&mut names, "/d/later/sub/file", &FILE, false);
        assert!(has(&names, "/d/new") && has(&names, "/d/new/sub") && has(&names, "/d/later"));
        assert!(!has(&names, "/"), "it is not exported");
        // With all that they contain.
        let gone = after(&mut names, "/d/new", &Says::Nothing, false);
        assert_eq!(gone, [NameChange::GoneTree(path("/d/new"))]);
        assert!(names.finish_build());
        assert!(has(&names, "/d/later/sub") && has(&names, "/d/later/sub/file"));
    }

    #[test]
    fn a_directory_that_goes_takes_all_in_it_along() {
        let mut names = built(&["/d/dir", "/d/file"]);
        let gone = after(&mut names, "/d/dir", &Says::Nothing, false);
        assert_eq!(gone, [NameChange::GoneTree(path("/d/dir"))]);
        let gone = after(&mut names, "/d/file", &Says::Nothing, false);
        assert_eq!(gone, [NameChange::Gone(path("/d/file"))]);
        assert!(!names.take_lost_unknown());
    }

    #[test]
    fn a_tree_that_comes_is_open_until_it_is_read() {
        let mut names = built(&["/d/file"]);
        let came = after(&mut names, "/d/tree", &Says::Directory, true);
        assert_eq!(
            came,
            [
                NameChange::Directory(path("/d/tree")),
                NameChange::Open(path("/d/tree"))
            ]
        );
        assert_eq!(names.facts().open, ["/d/tree"]);
        let inner = path("/d/tree/a");
        let hash = names.found_in_tree(Generation(5), &inner, false);
        assert_eq!(hash, Some(Generation(5).hash(&inner)));
        assert_eq!(names.found_in_tree(Generation(6), &inner, false), None);
        names.close_tree(&path("/d/tree"));
        assert!(names.facts().open.is_empty());
        // An empty one needs no reading.
        assert_eq!(after(&mut names, "/d/new", &Says::Directory, false).len(), 1);
        assert!(names.facts().open.is_empty());
    }

    #[test]
    fn many_additions_or_removals_wear_a_filter_out() {
        let mut names = built(&["/d/file"]);
        assert!(!names.is_worn());
        let capacity = Filter::capacity_for(1);
        for number in 0..=capacity / 4 {
            after(&mut names, &format!("/d/{number}"), &Says::Nothing, false);
        }
        assert!(names.is_worn());
        let mut names = built(&["/d/file"]);
        for number in 0..=capacity {
            after(&mut names, &format!("/d/{number}"), &FILE, false);
        }
        assert!(names.is_worn());
    }

    #[test]
    fn trees_that_others_write_to_stay_open_and_many_become_one() {
        let mut names = Names::new(vec![path("/d")], vec![path("/d/foreign")], 1);
        names.begin_build(Generation(5));
        assert!(names.finish_build());
        assert_eq!(names.facts().open, ["/d/foreign"]);
        for number in 0..=OPEN_TREES_MAX {
            after(&mut names, &format!("/d/{number}"), &Says::Directory, true);
        }
        assert!(names.facts().open.contains(&"/".to_owned()));
        assert!(names.facts().open.len() <= OPEN_TREES_MAX);
    }

    #[test]
    fn a_piece_of_another_generation_is_empty() {
        let names = built(&["/d/file"]);
        let piece = names.piece(9, Generation(5), 0);
        assert!(piece.blocks > 0 && piece.data.len() == piece.blocks as usize * BLOCK_BYTES);
        assert_eq!((piece.id, piece.sequence), (9, 1 << 32));
        let other = names.piece(9, Generation(6), 0);
        assert_eq!(
            (other.generation, other.blocks, other.data.len()),
            (Generation(5), 0, 0)
        );
    }
}
