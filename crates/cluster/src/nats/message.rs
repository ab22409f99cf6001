//! Messages between redirectors and nodes: questions, answers, changed names, pieces of filters.
//!
//! Each begins with a byte for the version of the format and one for its kind. Numbers are
//! little-endian. A decoder answers `None` for anything else than a whole message of its kind: the
//! receiver counts it and goes on.

use types::LogicalPath;

use super::filter::{BLOCK_BYTES, Generation, NameHash};
use super::limits::{CHANGES_BYTES_MAX, CHANGES_MAX, PATH_BYTES_MAX, PIECE_BYTES, REASON_BYTES_MAX};
use super::subjects::BusName;
use crate::locator::Says;

/// The version of the format.
pub const FORMAT: u8 = 1;
/// Stands for a size that is not known.
const SIZE_UNKNOWN: u64 = u64::MAX;

/// What a redirector sends to nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Does the node have this name?
    Who {
        /// Names the question in the answer.
        id: u64,
        /// Where the answer goes.
        redirector: BusName,
        /// The name.
        path: LogicalPath,
    },
    /// A piece of the node's filter.
    Piece {
        /// Names the request in the answer.
        id: u64,
        /// Where the answer goes.
        redirector: BusName,
        /// The build of the filter.
        generation: Generation,
        /// The number of the piece, of [`PIECE_BYTES`] each.
        piece: u32,
    },
}

/// What a node sends to one redirector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// What it says about a name.
    Says {
        /// The question.
        id: u64,
        /// The answer.
        says: Says,
    },
    /// A piece of its filter.
    Piece(Piece),
}

/// A piece of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The request.
    pub id: u64,
    /// The build of the filter that it is from: another than the requested one if that is gone.
    pub generation: Generation,
    /// Changes up to this one are in it.
    pub sequence: u64,
    /// Its number.
    pub piece: u32,
    /// Blocks of the whole filter.
    pub blocks: u32,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// What a redirector tells the others: a name that comes soon and is in no filter yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coming {
    /// A client was sent to this node with a new file.
    File {
        /// The node.
        node: BusName,
        /// The file.
        path: LogicalPath,
    },
    /// A directory was made on some nodes.
    Directory(LogicalPath),
}

/// Names that changed at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The build of the node's filter.
    pub generation: Generation,
    /// The number of this message since that build: 1 is the first.
    pub sequence: u64,
    /// The changes, in their order.
    pub list: Vec<NameChange>,
}

/// A change at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameChange {
    /// There is a file of this name now.
    File(LogicalPath),
    /// There is a directory of this name now.
    Directory(LogicalPath),
    /// Nothing of this name is there any more.
    Gone(LogicalPath),
    /// The same for a name that may have been a directory, with all that it contained.
    GoneTree(LogicalPath),
    /// The filter does not contain all names below this one yet.
    Open(LogicalPath),
    /// The filter contains one more name.
    Name(NameHash),
    /// Changes were missed: what is known of the node's names may be wrong.
    Missed,
}

/// Builds a message.
struct Writer(Vec<u8>);

impl Writer {
    fn new(kind: u8) -> Self {
        Self(vec![FORMAT, kind])
    }

    fn byte(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    fn number(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn short(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Bytes with their count before them.
    fn counted(mut self, bytes: &[u8]) -> Self {
        let count = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&count.to_le_bytes());
        self.0.extend_from_slice(&bytes[..usize::from(count)]);
        self
    }

    fn rest(mut self, bytes: &[u8]) -> Vec<u8> {
        self.0.extend_from_slice(bytes);
        self.0
    }
}

/// Reads a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The kind of a message of our version.
    fn kind(&mut self) -> Option<u8> {
        (self.byte()? == FORMAT).then_some(())?;
        self.byte()
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn short(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn counted(&mut self) -> Option<&'a [u8]> {
        let count = self.take(2)?.try_into().ok().map(u16::from_le_bytes)?;
        self.take(usize::from(count))
    }

    fn name(&mut self) -> Option<BusName> {
        BusName::parse(std::str::from_utf8(self.counted()?).ok()?)
    }

    fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

/// The text up to this number of bytes, without a part of a character.
pub(super) fn shortened(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The directories above a name, the nearest first. A name that comes brings them along, and there
/// is no message for each.
pub(super) fn above(path: &LogicalPath) -> impl Iterator<Item = LogicalPath> + use<> {
    std::iter::successors(path.parent(), LogicalPath::parent)
}

/// A path as it stands in messages: in its only form, and not too long.
fn path_of(bytes: &[u8]) -> Option<LogicalPath> {
    (bytes.len() <= PATH_BYTES_MAX).then_some(())?;
    let text = std::str::from_utf8(bytes).ok()?;
    LogicalPath::parse(text).ok().filter(|path| path.as_str() == text)
}

impl Request {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Who { id, redirector, path } => Writer::new(b'q')
                .number(*id)
                .counted(redirector.as_str().as_bytes())
                .rest(path.as_str().as_bytes()),
            Self::Piece {
                id,
                redirector,
                generation,
                piece,
            } => Writer::new(b'f')
                .number(*id)
                .counted(redirector.as_str().as_bytes())
                .number(generation.0)
                .short(*piece)
                .rest(&[]),
        }
    }

    /// Reads one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let kind = reader.kind()?;
        let (id, redirector) = (reader.number()?, reader.name()?);
        match kind {
            b'q' => Some(Self::Who {
                id,
                redirector,
                path: path_of(reader.0)?,
            }),
            b'f' => {
                let generation = Generation(reader.number()?);
                let piece = reader.short()?;
                reader.is_at_end().then_some(Self::Piece {
                    id,
                    redirector,
                    generation,
                    piece,
                })
            }
            _ => None,
        }
    }
}

impl Coming {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::File { node, path } => Writer::new(b'n')
                .counted(node.as_str().as_bytes())
                .rest(path.as_str().as_bytes()),
            Self::Directory(path) => Writer::new(b'm').rest(path.as_str().as_bytes()),
        }
    }

    /// Reads one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        match reader.kind()? {
            b'n' => Some(Self::File {
                node: reader.name()?,
                path: path_of(reader.0)?,
            }),
            b'm' => Some(Self::Directory(path_of(reader.0)?)),
            _ => None,
        }
    }
}

impl Reply {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Says { id, says } => {
                let writer = Writer::new(b'a').number(*id);
                match says {
                    Says::Nothing | Says::Excluded => writer.byte(0).rest(&[]),
                    Says::File { size_bytes } => {
                        let size = size_bytes.unwrap_or(SIZE_UNKNOWN);
                        writer.byte(1).number(size).rest(&[])
                    }
                    Says::Directory => writer.byte(2).rest(&[]),
                    Says::Failed(reason) | Says::Refused(reason) => {
                        let reason = shortened(reason, REASON_BYTES_MAX);
                        writer.byte(3).rest(reason.as_bytes())
                    }
                }
            }
            Self::Piece(piece) => Writer::new(b'p')
                .number(piece.id)
                .number(piece.generation.0)
                .number(piece.sequence)
                .short(piece.piece)
                .short(piece.blocks)
                .rest(&piece.data),
        }
    }

    /// Reads one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let kind = reader.kind()?;
        let id = reader.number()?;
        match kind {
            b'a' => Some(Self::Says {
                id,
                says: says(&mut reader)?,
            }),
            b'p' => {
                let piece = Piece {
                    id,
                    generation: Generation(reader.number()?),
                    sequence: reader.number()?,
                    piece: reader.short()?,
                    blocks: reader.short()?,
                    data: reader.0.to_vec(),
                };
                let is_whole = piece.data.len() <= PIECE_BYTES && piece.data.len().is_multiple_of(BLOCK_BYTES);
                is_whole.then_some(Self::Piece(piece))
            }
            _ => None,
        }
    }
}

fn says(reader: &mut Reader<'_>) -> Option<Says> {
    let says = match reader.byte()? {
        0 => Says::Nothing,
        1 => {
            let size = reader.number()?;
            Says::File {
                size_bytes: (size != SIZE_UNKNOWN).then_some(size),
            }
        }
        2 => Says::Directory,
        3 => {
            let reason = reader.take(reader.0.len().min(REASON_BYTES_MAX))?;
            Says::Failed(std::str::from_utf8(reason).ok()?.to_owned())
        }
        _ => return None,
    };
    reader.is_at_end().then_some(says)
}

impl Changes {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(b'c').number(self.generation.0).number(self.sequence);
        for change in &self.list {
            writer = match change {
                NameChange::File(path) => writer.byte(b'f').counted(path.as_str().as_bytes()),
                NameChange::Directory(path) => writer.byte(b'd').counted(path.as_str().as_bytes()),
                NameChange::Gone(path) => writer.byte(b'g').counted(path.as_str().as_bytes()),
                NameChange::GoneTree(path) => writer.byte(b't').counted(path.as_str().as_bytes()),
                NameChange::Open(path) => writer.byte(b'o').counted(path.as_str().as_bytes()),
                NameChange::Name(name) => writer.byte(b'n').number(name.0),
                NameChange::Missed => writer.byte(b'm'),
            };
        }
        writer.rest(&[])
    }

    /// Reads one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= CHANGES_BYTES_MAX).then_some(())?;
        let mut reader = Reader(bytes);
        (reader.kind()? == b'c').then_some(())?;
        let (generation, sequence) = (Generation(reader.number()?), reader.number()?);
        let mut list = Vec::new();
        while !reader.is_at_end() {
            let kind = reader.byte()?;
            list.push(match kind {
                b'n' => NameChange::Name(NameHash(reader.number()?)),
                b'm' => NameChange::Missed,
                _ => named(kind, path_of(reader.counted()?)?)?,
            });
        }
        let is_bounded = list.len() <= CHANGES_MAX;
        is_bounded.then_some(Self {
            generation,
            sequence,
            list,
        })
    }
}

fn named(kind: u8, path: LogicalPath) -> Option<NameChange> {
    Some(match kind {
        b'f' => NameChange::File(path),
        b'd' => NameChange::Directory(path),
        b'g' => NameChange::Gone(path),
        b't' => NameChange::GoneTree(path),
        b'o' => NameChange::Open(path),
        _ => return None,
    })
}

impl NameChange {
    /// Its size in a message.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::File(path) | Self::Directory(path) | Self::Gone(path) | Self::GoneTree(path) | Self::Open(path) => {
                3 + path.as_str().len()
            }
            Self::Name(_) => 9,
            Self::Missed => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::path;

    #[test]
    fn requests_and_replies_come_out_as_they_went_in() {
        let redirector = BusName::parse("r1").unwrap();
        let requests = [
            Request::Who {
                id: 7,
                redirector: redirector.clone(),
                path: path("/data/ü"),
            },
            Request::Piece {
                id: 8,
                redirector,
                generation: Generation(3),
                piece: 2,
            },
        ];
        for request in requests {
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        let size = Some(5);
        let failed = Says::Failed("ä".repeat(100));
        for says in [Says::Nothing, Says::Directory, Says::File { size_bytes: size }, failed] {
            let reply = Reply::Says { id: 9, says };
            assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        }
        let piece = Reply::Piece(Piece {
            id: 1,
            generation: Generation(2),
            sequence: 3,
            piece: 4,
            blocks: 5,
            data: vec![6; 2 * BLOCK_BYTES],
        });
        assert_eq!(Reply::decode(&piece.encode()), Some(piece));
    }

    #[test]
    fn coming_names_come_out_as_they_went_in() {
        let path = LogicalPath::parse("/d/f").unwrap();
        let node = BusName::parse("d1").unwrap();
        let file = Coming::File {
            node,
            path: path.clone(),
        };
        for coming in [file, Coming::Directory(path)] {
            let bytes = coming.encode();
            assert_eq!(Coming::decode(&bytes), Some(coming));
            assert_eq!(Coming::decode(&bytes[..1]), None);
        }
    }

    #[test]
    fn changes_come_out_as_they_went_in_and_cut_ones_do_not() {
        let changes = Changes {
            generation: Generation(1),
            sequence: 2,
            list: vec![
                NameChange::File(path("/a")),
                NameChange::Directory(path("/b")),
                NameChange::Gone(path("/c")),
                NameChange::GoneTree(path("/d")),
                NameChange::Open(path("/e")),
                NameChange::Name(NameHash(4)),
                NameChange::Missed,
            ],
        };
        let bytes = changes.encode();
        let sizes: usize = changes.list.iter().map(NameChange::bytes).sum();
        assert_eq!(bytes.len(), 18 + sizes);
        assert_eq!(Changes::decode(&bytes), Some(changes));
        assert_eq!(Changes::decode(&bytes[..bytes.len() - 3]), None);
        let mut later = bytes;
        later[0] = FORMAT + 1;
        assert_eq!(Changes::decode(&later), None);
    }

    #[test]
    fn paths_have_one_form() {
        let who = |text: &[u8]| Request::decode(&Writer::new(b'q').number(1).counted(b"r").rest(text));
        assert!(who(b"/a/b").is_some());
        for wrong in [&b"/a/../b"[..], b"/a//b", b"/a/", b"a", b"", b"/\xff", b"/a\0"] {
            assert_eq!(who(wrong), None, "{wrong:?}");
        }
    }
}
