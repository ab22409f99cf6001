//! Limits of this crate. They are fixed: no configuration key overrides them.

/// Largest unread part of a refused request's body that is read so that its connection can be used
/// again, in bytes.
pub const REFUSED_BODY_BYTES_MAX: u64 = 256 * 1024;
/// Most of what a refused client still sends that is discarded before its connection is closed, so
/// that a reset does not overtake the answer, in bytes. A client on a long fast link has about as
/// much in flight before it sees the answer.
pub const LINGER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A refusal in the form of a control door's own protocol, in bytes.
pub const REFUSAL_BODY_BYTES_MAX: usize = 64 * 1024;
/// Seconds after which a client may repeat a request that failed for lack of room or time.
pub const RETRY_AFTER_S: u64 = 10;
/// Refused connections of a control door that get the reason at the same time.
pub const REFUSED_CONNECTIONS_MAX: usize = 16;
/// Percentage of a control door's connections that one client may have while it is alone. Operators
/// may come by one proxy, and monitoring from one address; half is enough for them, and leaves room
/// for others.
pub const CONTROL_CLIENT_PERCENT: u32 = 50;
