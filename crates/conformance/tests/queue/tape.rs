//! Files from and to tape: real HTTP to a storage with the WLCG Tape REST API.

use std::time::{Duration, Instant};

use conformance::{Lab, bytes, until};
use serde_json::{Value, json};
use testkit::{Crossload, Queue, Result, TapeServer, available};

use crate::site::options;

/// A queue without credentials, a storage with tape and an endpoint.
struct TapeSite {
    lab: Lab,
    tape: TapeServer,
    endpoint: Crossload,
    queue: Queue,
}

impl TapeSite {
    fn start(name: &str) -> Result<Self> {
        let lab = Lab::new(name)?;
        let tape = TapeServer::start(lab.host())?;
        let endpoint = Crossload::start(lab.options("endpoint"))?;
        let mut options = options(&lab, "anonymous = true");
        options.certificate = None;
        let queue = Queue::start(options)?;
        Ok(Self {
            lab,
            tape,
            endpoint,
            queue,
        })
    }

    fn curl(&self, arguments: &[&str]) -> Value {
        let mut curl = self.lab.command("curl").expect("curl");
        curl.arg("-s").args(arguments);
        let text = conformance::run(&curl).succeeded().text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Submits files, and returns the job.
    fn submit(&self, pairs: &[(String, String)], params: Value) -> String {
        let file = |(from, to): &(String, String)| json!({"sources": [from], "destinations": [to]});
        let files: Vec<Value> = pairs.iter().map(file).collect();
        let body = json!({"files": files, "params": params}).to_string();
        let url = format!("{}/jobs", self.queue.url());
        let answer = self.curl(&["-H", "Content-Type: application/json", "-d", &body, &url]);
        answer["job_id"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"))
            .to_owned()
    }

    fn job(&self, job: &str) -> Value {
        let fields = "files=file_state,reason,staging_start,staging_finished,archive_finish_time";
        self.curl(&[&format!("{}/jobs/{job}?{fields}", self.queue.url())])
    }

    fn becomes(&self, job: &str, states: &[&str]) {
        let begun = Instant::now();
        loop {
            let answer = self.job(job);
            let files = answer["files"].as_array().expect("files");
            let found: Vec<&str> = files.iter().filter_map(|file| file["file_state"].as_str()).collect();
            if found == states {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "not {states:?}: {answer}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn cancel(&self, job: &str) {
        let mut curl = self.lab.command("curl").expect("curl");
        curl.args(["-s", "-X", "DELETE", &format!("{}/jobs/{job}", self.queue.url())]);
        conformance::run(&curl).succeeded();
    }

    fn pair(&self, name: &str) -> (String, String) {
        let path = format!("/data/{name}");
        (self.tape.url(&path), self.endpoint.url(&path))
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
    let job = site.submit(
        &pairs,
        json!({"bring_online": 3600, "copy_pin_lifetime": 600, "retry": -1}),
    );
    site.becomes(&job, &["STARTED"; 3]);
    let asked = site.tape.wait_for_calls("POST /stage", 1).expect("asked");
    let body: Value = serde_json::from_str(&asked[0].body).expect("JSON");
    assert_eq!(body["files"][0], json!({"path": "/data/a", "diskLifetime": "PT600S"}));
    site.tape.bring_online("/data/a");
    site.becomes(&job, &["FINISHED", "STARTED", "STARTED"]);
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
    site.queue.process().kill_hard();
    site.queue.start_again().expect("again");
    site.tape
        .wait_for_calls("GET /stage/request-1", polls + 1)
        .expect("polled again");
    site.tape.bring_online("/data/b");
    site.tape.set_fault("/data/c", Some("the tape is torn"));
    until("the job ends", Duration::from_secs(30), || {
        site.job(&job)["job_state"] == "FINISHEDDIRTY"
    });
    assert_eq!(site.tape.wait_for_calls("POST /stage", 1).expect("asked").len(), 1);
    let files = site.job(&job)["files"].clone();
    let reason = files[2]["reason"].as_str().expect("a reason");
    assert!(
        reason.starts_with("STAGING [5] ") && reason.contains("the tape is torn"),
        "{reason}"
    );
    assert!(files[1]["staging_finished"].is_string(), "{files}");
    assert!(std::fs::read(site.endpoint.data().join("b")).expect("there") == content);
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
    let job = site.submit(&[site.pair("a")], json!({"bring_online": 3600}));
    site.becomes(&job, &["STARTED"]);
    site.cancel(&job);
    let canceled = site
        .tape
        .wait_for_calls("POST /stage/request-1/cancel", 1)
        .expect("canceled");
    assert_eq!(canceled[0].body, json!({"paths": ["/data/a"]}).to_string());
    let late = site.submit(&[site.pair("b")], json!({"bring_online": 2}));
    site.becomes(&late, &["FAILED"]);
    let reason = site.job(&late)["files"][0]["reason"].clone();
    let expected = "STAGING [110] bring-online timeout has been exceeded";
    assert!(reason.as_str().expect("a reason").starts_with(expected), "{reason}");
    site.tape
        .wait_for_calls("POST /stage/request-2/cancel", 1)
        .expect("canceled");
}

#[test]
fn a_file_is_finished_when_its_destination_has_it_on_tape() {
    let test = "a_file_is_finished_when_its_destination_has_it_on_tape";
    let Some(site) = available(test, TapeSite::start("tape-archive")) else {
        return;
    };
    std::fs::write(site.endpoint.data().join("f"), b"content").expect("file");
    let pair = (site.endpoint.url("/data/f"), site.tape.url("/data/f"));
    let job = site.submit(&[pair], json!({"archive_timeout": 3600}));
    site.becomes(&job, &["ARCHIVING"]);
    assert_eq!(site.job(&job)["job_state"], "ARCHIVING");
    assert_eq!(site.tape.content("/data/f").as_deref(), Some(&b"content"[..]));
    site.tape.wait_for_calls("POST /archiveinfo", 1).expect("asked");
    site.tape.write_to_tape("/data/f");
    site.becomes(&job, &["FINISHED"]);
    assert!(site.job(&job)["files"][0]["archive_finish_time"].is_string());
}
