//! Our own client of a queue, with our own queue.

use conformance::{Run, bytes, last_json, run};
use serde_json::json;
use testkit::{Result, available};

use crate::site::Site;

/// Runs a command of our client as the user with the proxy.
pub(crate) fn ours(site: &Site, command: &str, arguments: &[&str]) -> Run {
    let url = site.queue.url();
    let words = ["queue"].into_iter().chain(command.split(' '));
    let mut program = site.lab.client(words.chain(["-s", &url, "--cacert"])).expect("built");
    program.arg(site.lab.authority().ca_file());
    program.arg("--proxy").arg(&site.proxy).args(arguments);
    run(&program)
}

/// Submits two copies with the Python module (`python/`) and waits for both. One of them fails.
fn by_python(site: &Site, from: &str) {
    const SCRIPT: &str = "
import sys, crossload
queue, authority, proxy, source, destination = sys.argv[1:]
with crossload.Client(cacert=authority, proxy=proxy) as client:
    good = client.submit(source, destination, endpoint=queue, checksum=None)
    (ended,) = client.wait(good, endpoint=queue)
    bad = client.submit(source, destination, endpoint=queue)
    ends = client.wait(good, bad, endpoint=queue)
    assert ended.state == 'FINISHED', ended
    assert {job.id: job.state for job in ends} == {good: 'FINISHED', bad: 'FAILED'}, ends
    assert [job.state for job in client.status(good, endpoint=queue)] == ['FINISHED']
    assert client.read(destination) == client.read(source)
";
    let mut python = site.lab.command("python3").expect("Debian's Python");
    python
        .env("CROSSLOAD_BIN", testkit::Crossload::binary().expect("built"))
        .env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/src"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(["-c", SCRIPT, &site.queue.url()])
        .args([&site.lab.authority().ca_file(), &site.proxy])
        .args([from, &site.destination("python")]);
    run(&python).succeeded();
}

/// The demo bans the destination first, so that it can show why a file waits.
#[test]
fn the_demo_ends_with_ten_files_that_a_queue_copies() {
    let test = "the_demo_ends_with_ten_files_that_a_queue_copies";
    let Some(lab) = available(test, conformance::Lab::new("demo")) else {
        return;
    };
    let demo = lab.client(["demo", "--size", "1MiB"]).expect("our client");
    let said = run(&demo).succeeded().text();
    let (_, queue) = said.split_once("\n== queue\n").unwrap_or_else(|| panic!("{said}"));
    let (why, ended) = queue
        .split_once("$ crossload queue watch")
        .unwrap_or_else(|| panic!("{said}"));
    assert!(why.contains("banned by") && why.contains("downtime"), "{said}");
    let verified = "checksums (sha-256) of 10 files are equal on both sides";
    assert!(ended.contains("FINISHED") && ended.contains(verified), "{said}");
}

/// A site with this file at the first endpoint, and its two URLs.
pub(crate) fn site_with_file(name: &str, content: &[u8]) -> Result<(Site, String, String)> {
    let site = Site::start(name, "operators = [\"*\"]")?;
    std::fs::write(site.first.data().join("f"), content)?;
    let (from, to) = (site.source("f"), site.destination("f"));
    Ok((site, from, to))
}

#[test]
fn our_client_delegates_submits_shows_and_cancels() {
    let test = "our_client_delegates_submits_shows_and_cancels";
    let content = bytes(700_000, 62);
    let Some((site, from, to)) = available(test, site_with_file("ours", &content)) else {
        return;
    };
    let insecure = ours(&site, "submit", &["-k", &from, &to]);
    assert!(
        insecure.code != Some(0) && insecure.said().contains("not verified"),
        "no proxy without verified TLS: {}",
        insecure.said()
    );
    let submitted = ours(&site, "submit", &["-b", "-K", &from, &to]).succeeded().text();
    assert!(submitted.contains("FINISHED"), "{submitted}");
    assert!(std::fs::read(site.second.data().join("f")).expect("there") == content);
    let job = submitted.lines().next().expect("the job");
    let status = ours(&site, "status", &["--files", job]).succeeded().text();
    assert!(status.contains(&from) && status.contains("700000"), "{status}");
    let log = ours(&site, "log", &[job]).succeeded().text();
    assert!(log.contains(&to), "{log}");

    by_python(&site, &from);

    let failed = ours(&site, "submit", &["-b", &from, &to]).failed_with(1);
    assert!(
        failed.text().contains("FAILED"),
        "the destination exists: {}",
        failed.said()
    );

    // A storage that does not answer makes its link wait.
    let waiting = ["davs://localhost:1/data/none", &site.destination("w")];
    let waits = ours(&site, "submit", &waiting).succeeded().text();
    let waits = waits.trim();
    assert!(ours(&site, "list", &[]).succeeded().text().contains(waits));
    let raised = ours(&site, "priority", &[waits, "5", "--json"]).succeeded();
    assert_eq!(last_json(&raised)["priority"], 5);
    let canceled = ours(&site, "cancel", &[waits]).succeeded().text();
    assert!(canceled.contains("CANCELED"), "{canceled}");
    let status = ours(&site, "status", &[waits]).succeeded().text();
    assert!(status.contains("CANCELED"), "{status}");
    let listed = ours(&site, "list", &["--state", "canceled", "--since", "1h"]).succeeded();
    assert!(
        listed.text().contains(waits) && !listed.text().contains(job),
        "{}",
        listed.said()
    );
    let none = ours(&site, "status", &["6d9c1f0e-0000-4000-8000-000000000001"]);
    assert_eq!(none.code, Some(2), "{}", none.said());
}

#[test]
fn a_list_of_files_becomes_jobs_that_exist_once() {
    let test = "a_list_of_files_becomes_jobs_that_exist_once";
    let content = bytes(1000, 63);
    let Some((site, from, _)) = available(test, site_with_file("ours-list", &content)) else {
        return;
    };
    let lines = ["1", "2", "3"].map(|name| format!("{from} {}\n", site.destination(name)));
    let list = site.lab.file(lines.concat().as_bytes());
    let list = list.to_str().expect("plain path");
    let line = ["-f", list, "--files-per-job", "2", "--submission-id", "mine", "--json"];
    let dry = ours(&site, "submit", &[&line[..], &["--dry-run"]].concat()).succeeded();
    assert_eq!(dry.text().lines().count(), 2, "{}", dry.said());
    let first = ours(&site, "submit", &[&line[..], &["-b"]].concat()).succeeded();
    let first_text = first.text();
    let jobs: Vec<&str> = first_text.lines().collect();
    assert_eq!(jobs.len(), 4, "two jobs, and how each ended: {}", first.said());
    for name in ["1", "2", "3"] {
        assert!(std::fs::read(site.second.data().join(name)).expect("there") == content);
    }
    let again = ours(&site, "submit", &line).succeeded();
    assert_eq!(
        again.text().lines().collect::<Vec<_>>(),
        jobs[..2],
        "no second job of one name"
    );

    let replicas = site.lab.file(
        json!({"files": [{"sources": [site.source("missing"), from], "destinations": [site.destination("4")],
            "selection_strategy": "orderly"}], "params": {"retry": -1}})
        .to_string()
        .as_bytes(),
    );
    let submitted = ours(&site, "submit", &["-b", "-f", replicas.to_str().expect("plain path")]);
    submitted.succeeded();
    assert!(std::fs::read(site.second.data().join("4")).expect("there") == content);
}
