//! Connections: one request after the other, slow and malformed ones, limits, and closing the door.

use std::time::Duration;

use policy::AnonymousAccess;

use crate::harness::{Server, export, head_text, memory, soon};

#[tokio::test]
async fn requests_that_come_at_once_are_answered_in_order() {
    let server = Server::open().await;
    server.put("/data/a", b"first").await;
    server.put("/data/b", b"second").await;
    let mut client = server.connect().await;
    let mut all = head_text("GET /data/a\n", None);
    all.push_str(&head_text("PUT /data/c\n", Some(5)));
    all.push_str("third");
    all.push_str(&head_text("GET /data/b\n", None));
    all.push_str(&head_text("GET /data/c\n", None));
    client.send(all).await;
    assert_eq!(client.answer(false).await.body, b"first");
    assert_eq!(client.answer(false).await.status, 201);
    assert_eq!(client.answer(false).await.body, b"second");
    assert_eq!(client.answer(false).await.body, b"third");
}

#[tokio::test]
async fn the_older_version_is_closed_unless_it_asks_otherwise() {
    let server = Server::open().await;
    server.put("/data/a", b"x").await;
    let mut client = server.connect().await;
    client
        .send("GET /data/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        .await;
    let kept = client.answer(false).await;
    assert_eq!((kept.status, kept.header("Connection")), (200, Some("keep-alive")));
    client.send("PROPFIND /data HTTP/1.0\r\nDepth: 1\r\n\r\n").await;
    let listed = client.answer(false).await;
    assert_eq!((listed.status, listed.header("Transfer-Encoding")), (207, None));
    assert!(listed.text().ends_with("</D:multistatus>\n"));
    let mut client = server.connect().await;
    client
        .send("GET /data/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await;
    assert_eq!(client.answer(false).await.header("Connection"), Some("close"));
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn absolute_targets_doubled_slashes_and_queries_are_taken() {
    let server = Server::open().await;
    server.put("/data/a", b"x").await;
    for target in ["http://other/data/a", "//data//a", "/data/a?x=y&z", "/%64ata/./a"] {
        assert_eq!(server.ask(&format!("GET {target}\n"), b"").await.body, b"x", "{target}");
    }
}

#[tokio::test]
async fn malformed_requests_are_refused_and_the_connection_closed() {
    let server = Server::open().await;
    server.put("/data/a", b"x").await;
    let broken = [
        "GET /data/a HTTP/1.1\r\n\r\n",
        "GET /data/a HTTP/1.1\nHost: x\n\n",
        "GET /data/a HTTP/1.1\r\nHost : x\r\n\r\n",
        "GET /data/a HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        "GET /data/a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        "GET /data/a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "GET /data/a HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n",
        "PUT /data/n HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "PUT /data/n HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "PUT /data/n HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n",
        "PUT /data/n HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "nonsense\r\n\r\n",
    ];
    for text in broken {
        let mut client = server.connect().await;
        client.send(text).await;
        let answer = client.answer(false).await;
        assert_eq!(
            (answer.status, answer.header("Connection")),
            (400, Some("close")),
            "{text:?}"
        );
        assert!(client.is_closed().await, "{text:?}");
    }
    let mut client = server.connect().await;
    client
        .send(format!(
            "GET /data/a HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
            "y".repeat(40_000)
        ))
        .await;
    assert_eq!(client.answer(false).await.status, 431);
    assert_eq!(server.ask("HEAD /data/n\n", b"").await.status, 404);
    assert_eq!(server.ask("GET /data/a\n", b"").await.body, b"x");
}

#[tokio::test]
async fn a_head_that_drips_in_is_given_up() {
    let exports = vec![export("/data", AnonymousAccess::Write, memory())];
    let server = Server::start(exports, |settings| {
        settings.site.limits.head_timeout = Duration::from_millis(50);
    })
    .await;
    let mut client = server.connect().await;
    client.send("GET /data HTTP/1.1\r\nHost").await;
    let answer = client.answer(false).await;
    assert_eq!((answer.status, answer.header("Connection")), (408, Some("close")));
    assert!(client.is_closed().await);
    assert_eq!(server.log.request("-").await.status, Some(408));
}

#[tokio::test]
async fn an_idle_connection_is_closed_without_a_word() {
    let exports = vec![export("/data", AnonymousAccess::Write, memory())];
    let server = Server::start(exports, |settings| {
        settings.site.limits.idle = Duration::from_millis(50)
    })
    .await;
    let mut client = server.connect().await;
    assert_eq!(client.ask("OPTIONS *\n", b"").await.status, 200);
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn a_long_unread_body_costs_its_connection_only() {
    let server = Server::open().await;
    let mut client = server.connect().await;
    let answer = client.ask("PUT /nowhere/f\n", &vec![0; 2_000_000]).await;
    assert_eq!((answer.status, answer.header("Connection")), (404, Some("close")));
    let short = server.ask("PUT /nowhere/f\n", &[0; 1000]).await;
    assert_eq!((short.status, short.header("Connection")), (404, None));
}

#[tokio::test]
async fn a_closing_door_finishes_what_is_under_way() {
    let server = Server::open().await;
    let mut idle = server.connect().await;
    assert_eq!(idle.ask("OPTIONS *\n", b"").await.status, 200);
    let mut busy = server.connect().await;
    busy.send(head_text("PUT /data/f\nExpect: 100-continue\n", Some(3)))
        .await;
    assert_eq!(busy.answer(false).await.status, 100);
    let door = server.door.clone();
    let closing = tokio::spawn(async move { door.shut_down(Duration::from_secs(30)).await });
    assert!(idle.is_closed().await);
    busy.send("abc").await;
    let answer = busy.answer(false).await;
    assert_eq!((answer.status, answer.header("Connection")), (201, Some("close")));
    assert!(busy.is_closed().await);
    drop(busy);
    soon(closing).await.unwrap();
    assert_eq!(server.door.connections(), 0);
}

#[tokio::test]
async fn records_tell_what_happened_without_any_secret() {
    let server = Server::open().await;
    server.put("/data/f", b"abc").await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let head = format!(
        "GET /data/f?authz=secret\nAuthorization: Bearer hunter2\nClientInfo: job=7\nUser-Agent: me/1\ntraceparent: {trace}\n"
    );
    let answer = server.ask(&head, b"").await;
    let record = server.log.request("GET").await;
    assert_eq!(Some(record.request_id.as_str()), answer.header("X-Request-Id"));
    assert_eq!((record.status, record.path.as_str()), (Some(401), "/data/f"));
    assert_eq!((record.credential, record.security), ("invalid", "clear"));
    assert_eq!(record.error.as_ref().unwrap().code, "invalid_token");
    assert_eq!(record.user_agent.as_deref(), Some("me/1"));
    assert_eq!(record.client_info.as_deref(), Some("job=7"));
    let told = record.traceparent.clone().unwrap();
    assert!(told.starts_with(&trace[..36]) && told != trace);
    let line = serde_json::to_string(&record).unwrap();
    assert!(!line.contains("secret") && !line.contains("hunter2"), "{line}");
    let stored = server.log.request("PUT").await;
    assert_eq!((stored.bytes_in, stored.committed_us.is_some()), (3, true));
}

/// Sends every input of the fuzzers' corpus to an open door: it answers or closes, and goes on
/// serving others.
#[tokio::test]
async fn nothing_of_the_fuzzers_corpus_harms_the_door() {
    let server = Server::open().await;
    server.put("/data/a", b"x").await;
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/http-request-head");
    let mut sent = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let mut client = server.connect().await;
        client.send(&bytes).await;
        client.end().await;
        sent += 1;
        assert_eq!(server.ask("GET /data/a\n", b"").await.body, b"x");
    }
    assert!(sent > 5, "{sent}");
}
