//! Messages under real and hostile clients: ActiveMQ that is killed in between, and subscribers
//! that do what they should not.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use conformance::{Lab, bytes, run, until};
use serde_json::{Value, json};
use testkit::{ActiveMq, Crossload, Queue, Result, available, require_queue_python};

use crate::site;

/// The topic of ended copies.
const COMPLETE: &str = "transfer.fts_monitoring_complete";

/// Two endpoints, and a queue for everyone.
struct Place {
    lab: Lab,
    first: Crossload,
    second: Crossload,
    queue: Queue,
}

impl Place {
    fn start(lab: Lab, more: &str) -> Result<Self> {
        let (first, second) = (
            lab.crossload(lab.options("first"))?,
            lab.crossload(lab.options("second"))?,
        );
        let mut options = site::options(&lab, "anonymous = true");
        options.certificate = None;
        options.more = more.to_owned();
        let queue = Queue::start(options)?;
        Ok(Self {
            lab,
            first,
            second,
            queue,
        })
    }

    /// Submits a job of files that the source has; its identifier.
    fn submit(&self, name: &str, count: usize) -> String {
        let file = |number| {
            let file = format!("{name}{number}");
            std::fs::write(self.first.data().join(&file), bytes(2000, number as u64)).expect("file");
            let url = |endpoint: &Crossload| endpoint.url(&format!("/data/{file}"));
            json!({"sources": [url(&self.first)], "destinations": [url(&self.second)]})
        };
        let files: Vec<Value> = (0..count).map(file).collect();
        let body = self.lab.file(json!({"files": files}).to_string().as_bytes());
        let answer = self.ask(
            "/jobs",
            &[
                "-H",
                "Content-Type: application/json",
                "-d",
                &format!("@{}", body.display()),
            ],
        );
        answer["job_id"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"))
            .to_owned()
    }

    fn ask(&self, path: &str, arguments: &[&str]) -> Value {
        let mut curl = self.lab.command("curl").expect("curl");
        curl.args(["-s", "-m", "20"])
            .args(arguments)
            .arg(format!("{}{path}", self.queue.url()));
        let text = run(&curl).succeeded().text();
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"))
    }

    fn wait_for(&self, job: &str) {
        until("the job ends", Duration::from_secs(60), || {
            self.ask(&format!("/jobs/{job}"), &[])["job_state"] == "FINISHED"
        });
    }
}

#[test]
fn a_broker_that_is_killed_gets_every_message() {
    let test = "a_broker_that_is_killed_gets_every_message";
    let start = || {
        let python = require_queue_python("python3")?;
        let lab = Lab::new("broker")?;
        let broker = ActiveMq::start_persistent(&lab.fresh("activemq"))?;
        let more = format!(
            "[messages]\nbrokers = [\"stomp://127.0.0.1:{}\"]\nbroker_prefix = \"/queue/\"\n",
            broker.port()
        );
        Ok((python, broker, Place::start(lab, &more)?))
    };
    let Some((python, mut broker, place)) = available(test, start()) else {
        return;
    };
    let (before, during) = (place.submit("before", 60), place.submit("during", 60));
    place.wait_for(&before);
    broker.process().kill_hard();
    let away = place.submit("away", 30);
    place.wait_for(&during);
    place.wait_for(&away);
    until("the queue notices it", Duration::from_secs(30), || {
        place.queue.log().contains("broker_failed")
    });
    broker.start_again().expect("as before");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/stomp_reader.py");
    let mut reader = place.lab.prepared(&python);
    reader.arg(script).args([
        broker.port().to_string(),
        format!("/queue/{COMPLETE}"),
        "60".into(),
        "files".into(),
        "150".into(),
    ]);
    let read = run(&reader).succeeded().text();
    let files: Value = serde_json::from_str(&read).expect("JSON");
    let count = files.as_object().map_or(0, serde_json::Map::len);
    assert_eq!(count, 150, "each file at least once: {read}\n{}", place.queue.log());
}

/// What a client sends, and whether it reads.
fn connect(port: u16) -> TcpStream {
    let tcp = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the port for messages");
    tcp.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    tcp.set_write_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    tcp
}

/// Reads until `words` have come; what came.
fn read_until(tcp: &mut TcpStream, words: &str) -> String {
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&text).contains(words) {
        let count = tcp.read(&mut piece).unwrap_or(0);
        if count == 0 {
            break;
        }
        text.extend_from_slice(&piece[..count]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn subscribe(port: u16) -> TcpStream {
    let mut tcp = connect(port);
    let words = format!(
        "CONNECT\naccept-version:1.2\nhost:h\nlogin:u\npasscode:correct\n\n\0\
         SUBSCRIBE\nid:1\nreceipt:yes\ndestination:/topic/{COMPLETE}\n\n\0"
    );
    tcp.write_all(words.as_bytes()).expect("sent");
    let answer = read_until(&mut tcp, "receipt-id:yes");
    assert!(answer.contains("receipt-id:yes"), "{answer}");
    tcp
}

#[test]
fn hostile_subscribers_harm_no_other() {
    let test = "hostile_subscribers_harm_no_other";
    let start = || {
        let lab = Lab::new("hostile")?;
        let passwords = lab.file(b"u:correct\n");
        std::fs::set_permissions(&passwords, PermissionsExt::from_mode(0o600))?;
        let more = format!("[messages]\nlisten = [\"127.0.0.1:0\"]\npassword_file = {passwords:?}\n");
        Place::start(lab, &more)
    };
    let Some(mut place) = available(test, start()) else {
        return;
    };
    let port = place.queue.messages_port().expect("a port for messages");
    let mut good = subscribe(port);
    // One that never reads, one that floods, many that say nothing.
    let deaf = subscribe(port);
    let mut flood = connect(port);
    let huge = vec![b'x'; 1024 * 1024];
    let _ = flood.write_all(b"CONNECT\nlogin:");
    let sent = (0..64).take_while(|_| flood.write_all(&huge).is_ok()).count();
    assert!(sent < 64, "a frame without end is not read to its end");
    let silent: Vec<TcpStream> = (0..1000).map(|_| connect(port)).collect();
    for words in [
        "SUBSCRIBE\nid:1\ndestination:/topic/a\n\n\0",
        "\u{16}\u{3}\u{1}",
        "GET / HTTP/1.1\r\n\r\n",
    ] {
        let mut tcp = connect(port);
        let _ = tcp.write_all(words.as_bytes());
        let _ = read_until(&mut tcp, "never");
    }
    let job = place.submit("good", 20);
    place.wait_for(&job);
    let mut heard = String::new();
    until("the messages come", Duration::from_secs(30), || {
        heard.push_str(&read_until(&mut good, "\0"));
        heard.matches("t_final_transfer_state_flag").count() >= 20
    });
    let memory = place.queue.process().memory().expect("its memory");
    assert!(memory.resident_bytes < 300 << 20, "{memory:?}");
    drop((silent, deaf, flood));
    let mut next = until_subscribed(port);
    let job = place.submit("next", 1);
    place.wait_for(&job);
    assert!(read_until(&mut next, "t_final_transfer_state_flag").contains("t_final_transfer_state_flag"));
}

/// Subscribes as soon as places are free again.
fn until_subscribed(port: u16) -> TcpStream {
    let mut found = None;
    until("a place is free", Duration::from_secs(30), || {
        let mut tcp = connect(port);
        let words = format!(
            "CONNECT\naccept-version:1.2\nhost:h\nlogin:u\npasscode:correct\n\n\0\
             SUBSCRIBE\nid:1\nreceipt:yes\ndestination:/topic/{COMPLETE}\n\n\0"
        );
        let _ = tcp.write_all(words.as_bytes());
        if read_until(&mut tcp, "receipt-id:yes").contains("receipt-id:yes") {
            found = Some(tcp);
        }
        found.is_some()
    });
    found.expect("a subscriber")
}
