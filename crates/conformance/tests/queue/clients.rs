//! The command line of FTS (PyPI `fts3`): every command that it has.

use std::time::Duration;

use conformance::{adler32, bytes, until};
use testkit::{available, require_queue_python};

use crate::site::{DN, Site};

/// The job that the client prints: the last word of `Job id: …`.
fn job_of(printed: &str) -> String {
    printed.split_whitespace().last().expect("the job").to_owned()
}

#[test]
fn every_command_of_the_fts_client_works() {
    let test = "every_command_of_the_fts_client_works";
    let program = "fts-rest-transfer-submit";
    let Some(site) = available(
        test,
        require_queue_python(program).and_then(|_| Site::start("fts", "operators = [\"*\"]")),
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
        program,
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

    let again = job_of(&fts(program, &[&from, &to]).succeeded().text());
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

    let banned = fts(
        "fts-rest-ban",
        &["--storage", &format!("davs://localhost:{}", site.second.port())],
    );
    banned.succeeded();
    let refused = fts(program, &[&from, &site.destination("banned")]);
    assert!(
        refused.code != Some(0) && refused.said().contains("banned"),
        "{}",
        refused.said()
    );
    let unban = [
        "--unban",
        "--storage",
        &format!("davs://localhost:{}", site.second.port()),
    ];
    fts("fts-rest-ban", &unban).succeeded();

    let waiting = ["davs://localhost:1/data/none", &site.destination("w")];
    let waits = job_of(&fts(program, &waiting).succeeded().text());
    let canceled = fts("fts-rest-transfer-cancel", &[&waits]).said();
    assert!(
        canceled.contains("CANCELED") || canceled.contains("FAILED"),
        "{canceled}"
    );
    let list = fts("fts-rest-transfer-list", &[]).succeeded().text();
    assert!(!list.contains(&job), "only what has not ended: {list}");
    fts("fts-rest-server-status", &["-H", "localhost"]);
}

#[test]
fn who_has_not_delegated_is_told_to() {
    let test = "who_has_not_delegated_is_told_to";
    let program = "fts-rest-transfer-submit";
    let Some(site) = available(
        test,
        require_queue_python(program).and_then(|_| Site::start("fts-none", "")),
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
