//! The access token of a login, renewed before it ends, also while a command runs.

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use remote::{Client, IssuedTokens, TokenDenial, TokenIssuer, TokenProvider, TokenWish};
use tokio::task::JoinHandle;
use types::{Error, ErrorCode, Phase, Result, Secret, Side};

use crate::failure::Failure;
use crate::limits::{LOGIN_LEFT_MIN, LOGIN_RENEWAL_PAUSE, LOGIN_TOKEN_BYTES_MAX};
use crate::logins::{self, Login};
use crate::token::now_s;

/// Life of an access token whose issuer says none, in seconds.
const UNSAID_LIFE_S: i64 = 300;

/// An access token in use.
#[derive(Debug)]
pub(crate) struct LiveToken {
    pub(crate) issuer: String,
    current: Arc<Mutex<Secret>>,
    renewal: JoinHandle<()>,
}

impl LiveToken {
    /// The token of the login at an issuer.
    ///
    /// # Errors
    /// `unauthenticated`: there is no login, or it is over. `token_issuer_unreachable`: the token
    /// has ended and the issuer cannot be asked.
    pub(super) async fn open(issuer: &str, client: &Client) -> Result<Self> {
        let mut login = renewed(issuer, client).await?;
        let current = Arc::new(Mutex::new(login.access()));
        let (issuer, client, shared) = (issuer.to_owned(), client.clone(), Arc::clone(&current));
        let renewal = tokio::spawn({
            let issuer = issuer.clone();
            async move {
                loop {
                    tokio::time::sleep(pause_before_renewal(login.ends_s - now_s())).await;
                    // After a failure, the old token may still do.
                    if let Ok(fresh) = renewed(&issuer, &client).await {
                        *shared.lock().unwrap_or_else(PoisonError::into_inner) = fresh.access();
                        login = fresh;
                    }
                }
            }
        });
        Ok(Self {
            issuer,
            current,
            renewal,
        })
    }

    /// The token as it is now.
    pub(super) fn current(&self) -> Secret {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for LiveToken {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

/// The time to the next renewal of a token that ends in so many seconds.
fn pause_before_renewal(left_s: i64) -> Duration {
    let left = Duration::from_secs(u64::try_from(left_s).unwrap_or_default());
    left.saturating_sub(LOGIN_LEFT_MIN).max(LOGIN_RENEWAL_PAUSE)
}

/// The issuer of a login.
pub(super) fn issuer_of(login: &Login, client: &Client) -> TokenIssuer {
    let provider = TokenProvider {
        issuer: login.issuer.clone(),
        client_id: login.client_id.clone(),
        client_secret: login.client_secret(),
        token_url: None,
    };
    TokenIssuer::new(provider, client.clone(), Side::Client)
}

/// Takes what an issuer gave, and writes it to disk.
///
/// # Errors
/// There is no access token in it, or the disk is full.
pub(super) fn keep(login: &mut Login, given: &IssuedTokens) -> std::result::Result<(), Failure> {
    let none = || Failure::invalid(format!("{} gave no access token", login.issuer));
    let access = given.access.as_ref().ok_or_else(none)?;
    let sent = [Some(access), given.refresh.as_ref()];
    if !sent.into_iter().flatten().all(is_sendable) {
        let words = "gave a token that cannot be sent: it is too long, or no visible text";
        return Err(Failure::invalid(format!("{} {words}", login.issuer)));
    }
    let life_s = given.life_s.unwrap_or(UNSAID_LIFE_S);
    login.take(access, now_s().saturating_add(life_s), given.refresh.as_ref());
    login.store()
}

/// Whether a token fits into a header, and into the file of its login.
fn is_sendable(token: &Secret) -> bool {
    let text = token.expose();
    text.len() <= LOGIN_TOKEN_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The lock of the logins; dropping it lets the next process go on.
///
/// # Errors
/// The system's.
pub(super) async fn locked() -> Result<File> {
    execution::blocking_try(Side::Client, Phase::Authenticate, || logins::lock().map_err(unusable)).await
}

/// The login at an issuer, renewed if its token ends soon.
async fn renewed(issuer: &str, client: &Client) -> Result<Login> {
    let _lock = locked().await?;
    let login = Login::load(issuer).map_err(unusable)?;
    let mut login = login.ok_or_else(|| over(issuer, "there is no login"))?;
    let left_s = login.ends_s - now_s();
    if left_s > LOGIN_LEFT_MIN.as_secs() as i64 {
        return Ok(login);
    }
    let refreshed = match login.refresh() {
        Some(refresh) => {
            // The scopes stay as they were granted (RFC 6749 §6).
            let wish = TokenWish {
                scopes: &[],
                audiences: &login.audiences,
            };
            issuer_of(&login, client).refresh(&refresh, &wish).await
        }
        None => Err(TokenDenial::Refused("no refresh token".to_owned())),
    };
    match refreshed {
        Ok(given) => keep(&mut login, &given).map(|()| login).map_err(unusable),
        // It may still do.
        Err(_) if left_s > 0 => Ok(login),
        Err(TokenDenial::Refused(word)) => Err(over(issuer, &format!("the login is over: {word}"))),
        Err(TokenDenial::Unreachable { error, .. }) => Err(error),
    }
}

fn over(issuer: &str, why: &str) -> Error {
    let error = Error::new(ErrorCode::Unauthenticated, Side::Client, Phase::Authenticate);
    error.with_detail(format!("{issuer}: {why}; run \"crossload login\""))
}

fn unusable(failure: Failure) -> Error {
    Error::new(ErrorCode::Unauthenticated, Side::Client, Phase::Authenticate).with_detail(failure.words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_before_it_ends_but_not_in_a_row() {
        assert_eq!(pause_before_renewal(3600), Duration::from_secs(3600) - LOGIN_LEFT_MIN);
        for left_s in [-1, 0, 30, 60] {
            assert_eq!(pause_before_renewal(left_s), LOGIN_RENEWAL_PAUSE);
        }
    }
}
