//! The server as a node of a cluster: who learns about it, the changes that listeners get, orders,
//! and what a drained server refuses.

use std::sync::{Arc, Mutex};

use cluster::director::Director;
use cluster::fixed::{FixedNode, FixedNodes};
use cluster::node::{NodeConfig, NodeId, Status};
use cluster::redirector::Redirector;
use door_http::limits::NODE_LISTENERS_MAX;
use door_http::{Node, OrderFuture};
use endpoint::Requester;
use policy::{AnonymousAccess, Drain};
use serde_json::Value;
use storage::Memory;
use types::{Location, LogicalPath};

use crate::harness::{Raw, Server, client, export, memory};

const NODE: &str = "/.well-known/crossload-node";

/// A node that shows itself to everyone, or to no one.
#[derive(Default)]
struct TestNode {
    is_shown: bool,
    takes_orders: bool,
    is_redirector: bool,
    orders: Mutex<Vec<Drain>>,
}

impl Node for TestNode {
    fn may_look(&self, _requester: Requester<'_>) -> bool {
        self.is_shown
    }

    fn may_order(&self, _requester: Requester<'_>) -> bool {
        self.takes_orders
    }

    fn is_redirector(&self) -> bool {
        self.is_redirector
    }

    fn announcement(&self) -> Arc<str> {
        format!("{{\"transfers\":{}}}", self.orders.lock().unwrap().len()).into()
    }

    fn order<'a>(&'a self, drain: Drain, orderer: &'a str) -> OrderFuture<'a> {
        assert_eq!(orderer, "127.0.0.1");
        self.orders.lock().unwrap().push(drain);
        Box::pin(async { Ok(()) })
    }
}

async fn start(node: TestNode, storage: Memory) -> (Server, Arc<TestNode>) {
    let node = Arc::new(node);
    let own = node.clone();
    let exports = vec![export("/data", AnonymousAccess::Write, storage)];
    let server = Server::start(exports, |settings| settings.node = Some(own)).await;
    (server, node)
}

fn shown() -> TestNode {
    TestNode {
        is_shown: true,
        ..TestNode::default()
    }
}

/// The next line of a stream.
async fn next(raw: &mut Raw) -> Value {
    let line = raw.chunk().await;
    assert_eq!(line.last(), Some(&b'\n'), "a whole line");
    serde_json::from_slice(&line).unwrap()
}

/// The next line that is no status.
async fn next_change(raw: &mut Raw) -> Value {
    loop {
        let line = next(raw).await;
        if line.get("status").is_none() {
            return line;
        }
    }
}

async fn listen(server: &Server) -> Raw {
    let mut raw = server.connect().await;
    raw.send(format!("GET {NODE}?changes=1 HTTP/1.1\r\nHost: test\r\n\r\n"))
        .await;
    let head = raw.head().await;
    assert_eq!(
        (head.status, head.header("Content-Type")),
        (200, Some("application/jsonl"))
    );
    // From here on, changes are noticed.
    assert_eq!(next(&mut raw).await["status"]["transfers"], 0);
    raw
}

#[tokio::test]
async fn the_status_is_shown_to_those_who_may_see_it() {
    let (server, _) = start(TestNode::default(), memory()).await;
    for request in [NODE.to_owned(), format!("{NODE}?changes=1")] {
        assert_eq!(server.ask(&format!("GET {request}\n"), b"").await.status, 401);
    }
    let (server, _) = start(shown(), memory()).await;
    let told = server.ask(&format!("GET {NODE}\n"), b"").await;
    assert_eq!((told.status, told.text()), (200, "{\"transfers\":0}".to_owned()));
    assert_eq!(told.header("Cache-Control"), Some("no-store"));
    assert_eq!(server.ask(&format!("HEAD {NODE}\n"), b"").await.status, 200);
    let none = Server::open().await;
    assert_eq!(none.ask(&format!("GET {NODE}\n"), b"").await.status, 404);
}

#[tokio::test]
async fn a_listener_learns_of_every_change_at_once() {
    let (server, _) = start(shown(), memory()).await;
    let mut raw = listen(&server).await;
    server.put("/data/f", b"1").await;
    let changed = |files: &[&str], directories: &[&str], gone: &[&str]| serde_json::json!({"changed": {"files": files, "directories": directories, "gone": gone}});
    assert_eq!(next_change(&mut raw).await, changed(&["/data/f"], &[], &[]));
    server.ask("DELETE /data/f\n", b"").await;
    assert_eq!(next_change(&mut raw).await, changed(&[], &[], &["/data/f"]));
    // A redirector sent a client for it and did not know: the client must ask there again.
    let missed = server.ask("GET /data/f?crossload.redirect=a1\n", b"").await;
    assert_eq!((missed.status, missed.header("Retry-After")), (503, Some("1")));
    assert!(missed.text().contains("[not_here]"), "{}", missed.text());
    assert_eq!(next_change(&mut raw).await, changed(&[], &[], &["/data/f"]));
    // Of any other client, listeners hear nothing.
    assert_eq!(server.ask("GET /data/f\n", b"").await.status, 404);
    server.ask("MKCOL /data/d\n", b"").await;
    assert_eq!(next_change(&mut raw).await, changed(&[], &["/data/d"], &[]));
    server.put("/data/d/f", b"1").await;
    assert_eq!(next_change(&mut raw).await, changed(&["/data/d/f"], &[], &[]));
    // All names below it are others now.
    server.ask("MOVE /data/d\nDestination: /data/e\n", b"").await;
    while next_change(&mut raw).await["forget"] != "a directory was renamed" {}
    // Another status comes by itself.
    while next(&mut raw).await.get("status").is_none() {}
    // The stream ends properly with the door.
    let closing = server.door.clone();
    let closed = tokio::spawn(async move { closing.shut_down(std::time::Duration::from_secs(20)).await });
    while !raw.chunk().await.is_empty() {}
    drop(raw);
    closed.await.unwrap();
}

#[tokio::test]
async fn there_is_room_for_so_many_listeners() {
    let (server, _) = start(shown(), memory()).await;
    let mut held = Vec::new();
    for _ in 0..NODE_LISTENERS_MAX {
        held.push(listen(&server).await);
    }
    let request = format!("GET {NODE}?changes=1\n");
    assert_eq!(server.ask(&request, b"").await.status, 503);
    // One that has gone makes room.
    held.pop();
    loop {
        let mut raw = server.connect().await;
        raw.send(format!("GET {NODE}?changes=1 HTTP/1.1\r\nHost: test\r\n\r\n"))
            .await;
        if raw.head().await.status == 200 {
            break;
        }
    }
}

#[tokio::test]
async fn an_order_is_taken_from_operators_only_and_only_as_json() {
    let (server, node) = start(shown(), memory()).await;
    let order = format!("POST {NODE}\nContent-Type: application/json\n");
    assert_eq!(server.ask(&order, b"{\"drain\":\"no_reads\"}").await.status, 401);
    assert!(node.orders.lock().unwrap().is_empty());
    let operated = TestNode {
        takes_orders: true,
        ..shown()
    };
    let (server, node) = start(operated, memory()).await;
    let told = server.ask(&order, b"{\"drain\":\"no_reads\"}").await;
    assert_eq!((told.status, told.text()), (200, "{\"transfers\":1}".to_owned()));
    assert_eq!(*node.orders.lock().unwrap(), [Drain::NoReads]);
    for wrong in ["{\"drain\":\"empty\"}", "{}", "no_reads", "[1"] {
        assert_eq!(server.ask(&order, wrong.as_bytes()).await.status, 400, "{wrong}");
    }
    let form = format!("POST {NODE}\nContent-Type: text/plain\n");
    assert_eq!(server.ask(&form, b"{\"drain\":\"active\"}").await.status, 415);
    let long = vec![b' '; door_http::limits::NODE_ORDER_BYTES_MAX + 1];
    assert_eq!(server.ask(&order, &long).await.status, 413);
    assert_eq!(node.orders.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_drained_server_refuses_what_is_new_and_lets_clients_finish_and_remove() {
    let server = Server::open().await;
    for name in ["f", "g"] {
        server.put(&format!("/data/{name}"), b"1").await;
    }
    // An upload that has begun.
    let mut running = server.connect().await;
    running
        .send("PUT /data/late HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        .await;
    assert_eq!(running.head().await.status, 100);
    let status = async |head: &str| server.ask(head, b"").await.status;
    server.exports.current().drain_gate().set(Drain::NoWrites);
    let refused = server.ask("PUT /data/new\n", b"x").await;
    assert_eq!((refused.status, refused.header("Retry-After")), (503, Some("10")));
    assert!(refused.text().contains("[draining]"), "{}", refused.text());
    assert_eq!(status("MKCOL /data/d\n").await, 503);
    // A second copy of it elsewhere would be another file of the same name.
    assert_eq!(status("PUT /data/f\n").await, 204);
    assert_eq!(status("COPY /data/f\nDestination: /data/h\n").await, 503);
    assert_eq!(status("COPY /data/h\nSource: http://127.0.0.1:1/x\n").await, 503);
    assert_eq!(status("GET /data/f\n").await, 200);
    server.exports.current().drain_gate().set(Drain::NoReads);
    assert_eq!(status("GET /data/f\n").await, 503);
    assert_eq!(status("PUT /data/f\n").await, 503);
    assert_eq!(status("HEAD /data/f\n").await, 200);
    assert_eq!(status("DELETE /data/g\n").await, 204);
    running.send("late").await;
    assert_eq!(running.head().await.status, 201);
    server.exports.current().drain_gate().set(Drain::Active);
    assert_eq!(status("GET /data/late\n").await, 200);
}

#[tokio::test]
async fn a_redirector_says_to_everybody_what_it_is() {
    let redirector = TestNode {
        is_redirector: true,
        ..TestNode::default()
    };
    let (server, _) = start(redirector, memory()).await;
    let answer = server.ask(&format!("GET {NODE}\n"), b"").await;
    assert_eq!(
        (answer.status, answer.text()),
        (200, "{\"role\":\"redirector\"}".to_owned())
    );
}

/// A redirector in front of these servers; the first is slightly busy.
fn redirector(servers: &[Server]) -> Redirector {
    let located = |server: &Server| Location::parse(&server.url("")).unwrap();
    let fixed = servers
        .iter()
        .map(|server| FixedNode::at(located(server), remote::Access::default()));
    let nodes = FixedNodes::new(client(), fixed);
    let configs = servers.iter().map(|server| NodeConfig {
        name: server.url(""),
        exports: vec![LogicalPath::root()],
        site: None,
        weight: 1.0,
    });
    let director = Arc::new(Director::new(configs, Arc::new(nodes.clone()), 1 << 16));
    for (number, transfers) in [(0, 13), (1, 0)] {
        let status = Status {
            transfers,
            ..Status::default()
        };
        director.told(NodeId(number), Some(status));
    }
    Redirector::new(director, nodes)
}

#[tokio::test]
async fn the_load_of_nodes_is_for_those_who_may_see_the_status() {
    let nodes = [Server::open().await, Server::open().await];
    for node in &nodes {
        node.put("/data/f", b"1").await;
    }
    let redirector = redirector(&nodes);
    for is_shown in [true, false] {
        let node = TestNode {
            is_shown,
            ..TestNode::default()
        };
        let mut export = export("/data", AnonymousAccess::Write, memory());
        export.store = redirector.store(&export.rules.path);
        let server = Server::start(vec![export], |settings| settings.node = Some(Arc::new(node))).await;
        let why = server
            .ask("GET /.well-known/crossload-why?path=/data/f&refresh=1\n", b"")
            .await;
        let told = why.text();
        assert!(
            told.contains(&format!("less busy than {}", nodes[0].url(""))) != is_shown,
            "{told}"
        );
        assert_eq!(told.contains("less busy (0.00) than"), is_shown, "{told}");
        assert_eq!(told.contains("(0.20)"), is_shown, "{told}");
    }
}
