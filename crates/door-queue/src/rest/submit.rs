//! `POST /jobs`.

use axum::body::Body;
use axum::extract::State;
use http_server::control::Client;
use net::random::random;
use serde_json::json;

use crate::admission::{self, Delegated};
use crate::fts::FtsError;
use crate::fts::submission::{self, Submitter, hold};
use crate::limits::SUBMISSION_BYTES_MAX;
use crate::queue::Stored;
use crate::respond::{Answered, good, whole};
use crate::settings::{Shared, now_ms};

/// FTS's status for a client that must delegate first.
const DELEGATION_NEEDED: u16 = 419;
/// What the client can do about it.
const DELEGATE: &str = "delegate a proxy with fts-rest-delegate, or submit with crossload queue submit";

/// Stores a job.
pub(super) async fn submit(State(settings): Shared, client: Client, body: Body) -> Answered {
    let caller = settings.caller(&client)?;
    admission::check_user(&settings, &caller).await?;
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
    job.options.traceparent = admission::trace_of(&client);
    match admission::delegated(&settings, &caller, &mut job).await? {
        Delegated::Enough => {}
        Delegated::None => {
            let message = format!("No delegation found for \"{}\": {DELEGATE}", caller.owner.user);
            return Err(FtsError::new(DELEGATION_NEEDED, message).into());
        }
        Delegated::TooShort => {
            let message = format!("The delegated credentials has less than one hour left: {DELEGATE}");
            return Err(FtsError::new(DELEGATION_NEEDED, message).into());
        }
    }
    hold(&mut job, &settings.queue.bans().await?)?;
    let (id, checks) = (job.id, admission::Checks::of(&job, &submission.tokens));
    match settings.queue.submit(job, submission.tokens, None).await? {
        Stored::New(mut warnings) => {
            let mut stored = json!({"job_id": id});
            warnings.extend(checks.warnings(&settings, id).await);
            // Not in FTS, whose clients look at the job's name only.
            if !warnings.is_empty() {
                stored["warnings"] = json!(warnings);
            }
            Ok(good(&stored))
        }
        Stored::Known | Stored::Past(_) => Err(FtsError::new(409, "The sid provided by the user is duplicated").into()),
    }
}
