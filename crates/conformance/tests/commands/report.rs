//! `crossload report`: a run in every form, mails by a real server of SMTP, a webhook, and the
//! served page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use conformance::{JsonLines, Lab, Reply, Run, Scripted, background, run, until};
use serde_json::{Value, json};
use testkit::{Process, Result, Scratch, available, mesh_endpoint, mesh_run, require_python, require_queue_python};

/// How long a server may take to start, or to print a mail.
const PATIENCE: Duration = Duration::from_secs(30);
const SENDER: &str = "Mesh <mesh@example.org>";

/// A mesh of 12 with planted faults, as JSON.
fn sample() -> Value {
    serde_json::to_value(mesh_run(12)).expect("JSON")
}

fn kept(lab: &Lab, run: &Value) -> String {
    plain(&lab.file(run.to_string().as_bytes()))
}

fn plain(path: &Path) -> String {
    path.to_str().expect("plain").to_owned()
}

#[track_caller]
fn report(lab: &Lab, arguments: &[&str]) -> Run {
    let arguments = [&["report"], arguments].concat();
    run(&lab.client(arguments).expect("the client is built"))
}

#[test]
fn a_run_has_every_form() {
    let Some(lab) = available("a_run_has_every_form", Lab::new("report-forms")) else {
        return;
    };
    let sample = sample();
    let file = kept(&lab, &sample);
    let [html, junit, metrics] = ["html", "xml", "prom"].map(|ending| plain(&lab.fresh("form").with_extension(ending)));
    let said = report(
        &lab,
        &[&file, "--html", &html, "--junit", &junit, "--prometheus", &metrics],
    )
    .failed_with(1);
    let text = said.text();
    assert!(
        text.contains("\nX2  SE-02.example.org as destination, 36 cells: destination open no_space\n"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text}");
    let read = |file: &str| fs::read_to_string(file).expect("a report");
    assert!(read(&html).ends_with("</html>\n"));
    assert!(read(&junit).contains("<testsuite name=\"https pull, token\""));
    assert!(
        read(&metrics)
            .contains("crossload_mesh_cells{mesh=\"sample sites\",instrument=\"mesh\",outcome=\"failed\"} 98\n")
    );
    // The same faults two hours before: the history knows since when they last.
    let history = plain(&lab.fresh("history").with_extension("sqlite"));
    let begun = |hours_ago: u64| {
        // In the past on any machine.
        let begin_ms = sample["started_ms"].as_u64().expect("a time") - 1_095 * 86_400_000;
        let mut run = sample.clone();
        run["started_ms"] = json!(begin_ms - hours_ago * 3_600_000);
        kept(&lab, &run)
    };
    report(&lab, &[&begun(2), "--history", &history]).failed_with(1);
    let since = report(&lab, &[&begun(0), "--history", &history, "--html", &html])
        .failed_with(1)
        .text();
    let words = "(36 of 36 copies): no_space in open, since 2023-11-30 10:00 UTC in 2 runs; no good run is known\n";
    assert!(
        since.contains(words) && read(&html).contains(words.trim_end()),
        "{since}"
    );
    let no_history = plain(&lab.file(b"no database, but a text that is long enough to be looked at as one"));
    let unusable = report(&lab, &[&file, "--history", &no_history]).failed_with(5);
    assert!(unusable.stderr.contains("not a database"), "{}", unusable.said());
    let printed: Value = serde_json::from_str(&report(&lab, &["--json", &file]).failed_with(1).text()).expect("JSON");
    assert_eq!(printed, sample);
    // Nothing that failed: the exit code is about the rest.
    let keep = |outcomes: &[&str]| {
        let mut run = sample.clone();
        let cells = run["cells"].as_array_mut().expect("cells");
        cells.retain(|cell| outcomes.iter().any(|outcome| cell["outcome"]["is"] == *outcome));
        kept(&lab, &run)
    };
    report(&lab, &[&keep(&["passed"])]).succeeded();
    report(&lab, &[&keep(&["passed", "skipped"])]).failed_with(2);
    let none = report(&lab, &[&plain(&lab.file(b"{}"))]).failed_with(22);
    assert!(
        none.stderr.contains("it is no run of crossload mesh"),
        "{}",
        none.said()
    );
    // A directory that does not exist costs one form, not the others.
    fs::remove_file(&junit).expect("it was there");
    let partly = report(&lab, &[&file, "--html", "/nowhere/page.html", "--junit", &junit]).failed_with(5);
    assert!(
        partly.stderr.contains("/nowhere/page.html") && Path::new(&junit).exists(),
        "{}",
        partly.said()
    );
}

#[test]
fn problems_that_the_run_before_lacks_are_new() {
    let test = "problems_that_the_run_before_lacks_are_new";
    let Some(lab) = available(test, Lab::new("report-new")) else {
        return;
    };
    let mut run = sample();
    // In the past on any machine.
    run["started_ms"] = json!(run["started_ms"].as_u64().expect("a time") - 1_095 * 86_400_000);
    let mut before = run.clone();
    before["started_ms"] = json!(run["started_ms"].as_u64().expect("a time") - 3_600_000);
    for cell in before["cells"].as_array_mut().expect("cells") {
        if cell["link"]["source"] == mesh_endpoint(1) && cell["outcome"]["is"] == "failed" {
            cell["outcome"] = json!({"is": "passed"});
        }
    }
    let [history, html] = ["sqlite", "html"].map(|ending| plain(&lab.fresh("new").with_extension(ending)));
    let options = ["--history", &history, "--html", &html, "--mail-dry-run"];
    let mails = |run: &Value| {
        report(&lab, &[&[&kept(&lab, run)[..]], &options[..]].concat())
            .failed_with(1)
            .text()
    };
    assert!(!mails(&before).contains("NEW"));
    let text = mails(&run);
    assert!(text.contains("\nSE-01.example.org: 1 NEW PROBLEM\n"), "{text}");
    assert!(text.contains("\nSE-02.example.org: 1 PROBLEM\n"), "{text}");
    let page = fs::read_to_string(&html).expect("a page");
    assert_eq!(page.matches("failed in 1 of 2 runs").count(), 40);
    assert_eq!(page.matches("failed in 2 of 2 runs").count(), 58);
    // An older run has no later ones before it.
    assert!(!mails(&before).contains("NEW"));
}

/// A server of SMTP; see `python/smtp_server.py`.
struct MailServer {
    process: Process,
    port: u64,
    _scratch: Scratch,
}

impl MailServer {
    fn start(arguments: &[&str]) -> Result<Self> {
        let scratch = Scratch::new("smtp")?;
        let mut command = Command::new(require_python("aiosmtpd")?);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("python/smtp_server.py"));
        command.args(arguments);
        let mut process = Process::spawn("smtp", &mut command, scratch.path())?;
        let port = process.wait_for("its port", PATIENCE, |process| lines(process).first()?["port"].as_u64())?;
        Ok(Self {
            process,
            port,
            _scratch: scratch,
        })
    }

    /// All mails so far.
    fn mails(&self) -> Vec<Value> {
        lines(&self.process).into_iter().skip(1).collect()
    }
}

/// The lines of JSON that are whole.
fn lines(process: &Process) -> Vec<Value> {
    let text = process.stdout();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn administrators_get_mails_about_their_endpoints() {
    let test = "administrators_get_mails_about_their_endpoints";
    let needed = MailServer::start(&[]).and_then(|server| Ok((server, Lab::new("report-mail")?)));
    let Some((server, lab)) = available(test, needed) else {
        return;
    };
    let mut run = sample();
    // A name that would add a recipient, if it came into the head of a mail.
    run["title"] = json!("sites\r\nBcc: everyone@example.org");
    let mut earlier = run.clone();
    let cells = earlier["cells"].as_array_mut().expect("cells");
    cells.retain(|cell| cell["link"]["source"] != mesh_endpoint(1));
    let (file, earlier) = (kept(&lab, &run), kept(&lab, &earlier));
    let options = ["--earlier", &earlier, "--mail-from", SENDER];
    // Nothing is sent yet.
    let dry = report(&lab, &[&[&file[..], "--mail-dry-run"], &options[..]].concat()).failed_with(1);
    assert!(
        dry.text()
            .contains("\nTo: admin-1@example.org\nSubject: mesh of sites "),
        "{}",
        dry.said()
    );
    assert!(server.mails().is_empty());
    let url = format!("smtp://localhost:{}", server.port);
    let with = |file: &str| report(&lab, &[&[file, "--mail", &url], &options[..]].concat());
    with(&file).failed_with(1);
    until("three mails came", PATIENCE, || server.mails().len() == 3);
    for (number, mail) in server.mails().iter().enumerate() {
        assert_eq!(
            mail["recipients"],
            json!([format!("admin-{number}@example.org")]),
            "{mail}"
        );
        assert_eq!(mail["defects"], json!([]), "{mail}");
        assert_eq!(mail["type"], "multipart/alternative");
        let headers = [
            "Content-Type",
            "Date",
            "From",
            "MIME-Version",
            "Message-ID",
            "Subject",
            "To",
        ];
        assert_eq!(mail["headers"], json!(headers), "{mail}");
        assert!(mail["longest_line"].as_u64() < Some(998), "{mail}");
    }
    let mail = &server.mails()[1];
    let text = mail["text"].as_str().expect("text");
    let first = text.lines().find(|line| line.starts_with("SE-"));
    assert_eq!(first, Some("SE-01.example.org: 1 NEW PROBLEM"), "{text}");
    assert!(
        text.contains("SE-04.example.org: 1 PROBLEM") && !text.contains("SE-02.example.org: "),
        "{text}"
    );
    assert!(
        mail["html"]
            .as_str()
            .is_some_and(|html| html.contains("<h2>SE-01.example.org: 1 NEW PROBLEM</h2>"))
    );
    // One address that the server refuses, and one that is none: the third is served.
    run["endpoints"][2]["administrators"] = json!(["refused@example.org", "no address", "third@example.org"]);
    run["endpoints"]
        .as_array_mut()
        .expect("endpoints")
        .retain(|endpoint| endpoint["name"] == mesh_endpoint(3));
    let said = with(&kept(&lab, &run)).failed_with(5);
    assert!(
        said.stderr.contains("refused@example.org") && said.stderr.contains("550"),
        "{}",
        said.said()
    );
    assert!(said.stderr.contains("no address: no mail address"), "{}", said.said());
    assert!(
        said.text().contains("X1  SE-01.example.org as source"),
        "{}",
        said.said()
    );
    until("the fourth mail came", PATIENCE, || server.mails().len() == 4);
    assert_eq!(server.mails()[3]["recipients"], json!(["third@example.org"]));
}

#[test]
fn mails_and_logins_go_over_tls_only() {
    let test = "mails_and_logins_go_over_tls_only";
    let needed = Lab::new("report-tls").and_then(|lab| {
        let (certificate, key) = (plain(&lab.host().certificate), plain(&lab.host().key));
        let server = MailServer::start(&[&certificate, &key, "mesh", "open sesame"])?;
        Ok((lab, server, MailServer::start(&[])?))
    });
    let Some((lab, server, clear)) = available(test, needed) else {
        return;
    };
    let file = kept(&lab, &sample());
    let login = |password: &str| plain(&lab.file(format!("mesh\n{password}\n").as_bytes()));
    let (right, wrong) = (login("open sesame"), login("guess"));
    let authority = plain(&lab.authority().ca_file());
    let send = |server: &MailServer, login: &str, more: &[&str]| {
        let url = format!("smtp://localhost:{}", server.port);
        let options = [&file[..], "--mail", &url, "--mail-from", SENDER, "--mail-login", login];
        report(&lab, &[&options, more].concat())
    };
    let trusting: [&str; 2] = ["--report-cacert", &authority];
    send(&server, &right, &trusting).failed_with(1);
    until("three mails came", PATIENCE, || server.mails().len() == 3);
    for mail in server.mails() {
        assert_eq!(
            (&mail["encrypted"], &mail["user"]),
            (&json!(true), &json!("mesh")),
            "{mail}"
        );
    }
    // A wrong login, an authority that is not trusted, a server without STARTTLS: nothing is sent.
    let refused = send(&server, &wrong, &trusting).failed_with(5);
    assert!(
        refused.stderr.contains("535") && !refused.stderr.contains("guess"),
        "{}",
        refused.said()
    );
    let unknown = send(&server, &right, &[]).failed_with(5);
    assert!(unknown.stderr.contains("UnknownIssuer"), "{}", unknown.said());
    let plain_text = send(&clear, &right, &trusting).failed_with(5);
    assert!(plain_text.stderr.contains("STARTTLS"), "{}", plain_text.said());
    assert!(
        plain_text.text().contains("X1  SE-01.example.org as source"),
        "{}",
        plain_text.said()
    );
    assert_eq!((server.mails().len(), clear.mails().len()), (3, 0));
}

#[test]
fn a_webhook_gets_a_summary_with_a_token() {
    let test = "a_webhook_gets_a_summary_with_a_token";
    let needed = require_queue_python("python3").and_then(|python| Ok((python, Lab::new("report-webhook")?)));
    let Some((python, lab)) = available(test, needed) else {
        return;
    };
    let receiver = Scripted::start(|seen| match seen.path.as_str() {
        "/taken" => Reply::whole(seen, "204 No Content", &[], b""),
        _ => Reply::whole(seen, "403 Forbidden", &[], b""),
    });
    let file = kept(&lab, &sample());
    let token = plain(&lab.file(b"a-token-of-the-webhook\n"));
    let post = |path: &str| {
        let url = receiver.url(path);
        report(&lab, &[&file, "--webhook", &url, "--webhook-token", &token])
    };
    post("/taken").failed_with(1);
    let seen = receiver.seen();
    let seen = seen.first().expect("a request");
    assert_eq!(
        (seen.method.as_str(), seen.header("authorization")),
        ("POST", Some("Bearer a-token-of-the-webhook"))
    );
    assert_eq!(seen.header("content-type"), Some("application/json"));
    let summary: Value = serde_json::from_slice(&seen.body).expect("JSON");
    assert_eq!(summary["problems"][1]["destination"], mesh_endpoint(2), "{summary}");
    let mut all = JsonLines::default();
    all.add("run_summary", &[summary]);
    let printed = report(&lab, &["--json", &file]).text();
    all.add("run", &[serde_json::from_str(&printed).expect("JSON")]);
    all.check(&python).succeeded();
    let refused = post("/secret-path").failed_with(5);
    assert!(
        refused.stderr.contains("status 403") && !refused.stderr.contains("secret-path"),
        "{}",
        refused.said()
    );
    // In clear text to another machine: refused before anything is sent.
    let elsewhere = report(&lab, &[&file, "--webhook", "http://hooks.example.org/"]).failed_with(22);
    assert!(elsewhere.stderr.contains("https"), "{}", elsewhere.said());
}

/// A run may take hours: what it will need at its end is checked before it begins.
#[test]
fn mistakes_about_where_results_go_are_found_before_the_run() {
    let test = "mistakes_about_where_results_go_are_found_before_the_run";
    let Some(lab) = available(test, Lab::new("report-mistakes")) else {
        return;
    };
    let endpoints = |administrator: &str| {
        // Nothing listens there.
        let file = format!(
            "[mesh]\ntitle = \"t\"\n[[endpoint]]\nname = \"A\"\nurls = [\"http://127.0.0.1:1/\"]\nanonymous = true\n\
             administrators = [{administrator:?}]\n"
        );
        plain(&lab.file(file.as_bytes()))
    };
    let (right, wrong) = (endpoints("a@example.org"), endpoints("a@b, c@d"));
    let begun = lab.fresh("saved.json");
    let save = plain(&begun);
    let refused = |command: &[&str], options: &[&str], words: &str| {
        let arguments = [&command[1..], &["--save", &save], options].concat();
        let run = lab.run_client(command[0], &arguments).failed_with(22);
        assert!(run.stderr.contains(words), "{}", run.said());
        assert!(!run.stderr.contains("secret") && !begun.exists(), "{}", run.said());
    };
    for command in [
        &["mesh", &*right][..],
        &["stress", &right],
        &["smoke", "--list", &right],
    ] {
        for url in [
            "ftp://hooks.example.org/",
            "http://hooks.example.org/secret",
            "https://:1/secret",
        ] {
            refused(command, &["--webhook", url], "--webhook takes an https URL");
        }
        refused(command, &["--mail-from", "a@b, c@d"], "not a mail address");
        let trusting = ["--webhook", "https://127.0.0.1:1/", "--report-cacert", "/no/such/file"];
        refused(
            command,
            &trusting,
            "--report-cacert names /no/such/file: there is no such file",
        );
    }
    for option in ["--queue", "--capabilities-to"] {
        refused(
            &["mesh", &right],
            &[option, "queue.example.org"],
            &format!("Give {option} a URL"),
        );
    }
    let place = format!("{wrong}:7: administrators: \"a@b, c@d\" is no mail address");
    for command in [
        &["mesh", &*wrong][..],
        &["stress", &wrong],
        &["smoke", "--list", &wrong],
    ] {
        refused(command, &[], &place);
    }
}

#[test]
fn no_output_replaces_another_or_what_is_read() {
    let test = "no_output_replaces_another_or_what_is_read";
    let Some(lab) = available(test, Lab::new("report-same")) else {
        return;
    };
    let file = kept(&lab, &sample());
    let directory = lab.fresh("same");
    fs::create_dir(&directory).expect("a directory");
    let [page, other] = ["a", "b"].map(|name| plain(&directory.join(name)));
    let around = plain(&directory.join("./a"));
    let refused = |options: &[&str], words: &str| {
        let run = report(&lab, &[&[&*file], options].concat()).failed_with(22);
        assert!(run.stderr.contains(words), "{}", run.said());
        assert!(run.text().is_empty() && !Path::new(&page).exists(), "{}", run.said());
    };
    refused(
        &["--html", &page, "--junit", &around],
        "--html and --junit name the same file",
    );
    refused(
        &["--html", &page, "--history", &page],
        "--html and --history name the same file",
    );
    refused(&["--html", &file], "--html would replace");
    refused(&["--junit", &page, "--earlier", &page], "--junit would replace");
    let secret = plain(&lab.file(b"a token, which no report begins with\n"));
    for option in ["--html", "--junit", "--prometheus"] {
        let words = "which is no earlier output of";
        let webhook = ["--webhook", "http://127.0.0.1:1/", "--webhook-token", &secret];
        refused(&[&[option, &secret], &webhook[..]].concat(), words);
    }
    assert_eq!(
        fs::read(&secret).expect("the token"),
        b"a token, which no report begins with\n"
    );
    // What an option has written, it replaces; so does it what is empty.
    let empty = plain(&lab.file(b""));
    for option in ["--html", "--junit", "--prometheus"] {
        let own = plain(&directory.join(option));
        for file_of_option in [&own, &own, &empty] {
            report(&lab, &[&file, option, file_of_option]).failed_with(1);
        }
        fs::write(&empty, b"").expect("empty again");
    }
    report(&lab, &[&file, "--html", "/dev/null", "--junit", "/dev/null"]).failed_with(1);
    report(&lab, &[&file, "--html", &page, "--junit", &other, "--earlier", &file]).failed_with(1);
    let endpoints = "[mesh]\ntitle = \"t\"\n[[endpoint]]\nname = \"A\"\nurls = [\"http://127.0.0.1:1/\"]\n";
    let endpoints = plain(&lab.file(endpoints.as_bytes()));
    for command in [
        &["mesh", &*endpoints][..],
        &["stress", &endpoints],
        &["smoke", "--list", &endpoints],
    ] {
        for (options, words) in [
            (
                ["--save", &other, "--html", &other],
                "--save and --html name the same file",
            ),
            (["--save", &endpoints, "--html", &other], "--save would replace"),
            (["--save", &secret, "--html", &page], "no earlier output of --save"),
            (["--save", &empty, "--log-file", &empty], "--save would replace"),
        ] {
            let run = lab.run_client(command[0], &[&command[1..], &options].concat());
            let run = run.failed_with(22);
            assert!(run.stderr.contains(words), "{}", run.said());
        }
    }
}

/// What only the client's configuration shows of a URL has its place in the file, too.
#[test]
fn mistakes_about_urls_have_their_line_and_key() {
    let test = "mistakes_about_urls_have_their_line_and_key";
    let Some(lab) = available(test, Lab::new("report-urls")) else {
        return;
    };
    let text = "[mesh]\ntitle = \"t\"\n[[endpoint]]\nname = \"A\"\nurls = [\"http://127.0.0.1:1/a\", \
                \"https://localhost/b\", \"root://localhost//\"]\n[[endpoint]]\nname = \"B\"\n\
                urls = [\"nosuch:dir\", \"/local\"]\n";
    let file = plain(&lab.file(text.as_bytes()));
    for command in [
        &["mesh", &*file, "--dry-run"][..],
        &["stress", &file],
        &["smoke", "--list", &file],
    ] {
        let run = lab.run_client(command[0], &command[1..]).failed_with(22);
        for words in [
            format!("{file}:5: urls: https://localhost/b: the endpoint has a URL in this protocol already"),
            format!("{file}:8: urls: nosuch:dir: "),
            format!("{file}:8: urls: /local: not a directory on a server"),
        ] {
            assert!(run.stderr.contains(&words), "{words}\n{}", run.said());
        }
    }
}

/// A device has no size, so that only reading shows that it is too large.
#[test]
fn files_without_an_end_are_read_up_to_their_limits() {
    let test = "files_without_an_end_are_read_up_to_their_limits";
    let Some(lab) = available(test, Lab::new("report-endless")) else {
        return;
    };
    let file = kept(&lab, &sample());
    let endpoints = "[mesh]\ntitle = \"t\"\n[[endpoint]]\nname = \"A\"\nurls = [\"http://127.0.0.1:1/\"]\n\
                     calendar = \"/dev/zero\"\n";
    let endpoints = plain(&lab.file(endpoints.as_bytes()));
    let calendar = format!("{endpoints}:6: calendar: /dev/zero");
    for (arguments, file, code) in [
        (&["report", "/dev/zero"][..], "/dev/zero", 22),
        (
            &["report", &file, "--mail-dry-run", "--earlier", "/dev/zero"],
            "/dev/zero",
            22,
        ),
        (&["mesh", "/dev/zero"], "/dev/zero", 22),
        (&["smoke", "--list", "/dev/zero"], "/dev/zero", 22),
        (&["mesh", &endpoints], &calendar, 22),
        (&["check", "--config", "/dev/zero"], "/dev/zero", 2),
    ] {
        let run = run(&lab.client(arguments).expect("the client is built")).failed_with(code);
        let said = run.said();
        assert!(said.contains(file) && said.contains("larger than the "), "{said}");
    }
}

#[test]
fn the_page_of_the_newest_run_is_served() {
    let Some(lab) = available("the_page_of_the_newest_run_is_served", Lab::new("report-serve")) else {
        return;
    };
    let mut run = sample();
    let file = kept(&lab, &run);
    let mut command = lab
        .client(["report", &file, "--serve", "0"])
        .expect("the client is built");
    let mut serving = background(&mut command, lab.scratch()).expect("it starts");
    let address = |process: &Process| -> Option<String> {
        let text = process.stderr();
        let rest = text.split_once("is at ")?.1;
        Some(rest.split_once('\n')?.0.to_owned())
    };
    let address = serving.wait_for("its address", PATIENCE, address).expect("it serves");
    assert!(address.starts_with("http://127.0.0.1:"), "{address}");
    // It is there before the first report is complete.
    let page = || lab.curl(&[&address]).expect(200);
    until("the page is complete", PATIENCE, || page().body.ends_with(b"</html>\n"));
    let policy = page().header("content-security-policy").unwrap_or_default().to_owned();
    assert!(
        policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
        "{policy}"
    );
    let metrics = lab.curl(&[&format!("{address}metrics")]).expect(200);
    assert!(String::from_utf8_lossy(&metrics.body).contains("crossload_mesh_complete{"));
    let refused = lab.curl(&["-X", "POST", "-d", "x", &address]).expect(405);
    assert_eq!(refused.header("allow"), Some("GET,HEAD"));
    assert!(!refused.text().contains("OPTIONS"), "{}", refused.text());
    // A name of another site that points to this machine.
    for path in ["", "run.json", "metrics"] {
        let foreign = ["-H", "Host: evil.example", &format!("{address}{path}")];
        let refused = lab.curl(&foreign).expect(421);
        assert!(refused.text().contains("[misdirected]"), "{}", refused.text());
    }
    // A newer run replaces it; what is no run does not.
    let replace = |content: &str| {
        let new: PathBuf = lab.file(content.as_bytes());
        fs::rename(new, &file).expect("replaced");
    };
    run["title"] = json!("a newer run");
    replace(&run.to_string());
    let has_newer = || String::from_utf8_lossy(&page().body).contains("a newer run");
    until("the newer run is served", PATIENCE, has_newer);
    replace("{}");
    assert!(has_newer());
    serving.interrupt().expect("it ends");
}
