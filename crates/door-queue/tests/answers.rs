//! Answers have the members, in value and presence, that FTS's REST server gave in recorded
//! exchanges; hosts and names are our own.

#![recursion_limit = "256"]

use catalog::{
    ChecksumMode, CopyMode, FileOptions, FileRecord, JobOptions, JobRecord, Login, Overwrite, Owner, Problem,
    Selection, Times,
};
use door_queue::fts::answers::{self, Shown};
use schedule::{FileId, FileState, JobId, JobKind, JobState};
use serde_json::{Map, Value, json};

/// 2026-11-21T18:46:30.999Z.
const SUBMITTED_MS: i64 = 1_795_286_790_999;

fn shown() -> Shown {
    Shown {
        host: "queue.test".into(),
        address: "https://queue.test:8446".into(),
    }
}

fn id() -> JobId {
    "dde6473a-e5db-11f1-9537-02fc00004600".parse().unwrap()
}

fn job() -> JobRecord {
    JobRecord {
        id: id(),
        kind: JobKind::Normal,
        state: JobState::Submitted,
        owner: Owner {
            user: "/DC=test/CN=Jane".into(),
            delegation_id: "ac4ba2be183546e6".into(),
            vo: "testvo".into(),
            login: Login::Certificate,
        },
        submitted_ms: SUBMITTED_MS,
        finished_ms: None,
        priority: 3,
        expires_ms: None,
        is_canceled: false,
        reason: None,
        source_storage: Some("davs://a.x:443".into()),
        destination_storage: Some("davs://b.x:8443".into()),
        options: JobOptions {
            checksum_mode: ChecksumMode::Both,
            overwrite: Overwrite::Always,
            ..JobOptions::default()
        },
        metadata: Some(json!({"issuer": "rucio", "auth_method": "certificate"})),
        files: 1,
    }
}

fn file() -> FileRecord {
    FileRecord {
        id: FileId(1),
        job: id(),
        index: 0,
        state: FileState::Submitted,
        initial_state: FileState::Submitted,
        source: "davs://a.x:443/p/1".into(),
        destination: "davs://b.x:8443/p/1".into(),
        source_storage: "davs://a.x:443".into(),
        destination_storage: "davs://b.x:8443".into(),
        vo: "testvo".into(),
        activity: "User".into(),
        user: String::new(),
        priority: 3,
        given_size_bytes: Some(5),
        size_bytes: None,
        moved_bytes: 0,
        attempts: 0,
        problem: None,
        times: Times::default(),
        worker: None,
        way: None,
        destination_report: None,
        is_interrupted: false,
        lost_part_looks: 0,
        hop: None,
        options: FileOptions {
            checksum: Some("ADLER32:12".into()),
            selection: Selection::Orderly,
            copy_mode: Some(CopyMode::Push),
            metadata: Some(json!({"request_id": "r1"})),
            ..FileOptions::default()
        },
    }
}

fn recorded_job() -> Value {
    json!({
        "source_spacetoken": null, "dest_se": "davs://b.x", "reason": null, "copy_pin_lifetime": -1,
        "os_project_id": null, "job_state": "SUBMITTED", "submit_time": "2026-11-21T18:46:30", "bring_online": -1,
        "destination_spacetoken": null, "job_type": "N", "priority": 3, "archive_timeout": -1, "verify_checksum": "b",
        "cancel_job": false, "max_time_in_queue": null, "target_qos": null, "submit_host": "queue.test",
        "internal_job_params": null, "job_id": "dde6473a-e5db-11f1-9537-02fc00004600", "user_dn": "/DC=test/CN=Jane",
        "dst_file_report": false, "job_metadata": {"issuer": "rucio", "auth_method": "certificate"},
        "source_se": "davs://a.x", "cred_id": "ac4ba2be183546e6", "overwrite_flag": "Y", "retry": 0,
        "vo_name": "testvo", "job_finished": null, "retry_delay": 0,
    })
}

fn with(mut value: Value, changes: Value) -> Value {
    value
        .as_object_mut()
        .unwrap()
        .extend(changes.as_object().unwrap().clone());
    value
}

#[test]
fn a_job_is_shown_as_recorded() {
    assert_eq!(Value::Object(answers::job(&job(), &shown())), recorded_job());
    let good = with(recorded_job(), json!({"http_status": "200 Ok"}));
    assert_eq!(answers::found(&job(), &shown()), good);
    let changed = with(good, json!({"http_message": null}));
    assert_eq!(answers::changed(&job(), &shown()), changed);
    let state = answers::selected(answers::file(&file(), &shown()), &["file_state", "unknown"]);
    assert_eq!(Value::Object(state), json!({"file_state": "SUBMITTED"}));
}

#[test]
fn a_canceled_job_stays_as_it_is() {
    let record = JobRecord {
        state: JobState::Canceled,
        is_canceled: true,
        reason: Some("Job canceled by the user".into()),
        finished_ms: Some(SUBMITTED_MS + 1000),
        ..job()
    };
    let expected = with(
        recorded_job(),
        json!({
            "job_state": "CANCELED", "cancel_job": true, "reason": "Job canceled by the user",
            "job_finished": "2026-11-21T18:46:31", "http_status": "304 Not Modified",
            "http_message": "The job is in a terminal state",
        }),
    );
    assert_eq!(answers::unchanged(&record, &shown()), expected);
}

#[test]
fn options_have_the_values_of_fts() {
    let options = JobOptions {
        bring_online_s: Some(3600),
        pin_lifetime_s: Some(100),
        retries: Some(0),
        overwrite: Overwrite::Hops,
        ..JobOptions::default()
    };
    let record = JobRecord {
        kind: JobKind::MultiSource,
        options,
        expires_ms: Some(1_795_286_790_000),
        ..job()
    };
    let shown = answers::job(&record, &shown());
    for (key, value) in [
        ("bring_online", json!(3600)),
        ("copy_pin_lifetime", json!(100)),
        ("retry", json!(-1)),
        ("overwrite_flag", json!("M")),
        ("verify_checksum", json!("n")),
        ("source_se", Value::Null),
        ("job_type", json!("R")),
        ("max_time_in_queue", json!(1_795_286_790)),
    ] {
        assert_eq!(shown[key], value, "{key}");
    }
}

#[test]
fn a_file_is_shown_as_recorded() {
    let expected = json!({
        "recoverable": null, "source_se": "davs://a.x", "reason": null, "pid": null, "staging_metadata": null,
        "src_token_id": null, "dest_se": "davs://b.x", "filesize": null, "archive_metadata": null,
        "staging_finished": null, "dst_token_id": null, "file_id": 1, "priority": 3, "checksum": "ADLER32:12",
        // The recording has an empty text here.
        "tx_duration": null, "staging_start": null, "file_state_initial": "SUBMITTED", "hashed_id": 17920,
        "file_state": "SUBMITTED", "finish_time": null, "throughput": null, "selection_strategy": "orderly",
        "file_index": 0, "transfer_host": null, "start_time": null, "retry": null, "bringonline_token": null,
        "job_id": "dde6473a-e5db-11f1-9537-02fc00004600", "source_surl": "davs://a.x:443/p/1?copy_mode=push",
        "archive_start_time": null, "user_filesize": 5, "log_file": null, "dest_surl_uuid": null,
        "dest_surl": "davs://b.x:8443/p/1", "archive_finish_time": null, "file_metadata": {"request_id": "r1"},
        "activity": "User", "log_debug": null, "vo_name": "testvo", "staging_host": null,
        "internal_file_params": null, "scitag": null,
    });
    assert_eq!(Value::Object(answers::file(&file(), &shown())), expected);
}

#[test]
fn a_failed_file_says_when_why_and_how_fast() {
    let mut record = file();
    record.state = FileState::Failed;
    record.options.checksum = None;
    record.attempts = 2;
    record.moved_bytes = 3 * 1_048_576;
    record.destination_report = Some(json!({"file_on_tape": true}));
    record.times.started_ms = Some(SUBMITTED_MS);
    record.times.finished_ms = Some(SUBMITTED_MS + 1500);
    record.problem = Some(Problem {
        code: "exists".into(),
        side: "destination".into(),
        phase: "open".into(),
        reason: "DESTINATION [17] Destination file exists and overwrite is not enabled".into(),
        is_recoverable: false,
    });
    let file: Map<String, Value> = answers::file(&record, &shown());
    for (key, value) in [
        ("file_state", json!("FAILED")),
        ("checksum", json!("ADLER32")),
        ("throughput", json!(2.0)),
        ("tx_duration", json!(1.5)),
        ("retry", json!(2)),
        ("recoverable", json!(false)),
        ("start_time", json!("2026-11-21T18:46:30")),
        ("finish_time", json!("2026-11-21T18:46:32")),
        (
            "file_metadata",
            json!({"request_id": "r1", "dst_file": {"file_on_tape": true}}),
        ),
        (
            "log_file",
            json!("https://queue.test:8446/jobs/dde6473a-e5db-11f1-9537-02fc00004600/files/1/log"),
        ),
    ] {
        assert_eq!(file[key], value, "{key}");
    }
}

#[test]
fn a_job_that_does_not_exist_is_named() {
    let expected = json!({
        "job_id": "nope", "http_status": "404 Not Found",
        "http_message": "No job with the id \"nope\" has been found",
    });
    assert_eq!(answers::not_found("nope"), expected);
}
