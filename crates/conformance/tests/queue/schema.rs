//! Our own API against its OpenAPI document: requests of all forms, good and bad, by schemathesis.

use std::fs;
use std::process::Command;

use conformance::{Lab, run};
use serde_json::{Value, json};
use testkit::{Queue, available, require_queue_python};

/// What is checked of each answer. Limits that a schema cannot say are left out: a request that
/// fits its schema may be refused with 400.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,negative_data_rejection,unsupported_method,\
    allow_header_conformance";

/// The answer to a request.
fn ask(lab: &Lab, url: &str, body: Option<&Value>) -> Value {
    let mut curl = lab.command("curl").expect("curl");
    curl.args(["-s", "--max-time", "20", url]);
    if let Some(body) = body {
        curl.args(["-d", &body.to_string()]);
    }
    serde_json::from_str(&run(&curl).succeeded().text()).expect("JSON")
}

#[test]
fn requests_of_all_forms_get_answers_that_the_document_describes() {
    let test = "requests_of_all_forms_get_answers_that_the_document_describes";
    let started = require_queue_python("schemathesis").and_then(|program| {
        let lab = Lab::new("schema")?;
        let queue = Queue::start(lab.queue_options("anonymous = true\noperators = [\"*\"]"))?;
        Ok((program, lab, queue))
    });
    let Some((program, lab, mut queue)) = available(test, started) else {
        return;
    };
    let url = queue.url();
    let job = json!({"files": [{"sources": ["https://localhost:1/x"], "destination": "https://localhost:2/x"}]});
    let stored = ask(&lab, &format!("{url}/v1/jobs"), Some(&job));
    let job = stored["job_id"].as_str().expect("a job");
    let files = ask(&lab, &format!("{url}/v1/jobs/{job}/files"), None);
    let workers = ask(&lab, &format!("{url}/v1/workers"), None);

    // Names that exist, so that requests come farther than 404.
    let names = format!(
        "[parameters]\n\"path.job\" = {}\n\"path.file\" = \"{}\"\n\"path.worker\" = {}\n",
        stored["job_id"], files["items"][0]["file_id"], workers["items"][0]["name"]
    );
    let directory = lab.fresh("schemathesis");
    fs::create_dir_all(&directory).expect("directory");
    fs::write(directory.join("schemathesis.toml"), names).expect("configuration");
    let mut command: Command = lab.prepared(&program);
    command
        .current_dir(&directory)
        .args(["run", &format!("{url}/v1/openapi.json"), "--checks", CHECKS])
        // One worker: in CPython 3.11 the parser of Python counts its depth over all threads, and
        // hypothesis, which parses the source of lambdas, fails in two.
        // It does not end.
        .args(["--exclude-path", "/v1/events"])
        // The queue would post to what is made up.
        .args(["--exclude-path", "/v1/webhooks"])
        .args([
            "--phases",
            "coverage,fuzzing",
            "--max-examples",
            "10",
            "--max-time",
            "12",
            "--workers",
            "1",
        ])
        .args([
            "--seed",
            "1",
            "--generation-database",
            "none",
            "--no-color",
            "--warnings",
            "off",
        ]);
    let tested = run(&command);
    assert!(tested.code == Some(0), "{}", tested.said());
    assert!(tested.said().contains("Tested: 29"), "{}", tested.said());
    assert_eq!(ask(&lab, &format!("{url}/v1/whoami"), None)["is_operator"], true);
    assert!(queue.process().is_running(), "it has ended: {}", queue.log());
    assert!(!queue.log().contains("panic"), "{}", queue.log());
}
