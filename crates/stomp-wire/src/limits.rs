//! Limits of this crate. They are fixed.

/// Command and headers of a frame, in bytes.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Headers of a frame.
pub const HEADERS_MAX: usize = 64;
/// Body of a frame that is read, in bytes: of a client that subscribes none, of a broker the words
/// of an error. Publishers' messages are not read here.
pub const BODY_BYTES_MAX: usize = 16 * 1024;
/// Subscriptions of one session. There are four topics.
pub const SUBSCRIPTIONS_MAX: usize = 16;
