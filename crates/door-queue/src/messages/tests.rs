//! The listener, with frames written by hand and messages from a catalog.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use catalog::Catalog;
use credentials::{CertificateIssuer, Credential, Principal, VerifiedCertificate};
use endpoint::{Gate, RequestLog, RequestRecord};
use http_server::Server;
use identity::Authenticator;
use net::listen::Acceptor;
use net::{Role, Stream, Waits};
use queue::messages::{Feed, FeedSettings, Kind, LinkFacts};
use serde_json::Value;
use stomp_wire::server::refusals;
use stomp_wire::{Command, Decoded, Frame, Version, decode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::admission::Admission;
use super::connection::Connection;
use super::*;
use crate::limits::{ADDRESS_SUBSCRIBERS_MAX, TOPIC_BYTES_MAX};
use crate::rights::{Level, Levels, Rights};
use crate::settings::now_ms;

struct NoLog;

impl RequestLog for NoLog {
    fn request(&self, _record: &RequestRecord) {}
}

struct Client {
    tcp: TcpStream,
    input: Vec<u8>,
}

impl Client {
    async fn say(&mut self, text: &str) {
        self.tcp.write_all(text.as_bytes()).await.unwrap();
    }

    /// The next frame; `None` at the end.
    async fn hear(&mut self) -> Option<Frame> {
        loop {
            match decode(&self.input, Version::V12) {
                Ok(Decoded::Frame(frame, count)) => {
                    self.input.drain(..count);
                    return Some(frame);
                }
                Ok(Decoded::Beat(count)) => drop(self.input.drain(..count)),
                Ok(Decoded::Partial) => match self.tcp.read_buf(&mut self.input).await {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => {}
                },
                Err(malformed) => panic!("{malformed}"),
            }
        }
    }
}

struct House {
    _directory: tempfile::TempDir,
    catalog: Catalog,
    topics: Topics,
    listener: Listener,
    address: SocketAddr,
}

async fn house() -> House {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap();
    let settings = FeedSettings {
        endpoint: "fts.example".to_owned(),
        retries: 3,
    };
    let topics = Topics::new(Feed::new(catalog.clone(), settings));
    let subscribers = Subscribers {
        passwords: vec![Password::parse("u:p").unwrap()],
        ..Subscribers::default()
    };
    let server = Server::new("test", Arc::new(NoLog));
    let listener = Listener::new(server, topics.clone(), subscribers);
    let socket = net::listen::listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    let acceptor = Acceptor::new(socket.into_std().unwrap()).unwrap();
    let (accepting, following) = (listener.clone(), topics.clone());
    tokio::spawn(async move { accepting.accept(acceptor).await });
    tokio::spawn(async move { following.follow().await });
    House {
        _directory: directory,
        catalog,
        topics,
        listener,
        address,
    }
}

impl House {
    async fn client(&self) -> Client {
        Client {
            tcp: TcpStream::connect(self.address).await.unwrap(),
            input: Vec::new(),
        }
    }

    /// A client that gets messages about links, and subscribes as Rucio's receiver does.
    async fn subscriber(&self) -> Client {
        let mut client = self.client().await;
        client
            .say("STOMP\naccept-version:1.2\nhost:h\nlogin:u\npasscode:p\n\n\0")
            .await;
        assert_eq!(client.hear().await.unwrap().command, Command::Connected);
        let topic = Kind::QueueState.topic();
        let subscribe = format!("SUBSCRIBE\nid:rucio\nack:auto\nreceipt:1\ndestination:/topic/{topic}\n\n\0");
        client.say(&subscribe).await;
        assert_eq!(client.hear().await.unwrap().header("receipt-id"), Some("1"));
        client
    }

    /// Decisions about links, with so many bytes of rationale.
    async fn decide(&self, count: u32, bytes: usize) {
        let decision = |limit| LinkFacts {
            limit,
            rationale: "x".repeat(bytes),
            ..LinkFacts::default()
        };
        let decisions = (0..count).map(|limit| serde_json::to_value(decision(limit)).unwrap());
        self.catalog.put_decisions(decisions.collect(), 5).await.unwrap();
    }
}

fn connections(message: &Frame) -> u64 {
    let body: Value = serde_json::from_slice(&message.body).unwrap();
    body["connections"].as_u64().unwrap()
}

#[tokio::test]
async fn a_subscriber_gets_what_happens_after_it_came_and_no_other_topic() {
    let house = house().await;
    house.decide(1, 1).await;
    let mut client = house.subscriber().await;
    house.decide(3, 1).await;
    for number in 0..3 {
        let message = client.hear().await.unwrap();
        assert_eq!(message.command, Command::Message);
        assert_eq!(message.header("subscription"), Some("rucio"));
        assert_eq!(
            message.header("destination"),
            Some("/topic/transfer.fts_monitoring_queue_state")
        );
        assert!(message.header("message-id").is_some() && message.header("ack").is_none());
        assert_eq!(connections(&message), number);
    }
    let other = Kind::Complete.topic();
    client.say("UNSUBSCRIBE\nid:rucio\n\n\0").await;
    client
        .say(&format!("SUBSCRIBE\nid:2\nreceipt:2\ndestination:/topic/{other}\n\n\0"))
        .await;
    assert_eq!(client.hear().await.unwrap().header("receipt-id"), Some("2"));
    house.decide(1, 1).await;
    client.say("DISCONNECT\nreceipt:9\n\n\0").await;
    assert_eq!(client.hear().await.unwrap().header("receipt-id"), Some("9"));
    assert!(client.hear().await.is_none());
    drop(client);
    // The next one misses nothing although reading had stopped.
    let mut client = house.subscriber().await;
    house.decide(1, 1).await;
    assert_eq!(connections(&client.hear().await.unwrap()), 0);
    drop(client);
    house.listener.shut_down(Duration::from_secs(5)).await;
    assert_eq!(house.topics.subscribers(), 0);
}

#[tokio::test]
async fn a_wrong_password_a_huge_frame_and_other_protocols_are_refused() {
    let house = house().await;
    let huge = format!("CONNECT\nlogin:{}", "x".repeat(100_000));
    let body = format!("CONNECT\ncontent-length:{}\n\n", usize::MAX);
    let wrong = [
        "CONNECT\nlogin:u\npasscode:x\n\n\0",
        "CONNECT\n\n\0",
        "GET / HTTP/1.1\r\n\r\n",
        &huge,
        &body,
    ];
    for words in wrong {
        let mut client = house.client().await;
        let _ = client.tcp.write_all(words.as_bytes()).await;
        assert_eq!(client.hear().await.unwrap().command, Command::Error, "{}", &words[..10]);
        assert!(client.hear().await.is_none());
    }
    let mut client = house.client().await;
    client.say("SUBSCRIBE\ndestination:/topic/a\n\n\0").await;
    assert_eq!(client.hear().await.unwrap().command, Command::Error);
    assert_eq!(house.topics.subscribers(), 0);
}

#[tokio::test]
async fn a_slow_subscriber_is_cut_off_and_others_are_not() {
    let house = house().await;
    let (mut slow, mut quick) = (house.subscriber().await, house.subscriber().await);
    let bytes = 10_000;
    let mut number = 0;
    // What sockets hold is not lost yet.
    for _ in 0..(2 * TOPIC_BYTES_MAX / bytes / 100) {
        house.decide(100, bytes).await;
        for _ in 0..100 {
            assert_eq!(quick.hear().await.unwrap().command, Command::Message);
            number += 1;
        }
    }
    let mut heard = 0;
    let last = loop {
        let frame = slow.hear().await.unwrap();
        if frame.command == Command::Error {
            break frame;
        }
        heard += 1;
    };
    assert_eq!(last.header("message"), Some(refusals::SLOW));
    assert!(heard < number, "{heard} of {number}");
    assert!(slow.hear().await.is_none());
    house.decide(1, 1).await;
    assert_eq!(connections(&quick.hear().await.unwrap()), 0);
}

#[tokio::test]
async fn one_address_cannot_take_all_places() {
    let house = house().await;
    let mut first = house.subscriber().await;
    let mut others = Vec::new();
    for _ in 1..ADDRESS_SUBSCRIBERS_MAX {
        others.push(house.client().await);
    }
    let mut over = house.client().await;
    assert!(over.hear().await.is_none());
    house.decide(1, 1).await;
    assert_eq!(first.hear().await.unwrap().command, Command::Message);
    drop(others);
    // A place that became free is taken by the next one: wait for it by trying.
    loop {
        let mut client = house.client().await;
        let _ = client
            .tcp
            .write_all(b"CONNECT\naccept-version:1.2\nlogin:u\npasscode:p\n\n\0")
            .await;
        if client
            .hear()
            .await
            .is_some_and(|frame| frame.command == Command::Connected)
        {
            break;
        }
    }
}

/// A certificate that ends so soon, of someone who may see all transfers.
fn short(seconds: i64) -> (Subscribers, Credential) {
    (of_rucio(), certificate("/CN=Rucio", seconds))
}

fn of_rucio() -> Subscribers {
    let rights = Rights {
        users: [(
            "/CN=Rucio".to_owned(),
            Levels {
                transfer: Level::All,
                config: Level::Own,
            },
        )]
        .into(),
        ..Rights::default()
    };
    Subscribers {
        rights,
        ..Subscribers::default()
    }
}

fn certificate(name: &str, seconds: i64) -> Credential {
    Credential::Certificate(Box::new(VerifiedCertificate {
        principal: Principal {
            dn: Some(name.to_owned()),
            ..Principal::default()
        },
        issuer: CertificateIssuer::default(),
        expires_s: now_ms() / 1000 + seconds,
        proxies: 0,
        is_limited: false,
        allows_proxies: false,
        attribute_faults: Vec::new(),
    }))
}

/// Serves one client that shows this certificate.
async fn serve_one(topics: &Topics, subscribers: Subscribers, holder: Credential) -> Client {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (served, peer) = listener.accept().await.unwrap();
    let topics = topics.clone();
    tokio::spawn(async move {
        let admission = Admission {
            subscribers: Arc::new(subscribers),
            authenticator: Authenticator::default(),
            holder: Arc::new(holder),
            is_encrypted: true,
            peer: peer.ip(),
        };
        let (stream, gate) = (Stream::clear(served, Role::Client, Waits::default()), Gate::default());
        if let Some(connection) = Connection::open(stream, &admission, &gate).await.unwrap() {
            connection.serve(topics.seat().await.unwrap(), &gate).await.unwrap();
        }
    });
    Client { tcp, input: Vec::new() }
}

#[tokio::test]
async fn a_user_who_may_not_subscribe_is_told_the_name_that_is_missing() {
    let house = house().await;
    let mut joe = serve_one(&house.topics, of_rucio(), certificate("/CN=Joe", 60)).await;
    joe.say("STOMP\naccept-version:1.2\nhost:h\n\n\0").await;
    let refused = joe.hear().await.unwrap();
    let words = "/CN=Joe may not subscribe: messages.users";
    assert_eq!(
        (refused.command, refused.header("message")),
        (Command::Error, Some(words))
    );
}

#[tokio::test]
async fn a_session_ends_with_the_certificate_of_its_login() {
    let house = house().await;
    let (subscribers, holder) = short(3);
    let mut client = serve_one(&house.topics, subscribers, holder).await;
    client.say("STOMP\naccept-version:1.2\nhost:h\n\n\0").await;
    assert_eq!(client.hear().await.unwrap().command, Command::Connected);
    let topic = Kind::QueueState.topic();
    client
        .say(&format!(
            "SUBSCRIBE\nid:1\nack:auto\nreceipt:1\ndestination:/topic/{topic}\n\n\0"
        ))
        .await;
    assert_eq!(client.hear().await.unwrap().command, Command::Receipt);
    house.decide(1, 1).await;
    assert_eq!(client.hear().await.unwrap().command, Command::Message);
    let last = client.hear().await.unwrap();
    assert_eq!(
        (last.command, last.header("message")),
        (Command::Error, Some(refusals::EXPIRED))
    );
    assert!(client.hear().await.is_none());
    let (subscribers, holder) = short(-1);
    let mut late = serve_one(&house.topics, subscribers, holder).await;
    late.say("STOMP\naccept-version:1.2\nhost:h\n\n\0").await;
    assert_eq!(late.hear().await.unwrap().header("message"), Some(refusals::EXPIRED));
}
