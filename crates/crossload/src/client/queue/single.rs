//! Single copies by a queue, for instruments: each is a job of one file, which is waited for.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use remote::{Resource, ServiceMethod};
use serde_json::Value;
use tokio::sync::OnceCell;
use types::{Error, ErrorCode, Phase, Result, Side, uuid_text};

use super::delegation::{Who, ensure, whoami};
use super::jobs::{is_over, text};
use super::service::Queue;
use super::submission::Job;
use super::submit::{Submission, submit};
use super::watch::longer;
use crate::client::session::ClientContext;
use crate::failure::Failure;
use crate::limits::QUEUE_LOOK_PAUSE_MIN;

/// How long a delegated proxy should last, in seconds.
const PROXY_S: i64 = 3600;

/// A queue that copies single files.
pub(in crate::client) struct SingleCopies<'a> {
    queue: Queue<'a>,
    url: String,
    who: OnceCell<Who>,
    /// The jobs that have not ended.
    under_way: Mutex<BTreeSet<String>>,
}

/// The end of a copy by a queue.
pub(in crate::client) struct JobEnd {
    /// The job in the queue's API, once there is one.
    pub(in crate::client) url: Option<String>,
    /// Why it failed.
    pub(in crate::client) failure: Option<JobFailure>,
}

/// Why a job failed, by its queue.
pub(in crate::client) struct JobFailure {
    pub(in crate::client) side: Side,
    pub(in crate::client) code: String,
    pub(in crate::client) reason: String,
}

impl JobFailure {
    fn of(error: &Error) -> Self {
        Self {
            side: error.side(),
            code: error.code().name().to_owned(),
            reason: error.public(),
        }
    }
}

impl<'a> SingleCopies<'a> {
    /// Copies by the queue at `url`.
    ///
    /// # Errors
    /// `bad_url`.
    pub(in crate::client) fn new(session: &'a ClientContext, url: &str) -> std::result::Result<Self, Failure> {
        Ok(Self {
            queue: Queue::new(session, url)?,
            url: session.url(url)?.trim_end_matches('/').to_owned(),
            who: OnceCell::new(),
            under_way: Mutex::default(),
        })
    }

    /// Has a file copied and waits for the end.
    pub(in crate::client) async fn copy(&self, source: &Resource, destination: &Resource) -> JobEnd {
        let id = match self.submit(source, destination).await {
            Ok(id) => id,
            Err(failure) => {
                return JobEnd {
                    url: None,
                    failure: Some(failure),
                };
            }
        };
        self.under_way().insert(id.clone());
        let failure = match self.wait(&id).await {
            Ok(failure) => {
                self.under_way().remove(&id);
                failure
            }
            Err(error) => Some(JobFailure::of(&error)),
        };
        JobEnd {
            url: Some(format!("{}/jobs/{id}", self.url)),
            failure,
        }
    }

    async fn submit(&self, source: &Resource, destination: &Resource) -> std::result::Result<String, JobFailure> {
        let who = self.who.get_or_try_init(|| self.introduce());
        let who = who.await.map_err(|error| JobFailure::of(&error))?;
        let job = Job::of_one(source, destination);
        let submission = Submission {
            name: uuid_text(net::random::random(), 4),
            is_chosen: false,
            job: &job,
        };
        let submitted = submit(&self.queue, who, &submission, None).await;
        submitted.map(|(id, _)| id).map_err(|failure| JobFailure {
            side: Side::Queue,
            code: failure.code.unwrap_or(ErrorCode::PeerFailed).name().to_owned(),
            reason: failure.words,
        })
    }

    /// Says who we are, and delegates a proxy if we have a certificate only.
    async fn introduce(&self) -> Result<Who> {
        let who = whoami(&self.queue).await?;
        if self.queue.session.shows_certificate_only() {
            ensure(&self.queue, &who, PROXY_S).await?;
        }
        Ok(who)
    }

    /// Waits until a job ends; why it failed, if it did.
    async fn wait(&self, id: &str) -> Result<Option<JobFailure>> {
        let mut pause = QUEUE_LOOK_PAUSE_MIN.max(Duration::from_millis(200));
        loop {
            let job = self.queue.get(&format!("/jobs/{id}")).await?;
            match job["job_state"].as_str() {
                Some("FINISHED") => return Ok(None),
                Some(state) if is_over(state) => return self.reason(id, &job).await.map(Some),
                Some(_) => {}
                None => return Err(self.queue.misbehaved(&format!("/jobs/{id}"), "it tells no state")),
            }
            tokio::time::sleep(pause).await;
            pause = longer(pause);
        }
    }

    /// The reason of the job's only file. Our queue has a code for it.
    async fn reason(&self, id: &str, job: &Value) -> Result<JobFailure> {
        let files = self.queue.get(&format!("/jobs/{id}/files")).await?;
        let reason = match text(&files[0]["reason"]) {
            empty if empty.is_empty() => text(&job["reason"]),
            reason => reason,
        };
        let code = match self.queue.is_ours().await {
            Ok(true) => {
                let files = self.queue.get(&format!("/v1/jobs/{id}/files")).await?;
                text(&files["items"][0]["code"])
            }
            _ => String::new(),
        };
        let (side, number) = scope_of(&reason);
        Ok(JobFailure {
            side,
            code: if code.is_empty() { number } else { code },
            reason,
        })
    }

    /// Cancels the jobs that have not ended.
    pub(in crate::client) async fn cancel_all(&self) {
        let ids = std::mem::take(&mut *self.under_way());
        for id in ids {
            let path = format!("/jobs/{id}");
            // A job that cannot be canceled ends by itself.
            let _ = self.queue.ask(ServiceMethod::Delete, &path).await;
        }
    }

    fn under_way(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The side and the number in a reason of FTS: `SOURCE [2] …`.
fn scope_of(reason: &str) -> (Side, String) {
    let scope = reason.split(' ').next().unwrap_or_default();
    let side = match scope {
        "SOURCE" => Side::Source,
        "DESTINATION" => Side::Destination,
        "TRANSFER" => Side::Active,
        _ => Side::Queue,
    };
    let number = reason
        .split_once('[')
        .and_then(|(_, rest)| Some(rest.split_once(']')?.0));
    let number = number.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    (
        side,
        number.map_or_else(|| "fts".to_owned(), |number| format!("fts_{number}")),
    )
}

/// The phase that is known of a copy by a queue: none within it.
pub(in crate::client) const PHASE: Phase = Phase::Transfer;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_is_that_of_the_reason() {
        let of = |reason| scope_of(reason);
        assert_eq!(of("SOURCE [2] no such file"), (Side::Source, "fts_2".to_owned()));
        assert_eq!(
            of("DESTINATION [13] denied [x]"),
            (Side::Destination, "fts_13".to_owned())
        );
        assert_eq!(
            of("TRANSFER [5] TRANSFER  ERROR: Copy failed"),
            (Side::Active, "fts_5".to_owned())
        );
        assert_eq!(of("canceled"), (Side::Queue, "fts".to_owned()));
    }
}
