//! Frames: a command, headers, and a body that a zero byte ends.

use std::fmt;
use std::time::Duration;

use crate::limits::{BODY_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX};

const LENGTH: &str = "content-length";

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 1.0: no escapes, no heart-beats.
    V10,
    /// 1.1.
    V11,
    /// 1.2: lines may end with CR LF.
    V12,
}

impl Version {
    /// As it is written.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::V10 => "1.0",
            Self::V11 => "1.1",
            Self::V12 => "1.2",
        }
    }

    /// The newest of a list such as `1.0,1.1,1.2` that is known here. Without a list: 1.0.
    #[must_use]
    pub fn newest(accepted: Option<&str>) -> Option<Self> {
        let Some(accepted) = accepted else {
            return Some(Self::V10);
        };
        let known = [Self::V12, Self::V11, Self::V10];
        known
            .into_iter()
            .find(|version| accepted.split(',').any(|word| word.trim() == version.word()))
    }
}

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident $word:literal),+ $(,)?) => {
        /// What a frame asks or tells.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Command {
            $($(#[$doc])* $name),+
        }

        impl Command {
            /// As it is written.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word),+
                }
            }

            fn of(word: &[u8]) -> Option<Self> {
                let all = [$(Self::$name),+];
                all.into_iter().find(|command| command.word().as_bytes() == word)
            }
        }
    };
}

commands! {
    /// Opens a session.
    Connect "CONNECT",
    /// Opens a session, since 1.1.
    Stomp "STOMP",
    /// The session is open.
    Connected "CONNECTED",
    /// A message for a destination.
    Send "SEND",
    /// The client wants a destination's messages.
    Subscribe "SUBSCRIBE",
    /// It wants them no more.
    Unsubscribe "UNSUBSCRIBE",
    /// A message was processed.
    Ack "ACK",
    /// A message was not processed.
    Nack "NACK",
    /// A transaction begins.
    Begin "BEGIN",
    /// A transaction is done.
    Commit "COMMIT",
    /// A transaction is dropped.
    Abort "ABORT",
    /// The client leaves.
    Disconnect "DISCONNECT",
    /// A message for a subscriber.
    Message "MESSAGE",
    /// A frame of the client was processed.
    Receipt "RECEIPT",
    /// The server's reason to end the session.
    Error "ERROR",
}

/// Why bytes are no frame, in words that their sender may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

/// A frame. When it is printed, the values of its headers are left out: the passcode is among them.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it asks or tells.
    pub command: Command,
    /// Names and values, without `content-length`. Of a name that is repeated the first counts.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl fmt::Debug for Frame {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        write!(formatter, "{} {names:?} +{}", self.command.word(), self.body.len())
    }
}

impl Frame {
    /// One without headers and body.
    #[must_use]
    pub fn new(command: Command) -> Self {
        Self {
            command,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// With another header.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// With a body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Appends it to `out`. A character of a header that the version cannot carry becomes a space.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        let escapes = escapes(self.command, version);
        out.extend_from_slice(self.command.word().as_bytes());
        out.push(b'\n');
        for (name, value) in self.headers.iter().filter(|(name, _)| name != LENGTH) {
            escape(name, escapes, true, out);
            out.push(b':');
            escape(value, escapes, false, out);
            out.push(b'\n');
        }
        // ActiveMQ takes a message with a length as bytes, and one without as text.
        let needs_length = self.command != Command::Send && !self.body.is_empty();
        if needs_length || self.body.contains(&0) {
            out.extend_from_slice(format!("{LENGTH}:{}\n", self.body.len()).as_bytes());
        }
        out.push(b'\n');
        out.extend_from_slice(&self.body);
        out.push(0);
    }
}

/// How headers are escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    None,
    /// `\n`, `\c`, `\\`.
    Three,
    /// `\r` too.
    Four,
}

/// The frames that open a session have no escapes, so that clients of 1.0 read them.
fn escapes(command: Command, version: Version) -> Escapes {
    match (command, version) {
        (Command::Connect | Command::Connected, _) | (_, Version::V10) => Escapes::None,
        (_, Version::V11) => Escapes::Three,
        (_, Version::V12) => Escapes::Four,
    }
}

fn escape(text: &str, escapes: Escapes, is_name: bool, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        match (byte, escapes) {
            (b'\n' | 0, Escapes::None) | (0, _) => out.push(b' '),
            (b'\r', Escapes::None) => out.push(b' '),
            (b':', Escapes::None) if is_name => out.push(b' '),
            (_, Escapes::None) => out.push(byte),
            (b'\n', _) => out.extend_from_slice(b"\\n"),
            (b':', _) => out.extend_from_slice(b"\\c"),
            (b'\\', _) => out.extend_from_slice(b"\\\\"),
            (b'\r', Escapes::Four) => out.extend_from_slice(b"\\r"),
            (b'\r', _) => out.push(b' '),
            _ => out.push(byte),
        }
    }
}

fn unescape(text: &str, escapes: Escapes) -> Result<String, Malformed> {
    if text.contains('\r') {
        return Err(Malformed("a carriage return inside of a header"));
    }
    if escapes == Escapes::None || !text.contains('\\') {
        return Ok(text.to_owned());
    }
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        plain.push(match (letters.next(), escapes) {
            (Some('n'), _) => '\n',
            (Some('c'), _) => ':',
            (Some('\\'), _) => '\\',
            (Some('r'), Escapes::Four) => '\r',
            _ => return Err(Malformed("an escape in a header that the version does not know")),
        });
    }
    Ok(plain)
}

/// What the beginning of some bytes is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// Not a whole frame yet.
    Partial,
    /// Line ends between frames: heart-beats. They have this many bytes.
    Beat(usize),
    /// A frame, and how many bytes it has.
    Frame(Frame, usize),
}

/// Reads the first frame of `bytes`. Before a version is chosen, it is the newest one.
///
/// # Errors
/// The bytes are no frame, or pass a limit.
pub fn decode(bytes: &[u8], version: Version) -> Result<Decoded, Malformed> {
    match bytes {
        [] | [b'\r'] => return Ok(Decoded::Partial),
        [b'\n', ..] | [b'\r', b'\n', ..] => return Ok(Decoded::Beat(line_ends(bytes))),
        _ => {}
    }
    let mut lines = Lines { bytes, at: 0 };
    let Some(word) = lines.next()? else {
        return Ok(Decoded::Partial);
    };
    let command = Command::of(word).ok_or(Malformed("an unknown command"))?;
    let mut frame = Frame::new(command);
    let mut length = None;
    loop {
        let Some(line) = lines.next()? else {
            return Ok(Decoded::Partial);
        };
        if line.is_empty() {
            break;
        }
        let header = header(line, escapes(command, version))?;
        if header.0 != LENGTH {
            frame.headers.push(header);
        } else if length.is_none() {
            length = Some(body_length(&header.1)?);
        }
        if frame.headers.len() > HEADERS_MAX {
            return Err(Malformed("too many headers"));
        }
    }
    let Some(body) = body(&bytes[lines.at..], length)? else {
        return Ok(Decoded::Partial);
    };
    frame.body = body.to_vec();
    let count = lines.at + body.len() + 1;
    Ok(Decoded::Frame(frame, count))
}

/// The bytes of the line ends at the beginning, all at once: a client may send many.
fn line_ends(bytes: &[u8]) -> usize {
    let mut count = 0;
    loop {
        count += match &bytes[count..] {
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => return count,
        };
    }
}

/// The lines of a head.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Lines<'a> {
    /// The next line without its end; `None` when it is not all there.
    fn next(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let rest = &self.bytes[self.at..];
        let room = &rest[..rest.len().min(HEAD_BYTES_MAX.saturating_sub(self.at))];
        let Some(end) = room.iter().position(|byte| matches!(byte, b'\n' | 0)) else {
            if room.len() < rest.len() || self.bytes.len() >= HEAD_BYTES_MAX {
                return Err(Malformed("the headers are too long"));
            }
            return Ok(None);
        };
        if room[end] == 0 {
            return Err(Malformed("the frame ends within its headers"));
        }
        self.at += end + 1;
        let line = &room[..end];
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

fn header(line: &[u8], escapes: Escapes) -> Result<(String, String), Malformed> {
    let text = std::str::from_utf8(line).map_err(|_| Malformed("a header is not UTF-8"))?;
    let (name, value) = text.split_once(':').ok_or(Malformed("a header without a colon"))?;
    if name.is_empty() {
        return Err(Malformed("a header without a name"));
    }
    let name = unescape(name, escapes)?;
    Ok((name, unescape(value, escapes)?))
}

fn body_length(value: &str) -> Result<usize, Malformed> {
    let length = value
        .trim()
        .parse::<usize>()
        .map_err(|_| Malformed("content-length is no number"))?;
    if length > BODY_BYTES_MAX {
        return Err(Malformed("the body is too long"));
    }
    Ok(length)
}

/// The body at the beginning of `rest`; `None` when it is not all there.
fn body(rest: &[u8], length: Option<usize>) -> Result<Option<&[u8]>, Malformed> {
    let Some(length) = length else {
        let room = &rest[..rest.len().min(BODY_BYTES_MAX + 1)];
        return match room.iter().position(|byte| *byte == 0) {
            Some(end) => Ok(Some(&room[..end])),
            None if room.len() > BODY_BYTES_MAX => Err(Malformed("the body is too long")),
            None => Ok(None),
        };
    };
    match rest.get(length) {
        Some(0) => Ok(Some(&rest[..length])),
        Some(_) => Err(Malformed("no zero byte after content-length bytes")),
        None => Ok(None),
    }
}

/// What a side offers for heart-beats, or what both agreed on. `None`: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beats {
    /// It sends one at least so often.
    pub sends: Option<Duration>,
    /// It wants one at least so often.
    pub wants: Option<Duration>,
}

impl Beats {
    /// Of a header such as `10000,0`, in milliseconds; nothing of what is malformed.
    #[must_use]
    pub fn parse(value: Option<&str>) -> Self {
        let part = |word: Option<&str>| {
            let count = word.and_then(|word| word.trim().parse::<u32>().ok());
            count
                .filter(|count| *count > 0)
                .map(|count| Duration::from_millis(count.into()))
        };
        let mut words = value.unwrap_or_default().split(',');
        Self {
            sends: part(words.next()),
            wants: part(words.next()),
        }
    }

    /// As a header.
    #[must_use]
    pub fn word(self) -> String {
        let count = |beat: Option<Duration>| beat.map_or(0, |beat| beat.as_millis());
        format!("{},{}", count(self.sends), count(self.wants))
    }

    /// What we send and get, given what the peer offers: the slower of both, where both want it.
    #[must_use]
    pub fn agreed(self, peer: Self) -> Self {
        let slower = |ours: Option<Duration>, theirs: Option<Duration>| Some(ours?.max(theirs?));
        Self {
            sends: slower(self.sends, peer.wants),
            wants: slower(self.wants, peer.sends),
        }
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
