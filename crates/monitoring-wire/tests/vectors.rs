//! What XRootD 5.5.3 sent, byte for byte.

use std::net::IpAddr;
use std::time::Duration;

use monitoring_wire::{
    Batch, CopyRecord, Course, FileRecord, Links, Login, LoginId, Packet, PathSpace, Record, Requests, Server, Stream,
    Summary, copy_packet, decode, login_packet, server_packet,
};

const STARTED_S: u32 = 1_795_769_587;
const SERVER_ID: u64 = 105_470_468_163_921;

/// The packets of one destination, in order.
fn packets(destination: &str) -> Vec<Vec<u8>> {
    let text = include_str!("vectors/xrootd-5.5.3-monitoring.jsonl");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let wanted = lines.filter(|line| line["n"] == destination);
    wanted.map(|line| unhex(line["hex"].as_str().unwrap())).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// A stream whose next packet has this number.
fn stream_at(sequence: u8) -> Stream {
    let mut stream = Stream::new(STARTED_S);
    for _ in 0..sequence {
        let _ = server_packet(&mut stream, &server());
    }
    stream
}

fn server() -> Server {
    Server {
        id: SERVER_ID,
        pid: 8612,
        user: "root".to_owned(),
        host: "vm".to_owned(),
        site: "T9_TEST".to_owned(),
        port: 26010,
        instance: "m1".to_owned(),
        program: "xrootd".to_owned(),
        version: "v5.5.3".to_owned(),
    }
}

fn login(protocol: &'static str, user: &str, number: u32) -> Login {
    let text = |text: &str| text.to_owned();
    let is_http = protocol == "http";
    Login {
        protocol,
        user: text(user),
        number,
        address: IpAddr::from([127, 0, 0, 1]),
        authentication: text(if is_http { "http" } else { "" }),
        subject: String::new(),
        organisation: String::new(),
        role: String::new(),
        groups: String::new(),
        program: text("xrdcp"),
        version: text("v5.5.3"),
    }
}

#[test]
fn logins_and_the_server_are_told_as_by_xrootd() {
    let captured: Vec<Vec<u8>> = packets("detail")
        .into_iter()
        .filter(|packet| packet[0] != b'f')
        .collect();
    let logins = [
        (1, login("xroot", "root", 8812)),
        (3, login("xroot", "root", 8821)),
        (5, login("http", "", 3)),
        (7, login("http", "", 4)),
        (8, login("xroot", "root", 8835)),
        (9, login("xroot", "root", 8835)),
        (13, login("xroot", "nobody", 8842)),
    ];
    let mut stream = stream_at(1);
    for ((id, login), packet) in logins.iter().zip(&captured) {
        let ours = login_packet(&mut stream, &server(), LoginId(*id), login);
        assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(packet));
        assert_eq!(ours, *packet);
    }
    assert_eq!(captured.len(), logins.len() + 1);
    assert_eq!(server().packet(&mut stream), captured[logins.len()]);
}

#[test]
fn packets_of_files_are_the_same_when_written_again() {
    let captured: Vec<Vec<u8>> = packets("detail")
        .into_iter()
        .filter(|packet| packet[0] == b'f')
        .collect();
    assert_eq!(captured.len(), 2);
    for packet in captured {
        let Packet {
            started_s,
            sequence,
            record,
        } = decode(&packet).unwrap();
        let Record::Files {
            server_id,
            span_s,
            records,
        } = record
        else {
            panic!("no files")
        };
        assert_eq!((started_s, server_id), (STARTED_S, SERVER_ID));
        let mut batch = Batch::new(span_s.0);
        for record in &records {
            assert!(batch.push(record), "{record:?}");
        }
        assert_eq!(batch.packet(&mut stream_at(sequence), server_id, span_s.1), packet);
        let paths = records.iter().filter_map(|record| match record {
            FileRecord::Opened(opened) => Some(opened.path.as_str()),
            _ => None,
        });
        assert!(
            paths.clone().all(|path| path.ends_with(".bin")),
            "{:?}",
            paths.collect::<Vec<_>>()
        );
    }
}

#[test]
fn third_party_copies_are_told_as_by_xrootd() {
    let captured = packets("gtpc");
    let record = CopyRecord {
        protocol: "xroot",
        client: "root.8835:31@[::ffff:127.0.0.1]".to_owned(),
        course: Course {
            begin: "2026-11-27T08:53:12.123326Z".to_owned(),
            end: "2026-11-27T08:53:12.238554Z".to_owned(),
            result: 0,
            streams: 1,
            mode: "pull",
            family: 4,
        },
        source: "xroot://[::ffff:127.0.0.1]:26010//src.bin".to_owned(),
        destination: "xroot://vm:26010//tpc2.bin".to_owned(),
        size_bytes: 0,
    };
    let mut stream = stream_at(1);
    let (ours, taken) = copy_packet(&mut stream, &server(), 1_795_769_592, 1_795_769_592, &[record]);
    assert_eq!(taken, 1);
    assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&captured[0]));
    assert_eq!(server_packet(&mut stream, &server()), captured[1]);
}

/// The elements of a summary in order, with their attributes; of the first one, their names only.
fn elements(summary: &str) -> Vec<String> {
    let begun = summary
        .split('<')
        .filter(|part| !part.is_empty() && !part.starts_with('/'));
    let heads = begun.filter_map(|part| part.split_once('>').map(|(head, _)| head));
    let shown = heads.map(|head| match head.strip_prefix("statistics ") {
        Some(attributes) => {
            let names = attributes.split('"').step_by(2).map(str::trim);
            format!("statistics {}", names.collect::<String>())
        }
        None => head.to_owned(),
    });
    shown.collect()
}

#[test]
fn a_summary_has_elements_of_xrootd_only_and_in_its_order() {
    let theirs = String::from_utf8(packets("report").remove(0)).unwrap();
    let ours = Summary {
        started_s: u64::from(STARTED_S),
        now_s: u64::from(STARTED_S) + 5,
        gathering: Duration::ZERO,
        links: Links::default(),
        processor: Some([Duration::ZERO; 2]),
        requests: Requests::default(),
        paths: vec![PathSpace {
            path: "/".to_owned(),
            total_bytes: 264_212_084 << 10,
            free_bytes: 58_558_788 << 10,
        }],
    };
    let ours = String::from_utf8(ours.packet(&server())).unwrap();
    let head = "<statistics tod=\"1795769592\" ver=\"v5.5.3\" src=\"vm:26010\" tos=\"1795769587\" pgm=\"xrootd\" \
                ins=\"m1\" pid=\"8612\" site=\"T9_TEST\"><stats id=\"info\"><host>vm</host><port>26010</port>\
                <name>m1</name></stats>";
    assert!(theirs.starts_with(head) && ours.starts_with(head), "{ours}");
    let mut known = elements(&theirs).into_iter();
    let ours_all = elements(&ours);
    assert_eq!(ours_all.len(), 40, "{ours_all:?}");
    for element in ours_all {
        assert!(known.any(|other| other == element), "{element} of {ours}");
    }
    let space = "<tot>264212084</tot><free>58558788</free>";
    assert!(theirs.contains(space) && ours.contains(space), "{ours}");
}
