//! Limits of this crate. Those that a site may want to change are defaults that the configuration
//! overrides; the rest are fixed.

/// Replaced or removed files that wait to be closed in the background; more are closed at once.
pub const LATE_CLOSES_MAX: usize = 256;
/// Space that an upload of unknown size asks for at a time, in bytes.
pub const SPACE_STEP_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes after which an upload's data are sent on to the disk, so that the last sync is short.
pub const WRITEBACK_STEP_BYTES: u64 = 32 * 1024 * 1024;
/// Announced size from which an upload's blocks are set aside at once, in bytes.
pub const PREALLOCATE_BYTES_MIN: u64 = 1024 * 1024;
/// Deepest nesting of directories in a tree that is removed or copied as a whole; a path can name
/// half as many.
pub const STORED_TREE_DEPTH_MAX: usize = 4096;
/// Deepest nesting of directories that the scan of an export's usage follows.
pub const SCAN_DEPTH_MAX: usize = 128;
/// A file of up to this size is made durable on the thread that received it, while the disk is
/// quick.
pub const SMALL_COMMIT_BYTES: u64 = 1024 * 1024;
/// Files whose checksums a store remembers because nothing can be kept with them.
pub const CHECKSUMS_REMEMBERED_MAX: usize = 64 * 1024;
