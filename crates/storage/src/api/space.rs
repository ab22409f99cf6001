//! Space and quotas.

use std::sync::Arc;

use types::LogicalPath;

/// Space, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Size of the file system, or the quota if that is smaller; `i64::MAX` if unknown.
    pub total_bytes: u64,
    /// What new files can take, after the reserve, running uploads and the quota.
    pub free_bytes: u64,
    /// What the files take: with a quota those of this export (until the first scan ends, of the
    /// files that it has counted), otherwise those of the whole file system.
    pub used_bytes: u64,
    /// The export's quota.
    pub quota_bytes: Option<u64>,
    /// The number of the file system; `None` where it is not on this machine.
    pub device: Option<u64>,
}

/// The usage of a virtual organisation's quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoUsage {
    /// The VO.
    pub vo: Arc<str>,
    /// The path of the quota, as clients use it.
    pub path: LogicalPath,
    /// Bytes of its files; until the first scan ends, of those that it has reached.
    pub used_bytes: u64,
    /// The quota in bytes.
    pub limit_bytes: u64,
}
