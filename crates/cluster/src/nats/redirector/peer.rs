//! What a redirector knows of one node: whether it is there, and a copy of its filter.
//!
//! Nothing here waits or reads a clock. The copy contains all changes up to the number that was
//! heard last; a gap makes it useless, because names would count as absent that are there.

use types::LogicalPath;

use super::speakers::Speakers;
use crate::nats::announcement::Announcement;
use crate::nats::filter::{BLOCK_BYTES, Filter, Generation};
use crate::nats::limits::{
    ANNOUNCEMENTS_A_SECOND, CHANGES_A_SECOND, FETCH_PAUSE_MS, FLOOD_TIME_MS, NAMES_A_SECOND, OPEN_TREES_MAX,
    OVERDUE_MS, PIECE_BYTES, PIECE_TIME_MS, SILENCE_MS,
};
use crate::nats::message::{Changes, NameChange, Piece, above};

/// What the director has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The node has this file.
    Created(LogicalPath),
    /// The node does not have this name as a file.
    Removed(LogicalPath),
    /// What is known of the node's names may be wrong.
    Forget,
}

/// Whether a node has a name, by its filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum May {
    /// It does not.
    No,
    /// It may.
    Maybe,
    /// Nothing is known.
    Unknown,
}

/// A whole copy of a filter.
#[derive(Debug)]
struct Copy {
    filter: Filter,
    /// Trees whose names it lacks.
    open: Vec<LogicalPath>,
}

impl Copy {
    fn may_have(&self, path: &LogicalPath) -> bool {
        let is_open = self.open.iter().any(|tree| path.is_within(tree));
        is_open || self.filter.may_contain(self.filter.generation().hash(path))
    }

    fn apply(&mut self, generation: Generation, change: &NameChange) {
        match change {
            NameChange::File(path) | NameChange::Directory(path) => {
                let generation = self.filter.generation();
                self.filter.add(generation.hash(path));
                above(path).for_each(|directory| self.filter.add(generation.hash(&directory)));
            }
            NameChange::Open(path) => {
                self.open.push(path.clone());
                if self.open.len() > OPEN_TREES_MAX {
                    self.open = vec![LogicalPath::root()];
                }
            }
            NameChange::Name(name) if generation == self.filter.generation() => self.filter.add(*name),
            // Of another filter: this one lacks the name, and its tree stays open here, because
            // only announcements of its own generation close trees.
            NameChange::Name(_) | NameChange::Gone(_) | NameChange::GoneTree(_) | NameChange::Missed => {}
        }
    }
}

/// A copy that is being fetched.
#[derive(Debug)]
struct Fetch {
    copy: Copy,
    id: u64,
    next: u32,
    /// The last change before it began.
    began: u64,
    waited_ms: u64,
}

/// A piece to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) id: u64,
    pub(super) generation: Generation,
    pub(super) piece: u32,
}

/// What is counted about a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCounts {
    /// Announcements.
    pub announcements: u64,
    /// Changes of names that have taken effect.
    pub changes: u64,
    /// Messages that could not be understood.
    pub malformed: u64,
    /// Names outside of what the configuration gives to the node.
    pub foreign: u64,
    /// Messages beyond what is read in a second.
    pub flood: u64,
    /// Times that changes were missed.
    pub gaps: u64,
    /// Copies of its filter that were fetched.
    pub fetches: u64,
    /// Questions to it.
    pub questions: u64,
}

/// One node.
#[derive(Debug, Default)]
pub(super) struct Peer {
    pub(super) is_present: bool,
    /// It is known to be away.
    is_away: bool,
    /// Time without a word, in which the bus worked.
    silent_ms: u64,
    pub(super) said: Option<Announcement>,
    exports: Vec<LogicalPath>,
    sequence: Option<u64>,
    copy: Option<Copy>,
    fetch: Option<Fetch>,
    /// Messages may have been missed; the next announcement tells.
    is_doubted: bool,
    pause_ms: u64,
    this_second: Second,
    /// For how long its changes are not noted: it has told too many.
    flood_ms: u64,
    speakers: Speakers,
    pub(super) counts: PeerCounts,
}

/// Messages in the current second.
#[derive(Debug, Default)]
struct Second {
    left_ms: u64,
    announcements: u32,
    changes: u32,
    names: usize,
}

impl Peer {
    /// Whether another announcement may be read in this second.
    pub(super) fn takes_announcement(&mut self) -> bool {
        self.this_second.announcements += 1;
        let takes = self.this_second.announcements <= ANNOUNCEMENTS_A_SECOND;
        self.counts.flood += u64::from(!takes);
        takes
    }

    /// Reads changes; `None` if they are malformed, come from one of two servers, or are too many.
    pub(super) fn read_changes(&mut self, bytes: &[u8]) -> Option<Changes> {
        if self.has_two_speakers() {
            return None;
        }
        self.this_second.changes += 1;
        if self.is_flooding() || self.this_second.changes > CHANGES_A_SECOND {
            self.drop_changes();
            return None;
        }
        let Some(changes) = Changes::decode(bytes) else {
            self.counts.malformed += 1;
            return None;
        };
        self.this_second.names += changes.list.len();
        if self.this_second.names > NAMES_A_SECOND {
            self.drop_changes();
            return None;
        }
        Some(changes)
    }

    /// The next announcement shows the gap.
    fn drop_changes(&mut self) {
        self.counts.flood += 1;
        if !self.is_flooding() {
            self.flood_ms = FLOOD_TIME_MS;
            self.drop_copies();
        }
    }

    /// Whether it has told too many changes, and counts as one that tells none.
    pub(super) fn is_flooding(&self) -> bool {
        self.flood_ms > 0
    }

    /// Whether two servers use its name, so that nothing they say is believed.
    pub(super) fn has_two_speakers(&self) -> bool {
        self.speakers.are_two()
    }

    /// The reason for that.
    pub(super) fn two_speakers(&self, name: &str) -> Option<String> {
        self.has_two_speakers().then(|| self.speakers.reason(name))
    }

    /// It has announced itself. Answers whether what is known of its names may be wrong.
    pub(super) fn announced(&mut self, said: Announcement) -> bool {
        self.counts.announcements += 1;
        self.speakers.heard(&said);
        self.silent_ms = 0;
        self.is_present = !said.is_leaving;
        self.is_away = said.is_leaving;
        let is_same = self.sequence == Some(said.names.sequence);
        let has_missed = self.sequence.is_some() && !is_same;
        if !is_same {
            self.counts.gaps += u64::from(has_missed);
            self.drop_copies();
            self.sequence = Some(said.names.sequence);
        }
        self.is_doubted = false;
        let build = said.names.build();
        if build.is_none() {
            self.drop_copies();
        }
        let open = said.names.open_trees();
        let copies = [&mut self.copy].into_iter().flatten();
        let fetched = self.fetch.as_mut().map(|fetch| &mut fetch.copy);
        for copy in copies.chain(fetched) {
            if Some(copy.filter.generation()) == build {
                copy.open.clone_from(&open);
            }
        }
        self.exports = paths(&said.exports);
        self.said = Some(said);
        has_missed
    }

    /// Names changed there. Answers `None` if some changes before these were missed.
    pub(super) fn changed(&mut self, changes: &Changes) -> Option<()> {
        let is_next = self
            .sequence
            .is_none_or(|last| changes.sequence == last.wrapping_add(1));
        let is_known = self.sequence.is_some();
        self.sequence = Some(changes.sequence);
        if !is_next || !is_known || changes.list.contains(&NameChange::Missed) {
            self.counts.gaps += u64::from(is_known);
            self.drop_copies();
            return None;
        }
        let copies = [&mut self.copy].into_iter().flatten();
        let fetched = self.fetch.as_mut().map(|fetch| &mut fetch.copy);
        for copy in copies.chain(fetched) {
            let apply = |change| copy.apply(changes.generation, change);
            changes.list.iter().for_each(apply);
        }
        Some(())
    }

    fn drop_copies(&mut self) {
        self.copy = None;
        self.fetch = None;
    }

    /// It is not there any more.
    pub(super) fn lost(&mut self) {
        self.is_present = false;
        self.is_away = true;
        self.silent_ms = 0;
        self.sequence = None;
        self.drop_copies();
    }

    /// The bus was away, or messages were lost.
    pub(super) fn doubt(&mut self) {
        self.is_doubted = true;
        self.silent_ms = 0;
        self.fetch = None;
    }

    /// Whether it may have a name. One whose announcement is overdue may be cut off, with news that
    /// have not come: it is asked.
    pub(super) fn may_have(&self, path: &LogicalPath) -> May {
        match &self.copy {
            Some(copy) if !self.is_doubted && self.silent_ms < OVERDUE_MS => match copy.may_have(path) {
                true => May::Maybe,
                false => May::No,
            },
            _ => May::Unknown,
        }
    }

    /// The trees that it exports.
    pub(super) fn exports(&self) -> &[LogicalPath] {
        &self.exports
    }

    /// The tree of its own exports in which a name is.
    pub(super) fn export_of(&self, path: &LogicalPath) -> Option<&LogicalPath> {
        self.exports.iter().find(|export| path.is_within(export))
    }

    /// Time passes in which the bus works. Answers whether the node is lost now.
    pub(super) fn pass(&mut self, time_ms: u64) -> bool {
        self.pass_second(time_ms);
        self.pause_ms = self.pause_ms.saturating_sub(time_ms);
        self.flood_ms = self.flood_ms.saturating_sub(time_ms);
        self.speakers.pass(time_ms);
        if let Some(fetch) = &mut self.fetch {
            fetch.waited_ms += time_ms;
            if fetch.waited_ms > PIECE_TIME_MS {
                self.give_up_fetch();
            }
        }
        self.silent_ms += time_ms;
        // One that never said a word is lost in the same time.
        !self.is_away && self.silent_ms >= SILENCE_MS
    }

    fn pass_second(&mut self, time_ms: u64) {
        let second = &mut self.this_second;
        second.left_ms = second.left_ms.saturating_sub(time_ms);
        if second.left_ms == 0 {
            *second = Second {
                left_ms: 1_000,
                ..Second::default()
            };
        }
    }

    fn give_up_fetch(&mut self) {
        self.fetch = None;
        self.pause_ms = FETCH_PAUSE_MS;
    }

    /// Whether its filter is being fetched.
    pub(super) fn is_fetching(&self) -> bool {
        self.fetch.is_some()
    }

    /// Bytes of its copies.
    pub(super) fn bytes(&self) -> usize {
        let fetched = self.fetch.as_ref().map(|fetch| &fetch.copy);
        let copies = self.copy.iter().chain(fetched);
        copies.map(|copy| copy.filter.bytes()).sum()
    }

    /// Whether a whole copy is in use.
    pub(super) fn has_copy(&self) -> bool {
        self.copy.is_some() && !self.is_doubted
    }

    /// Bytes of the copy that should be fetched now, if any.
    pub(super) fn wants_copy(&self) -> Option<usize> {
        let may_ask = self.fetch.is_none() && self.pause_ms == 0 && !self.is_flooding();
        let is_ready = self.is_present && !self.is_doubted && may_ask;
        let names = &self.said.as_ref().filter(|_| is_ready)?.names;
        let build = names.build()?;
        let has_it = self.copy.as_ref().is_some_and(|copy| copy.filter.generation() == build);
        (!has_it).then_some(names.blocks as usize * BLOCK_BYTES)
    }

    /// Begins to fetch its filter.
    pub(super) fn begin_fetch(&mut self, id: u64) -> Option<Wanted> {
        let names = &self.said.as_ref()?.names;
        let generation = names.build()?;
        self.fetch = Some(Fetch {
            copy: Copy {
                filter: Filter::of_blocks(generation, names.blocks as usize),
                open: names.open_trees(),
            },
            id,
            next: 0,
            began: self.sequence?,
            waited_ms: 0,
        });
        Some(Wanted {
            id,
            generation,
            piece: 0,
        })
    }

    /// A piece has come. Answers the next one to ask for.
    pub(super) fn received(&mut self, piece: &Piece) -> Option<Wanted> {
        let fetch = self
            .fetch
            .as_mut()
            .filter(|fetch| fetch.id == piece.id && fetch.next == piece.piece)?;
        let filter = &mut fetch.copy.filter;
        let first = piece.piece as usize * (PIECE_BYTES / BLOCK_BYTES);
        let is_sound = piece.generation == filter.generation()
            && piece.blocks as usize == filter.block_count()
            && piece.data.len() == PIECE_BYTES.min((filter.block_count() - first) * BLOCK_BYTES)
            // What changed since then was added here; what changed before is in it.
            && piece.sequence.wrapping_sub(fetch.began) < u64::MAX / 2;
        if !is_sound || !filter.merge(first, &piece.data) {
            self.give_up_fetch();
            return None;
        }
        fetch.waited_ms = 0;
        fetch.next += 1;
        if first * BLOCK_BYTES + PIECE_BYTES >= filter.bytes() {
            self.copy = self.fetch.take().map(|fetch| fetch.copy);
            self.counts.fetches += 1;
            // A node that always has a new filter must not keep us busy.
            self.pause_ms = FETCH_PAUSE_MS;
            return None;
        }
        Some(Wanted {
            id: fetch.id,
            generation: filter.generation(),
            piece: fetch.next,
        })
    }
}

/// What changes mean for the director; foreign names are left out and counted.
pub(super) fn effects(
    changes: Changes,
    may_hold: impl Fn(&LogicalPath) -> bool,
    counts: &mut PeerCounts,
) -> Vec<Effect> {
    let mut effects = Vec::with_capacity(changes.list.len());
    for change in changes.list {
        let is_tree = matches!(change, NameChange::GoneTree(_));
        let (path, is_file) = match change {
            NameChange::File(path) => (path, true),
            NameChange::Directory(path) | NameChange::Gone(path) | NameChange::GoneTree(path) => (path, false),
            NameChange::Open(_) | NameChange::Name(_) | NameChange::Missed => continue,
        };
        if !may_hold(&path) {
            counts.foreign += 1;
            continue;
        }
        effects.push(match is_file {
            true => Effect::Created(path),
            false => Effect::Removed(path),
        });
        if is_tree && effects.last() != Some(&Effect::Forget) {
            effects.push(Effect::Forget);
        }
    }
    effects
}

fn paths(texts: &[String]) -> Vec<LogicalPath> {
    texts.iter().filter_map(|text| LogicalPath::parse(text).ok()).collect()
}

#[cfg(test)]
mod tests;
