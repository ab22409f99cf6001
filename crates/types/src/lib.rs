//! The vocabulary that all crates share: paths, ranges, checksums, locations, errors, limits and
//! secrets.
//!
//! Nothing here opens a socket or a file, or reads a clock.
#![forbid(unsafe_code)]

mod checksum;
pub mod error;
mod forwarding;
pub mod limits;
mod location;
mod loopback;
mod path;
mod range;
mod secret;
mod signed_url;
mod size;
mod trace_context;
mod unlisted;
mod uuid;

pub use checksum::{Checksum, ChecksumAlgorithm, combine_adler32};
pub use error::{Error, ErrorCode, PeerStatus, Phase, Result, Side};
pub use forwarding::{AllowedHosts, ForwardedPath};
pub use location::{Location, Scheme};
pub use loopback::is_loopback_host;
pub use path::{LogicalPath, decode_percent, encode_path};
pub use range::ByteRange;
pub use secret::{Secret, is_open_to_others, is_same};
pub use signed_url::{Signer, UrlSignature};
pub use size::binary_size;
pub use trace_context::{SpanContext, is_traceparent};
pub use unlisted::{LeftOut, Unlisted};
pub use uuid::uuid_text;
