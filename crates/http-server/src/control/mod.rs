//! Control doors: axum routers behind the same TLS, identity, limits and log as files.
//!
//! A control door serves small requests: metrics, the API of a queue, web pages. Its author writes
//! an ordinary [`axum::Router`]; this module reads the requests for it and sends its answers. Heads
//! and bodies go through the same [`Exchange`] as those of a data door, so there is one parser of
//! HTTP, one set of limits, one way to close and one form of log record. axum's own server is not
//! used: it could not take our TLS records, and hyper would bring a second parser with limits and
//! errors of its own.
//!
//! # How to write a control door
//!
//! 1. Build a router and hand it to [`ControlDoor::new`] with a [`Server`]: certificate (none:
//!    clear text only), authenticator, shares, limits, gate and log.
//! 2. Take in connections: [`ControlDoor::accept`] has a port of its own, where [`shares`] keeps
//!    one client from taking all of them; a door behind a shared port calls
//!    [`ControlDoor::serve_connection`].
//! 3. Ask who sends a request by the extractor [`Client`]. A handler that needs a credential calls
//!    [`Client::identified`]: the token of the request, or the certificate of the connection. One
//!    that was refused is an error there, and so is an anonymous client. A page for everyone calls
//!    [`Client::credential`], where a client with a refused certificate is anonymous. A door with
//!    sessions of its own says by [`KnownBy`] whose request it was, for the log.
//! 4. Answer errors by returning [`Refusal`], which `?` makes of a [`types::Error`]. The error
//!    table gives status and sentences, and the request's name stands below them. Unknown paths and
//!    methods are answered so already. A protocol with errors of its own form uses
//!    [`Refusal::in_form`].
//! 5. The body comes when the handler asks for it, so check rights first: a client that waits for
//!    `100 Continue` then never sends what is refused. Over the door's limit the request is refused
//!    with `body_too_large`, whatever the handler makes of the error: only the form is its own, if
//!    it refuses with the same code.
//! 6. A body of unknown length is sent in pieces as it comes, for example server-sent events. It
//!    ends when the client leaves, or when the door closes for good; until then a handler may look
//!    at [`endpoint::Gate::draining`] and end it properly.
//!
//! The headers of an answer are the handler's, except for those of the message itself: length,
//! framing, connection, date, server and request name.

mod accept;
mod answer;
mod body;
mod local;
mod request;

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use endpoint::{FairShare, ShareLimits};
use http_wire::RequestHead;
use net::listen::Opening;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tower_service::Service as _;
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::connection::serve_connection;
use crate::exchange::{Exchange, Fate};
use crate::limits::{CONTROL_CLIENT_PERCENT, REFUSED_CONNECTIONS_MAX};
use crate::server::Server;
use crate::service::Service;

pub use answer::Refusal;
pub use local::demand_local;
pub use request::{Client, KnownBy};

/// The shares of a control door with a port of its own, which has at most so many connections.
#[must_use]
pub fn shares(connections: usize) -> FairShare {
    let limits = ShareLimits {
        connections,
        client_percent: CONTROL_CLIENT_PERCENT,
        ..ShareLimits::default()
    };
    FairShare::new(&limits, None)
}

/// A door with a router behind it. Clones are the same door.
#[derive(Clone)]
pub struct ControlDoor(Arc<Control>);

struct Control {
    server: Server,
    router: Router,
    /// Limit on each request's body.
    body_bytes_max: usize,
    /// Whether all requests must be for a name of this machine.
    is_local: bool,
    /// Refused connections that are being told so.
    refusing: Arc<Semaphore>,
}

impl ControlDoor {
    /// A door for this router. Bodies of requests have at most `body_bytes_max` bytes.
    #[must_use]
    pub fn new(server: Server, router: Router, body_bytes_max: usize) -> Self {
        Self::with(server, router, body_bytes_max, false)
    }

    /// The same, at this address: on a loopback address it answers requests for names of this
    /// machine only ([`demand_local`]).
    #[must_use]
    pub fn at(address: IpAddr, server: Server, router: Router, body_bytes_max: usize) -> Self {
        let is_local = address.to_canonical().is_loopback();
        Self::with(server, router, body_bytes_max, is_local)
    }

    fn with(server: Server, router: Router, body_bytes_max: usize, is_local: bool) -> Self {
        let router = router
            .fallback(|| async { Refusal::from(refused(ErrorCode::NotFound)) })
            .method_not_allowed_fallback(|| async { Refusal::from(refused(ErrorCode::MethodNotAllowed)) });
        Self(Arc::new(Control {
            server,
            router,
            body_bytes_max,
            is_local,
            refusing: Arc::new(Semaphore::new(REFUSED_CONNECTIONS_MAX)),
        }))
    }

    /// Serves one connection, which begins with `opening`, until it ends. The gate counts it from
    /// the call on.
    ///
    /// # Errors
    /// Why it broke outside of any request.
    pub fn serve_connection(
        &self,
        tcp: TcpStream,
        opening: Opening,
        peer: SocketAddr,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        serve_connection(&self.0, tcp, opening, peer)
    }

    /// Closes the door: no new connections and requests; what is left after `grace` is cut off.
    /// Returns when every connection is closed.
    pub async fn shut_down(&self, grace: Duration) {
        self.0.server.gate.shut_down(grace).await;
    }

    /// Connections that are open now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.0.server.gate.open_connections()
    }
}

impl std::fmt::Debug for ControlDoor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "ControlDoor({})", self.0.server.server_name)
    }
}

fn refused(code: ErrorCode) -> Error {
    Error::new(code, Side::Client, Phase::Open)
}

impl Service for Control {
    type Memory = ();
    // A segment may be a long list of identifiers.
    const NAMES_FILES: bool = false;

    fn server(&self) -> &Server {
        &self.server
    }

    async fn answer(&self, exchange: &mut Exchange<'_>, head: Result<RequestHead>, _memory: &mut ()) -> Fate {
        let answered = match head {
            Ok(head) => self.respond(exchange, &head).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &answered {
            answer::give_back(exchange, error);
        }
        exchange.end(answered).await
    }
}

/// A handler at work.
type Working = Pin<Box<dyn Future<Output = std::result::Result<Response, Infallible>> + Send>>;

impl Control {
    async fn respond(&self, exchange: &mut Exchange<'_>, head: &RequestHead) -> Result<()> {
        exchange.note_credential();
        if self.is_local {
            demand_local(head.host())?;
        }
        let (mut feed, body) = body::body_of(exchange, self.body_bytes_max);
        let request = request::request_of(head, body, Client::of(exchange))?;
        // A router is behind a pointer: the clone is cheap.
        let mut working: Working = Box::pin(self.router.clone().call(request));
        let response = tokio::select! {
            biased;
            response = &mut working => response.unwrap_or_else(|never| match never {}),
            never = feed.serve(exchange) => match never {},
            () = self.server.gate.aborting() => {
                return Err(Error::new(ErrorCode::Cancelled, Side::Active, Phase::Transfer));
            }
        };
        drop(working);
        if let Some(KnownBy(credential)) = response.extensions().get() {
            exchange.note_known_by(credential);
        }
        match feed.take_fault() {
            Some(fault) if !answer::is_refusal(&response, fault.code()) => Err(fault),
            _ => answer::send(exchange, response).await,
        }
    }
}
