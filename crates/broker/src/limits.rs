//! Limits of this crate. They are fixed.

use std::time::Duration;

/// Bytes that are written to a broker at once.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a broker's frame that is not whole yet.
pub const INPUT_BYTES_MAX: usize = 64 * 1024;
/// Time for a connection to a broker, and for its TLS handshake.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for a broker's next confirmation.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for confirmations of a broker that takes no more messages.
pub const LAST_RECEIPTS_TIME: Duration = Duration::from_secs(1);
/// The first pause after a failed connection to a broker; each further one is twice as long.
pub const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest pause between connections to a broker.
pub const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Heart-beats that brokers are offered.
pub const BEAT: Duration = Duration::from_secs(10);
