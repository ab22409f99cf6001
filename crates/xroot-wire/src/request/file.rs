//! Requests about open files.

use types::ErrorCode;

use super::{Payload, Request, RequestHeader};
use crate::codes::Opcode;
use crate::error_number::ErrorNumber;
use crate::flags::{OpenExtraOptions, OpenOptions, PageFlags};
use crate::ids::FileHandle;
use crate::limits::REQUEST_HEADER_BYTES;
use crate::path::Argument;
use crate::refusal::{Refusal, argument_missing, malformed};

/// Opens a file (`kXR_open`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open<'a> {
    /// Unix permission bits of a file that is created.
    pub mode: u16,
    /// How to open it.
    pub options: OpenOptions,
    /// How to open it, since version 5.2.
    pub extra_options: OpenExtraOptions,
    /// An open file that some of the extra options refer to.
    pub template: FileHandle,
    /// The path and its CGI.
    pub path: Argument<'a>,
}

/// What an opened file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    Update,
    /// Writing.
    Write,
}

/// What happens to the name when a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// The file must exist and stays as it is.
    MustExist,
    /// The file must not exist.
    MustNotExist,
    /// The file is created, or cut to nothing.
    CreateOrTruncate,
}

impl Open<'_> {
    /// The access that the client wants: reading is the default; creating includes reading and
    /// writing.
    #[must_use]
    pub fn access(&self) -> Access {
        let has = |option| self.options.contains(option);
        if self.creation() != Creation::MustExist {
            return if has(OpenOptions::WRITE_ONLY) && !has(OpenOptions::UPDATE) {
                Access::Write
            } else {
                Access::Update
            };
        }
        if has(OpenOptions::READ) {
            Access::Read
        } else if has(OpenOptions::UPDATE) || has(OpenOptions::APPEND) {
            Access::Update
        } else if has(OpenOptions::WRITE_ONLY) {
            Access::Write
        } else {
            Access::Read
        }
    }

    /// What happens to the name. `NEW` wins over `TRUNCATE`.
    #[must_use]
    pub fn creation(&self) -> Creation {
        if self.options.contains(OpenOptions::NEW) {
            Creation::MustNotExist
        } else if self.options.contains(OpenOptions::TRUNCATE) {
            Creation::CreateOrTruncate
        } else {
            Creation::MustExist
        }
    }

    /// Whether missing directories are made. Clients of the reference implementation always set
    /// `ASYNCHRONOUS` and rely on its meaning this, too.
    #[must_use]
    pub fn makes_path(&self) -> bool {
        self.creation() != Creation::MustExist
            && self
                .options
                .intersects(OpenOptions::MAKE_PATH | OpenOptions::ASYNCHRONOUS)
    }

    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[..2].copy_from_slice(&self.mode.to_be_bytes());
        block[2..4].copy_from_slice(&self.options.bits().to_be_bytes());
        block[4..6].copy_from_slice(&self.extra_options.bits().to_be_bytes());
        block[12..].copy_from_slice(&self.template.0);
        out.extend_from_slice(self.path.bytes());
    }
}

/// Closes a file (`kXR_close`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// The open file.
    pub handle: FileHandle,
}

/// Makes a file durable (`kXR_sync`). On the destination of a third-party copy, the first prepares
/// the copy and the second starts it and waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncFile {
    /// The open file.
    pub handle: FileHandle,
}

/// Which file to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TruncateTarget<'a> {
    /// An open one.
    Handle(FileHandle),
    /// A named one.
    Path(Argument<'a>),
}

/// Cuts or extends a file (`kXR_truncate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncate<'a> {
    /// Which file.
    pub target: TruncateTarget<'a>,
    /// Its new size; never negative once parsed.
    pub size_bytes: u64,
}

impl Truncate<'_> {
    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        match self.target {
            TruncateTarget::Handle(handle) => block[..4].copy_from_slice(&handle.0),
            TruncateTarget::Path(path) => out.extend_from_slice(path.bytes()),
        }
        block[4..12].copy_from_slice(&self.size_bytes.to_be_bytes());
    }
}

/// Reads a range (`kXR_read`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The open file.
    pub handle: FileHandle,
    /// Where to begin.
    pub offset: u64,
    /// Most bytes to read.
    pub length: u32,
    /// The stream to answer on; `None` when the client did not send the optional payload.
    pub path: Option<u8>,
}

impl Read {
    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        fill_range(block, self.handle, self.offset, self.length);
        if let Some(path) = self.path {
            out.extend_from_slice(&[path, 0, 0, 0, 0, 0, 0, 0]);
        }
    }
}

/// Reads a range with page checksums (`kXR_pgread`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRead {
    /// The open file.
    pub handle: FileHandle,
    /// Where to begin.
    pub offset: u64,
    /// Most bytes of the file to read; never zero once parsed.
    pub length: u32,
    /// The stream to answer on; `None` when the client did not send the optional payload.
    pub path: Option<u8>,
    /// Whether a page is read again; `None` when the client did not say.
    pub flags: Option<PageFlags>,
}

impl PageRead {
    /// Whether a page whose checksum was wrong is read again.
    #[must_use]
    pub fn is_retry(&self) -> bool {
        self.flags.is_some_and(|flags| flags.contains(PageFlags::RETRY))
    }

    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        fill_range(block, self.handle, self.offset, self.length);
        if let Some(path) = self.path {
            out.push(path);
            out.extend(self.flags.map(|flags| flags.bits()));
        }
    }
}

/// Writes a range with page checksums (`kXR_pgwrite`); units of checksum and page follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageWrite {
    /// The open file.
    pub handle: FileHandle,
    /// Where to begin.
    pub offset: u64,
    /// The stream that the data come on.
    pub path: u8,
    /// Whether a page is sent again.
    pub flags: PageFlags,
    /// Bytes that follow: data and checksums. See [`crate::pages::data_bytes`].
    pub encoded_bytes: usize,
}

impl PageWrite {
    /// Whether a page whose checksum was wrong is sent again.
    #[must_use]
    pub fn is_retry(&self) -> bool {
        self.flags.contains(PageFlags::RETRY)
    }

    pub(super) fn fill(&self, block: &mut [u8; 16]) -> usize {
        block[..4].copy_from_slice(&self.handle.0);
        block[4..12].copy_from_slice(&self.offset.to_be_bytes());
        block[12] = self.path;
        block[13] = self.flags.bits();
        self.encoded_bytes
    }
}

/// Writes a range (`kXR_write`); the data follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The open file.
    pub handle: FileHandle,
    /// Where to begin.
    pub offset: u64,
    /// The stream that the data come on.
    pub path: u8,
    /// Bytes of data that follow.
    pub data_bytes: usize,
}

impl Write {
    pub(super) fn fill(&self, block: &mut [u8; 16]) -> usize {
        block[..4].copy_from_slice(&self.handle.0);
        block[4..12].copy_from_slice(&self.offset.to_be_bytes());
        block[12] = self.path;
        self.data_bytes
    }
}

/// What to do with a group of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointAction {
    /// Begin one.
    Begin,
    /// Keep its changes.
    Commit,
    /// How much can it hold, and how much does it?
    Query,
    /// Undo its changes.
    Rollback,
    /// Carry out the embedded request, whose own payload follows, as part of it.
    Execute(RequestHeader),
}

/// Begins, commits or undoes a group of changes of a file (`kXR_chkpoint`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The open file.
    pub handle: FileHandle,
    /// What to do.
    pub action: CheckpointAction,
}

impl Checkpoint {
    fn parse(header: &RequestHeader, payload: &[u8]) -> Result<Self, Refusal> {
        let [.., number] = header.block;
        let action = match number {
            0 => CheckpointAction::Begin,
            1 => CheckpointAction::Commit,
            2 => CheckpointAction::Query,
            3 => CheckpointAction::Rollback,
            4 => CheckpointAction::Execute(Self::embedded(header, payload)?),
            _ => return Err(malformed("the checkpoint's action is not known")),
        };
        Ok(Self {
            handle: header.handle(0),
            action,
        })
    }

    /// The embedded request: one that changes an open file, with the same stream id.
    fn embedded(header: &RequestHeader, payload: &[u8]) -> Result<RequestHeader, Refusal> {
        let bytes: &[u8; REQUEST_HEADER_BYTES] = payload
            .try_into()
            .map_err(|_| malformed("the embedded request is no header").closing())?;
        let embedded = RequestHeader::parse(bytes);
        let changes = matches!(
            embedded.known_opcode(),
            Some(Opcode::Write | Opcode::PageWrite | Opcode::WriteVector | Opcode::Truncate)
        );
        if !changes || embedded.stream != header.stream {
            return Err(malformed("the embedded request is not one of a checkpoint").closing());
        }
        embedded.payload()?;
        Ok(embedded)
    }

    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[..4].copy_from_slice(&self.handle.0);
        block[15] = match self.action {
            CheckpointAction::Begin => 0,
            CheckpointAction::Commit => 1,
            CheckpointAction::Query => 2,
            CheckpointAction::Rollback => 3,
            CheckpointAction::Execute(embedded) => {
                out.extend_from_slice(&embedded.encode());
                4
            }
        };
    }
}

fn fill_range(block: &mut [u8; 16], handle: FileHandle, offset: u64, length: u32) {
    block[..4].copy_from_slice(&handle.0);
    block[4..12].copy_from_slice(&offset.to_be_bytes());
    block[12..].copy_from_slice(&length.to_be_bytes());
}

/// An offset or size of the protocol, which is signed there.
fn unsigned(value: i64) -> Result<u64, Refusal> {
    u64::try_from(value).map_err(|_| malformed("an offset or size is negative"))
}

/// The same for a write: what follows is data, which is read away by the caller.
fn data_bytes(header: &RequestHeader) -> Result<usize, Refusal> {
    match header.payload()? {
        Payload::Streamed(bytes) => Ok(bytes),
        _ => Err(malformed("the request has no data")),
    }
}

/// Reads one of the requests of this file.
pub(super) fn parse<'a>(opcode: Opcode, header: &RequestHeader, payload: &'a [u8]) -> Result<Request<'a>, Refusal> {
    Ok(match opcode {
        Opcode::Open if payload.is_empty() => return Err(argument_missing()),
        Opcode::Open => Request::Open(Open {
            mode: header.u16(0),
            options: OpenOptions::from_bits_retain(header.u16(2)),
            extra_options: OpenExtraOptions::from_bits_retain(header.u16(4)),
            template: header.handle(12),
            path: Argument::new(payload),
        }),
        Opcode::Close => Request::Close(Close {
            handle: header.handle(0),
        }),
        Opcode::Sync => Request::Sync(SyncFile {
            handle: header.handle(0),
        }),
        Opcode::Truncate => Request::Truncate(Truncate {
            target: if payload.is_empty() {
                TruncateTarget::Handle(header.handle(0))
            } else {
                TruncateTarget::Path(Argument::new(payload))
            },
            size_bytes: unsigned(header.i64(4))?,
        }),
        Opcode::Read => Request::Read(Read {
            handle: header.handle(0),
            offset: unsigned(header.i64(4))?,
            length: u32::try_from(header.i32(12)).map_err(|_| malformed("the length is negative"))?,
            path: payload.first().copied(),
        }),
        Opcode::PageRead => Request::PageRead(parse_page_read(header, payload)?),
        Opcode::PageWrite => Request::PageWrite(PageWrite {
            encoded_bytes: data_bytes(header)?,
            handle: header.handle(0),
            offset: unsigned(header.i64(4))?,
            path: header.block[12],
            flags: PageFlags::from_bits_retain(header.block[13]),
        }),
        Opcode::Write => Request::Write(Write {
            data_bytes: data_bytes(header)?,
            handle: header.handle(0),
            offset: unsigned(header.i64(4))?,
            path: header.block[12],
        }),
        Opcode::Checkpoint => Request::Checkpoint(Checkpoint::parse(header, payload)?),
        _ => {
            return Err(
                Refusal::new(ErrorCode::NotImplemented, "the request is not one of a file")
                    .numbered(ErrorNumber::INVALID_REQUEST),
            );
        }
    })
}

fn parse_page_read(header: &RequestHeader, payload: &[u8]) -> Result<PageRead, Refusal> {
    let length = u32::try_from(header.i32(12)).ok().filter(|length| *length > 0);
    Ok(PageRead {
        handle: header.handle(0),
        offset: unsigned(header.i64(4))?,
        length: length.ok_or_else(|| malformed("the length of a page read is not positive"))?,
        path: payload.first().copied(),
        flags: payload.get(1).copied().map(PageFlags::from_bits_retain),
    })
}
