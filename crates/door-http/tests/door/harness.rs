//! Doors on loopback over stores in memory or in a temporary directory, and a client that sends
//! exactly the given bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use credentials::{Lifetimes, MacaroonKey};
use door_http::{Door, Limits, MacaroonSettings, Settings};
use endpoint::{Export, Exports, SharedExports};
use net::address::AddressPolicy;
use policy::AnonymousAccess;
use remote::Client;
use storage::Memory;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(crate) use testsite::{Log, SECRET, closed, export, macaroon, soon};

/// A door on a free port.
pub(crate) struct Server {
    pub(crate) door: Door,
    pub(crate) address: SocketAddr,
    pub(crate) log: Arc<Log>,
    pub(crate) exports: SharedExports,
}

/// How long a connection may be silent before its first byte.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Hands every connection to the door.
async fn accept(door: Door, listener: TcpListener) {
    while let Ok((tcp, peer)) = listener.accept().await {
        let door = door.clone();
        tokio::spawn(async move {
            let opening = net::listen::opening(&tcp, SILENCE_MAX).await?;
            door.serve_connection(tcp, opening, peer).await
        });
    }
}

/// A client that trusts every server and connects to every address.
pub(crate) fn client() -> Client {
    testsite::client(AddressPolicy::ANY)
}

/// Memory for all files of these tests.
pub(crate) fn memory() -> Memory {
    Memory::new(1 << 30)
}

impl Server {
    /// Serves these exports, with limits and settings as the caller changes them.
    pub(crate) async fn start(exports: Vec<Export>, change: impl FnOnce(&mut Settings)) -> Self {
        let log = Arc::new(Log::default());
        let exports = SharedExports::new(Exports::new(exports));
        let mut settings = Settings {
            site: testsite::site(exports.clone(), client(), log.clone()),
            hand_over: None,
            delegations: None,
            pass_token_to: Vec::new(),
            macaroons: Some(MacaroonSettings {
                key: MacaroonKey::new(SECRET),
                location: "test".into(),
                lifetimes: Lifetimes::default(),
            }),
            node: None,
            space_report: None,
            limits: Limits::default(),
            authorities: vec!["se.example.org:443".into()],
        };
        change(&mut settings);
        let door = Door::new(settings);
        let listener = net::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(accept(door.clone(), listener));
        Self {
            door,
            address,
            log,
            exports,
        }
    }

    /// Every client may do everything under `/data`, which is in memory.
    pub(crate) async fn open() -> Self {
        Self::start(vec![export("/data", AnonymousAccess::Write, memory())], |_| {}).await
    }

    pub(crate) async fn connect(&self) -> Raw {
        Raw {
            tcp: TcpStream::connect(self.address).await.unwrap(),
            buffer: Vec::new(),
        }
    }

    /// One request on a connection of its own; `head` is the request line and headers, each line
    /// ending in LF.
    pub(crate) async fn ask(&self, head: &str, body: &[u8]) -> Answer {
        self.connect().await.ask(head, body).await
    }

    /// Stores a file.
    pub(crate) async fn put(&self, path: &str, body: &[u8]) {
        let answer = self.ask(&format!("PUT {path}\n"), body).await;
        assert!(matches!(answer.status, 201 | 204), "{answer:?}");
    }

    /// The URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// A connection that sends exactly the given bytes.
pub(crate) struct Raw {
    pub(crate) tcp: TcpStream,
    buffer: Vec<u8>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    pub(crate) fn trailer(&self, name: &str) -> Option<&str> {
        find(&self.trailers, name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The last line, which has the outcome of a copy.
    pub(crate) fn last_line(&self) -> String {
        self.text().lines().last().unwrap_or_default().to_owned()
    }
}

fn find<'a>(list: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let (_, value) = list.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(value)
}

/// The head, completed by the headers that every request needs and the length of its body.
pub(crate) fn head_text(head: &str, length: Option<usize>) -> String {
    let (line, headers) = head.split_once('\n').unwrap();
    let mut text = format!("{line} HTTP/1.1\r\n");
    if !headers.contains("Host: ") {
        text.push_str("Host: test\r\n");
    }
    for header in headers.lines() {
        text.push_str(&format!("{header}\r\n"));
    }
    if let Some(length) = length {
        text.push_str(&format!("Content-Length: {length}\r\n"));
    }
    text.push_str("\r\n");
    text
}

impl Raw {
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        soon(self.tcp.write_all(bytes.as_ref())).await.unwrap();
    }

    pub(crate) async fn ask(&mut self, head: &str, body: &[u8]) -> Answer {
        let length = (!body.is_empty() || head.starts_with("PUT") || head.starts_with("POST")).then_some(body.len());
        self.send(head_text(head, length)).await;
        // The server may refuse and close before it has read everything.
        let _ = soon(self.tcp.write_all(body)).await;
        self.answer(head.starts_with("HEAD")).await
    }

    pub(crate) async fn more(&mut self) -> usize {
        soon(self.tcp.read_buf(&mut self.buffer)).await.unwrap_or(0)
    }

    async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line = String::from_utf8(self.buffer[..end].to_vec()).unwrap();
                self.buffer.drain(..end + 2);
                return line;
            }
            assert_ne!(self.more().await, 0, "closed in a line: {:?}", self.buffer);
        }
    }

    async fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            assert_ne!(self.more().await, 0, "closed in a body");
        }
        self.buffer.drain(..count).collect()
    }

    async fn fields(&mut self) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(": ") else {
                return fields;
            };
            fields.push((name.to_owned(), value.to_owned()));
        }
    }

    /// The head of an answer.
    pub(crate) async fn head(&mut self) -> Answer {
        let line = self.line().await;
        let status = line.split(' ').nth(1).and_then(|text| text.parse().ok());
        Answer {
            status: status.unwrap_or_else(|| panic!("{line}")),
            headers: self.fields().await,
            body: Vec::new(),
            trailers: Vec::new(),
        }
    }

    /// A piece of a chunked body; empty at its end.
    pub(crate) async fn chunk(&mut self) -> Vec<u8> {
        let size = self.line().await;
        let size = usize::from_str_radix(&size, 16).unwrap_or_else(|_| panic!("{size}"));
        if size == 0 {
            return Vec::new();
        }
        let chunk = self.exactly(size).await;
        assert_eq!(self.line().await, "");
        chunk
    }

    /// A whole answer.
    pub(crate) async fn answer(&mut self, to_head: bool) -> Answer {
        let mut answer = self.head().await;
        if to_head || matches!(answer.status, 100 | 204 | 304) {
            return answer;
        }
        if answer.header("Transfer-Encoding") == Some("chunked") {
            loop {
                let chunk = self.chunk().await;
                if chunk.is_empty() {
                    break;
                }
                answer.body.extend(chunk);
            }
            answer.trailers = self.fields().await;
        } else if let Some(length) = answer.header("Content-Length") {
            let length = length.parse().unwrap();
            answer.body = self.exactly(length).await;
        } else {
            while self.more().await > 0 {}
            answer.body = std::mem::take(&mut self.buffer);
        }
        answer
    }

    /// Closes the sending side, and waits until the server has closed too.
    pub(crate) async fn end(&mut self) {
        // The server may have reset the connection already, which is an end too.
        let _ = self.tcp.shutdown().await;
        while self.more().await > 0 {}
    }

    /// Whether the server closes without another word.
    pub(crate) async fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && self.more().await == 0 && self.buffer.is_empty()
    }
}

/// Bytes without repetition.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}
