//! Events of doors and copies. The binary turns them into log lines and metrics.

use std::sync::Arc;

use endpoint::{Moved, RequestLog, RequestRecord, TransferRecord, TransferStart};
use types::{LogicalPath, Unlisted};

use crate::progress::Progress;

/// Receives events of third-party copies. All calls must return at once.
pub trait TransferEvents: Send + Sync + 'static {
    /// A third-party copy has ended.
    fn transfer(&self, record: &TransferRecord);

    /// A third-party copy begins. `progress` can be read until [`TransferEvents::transfer`] is
    /// called.
    fn transfer_started(&self, _start: &TransferStart, _progress: &Arc<Progress>) {}
}

/// Receives all events of doors. All calls must return at once.
pub trait Events: RequestLog + TransferEvents {
    /// A request has moved data of an open file.
    fn moved(&self, _moved: &Moved) {}

    /// A listing of a directory left out some of its names.
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
