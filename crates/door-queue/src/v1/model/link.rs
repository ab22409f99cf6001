//! Links, and decisions about them.

use serde::Serialize;
use utoipa::ToSchema;

use crate::queue::{self, LinkState};

/// The work of one virtual organisation on a link.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::v1) struct Link {
    /// The source's storage.
    source: String,
    /// The destination's storage.
    destination: String,
    /// The virtual organisation.
    vo: String,
    /// Copies that run.
    active: u64,
    /// Files that wait for their turn.
    waiting: u64,
    /// Files that wait for a retry, or for a storage.
    delayed: u64,
    /// Files that a ban holds.
    banned: u64,
    /// Copies that may run at once; `null`: the link has no limit yet.
    limit: Option<u32>,
    /// Bytes per second of the whole link, as this process measured it last.
    goodput_bytes_s: f64,
    /// Whether operators have paused it.
    is_paused: bool,
    /// Why it stands still for a time.
    held: Option<Held>,
    /// Why the optimizer has set this limit.
    rationale: Option<String>,
}

/// Why a link stands still.
#[derive(Debug, Serialize, ToSchema)]
struct Held {
    /// Until when, in milliseconds since 1970.
    until_ms: i64,
    /// What the storage cannot do.
    reason: String,
    /// The same with the storage's words and the URL of the file that failed; `null` for those who
    /// may not see the jobs of all.
    detail: Option<String>,
}

impl Link {
    /// A link, with or without details of files.
    pub(in crate::v1) fn of(link: LinkState, has_details: bool) -> Self {
        Self {
            source: link.source,
            destination: link.destination,
            vo: link.vo,
            active: link.active,
            waiting: link.waiting,
            delayed: link.delayed,
            banned: link.banned,
            limit: link.limit,
            goodput_bytes_s: link.goodput_bytes_s,
            is_paused: link.is_paused,
            held: link.held.map(|held| Held {
                until_ms: held.until_ms,
                reason: held.reason,
                detail: has_details.then_some(held.detail),
            }),
            rationale: link.rationale,
        }
    }
}

/// A decision of the optimizer.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::v1) struct Decision {
    /// When, in milliseconds since 1970.
    at_ms: i64,
    /// The source's storage.
    source: String,
    /// The destination's storage.
    destination: String,
    /// Copies that may run at once from then on.
    limit: u32,
    /// The change.
    difference: i32,
    /// Bytes per second, all copies together.
    goodput_bytes_s: f64,
    /// Of 100 attempts since the decision before, those that ended well.
    success_percent: f64,
    /// Files that waited.
    waiting: u64,
    /// Why, in words.
    rationale: String,
}

impl From<queue::Decision> for Decision {
    fn from(decision: queue::Decision) -> Self {
        Self {
            at_ms: decision.at_ms,
            source: decision.source,
            destination: decision.destination,
            limit: decision.limit,
            difference: decision.difference,
            goodput_bytes_s: decision.goodput_bytes_s,
            success_percent: decision.success_percent,
            waiting: decision.submitted,
            rationale: decision.rationale,
        }
    }
}
