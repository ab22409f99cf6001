//! A push of a long file by a thread: a refusal in the middle is noticed and reported, in clear
//! text and encrypted.

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
use transfer::{Budget, Order, Progress, RemoteSink, Source, StoreSource, copy};
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
    let (tls, _) = ClientTls::load(&trust).unwrap();
    let wait = Duration::from_secs(20);
    let client = Client::new(ClientOptions {
        tls,
        addresses: AddressPolicy::ANY,
        connect: wait,
        first_byte: wait,
        stall: wait,
        user_agent: "test".into(),
    });
    let location = Location::parse(&format!("{scheme}://localhost:{port}/f")).unwrap();
    let there = Resource {
        location,
        access: Access::default(),
        side: Side::Destination,
    };
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
    let order = Order {
        overwrite: Overwrite::Refuse,
        ..Order::default()
    };
    let error = copy(&source, &sink, &order, &Budget::new(), &Progress::new())
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
