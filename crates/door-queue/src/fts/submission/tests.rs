//! Submissions of real clients (their shapes, with other hosts), and what is refused.

use catalog::ChecksumMode;
use schedule::{FileState, JobKind};
use serde_json::json;

use super::*;
use crate::limits::JOB_FILES_MAX;
use crate::queue::TokenUse;

const NOW_MS: i64 = 1_795_000_000_123;

fn owner() -> Owner {
    Owner {
        user: "/DC=org/CN=Jane".into(),
        delegation_id: "ac4ba2be183546e6".into(),
        vo: "testvo".into(),
        login: Login::Certificate,
    }
}

fn read_text(body: &[u8]) -> Result<Submission, FtsError> {
    let from = Submitter {
        owner: &owner(),
        now_ms: NOW_MS,
        random: [7; 16],
    };
    read(body, &from)
}

fn submit(body: &Value) -> Result<Submission, FtsError> {
    read_text(body.to_string().as_bytes())
}

fn job(params: Value) -> NewJob {
    let file = json!({"sources": ["https://a/1"], "destinations": ["https://b/1"]});
    submit(&json!({"params": params, "files": [file]})).unwrap().job
}

fn refusal(body: &Value) -> FtsError {
    submit(body).unwrap_err()
}

#[test]
fn a_chain_of_rucio_is_taken_as_it_is_sent() {
    let hop = |source: &str, destination: &str| {
        json!({
            "sources": [source], "destinations": [destination], "filesize": 1000,
            "metadata": {"request_id": "r1", "src_rse": "A", "md5": null}, "checksum": "ADLER32:12345678",
            "selection_strategy": "orderly", "activity": "User Subscriptions",
        })
    };
    let body = json!({
        "files": [hop("davs://a.org:8443/s/m2", "davs://h.org:443/s/m2"), hop("root://h.org:1094/s/m2", "root://c.org:1094/s/m2")],
        "params": {
            "account": "root", "verify_checksum": "both", "copy_pin_lifetime": null, "bring_online": null,
            "job_metadata": {"issuer": "rucio", "multihop": true}, "overwrite": true, "priority": 3,
            "overwrite_when_only_on_disk": false, "multihop": true, "s3alternate": true, "max_time_in_queue": 168,
        },
    });
    let Submission { job, tokens, .. } = submit(&body).unwrap();
    assert_eq!((job.kind, job.priority, tokens.len()), (JobKind::Multihop, 3, 0));
    assert_eq!(job.expires_ms, Some(NOW_MS + 168 * 3_600_000));
    assert_eq!(job.options.checksum_mode, ChecksumMode::Both);
    assert_eq!(job.options.overwrite, Overwrite::Always);
    assert_eq!(internal_parameters(&job.options).as_deref(), Some("s3alternate"));
    let metadata = json!({"issuer": "rucio", "multihop": true, "auth_method": "certificate"});
    assert_eq!(job.metadata, Some(metadata));
    let states: Vec<_> = job.files.iter().map(|file| (file.index, file.state)).collect();
    assert_eq!(states, [(0, FileState::Submitted), (1, FileState::NotUsed)]);
    assert_eq!(job.files[1].source_storage, "root://h.org:1094");
    assert_eq!(job.files[0].size_bytes, Some(1000));
    assert_eq!(job.files[0].options.selection, catalog::Selection::Orderly);
}

#[test]
fn replicas_become_files_of_one_index() {
    let body = json!({"files": [{
        "sources": ["davs://a/1?copy_mode=push", "davs://z/1"], "destinations": ["davs://b/1"], "filesize": 0,
    }]});
    let job = submit(&body).unwrap().job;
    let files: Vec<_> = job
        .files
        .iter()
        .map(|file| (file.index, file.source.as_str(), file.state))
        .collect();
    let expected = [
        (0, "davs://a/1", FileState::Submitted),
        (0, "davs://z/1", FileState::NotUsed),
    ];
    assert_eq!(
        (job.kind, files.as_slice()),
        (JobKind::MultiSource, expected.as_slice())
    );
    assert_eq!(job.files[0].options.copy_mode, Some(catalog::CopyMode::Push));
    assert_eq!((job.files[0].size_bytes, job.files[1].options.copy_mode), (None, None));
}

#[test]
fn absent_parameters_and_null_are_the_defaults() {
    let plain = job(json!({}));
    let names = [
        "bring_online",
        "archive_timeout",
        "verify_checksum",
        "copy_pin_lifetime",
        "gridftp",
        "job_metadata",
        "overwrite",
        "reuse",
        "multihop",
        "retry",
        "retry_delay",
        "priority",
        "max_time_in_queue",
        "s3alternate",
        "nostreams",
        "timeout",
        "buffer_size",
        "id_generator",
        "sid",
        "target_qos",
        "source_spacetoken",
        "hops",
    ];
    let nulls: Map<String, Value> = names.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
    assert_eq!(job(Value::Object(nulls)), plain);
    assert_eq!(plain.options, JobOptions::default());
    assert_eq!(
        (plain.kind, plain.priority, plain.expires_ms),
        (JobKind::Normal, 3, None)
    );
    assert_eq!(plain.metadata, Some(json!({"auth_method": "certificate"})));
    let easy = json!({"bring_online": -1, "archive_timeout": -1, "copy_pin_lifetime": -1, "retry": 0, "gridftp": ""});
    assert_eq!(job(easy), plain);
}

#[test]
fn parameters_are_read_in_every_form() {
    let options = |params: Value| job(params).options;
    assert_eq!(options(json!({"retry": -1})).retries, Some(0));
    assert_eq!(
        options(json!({"retry": "3", "retry_delay": 600})).retry_delay_s,
        Some(600)
    );
    for (value, mode) in [
        (json!(true), ChecksumMode::Both),
        (json!("both"), ChecksumMode::Both),
        (json!("source"), ChecksumMode::Source),
        (json!("target"), ChecksumMode::Target),
        (json!("none"), ChecksumMode::None),
        (json!(false), ChecksumMode::None),
    ] {
        assert_eq!(
            options(json!({"verify_checksum": value})).checksum_mode,
            mode,
            "{value}"
        );
    }
    for (given, priority) in [(-4, 1), (0, 1), (1, 1), (5, 5), (9, 5)] {
        assert_eq!(job(json!({"priority": given})).priority, priority);
    }
    let label = json!({"label": "night", "auth_method": "certificate"});
    assert_eq!(job(json!({"job_metadata": "night"})).metadata, Some(label));
    let transport = json!({"nostreams": 4, "timeout": 90, "buffer_size": 7, "strict_copy": true, "ipv6": true});
    let text = internal_parameters(&options(transport));
    assert_eq!(text.as_deref(), Some("nostreams:4,timeout:90,buffersize:7,strict,ipv6"));
    assert_eq!(options(json!({"hops": ["davs://H:443"]})).hops, ["davs://h:443"]);
}

#[test]
fn a_checksum_alone_asks_for_that_of_the_destination() {
    let file = json!({"sources": ["https://a/1"], "destinations": ["https://b/1"], "checksum": " ADLER32:12 "});
    let job = submit(&json!({"files": [file]})).unwrap().job;
    assert_eq!(job.options.checksum_mode, ChecksumMode::Target);
    assert_eq!(job.files[0].options.checksum.as_deref(), Some("ADLER32:12"));
}

#[test]
fn files_from_tape_begin_with_staging() {
    for params in [json!({"bring_online": 3600}), json!({"copy_pin_lifetime": 100})] {
        assert_eq!(job(params).files[0].state, FileState::Staging);
    }
}

#[test]
fn overwriting_has_six_kinds() {
    let chain = |params: Value| {
        let hop = |from: &str, to: &str| json!({"sources": [from], "destinations": [to]});
        let files = json!([hop("https://a/1", "https://b/1"), hop("https://b/1", "https://c/1")]);
        submit(&json!({"params": params, "files": files})).map(|submission| submission.job.options.overwrite.letter())
    };
    let disk = "overwrite_when_only_on_disk";
    assert_eq!(chain(json!({"overwrite": true})), Ok(Some("Y")));
    assert_eq!(chain(json!({"overwrite_on_retry": true})), Ok(Some("R")));
    assert_eq!(chain(json!({"multihop": true, "overwrite_hop": true})), Ok(Some("M")));
    assert_eq!(chain(json!({disk: true, "archive_timeout": 60})), Ok(Some("D")));
    let both = json!({"multihop": true, "overwrite_hop": true, disk: true, "archive_timeout": 60});
    assert_eq!(chain(both), Ok(Some("Q")));
    assert!(
        chain(json!({disk: true}))
            .unwrap_err()
            .message
            .contains("archive-timeout")
    );
    let incompatible = FtsError::bad("Incompatible overwrite flags used at the same time");
    assert_eq!(
        chain(json!({"overwrite": true, "overwrite_on_retry": true})),
        Err(incompatible)
    );
}

#[test]
fn refusals_have_the_words_of_fts() {
    let file = || json!({"sources": ["https://a/1"], "destinations": ["https://b/1"]});
    let replicas = || json!({"sources": ["https://a/1", "https://z/1"], "destinations": ["https://b/1"]});
    let bad = FtsError::bad;
    for (body, expected) in [
        (json!({}), bad("No transfers operations specified")),
        (json!({"files": null}), bad("No transfers operations specified")),
        (json!({"files": []}), bad("No valid pairs available")),
        (
            json!({"delete": ["https://a/1"]}),
            FtsError::new(405, "Deletion jobs are no longer supported by FTS"),
        ),
        (
            json!({"files": [{"sources": ["https://a"], "destinations": ["https://b/1"]}]}),
            FtsError::invalid("Missing path (https://a)"),
        ),
        (
            json!({"files": [{"sources": ["https://a/1"]}]}),
            bad("Missing parameter: 'destinations'"),
        ),
        (
            json!({"params": {"overwrite_hop": true}, "files": [file()]}),
            bad("'overwrite-hop' requires multihop job submission"),
        ),
        (
            json!({"files": [replicas(), file()]}),
            bad("Multiple replicas jobs can only have one unique file"),
        ),
        (
            json!({"params": {"multihop": true}, "files": [replicas()]}),
            bad("Can not specify multihop and multiple replicas at the same time"),
        ),
        (
            json!({"params": {"reuse": true}, "files": [replicas()]}),
            bad("Can not specify reuse and multiple replicas at the same time"),
        ),
    ] {
        assert_eq!(refusal(&body), expected, "{body}");
    }
    for text in ["{", "", "{\"files\": [}", "nonsense"] {
        assert_eq!(
            read_text(text.as_bytes()).unwrap_err(),
            bad("Badly formatted JSON request")
        );
    }
    for text in [
        "3",
        "{\"files\": 3}",
        "{\"params\": 3, \"files\": []}",
        "{\"files\": [{\"sources\": \"a\"}]}",
    ] {
        let error = read_text(text.as_bytes()).unwrap_err();
        assert!(
            error.status == 400 && error.message.starts_with("Malformed request: "),
            "{error}"
        );
    }
}

#[test]
fn a_chain_may_not_come_back() {
    let hop = |from: &str, to: &str| json!({"sources": [from], "destinations": [to]});
    for files in [
        json!([hop("https://a/1", "https://b/1"), hop("https://b/1", "https://a/1")]),
        json!([hop("https://a/1", "https://b/1"), hop("https://c/1", "https://b/1")]),
        json!([hop("https://a/1", "https://a/1")]),
    ] {
        let error = refusal(&json!({"params": {"multihop": true}, "files": files}));
        assert!(error.message.contains("comes back"), "{error}");
    }
}

#[test]
fn a_session_has_one_pair_of_storages() {
    let file = |to: &str| json!({"sources": ["https://a/1"], "destinations": [to]});
    let job = |second: &str| submit(&json!({"params": {"reuse": true}, "files": [file("https://b/1"), file(second)]}));
    assert_eq!(job("https://b/2").unwrap().job.kind, JobKind::SessionReuse);
    assert!(
        job("https://c/2")
            .unwrap_err()
            .message
            .starts_with("Reuse jobs can only")
    );
}

#[test]
fn a_name_of_the_client_makes_the_identifier_that_fts_makes() {
    let job = |sid: &str| {
        let file = json!({"sources": ["https://a/1"], "destinations": ["https://b/1"]});
        let params = json!({"id_generator": "deterministic", "sid": sid});
        submit(&json!({"params": params, "files": [file]}))
    };
    let known = job("abc").unwrap();
    assert_eq!(known.job.id.to_string(), "ffba5b62-87f9-5c14-8d8f-fc484099c842");
    assert!(known.is_deterministic);
    assert_eq!(job("").unwrap_err().status, 400);
    let standard = submit(&json!({"files": [{"sources": ["https://a/1"], "destinations": ["https://b/1"]}]})).unwrap();
    assert_eq!(standard.job.id.to_string(), "01a1ee56-5e7b-7707-8707-070707070707");
    assert!(!standard.is_deterministic);
}

#[test]
fn tokens_are_named_by_their_digest_and_kept_apart() {
    let body = |tokens: Value, params: Value| {
        json!({"params": params, "files": [{
            "sources": ["https://a/1"], "destinations": ["https://b/1"],
            "source_tokens": ["abc"], "destination_tokens": tokens,
        }]})
    };
    let managed = submit(&body(json!(["x.y.z"]), json!({}))).unwrap();
    let file = &managed.job.files[0];
    // The beginning of SHA-1 of "abc" (FIPS 180-4).
    assert_eq!(file.options.source_token.as_deref(), Some("a9993e364706816a"));
    assert_eq!(file.state, FileState::Submitted, "it is used as it came");
    // It ends 60 s later: {"iss":"https://i","exp":1795000060}.
    let ending = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2kiLCJleHAiOjE3OTUwMDAwNjB9.c2ln";
    let renewed = submit(&body(json!([ending]), json!({}))).unwrap();
    assert_eq!(renewed.job.files[0].state, FileState::TokenPreparation);
    let purposes: Vec<_> = managed
        .tokens
        .iter()
        .map(|token| (token.token.expose(), token.purpose))
        .collect();
    assert_eq!(purposes, [("abc", TokenUse::Source), ("x.y.z", TokenUse::Destination)]);
    let unmanaged = submit(&body(json!([ending]), json!({"unmanaged_tokens": true}))).unwrap();
    assert_eq!(unmanaged.job.files[0].state, FileState::Submitted);
    let one_sided = submit(&body(json!([null]), json!({}))).unwrap();
    assert_eq!(
        (
            one_sided.tokens.len(),
            one_sided.job.files[0].options.destination_token.as_deref()
        ),
        (1, None)
    );
    for tokens in [json!(["x", "y"]), json!(["a b"]), json!(["\u{e9}"])] {
        let error = refusal(&body(tokens, json!({})));
        assert!(!error.message.contains("a b"), "{error}");
    }
}

#[test]
fn bans_refuse_a_job_or_let_it_wait() {
    let ban = |storage: &str, vo: &str, effect| catalog::Ban {
        storage: storage.into(),
        vo: vo.into(),
        effect,
        message: String::new(),
        by: String::new(),
        since_ms: 0,
        cancels_ms: None,
    };
    use catalog::BanEffect::{Cancel, Wait, WaitAs};
    let held = |bans: &[catalog::Ban]| {
        let mut job = job(json!({}));
        hold(&mut job, bans).map(|()| job.files[0].state)
    };
    let refused = |storage: &str| FtsError::new(403, format!("{storage} is banned"));
    assert_eq!(held(&[ban("https://a", "testvo", Wait)]), Err(refused("https://a")));
    for same in ["davs://a:443", "davs://a", "root://a", "a:443", "a"] {
        // With its port, if operators have named one.
        assert_eq!(held(&[ban(same, "", Wait)]), Err(refused(same)), "{same}");
    }
    assert_eq!(
        held(&[ban("https://a:443", "", WaitAs), ban("https://a", "", Cancel)]),
        Err(refused("https://a"))
    );
    let mut downtime = ban("https://a", "", Wait);
    "downtime until noon".clone_into(&mut downtime.message);
    let told = FtsError::new(403, "https://a is banned: downtime until noon");
    assert_eq!(held(&[downtime]), Err(told));
    assert_eq!(held(&[ban("https://b:443", "*", WaitAs)]), Ok(FileState::OnHold));
    for other in [
        ban("https://a:444", "", Wait),
        ban("https://a", "other", Wait),
        ban("https://c", "", Wait),
    ] {
        assert_eq!(held(&[other]), Ok(FileState::Submitted));
    }
}

#[test]
fn limits_hold() {
    let file = json!({"sources": ["https://a/1"], "destinations": ["https://b/1"]});
    let most = submit(&json!({"files": vec![file.clone(); JOB_FILES_MAX]})).unwrap();
    assert_eq!(most.job.files.len(), JOB_FILES_MAX);
    assert!(
        refusal(&json!({"files": vec![file.clone(); JOB_FILES_MAX + 1]}))
            .message
            .contains("more than 100000")
    );
    let many = json!({"sources": vec!["https://a/1"; 64], "destinations": vec!["https://b/1"; 64]});
    assert!(
        refusal(&json!({"files": vec![many; 25]}))
            .message
            .contains("more than 100000 files")
    );
    let large = |name: &str, bytes: usize| {
        let mut file = file.clone();
        file[name] = json!({"k": "x".repeat(bytes - 8)});
        submit(&json!({"files": [file]}))
    };
    for (name, bytes) in [
        ("metadata", 4096),
        ("staging_metadata", 1024),
        ("archive_metadata", 1024),
    ] {
        assert!(large(name, bytes).is_ok(), "{name}");
        assert_eq!(large(name, bytes + 1).unwrap_err().status, 400, "{name}");
    }
    let metadata = |bytes: usize| submit(&json!({"params": {"job_metadata": "x".repeat(bytes - 12)}, "files": [file]}));
    assert!(metadata(2048).is_ok() && metadata(2049).is_err());
    assert!(submit(&json!({"params": {"x": "x".repeat(70_000)}, "files": [file]})).is_err());
    for (name, value) in [
        ("checksum", json!("x".repeat(101))),
        ("filesize", json!(-1)),
        ("scitag", json!(64)),
        ("scitag", json!(65536)),
        ("selection_strategy", json!("luck")),
        ("activity", json!("x".repeat(256))),
        ("activity", json!("Production\u{1b}[2J")),
    ] {
        let mut file = file.clone();
        file[name] = value;
        assert_eq!(refusal(&json!({"files": [file]})).status, 400, "{name}");
    }
}
