//! Requests to services over HTTP that are no files: tape systems, token issuers.

use std::fmt;

use types::{Result, Secret};

use crate::client::Client;
use crate::protocol::Pending;
use crate::resource::Resource;

/// The method of a request to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceMethod {
    /// Asks for something. Redirects are followed, and a second attempt is made when a kept
    /// connection breaks.
    Get,
    /// As [`Self::Get`], at this place only: no redirect is followed.
    GetHere,
    /// Sends a document. It goes to this place only: no redirect is followed.
    Post,
    /// Replaces a document, with the rules of [`Self::Post`].
    Put,
    /// Removes something. No redirect is followed.
    Delete,
}

/// What goes with a signed message (<https://www.standardwebhooks.com>).
#[derive(Clone, Copy, Debug)]
pub struct WebhookHeaders<'a> {
    /// The message: the same for each attempt.
    pub id: &'a str,
    /// The time of this attempt, in seconds since 1970.
    pub timestamp_s: i64,
    /// The signature of both and of the body.
    pub signature: &'a str,
}

/// A request to a service.
#[derive(Clone, Copy, Debug)]
pub struct ServiceCall<'a> {
    /// The method.
    pub method: ServiceMethod,
    /// The media type of the body.
    pub content_type: &'a str,
    /// The body, with [`ServiceMethod::Post`] and [`ServiceMethod::Put`].
    pub body: &'a Secret,
    /// The name and secret of this program at the service (RFC 7617), instead of a token.
    pub login: Option<(&'a str, &'a Secret)>,
    /// The headers of a signed message to a webhook.
    pub webhook: Option<WebhookHeaders<'a>>,
    /// Longest answer, in bytes.
    pub answer_bytes_max: usize,
}

/// The answer of a service, whatever its status. The body may hold a credential.
#[derive(Clone, Debug)]
pub struct ServiceAnswer {
    /// The HTTP status.
    pub status: u16,
    /// Where the new thing is.
    pub location: Option<String>,
    /// Seconds after which it may be asked again.
    pub retry_after_s: Option<u64>,
    /// The body, as text.
    pub body: Secret,
}

impl ServiceAnswer {
    /// Whether the status is a success.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether the same may be sent again, later: the server has too much to do, or what stands
    /// before it does not reach it.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self.status, 429 | 502 | 503 | 504)
    }

    /// Whether it is elsewhere.
    #[must_use]
    pub fn is_redirect(&self) -> bool {
        (300..400).contains(&self.status)
    }

    /// Whether the service wants a delegated proxy first, as FTS3's REST API says it.
    #[must_use]
    pub fn asks_for_delegation(&self) -> bool {
        self.status == 419
    }

    /// Whether what was to be made exists already, or contradicts what exists (409).
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.status == 409
    }

    /// Whether the service refuses what was sent as malformed (400).
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        self.status == 400
    }

    /// Whether the service knows no such thing (404).
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.status == 404
    }
}

/// What a service is asked for that comes piece by piece.
#[derive(Clone, Copy, Debug)]
pub enum Streamed<'a> {
    /// Server-sent events.
    Events {
        /// Those after the one of this name; `None`: from now on.
        last_id: Option<&'a str>,
    },
    /// A document in JSON.
    Document,
}

/// The body of an answer that goes on, such as server-sent events, in one protocol.
pub trait BodyStream: fmt::Debug + Send {
    /// As [`ServiceStream::next`].
    fn next(&mut self) -> Pending<'_, Option<Vec<u8>>>;
}

/// The body of an answer that goes on. Dropping it closes the connection.
#[derive(Debug)]
pub struct ServiceStream(Box<dyn BodyStream>);

impl ServiceStream {
    /// The body of an answer in some protocol.
    #[must_use]
    pub fn new(body: impl BodyStream + 'static) -> Self {
        Self(Box::new(body))
    }

    /// What comes next; `None` at the end.
    ///
    /// # Errors
    /// A lost connection, or nothing came for the client's stall time.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        self.0.next().await
    }
}

impl Client {
    /// Asks a service for server-sent events (WHATWG HTML §9.2): those after the one named
    /// `last_id`, if it is given. An interrupted request is not repeated here.
    ///
    /// # Errors
    /// No connection, no answer, or a refusal; `peer_unsupported` for other protocols than HTTP.
    pub async fn events(&self, place: &Resource, last_id: Option<&str>) -> Result<ServiceStream> {
        let wanted = Streamed::Events { last_id };
        let asked: Pending<'_, ServiceStream> = self.protocol(place)?.stream(place, wanted);
        asked.await
    }

    /// Asks a service for a long document in JSON, which is not held in memory as a whole.
    ///
    /// # Errors
    /// As [`Client::events`].
    pub async fn document(&self, place: &Resource) -> Result<ServiceStream> {
        let asked: Pending<'_, ServiceStream> = self.protocol(place)?.stream(place, Streamed::Document);
        asked.await
    }

    /// Sends one request to a service at the URL of `place`.
    ///
    /// # Errors
    /// No connection, no answer, or one that is too long; `peer_unsupported` for other protocols
    /// than HTTP. A refusal is an answer.
    pub async fn call(&self, place: &Resource, call: &ServiceCall<'_>) -> Result<ServiceAnswer> {
        let asked: Pending<'_, ServiceAnswer> = self.protocol(place)?.call(place, call);
        asked.await
    }

    /// The error that a refusal of a service means, with its words.
    #[must_use]
    pub fn refusal_of(&self, place: &Resource, answer: &ServiceAnswer) -> types::Error {
        crate::http::service_refusal(place, answer)
    }
}
