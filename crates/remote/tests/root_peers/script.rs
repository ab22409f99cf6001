//! An XRootD server that says exactly what a test wants, connection by connection, and remembers
//! what it heard.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use net::address::AddressPolicy;
use net::tls::{ClientTls, ServerTls, Trust};
use net::{Frames, Role, Stream, Waits};
use remote::{Access, Client, ClientOptions, Download, Outlet, Resource};
use testkit::SelfSigned;
use tokio::net::TcpListener;
use types::{Location, Result, Secret, Side};
use xroot_wire::limits::{HELLO_BYTES, REQUEST_HEADER_BYTES};
use xroot_wire::pages::encode_units;
use xroot_wire::response::{LoginReply, OpenReply, PageStatus, PageStatusKind, ProtocolReply, StatText};
use xroot_wire::{
    ErrorNumber, FileHandle, HelloReply, Opcode, RequestHeader, ServerFlags, SessionId, StatFlags, StreamId, respond,
};

/// How long a peer waits for the client before the test has failed.
const WAIT: Duration = Duration::from_secs(20);
/// How long a client waits for the next byte of an answer.
const STALL: Duration = Duration::from_secs(10);
/// The handle of every file that a peer opens.
pub(crate) const HANDLE: FileHandle = FileHandle([7, 0, 0, 1]);

/// A data server of today, in clear text.
pub(crate) fn data_server() -> ServerFlags {
    ServerFlags::SERVER | ServerFlags::PAGES | ServerFlags::PERSIST_ON_CLOSE
}

/// A request as it was heard.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) header: RequestHeader,
    pub(crate) payload: Vec<u8>,
}

impl Heard {
    pub(crate) fn id(&self) -> StreamId {
        self.header.stream
    }

    pub(crate) fn opcode(&self) -> Opcode {
        self.header.known_opcode().unwrap()
    }

    /// The payload as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.payload).into_owned()
    }

    /// Whether pages are read again.
    pub(crate) fn is_retry(&self) -> bool {
        self.payload.get(1).is_some_and(|flags| flags & 1 == 1)
    }

    /// Offset and length of a read.
    pub(crate) fn range(&self) -> (u64, usize) {
        let block = &self.header.block;
        let offset = u64::from_be_bytes(block[4..12].try_into().unwrap());
        (offset, u32::from_be_bytes(block[12..].try_into().unwrap()) as usize)
    }
}

/// One connection, seen from the peer.
pub(crate) struct Peer {
    frames: Option<Frames>,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Peer {
    fn frames(&mut self) -> &mut Frames {
        self.frames.as_mut().unwrap()
    }

    /// The port that the client came to.
    pub(crate) fn port(&mut self) -> u16 {
        self.frames().stream.local_address().unwrap().port()
    }

    /// Sends these bytes.
    pub(crate) async fn say(&mut self, bytes: &[u8]) {
        let stream = &mut self.frames().stream;
        stream.queue(bytes);
        // The client may have left already, which its own error tells.
        let _ = stream.flush().await;
    }

    /// Sends what is appended.
    pub(crate) async fn put(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        append(&mut bytes);
        self.say(&bytes).await;
    }

    /// The next request; `None` when the client has closed the connection.
    pub(crate) async fn request(&mut self) -> Option<Heard> {
        let head = self.frames().head::<REQUEST_HEADER_BYTES>(WAIT).await.ok()??;
        let header = RequestHeader::parse(&head);
        let length = usize::try_from(header.length).unwrap();
        let payload = self.frames().small(length, 1 << 24).await.ok()?;
        let heard = Heard { header, payload };
        self.heard.lock().unwrap().push(heard.clone());
        Some(heard)
    }

    /// The next request, which must be this one.
    pub(crate) async fn expect(&mut self, opcode: Opcode) -> Heard {
        let heard = self.request().await.expect("the client left");
        assert_eq!(heard.opcode(), opcode);
        heard
    }

    /// Hello, `protocol` and login of a server with these flags.
    pub(crate) async fn welcome(&mut self, flags: ServerFlags) {
        self.greet(flags).await;
        self.log_in(&[]).await;
    }

    /// Hello and `protocol`.
    pub(crate) async fn greet(&mut self, flags: ServerFlags) {
        let hello = self.frames().head::<HELLO_BYTES>(WAIT).await.unwrap().unwrap();
        assert_eq!(hello, xroot_wire::HELLO);
        self.expect(Opcode::Protocol).await;
        let role = if flags.contains(ServerFlags::MANAGER) {
            xroot_wire::Role::Redirector
        } else {
            xroot_wire::Role::DataServer
        };
        self.say(&HelloReply { version: 0x511, role }.encode()).await;
        let reply = ProtocolReply {
            version: 0x511,
            flags,
            bind_interfaces: None,
            signing: None,
        };
        self.ok(StreamId::ZERO, &reply.encode()).await;
    }

    /// Becomes a TLS server, as is due behind a greeting that says so.
    pub(crate) async fn secure(&mut self, tls: &ServerTls) {
        let frames = self.frames.take().unwrap();
        self.frames = frames.upgrade_server(tls).await.ok();
    }

    /// Whether the TLS handshake succeeded.
    pub(crate) fn is_secure(&self) -> bool {
        self.frames.as_ref().is_some_and(|frames| frames.stream.is_encrypted())
    }

    /// Login, with these authentication protocols on offer.
    pub(crate) async fn log_in(&mut self, offered: &[&str]) {
        self.log_in_to(SessionId([5; 16]), offered).await;
    }

    /// The same, to a session of this name.
    pub(crate) async fn log_in_to(&mut self, session: SessionId, offered: &[&str]) {
        self.expect(Opcode::Login).await;
        let reply = LoginReply {
            session,
            protocols: offered
                .iter()
                .map(|name| xroot_wire::response::SecurityEntry::plain(name))
                .collect(),
        };
        self.ok(StreamId::ZERO, &reply.encode()).await;
    }

    pub(crate) async fn ok(&mut self, id: StreamId, body: &[u8]) {
        self.put(|out| respond::ok(out, id, body)).await;
    }

    pub(crate) async fn refuse(&mut self, id: StreamId, number: ErrorNumber, words: &str) {
        self.put(|out| respond::error(out, id, number, words)).await;
    }

    /// The head of any answer with any length.
    pub(crate) async fn head(&mut self, id: StreamId, status: u16, length: i32) {
        let mut bytes = id.0.to_vec();
        bytes.extend(status.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        self.say(&bytes).await;
    }

    /// Answers a stat, or an open for reading, of a file of this size.
    pub(crate) async fn tell_size(&mut self, heard: &Heard, size_bytes: u64) {
        self.tell_stat(heard, 4711, size_bytes).await;
    }

    /// The same for a file with this id.
    pub(crate) async fn tell_stat(&mut self, heard: &Heard, id: u64, size_bytes: u64) {
        let stat = StatText { id, ..stat(size_bytes) };
        if heard.opcode() == Opcode::Open {
            let reply = OpenReply {
                handle: HANDLE,
                stat: Some(stat),
            };
            self.ok(heard.id(), &reply.encode()).await;
        } else {
            let mut text = Vec::new();
            stat.write(&mut text);
            text.push(0);
            self.ok(heard.id(), &text).await;
        }
    }

    /// Pages of `data` that belong at `offset`.
    pub(crate) async fn pages(&mut self, id: StreamId, kind: PageStatusKind, offset: u64, data: &[u8]) {
        let units = units(offset, data);
        self.raw_pages(id, kind, offset, &units).await;
    }

    /// Units as they are.
    pub(crate) async fn raw_pages(&mut self, id: StreamId, kind: PageStatusKind, offset: u64, units: &[u8]) {
        let mut bytes = PageStatus::page_read(id, kind, offset, units.len()).encode().to_vec();
        bytes.extend_from_slice(units);
        self.say(&bytes).await;
    }

    /// Answers everything of a client that reads `content`, until it leaves.
    pub(crate) async fn serve(&mut self, content: &[u8]) {
        while let Some(heard) = self.request().await {
            match heard.opcode() {
                Opcode::Open | Opcode::Stat => self.tell_size(&heard, content.len() as u64).await,
                Opcode::PageRead => {
                    let (offset, length) = heard.range();
                    let part = &content[offset as usize..][..length];
                    self.pages(heard.id(), PageStatusKind::Final, offset, part).await;
                }
                Opcode::Read => {
                    let (offset, length) = heard.range();
                    self.ok(heard.id(), &content[offset as usize..][..length]).await;
                }
                _ => self.ok(heard.id(), &[]).await,
            }
        }
    }
}

/// A file of this size.
pub(crate) fn stat(size_bytes: u64) -> StatText {
    StatText {
        id: 4711,
        size_bytes,
        flags: StatFlags::READABLE,
        modified_s: 1_700_000_000,
        extension: None,
    }
}

/// `data` as pages with checksums.
pub(crate) fn units(offset: u64, data: &[u8]) -> Vec<u8> {
    let mut units = Vec::new();
    encode_units(offset, data, &mut units);
    units
}

/// The scripted server.
pub(crate) struct Server {
    pub(crate) port: u16,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Server {
    /// Runs `script` for every connection, with its number from 0.
    pub(crate) async fn start<F, Fut>(script: F) -> Self
    where
        F: Fn(usize, Peer) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&heard);
        tokio::spawn(async move {
            for number in 0.. {
                let (tcp, _) = listener.accept().await.unwrap();
                let stream = Stream::clear(tcp, Role::Client, Waits::default());
                let peer = Peer {
                    frames: Some(Frames::new(stream)),
                    heard: Arc::clone(&log),
                };
                tokio::spawn(script(number, peer));
            }
        });
        Self { port, heard }
    }

    /// A data server that welcomes every client and then runs `script`.
    pub(crate) async fn welcoming<F, Fut>(script: F) -> Self
    where
        F: Fn(usize, Peer) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Self::start(move |number, mut peer| {
            let script = script.clone();
            async move {
                peer.welcome(data_server()).await;
                script(number, peer).await;
            }
        })
        .await
    }

    /// All requests so far.
    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// The requests so far of one kind.
    pub(crate) fn heard_of(&self, opcode: Opcode) -> Vec<Heard> {
        let mut heard = self.heard();
        heard.retain(|heard| heard.opcode() == opcode);
        heard
    }

    /// A file there, as the source of a transfer, with a token.
    pub(crate) fn file(&self, path: &str) -> Resource {
        resource(&format!("root://localhost:{}/{path}", self.port))
    }

    /// The same by TLS.
    pub(crate) fn secure_file(&self, path: &str) -> Resource {
        resource(&format!("roots://localhost:{}/{path}", self.port))
    }
}

pub(crate) fn resource(url: &str) -> Resource {
    Resource {
        location: Location::parse(url).unwrap(),
        access: Access {
            bearer: Some(Secret::new("ours")),
            user_name: Some("tester".into()),
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
    let trust = Trust {
        insecure: true,
        ..Trust::default()
    };
    client_with(ClientTls::load(&trust).unwrap().0, addresses, STALL)
}

/// A client that trusts these authorities.
pub(crate) fn client_trusting(tls: ClientTls) -> Client {
    client_with(tls, AddressPolicy::ANY, STALL)
}

/// A client that gives up an answer that stands still for this long.
pub(crate) fn client_with_stall(stall: Duration) -> Client {
    let tls = ClientTls::load(&Trust::default()).unwrap().0;
    client_with(tls, AddressPolicy::ANY, stall)
}

/// A client that waits this long for the first byte of an answer.
pub(crate) fn client_with_first_byte(first_byte: Duration) -> Client {
    let tls = ClientTls::load(&Trust::default()).unwrap().0;
    Client::new(ClientOptions {
        first_byte,
        ..options(tls, AddressPolicy::ANY, STALL)
    })
}

fn client_with(tls: ClientTls, addresses: AddressPolicy, stall: Duration) -> Client {
    Client::new(options(tls, addresses, stall))
}

fn options(tls: ClientTls, addresses: AddressPolicy, stall: Duration) -> ClientOptions {
    ClientOptions {
        tls,
        addresses,
        connect: Duration::from_secs(10),
        first_byte: Duration::from_secs(10),
        stall,
        user_agent: "crossload-test/1".into(),
    }
}

/// A server's certificate for `localhost`.
pub(crate) fn server_tls() -> ServerTls {
    let made = SelfSigned::localhost().unwrap();
    ServerTls::load(&made.certificate, &made.key).unwrap()
}

pub(crate) async fn read_all(download: &mut Download) -> Result<Vec<u8>> {
    let mut whole = Vec::new();
    while let Some(batch) = download.next().await? {
        whole.extend(batch.slices().flatten());
    }
    Ok(whole)
}

/// Sends all of `bytes`, as many rooms as it takes.
pub(crate) async fn send(outlet: &mut Outlet, bytes: &[u8]) -> Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let mut room = outlet.outgoing().await?;
        let filled = room.capacity().min(rest.len());
        for mut slot in room.slots(filled) {
            let (front, behind) = rest.split_at(slot.len());
            slot.copy_from_slice(front);
            rest = behind;
        }
        outlet.send(room, filled).await?;
    }
    Ok(())
}

/// Bytes that differ from place to place.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 11) as u8)
        .collect()
}
