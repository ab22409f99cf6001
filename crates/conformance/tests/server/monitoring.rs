//! Monitoring as XRootD does it: the packets of both servers for the same operations.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conformance::{Endpoint, Lab, alone, bytes, run, until};
use monitoring_wire::{FileRecord, Record, decode};
use testkit::{Process, XrootdAccess, available, free_port, require};

const LIMIT: Duration = Duration::from_secs(60);
const FILE_BYTES: usize = 3_000_000;

/// What came to a port.
struct Receiver {
    port: u16,
    packets: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// A file as packets tell it: who, whether it was written, and bytes read and written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Told {
    path: String,
    protocol: String,
    is_written: bool,
    read_bytes: u64,
    written_bytes: u64,
}

impl Receiver {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let port = socket.local_addr().expect("an address").port();
        let packets = Arc::new(Mutex::new(Vec::new()));
        let kept = packets.clone();
        // It ends with the test program.
        std::thread::spawn(move || {
            let mut packet = [0; 65536];
            while let Ok(length) = socket.recv(&mut packet) {
                kept.lock().expect("whole").push(packet[..length].to_vec());
            }
        });
        Self { port, packets }
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn texts(&self) -> Vec<String> {
        let packets = self.packets.lock().expect("whole");
        packets
            .iter()
            .map(|packet| String::from_utf8_lossy(packet).into_owned())
            .collect()
    }

    /// The names of logins and the server, by code, and all records of files, in order.
    fn records(&self) -> (Vec<(char, u32, String)>, Vec<FileRecord>) {
        let (mut maps, mut files) = (Vec::new(), Vec::new());
        for packet in self.packets.lock().expect("whole").iter() {
            match decode(packet).map(|packet| packet.record) {
                Ok(Record::Map {
                    code,
                    id,
                    name,
                    information,
                }) => {
                    maps.push((char::from(code), id, format!("{name}\n{information}")));
                }
                Ok(Record::Files { records, .. }) => files.extend(records),
                Err(fault) => panic!("{fault:?}: {packet:?}"),
            }
        }
        (maps, files)
    }

    /// All files that were closed.
    fn files(&self) -> Vec<Told> {
        let (maps, records) = self.records();
        let mut open = BTreeMap::new();
        let mut told = Vec::new();
        for record in records {
            match record {
                FileRecord::Opened(opened) => {
                    let login = maps.iter().find(|(code, id, _)| *code == 'u' && *id == opened.login.0);
                    let (_, _, name) = login.unwrap_or_else(|| panic!("no login of {opened:?}: {maps:?}"));
                    let protocol = name.split('/').next().expect("a protocol").to_owned();
                    open.insert(opened.file.0, (opened.path, protocol, opened.is_written));
                }
                FileRecord::Closed(closed) => {
                    let (path, protocol, is_written) = open.remove(&closed.file.0).expect("it was opened");
                    let (read_bytes, written_bytes) = (closed.totals.read_bytes, closed.totals.written_bytes);
                    told.push(Told {
                        path,
                        protocol,
                        is_written,
                        read_bytes,
                        written_bytes,
                    });
                }
                FileRecord::Moved(..) | FileRecord::Left(_) => {}
            }
        }
        told.sort();
        told
    }
}

/// The same operations on a server, in both protocols.
fn use_files(lab: &Lab, endpoint: &Endpoint) {
    let content = bytes(FILE_BYTES, 1);
    std::fs::write(endpoint.data().join("source"), &content).expect("written");
    let (local, empty) = (lab.file(&content), lab.file(b""));
    let xrdcp = |words: &[&str]| {
        let mut command = lab.command("xrdcp").expect("xrdcp");
        run(command.args(["-f", "-s"]).args(words)).succeeded();
    };
    let text = |path: &std::path::Path| path.to_str().expect("a path").to_owned();
    let into = lab.fresh("fetched");
    xrdcp(&[&endpoint.root("source"), &text(&into)]);
    xrdcp(&[&text(&local), &endpoint.root("sent")]);
    xrdcp(&[&text(&empty), &endpoint.root("empty")]);
    lab.curl(&[&endpoint.clear_url("source")]).expect(200);
    lab.curl(&["-r", "10-19", &endpoint.clear_url("source")]).expect(206);
    lab.upload(&endpoint.clear_url("put"), b"some bytes", &[])
        .expect(endpoint.either(201, 200));
    // What is only looked at is no file in use.
    lab.curl(&["-I", &endpoint.clear_url("source")]).expect(200);
}

/// XRootD 5.5.3 counts the checksums of pages as written bytes, and of a PUT nothing.
fn without_faults(told: Told) -> Told {
    let pages = FILE_BYTES.div_ceil(4096) as u64;
    let written_bytes = match (told.path.rsplit('/').next(), told.written_bytes) {
        (Some("sent"), bytes) if bytes == FILE_BYTES as u64 + pages * 4 => FILE_BYTES as u64,
        (Some("put"), 0) => 10,
        (_, bytes) => bytes,
    };
    Told { written_bytes, ..told }
}

#[test]
fn packets_tell_the_same_files_as_those_of_xrootd() {
    let test = "packets_tell_the_same_files_as_those_of_xrootd";
    let (ours, theirs, copies) = (Receiver::start(), Receiver::start(), Receiver::start());
    let more = format!(
        "[monitoring]\ndestinations = [\"{}\"]\ncopy_destinations = [\"{}\"]\nsite = \"T9_TEST\"\n\
         flush_interval = \"1s\"\npersonal_names = true\n",
        ours.address(),
        copies.address()
    );
    let Some((lab, server)) = alone(test, |options| options.more = more) else {
        return;
    };
    let lines = format!(
        "all.sitename T9_TEST\nxrootd.monitor all auth flush 1s ident 10s fstat 1s lfn ops ssq xfr 1 dest fstat info \
         user {}\n",
        theirs.address()
    );
    let peer = lab.xrootd_with("peer", XrootdAccess::Open, &lines);
    let Some(peer) = available(test, peer) else { return };
    let (server, peer) = (Endpoint::Crossload(Box::new(server)), Endpoint::Xrootd(Box::new(peer)));
    use_files(&lab, &server);
    use_files(&lab, &peer);
    until("all files were closed", LIMIT, || {
        ours.files().len() >= 6 && theirs.files().len() >= 6
    });
    let theirs: Vec<Told> = theirs.files().into_iter().map(without_faults).collect();
    assert_eq!(ours.files(), theirs);

    let (maps, _) = ours.records();
    let (code, _, name) = &maps[0];
    assert!(*code == '=' && name.contains("&site=T9_TEST&port="), "{name}");

    // A copy is booked on who ordered it, with its bytes.
    lab.copy(&server.url("pulled"), &format!("Source: {}", peer.url("source")), &[])
        .expect(202);
    until("the copy was told", LIMIT, || {
        copies.texts().iter().any(|text| text.contains(r#""TPC":"http""#))
    });
    let texts = copies.texts();
    assert!(
        texts[0].contains(r#""code":"=""#) && texts[0].contains("T9_TEST"),
        "{texts:?}"
    );
    let record = texts
        .iter()
        .find(|text| text.contains(r#""TPC":"http""#))
        .expect("told");
    for words in [
        r#""Type":"pull""#,
        r#""RC":0"#,
        &format!("\"Size\":{FILE_BYTES}}}"),
        "/source",
        "/pulled",
    ] {
        assert!(record.contains(words), "{words} in {record}");
    }
    let pulled = ours
        .files()
        .into_iter()
        .find(|told| told.path.ends_with("/pulled"))
        .expect("told");
    assert_eq!((pulled.is_written, pulled.written_bytes), (true, FILE_BYTES as u64));
}

/// The last summary that `mpxstats` has printed whole: its figures by their names.
fn last_summary(printed: &str) -> BTreeMap<String, String> {
    let whole = printed
        .split("\n\n")
        .filter(|summary| summary.contains("sgen.toe "))
        .last();
    let lines = whole.unwrap_or_default().lines();
    let figures = lines.filter_map(|line| line.split_once(' '));
    figures
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn the_summary_is_read_by_the_program_of_xrootd() {
    let test = "the_summary_is_read_by_the_program_of_xrootd";
    let found = require("mpxstats").and_then(|program| Ok((program, free_port()?)));
    let Some((program, port)) = available(test, found) else {
        return;
    };
    let more = format!(
        "[monitoring]\nsummary_destinations = [\"127.0.0.1:{port}\"]\nsummary_interval = \"1s\"\nsite = \"T9_TEST\"\n"
    );
    let Some((lab, server)) = alone(test, |options| options.more = more) else {
        return;
    };
    let mut command = lab.prepared(&program);
    command.args(["-f", "flat", "-p", &port.to_string()]);
    let reader = Process::spawn("mpxstats", &mut command, lab.scratch().path()).expect("started");
    let file = lab.file(&bytes(FILE_BYTES, 1));
    let endpoint = Endpoint::Crossload(Box::new(server));
    let local = file.to_str().expect("a path");
    lab.xrdcp(&[local, &endpoint.root("sent")]).succeeded();
    lab.curl(&[&endpoint.clear_url("sent")]).expect(200);
    let figures = || last_summary(&reader.stdout());
    let number = |name: &str| {
        let shown = figures().get(name).cloned().unwrap_or_default();
        shown.parse::<u64>().unwrap_or(0)
    };
    let payload = FILE_BYTES as u64;
    until("both payloads are told", LIMIT, || {
        number("link.in") >= payload && number("link.out") >= payload
    });
    // Payload, with checksums of pages at most.
    for name in ["link.in", "link.out"] {
        assert!(number(name) < payload + payload / 100, "{name}: {}", number(name));
    }
    let told = figures();
    assert_eq!(
        (told["pgm"].as_str(), told["oss.paths.0.lp"].as_str()),
        ("crossload", "/data")
    );
    assert!(
        number("xrootd.ops.open") >= 1 && number("xrootd.ops.wr") >= 1,
        "{told:?}"
    );
    assert!(number("link.tot") >= 2 && number("xrootd.lgn.num") >= 1, "{told:?}");
    let (total, free) = (number("oss.paths.0.tot"), number("oss.paths.0.free"));
    assert!(0 < free && free <= total, "{told:?}");
    assert!(number("tos") > 0 && number("tod") >= number("tos"), "{told:?}");
}
