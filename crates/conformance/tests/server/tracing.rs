//! `crossload trace`: what the parts of a transfer know of it, as one timeline.

use std::fs;

use conformance::{Lab, Run, bytes, json_lines, until};
use serde_json::Value;
use testkit::{Crossload, Result, available};

/// A client's copy, an endpoint that fetches, and one that has the file.
struct Pair {
    lab: Lab,
    from: Crossload,
    to: Crossload,
}

impl Pair {
    fn start() -> Result<Self> {
        let lab = Lab::new("trace")?;
        let [from, to] = ["from", "to"].map(|name| lab.options(name));
        Ok(Self {
            from: Crossload::start(from)?,
            to: Crossload::start(to)?,
            lab,
        })
    }

    fn admin(server: &Crossload) -> String {
        server.admin_url("").expect("an admin door")
    }

    /// Copies a file by pull; the events of the client.
    fn copy(&self, name: &str) -> Run {
        let (source, target) = (format!("/data/{name}"), format!("/data/copy-of-{name}"));
        let (source, target) = (self.from.url(&source), self.to.url(&target));
        self.lab
            .run_client("copy", &["--json", "--mode", "pull", &source, &target])
    }

    fn trace(&self, more: &[&str]) -> Run {
        let (from, to) = (Self::admin(&self.from), Self::admin(&self.to));
        let arguments = [&["--admin", &from, "--admin", &to], more].concat();
        self.lab.run_client("trace", &arguments)
    }
}

fn trace_of(copied: &Run) -> String {
    let start = json_lines(copied).into_iter().find(|line| line["event"] == "start");
    let start = start.unwrap_or_else(|| panic!("{}", copied.said()));
    start["trace"].as_str().expect("a trace").to_owned()
}

/// Where each line is from, and its event and method.
fn told(lines: &[Value]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let what = |line: &Value| format!("{} {}", text(&line["line"]["event"]), text(&line["line"]["method"]));
    lines.iter().map(|line| (text(&line["source"]), what(line))).collect()
}

#[test]
fn a_copy_is_one_timeline_of_all_its_servers() {
    let test = "a_copy_is_one_timeline_of_all_its_servers";
    let Some(pair) = available(test, Pair::start()) else {
        return;
    };
    fs::write(pair.from.data().join("f"), bytes(100_000, 900)).expect("a file");
    let copied = pair.copy("f").succeeded();
    let trace = trace_of(&copied);
    let mut lines = Vec::new();
    // Log lines are written a moment after what they are about.
    until(
        "both servers tell of the copy",
        std::time::Duration::from_secs(20),
        || {
            lines = json_lines(&pair.trace(&["--json", &trace]));
            let told = told(&lines);
            told.iter().any(|(_, what)| what == "transfer ") && told.iter().any(|(_, what)| what == "request GET")
        },
    );
    let (from, to) = (Pair::admin(&pair.from), Pair::admin(&pair.to));
    let server = |url: &str| url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let told = told(&lines);
    for (url, what) in [
        (&to, "transfer_started "),
        (&to, "transfer "),
        (&to, "request COPY"),
        (&from, "request GET"),
    ] {
        assert!(told.contains(&(server(url), what.to_owned())), "{url} {what}: {told:?}");
    }
    let times: Vec<&str> = lines.iter().filter_map(|line| line["line"]["time"].as_str()).collect();
    assert!(times.is_sorted() && times.len() == lines.len(), "{times:?}");
    // By any identifier of it, as text, with everything in a file.
    let transfer = lines
        .iter()
        .find(|line| line["line"]["event"] == "transfer")
        .expect("a copy");
    let id = transfer["line"]["transfer_id"].as_str().expect("an identifier");
    let bundle = pair.lab.fresh("bundle");
    let path = bundle.to_str().expect("plain");
    let shown = pair.trace(&["--bundle", path, id]).succeeded();
    assert!(shown.text().lines().count() >= times.len(), "{}", shown.said());
    assert!(shown.text().contains("request GET /data/f 200"), "{}", shown.said());
    let kept: Value = serde_json::from_slice(&fs::read(&bundle).expect("a file")).expect("JSON");
    assert!(
        kept["timeline"].as_array().is_some_and(|all| all.len() >= times.len()),
        "{kept:#}"
    );
    let again = pair.trace(&["--bundle", path, id]).failed_with(17);
    assert!(again.said().contains("File exists"), "{}", again.said());
}

#[test]
fn a_copy_between_root_urls_is_traced_too() {
    let test = "a_copy_between_root_urls_is_traced_too";
    let Some(pair) = available(test, Pair::start()) else {
        return;
    };
    fs::write(pair.from.data().join("f"), bytes(100_000, 901)).expect("a file");
    let (source, target) = (pair.from.root_url("/data/f"), pair.to.root_url("/data/f"));
    let copied = pair
        .lab
        .run_client("copy", &["--json", "--mode", "pull", &source, &target])
        .succeeded();
    let trace = trace_of(&copied);
    let (from, to) = (Pair::admin(&pair.from), Pair::admin(&pair.to));
    let server = |url: &str| url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let expected = [
        (server(&to), "transfer ".to_owned()),
        (server(&to), "request sync".to_owned()),
        (server(&to), "request close".to_owned()),
        (server(&from), "request open".to_owned()),
        (server(&from), "request close".to_owned()),
    ];
    let mut found = Vec::new();
    until(
        "both servers tell of the copy",
        std::time::Duration::from_secs(20),
        || {
            found = told(&json_lines(&pair.trace(&["--json", &trace])));
            expected.iter().all(|line| found.contains(line))
        },
    );
}

#[test]
fn what_cannot_be_asked_or_found_is_said() {
    let test = "what_cannot_be_asked_or_found_is_said";
    let Some(pair) = available(test, Pair::start()) else {
        return;
    };
    let unknown = pair.trace(&["0123456789abcdef"]).failed_with(2);
    assert!(unknown.said().contains("no line of a log has it"), "{}", unknown.said());
    let log = pair
        .lab
        .file(b"not JSON 0123456789abcdef\n{\"time\":\"t\",\"event\":\"e\",\"job\":\"0123456789abcdef\"}\n");
    let log = log.to_str().expect("plain");
    let partly = pair
        .trace(&["--log", log, "--log", "/nowhere", "0123456789abcdef"])
        .failed_with(1);
    assert!(partly.said().contains("/nowhere: No such file"), "{}", partly.said());
    // The data port is no admin address.
    let (admin, data) = (Pair::admin(&pair.to), pair.from.url("/"));
    let no_admin = |more: &[&str]| {
        let arguments = [more, &["--admin", &data, "0123456789abcdef"]].concat();
        pair.lab.run_client("trace", &arguments)
    };
    let both = no_admin(&["--admin", &admin, "--log", log]).failed_with(1);
    assert!(both.said().contains("is this an admin address?"), "{}", both.said());
    let alone = no_admin(&[]).failed_with(2);
    assert!(alone.said().contains("server.admin_listen"), "{}", alone.said());
    let missing = ["--log", "/nowhere", "0123456789abcdef"];
    let unread = pair.lab.run_client("trace", &missing).failed_with(2);
    assert!(!unread.said().contains("Check the ID"), "{}", unread.said());
    let endless = ["--log", "/dev/zero", "0123456789abcdef"];
    let refused = pair.lab.run_client("trace", &endless).failed_with(22);
    assert!(refused.said().contains("a regular file"), "{}", refused.said());
    // Without a source, both kinds are named.
    let sourceless = pair.lab.run_client("trace", &["0123456789abcdef"]).failed_with(22);
    assert!(sourceless.said().contains("--admin <URL>"), "{}", sourceless.said());
    for bad in ["x", "../../metrics", "a b c d e f g h", "anonymous"] {
        let refused = pair.trace(&[bad]).failed_with(22);
        assert!(refused.said().contains("an ID has 8 to 64"), "{}", refused.said());
    }
    let page = |id: &str| {
        pair.lab.curl(&[
            "-g",
            &pair.to.admin_url(&format!("/trace/{id}")).expect("an admin door"),
        ])
    };
    for bad in ["x", "anonymous", "crossload"] {
        assert!(page(bad).text().contains("an identifier has 8 to 64"), "{bad}");
    }
    // A date stands in all lines, and is the identifier of none.
    assert_eq!(page("2026-11-30").text(), "");
}
