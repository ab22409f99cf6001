//! A server that asks for a proxy by `gsi`: when it gets one, when it gets only words, and what it
//! may not do.

use std::sync::{Arc, LazyLock, Mutex};

use credentials::gsi::server::{Delegating, Host, Offer, Proving};
use gsi_wire::delegation::{certificate_request, proxy_extensions, proxy_name};
use gsi_wire::gsi::{Buffer, Kind, Opening, ServerEntry, Step};
use gsi_wire::{Certificate, ProxyPolicy, to_pem};
use net::random::fill;
use net::tls::{ClientIdentity, ClientTls, Trust};
use remote::{Access, Client, CopyOrder, Delegation, DelegationOutcome, Direction, Resource};
use testkit::{Authority, KeyKind, ProxyOptions, Scratch, SigningPair, User};
use types::{Error, ErrorCode, Result, Side};
use xroot_wire::respond;
use xroot_wire::response::{LoginReply, SecurityEntry};
use xroot_wire::{Cgi, ErrorNumber, Opcode, SessionId, StreamId};

use crate::copying::{cgi, opened, source};
use crate::script::{Peer, Server, client_trusting, data_server};

const JANE: &str = "/O=Crossload test/CN=Jane Doe";

/// An authority with a user and two servers, made once: keys take time.
struct Lab {
    scratch: Scratch,
    authority: Authority,
    jane: User,
    /// The key for which the servers ask for proxies.
    wanted: SigningPair,
}

static LAB: LazyLock<Lab> = LazyLock::new(|| {
    let scratch = Scratch::new("delegation").unwrap();
    let authority = Authority::new(scratch.path()).unwrap();
    authority.issue_localhost().unwrap();
    let other = ["other.example"];
    authority.issue_host("other", &other, KeyKind::Rsa2048).unwrap();
    Lab {
        jane: authority.issue_user(JANE).unwrap().proxy().unwrap(),
        wanted: SigningPair::new(KeyKind::Rsa2048).unwrap(),
        authority,
        scratch,
    }
});

impl Lab {
    fn client(&self, insecure: bool) -> Client {
        let trust = Trust {
            files: vec![self.authority.ca_file()],
            insecure,
            ..Trust::default()
        };
        client_trusting(ClientTls::load(&trust).unwrap().0)
    }

    fn host(&self, label: &str) -> Host {
        let path = |ending: &str| self.scratch.join(&format!("{label}.{ending}"));
        let identity = ClientIdentity::load(&path("pem"), &path("key")).unwrap();
        Host::new(&identity.chain()[0], identity.private_key().secret_der()).unwrap()
    }
}

fn identity(user: &User) -> ClientIdentity {
    ClientIdentity::from_pem(user.chain_pem().as_bytes(), user.key().private_pem().as_bytes()).unwrap()
}

/// What a server asks for in its second message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    Nothing,
    Proxy,
    /// A proxy of another user.
    WrongSubject,
    /// A proxy, and then once more.
    Twice,
    /// A proxy, and it takes no refusal.
    OrRefuses,
    /// It asks although nothing was offered, with a request that would be signed.
    Unasked,
}

/// What a server has heard in its logins.
#[derive(Default)]
struct Heard {
    options: Vec<u32>,
    proxies: Vec<Vec<u8>>,
    words: Vec<String>,
}

struct GsiServer {
    host: Arc<Host>,
    asks: Asks,
    /// Whether it offers `host` before `gsi`.
    offers_host_first: bool,
    heard: Arc<Mutex<Heard>>,
}

impl GsiServer {
    fn new(label: &str, asks: Asks) -> Arc<Self> {
        Self::offering(label, asks, false)
    }

    fn offering(label: &str, asks: Asks, offers_host_first: bool) -> Arc<Self> {
        Arc::new(Self {
            host: Arc::new(LAB.host(label)),
            asks,
            offers_host_first,
            heard: Arc::default(),
        })
    }

    /// A login by gsi; `None` when the client leaves.
    async fn log_in(&self, peer: &mut Peer) -> Option<()> {
        peer.greet(data_server()).await;
        self.offer(peer, &ServerEntry::new([1, 2]).encode()).await;
        let opening = peer.request().await?;
        let options = Opening::parse(&opening.payload).unwrap().options;
        self.heard.lock().unwrap().options.push(options.0);
        let offer = Arc::new(Offer::new(&self.host, &mut fill).unwrap());
        let (proving, hello) = Proving::begin(&opening.payload, &self.host, offer, &mut fill).unwrap();
        peer.put(|out| respond::more_authentication(out, opening.id(), &hello))
            .await;
        let shown = peer.request().await?;
        let proved = proving.prove(&shown.payload).unwrap();
        let asks = match self.asks {
            Asks::Nothing => false,
            Asks::Unasked => true,
            _ => proved.would_delegate,
        };
        if asks {
            let request = self.request(&proved.chain[0]);
            let (delegating, message) = proved.ask_proxy(&request, &self.host, &mut fill).unwrap();
            peer.put(|out| respond::more_authentication(out, shown.id(), &message))
                .await;
            let answer = peer.request().await?;
            let refused = self.take(delegating, &answer.payload);
            if refused && self.asks == Asks::OrRefuses {
                peer.refuse(answer.id(), ErrorNumber::AUTHENTICATION_FAILED, "no proxy, no session")
                    .await;
                return None;
            }
            if self.asks == Asks::Twice {
                peer.put(|out| respond::more_authentication(out, answer.id(), &message))
                    .await;
                return peer.request().await.map(drop);
            }
        }
        peer.ok(StreamId::ZERO, &[]).await;
        Some(())
    }

    async fn offer(&self, peer: &mut Peer, parameters: &str) {
        peer.expect(Opcode::Login).await;
        let gsi = SecurityEntry {
            name: gsi_wire::gsi::NAME.to_owned(),
            parameters: Some(parameters.to_owned()),
        };
        let mut protocols = vec![gsi, SecurityEntry::plain("host")];
        if self.offers_host_first {
            protocols.reverse();
        }
        let reply = LoginReply {
            session: SessionId([5; 16]),
            protocols,
        };
        peer.ok(StreamId::ZERO, &reply.encode()).await;
    }

    /// The request for a proxy of the client whose certificate this is.
    fn request(&self, leaf: &[u8]) -> Vec<u8> {
        let leaf = Certificate::parse(leaf).unwrap();
        let name = match self.asks {
            Asks::WrongSubject | Asks::OrRefuses => testkit::name_der("/CN=Joe Other/CN=4711").unwrap(),
            _ => proxy_name(leaf.subject().der, "4711").unwrap(),
        };
        let key = LAB.wanted.public_key_info();
        let sign = |message: &[u8]| LAB.wanted.sign(message);
        let request = certificate_request(&name, &key, &proxy_extensions(), LAB.wanted.kind(), sign).unwrap();
        to_pem("CERTIFICATE REQUEST", &request).into_bytes()
    }

    /// Keeps what the client answers; whether it refuses.
    fn take(&self, delegating: Delegating, answer: &[u8]) -> bool {
        let mut heard = self.heard.lock().unwrap();
        match delegating.receive(answer).unwrap() {
            Ok(proxy) => heard.proxies.push(proxy.to_vec()),
            Err(words) => heard.words.push(words),
        }
        heard.proxies.is_empty()
    }

    /// Serves logins, and then a destination of copies that answers this to `Qconfig tpc tpcdlg`.
    async fn start(self: &Arc<Self>, configured: &'static str) -> Server {
        let server = Arc::clone(self);
        Server::start(move |_, mut peer| {
            let server = Arc::clone(&server);
            async move {
                if server.log_in(&mut peer).await.is_some() {
                    destination(&mut peer, configured).await;
                }
            }
        })
        .await
    }
}

/// A destination that answers one copy and any number of questions.
async fn destination(peer: &mut Peer, configured: &str) {
    while let Some(heard) = peer.request().await {
        match heard.opcode() {
            Opcode::Open => opened(peer, &heard, 0).await,
            Opcode::Query => peer.ok(heard.id(), configured.as_bytes()).await,
            Opcode::Stat => peer.tell_size(&heard, 3).await,
            _ => peer.ok(heard.id(), &[]).await,
        }
    }
}

fn target(server: &Server, delegation: Delegation) -> Resource {
    let file = server.file("/data/g");
    Resource {
        access: Access {
            identity: Some(identity(&LAB.jane)),
            bearer: None,
            delegation,
            ..file.access
        },
        ..file
    }
}

/// Orders a copy and waits for its end.
async fn copied(client: &Client, from: &Server, to: &Resource) -> Result<Option<DelegationOutcome>> {
    let order = CopyOrder::new(from.file("/data/f").location, Direction::Pull, Access::default());
    let mut copying = client.copy(to, &order).await?;
    while copying.next().await?.is_some() {}
    Ok(copying.delegation().cloned())
}

fn without(outcome: Result<Option<DelegationOutcome>>) -> String {
    match outcome {
        Ok(Some(DelegationOutcome::Without(words))) => words,
        other => panic!("{other:?}"),
    }
}

fn registrations(from: &Server) -> usize {
    let opens = from.heard_of(Opcode::Open);
    opens.iter().filter(|open| cgi(open).contains("tpc.key")).count()
}

#[tokio::test]
async fn a_destination_that_gets_a_proxy_needs_no_key() {
    let server = GsiServer::offering("localhost", Asks::Proxy, true);
    for delegation in [Delegation::First, Delegation::Only] {
        let (from, to) = (source().await, server.start("1\ngsi\n").await);
        let outcome = copied(&LAB.client(false), &from, &target(&to, delegation)).await;
        assert_eq!(outcome.unwrap(), Some(DelegationOutcome::Delegated));
        let ordered = cgi(&to.heard_of(Opcode::Open)[0]);
        let order = Cgi::new(&ordered).third_party().unwrap();
        assert!(
            order.delegates() && order.delegation_source == order.source,
            "{ordered}"
        );
        assert_eq!(registrations(&from), 0);
    }
    let heard = server.heard.lock().unwrap();
    assert_eq!((&heard.options[..], heard.proxies.len()), (&[5, 5][..], 2));
    let own = Certificate::parse(LAB.jane.chain()[0]).unwrap();
    let proxy = Certificate::parse(&heard.proxies[0]).unwrap();
    assert_eq!(proxy.issuer().der, own.subject().der);
    assert_eq!(proxy.subject().one_line, format!("{}/CN=4711", own.subject().one_line));
    assert_eq!(
        (proxy.serial(), proxy.public_key_info()),
        (&4711_u16.to_be_bytes()[..], &LAB.wanted.public_key_info()[..])
    );
    assert!(proxy.not_after_s() <= own.not_after_s() && proxy.not_before_s() >= own.not_before_s());
    let info = proxy.proxy_info().unwrap().unwrap();
    assert_eq!(
        (info.policy, info.path_length, info.is_critical),
        (ProxyPolicy::Full, None, true)
    );
    assert_eq!(
        proxy.signature_algorithm(),
        gsi_wire::delegation::SignatureKind::RsaSha256.algorithm()
    );
}

/// It has a proxy from an earlier session.
#[tokio::test]
async fn a_destination_that_fetches_with_proxies_need_not_ask_again() {
    let server = GsiServer::new("localhost", Asks::Nothing);
    let (from, to) = (source().await, server.start("1\ngsi\n").await);
    let outcome = copied(&LAB.client(false), &from, &target(&to, Delegation::Only)).await;
    assert_eq!(outcome.unwrap(), Some(DelegationOutcome::Delegated));
    assert_eq!(
        (&server.heard.lock().unwrap().options[..], registrations(&from)),
        (&[5][..], 0)
    );
}

#[tokio::test]
async fn nothing_is_offered_unless_the_user_asked() {
    for asks in [Asks::Proxy, Asks::Unasked] {
        let server = GsiServer::new("localhost", asks);
        let (from, to) = (source().await, server.start("1\ngsi\n").await);
        let client = LAB.client(false);
        let file = target(&to, Delegation::Never);
        client.stat(&file).await.unwrap();
        assert_eq!(copied(&client, &from, &file).await.unwrap(), None);
        assert_eq!(registrations(&from), 1);
        let ordered = cgi(&to.heard_of(Opcode::Open)[0]);
        assert_eq!(Cgi::new(&ordered).value("tpc.dlgon"), Some("0"));
        let heard = server.heard.lock().unwrap();
        assert!(heard.options.iter().all(|options| *options == 0) && heard.proxies.is_empty());
        let asked = usize::from(asks == Asks::Unasked);
        assert_eq!(heard.words.len(), asked * heard.options.len(), "{:?}", heard.words);
    }
}

#[tokio::test]
async fn a_session_without_the_offer_is_not_used_for_a_delegation() {
    let server = GsiServer::new("localhost", Asks::Proxy);
    let (from, to) = (source().await, server.start("1\ngsi\n").await);
    let client = LAB.client(false);
    client.stat(&target(&to, Delegation::Never)).await.unwrap();
    for _ in 0..2 {
        let outcome = copied(&client, &from, &target(&to, Delegation::Only)).await;
        assert_eq!(outcome.unwrap(), Some(DelegationOutcome::Delegated));
    }
    client.stat(&target(&to, Delegation::Never)).await.unwrap();
    let heard = server.heard.lock().unwrap();
    assert_eq!((&heard.options[..], heard.proxies.len()), (&[0, 5][..], 1));
}

/// The server hears why, the user too, and the session goes on.
#[tokio::test]
async fn a_refused_request_leaves_the_session_and_the_key() {
    for asks in [Asks::WrongSubject, Asks::OrRefuses] {
        let server = GsiServer::new("localhost", asks);
        let (from, to) = (source().await, server.start("1\ngsi\n").await);
        let words = without(copied(&LAB.client(false), &from, &target(&to, Delegation::First)).await);
        assert!(words.contains("not for a proxy of"), "{words}");
        assert_eq!(registrations(&from), 1);
        let heard = server.heard.lock().unwrap();
        assert!(
            heard.words[0].contains("/CN=Joe Other/CN=4711, not for a proxy of"),
            "{:?}",
            heard.words
        );
        assert!(heard.proxies.is_empty());
    }
    let server = GsiServer::new("localhost", Asks::WrongSubject);
    let (from, to) = (source().await, server.start("1\ngsi\n").await);
    let error = copied(&LAB.client(false), &from, &target(&to, Delegation::Only))
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerMisbehaved);
    assert!(error.public().contains("no proxy was delegated"), "{error}");
    assert_eq!(registrations(&from), 0);
}

#[tokio::test]
async fn our_own_proxy_may_allow_no_other() {
    let last = ProxyOptions {
        path_length: Some(0),
        ..ProxyOptions::default()
    };
    let soon = ProxyOptions {
        ends_s: 30,
        ..ProxyOptions::default()
    };
    let jane = LAB.authority.issue_user(JANE).unwrap();
    for (options, words) in [(last, "path length 0"), (soon, "expires too soon")] {
        let server = GsiServer::new("localhost", Asks::Proxy);
        let to = server.start("1\ngsi\n").await;
        let mut file = target(&to, Delegation::Only);
        file.access.identity = Some(identity(&jane.proxy_with(&options).unwrap()));
        let error = copied(&LAB.client(false), &source().await, &file).await.unwrap_err();
        assert_eq!(
            (error.code(), error.side()),
            (ErrorCode::CertificateUnusable, Side::Client),
            "{error}"
        );
        assert!(error.public().contains(words), "{error}");
        assert!(server.heard.lock().unwrap().words[0].contains(words));
    }
}

#[tokio::test]
async fn a_destination_that_does_not_fetch_with_proxies_gets_a_key() {
    for (asks, configured, words) in [
        (Asks::Proxy, "1\ntpcdlg\n", "does not fetch with delegated proxies"),
        (Asks::Proxy, "1\nztn\n", "does not fetch with delegated proxies"),
        (Asks::Proxy, "tpc\ntpcdlg\n", "does not fetch with delegated proxies"),
        (Asks::Nothing, "1\ntpcdlg\n", "asked for no proxy"),
    ] {
        let server = GsiServer::new("localhost", asks);
        let (from, to) = (source().await, server.start(configured).await);
        let told = without(copied(&LAB.client(false), &from, &target(&to, Delegation::First)).await);
        assert!(told.contains(words), "{told}");
        assert_eq!(registrations(&from), 1);
        let error = copied(&LAB.client(false), &from, &target(&to, Delegation::Only))
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::PeerUnsupported, "{error}");
        assert!(error.public().contains(words), "{error}");
        assert_eq!(registrations(&from), 1);
    }
}

/// No reverse look-up, no common name: an address is no better.
#[tokio::test]
async fn a_server_with_the_certificate_of_another_host_gets_nothing() {
    for delegation in [Delegation::First, Delegation::Only] {
        let server = GsiServer::new("other", Asks::Proxy);
        let (from, to) = (source().await, server.start("1\ngsi\n").await);
        let error = copied(&LAB.client(false), &from, &target(&to, delegation))
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::PeerUntrusted, "{error}");
        assert_eq!(to.heard_of(Opcode::Open).len() + registrations(&from), 0);
        assert!(server.heard.lock().unwrap().proxies.is_empty());
        // The client left after the first of its two messages, and did not try again.
        assert_eq!(to.heard_of(Opcode::Authenticate).len(), 1);
    }
}

#[tokio::test]
async fn a_server_whose_certificate_is_not_verified_is_offered_none() {
    let server = GsiServer::new("other", Asks::Proxy);
    let (from, to) = (source().await, server.start("1\ngsi\n").await);
    let words = without(copied(&LAB.client(true), &from, &target(&to, Delegation::First)).await);
    assert!(words.contains("not verified"), "{words}");
    let heard = server.heard.lock().unwrap();
    assert_eq!((&heard.options[..], heard.proxies.len()), (&[0][..], 0));
}

#[tokio::test]
async fn a_second_request_for_a_proxy_ends_the_session() {
    let server = GsiServer::new("localhost", Asks::Twice);
    let (from, to) = (source().await, server.start("1\ngsi\n").await);
    let error = copied(&LAB.client(false), &from, &target(&to, Delegation::First))
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerMisbehaved);
    assert!(error.public().contains("twice"), "{error}");
}

/// Below version 10400 the key agreement is not signed. A server that says so is shown nothing, and
/// one that sends the agreement unsigned all the same is left.
#[tokio::test]
async fn nothing_is_delegated_without_a_signed_key_agreement() {
    let server = GsiServer::new("localhost", Asks::Proxy);
    let old = Arc::clone(&server);
    let to = Server::start(move |_, mut peer| {
        let old = Arc::clone(&old);
        async move {
            peer.greet(data_server()).await;
            old.offer(&mut peer, "v:10300,c:ssl,ca:1.0|2.0").await;
            let host = peer.request().await.unwrap();
            assert!(host.payload.starts_with(b"host\0"), "{host:?}");
            peer.ok(host.id(), &[]).await;
            destination(&mut peer, "1\ngsi\n").await;
        }
    })
    .await;
    let error = copied(&LAB.client(false), &source().await, &target(&to, Delegation::Only))
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerUnsupported, "{error}");
    assert!(error.public().contains("no gsi that could delegate one"), "{error}");
    assert!(server.heard.lock().unwrap().options.is_empty());

    let unsigned = Arc::clone(&server);
    let to = Server::start(move |_, mut peer| {
        let server = Arc::clone(&unsigned);
        async move {
            peer.greet(data_server()).await;
            server.offer(&mut peer, &ServerEntry::new([1, 2]).encode()).await;
            let opening = peer.request().await.unwrap();
            let offer = Arc::new(Offer::new(&server.host, &mut fill).unwrap());
            let (_, hello) = Proving::begin(&opening.payload, &server.host, offer, &mut fill).unwrap();
            let hello = unsigned_agreement(&hello);
            peer.put(|out| respond::more_authentication(out, opening.id(), &hello))
                .await;
            assert!(peer.request().await.is_none(), "the client has left");
        }
    })
    .await;
    let error: Error = copied(&LAB.client(false), &source().await, &target(&to, Delegation::First))
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerMisbehaved, "{error}");
    assert!(error.public().contains("agreement is missing"), "{error}");
}

/// The server's first message with its half of the agreement where old servers put it.
fn unsigned_agreement(hello: &[u8]) -> Vec<u8> {
    let buffer = Buffer::parse(hello).unwrap();
    let kinds = [
        Kind::LIBRARY,
        Kind::MAIN,
        Kind::CIPHERS,
        Kind::DIGESTS,
        Kind::CERTIFICATES,
    ];
    let plain = b"-----BEGIN DH PARAMETERS-----\n-----END DH PARAMETERS-----\n---BPUB---00---EPUB---";
    let kept = kinds.iter().filter_map(|kind| Some((*kind, buffer.find(*kind)?)));
    let message = kept.fold(Buffer::new(Step::Server), |message, (kind, bytes)| {
        message.with(kind, bytes)
    });
    message.with(Kind::PUBLIC_KEY, plain).encode()
}

/// A destination that is lost in the middle of the copy: its outcome is unknown, as with a key.
#[tokio::test]
async fn a_lost_destination_with_a_proxy_may_still_copy() {
    let server = GsiServer::new("localhost", Asks::Proxy);
    let (from, to) = (source().await, {
        let server = Arc::clone(&server);
        Server::start(move |_, mut peer| {
            let server = Arc::clone(&server);
            async move {
                if server.log_in(&mut peer).await.is_some() {
                    let open = peer.expect(Opcode::Open).await;
                    opened(&mut peer, &open, 0).await;
                    let question = peer.expect(Opcode::Query).await;
                    assert_eq!(question.text(), "tpc tpcdlg\0");
                    peer.ok(question.id(), b"1\ngsi\n").await;
                    let prepare = peer.expect(Opcode::Sync).await;
                    peer.ok(prepare.id(), &[]).await;
                    let start = peer.expect(Opcode::Sync).await;
                    peer.put(|out| respond::wait_for_answer(out, start.id(), 1800, ""))
                        .await;
                }
            }
        })
        .await
    });
    let outcome = copied(&LAB.client(false), &from, &target(&to, Delegation::Only)).await;
    assert_eq!(outcome.unwrap_err().code(), ErrorCode::OutcomeUnknown);
}
