//! What goes wrong with copies: sources that lie, stall or die, full destinations, clients that
//! leave, servers that are killed. Whatever happens, a file under its final name is whole, and
//! nothing unfinished stays behind.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use conformance::{
    Answer, Endpoint, Lab, Reply, Scripted, Seen, Twins, adler32, background, bytes, last_line, parts,
    reserving_nothing, transfers, until, visible,
};
use serde_json::Value;
use testkit::{Crossload, Direction, Fault, Relay, Result, Tmpfs, available};

/// Quick enough for a test, slow enough for a busy machine.
const LIMITS: &str = "attempts = 3\nstall_timeout = \"2s\"\nfirst_byte_timeout = \"2s\"\nconnect_timeout = \"3s\"\n\
                      marker_period = \"500ms\"\n";
/// How soon a server must have cleaned up.
const SOON: Duration = Duration::from_secs(15);

struct Site {
    lab: Lab,
    server: Endpoint,
    other: Endpoint,
}

fn start(name: &str, change: impl FnOnce(&mut testkit::CrossloadOptions)) -> Result<Site> {
    testkit::require("curl")?;
    let lab = Lab::new(name)?;
    let mut options = lab.options("server");
    LIMITS.clone_into(&mut options.limits);
    change(&mut options);
    let server = Endpoint::Crossload(Box::new(Crossload::start(options)?));
    let other = Endpoint::Crossload(Box::new(Crossload::start(lab.options("other"))?));
    Ok(Site { lab, server, other })
}

/// Servers of its own for each test, so that every part that is found is this test's.
fn site() -> Result<Site> {
    start("faults", |_| {})
}

fn relay_to(port: u16) -> Relay {
    Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).expect("a relay")
}

impl Site {
    fn pull(&self, name: &str, source: &str, headers: &[&str]) -> Answer {
        self.lab
            .copy(&self.server.url(name), &format!("Source: {source}"), headers)
    }

    /// Demands that a copy failed with words that hold `words`, and left nothing under its name or
    /// elsewhere.
    #[track_caller]
    fn assert_failed(&self, name: &str, answer: &Answer, words: &str) {
        let line = last_line(answer);
        assert!(
            line.starts_with("failure: ") && line.contains(words),
            "{}\n{}",
            answer.heads,
            answer.text()
        );
        assert_eq!(self.server.stored(name), None, "{name}");
        self.assert_over(name);
    }

    /// Waits until the copy's end is in the log, and demands that no part is left then.
    #[track_caller]
    fn assert_over(&self, name: &str) {
        until("this copy's end is in the log", SOON, || self.transfer(name).is_some());
        until("no part is left", SOON, || parts(self.server.data()).is_empty());
    }

    fn transfer(&self, name: &str) -> Option<Value> {
        let Endpoint::Crossload(server) = &self.server else {
            return None;
        };
        let path = format!("/data/{name}");
        transfers(server.log())
            .into_iter()
            .find(|line| line["path"] == path.as_str())
    }
}

/// A source whose HEAD tells one length and whose GET keeps to `reply`.
fn liar(announced: usize, reply: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Scripted {
    Scripted::start(move |seen| {
        if seen.method == "HEAD" {
            Reply::Say(format!("HTTP/1.1 200 OK\r\nContent-Length: {announced}\r\nETag: \"1\"\r\n\r\n").into_bytes())
        } else {
            reply(seen)
        }
    })
}

fn get_answer(length: usize, body: &[u8]) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nETag: \"1\"\r\n\r\n").into_bytes();
    answer.extend_from_slice(body);
    answer
}

#[test]
fn sources_that_refuse_are_relayed_with_their_words() {
    let Some(site) = available("sources_that_refuse_are_relayed_with_their_words", site()) else {
        return;
    };
    for (status, ours, words) in [
        ("404 Not Found", 404, "No such file or directory"),
        ("403 Forbidden", 403, "Permission denied"),
    ] {
        let source = Scripted::start(move |seen| Reply::whole(seen, status, &["X-From: test"], b"the peer's words\n"));
        let name = format!("refused/{ours}");
        let answer = site.pull(&name, &source.url("/x"), &[]).expect(ours);
        site.assert_failed(&name, &answer, words);
        assert!(answer.text().contains(&ours.to_string()), "{}", answer.text());
    }
    let failing = Scripted::start(|seen| Reply::whole(seen, "500 Oh", &[], b"disk on fire"));
    let answer = site.pull("refused/500", &failing.url("/x"), &[]);
    site.assert_failed("refused/500", &answer, "500");
    let denied = Scripted::start(|seen| Reply::whole(seen, "401 No", &["WWW-Authenticate: Bearer"], b""));
    let answer = site.pull("refused/401", &denied.url("/x"), &[]);
    site.assert_failed("refused/401", &answer, "401");
    // davix takes a 401 for its own and would ask for credentials again.
    assert_ne!(answer.status, 401);
}

#[test]
fn sources_that_send_more_or_less_than_announced_are_not_believed() {
    let Some(site) = available("sources_that_send_more_or_less", site()) else {
        return;
    };
    let data = bytes(300_000, 81);
    let short = {
        let data = data.clone();
        liar(300_000, move |_| {
            Reply::SayAndClose(get_answer(300_000, &data[..200_000]))
        })
    };
    let answer = site.pull("size/short", &short.url("/x"), &[]);
    site.assert_failed("size/short", &answer, "source");
    let longer = {
        let data = data.clone();
        liar(200_000, move |_| Reply::SayAndClose(get_answer(300_000, &data)))
    };
    let answer = site.pull("size/longer", &longer.url("/x"), &[]);
    site.assert_failed("size/longer", &answer, "source");
    let shorter = liar(300_000, move |_| {
        Reply::SayAndClose(get_answer(200_000, &data[..200_000]))
    });
    let answer = site.pull("size/shorter", &shorter.url("/x"), &[]);
    site.assert_failed("size/shorter", &answer, "source");
}

#[test]
fn data_that_is_not_what_the_source_declares_is_not_stored() {
    let Some(site) = available("data_that_is_not_what_the_source_declares", site()) else {
        return;
    };
    let data = bytes(500_000, 82);
    let wrong = Scripted::start({
        let data = data.clone();
        move |seen| Reply::whole(seen, "200 OK", &["Digest: adler32=01020304"], &data)
    });
    site.server.put("digest/kept", b"the old file");
    let answer = site.pull("digest/kept", &wrong.url("/x"), &[]);
    assert!(last_line(&answer).contains("CHECKSUM MISMATCH"), "{}", answer.text());
    assert_eq!(site.server.stored("digest/kept").as_deref(), Some(&b"the old file"[..]));
    let silent = Scripted::start({
        let data = data.clone();
        move |seen| Reply::whole(seen, "200 OK", &[], &data)
    });
    let required = ["RequireChecksumVerification: true"];
    let answer = site.pull("digest/none", &silent.url("/x"), &required);
    site.assert_failed("digest/none", &answer, "checksum");
    let digest = format!("Digest: adler32={:08x}", adler32(&data));
    let right = Scripted::start({
        let data = data.clone();
        move |seen| Reply::whole(seen, "200 OK", &[&digest], &data)
    });
    let answer = site.pull("digest/right", &right.url("/x"), &required);
    assert_eq!(last_line(&answer), "success: Created", "{}", answer.text());
    assert!(site.server.stored("digest/right") == Some(data));
}

#[test]
fn a_source_that_dies_in_the_middle_is_taken_up_again() {
    let Some(site) = available("a_source_that_dies_in_the_middle_is_taken_up_again", site()) else {
        return;
    };
    let size = 32 << 20;
    let content = bytes(size, 83);
    site.other.put("dies/source", &content);
    for (index, streams) in [1, 4].into_iter().enumerate() {
        let relay = relay_to(site.other.port());
        relay.set_fault(Fault::CutAfter(Direction::ToClient, 6_000_000), 2);
        let name = format!("dies/{index}");
        let source = format!("https://localhost:{}/data/dies/source", relay.port());
        let answer = site.pull(&name, &source, &[&format!("X-Number-Of-Streams: {streams}")]);
        assert_eq!(last_line(&answer), "success: Created", "{}", answer.text());
        assert!(site.server.stored(&name) == Some(content.clone()));
        assert_eq!(relay.struck(), 2);
        site.assert_over(&name);
        let told = site.transfer(&name).expect("a line in the log");
        assert!(told["resumed"].as_u64().is_some_and(|count| count >= 1), "{told}");
        if streams == 1 {
            // What had come was not asked for again.
            let passed = relay.passed_bytes(Direction::ToClient);
            assert!(passed < size as u64 + 6_000_000, "{passed} bytes for a file of {size}");
        }
    }
}

#[test]
fn a_source_that_stays_away_fails_the_copy_cleanly() {
    let Some(site) = available("a_source_that_stays_away_fails_the_copy_cleanly", site()) else {
        return;
    };
    site.other.put("away/source", &bytes(16 << 20, 84));
    let relay = relay_to(site.other.port());
    relay.set_fault(Fault::StallAfter(Direction::ToClient, 3_000_000), usize::MAX);
    let url = format!("https://localhost:{}/data/away/source", relay.port());
    thread::scope(|scope| {
        let copy = scope.spawn(|| site.pull("away/target", &url, &[]));
        until("some of it has come", SOON, || {
            relay.passed_bytes(Direction::ToClient) >= 3_000_000
        });
        // Resets what is open and refuses what comes.
        drop(relay);
        let answer = copy.join().expect("curl ran");
        site.assert_failed("away/target", &answer, "source");
        let told = site.transfer("away/target").expect("a line in the log");
        assert!(told["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{told}");
    });
}

#[test]
fn a_source_that_stalls_is_given_up() {
    let Some(site) = available("a_source_that_stalls_is_given_up", site()) else {
        return;
    };
    let data = bytes(400_000, 85);
    let stalled = liar(400_000, move |seen| {
        if seen.header("Range").is_none() {
            return Reply::SayAndStall(get_answer(400_000, &data[..100_000]));
        }
        let rest = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 100000-399999/400000\r\n\
                    ETag: \"1\"\r\nContent-Length: 300000\r\n\r\n";
        Reply::SayAndStall(rest.into())
    });
    let answer = site.pull("stall/target", &stalled.url("/x"), &[]);
    site.assert_failed("stall/target", &answer, "timed out");
    assert!(answer.text().matches("Perf Marker").count() >= 3, "{}", answer.text());
    let mute = Scripted::start(|_| Reply::SayAndStall(Vec::new()));
    let answer = site.pull("stall/mute", &mute.url("/x"), &[]);
    site.assert_failed("stall/mute", &answer, "timed out");
}

#[test]
fn a_full_destination_is_told_before_and_during() {
    let test = "a_full_destination_is_told_before_and_during";
    let Some(lab) = available(test, Lab::new("full")) else {
        return;
    };
    let Some(small) = available(test, Tmpfs::mount(&lab.fresh("small"), 24 << 20)) else {
        return;
    };
    let mut options = lab.options("server");
    options.exports[0].directory = small.path().join("data");
    let Some(other) = available(test, lab.crossload(lab.options("other"))) else {
        return;
    };
    let other = Endpoint::Crossload(Box::new(other));
    let Some(server) = available(test, lab.crossload(reserving_nothing(options))) else {
        return;
    };
    let server = Endpoint::Crossload(Box::new(server));
    let large = bytes(40 << 20, 86);
    let source = other.put("large", &large);
    let answer = lab.copy(&server.url("pulled"), &format!("Source: {source}"), &[]);
    assert!(
        last_line(&answer).contains("No space left on device"),
        "{}\n{}",
        answer.heads,
        answer.text()
    );
    let early = lab
        .upload(&server.url("put"), &large, &["Expect: 100-continue"])
        .expect(507);
    assert!(!early.heads.contains("100 Continue"), "{}", early.heads);
    // The size of a chunked body is unknown beforehand.
    let chunked = lab.curl_with_input(&["-T", "-", &server.url("chunked")], &large);
    assert_eq!(chunked.status, 507, "{}", chunked.heads);
    let pushed = lab.copy(&source, &format!("Destination: {}", server.url("pushed")), &[]);
    assert!(
        last_line(&pushed).contains("507"),
        "{}\n{}",
        pushed.heads,
        pushed.text()
    );
    until("nothing is left", SOON, || {
        visible(server.data()).is_empty() && parts(server.data()).is_empty()
    });
    // What fits still does.
    lab.upload(&server.url("fits"), &large[..4 << 20], &[]).expect(201);
}

#[test]
fn a_quota_is_kept() {
    let Some(site) = available(
        "a_quota_is_kept",
        start("quota", |options| options.exports[0].quota_bytes = 10 << 20),
    ) else {
        return;
    };
    let (lab, server) = (&site.lab, &site.server);
    lab.upload(&server.url("first"), &bytes(6 << 20, 87), &[]).expect(201);
    let answer = lab.upload(&server.url("second"), &bytes(6 << 20, 88), &[]).expect(507);
    assert!(answer.text().contains("quota"), "{}", answer.text());
    let source = site.other.put("source", &bytes(6 << 20, 89));
    let answer = site.pull("third", &source, &[]);
    site.assert_failed("third", &answer, "quota");
    lab.request("DELETE", &server.url("first"), &[]).expect(204);
    lab.upload(&server.url("second"), &bytes(6 << 20, 88), &[]).expect(201);
}

#[test]
fn a_client_that_leaves_ends_its_copy() {
    let Some(site) = available("a_client_that_leaves_ends_its_copy", start("leaves", |_| {})) else {
        return;
    };
    site.other.put("source", &bytes(64 << 20, 90));
    let relay = relay_to(site.other.port());
    relay.set_fault(Fault::Delay(Direction::ToClient, Duration::from_millis(5)), usize::MAX);
    let source = format!("Source: https://localhost:{}/data/source", relay.port());
    let mut command = site
        .lab
        .curl_command(&["-X", "COPY", "-H", &source, &site.server.url("left")])
        .expect("curl");
    let mut client = background(&mut command, site.lab.scratch()).expect("curl starts");
    until("a part is begun", SOON, || !parts(site.server.data()).is_empty());
    client.kill_hard();
    until("the part is gone", SOON, || parts(site.server.data()).is_empty());
    site.assert_over("left");
    let told = site.transfer("left").expect("a line in the log");
    assert_eq!(told["outcome"], "client_gone", "{told}");
    assert_eq!(site.server.stored("left"), None);
}

#[test]
fn credentials_do_not_follow_to_another_origin() {
    let Some(site) = available("credentials_do_not_follow_to_another_origin", site()) else {
        return;
    };
    let data = bytes(10_000, 91);
    let target = Scripted::start({
        let data = data.clone();
        move |seen| Reply::whole(seen, "200 OK", &[], &data)
    });
    let (elsewhere, within) = (
        format!("Location: {}", target.url("/data?ticket=1")),
        "Location: /there".to_owned(),
    );
    let head = Scripted::start(move |seen| match seen.path.as_str() {
        "/elsewhere" => Reply::whole(seen, "307 Temporary Redirect", &[&elsewhere], b""),
        "/within" => Reply::whole(seen, "302 Found", &[&within], b""),
        "/loop" => Reply::whole(seen, "302 Found", &["Location: /loop"], b""),
        _ => Reply::whole(seen, "200 OK", &[], b"from within"),
    });
    let token = [
        "TransferHeaderAuthorization: Bearer secret-of-the-head-node",
        "Credential: none",
    ];
    let answer = site.pull("redirect/elsewhere", &head.url("/elsewhere"), &token);
    assert_eq!(last_line(&answer), "success: Created", "{}", answer.text());
    assert!(site.server.stored("redirect/elsewhere") == Some(data));
    let seen = target.seen();
    assert!(
        !seen.is_empty() && seen.iter().all(|request| request.header("Authorization").is_none()),
        "{seen:?}"
    );
    assert!(seen.iter().all(|request| request.path == "/data?ticket=1"), "{seen:?}");
    let answer = site.pull("redirect/within", &head.url("/within"), &token);
    assert_eq!(last_line(&answer), "success: Created", "{}", answer.text());
    let token = Some("Bearer secret-of-the-head-node");
    assert!(
        head.seen()
            .iter()
            .all(|request| request.header("Authorization") == token)
    );
    let answer = site.pull("redirect/loop", &head.url("/loop"), &[]);
    site.assert_failed("redirect/loop", &answer, "Too many redirects");
}

#[test]
fn headers_to_hand_over_arrive_and_others_do_not() {
    let Some(site) = available("headers_to_hand_over_arrive_and_others_do_not", site()) else {
        return;
    };
    let source = Scripted::start(|seen| Reply::whole(seen, "200 OK", &[], b"content"));
    let headers = [
        "TransferHeaderAuthorization: bearer lower-case",
        "transferheaderX-Custom: one",
        "Copy-Header: X-Older: two",
        "TransferHeaderHost: evil",
        "TransferHeaderContent-Length: 99",
        "Authorization-Unrelated: three",
        "ClientInfo: job-id=7;file-id=8",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "SciTag: 131",
    ];
    let answer = site.pull("headers/target", &source.url("/x"), &headers);
    assert_eq!(last_line(&answer), "success: Created", "{}", answer.text());
    let seen = source.seen();
    assert!(seen.iter().any(|request| request.method == "GET"));
    for request in &seen {
        assert_eq!(request.header("Authorization"), Some("bearer lower-case"));
        assert_eq!(request.header("X-Custom"), Some("one"));
        assert_eq!(request.header("X-Older"), Some("two"));
        assert!(
            request
                .header("Host")
                .is_some_and(|host| host.starts_with("localhost:")),
            "{request:?}"
        );
        assert_ne!(request.header("Content-Length"), Some("99"));
        assert_eq!(request.header("Authorization-Unrelated"), None);
        let trace = request.header("traceparent").unwrap_or_default();
        assert!(trace.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{trace}");
    }
    site.assert_over("headers/target");
    let told = site.transfer("headers/target").expect("a line in the log");
    assert_eq!(told["client_info"], "job-id=7;file-id=8", "{told}");
    assert_eq!(told["scitag"], 131, "{told}");
}

#[test]
fn loopback_is_refused_unless_allowed() {
    let test = "loopback_is_refused_unless_allowed";
    let Some(site) = available(test, start("local", |options| options.allow_local_peers = false)) else {
        return;
    };
    let source = Scripted::start(|seen| Reply::whole(seen, "200 OK", &[], b"internal"));
    for url in [
        source.url("/x"),
        source.other_origin("/x"),
        source.url("/x").replace("localhost", "[::ffff:127.0.0.1]"),
        source.url("/x").replace("localhost", "127.1.2.3"),
        "http://169.254.169.254/latest".to_owned(),
    ] {
        let answer = site.pull("local/pulled", &url, &[]).expect(403);
        assert!(!answer.text().contains("internal"), "{}", answer.text());
    }
    site.server.put("local/file", b"own");
    let push = format!("Destination: {}", source.url("/pushed"));
    site.lab.copy(&site.server.url("local/file"), &push, &[]).expect(403);
    assert!(source.seen().is_empty(), "{:?}", source.seen());
    assert_eq!(site.server.stored("local/pulled"), None);
}

#[test]
fn secrets_do_not_reach_logs_and_answers() {
    let test = "secrets_do_not_reach_logs_and_answers";
    let Some(lab) = available(test, Lab::new("secrets")) else {
        return;
    };
    let Some(twins) = available(test, Twins::start(&lab, "twins")) else {
        return;
    };
    let failing = Scripted::start(|seen| Reply::whole(seen, "403 No", &[], b"no"));
    let token = twins.macaroon(&lab, "file", "UPLOAD,DOWNLOAD,DELETE");
    let own = format!("Authorization: Bearer {token}");
    let hand_over = format!("TransferHeaderAuthorization: Bearer {token}");
    let source = format!("Source: {}?authz=Bearer%20{token}", failing.url("/x"));
    let failed = lab.copy(&twins.guarded.url("file"), &source, &[&own, &hand_over]);
    assert!(
        !failed.text().contains(&token) && !failed.heads.contains(&token),
        "{}",
        failed.text()
    );
    lab.upload(
        &format!("{}?authz=Bearer%20{token}", twins.guarded.url("file")),
        b"x",
        &[],
    )
    .expect(201);
    let bad = format!("Authorization: Bearer {}", &token[..token.len() - 4]);
    assert!(
        !lab.upload(&twins.guarded.url("file"), b"x", &[&bad])
            .expect(401)
            .text()
            .contains(&token[..40])
    );
    for server in [&twins.open, &twins.guarded] {
        let Endpoint::Crossload(server) = server else { continue };
        let said = server.log().stderr() + &server.log().stdout();
        assert!(said.contains("\"request\""), "{said}");
        // A prefix would do: macaroons of one server begin alike, so a piece from the middle is
        // looked for.
        for piece in [&token[..], &token[token.len() / 2..token.len() / 2 + 40]] {
            assert!(!said.contains(piece), "the token is in the log");
        }
    }
}

/// Twenty copies are under way when a server is killed; it comes back. No file is under its name
/// that is not whole, and no part is left.
fn killed_in_the_middle(name: &str, kill_destination: bool) {
    let Some(mut site) = available(name, start(name, |_| {})) else {
        return;
    };
    let content = bytes(12 << 20, 92);
    site.other.put("source", &content);
    let relay = relay_to(site.other.port());
    // Slow enough that all of them are under way at once.
    relay.set_fault(Fault::Delay(Direction::ToClient, Duration::from_millis(25)), usize::MAX);
    let url = format!("Source: https://localhost:{}/data/source", relay.port());
    site.server.put("kept-0", b"an old file");
    let mut clients: Vec<_> = (0..20)
        .map(|index| {
            let target = site.server.url(&format!("kept-{index}"));
            let mut command = site
                .lab
                .curl_command(&["-X", "COPY", "-H", &url, &target])
                .expect("curl");
            background(&mut command, site.lab.scratch()).expect("curl starts")
        })
        .collect();
    until("all parts are begun", Duration::from_secs(60), || {
        let begun = parts(site.server.data());
        begun
            .iter()
            .filter(|part| part.metadata().is_ok_and(|facts| facts.len() > 0))
            .count()
            >= 20
    });
    let victim = if kill_destination {
        &mut site.server
    } else {
        &mut site.other
    };
    victim.process().kill_hard();
    let Endpoint::Crossload(server) = victim else {
        unreachable!("both are ours")
    };
    server.start_again().expect("it comes up again");
    relay.heal();
    for client in &mut clients {
        client
            .wait_for("over", Duration::from_secs(60), |_| None::<()>)
            .expect_err("curl ends");
    }
    until("no part is left", SOON, || parts(site.server.data()).is_empty());
    for index in 0..20 {
        let stored = site.server.stored(&format!("kept-{index}"));
        let is_old = index == 0 && stored.as_deref() == Some(&b"an old file"[..]);
        assert!(
            stored.is_none() || is_old || stored.as_ref() == Some(&content),
            "kept-{index} is not whole"
        );
    }
    // It works as before.
    let source = site.other.url("source");
    let answer = site.pull("after", &source, &[]);
    assert_eq!(last_line(&answer), "success: Created", "{}", answer.text());
}

#[test]
fn a_killed_destination_leaves_whole_files_and_no_parts() {
    killed_in_the_middle("killed-destination", true);
}

#[test]
fn a_killed_source_leaves_whole_files_and_no_parts() {
    killed_in_the_middle("killed-source", false);
}
