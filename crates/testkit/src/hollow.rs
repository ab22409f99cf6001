//! A storage that copies nothing and answers at once: the control traffic of third-party copies.
//!
//! Paths below `/source/` exist. Others exist once they were the destination of a COPY. It speaks
//! HTTP in clear text, so that its own cost, which the two cores bear too, is small.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::Result;

/// Size of each source.
const FILE_BYTES: u64 = 1 << 20;
/// Time between two markers of a copy that is kept open.
const MARKER_PERIOD: Duration = Duration::from_secs(5);
const REQUEST_BYTES_MAX: usize = 64 * 1024;
const COLLECTION: &str = "<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/</D:href>\
    <D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype>\
    <D:quota-used-bytes>0</D:quota-used-bytes><D:quota-available-bytes>1099511627776</D:quota-available-bytes></D:prop>\
    <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>";

/// Orders to the storage, and its counters.
#[derive(Debug)]
struct State {
    /// Copies stay open while this is true.
    holds: watch::Sender<bool>,
    ends: watch::Sender<bool>,
    files: Mutex<Files>,
    open: AtomicUsize,
    /// The most of them at once.
    most: AtomicUsize,
    copied: AtomicU64,
}

/// Names, as their hashes.
#[derive(Debug, Default)]
struct Files {
    written: HashSet<u64>,
    /// Copies that run.
    running: HashSet<u64>,
    /// Copies of a file that ran already.
    doubled: u64,
}

/// A storage for third-party copies in clear text, on a thread of its own; dropping it ends it.
///
/// A COPY stays open, with a marker every few seconds, as long as [`HollowStorage::hold`] says so.
/// Then it succeeds. It ends at once when its client leaves.
#[derive(Debug)]
pub struct HollowStorage {
    port: u16,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

impl HollowStorage {
    /// Starts it; copies stay open until [`HollowStorage::hold`] says otherwise.
    ///
    /// # Errors
    /// What the system says.
    pub fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(State {
            holds: watch::Sender::new(true),
            ends: watch::Sender::new(false),
            files: Mutex::default(),
            open: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            copied: AtomicU64::new(0),
        });
        let inner = Arc::clone(&state);
        let thread = thread::spawn(move || runtime.block_on(accept(listener, inner)));
        Ok(Self {
            port,
            state,
            thread: Some(thread),
        })
    }

    /// Its URL without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://localhost:{}", self.port)
    }

    /// Whether copies stay open from now on.
    pub fn hold(&self, holds: bool) {
        self.state.holds.send_replace(holds);
    }

    /// The most copies that were open at once.
    #[must_use]
    pub fn open_most(&self) -> usize {
        self.state.most.load(Ordering::Relaxed)
    }

    /// Copies that are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.state.open.load(Ordering::Relaxed)
    }

    /// Copies that have ended well.
    #[must_use]
    pub fn copied(&self) -> u64 {
        self.state.copied.load(Ordering::Relaxed)
    }

    /// Copies that began while another one of the same destination was open.
    #[must_use]
    pub fn doubled(&self) -> u64 {
        self.state.files().doubled
    }
}

impl Drop for HollowStorage {
    fn drop(&mut self) {
        self.state.ends.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut ends = state.ends.subscribe();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                let state = Arc::clone(&state);
                // A client that leaves ends its connection only.
                tokio::spawn(async move { drop(serve(stream, &state).await) });
            },
            _ = ends.wait_for(|ends| *ends) => return,
        }
    }
}

/// Answers the requests of one connection, one after the other.
async fn serve(mut stream: TcpStream, state: &State) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = Vec::with_capacity(4096);
    loop {
        let head = loop {
            if let Some(end) = input.windows(4).position(|part| part == b"\r\n\r\n") {
                break end + 4;
            }
            if input.len() > REQUEST_BYTES_MAX || stream.read_buf(&mut input).await? == 0 {
                return Ok(());
            }
        };
        let words = String::from_utf8_lossy(&input[..head]).into_owned();
        let body = header(&words, "content-length").and_then(|text| text.parse().ok());
        let length = head + body.unwrap_or(0);
        while input.len() < length {
            if stream.read_buf(&mut input).await? == 0 {
                return Ok(());
            }
        }
        input.drain(..length);
        let mut line = words.split(' ');
        let (method, path) = (line.next().unwrap_or_default(), line.next().unwrap_or_default());
        match method {
            "COPY" => copy(&mut stream, &mut input, state, path).await?,
            _ => stream.write_all(state.answer(method, path).as_bytes()).await?,
        }
    }
}

fn header<'w>(words: &'w str, name: &str) -> Option<&'w str> {
    let mut fields = words.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(found, _)| found.eq_ignore_ascii_case(name))?;
    Some(value.trim())
}

fn key(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

impl State {
    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exists(&self, path: &str) -> bool {
        path.starts_with("/source/") || self.files().written.contains(&key(path))
    }

    fn answer(&self, method: &str, path: &str) -> String {
        match method {
            "HEAD" if self.exists(path) => {
                format!("HTTP/1.1 200 OK\r\nAccept-Ranges: bytes\r\nContent-Length: {FILE_BYTES}\r\n\r\n")
            }
            "HEAD" => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "PROPFIND" => format!(
                "HTTP/1.1 207 Multi-Status\r\nContent-Type: application/xml\r\nContent-Length: {}\r\n\r\n{COLLECTION}",
                COLLECTION.len()
            ),
            "OPTIONS" => "HTTP/1.1 200 OK\r\nDAV: 1\r\nAllow: OPTIONS, HEAD, GET, PUT, DELETE, MKCOL, PROPFIND, \
                COPY\r\nContent-Length: 0\r\n\r\n"
                .to_owned(),
            "DELETE" => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
            _ => "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n".to_owned(),
        }
    }
}

/// Counts a copy as long as it is open.
struct Open<'s> {
    state: &'s State,
    key: u64,
}

impl<'s> Open<'s> {
    fn new(state: &'s State, key: u64) -> Self {
        let mut files = state.files();
        if !files.running.insert(key) {
            files.doubled += 1;
        }
        let open = state.open.fetch_add(1, Ordering::Relaxed) + 1;
        state.most.fetch_max(open, Ordering::Relaxed);
        Self { state, key }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.state.files().running.remove(&self.key);
        self.state.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Says that a copy has begun, how far it is, and that it has ended.
async fn copy(stream: &mut TcpStream, input: &mut Vec<u8>, state: &State, path: &str) -> std::io::Result<()> {
    let open = Open::new(state, key(path));
    let mut holds = state.holds.subscribe();
    let head = "HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut out = head.to_owned();
    let mut moved_bytes = 0;
    while *holds.borrow_and_update() {
        moved_bytes += 1;
        out.push_str(&chunk(&marker(moved_bytes)));
        stream.write_all(out.as_bytes()).await?;
        out.clear();
        tokio::select! {
            // An error: the time for the next marker.
            _ = tokio::time::timeout(MARKER_PERIOD, holds.changed()) => {}
            read = stream.read_buf(input) => if read? == 0 {
                return Ok(());
            },
        }
    }
    out.push_str(&chunk(&marker(FILE_BYTES)));
    out.push_str(&chunk("success: Created\n"));
    out.push_str("0\r\n\r\n");
    state.files().written.insert(open.key);
    // Before the client can begin another one.
    drop(open);
    state.copied.fetch_add(1, Ordering::Relaxed);
    stream.write_all(out.as_bytes()).await
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn marker(moved_bytes: u64) -> String {
    format!(
        "Perf Marker\n    Timestamp: 1\n    Stripe Index: 0\n    Stripe Bytes Transferred: {moved_bytes}\n    \
         Total Stripe Count: 1\nEnd\n"
    )
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_copy_stays_open_until_it_may_end_and_its_file_is_there_then() {
        let storage = HollowStorage::start().expect("started");
        let mut stream = TcpStream::connect(("127.0.0.1", storage.port)).expect("there");
        let mut ask = |words: &str, until: &str| {
            stream.write_all(words.as_bytes()).expect("sent");
            let mut seen = String::new();
            while !seen.ends_with(until) {
                let mut part = [0; 4096];
                let length = stream.read(&mut part).expect("read");
                assert_ne!(length, 0, "{seen}");
                seen.push_str(&String::from_utf8_lossy(&part[..length]));
            }
            seen
        };
        let head = "HEAD /destination/a HTTP/1.1\r\nHost: localhost\r\n\r\n";
        assert!(ask(head, "\r\n\r\n").starts_with("HTTP/1.1 404 "));
        let order = "COPY /destination/a HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let begun = ask(order, "End\n\r\n");
        assert!(begun.starts_with("HTTP/1.1 201 "), "{begun}");
        let mut other = TcpStream::connect(("127.0.0.1", storage.port)).expect("there");
        other.write_all(order.as_bytes()).expect("sent");
        assert_ne!(other.read(&mut [0; 4096]).expect("read"), 0);
        assert_eq!((storage.open(), storage.copied(), storage.doubled()), (2, 0, 1));
        drop(other);
        while storage.open() > 1 {
            std::thread::yield_now();
        }
        storage.hold(false);
        assert!(ask("", "0\r\n\r\n").contains("success: Created"));
        assert!(ask(head, "\r\n\r\n").starts_with("HTTP/1.1 200 "));
        assert_eq!((storage.open(), storage.copied()), (0, 1));
    }
}
