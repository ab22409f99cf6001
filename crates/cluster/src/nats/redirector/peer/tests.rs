//! Tests of what a redirector knows of one node.

use super::*;
use crate::nats::announcement::NamesFacts;
use crate::nats::filter::NameHash;
use crate::nats::limits::{CHANGES_MAX, FILTER_NAMES_MIN};
use crate::testing::path;

const GENERATION: Generation = Generation(5);

/// A node with a filter of these names, whose last change was number 10.
fn filter(names: &[&str]) -> Filter {
    // Two pieces.
    let mut filter = Filter::of_blocks(GENERATION, PIECE_BYTES / BLOCK_BYTES + 3);
    names.iter().for_each(|name| filter.add(GENERATION.hash(&path(name))));
    filter
}

fn announcement(filter: &Filter, sequence: u64, open: &[&str]) -> Announcement {
    Announcement {
        exports: vec!["/d".to_owned()],
        names: NamesFacts {
            generation: format!("{:x}", filter.generation().0),
            sequence,
            blocks: filter.block_count() as u32,
            count: 1,
            open: open.iter().map(|&tree| tree.to_owned()).collect(),
        },
        ..Announcement::default()
    }
}

fn piece(filter: &Filter, wanted: Wanted, sequence: u64) -> Piece {
    let blocks = PIECE_BYTES / BLOCK_BYTES;
    Piece {
        id: wanted.id,
        generation: filter.generation(),
        sequence,
        piece: wanted.piece,
        blocks: filter.block_count() as u32,
        data: filter.piece(wanted.piece as usize * blocks, blocks),
    }
}

fn changes(sequence: u64, list: Vec<NameChange>) -> Changes {
    Changes {
        generation: GENERATION,
        sequence,
        list,
    }
}

/// A peer with a whole copy.
fn peer(filter: &Filter, open: &[&str]) -> Peer {
    let mut peer = Peer::default();
    assert!(!peer.announced(announcement(filter, 10, open)));
    fetch(&mut peer, filter, 10);
    peer
}

fn fetch(peer: &mut Peer, filter: &Filter, sequence: u64) {
    assert_eq!(peer.wants_copy(), Some(filter.bytes()));
    let mut wanted = peer.begin_fetch(7);
    while let Some(next) = wanted {
        assert!(peer.is_fetching());
        wanted = peer.received(&piece(filter, next, sequence));
    }
    assert!(peer.has_copy() && !peer.is_fetching());
}

#[test]
fn a_whole_copy_knows_which_names_are_absent() {
    let filter = filter(&["/d/a"]);
    let mut before = Peer::default();
    assert_eq!(before.may_have(&path("/d/a")), May::Unknown);
    assert_eq!(before.wants_copy(), None);
    before.announced(announcement(&filter, 10, &[]));
    assert_eq!(before.may_have(&path("/d/b")), May::Unknown);
    let peer = peer(&filter, &["/d/open"]);
    assert_eq!(peer.may_have(&path("/d/a")), May::Maybe);
    assert_eq!(peer.may_have(&path("/d/b")), May::No);
    assert_eq!(peer.may_have(&path("/d/open/b")), May::Maybe);
    assert_eq!(peer.wants_copy(), None);
}

#[test]
fn changes_are_followed_and_a_gap_makes_the_copy_useless() {
    let filter = filter(&[]);
    let mut peer = peer(&filter, &[]);
    let file = |name: &str| NameChange::File(path(name));
    assert!(
        peer.changed(&changes(11, vec![file("/d/a"), NameChange::Open(path("/d/t"))]))
            .is_some()
    );
    assert_eq!(peer.may_have(&path("/d/a")), May::Maybe);
    assert_eq!(peer.may_have(&path("/d/t/x")), May::Maybe);
    let hash = GENERATION.hash(&path("/d/h"));
    assert!(peer.changed(&changes(12, vec![NameChange::Name(hash)])).is_some());
    assert_eq!(peer.may_have(&path("/d/h")), May::Maybe);
    // Number 13 is missing.
    assert!(peer.changed(&changes(14, vec![file("/d/c")])).is_none());
    assert_eq!(peer.may_have(&path("/d/b")), May::Unknown);
    assert_eq!(peer.counts.gaps, 1);
    // The copy is fetched again when the node has announced itself.
    assert!(!peer.announced(announcement(&filter, 14, &[])));
    assert_eq!(peer.wants_copy(), None);
    peer.pass(FETCH_PAUSE_MS);
    fetch(&mut peer, &filter, 14);
}

#[test]
fn an_announcement_shows_what_was_missed() {
    let filter = filter(&[]);
    let mut peer = peer(&filter, &[]);
    assert!(!peer.announced(announcement(&filter, 10, &[])));
    assert!(peer.announced(announcement(&filter, 11, &[])));
    assert_eq!(peer.may_have(&path("/d/b")), May::Unknown);
    let list = vec![NameChange::Missed];
    assert!(peer.changed(&changes(12, list)).is_none());
}

#[test]
fn what_changes_during_a_fetch_is_in_the_copy() {
    let before = filter(&[]);
    let mut peer = Peer::default();
    peer.announced(announcement(&before, 10, &[]));
    let first = peer.begin_fetch(7).unwrap();
    assert!(
        peer.changed(&changes(11, vec![NameChange::File(path("/d/a"))]))
            .is_some()
    );
    let second = peer.received(&piece(&before, first, 10)).unwrap();
    assert!(
        peer.changed(&changes(12, vec![NameChange::File(path("/d/b"))]))
            .is_some()
    );
    assert_eq!(peer.received(&piece(&before, second, 10)), None);
    for name in ["/d/a", "/d/b"] {
        assert_eq!(peer.may_have(&path(name)), May::Maybe, "{name}");
    }
    assert_eq!(peer.may_have(&path("/d/c")), May::No);
}

#[test]
fn pieces_that_do_not_belong_together_end_a_fetch() {
    let filter = filter(&[]);
    let spoil: [fn(&mut Piece); 4] = [
        |piece| piece.generation = Generation(6),
        |piece| piece.blocks += 1,
        |piece| piece.data.truncate(BLOCK_BYTES),
        |piece| piece.sequence = 9,
    ];
    for spoil in spoil {
        let mut peer = Peer::default();
        peer.announced(announcement(&filter, 10, &[]));
        let wanted = peer.begin_fetch(7).unwrap();
        let mut bad = piece(&filter, wanted, 10);
        spoil(&mut bad);
        assert_eq!(peer.received(&bad), None);
        assert!(!peer.is_fetching() && !peer.has_copy());
        assert_eq!(peer.wants_copy(), None);
        peer.pass(FETCH_PAUSE_MS);
        assert!(peer.wants_copy().is_some());
    }
    // Those of another fetch are not heard.
    let mut peer = Peer::default();
    peer.announced(announcement(&filter, 10, &[]));
    let wanted = peer.begin_fetch(7).unwrap();
    let mut other = piece(&filter, wanted, 10);
    other.id += 1;
    assert_eq!(peer.received(&other), None);
    assert!(peer.is_fetching());
    peer.pass(PIECE_TIME_MS + 1);
    assert!(!peer.is_fetching());
}

#[test]
fn an_old_copy_serves_until_the_new_filter_is_there() {
    let old = filter(&["/d/a"]);
    let mut peer = peer(&old, &["/d/t"]);
    let mut new = Filter::for_names(Generation(6), FILTER_NAMES_MIN);
    new.add(Generation(6).hash(&path("/d/new")));
    // The new one has all of the open tree; the old one still lacks it.
    peer.announced(announcement(&new, 10, &[]));
    assert_eq!(peer.may_have(&path("/d/t/x")), May::Maybe);
    assert_eq!(peer.may_have(&path("/d/b")), May::No);
    assert!(
        peer.changed(&changes(11, vec![NameChange::Name(NameHash(1))]))
            .is_some()
    );
    peer.pass(FETCH_PAUSE_MS);
    peer.announced(announcement(&new, 11, &[]));
    fetch(&mut peer, &new, 11);
    assert_eq!(peer.may_have(&path("/d/t/x")), May::No);
    assert_eq!(peer.may_have(&path("/d/new")), May::Maybe);
}

#[test]
fn doubt_lasts_until_an_announcement_shows_that_nothing_was_missed() {
    let filter = filter(&[]);
    let mut peer = peer(&filter, &[]);
    peer.doubt();
    assert_eq!(peer.may_have(&path("/d/b")), May::Unknown);
    assert_eq!(peer.wants_copy(), None);
    assert!(!peer.announced(announcement(&filter, 10, &[])));
    assert_eq!(peer.may_have(&path("/d/b")), May::No);
}

#[test]
fn a_silent_node_is_lost_and_an_absent_one_is_not_lost_again() {
    let filter = filter(&[]);
    let mut peer = peer(&filter, &[]);
    assert!(!peer.pass(SILENCE_MS - 1));
    peer.announced(announcement(&filter, 10, &[]));
    assert!(!peer.pass(SILENCE_MS - 1));
    assert!(peer.pass(1));
    peer.lost();
    assert!(!peer.pass(10 * SILENCE_MS));
    let mut unheard = Peer::default();
    assert!(!unheard.pass(SILENCE_MS - 1) && unheard.pass(1));
    assert_eq!((peer.may_have(&path("/d/b")), peer.bytes()), (May::Unknown, 0));
}

#[test]
fn a_node_whose_announcement_is_overdue_is_asked() {
    let filter = filter(&["/d/a"]);
    let mut peer = peer(&filter, &[]);
    let absent = path("/d/absent");
    peer.pass(OVERDUE_MS - 1);
    assert_eq!(peer.may_have(&absent), May::No);
    peer.pass(1);
    assert_eq!(peer.may_have(&absent), May::Unknown);
    peer.announced(announcement(&filter, 10, &[]));
    assert_eq!(peer.may_have(&absent), May::No);
}

#[test]
fn floods_are_not_read() {
    let filter = filter(&[]);
    let names = |count: usize| {
        let name = NameChange::Name(GENERATION.hash(&path("/d/h")));
        changes(11, vec![name; count]).encode()
    };
    // Many messages with few names, and few with many.
    for count in [1, CHANGES_MAX] {
        let mut peer = peer(&filter, &[]);
        let bytes = names(count);
        let fitting = (CHANGES_A_SECOND as usize).min(NAMES_A_SECOND / count);
        let read = (0..2 * fitting).filter(|_| peer.read_changes(&bytes).is_some()).count();
        assert_eq!((read, peer.counts.flood), (fitting, fitting as u64));
        // It is asked about every name, and its filter is not fetched.
        assert!(peer.is_flooding() && !peer.has_copy());
        peer.pass(FETCH_PAUSE_MS);
        assert_eq!((peer.wants_copy(), peer.read_changes(&bytes)), (None, None));
        peer.pass(FLOOD_TIME_MS);
        assert!(!peer.is_flooding() && peer.read_changes(&bytes).is_some());
        assert!(peer.announced(announcement(&filter, 99, &[])), "names were missed");
    }
    let mut peer = Peer::default();
    peer.pass(1);
    let read = (0..2 * ANNOUNCEMENTS_A_SECOND)
        .filter(|_| peer.takes_announcement())
        .count();
    assert_eq!(read, ANNOUNCEMENTS_A_SECOND as usize);
}

#[test]
fn foreign_names_have_no_effect() {
    let mut counts = PeerCounts::default();
    let list = vec![
        NameChange::File(path("/d/a")),
        NameChange::File(path("/other")),
        NameChange::GoneTree(path("/d/t")),
        NameChange::Directory(path("/d/u")),
        NameChange::Open(path("/d/u")),
    ];
    let found = effects(
        changes(1, list),
        |path| path.is_within(&crate::testing::path("/d")),
        &mut counts,
    );
    let expected = [
        Effect::Created(path("/d/a")),
        Effect::Removed(path("/d/t")),
        Effect::Forget,
        Effect::Removed(path("/d/u")),
    ];
    assert_eq!(found, expected);
    assert_eq!(counts.foreign, 1);
}
