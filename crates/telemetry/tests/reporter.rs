//! Events in, packets out: what a receiver learns.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use monitoring_wire::{FileRecord, Record, Server, decode};
use telemetry::{
    Client, Copied, Datagram, Event, Gone, Hears, Hub, Opening, Queue, Reporter, SharedMarking, Sink, Spoken, Wishes,
};

const START_S: u64 = 1_800_000_000;
const WISHES: Wishes = Wishes {
    personal_names: true,
    flush_s: 5,
    progress_s: 60,
    identity_s: 300,
};

struct Site {
    hub: Hub,
    queue: Queue,
    reporter: Reporter,
    now_s: u64,
}

fn sink(events_max: usize) -> Sink {
    Sink {
        name: "test",
        events_max,
        hears: Hears::Files,
    }
}

fn opening(path: &str, size_bytes: u64, is_written: bool) -> Opening<'_> {
    Opening {
        path,
        size_bytes,
        is_written,
        tag: None,
        carries: true,
    }
}

fn site(events_max: usize) -> Site {
    let (hub, mut queues) = Hub::new(&[sink(events_max)], SharedMarking::default());
    let queue = queues.remove(0);
    let text = |text: &str| text.to_owned();
    let server = Server {
        id: 77,
        pid: 1,
        user: text("crossload"),
        host: text("d1.example.org"),
        site: text("T9"),
        port: 1094,
        instance: text("anon"),
        program: text("crossload"),
        version: text("0.1.0"),
    };
    let reporter = Reporter::new(server, WISHES, START_S);
    Site {
        hub,
        queue,
        reporter,
        now_s: START_S,
    }
}

impl Site {
    /// What a receiver hears after so many seconds: codes of maps, and records of files.
    fn hear(&mut self, seconds: u64) -> (String, Vec<FileRecord>) {
        while let Ok(Some(event)) = self.queue.next(Duration::ZERO) {
            self.reporter.event(&event, self.now_s);
        }
        self.now_s += seconds;
        read(self.reporter.datagrams(self.now_s))
    }
}

fn read(datagrams: Vec<Datagram>) -> (String, Vec<FileRecord>) {
    let (mut codes, mut files) = (String::new(), Vec::new());
    for datagram in datagrams {
        let Datagram::Detail(packet) = datagram else { continue };
        match decode(&packet).unwrap().record {
            Record::Map { code, .. } => codes.push(char::from(code)),
            Record::Files { records, .. } => {
                codes.push('f');
                files.extend(records);
            }
        }
    }
    (codes, files)
}

fn client(port: u16) -> Client {
    Client {
        spoken: Spoken::Xroot,
        peer: SocketAddr::from(([10, 0, 0, 1], port)),
        local: None,
        user: "jane".to_owned(),
        program: "xrdcp v5.5.3".to_owned(),
        credential: "anonymous",
        subject: String::new(),
        issuer: String::new(),
        organisation: String::new(),
    }
}

/// Number and name of the login, experiment and activity of the packets `U`.
fn labels(datagrams: &[Datagram]) -> Vec<String> {
    let details = datagrams.iter().filter_map(|datagram| match datagram {
        Datagram::Detail(packet) => Some(decode(packet).unwrap().record),
        Datagram::Copies(_) => None,
    });
    let texts = details.filter_map(|record| match record {
        Record::Map {
            code: b'U',
            id,
            name,
            information,
        } => Some(format!("{id}: {name} {information}")),
        _ => None,
    });
    texts.collect()
}

#[test]
fn what_the_files_of_a_login_belong_to_is_told_when_it_changes_and_again_later() {
    let mut site = site(100);
    let open = |site: &Site, tag| {
        let opening = Opening {
            tag,
            carries: true,
            ..opening("/a", 10, false)
        };
        site.hub.open(|| client(1), &opening)
    };
    let _files = [None, Some(132), Some(132), Some(313), None].map(|tag| open(&site, tag));
    while let Ok(Some(event)) = site.queue.next(Duration::ZERO) {
        site.reporter.event(&event, site.now_s);
    }
    let told = labels(&site.reporter.datagrams(site.now_s));
    let (first, second) = ("&Uc=1&Ec=2&Ac=4", "&Uc=1&Ec=4&Ac=57");
    let [one, other] = told.as_slice() else {
        panic!("{told:?}")
    };
    assert!(one.starts_with("1: xroot/jane.") && one.ends_with(first), "{one}");
    assert!(other.ends_with(second), "{other}");
    let again = labels(&site.reporter.datagrams(site.now_s + WISHES.identity_s));
    assert!(again.len() == 1 && again[0].ends_with(second), "{again:?}");
}

#[test]
fn a_login_is_told_before_its_files_and_ends_after_them() {
    let mut site = site(100);
    let file = site.hub.open(|| client(1), &opening("/a", 10, false));
    let other = site.hub.open(|| client(1), &opening("/b", 0, true));
    file.read(4);
    file.read(6);
    file.read_vector(8, 2);
    other.written(3);
    site.hub.tell(&Event::Left(client(1).peer));
    drop(file);
    other.torn();
    drop(other);
    let (codes, files) = site.hear(5);
    assert_eq!(codes, "=uf");
    let [
        FileRecord::Opened(a),
        FileRecord::Opened(b),
        FileRecord::Closed(first),
        FileRecord::Closed(second),
        last,
    ] = files.as_slice()
    else {
        panic!("{files:?}");
    };
    assert_eq!((a.path.as_str(), a.size_bytes, a.is_written), ("/a", 10, false));
    assert_eq!((b.path.as_str(), b.is_written, b.login), ("/b", true, a.login));
    assert_eq!(
        (first.file, first.totals.read_bytes, first.totals.vector_bytes),
        (a.file, 10, 8)
    );
    assert_eq!(
        (
            first.reads.count,
            first.reads.least,
            first.reads.most,
            first.reads.squares
        ),
        (2, 4, 6, 52.0)
    );
    assert_eq!(
        (first.segments_count, first.segments.most, first.is_forced),
        (2, 2, false)
    );
    assert_eq!(
        (second.totals.written_bytes, second.writes.count, second.is_forced),
        (3, 1, true)
    );
    assert_eq!(*last, FileRecord::Left(a.login));
}

#[test]
fn what_open_files_have_moved_is_told_each_minute_and_logins_again() {
    let mut site = site(100);
    let file = site.hub.open(|| client(1), &opening("/a", 10, false));
    let idle = site.hub.open(|| client(2), &opening("/b", 10, false));
    assert_eq!(site.hear(0).0, "=uu");
    assert_eq!(site.hear(5).1.len(), 2);
    file.read(7);
    let (_, moved) = site.hear(60);
    assert!(
        matches!(moved.as_slice(), [FileRecord::Moved(_, totals)] if totals.read_bytes == 7),
        "{moved:?}"
    );
    assert!(site.hear(60).1.is_empty(), "nothing more was moved");
    let (codes, _) = site.hear(300);
    assert_eq!(codes, "=uu");
    drop((file, idle));
}

#[test]
fn an_end_whose_event_was_dropped_is_told_later_and_the_loss_is_counted() {
    let mut site = site(1);
    let file = site.hub.open(|| client(1), &opening("/a", 10, false));
    file.read(1);
    drop(file);
    assert_eq!(site.hub.dropped(), [("test", 1)]);
    assert_eq!(site.hear(5).1.len(), 1, "opened");
    let (_, files) = site.hear(60);
    assert!(
        matches!(files.as_slice(), [FileRecord::Closed(closed)] if closed.totals.read_bytes == 1),
        "{files:?}"
    );
    // The other way round: the open was not heard.
    let early = site.hub.open(|| client(1), &opening("/full", 0, false));
    let unheard = site.hub.open(|| client(1), &opening("/b", 10, false));
    let _ = site.hear(5);
    drop(unheard);
    let (_, files) = site.hear(5);
    assert!(
        matches!(files.as_slice(), [FileRecord::Opened(b), FileRecord::Closed(_)] if b.path == "/b"),
        "{files:?}"
    );
    drop(early);
}

#[test]
fn a_third_party_copy_is_booked_on_who_ordered_it() {
    let mut site = site(10);
    let began = SystemTime::UNIX_EPOCH + Duration::new(START_S, 12_345_000);
    let copied = Copied {
        client: client(1),
        own_scheme: "xroot",
        is_pull: true,
        remote: "root://a:1094//f".to_owned(),
        path: "/f".to_owned(),
        bytes: 3_000_000,
        streams: 4,
        result: 0,
        began,
        ended: began + Duration::from_secs(1),
    };
    site.hub.tell(&Event::Copied(copied.into()));
    let Ok(Some(event)) = site.queue.next(Duration::ZERO) else {
        panic!("an event")
    };
    site.reporter.event(&event, START_S);
    let datagrams = site.reporter.datagrams(START_S + 5);
    let copies: Vec<String> = datagrams
        .iter()
        .filter_map(|datagram| match datagram {
            Datagram::Copies(packet) => Some(String::from_utf8(packet.clone()).unwrap()),
            Datagram::Detail(_) => None,
        })
        .collect();
    assert!(
        copies[1].contains(r#""Beg":"2027-01-15T08:00:00.012345Z""#),
        "{}",
        copies[1]
    );
    assert!(
        copies[1].contains(r#""Client":"jane.1:1@[::ffff:10.0.0.1]""#),
        "{}",
        copies[1]
    );
    let ends = r#""Src":"root://a:1094//f","Dst":"xroot://d1.example.org:1094//f","Size":3000000}"#;
    assert!(copies[1].contains(ends), "{}", copies[1]);
    let (codes, files) = read(datagrams);
    assert_eq!(codes, "=uf");
    assert!(
        matches!(files.as_slice(), [FileRecord::Opened(opened), FileRecord::Closed(closed)]
            if opened.is_written && closed.totals.written_bytes == 3_000_000),
        "{files:?}"
    );
}

#[test]
fn a_copy_belongs_to_the_login_of_its_client() {
    let mut site = site(10);
    let web = || telemetry::Client {
        spoken: telemetry::Spoken::Http,
        ..client(1)
    };
    let file = site.hub.open(web, &opening("/a", 10, false));
    assert_eq!(site.hear(5).0.matches('u').count(), 1);
    let copied = Copied {
        client: web(),
        own_scheme: "http",
        is_pull: false,
        // The other side's protocol is not that of the client.
        remote: "root://a:1094//f".to_owned(),
        path: "/f".to_owned(),
        bytes: 10,
        streams: 1,
        result: 0,
        began: SystemTime::UNIX_EPOCH,
        ended: SystemTime::UNIX_EPOCH,
    };
    site.hub.tell(&Event::Copied(copied.into()));
    let Ok(Some(event)) = site.queue.next(Duration::ZERO) else {
        panic!("an event")
    };
    site.reporter.event(&event, START_S + 6);
    let datagrams = site.reporter.datagrams(START_S + 11);
    let told = datagrams.iter().find_map(|datagram| match datagram {
        Datagram::Copies(packet) => Some(String::from_utf8_lossy(packet).into_owned()),
        Datagram::Detail(_) => None,
    });
    let told = told.expect("a copy");
    assert!(told.contains(r#""Src":"http://d1.example.org:1094//f""#), "{told}");
    assert!(!read(datagrams).0.contains('u'), "it is no other login");
    drop(file);
}

#[test]
fn ten_thousand_files_a_second_are_told_whole() {
    let mut site = site(65_536);
    for number in 0..10_000 {
        let file = site
            .hub
            .open(|| client(number), &opening(&format!("/d/file{number}"), 10, false));
        file.read(10);
    }
    let (_, files) = site.hear(5);
    assert_eq!(site.hub.dropped(), [("test", 0)]);
    let closed = files
        .iter()
        .filter(|record| matches!(record, FileRecord::Closed(_)))
        .count();
    assert_eq!((files.len(), closed), (20_000, 10_000));
    let (_, last) = read(site.reporter.last(START_S + 10));
    assert!(last.is_empty());
}

#[test]
fn one_connection_has_few_logins_whatever_it_shows() {
    let mut site = site(65_536);
    for number in 0..1_000 {
        let named = Client {
            program: format!("agent {number}"),
            ..client(1)
        };
        drop(site.hub.open(|| named, &opening("/a", 10, false)));
    }
    let (codes, _) = site.hear(5);
    assert_eq!(codes.matches('u').count(), 1, "another program is no other login");
    for number in 0..1_000 {
        let shown = Client {
            subject: format!("subject {number}"),
            ..client(1)
        };
        drop(site.hub.open(|| shown, &opening("/a", 10, false)));
    }
    let (codes, files) = site.hear(5);
    assert_eq!(codes.matches('u').count(), 1_000);
    let left = files
        .iter()
        .filter(|record| matches!(record, FileRecord::Left(_)))
        .count();
    assert_eq!(left, 1_001 - 32);
    site.hub.tell(&Event::Left(client(1).peer));
    let (_, files) = site.hear(5);
    assert_eq!(files.len(), 32);
}

#[test]
fn events_are_taken_together() {
    let Site { hub, queue, .. } = site(8);
    for port in 1..=3 {
        hub.tell(&Event::Left(SocketAddr::from(([127, 0, 0, 1], port))));
    }
    let (long, none) = (Duration::from_secs(3600), Duration::ZERO);
    assert_eq!(queue.gather(long, none).map(Iterator::count), Ok(3));
    // Without an event there is no pause.
    assert_eq!(queue.gather(none, long).map(Iterator::count), Ok(0));
    drop(hub);
    assert_eq!(queue.gather(long, long).map(Iterator::count), Err(Gone));
}
