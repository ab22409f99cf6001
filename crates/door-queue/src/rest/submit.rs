//! `POST /jobs`.

use axum::body::Body;
use axum::extract::State;
use catalog::{Login, NewJob};
use http_server::control::Client;
use net::random::random;
use serde_json::json;

use crate::fts::FtsError;
use crate::fts::submission::{self, Submitter, hold};
use crate::limits::{PROXY_LEFT_S_MIN, SUBMISSION_BYTES_MAX};
use crate::queue::Stored;
use crate::respond::{Answered, good, whole};
use crate::rights::Caller;
use crate::settings::{Settings, Shared, now_ms};

/// FTS's status for a client that must delegate first.
const DELEGATION_NEEDED: u16 = 419;

/// Stores a job.
pub(super) async fn submit(State(settings): Shared, client: Client, body: Body) -> Answered {
    let caller = settings.caller(&client)?;
    let user_bans = settings.queue.user_bans().await?;
    if user_bans.iter().any(|ban| ban.user == caller.owner.user) {
        return Err(FtsError::new(403, format!("{} is banned", caller.owner.user)).into());
    }
    let body = whole(body, SUBMISSION_BYTES_MAX).await?;
    let now_ms = now_ms();
    let from = Submitter {
        owner: &caller.owner,
        now_ms,
        random: random(),
    };
    let submission = submission::read(&body, &from)?;
    drop(body);
    let mut job = submission.job;
    check_delegation(&settings, &caller, &job, now_ms)?;
    hold(&mut job, &settings.queue.bans().await?)?;
    let id = job.id;
    match settings.queue.submit(job, submission.tokens).await? {
        Stored::New => Ok(good(&json!({"job_id": id}))),
        Stored::Known => Err(FtsError::new(409, "The sid provided by the user is duplicated").into()),
        Stored::DestinationTaken => {
            Err(FtsError::new(409, "Another live job has a transfer to the same destination").into())
        }
    }
}

/// Whether the queue can act for a client with a certificate: it has a proxy of its, unless all
/// files come with tokens.
fn check_delegation(settings: &Settings, caller: &Caller, job: &NewJob, now_ms: i64) -> Result<(), FtsError> {
    let Some(delegations) = settings
        .delegations
        .as_ref()
        .filter(|_| caller.owner.login == Login::Certificate)
    else {
        return Ok(());
    };
    let has_tokens =
        |options: &catalog::FileOptions| options.source_token.is_some() && options.destination_token.is_some();
    if job.files.iter().all(|file| has_tokens(&file.options)) {
        return Ok(());
    }
    let delegator = caller.delegator.as_ref();
    let expires_s = delegator.and_then(|delegator| delegations.expires_s(delegator, &delegator.id()));
    match expires_s {
        None => {
            let message = format!("No delegation found for \"{}\"", caller.owner.user);
            Err(FtsError::new(DELEGATION_NEEDED, message))
        }
        Some(expires_s) if expires_s - now_ms / 1000 < PROXY_LEFT_S_MIN => {
            let message = "The delegated credentials has less than one hour left";
            Err(FtsError::new(DELEGATION_NEEDED, message))
        }
        Some(_) => Ok(()),
    }
}
