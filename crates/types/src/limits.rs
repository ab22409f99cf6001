//! Limits that several crates need; the others are in each crate's own `limits` module. Those
//! marked "Default" can be changed in the configuration. The rest are fixed, because no valid
//! client comes near them.

use std::time::Duration;

/// Longest request or response head (first line and all header lines), in bytes. davix sends
/// multi-range heads of about 4 KiB, and tokens reach 8 KiB.
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
/// Largest file of a trust directory that is read, in bytes. Revocation lists reach some MiB.
pub const TRUST_FILE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Largest file with a certificate chain and its key, in bytes.
pub const CREDENTIAL_FILE_BYTES_MAX: usize = 256 * 1024;
/// Largest revocation list, in bytes.
pub const REVOCATION_LIST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most files of a trust directory that are examined. IGTF's has about 1500.
pub const TRUST_FILES_MAX: usize = 16 * 1024;
/// Largest macaroon request, in bytes.
pub const MACAROON_REQUEST_BYTES_MAX: usize = 4096;
/// Largest serialised macaroon, in bytes.
pub const MACAROON_BYTES_MAX: usize = 16 * 1024;
/// Largest message to or from a delegation service, in bytes: a certificate chain in PEM.
pub const DELEGATION_BODY_BYTES_MAX: usize = 256 * 1024;
/// Default lifetime of a capability.
pub const CAPABILITY_LIFETIME: Duration = Duration::from_secs(60);
/// Longest lifetime of a capability.
pub const CAPABILITY_LIFETIME_MAX: Duration = Duration::from_secs(600);
/// Largest document (discovery, key set) that is accepted from a token issuer, in bytes.
pub const ISSUER_DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// Most issuers in one configuration.
pub const ISSUERS_MAX: usize = 256;
/// Most base paths, and most restricted paths, of one issuer.
pub const ISSUER_PATHS_MAX: usize = 64;
/// Default: clock difference tolerated in the times of a token.
pub const TOKEN_CLOCK_SKEW: Duration = Duration::from_secs(60);
/// Default: how long a request waits for an issuer's keys when none are known yet.
pub const ISSUER_WAIT: Duration = Duration::from_secs(2);
/// Default: time for fetching an issuer's keys, all requests together.
pub const ISSUER_FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Default: how often an issuer's keys are fetched again.
pub const ISSUER_REFRESH: Duration = Duration::from_secs(6 * 3600);
/// Shortest time between two fetches of the keys of a reachable issuer (WLCG Common JWT Profiles).
pub const ISSUER_REFRESH_MIN: Duration = Duration::from_secs(3600);
/// Default: how long keys stay in use when their issuer cannot be reached.
pub const ISSUER_EXPIRY: Duration = Duration::from_secs(4 * 24 * 3600);
/// Default: longest time that a verified token or macaroon is cached.
pub const VERIFIED_TOKEN_LIFETIME: Duration = Duration::from_secs(600);
/// Default: how many verified tokens are cached.
pub const VERIFIED_TOKENS_MAX: usize = 16 * 1024;
/// How much of a peer's error text is kept, in bytes.
pub const PEER_WORDS_BYTES_MAX: usize = 1024;
/// Largest XML body of a PROPPATCH request, in bytes.
pub const PROPPATCH_BODY_BYTES_MAX: usize = 64 * 1024;
/// Largest dead property including its tags, in bytes.
pub const DEAD_PROPERTY_BYTES_MAX: usize = 16 * 1024;
/// Largest XML body of a LOCK request, in bytes.
pub const LOCK_BODY_BYTES_MAX: usize = 16 * 1024;
/// Longest logical path, in bytes.
pub const PATH_BYTES_MAX: usize = 4096;
/// Longest path component, in bytes (the limit of every common file system).
pub const NAME_BYTES_MAX: usize = 255;
/// Directory entries per batch of a listing.
pub const LISTING_BATCH_ENTRIES: usize = 512;
/// Default: connections that one server accepts at the same time.
pub const CONNECTIONS_MAX: usize = 16 * 1024;
/// Default: transfers that one server runs at the same time as the active side.
pub const TRANSFERS_MAX: usize = 1024;
/// Default: percentage of each limit that one client may take when it is alone.
pub const CLIENT_SHARE_PERCENT: u32 = 50;
/// What every client may take of each limit, however small its share is.
pub const CLIENT_SHARE_MIN: usize = 8;
/// Longest time that an idle connection is kept while connections run short.
pub const SHORT_IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// Default: time for a request head to arrive, from its first byte.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Default: time for a TLS handshake.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// Default: memory for TLS sessions that clients may resume, in bytes. A session takes about 600
/// with its entry, and the certificates of its client.
pub const TLS_SESSIONS_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Default: how long an idle connection is kept.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Default: a body that moves no byte for this long, in either direction, is aborted.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Default: time for the first byte of a peer's answer.
pub const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(120);
/// Default: time to connect to a peer, over all its addresses.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Redirects followed for one request.
pub const REDIRECTS_MAX: usize = 20;
/// Default: most streams of one transfer; a larger request is cut to this.
pub const STREAMS_MAX: usize = 16;
/// Default: most streams of a transfer that asks for no number.
pub const CHOSEN_STREAMS_MAX: u32 = 8;
/// Default: attempts of a transfer that breaks without moving a byte, including the first.
pub const ATTEMPTS_MAX: u32 = 6;
/// Default: interval of progress markers.
pub const MARKER_PERIOD: Duration = Duration::from_secs(5);
/// Bytes in one payload buffer. Measured: 256 KiB stays in the processor's cache, 1 MiB does not.
pub const BUFFER_BYTES: usize = 256 * 1024;
/// Bytes of files that are gathered in a pipe and sent with one call. The system gives an
/// unprivileged user no larger pipe.
pub const BUNDLE_BYTES: usize = 1024 * 1024;
/// Pipes for this purpose, in use and pooled: half of what the system grants an unprivileged user.
pub const BUNDLES_MAX: usize = 32;
/// Default: free space that an export leaves in the file system, in bytes.
pub const SPACE_RESERVE_BYTES: u64 = 64 * 1024 * 1024;
/// How long a refused client is read from before its connection is closed, even if it sends slowly.
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(30);
/// Time that a server gives its connections to send their final answers after the shutdown.
pub const LAST_WORDS_WAIT: Duration = Duration::from_secs(2);
/// Files sent at the same time by a dedicated thread each, to readers that keep up. Further files
/// are sent on the runtime.
pub const STEADY_SENDERS_MAX: usize = 256;
/// Remaining bytes of a file that justify such a thread.
pub const STEADY_BYTES_MIN: u64 = 8 * 1024 * 1024;
/// Default: nice increment of these threads and of background threads, where the server has its
/// control group to itself. Short requests are then served between two of their batches, and the
/// reader takes each batch while it is still in the processor's cache.
pub const STEADY_NICENESS: i32 = 10;
/// Threads per processor that may send in clear text before their nice value is raised.
pub const STEADY_EQUALS: usize = 8;
/// Payload that a task moves without waiting before it yields to other tasks: about half a
/// millisecond.
pub const TASK_TURN_BYTES: usize = 1024 * 1024;
/// How long a thread that sends a file waits for its reader to make room. A reader that takes
/// longer for a third of the socket's buffer is served without a thread from then on. With a
/// hundred readers on a fast network, each takes 65 ms.
pub const STEADY_WAIT: Duration = Duration::from_millis(500);
/// Bytes of a listing that are gathered before they are sent.
pub const LISTING_PIECE_BYTES: usize = 64 * 1024;
/// Default: how long an HTTP request waits for a checksum that is being computed.
pub const CHECKSUM_WAIT: Duration = Duration::from_secs(300);
/// Most locks that apply to one path, including those of directories above it.
pub const LOCKS_PER_PATH_MAX: usize = 32;
/// Keys of XRootD third-party copies that a source remembers at the same time.
pub const TPC_KEYS_MAX: usize = 16 * 1024;
/// Default: lifetime of a key of an XRootD third-party copy when the client gives none.
pub const TPC_KEY_LIFETIME: Duration = Duration::from_secs(15);
/// Default: longest lifetime that a client can ask for.
pub const TPC_KEY_LIFETIME_MAX: Duration = Duration::from_secs(60);
/// Most additional streams of an XRootD third-party copy; a larger request is cut to this, as in
/// the reference server.
pub const TPC_STREAMS_MAX: u32 = 15;
/// Default: files that one XRootD session may have open at the same time.
pub const XROOT_HANDLES_MAX: usize = 512;
/// Bytes that one vector read may gather in memory.
pub const VECTOR_READ_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Default: the lowest user ID that the server acts as.
pub const LOCAL_USER_MINIMUM_UID: u32 = 100;
/// Longest name of a virtual organisation that is stored with a file, in bytes.
pub const VO_NAME_BYTES_MAX: usize = 256;
/// Longest name of a host (RFC 1035 §2.3.4, without the dot at its end).
pub const HOST_BYTES_MAX: usize = 253;
