//! Limits of this crate. They are fixed: no configuration key overrides them.

use std::time::Duration;

/// Body of a submission, in bytes: room for the most files with metadata of usual length.
pub const SUBMISSION_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Files of one job.
pub const JOB_FILES_MAX: usize = 100_000;
/// Sources, destinations or tokens of one file. Rucio sends four at most.
pub const REPLICAS_MAX: usize = 64;
/// Hops that a job may name.
pub const HOPS_MAX: usize = 8;
/// All parameters of a job together, in bytes of JSON, the job's metadata included.
pub const PARAMETERS_BYTES_MAX: usize = 64 * 1024;
/// The client's data about a job, in bytes of JSON. FTS takes 1024, or what its configuration says;
/// the one that it is delivered with says 2048.
pub const JOB_METADATA_BYTES_MAX: usize = 2048;
/// The client's data about a file, in bytes of JSON; as FTS.
pub const FILE_METADATA_BYTES_MAX: usize = 4096;
/// Data for the tape system of the source, in bytes of JSON; as FTS.
pub const STAGING_METADATA_BYTES_MAX: usize = 1024;
/// Data for the tape system of the destination, in bytes of JSON; as FTS.
pub const ARCHIVE_METADATA_BYTES_MAX: usize = 1024;
/// A URL, in bytes.
pub const URL_BYTES_MAX: usize = 4096;
/// A checksum with its algorithm, in bytes; as FTS.
pub const CHECKSUM_BYTES_MAX: usize = 100;
/// An activity, a space token, a client's name of a job, in bytes; as FTS.
pub const NAME_BYTES_MAX: usize = 255;
/// A token for a storage, in bytes.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// The longest time that a file may wait, in seconds: a year.
pub const QUEUE_TIME_S_MAX: i64 = 366 * 24 * 3600;
/// Capabilities that one request reports.
pub const CAPABILITIES_AT_ONCE_MAX: usize = 2000;
/// Body of an operator's request, in bytes.
pub const OPERATION_BYTES_MAX: usize = 1024 * 1024;
/// The longest time window of a list, in hours: a year.
pub const TIME_WINDOW_HOURS_MAX: i64 = 366 * 24;
/// Jobs that one request may name. Rucio names a hundred; more do not fit into a request line.
pub const JOBS_PER_REQUEST_MAX: usize = 1000;
/// Jobs whose first files are read at once for an answer that shows files.
pub const JOBS_WITH_FILES_AT_ONCE: usize = 32;
/// Files of each of them; further ones are read by pages.
pub const FILES_OF_A_JOB_AT_ONCE: usize = 250;
/// Bytes of such an answer that are put together before they are sent.
pub const ANSWER_PART_BYTES: usize = 64 * 1024;
/// Entries on a page of our own API, if the client says nothing.
pub const PAGE_DEFAULT: usize = 100;
/// Entries on a page of our own API.
pub const PAGE_MAX: usize = 1000;
/// A client's key of a submission, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 128;
/// Files that one request to cancel may name.
pub const CANCELED_FILES_MAX: usize = 1000;
/// Shares that one request may set.
pub const SHARES_MAX: usize = 1000;
/// Longest data of operators about a storage, in bytes.
pub const STORAGE_METADATA_BYTES_MAX: usize = 2048;
/// Most streams of a copy that the settings of a link may ask for.
pub const STREAMS_MAX: u16 = 64;
/// Streams of events that are open.
pub const EVENT_STREAMS_MAX: usize = 256;
/// Streams of events that one user has open.
pub const EVENT_STREAMS_PER_USER_MAX: usize = 8;
/// Events that are kept for streams. A client that is farther behind is dropped.
pub const EVENTS_KEPT_MAX: usize = 4096;
/// Events that are read from the queue at once.
pub const EVENTS_READ_MAX: usize = 1000;
/// Events that a stream reads at once of those that its client has missed.
pub const EVENTS_MISSED_MAX: usize = 100;
/// Time without an event after which a stream sends a comment.
pub const EVENT_HEARTBEAT: Duration = Duration::from_secs(15);
/// Time between two looks at the clock while the end of a client's credential is waited for.
pub const TERM_LOOK_PAUSE: Duration = Duration::from_secs(60);
/// Jobs in a list; as FTS.
pub const LISTED_JOBS_MAX: usize = 500;
/// Files in a list; as FTS.
pub const LISTED_FILES_MAX: usize = 1000;
/// Changes of operators in a list, if the client says nothing; as FTS.
pub const AUDIT_ENTRIES_DEFAULT: usize = 100;
/// Changes of operators in a list.
pub const AUDIT_ENTRIES_MAX: usize = 10_000;
/// Decisions of the optimizer in a list; as FTS.
pub const DECISIONS_MAX: usize = 50;
/// Bans of storages, or of users.
pub const BANS_MAX: usize = 10_000;
/// Rights that operators have granted.
pub const GRANTS_MAX: usize = 1000;
/// How long a delegated proxy must be valid for a submission, in milliseconds; as FTS.
pub const PROXY_LEFT_MS_MIN: i64 = 3600 * 1000;
/// Connections of subscribers, logged in or not.
pub const SUBSCRIBER_CONNECTIONS_MAX: usize = 256;
/// Connections of subscribers from one address; of IPv6, from one network of 64 bits.
pub const ADDRESS_SUBSCRIBERS_MAX: usize = 32;
/// Subscribers that are logged in.
pub const SUBSCRIBERS_MAX: usize = 64;
/// Messages that are kept for all subscribers together. One that is further behind is cut off.
pub const TOPIC_MESSAGES_MAX: usize = 10_000;
/// The same, in bytes.
pub const TOPIC_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Events of the catalog that are read at once.
pub const FEED_EVENTS_MAX: usize = 500;
/// Time between a change and the look for messages.
pub const FEED_GATHERING: Duration = Duration::from_millis(10);
/// Pause after the catalog has failed.
pub const FEED_PAUSE: Duration = Duration::from_secs(1);
/// Bytes that are written to a subscriber at once; more is made from messages when these are gone.
pub const SUBSCRIBER_OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a subscriber's frame that is not whole yet.
pub const SUBSCRIBER_INPUT_BYTES_MAX: usize = 64 * 1024;
/// Time for a subscriber's TLS handshake, and for its login.
pub const SUBSCRIBER_LOGIN_TIMEOUT: Duration = Duration::from_secs(10);
/// A subscriber that takes nothing for this time is cut off.
pub const SUBSCRIBER_STALL: Duration = Duration::from_secs(30);
/// Time for the last words to a subscriber.
pub const SUBSCRIBER_LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of a subscriber that are passed over after the last words.
pub const LAST_WORDS_BYTES_MAX: usize = 64 * 1024;
/// Heart-beats that subscribers are offered.
pub const SUBSCRIBER_BEAT: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// How long a message is worth keeping, for a subscriber that asks; as FTS.
pub const MESSAGE_LIFE_MS: i64 = 24 * 3600 * 1000;
/// Either part of a key of an S3 storage, in bytes.
pub const S3_KEY_BYTES_MAX: usize = 1024;
/// Files of a submission whose tokens are compared with their paths.
pub const TOKEN_WARNED_FILES_MAX: usize = 200;
/// Warnings about tokens that one submission gets.
pub const TOKEN_WARNINGS_MAX: usize = 10;
