//! A door on loopback over a store in memory, and a client that sends exactly the bytes it is
//! given.

use std::net::SocketAddr;
use std::sync::Arc;

use door_xroot::{Door, Limits, Settings, ThirdPartySettings};
use endpoint::{Exports, SharedExports};
use net::address::AddressPolicy;
use net::tls::ServerTls;
use policy::AnonymousAccess;
use storage::{Memory, Storage as _};
use testkit::SelfSigned;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use types::{Checksum, LogicalPath};
use xroot_wire::request::{Expect, Login, Open, Protocol, Request, UserName};
use xroot_wire::response::{LoginReply, OpenReply};
use xroot_wire::{
    Argument, ErrorNumber, FileHandle, HELLO, LoginAbilities, OpenExtraOptions, OpenOptions, ProtocolOptions,
    SessionId, StreamId, TlsPolicy,
};

pub(crate) use testsite::{Log, SECRET, client, closed, export, soon};

/// A door on a free port.
pub(crate) struct Server {
    pub(crate) door: Door,
    pub(crate) address: SocketAddr,
    pub(crate) store: Memory,
    pub(crate) log: Arc<Log>,
}

/// A self-signed certificate.
pub(crate) fn certificate() -> ServerTls {
    let made = SelfSigned::localhost().unwrap();
    ServerTls::load(&made.certificate, &made.key).unwrap()
}

impl Server {
    /// Anyone may do everything under `/data`, which lies in memory. The caller can change the
    /// settings.
    pub(crate) fn start(change: impl FnOnce(&mut Settings)) -> Self {
        let store = Memory::new(1 << 30);
        let log = Arc::new(Log::default());
        let exports = Exports::new(vec![export("/data", AnonymousAccess::Write, store.clone())]);
        let mut settings = Settings {
            site: testsite::site(SharedExports::new(exports), client(AddressPolicy::ANY), log.clone()),
            hand_over: None,
            tls_policy: TlsPolicy {
                offered: true,
                ..TlsPolicy::default()
            },
            authentication: Vec::new(),
            limits: Limits::default(),
            third_party: ThirdPartySettings::default(),
            delegations: None,
            host: None,
        };
        change(&mut settings);
        let door = Door::new(settings);
        let listener = net::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(accept(door.clone(), listener));
        Self {
            door,
            address,
            store,
            log,
        }
    }

    pub(crate) fn open() -> Self {
        Self::start(|_| {})
    }

    /// A connection that has sent nothing.
    pub(crate) async fn connect(&self) -> Raw {
        Raw {
            tcp: TcpStream::connect(self.address).await.unwrap(),
            session: SessionId::default(),
        }
    }

    /// A connection that has logged in.
    pub(crate) async fn client(&self) -> Raw {
        self.client_of(7).await
    }

    /// A connection of the process with this number, logged in.
    pub(crate) async fn client_of(&self, process: i32) -> Raw {
        let mut raw = self.connect().await;
        raw.greet(ProtocolOptions::empty(), Expect::Login).await;
        let answer = raw.ask(&login_of(process, true)).await;
        raw.session = LoginReply::parse(&answer.ok()).unwrap().session;
        raw
    }

    /// Puts a file into the store.
    pub(crate) fn put(&self, path: &str, content: &[u8]) {
        self.put_with(path, content, Vec::new());
    }

    /// Puts a file into the store with a checksum that may be wrong.
    pub(crate) fn put_with_checksum(&self, path: &str, content: &[u8], checksum: Checksum) {
        self.put_with(path, content, vec![checksum]);
    }

    fn put_with(&self, path: &str, content: &[u8], checksums: Vec<Checksum>) {
        let path = LogicalPath::parse(path).unwrap();
        let options = storage::UploadOptions {
            create_parents: true,
            ..storage::UploadOptions::default()
        };
        let upload = self.store.create(&path, &options).unwrap();
        upload.write_vectored_at(&[std::io::IoSlice::new(content)], 0).unwrap();
        let facts = storage::CommitFacts {
            size_bytes: content.len() as u64,
            checksums,
            ..storage::CommitFacts::default()
        };
        upload.commit(&facts).unwrap();
    }

    /// The content of a file in the store; `None` when there is none.
    pub(crate) fn content(&self, path: &str) -> Option<Vec<u8>> {
        let reader = self.store.open(&LogicalPath::parse(path).unwrap()).ok()?;
        let mut content = vec![0; reader.stat().size_bytes as usize];
        let mut slices = [std::io::IoSliceMut::new(&mut content)];
        reader
            .read_vectored_at(&mut slices, 0, storage::Patience::Wait)
            .unwrap();
        Some(content)
    }
}

async fn accept(door: Door, listener: TcpListener) {
    while let Ok((tcp, peer)) = listener.accept().await {
        tokio::spawn(door.serve_connection(tcp, peer));
    }
}

/// A login of the usual client.
pub(crate) fn login(takes_late_answers: bool) -> Request<'static> {
    login_of(7, takes_late_answers)
}

fn login_of(process: i32, takes_late_answers: bool) -> Request<'static> {
    Request::Login(Login {
        process,
        user: UserName::new("tester"),
        extra_abilities: 0,
        abilities: LoginAbilities::empty(),
        capabilities: if takes_late_answers { 0x85 } else { 5 },
        cgi: b"xrd.appname=test",
    })
}

/// An open of the usual client.
pub(crate) fn open(path: &str, options: OpenOptions) -> Request<'_> {
    Request::Open(Open {
        // An open of an existing file gives no bits, unless it recovers an upload.
        mode: if options.intersects(OpenOptions::NEW | OpenOptions::TRUNCATE) {
            0o644
        } else {
            0
        },
        options,
        extra_options: OpenExtraOptions::empty(),
        template: FileHandle::default(),
        path: Argument::new(path.as_bytes()),
    })
}

/// A connection that sends what it is given.
pub(crate) struct Raw {
    pub(crate) tcp: TcpStream,
    pub(crate) session: SessionId,
}

/// A response as it arrived.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) stream: StreamId,
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body of a good answer.
    pub(crate) fn ok(self) -> Vec<u8> {
        assert_eq!(self.status, 0, "{}", String::from_utf8_lossy(&self.body));
        self.body
    }

    /// The number of a bad one.
    pub(crate) fn error(&self) -> ErrorNumber {
        assert_eq!(self.status, 4003, "{self:?}");
        assert_eq!(self.body.last(), Some(&0), "the text ends with NUL");
        ErrorNumber(u32::from_be_bytes(self.body[..4].try_into().unwrap()))
    }

    pub(crate) fn text(self) -> String {
        let mut body = self.ok();
        assert_eq!(body.pop(), Some(0));
        String::from_utf8(body).unwrap()
    }
}

impl Raw {
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        soon(self.tcp.write_all(bytes)).await.unwrap();
    }

    pub(crate) async fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        soon(self.tcp.read_exact(&mut bytes)).await.unwrap();
        bytes
    }

    /// Sends hello and `protocol` together, as clients do. Returns the answer to `protocol`.
    pub(crate) async fn greet(&mut self, options: ProtocolOptions, expect: Expect) -> Answer {
        let mut bytes = HELLO.to_vec();
        let protocol = Protocol {
            version: 0x511,
            options,
            expect,
        };
        Request::Protocol(protocol).encode(StreamId::ZERO, &mut bytes);
        self.send(&bytes).await;
        let reply = self.read(16).await;
        assert_eq!(reply, [0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 5, 0x11, 0, 0, 0, 1]);
        self.answer().await
    }

    pub(crate) async fn say(&mut self, stream: u16, request: &Request<'_>) {
        let mut bytes = Vec::new();
        request.encode(StreamId::new(stream), &mut bytes);
        self.send(&bytes).await;
    }

    /// The next response, the data of page reads included.
    pub(crate) async fn answer(&mut self) -> Answer {
        let head = self.read(8).await;
        let length = i32::from_be_bytes(head[4..].try_into().unwrap());
        let mut body = self.read(usize::try_from(length).unwrap()).await;
        let status = u16::from_be_bytes([head[2], head[3]]);
        if status == 4007 {
            let data = u32::from_be_bytes(body[12..16].try_into().unwrap());
            body.extend(self.read(data as usize).await);
        }
        Answer {
            stream: StreamId([head[0], head[1]]),
            status,
            body,
        }
    }

    /// A request and its answer.
    pub(crate) async fn ask(&mut self, request: &Request<'_>) -> Answer {
        self.ask_with(request, &[]).await
    }

    /// A request followed by data, and its answer.
    pub(crate) async fn ask_with(&mut self, request: &Request<'_>, data: &[u8]) -> Answer {
        self.say(0x0102, request).await;
        self.send(data).await;
        let answer = self.answer().await;
        assert_eq!(answer.stream, StreamId::new(0x0102));
        answer
    }

    /// Opens a file that can be opened.
    pub(crate) async fn opened(&mut self, path: &str, options: OpenOptions) -> FileHandle {
        let answer = self.ask(&open(path, options)).await;
        OpenReply::parse(&answer.ok()).unwrap().handle
    }

    /// Whether the server has closed the connection; anything sent before is skipped.
    pub(crate) async fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        soon(self.tcp.read_to_end(&mut rest)).await.is_ok_and(|_| true)
    }
}
