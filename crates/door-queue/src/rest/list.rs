//! Lists of jobs and files.

use axum::extract::State;
use axum::http::Uri;
use http_server::control::Client;
use schedule::{FileState, JobState};
use serde_json::Value;

use super::query::Query;
use crate::fts::{FtsError, answers};
use crate::limits::{LISTED_FILES_MAX, LISTED_JOBS_MAX};
use crate::queue::Filter;
use crate::respond::{Answered, Failed, good};
use crate::rights::Caller;
use crate::settings::{Shared, now_ms};

/// What both lists are narrowed by.
fn filter(query: &Query, caller: &Caller, limit: usize) -> Result<Filter, Failed> {
    if let Some(id) = query.get("dlg_id").filter(|id| *id != caller.owner.delegation_id) {
        return Err(FtsError::new(403, format!("{id} is not your delegation id")).into());
    }
    let own_user = query.get("dlg_id").map(|_| caller.owner.user.clone());
    Ok(Filter {
        scope: caller.scope(),
        user: query.text("user_dn").or(own_user),
        vo: query.text("vo_name"),
        source_storage: query.text("source_se"),
        destination_storage: query.text("dest_se"),
        destination: query.text("dest_surl"),
        ended_since_ms: query.window_ms(now_ms())?,
        limit,
    })
}

/// States of FTS that no job or file has here. Its clients may ask for them, and find nothing.
const UNUSED_STATES: [&str; 8] = [
    "DELETE",
    "FORCE_START",
    "NOT_USED",
    "QOS_REQUEST_SUBMITTED",
    "QOS_TRANSITION",
    "READY",
    "SELECTED",
    "STARTED",
];

/// The states that a client asks for.
///
/// # Errors
/// 400 for what is no state of FTS.
fn states<S>(names: &[&str], known: impl Fn(&str) -> Option<S>) -> Result<Vec<S>, FtsError> {
    let mut states = Vec::new();
    for name in names {
        match known(name) {
            Some(state) => states.push(state),
            None if UNUSED_STATES.contains(name) => {}
            None => return Err(FtsError::bad(format!("Unknown state {name}"))),
        }
    }
    Ok(states)
}

/// `GET /jobs`: without `state_in` and `time_window` only those that have not ended.
pub(super) async fn jobs(State(settings): Shared, client: Client, uri: Uri) -> Answered {
    let caller = settings.caller(&client)?;
    let query = Query::of(&uri);
    let filter = filter(&query, &caller, query.limit(LISTED_JOBS_MAX)?)?;
    let states = match query.list("state_in") {
        Some(names) => states(&names, JobState::of_fts_name)?,
        None if filter.ended_since_ms.is_some() => JobState::ALL.to_vec(),
        None => JobState::ALL.into_iter().filter(|state| !state.is_terminal()).collect(),
    };
    // To the queue, no states are any.
    let records = match states.is_empty() {
        true => Vec::new(),
        false => settings.queue.list_jobs(states, filter).await?,
    };
    let fields = query.list("fields");
    let shown = |record| {
        let all = answers::job(record, &settings.shown);
        Value::Object(match &fields {
            Some(keys) => answers::selected(all, keys),
            None => all,
        })
    };
    Ok(good(&records.iter().map(shown).collect()))
}

/// `GET /files`: without `state_in` and `time_window` only those that have not ended.
pub(super) async fn files(State(settings): Shared, client: Client, uri: Uri) -> Answered {
    let caller = settings.caller(&client)?;
    let query = Query::of(&uri);
    let filter = filter(&query, &caller, query.limit(LISTED_FILES_MAX)?)?;
    let states = match query.list("state_in") {
        Some(names) => states(&names, FileState::of_fts_name)?,
        None if filter.ended_since_ms.is_some() => FileState::ALL.to_vec(),
        None => FileState::ALL
            .into_iter()
            .filter(|state| !state.is_terminal())
            .collect(),
    };
    let records = match states.is_empty() {
        true => Vec::new(),
        false => settings.queue.list_files(states, filter).await?,
    };
    let shown = |record| Value::Object(answers::file(record, &settings.shown));
    Ok(good(&records.iter().map(shown).collect()))
}
