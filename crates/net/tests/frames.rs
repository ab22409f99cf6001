//! Messages with lengths on a connection, in clear text and in TLS: wherever the network cuts them,
//! and whenever a reader gives up waiting, nothing is lost and nothing is taken from the next
//! message.

use std::os::fd::AsFd as _;
use std::time::Duration;

use net::listen::{Opening, listen, opening};
use net::tls::{ClientTls, ServerTls, Trust};
use net::{Frames, Role, Stream, Waits};
use testkit::SelfSigned;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use types::{ErrorCode, Side};

const WAIT: Duration = Duration::from_secs(10);

struct Site {
    server: ServerTls,
    client: ClientTls,
}

fn site() -> Site {
    let made = SelfSigned::localhost().unwrap();
    let trust = Trust {
        files: vec![made.certificate.clone()],
        ..Trust::default()
    };
    Site {
        server: ServerTls::load(&made.certificate, &made.key).unwrap(),
        client: ClientTls::load(&trust).unwrap().0,
    }
}

async fn sockets() -> (TcpStream, TcpStream) {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    far.set_nodelay(true).unwrap();
    (listener.accept().await.unwrap().0, far)
}

/// Our end, and the other.
async fn clear_pair() -> (Frames, Stream) {
    let (near, far) = sockets().await;
    let near = Stream::clear(near, Role::Client, Waits::default());
    let far = Stream::clear(far, Role::Peer(Side::Source), Waits::default());
    (Frames::new(near), far)
}

async fn encrypted_pair(site: &Site) -> (Frames, Stream) {
    let (near, far) = clear_pair().await;
    let (near, far) = tokio::join!(
        near.upgrade_server(&site.server),
        far.upgrade_client(&site.client, "localhost")
    );
    (near.unwrap(), far.unwrap())
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 11) as u8)
        .collect()
}

/// One message: a head that says how long its body is, and the body.
fn message(body: &[u8]) -> Vec<u8> {
    let mut wire = (body.len() as u64).to_be_bytes().to_vec();
    wire.extend_from_slice(body);
    wire
}

async fn say(far: &mut Stream, bytes: &[u8]) {
    far.queue(bytes);
    far.flush().await.unwrap();
}

/// Polls once and gives up if that does not do.
async fn try_once<T>(reading: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(Duration::ZERO, reading).await.ok()
}

/// What a reader that loses patience after each look has got so far.
#[derive(Default)]
struct Got {
    length: Option<u64>,
    small: Option<Vec<u8>>,
    second: Option<u64>,
    payload: Vec<u8>,
}

impl Got {
    async fn look(&mut self, frames: &mut Frames) {
        if self.length.is_none() {
            let head = try_once(frames.head::<8>(WAIT)).await;
            self.length = head.map(|head| u64::from_be_bytes(head.unwrap().unwrap()));
        }
        let Some(length) = self.length else { return };
        if self.small.is_none() {
            self.small = try_once(frames.small(length as usize, 100)).await.map(Result::unwrap);
        }
        if self.small.is_none() {
            return;
        }
        if self.second.is_none() {
            let head = frames.head_available::<8>().unwrap();
            self.second = head.map(u64::from_be_bytes);
        }
        let Some(second) = self.second else { return };
        let mut payload = frames.payload(second - self.payload.len() as u64);
        while let Some(Ok(Some(batch))) = try_once(payload.next()).await {
            self.payload.extend(batch.slices().flatten());
        }
    }

    fn is_whole(&self) -> bool {
        self.second == Some(self.payload.len() as u64)
    }
}

async fn cut_everywhere(frames: &mut Frames, far: &mut Stream) {
    let (first, second) = (pattern(23), pattern(31));
    let wire = [message(&first), message(&second)].concat();
    for cut in 0..=wire.len() {
        let mut got = Got::default();
        for part in [&wire[..cut], &wire[cut..]] {
            if part.is_empty() {
                continue;
            }
            say(far, part).await;
            frames.stream.wait_for_input(WAIT).await.unwrap();
            got.look(frames).await;
        }
        while !got.is_whole() {
            frames.wait_for_input(WAIT).await.unwrap();
            got.look(frames).await;
        }
        assert_eq!(got.small.as_ref(), Some(&first), "cut at {cut}");
        assert_eq!(got.payload, second, "cut at {cut}");
        assert_eq!(frames.buffered_bytes(), 0);
    }
}

/// A client that leaves Nagle's algorithm on sends the second half only when the first has been
/// acknowledged.
#[tokio::test]
async fn the_beginning_of_a_message_is_acknowledged_while_the_rest_is_awaited() {
    let (near, mut far) = sockets().await;
    let watched = near.as_fd().try_clone_to_owned().unwrap();
    let mut frames = Frames::new(Stream::clear(near, Role::Client, Waits::default()));
    for (begun, rest, expected) in [(b"ne", b"xt", *b"next"), (b"on", b"ce", *b"once")] {
        // As if answers had been sent for a while.
        rustix::net::sockopt::set_tcp_quickack(&watched, false).unwrap();
        far.write_all(begun).await.unwrap();
        let finishing = async {
            while !rustix::net::sockopt::tcp_quickack(&watched).unwrap() {
                tokio::task::yield_now().await;
            }
            far.write_all(rest).await.unwrap();
        };
        let both = async { tokio::join!(frames.head::<4>(WAIT), finishing) };
        let (head, ()) = tokio::time::timeout(WAIT, both).await.unwrap();
        assert_eq!(head.unwrap(), Some(expected));
    }
}

#[tokio::test]
async fn a_reader_that_gives_up_again_and_again_loses_nothing_in_clear_text() {
    let (mut frames, mut far) = clear_pair().await;
    cut_everywhere(&mut frames, &mut far).await;
}

#[tokio::test]
async fn a_reader_that_gives_up_again_and_again_loses_nothing_in_tls() {
    let (mut frames, mut far) = encrypted_pair(&site()).await;
    cut_everywhere(&mut frames, &mut far).await;
}

async fn payloads_of_all_sizes(mut frames: Frames, mut far: Stream) {
    const LENGTHS: [usize; 9] = [0, 1, 4096, 16_384, 16_385, 266_240, 300_000, 7, 3_000_001];
    let sender = tokio::spawn(async move {
        for length in LENGTHS {
            say(&mut far, &message(&pattern(length))).await;
        }
        far
    });
    for length in LENGTHS {
        let head = frames.head::<8>(WAIT).await.unwrap().unwrap();
        assert_eq!(u64::from_be_bytes(head), length as u64);
        let mut payload = frames.payload(length as u64);
        let mut whole: Vec<u8> = Vec::new();
        while let Some(batch) = payload.next().await.unwrap() {
            assert!(!batch.is_empty());
            whole.extend(batch.slices().flatten());
        }
        assert!(whole == pattern(length), "{length} bytes came changed");
    }
    assert_eq!(frames.buffered_bytes(), 0);
    sender.await.unwrap();
}

#[tokio::test]
async fn payload_ends_where_the_next_message_begins() {
    let (frames, far) = clear_pair().await;
    payloads_of_all_sizes(frames, far).await;
    let (frames, far) = encrypted_pair(&site()).await;
    payloads_of_all_sizes(frames, far).await;
    // Whatever is read with a payload, and however wrong the guess is, it is not part of it.
    for head_bytes in [4, 8, 20_000] {
        let (mut frames, far) = clear_pair().await;
        frames.expect_heads(head_bytes);
        payloads_of_all_sizes(frames, far).await;
    }
}

#[tokio::test]
async fn skipping_and_refusing_take_what_they_say() {
    let (mut frames, mut far) = clear_pair().await;
    let sender = tokio::spawn(async move {
        say(&mut far, &pattern(500_000)).await;
        say(&mut far, b"nextrest").await;
        far
    });
    let mut payload = frames.payload(400_000);
    payload.next().await.unwrap().unwrap();
    payload.skip().await.unwrap();
    assert_eq!(payload.left(), 0);
    frames.skip(100_000).await.unwrap();
    assert_eq!(frames.head::<4>(WAIT).await.unwrap().as_ref(), Some(b"next"));
    let refused = frames.small(5, 4).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::BodyTooLarge);
    assert_eq!(frames.small(4, 4).await.unwrap(), b"rest");
    drop(sender.await.unwrap());
    assert_eq!(frames.head::<4>(WAIT).await.unwrap(), None);
}

#[tokio::test]
async fn an_end_in_the_middle_is_an_error_everywhere() {
    for asked in 0..4 {
        let (mut frames, mut far) = clear_pair().await;
        say(&mut far, b"abc").await;
        far.close().await.unwrap();
        let error = match asked {
            0 => frames.head::<4>(WAIT).await.map(drop),
            1 => frames.small(4, 10).await.map(drop),
            2 => frames.skip(4).await,
            _ => loop {
                match frames.head_available::<4>() {
                    Ok(None) => tokio::task::yield_now().await,
                    other => break other.map(drop),
                }
            },
        };
        assert_eq!(error.unwrap_err().code(), ErrorCode::ClientGone, "{asked}");
    }
}

#[tokio::test]
async fn an_idle_other_end_is_given_up_after_the_time_named() {
    let (mut frames, _far) = clear_pair().await;
    let error = frames.head::<4>(Duration::from_millis(1)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::BodyStalled);
}

/// Sends a byte now and then, each long before the stall time.
async fn drip(far: &mut Stream) {
    loop {
        // Our end may have left already.
        far.queue(b"x");
        let _ = far.flush().await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_head_or_small_body_that_drips_is_given_up() {
    let (mut frames, mut far) = clear_pair().await;
    frames.stream.set_stall(Duration::from_millis(300));
    let late = tokio::select! {
        head = frames.head::<4000>(WAIT) => head.map(drop),
        () = drip(&mut far) => unreachable!("it does not end"),
    };
    assert_eq!(late.unwrap_err().code(), ErrorCode::BodyStalled);
    let late = tokio::select! {
        body = frames.small(4000, 4000) => body.map(drop),
        () = drip(&mut far) => unreachable!("it does not end"),
    };
    assert_eq!(late.unwrap_err().code(), ErrorCode::BodyStalled);
}

#[tokio::test]
async fn a_connection_changes_to_tls_behind_its_first_messages() {
    let site = site();
    let (mut near, far) = clear_pair().await;
    let server = async {
        assert_eq!(near.head::<4>(WAIT).await.unwrap().as_ref(), Some(b"plea"));
        near.stream.queue(b"now!");
        let mut near = near.upgrade_server(&site.server).await.unwrap();
        let whole = near.small(100_000, 100_000).await.unwrap();
        near.stream.queue(&whole);
        near.stream.flush().await.unwrap();
        near.stream.security()
    };
    let client = async {
        let mut far = Frames::new(far);
        far.stream.queue(b"plea");
        far.stream.flush().await.unwrap();
        assert_eq!(far.head::<4>(WAIT).await.unwrap().as_ref(), Some(b"now!"));
        let mut far = far.upgrade_client(&site.client, "localhost").await.unwrap();
        far.stream.queue(&pattern(100_000));
        far.stream.flush().await.unwrap();
        far.small(100_000, 100_000).await.unwrap()
    };
    let (security, back) = tokio::join!(server, client);
    assert_eq!(security, "TLSv1.3");
    assert!(back == pattern(100_000));
}

#[tokio::test]
async fn clear_text_in_front_of_the_handshake_is_refused() {
    let site = site();
    let (mut near, mut far) = clear_pair().await;
    say(&mut far, b"pleaextra").await;
    near.head::<4>(WAIT).await.unwrap();
    let error = near.upgrade_server(&site.server).await.unwrap_err();
    assert!(error.public().contains("clear text"), "{error}");

    let (mut near, far) = clear_pair().await;
    near.stream.queue(b"now!extra");
    near.stream.flush().await.unwrap();
    let mut far = Frames::new(far);
    far.head::<4>(WAIT).await.unwrap();
    let error = far.upgrade_client(&site.client, "localhost").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerTlsFailed);
}

#[tokio::test]
async fn an_upgrade_to_a_server_with_another_name_fails() {
    let site = site();
    let (near, far) = clear_pair().await;
    let (server, client) = tokio::join!(
        near.upgrade_server(&site.server),
        far.upgrade_client(&site.client, "elsewhere.example.org")
    );
    assert_eq!(client.unwrap_err().code(), ErrorCode::PeerTlsFailed);
    assert!(server.is_err());
}

#[tokio::test]
async fn the_first_byte_tells_protocols_apart_and_stays_where_it_is() {
    let cases: [(&[u8], Opening); 4] = [
        (b"GET / HTTP/1.1\r\n", Opening::Text),
        (&[22, 3, 1], Opening::Tls),
        (&[0, 0, 0, 0, 0, 0], Opening::Zero),
        (&[0], Opening::Zero),
    ];
    for (bytes, expected) in cases {
        let (near, mut far) = sockets().await;
        far.write_all(bytes).await.unwrap();
        assert_eq!(opening(&near, WAIT).await.unwrap(), expected);
        let mut frames = Frames::new(Stream::clear(near, Role::Client, Waits::default()));
        assert_eq!(frames.small(bytes.len(), 100).await.unwrap(), bytes);
    }
    let (near, far) = sockets().await;
    let silent = opening(&near, Duration::from_millis(1)).await.unwrap_err();
    assert_eq!(silent.code(), ErrorCode::BodyStalled);
    drop(far);
    assert_eq!(opening(&near, WAIT).await.unwrap_err().code(), ErrorCode::ClientGone);
}
