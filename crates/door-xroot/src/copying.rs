//! An open file that stands for a third-party copy.

use std::sync::Arc;

use endpoint::PeerCredential;
use remote::Resource;
use storage::Stat;
use transfer::Order;
use xroot_wire::StreamId;

use crate::copy_progress::CopyProgress;
use crate::writers::WriteClaim;

/// A copy that an open file stands for. Closing or dropping the file before the end cancels it.
pub(crate) struct Copying {
    pub(crate) source: CopySource,
    pub(crate) order: Order,
    pub(crate) stage: Stage,
    pub(crate) progress: Arc<CopyProgress>,
    pub(crate) _claim: WriteClaim,
}

/// The file that a copy fetches.
#[derive(Clone)]
pub(crate) struct CopySource {
    /// As the copy opens it.
    pub(crate) file: Resource,
    /// What its server is shown.
    pub(crate) shown: Option<PeerCredential>,
    /// The number with which the client marks the copy's flows (SciTags).
    pub(crate) tag: Option<u16>,
}

/// The stages of a copy.
pub(crate) enum Stage {
    /// Only rights have been checked.
    Ordered,
    /// The next sync begins it.
    Prepared,
    /// It has begun, for this request.
    Begun(StreamId),
}

impl Copying {
    /// What a client sees of the file.
    pub(crate) fn stat(&self) -> Stat {
        self.progress.stat()
    }

    /// The request that waits for its end.
    pub(crate) fn awaited_by(&self) -> Option<StreamId> {
        match self.stage {
            Stage::Begun(request) => Some(request).filter(|_| self.progress.ending().is_none()),
            _ => None,
        }
    }
}
