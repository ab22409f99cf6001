//! A queue that serves everyone in clear text, for storages that copy nothing.

use std::cell::RefCell;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use conformance::{Lab, open, read_answer};
use serde_json::{Value, json};
use testkit::{Clock, HollowStorage, Queue, QueueOptions, Result};

/// How long an answer, or what follows from a request, may take: then something hangs. A job of
/// many files takes seconds, and more on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// A queue, and the last job that it took.
pub(crate) struct Bare {
    pub(crate) server: Queue,
    last: RefCell<String>,
    _lab: Lab,
}

/// A job.
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) files: usize,
}

impl Bare {
    /// Starts a queue that runs so many copies at once, on all links, with further lines in its
    /// section.
    pub(crate) fn start(name: &str, copies: usize, more: &str) -> Result<Self> {
        let lab = Lab::new("queue")?;
        let options = bare(&lab, name, copies, more);
        Ok(Self::of(Queue::start(options)?, lab))
    }

    /// The same in a laboratory that is there.
    pub(crate) fn start_of(lab: Lab, name: &str, copies: usize, more: &str) -> Result<Self> {
        let options = bare(&lab, name, copies, more);
        Ok(Self::of(Queue::start(options)?, lab))
    }

    /// The same with a clock.
    pub(crate) fn start_with(name: &str, copies: usize, more: &str, clock: &Clock) -> Result<Self> {
        let lab = Lab::new("queue")?;
        let options = bare(&lab, name, copies, more);
        Ok(Self::of(Queue::start_with(options, clock)?, lab))
    }

    /// The same with its files in a directory.
    pub(crate) fn start_in(directory: &Path, copies: usize, more: &str) -> Result<Self> {
        let lab = Lab::new("queue")?;
        let options = QueueOptions {
            directory: directory.to_owned(),
            ..bare(&lab, "queue", copies, more)
        };
        Ok(Self::of(Queue::start(options)?, lab))
    }

    fn of(server: Queue, lab: Lab) -> Self {
        Self {
            server,
            last: RefCell::default(),
            _lab: lab,
        }
    }

    /// Asks, and returns status and answer.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let mut socket = open(self.server.port());
        for set in [
            socket.set_read_timeout(Some(PATIENCE)),
            socket.set_write_timeout(Some(PATIENCE)),
        ] {
            set.expect("a timeout");
        }
        // A server may refuse and close before all of it is sent.
        let _ = socket.write_all(request.as_bytes());
        let received = read_answer(&mut socket);
        let (_, answer) = received.text.split_once("\r\n\r\n").unwrap_or_default();
        let answer = serde_json::from_str(answer).unwrap_or_else(|_| json!(answer));
        (received.status(), answer)
    }

    fn try_submit_until(&self, storage: &HollowStorage, number: usize, files: usize, hours: u32) -> (u16, Value) {
        let url = storage.url();
        let file = |index: usize| {
            json!({
                "sources": [format!("{url}/source/{number}/{index}")],
                "destinations": [format!("{url}/destination/{number}/{index}")],
            })
        };
        let files: Vec<Value> = (0..files).map(file).collect();
        let params = json!({"verify_checksum": "none", "retry": 0, "max_time_in_queue": hours});
        let answer = self.ask("POST", "/jobs", &json!({"files": files, "params": params}).to_string());
        if let Some(id) = answer.1["job_id"].as_str() {
            *self.last.borrow_mut() = id.to_owned();
        }
        answer
    }

    /// Submits a job; each number once.
    pub(crate) fn try_submit(&self, storage: &HollowStorage, number: usize, files: usize) -> (u16, Value) {
        self.try_submit_until(storage, number, files, 0)
    }

    /// Submits a job that the queue must take.
    pub(crate) fn submit(&self, storage: &HollowStorage, number: usize, files: usize) -> Job {
        self.submit_until(storage, number, files, 0)
    }

    /// The same for a job that waits for so many hours at most.
    pub(crate) fn submit_until(&self, storage: &HollowStorage, number: usize, files: usize, hours: u32) -> Job {
        let (status, answer) = self.try_submit_until(storage, number, files, hours);
        assert_eq!(status, 200, "{answer}");
        Job { files, ..self.last() }
    }

    /// How many files a job has, as our own API says.
    pub(crate) fn count_files(&self, job: &Job) -> usize {
        let (_, answer) = self.ask("GET", &format!("/v1/jobs/{}", job.id), "");
        answer["files"]["total"]
            .as_u64()
            .and_then(|count| count.try_into().ok())
            .unwrap_or_default()
    }

    /// Cancels a job.
    pub(crate) fn cancel(&self, job: &Job) {
        let (status, answer) = self.ask("DELETE", &format!("/jobs/{}", job.id), "");
        assert_eq!(status, 200, "{answer}");
    }

    /// The last job that it took, without its files.
    pub(crate) fn last(&self) -> Job {
        Job {
            id: self.last.borrow().clone(),
            files: 0,
        }
    }

    /// Lets so many copies into each storage at once.
    pub(crate) fn limit_storages(&self, inbound: u32) {
        let limits = json!({"*": {"se_info": {"inbound_max_active": inbound}}});
        let (status, answer) = self.ask("POST", "/config/se", &limits.to_string());
        assert_eq!(status, 200, "{answer}");
    }

    /// The state of a job.
    pub(crate) fn state(&self, job: &Job) -> String {
        let (_, answer) = self.ask("GET", &format!("/jobs/{}", job.id), "");
        answer["job_state"].as_str().unwrap_or_default().to_owned()
    }
}

fn bare(lab: &Lab, name: &str, copies: usize, more: &str) -> QueueOptions {
    let queue = format!(
        "anonymous = true\noperators = [\"*\"]\ncopies = {copies}\nstorage_copies = 10000\nlink_copies = 10000\nlink_copies_minimum = \
         10000\n{more}"
    );
    QueueOptions {
        name: name.to_owned(),
        ..lab.queue_options(&queue)
    }
}
