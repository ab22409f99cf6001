//! A server that writes in place and keeps the beginning of a failed copy, and a second client that
//! stores its file at a chosen moment.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use storage::Hasher;
use types::ChecksumAlgorithm;
use xroot_wire::limits::{HELLO_BYTES, REQUEST_HEADER_BYTES};
use xroot_wire::response::{LoginReply, OpenReply, ProtocolReply, StatText};
use xroot_wire::{
    ErrorNumber, FileHandle, HelloReply, Opcode, OpenOptions, Request, RequestHeader, Role, ServerFlags, SessionId,
    StatFlags, respond,
};

/// The names of the source and of the destination, on one server.
pub(crate) const HERE: &str = "/here";
pub(crate) const THERE: &str = "/there";
/// Bytes that stay of a failed copy.
pub(crate) const KEPT: usize = 10_000;

/// The source's file, without repetitions.
pub(crate) fn content() -> Vec<u8> {
    (0u32..16_384)
        .flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect()
}

/// The same as it arrives with one bit turned over, behind its beginning.
pub(crate) fn damaged() -> Vec<u8> {
    let mut damaged = content();
    damaged[30_000] ^= 1;
    damaged
}

/// When the second client stores its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Never,
    /// Before the first look at what is left.
    AfterFailure,
    /// Behind the comparison with our content, before the second look.
    BetweenLooks,
    /// Behind the first look.
    BetweenStats,
    /// Behind the second look.
    BeforeRemoval,
}

/// How a copy fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Status(u16),
    /// The connection is closed.
    Cut,
    /// It says that it has stored everything.
    Stores,
    /// It has stored everything, but with one bit turned over.
    StoresDamaged,
    /// The connection of the first upload is closed before its data, behind the creation of the
    /// file; further ones get this status.
    CutBeforeData(u16),
}

/// Which file has the name, as a server of the XRootD protocol says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) id: u64,
    /// Seconds after the copy was begun.
    pub(crate) after_s: i64,
}

/// How a server removes a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Removing {
    #[default]
    AtOnce,
    /// It is in use for so many requests.
    InUse(u32),
    Never,
}

/// The file of a copy.
const OURS: Named = Named { id: 4711, after_s: 0 };
/// When copies begin, in seconds since 1970.
const BEGINNING_S: i64 = 1_700_000_000;

struct State {
    moment: Moment,
    other: Vec<u8>,
    /// The second client's file.
    other_named: Named,
    named: Named,
    /// Files persist only if they are closed; until then they cannot be read.
    persists_on_close: bool,
    removing: Removing,
    answer: Answer,
    /// The source does not say how large its file is.
    hides_size: bool,
    stored: Option<Vec<u8>>,
    /// When the file was last written to; only HTTP tells it.
    changed: SystemTime,
    has_failed: bool,
    asked: Vec<String>,
}

impl State {
    /// The copy fails; what was under way behind it changes nothing.
    fn fail(&mut self) {
        self.fail_with(&content()[..KEPT]);
    }

    fn fail_with(&mut self, left: &[u8]) {
        if std::mem::replace(&mut self.has_failed, true) {
            return;
        }
        self.stored = Some(left.to_vec());
        self.named = OURS;
        self.changed = SystemTime::now();
        self.come(Moment::AfterFailure);
    }

    /// The second client's moment.
    fn come(&mut self, moment: Moment) {
        if self.has_failed && self.moment == moment {
            self.stored = Some(self.other.clone());
            self.named = self.other_named;
            self.changed = SystemTime::now();
        }
    }

    fn note(&mut self, what: &str) {
        if self.has_failed {
            self.asked.push(what.to_owned());
        }
    }
}

/// The server, both ends of a copy.
#[derive(Clone)]
pub(crate) struct Server(Arc<Mutex<State>>);

impl Server {
    pub(crate) fn new(moment: Moment, other: &[u8]) -> Self {
        Self(Arc::new(Mutex::new(State {
            moment,
            other: other.to_vec(),
            other_named: OURS,
            named: OURS,
            persists_on_close: false,
            removing: Removing::AtOnce,
            answer: Answer::Status(507),
            hides_size: false,
            stored: None,
            changed: SystemTime::now(),
            has_failed: false,
            asked: Vec::new(),
        })))
    }

    pub(crate) fn answering(self, answer: Answer) -> Self {
        self.state().answer = answer;
        self
    }

    /// The source does not say how large its file is.
    pub(crate) fn hiding_size(self) -> Self {
        self.state().hides_size = true;
        self
    }

    pub(crate) fn with_old(self, old: &[u8]) -> Self {
        self.state().stored = Some(old.to_vec());
        self
    }

    /// Files persist only if they are closed; until then they cannot be read.
    pub(crate) fn persisting_on_close(self) -> Self {
        self.state().persists_on_close = true;
        self
    }

    /// The second client's file is this one.
    pub(crate) fn with_other_named(self, named: Named) -> Self {
        self.state().other_named = named;
        self
    }

    pub(crate) fn removing(self, removing: Removing) -> Self {
        self.state().removing = removing;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn stored(&self) -> Option<Vec<u8>> {
        self.state().stored.clone()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.state().has_failed
    }

    /// The requests about the destination after the failure.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.state().asked.clone()
    }

    pub(crate) fn start_http(&self) -> String {
        format!("http://127.0.0.1:{}", self.start(Self::answer_http))
    }

    pub(crate) fn start_root(&self) -> String {
        format!("root://127.0.0.1:{}/", self.start(Self::answer_root))
    }

    /// Serves until the process ends.
    fn start(&self, serve: fn(&Self, &TcpStream) -> std::io::Result<()>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                std::thread::spawn(move || drop(serve(&server, &stream)));
            }
        });
        port
    }

    /// What a path holds.
    fn look(&self, path: &str) -> Option<Vec<u8>> {
        if path == HERE {
            return Some(content());
        }
        let mut state = self.state();
        state.note("look");
        state.stored.clone()
    }

    /// What a path holds, for a client that reads it.
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        let found = self.look(path);
        if path == THERE {
            self.state().come(Moment::BetweenLooks);
        }
        found
    }

    /// Whether the file was removed: not if the version is another one.
    fn remove(&self, version: Option<&str>) -> bool {
        let mut state = self.state();
        state.come(Moment::BeforeRemoval);
        state.note("remove");
        let is_other = version.is_some_and(|version| Some(version.to_owned()) != state.stored.as_deref().map(tag));
        if !is_other {
            state.stored = None;
        }
        !is_other
    }

    /// Removes the file over the XRootD protocol.
    fn remove_named(&self) -> Result<(), ErrorNumber> {
        let mut state = self.state();
        match &mut state.removing {
            Removing::Never => Err(ErrorNumber::NOT_AUTHORIZED),
            Removing::InUse(times) if *times > 0 => {
                *times -= 1;
                Err(ErrorNumber::FILE_LOCKED)
            }
            _ => {
                drop(state);
                self.remove(None);
                Ok(())
            }
        }
    }

    /// What the XRootD protocol says of a file.
    fn stat(&self, path: &str, content: &[u8]) -> StatText {
        let state = self.state();
        let is_unclosed = path == THERE && state.persists_on_close;
        let pending = StatFlags::PERSIST_PENDING;
        StatText {
            id: state.named.id,
            size_bytes: content.len() as u64,
            flags: StatFlags::READABLE | if is_unclosed { pending } else { StatFlags::empty() },
            modified_s: BEGINNING_S + state.named.after_s,
            extension: None,
        }
    }

    /// Answers one HTTP request.
    fn answer_http(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        let (mut reader, mut request, mut line) = (BufReader::new(stream), String::new(), String::new());
        while reader.read_line(&mut line)? > 2 {
            request.push_str(&line);
            line.clear();
        }
        let mut words = request.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let field = |name: &str| {
            let lines = request.lines().filter_map(|line| line.split_once(": "));
            lines
                .filter(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, value)| value)
                .next()
        };
        match method {
            "PUT" | "COPY" => {
                let is_first = !self.has_failed();
                if is_first && matches!(self.state().answer, Answer::CutBeforeData(_)) {
                    self.state().fail_with(b"");
                    return Ok(());
                }
                if method == "PUT" {
                    stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                    let bytes = match self.state().answer {
                        Answer::Stores | Answer::StoresDamaged => content().len(),
                        _ => KEPT,
                    };
                    std::io::copy(&mut (&mut reader).take(bytes as u64), &mut std::io::sink())?;
                }
                let answer = self.state().answer;
                match answer {
                    Answer::StoresDamaged => self.state().fail_with(&damaged()),
                    _ => self.state().fail(),
                }
                let status = match answer {
                    Answer::Status(status) | Answer::CutBeforeData(status) => status,
                    Answer::Stores | Answer::StoresDamaged => 201,
                    Answer::Cut => return Ok(()),
                };
                let answer = format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                stream.write_all(answer.as_bytes())?;
                stream.shutdown(Shutdown::Write)?;
                // Reads the rest, so that no reset overtakes the answer.
                std::io::copy(&mut reader, &mut std::io::sink()).map(drop)
            }
            "DELETE" => {
                let status = if self.remove(field("if-match")) {
                    "204 Gone"
                } else {
                    "412 Other"
                };
                stream.write_all(format!("HTTP/1.1 {status}\r\nConnection: close\r\n\r\n").as_bytes())
            }
            _ => {
                if method == "HEAD" && path == HERE && self.state().hides_size {
                    return stream.write_all(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                }
                let found = if method == "GET" {
                    self.read(path)
                } else {
                    self.look(path)
                };
                let Some(found) = found else {
                    return stream.write_all(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                };
                let end = field("range").and_then(|range| range.rsplit_once('-')?.1.parse::<usize>().ok());
                let part = end.map_or(&found[..], |end| &found[..found.len().min(end + 1)]);
                let status = match end {
                    Some(end) => format!("206 Part\r\nContent-Range: bytes 0-{end}/{}", found.len()),
                    None => "200 OK".to_owned(),
                };
                let (length, facts) = (part.len(), self.facts(path, &found));
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{facts}Connection: close\r\n\r\n");
                stream.write_all(head.as_bytes())?;
                match method {
                    "GET" => stream.write_all(part)?,
                    _ if path == THERE => self.state().come(Moment::BetweenStats),
                    _ => {}
                }
                Ok(())
            }
        }
    }

    /// What is said of a file beside its size; only of the destination a checksum.
    fn facts(&self, path: &str, content: &[u8]) -> String {
        let mut hasher = Hasher::new(&[ChecksumAlgorithm::Adler32]);
        hasher.update(content);
        let digest = match path {
            THERE => format!("Digest: {}\r\n", http_wire::digest_value(&hasher.finish()[0])),
            _ => String::new(),
        };
        format!("ETag: {}\r\n{digest}{}", tag(content), self.times())
    }

    /// The server's time, and that of the file.
    fn times(&self) -> String {
        let state = self.state();
        let told = |time: SystemTime| {
            let seconds = time.duration_since(UNIX_EPOCH).unwrap().as_secs();
            http_wire::format_date(i64::try_from(seconds).unwrap())
        };
        format!(
            "Date: {}\r\nLast-Modified: {}\r\n",
            told(SystemTime::now()),
            told(state.changed)
        )
    }

    /// Serves a connection of the XRootD protocol.
    fn answer_root(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        stream.read_exact(&mut [0; HELLO_BYTES])?;
        let role = Role::DataServer;
        stream.write_all(&HelloReply { version: 0x511, role }.encode())?;
        let (mut syncs, mut open) = (0, Vec::new());
        loop {
            let mut head = [0; REQUEST_HEADER_BYTES];
            stream.read_exact(&mut head)?;
            let header = RequestHeader::parse(&head);
            let mut payload = vec![0; usize::try_from(header.length).unwrap()];
            stream.read_exact(&mut payload)?;
            let text = String::from_utf8_lossy(&payload).into_owned();
            let path = text.split('?').next().unwrap_or_default().trim_end_matches('\0');
            let opcode = header.known_opcode().unwrap();
            syncs += usize::from(opcode == Opcode::Sync);
            let body = match opcode {
                Opcode::Write | Opcode::Sync if opcode == Opcode::Write || syncs == 2 => {
                    self.state().fail();
                    if self.state().answer == Answer::Cut {
                        return Ok(());
                    }
                    Err(ErrorNumber::NO_SPACE)
                }
                Opcode::Stat => {
                    let found = self.look(path);
                    let told = found.map(|found| text_of(&self.stat(path, &found)));
                    if path == THERE {
                        self.state().come(Moment::BetweenStats);
                    }
                    told.ok_or(ErrorNumber::NOT_FOUND)
                }
                Opcode::Open => {
                    if path == THERE && self.state().persists_on_close && is_read(&header, &payload) {
                        self.state().come(Moment::BetweenLooks);
                        // As XRootD says it of a file that is being stored.
                        let mut out = Vec::new();
                        respond::wait(&mut out, header.stream, 60, "it is being created");
                        stream.write_all(&out)?;
                        continue;
                    }
                    open = self.read(path).unwrap_or_default();
                    let stat = Some(self.stat(path, &open));
                    Ok(OpenReply {
                        handle: FileHandle([7, 0, 0, 1]),
                        stat,
                    }
                    .encode())
                }
                Opcode::Read => match Request::parse(&header, &payload) {
                    Ok(Request::Read(read)) => {
                        let (start, length) = (read.offset as usize, read.length as usize);
                        Ok(open[start..open.len().min(start + length)].to_vec())
                    }
                    _ => Err(ErrorNumber::NOT_FOUND),
                },
                Opcode::Remove => self.remove_named().map(|()| Vec::new()),
                // No checksums here.
                Opcode::Query => Err(ErrorNumber::UNSUPPORTED),
                other => Ok(greeting(other)),
            };
            let mut out = Vec::new();
            match body {
                Ok(body) => respond::ok(&mut out, header.stream, &body),
                Err(number) => respond::error(&mut out, header.stream, number, "no"),
            }
            stream.write_all(&out)?;
        }
    }
}

/// Whether a file is opened to be read.
fn is_read(header: &RequestHeader, payload: &[u8]) -> bool {
    matches!(Request::parse(header, payload), Ok(Request::Open(open)) if open.options.contains(OpenOptions::READ))
}

/// The answers of a data server to requests other than those for the file.
fn greeting(opcode: Opcode) -> Vec<u8> {
    match opcode {
        Opcode::Protocol => ProtocolReply {
            version: 0x511,
            flags: ServerFlags::SERVER,
            bind_interfaces: None,
            signing: None,
        }
        .encode()
        .to_vec(),
        Opcode::Login => LoginReply {
            session: SessionId([5; 16]),
            protocols: Vec::new(),
        }
        .encode()
        .to_vec(),
        _ => Vec::new(),
    }
}

/// A version, by content.
fn tag(content: &[u8]) -> String {
    let sum = content
        .iter()
        .fold(content.len() as u64, |sum, byte| sum.rotate_left(5) ^ u64::from(*byte));
    format!("\"{sum:x}\"")
}

fn text_of(stat: &StatText) -> Vec<u8> {
    let mut text = Vec::new();
    stat.write(&mut text);
    text.push(0);
    text
}
