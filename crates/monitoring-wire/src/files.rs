//! The stream of files (`f`): opened, moving, closed, and logins that ended.

use crate::header::{HEADER_BYTES, PACKET_BYTES_MAX, Stream};

pub(crate) const CLOSED: u8 = 0;
pub(crate) const OPENED: u8 = 1;
pub(crate) const TIME: u8 = 2;
pub(crate) const MOVED: u8 = 3;
pub(crate) const LEFT: u8 = 4;

/// Closed because the client went away.
pub(crate) const IS_FORCED: u8 = 0x01;
/// The counts of operations and the sums of squares are there.
pub(crate) const HAS_OPERATIONS: u8 = 0x02 | 0x04;
/// The path is there.
pub(crate) const HAS_PATH: u8 = 0x01;
/// Opened to write.
pub(crate) const IS_WRITTEN: u8 = 0x02;
/// The server's name is there.
pub(crate) const HAS_SERVER: u8 = 0x01;
/// Header and times of a packet: what comes before its first record.
const BEGIN_BYTES: usize = HEADER_BYTES + 24;
/// The longest path in a packet; of a longer one the end stands there, with the file's name.
const PATH_BYTES_MAX: usize = 1024;

/// The number of a login. 0 is the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoginId(pub u32);

/// The number of an open file. Files and logins share their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// Bytes that a file has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// By single reads.
    pub read_bytes: u64,
    /// By vector reads.
    pub vector_bytes: u64,
    /// By writes.
    pub written_bytes: u64,
}

/// Operations of one kind and their sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Operations {
    /// How many.
    pub count: u32,
    /// The smallest, in bytes, or segments; 0 when there was none.
    pub least: u32,
    /// The largest.
    pub most: u32,
    /// The sum of the squares of the sizes.
    pub squares: f64,
}

impl Operations {
    /// One more.
    pub fn add(&mut self, size: u64) {
        let short = u32::try_from(size).unwrap_or(u32::MAX);
        self.least = if self.count == 0 { short } else { self.least.min(short) };
        self.most = self.most.max(short);
        self.count = self.count.saturating_add(1);
        #[expect(clippy::cast_precision_loss, reason = "a statistic")]
        let exact = size as f64;
        self.squares += exact * exact;
    }
}

/// A file that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The file.
    pub file: FileId,
    /// Its size then.
    pub size_bytes: u64,
    /// Who opened it.
    pub login: LoginId,
    /// Its path, as clients name it.
    pub path: String,
    /// Whether it is written.
    pub is_written: bool,
}

/// A file that was closed, with all that was done to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Closed {
    /// The file.
    pub file: FileId,
    /// Whether the client went away without closing it.
    pub is_forced: bool,
    /// What it moved.
    pub totals: Totals,
    /// Single reads.
    pub reads: Operations,
    /// Vector reads, by their bytes.
    pub vectors: Operations,
    /// The same, by their segments.
    pub segments: Operations,
    /// Segments of all vector reads.
    pub segments_count: u64,
    /// Writes.
    pub writes: Operations,
}

/// Something that happened to a file.
#[derive(Clone, Debug, PartialEq)]
pub enum FileRecord {
    /// It was opened.
    Opened(Opened),
    /// It has moved so much until now.
    Moved(FileId, Totals),
    /// It was closed.
    Closed(Closed),
    /// A login ended.
    Left(LoginId),
}

/// The records of one packet. The times of a packet are those between which they were made.
#[derive(Clone, Debug)]
pub struct Batch {
    content: Vec<u8>,
    records: u16,
    records_moved: u16,
    begin_s: u32,
}

impl Batch {
    /// An empty one, whose time begins at `begin_s`, in seconds since 1970.
    #[must_use]
    pub fn new(begin_s: u32) -> Self {
        Self {
            content: Vec::with_capacity(PACKET_BYTES_MAX - BEGIN_BYTES),
            records: 0,
            records_moved: 0,
            begin_s,
        }
    }

    /// Whether nothing is to be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Adds a record; false when it does not fit any more, and is for the next batch. In an empty
    /// batch each record fits.
    #[must_use]
    pub fn push(&mut self, record: &FileRecord) -> bool {
        let mut bytes = Vec::with_capacity(112);
        let is_moved = matches!(record, FileRecord::Moved(..));
        match record {
            FileRecord::Opened(opened) => write_opened(&mut bytes, opened),
            FileRecord::Moved(file, totals) => {
                begin(&mut bytes, MOVED, 0, file.0);
                write_totals(&mut bytes, totals);
            }
            FileRecord::Closed(closed) => write_closed(&mut bytes, closed),
            FileRecord::Left(login) => begin(&mut bytes, LEFT, 0, login.0),
        }
        if BEGIN_BYTES + self.content.len() + bytes.len() > PACKET_BYTES_MAX {
            return false;
        }
        let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        self.content.extend(bytes);
        self.records += 1;
        self.records_moved += u16::from(is_moved);
        true
    }

    /// The packet, of the server with this name of 48 bits.
    #[must_use]
    pub fn packet(&self, stream: &mut Stream, server_id: u64, end_s: u32) -> Vec<u8> {
        let mut content = Vec::with_capacity(24 + self.content.len());
        content.extend([TIME, HAS_SERVER, 0, 24]);
        content.extend(self.records_moved.to_be_bytes());
        content.extend(self.records.to_be_bytes());
        content.extend(self.begin_s.to_be_bytes());
        content.extend(end_s.to_be_bytes());
        content.extend((server_id & 0xffff_ffff_ffff).to_be_bytes());
        content.extend(&self.content);
        stream.packet(b'f', &content)
    }
}

/// The head of a record, whose length is written when it is whole.
fn begin(bytes: &mut Vec<u8>, kind: u8, flags: u8, id: u32) {
    bytes.extend([kind, flags, 0, 0]);
    bytes.extend(id.to_be_bytes());
}

fn write_opened(bytes: &mut Vec<u8>, opened: &Opened) {
    let flags = HAS_PATH | if opened.is_written { IS_WRITTEN } else { 0 };
    begin(bytes, OPENED, flags, opened.file.0);
    bytes.extend(opened.size_bytes.to_be_bytes());
    bytes.extend(opened.login.0.to_be_bytes());
    let path = ending(&opened.path);
    bytes.extend(path.bytes().map(|byte| if byte == 0 { b'_' } else { byte }));
    // As XRootD: NULs up to a multiple of four, and four more.
    bytes.resize(bytes.len() + 1, 0);
    bytes.resize(bytes.len().next_multiple_of(4) + 4, 0);
}

/// The end of a path that is too long.
fn ending(path: &str) -> &str {
    let mut from = path.len().saturating_sub(PATH_BYTES_MAX);
    while !path.is_char_boundary(from) {
        from += 1;
    }
    &path[from..]
}

fn write_totals(bytes: &mut Vec<u8>, totals: &Totals) {
    for total in [totals.read_bytes, totals.vector_bytes, totals.written_bytes] {
        bytes.extend(total.to_be_bytes());
    }
}

fn write_closed(bytes: &mut Vec<u8>, closed: &Closed) {
    let flags = HAS_OPERATIONS | if closed.is_forced { IS_FORCED } else { 0 };
    begin(bytes, CLOSED, flags, closed.file.0);
    write_totals(bytes, &closed.totals);
    for operations in [closed.reads, closed.vectors, closed.writes] {
        bytes.extend(operations.count.to_be_bytes());
    }
    for segments in [closed.segments.least, closed.segments.most] {
        bytes.extend(u16::try_from(segments).unwrap_or(u16::MAX).to_be_bytes());
    }
    bytes.extend(closed.segments_count.to_be_bytes());
    for operations in [closed.reads, closed.vectors, closed.writes] {
        bytes.extend(operations.least.to_be_bytes());
        bytes.extend(operations.most.to_be_bytes());
    }
    for operations in [closed.reads, closed.vectors, closed.segments, closed.writes] {
        bytes.extend(operations.squares.to_be_bytes());
    }
}
