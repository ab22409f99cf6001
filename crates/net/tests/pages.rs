//! Pages with checksums on their way out: whatever the offset, the length and the security of the
//! connection, the bytes on the wire are those of the plain encoder.

use std::time::Duration;

use net::{Batch, Frames, Outgoing, Role, Stream, Waits};
use testkit::SelfSigned;
use tokio::net::TcpStream;
use types::Side;
use xroot_wire::pages::{encode_units, encoded_bytes};

const WAIT: Duration = Duration::from_secs(10);
const HEAD: &[u8; 9] = b"the head:";

async fn clear_pair() -> (Frames, Frames) {
    let listener = net::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let near = listener.accept().await.unwrap().0;
    let near = Stream::clear(near, Role::Client, Waits::default());
    let far = Stream::clear(far, Role::Peer(Side::Source), Waits::default());
    (Frames::new(near), Frames::new(far))
}

async fn encrypted_pair() -> (Frames, Frames) {
    let made = SelfSigned::localhost().unwrap();
    let server = net::tls::ServerTls::load(&made.certificate, &made.key).unwrap();
    let trust = net::tls::Trust {
        files: vec![made.certificate.clone()],
        ..net::tls::Trust::default()
    };
    let (client, _) = net::tls::ClientTls::load(&trust).unwrap();
    let (near, far) = clear_pair().await;
    let (near, far) = tokio::join!(near.upgrade_server(&server), far.upgrade_client(&client, "localhost"));
    (near.unwrap(), far.unwrap())
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 11) as u8)
        .collect()
}

/// Fills the room as a vectored read does.
fn read_into(room: &mut Outgoing, data: &[u8]) {
    let mut rest = data;
    for mut slot in room.slots(data.len()) {
        let (front, behind) = rest.split_at(slot.len());
        slot.copy_from_slice(front);
        rest = behind;
    }
    assert!(rest.is_empty(), "{} bytes have no slot", rest.len());
}

/// Sends `data` as one message; every second buffer is filled from a batch.
async fn send(stream: &mut Stream, offset: u64, data: &[u8]) {
    let (mut rest, mut at, mut is_first) = (data, offset, true);
    stream.queue(b"before;");
    loop {
        let head: &[u8] = if is_first { HEAD } else { b"" };
        let mut room = stream.outgoing().await.unwrap().paged(at, head.len());
        let filled = rest.len().min(room.capacity());
        assert!(filled == rest.len() || (at + filled as u64).is_multiple_of(4096));
        if is_first {
            read_into(&mut room, &rest[..filled]);
        } else {
            let mut batch = Batch::copied(&rest[..filled]);
            assert_eq!(room.fill_from(&mut batch), filled);
        }
        let wire = room.close_pages(filled, head);
        assert_eq!(wire, head.len() + encoded_bytes(at, filled));
        stream.send(room, wire).await.unwrap();
        (rest, at, is_first) = (&rest[filled..], at + filled as u64, false);
        if rest.is_empty() {
            return;
        }
    }
}

async fn every_layout(mut near: Frames, mut far: Frames) {
    const CASES: [(u64, usize); 10] = [
        (0, 0),
        (0, 1),
        (0, 4096),
        (0, 4097),
        (4000, 200),
        (4095, 2),
        (2048, 2048),
        (1 << 40, 262_144),
        (4093, 700_003),
        (12_288, 1_000_000),
    ];
    let sender = async {
        for (offset, length) in CASES {
            send(&mut near.stream, offset, &pattern(length)).await;
        }
        near
    };
    let receiver = async {
        for (offset, length) in CASES {
            assert_eq!(far.head::<7>(WAIT).await.unwrap().as_ref(), Some(b"before;"));
            assert_eq!(far.head::<9>(WAIT).await.unwrap().as_ref(), Some(HEAD));
            let mut expected = Vec::new();
            encode_units(offset, &pattern(length), &mut expected);
            let came = far.small(expected.len(), expected.len()).await.unwrap();
            assert!(came == expected, "{length} bytes at {offset}");
        }
        assert_eq!(far.buffered_bytes(), 0);
    };
    let (_near, ()) = tokio::join!(sender, receiver);
}

#[tokio::test]
async fn every_layout_is_that_of_the_plain_encoder_in_clear_text() {
    let (near, far) = clear_pair().await;
    every_layout(near, far).await;
}

#[tokio::test]
async fn every_layout_is_that_of_the_plain_encoder_in_tls() {
    let (near, far) = encrypted_pair().await;
    every_layout(near, far).await;
}
