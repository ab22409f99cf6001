//! The door on loopback: who may look, what pages say, and how browsers guard them.

mod load;
mod manual;
mod queue;

use std::net::SocketAddr;
use std::sync::Arc;

use door_web::{Access, Acted, Check, EndpointFacts, EndpointPages, PageEvents, Pages, RunningCopies, Share, door};
use endpoint::{RequestLog, RequestRecord, TransferStart};
use http_server::Server;
use identity::Authenticator;
use net::listen::Acceptor;
use policy::{Rule, Who};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use transfer::Progress;

/// What a name can have in it.
const NAME: &str = "</td><script>alert(1)</script>\" onmouseover=\"x\nline\u{0}\u{202e}";

struct NoLog;

impl RequestLog for NoLog {
    fn request(&self, _: &RequestRecord) {}
}

impl PageEvents for NoLog {
    fn signed_in(&self, _: &str, _: SocketAddr) {}

    fn signed_out(&self, _: &str, _: SocketAddr) {}

    fn acted(&self, _: &Acted<'_>) {}
}

fn facts() -> EndpointFacts {
    EndpointFacts {
        checks: vec![Check {
            name: NAME.into(),
            ok: false,
            says: "It cannot be read.".into(),
        }],
        ..EndpointFacts::default()
    }
}

fn pages(is_local: bool, viewers: Vec<Rule>) -> Pages {
    let address = if is_local { "127.0.0.1:8450" } else { "192.0.2.1:8450" };
    let viewers = Box::new(move || viewers.clone());
    Pages {
        server: "se.example".to_owned(),
        program: "crossload/test".to_owned(),
        access: Access::new(
            address.parse().unwrap(),
            Authenticator::default(),
            viewers,
            Box::new(Vec::new),
            Arc::new(NoLog),
        ),
        endpoint: Some(EndpointPages {
            facts: Box::new(|| Box::pin(std::future::ready(facts()))),
            explain: Box::new(|_| Box::pin(std::future::ready(Ok(Vec::new())))),
            copies: RunningCopies::default(),
            shares: Box::new(|| {
                vec![Share {
                    name: "open_files",
                    in_use: 3,
                    limit: 10,
                }]
            }),
        }),
        queue: None,
        cluster: None,
        runs: None,
        manual: None,
    }
}

fn open(pages: Pages) -> SocketAddr {
    let server = Server::new("crossload/test", Arc::new(NoLog));
    let door = door(server, pages);
    let listener = net::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = Acceptor::new(listener.into_std().unwrap()).unwrap();
    tokio::spawn(async move { door.accept(acceptor).await });
    address
}

/// Head and body of the answer.
async fn ask(address: SocketAddr, request: &str, host: &str, more: &str) -> (String, String) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("{request} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_ascii_lowercase(), body.to_owned())
}

fn rule(who: &str) -> Rule {
    Rule {
        who: vec![Who::parse(who).unwrap()],
        ..Rule::default()
    }
}

#[tokio::test]
async fn names_stay_text_in_a_page_that_browsers_guard() {
    let address = open(pages(true, Vec::new()));
    let (head, body) = ask(address, "GET /endpoint", "localhost:1", "").await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    for line in [
        "content-type: text/html; charset=utf-8",
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src 'self'; frame-ancestors 'none'",
        "referrer-policy: no-referrer",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ] {
        assert!(head.contains(line), "{line}\n{head}");
    }
    assert!(!head.contains("strict-transport-security"), "in clear text");
    assert!(!body.contains("<script>") && !body.contains("\" onmouseover"), "{body}");
    assert!(!body.contains(['\u{0}', '\u{202e}']), "{body}");
    assert!(body.contains("\\x0aline\\x00\\u{202e}"), "{body}");
    assert!(!body.contains("style=") && !body.contains("<style"), "nothing inline");
    let (head, body) = ask(address, "GET /endpoint", "localhost", "Accept: application/json\r\n").await;
    assert!(head.contains("content-type: application/json"), "{head}");
    let document: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(document["checks"][0]["name"], NAME);
}

#[tokio::test]
async fn what_is_refused_is_a_page_too() {
    let address = open(pages(true, Vec::new()));
    for (request, status) in [
        ("GET /none", "404"),
        ("POST /endpoint", "405"),
        ("GET /endpoint/x", "404"),
    ] {
        let (head, body) = ask(address, request, "127.0.0.1", "").await;
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{head}");
        assert!(
            head.contains("text/html") && head.contains("default-src 'none'"),
            "{head}"
        );
        assert!(body.contains("<h1>Refused</h1>"), "{body}");
    }
    let (head, body) = ask(address, "GET /none", "127.0.0.1", "Accept: application/json\r\n").await;
    assert!(
        head.starts_with("http/1.1 404") && head.contains("content-type: application/json"),
        "{head}"
    );
    let document: serde_json::Value = serde_json::from_str(&body).unwrap();
    let error = &document["error"];
    assert_eq!(
        (&error["code"], &error["side"], &error["phase"]),
        (&"not_found".into(), &"client".into(), &"open".into()),
        "{body}"
    );
    let name = error["request_id"].as_str().unwrap();
    assert!(
        !name.is_empty() && head.contains(&name.to_ascii_lowercase()),
        "{head}\n{body}"
    );
    assert!(error["message"].is_string() && error["advice"].is_string(), "{body}");
    let (head, body) = ask(address, "GET /", "127.0.0.1", "").await;
    assert!(
        head.starts_with("http/1.1 303") && head.contains("location: /"),
        "{head}\n{body}"
    );
}

#[tokio::test]
async fn a_foreign_name_for_this_machine_is_refused() {
    let address = open(pages(true, Vec::new()));
    for host in ["evil.example", "evil.example:8450"] {
        let (head, body) = ask(address, "GET /endpoint", host, "").await;
        assert!(head.starts_with("http/1.1 421"), "{head}");
        assert!(!body.contains("cannot be read"), "{body}");
    }
}

#[tokio::test]
async fn viewers_sign_in_and_clear_text_is_for_this_machine() {
    let address = open(pages(true, vec![rule("authenticated")]));
    let (head, body) = ask(address, "GET /endpoint", "localhost", "").await;
    assert!(head.starts_with("http/1.1 401"), "{head}");
    assert!(!body.contains("cannot be read"), "{body}");
    assert!(
        body.contains("action=\"/sign-in\"") && body.contains("value=\"/endpoint\""),
        "{body}"
    );
    let (head, body) = ask(address, "GET /endpoint", "localhost", "Accept: application/json\r\n").await;
    assert!(
        head.starts_with("http/1.1 401") && head.contains("www-authenticate: bearer"),
        "{head}"
    );
    let document: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(document["error"]["code"], "unauthenticated", "{body}");
    let (head, _) = ask(address, "GET /style.css", "localhost", "").await;
    assert!(head.starts_with("http/1.1 200") && head.contains("text/css"), "{head}");
    let address = open(pages(false, vec![rule("authenticated")]));
    let (head, body) = ask(address, "GET /endpoint?a=b", "se.example:8450", "").await;
    assert!(head.starts_with("http/1.1 308"), "{head}");
    assert!(
        head.contains("location: https://se.example:8450/endpoint?a=b"),
        "{head}"
    );
    assert!(body.is_empty(), "{body}");
}

#[tokio::test]
async fn without_an_issuer_there_is_no_sign_in_at_one() {
    let address = open(pages(true, vec![rule("authenticated")]));
    let (_, body) = ask(address, "GET /now", "localhost", "").await;
    assert!(!body.contains("/sign-in/issuer"), "{body}");
    for place in ["/sign-in/issuer?back=/now", "/sign-in/issuer/return?code=a&state=b"] {
        let (head, body) = ask(address, &format!("GET {place}"), "localhost", "").await;
        assert!(head.starts_with("http/1.1 404"), "{place}: {head}");
        assert!(!head.contains("set-cookie"), "{head}");
        assert!(!body.contains("code=a"), "{body}");
    }
}

fn copies_of(pages: &Pages) -> RunningCopies {
    pages.endpoint.as_ref().unwrap().copies.clone()
}

/// Begins a copy with this name.
fn begin(copies: &RunningCopies, id: &str, path: &str) -> Arc<Progress> {
    let progress = Arc::new(Progress::new());
    let start = TransferStart {
        transfer_id: id.to_owned(),
        request_id: "r".to_owned(),
        mode: "pull",
        path: path.to_owned(),
        remote: "https://far.example/f".to_owned(),
        client: "192.0.2.7:1000".parse().unwrap(),
        ordered_by: telemetry::Client {
            spoken: telemetry::Spoken::Http,
            peer: "192.0.2.7:1000".parse().unwrap(),
            local: None,
            user: String::new(),
            program: String::new(),
            credential: "token",
            subject: "jane".to_owned(),
            issuer: String::new(),
            organisation: String::new(),
        },
        own_scheme: "https",
        credential: "token",
        subject: Some("jane".to_owned()),
        peer_credential: None,
        client_info: None,
        traceparent: String::new(),
        parent_span: None,
        scitag: None,
    };
    copies.begin(&start, &progress);
    progress
}

#[tokio::test]
async fn running_copies_are_a_page_and_json() {
    let pages = pages(true, Vec::new());
    let copies = copies_of(&pages);
    let address = open(pages);
    let progress = begin(&copies, "t1", NAME);
    progress.set_total(4096);
    progress.add_moved(1024);
    begin(&copies, "t2", "/other");
    let (head, body) = ask(address, "GET /now", "localhost", "").await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    for shown in [
        "1.0 KiB of 4.0 KiB",
        "https://far.example/f",
        "jane",
        "open files",
        "/other",
    ] {
        assert!(body.contains(shown), "{shown}\n{body}");
    }
    assert!(
        !body.contains("<script>") && !body.contains(['\u{0}', '\u{202e}']),
        "{body}"
    );
    let (_, body) = ask(address, "GET /now?q=OTHER", "localhost", "").await;
    assert!(body.contains("t2") && !body.contains("t1"), "{body}");
    let (_, body) = ask(address, "GET /now", "localhost", "Accept: application/json\r\n").await;
    let document: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(document["totals"]["running"], 2, "{document}");
    let found = document["copies"]
        .as_array()
        .unwrap()
        .iter()
        .find(|copy| copy["transfer_id"] == "t1");
    let found = found.expect("the first copy");
    assert_eq!((&found["to"], &found["bytes"]), (&NAME.into(), &1024.into()));
    assert_eq!(document["shares"]["open_files"]["in_use"], 3);
}

/// The next event of a stream, without comments: its lines.
async fn event(reader: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> Vec<String> {
    use tokio::io::AsyncBufReadExt as _;
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        assert!(
            reader.read_line(&mut line).await.unwrap() > 0,
            "the stream has ended: {lines:?}"
        );
        let line = line.trim_end_matches(['\r', '\n']);
        match line {
            "" if !lines.is_empty() => return lines,
            // The sizes of pieces, heads and comments stand between the lines of events.
            _ if line.starts_with("event:") || line.starts_with("data:") => lines.push(line.to_owned()),
            _ => {}
        }
    }
}

#[tokio::test]
async fn open_pages_follow_and_a_name_makes_no_event() {
    let pages = pages(true, Vec::new());
    let copies = copies_of(&pages);
    let address = open(pages);
    begin(&copies, "t1", "/a\n\nevent: table\ndata: {}\n\n");
    let socket = TcpStream::connect(address).await.unwrap();
    let (reader, mut writer) = socket.into_split();
    let mut reader = tokio::io::BufReader::new(reader);
    let request = b"GET /now/events?q=&sort=age HTTP/1.1\r\nHost: localhost\r\n\r\n";
    writer.write_all(request).await.unwrap();
    let first = event(&mut reader).await;
    assert_eq!((first.len(), first[0].as_str()), (2, "event: table"), "{first:?}");
    assert!(
        first[1].contains("<tr data-id") && first[1].contains("\"order\":[\"t1\"]"),
        "{first:?}"
    );
    begin(&copies, "t2", "/b");
    let second = event(&mut reader).await;
    assert!(second[1].contains("\"order\":[\"t1\",\"t2\"]"), "{second:?}");
    assert!(
        !second[1].contains("\"t1\",\"html\""),
        "it is there already: {second:?}"
    );
    copies.end("t1");
    let third = event(&mut reader).await;
    assert!(third[1].contains("\"order\":[\"t2\"]"), "{third:?}");
}

/// Head and body of the answer to a form.
async fn send(address: SocketAddr, path: &str, more: &str, form: &str) -> (String, String) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let length = form.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{more}Connection: close\r\n\r\n{form}"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_ascii_lowercase(), body.to_owned())
}

#[tokio::test]
async fn without_operators_everything_stays_read_only() {
    let pages = pages(true, Vec::new());
    let copies = copies_of(&pages);
    let address = open(pages);
    begin(&copies, "t1", "/a");
    for path in ["/now/cancel", "/queue/cancel", "/queue/drain"] {
        let (head, body) = send(address, path, "", "id=t1&worker=w&form=0").await;
        assert!(head.starts_with("http/1.1 403"), "{path}: {head}");
        assert!(body.contains("[web] operators does not name this client"), "{body}");
        let (head, _) = ask(address, &format!("GET {path}?id=t1"), "localhost", "").await;
        assert!(head.starts_with("http/1.1 403"), "{path}: {head}");
    }
    let (head, _) = send(address, "/now/cancel", "Cookie: crossload-8450=0\r\n", "id=t1").await;
    assert!(head.starts_with("http/1.1 403"), "{head}");
    let (head, _) = send(address, "/now/cancel", "Authorization: Bearer a.b.c\r\n", "id=t1").await;
    assert!(head.starts_with("http/1.1 401"), "{head}");
    let (head, _) = send(address, "/sign-in", "", "token=a.b.c").await;
    assert!(head.starts_with("http/1.1 401"), "{head}");
    let (_, page) = ask(address, "GET /now", "localhost", "").await;
    assert!(page.contains("t1") && !page.contains("/now/cancel"), "{page}");
    assert!(!page.contains("/sign-in"), "{page}");
}
