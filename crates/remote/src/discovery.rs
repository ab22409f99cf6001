//! What an issuer says of itself (OpenID Connect Discovery 1.0 §3, §4), and how long that counts.
//!
//! The document is asked for again after a while, and after a failure: an issuer that was mended,
//! or whose endpoints have moved, is used again without a restart. An endpoint is looked at when it
//! is used: one that is not needed does no harm.

use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use types::{Error, ErrorCode, Location, Phase, Result, Secret, Side};
use url::Url;

use crate::client::Client;
use crate::limits::{
    ISSUER_ANSWER_BYTES_MAX, ISSUER_DOCUMENT_LIFE, ISSUER_DOCUMENT_PAUSE, ISSUER_DOCUMENT_RENEWAL_TIME,
};
use crate::resource::{Access, Resource};
use crate::service::{ServiceCall, ServiceMethod};

/// What a request for a document has no need of, but names.
const FORM: &str = "application/x-www-form-urlencoded";
/// Where an issuer says what it can do (OpenID Connect Discovery §4).
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// What an issuer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Token,
    Device,
    Revocation,
}

impl Purpose {
    /// The name of its endpoint in the document.
    fn member(self) -> &'static str {
        match self {
            Self::Token => "token_endpoint",
            Self::Device => "device_authorization_endpoint",
            Self::Revocation => "revocation_endpoint",
        }
    }

    /// The same in words.
    fn words(self) -> &'static str {
        match self {
            Self::Token => "token endpoint",
            Self::Device => "device authorization endpoint",
            Self::Revocation => "revocation endpoint",
        }
    }
}

/// A discovery document, and until when it counts.
#[derive(Debug)]
struct Known {
    document: Value,
    until: Instant,
}

/// What an issuer says of itself.
#[derive(Debug)]
pub(crate) struct Discovery {
    issuer: String,
    client: Client,
    side: Side,
    known: Mutex<Option<Known>>,
}

impl Discovery {
    /// That of this issuer, which is asked by `client`; errors name `side`.
    pub(crate) fn new(issuer: String, client: Client, side: Side) -> Self {
        Self {
            issuer,
            client,
            side,
            known: Mutex::new(None),
        }
    }

    /// Where the issuer is asked for something.
    pub(crate) async fn endpoint(&self, purpose: Purpose) -> Result<Location> {
        let document = self.document().await?;
        let place = match document[purpose.member()].as_str() {
            Some(url) => self.secure(url, purpose),
            None => Err(self.unusable(&format!("its discovery document names no {}", purpose.words()))),
        };
        // Perhaps it is mended soon.
        place.inspect_err(|_| self.forget())
    }

    /// The URL of an endpoint.
    pub(crate) fn secure(&self, url: &str, purpose: Purpose) -> Result<Location> {
        let place = Location::parse(url).ok();
        let place = place.filter(|place| place.is_http() && place.is_encrypted());
        place.ok_or_else(|| self.unusable(&format!("its {} has no https URL", purpose.words())))
    }

    /// The page of the issuer where people sign in.
    pub(crate) async fn sign_in_page(&self) -> Result<Url> {
        let document = self.document().await?;
        let page = document["authorization_endpoint"].as_str().and_then(sign_in_page);
        page.ok_or_else(|| {
            self.forget();
            self.unusable("its discovery document names no authorization endpoint with an https URL")
        })
    }

    /// Whether its answers to the browser name the issuer (RFC 9207 §3).
    pub(crate) async fn names_itself(&self) -> Result<bool> {
        let document = self.document().await?;
        Ok(document["authorization_response_iss_parameter_supported"] == true)
    }

    /// Makes the next request ask for the document again.
    pub(crate) fn forget(&self) {
        // Who holds it is asking for a new one.
        if let Ok(mut known) = self.known.try_lock() {
            *known = None;
        }
    }

    async fn document(&self) -> Result<Value> {
        let mut known = self.known.lock().await;
        match &mut *known {
            Some(known) if Instant::now() < known.until => Ok(known.document.clone()),
            // While the issuer does not say anything else, what it has said before counts.
            Some(known) => {
                let asked = timeout(ISSUER_DOCUMENT_RENEWAL_TIME, self.discover()).await;
                let life = match asked {
                    Ok(Ok(document)) => {
                        known.document = document;
                        ISSUER_DOCUMENT_LIFE
                    }
                    Ok(Err(_)) | Err(_) => ISSUER_DOCUMENT_PAUSE,
                };
                known.until = Instant::now() + life;
                Ok(known.document.clone())
            }
            None => {
                let document = self.discover().await?;
                let until = Instant::now() + ISSUER_DOCUMENT_LIFE;
                *known = Some(Known {
                    document: document.clone(),
                    until,
                });
                Ok(document)
            }
        }
    }

    async fn discover(&self) -> Result<Value> {
        let issuer = &self.issuer;
        let place = Location::parse(&format!("{}{DISCOVERY}", issuer.trim_end_matches('/')))?;
        let place = self.resource(place);
        let nothing = Secret::new("");
        let call = ServiceCall {
            method: ServiceMethod::GetHere,
            content_type: FORM,
            body: &nothing,
            login: None,
            webhook: None,
            answer_bytes_max: ISSUER_ANSWER_BYTES_MAX,
        };
        let answer = self.client.call(&place, &call).await?;
        if answer.is_redirect() {
            // As for its keys: what it says of itself is at its own name.
            return Err(self.unusable("its discovery document is a redirect, and those are not followed"));
        }
        if !answer.is_success() {
            return Err(self.client.refusal_of(&place, &answer));
        }
        let document: Value = serde_json::from_str(answer.body.expose()).unwrap_or_default();
        match document["issuer"].as_str() == Some(issuer) {
            true => Ok(document),
            false => Err(self.unusable("its discovery document names another issuer")),
        }
    }

    /// A place of the issuer.
    pub(crate) fn resource(&self, location: Location) -> Resource {
        Resource {
            location,
            access: Access::default(),
            side: self.side,
        }
    }

    /// The issuer cannot be used.
    pub(crate) fn unusable(&self, why: &str) -> Error {
        let error = Error::new(ErrorCode::TokenIssuerUnreachable, self.side, Phase::Authenticate);
        error.with_detail(format!("{}: {why}", self.issuer))
    }
}

/// The page of an issuer where people sign in, if its URL can be one: over TLS and without a
/// fragment (RFC 6749 §3.1).
fn sign_in_page(url: &str) -> Option<Url> {
    let page = Url::parse(url).ok()?;
    let is_plain = page.username().is_empty() && page.password().is_none() && page.fragment().is_none();
    (page.scheme() == "https" && is_plain).then_some(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_sent_to_pages_over_tls_only() {
        assert!(sign_in_page("https://i.example/authorize?tenant=a").is_some());
        for bad in [
            "http://i.example/authorize",
            "https://u:p@i.example/authorize",
            "https://i.example/authorize#there",
            "javascript:alert(1)",
            "/authorize",
            "",
        ] {
            assert!(sign_in_page(bad).is_none(), "{bad}");
        }
    }
}
