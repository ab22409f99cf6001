//! A made-up door, which answers jobs instead of files, on the parts that all HTTP doors share.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use endpoint::{RequestLog, RequestRecord};
use http_server::{Claim, Exchange, Fate, Server, Service, claims, find, serve_connection};
use http_wire::{ContentType, Method, RequestHead};
use net::listen::Opening;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use types::{Error, ErrorCode, Phase, Result, Side};

/// No wait in these tests may take longer: then something hangs.
const PATIENCE: Duration = Duration::from_secs(30);

enum Route {
    Job(String),
    Submit,
    Private,
}

const CLAIMS: &[Claim<Route>] = claims! {
    [Get] "/jobs/{id}" => |captured| Route::Job(captured.get(0).to_owned());
    [Post] "/jobs" => |_| Route::Submit;
    [] "/private/{*}" => |_| Route::Private;
};

#[derive(Default)]
struct Log(Mutex<Vec<RequestRecord>>);

impl RequestLog for Log {
    fn request(&self, record: &RequestRecord) {
        self.0.lock().unwrap().push(record.clone());
    }
}

struct Jobs(Server);

impl Service for Jobs {
    /// Requests that this connection has had.
    type Memory = usize;

    fn server(&self) -> &Server {
        &self.0
    }

    async fn answer(&self, exchange: &mut Exchange<'_>, head: Result<RequestHead>, count: &mut usize) -> Fate {
        *count += 1;
        let result = match head {
            Ok(head) => answer(exchange, &head, *count).await,
            Err(error) => Err(error),
        };
        exchange.end(result).await
    }
}

async fn answer(exchange: &mut Exchange<'_>, head: &RequestHead, count: usize) -> Result<()> {
    let refuse = |code| Err(Error::new(code, Side::Client, Phase::Authorize));
    match find(CLAIMS, &head.method, &exchange.path) {
        Some(Route::Job(id)) => {
            let text = format!("job {id}, request {count}\n");
            let fill = |head: http_wire::ResponseBuilder| head.content_type(ContentType::Text);
            exchange.whole(200, text.as_bytes(), fill).await
        }
        Some(Route::Submit) => {
            let body = exchange.small_body(16).await?;
            exchange.begin_pieces(201, |head| head.content_type(ContentType::Text));
            exchange.piece(&body).await?;
            exchange.end_pieces(None).await
        }
        Some(Route::Private) => refuse(ErrorCode::Unauthenticated),
        None => refuse(ErrorCode::NotFound),
    }
}

fn jobs() -> (Arc<Jobs>, Arc<Log>) {
    let log = Arc::new(Log::default());
    let server = Server::new("jobs", log.clone());
    (Arc::new(Jobs(server)), log)
}

/// Sends `text` on one connection, closes that direction, and returns all answers.
async fn ask(door: &Arc<Jobs>, text: &str) -> String {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (tcp, peer) = listener.accept().await.unwrap();
    let serving = tokio::spawn(serve_connection(door, tcp, Opening::Text, peer));
    let mut answers = String::new();
    let talk = async {
        client.write_all(text.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        client.read_to_string(&mut answers).await.unwrap();
        serving.await.unwrap().unwrap();
    };
    tokio::time::timeout(PATIENCE, talk).await.expect("it hangs");
    answers
}

#[tokio::test]
async fn requests_of_one_connection_are_routed_answered_and_logged() {
    let (door, log) = jobs();
    let text = "GET /jobs/7 HTTP/1.1\r\nHost: h\r\n\r\n\
                POST /jobs HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello\
                GET /jobs/8 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let answers = ask(&door, text).await;
    assert!(answers.contains("job 7, request 1\n"), "{answers}");
    assert!(answers.contains("5\r\nhello\r\n0\r\n\r\n"), "{answers}");
    assert!(answers.contains("job 8, request 3\n"), "{answers}");
    let log = log.0.lock().unwrap();
    let lines: Vec<_> = log
        .iter()
        .map(|record| (&*record.method, record.path.as_str(), record.status))
        .collect();
    let expected = [
        ("GET", "/jobs/7", Some(200)),
        ("POST", "/jobs", Some(201)),
        ("GET", "/jobs/8", Some(200)),
    ];
    assert_eq!(lines, expected);
    assert_eq!((log[1].bytes_in, log[1].bytes_out), (5, 5));
}

#[tokio::test]
async fn errors_have_status_challenge_and_name_at_every_door() {
    let (door, log) = jobs();
    let text = "PUT /private/x HTTP/1.1\r\nHost: h\r\n\r\nGET /else HTTP/1.1\r\nHost: h\r\n\r\n";
    let answers = ask(&door, text).await;
    assert!(answers.starts_with("HTTP/1.1 401 "), "{answers}");
    assert!(answers.contains("Bearer realm=\"jobs\""), "{answers}");
    assert!(answers.contains("HTTP/1.1 404 "), "{answers}");
    for record in log.0.lock().unwrap().iter() {
        assert!(answers.contains(&format!("] {}\n", record.request_id)), "{answers}");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_it_is_read() {
    let (door, log) = jobs();
    let text = "POST /jobs HTTP/1.1\r\nHost: h\r\nContent-Length: 17\r\n\r\n0123456789abcdefg";
    let answers = ask(&door, text).await;
    assert!(answers.starts_with("HTTP/1.1 413 "), "{answers}");
    let log = log.0.lock().unwrap();
    assert_eq!((log.len(), log[0].bytes_in), (1, 0));
}
