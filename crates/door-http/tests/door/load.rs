//! Many connections that do nothing, or nearly nothing, cost little and do not slow down others.

use std::time::Duration;

use net::listen::Opening;
use policy::AnonymousAccess;
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Server, export, memory};

#[tokio::test]
async fn a_waiting_connection_is_small() {
    let server = Server::open().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peer = listener.local_addr().unwrap();
    let tcp = TcpStream::connect(peer).await.unwrap();
    let task = server.door.serve_connection(tcp, Opening::Text, peer);
    let size = size_of_val(&task);
    assert!(size < 4096, "{size} bytes");
}

#[tokio::test]
async fn two_hundred_slow_senders_hinder_nobody() {
    let exports = vec![export("/data", AnonymousAccess::Write, memory())];
    let server = Server::start(exports, |settings| {
        settings.site.limits.head_timeout = Duration::from_secs(2);
    })
    .await;
    server.put("/data/f", b"abc").await;
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut client = server.connect().await;
        client.send("GET /data/f HTTP/1.1\r\nHo").await;
        slow.push(client);
    }
    let mut client = server.connect().await;
    for _ in 0..100 {
        assert_eq!(client.ask("GET /data/f\n", b"").await.body, b"abc");
    }
    for client in &mut slow {
        assert_eq!(client.answer(false).await.status, 408);
    }
    assert_eq!(client.ask("GET /data/f\n", b"").await.body, b"abc");
}

#[tokio::test]
async fn what_the_end_of_the_door_cuts_off_has_its_line() {
    let server = Server::open().await;
    // More than socket buffers hold.
    server.put("/data/f", &vec![7; 64 << 20]).await;
    let (mut reader, mut writer) = (server.connect().await, server.connect().await);
    reader.send("GET /data/f HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert!(reader.more().await > 0);
    writer
        .send("PUT /data/g HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc")
        .await;
    while server.door.connections() < 2 {
        tokio::task::yield_now().await;
    }
    server.door.shut_down(Duration::from_millis(200)).await;
    let (read, written) = (
        server.log.request("GET").await,
        server.log.named("PUT", "/data/g").await,
    );
    for record in [&read, &written] {
        let error = record.error.as_ref().expect("it was cut off");
        assert_eq!((error.code, error.side), ("cancelled", "server"), "{record:?}");
    }
    assert_eq!(read.status, Some(200));
    assert!(read.bytes_out > 0 && read.bytes_out < 64 << 20, "{read:?}");
    assert_eq!((written.status, written.bytes_in), (None, 3));
}
