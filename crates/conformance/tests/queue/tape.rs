//! Files from and to tape: real HTTP to a storage with the WLCG Tape REST API.

use std::time::Duration;

use conformance::{bytes, until};
use serde_json::{Value, json};
use testkit::{Postgres, Result, TapeServer, available};

use crate::open_site::{OpenSite, open_queue};

/// A storage with tape beside a queue.
struct TapeSite {
    tape: TapeServer,
    open: OpenSite,
}

impl TapeSite {
    fn start(name: &str) -> Result<Self> {
        let open = OpenSite::start(name)?;
        let tape = TapeServer::start(open.lab.host())?;
        Ok(Self { tape, open })
    }

    /// Why the first file of a job waits.
    fn waits_for(&self, job: &str) -> Vec<String> {
        let why = self.open.get(&format!("/v1/jobs/{job}/why"));
        let reasons = why["items"][0]["reasons"].as_array().expect("reasons");
        reasons
            .iter()
            .map(|reason| reason["code"].as_str().expect("a code").to_owned())
            .collect()
    }

    fn pair(&self, name: &str) -> (String, String) {
        let path = format!("/data/{name}");
        (self.tape.url(&path), self.open.endpoint.url(&path))
    }
}

#[test]
fn files_come_from_tape_in_one_request_that_survives_kill_9() {
    let test = "files_come_from_tape_in_one_request_that_survives_kill_9";
    let Some(mut site) = available(test, TapeSite::start("tape-recall")) else {
        return;
    };
    let content = bytes(300_000, 7);
    for name in ["a", "b", "c"] {
        site.tape.put_on_tape(&format!("/data/{name}"), &content);
    }
    let pairs = ["a", "b", "c"].map(|name| site.pair(name));
    let job = site.open.submit(
        &pairs,
        json!({"bring_online": 3600, "copy_pin_lifetime": 600, "retry": -1}),
    );
    site.open.becomes(&job, &["STARTED"; 3]);
    assert_eq!(site.waits_for(&job), ["staging"]);
    let asked = site.tape.wait_for_calls("POST /stage", 1).expect("asked");
    let body: Value = serde_json::from_str(&asked[0].body).expect("JSON");
    assert_eq!(body["files"][0], json!({"path": "/data/a", "diskLifetime": "PT600S"}));
    site.tape.bring_online("/data/a");
    site.open.becomes(&job, &["FINISHED", "STARTED", "STARTED"]);
    let released = site
        .tape
        .wait_for_calls("POST /release/request-1", 1)
        .expect("released");
    assert_eq!(released[0].body, json!({"paths": ["/data/a"]}).to_string());
    assert!(!site.tape.is_on_disk("/data/a"));

    let polls = site
        .tape
        .wait_for_calls("GET /stage/request-1", 1)
        .expect("polled")
        .len();
    site.open.queue.process().kill_hard();
    site.open.queue.start_again().expect("again");
    site.tape
        .wait_for_calls("GET /stage/request-1", polls + 1)
        .expect("polled again");
    site.tape.bring_online("/data/b");
    site.tape.set_fault("/data/c", Some("the tape is torn"));
    until("the job ends", Duration::from_secs(30), || {
        site.open.job(&job)["job_state"] == "FINISHEDDIRTY"
    });
    assert_eq!(site.tape.wait_for_calls("POST /stage", 1).expect("asked").len(), 1);
    let files = site.open.job(&job)["files"].clone();
    let reason = files[2]["reason"].as_str().expect("a reason");
    assert!(
        reason.starts_with("STAGING [5] ") && reason.contains("the tape is torn"),
        "{reason}"
    );
    assert!(files[1]["staging_finished"].is_string(), "{files}");
    assert!(std::fs::read(site.open.endpoint.data().join("b")).expect("there") == content);
}

#[test]
fn a_canceled_or_late_file_is_given_up_at_the_tape_system() {
    let test = "a_canceled_or_late_file_is_given_up_at_the_tape_system";
    let Some(site) = available(test, TapeSite::start("tape-cancel")) else {
        return;
    };
    for name in ["a", "b"] {
        site.tape.put_on_tape(&format!("/data/{name}"), b"content");
    }
    let job = site.open.submit(&[site.pair("a")], json!({"bring_online": 3600}));
    site.open.becomes(&job, &["STARTED"]);
    site.open.cancel(&job);
    let canceled = site
        .tape
        .wait_for_calls("POST /stage/request-1/cancel", 1)
        .expect("canceled");
    assert_eq!(canceled[0].body, json!({"paths": ["/data/a"]}).to_string());
    let late = site.open.submit(&[site.pair("b")], json!({"bring_online": 2}));
    site.open.becomes(&late, &["FAILED"]);
    let reason = site.open.job(&late)["files"][0]["reason"].clone();
    let expected = "STAGING [110] bring-online timeout has been exceeded";
    assert!(reason.as_str().expect("a reason").starts_with(expected), "{reason}");
    site.tape
        .wait_for_calls("POST /stage/request-2/cancel", 1)
        .expect("canceled");
    site.tape.refuse(Some(503));
    let waits = site.open.submit(&[site.pair("a")], json!({"bring_online": 3600}));
    assert_eq!(site.waits_for(&waits), ["staging_queued"]);
    site.open.cancel(&waits);
    site.open.becomes(&waits, &["CANCELED"]);
}

#[test]
fn a_file_is_finished_when_its_destination_has_it_on_tape() {
    let test = "a_file_is_finished_when_its_destination_has_it_on_tape";
    let Some(site) = available(test, TapeSite::start("tape-archive")) else {
        return;
    };
    std::fs::write(site.open.endpoint.data().join("f"), b"content").expect("file");
    let pair = (site.open.endpoint.url("/data/f"), site.tape.url("/data/f"));
    let job = site.open.submit(&[pair], json!({"archive_timeout": 3600}));
    site.open.becomes(&job, &["ARCHIVING"]);
    assert_eq!(site.open.job(&job)["job_state"], "ARCHIVING");
    assert_eq!(site.tape.content("/data/f").as_deref(), Some(&b"content"[..]));
    site.tape.wait_for_calls("POST /archiveinfo", 1).expect("asked");
    site.tape.write_to_tape("/data/f");
    site.open.becomes(&job, &["FINISHED"]);
    assert!(site.open.job(&job)["files"][0]["archive_finish_time"].is_string());
}

/// Starts a server of PostgreSQL.
#[test]
fn another_worker_goes_on_with_the_requests_of_one_that_is_killed() {
    let test = "another_worker_goes_on_with_the_requests_of_one_that_is_killed";
    let Some(server) = available(test, Postgres::start()) else {
        return;
    };
    let url = server.database("queue").expect("a database");
    let shared = server.queue_lines(&url);
    let settings = |worker: &str| format!("{shared}\nworker = \"{worker}\"\nlease = \"10s\"");
    let start = || {
        let open = OpenSite::start_with("tape-leader", &settings("first"))?;
        let tape = TapeServer::start(open.lab.host())?;
        Ok(TapeSite { tape, open })
    };
    let Some(mut site) = available(test, start()) else {
        return;
    };
    let content = bytes(300_000, 9);
    for name in ["a", "b"] {
        site.tape.put_on_tape(&format!("/data/{name}"), &content);
    }
    let pairs = ["a", "b"].map(|name| site.pair(name));
    let params = || json!({"bring_online": 3600, "copy_pin_lifetime": 600});
    let job = site.open.submit(&pairs, params());
    site.open.becomes(&job, &["STARTED"; 2]);
    site.tape.wait_for_calls("GET /stage/request-1", 1).expect("polled");
    // The first one leads: it was alone.
    let second = open_queue(&site.open.lab, &settings("second")).expect("as before");
    let mut first = std::mem::replace(&mut site.open.queue, second);
    first.process().kill_hard();
    let polls = site
        .tape
        .wait_for_calls("GET /stage/request-1", 1)
        .expect("polled")
        .len();
    site.tape
        .wait_for_calls("GET /stage/request-1", polls + 1)
        .expect("polled by the other");
    for name in ["/data/a", "/data/b"] {
        site.tape.bring_online(name);
    }
    site.open.becomes(&job, &["FINISHED"; 2]);
    let asked = site.tape.wait_for_calls("POST /stage", 1).expect("asked");
    assert_eq!(asked.len(), 1, "the request was not made again: {asked:?}");
    site.tape
        .wait_for_calls("POST /release/request-1", 1)
        .expect("released by the other");
    for name in ["a", "b"] {
        assert!(std::fs::read(site.open.endpoint.data().join(name)).expect("there") == content);
    }
    // Its own requests go on as well.
    site.tape.put_on_tape("/data/c", &content);
    let next = site.open.submit(&[site.pair("c")], params());
    site.open.becomes(&next, &["STARTED"]);
    site.tape.bring_online("/data/c");
    site.open.becomes(&next, &["FINISHED"]);
}
