//! A protocol that exists only here joins a client, and the engine copies from it, to it, and
//! between two of its files. Nothing outside of `protocol.rs` knows it.
//!
//! It answers to `s3`, the scheme that has a name and no client yet.

mod protocol;

use std::sync::Arc;
use std::time::Duration;

use net::address::AddressPolicy;
use net::tls::{ClientTls, Trust};
use protocol::MadeUp;
use remote::{Access, Client, ClientOptions, Direction, Resource};
use storage::Memory;
use transfer::limits::STREAM_BLOCK_BYTES;
use transfer::route::check_peer;
use transfer::{
    Budget, Order, Outcome, Progress, RemoteSink, RemoteSource, Sink, Source, StoreSink, StoreSource, Streams,
    Verified, copy,
};
use types::{ErrorCode, Location, LogicalPath, Side};

/// A client that speaks it. This is the one place that registers it.
fn client(made_up: &MadeUp) -> Client {
    plain_client().with_protocol(Arc::new(made_up.clone()))
}

fn plain_client() -> Client {
    let (tls, _) = ClientTls::load(&Trust::default()).unwrap();
    let second = Duration::from_secs(1);
    let options = ClientOptions {
        tls,
        addresses: AddressPolicy::ANY,
        connect: second,
        first_byte: second,
        stall: second,
        user_agent: "test".to_owned(),
    };
    Client::new(options)
}

fn resource(text: &str, side: Side) -> Resource {
    let (location, access) = (Location::parse(text).unwrap(), Access::default());
    Resource { location, access, side }
}

async fn run(source: Arc<dyn Source>, sink: &dyn Sink, streams: u32) -> Outcome {
    let order = Order {
        streams: Streams::Fixed(streams),
        ..Order::default()
    };
    let outcome = copy(&source, sink, &order, &Budget::new(), &Progress::new())
        .await
        .unwrap();
    assert!(matches!(outcome.verified, Verified::Agreed(_)), "{outcome:?}");
    outcome
}

#[tokio::test]
async fn a_made_up_protocol_is_copied_from_to_and_between() {
    let made_up = MadeUp::default();
    let client = client(&made_up);
    let content = Arc::new(b"0123456789".repeat(STREAM_BLOCK_BYTES as usize / 9));
    made_up.0.lock().unwrap().insert("/a".to_owned(), Arc::clone(&content));
    let source = |text| Arc::new(RemoteSource::new(&client, &resource(text, Side::Source)));
    let sink = |text| RemoteSink::new(&client, &resource(text, Side::Destination));
    let (store, path) = (
        endpoint::Store::new(Arc::new(Memory::new(100_000_000))),
        LogicalPath::parse("/f").unwrap(),
    );

    let pulled = run(source("s3://shelf/a"), &StoreSink::new(&store, &path), 2).await;
    assert_eq!(pulled.streams, 2);
    let stored = Arc::new(StoreSource::open(&store, &path).await.unwrap());
    run(stored, &sink("s3://shelf/b"), 1).await;
    run(source("s3://shelf/b"), &sink("s3://shelf/c"), 1).await;
    let held = made_up.0.lock().unwrap().clone();
    assert!(held["/a"] == content && held["/b"] == content && held["/c"] == content);

    let refused = client.list(&resource("s3://shelf/", Side::Source)).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::PeerUnsupported, "it has no directories");
}

#[test]
fn a_door_makes_copies_with_every_protocol_of_its_client_and_names_them_to_others() {
    let client = client(&MadeUp::default());
    let schemes = client.schemes().join(",");
    assert_eq!(schemes, "http,https,dav,davs,root,roots,s3");
    for direction in [Direction::Pull, Direction::Push] {
        let check = |client: &Client, url| check_peer(client, direction, &Location::parse(url).unwrap());
        for peer in [
            "https://a/f",
            "dav://a/f",
            "root://a//f",
            "xroots://a//f",
            "s3://shelf/a",
        ] {
            check(&client, peer).unwrap();
        }
        for peer in ["/tmp/f", "-"] {
            assert_eq!(check(&client, peer).unwrap_err().code(), ErrorCode::BadUrl, "{peer}");
        }
        let refused = check(&plain_client(), "s3://shelf/a").unwrap_err();
        let words = "the scheme is not one of http, https, dav, davs, root, roots";
        assert_eq!((refused.code(), refused.detail()), (ErrorCode::BadUrl, Some(words)));
    }
}
