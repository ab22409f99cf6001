//! Third-party copies that this client orders: the order, the comparison of both sides, and the
//! outcome after the connection to the active server is lost.

mod compare;
mod settle;
mod watermark;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use remote::{Access, Client, CopyOrder, Delegation, DelegationOutcome, Direction, Resource, Stored};
use storage::Overwrite;
use types::{Checksum, Error, ErrorCode, Location, Phase, Result};

use crate::engine::remains::{self, FailedCopy, Writer, part_bytes_max};
use crate::options::{Order, Streams, Verified};
use crate::progress::Progress;
use watermark::Watermark;

/// What is compared after a copy, beside the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The checksums of both sides, if both report one.
    Sides,
    /// The destination's checksum with the order's, if it reports one.
    Expected,
    /// Nothing else.
    Size,
}

/// A copy between two servers.
#[derive(Clone, Copy, Debug)]
pub struct ThirdParty<'a> {
    /// The client that orders it.
    pub client: &'a Client,
    /// The source.
    pub source: &'a Resource,
    /// The destination.
    pub destination: &'a Resource,
    /// The active side: the destination pulls, or the source pushes.
    pub direction: Direction,
    /// The access that the active server gets to the other one ([`Client::shown_in_copy`]).
    pub shown: &'a Access,
    /// Whether the active server gets a proxy of our own access to it.
    pub delegation: Delegation,
    /// Set once it is known whether the active server has got that proxy.
    pub delegated: &'a OnceLock<DelegationOutcome>,
    /// Overwriting, streams, and the expected checksum.
    pub order: &'a Order,
    /// The destination has just reported that it has no such file.
    pub is_absent: bool,
    /// The active server has said that it makes such copies ([`Client::copy_abilities`]).
    pub is_offered: bool,
    /// What is compared afterwards.
    pub compares: Comparison,
    /// Longest time in which the count of bytes does not pass its highest value so far. After that
    /// the copy counts as lost. `None`: only the silence of the active server counts.
    pub stall: Option<Duration>,
    /// After the active server is lost: time without changes at the destination after which the
    /// outcome counts as unknown ([`crate::limits::SETTLE_WAIT`]).
    pub settle: Duration,
    /// Counts the bytes.
    pub progress: &'a Progress,
}

/// The outcome of a third-party copy.
#[derive(Clone, Debug)]
pub struct ThirdPartyOutcome {
    /// Bytes of the file.
    pub bytes: u64,
    /// The result of the comparison.
    pub verified: Verified,
    /// Why the connection to the active server was lost, although the destination has the whole
    /// file.
    pub lost: Option<Error>,
}

impl ThirdParty<'_> {
    /// Orders the copy. Dropping the future closes the connection to the active server, which then
    /// aborts the copy.
    ///
    /// # Errors
    /// The active server's words; `outcome_unknown` if it was lost and the destination does not
    /// show the whole file; `peer_size_differs` and `checksum_mismatch` if the stored file differs
    /// from the source. What the copy left is removed if it is proven ours.
    pub async fn copy(&self) -> Result<ThirdPartyOutcome> {
        let followed = self.follow().await;
        let ended = Instant::now();
        match followed {
            Ok(()) => self.compare(ended).await,
            Err(lost) if lost.code() == ErrorCode::OutcomeUnknown => self.settle(lost).await,
            Err(error) => {
                let whole_bytes = self.whole_bytes().await;
                Err(self.clean_up(error, ended, whole_bytes, None).await)
            }
        }
    }

    /// Removes what the copy left, if it is proven ours: some servers leave an empty file or a part
    /// of one, which another way would take for another client's file. The active server has
    /// reported the end of the copy, so it no longer writes.
    /// `wrong`: the checksums of the stored file that differ from the source's, if all of it was
    /// stored.
    async fn clean_up(
        &self,
        error: Error,
        ended: Instant,
        whole_bytes: Option<u64>,
        wrong: Option<&[Checksum]>,
    ) -> Error {
        self.progress.enter(Phase::Cleanup);
        let stored = Stored::default();
        let failed = FailedCopy {
            error: &error,
            writer: match self.direction {
                Direction::Pull => Writer::Destination,
                Direction::Push => Writer::Source,
            },
            is_refused: false,
            has_left: false,
            created: self.progress.created(),
            replaced: self.progress.replaced(),
            begun: self.progress.begun(),
            ended,
            was_absent: self.is_absent,
            part_bytes_max: match wrong {
                Some(_) => whole_bytes,
                None => part_bytes_max(whole_bytes),
            },
            is_longest_known: whole_bytes.is_some(),
            stored: wrong.map(|_| &stored),
            wrong: wrong.unwrap_or_default(),
        };
        let left = remains::remove_between(self.client, self.source, self.destination, &failed).await;
        left.told(error, Some(&self.destination.location))
    }

    /// The size of the source, if it is known.
    async fn whole_bytes(&self) -> Option<u64> {
        match self.progress.total_bytes() {
            None => self.client.head(self.source, &[]).await.ok()?.size_bytes,
            total => total,
        }
    }

    /// The server that moves the data.
    #[must_use]
    pub fn active(&self) -> &Resource {
        match self.direction {
            Direction::Pull => self.destination,
            Direction::Push => self.source,
        }
    }

    fn passive(&self) -> &Resource {
        match self.direction {
            Direction::Pull => self.source,
            Direction::Push => self.destination,
        }
    }

    /// Orders the copy, and follows it to its end.
    async fn follow(&self) -> Result<()> {
        let (active, passive) = (self.active(), self.passive());
        let is_signed = self.client.abilities(&passive.location).needs_signed_urls;
        let (peer, shown) = match is_signed {
            true => (self.signed_url().await?, Access::default()),
            false => (passive.location.clone(), self.shown.clone()),
        };
        let order = CopyOrder {
            overwrite: self.order.overwrite == Overwrite::Allow,
            streams: match self.order.streams {
                Streams::Fixed(count) => Some(count),
                Streams::Chosen(_) => None,
            },
            expected: self.order.expected.clone(),
            is_offered: self.is_offered,
            ..CopyOrder::new(peer, self.direction, shown)
        };
        // No other request to the active server offers a proxy.
        let active = Resource {
            access: Access {
                delegation: self.delegation,
                ..active.access.clone()
            },
            ..active.clone()
        };
        self.progress.enter(Phase::Open);
        self.progress.note_begun();
        let ordered = self.client.copy(&active, &order).await;
        self.progress.note_created(order.created.get().cloned());
        let mut copying = ordered?;
        if let Some(outcome) = copying.delegation() {
            let _ = self.delegated.set(outcome.clone());
        }
        self.progress.enter(Phase::Transfer);
        let mut pace = Watermark::new(self.stall, self.progress.total_bytes());
        while let Some(news) = pace.within(copying.next()).await.ok_or_else(|| self.stalled())?? {
            self.progress.set_moved(news.bytes);
            self.progress.show_peers(news.peers());
            pace.pass(news.bytes);
        }
        Ok(())
    }

    /// The URL with which the active server reads or stores the file at the passive one.
    async fn signed_url(&self) -> Result<Location> {
        let size = match self.direction {
            Direction::Push => self.whole_bytes().await,
            Direction::Pull => None,
        };
        self.client.signed(self.passive(), self.direction, size).await
    }

    /// The active server answers, but no further byte arrives. It may still write.
    fn stalled(&self) -> Error {
        let active = self.active();
        let error = Error::new(ErrorCode::OutcomeUnknown, active.side, Phase::Transfer);
        let seconds = self.stall.unwrap_or_default().as_secs();
        let words = format!("the transfer stalled: no further byte for {seconds} s");
        error.with_detail(words).with_subject(&active.location)
    }
}
