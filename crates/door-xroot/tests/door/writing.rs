//! Writes: what takes its name and what does not, pages, vectors, updates in place.

use storage::Storage as _;
use types::{Checksum, LogicalPath};
use xroot_wire::pages::{checksum, encode_units};
use xroot_wire::request::{
    Close, PageWrite, Read, Request, Stat, SyncFile, Truncate, TruncateTarget, VectorItem, Write, WriteVector,
};
use xroot_wire::response::{OpenReply, StatText};
use xroot_wire::{Argument, ErrorNumber, FileHandle, OpenOptions, PageFlags, StatFlags};

use crate::harness::{Answer, Raw, Server, open, soon};

async fn write(raw: &mut Raw, handle: FileHandle, offset: u64, data: &[u8]) {
    let request = Request::Write(Write {
        handle,
        offset,
        path: 0,
        data_bytes: data.len(),
    });
    raw.ask_with(&request, data).await.ok();
}

fn close(handle: FileHandle) -> Request<'static> {
    Request::Close(Close { handle })
}

fn adler32(data: &[u8]) -> Checksum {
    let mut hasher = storage::Hasher::new(&[types::ChecksumAlgorithm::Adler32]);
    hasher.update(data);
    hasher.finish().pop().unwrap()
}

#[tokio::test]
async fn a_file_takes_its_name_when_it_is_closed_with_its_checksum() {
    let server = Server::open();
    let mut raw = server.client().await;
    let options = OpenOptions::NEW | OpenOptions::ASYNCHRONOUS;
    let handle = raw.opened("/data/d/f?oss.asize=11", options).await;
    write(&mut raw, handle, 6, b"world").await;
    write(&mut raw, handle, 0, b"hello ").await;
    assert_eq!(server.content("/d/f"), None, "not before it is closed");
    let read = Read {
        handle,
        offset: 3,
        length: 5,
        path: None,
    };
    assert_eq!(
        raw.ask(&Request::Read(read)).await.ok(),
        b"lo wo",
        "its writer can read it"
    );
    raw.ask(&close(handle)).await.ok();
    assert_eq!(server.content("/d/f").as_deref(), Some(&b"hello world"[..]));
    let kept = server
        .store
        .stored_checksums(&LogicalPath::parse("/d/f").unwrap())
        .unwrap();
    assert_eq!(kept, [adler32(b"hello world")]);
    let again = raw.ask(&open("/data/d/f", options)).await;
    assert_eq!(again.error(), ErrorNumber::EXISTS);
    let record = server
        .log
        .all()
        .into_iter()
        .rfind(|record| record.method == "close")
        .unwrap();
    assert_eq!(
        (record.bytes_in, record.bytes_out, record.path.as_str()),
        (11, 5, "/data/d/f")
    );
}

#[tokio::test]
async fn an_old_file_stays_until_the_new_one_is_closed() {
    let server = Server::open();
    server.put("/f", b"old");
    let mut raw = server.client().await;
    let handle = raw.opened("/data/f", OpenOptions::TRUNCATE).await;
    write(&mut raw, handle, 0, b"new content").await;
    assert_eq!(server.content("/f").as_deref(), Some(&b"old"[..]));
    drop(raw);
    while server.door.connections() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        server.content("/f").as_deref(),
        Some(&b"old"[..]),
        "a lost connection changes nothing"
    );
    let told = server.log.all().pop().unwrap();
    assert_eq!(told.error.unwrap().code, "client_gone");
    let mut raw = server.client().await;
    let handle = raw.opened("/data/f", OpenOptions::TRUNCATE).await;
    write(&mut raw, handle, 0, b"new content").await;
    raw.ask(&close(handle)).await.ok();
    assert_eq!(server.content("/f").as_deref(), Some(&b"new content"[..]));
}

#[tokio::test]
async fn what_is_shorter_than_announced_or_does_not_fit_is_not_stored() {
    let server = Server::open();
    let mut raw = server.client().await;
    let handle = raw.opened("/data/f?oss.asize=4", OpenOptions::NEW).await;
    write(&mut raw, handle, 0, b"abc").await;
    assert_eq!(raw.ask(&close(handle)).await.error(), ErrorNumber::INPUT_OUTPUT);
    let huge = raw.ask(&open("/data/f?oss.asize=99999999999", OpenOptions::NEW)).await;
    assert_eq!(huge.error(), ErrorNumber::NO_SPACE);
    let handle = raw.opened("/data/f?oss.asize=4", OpenOptions::NEW).await;
    let too_much = Request::Write(Write {
        handle,
        offset: 0,
        path: 0,
        data_bytes: 5,
    });
    assert_eq!(raw.ask_with(&too_much, b"abcde").await.status, 4003);
    assert_eq!(
        raw.ask(&close(handle)).await.status,
        4003,
        "what failed once is not whole"
    );
    assert_eq!(server.content("/f"), None);
    assert!(
        raw.ask(&Request::Ping).await.ok().is_empty(),
        "the data was passed over"
    );
}

#[tokio::test]
async fn one_client_writes_a_file_at_a_time() {
    let server = Server::open();
    let (mut first, mut second) = (server.client().await, server.client().await);
    let handle = first.opened("/data/f", OpenOptions::TRUNCATE).await;
    let refused = second.ask(&open("/data/f", OpenOptions::TRUNCATE)).await;
    assert_eq!(refused.error(), ErrorNumber::FILE_LOCKED);
    second
        .opened("/data/f", OpenOptions::TRUNCATE | OpenOptions::FORCE)
        .await;
    first.ask(&close(handle)).await.ok();
    second.opened("/data/f", OpenOptions::TRUNCATE).await;
    let reader = second.ask(&open("/data/f", OpenOptions::READ)).await;
    assert_eq!(reader.status, 0, "readers see the old file");
}

fn page_write(handle: FileHandle, offset: u64, wire: &[u8], flags: PageFlags) -> Request<'static> {
    Request::PageWrite(PageWrite {
        handle,
        offset,
        path: 0,
        flags,
        encoded_bytes: wire.len(),
    })
}

#[tokio::test]
async fn damaged_pages_are_told_and_have_to_be_sent_again() {
    let server = Server::open();
    let content: Vec<u8> = (0..10_000u32).map(|index| (index * 7) as u8).collect();
    let mut raw = server.client().await;
    for repair in [false, true] {
        let handle = raw.opened("/data/f", OpenOptions::TRUNCATE).await;
        let mut wire = Vec::new();
        encode_units(100, &content, &mut wire);
        // A byte of the second page, which begins at 4096.
        wire[4 + 3996 + 4] ^= 1;
        write(&mut raw, handle, 0, &[0; 100]).await;
        let answer = raw
            .ask_with(&page_write(handle, 100, &wire, PageFlags::empty()), &wire)
            .await;
        assert_eq!(answer.status, 4007);
        let listed = &answer.body[24..];
        assert_eq!(listed[..4], checksum(&listed[4..]).to_be_bytes());
        assert_eq!(listed[4..], [&[0x10, 0, 0x10, 0][..], &4096u64.to_be_bytes()].concat());
        if repair {
            let mut page = Vec::new();
            encode_units(4096, &content[3996..3996 + 4096], &mut page);
            let again = raw
                .ask_with(&page_write(handle, 4096, &page, PageFlags::RETRY), &page)
                .await;
            assert_eq!((again.status, again.body.len()), (4007, 24));
            raw.ask(&close(handle)).await.ok();
            let stored = server.content("/f").unwrap();
            assert_eq!(stored[100..], content);
            let kept = server
                .store
                .stored_checksums(&LogicalPath::parse("/f").unwrap())
                .unwrap();
            assert_eq!(kept, [adler32(&stored)], "the one of the repaired file");
        } else {
            assert_eq!(raw.ask(&close(handle)).await.error(), ErrorNumber::CHECKSUM);
            assert_eq!(server.content("/f"), None);
            assert_eq!(raw.ask(&close(handle)).await.error(), ErrorNumber::FILE_NOT_OPEN);
        }
    }
}

#[tokio::test]
async fn too_many_damaged_pages_end_the_hope() {
    let server = Server::open();
    let mut raw = server.client().await;
    let handle = raw.opened("/data/f", OpenOptions::NEW).await;
    let wire = vec![7; 130 * 4100];
    let answer = raw
        .ask_with(&page_write(handle, 0, &wire, PageFlags::empty()), &wire)
        .await;
    assert_eq!(answer.error(), ErrorNumber::TOO_MANY_ERRORS);
    assert_eq!(raw.ask(&close(handle)).await.error(), ErrorNumber::CHECKSUM);
    assert_eq!(server.content("/f"), None);
}

#[tokio::test]
async fn a_file_is_changed_where_it_lies_when_that_is_asked_for() {
    let server = Server::open();
    server.put("/f", b"0123456789");
    let mut raw = server.client().await;
    let handle = raw.opened("/data/f", OpenOptions::UPDATE).await;
    write(&mut raw, handle, 8, b"abc").await;
    assert_eq!(
        server.content("/f").as_deref(),
        Some(&b"01234567abc"[..]),
        "it shows at once"
    );
    raw.ask(&Request::Sync(SyncFile { handle })).await.ok();
    let truncate = Request::Truncate(Truncate {
        target: TruncateTarget::Handle(handle),
        size_bytes: 9,
    });
    raw.ask(&truncate).await.ok();
    raw.ask(&close(handle)).await.ok();
    assert_eq!(server.content("/f").as_deref(), Some(&b"01234567a"[..]));
    let by_path = Request::Truncate(Truncate {
        target: TruncateTarget::Path(Argument::new(b"/data/f")),
        size_bytes: 2,
    });
    raw.ask(&by_path).await.ok();
    assert_eq!(server.content("/f").as_deref(), Some(&b"01"[..]));
    let missing = raw.ask(&open("/data/none", OpenOptions::UPDATE)).await;
    assert_eq!(missing.error(), ErrorNumber::NOT_FOUND);
    let reading = raw.opened("/data/f", OpenOptions::READ).await;
    let refused = Request::Write(Write {
        handle: reading,
        offset: 0,
        path: 0,
        data_bytes: 3,
    });
    assert_eq!(raw.ask_with(&refused, b"xyz").await.error(), ErrorNumber::FILE_NOT_OPEN);
    assert!(raw.ask(&Request::Ping).await.ok().is_empty());
}

/// A truncation by name, as POSIX-like clients send it.
async fn truncate_named(raw: &mut Raw, size_bytes: u64) -> Answer {
    let target = TruncateTarget::Path(Argument::new(b"/data/f"));
    raw.ask(&Request::Truncate(Truncate { target, size_bytes })).await
}

#[tokio::test]
async fn a_truncation_by_name_acts_on_what_its_client_has_open() {
    let server = Server::open();
    server.put("/f", b"0123456789");
    let (mut raw, mut sibling) = (server.client().await, server.client().await);
    let mut stranger = server.client_of(8).await;
    let handle = raw.opened("/data/f", OpenOptions::UPDATE).await;
    truncate_named(&mut raw, 8).await.ok();
    assert_eq!(server.content("/f").as_deref(), Some(&b"01234567"[..]));
    truncate_named(&mut sibling, 0).await.ok();
    assert_eq!(server.content("/f").as_deref(), Some(&b""[..]));
    assert_eq!(truncate_named(&mut stranger, 5).await.error(), ErrorNumber::FILE_LOCKED);
    write(&mut raw, handle, 0, b"new").await;
    raw.ask(&close(handle)).await.ok();
    assert_eq!(server.content("/f").as_deref(), Some(&b"new"[..]));
    truncate_named(&mut stranger, 2).await.ok();
    assert_eq!(server.content("/f").as_deref(), Some(&b"ne"[..]));
}

#[tokio::test]
async fn a_truncation_by_name_cuts_an_upload_of_its_session_and_not_the_old_file() {
    let server = Server::open();
    server.put("/f", b"old file");
    let (mut raw, mut sibling) = (server.client().await, server.client().await);
    let handle = raw.opened("/data/f", OpenOptions::TRUNCATE).await;
    write(&mut raw, handle, 0, b"new content").await;
    truncate_named(&mut raw, 3).await.ok();
    assert_eq!(server.content("/f").as_deref(), Some(&b"old file"[..]));
    let refused = truncate_named(&mut sibling, 1).await;
    assert_eq!(
        refused.error(),
        ErrorNumber::FILE_LOCKED,
        "an upload is that of its session"
    );
    raw.ask(&close(handle)).await.ok();
    assert_eq!(server.content("/f").as_deref(), Some(&b"new"[..]));
    let kept = server.store.stored_checksums(&LogicalPath::parse("/f").unwrap());
    assert_eq!(kept.unwrap(), [adler32(b"new")]);
}

/// A client may close a file without having read that a truncation of it by name was refused. It
/// would then believe that a file of the wrong length was stored.
#[tokio::test]
async fn a_refused_truncation_by_name_makes_the_close_fail() {
    // More than there is space for, and an impossible length.
    for size_bytes in [1 << 40, u64::MAX] {
        for options in [OpenOptions::TRUNCATE, OpenOptions::UPDATE] {
            let server = Server::open();
            server.put("/f", b"old file");
            let mut raw = server.client().await;
            let handle = raw.opened("/data/f", options).await;
            let refused = truncate_named(&mut raw, size_bytes).await;
            assert_eq!(refused.status, 4003, "{options:?} {size_bytes}");
            let closed = raw.ask(&close(handle)).await;
            assert_eq!(closed.status, 4003, "{options:?} {size_bytes}");
            assert_eq!(server.content("/f").as_deref(), Some(&b"old file"[..]));
        }
    }
    let server = Server::open();
    server.put("/f", b"old file");
    let (mut raw, mut sibling) = (server.client().await, server.client().await);
    let handle = raw.opened("/data/f", OpenOptions::UPDATE).await;
    assert_eq!(truncate_named(&mut sibling, u64::MAX).await.status, 4003);
    assert_eq!(
        raw.ask(&close(handle)).await.status,
        4003,
        "on another session of its client"
    );
}

#[tokio::test]
async fn many_ranges_are_written_at_once() {
    let server = Server::open();
    let mut raw = server.client().await;
    let first = raw.opened("/data/f", OpenOptions::NEW).await;
    let second = raw.opened("/data/g", OpenOptions::NEW).await;
    let items = [(first, 2, 2), (second, 0, 3), (first, 0, 2)];
    let list: Vec<u8> = items
        .iter()
        .flat_map(|(handle, offset, length)| {
            VectorItem {
                handle: *handle,
                length: *length,
                offset: *offset,
            }
            .encode()
        })
        .collect();
    let vector = Request::WriteVector(WriteVector::new(1, &list).unwrap());
    raw.ask_with(&vector, b"cdxyzab").await.ok();
    raw.ask(&close(first)).await.ok();
    raw.ask(&close(second)).await.ok();
    assert_eq!(server.content("/f").as_deref(), Some(&b"abcd"[..]));
    assert_eq!(server.content("/g").as_deref(), Some(&b"xyz"[..]));
    assert_eq!(
        raw.ask_with(&vector, b"cdxyzab").await.error(),
        ErrorNumber::FILE_NOT_OPEN
    );
    assert!(
        raw.ask(&Request::Ping).await.ok().is_empty(),
        "all data was passed over"
    );
}

#[tokio::test]
async fn a_file_that_lasts_only_if_closed_says_so() {
    let server = Server::open();
    let mut raw = server.client().await;
    let options = OpenOptions::NEW | OpenOptions::PERSIST_ON_CLOSE | OpenOptions::RETURN_STAT;
    let reply = OpenReply::parse(&raw.ask(&open("/data/f", options)).await.ok()).unwrap();
    let stat = reply.stat.unwrap();
    assert!(stat.flags.contains(StatFlags::PERSIST_PENDING));
    assert_eq!(stat.extension.unwrap().mode, 0o1644);
}

#[tokio::test]
async fn a_file_that_is_being_written_shows_to_other_sessions_as_pending() {
    let server = Server::open();
    let (mut writer, mut other) = (server.client().await, server.client().await);
    let handle = writer
        .opened("/data/d/new", OpenOptions::NEW | OpenOptions::MAKE_PATH)
        .await;
    write(&mut writer, handle, 0, b"abc").await;
    let stat = Request::Stat(Stat::path(b"/data/d/new"));
    let seen = StatText::parse(other.ask(&stat).await.text().as_bytes()).unwrap();
    assert_eq!((seen.size_bytes, seen.flags.bits() & 0xff), (3, 112));
    assert_eq!(seen.extension.unwrap().mode & 0o1000, 0o1000);
    // It can be seen but not read, even by a client that waits a moment for it.
    let read = other.ask(&open("/data/d/new", OpenOptions::READ)).await;
    assert_eq!(read.error(), ErrorNumber::NOT_FOUND);
    writer.ask(&close(handle)).await.ok();
    let seen = StatText::parse(other.ask(&stat).await.text().as_bytes()).unwrap();
    assert_eq!((seen.size_bytes, seen.flags.bits()), (3, 48));
    // An abandoned one is no longer shown.
    writer.opened("/data/lost", OpenOptions::NEW).await;
    let lost = Request::Stat(Stat::path(b"/data/lost"));
    other.ask(&lost).await.ok();
    drop(writer);
    soon(async { while other.ask(&lost).await.status == 0 {} }).await;
}

#[tokio::test]
async fn a_file_that_is_written_by_force_is_pending_as_well() {
    let server = Server::open();
    let (mut one, mut other) = (server.client().await, server.client().await);
    let forced = OpenOptions::TRUNCATE | OpenOptions::FORCE;
    let first = one.opened("/data/f", forced).await;
    let second = other.opened("/data/f", forced).await;
    write(&mut one, first, 0, b"one").await;
    let stat = Request::Stat(Stat::path(b"/data/f"));
    for _ in 0..2 {
        let seen = StatText::parse(other.ask(&stat).await.text().as_bytes()).unwrap();
        assert!(seen.flags.contains(StatFlags::PERSIST_PENDING), "{seen:?}");
    }
    one.ask(&close(first)).await.ok();
    let seen = StatText::parse(other.ask(&stat).await.text().as_bytes()).unwrap();
    assert_eq!((seen.size_bytes, seen.flags.bits()), (3, 48), "the first one is stored");
    other.ask(&close(second)).await.ok();
}

#[tokio::test]
async fn an_open_waits_for_a_close_that_is_on_its_way() {
    let server = Server::open();
    let (mut writer, mut other) = (server.client().await, server.client().await);
    let handle = writer.opened("/data/f", OpenOptions::NEW).await;
    write(&mut writer, handle, 0, b"abc").await;
    let read = open("/data/f", OpenOptions::READ);
    let closing = async {
        // The server runs on this thread too: meanwhile the other client has begun to wait. It
        // waits for a second only, so this must take less on a busy machine.
        for _ in 0..500 {
            tokio::task::yield_now().await;
        }
        writer.ask(&close(handle)).await.ok();
    };
    let (opened, ()) = tokio::join!(other.ask(&read), closing);
    opened.ok();
    // A file that the session itself writes is not waited for.
    let own = writer.opened("/data/own", OpenOptions::NEW).await;
    let refused = writer.ask(&open("/data/own", OpenOptions::READ)).await;
    assert_eq!(refused.error(), ErrorNumber::NOT_FOUND);
    writer.ask(&close(own)).await.ok();
}
