//! Requests to services that are no files.

use std::fmt;

use http_wire::{Method, RequestBuilder};
use serde_json::Value;
use types::{Error, Result, Secret};

use super::answer::Answer;
use super::client::Client;
use super::exchange::{Ask, Body, Hop};
use super::verdict::{code_of, plain_words, refusal};
use crate::limits::REFUSAL_BYTES_MAX;
use crate::protocol::Pending;
use crate::resource::Resource;
use crate::service::{BodyStream, ServiceAnswer, ServiceCall, ServiceMethod, ServiceStream, Streamed};

impl Client {
    /// Sends one request to a service.
    ///
    /// # Errors
    /// No connection, no answer, or one that is too long.
    pub(crate) async fn call(&self, place: &Resource, call: &ServiceCall<'_>) -> Result<ServiceAnswer> {
        let body = call.body.expose();
        let headers = |request: RequestBuilder, hop: &Hop<'_>| {
            let request = request.accept("application/json");
            let request = match call.login.filter(|_| !hop.left_tls) {
                Some((name, secret)) => request.basic(name, secret),
                None => request,
            };
            let request = match call.webhook {
                Some(webhook) => request.webhook(webhook.id, webhook.timestamp_s, webhook.signature),
                None => request,
            };
            match call.method {
                ServiceMethod::Post | ServiceMethod::Put => request
                    .content_type(call.content_type)
                    .content_length(body.len() as u64),
                ServiceMethod::Get | ServiceMethod::GetHere | ServiceMethod::Delete => request,
            }
        };
        let ask = Ask {
            method: match call.method {
                ServiceMethod::Get | ServiceMethod::GetHere => Method::Get,
                ServiceMethod::Post => Method::Post,
                ServiceMethod::Put => Method::Put,
                ServiceMethod::Delete => Method::Delete,
            },
            headers: &headers,
            body: match call.method {
                ServiceMethod::Post | ServiceMethod::Put => Body::Small(body.as_bytes()),
                ServiceMethod::Get | ServiceMethod::GetHere | ServiceMethod::Delete => Body::Nothing,
            },
        };
        let mut answer = match call.method {
            ServiceMethod::Get => self.ask(place, &ask).await?,
            ServiceMethod::GetHere | ServiceMethod::Post | ServiceMethod::Put | ServiceMethod::Delete => {
                self.ask_here(place, &ask).await?
            }
        };
        let status = answer.head.status;
        let collected = answer.collect(call.answer_bytes_max).await;
        // A receiver says what counts in the status, and may say more than anybody reads.
        if collected.is_err() && call.webhook.is_some() && (200..300).contains(&status) {
            return Ok(ServiceAnswer {
                status,
                location: None,
                retry_after_s: None,
                body: Secret::new(""),
            });
        }
        let text = Secret::new(String::from_utf8_lossy(&collected?));
        let heard = ServiceAnswer {
            status,
            location: answer.head.location().map(str::to_owned),
            retry_after_s: answer.head.retry_after(),
            body: text,
        };
        answer.release();
        Ok(heard)
    }

    /// As [`crate::Client::events`] and [`crate::Client::document`].
    ///
    /// # Errors
    /// No connection, no answer, or a refusal.
    pub(crate) async fn stream(&self, place: &Resource, wanted: Streamed<'_>) -> Result<ServiceStream> {
        let headers = |request: RequestBuilder, _: &Hop<'_>| match wanted {
            Streamed::Events { last_id: Some(id) } => request.accept("text/event-stream").last_event_id(id),
            Streamed::Events { last_id: None } => request.accept("text/event-stream"),
            Streamed::Document => request.accept("application/json"),
        };
        let ask = Ask {
            method: Method::Get,
            headers: &headers,
            body: Body::Nothing,
        };
        let mut answer = self.ask(place, &ask).await?;
        if answer.is_success() {
            return Ok(ServiceStream::new(Pieces(answer)));
        }
        let text = Secret::new(String::from_utf8_lossy(&answer.collect(REFUSAL_BYTES_MAX).await?));
        let heard = ServiceAnswer {
            status: answer.head.status,
            location: None,
            retry_after_s: answer.head.retry_after(),
            body: text,
        };
        answer.release();
        Err(service_refusal(place, &heard))
    }
}

/// A body as it comes.
struct Pieces(Answer);

impl fmt::Debug for Pieces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Pieces({})", self.0.file.location)
    }
}

impl BodyStream for Pieces {
    fn next(&mut self) -> Pending<'_, Option<Vec<u8>>> {
        Box::pin(async {
            let batch = self.0.next().await?;
            Ok(batch.map(|batch| batch.slices().flatten().copied().collect()))
        })
    }
}

/// The error that a refusal means, with the words of the service.
pub(crate) fn service_refusal(place: &Resource, answer: &ServiceAnswer) -> Error {
    let body = answer.body.expose();
    let words = sentence(body).unwrap_or_else(|| plain_words(body.as_bytes(), false));
    refusal(place, code_of(answer.status), answer.status, &words)
}

/// The sentence for people in a refusal that is JSON: of FTS (`message`, for one of several
/// `http_message`), of our queue (`error.message`), of problem details (RFC 9457 `detail`), and of
/// OAuth (RFC 6749 §5.2 `error_description`).
fn sentence(body: &str) -> Option<String> {
    let told: Value = serde_json::from_str(body).ok()?;
    let places = [
        &told["message"],
        &told["http_message"],
        &told["error"]["message"],
        &told["detail"],
        &told["error_description"],
    ];
    let words = places.into_iter().find_map(Value::as_str)?;
    Some(words.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_of_a_refusal_is_found() {
        for (body, words) in [
            (
                r#"{"status": "403 Forbidden", "message": "https://a\n is banned"}"#,
                Some("https://a is banned"),
            ),
            (r#"{"job_id": "x", "http_message": "No job"}"#, Some("No job")),
            (
                r#"{"error": {"code": "forbidden", "message": "no right"}}"#,
                Some("no right"),
            ),
            (r#"{"title": "t", "detail": "not on tape"}"#, Some("not on tape")),
            (
                r#"{"error": "invalid_grant", "error_description": "expired"}"#,
                Some("expired"),
            ),
            (r#"{"access_token": "secret"}"#, None),
            ("no such thing", None),
        ] {
            assert_eq!(sentence(body).as_deref(), words, "{body}");
        }
    }
}
