//! A redirector that judges for its nodes: what a client gets there, and what it is good for.

use std::sync::Arc;
use std::time::Duration;

use credentials::SealingKey;
use credentials::capability::{Audience, Capability, CapabilityUse, Presented};
use endpoint::clock::now_s;
use endpoint::{Direction, Exports, HandOver, HandOverSettings, OtherServers, Relayed, SharedSpace, Target, Wanted};
use net::tls::ServerTls;
use policy::{AnonymousAccess, Area, Rule, parse_given};
use remote::{Access, Resource, ServiceCall, ServiceMethod};
use serde_json::Value;
use storage::{Answer as Told, WriteHandle};
use testkit::SelfSigned;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, LogicalPath, Phase, Secret, Side};

use crate::harness::{Answer, Server, client, export, head_text, macaroon, memory};

const NODE: &str = "http://d1.example.org:1094";

/// One node that has all files.
struct OneNode {
    /// Its URL, before the names that clients use.
    root: String,
    is_ours: bool,
}

fn unused<T: Send + 'static>() -> Told<'static, T> {
    Box::pin(async { Err(Error::new(ErrorCode::NotImplemented, Side::Active, Phase::Open)) })
}

impl OtherServers for OneNode {
    fn direct<'a>(&'a self, wanted: &'a Wanted<'a>) -> Told<'a, Direction> {
        let root = Location::parse(&self.root).unwrap();
        let target = Target {
            location: Location::parse(&format!("{}{}", self.root, wanted.path)).unwrap(),
            endpoint: Box::new(root),
            is_ours: self.is_ours,
            exists: true,
            number: 0,
            node: "d1".into(),
        };
        Box::pin(async { Ok(Direction::Server(target)) })
    }

    fn locate<'a>(&'a self, _wanted: &'a Wanted<'a>) -> Told<'a, Vec<Target>> {
        unused()
    }

    fn relay<'a>(&'a self, _relayed: &'a Relayed<'a>) -> Told<'a, Arc<dyn WriteHandle>> {
        unused()
    }

    fn space<'a>(&'a self, _path: &'a LogicalPath) -> Told<'a, SharedSpace> {
        unused()
    }

    fn may_return(&self, _path: &LogicalPath) -> bool {
        false
    }

    fn checksum<'a>(&'a self, _: &'a Target, _: Location, _: ChecksumAlgorithm) -> Told<'a, Checksum> {
        unused()
    }

    fn explain<'a>(&'a self, _: &'a Wanted<'a>, _: bool) -> Told<'a, Value> {
        unused()
    }
}

fn hand_over(accept_as: Option<String>) -> Option<Arc<HandOver>> {
    // Nothing that was issued before a start is honoured.
    hand_over_since(now_s() - 3600, accept_as)
}

/// The same of a server that started at this time, in seconds since 1970.
fn hand_over_since(started_s: i64, accept_as: Option<String>) -> Option<Arc<HandOver>> {
    let settings = HandOverSettings {
        key: SealingKey::new(b"shared"),
        target: None,
        to_nodes: accept_as.is_none(),
        accept_as,
        lifetime: Duration::from_secs(60),
        bind_address: true,
        minimum_bytes: 0,
        reads: false,
        writes: false,
    };
    Some(Arc::new(HandOver::started_at(settings, started_s)))
}

/// A node below this path of its own that lets anonymous clients do nothing, with a file.
async fn node(prefix: &str) -> Server {
    node_since(now_s() - 3600, prefix).await
}

/// The same, which started at this time.
async fn node_since(started_s: i64, prefix: &str) -> Server {
    let listed = vec![export(&format!("{prefix}/data"), AnonymousAccess::Write, memory())];
    let open = Server::start(listed, |_| {}).await;
    open.put(&format!("{prefix}/data/f"), b"content").await;
    let mut closed = open.exports.current().list()[0].clone();
    closed.rules.anonymous = AnonymousAccess::None;
    Server::start(vec![closed], |settings| {
        settings.hand_over = hand_over_since(started_s, Some(NODE.into()))
    })
    .await
}

/// A redirector whose clients may do this with all files, and have them from a node at this URL.
async fn redirector(may: &[&str], root: &str, is_ours: bool) -> Server {
    let mut export = export("/data", AnonymousAccess::None, memory());
    let root = root.to_owned();
    export.store = export.store.at(Arc::new(OneNode { root, is_ours }));
    let made = SelfSigned::localhost().unwrap();
    let server = Server::start(vec![export], |settings| {
        settings.hand_over = hand_over(None);
        settings.site.tls = Some(ServerTls::load(&made.certificate, &made.key).unwrap());
    })
    .await;
    let rules = may.iter().map(|word| Rule {
        area: Area::parse("/data").unwrap(),
        may: parse_given(word).unwrap(),
        ..Rule::default()
    });
    let list = server.exports.current().list().to_vec();
    server.exports.replace(Exports::with_rules(list, rules.collect()));
    server
}

/// Where an answer leads: path and query at the node.
fn led(answer: &Answer) -> &str {
    assert_eq!(answer.status, 307, "{answer:?}");
    answer.header("Location").unwrap().strip_prefix(NODE).unwrap()
}

#[tokio::test]
async fn a_head_leads_to_no_more_than_the_client_may_do() {
    let node = node("").await;
    // davix sends GET to where HEAD was redirected, and may if its client may.
    for (may, read) in [("stat", 403), ("create", 403), ("read", 200)] {
        let redirector = redirector(&[may], NODE, true).await;
        let answer = redirector.ask("HEAD /data/f\n", b"").await;
        let place = led(&answer);
        let seen = node.ask(&format!("HEAD {place}\n"), b"").await;
        assert_eq!((seen.status, seen.header("Content-Length")), (200, Some("7")), "{may}");
        assert_eq!(node.ask(&format!("GET {place}\n"), b"").await.status, read, "{may}");
        let asked = redirector.ask("GET /data/f\n", b"").await.status;
        assert_eq!(asked == 307, read == 200, "{may}");
    }
}

#[tokio::test]
async fn a_node_may_have_the_files_below_a_path_of_its_own() {
    let node = node("/files").await;
    let redirector = redirector(&["read", "write"], &format!("{NODE}/files"), true).await;
    let answer = redirector.ask("GET /data/f\n", b"").await;
    assert_eq!(node.ask(&format!("GET {}\n", led(&answer)), b"").await.body, b"content");
    let put = "PUT /data/f\nExpect: 100-continue\nContent-Length: 3\n";
    let mut raw = redirector.connect().await;
    raw.send(head_text(put, None)).await;
    let answer = raw.answer(false).await;
    let place = led(&answer);
    // An upload that is refused before it begins has no effect, and does not count.
    for (conditions, status) in [("If-None-Match: *\n", 412), ("", 204), ("", 403)] {
        let put = format!("PUT {place}\n{conditions}");
        assert_eq!(node.ask(&put, b"new").await.status, status, "{conditions}");
    }
}

#[tokio::test]
async fn a_node_that_has_just_started_sends_writers_back() {
    // They may have been sent there before the start.
    let node = node_since(now_s() + 5, "").await;
    let redirector = redirector(&["read", "write"], NODE, true).await;
    let mut raw = redirector.connect().await;
    let put = "PUT /data/f\nExpect: 100-continue\nContent-Length: 3\n";
    raw.send(head_text(put, None)).await;
    let answer = raw.answer(false).await;
    let refused = node.ask(&format!("PUT {}\n", led(&answer)), b"new").await;
    assert_eq!((refused.status, refused.header("Retry-After")), (503, Some("1")));
    let answer = redirector.ask("GET /data/f\n", b"").await;
    assert_eq!(node.ask(&format!("GET {}\n", led(&answer)), b"").await.body, b"content");
}

#[tokio::test]
async fn a_node_of_another_maker_gets_the_token_and_no_capability() {
    let redirector = redirector(&["stat"], NODE, false).await;
    let asked = format!("/data/f?authz={}&x=1", macaroon("activity:DOWNLOAD"));
    let answer = redirector.ask(&format!("GET {asked}\n"), b"").await;
    assert_eq!(led(&answer), asked);
}

#[tokio::test]
async fn a_token_that_came_encrypted_does_not_leave_in_clear_text() {
    let node = node("").await;
    let redirector = redirector(&["stat"], &node.url(""), false).await;
    let asked = format!("/data/f?authz={}&x=1", macaroon("activity:DOWNLOAD"));
    let call = ServiceCall {
        method: ServiceMethod::Get,
        content_type: "",
        body: &Secret::new(""),
        login: None,
        webhook: None,
        answer_bytes_max: 1000,
    };
    for (server, status) in [(&node, 200), (&redirector, 401)] {
        let url = server.url(&asked);
        let url = if status == 200 {
            url
        } else {
            url.replace("http:", "https:")
        };
        let resource = Resource {
            location: Location::parse(&url).unwrap(),
            access: Access::default(),
            side: Side::Active,
        };
        let answer = client().call(&resource, &call).await.unwrap();
        assert_eq!(answer.status, status, "{}", answer.body.expose());
    }
}

#[tokio::test]
async fn a_client_may_keep_a_redirect_for_reading() {
    let redirector = redirector(&["read", "write"], NODE, true).await;
    let mut raw = redirector.connect().await;
    let expect = "Expect: 100-continue\nContent-Length: 3\n";
    for (request, usage, lifetime_s) in [
        ("GET /data/f\n".to_owned(), CapabilityUse::Read, 3600),
        (format!("PUT /data/f\n{expect}"), CapabilityUse::Write, 60),
    ] {
        raw.send(head_text(&request, None)).await;
        let answer = raw.answer(false).await;
        let text = led(&answer).split_once("capability=").unwrap().1;
        let text = text.split('&').next().unwrap();
        let redeem = |later_s| {
            let presented = Presented {
                usage,
                path: &LogicalPath::parse("/data/f").unwrap(),
                address: "127.0.0.1".parse().unwrap(),
                now_s: now_s() + later_s,
                life: Audience::life([1; 16]),
                endpoint: Some(Audience::endpoint(NODE)),
                started_s: 0,
            };
            Capability::redeem(text, &SealingKey::new(b"shared"), &presented).map_err(|error| error.code())
        };
        assert_eq!(
            redeem(lifetime_s).err(),
            Some(ErrorCode::CapabilityExpired),
            "{request}"
        );
        assert!(redeem(lifetime_s / 2).is_ok(), "{request}");
    }
}
