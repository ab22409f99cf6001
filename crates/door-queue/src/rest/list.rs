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

fn unknown_state(name: &str) -> FtsError {
    FtsError::bad(format!("Unknown state {name}"))
}

/// `GET /jobs`: without `state_in` and `time_window` only those that have not ended.
pub(super) async fn jobs(State(settings): Shared, client: Client, uri: Uri) -> Answered {
    let caller = settings.caller(&client)?;
    let query = Query::of(&uri);
    let filter = filter(&query, &caller, query.limit(LISTED_JOBS_MAX)?)?;
    let state = |name: &&str| JobState::of_fts_name(name).ok_or_else(|| unknown_state(name));
    let states = match query.list("state_in") {
        Some(names) => names.iter().map(state).collect::<Result<_, _>>()?,
        None if filter.ended_since_ms.is_some() => JobState::ALL.to_vec(),
        None => JobState::ALL.into_iter().filter(|state| !state.is_terminal()).collect(),
    };
    let records = settings.queue.list_jobs(states, filter).await?;
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
    let state = |name: &&str| FileState::of_fts_name(name).ok_or_else(|| unknown_state(name));
    let states = match query.list("state_in") {
        Some(names) => names.iter().map(state).collect::<Result<_, _>>()?,
        None if filter.ended_since_ms.is_some() => FileState::ALL.to_vec(),
        None => FileState::ALL
            .into_iter()
            .filter(|state| !state.is_terminal())
            .collect(),
    };
    let records = settings.queue.list_files(states, filter).await?;
    let shown = |record| Value::Object(answers::file(record, &settings.shown));
    Ok(good(&records.iter().map(shown).collect()))
}
