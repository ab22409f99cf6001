//! The two copies of a file that goes by a hop, and when it does.

use catalog::{ChecksumMode, Claimed, Hop, HopPart};
use remote::{Access, Resource};
use transfer::route::{Ability, End};
use types::{Error, ErrorCode, Location, Phase, Result, Secret, Side};

use super::lost::Whole;
use super::outcome::{finished, found};
use super::{Attempt, Before, EndAccess, RemoteCopier, in_time};
use crate::hop::{arrived, given_up, lost};
use crate::limits::HOP_LOSSES_MAX;
use crate::service::CopyResult;

/// The hop of a file that is on its way by one.
pub(super) fn under_way(claimed: &Claimed) -> Option<&Hop> {
    claimed.file.hop.as_ref().filter(|hop| hop.part != HopPart::GivenUp)
}

impl RemoteCopier {
    /// Puts the hop in the place of one of the ends.
    pub(super) async fn at_hop(&self, claimed: &Claimed, access: &mut EndAccess) -> Result<()> {
        let Some(hop) = under_way(claimed) else {
            return Ok(());
        };
        let (url, side) = match hop.part {
            HopPart::Incoming => (&hop.incoming.url, Side::Destination),
            HopPart::Outgoing | HopPart::GivenUp => (&hop.outgoing.url, Side::Source),
        };
        let own = self.source.hop_access(claimed, url).await?;
        let url = Some(Secret::new(url.clone()));
        match side {
            Side::Destination => (access.destination, access.destination_url) = (own, url),
            _ => (access.source, access.source_url) = (own, url),
        }
        Ok(())
    }

    /// Removes the file of a job from a hop. Its name is that file's only.
    pub(super) async fn remove_at_hop(&self, claimed: &Claimed, url: &str) -> Result<()> {
        let access: Access = self.source.hop_access(claimed, url).await?;
        let file = Resource {
            location: Location::parse(url)?,
            access,
            side: Side::Destination,
        };
        in_time(&file, self.client.delete(&file)).await
    }
}

impl Attempt<'_> {
    /// Whether the file can still choose a hop.
    fn may_hop(&self) -> bool {
        let is_new = self.claimed.file.hop.is_none();
        is_new && self.roles.hop.is_some() && self.order.copy_mode.is_none()
    }

    /// Copies that have a hop, or may choose one, first try what the storages can do.
    pub(super) fn is_direct(&self) -> bool {
        self.may_hop() || under_way(self.claimed).is_some()
    }

    /// The way after a copy has failed that was to be direct.
    pub(super) fn way_after(&self, error: &Error) -> After {
        if let Some(hop) = under_way(self.claimed) {
            return match error.code() {
                ErrorCode::PeerUnsupported => After::Hop(Box::new(given_up(&self.with_loss(hop), error))),
                _ => self.after_loss(error).map_or(After::Nothing, After::Hop),
            };
        }
        let hop = self.roles.hop.clone().filter(|_| self.may_hop());
        let is_impossible = error.code() == ErrorCode::PeerUnsupported;
        match hop {
            Some(hop) if is_impossible || self.crosses_protocols() && error.another_way() => After::Hop(hop),
            Some(_) if error.another_way() && !self.roles.limits.never_streams => After::Stream,
            _ => After::Nothing,
        }
    }

    /// The way of a file that its hop has no longer, as this error says.
    pub(super) fn after_loss(&self, error: &Error) -> Option<Box<Hop>> {
        let hop = under_way(self.claimed).filter(|hop| hop.part == HopPart::Outgoing)?;
        let is_lost = error.code() == ErrorCode::PeerNotFound && error.side() == Side::Source;
        is_lost.then(|| {
            let hop = self.with_loss(hop);
            Box::new(match hop.losses < HOP_LOSSES_MAX {
                true => lost(&hop),
                false => given_up(&hop, error),
            })
        })
    }

    /// The hop, which keeps that a lost worker may have left something at the destination: a
    /// further part of the way ends there.
    fn with_loss(&self, hop: &Hop) -> Hop {
        let is_last = hop.part == HopPart::Outgoing;
        Hop {
            destination_interrupted: hop.destination_interrupted || is_last && self.claimed.file.is_interrupted,
            ..hop.clone()
        }
    }

    /// Whether the two ends speak different protocols.
    fn crosses_protocols(&self) -> bool {
        self.order.source.is_http() != self.order.destination.is_http()
    }

    /// Refuses what neither storage can do, by what is known: a file that may go by a hop need not
    /// try it.
    ///
    /// # Errors
    /// `peer_unsupported`.
    pub(super) fn demand_active_side(&self, source: &End, destination: &End) -> Result<()> {
        let takes_proxy = destination.proxy.is_some_and(|proxy| proxy.ability != Ability::No);
        let is_able = source.pushes != Ability::No || destination.pulls != Ability::No || takes_proxy;
        match is_able || !self.may_hop() {
            true => Ok(()),
            false => Err(Error::new(ErrorCode::PeerUnsupported, Side::Destination, Phase::Open)),
        }
    }

    /// The end of a complete copy: of the file, or of the first half of its way.
    pub(super) fn arrived(&self, before: &Before, copied: &transfer::Copied) -> CopyResult {
        match self.arrived_at_hop(before, copied.bytes) {
            None => finished(copied.bytes, copied.way),
            Some(hop) => CopyResult::Hop {
                hop,
                copied_bytes: Some(copied.bytes),
            },
        }
    }

    /// As [`Attempt::arrived`], for a file that an attempt has left whose worker was lost.
    pub(super) fn was_there(&self, before: &Before, whole: &Whole) -> CopyResult {
        match self.arrived_at_hop(before, whole.size_bytes) {
            None => found(whole.size_bytes, &whole.checksum, &self.destination.location),
            Some(hop) => without_copy(hop),
        }
    }

    /// The next part of the way, if this was the one to the hop.
    fn arrived_at_hop(&self, before: &Before, size_bytes: u64) -> Option<Box<Hop>> {
        let hop = under_way(self.claimed).filter(|hop| hop.part == HopPart::Incoming)?;
        let compares = self.order.checksum.mode != ChecksumMode::None;
        let checksum = before.expected.as_ref().filter(|_| compares);
        Some(Box::new(arrived(hop, size_bytes, checksum.map(ToString::to_string))))
    }
}

/// The file goes on at another link, and nothing was copied.
pub(super) fn without_copy(hop: Box<Hop>) -> CopyResult {
    CopyResult::Hop {
        hop,
        copied_bytes: None,
    }
}

/// What follows a copy that has failed.
pub(super) enum After {
    /// There is no other way.
    Nothing,
    /// Through this machine.
    Stream,
    /// Another part of the way by a hop.
    Hop(Box<Hop>),
}
