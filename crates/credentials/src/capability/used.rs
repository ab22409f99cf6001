//! The memory of capabilities for writing that were used: each counts once.

use std::collections::{HashMap, VecDeque};

use crate::limits::CAPABILITIES_USED_MAX;
use types::{Error, ErrorCode, Phase, Side};

use super::Redeemed;
use crate::sealed::SEAL_SALT_BYTES;

type Id = [u8; SEAL_SALT_BYTES];

/// Capabilities that were used and have not expired. Bounded: while it is full no other is
/// honoured, because forgetting one that still holds would let it be used again.
#[derive(Debug, Default)]
pub struct UsedCapabilities {
    expires_s: HashMap<Id, i64>,
    /// In the order of use, which is nearly that of expiry.
    order: VecDeque<Id>,
}

impl UsedCapabilities {
    /// Notes the use of a capability at `now_s`. Those for reading may be used again and are not
    /// noted.
    ///
    /// # Errors
    /// `capability_used` when it was used before; `overloaded` when too many are remembered.
    pub fn note(&mut self, redeemed: &Redeemed, now_s: i64) -> Result<(), Error> {
        if redeemed.capability.usage.is_harmless() {
            return Ok(());
        }
        self.forget(now_s);
        let refused = |code| Err(Error::new(code, Side::Client, Phase::Authenticate));
        if self.expires_s.contains_key(&redeemed.id) {
            return refused(ErrorCode::CapabilityUsed);
        }
        if self.order.len() >= CAPABILITIES_USED_MAX {
            return refused(ErrorCode::Overloaded)
                .map_err(|error| error.with_detail(format!("used capabilities: {CAPABILITIES_USED_MAX}")));
        }
        self.expires_s.insert(redeemed.id, redeemed.capability.expires_s);
        self.order.push_back(redeemed.id);
        Ok(())
    }

    /// Forgets those that have expired, from the oldest on.
    fn forget(&mut self, now_s: i64) {
        while let Some(oldest) = self.order.front() {
            if self.expires_s.get(oldest).is_some_and(|expires_s| *expires_s > now_s) {
                return;
            }
            self.expires_s.remove(oldest);
            self.order.pop_front();
        }
    }

    /// How many are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}
