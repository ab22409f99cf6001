//! What submissions of both APIs go through first.

use catalog::{FileOptions, Login, NewJob};

use queue::proxy_name;
use schedule::JobId;
use types::Result;

use crate::fts::FtsError;
use crate::limits::PROXY_LEFT_MS_MIN;
use crate::respond::Failed;
use crate::rights::Caller;
use crate::settings::Settings;

/// Whether a user may submit.
///
/// # Errors
/// 403 for one who is banned.
pub(crate) async fn check_user(settings: &Settings, caller: &Caller) -> std::result::Result<(), Failed> {
    let bans = settings.queue.user_bans().await?;
    match bans.iter().any(|ban| ban.includes(&caller.owner)) {
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
    /// A proxy that ends before [`PROXY_LEFT_MS_MIN`].
    TooShort,
}

/// Notes the proxy of a client with a certificate in its job, unless all files come with tokens.
///
/// # Errors
/// Those of the catalog.
pub(crate) async fn delegated(settings: &Settings, caller: &Caller, job: &mut NewJob) -> Result<Delegated> {
    let proxies = settings.proxies.as_ref();
    let Some(proxies) = proxies.filter(|_| caller.owner.login == Login::Certificate) else {
        return Ok(Delegated::Enough);
    };
    let has_tokens = |options: &FileOptions| options.source_token.is_some() && options.destination_token.is_some();
    if job.files.iter().all(|file| has_tokens(&file.options)) {
        return Ok(Delegated::Enough);
    }
    let Some(delegator) = &caller.delegator else {
        return Ok(Delegated::None);
    };
    Ok(match proxies.expires_ms(delegator).await? {
        None => Delegated::None,
        Some(expires_ms) if expires_ms - job.submitted_ms < PROXY_LEFT_MS_MIN => Delegated::TooShort,
        Some(_) => {
            job.options.proxy = Some(proxy_name(delegator));
            Delegated::Enough
        }
    })
}

/// Whether a job shows a credential to storages: one that shows none has none that ends.
pub(crate) fn has_credential(job: &NewJob) -> bool {
    let has_token = |options: &FileOptions| options.source_token.is_some() || options.destination_token.is_some();
    job.options.proxy.is_some() || job.files.first().is_some_and(|file| has_token(&file.options))
}

/// What to tell the client of a job that was stored.
pub(crate) async fn warnings(settings: &Settings, job: JobId, has_credential: bool) -> Vec<String> {
    match has_credential {
        // That this cannot be asked is no failure of the submission.
        true => settings.queue.warnings(job).await.unwrap_or_default(),
        false => Vec::new(),
    }
}
