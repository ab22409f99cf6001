//! Where an existing destination lies: on disk, on tape or both.
//!
//! The rules of `overwrite_when_only_on_disk` are those of FTS 3.14 (`UrlCopyProcess`): a file on
//! tape stays, and so does one whose place the storage does not say.

use catalog::Overwrite as Overwrites;
use remote::{ArchiveState, Facts, Locality, tape_path};
use types::{Error, ErrorCode, Phase, Result, Side};

use super::{Attempt, in_time};

impl Attempt<'_> {
    /// Whether a destination may be overwritten that is on disk only. Hops of a chain have a rule
    /// of their own.
    fn wants_disk_overwrite(&self) -> bool {
        let overwrite = self.claimed.job.options.overwrite;
        matches!(overwrite, Overwrites::OnlyOnDisk | Overwrites::HopsAndOnlyOnDisk)
    }

    /// Whether the destination is absent; a file that is there may be overwritten.
    ///
    /// # Errors
    /// `peer_exists` if it is there and may not be overwritten; `peer_on_tape` and
    /// `peer_locality_unknown` if only a file on disk may be.
    pub(super) async fn check_destination(&self, source: &Facts, found: Option<&Facts>) -> Result<bool> {
        match found {
            None => Ok(true),
            Some(_) if self.order.overwrites => Ok(false),
            Some(_) if self.wants_disk_overwrite() => self.check_only_on_disk().await.map(|()| false),
            Some(found) => Err(self.with_lost_part(self.refusal(ErrorCode::PeerExists), source, found)),
        }
    }

    async fn check_only_on_disk(&self) -> Result<()> {
        if self.roles.refuses_disk_overwrite {
            let error = Error::new(ErrorCode::Forbidden, Side::Queue, Phase::Queued);
            let words = "overwrite_disk_enabled is false for the destination";
            return Err(error.with_detail(words).with_subject(&self.destination.location));
        }
        match self.locality().await? {
            Some(ArchiveState::At(Locality::Disk)) => Ok(()),
            Some(ArchiveState::At(place)) if place.is_on_tape() => Err(self.refusal(ErrorCode::PeerOnTape)),
            Some(ArchiveState::At(_) | ArchiveState::Unanswered) => Err(self.refusal(ErrorCode::PeerLocalityUnknown)),
            Some(ArchiveState::Refused(words) | ArchiveState::Missing(words)) => {
                Err(self.refusal(ErrorCode::PeerLocalityUnknown).with_peer(None, &words))
            }
            None => {
                let words = "the storage announces no tape system that could say it";
                Err(self.refusal(ErrorCode::PeerLocalityUnknown).with_detail(words))
            }
        }
    }

    fn refusal(&self, code: ErrorCode) -> Error {
        Error::new(code, Side::Destination, Phase::Open).with_subject(&self.destination.location)
    }

    /// Where the destination's file is; `None` if the storage announces no tape system.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub(super) async fn locality(&self) -> Result<Option<ArchiveState>> {
        let (client, place) = (&self.copier.client, &self.destination);
        let Some(system) = in_time(place, client.tape_system(place)).await? else {
            return Ok(None);
        };
        let paths = [tape_path(&place.location)];
        let states = in_time(place, client.archive_states(&system, place, &paths)).await?;
        Ok(Some(states.into_iter().next().unwrap_or(ArchiveState::Unanswered)))
    }
}
