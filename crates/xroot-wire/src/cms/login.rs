//! How a server and its manager introduce themselves.

use bitflags::bitflags;

use super::header::{Code, Frame, Header};
use super::pack::{Packer, Unpacker};
use crate::limits::CMS_LOGIN_BYTES_MAX;

/// The version of the protocol.
const VERSION: u16 = 3;
const SHARE_SHIFT: u32 = 24;
const SHARE_MAX: u32 = 100;

bitflags! {
    /// What a party of a login is, and its state. Bits without a name here are kept: two of the
    /// fields in them are a time zone and a share.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LoginMode: u32 {
        /// The redirecting XRootD server beside a manager.
        const DIRECTOR = 0x0000_0001;
        /// A manager.
        const MANAGER = 0x0000_0002;
        /// A manager's peer.
        const PEER = 0x0000_0004;
        /// A server with files.
        const SERVER = 0x0000_0008;
        /// A server that gets its files elsewhere.
        const PROXY = 0x0000_0010;
        /// A manager below a manager.
        const SUB_MANAGER = 0x0000_0020;
        /// It follows a permanent redirect.
        const FOLLOWS_REDIRECTS = 0x0000_0040;
        /// It takes no clients until it says so.
        const SUSPENDED = 0x0000_0100;
        /// It cannot bring files online.
        const NO_STAGING = 0x0000_0200;
        /// It has tried for long, and found no place in a cluster.
        const TRYING = 0x0000_0400;
        /// The manager logs details.
        const DEBUG = 0x8000_0000;
        const _ = !0;
    }
}

impl LoginMode {
    /// The same with a share in percent (0 to 100): how much of the clients a manager of managers
    /// may send here.
    #[must_use]
    pub fn with_share(self, percent: u8) -> Self {
        self | Self::from_bits_retain(u32::from(percent).min(SHARE_MAX) << SHARE_SHIFT)
    }
}

/// A login in either direction. Texts that are not there are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Login<'a> {
    /// Version of the protocol.
    pub version: u16,
    /// What the party is.
    pub mode: LoginMode,
    /// Of a manager: how long it keeps a question, in milliseconds. Of a server: its process id.
    pub hold_time: u32,
    /// Space of all file systems, in MiB (the header of XRootD says GB, its programs send MiB).
    pub total_mib: u32,
    /// Free space of the emptiest file system, in MiB.
    pub free_mib: u32,
    /// Free space below which the server takes no new files, in MiB.
    pub minimum_free_mib: u32,
    /// File systems.
    pub file_systems: u16,
    /// Space in use, in percent.
    pub used_percent: u16,
    /// Port for clients.
    pub data_port: u16,
    /// Port for servers below it; 0 if it takes none.
    pub cluster_port: u16,
    /// Identifies the party in its cluster: `NAME@HOST CLUSTER`.
    pub system_id: &'a [u8],
    /// Exported paths, a line each ([`path_lines`]). A server that names none exports `/`
    /// read-only.
    pub paths: &'a [u8],
    /// Network interfaces.
    pub interfaces: &'a [u8],
    /// Variables, `NAME=VALUE` with `&` between: `myHN`, `site`.
    pub environment: &'a [u8],
}

impl<'a> Login<'a> {
    /// The login of a data server, of this version.
    #[must_use]
    pub fn of_server(mode: LoginMode) -> Self {
        Self {
            version: VERSION,
            mode: mode | LoginMode::SERVER | LoginMode::FOLLOWS_REDIRECTS,
            ..Self::default()
        }
    }

    /// Reads the data of a login; `None` if it is malformed. The texts may be missing.
    pub(super) fn parse(data: &'a [u8]) -> Option<Self> {
        let mut values = Unpacker::new(data);
        Some(Self {
            version: values.short()?,
            mode: LoginMode::from_bits_retain(values.int()?),
            hold_time: values.int()?,
            total_mib: values.int()?,
            free_mib: values.int()?,
            minimum_free_mib: values.int()?,
            file_systems: values.short()?,
            used_percent: values.short()?,
            data_port: values.short()?,
            cluster_port: values.short()?,
            system_id: values.optional_text()?,
            paths: values.optional_text()?,
            interfaces: values.optional_text()?,
            environment: values.optional_text()?,
        })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// [`LoginFault::TooLong`] if a manager could not read it.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), LoginFault> {
        let mut values = Packer::default();
        values.short(self.version);
        values.int(self.mode.bits());
        values.int(self.hold_time);
        values.int(self.total_mib);
        values.int(self.free_mib);
        values.int(self.minimum_free_mib);
        for number in [self.file_systems, self.used_percent, self.data_port, self.cluster_port] {
            values.short(number);
        }
        let texts = [self.system_id, self.paths, self.interfaces, self.environment];
        let length: usize = texts.iter().map(|text| text.len() + 3).sum();
        if values.0.len() + length > CMS_LOGIN_BYTES_MAX {
            return Err(LoginFault::TooLong);
        }
        texts.iter().for_each(|text| values.text(text));
        let header = Header {
            code: Code::Login.number(),
            ..Header::default()
        };
        Frame {
            header,
            data: &values.0,
        }
        .encode(out);
        Ok(())
    }
}

/// A path that a server exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedPath<'a> {
    /// The path, absolute.
    pub path: &'a [u8],
    /// Whether clients may write below it.
    pub is_writable: bool,
}

/// Why a server cannot introduce itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginFault {
    /// Nothing is exported; a manager would take that for the whole tree.
    NothingExported,
    /// A path contains a space or a control character, or does not begin with a slash.
    UnfitPath,
    /// All together is longer than [`CMS_LOGIN_BYTES_MAX`].
    TooLong,
}

/// The paths of a login, a line each: `w /path` for reading and writing, `r /path` for reading.
///
/// # Errors
/// No path, or one that the lines cannot express.
pub fn path_lines(exports: &[ExportedPath<'_>]) -> Result<Vec<u8>, LoginFault> {
    let mut lines = Vec::new();
    for export in exports {
        let is_fit = export.path.first() == Some(&b'/');
        if !is_fit || export.path.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
            return Err(LoginFault::UnfitPath);
        }
        if !lines.is_empty() {
            lines.push(b'\n');
        }
        lines.extend_from_slice(if export.is_writable { b"w " } else { b"r " });
        lines.extend_from_slice(export.path);
    }
    match lines.len() {
        0 => Err(LoginFault::NothingExported),
        length if length > CMS_LOGIN_BYTES_MAX => Err(LoginFault::TooLong),
        _ => Ok(lines),
    }
}
