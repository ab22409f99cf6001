//! Third-party copies between two doors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use endpoint::TransferOutcome;
use net::address::AddressPolicy;
use policy::AnonymousAccess;
use storage::{Effect, Fault, Faulty, Operation, Posix, PosixOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use transfer::Slots;
use types::ErrorCode;

use crate::harness::{Server, export, head_text, memory, pattern, soon};

fn copy(path: &str, headers: &str) -> String {
    format!("COPY {path}\n{headers}\n")
}

#[tokio::test]
async fn pull_and_push_move_a_file_and_tell_so() {
    let (here, there) = (Server::open().await, Server::open().await);
    let content = pattern(5_000_000);
    there.put("/data/f", &content).await;
    let head = copy(
        "/data/a/b",
        &format!("Source: {}\nClientInfo: job=7\nSciTag: 65", there.url("/data/f")),
    );
    let pulled = here.ask(&head, b"").await;
    assert_eq!((pulled.status, pulled.last_line().as_str()), (202, "success: Created"));
    assert_eq!(pulled.header("Content-Type"), Some("text/perf-marker-stream"));
    assert!(
        pulled.text().starts_with("Perf Marker\nTimestamp: "),
        "{}",
        pulled.text()
    );
    assert!(
        pulled.text().contains("Stripe Bytes Transferred: 5000000\n"),
        "{}",
        pulled.text()
    );
    assert!(here.ask("GET /data/a/b\n", b"").await.body == content);
    let record = here.log.transfer().await;
    assert_eq!((record.outcome, record.bytes), (TransferOutcome::Success, 5_000_000));
    assert_eq!((record.start.mode, record.start.scitag), ("pull", Some(65)));
    assert!(record.verified.unwrap().starts_with("adler32:"));
    let passive = there.log.request("GET").await;
    assert_eq!(passive.client_info.as_deref(), Some("job=7"));
    assert_eq!(passive.scitag, Some(65));
    assert_eq!(passive.traceparent.unwrap()[3..35], record.start.traceparent[3..35]);

    let head = copy("/data/a/b", &format!("Destination: {}", there.url("/data/c/d")));
    let pushed = here.ask(&head, b"").await;
    assert_eq!((pushed.status, pushed.last_line().as_str()), (202, "success: Created"));
    assert!(there.ask("GET /data/c/d\n", b"").await.body == content);
}

#[tokio::test]
async fn several_streams_bring_the_same_file() {
    let (here, there) = (Server::open().await, Server::open().await);
    let content = pattern(40_000_000);
    there.put("/data/f", &content).await;
    let headers = format!("Source: {}\nX-Number-Of-Streams: 3", there.url("/data/f"));
    let answer = here.ask(&copy("/data/f", &headers), b"").await;
    assert_eq!(answer.last_line(), "success: Created");
    assert!(here.log.transfer().await.streams > 1);
    assert!(here.ask("GET /data/f\n", b"").await.body == content);
}

#[tokio::test]
async fn a_source_that_refuses_is_told_with_its_own_status_and_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let posix = Posix::open(directory.path(), &PosixOptions::default()).unwrap();
    let here = Server::start(vec![export("/data", AnonymousAccess::Write, posix)], |_| {}).await;
    let there = Server::start(
        vec![
            export("/data", AnonymousAccess::Write, memory()),
            export("/closed", AnonymousAccess::None, memory()),
        ],
        |_| {},
    )
    .await;
    here.put("/data/old", b"old").await;
    for (path, status) in [("/data/none", 404), ("/closed/f", 502)] {
        let answer = here
            .ask(&copy("/data/old", &format!("Source: {}", there.url(path))), b"")
            .await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.text().starts_with("failure: source "), "{answer:?}");
    }
    let unreachable = "Source: http://127.0.0.1:1/x";
    let answer = here.ask(&copy("/data/new", unreachable), b"").await;
    assert_eq!(answer.status, 502, "{answer:?}");
    assert_eq!(here.ask("GET /data/old\n", b"").await.body, b"old");
    assert_eq!(here.ask("HEAD /data/new\n", b"").await.status, 404);
    assert_eq!(here.log.transfer().await.outcome, TransferOutcome::Failure);
}

#[tokio::test]
async fn peers_on_this_machine_are_refused_unless_allowed() {
    let exports = vec![export("/data", AnonymousAccess::Write, memory())];
    let there = Server::open().await;
    let here = Server::start(exports, |settings| {
        let (tls, _) = net::tls::ClientTls::load(&net::tls::Trust {
            insecure: true,
            ..net::tls::Trust::default()
        })
        .unwrap();
        settings.site.client = remote::Client::new(remote::ClientOptions {
            tls,
            addresses: AddressPolicy {
                local: false,
                private: true,
            },
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(5),
            stall: Duration::from_secs(5),
            user_agent: "test".into(),
        });
    })
    .await;
    let answer = here
        .ask(&copy("/data/f", &format!("Source: {}", there.url("/data/f"))), b"")
        .await;
    assert_eq!(answer.status, ErrorCode::PeerAddressRefused.http_status());
    // Nor by an address of an interface, however it is written.
    here.put("/data/own", b"own").await;
    let own = testkit::own_address().into_iter();
    for host in own.flat_map(|own| [own.to_string(), format!("[::ffff:{own}]"), format!("[64:ff9b::{own}]")]) {
        let there = format!("http://{host}:{}/data/f", there.address.port());
        for order in [
            format!("COPY /data/new\nSource: {there}\n"),
            format!("COPY /data/own\nDestination: {there}\n"),
        ] {
            let answer = here.ask(&order, b"").await;
            assert_eq!(answer.status, ErrorCode::PeerAddressRefused.http_status(), "{order}");
        }
    }
}

#[tokio::test]
async fn what_the_client_expects_is_compared_before_anything_is_written() {
    let (here, there) = (Server::open().await, Server::open().await);
    there.put("/data/f", b"Wikipedia").await;
    let source = format!("Source: {}", there.url("/data/f"));
    let wrong = here
        .ask(
            &copy("/data/f", &format!("{source}\nRepr-Digest: adler=:AAAAAQ==:")),
            b"",
        )
        .await;
    assert_eq!(wrong.status, 412, "{wrong:?}");
    let right = here
        .ask(
            &copy("/data/f", &format!("{source}\nRepr-Digest: adler=:EeYDmA==:")),
            b"",
        )
        .await;
    assert_eq!(right.last_line(), "success: Created");
}

#[tokio::test]
async fn a_destination_that_fails_in_the_middle_is_told_in_the_last_line() {
    let fails = Fault {
        operation: Operation::Write,
        nth: 5,
        effect: Effect::Fail(ErrorCode::NoSpace),
    };
    let faulty = Faulty::new(memory(), vec![fails]);
    let here = Server::start(vec![export("/data", AnonymousAccess::Write, faulty)], |_| {}).await;
    let there = Server::open().await;
    there.put("/data/f", &pattern(4_000_000)).await;
    let answer = here
        .ask(&copy("/data/f", &format!("Source: {}", there.url("/data/f"))), b"")
        .await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let line = answer.last_line();
    assert!(
        line.starts_with("failure: destination transfer: No space left on device"),
        "{line}"
    );
    assert_eq!(here.ask("HEAD /data/f\n", b"").await.status, 404);
}

/// A source that answers, sends a little, and then nothing.
struct SilentSource {
    url: String,
    /// Permits arrive when a GET was answered, and when its connection was closed.
    begun: Arc<Semaphore>,
    closed: Arc<Semaphore>,
}

impl SilentSource {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/f", listener.local_addr().unwrap());
        let (begun, closed) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let source = Self {
            url,
            begun: begun.clone(),
            closed: closed.clone(),
        };
        tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                tokio::spawn(say_little(tcp, begun.clone(), closed.clone()));
            }
        });
        source
    }
}

async fn say_little(mut tcp: TcpStream, begun: Arc<Semaphore>, closed: Arc<Semaphore>) {
    let mut request = Vec::new();
    while tcp.read_buf(&mut request).await.unwrap_or(0) > 0 {
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\nETag: \"x\"\r\n\r\n";
        tcp.write_all(head).await.unwrap();
        if request.starts_with(b"GET") {
            tcp.write_all(&[7; 1000]).await.unwrap();
            begun.add_permits(1);
            let _ = tcp.read_to_end(&mut Vec::new()).await;
            closed.add_permits(1);
            return;
        }
        request.clear();
    }
}

#[tokio::test]
async fn markers_run_while_the_source_is_silent() {
    let source = SilentSource::start().await;
    let here = Server::start(vec![export("/data", AnonymousAccess::Write, memory())], |settings| {
        settings.limits.marker_period = Duration::from_millis(20);
        settings.limits.early_outcome = Duration::from_millis(20);
    })
    .await;
    let mut client = here.connect().await;
    client
        .send(head_text(&copy("/data/f", &format!("Source: {}", source.url)), None))
        .await;
    assert_eq!(client.head().await.status, 202);
    loop {
        let marker = String::from_utf8(client.chunk().await).unwrap();
        if marker.contains("Stripe Bytes Transferred: 1000\n") {
            assert!(marker.contains("RemoteConnections: tcp:127.0.0.1:"), "{marker}");
            break;
        }
    }
    assert_eq!(here.door.transfers(), 1);
}

#[tokio::test]
async fn a_copy_that_ends_at_once_is_marked_once() {
    let exports = vec![export("/data", AnonymousAccess::Write, memory())];
    let here = Server::start(exports, |settings| {
        settings.limits.early_outcome = Duration::from_secs(60)
    })
    .await;
    let there = Server::open().await;
    there.put("/data/f", &pattern(5_000_000)).await;
    let pulled = here
        .ask(&copy("/data/f", &format!("Source: {}", there.url("/data/f"))), b"")
        .await;
    assert_eq!((pulled.status, pulled.last_line().as_str()), (202, "success: Created"));
    assert_eq!(pulled.text().matches("Perf Marker\n").count(), 1, "{}", pulled.text());
    assert!(
        pulled.text().contains("Stripe Bytes Transferred: 5000000\n"),
        "{}",
        pulled.text()
    );
}

#[tokio::test]
async fn a_client_that_leaves_stops_the_copy_at_once() {
    let source = SilentSource::start().await;
    let directory = tempfile::tempdir().unwrap();
    let posix = Posix::open(directory.path(), &PosixOptions::default()).unwrap();
    let here = Server::start(vec![export("/data", AnonymousAccess::Write, posix)], |settings| {
        // No marker fails: only watching the connection shows it.
        settings.limits.marker_period = Duration::from_secs(3600);
        settings.limits.early_outcome = Duration::from_millis(20);
    })
    .await;
    let mut client = here.connect().await;
    client
        .send(head_text(&copy("/data/f", &format!("Source: {}", source.url)), None))
        .await;
    assert_eq!(client.head().await.status, 202);
    let _ = soon(source.begun.acquire()).await.unwrap();
    drop(client);
    let _ = soon(source.closed.acquire()).await.unwrap();
    assert_eq!(here.log.transfer().await.outcome, TransferOutcome::ClientGone);
    assert_eq!(here.log.request("COPY").await.error.unwrap().code, "client_gone");
    assert_eq!(here.door.transfers(), 0);
    assert_eq!(here.ask("HEAD /data/f\n", b"").await.status, 404);
}

#[tokio::test]
async fn a_server_that_stops_says_so_to_whoever_waits() {
    let source = SilentSource::start().await;
    let here = Server::open().await;
    let mut client = here.connect().await;
    client
        .send(head_text(&copy("/data/f", &format!("Source: {}", source.url)), None))
        .await;
    assert_eq!(client.head().await.status, 202);
    let door = here.door.clone();
    let closing = tokio::spawn(async move { door.shut_down(Duration::from_millis(10)).await });
    let mut body = Vec::new();
    loop {
        let chunk = client.chunk().await;
        if chunk.is_empty() {
            break;
        }
        body.extend(chunk);
    }
    let text = String::from_utf8(body).unwrap();
    assert!(text.lines().last().unwrap().starts_with("aborted: server "), "{text}");
    drop(client);
    soon(closing).await.unwrap();
}

#[tokio::test]
async fn a_client_of_another_kind_gets_the_status_that_it_insists_on() {
    let (here, there) = (Server::open().await, Server::open().await);
    there.put("/data/f", b"x").await;
    let headers = format!("Source: {}\nUser-Agent: pelican-client/7.10", there.url("/data/f"));
    assert_eq!(here.ask(&copy("/data/f", &headers), b"").await.status, 201);
}

#[tokio::test]
async fn transfers_have_a_limit_of_their_own() {
    let exports = vec![export("/data", AnonymousAccess::Write, memory())];
    let here = Server::start(exports, |settings| settings.site.transfers = Slots::new(0)).await;
    let answer = here.ask(&copy("/data/f", "Source: http://127.0.0.1:1/x"), b"").await;
    assert_eq!((answer.status, answer.header("Retry-After").is_some()), (503, true));
}

/// A peer that answers by method, with the text that `say` makes from the number of earlier
/// requests and the request; remembers the methods. It answers a PUT after its body.
struct ScriptedPeer {
    url: String,
    methods: Arc<std::sync::Mutex<Vec<String>>>,
}

impl ScriptedPeer {
    async fn start(say: impl Fn(usize, &str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/f", listener.local_addr().unwrap());
        let methods = Arc::new(std::sync::Mutex::new(Vec::new()));
        let heard = methods.clone();
        tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                answer_one(tcp, &say, &heard).await;
            }
        });
        Self { url, methods }
    }

    fn methods(&self) -> String {
        self.methods.lock().unwrap().join(" ")
    }
}

/// One request, and the end of the connection.
async fn answer_one(
    mut tcp: TcpStream,
    say: &(impl Fn(usize, &str) -> String + Sync),
    heard: &std::sync::Mutex<Vec<String>>,
) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") && tcp.read_buf(&mut request).await.unwrap_or(0) > 0 {}
    let head = String::from_utf8(request).unwrap();
    let before = {
        let mut heard = heard.lock().unwrap();
        heard.push(head.split(' ').next().unwrap().to_owned());
        heard.len() - 1
    };
    if head.starts_with("PUT") {
        tcp.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        tcp.read_exact(&mut body).await.unwrap();
    }
    tcp.write_all(say(before, &head).as_bytes()).await.unwrap();
}

async fn push_to(peer: &ScriptedPeer, headers: &str) -> String {
    let here = Server::open().await;
    here.put("/data/f", b"content").await;
    let headers = format!("Destination: {}{headers}", peer.url);
    here.ask(&copy("/data/f", &headers), b"").await.last_line()
}

const CLOSE: &str = "Connection: close\r\nContent-Length: 0\r\n\r\n";

#[tokio::test]
async fn a_file_that_somebody_else_stored_meanwhile_is_not_removed() {
    let peer = ScriptedPeer::start(|_, head| match head.split(' ').next() {
        Some("HEAD") => format!("HTTP/1.1 404 Not Found\r\n{CLOSE}"),
        _ => format!("HTTP/1.1 412 Precondition Failed\r\n{CLOSE}"),
    })
    .await;
    let line = push_to(&peer, "\nOverwrite: F").await;
    assert!(line.starts_with("failure: destination "), "{line}");
    assert_eq!(peer.methods(), "HEAD PUT");
}

#[tokio::test]
async fn a_new_file_that_turns_out_wrong_at_the_destination_is_removed_there() {
    let peer = ScriptedPeer::start(|before, head| match head.split(' ').next() {
        Some("HEAD") if before == 0 => format!("HTTP/1.1 404 Not Found\r\n{CLOSE}"),
        Some("HEAD") => "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\n".to_owned(),
        Some("PUT") => format!("HTTP/1.1 201 Created\r\n{CLOSE}"),
        Some("GET") => "HTTP/1.1 206 Partial Content\r\nConnection: close\r\nContent-Range: bytes 0-2/3\r\n\
             Content-Length: 3\r\n\r\ncon"
            .to_owned(),
        _ => format!("HTTP/1.1 200 OK\r\n{CLOSE}"),
    })
    .await;
    let line = push_to(&peer, "").await;
    assert!(line.contains("7 bytes were sent, it stored 3"), "{line}");
    // It has the same beginning, and is the same in two looks.
    assert_eq!(peer.methods(), "HEAD PUT HEAD HEAD GET HEAD DELETE");
}

#[tokio::test]
async fn a_destination_that_tells_its_checksum_with_the_upload_is_asked_no_more() {
    let answer = |head: &str, told: &str| match head.split(' ').next() {
        Some("HEAD") => format!("HTTP/1.1 404 Not Found\r\n{CLOSE}"),
        Some("PUT") => format!("HTTP/1.1 201 Created\r\nDigest: adler32={told}\r\n{CLOSE}"),
        _ => format!("HTTP/1.1 200 OK\r\n{CLOSE}"),
    };
    let peer = ScriptedPeer::start(move |_, head| answer(head, "0bcb02fc")).await;
    let line = push_to(&peer, "").await;
    assert!(line.starts_with("success"), "{line}");
    assert_eq!(peer.methods(), "HEAD PUT");
    let peer = ScriptedPeer::start(move |_, head| answer(head, "00000001")).await;
    let line = push_to(&peer, "").await;
    assert!(line.starts_with("failure") && line.contains("00000001"), "{line}");
    // The server has no such file: nothing is removed.
    assert_eq!(peer.methods(), "HEAD PUT HEAD");
    // A peer that reports no checksum, or only an unknown algorithm, is asked.
    let peer = ScriptedPeer::start(|before, head| match head.split(' ').next() {
        Some("HEAD") if before == 0 => format!("HTTP/1.1 404 Not Found\r\n{CLOSE}"),
        Some("HEAD") => "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 7\r\n\r\n".to_owned(),
        _ => format!("HTTP/1.1 201 Created\r\nDigest: md5=1B2M2Y8AsgTpgAmY7PhCfg==\r\n{CLOSE}"),
    })
    .await;
    let line = push_to(&peer, "").await;
    assert!(line.starts_with("success"), "{line}");
    assert_eq!(peer.methods(), "HEAD PUT HEAD");
}

#[tokio::test]
async fn a_rest_that_belongs_to_a_longer_file_is_not_taken_for_that_of_the_old_one() {
    let reads = AtomicUsize::new(0);
    let peer = ScriptedPeer::start(move |before, head| {
        let line = if head.starts_with("HEAD ") {
            if before == 0 {
                "200 OK\r\nConnection: close\r\nETag: \"a\"\r\nContent-Length: 8\r\n\r\n"
            } else {
                "200 OK\r\nConnection: close\r\nDigest: adler32=1d00047f\r\nContent-Length: 12\r\n\r\n"
            }
        } else {
            match reads.fetch_add(1, Ordering::Relaxed) {
                // It breaks in the middle.
                0 => "200 OK\r\nContent-Length: 8\r\n\r\nold ",
                // The file was replaced, and the peer ignores conditions.
                1 => {
                    assert!(head.to_ascii_lowercase().contains("range: bytes=4-7"), "{head}");
                    "206 Partial Content\r\nConnection: close\r\nContent-Range: bytes 4-7/12\r\nContent-Length: 4\r\n\r\nfile"
                }
                _ => "200 OK\r\nConnection: close\r\nContent-Length: 12\r\n\r\nnew file now",
            }
        };
        format!("HTTP/1.1 {line}")
    })
    .await;
    let here = Server::open().await;
    let headers = format!("Source: {}\nRequireChecksumVerification: false", peer.url);
    let answer = here.ask(&copy("/data/f", &headers), b"").await;
    let content = here.ask("GET /data/f\n", b"").await.body;
    assert_eq!(
        (
            answer.last_line().as_str(),
            String::from_utf8(content).unwrap().as_str()
        ),
        ("success: Created", "new file now"),
        "{}",
        peer.methods()
    );
}
