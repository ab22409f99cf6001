//! Webhooks: each event reaches its receiver, in order and signed, whatever fails in between.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use catalog::{Audit, Catalog, NO_ACTOR, Operation, SettingKind, UserRight};
use credentials::SealingKey;
use net::address::AddressPolicy;
use net::tls::{ClientTls, Trust};
use queue::Vault;
use queue::webhooks::{KnownWebhook, Maker, NewWebhook, Webhook, WebhookLog, WebhookSecret, Webhooks};
use remote::{Client, ClientOptions};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Authority, KeyKind};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

const NOW: i64 = 1_800_000_000_000;

/// A request that the receiver got.
#[derive(Debug)]
struct Heard {
    line: String,
    id: String,
    timestamp_s: i64,
    signature: String,
    body: String,
}

impl Heard {
    fn limits(&self) -> Vec<i64> {
        let body: Value = serde_json::from_str(&self.body).unwrap();
        let events = body["data"]["events"].as_array().unwrap().iter();
        events.map(|event| event["data"]["limit"].as_i64().unwrap()).collect()
    }
}

/// A receiver that answers with these statuses, then with 200.
fn receiver(tls: Arc<ServerConfig>, statuses: &[u16]) -> (u16, mpsc::UnboundedReceiver<Heard>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let statuses = Arc::new(Mutex::new(VecDeque::from(statuses.to_vec())));
    let (sender, heard) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (tls, statuses, sender) = (tls.clone(), statuses.clone(), sender.clone());
            // A connection that breaks ends its thread alone.
            std::thread::spawn(move || serve(stream.ok()?, tls, &statuses, &sender));
        }
    });
    (port, heard)
}

/// Serves one connection until it ends.
fn serve(
    stream: TcpStream,
    tls: Arc<ServerConfig>,
    statuses: &Mutex<VecDeque<u16>>,
    sender: &mpsc::UnboundedSender<Heard>,
) -> Option<()> {
    let mut stream = BufReader::new(StreamOwned::new(ServerConnection::new(tls).ok()?, stream));
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).ok().filter(|count| *count > 0)?;
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_owned());
        }
        let header = |name: &str| {
            let fields = head.iter().filter_map(|line| line.split_once(": "));
            fields
                .filter(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.to_owned())
                .next()
                .unwrap_or_default()
        };
        let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
        stream.read_exact(&mut body).ok()?;
        let status = statuses.lock().unwrap().pop_front().unwrap_or(200);
        let _ = sender.send(Heard {
            line: head.first().cloned().unwrap_or_default(),
            id: header("webhook-id"),
            timestamp_s: header("webhook-timestamp").parse().unwrap_or_default(),
            signature: header("webhook-signature"),
            body: String::from_utf8(body).ok()?,
        });
        // 299 stands for a receiver that says more than anybody reads.
        let length = if status == 299 { 300_000 } else { 0 };
        let mut answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n").into_bytes();
        answer.resize(answer.len() + length, b'x');
        stream.get_mut().write_all(&answer).ok()?;
        stream.get_mut().flush().ok()?;
    }
}

struct NoLog;

impl WebhookLog for NoLog {
    fn failed(&self, _: &Webhook, _: &str, _: Duration) {}
    fn recovered(&self, _: &Webhook) {}
    fn disabled(&self, _: &Webhook, _: &str) {}
}

struct Lab {
    catalog: Catalog,
    webhooks: Webhooks,
    authority: Authority,
    _directory: TempDir,
}

/// A process that posts.
struct Process {
    stopping: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Process {
    async fn stop(self) {
        self.stopping.send_replace(true);
        soon(self.task).await.unwrap();
    }
}

fn operator() -> Maker {
    Maker {
        user: "operator".to_owned(),
        ..Maker::default()
    }
}

fn entry(at_ms: i64) -> Audit {
    Audit {
        at_ms,
        actor: "operator".to_owned(),
        action: "webhook".to_owned(),
        detail: String::new(),
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future)
        .await
        .expect("it hangs")
}

impl Lab {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap();
        Self {
            webhooks: Webhooks::new(catalog.clone(), Vault::new(SealingKey::new(b"key"))),
            authority: Authority::new(directory.path()).unwrap(),
            catalog,
            _directory: directory,
        }
    }

    fn tls(&self) -> Arc<ServerConfig> {
        let host = self
            .authority
            .issue_host("hook", &["localhost"], KeyKind::EcdsaP256)
            .unwrap();
        testkit::tls_server(&host.certificate, &host.key).unwrap()
    }

    fn start(&self, worker: &str, local: bool) -> Process {
        let trust = Trust {
            files: vec![self.authority.ca_file()],
            ..Trust::default()
        };
        let time = Duration::from_secs(10);
        let client = Client::new(ClientOptions {
            tls: ClientTls::load(&trust).unwrap().0,
            addresses: AddressPolicy { local, private: local },
            connect: time,
            first_byte: time,
            stall: time,
            user_agent: "test".to_owned(),
        });
        let stopping = watch::Sender::new(false);
        let run = self
            .webhooks
            .clone()
            .run(client, worker.to_owned(), Arc::new(NoLog), stopping.subscribe());
        Process {
            task: tokio::spawn(run),
            stopping,
        }
    }

    async fn add(&self, port: u16) -> (Webhook, WebhookSecret) {
        let new = NewWebhook {
            url: format!("https://localhost:{port}/events"),
            ..NewWebhook::default()
        };
        self.webhooks.add(new, &operator(), entry(NOW)).await.unwrap()
    }

    async fn decide(&self, limit: i64) {
        self.catalog
            .put_decisions(vec![json!({"limit": limit})], NOW)
            .await
            .unwrap();
    }

    /// The only webhook, as soon as this holds for it.
    async fn until(&self, is_so: impl Fn(&KnownWebhook) -> bool) -> KnownWebhook {
        soon(async {
            loop {
                let known = self.webhooks.list().await.unwrap();
                match known.into_iter().find(&is_so) {
                    Some(known) => return known,
                    None => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        })
        .await
    }
}

#[tokio::test]
async fn events_are_posted_in_order_and_signed_until_they_are_taken() {
    let lab = Lab::new().await;
    lab.decide(1).await;
    let (port, mut heard) = receiver(lab.tls(), &[500, 299]);
    let (_, secret) = lab.add(port).await;
    lab.decide(2).await;
    let process = lab.start("w1", true);
    let first = soon(heard.recv()).await.unwrap();
    assert_eq!(first.limits(), [2], "only events after it was made");
    let again = soon(heard.recv()).await.unwrap();
    assert_eq!((&again.id, &again.body), (&first.id, &first.body), "the same message");
    assert_eq!(again.signature, secret.sign(&again.id, again.timestamp_s, &again.body));
    lab.until(|known| known.state.failures == 0 && known.pending == Some(0))
        .await;

    process.stop().await;
    lab.decide(3).await;
    lab.decide(4).await;
    // Another process goes on where the first has ended.
    let process = lab.start("w2", true);
    assert_eq!(soon(heard.recv()).await.unwrap().limits(), [3, 4]);
    lab.until(|known| known.pending == Some(0)).await;
    process.stop().await;
    assert!(heard.try_recv().is_err(), "nothing comes twice without need");
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_disabled_until_an_operator_enables_it() {
    let lab = Lab::new().await;
    let (port, mut heard) = receiver(lab.tls(), &[410]);
    let (hook, _) = lab.add(port).await;
    let process = lab.start("w1", true);
    lab.decide(1).await;
    soon(heard.recv()).await.unwrap();
    let known = lab.until(|known| known.state.disabled_ms.is_some()).await;
    assert_eq!(known.state.error.as_deref(), Some("status 410"));
    assert_eq!(known.pending, None, "it holds no events back");
    lab.decide(2).await;
    assert!(
        lab.webhooks
            .enable(&hook.id, &operator(), entry(NOW + 1))
            .await
            .unwrap()
    );
    lab.decide(3).await;
    assert_eq!(soon(heard.recv()).await.unwrap().limits(), [3]);
    assert!(lab.webhooks.remove(&hook.id, entry(NOW + 2)).await.unwrap());
    assert_eq!(lab.webhooks.list().await.unwrap(), []);
    process.stop().await;
}

#[tokio::test]
async fn addresses_that_copies_may_not_reach_are_refused_to_webhooks_too() {
    let lab = Lab::new().await;
    let (port, mut heard) = receiver(lab.tls(), &[]);
    lab.add(port).await;
    let process = lab.start("w1", false);
    lab.decide(1).await;
    let known = lab.until(|known| known.state.failures > 0).await;
    assert!(known.state.error.is_some_and(|error| !error.is_empty()));
    process.stop().await;
    assert!(heard.try_recv().is_err());
}

#[tokio::test]
async fn the_path_of_a_url_is_in_no_error() {
    let lab = Lab::new().await;
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let new = NewWebhook {
        url: format!("https://localhost:{port}/services/T024/xyzsecret"),
        ..NewWebhook::default()
    };
    lab.webhooks.add(new, &operator(), entry(NOW)).await.unwrap();
    let process = lab.start("w1", true);
    lab.decide(1).await;
    let known = lab.until(|known| known.state.failures > 0).await;
    let error = known.state.error.unwrap_or_default();
    assert!(error.contains(&format!("localhost:{port}")), "{error}");
    assert!(!error.contains("services"), "{error}");
    assert!(error.starts_with("server connect: "), "{error}");
    process.stop().await;
}

#[tokio::test]
async fn a_webhook_is_paused_while_its_maker_has_no_right() {
    let lab = Lab::new().await;
    let (port, mut heard) = receiver(lab.tls(), &[]);
    let right = UserRight {
        user: "/CN=Jane".to_owned(),
        operation: Operation::Transfer,
        by: "operator".to_owned(),
    };
    let grant = || {
        lab.catalog
            .put_setting(SettingKind::UserRight, "transfer jane", &right, NO_ACTOR, NOW)
    };
    grant().await.unwrap();
    let new = NewWebhook {
        url: format!("https://localhost:{port}/events"),
        ..NewWebhook::default()
    };
    let jane = Maker {
        user: "/CN=Jane".to_owned(),
        name: "/CN=Jane".to_owned(),
        granted: vec![Operation::Transfer],
    };
    lab.webhooks.add(new, &jane, entry(NOW)).await.unwrap();
    let process = lab.start("w1", true);
    lab.decide(1).await;
    assert_eq!(soon(heard.recv()).await.unwrap().limits(), [1]);
    let kind = SettingKind::UserRight;
    assert!(
        lab.catalog
            .delete_setting(kind, "transfer jane", NO_ACTOR, NOW)
            .await
            .unwrap()
    );
    lab.until(|known| known.is_paused && known.pending.is_none()).await;
    lab.decide(2).await;
    grant().await.unwrap();
    lab.until(|known| !known.is_paused && known.pending.is_some()).await;
    lab.decide(3).await;
    assert_eq!(
        soon(heard.recv()).await.unwrap().limits(),
        [3],
        "nothing of the time without right"
    );
    process.stop().await;
}

#[tokio::test]
async fn the_query_of_a_url_is_sealed_and_no_more_webhooks_than_allowed_are_made_at_once() {
    let lab = Lab::new().await;
    let (port, mut heard) = receiver(lab.tls(), &[]);
    let new = |number: usize| NewWebhook {
        url: format!("https://localhost:{port}/events?token=s3cr3t{number}"),
        ..NewWebhook::default()
    };
    let tasks: Vec<_> = (0..24)
        .map(|number| {
            let (webhooks, new) = (lab.webhooks.clone(), new(number));
            tokio::spawn(async move { webhooks.add(new, &operator(), entry(NOW)).await.is_ok() })
        })
        .collect();
    let mut made = 0;
    for task in tasks {
        made += usize::from(task.await.unwrap());
    }
    assert_eq!(made, queue::limits::WEBHOOKS_MAX);
    let stored = lab.catalog.settings::<Value>(SettingKind::Webhook).await.unwrap();
    assert_eq!(stored.len(), made);
    assert!(!stored.iter().any(|one| one.value.to_string().contains("s3cr3t")));
    let known = lab.webhooks.list().await.unwrap();
    assert!(known.iter().all(|known| known.hook.url.ends_with("?token=hidden")));
    for spare in &known[1..] {
        assert!(lab.webhooks.remove(&spare.hook.id, entry(NOW)).await.unwrap());
    }
    let process = lab.start("w1", true);
    lab.decide(1).await;
    let line = soon(heard.recv()).await.unwrap().line;
    assert!(line.contains("?token=s3cr3t"), "{line}");
    process.stop().await;
}
