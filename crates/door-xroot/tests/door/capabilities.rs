//! A redirector that judges for its nodes: what a client gets there, and what it is good for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use credentials::SealingKey;
use endpoint::clock::now_s;
use endpoint::{Exports, HandOver, HandOverSettings, SharedExports};
use policy::AnonymousAccess;
use xroot_wire::request::{
    AttributeAction, ChangeMode, FileAttributes, Query, QueryKind, Request, Truncate, TruncateTarget,
};
use xroot_wire::response::RedirectTarget;
use xroot_wire::{Argument, AttributeOptions, ErrorNumber, FileHandle, LoginAbilities, OpenOptions};

use crate::elsewhere::{Site, sent};
use crate::harness::{Raw, Server, open};

const READ: OpenOptions = OpenOptions::READ;
const NEW: OpenOptions = OpenOptions::UPDATE.union(OpenOptions::NEW);
const REPLACE: OpenOptions = OpenOptions::UPDATE.union(OpenOptions::TRUNCATE);
const NODE: &str = "https://d1.example.org:1094";

fn hand_over(key: &[u8], lifetime_s: u64, accept_as: Option<&str>) -> Option<Arc<HandOver>> {
    // Nothing that was issued before a start is honoured.
    hand_over_since(now_s() - 3600, key, lifetime_s, accept_as)
}

/// The same of a server that started at this time, in seconds since 1970.
fn hand_over_since(started_s: i64, key: &[u8], lifetime_s: u64, accept_as: Option<&str>) -> Option<Arc<HandOver>> {
    let settings = HandOverSettings {
        key: SealingKey::new(key),
        target: None,
        accept_as: accept_as.map(str::to_owned),
        lifetime: Duration::from_secs(lifetime_s),
        bind_address: true,
        minimum_bytes: 0,
        reads: false,
        writes: false,
        to_nodes: accept_as.is_none(),
    };
    Some(Arc::new(HandOver::started_at(settings, started_s)))
}

/// A node whose rules allow nothing, which knows itself by this URL.
fn node(url: &str) -> Server {
    node_since(now_s() - 3600, url)
}

/// The same, which started at this time.
fn node_since(started_s: i64, url: &str) -> Server {
    Server::start(|settings| {
        let mut export = settings.site.exports.current().list()[0].clone();
        export.rules.anonymous = AnonymousAccess::None;
        settings.site.exports = SharedExports::new(Exports::new(vec![export]));
        settings.hand_over = hand_over_since(started_s, b"shared", 60, Some(url));
    })
}

fn redirector(key: &'static [u8], lifetime_s: u64) -> Site {
    let site = Site::changed(AnonymousAccess::Write, |settings| {
        settings.hand_over = hand_over(key, lifetime_s, None);
    });
    site.others.are_ours.store(true, Ordering::Relaxed);
    for name in ["f", "g"] {
        let path = format!("/data/{name}");
        let place = format!("roots://d1.example.org:1094/{path}");
        site.others.put(&path, &[place.as_str()]);
    }
    site
}

/// What a redirector gives for a request, as its client repeats it behind the path.
async fn given(site: &Site, request: &Request<'_>) -> String {
    let mut raw = site.client(LoginAbilities::FULL_URL).await;
    let redirect = sent(&raw.ask(request).await);
    let behind = match &redirect.target {
        RedirectTarget::Url { url, .. } => url.split_once('?').map(|(_, cgi)| cgi),
        RedirectTarget::Host { .. } => redirect.cgi.as_deref(),
    };
    let cgi = behind.expect("there is something");
    assert!(cgi.starts_with("crossload.capability="), "{cgi}");
    cgi.to_owned()
}

fn truncate(path: &str) -> Request<'_> {
    Request::Truncate(Truncate {
        size_bytes: 3,
        target: TruncateTarget::Path(Argument::new(path.as_bytes())),
    })
}

fn change_mode(path: &str) -> Request<'_> {
    Request::ChangeMode(ChangeMode {
        mode: 0o600,
        path: Argument::new(path.as_bytes()),
    })
}

fn query(kind: QueryKind, path: &str) -> Request<'_> {
    Request::Query(Query {
        kind,
        handle: FileHandle::default(),
        argument: Argument::new(path.as_bytes()),
    })
}

fn attributes<'a>(action: AttributeAction<'a>, path: &'a str) -> Request<'a> {
    Request::FileAttributes(FileAttributes {
        action,
        options: AttributeOptions::empty(),
        handle: FileHandle::default(),
        path: Some(Argument::new(path.as_bytes())),
    })
}

/// A kind of request, by its number here.
fn request_of(kind: usize, path: &str) -> Request<'_> {
    match kind {
        0 => open(path, READ),
        1 => open(path, OpenOptions::UPDATE),
        2 => open(path, REPLACE),
        3 => truncate(path),
        4 => change_mode(path),
        5 => query(QueryKind::ExtendedAttributes, path),
        6 => attributes(AttributeAction::List, path),
        _ => attributes(AttributeAction::Delete(vec![b"U.x".as_slice()]), path),
    }
}

async fn refused(raw: &mut Raw, request: &Request<'_>, code: &str) {
    let answer = raw.ask(request).await;
    assert_eq!(answer.error(), ErrorNumber::NOT_AUTHORIZED, "{request:?}");
    let words = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(words.contains(code), "{request:?}: {words}");
}

#[tokio::test]
async fn each_redirected_request_is_accepted_at_the_node_and_no_other() {
    let (site, node) = (redirector(b"shared", 60), node(NODE));
    node.put("/f", b"content");
    // What is for one of these is for the other. Who may read (0) may look (5).
    let uses = [0, 1, 2, 1, 4, 5, 0, 1];
    // A redirector answers who only wants to look (5) itself.
    for (kind, usage) in uses.into_iter().enumerate().filter(|(_, usage)| *usage != 5) {
        for (other, other_usage) in uses.into_iter().enumerate() {
            let cgi = given(&site, &request_of(kind, "/data/f")).await;
            // What another program has left open does not matter.
            let process = i32::try_from(100 + 10 * kind + other).unwrap();
            let mut raw = node.client_of(process).await;
            let path = format!("/data/f?{cgi}");
            let request = request_of(other, &path);
            if usage == other_usage || (usage, other_usage) == (0, 5) {
                raw.ask(&request).await.ok();
                continue;
            }
            refused(&mut raw, &request, "redirect").await;
        }
    }
}

#[tokio::test]
async fn a_new_file_is_stored_under_its_name_only() {
    let (site, node) = (redirector(b"shared", 60), node("root://D9:1099"));
    let cgi = given(&site, &open("/data/new?oss.asize=5", NEW)).await;
    let mut raw = node.client().await;
    refused(&mut raw, &open("/data/new?oss.asize=5", NEW), "ermission").await;
    let other = format!("/data/other?oss.asize=5&{cgi}");
    refused(&mut raw, &open(&other, NEW), "redirect").await;
    let larger = format!("/data/new?oss.asize=6&{cgi}");
    refused(&mut raw, &open(&larger, NEW), "redirect").await;
    // What was refused had no effect, and does not count.
    raw.opened(&format!("/data/new?oss.asize=5&{cgi}"), NEW).await;
    let again = open("/data/new", NEW);
    refused(&mut raw, &again, "ermission").await;
    let path = format!("/data/new?{cgi}");
    refused(&mut raw, &open(&path, NEW), "already used").await;
}

#[tokio::test]
async fn a_client_that_changes_something_leaves_a_node_that_has_just_started() {
    // It may have been sent there before the start.
    let (site, node) = (redirector(b"shared", 60), node_since(now_s() + 5, NODE));
    node.put("/f", b"content");
    for kind in [1, 2, 3, 4] {
        let cgi = given(&site, &request_of(kind, "/data/f")).await;
        let mut raw = node.client().await;
        let answer = raw.ask(&request_of(kind, &format!("/data/f?{cgi}"))).await;
        // XRootD's clients go back to their redirector then.
        assert_eq!(answer.error(), ErrorNumber::OVERLOADED, "{kind}");
    }
    let cgi = given(&site, &open("/data/f", READ)).await;
    node.client().await.opened(&format!("/data/f?{cgi}"), READ).await;
}

#[tokio::test]
async fn what_does_not_hold_is_refused() {
    let (site, node) = (redirector(b"shared", 60), node(NODE));
    node.put("/f", b"content");
    node.put("/g", b"content");
    let mut raw = node.client().await;
    let cgi = given(&site, &open("/data/f", READ)).await;
    refused(&mut raw, &open(&format!("/data/g?{cgi}"), READ), "redirect").await;
    // The name of the request follows.
    let end = cgi.find('&').unwrap();
    for place in [end / 2, end - 2] {
        let mut tampered = cgi.clone().into_bytes();
        tampered[place] = if tampered[place] == b'A' { b'B' } else { b'A' };
        let tampered = format!("/data/f?{}", String::from_utf8(tampered).unwrap());
        refused(&mut raw, &open(&tampered, READ), "redirect").await;
    }
    for (key, lifetime_s, words) in [(b"another".as_slice(), 60, "redirect"), (b"shared", 0, "expired")] {
        let cgi = given(&redirector(key, lifetime_s), &open("/data/f", READ)).await;
        refused(&mut raw, &open(&format!("/data/f?{cgi}"), READ), words).await;
    }
    for url in ["https://d2.example.org:1094", "https://d1.example.org:1095"] {
        let another = self::node(url);
        another.put("/f", b"content");
        let mut raw = another.client().await;
        refused(&mut raw, &open(&format!("/data/f?{cgi}"), READ), "redirect").await;
    }
    // Reading may be repeated.
    for _ in 0..2 {
        raw.opened(&format!("/data/f?{cgi}"), READ).await;
    }
    for record in node.log.all() {
        let text = serde_json::to_string(&record).unwrap();
        assert!(!text.contains("capability="), "{text}");
    }
}

#[tokio::test]
async fn a_client_asks_for_the_checksum_of_what_it_opened() {
    let (site, node) = (redirector(b"shared", 60), node(NODE));
    node.put("/f", b"content");
    let cgi = given(&site, &open("/data/f", READ)).await;
    let mut raw = node.client_of(7).await;
    let sum = query(QueryKind::Checksum, "/data/f?cks.type=adler32");
    refused(&mut raw, &sum, "ermission").await;
    raw.opened(&format!("/data/f?{cgi}"), READ).await;
    let mut later = node.client_of(7).await;
    later.say(1, &sum).await;
    let mut answer = later.answer().await;
    // The sum takes its time on a busy machine.
    if answer.status == 4006 {
        answer = later.answer().await;
    }
    assert!(String::from_utf8_lossy(&answer.body).contains("adler32 "), "{answer:?}");
    let mut other = node.client_of(8).await;
    refused(&mut other, &sum, "ermission").await;
    refused(&mut later, &query(QueryKind::Checksum, "/data/g"), "ermission").await;
}

#[tokio::test]
async fn a_redirector_asks_for_checksums_itself() {
    let site = redirector(b"shared", 60);
    let mut raw = site.client(LoginAbilities::FULL_URL).await;
    raw.say(1, &query(QueryKind::Checksum, "/data/f?cks.type=adler32"))
        .await;
    let wait = raw.answer().await;
    assert_eq!(wait.status, 4006, "{wait:?}");
    let told = raw.answer().await;
    assert!(
        String::from_utf8_lossy(&told.body).contains("adler32 0badcafe"),
        "{told:?}"
    );
    let questions = site.others.questions.lock().unwrap();
    assert!(questions[0].query().unwrap().starts_with("crossload.capability="));
}

#[tokio::test]
async fn a_node_of_another_maker_gets_no_capability() {
    let site = redirector(b"shared", 60);
    site.others.are_ours.store(false, Ordering::Relaxed);
    let mut raw = site.client(LoginAbilities::FULL_URL).await;
    let redirect = sent(&raw.ask(&open("/data/f?x=1", READ)).await);
    let text = format!("{redirect:?}");
    assert!(!text.contains("capability"), "{text}");
}
