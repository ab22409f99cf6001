//! Requests: a header of 24 bytes and a payload.
//!
//! A server reads the header, asks [`RequestHeader::payload`] what follows, reads what is to be
//! buffered, and gives both to [`Request::parse`]. The data of writes never come here: they stream
//! past, behind a request that was parsed from its header (and, for a vector write, from its list).

mod attributes;
mod file;
mod header;
mod namespace;
mod query;
mod session;
mod vector;

pub use attributes::{AttributeAction, AttributeNames, AttributeValues, FileAttributes};
pub use file::{
    Access, Checkpoint, CheckpointAction, Close, Creation, Open, PageRead, PageWrite, Read, SyncFile, Truncate,
    TruncateTarget, Write,
};
pub use header::{Payload, RequestHeader};
pub use namespace::{
    ChangeMode, ListDirectory, Locate, MakeDirectory, PathArguments, Prepare, Remove, RemoveDirectory, Rename, Stat,
    StatMany, StatTarget,
};
pub use query::{ConfigKeys, Query, QueryKind};
pub use session::{Authenticate, Bind, EndSession, Expect, Login, Protocol, Set, SignatureVerify, UserName};
pub use vector::{CloneItem, CloneRanges, ReadVector, VectorItem, WriteVector};

use types::ErrorCode;

use crate::codes::Opcode;
use crate::error_number::ErrorNumber;
use crate::ids::StreamId;
use crate::refusal::{Refusal, argument_missing};

/// A request. Texts are those of the payload, unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Versions, abilities, TLS.
    Protocol(Protocol),
    /// Who the client says it is.
    Login(Login<'a>),
    /// One step of an authentication.
    Authenticate(Authenticate<'a>),
    /// Makes this connection a further stream of a session.
    Bind(Bind),
    /// Ends a session.
    EndSession(EndSession),
    /// Are you there?
    Ping,
    /// A setting for the server's monitoring; answered and ignored.
    Set(Set<'a>),
    /// Opens a file.
    Open(Open<'a>),
    /// Closes a file.
    Close(Close),
    /// Makes a file durable; for a third-party copy, prepares it or starts it.
    Sync(SyncFile),
    /// Cuts a file, by handle or path.
    Truncate(Truncate<'a>),
    /// Reads a range.
    Read(Read),
    /// Reads many ranges of one or more files.
    ReadVector(ReadVector<'a>),
    /// Reads a range with page checksums.
    PageRead(PageRead),
    /// Writes a range with page checksums; the data follow.
    PageWrite(PageWrite),
    /// Writes a range; the data follow.
    Write(Write),
    /// Writes many ranges; the data follow.
    WriteVector(WriteVector<'a>),
    /// Begins, commits or undoes a group of changes of a file.
    Checkpoint(Checkpoint),
    /// Shares ranges of files by reference.
    Clone(CloneRanges<'a>),
    /// A whole file; not implemented anywhere.
    GetFile,
    /// What a file is, by handle or path, or what space there is.
    Stat(Stat<'a>),
    /// What many files are, one byte each.
    StatMany(StatMany<'a>),
    /// Where a file is.
    Locate(Locate<'a>),
    /// What is in a directory.
    ListDirectory(ListDirectory<'a>),
    /// Makes a directory.
    MakeDirectory(MakeDirectory<'a>),
    /// Removes a directory.
    RemoveDirectory(RemoveDirectory<'a>),
    /// Removes a file.
    Remove(Remove<'a>),
    /// Renames a file or directory.
    Rename(Rename<'a>),
    /// Changes permissions.
    ChangeMode(ChangeMode<'a>),
    /// Reads, writes, lists or removes extended attributes.
    FileAttributes(FileAttributes<'a>),
    /// Brings files online, or releases them.
    Prepare(Prepare<'a>),
    /// A question of many kinds.
    Query(Query<'a>),
    /// The signature of the next request.
    SignatureVerify(SignatureVerify<'a>),
}

impl<'a> Request<'a> {
    /// Reads a request from its header and its buffered payload ([`Payload::buffered_bytes`] long).
    ///
    /// # Errors
    /// What to answer when the request cannot be understood: a malformed one, one without the
    /// payload that it needs, and one that this protocol version does not know.
    pub fn parse(header: &RequestHeader, payload: &'a [u8]) -> Result<Self, Refusal> {
        let Some(opcode) = Opcode::from_number(header.opcode) else {
            return Err(unknown(payload));
        };
        match opcode {
            Opcode::Query => Query::parse(header, payload).map(Self::Query),
            Opcode::FileAttributes => FileAttributes::parse(header, payload).map(Self::FileAttributes),
            Opcode::Ping => Ok(Self::Ping),
            Opcode::GetFile => Ok(Self::GetFile),
            Opcode::Protocol
            | Opcode::Login
            | Opcode::Authenticate
            | Opcode::Bind
            | Opcode::EndSession
            | Opcode::Set
            | Opcode::SignatureVerify => session::parse(opcode, header, payload),
            Opcode::ReadVector | Opcode::WriteVector | Opcode::Clone => vector::parse(opcode, header, payload),
            Opcode::Open
            | Opcode::Close
            | Opcode::Sync
            | Opcode::Truncate
            | Opcode::Read
            | Opcode::PageRead
            | Opcode::PageWrite
            | Opcode::Write
            | Opcode::Checkpoint => file::parse(opcode, header, payload),
            Opcode::Stat
            | Opcode::StatMany
            | Opcode::Locate
            | Opcode::ListDirectory
            | Opcode::MakeDirectory
            | Opcode::RemoveDirectory
            | Opcode::Remove
            | Opcode::Rename
            | Opcode::ChangeMode
            | Opcode::Prepare => namespace::parse(opcode, header, payload),
        }
    }

    /// What it asks for.
    #[must_use]
    pub fn opcode(&self) -> Opcode {
        match self {
            Self::Protocol(_) => Opcode::Protocol,
            Self::Login(_) => Opcode::Login,
            Self::Authenticate(_) => Opcode::Authenticate,
            Self::Bind(_) => Opcode::Bind,
            Self::EndSession(_) => Opcode::EndSession,
            Self::Ping => Opcode::Ping,
            Self::Set(_) => Opcode::Set,
            Self::Open(_) => Opcode::Open,
            Self::Close(_) => Opcode::Close,
            Self::Sync(_) => Opcode::Sync,
            Self::Truncate(_) => Opcode::Truncate,
            Self::Read(_) => Opcode::Read,
            Self::ReadVector(_) => Opcode::ReadVector,
            Self::PageRead(_) => Opcode::PageRead,
            Self::PageWrite(_) => Opcode::PageWrite,
            Self::Write(_) => Opcode::Write,
            Self::WriteVector(_) => Opcode::WriteVector,
            Self::Checkpoint(_) => Opcode::Checkpoint,
            Self::Clone(_) => Opcode::Clone,
            Self::GetFile => Opcode::GetFile,
            Self::Stat(_) => Opcode::Stat,
            Self::StatMany(_) => Opcode::StatMany,
            Self::Locate(_) => Opcode::Locate,
            Self::ListDirectory(_) => Opcode::ListDirectory,
            Self::MakeDirectory(_) => Opcode::MakeDirectory,
            Self::RemoveDirectory(_) => Opcode::RemoveDirectory,
            Self::Remove(_) => Opcode::Remove,
            Self::Rename(_) => Opcode::Rename,
            Self::ChangeMode(_) => Opcode::ChangeMode,
            Self::FileAttributes(_) => Opcode::FileAttributes,
            Self::Prepare(_) => Opcode::Prepare,
            Self::Query(_) => Opcode::Query,
            Self::SignatureVerify(_) => Opcode::SignatureVerify,
        }
    }

    /// Appends the bytes of the request to `out`: header and payload, but not the data of a write,
    /// which the caller sends behind them.
    pub fn encode(&self, stream: StreamId, out: &mut Vec<u8>) {
        let start = out.len();
        let mut header = RequestHeader {
            stream,
            opcode: self.opcode().number(),
            block: [0; 16],
            length: 0,
        };
        out.extend_from_slice(&header.encode());
        let behind = self.fill(&mut header.block, out);
        let payload_bytes = out.len() - start - crate::limits::REQUEST_HEADER_BYTES;
        header.length = crate::bytes::length_i32(behind.unwrap_or(payload_bytes));
        out[start..start + crate::limits::REQUEST_HEADER_BYTES].copy_from_slice(&header.encode());
    }

    /// Fills the parameter block and appends the payload. Gives the length to announce where that
    /// is not the payload's.
    fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) -> Option<usize> {
        match self {
            Self::Ping | Self::GetFile => {}
            Self::Protocol(request) => request.fill(block),
            Self::Login(request) => request.fill(block, out),
            Self::Authenticate(request) => request.fill(block, out),
            Self::Bind(request) => *block = request.session.0,
            Self::EndSession(request) => *block = request.session.0,
            Self::Set(request) => request.fill(block, out),
            Self::SignatureVerify(request) => request.fill(block, out),
            Self::Open(request) => request.fill(block, out),
            Self::Close(request) => block[..4].copy_from_slice(&request.handle.0),
            Self::Sync(request) => block[..4].copy_from_slice(&request.handle.0),
            Self::Truncate(request) => request.fill(block, out),
            Self::Read(request) => request.fill(block, out),
            Self::PageRead(request) => request.fill(block, out),
            Self::PageWrite(request) => return Some(request.fill(block)),
            Self::Write(request) => return Some(request.fill(block)),
            Self::Checkpoint(request) => request.fill(block, out),
            Self::ReadVector(request) => request.fill(block, out),
            Self::WriteVector(request) => request.fill(block, out),
            Self::Clone(request) => request.fill(block, out),
            Self::Stat(request) => request.fill(block, out),
            Self::StatMany(request) => out.extend_from_slice(request.paths.bytes()),
            Self::Locate(request) => request.fill(block, out),
            Self::ListDirectory(request) => request.fill(block, out),
            Self::MakeDirectory(request) => request.fill(block, out),
            Self::RemoveDirectory(request) => out.extend_from_slice(request.path.bytes()),
            Self::Remove(request) => out.extend_from_slice(request.path.bytes()),
            Self::Rename(request) => request.fill(block, out),
            Self::ChangeMode(request) => request.fill(block, out),
            Self::FileAttributes(request) => request.fill(block, out),
            Self::Prepare(request) => request.fill(block, out),
            Self::Query(request) => request.fill(block, out),
        }
        None
    }
}

/// A request that is not known: without a payload, servers miss that first.
fn unknown(payload: &[u8]) -> Refusal {
    if payload.is_empty() {
        return argument_missing();
    }
    Refusal::new(ErrorCode::NotImplemented, "the request is not known").numbered(ErrorNumber::INVALID_REQUEST)
}
