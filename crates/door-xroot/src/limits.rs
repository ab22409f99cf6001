//! Limits of this crate. Those that a site may want to change are defaults that the configuration
//! overrides; the rest are fixed.

use std::time::Duration;

/// Destinations that wait at the same time for a client to register a key.
pub const TPC_WAITING_MAX: usize = 1024;
/// How long we tell the client of an XRootD third-party copy to wait for its end. This limits the
/// client's patience, not the copy; the reference server says the same.
pub const TPC_COPY_TIME: Duration = Duration::from_secs(1800);
/// How long a delegated proxy must still be valid for a copy to begin with it.
pub const TPC_DELEGATION_LEFT_MIN: Duration = Duration::from_secs(2 * 60);
/// Timeout of a name-service lookup for the host of a copy's client or destination.
pub const TPC_LOOKUP_WAIT: Duration = Duration::from_secs(5);
/// How long an XRootD request waits for a file that the client's host is writing on another
/// session.
pub const PENDING_WAIT: Duration = Duration::from_secs(1);
/// How long one half of a key agreement serves logins with `gsi`: making one costs several times
/// what a login costs.
pub const GSI_AGREEMENT_LIFETIME: Duration = Duration::from_secs(60);
/// Logins with `gsi` that are calculated at the same time; others wait.
pub const GSI_CALCULATIONS_MAX: usize = 4;
/// How long a login with `gsi` waits for its turn to make a key for a delegated proxy. Then it goes
/// on without one.
pub const GSI_KEY_WAIT: Duration = Duration::from_secs(5);
/// Unfinished XRootD uploads that are remembered, over all clients.
pub const INTERRUPTED_UPLOADS_MAX: usize = 4096;
/// Late answers (checksums, copies) that one session may wait for.
pub const XROOT_LATE_ANSWERS_MAX: usize = 64;
/// How long a client waits for a late answer, as we ask it to.
pub const XROOT_LATE_ANSWER_TIME: Duration = Duration::from_secs(600);
/// Ranges queued on one further stream of a session. When it is full, the session's own stream
/// waits.
pub const XROOT_BOUND_QUEUE_MAX: usize = 64;
/// Idle timeout of an XRootD connection with open files. Analysis programs keep files open while
/// they compute; the reference server waits as long.
pub const XROOT_OPEN_IDLE_TIMEOUT: Duration = Duration::from_secs(5400);
/// Requests of one burst that are served before the connection sends late answers.
pub const XROOT_BURST_REQUESTS_MAX: usize = 64;
/// Answers to a burst are sent when this many bytes are queued.
pub const XROOT_QUEUED_BYTES_MAX: usize = 64 * 1024;
/// The answer to a request that took longer is sent before the next one of its burst is served.
pub const XROOT_QUEUED_TIME_MAX: Duration = Duration::from_millis(5);
/// [`XROOT_OPEN_IDLE_TIMEOUT`] while open files are scarce.
pub const XROOT_SHORT_OPEN_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Most bytes in one message of a read's answer; more are split.
pub const XROOT_PART_BYTES: u64 = 16 * 1024 * 1024;
/// Names with which the client of one session was sent to other servers, and that are remembered in
/// case it comes back.
pub const XROOT_REDIRECTS_KEPT_MAX: usize = 128;
/// How often the client has to wait for the servers that may have a file, before it gets the error.
/// A server that has just started refuses changes for ten seconds and a fraction
/// ([`CAPABILITY_CLOCK_SKEW_S`](credentials::limits::CAPABILITY_CLOCK_SKEW_S)), and a redirector
/// learns a second later that it takes them again.
pub const XROOT_WAITS_MAX: u32 = 14;
/// The same for a stat, which clients send before they begin anything.
pub const XROOT_STAT_WAITS_MAX: u32 = 2;
/// How long it waits each time, in seconds.
pub const XROOT_WAIT_S: u32 = 1;
/// Files opened with a capability that are remembered over all clients, for questions about them.
pub const CAPABILITY_USES_MAX: usize = 1024;
/// How long a client may ask for the checksum of such a file after it was opened or closed.
pub const CAPABILITY_USE_TIME: Duration = Duration::from_secs(300);
/// Names for which one session waits in this way; the oldest give way.
pub const XROOT_WAITING_NAMES_MAX: usize = 64;
