//! What each storage has shown that it can do, for each credential: capability records.
//!
//! Services above FTS keep such tables by hand. Here they come from what operators say of a
//! storage, from what a server says of itself, and from what happened; each with its age. They are
//! kept in memory: a new process learns them again from its first copies.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use catalog::ThirdPartyRole;
use remote::Access;
use serde::Serialize;
use transfer::route::{Ability, End, Evidence, Way};
use types::{Error, ErrorCode, Side};

use crate::limits::{CAPABILITIES_MAX, CAPABILITY_AGE_MAX};

/// What a storage does with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// It moves the data.
    Active,
    /// Another one does.
    Passive,
}

/// What it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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

/// One cell of a storage's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Cell {
    /// What it does.
    pub operation: Operation,
    /// Its part in the copy.
    pub part: Part,
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
    /// Why it failed.
    pub error: Option<&'a Error>,
}

/// The capabilities of all storages.
#[derive(Debug, Default)]
pub struct Capabilities(Mutex<BTreeMap<String, BTreeMap<Cell, Known>>>);

impl Capabilities {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<Cell, Known>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a storage.
    #[must_use]
    pub fn of(&self, storage: &str) -> Vec<Capability> {
        let all = self.lock();
        let cells = all.get(storage).into_iter().flatten();
        cells
            .map(|(cell, known)| Capability {
                cell: *cell,
                known: *known,
            })
            .collect()
    }

    /// Something was learned of a storage.
    pub fn note(&self, storage: &str, cell: Cell, known: Known) {
        let mut all = self.lock();
        if !all.contains_key(storage) && all.len() >= CAPABILITIES_MAX {
            // The storage about which nothing was learned for the longest time.
            let newest = |cells: &BTreeMap<Cell, Known>| cells.values().map(|known| known.at_ms).max();
            let oldest = all
                .iter()
                .min_by_key(|(_, cells)| newest(cells))
                .map(|(name, _)| name.clone());
            oldest.and_then(|name| all.remove(&name));
        }
        all.entry(storage.to_owned()).or_default().insert(cell, known);
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
                Some(error) if shows_inability(error, side, part) => false,
                Some(_) => continue,
            };
            let cell = Cell {
                operation,
                part,
                credential,
            };
            let evidence = Evidence::Attempt;
            self.note(storage, cell, Known { can, evidence, at_ms });
        }
    }

    /// The end of a copy, without what its storage has shown that it cannot do as the active side
    /// with this credential. What was learned long ago no longer counts.
    #[must_use]
    pub fn limited(&self, end: End, storage: &str, operation: Operation, credential: Credential, now_ms: i64) -> End {
        let cell = Cell {
            operation,
            part: Part::Active,
            credential,
        };
        let all = self.lock();
        let Some(known) = all.get(storage).and_then(|cells| cells.get(&cell)) else {
            return end;
        };
        let age_ms = now_ms.saturating_sub(known.at_ms);
        if known.can || u128::try_from(age_ms).unwrap_or_default() > CAPABILITY_AGE_MAX.as_millis() {
            return end;
        }
        let evidence = Some(known.evidence);
        match operation {
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
/// the request as such, or the credential.
fn shows_inability(error: &Error, side: Side, part: Part) -> bool {
    let refuses_order = part == Part::Active && error.code() == ErrorCode::PeerUnsupported;
    let refuses_credential = matches!(error.code(), ErrorCode::PeerDenied | ErrorCode::PeerTlsFailed);
    error.side() == side && error.peer_status().is_some() && (refuses_order || refuses_credential)
}

#[cfg(test)]
mod tests {
    use remote::Abilities;
    use types::{PeerStatus, Phase};

    use super::*;

    const A: &str = "https://a:443";
    const B: &str = "https://b:443";

    fn course(way: Way, error: Option<&Error>) -> Course<'_> {
        Course {
            source: A,
            destination: B,
            way,
            source_credential: Credential::Token,
            destination_credential: Credential::X509,
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
        let limited = |credential, now_ms| known.limited(usual, B, Operation::Write, credential, now_ms);
        assert_eq!(limited(Credential::X509, 6).pulls, Ability::No);
        assert_eq!(limited(Credential::Token, 6), usual);
        let late_ms = 6 + i64::try_from(CAPABILITY_AGE_MAX.as_millis()).unwrap();
        assert_eq!(limited(Credential::X509, late_ms), usual);
    }

    #[test]
    fn the_storage_that_was_silent_longest_is_forgotten() {
        let known = Capabilities::default();
        let cell = Cell {
            operation: Operation::Read,
            part: Part::Passive,
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
