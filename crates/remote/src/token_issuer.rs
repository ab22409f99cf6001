//! Requests to a token issuer: refresh (RFC 6749 §6), exchange (RFC 8693), revocation (RFC 7009),
//! and tokens for a user who agrees in a browser (device authorization, RFC 8628). People who sign
//! in with their browser are in `sign_in`.

use serde_json::Value;
use tokio::time::timeout;
use types::{Error, ErrorCode, Location, Secret, Side};
use url::form_urlencoded::Serializer;

use crate::client::Client;
use crate::discovery::{Discovery, Purpose};
use crate::limits::{
    DEVICE_LIFE_S_MAX, DEVICE_PAUSE_S, ISSUER_ANSWER_BYTES_MAX, ISSUER_ANSWER_TIME, ISSUER_WORDS_MAX, TOKEN_LIFE_S_MAX,
};
use crate::service::{ServiceAnswer, ServiceCall, ServiceMethod};

const FORM: &str = "application/x-www-form-urlencoded";
const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const REFRESH_TOKEN: &str = "urn:ietf:params:oauth:token-type:refresh_token";
/// What an issuer gave, or why it gave nothing.
type Answered<T> = Result<T, TokenDenial>;

/// An issuer that gives tokens to this program.
#[derive(Clone, Debug)]
pub struct TokenProvider {
    /// Its name, as in the tokens.
    pub issuer: String,
    /// The name of this program there.
    pub client_id: String,
    /// The secret that goes with the name; `None` for a public client (RFC 6749 §2.1).
    pub client_secret: Option<Secret>,
    /// Where tokens are renewed; `None`: the issuer says it.
    pub token_url: Option<String>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct TokenWish<'a> {
    /// The scopes; none: those that the issuer gives by default, or gave before.
    pub scopes: &'a [String],
    /// The servers that are to take the token; none: all.
    pub audiences: &'a [String],
}

/// Tokens that an issuer gave.
#[derive(Clone, Debug)]
pub struct IssuedTokens {
    /// The access token.
    pub access: Option<Secret>,
    /// The refresh token. One that was used for it is then no longer valid.
    pub refresh: Option<Secret>,
    /// The life of the access token, in seconds: from 1 to [`TOKEN_LIFE_S_MAX`]. What cannot be a
    /// life is none.
    pub life_s: Option<i64>,
    /// The ID token of a person who has signed in, not verified (OpenID Connect Core 1.0
    /// §3.1.3.3).
    pub id: Option<Secret>,
}

/// How a user agrees to a token in a browser (RFC 8628 §3.2).
#[derive(Clone, Debug)]
pub struct DeviceCode {
    /// What this program asks for the tokens with.
    code: Secret,
    /// What the user types.
    pub user_code: String,
    /// The page where the user types it.
    pub page: String,
    /// The same page with the code filled in.
    pub whole_page: Option<String>,
    /// The life of the code, in seconds.
    pub life_s: u64,
    /// The pause between two questions whether the user has agreed, in seconds.
    pub pause_s: u64,
}

/// Why an issuer gave none.
#[derive(Debug)]
pub enum TokenDenial {
    /// It refuses with this word of RFC 6749 §5.2 or RFC 8628 §3.5, and will do so again, unless
    /// the word says otherwise.
    Refused(String),
    /// It cannot be asked now.
    Unreachable {
        /// What happened.
        error: Error,
        /// When it asks to be tried again, in seconds.
        after_s: Option<u64>,
    },
}

/// An issuer, and this program as its client.
#[derive(Debug)]
pub struct TokenIssuer {
    /// Its name, and ours there.
    pub provider: TokenProvider,
    client: Client,
    pub(crate) discovery: Discovery,
}

impl TokenIssuer {
    /// An issuer that is asked by `client`; errors name `side`.
    #[must_use]
    pub fn new(provider: TokenProvider, client: Client, side: Side) -> Self {
        let discovery = Discovery::new(provider.issuer.clone(), client.clone(), side);
        Self {
            provider,
            client,
            discovery,
        }
    }

    /// New tokens for a refresh token.
    ///
    /// # Errors
    /// The issuer refuses, or cannot be asked.
    pub async fn refresh(&self, token: &Secret, wanted: &TokenWish<'_>) -> Answered<IssuedTokens> {
        let fields = [("grant_type", "refresh_token"), ("refresh_token", token.expose())];
        self.tokens(&fields, &wanted.scopes.join(" "), wanted.audiences).await
    }

    /// A refresh token for an access token that is still valid.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub async fn exchange(&self, token: &Secret, wanted: &TokenWish<'_>) -> Answered<IssuedTokens> {
        let scope = [wanted.scopes, &["offline_access".to_owned()]].concat().join(" ");
        let fields = [
            ("grant_type", EXCHANGE),
            ("subject_token", token.expose()),
            ("subject_token_type", ACCESS_TOKEN),
            ("requested_token_type", REFRESH_TOKEN),
        ];
        self.tokens(&fields, &scope, wanted.audiences).await
    }

    /// Asks for tokens of a user, who then agrees in a browser.
    ///
    /// # Errors
    /// As [`Self::refresh`]; the issuer has no device authorization.
    pub async fn begin_device(&self, wanted: &TokenWish<'_>) -> Answered<DeviceCode> {
        let body = form(
            &[],
            &wanted.scopes.join(" "),
            wanted.audiences,
            Some(&self.provider.client_id),
        );
        let answer = self.post(Purpose::Device, body).await?;
        let value = self.read(&answer)?;
        let text = |name: &str| value[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        // Some issuers still use the name of the draft.
        let page = text("verification_uri").or_else(|| text("verification_url"));
        let (Some(code), Some(user_code), Some(page)) = (text("device_code"), text("user_code"), page) else {
            return Err(TokenDenial::unreachable(self, "its answer holds no code"));
        };
        Ok(DeviceCode {
            code: Secret::new(code),
            user_code,
            page,
            whole_page: text("verification_uri_complete"),
            life_s: value["expires_in"]
                .as_u64()
                .unwrap_or(DEVICE_LIFE_S_MAX)
                .min(DEVICE_LIFE_S_MAX),
            pause_s: value["interval"]
                .as_u64()
                .unwrap_or(DEVICE_PAUSE_S)
                .min(DEVICE_LIFE_S_MAX),
        })
    }

    /// The tokens, if the user has agreed. The words `authorization_pending` and `slow_down` of a
    /// refusal ask for patience (RFC 8628 §3.5).
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub async fn end_device(&self, device: &DeviceCode) -> Answered<IssuedTokens> {
        let fields = [("grant_type", DEVICE), ("device_code", device.code.expose())];
        self.tokens(&fields, "", &[]).await
    }

    /// Revokes a refresh token (RFC 7009 §2.1), and with it the access tokens that it gave, where
    /// the issuer knows them. A token that is no longer valid is revoked (§2.2).
    ///
    /// # Errors
    /// As [`Self::refresh`]; the issuer has no revocation.
    pub async fn revoke(&self, token: &Secret) -> Answered<()> {
        let fields = [("token", token.expose()), ("token_type_hint", "refresh_token")];
        let form = form(&fields, "", &[], self.public_id());
        let answer = self.post(Purpose::Revocation, form).await?;
        self.read(&answer).map(drop)
    }

    pub(crate) async fn tokens(
        &self,
        fields: &[(&str, &str)],
        scope: &str,
        audiences: &[String],
    ) -> Answered<IssuedTokens> {
        let form = form(fields, scope, audiences, self.public_id());
        let answer = self.post(Purpose::Token, form).await?;
        self.issued(&answer)
    }

    /// Our name, where it goes into the form: that of a client without a secret.
    fn public_id(&self) -> Option<&str> {
        let is_public = self.provider.client_secret.is_none();
        is_public.then_some(self.provider.client_id.as_str())
    }

    async fn endpoint(&self, purpose: Purpose) -> types::Result<Location> {
        match (purpose, &self.provider.token_url) {
            (Purpose::Token, Some(url)) => self.discovery.secure(url, purpose),
            _ => self.discovery.endpoint(purpose).await,
        }
    }

    async fn post(&self, purpose: Purpose, body: Secret) -> Answered<ServiceAnswer> {
        let asked = async {
            let place = self.discovery.resource(self.endpoint(purpose).await?);
            let secret = self.provider.client_secret.as_ref();
            let call = ServiceCall {
                method: ServiceMethod::Post,
                content_type: FORM,
                body: &body,
                login: secret.map(|secret| (self.provider.client_id.as_str(), secret)),
                webhook: None,
                answer_bytes_max: ISSUER_ANSWER_BYTES_MAX,
            };
            self.client.call(&place, &call).await
        };
        let asked = timeout(ISSUER_ANSWER_TIME, asked).await;
        match &asked {
            Ok(Ok(answer)) if is_of_endpoint(answer) => {}
            // Perhaps the endpoint has moved.
            _ => self.discovery.forget(),
        }
        match asked {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) if error.code() == ErrorCode::TokenIssuerUnreachable => {
                Err(TokenDenial::Unreachable { error, after_s: None })
            }
            Ok(Err(error)) => Err(TokenDenial::unreachable(self, &error.public())),
            Err(_) => Err(TokenDenial::unreachable(self, "it does not answer")),
        }
    }

    fn read(&self, answer: &ServiceAnswer) -> Answered<Value> {
        let value: Value = serde_json::from_str(answer.body.expose()).unwrap_or_default();
        match answer.status {
            200..=299 => Ok(value),
            // Refusals of RFC 6749 §5.2. The words may quote the token: they are left out.
            400 | 401 | 403 => {
                let word = value["error"].as_str().filter(|text| !text.is_empty());
                let word = word.unwrap_or("refused").chars().take(ISSUER_WORDS_MAX);
                Err(TokenDenial::Refused(word.collect()))
            }
            status => Err(TokenDenial::Unreachable {
                error: self.unusable(&format!("status {status}")),
                after_s: answer.retry_after_s,
            }),
        }
    }

    fn issued(&self, answer: &ServiceAnswer) -> Answered<IssuedTokens> {
        let value = self.read(answer)?;
        let text = |name: &str| value[name].as_str().filter(|text| !text.is_empty());
        let token = text("access_token").map(Secret::new);
        let is_refresh = text("issued_token_type") == Some(REFRESH_TOKEN);
        let given = match (text("refresh_token").map(Secret::new), token) {
            // RFC 8693 §2.2.1: whatever was issued is called so.
            (None, Some(token)) if is_refresh => IssuedTokens {
                access: None,
                refresh: Some(token),
                life_s: None,
                id: None,
            },
            (refresh, access) => IssuedTokens {
                access,
                refresh,
                life_s: value["expires_in"]
                    .as_i64()
                    .filter(|life_s| *life_s > 0)
                    .map(|life_s| life_s.min(TOKEN_LIFE_S_MAX)),
                id: text("id_token").map(Secret::new),
            },
        };
        match (&given.access, &given.refresh) {
            (None, None) => {
                self.discovery.forget();
                Err(TokenDenial::unreachable(self, "its answer holds no token"))
            }
            _ => Ok(given),
        }
    }

    pub(crate) fn unusable(&self, why: &str) -> Error {
        self.discovery.unusable(why)
    }
}

impl TokenDenial {
    fn unreachable(issuer: &TokenIssuer, why: &str) -> Self {
        Self::Unreachable {
            error: issuer.unusable(why),
            after_s: None,
        }
    }
}

/// The form of a request. `client` is the name of a program without a secret.
fn form(fields: &[(&str, &str)], scope: &str, audiences: &[String], client: Option<&str>) -> Secret {
    let mut form = Serializer::new(String::new());
    form.extend_pairs(fields);
    let audience = audiences.join(" ");
    let further = [
        ("client_id", client.unwrap_or_default()),
        ("scope", scope),
        ("audience", &audience),
    ];
    form.extend_pairs(further.iter().filter(|(_, value)| !value.is_empty()));
    Secret::new(form.finish())
}

/// Whether an answer is that of an endpoint of OAuth, with tokens, a refusal of RFC 6749 §5.2, or
/// the request to come later; others come from what stands where the endpoint was.
fn is_of_endpoint(answer: &ServiceAnswer) -> bool {
    let is_refusal = || {
        let value: Value = serde_json::from_str(answer.body.expose()).unwrap_or_default();
        value["error"].is_string()
    };
    match answer.status {
        200..=299 | 429 | 503 => true,
        400 | 401 | 403 => is_refusal(),
        _ => false,
    }
}
