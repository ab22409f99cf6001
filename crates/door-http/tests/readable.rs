//! A cache in front of a server where each client has an identity of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cache::{Cache, CachedStore, Settings};
use net::address::AddressPolicy;
use net::tls::{ClientTls, Trust};
use remote::{Client, ClientOptions};
use storage::{Answer, ClientCredential, ClientToken, FindOwner, Owner, Store};
use storage_remote::{Identity, RemoteStore, Upstream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use types::{ByteRange, ErrorCode, Location, LogicalPath, Result, Secret};

const CONTENT: &str = "what one client may read";

/// A server with one file, which all may look at. Whether it may be read changes.
#[derive(Default)]
struct Server {
    refuses_reads: AtomicBool,
    reads: AtomicUsize,
}

impl Server {
    fn answer(&self, head: &str) -> String {
        const FACTS: &str = "ETag: \"v1\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length:";
        let length = CONTENT.len();
        // The body of the request before may precede it.
        let is = |method: &str| head.contains(&format!("{method} /data/file "));
        match () {
            () if is("HEAD") => format!("HTTP/1.1 200 OK\r\n{FACTS} {length}\r\n\r\n"),
            () if is("GET") => {
                self.reads.fetch_add(1, Ordering::Relaxed);
                if self.refuses_reads.load(Ordering::Relaxed) {
                    return "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_owned();
                }
                match head.contains("bytes=0-0") {
                    true => format!(
                        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-0/{length}\r\n{FACTS} 1\r\n\r\n{}",
                        &CONTENT[..1]
                    ),
                    false => format!("HTTP/1.1 200 OK\r\n{FACTS} {length}\r\n\r\n{CONTENT}"),
                }
            }
            () => "HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\n\r\n".to_owned(),
        }
    }

    async fn serve(&self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        while stream.read_buf(&mut buffer).await.unwrap_or(0) > 0 {
            while let Some(at) = buffer.windows(4).position(|part| part == b"\r\n\r\n") {
                let head: Vec<u8> = buffer.drain(..at + 4).collect();
                let answer = self.answer(&String::from_utf8(head).unwrap());
                let _ = stream.write_all(answer.as_bytes()).await;
            }
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
        let client = Client::new(ClientOptions {
            tls: ClientTls::load(&Trust::default()).unwrap().0,
            addresses: AddressPolicy::ANY,
            connect: Duration::from_secs(60),
            first_byte: Duration::from_secs(60),
            stall: Duration::from_secs(60),
            user_agent: "crossload-test/1".to_owned(),
        });
        RemoteStore::new(Upstream::new(client, Location::parse(&url).unwrap(), Identity::Client))
    }

    fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }
}

/// A client with a token of its own.
struct Holder(&'static str);

impl FindOwner for Holder {
    fn find(&self) -> Answer<'_, Owner> {
        Box::pin(async {
            let token = ClientToken {
                text: Secret::new(self.0),
                audiences: vec!["ANY".to_owned()],
            };
            Ok(Owner {
                client: Some(Arc::new(ClientCredential::Token(token))),
                ..Owner::default()
            })
        })
    }
}

async fn read(store: &dyn Store, client: &'static str) -> Result<Vec<u8>> {
    let path = LogicalPath::parse("/file").unwrap();
    let store = store.acting_for(Some(Arc::new(Holder(client))));
    let file = store.open(&path).await?;
    let batch = file.read_batch(ByteRange::new(0, CONTENT.len() as u64)).await?;
    Ok(batch.slices().flatten().copied().collect())
}

#[tokio::test]
async fn a_cache_gives_a_file_only_to_clients_whom_the_server_lets_read_it() {
    let server = Arc::new(Server::default());
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::open(directory.path(), 1 << 30, Box::new(|_| {})).unwrap();
    let settings = Settings {
        revalidate_after: Some(Duration::from_secs(3600)),
        prefetch_blocks: 0,
    };
    let layer = CachedStore::new(Arc::new(server.store().await), cache.clone(), "origin", settings);
    assert!(read(&layer, "alice").await.unwrap() == CONTENT.as_bytes());
    server.refuses_reads.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        let refused = read(&layer, "bob").await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::Forbidden, "{refused}");
    }
    // A client whom the server lets read is served from the cache, and not asked for each time.
    server.refuses_reads.store(false, Ordering::Relaxed);
    let before = (server.reads(), cache.counts().hit_bytes);
    for _ in 0..3 {
        assert!(read(&layer, "carol").await.unwrap() == CONTENT.as_bytes());
    }
    assert_eq!(server.reads(), before.0 + 1);
    assert_eq!(cache.counts().hit_bytes, before.1 + 3 * CONTENT.len() as u64);
    // A reader who wants the present state makes it ask.
    server.refuses_reads.store(true, Ordering::Relaxed);
    let now = layer.checked_within(Duration::ZERO).unwrap();
    assert_eq!(
        read(now.as_ref(), "carol").await.unwrap_err().code(),
        ErrorCode::Forbidden
    );
}
