//! What an operator sees and does: the log, metrics, health, changed certificates and
//! configuration, a clean end.

use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use conformance::{
    Lab, bytes, exchange, last_line, log_lines, open, parts, read_answer, requests, run, transfers, until,
};
use serde_json::Value;
use testkit::{Access, Crossload, CrossloadOptions, KeyKind, Result, available};

/// How soon a change must be taken over.
const SOON: Duration = Duration::from_secs(20);

fn start(name: &str, change: impl FnOnce(&mut CrossloadOptions)) -> Result<(Lab, Crossload)> {
    testkit::require("curl")?;
    let lab = Lab::new(name)?;
    let mut options = lab.options("server");
    change(&mut options);
    let server = Crossload::start(options)?;
    Ok((lab, server))
}

fn url(server: &Crossload, name: &str) -> String {
    server.url(&format!("/data/{name}"))
}

#[test]
fn each_request_and_transfer_has_its_line() {
    let Some((lab, server)) = available("each_request_and_transfer_has_its_line", start("lines", |_| {})) else {
        return;
    };
    let Some((_other_lab, other)) = available(
        "each_request_and_transfer_has_its_line",
        start("other", |options| {
            options.certificate = None;
        }),
    ) else {
        return;
    };
    fs::write(other.data().join("source"), bytes(2 << 20, 111)).expect("written");
    let trace = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = ["ClientInfo: job-id=1;file-id=2;retry=0", trace, "SciTag: 144"];
    lab.upload(&url(&server, "file?copy_mode=pull"), &bytes(1000, 112), &headers);
    lab.upload(&url(&server, "file"), &bytes(1000, 112), &headers)
        .expect(204);
    lab.curl(&[&url(&server, "none")]).expect(404);
    let source = format!("Source: {}", other.clear_url("/data/source"));
    let copied = lab.copy(&url(&server, "copied"), &source, &headers);
    assert_eq!(last_line(&copied), "success: Created", "{}", copied.text());
    let _ = exchange(server.port(), b"nonsense\r\n\r\n");

    until("all lines are written", SOON, || {
        requests(server.log()).len() >= 5 && !transfers(server.log()).is_empty()
    });
    let lines = requests(server.log());
    let put = lines
        .iter()
        .rev()
        .find(|line| line["method"] == "PUT")
        .expect("the upload");
    for field in [
        "time",
        "event",
        "request_id",
        "peer",
        "security",
        "path",
        "credential",
        "user_agent",
        "total_us",
        "head_us",
    ] {
        assert!(!put[field].is_null(), "{field} is missing in {put}");
    }
    assert_eq!(
        (&put["status"], &put["bytes_in"], &put["path"]),
        (&204.into(), &1000.into(), &"/data/file".into())
    );
    assert_eq!(put["client_info"], "job-id=1;file-id=2;retry=0");
    assert_eq!(put["scitag"], 144);
    let traced = |line: &Value| {
        line["traceparent"]
            .as_str()
            .is_some_and(|text| text.contains("4bf92f3577b34da6a3ce929d0e0e4736"))
    };
    assert!(traced(put), "{put}");
    let missing = lines.iter().find(|line| line["status"] == 404).expect("the miss");
    assert_eq!(missing["error"]["code"], "not_found", "{missing}");
    let copy = lines.iter().find(|line| line["method"] == "COPY").expect("the copy");
    let transfer = transfers(server.log()).remove(0);
    assert_eq!(copy["transfer_id"], transfer["transfer_id"]);
    assert_eq!(transfer["request_id"], copy["request_id"]);
    assert_eq!(
        (&transfer["mode"], &transfer["outcome"]),
        (&"pull".into(), &"success".into())
    );
    assert_eq!(transfer["bytes"], 2 << 20);
    assert!(
        transfer["verified"]
            .as_str()
            .is_some_and(|text| text.starts_with("adler32:")),
        "{transfer}"
    );
    assert!(
        transfer["phases_us"].as_array().is_some_and(|phases| phases.len() >= 3),
        "{transfer}"
    );
    assert!(traced(&transfer), "{transfer}");
    // The passive side sees the same trace and the job.
    until("the source has logged it", SOON, || {
        requests(other.log()).iter().any(|line| line["method"] == "GET")
    });
    let get = requests(other.log())
        .into_iter()
        .find(|line| line["method"] == "GET")
        .expect("the passive side's line");
    assert!(traced(&get), "{get}");
    assert_eq!(get["client_info"], "job-id=1;file-id=2;retry=0", "{get}");
    // The client can name its request to us.
    let answer = lab.curl(&[&url(&server, "file")]).expect(200);
    let id = answer.header("X-Request-Id").expect("a request id").to_owned();
    until("its line is written", SOON, || {
        requests(server.log())
            .iter()
            .any(|line| line["request_id"] == id.as_str())
    });
}

/// The sum of all samples of a metric whose labels hold `labels`.
fn metric(text: &str, name: &str, labels: &str) -> f64 {
    text.lines()
        .filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])) && line.contains(labels)
        })
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
        .sum()
}

#[test]
fn metrics_and_health_are_shown_on_the_admin_port_only() {
    let test = "metrics_and_health_are_shown_on_the_admin_port_only";
    let Some((lab, server)) = available(test, start("metrics", |_| {})) else {
        return;
    };
    let admin = |path: &str| server.admin_url(path).expect("an admin port");
    let metrics = || lab.curl(&[&admin("/metrics")]).expect(200).text();
    let before = metrics();
    lab.upload(&url(&server, "file"), &bytes(100_000, 113), &[]).expect(201);
    lab.curl(&[&url(&server, "file")]).expect(200);
    lab.curl(&[&url(&server, "none")]).expect(404);
    lab.copy(&url(&server, "failed"), "Source: http://localhost:1/x", &[]);
    // A request is counted when its answer is sent, which the client may see first.
    let grew =
        |name: &str, labels: &str, by: f64| metric(&metrics(), name, labels) - metric(&before, name, labels) >= by;
    for (name, labels, by) in [
        ("crossload_requests_total", "PUT", 1.0),
        ("crossload_requests_total", "4xx", 1.0),
        ("crossload_errors_total", "not_found", 1.0),
        ("crossload_errors_total", "peer_unreachable", 1.0),
        ("crossload_received_bytes_total", "", 100_000.0),
        ("crossload_sent_bytes_total", "", 100_000.0),
        ("crossload_transfers_finished_total", "pull", 1.0),
    ] {
        until(&format!("{name} {labels} grown"), SOON, || grew(name, labels, by));
    }
    let now = metrics();
    assert!(metric(&now, "crossload_export_free_bytes", "/data") > 0.0, "{now}");
    let expiry_s = metric(&now, "crossload_certificate_expiry_timestamp_seconds", "");
    let started_s = metric(&now, "process_start_time_seconds", "");
    assert!(started_s > 1.7e9 && expiry_s > started_s + 86_400.0, "{now}");
    assert!(!now.contains("# EOF"), "curl does not ask for OpenMetrics");
    let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
    let open = lab.curl(&["-H", accept, &admin("/metrics")]).expect(200).text();
    assert!(open.trim_end().ends_with("# EOF"), "not in the OpenMetrics format");
    lab.curl(&[&admin("/health")]).expect(200);
    lab.curl(&[&admin("/ready")]).expect(200);
    // A name of another site that points to this machine.
    let foreign = ["-H", "Host: evil.example:9090", &admin("/metrics")];
    assert!(lab.curl(&foreign).expect(421).text().contains("[misdirected]"));
    for path in ["/metrics", "/health", "/ready"] {
        assert!(
            lab.curl(&[&server.url(path)]).status >= 400,
            "{path} is on the data port"
        );
    }
}

/// The serial number of the certificate that the server shows now.
fn served_certificate(lab: &Lab, server: &Crossload) -> String {
    let mut connect = lab.command("openssl").expect("openssl");
    connect
        .args(["s_client", "-servername", "localhost", "-connect"])
        .arg(format!("localhost:{}", server.port()));
    let shown = run(&connect);
    let pem = lab.scratch().path().join("served.pem");
    let begin = shown.text().find("-----BEGIN CERTIFICATE-----");
    let begin = begin.unwrap_or_else(|| panic!("no certificate was shown: {shown:?}"));
    fs::write(&pem, &shown.text()[begin..]).expect("written");
    let mut read = lab.command("openssl").expect("openssl");
    read.args(["x509", "-noout", "-serial", "-in"]).arg(&pem);
    run(&read).succeeded().text()
}

#[test]
fn a_new_certificate_is_served_without_a_restart_and_a_broken_one_is_not() {
    let test = "a_new_certificate_is_served_without_a_restart_and_a_broken_one_is_not";
    let Some(lab) = available(test, Lab::new("certificates")) else {
        return;
    };
    let options = lab.options("server");
    let Some(server) = available(test, Crossload::start(options)) else {
        return;
    };
    fs::write(server.data().join("file"), b"content").expect("written");
    let first = served_certificate(&lab, &server);
    assert!(first.starts_with("serial="), "{first}");
    let mut held = conformance::tls(server.port(), &lab.authority().ca_file());
    held.write_all(b"HEAD /data/file HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .expect("sent");

    let host = lab.host();
    fs::write(&host.certificate, b"no certificate").expect("written");
    until("the fault is in the log", SOON, || {
        log_lines(server.log())
            .iter()
            .any(|line| line["event"] == "reload_failed")
    });
    assert_eq!(served_certificate(&lab, &server), first);
    lab.curl(&[&url(&server, "file")]).expect(200);

    let fresh = lab
        .authority()
        .issue_host("fresh", &["localhost", "127.0.0.1"], KeyKind::EcdsaP256)
        .expect("issued");
    fs::copy(&fresh.key, &host.key).expect("copied");
    fs::copy(&fresh.certificate, &host.certificate).expect("copied");
    until("the new certificate is served", SOON, || {
        served_certificate(&lab, &server) != first
    });
    lab.curl(&[&url(&server, "file")]).expect(200);
    // A connection that was there before goes on.
    held.write_all(b"GET /data/file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let received = read_answer(&mut held);
    assert_eq!(received.status(), 200, "{}", received.text);
}

#[test]
fn a_changed_configuration_is_taken_over_and_a_broken_one_is_not() {
    let test = "a_changed_configuration_is_taken_over_and_a_broken_one_is_not";
    let Some(lab) = available(test, Lab::new("reload")) else {
        return;
    };
    let options = lab.options("server");
    let file = options.directory.join("crossload.toml");
    let Some(mut server) = available(test, Crossload::start(options)) else {
        return;
    };
    let port = server.port();
    lab.upload(&url(&server, "file"), b"content", &[]).expect(201);
    let text = fs::read_to_string(&file).expect("the configuration");
    assert!(text.contains("anonymous = \"write\""), "{text}");
    fs::write(&file, text.replace("anonymous = \"write\"", "anonymous = \"read\"")).expect("written");
    server.process().hang_up().expect("SIGHUP");
    until("uploads are refused", SOON, || {
        lab.upload(&url(&server, "new"), b"x", &[]).status == 401
    });
    lab.curl(&[&url(&server, "file")]).expect(200);

    let failures = || {
        log_lines(server.log())
            .iter()
            .filter(|line| line["event"] == "reload_failed")
            .count()
    };
    assert_eq!(failures(), 0);
    // Without a signal, by the change of the file alone.
    fs::write(&file, text.replace("anonymous", "anonymus")).expect("written");
    until("the fault is in the log", SOON, || failures() > 0);
    let line = log_lines(server.log())
        .into_iter()
        .find(|line| line["event"] == "reload_failed")
        .expect("the line");
    let words = line["error"].as_str().expect("words");
    assert!(
        words.contains("anonymus") && words.contains("did you mean \"anonymous\""),
        "{words}"
    );
    lab.curl(&[&url(&server, "file")]).expect(200);
    assert_eq!(lab.upload(&url(&server, "new"), b"x", &[]).status, 401);
    assert_eq!(server.port(), port);

    fs::write(&file, &text).expect("written");
    until("uploads are allowed again", SOON, || {
        (200..300).contains(&lab.upload(&url(&server, "new"), b"x", &[]).status)
    });
}

#[test]
fn what_is_logged_changes_while_the_server_runs() {
    let test = "what_is_logged_changes_while_the_server_runs";
    let Some((lab, mut server)) = available(
        test,
        start("logged", |options| {
            options.more = "[log]\nrequests = false\n".to_owned()
        }),
    ) else {
        return;
    };
    let file = server.configuration();
    let text = fs::read_to_string(&file).expect("the configuration");
    fs::create_dir(server.data().join("loud")).expect("a directory");
    for name in ["loud/f", "quiet"] {
        fs::write(server.data().join(name), b"content").expect("written");
    }
    let lines_about = |server: &Crossload, path: &str| -> Vec<Value> {
        let mut lines = requests(server.log());
        lines.retain(|line| line["path"] == path);
        lines
    };
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let follow = format!("requests = false\nfollow = [\"path:/data/loud\", \"transfer:{trace}\"]\n");
    fs::write(&file, text.replace("requests = false\n", &follow)).expect("written");
    server.process().hang_up().expect("SIGHUP");
    until("what is below the path is logged", SOON, || {
        lab.curl(&[&url(&server, "loud/f")]).expect(200);
        !lines_about(&server, "/data/loud/f").is_empty()
    });
    let parent = format!("traceparent: 00-{trace}-00f067aa0ba902b7-01");
    lab.curl(&[&url(&server, "quiet")]).expect(200);
    lab.curl(&["-H", &parent, &url(&server, "quiet")]).expect(200);
    until("the trace is logged", SOON, || {
        !lines_about(&server, "/data/quiet").is_empty()
    });
    let quiet = lines_about(&server, "/data/quiet");
    assert_eq!(quiet.len(), 1, "{quiet:#?}");
    assert!(quiet[0]["traceparent"].to_string().contains(trace), "{quiet:#?}");

    // By the change of the file alone.
    fs::write(&file, text.replace("requests = false", "requests = \"failed\"")).expect("written");
    until("failures are logged", SOON, || {
        lab.curl(&[&url(&server, "none")]).expect(404);
        !lines_about(&server, "/data/none").is_empty()
    });
    let (loud, failed) = (lines_about(&server, "/data/loud/f"), lines_about(&server, "/data/none"));
    lab.curl(&[&url(&server, "loud/f")]).expect(200);
    lab.curl(&[&url(&server, "none")]).expect(404);
    until("the next failure is logged", SOON, || {
        lines_about(&server, "/data/none").len() > failed.len()
    });
    assert_eq!(lines_about(&server, "/data/loud/f").len(), loud.len());

    // A filter that can never apply is refused, and the old ones stay.
    fs::write(&file, text.replace("requests = false", "follow = [\"user:jane\"]")).expect("written");
    until("the mistake is logged", SOON, || {
        log_lines(server.log()).iter().any(|line| {
            line["event"] == "reload_failed" && line["error"].to_string().contains("the kinds are subject:")
        })
    });
}

#[test]
fn unknown_keys_are_refused_with_a_suggestion() {
    let test = "unknown_keys_are_refused_with_a_suggestion";
    let Some(lab) = available(test, Lab::new("keys")) else {
        return;
    };
    let data = lab.scratch().create("data").expect("a directory");
    let Some(_binary) = available(test, Crossload::binary()) else {
        return;
    };
    for (text, wrong, right) in [
        (
            "[server]\nlisten = [\"127.0.0.1:0\"]\nadmin_listn = \"127.0.0.1:0\"\n",
            "admin_listn",
            "admin_listen",
        ),
        ("[limits]\nhead_timout = \"1s\"\n", "head_timout", "head_timeout"),
        ("[macarons]\n", "macarons", "macaroons"),
    ] {
        let file = lab.file(format!("{text}\n[[export]]\ndirectory = {:?}\n", data).as_bytes());
        for words in [&["serve", "--config"][..], &["config", "check"]] {
            let mut command: Command = lab.client(words).expect("the binary");
            command.arg(&file);
            let refused = run(&command);
            assert!(refused.code.is_some_and(|code| code != 0), "{}", refused.said());
            let said = refused.said();
            assert!(
                said.contains(wrong) && said.contains(&format!("did you mean \"{right}\"")),
                "{said}"
            );
            assert!(said.contains(':'), "no line is named: {said}");
        }
    }
}

#[test]
fn a_directory_is_served_without_a_configuration() {
    let test = "a_directory_is_served_without_a_configuration";
    let Some(lab) = available(test, Lab::new("directory")) else {
        return;
    };
    let data = lab.scratch().create("data").expect("a directory");
    fs::write(data.join("file"), b"content").expect("written");
    let Some(mut command) = available(test, lab.client(["serve", "--listen", "127.0.0.1:0"])) else {
        return;
    };
    command.arg(&data);
    let mut server = conformance::background(&mut command, lab.scratch()).expect("it starts");
    let address = server
        .wait_for("ready", SOON, |process| {
            let text = process.stdout();
            text.contains("ready\n").then_some(())?;
            text.lines()
                .find_map(|line| line.strip_prefix("listening on "))
                .map(str::to_owned)
        })
        .expect("it comes up");
    assert!(address.starts_with("http://127.0.0.1:"), "{address}");
    assert_eq!(lab.curl(&[&format!("{address}/file")]).expect(200).text(), "content");
    assert!(lab.upload(&format!("{address}/new"), b"x", &[]).status >= 400);
    assert!(server.terminate().expect("it ends").success());
}

#[test]
fn a_server_that_is_told_to_stop_ends_soon_and_finishes_what_runs() {
    let test = "a_server_that_is_told_to_stop_ends_soon_and_finishes_what_runs";
    let Some((lab, mut server)) = available(
        test,
        start("stop", |options| {
            options.exports[0].anonymous = Access::Write;
        }),
    ) else {
        return;
    };
    fs::write(server.data().join("file"), bytes(4 << 20, 114)).expect("written");
    // One that waits, one that has been served and waits, one in the middle of an upload.
    let silent = open(server.port());
    let mut kept = conformance::tls(server.port(), &lab.authority().ca_file());
    kept.write_all(b"HEAD /data/file HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .expect("sent");
    std::io::Read::read_exact(&mut kept, &mut [0; 12]).expect("an answer");
    let mut upload = open(server.port());
    upload
        .write_all(b"PUT /data/late HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nabc")
        .expect("sent");
    until("the upload has begun", SOON, || !parts(server.data()).is_empty());
    let pid = server.process().id().to_string();
    run(Command::new("kill").args(["-TERM", &pid])).succeeded();
    until("it says so", SOON, || {
        log_lines(server.log()).iter().any(|line| line["event"] == "stopping")
    });
    upload.write_all(b"def").expect("the rest is still taken");
    let received = read_answer(&mut upload);
    assert_eq!(received.status(), 201, "{}", received.text);
    until("it has ended", Duration::from_secs(5), || {
        !server.process().is_running()
    });
    assert_eq!(
        fs::read(server.data().join("late")).ok().as_deref(),
        Some(&b"abcdef"[..])
    );
    assert!(parts(server.data()).is_empty());
    drop((silent, kept));
}
