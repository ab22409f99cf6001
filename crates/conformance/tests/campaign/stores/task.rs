//! What one client does in a round, and whether what it got is right.

use std::net::TcpStream;
use std::sync::Arc;

use conformance::{Frame, RootSocket, adler32, opcode, open_option, parameters, status};

use super::client::{Answer, ask, upload};
use super::place::Version;
use crate::ledger::Named;

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Read,
    Range,
    Ranges,
    RootRead,
    RootVector,
    Checksum,
    List,
    Write,
    /// Without telling the length.
    WriteChunked,
    /// A client that leaves.
    WriteHalf,
    RootWrite,
    Delete,
}

impl What {
    pub(super) const ALL: [Self; 12] = [
        Self::Read,
        Self::Range,
        Self::Ranges,
        Self::RootRead,
        Self::RootVector,
        Self::Checksum,
        Self::List,
        Self::Write,
        Self::WriteChunked,
        Self::WriteHalf,
        Self::RootWrite,
        Self::Delete,
    ];

    pub(super) fn is_change(self) -> bool {
        self >= Self::Write
    }

    /// Over the XRootD protocol, whose client here does not survive its server.
    pub(super) fn is_root(self) -> bool {
        matches!(self, Self::RootRead | Self::RootVector | Self::RootWrite)
    }
}

impl Named for What {
    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Range => "range",
            Self::Ranges => "two ranges",
            Self::RootRead => "root read",
            Self::RootVector => "root vector read",
            Self::Checksum => "checksum",
            Self::List => "list",
            Self::Write => "write",
            Self::WriteChunked => "write, chunked",
            Self::WriteHalf => "write and leave",
            Self::RootWrite => "root write",
            Self::Delete => "delete",
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    Done,
    /// There was no such file.
    Absent,
    /// The answer began and broke off.
    BrokenOff,
    Refused,
}

pub(super) const OUTCOMES: [Outcome; 4] = [Outcome::Done, Outcome::Absent, Outcome::BrokenOff, Outcome::Refused];

impl Named for Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Absent => "absent",
            Self::BrokenOff => "broken off",
            Self::Refused => "refused",
        }
    }
}

/// One client's work.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) what: What,
    pub(super) name: String,
    pub(super) path: String,
    /// What it writes.
    pub(super) content: Arc<Vec<u8>>,
    /// Where its range begins, and how long that is.
    pub(super) start: usize,
    pub(super) length: usize,
}

/// What the client got.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) outcome: Outcome,
    /// What must not be.
    pub(super) fault: Option<String>,
    pub(super) words: String,
}

impl Seen {
    fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            fault: None,
            words: String::new(),
        }
    }

    fn wrong(words: String) -> Self {
        Self {
            fault: Some(words),
            ..Self::of(Outcome::Done)
        }
    }
}

impl Task {
    /// Does it; `versions` are those that the file may have meanwhile.
    pub(super) fn run(&self, port: u16, versions: &[Version], listed: &[(String, Vec<Version>)]) -> Seen {
        let (path, last) = (self.path.as_str(), self.start + self.length - 1);
        match self.what {
            What::Read => self.judge(&ask(port, "GET", path, ""), versions, 0, usize::MAX),
            What::Range => {
                let range = format!("Range: bytes={}-{last}\r\n", self.start);
                self.judge(&ask(port, "GET", path, &range), versions, self.start, self.length)
            }
            What::Ranges => self.two_ranges(port, versions),
            What::RootRead | What::RootVector => self.root_read(port, versions),
            What::Checksum => self.checksum(&ask(port, "HEAD", path, "Want-Digest: adler32\r\n"), versions),
            What::List => list(
                &ask(port, "PROPFIND", path, "Depth: 1\r\nContent-Length: 0\r\n"),
                listed,
            ),
            What::Write => self.changed(&upload(port, path, &self.content, false, usize::MAX), versions),
            What::WriteChunked => self.changed(&upload(port, path, &self.content, true, usize::MAX), versions),
            What::WriteHalf => self.left(&upload(
                port,
                path,
                &self.content,
                self.start.is_multiple_of(2),
                self.content.len() / 2,
            )),
            What::RootWrite => self.root_write(port),
            What::Delete => self.changed(&ask(port, "DELETE", path, ""), versions),
        }
    }

    /// Compares a body that begins at `start` and is `length` long where the file is longer.
    fn judge(&self, answer: &Answer, versions: &[Version], start: usize, length: usize) -> Seen {
        if !matches!(answer.status, 200 | 206) {
            return self.refused(answer, versions, start);
        }
        let start = if answer.status == 206 { start } else { 0 };
        let fits = |content: &Vec<u8>| {
            let end = if answer.status == 206 {
                start.saturating_add(length).min(content.len())
            } else {
                content.len()
            };
            let wanted = content.get(start..end).unwrap_or_default();
            match answer.is_whole {
                true => wanted == answer.body,
                false => wanted.starts_with(&answer.body),
            }
        };
        if !versions.iter().flatten().any(|content| fits(content)) {
            let sizes: Vec<usize> = versions.iter().flatten().map(|content| content.len()).collect();
            return Seen::wrong(format!(
                "{} with {} bytes from {start} (whole: {}) of no version ({sizes:?})",
                answer.status,
                answer.body.len(),
                answer.is_whole
            ));
        }
        Seen::of(if answer.is_whole {
            Outcome::Done
        } else {
            Outcome::BrokenOff
        })
    }

    fn refused(&self, answer: &Answer, versions: &[Version], start: usize) -> Seen {
        if answer.is_silent {
            return Seen::wrong("no answer came".to_owned());
        }
        let words = String::from_utf8_lossy(&answer.body[..answer.body.len().min(400)]).into_owned();
        let outcome = match answer.status {
            404 => Outcome::Absent,
            416 => Outcome::Done,
            _ => Outcome::Refused,
        };
        let fault = match answer.status {
            404 if !versions.contains(&None) => Some(format!("404 of a file that is there: {words}")),
            416 if !versions.iter().flatten().any(|content| content.len() <= start) => {
                Some("416 of a range that is there".to_owned())
            }
            _ => None,
        };
        Seen {
            outcome,
            fault,
            words: format!("{} {words}", answer.status),
        }
    }

    fn two_ranges(&self, port: u16, versions: &[Version]) -> Seen {
        let ends = [self.start, self.start + 99, self.start + 200, self.start + 299];
        let range = format!("Range: bytes={}-{},{}-{}\r\n", ends[0], ends[1], ends[2], ends[3]);
        let answer = ask(port, "GET", &self.path, &range);
        let shortest = versions.iter().flatten().map(|content| content.len()).min();
        if answer.status != 206 || shortest.is_none_or(|length| length <= ends[3]) {
            return match answer.status {
                206 => Seen::of(Outcome::Done),
                _ => self.judge(&answer, versions, ends[0], usize::MAX),
            };
        }
        let has = |content: &Vec<u8>| {
            let pieces = [&content[ends[0]..=ends[1]], &content[ends[2]..=ends[3]]];
            pieces
                .iter()
                .all(|piece| answer.body.windows(piece.len()).any(|seen| seen == *piece))
        };
        match (answer.is_whole, versions.iter().flatten().any(|content| has(content))) {
            (false, _) => Seen::of(Outcome::BrokenOff),
            (true, true) => Seen::of(Outcome::Done),
            (true, false) => Seen::wrong("ranges of no version".to_owned()),
        }
    }

    fn checksum(&self, answer: &Answer, versions: &[Version]) -> Seen {
        if answer.status != 200 {
            return self.refused(answer, versions, 0);
        }
        let Some(told) = answer.header("digest") else {
            return Seen::of(Outcome::Refused);
        };
        let fits = |content: &Vec<u8>| told == format!("adler32={:08x}", adler32(content));
        match versions.iter().flatten().any(|content| fits(content)) {
            true => Seen::of(Outcome::Done),
            false => Seen::wrong(format!("{told} of no version")),
        }
    }

    fn changed(&self, answer: &Answer, versions: &[Version]) -> Seen {
        match answer.status {
            200..300 => Seen::of(Outcome::Done),
            404 if self.what != What::Delete => Seen {
                words: "404".to_owned(),
                ..Seen::of(Outcome::Refused)
            },
            _ => self.refused(answer, versions, 0),
        }
    }

    /// A client that has left must not get a success, unless there was nothing left to send.
    fn left(&self, answer: &Answer) -> Seen {
        match answer.status {
            200..300 if self.content.len() > 1 => Seen::wrong("half of an upload was accepted".to_owned()),
            200..300 => Seen::of(Outcome::Done),
            _ => Seen::of(Outcome::Refused),
        }
    }

    fn root_read(&self, port: u16, versions: &[Version]) -> Seen {
        let mut session = RootSocket::session(port);
        let opened = session.try_open(&self.path, open_option::READ);
        let longest = if self.what == What::RootRead { 0 } else { 300 };
        let is_within = |content: &Vec<u8>| content.len() >= self.start + longest;
        if opened.status != status::OK {
            let is_absent = opened.error() == NOT_FOUND;
            let fault = (is_absent && !versions.contains(&None)).then(|| "not found, but it is there".to_owned());
            return Seen {
                outcome: if is_absent { Outcome::Absent } else { Outcome::Refused },
                fault,
                words: opened.words(),
            };
        }
        let handle: [u8; 4] = opened.body[..4].try_into().expect("a handle");
        let read = match self.what {
            What::RootRead => {
                let start = (self.start as i64).to_be_bytes();
                let read = parameters(&[&handle, &start, &(self.length as i32).to_be_bytes()]);
                session.send(1, opcode::READ, &read, &[]);
                whole(&mut session)
            }
            _ => {
                let pieces = [self.start, self.start + 200]
                    .map(|start| piece(handle, start))
                    .concat();
                session.send(1, opcode::READ_VECTOR, &[0; 16], &pieces);
                whole(&mut session)
            }
        };
        // What has begun can only be broken off.
        let Some(read) = read else {
            return Seen::of(Outcome::BrokenOff);
        };
        if read.status != status::OK {
            // A piece behind the end is an error.
            let is_refused = versions.iter().flatten().all(|content| is_within(content));
            return Seen {
                words: read.words(),
                ..Seen::of(if is_refused { Outcome::Refused } else { Outcome::Done })
            };
        }
        let fits = |content: &Vec<u8>| match self.what {
            What::RootRead => {
                let end = (self.start + self.length).min(content.len());
                read.body == content.get(self.start..end).unwrap_or_default()
            }
            _ => [self.start, self.start + 200]
                .iter()
                .enumerate()
                .all(|(number, start)| {
                    let answered = read.body.get(number * 116 + 16..number * 116 + 116);
                    answered.is_some() && answered == content.get(*start..start + 100)
                }),
        };
        let is_right = versions.iter().flatten().any(|content| fits(content));
        let _ = session.close(handle);
        match is_right {
            true => Seen::of(Outcome::Done),
            false => Seen::wrong(format!("{} bytes from {} of no version", read.body.len(), self.start)),
        }
    }

    fn root_write(&self, port: u16) -> Seen {
        let mut session = RootSocket::session(port);
        let opened = session.try_open(&self.path, open_option::DELETE | open_option::UPDATE);
        let refused = |words| Seen {
            words,
            ..Seen::of(Outcome::Refused)
        };
        if opened.status != status::OK {
            return refused(opened.words());
        }
        let handle: [u8; 4] = opened.body[..4].try_into().expect("a handle");
        for (number, piece) in self.content.chunks(ROOT_PIECE).enumerate() {
            let written = session.write(handle, (number * ROOT_PIECE) as i64, piece);
            if written.status != status::OK {
                return refused(written.words());
            }
        }
        let closed = session.close(handle);
        match closed.status {
            status::OK => Seen::of(Outcome::Done),
            _ => refused(closed.words()),
        }
    }
}

/// An answer in one or several parts; `None` when the server closes.
fn whole(session: &mut RootSocket<TcpStream>) -> Option<Frame> {
    let mut body = Vec::new();
    loop {
        let frame = session.frame()?;
        body.extend_from_slice(&frame.body);
        if frame.status != status::PARTIAL {
            return Some(Frame { body, ..frame });
        }
    }
}

/// What `root` clients write at once.
const ROOT_PIECE: usize = 256 << 10;
/// `kXR_NotFound` (XRootD protocol, error codes).
const NOT_FOUND: u32 = 3011;

/// An element of a vector read: 100 bytes from `start`.
fn piece(handle: [u8; 4], start: usize) -> Vec<u8> {
    [&handle[..], &100_i32.to_be_bytes(), &(start as i64).to_be_bytes()].concat()
}

/// Compares the names in a listing with those that there may be.
fn list(answer: &Answer, listed: &[(String, Vec<Version>)]) -> Seen {
    if answer.status != 207 || !answer.is_whole {
        return Seen {
            words: answer.status.to_string(),
            ..Seen::of(Outcome::Refused)
        };
    }
    let text = String::from_utf8_lossy(&answer.body);
    let names: Vec<&str> = text
        .split("href>")
        .filter_map(|part| part.split_once('<').map(|(path, _)| path))
        .filter(|path| path.contains('/') && !path.ends_with('/'))
        .filter_map(|path| path.rsplit('/').next())
        .collect();
    for (name, versions) in listed {
        let (is_listed, is_certain) = (names.contains(&name.as_str()), !versions.contains(&None));
        let is_possible = versions.iter().any(Option::is_some);
        if is_certain && !is_listed || is_listed && !is_possible {
            return Seen::wrong(format!("{name} is wrongly listed or left out: {names:?}"));
        }
    }
    match names
        .iter()
        .find(|name| !listed.iter().any(|(known, _)| known == *name))
    {
        Some(other) if !other.starts_with('.') => Seen::wrong(format!("a name that never was is listed: {other}")),
        _ => Seen::of(Outcome::Done),
    }
}
