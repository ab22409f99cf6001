//! Collections with everything in them: removed, replaced and copied, where the export and the
//! rights below allow it.

use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use endpoint::{Export, Exports, Store};
use policy::{AnonymousAccess, Area, Rule, parse_given, parse_taken};
use storage::Posix;
use storage::Replacing;
use storage_remote::{Credential, Identity, RemoteStore, Upstream};
use types::{Location, LogicalPath};

use crate::harness::{Answer, Server, client, export, macaroon, memory};

/// An export whose directories can be removed with everything in them.
fn generous(path: &str) -> Export {
    let mut export = export(path, AnonymousAccess::Write, memory());
    export.rules.recursive_delete = true;
    export
}

async fn filled(exports: Vec<Export>) -> Server {
    let server = Server::start(exports, |_| {}).await;
    for path in ["/data/d/f", "/data/d/sub/g", "/data/d/private/h", "/data/e"] {
        server.put(path, b"content").await;
    }
    server
}

const LOCK: &[u8] =
    b"<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";

/// The `/data` of a server, as a store.
fn remote(server: &Server) -> Upstream {
    let place = Location::parse(&server.url("/data")).unwrap();
    Upstream::new(client(), place, Identity::Service(Credential::default()))
}

/// A server in front of the `/data` of another one, which it shows as `/far`.
async fn in_front_of(server: &Server) -> Server {
    let far = Export {
        store: Store::of(Arc::new(RemoteStore::new(remote(server)))),
        ..generous("/far")
    };
    Server::start(vec![far], |_| {}).await
}

/// The names in the `/data` of a server.
async fn names(server: &Server) -> Vec<String> {
    let listed = server.ask("PROPFIND /data\nDepth: 1\n", b"").await.text();
    let hrefs = listed.split("/data/").skip(1).filter_map(|rest| rest.split('<').next());
    let mut names: Vec<String> = hrefs.map(|name| name.trim_matches('/').to_owned()).collect();
    names.sort();
    names.dedup();
    names.retain(|name| !name.is_empty());
    names
}

fn path(text: &str) -> LogicalPath {
    LogicalPath::parse(text).unwrap()
}

async fn status(server: &Server, head: &str) -> u16 {
    server.ask(&format!("{head}\n"), b"").await.status
}

async fn as_bearer(server: &Server, head: &str, caveat: &str) -> Answer {
    let token = macaroon(caveat);
    server
        .ask(&format!("{head}\nAuthorization: Bearer {token}\n"), b"")
        .await
}

#[tokio::test]
async fn a_full_collection_stays_unless_its_export_says_otherwise() {
    let server = filled(vec![export("/data", AnonymousAccess::Write, memory())]).await;
    let answer = server.ask("DELETE /data/d\n", b"").await;
    assert_eq!(answer.status, 409);
    let text = answer.text();
    assert!(text.contains("set `recursive_delete = true` on the export"), "{text}");
    assert!(
        text.contains("Directory not empty") && text.contains("[not_empty]"),
        "{text}"
    );
    assert_eq!(status(&server, "GET /data/d/sub/g").await, 200);

    let server = filled(vec![generous("/data")]).await;
    for depth in ["0", "1"] {
        let head = format!("DELETE /data/d\nDepth: {depth}");
        assert_eq!(status(&server, &head).await, 409, "less was asked for");
    }
    assert_eq!(status(&server, "DELETE /data/d\nDepth: infinity").await, 204);
    assert_eq!(status(&server, "GET /data/d/sub/g").await, 404);
    assert_eq!(status(&server, "DELETE /data/d").await, 404);
    assert_eq!(status(&server, "GET /data/e").await, 200);
}

#[tokio::test]
async fn a_collection_with_something_below_that_is_not_to_be_removed_stays_whole() {
    let rule = |path: &str, taken: &str| Rule {
        area: Area::parse(path).unwrap(),
        may: parse_given("all").unwrap(),
        may_not: parse_taken(taken).unwrap(),
        ..Rule::default()
    };
    let server = filled(vec![generous("/data")]).await;
    let list = server.exports.current().list().to_vec();
    let exports = Exports::with_rules(list.clone(), vec![rule("/data/d/private", "delete")]);
    server.exports.replace(exports);
    assert_eq!(status(&server, "DELETE /data/d").await, 401);
    for path in ["/data/d/f", "/data/d/sub/g", "/data/d/private/h"] {
        assert_eq!(status(&server, &format!("GET {path}")).await, 200, "{path}");
    }
    assert_eq!(status(&server, "DELETE /data/d/sub").await, 204);

    // Another export begins below it.
    let mut inner = generous("/data/d/private");
    inner.rules.recursive_delete = true;
    let all = list.into_iter().chain([inner]).collect();
    server.exports.replace(Exports::new(all));
    let answer = server.ask("DELETE /data/d\n", b"").await;
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert_eq!(status(&server, "GET /data/d/f").await, 200);
}

#[tokio::test]
async fn a_credential_removes_a_collection_only_with_the_right_to_delete_everywhere() {
    let server = filled(vec![generous("/data")]).await;
    let mut list = server.exports.current().list().to_vec();
    list[0].rules.anonymous = AnonymousAccess::None;
    server.exports.replace(Exports::new(list));
    for (caveat, expected) in [
        ("activity:UPLOAD,LIST,DOWNLOAD", 403),
        ("activity:MANAGE", 403),
        ("path:/data/d/sub", 403),
        ("activity:DELETE", 204),
    ] {
        let answer = as_bearer(&server, "DELETE /data/d", caveat).await;
        assert_eq!(answer.status, expected, "{caveat}: {}", answer.text());
    }
}

#[tokio::test]
async fn what_stays_of_a_collection_is_named() {
    let Some(directory) = immutable() else { return };
    let mut export = export(
        "/data",
        AnonymousAccess::Write,
        Posix::open(directory.0.path(), &storage::PosixOptions::default()).unwrap(),
    );
    export.rules.recursive_delete = true;
    let server = Server::start(vec![export], |_| {}).await;
    let answer = server.ask("DELETE /data/d\n", b"").await;
    assert_eq!(answer.status, 207, "{}", answer.text());
    let text = answer.text();
    assert!(
        text.contains("<D:href>/data/d/sub/f</D:href><D:status>HTTP/1.1 403"),
        "{text}"
    );
    assert_eq!(status(&server, "GET /data/d/sub/f").await, 200, "it has its name again");
}

#[tokio::test]
async fn collections_are_copied_with_everything_or_alone() {
    let server = filled(vec![export("/data", AnonymousAccess::Write, memory())]).await;
    let copy = |to: &str, more: &str| format!("COPY /data/d\nDestination: {to}{more}");
    assert_eq!(status(&server, &copy("/data/c", "")).await, 201);
    assert_eq!(server.ask("GET /data/c/sub/g\n", b"").await.body, b"content");
    assert_eq!(status(&server, &copy("/data/alone", "\nDepth: 0")).await, 201);
    assert_eq!(status(&server, "GET /data/alone/f").await, 404);
    assert_eq!(status(&server, &copy("/data/x", "\nDepth: 1")).await, 400);
    assert_eq!(status(&server, &copy("/data/c", "\nOverwrite: F")).await, 412);
    assert_eq!(status(&server, &copy("/data/d/sub/x", "")).await, 403);
    assert_eq!(status(&server, &copy("/data/none/x", "")).await, 409);
    // An empty collection is replaced; the refusal of a full one names the key.
    assert_eq!(status(&server, &copy("/data/alone", "")).await, 204);
    for head in [
        copy("/data/c", ""),
        "MOVE /data/d\nDestination: /data/c".to_owned(),
        "MOVE /data/e\nDestination: /data/c".to_owned(),
        "COPY /data/e\nDestination: /data/c".to_owned(),
    ] {
        let answer = server.ask(&format!("{head}\n"), b"").await;
        assert_eq!(answer.status, 409, "{head}");
        assert!(
            answer.text().contains("set `recursive_delete = true` on the export"),
            "{head}"
        );
    }
    assert_eq!(status(&server, "GET /data/c/sub/g").await, 200);
}

#[tokio::test]
async fn a_full_collection_is_replaced_where_it_may_be_removed() {
    let server = filled(vec![generous("/data")]).await;
    for (verb, from) in [
        ("COPY", "/data/d"),
        ("COPY", "/data/e"),
        ("MOVE", "/data/e"),
        ("MOVE", "/data/d"),
    ] {
        server.put("/data/old/x/y", b"old").await;
        let refused = format!("{verb} {from}\nDestination: /data/old\nOverwrite: F");
        assert_eq!(status(&server, &refused).await, 412);
        let head = format!("{verb} {from}\nDestination: /data/old");
        assert_eq!(status(&server, &head).await, 204, "{verb} {from}");
        assert_eq!(
            status(&server, "GET /data/old/x/y").await,
            if from.ends_with('e') { 409 } else { 404 }
        );
        assert_eq!(status(&server, "DELETE /data/old").await, 204);
    }
}

#[tokio::test]
async fn nothing_is_moved_into_itself_or_over_what_it_is_in() {
    let server = in_front_of(&filled(vec![generous("/data")]).await).await;
    for (from, to) in [
        ("/far/d/sub", "/far/d"),
        ("/far/d/sub/g", "/far/d"),
        ("/far/d/sub/g", "/far/d/sub"),
        ("/far/d", "/far/d/sub"),
        ("/far/d", "/far/d/new"),
        ("/far/d", "/far"),
    ] {
        for verb in ["MOVE", "COPY"] {
            let answer = server.ask(&format!("{verb} {from}\nDestination: {to}\n"), b"").await;
            assert_eq!(answer.status, 403, "{verb} {from} {to}: {}", answer.text());
            assert_eq!(status(&server, "GET /far/d/sub/g").await, 200, "{verb} {from} {to}");
        }
    }
}

#[tokio::test]
async fn a_collection_at_another_server_stays_if_its_place_is_not_taken() {
    let far = filled(vec![generous("/data")]).await;
    far.put("/data/old/x/y", b"old").await;
    let lock = far.ask("LOCK /data/d/f\n", LOCK).await;
    assert_eq!(lock.status, 200, "{}", lock.text());
    let server = in_front_of(&far).await;
    let replace = |from: &str| format!("MOVE {from}\nDestination: /far/old\n");
    let answer = server.ask(&replace("/far/d"), b"").await;
    assert_eq!(answer.status, 423, "{}", answer.text());
    assert_eq!(status(&server, "GET /far/old/x/y").await, 200);
    assert_eq!(status(&server, "GET /far/d/f").await, 200);
    assert_eq!(server.ask(&replace("/far/e"), b"").await.status, 204);
    assert_eq!(server.ask("GET /far/old\n", b"").await.body, b"content");
    let names = server.ask("PROPFIND /far\nDepth: 1\n", b"").await.text();
    assert!(!names.contains("replaced"), "{names}");
}

/// Directories and a link, in a real directory.
async fn linked() -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in [("twin/deep/f", "deep"), ("twin/g", "top"), ("old/h", "old")] {
        let file = directory.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content).unwrap();
    }
    for (name, to) in [("alias", "twin"), ("old/link", "../twin")] {
        std::os::unix::fs::symlink(to, directory.path().join(name)).unwrap();
    }
    let store = Posix::open(directory.path(), &storage::PosixOptions::default()).unwrap();
    let mut export = export("/data", AnonymousAccess::Write, store);
    export.rules.recursive_delete = true;
    (directory, Server::start(vec![export], |_| {}).await)
}

#[tokio::test]
async fn a_link_at_another_server_costs_no_file() {
    for (head, expected) in [
        // One directory under two names.
        ("COPY /far/alias\nDestination: /far/twin", 403),
        ("COPY /far/alias/deep\nDestination: /far/twin/deep", 403),
        ("COPY /far/twin/deep\nDestination: /far/alias", 204),
        ("MOVE /far/alias\nDestination: /far/twin", 403),
        ("COPY /far/twin\nDestination: /far/alias", 204),
        // A tree with a link to the source, or to something else.
        ("COPY /far/twin\nDestination: /far/old", 204),
        ("DELETE /far/old", 204),
        ("DELETE /far/alias", 204),
    ] {
        let (_directory, far) = linked().await;
        let server = in_front_of(&far).await;
        let answer = server.ask(&format!("{head}\n"), b"").await;
        assert_eq!(answer.status, expected, "{head}: {}", answer.text());
        for (path, content) in [("/data/twin/deep/f", "deep"), ("/data/twin/g", "top")] {
            let there = far.ask(&format!("GET {path}\n"), b"").await;
            assert_eq!((there.status, there.text().as_str()), (200, content), "{head} {path}");
        }
        let names = names(&far).await;
        assert!(!names.iter().any(|name| name.starts_with('.')), "{head}: {names:?}");
    }
}

/// Begins to replace a directory, and is broken off while the old one has another name.
async fn broken_off(store: &RemoteStore, far: &Server, from: &LogicalPath, to: &LogicalPath) {
    let never = Box::pin(std::future::pending());
    let mut replacing = storage::Store::replace(store, from, to, Replacing::Tree, never);
    let gone = async {
        while status(far, &format!("GET /data{to}/y")).await == 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = &mut replacing => panic!("nothing lets it go on"),
        () = gone => {}
    }
}

#[tokio::test]
async fn what_was_broken_off_between_two_names_is_ended() {
    let (from, to) = (path("/d"), path("/old"));
    // Whether the same process goes on, and what has happened at the other server meanwhile.
    for (restarts, meanwhile, content, left) in [
        (false, None, "old", 0),
        (true, None, "old", 0),
        (true, Some("MOVE /data/d\nDestination: /data/old"), "content", 0),
        (true, Some("COPY /data/d\nDestination: /data/old"), "content", 1),
    ] {
        let notes = tempfile::tempdir().unwrap();
        let far = filled(vec![generous("/data")]).await;
        far.put("/data/d/y", b"content").await;
        far.put("/data/old/y", b"old").await;
        let store = || RemoteStore::new(remote(&far).noting_in(notes.path()));
        let first = store();
        let beside = storage::Store::beside(&first, &to).await.unwrap();
        let copied = beside.path.join("x").unwrap();
        storage::Store::make_directory(&first, &copied, true).await.unwrap();
        broken_off(&first, &far, &from, &to).await;
        if let Some(head) = meanwhile {
            assert_eq!(status(&far, head).await, 201, "{head}");
        }
        drop(beside);
        let store = match restarts {
            true => {
                drop(first);
                store()
            }
            false => first,
        };
        // A request for anything.
        storage::Store::stat(&store, &path("/e")).await.unwrap();
        let there = far.ask("GET /data/old/y\n", b"").await;
        assert_eq!((there.status, there.text().as_str()), (200, content), "{meanwhile:?}");
        let settled = async {
            while names(&far).await.iter().filter(|name| name.starts_with('.')).count() != left {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let settled = tokio::time::timeout(std::time::Duration::from_secs(30), settled).await;
        assert!(settled.is_ok(), "{meanwhile:?}: {:?}", names(&far).await);
    }
}

#[tokio::test]
async fn a_copy_takes_the_right_to_read_everywhere_below_its_source() {
    let rule = |path: &str, taken: &str| Rule {
        area: Area::parse(path).unwrap(),
        may_not: parse_taken(taken).unwrap(),
        ..Rule::default()
    };
    for (area, taken, copied) in [
        ("/data/d/private", "read", 401),
        ("/data/d/private", "delete", 201),
        ("/data/c/sub", "create", 401),
        ("/data/c/other", "delete", 201),
    ] {
        let server = filled(vec![generous("/data")]).await;
        let list = server.exports.current().list().to_vec();
        server
            .exports
            .replace(Exports::with_rules(list, vec![rule(area, taken)]));
        let answer = server.ask("COPY /data/d\nDestination: /data/c\n", b"").await;
        assert_eq!(answer.status, copied, "{area} {taken}: {}", answer.text());
    }
}

/// A directory with an immutable file; undone when dropped.
struct Immutable(tempfile::TempDir);

fn immutable() -> Option<Immutable> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("d/sub")).unwrap();
    let file = directory.path().join("d/sub/f");
    std::fs::write(&file, "x").unwrap();
    let made = Immutable(directory);
    let changed = std::process::Command::new("chattr").arg("+i").arg(&file).output();
    match changed {
        Ok(done) if done.status.success() => Some(made),
        _ => {
            let why = "files that cannot be removed need root and chattr".to_owned();
            testkit::available::<()>("collections", Err(testkit::Error::Missing(why)));
            None
        }
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        let _ = std::process::Command::new("chattr")
            .args(["-R", "-i"])
            .arg(self.0.path().join("d"))
            .output();
    }
}

#[tokio::test]
async fn a_collection_with_names_that_clients_do_not_see_stays_whole() {
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("d");
    std::fs::create_dir(&inner).unwrap();
    let unseen = inner.join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    std::fs::write(&unseen, "kept").unwrap();
    let store = Posix::open(directory.path(), &storage::PosixOptions::default()).unwrap();
    let mut export = export("/data", AnonymousAccess::Write, store);
    export.rules.recursive_delete = true;
    let server = Server::start(vec![export], |_| {}).await;
    for path in ["/data/d", "/data/d/"] {
        let answer = server.ask(&format!("DELETE {path}\n"), b"").await;
        assert_eq!(answer.status, 409, "{path}");
        let text = answer.text();
        assert!(
            text.contains("1 name that no path can hold") && text.contains("[not_empty]"),
            "{text}"
        );
        assert!(text.contains("`crossload check`"), "{text}");
    }
    assert!(unseen.exists());
}
