//! Limits of this crate. Those that a site may want to change are defaults that the configuration
//! overrides; the rest are fixed.

/// Longest chunk-size line of a chunked body, extensions included, in bytes.
pub const CHUNK_LINE_BYTES_MAX: usize = 256;
/// Longest trailer section behind a chunked body, in bytes.
pub const TRAILER_BYTES_MAX: usize = 8 * 1024;
/// Longest line between the parts of an answer with many ranges, in bytes.
pub const MULTIPART_LINE_BYTES_MAX: usize = 1024;
/// Most lines between two parts of an answer with many ranges.
pub const MULTIPART_LINES_MAX: usize = 64;
/// Longest header lines of a request that a connection keeps, to know them again, in bytes.
pub const LAST_HEADERS_BYTES_MAX: usize = 4096;
/// Longest body of a PROPFIND that a connection keeps, to know it again, in bytes.
pub const LAST_PROPFIND_BYTES_MAX: usize = 1024;
/// Longest line in a performance-marker stream; davix reads lines into 1024 bytes.
pub const MARKER_LINE_BYTES_MAX: usize = 1000;
/// Most stripes that a peer's performance markers may name; more are not counted.
pub const MARKER_STRIPES_MAX: usize = 128;
/// Largest entry in a multistatus answer that a client reads, in bytes.
pub const MULTISTATUS_ENTRY_BYTES_MAX: usize = 256 * 1024;
/// Longest text that is taken from a server about a listing as a whole, in characters; the rest is
/// cut off.
pub const MULTISTATUS_DESCRIPTION_CHARS_MAX: usize = 256;
/// Most properties that one PROPPATCH may change.
pub const PROPPATCH_CHANGES_MAX: usize = 256;
/// Largest values of one PROPPATCH together, with the declarations that each needs, in bytes.
pub const PROPPATCH_VALUES_BYTES_MAX: usize = 256 * 1024;
/// Most prefixes that may be declared at one place in a PROPPATCH.
pub const PROPPATCH_SCOPE_MAX: usize = 64;
/// Most dead properties of one file or directory.
pub const DEAD_PROPERTIES_MAX: usize = 128;
/// Largest room for all dead properties of one file or directory, in bytes. File systems allow
/// less: ext4 some 4 KB.
pub const DEAD_PROPERTIES_BYTES_MAX: usize = 48 * 1024;
/// Most properties that one PROPFIND may name.
pub const PROPFIND_PROPERTIES_MAX: usize = 256;
/// Longest list of the properties of a PROPFIND that are not known here, as each entry repeats it.
pub const PROPFIND_UNKNOWN_BYTES_MAX: usize = 16 * 1024;
/// Longest text about its owner that a lock keeps, in bytes.
pub const LOCK_OWNER_BYTES_MAX: usize = 1024;
/// Most conditions in an `If` header; each may need a look at another file.
pub const IF_CONDITIONS_MAX: usize = 32;
/// Deepest nesting of elements in XML from outside.
pub const XML_DEPTH_MAX: usize = 32;
/// Largest stream count that a request may name at all (XRootD refuses above 100).
pub const STREAMS_REQUEST_MAX: u32 = 100;
