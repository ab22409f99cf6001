//! Limits of S3 ("Amazon S3 multipart upload limits") and of what we read.

/// Least bytes of a part, but for the last one.
pub const PART_BYTES_MIN: u64 = 5 * 1024 * 1024;
/// Most bytes of a part, of one PUT, and of one copy within a store.
pub const PART_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;
/// Most parts of an object.
pub const PARTS_MAX: u64 = 10_000;
/// Usual bytes of a part: large enough that its request costs little, small enough that a part that
/// is lost costs little.
pub const PART_BYTES_USUAL: u64 = 64 * 1024 * 1024;
/// Most tags of an object.
pub const TAGS_MAX: usize = 10;
/// Parts that are collected in memory before they become larger.
pub const COLLECTED_PARTS_OF_A_SIZE: u64 = 2000;
/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// Longest name of a bucket, in bytes. Older buckets may be longer than today's 63.
pub const BUCKET_BYTES_MAX: usize = 255;
/// Longest answer that is read, in bytes: a thousand entries with encoded keys.
pub const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Deepest nesting of an answer.
pub const XML_DEPTH_MAX: usize = 16;
/// Longest value of an upload's identifier or a token for the next page, in bytes.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// Longest life of a signed URL, in seconds.
pub const LIFETIME_S_MAX: u64 = 7 * 24 * 3600;
/// Longest file of keys that is read, in bytes.
pub const KEY_FILE_BYTES_MAX: usize = 1024 * 1024;
