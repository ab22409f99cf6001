//! Every limit of the house by name. Those that a site may want to change are defaults, overridden
//! in the configuration file; the rest are fixed, because no sound client comes near them.

use std::time::Duration;

/// Longest request or response head (request line and all header lines), in bytes.
/// davix sends multi-range heads of about 4 KiB and tokens reach 8 KiB.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;
/// Most header lines in one head.
pub const HEADER_COUNT_MAX: usize = 128;
/// Longest chunk-size line of a chunked body, extensions included, in bytes.
pub const CHUNK_LINE_BYTES_MAX: usize = 256;
/// Longest trailer section behind a chunked body, in bytes.
pub const TRAILER_BYTES_MAX: usize = 8 * 1024;
/// Most byte ranges in one request; davix coalesces to a few hundred.
pub const RANGE_COUNT_MAX: usize = 1024;
/// Longest value of a header with many ranges that we send, in bytes: servers take lines of 8 KiB.
pub const RANGES_VALUE_BYTES_MAX: usize = 7 * 1024;
/// What a server may send between two ranges to save a part of its answer, in bytes.
pub const RANGES_GAP_BYTES_MAX: u64 = 64 * 1024;
/// Longest line between the parts of an answer with many ranges, in bytes.
pub const MULTIPART_LINE_BYTES_MAX: usize = 1024;
/// Most lines between two parts of an answer with many ranges.
pub const MULTIPART_LINES_MAX: usize = 64;
/// Largest XML body of a PROPFIND request, in bytes.
pub const PROPFIND_BODY_BYTES_MAX: usize = 64 * 1024;
/// Largest control body (macaroon request, error text of a peer, token answer), in bytes.
pub const CONTROL_BODY_BYTES_MAX: usize = 1024 * 1024;
/// Most certificates in a chain, proxies included.
pub const CERTIFICATE_CHAIN_MAX: usize = 16;
/// Chains of certificates that were verified and are remembered.
pub const VERIFIED_CHAINS_MAX: usize = 8192;
/// How long they are, at the most: so long a revocation list may be out of date before that is noticed.
pub const VERIFIED_CHAIN_LIFETIME: Duration = Duration::from_secs(600);
/// Faults of one reading of the trust directory that the log names; the rest is counted.
pub const LOGGED_FAULTS_MAX: usize = 32;
/// Longest chain of certificates that a client may show in a TLS handshake, in bytes. The attributes of VOMS
/// in a proxy take some kilobytes; a message of the handshake can have 64 KiB.
pub const CERTIFICATE_CHAIN_BYTES_MAX: usize = 48 * 1024;
/// Memory for TLS sessions that clients may go on with, in bytes: a session takes some 300, and as much more
/// as the certificates of its client.
pub const TLS_SESSIONS_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How long a client may go on with a TLS session.
pub const TLS_SESSION_LIFETIME: Duration = Duration::from_secs(3600);
/// Tickets kept of one server, each for one connection of ours: as many as copies from it may well begin at once. One takes some 300
/// bytes; the server's certificates are kept once for all that came of one full handshake.
pub const TLS_SERVER_TICKETS_MAX: usize = 256;
/// Servers of which tickets are kept, for each identity that we show.
pub const TLS_TICKET_SERVERS_MAX: usize = 64;
/// Largest file of a trust directory that is read, in bytes. Lists of revoked certificates reach some MiB.
pub const TRUST_FILE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Largest file with a certificate chain and its key, in bytes.
pub const CREDENTIAL_FILE_BYTES_MAX: usize = 256 * 1024;
/// Largest certificate, in bytes. A proxy with the attributes of several VOs has some 20 KiB.
pub const CERTIFICATE_BYTES_MAX: usize = 64 * 1024;
/// Most extensions in one certificate.
pub const CERTIFICATE_EXTENSIONS_MAX: usize = 64;
/// Most parts (`/CN=…`) of one X.501 name.
pub const NAME_PARTS_MAX: usize = 64;
/// Longest X.501 name in one line, in bytes.
pub const ONE_LINE_NAME_BYTES_MAX: usize = 4096;
/// Largest file of certificates in PEM, in bytes: bundles of authorities have some 250 KB.
pub const PEM_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most blocks in one PEM file.
pub const PEM_BLOCKS_MAX: usize = 4096;
/// Most attribute certificates of VOMS in one proxy, one for each VO.
pub const VOMS_ATTRIBUTES_MAX: usize = 16;
/// Most certificates that a VOMS server sends along with its attributes.
pub const VOMS_CERTIFICATES_MAX: usize = 8;
/// Most attributes (FQANs) of one VO in a proxy.
pub const VOMS_FQANS_MAX: usize = 256;
/// Longest attribute (FQAN) of a VO, in bytes.
pub const VOMS_FQAN_BYTES_MAX: usize = 1024;
/// Difference of clocks that is put up with in the times of VOMS attributes.
pub const VOMS_CLOCK_SKEW: Duration = Duration::from_secs(300);
/// Largest revocation list, in bytes.
pub const REVOCATION_LIST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most certificates in one revocation list.
pub const REVOKED_CERTIFICATES_MAX: usize = 512 * 1024;
/// Most files of a trust directory that are looked at. IGTF's has some 1500.
pub const TRUST_FILES_MAX: usize = 16 * 1024;
/// Most lines of a grid map or of a map of VOMS attributes.
pub const MAP_LINES_MAX: usize = 256 * 1024;
/// Most patterns of names in one file of an authority (`signing_policy`, `namespaces`).
pub const NAME_RULES_MAX: usize = 1024;
/// Longest pattern of names, in bytes.
pub const NAME_PATTERN_BYTES_MAX: usize = 1024;
/// Most alternative chains in one `.lsc` file.
pub const LSC_CHAINS_MAX: usize = 32;
/// Largest macaroon request, in bytes.
pub const MACAROON_REQUEST_BYTES_MAX: usize = 4096;
/// Most exceptions that a macaroon carries; where its requester has more, activities are left out.
pub const MACAROON_EXCEPTIONS_MAX: usize = 16;
/// Most bytes of a macaroon's exceptions together.
pub const MACAROON_EXCEPTIONS_BYTES_MAX: usize = 1024;
/// Largest serialised macaroon, in bytes.
pub const MACAROON_BYTES_MAX: usize = 16 * 1024;
/// Largest message to or from a delegation service, in bytes: a chain of certificates in PEM.
pub const DELEGATION_BODY_BYTES_MAX: usize = 256 * 1024;
/// Longest name that a client gives to a delegated credential, in bytes.
pub const DELEGATION_ID_BYTES_MAX: usize = 128;
/// Most credentials that one user may have delegated at the same time.
pub const DELEGATIONS_PER_USER_MAX: usize = 8;
/// Most delegated credentials of all users together.
pub const DELEGATIONS_MAX: usize = 4096;
/// How long a key waits for the proxy that is to be signed for it.
pub const DELEGATION_REQUEST_LIFETIME: Duration = Duration::from_secs(600);
/// How long a delegated credential must hold for a copy to begin with it.
pub const DELEGATION_LEFT_MIN: Duration = Duration::from_secs(20 * 60);
/// How long it must hold when the client has just been asked for it.
pub const DELEGATION_LEFT_ASKED_MIN: Duration = Duration::from_secs(2 * 60);
/// How long a proxy that our client delegates holds, when the one that signs it does.
pub const DELEGATED_LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Longest capability in a URL, in bytes.
pub const CAPABILITY_BYTES_MAX: usize = 4096;
/// How long a capability holds.
pub const CAPABILITY_LIFETIME: Duration = Duration::from_secs(60);
/// The longest that it may be made to hold.
pub const CAPABILITY_LIFETIME_MAX: Duration = Duration::from_secs(600);
/// By how much the clocks of servers that honour each other's capabilities may differ, in seconds.
pub const CAPABILITY_CLOCK_SKEW_S: i64 = 10;
/// Most used capabilities for writing that are remembered until they expire.
pub const CAPABILITIES_USED_MAX: usize = 64 * 1024;
/// Most caveats in one macaroon.
pub const MACAROON_CAVEATS_MAX: usize = 64;
/// Largest JSON Web Token, in bytes. Tokens of real issuers stay below 8 KiB.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Deepest nesting of objects and lists in a token or a key set.
pub const TOKEN_JSON_DEPTH_MAX: usize = 8;
/// Most values (members and entries, all levels together) in one part of a token.
pub const TOKEN_VALUES_MAX: usize = 1024;
/// Most scopes that a token may have.
pub const TOKEN_SCOPES_MAX: usize = 256;
/// Most groups that a token may have.
pub const TOKEN_GROUPS_MAX: usize = 256;
/// Most audiences that a token may have.
pub const TOKEN_AUDIENCES_MAX: usize = 64;
/// Longest name of a key, in bytes.
pub const TOKEN_KEY_NAME_BYTES_MAX: usize = 256;
/// Most pairs of activities and place that a token's scopes make with its issuer's base paths.
pub const GRANT_SCOPES_MAX: usize = 1024;
/// Passes of percent-decoding that a scope's path is given before what is left is refused.
pub const SCOPE_DECODE_PASSES_MAX: usize = 4;
/// Largest document (discovery, key set) that is taken from a token issuer, in bytes.
pub const ISSUER_DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// Most keys of one issuer that are looked at.
pub const ISSUER_KEYS_MAX: usize = 64;
/// Most issuers that a configuration can name.
pub const ISSUERS_MAX: usize = 256;
/// Most base paths, and most restricted paths, of one issuer.
pub const ISSUER_PATHS_MAX: usize = 64;
/// Most rules in one file that maps names to users.
pub const NAME_MAP_RULES_MAX: usize = 100_000;
/// Largest file that maps names to users, and largest `scitokens.cfg`, in bytes.
pub const TOKEN_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Default: difference of clocks that is put up with in the times of a token.
pub const TOKEN_CLOCK_SKEW: Duration = Duration::from_secs(60);
/// Default: how long a request waits for an issuer's keys, when there are none at hand that could be used.
pub const ISSUER_WAIT: Duration = Duration::from_secs(2);
/// Default: how long fetching an issuer's keys may take, all of it.
pub const ISSUER_FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Default: how often an issuer's keys are fetched again.
pub const ISSUER_REFRESH: Duration = Duration::from_secs(6 * 3600);
/// Shortest time between two fetches of the keys of an issuer that answers (WLCG Common JWT Profiles).
pub const ISSUER_REFRESH_MIN: Duration = Duration::from_secs(3600);
/// Default: how long the keys of an issuer that cannot be reached any more are used.
pub const ISSUER_EXPIRY: Duration = Duration::from_secs(4 * 24 * 3600);
/// How long it is remembered that an issuer could not be reached, and at what distance a key that is not known makes its
/// keys be fetched again.
pub const ISSUER_RETRY: Duration = Duration::from_secs(60);
/// Default: how long a token or macaroon that was verified is remembered, at the most.
pub const VERIFIED_TOKEN_LIFETIME: Duration = Duration::from_secs(600);
/// Default: how many verified tokens are remembered.
pub const VERIFIED_TOKENS_MAX: usize = 16 * 1024;
/// Longest header lines of a request that a connection keeps, to know them again, in bytes.
pub const LAST_HEADERS_BYTES_MAX: usize = 4096;
/// Longest body of a PROPFIND that a connection keeps, to know it again, in bytes.
pub const LAST_PROPFIND_BYTES_MAX: usize = 1024;
/// Longest header field with a credential that a connection keeps, to know it again, in bytes.
pub const LAST_SHOWN_BYTES_MAX: usize = 4096;
/// How much of a peer's error text is kept, in bytes.
pub const PEER_WORDS_BYTES_MAX: usize = 1024;
/// Longest line in a performance-marker stream; davix reads lines into 1024 bytes.
pub const MARKER_LINE_BYTES_MAX: usize = 1000;
/// Most stripes that a peer's performance markers may name; more are not counted.
pub const MARKER_STRIPES_MAX: usize = 128;
/// Largest entry in a multistatus answer that a client reads, in bytes.
pub const MULTISTATUS_ENTRY_BYTES_MAX: usize = 256 * 1024;
/// Longest text that is taken from a server about a listing as a whole, in characters; the rest is cut off.
pub const MULTISTATUS_DESCRIPTION_CHARS_MAX: usize = 256;
/// Directories with names that no path can hold that the log names; further ones are only counted.
pub const UNLISTED_DIRECTORIES_MAX: usize = 256;
/// After this time such a directory is named again.
pub const UNLISTED_AGAIN_TIME: Duration = Duration::from_secs(3600);
/// Entries of all exports together that `crossload check` looks at for such names.
pub const CHECK_ENTRIES_MAX: usize = 200_000;
/// How long it does, at the most.
pub const CHECK_WALK_TIME: Duration = Duration::from_secs(5);
/// Largest XML body of a PROPPATCH request, in bytes.
pub const PROPPATCH_BODY_BYTES_MAX: usize = 64 * 1024;
/// Most properties that one PROPPATCH may change.
pub const PROPPATCH_CHANGES_MAX: usize = 256;
/// Largest values of one PROPPATCH together, with the declarations that each needs, in bytes.
pub const PROPPATCH_VALUES_BYTES_MAX: usize = 256 * 1024;
/// Most prefixes that may be declared at one place in a PROPPATCH.
pub const PROPPATCH_SCOPE_MAX: usize = 64;
/// Most dead properties of one file or directory.
pub const DEAD_PROPERTIES_MAX: usize = 128;
/// Largest dead property, its tags included, in bytes.
pub const DEAD_PROPERTY_BYTES_MAX: usize = 16 * 1024;
/// Largest room for all dead properties of one file or directory, in bytes. File systems allow less: ext4 some 4 KB.
pub const DEAD_PROPERTIES_BYTES_MAX: usize = 48 * 1024;
/// Most properties that one PROPFIND may name.
pub const PROPFIND_PROPERTIES_MAX: usize = 256;
/// Longest list of the properties of a PROPFIND that are not known here, as each entry repeats it.
pub const PROPFIND_UNKNOWN_BYTES_MAX: usize = 16 * 1024;
/// Largest XML body of a LOCK request, in bytes.
pub const LOCK_BODY_BYTES_MAX: usize = 16 * 1024;
/// Longest text about its owner that a lock keeps, in bytes.
pub const LOCK_OWNER_BYTES_MAX: usize = 1024;
/// Most conditions in an `If` header; each may need a look at another file.
pub const IF_CONDITIONS_MAX: usize = 32;
/// Deepest nesting of elements in XML from outside.
pub const XML_DEPTH_MAX: usize = 32;

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
/// So many of each kind any client may hold as long as there are any.
pub const CLIENT_SHARE_MIN: usize = 8;
/// File descriptors that clients do not get: a sixteenth of all, within these bounds. They serve to accept connections, for
/// the admin address, the log, and idle connections to peers.
pub const DESCRIPTORS_RESERVED_MIN: u64 = 64;
/// See [`DESCRIPTORS_RESERVED_MIN`].
pub const DESCRIPTORS_RESERVED_MAX: u64 = 1024;
/// File descriptors that a client's connection takes with one request under way: the socket, and for an upload the new file and
/// its directory.
pub const DESCRIPTORS_PER_CONNECTION: u64 = 3;
/// File descriptors of an open file beside the first of its session: the file, and for an upload its directory.
pub const DESCRIPTORS_PER_FILE: u64 = 2;
/// File descriptors of a third-party copy: the file, its directory, and a connection to the peer.
pub const DESCRIPTORS_PER_TRANSFER: u64 = 3;
/// How long a connection without a request is kept at the most while connections run short.
pub const SHORT_IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// Default: time in which a request head must have arrived, from its first byte.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Default: time in which a TLS handshake must be done.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// Default: time that an idle connection is kept.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Default: a body (or a client reading one) that moves no byte for this long is given up.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Time over which the pace of a transfer is looked at.
pub const PACE_WINDOW: Duration = Duration::from_secs(120);
/// Bytes that a transfer must move in each such time; below this a peer that drips holds a place for ever.
pub const PACE_BYTES_MIN: u64 = 1024 * 1024;
/// Default: time to the first byte of an answer from a peer.
pub const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(120);
/// Default: time to connect to a peer, all its addresses together.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Head start of one address over the next when dialling (RFC 8305 §8).
pub const DIAL_ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Addresses of one name that are tried.
pub const DIAL_ADDRESSES_MAX: usize = 16;
/// Redirects followed for one request.
pub const REDIRECTS_MAX: usize = 20;
/// Interim answers (1xx) passed over in front of one answer of a peer.
pub const INTERIM_ANSWERS_MAX: usize = 64;
/// Idle connections kept to one peer. Copies from one source come by the hundred, and each connection that is open already saves it a
/// handshake; one that waits takes 5 KiB of ours, and 37 KiB of XRootD.
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
/// Largest rest of a peer's answer that is read so that its connection can be used again, in bytes.
pub const DRAIN_BYTES_MAX: u64 = 64 * 1024;
/// How long to wait before asking again for a checksum that a peer is still computing.
pub const ACCEPTED_POLL_PERIOD: Duration = Duration::from_secs(5);
/// How long a peer may be silent about a checksum before it is asked a second time, beside the first. XRootD before 5.9.1 now
/// and then loses the answer when it has computed the checksum (its issue 2602); one that still computes takes both askers
/// together.
pub const CHECKSUM_ASKED_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// How long a peer may put off an answer (Retry-After) in all. Shorter than [`PACE_WINDOW`], within which a copy has to move
/// data.
pub const RETRY_AFTER_TIME: Duration = Duration::from_secs(100);
/// The shortest pause before a peer that put off its answer is asked again.
pub const RETRY_AFTER_MIN: Duration = Duration::from_millis(500);
/// How often to ask for a checksum that a peer is still computing; dCache gives up after as long.
pub const ACCEPTED_POLLS_MAX: u32 = 52;
/// How long a source of the XRootD protocol may take to tell the checksum of a file that has come, in the session in which
/// it is open. Shorter than [`PACE_WINDOW`], within which a copy has to move data.
pub const CHECKSUM_AT_END_WAIT: Duration = Duration::from_secs(60);
/// How long a source of the XRootD protocol is waited for to tell its checksum before any data is asked for. One that knows
/// it tells at once, and then no page needs a checksum of its own; one that has to read the file for it takes longer.
pub const EARLY_CHECKSUM_WAIT: Duration = Duration::from_millis(100);
/// Default: time between two performance markers after which a third-party copy is given up.
pub const MARKER_SILENCE: Duration = Duration::from_secs(120);
/// Default: streams of one transfer at the most; more asked for is cut to this.
pub const STREAMS_MAX: usize = 16;
/// Largest stream count that a request may name at all (XRootD refuses above 100).
pub const STREAMS_REQUEST_MAX: u32 = 100;
/// Bytes of a file for each of its streams at the least, and of the shortest range that a stream asks for first.
pub const STREAM_BLOCK_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes of the shortest range that a stream asks for at the end, where the line is short or brings little at a time: all are
/// to end at about the same time.
pub const STREAM_BLOCK_BYTES_MIN: u64 = 2 * 1024 * 1024;
/// Bytes of the longest such range: each costs a round trip in which its connection is idle.
pub const STREAM_BLOCK_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Default: streams that a transfer takes at the most when nobody says how many.
pub const CHOSEN_STREAMS_MAX: u32 = 8;
/// Size of a file from which more streams than one are thought of when nobody says how many, in bytes.
pub const CHOSEN_STREAMS_BYTES_MIN: u64 = 64 * 1024 * 1024;
/// Time in which a source answers, from which on a stream is slow because the line is long. Nearer, a stream more is for a
/// processor more.
pub const CHOSEN_STREAMS_RTT_MIN: Duration = Duration::from_millis(8);
/// What a stream from a near source has to bring before others join it that nobody asked for, in bytes per second: more than a
/// disk does, whose head would go to and fro between two readers.
pub const CHOSEN_STREAMS_NEAR_RATE_MIN: u64 = 256 * 1024 * 1024;
/// Streams that all transfers of one process together may have added because it made them faster.
pub const CHOSEN_STREAMS_ADDED_MAX: u32 = 256;
/// How long the number that transfers from a server have settled on is where the next one begins: lines change within the hour.
pub const CHOSEN_STREAMS_KEPT: Duration = Duration::from_secs(600);
/// Servers of which that is known at the same time.
pub const CHOSEN_STREAMS_SERVERS_MAX: usize = 1024;
/// Default: attempts of a transfer that breaks without moving a byte, the first one included.
pub const ATTEMPTS_MAX: u32 = 6;
/// Default: period of performance markers.
pub const MARKER_PERIOD: Duration = Duration::from_secs(5);

/// Bytes in one payload buffer. Measured: 256 KiB stays in the processor's cache, 1 MiB does not.
pub const BUFFER_BYTES: usize = 256 * 1024;
/// Payload buffers kept for reuse; what is above is given back to the system.
pub const BUFFERS_KEPT_MAX: usize = 64;
/// Bytes of files that are gathered in a pipe to be sent with one call. The system gives a plain user no larger pipe.
pub const BUNDLE_BYTES: usize = 1024 * 1024;
/// Such pipes, in use and kept. Together they are half of what the system grants a plain user.
pub const BUNDLES_MAX: usize = 32;
/// Places of one upload at which data may come by turns and be hashed as they come; at more, the file
/// is read again where its checksum cannot be combined.
pub const HASHED_RUNS_MAX: usize = 32;
/// Ranges of one upload, with gaps between them, whose checksums are kept until the gaps are filled;
/// with more the file is read again.
pub const HASHED_RANGES_MAX: usize = 4096;
/// Payload in one TLS record (RFC 8446 §5.1).
pub const TLS_RECORD_BYTES: usize = 16 * 1024;

/// TLS records without payload that may follow each other: tickets, changes of keys and empty records
/// are rare, and a peer that sends nothing else would keep a processor busy for nothing.
pub const TLS_EMPTY_RECORDS_MAX: u32 = 64;

/// Latest uploads whose makers are remembered, so that who may only create files can rename them.
pub const OWN_UPLOADS_MAX: usize = 16_384;

/// Free space that an export keeps for the system by default, in bytes.
pub const SPACE_RESERVE_BYTES: u64 = 64 * 1024 * 1024;
/// Replaced or removed files that wait to be closed in the background; more are closed at once.
pub const LATE_CLOSES_MAX: usize = 256;
/// Space that an upload of unknown size asks for at a time, in bytes.
pub const SPACE_STEP_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes after which an upload's data are sent on to the disk, so that the last sync is short.
pub const WRITEBACK_STEP_BYTES: u64 = 32 * 1024 * 1024;
/// Announced size from which an upload's blocks are set aside at once, in bytes.
pub const PREALLOCATE_BYTES_MIN: u64 = 1024 * 1024;
/// Deepest nesting of directories in a tree that is removed or copied as a whole; a path can name half as many.
pub const STORED_TREE_DEPTH_MAX: usize = 4096;
/// Most trees that are removed or copied at the same time. Each takes a thread meanwhile.
pub const TREES_MAX: usize = 16;
/// Deepest nesting of directories that the scan of an export's usage follows.
pub const SCAN_DEPTH_MAX: usize = 128;
/// Largest rest of a refused request's body that is read so that its connection can be used again,
/// in bytes.
pub const REFUSED_BODY_BYTES_MAX: u64 = 256 * 1024;
/// Most of what a refused client still sends that is read away before its connection is closed, so
/// that the answer is not lost to a reset, in bytes. A client on a long fast link has about as much
/// under way before it sees the answer.
pub const LINGER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long such a client is read from in all, however slowly it goes on sending.
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(30);
/// Default: how long a third-party copy may fail with a status of its own before it is accepted.
pub const EARLY_OUTCOME_WAIT: Duration = Duration::from_millis(300);
/// Connections over the limit that are told so at the same time; more are closed without a word.
pub const REFUSALS_MAX: usize = 64;
/// Time that a shut-down server gives its connections for their last words.
pub const LAST_WORDS_WAIT: Duration = Duration::from_secs(2);
/// Files that are sent at the same time by a thread of their own each, to readers that keep up. More are sent as the runtime
/// comes by.
pub const STEADY_SENDERS_MAX: usize = 256;
/// The least that is left of a file for which such a thread is started.
pub const STEADY_BYTES_MIN: u64 = 8 * 1024 * 1024;
/// What such a thread sends to a server before it is looked whether that has refused the upload meanwhile.
pub const STEADY_TURN_BYTES: u64 = 32 * 1024 * 1024;
/// Default: how much nicer such a thread is than the rest of the process, and a thread of the background too, in steps of
/// nice(1), where nothing else shares the control group:
/// whoever asks for little is answered between two of its batches, and its reader takes what it sent while that is in the
/// processor's cache.
pub const STEADY_NICENESS: i32 = 10;
/// Such threads that wait, for a second at the most, for the next file.
pub const STEADY_IDLE_MAX: usize = 64;
/// Threads for each processor that may send in clear text before they become nicer.
pub const STEADY_EQUALS: usize = 8;
/// What a thread that encrypts sends before another connection may have it.
pub const SEALED_TURN_BYTES: u64 = 64 * 1024 * 1024;
/// Payload that a task moves in one go where nothing makes it wait, before other tasks get their turn: half a millisecond.
pub const TASK_TURN_BYTES: usize = 1024 * 1024;
/// Such turns after which a task goes on in the background, until it waits for the next request.
pub const FOREGROUND_TURNS: u32 = 4;
/// Uploads under way from which on connections that upload go to the background, however small their files are.
pub const FOREGROUND_UPLOADS_MAX: usize = 16;
/// How long a thread that sends a file waits for its reader to make room. Who takes longer than this for a third of the socket's buffer
/// is served without a thread from then on. Of a hundred readers on a fast network each takes 65 ms.
pub const STEADY_WAIT: Duration = Duration::from_millis(500);
/// What has to come of a payload before the one who waits for it is woken, where the sender is fast: little less than a buffer
/// holds, so that what comes while it is handled still fits.
pub const GATHERED_BYTES: usize = 224 * 1024;
/// How long that may take. Who sends less in this time is read from whenever something comes.
pub const GATHER_WAIT: Duration = Duration::from_millis(20);
/// Bytes of a listing that are gathered before they are sent.
pub const LISTING_PIECE_BYTES: usize = 64 * 1024;
/// The same of a multistatus, whose entries are long: a reader that has caught up is woken for each piece, and so less often.
pub const MULTISTATUS_PIECE_BYTES: usize = 256 * 1024;
/// Entries of a directory that are put in order for a browser. A larger one is shown as the file system lists it, because
/// its names would have to be kept, for each reader, until the last one is known.
pub const LISTING_SORTED_ENTRIES: usize = 4096;
/// Log lines that wait to be written; more are dropped and counted.
pub const LOG_LINES_QUEUED_MAX: usize = 16 * 1024;
/// Bytes of a file that are read for its checksum before another file has its turn.
pub const CHECKSUM_SLICE_BYTES: u64 = 16 * 1024 * 1024;
/// How long a checksum is computed on for a client that was told to ask again.
pub const CHECKSUM_LINGER_TIME: Duration = Duration::from_secs(60);
/// Default: how long an HTTP request waits for a checksum that is being computed.
pub const CHECKSUM_WAIT: Duration = Duration::from_secs(300);
/// A file of up to this size is made durable on the thread that received it, while the disk is quick.
pub const SMALL_COMMIT_BYTES: u64 = 1024 * 1024;
/// Threads of an export that make uploads durable, each of which waits for the disk. More uploads wait for a thread.
pub const COMMIT_THREADS_MAX: usize = 256;
/// Files of one export that are read at the same time because somebody asked for a checksum that is
/// not kept with them.
pub const CHECKSUM_READERS_MAX: usize = 2;
/// Uploads to one export that are read back at the same time for their checksums. Each belongs to an upload or a copy, of
/// which a client has its share, so that there are more than of the former.
pub const REREADS_MAX: usize = 8;
/// Those of one client among them.
pub const REREADS_OF_CLIENT_MAX: usize = 4;
/// Checksums that are being computed, or wait for it, at the same time.
pub const CHECKSUMS_COMPUTED_MAX: usize = 1024;
/// Files whose checksums a store remembers because nothing can be kept with them.
pub const CHECKSUMS_REMEMBERED_MAX: usize = 64 * 1024;
/// Refusals whose explanations a server keeps, for whoever asks afterwards.
pub const EXPLANATIONS_MAX: usize = 1024;
/// Memory that these explanations take together, in bytes.
pub const EXPLANATIONS_BYTES_MAX: usize = 1024 * 1024;
/// How long log lines are gathered before they are written together.
pub const LOG_GATHER_TIME: Duration = Duration::from_millis(2);
/// How often a server looks whether its configuration, certificates and authorities have changed.
pub const FILE_WATCH_PERIOD: Duration = Duration::from_secs(2);
/// How long connections of before a change of the configuration may go on under the old one.
pub const OLD_DOOR_GRACE: Duration = Duration::from_secs(24 * 3600);

/// Bytes that one read request of the XRootD protocol asks for.
pub const ROOT_READ_BYTES: u64 = 4 * 1024 * 1024;
/// Read requests of one download that are under way at the same time. Together they fill a long fast
/// link; only a server that answers out of order makes us hold any of it in memory.
pub const ROOT_READS_MAX: usize = 8;
/// The same on a further stream of a session. The reference server sends one and keeps five waiting; with one more it
/// would take no request for any stream until there is room again.
pub const ROOT_BOUND_READS_MAX: usize = 6;
/// Time in which the refusal of a request has come, where the further stream that was to carry the answer has ended.
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
/// Answers to one connection's requests that nobody waits for, such as that to a close.
pub const ROOT_UNHEARD_MAX: usize = 64;
/// Stat requests under way at the same time on one connection, as while a directory is listed whose server tells only names.
pub const ROOT_STATS_MAX: usize = 64;

/// WebDAV locks of all clients together.
pub const LOCKS_MAX: usize = 16 * 1024;
/// Shortest time that a lock lasts, whatever its client asks for.
pub const LOCK_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// Locks over one path, those of directories above it included.
pub const LOCKS_PER_PATH_MAX: usize = 32;
/// How long a new lock waits for the end of changes that are being made to what it is on.
pub const LOCK_WAIT: Duration = Duration::from_secs(10);
/// How long a lock lasts whose client does not say, or was not understood.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a lock lasts at the most, whatever its client asks for: one that is left behind ends by itself.
pub const LOCK_TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// Keys of XRootD third-party copies that a source remembers at the same time.
pub const TPC_KEYS_MAX: usize = 16 * 1024;
/// Longest key of an XRootD third-party copy, in bytes; the reference client's have 24.
pub const TPC_KEY_BYTES_MAX: usize = 256;
/// Longest name of a client between two servers (`user.process@host`), in bytes.
pub const TPC_ORIGIN_BYTES_MAX: usize = 512;
/// Default: how long a key of an XRootD third-party copy holds when the client does not say.
pub const TPC_KEY_LIFETIME: Duration = Duration::from_secs(15);
/// Default: longest time that a client can have for a key.
pub const TPC_KEY_LIFETIME_MAX: Duration = Duration::from_secs(60);
/// Destinations that wait at the same time for their client to register a key.
pub const TPC_WAITING_MAX: usize = 1024;
/// How long the client of an XRootD third-party copy is told to wait for its end. It is a promise of ours,
/// not a limit on the copy; the reference server makes the same.
pub const TPC_COPY_TIME: Duration = Duration::from_secs(1800);
/// How long the name service may take to say which host a copy's client or destination is.
pub const TPC_LOOKUP_WAIT: Duration = Duration::from_secs(5);
/// How long the source of an XRootD third-party copy may take to open it for a client under one spelling of its host, until
/// the other is tried as well. Far shorter than keys live.
pub const TPC_RESPELL_WAIT: Duration = Duration::from_secs(1);
/// How long a request of the XRootD protocol waits for a file that its client's host is writing on another session.
pub const PENDING_WAIT: Duration = Duration::from_secs(1);
/// Names and addresses that are looked up for strangers at the same time: a name service that does not
/// answer must not hold all threads that wait for disks.
pub const NAME_LOOKUPS_MAX: usize = 16;
/// Further streams that an XRootD third-party copy may ask for; more is cut to this, as the reference
/// server does.
pub const TPC_STREAMS_MAX: u32 = 15;

/// Default: files that one session of the XRootD protocol may have open at the same time.
pub const XROOT_HANDLES_MAX: usize = 512;
/// Time for which one half of a key agreement serves the logins with `gsi`: making one costs several times what a
/// login costs.
pub const GSI_AGREEMENT_LIFETIME: Duration = Duration::from_secs(60);
/// Calculations for logins with `gsi` that run at the same time; others wait for their turn.
pub const GSI_CALCULATIONS_MAX: usize = 4;
/// Uploads over the XRootD protocol that are remembered as begun and not ended, over all clients.
pub const INTERRUPTED_UPLOADS_MAX: usize = 4096;
/// Answers that one session waits for while they are being worked on, such as checksums and copies.
pub const XROOT_LATE_ANSWERS_MAX: usize = 64;
/// Time in which such an answer is promised.
pub const XROOT_LATE_ANSWER_TIME: Duration = Duration::from_secs(600);
/// Ranges that wait to be sent on one further stream of a session; the session's own stream waits then.
pub const XROOT_BOUND_QUEUE_MAX: usize = 64;
/// How long a connection of the XRootD protocol with open files may be silent. Analysis programs keep
/// files open while they compute; the reference server waits as long.
pub const XROOT_OPEN_IDLE_TIMEOUT: Duration = Duration::from_secs(5400);
/// Requests that came together and are served before a connection looks at anything else, such as answers that have become
/// ready meanwhile.
pub const XROOT_BURST_REQUESTS_MAX: usize = 64;
/// Bytes of answers that are gathered while a client sends more requests at once.
pub const XROOT_QUEUED_BYTES_MAX: usize = 64 * 1024;
/// A request that took longer is answered at once, before those behind it are served.
pub const XROOT_QUEUED_TIME_MAX: Duration = Duration::from_millis(5);
/// The same while open files run short.
pub const XROOT_SHORT_OPEN_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of a read that are sent as one message; more are divided.
pub const XROOT_PART_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes that one vector read of a client may gather in memory.
pub const VECTOR_READ_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Bytes of one direction of one connection that the benchmark's delaying relay holds at the most: 10 Gbit/s
/// over 200 ms.
pub const RELAY_QUEUE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Buffers of 256 KiB that such a relay keeps for reuse, for all its connections together.
pub const RELAY_BUFFERS_KEPT_MAX: usize = 512;
/// Most pieces of a pattern of reads that a benchmark repeats.
pub const BENCH_PATTERN_PIECES_MAX: usize = 1024 * 1024;

/// Local users that are remembered at the same time.
pub const LOCAL_USERS_MAX: usize = 16 * 1024;
/// How long what is known of a local user is used before the database is asked again, in the background.
pub const LOCAL_USER_REFRESH: Duration = Duration::from_secs(600);
/// How long it is believed that there is no such user, and after what time a database that failed is asked
/// again about one that is known.
pub const LOCAL_USER_RETRY: Duration = Duration::from_secs(30);
/// How long a request waits for the database of local users, which may be behind a network.
pub const LOCAL_USER_LOOKUP_WAIT: Duration = Duration::from_secs(5);
/// Local users that are looked up at the same time.
pub const LOCAL_USER_LOOKUPS_MAX: usize = 8;
/// Default: the lowest number of a local user that the server acts as.
pub const LOCAL_USER_MINIMUM_UID: u32 = 100;
/// Longest name of a virtual organisation that is kept with a file, in bytes.
pub const VO_NAME_BYTES_MAX: usize = 256;
/// Deepest directory that a recursive copy enters; a server that shows more shows a loop, or means harm.
pub const TREE_DEPTH_MAX: usize = 512;
