//! A long file over a connection, in clear text and encrypted: by a thread to readers that keep up, by the runtime to others.

use std::time::Duration;

use http_wire::Framing;
use net::http::Connection;
use net::tls::{ClientTls, ServerTls, Trust};
use net::{Stream, Waits};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use transfer::{Progress, serve};
use types::limits::{STEADY_BYTES_MIN, STEADY_WAIT};
use types::{ByteRange, ErrorCode, Result, Side};

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

/// Our end, encrypted, and the other one.
async fn encrypted_pair() -> (Stream, Stream) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let server = ServerTls::load(&certificate, &key).unwrap();
    let trust = Trust {
        files: vec![certificate],
        ..Trust::default()
    };
    let (client, _) = ClientTls::load(&trust).unwrap();
    let listener = net::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (near, _) = listener.accept().await.unwrap();
    let waits = Waits::default();
    let (near, far) = tokio::join!(
        Stream::accept_tls(near, &server, waits),
        Stream::connect_tls(far, &client, "localhost", Side::Source, waits)
    );
    (near.unwrap(), far.unwrap())
}

/// As [`read`], what was encrypted. Says too whether the other end took its leave.
async fn open(far: Stream, mut rests: u32) -> (Vec<u8>, bool) {
    let mut seen = Vec::new();
    let mut connection = Connection::new(far);
    let mut body = connection.body(Framing::UntilClose);
    loop {
        if rests > 0 {
            rests -= 1;
            tokio::time::sleep(3 * STEADY_WAIT).await;
        }
        match body.next().await {
            Ok(Some(batch)) => batch.slices().for_each(|slice| seen.extend_from_slice(slice)),
            Ok(None) => return (seen, true),
            Err(_) => return (seen, false),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fast_and_slow_readers_get_the_same_encrypted() {
    let place = Place::new().await;
    for rests in [0, 1, 8] {
        let (mut stream, far) = encrypted_pair().await;
        let reading = tokio::spawn(open(far, rests));
        let (range, progress) = (ByteRange::new(11, FILE_BYTES), Progress::new());
        stream.queue(b"head");
        place.send(&mut stream, range, &progress).await.unwrap();
        stream.queue(b"tail");
        stream.close().await.unwrap();
        let (seen, is_clean) = reading.await.unwrap();
        let expected = [b"head".as_slice(), &place.content[11..], b"tail"].concat();
        assert!(
            seen == expected && is_clean,
            "{rests} rests: {} bytes of {}, clean end {is_clean}",
            seen.len(),
            expected.len()
        );
        assert_eq!(progress.moved_bytes(), range.len(), "{rests} rests");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_file_that_is_cut_short_is_an_error() {
    let place = Place::new().await;
    let (mut stream, far) = encrypted_pair().await;
    let path = place.directory.path().join("f");
    let cut = async {
        // The socket is full by now, and nobody has read.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_len(1000).unwrap();
        open(far, 0).await
    };
    let progress = Progress::new();
    let sending = async {
        let sent = place.send(&mut stream, ByteRange::new(0, FILE_BYTES), &progress).await;
        drop(stream);
        sent
    };
    let (sent, (seen, is_clean)) = tokio::join!(sending, cut);
    assert_eq!(sent.unwrap_err().code(), ErrorCode::SourceChanged);
    assert_eq!(seen.len() as u64, progress.moved_bytes());
    assert!(progress.moved_bytes() < FILE_BYTES && !is_clean);
}
