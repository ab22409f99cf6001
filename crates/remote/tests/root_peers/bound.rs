//! A file that is opened once and read over connections that are bound to its session: where
//! requests and answers go, and what happens where no connection can be bound, or one breaks.

use std::sync::{Arc, Mutex};

use remote::limits::{ROOT_BOUND_READS_MAX, ROOT_READ_BYTES};
use tokio::sync::mpsc;
use types::{ByteRange, ErrorCode};
use xroot_wire::response::PageStatusKind;
use xroot_wire::{ErrorNumber, Opcode};

use crate::script::{Heard, Peer, Server, client, data_server, pattern, read_all};

const CHUNK: u64 = ROOT_READ_BYTES;

/// What the session's own connection hands to the further ones, in the order in which they came.
#[derive(Clone)]
struct Ways {
    to: Vec<mpsc::UnboundedSender<Heard>>,
    from: Arc<Mutex<Vec<Option<mpsc::UnboundedReceiver<Heard>>>>>,
}

impl Ways {
    fn new(count: usize) -> Self {
        let (to, from): (Vec<_>, Vec<_>) = (0..count).map(|_| mpsc::unbounded_channel()).unzip();
        Self {
            to,
            from: Arc::new(Mutex::new(from.into_iter().map(Some).collect())),
        }
    }

    /// Serves the session's own connection: all reads are handed on.
    async fn own(&self, mut peer: Peer, size: u64) {
        peer.welcome(data_server()).await;
        while let Some(heard) = peer.request().await {
            match heard.opcode() {
                Opcode::Open | Opcode::Stat => peer.tell_size(&heard, size).await,
                Opcode::PageRead => {
                    let path = usize::from(heard.payload[0]);
                    self.to[path - 1].send(heard).expect("a stream of this number");
                }
                _ => peer.ok(heard.id(), &[]).await,
            }
        }
    }

    /// Becomes a further stream.
    async fn bind(&self, number: usize, peer: &mut Peer) -> mpsc::UnboundedReceiver<Heard> {
        peer.greet(data_server()).await;
        let heard = peer.expect(Opcode::Bind).await;
        assert_eq!(heard.header.block, [5; 16]);
        peer.ok(heard.id(), &[u8::try_from(number).unwrap()]).await;
        self.from.lock().unwrap()[number - 1].take().expect("bound once")
    }
}

/// A server of `content` that takes so many further streams.
async fn server(content: Vec<u8>, streams: usize) -> Server {
    let ways = Ways::new(streams);
    let content = Arc::new(content);
    Server::start(move |number, mut peer| {
        let (ways, content) = (ways.clone(), Arc::clone(&content));
        async move {
            if number == 0 {
                return ways.own(peer, content.len() as u64).await;
            }
            if number > streams {
                return refuse_to_bind(peer).await;
            }
            let mut tasks = ways.bind(number, &mut peer).await;
            while let Some(heard) = tasks.recv().await {
                let (offset, length) = heard.range();
                let part = &content[offset as usize..][..length];
                peer.pages(heard.id(), PageStatusKind::Final, offset, part).await;
            }
        }
    })
    .await
}

async fn refuse_to_bind(mut peer: Peer) {
    peer.greet(data_server()).await;
    let heard = peer.expect(Opcode::Bind).await;
    peer.refuse(heard.id(), ErrorNumber::UNSUPPORTED, "no further streams")
        .await;
}

#[tokio::test]
async fn ranges_come_on_further_streams_and_are_asked_for_on_the_first() {
    let content = pattern(2 * CHUNK as usize + 17);
    let server = server(content.clone(), 2).await;
    let (client, file) = (client(), server.file("/f"));
    let opened = client.open(&file).await.unwrap();
    assert!(opened.bind().await && opened.bind().await);
    assert!(!opened.bind().await, "a third one was taken");
    let (middle, end) = (CHUNK + 5, content.len() as u64);
    let mut front = opened.get(ByteRange::new(0, middle), false).await.unwrap();
    let mut back = opened.get(ByteRange::new(middle, end), false).await.unwrap();
    let (front, back) = tokio::join!(read_all(&mut front), read_all(&mut back));
    assert!([front.unwrap(), back.unwrap()].concat() == content);
    // A stream that has brought its range brings another one.
    let mut again = opened.get(ByteRange::new(1, 5000), false).await.unwrap();
    assert!(read_all(&mut again).await.unwrap() == content[1..5000]);
    let reads = server.heard_of(Opcode::PageRead);
    for path in [1, 2] {
        assert!(
            reads.iter().filter(|heard| heard.payload[0] == path).count() >= 1,
            "{path}"
        );
    }
    let mut ids: Vec<_> = reads.iter().map(Heard::id).collect();
    ids.sort_unstable_by_key(|id| id.0);
    ids.dedup();
    assert_eq!(ids.len(), reads.len(), "an id was used for two streams");
    // The session is good for more.
    opened.close().await;
    client.stat(&file).await.unwrap();
    let count = |opcode| server.heard_of(opcode).len();
    assert_eq!(
        (count(Opcode::Login), count(Opcode::Open), count(Opcode::Close)),
        (1, 1, 1)
    );
}

#[tokio::test]
async fn where_nothing_can_be_bound_the_first_connection_brings_all() {
    let content = pattern(CHUNK as usize + 1);
    let served = content.clone();
    let server = Server::start(move |number, mut peer| {
        let served = served.clone();
        async move {
            if number > 0 {
                return refuse_to_bind(peer).await;
            }
            peer.welcome(data_server()).await;
            peer.serve(&served).await;
        }
    })
    .await;
    let opened = client().open(&server.file("/f")).await.unwrap();
    assert!(!opened.bind().await);
    assert_eq!(opened.facts().size_bytes, Some(content.len() as u64));
    let mut download = opened.read_alone(false, Vec::new()).await.unwrap();
    assert!(read_all(&mut download).await.unwrap() == content);
    assert_eq!(server.heard_of(Opcode::Open).len(), 1);
    assert_eq!(
        opened.read_alone(false, Vec::new()).await.unwrap_err().code(),
        ErrorCode::PeerClosed
    );
    let range = ByteRange::new(0, 1);
    assert_eq!(
        opened.get(range, false).await.unwrap_err().code(),
        ErrorCode::PeerClosed
    );
}

#[tokio::test]
async fn no_more_requests_wait_for_a_further_stream_than_the_reference_server_takes() {
    let ways = Ways::new(1);
    let server = Server::start(move |number, mut peer| {
        let ways = ways.clone();
        async move {
            if number == 0 {
                return ways.own(peer, 100 * CHUNK).await;
            }
            let mut tasks = ways.bind(number, &mut peer).await;
            for _ in 0..ROOT_BOUND_READS_MAX {
                tasks.recv().await.expect("a request");
            }
            let extra = tokio::time::timeout(std::time::Duration::from_millis(200), tasks.recv()).await;
            assert!(extra.is_err(), "{extra:?}");
        }
    })
    .await;
    let opened = client().open(&server.file("/f")).await.unwrap();
    assert!(opened.bind().await);
    let mut download = opened.get(ByteRange::new(0, 100 * CHUNK), false).await.unwrap();
    let error = read_all(&mut download).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerClosed);
    assert_eq!(server.heard_of(Opcode::PageRead).len(), ROOT_BOUND_READS_MAX);
}

#[tokio::test]
async fn what_the_server_cannot_answer_on_a_stream_it_may_say_on_the_first() {
    let refused = Arc::new(tokio::sync::Notify::new());
    let server = Server::start(move |number, mut peer| {
        let refused = Arc::clone(&refused);
        async move {
            if number == 0 {
                peer.welcome(data_server()).await;
                let heard = peer.expect(Opcode::Open).await;
                peer.tell_size(&heard, CHUNK).await;
                let heard = peer.expect(Opcode::PageRead).await;
                peer.refuse(heard.id(), ErrorNumber::ARGUMENT_INVALID, "invalid path ID")
                    .await;
                refused.notify_one();
                // Until the client leaves.
                while peer.request().await.is_some() {}
                return;
            }
            let ways = Ways::new(number);
            ways.bind(number, &mut peer).await;
            refused.notified().await;
        }
    })
    .await;
    let opened = client().open(&server.file("/f")).await.unwrap();
    assert!(opened.bind().await);
    let mut download = opened.get(ByteRange::new(0, CHUNK), false).await.unwrap();
    let error = read_all(&mut download).await.unwrap_err();
    assert_eq!(error.peer_words(), Some("invalid path ID"), "{error:?}");
}
