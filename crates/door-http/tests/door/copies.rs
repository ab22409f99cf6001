//! COPY between exports of one server.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use policy::AnonymousAccess;
use storage::{Effect, Fault, Faulty, Memory, Operation, Posix, PosixOptions};
use types::ErrorCode;

use crate::harness::{Server, export, head_text, memory, pattern, soon};
use crate::writing::files_below;

/// Two directories of one file system, and one in memory.
struct Site {
    server: Server,
    directory: tempfile::TempDir,
}

impl Site {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let on_disk = |path: &str| {
            let place = directory.path().join(&path[1..]);
            std::fs::create_dir(&place).unwrap();
            let mut export = export(
                path,
                AnonymousAccess::Write,
                Posix::open(&place, &PosixOptions::default()).unwrap(),
            );
            export.rules.recursive_delete = true;
            export
        };
        let exports = vec![
            on_disk("/one"),
            on_disk("/two"),
            export("/memory", AnonymousAccess::Write, memory()),
            export(
                "/alias",
                AnonymousAccess::Write,
                Posix::open(&directory.path().join("one"), &PosixOptions::default()).unwrap(),
            ),
        ];
        Self {
            server: Server::start(exports, |_| {}).await,
            directory,
        }
    }

    async fn copy(&self, from: &str, to: &str, more: &str) -> u16 {
        let head = format!("COPY {from}\nDestination: {to}\n{more}");
        self.server.ask(&head, b"").await.status
    }

    async fn get(&self, path: &str) -> Vec<u8> {
        let answer = self.server.ask(&format!("GET {path}\n"), b"").await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.body
    }
}

#[tokio::test]
async fn files_are_copied_between_exports_of_every_kind() {
    let site = Site::start().await;
    let content = pattern(3_000_001);
    for (from, to) in [
        ("/one", "/two"),
        ("/two", "/memory"),
        ("/memory", "/one"),
        ("/one", "/alias"),
    ] {
        let [from, to] = [format!("{from}/from"), format!("{to}/to")];
        site.server.put(&from, &content).await;
        assert_eq!(site.copy(&from, &to, "").await, 201, "{from} {to}");
        assert!(site.get(&to).await == content, "{from} {to}");
        let head = format!("HEAD {to}\nWant-Digest: adler32\n");
        let [copied, source] = [head.clone(), head.replace(&to, &from)].map(|head| head);
        let digest = async |head: &str| site.server.ask(head, b"").await.header("Digest").map(str::to_owned);
        assert_eq!(digest(&copied).await, digest(&source).await);
        assert_eq!(site.copy(&from, &to, "Overwrite: F\n").await, 412);
        assert_eq!(site.copy(&from, &to, "").await, 204, "replaced");
        site.server.put(&from, b"").await;
        assert_eq!(site.copy(&from, &to, "").await, 204, "by an empty file");
        assert_eq!(site.get(&to).await, b"");
        site.server.ask(&format!("DELETE {to}\n"), b"").await;
    }
    // A pull from a URL of this server is the same.
    site.server.put("/one/f", &content).await;
    let pull = format!("COPY /memory/pulled\nSource: {}\n", site.server.url("/one/f"));
    let head = format!("{pull}Host: {}\n", site.server.address);
    let pulled = site.server.ask(&head, b"").await;
    assert_eq!((pulled.status, pulled.text().trim_end()), (201, "success: Created"));
    assert!(site.get("/memory/pulled").await == content);
    // The answer is the same if it replaces a file.
    let again = site.server.ask(&head, b"").await;
    assert_eq!((again.status, again.text().trim_end()), (201, "success: Created"));
    // So are pushes of gfal and davix, but not copies of WebDAV.
    let push = "COPY /one/f\nDestination: /memory/pushed\nX-Number-Of-Streams: 0\n";
    assert_eq!(site.server.ask(push, b"").await.text().trim_end(), "success: Created");
    // With a checksum that the client expects and the file has not.
    let wrong = format!("{head}Digest: adler32=00000001\n");
    let refused = site.server.ask(&wrong, b"").await;
    assert!(refused.status >= 400, "{refused:?}");
}

#[tokio::test]
async fn a_copy_on_one_file_system_keeps_attributes_and_is_another_file() {
    let site = Site::start().await;
    site.server.put("/one/f", &pattern(100_000)).await;
    assert_eq!(site.copy("/one/f", "/two/f", "").await, 201);
    let [one, two] = ["one/f", "two/f"].map(|name| site.directory.path().join(name).metadata().unwrap());
    assert_ne!(one.ino(), two.ino());
    site.server.put("/one/f", b"new").await;
    assert!(site.get("/two/f").await == pattern(100_000));
}

#[tokio::test]
async fn trees_are_copied_between_exports() {
    let site = Site::start().await;
    for name in ["d/a", "d/e/b", "d/e/deep/c"] {
        site.server.put(&format!("/one/{name}"), name.as_bytes()).await;
    }
    assert_eq!(site.copy("/one/d", "/memory/d", "").await, 201);
    assert_eq!(site.get("/memory/d/e/deep/c").await, b"d/e/deep/c");
    assert_eq!(site.copy("/memory/d", "/two/alone", "Depth: 0\n").await, 201);
    assert_eq!(site.server.ask("HEAD /two/alone/a\n", b"").await.status, 404);
    assert_eq!(site.copy("/memory/d", "/two/alone", "Overwrite: F\n").await, 412);
    assert_eq!(
        site.copy("/memory/d", "/two/alone", "").await,
        204,
        "an empty one is replaced"
    );
    assert_eq!(site.get("/two/alone/e/b").await, b"d/e/b");
    // Whatever the other export shows might be the source, so nothing in it is removed.
    assert_eq!(
        site.copy("/memory/d", "/two/alone", "").await,
        ErrorCode::NotEmpty.http_status()
    );
    // Under another name the copy would be in itself, or replace itself.
    for to in ["/alias/d/x", "/alias/d", "/alias/d/e", "/alias/d/e/deep/x"] {
        assert_eq!(site.copy("/one/d", to, "").await, 403, "{to}");
    }
    assert_eq!(
        site.copy("/one/d/e", "/alias/d", "").await,
        ErrorCode::NotEmpty.http_status()
    );
    assert_eq!(site.get("/one/d/e/deep/c").await, b"d/e/deep/c");
    assert_eq!(site.copy("/one/d", "/alias/other", "").await, 201);
    assert_eq!(site.get("/one/other/a").await, b"d/a");
}

#[tokio::test]
async fn what_cannot_be_copied_is_named_and_the_rest_is_there() {
    let disk = Memory::new(1 << 20);
    let unreadable = Fault {
        operation: Operation::Open,
        nth: 2,
        effect: Effect::Fail(ErrorCode::StorageFailed),
    };
    let exports = vec![
        export("/from", AnonymousAccess::Write, Faulty::new(disk, vec![unreadable])),
        export("/to", AnonymousAccess::Write, memory()),
    ];
    let server = Server::start(exports, |_| {}).await;
    for name in ["a", "b", "c"] {
        server.put(&format!("/from/d/{name}"), b"content").await;
    }
    let answer = server.ask("COPY /from/d\nDestination: /to/d\n", b"").await;
    assert_eq!(answer.status, 207, "{answer:?}");
    let named = ["a", "b", "c"]
        .into_iter()
        .find(|name| answer.text().contains(&format!("/to/d/{name}")));
    for name in ["a", "b", "c"] {
        let status = server.ask(&format!("HEAD /to/d/{name}\n"), b"").await.status;
        assert_eq!(status, if Some(name) == named { 404 } else { 200 }, "{name}");
    }
}

#[tokio::test]
async fn a_copy_ends_with_its_client_and_is_not_seen() {
    let directory = tempfile::tempdir().unwrap();
    // The whole copy takes a minute.
    let slow = Fault {
        operation: Operation::Read,
        nth: 0,
        effect: Effect::Delay(Duration::from_secs(1)),
    };
    let exports = vec![
        export("/from", AnonymousAccess::Write, Faulty::new(memory(), vec![slow])),
        export(
            "/to",
            AnonymousAccess::Write,
            Posix::open(directory.path(), &PosixOptions::default()).unwrap(),
        ),
    ];
    let server = Server::start(exports, |_| {}).await;
    server.put("/from/f", &pattern(16_000_000)).await;
    let mut client = server.connect().await;
    client.send(head_text("COPY /from/f\nDestination: /to/f\n", None)).await;
    soon(async {
        while files_below(directory.path()) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(server.ask("HEAD /to/f\n", b"").await.status, 404, "no part is visible");
    drop(client);
    let record = server.log.request("COPY").await;
    assert_eq!(record.error.map(|error| error.code), Some("client_gone"));
    assert_eq!(server.ask("HEAD /to/f\n", b"").await.status, 404);
}
