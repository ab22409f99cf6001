//! Jobs and files.

use catalog::Grant;
use schedule::JobId;
use serde_json::{Value, json};

use crate::place::{Place, User};
use crate::queue::{NOW, attempt};

const A: &str = "https://a.example:443";
const B: &str = "https://b.example:443";

fn new_job(files: usize) -> Value {
    let file = |number: usize| {
        json!({"sources": [format!("{A}/{number}")], "destination": format!("{B}/{number}"), "size_bytes": 10,
            "checksum": "adler32:0a0b0c0d", "activity": "Production", "metadata": {"number": number}})
    };
    json!({"files": (0..files).map(file).collect::<Vec<_>>(), "priority": 4, "metadata": {"issuer": "test"}})
}

/// Submits a job; its identifier.
async fn submit(place: &Place, user: &User, job: &Value) -> String {
    let answer = place.ask(user, "POST /v1/jobs", &job.to_string()).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.json["job_id"].as_str().unwrap().to_owned()
}

/// `{"iss":"https://i","wlcg.ver":"1.0","scope":"storage.read:/"}`
const READS: &str = "eyJhbGciOiJSUzI1NiJ9.\
    eyJpc3MiOiJodHRwczovL2kiLCJ3bGNnLnZlciI6IjEuMCIsInNjb3BlIjoic3RvcmFnZS5yZWFkOi8ifQ.c2lnbmF0dXJl";

#[tokio::test]
async fn tokens_whose_scopes_may_not_be_enough_are_named() {
    let place = Place::new().await;
    let mut job = new_job(3);
    for file in job["files"].as_array_mut().unwrap() {
        file["source_token"] = json!(READS);
    }
    let fine = place.ask(&place.jane, "POST /v1/jobs", &job.to_string()).await;
    assert_eq!(fine.json["warnings"], json!([]), "{}", fine.text);
    job["files"][2]["destination_token"] = json!(READS);
    let warned = place.ask(&place.jane, "POST /v1/jobs", &job.to_string()).await;
    let warnings = warned.json["warnings"].as_array().unwrap();
    let words = warnings.iter().map(|words| words.as_str().unwrap());
    let words: Vec<&str> = words.collect();
    assert!(
        matches!(&words[..], [one] if one.starts_with("the token for the destination may not allow to write /")
            && one.ends_with("none of its scopes allows that (storage.read:/)")),
        "{}",
        warned.text
    );
}

#[tokio::test]
async fn a_job_is_shown_with_its_files() {
    let place = Place::new().await;
    let stored = place.ask(&place.jane, "POST /v1/jobs", &new_job(3).to_string()).await;
    assert_eq!((stored.status, stored.json["files"].as_u64()), (201, Some(3)));
    assert_eq!(stored.json["warnings"], json!([]));
    let mut often = new_job(1);
    often["retries"] = json!(u16::MAX);
    let adjusted = place.ask(&place.jane, "POST /v1/jobs", &often.to_string()).await;
    assert_eq!(adjusted.json["warnings"], json!(["adjusted"]), "{}", adjusted.text);
    let id = stored.json["job_id"].as_str().unwrap();
    let job = place.ask(&place.jane, &format!("GET /v1/jobs/{id}"), "").await.json;
    for (key, value) in [
        ("job_id", json!(id)),
        ("state", json!("submitted")),
        ("kind", json!("normal")),
        ("user", json!("/O=Crossload test/CN=Jane Doe")),
        ("vo", json!("testers")),
        ("priority", json!(4)),
        ("source", json!(A)),
        ("ended_ms", Value::Null),
        ("reason", Value::Null),
    ] {
        assert_eq!(job[key], value, "{key}");
    }
    assert_eq!(
        (&job["files"]["total"], &job["files"]["waiting"]),
        (&json!(3), &json!(3))
    );
    let first = place
        .ask(&place.jane, &format!("GET /v1/jobs/{id}/files?limit=2"), "")
        .await
        .json;
    let next = first["next"].as_str().unwrap();
    let second = format!("GET /v1/jobs/{id}/files?limit=2&after={next}");
    let second = place.ask(&place.jane, &second, "").await.json;
    assert_eq!(
        (first["items"].as_array().unwrap().len(), &second["next"]),
        (2, &Value::Null)
    );
    let file = &second["items"][0];
    for (key, value) in [
        ("index", json!(2)),
        ("source", json!(format!("{A}/2"))),
        ("size_bytes", json!(10)),
        ("attempt", json!(0)),
        ("activity", json!("Production")),
        ("checksum", json!("adler32:0a0b0c0d")),
        ("metadata", json!({"number": 2})),
    ] {
        assert_eq!(file[key], value, "{key}");
    }
    let id = file["file_id"].as_i64().unwrap();
    let same = place.ask(&place.jane, &format!("GET /v1/files/{id}"), "").await.json;
    assert_eq!(&same, file);
}

#[tokio::test]
async fn a_repeated_submission_gives_the_same_job_to_its_user_only() {
    let place = Place::new().await;
    let body = new_job(2).to_string();
    let key = "Idempotency-Key: k-1\n";
    let send =
        async |user: &User, key: &str, body: &str| place.send(user, "POST /v1/jobs", key, body).await.answer().await;
    let first = send(&place.jane, key, &body).await;
    let again = send(&place.jane, key, &body).await;
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!(
        (&first.json["job_id"], &again.json["files"]),
        (&again.json["job_id"], &json!(2))
    );
    let other = send(&place.jane, key, &new_job(1).to_string()).await;
    assert_eq!((other.status, other.code()), (409, "idempotency_key_reused"));
    let theirs = send(&place.john, key, &body).await;
    assert_eq!(theirs.status, 201);
    assert_ne!(theirs.json["job_id"], first.json["job_id"]);
    for bad in [
        "Idempotency-Key: a b\n".to_owned(),
        format!("Idempotency-Key: {}\n", "k".repeat(129)),
    ] {
        let refused = send(&place.jane, &bad, &body).await;
        assert_eq!((refused.status, refused.code()), (400, "bad_request"));
    }
    let jobs = place.ask(&place.jane, "GET /v1/jobs", "").await.json;
    assert_eq!(jobs["items"].as_array().unwrap().len(), 1, "nothing else was stored");
}

#[tokio::test]
async fn the_jobs_of_others_do_not_exist() {
    let place = Place::new().await;
    let id = submit(&place, &place.jane, &new_job(1)).await;
    let files = place
        .ask(&place.jane, &format!("GET /v1/jobs/{id}/files"), "")
        .await
        .json;
    let file = files["items"][0]["file_id"].as_i64().unwrap();
    let requests = [
        (format!("GET /v1/jobs/{id}"), ""),
        (format!("GET /v1/jobs/{id}/files"), ""),
        (format!("GET /v1/jobs/{id}/why"), ""),
        (format!("POST /v1/jobs/{id}/priority"), r#"{"priority": 1}"#),
        (format!("POST /v1/jobs/{id}/cancel"), "{}"),
        (format!("GET /v1/files/{file}"), ""),
        (format!("GET /v1/files/{file}/why"), ""),
        (format!("GET /v1/files/{file}/attempts"), ""),
        (format!("GET /v1/files/{file}/log"), ""),
    ];
    for (line, body) in &requests {
        let refused = place.ask(&place.john, line, body).await;
        assert_eq!((refused.status, refused.code()), (404, "not_found"), "{line}");
        let anonymous = place.ask(&place.without_credential, line, body).await;
        assert_eq!((anonymous.status, anonymous.code()), (401, "unauthenticated"), "{line}");
        assert!(anonymous.challenge.is_some());
    }
    assert_eq!(
        place.ask(&place.john, "GET /v1/jobs", "").await.json["items"],
        json!([])
    );
    let seen = place.ask(&place.operator, "GET /v1/jobs", "").await.json;
    assert_eq!(seen["items"][0]["job_id"], json!(id));
    for (line, body) in &requests {
        assert_eq!(place.ask(&place.operator, line, body).await.status, 200, "{line}");
    }
}

#[tokio::test]
async fn jobs_are_listed_in_pages_by_state_and_storage() {
    let place = Place::new().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(submit(&place, &place.jane, &new_job(1)).await);
    }
    place
        .ask(&place.jane, &format!("POST /v1/jobs/{}/cancel", ids[1]), "{}")
        .await;
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page = place
            .ask(&place.jane, &format!("GET /v1/jobs?limit=2{after}"), "")
            .await
            .json;
        let items = page["items"].as_array().unwrap();
        seen.extend(items.iter().map(|job| job["job_id"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    ids.reverse();
    assert_eq!(seen, ids);
    let count = async |query: &str| {
        let page = place.ask(&place.jane, &format!("GET /v1/jobs?{query}"), "").await;
        assert_eq!(page.status, 200, "{query}: {}", page.text);
        page.json["items"].as_array().unwrap().len()
    };
    assert_eq!(count("state=canceled").await, 1);
    assert_eq!(count("state=canceled,submitted").await, 5);
    assert_eq!(count("state=active").await, 0);
    assert_eq!(
        count("source=https://a.example:443&destination=https://b.example:443").await,
        5
    );
    assert_eq!(count("destination=https://a.example:443").await, 0);
    for query in [
        "state=READY!",
        "states=active",
        "limit=",
        "limit=0",
        "limit=1001",
        "limit=x",
        "after=-1",
        "limit=1&limit=2",
    ] {
        let refused = place.ask(&place.jane, &format!("GET /v1/jobs?{query}"), "").await;
        assert_eq!((refused.status, refused.code()), (400, "bad_request"), "{query}");
    }
}

#[tokio::test]
async fn a_job_is_canceled_whole_or_by_file_and_gets_another_priority() {
    let place = Place::new().await;
    let id = submit(&place, &place.jane, &new_job(2)).await;
    let raised = place
        .ask(
            &place.jane,
            &format!("POST /v1/jobs/{id}/priority"),
            r#"{"priority": 5}"#,
        )
        .await;
    assert_eq!((raised.status, &raised.json["priority"]), (200, &json!(5)));
    let files = place
        .ask(&place.jane, &format!("GET /v1/jobs/{id}/files"), "")
        .await
        .json;
    let first = &files["items"][0]["file_id"];
    let cancel = format!("POST /v1/jobs/{id}/cancel");
    let body = json!({"files": [first], "reason": "not needed"}).to_string();
    let some = place.ask(&place.jane, &cancel, &body).await.json;
    assert_eq!(
        (&some["state"], &some["files"]["canceled"]),
        (&json!("active"), &json!(1))
    );
    let file = place.ask(&place.jane, &format!("GET /v1/files/{first}"), "").await.json;
    assert_eq!(
        (&file["reason"], &file["code"]),
        (&json!("not needed"), &json!("cancelled"))
    );
    let other = place.ask(&place.jane, &cancel, r#"{"files": [99999]}"#).await;
    assert_eq!(other.status, 404);
    let whole = place.ask(&place.jane, &cancel, "{}").await.json;
    assert_eq!(
        (&whole["state"], &whole["files"]["canceled"]),
        (&json!("canceled"), &json!(2))
    );
    let late = place
        .ask(
            &place.jane,
            &format!("POST /v1/jobs/{id}/priority"),
            r#"{"priority": 1}"#,
        )
        .await;
    assert_eq!((late.status, late.code()), (409, "job_terminal"));
    for (path, body) in [
        ("cancel", r#"{"file": []}"#),
        ("cancel", "[]"),
        ("cancel", r#"{"files": []}"#),
        ("cancel", r#"{"reason": "\u001b[2J"}"#),
        ("priority", r#"{"priority": 6}"#),
        ("priority", "{}"),
        ("cancel", ""),
    ] {
        let refused = place
            .ask(&place.jane, &format!("POST /v1/jobs/{id}/{path}"), body)
            .await;
        assert_eq!((refused.status, refused.code()), (400, "bad_request"), "{path} {body}");
        assert!(!refused.text.contains("struct"), "{}", refused.text);
    }
}

#[tokio::test]
async fn all_kinds_of_jobs_are_taken_and_what_cannot_be_is_refused() {
    let place = Place::new().await;
    let hop = |from: &str, to: &str| json!({"sources": [from], "destination": to});
    let (x, y, z) = (format!("{A}/x"), "root://h:1094//x".to_owned(), format!("{B}/x"));
    for (job, kind) in [
        (
            json!({"files": [hop(&x, &y), hop(&y, &z)], "kind": "hops", "overwrite": "hops"}),
            "hops",
        ),
        (json!({"files": [{"sources": [x, y], "destination": z}]}), "replicas"),
        (
            json!({"files": [hop(&x, &z)], "kind": "session", "verify": "both", "retries": 0, "retry_delay_s": 0}),
            "session",
        ),
        (
            json!({"files": [hop(&x, &z)], "metadata": "a text", "queue_timeout_s": 60, "strict": true}),
            "normal",
        ),
    ] {
        let id = submit(&place, &place.jane, &job).await;
        let shown = place.ask(&place.jane, &format!("GET /v1/jobs/{id}"), "").await.json;
        assert_eq!(shown["kind"], json!(kind));
        if kind == "session" {
            let record = place
                .queue
                .catalog
                .job(id.parse::<JobId>().unwrap())
                .await
                .unwrap()
                .unwrap();
            assert_eq!(
                (record.options.retries, record.options.retry_delay_s),
                (Some(0), Some(0))
            );
        }
    }
    for (job, words) in [
        (json!({"files": []}), "No valid pairs"),
        (json!({"files": [hop("https://a", &z)]}), "Missing path"),
        (json!({"files": [hop(&x, "nowhere")]}), "Missing scheme"),
        (
            json!({"files": [{"source": x, "destination": z}]}),
            "unknown field `source`",
        ),
        (json!({"files": [hop(&x, &z)], "overwrite": "hops"}), "multihop"),
        (json!({"files": [hop(&x, &z)], "priority": 0}), "from 1 to 5"),
        (json!({"files": [hop(&x, &z)], "timeout_s": 0}), "nonzero"),
        (json!({"files": [hop(&x, &z)], "metadata": "m".repeat(3000)}), "2048"),
        (json!([]), "not a JSON object"),
        (
            json!({"files": ["x"]}),
            "a JSON object with the members sources and destination",
        ),
    ] {
        let refused = place.ask(&place.jane, "POST /v1/jobs", &job.to_string()).await;
        assert_eq!((refused.status, refused.code()), (400, "bad_request"), "{job}");
        assert!(refused.text.contains(words), "{}", refused.text);
    }
}

#[tokio::test]
async fn a_file_says_why_it_waits_and_what_was_tried() {
    let place = Place::new().await;
    place.queue.lock().attempts = vec![attempt()];
    let id = submit(&place, &place.jane, &new_job(1)).await;
    let why = place.ask(&place.jane, &format!("GET /v1/jobs/{id}/why"), "").await.json;
    let reason = &why["items"][0]["reasons"][0];
    assert_eq!((&reason["code"], &reason["limit"]), (&json!("link_full"), &json!(2)));
    let file = why["items"][0]["file_id"].as_i64().unwrap();
    let same = place
        .ask(&place.jane, &format!("GET /v1/files/{file}/why"), "")
        .await
        .json;
    assert_eq!(same, why["items"][0]);
    assert_eq!(same["credential_expires_ms"], Value::Null);
    let attempts = place
        .ask(&place.jane, &format!("GET /v1/files/{file}/attempts"), "")
        .await
        .json;
    assert_eq!(
        (&attempts["items"][0]["code"], &attempts["items"][0]["number"]),
        (&json!("peer_failed"), &json!(1))
    );
    let log = place.ask(&place.jane, &format!("GET /v1/files/{file}/log"), "").await;
    assert_eq!(
        (log.text.as_str(), log.content_type.as_str()),
        ("a line\n", "text/plain; charset=utf-8")
    );
    for file in ["0", "x", "-1", "99999999999999999999"] {
        let missing = place.ask(&place.jane, &format!("GET /v1/files/{file}"), "").await;
        assert_eq!((missing.status, missing.code()), (404, "not_found"), "{file}");
    }
}

#[tokio::test]
async fn a_running_file_has_a_rate() {
    let place = Place::new().await;
    let id = submit(&place, &place.jane, &new_job(1)).await;
    let queue = place.queue.catalog.queues().await.unwrap().remove(0);
    let grant = Grant {
        queue: queue.key,
        priority: 4,
        count: 1,
    };
    let claimed = place
        .queue
        .catalog
        .claim(&[grant], "w1", NOW, NOW + 60_000)
        .await
        .unwrap();
    let files = [claimed[0].file.id];
    place.queue.catalog.start(&files, "w1", 1000).await.unwrap();
    let moved = catalog::Moved {
        file: claimed[0].file.id,
        moved_bytes: 5_000_000,
    };
    place
        .queue
        .catalog
        .renew("w1", &[moved], NOW, NOW + 60_000)
        .await
        .unwrap();
    let file = place
        .ask(&place.jane, &format!("GET /v1/jobs/{id}/files"), "")
        .await
        .json["items"][0]
        .clone();
    assert_eq!(
        (&file["state"], &file["worker"], &file["attempt"]),
        (&json!("active"), &json!("w1"), &json!(1))
    );
    assert!(file["rate_bytes_s"].as_f64().unwrap() > 0.0, "{file}");
}

#[tokio::test]
async fn unknown_paths_and_methods_are_refused_in_the_same_form() {
    let place = Place::new().await;
    let missing = place.ask(&place.jane, "GET /v1/nothing", "").await;
    assert_eq!((missing.status, missing.code()), (404, "not_found"));
    let method = place.ask(&place.jane, "DELETE /v1/jobs", "").await;
    assert_eq!((method.status, method.code()), (405, "method_not_allowed"));
    assert_eq!(method.content_type, "application/json");
    let fts = place.ask(&place.jane, "GET /nothing", "").await;
    assert_eq!((fts.status, &fts.json["status"]), (404, &json!("404 Not Found")));
}
