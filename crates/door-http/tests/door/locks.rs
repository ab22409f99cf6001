//! LOCK, UNLOCK and `If` (RFC 4918): what a lock forbids, to which clients, at each verb, and how
//! they learn of it.

use credentials::{Macaroon, MacaroonKey};
use endpoint::{Export, FairShare, ShareLimits};
use policy::{AnonymousAccess, ExportRules};
use storage::{Effect, Fault, Faulty, Latch, Operation, Posix, PosixOptions};
use types::limits::{CLIENT_SHARE_MIN, LOCKS_PER_PATH_MAX};

use crate::harness::{Answer, Raw, SECRET, Server, closed, export, head_text, memory};

const EXCLUSIVE: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?><D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/>\
     </D:lockscope><D:locktype><D:write/></D:locktype><D:owner><D:href>ann</D:href></D:owner></D:lockinfo>";

fn shared() -> String {
    EXCLUSIVE.replace("exclusive", "shared")
}

/// The token of a lock that was granted.
fn token(answer: &Answer) -> String {
    assert!(matches!(answer.status, 200 | 201), "{answer:?}");
    let text = answer.header("Lock-Token").expect("a new lock has a token");
    text.trim_matches(['<', '>']).to_owned()
}

async fn lock(server: &Server, path: &str, depth: &str) -> String {
    let head = format!("LOCK {path}\nDepth: {depth}\n");
    token(&server.ask(&head, EXCLUSIVE.as_bytes()).await)
}

async fn status(server: &Server, head: &str) -> u16 {
    let body: &[u8] = if head.starts_with("PUT") { b"new" } else { b"" };
    server.ask(&format!("{head}\n"), body).await.status
}

/// From now on directories are removed with everything in them.
fn removes_trees(server: &Server) {
    let mut list = server.exports.current().list().to_vec();
    list[0].rules.recursive_delete = true;
    server.exports.replace(endpoint::Exports::new(list));
}

/// The credential of a client with this name.
fn bearer(name: &str, caveat: &str) -> String {
    let minted = Macaroon::mint(&MacaroonKey::new(SECRET), "test", name, [caveat]).unwrap();
    format!("Authorization: Bearer {}", minted.to_text().expose())
}

#[tokio::test]
async fn a_lock_keeps_out_who_has_no_token_until_it_is_released() {
    let server = Server::open().await;
    server.put("/data/f", b"old").await;
    let granted = server
        .ask("LOCK /data/f\nTimeout: Second-300\n", EXCLUSIVE.as_bytes())
        .await;
    let token = token(&granted);
    assert_eq!(granted.status, 200);
    for part in [
        "<D:exclusive/>",
        "<D:depth>infinity</D:depth>",
        "<D:owner><D:href>ann</D:href></D:owner>",
        "<D:timeout>Second-",
        "<D:lockroot><D:href>/data/f</D:href></D:lockroot>",
        &token,
    ] {
        assert!(granted.text().contains(part), "{part}: {}", granted.text());
    }
    let refused = server.ask("PUT /data/f\n", b"new").await;
    assert_eq!(refused.status, 423);
    let text = refused.text();
    assert!(
        text.contains("<D:lock-token-submitted><D:href>/data/f</D:href>"),
        "{text}"
    );
    assert!(text.contains("[locked]"), "{text}");
    for head in [
        "DELETE /data/f",
        "MOVE /data/f\nDestination: /data/g",
        "COPY /data/g\nDestination: /data/f",
        "COPY /data/f\nSource: http://test/data/g",
        "COPY /data/f\nSource: https://other.example.org/g",
        "PUT /data/f\nIf: (Not <DAV:no-lock>)",
        "PROPPATCH /data/f",
        "PUT /data/f\nIf: (<urn:uuid:0>) (Not <DAV:no-lock>)",
    ] {
        server.put("/data/g", b"other").await;
        assert_eq!(status(&server, head).await, 423, "{head}");
    }
    assert_eq!(server.ask("GET /data/f\n", b"").await.body, b"old");
    assert_eq!(status(&server, &format!("PUT /data/f\nIf: (<{token}>)")).await, 204);
    assert_eq!(
        status(&server, &format!("UNLOCK /data/f\nLock-Token: <{token}>")).await,
        204
    );
    assert_eq!(status(&server, "PUT /data/f").await, 204);
    assert_eq!(
        status(&server, &format!("UNLOCK /data/f\nLock-Token: <{token}>")).await,
        409
    );
}

#[tokio::test]
async fn a_name_without_a_file_gets_an_empty_one_with_its_lock() {
    let server = Server::open().await;
    server.put("/data/d/f", b"x").await;
    let granted = server.ask("LOCK /data/d/new\nDepth: 0\n", EXCLUSIVE.as_bytes()).await;
    let token = token(&granted);
    assert_eq!(granted.status, 201);
    let empty = server.ask("GET /data/d/new\n", b"").await;
    assert_eq!((empty.status, empty.body.len()), (200, 0));
    assert_eq!(status(&server, "PUT /data/d/new").await, 423);
    assert_eq!(status(&server, &format!("PUT /data/d/new\nIf: (<{token}>)")).await, 204);
    // The directory of the new name must exist, and no lock remains without a file.
    let missing = server.ask("LOCK /data/none/new\n", EXCLUSIVE.as_bytes()).await;
    assert_eq!(missing.status, 409, "{missing:?}");
    assert_eq!(status(&server, "PUT /data/none/new").await, 201);
}

#[tokio::test]
async fn a_lock_ends_with_its_time_or_its_file_and_lasts_when_refreshed() {
    let server = Server::open().await;
    server.put("/data/f", b"x").await;
    let over = server
        .ask("LOCK /data/f\nTimeout: Second-0\n", EXCLUSIVE.as_bytes())
        .await;
    assert_eq!(over.status, 200);
    assert!(over.text().contains("<D:timeout>Second-"), "{}", over.text());
    let over = token(&over);
    let unlocked = status(&server, &format!("UNLOCK /data/f\nLock-Token: <{over}>")).await;
    assert!(matches!(unlocked, 204 | 409));
    let infinite = "LOCK /data/f\nTimeout: Infinite, Second-4100000000\n";
    let granted = server.ask(infinite, EXCLUSIVE.as_bytes()).await;
    assert!(granted.text().contains("<D:timeout>Second-3600<") || granted.text().contains("<D:timeout>Second-3599<"));
    let token = token(&granted);
    let refresh = format!("LOCK /data/f\nTimeout: Second-90\nIf: (<{token}>)");
    let refreshed = server.ask(&format!("{refresh}\n"), b"").await;
    assert_eq!((refreshed.status, refreshed.header("Lock-Token")), (200, None));
    assert!(refreshed.text().contains("<D:timeout>Second-90<") || refreshed.text().contains("<D:timeout>Second-89<"));
    assert_eq!(status(&server, "LOCK /data/f\nIf: (<urn:uuid:0>)").await, 412);
    assert_eq!(status(&server, "LOCK /data/f\nIf: (Not <urn:uuid:0>)").await, 412);
    assert_eq!(status(&server, "LOCK /data/f").await, 400);
    assert_eq!(status(&server, &format!("DELETE /data/f\nIf: (<{token}>)")).await, 204);
    assert_eq!(status(&server, "PUT /data/f").await, 201, "the lock went with its file");
}

#[tokio::test]
async fn a_move_leaves_the_lock_behind() {
    let server = Server::open().await;
    server.put("/data/f", b"x").await;
    let token = lock(&server, "/data/f", "0").await;
    let moved = format!("MOVE /data/f\nDestination: /data/g\nIf: (<{token}>)");
    assert_eq!(status(&server, &moved).await, 201);
    assert_eq!(status(&server, "PUT /data/g").await, 204);
    assert_eq!(status(&server, "PUT /data/f").await, 201);
    // The replaced name keeps its own lock.
    let token = lock(&server, "/data/g", "0").await;
    assert_eq!(status(&server, "MOVE /data/f\nDestination: /data/g").await, 423);
    let over = format!("MOVE /data/f\nDestination: /data/g\nIf: </data/g> (<{token}>)");
    assert_eq!(status(&server, &over).await, 204);
    assert_eq!(status(&server, "PUT /data/g").await, 423);
}

#[tokio::test]
async fn a_locked_directory_neither_gets_nor_loses_names() {
    let server = Server::open().await;
    server.put("/data/d/f", b"x").await;
    server.put("/data/d/sub/f", b"x").await;
    server.put("/data/g", b"x").await;
    let changes = [
        "PUT /data/d/new",
        "PUT /data/d/a/b/new",
        "MKCOL /data/d/made",
        "DELETE /data/d/f",
        "MOVE /data/d/f\nDestination: /data/away",
        "MOVE /data/g\nDestination: /data/d/g",
        "COPY /data/g\nDestination: /data/d/g",
        "COPY /data/d/g\nSource: https://other.example.org/g",
    ];
    for (depth, inside) in [("0", 204), ("infinity", 423)] {
        let token = lock(&server, "/data/d", depth).await;
        for head in changes {
            assert_eq!(status(&server, head).await, 423, "depth {depth}: {head}");
        }
        assert_eq!(status(&server, "PUT /data/d/f").await, inside, "depth {depth}");
        assert_eq!(status(&server, "PUT /data/d/sub/f").await, inside, "depth {depth}");
        let new = server.ask("LOCK /data/d/new\nDepth: 0\n", EXCLUSIVE.as_bytes()).await;
        assert_eq!(new.status, 423, "depth {depth}");
        let tagged = format!("PUT /data/d/new\nIf: <http://test/data/d/> (<{token}>)");
        assert_eq!(status(&server, &tagged).await, 201);
        assert_eq!(
            status(&server, &format!("DELETE /data/d/new\nIf: </data/d> (<{token}>)")).await,
            204
        );
        // Anything below refers to the lock (indirect refresh and release).
        let below = if depth == "0" { "/data/d" } else { "/data/d/f" };
        assert_eq!(status(&server, &format!("LOCK {below}\nIf: (<{token}>)")).await, 200);
        assert_eq!(
            status(&server, &format!("UNLOCK {below}\nLock-Token: <{token}>")).await,
            204
        );
    }
}

#[tokio::test]
async fn a_locked_file_holds_the_directories_above_it() {
    let server = Server::open().await;
    server.put("/data/d/sub/f", b"x").await;
    removes_trees(&server);
    let token = lock(&server, "/data/d/sub/f", "0").await;
    for head in ["DELETE /data/d", "MOVE /data/d\nDestination: /data/e"] {
        let refused = server.ask(&format!("{head}\n"), b"").await;
        assert_eq!(refused.status, 423, "{head}");
        assert!(refused.text().contains("<D:href>/data/d/sub/f</D:href>"), "{head}");
    }
    let deep = server.ask("LOCK /data/d\n", EXCLUSIVE.as_bytes()).await;
    assert_eq!(deep.status, 207, "{}", deep.text());
    for named in [
        "<D:href>/data/d/sub/f</D:href><D:status>HTTP/1.1 423 Locked</D:status>",
        "<D:href>/data/d</D:href><D:status>HTTP/1.1 424 Failed Dependency</D:status>",
    ] {
        assert!(deep.text().contains(named), "{}", deep.text());
    }
    let moved = format!("MOVE /data/d\nDestination: /data/e\nIf: </data/d/sub/f> (<{token}>)");
    assert_eq!(status(&server, &moved).await, 201);
}

#[tokio::test]
async fn shared_locks_stand_beside_each_other_only() {
    let server = Server::open().await;
    server.put("/data/f", b"x").await;
    let ask = async |body: &str| server.ask("LOCK /data/f\nDepth: 0\n", body.as_bytes()).await;
    let first = token(&ask(&shared()).await);
    let second = token(&ask(&shared()).await);
    assert_eq!(ask(EXCLUSIVE).await.status, 423);
    assert_eq!(status(&server, "PUT /data/f").await, 423);
    for token in [&first, &second] {
        assert_eq!(status(&server, &format!("PUT /data/f\nIf: (<{token}>)")).await, 204);
    }
    assert_eq!(
        status(&server, &format!("UNLOCK /data/f\nLock-Token: <{first}>")).await,
        204
    );
    assert_eq!(status(&server, "PUT /data/f").await, 423);
    assert_eq!(
        status(&server, &format!("UNLOCK /data/f\nLock-Token: <{second}>")).await,
        204
    );
    let alone = token(&ask(EXCLUSIVE).await);
    assert_eq!(ask(&shared()).await.status, 423);
    assert_eq!(status(&server, &format!("PUT /data/f\nIf: (<{alone}>)")).await, 204);
}

#[tokio::test]
async fn the_if_header_is_weighed_for_every_verb() {
    let server = Server::open().await;
    server.put("/data/f", b"x").await;
    server.put("/data/g", b"y").await;
    let tag = server.ask("HEAD /data/f\n", b"").await;
    let tag = tag.header("ETag").unwrap().to_owned();
    for head in [
        "GET /data/f",
        "HEAD /data/f",
        "PROPFIND /data/f\nDepth: 0",
        "PUT /data/f",
        "DELETE /data/f",
        "MKCOL /data/new",
        "PROPPATCH /data/f",
        "MOVE /data/f\nDestination: /data/h",
        "COPY /data/f\nDestination: /data/h",
        "COPY /data/f\nDestination: https://other.example.org/f",
        "UNLOCK /data/f\nLock-Token: <urn:uuid:0>",
    ] {
        for bad in [
            "(<urn:uuid:0>)",
            "([\"x\"])",
            "(<DAV:no-lock>)",
            "<https://other.example.org/f> (<urn:uuid:0>)",
            "<mailto:x> ([\"x\"])",
        ] {
            assert_eq!(
                status(&server, &format!("{head}\nIf: {bad}")).await,
                412,
                "{head} {bad}"
            );
        }
        assert_eq!(status(&server, &format!("{head}\nIf: (")).await, 400, "{head}");
    }
    for good in [
        format!("([{tag}])"),
        format!("(<urn:uuid:0>) ([{tag}] Not <DAV:no-lock>)"),
        format!("</data/g> ([\"x\"]) <http://test/data/f> ([{tag}])"),
        "</data/none> (Not [\"x\"])".to_owned(),
    ] {
        assert_eq!(
            status(&server, &format!("GET /data/f\nIf: {good}")).await,
            200,
            "{good}"
        );
    }
}

#[tokio::test]
async fn a_token_is_of_use_to_its_holder_only() {
    let server = Server::open().await;
    server.put("/data/f", b"x").await;
    let (ann, bob) = (
        bearer("ann", "activity:READ_METADATA,UPLOAD,DELETE,MANAGE"),
        bearer("bob", "activity:READ_METADATA,UPLOAD,DELETE,MANAGE"),
    );
    let head = format!("LOCK /data/f\n{ann}\n");
    let token = token(&server.ask(&head, EXCLUSIVE.as_bytes()).await);
    let put = |who: &str| format!("PUT /data/f\n{who}\nIf: (<{token}>)");
    assert_eq!(status(&server, &put(&bob)).await, 423);
    assert_eq!(status(&server, &put("X: y")).await, 423);
    let unlock = |who: &str| format!("UNLOCK /data/f\n{who}\nLock-Token: <{token}>");
    assert_eq!(status(&server, &unlock(&bob)).await, 403);
    assert_eq!(
        status(&server, &format!("LOCK /data/f\n{bob}\nIf: (<{token}>)")).await,
        403
    );
    assert_eq!(status(&server, &put(&ann)).await, 204);
    assert_eq!(status(&server, &unlock(&ann)).await, 204);
}

#[tokio::test]
async fn who_may_not_change_a_file_learns_nothing_of_its_lock() {
    let server = Server::open().await;
    server.put("/data/f", b"x").await;
    server.put("/data/free", b"x").await;
    let token = lock(&server, "/data/f", "0").await;
    let mut list = server.exports.current().list().to_vec();
    list[0].rules.anonymous = AnonymousAccess::None;
    server.exports.replace(endpoint::Exports::new(list));
    let reader = bearer("reader", "activity:DOWNLOAD");
    let words = async |method: &str, path: &str, who: &str| {
        let head = format!("{method} {path}\n{who}\nIf: (<{token}>)\nLock-Token: <{token}>\nDestination: /data/x\n");
        let answer = server.ask(&head, b"").await;
        let text = answer.text();
        let told = text.lines().take(2).collect::<Vec<_>>().join(" ").replace(path, "PATH");
        (answer.status, told)
    };
    for method in ["PUT", "DELETE", "MOVE", "LOCK", "UNLOCK"] {
        for who in ["X: y", &reader] {
            let locked = words(method, "/data/f", who).await;
            assert!(matches!(locked.0, 401 | 403), "{method}: {locked:?}");
            assert_eq!(locked, words(method, "/data/free", who).await, "{method}");
        }
    }
}

#[tokio::test]
async fn a_lock_below_is_not_named_to_who_may_not_look_there() {
    let exports = ["/data", "/data/d/secret"].map(|path| export(path, AnonymousAccess::Write, memory()));
    let server = Server::start(exports.into(), |_| {}).await;
    server.put("/data/d/f", b"x").await;
    lock(&server, "/data/d/secret/f", "0").await;
    let mut list = server.exports.current().list().to_vec();
    list[1].rules.anonymous = AnonymousAccess::None;
    server.exports.replace(endpoint::Exports::new(list));
    let lock = server.ask("LOCK /data/d\n", EXCLUSIVE.as_bytes()).await;
    assert_eq!(lock.status, 403);
    assert!(!lock.text().contains("secret"), "{}", lock.text());
}

#[tokio::test]
async fn an_upload_that_began_before_the_lock_does_not_end_behind_it() {
    let server = Server::open().await;
    server.put("/data/f", b"old").await;
    let began = async |path: &str| -> Raw {
        let mut client = server.connect().await;
        let head = format!("PUT {path}\nExpect: 100-continue\n");
        client.send(head_text(&head, Some(3))).await;
        assert_eq!(client.answer(false).await.status, 100);
        client
    };
    let (mut file, mut member) = (began("/data/f").await, began("/data/d/new").await);
    server.put("/data/d/other", b"x").await;
    lock(&server, "/data/f", "0").await;
    lock(&server, "/data/d", "0").await;
    for client in [&mut file, &mut member] {
        client.send("new").await;
        assert_eq!(client.answer(false).await.status, 423);
    }
    assert_eq!(server.ask("GET /data/f\n", b"").await.body, b"old");
    assert_eq!(server.ask("HEAD /data/d/new\n", b"").await.status, 404);
}

#[tokio::test]
async fn locks_are_told_in_properties() {
    let server = Server::open().await;
    server.put("/data/d/f", b"x").await;
    server.put("/data/d/g", b"x").await;
    let named = "<propfind xmlns=\"DAV:\"><prop><lockdiscovery/><supportedlock/></prop></propfind>";
    let find = async |path: &str, depth: &str, body: &str| {
        let head = format!("PROPFIND {path}\nDepth: {depth}\n");
        server.ask(&head, body.as_bytes()).await.text()
    };
    let free = find("/data/d/f", "0", named).await;
    assert!(free.contains("<D:lockdiscovery></D:lockdiscovery>"), "{free}");
    assert!(free.contains("<D:lockscope><D:shared/></D:lockscope>"), "{free}");
    let token = lock(&server, "/data/d/f", "0").await;
    for (path, depth, body) in [
        ("/data/d/f", "0", named),
        ("/data/d/f", "0", ""),
        ("/data/d", "1", named),
        ("/data/d", "1", ""),
    ] {
        let told = find(path, depth, body).await;
        assert_eq!(told.matches(&token).count(), 1, "{path} {depth}: {told}");
    }
    // A listing with all properties does not repeat for each file that it could be locked.
    assert_eq!(find("/data/d", "1", "").await.matches("<D:supportedlock>").count(), 1);
}

#[tokio::test]
async fn where_locks_are_off_nothing_says_otherwise() {
    let rules = |path: &str, locks: bool, read_only: bool| Export {
        rules: ExportRules {
            locks,
            read_only,
            ..export(path, AnonymousAccess::Write, memory()).rules
        },
        ..export(path, AnonymousAccess::Write, memory())
    };
    let exports = vec![
        rules("/on", true, false),
        rules("/off", false, false),
        rules("/read", true, true),
    ];
    let server = Server::start(exports, |_| {}).await;
    for (target, classes) in [
        ("/on", "1, 2"),
        ("/on/x", "1, 2"),
        ("/", "1, 2"),
        ("*", "1, 2"),
        ("/off", "1"),
        ("/read", "1"),
    ] {
        let answer = server.ask(&format!("OPTIONS {target}\n"), b"").await;
        assert_eq!(answer.header("DAV"), Some(classes), "{target}");
        assert_eq!(answer.header("MS-Author-Via"), Some("DAV"));
        let allow = answer.header("Allow").unwrap();
        assert_eq!(allow.contains("LOCK"), classes != "1", "{target}");
    }
    let refused = server.ask("LOCK /off/f\n", EXCLUSIVE.as_bytes()).await;
    assert_eq!(refused.status, 405);
    assert!(!refused.header("Allow").unwrap().contains("LOCK"));
    assert_eq!(server.ask("LOCK /read/f\n", EXCLUSIVE.as_bytes()).await.status, 403);
    server.put("/off/f", b"x").await;
    let told = server.ask("PROPFIND /off/f\nDepth: 0\n", b"").await.text();
    assert!(!told.contains("lock"), "{told}");
}

#[tokio::test]
async fn one_client_does_not_take_all_locks() {
    let limits = ShareLimits {
        locks: 2 * CLIENT_SHARE_MIN,
        ..ShareLimits::default()
    };
    let exports = vec![export("/data", AnonymousAccess::Write, memory())];
    let server = Server::start(exports, |settings| {
        settings.site.fair_share = FairShare::new(&limits, None)
    })
    .await;
    server.put("/data/d/x", b"x").await;
    let mut tokens = Vec::new();
    let refused = loop {
        let path = format!("/data/d/{}", tokens.len());
        let answer = server.ask(&format!("LOCK {path}\n"), EXCLUSIVE.as_bytes()).await;
        if answer.status != 201 {
            break answer;
        }
        tokens.push((path, token(&answer)));
    };
    assert_eq!((tokens.len(), refused.status), (CLIENT_SHARE_MIN, 429), "{refused:?}");
    let (path, token) = tokens.pop().unwrap();
    assert_eq!(
        status(&server, &format!("UNLOCK {path}\nLock-Token: <{token}>")).await,
        204
    );
    assert_eq!(server.ask("LOCK /data/d/y\n", EXCLUSIVE.as_bytes()).await.status, 201);
}

#[tokio::test]
async fn what_is_no_lock_is_refused() {
    let server = Server::open().await;
    server.put("/data/f", b"x").await;
    for (head, body) in [
        ("LOCK /data/f\nDepth: 1\n", EXCLUSIVE),
        ("LOCK /data/f\n", "<lockinfo xmlns=\"DAV:\"/>"),
        ("LOCK /data/f\n", "not XML"),
        ("UNLOCK /data/f\n", ""),
        ("UNLOCK /data/f\nLock-Token: urn:uuid:0\n", ""),
    ] {
        assert_eq!(server.ask(head, body.as_bytes()).await.status, 400, "{head}");
    }
    assert_eq!(status(&server, "PUT /data/f").await, 204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_lock_is_granted_when_the_file_that_takes_its_name_has_it() {
    let latch = Latch::default();
    let held = Fault {
        operation: Operation::Commit,
        nth: 2,
        effect: Effect::Hold(latch.clone()),
    };
    let store = Faulty::new(memory(), vec![held]);
    let server = Server::start(vec![export("/data", AnonymousAccess::Write, store)], |_| {}).await;
    server.put("/data/f", b"old").await;
    let mut upload = server.connect().await;
    upload.send(head_text("PUT /data/f\n", Some(3))).await;
    upload.send("new").await;
    while latch.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    let mut locker = server.connect().await;
    locker.send(head_text("LOCK /data/f\n", Some(EXCLUSIVE.len()))).await;
    locker.send(EXCLUSIVE).await;
    while server.exports.current().locks().is_empty() {
        tokio::task::yield_now().await;
    }
    // It stops later uploads, and is not granted while the earlier one runs.
    assert_eq!(status(&server, "PUT /data/f").await, 423);
    assert!(locker.tcp.try_read(&mut [0; 1]).is_err());
    latch.open();
    assert_eq!(upload.answer(false).await.status, 204);
    assert_eq!(locker.answer(false).await.status, 200);
    assert_eq!(server.ask("GET /data/f\n", b"").await.body, b"new");
}

#[tokio::test]
async fn who_may_not_remove_a_tree_learns_nothing_of_locks_below() {
    let server = Server::open().await;
    server.put("/data/d/f", b"x").await;
    let free = status(&server, "DELETE /data/d").await;
    lock(&server, "/data/d/f", "0").await;
    assert_eq!(status(&server, "DELETE /data/d").await, free);
    assert_ne!(free, 423);
    removes_trees(&server);
    assert_eq!(status(&server, "DELETE /data/d").await, 423);
}

#[tokio::test]
async fn a_deep_lock_is_refused_where_other_rules_or_exports_begin_below() {
    let exports = ["/data", "/data/e/nested"].map(|path| export(path, AnonymousAccess::Write, memory()));
    let server = Server::start(exports.into(), |_| {}).await;
    for file in ["/data/d/f", "/data/d/closed/f", "/data/e/f", "/data/free/f"] {
        server.put(file, b"x").await;
    }
    let rule = closed("/data/d/closed");
    let list = server.exports.current().list().to_vec();
    server.exports.replace(endpoint::Exports::with_rules(list, vec![rule]));
    for directory in ["/data/d", "/data/e"] {
        let refused = server.ask(&format!("LOCK {directory}\n"), EXCLUSIVE.as_bytes()).await;
        assert!(matches!(refused.status, 401 | 403), "{directory}: {refused:?}");
        assert!(refused.text().contains("Depth 0"), "{}", refused.text());
        lock(&server, directory, "0").await;
    }
    lock(&server, "/data/free", "infinity").await;
}

#[tokio::test]
async fn a_lock_from_above_does_not_reach_to_where_locks_are_off() {
    let server = Server::open().await;
    server.put("/data/off/f", b"x").await;
    server.put("/data/f", b"x").await;
    let token = lock(&server, "/data", "infinity").await;
    let mut list = server.exports.current().list().to_vec();
    let mut off = export("/data/off", AnonymousAccess::Write, memory());
    off.rules.locks = false;
    list.push(off);
    server.exports.replace(endpoint::Exports::new(list));
    assert_eq!(status(&server, "PUT /data/f").await, 423);
    assert_eq!(status(&server, "PUT /data/off/f").await, 201);
    // Nor is it shown there.
    let body = "<D:propfind xmlns:D='DAV:'><D:prop><D:lockdiscovery/></D:prop></D:propfind>";
    for (path, depth, told) in [("/data/off/f", 0, 0), ("/data/off", 1, 0), ("/data/f", 0, 1)] {
        let head = format!("PROPFIND {path}\nDepth: {depth}\n");
        let found = server.ask(&head, body.as_bytes()).await;
        assert_eq!(found.status, 207);
        assert_eq!(
            found.text().matches("<D:activelock>").count(),
            told,
            "{path}: {}",
            found.text()
        );
    }
    for (path, holds) in [("/data/off/f", 412), ("/data/f", 200)] {
        let head = format!("GET {path}\nIf: (<{token}>)");
        assert_eq!(status(&server, &head).await, holds, "{path}");
    }
}

#[tokio::test]
async fn only_so_many_shared_locks_are_over_one_path() {
    let server = Server::open().await;
    server.put("/data/d/f", b"x").await;
    for _ in 0..LOCKS_PER_PATH_MAX {
        token(&server.ask("LOCK /data/d/f\nDepth: 0\n", shared().as_bytes()).await);
    }
    for path in ["/data/d/f", "/data/d"] {
        let refused = server.ask(&format!("LOCK {path}\n"), shared().as_bytes()).await;
        assert_eq!(refused.status, 503, "{path}");
        assert!(refused.text().contains("32 locks"), "{}", refused.text());
    }
}

/// A file can have other names by symbolic links; a lock on it holds for all of them.
#[tokio::test]
async fn a_lock_holds_over_symbolic_links() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("real/deep")).unwrap();
    std::fs::create_dir(directory.path().join("free")).unwrap();
    for file in ["real/f", "real/deep/f", "free/f"] {
        std::fs::write(directory.path().join(file), "old").unwrap();
    }
    for (target, name) in [("real", "link"), ("free", "other"), ("real/f", "file-link")] {
        std::os::unix::fs::symlink(target, directory.path().join(name)).unwrap();
    }
    let store = Posix::open(directory.path(), &PosixOptions::default()).unwrap();
    let server = Server::start(vec![export("/data", AnonymousAccess::Write, store)], |_| {}).await;
    for path in ["/data/link/f", "/data/file-link", "/data/link/new"] {
        let refused = server.ask(&format!("LOCK {path}\n"), EXCLUSIVE.as_bytes()).await;
        assert_eq!(refused.status, 403, "{path}: {}", refused.text());
    }
    let token = lock(&server, "/data/real/f", "0").await;
    for head in [
        "PUT /data/link/f",
        "DELETE /data/link/f",
        "MOVE /data/link/f\nDestination: /data/x",
        "COPY /data/free/f\nDestination: /data/link/f",
        "MOVE /data/free/f\nDestination: /data/link/f",
    ] {
        assert_eq!(status(&server, head).await, 423, "{head}");
    }
    assert_eq!(status(&server, "PUT /data/other/f").await, 204);
    assert_eq!(
        status(&server, &format!("PUT /data/link/f\nIf: </data/real/f> (<{token}>)")).await,
        204
    );
    // A lock on the directory holds for new names behind the link too.
    lock(&server, "/data/real/deep", "infinity").await;
    for head in [
        "PUT /data/link/deep/new",
        "MKCOL /data/link/deep/d",
        "PUT /data/link/deep/made/too/new",
    ] {
        assert_eq!(status(&server, head).await, 423, "{head}");
    }
    // Replacing the link itself changes nothing that is locked.
    assert_eq!(status(&server, "PUT /data/file-link").await, 204);
}

/// A client that may not replace a tree gets the same refusal whether something in it is locked or
/// not.
#[tokio::test]
async fn who_may_not_replace_a_tree_learns_nothing_of_locks_below() {
    let server = Server::open().await;
    for path in ["/data/new/f", "/data/old/kept/f"] {
        server.put(path, b"x").await;
    }
    let mut list = server.exports.current().list().to_vec();
    list[0].rules.recursive_delete = true;
    let rule = closed("/data/old/kept");
    let kept = "/data/old/kept/f";
    lock(&server, kept, "0").await;
    server.exports.replace(endpoint::Exports::with_rules(list, vec![rule]));
    for head in ["COPY /data/new", "MOVE /data/new"] {
        let refused = server.ask(&format!("{head}\nDestination: /data/old\n"), b"").await;
        assert_eq!(refused.status, 401, "{head}: {}", refused.text());
    }
}

#[tokio::test]
async fn locks_in_a_collection_go_when_it_is_replaced() {
    let server = Server::open().await;
    removes_trees(&server);
    for verb in ["COPY", "MOVE"] {
        server.put("/data/new/f", b"x").await;
        server.put("/data/old/d/f", b"x").await;
        let token = lock(&server, "/data/old/d/f", "0").await;
        let head = format!("{verb} /data/new\nDestination: /data/old\nIf: </data/old/d/f> (<{token}>)");
        assert_eq!(status(&server, &head).await, 204, "{verb}");
        assert_eq!(status(&server, "MKCOL /data/old/d").await, 201, "{verb}");
        assert_eq!(status(&server, "PUT /data/old/d/f").await, 201, "{verb}");
    }
}
