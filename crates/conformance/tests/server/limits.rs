//! What a server must bear: thousands of idle connections, slow senders, and heads and bodies that
//! no proper client sends. Statuses are those of RFC 9110 and RFC 9112.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Weak;
use std::thread;
use std::time::Duration;

use conformance::{
    Endpoint, Lab, RootSocket, Slot, bytes, exchange, open, parts, read_answer, run_with_input, shared, until, visible,
};
use testkit::{Crossload, Result, available};

struct Site {
    lab: Lab,
    server: Endpoint,
}

static SITE: Slot<Site> = Slot::new(Weak::new());

fn start(name: &str, limits: &str) -> Result<Site> {
    let lab = Lab::new(name)?;
    let mut options = lab.options("server");
    limits.clone_into(&mut options.limits);
    let server = Endpoint::Crossload(Box::new(Crossload::start(options)?));
    Ok(Site { lab, server })
}

fn site() -> Result<std::sync::Arc<Site>> {
    shared(&SITE, || start("limits", ""))
}

const IDLE_CONNECTIONS: usize = 2000;
const SLOW_SENDERS: usize = 200;
/// What one waiting connection may cost, generously.
const CONNECTION_BYTES_MAX: u64 = 32 * 1024;

#[test]
fn two_thousand_idle_connections_cost_little_and_harm_nobody() {
    let test = "two_thousand_idle_connections_cost_little_and_harm_nobody";
    let Some(mut site) = available(test, start("idle", "")) else {
        return;
    };
    let content = bytes(8 << 20, 71);
    let url = site.server.put("file", &content);
    site.lab.curl(&[&url]).expect(200);
    let before = site.server.process().memory().expect("memory").resident_bytes;
    let port = site.server.port();
    let mut idle: Vec<_> = (0..IDLE_CONNECTIONS).map(|_| open(port)).collect();
    // Half of them have been served once and are kept open, the others have said nothing at all.
    for socket in idle.iter_mut().step_by(2) {
        socket
            .write_all(b"HEAD /data/file HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .expect("sent");
    }
    for socket in idle.iter_mut().step_by(2) {
        let mut first = [0; 12];
        std::io::Read::read_exact(socket, &mut first).expect("an answer");
        assert_eq!(&first, b"HTTP/1.1 200");
    }
    assert!(site.lab.curl(&[&url]).expect(200).body == content);
    site.lab.upload(&site.server.url("new"), &content, &[]).expect(201);
    let after = site.server.process().memory().expect("memory").resident_bytes;
    let each = after.saturating_sub(before) / IDLE_CONNECTIONS as u64;
    assert!(each < CONNECTION_BYTES_MAX, "{each} bytes for each connection");
}

#[test]
fn two_hundred_slow_senders_harm_nobody_and_are_given_up() {
    let test = "two_hundred_slow_senders_harm_nobody_and_are_given_up";
    let limits = "head_timeout = \"3s\"\nstall_timeout = \"3s\"\n";
    let Some(site) = available(test, start("slow", limits)) else {
        return;
    };
    let content = bytes(8 << 20, 72);
    let url = site.server.put("file", &content);
    let port = site.server.port();
    let slow: Vec<_> = (0..SLOW_SENDERS)
        .map(|index| {
            let mut socket = open(port);
            let start = if index % 2 == 0 {
                "GET /data/file HTTP/1.1\r\nHost: local".to_owned()
            } else {
                format!("PUT /data/slow-{index} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx")
            };
            socket.write_all(start.as_bytes()).expect("sent");
            socket
        })
        .collect();
    for round in 0..3 {
        assert!(site.lab.curl(&[&url]).expect(200).body == content);
        let target = site.server.url(&format!("new-{round}"));
        site.lab.upload(&target, &content, &[]).expect(201);
    }
    for (index, mut socket) in slow.into_iter().enumerate() {
        let received = read_answer(&mut socket);
        assert!(received.closed, "the slow sender {index} was kept");
        assert_eq!(received.status(), 408, "{index}: {}", received.text);
    }
    until("the slow uploads' parts are gone", Duration::from_secs(10), || {
        parts(site.server.data()).is_empty()
    });
    assert!(site.server.stored("slow-1").is_none());
}

#[test]
fn a_head_sent_byte_by_byte_has_one_deadline() {
    let test = "a_head_sent_byte_by_byte_has_one_deadline";
    let Some(site) = available(test, start("drip", "head_timeout = \"1s\"\n")) else {
        return;
    };
    let mut socket = open(site.server.port());
    let mut writer = socket.try_clone().expect("a second handle");
    let drip = thread::spawn(move || {
        // Longer than the deadline in all, though each pause is short.
        for byte in b"GET /data/file HTTP/1.1\r\nHost: localhost\r\nX-Long: 0123456789012345678901234567890123456789"
            .iter()
            .cycle()
            .take(600)
        {
            if writer.write_all(&[*byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    let received = read_answer(&mut socket);
    assert!(received.closed);
    assert_eq!(received.status(), 408, "{}", received.text);
    drop(socket);
    drip.join().expect("the dripping ends");
}

/// Sends a request in clear text and demands a status and that the connection is closed after it.
#[track_caller]
fn refused(site: &Site, status: u16, request: &[u8]) {
    let received = exchange(site.server.port(), request);
    let shown = String::from_utf8_lossy(&request[..request.len().min(200)]).into_owned();
    assert_eq!(received.statuses(), [status], "{shown:?}\n{}", received.text);
    assert!(received.closed, "kept after {shown:?}");
}

#[test]
fn heads_that_break_the_rules_are_refused() {
    let Some(site) = available("heads_that_break_the_rules_are_refused", site()) else {
        return;
    };
    let head = |lines: &str| format!("PUT /data/framing HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n\r\n");
    for lines in [
        "Content-Length: 3\r\nContent-Length: 4",
        "Content-Length: 3, 4",
        "Content-Length: +3",
        "Content-Length: 3\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, gzip",
        "Content-Length: -1",
        "Content-Length: 99999999999999999999999",
        "Content-Length : 3",
        "X-Folded: a\r\n b\r\nContent-Length: 3",
        "X-Null: a\0b\r\nContent-Length: 3",
    ] {
        refused(&site, 400, format!("{}abc", head(lines)).as_bytes());
    }
    let gzip = head("Transfer-Encoding: gzip, chunked");
    refused(&site, 501, gzip.as_bytes());
    refused(&site, 400, b"GET /data/ HTTP/1.1\nHost: localhost\n\n");
    refused(&site, 400, b"GET /data/ HTTP/1.1\r\n\r\n");
    refused(&site, 400, b"GET /data/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    refused(&site, 400, b"GET data HTTP/1.1\r\nHost: localhost\r\n\r\n");
    refused(&site, 400, b"\x01\x02\x03 nonsense\r\n\r\n");
    // A null byte is how XRootD clients begin; one that goes on otherwise would understand no
    // answer.
    let received = exchange(site.server.port(), b"\x00\x01\x02\x03 nonsense\r\n\r\n");
    assert!(received.closed && received.text.is_empty(), "{}", received.text);
    let long = format!("X-Long: {}", "x".repeat(200_000));
    refused(&site, 431, head(&long).as_bytes());
    let many: String = (0..500).map(|n| format!("X-{n}: y\r\n")).collect();
    refused(&site, 431, head(many.trim_end()).as_bytes());
    assert_eq!(site.server.stored("framing"), None);
}

#[test]
fn chunks_that_break_the_rules_store_nothing() {
    let Some(site) = available("chunks_that_break_the_rules_store_nothing", site()) else {
        return;
    };
    let head = "PUT /data/chunks HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    for body in [
        "zz\r\nabc\r\n0\r\n\r\n",
        "3\nabc\n0\n\n",
        "3\r\nabcdef\r\n0\r\n\r\n",
        "-3\r\nabc\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "3 \r\nabc\r\n0\r\n\r\n",
    ] {
        refused(&site, 400, format!("{head}{body}").as_bytes());
    }
    let endless = format!("{head}3;{}", "x".repeat(100_000));
    refused(&site, 400, endless.as_bytes());
    // An end of the connection is no end of the body.
    let mut socket = open(site.server.port());
    socket
        .write_all(format!("{head}3\r\nabc\r\n").as_bytes())
        .expect("sent");
    socket.shutdown(std::net::Shutdown::Write).expect("half closed");
    let received = read_answer(&mut socket);
    assert!(
        received.statuses().iter().all(|status| *status >= 400),
        "{}",
        received.text
    );
    assert_eq!(site.server.stored("chunks"), None);
    until("no part is left", Duration::from_secs(10), || {
        parts(site.server.data()).is_empty()
    });
}

#[test]
fn a_good_request_behind_another_is_answered_and_one_behind_a_bad_one_is_not() {
    let Some(site) = available("a_good_request_behind_another", site()) else {
        return;
    };
    let good = "GET /data/none HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let last = "GET /data/none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let both = exchange(site.server.port(), format!("{good}{last}").as_bytes());
    assert_eq!(both.statuses(), [404, 404], "{}", both.text);
    // What follows a head with two lengths could be read in two ways, so it is not read at all.
    let smuggled =
        format!("PUT /data/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n{last}");
    let received = exchange(site.server.port(), smuggled.as_bytes());
    assert_eq!(received.statuses(), [400], "{}", received.text);
}

#[test]
fn connections_above_the_limit_are_told_so_and_room_is_used_again() {
    let test = "connections_above_the_limit_are_told_so_and_room_is_used_again";
    let Some(site) = available(test, start("full", "connections = 4\n")) else {
        return;
    };
    let url = site.server.put("file", b"content");
    let clear = site.server.clear_url("file");
    let port = site.server.port();
    // Requests that have begun: idle connections would make room.
    let begin = |_| {
        let mut socket = open(port);
        socket.write_all(b"GET /data/file HTTP/1.1\r\n").expect("sent");
        socket
    };
    let held: Vec<_> = (0..4).map(begin).collect();
    let request = b"GET /data/file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    until("the limit is met", Duration::from_secs(10), || {
        exchange(port, request).status() == 503
    });
    drop(held);
    until("there is room again", Duration::from_secs(10), || {
        site.lab.curl(&[&clear]).status == 200
    });
    site.lab.curl(&[&url]).expect(200);
}

/// A server under this limit of the shell's `ulimit`.
fn start_under(name: &str, limit: &str) -> Result<Site> {
    let lab = Lab::new(name)?;
    let mut options = lab.options("server");
    fs::create_dir_all(&options.directory).expect("a directory");
    let binary = options.directory.join("crossload-under-a-limit");
    let script = format!(
        "#!/bin/sh\nulimit {limit}\nexec {} \"$@\"\n",
        Crossload::binary()?.display()
    );
    fs::write(&binary, script).expect("a script");
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o700)).expect("a script");
    options.binary = Some(binary);
    let server = Endpoint::Crossload(Box::new(Crossload::start(options)?));
    Ok(Site { lab, server })
}

/// Each of 39 connections opens as many files as it gets, as one attacker did to 512 a connection.
#[test]
fn a_client_that_opens_files_without_end_leaves_the_server_to_others() {
    let test = "a_client_that_opens_files_without_end_leaves_the_server_to_others";
    let Some(site) = available(test, start_under("descriptors", "-n 400")) else {
        return;
    };
    let url = site.server.put("file", b"content");
    let port = site.server.port();
    let mut held: Vec<_> = (0..39).map(|_| RootSocket::session(port)).collect();
    let opened = held.iter_mut().map(|session| {
        let opens = std::iter::from_fn(|| Some(session.try_open("/data/file", 0x10)));
        opens.take_while(|answer| answer.status == 0).count()
    });
    let opened: Vec<usize> = opened.collect();
    assert!(opened.iter().all(|count| *count > 0), "{opened:?}");
    site.lab.curl(&[&url]).expect(200);
    site.lab.upload(&site.server.url("new"), b"content", &[]).expect(201);
    let _ = RootSocket::session(port).open("/data/file", 0x10);
    let Endpoint::Crossload(server) = &site.server else {
        unreachable!("it is ours")
    };
    let health = server.admin_url("/health").expect("an admin address");
    site.lab.curl(&[&health]).expect(200);
    let metrics = site
        .lab
        .curl(&[&server.admin_url("/metrics").expect("an admin address")])
        .text();
    assert!(
        metrics.contains("crossload_share_used_up_total{kind=\"open_files\"}"),
        "{metrics}"
    );
    until("the log names the share", Duration::from_secs(10), || {
        server.log().stderr().contains("\"share_used_up\"")
    });
    // As many connections as it can get are no more of a problem.
    let mut silent: Vec<_> = (0..300).map(|_| open(port)).collect();
    site.lab.curl(&[&health]).expect(200);
    let mut other = RootSocket::connect_from([127, 0, 0, 2].into(), port);
    other.greet(0);
    silent.clear();
}

#[test]
fn a_file_larger_than_the_process_may_write_ends_its_upload_only() {
    let test = "a_file_larger_than_the_process_may_write_ends_its_upload_only";
    // 2 or 4 MiB: the unit is the shell's.
    let Some(site) = available(test, start_under("file-size", "-f 4096")) else {
        return;
    };
    let large = bytes(8 << 20, 240);
    site.lab.upload(&site.server.url("announced"), &large, &[]).expect(413);
    let url = site.server.url("chunked");
    let chunked = site.lab.curl_with_input(&["-T", "-", &url], &large);
    assert_eq!(chunked.status, 413, "{}", chunked.heads);
    let root = site
        .lab
        .client(["copy", "-", &site.server.root("root")])
        .expect("a client");
    let copied = run_with_input(&root, &large);
    assert_ne!(copied.code, Some(0), "{}", copied.said());
    until("nothing is left", Duration::from_secs(10), || {
        visible(site.server.data()).is_empty() && parts(site.server.data()).is_empty()
    });
    site.lab
        .upload(&site.server.url("small"), &large[..1 << 20], &[])
        .expect(201);
}

#[test]
fn tls_that_never_comes_about_is_given_up() {
    let test = "tls_that_never_comes_about_is_given_up";
    let Some(site) = available(test, start("handshake", "tls_handshake_timeout = \"1s\"\n")) else {
        return;
    };
    let mut socket = open(site.server.port());
    // The first bytes of a ClientHello, and nothing more.
    socket.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).expect("sent");
    assert!(read_answer(&mut socket).closed);
    let mut tls = conformance::tls(site.server.port(), &site.lab.authority().ca_file());
    tls.write_all(b"GET /data/none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("sent");
    assert_eq!(read_answer(&mut tls).status(), 404);
}
