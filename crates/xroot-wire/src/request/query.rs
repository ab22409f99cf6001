//! Questions of many kinds (`kXR_query`).

use super::RequestHeader;
use crate::bytes::text_bytes;
use crate::ids::FileHandle;
use crate::path::{Argument, Cgi};
use crate::refusal::{Refusal, argument_missing};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryKind {
    /// The server's statistics; the argument says which, by letters.
    Statistics,
    /// How far a `prepare` is; the argument is its name and paths, one on each line.
    PrepareStatus,
    /// A file's checksum; the algorithm is in the CGI.
    Checksum,
    /// The file's fixed attributes, as text.
    ExtendedAttributes,
    /// The space in the export that the path is in.
    Space,
    /// Gives up a checksum that is being computed.
    CancelChecksum,
    /// The server's configuration; the argument holds keys.
    Config,
    /// Something about an open file; not implemented anywhere.
    Visa,
    /// Something about a file that a plug-in knows, since version 5.2.
    FileInformation,
    /// Something about the file system that a plug-in knows, since version 5.2.
    FileSystemInformation,
    /// Any text, for a plug-in.
    Opaque,
    /// Any text behind a path, for a plug-in.
    OpaquePath,
    /// Any bytes about an open file; a third-party copy is cancelled so.
    OpaqueHandle,
    /// Another number: to be refused.
    Unknown(u16),
}

impl QueryKind {
    fn from_number(number: u16) -> Self {
        match number {
            1 => Self::Statistics,
            2 => Self::PrepareStatus,
            3 => Self::Checksum,
            4 => Self::ExtendedAttributes,
            5 => Self::Space,
            6 => Self::CancelChecksum,
            7 => Self::Config,
            8 => Self::Visa,
            9 => Self::FileInformation,
            10 => Self::FileSystemInformation,
            16 => Self::Opaque,
            32 => Self::OpaquePath,
            64 => Self::OpaqueHandle,
            other => Self::Unknown(other),
        }
    }

    fn number(self) -> u16 {
        match self {
            Self::Statistics => 1,
            Self::PrepareStatus => 2,
            Self::Checksum => 3,
            Self::ExtendedAttributes => 4,
            Self::Space => 5,
            Self::CancelChecksum => 6,
            Self::Config => 7,
            Self::Visa => 8,
            Self::FileInformation => 9,
            Self::FileSystemInformation => 10,
            Self::Opaque => 16,
            Self::OpaquePath => 32,
            Self::OpaqueHandle => 64,
            Self::Unknown(number) => number,
        }
    }

    /// Whether the question is about an open file and needs no argument.
    fn is_about_handle(self) -> bool {
        matches!(self, Self::Visa | Self::OpaqueHandle)
    }
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// What is asked.
    pub kind: QueryKind,
    /// The open file that some kinds are about.
    pub handle: FileHandle,
    /// The rest; often with a NUL at its end.
    pub argument: Argument<'a>,
}

impl<'a> Query<'a> {
    /// What a client sends about an open destination file to give up its third-party copy, NUL
    /// included.
    pub const CANCEL_THIRD_PARTY: &'static [u8] = b"ofs.tpc cancel\0";

    /// The CGI key of a question about what the listing of a directory leaves out. It stands behind
    /// the path of an [`QueryKind::OpaquePath`], which the protocol leaves to each server.
    pub const UNLISTED: &'static str = "crossload.unlisted";

    /// Asks a Crossload server what the listing of a directory leaves out. `argument` is the path
    /// with [`Self::UNLISTED`] in its CGI.
    #[must_use]
    pub fn unlisted(argument: &'a [u8]) -> Self {
        Self::new(QueryKind::OpaquePath, argument)
    }

    /// Whether it is asked what the listing of a directory leaves out.
    #[must_use]
    pub fn asks_for_unlisted(&self) -> bool {
        let cgi = self.argument.text().and_then(|text| text.split_once('?'));
        self.kind == QueryKind::OpaquePath && cgi.is_some_and(|(_, cgi)| Cgi::new(cgi).value(Self::UNLISTED).is_some())
    }

    /// A question without an open file.
    #[must_use]
    pub fn new(kind: QueryKind, argument: &'a [u8]) -> Self {
        Self {
            kind,
            handle: FileHandle::default(),
            argument: Argument::new(argument),
        }
    }

    /// Whether a third-party copy is to be given up.
    #[must_use]
    pub fn cancels_third_party(&self) -> bool {
        self.kind == QueryKind::OpaqueHandle && self.argument.bytes() == Self::CANCEL_THIRD_PARTY
    }

    /// The keys of a question about the configuration.
    #[must_use]
    pub fn config_keys(&self) -> ConfigKeys<'a> {
        ConfigKeys(std::str::from_utf8(text_bytes(self.argument.bytes())).unwrap_or_default())
    }

    pub(super) fn parse(header: &RequestHeader, payload: &'a [u8]) -> Result<Self, Refusal> {
        let kind = QueryKind::from_number(header.u16(0));
        if payload.is_empty() && !kind.is_about_handle() {
            return Err(argument_missing());
        }
        Ok(Self {
            kind,
            handle: header.handle(4),
            argument: Argument::new(payload),
        })
    }

    pub(super) fn fill(&self, block: &mut [u8; 16], out: &mut Vec<u8>) {
        block[..2].copy_from_slice(&self.kind.number().to_be_bytes());
        block[4..8].copy_from_slice(&self.handle.0);
        out.extend_from_slice(self.argument.bytes());
    }
}

/// The keys of a question about the configuration. Clients separate them by spaces or line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigKeys<'a>(&'a str);

impl<'a> ConfigKeys<'a> {
    /// The keys in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.0.split([' ', '\n']).filter(|key| !key.is_empty())
    }
}
