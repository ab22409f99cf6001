//! A backup of a queue that runs, and what the queue does that is restored from it.

use std::path::PathBuf;
use std::time::Duration;

use conformance::{Run, bytes, run, run_with_input, transfers, until};
use testkit::{Postgres, available};

use crate::ours::ours;
use crate::site::Site;

const FILES: usize = 4;
const SOON: Duration = Duration::from_secs(30);

fn name(number: usize) -> String {
    format!("f{number}")
}

fn content(number: usize) -> Vec<u8> {
    bytes(300_000 + number, 70 + number as u64)
}

fn config(site: &Site) -> PathBuf {
    site.queue.state().with_file_name("queue.toml")
}

/// A command on the queue's machine.
fn here(site: &Site, words: &[&str]) -> Run {
    let mut command = site.lab.client(words).expect("built");
    command.arg("--config").arg(config(site));
    run(&command)
}

fn copies(site: &Site) -> usize {
    transfers(site.second.log()).len()
}

fn ban(site: &Site, arguments: &[&str]) {
    let storage = format!("https://localhost:{}", site.second.port());
    ours(site, "ban", &[arguments, &[&storage[..]]].concat()).succeeded();
}

/// A queue whose destination is down, with a job for each file.
fn waiting(test: &str, lines: &str) -> Option<(Site, Vec<String>)> {
    let settings = format!("operators = [\"*\"]\n{lines}");
    let site = available(test, Site::start("backup", &settings))?;
    ban(&site, &["--status", "wait", "--allow-submit", "--reason", "downtime"]);
    let submit = |number: usize| {
        let name = name(number);
        std::fs::write(site.first.data().join(&name), content(number)).expect("a source");
        let job = ours(&site, "submit", &["-K", &site.source(&name), &site.destination(&name)]);
        job.succeeded().text().trim().to_owned()
    };
    let jobs = (0..FILES).map(submit).collect();
    Some((site, jobs))
}

/// The destination is up again: all jobs end well.
fn finish(site: &Site, jobs: &[String]) {
    ban(site, &["--unban"]);
    for job in jobs {
        let watched = ours(site, "watch", &[job]).succeeded().text();
        assert!(watched.contains("FINISHED"), "{watched}");
    }
    for number in 0..FILES {
        let stored = std::fs::read(site.second.data().join(name(number))).expect("a copy");
        assert!(stored == content(number), "{number}");
    }
}

/// Copies all files after the backup, loses one of them, and goes back to the backup.
fn go_back(site: &mut Site, jobs: &[String], lose_state: impl FnOnce(&Site), more: &[&str]) {
    let backup = site.lab.fresh("backup");
    let backup = backup.to_str().expect("UTF-8");
    here(site, &["backup", backup]).succeeded();
    finish(site, jobs);
    until("each file is copied", SOON, || copies(site) == FILES);
    site.queue.process().kill_hard();
    lose_state(site);
    std::fs::remove_file(site.second.data().join(name(0))).expect("there");
    let restored = here(site, &[&["restore", backup][..], more].concat())
        .succeeded()
        .text();
    assert!(restored.contains("the database of the queue"), "{restored}");
    if more.is_empty() {
        // As after a restore that was killed: the database is in its place.
        let again = here(site, &["restore", "--replace", backup]).succeeded().text();
        assert!(!again.contains("restored ") && !again.contains("kept "), "{again}");
    }
    site.queue.start_again().expect("it starts");
    finish(site, jobs);
    // Only the one that was lost is copied again: nothing is replaced, and no other job fails.
    until("the lost file is copied", SOON, || copies(site) == FILES + 1);
}

#[test]
fn a_restored_queue_goes_on_and_copies_no_file_twice() {
    let test = "a_restored_queue_goes_on_and_copies_no_file_twice";
    let Some((mut site, jobs)) = waiting(test, "") else {
        return;
    };
    let early = site.lab.fresh("early");
    let early = early.to_str().expect("UTF-8").to_owned();
    let saved = here(&site, &["backup", &early]).succeeded().text();
    assert!(saved.contains("saved ") && saved.contains("left out "), "{saved}");
    let piped = here(&site, &["backup", "-"]).succeeded();
    let mut dry = site
        .lab
        .client(["restore", "--dry-run", "-", "--config"])
        .expect("built");
    dry.arg(site.lab.fresh("elsewhere").join("queue.toml"));
    // The configuration in it names the same state directory.
    let looked = run_with_input(&dry, &piped.stdout).failed_with(22);
    assert!(looked.stderr.contains("a queue uses"), "{}", looked.said());
    let refused = here(&site, &["restore", "--replace", &early]).failed_with(22);
    assert!(refused.stderr.contains("a queue uses"), "{}", refused.said());

    let lose_state = |site: &Site| {
        let refused = here(site, &["restore", &early]).failed_with(22);
        assert!(refused.stderr.contains("queue.db") && refused.stderr.contains("--replace"));
        assert!(!refused.stderr.contains("the key of the queue"), "{}", refused.said());
        std::fs::remove_dir_all(site.queue.state()).expect("the state");
        std::fs::remove_file(config(site)).expect("the configuration");
    };
    go_back(&mut site, &jobs, lose_state, &[]);
}

#[test]
fn a_queue_over_postgresql_is_restored_by_its_programs() {
    let test = "a_queue_over_postgresql_is_restored_by_its_programs";
    let Some(server) = available(test, Postgres::start()) else {
        return;
    };
    let url = server.database("queue").expect("a database");
    let Some((mut site, jobs)) = waiting(test, &server.queue_lines(&url)) else {
        return;
    };
    go_back(&mut site, &jobs, |_| (), &["--replace"]);
}
