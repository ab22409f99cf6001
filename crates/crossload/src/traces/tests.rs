//! Tests of exports against collectors that answer by a script.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::SystemTime;

use net::tls::{ClientTls, Trust};
use telemetry::SpanKind;

use super::*;
use crate::made_client::new_client;

fn span() -> Span {
    let context = SpanContext {
        trace: 1,
        span: 2,
        is_sampled: true,
    };
    let now = SystemTime::now();
    Span::new(context, None, "GET", SpanKind::Server, now, now)
}

/// Reads one request with its body.
fn read_request(socket: &mut TcpStream) -> String {
    let mut text = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = socket.read(&mut piece).expect("a request");
        text.extend_from_slice(&piece[..count]);
        let shown = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = shown.split_once("\r\n\r\n") else {
            assert!(count > 0, "{shown}");
            continue;
        };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse().ok())?
        });
        if body.len() >= length.unwrap_or(0_usize) {
            return shown;
        }
        assert!(count > 0, "{shown}");
    }
}

/// A collector that answers each connection once, in this order; its requests.
fn collector(answers: &'static [&'static str]) -> (SocketAddr, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let serving = std::thread::spawn(move || {
        let serve = |answer: &&str| {
            let (mut socket, _) = listener.accept().expect("a connection");
            let request = read_request(&mut socket);
            socket.write_all(answer.as_bytes()).expect("an answer");
            request
        };
        answers.iter().map(serve).collect()
    });
    (address, serving)
}

fn start(url: &str) -> Traces {
    let found = Collector::of_client(Some(url), |_| None);
    let collector = found
        .unwrap_or_else(|failure| panic!("{}", failure.words))
        .expect("a collector");
    let (tls, _) = ClientTls::load(&Trust::default()).expect("no authorities");
    Traces::start(collector, new_client(tls), Sampler::ALL, |_| {})
}

fn counts(traces: &Traces) -> [u64; 4] {
    traces.counted().expect("they are on").map(|(_, count)| count)
}

const LATER: &str = "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
const PARTLY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 40\r\nConnection: close\r\n\r\n\
    {\"partialSuccess\":{\"rejectedSpans\":\"1\"}}";
const REFUSED: &str = "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

async fn sent_to(answers: &'static [&'static str], spans: usize) -> ([u64; 4], Vec<String>) {
    let (address, serving) = collector(answers);
    let traces = start(&format!("http://{address}"));
    for _ in 0..spans {
        traces.export(span());
    }
    let shared = traces.0.as_ref().expect("they are on");
    shared.stopping.send_replace(true);
    let task = shared.task.lock().unwrap_or_else(PoisonError::into_inner).take();
    task.expect("a task").await.expect("no panic");
    (counts(&traces), serving.join().expect("no panic"))
}

#[tokio::test]
async fn spans_are_posted_as_json_and_what_is_rejected_is_counted() {
    let (counts, requests) = sent_to(&[TAKEN], 3).await;
    assert_eq!(counts, [3, 0, 0, 0]);
    let (head, body) = requests[0].split_once("\r\n\r\n").expect("a request");
    assert!(head.starts_with("POST /v1/traces "), "{head}");
    assert!(
        head.to_ascii_lowercase().contains("content-type: application/json"),
        "{head}"
    );
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"]
        .as_array()
        .expect("spans");
    assert_eq!(spans.len(), 3);
    assert_eq!(sent_to(&[PARTLY], 3).await.0, [2, 1, 0, 0]);
}

#[tokio::test]
async fn what_a_collector_refuses_is_not_sent_again() {
    let (counts, requests) = sent_to(&[REFUSED], 2).await;
    assert_eq!((counts, requests.len()), ([0, 2, 0, 0], 1));
}

#[tokio::test]
async fn a_collector_that_is_busy_gets_the_spans_later_but_not_while_we_stop() {
    let (address, serving) = collector(&[LATER, TAKEN]);
    let traces = start(&format!("http://{address}"));
    traces.export(span());
    let requests = execution::blocking(move || serving.join().expect("no panic")).await;
    let requests = requests.expect("a thread");
    assert_eq!(
        requests[0].split_once("\r\n\r\n").map(|parts| parts.1),
        requests[1].split_once("\r\n\r\n").map(|parts| parts.1)
    );
    traces.stop().await;
    assert_eq!(counts(&traces), [1, 0, 0, 0]);
    assert_eq!(sent_to(&[LATER], 1).await.0, [0, 0, 1, 0]);
}

#[tokio::test]
async fn without_a_collector_spans_are_dropped_and_nothing_waits() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let traces = start(&format!("http://{address}"));
    // The collector takes the connection and says nothing; the queue fills.
    for _ in 0..3 * SPANS_QUEUED_MAX {
        traces.export(span());
    }
    let [.., dropped] = counts(&traces);
    assert!(dropped >= SPANS_QUEUED_MAX as u64, "{dropped}");
    let began = std::time::Instant::now();
    traces.stop().await;
    assert!(began.elapsed() < 2 * LAST_SPANS_WAIT, "{:?}", began.elapsed());
    drop(listener);
}
