//! What a command remembers of the checksums that were compared, and of those that were missing.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use transfer::limits::LEARNED_SERVERS_MAX;

use super::super::place::Place;
use super::ways::NotCompared;

/// Pairs of servers between which checksums were compared.
#[derive(Default)]
pub(super) struct ServersWithChecksums(Mutex<HashSet<(String, String)>>);

impl ServersWithChecksums {
    /// Checksums of a file were compared. An object store keeps them with some objects and not with
    /// others, such as those that came in parts, so one object says nothing about the next.
    pub(super) fn note(&self, source: &Place, target: &Place) {
        if [source, target].into_iter().any(Place::is_s3) {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < LEARNED_SERVERS_MAX {
            known.insert((source.server(), target.server()));
        }
    }

    /// Whether checksums of another file between these servers were compared.
    pub(super) fn knows(&self, source: &Place, target: &Place) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.contains(&(source.server(), target.server()))
    }
}

/// Reasons that the user has read.
#[derive(Default)]
pub(super) struct Told(Mutex<Vec<NotCompared>>);

impl Told {
    /// Whether this is the first time.
    pub(super) fn is_new(&self, why: NotCompared) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !told.contains(&why);
        if is_new {
            told.push(why);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_expected_only_between_servers_that_had_one() {
        let place = |text| Place::parse(text).unwrap();
        let known = ServersWithChecksums::default();
        let (here, a, b) = (place("/f"), place("https://a/f"), place("https://b/f"));
        known.note(&a, &here);
        assert!(known.knows(&place("https://a/other"), &place("/other")));
        let bucket = place("s3s://s/bucket/f");
        known.note(&bucket, &here);
        assert!(!known.knows(&bucket, &here), "the next object may have none");
        assert!(!known.knows(&b, &here) && !known.knows(&here, &a) && !known.knows(&a, &b));
        let told = Told::default();
        assert!(told.is_new(NotCompared::NoneAtSource) && told.is_new(NotCompared::NoneAtDestination));
        assert!(!told.is_new(NotCompared::NoneAtSource));
    }
}
