//! What our client says after mistakes and refusals: a plain sentence, and a step that helps.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use conformance::{Run, run};
use testkit::available;

use crate::open_site::OpenSite;
use crate::ours::{ours, site_with_file};

/// A command of our client without a credential, to the site's queue unless `-s` names another.
fn plain(site: &OpenSite, command: &str, arguments: &[&str]) -> Run {
    let mut program = site.lab.client(["queue", command]).expect("built");
    program.env("CROSSLOAD_QUEUE", site.queue.url());
    program.args(arguments);
    run(&program)
}

#[test]
fn mistakes_are_named_with_a_step_that_helps() {
    let test = "mistakes_are_named_with_a_step_that_helps";
    let Some(site) = available(test, OpenSite::start("advice")) else {
        return;
    };
    let (from, to) = (site.endpoint.url("/data/f"), site.endpoint.url("/data/g"));
    let unknown = "6d9c1f0e-0000-4000-8000-000000000001";
    let other = site.endpoint.url("");
    let secure = site.queue.url().replacen("http", "https", 1);
    for (code, command, arguments, words) in [
        // What the queue refuses is a mistake in the request, and no failure of the queue.
        (22, "submit", vec![&*from, &*to, "adler32:zz"], "hexadecimal digits"),
        (
            22,
            "submit",
            vec!["/tmp/f", &*to],
            "\"crossload copy\" copies local files",
        ),
        (2, "status", vec![unknown], "next: \"crossload queue list --since 1d\""),
        (2, "why", vec![unknown], "next: \"crossload queue list --since 1d\""),
        (13, "drain", vec!["w"], "queue.operators"),
        (13, "pause", vec![&*from, &*to], "next: Only operators may do this"),
        (2, "status", vec!["-s", &*other, unknown], "no queue"),
        (22, "list", vec!["-s", "queue.example.org:8446"], "set CROSSLOAD_QUEUE"),
        (104, "list", vec!["-s", &*secure], "http URL"),
        (13, "delegate", vec![], "--proxy"),
    ] {
        let run = plain(&site, command, &arguments);
        assert_eq!(run.code, Some(code), "{command}: {}", run.said());
        assert!(run.stderr.contains(words), "{command}: {}", run.said());
    }
    let none = plain(&site, "list", &[]).succeeded();
    assert!(
        none.text().is_empty() && none.stderr.contains("no jobs"),
        "{}",
        none.said()
    );
    let who = plain(&site, "whoami", &[]).succeeded().text();
    assert!(who.contains("anonymous") && who.contains("operator  no"), "{who}");
}

#[test]
fn a_user_learns_who_they_are_and_withdraws_the_proxy() {
    let test = "a_user_learns_who_they_are_and_withdraws_the_proxy";
    let Some((site, from, to)) = available(test, site_with_file("advice-proxy", b"x")) else {
        return;
    };
    let who = ours(&site, "whoami", &[]).succeeded().text();
    assert!(who.contains(crate::site::DN) && who.contains("proxy     none"), "{who}");
    assert!(who.contains("operator  yes"), "{who}");
    let delegated = ours(&site, "delegate", &[]).succeeded().text();
    assert!(
        delegated.contains("proxy     until 20") && delegated.contains("(in "),
        "{delegated}"
    );
    let withdrawn = ours(&site, "delegate", &["--withdraw"]).succeeded().text();
    assert!(withdrawn.contains("none"), "{withdrawn}");

    let insecure = ours(&site, "submit", &["-k", &from, &to]);
    assert!(
        insecure.stderr.contains("next: Trust the queue's authority"),
        "{}",
        insecure.said()
    );
    let mistaken = ours(&site, "limits", &["nowhere", "--inbound", "2"]);
    assert_eq!(mistaken.code, Some(22), "{}", mistaken.said());
    let storage = format!("https://localhost:{}", site.second.port());
    ours(&site, "ban", &["--reason", "downtime until noon", &storage]).succeeded();
    let banned = ours(&site, "submit", &[&from, &to]);
    assert!(
        banned.stderr.contains("is banned: downtime until noon") && banned.stderr.contains("queue ban"),
        "{}",
        banned.said()
    );
    ours(&site, "ban", &["--unban", &storage]).succeeded();
    let job = ours(&site, "submit", &["-b", &from, &to]).succeeded().text();
    let job = job.lines().next().expect("the job").to_owned();
    let log = ours(&site, "log", &[&job]).succeeded().text();
    assert!(
        log.contains("copied 1 bytes from 20") && log.contains("Z to 20"),
        "{log}"
    );
    let begun = std::time::Instant::now();
    let line = loop {
        // The log is written in the background.
        let log = site.queue.log();
        if let Some(line) = log.lines().find(|line| line.contains("\"event\":\"copy\"")) {
            break line.to_owned();
        }
        assert!(begun.elapsed().as_secs() < 30, "no line for the attempt: {log}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert!(
        line.contains(&job) && line.contains("\"outcome\":\"copied\"") && line.contains("\"bytes\":1"),
        "{line}"
    );
    let late = ours(&site, "priority", &[&job, "5"]);
    assert_eq!(late.code, Some(22), "the job has ended: {}", late.said());
    let second = ours(&site, "submit", &["-o", "-b", &from, &to]).succeeded().text();
    let second = second.lines().next().expect("the job").to_owned();
    for command in ["why", "cancel"] {
        let file = conformance::last_json(&ours(&site, "status", &["--files", "--json", &second]).succeeded());
        let file = format!("{job}:{}", file["files"][0]["file_id"]);
        let of_another = ours(&site, command, &[&file]);
        assert_eq!(of_another.code, Some(2), "{command}: {}", of_another.said());
    }
}

#[test]
fn a_blocked_submission_says_what_it_waits_for() {
    let test = "a_blocked_submission_says_what_it_waits_for";
    let Some((site, from, to)) = available(test, site_with_file("advice-waits", b"x")) else {
        return;
    };
    let port = |at: u16| format!("https://localhost:{at}");
    let link = [port(site.first.port()), port(site.second.port())];
    ours(&site, "pause", &[&link[0], &link[1]]).succeeded();
    let url = site.queue.url();
    let mut program = site
        .lab
        .client(["queue", "submit", "-b", "-s", &url, "--cacert"])
        .expect("built");
    program.arg(site.lab.authority().ca_file());
    program.arg("--proxy").arg(&site.proxy).args([&from, &to]);
    program.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut waits = program.spawn().expect("runs");
    let mut said = BufReader::new(waits.stderr.take().expect("piped")).lines();
    let first = said.next().expect("it says why").expect("text");
    assert!(first.contains("waits: ") && first.contains("paused"), "{first}");
    ours(&site, "resume", &[&link[0], &link[1]]).succeeded();
    assert!(waits.wait().expect("ends").success());
}
