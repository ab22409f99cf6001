//! Limits that several crates need; each crate has its own in its module `limits`. Those that a
//! site may want to change are defaults that the configuration overrides; the rest are fixed,
//! because no sound client comes near them.

use std::time::Duration;

/// Longest request or response head (request line and all header lines), in bytes. davix sends
/// multi-range heads of about 4 KiB and tokens reach 8 KiB.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;
/// Most header lines in one head.
pub const HEADER_COUNT_MAX: usize = 128;
/// Most byte ranges in one request; davix coalesces to a few hundred.
pub const RANGE_COUNT_MAX: usize = 1024;
/// Largest XML body of a PROPFIND request, in bytes.
pub const PROPFIND_BODY_BYTES_MAX: usize = 64 * 1024;
/// Largest control body (macaroon request, error text of a peer, token answer), in bytes.
pub const CONTROL_BODY_BYTES_MAX: usize = 1024 * 1024;
/// Most certificates in a chain, proxies included.
pub const CERTIFICATE_CHAIN_MAX: usize = 16;
/// Largest file of a trust directory that is read, in bytes. Lists of revoked certificates reach
/// some MiB.
pub const TRUST_FILE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Largest file with a certificate chain and its key, in bytes.
pub const CREDENTIAL_FILE_BYTES_MAX: usize = 256 * 1024;
/// Largest revocation list, in bytes.
pub const REVOCATION_LIST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most files of a trust directory that are looked at. IGTF's has some 1500.
pub const TRUST_FILES_MAX: usize = 16 * 1024;
/// Largest macaroon request, in bytes.
pub const MACAROON_REQUEST_BYTES_MAX: usize = 4096;
/// Largest serialised macaroon, in bytes.
pub const MACAROON_BYTES_MAX: usize = 16 * 1024;
/// Largest message to or from a delegation service, in bytes: a chain of certificates in PEM.
pub const DELEGATION_BODY_BYTES_MAX: usize = 256 * 1024;
/// How long a capability holds.
pub const CAPABILITY_LIFETIME: Duration = Duration::from_secs(60);
/// The longest that it may be made to hold.
pub const CAPABILITY_LIFETIME_MAX: Duration = Duration::from_secs(600);
/// Largest document (discovery, key set) that is taken from a token issuer, in bytes.
pub const ISSUER_DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// Most issuers that a configuration can name.
pub const ISSUERS_MAX: usize = 256;
/// Most base paths, and most restricted paths, of one issuer.
pub const ISSUER_PATHS_MAX: usize = 64;
/// Default: difference of clocks that is put up with in the times of a token.
pub const TOKEN_CLOCK_SKEW: Duration = Duration::from_secs(60);
/// Default: how long a request waits for an issuer's keys, when there are none at hand that could
/// be used.
pub const ISSUER_WAIT: Duration = Duration::from_secs(2);
/// Default: how long fetching an issuer's keys may take, all of it.
pub const ISSUER_FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Default: how often an issuer's keys are fetched again.
pub const ISSUER_REFRESH: Duration = Duration::from_secs(6 * 3600);
/// Shortest time between two fetches of the keys of an issuer that answers (WLCG Common JWT
/// Profiles).
pub const ISSUER_REFRESH_MIN: Duration = Duration::from_secs(3600);
/// Default: how long the keys of an issuer that cannot be reached any more are used.
pub const ISSUER_EXPIRY: Duration = Duration::from_secs(4 * 24 * 3600);
/// Default: how long a token or macaroon that was verified is remembered, at the most.
pub const VERIFIED_TOKEN_LIFETIME: Duration = Duration::from_secs(600);
/// Default: how many verified tokens are remembered.
pub const VERIFIED_TOKENS_MAX: usize = 16 * 1024;
/// How much of a peer's error text is kept, in bytes.
pub const PEER_WORDS_BYTES_MAX: usize = 1024;
/// Largest XML body of a PROPPATCH request, in bytes.
pub const PROPPATCH_BODY_BYTES_MAX: usize = 64 * 1024;
/// Largest dead property, its tags included, in bytes.
pub const DEAD_PROPERTY_BYTES_MAX: usize = 16 * 1024;
/// Largest XML body of a LOCK request, in bytes.
pub const LOCK_BODY_BYTES_MAX: usize = 16 * 1024;
/// Longest logical path, in bytes.
pub const PATH_BYTES_MAX: usize = 4096;
/// Longest name of one path component, in bytes (the limit of every common file system).
pub const NAME_BYTES_MAX: usize = 255;
/// Entries handed over at a time when a directory is listed.
pub const LISTING_BATCH_ENTRIES: usize = 512;
/// Default: connections that one server accepts at the same time.
pub const CONNECTIONS_MAX: usize = 16 * 1024;
/// Default: transfers that one server runs as active party at the same time.
pub const TRANSFERS_MAX: usize = 1024;
/// Default: what one client may hold of each limit when it is alone, in percent.
pub const CLIENT_SHARE_PERCENT: u32 = 50;
/// What any client may hold of each limit, however small its share is.
pub const CLIENT_SHARE_MIN: usize = 8;
/// Longest time that a connection without a request is kept while connections run short.
pub const SHORT_IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// Default: time in which a request head must have arrived, from its first byte.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Default: time in which a TLS handshake must be done.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// Default: time that an idle connection is kept.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Default: a body (or a client reading one) that moves no byte for this long is given up.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Default: time to the first byte of an answer from a peer.
pub const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(120);
/// Default: time to connect to a peer, all its addresses together.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Redirects followed for one request.
pub const REDIRECTS_MAX: usize = 20;
/// Default: most streams of one transfer; a larger request is cut to this.
pub const STREAMS_MAX: usize = 16;
/// Default: most streams of a transfer that does not ask for a number.
pub const CHOSEN_STREAMS_MAX: u32 = 8;
/// Default: attempts of a transfer that breaks without moving a byte, the first one included.
pub const ATTEMPTS_MAX: u32 = 6;
/// Default: period of performance markers.
pub const MARKER_PERIOD: Duration = Duration::from_secs(5);
/// Bytes in one payload buffer. Measured: 256 KiB stays in the processor's cache, 1 MiB does not.
pub const BUFFER_BYTES: usize = 256 * 1024;
/// Bytes of files that are gathered in a pipe to be sent with one call. The system gives a plain
/// user no larger pipe.
pub const BUNDLE_BYTES: usize = 1024 * 1024;
/// Such pipes, in use and kept. Together they are half of what the system grants a plain user.
pub const BUNDLES_MAX: usize = 32;
/// Free space that an export keeps for the system by default, in bytes.
pub const SPACE_RESERVE_BYTES: u64 = 64 * 1024 * 1024;
/// How long a refused client is read from before its connection is closed, however slowly it
/// sends.
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(30);
/// Time that a shut-down server gives its connections for their last words.
pub const LAST_WORDS_WAIT: Duration = Duration::from_secs(2);
/// Files that are sent at the same time by a thread of their own each, to readers that keep up.
/// More are sent as the runtime comes by.
pub const STEADY_SENDERS_MAX: usize = 256;
/// The least that is left of a file for which such a thread is started.
pub const STEADY_BYTES_MIN: u64 = 8 * 1024 * 1024;
/// Default: how much nicer such a thread is than the rest of the process, and a thread of the
/// background too, in steps of nice(1), where nothing else shares the control group: whoever asks
/// for little is answered between two of its batches, and its reader takes what it sent while that
/// is in the processor's cache.
pub const STEADY_NICENESS: i32 = 10;
/// Threads for each processor that may send in clear text before they become nicer.
pub const STEADY_EQUALS: usize = 8;
/// Payload that a task moves in one go where nothing makes it wait, before other tasks get their
/// turn: half a millisecond.
pub const TASK_TURN_BYTES: usize = 1024 * 1024;
/// How long a thread that sends a file waits for its reader to make room. Who takes longer than
/// this for a third of the socket's buffer is served without a thread from then on. Of a hundred
/// readers on a fast network each takes 65 ms.
pub const STEADY_WAIT: Duration = Duration::from_millis(500);
/// Bytes of a listing that are gathered before they are sent.
pub const LISTING_PIECE_BYTES: usize = 64 * 1024;
/// Default: how long an HTTP request waits for a checksum that is being computed.
pub const CHECKSUM_WAIT: Duration = Duration::from_secs(300);
/// Locks over one path, those of directories above it included.
pub const LOCKS_PER_PATH_MAX: usize = 32;
/// Keys of XRootD third-party copies that a source remembers at the same time.
pub const TPC_KEYS_MAX: usize = 16 * 1024;
/// Default: how long a key of an XRootD third-party copy holds when the client does not say.
pub const TPC_KEY_LIFETIME: Duration = Duration::from_secs(15);
/// Default: longest time that a client can have for a key.
pub const TPC_KEY_LIFETIME_MAX: Duration = Duration::from_secs(60);
/// Further streams that an XRootD third-party copy may ask for; more is cut to this, as the
/// reference server does.
pub const TPC_STREAMS_MAX: u32 = 15;
/// Default: files that one session of the XRootD protocol may have open at the same time.
pub const XROOT_HANDLES_MAX: usize = 512;
/// Bytes that one vector read of a client may gather in memory.
pub const VECTOR_READ_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Default: the lowest number of a local user that the server acts as.
pub const LOCAL_USER_MINIMUM_UID: u32 = 100;
/// Longest name of a virtual organisation that is kept with a file, in bytes.
pub const VO_NAME_BYTES_MAX: usize = 256;
