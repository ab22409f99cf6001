//! The messages against FTS's lists of fields, and what Rucio's receiver reads.

use catalog::{AttemptEnd, CopyFacts, FileOptions, JobOptions, Owner, Problem, Span, Times};
use schedule::{FileId, FileState, JobState};

use super::*;

const START_MS: i64 = 1_795_840_500_000;

fn job() -> JobRecord {
    JobRecord {
        id: "01874efb-4735-4595-bc9c-591aef8240c9".parse().unwrap(),
        kind: JobKind::Normal,
        state: JobState::Active,
        owner: Owner {
            user: "/CN=ann".into(),
            delegation_id: "d".into(),
            vo: "atlas".into(),
            login: Login::Token,
        },
        submitted_ms: START_MS - 9000,
        finished_ms: None,
        priority: 3,
        expires_ms: None,
        is_canceled: false,
        reason: None,
        source_storage: Some("davs://a.example:443".into()),
        destination_storage: Some("root://b.example:1094".into()),
        options: JobOptions::default(),
        metadata: Some(json!({"issuer": "rucio"})),
        files: 1,
    }
}

fn file(state: FileState, problem: Option<Problem>) -> FileRecord {
    FileRecord {
        id: FileId(17),
        job: job().id,
        index: 0,
        state,
        initial_state: FileState::Submitted,
        source: "davs://a.example/data/f".into(),
        destination: "root://b.example:1094//data/f".into(),
        source_storage: "davs://a.example:443".into(),
        destination_storage: "root://b.example:1094".into(),
        vo: "atlas".into(),
        activity: "default".into(),
        user: String::new(),
        priority: 3,
        given_size_bytes: None,
        size_bytes: Some(5000),
        moved_bytes: 5000,
        attempts: 1,
        problem,
        times: Times::default(),
        worker: None,
        way: Some("streamed".into()),
        destination_report: None,
        is_interrupted: false,
        lost_part_looks: 0,
        hop: None,
        options: FileOptions::default(),
    }
}

fn sender() -> Sender<'static> {
    Sender {
        endpoint: "fts.example",
        source_site: None,
        destination_site: Some("B"),
        names_user: true,
    }
}

/// Compares the names in a message with a list of words.
fn assert_names(message: &Value, names: &str) {
    let mut wanted: Vec<&str> = names.split_whitespace().collect();
    let mut found: Vec<&str> = message.as_object().unwrap().keys().map(String::as_str).collect();
    wanted.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, wanted);
}

#[test]
fn a_start_has_the_fields_of_fts() {
    let message = start(&file(FileState::Active, None), &job(), &sender(), START_MS);
    assert_names(
        &message,
        "transfer_id job_id file_id endpnt timestamp src_srm_v dest_srm_v vo src_url dst_url src_hostname \
         dst_hostname src_site_name dst_site_name t_channel srm_space_token_src srm_space_token_dst user_dn \
         is_archiving file_metadata job_metadata",
    );
    let id = "2026-11-28-0435__a.example__b.example__17__01874efb-4735-4595-bc9c-591aef8240c9";
    assert_eq!(message["transfer_id"], id);
    assert_eq!(message["t_channel"], "davs://a.example__root://b.example");
    assert_eq!(message["file_metadata"], Value::Null);
    let quiet = Sender {
        names_user: false,
        ..sender()
    };
    let message = start(&file(FileState::Active, None), &job(), &quiet, START_MS);
    assert_eq!(message["user_dn"], "");
}

#[test]
fn a_completed_copy_has_the_fields_of_fts() {
    let span = |from, to| Span {
        from_ms: START_MS + from,
        to_ms: START_MS + to,
    };
    let facts = CopyFacts {
        whole: span(0, 4000),
        transfer: span(1000, 3000),
        source_checksum: span(100, 150),
        timeout_s: 610,
        ..CopyFacts::default()
    };
    let end = AttemptEnd {
        retry: 1,
        moved_bytes: 5000,
        way: Some("streamed".into()),
        facts,
        ..AttemptEnd::default()
    };
    let message = complete(&file(FileState::Finished, None), &job(), &sender(), &end);
    assert_names(
        &message,
        "tr_id job_id file_id endpnt src_srm_v dest_srm_v vo src_url dst_url src_hostname dst_hostname src_se dst_se \
         protocol src_site_name dst_site_name t_channel timestamp_tr_st timestamp_tr_comp timestamp_chk_src_st \
         timestamp_chk_src_ended timestamp_checksum_dest_st timestamp_checksum_dest_ended t_timeout chk_timeout \
         t_error_code tr_error_scope t_failure_phase tr_error_category t_final_transfer_state \
         t_final_transfer_state_flag tr_bt_transfered nstreams buf_size tcp_buf_size block_size scitag f_size \
         file_size time_srm_prep_st time_srm_prep_end time_srm_fin_st time_srm_fin_end srm_space_token_src \
         srm_space_token_dst t__error_message tr_timestamp_start tr_timestamp_complete transfer_time operation_time \
         throughput srm_preparation_time srm_finalization_time srm_overhead_time srm_overhead_percentage \
         timestamp_checksum_src_diff timestamp_checksum_dst_diff channel_type user_dn file_metadata job_metadata \
         activity retry retry_max job_m_replica job_multihop transfer_lasthop is_archiving job_state is_recoverable \
         ipv6 ipver eviction_code cleanup_code final_destination transfer_type auth_method overwrite_on_disk_flag \
         overwrite_on_disk_deletion_code src_protocol dst_protocol src_transfer_protocol dst_transfer_protocol \
         protocol_translation",
    );
    assert_eq!(message["t_final_transfer_state"], "Ok");
    assert_eq!(
        (&message["throughput"], &message["transfer_time"]),
        (&json!(2500.0), &json!(2000))
    );
    assert_eq!(message["srm_overhead_percentage"], 50.0);
    assert_eq!(
        (&message["src_protocol"], &message["src_transfer_protocol"]),
        (&json!("davs"), &json!("https"))
    );
    assert_eq!(
        (&message["protocol_translation"], &message["auth_method"]),
        (&json!(true), &json!("oauth2"))
    );
    let id = message["tr_id"].as_str().unwrap();
    assert_eq!(id.rsplit("__").next(), message["job_id"].as_str());
}

#[test]
fn a_failure_is_told_as_fts_tells_it() {
    let problem = Problem {
        code: "peer_exists".into(),
        side: "destination".into(),
        phase: "open".into(),
        reason: format!(
            "DESTINATION [17] Destination file exists and overwrite is not enabled: the peer said \"n\u{f6}\" {}",
            "x".repeat(2000)
        ),
        is_recoverable: false,
    };
    let end = AttemptEnd {
        problem: Some(problem),
        ..AttemptEnd::default()
    };
    let message = complete(&file(FileState::Failed, None), &job(), &sender(), &end);
    assert_eq!(
        (&message["t_final_transfer_state"], &message["t_error_code"]),
        (&json!("Error"), &json!(17))
    );
    assert_eq!(
        (
            &message["tr_error_scope"],
            &message["tr_error_category"],
            &message["t_failure_phase"]
        ),
        (
            &json!("DESTINATION"),
            &json!("FILE_EXISTS"),
            &json!("TRANSFER_PREPARATION")
        )
    );
    let words = message["t__error_message"].as_str().unwrap();
    assert!(
        words.contains("exists and overwrite is not enabled: the peer said n  xx"),
        "{words}"
    );
    assert_eq!((words.len(), &message["is_recoverable"]), (1024, &json!(false)));
    let retried = complete(&file(FileState::Submitted, None), &job(), &sender(), &end);
    assert_eq!(retried["t_final_transfer_state"], "Error");
    let canceled = complete(&file(FileState::Canceled, None), &job(), &sender(), &end);
    assert_eq!(canceled["t_final_transfer_state"], "Abort");
}

#[test]
fn a_hop_says_whether_it_is_the_last() {
    let chain = JobRecord {
        kind: JobKind::Multihop,
        files: 2,
        ..job()
    };
    let told = |index| {
        let hop = FileRecord {
            index,
            ..file(FileState::Finished, None)
        };
        let message = complete(&hop, &chain, &sender(), &AttemptEnd::default());
        assert_eq!(message["job_multihop"], true);
        (message["transfer_lasthop"].clone(), message["job_state"].clone())
    };
    assert_eq!(told(0), (json!(false), json!("ACTIVE")));
    assert_eq!(told(1), (json!(true), json!("FINISHED")));
}

#[test]
fn rucio_reads_each_end_that_is_final() {
    let word = |kind, job_state, state| {
        let job = JobRecord {
            kind,
            state: job_state,
            files: 3,
            ..job()
        };
        let message = complete(&file(state, None), &job, &sender(), &AttemptEnd::default());
        message["job_state"].as_str().unwrap().to_owned()
    };
    // Other files of a job are still under way: its receiver skips messages with ACTIVE.
    assert_eq!(word(JobKind::Normal, JobState::Active, FileState::Finished), "UNKNOWN");
    assert_eq!(word(JobKind::Normal, JobState::Active, FileState::Failed), "UNKNOWN");
    assert_eq!(
        word(JobKind::MultiSource, JobState::Active, FileState::Failed),
        "ACTIVE"
    );
    assert_eq!(
        word(JobKind::MultiSource, JobState::Failed, FileState::Failed),
        "FAILED"
    );
    assert_eq!(
        word(JobKind::MultiSource, JobState::Finished, FileState::Finished),
        "FINISHED"
    );
    assert_eq!(word(JobKind::Multihop, JobState::Failed, FileState::Failed), "FAILED");
}

#[test]
fn a_new_state_and_a_decision_have_the_fields_of_fts() {
    let message = state(&file(FileState::Active, None), &job(), &sender(), 3, START_MS);
    assert_names(
        &message,
        "user_dn src_url dst_url vo_name source_se dest_se job_id file_id job_state file_state retry_counter \
         retry_max user_filesize timestamp submit_time staging_start staging_finished staging archiving_start \
         archiving_finished archiving reason job_metadata file_metadata",
    );
    assert_eq!(
        (&message["source_se"], &message["dest_se"]),
        (&json!("davs://a.example"), &json!("root://b.example"))
    );
    let facts = LinkFacts {
        source_storage: "https://[::1]:443".into(),
        destination_storage: "root://b.example:1094".into(),
        bytes_per_s: 1.0,
        average_bytes_per_s: 1.0,
        duration_s: 3,
        size_bytes: 10.0,
        size_deviation_bytes: 0.0,
        success: 0.5,
        retries: 1,
        active: 2,
        waiting: 3,
        limit: 4,
        change: -1,
        rationale: "why".into(),
    };
    let message = link(&facts, START_MS);
    assert_names(
        &message,
        "source_se dest_se throughput throughput_ema duration_avg filesize_avg filesize_stddev success_rate \
         retry_count active_count submitted_count connections diff rationale timestamp",
    );
    assert_eq!(
        (&message["source_se"], &message["success_rate"]),
        (&json!("https://[::1]"), &json!(50.0))
    );
}
