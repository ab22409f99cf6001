//! The pages of a queue for operators: as programs get them, and as Chromium shows them.

use std::time::Duration;

use conformance::{Lab, Look, assert_pages_are_good, bytes, look_at, until};
use serde_json::{Value, json};
use testkit::{Crossload, Queue, available};

use crate::open_site::{OpenSite, open_queue};
use crate::site::options;

const LIMIT: Duration = Duration::from_secs(60);
/// What an activity can have in it.
const ACTIVITY: &str = "<i>x</i>\u{202e}";

/// A queue with pages, and where they are.
pub(crate) struct PagedSite {
    pub(crate) site: OpenSite,
    pub(crate) url: String,
}

impl PagedSite {
    fn start(name: &str) -> testkit::Result<Self> {
        Self::start_in(Lab::new(name)?, "")
    }

    /// In this laboratory, with further keys of the pages.
    pub(crate) fn start_in(lab: Lab, web: &str) -> testkit::Result<Self> {
        let endpoint = Crossload::start(lab.options("endpoint"))?;
        let mut queue = open_queue(
            &lab,
            &format!("retries = 1\nretry_delay = \"1s\"\n[web]\nqueue_listen = \"127.0.0.1:0\"\n{web}"),
        )?;
        let said = queue.process().stdout();
        let address = said.lines().find_map(|line| line.strip_prefix("pages on http://"));
        let address = address.unwrap_or_else(|| panic!("no pages in {said}"));
        let (_, port) = address.rsplit_once(':').expect("a port");
        let url = format!("http://localhost:{port}");
        let site = OpenSite { lab, endpoint, queue };
        Ok(Self { site, url })
    }

    /// Submits a copy of `from` at the endpoint to `to`, and returns the job.
    pub(crate) fn submit(&self, from: &str, to: &str) -> String {
        let files = json!([{"sources": [from], "destinations": [to], "activity": ACTIVITY}]);
        let answer = self.site.answer_to("/jobs", &json!({"files": files, "params": {}}));
        let job = answer["job_id"].as_str();
        job.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// The page at a path as JSON.
    pub(crate) fn get(&self, path: &str) -> Value {
        self.site.lab.page_json(&format!("{}{path}", self.url))
    }

    /// The page at a path as browsers get it.
    fn page(&self, path: &str) -> String {
        self.site.lab.curl(&[&format!("{}{path}", self.url)]).expect(200).text()
    }

    /// Three jobs: one that ends well, one that fails, and one whose destination does not answer.
    fn jobs(&self) -> [String; 3] {
        std::fs::write(self.site.endpoint.data().join("f"), bytes(700_000, 71)).expect("a file");
        let at = |name: &str| self.site.endpoint.clear_url(&format!("/data/{name}"));
        let good = self.submit(&at("f"), &at("copied"));
        let bad = self.submit(&at("none%3Cscript%3E"), &at("never"));
        let waiting = self.submit(&at("f"), "http://localhost:1/data/f");
        self.site.becomes(&good, &["FINISHED"]);
        self.site.becomes(&bad, &["FAILED"]);
        until("the link stands still, or its file waits for a retry", LIMIT, || {
            let now = self.get("/queue");
            let links = now["links"].as_array().cloned().unwrap_or_default();
            links.iter().any(|link| link["delayed"] == 1 || !link["held"].is_null())
        });
        [good, bad, waiting]
    }
}

#[test]
fn a_queue_shows_links_jobs_tries_and_reasons() {
    let name = "a_queue_shows_links_jobs_tries_and_reasons";
    let Some(paged) = available(name, PagedSite::start("queue-pages")) else {
        return;
    };
    let [good, bad, waiting] = paged.jobs();
    let now = paged.get("/queue");
    let ids: Vec<&Value> = now["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| &job["job_id"])
        .collect();
    assert_eq!(
        ids,
        [&json!(waiting), &json!(bad), &json!(good)],
        "the newest first: {now}"
    );
    assert_eq!(now["links"][0]["destination"], "http://localhost:1", "{now}");
    assert_eq!(now["workers"].as_array().map(Vec::len), Some(1), "{now}");
    let hour = paged.get("/links");
    let of_failed = |link: &&Value| link["failed"].as_u64() > Some(0) && link["copied"] == 1;
    let link = hour["links"].as_array().expect("links").iter().find(of_failed);
    let link = link.unwrap_or_else(|| panic!("{hour}"));
    assert_eq!(link["bytes"], 700_000, "{hour}");
    assert!(
        !link["failures"][0]["code"].as_str().expect("a code").is_empty(),
        "{hour}"
    );
    let failed = paged.get("/queue?state=failed");
    assert_eq!(failed["jobs"].as_array().map(Vec::len), Some(1), "{failed}");
    assert_eq!(failed["jobs"][0]["job_id"], json!(bad), "{failed}");
    let none = paged.page("/queue?vo=cms");
    assert!(none.contains("No job is shown"), "{none}");

    let job = paged.get(&format!("/queue/jobs/{bad}"));
    assert_eq!(
        (&job["state"], &job["files"]["failed"]),
        (&json!("failed"), &json!(1)),
        "{job}"
    );
    let file = format!("/queue/files/{}", job["list"][0]["file_id"]);
    let story = paged.get(&file);
    assert!(story["code"].is_string() && story["reason"].is_string(), "{story}");
    assert!(!story["attempts"].as_array().expect("attempts").is_empty(), "{story}");
    assert!(story["log"].to_string().contains("attempt 1"), "{story}");
    let page = paged.page(&file);
    assert!(
        page.contains("&#60;i&#62;x&#60;/i&#62;\\u{202e}") && !page.contains("<i>x"),
        "{page}"
    );
    assert!(page.contains("none%3Cscript%3E"), "{page}");

    let job = paged.get(&format!("/queue/jobs/{waiting}"));
    let story = paged.get(&format!("/queue/files/{}", job["list"][0]["file_id"]));
    let reasons = story["why"]["reasons"].as_array().expect("reasons");
    assert!(!reasons.is_empty(), "{story}");
    let story = paged.get(&format!(
        "/queue/files/{}",
        paged.get(&format!("/queue/jobs/{good}"))["list"][0]["file_id"]
    ));
    assert_eq!(
        (&story["state"], &story["moved_bytes"]),
        (&json!("finished"), &json!(700_000)),
        "{story}"
    );
}

#[test]
fn the_queue_can_be_read_by_everyone_in_a_browser() {
    let name = "the_queue_can_be_read_by_everyone_in_a_browser";
    let Some(paged) = available(name, PagedSite::start("queue-browser")) else {
        return;
    };
    let [_, bad, _] = paged.jobs();
    let (job, lab) = (format!("/queue/jobs/{bad}"), &paged.site.lab);
    let file = format!("/queue/files/{}", paged.get(&job)["list"][0]["file_id"]);
    let paths = ["/queue", "/links", &job, &file, "/fts3/ftsmon/"];
    let Some(seen) = available(name, look_at(lab, &Look::new(&paged.url, &paths))) else {
        return;
    };
    assert_pages_are_good(&seen, &paths);
    let plain = look_at(lab, &Look::new(&paged.url, &paths).without_scripts()).expect("Chromium");
    assert!(plain.iter().all(|page| page["status"] == 200), "{plain:?}");
    // The address at FTS's monitoring leads to the job.
    let there = format!("/fts3/ftsmon/#/job/{bad}");
    let arrived = Look::new(&paged.url, &[&there]).wait_for("location.pathname.startsWith('/queue/jobs/')");
    for page in look_at(lab, &arrived).expect("Chromium") {
        assert_eq!(page["at"], json!(format!("{}{job}", paged.url)), "{page:#}");
    }
}

#[test]
fn viewers_and_a_new_certificate_count_at_once() {
    let name = "viewers_and_a_new_certificate_count_at_once";
    let Some(lab) = available(name, Lab::new("queue-viewers")) else {
        return;
    };
    let mut options = options(
        &lab,
        "anonymous = true\nretries = 1\n[web]\nqueue_listen = \"127.0.0.1:0\"",
    );
    let expired = lab.authority().issue_expired_localhost().expect("a certificate");
    let renewed = lab.authority().issue_localhost().expect("a certificate");
    options.certificate = Some(expired.clone());
    let file = options.directory.join("queue.toml");
    let mut queue = Queue::start(options).expect("a queue");
    let page = format!("{}/queue", queue.process().pages_url("https"));
    let status = || lab.curl(&["--insecure", &page]).status;
    assert_eq!(status(), 200, "everyone on this machine");

    let text = std::fs::read_to_string(&file).expect("its configuration");
    let viewers = "[web]\nviewers = [\"dn:/CN=Other\"]";
    let changed = text.replace("[web]", viewers).replace("retries = 1", "retries = 2");
    let changed = format!("{changed}\n[log]\nrequests = \"failed\"\n");
    std::fs::write(&file, &changed).expect("the new one");
    until("a viewer must sign in", LIMIT, || status() != 200);
    until("it is logged", LIMIT, || queue.log().contains("\"event\":\"reloaded\""));
    let log = queue.log();
    assert!(log.contains("\"reload_ignored\",\"key\":\"queue.retries\""), "{log}");
    assert!(!log.contains("\"key\":\"web.viewers\""), "{log}");
    let asks = |path: &str| lab.curl(&["--insecure", &format!("{}{path}", queue.url())]).status;
    assert_eq!(asks("/v1/whoami"), 200);
    assert!(asks("/v1/jobs/none") >= 400);
    until("the failure is logged", LIMIT, || queue.log().contains("/v1/jobs/none"));
    assert!(!queue.log().contains("/v1/whoami"), "{}", queue.log());

    // A mistake changes nothing.
    std::fs::write(&file, changed.replace("[web]", "[webs]")).expect("a broken one");
    queue.process().hang_up().expect("a signal");
    let ready = || lab.curl(&[&queue_ready(&queue)]).text();
    until("the mistake shows", LIMIT, || ready().contains("webs"));
    assert_ne!(status(), 200);
    std::fs::write(&file, text).expect("the first one");
    until("everyone may look again", LIMIT, || status() == 200);

    let ping = format!("{}/v1/whoami", queue.url());
    let asks = || lab.curl_command(&["-f", &ping]).expect("curl");
    let is_trusted = || conformance::run(&asks()).code == Some(0);
    assert!(!is_trusted(), "it is expired");
    std::fs::copy(&renewed.key, &expired.key).expect("a copy");
    std::fs::copy(&renewed.certificate, &expired.certificate).expect("a copy");
    until("the new certificate is shown", LIMIT, is_trusted);
}

fn queue_ready(queue: &Queue) -> String {
    queue.admin_url("/ready")
}
