//! The command line of FTS (PyPI `fts3`): every command that it has.

use std::time::Duration;

use conformance::{adler32, bytes, until};
use serde_json::json;
use testkit::{available, require_queue_python};

use crate::site::{DN, Site};

const SUBMIT: &str = "fts-rest-transfer-submit";

/// The job that the client prints: the last word of `Job id: …`.
fn job_of(printed: &str) -> String {
    printed.split_whitespace().last().expect("the job").to_owned()
}

#[test]
fn every_command_of_the_fts_client_works() {
    let test = "every_command_of_the_fts_client_works";
    let Some(site) = available(
        test,
        require_queue_python(SUBMIT).and_then(|_| Site::start("fts", "operators = [\"*\"]")),
    ) else {
        return;
    };
    let fts = |program: &str, arguments: &[&str]| site.fts(program, arguments).expect("installed");
    let who = fts("fts-rest-whoami", &[]).succeeded().text();
    assert!(who.contains(DN), "{who}");
    let content = bytes(700_000, 61);
    std::fs::write(site.first.data().join("f"), &content).expect("file");
    let (from, to) = (site.source("f"), site.destination("f"));

    site.delegate().expect("as before");
    let checksum = format!("ADLER32:{:08x}", adler32(&content));
    let submitted = fts(
        SUBMIT,
        &[
            "-K",
            "--checksum",
            &checksum,
            "--file-metadata",
            "{\"n\": 1}",
            &from,
            &to,
        ],
    );
    let job = job_of(&submitted.succeeded().text());
    until("the job ends", Duration::from_secs(30), || {
        fts("fts-rest-transfer-status", &[&job])
            .succeeded()
            .text()
            .contains("FINISHED")
    });
    assert!(std::fs::read(site.second.data().join("f")).expect("there") == content);
    let status = fts("fts-rest-transfer-status", &["-j", &job]).succeeded().text();
    assert!(status.contains(&from) && status.contains("FINISHED"), "{status}");

    // As Rucio asks for many jobs at once.
    let unknown = (0..99).map(|number| format!(",{number:08x}-0000-4000-8000-000000000000"));
    let many = job.clone() + &unknown.collect::<String>();
    let mut curl = site.lab.command("curl").expect("curl");
    curl.args(["-s", "-w", "%{http_code}", "--cacert"]);
    curl.arg(site.lab.authority().ca_file()).arg("-E").arg(&site.proxy);
    curl.arg(format!("{}/jobs/{many}", site.queue.url()));
    let answer = conformance::run(&curl).succeeded().text();
    assert!(
        answer.ends_with("207") && answer.contains("FINISHED") && answer.matches("404 Not Found").count() == 99,
        "{answer}"
    );

    let metrics = site.admin("/metrics");
    for line in [
        "crossload_queue_finished_total 1",
        "crossload_queue_copied_bytes_total 700000",
    ] {
        assert!(metrics.lines().any(|one| one == line), "{line}\n{metrics}");
    }
    assert!(site.admin("/ready").contains("\"database\",\"ok\":true"));

    let again = job_of(&fts(SUBMIT, &[&from, &to]).succeeded().text());
    until("it fails", Duration::from_secs(30), || {
        fts("fts-rest-transfer-status", &["-j", &again])
            .succeeded()
            .text()
            .contains("FAILED")
    });
    let status = fts("fts-rest-transfer-status", &["-j", &again]).succeeded().text();
    assert!(
        status.contains("Destination file exists and overwrite is not enabled"),
        "{status}"
    );

    bans(&site);
    cancels_what_waits(&site);
    submits_a_chain_and_waits(&site);
    let list = fts("fts-rest-transfer-list", &[]).succeeded().text();
    assert!(!list.contains(&job), "only what has not ended: {list}");
    let hosts = fts("fts-rest-server-status", &[]).succeeded().text();
    assert!(
        hosts.contains("\tactive: ") && hosts.contains("\tstaging: 0"),
        "{hosts}"
    );
}

/// The storage of the second endpoint, as its client names it.
fn second_storage(site: &Site) -> String {
    format!("davs://localhost:{}", site.second.port())
}

fn bans(site: &Site) {
    let fts = |program: &str, arguments: &[&str]| site.fts(program, arguments).expect("installed");
    let storage = second_storage(site);
    fts("fts-rest-ban", &["--storage", &storage]).succeeded();
    let refused = fts(SUBMIT, &[&site.source("f"), &site.destination("banned")]);
    assert!(
        refused.code != Some(0) && refused.said().contains("banned"),
        "{}",
        refused.said()
    );
    fts("fts-rest-ban", &["--unban", "--storage", &storage]).succeeded();

    let user = "/O=Crossload test/CN=John Roe";
    let banned = || site.ask(&site.proxy, &[], "/ban/dn").1.contains(user);
    fts("fts-rest-ban", &["--user", user]).succeeded();
    assert!(banned());
    fts("fts-rest-ban", &["--unban", "--user", user]).succeeded();
    assert!(!banned());
}

/// Jobs for a storage that takes nothing now: nothing but a cancel ends them.
fn cancels_what_waits(site: &Site) {
    let fts = |program: &str, arguments: &[&str]| site.fts(program, arguments).expect("installed");
    let storage = second_storage(site);
    let ban = ["--storage", &storage, "--status", "wait", "--allow-submit"];
    fts("fts-rest-ban", &ban).succeeded();
    let submit = |name| {
        let submitted = fts(SUBMIT, &[&site.source("f"), &site.destination(name)]);
        job_of(&submitted.succeeded().text())
    };
    let (whole, part) = (submit("whole"), submit("part"));
    let status = fts("fts-rest-transfer-status", &["-j", &part]).succeeded().text();
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let file = format!("{part}:{}", status["files"][0]["file_id"]);
    for name in [&whole, &file] {
        let canceled = fts("fts-rest-transfer-cancel", &[name]).succeeded().text();
        assert_eq!(canceled.trim(), "CANCELED", "{name}");
    }
    fts("fts-rest-ban", &["--unban", "--storage", &storage]).succeeded();
}

/// There and back in one job of a file with both hops, which the client waits for.
fn submits_a_chain_and_waits(site: &Site) {
    let hop = |from: &str, to: &str| json!({"sources": [from], "destinations": [to]});
    let (there, back) = (site.destination("there"), site.source("back"));
    let bulk = json!({"files": [hop(&site.source("f"), &there), hop(&there, &back)]});
    let bulk = site.lab.file(bulk.to_string().as_bytes());
    let arguments = ["-m", "-b", "-i", "1", "-f", bulk.to_str().expect("plain")];
    let said = site.fts(SUBMIT, &arguments).expect("installed").succeeded().text();
    assert!(said.contains("Job finished with state FINISHED"), "{said}");
    let mut lines = said.lines();
    let (_, job) = lines.find_map(|line| line.split_once("Job id: ")).expect("the job");
    let status = site.fts("fts-rest-transfer-status", &["-j", job]).expect("installed");
    let status: serde_json::Value = serde_json::from_str(&status.succeeded().text()).expect("JSON");
    assert_eq!(status["job_type"], "H", "{status}");
    let content = std::fs::read(site.first.data().join("f")).expect("the source");
    assert!(std::fs::read(site.first.data().join("back")).expect("there") == content);
}

#[test]
fn who_has_not_delegated_is_told_to() {
    let test = "who_has_not_delegated_is_told_to";
    let Some(site) = available(
        test,
        require_queue_python(SUBMIT).and_then(|_| Site::start("fts-none", "")),
    ) else {
        return;
    };
    let url = format!("{}/jobs", site.queue.url());
    let mut curl = site.lab.command("curl").expect("curl");
    let body = format!(
        "{{\"files\": [{{\"sources\": [\"{}\"], \"destinations\": [\"{}\"]}}]}}",
        site.source("f"),
        site.destination("f")
    );
    curl.args(["-s", "-w", "%{http_code}", "--cacert"])
        .arg(site.lab.authority().ca_file());
    curl.arg("-E")
        .arg(&site.proxy)
        .args(["-H", "Content-Type: application/json", "-d", &body, &url]);
    let answer = conformance::run(&curl).succeeded().text();
    assert!(
        answer.ends_with("419") && answer.contains(&format!("No delegation found for \\\"{DN}\\\"")),
        "{answer}"
    );
}
