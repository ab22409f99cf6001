//! Many ranges of a file in one answer: gathered by the kernel in clear text, copied over TLS.

use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use transfer::{Pieces, Progress, serve_pieces};
use types::limits::{BUNDLE_BYTES, BUNDLES_MAX};
use types::{ByteRange, ErrorCode};

use place::{StoredFile, pair};

mod place;

const FILE_BYTES: usize = 4 * BUNDLE_BYTES;

fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 11) as u8)
        .collect()
}

impl StoredFile {
    async fn new() -> Self {
        Self::with(pattern(FILE_BYTES)).await
    }

    /// Pieces with these ranges and heads, and the expected bytes.
    fn pieces(&self, ranges: &[(usize, usize)]) -> (Pieces, Vec<u8>) {
        let (mut pieces, mut all) = (Pieces::default(), Vec::new());
        for (index, (start, end)) in ranges.iter().enumerate() {
            // Some heads are longer than a pipe accepts as a whole.
            let head = format!("<{index}{}>", "-".repeat(index * 1000));
            let range = ByteRange::new(*start as u64, *end as u64);
            pieces.add(head.as_bytes(), &self.reader, range);
            all.extend_from_slice(head.as_bytes());
            all.extend_from_slice(&self.content[*start..*end]);
        }
        (pieces, all)
    }
}

/// Long, short, empty, unaligned and overlapping ranges, and one that is longer than a pipe holds.
const RANGES: [(usize, usize); 9] = [
    (0, 100_000),
    (5, 5),
    (4095, 4097),
    (99_999, 300_001),
    (FILE_BYTES - 1, FILE_BYTES),
    (7, 7 + BUNDLE_BYTES + 12_345),
    (1_000_000, 1_004_096),
    (0, 65_536),
    (FILE_BYTES - 70_000, FILE_BYTES),
];

async fn arrives_whole(place: &StoredFile) {
    let (pieces, expected) = place.pieces(&RANGES);
    let (mut near, mut far) = pair().await;
    near.queue(b"in front ");
    let progress = Progress::new();
    let sent = async {
        serve_pieces(&pieces, &mut near, &progress).await.unwrap();
        near.close().await.unwrap();
    };
    let mut arrived = Vec::new();
    let (received, ()) = tokio::join!(far.read_to_end(&mut arrived), sent);
    received.unwrap();
    assert!(
        arrived.strip_prefix(b"in front ") == Some(&expected),
        "{} bytes",
        arrived.len()
    );
    let payload: usize = RANGES.iter().map(|(start, end)| end - start).sum();
    assert_eq!(progress.moved_bytes(), payload as u64);
}

#[tokio::test]
async fn pieces_arrive_in_order_also_when_no_pipe_is_left() {
    let place = StoredFile::new().await;
    arrives_whole(&place).await;
    let mut taken: Vec<_> = (0..BUNDLES_MAX).map_while(|_| net::Bundle::take()).collect();
    assert_eq!(taken.len(), BUNDLES_MAX, "a pipe was not returned");
    assert!(net::Bundle::take().is_none());
    arrives_whole(&place).await;
    // A pipe that is returned with data in it is not reused.
    taken[0].put(b"left behind").unwrap();
    taken.clear();
    for _ in 0..2 {
        arrives_whole(&place).await;
    }
    drop_in_the_middle(&place).await;
    a_shorter_file_is_noticed(place).await;
}

/// A cancelled answer leaves nothing for the next one.
async fn drop_in_the_middle(place: &StoredFile) {
    let (pieces, _) = place.pieces(&[(0, FILE_BYTES), (0, FILE_BYTES), (0, FILE_BYTES), (0, FILE_BYTES)]);
    let (mut near, far) = pair().await;
    let progress = Progress::new();
    let serving = serve_pieces(&pieces, &mut near, &progress);
    // Without a reader it has to wait.
    let ended = tokio::time::timeout(Duration::from_millis(200), serving).await;
    assert!(ended.is_err(), "16 MiB fit into the socket");
    drop(far);
    arrives_whole(place).await;
}

async fn a_shorter_file_is_noticed(place: StoredFile) {
    let (pieces, _) = place.pieces(&[(0, 100_000), (FILE_BYTES - 100_000, FILE_BYTES)]);
    let file = std::fs::File::options()
        .write(true)
        .open(place.directory.path().join("f"));
    file.unwrap().set_len(FILE_BYTES as u64 - 50_000).unwrap();
    let (mut near, mut far) = pair().await;
    let progress = Progress::new();
    let sent = async {
        let sent = serve_pieces(&pieces, &mut near, &progress).await;
        drop(near);
        sent
    };
    let mut arrived = Vec::new();
    let (_, sent) = tokio::join!(far.read_to_end(&mut arrived), sent);
    assert_eq!(sent.unwrap_err().code(), ErrorCode::SourceChanged);
}

#[tokio::test]
async fn a_copied_range_behind_the_end_is_noticed() {
    let place = StoredFile::with(b"0123456789".to_vec()).await;
    let mut pieces = Pieces::default();
    pieces.add(b"x", &place.reader, ByteRange::new(8, 12));
    let (mut near, _far) = pair().await;
    let sent = serve_pieces(&pieces, &mut near, &Progress::new()).await;
    assert_eq!(sent.unwrap_err().code(), ErrorCode::SourceChanged);
}
