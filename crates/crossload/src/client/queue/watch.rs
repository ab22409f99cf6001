//! `crossload queue watch`: follows jobs until they end, by the events of our queue, else by
//! looking again and again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use remote::ServiceStream;
use serde_json::{Value, json};
use types::{ErrorCode, Result};

use super::events::{Event, Reader};
use super::jobs::{checked, is_over, look, print, text, word_of};
use super::pages;
use super::service::Queue;
use crate::client::session::ClientContext;
use crate::command_line::QueueWatchOptions;
use crate::failure::Failure;
use crate::limits::{
    QUEUE_COUNTS_PAUSE, QUEUE_LOOK_FAILURES_MAX, QUEUE_LOOK_PAUSE_MAX, QUEUE_LOOK_PAUSE_MIN, QUEUE_NAME_CHARACTERS_MAX,
    QUEUE_NAMES_MAX, QUEUE_PAGE_ITEMS, QUEUE_WAIT_SAID_AFTER, QUEUE_WAITS_ASKED_MAX,
};
use crate::output;

/// The state of a job that was copied whole.
const FINISHED: &str = "FINISHED";

/// The next pause between two looks.
pub(super) fn longer(pause: Duration) -> Duration {
    (pause * 3 / 2).min(QUEUE_LOOK_PAUSE_MAX)
}

/// Follows jobs: 0 if all their files were copied.
///
/// # Errors
/// The queue's refusal.
pub(super) async fn run(session: &ClientContext, options: &QueueWatchOptions) -> Result<u8, Failure> {
    let queue = Queue::new(session, &options.common.endpoint)?;
    let ids = options.jobs.iter().map(|id| checked(id)).collect::<Result<Vec<_>>>()?;
    let mut watched = match options.quiet {
        true => Watched::to_the_end(ids, options.common.json),
        false => Watched::new(ids, options.common.json),
    };
    if queue.is_ours().await? {
        watched.shows_files = watched.shows_changes && !watched.as_json;
        follow(&queue, &mut watched, options.interval).await?;
    } else {
        poll(&queue, &mut watched, options.interval).await?;
    }
    Ok(u8::from(!watched.all_finished))
}

/// Jobs that have not ended yet, with the states that were shown.
pub(super) struct Watched {
    states: HashMap<String, String>,
    pub(super) all_finished: bool,
    /// Jobs that have ended, and not all of whose files were copied.
    pub(super) failed: Vec<String>,
    as_json: bool,
    /// Whether each change is shown, not only the end.
    shows_changes: bool,
    /// What jobs waited for when it was last said.
    waits: HashMap<String, String>,
    /// Whether files have names, and jobs counts of files: an FTS has no cheap answer to this.
    shows_files: bool,
    /// Names of files by their numbers.
    names: HashMap<u64, String>,
    /// When the counts of a job were shown last.
    counted: HashMap<String, Instant>,
}

impl Watched {
    pub(super) fn new(ids: Vec<String>, as_json: bool) -> Self {
        Self {
            states: ids.into_iter().map(|id| (id, String::new())).collect(),
            all_finished: true,
            failed: Vec::new(),
            as_json,
            shows_changes: true,
            waits: HashMap::new(),
            shows_files: false,
            names: HashMap::new(),
            counted: HashMap::new(),
        }
    }

    /// Only the end of these jobs is shown.
    pub(super) fn to_the_end(ids: Vec<String>, as_json: bool) -> Self {
        Self {
            shows_changes: false,
            ..Self::new(ids, as_json)
        }
    }

    fn ids(&self) -> Vec<String> {
        self.states.keys().cloned().collect()
    }

    fn is_over(&self) -> bool {
        self.states.is_empty()
    }

    /// What to say of a job that waits, if it was not said yet. The same reason is said once,
    /// although its words change with the time.
    fn wait(&mut self, id: &str, why: &Value) -> Option<String> {
        let first = &why["reasons"][0];
        let (words, code) = (text(&first["words"]), text(&first["code"]));
        let is_new = self.waits.get(id) != Some(&code);
        let waits = !words.is_empty() && !matches!(code.as_str(), "active" | "finished" | "next");
        self.waits.insert(id.to_owned(), code);
        (is_new && waits).then(|| format!("{id} waits: {words}"))
    }

    /// Takes a job as it is now. Whether it has changed.
    fn take(&mut self, job: &Value) -> bool {
        let (Some(id), Some(state)) = (job["job_id"].as_str(), job["job_state"].as_str()) else {
            return self.take_missing(job);
        };
        let Some(shown) = self.states.get_mut(id) else {
            return false;
        };
        let has_changed = shown != state;
        state.clone_into(shown);
        if is_over(state) {
            if state != FINISHED {
                self.all_finished = false;
                self.failed.push(id.to_owned());
            }
            self.states.remove(id);
            print(job, self.as_json);
        } else if has_changed && self.shows_changes {
            print(job, self.as_json);
        }
        has_changed
    }

    /// A job that does not exist, or no longer.
    fn take_missing(&mut self, job: &Value) -> bool {
        let id = job["job_id"].as_str().unwrap_or_default();
        if self.states.remove(id).is_some() {
            self.all_finished = false;
            print(job, self.as_json);
        }
        true
    }
}

/// Looks until all have ended, seldom if nothing changes.
///
/// # Errors
/// The queue's refusal.
pub(super) async fn poll(queue: &Queue<'_>, watched: &mut Watched, interval: Option<Duration>) -> Result<()> {
    let mut pause = QUEUE_LOOK_PAUSE_MIN;
    let mut failures = 0;
    loop {
        let mut has_changed = false;
        match look(queue, &watched.ids()).await {
            Ok(jobs) => {
                failures = 0;
                for job in jobs {
                    has_changed |= watched.take(&job);
                }
            }
            // The queue restarts, or the network is down: the jobs go on.
            Err(error) if error.retry() && failures < QUEUE_LOOK_FAILURES_MAX => failures += 1,
            Err(error) => return Err(error),
        }
        if watched.is_over() {
            return Ok(());
        }
        pause = match has_changed {
            true => QUEUE_LOOK_PAUSE_MIN,
            false => longer(pause),
        };
        if pause >= QUEUE_WAIT_SAID_AFTER {
            say_waits(queue, watched).await;
        }
        tokio::time::sleep(interval.unwrap_or(pause)).await;
    }
}

/// Follows the events of our queue. After a broken connection it goes on behind the last event.
async fn follow(queue: &Queue<'_>, watched: &mut Watched, interval: Option<Duration>) -> Result<()> {
    let path = match watched.ids().as_slice() {
        [one] => format!("/v1/events?job={one}"),
        _ => "/v1/events".to_owned(),
    };
    let mut place = queue.place(&path)?;
    // A queue that has no stream left for us is not waited for.
    place.access.returns_delays = true;
    let mut reader = Reader::default();
    let mut pause = QUEUE_LOOK_PAUSE_MIN;
    let mut failures = 0;
    begin(queue, watched).await?;
    loop {
        let opened = queue.session.client.events(&place, reader.last_id.as_deref()).await;
        let mut stream = match opened {
            Ok(stream) => stream,
            // A queue of ours that has no events yet.
            Err(error) if error.code() == ErrorCode::PeerNotFound => return poll(queue, watched, interval).await,
            // It answers, and has no stream for us: too many are open.
            Err(error) if error.retry() && error.peer_status().is_some() => {
                output::complain(&format!(
                    "without events, the jobs are looked at instead: {}",
                    error.public()
                ));
                return poll(queue, watched, interval).await;
            }
            Err(error) if error.retry() && failures < QUEUE_LOOK_FAILURES_MAX => {
                failures += 1;
                tokio::time::sleep(pause).await;
                pause = longer(pause);
                continue;
            }
            Err(error) => return Err(error),
        };
        // What has happened before the first event: jobs may have ended already.
        look_again(queue, watched).await?;
        while !watched.is_over() {
            let Some(piece) = next_piece(queue, watched, &mut stream).await? else {
                break;
            };
            (pause, failures) = (QUEUE_LOOK_PAUSE_MIN, 0);
            for event in reader.feed(&piece)? {
                show(queue, watched, &event).await?;
            }
        }
        if watched.is_over() {
            return Ok(());
        }
        reader.restart();
        tokio::time::sleep(pause).await;
        pause = longer(pause);
    }
}

/// What comes next; `None` at the end, and after a broken connection. Jobs are looked at meanwhile,
/// less and less often: a queue keeps its events for a limited time.
async fn next_piece(queue: &Queue<'_>, watched: &mut Watched, stream: &mut ServiceStream) -> Result<Option<Vec<u8>>> {
    let next = stream.next();
    tokio::pin!(next);
    let mut pause = QUEUE_LOOK_PAUSE_MIN;
    loop {
        pause = longer(pause);
        tokio::select! {
            piece = &mut next => return Ok(piece.unwrap_or_default()),
            () = tokio::time::sleep(pause) => look_again(queue, watched).await?,
        }
        if pause >= QUEUE_WAIT_SAID_AFTER {
            say_waits(queue, watched).await;
        }
        if watched.is_over() {
            return Ok(None);
        }
    }
}

/// Says what jobs wait for that have not changed for a while. An FTS cannot tell, and what a queue
/// does not answer is not missed.
async fn say_waits(queue: &Queue<'_>, watched: &mut Watched) {
    if watched.as_json || !queue.is_ours().await.unwrap_or_default() {
        return;
    }
    for id in watched.ids().iter().take(QUEUE_WAITS_ASKED_MAX) {
        // Files that have ended come last, so the first one waits if any does.
        if let Ok(page) = queue.get(&format!("/v1/jobs/{id}/why?limit=1")).await
            && let Some(words) = watched.wait(id, &page["items"][0])
        {
            output::complain(&words);
        }
    }
}

/// Takes the jobs as they are now. A queue that does not answer is asked again later.
async fn look_again(queue: &Queue<'_>, watched: &mut Watched) -> Result<()> {
    match look(queue, &watched.ids()).await {
        Ok(jobs) => jobs.iter().for_each(|job| {
            watched.take(job);
        }),
        Err(error) if error.retry() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Shows an event of a watched job, and the job if it may have ended by it.
async fn show(queue: &Queue<'_>, watched: &mut Watched, event: &Event) -> Result<()> {
    let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
    let Some(id) = data["job_id"].as_str().filter(|id| watched.states.contains_key(*id)) else {
        return Ok(());
    };
    match watched.as_json {
        _ if !watched.shows_changes => {}
        true => output::json(&json!({"event": event.kind, "data": data})),
        false => output::line(&line(&data, &watched.names)),
    }
    let id = id.to_owned();
    if data["job_state"].as_str().map(word_of).as_deref().is_some_and(is_over) {
        count(queue, watched, &id).await;
        for job in look(queue, &[id]).await? {
            watched.take(&job);
        }
    } else if watched
        .counted
        .get(&id)
        .is_none_or(|at| at.elapsed() >= QUEUE_COUNTS_PAUSE)
    {
        count(queue, watched, &id).await;
    }
    Ok(())
}

/// Asks for the names of the files, up to a limit.
async fn begin(queue: &Queue<'_>, watched: &mut Watched) -> Result<()> {
    if !watched.shows_files {
        return Ok(());
    }
    for id in watched.ids() {
        let names = &mut watched.names;
        let add = |page: Vec<Value>, _| {
            names.extend(page.iter().filter_map(name_of));
            Ok(names.len() < QUEUE_NAMES_MAX)
        };
        match pages::each(queue, &format!("/v1/jobs/{id}/files?limit={QUEUE_PAGE_ITEMS}"), add).await {
            Ok(()) => {}
            // Names are for convenience: the first look at the job says what is wrong with it.
            Err(error) if matches!(error.code(), ErrorCode::PeerNotFound | ErrorCode::NotFound) => {}
            Err(error) if error.retry() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The number of a file, and the last part of its destination's path.
fn name_of(file: &Value) -> Option<(u64, String)> {
    let url = file["destination"].as_str()?;
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let name = path.trim_end_matches('/').rsplit('/').next()?;
    let name: String = output::name(name).chars().take(QUEUE_NAME_CHARACTERS_MAX).collect();
    Some((file["file_id"].as_u64()?, name))
}

/// Shows how many files of a job are in which state.
async fn count(queue: &Queue<'_>, watched: &mut Watched, id: &str) {
    if !watched.shows_files {
        return;
    }
    watched.counted.insert(id.to_owned(), Instant::now());
    // What a queue does not answer is not missed: it is asked again after the next event.
    if let Ok(job) = queue.get(&format!("/v1/jobs/{id}")).await
        && let Some(words) = counts(&job["files"])
    {
        output::line(&format!("{id}  {words}"));
    }
}

/// The counts of a job's files for people; `None` without any.
pub(super) fn counts(files: &Value) -> Option<String> {
    let total = files["total"].as_u64()?;
    let finished = files["finished"].as_u64().unwrap_or_default();
    let plural = if total == 1 { "" } else { "s" };
    let mut words = format!("{finished} of {total} file{plural} finished");
    for state in [
        "failed",
        "canceled",
        "active",
        "archiving",
        "staging",
        "waiting",
        "unused",
    ] {
        if let Some(count) = files[state].as_u64().filter(|count| *count > 0) {
            words.push_str(&format!(", {count} {state}"));
        }
    }
    Some(words)
}

/// An event for people: what happened to which file.
fn line(data: &Value, names: &HashMap<u64, String>) -> String {
    let of_file = data["file_state"].as_str().or_else(|| data["job_state"].as_str());
    let name = data["file_id"].as_u64().and_then(|id| names.get(&id));
    let words = [
        text(&data["job_id"]),
        text(&data["file_id"]),
        output::name(&word_of(of_file.unwrap_or_default())).into_owned(),
        name.cloned().unwrap_or_default(),
        text(&data["reason"]),
    ];
    let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let data =
            json!({"job_id": "x", "file_id": 12, "file_state": "failed", "job_state": "active", "reason": "no\u{1b}"});
        let file = json!({"file_id": 12, "destination": "https://b/data/pic\u{1b}.jpg?svcClass=x"});
        let names = HashMap::from([name_of(&file).unwrap()]);
        assert_eq!(line(&data, &names), "x  12  FAILED  pic\\x1b.jpg  no\\x1b");
        let of_job = json!({"job_id": "x", "file_id": null, "job_state": "finished_dirty"});
        assert_eq!(line(&of_job, &names), "x  FINISHEDDIRTY");
        assert_eq!(line(&json!({}), &names), "");
    }

    #[test]
    fn the_files_of_a_job_are_counted() {
        let files = json!({"total": 5, "finished": 2, "failed": 1, "canceled": 0, "active": 2, "waiting": 0});
        assert_eq!(
            counts(&files).as_deref(),
            Some("2 of 5 files finished, 1 failed, 2 active")
        );
        assert_eq!(counts(&Value::Null), None);
    }

    #[test]
    fn a_reason_to_wait_is_said_once() {
        let mut watched = Watched::to_the_end(vec!["a".to_owned()], false);
        let why = |code: &str, words: &str| json!({"reasons": [{"code": code, "words": words}]});
        let said = watched.wait("a", &why("retry", "next attempt in 9 s"));
        assert_eq!(said.as_deref(), Some("a waits: next attempt in 9 s"));
        assert_eq!(watched.wait("a", &why("retry", "next attempt in 4 s")), None);
        assert_eq!(watched.wait("a", &why("active", "is being copied")), None);
        assert!(watched.wait("a", &why("link_paused", "paused")).is_some());
        assert_eq!(watched.wait("a", &Value::Null), None);
    }

    #[test]
    fn jobs_leave_when_they_end() {
        let mut watched = Watched::to_the_end(vec!["a".to_owned(), "b".to_owned()], true);
        assert!(watched.take(&json!({"job_id": "a", "job_state": "ACTIVE"})));
        assert!(!watched.take(&json!({"job_id": "a", "job_state": "ACTIVE"})));
        assert!(!watched.take(&json!({"job_id": "other", "job_state": "FAILED"})));
        watched.take(&json!({"job_id": "a", "job_state": "FINISHED"}));
        assert!(watched.all_finished && !watched.is_over());
        watched.take(&json!({"job_id": "b", "job_state": "FINISHEDDIRTY"}));
        assert!(!watched.all_finished && watched.is_over());
    }
}
