//! Secrets in the URLs of a job: copies use them, and nothing else shows or stores them.

use std::path::Path;
use std::time::{Duration, SystemTime};

use conformance::{Lab, bytes, run, until};
use testkit::{Access, Crossload, Queue, Result, S3Method, SeaweedFs, TokenIssuer, available};

use crate::site::options;

/// Whether a file of a directory contains a text.
fn holds(directory: &Path, text: &str) -> bool {
    let files = std::fs::read_dir(directory).expect("the directory");
    files.flatten().any(|entry| {
        let content = std::fs::read(entry.path()).unwrap_or_default();
        content.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

/// A queue with what submits to it.
struct Site {
    lab: Lab,
    destination: Crossload,
    queue: Queue,
}

impl Site {
    fn start(name: &str) -> Result<Self> {
        let lab = Lab::new(name)?;
        let destination = Crossload::start(lab.options("open"))?;
        let queue = Queue::start(options(&lab, "anonymous = true"))?;
        Ok(Self {
            lab,
            destination,
            queue,
        })
    }

    fn call(&self, arguments: &[&str]) -> String {
        let mut curl = self.lab.command("curl").expect("curl");
        curl.args(["-s", "--cacert"]).arg(self.lab.authority().ca_file());
        run(curl.args(arguments)).succeeded().text()
    }

    /// Submits a copy of `source` to `/data/NAME`, waits until it has ended, and returns what the
    /// queue shows of it. The secret in the URL is never stored in clear.
    fn copied(&self, source: &str, name: &str, secret: &str) -> String {
        let destination = self.destination.url(&format!("/data/{name}"));
        let body = serde_json::json!({"files": [{"sources": [source], "destinations": [destination]}]});
        let answer = self.call(&["-d", &body.to_string(), &format!("{}/jobs", self.queue.url())]);
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        let files = format!(
            "{}/jobs/{}/files",
            self.queue.url(),
            answer["job_id"].as_str().expect("a job")
        );
        let (state, mut shown) = (self.queue.state(), String::new());
        until("the job ends", Duration::from_secs(60), || {
            assert!(!holds(&state, secret), "stored in clear");
            shown = self.call(&[&files]);
            shown.contains("FINISHED") || shown.contains("FAILED")
        });
        assert!(!shown.contains(secret), "{shown}");
        shown
    }

    fn stored(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.destination.data().join(name)).ok()
    }
}

#[test]
fn a_token_in_a_url_serves_its_copy_and_is_stored_nowhere() {
    let test = "a_token_in_a_url_serves_its_copy_and_is_stored_nowhere";
    let started = Site::start("token-in-url").and_then(|site| {
        let issuer = TokenIssuer::start(site.lab.authority())?;
        let keys = site.lab.file(issuer.jwks().as_bytes());
        let mut guarded = site.lab.options("guarded");
        guarded.exports[0].anonymous = Access::None;
        guarded.more = format!("[[issuer]]\nurl = \"{}\"\njwks_file = {keys:?}\n", issuer.url());
        let source = Crossload::start(guarded)?;
        Ok((site, issuer, source))
    });
    let Some((mut site, issuer, source)) = available(test, started) else {
        return;
    };
    let content = bytes(200_000, 72);
    std::fs::write(source.data().join("f"), &content).expect("file");
    let token = issuer.token().scope("storage.read:/data").mint();
    let signature = token.rsplit('.').next().expect("a signature");
    let url = format!("{}?authz=Bearer%20{token}", source.url("/data/f"));
    let shown = site.copied(&url, "f", signature);
    assert!(shown.contains("FINISHED") && shown.contains("?authz=hidden"), "{shown}");
    assert!(site.stored("f") == Some(content));
    site.queue.process().terminate().expect("it ends");
    assert!(!holds(&site.queue.state(), signature));
}

#[test]
fn a_signed_url_of_an_object_store_serves_its_copy_and_is_stored_nowhere() {
    let test = "a_signed_url_of_an_object_store_serves_its_copy_and_is_stored_nowhere";
    let started = Site::start("signed-url").and_then(|site| {
        let store = SeaweedFs::start(&site.lab.fresh("seaweedfs"), site.lab.host())?;
        Ok((site, store))
    });
    let Some((mut site, store)) = available(test, started) else {
        return;
    };
    let (content, bucket) = (bytes(200_000, 73), store.bucket());
    bucket.store("f", &content).expect("an object");
    let hour = Duration::from_secs(3600);
    let now = SystemTime::now();
    let signature = |url: &str| url.rsplit('=').next().expect("a signature").to_owned();
    let url = bucket.presigned(true, S3Method::Get, "f", now, hour);
    let shown = site.copied(&url, "f", &signature(&url));
    assert!(
        shown.contains("FINISHED") && shown.contains("X-Amz-Signature=hidden"),
        "{shown}"
    );
    assert!(site.stored("f") == Some(content));
    let expired = bucket.presigned(true, S3Method::Get, "f", now - 2 * hour, hour);
    let shown = site.copied(&expired, "expired", &signature(&expired));
    assert!(
        shown.contains("FAILED") && shown.contains("The signed URL has expired"),
        "{shown}"
    );
    assert!(site.stored("expired").is_none());
    site.queue.process().terminate().expect("it ends");
    assert!(!holds(&site.queue.state(), &signature(&url)));
}
