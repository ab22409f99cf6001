//! Packets taken apart, as a receiver does.

use crate::files::{
    CLOSED, Closed, FileId, FileRecord, HAS_OPERATIONS, HAS_PATH, HAS_SERVER, IS_FORCED, IS_WRITTEN, LEFT, LoginId,
    MOVED, OPENED, Opened, Operations, TIME, Totals,
};
use crate::header::HEADER_BYTES;

/// Why a packet cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Its length is not the one that it tells, or it ends within something.
    Length,
    /// It has a code or a record of a kind that is not read here.
    Kind(u8),
    /// A text that is none.
    Text,
}

/// A packet. Those that are JSON begin with `{`, and are not read here.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// When the server started, in seconds since 1970.
    pub started_s: u32,
    /// Its number in its stream.
    pub sequence: u8,
    /// What it tells.
    pub record: Record,
}

/// What a packet tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A name for a number: the code of the packet, the number, the name and what is known of it.
    Map {
        /// `=`, `d`, `i`, `u`, `T` or `U`.
        code: u8,
        /// The number.
        id: u32,
        /// `protocol/user.number:server@host`.
        name: String,
        /// What follows in the next line.
        information: String,
    },
    /// Files.
    Files {
        /// The server's name of 48 bits.
        server_id: u64,
        /// Begin and end, in seconds since 1970.
        span_s: (u32, u32),
        /// What happened.
        records: Vec<FileRecord>,
    },
}

/// Takes a packet apart.
///
/// # Errors
/// It is none, or of another kind.
pub fn decode(packet: &[u8]) -> Result<Packet, Unreadable> {
    let mut reader = Reader(packet);
    let [code, sequence] = reader.take()?;
    let length = u16::from_be_bytes(reader.take()?);
    let started_s = reader.number()?;
    if usize::from(length) != packet.len() {
        return Err(Unreadable::Length);
    }
    let record = match code {
        b'=' | b'd' | b'i' | b'u' | b'T' | b'U' => map(code, reader)?,
        b'f' => files(reader)?,
        other => return Err(Unreadable::Kind(other)),
    };
    Ok(Packet {
        started_s,
        sequence,
        record,
    })
}

fn map(code: u8, mut reader: Reader<'_>) -> Result<Record, Unreadable> {
    let id = reader.number()?;
    let text = std::str::from_utf8(reader.0).map_err(|_| Unreadable::Text)?;
    let (name, information) = text.split_once('\n').unwrap_or((text, ""));
    Ok(Record::Map {
        code,
        id,
        name: name.to_owned(),
        information: information.to_owned(),
    })
}

fn files(mut reader: Reader<'_>) -> Result<Record, Unreadable> {
    let [kind, flags, ..] = reader.take::<8>()?;
    if kind != TIME || flags & HAS_SERVER == 0 {
        return Err(Unreadable::Kind(kind));
    }
    let span_s = (reader.number()?, reader.number()?);
    let server_id = reader.long()? & 0xffff_ffff_ffff;
    let mut records = Vec::new();
    while !reader.0.is_empty() {
        let [kind, flags] = reader.take()?;
        let length = usize::from(u16::from_be_bytes(reader.take()?));
        let id = reader.number()?;
        let body = length
            .checked_sub(HEADER_BYTES)
            .and_then(|length| reader.0.split_at_checked(length));
        let (body, rest) = body.ok_or(Unreadable::Length)?;
        reader = Reader(rest);
        records.push(record(kind, flags, id, Reader(body))?);
    }
    Ok(Record::Files {
        server_id,
        span_s,
        records,
    })
}

fn record(kind: u8, flags: u8, id: u32, mut body: Reader<'_>) -> Result<FileRecord, Unreadable> {
    match kind {
        OPENED => opened(flags, id, body).map(FileRecord::Opened),
        MOVED => Ok(FileRecord::Moved(FileId(id), body.totals()?)),
        CLOSED => closed(flags, id, body).map(FileRecord::Closed),
        LEFT => Ok(FileRecord::Left(LoginId(id))),
        other => Err(Unreadable::Kind(other)),
    }
}

fn opened(flags: u8, id: u32, mut body: Reader<'_>) -> Result<Opened, Unreadable> {
    let size_bytes = body.long()?;
    let has_path = flags & HAS_PATH != 0;
    let login = LoginId(if has_path { body.number()? } else { 0 });
    let path = if has_path { body.0 } else { &[] };
    let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
    let path = std::str::from_utf8(path).map_err(|_| Unreadable::Text)?.to_owned();
    Ok(Opened {
        file: FileId(id),
        size_bytes,
        login,
        path,
        is_written: flags & IS_WRITTEN != 0,
    })
}

fn closed(flags: u8, id: u32, mut body: Reader<'_>) -> Result<Closed, Unreadable> {
    let mut closed = Closed {
        file: FileId(id),
        is_forced: flags & IS_FORCED != 0,
        totals: body.totals()?,
        reads: Operations::default(),
        vectors: Operations::default(),
        segments: Operations::default(),
        segments_count: 0,
        writes: Operations::default(),
    };
    if flags & HAS_OPERATIONS == 0 {
        return Ok(closed);
    }
    closed.reads.count = body.number()?;
    closed.vectors.count = body.number()?;
    closed.writes.count = body.number()?;
    closed.segments.least = u32::from(u16::from_be_bytes(body.take()?));
    closed.segments.most = u32::from(u16::from_be_bytes(body.take()?));
    closed.segments_count = body.long()?;
    for operations in [&mut closed.reads, &mut closed.vectors, &mut closed.writes] {
        operations.least = body.number()?;
        operations.most = body.number()?;
    }
    if flags & HAS_OPERATIONS == HAS_OPERATIONS {
        for operations in [
            &mut closed.reads,
            &mut closed.vectors,
            &mut closed.segments,
            &mut closed.writes,
        ] {
            operations.squares = f64::from_be_bytes(body.take()?);
        }
    }
    Ok(closed)
}

/// What is left to be read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], Unreadable> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Unreadable::Length)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn number(&mut self) -> Result<u32, Unreadable> {
        self.take().map(u32::from_be_bytes)
    }

    fn long(&mut self) -> Result<u64, Unreadable> {
        self.take().map(u64::from_be_bytes)
    }

    fn totals(&mut self) -> Result<Totals, Unreadable> {
        let (read_bytes, vector_bytes, written_bytes) = (self.long()?, self.long()?, self.long()?);
        Ok(Totals {
            read_bytes,
            vector_bytes,
            written_bytes,
        })
    }
}
