//! Tokens for storages: kept as they came, and renewed for files that wait longer than they live.
//!
//! A token whose issuer is configured is renewed shortly before it ends, as long as a live job uses
//! it: it is exchanged for a refresh token (RFC 8693), and that gives access tokens from then on.
//! All tokens of a user with the same issuer, subject, scopes and audience share one *grant*, so an
//! issuer is asked once for them and not once for each file.
//!
//! A grant is changed by one process at a time, which holds a lease on it. What an issuer gives is
//! stored before it is used: a refresh token may be good for one use only, and its successor must
//! not be lost. If an answer is lost nevertheless, the grant begins again with an access token that
//! is still valid; this is why renewal does not wait for the end.

mod audiences;
mod facts;
mod pause;
mod renewals;
mod scopes;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use catalog::{Catalog, JobOptions, Owner, SealedSecret, SecretKind};
use remote::{Client, IssuedTokens, TokenDenial, TokenIssuer, TokenProvider, TokenWish};
use serde::{Deserialize, Serialize};
use types::{Error, ErrorCode, Location, Phase, Result, Secret, Side};
use zeroize::Zeroizing;

use crate::Vault;
use crate::clock::{milliseconds, now_ms};
use crate::limits::{BEARER_WAIT_MAX, BEARER_WAIT_STEP, GRANT_LEASE, TOKEN_LEFT_MIN, TOKEN_RENEWED_BEFORE};
use facts::TokenFacts;
use pause::Pauses;
pub use scopes::token_gap;

/// Whether a copy that begins at `now_ms` can use a token as it is, without its renewal.
#[must_use]
pub fn is_token_usable(token: &Secret, now_ms: i64) -> bool {
    TokenFacts::of(token).is_none_or(|facts| facts.is_usable(now_ms))
}

/// The tokens of all jobs. Clones share them.
#[derive(Clone)]
pub struct Tokens(Arc<Inner>);

struct Inner {
    catalog: Catalog,
    vault: Vault,
    issuers: HashMap<String, Source>,
    log: Arc<dyn RenewalLog>,
}

/// Learns how it goes with issuers.
pub trait RenewalLog: Send + Sync {
    /// An issuer did not renew a token, and is left alone for so long, for one user or for all.
    fn failed(&self, issuer: &str, error: &Error, pause: Duration);
}

impl<F: Fn(&str, &Error, Duration) + Send + Sync> RenewalLog for F {
    fn failed(&self, issuer: &str, error: &Error, pause: Duration) {
        self(issuer, error, pause);
    }
}

/// An issuer, and until when it is left alone.
struct Source {
    issuer: TokenIssuer,
    pauses: Mutex<Pauses>,
}

/// A token that comes with a job.
#[derive(Clone, Debug)]
pub struct SealedToken {
    /// How it is stored.
    pub secret: SealedSecret,
    /// The name of what renews it, which the job uses too; `None`: it is used as it came.
    pub grant: Option<String>,
    /// When the token ends, in milliseconds since 1970, if it says so and nothing renews it.
    pub ends_ms: Option<i64>,
}

/// What renews tokens, as it is stored.
#[derive(Default, Serialize, Deserialize)]
struct Grant {
    issuer: String,
    scopes: Vec<String>,
    audiences: Vec<String>,
    /// The latest token that came with a job.
    given: String,
    access: Option<String>,
    access_ends_ms: Option<i64>,
    refresh: Option<String>,
    /// What the issuer said when it refused for good.
    refusal: Option<String>,
}

impl Tokens {
    /// Tokens in this catalog, renewed by these issuers through this client.
    #[must_use]
    pub fn new(
        catalog: Catalog,
        vault: Vault,
        client: &Client,
        providers: Vec<TokenProvider>,
        log: Arc<dyn RenewalLog>,
    ) -> Self {
        let issuers = providers.into_iter().map(|provider| {
            let source = Source {
                issuer: TokenIssuer::new(provider.clone(), client.clone(), Side::Queue),
                pauses: Mutex::default(),
            };
            (provider.issuer, source)
        });
        Self(Arc::new(Inner {
            catalog,
            vault,
            issuers: issuers.collect(),
            log,
        }))
    }

    /// Seals a token that came with a job of `owner`.
    ///
    /// # Errors
    /// As [`Vault::seal`].
    pub fn seal(&self, name: &str, token: &Secret, owner: &Owner, is_managed: bool) -> Result<SealedToken> {
        let facts = TokenFacts::of(token);
        let managed = facts.as_ref().filter(|_| is_managed);
        let managed = managed.filter(|facts| self.0.issuers.contains_key(&facts.issuer));
        let ends_ms = facts.as_ref().and_then(|facts| facts.expires_ms);
        Ok(SealedToken {
            secret: SealedSecret {
                kind: SecretKind::Token,
                name: name.to_owned(),
                sealed: self.0.vault.seal(SecretKind::Token, name, token.expose().as_bytes())?,
                expires_ms: ends_ms,
                owner: owner.unique_name(),
                renews_ms: managed.and(ends_ms).map(|ends_ms| renewal_ms(ends_ms, now_ms())),
                lease_ms: None,
                renewed_by: managed.map(|facts| facts.grant(owner)),
            },
            grant: managed.map(|facts| facts.grant(owner)),
            ends_ms: ends_ms.filter(|_| managed.is_none()),
        })
    }

    /// The token of a file, as it is now: the one that came with the job, or its successor.
    ///
    /// # Errors
    /// `token_expired` when it has ended and nothing renews it; `token_issuer_unreachable`; those
    /// of the catalog.
    pub async fn bearer(&self, name: &str, owner: &Owner, is_managed: bool, side: Side) -> Result<Secret> {
        let stored = self.0.catalog.secret(SecretKind::Token, name).await?;
        let stored = stored.ok_or_else(|| expired(side, "the token of this file is no longer kept"))?;
        let given = self.0.vault.open_token(name, &stored.sealed)?;
        let Some(facts) = TokenFacts::of(&given) else {
            return Ok(given);
        };
        let Some(source) = self.0.issuers.get(&facts.issuer).filter(|_| is_managed) else {
            return match lasts(facts.expires_ms, Duration::ZERO) {
                true => Ok(given),
                false => Err(expired(side, "it was used as it came, since nothing renews it")),
            };
        };
        let grant = facts.grant(owner);
        let started = Instant::now();
        loop {
            let known = self.0.grant(&grant).await?;
            if let Some(access) = known.as_ref().and_then(|known| known.access(TOKEN_LEFT_MIN)) {
                return Ok(access);
            }
            if lasts(facts.expires_ms, TOKEN_LEFT_MIN) {
                return Ok(given);
            }
            let renewed = self.0.renew(source, &grant, &stored.owner, Some(&given)).await;
            match renewed {
                Ok(Renewed::Done) => {}
                // Another process is asking.
                Ok(Renewed::Elsewhere) if started.elapsed() < BEARER_WAIT_MAX => {
                    tokio::time::sleep(BEARER_WAIT_STEP).await;
                    continue;
                }
                _ => {}
            }
            // It ends soon, but may still do.
            let access = self
                .0
                .grant(&grant)
                .await?
                .and_then(|known| known.access(Duration::ZERO));
            let last = access.or_else(|| lasts(facts.expires_ms, Duration::ZERO).then(|| given.clone()));
            return match (last, renewed) {
                (Some(token), _) => Ok(token),
                (None, Err(error)) => Err(error.at_side(side)),
                (None, Ok(Renewed::Refused(words))) => {
                    Err(expired(side, &format!("its issuer refused to renew it: {words}")))
                }
                (None, Ok(_)) => Err(expired(side, "another process is still renewing it")),
            };
        }
    }

    /// When a stored token ends that nothing renews, in milliseconds since 1970; `None`: it is
    /// renewed, or does not say.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn ends_ms(&self, name: &str, is_managed: bool) -> Result<Option<i64>> {
        let stored = self.0.catalog.secret(SecretKind::Token, name).await?;
        let unrenewed = stored.filter(|stored| !is_managed || stored.renewed_by.is_none());
        Ok(unrenewed.and_then(|stored| stored.expires_ms))
    }

    /// As [`token_gap`], for a stored token. Its successors have the same audiences and scopes.
    ///
    /// # Errors
    /// Those of the catalog and the vault; `bad_url`.
    pub async fn gap(&self, name: &str, url: &str, side: Side, options: &JobOptions) -> Result<Option<String>> {
        let Some(stored) = self.0.catalog.secret(SecretKind::Token, name).await? else {
            return Ok(None);
        };
        let given = self.0.vault.open_token(name, &stored.sealed)?;
        Ok(token_gap(&given, &Location::parse(url)?, side, options))
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Tokens")
    }
}

/// How a renewal ended.
enum Renewed {
    /// The grant has a fresh access token.
    Done,
    /// Another process is at it.
    Elsewhere,
    /// The issuer refused for good, and said this.
    Refused(String),
}

impl Inner {
    async fn grant(&self, name: &str) -> Result<Option<Grant>> {
        let stored = self.catalog.secret(SecretKind::RefreshToken, name).await?;
        stored.map_or(Ok(None), |stored| self.open_grant(&stored))
    }

    fn open_grant(&self, stored: &SealedSecret) -> Result<Option<Grant>> {
        // A row without content was never renewed, or holds a lease.
        if stored.sealed.is_empty() {
            return Ok(None);
        }
        let plain = self
            .vault
            .open(SecretKind::RefreshToken, &stored.name, &stored.sealed)?;
        let grant = serde_json::from_slice(&plain);
        grant.map(Some).map_err(|_| internal("a stored grant cannot be read"))
    }

    async fn save(
        &self,
        place: &Place<'_>,
        grant: &Grant,
        renews_ms: Option<i64>,
        lease_ms: Option<i64>,
    ) -> Result<()> {
        let plain = serde_json::to_vec(grant).map_err(|_| internal("a grant cannot be written"))?;
        let plain = Zeroizing::new(plain);
        let secret = SealedSecret {
            kind: SecretKind::RefreshToken,
            name: place.grant.to_owned(),
            sealed: self.vault.seal(SecretKind::RefreshToken, place.grant, &plain)?,
            expires_ms: grant.access_ends_ms,
            owner: place.owner.to_owned(),
            renews_ms,
            lease_ms,
            renewed_by: None,
        };
        self.catalog.put_secret(secret, now_ms()).await
    }

    /// Renews a grant, if no other process is at it.
    async fn renew(&self, source: &Source, grant: &str, owner: &str, given: Option<&Secret>) -> Result<Renewed> {
        if !source.pause_left(owner).is_zero() {
            return Err(source.paused(owner));
        }
        let (now_ms, place) = (now_ms(), Place { grant, owner });
        let lease_ms = now_ms + milliseconds(GRANT_LEASE);
        let has_lease = self
            .catalog
            .lease_secret(SecretKind::RefreshToken, grant, owner, now_ms, lease_ms);
        if !has_lease.await? {
            return Ok(Renewed::Elsewhere);
        }
        let mut stored = self.grant(grant).await?.unwrap_or_default();
        if let Some(given) = given {
            stored.take(given);
            // Another process was faster.
            if stored.access(TOKEN_LEFT_MIN).is_some() {
                let renews_ms = stored.renewal_ms();
                self.save(&place, &stored, renews_ms, None).await?;
                return Ok(Renewed::Done);
            }
        }
        match self.ask(source, &place, &mut stored, lease_ms).await {
            Ok(()) => {
                source.works(owner);
                stored.refusal = None;
                // Written before it is used.
                let renews_ms = stored.renewal_ms();
                self.save(&place, &stored, renews_ms, None).await?;
                Ok(Renewed::Done)
            }
            Err(TokenDenial::Refused(words)) => {
                source.works(owner);
                stored.refusal = Some(words.clone());
                self.save(&place, &stored, None, None).await?;
                Ok(Renewed::Refused(words))
            }
            Err(TokenDenial::Unreachable { error, after_s }) => {
                let pause_began = source.fails(owner, after_s.map(Duration::from_secs), &error);
                let pause = source.pause_left(owner);
                if pause_began {
                    self.log.failed(&source.issuer.provider.issuer, &error, pause);
                }
                let again_ms = now_ms + milliseconds(pause);
                self.save(&place, &stored, Some(again_ms), None).await?;
                Err(error)
            }
        }
    }

    /// Asks the issuer: by the refresh token, else by a token that is still valid.
    async fn ask(
        &self,
        source: &Source,
        place: &Place<'_>,
        grant: &mut Grant,
        lease_ms: i64,
    ) -> std::result::Result<(), TokenDenial> {
        let (scopes, audiences) = (grant.scopes.clone(), grant.audiences.clone());
        let wanted = TokenWish {
            scopes: &scopes,
            audiences: &audiences,
        };
        let mut refusal = "no token is left that is still valid".to_owned();
        if let Some(refresh) = grant.refresh.clone().map(Secret::new) {
            match source.issuer.refresh(&refresh, &wanted).await {
                Ok(given) => {
                    grant.apply(&given);
                    return Ok(());
                }
                // Its successor may have been lost on the way.
                Err(TokenDenial::Refused(words)) => (refusal, grant.refresh) = (words, None),
                Err(unreachable) => return Err(unreachable),
            }
        }
        for token in grant.valid_tokens() {
            let given = match source.issuer.exchange(&token, &wanted).await {
                Ok(given) => given,
                Err(TokenDenial::Refused(words)) => {
                    refusal = words;
                    continue;
                }
                Err(unreachable) => return Err(unreachable),
            };
            grant.apply(&given);
            if given.access.is_none() {
                let stored = self.save(place, grant, Some(lease_ms), Some(lease_ms)).await;
                stored.map_err(|error| TokenDenial::Unreachable { error, after_s: None })?;
                let refresh = grant.refresh.clone().map(Secret::new);
                let Some(refresh) = refresh else { continue };
                let given = source.issuer.refresh(&refresh, &wanted).await?;
                grant.apply(&given);
            }
            return Ok(());
        }
        Err(TokenDenial::Refused(refusal))
    }
}

/// Where a grant is stored.
struct Place<'a> {
    grant: &'a str,
    owner: &'a str,
}

impl Grant {
    /// The access token, if it is valid for another `left`.
    fn access(&self, left: Duration) -> Option<Secret> {
        let access = self.access.as_ref().filter(|_| lasts(self.access_ends_ms, left));
        access.map(Secret::new)
    }

    /// A token that came with a job stands for this grant.
    fn take(&mut self, given: &Secret) {
        if let Some(facts) = TokenFacts::of(given) {
            self.issuer = facts.issuer;
            self.scopes = facts.scopes;
            self.audiences = facts.audiences;
            self.given = given.expose().to_owned();
        }
    }

    fn apply(&mut self, given: &IssuedTokens) {
        if let Some(access) = &given.access {
            let says = TokenFacts::of(access).and_then(|facts| facts.expires_ms);
            let life_ms = given.life_s.map(|life_s| now_ms() + life_s * 1000);
            let usual_ms = now_ms() + milliseconds(TOKEN_RENEWED_BEFORE);
            self.access_ends_ms = Some(life_ms.or(says).unwrap_or(usual_ms));
            self.access = Some(access.expose().to_owned());
        }
        if let Some(refresh) = &given.refresh {
            self.refresh = Some(refresh.expose().to_owned());
        }
    }

    /// Tokens that can be exchanged, the newest first.
    fn valid_tokens(&self) -> Vec<Secret> {
        let given = Secret::new(self.given.clone());
        let given_ends_ms = TokenFacts::of(&given).and_then(|facts| facts.expires_ms);
        let given = Some(given).filter(|given| !given.expose().is_empty() && lasts(given_ends_ms, Duration::ZERO));
        self.access(Duration::ZERO).into_iter().chain(given).collect()
    }

    fn renewal_ms(&self) -> Option<i64> {
        self.access_ends_ms.map(|ends_ms| renewal_ms(ends_ms, now_ms()))
    }
}

impl Source {
    fn pauses(&self) -> std::sync::MutexGuard<'_, Pauses> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long it is not asked for tokens of this user.
    fn pause_left(&self, owner: &str) -> Duration {
        self.pauses().left(owner, Instant::now())
    }

    fn works(&self, owner: &str) {
        self.pauses().works(owner);
    }

    /// Whether a pause begins, and does not last already.
    fn fails(&self, owner: &str, after: Option<Duration>, error: &Error) -> bool {
        let why = error.detail().unwrap_or_default();
        self.pauses().fails(owner, after, why, Instant::now())
    }

    fn paused(&self, owner: &str) -> Error {
        let error = Error::new(ErrorCode::TokenIssuerUnreachable, Side::Queue, Phase::Authenticate);
        let left_s = self.pause_left(owner).as_secs();
        let why = self.pauses().why.clone();
        error.with_detail(format!("{why}; it is asked again in {left_s} s"))
    }
}

/// When a token is renewed that ends at a time: well before, so that there is time for failures.
fn renewal_ms(ends_ms: i64, now_ms: i64) -> i64 {
    let left_ms = ends_ms.saturating_sub(now_ms).max(0);
    match left_ms < milliseconds(TOKEN_LEFT_MIN) {
        true => now_ms,
        false => ends_ms - milliseconds(TOKEN_RENEWED_BEFORE).min(left_ms / 3),
    }
}

/// Whether what ends at a time is valid for another `left`. What names no end is.
fn lasts(ends_ms: Option<i64>, left: Duration) -> bool {
    ends_ms.is_none_or(|ends_ms| ends_ms > now_ms() + milliseconds(left))
}

fn expired(side: Side, why: &str) -> Error {
    Error::new(ErrorCode::TokenExpired, side, Phase::Authenticate).with_detail(why)
}

fn internal(why: &'static str) -> Error {
    Error::new(ErrorCode::Internal, Side::Queue, Phase::Authenticate).with_private(why)
}
