//! The connection against rustls' own stream, which seals and opens its records by itself: both
//! roles, both protocol versions, every suite, and changes of keys in the middle.

use std::io::{Read, Write};
use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use http_wire::{Framing, HeadLimits};
use net::http::Connection;
use net::tls::{ClientTls, ServerTls, Trust};
use net::{Stream, Waits};
use rustls::crypto::aws_lc_rs as provider;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use testkit::SelfSigned;
use types::Side;

struct Site {
    made: SelfSigned,
    server: ServerTls,
    trust: Trust,
}

impl Site {
    fn certificate(&self) -> CertificateDer<'static> {
        self.made.der.clone().into()
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_file(&self.made.key).unwrap()
    }
}

fn site() -> Site {
    site_called(vec!["localhost".to_owned()])
}

fn site_called(names: Vec<String>) -> Site {
    let made = SelfSigned::for_names(names).unwrap();
    Site {
        server: ServerTls::load(&made.certificate, &made.key).unwrap(),
        trust: Trust {
            files: vec![made.certificate.clone()],
            ..Trust::default()
        },
        made,
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 11) as u8)
        .collect()
}

fn only(suite: rustls::SupportedCipherSuite) -> Arc<rustls::crypto::CryptoProvider> {
    let mut chosen = provider::default_provider();
    chosen.cipher_suites = vec![suite];
    Arc::new(chosen)
}

/// Everything that is offered.
fn suites() -> Vec<rustls::SupportedCipherSuite> {
    use provider::cipher_suite as suite;
    vec![
        suite::TLS13_AES_128_GCM_SHA256,
        suite::TLS13_AES_256_GCM_SHA384,
        suite::TLS13_CHACHA20_POLY1305_SHA256,
        suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ]
}

/// Reads a request with a body from `stream` and answers with the same body in records.
async fn echo(stream: Stream) {
    let mut connection = Connection::new(stream);
    let wait = Duration::from_secs(10);
    while let Some(head) = connection.request(&HeadLimits::default(), wait, wait).await.unwrap() {
        let framing = head.framing().unwrap();
        let mut body = connection.body(framing);
        let mut whole = Vec::new();
        while let Some(batch) = body.next().await.unwrap() {
            whole.extend(batch.slices().flatten());
        }
        connection
            .stream
            .queue(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", whole.len()).as_bytes());
        let mut rest = whole.as_slice();
        while !rest.is_empty() {
            let mut outgoing = connection.stream.outgoing().await.unwrap();
            let filled = rest.len().min(outgoing.capacity());
            let mut at = 0;
            for mut slot in outgoing.slots(filled) {
                let length = slot.len();
                slot.copy_from_slice(&rest[at..at + length]);
                at += length;
            }
            connection.stream.send(outgoing, filled).await.unwrap();
            rest = &rest[filled..];
        }
        connection.stream.flush().await.unwrap();
    }
}

/// A plain rustls client that sends `bodies` and returns what came back, changing its keys between.
fn rustls_client(address: std::net::SocketAddr, site: &Site, suite: rustls::SupportedCipherSuite, bodies: &[Vec<u8>]) {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(site.certificate()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(only(suite))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let mut session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    let mut tls = rustls::Stream::new(&mut session, &mut socket);
    for body in bodies {
        let head = format!("PUT /f HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.len());
        tls.write_all(head.as_bytes()).unwrap();
        tls.write_all(body).unwrap();
        let expected = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut answer = vec![0; expected.len() + body.len()];
        tls.read_exact(&mut answer).unwrap();
        assert_eq!(&answer[..expected.len()], expected.as_bytes());
        assert!(answer[expected.len()..] == body[..], "the body came back changed");
        if suite.version().version == rustls::ProtocolVersion::TLSv1_3 {
            tls.conn.refresh_traffic_keys().unwrap();
        }
    }
    tls.conn.send_close_notify();
    tls.flush().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rustls_client_and_our_server_understand_each_other_in_every_suite() {
    let site = Arc::new(site());
    for suite in suites() {
        let listener = net::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let peer = site.clone();
        let client = tokio::task::spawn_blocking(move || {
            rustls_client(
                address,
                &peer,
                suite,
                &[Vec::new(), pattern(1), pattern(100_000), pattern(3_000_001)],
            );
        });
        let (tcp, _) = listener.accept().await.unwrap();
        let stream = Stream::accept_tls(tcp, &site.server, Waits::default()).await.unwrap();
        assert_eq!(
            stream.security() == "TLSv1.3",
            suite.version().version == rustls::ProtocolVersion::TLSv1_3
        );
        echo(stream).await;
        client.await.unwrap();
    }
}

/// A plain rustls server that answers one request with `body`, in two halves with new keys between.
fn rustls_server(listener: &StdListener, site: &Site, suite: rustls::SupportedCipherSuite, body: &[u8]) {
    let key = site.key();
    let config = rustls::ServerConfig::builder_with_provider(only(suite))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![site.certificate()], key)
        .unwrap();
    let mut session = rustls::ServerConnection::new(Arc::new(config)).unwrap();
    let (mut socket, _) = listener.accept().unwrap();
    let mut tls = rustls::Stream::new(&mut session, &mut socket);
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        tls.read_exact(&mut byte).unwrap();
        request.push(byte[0]);
    }
    tls.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    let (first, second) = body.split_at(body.len() / 2);
    tls.write_all(first).unwrap();
    if suite.version().version == rustls::ProtocolVersion::TLSv1_3 {
        tls.conn.refresh_traffic_keys().unwrap();
    }
    tls.write_all(second).unwrap();
    tls.conn.send_close_notify();
    tls.flush().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn our_client_and_a_rustls_server_understand_each_other_in_every_suite() {
    let site = Arc::new(site());
    let (tls, _) = ClientTls::load(&site.trust).unwrap();
    for suite in suites() {
        let listener = StdListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let peer = site.clone();
        let server = tokio::task::spawn_blocking(move || rustls_server(&listener, &peer, suite, &pattern(2_000_003)));
        let tcp = tokio::net::TcpStream::connect(address).await.unwrap();
        let stream = Stream::connect_tls(tcp, &tls, "localhost", Side::Source, Waits::default())
            .await
            .unwrap();
        let mut connection = Connection::new(stream);
        connection.stream.queue(b"GET /f HTTP/1.1\r\nHost: localhost\r\n\r\n");
        connection.stream.flush().await.unwrap();
        connection
            .response(&HeadLimits::default(), Duration::from_secs(10))
            .await
            .unwrap();
        let body = connection.body(Framing::UntilClose).collect(10_000_000).await.unwrap();
        assert!(body == pattern(2_000_003), "the body came changed");
        assert!(connection.stream.ended_cleanly());
        server.await.unwrap();
    }
}

/// A TLS 1.3 client that sends a request, then changes of keys without end.
fn restless_client(address: std::net::SocketAddr, site: &Site) {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(site.certificate()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(only(provider::cipher_suite::TLS13_AES_128_GCM_SHA256))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let mut session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    let mut tls = rustls::Stream::new(&mut session, &mut socket);
    tls.write_all(b"PUT /f HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n")
        .unwrap();
    // Ends when the server has enough of it; the count only keeps a wrong server from hanging the
    // test.
    for _ in 0..10_000 {
        if tls.conn.refresh_traffic_keys().is_err() || tls.flush().is_err() {
            return;
        }
    }
    let _ = tls.write_all(b"hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_without_payload_do_not_go_on_for_ever() {
    let site = Arc::new(site());
    let listener = net::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let (address, peer) = (listener.local_addr().unwrap(), site.clone());
    let client = tokio::task::spawn_blocking(move || restless_client(address, &peer));
    let (tcp, _) = listener.accept().await.unwrap();
    let wait = Duration::from_secs(10);
    let stream = Stream::accept_tls(tcp, &site.server, Waits::default()).await.unwrap();
    let mut connection = Connection::new(stream);
    // How many of them come together with the head is the network's affair.
    let error = match connection.request(&HeadLimits::default(), wait, wait).await {
        Ok(head) => {
            let framing = head.unwrap().framing().unwrap();
            connection.body(framing).collect(5).await.unwrap_err()
        }
        Err(error) => error,
    };
    assert!(error.public().contains("without payload"), "{error}");
    drop(connection);
    client.await.unwrap();
}

/// Sends half a body, asks for new keys, and tells with the rest whether anything came back
/// meanwhile.
fn curious_server(listener: &StdListener, site: &Site) -> bool {
    let key = site.key();
    let suite = provider::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let config = rustls::ServerConfig::builder_with_provider(only(suite))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![site.certificate()], key)
        .unwrap();
    let mut session = rustls::ServerConnection::new(Arc::new(config)).unwrap();
    let (mut socket, _) = listener.accept().unwrap();
    let mut tls = rustls::Stream::new(&mut session, &mut socket);
    tls.read_exact(&mut [0; 2]).unwrap();
    tls.write_all(b"hel").unwrap();
    tls.conn.refresh_traffic_keys().unwrap();
    tls.write_all(b"lo").unwrap();
    tls.conn.send_close_notify();
    tls.flush().unwrap();
    // The client ends its direction when it has read all; nothing may come before that.
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).unwrap();
    rest.is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_keys_is_not_answered_while_reading() {
    let site = Arc::new(site());
    let (tls, _) = ClientTls::load(&site.trust).unwrap();
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let (address, peer) = (listener.local_addr().unwrap(), site.clone());
    let server = tokio::task::spawn_blocking(move || curious_server(&listener, &peer));
    let tcp = tokio::net::TcpStream::connect(address).await.unwrap();
    let stream = Stream::connect_tls(tcp, &tls, "localhost", Side::Source, Waits::default())
        .await
        .unwrap();
    let mut connection = Connection::new(stream);
    connection.stream.queue(b"go");
    connection.stream.flush().await.unwrap();
    let body = connection.body(Framing::UntilClose).collect(100).await.unwrap();
    assert_eq!(body, b"hello");
    drop(connection);
    assert!(server.await.unwrap(), "something was sent while the body was read");
}

#[tokio::test]
async fn a_certificate_that_is_longer_than_a_small_buffer_is_understood() {
    let mut names: Vec<String> = (0..1000)
        .map(|number| format!("host-{number:04}.storage.example.org"))
        .collect();
    names.push("localhost".to_owned());
    let site = site_called(names);
    assert!(site.made.der.len() > 24 * 1024);
    let (tls, _) = ClientTls::load(&site.trust).unwrap();
    let listener = net::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let server = site.server.clone();
    let accepted = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        Stream::accept_tls(tcp, &server, Waits::default()).await
    });
    let tcp = tokio::net::TcpStream::connect(address).await.unwrap();
    let stream = Stream::connect_tls(tcp, &tls, "localhost", Side::Source, Waits::default()).await;
    assert_eq!(stream.unwrap().security(), "TLSv1.3");
    accepted.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_unknown_authority_is_named_in_the_error() {
    let site = site();
    let (tls, _) = ClientTls::load(&Trust::default()).unwrap();
    let listener = net::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let server = site.server.clone();
    let accepted = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        Stream::accept_tls(tcp, &server, Waits::default()).await
    });
    let tcp = tokio::net::TcpStream::connect(address).await.unwrap();
    let refused = Stream::connect_tls(tcp, &tls, "localhost", Side::Source, Waits::default())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), types::ErrorCode::PeerTlsFailed);
    assert!(refused.public().contains("issuer is not trusted here"), "{refused}");
    let told = accepted.await.unwrap().unwrap_err();
    assert!(
        told.public().contains("does not trust its issuer"),
        "the server learns why: {told}"
    );
}

#[tokio::test]
async fn leaving_is_noticed_without_reading() {
    let listener = net::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let client = tokio::net::TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (tcp, _) = listener.accept().await.unwrap();
    let mut stream = Stream::clear(tcp, net::Role::Client, Waits::default());
    // Unread data must not hide that the other end is gone.
    client.try_write(b"pipelined").unwrap();
    drop(client);
    tokio::time::timeout(Duration::from_secs(10), stream.peer_closed())
        .await
        .unwrap();
}
