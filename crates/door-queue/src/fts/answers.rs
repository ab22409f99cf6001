//! Jobs and files as FTS's API shows them: the same keys, always all of them, in FTS's units.
//!
//! Times are in UTC, in whole seconds and without a zone, as Rucio parses them. Source: answers of
//! fts-rest-flask 3.13.

use catalog::{FileRecord, JobRecord, Login, Selection};
use schedule::{FileState, JobKind};
use serde_json::{Map, Value, json};

use super::submission::{internal_parameters, source_as_given, storage_without_port};
use crate::attempt::Attempt;

/// What FTS compares when a client names no checksum.
const CHECKSUM_DEFAULT: &str = "ADLER32";
/// Rucio compares it to the letter.
const GOOD: &str = "200 Ok";
const NOT_MODIFIED: &str = "304 Not Modified";
const NOT_FOUND: &str = "404 Not Found";
const BYTES_PER_MIB: f64 = 1_048_576.0;

/// What the service adds to the records.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// The name of the host that takes submissions.
    pub host: String,
    /// Where the API is reached, such as `https://host:8446`; links to logs begin with it.
    pub address: String,
}

/// A time; `null` for none.
#[must_use]
pub fn date_time(time_ms: Option<i64>) -> Value {
    let format = time::macros::format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
    let text = time_ms.and_then(|time_ms| {
        let time = time::OffsetDateTime::from_unix_timestamp(time_ms.div_euclid(1000)).ok()?;
        time.format(format).ok()
    });
    text.map_or(Value::Null, Value::String)
}

fn or_minus_one(value: Option<u32>) -> i64 {
    value.map_or(-1, i64::from)
}

fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// All members of a job.
#[must_use]
pub fn job(record: &JobRecord, shown: &Shown) -> Map<String, Value> {
    let options = &record.options;
    // One of several sources has no storage in common.
    let source = match record.kind {
        JobKind::MultiSource => None,
        _ => record.source_storage.as_deref(),
    };
    members(json!({
        "job_id": record.id,
        "job_state": record.state.fts_name(),
        "job_type": record.kind.letter(),
        "cancel_job": record.is_canceled,
        "source_se": source.map(storage_without_port),
        "dest_se": record.destination_storage.as_deref().map(storage_without_port),
        "submit_host": shown.host,
        "user_dn": record.owner.user,
        "cred_id": record.owner.delegation_id,
        "vo_name": record.owner.vo,
        "reason": record.reason,
        "submit_time": date_time(Some(record.submitted_ms)),
        "priority": record.priority,
        "max_time_in_queue": record.expires_ms.map(|time_ms| time_ms.div_euclid(1000)),
        "destination_spacetoken": non_empty(&options.destination_space_token),
        "source_spacetoken": non_empty(&options.source_space_token),
        "internal_job_params": internal_parameters(options),
        "dst_file_report": options.reports_destination,
        "overwrite_flag": options.overwrite.letter(),
        "job_finished": date_time(record.finished_ms),
        "copy_pin_lifetime": or_minus_one(options.pin_lifetime_s),
        "verify_checksum": options.checksum_mode.letter(),
        "bring_online": or_minus_one(options.bring_online_s),
        "archive_timeout": or_minus_one(options.archive_timeout_s),
        "target_qos": options.target_qos,
        "job_metadata": record.metadata,
        // The default of the server is 0, and no retries at all are -1.
        "retry": match options.retries {
            None => 0,
            Some(0) => -1,
            Some(retries) => i64::from(retries),
        },
        "retry_delay": options.retry_delay_s.unwrap_or_default(),
        "os_project_id": null,
    }))
}

/// All members of a file.
#[must_use]
pub fn file(record: &FileRecord, shown: &Shown) -> Map<String, Value> {
    let options = &record.options;
    let times = &record.times;
    // A copy that succeeded at last has no reason: FTS empties it.
    let problem = record.problem.as_ref().filter(|_| record.state != FileState::Finished);
    // FTS says it of attempts alone.
    let failure = problem.filter(|_| record.state != FileState::Canceled);
    let [source, destination] = record.storages();
    members(json!({
        "file_id": record.id,
        "file_index": record.index,
        "job_id": record.job,
        "file_state": record.state.fts_name(),
        "file_state_initial": record.initial_state.fts_name(),
        "source_surl": source_as_given(&record.source, options.copy_mode),
        "dest_surl": record.destination,
        "source_se": storage_without_port(source),
        "dest_se": storage_without_port(destination),
        "vo_name": record.vo,
        "activity": record.activity,
        "priority": record.priority,
        "checksum": options.checksum.as_deref().unwrap_or(CHECKSUM_DEFAULT),
        "filesize": record.size_bytes,
        "user_filesize": record.given_size_bytes.unwrap_or_default(),
        "throughput": throughput(record),
        "tx_duration": duration_s(record),
        "start_time": date_time(times.started_ms),
        "finish_time": date_time(times.finished_ms),
        "staging_start": date_time(times.staging_started_ms),
        "staging_finished": date_time(times.staging_finished_ms),
        "archive_start_time": date_time(times.archiving_started_ms),
        "archive_finish_time": date_time(times.archiving_finished_ms),
        "reason": problem.map(|problem| &problem.reason),
        "recoverable": failure.map(|failure| failure.is_recoverable),
        "retry": (record.attempts > 0).then_some(record.attempts),
        "pid": null,
        "transfer_host": record.worker,
        "staging_host": times.staging_started_ms.and(record.worker.as_deref()),
        "log_file": log_address(record, shown),
        "log_debug": null,
        "hashed_id": hashed_id(record),
        "dest_surl_uuid": null,
        "selection_strategy": selection(options.selection),
        "bringonline_token": null,
        "internal_file_params": null,
        "file_metadata": file_metadata(record),
        "staging_metadata": options.staging_metadata,
        "archive_metadata": options.archive_metadata,
        "scitag": options.scitag,
        "src_token_id": options.source_token,
        "dst_token_id": options.destination_token,
    }))
}

fn duration_s(record: &FileRecord) -> Option<f64> {
    let span_ms = record.times.finished_ms?.checked_sub(record.times.started_ms?)?;
    (span_ms >= 0).then_some(span_ms as f64 / 1000.0)
}

/// MiB per second.
fn throughput(record: &FileRecord) -> Option<f64> {
    let duration_s = duration_s(record).filter(|duration_s| *duration_s > 0.0)?;
    (record.moved_bytes > 0).then_some(record.moved_bytes as f64 / BYTES_PER_MIB / duration_s)
}

/// Where the log of a file is, once it has been tried.
#[must_use]
pub fn log_address(record: &FileRecord, shown: &Shown) -> Option<String> {
    record.times.started_ms?;
    Some(format!("{}/jobs/{}/files/{}/log", shown.address, record.job, record.id))
}

/// FTS shares files among hosts by this number; it is the same for all files of a job.
fn hashed_id(record: &FileRecord) -> u16 {
    u16::from_be_bytes([record.job.0[14], record.job.0[15]])
}

fn selection(selection: Selection) -> &'static str {
    match selection {
        Selection::Auto => "auto",
        Selection::Orderly => "orderly",
        Selection::Success => "success",
        Selection::Throughput => "throughput",
        Selection::FileThroughput => "file-throughput",
        Selection::PendingData => "pending-data",
        Selection::WaitingTime => "waiting-time",
        Selection::WaitingTimeWithError => "waiting-time-with-error",
        Selection::Duration => "duration",
    }
}

/// The client's data, with what the destination has instead (`dst_file`) if the job asks for it.
fn file_metadata(record: &FileRecord) -> Option<Value> {
    let Some(report) = &record.destination_report else {
        return record.options.metadata.clone();
    };
    let mut metadata = record.options.metadata.clone().map(members).unwrap_or_default();
    metadata.insert("dst_file".to_owned(), report.clone());
    Some(Value::Object(metadata))
}

/// Only these members, in the order of `keys`; keys that are not known are left out.
#[must_use]
pub fn selected(mut all: Map<String, Value>, keys: &[impl AsRef<str>]) -> Map<String, Value> {
    keys.iter().filter_map(|key| all.remove_entry(key.as_ref())).collect()
}

/// A job in the answer to a question about it by its identifier.
#[must_use]
pub fn found(record: &JobRecord, shown: &Shown) -> Value {
    let mut all = job(record, shown);
    all.insert("http_status".to_owned(), GOOD.into());
    Value::Object(all)
}

/// A job that was changed.
#[must_use]
pub fn changed(record: &JobRecord, shown: &Shown) -> Value {
    let mut answer = found(record, shown);
    answer["http_message"] = Value::Null;
    answer
}

/// A job that cannot be changed any more.
#[must_use]
pub fn unchanged(record: &JobRecord, shown: &Shown) -> Value {
    let mut answer = found(record, shown);
    answer["http_status"] = NOT_MODIFIED.into();
    answer["http_message"] = "The job is in a terminal state".into();
    answer
}

/// A job that does not exist, or that the client may not see.
#[must_use]
pub fn not_found(id: &str) -> Value {
    json!({"job_id": id, "http_status": NOT_FOUND, "http_message": no_job(id)})
}

/// The sentence for it.
#[must_use]
pub fn no_job(id: &str) -> String {
    format!("No job with the id \"{id}\" has been found")
}

/// An attempt that failed.
#[must_use]
pub fn attempt(attempt: &Attempt, log: &str) -> Value {
    json!({
        "attempt": attempt.number,
        "datetime": date_time(Some(attempt.failed_ms)),
        "reason": attempt.reason,
        "transfer_host": attempt.worker,
        "log_file": log,
    })
}

/// How a client proved who it is, in FTS's word; `None` for one that did not.
#[must_use]
pub fn method(login: Login) -> Option<&'static str> {
    match login {
        Login::Certificate => Some("certificate"),
        Login::Token => Some("oauth2"),
        Login::Anonymous => None,
    }
}
