//! A server as a node of a cluster: what it tells when it is busy, how it is drained, what holds
//! over a restart, and the changes that redirectors follow.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use conformance::{Lab, RootSocket, Run, bytes, last_json, open, open_option, run, until};
use serde_json::Value;
use testkit::{Crossload, Result, available};

/// Limit for what must happen.
const SOON: Duration = Duration::from_secs(20);
const NODE: &str = "/.well-known/crossload-node";
/// `draining`, in the XRootD protocol.
const OVERLOADED: u32 = 3024;

/// A node whose operators are the clients of this machine.
fn start(name: &str) -> Result<(Lab, Crossload)> {
    testkit::require("curl")?;
    let lab = Lab::new(name)?;
    let mut options = lab.options("node");
    let state = options.directory.join("state");
    options.more = format!(
        "[cluster]\noperators = [\"address:127.0.0.0/8\", \"address:::1\"]\ndrain_grace = \"0s\"\nsite = \"here\"\n\
         state_file = {state:?}\n"
    );
    let server = lab.crossload(options)?;
    Ok((lab, server))
}

fn node(lab: &Lab, server: &Crossload, words: &[&str]) -> Run {
    let mut command = lab.client(["node"]).expect("the binary");
    command
        .args(words)
        .arg(server.url(""))
        .arg("--cacert")
        .arg(lab.authority().ca_file());
    run(&command)
}

fn status(lab: &Lab, server: &Crossload) -> Value {
    last_json(&node(lab, server, &["status", "--json"]).succeeded())
}

fn url(server: &Crossload, name: &str) -> String {
    server.url(&format!("/data/{name}"))
}

/// An upload of `size` bytes that stops after the first half.
fn half_an_upload(server: &Crossload, name: &str, size: usize) -> TcpStream {
    let mut socket = open(server.port());
    let head = format!("PUT /data/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n");
    socket.write_all(head.as_bytes()).expect("sent");
    socket.write_all(&bytes(size / 2, 1)).expect("sent");
    socket
}

/// Sends the other half, and returns the status.
fn finish(mut socket: TcpStream, size: usize) -> String {
    socket.write_all(&bytes(size - size / 2, 1)).expect("sent");
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).expect("an answer");
    line
}

#[test]
fn a_busy_node_tells_its_load_and_its_room() {
    let test = "a_busy_node_tells_its_load_and_its_room";
    let Some((lab, server)) = available(test, start("busy")) else {
        return;
    };
    let made = std::fs::File::create(server.data().join("long"));
    made.and_then(|file| file.set_len(1 << 30)).expect("a long file");
    let upload = half_an_upload(&server, "up", 4 << 20);
    let mut download = open(server.port());
    download
        .write_all(b"GET /data/long HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .expect("a request");
    download.read_exact(&mut [0; 100]).expect("the beginning");
    let mut session = RootSocket::session(server.port());
    let _handle = session.open("/data/long", open_option::READ);
    until("the node says all of it", SOON, || {
        let told = status(&lab, &server);
        told["uploads"] == 1
            && told["downloads"] == 2
            && told["transfers"] == 3
            && told["free_bytes"].as_u64() > Some(0)
            && told["in_bytes_s"].as_u64() > Some(0)
            && told["out_bytes_s"].as_u64() > Some(0)
            && told["processors"].as_f64() > Some(0.0)
    });
    let told = status(&lab, &server);
    assert!(told["total_bytes"].as_u64() >= told["free_bytes"].as_u64(), "{told}");
    assert_eq!(
        (&told["drain"], &told["refuses"], &told["site"]),
        (&"active".into(), &"active".into(), &"here".into())
    );
    assert!(
        told["server"]
            .as_str()
            .is_some_and(|text| text.starts_with("crossload/")),
        "{told}"
    );
    let schemes: Vec<&str> = told["doors"]
        .as_array()
        .expect("doors")
        .iter()
        .filter_map(|door| door["scheme"].as_str())
        .collect();
    assert_eq!(schemes, ["https", "http", "roots", "root"]);
    assert_eq!(told["doors"][0]["port"], server.port());
    assert_eq!(
        (&told["exports"][0]["path"], &told["exports"][0]["writable"]),
        (&"/data".into(), &true.into())
    );
    drop(download);
    assert!(finish(upload, 4 << 20).contains(" 201 "));
    until("they have ended", SOON, || status(&lab, &server)["transfers"] == 1);
    let words = node(&lab, &server, &["status"]).succeeded().text();
    assert!(
        words.contains("1 (0 uploads, 1 download, 0 pulls, 0 pushes)"),
        "{words}"
    );
}

#[test]
fn a_node_is_drained_in_steps_and_stays_so_over_a_restart() {
    let test = "a_node_is_drained_in_steps_and_stays_so_over_a_restart";
    let Some((lab, mut server)) = available(test, start("drained")) else {
        return;
    };
    lab.upload(&url(&server, "file"), b"content", &[]).expect(201);
    let refused = node(&lab, &server, &["wait"]);
    assert!(
        refused.code != Some(0) && refused.stderr.contains("not drained"),
        "{}",
        refused.said()
    );
    let upload = half_an_upload(&server, "running", 1 << 20);
    until("the upload has begun", SOON, || status(&lab, &server)["uploads"] == 1);
    assert!(node(&lab, &server, &["drain"]).succeeded().text().contains("no_writes"));

    let answer = lab.upload(&url(&server, "new"), b"x", &[]).expect(503);
    assert!(
        answer.text().contains("[draining]") && answer.header("Retry-After").is_some(),
        "{}",
        answer.text()
    );
    let mut session = RootSocket::session(server.port());
    session
        .try_open("/data/new", open_option::NEW | open_option::UPDATE)
        .expect_error(OVERLOADED);
    lab.curl(&[&url(&server, "file")]).expect(200);
    let waited = node(&lab, &server, &["wait", "--timeout", "1s"]);
    assert_eq!(waited.code, Some(110), "{}", waited.said());
    assert!(waited.text().contains("1 upload left"), "{}", waited.said());
    assert!(finish(upload, 1 << 20).contains(" 201 "), "what runs finishes");
    assert!(
        node(&lab, &server, &["wait"])
            .succeeded()
            .text()
            .contains("nothing left")
    );

    assert!(server.process().terminate().expect("it ends").success());
    server.start_again().expect("it starts again");
    assert_eq!(status(&lab, &server)["drain"], "no_writes");
    lab.upload(&url(&server, "new"), b"x", &[]).expect(503);
    let ready = lab
        .curl(&[&server.admin_url("/ready").expect("an admin door")])
        .expect(200);
    assert!(
        ready.text().contains("it takes no new files, ordered by"),
        "{}",
        ready.text()
    );
    let metrics = lab
        .curl(&[&server.admin_url("/metrics").expect("an admin door")])
        .text();
    assert!(metrics.contains("crossload_node_drain_state 1\n"), "{metrics}");
    let mut check = lab.client(["check", "--offline", "--config"]).expect("the binary");
    check.arg(server.configuration());
    assert!(run(&check).said().contains("node_drained"), "{}", run(&check).said());

    node(&lab, &server, &["drain", "--reads", "--wait"]).succeeded();
    lab.curl(&[&url(&server, "file")]).expect(503);
    session = RootSocket::session(server.port());
    session
        .try_open("/data/file", open_option::READ)
        .expect_error(OVERLOADED);
    lab.curl(&["-I", &url(&server, "file")]).expect(200);
    node(&lab, &server, &["undrain"]).succeeded();
    lab.curl(&[&url(&server, "file")]).expect(200);
    lab.upload(&url(&server, "new"), b"x", &[]).expect(201);
}

#[test]
fn changed_names_are_told_as_they_change() {
    let test = "changed_names_are_told_as_they_change";
    let Some((lab, server)) = available(test, start("changes")) else {
        return;
    };
    let mut socket = open(server.port());
    socket
        .write_all(format!("GET {NODE}?changes=1 HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
        .expect("a request");
    let mut lines = BufReader::new(socket).lines().map_while(std::io::Result::ok);
    let mut next = |what: &str| {
        let line = lines
            .find(|line| line.starts_with('{') && line.contains(what))
            .expect("a line");
        serde_json::from_str::<Value>(&line).expect("JSON")
    };
    assert_eq!(next("status")["status"]["drain"], "active");
    lab.upload(&url(&server, "f"), b"1", &[]).expect(201);
    assert_eq!(next("changed")["changed"]["files"][0], "/data/f");
    let mut session = RootSocket::session(server.port());
    let handle = session.open("/data/g", open_option::NEW | open_option::UPDATE);
    let _ = session.write(handle, 0, b"2").expect_ok();
    let _ = session.close(handle).expect_ok();
    assert_eq!(next("changed")["changed"]["files"][0], "/data/g");
    // The next status has the order.
    node(&lab, &server, &["drain"]).succeeded();
    assert_eq!(next("no_writes")["status"]["drain"], "no_writes");
}

#[test]
fn strangers_see_nothing_and_order_nothing() {
    let test = "strangers_see_nothing_and_order_nothing";
    let Some((lab, server)) = available(
        test,
        Lab::new("strangers").and_then(|lab| {
            let server = lab.crossload(lab.options("node"))?;
            Ok((lab, server))
        }),
    ) else {
        return;
    };
    // Without configuration, only clients of this machine may look.
    lab.curl(&[&server.url(NODE)]).expect(200);
    let refused = node(&lab, &server, &["drain"]);
    assert!(
        refused.code != Some(0) && refused.said().contains("cluster.operators"),
        "{}",
        refused.said()
    );
    assert_eq!(status(&lab, &server)["drain"], "active");
}
