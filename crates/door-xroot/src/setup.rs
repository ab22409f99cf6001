//! The requests that begin and end a session: `protocol`, login, authentication, further streams.

use credentials::Credential;
use types::{Error, ErrorCode, Phase, Side};
use xroot_wire::limits::PROTOCOL_VERSION;
use xroot_wire::request::{Authenticate, Bind, EndSession, Login, Protocol};
use xroot_wire::response::{LoginReply, ProtocolReply};
use xroot_wire::{LoginAbilities, ServerFlags};

use crate::authenticate::{Identity, Progressed, offered, verify};
use crate::connection::{Connection, Next};
use crate::elsewhere;
use crate::exchange::Exchange;
use crate::failure::{Failure, Result};
use crate::files::Files;
use crate::redirects::Redirects;
use crate::session::Session;
use crate::settings::AuthenticationMethod;
use crate::shared::Shared;

/// Longest name of a client's program in the log, in characters.
const LOGGED_CHARS: usize = 256;

/// Answers `protocol`: what this server is, and whether TLS begins.
pub(crate) fn protocol(exchange: &mut Exchange<'_>, request: &Protocol) -> Result<Next> {
    let connection = &mut exchange.connection;
    let decision = connection
        .door
        .settings
        .effective_tls()
        .decide(request, connection.state.is_secure());
    connection.state.on_protocol(request);
    let offers = match request.version {
        0 => ServerFlags::empty(),
        _ => ServerFlags::PERSIST_ON_CLOSE | ServerFlags::PAGES,
    };
    // A client returns to a manager from a server that fails. One that is a server as well would
    // blame this server instead of that one.
    let role = match elsewhere::is_redirector(&exchange.exports) {
        true => ServerFlags::MANAGER,
        false => ServerFlags::SERVER,
    };
    let reply = ProtocolReply {
        version: PROTOCOL_VERSION,
        flags: role | offers | decision.flags,
        bind_interfaces: None,
        signing: None,
    };
    exchange.ok(&reply.encode());
    Ok(if decision.upgrade { Next::Tls } else { Next::Request })
}

fn tls_required() -> Failure {
    Error::new(ErrorCode::TlsRequired, Side::Client, Phase::Authenticate).into()
}

/// Why no way to authenticate can be offered. Tokens need TLS. A certificate that `gsi` cannot use
/// is the server's own fault, and the client can do nothing about it.
fn nothing_to_offer(door: &Shared, is_secure: bool) -> Failure {
    let takes_tokens = door.settings.authentication.contains(&AuthenticationMethod::Token);
    if takes_tokens && !is_secure {
        return tls_required();
    }
    door.gsi.fault(&door.settings).map_or_else(tls_required, Failure::from)
}

/// Answers a login with the session's id, and with the ways to authenticate if that is required.
pub(crate) fn login(exchange: &mut Exchange<'_>, request: &Login<'_>) -> Result<Next> {
    let connection = &mut exchange.connection;
    let (settings, state) = (&connection.door.settings, &connection.state);
    let tls = settings.effective_tls();
    tls.admits_login(state.is_able(), state.expect(), state.is_secure())?;
    if tls.session && !state.is_able() && !tls.only_capable {
        return Err(tls_required());
    }
    let protocols = match &*connection.certificate_holder {
        // The certificate has authenticated the client already.
        Credential::Certificate(_) => Vec::new(),
        _ => {
            let protocols = offered(&connection.door, state.is_secure());
            if protocols.is_empty() && !settings.authentication.is_empty() {
                return Err(nothing_to_offer(&connection.door, state.is_secure()));
            }
            protocols
        }
    };
    let agent = request
        .cgi()
        .value("xrd.appname")
        .map(|name| name.chars().take(LOGGED_CHARS).collect());
    let session = Session {
        registration: connection.door.sessions.register(connection.peer.ip().to_canonical()),
        user: request.user.to_text(),
        caller: format!("{}.{}", request.user.to_text(), request.process),
        process: request.process,
        agent,
        takes_late_answers: request.takes_late_answers(),
        understands_urls: request.abilities.contains(LoginAbilities::FULL_URL),
        credential: connection.certificate_holder.clone(),
        progress: None,
        files: Files::new(settings.limits.handles),
        redirects: Redirects::default(),
        listed: None,
        counted: None,
    };
    let upgrade = connection.state.on_login(!protocols.is_empty(), &tls);
    let reply = LoginReply {
        session: session.registration.id(),
        protocols,
    };
    connection.session = Some(session);
    connection.identify().map_err(Failure::closing)?;
    exchange.ok(&reply.encode());
    Ok(if upgrade { Next::Tls } else { Next::Request })
}

/// Answers one step of an authentication.
pub(crate) async fn authenticate(exchange: &mut Exchange<'_>, request: &Authenticate<'_>) -> Result<Next> {
    let connection = &mut exchange.connection;
    if connection.state.is_ready() {
        exchange.ok(&[]);
        return Ok(Next::Request);
    }
    let progress = connection.session.as_mut().and_then(|session| session.progress.take());
    let verified = verify(&connection.door, request, progress, connection.state.is_secure()).await;
    let settled = verified.and_then(|(progressed, delegation)| {
        if let Some(delegation) = delegation {
            exchange.record.delegation = Some(delegation.step);
            exchange.record.delegation_error = delegation.error.as_ref().map(Into::into);
        }
        settle(connection, progressed)
    });
    let answer = match settled {
        Ok(answer) => answer,
        Err(failure) if connection.state.on_authentication_failed() => return Err(failure),
        Err(failure) => return Err(failure.closing()),
    };
    if let Some(session) = &connection.session {
        let identity = session.credential.identity();
        exchange.record.credential = identity.kind.name();
        exchange.record.subject = identity.subject;
        exchange.record.token_id = identity.token_id;
    }
    if let Some(answer) = answer {
        exchange.more(&answer);
        return Ok(Next::Request);
    }
    let tls = exchange.connection.door.settings.effective_tls();
    let upgrade = exchange.connection.state.on_authenticated(&tls);
    exchange.connection.identify().map_err(Failure::closing)?;
    exchange.ok(&[]);
    Ok(if upgrade { Next::Tls } else { Next::Request })
}

/// Takes over the result of an authentication step. Returns the answer if another step must follow.
fn settle(connection: &mut Connection, progressed: Progressed) -> Result<Option<Vec<u8>>> {
    let address = connection.peer.ip().to_canonical();
    let session = connection.session()?;
    let identity = match progressed {
        Progressed::More(answer, progress) => {
            session.progress = Some(progress);
            return Ok(Some(answer));
        }
        Progressed::Done(identity) => identity,
    };
    match identity {
        Identity::Bearer(credential) => session.credential = credential,
        Identity::Holder(credential) => {
            // An untrusted certificate is kept too: if the client continues as anonymous, refusals
            // give that reason.
            session.credential = credential;
            if let Credential::RefusedCertificate(error) = &*session.credential {
                return Err(Error::clone(error).into());
            }
        }
        Identity::User(name) => session.user = name,
        Identity::Host => session.user = address.to_string(),
    }
    Ok(None)
}

/// Makes the connection a further stream of a session.
pub(crate) fn bind(exchange: &mut Exchange<'_>, request: &Bind) -> Result<Next> {
    let connection = &mut exchange.connection;
    let tls = connection.door.settings.effective_tls();
    tls.admits_bind(connection.state.is_able(), connection.state.is_secure())?;
    let client = connection.peer.ip().to_canonical();
    let binding = connection.door.sessions.bind(&request.session, client)?;
    connection.state.on_bound();
    exchange.ok(&[binding.path]);
    Ok(Next::Bound(binding))
}

/// Ends a session. Ending the connection's own session closes it without an answer; a session that
/// does not exist counts as ended.
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
