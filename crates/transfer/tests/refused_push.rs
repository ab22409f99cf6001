//! A push in clear text, where the kernel sends the file: a refusal in the middle is heard and told.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use net::address::AddressPolicy;
use net::tls::{ClientTls, Trust};
use remote::{Access, Client, ClientOptions, Resource};
use storage::{Posix, PosixOptions};
use transfer::{Order, Progress, Store, push};
use types::{ErrorCode, Location, LogicalPath, Side};

/// Far more than sockets buffer, so that the sender is still busy when the answer comes.
const SIZE: u64 = 64 * 1024 * 1024;

/// Takes a part of the body, then says that there is no room; remembers which methods came.
fn full_disk(listener: &TcpListener) -> Vec<String> {
    let mut methods = Vec::new();
    for stream in listener.incoming().flatten() {
        let mut reader = BufReader::new(&stream);
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
                    (&stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
                    std::io::copy(&mut (&mut reader).take(SIZE / 8), &mut std::io::sink()).unwrap();
                    let words = "the tape robot is full";
                    let answer = format!(
                        "HTTP/1.1 507 Full\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{words}",
                        words.len()
                    );
                    (&stream).write_all(answer.as_bytes()).unwrap();
                    stream.shutdown(std::net::Shutdown::Write).unwrap();
                    // What still comes is read, so that no reset overtakes the answer.
                    let _ = std::io::copy(&mut reader, &mut std::io::sink());
                    break;
                }
                "HEAD" => (&stream)
                    .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    .unwrap(),
                _ => {
                    (&stream).write_all(b"HTTP/1.1 204 Gone\r\n\r\n").unwrap();
                    return methods;
                }
            }
        }
    }
    methods
}

#[tokio::test(flavor = "multi_thread")]
async fn the_peers_refusal_is_told_in_its_own_words_and_its_remains_are_removed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || full_disk(&listener));
    let directory = tempfile::tempdir().unwrap();
    std::fs::File::create(directory.path().join("f"))
        .unwrap()
        .set_len(SIZE)
        .unwrap();
    let (tls, _) = ClientTls::load(&Trust::default()).unwrap();
    let wait = Duration::from_secs(20);
    let client = Client::new(ClientOptions {
        tls,
        addresses: AddressPolicy::ANY,
        connect: wait,
        first_byte: wait,
        stall: wait,
        user_agent: "test".into(),
    });
    let location = Location::parse(&format!("http://127.0.0.1:{port}/f")).unwrap();
    let there = Resource {
        location,
        access: Access::default(),
        side: Side::Destination,
    };
    let store = Store::new(Arc::new(
        Posix::open(directory.path(), &PosixOptions::default()).unwrap(),
    ));
    // A kept checksum is declared, so nothing has to be hashed on the way: the kernel may send the file.
    let path = LogicalPath::parse("/f").unwrap();
    store.checksum(&path, types::ChecksumAlgorithm::Adler32).await.unwrap();
    let error = push(&client, &store, &path, &there, &Order::default(), &Progress::new())
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.side()),
        (ErrorCode::PeerNoSpace, Side::Destination),
        "{error}"
    );
    assert!(error.public().contains("the tape robot is full"), "{error}");
    assert_eq!(server.join().unwrap(), ["HEAD", "PUT", "DELETE"]);
}
