//! Flows in, fireflies out: what a network learns.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use credentials::AddressRange;
use serde_json::Value;
use telemetry::{
    Client, Connection, Ends, Event, Fireflies, FireflyLine, FlowFacts, FlowLabel, Hears, Hub, Marking, MarkingRule,
    Opening, Queue, SharedMarking, Sink, Spoken,
};

const INTERVAL: Duration = Duration::from_secs(60);
/// After so long without payload a flow has ended.
const IDLE: Duration = Duration::from_secs(2);

struct Site {
    hub: Hub,
    queue: Queue,
    fireflies: Fireflies,
    now: SystemTime,
}

fn site(events_max: usize) -> Site {
    let sink = Sink {
        name: "test",
        events_max,
        hears: Hears::Flows,
    };
    let marking = Marking {
        rules: vec![MarkingRule {
            organisation: Some("cms".to_owned()),
            path: None,
            label: FlowLabel::from_parts(3, 1).unwrap(),
        }],
        excluded: vec![AddressRange::parse("fc00::/7").unwrap()],
        labels_packets: true,
    };
    let (hub, mut queues) = Hub::new(&[sink], SharedMarking::new(marking));
    let queue = queues.remove(0);
    let now = SystemTime::now();
    Site {
        hub,
        queue,
        fireflies: Fireflies::new("se.example".to_owned(), INTERVAL, now),
        now,
    }
}

fn read(lines: Vec<FireflyLine>) -> Vec<Value> {
    let json = |line: &FireflyLine| serde_json::from_str(&line.text[line.text.find('{').unwrap()..]).unwrap();
    lines.iter().map(json).collect()
}

/// State, source port, destination port and bytes of each.
fn told(fireflies: &[Value]) -> Vec<(&str, u64, u64, u64)> {
    let of = |firefly: &'_ Value, part: &str, key: &str| firefly[part][key].as_u64().unwrap();
    let facts = fireflies.iter().map(|firefly| {
        let state = firefly["flow-lifecycle"]["state"].as_str().unwrap();
        let (from, to) = (of(firefly, "flow-id", "src-port"), of(firefly, "flow-id", "dst-port"));
        (state, from, to, of(firefly, "usage", "sent"))
    });
    facts.collect()
}

impl Site {
    fn hear(&mut self, after: Duration) -> Vec<Value> {
        let mut lines = Vec::new();
        while let Ok(Some(event)) = self.queue.next(Duration::ZERO) {
            lines.extend(self.fireflies.event(&event, self.now));
        }
        self.now += after;
        lines.extend(self.fireflies.due(self.now));
        read(lines)
    }

    fn open(&self, client: Client, is_written: bool, tag: Option<u16>) -> telemetry::Used {
        let opening = Opening {
            path: "/f",
            size_bytes: 10,
            is_written,
            tag,
            carries: true,
        };
        self.hub.open(|| client, &opening)
    }
}

fn address(last: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], port))
}

fn client(organisation: &str) -> Client {
    Client {
        spoken: Spoken::Http,
        peer: address(9, 40000),
        local: Some(address(1, 443)),
        user: String::new(),
        program: String::new(),
        credential: "token",
        subject: String::new(),
        issuer: String::new(),
        organisation: organisation.to_owned(),
    }
}

#[test]
fn downloads_and_uploads_begin_go_on_and_end_with_the_sender_as_their_source() {
    let mut site = site(10);
    let download = site.open(client(""), false, Some(132));
    let upload = site.open(client("cms"), true, None);
    download.read(700);
    upload.written(50);
    let begun = site.hear(Duration::ZERO);
    assert_eq!(told(&begun), [("start", 443, 40000, 700), ("start", 40000, 443, 50)]);
    assert_eq!(
        begun[0]["context"],
        serde_json::json!({"experiment-id": 2, "activity-id": 4, "application": "http-get"})
    );
    assert_eq!(
        begun[1]["context"],
        serde_json::json!({"experiment-id": 3, "activity-id": 1, "application": "http-put"})
    );
    drop(upload);
    download.read(300);
    let later = site.hear(INTERVAL);
    assert_eq!(told(&later), [("end", 40000, 443, 50), ("ongoing", 443, 40000, 1000)]);
    drop(download);
    assert_eq!(told(&site.hear(IDLE)), [("end", 443, 40000, 1000)]);
    assert!(site.hear(INTERVAL).is_empty(), "nothing is told after the end");
}

#[test]
fn connections_that_are_bound_to_a_session_are_flows_of_their_own() {
    let mut site = site(10);
    let xroot = Client {
        spoken: Spoken::Xroot,
        ..client("cms")
    };
    let over = |port: u16| {
        move || {
            // As the system names the ends of a socket for both families.
            let mapped: SocketAddr = format!("[::ffff:192.0.2.9]:{port}").parse().unwrap();
            Some(Ends {
                local: address(1, 443),
                peer: mapped,
            })
        }
    };
    let download = site.open(xroot, false, None);
    download.read_over(70, over(40000));
    download.read_over(500, over(40001));
    download.read_over(20, over(40001));
    download.read(5);
    let begun = site.hear(Duration::ZERO);
    assert_eq!(told(&begun), [("start", 443, 40000, 75), ("start", 443, 40001, 520)]);
    download.read_over(30, over(40002));
    site.hear(Duration::ZERO);
    // One of them goes long before the file is closed.
    site.hub.tell(&Event::Left(address(9, 40002)));
    assert_eq!(told(&site.hear(Duration::ZERO)), [("end", 443, 40002, 30)]);
    drop(download);
    let ended = site.hear(IDLE);
    let mut ended = told(&ended);
    ended.sort_unstable();
    assert_eq!(ended, [("end", 443, 40000, 75), ("end", 443, 40001, 520)]);
}

#[test]
fn files_of_a_connection_are_one_flow_until_it_ends_or_is_idle() {
    let mut site = site(20);
    for bytes in [700, 30] {
        let file = site.open(client("cms"), false, None);
        file.read(bytes);
        drop(file);
    }
    let begun = site.hear(Duration::from_secs(1));
    assert_eq!(told(&begun), [("start", 443, 40000, 700)]);
    let file = site.open(client("cms"), false, None);
    file.read(1);
    // It goes away while its last file is open.
    site.hub.tell(&Event::Left(client("cms").peer));
    let ends = site.hear(Duration::ZERO);
    assert_eq!(told(&ends), [("end", 443, 40000, 731)]);
    drop(file);
    assert!(site.hear(IDLE).is_empty(), "its end was told");
    // The time of the end is that of the last payload.
    drop(site.open(client("cms"), false, None));
    let again = site.hear(INTERVAL / 2);
    assert_eq!(told(&again), [("start", 443, 40000, 0), ("end", 443, 40000, 0)]);
    let at = |firefly: &Value, key: &str| firefly["flow-lifecycle"][key].as_str().unwrap().to_owned();
    assert_eq!(at(&again[1], "end-time"), at(&again[0], "current-time"));
    site.hub.tell(&Event::Left(client("cms").peer));
    assert!(site.hear(INTERVAL).is_empty(), "nothing is told after the end");
}

#[test]
fn an_end_that_is_seen_before_its_event_counts_once() {
    let mut site = site(10);
    let file = site.open(client("cms"), false, None);
    site.hear(Duration::ZERO);
    file.read(700);
    drop(file);
    // Looked through while the event waits.
    site.now += IDLE;
    assert!(site.fireflies.due(site.now).is_empty());
    let heard = site.hear(IDLE);
    assert_eq!(told(&heard), [("end", 443, 40000, 700)]);
    assert!(site.hear(INTERVAL).is_empty(), "nothing is told after the end");
}

#[test]
fn unmarked_files_make_no_flow() {
    let mut site = site(10);
    drop(site.open(client(""), false, None));
    drop(site.open(client("atlas"), false, Some(64)));
    drop(site.open(
        Client {
            local: None,
            ..client("cms")
        },
        false,
        None,
    ));
    assert!(site.hear(INTERVAL).is_empty());
}

#[test]
fn each_connection_of_a_copy_has_its_own_flow() {
    let mut site = site(10);
    let facts = FlowFacts {
        tag: Some(132),
        organisation: "",
        path: "/f",
    };
    let marked = site.hub.mark(&facts);
    let begin = |port| {
        marked.begin(Connection {
            local: address(1, port),
            peer: address(8, 1094),
            is_sent: false,
            application: "xroot",
        })
    };
    let (label, without) = marked.of_packets().unwrap();
    assert_eq!((label.number(), without.len()), (132, 1));
    let (one, other) = (begin(5001), begin(5002));
    one.add(1);
    other.add(2);
    drop((one, other));
    let heard = site.hear(IDLE);
    let mut fireflies = told(&heard).split_off(2);
    fireflies.sort_unstable();
    assert_eq!(fireflies, [("end", 1094, 5001, 1), ("end", 1094, 5002, 2)]);
}

#[test]
fn an_end_that_was_dropped_is_told_later_and_a_begin_with_its_end() {
    let mut site = site(1);
    let heard = site.open(client("cms"), false, None);
    assert_eq!(told(&site.hear(Duration::ZERO)), [("start", 443, 40000, 0)]);
    let unheard = site.open(client("cms"), true, None);
    drop(heard);
    // The queue holds the begin of the second; the end of the first was dropped.
    assert_eq!(site.queue.dropped(), 1);
    assert_eq!(told(&site.hear(INTERVAL))[1..], [("ongoing", 40000, 443, 0)]);
    assert_eq!(told(&site.hear(IDLE)), [("end", 443, 40000, 0)]);
    let full = site.open(client("cms"), false, None);
    let elsewhere = Client {
        peer: address(9, 40001),
        ..client("cms")
    };
    let dropped = site.open(elsewhere, false, None);
    site.hear(Duration::ZERO);
    drop(dropped);
    assert_eq!(
        told(&site.hear(IDLE)),
        [("start", 443, 40001, 0), ("end", 443, 40001, 0)]
    );
    drop((unheard, full));
    assert_eq!(told(&site.hear(IDLE)), [("end", 40000, 443, 0)]);
    assert_eq!(read(site.fireflies.last(site.now)).len(), 1, "its end was dropped");
}
