//! How a server ends, and what it says of a configuration that it cannot take over.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use conformance::{Lab, log_lines, run, until};
use serde_json::Value;
use testkit::{Access, Crossload, Queue, QueueOptions, available};

/// Limit for what must happen.
const SOON: Duration = Duration::from_secs(20);

fn ready(lab: &Lab, server: &Crossload) -> (u16, Value) {
    let answer = lab.curl(&[&server.admin_url("/ready").expect("an admin door")]);
    (answer.status, serde_json::from_str(&answer.text()).expect("JSON"))
}

fn says(checks: &Value, name: &str) -> Option<Value> {
    checks["checks"]
        .as_array()?
        .iter()
        .find(|check| check["name"] == name)
        .cloned()
}

/// A server with a long file, and a client that has begun to fetch it and does not go on.
fn in_the_middle(lab: &Lab, grace: &str) -> (Crossload, TcpStream) {
    let mut options = lab.options("ending");
    options.exports[0].anonymous = Access::Read;
    options.server = format!("grace_time = \"{grace}\"\n");
    let server = lab.crossload(options).expect("a server");
    let made = std::fs::File::create(server.data().join("long"));
    made.and_then(|file| file.set_len(1 << 30)).expect("a long file");
    let mut socket = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    socket
        .write_all(b"GET /data/long HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .expect("a request");
    socket.read_exact(&mut [0; 100]).expect("the beginning");
    (server, socket)
}

/// The line of the fetch that was cut off.
fn assert_told(server: &Crossload, cut_short: bool) {
    let lines = log_lines(server.log());
    let told = lines
        .iter()
        .find(|line| line["event"] == "request" && line["path"] == "/data/long");
    let told = told.unwrap_or_else(|| panic!("{lines:#?}"));
    assert_eq!(
        (&told["error"]["code"], &told["status"]),
        (&Value::from("cancelled"), &Value::from(200)),
        "{told}"
    );
    assert!(told["bytes_out"].as_u64().is_some_and(|bytes| bytes > 0), "{told}");
    let stopped = lines
        .iter()
        .find(|line| line["event"] == "stopped")
        .expect("it stopped");
    assert_eq!(stopped["cut_short"], cut_short, "{stopped}");
}

#[test]
fn a_second_signal_ends_a_server_at_once() {
    let Some(lab) = available("a_second_signal_ends_a_server_at_once", Lab::new("signals")) else {
        return;
    };
    let (mut server, _socket) = in_the_middle(&lab, "600s");
    server.process().ask_to_stop().expect("the first signal");
    until("it is stopping", SOON, || {
        server.log().stderr().contains("\"stopping\"")
    });
    assert!(server.process().is_running());
    let admin = server.admin_url("").expect("an admin door");
    let said = lab.run_client("healthy", &[&admin]).failed_with(1).text();
    assert!(said.contains("not ok   server: It is stopping."), "{said}");
    // It would be killed after ten seconds, which is no success.
    assert!(server.process().terminate().expect("it ends").success());
    assert_told(&server, true);
}

#[test]
fn what_outlives_the_grace_time_is_cut_off_and_told() {
    let Some(lab) = available("what_outlives_the_grace_time_is_cut_off_and_told", Lab::new("grace")) else {
        return;
    };
    let (mut server, _socket) = in_the_middle(&lab, "500ms");
    assert!(server.process().terminate().expect("it ends").success());
    assert_told(&server, false);
}

#[test]
fn a_failed_reload_shows_until_it_is_mended() {
    let test = "a_failed_reload_shows_until_it_is_mended";
    let Some((lab, mut server)) = available(
        test,
        Lab::new("reload").and_then(|lab| {
            let server = lab.crossload(lab.options("reload"))?;
            Ok((lab, server))
        }),
    ) else {
        return;
    };
    let metric = |server: &Crossload| {
        lab.curl(&[&server.admin_url("/metrics").expect("an admin door")])
            .text()
    };
    let (status, checks) = ready(&lab, &server);
    assert_eq!((status, &checks["ready"]), (200, &Value::Bool(true)), "{checks}");
    assert_eq!(says(&checks, "configuration").expect("it is looked at")["ok"], true);
    assert!(metric(&server).contains("crossload_config_last_reload_successful 1\n"));

    let text = std::fs::read_to_string(server.configuration()).expect("its configuration");
    std::fs::write(server.configuration(), format!("{text}\n[nonsense]\n")).expect("a broken one");
    server.process().hang_up().expect("a signal");
    until("the failure shows", SOON, || {
        says(&ready(&lab, &server).1, "configuration").is_some_and(|check| check["ok"] == false)
    });
    let (status, checks) = ready(&lab, &server);
    // It serves on with what it has.
    assert_eq!((status, &checks["ready"]), (200, &Value::Bool(true)), "{checks}");
    let admin = server.admin_url("").expect("an admin door");
    let said = lab.run_client("healthy", &[&admin]).succeeded().text();
    assert!(
        said.contains("not ok   configuration: ") && said.contains("ok       certificate: "),
        "{said}"
    );
    // The address for clients is not the admin address.
    let (host, port) = ("localhost", server.port());
    let other = lab.run_client("healthy", &["--insecure", &format!("https://{host}:{port}")]);
    assert!(
        other.code > Some(1) && other.stderr.contains("server.admin_listen"),
        "{}",
        other.said()
    );
    let words = says(&checks, "configuration").expect("it is looked at")["says"].to_string();
    assert!(words.contains("nonsense"), "{words}");
    let shown = metric(&server);
    assert!(
        shown.contains("crossload_config_last_reload_successful 0\n")
            && shown.contains("crossload_config_reload_failures_total "),
        "{shown}"
    );

    std::fs::write(server.configuration(), text).expect("the old one");
    server.process().hang_up().expect("a signal");
    until("it is mended", SOON, || {
        says(&ready(&lab, &server).1, "configuration").is_some_and(|check| check["ok"] == true)
    });
    assert!(metric(&server).contains("crossload_config_last_reload_successful 1\n"));
}

/// What a pipe of Linux holds, in bytes.
const PIPE_BYTES: usize = 64 << 10;

/// A named pipe that takes nothing more, for as long as the file lives.
fn full_pipe(lab: &Lab, path: &Path) -> File {
    run(lab.command("mkfifo").expect("mkfifo").arg(path)).succeeded();
    let pipe = OpenOptions::new().read(true).write(true).open(path);
    let mut pipe = pipe.expect("a pipe");
    pipe.write_all(&vec![b'\n'; PIPE_BYTES]).expect("room in it");
    pipe
}

#[test]
fn a_log_that_takes_no_line_keeps_no_process_from_stopping() {
    let test = "a_log_that_takes_no_line_keeps_no_process_from_stopping";
    let Some(lab) = available(test, Lab::new("stuck-log")) else {
        return;
    };
    let path = lab.fresh("log");
    let _pipe = full_pipe(&lab, &path);
    let log = format!("[log]\nfile = {path:?}\n");
    let mut options = lab.options("stuck");
    options.more = log.clone();
    let mut server = lab.crossload(options).expect("a server");
    let options = QueueOptions {
        more: log,
        ..lab.queue_options("anonymous = true\n")
    };
    let mut queue = Queue::start(options).expect("a queue");
    // They would be killed after ten seconds, which is no success.
    assert!(server.process().terminate().expect("it ends").success());
    assert!(queue.process().terminate().expect("it ends").success());
}

#[test]
fn signals_right_behind_ready_are_heard() {
    let test = "signals_right_behind_ready_are_heard";
    let Some(lab) = available(test, Lab::new("early-signals")) else {
        return;
    };
    let mut server = lab.crossload(lab.options("early")).expect("a server");
    let mut queue = Queue::start(lab.queue_options("anonymous = true\n")).expect("a queue");
    // It depends on a moment, so one try might not meet it.
    for _ in 0..5 {
        for process in [server.process(), queue.process()] {
            process.hang_up().expect("a signal");
            assert!(process.terminate().expect("it ends").success());
        }
        server.start_again().expect("a server");
        queue.start_again().expect("a queue");
    }
}
