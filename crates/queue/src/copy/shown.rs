//! What a copy shows of its storages goes into their capability records.

use std::sync::atomic::Ordering;

use remote::CopyAbilities;
use transfer::route::Way;
use transfer::{News, WayNews};
use types::{Error, Side};

use super::Attempt;
use crate::capability::{Course, Credential, LinkSide, Operation};
use crate::clock::now_ms;

impl Attempt<'_> {
    /// Remembers what a way has shown of both storages.
    pub(super) fn note_course(&self, way: Way, error: Option<&Error>) {
        let file = &self.claimed.file;
        let course = Course {
            source: &file.source_storage,
            destination: &file.destination_storage,
            way,
            source_credential: Credential::of(&self.source.access),
            destination_credential: Credential::of(&self.destination.access),
            has_macaroon: self.has_macaroon.load(Ordering::Relaxed),
            has_accepted: self.has_accepted.load(Ordering::Relaxed),
            error,
        };
        self.copier.capabilities.note_course(&course, now_ms());
    }

    /// Remembers that the passive side of a way gave out no macaroon.
    fn note_no_macaroon(&self, way: Way) {
        let file = &self.claimed.file;
        let (from, to) = (&file.source_storage, &file.destination_storage);
        let (storage, other, operation) = match way.active_server() {
            Some(Side::Source) => (to, from, Operation::Write),
            _ => (from, to, Operation::Read),
        };
        let side = LinkSide {
            storage,
            other,
            operation,
        };
        self.copier.capabilities.note_no_macaroon(side, now_ms());
    }

    /// Remembers what the destination says of itself.
    fn note_told(&self, told: CopyAbilities) {
        // A server that takes no proxy may still fetch with a rendezvous key.
        let Some(can) = told.pulls.or(told.with_proxy.filter(|takes| *takes)) else {
            return;
        };
        let file = &self.claimed.file;
        let side = LinkSide {
            storage: &file.destination_storage,
            other: &file.source_storage,
            operation: Operation::Write,
        };
        let shown = Credential::of(&self.destination.access);
        self.copier.capabilities.note_told(side, shown, can, now_ms());
    }
}

impl WayNews for Attempt<'_> {
    fn tell(&self, news: News<'_>) {
        match news {
            News::Begun(_) => self.has_macaroon.store(false, Ordering::Relaxed),
            News::WithMacaroon => self.has_macaroon.store(true, Ordering::Relaxed),
            News::WayFailed(way, error, _) => self.note_course(way, Some(error)),
            News::DestinationSays(told) => self.note_told(told),
            News::Withheld(way) => self.note_no_macaroon(way),
            News::WithoutProxy(_) | News::Delegated(_) | News::NoMacaroon(_) | News::FoundWhole(..) => {}
        }
    }
}
