//! One cipher suite at a time, and sessions that are or are not gone on with, one by one and many
//! at once.

use http_wire::HeadLimits;
use net::http::Connection;
use net::limits::TLS_SERVER_TICKETS_MAX;
use net::tls::{ClientTls, ServerTls, Suite, Trust};
use net::{Stream, Waits};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use testkit::SelfSigned;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use types::Side;

const WAIT: Duration = Duration::from_secs(10);

/// A server that answers one request on each connection.
async fn serve(listener: TcpListener, tls: ServerTls) {
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        let tls = tls.clone();
        tokio::spawn(async move {
            let Ok(stream) = Stream::accept_tls(tcp, &tls, Waits::default()).await else {
                return;
            };
            let mut connection = Connection::new(stream);
            let request = connection.request(&HeadLimits::default(), WAIT, WAIT).await;
            if let Ok(Some(_)) = request {
                connection.stream.queue(b"HTTP/1.1 204 No Content\r\n\r\n");
                connection.stream.flush().await.unwrap();
            }
        });
    }
}

/// A connection with one answer; what was negotiated, and whether it was resumed.
async fn visit(address: SocketAddr, tls: &ClientTls) -> Result<(&'static str, bool), types::Error> {
    visit_with(address, tls, &Barrier::new(1)).await
}

/// The same; `shaken` is where those who come together wait for each other between handshake and
/// question. Tickets come with the answer.
async fn visit_with(
    address: SocketAddr,
    tls: &ClientTls,
    shaken: &Barrier,
) -> Result<(&'static str, bool), types::Error> {
    let tcp = TcpStream::connect(address).await.unwrap();
    let stream = Stream::connect_tls(tcp, tls, "localhost", Side::Source, Waits::default()).await?;
    let found = (stream.security(), stream.is_resumed());
    shaken.wait().await;
    let mut connection = Connection::new(stream);
    connection.stream.queue(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    connection.stream.flush().await?;
    connection.response(&HeadLimits::default(), WAIT).await?;
    Ok(found)
}

/// A server with a certificate of its own, and a client that believes it.
async fn beginning() -> (SocketAddr, ClientTls) {
    let made = SelfSigned::localhost().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, ServerTls::load(&made.certificate, &made.key).unwrap()));
    let trust = Trust {
        files: vec![made.certificate.clone()],
        ..Trust::default()
    };
    (address, ClientTls::load(&trust).unwrap().0)
}

/// How many of so many connections that begin at once resume a session.
async fn resumed_of(count: usize, address: SocketAddr, tls: &ClientTls) -> usize {
    let shaken = Arc::new(Barrier::new(count));
    let mut visits = JoinSet::new();
    for _ in 0..count {
        let (tls, shaken) = (tls.clone(), Arc::clone(&shaken));
        visits.spawn(async move { visit_with(address, &tls, &shaken).await.unwrap().1 });
    }
    visits.join_all().await.into_iter().filter(|resumed| *resumed).count()
}

#[tokio::test]
async fn as_many_connections_go_on_as_there_were_before() {
    let (address, client) = beginning().await;
    // Each connection takes a ticket and leaves one.
    assert_eq!(resumed_of(1, address, &client).await, 0);
    assert_eq!(resumed_of(40, address, &client).await, 1);
    assert_eq!(resumed_of(40, address, &client).await, 40);
    // A few more than there is room for.
    let more = TLS_SERVER_TICKETS_MAX + 10;
    assert_eq!(resumed_of(more, address, &client).await, 40);
    assert_eq!(resumed_of(more, address, &client).await, TLS_SERVER_TICKETS_MAX);
}

#[tokio::test]
async fn a_suite_alone_is_what_is_negotiated_and_sessions_are_resumed_on_demand() {
    let (address, client) = beginning().await;
    for suite in Suite::all() {
        let full = client.offering(suite, false).unwrap();
        // The server's key is of elliptic curves.
        if suite.name().starts_with("RSA") {
            assert!(visit(address, &full).await.is_err(), "{suite}");
            continue;
        }
        let version = if suite.is_tls13() { "TLSv1.3" } else { "TLSv1.2" };
        for _ in 0..2 {
            assert_eq!(visit(address, &full).await.unwrap(), (version, false), "{suite}");
        }
        let resuming = client.offering(suite, true).unwrap();
        assert_eq!(visit(address, &resuming).await.unwrap(), (version, false), "{suite}");
        assert_eq!(visit(address, &resuming).await.unwrap(), (version, true), "{suite}");
    }
    let untrusting = ClientTls::load(&Trust::default()).unwrap().0;
    let suite = Suite::all()[0];
    assert!(
        visit(address, &untrusting.offering(suite, true).unwrap())
            .await
            .is_err()
    );
}
