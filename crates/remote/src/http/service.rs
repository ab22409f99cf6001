//! Requests to services that are no files.

use http_wire::{Method, RequestBuilder};
use types::{Error, Result, Secret};

use super::client::Client;
use super::exchange::{Ask, Body, Hop};
use super::verdict::{code_of, plain_words, refusal};
use crate::resource::Resource;
use crate::service::{ServiceAnswer, ServiceCall, ServiceMethod};

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
            match call.method {
                ServiceMethod::Post => request
                    .content_type(call.content_type)
                    .content_length(body.len() as u64),
                ServiceMethod::Get | ServiceMethod::Delete => request,
            }
        };
        let ask = Ask {
            method: match call.method {
                ServiceMethod::Get => Method::Get,
                ServiceMethod::Post => Method::Post,
                ServiceMethod::Delete => Method::Delete,
            },
            headers: &headers,
            body: match call.method {
                ServiceMethod::Post => Body::Small(body.as_bytes()),
                ServiceMethod::Get | ServiceMethod::Delete => Body::Nothing,
            },
        };
        let mut answer = match call.method {
            ServiceMethod::Get => self.ask(place, &ask).await?,
            ServiceMethod::Post | ServiceMethod::Delete => self.ask_here(place, &ask).await?,
        };
        let text = Secret::new(String::from_utf8_lossy(&answer.collect(call.answer_bytes_max).await?));
        let heard = ServiceAnswer {
            status: answer.head.status,
            location: answer.head.location().map(str::to_owned),
            retry_after_s: answer.head.retry_after(),
            body: text,
        };
        answer.release();
        Ok(heard)
    }
}

/// The error that a refusal means, with the words of the service.
pub(crate) fn service_refusal(place: &Resource, answer: &ServiceAnswer) -> Error {
    let words = plain_words(answer.body.expose().as_bytes(), false);
    refusal(place, code_of(answer.status), answer.status, &words)
}
