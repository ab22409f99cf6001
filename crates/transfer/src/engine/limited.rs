//! The length of what a source sends: at most what the order allows, at least what the source said.

use net::Batch;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::source::Incoming;
use crate::mover::Payload;
use crate::options::Order;

/// Incoming data between two limits. A source that does not tell its size, or lies about it, is stopped at the order's limit.
pub(super) struct Limited<'a> {
    pub(super) incoming: &'a mut Box<dyn Incoming>,
    pub(super) order: &'a Order,
    /// Bytes of the file until now, those of earlier connections included.
    pub(super) bytes: u64,
    /// The file must not be shorter. Where an answer has no length only this tells the file from its front: a lost
    /// connection looks like the end.
    pub(super) least_bytes: u64,
}

impl Payload for Limited<'_> {
    async fn next(&mut self) -> Result<Option<Batch>> {
        let batch = self.incoming.next().await?;
        self.bytes += batch.as_ref().map_or(0, |batch| batch.len() as u64);
        self.order.check_size(self.bytes)?;
        match batch {
            None if self.bytes < self.least_bytes => Err(differs(self.bytes, self.least_bytes)),
            batch => Ok(batch),
        }
    }
}

/// Another number of bytes came than the source had announced.
pub(super) fn differs(came: u64, announced: u64) -> Error {
    let error = Error::new(ErrorCode::PeerSizeDiffers, Side::Source, Phase::Transfer);
    error.with_detail(format!("{came} bytes came, {announced} were announced"))
}

/// The file has another size than when the source was asked.
pub(super) fn changed(asked: u64, now: u64, phase: Phase) -> Error {
    let error = Error::new(ErrorCode::SourceChanged, Side::Source, phase);
    error.with_detail(format!("it had {asked} bytes when asked and has {now} now"))
}
