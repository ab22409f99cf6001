//! Finds the outcome of a copy whose active server was lost: the connection broke, or was silent
//! for too long.
//!
//! The server may still be copying. In HTTP-TPC it must abort when its client leaves, but nothing
//! guarantees that it has:
//!
//! - It notices with its next marker, up to five seconds later, or only when a retransmission times
//!   out: a firewall may cut the connection without either end seeing it.
//! - StoRM ignores that markers cannot be sent, and continues to copy.
//! - A front end may break while the pool behind it continues.
//!
//! The same holds for XRootD: the end of the session ends the copy, once the destination sees that
//! end. Neither protocol has a transfer id, or a request by which another connection could end the
//! copy or ask for its state.
//!
//! So a second way could write into the file of the first, or remove it when it cleans up:
//! `outcome_unknown` allows no other way, and nothing is removed here. Only the destination shows
//! the outcome. A file that has the source's size and checksum is what was ordered, whichever
//! server wrote it. Anything else may still change: the destination is asked again until it has
//! shown the same for [`ThirdParty::settle`].

use std::time::Duration;

use tokio::time::{Instant, sleep};
use types::{Checksum, Error, ErrorCode, Phase, Result};

use super::compare::{COMMON, algorithms};
use super::{ThirdParty, ThirdPartyOutcome};
use crate::options::Verified;

/// Pause before the destination is asked again; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// The expected file.
struct Wanted {
    size_bytes: Option<u64>,
    /// Of several algorithms if the source tells them: an object store has others than a server.
    checksums: Vec<Checksum>,
}

/// The state of the destination.
enum Seen {
    /// The whole file, compared.
    Whole(u64, Checksum),
    /// A file of this size, incomplete or another one.
    Other(u64),
    /// A file of the right size, without a checksum to compare.
    Uncompared,
    /// No such file.
    Nothing,
    /// The destination does not report it.
    Untold,
}

impl ThirdParty<'_> {
    /// Finds the outcome of a copy whose active server was lost.
    ///
    /// # Errors
    /// `lost`, with the state of the destination.
    pub(super) async fn settle(&self, lost: Error) -> Result<ThirdPartyOutcome> {
        self.progress.enter(Phase::Checksum);
        let wanted = self.wanted().await;
        let (mut most_bytes, mut since, mut pause) = (0, Instant::now(), FIRST_PAUSE);
        loop {
            let seen = self.look(&wanted).await;
            match seen {
                Seen::Whole(bytes, checksum) => {
                    self.progress.set_moved(bytes);
                    return Ok(ThirdPartyOutcome {
                        bytes,
                        verified: Verified::Agreed(checksum),
                        lost: Some(lost),
                    });
                }
                // It is still being written.
                Seen::Other(bytes) if bytes > most_bytes => (most_bytes, since) = (bytes, Instant::now()),
                _ => {}
            }
            if since.elapsed() >= self.settle {
                return Err(with_sight(lost, &seen, &wanted));
            }
            sleep(pause.min(self.settle)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// The expected file, by the source or the order.
    async fn wanted(&self) -> Wanted {
        let algorithms = if self.order.expected.is_some() {
            &[][..]
        } else {
            &COMMON
        };
        let facts = self.client.head(self.source, algorithms).await.ok();
        let size_bytes = facts.as_ref().and_then(|facts| facts.size_bytes);
        let told = facts.map(|facts| facts.checksums).unwrap_or_default();
        Wanted {
            size_bytes: size_bytes.or(self.progress.total_bytes()),
            checksums: self.order.expected.clone().map_or(told, |expected| vec![expected]),
        }
    }

    /// Asks the destination. Requests the checksum only if the size is right, since the server may
    /// have to read the whole file for it.
    async fn look(&self, wanted: &Wanted) -> Seen {
        let size = match self.client.head(self.destination, &[]).await {
            Ok(facts) => facts.size_bytes,
            Err(error) if error.code() == ErrorCode::PeerNotFound => return Seen::Nothing,
            Err(_) => return Seen::Untold,
        };
        match (size, wanted.size_bytes) {
            (Some(bytes), Some(wanted)) if bytes != wanted => return Seen::Other(bytes),
            _ => {}
        }
        let (Some(bytes), false) = (size.or(wanted.size_bytes), wanted.checksums.is_empty()) else {
            return Seen::Uncompared;
        };
        let stored = self.sums(self.destination, &algorithms(&wanted.checksums)).await;
        match self.same_kind_of_both(&wanted.checksums, stored).await {
            Some((declared, stored)) if stored == declared => Seen::Whole(bytes, stored),
            _ => Seen::Uncompared,
        }
    }
}

/// The error with the state of the destination.
fn with_sight(lost: Error, seen: &Seen, wanted: &Wanted) -> Error {
    let sight = match (seen, wanted.size_bytes) {
        (Seen::Other(bytes), Some(wanted)) => format!("the destination has {bytes} bytes, the source {wanted}"),
        (Seen::Nothing, _) => "the destination has no such file".to_owned(),
        (Seen::Untold, _) => "the destination does not say what it has: a part of the file may remain there".to_owned(),
        (Seen::Whole(..) | Seen::Other(_) | Seen::Uncompared, _) => {
            "the destination has a file whose content is not known to be the source's".to_owned()
        }
    };
    let detail = match lost.detail() {
        Some(detail) => format!("{detail}; {sight}"),
        None => sight,
    };
    lost.with_detail(detail)
}
