//! What is written about brokers has no passwords.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use catalog::Catalog;
use net::tls::{ClientTls, Trust};
use queue::messages::push::{Broker, BrokerLogin, BrokerSettings, Push, PushLog};
use queue::messages::{Feed, FeedSettings};
use tokio::sync::{mpsc, watch};
use types::{Error, Secret};

struct Heard(mpsc::UnboundedSender<String>);

impl PushLog for Heard {
    fn connected(&self, _broker: &str) {}

    fn failed(&self, _broker: &str, error: &Error, _pause: Duration) {
        let private = error.private().unwrap_or_default();
        let _ = self.0.send(format!("{} {private}", error.public()));
    }
}

#[tokio::test]
async fn a_password_that_a_broker_quotes_is_hidden() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut frame = [0; 1024];
        let count = stream.read(&mut frame).unwrap();
        let text = String::from_utf8_lossy(&frame[..count]).into_owned();
        let passcode = text.lines().find_map(|line| line.strip_prefix("passcode:")).unwrap();
        let refusal = format!("ERROR\nmessage:login refused for passcode {passcode}\n\nnot {passcode}\0");
        stream.write_all(refusal.as_bytes()).unwrap();
    });
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap();
    let feed = Feed::new(
        catalog,
        FeedSettings {
            endpoint: "fts.example".to_owned(),
            retries: 2,
        },
    );
    let settings = BrokerSettings {
        worker: "w".to_owned(),
        prefix: String::new(),
        is_persistent: false,
        login: Some(BrokerLogin {
            user: "fts".to_owned(),
            password: Secret::new("pa55w"),
        }),
        tls: ClientTls::load(&Trust::default()).unwrap().0,
    };
    let broker = Broker::parse(&format!("stomp://127.0.0.1:{port}")).unwrap();
    let (sender, mut heard) = mpsc::unbounded_channel();
    let stopping = watch::Sender::new(false);
    let push = Push::new(feed, broker, Arc::new(settings), Arc::new(Heard(sender)));
    let task = tokio::spawn(push.run(stopping.subscribe()));
    let told = tokio::time::timeout(Duration::from_secs(20), heard.recv()).await;
    let told = told.unwrap().unwrap();
    assert!(told.contains("login refused for passcode hidden"), "{told}");
    assert!(!told.contains("pa55w"), "{told}");
    stopping.send_replace(true);
    task.await.unwrap();
}
