//! Copies between two servers through this process: contradictory sources, and verification.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use net::address::AddressPolicy;
use net::tls::{ClientTls, Trust};
use remote::{Access, Client, ClientOptions, Resource};
use storage::Overwrite;
use transfer::{Budget, Order, Outcome, Progress, RemoteSink, RemoteSource, Source, Verification, copy};
use types::{Checksum, Error, ErrorCode, Location, Result, Side};

const CONTENT: &[u8] = b"what the source has";
/// The path at the destination.
const THERE: &str = "/there";

fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap().as_secs();
    http_wire::format_date(i64::try_from(seconds).unwrap())
}

/// One server for both ends. The source has fixed answers; the destination stores the data.
#[derive(Clone, Default)]
struct Server {
    /// The answer to HEAD and GET at the source.
    head: String,
    get: Vec<u8>,
    /// Whether it creates an empty file as soon as it is asked to store one.
    creates_first: bool,
    /// How many uploads it cuts before their content.
    cuts: Arc<AtomicUsize>,
    stored: Arc<Mutex<HashMap<String, Vec<u8>>>>,
    /// When it stored last.
    changed: Arc<Mutex<Option<SystemTime>>>,
    methods: Arc<Mutex<Vec<String>>>,
    /// All heads of requests, in lower case.
    heads: Arc<Mutex<String>>,
}

impl Server {
    fn new(head: &str, get: &[u8]) -> Self {
        Self {
            head: head.to_owned(),
            get: get.to_vec(),
            ..Self::default()
        }
    }

    /// Serves until the process ends, one request per connection.
    fn start(&self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                std::thread::spawn(move || drop(server.answer(&stream)));
            }
        });
        port
    }

    fn answer(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        let (mut reader, mut request, mut line) = (BufReader::new(stream), String::new(), String::new());
        while reader.read_line(&mut line)? > 2 {
            request.push_str(&line.to_ascii_lowercase());
            line.clear();
        }
        self.heads.lock().unwrap().push_str(&request);
        let mut words = request.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let is_there = path == THERE;
        if is_there {
            self.methods.lock().unwrap().push(method.to_owned());
        }
        match (method, is_there) {
            ("head", false) => stream.write_all(format!("HTTP/1.1 200 OK\r\n{}\r\n\r\n", self.head).as_bytes()),
            ("get", false) => stream.write_all(&self.get),
            ("get", true) => {
                let stored = self.stored().unwrap_or_default();
                let range = request.lines().find_map(|line| line.strip_prefix("range: bytes=0-"));
                let end = range.and_then(|end| end.trim().parse().ok()).unwrap_or(0);
                let head = format!(
                    "HTTP/1.1 206 Part\r\nContent-Length: {}\r\nContent-Range: bytes 0-{end}/{}\r\n\r\n",
                    end + 1,
                    stored.len()
                );
                stream.write_all(&[head.as_bytes(), &stored[..=end]].concat())
            }
            ("put", _) => {
                if self.creates_first {
                    self.stored.lock().unwrap().insert(path.to_owned(), Vec::new());
                }
                if self.cuts.load(Ordering::Relaxed) > 0 {
                    self.cuts.fetch_sub(1, Ordering::Relaxed);
                    return Ok(());
                }
                stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                let content = body(&mut reader, &request)?;
                *self.changed.lock().unwrap() = Some(SystemTime::now());
                self.stored.lock().unwrap().insert(path.to_owned(), content);
                stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            }
            ("delete", _) => {
                self.stored.lock().unwrap().remove(path);
                stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
            }
            _ => {
                let size = self.stored.lock().unwrap().get(path).map(Vec::len);
                let status = size.map_or("404 Not Found", |_| "200 OK");
                let length = size.unwrap_or(0);
                let times = self.changed.lock().unwrap().map(|changed| {
                    let (now, changed) = (date(SystemTime::now()), date(changed));
                    format!("Date: {now}\r\nLast-Modified: {changed}\r\n")
                });
                let times = times.unwrap_or_default();
                let answer =
                    format!("HTTP/1.1 {status}\r\n{times}Content-Length: {length}\r\nConnection: close\r\n\r\n");
                stream.write_all(answer.as_bytes())
            }
        }
    }

    fn stored(&self) -> Option<Vec<u8>> {
        self.stored.lock().unwrap().get(THERE).cloned()
    }

    async fn copy(&self, order: &Order) -> Result<Outcome> {
        let port = self.start();
        let (tls, _) = ClientTls::load(&Trust::default()).unwrap();
        let wait = Duration::from_secs(10);
        let client = Client::new(ClientOptions {
            tls,
            addresses: AddressPolicy::ANY,
            connect: wait,
            first_byte: wait,
            stall: wait,
            user_agent: "test".into(),
        });
        let file = |path: &str, side| Resource {
            location: Location::parse(&format!("http://127.0.0.1:{port}{path}")).unwrap(),
            access: Access::default(),
            side,
        };
        let source: Arc<dyn Source> = Arc::new(RemoteSource::new(&client, &file("/here", Side::Source)));
        let sink = RemoteSink::new(&client, &file(THERE, Side::Destination));
        copy(&source, &sink, order, &Budget::new(), &Progress::new()).await
    }
}

/// The body of a request, chunked or with a length.
fn body(reader: &mut impl BufRead, head: &str) -> std::io::Result<Vec<u8>> {
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut content = Vec::new();
    if let Some(length) = length {
        content.resize(length.trim().parse().unwrap_or(0), 0);
        reader.read_exact(&mut content)?;
        return Ok(content);
    }
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
        let mut chunk = vec![0; length + 2];
        reader.read_exact(&mut chunk)?;
        if length == 0 {
            return Ok(content);
        }
        content.extend_from_slice(&chunk[..length]);
    }
}

/// An answer that ends with the connection.
fn until_closed(content: &[u8]) -> Vec<u8> {
    [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", content].concat()
}

fn head(size: usize) -> String {
    format!("Content-Length: {size}\r\nConnection: close")
}

fn seen(error: &Error) -> (ErrorCode, Side) {
    (error.code(), error.side())
}

#[tokio::test]
async fn data_shorter_than_announced_is_the_sources_fault_and_removed() {
    for came in [&CONTENT[..CONTENT.len() - 3], b""] {
        let server = Server::new(&head(CONTENT.len()), &until_closed(came));
        let error = server.copy(&Order::default()).await.unwrap_err();
        assert_eq!(seen(&error), (ErrorCode::PeerSizeDiffers, Side::Source), "{error}");
        assert_eq!(server.stored(), None);
    }
    let said = format!("HTTP/1.1 200 OK\r\n{}\r\n\r\n", head(CONTENT.len() - 3));
    let answer = [said.as_bytes(), &CONTENT[3..]].concat();
    let server = Server::new(&head(CONTENT.len()), &answer);
    let error = server.copy(&Order::default()).await.unwrap_err();
    assert_eq!(seen(&error), (ErrorCode::SourceChanged, Side::Source), "{error}");
    assert!(!server.methods.lock().unwrap().contains(&"put".to_owned()));
    // Some sources do not know the length before sending the file.
    for told in [CONTENT.len(), 0] {
        let server = Server::new(&head(told), &until_closed(CONTENT));
        assert_eq!(
            server.copy(&Order::default()).await.unwrap().bytes,
            CONTENT.len() as u64
        );
        assert_eq!(server.stored().unwrap(), CONTENT);
    }
}

#[tokio::test]
async fn data_longer_than_announced_is_the_sources_fault_and_removed() {
    let more = [CONTENT, b", and more"].concat();
    let server = Server::new(&head(CONTENT.len()), &until_closed(&more));
    let error = server.copy(&Order::default()).await.unwrap_err();
    assert_eq!(seen(&error), (ErrorCode::PeerSizeDiffers, Side::Source), "{error}");
    assert_eq!(server.stored(), None);
    let said = format!("HTTP/1.1 200 OK\r\n{}\r\n\r\n", head(more.len()));
    let server = Server::new(&head(CONTENT.len()), &[said.as_bytes(), &more].concat());
    let error = server.copy(&Order::default()).await.unwrap_err();
    assert_eq!(seen(&error), (ErrorCode::SourceChanged, Side::Source), "{error}");
    assert!(!server.methods.lock().unwrap().contains(&"put".to_owned()));
}

#[tokio::test]
async fn a_source_without_a_size_is_stopped_at_the_size_that_was_listed() {
    let listing = |size| Order {
        listed_bytes: Some(size as u64),
        ..Order::default()
    };
    let server = Server::new("Connection: close", &until_closed(CONTENT));
    let error = server.copy(&listing(CONTENT.len() - 3)).await.unwrap_err();
    assert_eq!(seen(&error), (ErrorCode::PeerSizeDiffers, Side::Source), "{error}");
    assert_eq!(server.stored(), None);
    // What the server says of the file is newer than its listing; 0 may mean that it does not know.
    let told = Server::new(&head(CONTENT.len()), &until_closed(CONTENT));
    assert!(told.copy(&listing(CONTENT.len() - 3)).await.is_ok());
    for listed in [0, CONTENT.len()] {
        let copied = server.copy(&listing(listed)).await.unwrap();
        assert_eq!(copied.bytes, CONTENT.len() as u64, "{listed}");
    }
}

fn refusing() -> Order {
    Order {
        overwrite: Overwrite::Refuse,
        attempts: 2,
        ..Order::default()
    }
}

#[tokio::test]
async fn the_empty_file_of_a_cut_upload_stays_because_it_may_be_of_another_client() {
    let mut server = Server::new(&head(CONTENT.len()), &until_closed(CONTENT));
    server.creates_first = true;
    server.cuts.store(2, Ordering::Relaxed);
    let error = server.copy(&refusing()).await.unwrap_err();
    assert_eq!(error.side(), Side::Destination, "{error}");
    assert_eq!(server.stored().unwrap(), b"");
    assert!(!server.methods.lock().unwrap().contains(&"delete".to_owned()));
}

#[tokio::test]
async fn an_empty_file_after_a_cut_source_stays_and_the_error_names_it() {
    let nothing = format!("HTTP/1.1 200 OK\r\n{}\r\n\r\n", head(CONTENT.len()));
    let mut server = Server::new(&head(CONTENT.len()), nothing.as_bytes());
    server.creates_first = true;
    let error = server.copy(&refusing()).await.unwrap_err();
    assert_eq!(error.side(), Side::Source, "{error}");
    assert!(error.public().contains("may remain at"), "{error}");
    assert_eq!(server.stored().unwrap(), b"");
}

#[tokio::test]
async fn an_existing_file_stays_when_an_upload_is_cut() {
    let server = Server::new(&head(CONTENT.len()), &until_closed(CONTENT));
    server.stored.lock().unwrap().insert(THERE.to_owned(), Vec::new());
    server.cuts.store(9, Ordering::Relaxed);
    let order = Order {
        attempts: 2,
        ..Order::default()
    };
    let error = server.copy(&order).await.unwrap_err();
    assert_eq!(seen(&error), (ErrorCode::PeerClosed, Side::Destination), "{error}");
    assert_eq!(server.stored().unwrap(), b"", "it was not this copy that made it");
}

#[tokio::test]
async fn data_of_unknown_length_is_copied_up_to_the_limit() {
    let server = Server::new("Connection: close", &until_closed(CONTENT));
    assert_eq!(
        server.copy(&Order::default()).await.unwrap().bytes,
        CONTENT.len() as u64
    );
    let limited = Order {
        max_bytes: Some(CONTENT.len() as u64 - 1),
        ..Order::default()
    };
    let server = Server::new("Connection: close", &until_closed(CONTENT));
    assert_eq!(server.copy(&limited).await.unwrap_err().code(), ErrorCode::Forbidden);
    assert_eq!(server.stored(), None);
}

#[tokio::test]
async fn the_expected_checksum_is_compared_even_without_one_of_the_source() {
    for verification in [Verification::Never, Verification::WhenAvailable] {
        let server = Server::new(&head(CONTENT.len()), &until_closed(CONTENT));
        let order = Order {
            expected: Some(Checksum::adler32(7)),
            verification,
            ..Order::default()
        };
        let error = server.copy(&order).await.unwrap_err();
        assert_eq!(seen(&error), (ErrorCode::ChecksumMismatch, Side::Source), "{error}");
        assert_eq!(server.stored(), None, "it was removed");
        assert_eq!(server.methods.lock().unwrap().last().unwrap(), "delete");
    }
}

#[tokio::test]
async fn a_wrong_checksum_of_the_source_does_not_matter_if_none_is_asked_for() {
    let lying = format!("{}\r\nDigest: adler32=12345678", head(CONTENT.len()));
    for (verification, is_compared) in [(Verification::WhenAvailable, true), (Verification::Never, false)] {
        let server = Server::new(&lying, &until_closed(CONTENT));
        let order = Order {
            verification,
            ..Order::default()
        };
        let copied = server.copy(&order).await;
        let heads = server.heads.lock().unwrap().clone();
        assert_eq!(heads.contains("\r\ndigest: adler32=12345678"), is_compared, "{heads}");
        assert_eq!(heads.contains("\r\nwant-digest: "), is_compared, "{heads}");
        match is_compared {
            true => assert_eq!(copied.unwrap_err().code(), ErrorCode::ChecksumMismatch),
            false => assert_eq!(server.stored().unwrap(), CONTENT, "{:?}", copied.unwrap().verified),
        }
    }
}
