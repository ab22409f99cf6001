//! How a session begins and ends: `protocol`, TLS, login, authentication, further streams.

use std::sync::Arc;

use credentials::Credential;
use types::{Error, ErrorCode, Phase, Side};
use xroot_wire::ServerFlags;
use xroot_wire::limits::PROTOCOL_VERSION;
use xroot_wire::request::{Authenticate, Bind, EndSession, Login, Protocol};
use xroot_wire::response::{LoginReply, ProtocolReply};

use crate::authenticate::{Identity, offered, verify};
use crate::connection::Next;
use crate::exchange::Exchange;
use crate::failure::{Failure, Result};
use crate::files::{Files, OpenFile};
use crate::sessions::Registration;

/// As much of what a client says about itself goes to the log.
const LOGGED_CHARS: usize = 256;

/// A session: who the client is, and what it has open.
pub(crate) struct Session {
    pub(crate) registration: Registration,
    /// The user that the client named.
    pub(crate) user: String,
    /// User name and process number as the client gave them, by which servers name it to each other.
    pub(crate) caller: String,
    /// The client's program.
    pub(crate) agent: Option<String>,
    /// Whether answers may come by themselves.
    pub(crate) takes_late_answers: bool,
    pub(crate) credential: Arc<Credential>,
    pub(crate) files: Files,
}

impl Session {
    pub(crate) fn has_open_files(&self) -> bool {
        !self.files.is_empty()
    }

    pub(crate) fn take_files(&mut self) -> Vec<OpenFile> {
        self.files.take_all()
    }
}

/// Answers `protocol`: what we are, and whether TLS begins.
pub(crate) fn protocol(exchange: &mut Exchange<'_>, request: &Protocol) -> Result<Next> {
    let connection = &mut exchange.connection;
    let decision = connection
        .door
        .settings
        .effective_tls()
        .decide(request, connection.gate.is_secure());
    connection.gate.on_protocol(request);
    let offers = match request.version {
        0 => ServerFlags::empty(),
        _ => ServerFlags::PERSIST_ON_CLOSE | ServerFlags::PAGES,
    };
    let reply = ProtocolReply {
        version: PROTOCOL_VERSION,
        flags: ServerFlags::SERVER | offers | decision.flags,
        bind_interfaces: None,
        signing: None,
    };
    exchange.ok(&reply.encode());
    Ok(if decision.upgrade { Next::Tls } else { Next::Request })
}

fn tls_required() -> Failure {
    Error::new(ErrorCode::TlsRequired, Side::Client, Phase::Authenticate).into()
}

/// Answers a login with the session's id, and with the ways to authenticate where that is needed.
pub(crate) fn login(exchange: &mut Exchange<'_>, request: &Login<'_>) -> Result<Next> {
    let connection = &mut exchange.connection;
    let (settings, gate) = (&connection.door.settings, &connection.gate);
    let tls = settings.effective_tls();
    tls.admits_login(gate.is_able(), gate.expect(), gate.is_secure())?;
    if tls.session && !gate.is_able() && !tls.only_capable {
        return Err(tls_required());
    }
    let protocols = offered(settings, gate.is_secure());
    if protocols.is_empty() && !settings.authentication.is_empty() {
        return Err(tls_required());
    }
    let agent = request
        .cgi()
        .value("xrd.appname")
        .map(|name| name.chars().take(LOGGED_CHARS).collect());
    let session = Session {
        registration: connection.door.sessions.register(connection.peer.ip().to_canonical()),
        user: request.user.to_text(),
        caller: format!("{}.{}", request.user.to_text(), request.process),
        agent,
        takes_late_answers: request.takes_late_answers(),
        credential: connection
            .door
            .settings
            .authenticator
            .certificates(connection.frames.stream.peer_certificates()),
        files: Files::new(settings.limits.handles),
    };
    let upgrade = connection.gate.on_login(!protocols.is_empty(), &tls);
    let reply = LoginReply {
        session: session.registration.id(),
        protocols,
    };
    connection.session = Some(session);
    exchange.ok(&reply.encode());
    Ok(if upgrade { Next::Tls } else { Next::Request })
}

/// Answers one step of an authentication; all that are offered have one step only.
pub(crate) async fn authenticate(exchange: &mut Exchange<'_>, request: &Authenticate<'_>) -> Result<Next> {
    let connection = &mut exchange.connection;
    if connection.gate.is_ready() {
        exchange.ok(&[]);
        return Ok(Next::Request);
    }
    let identity = verify(&connection.door.settings, request, connection.gate.is_secure()).await;
    let identity = match identity {
        Ok(identity) => identity,
        Err(failure) if connection.gate.on_authentication_failed() => return Err(failure),
        Err(failure) => return Err(failure.closing()),
    };
    let tls = connection.door.settings.effective_tls();
    let upgrade = connection.gate.on_authenticated(&tls);
    let address = connection.peer.ip().to_canonical();
    if let Some(session) = &mut connection.session {
        match identity {
            Identity::Bearer(credential) => session.credential = credential,
            Identity::User(name) => session.user = name,
            Identity::Host => session.user = address.to_string(),
        }
        let identity = session.credential.identity();
        exchange.record.credential = identity.kind.name();
        exchange.record.subject = identity.subject;
        exchange.record.token_id = identity.token_id;
    }
    exchange.ok(&[]);
    Ok(if upgrade { Next::Tls } else { Next::Request })
}

/// Makes the connection a further stream of a session.
pub(crate) fn bind(exchange: &mut Exchange<'_>, request: &Bind) -> Result<Next> {
    let connection = &mut exchange.connection;
    let tls = connection.door.settings.effective_tls();
    tls.admits_bind(connection.gate.is_able(), connection.gate.is_secure())?;
    let client = connection.peer.ip().to_canonical();
    let binding = connection.door.sessions.bind(&request.session, client)?;
    connection.gate.on_bound();
    exchange.ok(&[binding.path]);
    Ok(Next::Bound(binding))
}

/// Ends a session. Ending one's own closes the connection without a word; one that is not there any more
/// has ended.
pub(crate) fn end_session(exchange: &mut Exchange<'_>, request: &EndSession) -> Result<Next> {
    let connection = &mut exchange.connection;
    let own = connection
        .session
        .as_ref()
        .is_some_and(|session| session.registration.id() == request.session);
    if own {
        return Ok(Next::Close);
    }
    let client = connection.peer.ip().to_canonical();
    if connection.door.sessions.belongs_to(&request.session, client) == Some(false) {
        let foreign = Error::new(ErrorCode::Forbidden, Side::Client, Phase::Authorize);
        return Err(foreign.with_detail("the session is that of another host").into());
    }
    exchange.ok(&[]);
    Ok(Next::Request)
}
