//! Requests to a queue by the REST API of FTS3, and the errors that its refusals mean.

use remote::{Resource, ServiceAnswer, ServiceCall, ServiceMethod};
use serde_json::Value;
use tokio::sync::OnceCell;
use types::{Error, ErrorCode, Location, Phase, Result, Secret, Side};

use super::server::Server;
use crate::client::named::NamedRemotes;
use crate::client::named_code;
use crate::client::session::ClientContext;
use crate::failure::{Advice, Failure};
use crate::limits::QUEUE_ANSWER_BYTES_MAX;

/// Judges the URL of a queue, which may be a place in a named remote: a long run does so before it
/// begins.
///
/// # Errors
/// `bad_url` if it is not an HTTP URL, with advice for this option.
pub(in crate::client) fn check_url(option: &str, url: &str) -> std::result::Result<(), Failure> {
    let named = NamedRemotes::default().url(url)?;
    checked(named.as_deref().unwrap_or(url))
        .map(drop)
        .map_err(|failure| Failure {
            advice: Some(Advice::Own(format!(
                "Give {option} a URL such as https://queue.example.org:8446."
            ))),
            ..failure
        })
}

/// The URL of a queue, without a slash at its end.
fn checked(url: &str) -> std::result::Result<String, Failure> {
    let url = url.trim_end_matches('/');
    let advice = "Give -s URL, or set CROSSLOAD_QUEUE, such as https://queue.example.org:8446.";
    if url.is_empty() {
        return Err(Failure::advised(
            &mistake(ErrorCode::BadUrl, "no queue is named"),
            advice,
        ));
    }
    match Location::parse(url).is_ok_and(|location| location.is_http()) {
        true => Ok(url.to_owned()),
        false => {
            let error = mistake(ErrorCode::BadUrl, "a queue has an https URL").with_subject(url);
            Err(Failure::advised(&error, advice))
        }
    }
}

/// A queue, as the user of this command.
pub(super) struct Queue<'a> {
    pub(super) session: &'a ClientContext,
    url: String,
    pub(super) server: OnceCell<Server>,
}

impl<'a> Queue<'a> {
    /// The queue at `url`, which may be a place in a named remote.
    ///
    /// # Errors
    /// `bad_url` if it is not an HTTP URL.
    pub(super) fn new(session: &'a ClientContext, url: &str) -> std::result::Result<Self, Failure> {
        Ok(Self {
            session,
            url: checked(&session.url(url)?)?,
            server: OnceCell::new(),
        })
    }

    /// A path of the API.
    ///
    /// # Errors
    /// `bad_url`.
    pub(super) fn place(&self, path: &str) -> Result<Resource> {
        let location = Location::parse(&format!("{}{path}", self.url))?;
        Ok(self.session.resource(&location, Side::Queue))
    }

    /// Sends a request, and returns the answer whatever its status.
    ///
    /// # Errors
    /// No connection or no answer.
    pub(super) async fn send(&self, method: ServiceMethod, path: &str, body: &Secret) -> Result<ServiceAnswer> {
        self.send_in(None, method, path, body).await
    }

    /// The same as a part of this trace.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(super) async fn send_in(
        &self,
        traceparent: Option<String>,
        method: ServiceMethod,
        path: &str,
        body: &Secret,
    ) -> Result<ServiceAnswer> {
        let call = ServiceCall {
            method,
            content_type: match path.ends_with("/credential") {
                true => "application/x-pem-file",
                false => "application/json",
            },
            body,
            login: None,
            webhook: None,
            answer_bytes_max: QUEUE_ANSWER_BYTES_MAX,
        };
        let mut place = self.place(path)?;
        place.access.traceparent = traceparent;
        let answer = self.session.client.call(&place, &call).await;
        answer.map_err(told_of_tls)
    }

    /// The answer to a request without a body, whatever its status.
    ///
    /// # Errors
    /// No connection or no answer.
    pub(super) async fn ask(&self, method: ServiceMethod, path: &str) -> Result<ServiceAnswer> {
        self.send(method, path, &Secret::new("")).await
    }

    /// The document of a successful answer; `null` for one without a body.
    ///
    /// # Errors
    /// The queue's refusal; `peer_misbehaved` if it is not JSON.
    pub(super) fn read(&self, path: &str, answer: &ServiceAnswer) -> Result<Value> {
        if !answer.is_success() {
            return Err(self.refusal(path, answer));
        }
        match answer.body.expose().trim() {
            "" => Ok(Value::Null),
            text => serde_json::from_str(text)
                .map_err(|cause| self.misbehaved(path, &format!("its answer is not JSON: {cause}"))),
        }
    }

    /// Asks for a document.
    ///
    /// # Errors
    /// As [`Self::send`] and [`Self::read`].
    pub(super) async fn get(&self, path: &str) -> Result<Value> {
        let (document, _) = self.get_measured(path).await?;
        Ok(document)
    }

    /// As [`Self::get`], with the length of the document in bytes.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(super) async fn get_measured(&self, path: &str) -> Result<(Value, usize)> {
        let answer = self.ask(ServiceMethod::Get, path).await?;
        Ok((self.read(path, &answer)?, answer.body.expose().len()))
    }

    /// Sends a document, and returns that of the answer.
    ///
    /// # Errors
    /// As [`Self::send`] and [`Self::read`].
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let body = Secret::new(body.to_string());
        let answer = self.send(ServiceMethod::Post, path, &body).await?;
        self.read(path, &answer)
    }

    /// The error that a refusal means. Our queue names it, and then it has the same meaning here.
    pub(super) fn refusal(&self, path: &str, answer: &ServiceAnswer) -> Error {
        let place = match self.place(path) {
            Ok(place) => place,
            Err(error) => return error,
        };
        let error = self.session.client.refusal_of(&place, answer);
        if answer.is_missing() && path == "/whoami" {
            // Each queue has this path.
            return error.with_detail("this server is no queue: check -s or CROSSLOAD_QUEUE");
        }
        let body: Value = serde_json::from_str(answer.body.expose()).unwrap_or_default();
        let name = [&body["code"], &body["error"]["code"]]
            .into_iter()
            .find_map(Value::as_str);
        let known = ErrorCode::ALL.iter().copied().find(|code| Some(code.name()) == name);
        // A refused credential has a status of HTTP; a refused path means that this is no queue.
        let of_text = || named_code(answer.body.expose()).filter(|_| !answer.is_missing());
        let meant = match known.or_else(of_text) {
            Some(code) => code,
            // FTS's routes name no code.
            None if answer.is_malformed() => ErrorCode::BadRequest,
            None if answer.is_missing() && body.is_null() => {
                return error.with_detail("this server is no queue: check -s or CROSSLOAD_QUEUE");
            }
            None => return error,
        };
        Error::new(meant, Side::Queue, error.phase())
            .with_subject(&place.location)
            .with_peer(error.peer_status(), error.peer_words().unwrap_or_default())
    }

    /// The error for an answer that breaks the rules.
    pub(super) fn misbehaved(&self, path: &str, words: &str) -> Error {
        let error = Error::new(ErrorCode::PeerMisbehaved, Side::Queue, Phase::Open).with_detail(words);
        error.with_subject(format!("{}{path}", self.url))
    }
}

/// The error with what it often means: a server without a certificate closes a connection that
/// begins with TLS.
pub(super) fn told_of_tls(error: Error) -> Error {
    match (error.phase(), error.code()) {
        (Phase::Tls, ErrorCode::PeerClosed) => {
            error.with_detail("does the server speak TLS? A queue without a certificate has an http URL")
        }
        _ => error,
    }
}

/// Whether a name can stand in a path as it is.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// A value within a query.
pub(super) fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// A mistake of the user.
pub(super) fn mistake(code: ErrorCode, words: &str) -> Error {
    Error::new(code, Side::Client, Phase::Open).with_detail(words)
}
