//! A peer that says exactly what a test wants, connection by connection, and remembers what it
//! heard.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use net::address::AddressPolicy;
use net::tls::{ClientTls, Trust};
use remote::{Access, Client, ClientOptions, Download, Outlet, Resource};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use types::{Location, Result, Secret, Side};

/// One connection, seen from the peer.
pub(crate) struct Peer {
    stream: TcpStream,
    buffer: Vec<u8>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    /// The next request head; empty when the client has closed the connection.
    pub(crate) async fn head(&mut self) -> String {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
                let head = String::from_utf8(head).unwrap();
                self.heard.lock().unwrap().push(head.clone());
                return head;
            }
            if self.more().await == 0 {
                return String::new();
            }
        }
    }

    /// Whether the last request had this method.
    pub(crate) fn last_was(&self, method: &str) -> bool {
        self.heard
            .lock()
            .unwrap()
            .last()
            .is_some_and(|head| head.starts_with(method))
    }

    /// The next `count` bytes.
    pub(crate) async fn body(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            assert_ne!(self.more().await, 0, "the client left in the middle of a body");
        }
        self.buffer.drain(..count).collect()
    }

    /// Everything up to and including `end`.
    pub(crate) async fn until(&mut self, end: &str) -> String {
        loop {
            let found = self.buffer.windows(end.len()).position(|part| part == end.as_bytes());
            if let Some(at) = found {
                let bytes: Vec<u8> = self.buffer.drain(..at + end.len()).collect();
                return String::from_utf8(bytes).unwrap();
            }
            assert_ne!(self.more().await, 0, "the client left before {end:?}");
        }
    }

    pub(crate) async fn say(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// As [`Self::say`]; whether the client is still there.
    pub(crate) async fn try_say(&mut self, text: &str) -> bool {
        self.stream.write_all(text.as_bytes()).await.is_ok()
    }

    /// An answer with a length.
    pub(crate) async fn answer(&mut self, status: &str, headers: &str, body: &str) {
        let length = body.len();
        self.say(&format!(
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        ))
        .await;
    }

    /// Reads until the client closes.
    pub(crate) async fn wait_for_end(&mut self) {
        while self.more().await > 0 {
            self.buffer.clear();
        }
    }

    /// Ends the peer's direction and leaves the other one open.
    pub(crate) async fn say_no_more(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    async fn more(&mut self) -> usize {
        self.stream.read_buf(&mut self.buffer).await.unwrap_or(0)
    }
}

/// The scripted peer.
pub(crate) struct Server {
    pub(crate) url: String,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Runs `script` for every connection, with its number from 0.
    pub(crate) async fn start<F, Fut>(script: F) -> Self
    where
        F: Fn(usize, Peer) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&heard);
        tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let peer = Peer {
                    stream,
                    buffer: Vec::new(),
                    heard: Arc::clone(&log),
                };
                tokio::spawn(script(number, peer));
            }
        });
        Self { url, heard }
    }

    /// Answers every request of every connection with the same text.
    pub(crate) async fn always(text: impl Into<String>) -> Self {
        let text: Arc<str> = text.into().into();
        Self::start(move |_, mut peer| {
            let text = Arc::clone(&text);
            async move {
                while !peer.head().await.is_empty() {
                    peer.say(&text).await;
                }
            }
        })
        .await
    }

    /// All request heads so far.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// A file there, as the source of a transfer, with a token.
    pub(crate) fn file(&self, path: &str) -> Resource {
        resource(&format!("{}{path}", self.url))
    }
}

pub(crate) fn resource(url: &str) -> Resource {
    Resource {
        location: Location::parse(url).unwrap(),
        access: Access {
            bearer: Some(Secret::new("ours")),
            ..Access::default()
        },
        side: Side::Source,
    }
}

pub(crate) fn client() -> Client {
    client_within(AddressPolicy::ANY)
}

/// A client that may connect to these addresses.
pub(crate) fn client_within(addresses: AddressPolicy) -> Client {
    client_with(addresses, Duration::from_secs(60))
}

/// The same, which waits so long for the head of an answer.
pub(crate) fn client_with(addresses: AddressPolicy, first_byte: Duration) -> Client {
    let trust = Trust {
        insecure: true,
        ..Trust::default()
    };
    Client::new(ClientOptions {
        tls: ClientTls::load(&trust).unwrap().0,
        addresses,
        connect: Duration::from_secs(10),
        first_byte,
        stall: Duration::from_secs(10),
        user_agent: "crossload-test/1".into(),
    })
}

pub(crate) async fn read_all(download: &mut Download) -> Result<Vec<u8>> {
    let mut whole = Vec::new();
    while let Some(batch) = download.next().await? {
        whole.extend(batch.slices().flatten());
    }
    Ok(whole)
}

/// Sends all of `bytes` as one piece of payload.
pub(crate) async fn send(outlet: &mut Outlet, bytes: &[u8]) -> Result<()> {
    let mut room = outlet.outgoing().await?;
    let mut rest = bytes;
    for mut slot in room.slots(bytes.len()) {
        let step = slot.len().min(rest.len());
        slot[..step].copy_from_slice(&rest[..step]);
        rest = &rest[step..];
    }
    assert!(rest.is_empty(), "more than fits");
    outlet.send(room, bytes.len()).await
}
