//! Limits towards managers.

use std::time::Duration;

/// Most managers of one server.
pub const MANAGERS_MAX: usize = 16;
/// Time for a connection to a manager.
pub const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Time for a manager to answer a login.
pub const LOGIN_TIME: Duration = Duration::from_secs(30);
/// A manager that says nothing for so long is left. It sends a ping each minute, unless it is
/// configured otherwise (`cms.ping`); XRootD's servers leave after three.
pub const SILENCE: Duration = Duration::from_secs(190);
/// Time for a manager to take what we send.
pub const SEND_TIME: Duration = Duration::from_secs(30);
/// First pause before another attempt. It doubles up to [`PAUSE_MAX`].
pub const PAUSE_MIN: Duration = Duration::from_millis(500);
/// Longest pause before another attempt.
pub const PAUSE_MAX: Duration = Duration::from_secs(15);
/// Pause after a refusal that an attempt soon after does not change: we are on the manager's
/// blacklist, or it wants an authentication.
pub const REFUSED_PAUSE: Duration = Duration::from_secs(60);
/// A session that lasted so long was a success: the next pause is the first one again, and further
/// managers are followed. One that ended earlier counts as a failed attempt.
pub const STEADY_TIME: Duration = Duration::from_secs(30);
/// Other managers that we follow in a row without a session of [`STEADY_TIME`].
pub const HOPS_MAX: usize = 8;
/// Questions of one manager that are looked into at the same time. Further ones wait in the
/// connection.
pub const QUESTIONS_MAX: usize = 64;
/// A question that takes longer gets no answer: a manager waits 5 s for one.
pub const ANSWER_TIME: Duration = Duration::from_secs(4);
/// Interval of reports on load and space. A manager asks for them only every ten minutes.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(15);
/// Bytes of the buffer for what a manager sends: the longest message, and more.
pub const BUFFER_BYTES: usize = 128 * 1024;
