//! Requests about jobs that are named.
//!
//! The job of another client is answered like one that does not exist.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use catalog::{FileRecord, JobRecord};
use http_server::control::Client;
use schedule::{FileId, FileState, JobId, JobKind};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::files::Answer;
use super::query::{Query, read};
use crate::fts::FtsError;
use crate::fts::answers;
use crate::fts::submission::clamped_priority;
use crate::limits::{CANCELED_FILES_MAX, JOBS_PER_REQUEST_MAX};
use crate::respond::{Answered, Failed, good, with_status};
use crate::rights::Caller;
use crate::settings::{Settings, Shared};

/// The reason of what a client has canceled.
const CANCELED: &str = "Job canceled by the user";

/// The jobs of a request that its sender may see.
struct Named<'i> {
    ids: Vec<&'i str>,
    found: HashMap<JobId, JobRecord>,
}

impl<'i> Named<'i> {
    async fn find(settings: &Settings, caller: &Caller, ids: &'i str) -> Result<Self, Failed> {
        // A job that is named again is shown once.
        let mut named = HashSet::new();
        let ids: Vec<&str> = ids
            .split(',')
            .filter(|id| !id.is_empty() && named.insert(*id))
            .collect();
        if ids.len() > JOBS_PER_REQUEST_MAX {
            return Err(FtsError::bad(format!("more than {JOBS_PER_REQUEST_MAX} jobs")).into());
        }
        let known: Vec<JobId> = ids.iter().filter_map(|id| id.parse().ok()).collect();
        let scope = caller.scope();
        let records = settings.queue.jobs(known).await?;
        let visible = records.into_iter().filter(|record| scope.includes(&record.owner));
        Ok(Self {
            ids,
            found: visible.map(|record| (record.id, record)).collect(),
        })
    }

    fn get(&self, id: &str) -> Option<&JobRecord> {
        self.found.get(&id.parse().ok()?)
    }

    /// One answer, or a list of them in the order of the request: 207 if some job is not there.
    fn answer(&self, show: impl Fn(&JobRecord) -> Value) -> Response {
        let one = |id: &&str| self.get(id).map_or_else(|| answers::not_found(id), &show);
        let body = match self.ids.as_slice() {
            [id] => one(id),
            ids => ids.iter().map(one).collect(),
        };
        with_status(self.status().as_u16(), &body)
    }

    /// The same with the files of those jobs for which `show` says so, and these members of them.
    fn answer_with_files(
        &self,
        settings: Arc<Settings>,
        members: Option<Vec<String>>,
        show: impl Fn(&JobRecord) -> (Value, bool),
    ) -> Response {
        let mut answer = Answer::default();
        let is_list = self.ids.len() != 1;
        answer.text(if is_list { "[" } else { "" });
        for (index, id) in self.ids.iter().enumerate() {
            answer.text(if index == 0 { "" } else { "," });
            match self.get(id).map(|record| (record.id, show(record))) {
                Some((id, (job, true))) => answer.with_files(&job, id),
                Some((_, (job, false))) => answer.text(&job.to_string()),
                None => answer.text(&answers::not_found(id).to_string()),
            }
        }
        answer.text(if is_list { "]" } else { "" });
        answer.send(settings, self.status(), members)
    }

    fn status(&self) -> StatusCode {
        let is_complete = self.ids.iter().all(|id| self.get(id).is_some());
        match (self.ids.len(), is_complete) {
            (_, true) => StatusCode::OK,
            (1, false) => StatusCode::NOT_FOUND,
            (_, false) => StatusCode::MULTI_STATUS,
        }
    }
}

/// The one job of a request.
///
/// # Errors
/// 404 if it does not exist for this client.
async fn one(settings: &Settings, client: &Client, id: &str) -> Result<JobRecord, Failed> {
    let caller = settings.caller(client)?;
    let found = Named::find(settings, &caller, id).await?.get(id).cloned();
    found.ok_or_else(|| FtsError::new(404, answers::no_job(id)).into())
}

/// A file of a job.
async fn file_of(settings: &Settings, job: &JobRecord, file: &str) -> Result<FileRecord, Failed> {
    let missing = || {
        Failed::from(FtsError::new(
            404,
            format!("No file with the id \"{file}\" has been found"),
        ))
    };
    let id = file.parse().map(FileId).map_err(|_| missing())?;
    let found = settings.queue.file(id).await?;
    found.filter(|found| found.job == job.id).ok_or_else(missing)
}

/// `GET /jobs/ID[,ID…]`, with `files=` for members of their files.
pub(super) async fn show(State(settings): Shared, client: Client, Path(ids): Path<String>, uri: Uri) -> Answered {
    let caller = settings.caller(&client)?;
    let named = Named::find(&settings, &caller, &ids).await?;
    let query = Query::of(&uri);
    let Some(members) = query.list("files") else {
        return Ok(named.answer(|record| answers::found(record, &settings.shown)));
    };
    let members = members.into_iter().map(str::to_owned).collect();
    let show = |record: &JobRecord| (answers::found(record, &settings.shown), true);
    Ok(named.answer_with_files(settings.clone(), Some(members), show))
}

/// `GET /jobs/ID/files`.
pub(super) async fn files(State(settings): Shared, client: Client, Path(id): Path<String>) -> Answered {
    let job = one(&settings, &client, &id).await?;
    let mut answer = Answer::default();
    answer.files(job.id);
    Ok(answer.send(settings, StatusCode::OK, None))
}

/// `GET /jobs/ID/FIELD`. `dm` is what jobs of the namespace once had.
pub(super) async fn field(
    State(settings): Shared,
    client: Client,
    Path(path): Path<HashMap<String, String>>,
) -> Answered {
    let (id, field) = (&path["id"], &path["field"]);
    let job = one(&settings, &client, id).await?;
    if field == "dm" {
        return Ok(good(&json!([])));
    }
    match answers::job(&job, &settings.shown).get(field) {
        Some(value) => Ok(good(value)),
        None => Err(FtsError::new(404, "No such field").into()),
    }
}

/// `GET /jobs/ID/files/FID/retries`.
pub(super) async fn attempts(
    State(settings): Shared,
    client: Client,
    Path(path): Path<HashMap<String, String>>,
) -> Answered {
    let job = one(&settings, &client, &path["id"]).await?;
    let file = file_of(&settings, &job, &path["file"]).await?;
    let log = answers::log_address(&file, &settings.shown).unwrap_or_default();
    let attempts = settings.queue.attempts(file.id).await?;
    Ok(good(
        &attempts.iter().map(|attempt| answers::attempt(attempt, &log)).collect(),
    ))
}

/// `GET /jobs/ID/files/FID/log`: not in FTS, whose logs have another address on each host.
pub(super) async fn log(
    State(settings): Shared,
    client: Client,
    Path(path): Path<HashMap<String, String>>,
) -> Answered {
    let job = one(&settings, &client, &path["id"]).await?;
    let file = file_of(&settings, &job, &path["file"]).await?;
    match settings.queue.log(file.id).await? {
        Some(log) => Ok(log.into_response()),
        None => Err(FtsError::new(404, "The file has no log").into()),
    }
}

/// `DELETE /jobs/ID[,ID…]`.
pub(super) async fn cancel(State(settings): Shared, client: Client, Path(ids): Path<String>) -> Answered {
    let caller = settings.caller(&client)?;
    let mut named = Named::find(&settings, &caller, &ids).await?;
    let live: Vec<JobId> = named
        .found
        .values()
        .filter(|job| !job.state.is_terminal())
        .map(|job| job.id)
        .collect();
    for id in &live {
        settings.queue.cancel(*id, None, CANCELED.to_owned()).await?;
    }
    for record in settings.queue.jobs(live.clone()).await? {
        named.found.insert(record.id, record);
    }
    Ok(named.answer(|record| match live.contains(&record.id) {
        true => answers::changed(record, &settings.shown),
        false => answers::unchanged(record, &settings.shown),
    }))
}

/// `DELETE /jobs/ID/files/FID[,FID…]`: the state of the file, or a list of states.
pub(super) async fn cancel_files(
    State(settings): Shared,
    client: Client,
    Path(path): Path<HashMap<String, String>>,
) -> Answered {
    let job = one(&settings, &client, &path["id"]).await?;
    if matches!(job.kind, JobKind::Multihop | JobKind::SessionReuse) {
        let message = format!(
            "Multihop or reuse jobs must be cancelled at once ({})",
            job.kind.letter()
        );
        return Err(FtsError::bad(message).into());
    }
    let named: Vec<&str> = path["file"].split(',').collect();
    if named.len() > CANCELED_FILES_MAX {
        return Err(FtsError::bad(format!("more than {CANCELED_FILES_MAX} files")).into());
    }
    let known: Vec<Option<FileId>> = named.iter().map(|text| text.parse().map(FileId).ok()).collect();
    let files = states(&settings, &job, &known).await?;
    if !files.is_empty() {
        let ids = files.into_keys().collect();
        settings.queue.cancel(job.id, Some(ids), CANCELED.to_owned()).await?;
    }
    let files = states(&settings, &job, &known).await?;
    let state = |id: &Option<FileId>| match id.and_then(|id| files.get(&id)) {
        Some(state) => Value::from(state.fts_name()),
        None => "File does not belong to the job".into(),
    };
    match known.as_slice() {
        [one] => Ok(good(&state(one))),
        several => Ok(good(&several.iter().map(state).collect())),
    }
}

/// The states of those files that belong to the job.
async fn states(
    settings: &Settings,
    job: &JobRecord,
    files: &[Option<FileId>],
) -> Result<HashMap<FileId, FileState>, Failed> {
    let mut states = HashMap::new();
    for id in files.iter().flatten() {
        let found = settings.queue.file(*id).await?;
        if let Some(file) = found.filter(|file| file.job == job.id) {
            states.insert(*id, file.state);
        }
    }
    Ok(states)
}

/// What can be changed of a job.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with params")]
struct Changes {
    params: Option<Map<String, Value>>,
}

/// `POST /jobs/ID[,ID…]`: a new priority; other parameters are ignored, as in FTS.
pub(super) async fn change(State(settings): Shared, client: Client, Path(ids): Path<String>, body: Body) -> Answered {
    let caller = settings.caller(&client)?;
    let changes: Changes = read(body).await?;
    let priority = changes.params.unwrap_or_default().get("priority").cloned();
    let priority = match priority {
        None | Some(Value::Null) => None,
        Some(value) => {
            let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
            Some(number.ok_or_else(|| FtsError::bad("Invalid value within the request: priority is not a number"))?)
        }
    };
    let mut named = Named::find(&settings, &caller, &ids).await?;
    let live = |job: &&JobRecord| !job.state.is_terminal();
    let live: Vec<JobId> = named.found.values().filter(live).map(|job| job.id).collect();
    if let Some(priority) = priority {
        for id in &live {
            settings.queue.set_priority(*id, clamped_priority(priority)).await?;
        }
    }
    for record in settings.queue.jobs(live.clone()).await? {
        named.found.insert(record.id, record);
    }
    let show = |record: &JobRecord| match live.contains(&record.id) {
        true => (answers::changed(record, &settings.shown), true),
        false => (answers::unchanged(record, &settings.shown), false),
    };
    Ok(named.answer_with_files(settings.clone(), None, show))
}
