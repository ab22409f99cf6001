//! Walks a tree on a server or on this machine: depth first, as it is listed, in bounded memory.
//!
//! All entries of a directory come in a row; then each of its directories is entered. Only the
//! names of directories that wait are kept, and many of them in a temporary file. So are the
//! entries of a directory that is sorted; a walk in place keeps those of all directories on the
//! path.
//!
//! Symbolic links of this machine are not followed. A server can list the target of a link as a
//! directory, and neither protocol says so. Therefore a directory that lists the same entries as
//! one above it is a loop, and so is one that is too deep.

mod sorted;
mod waiting;

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;

use storage::local::{Unfit, fault};
use types::{Error, Phase, Result, Side};

use super::place::Place;
use super::session::{ClientContext, Info, Listing};
use crate::limits::{TREE_DEPTH_MAX, WALK_LOOKAHEAD_ENTRIES, WALK_SORTED_HELD_MAX};
use crate::remotes::split;
use sorted::{Sorted, Sorting};
use waiting::{Name, Waiting};

/// The number of equal directories above that makes a loop if they contain only directories. Empty
/// directories that were made together look alike.
const SAME_WITHOUT_FILES: usize = 3;

/// Which of two entries comes first.
pub(crate) type Compare = fn(&Info, &Info) -> Ordering;

/// The order of the entries of a directory.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    /// As they are listed.
    Listed,
    /// Sorted; the directories among them are entered when all have come.
    Sorted(Compare),
    /// Sorted; each directory is entered where it stands.
    InPlace(Compare),
}

/// An entry of the tree, or its top.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Where it is; its directory if its name makes no path.
    pub(crate) place: Place,
    /// Its path below the top; empty for the top.
    pub(crate) relative: String,
    pub(crate) info: Info,
    /// 0 for the top.
    pub(crate) depth: usize,
    /// No entry of its directory follows. Known only of sorted walks.
    pub(crate) is_last: bool,
}

/// What a walk comes to.
#[derive(Debug)]
pub(crate) enum Step {
    /// The top, or an entry of the directory that was entered last. A directory is entered later.
    Entry(Found),
    /// A directory: its entries follow.
    Enter(Found),
    /// All that is below a directory has come.
    Leave(Found),
    /// A directory below which nothing is entered, because it is a loop or too deep.
    Loop(Found),
    /// The directory that was entered last has names that its server does not list, in its words.
    Unlisted(Found, String),
    /// An entry whose name makes no path, with the reason.
    Unnamed(Found, Error),
    /// A directory could not be listed, or not to its end.
    Failed(Found, Error),
}

impl Found {
    /// What to call it for the user, who named the top `text`: its URL, or the path below `text`.
    pub(crate) fn shown(&self, text: &str) -> String {
        match &self.place {
            Place::Remote(location) if text.contains("://") => location.to_string(),
            _ if self.depth == 0 => text.to_owned(),
            Place::Remote(location) => {
                let slash = if text.ends_with([':', '/']) { "" } else { "/" };
                match split(text) {
                    // So it stays in the named remote: other commands then know its credentials.
                    Some(_) => format!("{text}{slash}{}", location.escaped(&self.relative)),
                    // Relative to the directory of a shell, where names are not escaped.
                    None => format!("{text}{slash}{}", self.relative),
                }
            }
            _ => format!("{}/{}", text.trim_end_matches('/'), self.relative),
        }
    }
}

/// A walk under way. Dropping it ends the listings that are on their way.
pub(crate) struct Walk<'a> {
    session: &'a ClientContext,
    side: Side,
    order: Order,
    top: Option<Found>,
    levels: Vec<Level>,
    /// The directory that was the last step, unless the caller skips it.
    last: Option<Found>,
    enters_all: bool,
}

impl<'a> Walk<'a> {
    /// Walks the tree at `place`, whose metadata is `info`. A file is a tree of one entry.
    /// `side` is named in errors.
    pub(crate) fn new(session: &'a ClientContext, place: Place, info: Info, side: Side, order: Order) -> Self {
        let top = Found {
            place,
            relative: String::new(),
            info,
            depth: 0,
            is_last: true,
        };
        Self {
            session,
            side,
            order,
            top: Some(top),
            levels: Vec::new(),
            last: None,
            enters_all: false,
        }
    }

    /// Enters each directory, however deep, and also one that looks like another above it. For a
    /// caller that removes what it comes to: there is no end to miss.
    pub(crate) fn entering_all(self) -> Self {
        Self {
            enters_all: true,
            ..self
        }
    }

    /// Does not enter the directory that was the last step.
    pub(crate) fn skip(&mut self) {
        self.last = None;
    }

    /// The next step; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Step> {
        if let Some(top) = self.top.take() {
            return Some(self.entry(top));
        }
        if let Some(directory) = self.last.take()
            && let Some(step) = self.enter_or_queue(directory).await
        {
            return Some(step);
        }
        let level = self.levels.last_mut()?;
        match level.next_entry().await {
            Ok(Some(info)) => {
                let child = level.child(info);
                return Some(match child {
                    (found, None) => self.entry(found),
                    (found, Some(error)) => Step::Unnamed(found, error),
                });
            }
            Ok(None) => {}
            Err(error) => return Some(Step::Failed(level.found.clone(), error)),
        }
        if let Some(words) = level.unlisted.take() {
            return Some(Step::Unlisted(level.found.clone(), words));
        }
        if std::mem::take(&mut level.is_unchecked) && self.is_loop_at(self.levels.len() - 1) {
            let level = self.levels.last_mut()?;
            level.waiting = Waiting::new();
            return Some(Step::Loop(level.found.clone()));
        }
        self.next_directory().await
    }

    /// A step to an entry.
    fn entry(&mut self, found: Found) -> Step {
        self.last = found.info.is_directory.then(|| found.clone());
        Step::Entry(found)
    }

    async fn enter_or_queue(&mut self, directory: Found) -> Option<Step> {
        let level = match (self.levels.last_mut(), self.order) {
            (Some(level), Order::Listed | Order::Sorted(_)) => level,
            _ => return Some(self.enter(directory).await),
        };
        let name = Name {
            name: directory.info.name.clone(),
            modified_s: directory.info.modified_s,
        };
        let failed = level.waiting.push(&name).err()?;
        Some(Step::Failed(directory, temporary_file(&failed)))
    }

    /// Enters the next directory that waits, or leaves the one that was entered last.
    async fn next_directory(&mut self) -> Option<Step> {
        let level = self.levels.last_mut()?;
        let name = match level.waiting.pop() {
            Ok(Some(name)) => name,
            Ok(None) => {
                let level = self.levels.pop()?;
                return Some(Step::Leave(level.found));
            }
            Err(cause) => {
                level.waiting = Waiting::new();
                return Some(Step::Failed(level.found.clone(), temporary_file(&cause)));
            }
        };
        let info = Info {
            name: name.name,
            is_directory: true,
            modified_s: name.modified_s,
            ..Info::default()
        };
        let (found, _) = level.child(info);
        Some(self.enter(found).await)
    }

    async fn enter(&mut self, found: Found) -> Step {
        if found.depth >= TREE_DEPTH_MAX && !self.enters_all {
            return Step::Loop(found);
        }
        let level = match Level::open(self.session, found.clone(), self.side, self.order).await {
            Ok(level) => level,
            Err(error) => return Step::Failed(found, error),
        };
        let is_unchecked = level.is_unchecked;
        self.levels.push(level);
        if !is_unchecked && self.is_loop_at(self.levels.len() - 1) {
            self.levels.pop();
            return Step::Loop(found);
        }
        Step::Enter(found)
    }

    /// Whether a directory lists the same as one above it. A loop needs a directory in it.
    fn is_loop_at(&self, depth: usize) -> bool {
        let (above, level) = (&self.levels[..depth], &self.levels[depth].content);
        let allowed = if level.has_files { 0 } else { SAME_WITHOUT_FILES - 1 };
        let same = above.iter().filter(|above| above.content.hash == level.hash);
        // Links of this machine are not followed, so only a server can show a loop.
        let can_loop = matches!(self.levels[depth].found.place, Place::Remote(_));
        can_loop && !self.enters_all && level.has_directories && same.count() > allowed
    }
}

/// What a directory lists, to compare it with another one.
#[derive(Default)]
struct Content {
    /// The sum of the entries' hashes, because servers may list the same in another order.
    hash: u64,
    has_files: bool,
    has_directories: bool,
}

impl Content {
    fn add(&mut self, entry: &Info) {
        let mut hasher = DefaultHasher::new();
        let Info {
            name,
            is_directory,
            size_bytes,
            modified_s,
            etag,
            ..
        } = entry;
        (name, is_directory, size_bytes, modified_s, etag).hash(&mut hasher);
        self.hash = self.hash.wrapping_add(hasher.finish());
        self.has_files |= !is_directory;
        self.has_directories |= is_directory;
    }
}

/// A directory on the path from the top.
struct Level {
    found: Found,
    /// The rest of its listing; `None` once all entries have come.
    listing: Option<Listing>,
    /// Entries as they came; none of a sorted directory, after it was read.
    ready: VecDeque<Info>,
    /// The entries of a sorted directory.
    sorted: Option<Sorted>,
    content: Content,
    /// It was entered before all of its listing had come.
    is_unchecked: bool,
    unlisted: Option<String>,
    waiting: Waiting,
}

impl Level {
    /// Begins to list a directory. All of a sorted one is read, and enough of others to see most
    /// loops before they are entered.
    async fn open(session: &ClientContext, found: Found, side: Side, order: Order) -> Result<Self> {
        let listing = session.open_listing(&found.place, side).await?;
        let compare = match order {
            Order::Listed => None,
            Order::Sorted(compare) | Order::InPlace(compare) => Some(compare),
        };
        let mut level = Self {
            found,
            listing: Some(listing),
            ready: VecDeque::new(),
            sorted: None,
            content: Content::default(),
            is_unchecked: false,
            unlisted: None,
            waiting: Waiting::new(),
        };
        match compare {
            Some(compare) => level.sort(compare).await?,
            None => while level.ready.len() < WALK_LOOKAHEAD_ENTRIES && level.receive().await? {},
        }
        level.is_unchecked = level.listing.is_some();
        Ok(level)
    }

    /// Reads the whole listing.
    async fn sort(&mut self, compare: Compare) -> Result<()> {
        let mut sorting = Sorting::new(compare, WALK_SORTED_HELD_MAX);
        let unsorted = |cause: io::Error| temporary_file(&cause);
        while self.receive().await? {
            for info in self.ready.drain(..) {
                sorting.push(info).map_err(unsorted)?;
            }
        }
        self.sorted = Some(sorting.finish().map_err(unsorted)?);
        Ok(())
    }

    /// Receives a batch; `false` when all have come.
    async fn receive(&mut self) -> Result<bool> {
        let Some(mut listing) = self.listing.take() else {
            return Ok(false);
        };
        let Some(batch) = listing.next().await? else {
            return Ok(false);
        };
        self.listing = Some(listing);
        for entry in batch {
            if entry.unfit == Some(Unfit::Unlisted) {
                self.unlisted = Some(entry.name);
                continue;
            }
            self.content.add(&entry);
            self.ready.push_back(entry);
        }
        Ok(true)
    }

    async fn next_entry(&mut self) -> Result<Option<Info>> {
        if let Some(sorted) = &mut self.sorted {
            return sorted.next().map_err(|cause| temporary_file(&cause));
        }
        while self.ready.is_empty() && self.receive().await? {}
        Ok(self.ready.pop_front())
    }

    /// An entry of this directory. If its name makes no path, the place is that of the directory.
    fn child(&self, info: Info) -> (Found, Option<Error>) {
        let above = &self.found;
        let (place, error) = match above.place.child(&info.name) {
            Ok(place) => (place, None),
            Err(error) => (above.place.clone(), Some(error)),
        };
        let separator = if above.relative.is_empty() { "" } else { "/" };
        let found = Found {
            place,
            relative: format!("{}{separator}{}", above.relative, info.name),
            depth: above.depth + 1,
            is_last: self.sorted.as_ref().is_some_and(Sorted::is_empty),
            info,
        };
        (found, error)
    }
}

fn temporary_file(cause: &io::Error) -> Error {
    fault(cause, Phase::Open, "the temporary file of a walk").at_side(Side::Client)
}
