//! HTTP/1.1 and WebDAV as bytes: heads, bodies, header values, XML, performance markers.
//!
//! Everything here is given bytes and gives back bytes or values. There are no sockets, files,
//! clocks or random numbers, so every rule can be tested, and every decoder fuzzed, in memory.
//!
//! This is the only crate that spells header names. Other crates use a typed accessor of
//! [`RequestHead`] or [`ResponseHead`], or a setter of [`RequestBuilder`] or [`ResponseBuilder`].
#![forbid(unsafe_code)]

mod ask;
mod body;
mod cache_control;
mod condition;
mod date;
mod delegation;
mod digest;
mod fault;
mod head;
mod headers;
mod last_headers;
pub mod limits;
mod marker;
mod multipart;
mod names;
mod number;
mod parse;
mod range;
mod request;
mod respond;
mod response;
mod shown;
mod state;
mod status;
mod tpc;
pub mod webdav;
mod xml;

pub use ask::RequestBuilder;
pub use body::{BodyDecoder, CHUNK_END, ChunkHead, Decoded, LAST_CHUNK, chunk_head, last_chunk_with_trailers};
pub use cache_control::CacheDirectives;
pub use condition::{Validators, Verdict};
pub use date::{format_date, format_iso_date, parse_date};
pub use delegation::{DelegationAnswer, DelegationRequest, delegation_fault};
pub use digest::{digest_value, repr_digest_value, want_digest_value, want_repr_digest_value};
pub use head::{Framing, Method, RequestHead, ResponseHead, Target, Version};
pub use headers::Headers;
pub use last_headers::LastHeaders;
pub use marker::{CopyProgress, Marker, MarkerParser, Outcome};
pub use multipart::{MultipartDecoder, MultipartPiece};
pub use names::{IDEMPOTENCY_KEY, LAST_EVENT_ID, TRACEPARENT};
pub use parse::{HeadLimits, parse_next_request, parse_request, parse_response};
pub use range::{ContentRange, Multipart, Ranges};
pub use request::{Authorization, BearerToken, Depth, DestinationPath, declared_trailer_digests, url_with_redirect_id};
pub use respond::{BearerChallenge, CONTINUE, ContentType, ResponseBuilder, digest_trailer, status_trailer};
pub use response::{trailer_digests, transfer_status};
pub use shown::{shown_answer, shown_request};
pub use state::{ResourceState, State, StateCondition, StateConditions, StateList};
pub use status::{is_clients_fault, reason_phrase};
pub use tpc::{CopyPeer, CopyRequest, Delegation, ForwardedHeaders};
