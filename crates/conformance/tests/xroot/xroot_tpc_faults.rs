//! What goes wrong with third-party copies of the XRootD protocol, said by hand: keys that are used
//! twice, by others or for another file, sources that die, clients that leave, servers that are
//! killed. Nothing unfinished stays behind.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use conformance::{
    Frame, Lab, RootSocket, alone, assert_root_alive, bytes, last_line, opcode, open_option, parameters, parts, status,
    until, visible,
};
use testkit::{Crossload, CrossloadOptions, Direction, Fault, Relay, XrootdAccess, available, require};

/// How soon a server must have cleaned up.
const SOON: Duration = Duration::from_secs(15);
/// Make a file, replace what there is, and make the directories that lead to it.
const UPLOAD: u16 = open_option::DELETE | open_option::UPDATE | open_option::MAKE_PATH;
/// Quick enough for a test, slow enough for a busy machine.
const LIMITS: &str = "attempts = 2\nstall_timeout = \"2s\"\nfirst_byte_timeout = \"2s\"\nconnect_timeout = \"2s\"\n";
/// How this client is called between two servers: the user and the process of its login, and its
/// host.
const CLIENT: &str = "tester.1234@localhost";
const SIZE: usize = 16 << 20;

/// A source with a file of [`SIZE`] bytes behind a relay, and a destination.
struct Parties {
    // The first is dropped first: a stopping server waits for what it is sending.
    relay: Relay,
    source: Crossload,
    destination: Crossload,
    content: Vec<u8>,
    lab: Lab,
}

fn parties(test: &str, change: impl FnOnce(&mut CrossloadOptions)) -> Option<Parties> {
    let (lab, destination) = alone(test, |options| {
        LIMITS.clone_into(&mut options.limits);
        change(options);
    })?;
    let mut options = lab.options("source");
    options.tpc = "key_lifetime = \"2s\"\n".to_owned();
    let source = available(test, lab.crossload(options))?;
    let content = bytes(SIZE, 271);
    std::fs::write(source.data().join("file"), &content).expect("written");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, source.port()));
    let relay = available(test, Relay::start(address))?;
    Some(Parties {
        lab,
        source,
        destination,
        relay,
        content,
    })
}

/// The path that registers a key at a source.
fn registering(path: &str, key: &str) -> String {
    format!("{path}?tpc.dst=localhost&tpc.key={key}&tpc.stage=copy")
}

/// The path that a destination comes with.
fn claiming(path: &str, key: &str, client: &str) -> String {
    format!("{path}?tpc.key={key}&tpc.org={client}")
}

/// The answer that was put off, if it was.
#[track_caller]
fn in_the_end<S: std::io::Read + std::io::Write>(client: &mut RootSocket<S>, answer: Frame) -> Frame {
    if answer.status != status::LATER {
        return answer;
    }
    let late = client.frame().expect("the late answer").late();
    assert_eq!(late.stream, answer.stream, "{}", late.words());
    late
}

/// A client's two sessions in the middle of a copy: the destination has promised its answer.
struct Ordered {
    destination: RootSocket<TcpStream>,
    handle: [u8; 4],
    promise: Frame,
    _source: RootSocket<TcpStream>,
}

impl Parties {
    /// The path that orders a copy of `/data/file` at the destination, from the relay.
    fn order_path(&self, name: &str, key: &str) -> String {
        let source = format!("localhost:{}", self.relay.port());
        format!(
            "/data/{name}?oss.asize={SIZE}&tpc.dlg={source}&tpc.dlgon=0&tpc.key={key}&tpc.lfn=/data/file&tpc.spr=root\
             &tpc.src={source}&tpc.stage=copy&tpc.str=1&tpc.tpr=root"
        )
    }

    /// Orders a copy up to the promise of an answer.
    #[track_caller]
    fn order(&self, name: &str, key: &str) -> Ordered {
        let mut destination = RootSocket::session(self.destination.port());
        let handle = destination.open(&self.order_path(name, key), UPLOAD);
        let sync = parameters(&[&handle]);
        let _ = destination.ask(1, opcode::SYNC, &sync, &[]).expect_ok();
        let mut source = RootSocket::session(self.source.port());
        let _ = source.open(&registering("/data/file", key), open_option::READ);
        let promise = destination.ask(1, opcode::SYNC, &sync, &[]);
        assert_eq!(promise.status, status::LATER, "{}", promise.words());
        Ordered {
            destination,
            handle,
            promise,
            _source: source,
        }
    }

    /// Holds the source's data back in the middle.
    fn hold(&self) {
        self.relay
            .set_fault(Fault::StallAfter(Direction::ToClient, (SIZE / 2) as u64), usize::MAX);
    }

    /// Waits until the destination has a part with something in it.
    #[track_caller]
    fn wait_begun(&self) {
        until("a part is begun", SOON, || {
            let begun = |part: &std::path::PathBuf| part.metadata().is_ok_and(|facts| facts.len() > 0);
            parts(self.destination.data()).iter().any(begun)
        });
    }

    /// Demands that the destination has only what it had.
    #[track_caller]
    fn assert_nothing_left(&self) {
        until("all parts are gone", SOON, || parts(self.destination.data()).is_empty());
        assert_eq!(visible(self.destination.data()), ["alive"]);
        assert_root_alive(self.destination.port());
    }
}

#[test]
fn a_copy_by_hand_arrives() {
    let Some(parties) = parties("a_copy_by_hand_arrives", |_| {}) else {
        return;
    };
    let mut ordered = parties.order("copy/by-hand", "key-1");
    let _ = in_the_end(&mut ordered.destination, ordered.promise).expect_ok();
    let _ = ordered.destination.close(ordered.handle).expect_ok();
    let stored = std::fs::read(parties.destination.data().join("copy/by-hand")).ok();
    assert!(stored.as_ref() == Some(&parties.content));
    assert!(parties.lab.scratch().path().is_dir());
}

#[test]
fn a_key_holds_once_for_one_file_one_client_and_one_host() {
    let test = "a_key_holds_once_for_one_file_one_client_and_one_host";
    let started = alone(test, |options| options.tpc = "key_lifetime = \"2s\"\n".to_owned());
    let Some((_lab, server)) = started else { return };
    std::fs::write(server.data().join("other"), b"other").expect("written");
    let port = server.port();
    let claim = |client: &mut RootSocket<TcpStream>, path: &str| {
        let answer = client.try_open(path, open_option::READ);
        in_the_end(client, answer)
    };
    let mut owner = RootSocket::session(port);
    let _ = owner.open(&registering("/data/alive", "k1"), open_option::READ);
    // A key that is known cannot be registered again.
    let twice = owner.try_open(&registering("/data/other", "k1"), open_option::READ);
    assert_eq!(twice.status, status::ERROR, "{}", twice.words());
    // By another client, for another file, and from another host: none of them uses it up.
    let mut destination = RootSocket::session(port);
    for path in [
        claiming("/data/alive", "k1", "somebody.1234@localhost"),
        claiming("/data/other", "k1", CLIENT),
        claiming("/data/alive", "another-key", CLIENT),
    ] {
        let refused = claim(&mut destination, &path);
        assert_eq!(refused.error(), 3010, "{path}: {}", refused.words());
    }
    // Another host than the one that was named (an address of the documentation's, RFC 5737).
    let abroad = registering("/data/alive", "k2").replace("localhost", "192.0.2.7");
    let _ = owner.try_open(&abroad, open_option::READ).expect_ok();
    let refused = claim(&mut destination, &claiming("/data/alive", "k2", CLIENT));
    assert_eq!(refused.error(), 3010, "{}", refused.words());
    // As it was registered, it works, and once.
    let _ = owner
        .try_open(&registering("/data/alive", "k3"), open_option::READ)
        .expect_ok();
    let granted = claim(&mut destination, &claiming("/data/alive", "k3", CLIENT)).expect_ok();
    let handle: [u8; 4] = granted[..4].try_into().expect("a handle");
    assert_eq!(destination.read(handle, 0, 100).expect_ok(), b"content");
    let replayed = claim(&mut destination, &claiming("/data/alive", "k3", CLIENT));
    assert_eq!(replayed.error(), 3010, "{}", replayed.words());
    // Both sides at once is neither.
    let both = format!("{}&tpc.org={CLIENT}", registering("/data/alive", "k4"));
    owner.try_open(&both, open_option::READ).expect_error(3000);
    assert_root_alive(port);
}

#[test]
fn who_comes_first_waits_for_the_key() {
    let test = "who_comes_first_waits_for_the_key";
    let Some((_lab, server)) = alone(test, |_| {}) else {
        return;
    };
    let mut destination = RootSocket::session(server.port());
    let path = claiming("/data/alive", "early", CLIENT);
    let answer = destination.try_open(&path, open_option::READ);
    assert_eq!(answer.status, status::LATER, "{}", answer.words());
    let mut owner = RootSocket::session(server.port());
    let _ = owner.open(&registering("/data/alive", "early"), open_option::READ);
    let late = in_the_end(&mut destination, answer);
    // XRootD says "wait for no time", upon which the request is made again; the answer itself will
    // do too.
    let granted = if late.status == 4005 {
        assert_eq!(late.number(0), 0);
        destination.try_open(&path, open_option::READ)
    } else {
        late
    };
    assert!(granted.expect_ok().len() >= 4);
}

#[test]
fn orders_that_make_no_sense_are_refused() {
    let Some(parties) = parties("orders_that_make_no_sense_are_refused", |_| {}) else {
        return;
    };
    let mut client = RootSocket::session(parties.destination.port());
    let good = parties.order_path("senseless", "key-2");
    for (what, path) in [
        (
            "no source",
            good.replace("tpc.src=", "tpc.none=").replace("tpc.dlg=", "tpc.none2="),
        ),
        ("streams that are no number", good.replace("tpc.str=1", "tpc.str=many")),
        (
            "a source that is no host",
            good.replace("tpc.src=localhost", "tpc.src=local host"),
        ),
        (
            "a relative path",
            good.replace("tpc.lfn=/data/file", "tpc.lfn=data/file"),
        ),
    ] {
        let opened = client.try_open(&path, UPLOAD);
        // Some of it may be seen only when the copy is prepared.
        let refused = if opened.status == status::OK {
            let handle: [u8; 4] = opened.body[..4].try_into().expect("a handle");
            let answer = client.ask(1, opcode::SYNC, &parameters(&[&handle]), &[]);
            let _ = client.close(handle);
            answer
        } else {
            opened
        };
        assert_eq!(refused.status, status::ERROR, "{what}: {}", refused.words());
    }
    drop(client);
    parties.assert_nothing_left();
}

#[test]
fn loopback_is_not_copied_from_unless_allowed() {
    let test = "loopback_is_not_copied_from_unless_allowed";
    let Some(parties) = parties(test, |options| options.allow_local_peers = false) else {
        return;
    };
    if available(test, require("xrdcp")).is_none() {
        return;
    }
    let source = format!("root://localhost:{}//data/file", parties.source.port());
    let target = parties.destination.root_url("/data/refused");
    let refused = parties.lab.xrdcp(&["--tpc", "only", &source, &target]);
    assert_ne!(refused.code, Some(0), "{}", refused.said());
    parties.assert_nothing_left();
}

#[test]
fn a_client_that_leaves_at_the_second_sync_ends_the_copy() {
    let test = "a_client_that_leaves_at_the_second_sync_ends_the_copy";
    let Some(parties) = parties(test, |options| options.limits.clear()) else {
        return;
    };
    parties.hold();
    let ordered = parties.order("left", "key-3");
    parties.wait_begun();
    drop(ordered);
    parties.assert_nothing_left();
}

#[test]
fn a_copy_is_called_off() {
    let test = "a_copy_is_called_off";
    let Some(parties) = parties(test, |options| options.limits.clear()) else {
        return;
    };
    parties.hold();
    let mut ordered = parties.order("called-off", "key-4");
    parties.wait_begun();
    // The file shows how far it is.
    let facts = parameters(&[&[0; 12], &ordered.handle]);
    let facts = ordered.destination.ask(2, opcode::STAT, &facts, &[]).expect_ok();
    assert!(!facts.is_empty());
    let call_off = parameters(&[&64_u16.to_be_bytes(), &[0, 0], &ordered.handle]);
    ordered
        .destination
        .send(3, opcode::QUERY, &call_off, b"ofs.tpc cancel\0");
    // The answer to this and the end of the copy, in any order.
    let frames = [(); 2].map(|()| ordered.destination.frame().expect("an answer"));
    assert!(
        frames
            .iter()
            .any(|frame| frame.stream == 3 && frame.status == status::OK),
        "{frames:?}"
    );
    let ended = frames
        .iter()
        .find(|frame| frame.status == status::ATTENTION)
        .expect("the end of the copy");
    assert_eq!(ended.body[10..12], status::ERROR.to_be_bytes(), "{}", ended.words());
    let _ = ordered.destination.close(ordered.handle);
    parties.assert_nothing_left();
}

#[test]
fn a_source_that_dies_in_the_middle_is_told() {
    let test = "a_source_that_dies_in_the_middle_is_told";
    let Some(mut parties) = parties(test, |_| {}) else {
        return;
    };
    parties.hold();
    let mut ordered = parties.order("dead-source", "key-5");
    parties.wait_begun();
    parties.source.process().kill_hard();
    let ended = in_the_end(&mut ordered.destination, ordered.promise);
    assert_eq!(ended.status, status::ERROR, "{}", ended.words());
    let _ = ordered.destination.close(ordered.handle);
    drop(ordered.destination);
    parties.assert_nothing_left();
}

#[test]
fn what_is_damaged_on_the_way_is_never_shown() {
    let test = "what_is_damaged_on_the_way_is_never_shown";
    let Some(parties) = parties(test, |_| {}) else { return };
    // Uploaded to, the source knows the checksum, and tells it before any data; if it were late all
    // the same, the pages would have checksums of their own, and the damaged one would be asked for
    // again.
    parties
        .lab
        .upload(&parties.source.url("/data/file"), &parties.content, &[])
        .expect(204);
    parties
        .relay
        .set_fault(Fault::FlipBitAfter(Direction::ToClient, (SIZE / 2) as u64), 1);
    let mut ordered = parties.order("damaged", "key-7");
    let ended = in_the_end(&mut ordered.destination, ordered.promise);
    assert_eq!(parties.relay.struck(), 1);
    let _ = ordered.destination.close(ordered.handle);
    if ended.status == status::ERROR {
        assert!(ended.words().contains("checksum"), "{}", ended.words());
        parties.assert_nothing_left();
    } else {
        let stored = std::fs::read(parties.destination.data().join("damaged")).expect("stored");
        assert!(stored == parties.content, "damage was stored");
    }
}

#[test]
fn a_source_that_stalls_is_given_up() {
    let test = "a_source_that_stalls_is_given_up";
    let Some(parties) = parties(test, |_| {}) else { return };
    // The session is begun and the file opened, and then nothing comes.
    parties
        .relay
        .set_fault(Fault::StallAfter(Direction::ToClient, 400), usize::MAX);
    let mut ordered = parties.order("stalled", "key-6");
    let ended = in_the_end(&mut ordered.destination, ordered.promise);
    assert_eq!(ended.status, status::ERROR, "{}", ended.words());
    let _ = ordered.destination.close(ordered.handle);
    parties.assert_nothing_left();
}

#[test]
fn a_key_that_nobody_registers_is_not_waited_for_long() {
    let test = "a_key_that_nobody_registers_is_not_waited_for_long";
    let Some(parties) = parties(test, |options| options.limits.clear()) else {
        return;
    };
    let mut client = RootSocket::session(parties.destination.port());
    let handle = client.open(&parties.order_path("unregistered", "key-7"), UPLOAD);
    let sync = parameters(&[&handle]);
    let _ = client.ask(1, opcode::SYNC, &sync, &[]).expect_ok();
    let answer = client.ask(1, opcode::SYNC, &sync, &[]);
    let ended = in_the_end(&mut client, answer);
    assert_eq!(ended.status, status::ERROR, "{}", ended.words());
    let _ = client.close(handle);
    parties.assert_nothing_left();
}

#[test]
fn a_destination_that_is_killed_shows_nothing_unfinished() {
    let test = "a_destination_that_is_killed_shows_nothing_unfinished";
    let Some(mut parties) = parties(test, |options| options.limits.clear()) else {
        return;
    };
    parties.hold();
    let mut ordered = parties.order("killed", "key-8");
    parties.wait_begun();
    parties.destination.process().kill_hard();
    assert!(ordered.destination.until_closed().is_empty());
    assert_eq!(visible(parties.destination.data()), ["alive"]);
    parties.destination.start_again().expect("it starts again");
    parties.assert_nothing_left();
}

#[test]
fn a_server_that_takes_no_part_sends_clients_on() {
    let test = "a_server_that_takes_no_part_sends_clients_on";
    let Some(parties) = parties(test, |_| {}) else { return };
    if available(test, require("xrdcp").and_then(|_| require("curl"))).is_none() {
        return;
    }
    let lab = &parties.lab;
    let mut options = lab.options("forwarder");
    // The same files.
    options.exports[0].directory = parties.destination.data().to_owned();
    options.tpc = format!("forward_to = [\"https://localhost:{}\"]\n", parties.destination.port());
    let forwarder = lab.crossload(options).expect("it starts");
    let source = format!("root://localhost:{}//data/file", parties.source.port());
    lab.xrdcp(&["--tpc", "only", &source, &forwarder.root_url("/data/by-root")])
        .succeeded();
    let by_http = lab.curl(&[
        "-L",
        "-X",
        "COPY",
        "-H",
        &format!("Source: {}", parties.source.url("/data/file")),
        &forwarder.url("/data/by-http"),
    ]);
    assert!(last_line(&by_http).starts_with("success"), "{}", by_http.text());
    for name in ["by-root", "by-http"] {
        let stored = std::fs::read(parties.destination.data().join(name)).ok();
        assert!(stored.as_ref() == Some(&parties.content), "{name}");
    }
    // What is no third-party copy it does itself.
    assert_root_alive(forwarder.port());
}

#[test]
fn a_copy_ordered_over_http_comes_over_the_other_protocol() {
    let test = "a_copy_ordered_over_http_comes_over_the_other_protocol";
    let Some(parties) = parties(test, |_| {}) else { return };
    let lab = &parties.lab;
    let theirs = available(
        test,
        require("curl").and_then(|_| lab.xrootd("theirs", XrootdAccess::Open)),
    );
    let Some(theirs) = theirs else { return };
    std::fs::write(theirs.data().join("file"), &parties.content).expect("written");
    for (name, source) in [
        (
            "from-ours",
            format!("root://localhost:{}//data/file", parties.source.port()),
        ),
        (
            "from-ours-tls",
            format!("roots://localhost:{}//data/file", parties.source.port()),
        ),
        ("from-theirs", theirs.root_url("/data/file")),
    ] {
        let target = parties.destination.url(&format!("/data/{name}"));
        let answer = lab.copy(&target, &format!("Source: {source}"), &[]);
        assert!(last_line(&answer).starts_with("success"), "{name}: {}", answer.text());
        let stored = std::fs::read(parties.destination.data().join(name)).ok();
        assert!(stored.as_ref() == Some(&parties.content), "{name}");
    }
}
