//! What storages have shown is known after a restart, and people can see it.

use conformance::bytes;
use testkit::available;

use crate::ours::{ours, site_with_file};

#[test]
fn what_storages_have_shown_outlives_the_queue() {
    let test = "what_storages_have_shown_outlives_the_queue";
    let content = bytes(300_000, 65);
    let Some((mut site, from, to)) = available(test, site_with_file("capabilities", &content)) else {
        return;
    };
    let [source, destination] = [&site.first, &site.second].map(|at| format!("https://localhost:{}", at.port()));
    let why = |site: &_| ours(site, "links", &["--why", &source, &destination]);
    let unknown = why(&site);
    assert_ne!(unknown.code, Some(0), "no file yet: {}", unknown.said());

    ours(&site, "submit", &["-b", "-K", &from, &to]).succeeded();
    let shown = [
        "source can read as the passive side by https with a macaroon, the other side by http (seen in a copy ",
        "destination can write as the active side by https with a certificate, the other side by http (seen in a copy ",
    ];
    let before = why(&site).succeeded().text();
    assert!(shown.iter().all(|line| before.contains(line)), "{before}");
    site.queue.process().terminate().expect("stopped");
    site.queue.start_again().expect("started again");
    let after = why(&site).succeeded().text();
    assert!(shown.iter().all(|line| after.contains(line)), "{after}");
}

#[test]
fn operators_say_in_the_configuration_what_a_storage_can_do() {
    let test = "operators_say_in_the_configuration_what_a_storage_can_do";
    let content = bytes(300_000, 66);
    let settings = "operators = [\"*\"]\nstorages = [{name = \"*\", third_party = \"push\"}]";
    let Some(site) = available(test, crate::site::Site::start("roles", settings)) else {
        return;
    };
    std::fs::write(site.first.data().join("f"), &content).expect("source");
    let job = ours(
        &site,
        "submit",
        &["-b", "-K", &site.source("f"), &site.destination("f")],
    );
    let job = job.succeeded().text();
    let log = ours(&site, "log", &[job.lines().next().expect("the job")])
        .succeeded()
        .text();
    assert!(log.contains("pushed by the source (worker "), "{log}");
    let [source, destination] = [&site.first, &site.second].map(|at| format!("https://localhost:{}", at.port()));
    let why = ours(&site, "links", &["--why", &source, &destination])
        .succeeded()
        .text();
    for line in [
        "source can read as the active side by https (configured)",
        "destination cannot write as the active side by https (configured)",
    ] {
        assert!(why.contains(line), "{why}");
    }
}
