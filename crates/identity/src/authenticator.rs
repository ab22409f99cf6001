//! From what a client shows to a credential, in one way for all doors.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use credentials::{
    Bearer, Credential, IdTokenDemands, IssuerRules, MacaroonKey, TokenRules, UnverifiedToken, VerifiedMacaroon,
    VerifiedToken,
};
use rustls_pki_types::CertificateDer;
use types::limits::{VERIFIED_TOKEN_LIFETIME, VERIFIED_TOKENS_MAX};
use types::{ErrorCode, Result, Secret};

use crate::certificates::{Certificates, ShownBy};
use crate::clear_text::ClearText;
use crate::clock::now_s;
use crate::issuers::Issuers;
use crate::last_shown::{LastShown, StateId, Verifier};
use crate::verified::Verified;

/// What credentials are checked against.
pub struct Sources {
    /// Keys that verify macaroons, the newest first. None: no macaroon is accepted.
    pub macaroon_keys: Vec<MacaroonKey>,
    /// The issuers of tokens and what is said about them.
    pub token_rules: TokenRules,
    /// The keys of these issuers.
    pub issuers: Issuers,
    /// By what the certificates of clients are judged.
    pub certificates: Certificates,
    /// Where tokens are taken in clear text.
    pub clear_text: ClearText,
    /// How many tokens and macaroons that were verified are remembered.
    pub verified_tokens_max: usize,
    /// Longest time for each of them.
    pub verified_lifetime: Duration,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            macaroon_keys: Vec::new(),
            token_rules: TokenRules::default(),
            issuers: Issuers::default(),
            certificates: Certificates::default(),
            clear_text: ClearText::default(),
            verified_tokens_max: VERIFIED_TOKENS_MAX,
            verified_lifetime: VERIFIED_TOKEN_LIFETIME,
        }
    }
}

/// The sources, and what was verified against them.
struct State {
    sources: Sources,
    verified: Verified,
    /// How many states this authenticator had before.
    generation: u64,
}

impl State {
    fn new(sources: Sources, generation: u64) -> Arc<Self> {
        Arc::new(Self {
            generation,
            verified: Verified::new(sources.verified_tokens_max, sources.verified_lifetime),
            sources,
        })
    }

    async fn bearer(&self, token: &str) -> Result<Credential> {
        match Bearer::parse(token)? {
            Bearer::Macaroon(macaroon) => {
                let verified = VerifiedMacaroon::new(macaroon, &self.sources.macaroon_keys)?;
                Ok(Credential::Macaroon(Box::new(verified)))
            }
            Bearer::Token(unverified) => {
                let verified = VerifiedToken {
                    text: Some(Secret::new(token)),
                    ..self.token(&unverified).await?
                };
                Ok(Credential::Token(Box::new(verified)))
            }
        }
    }

    async fn token(&self, token: &UnverifiedToken) -> Result<VerifiedToken> {
        let rules = &self.sources.token_rules;
        self.verify(token, |issuer| token.read(rules, issuer, now_s())).await
    }

    /// Refusals that need no issuer come first: a useless token makes no request to one, and no
    /// client waits. `read` says what the token is worth by the rules about its issuer.
    async fn verify(
        &self,
        token: &UnverifiedToken,
        read: impl Fn(&IssuerRules) -> Result<VerifiedToken>,
    ) -> Result<VerifiedToken> {
        let issuers = &self.sources.issuers;
        let issuer = self.sources.token_rules.issuer(token.issuer())?;
        let keys = match issuers.at_hand(&issuer.url) {
            Some(keys) => keys,
            None => {
                read(issuer)?;
                issuers.keys(&issuer.url).await?
            }
        };
        match token.check_signature(&keys) {
            Err(error) if error.code() == ErrorCode::TokenKeyUnknown => {
                read(issuer)?;
                let fresher = issuers.fresher(&issuer.url, &keys).await.ok_or(error)?;
                token.check_signature(&fresher)?;
            }
            outcome => outcome?,
        }
        read(issuer)
    }
}

/// Checks what clients show. Clones share everything, so that a reload reaches every door.
#[derive(Clone)]
pub struct Authenticator(Arc<Current>);

/// The state of the moment.
struct Current {
    state: RwLock<Arc<State>>,
    verifier: Verifier,
    /// The state's number, beside the lock: the question whether anything has changed, which each
    /// request asks, writes nothing that other processors would wait for.
    generation: AtomicU64,
}

impl Current {
    fn id_of(&self, generation: u64) -> StateId<'_> {
        StateId {
            verifier: &self.verifier,
            generation,
        }
    }
}

impl Default for Authenticator {
    fn default() -> Self {
        Self::new(Sources::default())
    }
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        let Sources {
            macaroon_keys,
            token_rules,
            issuers,
            certificates: _,
            clear_text,
            verified_tokens_max,
            verified_lifetime,
        } = &state.sources;
        let mut shown = formatter.debug_struct("Authenticator");
        shown.field("macaroon_keys", macaroon_keys);
        shown.field("token_rules", token_rules).field("issuers", issuers);
        shown.field("clear_text", clear_text);
        shown.field("remembered", &(verified_tokens_max, verified_lifetime));
        shown.finish_non_exhaustive()
    }
}

impl Authenticator {
    /// Checks against these sources.
    #[must_use]
    pub fn new(sources: Sources) -> Self {
        Self(Arc::new(Current {
            generation: AtomicU64::new(0),
            verifier: Verifier::default(),
            state: RwLock::new(State::new(sources, 0)),
        }))
    }

    /// Replaces the sources, for what is shown from now on. What was verified is forgotten.
    pub fn replace(&self, sources: Sources) {
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        let next = State::new(sources, state.generation + 1);
        self.0.generation.store(next.generation, Ordering::Release);
        *state = next;
    }

    fn state(&self) -> Arc<State> {
        self.0.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// By what the certificates of clients are judged: its rules can be replaced without replacing
    /// the rest.
    #[must_use]
    pub fn judge(&self) -> Certificates {
        self.state().sources.certificates.clone()
    }

    /// The issuers of the moment, whose keys go into the next [`Sources`].
    #[must_use]
    pub fn issuers(&self) -> Issuers {
        self.state().sources.issuers.clone()
    }

    /// Whether tokens of this issuer are accepted now. Names are compared byte by byte.
    #[must_use]
    pub fn accepts_issuer(&self, issuer: &str) -> bool {
        self.state().sources.token_rules.issuer(issuer).is_ok()
    }

    /// Whether a token, or what else must stay between client and server, counts when it came in
    /// clear text from `peer`.
    ///
    /// # Errors
    /// `tls_required`: it does not.
    pub fn admits_in_clear_text(&self, peer: IpAddr) -> Result<()> {
        self.state().sources.clear_text.admits(peer)
    }

    /// Whether what must stay between client and server may be sent over a connection with `peer`.
    ///
    /// # Errors
    /// `tls_required`: it may not.
    pub fn admit_secrets(&self, is_encrypted: bool, peer: IpAddr) -> Result<()> {
        match is_encrypted {
            true => Ok(()),
            false => self.admits_in_clear_text(peer),
        }
    }

    /// Reads and verifies a bearer token. A token that was verified before costs a look into a
    /// table; one of an issuer whose keys are not at hand may wait for them, for a stated time.
    ///
    /// # Errors
    /// `invalid_token` and those named `token_*`, with the reason; see [`Bearer::parse`],
    /// [`VerifiedMacaroon::new`] and [`credentials::verify_token`].
    pub async fn bearer(&self, token: &str) -> Result<Arc<Credential>> {
        self.bearer_in(None, token, &mut LastShown::default()).await
    }

    /// Verifies the ID token with which an issuer says who has signed in (OpenID Connect Core 1.0
    /// §3.1.3.7), with the keys and by the rules of its access tokens. It is not remembered, since
    /// it counts once.
    ///
    /// # Errors
    /// Those named `token_*`; see [`UnverifiedToken::parse`], [`UnverifiedToken::check_signature`]
    /// and [`UnverifiedToken::read_id_token`].
    pub async fn id_token(&self, text: &str, demands: &IdTokenDemands<'_>) -> Result<VerifiedToken> {
        let state = self.state();
        let token = UnverifiedToken::parse(text)?;
        let rules = &state.sources.token_rules;
        let read = |issuer: &IssuerRules| token.read_id_token(demands, rules, issuer, now_s());
        state.verify(&token, read).await
    }

    /// As [`Authenticator::bearer`], for a token out of the header field `field` (its value, whole)
    /// of a connection for which `last` is kept: the next such field is known by
    /// [`Authenticator::again`]. One that came otherwise is not kept.
    ///
    /// # Errors
    /// As [`Authenticator::bearer`].
    pub async fn bearer_in(&self, field: Option<&str>, token: &str, last: &mut LastShown) -> Result<Arc<Credential>> {
        let state = self.state();
        let hash = state.verified.hash([token.as_bytes()]);
        let known = hash.and_then(|hash| state.verified.find(hash, now_s()));
        let verification = match known {
            Some(known) => known,
            None => {
                let credential = Arc::new(state.bearer(token).await?);
                let remembered = hash.and_then(|hash| state.verified.remember(hash, &credential, now_s()));
                let Some(remembered) = remembered else {
                    return Ok(credential);
                };
                remembered
            }
        };
        if let Some(field) = field {
            last.keep(field, self.0.id_of(state.generation), &verification);
        }
        Ok(verification.credential)
    }

    /// What a header field was found to be when it came last on the same connection, unless that
    /// has to be found out anew.
    #[must_use]
    pub fn again(&self, field: &str, last: &LastShown) -> Option<Arc<Credential>> {
        let generation = self.0.generation.load(Ordering::Acquire);
        last.find(field, self.0.id_of(generation), now_s()).cloned()
    }

    /// The identity from the certificates of a TLS handshake; anonymous without any. The handshake
    /// proved that the client has the key of the first.
    #[must_use]
    pub fn certificates(&self, chain: Option<&[CertificateDer<'static>]>) -> Arc<Credential> {
        match chain {
            Some(chain) => self.state().sources.certificates.credential(chain, ShownBy::Tls),
            None => Arc::new(Credential::Anonymous),
        }
    }

    /// The same for the certificates of a login by gsi, whose proxies may be signed with SHA-1.
    #[must_use]
    pub fn gsi_certificates(&self, chain: &[CertificateDer<'static>]) -> Arc<Credential> {
        self.state().sources.certificates.credential(chain, ShownBy::Gsi)
    }
}
