//! A request as a handler gets it.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Request, Version, header};
use credentials::Credential;
use http_wire::RequestHead;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::answer::Refusal;
use crate::exchange::Exchange;

/// Who sent a request, and how; an extractor for handlers.
#[derive(Clone, Debug)]
pub struct Client {
    /// The client's address.
    pub address: SocketAddr,
    /// Whether the connection is encrypted.
    pub is_encrypted: bool,
    /// The request's name, under which the log has it.
    pub request_id: String,
    /// The trace context of the request, if the client sent one.
    pub traceparent: Option<String>,
    credential: Result<Arc<Credential>>,
}

/// The credential of a client that a door knows by something of its own, such as the session of a
/// browser. A handler puts it into the extensions of its answer; the log then names the client.
#[derive(Clone, Debug)]
pub struct KnownBy(pub Arc<Credential>);

impl Client {
    pub(super) fn of(exchange: &Exchange<'_>) -> Self {
        Self {
            address: exchange.peer,
            is_encrypted: exchange.connection.stream.is_encrypted(),
            request_id: exchange.record.request_id.clone(),
            traceparent: exchange.record.parent_span.and(exchange.record.traceparent.clone()),
            credential: exchange.credential.clone(),
        }
    }

    /// What the client has shown: the token of the request, the certificate of the connection, or
    /// nothing. For pages that anonymous clients may use: a client with a refused certificate is
    /// one of them.
    ///
    /// # Errors
    /// A token that was refused, or a client that holds too many connections.
    pub fn credential(&self) -> std::result::Result<&Arc<Credential>, Refusal> {
        self.credential.as_ref().map_err(|error| Refusal::from(error.clone()))
    }

    /// The credential of a client that must show one.
    ///
    /// # Errors
    /// As [`Client::credential`]; `unauthenticated` for an anonymous client, or why its certificate
    /// was refused.
    pub fn identified(&self) -> std::result::Result<&Arc<Credential>, Refusal> {
        let credential = self.credential()?;
        match &**credential {
            Credential::Anonymous => {
                let error = Error::new(ErrorCode::Unauthenticated, Side::Client, Phase::Authenticate);
                Err(error.into())
            }
            Credential::RefusedCertificate(error) => Err((**error).clone().into()),
            _ => Ok(credential),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> std::result::Result<Self, Refusal> {
        let missing = || {
            let error = Error::new(ErrorCode::Internal, Side::Active, Phase::Authenticate);
            Refusal::from(error.with_private("the router serves a request that no control door has brought"))
        };
        parts.extensions.get::<Self>().cloned().ok_or_else(missing)
    }
}

/// The request for a handler.
///
/// # Errors
/// `bad_request` for a target or header that cannot be a URI or header value.
pub(super) fn request_of(head: &RequestHead, body: Body, client: Client) -> Result<Request<Body>> {
    let target = match &head.target.query {
        Some(query) => format!("{}?{query}", head.target.path_raw),
        None => head.target.path_raw.clone(),
    };
    let mut request = Request::builder()
        .method(head.method.name())
        .uri(target)
        .version(match head.version {
            http_wire::Version::Http10 => Version::HTTP_10,
            http_wire::Version::Http11 => Version::HTTP_11,
        })
        .body(body)
        .map_err(|cause| unusable("the request line", &cause))?;
    let headers = request.headers_mut();
    for (name, value) in head.headers.iter() {
        let name = HeaderName::try_from(name).map_err(|cause| unusable("a header's name", &cause))?;
        let mut value = HeaderValue::try_from(value).map_err(|cause| unusable("a header", &cause))?;
        value.set_sensitive(name == header::AUTHORIZATION);
        headers.append(name, value);
    }
    if let Some(authority) = &head.target.authority {
        let host = HeaderValue::try_from(authority).map_err(|cause| unusable("the host", &cause))?;
        headers.insert(header::HOST, host);
    }
    request.extensions_mut().insert(client);
    Ok(request)
}

fn unusable(what: &str, cause: &dyn std::fmt::Display) -> Error {
    let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open);
    error.with_detail(format!("{what} cannot be used: {cause}"))
}
