//! A door over TLS with a queue behind it, and clients with certificates.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use credentials::SealingKey;
use door_queue::Settings;
use door_queue::fts::answers::Shown;
use door_queue::rights::{Level, Levels, Rights};
use endpoint::{RequestLog, RequestRecord};
use http_server::Server;
use http_server::control::ControlDoor;
use http_wire::{HeadLimits, Method, ResponseHead};
use identity::{Authenticator, CertificateFiles, Certificates, Sources};
use net::http::{Connection, Incoming};
use net::listen::Acceptor;
use net::tls::{ClientCertificates, ClientIdentity, ClientTls, ServerTls, Trust};
use net::{Stream, Waits};
use queue::webhooks::Webhooks;
use queue::{Proxies, S3Keys, Vault};
use serde_json::Value;
use testkit::{Authority, CertificateOptions, Scratch};
use tokio::net::TcpStream;
use types::{Error, Side};

use crate::queue::TestQueue;

/// No wait in these tests may take longer: then something hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const JANE: &str = "/O=Crossload test/CN=Jane Doe";
const JOHN: &str = "/O=Crossload test/CN=John Roe";
const VO_OPERATOR: &str = "/O=Crossload test/CN=Operator of one organisation";
const OPERATOR: &str = "/O=Crossload test/CN=Operator";
/// Where a door finds the VOMS servers that it believes.
pub(crate) const VOMS_DIRECTORY: &str = "vomsdir";

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it hangs")
}

struct NoLog;

impl RequestLog for NoLog {
    fn request(&self, _: &RequestRecord) {}
    fn connection_failed(&self, _: SocketAddr, _: &Error) {}
    fn connection_refused(&self, _: SocketAddr, _: &Error) {}
}

/// A client.
#[derive(Clone)]
pub(crate) struct User(ClientTls);

/// The door and its clients.
pub(crate) struct Place {
    pub(crate) queue: Arc<TestQueue>,
    pub(crate) jane: User,
    pub(crate) john: User,
    pub(crate) operator: User,
    pub(crate) vo_operator: User,
    pub(crate) without_credential: User,
    address: SocketAddr,
    authority: Authority,
    _door: ControlDoor,
    scratch: Scratch,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let scratch = Scratch::new("api").unwrap();
        let authority = Authority::new(scratch.path()).unwrap();
        Self::start(scratch, authority, |_, _| {}).await
    }

    /// A door with other settings than most tests need. `change` gets a store of delegated proxies
    /// beside them.
    pub(crate) async fn start(
        scratch: Scratch,
        authority: Authority,
        change: impl FnOnce(&mut Settings, Proxies),
    ) -> Self {
        let host = authority.issue_localhost().unwrap();
        let files = CertificateFiles {
            trust_directory: Some(authority.trust_directory()),
            voms_directory: Some(scratch.join(VOMS_DIRECTORY)),
            ..CertificateFiles::default()
        };
        let authenticator = Authenticator::new(Sources {
            certificates: Certificates::new(Some(files.read(None).0)),
            ..Sources::default()
        });
        let asks = ClientCertificates::Optional;
        let server = Server {
            tls: Some(ServerTls::asking(&host.certificate, &host.key, asks).unwrap()),
            authenticator: authenticator.clone(),
            ..Server::new("crossload/test", Arc::new(NoLog))
        };
        let queue = Arc::new(TestQueue::new().await);
        let mut settings = settings(queue.clone());
        let vault = Vault::new(SealingKey::new(b"key"));
        change(&mut settings, Proxies::new(queue.catalog.clone(), vault, authenticator));
        let door = door_queue::door(server, settings);
        let listener = net::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = Acceptor::new(listener.into_std().unwrap()).unwrap();
        let own = door.clone();
        tokio::spawn(async move { own.accept(acceptor).await });
        let trust = Trust {
            files: vec![authority.ca_file()],
            ..Trust::default()
        };
        let (tls, _) = ClientTls::load(&trust).unwrap();
        let user = |dn: &str, name: &str| {
            let issued = authority.issue_user(dn).unwrap();
            let (chain, key) = issued.write_pair(scratch.path(), name).unwrap();
            User(tls.showing(Some(&ClientIdentity::load(&chain, &key).unwrap())))
        };
        Self {
            queue,
            jane: user(JANE, "jane"),
            john: user(JOHN, "john"),
            operator: user(OPERATOR, "operator"),
            vo_operator: user(VO_OPERATOR, "vo_operator"),
            without_credential: User(tls.clone()),
            address,
            authority,
            _door: door,
            scratch,
        }
    }

    /// Jane with a certificate that ends so soon.
    pub(crate) fn jane_for(&self, seconds: i64) -> User {
        let options = CertificateOptions {
            ends_s: seconds,
            ..CertificateOptions::default()
        };
        self.user(&self.authority.issue(JANE, &options).unwrap(), "short")
    }

    /// A client with this certificate.
    pub(crate) fn user(&self, issued: &testkit::User, name: &str) -> User {
        let (chain, key) = issued.write_pair(self.scratch.path(), name).unwrap();
        let identity = ClientIdentity::load(&chain, &key).unwrap();
        User(self.without_credential.0.showing(Some(&identity)))
    }

    /// A connection of this client.
    pub(crate) async fn connect(&self, user: &User) -> Connection {
        let tcp = TcpStream::connect(self.address).await.unwrap();
        let stream = Stream::connect_tls(tcp, &user.0, "localhost", Side::Source, Waits::default());
        Connection::new(soon(stream).await.unwrap())
    }

    /// Sends a request whose headers are lines that end in LF.
    pub(crate) async fn send(&self, user: &User, line: &str, headers: &str, body: &str) -> Visit {
        self.send_by(self.connect(user).await, line, headers, body).await
    }

    /// The same over a connection that is open.
    pub(crate) async fn send_by(&self, mut connection: Connection, line: &str, headers: &str, body: &str) -> Visit {
        let length = match body.is_empty() {
            true => String::new(),
            false => format!("Content-Length: {}\r\n", body.len()),
        };
        let headers = headers.replace('\n', "\r\n");
        let text = format!("{line} HTTP/1.1\r\nHost: test\r\n{headers}{length}\r\n{body}");
        connection.stream.queue(text.as_bytes());
        soon(connection.stream.flush()).await.unwrap();
        let head = connection.response(&HeadLimits::default(), PATIENCE).await.unwrap();
        let method = Method::from_name(line.split(' ').next().unwrap());
        let framing = head.framing(&method).unwrap();
        Visit {
            incoming: connection.incoming(framing),
            connection,
            head,
        }
    }

    /// Sends a request without headers of its own; the answer with its document.
    pub(crate) async fn ask(&self, user: &User, line: &str, body: &str) -> Answer {
        self.send(user, line, "", body).await.answer().await
    }
}

fn settings(queue: Arc<TestQueue>) -> Settings {
    let (catalog, vault) = (queue.catalog.clone(), Vault::new(SealingKey::new(b"key")));
    let all = Levels {
        transfer: Level::All,
        config: Level::All,
    };
    let of_vo = Levels {
        transfer: Level::Vo,
        config: Level::Vo,
    };
    Settings {
        queue,
        shown: Shown::default(),
        rights: Rights {
            users: BTreeMap::from([(OPERATOR.to_owned(), all), (VO_OPERATOR.to_owned(), of_vo)]),
            default_vo: Some("testers".to_owned()),
            ..Rights::default()
        },
        proxies: None,
        s3_keys: S3Keys::new(catalog.clone(), vault.clone()),
        webhooks: Webhooks::new(catalog, vault),
    }
}

/// A request whose answer has begun.
pub(crate) struct Visit {
    pub(crate) head: ResponseHead,
    connection: Connection,
    incoming: Incoming,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) challenge: Option<String>,
    pub(crate) text: String,
    /// `null` for what is no JSON.
    pub(crate) json: Value,
}

impl Visit {
    /// The next piece of the body; `None` at its end.
    pub(crate) async fn piece(&mut self) -> Option<String> {
        let batch = soon(self.incoming.next(&mut self.connection)).await.unwrap()?;
        let mut piece = Vec::new();
        batch.append_to(&mut piece);
        Some(String::from_utf8(piece).unwrap())
    }

    pub(crate) async fn answer(self) -> Answer {
        self.whole().await.0
    }

    /// The answer, and its connection for the next request.
    pub(crate) async fn whole(mut self) -> (Answer, Connection) {
        let mut text = String::new();
        while let Some(piece) = self.piece().await {
            text.push_str(&piece);
        }
        let header = |name: &str| self.head.headers.get(name).map(str::to_owned);
        let answer = Answer {
            status: self.head.status,
            content_type: header("Content-Type").unwrap_or_default(),
            challenge: header("WWW-Authenticate"),
            json: serde_json::from_str(&text).unwrap_or_default(),
            text,
        };
        (answer, self.connection)
    }
}

impl Answer {
    /// The code of an error.
    pub(crate) fn code(&self) -> &str {
        self.json["error"]["code"].as_str().unwrap_or_default()
    }
}
