//! Files between XRootD servers of two protocols, by an endpoint of ours that speaks both.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use conformance::{Lab, bytes, until};
use serde_json::{Value, json};
use testkit::{Crossload, Queue, Result, Xrootd, XrootdAccess, available};

use crate::open_site::OpenSite;
use crate::site::options;

/// A server that files leave by HTTP, another one that they reach by the XRootD protocol, and a
/// queue that knows the site's endpoint as a hop.
struct Way {
    site: OpenSite,
    from: Xrootd,
    to: Xrootd,
}

/// How long a copy may take.
const SOON: Duration = Duration::from_secs(90);

impl Way {
    fn start(name: &str) -> Result<Self> {
        let lab = Lab::new(name)?;
        let from = Xrootd::start(&lab.xrootd_options("from", XrootdAccess::Open))?;
        let to = Xrootd::start(&lab.xrootd_options("to", XrootdAccess::Open))?;
        let hop = Crossload::start(lab.options("hop"))?;
        fs::create_dir(hop.data().join("hop"))?;
        let mut options = options(&lab, "anonymous = true\noperators = [\"*\"]");
        options.certificate = None;
        options.more = format!(
            "[[queue.hops]]\nurls = [{:?}, {:?}]\n",
            hop.url("/data/hop"),
            hop.root_url("/data/hop")
        );
        let queue = Queue::start(options)?;
        let site = OpenSite {
            lab,
            endpoint: hop,
            queue,
        };
        Ok(Self { site, from, to })
    }

    fn pair(&self, name: &str) -> (String, String) {
        let path = format!("/data/{name}");
        (self.from.url(&path), self.to.root_url(&path))
    }

    fn submit(&self, name: &str, content: &[u8]) -> String {
        self.put(name, content);
        self.order(name)
    }

    fn put(&self, name: &str, content: &[u8]) {
        fs::write(self.from.data().join(name), content).expect("source");
    }

    fn order(&self, name: &str) -> String {
        self.site.submit(&[self.pair(name)], json!({"verify_checksum": "both"}))
    }

    /// What is at the hop.
    fn at_hop(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.site.endpoint.data().join("hop")).expect("the hop");
        entries.map(|entry| entry.expect("entry").path()).collect()
    }

    fn hop_is_empty(&self) {
        until("nothing is left at the hop", SOON, || self.at_hop().is_empty());
    }

    fn file(&self, job: &str) -> Value {
        self.site.get(&format!("/v1/jobs/{job}/files"))["items"][0].clone()
    }

    /// Stops, or lets go on, the copies from the hop to the destination.
    fn steer(&self, what: &str) {
        let storage = |url: &str| {
            let (scheme, rest) = url.split_once("://").expect("a URL");
            format!("{scheme}://{}", rest.split('/').next().unwrap_or_default())
        };
        let from = storage(&self.site.endpoint.root_url("/"));
        let to = storage(&self.to.root_url("/"));
        let body = json!({"source": from, "destination": to});
        self.site.post(&format!("/v1/links/{what}"), &body);
    }

    /// Waits until the file is at the hop, and its second half waits.
    fn waits_at_hop(&self, job: &str, size_bytes: u64) {
        let is_whole = |path: &Path| fs::metadata(path).is_ok_and(|found| found.len() == size_bytes);
        until("it waits at the hop", SOON, || {
            let file = self.file(job);
            let waits = file["hop"]["part"] == "outgoing" && file["state"] == "submitted";
            waits && matches!(&self.at_hop()[..], [path] if is_whole(path))
        });
    }
}

#[test]
fn a_file_from_http_to_the_xrootd_protocol_passes_a_hop() {
    let test = "a_file_from_http_to_the_xrootd_protocol_passes_a_hop";
    let Some(way) = available(test, Way::start("hop")) else {
        return;
    };
    let content = bytes(3_000_000, 71);
    let job = way.submit("f", &content);
    way.site.becomes(&job, &["FINISHED"]);
    assert!(fs::read(way.to.data().join("f")).expect("there") == content);
    way.hop_is_empty();
    let file = way.file(&job);
    assert_eq!(file["hop"]["part"], "outgoing", "{file}");
    assert_eq!(file["way"], "3rd pull", "by the servers themselves: {file}");
    assert_eq!(file["attempt"], 1, "{file}");
    // For clients of FTS it is a job like any other.
    let job = way.site.get(&format!("/jobs/{job}?files=source_se,dest_se,job_id"));
    assert_eq!(job["job_type"], "N", "{job}");
    let (source, _) = way
        .from
        .url("")
        .split_once("://")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .expect("URL");
    let shown = job["files"][0]["source_se"].as_str().unwrap_or_default().to_owned();
    assert!(shown.starts_with(&source), "{job}");
}

#[test]
fn a_queue_that_is_killed_while_a_file_is_at_the_hop_leaves_nothing_there() {
    let test = "a_queue_that_is_killed_while_a_file_is_at_the_hop_leaves_nothing_there";
    let Some(mut way) = available(test, Way::start("hop-kill")) else {
        return;
    };
    // Large enough that both are still on their way to the hop when the next link is paused: no
    // file begins to go there while it is.
    let content = bytes(128 << 20, 72);
    way.put("going", &content);
    way.put("canceled", &content);
    let (going, canceled) = (way.order("going"), way.order("canceled"));
    until("both are on their way to the hop", SOON, || {
        let goes = |job: &str| {
            let file = way.file(job);
            file["hop"]["part"] == "incoming" && file["state"] == "active"
        };
        goes(&going) && goes(&canceled)
    });
    way.steer("pause");
    until("both are at the hop", SOON, || {
        let waits = |job: &str| {
            let file = way.file(job);
            file["hop"]["part"] == "outgoing" && file["state"] == "submitted"
        };
        waits(&going) && waits(&canceled)
    });
    assert_eq!(way.at_hop().len(), 2);
    let why = way.site.get(&format!("/v1/jobs/{going}/why"))["items"].to_string();
    assert!(why.contains("link_paused"), "{why}");
    way.site.queue.process().kill_hard();
    way.site.queue.start_again().expect("started again");
    way.site.cancel(&canceled);
    way.waits_at_hop(&going, content.len() as u64);
    way.steer("resume");
    way.site.becomes(&going, &["FINISHED"]);
    assert!(fs::read(way.to.data().join("going")).expect("there") == content);
    way.hop_is_empty();
}
