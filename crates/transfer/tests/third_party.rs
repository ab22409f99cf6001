//! Third-party copies whose client loses the active server: the state of the destination decides,
//! and nothing is removed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use net::address::AddressPolicy;
use net::tls::{ClientTls, Trust};
use remote::{Abilities, Access, Client, ClientOptions, Delegation, Direction, Resource};
use storage::{Hasher, Overwrite};
use transfer::route::{End, Preference, Way, route};
use transfer::{Comparison, Order, Progress, ThirdParty, ThirdPartyOutcome, Verified};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, Result, Side};
use xroot_wire::limits::{HELLO_BYTES, REQUEST_HEADER_BYTES};
use xroot_wire::response::{LoginReply, OpenReply, ProtocolReply, StatText};
use xroot_wire::{
    ErrorNumber, FileHandle, HelloReply, Opcode, RequestHeader, Role, ServerFlags, SessionId, StatFlags, respond,
};

const CONTENT: &[u8] = b"what the source has";
/// The names of the source and of the destination, on one server.
const HERE: &str = "/here";
const THERE: &str = "/there";
/// Time without changes at the destination before the outcome counts as unknown.
const SETTLE: Duration = Duration::from_millis(300);

/// How a copy ends after the server closed the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// It continues, and is complete when asked for the third time.
    Completes,
    /// It stops half-way.
    Stops,
    /// It is aborted before the first byte, or cleaned up.
    Nothing,
    /// It reports a failure, and leaves an empty file.
    Fails,
}

/// The stored file, and the requests.
struct State {
    ending: Ending,
    tells_checksums: bool,
    /// The destination is like an object store: it keeps MD5, whatever it is asked for.
    keeps_md5: bool,
    stored: Option<Vec<u8>>,
    asked: Vec<String>,
    has_begun: bool,
    begun: SystemTime,
    looks: usize,
}

/// A server that is both ends of a copy and closes its client's connection.
#[derive(Clone)]
struct Server(Arc<Mutex<State>>);

fn adler32(content: &[u8]) -> Checksum {
    checksum(ChecksumAlgorithm::Adler32, content)
}

fn checksum(algorithm: ChecksumAlgorithm, content: &[u8]) -> Checksum {
    let mut hasher = Hasher::new(&[algorithm]);
    hasher.update(content);
    hasher.finish().remove(0)
}

impl Server {
    fn new(ending: Ending) -> Self {
        Self(Arc::new(Mutex::new(State {
            ending,
            tells_checksums: true,
            keeps_md5: false,
            stored: None,
            asked: Vec::new(),
            has_begun: false,
            begun: SystemTime::now(),
            looks: 0,
        })))
    }

    fn with(self, change: impl FnOnce(&mut State)) -> Self {
        change(&mut self.0.lock().unwrap());
        self
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

    /// Records a request; returns the content of the path.
    fn asked(&self, what: &str, path: &str) -> Option<Vec<u8>> {
        let mut state = self.0.lock().unwrap();
        state.asked.push(format!("{what} {path}"));
        if path != THERE {
            return Some(CONTENT.to_vec());
        }
        if state.has_begun {
            state.looks += 1;
            state.stored = match (state.ending, state.looks) {
                (Ending::Completes, 1) => None,
                (Ending::Completes, 2) | (Ending::Stops, _) => Some(CONTENT[..9].to_vec()),
                (Ending::Completes, _) => Some(CONTENT.to_vec()),
                (Ending::Nothing | Ending::Fails, _) => state.stored.clone(),
            };
        }
        state.stored.clone()
    }

    fn delete(&self) {
        let mut state = self.0.lock().unwrap();
        state.asked.push(format!("delete {THERE}"));
        state.stored = None;
    }

    /// The header line with the checksums of the path's content; empty if it says none.
    fn digest(&self, path: &str, content: &[u8]) -> String {
        let state = self.0.lock().unwrap();
        let algorithms = match (state.tells_checksums, state.keeps_md5, path) {
            (false, _, _) => return String::new(),
            (true, false, _) => &[ChecksumAlgorithm::Adler32][..],
            (true, true, THERE) => &[ChecksumAlgorithm::Md5],
            (true, true, _) => &[ChecksumAlgorithm::Adler32, ChecksumAlgorithm::Md5],
        };
        let values = algorithms
            .iter()
            .map(|algorithm| http_wire::digest_value(&checksum(*algorithm, content)));
        format!("Digest: {}\r\n", values.collect::<Vec<_>>().join(","))
    }

    fn begin(&self) -> Ending {
        let mut state = self.0.lock().unwrap();
        state.has_begun = true;
        state.begun = SystemTime::now();
        if state.ending == Ending::Fails {
            state.stored = Some(Vec::new());
        }
        state.ending
    }

    fn has_deleted(&self) -> bool {
        let state = self.0.lock().unwrap();
        state.asked.iter().any(|asked| asked.starts_with("delete"))
    }

    fn stored(&self) -> Option<Vec<u8>> {
        self.0.lock().unwrap().stored.clone()
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
        match method {
            "COPY" => {
                let accepted = "HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n";
                stream.write_all(accepted.as_bytes())?;
                match self.begin() {
                    Ending::Fails => stream.write_all(b"11\r\nfailure: no luck\n\r\n0\r\n\r\n"),
                    _ => stream.write_all(b"c\r\nPerf Marker\n\r\n"),
                }
            }
            "DELETE" => {
                self.delete();
                stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
            }
            _ => {
                let found = self.asked(method, path);
                let status = if found.is_some() { "200 OK" } else { "404 Not Found" };
                let content = found.unwrap_or_default();
                let digest = self.digest(path, &content);
                let length = content.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{}{}Connection: close\r\n\r\n",
                    self.times(),
                    digest
                );
                stream.write_all(answer.as_bytes())
            }
        }
    }

    /// The server's time, and that of the file.
    fn times(&self) -> String {
        let told = |time: SystemTime| {
            let seconds = time.duration_since(UNIX_EPOCH).unwrap().as_secs();
            http_wire::format_date(i64::try_from(seconds).unwrap())
        };
        let begun = self.0.lock().unwrap().begun;
        format!(
            "Date: {}\r\nLast-Modified: {}\r\n",
            told(SystemTime::now()),
            told(begun)
        )
    }

    /// Serves a connection of the XRootD protocol.
    fn answer_root(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        stream.read_exact(&mut [0; HELLO_BYTES])?;
        let role = Role::DataServer;
        stream.write_all(&HelloReply { version: 0x511, role }.encode())?;
        let mut syncs = 0;
        loop {
            let mut head = [0; REQUEST_HEADER_BYTES];
            stream.read_exact(&mut head)?;
            let header = RequestHeader::parse(&head);
            let mut payload = vec![0; usize::try_from(header.length).unwrap()];
            stream.read_exact(&mut payload)?;
            let text = String::from_utf8_lossy(&payload).into_owned();
            let path = text.split('?').next().unwrap_or_default().trim_end_matches('\0');
            let mut out = Vec::new();
            let opcode = header.known_opcode().unwrap();
            syncs += usize::from(opcode == Opcode::Sync);
            let body = match opcode {
                Opcode::Sync if syncs == 2 => {
                    self.begin();
                    respond::wait_for_answer(&mut out, header.stream, 1800, "");
                    return stream.write_all(&out);
                }
                Opcode::Stat | Opcode::Query => match self.asked("look", path) {
                    Some(content) if opcode == Opcode::Stat => text_of(&stat(content.len())),
                    Some(content) => format!("adler32 {}\0", adler32(&content).to_hex()).into_bytes(),
                    None => {
                        respond::error(&mut out, header.stream, ErrorNumber::NOT_FOUND, "no such file");
                        stream.write_all(&out)?;
                        continue;
                    }
                },
                Opcode::Remove => {
                    self.delete();
                    Vec::new()
                }
                other => greeting(other),
            };
            respond::ok(&mut out, header.stream, &body);
            stream.write_all(&out)?;
        }
    }
}

/// The answers of a data server to requests other than those for the file.
fn greeting(opcode: Opcode) -> Vec<u8> {
    match opcode {
        Opcode::Protocol => ProtocolReply {
            version: 0x511,
            flags: ServerFlags::SERVER | ServerFlags::PAGES,
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
        Opcode::Open => OpenReply {
            handle: FileHandle([7, 0, 0, 1]),
            stat: Some(stat(CONTENT.len())),
        }
        .encode()
        .to_vec(),
        _ => Vec::new(),
    }
}

fn stat(length: usize) -> StatText {
    StatText {
        id: 4711,
        size_bytes: length as u64,
        flags: StatFlags::READABLE,
        modified_s: 1_700_000_000,
        extension: None,
    }
}

fn text_of(stat: &StatText) -> Vec<u8> {
    let mut text = Vec::new();
    stat.write(&mut text);
    text.push(0);
    text
}

/// How the copy is ordered.
#[derive(Clone, Copy, Debug)]
enum By {
    Pull,
    Push,
    Rendezvous,
}

const ALL: [By; 3] = [By::Pull, By::Push, By::Rendezvous];

async fn copy(server: &Server, by: By, order: &Order) -> Result<ThirdPartyOutcome> {
    let base = match by {
        By::Pull | By::Push => format!("http://127.0.0.1:{}", server.start(Server::answer_http)),
        By::Rendezvous => format!("root://127.0.0.1:{}/", server.start(Server::answer_root)),
    };
    let wait = Duration::from_secs(10);
    let client = Client::new(ClientOptions {
        tls: ClientTls::load(&Trust::default()).unwrap().0,
        addresses: AddressPolicy::ANY,
        connect: wait,
        first_byte: wait,
        stall: wait,
        user_agent: "test".into(),
    });
    let file = |path: &str, side| Resource {
        location: Location::parse(&format!("{base}{path}")).unwrap(),
        access: Access::default(),
        side,
    };
    let (source, destination) = (file(HERE, Side::Source), file(THERE, Side::Destination));
    let ordered = ThirdParty {
        client: &client,
        source: &source,
        destination: &destination,
        direction: match by {
            By::Push => Direction::Push,
            _ => Direction::Pull,
        },
        shown: &Access::default(),
        delegation: Delegation::Never,
        delegated: &OnceLock::new(),
        order,
        is_absent: true,
        is_offered: false,
        compares: Comparison::Sides,
        stall: None,
        settle: SETTLE,
        progress: &Progress::new(),
    };
    ordered.copy().await
}

fn refusing() -> Order {
    Order {
        overwrite: Overwrite::Refuse,
        ..Order::default()
    }
}

/// The outcome is unknown: no other way is tried.
fn assert_unknown(error: &Error, words: &str) {
    assert_eq!(error.code(), ErrorCode::OutcomeUnknown, "{error}");
    assert!(error.public().contains(words), "{words}: {error}");
    let http = End::server(Abilities {
        pulls: true,
        pushes: true,
        ..Abilities::default()
    });
    let mut plan = route(Preference::Any, &http, &http).unwrap();
    assert_eq!(plan.way(), Way::Pull);
    assert_eq!(plan.after(error), None);
}

#[tokio::test]
async fn a_copy_that_goes_on_without_its_client_is_found_whole() {
    for by in ALL {
        let server = Server::new(Ending::Completes);
        let outcome = copy(&server, by, &refusing()).await.unwrap();
        let lost = outcome.lost.expect("its server was lost");
        assert_eq!(lost.code(), ErrorCode::OutcomeUnknown, "{by:?} {lost}");
        assert_eq!(outcome.verified, Verified::Agreed(adler32(CONTENT)), "{by:?}");
        assert_eq!(outcome.bytes, CONTENT.len() as u64);
        assert_eq!(server.stored().as_deref(), Some(CONTENT));
        assert!(!server.has_deleted(), "{by:?}");
    }
}

#[tokio::test]
async fn what_an_object_store_keeps_tells_that_a_copy_is_whole() {
    for by in [By::Pull, By::Push] {
        let server = Server::new(Ending::Completes).with(|state| state.keeps_md5 = true);
        let outcome = copy(&server, by, &refusing()).await.unwrap();
        let md5 = checksum(ChecksumAlgorithm::Md5, CONTENT);
        assert_eq!(outcome.verified, Verified::Agreed(md5), "{by:?}");
    }
}

#[tokio::test]
async fn a_copy_of_which_nothing_is_found_leaves_its_outcome_open() {
    for by in ALL {
        let server = Server::new(Ending::Nothing);
        let error = copy(&server, by, &refusing()).await.unwrap_err();
        assert_unknown(&error, "the destination has no such file");
        assert!(!server.has_deleted(), "{by:?}");
    }
}

#[tokio::test]
async fn what_may_still_be_written_is_not_removed() {
    for by in ALL {
        let server = Server::new(Ending::Stops);
        let error = copy(&server, by, &refusing()).await.unwrap_err();
        assert_unknown(&error, "the destination has 9 bytes, the source 19");
        assert_eq!(server.stored().as_deref(), Some(&CONTENT[..9]), "{by:?}");
        assert!(!server.has_deleted(), "{by:?}");
        // The file to replace is as long as the new one.
        let old = vec![b'x'; CONTENT.len()];
        let server = Server::new(Ending::Nothing).with(|state| state.stored = Some(old.clone()));
        let error = copy(&server, by, &Order::default()).await.unwrap_err();
        assert_unknown(&error, "content is not known to be the source's");
        assert_eq!(server.stored(), Some(old), "{by:?}");
    }
}

#[tokio::test]
async fn a_size_alone_does_not_tell_that_a_copy_is_whole() {
    for by in [By::Pull, By::Push] {
        let server = Server::new(Ending::Completes).with(|state| state.tells_checksums = false);
        let error = copy(&server, by, &refusing()).await.unwrap_err();
        assert_unknown(&error, "content is not known to be the source's");
        assert_eq!(server.stored().as_deref(), Some(CONTENT));
    }
}

#[tokio::test]
async fn an_empty_file_after_a_copy_that_failed_stays() {
    for by in [By::Pull, By::Push] {
        let server = Server::new(Ending::Fails);
        let error = copy(&server, by, &refusing()).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::PeerFailed, "{error}");
        assert!(error.public().contains("0 bytes are there"), "{error}");
        assert_eq!(server.stored(), Some(Vec::new()), "{by:?}");
    }
}
