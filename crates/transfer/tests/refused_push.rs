//! A push of a file that fails: a refusal in the middle of a long one is noticed and reported, in
//! clear text and encrypted, and a file that changes meanwhile is not left at the peer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use endpoint::{ClientId, Store};
use net::address::AddressPolicy;
use net::tls::{ClientTls, Trust};
use remote::{Access, Client, ClientOptions, Resource};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use storage::{Overwrite, Posix, PosixOptions};
use testkit::{SelfSigned, tls_server};
use transfer::{Budget, Order, OutputSink, Progress, RemoteSink, Sink, Source, StoreSink, StoreSource, copy};
use types::{ErrorCode, Location, LogicalPath, Side};

/// Far more than sockets buffer, so that the sender is busy when the answer arrives.
const SIZE: u64 = 64 * 1024 * 1024;

/// The server's end of a connection.
trait Connection: Read + Write {
    /// Ends the outgoing data.
    fn end(&mut self);
}

impl Connection for TcpStream {
    fn end(&mut self) {
        self.shutdown(Shutdown::Write).unwrap();
    }
}

impl Connection for StreamOwned<ServerConnection, TcpStream> {
    fn end(&mut self) {
        self.conn.send_close_notify();
        self.flush().unwrap();
        self.sock.end();
    }
}

fn accepted(tcp: TcpStream, tls: Option<&Arc<ServerConfig>>) -> Box<dyn Connection> {
    match tls {
        None => Box::new(tcp),
        Some(tls) => Box::new(StreamOwned::new(ServerConnection::new(tls.clone()).unwrap(), tcp)),
    }
}

fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap().as_secs();
    http_wire::format_date(i64::try_from(seconds).unwrap())
}

/// Keeps a part of the body, then reports a full disk; returns the methods that were requested.
fn full_disk(listener: &TcpListener, tls: Option<&Arc<ServerConfig>>) -> Vec<String> {
    let (mut methods, mut refused) = (Vec::new(), SystemTime::now());
    for tcp in listener.incoming().flatten() {
        let mut reader = BufReader::new(accepted(tcp, tls));
        loop {
            let (mut head, mut line) = (String::new(), String::new());
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                head.push_str(&line);
                line.clear();
            }
            let Some(method) = head.split(' ').next().filter(|method| !method.is_empty()) else {
                break;
            };
            methods.push(method.to_owned());
            match method {
                "PUT" => {
                    reader.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
                    std::io::copy(&mut (&mut reader).take(SIZE / 8), &mut std::io::sink()).unwrap();
                    refused = SystemTime::now();
                    let words = "the tape robot is full";
                    let answer = format!(
                        "HTTP/1.1 507 Full\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{words}",
                        words.len()
                    );
                    reader.get_mut().write_all(answer.as_bytes()).unwrap();
                    reader.get_mut().end();
                    // Reads the rest, so that no reset overtakes the answer.
                    let _ = std::io::copy(&mut reader, &mut std::io::sink());
                    break;
                }
                "HEAD" if methods.contains(&"PUT".to_owned()) => {
                    // The file was last written to when its upload was refused.
                    let times = format!(
                        "Date: {}\r\nLast-Modified: {}\r\n",
                        date(SystemTime::now()),
                        date(refused)
                    );
                    let answer = format!("HTTP/1.1 200 OK\r\n{times}Content-Length: {}\r\n\r\n", SIZE / 8);
                    reader.get_mut().write_all(answer.as_bytes()).unwrap();
                    return methods;
                }
                "HEAD" => reader
                    .get_mut()
                    .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    .unwrap(),
                _ => return methods,
            }
        }
    }
    methods
}

fn client(trust: &Trust) -> Client {
    let wait = Duration::from_secs(20);
    Client::new(ClientOptions {
        tls: ClientTls::load(trust).unwrap().0,
        addresses: AddressPolicy::ANY,
        connect: wait,
        first_byte: wait,
        stall: wait,
        user_agent: "test".into(),
    })
}

fn there(scheme: &str, port: u16) -> Resource {
    Resource {
        location: Location::parse(&format!("{scheme}://localhost:{port}/f")).unwrap(),
        access: Access::default(),
        side: Side::Destination,
    }
}

fn refusing() -> Order {
    Order {
        overwrite: Overwrite::Refuse,
        ..Order::default()
    }
}

async fn refusal_is_reported(scheme: &str) {
    let made = SelfSigned::localhost().unwrap();
    let server_tls = (scheme == "https").then(|| tls_server(&made.certificate, &made.key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || full_disk(&listener, server_tls.as_ref()));
    let directory = tempfile::tempdir().unwrap();
    std::fs::File::create(directory.path().join("f"))
        .unwrap()
        .set_len(SIZE)
        .unwrap();
    let trust = Trust {
        files: vec![made.certificate.clone()],
        ..Trust::default()
    };
    let (client, there) = (client(&trust), there(scheme, port));
    let store = Store::new(Arc::new(
        Posix::open(directory.path(), &PosixOptions::default()).unwrap(),
    ));
    // A kept checksum is declared, so the data need not be hashed and a thread may send the file.
    let path = LogicalPath::parse("/f").unwrap();
    store
        .checksum(&path, types::ChecksumAlgorithm::Adler32, &ClientId::own())
        .await
        .unwrap();
    let source: Arc<dyn Source> = Arc::new(StoreSource::open(&store, &path).await.unwrap());
    let sink = RemoteSink::new(&client, &there);
    let error = copy(&source, &sink, &refusing(), &Budget::new(), &Progress::new())
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.side()),
        (ErrorCode::PeerNoSpace, Side::Destination),
        "{error}"
    );
    assert!(error.public().contains("the tape robot is full"), "{error}");
    // The part may be another client's.
    let bytes = format!("{} bytes are there", SIZE / 8);
    assert!(error.public().contains(&bytes), "{error}");
    assert_eq!(server.join().unwrap(), ["HEAD", "PUT", "HEAD"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_peers_refusal_is_quoted_and_a_part_stays() {
    refusal_is_reported("http").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_refusal_is_quoted_too() {
    refusal_is_reported("https").await;
}

/// Stores what it receives in place of a file, and returns the requests and the bytes it received.
fn storing(listener: &TcpListener) -> (Vec<String>, u64) {
    let (mut methods, mut received) = (Vec::new(), 0);
    for tcp in listener.incoming().flatten() {
        let mut reader = BufReader::new(tcp);
        loop {
            let (mut head, mut line) = (String::new(), String::new());
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                head.push_str(&line.to_ascii_lowercase());
                line.clear();
            }
            let Some(method) = head.split(' ').next().filter(|method| !method.is_empty()) else {
                break;
            };
            if method == "put" {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length = length.unwrap().parse().unwrap();
                reader.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
                let mut body = Vec::new();
                // The client may reset the connection.
                let _ = (&mut reader).take(length).read_to_end(&mut body);
                received = body.len() as u64;
            }
            let is_last = method == "head" && methods.contains(&"put".to_owned());
            methods.push(method.to_owned());
            let answer = format!("HTTP/1.1 200 OK\r\nETag: \"v\"\r\nContent-Length: {received}\r\n\r\n");
            // A client that gives up does not wait for it.
            let _ = reader.get_mut().write_all(answer.as_bytes());
            if is_last {
                return (methods, received);
            }
        }
    }
    unreachable!("a listener has no end")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_while_it_is_sent_is_an_error_and_not_sent_to_its_end() {
    let bytes = 1_000_000;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || storing(&listener));
    let directory = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(directory.path().join("f")).unwrap();
    file.set_len(bytes).unwrap();
    let posix = Posix::open(directory.path(), &PosixOptions::default()).unwrap();
    let (store, path) = (Store::new(Arc::new(posix)), LogicalPath::parse("/f").unwrap());
    let source: Arc<dyn Source> = Arc::new(StoreSource::open(&store, &path).await.unwrap());
    file.set_modified(UNIX_EPOCH).unwrap();
    let other = LogicalPath::parse("/other").unwrap();
    let sinks: [Box<dyn Sink>; 3] = [
        Box::new(RemoteSink::new(&client(&Trust::default()), &there("http", port))),
        Box::new(StoreSink::new(&store, &other)),
        Box::new(OutputSink::new(tokio::io::sink())),
    ];
    for sink in sinks {
        let copied = copy(
            &source,
            sink.as_ref(),
            &Order::default(),
            &Budget::new(),
            &Progress::new(),
        )
        .await;
        let error = copied.unwrap_err();
        let fault = (error.code(), error.side(), error.subject());
        assert_eq!(fault, (ErrorCode::SourceChanged, Side::Source, Some("/f")), "{error}");
        let stays = sink.abilities().is_remote;
        assert_eq!(error.public().contains("may remain"), stays, "{error}");
    }
    assert!(store.stat(&other).await.is_err());
    let (methods, received) = server.join().unwrap();
    assert_eq!(methods, ["head", "put", "head"]);
    assert!(received < bytes);
}
