//! A copy from a far source begins with one request for the whole file, which each block would pay
//! a round trip for, and is divided when streams are added.

mod made_up;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use made_up::MadeUp;
use net::Batch;
use remote::{GetOptions, Validator};
use storage::{Answer, Hasher};
use tokio::sync::watch;
use tokio::time::sleep;
use transfer::limits::{CHOSEN_STREAMS_BYTES_MIN, CHOSEN_STREAMS_RTT_MIN, STREAM_BLOCK_BYTES};
use transfer::{Budget, Incoming, Order, Progress, Source, SourceAbilities, SourceFacts, Streams, copy};
use types::{ByteRange, ChecksumAlgorithm, Result};

const SIZE: u64 = CHOSEN_STREAMS_BYTES_MIN + 12_345;
/// From here on, the first answer almost is_slow until another one is asked for.
const SLOWER: u64 = STREAM_BLOCK_BYTES + 4_321;
const PIECE: usize = 1 << 18;

fn byte(at: u64) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 13) as u8
}

/// The ranges that were asked for, and how many bytes of each were taken.
type Asked = Arc<Mutex<Vec<(ByteRange, u64)>>>;

struct Far {
    asked: Asked,
    count: watch::Sender<usize>,
    is_slow: bool,
}

impl Far {
    fn facts() -> SourceFacts {
        SourceFacts {
            size_bytes: Some(SIZE),
            validator: Some(Validator::Tag("\"one\"".to_owned())),
            accepts_ranges: Some(true),
            ..SourceFacts::default()
        }
    }
}

impl Source for Far {
    fn abilities(&self) -> SourceAbilities {
        SourceAbilities::default()
    }

    fn ask<'a>(&'a self, _: &'a [ChecksumAlgorithm]) -> Answer<'a, SourceFacts> {
        Box::pin(async {
            sleep(2 * CHOSEN_STREAMS_RTT_MIN).await;
            Ok(Self::facts())
        })
    }

    fn read<'a>(&'a self, options: &'a GetOptions) -> Answer<'a, Box<dyn Incoming>> {
        Box::pin(async {
            sleep(2 * CHOSEN_STREAMS_RTT_MIN).await;
            let range = options.range.unwrap_or(ByteRange::whole(SIZE));
            let number = {
                let mut asked = self.asked.lock().unwrap();
                asked.push((range, 0));
                asked.len() - 1
            };
            self.count.send_modify(|count| *count += 1);
            let others = (self.is_slow && number == 0).then(|| self.count.subscribe());
            Ok(Box::new(Sent {
                asked: Arc::clone(&self.asked),
                number,
                rest: range,
                others,
            }) as Box<dyn Incoming>)
        })
    }
}

struct Sent {
    asked: Asked,
    number: usize,
    rest: ByteRange,
    others: Option<watch::Receiver<usize>>,
}

impl Incoming for Sent {
    fn next(&mut self) -> Answer<'_, Option<Batch>> {
        Box::pin(async {
            if self.others.as_ref().is_some_and(|count| *count.borrow() < 2) {
                let wait_ms = if self.rest.start < SLOWER { 10 } else { 100 };
                sleep(Duration::from_millis(wait_ms)).await;
            }
            let piece = self.rest.take_front(PIECE as u64);
            let bytes: Vec<u8> = (piece.start..piece.end).map(byte).collect();
            self.asked.lock().unwrap()[self.number].1 += piece.len();
            Ok((!bytes.is_empty()).then(|| Batch::copied(&bytes)))
        })
    }

    fn facts(&self) -> SourceFacts {
        Far::facts()
    }
}

/// The ranges that a copy asks for, and what was taken of each. The file is complete.
async fn asked_for(is_slow: bool) -> Result<Vec<(ByteRange, u64)>> {
    let asked = Asked::default();
    let source: Arc<dyn Source> = Arc::new(Far {
        asked: Arc::clone(&asked),
        count: watch::Sender::new(0),
        is_slow,
    });
    let content: Vec<u8> = (0..SIZE).map(byte).collect();
    let mut hasher = Hasher::new(&[ChecksumAlgorithm::Adler32]);
    hasher.update(&content);
    let order = Order {
        streams: Streams::Chosen(8),
        expected: hasher.finish().pop(),
        ..Order::default()
    };
    let sink = MadeUp::default();
    copy(&source, &sink, &order, &Budget::new(), &Progress::new()).await?;
    assert!(sink.stored().unwrap() == content);
    let asked = asked.lock().unwrap().clone();
    Ok(asked)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_file_is_asked_for_at_once() {
    let asked = asked_for(false).await.unwrap();
    assert_eq!(asked[0].0, ByteRange::whole(SIZE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn added_streams_fetch_what_the_first_answer_goes_on_with() {
    let asked = asked_for(true).await.unwrap();
    assert_eq!(asked[0].0, ByteRange::whole(SIZE));
    let first_end = asked[1..].iter().map(|(range, _)| range.start).min().unwrap();
    let taken = asked[0].1;
    assert!((STREAM_BLOCK_BYTES..SIZE).contains(&first_end), "{asked:?}");
    assert!(taken >= first_end && taken < first_end + PIECE as u64, "{asked:?}");
    let others: u64 = asked[1..].iter().map(|(_, taken)| taken).sum();
    assert_eq!(others, SIZE - first_end, "each byte once: {asked:?}");
}
