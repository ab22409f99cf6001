//! The memory that a store holds for a client, counted in the client's share.

use std::sync::Arc;

use storage::{Held, HoldMemory};
use types::Result;

use crate::fair_share::{ClientId, FairShare, ShareKind};
use crate::limits::BODY_PIECE_BYTES;

/// Memory of one client, counted with that for bodies of its requests ([`ShareKind::Bodies`]).
pub struct ClientMemory {
    fair_share: FairShare,
    client: ClientId,
}

impl ClientMemory {
    /// The memory of this client.
    #[must_use]
    pub fn new(fair_share: FairShare, client: ClientId) -> Self {
        Self { fair_share, client }
    }
}

impl HoldMemory for ClientMemory {
    fn hold(&self, bytes: u64) -> Result<Held> {
        let pieces = bytes.div_ceil(BODY_PIECE_BYTES as u64);
        let pieces = usize::try_from(pieces).unwrap_or(usize::MAX);
        let share = self.fair_share.take_many(ShareKind::Bodies, &self.client, pieces)?;
        Ok(Arc::new(share))
    }
}
