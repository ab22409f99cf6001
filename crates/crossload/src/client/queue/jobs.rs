//! `crossload queue status`, `list`, `cancel`, `log` and `priority`, by the REST API of FTS3.

use remote::ServiceMethod;
use serde_json::{Value, json};
use types::{ErrorCode, Result};

use super::delegation::whoami;
use super::elements;
use super::service::{Queue, encoded, is_plain, mistake};
use crate::client::session::ClientContext;
use crate::command_line::{
    QueueCancelOptions, QueueListOptions, QueueLogOptions, QueuePriorityOptions, QueueStatusOptions,
};
use crate::failure::Failure;
use crate::limits::{QUEUE_FILES_TABLE, QUEUE_JOBS_LISTED_MAX, QUEUE_JOBS_NAMED, QUEUE_LOG_ADDRESS_BYTES_MAX};
use crate::output;
use crate::table::Table;

/// The states in which a job stays.
const FINAL: [&str; 4] = ["FINISHED", "FINISHEDDIRTY", "FAILED", "CANCELED"];
/// What a queue answers, in place of a state, for a file that is not of the job.
const NOT_OF_JOB: &str = "File does not belong to the job";
/// The port at which an FTS serves its logs.
const FTS_LOG_PORT: u16 = 8449;

/// Whether a job stays in this state.
pub(super) fn is_over(state: &str) -> bool {
    FINAL.contains(&state)
}

/// FTS's word for a state of our own API, as all commands show states.
pub(super) fn word_of(state: &str) -> String {
    match state {
        "finished_dirty" => "FINISHEDDIRTY".to_owned(),
        state => state.to_ascii_uppercase(),
    }
}

/// The jobs of these names, those that exist.
///
/// # Errors
/// The queue's refusal; `not_found` words of the queue if one does not exist.
pub(super) async fn look(queue: &Queue<'_>, ids: &[String]) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    for some in ids.chunks(QUEUE_JOBS_NAMED) {
        let path = format!("/jobs/{}", some.join(","));
        match queue.get(&path).await? {
            Value::Array(several) => found.extend(several),
            one => found.push(one),
        }
    }
    Ok(found)
}

/// Shows jobs, and their files if wanted.
///
/// # Errors
/// The queue's refusal.
pub(super) async fn status(session: &ClientContext, options: &QueueStatusOptions) -> Result<u8, Failure> {
    let queue = Queue::new(session, &options.common.endpoint)?;
    let as_json = options.common.json;
    let ids = options.jobs.iter().map(|id| checked(id)).collect::<Result<Vec<_>>>()?;
    let mut worst = 0;
    for job in look(&queue, &ids).await? {
        if job["job_state"].is_null() {
            missing(&job);
            worst = ErrorCode::PeerNotFound.exit_code();
            continue;
        }
        match options.files {
            true => show_with_files(&queue, job, as_json).await?,
            false => print(&job, as_json),
        }
    }
    Ok(worst)
}

/// Prints a job with its files, as they come.
async fn show_with_files(queue: &Queue<'_>, mut job: Value, as_json: bool) -> Result<()> {
    let id = job["job_id"].as_str().unwrap_or_default().to_owned();
    if !as_json {
        print(&job, false);
        let mut table = FileTable::default();
        elements::files(queue, &id, |file| table.add(&file)).await?;
        table.print();
        return Ok(());
    }
    if let Some(members) = job.as_object_mut() {
        members.remove("files");
    }
    let text = job.to_string();
    output::json_piece(text.strip_suffix('}').unwrap_or_default());
    output::json_piece(",\"files\":[");
    let mut separator = "";
    let printed = elements::files(queue, &id, |file| {
        output::json_piece(separator);
        output::json_piece(&file.to_string());
        separator = ",";
    });
    let printed = printed.await;
    output::line("]}");
    printed
}

/// Says that a job does not exist. FTS answers it within a list of others.
fn missing(job: &Value) {
    let words = job["http_message"].as_str().unwrap_or("no such job");
    output::complain(&format!("crossload queue error: {words}"));
}

/// Lists jobs.
///
/// # Errors
/// The queue's refusal.
pub(super) async fn list(session: &ClientContext, options: &QueueListOptions) -> Result<u8, Failure> {
    let queue = Queue::new(session, &options.common.endpoint)?;
    let mut path = format!("/jobs?limit={QUEUE_JOBS_LISTED_MAX}");
    let mut narrow = |name: &str, value: &str| path.push_str(&format!("&{name}={}", encoded(value)));
    for (name, value) in [
        ("user_dn", &options.user),
        ("vo_name", &options.vo),
        ("source_se", &options.source),
        ("dest_se", &options.destination),
    ] {
        if let Some(value) = value {
            narrow(name, value);
        }
    }
    if options.user.is_none() && options.vo.is_none() {
        narrow("dlg_id", &whoami(&queue).await?.delegation_id);
    }
    if !options.state.is_empty() {
        narrow("state_in", &options.state.join(",").to_ascii_uppercase());
    }
    if let Some(since) = options.since {
        let minutes = since.as_secs().div_ceil(60);
        narrow("time_window", &format!("{}:{}", minutes / 60, minutes % 60));
    }
    let jobs = queue.get(&path).await?;
    let jobs = jobs.as_array().map(Vec::as_slice).unwrap_or_default();
    if options.common.json {
        jobs.iter().for_each(output::json);
    } else if jobs.is_empty() {
        output::complain(match options.since.is_none() && options.state.is_empty() {
            true => "no jobs that have not ended; --since 1d lists those that ended within a day, too",
            false => "no such jobs",
        });
    } else {
        let mut table = Table::new(["JOB", "STATE", "SUBMITTED", "PRIORITY", "VO", "REASON"]);
        for job in jobs {
            let [id, state, priority, vo, reason] =
                ["job_id", "job_state", "priority", "vo_name", "reason"].map(|name| text(&job[name]));
            table.add([id, state, utc(&job["submit_time"]), priority, vo, reason]);
        }
        table.print();
    }
    if jobs.len() == QUEUE_JOBS_LISTED_MAX {
        output::complain(&format!(
            "only the newest {QUEUE_JOBS_LISTED_MAX} jobs are listed; narrow the list by options"
        ));
    }
    Ok(0)
}

/// Cancels jobs, or some of their files.
///
/// # Errors
/// The queue's refusal.
pub(super) async fn cancel(session: &ClientContext, options: &QueueCancelOptions) -> Result<u8, Failure> {
    let queue = Queue::new(session, &options.common.endpoint)?;
    let named = options
        .jobs
        .iter()
        .map(|text| Named::parse(text))
        .collect::<Result<Vec<_>>>()?;
    let mut worst = 0;
    for Named { job, files } in named {
        let path = match files.as_slice() {
            [] => format!("/jobs/{job}"),
            files => format!("/jobs/{job}/files/{}", files.join(",")),
        };
        let answer = queue.ask(ServiceMethod::Delete, &path).await?;
        let told = queue.read(&path, &answer)?;
        if files.is_empty() {
            print(&told, options.common.json);
            continue;
        }
        // The state of one file, or a list of states.
        let states = match told {
            Value::Array(states) => states,
            one => vec![one],
        };
        for (file, state) in files.iter().zip(states) {
            if state == NOT_OF_JOB {
                worst = ErrorCode::PeerNotFound.exit_code();
            }
            match options.common.json {
                true => output::json(&json!({"job_id": job, "file_id": file, "file_state": state})),
                false => output::line(&format!("{job}:{file} {}", text(&state))),
            }
        }
    }
    Ok(worst)
}

/// Prints the logs of a job's files.
///
/// # Errors
/// The queue's refusal; `peer_not_found` if the job has no such file.
pub(super) async fn log(session: &ClientContext, options: &QueueLogOptions) -> Result<u8, Failure> {
    let queue = Queue::new(session, &options.common.endpoint)?;
    let Named { job, files } = Named::parse(&options.job)?;
    let mut logs: Vec<(u64, Option<String>)> = Vec::new();
    elements::files(&queue, &job, |file| {
        let id = file["file_id"].as_u64();
        let wanted = id.filter(|id| files.is_empty() || files.contains(&id.to_string()));
        logs.extend(wanted.map(|id| (id, address_of_log(&file))));
    })
    .await?;
    for wanted in &files {
        if !logs.iter().any(|(id, _)| id.to_string() == *wanted) {
            return Err(mistake(ErrorCode::PeerNotFound, &format!("the job has no file {wanted}")).into());
        }
    }
    for (id, address) in logs {
        let path = format!("/jobs/{job}/files/{id}/log");
        let answer = queue.ask(ServiceMethod::Get, &path).await?;
        let log = match answer.is_success() {
            true => answer.body.expose().trim_end().to_owned(),
            false => match address {
                Some(address) => address,
                None if answer.is_missing() => "no log yet".to_owned(),
                None => return Err(queue.refusal(&path, &answer).into()),
            },
        };
        match options.common.json {
            true => output::json(&json!({"job_id": job, "file_id": id, "log": log})),
            false => output::line(&format!("== {job}:{id}\n{log}")),
        }
    }
    Ok(0)
}

/// Where an FTS serves the log of a file.
fn address_of_log(file: &Value) -> Option<String> {
    let path = file["log_file"].as_str().filter(|path| !path.is_empty())?;
    let address = match path.contains("://") {
        true => path.to_owned(),
        false => {
            let host = file["transfer_host"].as_str().filter(|host| !host.is_empty())?;
            format!("https://{host}:{FTS_LOG_PORT}/{}", path.trim_start_matches('/'))
        }
    };
    (address.len() <= QUEUE_LOG_ADDRESS_BYTES_MAX).then_some(address)
}

/// Changes the priority of a job.
///
/// # Errors
/// The queue's refusal.
pub(super) async fn priority(session: &ClientContext, options: &QueuePriorityOptions) -> Result<u8, Failure> {
    let queue = Queue::new(session, &options.common.endpoint)?;
    let id = checked(&options.job)?;
    let job = match queue.is_ours().await? {
        true => {
            let path = format!("/v1/jobs/{id}/priority");
            match queue.post(&path, &json!({"priority": options.priority})).await {
                Ok(_) => {}
                Err(error) if error.code() == ErrorCode::JobTerminal => {}
                Err(error) => return Err(error.into()),
            }
            queue.get(&format!("/jobs/{id}")).await?
        }
        false => {
            let wish = json!({"params": {"priority": options.priority}});
            let mut job = queue.post(&format!("/jobs/{id}"), &wish).await?;
            if let Some(members) = job.as_object_mut() {
                // The list of files that comes with it is for status.
                members.remove("files");
            }
            job
        }
    };
    print(&job, options.common.json);
    match job["job_state"].as_str().is_some_and(is_over) {
        true => Ok(ErrorCode::JobTerminal.exit_code()),
        false => Ok(0),
    }
}

/// A job, and some of its files; none stands for all.
pub(super) struct Named {
    pub(super) job: String,
    pub(super) files: Vec<String>,
}

impl Named {
    /// Reads `JOB` or `JOB:FILE,...`.
    ///
    /// # Errors
    /// `bad_request`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let Some((job, files)) = text.split_once(':') else {
            return Ok(Self {
                job: checked(text)?,
                files: Vec::new(),
            });
        };
        let files: Vec<String> = files.split(',').map(str::to_owned).collect();
        match files.iter().all(|file| file.parse::<u64>().is_ok()) {
            true => Ok(Self {
                job: checked(job)?,
                files,
            }),
            false => Err(mistake(ErrorCode::BadRequest, "files are numbers, such as JOB:12,13").with_subject(text)),
        }
    }
}

/// A job's name, as it stands in paths.
pub(super) fn checked(id: &str) -> Result<String> {
    match is_plain(id) {
        true => Ok(id.to_owned()),
        false => Err(mistake(
            ErrorCode::BadRequest,
            "a job is named by the identifier that submit printed",
        )
        .with_subject(id)),
    }
}

/// Prints a job: the members that people look for, or all as JSON.
pub(super) fn print(job: &Value, as_json: bool) {
    if as_json {
        output::json(job);
        return;
    }
    output::line(&line(job));
}

/// A job for people: it says which of its times is shown, in UTC.
fn line(job: &Value) -> String {
    let [id, state, message, reason] = ["job_id", "job_state", "http_message", "reason"].map(|name| text(&job[name]));
    let submitted = match utc(&job["submit_time"]) {
        time if time.is_empty() => time,
        time => format!("submitted {time}"),
    };
    let mut words = vec![id, state, submitted, message, reason];
    words.retain(|word| !word.is_empty());
    words.join("  ")
}

/// The table of a job's files, printed piece by piece.
struct FileTable(Table<7>);

impl Default for FileTable {
    fn default() -> Self {
        Self(Table::new([
            "FILE",
            "STATE",
            "BYTES",
            "MiB/s",
            "SOURCE",
            "DESTINATION",
            "REASON",
        ]))
    }
}

impl FileTable {
    fn add(&mut self, file: &Value) {
        if self.0.rows() == QUEUE_FILES_TABLE {
            std::mem::take(self).print();
        }
        let throughput = file["throughput"].as_f64().filter(|rate| *rate > 0.0);
        let size = [&file["filesize"], &file["user_filesize"]]
            .into_iter()
            .filter_map(Value::as_u64)
            .find(|size| *size > 0);
        self.0.add([
            text(&file["file_id"]),
            text(&file["file_state"]),
            size.map_or_else(String::new, |size| size.to_string()),
            throughput.map_or_else(String::new, |rate| format!("{rate:.1}")),
            text(&file["source_surl"]),
            text(&file["dest_surl"]),
            text(&file["reason"]),
        ]);
    }

    fn print(self) {
        self.0.print_if_any();
    }
}

/// A time of FTS's API, which is UTC without saying so.
pub(super) fn utc(time: &Value) -> String {
    match text(time) {
        time if time.is_empty() || time.ends_with('Z') => time,
        time => format!("{time}Z"),
    }
}

/// A value of JSON as a word that is safe on a terminal.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => output::name(text).into_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_and_files_are_named_as_in_ftss_client() {
        let named = Named::parse("6d9c1f0e-00:12,13").unwrap();
        assert_eq!(
            (named.job.as_str(), named.files),
            ("6d9c1f0e-00", vec!["12".to_owned(), "13".to_owned()])
        );
        assert!(Named::parse("6d9c").unwrap().files.is_empty());
        for bad in ["", "a/b", "a:", "a:x", "a:1,", "../whoami", "a?b"] {
            assert!(Named::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_time_of_a_job_says_what_it_is_and_in_which_zone() {
        let job = json!({"job_id": "x", "job_state": "FAILED", "submit_time": "2026-11-28T10:54:38", "reason": "full"});
        assert_eq!(line(&job), "x  FAILED  submitted 2026-11-28T10:54:38Z  full");
        assert_eq!(line(&json!({"job_id": "x", "job_state": "ACTIVE"})), "x  ACTIVE");
    }

    #[test]
    fn logs_of_an_fts_have_an_address() {
        let file =
            json!({"log_file": "/var/log/fts3/transfers/2026-11-21/a__b/x", "transfer_host": "fts1.example.org"});
        let address = "https://fts1.example.org:8449/var/log/fts3/transfers/2026-11-21/a__b/x";
        assert_eq!(address_of_log(&file).as_deref(), Some(address));
        assert_eq!(address_of_log(&json!({"log_file": null, "transfer_host": "h"})), None);
    }
}
