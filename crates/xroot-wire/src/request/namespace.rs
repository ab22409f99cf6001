//! Requests about names.

use super::{Request, RequestHeader};
use crate::bytes::text_bytes;
use crate::codes::Opcode;
use crate::flags::{ListOptions, LocateOptions, PrepareExtraOptions, PrepareOptions};
use crate::ids::FileHandle;
use crate::path::Argument;
use crate::refusal::{Refusal, argument_missing, malformed};

/// What to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatTarget<'a> {
    /// An open file.
    Handle(FileHandle),
    /// A name.
    Path(Argument<'a>),
}

/// What a file is (`kXR_stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat<'a> {
    /// 1 = tell of the space there instead.
    pub options: u8,
    /// What more to tell, since version 5.2. Clients do not agree on its byte order.
    pub wants: u32,
    /// What to look at.
    pub target: StatTarget<'a>,
}

impl<'a> Stat<'a> {
    /// The option to tell of space.
    pub const SPACE: u8 = 1;

    /// A question about a name.
    #[must_use]
    pub fn path(path: &'a [u8]) -> Self {
        Self {
            options: 0,
            wants: 0,
            target: StatTarget::Path(Argument::new(path)),
        }
    }

    /// A question about an open file.
    #[must_use]
    pub fn handle(handle: FileHandle) -> Self {
        Self {
            options: 0,
            wants: 0,
            target: StatTarget::Handle(handle),
        }
    }

    /// Whether to tell of the space there.
    #[must_use]
    pub fn asks_for_space(&self) -> bool {
        self.options & Self::SPACE != 0
    }

    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[0] = self.options;
        block[8..12].copy_from_slice(&self.wants.to_be_bytes());
        match self.target {
            StatTarget::Handle(handle) => block[12..].copy_from_slice(&handle.0),
            StatTarget::Path(path) => out.extend_from_slice(path.bytes()),
        }
    }
}

/// Several paths, one on each line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathArguments<'a>(&'a [u8]);

impl<'a> PathArguments<'a> {
    /// The paths of a payload.
    #[must_use]
    pub fn new(lines: &'a [u8]) -> Self {
        Self(lines)
    }

    /// The paths in order; empty lines are passed over.
    pub fn iter(&self) -> impl Iterator<Item = Argument<'a>> + use<'a> {
        text_bytes(self.0)
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(Argument::new)
    }

    /// The payload.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }
}

/// What many files are (`kXR_statx`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatMany<'a> {
    /// The paths.
    pub paths: PathArguments<'a>,
}

/// Where a file is (`kXR_locate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locate<'a> {
    /// How to look.
    pub options: LocateOptions,
    /// The path; behind a `*`, or `*` alone: any server that could have it.
    pub path: Argument<'a>,
}

impl Locate<'_> {
    /// Whether the question is about any server for the path, not only those that have it.
    #[must_use]
    pub fn asks_for_any_server(&self) -> bool {
        self.path.bytes().first() == Some(&b'*')
    }

    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[..2].copy_from_slice(&self.options.bits().to_be_bytes());
        out.extend_from_slice(self.path.bytes());
    }
}

/// What is in a directory (`kXR_dirlist`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListDirectory<'a> {
    /// What to tell of the entries.
    pub options: ListOptions,
    /// The directory.
    pub path: Argument<'a>,
}

impl ListDirectory<'_> {
    /// Whether stat texts are wanted; a request for checksums includes them.
    #[must_use]
    pub fn wants_stat(&self) -> bool {
        self.options
            .intersects(ListOptions::STAT | ListOptions::CHECKSUM | ListOptions::STAT_EXTENDED)
    }

    /// Whether checksums are wanted.
    #[must_use]
    pub fn wants_checksums(&self) -> bool {
        self.options.contains(ListOptions::CHECKSUM)
    }

    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[15] = self.options.bits();
        out.extend_from_slice(self.path.bytes());
    }
}

/// Makes a directory (`kXR_mkdir`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MakeDirectory<'a> {
    /// 1 = make missing ones above it, too.
    pub options: u8,
    /// Unix permission bits.
    pub mode: u16,
    /// The directory.
    pub path: Argument<'a>,
}

impl MakeDirectory<'_> {
    /// The option to make missing directories above.
    pub const MAKE_PATH: u8 = 1;

    /// Whether missing directories above it are made, too.
    #[must_use]
    pub fn makes_path(&self) -> bool {
        self.options & Self::MAKE_PATH != 0
    }

    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[0] = self.options;
        block[14..].copy_from_slice(&self.mode.to_be_bytes());
        out.extend_from_slice(self.path.bytes());
    }
}

/// Removes a directory (`kXR_rmdir`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveDirectory<'a> {
    /// The directory.
    pub path: Argument<'a>,
}

/// Removes a file (`kXR_rm`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remove<'a> {
    /// The file.
    pub path: Argument<'a>,
}

/// Renames a file or directory (`kXR_mv`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rename<'a> {
    /// Length of the old name as the client announced it; 0 = the names are split at the first
    /// space.
    pub source_bytes: u16,
    /// The old name.
    pub source: Argument<'a>,
    /// The new name.
    pub destination: Argument<'a>,
}

impl<'a> Rename<'a> {
    /// A request that announces the length of the old name where it fits.
    #[must_use]
    pub fn new(source: &'a [u8], destination: &'a [u8]) -> Self {
        let fits = i16::try_from(source.len())
            .ok()
            .and_then(|bytes| u16::try_from(bytes).ok());
        Self {
            source_bytes: fits.unwrap_or(0),
            source: Argument::new(source),
            destination: Argument::new(destination),
        }
    }

    fn parse(header: &RequestHeader, payload: &'a [u8]) -> Result<Self, Refusal> {
        let announced = i16::from_be_bytes(header.field(14));
        let announced = usize::try_from(announced).map_err(|_| malformed("the length of the old name is negative"))?;
        let split = if announced > 0 {
            Some(announced)
        } else {
            payload.iter().position(|byte| *byte == b' ')
        };
        let (source, rest) = split
            .and_then(|at| payload.split_at_checked(at))
            .ok_or_else(|| malformed("there are not two names"))?;
        let Some((b' ', destination)) = rest.split_first() else {
            return Err(malformed("there is no space between the two names"));
        };
        if source.is_empty() || destination.is_empty() {
            return Err(malformed("one of the two names is empty"));
        }
        Ok(Self {
            source_bytes: header.u16(14),
            source: Argument::new(source),
            destination: Argument::new(destination),
        })
    }

    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[14..].copy_from_slice(&self.source_bytes.to_be_bytes());
        out.extend_from_slice(self.source.bytes());
        out.push(b' ');
        out.extend_from_slice(self.destination.bytes());
    }
}

/// Changes permissions (`kXR_chmod`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeMode<'a> {
    /// Unix permission bits.
    pub mode: u16,
    /// What to change.
    pub path: Argument<'a>,
}

impl ChangeMode<'_> {
    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[14..].copy_from_slice(&self.mode.to_be_bytes());
        out.extend_from_slice(self.path.bytes());
    }
}

/// Brings files online, or releases them (`kXR_prepare`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepare<'a> {
    /// What to do.
    pub options: PrepareOptions,
    /// From 0, the lowest, to 3.
    pub priority: u8,
    /// Where to tell when it is done.
    pub port: u16,
    /// More of what to do.
    pub extra_options: PrepareExtraOptions,
    /// The paths; for a cancellation, the name of the request to cancel.
    pub paths: PathArguments<'a>,
}

impl Prepare<'_> {
    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[0] = self.options.bits();
        block[1] = self.priority;
        block[2..4].copy_from_slice(&self.port.to_be_bytes());
        block[4..6].copy_from_slice(&self.extra_options.bits().to_be_bytes());
        out.extend_from_slice(self.paths.bytes());
    }
}

/// Reads one of the requests of this file.
pub(super) fn parse<'a>(opcode: Opcode, header: &RequestHeader, payload: &'a [u8]) -> Result<Request<'a>, Refusal> {
    if payload.is_empty() && opcode != Opcode::Stat {
        return Err(argument_missing());
    }
    let path = Argument::new(payload);
    let paths = PathArguments::new(payload);
    let mode = header.u16(14);
    Ok(match opcode {
        Opcode::Stat => Request::Stat(Stat {
            options: header.block[0],
            wants: u32::from_be_bytes(header.field(8)),
            target: if payload.is_empty() {
                StatTarget::Handle(header.handle(12))
            } else {
                StatTarget::Path(path)
            },
        }),
        Opcode::StatMany => Request::StatMany(StatMany { paths }),
        Opcode::Locate => Request::Locate(Locate {
            options: LocateOptions::from_bits_retain(header.u16(0)),
            path,
        }),
        Opcode::ListDirectory => Request::ListDirectory(ListDirectory {
            options: ListOptions::from_bits_retain(header.block[15]),
            path,
        }),
        Opcode::MakeDirectory => Request::MakeDirectory(MakeDirectory {
            options: header.block[0],
            mode,
            path,
        }),
        Opcode::RemoveDirectory => Request::RemoveDirectory(RemoveDirectory { path }),
        Opcode::Remove => Request::Remove(Remove { path }),
        Opcode::Rename => Request::Rename(Rename::parse(header, payload)?),
        Opcode::ChangeMode => Request::ChangeMode(ChangeMode { mode, path }),
        _ => Request::Prepare(Prepare {
            options: PrepareOptions::from_bits_retain(header.block[0]),
            priority: header.block[1],
            port: header.u16(2),
            extra_options: PrepareExtraOptions::from_bits_retain(header.u16(4)),
            paths,
        }),
    })
}
