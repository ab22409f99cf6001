//! A store that is no file system: its objects are elsewhere, and each answer comes later. It has
//! no open file and no thread, and implements only what every store must.

use std::collections::HashMap;
use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::UNIX_EPOCH;

use endpoint::{Export, Store};
use net::Batch;
use net::tls::ServerTls;
use policy::{AnonymousAccess, ExportRules};
use storage::{
    Answer, CommitFacts, DirectoryReader, FindOwner, Held, Kind, OldFile, Overwrite, ReadHandle, Space, Stat,
    UploadOptions, WriteHandle,
};
use testkit::SelfSigned;
use types::{ByteRange, Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::harness::{Server, pattern};

/// What comes in one answer at most, in bytes.
const ANSWER_BYTES: u64 = 50_021;

/// The objects by their names.
#[derive(Clone, Default)]
struct Elsewhere(Arc<Mutex<HashMap<LogicalPath, Arc<Object>>>>);

/// What is open for reading.
struct Object {
    /// What all names of one object share.
    content: Arc<Mutex<Vec<u8>>>,
    stat: Stat,
    /// How often a reader still finds the object replaced.
    replaced: AtomicUsize,
}

fn stat(kind: Kind, size_bytes: u64) -> Stat {
    Stat {
        kind,
        size_bytes,
        modified: UNIX_EPOCH,
        mode: 0o644,
        inode: size_bytes,
    }
}

fn refused<T: Send + 'static>(code: ErrorCode) -> Answer<'static, T> {
    Box::pin(ready(Err(Error::new(code, Side::Active, Phase::Open))))
}

impl Elsewhere {
    fn objects(&self) -> MutexGuard<'_, HashMap<LogicalPath, Arc<Object>>> {
        self.0.lock().unwrap()
    }

    async fn object(&self, path: &LogicalPath) -> Result<Arc<Object>> {
        tokio::task::yield_now().await;
        let missing = || Error::new(ErrorCode::NotFound, Side::Active, Phase::Open);
        self.objects().get(path).cloned().ok_or_else(missing)
    }
}

impl storage::Store for Elsewhere {
    fn acting_for(&self, _: Option<Arc<dyn FindOwner>>) -> Arc<dyn storage::Store> {
        Arc::new(self.clone())
    }

    fn holding(&self, _: Held) -> Arc<dyn storage::Store> {
        Arc::new(self.clone())
    }

    fn stat<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Stat> {
        Box::pin(async move {
            match path.is_root() {
                true => Ok(stat(Kind::Directory, 0)),
                false => Ok(self.object(path).await?.stat.clone()),
            }
        })
    }

    fn list<'a>(&'a self, _: &'a LogicalPath) -> Answer<'a, Box<dyn DirectoryReader>> {
        refused(ErrorCode::NotImplemented)
    }

    fn open<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Arc<dyn ReadHandle>> {
        Box::pin(async move { Ok(self.object(path).await? as Arc<dyn ReadHandle>) })
    }

    fn create<'a>(&'a self, path: &'a LogicalPath, options: &'a UploadOptions) -> Answer<'a, Arc<dyn WriteHandle>> {
        if let Some(old) = self
            .objects()
            .get(path)
            .filter(|_| options.old_file == OldFile::ByStore)
        {
            old.content.lock().unwrap().clear();
        }
        let (to, path, content) = (self.clone(), path.clone(), Mutex::default());
        Box::pin(ready(
            Ok(Arc::new(Coming { to, path, content }) as Arc<dyn WriteHandle>),
        ))
    }

    fn make_directory<'a>(&'a self, _: &'a LogicalPath, _: bool) -> Answer<'a, ()> {
        refused(ErrorCode::NotImplemented)
    }

    fn remove<'a>(&'a self, _: &'a LogicalPath) -> Answer<'a, ()> {
        refused(ErrorCode::NotImplemented)
    }

    fn rename<'a>(&'a self, from: &'a LogicalPath, to: &'a LogicalPath, _: Overwrite) -> Answer<'a, bool> {
        let mut objects = self.objects();
        let object = objects.remove(from).unwrap();
        Box::pin(ready(Ok(objects.insert(to.clone(), object).is_some())))
    }

    fn space(&self) -> Answer<'_, Space> {
        let (total_bytes, free_bytes, used_bytes, quota_bytes) = (1 << 40, 1 << 40, 0, None);
        Box::pin(ready(Ok(Space {
            total_bytes,
            free_bytes,
            used_bytes,
            quota_bytes,
            device: None,
        })))
    }
}

impl ReadHandle for Object {
    fn begin(&self, _: ByteRange) -> Answer<'_, ()> {
        let left = |left: usize| left.checked_sub(1);
        match self.replaced.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left) {
            Ok(_) => refused(ErrorCode::SourceChanged),
            Err(_) => Box::pin(ready(Ok(()))),
        }
    }

    fn stat(&self) -> &Stat {
        &self.stat
    }

    fn read_batch(&self, range: ByteRange) -> Answer<'_, Batch> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let end = range.end.min(range.start + ANSWER_BYTES).min(self.stat.size_bytes);
            let content = self.content.lock().unwrap();
            let piece = content.get(range.start as usize..end as usize);
            Ok(Batch::copied(piece.unwrap_or_default()))
        })
    }
}

/// An object on its way in.
struct Coming {
    to: Elsewhere,
    path: LogicalPath,
    content: Mutex<Vec<u8>>,
}

impl WriteHandle for Coming {
    fn write(&self, batch: Batch, offset: u64) -> Answer<'_, ()> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let (mut content, mut bytes) = (self.content.lock().unwrap(), Vec::new());
            batch.append_to(&mut bytes);
            let (start, end) = (offset as usize, offset as usize + bytes.len());
            let length = content.len().max(end);
            content.resize(length, 0);
            content[start..end].copy_from_slice(&bytes);
            Ok(())
        })
    }

    fn stat(&self) -> Result<Stat> {
        Ok(stat(Kind::File, self.content.lock().unwrap().len() as u64))
    }

    fn commit(&self, facts: CommitFacts, _: Option<Held>) -> Answer<'_, Stat> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let content = std::mem::take(&mut *self.content.lock().unwrap());
            let stat = stat(Kind::File, content.len() as u64);
            assert_eq!(stat.size_bytes, facts.size_bytes);
            let object = Object {
                content: Arc::new(Mutex::new(content)),
                stat: stat.clone(),
                replaced: AtomicUsize::new(0),
            };
            self.to.objects().insert(self.path.clone(), Arc::new(object));
            Ok(stat)
        })
    }
}

/// A door to it, in clear text and over TLS.
async fn server() -> Server {
    server_of(Elsewhere::default()).await
}

async fn server_of(objects: Elsewhere) -> Server {
    let rules = ExportRules {
        path: LogicalPath::parse("/data").unwrap(),
        anonymous: AnonymousAccess::Write,
        ..ExportRules::default()
    };
    let store = Store::of(Arc::new(objects));
    let made = SelfSigned::localhost().unwrap();
    Server::start(vec![Export { rules, store }], |settings| {
        settings.site.tls = Some(ServerTls::load(&made.certificate, &made.key).unwrap());
    })
    .await
}

#[tokio::test]
async fn a_store_without_files_takes_uploads_and_serves_them() {
    let server = server().await;
    let content = pattern(700_000);
    let mut client = server.connect().await;
    let put = client.ask("PUT /data/f\n", &content).await;
    assert_eq!(put.status, 201, "{put:?}");
    let whole = client.ask("GET /data/f\n", b"").await;
    assert_eq!((whole.status, whole.body == content), (200, true));
    let part = client.ask("GET /data/f\nRange: bytes=5-300004\n", b"").await;
    assert_eq!((part.status, part.body == content[5..300_005]), (206, true));
    let parts = client
        .ask("GET /data/f\nRange: bytes=0-99999,200000-350000\n", b"")
        .await;
    let holds = |wanted: &[u8]| parts.body.windows(wanted.len()).any(|seen| seen == wanted);
    assert!(parts.status == 206 && holds(&content[..100_000]) && holds(&content[200_000..=350_000]));
    let head = client.ask("HEAD /data/f\nWant-Digest: adler32\n", b"").await;
    assert_eq!((head.header("Digest"), head.status), (put.header("Digest"), 200));
    assert_eq!(client.ask("GET /data/g\n", b"").await.status, 404);
}

#[tokio::test]
async fn a_store_without_files_is_an_end_of_copies() {
    let (here, there) = (Server::open().await, server().await);
    let content = pattern(3_000_000);
    here.put("/data/f", &content).await;
    let pull = format!(
        "COPY /data/f\nSource: {}\nX-Number-Of-Streams: 2\n",
        here.url("/data/f")
    );
    assert_eq!(there.ask(&pull, b"").await.last_line(), "success: Created");
    let push = format!("COPY /data/f\nDestination: {}\n", here.url("/data/pushed"));
    assert_eq!(there.ask(&push, b"").await.last_line(), "success: Created");
    // Read over TLS.
    let source = there.url("/data/f").replace("http:", "https:");
    let pull = format!("COPY /data/pulled\nSource: {source}\n");
    assert_eq!(here.ask(&pull, b"").await.last_line(), "success: Created");
    for name in ["pushed", "pulled"] {
        let stored = here.ask(&format!("GET /data/{name}\n"), b"").await;
        assert!(stored.body == content, "{name}");
    }
}

#[tokio::test]
async fn a_file_that_is_replaced_while_it_is_opened_is_opened_again() {
    let objects = Elsewhere::default();
    let server = server_of(objects.clone()).await;
    let content = pattern(1000);
    server.put("/data/f", &content).await;
    let path = LogicalPath::parse("/f").unwrap();
    for (replaced, expected) in [(1, 200), (3, 200), (4, 412)] {
        objects.objects()[&path].replaced.store(replaced, Ordering::Relaxed);
        let answer = server.ask("GET /data/f\n", b"").await;
        assert_eq!(answer.status, expected, "{replaced}");
        assert_eq!(answer.body == content, expected == 200, "{replaced}");
    }
}

#[tokio::test]
async fn a_copy_over_another_name_of_its_source_leaves_both_whole() {
    let objects = Elsewhere::default();
    let server = server_of(objects.clone()).await;
    let content = pattern(200_000);
    server.put("/data/f", &content).await;
    let path = |name| LogicalPath::parse(name).unwrap();
    let file = objects.object(&path("/f")).await.unwrap();
    let mut seen = stat(Kind::File, 200_000);
    seen.inode += 1;
    let link = Object {
        content: Arc::clone(&file.content),
        stat: seen,
        replaced: AtomicUsize::new(0),
    };
    objects.objects().insert(path("/link"), Arc::new(link));
    let answer = server.ask("COPY /data/f\nDestination: /data/link\n", b"").await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    for name in ["/data/f", "/data/link"] {
        assert!(
            server.ask(&format!("GET {name}\n"), b"").await.body == content,
            "{name}"
        );
    }
    assert_eq!(objects.objects().len(), 2);
}
