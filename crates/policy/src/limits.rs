//! Limits of this crate. Those that a site may want to change are defaults that the configuration
//! overrides; the rest are fixed.

/// Most exceptions that a macaroon carries; where its requester has more, activities are left out.
pub const MACAROON_EXCEPTIONS_MAX: usize = 16;
/// Most bytes of a macaroon's exceptions together.
pub const MACAROON_EXCEPTIONS_BYTES_MAX: usize = 1024;
/// Longest key of an XRootD third-party copy, in bytes; the reference client's have 24.
pub const TPC_KEY_BYTES_MAX: usize = 256;
/// Longest name of a client between two servers (`user.process@host`), in bytes.
pub const TPC_ORIGIN_BYTES_MAX: usize = 512;
