//! Messages to a broker: by two processes on one database, and over TLS with certificates.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use conformance::{Lab, run, until};
use serde_json::Value;
use testkit::{ActiveMq, HollowStorage, Postgres, Process, Result, Scratch, available, require, require_queue_python};

use crate::bare::Bare;

const PATIENCE: Duration = Duration::from_secs(60);
/// A worker that is lost gives its broker up after this time at most.
const TAKEOVER: Duration = Duration::from_secs(120);
/// Copies of each worker at once.
const SHARE: usize = 20;
const STATE: &str = "/topic/transfer.fts_monitoring_state";

/// A broker that prints what it gets.
struct Broker {
    process: Process,
    port: u64,
    _scratch: Scratch,
}

impl Broker {
    fn start(arguments: &[&Path]) -> Result<Self> {
        let scratch = Scratch::new("broker")?;
        let mut command = Command::new(require("python3")?);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("python/stomp_broker.py"));
        command.args(arguments);
        let mut process = Process::spawn("broker", &mut command, scratch.path())?;
        let port = process.wait_for("its port", PATIENCE, |process| {
            lines(&process.stdout()).first().and_then(|line| line["port"].as_u64())
        })?;
        Ok(Self {
            process,
            port,
            _scratch: scratch,
        })
    }

    fn lines(&self) -> Vec<Value> {
        lines(&self.process.stdout())
    }

    /// The states of each file, in the order of their messages.
    fn states(&self) -> BTreeMap<u64, Vec<String>> {
        let mut states: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for line in self.lines().iter().filter(|line| line["destination"] == STATE) {
            let (Some(file), Some(state)) = (line["body"]["file_id"].as_u64(), line["body"]["file_state"].as_str())
            else {
                panic!("{line}");
            };
            states.entry(file).or_default().push(state.to_owned());
        }
        states
    }

    /// Waits until so many files have ended.
    fn wait_finished(&self, count: usize) -> BTreeMap<u64, Vec<String>> {
        until(&format!("{count} files have ended"), TAKEOVER, || {
            let states = self.states();
            let ended = states
                .values()
                .filter(|states| states.iter().any(|state| state == "FINISHED"));
            ended.count() == count
        });
        self.states()
    }
}

/// The lines that are whole.
fn lines(text: &str) -> Vec<Value> {
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// Takes the time after which another worker takes over: a minute. Starts a server of PostgreSQL.
#[test]
fn two_workers_share_a_broker_and_one_goes_on() {
    let test = "two_workers_share_a_broker_and_one_goes_on";
    let storage = HollowStorage::start().expect("a storage");
    storage.hold(false);
    let Some((server, broker)) = available(
        test,
        Postgres::start().and_then(|server| Ok((server, Broker::start(&[])?))),
    ) else {
        return;
    };
    let url = server.database("queue").expect("a database");
    let worker = |number: usize| {
        let more = format!(
            "{}\nworker = \"w{number}\"\nlease = \"10s\"\n[messages]\nbrokers = [\"stomp://127.0.0.1:{}\"]",
            server.queue_lines(&url),
            broker.port
        );
        Bare::start(&format!("{test}-{number}"), SHARE, &more)
    };
    let Some(mut workers) = available(test, (0..2).map(worker).collect::<Result<Vec<_>>>()) else {
        return;
    };
    let sends = |worker: &Bare| worker.server.log().contains("broker_connected");
    until("one of them sends", PATIENCE, || workers.iter().any(sends));
    workers[0].submit(&storage, 0, 40);
    workers[1].submit(&storage, 1, 40);
    for (file, states) in broker.wait_finished(80) {
        assert_eq!(
            states,
            ["READY", "ACTIVE", "FINISHED"],
            "file {file}: each message once, in order"
        );
    }
    assert_eq!(
        workers.iter().filter(|worker| sends(worker)).count(),
        1,
        "one of them sends"
    );
    let sender = workers.iter().position(sends).expect("one of them");
    let mut killed = workers.remove(sender);
    killed.server.process().kill_hard();
    workers[0].submit(&storage, 2, 40);
    for (file, mut states) in broker.wait_finished(120) {
        // What the killed one had sent and not noted comes again, from where it had noted.
        states.dedup();
        let first: Vec<&String> = states.iter().take(3).collect();
        assert_eq!(first, ["READY", "ACTIVE", "FINISHED"], "file {file}: {states:?}");
    }
    assert!(sends(&workers[0]));
}

#[test]
fn a_broker_with_tls_gets_password_and_certificate() {
    let test = "a_broker_with_tls_gets_password_and_certificate";
    let storage = HollowStorage::start().expect("a storage");
    storage.hold(false);
    let start = || {
        let lab = Lab::new("broker-tls")?;
        let (host, authority) = (lab.host().clone(), lab.authority().ca_file());
        let broker = Broker::start(&[&host.certificate, &host.key, &authority])?;
        let shown = lab.authority().issue_user("/O=Crossload test/CN=Queue")?;
        let directory = lab.fresh("shown");
        std::fs::create_dir_all(&directory)?;
        let (chain, key) = shown.write_pair(&directory, "shown")?;
        let passwords = lab.file(b"queue:correct\n");
        for file in [&chain, &key, &passwords] {
            std::fs::set_permissions(file, PermissionsExt::from_mode(0o600))?;
        }
        let more = format!(
            "[messages]\nbrokers = [\"stomp+ssl://localhost:{}\"]\nbroker_password_file = {passwords:?}\n\
             broker_certificate = {chain:?}\nbroker_key = {key:?}",
            broker.port
        );
        let queue = Bare::start_of(lab, test, SHARE, &more)?;
        Ok((broker, queue))
    };
    let Some((broker, queue)) = available(test, start()) else {
        return;
    };
    queue.submit(&storage, 0, 10);
    broker.wait_finished(10);
    let lines = broker.lines();
    let login = lines.iter().find(|line| line.get("login").is_some()).expect("a login");
    assert_eq!(
        (login["login"].as_str(), login["passcode"].as_str()),
        (Some("queue"), Some("correct"))
    );
    assert!(login["certificate"].to_string().contains("Queue"), "{login}");
}

#[test]
fn activemq_takes_messages_over_tls_by_certificate() {
    let test = "activemq_takes_messages_over_tls_by_certificate";
    let storage = HollowStorage::start().expect("a storage");
    storage.hold(false);
    let start = || {
        let python = require_queue_python("python3")?;
        let lab = Lab::new("activemq-tls")?;
        let broker = ActiveMq::start_tls(&lab.fresh("activemq"), lab.host(), &lab.authority().ca_file())?;
        let shown = lab.authority().issue_user("/O=Crossload test/CN=Queue")?;
        let directory = lab.fresh("shown");
        std::fs::create_dir_all(&directory)?;
        let (chain, key) = shown.write_pair(&directory, "shown")?;
        for file in [&chain, &key] {
            std::fs::set_permissions(file, PermissionsExt::from_mode(0o600))?;
        }
        let port = broker.tls_port().unwrap_or_default();
        let more = format!(
            "[messages]\nbrokers = [\"stomp+ssl://localhost:{port}\"]\nbroker_prefix = \"/queue/\"\n\
             broker_certificate = {chain:?}\nbroker_key = {key:?}"
        );
        let reader = lab.prepared(&python);
        Ok((broker, reader, Bare::start_of(lab, test, SHARE, &more)?))
    };
    let Some((broker, mut reader, queue)) = available(test, start()) else {
        return;
    };
    queue.submit(&storage, 0, 10);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/stomp_reader.py");
    reader.arg(script).args([
        broker.port().to_string(),
        "/queue/transfer.fts_monitoring_complete".to_owned(),
        PATIENCE.as_secs().to_string(),
        "files".to_owned(),
        "10".to_owned(),
    ]);
    let read: Value = serde_json::from_str(&run(&reader).succeeded().text()).expect("JSON");
    let count = read.as_object().map_or(0, serde_json::Map::len);
    assert_eq!(count, 10, "{read}\n{}", queue.server.log());
    // It serves no client without a certificate, so it has accepted ours.
    assert!(queue.server.log().contains("broker_connected"));
}

#[test]
fn a_broker_that_is_not_trusted_gets_no_password() {
    let test = "a_broker_that_is_not_trusted_gets_no_password";
    let start = || {
        let (lab, other) = (Lab::new("broker-trusted")?, Lab::new("broker-other")?);
        let (host, authority) = (other.host().clone(), other.authority().ca_file());
        let broker = Broker::start(&[&host.certificate, &host.key, &authority])?;
        let passwords = lab.file(b"queue:correct\n");
        std::fs::set_permissions(&passwords, PermissionsExt::from_mode(0o600))?;
        let more = format!(
            "[messages]\nbrokers = [\"stomp+ssl://localhost:{}\"]\nbroker_password_file = {passwords:?}",
            broker.port
        );
        let queue = Bare::start_of(lab, test, SHARE, &more)?;
        Ok((broker, queue, other))
    };
    let Some((broker, queue, _other)) = available(test, start()) else {
        return;
    };
    until("the queue says why", PATIENCE, || {
        let log = queue.server.log();
        log.contains("broker_failed") && log.contains("trusted")
    });
    until("the broker has heard of it", PATIENCE, || {
        broker.lines().iter().any(|line| line.get("refused").is_some())
    });
    assert!(!broker.process.stdout().contains("correct"));
}
