//! Delegated proxies of FTS's client: shared by the processes of a queue, and withdrawn.

use std::path::{Path, PathBuf};
use std::time::Duration;

use conformance::{Lab, bytes, run, until};
use serde_json::{Value, json};
use testkit::{Postgres, ProxyOptions, Queue, QueueOptions, Result, User, VomsServer, available, require_queue_python};

use crate::site::{Site, options};

const SUBMIT: &str = "fts-rest-transfer-submit";
const SOON: Duration = Duration::from_secs(30);
const DELETE: &[&str] = &["-X", "DELETE"];

/// A queue that knows a VOMS server of `testers`, and that server.
fn with_voms(name: &str) -> Result<(Site, VomsServer)> {
    require_queue_python(SUBMIT)?;
    let lab = Lab::new(name)?;
    let voms = lab.authority().issue_voms_server("testers")?;
    let directory = lab.fresh("vomsdir");
    voms.write_lsc(&directory)?;
    let options = QueueOptions {
        voms_directory: Some(directory),
        ..options(&lab, "operators = [\"*\"]")
    };
    Ok((Site::start_of(lab, options)?, voms))
}

impl Site {
    fn write(&self, proxy: &User) -> PathBuf {
        proxy.write_proxy(&self.lab.fresh("proxy")).expect("a file")
    }

    /// Delegates with a proxy; the name of the delegation.
    fn delegate_with(&self, proxy: &Path) -> String {
        let mut command = self
            .lab
            .prepared(&require_queue_python("fts-rest-delegate").expect("installed"));
        command
            .env("X509_USER_PROXY", proxy)
            .args(["-f", "-s", &self.queue.url()]);
        let said = run(&command).text();
        let (_, id) = said.split_once("Delegation id: ").unwrap_or_else(|| panic!("{said}"));
        id.trim().to_owned()
    }

    /// Submits a file by curl, with what was delegated before.
    fn submit_as_delegated(&self, name: &str) -> (u16, String) {
        let file = json!({"sources": [self.source("f")], "destinations": [self.destination(name)]});
        let body = json!({"files": [file]}).to_string();
        let arguments = ["-H", "Content-Type: application/json", "-d", &body];
        self.ask(&self.proxy, &arguments, "/jobs")
    }
}

#[test]
fn a_proxy_that_ends_soon_or_is_withdrawn_is_named_and_a_new_one_serves() {
    let test = "a_proxy_that_ends_soon_or_is_withdrawn_is_named_and_a_new_one_serves";
    let Some((site, voms)) = available(test, with_voms("proxy-ends")) else {
        return;
    };
    let content = bytes(300_000, 73);
    std::fs::write(site.first.data().join("f"), &content).expect("file");
    // What the client signs lasts for hours, but not what it signs with.
    let short = ProxyOptions {
        ends_s: 1800,
        ..ProxyOptions::default()
    };
    let short = site.write(&site.user.proxy_with(&short).expect("a proxy"));
    let id = site.delegate_with(&short);
    let (status, words) = site.submit_as_delegated("f");
    assert!(
        status == 419 && words.contains("less than one hour left"),
        "{status} {words}"
    );

    assert_eq!(site.delegate_with(&site.proxy), id);
    let storage = format!("davs://localhost:{}", site.second.port());
    let ban = ["--storage", &storage, "--status", "wait", "--allow-submit"];
    site.fts("fts-rest-ban", &ban).expect("installed").succeeded();
    let (status, stored) = site.submit_as_delegated("f");
    assert_eq!(status, 200, "{stored}");
    let path = format!("/delegation/{id}");
    assert_eq!(site.ask(&site.proxy, DELETE, &path).0, 204);
    assert_eq!(site.ask(&site.proxy, DELETE, &path).0, 404, "there is none");
    let unban = ["--unban", "--storage", &storage];
    site.fts("fts-rest-ban", &unban).expect("installed").succeeded();
    let file = |stored: &str| {
        let stored: Value = serde_json::from_str(stored).expect("JSON");
        let path = format!("/jobs/{}/files", stored["job_id"].as_str().expect("a job"));
        let files: Value = serde_json::from_str(&site.ask(&site.proxy, &[], &path).1).expect("JSON");
        files[0].clone()
    };
    until("it fails", SOON, || file(&stored)["file_state"] == "FAILED");
    let reason = file(&stored)["reason"].to_string();
    assert!(
        reason.contains("Permission denied: no delegated credential") && reason.contains("delegate again"),
        "{reason}"
    );

    site.delegate_with(&site.proxy);
    let (status, stored) = site.submit_as_delegated("f");
    assert_eq!(status, 200, "{stored}");
    until("it arrives", SOON, || file(&stored)["file_state"] == "FINISHED");
    assert!(std::fs::read(site.second.data().join("f")).expect("there") == content);
    attributes_come_with_a_proxy(&site, &voms);
}

/// FTS asks a VOMS server for attributes; here they must have come with the proxy.
fn attributes_come_with_a_proxy(site: &Site, voms: &VomsServer) {
    let attributes = voms.attributes(&site.user, &["/testers"]).expect("attributes");
    let with = site.write(&site.user.voms_proxy(vec![attributes]).expect("a proxy"));
    let names = [&site.proxy, &with].map(|proxy| site.delegate_with(proxy));
    let ask = |proxy: &Path, name: &str, wanted: &str| {
        let body = format!("[{wanted:?}]");
        let arguments = ["-H", "Content-Type: application/json", "-d", &body];
        site.ask(proxy, &arguments, &format!("/delegation/{name}/voms"))
    };
    let (status, ends) = ask(&with, &names[1], "testers");
    assert!(status == 203 && ends.starts_with("20"), "when it ends: {status} {ends}");
    assert_eq!(ask(&with, &names[1], "strangers").0, 424);
    assert_eq!(ask(&site.proxy, &names[0], "testers").0, 424);
    assert_eq!(ask(&site.proxy, &names[1], "testers").0, 403, "it is another one's");
    assert_eq!(
        site.ask(&site.proxy, DELETE, &format!("/delegation/{}", names[1])).0,
        403
    );
    assert_eq!(
        site.ask(&site.proxy, DELETE, &format!("/delegation/{}", names[0])).0,
        204
    );
    let (status, words) = ask(&site.proxy, &names[0], "testers");
    assert!(status == 403 && words.contains("already expired"), "{status} {words}");
}

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
        let other = Queue::start(QueueOptions {
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
    until("the job ends", SOON, || {
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
    let path = format!("/delegation/{id}");
    assert_eq!(site.ask(&site.proxy, DELETE, &path).0, 204);
    let mut curl = site.lab.command("curl").expect("curl");
    curl.args(["-s", "--cacert"])
        .arg(site.lab.authority().ca_file())
        .arg("-E")
        .arg(&site.proxy)
        .arg(format!("{}/delegation/{id}", other.url()));
    assert_eq!(run(&curl).succeeded().text(), "null", "withdrawn everywhere");
}
