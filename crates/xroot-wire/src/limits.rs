//! The protocol's own limits. Clients learn some of them by a configuration query and split their
//! requests accordingly, so they are constants of the deployed protocol rather than settings.

/// Bytes of a client's first words.
pub const HELLO_BYTES: usize = 20;
/// Bytes of the answer to them.
pub const HELLO_REPLY_BYTES: usize = 16;
/// Bytes of a request's header.
pub const REQUEST_HEADER_BYTES: usize = 24;
/// Bytes of a response's header.
pub const RESPONSE_HEADER_BYTES: usize = 8;
/// Bytes of a `status` response in front of its data: header, checksum, common part, file offset.
pub const STATUS_HEAD_BYTES: usize = 32;
/// Bytes of a page that has a checksum of its own. Pages lie at file offsets that are multiples of
/// it.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of the checksum in front of each page.
pub const PAGE_CHECKSUM_BYTES: usize = 4;
/// Bytes of one item of a read or write vector, and of its head in the answer.
pub const VECTOR_ITEM_BYTES: usize = 16;
/// Most items of one vector read (announced as `readv_iov_max`).
pub const READV_ITEMS_MAX: usize = 1024;
/// Most bytes of one item of a vector read (announced as `readv_ior_max`): 2 MiB less one head.
pub const READV_ITEM_BYTES_MAX: usize = 2_097_136;
/// Most items of one vector write.
pub const WRITEV_ITEMS_MAX: usize = 1024;
/// Most ranges of one clone request.
pub const CLONE_ITEMS_MAX: usize = 1024;
/// Bytes of one item of a clone request.
pub const CLONE_ITEM_BYTES: usize = 32;
/// Largest payload of a request that names a path, asks a query or carries a credential, in bytes.
/// Tokens in the path's CGI easily exceed 4 KiB; a chain of certificates takes some 16 KiB.
pub const PATH_PAYLOAD_BYTES_MAX: usize = 128 * 1024;
/// Largest payload of a request that names many paths (`stat` of many, `prepare`), in bytes.
pub const LIST_PAYLOAD_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Most attributes that one request may name.
pub const ATTRIBUTES_MAX: usize = 16;
/// Longest name of an attribute, in bytes.
pub const ATTRIBUTE_NAME_BYTES_MAX: usize = 248;
/// Largest value of an attribute, in bytes.
pub const ATTRIBUTE_VALUE_BYTES_MAX: usize = 65536;
/// Largest payload of an attribute request: every name and value at its largest, in bytes.
pub const ATTRIBUTES_PAYLOAD_BYTES_MAX: usize =
    PATH_PAYLOAD_BYTES_MAX + ATTRIBUTES_MAX * (ATTRIBUTE_NAME_BYTES_MAX + 1 + 2 + 4 + ATTRIBUTE_VALUE_BYTES_MAX);
/// Most damaged pages that one answer to a page write lists; with more the request is refused.
pub const BAD_PAGES_MAX: usize = 127;
/// Most damaged pages that a file may have waiting for their correction.
pub const BAD_PAGES_OPEN_MAX: usize = 256;
/// Most streams that may be bound to a session beside its own (announced as `bind_max`).
pub const BOUND_STREAMS_MAX: u8 = 15;
/// Bytes after which the reference server divides an answer of data into parts.
pub const PART_BYTES: usize = 2 * 1024 * 1024;
/// Largest body of an answer that a client gathers in memory (everything that is not data), in
/// bytes.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Longest line of a directory listing (a name, or a stat text with its checksum), in bytes.
pub const LISTING_LINE_BYTES_MAX: usize = 4096;
/// Longest user name of a login, in bytes.
pub const USER_NAME_BYTES: usize = 8;
/// Longest token of a `ztn` credential that is announced and accepted, in bytes.
pub const ZTN_TOKEN_BYTES_MAX: usize = 65534;
/// Redirects that a client follows for one request.
pub const REDIRECTS_MAX: usize = 16;
/// Rounds of authentication with one protocol.
pub const AUTHENTICATION_ROUNDS_MAX: u32 = 16;
/// Authentications that may fail on one connection before it is closed.
pub const AUTHENTICATION_FAILURES_MAX: u32 = 8;
/// Port of a server whose URL names none.
pub const DEFAULT_PORT: u16 = 1094;
/// The protocol version that has page checksums: 5.1.1, as version 5.5 of the reference server
/// announces.
pub const PROTOCOL_VERSION: u32 = 0x511;
/// From this version on a server can speak TLS.
pub const PROTOCOL_VERSION_TLS: u32 = 0x500;
/// From this version on a server can know page reads and writes, if its flags say so.
pub const PROTOCOL_VERSION_PAGES: u32 = 0x511;
/// Bytes of the header of a cluster message.
pub const CMS_HEADER_BYTES: usize = 8;
/// Most data of a cluster message, in bytes: what its length field can say.
pub const CMS_DATA_BYTES_MAX: usize = u16::MAX as usize;
/// Most data of a login to a manager, in bytes: the manager's buffer.
pub const CMS_LOGIN_BYTES_MAX: usize = 4096;
/// Longest path in a message to a manager, in bytes: its buffer for a request is 16 KiB.
pub const CMS_PATH_BYTES_MAX: usize = 8 * 1024;
/// Most other managers that one message names: the servers below one manager.
pub const CMS_ALTERNATES_MAX: usize = 64;
