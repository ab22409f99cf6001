//! TLS records, sealed and opened in place: a header, perhaps an explicit nonce, the payload and a
//! tag (RFC 8446 §5.2, RFC 5246 §6.2.3, RFC 5288 §3, RFC 7905 §2).
//!
//! Keys come from the caller's handshake. No I/O and no clock; working in place saves two copies of
//! the payload in each direction.
#![forbid(unsafe_code)]

mod cipher;
mod record;

pub use cipher::{Algorithm, Cipher, NONCE_BYTES, Refused, TAG_BYTES};
pub use record::{
    ContentType, HEADER_BYTES, Keys, Opener, PAYLOAD_BYTES_MAX, RECORD_BYTES_MAX, RECORDS_PER_KEY_MAX, RecordFault,
    Sealer, Version, record_length,
};
