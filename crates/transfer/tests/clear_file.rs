//! A file over a connection in clear text: by a thread to readers that keep up, by the runtime to others.

use std::time::Duration;

use net::Stream;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use transfer::{Progress, serve};
use types::limits::{STEADY_BYTES_MIN, STEADY_WAIT};
use types::{ByteRange, ErrorCode, Result};

use place::{Place, pair};

mod place;

const FILE_BYTES: u64 = 3 * STEADY_BYTES_MIN + 4321;

impl Place {
    async fn new() -> Self {
        Self::with((0..FILE_BYTES).map(|index| (index / 5 % 253) as u8).collect()).await
    }

    async fn send(&self, stream: &mut Stream, range: ByteRange, progress: &Progress) -> Result<()> {
        serve(&self.store, &self.reader, range, stream, None, progress).await
    }
}

/// Reads to the end, and rests so often in between, each time longer than a thread waits.
async fn read(mut far: TcpStream, mut rests: u32) -> Vec<u8> {
    let mut seen = Vec::new();
    let mut room = vec![0; 1 << 20];
    loop {
        if rests > 0 {
            rests -= 1;
            tokio::time::sleep(3 * STEADY_WAIT).await;
        }
        match far.read(&mut room).await {
            Ok(0) | Err(_) => return seen,
            Ok(count) => seen.extend_from_slice(&room[..count]),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fast_and_slow_readers_get_the_same() {
    let place = Place::new().await;
    for rests in [0, 1, 8] {
        let (mut stream, far) = pair().await;
        let reading = tokio::spawn(read(far, rests));
        let (range, progress) = (ByteRange::new(11, FILE_BYTES), Progress::new());
        stream.queue(b"head");
        place.send(&mut stream, range, &progress).await.unwrap();
        stream.queue(b"tail");
        stream.close().await.unwrap();
        let seen = reading.await.unwrap();
        let expected = [b"head".as_slice(), &place.content[11..], b"tail"].concat();
        assert!(
            seen == expected,
            "{rests} rests: {} bytes of {}",
            seen.len(),
            expected.len()
        );
        assert_eq!(progress.moved_bytes(), range.len(), "{rests} rests");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_cut_short_is_an_error() {
    let place = Place::new().await;
    let (mut stream, far) = pair().await;
    let path = place.directory.path().join("f");
    let cut = async {
        // The socket is full by now, and nobody has read.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_len(1000).unwrap();
        read(far, 0).await
    };
    let progress = Progress::new();
    let range = ByteRange::new(0, FILE_BYTES);
    let (sent, seen) = tokio::join!(
        async {
            let sent = place.send(&mut stream, range, &progress).await;
            drop(stream);
            sent
        },
        cut
    );
    assert_eq!(sent.unwrap_err().code(), ErrorCode::SourceChanged);
    assert_eq!(seen.len() as u64, progress.moved_bytes());
    assert!(progress.moved_bytes() < FILE_BYTES);
}
