//! FTS's routes for jobs: whose they are, how lists are narrowed, and what changes them.

use serde_json::{Value, json};

use crate::place::{Answer, JANE, Place, User};
use crate::queue::attempt;

const FOREIGN: &str = "File does not belong to the job";
const TERMINAL: &str = "The job is in a terminal state";

fn job(source: &str, destination: &str) -> Value {
    json!({"files": [{"sources": [format!("{source}/x")], "destinations": [format!("{destination}/x")]}]})
}

/// A job of two files between the same storages.
fn two_files(params: Value) -> Value {
    let file =
        |name: &str| json!({"sources": [format!("https://a/{name}")], "destinations": [format!("https://b/{name}")]});
    json!({"files": [file("x"), file("y")], "params": params})
}

async fn submit(place: &Place, user: &User, job: &Value) -> String {
    let stored = place.ask(user, "POST /jobs", &job.to_string()).await;
    assert_eq!(stored.status, 200, "{}", stored.text);
    stored.json["job_id"].as_str().unwrap().to_owned()
}

async fn file_ids(place: &Place, job: &str) -> Vec<String> {
    let files = place.ask(&place.operator, &format!("GET /jobs/{job}/files"), "").await;
    let files = files.json.as_array().unwrap().iter();
    files.map(|file| file["file_id"].to_string()).collect()
}

fn no_job(id: &str) -> String {
    format!("No job with the id \"{id}\" has been found")
}

#[tokio::test]
async fn the_jobs_of_others_do_not_exist() {
    let place = Place::new().await;
    place.queue.lock().attempts = vec![attempt()];
    let id = submit(&place, &place.jane, &job("https://a", "https://b")).await;
    let own = submit(&place, &place.john, &job("https://a", "https://b")).await;
    let file = file_ids(&place, &id).await.remove(0);
    let priority = r#"{"params": {"priority": 5}}"#;
    let of_one_job = [
        (format!("GET /jobs/{id}/files"), ""),
        (format!("GET /jobs/{id}/job_state"), ""),
        (format!("GET /jobs/{id}/dm"), ""),
        (format!("GET /jobs/{id}/files/{file}/retries"), ""),
        (format!("GET /jobs/{id}/files/{file}/log"), ""),
        (format!("DELETE /jobs/{id}/files/{file}"), ""),
    ];
    let of_several = [
        (format!("GET /jobs/{id}"), ""),
        (format!("GET /jobs/{id}?files=file_state"), ""),
        (format!("DELETE /jobs/{id}"), ""),
        (format!("POST /jobs/{id}"), priority),
    ];
    let missing = json!({"job_id": id, "http_status": "404 Not Found", "http_message": no_job(&id)});
    for (line, body) in &of_one_job {
        let refused = place.ask(&place.john, line, body).await;
        let expected = json!({"status": "404 Not Found", "message": no_job(&id)});
        assert_eq!((refused.status, refused.json), (404, expected), "{line}");
    }
    for (line, body) in &of_several {
        let refused = place.ask(&place.john, line, body).await;
        assert_eq!((refused.status, &refused.json), (404, &missing), "{line}");
    }
    let line = format!("GET /jobs/{id},{own}");
    let mixed = place.ask(&place.john, &line, "").await;
    assert_eq!((mixed.status, &mixed.json[0]), (207, &missing), "{}", mixed.text);
    assert_eq!(mixed.json[1]["http_status"], "200 Ok");
    let kept = place.ask(&place.jane, &format!("GET /jobs/{id}"), "").await.json;
    assert_eq!(
        (&kept["job_state"], &kept["priority"]),
        (&json!("SUBMITTED"), &json!(3))
    );
    for (line, body) in of_one_job.iter().chain(&of_several) {
        let taken = place.ask(&place.jane, line, body).await;
        assert_eq!(taken.status, 200, "{line}: {}", taken.text);
    }
    let line = format!("GET /jobs/{id}/files/{file}/retries");
    let retries = place.ask(&place.jane, &line, "").await.json;
    let expected = json!([{"attempt": 1, "datetime": "2027-01-15T08:00:00", "transfer_host": "w1", "log_file": "",
        "reason": "DESTINATION [5] Input/output error"}]);
    assert_eq!(retries, expected);
}

#[tokio::test]
async fn lists_are_narrowed_as_in_fts() {
    let place = Place::new().await;
    let ended = submit(&place, &place.jane, &job("https://a", "https://b")).await;
    submit(&place, &place.jane, &job("https://b:8443", "root://c")).await;
    submit(&place, &place.john, &job("https://a", "https://b")).await;
    place.ask(&place.jane, &format!("DELETE /jobs/{ended}"), "").await;
    let encoded = JANE.replace(' ', "%20");
    let who = place.ask(&place.operator, "GET /whoami", "").await.json;
    let own = who["delegation_id"].as_str().unwrap();
    for (query, count) in [
        (String::new(), 2),
        (format!("user_dn={encoded}"), 1),
        ("user_dn=/CN=Nobody".to_owned(), 0),
        ("vo_name=testers".to_owned(), 2),
        ("vo_name=atlas".to_owned(), 0),
        ("source_se=https://a".to_owned(), 1),
        ("source_se=https://b".to_owned(), 1),
        ("dest_se=root://c".to_owned(), 1),
        ("source_se=https://a&dest_se=root://c".to_owned(), 0),
        ("state_in=CANCELED".to_owned(), 1),
        (format!("state_in=CANCELED,SUBMITTED&user_dn={encoded}"), 2),
        ("time_window=1".to_owned(), 3),
        ("time_window=1:30&source_se=https://a".to_owned(), 2),
        ("limit=1".to_owned(), 1),
        (format!("dlg_id={own}"), 0),
    ] {
        let listed = place.ask(&place.operator, &format!("GET /jobs?{query}"), "").await;
        assert_eq!(
            listed.json.as_array().map(Vec::len),
            Some(count),
            "{query}: {}",
            listed.text
        );
    }
    let jane = place.ask(&place.jane, "GET /whoami", "").await.json;
    let line = format!(
        "GET /jobs?dlg_id={}&fields=job_id,job_state",
        jane["delegation_id"].as_str().unwrap()
    );
    let listed = place.ask(&place.jane, &line, "").await.json;
    let members: Vec<&String> = listed[0].as_object().unwrap().keys().collect();
    assert_eq!((listed.as_array().unwrap().len(), members.len()), (1, 2), "{listed}");
    for (query, status) in [
        (format!("dlg_id={own}"), 403),
        ("time_window=soon".to_owned(), 400),
        ("time_window=1:60".to_owned(), 400),
        ("time_window=-1".to_owned(), 400),
        ("limit=0".to_owned(), 400),
        ("limit=many".to_owned(), 400),
    ] {
        let refused = place.ask(&place.jane, &format!("GET /jobs?{query}"), "").await;
        assert_eq!(refused.status, status, "{query}: {}", refused.text);
        assert!(refused.json["message"].is_string(), "{}", refused.text);
    }
}

#[tokio::test]
async fn jobs_and_files_are_canceled_once() {
    let place = Place::new().await;
    let cancel = async |path: String| place.ask(&place.jane, &format!("DELETE /jobs/{path}"), "").await;
    let id = submit(&place, &place.jane, &two_files(json!({}))).await;
    let files = file_ids(&place, &id).await;
    let said = async |path: String| cancel(path).await.json;
    assert_eq!(said(format!("{id}/files/{}", files[0])).await, "CANCELED");
    assert_eq!(said(format!("{id}/files/{}", files[0])).await, "CANCELED");
    assert_eq!(said(format!("{id}/files/999999")).await, FOREIGN);
    let both = format!("{id}/files/{},x,{}", files[1], files[0]);
    assert_eq!(said(both).await, json!(["CANCELED", FOREIGN, "CANCELED"]));
    let other = submit(&place, &place.jane, &job("https://a", "https://b")).await;
    let several = cancel(format!("{id},{other}")).await;
    let outcomes = |answer: &Answer| {
        let jobs = answer.json.as_array().unwrap().iter();
        let outcome = |job: &Value| [&job["job_state"], &job["http_status"], &job["http_message"]].map(Value::clone);
        jobs.map(outcome).collect::<Vec<_>>()
    };
    let canceled = json!("CANCELED");
    let known = [canceled.clone(), json!("304 Not Modified"), json!(TERMINAL)];
    let new = [canceled, json!("200 Ok"), Value::Null];
    assert_eq!((several.status, outcomes(&several)), (200, vec![known, new]));
    let reuse = submit(&place, &place.jane, &two_files(json!({"reuse": true}))).await;
    let refused = cancel(format!("{reuse}/files/{}", file_ids(&place, &reuse).await[0])).await;
    let message = "Multihop or reuse jobs must be cancelled at once (Y)";
    let expected = json!({"status": "400 Bad Request", "message": message});
    assert_eq!((refused.status, refused.json), (400, expected));
}

#[tokio::test]
async fn a_priority_is_clamped_and_nothing_else_changes() {
    let place = Place::new().await;
    let first = submit(&place, &place.jane, &job("https://a", "https://b")).await;
    let second = submit(&place, &place.jane, &job("https://a", "https://b")).await;
    let change = async |ids: &str, params: Value| {
        let body = json!({"params": params}).to_string();
        place.ask(&place.jane, &format!("POST /jobs/{ids}"), &body).await
    };
    for (asked, priority) in [(json!(9), 5), (json!(0), 1), (json!("4"), 4), (Value::Null, 4)] {
        let changed = change(&first, json!({"priority": asked, "retry": 7})).await.json;
        assert_eq!(
            (
                &changed["priority"],
                &changed["files"][0]["priority"],
                &changed["retry"]
            ),
            (&json!(priority), &json!(priority), &json!(0)),
            "{asked}"
        );
    }
    for wrong in [json!("high"), json!(1.5), json!([])] {
        assert_eq!(change(&first, json!({"priority": wrong})).await.status, 400, "{wrong}");
    }
    place.ask(&place.jane, &format!("DELETE /jobs/{second}"), "").await;
    let mixed = change(&format!("{first},{second},none"), json!({"priority": 2})).await;
    assert_eq!(
        (mixed.status, &mixed.json[0]["priority"]),
        (207, &json!(2)),
        "{}",
        mixed.text
    );
    assert_eq!(
        (
            &mixed.json[1]["priority"],
            &mixed.json[1]["http_status"],
            &mixed.json[1]["http_message"]
        ),
        (&json!(3), &json!("304 Not Modified"), &json!(TERMINAL))
    );
    assert_eq!(mixed.json[2]["http_message"], json!(no_job("none")));
}
