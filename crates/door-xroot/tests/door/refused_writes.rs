//! Refused writes: an open upload cannot take its name, and an old file stays.

use credentials::{Macaroon, MacaroonKey};
use endpoint::{Exports, SharedExports};
use policy::AnonymousAccess;
use xroot_wire::pages::encode_units;
use xroot_wire::request::{
    Checkpoint, CheckpointAction, Close, Open, PageWrite, Request, Truncate, TruncateTarget, VectorItem, Write,
    WriteVector,
};
use xroot_wire::{Argument, ErrorNumber, FileHandle, OpenExtraOptions, OpenOptions, PageFlags};

use crate::harness::{Answer, Raw, SECRET, Server, open};

/// An existing file is opened to be replaced, with a token for at most eight bytes. Something is
/// refused, and the client closes the file all the same. The old file must stay.
async fn old_file_stays<F: AsyncFnOnce(&mut Raw, FileHandle) -> Answer>(refused: F) {
    let server = Server::start(|settings| {
        let mut closed = settings.site.exports.current().list().to_vec();
        closed[0].rules.anonymous = AnonymousAccess::None;
        settings.site.exports = SharedExports::new(Exports::new(closed));
    });
    server.put("/f", b"old");
    let mut raw = server.client().await;
    let caveats = ["activity:UPLOAD,MANAGE", "path:/data", "max-upload:8"];
    let macaroon = Macaroon::mint(&MacaroonKey::new(SECRET), "here", "id-1", caveats).unwrap();
    let name = format!("/data/f?authz=Bearer%20{}", macaroon.to_text().expose());
    let handle = raw.opened(&name, OpenOptions::TRUNCATE).await;
    write(&mut raw, handle, 0, b"new").await.ok();
    let answer = refused(&mut raw, handle).await;
    assert_eq!(answer.status, 4003, "{answer:?}");
    // Later writes do not repair it.
    write(&mut raw, handle, 3, b"er").await;
    let closed = raw.ask(&Request::Close(Close { handle })).await;
    assert_eq!(closed.status, 4003, "{closed:?}");
    assert_eq!(server.content("/f").as_deref(), Some(&b"old"[..]));
}

async fn write(raw: &mut Raw, handle: FileHandle, offset: u64, data: &[u8]) -> Answer {
    let request = Request::Write(Write {
        handle,
        offset,
        path: 0,
        data_bytes: data.len(),
    });
    raw.ask_with(&request, data).await
}

fn vector(items: &[(FileHandle, u64, u32)]) -> Vec<u8> {
    let items = items.iter().map(|(handle, offset, length)| VectorItem {
        handle: *handle,
        length: *length,
        offset: *offset,
    });
    items.flat_map(|item| item.encode()).collect()
}

#[tokio::test]
async fn a_write_above_what_the_token_allows() {
    old_file_stays(async |raw, handle| write(raw, handle, 3, b"and more").await).await;
}

#[tokio::test]
async fn a_write_at_an_offset_that_no_file_has() {
    old_file_stays(async |raw, handle| write(raw, handle, i64::MAX as u64, b"x").await).await;
    old_file_stays(async |raw, handle| write(raw, handle, u64::MAX, b"x").await).await;
}

#[tokio::test]
async fn pages_above_what_the_token_allows() {
    old_file_stays(async |raw, handle| {
        let mut wire = Vec::new();
        encode_units(3, b"and more", &mut wire);
        let request = Request::PageWrite(PageWrite {
            handle,
            offset: 3,
            path: 0,
            flags: PageFlags::empty(),
            encoded_bytes: wire.len(),
        });
        raw.ask_with(&request, &wire).await
    })
    .await;
}

#[tokio::test]
async fn a_vector_with_a_range_above_what_the_token_allows() {
    old_file_stays(async |raw, handle| {
        let list = vector(&[(handle, 3, 2), (handle, 7, 2)]);
        let request = Request::WriteVector(WriteVector::new(0, &list).unwrap());
        raw.ask_with(&request, b"abcd").await
    })
    .await;
}

#[tokio::test]
async fn a_vector_in_which_another_handle_is_wrong() {
    for place in 0..2 {
        old_file_stays(async |raw, handle| {
            let mut items = vec![(handle, 3, 2)];
            items.insert(place, (FileHandle::new(9), 0, 2));
            let list = vector(&items);
            let request = Request::WriteVector(WriteVector::new(0, &list).unwrap());
            raw.ask_with(&request, b"abcd").await
        })
        .await;
    }
}

#[tokio::test]
async fn a_length_above_what_the_token_allows_or_that_no_file_has() {
    for size_bytes in [9, u64::MAX] {
        old_file_stays(async |raw, handle| {
            let target = TruncateTarget::Handle(handle);
            raw.ask(&Request::Truncate(Truncate { target, size_bytes })).await
        })
        .await;
    }
}

#[tokio::test]
async fn a_checkpoint_which_is_not_offered() {
    old_file_stays(async |raw, handle| {
        let action = CheckpointAction::Begin;
        raw.ask(&Request::Checkpoint(Checkpoint { handle, action })).await
    })
    .await;
}

#[tokio::test]
async fn a_file_changed_where_it_lies_that_lost_its_name_meanwhile() {
    let server = Server::open();
    server.put("/f", b"0123");
    let (mut raw, mut other) = (server.client().await, server.client().await);
    for force in [OpenOptions::empty(), OpenOptions::FORCE] {
        let handle = raw.opened("/data/f", OpenOptions::UPDATE | force).await;
        write(&mut raw, handle, 0, b"ab").await.ok();
        if force.is_empty() {
            server.put("/f", b"another");
        } else {
            let upload = other.opened("/data/f", OpenOptions::TRUNCATE | force).await;
            write(&mut other, upload, 0, b"another").await.ok();
            other.ask(&Request::Close(Close { handle: upload })).await.ok();
        }
        let closed = raw.ask(&Request::Close(Close { handle })).await;
        assert_eq!(closed.error(), ErrorNumber::NOT_FOUND);
        assert_eq!(server.content("/f").as_deref(), Some(&b"another"[..]));
    }
}

#[tokio::test]
async fn an_upload_that_new_rules_forbid_before_it_is_closed() {
    let mut shared = None;
    let server = Server::start(|settings| shared = Some(settings.site.exports.clone()));
    let exports = shared.unwrap();
    server.put("/f", b"old");
    let mut raw = server.client().await;
    let handle = raw.opened("/data/f", OpenOptions::TRUNCATE).await;
    write(&mut raw, handle, 0, b"new").await.ok();
    let mut closed = exports.current().list().to_vec();
    closed[0].rules.anonymous = AnonymousAccess::Read;
    exports.replace(Exports::new(closed));
    let closed = raw.ask(&Request::Close(Close { handle })).await;
    assert_eq!(closed.error(), ErrorNumber::NOT_AUTHORIZED);
    assert_eq!(server.content("/f").as_deref(), Some(&b"old"[..]));
}

/// XRootD's clients open an upload whose connection was lost for update, to send what is missing.
#[tokio::test]
async fn an_interrupted_upload_goes_on_in_no_file() {
    let server = Server::start(|_| {});
    server.put("/f", b"old content");
    let mut raw = server.client().await;
    let handle = raw.opened("/data/f", OpenOptions::TRUNCATE).await;
    write(&mut raw, handle, 0, b"new ").await.ok();
    let mut again = server.client().await;
    // While the first connection seems alive, and after its end was noticed; with the turn to
    // write, and without.
    for options in [OpenOptions::UPDATE, OpenOptions::UPDATE | OpenOptions::FORCE] {
        refused_recovery(&mut again, options).await;
    }
    drop(raw);
    for options in [OpenOptions::UPDATE, OpenOptions::UPDATE | OpenOptions::FORCE] {
        refused_recovery(&mut again, options).await;
    }
    assert_eq!(server.content("/f").as_deref(), Some(&b"old content"[..]));
    // The client starts again, and may update what it has stored.
    let handle = again.opened("/data/f", OpenOptions::TRUNCATE).await;
    write(&mut again, handle, 0, b"new").await.ok();
    again.ask(&Request::Close(Close { handle })).await.ok();
    let handle = again.opened("/data/f", OpenOptions::UPDATE).await;
    write(&mut again, handle, 3, b"er").await.ok();
    again.ask(&Request::Close(Close { handle })).await.ok();
    assert_eq!(server.content("/f").as_deref(), Some(&b"newer"[..]));
}

/// A server that has just started does not know whose uploads its predecessor interrupted.
#[tokio::test]
async fn a_recovery_after_a_restart_is_told_by_its_permission_bits() {
    let server = Server::start(|_| {});
    server.put("/f", b"old content");
    let mut raw = server.client().await;
    let request = Request::Open(Open {
        mode: 0o644,
        options: OpenOptions::UPDATE | OpenOptions::MAKE_PATH,
        extra_options: OpenExtraOptions::empty(),
        template: FileHandle::default(),
        path: Argument::new(b"/data/f"),
    });
    assert_eq!(raw.ask(&request).await.error(), ErrorNumber::INVALID_REQUEST);
}

async fn refused_recovery(raw: &mut Raw, options: OpenOptions) {
    let answer = raw.ask(&open("/data/f", options)).await;
    assert_eq!(answer.error(), ErrorNumber::INVALID_REQUEST, "{answer:?}");
}
