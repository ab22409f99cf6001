//! Third-party copies: as source, as destination, and forwarded to another server.

use std::time::Duration;

use credentials::{Macaroon, MacaroonKey};
use endpoint::{Exports, SharedExports, TransferOutcome};
use net::address::AddressPolicy;
use policy::AnonymousAccess;
use tokio::net::TcpListener;
use transfer::Slots;
use types::Location;
use xroot_wire::request::{Close, Query, QueryKind, Request, Stat, SyncFile};
use xroot_wire::response::{OpenReply, StatText};
use xroot_wire::{ErrorNumber, FileHandle, OpenOptions, StatFlags};

use crate::harness::{Answer, Raw, SECRET, Server, client, export, open, soon};

const STORE: OpenOptions = OpenOptions::UPDATE
    .union(OpenOptions::NEW)
    .union(OpenOptions::RETURN_STAT);
/// The name of these tests' client between servers.
const ORIGIN: &str = "tester.7@localhost";

async fn open_with(raw: &mut Raw, path: &str, cgi: &str, options: OpenOptions) -> Answer {
    raw.ask(&open(&format!("{path}?{cgi}"), options)).await
}

fn handle(answer: Answer) -> FileHandle {
    OpenReply::parse(&answer.ok()).unwrap().handle
}

fn words(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

/// A late answer: the response within an attention message.
fn late(answer: &Answer) -> Answer {
    assert_eq!(answer.status, 4001, "{answer:?}");
    Answer {
        stream: xroot_wire::StreamId([answer.body[8], answer.body[9]]),
        status: u16::from_be_bytes([answer.body[10], answer.body[11]]),
        body: answer.body[16..].to_vec(),
    }
}

/// Registers key `k` for a host, and leaves the file open.
async fn register(raw: &mut Raw, destination: &str) -> FileHandle {
    let cgi = format!("tpc.dst={destination}&tpc.key=k&tpc.stage=copy");
    handle(open_with(raw, "/data/f", &cgi, OpenOptions::READ).await)
}

async fn claim(raw: &mut Raw, path: &str, origin: &str) -> Answer {
    open_with(raw, path, &format!("tpc.key=k&tpc.org={origin}"), OpenOptions::READ).await
}

async fn sync(raw: &mut Raw, handle: FileHandle) -> Answer {
    raw.ask(&Request::Sync(SyncFile { handle })).await
}

async fn close(raw: &mut Raw, handle: FileHandle) -> Answer {
    raw.ask(&Request::Close(Close { handle })).await
}

#[tokio::test]
async fn a_registered_key_opens_the_file_once() {
    let server = Server::open();
    server.put("/f", b"abc");
    server.put("/g", b"abc");
    let (mut owner, mut other) = (server.client().await, server.client().await);
    register(&mut owner, "localhost").await;
    for (path, origin) in [("/data/g", ORIGIN), ("/data/f", "tester.8@localhost")] {
        let refused = claim(&mut other, path, origin).await;
        assert_eq!(refused.error(), ErrorNumber::NOT_AUTHORIZED, "{path} {origin}");
        assert!(words(&refused).contains("dest not authorized for tpc"));
    }
    claim(&mut other, "/data/f", ORIGIN).await.ok();
    let replayed = claim(&mut other, "/data/f", ORIGIN).await;
    assert_eq!(replayed.error(), ErrorNumber::NOT_AUTHORIZED);
    assert!(words(&replayed).contains("tpc authorization expired"));
    let again = open_with(&mut owner, "/data/f", "tpc.dst=localhost&tpc.key=k", OpenOptions::READ).await;
    assert_eq!(again.error(), ErrorNumber::EXISTS);
}

/// As the destination sees it, the client may come from another address than here, and have a name
/// or none.
#[tokio::test]
async fn a_client_may_be_another_host_to_the_destination() {
    for host in [
        "192.0.2.1",
        "[::ffff:192.0.2.1]",
        "[2001:db8::1]",
        "nat.example.org",
        "unknown-host",
    ] {
        let server = Server::open();
        server.put("/f", b"abc");
        let (mut owner, mut other) = (server.client().await, server.client().await);
        register(&mut owner, "localhost").await;
        claim(&mut other, "/data/f", &format!("tester.7@{host}")).await.ok();
    }
}

#[tokio::test]
async fn a_key_is_good_for_its_host_and_while_its_client_holds_the_file_open() {
    let server = Server::open();
    server.put("/f", b"abc");
    let (mut owner, mut other) = (server.client().await, server.client().await);
    let elsewhere = register(&mut owner, "192.0.2.7").await;
    assert_eq!(
        claim(&mut other, "/data/f", ORIGIN).await.error(),
        ErrorNumber::NOT_AUTHORIZED
    );
    close(&mut owner, elsewhere).await.ok();
    let expired = claim(&mut other, "/data/f", ORIGIN).await;
    assert!(words(&expired).contains("dest not authorized"), "{expired:?}");
    let server = Server::open();
    server.put("/f", b"abc");
    let (mut owner, mut other) = (server.client().await, server.client().await);
    let file = register(&mut owner, "localhost").await;
    close(&mut owner, file).await.ok();
    let expired = claim(&mut other, "/data/f", ORIGIN).await;
    assert!(words(&expired).contains("tpc authorization expired"), "{expired:?}");
}

#[tokio::test]
async fn a_destination_that_comes_first_waits_for_the_key() {
    let server = Server::open();
    server.put("/f", b"abc");
    let (mut owner, mut other) = (server.client().await, server.client().await);
    assert_eq!(claim(&mut other, "/data/f", ORIGIN).await.status, 4006);
    register(&mut owner, "localhost").await;
    let again = late(&other.answer().await);
    assert_eq!((again.status, again.body), (4005, vec![0, 0, 0, 0]));
    claim(&mut other, "/data/f", ORIGIN).await.ok();
}

#[tokio::test]
async fn nobody_waits_for_ever() {
    let server = Server::start(|settings| settings.third_party.key_lifetime = Duration::from_millis(20));
    server.put("/f", b"abc");
    let mut other = server.client().await;
    assert_eq!(claim(&mut other, "/data/f", ORIGIN).await.status, 4006);
    let refused = late(&other.answer().await);
    assert_eq!(refused.error(), ErrorNumber::NOT_AUTHORIZED);
    assert!(words(&refused).contains("tpc authorization expired"));
}

#[tokio::test]
async fn whoever_waits_for_an_answer_is_not_idle() {
    let server = Server::start(|settings| {
        settings.third_party.key_lifetime = Duration::from_millis(3500);
        // Shorter than the wait, and longer than a busy machine takes from the login to the claim.
        settings.site.limits.idle = Duration::from_millis(2500);
    });
    server.put("/f", b"abc");
    let mut other = server.client().await;
    assert_eq!(claim(&mut other, "/data/f", ORIGIN).await.status, 4006);
    assert_eq!(late(&other.answer().await).error(), ErrorNumber::NOT_AUTHORIZED);
    assert!(other.is_closed().await, "now it is idle");
}

#[tokio::test]
async fn what_says_both_or_neither_is_refused() {
    let server = Server::open();
    server.put("/f", b"abc");
    let mut raw = server.client().await;
    for cgi in ["tpc.key=k", "tpc.key=k&tpc.dst=a&tpc.org=b.1@c"] {
        let refused = open_with(&mut raw, "/data/f", cgi, OpenOptions::READ).await;
        assert_eq!(refused.error(), ErrorNumber::ARGUMENT_INVALID);
        assert!(words(&refused).contains("conflicting tpc cgi"));
    }
    let nobody = open_with(&mut raw, "/data/f", "tpc.key=k&tpc.org=nobody", OpenOptions::READ).await;
    assert_eq!(nobody.error(), ErrorNumber::ARGUMENT_INVALID);
    // An open of the source without a key is a plain one.
    open_with(&mut raw, "/data/f", "tpc.stage=placement", OpenOptions::READ)
        .await
        .ok();
}

#[tokio::test]
async fn only_who_may_read_can_register() {
    let server = Server::start(|settings| {
        let closed = export("/data", AnonymousAccess::None, storage::Memory::new(1 << 20));
        settings.site.exports = SharedExports::new(Exports::new(vec![closed]));
    });
    let mut raw = server.client().await;
    let refused = open_with(&mut raw, "/data/f", "tpc.dst=localhost&tpc.key=k", OpenOptions::READ).await;
    assert_eq!(refused.error(), ErrorNumber::NOT_AUTHORIZED);
    assert_eq!(claim(&mut raw, "/data/f", ORIGIN).await.status, 4006);
}

#[tokio::test]
async fn a_key_opens_a_file_to_whoever_has_no_right_of_his_own() {
    let store = storage::Memory::new(1 << 20);
    let mut closed = Server::start(|settings| {
        let closed = export("/data", AnonymousAccess::None, store.clone());
        settings.site.exports = SharedExports::new(Exports::new(vec![closed]));
    });
    closed.store = store;
    closed.put("/f", b"abc");
    let (mut owner, mut other) = (closed.client().await, closed.client().await);
    let minted = Macaroon::mint(&MacaroonKey::new(SECRET), "test", "id", ["activity:DOWNLOAD"]).unwrap();
    let cgi = format!(
        "tpc.dst=localhost&tpc.key=k&authz=Bearer%20{}",
        minted.to_text().expose()
    );
    open_with(&mut owner, "/data/f", &cgi, OpenOptions::READ).await.ok();
    let checksum = Request::Query(Query::new(QueryKind::Checksum, b"/data/f\0"));
    assert_eq!(other.ask(&checksum).await.error(), ErrorNumber::NOT_AUTHORIZED);
    let file = handle(claim(&mut other, "/data/f", ORIGIN).await);
    // dCache's pools ask for the checksum while they have the file open.
    assert_eq!(checksum_text(&mut other, &checksum).await, "adler32 024d0127\0");
    assert_eq!(
        other.ask(&open("/data/f", OpenOptions::READ)).await.error(),
        ErrorNumber::NOT_AUTHORIZED
    );
    close(&mut other, file).await.ok();
    assert_eq!(other.ask(&checksum).await.error(), ErrorNumber::NOT_AUTHORIZED);
}

/// The answer to a checksum query, which may be late.
async fn checksum_text(raw: &mut Raw, question: &Request<'_>) -> String {
    let answer = raw.ask(question).await;
    let answer = match answer.status {
        4006 => late(&raw.answer().await),
        _ => answer,
    };
    String::from_utf8(answer.ok()).unwrap()
}

/// Opens `/data/new` of `here` as a copy of `/data/f` at this place.
async fn order(here: &mut Raw, source: &str, more: &str) -> Answer {
    let cgi = format!("tpc.key=k&tpc.src={source}&tpc.lfn=/data/f&tpc.stage=copy&tpc.spr=root{more}");
    open_with(here, "/data/new", &cgi, STORE).await
}

#[tokio::test]
async fn a_copy_is_checked_by_the_first_sync_and_made_by_the_second() {
    let (there, here) = (Server::open(), Server::open());
    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at >> 3) as u8).collect();
    there.put("/f", &content);
    let (mut source, mut destination) = (there.client().await, here.client().await);
    let address = there.address.to_string();
    let ordered = order(
        &mut destination,
        &address,
        "&tpc.str=3&tpc.cks=adler32&oss.asize=3000000\
         &crossload.traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )
    .await;
    let file = handle(ordered);
    assert!(sync(&mut destination, file).await.ok().is_empty());
    assert_eq!(here.content("/new"), None);
    register(&mut source, "127.0.0.1").await;
    assert_eq!(sync(&mut destination, file).await.status, 4006);
    let done = late(&destination.answer().await);
    assert_eq!((done.status, done.body), (0, Vec::new()));
    let stat = destination.ask(&Request::Stat(Stat::handle(file))).await.text();
    assert_eq!(stat.split(' ').nth(1), Some("3000000"), "{stat}");
    assert!(sync(&mut destination, file).await.ok().is_empty());
    close(&mut destination, file).await.ok();
    assert!(here.content("/new") == Some(content));
    let record = here.log.transfer().await;
    assert_eq!((record.outcome, record.bytes), (TransferOutcome::Success, 3_000_000));
    assert!(record.verified.unwrap().starts_with("adler32:"));
    assert!(!record.start.remote.contains("tpc.key"));
    // Both servers know the copy as part of the client's trace.
    let is_ours = |trace: &str| trace.starts_with("00-0af7651916cd43dd8448eb211c80319c-");
    assert!(is_ours(&record.start.traceparent), "{}", record.start.traceparent);
    for method in ["open", "sync", "close"] {
        let traced = here.log.request(method).await.traceparent;
        assert!(traced.as_deref().is_some_and(is_ours), "{method}: {traced:?}");
    }
    let mut there = there.log.all().into_iter().filter(|record| record.method == "open");
    assert!(there.any(|record| record.traceparent.as_deref().is_some_and(is_ours)));
}

#[tokio::test]
async fn the_destination_is_pending_until_the_copy_has_ended() {
    let (there, here) = (Server::open(), Server::open());
    there.put("/f", b"abc");
    let (mut source, mut destination) = (there.client().await, here.client().await);
    let mut other = here.client().await;
    let stat = Request::Stat(Stat::path(b"/data/new"));
    let file = handle(order(&mut destination, &there.address.to_string(), "").await);
    let seen = other.ask(&stat).await.text();
    let seen = StatText::parse(seen.as_bytes()).unwrap();
    assert_eq!(
        (seen.size_bytes, seen.flags.contains(StatFlags::PERSIST_PENDING)),
        (0, true)
    );
    sync(&mut destination, file).await.ok();
    register(&mut source, "127.0.0.1").await;
    assert_eq!(sync(&mut destination, file).await.status, 4006);
    assert_eq!(late(&destination.answer().await).status, 0);
    let seen = other.ask(&stat).await.text();
    let seen = StatText::parse(seen.as_bytes()).unwrap();
    assert_eq!((seen.size_bytes, seen.flags.bits()), (3, 48));
    close(&mut destination, file).await.ok();
    // A failed copy leaves no file, although its handle is still open.
    let silent = Server::start(|settings| settings.third_party.key_lifetime = Duration::from_millis(20));
    silent.put("/f", b"abc");
    let cgi = format!("tpc.key=k&tpc.src={}&tpc.lfn=/data/f&tpc.spr=root", silent.address);
    let file = handle(open_with(&mut destination, "/data/lost", &cgi, STORE).await);
    let stat = Request::Stat(Stat::path(b"/data/lost"));
    other.ask(&stat).await.ok();
    sync(&mut destination, file).await.ok();
    assert_eq!(sync(&mut destination, file).await.status, 4006);
    assert_ne!(late(&destination.answer().await).status, 0);
    assert_eq!(other.ask(&stat).await.error(), ErrorNumber::NOT_FOUND);
    close(&mut destination, file).await.ok();
}

/// A server whose files cannot be read without a macaroon, and the parameters that hold one.
fn closed_source() -> (Server, String) {
    let store = storage::Memory::new(1 << 30);
    let mut closed = Server::start(|settings| {
        let export = export("/data", AnonymousAccess::None, store.clone());
        settings.site.exports = SharedExports::new(Exports::new(vec![export]));
    });
    closed.store = store;
    let minted = Macaroon::mint(&MacaroonKey::new(SECRET), "test", "id", ["activity:DOWNLOAD"]).unwrap();
    let cgi = format!("&authz=Bearer%20{}", minted.to_text().expose());
    (closed, cgi)
}

/// Copies `/data/f` of a closed source to `/data/new` of another server on `further` more streams.
async fn copy_from_closed(there: &Server, cgi: &str, here: &Server, further: u32) -> Answer {
    let (mut source, mut destination) = (there.client().await, here.client().await);
    let ordered = order(
        &mut destination,
        &there.address.to_string(),
        &format!("&tpc.str={further}"),
    )
    .await;
    let file = handle(ordered);
    sync(&mut destination, file).await.ok();
    let register = format!("tpc.dst=127.0.0.1&tpc.key=k&tpc.stage=copy{cgi}");
    let registered = handle(open_with(&mut source, "/data/f", &register, OpenOptions::READ).await);
    assert_eq!(sync(&mut destination, file).await.status, 4006);
    let ended = late(&destination.answer().await);
    close(&mut destination, file).await.ok();
    close(&mut source, registered).await.ok();
    ended
}

#[tokio::test]
async fn the_key_that_opens_a_file_lets_its_checksum_be_compared() {
    for further in [0, 3] {
        let ((there, cgi), here) = (closed_source(), Server::open());
        there.put("/f", &vec![3; 9_000_000]);
        assert_eq!(copy_from_closed(&there, &cgi, &here, further).await.status, 0);
        let record = here.log.transfer().await;
        assert_eq!(record.outcome, TransferOutcome::Success);
        let verified = record.verified.unwrap_or_default();
        assert!(
            verified.starts_with("adler32:"),
            "{further} further streams: {verified:?}"
        );
    }
}

#[tokio::test]
async fn damage_in_a_source_that_needs_a_credential_is_found() {
    for further in [0, 3] {
        let ((there, cgi), here) = (closed_source(), Server::open());
        // The stored checksum is not that of the present content.
        there.put_with_checksum("/f", &vec![3; 9_000_000], types::Checksum::adler32(1));
        let failed = copy_from_closed(&there, &cgi, &here, further).await;
        assert_eq!(failed.error(), ErrorNumber::CHECKSUM, "{}", words(&failed));
        assert_eq!(here.content("/new"), None);
    }
}

#[tokio::test]
async fn a_source_that_refuses_is_quoted_and_nothing_is_left() {
    let there = Server::start(|settings| settings.third_party.key_lifetime = Duration::from_millis(20));
    let here = Server::open();
    there.put("/f", b"abc");
    let mut destination = here.client().await;
    let file = handle(order(&mut destination, &there.address.to_string(), "").await);
    sync(&mut destination, file).await.ok();
    assert_eq!(sync(&mut destination, file).await.status, 4006);
    let failed = late(&destination.answer().await);
    assert_eq!(failed.error(), ErrorNumber::NOT_AUTHORIZED);
    assert!(
        words(&failed).contains("tpc authorization expired"),
        "{}",
        words(&failed)
    );
    assert_eq!(sync(&mut destination, file).await.error(), ErrorNumber::NOT_AUTHORIZED);
    close(&mut destination, file).await.ok();
    assert_eq!(here.content("/new"), None);
    assert_eq!(here.log.transfer().await.outcome, TransferOutcome::Failure);
}

/// A relay to a server that breaks off after this many bytes of the server's answers.
async fn breaking_relay(to: std::net::SocketAddr, after_bytes: u64) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = tokio::net::TcpStream::connect(to).await.unwrap();
            tokio::spawn(async move {
                let ((mut heard, mut told), (answers, mut asks)) = (near.into_split(), far.into_split());
                let mut answers = tokio::io::AsyncReadExt::take(answers, after_bytes);
                tokio::select! {
                    _ = tokio::io::copy(&mut heard, &mut asks) => {}
                    _ = tokio::io::copy(&mut answers, &mut told) => {}
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_source_that_dies_is_told_and_nothing_is_left() {
    let (there, here) = (Server::open(), Server::open());
    there.put("/f", &vec![7; 3_000_000]);
    let relay = breaking_relay(there.address, 1_000_000).await;
    let (mut source, mut destination) = (there.client().await, here.client().await);
    let file = handle(order(&mut destination, &relay.to_string(), "").await);
    sync(&mut destination, file).await.ok();
    register(&mut source, "localhost").await;
    assert_eq!(sync(&mut destination, file).await.status, 4006);
    let failed = late(&destination.answer().await);
    assert_eq!(failed.error(), ErrorNumber::INPUT_OUTPUT, "{}", words(&failed));
    assert!(words(&failed).contains("source"), "{}", words(&failed));
    close(&mut destination, file).await.ok();
    assert_eq!(here.content("/new"), None);
    destination.ask(&Request::Ping).await.ok();
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_by_the_open() {
    let here = Server::open();
    let mut raw = here.client().await;
    for cgi in [
        "tpc.key=k",
        "tpc.key=k&tpc.src=",
        "tpc.key=k&tpc.src=a/b",
        "tpc.key=k&tpc.src=a:1094&tpc.lfn=relative",
        "tpc.key=k&tpc.src=a:1094&tpc.str=many",
        "tpc.key=k&tpc.src=a:1094&tpc.str=-1",
        "tpc.key=k&tpc.src=a:1094&tpc.spr=ftp",
        "tpc.key=k&tpc.src=a:1094&tpc.spr=s3",
        "tpc.key=k&tpc.src=a:1094&tpc.spr=file",
        "tpc.key=k&tpc.src=a:1094&tpc.spr=http://b/c?",
        "tpc.key=k&tpc.src=a:1094&tpc.cks=adler32:xyz",
        "tpc.key=k&tpc.src=a:bad",
    ] {
        let refused = open_with(&mut raw, "/data/new", cgi, STORE).await;
        assert_eq!(
            refused.error(),
            ErrorNumber::ARGUMENT_INVALID,
            "{cgi}: {}",
            words(&refused)
        );
    }
    let cgi = "tpc.key=k&tpc.src=a:1094&tpc.spr=s3";
    let refused = words(&open_with(&mut raw, "/data/new", cgi, STORE).await);
    let known = "the scheme is not one of http, https, dav, davs, root, roots";
    assert!(refused.contains(known), "{refused}");
    let missing = open_with(&mut raw, "/data/no", "tpc.key=k&tpc.src=a:1", OpenOptions::UPDATE).await;
    assert_eq!(missing.error(), ErrorNumber::NOT_FOUND);
    let file = handle(order(&mut raw, "127.0.0.1:1", "").await);
    let read = Request::Read(xroot_wire::request::Read {
        handle: file,
        offset: 0,
        length: 1,
        path: None,
    });
    assert_eq!(raw.ask(&read).await.error(), ErrorNumber::FILE_NOT_OPEN);
    let mut second = here.client().await;
    assert_eq!(
        order(&mut second, "127.0.0.1:1", "").await.error(),
        ErrorNumber::FILE_LOCKED
    );
}

#[tokio::test]
async fn limits_and_addresses_hold_as_for_other_copies() {
    let strict = AddressPolicy {
        local: false,
        private: true,
    };
    let here = Server::start(|settings| settings.site.client = client(strict));
    let mut raw = here.client().await;
    let file = handle(order(&mut raw, "127.0.0.1:1", "").await);
    assert_eq!(sync(&mut raw, file).await.error(), ErrorNumber::NOT_AUTHORIZED);
    // Nor is the address of an interface dialled, however it is written.
    let own = testkit::own_address();
    for host in own
        .into_iter()
        .flat_map(|own| [own.to_string(), format!("[::ffff:{own}]"), format!("[::{own}]")])
    {
        let here = Server::start(|settings| settings.site.client = client(strict));
        let mut raw = here.client().await;
        let file = handle(order(&mut raw, &format!("{host}:1"), "").await);
        assert_eq!(
            sync(&mut raw, file).await.error(),
            ErrorNumber::NOT_AUTHORIZED,
            "{host}"
        );
    }

    let full = Server::start(|settings| settings.site.transfers = Slots::new(0));
    let mut raw = full.client().await;
    let file = handle(order(&mut raw, "127.0.0.1:1", "").await);
    sync(&mut raw, file).await.ok();
    assert_eq!(sync(&mut raw, file).await.error(), ErrorNumber::OVERLOADED);

    let here = Server::open();
    let mut raw = here.client().await;
    let file = handle(order(&mut raw, "127.0.0.1:1", "&oss.asize=99999999999").await);
    assert_eq!(sync(&mut raw, file).await.error(), ErrorNumber::NO_SPACE);
}

/// A running copy from a source that sends nothing.
async fn stuck(here: &Server, silent: &TcpListener) -> (Raw, FileHandle) {
    let mut raw = here.client().await;
    let file = handle(order(&mut raw, &silent.local_addr().unwrap().to_string(), "").await);
    sync(&mut raw, file).await.ok();
    assert_eq!(sync(&mut raw, file).await.status, 4006);
    (raw, file)
}

#[tokio::test]
async fn a_copy_can_be_given_up_in_three_ways() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = Server::open();
    let (mut raw, file) = stuck(&here, &silent).await;
    let cancel = |text: &'static [u8]| {
        Request::Query(Query {
            handle: file,
            ..Query::new(QueryKind::OpaqueHandle, text)
        })
    };
    assert_eq!(
        raw.ask(&cancel(b"ofs.tpc cancel")).await.error(),
        ErrorNumber::UNSUPPORTED
    );
    raw.say(9, &cancel(b"ofs.tpc cancel\0")).await;
    assert_eq!(late(&raw.answer().await).error(), ErrorNumber::CANCELLED);
    assert_eq!(raw.answer().await.status, 0);
    assert_eq!(here.log.transfer().await.outcome, TransferOutcome::ClientGone);

    let here = Server::open();
    let (mut raw, file) = stuck(&here, &silent).await;
    raw.say(9, &Request::Close(Close { handle: file })).await;
    assert_eq!(late(&raw.answer().await).error(), ErrorNumber::CANCELLED);
    assert_eq!(raw.answer().await.status, 0);
    assert_eq!(here.log.transfer().await.outcome, TransferOutcome::ClientGone);

    let here = Server::open();
    let (raw, _) = stuck(&here, &silent).await;
    drop(raw);
    assert_eq!(here.log.transfer().await.outcome, TransferOutcome::ClientGone);
    assert_eq!(here.content("/new"), None);
    // The name is free again.
    soon(async {
        while order(&mut here.client().await, "127.0.0.1:1", "").await.status != 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_copy_ends_when_the_server_stops() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = Server::open();
    let (mut raw, _) = stuck(&here, &silent).await;
    let door = here.door.clone();
    let stopped = tokio::spawn(async move { door.shut_down(Duration::ZERO).await });
    assert_eq!(late(&raw.answer().await).error(), ErrorNumber::CANCELLED);
    drop(raw);
    soon(stopped).await.unwrap();
    assert_eq!(here.log.transfer().await.outcome, TransferOutcome::Aborted);
}

#[tokio::test]
async fn who_wants_a_copy_is_sent_to_the_server_that_makes_them() {
    let here = Server::start(|settings| {
        settings.site.forward_to.root = Some(Location::parse("root://tpc.example.org:2094/").unwrap());
    });
    here.put("/f", b"abc");
    let mut raw = here.client().await;
    for (path, cgi, options) in [
        ("/data/f", "tpc.stage=placement", OpenOptions::READ),
        ("/data/f", "tpc.key=k&tpc.dst=localhost", OpenOptions::READ),
        ("/data/new", "tpc.key=k&tpc.src=a:1094", STORE),
    ] {
        let answer = open_with(&mut raw, path, cgi, options).await;
        assert_eq!(answer.status, 4004);
        assert_eq!(i32::from_be_bytes(answer.body[..4].try_into().unwrap()), 2094);
        assert_eq!(&answer.body[4..], b"tpc.example.org");
    }
    let question = |keys: &'static str| Request::Query(Query::new(QueryKind::Config, keys.as_bytes()));
    let sent = raw.ask(&question("tpc tpcdlg\0")).await;
    assert_eq!(
        (sent.status, sent.body[4..].to_vec()),
        (4004, b"tpc.example.org".to_vec())
    );
    assert_eq!(raw.ask(&question("bind_max\0")).await.ok(), b"15\n");
    raw.ask(&open("/data/f", OpenOptions::READ)).await.ok();
}
