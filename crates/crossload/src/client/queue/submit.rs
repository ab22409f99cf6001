//! `crossload queue submit`: submits jobs, delegates a proxy if need be, and waits.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::time::Duration;

use credentials::inspect;
use endpoint::ids::fresh_span;
use identity::name_uuid::name_uuid;
use net::random::random;
use remote::ServiceMethod;
use serde_json::{Value, json};
use types::{ErrorCode, Secret, uuid_text};

use super::delegation::{Who, delegate, ensure, whoami};
use super::elements;
use super::jobs::text;
use super::service::{Queue, is_plain, mistake};
use super::submission::{self, FileTokens, Job, plain_url};
use super::times::{now_ms, until};
use super::watch::{Watched, longer, poll};
use crate::client::credentials::token_in;
use crate::client::session::ClientContext;
use crate::client::traced::Begun;
use crate::command_line::QueueSubmitOptions;
use crate::dates::instant;
use crate::failure::Failure;
use crate::limits::{QUEUE_FAILED_FILES, QUEUE_LOOK_PAUSE_MIN, QUEUE_SUBMIT_ATTEMPTS};
use crate::output;

/// The options with URLs in place of named remotes.
///
/// # Errors
/// The file of the remotes is invalid.
fn in_urls(session: &ClientContext, options: &QueueSubmitOptions) -> Result<QueueSubmitOptions, Failure> {
    let mut options = options.clone();
    let ends = options.source.iter_mut().chain(&mut options.destination);
    for place in ends.chain(&mut options.files.via).chain(&mut options.files.replica) {
        *place = session.url(place)?;
    }
    Ok(options)
}

/// Submits the jobs of `options`.
///
/// # Errors
/// The queue's refusal, or no proxy can be delegated. Jobs that were accepted before are printed.
pub(super) async fn run(session: &ClientContext, options: &QueueSubmitOptions) -> Result<u8, Failure> {
    super::say_ignored(&options.ignored.given());
    let tokens = tokens(session, options)?;
    let options = &in_urls(session, options)?;
    let wanted = submission::jobs(options, &tokens)?;
    // Those of the options were looked at before; a list may bring others.
    let listed: HashSet<&str> = wanted.iter().flat_map(Job::tokens).collect();
    for token in listed {
        still_valid(token, "a token of the list", now_ms())?;
    }
    if options.dry_run {
        wanted.iter().for_each(|job| output::json(&job.shown()));
        return Ok(0);
    }
    let queue = Queue::new(session, &options.common.endpoint)?;
    let who = whoami(&queue).await?;
    let needs_proxy = session.access(None, None).bearer.is_none() && wanted.iter().any(Job::lacks_tokens);
    if needs_proxy && session.access(None, None).identity.is_some() {
        ensure(&queue, &who, i64::from(options.tokens.delegate_when_lifetime_lt) * 60).await?;
    }
    let name = options.submission_id.clone();
    let is_chosen = name.is_some();
    let name = name.unwrap_or_else(|| uuid_text(random(), 4));
    let mut ids = Vec::new();
    for (index, job) in wanted.iter().enumerate() {
        let submission = Submission {
            name: match wanted.len() {
                1 => name.clone(),
                _ => format!("{name}.{index}"),
            },
            is_chosen,
            job,
        };
        let (traces, place) = (session.traces(), queue.place("/jobs")?);
        let span = Begun::new(&traces, fresh_span());
        let traceparent = traces.is_on().then(|| span.traceparent());
        let submitted = submit(&queue, &who, &submission, traceparent).await;
        let accepted = submitted.as_ref().ok().map(|(id, _)| id.as_str());
        span.submitted(&traces, place.location.host(), accepted);
        let (id, told) = submitted?;
        match options.common.json {
            true => output::json(&json!({"job_id": id, "files": job.file_count()})),
            false => output::line(&id),
        }
        // All jobs of a submission have the same credentials.
        if ids.is_empty() {
            warnings(&told).for_each(|words| output::complain(&format!("warning: {words}")));
        }
        ids.push(id);
    }
    match options.blocking {
        true => wait(&queue, ids, options.interval, options.common.json).await,
        false => Ok(0),
    }
}

/// A job, and the name under which it is submitted.
pub(super) struct Submission<'a> {
    pub(super) name: String,
    /// The user chose the name, so a job of this name may be theirs from before.
    pub(super) is_chosen: bool,
    pub(super) job: &'a Job,
}

/// The tokens for files without own: those of options, else that with which we log in.
fn tokens(session: &ClientContext, options: &QueueSubmitOptions) -> Result<FileTokens, Failure> {
    let own = &options.tokens;
    let login = session.access(None, None).bearer;
    let token = |side: &str, file: Option<&Path>, text: Option<&String>| {
        let (token, place) = match (file, text) {
            (Some(file), _) => (
                token_in(file)?,
                format!("the token for the {side} in {}", file.display()),
            ),
            (None, Some(text)) => (Secret::new(text.as_str()), format!("the token for the {side}")),
            (None, None) => match &login {
                Some(login) => (login.clone(), "the token that is sent to the queue".to_owned()),
                None => return Ok(None),
            },
        };
        still_valid(token.expose(), &place, now_ms())?;
        Ok::<_, Failure>(Some(token))
    };
    Ok(FileTokens {
        source: token(
            "source",
            own.source_token_file.as_deref(),
            own.src_access_token.as_ref(),
        )?,
        destination: token(
            "destination",
            own.destination_token_file.as_deref(),
            own.dst_access_token.as_ref(),
        )?,
    })
}

/// Refuses a token that says that it has expired: no copy could use it.
///
/// # Errors
/// `token_expired`, with the time since when.
fn still_valid(token: &str, place: &str, now_ms: i64) -> Result<(), Failure> {
    let ends_s = inspect(token, now_ms.div_euclid(1000)).expires_s;
    let Some(ends_ms) = ends_s
        .map(|ends_s| ends_s.saturating_mul(1000))
        .filter(|ends_ms| *ends_ms <= now_ms)
    else {
        return Ok(());
    };
    let words = format!("{place} expired {}, at {}", until(ends_ms, now_ms), instant(ends_ms));
    let advice = "Get a new token; the queue can renew tokens only before they end.";
    Err(Failure::advised(&mistake(ErrorCode::TokenExpired, &words), advice))
}

/// Submits a job; its identifier, and the queue's answer. A lost answer makes no second job,
/// because the job has the same name each time.
pub(super) async fn submit(
    queue: &Queue<'_>,
    who: &Who,
    submission: &Submission<'_>,
    traceparent: Option<String>,
) -> Result<(String, Value), Failure> {
    let body = submission.job.body(&submission.name);
    let mut may_exist = submission.is_chosen;
    let mut has_delegated = false;
    let mut pause = QUEUE_LOOK_PAUSE_MIN;
    for attempt in 1.. {
        let sent = queue
            .send_in(traceparent.clone(), ServiceMethod::Post, "/jobs", &body)
            .await;
        let failure = match sent {
            Ok(answer) if answer.is_success() => {
                let told = queue.read("/jobs", &answer)?;
                return Ok((id_of(queue, &told)?, told));
            }
            Ok(answer) if answer.asks_for_delegation() && !has_delegated => {
                delegate(queue, who).await?;
                has_delegated = true;
                continue;
            }
            Ok(answer) if answer.is_conflict() && may_exist => {
                let refusal = queue.refusal("/jobs", &answer);
                let Some(id) = known(queue, who, &submission.name).await else {
                    return Err(refusal.into());
                };
                if submission.is_chosen {
                    check_same(queue, &id, submission).await?;
                }
                return Ok((id, Value::Null));
            }
            Ok(answer) => queue.refusal("/jobs", &answer),
            Err(error) => {
                may_exist = true;
                error
            }
        };
        if !failure.retry() || attempt >= QUEUE_SUBMIT_ATTEMPTS {
            return Err(failure.into());
        }
        output::complain(&format!("{}; trying again", failure.public()));
        tokio::time::sleep(pause).await;
        pause = longer(pause);
    }
    Err(mistake(ErrorCode::Internal, "no attempt was made").into())
}

/// What our queue warns of: a credential that may end before the copies begin. An FTS does not.
fn warnings(told: &Value) -> impl Iterator<Item = &str> {
    let warnings = told["warnings"].as_array().into_iter().flatten();
    warnings.filter_map(Value::as_str)
}

fn id_of(queue: &Queue<'_>, told: &Value) -> Result<String, Failure> {
    let id = told["job_id"].as_str().filter(|id| is_plain(id));
    let id = id.ok_or_else(|| queue.misbehaved("/jobs", "it gives the job no identifier"))?;
    Ok(id.to_owned())
}

/// Refuses a submission if the job of its name is of other files.
async fn check_same(queue: &Queue<'_>, id: &str, submission: &Submission<'_>) -> Result<(), Failure> {
    let mut known = BTreeSet::new();
    let asked = elements::files(queue, id, |file| {
        known.extend(
            ["source_surl", "dest_surl"]
                .iter()
                .filter_map(|name| file[*name].as_str())
                .map(plain_url),
        );
    })
    .await;
    // The queue has the job: that its files cannot be asked for is no failure of the submission.
    match asked.is_err() || known == submission.job.urls() {
        true => Ok(()),
        false => {
            let words = format!(
                "the name {} was used for other files before, in job {id}",
                submission.name
            );
            let advice = "Choose another --submission-id; the same one is for the same files.";
            Err(Failure::advised(
                &mistake(ErrorCode::IdempotencyKeyReused, &words),
                advice,
            ))
        }
    }
}

/// The job that was submitted under this name before.
async fn known(queue: &Queue<'_>, who: &Who, name: &str) -> Option<String> {
    for vo in &who.vo_ids {
        let id = uuid_text(name_uuid(*vo, name), 5);
        if queue.get(&format!("/jobs/{id}")).await.is_ok() {
            return Some(id);
        }
    }
    None
}

/// Waits until jobs end: 0 if all their files were copied.
async fn wait(queue: &Queue<'_>, ids: Vec<String>, interval: Option<Duration>, as_json: bool) -> Result<u8, Failure> {
    let mut watched = Watched::to_the_end(ids, as_json);
    poll(queue, &mut watched, interval).await?;
    if watched.all_finished {
        return Ok(0);
    }
    if !as_json {
        // How the jobs ended is known: that their files cannot be asked for changes nothing.
        let _ = say_failed(queue, &watched.failed).await;
    }
    Ok(1)
}

/// Names files that were not copied, with their reasons, which say the side.
async fn say_failed(queue: &Queue<'_>, jobs: &[String]) -> Result<(), Failure> {
    let (mut count, mut lines) = (0_u64, Vec::new());
    for job in jobs {
        elements::files(queue, job, |file| {
            if !matches!(file["file_state"].as_str(), Some("FAILED" | "CANCELED")) {
                return;
            }
            count += 1;
            if lines.len() < QUEUE_FAILED_FILES {
                let [id, state, url, reason] =
                    ["file_id", "file_state", "dest_surl", "reason"].map(|name| text(&file[name]));
                lines.push(format!("{job}:{id} {state} {url}: {reason}"));
            }
        })
        .await?;
    }
    lines.iter().for_each(|line| output::complain(line));
    let files = if count == 1 { "file was" } else { "files were" };
    output::complain(&format!(
        "crossload queue submit: {count} {files} not copied; next: \"crossload queue log JOB\" shows what was tried"
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expired_token_is_refused_with_the_time() {
        // A header, the claims, and a signature that nothing looks at.
        let claims = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, r#"{"exp": 1000}"#);
        let token = format!("eyJhbGciOiJSUzI1NiJ9.{claims}.YQ");
        assert!(still_valid(&token, "the token", 999_000).is_ok());
        let refused = still_valid(&token, "the token in t", 1_000_000 + 7_200_000).unwrap_err();
        assert_eq!(refused.code, Some(ErrorCode::TokenExpired));
        let words = "the token in t expired 2 h 0 min ago, at 1970-01-01T00:16:40Z";
        assert!(refused.words.contains(words), "{}", refused.words);
        assert!(still_valid("opaque", "the token", i64::MAX).is_ok());
    }

    #[test]
    fn warnings_are_those_of_the_answer() {
        let told = json!({"job_id": "x", "warnings": ["the credential expires in 20 minutes"]});
        let found: Vec<_> = warnings(&told).collect();
        assert_eq!(found, ["the credential expires in 20 minutes"]);
        assert_eq!(warnings(&json!({"job_id": "x"})).count(), 0);
    }
}
