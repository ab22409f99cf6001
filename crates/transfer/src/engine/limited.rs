//! Limits the length of incoming data: what the source reported, and at most what the order allows.

use net::Batch;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::source::Incoming;
use crate::mover::Payload;
use crate::options::Order;
use crate::progress::Progress;

/// Incoming data with both limits. A source that reports no size, or a wrong one, is stopped at the
/// order's limit.
pub(super) struct Limited<'a> {
    pub(super) incoming: &'a mut Box<dyn Incoming>,
    pub(super) order: &'a Order,
    /// Notes the time for which the order's rate limits hold the data back.
    pub(super) progress: &'a Progress,
    /// Bytes of the file so far, including those of earlier connections.
    pub(super) bytes: u64,
    /// The file must not be shorter. If an answer has no length, only this detects a lost
    /// connection, which looks like the end.
    pub(super) least_bytes: u64,
    /// The file must not be longer, if the source reported its length.
    pub(super) most_bytes: Option<u64>,
}

impl Payload for Limited<'_> {
    async fn next(&mut self) -> Result<Option<Batch>> {
        let batch = self.incoming.next().await?;
        let length = batch.as_ref().map_or(0, |batch| batch.len() as u64);
        for rate in &self.order.rates {
            rate.pass(length, self.progress).await;
        }
        self.bytes += length;
        self.order.check_size(self.bytes)?;
        if let Some(most) = self.most_bytes.filter(|most| self.bytes > *most) {
            return Err(differs(self.bytes, most));
        }
        match batch {
            None if self.bytes < self.least_bytes => Err(differs(self.bytes, self.least_bytes)),
            batch => Ok(batch),
        }
    }
}

/// The data has another length than the source announced.
pub(super) fn differs(came: u64, announced: u64) -> Error {
    let error = Error::new(ErrorCode::PeerSizeDiffers, Side::Source, Phase::Transfer);
    error.with_detail(format!("it announced {announced} bytes and sent {came}"))
}

/// The file has another size than the source reported before.
pub(super) fn changed(asked: u64, now: u64, phase: Phase) -> Error {
    let error = Error::new(ErrorCode::SourceChanged, Side::Source, phase);
    error.with_detail(format!("it had {asked} bytes before and has {now} now"))
}
