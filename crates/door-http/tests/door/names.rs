//! DELETE, MKCOL, MOVE, and COPY within the server.

use policy::AnonymousAccess;

use crate::harness::{Server, export, memory};

#[tokio::test]
async fn files_and_empty_directories_are_removed() {
    let server = Server::open().await;
    server.put("/data/d/f", b"1").await;
    let mut client = server.connect().await;
    assert_eq!(client.ask("DELETE /data/d\n", b"").await.status, 409);
    assert_eq!(client.ask("DELETE /data/d/f\n", b"").await.status, 204);
    assert_eq!(client.ask("DELETE /data/d/f\n", b"").await.status, 404);
    assert_eq!(client.ask("DELETE /data/d/\n", b"").await.status, 204);
    assert_eq!(client.ask("DELETE /data\n", b"").await.status, 403);
    assert_eq!(client.ask("DELETE /\n", b"").await.status, 403);
}

#[tokio::test]
async fn directories_are_made_one_at_a_time() {
    let server = Server::open().await;
    server.put("/data/f", b"1").await;
    let mut client = server.connect().await;
    assert_eq!(client.ask("MKCOL /data/d/e\n", b"").await.status, 409);
    assert_eq!(client.ask("MKCOL /data/d\n", b"").await.status, 201);
    for taken in ["/data/d", "/data/f", "/data", "/"] {
        let answer = client.ask(&format!("MKCOL {taken}\n"), b"").await;
        assert_eq!(answer.status, 405, "{taken}");
        assert!(answer.header("Allow").is_some());
    }
    let over_file = client.ask("MKCOL /data/f\n", b"").await.text();
    assert!(over_file.contains("a file of this name exists"), "{over_file}");
    assert_eq!(client.ask("MKCOL /data/g\n", b"<x/>").await.status, 415);
    assert_eq!(client.ask("MKCOL /data/f/x\n", b"").await.status, 409);
}

#[tokio::test]
async fn a_move_keeps_within_its_export_and_asks_before_replacing() {
    let exports = vec![
        export("/data", AnonymousAccess::Write, memory()),
        export("/other", AnonymousAccess::Write, memory()),
    ];
    let server = Server::start(exports, |_| {}).await;
    for name in ["a", "b", "c"] {
        server.put(&format!("/data/{name}"), name.as_bytes()).await;
    }
    let mut client = server.connect().await;
    let mut step = async |from: &str, headers: &str| {
        let answer = client.ask(&format!("MOVE {from}\n{headers}\n"), b"").await;
        answer.status
    };
    assert_eq!(step("/data/a", "Destination: http://test/data/new").await, 201);
    assert_eq!(step("/data/new", "Destination: /data/b\nOverwrite: F").await, 412);
    assert_eq!(
        step("/data/new", "Destination: https://se.example.org:443/data/b").await,
        204
    );
    assert_eq!(step("/data/none", "Destination: /data/x").await, 404);
    assert_eq!(step("/data/c", "Destination: /data/none/x").await, 409);
    assert_eq!(step("/data/c", "Destination: /other/c").await, 422);
    assert_eq!(
        step("/data/c", "Destination: https://elsewhere.example.org/data/x").await,
        422
    );
    assert_eq!(step("/data/c", "Destination: /data/c").await, 403);
    assert_eq!(step("/data/c", "Overwrite: T").await, 400);
    assert_eq!(server.ask("GET /data/b\n", b"").await.body, b"a");
    assert_eq!(server.ask("GET /data/c\n", b"").await.body, b"c");
}

#[tokio::test]
async fn the_default_port_may_be_spelled_out_on_either_side() {
    let server = Server::open().await;
    server.put("/data/a", b"a").await;
    let step = async |method: &str, to: &str, host: &str| {
        let head = format!("{method} /data/a\nHost: {host}\nDestination: {to}/data/b\nOverwrite: T\n");
        let status = server.ask(&head, b"").await.status;
        server.put("/data/a", b"a").await;
        status
    };
    for method in ["MOVE", "COPY"] {
        for (to, host) in [
            ("https://forwarded.example.org:443", "forwarded.example.org"),
            ("https://forwarded.example.org", "forwarded.example.org:443"),
            ("http://forwarded.example.org:80", "forwarded.example.org"),
            ("davs://forwarded.example.org:443", "forwarded.example.org"),
        ] {
            let status = step(method, to, host).await;
            assert!(matches!(status, 201 | 204), "{method} {to} {host}: {status}");
        }
    }
    assert_eq!(
        step("MOVE", "http://forwarded.example.org:443", "forwarded.example.org").await,
        422
    );
}

#[tokio::test]
async fn a_copy_to_this_server_is_made_here() {
    let server = Server::open().await;
    server.put("/data/a", b"abc").await;
    let mut client = server.connect().await;
    let own = server.url("/data/c");
    let mut step = async |path: &str, headers: &str| {
        let answer = client.ask(&format!("COPY {path}\n{headers}\n"), b"").await;
        answer.status
    };
    assert_eq!(step("/data/a", "Destination: /data/b").await, 201);
    assert_eq!(step("/data/a", "Destination: /data/b").await, 204);
    assert_eq!(step("/data/a", "Destination: /data/b\nOverwrite: F").await, 412);
    assert_eq!(step("/data/a", &format!("Destination: {own}")).await, 201);
    assert_eq!(step("/data/d", &format!("Source: {own}")).await, 201);
    assert_eq!(step("/data/d", "Source: http://test/data/none").await, 404);
    assert_eq!(step("/data", "Destination: /data/e").await, 403);
    for name in ["b", "c", "d"] {
        assert_eq!(server.ask(&format!("GET /data/{name}\n"), b"").await.body, b"abc");
    }
}

/// Whatever fails in the store, the client reads its own path, and nothing of the server's disk.
#[tokio::test]
async fn no_error_names_a_path_that_only_the_server_knows() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::create_dir_all(at("deep/full")).unwrap();
    std::fs::write(at("deep/full/f"), "content").unwrap();
    std::os::unix::fs::symlink("/etc", at("deep/escape")).unwrap();
    std::os::unix::fs::symlink("loop", at("deep/loop")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(at("deep/pipe")).status();
    assert!(made.unwrap().success());
    let options = storage::PosixOptions {
        quota_bytes: Some(20),
        ..storage::PosixOptions::default()
    };
    let store = storage::Posix::open(directory.path(), &options).unwrap();
    let server = Server::start(vec![export("/data", AnonymousAccess::Write, store)], |_| {}).await;
    let away = Server::open().await;
    away.put("/data/long", &[b'x'; 4096]).await;
    let disk = directory.path().to_str().unwrap();
    let mut failed = 0;
    for name in ["pipe", "loop", "escape", "escape/x", "full", "full/f/x", "gone", "long"] {
        for head in [
            "GET /data/deep/NAME\nWant-Digest: md5",
            "HEAD /data/deep/NAME\nWant-Digest: md5",
            "PROPFIND /data/deep/NAME\nDepth: 1",
            "PUT /data/deep/NAME",
            "MKCOL /data/deep/NAME",
            "COPY /data/deep/NAME\nDestination: /data/deep/NAME2",
            "COPY /data/deep/NAME\nDestination: AWAY/NAME2",
            "COPY /data/deep/NAME\nSource: AWAY/long",
            "MOVE /data/deep/NAME\nDestination: /data/deep/NAME/moved",
            "MOVE /data/deep/full\nDestination: /data/deep/NAME",
            "DELETE /data/deep/NAME",
            "LOCK /data/deep/NAME",
        ] {
            let head = head.replace("NAME", name).replace("AWAY", &away.url("/data"));
            let body: &[u8] = if head.starts_with("PUT") { &[b'x'; 4096] } else { b"" };
            let answer = server.ask(&format!("{head}\n"), body).await;
            let text = answer.text();
            failed += usize::from(answer.status >= 400 || answer.last_line().starts_with("failure"));
            assert!(!text.contains(disk), "{head}: {text}");
            for (begin, _) in text.match_indices("/deep") {
                assert!(text[..begin].ends_with("/data"), "{head}: {text}");
            }
        }
    }
    assert!(failed > 50, "{failed}");
}
