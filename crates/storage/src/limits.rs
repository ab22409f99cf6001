//! Limits of this crate. All are fixed.

/// Replaced or removed files that wait to be closed in the background; further ones are closed at
/// once.
pub const LATE_CLOSES_MAX: usize = 256;
/// Space that an upload of unknown size reserves at a time, in bytes.
pub const SPACE_STEP_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes after which an upload's data is sent to the disk, so that the final sync is short.
pub const WRITEBACK_STEP_BYTES: u64 = 32 * 1024 * 1024;
/// Announced size from which an upload's blocks are allocated at once, in bytes.
pub const PREALLOCATE_BYTES_MIN: u64 = 1024 * 1024;
/// Deepest nesting of directories in a tree that is removed or copied as a whole; a path can name
/// half as many.
pub const STORED_TREE_DEPTH_MAX: usize = 4096;
/// Deepest nesting of directories that the usage scan of an export follows.
pub const SCAN_DEPTH_MAX: usize = 128;
/// Files up to this size are made durable on the thread that received them, while the disk is fast.
pub const SMALL_COMMIT_BYTES: u64 = 1024 * 1024;
/// Files whose checksums are cached because they cannot be stored with the file.
pub const CHECKSUMS_REMEMBERED_MAX: usize = 64 * 1024;
