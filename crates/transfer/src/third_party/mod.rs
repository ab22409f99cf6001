//! A copy that one of two servers makes on our order: the order, the comparison of both sides
//! afterwards, and what happens when the connection to its server is lost.

mod compare;
mod settle;

use std::time::Duration;

use remote::{Access, Client, CopyOrder, Direction, Resource};
use storage::Overwrite;
use types::{Error, ErrorCode, Phase, Result};

use crate::options::{Order, Streams, Verified};
use crate::progress::Progress;

/// A copy between two servers.
#[derive(Clone, Copy, Debug)]
pub struct ThirdParty<'a> {
    /// Who orders it.
    pub client: &'a Client,
    /// The file.
    pub source: &'a Resource,
    /// Where it goes.
    pub destination: &'a Resource,
    /// Which of the two acts: the destination pulls, or the source pushes.
    pub direction: Direction,
    /// What the active server may show to the other one ([`Client::shown_in_copy`]).
    pub shown: &'a Access,
    /// How it is done: overwriting, streams, and the expected checksum.
    pub order: &'a Order,
    /// The destination has just said that it has no such file.
    pub is_absent: bool,
    /// Whether the checksums of both sides are compared afterwards; `false` where the caller does it.
    pub compares: bool,
    /// How long the destination may stay as it is, after the server was lost, before the outcome is given up as unknown
    /// ([`crate::limits::SETTLE_WAIT`]).
    pub settle: Duration,
    /// Where it is counted.
    pub progress: &'a Progress,
}

/// What came of a copy that a server made.
#[derive(Clone, Debug)]
pub struct ThirdPartyOutcome {
    /// Bytes of the file.
    pub bytes: u64,
    /// What was compared.
    pub verified: Verified,
    /// How its server was lost, where it was: the destination has the whole file all the same.
    pub lost: Option<Error>,
}

impl ThirdParty<'_> {
    /// Has the copy made. Dropping the future closes the connection to the active server, which gives the copy up.
    ///
    /// # Errors
    /// The active server's own words; `outcome_unknown` when it was lost, and the destination does not show that all is
    /// there; `peer_size_differs` and `checksum_mismatch` when something else is stored than the source has. That is
    /// removed when the copy made it.
    pub async fn copy(&self) -> Result<ThirdPartyOutcome> {
        match self.follow().await {
            Ok(()) => self.compare().await,
            Err(lost) if lost.code() == ErrorCode::OutcomeUnknown => self.settle(lost).await,
            Err(error) => {
                self.remove_empty(&error).await;
                Err(error)
            }
        }
    }

    /// Some servers create the file first and leave it empty when the copy fails: another way would
    /// find it, and take it for another client's file. The active server has reported its failure, so
    /// it no longer writes.
    async fn remove_empty(&self, error: &Error) {
        if !self.is_absent || error.code() == ErrorCode::PeerExists {
            return;
        }
        self.progress.enter(Phase::Cleanup);
        let found = self.client.head(self.destination, &[]).await;
        if found.is_ok_and(|facts| facts.size_bytes == Some(0)) {
            let _ = self.client.delete(self.destination).await;
        }
    }

    /// Orders the copy, and follows it to its end.
    async fn follow(&self) -> Result<()> {
        let (active, passive) = match self.direction {
            Direction::Pull => (self.destination, self.source),
            Direction::Push => (self.source, self.destination),
        };
        let order = CopyOrder {
            overwrite: self.order.overwrite == Overwrite::Allow,
            streams: match self.order.streams {
                Streams::Fixed(count) => Some(count),
                Streams::Chosen(_) => None,
            },
            expected: self.order.expected.clone(),
            ..CopyOrder::new(passive.location.clone(), self.direction, self.shown.clone())
        };
        self.progress.enter(Phase::Open);
        let mut copying = self.client.copy(active, &order).await?;
        self.progress.enter(Phase::Transfer);
        while let Some(news) = copying.next().await? {
            self.progress.set_moved(news.bytes);
        }
        Ok(())
    }
}
