//! What submissions of both APIs go through first.

use catalog::{FileOptions, Login, NewJob};

use http_server::control::Client;
use queue::proxy_name;
use schedule::JobId;
use types::{Location, Result, Side, SpanContext};

use crate::fts::FtsError;
use crate::limits::{PROXY_LEFT_MS_MIN, TOKEN_WARNED_FILES_MAX, TOKEN_WARNINGS_MAX};
use crate::queue::GivenToken;
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

/// The trace that a job continues: that of its submission, if the client exports it.
pub(crate) fn trace_of(client: &Client) -> Option<String> {
    let is_exported = |trace: &&String| SpanContext::parse(trace).is_some_and(|context| context.is_sampled);
    client.traceparent.as_ref().filter(is_exported).cloned()
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

/// What a submission is warned of. It is made before the job is stored, from what the job brings.
pub(crate) struct Checks {
    /// Whether the job shows a credential to storages: one that shows none has none that ends.
    has_credential: bool,
    about_tokens: Vec<String>,
}

impl Checks {
    /// Looks at a job and the tokens that came with it.
    pub(crate) fn of(job: &NewJob, tokens: &[GivenToken]) -> Self {
        let has_token = |options: &FileOptions| options.source_token.is_some() || options.destination_token.is_some();
        let has_tokens = job.files.first().is_some_and(|file| has_token(&file.options));
        Self {
            has_credential: job.options.proxy.is_some() || has_tokens,
            about_tokens: token_warnings(job, tokens),
        }
    }

    /// The warnings, once the job is stored.
    pub(crate) async fn warnings(self, settings: &Settings, job: JobId) -> Vec<String> {
        let mut warnings = self.about_tokens;
        if self.has_credential {
            // That this cannot be asked is no failure of the submission.
            warnings.extend(settings.queue.warnings(job).await.unwrap_or_default());
        }
        warnings
    }
}

/// What the tokens of the first files may not allow, each sentence once.
fn token_warnings(job: &NewJob, tokens: &[GivenToken]) -> Vec<String> {
    let mut warnings = Vec::new();
    for file in job.files.iter().take(TOKEN_WARNED_FILES_MAX) {
        let sides = [
            (Side::Source, &file.options.source_token, &file.source),
            (Side::Destination, &file.options.destination_token, &file.destination),
        ];
        for (side, name, url) in sides {
            let given = tokens.iter().find(|given| Some(&given.name) == name.as_ref());
            let place = Location::parse(url).ok();
            let gap = given
                .zip(place)
                .and_then(|(given, place)| queue::token_gap(&given.token, &place, side, &job.options));
            warnings.extend(gap.filter(|gap| !warnings.contains(gap)));
            if warnings.len() >= TOKEN_WARNINGS_MAX {
                return warnings;
            }
        }
    }
    warnings
}
