//! A mesh whose copies are jobs of a queue.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use std::time::Duration;

use conformance::{background, last_json, until, visible};
use serde_json::{Value, json};
use testkit::{Direction, Fault, Relay, available};

use crate::open_site::OpenSite;

/// How long a test waits for what takes a moment.
const PATIENCE: Duration = Duration::from_secs(90);

#[test]
fn a_mesh_through_the_queue_tells_the_job_and_the_reason_of_each_cell() {
    let test = "a_mesh_through_the_queue_tells_the_job_and_the_reason_of_each_cell";
    let Some(site) = available(test, OpenSite::start("mesh-queue")) else {
        return;
    };
    let file = file_with_failure(&site);
    let queue = site.queue.url();
    let arguments = [&*file, "--json", "--queue", &queue];
    let results = last_json(&site.lab.run_client("mesh", &arguments).failed_with(1));
    let cells = results["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 6 - 2 + 2, "{results:#}");
    let tried = cells.iter().filter(|cell| cell["outcome"]["is"] != "not_applicable");
    for cell in tried {
        let job = cell["job_url"].as_str().unwrap_or_else(|| panic!("{cell:#}"));
        let path = job.strip_prefix(&queue).expect("of this queue");
        let state = site.get(path)["job_state"].clone();
        if cell["link"]["destination"] == "FILE" {
            let outcome = &cell["outcome"];
            assert_eq!(
                (&state, &outcome["is"]),
                (&"FAILED".into(), &"failed".into()),
                "{cell:#}"
            );
            assert_eq!(outcome["side"], "destination", "{cell:#}");
            assert!(
                outcome["says"]
                    .as_str()
                    .is_some_and(|says| says.starts_with("DESTINATION ["))
            );
            assert!(
                outcome["code"].as_str().is_some_and(|code| !code.starts_with("fts")),
                "{cell:#}"
            );
        } else {
            assert_eq!(
                (&state, &cell["outcome"]["is"]),
                (&Value::from("FINISHED"), &"passed".into()),
                "{cell:#}"
            );
        }
    }
    assert_eq!(visible(site.endpoint.data()), ["file"]);
}

/// Jobs of an interrupted mesh would go on, and leave files behind it.
#[test]
fn the_jobs_of_an_interrupted_mesh_are_canceled() {
    let test = "the_jobs_of_an_interrupted_mesh_are_canceled";
    let Some(site) = available(test, OpenSite::start("mesh-interrupted")) else {
        return;
    };
    let relay = Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, site.endpoint.port()))).expect("a relay");
    relay.set_fault(Fault::Limit(Direction::ToClient, 100_000), usize::MAX);
    let mesh = "[mesh]\ntitle = \"slow\"\nsize = \"50MB\"\nmodes = [\"pull\"]\n".to_owned();
    let endpoint = |name: &str, port: u16| {
        let directory = name.to_ascii_lowercase();
        fs::create_dir(site.endpoint.data().join(&directory)).expect("a directory");
        format!("[[endpoint]]\nname = \"{name}\"\nurls = [\"http://localhost:{port}/data/{directory}\"]\n")
    };
    let parts = [mesh, endpoint("A", relay.port()), endpoint("B", relay.port())];
    let file = site.lab.file(parts.concat().as_bytes());
    let file = file.to_str().expect("plain");
    let arguments = site.lab.client_arguments("mesh", &[file, "--queue", &site.queue.url()]);
    let mut command = site.lab.client(arguments).expect("the client is built");
    let mut mesh = background(&mut command, site.lab.scratch()).expect("it starts");
    let states = || {
        let jobs = site.get("/jobs?state_in=SUBMITTED,READY,ACTIVE,FINISHED,FAILED,CANCELED&limit=100");
        let jobs = jobs.as_array().unwrap_or_else(|| panic!("{jobs}")).clone();
        let state = |job: &Value| job["job_state"].as_str().unwrap_or_default().to_owned();
        jobs.iter().map(state).collect::<Vec<_>>()
    };
    until("copies run", PATIENCE, || states().contains(&"ACTIVE".to_owned()));
    let status = mesh.interrupt().expect("it ends");
    assert_eq!(status.code(), Some(4), "{}", mesh.stderr());
    until("its jobs are canceled", PATIENCE, || {
        states().iter().all(|state| state == "CANCELED")
    });
    for directory in ["a", "b"] {
        let left = || visible(&site.endpoint.data().join(directory));
        until("its files are removed", PATIENCE, || left().is_empty());
    }
}

/// A queue of ours without its own API is what an FTS is to a client.
#[test]
fn a_mesh_through_an_fts_tells_the_job_and_the_number_of_each_failure() {
    let test = "a_mesh_through_an_fts_tells_the_job_and_the_number_of_each_failure";
    let Some(site) = available(test, OpenSite::start("mesh-fts")) else {
        return;
    };
    let file = file_with_failure(&site);
    let relay = Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, site.queue.port()))).expect("a relay");
    let unknown = "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
    relay.set_fault(Fault::AnswerAt("GET /v1/", unknown), usize::MAX);
    let queue = format!("http://localhost:{}", relay.port());
    let results = last_json(
        &site
            .lab
            .run_client("mesh", &[&file, "--json", "--queue", &queue])
            .failed_with(1),
    );
    assert!(relay.struck() > 0, "it was asked whether it is ours");
    let cells = results["cells"].as_array().expect("cells");
    let tried = cells.iter().filter(|cell| cell["outcome"]["is"] != "not_applicable");
    for cell in tried {
        let job = cell["job_url"].as_str().unwrap_or_else(|| panic!("{cell:#}"));
        let path = job.strip_prefix(&queue).expect("of this queue");
        let state = site.get(path)["job_state"].clone();
        let outcome = &cell["outcome"];
        if cell["link"]["destination"] == "FILE" {
            assert_eq!((&state, &outcome["side"]), (&"FAILED".into(), &"destination".into()));
            let code = outcome["code"].as_str().unwrap_or_default();
            assert!(code.starts_with("fts_"), "{cell:#}");
        } else {
            assert_eq!(
                (&state, &outcome["is"]),
                (&"FINISHED".into(), &"passed".into()),
                "{cell:#}"
            );
        }
    }
    // What endpoints can do is for our queue only.
    let arguments = [&*file, "--mode", "push", "--capabilities-to", &queue];
    let refused = site.lab.run_client("mesh", &arguments);
    assert!(
        refused.stderr.contains("this queue has no capabilities: it is an FTS"),
        "{}",
        refused.said()
    );
    assert_eq!(visible(site.endpoint.data()), ["file"]);
}

/// What the queue has not copied itself it knows from a mesh, if an operator reports it.
#[test]
fn a_mesh_reports_to_the_queue_what_endpoints_can_do() {
    let test = "a_mesh_reports_to_the_queue_what_endpoints_can_do";
    let start = |name: &str, more: &str| available(test, OpenSite::start_with(name, more));
    let Some(site) = start("mesh-reports", "operators = [\"*\"]") else {
        return;
    };
    let file = file_with_failure(&site);
    let queue = site.queue.url();
    // Nothing listens there: what is not sent to one is sent to the other.
    let nowhere = "http://127.0.0.1:1/";
    let arguments = [
        &*file,
        "--mode",
        "push",
        "--json",
        "--capabilities-to",
        &queue,
        "--webhook",
        nowhere,
    ];
    site.lab.run_client("mesh", &arguments).failed_with(5);
    let storage = format!("https://localhost:{}", site.endpoint.port());
    let why = site.get(&format!("/v1/links/why?source={storage}&destination={storage}"));
    let known = |side: &str, part: &str| {
        let all = why["capabilities"][side].as_array().expect("capabilities").iter();
        let is_it = |one: &&Value| one["part"] == part && one["credential"] == "none" && one["peer"] == "http";
        let found: Vec<&Value> = all.filter(is_it).collect();
        assert_eq!(found.len(), 1, "{why:#}");
        found[0].clone()
    };
    for (side, part) in [("source", "active"), ("destination", "passive")] {
        let one = known(side, part);
        assert_eq!((&one["can"], &one["evidence"]), (&true.into(), &"attempt".into()));
        assert!(one["age_ms"].as_i64().is_some_and(|age| age < 600_000), "{one}");
    }
    // Others may not report.
    let Some(strict) = start("mesh-reports-not", "") else {
        return;
    };
    let queue = strict.queue.url();
    let refused = site
        .lab
        .run_client("mesh", &[&file, "--mode", "push", "--capabilities-to", &queue]);
    let refused = refused.failed_with(5);
    assert!(
        refused.stderr.contains("only operators of the queue may do this"),
        "{}",
        refused.said()
    );
    let why = strict.get(&format!("/v1/links/why?source={storage}&destination={storage}"));
    assert!(why["error"].is_object(), "{why}");
}

#[test]
fn a_report_of_capabilities_is_read_exactly() {
    let test = "a_report_of_capabilities_is_read_exactly";
    let Some(site) = available(test, OpenSite::start_with("capability-report", "operators = [\"*\"]")) else {
        return;
    };
    let item = json!({
        "storage": "davs://old.example.org:443", "operation": "write", "part": "active", "peer": "http",
        "credential": "token", "can": false, "at_ms": i64::MAX,
    });
    site.post("/v1/capabilities", &json!({"items": [item]}));
    let why = site.get("/v1/links/why?source=https://a.example.org:443&destination=https://old.example.org:443");
    let known = &why["capabilities"]["destination"][0];
    // The future is now, and davs is https.
    assert_eq!(
        (&known["can"], &known["part"]),
        (&false.into(), &"active".into()),
        "{why:#}"
    );
    assert!(known["age_ms"].as_i64().is_some_and(|age| age < 600_000), "{known}");
    for (key, value) in [
        ("storage", json!("*")),
        ("storage", json!("https://old.example.org")),
        ("peer", json!("s3")),
        ("credential", json!("keys")),
        ("more", json!(1)),
    ] {
        let mut wrong = item.clone();
        wrong[key] = value;
        let answer = site.answer_to("/v1/capabilities", &json!({"items": [wrong]}));
        assert_eq!(answer["error"]["code"], "bad_request", "{key}: {answer}");
    }
}

/// The file of a mesh of two endpoints, and a third with a file in place of its directory.
fn file_with_failure(site: &OpenSite) -> String {
    let data = site.endpoint.data();
    for directory in ["a", "b"] {
        fs::create_dir(data.join(directory)).expect("a directory");
    }
    let endpoint = |name: &str, directory: &str, roles: &str| {
        let url = site.endpoint.url(&format!("/data/{directory}"));
        format!("[[endpoint]]\nname = \"{name}\"\nurls = [\"{url}\"]\nroles = [{roles}]\n")
    };
    let all = "\"source\", \"destination\", \"active\", \"passive\"";
    let file = [
        "[mesh]\ntitle = \"jobs\"\nsize = \"100KB\"\n".to_owned(),
        endpoint("A", "a", all),
        endpoint("B", "b", all),
        endpoint("FILE", "file", "\"destination\", \"active\""),
    ];
    fs::write(data.join("file"), b"no directory").expect("a file");
    let file = site.lab.file(file.concat().as_bytes());
    file.to_str().expect("plain").to_owned()
}
