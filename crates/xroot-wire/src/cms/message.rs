//! What a manager and its server say to each other.

use bitflags::bitflags;

use super::header::{Code, Frame, Header, RAW};
use super::login::Login;
use super::pack::{Packer, Unpacker};
use crate::bytes::{Reader, text_bytes};
use crate::limits::{CMS_ALTERNATES_MAX, CMS_PATH_BYTES_MAX};

/// Modifier of `try`: forget the manager that says it.
const PERMANENT: u8 = 0x01;
/// Modifiers of `state`: look again; do not answer.
const REFRESH: u8 = 0x01;
const NO_ANSWER: u8 = 0x02;
/// Modifiers of `have`.
const ONLINE: u8 = 0x01;
const PENDING: u8 = 0x02;
const ERROR: u8 = 1;
const ERROR_PERMISSION: u32 = 2;
const DATA: u8 = 0;

/// What answers a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The manager's own login: the server is accepted.
    Login(Login<'a>),
    /// Go to another manager.
    Try(Alternates<'a>),
    /// The manager refuses.
    Refused(Refusal<'a>),
    /// The manager wants the server to authenticate.
    Authenticate,
}

impl<'a> Reply<'a> {
    /// Reads the first message of a manager; `None` if it is malformed, or another one.
    #[must_use]
    pub fn parse(frame: &Frame<'a>) -> Option<Self> {
        match frame.header.code {
            ERROR => Refusal::parse(frame.data).map(Self::Refused),
            number => match Code::from_number(number)? {
                Code::Login => Login::parse(frame.data).map(Self::Login),
                Code::Try => Alternates::parse(frame).map(Self::Try),
                Code::Authenticate => Some(Self::Authenticate),
                _ => None,
            },
        }
    }
}

/// Why a manager refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// The manager's blacklist has the server; an attempt soon after is useless.
    pub is_lasting: bool,
    /// In the manager's words.
    pub text: &'a [u8],
}

impl<'a> Refusal<'a> {
    fn parse(data: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(data);
        let code = reader.u32()?;
        Some(Self {
            is_lasting: code == ERROR_PERMISSION,
            text: text_bytes(reader.0),
        })
    }
}

/// Other managers to go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alternates<'a> {
    /// Forget the manager that says it.
    pub is_permanent: bool,
    hosts: &'a [u8],
}

impl<'a> Alternates<'a> {
    fn parse(frame: &Frame<'a>) -> Option<Self> {
        Some(Self {
            is_permanent: frame.header.modifier & PERMANENT != 0,
            hosts: path(frame)?,
        })
    }

    /// `HOST:PORT` each, or only `HOST`; an IPv6 address stands in brackets. At most
    /// [`CMS_ALTERNATES_MAX`].
    pub fn hosts(&self) -> impl Iterator<Item = &'a [u8]> {
        let words = self.hosts.split(u8::is_ascii_whitespace);
        words.filter(|word| !word.is_empty()).take(CMS_ALTERNATES_MAX)
    }
}

/// Whether a file can be read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// It is on disk.
    Online,
    /// It is there, but must be brought online, or is still being written.
    Pending,
}

bitflags! {
    /// What changes about a server.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct StatusFlags: u8 {
        /// It can bring files online.
        const STAGING = 0x01;
        /// It cannot.
        const NO_STAGING = 0x02;
        /// It takes clients.
        const RESUME = 0x04;
        /// It takes none.
        const SUSPEND = 0x08;
        /// All that the manager knows about its files is void.
        const RESET = 0x10;
        const _ = !0;
    }
}

/// Load of a server: percentages (0 to 100), and its free space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Processors in use.
    pub processors: u8,
    /// Network in use.
    pub network: u8,
    /// Tasks that wait for a processor.
    pub runnable: u8,
    /// Memory in use.
    pub memory: u8,
    /// Paging.
    pub paging: u8,
    /// Space in use.
    pub disk: u8,
    /// Free space of the emptiest file system, in MiB.
    pub free_mib: u32,
}

/// Room on a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Free space of the emptiest file system, in MiB.
    pub free_mib: u32,
    /// Space in use, in percent.
    pub used_percent: u32,
}

/// A change that a manager passes on to its servers, for a client that it names itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarded<'a> {
    /// What is to be done.
    pub code: Code,
    /// The client, in the manager's words.
    pub client: &'a [u8],
}

/// A message after the login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Are you there?
    Ping,
    /// I am.
    Pong,
    /// How busy are you?
    Usage,
    /// So busy.
    Load(Load),
    /// How much room do you have?
    Space,
    /// So much.
    Available(Space),
    /// Do you have this file?
    State {
        /// The manager's mark; the answer carries it.
        stream: u32,
        /// Look again, even if you know it.
        refresh: bool,
        /// The manager wants no answer, only the look.
        no_answer: bool,
        /// The file.
        path: &'a [u8],
    },
    /// I have this file. Absence is not reported in answer to a question.
    Have {
        /// The mark of the question; 0 unasked.
        stream: u32,
        /// Whether it can be read at once.
        presence: Presence,
        /// The file.
        path: &'a [u8],
    },
    /// I no longer have this file.
    Gone(&'a [u8]),
    /// I take clients, or none.
    Status {
        /// What changes.
        flags: StatusFlags,
        /// With [`StatusFlags::RESUME`]: the port for clients.
        port: u32,
    },
    /// What is your status?
    Update,
    /// What are your statistics?
    Statistics {
        /// The manager's mark; the answer carries it.
        stream: u32,
    },
    /// Go to another manager.
    Try(Alternates<'a>),
    /// The session ends.
    Disconnect,
    /// Do this.
    Forwarded(Forwarded<'a>),
    /// Anything else; its number.
    Other(u8),
}

impl<'a> Message<'a> {
    /// Reads a message that is not the answer to a login; `None` if it is malformed. One of a later
    /// version is [`Message::Other`].
    #[must_use]
    pub fn parse(frame: &Frame<'a>) -> Option<Self> {
        let Header {
            stream, code, modifier, ..
        } = frame.header;
        let Some(code) = Code::from_number(code) else {
            return Some(Self::Other(code));
        };
        Some(match code {
            Code::Ping => Self::Ping,
            Code::Pong => Self::Pong,
            Code::Usage => Self::Usage,
            Code::Load => Self::Load(load(frame.data)?),
            Code::Space => Self::Space,
            Code::Available => Self::Available(space(frame.data)?),
            Code::State => Self::State {
                stream,
                refresh: modifier & REFRESH != 0,
                no_answer: modifier & NO_ANSWER != 0,
                path: path(frame)?,
            },
            Code::Have => Self::Have {
                stream,
                presence: match modifier & PENDING {
                    0 => Presence::Online,
                    _ => Presence::Pending,
                },
                path: path(frame)?,
            },
            Code::Gone => Self::Gone(path(frame)?),
            Code::Status => Self::Status {
                flags: StatusFlags::from_bits_retain(modifier),
                port: stream,
            },
            Code::Update => Self::Update,
            Code::Statistics => Self::Statistics { stream },
            Code::Try => Self::Try(Alternates::parse(frame)?),
            Code::Disconnect => Self::Disconnect,
            code @ (Code::ChangeMode
            | Code::MakeDirectory
            | Code::MakePath
            | Code::Rename
            | Code::Prepare
            | Code::CancelPrepare
            | Code::Remove
            | Code::RemoveDirectory
            | Code::Truncate) => Self::Forwarded(Forwarded {
                code,
                client: Unpacker::new(frame.data).text()?,
            }),
            Code::Login | Code::Locate | Code::Select | Code::FileSystem | Code::Authenticate => {
                Self::Other(code.number())
            }
        })
    }

    /// Appends what a server sends: [`Self::Pong`], [`Self::Load`], [`Self::Available`],
    /// [`Self::Have`], [`Self::Gone`], [`Self::Status`], [`Self::Disconnect`], and the empty answer
    /// to [`Self::Statistics`]. Returns `false`, and appends nothing, for the messages of a
    /// manager, and for a path that is empty, contains NUL or is longer than
    /// [`CMS_PATH_BYTES_MAX`].
    #[must_use]
    pub fn encode(&self, out: &mut Vec<u8>) -> bool {
        let (header, data) = match *self {
            Self::Pong => (head(Code::Pong), Vec::new()),
            Self::Disconnect => (head(Code::Disconnect), Vec::new()),
            Self::Load(load) => (head(Code::Load), load_data(&load)),
            Self::Available(space) => (head(Code::Available), space_data(space)),
            Self::Have { stream, presence, path } => {
                let flag = match presence {
                    Presence::Online => ONLINE,
                    Presence::Pending => PENDING,
                };
                (marked(Code::Have, stream, RAW | flag), path_data(path))
            }
            Self::Gone(path) => (marked(Code::Gone, 0, RAW), path_data(path)),
            Self::Status { flags, port } => (marked(Code::Status, port, flags.bits()), Vec::new()),
            Self::Statistics { stream } => {
                let header = Header {
                    stream,
                    code: DATA,
                    ..Header::default()
                };
                (header, vec![0; 4])
            }
            _ => return false,
        };
        let has_path = matches!(self, Self::Have { .. } | Self::Gone(_));
        if has_path && data.is_empty() {
            return false;
        }
        Frame { header, data: &data }.encode(out);
        true
    }
}

fn head(code: Code) -> Header {
    marked(code, 0, 0)
}

fn marked(code: Code, stream: u32, modifier: u8) -> Header {
    Header {
        stream,
        code: code.number(),
        modifier,
        data_bytes: 0,
    }
}

/// The path of a message: bare up to its NUL, or packed. An empty one is malformed.
fn path<'a>(frame: &Frame<'a>) -> Option<&'a [u8]> {
    let path = match frame.header.modifier & RAW {
        0 => Unpacker::new(frame.data).text()?,
        _ => text_bytes(frame.data),
    };
    (!path.is_empty()).then_some(path)
}

/// A bare path with its NUL; empty if it cannot be sent.
fn path_data(path: &[u8]) -> Vec<u8> {
    if path.is_empty() || path.len() > CMS_PATH_BYTES_MAX || path.contains(&0) {
        return Vec::new();
    }
    let mut data = path.to_vec();
    data.push(0);
    data
}

fn load(data: &[u8]) -> Option<Load> {
    let mut values = Unpacker::new(data);
    let [processors, network, runnable, memory, paging, disk] = *values.counted()?.first_chunk()?;
    Some(Load {
        processors,
        network,
        runnable,
        memory,
        paging,
        disk,
        free_mib: values.int()?,
    })
}

fn load_data(load: &Load) -> Vec<u8> {
    let percentages = [
        load.processors,
        load.network,
        load.runnable,
        load.memory,
        load.paging,
        load.disk,
    ];
    let mut values = Packer::default();
    values.counted(&percentages.map(|percent| percent.min(100)));
    values.small_int(load.free_mib);
    values.0
}

fn space(data: &[u8]) -> Option<Space> {
    let mut values = Unpacker::new(data);
    Some(Space {
        free_mib: values.int()?,
        used_percent: values.int()?,
    })
}

fn space_data(space: Space) -> Vec<u8> {
    let mut values = Packer::default();
    values.small_int(space.free_mib);
    values.small_int(space.used_percent);
    values.0
}
