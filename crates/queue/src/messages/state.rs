//! The message about a file that has another state.

use catalog::{FileRecord, JobRecord};
use serde_json::{Value, json};

use super::{Sender, identity, is_archiving, without_port};

/// A file has another state. `retries_max` is the number of attempts after the first, `at_ms` the
/// time of the message. Times that are not known are 0.
#[must_use]
pub fn state(file: &FileRecord, job: &JobRecord, sender: &Sender<'_>, retries_max: u16, at_ms: i64) -> Value {
    let times = &file.times;
    let mut message = super::fields(json!({
        "src_url": file.source,
        "dst_url": file.destination,
        "vo_name": file.vo,
        "source_se": without_port(file.storages()[0]),
        "dest_se": without_port(file.storages()[1]),
        "job_state": job.state.fts_name(),
        "file_state": file.state.fts_name(),
        "retry_counter": file.attempts,
        "retry_max": retries_max,
        "user_filesize": file.given_size_bytes.unwrap_or(0),
        "timestamp": at_ms,
        "submit_time": job.submitted_ms,
        "staging_start": times.staging_started_ms.unwrap_or(0),
        "staging_finished": times.staging_finished_ms.unwrap_or(0),
        "staging": job.options.bring_online_s.is_some() || job.options.pin_lifetime_s.is_some(),
        "archiving_start": times.archiving_started_ms.unwrap_or(0),
        "archiving_finished": times.archiving_finished_ms.unwrap_or(0),
        "archiving": is_archiving(job),
        "reason": file.problem.as_ref().map_or("", |problem| problem.reason.as_str()),
    }));
    message.extend(identity(file, job, sender));
    Value::Object(message)
}
