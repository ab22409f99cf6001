//! Third-party copies of the XRootD protocol over several streams. The key opens the source once,
//! so the streams are connections bound to that one session: from ours and from XRootD, and on one
//! stream from a source that binds none.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use conformance::{Endpoint, Lab, adler32, alone, bytes, requests, requests_with, transfers, until};
use testkit::{Crossload, XrootdAccess, available, require};

/// Several blocks, so that several streams make sense.
const SIZE: usize = (64 << 20) + 12_345;

/// How long a line of the log may stay away.
const SOON: Duration = Duration::from_secs(15);

/// What a client says first: the hello, and the request that announces what the connection is to
/// become.
const OPENING_BYTES: usize = 44;
/// Where the announcement stands, and what it is for a connection that is to be bound to a session.
const ANNOUNCED: (usize, u8) = (29, 1);

/// What a relay does with connections that are to be bound to a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    /// It turns them away.
    Refused,
    /// It breaks the first one in the middle of the data.
    Broken,
}

/// How much comes on a connection before it breaks: less than a block.
const BROKEN_AFTER_BYTES: u64 = (5 << 20) + 77;

/// A relay in front of a source. It ends with the test's process.
struct Relay {
    port: u16,
    /// Connections that were to be bound.
    bound: Arc<AtomicUsize>,
}

impl Relay {
    fn start(target: u16, what: Bound) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let bound = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&bound);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let count = Arc::clone(&count);
                thread::spawn(move || relay(client, target, &count, what));
            }
        });
        Ok(Self { port, bound })
    }
}

fn relay(mut client: TcpStream, target: u16, bound: &AtomicUsize, what: Bound) -> io::Result<()> {
    let mut opening = [0; OPENING_BYTES];
    client.read_exact(&mut opening)?;
    let is_bound = opening[ANNOUNCED.0] == ANNOUNCED.1;
    let is_first = is_bound && bound.fetch_add(1, Ordering::Relaxed) == 0;
    if is_bound && what == Bound::Refused {
        return client.shutdown(Shutdown::Both);
    }
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, target))?;
    server.write_all(&opening)?;
    let (from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    let limit = if is_first { BROKEN_AFTER_BYTES } else { u64::MAX };
    let answers = thread::spawn(move || {
        let _ = io::copy(&mut from_server.take(limit), &mut to_client);
        if is_first {
            return to_client.shutdown(Shutdown::Both);
        }
        to_client.shutdown(Shutdown::Write)
    });
    let _ = io::copy(&mut client, &mut server);
    let _ = server.shutdown(Shutdown::Write);
    let _ = answers.join();
    Ok(())
}

/// How many streams carried the copy under this name, and the checksum that both sides agreed on.
#[track_caller]
fn carried(destination: &mut Crossload, name: &str) -> (u64, String) {
    let path = format!("/data/{name}");
    let mut line = None;
    until("the copy is in the log", SOON, || {
        let mut all = transfers(destination.process()).into_iter();
        line = all.find(|line| line["path"] == path.as_str());
        line.is_some()
    });
    let line = line.expect("it was waited for");
    assert_eq!(line["outcome"], "success", "{line}");
    let verified = line["verified"].as_str().unwrap_or_default().to_owned();
    (line["streams"].as_u64().expect("a number"), verified)
}

/// One of ours or one of Debian's with a file of [`SIZE`] bytes.
fn sources(lab: &Lab, test: &str, content: &[u8]) -> Vec<Endpoint> {
    let ours = available(test, lab.crossload(lab.options("ours")));
    let theirs = available(test, lab.xrootd("theirs", XrootdAccess::Open));
    let ours = ours.map(|server| Endpoint::Crossload(Box::new(server)));
    let theirs = theirs.map(|server| Endpoint::Xrootd(Box::new(server)));
    let all: Vec<_> = ours.into_iter().chain(theirs).collect();
    for source in &all {
        source.put("file", content);
    }
    all
}

#[test]
fn a_keyed_copy_comes_over_as_many_streams_as_were_asked_for() {
    let test = "a_keyed_copy_comes_over_as_many_streams_as_were_asked_for";
    let Some((lab, mut destination)) = alone(test, |_| {}) else {
        return;
    };
    let content = bytes(SIZE, 281);
    let sum = format!("adler32:{:08x}", adler32(&content));
    for source in sources(&lab, test, &content) {
        for streams in [1_u64, 2, 4] {
            let name = format!("{}-{streams}", source.either("ours", "theirs"));
            let target = format!("root://localhost:{}//data/{name}", destination.port());
            let streams_text = streams.to_string();
            let arguments = [
                "-n",
                &streams_text,
                "-K",
                &sum,
                "--mode",
                "pull",
                &source.root("file"),
                &target,
            ];
            lab.run_client("copy", &arguments).succeeded();
            let stored = std::fs::read(destination.data().join(&name)).ok();
            assert!(stored.as_ref() == Some(&content), "{name}");
            assert_eq!(carried(&mut destination, &name), (streams, sum.clone()), "{name}");
        }
    }
}

#[test]
fn the_streams_of_a_copy_over_tls_are_all_encrypted_and_make_the_same_file() {
    let test = "the_streams_of_a_copy_over_tls_are_all_encrypted_and_make_the_same_file";
    let Some((lab, mut destination)) = alone(test, |_| {}) else {
        return;
    };
    let content = bytes(SIZE, 284);
    let sum = format!("adler32:{:08x}", adler32(&content));
    for source in sources(&lab, test, &content) {
        let name = source.either("ours", "theirs");
        let target = format!("roots://localhost:{}//data/{name}", destination.port());
        let arguments = ["-n", "4", "-K", &sum, "--mode", "pull", &source.roots("file"), &target];
        lab.run_client("copy", &arguments).succeeded();
        let stored = std::fs::read(destination.data().join(name)).ok();
        assert!(stored.as_ref() == Some(&content), "{name}");
        assert_eq!(carried(&mut destination, name), (4, sum.clone()), "{name}");
        if let Endpoint::Crossload(source) = &source {
            requests_with(source.log(), 1, "the file that was opened", |line| {
                line["method"] == "open"
            });
            // What comes before TLS says no more than that it is wanted.
            let clear = requests(source.log())
                .into_iter()
                .find(|line| line["security"] == "clear" && line["method"] != "protocol");
            assert!(clear.is_none(), "{clear:?}");
        }
    }
}

#[test]
fn the_further_stream_of_xrdcp_is_one() {
    let test = "the_further_stream_of_xrdcp_is_one";
    let Some((lab, mut destination)) = alone(test, |_| {}) else {
        return;
    };
    if available(test, require("xrdcp")).is_none() {
        return;
    }
    let content = bytes(SIZE, 282);
    for source in sources(&lab, test, &content) {
        let name = source.either("ours", "theirs");
        let target = format!("root://localhost:{}//data/{name}", destination.port());
        lab.xrdcp(&["--tpc", "only", &source.root("file"), &target]).succeeded();
        let stored = std::fs::read(destination.data().join(name)).ok();
        assert!(stored.as_ref() == Some(&content), "{name}");
        assert_eq!(carried(&mut destination, name).0, 2, "{name}");
    }
}

#[test]
fn a_source_that_binds_nothing_sends_all_on_one_stream() {
    let test = "a_source_that_binds_nothing_sends_all_on_one_stream";
    let Some((lab, mut destination)) = alone(test, |_| {}) else {
        return;
    };
    let content = bytes(SIZE, 283);
    let sum = format!("adler32:{:08x}", adler32(&content));
    for source in sources(&lab, test, &content) {
        let relay = Relay::start(source.root_port(), Bound::Refused).expect("a relay");
        let name = source.either("ours", "theirs");
        let from = format!("root://localhost:{}//data/file", relay.port);
        let target = format!("root://localhost:{}//data/{name}", destination.port());
        let arguments = ["-n", "4", "-K", &sum, "--mode", "pull", &from, &target];
        lab.run_client("copy", &arguments).succeeded();
        let stored = std::fs::read(destination.data().join(name)).ok();
        assert!(stored.as_ref() == Some(&content), "{name}");
        assert_eq!(carried(&mut destination, name), (1, sum.clone()), "{name}");
        assert!(
            relay.bound.load(Ordering::Relaxed) > 0,
            "{name}: nothing was to be bound"
        );
    }
}

#[test]
fn a_stream_that_breaks_is_replaced() {
    let test = "a_stream_that_breaks_is_replaced";
    let Some((lab, mut destination)) = alone(test, |_| {}) else {
        return;
    };
    let content = bytes(SIZE, 285);
    let sum = format!("adler32:{:08x}", adler32(&content));
    for source in sources(&lab, test, &content) {
        let relay = Relay::start(source.root_port(), Bound::Broken).expect("a relay");
        let name = source.either("ours", "theirs");
        let from = format!("root://localhost:{}//data/file", relay.port);
        let target = format!("root://localhost:{}//data/{name}", destination.port());
        let arguments = ["-n", "3", "-K", &sum, "--mode", "pull", &from, &target];
        lab.run_client("copy", &arguments).succeeded();
        let stored = std::fs::read(destination.data().join(name)).ok();
        assert!(stored.as_ref() == Some(&content), "{name}");
        assert_eq!(carried(&mut destination, name), (3, sum.clone()), "{name}");
        let path = format!("/data/{name}");
        let resumed = transfers(destination.process())
            .into_iter()
            .find_map(|line| (line["path"] == path.as_str()).then(|| line["resumed"].as_u64()));
        assert_eq!(resumed, Some(Some(1)), "{name}");
    }
}
