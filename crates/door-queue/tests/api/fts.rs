//! FTS's routes: what they refuse, in words that say what to do.

use door_queue::limits::{OPERATION_BYTES_MAX, REPLICAS_MAX, SUBMISSION_BYTES_MAX};
use door_queue::queue::{Decision, LinkState, WorkerState};
use serde_json::{Value, json};

use crate::place::Place;
use crate::queue::NOW;

#[tokio::test]
async fn states_of_fts_that_no_job_has_are_found_empty() {
    let place = Place::new().await;
    let job = json!({"files": [{"sources": ["https://a/x"], "destinations": ["https://b/x"]}]}).to_string();
    assert_eq!(place.ask(&place.jane, "POST /jobs", &job).await.status, 200);
    for (path, count) in [
        ("jobs?state_in=READY", 0),
        ("jobs?state_in=READY,SUBMITTED", 1),
        ("jobs?state_in=SUBMITTED", 1),
        ("files?state_in=QOS_TRANSITION", 0),
    ] {
        let listed = place.ask(&place.jane, &format!("GET /{path}"), "").await;
        assert_eq!(listed.status, 200, "{}", listed.text);
        assert_eq!(listed.json.as_array().map(Vec::len), Some(count), "{path}");
    }
    assert_eq!(place.ask(&place.jane, "GET /jobs?state_in=LOST", "").await.status, 400);
}

#[tokio::test]
async fn who_has_too_much_is_told_when_to_come_again() {
    let place = Place::new().await;
    let file = json!({"sources": ["https://a/x"], "destinations": ["https://b/x"], "activity": "too-many"});
    let job = json!({"files": [file]}).to_string();
    let visit = place.send(&place.jane, "POST /jobs", "", &job).await;
    assert_eq!(visit.head.headers.get("Retry-After"), Some("10"));
    let answer = visit.answer().await;
    assert_eq!(
        (
            answer.status,
            answer.json["code"].as_str(),
            answer.json["status"].as_str()
        ),
        (429, Some("share_used_up"), Some("429 Too Many Requests")),
        "{answer:?}"
    );
    assert!(answer.json["message"].is_string(), "{answer:?}");
}

#[tokio::test]
async fn a_body_over_a_limit_is_refused_with_the_limit() {
    let place = Place::new().await;
    let too_large = json!({"message": "x".repeat(OPERATION_BYTES_MAX)}).to_string();
    let length = format!("Content-Length: {}\n", SUBMISSION_BYTES_MAX + 1);
    for (line, headers, body, limit) in [
        ("POST /jobs", length.as_str(), "", SUBMISSION_BYTES_MAX),
        ("POST /ban/se", "", &too_large, OPERATION_BYTES_MAX),
    ] {
        let refused = place.send(&place.operator, line, headers, body).await.answer().await;
        assert_eq!(
            (refused.status, refused.content_type.as_str()),
            (413, "application/json")
        );
        let answer = &refused.json;
        assert_eq!(
            (&answer["status"], &answer["code"]),
            (&json!("413 Content Too Large"), &json!("body_too_large")),
            "{answer}"
        );
        let words = answer["message"].as_str().unwrap();
        assert!(words.contains(&format!("{limit} bytes")), "{words}");
    }
    let own = place
        .send(&place.jane, "POST /v1/jobs", &length, "")
        .await
        .answer()
        .await;
    assert_eq!((own.status, own.code()), (413, "body_too_large"), "{}", own.text);
    let many: Vec<String> = (0..=REPLICAS_MAX).map(|number| format!("https://a/{number}")).collect();
    let job = json!({"files": [{"sources": many, "destinations": ["https://b/x"]}]}).to_string();
    let refused = place.ask(&place.jane, "POST /jobs", &job).await;
    let words = refused.json["message"].as_str().unwrap();
    assert!(
        refused.status == 400 && words.contains(&format!("more than {REPLICAS_MAX} elements")),
        "{}",
        refused.text
    );
}

#[tokio::test]
async fn what_operators_see_has_the_members_of_fts() {
    let place = Place::new().await;
    {
        let mut state = place.queue.lock();
        state.workers.push(WorkerState {
            name: "w1".to_owned(),
            seen_ms: NOW,
            active: 3,
            is_draining: false,
            is_lost: false,
        });
        state.link_states.push(LinkState {
            source: "https://a:443".to_owned(),
            destination: "root://b:1094".to_owned(),
            vo: "atlas".to_owned(),
            limit: Some(4),
            goodput_bytes_s: 1_048_576.0,
            ..LinkState::default()
        });
        state.decisions.push(Decision {
            at_ms: NOW,
            source: "https://a:443".to_owned(),
            destination: "root://b:1094".to_owned(),
            limit: 4,
            difference: -1,
            goodput_bytes_s: 2_097_152.0,
            success_percent: 90.0,
            submitted: 7,
            rationale: "slower".to_owned(),
        });
    }
    let put = async |body: Value| place.ask(&place.operator, "POST /ban/se", &body.to_string()).await;
    for refused in [
        json!({"storage": "https://a", "status": "STOP"}),
        json!({"storage": "https://a", "status": "CANCEL", "allow_submit": true}),
        json!({"status": "WAIT"}),
    ] {
        assert_eq!(put(refused.clone()).await.status, 400, "{refused}");
    }
    let waits = json!({"storage": "https://a", "status": "wait", "allow_submit": true, "vo_name": "atlas"});
    assert_eq!(put(waits).await.status, 200);
    let user = json!({"user_dn": "/CN=X", "message": "too much"}).to_string();
    assert_eq!(place.ask(&place.operator, "POST /ban/dn", &user).await.status, 200);
    let since = |answer: &Value| answer[0]["addition_time"].clone();
    let shown = async |path: &str| place.ask(&place.operator, &format!("GET {path}"), "").await.json;
    let storages = shown("/ban/se").await;
    let operator = "/O=Crossload test/CN=Operator";
    assert_eq!(
        storages,
        json!([{"se": "https://a", "vo": "atlas", "status": "WAIT_AS", "message": "", "admin_dn": operator,
            "addition_time": since(&storages)}])
    );
    let users = shown("/ban/dn").await;
    assert_eq!(
        users,
        json!([{"dn": "/CN=X", "message": "too much", "admin_dn": operator, "addition_time": since(&users)}])
    );
    let ends = json!({"source_se": "https://a", "dest_se": "root://b"});
    let link = |members: Value| {
        let mut link = ends.clone();
        link.as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        json!([link])
    };
    for (path, expected) in [
        ("/status/hosts", json!({"w1": {"active": 3, "staging": 0}})),
        (
            "/optimizer/current",
            link(json!({"active": 4, "ema": 1.0, "datetime": null})),
        ),
        (
            "/optimizer/evolution",
            link(
                json!({"active": 4, "diff": -1, "throughput": 2.0, "success": 90.0, "rationale": "slower",
                "datetime": "2027-01-15T08:00:00"}),
            ),
        ),
        ("/autocomplete/storage?term=r", json!(["root://b"])),
        ("/autocomplete/vo?term=at", json!(["atlas"])),
    ] {
        assert_eq!(shown(path).await, expected, "{path}");
    }
}

#[tokio::test]
async fn a_credential_that_ends_soon_is_told_beside_the_job() {
    let place = Place::new().await;
    place.queue.lock().warnings = vec!["its credential expires in 20 minutes".to_owned()];
    let file =
        |name: &str| json!({"sources": [format!("https://a/{name}")], "destinations": [format!("https://b/{name}")]});
    let job = json!({"files": [file("x")]}).to_string();
    let stored = place.ask(&place.jane, "POST /jobs", &job).await.json;
    assert!(
        stored["job_id"].is_string() && stored.get("warnings").is_none(),
        "{stored}"
    );
    let often = json!({"files": [file("v")], "params": {"retry": 1_i64 << 31}}).to_string();
    let stored = place.ask(&place.jane, "POST /jobs", &often).await.json;
    assert_eq!(stored["warnings"], json!(["adjusted"]), "{stored}");
    let mut with_tokens = file("y");
    with_tokens["source_tokens"] = json!(["one"]);
    with_tokens["destination_tokens"] = json!(["two"]);
    let job = json!({"files": [with_tokens]}).to_string();
    let stored = place.ask(&place.jane, "POST /jobs", &job).await.json;
    assert_eq!(
        stored["warnings"],
        json!(["its credential expires in 20 minutes"]),
        "{stored}"
    );
    // `{"iss":"https://i","wlcg.ver":"1.0","scope":"storage.read:/"}`
    let reads = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2kiLCJ3bGNnLnZlciI6IjEuMCIsInNjb3BlIjoic3RvcmFnZS5yZWFkOi8ifQ.\
        c2lnbmF0dXJl";
    let mut narrow = file("w");
    narrow["source_tokens"] = json!([reads]);
    narrow["destination_tokens"] = json!([reads]);
    let stored = place
        .ask(&place.jane, "POST /jobs", &json!({"files": [narrow]}).to_string())
        .await
        .json;
    let words = stored["warnings"][0].as_str().unwrap_or_default();
    assert!(
        words.starts_with("the token for the destination may not allow to write"),
        "{stored}"
    );
    let file = json!({"sources": ["https://a/z"], "destination": "https://b/z", "source_token": "one",
        "destination_token": "two"});
    let own = place
        .ask(&place.jane, "POST /v1/jobs", &json!({"files": [file]}).to_string())
        .await
        .json;
    assert_eq!(
        own["warnings"],
        json!(["its credential expires in 20 minutes"]),
        "{own}"
    );
}

#[tokio::test]
async fn malformed_requests_are_refused_in_plain_words() {
    let place = Place::new().await;
    let file = |checksum: &str| json!({"files": [{"sources": ["https://a/x"], "destinations": ["https://b/x"], "checksum": checksum}]});
    for (line, body, words) in [
        ("POST /jobs", json!("x"), "an object with files and params"),
        (
            "POST /jobs",
            json!({"files": ["x"]}),
            "an object with sources and destinations",
        ),
        ("POST /jobs", file("ADLER32:xyz"), "at most 8 hexadecimal digits"),
        ("POST /jobs", file("ADLER32:123456789"), "at most 8 hexadecimal digits"),
        (
            "POST /jobs",
            file("WHIRLPOOL:12"),
            "none of crc32c, adler32, md5, sha-256",
        ),
        (
            "POST /config/se",
            json!({"davs://a": {"inbound_max_active": 1}}),
            "neither se_info nor operations",
        ),
        ("POST /config/se", json!({"a b": {"se_info": {}}}), "is no storage"),
        (
            "POST /config/se",
            json!({"davs://a": {"se_info": {"inbound_max_activ": 1}}}),
            "\\\"inbound_max_activ\\\"",
        ),
        (
            "POST /config/se",
            json!({"davs://a": {"operations": {"atlas": {"stagin": 1}}}}),
            "\\\"stagin\\\"",
        ),
        (
            "POST /config/links",
            json!({"source": "*", "destination": "*", "max_activ": 1}),
            "\\\"max_activ\\\"",
        ),
        (
            "POST /config/global",
            json!({"atlas": {"max_activ": 5}}),
            "atlas has the unknown setting \\\"max_activ\\\": there are activity_shares",
        ),
        (
            "POST /config/se",
            json!({"davs://a": "x"}),
            "an object with se_info or operations",
        ),
        (
            "POST /config/links",
            json!({"source": "a", "destination": "*"}),
            "is no storage",
        ),
        ("POST /ban/se", json!({"storage": "somewhere"}), "is no storage"),
        ("POST /ban/se", json!([1, 2]), "Malformed request"),
    ] {
        let refused = place.ask(&place.operator, line, &body.to_string()).await;
        assert_eq!(refused.status, 400, "{line} {body}: {}", refused.text);
        assert!(refused.text.contains(words), "{}", refused.text);
        assert!(!refused.text.contains("struct"), "{}", refused.text);
    }
    for (line, body) in [
        ("POST /jobs", file("adler32:1a2b")),
        ("POST /jobs", file("MD5")),
        (
            "POST /config/se",
            json!({"davs://A.example": {"se_info": {"inbound_max_active": 1}}}),
        ),
        ("POST /config/global", json!({"atlas": {"max_active": 5, "retry": 1}})),
        (
            "POST /config/se",
            json!({"davs://b": {"operations": {"vo": {"staging": 3}}}}),
        ),
        ("POST /ban/se", json!({"storage": "davs://a.example"})),
    ] {
        let taken = place.ask(&place.operator, line, &body.to_string()).await;
        assert_eq!(taken.status, 200, "{line} {body}: {}", taken.text);
    }
}

#[tokio::test]
async fn settings_are_taken_as_an_fts_shows_them() {
    let place = Place::new().await;
    let put = async |line: &str, body: Value| place.ask(&place.operator, line, &body.to_string()).await;
    let info = json!({"inbound_max_active": "20", "outbound_max_throughput": "1.5", "ipv6": "1", "udt": 0,
        "eviction": 1, "skip_eviction": "on", "overwrite_disk_enabled": null, "tape_endpoint": null});
    let operations = json!({"atlas": {"staging": "5", "delete": 3}, "cms": {"staging": 0}});
    let storage = json!({"davs://c": {"se_info": info, "operations": operations}});
    let taken = put("POST /config/se", storage).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    let own = place.queue.lock().storages["davs://c"].clone();
    assert_eq!(
        (own.inbound_max_active, own.outbound_max_throughput),
        (Some(20), Some(1.5))
    );
    assert_eq!(
        (own.ipv6, own.udt, own.skip_eviction),
        (Some(true), Some(false), Some(true))
    );
    assert_eq!(own.staging, [("atlas".to_owned(), 5)].into());
    let noted = place.queue.lock().audit.clone();
    let [config, limits] = &noted[..] else {
        panic!("{noted:?}")
    };
    assert!(
        config.detail.ends_with("(without effect here: eviction, ipv6, udt)"),
        "{config:?}"
    );
    assert_eq!((&*config.action, &*limits.action), ("set-se-config", "set-se-limits"));
    let removed = json!({"davs://c": {"operations": {"atlas": {"staging": -1}}}});
    assert_eq!(put("POST /config/se", removed).await.status, 200);
    assert!(place.queue.lock().storages["davs://c"].staging.is_empty());
    let vo = json!({"atlas": {"vo_name": "atlas", "retry": "3", "no_streaming": "on", "show_user_dn": "off"}});
    assert_eq!(put("POST /config/global", vo).await.status, 200);
    let own = place.queue.lock().vos["atlas"].clone();
    assert_eq!(
        (own.retry, own.no_streaming, own.show_user_dn),
        (Some(3), Some(true), Some(false))
    );
    let link = json!({"source": "*", "destination": "*", "symbolicname": "all", "min_active": "2", "max_active": 130,
        "optimizer_mode": 2, "nostreams": "0", "no_delegation": "off", "tcp_buffer_size": 9});
    assert_eq!(put("POST /config/links", link).await.status, 201);
    assert!(
        place
            .queue
            .lock()
            .audit
            .last()
            .unwrap()
            .detail
            .ends_with("(without effect here: tcp_buffer_size)")
    );
    for (line, wrong) in [
        ("POST /config/se", json!({"davs://c": {"se_info": {"ipv6": "maybe"}}})),
        (
            "POST /config/se",
            json!({"davs://c": {"operations": {"atlas": {"staging": "all"}}}}),
        ),
        ("POST /config/global", json!({"atlas": {"retry": "often"}})),
    ] {
        assert_eq!(put(line, wrong.clone()).await.status, 400, "{wrong}");
    }
}

/// More than are read at once.
const MANY: usize = 1300;

#[tokio::test]
async fn all_files_of_large_jobs_are_shown() {
    let place = Place::new().await;
    let file = |number: usize| {
        json!({"sources": [format!("https://a.example/{number}")],
            "destinations": [format!("https://b.example/{number}")]})
    };
    let mut ids = Vec::new();
    for count in [MANY, 1] {
        let job = json!({"files": (0..count).map(file).collect::<Vec<_>>(), "params": {"priority": 2}});
        let stored = place.ask(&place.jane, "POST /jobs", &job.to_string()).await;
        ids.push(stored.json["job_id"].as_str().unwrap().to_owned());
    }
    let indices = |files: &Value| -> Vec<u64> {
        let files = files.as_array().unwrap();
        files.iter().map(|file| file["file_index"].as_u64().unwrap()).collect()
    };
    let all: Vec<u64> = (0..MANY as u64).collect();
    let shown = place.ask(&place.jane, &format!("GET /jobs/{}/files", ids[0]), "").await;
    assert_eq!(indices(&shown.json), all);
    // A job that is named again is shown once.
    let named = format!("{0},{1},none,{0}", ids[0], ids[1]);
    let line = format!("GET /jobs/{named}?files=file_index");
    let shown = place.ask(&place.jane, &line, "").await;
    let jobs = shown.json.as_array().unwrap();
    assert_eq!((shown.status, jobs.len()), (207, 3), "{}", shown.text);
    assert_eq!(
        (indices(&jobs[0]["files"]), &jobs[1]["files"]),
        (all.clone(), &json!([{"file_index": 0}]))
    );
    assert_eq!(
        (&jobs[0]["http_status"], &jobs[2]["http_status"]),
        (&json!("200 Ok"), &json!("404 Not Found"))
    );
    let line = format!("POST /jobs/{}", ids[0]);
    let changed = place.ask(&place.jane, &line, r#"{"params": {"priority": 5}}"#).await;
    assert_eq!(
        (indices(&changed.json["files"]), &changed.json["priority"]),
        (all, &json!(5))
    );

    let first = shown_id(&place, &ids[0], 0).await;
    let line = format!("DELETE /jobs/{}/files/{first},{},x", ids[0], first + 1_000_000);
    let canceled = place.ask(&place.jane, &line, "").await;
    let foreign = "File does not belong to the job";
    assert_eq!(canceled.json, json!(["CANCELED", foreign, foreign]));
    let names = vec!["1"; door_queue::limits::CANCELED_FILES_MAX + 1].join(",");
    let refused = place
        .ask(&place.jane, &format!("DELETE /jobs/{}/files/{names}", ids[0]), "")
        .await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(refused.text.contains("more than 1000 files"), "{}", refused.text);
}

async fn shown_id(place: &Place, job: &str, index: usize) -> u64 {
    let shown = place.ask(&place.jane, &format!("GET /jobs/{job}/files"), "").await;
    shown.json[index]["file_id"].as_u64().unwrap()
}
