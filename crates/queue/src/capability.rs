//! What each storage has shown that it can do, for each credential: capability records.
//!
//! Services above FTS keep such tables by hand. Here they come from what operators say of a
//! storage, from what a server says of itself, and from what happened; each with its age. The
//! catalog keeps them, so a new process knows them, and processes that share it learn from each
//! other.

mod memory;

pub use memory::KeptCapabilities;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use catalog::ThirdPartyRole;
use remote::Access;
use schedule::storage::canonical;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use transfer::route::{Ability, End, Evidence, Way};
use types::{Error, ErrorCode, Side};

use crate::limits::{CAPABILITIES_MAX, CAPABILITY_AGE_MAX, CAPABILITY_STORED_EVERY};

/// What a storage does with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// It is the source.
    Read,
    /// It is the destination.
    Write,
}

impl Operation {
    /// Whether operators let the storage do it as the active side.
    #[must_use]
    pub fn is_allowed(self, role: ThirdPartyRole) -> bool {
        match self {
            Self::Read => matches!(role, ThirdPartyRole::Full | ThirdPartyRole::Push),
            Self::Write => matches!(role, ThirdPartyRole::Full | ThirdPartyRole::Pull),
        }
    }
}

/// Its part in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// It moves the data.
    Active,
    /// Another one does.
    Passive,
}

/// What it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Credential {
    /// Nothing.
    None,
    /// A certificate, or a proxy of one.
    X509,
    /// A token.
    Token,
    /// A macaroon that it has issued.
    Macaroon,
}

impl Credential {
    /// What is shown to a server that is asked with this access.
    #[must_use]
    pub fn of(access: &Access) -> Self {
        match (&access.bearer, &access.identity) {
            (Some(_), _) => Self::Token,
            (None, Some(_)) => Self::X509,
            (None, None) => Self::None,
        }
    }
}

/// The protocol of the storage on the other side: not every server copies between protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Peer {
    /// HTTP.
    Http,
    /// The XRootD protocol.
    Root,
}

impl Peer {
    fn of(storage: &str) -> Self {
        match canonical(storage).starts_with("root") {
            true => Self::Root,
            false => Self::Http,
        }
    }
}

/// One cell of a storage's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// What it does.
    pub operation: Operation,
    /// Its part in the copy.
    pub part: Part,
    /// With whom.
    pub peer: Peer,
    /// What it was shown.
    pub credential: Credential,
}

/// What is known of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Known {
    /// Whether it can.
    pub can: bool,
    /// How that is known.
    pub evidence: Evidence,
    /// When it was learned, in milliseconds since 1970.
    pub at_ms: i64,
}

impl Known {
    /// What a copy has shown.
    #[must_use]
    pub fn seen(can: bool, at_ms: i64) -> Self {
        let evidence = Evidence::Attempt;
        Self { can, evidence, at_ms }
    }
}

/// A capability as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// Which.
    #[serde(flatten)]
    pub cell: Cell,
    /// What is known of it.
    #[serde(flatten)]
    pub known: Known,
}

/// A storage at its end of a link.
#[derive(Clone, Copy, Debug)]
pub struct LinkSide<'a> {
    /// The storage.
    pub storage: &'a str,
    /// The storage at the other end.
    pub other: &'a str,
    /// What it does there.
    pub operation: Operation,
}

impl LinkSide<'_> {
    /// Its cell as the active side.
    fn active(self, credential: Credential) -> Cell {
        Cell {
            operation: self.operation,
            part: Part::Active,
            peer: Peer::of(self.other),
            credential,
        }
    }
}

/// How a copy went, for its two storages.
#[derive(Clone, Copy, Debug)]
pub struct Course<'a> {
    /// The source's storage.
    pub source: &'a str,
    /// The destination's storage.
    pub destination: &'a str,
    /// The way.
    pub way: Way,
    /// What the source was shown.
    pub source_credential: Credential,
    /// What the destination was shown.
    pub destination_credential: Credential,
    /// Whether the passive storage was shown a macaroon of its own instead.
    pub has_macaroon: bool,
    /// Whether both storages took these credentials before the copy. If not, a refusal of one says
    /// nothing of the storage: the credential itself may be bad.
    pub has_accepted: bool,
    /// Why it failed.
    pub error: Option<&'a Error>,
}

/// The capabilities of all storages.
#[derive(Debug, Default)]
pub struct Capabilities {
    all: Mutex<BTreeMap<String, BTreeMap<Cell, Entry>>>,
    /// The catalog does not know all of it.
    news: Notify,
}

/// What is known of a cell, here and in the catalog.
#[derive(Clone, Copy, Debug)]
struct Entry {
    known: Known,
    stored: Option<Known>,
}

impl Entry {
    /// Whether the catalog should know it: something else is known now, or its age says too much.
    fn is_fresh(&self) -> bool {
        let says_same = |stored: Known| {
            let aged_ms = self.known.at_ms.saturating_sub(stored.at_ms);
            let is_recent = aged_ms.unsigned_abs() < CAPABILITY_STORED_EVERY.as_millis() as u64;
            (stored.can, stored.evidence) == (self.known.can, self.known.evidence) && is_recent
        };
        !self.stored.is_some_and(says_same)
    }
}

impl Capabilities {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<Cell, Entry>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a storage.
    #[must_use]
    pub fn of(&self, storage: &str) -> Vec<Capability> {
        let all = self.lock();
        let cells = all.get(&*canonical(storage)).into_iter().flatten();
        cells
            .map(|(cell, entry)| Capability {
                cell: *cell,
                known: entry.known,
            })
            .collect()
    }

    /// Something was learned of a storage.
    pub fn note(&self, storage: &str, cell: Cell, known: Known) {
        self.put(storage, Capability { cell, known }, None);
    }

    /// The catalog knows something of a storage.
    fn learn(&self, storage: &str, one: Capability) {
        self.put(storage, one, Some(one.known));
    }

    /// Keeps what was learned, unless something later is known.
    fn put(&self, storage: &str, one: Capability, stored: Option<Known>) {
        // A storage is the same as davs and as https.
        let storage = canonical(storage).into_owned();
        let mut all = self.lock();
        if !all.contains_key(&storage) && all.len() >= CAPABILITIES_MAX {
            // The storage about which nothing was learned for the longest time.
            let newest = |cells: &BTreeMap<Cell, Entry>| cells.values().map(|entry| entry.known.at_ms).max();
            let oldest = all
                .iter()
                .min_by_key(|(_, cells)| newest(cells))
                .map(|(name, _)| name.clone());
            oldest.and_then(|name| all.remove(&name));
        }
        let cells = all.entry(storage).or_default();
        let entry = cells.entry(one.cell).or_insert(Entry {
            known: one.known,
            stored,
        });
        entry.stored = stored.or(entry.stored);
        if one.known.at_ms >= entry.known.at_ms {
            entry.known = one.known;
        }
        if entry.is_fresh() {
            self.news.notify_one();
        }
    }

    /// What the catalog does not know yet; from now on it counts as known there.
    fn take_fresh(&self) -> Vec<(String, Capability)> {
        let mut fresh = Vec::new();
        for (storage, cells) in self.lock().iter_mut() {
            for (cell, entry) in cells.iter_mut().filter(|(_, entry)| entry.is_fresh()) {
                entry.stored = Some(entry.known);
                let known = entry.known;
                fresh.push((storage.clone(), Capability { cell: *cell, known }));
            }
        }
        fresh
    }

    /// The catalog does not know them after all.
    fn put_back(&self, fresh: Vec<(String, Capability)>) {
        let mut all = self.lock();
        for (storage, one) in fresh {
            if let Some(entry) = all.get_mut(&storage).and_then(|cells| cells.get_mut(&one.cell)) {
                entry.stored = None;
            }
        }
    }

    /// Learns from a copy.
    pub fn note_course(&self, course: &Course<'_>, at_ms: i64) {
        let active = course.way.active_server();
        let ends = [
            (Side::Source, course.source, Operation::Read, course.source_credential),
            (
                Side::Destination,
                course.destination,
                Operation::Write,
                course.destination_credential,
            ),
        ];
        for (side, storage, operation, credential) in ends {
            let part = if active == Some(side) {
                Part::Active
            } else {
                Part::Passive
            };
            let can = match course.error {
                None => true,
                Some(error) if shows_inability(error, side, part, course.has_accepted) => false,
                Some(_) => continue,
            };
            let other = if side == Side::Source {
                course.destination
            } else {
                course.source
            };
            let has_macaroon = course.has_macaroon && active.is_some() && part == Part::Passive;
            let cell = Cell {
                operation,
                part,
                peer: Peer::of(other),
                credential: if has_macaroon { Credential::Macaroon } else { credential },
            };
            let evidence = Evidence::Attempt;
            self.note(storage, cell, Known { can, evidence, at_ms });
        }
    }

    /// A storage says whether it can be the active side at its end of a link.
    pub fn note_told(&self, side: LinkSide<'_>, credential: Credential, can: bool, at_ms: i64) {
        let evidence = Evidence::Told;
        self.note(side.storage, side.active(credential), Known { can, evidence, at_ms });
    }

    /// A storage gave out no macaroon at its end of a link, where the active side needed one.
    pub fn note_no_macaroon(&self, side: LinkSide<'_>, at_ms: i64) {
        let cell = Cell {
            part: Part::Passive,
            ..side.active(Credential::Macaroon)
        };
        let (can, evidence) = (false, Evidence::Attempt);
        self.note(side.storage, cell, Known { can, evidence, at_ms });
    }

    /// The end of a copy, without what its storage has shown that it cannot do as the active side
    /// with this credential. What was learned long ago no longer counts.
    #[must_use]
    pub fn limited(&self, end: End, side: LinkSide<'_>, credential: Credential, now_ms: i64) -> End {
        let all = self.lock();
        let cells = all.get(&*canonical(side.storage));
        let Some(Entry { known, .. }) = cells.and_then(|cells| cells.get(&side.active(credential))) else {
            return end;
        };
        let age_ms = now_ms.saturating_sub(known.at_ms);
        if known.can || u128::try_from(age_ms).unwrap_or_default() > CAPABILITY_AGE_MAX.as_millis() {
            return end;
        }
        let evidence = Some(known.evidence);
        match side.operation {
            Operation::Read => End {
                pushes: Ability::No,
                evidence,
                ..end
            },
            Operation::Write => End {
                pulls: Ability::No,
                evidence,
                ..end
            },
        }
    }
}

/// Whether an error shows that this side cannot take its part with what it was shown: it refuses
/// the request as such, or a credential that it accepted before the copy.
fn shows_inability(error: &Error, side: Side, part: Part, has_accepted: bool) -> bool {
    let refuses_order = part == Part::Active && error.code() == ErrorCode::PeerUnsupported;
    let refuses_credential = has_accepted && matches!(error.code(), ErrorCode::PeerDenied | ErrorCode::PeerTlsFailed);
    error.side() == side && error.peer_status().is_some() && (refuses_order || refuses_credential)
}

#[cfg(test)]
mod tests {
    use remote::Abilities;
    use types::{PeerStatus, Phase};

    use super::*;

    const A: &str = "https://a:443";
    const B: &str = "https://b:443";
    const TO: LinkSide<'_> = LinkSide {
        storage: B,
        other: A,
        operation: Operation::Write,
    };

    fn course(way: Way, error: Option<&Error>) -> Course<'_> {
        Course {
            source: A,
            destination: B,
            way,
            source_credential: Credential::Token,
            destination_credential: Credential::X509,
            has_macaroon: false,
            has_accepted: true,
            error,
        }
    }

    fn shown(capabilities: &Capabilities, storage: &str) -> Vec<(Operation, Part, Credential, bool)> {
        let all = capabilities.of(storage).into_iter();
        all.map(|one| (one.cell.operation, one.cell.part, one.cell.credential, one.known.can))
            .collect()
    }

    #[test]
    fn a_copy_shows_what_both_storages_can_do() {
        let known = Capabilities::default();
        known.note_course(&course(Way::Pull, None), 5);
        assert_eq!(
            shown(&known, A),
            [(Operation::Read, Part::Passive, Credential::Token, true)]
        );
        assert_eq!(
            shown(&known, B),
            [(Operation::Write, Part::Active, Credential::X509, true)]
        );
        known.note_course(&course(Way::Stream, None), 6);
        let cell = (Operation::Write, Part::Passive, Credential::X509, true);
        assert!(shown(&known, B).contains(&cell));
        assert_eq!(known.of(B)[0].known.at_ms, 5);
        assert_eq!(known.of("davs://b:443"), known.of(B), "the same storage");
    }

    #[test]
    fn a_macaroon_is_what_the_passive_storage_was_shown() {
        let known = Capabilities::default();
        let with_macaroon = |way| Course {
            has_macaroon: true,
            ..course(way, None)
        };
        known.note_course(&with_macaroon(Way::Push), 5);
        assert_eq!(
            shown(&known, B),
            [(Operation::Write, Part::Passive, Credential::Macaroon, true)]
        );
        assert_eq!(
            shown(&known, A),
            [(Operation::Read, Part::Active, Credential::Token, true)]
        );
    }

    #[test]
    fn a_refusal_rules_a_part_out_for_this_credential_and_a_while() {
        let known = Capabilities::default();
        let refused = |code, side| Error::new(code, side, Phase::Open).with_peer(Some(PeerStatus::Http(405)), "");
        let missing = refused(ErrorCode::PeerNotFound, Side::Destination);
        known.note_course(&course(Way::Pull, Some(&missing)), 5);
        assert!(known.of(B).is_empty(), "a missing file says nothing of its storage");
        let cannot = refused(ErrorCode::PeerUnsupported, Side::Destination);
        known.note_course(&course(Way::Pull, Some(&cannot)), 5);
        assert!(known.of(A).is_empty());
        let usual = End::server(Abilities {
            pulls: true,
            pushes: true,
            ..Abilities::default()
        });
        let limited = |credential, now_ms| known.limited(usual, TO, credential, now_ms);
        // With a storage of another protocol it may.
        let of_root = LinkSide {
            other: "root://c:1094",
            ..TO
        };
        assert_eq!(known.limited(usual, of_root, Credential::X509, 6), usual);
        assert_eq!(limited(Credential::X509, 6).pulls, Ability::No);
        assert_eq!(limited(Credential::Token, 6), usual);
        let late_ms = 6 + i64::try_from(CAPABILITY_AGE_MAX.as_millis()).unwrap();
        assert_eq!(limited(Credential::X509, late_ms), usual);
    }

    #[test]
    fn a_credential_that_no_storage_accepted_says_nothing_of_its_storage() {
        let known = Capabilities::default();
        let denied = Error::new(ErrorCode::PeerDenied, Side::Destination, Phase::Open);
        let denied = denied.with_peer(Some(PeerStatus::Http(401)), "");
        let accepted = course(Way::Pull, Some(&denied));
        let unproven = Course {
            has_accepted: false,
            ..accepted
        };
        known.note_course(&unproven, 5);
        assert!(known.of(B).is_empty());
        known.note_course(&accepted, 5);
        assert!(!known.of(B)[0].known.can);
    }

    #[test]
    fn the_storage_that_was_silent_longest_is_forgotten() {
        let known = Capabilities::default();
        let cell = Cell {
            operation: Operation::Read,
            part: Part::Passive,
            peer: Peer::Http,
            credential: Credential::None,
        };
        for number in 0..=CAPABILITIES_MAX {
            let at_ms = i64::try_from(number).unwrap();
            let learned = Known {
                can: true,
                evidence: Evidence::Attempt,
                at_ms,
            };
            known.note(&format!("https://s{number}:443"), cell, learned);
        }
        assert!(known.of("https://s0:443").is_empty());
        assert_eq!(known.of("https://s1:443").len(), 1);
    }
}
