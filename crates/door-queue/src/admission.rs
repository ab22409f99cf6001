//! What submissions of both APIs go through first.

use catalog::{FileOptions, Login, NewJob};

use crate::fts::FtsError;
use crate::limits::PROXY_LEFT_S_MIN;
use crate::respond::Failed;
use crate::rights::Caller;
use crate::settings::Settings;

/// Whether a user may submit.
///
/// # Errors
/// 403 for one who is banned.
pub(crate) async fn check_user(settings: &Settings, caller: &Caller) -> Result<(), Failed> {
    let bans = settings.queue.user_bans().await?;
    match bans.iter().any(|ban| ban.user == caller.owner.user) {
        true => Err(FtsError::new(403, format!("{} is banned", caller.owner.user)).into()),
        false => Ok(()),
    }
}

/// Whether a client has delegated what its job needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delegated {
    /// It has, or none is needed.
    Enough,
    /// Nothing.
    None,
    /// A proxy that ends before [`PROXY_LEFT_S_MIN`].
    TooShort,
}

/// Whether the queue can act for a client with a certificate: it has a proxy of its, unless all
/// files come with tokens.
pub(crate) fn delegated(settings: &Settings, caller: &Caller, job: &NewJob, now_ms: i64) -> Delegated {
    let delegations = settings.delegations.as_ref();
    let Some(delegations) = delegations.filter(|_| caller.owner.login == Login::Certificate) else {
        return Delegated::Enough;
    };
    let has_tokens = |options: &FileOptions| options.source_token.is_some() && options.destination_token.is_some();
    if job.files.iter().all(|file| has_tokens(&file.options)) {
        return Delegated::Enough;
    }
    let delegator = caller.delegator.as_ref();
    match delegator.and_then(|delegator| delegations.expires_s(delegator, &delegator.id())) {
        None => Delegated::None,
        Some(expires_s) if expires_s - now_ms / 1000 < PROXY_LEFT_S_MIN => Delegated::TooShort,
        Some(_) => Delegated::Enough,
    }
}
