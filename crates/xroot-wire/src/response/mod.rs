//! Responses: a header of 8 bytes and a body.
//!
//! The server builds them with the functions of [`respond`]; where the body is file data, it sends
//! the header of [`ResponseHeader::encode`] and the data behind it. The client reads the header,
//! asks [`ResponseHeader::body`] what follows, and gives what is to be buffered to
//! [`Answer::parse`].

mod attributes;
mod frame;
mod listing;
mod locate;
mod open;
mod page_status;
mod protocol;
mod query;
mod read_vector;
pub mod respond;
mod security;
mod stat;
mod stat_many;
mod texts;

pub use attributes::{AttributeAnswer, AttributeEntry, AttributeList, AttributeStatus};
pub use frame::{Answer, Attention, Body, LateAnswer, Redirect, RedirectTarget, ResponseHeader};
pub use listing::{ListedEntry, ListingReader, ListingWriter, parse_listed_checksum};
pub use locate::{LocateWriter, Location, parse_locations};
pub use open::OpenReply;
pub use page_status::{BadPages, PageStatus, PageStatusKind};
pub use protocol::{ProtocolReply, SigningLevel, SigningNeed, SigningRules};
pub use query::{
    ConfigAnswer, SpaceUsage, checksum_answer, config_answer, parse_checksum, parse_unlisted, unlisted_answer,
};
pub use read_vector::{ReadVectorDecoder, VectorPiece, parse_vector_answer};
pub use security::{LoginReply, SecurityEntry, parse_security_list, security_list};
pub use stat::{SpaceText, StatExtension, StatText};
pub use stat_many::{FileKind, parse_file_kinds};
pub use texts::{fixed_attributes, statistics};
