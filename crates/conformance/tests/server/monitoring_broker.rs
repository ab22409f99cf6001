//! The monitoring through ActiveMQ, while the broker is away and the server is killed; and through
//! a broker that ends each session.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conformance::{Lab, run, until};
use monitoring_wire::{FileRecord, Record, decode};
use serde_json::Value;
use testkit::{ActiveMq, Crossload, available, free_port, require_queue_python};

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

/// Whether the spool has a packet about this file.
fn is_kept(spool: &Path, file: &str) -> bool {
    let entries = std::fs::read_dir(spool).expect("the spool");
    let mut kept = entries.map(|entry| std::fs::read(entry.expect("an entry").path()).unwrap_or_default());
    kept.any(|bytes| String::from_utf8_lossy(&bytes).contains(file))
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
    until("the packets are on disk", PATIENCE, || is_kept(&spool, "/data/last"));
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

/// Messages that a hasty broker confirms in each session.
const CONFIRMED_EACH: usize = 4;

/// A broker that confirms a few messages of each session, and closes it.
struct HastyBroker {
    confirmed: Arc<Mutex<Vec<String>>>,
}

impl HastyBroker {
    fn start(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port");
        let confirmed = Arc::new(Mutex::new(Vec::new()));
        let kept = confirmed.clone();
        // It ends with the test program.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A session that breaks is followed by another.
                let _ = confirm_some(stream, &kept);
            }
        });
        Self { confirmed }
    }

    /// The packets that it has confirmed.
    fn packets(&self) -> Vec<Vec<u8>> {
        let bodies = self.confirmed.lock().expect("whole");
        let packets = bodies.iter().map(|body| {
            let message: Value = serde_json::from_str(body).expect("JSON");
            STANDARD
                .decode(message["data"].as_str().expect("data"))
                .expect("base64")
        });
        packets.collect()
    }
}

fn confirm_some(mut stream: TcpStream, confirmed: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    for count in 0..=CONFIRMED_EACH {
        let mut frame = Vec::new();
        reader.read_until(0, &mut frame)?;
        let frame = String::from_utf8_lossy(&frame).into_owned();
        let Some((head, body)) = frame.trim_start().trim_end_matches('\0').split_once("\n\n") else {
            return Ok(());
        };
        let answer = match count {
            0 => "CONNECTED\nversion:1.2\n\n\0".to_owned(),
            _ => {
                confirmed.lock().expect("whole").push(body.to_owned());
                let receipt = head.lines().find_map(|line| line.strip_prefix("receipt:"));
                format!("RECEIPT\nreceipt-id:{}\n\n\0", receipt.expect("a receipt"))
            }
        };
        stream.write_all(answer.as_bytes())?;
    }
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut reader, &mut io::sink()).map(drop)
}

#[test]
fn a_broker_that_ends_each_session_gets_each_packet_once() {
    let test = "a_broker_that_ends_each_session_gets_each_packet_once";
    let start = || {
        let lab = Lab::new("monitoring-receipts")?;
        let (mut options, spool, port) = (lab.options("server"), lab.fresh("spool"), free_port()?);
        options.more = format!(
            "[monitoring]\nbroker = \"stomp://127.0.0.1:{port}\"\nspool = {spool:?}\nflush_interval = \"1s\"\n"
        );
        let server = Crossload::start(options)?;
        Ok((lab, server, spool, port))
    };
    let Some((lab, server, spool, port)) = available(test, start()) else {
        return;
    };
    let upload = |path: &str| {
        lab.upload(&server.clear_url(path), b"content", &[]).expect(201);
    };
    upload("/data/lost");
    until("it is on disk", PATIENCE, || is_kept(&spool, "/data/lost"));
    // As an operator, or a program that clears directories, may do it.
    for entry in std::fs::read_dir(&spool).expect("the spool") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ending| ending == "packets") {
            std::fs::remove_file(path).expect("removed");
        }
    }
    let names: Vec<String> = (0..6).map(|number| format!("/data/kept-{number}")).collect();
    for name in &names {
        upload(name);
    }
    until("they are on disk", PATIENCE, || {
        names.iter().all(|name| is_kept(&spool, name))
    });
    let broker = HastyBroker::start(port);
    let has_all = |packets: &[Vec<u8>]| {
        let texts = packets
            .iter()
            .map(|packet| String::from_utf8_lossy(packet).into_owned());
        let text: String = texts.collect();
        names.iter().all(|name| text.contains(name))
    };
    until("all have arrived", PATIENCE, || has_all(&broker.packets()));
    let packets = broker.packets();
    let different: BTreeSet<&Vec<u8>> = packets.iter().collect();
    assert!(packets.len() > CONFIRMED_EACH, "{}", packets.len());
    assert_eq!(different.len(), packets.len(), "some came twice");
    let log = server.log().stderr();
    assert!(log.contains("was removed by another program"), "{log}");
}
