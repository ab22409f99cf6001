//! What our client of the queue prints with `--json`, against its schema.

use conformance::{JsonLines, Lab, json_lines, run};
use serde_json::Value;
use testkit::{Queue, Result, available, require_queue_python};

use crate::site::options;

/// A queue that serves everyone, and its client.
struct Printing {
    lab: Lab,
    queue: Queue,
    lines: JsonLines,
}

impl Printing {
    fn start() -> Result<Self> {
        let lab = Lab::new("printed")?;
        let queue = Queue::start(options(&lab, "anonymous = true\noperators = [\"*\"]"))?;
        Ok(Self {
            lab,
            queue,
            lines: JsonLines::default(),
        })
    }

    /// Runs a command, whose output shall fit this schema. Returns the last object.
    fn print(&mut self, schema: &str, command: &str, arguments: &[&str]) -> Value {
        let url = self.queue.url();
        let words = ["queue"].into_iter().chain(command.split(' '));
        let mut program = self.lab.client(words.chain(["--json", "-s", &url])).expect("built");
        program
            .arg("--cacert")
            .arg(self.lab.authority().ca_file())
            .args(arguments);
        let printed = json_lines(&run(&program));
        self.lines.add(schema, &printed);
        printed.last().cloned().unwrap_or_default()
    }
}

#[test]
fn what_the_client_prints_fits_its_schema() {
    let needed = require_queue_python("python3").and_then(|python| Ok((python, Printing::start()?)));
    let Some((python, mut site)) = available("what_the_client_prints_fits_its_schema", needed) else {
        return;
    };
    // Nothing listens there.
    let [a, b] = ["https://localhost:1", "https://localhost:2"];
    let [source, destination] = [a, b].map(|storage| format!("{storage}/f"));
    site.print("queue_submit", "submit --dry-run", &[&source, &destination]);
    let job = site.print("queue_submit", "submit", &[&source, &destination]);
    let job = job["job_id"].as_str().expect("a job").to_owned();
    let shown = site.print("queue_job", "status --files", &[&job]);
    let file = format!("{job}:{}", shown["files"][0]["file_id"]);
    site.print("queue_why", "why", &[&job]);
    site.print("queue_log", "log", &[&job]);
    site.print("queue_job", "priority", &[&job, "4"]);
    site.print("queue_cancel", "cancel", &[&file]);
    site.print("queue_cancel", "cancel", &[&job]);
    site.print("queue_watch", "watch", &[&job]);
    site.print("queue_pause", "pause", &[a, b]);
    site.print("queue_submit", "submit", &["--overwrite", &source, &destination]);
    site.print("queue_job", "list", &[]);
    site.print("queue_link", "links", &[]);
    site.print("queue_link_why", "why", &[a, b]);
    site.print("queue_pause", "resume", &[a, b]);
    site.print("queue_limits", "limits", &[a, "--inbound", "5"]);
    site.print("queue_limits", "limits", &[a, b, "--min", "2"]);
    site.print("queue_ban", "ban", &["https://localhost:3"]);
    site.print("queue_ban", "ban", &[]);
    site.print("queue_worker", "drain", &[]);
    site.print("queue_shares", "shares", &["atlas", "default=0.5", "Production=0.5"]);
    site.print("queue_shares", "shares", &["--link", a, b, "--share", "atlas=3"]);
    let hook = site.print("queue_webhook_added", "webhooks add", &["https://localhost:1/hook"]);
    let hook = hook["id"].as_str().expect("its name");
    site.print("queue_webhook", "webhooks list", &[]);
    site.print("queue_webhook_changed", "webhooks enable", &[hook]);
    site.print("queue_webhook_changed", "webhooks remove", &[hook]);
    site.print("queue_whoami", "whoami", &[]);
    site.lines.check(&python).succeeded();
}
