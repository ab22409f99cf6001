//! Requests to a token issuer: refresh (RFC 6749 §6) and exchange (RFC 8693).

use remote::{Access, Client, Resource, ServiceAnswer, ServiceCall, ServiceMethod};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::timeout;
use types::{Error, ErrorCode, Location, Phase, Result, Secret, Side};
use url::form_urlencoded::Serializer;

use crate::limits::{ISSUER_ANSWER_BYTES_MAX, ISSUER_ANSWER_TIME, ISSUER_WORDS_MAX};

const FORM: &str = "application/x-www-form-urlencoded";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const REFRESH_TOKEN: &str = "urn:ietf:params:oauth:token-type:refresh_token";
/// Where an issuer says what it can do (OpenID Connect Discovery §4).
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// An issuer that renews tokens for this queue.
#[derive(Clone, Debug)]
pub struct TokenProvider {
    /// Its name, as in the tokens.
    pub issuer: String,
    /// The name of this queue there.
    pub client_id: String,
    /// The secret that goes with the name.
    pub client_secret: Secret,
    /// Where tokens are renewed; `None`: the issuer says it.
    pub token_url: Option<String>,
}

/// What is asked for.
pub(super) struct Wanted<'a> {
    pub(super) scopes: &'a [String],
    pub(super) audiences: &'a [String],
}

/// Tokens that an issuer gave.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) access: Option<Secret>,
    pub(super) refresh: Option<Secret>,
    /// The life of the access token.
    pub(super) life_s: Option<i64>,
}

/// Why an issuer gave none.
#[derive(Debug)]
pub(super) enum Denied {
    /// It refuses, and will do so again.
    Refused(String),
    /// It cannot be asked now.
    Unreachable {
        error: Error,
        /// When it asks to be tried again.
        after_s: Option<u64>,
    },
}

/// An issuer with the place where it renews tokens.
pub(super) struct Issuer {
    pub(super) provider: TokenProvider,
    client: Client,
    endpoint: Mutex<Option<Location>>,
}

impl Issuer {
    pub(super) fn new(provider: TokenProvider, client: Client) -> Self {
        Self {
            provider,
            client,
            endpoint: Mutex::new(None),
        }
    }

    /// New tokens for a refresh token.
    pub(super) async fn refresh(&self, token: &Secret, wanted: &Wanted<'_>) -> std::result::Result<Given, Denied> {
        let scope = wanted.scopes.join(" ");
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", token.expose()),
            ("scope", &scope),
        ];
        self.post(wanted.form(&fields)).await
    }

    /// A refresh token for an access token that is still valid.
    pub(super) async fn exchange(&self, token: &Secret, wanted: &Wanted<'_>) -> std::result::Result<Given, Denied> {
        let scope = [wanted.scopes, &["offline_access".to_owned()]].concat().join(" ");
        let fields = [
            ("grant_type", EXCHANGE),
            ("subject_token", token.expose()),
            ("subject_token_type", ACCESS_TOKEN),
            ("requested_token_type", REFRESH_TOKEN),
            ("scope", &scope),
        ];
        self.post(wanted.form(&fields)).await
    }

    async fn post(&self, body: Secret) -> std::result::Result<Given, Denied> {
        let asked = async {
            let place = resource(self.endpoint().await?);
            let login = (self.provider.client_id.as_str(), &self.provider.client_secret);
            let call = ServiceCall {
                method: ServiceMethod::Post,
                content_type: FORM,
                body: &body,
                login: Some(login),
                webhook: None,
                answer_bytes_max: ISSUER_ANSWER_BYTES_MAX,
            };
            self.client.call(&place, &call).await
        };
        let answer = match timeout(ISSUER_ANSWER_TIME, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(Denied::unreachable(self, &error.public())),
            Err(_) => return Err(Denied::unreachable(self, "it does not answer")),
        };
        self.read(&answer)
    }

    fn read(&self, answer: &ServiceAnswer) -> std::result::Result<Given, Denied> {
        let value: Value = serde_json::from_str(answer.body.expose()).unwrap_or_default();
        let text = |name: &str| value[name].as_str().filter(|text| !text.is_empty());
        match answer.status {
            200..=299 => {}
            // Refusals of RFC 6749 §5.2. The words may quote the token: they are left out.
            400 | 401 | 403 => {
                let word = text("error").unwrap_or("refused");
                return Err(Denied::Refused(word.chars().take(ISSUER_WORDS_MAX).collect()));
            }
            status => {
                let mut denied = Denied::unreachable(self, &format!("status {status}"));
                if let Denied::Unreachable { after_s, .. } = &mut denied {
                    *after_s = answer.retry_after_s;
                }
                return Err(denied);
            }
        }
        let token = text("access_token").map(Secret::new);
        let is_refresh = text("issued_token_type") == Some(REFRESH_TOKEN);
        let given = match (text("refresh_token").map(Secret::new), token) {
            // RFC 8693 §2.2.1: whatever was issued is called so.
            (None, Some(token)) if is_refresh => Given {
                access: None,
                refresh: Some(token),
                life_s: None,
            },
            (refresh, access) => Given {
                access,
                refresh,
                life_s: value["expires_in"].as_i64(),
            },
        };
        match (&given.access, &given.refresh) {
            (None, None) => Err(Denied::unreachable(self, "its answer holds no token")),
            _ => Ok(given),
        }
    }

    async fn endpoint(&self) -> Result<Location> {
        let mut known = self.endpoint.lock().await;
        if let Some(known) = &*known {
            return Ok(known.clone());
        }
        let url = match &self.provider.token_url {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        let place = Location::parse(&url)?;
        if !place.is_encrypted() {
            return Err(self.unusable("its token endpoint has no https URL"));
        }
        *known = Some(place.clone());
        Ok(place)
    }

    async fn discover(&self) -> Result<String> {
        let issuer = &self.provider.issuer;
        let place = resource(Location::parse(&format!(
            "{}{DISCOVERY}",
            issuer.trim_end_matches('/')
        ))?);
        let nothing = Secret::new("");
        let call = ServiceCall {
            method: ServiceMethod::Get,
            content_type: FORM,
            body: &nothing,
            login: None,
            webhook: None,
            answer_bytes_max: ISSUER_ANSWER_BYTES_MAX,
        };
        let answer = self.client.call(&place, &call).await?;
        if !answer.is_success() {
            return Err(self.client.refusal_of(&place, &answer));
        }
        let document: Value = serde_json::from_str(answer.body.expose()).unwrap_or_default();
        if document["issuer"].as_str() != Some(issuer) {
            return Err(self.unusable("its discovery document names another issuer"));
        }
        let url = document["token_endpoint"].as_str().map(str::to_owned);
        url.ok_or_else(|| self.unusable("its discovery document names no token endpoint"))
    }

    fn unusable(&self, why: &str) -> Error {
        let error = Error::new(ErrorCode::TokenIssuerUnreachable, Side::Queue, Phase::Authenticate);
        error.with_detail(format!("{}: {why}", self.provider.issuer))
    }
}

impl Denied {
    fn unreachable(issuer: &Issuer, why: &str) -> Self {
        Self::Unreachable {
            error: issuer.unusable(why),
            after_s: None,
        }
    }
}

impl Wanted<'_> {
    /// The form of a request for it.
    fn form(&self, fields: &[(&str, &str)]) -> Secret {
        let mut form = Serializer::new(String::new());
        form.extend_pairs(fields);
        if !self.audiences.is_empty() {
            form.append_pair("audience", &self.audiences.join(" "));
        }
        Secret::new(form.finish())
    }
}

fn resource(location: Location) -> Resource {
    Resource {
        location,
        access: Access::default(),
        side: Side::Queue,
    }
}
