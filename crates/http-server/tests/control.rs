//! Control doors on loopback: who is on the other side, what is refused, and how they close.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::routing::{get, post};
use credentials::{Credential, Macaroon, MacaroonKey};
use endpoint::limits::BODY_PIECE_BYTES;
use endpoint::{FairShare, RequestLog, RequestRecord, ShareKind, ShareLimits};
use http_server::Server;
use http_server::control::{Client, ControlDoor, Refusal, shares};
use http_wire::{HeadLimits, Method};
use identity::{Authenticator, CertificateFiles, Certificates, ClearText, Sources};
use net::http::Connection;
use net::listen::Acceptor;
use net::tls::{ClientCertificates, ClientIdentity, ClientTls, ServerTls, Trust};
use net::{Role, Stream, Waits};
use testkit::{Authority, Scratch};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Notify, mpsc, oneshot};
use types::limits::CLIENT_SHARE_MIN;
use types::{Error, ErrorCode, Phase, Side};

/// No wait in these tests may take longer: then something hangs.
const PATIENCE: Duration = Duration::from_secs(30);
const BODY_BYTES_MAX: usize = 100_000;
const SECRET: &[u8] = b"a secret of the tests";
const JANE: &str = "/O=Crossload test/CN=Jane Doe";

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it hangs")
}

/// Remembers all records.
#[derive(Default)]
struct Log {
    records: Mutex<Vec<RequestRecord>>,
    connections: Mutex<Vec<String>>,
    news: Notify,
}

impl RequestLog for Log {
    fn request(&self, record: &RequestRecord) {
        self.records.lock().unwrap().push(record.clone());
        self.news.notify_one();
    }

    fn connection_failed(&self, _: SocketAddr, error: &Error) {
        let line = format!("failed: {}", error.code().name());
        self.connections.lock().unwrap().push(line);
    }

    fn connection_refused(&self, _: SocketAddr, error: &Error) {
        let line = format!("refused: {}", error.code().name());
        self.connections.lock().unwrap().push(line);
    }
}

impl Log {
    fn connections(&self) -> Vec<String> {
        self.connections.lock().unwrap().clone()
    }

    async fn next(&self) -> RequestRecord {
        soon(async {
            loop {
                let first = {
                    let mut records = self.records.lock().unwrap();
                    (!records.is_empty()).then(|| records.remove(0))
                };
                match first {
                    Some(record) => return record,
                    None => self.news.notified().await,
                }
            }
        })
        .await
    }
}

struct Door {
    door: ControlDoor,
    address: SocketAddr,
    log: Arc<Log>,
}

impl Door {
    fn open(router: Router, change: impl FnOnce(&mut Server)) -> Self {
        Self::open_for(router, BODY_BYTES_MAX, change)
    }

    fn open_for(router: Router, body_bytes_max: usize, change: impl FnOnce(&mut Server)) -> Self {
        let log = Arc::new(Log::default());
        let mut server = Server::new("crossload/test", log.clone());
        change(&mut server);
        let door = ControlDoor::new(server, router, body_bytes_max);
        let listener = net::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = Acceptor::new(listener.into_std().unwrap()).unwrap();
        let own = door.clone();
        tokio::spawn(async move { own.accept(acceptor).await });
        Self { door, address, log }
    }

    async fn connect(&self) -> Caller {
        self.connect_from([127, 0, 0, 1]).await
    }

    /// A client at another address of this machine.
    async fn connect_from(&self, address: [u8; 4]) -> Caller {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((address, 0).into()).unwrap();
        let tcp = socket.connect(self.address).await.unwrap();
        Caller::new(Stream::clear(tcp, Role::Peer(Side::Source), Waits::default()))
    }

    async fn ask(&self, head: &str, body: &str) -> Answer {
        self.connect().await.ask(head, body).await
    }
}

/// A client's connection.
struct Caller(Connection);

#[derive(Debug)]
struct Answer {
    status: u16,
    headers: String,
    text: String,
}

impl Caller {
    fn new(stream: Stream) -> Self {
        Self(Connection::new(stream))
    }

    async fn send(&mut self, text: &str) {
        self.0.stream.queue(text.as_bytes());
        soon(self.0.stream.flush()).await.unwrap();
    }

    /// `head` is the request line and headers, each line ending in LF.
    async fn ask(&mut self, head: &str, body: &str) -> Answer {
        let (line, headers) = head.split_once('\n').unwrap();
        let mut text = format!("{line} HTTP/1.1\r\nHost: test\r\n{}", headers.replace('\n', "\r\n"));
        if !body.is_empty() {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        // The server may refuse and close before it has read everything.
        self.0.stream.queue(format!("{text}\r\n{body}").as_bytes());
        let _ = soon(self.0.stream.flush()).await;
        let method = Method::from_name(line.split(' ').next().unwrap());
        self.answer(&method).await
    }

    async fn head(&mut self) -> http_wire::ResponseHead {
        self.0.response(&HeadLimits::default(), PATIENCE).await.unwrap()
    }

    async fn answer(&mut self, method: &Method) -> Answer {
        let head = self.head().await;
        let framing = head.framing(method).unwrap();
        let body = soon(self.0.body(framing).collect(1 << 20)).await.unwrap();
        Answer {
            status: head.status,
            headers: head
                .headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}\n"))
                .collect(),
            text: String::from_utf8(body).unwrap(),
        }
    }

    async fn is_closed(&mut self) -> bool {
        let next = self.0.response(&HeadLimits::default(), PATIENCE).await;
        next.is_err_and(|error| error.code() == ErrorCode::PeerClosed)
    }
}

/// Says who asks, and refuses who does not say so.
async fn who(client: Client) -> Result<String, Refusal> {
    let credential = client.identified()?;
    let name = match &**credential {
        Credential::Certificate(_) => credential.principal().and_then(|person| person.dn.clone()),
        other => Some(format!("{:?}", other.kind())),
    };
    Ok(format!("{} {}", name.unwrap_or_default(), client.is_encrypted))
}

fn pages() -> Router {
    Router::new()
        .route("/who", get(who))
        .route("/echo", post(|body: String| async { body }))
        .route("/typed/{id}", get(typed))
}

async fn typed(path: axum::extract::Path<String>) -> ([(header::HeaderName, &'static str); 3], String) {
    let headers = [
        (header::CONTENT_TYPE, "text/x-test"),
        (header::CONTENT_LENGTH, "77"),
        (header::CONNECTION, "upgrade"),
    ];
    (headers, format!("page {}", path.0))
}

fn macaroon() -> String {
    let minted = Macaroon::mint(&MacaroonKey::new(SECRET), "test", "id", ["activity:LIST"]).unwrap();
    minted.to_text().expose().to_owned()
}

/// A door over TLS that trusts this authority, and what clients need to trust it.
fn over_tls(authority: &Authority) -> (Door, ClientTls) {
    let host = authority.issue_localhost().unwrap();
    let files = CertificateFiles {
        trust_directory: Some(authority.trust_directory()),
        ..CertificateFiles::default()
    };
    let door = Door::open(pages(), |server| {
        let asks = ClientCertificates::Optional;
        server.tls = Some(ServerTls::asking(&host.certificate, &host.key, asks).unwrap());
        server.authenticator = Authenticator::new(Sources {
            macaroon_keys: vec![MacaroonKey::new(SECRET)],
            certificates: Certificates::new(Some(files.read(None).0)),
            ..Sources::default()
        });
    });
    let trust = Trust {
        files: vec![authority.ca_file()],
        ..Trust::default()
    };
    let (tls, _) = ClientTls::load(&trust).unwrap();
    (door, tls)
}

#[tokio::test]
async fn a_handler_sees_certificate_and_token_and_the_log_who_it_was() {
    let scratch = Scratch::new("control").unwrap();
    let authority = Authority::new(scratch.path()).unwrap();
    let (chain, key) = authority
        .issue_user(JANE)
        .unwrap()
        .write_pair(scratch.path(), "jane")
        .unwrap();
    let (door, tls) = over_tls(&authority);
    let identity = ClientIdentity::load(&chain, &key).unwrap();
    let visit = async |tls: &ClientTls, token: &str| {
        let tcp = TcpStream::connect(door.address).await.unwrap();
        let stream = Stream::connect_tls(tcp, tls, "localhost", Side::Source, Waits::default()).await;
        let mut caller = Caller::new(stream.unwrap());
        let answer = caller.ask(&format!("GET /who\n{token}"), "").await;
        (answer, door.log.next().await)
    };
    let (answer, record) = visit(&tls.showing(Some(&identity)), "").await;
    assert_eq!((answer.status, answer.text), (200, format!("{JANE} true")));
    assert_eq!((record.credential, record.security), ("certificate", "TLSv1.3"));
    assert!(record.subject.is_some_and(|subject| subject.contains("Jane Doe")));
    let token = format!("Authorization: Bearer {}\n", macaroon());
    let (answer, record) = visit(&tls.showing(Some(&identity)), &token).await;
    assert_eq!((answer.status, &*answer.text), (200, "Macaroon true"));
    assert_eq!(
        (record.credential, record.status, record.bytes_out),
        ("macaroon", Some(200), 13)
    );
    let (answer, record) = visit(&tls, "").await;
    assert_eq!(answer.status, 401);
    assert!(
        answer.headers.contains("WWW-Authenticate: Bearer"),
        "{}",
        answer.headers
    );
    assert!(answer.text.contains("[unauthenticated]"), "{}", answer.text);
    assert!(answer.text.contains(&record.request_id), "{}", answer.text);
    assert_eq!(record.error.unwrap().code, "unauthenticated");
    let (answer, _) = visit(&tls, "Authorization: Bearer nonsense\n").await;
    assert!(
        answer.status == 401 && answer.headers.contains("invalid_token"),
        "{answer:?}"
    );
}

/// A client whose certificate comes from an authority that the server does not know.
#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused_where_a_handler_asks_for_it() {
    let scratch = Scratch::new("control-stranger").unwrap();
    let authority = Authority::new(&scratch.join("known")).unwrap();
    let stranger = Authority::new(&scratch.join("stranger")).unwrap();
    let issued = stranger.issue_user(JANE).unwrap();
    let (chain, key) = issued.write_pair(scratch.path(), "jane").unwrap();
    let (door, tls) = over_tls(&authority);
    let tls = tls.showing(Some(&ClientIdentity::load(&chain, &key).unwrap()));
    let tcp = TcpStream::connect(door.address).await.unwrap();
    let stream = Stream::connect_tls(tcp, &tls, "localhost", Side::Source, Waits::default()).await;
    let mut caller = Caller::new(stream.unwrap());
    let answer = caller.ask("GET /who\n", "").await;
    let code = door.log.next().await.error.unwrap().code;
    assert!(matches!(answer.status, 401 | 403), "{answer:?}");
    assert!(answer.text.contains(&format!("[{code}]")), "{answer:?}");
    // A page for everyone is served, and a token counts instead of the certificate.
    assert_eq!(caller.ask("GET /typed/1\n", "").await.status, 200);
    let token = format!("GET /who\nAuthorization: Bearer {}\n", macaroon());
    assert_eq!(caller.ask(&token, "").await.text, "Macaroon true");
}

#[tokio::test]
async fn a_token_in_clear_text_counts_only_where_that_is_allowed() {
    for (clear_text, words) in [
        (ClearText::Never, "[tls_required]"),
        (ClearText::Always, "Macaroon false"),
    ] {
        let door = Door::open(pages(), |server| {
            server.authenticator = Authenticator::new(Sources {
                macaroon_keys: vec![MacaroonKey::new(SECRET)],
                clear_text,
                ..Sources::default()
            });
        });
        let answer = door
            .ask(&format!("GET /who\nAuthorization: Bearer {}\n", macaroon()), "")
            .await;
        assert!(answer.text.contains(words), "{answer:?}");
    }
}

#[tokio::test]
async fn what_is_refused_is_said_in_the_words_of_the_table() {
    let door = Door::open(pages(), |server| {
        server.head = HeadLimits {
            head_bytes: 500,
            ..HeadLimits::default()
        };
        server.limits.head_timeout = Duration::from_millis(300);
    });
    let too_long = format!("GET /who\nX-Long: {}\n", "x".repeat(600));
    for (head, status, code) in [
        ("GET /nowhere\n", 404, "not_found"),
        ("DELETE /who\n", 405, "method_not_allowed"),
        ("GET /who\nTransfer-Encoding: gzip, chunked\n", 501, "not_implemented"),
        (&too_long, 431, "head_too_large"),
    ] {
        let answer = door.ask(head, "").await;
        let record = door.log.next().await;
        assert_eq!(
            (answer.status, record.status),
            (status, Some(u32::from(status))),
            "{head}: {answer:?}"
        );
        assert!(
            answer.text.contains(&format!("[{code}] {}", record.request_id)),
            "{answer:?}"
        );
        assert_eq!(record.error.unwrap().code, code);
        assert!(status != 405 || answer.headers.contains("GET,HEAD"), "{answer:?}");
    }
    let mut slow = door.connect().await;
    slow.send("GET /who HTTP/1.1\r\nHo").await;
    let answer = slow.answer(&Method::Get).await;
    assert_eq!(answer.status, 408);
    assert!(
        answer.text.contains("[head_timeout]") && slow.is_closed().await,
        "{answer:?}"
    );
    assert_eq!(door.log.next().await.path, "-");
}

#[tokio::test]
async fn a_segment_of_a_path_may_be_longer_than_the_name_of_a_file() {
    let door = Door::open(
        Router::new().route(
            "/{ids}",
            get(|path: axum::extract::Path<String>| async move { path.0.len().to_string() }),
        ),
        |_| {},
    );
    let ids = vec!["01874efb-4735-4595-bc9c-591aef8240c9"; 100].join(",");
    let answer = door.ask(&format!("GET /{ids}\n"), "").await;
    assert_eq!((answer.status, answer.text.as_str()), (200, "3699"));
}

#[tokio::test]
async fn a_silent_connection_is_closed() {
    let door = Door::open(pages(), |server| server.limits.idle = Duration::from_millis(50));
    let mut caller = door.connect().await;
    assert!(caller.is_closed().await);
    let mut caller = door.connect().await;
    assert_eq!(caller.ask("GET /typed/1\n", "").await.status, 200);
    assert!(caller.is_closed().await);
}

#[tokio::test]
async fn a_body_of_more_than_the_limit_is_refused_with_its_length_and_without() {
    let door = Door::open(pages(), |_| {});
    let allowed = "x".repeat(BODY_BYTES_MAX);
    let mut caller = door.connect().await;
    assert_eq!(caller.ask("POST /echo\n", &allowed).await.text, allowed);
    assert_eq!(caller.ask("POST /echo\n", "again").await.text, "again");
    let (first, second) = (door.log.next().await, door.log.next().await);
    assert_eq!((first.bytes_in, second.bytes_out), (BODY_BYTES_MAX as u64, 5));
    let answer = door.ask("POST /echo\n", &format!("{allowed}x")).await;
    assert!(
        answer.status == 413 && answer.text.contains("[body_too_large]"),
        "{answer:?}"
    );
    let mut chunked = door.connect().await;
    chunked
        .send("POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    chunked
        .send(&format!("{:x}\r\n{allowed}x\r\n0\r\n\r\n", BODY_BYTES_MAX + 1))
        .await;
    assert_eq!(chunked.answer(&Method::Post).await.status, 413);
    for _ in 0..2 {
        assert_eq!(door.log.next().await.error.unwrap().code, "body_too_large");
    }
}

/// Many bodies that are only half sent must not take all memory.
#[tokio::test]
async fn memory_for_bodies_is_shared_among_clients() {
    let router = Router::new().route("/read", post(async |body: Bytes| body.len().to_string()));
    let (pieces, fair_share) = (2 * CLIENT_SHARE_MIN, FairShare::default());
    fair_share.set_limits(&ShareLimits {
        bodies: pieces,
        ..ShareLimits::default()
    });
    let shared = fair_share.clone();
    let door = Door::open(router, move |server| server.fair_share = shared);
    let mut half_sent = Vec::new();
    for number in 1..=CLIENT_SHARE_MIN {
        let mut caller = door.connect().await;
        caller
            .send("POST /read HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhalf")
            .await;
        soon(async {
            while fair_share.in_use(ShareKind::Bodies) < number {
                tokio::task::yield_now().await;
            }
        })
        .await;
        half_sent.push(caller);
    }
    let refused = door.ask("POST /read\n", "whole").await;
    assert_eq!(
        (refused.status, refused.text.contains("bodies")),
        (429, true),
        "{refused:?}"
    );
    // What is answered gives its memory back.
    let mut first = half_sent.remove(0);
    first.send(" a text").await;
    soon(async {
        while fair_share.in_use(ShareKind::Bodies) == CLIENT_SHARE_MIN {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(door.ask("POST /read\n", "whole").await.status, 200);
}

/// Three large bodies that come at the same time, piece by piece: together more than one client may
/// hold.
#[tokio::test]
async fn of_large_bodies_at_the_same_time_one_is_taken_and_the_others_are_told_to_come_later() {
    let body_bytes = 2 * CLIENT_SHARE_MIN * BODY_PIECE_BYTES;
    let length = async |body: Body| {
        let whole = axum::body::to_bytes(body, usize::MAX).await;
        whole.map_or(0, |whole| whole.len()).to_string()
    };
    let fair_share = FairShare::default();
    fair_share.set_limits(&ShareLimits {
        bodies: 4 * CLIENT_SHARE_MIN,
        ..ShareLimits::default()
    });
    let shared = fair_share.clone();
    let router = Router::new().route("/read", post(length));
    let door = Door::open_for(router, body_bytes, move |server| server.fair_share = shared);
    let head = format!("POST /read HTTP/1.1\r\nHost: test\r\nContent-Length: {body_bytes}\r\n\r\n");
    let piece = "x".repeat(BODY_PIECE_BYTES);
    let mut first = door.connect().await;
    first.send(&format!("{head}{piece}")).await;
    soon(async {
        while fair_share.in_use(ShareKind::Bodies) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    for _ in 0..2 {
        let mut other = door.connect().await;
        other.send(&head).await;
        let refused = other.answer(&Method::Post).await;
        assert_eq!(refused.status, 429, "{refused:?}");
        assert!(
            refused.headers.to_lowercase().contains("retry-after: 10"),
            "{refused:?}"
        );
    }
    for _ in 1..body_bytes / BODY_PIECE_BYTES {
        first.send(&piece).await;
    }
    let answer = first.answer(&Method::Post).await;
    assert_eq!((answer.status, answer.text), (200, body_bytes.to_string()));
}

#[tokio::test]
async fn a_body_is_asked_for_when_the_handler_wants_it() {
    let door = Door::open(pages(), |_| {});
    let waiting = "HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    let mut caller = door.connect().await;
    caller.send(&format!("POST /nowhere {waiting}")).await;
    assert_eq!(caller.answer(&Method::Post).await.status, 404);
    let mut caller = door.connect().await;
    caller.send(&format!("POST /echo {waiting}")).await;
    assert_eq!(caller.head().await.status, 100);
    caller.send("abc").await;
    assert_eq!(caller.answer(&Method::Post).await.text, "abc");
}

#[tokio::test]
async fn a_handler_goes_on_while_the_next_piece_of_its_body_is_awaited() {
    let patient = |body: axum::body::Bytes| async move { format!("{} bytes", body.len()) };
    let given_up = |request: axum::extract::Request| async move {
        let whole = axum::body::to_bytes(request.into_body(), BODY_BYTES_MAX);
        tokio::select! {
            biased;
            _ = whole => "read",
            () = tokio::task::yield_now() => "given up",
        }
    };
    let router = Router::new()
        .route("/whole", post(patient))
        .route("/given-up", post(given_up));
    let door = Door::open(router, |_| {});
    let begun = "HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\n";
    let mut caller = door.connect().await;
    caller.send(&format!("POST /whole {begun}abc")).await;
    assert_eq!(caller.answer(&Method::Post).await.text, "3 bytes");
    caller.send(&format!("POST /given-up {begun}")).await;
    let answer = caller.answer(&Method::Post).await;
    // What arrives later may be lost, so the connection cannot carry another request.
    assert!(
        answer.text == "given up" && answer.headers.contains("Connection: close"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_handler_sets_what_is_about_the_content_only() {
    let door = Door::open(pages(), |_| {});
    let mut caller = door.connect().await;
    for (method, text) in [("GET", "page 7"), ("HEAD", "")] {
        let answer = caller.ask(&format!("{method} /typed/7?secret=1\n"), "").await;
        assert_eq!((answer.status, &*answer.text), (200, text));
        let headers = answer.headers;
        assert!(headers.contains("content-type: text/x-test"), "{headers}");
        assert!(
            !headers.contains("upgrade") && headers.contains("Server: crossload/test"),
            "{headers}"
        );
        assert_eq!(door.log.next().await.path, "/typed/7");
    }
}

/// A page whose pieces come out of a channel.
fn stream_of(pieces: mpsc::Receiver<&'static str>) -> Router {
    struct Pieces(mpsc::Receiver<&'static str>);
    impl axum::body::HttpBody for Pieces {
        type Data = Bytes;
        type Error = std::convert::Infallible;
        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
            let piece = self.0.poll_recv(context);
            piece.map(|piece| piece.map(|text| Ok(http_body::Frame::data(Bytes::from(text)))))
        }
    }
    let pieces = Arc::new(Mutex::new(Some(pieces)));
    let answer = move || {
        let pieces = pieces.lock().unwrap().take().unwrap();
        async { Body::new(Pieces(pieces)) }
    };
    Router::new().route("/events", get(answer))
}

#[tokio::test]
async fn pieces_are_sent_as_they_come_and_end_with_the_client() {
    let (give, pieces) = mpsc::channel(1);
    let door = Door::open(stream_of(pieces), |_| {});
    let mut caller = door.connect().await;
    caller.send("GET /events HTTP/1.1\r\nHost: test\r\n\r\n").await;
    let head = caller.head().await;
    let framing = head.framing(&Method::Get).unwrap();
    let mut body = caller.0.body(framing);
    for text in ["one", "two"] {
        give.send(text).await.unwrap();
        let batch = soon(body.next()).await.unwrap().unwrap();
        assert_eq!(batch.front(), Some(text.as_bytes()));
    }
    drop(caller);
    soon(give.closed()).await;
    let record = door.log.next().await;
    assert_eq!((record.status, record.bytes_out), (Some(200), 6));
    assert_eq!(record.error.unwrap().code, "client_gone");
}

#[tokio::test]
async fn a_closing_door_finishes_what_is_under_way_and_cuts_off_what_never_ends() {
    let (began, begun) = oneshot::channel();
    let (go, wait) = oneshot::channel::<()>();
    let channels = Arc::new(Mutex::new(Some((began, wait))));
    let slow = move || {
        let (began, wait) = channels.lock().unwrap().take().unwrap();
        async move {
            began.send(()).unwrap();
            wait.await.unwrap();
            "at last"
        }
    };
    let (_give, pieces) = mpsc::channel(1);
    let router = pages().route("/slow", get(slow)).merge(stream_of(pieces));
    let door = Door::open(router, |_| {});
    let (mut idle, mut asking, mut endless) = (door.connect().await, door.connect().await, door.connect().await);
    assert_eq!(idle.ask("GET /typed/1\n", "").await.status, 200);
    endless.send("GET /events HTTP/1.1\r\nHost: test\r\n\r\n").await;
    assert_eq!(endless.head().await.status, 200);
    asking.send("GET /slow HTTP/1.1\r\nHost: test\r\n\r\n").await;
    soon(begun).await.unwrap();
    assert_eq!(door.door.connections(), 3);
    let closing = door.door.clone();
    let closing = tokio::spawn(async move { closing.shut_down(Duration::from_secs(60)).await });
    assert!(idle.is_closed().await);
    go.send(()).unwrap();
    let answer = asking.answer(&Method::Get).await;
    assert!(
        answer.text == "at last" && answer.headers.contains("Connection: close"),
        "{answer:?}"
    );
    // A second call ends the grace of the first.
    soon(door.door.shut_down(Duration::ZERO)).await;
    soon(closing).await.unwrap();
    assert_eq!(door.door.connections(), 0);
    let mut records = Vec::new();
    for _ in 0..3 {
        records.push(door.log.next().await);
    }
    let cut = records.iter().find(|record| record.path == "/events").unwrap();
    assert_eq!(cut.error.as_ref().unwrap().code, "cancelled");
    assert!(TcpStream::connect(door.address).await.is_err(), "it listens still");
}

fn room_for_two(server: &mut Server) {
    server.fair_share.set_limits(&ShareLimits {
        connections: 2,
        client_percent: 100,
        ..ShareLimits::default()
    });
}

#[tokio::test]
async fn the_connection_that_was_idle_longest_makes_room() {
    let door = Door::open(pages(), room_for_two);
    let (mut one, mut two) = (door.connect().await, door.connect().await);
    assert_eq!(one.ask("GET /typed/1\n", "").await.status, 200);
    assert_eq!(two.ask("GET /typed/1\n", "").await.status, 200);
    assert_eq!(one.ask("GET /typed/2\n", "").await.status, 200);
    let mut three = door.connect().await;
    assert_eq!(three.ask("GET /typed/3\n", "").await.status, 200);
    assert!(two.is_closed().await);
    assert_eq!(one.ask("GET /typed/4\n", "").await.text, "page 4");
    // One that has said nothing at all is idle too.
    let _silent = door.connect().await;
    assert!(three.is_closed().await);
    let mut four = door.connect().await;
    assert_eq!(four.ask("GET /typed/5\n", "").await.status, 200);
}

#[tokio::test]
async fn a_client_is_refused_when_all_connections_are_busy() {
    let door = Door::open(pages(), room_for_two);
    let (mut one, mut two) = (door.connect().await, door.connect().await);
    let waiting = "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    for busy in [&mut one, &mut two] {
        busy.send(waiting).await;
        assert_eq!(busy.head().await.status, 100);
    }
    let answer = door.ask("GET /typed/1\n", "").await;
    assert!(
        answer.status == 503 && answer.headers.contains("Retry-After"),
        "{answer:?}"
    );
    assert_eq!(door.log.connections(), ["refused: overloaded"]);
    one.send("abc").await;
    assert_eq!(one.answer(&Method::Post).await.text, "abc");
}

const ELSEWHERE: [u8; 4] = [127, 0, 0, 2];

/// A request whose body the server awaits.
async fn keep_busy(caller: &mut Caller) {
    let waiting = "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    caller.send(waiting).await;
    assert_eq!(caller.head().await.status, 100);
}

#[tokio::test]
async fn one_client_cannot_take_all_connections() {
    let door = Door::open(pages(), |server| server.fair_share = shares(2 * CLIENT_SHARE_MIN));
    let mut busy = Vec::new();
    for _ in 0..CLIENT_SHARE_MIN {
        let mut caller = door.connect().await;
        keep_busy(&mut caller).await;
        busy.push(caller);
    }
    let mut refused = door.connect().await;
    let answer = refused.ask("GET /typed/1\n", "").await;
    assert!(
        answer.status == 429 && answer.text.contains("[share_used_up]"),
        "{answer:?}"
    );
    assert!(refused.is_closed().await);
    let mut other = door.connect_from(ELSEWHERE).await;
    assert_eq!(other.ask("GET /typed/1\n", "").await.status, 200);
    busy[0].send("abc").await;
    assert_eq!(busy[0].answer(&Method::Post).await.text, "abc");
}

#[tokio::test]
async fn a_client_with_its_share_loses_the_connection_that_it_left_idle_longest() {
    let door = Door::open(pages(), |server| server.fair_share = shares(2 * CLIENT_SHARE_MIN));
    let mut other = door.connect_from(ELSEWHERE).await;
    assert_eq!(other.ask("GET /typed/1\n", "").await.status, 200);
    let mut own = Vec::new();
    for _ in 0..=CLIENT_SHARE_MIN {
        let mut caller = door.connect().await;
        assert_eq!(caller.ask("GET /typed/1\n", "").await.status, 200);
        own.push(caller);
    }
    assert!(own[0].is_closed().await);
    assert_eq!(own[1].ask("GET /typed/2\n", "").await.status, 200);
    assert_eq!(
        other.ask("GET /typed/2\n", "").await.status,
        200,
        "it has its own share"
    );
}

#[tokio::test]
async fn an_identity_over_its_share_loses_the_connection() {
    let door = Door::open(pages(), |server| {
        server.fair_share = shares(2 * CLIENT_SHARE_MIN);
        server.authenticator = Authenticator::new(Sources {
            macaroon_keys: vec![MacaroonKey::new(SECRET)],
            clear_text: ClearText::Always,
            ..Sources::default()
        });
    });
    let request = format!("GET /who\nAuthorization: Bearer {}\n", macaroon());
    let mut all = Vec::new();
    for number in 0..=CLIENT_SHARE_MIN {
        let address = [[127, 0, 0, 1], ELSEWHERE][number % 2];
        let mut caller = door.connect_from(address).await;
        let status = caller.ask(&request, "").await.status;
        assert_eq!(status, if number < CLIENT_SHARE_MIN { 200 } else { 429 }, "{number}");
        all.push(caller);
    }
    assert!(all[CLIENT_SHARE_MIN].is_closed().await);
    assert_eq!(all[0].ask(&request, "").await.status, 200);
}

#[tokio::test]
async fn a_request_that_is_refused_for_lack_of_room_gives_its_connection_back() {
    let full = async || {
        Err::<(), _>(Refusal::from(Error::new(
            ErrorCode::Overloaded,
            Side::Active,
            Phase::Open,
        )))
    };
    let door = Door::open(pages().route("/full", get(full)), |_| {});
    let mut caller = door.connect().await;
    assert_eq!(caller.ask("GET /nowhere\n", "").await.status, 404);
    let answer = caller.ask("GET /full\n", "").await;
    assert!(
        answer.status == 503 && answer.headers.contains("Connection: close"),
        "{answer:?}"
    );
    assert!(caller.is_closed().await);
}

#[tokio::test]
async fn a_connection_that_breaks_outside_of_a_request_is_logged() {
    let door = Door::open(pages(), |_| {});
    let mut caller = door.connect().await;
    // The beginning of TLS, at a door that speaks clear text only.
    caller.send("\u{16}\u{3}\u{1}").await;
    assert!(caller.is_closed().await);
    assert_eq!(door.log.connections(), ["failed: bad_request"]);
}
