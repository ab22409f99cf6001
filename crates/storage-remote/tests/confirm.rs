//! Servers that say something odd about the file that they have stored, ignore that it must be a
//! new one, or never end a listing.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use net::Batch;
use net::address::AddressPolicy;
use net::tls::{ClientTls, Trust};
use remote::{Account, Client, ClientOptions};
use storage::{CommitFacts, Hasher, Held, HoldMemory, Overwrite, Stat, Store, UploadOptions};
use storage_remote::{Credential, Identity, RemoteStore, Upstream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, LogicalPath, Phase, Result, Secret, Side};

const CONTENT: &str = "the new content";

/// Reads until `end`, and returns what came up to there.
async fn until(stream: &mut TcpStream, buffer: &mut Vec<u8>, end: &[u8]) -> Option<String> {
    loop {
        if let Some(at) = buffer.windows(end.len()).position(|part| part == end) {
            let found = buffer.drain(..at + end.len()).collect();
            return String::from_utf8(found).ok();
        }
        if stream.read_buf(buffer).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

/// A server that has stored the content and reports the checksum of the file before, as XRootD does
/// in the same second. It breaks off the first `cuts` reads, and then sends `stored`.
#[derive(Default)]
struct Server {
    cuts: usize,
    stored: &'static str,
    /// Headers that say when the file was changed, and no version then.
    times: &'static str,
    reads: AtomicUsize,
    removals: AtomicUsize,
}

impl Server {
    async fn serve(&self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        while let Some(head) = until(&mut stream, &mut buffer, b"\r\n\r\n").await {
            let length = self.stored.len();
            let answer = match head.split(' ').next() {
                Some("PUT") => {
                    let _ = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
                    until(&mut stream, &mut buffer, CONTENT.as_bytes()).await;
                    format!("HTTP/1.1 201 Created\r\n{}Content-Length: 0\r\n\r\n", self.version())
                }
                Some("HEAD") => format!(
                    "HTTP/1.1 200 OK\r\n{}{}Content-Length: {length}\r\nDigest: adler32=00000001\r\n\r\n",
                    self.version(),
                    self.times
                ),
                Some("GET") if self.reads.fetch_add(1, Ordering::Relaxed) < self.cuts => {
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{}",
                        &self.stored[..4]
                    );
                    let _ = stream.write_all(answer.as_bytes()).await;
                    return;
                }
                Some("GET") => format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{}", self.stored),
                Some("DELETE") => {
                    self.removals.fetch_add(1, Ordering::Relaxed);
                    "HTTP/1.1 204 No Content\r\n\r\n".to_owned()
                }
                _ => "HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\n\r\n".to_owned(),
            };
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    }

    fn version(&self) -> &'static str {
        match self.times {
            "" => "ETag: \"v1\"\r\n",
            _ => "",
        }
    }

    /// A store of this server.
    async fn store(self: &Arc<Self>) -> RemoteStore {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/data", listener.local_addr().unwrap());
        let this = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let this = Arc::clone(&this);
                tokio::spawn(async move { this.serve(stream).await });
            }
        });
        store_of(client(), &url)
    }
}

fn client() -> Client {
    Client::new(ClientOptions {
        tls: ClientTls::load(&Trust::default()).unwrap().0,
        addresses: AddressPolicy::ANY,
        connect: Duration::from_secs(60),
        first_byte: Duration::from_secs(60),
        stall: Duration::from_secs(60),
        user_agent: "crossload-test/1".to_owned(),
    })
}

fn store_of(client: Client, url: &str) -> RemoteStore {
    let identity = Identity::Service(Credential::default());
    RemoteStore::new(Upstream::new(client, Location::parse(url).unwrap(), identity))
}

/// An S3 server that takes the condition of its trial, and ignores that of all other objects.
#[derive(Default)]
struct Objects(Mutex<HashSet<String>>);

impl Objects {
    async fn serve(&self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        while let Some(head) = until(&mut stream, &mut buffer, b"\r\n\r\n").await {
            let mut words = head.split([' ', '?']);
            let (method, path) = (words.next().unwrap(), words.next().unwrap().to_owned());
            if head.to_ascii_lowercase().contains("100-continue") {
                let _ = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
                until(&mut stream, &mut buffer, CONTENT.as_bytes()).await;
            } else if method == "PUT" {
                until(&mut stream, &mut buffer, b"a trial\n").await;
            }
            let exists = self.0.lock().unwrap().contains(&path);
            let answer = match method {
                "PUT" if exists && path.contains("trial") => "412 Precondition Failed\r\nContent-Length: 0",
                "PUT" => {
                    self.0.lock().unwrap().insert(path);
                    "200 OK\r\nETag: \"v1\"\r\nContent-Length: 0"
                }
                "HEAD" if exists => "200 OK\r\nETag: \"v1\"\r\nContent-Length: 15",
                "DELETE" => "204 No Content",
                _ => "404 Not Found\r\nContent-Length: 0",
            };
            let _ = stream.write_all(format!("HTTP/1.1 {answer}\r\n\r\n").as_bytes()).await;
        }
    }

    /// The address of a bucket there.
    async fn start(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("s3://{}/bucket", listener.local_addr().unwrap());
        let this = Arc::new(self);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let this = Arc::clone(&this);
                tokio::spawn(async move { this.serve(stream).await });
            }
        });
        url
    }
}

/// A store of a server that tells no length in HEAD, and answers GET with this.
async fn store_without_lengths(get: &'static str) -> RemoteStore {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/data", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = Vec::new();
                while let Some(head) = until(&mut stream, &mut buffer, b"\r\n\r\n").await {
                    let answer = match head.split(' ').next() {
                        Some("GET") => get,
                        Some("HEAD") => "HTTP/1.1 200 OK\r\nETag: \"v1\"\r\n\r\n",
                        // With a body, which is not read.
                        _ => "HTTP/1.1 405 Method Not Allowed\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
                    };
                    let _ = stream.write_all(answer.as_bytes()).await;
                    if answer.contains("close") {
                        return;
                    }
                }
            });
        }
    });
    store_of(client(), &url)
}

#[tokio::test]
async fn a_file_whose_length_is_not_told_is_not_taken_for_an_empty_one() {
    let ranged =
        "HTTP/1.1 206 Partial Content\r\nETag: \"v1\"\r\nContent-Range: bytes 0-0/15\r\nContent-Length: 1\r\n\r\nt";
    let store = store_without_lengths(ranged).await;
    assert_eq!(store.stat(&path()).await.unwrap().size_bytes, 15);
    let file = store.open(&path()).await.unwrap();
    file.check_unchanged().await.unwrap();
    let chunked =
        "HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nTransfer-Encoding: chunked\r\n\r\nf\r\nthe new content\r\n0\r\n\r\n";
    let store = store_without_lengths(chunked).await;
    for error in [store.stat(&path()).await.err(), store.open(&path()).await.err()] {
        let error = error.expect("its length is not known");
        assert_eq!(
            (error.code(), error.side()),
            (ErrorCode::PeerMisbehaved, Side::Upstream),
            "{error}"
        );
    }
}

/// When another client stores an object.
#[derive(Clone, Copy, PartialEq)]
enum Meanwhile {
    Never,
    /// In place of the source, after its tags were read.
    AfterTags,
    /// In place of the source, after it was copied.
    AfterCopy,
    /// In place of the copy.
    OverCopy,
}

/// An S3 server with an object `/bucket/from`. Its Adler-32, in its tags, is the number of its
/// version.
struct Copying {
    meanwhile: Meanwhile,
    refusal: (&'static str, &'static str),
    /// The entity tags of the objects.
    versions: Mutex<HashMap<String, &'static str>>,
    tags: Mutex<HashMap<String, String>>,
    removed: Mutex<Vec<String>>,
}

impl Copying {
    async fn start(meanwhile: Meanwhile, refusal: (&'static str, &'static str)) -> (Arc<Self>, RemoteStore) {
        let this = Arc::new(Self {
            meanwhile,
            refusal,
            versions: Mutex::new(HashMap::from([("/bucket/from".to_owned(), "1")])),
            tags: Mutex::default(),
            removed: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("s3://{}/bucket", listener.local_addr().unwrap());
        let server = Arc::clone(&this);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let server = Arc::clone(&server);
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        let account = Account {
            key_id: "key".to_owned(),
            secret: Secret::new("hush"),
            token: None,
            region: None,
            addressing: None,
        };
        let identity = Identity::Service(Credential::of_account(account));
        let root = Location::parse(&url).unwrap();
        (
            this,
            RemoteStore::new(Upstream::new(client().with_s3(), root, identity)),
        )
    }

    async fn serve(&self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        while let Some(head) = until(&mut stream, &mut buffer, b"\r\n\r\n").await {
            let lines = head.to_ascii_lowercase();
            let length = lines.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.trim().parse().unwrap());
            if lines.contains("100-continue") {
                let _ = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
            }
            while buffer.len() < length {
                assert_ne!(stream.read_buf(&mut buffer).await.unwrap(), 0, "the client left");
            }
            let body = String::from_utf8(buffer.drain(..length).collect()).unwrap();
            let (status, headers, text) = self.answer(&head, body);
            let length = match head.starts_with("HEAD") {
                true => String::new(),
                false => format!("Content-Length: {}\r\n", text.len()),
            };
            let answer = format!("HTTP/1.1 {status}\r\n{headers}{length}\r\n{text}");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    }

    /// Status, headers and content.
    fn answer(&self, head: &str, body: String) -> (&'static str, String, String) {
        let mut words = head.split([' ', '?']);
        let (method, path) = (words.next().unwrap(), words.next().unwrap().to_owned());
        let (mut versions, mut tags) = (self.versions.lock().unwrap(), self.tags.lock().unwrap());
        let (is_source, version) = (path == "/bucket/from", versions.get(&path).copied());
        let of_tags = head.lines().next().unwrap().contains("tagging");
        let plain = |status, text: &str| (status, String::new(), text.to_owned());
        match method {
            "GET" if of_tags && is_source => {
                if self.meanwhile == Meanwhile::AfterTags {
                    versions.insert(path, "2");
                }
                plain("200 OK", &tagged(version.unwrap()))
            }
            "GET" if of_tags => {
                let none = "<Tagging><TagSet/></Tagging>".to_owned();
                plain("200 OK", tags.get(&path).unwrap_or(&none))
            }
            "GET" => plain("200 OK", "<ListBucketResult></ListBucketResult>"),
            "PUT" if of_tags => {
                tags.insert(path, body);
                plain("200 OK", "")
            }
            "PUT" if head.contains("x-amz-copy-source: ") => {
                let made = versions["/bucket/from"];
                if !self.refusal.0.is_empty() {
                    return plain(self.refusal.0, self.refusal.1);
                }
                if !head.contains(&format!("x-amz-copy-source-if-match: \"{made}\"")) {
                    return plain("412 Precondition Failed", "");
                }
                versions.insert(path, made);
                match self.meanwhile {
                    Meanwhile::AfterCopy => versions.insert("/bucket/from".to_owned(), "2"),
                    Meanwhile::OverCopy => versions.insert("/bucket/to".to_owned(), "22"),
                    _ => None,
                };
                let text = format!("<CopyObjectResult><ETag>\"{made}\"</ETag></CopyObjectResult>");
                plain("200 OK", &text)
            }
            "PUT" if version.is_some() => plain("412 Precondition Failed", ""),
            "PUT" => {
                versions.insert(path, "1");
                plain("200 OK", "")
            }
            "HEAD" if let Some(version) = version => {
                // The object of another client is longer.
                let headers = format!("ETag: \"{version}\"\r\nContent-Length: {}\r\n", version.len());
                ("200 OK", headers, String::new())
            }
            "DELETE" => {
                self.removed.lock().unwrap().push(path);
                plain("204 No Content", "")
            }
            _ => plain("404 Not Found", ""),
        }
    }
}

fn tagged(version: &str) -> String {
    format!(
        "<Tagging><TagSet><Tag><Key>adler32</Key><Value>0000000{version}</Value></Tag>\
        <Tag><Key>checksums-etag</Key><Value>{version}</Value></Tag></TagSet></Tagging>"
    )
}

/// Only a checksum of what was copied is kept, and only the copy may be removed.
#[tokio::test]
async fn a_copy_beside_another_client_keeps_its_checksum_and_removes_nothing() {
    let [from, to] = ["/from", "/to"].map(|path| LogicalPath::parse(path).unwrap());
    for (meanwhile, is_kept) in [
        (Meanwhile::Never, true),
        (Meanwhile::AfterTags, true),
        (Meanwhile::AfterCopy, false),
        (Meanwhile::OverCopy, false),
    ] {
        let (server, store) = Copying::start(meanwhile, ("", "")).await;
        store.copy(&from, &to, Overwrite::Allow).await.unwrap();
        let tags = server.tags.lock().unwrap().get("/bucket/to").cloned();
        assert_eq!(tags.is_some(), is_kept, "{tags:?}");
        for expected in ["<Value>00000001</Value>", "<Value>1</Value>"] {
            assert!(tags.as_ref().is_none_or(|tags| tags.contains(expected)), "{tags:?}");
        }
        let removed = server.removed.lock().unwrap().clone();
        assert!(!removed.contains(&"/bucket/to".to_owned()), "{removed:?}");
    }
}

/// The caller then reads and writes the file.
#[tokio::test]
async fn a_server_that_cannot_copy_is_told_from_one_that_may_not() {
    let [from, to] = ["/from", "/to"].map(|path| LogicalPath::parse(path).unwrap());
    let unable = "<Error><Code>InvalidRequest</Code></Error>";
    for (status, text, expected) in [
        ("501 Not Implemented", "", ErrorCode::NotImplemented),
        ("505 HTTP Version Not Supported", "", ErrorCode::NotImplemented),
        ("400 Bad Request", unable, ErrorCode::NotImplemented),
        ("200 OK", unable, ErrorCode::NotImplemented),
        ("403 Forbidden", "", ErrorCode::Forbidden),
        ("412 Precondition Failed", "", ErrorCode::SourceChanged),
    ] {
        let (_server, store) = Copying::start(Meanwhile::Never, (status, text)).await;
        let copied = store.copy(&from, &to, Overwrite::Allow).await;
        assert_eq!(copied.unwrap_err().code(), expected, "{status}");
    }
}

/// Neither is its client's credential looked for.
#[tokio::test]
async fn a_server_that_cannot_copy_is_not_asked_to() {
    let root = Location::parse("root://localhost:1//data").unwrap();
    let upstream = Upstream::new(client(), root, Identity::Client);
    let store = RemoteStore::new(upstream.clone());
    let copied = Store::copy(&store, &path(), &path(), Overwrite::Refuse).await;
    assert_eq!(copied.unwrap_err().code(), ErrorCode::NotImplemented);
    assert_eq!(upstream.counts().requests.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn no_object_is_stored_below_another_one() {
    let server = Objects::default();
    server.0.lock().unwrap().insert("/bucket/q".to_owned());
    let store = store_of(client().with_s3(), &server.start().await);
    let options = UploadOptions::default();
    for (path, expected) in [
        ("/q/r", Some(ErrorCode::NotDirectory)),
        ("/q/r/s/t", Some(ErrorCode::NotDirectory)),
        ("/p/r/s", None),
    ] {
        let created = store.create(&LogicalPath::parse(path).unwrap(), &options).await;
        assert_eq!(created.err().map(|error| error.code()), expected, "{path}");
    }
}

/// Two exports of one bucket.
#[tokio::test]
async fn of_two_uploads_of_a_new_object_one_succeeds() {
    let url = Objects::default().start().await;
    let stores = [(); 2].map(|()| store_of(client().with_s3(), &url));
    let options = UploadOptions {
        overwrite: Overwrite::Refuse,
        ..UploadOptions::default()
    };
    let path = path();
    let one = stores[0].create(&path, &options).await.unwrap();
    let other = stores[1].create(&path, &options).await.unwrap();
    for file in [&one, &other] {
        file.write(Batch::copied(CONTENT.as_bytes()), 0).await.unwrap();
    }
    let facts = CommitFacts {
        size_bytes: CONTENT.len() as u64,
        ..CommitFacts::default()
    };
    let (one, other) = tokio::join!(one.commit(facts.clone(), None), other.commit(facts, None));
    let (stored, refused) = match (one, other) {
        (Err(refused), stored) | (stored, Err(refused)) => (stored, refused),
        both => panic!("{both:?}"),
    };
    assert!(stored.is_ok(), "{stored:?}");
    assert_eq!(refused.code(), ErrorCode::Exists, "{refused}");
}

/// Each page of the listing leads to another one, and the first alone has an entry.
async fn never_ending(listener: TcpListener) {
    for page in 0.. {
        let (mut stream, _) = listener.accept().await.unwrap();
        until(&mut stream, &mut Vec::new(), b"\r\n\r\n").await;
        let entry = if page == 0 {
            "<Contents><Key>d/a</Key></Contents>"
        } else {
            ""
        };
        let body = format!(
            "<ListBucketResult><IsTruncated>true</IsTruncated>\
            <NextContinuationToken>{page}</NextContinuationToken>{entry}</ListBucketResult>"
        );
        let head = format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn a_listing_that_never_ends_is_a_failure_of_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("s3://{}/bucket", listener.local_addr().unwrap());
    tokio::spawn(never_ending(listener));
    let store = store_of(client().with_s3(), &url);
    let mut listing = store.list(&LogicalPath::parse("/d").unwrap()).await.unwrap();
    assert_eq!(listing.next_batch().await.unwrap().len(), 1);
    let error = listing.next_batch().await.err().unwrap();
    assert_eq!(
        (error.code(), error.side()),
        (ErrorCode::PeerMisbehaved, Side::Upstream)
    );
}

fn adler32() -> Vec<Checksum> {
    let mut hasher = Hasher::new(&[ChecksumAlgorithm::Adler32]);
    hasher.update(CONTENT.as_bytes());
    hasher.finish()
}

async fn upload(store: &RemoteStore) -> Result<Stat> {
    let size_bytes = CONTENT.len() as u64;
    let options = UploadOptions {
        size_bytes: Some(size_bytes),
        ..UploadOptions::default()
    };
    let file = store.create(&path(), &options).await?;
    file.write(Batch::copied(CONTENT.as_bytes()), 0).await?;
    let facts = CommitFacts {
        size_bytes,
        checksums: adler32(),
        ..CommitFacts::default()
    };
    file.commit(facts, None).await
}

fn path() -> LogicalPath {
    LogicalPath::parse("/file").unwrap()
}

#[tokio::test]
async fn a_file_that_is_older_than_the_upload_is_not_removed() {
    let server = Arc::new(Server {
        stored: "the old content",
        times: "Date: Mon, 01 Jan 2024 01:00:00 GMT\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n",
        ..Server::default()
    });
    let error = upload(&server.store().await).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ChecksumMismatch, "{error}");
    assert!(error.public().contains("it was not removed"), "{}", error.public());
    assert_eq!(server.removals.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_file_that_is_said_to_differ_is_read_back_until_that_is_known() {
    for (cuts, stored, expected) in [
        (0, CONTENT, None),
        (2, CONTENT, None),
        (usize::MAX, CONTENT, Some(ErrorCode::OutcomeUnknown)),
        (1, "the old content", Some(ErrorCode::ChecksumMismatch)),
    ] {
        let server = Arc::new(Server {
            cuts,
            stored,
            ..Server::default()
        });
        let store = server.store().await;
        let error = upload(&store).await.err();
        assert_eq!(error.as_ref().map(|error| error.code()), expected, "{error:?}");
        let removals = server.removals.load(Ordering::Relaxed);
        assert_eq!(removals > 0, expected == Some(ErrorCode::ChecksumMismatch), "{cuts}");
        if expected == Some(ErrorCode::OutcomeUnknown) {
            let words = error.unwrap().public();
            assert!(words.contains("it was kept"), "{words}");
        } else if expected.is_none() {
            // The wrong checksum is not passed on: it is computed instead.
            let told = store.origin_checksum(&path(), ChecksumAlgorithm::Adler32).await;
            assert_eq!(told.unwrap(), None);
            assert!(store.stored_checksums(&path()).await.unwrap().is_empty());
        }
    }
}

/// A memory budget with this many bytes left.
struct Memory(Arc<AtomicUsize>);

/// Gives the bytes back.
struct Taken(Arc<AtomicUsize>, usize);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.fetch_add(self.1, Ordering::Relaxed);
    }
}

impl HoldMemory for Memory {
    fn hold(&self, bytes: u64) -> Result<Held> {
        let bytes = usize::try_from(bytes).unwrap();
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        match taken {
            Ok(_) => Ok(Arc::new(Taken(self.0.clone(), bytes))),
            Err(_) => Err(Error::new(ErrorCode::ShareUsedUp, Side::Active, Phase::Open)),
        }
    }
}

#[tokio::test]
async fn bytes_that_come_before_their_turn_are_counted_for_the_client() {
    const LEFT_BYTES: usize = 1024 * 1024;
    let store = Arc::new(Server::default()).store().await;
    let left = Arc::new(AtomicUsize::new(LEFT_BYTES));
    let mut uploads = Vec::new();
    let refused = loop {
        let file = store.create(&path(), &UploadOptions::default()).await.unwrap();
        file.count_memory(Arc::new(Memory(left.clone())));
        let early = Batch::copied(&[0; 200_000]);
        let written = file.write(early, 10).await;
        uploads.push(file);
        if let Err(error) = written {
            break error;
        }
        assert!(uploads.len() <= 2, "they are counted");
    };
    assert_eq!((refused.code(), uploads.len()), (ErrorCode::ShareUsedUp, 3));
    // They are no longer counted once their turn has come, or the upload is given up.
    uploads[0].write(Batch::copied(&[0; 10]), 0).await.unwrap();
    assert_eq!(left.load(Ordering::Relaxed), LEFT_BYTES / 2);
    drop(uploads);
    assert_eq!(left.load(Ordering::Relaxed), LEFT_BYTES);
}
