//! A queue without credentials, and an endpoint.

use std::time::{Duration, Instant};

use conformance::Lab;
use serde_json::{Value, json};
use testkit::{Crossload, Queue, Result};

use crate::site::options;

/// A queue that serves everyone, and an endpoint that lets everyone in.
pub(crate) struct OpenSite {
    pub(crate) lab: Lab,
    pub(crate) endpoint: Crossload,
    pub(crate) queue: Queue,
}

/// A queue that serves everyone, with further lines in its section.
pub(crate) fn open_queue(lab: &Lab, more: &str) -> Result<Queue> {
    let mut options = options(lab, &format!("anonymous = true\n{more}"));
    options.certificate = None;
    Queue::start(options)
}

impl OpenSite {
    pub(crate) fn start(name: &str) -> Result<Self> {
        Self::start_with(name, "")
    }

    /// The same with further lines in the queue's section.
    pub(crate) fn start_with(name: &str, more: &str) -> Result<Self> {
        let lab = Lab::new(name)?;
        let endpoint = Crossload::start(lab.options("endpoint"))?;
        let queue = open_queue(&lab, more)?;
        Ok(Self { lab, endpoint, queue })
    }

    fn curl(&self, arguments: &[&str]) -> Value {
        let mut curl = self.lab.command("curl").expect("curl");
        curl.arg("-s").args(arguments);
        let text = conformance::run(&curl).succeeded().text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The answer to a request for this path.
    pub(crate) fn get(&self, path: &str) -> Value {
        self.curl(&[&format!("{}{path}", self.queue.url())])
    }

    /// Sends this body, which is taken.
    pub(crate) fn post(&self, path: &str, body: &Value) {
        let (body, url) = (body.to_string(), format!("{}{path}", self.queue.url()));
        let mut curl = self.lab.command("curl").expect("curl");
        curl.args(["-sf", "-H", "Content-Type: application/json", "-d", &body, &url]);
        conformance::run(&curl).succeeded();
    }

    /// The answer to this body.
    pub(crate) fn answer_to(&self, path: &str, body: &Value) -> Value {
        let (body, url) = (body.to_string(), format!("{}{path}", self.queue.url()));
        self.curl(&["-H", "Content-Type: application/json", "-d", &body, &url])
    }

    /// Submits files, and returns the job.
    pub(crate) fn submit(&self, pairs: &[(String, String)], params: Value) -> String {
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

    pub(crate) fn job(&self, job: &str) -> Value {
        let fields = "files=file_state,reason,staging_start,staging_finished,archive_finish_time";
        self.curl(&[&format!("{}/jobs/{job}?{fields}", self.queue.url())])
    }

    pub(crate) fn becomes(&self, job: &str, states: &[&str]) {
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

    pub(crate) fn cancel(&self, job: &str) {
        let mut curl = self.lab.command("curl").expect("curl");
        curl.args(["-s", "-X", "DELETE", &format!("{}/jobs/{job}", self.queue.url())]);
        conformance::run(&curl).succeeded();
    }
}
