//! The line decides about streams: a pull through the delaying relay takes several, a near one in
//! clear text does not. An extra stream never makes a copy fail.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench::relay::Relay;
use endpoint::Store;
use net::address::AddressPolicy;
use net::tls::{ClientTls, Trust};
use remote::{Access, Client, ClientOptions, Resource};
use storage::Memory;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use transfer::{Budget, Order, Outcome, Progress, RemoteSource, Source as CopySource, StoreSink, Streams, copy};
use types::{Location, LogicalPath, Side};

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const SIZE: u64 = 80 << 20;
const RTT: Duration = Duration::from_millis(50);
const WINDOW: u64 = 512 << 10;
/// Time in which it shows that a line is long and one stream does not fill it.
const LOOKS: Duration = Duration::from_millis(400);
/// How often what depends on how busy the machine is may be tried.
const TRIES: usize = 8;

/// What a source does when it is asked for data while it sends some already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Second {
    /// It sends that as well.
    Served,
    /// It says that it has no place for it.
    TurnedAway,
    /// It says that this may not be had.
    Forbidden,
    /// It says nothing.
    Ignored,
    /// It begins, and breaks the connection.
    Broken,
}

/// A request for data.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Instant,
    start: u64,
    end: u64,
    is_served: bool,
}

/// A server of one file, with ranges or without, that knows when it was asked for data.
#[derive(Clone)]
struct Source {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    has_ranges: bool,
    /// It tells which version of the file it sends.
    has_versions: bool,
    second: Second,
    is_sending: Arc<AtomicBool>,
}

impl Source {
    async fn start(has_ranges: bool) -> Self {
        Self::start_with(has_ranges, Second::Served).await
    }

    async fn start_with(has_ranges: bool, second: Second) -> Self {
        Self::start_as(has_ranges, true, second).await
    }

    async fn start_as(has_ranges: bool, has_versions: bool, second: Second) -> Self {
        let listener = TcpListener::bind(ANY).await.unwrap();
        let source = Self {
            address: listener.local_addr().unwrap(),
            asked: Arc::default(),
            has_ranges,
            has_versions,
            second,
            is_sending: Arc::default(),
        };
        let server = source.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, server.clone()));
            }
        });
        source
    }

    fn gets(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// The requests that it sent data for.
    fn served(&self) -> usize {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .filter(|asked| asked.is_served)
            .count()
    }

    /// What it was asked for first.
    fn first(&self) -> (u64, u64) {
        let first = self.asked.lock().unwrap()[0];
        (first.start, first.end)
    }
}

/// The answer that others are turned away beside, until it or its connection ends.
struct Sending(Arc<AtomicBool>);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The block that the file repeats; no power of two divides its length.
fn block() -> Vec<u8> {
    (0..100_003_u32)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 11) as u8)
        .collect()
}

async fn serve(stream: TcpStream, source: Source) -> io::Result<()> {
    let has_ranges = source.has_ranges;
    let mut stream = BufReader::new(stream);
    let block = block();
    loop {
        let (mut method, mut range, mut line) = (String::new(), None, String::new());
        while stream.read_line(&mut line).await? > 2 {
            if method.is_empty() {
                method = line.split(' ').next().unwrap_or_default().to_owned();
            }
            if let Some(text) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
                let (first, last) = text.trim().split_once('-').unwrap();
                range = Some((first.parse::<u64>().unwrap(), last.parse::<u64>().unwrap() + 1));
            }
            line.clear();
        }
        let (start, end) = range.filter(|_| has_ranges).unwrap_or((0, SIZE));
        let status = match range.filter(|_| has_ranges) {
            Some(_) => format!("206 Partial Content\r\nContent-Range: bytes {start}-{}/{SIZE}", end - 1),
            None => "200 OK".to_owned(),
        };
        let length = end - start;
        let version = if source.has_versions { "ETag: \"v\"\r\n" } else { "" };
        let head = format!("HTTP/1.1 {status}\r\n{version}Content-Length: {length}\r\n\r\n");
        if method != "GET" {
            stream.write_all(head.as_bytes()).await?;
            continue;
        }
        let is_second = source.is_sending.swap(true, Ordering::Relaxed);
        let _sending = (!is_second).then(|| Sending(Arc::clone(&source.is_sending)));
        let is_served = !is_second || matches!(source.second, Second::Served | Second::Broken);
        let at = Instant::now();
        source.asked.lock().unwrap().push(Asked {
            at,
            start,
            end,
            is_served,
        });
        let empty = |status| format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        let (answer, mut left) = match source.second {
            Second::TurnedAway if is_second => (empty("503 Service Unavailable"), 0),
            Second::Forbidden if is_second => (empty("403 Forbidden"), 0),
            Second::Ignored if is_second => return std::future::pending().await,
            Second::Broken if is_second => (head, length.min(WINDOW)),
            _ => (head, length),
        };
        stream.write_all(answer.as_bytes()).await?;
        let mut at = start;
        while left > 0 {
            let from = (at % block.len() as u64) as usize;
            let step = left.min((block.len() - from) as u64);
            stream.write_all(&block[from..from + step as usize]).await?;
            at += step;
            left -= step;
        }
        if is_second && source.second == Second::Broken {
            return Ok(());
        }
    }
}

/// Adler-32 of the file.
fn expected() -> types::Checksum {
    let mut hasher = storage::Hasher::new(&[types::ChecksumAlgorithm::Adler32]);
    let block = block();
    let mut left = SIZE as usize;
    while left > 0 {
        let step = left.min(block.len());
        hasher.update(&block[..step]);
        left -= step;
    }
    hasher.finish().remove(0)
}

async fn fetch(from: SocketAddr, streams: Streams) -> Outcome {
    fetch_under(&Budget::new(), from, streams).await
}

async fn fetch_under(budget: &Budget, from: SocketAddr, streams: Streams) -> Outcome {
    let (tls, _) = ClientTls::load(&Trust::default()).unwrap();
    let client = Client::new(ClientOptions {
        tls,
        addresses: AddressPolicy::ANY,
        connect: Duration::from_secs(30),
        first_byte: Duration::from_secs(30),
        stall: Duration::from_secs(30),
        user_agent: "test".into(),
    });
    let source = Resource {
        location: Location::parse(&format!("http://{from}/f")).unwrap(),
        access: Access::default(),
        side: Side::Source,
    };
    let store = Store::new(Arc::new(Memory::new(SIZE * 2)));
    let path = LogicalPath::parse("/f").unwrap();
    let order = Order {
        streams,
        ..Order::default()
    };
    let source: Arc<dyn CopySource> = Arc::new(RemoteSource::new(&client, &source));
    let sink = StoreSink::new(&store, &path);
    let outcome = copy(&source, &sink, &order, budget, &Progress::new()).await;
    let outcome = outcome.unwrap();
    assert_eq!((outcome.bytes, &outcome.checksums[..]), (SIZE, &[expected()][..]));
    outcome
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_line_is_filled_by_several_streams_that_nobody_asked_for() {
    let source = Source::start(true).await;
    let line = Relay::start_with_window(ANY, source.address, RTT, Some(WINDOW)).unwrap();
    // One stream cannot be faster than this.
    let alone = RTT * (SIZE / WINDOW) as u32;
    let began = Instant::now();
    let outcome = fetch(line.address(), Streams::Chosen(8)).await;
    let took = began.elapsed();
    assert!(outcome.streams > 1);
    assert_eq!(source.first(), (0, SIZE), "each request costs a round trip");
    assert!(
        took < alone,
        "{} streams: {took:?}, one takes {alone:?}",
        outcome.streams
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_begins_with_what_the_one_before_has_found() {
    let budget = Budget::new();
    let source = Source::start(true).await;
    let line = Relay::start_with_window(ANY, source.address, RTT, Some(WINDOW)).unwrap();
    // Until the second stream is asked for.
    let mut waits = Vec::new();
    for _ in 0..2 {
        source.asked.lock().unwrap().clear();
        assert!(fetch_under(&budget, line.address(), Streams::Chosen(8)).await.streams > 1);
        let asked = source.asked.lock().unwrap();
        waits.push(asked[1].at - asked[0].at);
    }
    // Before anything is known, two periods of 0.2 seconds are measured before a stream is added.
    assert!(waits[0] >= LOOKS && waits[1] < LOOKS, "{waits:?}");
    // A client that requests one stream gets one.
    assert_eq!(fetch_under(&budget, line.address(), Streams::Fixed(1)).await.streams, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn near_sources_and_those_without_ranges_are_read_on_one_stream() {
    let mut seen = Vec::new();
    // How far a source is shows in how soon it answers: on a machine that is busy for a moment, no
    // source is near.
    while seen.len() < TRIES && seen.last() != Some(&(1, 1)) {
        let source = Source::start(true).await;
        let outcome = fetch(source.address, Streams::Chosen(8)).await;
        seen.push((outcome.streams, source.gets()));
    }
    assert_eq!(seen.last(), Some(&(1, 1)), "{seen:?}");
    let source = Source::start(false).await;
    let line = Relay::start(ANY, source.address, RTT).unwrap();
    let outcome = fetch(line.address(), Streams::Chosen(8)).await;
    // Further requests show that it has no ranges.
    assert_eq!((outcome.streams, source.first()), (1, (0, SIZE)));
}

/// Pulls over a long line from a source that does not serve two at once, and gives how many streams
/// brought something.
async fn fetch_past(second: Second) -> u32 {
    let source = Source::start_with(true, second).await;
    let line = Relay::start_with_window(ANY, source.address, RTT, Some(WINDOW)).unwrap();
    let outcome = fetch(line.address(), Streams::Chosen(8)).await;
    // It was tried, beside an answer that goes on.
    assert!(source.gets() > 1);
    if second != Second::Broken {
        assert_eq!(source.served(), 1);
    }
    outcome.streams
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_turns_further_streams_away_is_read_on_one() {
    let all = tokio::join!(fetch_past(Second::TurnedAway), fetch_past(Second::Forbidden));
    assert_eq!(all, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_lets_further_streams_wait_or_breaks_them_is_read_all_the_same() {
    let (ignored, _broken) = tokio::join!(fetch_past(Second::Ignored), fetch_past(Second::Broken));
    assert_eq!(ignored, 1);
}

/// Ranges of two versions would be mixed.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_tells_no_version_is_read_by_one_request() {
    let source = Source::start_as(true, false, Second::Served).await;
    assert_eq!(fetch(source.address, Streams::Fixed(4)).await.streams, 1);
    assert_eq!(source.gets(), 1);
}
