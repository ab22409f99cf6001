//! One connection: TLS first, then one request after the other, until either side closes it.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use credentials::Credential;
use endpoint::{ClientId, IdleConnection};
use net::Stream;
use net::http::Connection;
use net::listen::{self, Opening};
use tokio::net::TcpStream;
use types::{ErrorCode, Result};

use crate::admission::Admission;
use crate::exchange::{Exchange, Fate, Sender};
use crate::limits::LINGER_BYTES_MAX;
use crate::server::Server;
use crate::service::Service;

/// Serves one connection until it ends. The gate counts it from the call on.
///
/// # Errors
/// Why the connection broke outside of any request.
pub fn serve_connection<S: Service>(
    service: &Arc<S>,
    tcp: TcpStream,
    opening: Opening,
    peer: SocketAddr,
) -> impl Future<Output = Result<()>> + Send + use<S> {
    let service = service.clone();
    let gate = service.server().gate.clone();
    // Boxed, because the gate would otherwise hold its size twice.
    gate.serve(Box::pin(async move {
        let server = service.server();
        // Boxed and freed early: a handshake is larger than an idle connection.
        let hello = Box::pin(listen::accept(tcp, opening, server.tls.as_ref(), server.limits.waits()));
        let stream = tokio::select! {
            () = server.gate.draining() => return Ok(()),
            stream = hello => stream?,
        };
        converse(&*service, stream, peer).await
    }))
}

/// Serves requests until the connection ends. Its error belongs to no request.
async fn converse<S: Service>(service: &S, mut stream: Stream, peer: SocketAddr) -> Result<()> {
    let server = service.server();
    let shown = stream.take_peer_certificates();
    let mut admission = Admission::new(server.authenticator.certificates(shown.as_deref()));
    drop(shown);
    let mut memory = S::Memory::default();
    let mut connection = Connection::new(stream);
    let idle = server.fair_share.open_connection(&ClientId::at(peer.ip()));
    while is_next_wanted(server, &mut connection, &idle).await {
        // Boxed, so that a connection without a request stays small.
        match Box::pin(one(service, &mut connection, peer, &mut admission, &mut memory)).await {
            Fate::KeepOpen => {}
            Fate::Close => break,
            // Unread data of the client would become a reset that overtakes our answer.
            Fate::Linger => {
                Box::pin(connection.stream.close_lingering(LINGER_BYTES_MAX)).await;
                return Ok(());
            }
            Fate::Tear => return Ok(()),
        }
    }
    // The client may be gone already; then this fails, and nothing is lost.
    let _ = Box::pin(connection.stream.close()).await;
    Ok(())
}

/// Waits for the next request; false when none will come or none is accepted any longer.
async fn is_next_wanted(server: &Server, connection: &mut Connection, idle: &IdleConnection) -> bool {
    if server.gate.is_draining() {
        return false;
    }
    if connection.has_leftover() {
        return true;
    }
    let timeout = server.limits.current_idle(&server.fair_share);
    tokio::select! {
        () = server.gate.draining() => false,
        arrived = idle.wait(connection.stream.wait_for_input(timeout)) => arrived.is_some_and(|arrived| arrived.is_ok()),
    }
}

/// One request and its answer.
async fn one<S: Service>(
    service: &S,
    connection: &mut Connection,
    peer: SocketAddr,
    admission: &mut Admission,
    memory: &mut S::Memory,
) -> Fate {
    let began = Instant::now();
    let server = service.server();
    let limits = &server.limits;
    let head = match connection.request(&server.head, limits.idle, limits.head_timeout).await {
        Ok(Some(head)) => Ok(head),
        Ok(None) => return Fate::Close,
        Err(error) => Err(error),
    };
    let gives_way = head.as_ref().is_ok_and(|head| service.gives_way(head));
    connection.stream.give_way(gives_way).await;
    let clear_from = (!connection.stream.is_encrypted()).then(|| peer.ip());
    let credential = match &head {
        Ok(head) => admission.admit(server, head, clear_from).await,
        Err(_) => Ok(admission.certificate_holder().clone()),
    };
    let sender = Sender {
        peer,
        credential,
        certificate_holder: admission.certificate_holder().clone(),
    };
    let has_too_many = is_over_share(&sender.credential);
    let (mut exchange, head) = Exchange::begin(server, connection, sender, began, head, S::NAMES_FILES);
    // Otherwise the client would have what it is refused.
    exchange.may_keep &= !has_too_many;
    service.answer(&mut exchange, head, memory).await
}

/// Whether a client has more connections than its share, by its identity.
fn is_over_share(credential: &Result<Arc<Credential>>) -> bool {
    let refusal = credential.as_ref().err();
    refusal.is_some_and(|error| error.code() == ErrorCode::ShareUsedUp)
}
