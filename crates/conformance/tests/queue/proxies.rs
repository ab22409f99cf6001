//! Delegated proxies of FTS's client: shared by the processes of a queue, and withdrawn.

use std::time::Duration;

use conformance::{bytes, run, until};
use testkit::{Postgres, Queue, available, require_queue_python};

use crate::site::{Site, options};

const SUBMIT: &str = "fts-rest-transfer-submit";

#[test]
fn a_proxy_that_one_process_took_serves_the_jobs_of_all() {
    let test = "a_proxy_that_one_process_took_serves_the_jobs_of_all";
    let started = require_queue_python(SUBMIT).and_then(|_| {
        let postgres = Postgres::start()?;
        let keys = testkit::Scratch::new("queue-key")?;
        let lines = format!(
            "database = \"{}\"\nkey_file = {:?}",
            postgres.database("queue")?,
            keys.join("key").to_string_lossy()
        );
        let site = Site::start("shared-proxy", &lines)?;
        let other = Queue::start(testkit::QueueOptions {
            name: "other".to_owned(),
            directory: site.lab.fresh("other-queue"),
            ..options(&site.lab, &lines)
        })?;
        Ok((postgres, keys, site, other))
    });
    let Some((_postgres, _keys, site, other)) = available(test, started) else {
        return;
    };
    let content = bytes(300_000, 71);
    std::fs::write(site.first.data().join("f"), &content).expect("file");
    site.delegate().expect("as before");
    let (from, to) = (site.source("f"), site.destination("f"));
    let submitted = site.fts_at(&other, SUBMIT, &[&from, &to]).expect("installed");
    let text = submitted.succeeded().text();
    let job = text.split_whitespace().last().expect("the job");
    until("the job ends", Duration::from_secs(30), || {
        let status = site.fts("fts-rest-transfer-status", &[job]).expect("installed");
        status.succeeded().text().contains("FINISHED")
    });
    assert!(std::fs::read(site.second.data().join("f")).expect("there") == content);

    let who = site
        .fts("fts-rest-whoami", &["-j"])
        .expect("installed")
        .succeeded()
        .text();
    let who: serde_json::Value = serde_json::from_str(&who).expect("JSON");
    let id = who["delegation_id"].as_str().expect("a name");
    let mut curl = site.lab.command("curl").expect("curl");
    curl.args(["-s", "-w", "%{http_code}", "-X", "DELETE", "--cacert"])
        .arg(site.lab.authority().ca_file())
        .arg("-E")
        .arg(&site.proxy)
        .arg(format!("{}/delegation/{id}", site.queue.url()));
    assert_eq!(run(&curl).succeeded().text(), "204");
    let mut curl = site.lab.command("curl").expect("curl");
    curl.args(["-s", "--cacert"])
        .arg(site.lab.authority().ca_file())
        .arg("-E")
        .arg(&site.proxy)
        .arg(format!("{}/delegation/{id}", other.url()));
    assert_eq!(run(&curl).succeeded().text(), "null", "withdrawn everywhere");
}
