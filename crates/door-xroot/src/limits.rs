//! Limits of this crate. Those that a site may want to change are defaults that the configuration
//! overrides; the rest are fixed.

use std::time::Duration;

/// Destinations that wait at the same time for their client to register a key.
pub const TPC_WAITING_MAX: usize = 1024;
/// How long the client of an XRootD third-party copy is told to wait for its end. It is a promise
/// of ours, not a limit on the copy; the reference server makes the same.
pub const TPC_COPY_TIME: Duration = Duration::from_secs(1800);
/// How long the name service may take to say which host a copy's client or destination is.
pub const TPC_LOOKUP_WAIT: Duration = Duration::from_secs(5);
/// How long a request of the XRootD protocol waits for a file that its client's host is writing on
/// another session.
pub const PENDING_WAIT: Duration = Duration::from_secs(1);
/// Time for which one half of a key agreement serves the logins with `gsi`: making one costs
/// several times what a login costs.
pub const GSI_AGREEMENT_LIFETIME: Duration = Duration::from_secs(60);
/// Calculations for logins with `gsi` that run at the same time; others wait for their turn.
pub const GSI_CALCULATIONS_MAX: usize = 4;
/// Uploads over the XRootD protocol that are remembered as begun and not ended, over all clients.
pub const INTERRUPTED_UPLOADS_MAX: usize = 4096;
/// Answers that one session waits for while they are being worked on, such as checksums and
/// copies.
pub const XROOT_LATE_ANSWERS_MAX: usize = 64;
/// Time within which a late answer is promised.
pub const XROOT_LATE_ANSWER_TIME: Duration = Duration::from_secs(600);
/// Ranges that wait to be sent on one further stream of a session; the session's own stream waits
/// then.
pub const XROOT_BOUND_QUEUE_MAX: usize = 64;
/// How long a connection of the XRootD protocol with open files may be silent. Analysis programs
/// keep files open while they compute; the reference server waits as long.
pub const XROOT_OPEN_IDLE_TIMEOUT: Duration = Duration::from_secs(5400);
/// Requests that came together and are served before a connection looks at anything else, such as
/// answers that have become ready meanwhile.
pub const XROOT_BURST_REQUESTS_MAX: usize = 64;
/// Bytes of answers that are gathered while a client sends more requests at once.
pub const XROOT_QUEUED_BYTES_MAX: usize = 64 * 1024;
/// A request that took longer is answered at once, before those behind it are served.
pub const XROOT_QUEUED_TIME_MAX: Duration = Duration::from_millis(5);
/// [`XROOT_OPEN_IDLE_TIMEOUT`] while open files run short.
pub const XROOT_SHORT_OPEN_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of a read that are sent as one message; more are divided.
pub const XROOT_PART_BYTES: u64 = 16 * 1024 * 1024;
