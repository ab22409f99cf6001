//! Sends a long file in clear text and encrypted: from a thread to readers that keep up, from the
//! runtime to others.

use std::time::Duration;

use http_wire::Framing;
use net::http::Connection;
use net::tls::{ClientTls, ServerTls, Trust};
use net::{Role, Stream, Waits};
use testkit::SelfSigned;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use transfer::{Progress, serve};
use types::limits::{STEADY_BYTES_MIN, STEADY_WAIT};
use types::{ByteRange, ErrorCode, Result, Side};

use place::{StoredFile, pair};

mod place;

const FILE_BYTES: u64 = 3 * STEADY_BYTES_MIN + 4321;

impl StoredFile {
    async fn new() -> Self {
        Self::with((0..FILE_BYTES).map(|index| (index / 5 % 253) as u8).collect()).await
    }

    async fn send(&self, stream: &mut Stream, range: ByteRange, progress: &Progress) -> Result<()> {
        serve(self.reader.as_ref(), range, stream, None, progress).await
    }
}

/// The other end of a connection.
enum Far {
    Clear(TcpStream),
    Encrypted(Stream),
}

/// The data received at the other end.
struct Seen {
    bytes: Vec<u8>,
    /// Whether TLS announced the end; `None` in clear text.
    is_whole: Option<bool>,
}

impl Far {
    /// Reads to the end, with this number of pauses, each longer than a thread waits.
    async fn read(self, rests: u32) -> Seen {
        let mut bytes = Vec::new();
        let mut rests = (0..rests).map(|_| tokio::time::sleep(STEADY_WAIT * 3 / 2));
        let mut rest = async || {
            if let Some(rest) = rests.next() {
                rest.await
            }
        };
        let is_whole = match self {
            Self::Clear(mut far) => loop {
                rest().await;
                let mut room = vec![0; 1 << 20];
                match far.read(&mut room).await {
                    Ok(0) | Err(_) => break None,
                    Ok(count) => bytes.extend_from_slice(&room[..count]),
                }
            },
            Self::Encrypted(far) => {
                let mut connection = Connection::new(far);
                let mut body = connection.body(Framing::UntilClose);
                loop {
                    rest().await;
                    match body.next().await {
                        Ok(Some(batch)) => batch.slices().for_each(|slice| bytes.extend_from_slice(slice)),
                        end => break Some(end.is_ok()),
                    }
                }
            }
        };
        Seen { bytes, is_whole }
    }
}

async fn clear_pair() -> (Stream, Far) {
    let (near, far) = pair().await;
    (near, Far::Clear(far))
}

async fn encrypted_pair() -> (Stream, Far) {
    let made = SelfSigned::localhost().unwrap();
    let server = ServerTls::load(&made.certificate, &made.key).unwrap();
    let trust = Trust {
        files: vec![made.certificate.clone()],
        ..Trust::default()
    };
    let (client, _) = ClientTls::load(&trust).unwrap();
    let (near, far) = pair().await;
    let far = Stream::clear(far, Role::Peer(Side::Source), Waits::default());
    let (near, far) = tokio::join!(near.upgrade_server(&server), far.upgrade_client(&client, "localhost"));
    (near.unwrap(), Far::Encrypted(far.unwrap()))
}

async fn reader_gets_all(place: &StoredFile, mut stream: Stream, far: Far, rests: u32) {
    let reading = tokio::spawn(far.read(rests));
    let (range, progress) = (ByteRange::new(11, FILE_BYTES), Progress::new());
    stream.queue(b"head");
    place.send(&mut stream, range, &progress).await.unwrap();
    stream.queue(b"tail");
    stream.close().await.unwrap();
    let seen = reading.await.unwrap();
    let expected = [b"head".as_slice(), &place.content[11..], b"tail"].concat();
    assert!(
        seen.bytes == expected,
        "{rests} rests: {} bytes of {}",
        seen.bytes.len(),
        expected.len()
    );
    assert_ne!(seen.is_whole, Some(false), "{rests} rests");
    assert_eq!(progress.moved_bytes(), range.len(), "{rests} rests");
}

async fn file_is_cut_short(mut stream: Stream, far: Far) {
    let place = StoredFile::new().await;
    let path = place.directory.path().join("f");
    let cut = async {
        // By now the socket is full.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_len(1000).unwrap();
        far.read(0).await
    };
    let progress = Progress::new();
    let sending = async {
        let sent = place.send(&mut stream, ByteRange::new(0, FILE_BYTES), &progress).await;
        drop(stream);
        sent
    };
    let (sent, seen) = tokio::join!(sending, cut);
    assert_eq!(sent.unwrap_err().code(), ErrorCode::SourceChanged);
    assert_eq!(seen.bytes.len() as u64, progress.moved_bytes());
    assert!(progress.moved_bytes() < FILE_BYTES);
    assert_ne!(seen.is_whole, Some(true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fast_and_slow_readers_get_the_same() {
    let place = StoredFile::new().await;
    for rests in [0, 1, 3] {
        let (stream, far) = clear_pair().await;
        reader_gets_all(&place, stream, far, rests).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fast_and_slow_readers_get_the_same_encrypted() {
    let place = StoredFile::new().await;
    for rests in [0, 1, 3] {
        let (stream, far) = encrypted_pair().await;
        reader_gets_all(&place, stream, far, rests).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_cut_short_is_an_error() {
    let (stream, far) = clear_pair().await;
    file_is_cut_short(stream, far).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_file_that_is_cut_short_is_an_error() {
    let (stream, far) = encrypted_pair().await;
    file_is_cut_short(stream, far).await;
}
