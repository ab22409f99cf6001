//! What happens, in the form of our own API: for its stream of events, and for webhooks.

use catalog::{Catalog, Event, LogEntry};
use schedule::JobId;
use serde_json::{Value, json};
use types::Result;

use crate::messages::LinkFacts;

/// The kind of events about jobs and files.
pub const STATE: &str = "state";
/// The kind of events about decisions of the optimizer.
pub const OPTIMIZER: &str = "optimizer";
/// All kinds.
pub const KINDS: [&str; 2] = [STATE, OPTIMIZER];

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Happening {
    /// Its place in the sequence of all events; increasing, perhaps with gaps.
    pub sequence: i64,
    /// What it is about: one of [`KINDS`].
    pub kind: &'static str,
    /// The job, if it is about one.
    pub job: Option<JobId>,
    /// The virtual organisation, if it concerns only one.
    pub vo: Option<String>,
    /// A JSON object.
    pub message: Value,
}

/// At most `limit` events after one, in order.
///
/// # Errors
/// Those of the catalog.
pub async fn happenings_after(catalog: &Catalog, sequence: i64, limit: usize) -> Result<Vec<Happening>> {
    let entries = catalog.log_after(sequence, limit).await?;
    Ok(entries.into_iter().map(happening).collect())
}

fn happening(entry: LogEntry) -> Happening {
    match entry {
        LogEntry::Change(event) => Happening {
            sequence: event.sequence,
            kind: STATE,
            job: Some(event.job),
            message: state(&event),
            vo: Some(event.vo),
        },
        LogEntry::Decision {
            sequence,
            at_ms,
            decision,
        } => Happening {
            sequence,
            kind: OPTIMIZER,
            job: None,
            vo: None,
            // What another release has written may lack members.
            message: optimizer(&serde_json::from_value(decision).unwrap_or_default(), at_ms),
        },
    }
}

/// With the words of `GET /v1/jobs` and `GET /v1/files`.
fn state(event: &Event) -> Value {
    json!({
        "job_id": event.job,
        "file_id": event.file,
        "job_state": event.job_state,
        "file_state": event.file_state,
        "vo": event.vo,
        "at_ms": event.at_ms,
    })
}

/// As `GET /v1/decisions` shows it.
fn optimizer(facts: &LinkFacts, at_ms: i64) -> Value {
    json!({
        "at_ms": at_ms,
        "source": facts.source_storage,
        "destination": facts.destination_storage,
        "limit": facts.limit,
        "difference": facts.change,
        "goodput_bytes_s": facts.bytes_per_s,
        "success_percent": facts.success * 100.0,
        "waiting": facts.waiting,
        "rationale": facts.rationale,
    })
}

#[cfg(test)]
mod tests {
    use schedule::{FileId, FileState, JobState};

    use super::*;

    #[test]
    fn an_event_has_the_words_of_our_own_api() {
        let event = Event {
            sequence: 7,
            at_ms: 5,
            job: JobId([1; 16]),
            file: Some(FileId(3)),
            job_state: JobState::FinishedDirty,
            file_state: Some(FileState::OnHold),
            vo: "atlas".to_owned(),
        };
        let message = state(&event);
        let job = event.job.to_string();
        assert_eq!(
            message,
            json!({"job_id": job, "file_id": 3, "job_state": "finished_dirty", "file_state": "on_hold", "vo": "atlas",
                "at_ms": 5})
        );
    }
}
