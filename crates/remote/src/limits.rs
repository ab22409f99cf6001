//! Limits of this crate. Defaults can be changed in the configuration; all others are fixed.

use std::time::Duration;

/// Longest value of our header with many ranges, in bytes. Servers accept lines of 8 KiB.
pub const RANGES_VALUE_BYTES_MAX: usize = 7 * 1024;
/// Most bytes that a server may send between two ranges to join their parts.
pub const RANGES_GAP_BYTES_MAX: u64 = 64 * 1024;
/// Lifetime of a proxy that our client delegates, unless its issuer expires earlier.
pub const DELEGATED_LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Shortest lifetime of a proxy that our client delegates. No copy would end within a shorter one.
pub const DELEGATED_LIFETIME_MIN: Duration = Duration::from_secs(60);
/// Longest refusal of a service that is asked for events, in bytes.
pub const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// Interim answers (1xx) skipped before one final answer.
pub const INTERIM_ANSWERS_MAX: usize = 64;
/// Idle connections kept to one server. Copies from one source come by the hundred, and an open
/// connection saves a handshake. An idle one takes 5 KiB here, and 37 KiB in XRootD.
pub const IDLE_PEER_CONNECTIONS_MAX: usize = 128;
/// Idle connections kept to all servers together.
pub const IDLE_CONNECTIONS_MAX: usize = 512;
/// How long an idle connection is kept; most servers close theirs a little later.
pub const IDLE_PEER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long ago a kept connection may have been used for a request that is not sent again when the
/// connection breaks. No server known to us closes idle connections sooner (Apache after 5 s).
pub const JUST_USED: Duration = Duration::from_secs(2);
/// How long a server may be silent about a request on a kept connection before the request goes out
/// again on a new one, if it can be repeated. XRootD 5.5.3 sometimes does not read the next request
/// of a connection at all.
pub const KEPT_ANSWER_WAIT: Duration = Duration::from_secs(10);
/// How long an upload waits for `100 Continue` before it starts (RFC 9110 §10.1.1 allows any time;
/// curl waits as long).
pub const CONTINUE_WAIT: Duration = Duration::from_secs(1);
/// How long a server that refuses a request may take to say why.
pub const PEER_WORDS_WAIT: Duration = Duration::from_secs(5);
/// Largest rest of an answer that is read to use its connection again, in bytes.
pub const DRAIN_BYTES_MAX: u64 = 64 * 1024;
/// Pause before another request for a checksum that a server is still computing.
pub const ACCEPTED_POLL_PERIOD: Duration = Duration::from_secs(5);
/// How long a server may be silent about a checksum before a second request goes out beside the
/// first. XRootD before 5.9.1 sometimes loses the answer when the checksum is computed (its issue
/// 2602); while it computes it serves both requests together.
pub const CHECKSUM_ASKED_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// How long a server may put off an answer (Retry-After) in total. Shorter than `PACE_WINDOW`,
/// within which a copy has to move data.
pub const RETRY_AFTER_TIME: Duration = Duration::from_secs(100);
/// The shortest pause before a retry that the server asked for.
pub const RETRY_AFTER_MIN: Duration = Duration::from_millis(500);
/// How often to ask a server of the XRootD protocol for a checksum while it answers with that of
/// another algorithm. XRootD makes one job of all questions about a file that come while it
/// computes, and answers each with the checksum of the first; of several askers, one more gets the
/// right one each time.
pub const ROOT_CHECKSUM_ASKS_MAX: usize = 6;
/// First pause before a checksum is asked for again, after a failure that may pass; it doubles.
pub const CHECKSUM_PAUSE: Duration = Duration::from_millis(100);
/// The longest of these pauses over HTTP, where an algorithm that XRootD does not know fails with
/// the same status as a failure that passes.
pub const CHECKSUM_PAUSE_MAX: Duration = Duration::from_millis(400);
/// How often to ask for a checksum that a server is still computing; dCache ends its attempt after
/// the same time.
pub const ACCEPTED_POLLS_MAX: u32 = 52;
/// How long a source of the XRootD protocol may take to answer with the checksum of a file after
/// its data, in the session in which it is open. Shorter than `PACE_WINDOW`, within which a copy
/// has to move data.
pub const CHECKSUM_AT_END_WAIT: Duration = Duration::from_secs(60);
/// Default: longest time between two progress markers of a third-party copy.
pub const MARKER_SILENCE: Duration = Duration::from_secs(120);
/// Bytes of one read request of the XRootD protocol.
pub const ROOT_READ_BYTES: u64 = 4 * 1024 * 1024;
/// Read requests of one download that are under way at the same time. Together they fill a long
/// fast link. Data are held in memory only when a server answers out of order.
pub const ROOT_READS_MAX: usize = 8;
/// [`ROOT_READS_MAX`] on a bound connection. The reference server sends one answer and queues five
/// requests; with one more it would read no request for any connection until the queue has room.
pub const ROOT_BOUND_READS_MAX: usize = 6;
/// How long to wait for the refusal of a request after its bound connection has ended.
pub const ROOT_REFUSAL_WAIT: Duration = Duration::from_millis(100);
/// Bytes of one upload that may be under way without an answer.
pub const ROOT_WRITE_WINDOW_BYTES: u64 = 32 * 1024 * 1024;
/// How long a server of the XRootD protocol may put off a request, all waits together; the same as
/// in the reference client.
pub const ROOT_PATIENCE: Duration = Duration::from_secs(1800);
/// Shortest pause before a request is repeated at the server's wish.
pub const ROOT_WAIT_MIN: Duration = Duration::from_millis(50);
/// How long all parts of one answer of an XRootD server may take, in multiples of the wait for the
/// first of them. Listings and data are not gathered, and have a pace instead.
pub const ROOT_ANSWER_WAITS_MAX: u32 = 10;
/// Unsolicited messages of an XRootD server that are skipped before one answer.
pub const ROOT_ATTENTIONS_MAX: usize = 64;
/// Longest text of an XRootD server that we read, such as an error or a redirection, in bytes.
pub const ROOT_WORDS_BYTES_MAX: usize = 64 * 1024;
/// Failed servers that one request reports to a redirector.
pub const ROOT_TRIED_MAX: usize = 8;
/// Ignored answers on one connection, such as the answer to a close.
pub const ROOT_UNHEARD_MAX: usize = 64;
/// Sessions that are remembered because they broke off while they wrote a file.
pub const ROOT_LOST_WRITERS_MAX: usize = 256;
/// Stat requests under way at the same time on one connection, as for the listing of a server that
/// sends only names.
pub const ROOT_STATS_MAX: usize = 64;
/// How long the source of an XRootD third-party copy may take to open the file under one spelling
/// of the client's host, until the other is tried too. Far shorter than the lifetime of a
/// rendezvous key.
pub const TPC_RESPELL_WAIT: Duration = Duration::from_secs(1);
/// How long closing the destination of a failed third-party copy is waited for. Then the connection
/// is closed, which closes the file too, a little later.
pub const COPY_CLOSE_WAIT: Duration = Duration::from_secs(5);
/// Files that one request to a tape system names; FTS asks for as many.
pub const TAPE_FILES_MAX: usize = 1000;
/// Longest answer of a tape system, in bytes: a thousand files with long paths.
pub const TAPE_ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Longest announcement of a tape system, in bytes.
pub const TAPE_DISCOVERY_BYTES_MAX: usize = 64 * 1024;
/// Longest name of a request at a tape system, in bytes.
pub const TAPE_REQUEST_ID_BYTES_MAX: usize = 256;
/// The latest version of the WLCG Tape REST API that we speak.
pub const TAPE_VERSION_MAX: u32 = 1;
/// Files that one request of the XRootD protocol may ask to bring online; XRootD's default.
pub const TAPE_PREPARE_MAX: usize = 48;
/// Files that one question about such a request names: XRootD's answers have 2 KiB by default.
pub const TAPE_PREPARE_ASKED_MAX: usize = 8;
/// Time of waiting for a server over which the pace of its listing is measured.
pub const LISTING_PACE_WINDOW: Duration = Duration::from_secs(300);
/// Least bytes of a listing that must come per [`LISTING_PACE_WINDOW`].
pub const LISTING_PACE_BYTES_MIN: usize = 4096;
/// Most entries of a listing: of one directory, or of the uploads in a bucket. A server that never
/// ends is given up.
pub const LISTING_ENTRIES_MAX: u64 = 10_000_000;
/// Most bytes of a listing between two entries.
pub const LISTING_GAP_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// What a page without entries counts among [`LISTING_GAP_BYTES_MAX`], in bytes. S3 servers may
/// send some, for instance while they pass over removed objects.
pub const LISTING_PAGE_BYTES: usize = 16 * 1024;
/// Time in which a token issuer must answer.
pub const ISSUER_ANSWER_TIME: Duration = Duration::from_secs(20);
/// What an issuer says of itself is asked for again after this time.
pub const ISSUER_DOCUMENT_LIFE: Duration = Duration::from_secs(600);
/// Time for that: the rest of [`ISSUER_ANSWER_TIME`] is for what it is needed for.
pub const ISSUER_DOCUMENT_RENEWAL_TIME: Duration = Duration::from_secs(5);
/// Pause until the next attempt if that fails.
pub const ISSUER_DOCUMENT_PAUSE: Duration = Duration::from_secs(60);
/// Longest answer of a token issuer, in bytes.
pub const ISSUER_ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Characters of an issuer's refusal that are kept.
pub const ISSUER_WORDS_MAX: usize = 100;
/// Longest life of a token that an issuer names and that counts, in seconds.
pub const TOKEN_LIFE_S_MAX: i64 = 366 * 24 * 3600;
/// Longest life of the code with which a user agrees to a token, in seconds.
pub const DEVICE_LIFE_S_MAX: u64 = 1800;
/// Pause between two questions whether the user has agreed, unless the issuer says another, in
/// seconds (RFC 8628 §3.2).
pub const DEVICE_PAUSE_S: u64 = 5;
/// How long a signed URL is good that another server gets for a copy: as long as a delegated proxy.
pub const SIGNED_FOR_COPY_LIFETIME: Duration = DELEGATED_LIFETIME;
/// How long the client waits at its end for the removal of parts that a failed upload left.
pub const S3_REMOVAL_WAIT: Duration = Duration::from_secs(20);
/// How long a signed URL of S3 is good. Only the beginning of a request counts, so this only has to
/// cover the difference of the clocks, and a request that waits for its connection.
pub const SIGNED_LIFETIME: Duration = Duration::from_secs(3600);
/// Pauses between the removals of the parts of one upload: one of them may come late.
pub const S3_REMOVAL_PAUSES: [Duration; 4] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(10),
];
/// How long the object of a trial may be in use: an older one was left by a killed process.
pub const S3_TRIAL_LIFETIME: Duration = Duration::from_secs(600);
/// How much older than the beginning of its upload an object may seem, in seconds: servers tell
/// times in whole seconds.
pub const S3_AGE_SLACK_S: i64 = 2;
/// First pause before a request is sent again to an S3 server that is overloaded; it doubles.
pub const S3_PAUSE: Duration = Duration::from_millis(200);
/// Longest such pause.
pub const S3_PAUSE_MAX: Duration = Duration::from_secs(15);
/// How often a request is sent to an S3 server that fails by accident.
pub const S3_TRIES_MAX: u32 = 5;
/// Objects up to this size have one part at most, in bytes; of larger ones a failure costs one
/// part, and several can be sent at the same time.
pub const S3_ONE_PART_BYTES_MAX: u64 = s3_wire::limits::PART_BYTES_USUAL;
/// Pauses before an object is looked for whose upload ended without an answer: the server may store
/// it, or its beginning, a little later.
pub const S3_LOOK_PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(200), Duration::from_secs(1)];
/// Pauses before a server that lost the answer to a rename is asked again what it has.
pub const LOST_ANSWER_PAUSES: [Duration; 3] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(4),
];
/// Time for the first answer of a server of the XRootD protocol. One that waits for a request of
/// another protocol never answers.
pub const ROOT_HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a process looks for uploads that killed ones left in a bucket which it uses.
pub const S3_SWEEP_INTERVAL: Duration = Duration::from_secs(600);
/// How long something is remembered that a killed process began, and that cannot be ended.
pub const JOURNAL_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// Longest file of what a process began that is read, in bytes.
pub const JOURNAL_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Most such files that are looked at in one go.
pub const JOURNALS_MAX: usize = 1000;
/// Bytes of a part that a server of S3 copies by itself: such a request moves no data here.
pub const S3_COPIED_PART_BYTES: u64 = 512 * 1024 * 1024;
/// Parts of one object that a server copies at the same time.
pub const S3_PARTS_COPIED_AT_ONCE: usize = 4;
/// Ranges of one object that are read at the same time.
pub const S3_RANGES_AT_ONCE: usize = 8;
/// Most steps of connections that are kept for the trace of a transfer: the first ones.
pub const STEPS_KEPT_MAX: usize = 16;
