//! WebDAV's locks bind clients of this protocol too, which cannot send lock tokens.

use std::time::Duration;

use credentials::Credential;
use endpoint::{ClientId, Exports, FairShare, LockFacts, LockHolder, Locks, NewLock, SharedExports, new_lock_token};
use policy::AnonymousAccess;
use storage::Memory;
use types::{ErrorCode, LogicalPath, Result};
use xroot_wire::request::{
    AttributeAction, ChangeMode, Close, FileAttributes, MakeDirectory, Remove, RemoveDirectory, Rename, Request,
    Truncate, TruncateTarget, Write,
};
use xroot_wire::{Argument, AttributeOptions, ErrorNumber, FileHandle, OpenOptions};

use crate::harness::{Raw, Server, closed, export, open};

/// A server on whose files a test can take locks.
fn lockable() -> (Server, Locks) {
    let mut exports = SharedExports::default();
    let server = Server::start(|settings| exports = settings.site.exports.clone());
    let locks = exports.current().locks().clone();
    (server, locks)
}

/// Takes a lock as an anonymous client, like the tests' client.
async fn lock(locks: &Locks, path: &str, is_deep: bool) {
    try_lock(locks, path, is_deep).await.unwrap();
}

async fn try_lock(locks: &Locks, path: &str, is_deep: bool) -> Result<LockFacts> {
    let lock = NewLock {
        root: LogicalPath::parse(path).unwrap(),
        token: new_lock_token(),
        is_shared: false,
        is_deep,
        owner: String::new(),
        holder: LockHolder::of(&Ok(Credential::Anonymous.into())),
        timeout: Duration::from_secs(600),
    };
    locks.take(lock, &FairShare::default(), &ClientId::own()).await
}

fn path(text: &str) -> Argument<'_> {
    Argument::new(text.as_bytes())
}

fn attribute(target: &str) -> Request<'_> {
    Request::FileAttributes(FileAttributes {
        handle: FileHandle::new(0),
        path: Some(path(target)),
        options: AttributeOptions::empty(),
        action: AttributeAction::Set(vec![(b"a", b"b")]),
    })
}

fn truncate(target: &str) -> Request<'_> {
    Request::Truncate(Truncate {
        target: TruncateTarget::Path(path(target)),
        size_bytes: 1,
    })
}

fn make(target: &str) -> Request<'_> {
    Request::MakeDirectory(MakeDirectory {
        options: 0,
        mode: 0,
        path: path(target),
    })
}

async fn is_locked(raw: &mut Raw, request: Request<'_>) {
    let answer = raw.ask(&request).await;
    assert_eq!(answer.status, 4003, "{request:?}: {answer:?}");
    assert_eq!(answer.error(), ErrorNumber::FILE_LOCKED, "{request:?}");
}

#[tokio::test]
async fn what_is_locked_cannot_be_changed() {
    let (server, locks) = lockable();
    for file in ["/f", "/d/f", "/d/sub/f", "/g"] {
        server.put(file, b"old");
    }
    lock(&locks, "/data/f", false).await;
    lock(&locks, "/data/d", true).await;
    let mut raw = server.client().await;
    for request in [
        open("/data/f", OpenOptions::TRUNCATE),
        open("/data/f", OpenOptions::UPDATE),
        open("/data/d/new", OpenOptions::NEW),
        open("/data/d/a/new", OpenOptions::NEW | OpenOptions::MAKE_PATH),
        Request::Remove(Remove { path: path("/data/f") }),
        Request::Remove(Remove {
            path: path("/data/d/f"),
        }),
        Request::RemoveDirectory(RemoveDirectory {
            path: path("/data/d/sub"),
        }),
        Request::Rename(Rename::new(b"/data/f", b"/data/h")),
        Request::Rename(Rename::new(b"/data/g", b"/data/f")),
        Request::Rename(Rename::new(b"/data/g", b"/data/d/g")),
        Request::Rename(Rename::new(b"/data/d", b"/data/e")),
        make("/data/d/made"),
        Request::ChangeMode(ChangeMode {
            mode: 0o600,
            path: path("/data/f"),
        }),
        truncate("/data/f"),
        attribute("/data/f"),
        attribute("/data/d/f"),
    ] {
        is_locked(&mut raw, request).await;
    }
    // An existing directory is not created again, and what is not locked can be changed.
    for request in [
        make("/data/d/sub"),
        attribute("/data/g"),
        truncate("/data/g"),
        Request::Rename(Rename::new(b"/data/g", b"/data/h")),
    ] {
        raw.ask(&request).await.ok();
    }
    assert_eq!(server.content("/f").as_deref(), Some(&b"old"[..]));
}

async fn write(raw: &mut Raw, handle: FileHandle) -> u16 {
    let request = Request::Write(Write {
        handle,
        offset: 0,
        path: 0,
        data_bytes: 3,
    });
    raw.ask_with(&request, b"new").await.status
}

#[tokio::test]
async fn what_was_open_before_the_lock_changes_nothing_behind_it() {
    let (server, locks) = lockable();
    server.put("/f", b"old");
    server.put("/g", b"old");
    let mut raw = server.client().await;
    let upload = raw.opened("/data/f", OpenOptions::TRUNCATE).await;
    let update = raw.opened("/data/g", OpenOptions::UPDATE).await;
    assert_eq!(write(&mut raw, upload).await, 0);
    // An update in place shows at once, so no lock is granted until the file is closed.
    for (at, is_deep) in [("/data/g", false), ("/data", true)] {
        let refused = try_lock(&locks, at, is_deep).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::Busy, "{at}");
    }
    lock(&locks, "/data/f", false).await;
    assert_eq!(write(&mut raw, update).await, 0);
    is_locked(&mut raw, Request::Close(Close { handle: upload })).await;
    raw.ask(&Request::Close(Close { handle: update })).await.ok();
    lock(&locks, "/data/g", false).await;
    assert_eq!(server.content("/f").as_deref(), Some(&b"old"[..]));
    assert_eq!(server.content("/g").as_deref(), Some(&b"new"[..]));
}

#[tokio::test]
async fn a_lock_below_is_not_named_to_who_may_not_look_there() {
    let rule = closed("/data/closed/secret");
    let store = Memory::new(1 << 20);
    let exports = Exports::with_rules(vec![export("/data", AnonymousAccess::Write, store.clone())], vec![rule]);
    let exports = SharedExports::new(exports);
    let locks = exports.current().locks().clone();
    let server = Server::start(|settings| settings.site.exports = exports);
    let server = Server { store, ..server };
    let mut raw = server.client().await;
    for (directory, inner, is_named) in [("closed", "secret", false), ("open", "shown", true)] {
        server.put(&format!("/{directory}/{inner}/f"), b"x");
        lock(&locks, &format!("/data/{directory}/{inner}/f"), false).await;
        let directory = format!("/data/{directory}");
        let refused = raw
            .ask(&Request::RemoveDirectory(RemoveDirectory { path: path(&directory) }))
            .await;
        assert_eq!(refused.error(), ErrorNumber::FILE_LOCKED, "{directory}");
        let words = String::from_utf8_lossy(&refused.body).into_owned();
        assert_eq!(words.contains(inner), is_named, "{words}");
    }
}
