//! The message about a copy that has ended.

use catalog::{AttemptEnd, CopyFacts, FileRecord, JobRecord, Overwrite, Span};
use schedule::{FileState, JobKind};
use serde_json::{Map, Value, json};
use types::Location;

use super::failure::Failure;
use super::{Sender, ends, fields, identity, is_archiving, is_last_hop, is_multihop, login_word, transfer_id};

/// A copy has ended: done, failed, or canceled. `file` and `job` have the states after its end.
#[must_use]
pub fn complete(file: &FileRecord, job: &JobRecord, sender: &Sender<'_>, end: &AttemptEnd) -> Value {
    let facts = &course(file, &end.facts);
    let mut message = ends(file, sender);
    message.extend(identity(file, job, sender));
    message.extend(names(file, job, end));
    message.extend(times(facts));
    message.extend(outcome(file, job, end));
    message.extend(figures(file, job, end));
    message.insert("tr_id".to_owned(), transfer_id(file, facts.whole.from_ms).into());
    Value::Object(message)
}

/// The course of a copy. That of a canceled one is in the file's times only.
fn course(file: &FileRecord, facts: &CopyFacts) -> CopyFacts {
    if facts.whole != Span::default() {
        return *facts;
    }
    let times = &file.times;
    let from_ms = times.started_ms.unwrap_or_default();
    let to_ms = times.finished_ms.unwrap_or(from_ms);
    CopyFacts {
        whole: Span { from_ms, to_ms },
        ..*facts
    }
}

fn names(file: &FileRecord, job: &JobRecord, end: &AttemptEnd) -> Map<String, Value> {
    let is_last = is_last_hop(file, job);
    let (source, destination) = (scheme(&file.source), scheme(&file.destination));
    fields(json!({
        "vo": file.vo,
        "src_se": super::without_port(file.storages()[0]),
        "dst_se": super::without_port(file.storages()[1]),
        "protocol": destination,
        "src_protocol": source,
        "dst_protocol": destination,
        "src_transfer_protocol": wire_scheme(&file.source),
        "dst_transfer_protocol": wire_scheme(&file.destination),
        "protocol_translation": wire_scheme(&file.source) != wire_scheme(&file.destination),
        "srm_space_token_src": job.options.source_space_token,
        "srm_space_token_dst": job.options.destination_space_token,
        "channel_type": "urlcopy",
        "activity": file.activity,
        "job_m_replica": job.kind == JobKind::MultiSource,
        "job_multihop": is_multihop(job),
        "transfer_lasthop": is_last,
        "final_destination": job.destination_storage.as_deref().map_or("", super::without_port),
        "is_archiving": is_archiving(job),
        "transfer_type": end.way,
        "auth_method": login_word(job.owner.login),
        // The name of FTS's field, which is also that of a header.
        (stringify!(scitag)): file.options.scitag.unwrap_or(0),
    }))
}

fn times(facts: &CopyFacts) -> Map<String, Value> {
    let CopyFacts {
        whole,
        transfer,
        source_checksum,
        destination_checksum,
        ..
    } = facts;
    fields(json!({
        "tr_timestamp_start": whole.from_ms,
        "tr_timestamp_complete": whole.to_ms,
        "timestamp_tr_st": transfer.from_ms,
        "timestamp_tr_comp": transfer.to_ms,
        "timestamp_chk_src_st": source_checksum.from_ms,
        "timestamp_chk_src_ended": source_checksum.to_ms,
        "timestamp_checksum_dest_st": destination_checksum.from_ms,
        "timestamp_checksum_dest_ended": destination_checksum.to_ms,
        "timestamp_checksum_src_diff": source_checksum.length_ms(),
        "timestamp_checksum_dst_diff": destination_checksum.length_ms(),
        "time_srm_prep_st": whole.from_ms,
        "time_srm_prep_end": transfer.from_ms,
        "time_srm_fin_st": transfer.to_ms,
        "time_srm_fin_end": whole.to_ms,
        "srm_preparation_time": (transfer.from_ms - whole.from_ms).max(0),
        "srm_finalization_time": (whole.to_ms - transfer.to_ms).max(0),
        "srm_overhead_time": (whole.length_ms() - transfer.length_ms()).max(0),
        "srm_overhead_percentage": overhead_percent(facts),
        "transfer_time": transfer.length_ms(),
        "operation_time": whole.length_ms(),
        "t_timeout": facts.timeout_s,
        "chk_timeout": facts.timeout_s,
    }))
}

/// Percent of the time in which no data moved.
fn overhead_percent(facts: &CopyFacts) -> f64 {
    let whole = facts.whole.length_ms();
    match whole {
        0 => 0.0,
        _ => (whole - facts.transfer.length_ms()).max(0) as f64 * 100.0 / whole as f64,
    }
}

fn outcome(file: &FileRecord, job: &JobRecord, end: &AttemptEnd) -> Map<String, Value> {
    let (word, flag) = match file.state {
        FileState::Finished | FileState::Archiving => ("Ok", 1),
        FileState::Canceled => ("Abort", 0),
        _ => ("Error", 0),
    };
    let failure = Failure::of(end.problem.as_ref().filter(|_| word != "Ok"));
    let is_recoverable = end.problem.as_ref().is_some_and(|problem| problem.is_recoverable);
    fields(json!({
        "t_final_transfer_state": word,
        "t_final_transfer_state_flag": flag,
        "t_error_code": failure.errno,
        "tr_error_scope": failure.scope,
        "tr_error_category": failure.category,
        "t_failure_phase": failure.phase,
        "t__error_message": failure.words,
        "is_recoverable": word == "Ok" || is_recoverable,
        "job_state": job_word(file, job, word),
        "retry": end.retry,
    }))
}

/// FTS's state of the job in this message. Rucio's receiver skips messages with `ACTIVE`, so a file
/// whose end is final must not have it, whatever the other files of its job do.
fn job_word(file: &FileRecord, job: &JobRecord, word: &str) -> &'static str {
    let is_done = word == "Ok";
    match job.kind {
        JobKind::MultiSource if is_done => "FINISHED",
        JobKind::MultiSource if job.state.is_terminal() => "FAILED",
        JobKind::MultiSource => "ACTIVE",
        JobKind::Multihop if !is_done => "FAILED",
        JobKind::Multihop if is_last_hop(file, job) => "FINISHED",
        JobKind::Multihop => "ACTIVE",
        _ => "UNKNOWN",
    }
}

fn figures(file: &FileRecord, job: &JobRecord, end: &AttemptEnd) -> Map<String, Value> {
    let facts = &end.facts;
    let size_bytes = end
        .size_bytes
        .or(file.size_bytes)
        .or(file.given_size_bytes)
        .unwrap_or(0);
    let seconds = facts.transfer.length_ms() as f64 / 1000.0;
    let bytes_per_s = if seconds > 0.0 {
        end.moved_bytes as f64 / seconds
    } else {
        0.0
    };
    let overwrites_disk = matches!(
        job.options.overwrite,
        Overwrite::OnlyOnDisk | Overwrite::HopsAndOnlyOnDisk
    );
    fields(json!({
        "tr_bt_transfered": end.moved_bytes,
        "f_size": size_bytes,
        "file_size": size_bytes,
        "throughput": bytes_per_s,
        "nstreams": job.options.streams.unwrap_or(1),
        "buf_size": job.options.tcp_buffer_bytes.unwrap_or(0),
        "tcp_buf_size": job.options.tcp_buffer_bytes.unwrap_or(0),
        "block_size": 0,
        "retry_max": facts.retries_max,
        "ipver": match facts.is_ipv6 {
            Some(true) => "ipv6",
            Some(false) => "ipv4",
            None => "unknown",
        },
        "ipv6": facts.is_ipv6 == Some(true),
        // No file was released from tape, removed, or replaced: FTS's code for "not done".
        "eviction_code": -1,
        "cleanup_code": -1,
        "overwrite_on_disk_flag": overwrites_disk,
        "overwrite_on_disk_deletion_code": -1,
    }))
}

/// The scheme of a URL, as the client wrote it.
fn scheme(url: &str) -> &str {
    url.split_once("://").map_or("", |(scheme, _)| scheme)
}

/// The common name of the scheme: `https` for `davs`.
fn wire_scheme(url: &str) -> String {
    Location::parse(url).map_or_else(|_| String::new(), |place| place.wire_scheme().to_owned())
}
