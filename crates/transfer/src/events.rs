//! Who hears what doors and copies do. The binary turns it into log lines and metrics.

use std::sync::Arc;

use endpoint::{Moved, RequestLog, RequestRecord, TransferRecord, TransferStart};
use types::{LogicalPath, Unlisted};

use crate::progress::Progress;

/// Hears of third-party copies. All calls must return at once.
pub trait TransferEvents: Send + Sync + 'static {
    /// A third-party copy has ended.
    fn transfer(&self, record: &TransferRecord);

    /// A third-party copy begins; `progress` can be read until its end is reported.
    fn transfer_started(&self, _start: &TransferStart, _progress: &Arc<Progress>) {}
}

/// Hears of everything that doors do. All calls must return at once.
pub trait Events: RequestLog + TransferEvents {
    /// Data of an open file has been moved for a request.
    fn moved(&self, _moved: &Moved) {}

    /// A directory was listed, and the listing leaves out names that are in it.
    fn names_unlisted(&self, _directory: &LogicalPath, _unlisted: &Unlisted) {}
}

/// Ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

impl Events for NoEvents {}

impl RequestLog for NoEvents {
    fn request(&self, _record: &RequestRecord) {}
}

impl TransferEvents for NoEvents {
    fn transfer(&self, _record: &TransferRecord) {}
}
