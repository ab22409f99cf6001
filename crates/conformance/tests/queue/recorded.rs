//! Our client with what a real FTS answers: recordings of fts-rest-flask 3.13, replayed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use conformance::{Lab, Run, last_json, run};
use serde_json::{Value, json};
use testkit::{Crossload, available};

const JOB: &str = "dde6473a-e5db-11f1-9537-02fc00000001";
/// The job that the virtual organisation of [`WHO`] has under the name "abc".
const NAMED: &str = "ffba5b62-87f9-5c14-8d8f-fc484099c842";
const WHO: &str = r#"{"user_dn": "/DC=ch/DC=cern/CN=Test User", "dn": ["/DC=ch/DC=cern/CN=Test User"], "base_id": "01874efb-4735-4595-bc9c-591aef8240c9", "voms_cred": ["/testvo/Role=NULL/Capability=NULL"], "vos": ["testvo"], "vos_id": ["477b9065-8416-5b27-be32-ff1573788e71"], "roles": ["lcgadmin"], "level": {"transfer": "vo", "datamanagement": "all", "config": "all"}, "delegation_id": "ac4ba2be183546e6", "method": "certificate", "is_root": false}"#;
const PROXY: &str = r#"{"termination_time": "2026-11-21T23:46:30", "voms_attrs": ["/testvo"]}"#;
const DUPLICATE: &str = r#"{"status": "409 Conflict", "message": "The sid provided by the user is duplicated"}"#;
const NOT_FOUND: &str = r#"{"status": "404 Not Found", "message": "The requested URL was not found on the server. If you entered the URL manually please check your spelling and try again."}"#;
const BANNED: &str = r#"{"status": "403 Forbidden", "message": "https://a is banned"}"#;

/// A job as FTS shows it, in this state.
fn job(id: &str, state: &str) -> String {
    format!(
        r#"{{"source_spacetoken": null, "dest_se": "davs://b.x", "reason": null, "copy_pin_lifetime": -1, "os_project_id": null, "job_state": "{state}", "submit_time": "2026-11-21T18:46:30", "bring_online": -1, "destination_spacetoken": null, "job_type": "N", "priority": 3, "archive_timeout": -1, "verify_checksum": "b", "cancel_job": false, "max_time_in_queue": null, "target_qos": null, "submit_host": "localhost", "internal_job_params": null, "job_id": "{id}", "user_dn": "/DC=ch/DC=cern/CN=Test User", "dst_file_report": false, "job_metadata": {{"issuer": "rucio", "auth_method": "certificate"}}, "source_se": "davs://a.x", "cred_id": "ac4ba2be183546e6", "overwrite_flag": "Y", "retry": 0, "vo_name": "testvo", "job_finished": null, "retry_delay": 0, "http_status": "200 Ok"}}"#
    )
}

/// A file as FTS shows it, when it has ended.
const FILES: &str = r#"[{"recoverable": null, "source_se": "davs://a.x", "reason": "DESTINATION [17] Destination file exists and overwrite is not enabled", "pid": null, "staging_metadata": null, "src_token_id": null, "dest_se": "davs://b.x", "filesize": null, "archive_metadata": null, "staging_finished": null, "dst_token_id": null, "file_id": 1, "priority": 5, "checksum": "ADLER32:12", "tx_duration": null, "staging_start": null, "file_state_initial": "", "hashed_id": 17914, "file_state": "FAILED", "finish_time": "2026-11-21T18:46:31", "throughput": null, "selection_strategy": "orderly", "file_index": 0, "transfer_host": "fts1.example.org", "start_time": null, "retry": null, "bringonline_token": null, "job_id": "dde6473a-e5db-11f1-9537-02fc00000001", "source_surl": "davs://a.x:443/p/1?copy_mode=push", "archive_start_time": null, "user_filesize": 5, "log_file": "/var/log/fts3/transfers/2026-11-21/a.x__b.x/1", "dest_surl_uuid": null, "dest_surl": "davs://b.x:8443/p/1", "archive_finish_time": null, "file_metadata": {"request_id": "r1"}, "activity": "User", "log_debug": null, "vo_name": "testvo", "staging_host": null, "internal_file_params": null, "scitag": null}]"#;

/// What is answered: status and body. An empty body with status 0 breaks the connection.
type Answer = (u16, String);

/// A server that answers each request by a function, and keeps what it was asked.
struct Recorded {
    url: String,
    heard: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Recorded {
    fn start(answer: impl Fn(usize, &str) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&heard);
        // It ends with the process of the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(stream, &kept, &answer);
            }
        });
        Self { url, heard }
    }

    /// The requests so far, each as `METHOD path`, with its body.
    fn heard(&self) -> Vec<(String, Value)> {
        self.heard.lock().expect("whole").clone()
    }

    fn lines(&self) -> Vec<String> {
        self.heard().into_iter().map(|(line, _)| line).collect()
    }
}

/// One request per connection.
fn serve(mut stream: TcpStream, heard: &Mutex<Vec<(String, Value)>>, answer: &impl Fn(usize, &str) -> Answer) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_owned());
    }
    let length = head
        .iter()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).expect("the body");
    let mut request = head[0].trim_end_matches(" HTTP/1.1").to_owned();
    if let Some(id) = head.iter().find(|line| line.starts_with("Last-Event-ID: ")) {
        request.push_str(&format!(" {id}"));
    }
    let number = {
        let mut heard = heard.lock().expect("whole");
        heard.push((request.clone(), serde_json::from_slice(&body).unwrap_or_default()));
        heard.len()
    };
    let (status, text) = answer(number, &request);
    if status != 0 {
        let answer = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
            text.len()
        );
        let _ = stream.write_all(answer.as_bytes());
    }
}

fn ours(lab: &Lab, queue: &Recorded, command: &str, arguments: &[&str]) -> Run {
    let mut program = lab.client(["queue", command, "-s", &queue.url]).expect("built");
    program.args(arguments);
    run(&program)
}

fn lab(name: &str) -> Option<Lab> {
    available(name, Crossload::binary().and_then(|_| Lab::new(name)))
}

#[test]
fn a_job_is_submitted_and_watched_at_an_fts() {
    let Some(lab) = lab("recorded-submit") else { return };
    let fts = Recorded::start(|number, request| match request {
        "GET /whoami" => (200, WHO.to_owned()),
        "POST /jobs" => (200, format!(r#"{{"job_id": "{JOB}"}}"#)),
        path if path.starts_with("GET /v1/") => (404, NOT_FOUND.to_owned()),
        _ if number < 6 => (200, job(JOB, "ACTIVE")),
        _ => (200, job(JOB, "FINISHEDDIRTY")),
    });
    let line = [
        "-b",
        "-i",
        "1ms",
        "-o",
        "-K",
        "--retry",
        "2",
        "davs://a.x/p/1",
        "davs://b.x/p/1",
    ];
    let run = ours(&lab, &fts, "submit", &line).failed_with(1);
    assert!(
        run.text().starts_with(JOB) && run.text().contains("FINISHEDDIRTY"),
        "{}",
        run.said()
    );
    let heard = fts.heard();
    let path = format!("GET /jobs/{JOB}");
    assert_eq!(&fts.lines()[..3], ["GET /whoami", "POST /jobs", &path]);
    let mut sent = heard[1].1.clone();
    let sid = sent["params"].as_object_mut().and_then(|params| params.remove("sid"));
    assert!(sid.is_some_and(|sid| sid.as_str().is_some_and(|sid| sid.len() == 36)));
    assert_eq!(
        sent,
        json!({
            "params": {"overwrite": true, "verify_checksum": "both", "retry": 2, "id_generator": "deterministic"},
            "files": [{"sources": ["davs://a.x/p/1"], "destinations": ["davs://b.x/p/1"], "checksum": "ADLER32"}],
        })
    );
}

#[test]
fn a_lost_answer_makes_no_second_job() {
    let Some(lab) = lab("recorded-lost") else { return };
    let named = format!("GET /jobs/{NAMED}");
    let lost = Recorded::start(move |number, request| match request {
        "GET /whoami" => (200, WHO.to_owned()),
        "POST /jobs" if number == 2 => (0, String::new()),
        "POST /jobs" => (409, DUPLICATE.to_owned()),
        path if path == named => (200, job(NAMED, "SUBMITTED")),
        _ => (404, NOT_FOUND.to_owned()),
    });
    let line = ["--submission-id", "abc", "davs://a.x/p/1", "davs://b.x/p/1"];
    let run = ours(&lab, &lost, "submit", &line).succeeded();
    assert_eq!(run.text().trim(), NAMED);
    let posts: Vec<Value> = lost
        .heard()
        .into_iter()
        .filter(|(line, _)| line == "POST /jobs")
        .map(|(_, body)| body)
        .collect();
    assert!(posts.len() == 2 && posts[0] == posts[1], "{posts:?}");
    assert_eq!(posts[0]["params"]["sid"], "abc");

    // Another conflict than that of our own name is an error.
    let taken = Recorded::start(|_, request| match request {
        "GET /whoami" => (200, WHO.to_owned()),
        _ => (409, DUPLICATE.to_owned()),
    });
    let run = ours(&lab, &taken, "submit", &["davs://a.x/p/1", "davs://b.x/p/1"]);
    assert!(
        run.code != Some(0) && run.said().contains("sid provided by the user is duplicated"),
        "{}",
        run.said()
    );
}

#[test]
fn what_an_fts_says_is_shown() {
    let Some(lab) = lab("recorded-shown") else { return };
    let fts = Recorded::start(|_, request| match request {
        "GET /whoami" => (200, WHO.to_owned()),
        "POST /jobs" => (403, BANNED.to_owned()),
        path if path.ends_with("/files") => (200, FILES.to_owned()),
        path if path.starts_with("GET /jobs?") => (200, format!("[{}]", job(JOB, "ACTIVE"))),
        path if path.starts_with("DELETE") => (200, job(JOB, "CANCELED")),
        path if path.starts_with("POST /jobs/") => (200, job(JOB, "SUBMITTED")),
        path if path.starts_with("GET /delegation/") => (200, PROXY.to_owned()),
        path if path.ends_with(JOB) => (200, job(JOB, "FAILED")),
        _ => (404, NOT_FOUND.to_owned()),
    });
    let refused = ours(&lab, &fts, "submit", &["https://a/9", "https://b/9"]);
    let words = "queue authorize: ";
    assert!(
        refused.code != Some(0) && refused.stderr.contains(words),
        "{}",
        refused.said()
    );
    assert!(
        refused.stderr.contains("\"https://a is banned\"") && refused.stderr.contains("; next: "),
        "{}",
        refused.said()
    );

    let status = ours(&lab, &fts, "status", &["--files", JOB]).succeeded().text();
    assert!(
        status.contains("Destination file exists and overwrite is not enabled"),
        "{status}"
    );
    let status = ours(&lab, &fts, "status", &["--files", "--json", JOB]).succeeded();
    assert_eq!(last_json(&status)["files"][0]["file_state"], "FAILED");
    let log = ours(&lab, &fts, "log", &[JOB]).succeeded().text();
    assert!(
        log.contains("https://fts1.example.org:8449/var/log/fts3/transfers/"),
        "{log}"
    );
    let list = ours(&lab, &fts, "list", &["--state", "active", "--source", "davs://a.x"]).succeeded();
    assert!(list.text().contains("ACTIVE"), "{}", list.said());
    let asked = fts.lines().pop().expect("asked");
    assert_eq!(
        asked,
        "GET /jobs?limit=500&source_se=davs%3A%2F%2Fa.x&dlg_id=ac4ba2be183546e6&state_in=ACTIVE"
    );
    let canceled = ours(&lab, &fts, "cancel", &[JOB]).succeeded().text();
    assert!(canceled.contains("CANCELED"), "{canceled}");
    let changed = ours(&lab, &fts, "priority", &[JOB, "5"]).succeeded().text();
    assert!(changed.contains("SUBMITTED"), "{changed}");
    let asked = fts.heard().pop().expect("asked");
    assert_eq!(asked, (format!("POST /jobs/{JOB}"), json!({"params": {"priority": 5}})));
    let who = ours(&lab, &fts, "whoami", &[]).succeeded().text();
    for line in [
        "name      /DC=ch/DC=cern/CN=Test User",
        "vo        testvo",
        "voms      /testvo/Role=NULL/Capability=NULL",
        "operator  yes",
        "proxy     until 2026-11-21T23:46:30Z",
    ] {
        assert!(who.contains(line), "{line}: {who}");
    }
}

const NO_EVENTS: &str =
    r#"{"error": {"code": "not_found", "message": "no such path", "side": "client", "phase": "open"}}"#;

#[test]
fn what_an_fts_does_not_have_is_said() {
    let Some(lab) = lab("recorded-kinds") else { return };
    let link = r#"[{"symbolicname": "all", "destination": "*", "max_active": 130, "tcp_buffer_size": null, "no_delegation": false, "min_active": 2, "source": "*", "optimizer_mode": 2, "nostreams": 0}]"#;
    let storage = r#"{"davs://a.x": {"se_info": {"inbound_max_active": 10, "inbound_max_throughput": null, "outbound_max_active": 20, "outbound_max_throughput": null, "udt": null, "ipv6": null, "se_metadata": null, "site": null, "debug_level": null, "skip_eviction": null, "tpc_support": "PULL", "overwrite_disk_enabled": null}, "operations": {"testvo": {"staging": 5}}}}"#;
    let ban = r#"[{"admin_dn": "/DC=ch/DC=cern/CN=Test User", "se": "https://a", "status": "WAIT", "addition_time": "2026-11-21T18:46:31", "vo": "testvo", "message": "dt"}]"#;
    let shares = r#"{"testvo": {"share": {"A": 0.7, "default": 0.3}, "active": true}}"#;
    let fts = Recorded::start(move |number, request| match request {
        "GET /config/links" => (200, link.to_owned()),
        "GET /config/se" => (200, storage.to_owned()),
        "GET /ban/se" => (200, ban.to_owned()),
        "GET /ban/dn" | "GET /optimizer/current" => (200, "[]".to_owned()),
        "GET /config/activity_shares" => (200, shares.to_owned()),
        "GET /status/hosts" => (200, r#"{"fts1.example.org": {"active": 3, "staging": 1}}"#.to_owned()),
        path if path.ends_with(JOB) => (200, job(JOB, if number < 30 { "ACTIVE" } else { "FINISHED" })),
        path if path.starts_with("POST /config/") => (200, "{}".to_owned()),
        _ => (404, NOT_FOUND.to_owned()),
    });
    for (command, arguments) in [
        ("why", vec![JOB]),
        ("pause", vec!["https://a", "https://b"]),
        ("links", vec!["--why", "https://a", "https://b"]),
    ] {
        let run = ours(&lab, &fts, command, &arguments);
        let words = "it is an FTS";
        assert!(
            run.code != Some(0) && run.stderr.contains(words),
            "{command}: {}",
            run.said()
        );
    }
    assert_eq!(
        fts.lines(),
        ["GET /v1/whoami"; 3],
        "one question tells which server it is"
    );
    let limits = ours(&lab, &fts, "limits", &["*", "*", "--max", "10"])
        .succeeded()
        .text();
    assert!(limits.contains("130"), "{limits}");
    let changed = fts
        .heard()
        .into_iter()
        .find(|(line, _)| line == "POST /config/links")
        .expect("changed")
        .1;
    assert_eq!(
        (&changed["symbolicname"], &changed["max_active"]),
        (&json!("all"), &json!(10))
    );
    let limits = ours(&lab, &fts, "limits", &[]).succeeded().text();
    assert!(limits.contains("davs://a.x"), "{limits}");
    let bans = ours(&lab, &fts, "ban", &[]).succeeded().text();
    assert!(bans.contains("https://a") && bans.contains("files wait"), "{bans}");
    assert!(ours(&lab, &fts, "shares", &[]).succeeded().text().contains("0.7"));
    assert!(
        ours(&lab, &fts, "drain", &[])
            .succeeded()
            .text()
            .contains("fts1.example.org")
    );
    assert_eq!(ours(&lab, &fts, "links", &[]).succeeded().text(), "");
    let watched = ours(&lab, &fts, "watch", &["-i", "1ms", JOB]).succeeded().text();
    assert!(watched.contains("ACTIVE") && watched.contains("FINISHED"), "{watched}");
}

#[test]
fn events_go_on_where_they_broke_off() {
    let Some(lab) = lab("recorded-events") else { return };
    let has_ended = AtomicBool::new(false);
    let queue = Recorded::start(move |_, request| match request {
        "GET /v1/whoami" => (200, r#"{"name": "x"}"#.to_owned()),
        path if path.starts_with(&format!("GET /v1/jobs/{JOB}/files")) => {
            let file = json!({"file_id": 1, "destination": "https://b.x:443/p/picture.jpg"});
            (200, json!({"items": [file], "next": null}).to_string())
        }
        path if path.starts_with("GET /v1/jobs/") => {
            let files = json!({"total": 3, "finished": 2, "active": 1});
            (
                200,
                json!({"job_id": JOB, "state": "active", "files": files}).to_string(),
            )
        }
        path if path.ends_with("Last-Event-ID: 7") => {
            has_ended.store(true, Ordering::Relaxed);
            let end = json!({"job_id": JOB, "file_id": 1, "file_state": "finished", "job_state": "finished"});
            (200, format!("id: 8\nevent: state\ndata: {end}\n\n"))
        }
        path if path.starts_with("GET /v1/events") => {
            let begin = json!({"job_id": JOB, "file_id": 1, "file_state": "active", "job_state": "active"});
            let other = json!({"job_id": NAMED, "file_id": 2, "file_state": "failed", "job_state": "failed"});
            let whole = format!("id: 6\nevent: state\ndata: {other}\n\nid: 7\nevent: state\ndata: {begin}\n\n");
            (200, format!(": hello\n\n{whole}id: 8\nevent"))
        }
        _ if has_ended.load(Ordering::Relaxed) => (200, job(JOB, "FINISHED")),
        _ => (200, job(JOB, "SUBMITTED")),
    });
    let watched = ours(&lab, &queue, "watch", &[JOB]).succeeded().text();
    assert!(watched.contains("ACTIVE") && watched.contains("FINISHED"), "{watched}");
    assert!(!watched.contains(NAMED), "only the job that was named: {watched}");
    for words in ["1  ACTIVE  picture.jpg", "2 of 3 files finished, 1 active"] {
        assert!(watched.contains(words), "{words}: {watched}");
    }
    let asked = queue
        .lines()
        .into_iter()
        .filter(|line| line.starts_with("GET /v1/events"));
    let path = format!("GET /v1/events?job={JOB}");
    assert_eq!(
        asked.collect::<Vec<_>>(),
        [path.clone(), format!("{path} Last-Event-ID: 7")]
    );
    let none = Recorded::start(|_, request| match request {
        "GET /v1/whoami" => (200, r#"{"name": "x"}"#.to_owned()),
        path if path.starts_with("GET /v1/") => (404, NO_EVENTS.to_owned()),
        _ => (200, job(JOB, "FINISHED")),
    });
    let watched = ours(&lab, &none, "watch", &[JOB]).succeeded().text();
    assert!(watched.contains("FINISHED"), "{watched}");
}

#[test]
fn jobs_are_looked_at_where_no_stream_is_left() {
    let Some(lab) = lab("recorded-streams") else { return };
    let queue = Recorded::start(|number, request| match request {
        "GET /v1/whoami" => (200, r#"{"name": "x"}"#.to_owned()),
        path if path.starts_with("GET /v1/events") => (429, json!({"code": "share_used_up"}).to_string()),
        path if path.starts_with("GET /v1/") => (200, json!({"items": [], "next": null}).to_string()),
        _ => (200, job(JOB, if number < 6 { "ACTIVE" } else { "FINISHED" })),
    });
    let run = ours(&lab, &queue, "watch", &["-i", "1ms", JOB]);
    assert!(
        run.stderr.contains("the jobs are looked at instead: "),
        "{}",
        run.said()
    );
    let watched = run.succeeded().text();
    assert!(watched.contains("FINISHED"), "{watched}");
    let asked = queue.lines();
    let streams = asked.iter().filter(|line| line.starts_with("GET /v1/events"));
    assert_eq!(streams.count(), 1, "{asked:?}");
}

/// A hostile server's answers, each longer than a queue's.
#[test]
fn answers_without_end_are_refused() {
    let Some(lab) = lab("recorded-endless") else { return };
    let queue = Recorded::start(|_, request| match request {
        "GET /v1/whoami" => (404, NOT_FOUND.to_owned()),
        path if path.ends_with("/files") && path.contains(NAMED) => {
            (200, format!("[{{\"a\": \"{}", "x".repeat(1 << 20)))
        }
        path if path.ends_with("/files") => (200, format!("[{}]", vec!["{}"; 100_001].join(","))),
        path if path.contains(NAMED) => (200, job(NAMED, "ACTIVE")),
        path if path.contains(JOB) => (200, job(JOB, "ACTIVE")),
        _ => (200, format!("\"{}\"", "x".repeat(9 << 20))),
    });
    for (command, arguments, words) in [
        ("whoami", &[][..], "longer than 8388608 bytes"),
        ("status", &["--files", JOB], "more than 100000 objects"),
        ("status", &["--files", "--json", NAMED], "longer than 262144 bytes"),
        ("log", &[JOB], "more than 100000 objects"),
    ] {
        let run = ours(&lab, &queue, command, arguments);
        assert!(
            run.code != Some(0) && run.stderr.contains(words),
            "{command}: {}",
            run.said()
        );
    }
}
