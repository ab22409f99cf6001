//! The XRootD protocol (`root://`, `roots://`) as bytes: requests, responses, page checksums, and the
//! states of a session on both sides.
//!
//! Everything here is given bytes and gives back bytes or values. There are no sockets, files,
//! clocks or random numbers, so every rule can be tested, and every decoder fuzzed, in memory.
//!
//! The rules are those of the XRootD protocol 5.1 and what the programs that speak it depend on.
//! This is the only crate that knows the protocol's own names; elsewhere the names of this crate
//! are used.
#![forbid(unsafe_code)]

mod bytes;
pub mod cms;
mod codes;
mod connection_state;
pub mod credential;
mod error_number;
mod flags;
mod handshake;
mod hello;
mod ids;
pub mod limits;
pub mod pages;
mod path;
mod refusal;
pub mod request;
pub mod response;
mod third_party;

pub use codes::{Opcode, Status};
pub use connection_state::{ConnectionState, TlsDecision, TlsPolicy};
pub use credential::Credential;
pub use error_number::ErrorNumber;
pub use flags::{
    AttributeOptions, ListOptions, LocateOptions, LoginAbilities, OpenExtraOptions, OpenOptions, PageFlags,
    PrepareExtraOptions, PrepareOptions, ProtocolOptions, ServerFlags, StatFlags,
};
pub use handshake::{Established, Handshake, Purpose, Step, TlsUse};
pub use hello::{HELLO, HelloReply, Role, looks_like_hello};
pub use ids::{FileHandle, SessionId, StreamId};
pub use path::{Argument, Cgi, CgiBuilder, PathArgument, pack_source_cgi, unpack_source_cgi};
pub use refusal::Refusal;
pub use request::{Payload, Request, RequestHeader};
pub use response::{Answer, ResponseHeader, respond};
pub use third_party::{Stage, ThirdParty};
