//! The operations of a round: each kind as often as the table says, in an order that chance gives,
//! by several clients at once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::site::Site;
use super::{copies, http, programs, root};
use crate::dice::Dice;
use crate::ledger::{self, Named};

/// Clients at the same time.
const CLIENTS: usize = 4;

/// How an operation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// It is done.
    Done,
    /// The server refuses it, or says that it failed.
    Refused,
    /// The client goes away, or is turned away.
    Left,
    /// It ended otherwise than it ought to.
    Unexpected,
}

/// In the order of the table.
pub(crate) const OUTCOMES: [Outcome; 4] = [Outcome::Done, Outcome::Refused, Outcome::Left, Outcome::Unexpected];

impl Named for Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Left => "broken off",
            Self::Unexpected => "UNEXPECTED",
        }
    }
}

/// The name of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name(&'static str);

impl Named for Name {
    fn name(self) -> &'static str {
        self.0
    }
}

pub(crate) type Ledger = ledger::Ledger<Name, Outcome>;

/// A kind of operation; it panics when something else comes of it.
struct Kind {
    name: &'static str,
    /// How often it is done in a round.
    count: usize,
    outcome: Outcome,
    play: fn(&Site, &mut Dice),
}

const fn kind(name: &'static str, count: usize, outcome: Outcome, play: fn(&Site, &mut Dice)) -> Kind {
    Kind {
        name,
        count,
        outcome,
        play,
    }
}

use Outcome::{Done, Left, Refused};

/// Small ones often; those that start a program seldom, because that takes most of the time.
const KINDS: [Kind; 41] = [
    kind("http: GET, anonymous", 12, Done, http::get),
    kind("http: PUT, anonymous", 8, Done, http::put),
    kind("http: ranges", 4, Done, http::ranges),
    kind("http: listings", 4, Done, http::list),
    kind("http: MKCOL to DELETE", 4, Done, http::tree),
    kind("http: LOCK to UNLOCK", 4, Done, http::lock),
    kind("http: GET and PUT, token", 6, Done, http::with_token),
    kind("http: GET, macaroon", 4, Done, http::with_macaroon),
    kind("http: GET and PUT, proxy", 6, Done, http::with_proxy),
    kind("http: macaroon for a proxy", 2, Done, http::macaroon),
    kind("http: without the right", 6, Refused, http::refused),
    kind("http: bad token", 4, Refused, http::bad_token),
    kind("http: bad proxy", 4, Refused, http::bad_proxy),
    kind("http: wrong checksum", 4, Refused, http::wrong_checksum),
    kind("http: bad delegation", 2, Refused, http::bad_delegation),
    kind("http: client leaves upload", 4, Left, http::left_upload),
    kind("http: client leaves download", 4, Left, http::left_download),
    kind("http: handshake fails", 4, Left, http::bad_handshake),
    kind("http: garbage", 4, Left, http::garbage),
    kind("root: reads, anonymous", 12, Done, root::read),
    kind("root: writes, anonymous", 8, Done, root::write),
    kind("root: listings", 4, Done, root::list),
    kind("root: mkdir to rmdir", 4, Done, root::tree),
    kind("root: reads, token", 8, Done, root::with_token),
    kind("root: without the right", 4, Refused, root::refused),
    kind("root: login fails", 6, Refused, root::bad_login),
    kind("root: client leaves", 4, Left, root::left),
    kind("root: garbage", 4, Left, root::garbage),
    kind("copy: pull", 4, Done, copies::pull),
    kind("copy: pull from root://", 2, Done, copies::pull_from_root),
    kind("copy: push", 4, Done, copies::push),
    kind("copy: pull, cut and resumed", 2, Done, copies::pull_cut),
    kind("copy: pull in vain", 4, Refused, copies::pull_in_vain),
    kind("copy: push in vain", 4, Refused, copies::push_in_vain),
    kind("copy: client leaves", 2, Left, copies::left),
    kind("copy: rendezvous, destination", 4, Done, copies::root_pull),
    kind("copy: rendezvous, source", 4, Done, copies::root_source),
    kind("copy: rendezvous in vain", 4, Refused, copies::root_pull_in_vain),
    kind("copy: client leaves rendezvous", 2, Left, copies::root_left),
    kind("gsi: login", 2, Done, programs::gsi),
    kind("gsi: bad proxy", 1, Refused, programs::bad_gsi),
];

/// Those that only programs of others do, or that delegate: one of each in a round.
const PROGRAMS: [Kind; 6] = [
    kind("gsi: login by xrdfs", 1, Done, programs::gsi_of_xrootd),
    kind("gsi: login with delegation", 1, Done, programs::gsi_delegating),
    kind("copy: delegated over HTTP", 1, Done, programs::delegated),
    kind("copy: TPC Lite", 1, Done, programs::lite),
    kind("root: xrdcp, three streams", 1, Done, programs::streams),
    kind("copy: rendezvous by xrdcp", 1, Done, programs::xrdcp_copy),
];

/// Plays a round, and returns how many operations it had. `SOAK_ONLY` leaves those whose names
/// contain it.
pub(crate) fn round(site: &Site, dice: &mut Dice, ledger: &mut Ledger) -> usize {
    let only = std::env::var("SOAK_ONLY").unwrap_or_default();
    let mut deck: Vec<(&Kind, u64)> = KINDS
        .iter()
        .chain(&PROGRAMS)
        .filter(|kind| kind.name.contains(&only))
        .flat_map(|kind| std::iter::repeat_n(kind, kind.count))
        .map(|kind| (kind, 0))
        .collect();
    for left in (1..deck.len()).rev() {
        deck.swap(left, dice.below(left + 1));
    }
    for card in &mut deck {
        card.1 = dice.next();
    }
    let next = AtomicUsize::new(0);
    let shared = Mutex::new(ledger);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while let Some((kind, seed)) = deck.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let fault = play(site, kind, *seed);
                    let mut ledger = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    let outcome = if fault.is_none() {
                        kind.outcome
                    } else {
                        Outcome::Unexpected
                    };
                    ledger.count(Name(kind.name), outcome);
                    if let Some(fault) = fault {
                        ledger.violation(format!("{}: {fault}", kind.name));
                    }
                }
            });
        }
    });
    deck.len()
}

/// Plays an operation; the words of what was unexpected.
fn play(site: &Site, kind: &Kind, seed: u64) -> Option<String> {
    let mut dice = Dice::new(seed);
    let panic = catch_unwind(AssertUnwindSafe(|| (kind.play)(site, &mut dice))).err()?;
    let words = panic.downcast_ref::<String>().cloned();
    let words = words.or_else(|| panic.downcast_ref::<&str>().map(|words| (*words).to_owned()));
    Some(words.unwrap_or_default())
}
