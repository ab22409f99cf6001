//! The monitoring through ActiveMQ, while the broker is away and the server is killed.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conformance::{Lab, run, until};
use monitoring_wire::{FileRecord, Record, decode};
use serde_json::Value;
use testkit::{ActiveMq, Crossload, available, require_queue_python};

const PATIENCE: Duration = Duration::from_secs(60);
const DESTINATION: &str = "/queue/xrootd.shoveler";

/// The files of the messages that the broker holds, with the size at their close.
fn files(lines: &str, port: u16) -> BTreeSet<(String, u64)> {
    let (mut open, mut closed) = (Vec::new(), BTreeSet::new());
    for line in lines.lines() {
        let message: Value = serde_json::from_str(line).expect("JSON");
        let remote = message["remote"].as_str().expect("an address");
        assert_eq!(remote, format!("127.0.0.1:{port}"));
        assert!(
            message["version"]
                .as_str()
                .expect("a version")
                .starts_with("crossload/")
        );
        let packet = STANDARD
            .decode(message["data"].as_str().expect("data"))
            .expect("base64");
        if packet.first() == Some(&b'{') {
            continue;
        }
        let packet = decode(&packet).unwrap_or_else(|fault| panic!("{fault:?}: {line}"));
        let Record::Files { records, .. } = packet.record else {
            continue;
        };
        for record in records {
            match record {
                FileRecord::Opened(opened) => open.push(((packet.started_s, opened.file), opened.path)),
                FileRecord::Closed(done) => {
                    let name = (packet.started_s, done.file);
                    let found = open.iter().find(|(other, _)| *other == name);
                    let (_, path) = found.unwrap_or_else(|| panic!("{done:?} was not opened: {open:?}"));
                    closed.insert((path.clone(), done.totals.written_bytes));
                }
                FileRecord::Moved(..) | FileRecord::Left(_) => {}
            }
        }
    }
    closed
}

#[test]
fn packets_survive_a_broker_that_is_away_and_a_server_that_is_killed() {
    let test = "packets_survive_a_broker_that_is_away_and_a_server_that_is_killed";
    let start = || {
        let python = require_queue_python("python3")?;
        let lab = Lab::new("monitoring-broker")?;
        let broker = ActiveMq::start_persistent(&lab.fresh("activemq"))?;
        let (mut options, spool) = (lab.options("server"), lab.fresh("spool"));
        options.more = format!(
            "[monitoring]\nbroker = \"stomp://127.0.0.1:{}\"\nbroker_destination = \"{DESTINATION}\"\nspool = {:?}\n\
             flush_interval = \"1s\"\n",
            broker.port(),
            spool
        );
        let server = Crossload::start(options)?;
        Ok((python, broker, lab, server, spool))
    };
    let Some((python, mut broker, lab, mut server, spool)) = available(test, start()) else {
        return;
    };
    let upload = |server: &Crossload, name: &str, count: usize| {
        lab.upload(&server.clear_url(&format!("/data/{name}")), &vec![7; count], &[])
            .expect(201);
    };
    let says = |server: &Crossload, word: &str| until(word, PATIENCE, || server.log().stderr().contains(word));
    says(&server, "broker_connected");
    upload(&server, "before", 100);
    broker.process().kill_hard();
    says(&server, "broker_failed");
    upload(&server, "away", 200);
    // Packets are in order: that of the next file has all about this one before it.
    upload(&server, "last", 1);
    until("the packets are on disk", PATIENCE, || {
        let entries = std::fs::read_dir(&spool).expect("the spool");
        let kept = entries.map(|entry| std::fs::read(entry.expect("an entry").path()).unwrap_or_default());
        kept.into_iter()
            .any(|bytes| String::from_utf8_lossy(&bytes).contains("/data/last"))
    });
    server.process().kill_hard();
    server.start_again().expect("as before");
    upload(&server, "after", 300);
    broker.start_again().expect("as before");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/stomp_reader.py");
    let mut reader = lab.prepared(&python);
    reader.arg(script).arg(broker.port().to_string());
    reader.args([
        DESTINATION,
        &PATIENCE.as_secs().to_string(),
        "packets",
        "/data/before",
        "/data/away",
        "/data/after",
    ]);
    let read = run(&reader).succeeded().text();
    let files = files(&read, server.port());
    let expected = [("/data/after", 300), ("/data/away", 200), ("/data/before", 100)];
    let expected = BTreeSet::from(expected.map(|(path, bytes)| (path.to_owned(), bytes)));
    assert!(files.is_superset(&expected), "{files:?}\n{}", server.log().stderr());
}
