//! Copies into sinks that take data in any order: from a source that breaks (resuming, restarting,
//! giving up), from a store, resumed, and verified.

mod made_up;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use endpoint::Store;
use made_up::MadeUp;
use net::Batch;
use net::address::AddressPolicy;
use net::tls::{ClientTls, Trust};
use remote::{Access, Client, ClientOptions, Resource};
use storage::{Memory, Overwrite, UploadOptions};
use tokio::io::AsyncReadExt as _;
use transfer::limits::STREAM_BLOCK_BYTES;
use transfer::{
    Budget, InputSource, Order, Outcome, OutputSink, Progress, RemoteSource, Sink, StoreSink, StoreSource, Streams,
    Verified, copy,
};
use types::{ByteRange, Checksum, ErrorCode, Location, LogicalPath, Result, Side};

const SIZE: usize = 1_000_000;

fn content(version: u8) -> Vec<u8> {
    (0..SIZE)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 9) as u8 ^ version)
        .collect()
}

/// How the source behaves.
#[derive(Clone)]
struct Script {
    /// The number of GET answers, from the first, that break half-way.
    breaks: usize,
    /// Whether ranges are supported.
    ranges: bool,
    /// Whether a validator is sent.
    tagged: bool,
    /// Whether the file changes after the first break.
    changes: bool,
}

/// An HTTP source with scripted behaviour; records the requested ranges.
struct Source {
    port: u16,
    asked: Arc<Mutex<Vec<Option<usize>>>>,
}

impl Source {
    fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        // Ends with the test's last connection.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, seen) = (script.clone(), seen.clone());
                std::thread::spawn(move || while answer(&stream, &script, &seen) {});
            }
        });
        Self { port, asked }
    }

    fn asked(&self) -> Vec<Option<usize>> {
        self.asked.lock().unwrap().clone()
    }
}

/// Answers one request; false when the connection is to be closed.
fn answer(mut stream: &TcpStream, script: &Script, asked: &Mutex<Vec<Option<usize>>>) -> bool {
    let (mut method, mut from, mut line) = (String::new(), None, String::new());
    let mut reader = BufReader::new(stream);
    while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
        if method.is_empty() {
            method = line.split(' ').next().unwrap_or_default().to_owned();
        }
        if let Some(range) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            from = range.split('-').next().and_then(|first| first.parse::<usize>().ok());
        }
        line.clear();
    }
    if method.is_empty() {
        return false;
    }
    let mut broken = false;
    let mut version = 0;
    if method == "GET" {
        let mut asked = asked.lock().unwrap();
        broken = asked.len() < script.breaks;
        version = u8::from(script.changes && !asked.is_empty());
        asked.push(from);
    } else if script.changes {
        version = u8::from(!asked.lock().unwrap().is_empty());
    }
    let from = from.filter(|_| script.ranges).unwrap_or(0);
    let body = &content(version)[from..];
    let tag = if script.tagged {
        format!("ETag: \"v{version}\"\r\n")
    } else {
        String::new()
    };
    let part = match from {
        0 => "200 OK\r\n".to_owned(),
        from => format!(
            "206 Partial Content\r\nContent-Range: bytes {from}-{}/{SIZE}\r\n",
            SIZE - 1
        ),
    };
    let head = format!("HTTP/1.1 {part}{tag}Content-Length: {}\r\n\r\n", body.len());
    let body = match method.as_str() {
        "GET" if broken => &body[..body.len() / 2],
        "GET" => body,
        _ => &[],
    };
    stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(body))
        .is_ok()
        && !broken
}

/// A sink of each kind, with its contents.
enum To {
    Store(Store),
    MadeUp(MadeUp),
}

impl To {
    fn each() -> [Self; 2] {
        [
            Self::Store(Store::new(Arc::new(Memory::new(100_000_000)))),
            Self::MadeUp(MadeUp::default()),
        ]
    }

    fn sink(&self) -> Box<dyn Sink> {
        match self {
            Self::Store(store) => Box::new(StoreSink::new(store, &path())),
            Self::MadeUp(made_up) => Box::new(made_up.clone()),
        }
    }

    async fn stored(&self) -> Option<Vec<u8>> {
        match self {
            Self::Store(store) => read(store).await,
            Self::MadeUp(made_up) => made_up.stored(),
        }
    }
}

fn path() -> LogicalPath {
    LogicalPath::parse("/f").unwrap()
}

async fn read(store: &Store) -> Option<Vec<u8>> {
    let reader = store.open(&path()).await.ok()?;
    let mut bytes = Vec::new();
    loop {
        let rest = ByteRange::new(bytes.len() as u64, u64::MAX);
        let batch = reader.read_batch(rest).await.unwrap();
        if batch.is_empty() {
            break;
        }
        batch.append_to(&mut bytes);
    }
    Some(bytes)
}

async fn fetch(source: &Source, order: &Order, to: &To) -> (Result<Outcome>, Option<Vec<u8>>, Progress) {
    let progress = Progress::new();
    let outcome = fetch_counted(source, order, to, &progress).await;
    (outcome, to.stored().await, progress)
}

async fn fetch_counted(source: &Source, order: &Order, to: &To, progress: &Progress) -> Result<Outcome> {
    let (tls, _) = ClientTls::load(&Trust::default()).unwrap();
    let client = Client::new(ClientOptions {
        tls,
        addresses: AddressPolicy::ANY,
        connect: Duration::from_secs(10),
        first_byte: Duration::from_secs(10),
        stall: Duration::from_secs(10),
        user_agent: "test".into(),
    });
    let location = Location::parse(&format!("http://127.0.0.1:{}/f", source.port)).unwrap();
    let file = Resource {
        location,
        access: Access::default(),
        side: Side::Source,
    };
    let source: Arc<dyn transfer::Source> = Arc::new(RemoteSource::new(&client, &file));
    copy(&source, to.sink().as_ref(), order, &Budget::new(), progress).await
}

fn order() -> Order {
    Order {
        attempts: 3,
        ..Order::default()
    }
}

#[tokio::test]
async fn only_the_rest_is_fetched_while_the_validator_holds() {
    for to in To::each() {
        let source = Source::start(Script {
            breaks: 2,
            ranges: true,
            tagged: true,
            changes: false,
        });
        let (outcome, stored, progress) = fetch(&source, &order(), &to).await;
        assert_eq!(outcome.unwrap().resumed, 2);
        assert!(stored.unwrap() == content(0));
        assert_eq!(source.asked(), [None, Some(SIZE / 2), Some(SIZE / 2 + SIZE / 4)]);
        assert_eq!(progress.moved_bytes(), SIZE as u64);
    }
}

#[tokio::test]
async fn without_ranges_or_validator_all_of_it_is_fetched_again() {
    for to in To::each() {
        for (ranges, tagged) in [(false, true), (true, false)] {
            let source = Source::start(Script {
                breaks: 1,
                ranges,
                tagged,
                changes: false,
            });
            let (outcome, stored, progress) = fetch(&source, &order(), &to).await;
            assert_eq!(outcome.unwrap().bytes, SIZE as u64);
            assert!(stored.unwrap() == content(0));
            assert_eq!(source.asked().last(), Some(&None));
            assert_eq!(progress.moved_bytes(), SIZE as u64);
        }
    }
}

#[tokio::test]
async fn a_source_that_always_breaks_is_given_up_for_the_reason_that_it_broke() {
    for to in To::each() {
        for (ranges, tagged) in [(false, true), (false, false)] {
            let source = Source::start(Script {
                breaks: usize::MAX,
                ranges,
                tagged,
                changes: false,
            });
            let (outcome, stored, _) = fetch(&source, &order(), &to).await;
            let error = outcome.unwrap_err();
            assert_eq!(
                (error.code(), error.side()),
                (ErrorCode::PeerClosed, Side::Source),
                "{error}"
            );
            assert!(stored.is_none(), "there must be no file");
            assert!(source.asked().len() <= 4, "{:?}", source.asked());
        }
    }
}

#[tokio::test]
async fn a_source_that_changed_is_fetched_from_the_start_once() {
    for to in To::each() {
        let source = Source::start(Script {
            breaks: 1,
            ranges: false,
            tagged: true,
            changes: true,
        });
        let (outcome, stored, _) = fetch(&source, &order(), &to).await;
        assert_eq!(outcome.unwrap().bytes, SIZE as u64);
        assert!(stored.unwrap() == content(1), "a mixture of two files");
    }
}

#[tokio::test]
async fn several_streams_fall_back_to_one_where_there_are_no_ranges() {
    for to in To::each() {
        let source = Source::start(Script {
            breaks: 0,
            ranges: false,
            tagged: true,
            changes: false,
        });
        let many = Order {
            streams: Streams::Fixed(4),
            ..order()
        };
        let (outcome, stored, _) = fetch(&source, &many, &to).await;
        assert_eq!(outcome.unwrap().streams, 1);
        assert!(stored.unwrap() == content(0));
    }
}

/// A file in a store, as a source.
async fn stored_source(content: &[u8]) -> (Store, Arc<dyn transfer::Source>) {
    let store = Store::new(Arc::new(Memory::new(100_000_000)));
    let upload = store.create(&path(), &UploadOptions::default()).await.unwrap();
    for (index, piece) in content.chunks(100_000).enumerate() {
        let offset = index as u64 * 100_000;
        upload.write(Batch::copied(piece), offset).await.unwrap();
    }
    let facts = storage::CommitFacts {
        size_bytes: content.len() as u64,
        ..storage::CommitFacts::default()
    };
    store.commit(&upload, facts).await.unwrap();
    let source = StoreSource::open(&store, &path()).await.unwrap();
    (store, Arc::new(source))
}

async fn send(source: &Arc<dyn transfer::Source>, to: &To, order: &Order) -> Result<Outcome> {
    copy(source, to.sink().as_ref(), order, &Budget::new(), &Progress::new()).await
}

#[tokio::test]
async fn a_file_of_a_store_is_sent_compared_and_not_replaced_against_the_order() {
    for to in To::each() {
        let (store, source) = stored_source(&content(0)).await;
        let outcome = send(&source, &to, &order()).await.unwrap();
        assert!(!outcome.replaced && outcome.bytes == SIZE as u64);
        if let To::MadeUp(_) = &to {
            assert!(matches!(outcome.verified, Verified::Agreed(_)), "the sink is verified");
        }
        assert!(to.stored().await.unwrap() == content(0));
        assert_eq!(store.stored_checksums(&path()).await.unwrap(), outcome.checksums);
        let refuse = Order {
            overwrite: Overwrite::Refuse,
            ..order()
        };
        let error = send(&source, &to, &refuse).await.unwrap_err();
        assert!(matches!(error.code(), ErrorCode::Exists | ErrorCode::PeerExists));
        assert!(send(&source, &to, &order()).await.unwrap().replaced);
    }
}

#[tokio::test]
async fn several_streams_bring_a_long_file_to_every_sink() {
    let long: Vec<u8> = content(0).repeat(2 * STREAM_BLOCK_BYTES as usize / SIZE + 1);
    let (_store, source) = stored_source(&long).await;
    let many = Order {
        streams: Streams::Fixed(4),
        ..order()
    };
    let to = To::MadeUp(MadeUp::default());
    assert_eq!(send(&source, &to, &many).await.unwrap().streams, 3);
    assert!(to.stored().await.unwrap() == long);
}

#[tokio::test]
async fn another_copy_resumes_an_interrupted_one() {
    let source = Source::start(Script {
        breaks: 1,
        ranges: true,
        tagged: true,
        changes: false,
    });
    let to = To::MadeUp(MadeUp::default());
    let (order, progress) = (order(), Progress::new());
    let first_half = async {
        while progress.moved_bytes() < SIZE as u64 / 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        ended = fetch_counted(&source, &order, &to, &progress) => panic!("{ended:?}"),
        () = first_half => {}
    }
    assert!(to.stored().await.is_none());
    let (outcome, stored, progress) = fetch(&source, &order, &to).await;
    assert_eq!((outcome.unwrap().resumed, progress.moved_bytes()), (1, SIZE as u64));
    assert!(stored.unwrap() == content(0));
    assert_eq!(source.asked(), [None, Some(SIZE / 2)]);
}

#[tokio::test]
async fn a_file_that_differs_from_the_expected_or_the_sent_one_is_removed() {
    for to in To::each() {
        let source = Source::start(Script {
            breaks: 0,
            ranges: true,
            tagged: true,
            changes: false,
        });
        let wrong = Order {
            expected: Some(Checksum::adler32(7)),
            ..order()
        };
        let (outcome, stored, _) = fetch(&source, &wrong, &to).await;
        let error = outcome.unwrap_err();
        assert_eq!(
            (error.code(), error.side()),
            (ErrorCode::ChecksumMismatch, Side::Source)
        );
        assert!(stored.is_none());
    }
    let made_up = MadeUp::default();
    made_up.shelf().spoils = true;
    let (_store, source) = stored_source(&content(0)).await;
    let to = To::MadeUp(made_up);
    let error = send(&source, &to, &order()).await.unwrap_err();
    assert_eq!(
        (error.code(), error.side()),
        (ErrorCode::ChecksumMismatch, Side::Destination)
    );
    assert!(to.stored().await.is_none(), "it was removed");
}

#[tokio::test]
async fn the_input_and_output_of_a_program_are_a_source_and_a_sink() {
    for to in To::each() {
        let source: Arc<dyn transfer::Source> = Arc::new(InputSource::new(std::io::Cursor::new(content(0))));
        let once = Order { attempts: 1, ..order() };
        assert_eq!(send(&source, &to, &once).await.unwrap().bytes, SIZE as u64);
        assert!(to.stored().await.unwrap() == content(0));
        assert!(send(&source, &to, &once).await.is_err(), "the input is used up");
    }
    let (near, mut far) = tokio::io::duplex(2 * SIZE);
    let (_store, source) = stored_source(&content(0)).await;
    let sink = OutputSink::new(near);
    let outcome = copy(&source, &sink, &order(), &Budget::new(), &Progress::new()).await;
    assert_eq!(outcome.unwrap().bytes, SIZE as u64);
    let mut written = Vec::new();
    far.read_to_end(&mut written).await.unwrap();
    assert!(written == content(0));
}
