//! Symbolic links within an export: with every verb, the rights of the target path count.

use std::path::Path;

use endpoint::Exports;
use policy::AnonymousAccess;
use storage::{Posix, PosixOptions};

use crate::harness::{Server, closed, export};

/// A server that allows nothing below `/data/closed`, and everything elsewhere.
async fn server(directory: &Path) -> Server {
    for name in ["closed/d", "open/d"] {
        std::fs::create_dir_all(directory.join(name)).unwrap();
        std::fs::write(directory.join(name).join("f"), "content").unwrap();
    }
    for (target, name) in [
        ("closed", "bad"),
        ("closed/d/f", "bad-file"),
        ("open", "good"),
        ("open/d/f", "good-file"),
    ] {
        std::os::unix::fs::symlink(target, directory.join(name)).unwrap();
    }
    let store = Posix::open(directory, &PosixOptions::default()).unwrap();
    let server = Server::start(vec![export("/data", AnonymousAccess::Write, store)], |_| {}).await;
    let list = server.exports.current().list().to_vec();
    server
        .exports
        .replace(Exports::with_rules(list, vec![closed("/data/closed")]));
    server
}

#[tokio::test]
async fn the_rights_of_what_a_link_leads_to_count_with_every_verb() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path()).await;
    let away = Server::open().await;
    let requests = [
        ("GET /data/LINK/d/f\n", 200),
        ("GET /data/LINK-file\n", 200),
        ("HEAD /data/LINK/d/f\nWant-Digest: adler32\n", 200),
        ("HEAD /data/LINK-file\n", 200),
        ("GET /data/LINK/d/\n", 200),
        ("PROPFIND /data/LINK/d\nDepth: 0\n", 207),
        ("PROPFIND /data/LINK/d\nDepth: 1\n", 207),
        ("PUT /data/LINK/d/f\n", 204),
        ("PUT /data/LINK/d/new\n", 201),
        ("PUT /data/LINK/made/too/new\n", 201),
        ("MKCOL /data/LINK/e\n", 201),
        ("COPY /data/LINK/d/f\nDestination: /data/copied\n", 201),
        ("COPY /data/open/d/f\nDestination: /data/LINK/copied\n", 201),
        ("COPY /data/LINK/d/f\nDestination: AWAY/pushed-from-LINK\n", 202),
        ("MOVE /data/LINK/d/f\nDestination: /data/moved\n", 201),
        ("MOVE /data/moved\nDestination: /data/LINK/d/f\n", 201),
        ("DELETE /data/LINK/d/f\n", 204),
        ("DELETE /data/LINK/e\n", 204),
    ];
    for (request, status) in requests {
        let request = request.replace("AWAY", &away.url("/data"));
        let bad = server.ask(&request.replace("LINK", "bad"), b"").await;
        assert_eq!(bad.status, 401, "{request}: {}", bad.text());
        let good = server.ask(&request.replace("LINK", "good"), b"").await;
        assert_eq!(good.status, status, "{request}: {}", good.text());
    }
    let pulled = format!(
        "COPY /data/bad/pulled\nSource: {}\n",
        away.url("/data/pushed-from-good")
    );
    assert_eq!(server.ask(&pulled, b"").await.status, 401);
    let kept = std::fs::read_dir(directory.path().join("closed/d")).unwrap().count();
    assert_eq!(
        (kept, away.ask("HEAD /data/pushed-from-bad\n", b"").await.status),
        (1, 404)
    );
    for head in ["GET /data/\n", "PROPFIND /data\nDepth: 1\n"] {
        let listing = server.ask(head, b"").await.text();
        assert!(listing.contains("/good") && !listing.contains("/bad"), "{listing}");
    }
}

#[tokio::test]
async fn a_client_may_limit_where_links_lead() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path()).await;
    let requests = [
        "GET /data/good/d/f\n",
        "GET /data/good-file\n",
        "GET /data/good/d/\n",
        "PROPFIND /data/good/d\nDepth: 0\n",
        "PROPFIND /data/good/d\nDepth: 1\n",
        "PUT /data/good/d/f\n",
        "PUT /data/good/d/new\n",
        "MKCOL /data/good/e\n",
        "MOVE /data/good/d/f\nDestination: /data/moved\n",
        "DELETE /data/good/d/f\n",
    ];
    for limit in ["none", "/data/open/d/f/x", "/data/op", "?", "/data/closed"] {
        for request in requests {
            let refused = server.ask(&format!("{request}Crossload-Links: {limit}\n"), b"").await;
            assert_eq!(refused.status, 403, "{limit} {request}: {}", refused.text());
        }
        let listing = server
            .ask(&format!("PROPFIND /data\nDepth: 1\nCrossload-Links: {limit}\n"), b"")
            .await
            .text();
        assert!(!listing.contains("good") && listing.contains("open"), "{listing}");
    }
    assert_eq!(std::fs::read_dir(directory.path().join("open")).unwrap().count(), 1);
    for limit in ["/data/open", "/data", "/"] {
        for request in ["GET /data/good/d/f\n", "GET /data/open/d/f\n", "PUT /data/good/d/f\n"] {
            let answer = server.ask(&format!("{request}Crossload-Links: {limit}\n"), b"").await;
            assert!(
                [200, 204].contains(&answer.status),
                "{limit} {request}: {}",
                answer.text()
            );
        }
        // It gives no rights.
        let head = format!("GET /data/bad/d/f\nCrossload-Links: {limit}\n");
        assert_eq!(
            server.ask(&head, b"").await.status,
            if limit == "/data/open" { 403 } else { 401 }
        );
    }
    // What is no link is as ever.
    let plain = server.ask("GET /data/open/d/f\nCrossload-Links: none\n", b"").await;
    assert_eq!(plain.status, 200);
}
