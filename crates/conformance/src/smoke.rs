//! The names of what `crossload smoke` probes.

/// Over HTTP with a credential that may do everything.
pub const HTTP_PROBES: [&str; 7] = [
    "upload",
    "download",
    "adler32 by HEAD",
    "adler32 or md5 by HEAD",
    "adler32 by GET",
    "adler32 or md5 by GET",
    "delete",
];

/// The same in the XRootD protocol.
pub const ROOT_PROBES: [&str; 4] = ["upload", "download", "adler32", "delete"];

/// Third-party copies: without a credential, with one, and to the other server.
pub const COPY_PROBES: [&str; 3] = [
    "pull from a public source",
    "pull with a credential for the source",
    "push",
];
