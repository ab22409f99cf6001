//! Limits of this crate. Those that a site may want to change are defaults that the configuration
//! overrides; the rest are fixed.

use std::time::Duration;

/// Longest value of a header with many ranges that we send, in bytes: servers take lines of 8 KiB.
pub const RANGES_VALUE_BYTES_MAX: usize = 7 * 1024;
/// What a server may send between two ranges to save a part of its answer, in bytes.
pub const RANGES_GAP_BYTES_MAX: u64 = 64 * 1024;
/// How long a proxy that our client delegates holds, when the one that signs it does.
pub const DELEGATED_LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Interim answers (1xx) passed over in front of one answer of a peer.
pub const INTERIM_ANSWERS_MAX: usize = 64;
/// Idle connections kept to one peer. Copies from one source come by the hundred, and each
/// connection that is open already saves it a handshake; one that waits takes 5 KiB of ours, and
/// 37 KiB of XRootD.
pub const IDLE_PEER_CONNECTIONS_MAX: usize = 128;
/// Idle connections kept to all peers together.
pub const IDLE_CONNECTIONS_MAX: usize = 512;
/// How long an idle connection to a peer is kept; most servers close theirs a little later.
pub const IDLE_PEER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an upload waits for `100 Continue` before it goes on without (RFC 9110 §10.1.1 allows
/// any time; curl waits as long).
pub const CONTINUE_WAIT: Duration = Duration::from_secs(1);
/// How long a peer that refuses a request may take to say why.
pub const PEER_WORDS_WAIT: Duration = Duration::from_secs(5);
/// Largest rest of a peer's answer that is read so that its connection can be used again, in
/// bytes.
pub const DRAIN_BYTES_MAX: u64 = 64 * 1024;
/// How long to wait before asking again for a checksum that a peer is still computing.
pub const ACCEPTED_POLL_PERIOD: Duration = Duration::from_secs(5);
/// How long a peer may be silent about a checksum before it is asked a second time, beside the
/// first. XRootD before 5.9.1 now and then loses the answer when it has computed the checksum (its
/// issue 2602); one that still computes takes both askers together.
pub const CHECKSUM_ASKED_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// How long a peer may put off an answer (Retry-After) in all. Shorter than [`PACE_WINDOW`],
/// within which a copy has to move data.
pub const RETRY_AFTER_TIME: Duration = Duration::from_secs(100);
/// The shortest pause before a peer that put off its answer is asked again.
pub const RETRY_AFTER_MIN: Duration = Duration::from_millis(500);
/// How often to ask for a checksum that a peer is still computing; dCache gives up after as long.
pub const ACCEPTED_POLLS_MAX: u32 = 52;
/// How long a source of the XRootD protocol may take to tell the checksum of a file that has come,
/// in the session in which it is open. Shorter than [`PACE_WINDOW`], within which a copy has to
/// move data.
pub const CHECKSUM_AT_END_WAIT: Duration = Duration::from_secs(60);
/// Default: time between two performance markers after which a third-party copy is given up.
pub const MARKER_SILENCE: Duration = Duration::from_secs(120);
/// Bytes that one read request of the XRootD protocol asks for.
pub const ROOT_READ_BYTES: u64 = 4 * 1024 * 1024;
/// Read requests of one download that are under way at the same time. Together they fill a long
/// fast link; only a server that answers out of order makes us hold any of it in memory.
pub const ROOT_READS_MAX: usize = 8;
/// [`ROOT_READS_MAX`] on a further stream of a session. The reference server sends one and keeps
/// five waiting; with one more it would take no request for any stream until there is room again.
pub const ROOT_BOUND_READS_MAX: usize = 6;
/// Time in which the refusal of a request has come, where the further stream that was to carry the
/// answer has ended.
pub const ROOT_REFUSAL_WAIT: Duration = Duration::from_millis(100);
/// Bytes of one upload that may be under way without the server's answer.
pub const ROOT_WRITE_WINDOW_BYTES: u64 = 32 * 1024 * 1024;
/// How long a request of the XRootD protocol may be put off by its server, all waits together; the
/// reference client gives up after as long.
pub const ROOT_PATIENCE: Duration = Duration::from_secs(1800);
/// Shortest time before a request is sent again that a server asked to repeat.
pub const ROOT_WAIT_MIN: Duration = Duration::from_millis(50);
/// Unsolicited messages of an XRootD server that are passed over in front of one answer.
pub const ROOT_ATTENTIONS_MAX: usize = 64;
/// Longest words of an XRootD server, such as an error or a redirection, that are read, in bytes.
pub const ROOT_WORDS_BYTES_MAX: usize = 64 * 1024;
/// Servers that a redirector is told not to choose again in one request.
pub const ROOT_TRIED_MAX: usize = 8;
/// Answers on one connection that are not awaited, such as the answer to a close.
pub const ROOT_UNHEARD_MAX: usize = 64;
/// Stat requests under way at the same time on one connection, as while a directory is listed
/// whose server tells only names.
pub const ROOT_STATS_MAX: usize = 64;
/// How long the source of an XRootD third-party copy may take to open it for a client under one
/// spelling of its host, until the other is tried as well. Far shorter than keys live.
pub const TPC_RESPELL_WAIT: Duration = Duration::from_secs(1);
