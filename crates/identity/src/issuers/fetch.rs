//! Fetching an issuer's keys: discovery, then the key set. Over HTTPS only, no redirect is
//! followed, and all of it has one deadline.

use std::time::Duration;

use credentials::{KeySet, https_location, key_set_place};
use http_wire::{HeadLimits, Method, RequestBuilder};
use net::address::AddressPolicy;
use net::dial::dial;
use net::http::Connection;
use net::tls::ClientTls;
use net::{Role, Stream, Waits};
use types::limits::ISSUER_DOCUMENT_BYTES_MAX;
use types::{Error, ErrorCode, Phase, Result, Side};

/// The side of an issuer: none of a transfer's, so its faults are reported as details of our own.
const SIDE: Side = Side::Source;

/// How long one step of a fetch may wait. What a site sets is the time for all of it, which ends
/// sooner, so that the words are the same whichever step it was: with limits alike, a busy machine
/// would let the one or the other be noticed first.
const STEP_TIMEOUT: Duration = Duration::from_secs(3600);

/// How issuers are asked.
#[derive(Clone)]
pub struct KeyFetcher {
    /// Whose certificates are believed.
    pub tls: ClientTls,
    /// For all of it: connecting, discovery and keys.
    pub timeout: Duration,
    /// Our name and version.
    pub user_agent: String,
}

impl std::fmt::Debug for KeyFetcher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("KeyFetcher")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Keys as they came from an issuer.
#[derive(Clone, Debug)]
pub struct FetchedKeys {
    /// The keys.
    pub keys: KeySet,
    /// The document in which they were.
    pub document: Vec<u8>,
}

impl KeyFetcher {
    /// Fetches the keys of the issuer with this name: `<issuer>/.well-known/openid-configuration`
    /// (OpenID Connect Discovery 1.0 §4), else the place of RFC 8414 §3.1, tells where they are.
    ///
    /// # Errors
    /// `token_issuer_unreachable`; the detail says at which step and why.
    pub async fn fetch(&self, issuer: &str) -> Result<FetchedKeys> {
        match tokio::time::timeout(self.timeout, self.fetch_all(issuer)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let words = format!(
                    "{issuer} gave no complete answer within {} ms",
                    self.timeout.as_millis()
                );
                Err(unreachable(words))
            }
        }
    }

    async fn fetch_all(&self, issuer: &str) -> Result<FetchedKeys> {
        let place = self.discover(issuer).await?;
        let document = match self.document(&place, "the key set").await? {
            Answer::Document(document) => document,
            Answer::Refused(status) => {
                return Err(unreachable(format!("the key set {place} is answered with {status}")));
            }
        };
        let keys = KeySet::parse(&document)
            .map_err(|error| unreachable(format!("{place}: {}", error.detail().unwrap_or_default())))?;
        Ok(FetchedKeys { keys, document })
    }

    /// The URL of the key set.
    async fn discover(&self, issuer: &str) -> Result<String> {
        let mut answers = Vec::new();
        for place in discovery_places(issuer)? {
            match self.document(&place, "the discovery document").await? {
                Answer::Document(document) => return key_set_place(issuer, &place, &document),
                Answer::Refused(status) => answers.push(format!("{place} is answered with {status}")),
            }
        }
        Err(unreachable(format!(
            "it has no discovery document: {}",
            answers.join(", ")
        )))
    }

    async fn document(&self, url: &str, what: &str) -> Result<Answer> {
        let outcome = self.get(url).await;
        outcome.map_err(|error| match error.code() {
            ErrorCode::TokenIssuerUnreachable => error,
            _ => {
                let detail = error.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
                unreachable(format!("{what} {url}: {}{detail}", error.code().meaning())).with_private(error)
            }
        })
    }

    async fn get(&self, url: &str) -> Result<Answer> {
        let location = https_location(url)?;
        let waits = Waits {
            handshake: STEP_TIMEOUT,
            stall: STEP_TIMEOUT,
        };
        // Issuers are named by the site itself, so that they may be anywhere.
        let tcp = dial(location.host(), location.port(), AddressPolicy::ANY, STEP_TIMEOUT, SIDE).await?;
        let stream = Stream::connect_tls(tcp, &self.tls, location.host(), SIDE, waits).await?;
        debug_assert!(matches!(stream.role(), Role::Peer(_)));
        let mut connection = Connection::new(stream);
        let request = RequestBuilder::new(&Method::Get, &location)
            .user_agent(&self.user_agent)
            .accept_anything();
        connection.stream.queue(&request.finish());
        connection.stream.flush().await?;
        let head = loop {
            let head = connection.response(&HeadLimits::default(), STEP_TIMEOUT).await?;
            if !head.is_interim() {
                break head;
            }
        };
        match head.status {
            200 => {}
            300..400 => {
                let words = format!("{url} redirects, and redirects of an issuer are not followed");
                return Err(unreachable(words));
            }
            status => return Ok(Answer::Refused(status)),
        }
        let framing = head.framing(&Method::Get)?;
        let mut body = connection.body(framing);
        let mut whole = Vec::new();
        while let Some(batch) = body.next().await? {
            whole.extend(batch.slices().flatten());
            if whole.len() > ISSUER_DOCUMENT_BYTES_MAX {
                let words = format!("{url} is larger than {ISSUER_DOCUMENT_BYTES_MAX} bytes");
                return Err(unreachable(words));
            }
        }
        Ok(Answer::Document(whole))
    }
}

/// The answer to a request for a document.
enum Answer {
    Document(Vec<u8>),
    /// With this status.
    Refused(u16),
}

fn unreachable(why: impl Into<String>) -> Error {
    Error::new(ErrorCode::TokenIssuerUnreachable, Side::Client, Phase::Authenticate).with_detail(why)
}

/// Where the discovery document may be, the likelier place first.
fn discovery_places(issuer: &str) -> Result<Vec<String>> {
    https_location(issuer)?;
    let bare = issuer.trim_end_matches('/');
    let rest = &bare["https://".len()..];
    let (host, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
    let slash = if path.is_empty() { "" } else { "/" };
    Ok(vec![
        format!("{bare}/.well-known/openid-configuration"),
        format!("https://{host}/.well-known/oauth-authorization-server{slash}{path}"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discovery_documents_are_in_two_places() {
        for (issuer, places) in [
            (
                "https://i.example.org/",
                [
                    "https://i.example.org/.well-known/openid-configuration",
                    "https://i.example.org/.well-known/oauth-authorization-server",
                ],
            ),
            (
                "https://i.example.org:8443/realms/vo",
                [
                    "https://i.example.org:8443/realms/vo/.well-known/openid-configuration",
                    "https://i.example.org:8443/.well-known/oauth-authorization-server/realms/vo",
                ],
            ),
        ] {
            assert_eq!(discovery_places(issuer).unwrap(), places);
        }
        for bad in [
            "http://i.example.org",
            "i.example.org",
            "file:///etc/passwd",
            "davs://i.example.org",
        ] {
            let error = discovery_places(bad).unwrap_err();
            assert_eq!(error.code(), ErrorCode::TokenIssuerUnreachable, "{bad}");
        }
    }
}
