//! How answers are divided into TLS records. After the first answer in a record XrdCl overlooks the
//! rest until more data arrive, so each answer begins a record of its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use net::frames::Frames;
use net::tls::{ClientTls, Trust};
use net::{Role, Stream, Waits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use xroot_wire::request::{Expect, ReadVector, Request, VectorItem};
use xroot_wire::response::OpenReply;
use xroot_wire::{OpenOptions, ProtocolOptions, StreamId};

use crate::harness::{Raw, Server, certificate, login, open, soon};

/// Bytes of a TLS record's header, and of a TLS 1.3 record beside its payload.
const HEADER_BYTES: usize = 5;
const OVERHEAD_BYTES: usize = HEADER_BYTES + 17;

/// What a server has sent to a client, as bytes on the wire.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Vec<u8>>>);

impl Wire {
    fn forget(&self) {
        self.0.lock().unwrap().clear();
    }

    /// Payload bytes of each TLS 1.3 record.
    fn records(&self) -> Vec<usize> {
        let bytes = self.0.lock().unwrap();
        let (mut rest, mut records) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            let length = HEADER_BYTES + usize::from(u16::from_be_bytes([rest[3], rest[4]]));
            records.push(length - OVERHEAD_BYTES);
            rest = &rest[length..];
        }
        records
    }
}

/// A client over TLS that has logged in, and what it receives.
async fn listened_to(server: &Server) -> (Frames, Wire) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (between, _) = listener.accept().await.unwrap();
    let far = TcpStream::connect(server.address).await.unwrap();
    let wire = Wire::default();
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) = (between.into_split(), far.into_split());
    tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let heard = wire.clone();
    tokio::spawn(async move {
        let mut buffer = vec![0; 65536];
        while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
            heard.0.lock().unwrap().extend_from_slice(&buffer[..count]);
            if to_client.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    });
    let mut raw = Raw {
        tcp: near,
        session: Default::default(),
    };
    let options = ProtocolOptions::CAN_TLS | ProtocolOptions::WANTS_TLS;
    raw.greet(options, Expect::Login).await.ok();
    let trust = Trust {
        insecure: true,
        ..Trust::default()
    };
    let (tls, _) = ClientTls::load(&trust).unwrap();
    let stream = Stream::clear(raw.tcp, Role::Peer(types::Side::Source), Waits::default());
    let mut frames = soon(Frames::new(stream).upgrade_client(&tls, "localhost"))
        .await
        .unwrap();
    say(&mut frames, &[login(true)]).await;
    answer(&mut frames).await;
    wire.forget();
    (frames, wire)
}

/// Sends requests together.
async fn say(frames: &mut Frames, requests: &[Request<'_>]) {
    let mut bytes = Vec::new();
    for request in requests {
        request.encode(StreamId::new(3), &mut bytes);
    }
    frames.stream.queue(&bytes);
    soon(frames.stream.flush()).await.unwrap();
}

/// The status and the body of an answer.
async fn answer(frames: &mut Frames) -> (u16, Vec<u8>) {
    let head = soon(frames.head::<8>(Duration::from_secs(9))).await.unwrap().unwrap();
    let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
    let body = soon(frames.small(length, length)).await.unwrap();
    (u16::from_be_bytes([head[2], head[3]]), body)
}

#[tokio::test]
async fn each_answer_begins_a_record() {
    let server = Server::start(|settings| settings.site.tls = Some(certificate()));
    let (mut frames, wire) = listened_to(&server).await;
    say(&mut frames, &[Request::Ping, Request::Ping]).await;
    assert_eq!(answer(&mut frames).await, (0, Vec::new()));
    assert_eq!(answer(&mut frames).await, (0, Vec::new()));
    assert_eq!(wire.records(), [8, 8]);
}

#[tokio::test]
async fn each_part_of_a_vector_read_begins_a_record() {
    const LARGE: usize = 1 << 21;
    let server = Server::start(|settings| settings.site.tls = Some(certificate()));
    server.put("/f", &vec![1; LARGE]);
    let (mut frames, wire) = listened_to(&server).await;
    say(&mut frames, &[open("/data/f", OpenOptions::READ)]).await;
    let handle = OpenReply::parse(&answer(&mut frames).await.1).unwrap().handle;
    wire.forget();
    let large = xroot_wire::limits::READV_ITEM_BYTES_MAX as u32;
    let item = |length| VectorItem {
        handle,
        length,
        offset: 0,
    };
    let list = [item(large).encode(), item(5).encode()].concat();
    let vector = Request::ReadVector(ReadVector::new(0, &list).unwrap());
    say(&mut frames, &[vector, Request::Ping]).await;
    let sizes = [
        answer(&mut frames).await,
        answer(&mut frames).await,
        answer(&mut frames).await,
    ]
    .map(|(status, body)| (status, body.len()));
    assert_eq!(sizes, [(4000, large as usize + 16), (0, 5 + 16), (0, 0)]);
    let records = wire.records();
    let ends: Vec<usize> = records
        .iter()
        .scan(0, |end, record| {
            *end += record;
            Some(*end)
        })
        .collect();
    let first = large as usize + 24;
    for border in [first, first + 29, first + 37] {
        assert!(ends.contains(&border), "no record ends at {border}: {records:?}");
    }
}
