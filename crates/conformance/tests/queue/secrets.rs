//! Secrets in the URLs of a job: copies use them, and nothing else shows or stores them.

use std::path::Path;
use std::time::Duration;

use conformance::{Lab, bytes, run, until};
use testkit::{Access, Crossload, Queue, TokenIssuer, available};

use crate::site::options;

/// Whether a file of a directory contains a text.
fn holds(directory: &Path, text: &str) -> bool {
    let files = std::fs::read_dir(directory).expect("the directory");
    files.flatten().any(|entry| {
        let content = std::fs::read(entry.path()).unwrap_or_default();
        content.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

#[test]
fn a_signed_url_serves_its_copy_and_is_stored_nowhere() {
    let test = "a_signed_url_serves_its_copy_and_is_stored_nowhere";
    let started = Lab::new("signed-url").and_then(|lab| {
        let issuer = TokenIssuer::start(lab.authority())?;
        let keys = lab.file(issuer.jwks().as_bytes());
        let mut guarded = lab.options("guarded");
        guarded.exports[0].anonymous = Access::None;
        guarded.more = format!("[[issuer]]\nurl = \"{}\"\njwks_file = {keys:?}\n", issuer.url());
        let source = Crossload::start(guarded)?;
        let destination = Crossload::start(lab.options("open"))?;
        let queue = Queue::start(options(&lab, "anonymous = true"))?;
        Ok((lab, issuer, source, destination, queue))
    });
    let Some((lab, issuer, source, destination, mut queue)) = available(test, started) else {
        return;
    };
    let content = bytes(200_000, 72);
    std::fs::write(source.data().join("f"), &content).expect("file");
    let token = issuer.token().scope("storage.read:/data").mint();
    let body = serde_json::json!({"files": [{
        "sources": [format!("{}?authz=Bearer%20{token}", source.url("/data/f"))],
        "destinations": [destination.url("/data/f")],
    }]});
    let call = |arguments: &[&str]| {
        let mut curl = lab.command("curl").expect("curl");
        curl.arg("-s")
            .arg("--cacert")
            .arg(lab.authority().ca_file())
            .args(arguments);
        run(&curl).succeeded().text()
    };
    let answer = call(&["-d", &body.to_string(), &format!("{}/jobs", queue.url())]);
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    let job = answer["job_id"].as_str().expect("a job");
    let files = format!("{}/jobs/{job}/files", queue.url());
    let signature = token.rsplit('.').next().expect("a signature");
    let state = queue.state();
    until("the job ends", Duration::from_secs(30), || {
        assert!(!holds(&state, signature), "stored in clear");
        call(&[&files]).contains("FINISHED")
    });
    assert!(std::fs::read(destination.data().join("f")).expect("there") == content);
    let shown = call(&[&files]);
    assert!(shown.contains("?authz=hidden") && !shown.contains(signature), "{shown}");
    queue.process().terminate().expect("it ends");
    assert!(!holds(&state, signature));
}
