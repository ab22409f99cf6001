//! Each route of FTS answers. Those that FTS has and the queue has not answer 404 or 405.

use serde_json::json;

use crate::place::Place;

/// Routes of FTS's clients and operators, with the status that an operator gets. `JOB` and `FILE`
/// stand for a job that exists.
const SERVED: &[(&str, &str, u16)] = &[
    ("GET /", "", 200),
    ("GET //whoami", "", 200),
    (
        "POST /jobs",
        r#"{"files": [{"sources": ["https://a/y"], "destinations": ["https://b/y"]}]}"#,
        200,
    ),
    (
        "PUT /jobs",
        r#"{"files": [{"sources": ["https://a/z"], "destinations": ["https://b/z"]}]}"#,
        200,
    ),
    ("GET /jobs", "", 200),
    ("GET /jobs/", "", 200),
    ("GET /jobs?limit=501", "", 400),
    ("GET /jobs/JOB", "", 200),
    ("GET /jobs/JOB,nope", "", 207),
    ("GET /jobs/nope", "", 404),
    ("GET /jobs/JOB?files=file_state", "", 200),
    ("GET /jobs/JOB/files", "", 200),
    ("GET /jobs/JOB/files/FILE/retries", "", 200),
    ("GET /jobs/JOB/dm", "", 200),
    ("GET /jobs/JOB/job_state", "", 200),
    ("GET /jobs/JOB/nothing", "", 404),
    ("POST /jobs/JOB", r#"{"params": {"priority": 4}}"#, 200),
    ("DELETE /jobs/JOB/files/FILE", "", 200),
    ("DELETE /jobs/JOB", "", 200),
    ("DELETE /jobs/nope", "", 404),
    ("GET /files", "", 200),
    ("GET /files/", "", 200),
    ("POST /ban/se", r#"{"storage": "https://c"}"#, 200),
    ("GET /ban/se", "", 200),
    ("DELETE /ban/se?storage=https://c", "", 204),
    ("POST /ban/dn", r#"{"user_dn": "/CN=X"}"#, 200),
    ("GET /ban/dn", "", 200),
    ("DELETE /ban/dn?user_dn=/CN=X", "", 204),
    (
        "POST /config/se",
        r#"{"davs://a": {"se_info": {"inbound_max_active": 1}}}"#,
        200,
    ),
    ("GET /config/se", "", 200),
    ("GET /config/se?se=davs://a", "", 200),
    ("DELETE /config/se?se=davs://a", "", 204),
    (
        "POST /config/links",
        r#"{"source": "*", "destination": "*", "symbolicname": "all", "max_active": 9}"#,
        201,
    ),
    ("GET /config/links", "", 200),
    ("GET /config/links/all", "", 200),
    ("DELETE /config/links/all", "", 204),
    ("GET /config/links/all", "", 404),
    ("POST /config/global", r#"{"atlas": {"retry": 2}}"#, 200),
    ("GET /config/global", "", 200),
    ("DELETE /config/global", "", 400),
    ("DELETE /config/global?vo_name=atlas", "", 204),
    (
        "POST /config/activity_shares",
        r#"{"vo": "atlas", "share": {"A": 0.7, "default": 0.3}}"#,
        200,
    ),
    ("GET /config/activity_shares", "", 200),
    ("GET /config/activity_shares/atlas", "", 200),
    ("DELETE /config/activity_shares/atlas", "", 204),
    (
        "POST /config/shares",
        r#"{"source": "davs://a", "destination": "davs://b", "vo": "atlas", "share": 3}"#,
        200,
    ),
    ("GET /config/shares", "", 200),
    (
        "DELETE /config/shares?source=davs://a&destination=davs://b&vo=atlas",
        "",
        204,
    ),
    (
        "POST /config/authorize",
        r#"{"dn": "/CN=X", "operation": "transfer"}"#,
        200,
    ),
    ("GET /config/authorize", "", 200),
    ("DELETE /config/authorize?dn=/CN=X", "", 204),
    ("POST /config/cloud_storage", r#"{"storage_name": "S3:h"}"#, 201),
    ("GET /config/cloud_storage", "", 200),
    (
        "POST /config/cloud_storage/S3:h",
        r#"{"vo_name": "a", "access_key": "k", "secret_key": "s"}"#,
        201,
    ),
    ("GET /config/cloud_storage/S3:h", "", 200),
    ("DELETE /config/cloud_storage/S3:h/a", "", 204),
    ("DELETE /config/cloud_storage/S3:h", "", 204),
    ("POST /config/drain", r#"{"hostname": "nope", "drain": true}"#, 404),
    ("GET /config/audit", "", 200),
    ("GET /status/hosts", "", 200),
    ("GET /optimizer", "", 200),
    ("GET /optimizer/evolution", "", 200),
    ("GET /optimizer/current", "", 200),
    ("GET /autocomplete/storage?term=a", "", 200),
];

/// Routes of FTS that nothing in use needs.
const MISSING: &[&str] = &[
    "GET /whoami/certificate",
    "GET /delegation",
    "DELETE /jobs/vo/testers",
    "DELETE /jobs/all",
    "GET /archive",
    "GET /archive/JOB",
    "POST /optimizer/current",
    "GET /autocomplete/dn",
    "GET /dm/list",
    "POST /dm/unlink",
    "POST /admin/force-start",
    "GET /api-docs/schema/submit",
    "GET /config",
];

#[tokio::test]
async fn each_route_of_fts_answers() {
    let place = Place::new().await;
    let job = json!({"files": [{"sources": ["https://a/x"], "destinations": ["https://b/x"]}]}).to_string();
    let submitted = place.ask(&place.operator, "POST /jobs", &job).await;
    let job = submitted.json["job_id"].as_str().unwrap().to_owned();
    let files = place.ask(&place.operator, &format!("GET /jobs/{job}/files"), "").await;
    let file = files.json[0]["file_id"].to_string();
    let line = |line: &str| line.replace("JOB", &job).replace("FILE", &file);
    for (route, body, status) in SERVED {
        let answer = place.ask(&place.operator, &line(route), body).await;
        assert_eq!(answer.status, *status, "{route}: {}", answer.text);
        assert!(!answer.text.contains("URL was not found"), "{route}");
    }
    for route in MISSING {
        let answer = place.ask(&place.operator, &line(route), "{}").await;
        assert!(
            matches!(answer.status, 404 | 405),
            "{route}: {} {}",
            answer.status,
            answer.text
        );
        assert!(answer.json.is_object(), "{route}: {}", answer.text);
    }
}

#[tokio::test]
async fn settings_of_fts_are_for_operators() {
    let place = Place::new().await;
    let changes = |route: &&(&str, &str, u16)| {
        let (line, ..) = route;
        !line.starts_with("GET") && (line.contains("/config/") || line.contains("/ban/"))
    };
    for (route, body, _) in SERVED.iter().filter(changes) {
        let answer = place.ask(&place.jane, route, body).await;
        // What is not complete is 400 for anyone.
        assert!(
            matches!(answer.status, 403 | 400),
            "{route}: {} {}",
            answer.status,
            answer.text
        );
    }
    assert!(place.queue.lock().audit.is_empty());
}
