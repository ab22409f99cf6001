//! Frames: the header in front of each message, and the cutting of a stream into frames.

use crate::bytes::Reader;
use crate::limits::{CMS_DATA_BYTES_MAX, CMS_HEADER_BYTES};

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal,)*) => {
        /// What a message is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $variant),* }

        impl Code {
            /// The code with this number; `None` for one of a later version.
            #[must_use]
            pub fn from_number(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }

            /// Its number on the wire.
            #[must_use]
            pub fn number(self) -> u8 {
                match self { $(Self::$variant => $number),* }
            }
        }
    };
}

codes! {
    /// Both sides introduce themselves.
    Login = 0,
    /// Forwarded: changes the mode of a file.
    ChangeMode = 1,
    /// A redirector asks where a file is.
    Locate = 2,
    /// Forwarded: makes a directory.
    MakeDirectory = 3,
    /// Forwarded: makes a directory and those above it.
    MakePath = 4,
    /// Forwarded: renames.
    Rename = 5,
    /// Forwarded: brings a file online.
    Prepare = 6,
    /// Forwarded: takes that back.
    CancelPrepare = 7,
    /// Forwarded: removes a file.
    Remove = 8,
    /// Forwarded: removes a directory.
    RemoveDirectory = 9,
    /// A redirector asks for a server to send a client to.
    Select = 10,
    /// Asks for statistics.
    Statistics = 11,
    /// Room on a server.
    Available = 12,
    /// Ends the session.
    Disconnect = 13,
    /// A file is no longer there.
    Gone = 14,
    /// A file is there.
    Have = 15,
    /// Load of a server.
    Load = 16,
    /// Are you there?
    Ping = 17,
    /// I am.
    Pong = 18,
    /// Asks for the room.
    Space = 19,
    /// Asks for a file.
    State = 20,
    /// A redirector asks for the room behind a path.
    FileSystem = 21,
    /// Whether a server takes clients.
    Status = 22,
    /// Forwarded: cuts a file.
    Truncate = 23,
    /// Go to another manager.
    Try = 24,
    /// Asks for the status.
    Update = 25,
    /// Asks for the load.
    Usage = 26,
    /// One step of an authentication.
    Authenticate = 27,
}

/// Modifier: the data is a bare text, not a packed one.
pub(super) const RAW: u8 = 0x20;

/// The head of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Ties an answer to its question; a port in a status.
    pub stream: u32,
    /// The number of a [`Code`], or of one that this version does not know.
    pub code: u8,
    /// Flags; their meaning depends on the code.
    pub modifier: u8,
    /// Length of the data behind it.
    pub data_bytes: u16,
}

impl Header {
    /// Reads a header.
    #[must_use]
    pub fn parse(bytes: &[u8; CMS_HEADER_BYTES]) -> Self {
        let [s0, s1, s2, s3, code, modifier, high, low] = *bytes;
        Self {
            stream: u32::from_be_bytes([s0, s1, s2, s3]),
            code,
            modifier,
            data_bytes: u16::from_be_bytes([high, low]),
        }
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> [u8; CMS_HEADER_BYTES] {
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        let [high, low] = self.data_bytes.to_be_bytes();
        [s0, s1, s2, s3, self.code, self.modifier, high, low]
    }
}

/// One message, undecoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its head.
    pub header: Header,
    /// Its data, as long as the head says.
    pub data: &'a [u8],
}

impl Frame<'_> {
    /// Appends the frame.
    ///
    /// The length in the header is that of the data; data that exceeds the length field is cut
    /// off, which the writers in this module prevent.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let length = self.data.len().min(CMS_DATA_BYTES_MAX);
        let header = Header {
            data_bytes: u16::try_from(length).unwrap_or(u16::MAX),
            ..self.header
        };
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(&self.data[..length]);
    }
}

/// What the front of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A frame, which took so many bytes.
    Frame(Frame<'a>, usize),
    /// The beginning of one; so many bytes are still missing at least.
    Partial(usize),
}

/// Cuts the first frame off a stream. A frame has at most [`CMS_HEADER_BYTES`] and
/// [`CMS_DATA_BYTES_MAX`] bytes.
#[must_use]
pub fn decode(stream: &[u8]) -> Decoded<'_> {
    let mut reader = Reader(stream);
    let Some(head) = reader.array::<CMS_HEADER_BYTES>() else {
        return Decoded::Partial(CMS_HEADER_BYTES - stream.len());
    };
    let header = Header::parse(&head);
    let length = usize::from(header.data_bytes);
    match reader.bytes(length) {
        Some(data) => Decoded::Frame(Frame { header, data }, CMS_HEADER_BYTES + length),
        None => Decoded::Partial(CMS_HEADER_BYTES + length - stream.len()),
    }
}
