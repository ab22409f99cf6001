//! The file managers of Windows and macOS, mounting and writing. They cannot run here: these
//! exchanges follow what is known of them (headers, their order, and the bodies that matter); they
//! are no recordings.

use crate::harness::{Answer, Raw, Server};

/// The client of Windows' Explorer.
const WINDOWS: &str = "User-Agent: Microsoft-WebDAV-MiniRedir/10.0.19045\nConnection: Keep-Alive\ntranslate: f";
/// The client of macOS' Finder.
const MACOS: &str = "User-Agent: WebDAVFS/3.0.0 (03008000) Darwin/23.4.0 (arm64)\nConnection: keep-alive\nAccept: */*";

const WINDOWS_LOCK: &str = "<?xml version=\"1.0\" encoding=\"utf-8\" ?><D:lockinfo xmlns:D=\"DAV:\"><D:lockscope>\
    <D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner><D:href>DESKTOP\\ann</D:href></D:owner></D:lockinfo>";
const WINDOWS_TIMES: &str = "<?xml version=\"1.0\" encoding=\"utf-8\" ?><D:propertyupdate xmlns:D=\"DAV:\" \
    xmlns:Z=\"urn:schemas-microsoft-com:\"><D:set><D:prop>\
    <Z:Win32LastModifiedTime>Fri, 27 Nov 2026 12:00:00 GMT</Z:Win32LastModifiedTime>\
    <Z:Win32FileAttributes>00000020</Z:Win32FileAttributes></D:prop></D:set></D:propertyupdate>";
const MACOS_LOCK: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:lockinfo xmlns:D=\"DAV:\">\n<D:lockscope>\
    <D:exclusive/></D:lockscope>\n<D:locktype><D:write/></D:locktype>\n<D:owner>\n\
    <D:href>http://www.apple.com/webdav_fs/</D:href>\n</D:owner>\n</D:lockinfo>\n";
const MACOS_FIND: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:propfind xmlns:D=\"DAV:\">\n<D:prop>\n\
    <D:getlastmodified/>\n<D:getcontentlength/>\n<D:creationdate/>\n<D:resourcetype/>\n</D:prop>\n</D:propfind>\n";
const MACOS_QUOTA: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:propfind xmlns:D=\"DAV:\">\n<D:prop>\n\
    <D:quota-available-bytes/>\n<D:quota-used-bytes/>\n<D:quota/>\n<D:quotaused/>\n</D:prop>\n</D:propfind>\n";

/// A client that sends the same headers with each request.
struct Client {
    raw: Raw,
    headers: &'static str,
}

impl Client {
    async fn new(server: &Server, headers: &'static str) -> Self {
        let raw = server.connect().await;
        Self { raw, headers }
    }

    #[track_caller]
    fn demand(status: u16, line: &str, answer: Answer) -> Answer {
        assert_eq!(answer.status, status, "{line}: {}", answer.text());
        answer
    }

    /// Sends a request with further headers, and expects a status.
    async fn ask(&mut self, status: u16, line: &str, body: &str) -> Answer {
        let (first, more) = line.split_once('\n').unwrap_or((line, ""));
        let more = if more.is_empty() {
            String::new()
        } else {
            format!("{more}\n")
        };
        let head = format!("{first}\n{}\n{more}", self.headers);
        Self::demand(status, line, self.raw.ask(&head, body.as_bytes()).await)
    }

    /// Locks, and returns the token with its brackets.
    async fn lock(&mut self, line: &str, body: &str) -> String {
        let answer = self.ask(200, line, body).await;
        assert!(answer.text().contains("<D:lockroot>"), "{}", answer.text());
        answer.header("Lock-Token").expect("a new lock").to_owned()
    }
}

#[tokio::test]
async fn windows_mounts_and_stores_a_document() {
    let server = Server::open().await;
    server.put("/data/d/old.txt", b"old").await;
    let mut client = Client::new(&server, WINDOWS).await;
    for target in ["/", "/data", "*"] {
        let offered = client.ask(200, &format!("OPTIONS {target}"), "").await;
        assert_eq!(offered.header("MS-Author-Via"), Some("DAV"));
        assert!(offered.header("DAV").unwrap().contains('2'));
        assert!(offered.header("Allow").unwrap().contains("UNLOCK"));
    }
    client.ask(207, "PROPFIND /\nDepth: 0\nContent-Length: 0", "").await;
    client.ask(207, "PROPFIND /data\nDepth: 0\nContent-Length: 0", "").await;
    client
        .ask(207, "PROPFIND /data/d\nDepth: 1\nContent-Length: 0", "")
        .await;
    client
        .ask(404, "PROPFIND /data/d/new.docx\nDepth: 0\nContent-Length: 0", "")
        .await;
    client.ask(201, "PUT /data/d/new.docx", "").await;
    let token = client
        .lock(
            "LOCK /data/d/new.docx\nTimeout: Second-3600\nContent-Type: text/xml; charset=\"utf-8\"",
            WINDOWS_LOCK,
        )
        .await;
    client.ask(200, "HEAD /data/d/new.docx", "").await;
    client
        .ask(204, &format!("PUT /data/d/new.docx\nIf: ({token})"), "document")
        .await;
    let patch = "PROPPATCH /data/d/new.docx";
    client.ask(207, &format!("{patch}\nIf: ({token})"), WINDOWS_TIMES).await;
    // Meanwhile, the Explorer of another user.
    let mut other = Client::new(&server, WINDOWS).await;
    other.ask(423, patch, WINDOWS_TIMES).await;
    other.ask(423, "PUT /data/d/new.docx", "theirs").await;
    other
        .ask(
            423,
            "LOCK /data/d/new.docx\nTimeout: Infinite, Second-4100000000",
            WINDOWS_LOCK,
        )
        .await;
    let refreshed = client
        .ask(
            200,
            &format!("LOCK /data/d/new.docx\nTimeout: Second-3600\nIf: ({token})"),
            "",
        )
        .await;
    assert!(refreshed.text().contains("DESKTOP\\ann"));
    client
        .ask(204, &format!("UNLOCK /data/d/new.docx\nLock-Token: {token}"), "")
        .await;
    let renamed = "MOVE /data/d/new.docx\nDestination: http://test/data/d/named%20so.docx\nOverwrite: F";
    client.ask(201, renamed, "").await;
    let stored = client.ask(200, "GET /data/d/named%20so.docx", "").await;
    assert_eq!(stored.body, b"document");
    client.ask(204, "DELETE /data/d/named%20so.docx", "").await;
}

#[tokio::test]
async fn macos_mounts_for_writing_and_stores_a_file_with_its_companions() {
    let server = Server::open().await;
    server.put("/data/d/old.txt", b"old").await;
    let mut client = Client::new(&server, MACOS).await;
    let offered = client.ask(200, "OPTIONS /data/", "").await;
    // Without class 2 the Finder mounts read-only.
    assert!(
        offered
            .header("DAV")
            .unwrap()
            .split(',')
            .any(|class| class.trim() == "2")
    );
    client
        .ask(207, "PROPFIND /data/\nDepth: 0\nContent-Type: text/xml", MACOS_FIND)
        .await;
    let space = client
        .ask(207, "PROPFIND /data/\nDepth: 0\nContent-Type: text/xml", MACOS_QUOTA)
        .await;
    assert!(space.text().contains("<D:quota-available-bytes>"), "{}", space.text());
    client
        .ask(207, "PROPFIND /data/d/\nDepth: 1\nContent-Type: text/xml", MACOS_FIND)
        .await;
    for (name, content) in [(".DS_Store", "store"), ("._new.txt", "fork"), ("new.txt", "content")] {
        let path = format!("/data/d/{name}");
        client
            .ask(
                404,
                &format!("PROPFIND {path}\nDepth: 0\nContent-Type: text/xml"),
                MACOS_FIND,
            )
            .await;
        client.ask(201, &format!("PUT {path}"), "").await;
        let lock = format!("LOCK {path}\nDepth: 0\nTimeout: Second-600\nContent-Type: text/xml; charset=\"utf-8\"");
        let token = client.lock(&lock, MACOS_LOCK).await;
        client
            .ask(
                207,
                &format!("PROPFIND {path}\nDepth: 0\nContent-Type: text/xml"),
                MACOS_FIND,
            )
            .await;
        client.ask(204, &format!("PUT {path}\nIf: ({token})"), content).await;
        client
            .ask(204, &format!("UNLOCK {path}\nLock-Token: {token}"), "")
            .await;
        let got = client.ask(200, &format!("GET {path}"), "").await;
        assert_eq!(got.body, content.as_bytes());
    }
    // It locks files that it opens for writing, and renames and removes them with the lock token.
    let token = client
        .lock("LOCK /data/d/old.txt\nDepth: 0\nTimeout: Second-600", MACOS_LOCK)
        .await;
    let moved =
        format!("MOVE /data/d/old.txt\nDestination: http://test/data/d/renamed.txt\nOverwrite: T\nIf: ({token})");
    client.ask(201, &moved, "").await;
    client.ask(204, "DELETE /data/d/renamed.txt", "").await;
    client.ask(201, "MKCOL /data/d/untitled%20folder/", "").await;
    client.ask(204, "DELETE /data/d/untitled%20folder/", "").await;
}
