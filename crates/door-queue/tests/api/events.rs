//! Streams of events.

use std::sync::Arc;
use std::time::Duration;

use catalog::{Login, Operation, Owner, UserRight};
use door_queue::limits::{EVENT_STREAMS_PER_USER_MAX, EVENTS_KEPT_MAX};
use door_queue::queue::{Event, EventKind};
use schedule::JobId;
use serde_json::{Value, json};

use crate::place::{JANE, Place, User, Visit, soon};

fn event(sequence: i64, user: Option<&str>, kind: EventKind) -> Event {
    Event {
        sequence,
        kind,
        job: user.map(|_| JobId([1; 16])),
        owner: user.map(|user| Owner {
            user: format!("/O=Crossload test/CN={user}"),
            delegation_id: String::new(),
            vo: "testers".to_owned(),
            login: Login::Certificate,
        }),
        message: json!({"number": sequence}).to_string().into(),
    }
}

/// A stream of events, read as it comes.
struct Stream {
    visit: Visit,
    text: String,
}

impl Stream {
    async fn open(place: &Place, user: &User, query: &str, headers: &str) -> Self {
        let visit = place.send(user, &format!("GET /v1/events{query}"), headers, "").await;
        assert_eq!(visit.head.status, 200);
        assert_eq!(visit.head.headers.get("Content-Type"), Some("text/event-stream"));
        let mut stream = Self {
            visit,
            text: String::new(),
        };
        assert_eq!(stream.next().await.unwrap(), ": following");
        stream
    }

    /// The next record without its end; `None` at the end of the stream.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let record = self.text.drain(..end + 2).collect::<String>();
                return Some(record.trim_end().to_owned());
            }
            let piece = self.visit.piece().await?;
            self.text.push_str(&piece);
        }
    }

    async fn number(&mut self) -> i64 {
        let record = self.next().await.expect("an event");
        let line = record.lines().find_map(|line| line.strip_prefix("id: "));
        line.unwrap_or_else(|| panic!("no event: {record}")).parse().unwrap()
    }
}

#[tokio::test]
async fn a_stream_has_own_events_and_those_for_all() {
    let place = Place::new().await;
    place.queue.happen(event(1, Some("Jane Doe"), EventKind::State));
    let mut jane = Stream::open(&place, &place.jane, "", "").await;
    let mut operator = Stream::open(&place, &place.operator, "?kind=state", "").await;
    place.queue.happen(event(2, Some("John Roe"), EventKind::State));
    place.queue.happen(event(4, None, EventKind::Optimizer));
    place.queue.happen(event(5, Some("Jane Doe"), EventKind::State));
    assert_eq!(
        jane.number().await,
        4,
        "what came before and what others have is left out"
    );
    let record = jane.next().await.unwrap();
    let mut lines: Vec<&str> = record.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["data: {\"number\":5}", "event: state", "id: 5"]);
    assert_eq!((operator.number().await, operator.number().await), (2, 5));
}

#[tokio::test]
async fn a_client_of_a_database_that_went_back_is_told() {
    let place = Place::new().await;
    place.queue.happen(event(5, Some("Jane Doe"), EventKind::State));
    let mut stream = Stream::open(&place, &place.jane, "", "Last-Event-ID: 400\n").await;
    let record = stream.next().await.unwrap();
    let mut lines: Vec<&str> = record.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["data: {\"latest\":5}", "event: reset", "id: 5"]);
    place.queue.happen(event(6, Some("Jane Doe"), EventKind::State));
    assert_eq!(stream.number().await, 6);
    let mut last = Stream::open(&place, &place.jane, "", "Last-Event-ID: 6\n").await;
    place.queue.happen(event(7, Some("Jane Doe"), EventKind::State));
    assert_eq!(last.number().await, 7, "nothing is missing");
}

#[tokio::test]
async fn a_stream_goes_on_where_it_ended() {
    let place = Place::new().await;
    for sequence in 1..=2500 {
        place.queue.happen(event(sequence, Some("Jane Doe"), EventKind::State));
    }
    let mut stream = Stream::open(&place, &place.jane, "", "Last-Event-ID: 100\n").await;
    for expected in 101..=2500 {
        assert_eq!(stream.number().await, expected);
    }
    place.queue.happen(event(2501, Some("Jane Doe"), EventKind::State));
    assert_eq!(stream.number().await, 2501);
    let wrong = place
        .send(&place.jane, "GET /v1/events", "Last-Event-ID: x\n", "")
        .await
        .answer()
        .await;
    assert_eq!((wrong.status, wrong.code()), (400, "bad_request"));
    for kind in ["other", "complete"] {
        let unknown = place.ask(&place.jane, &format!("GET /v1/events?kind={kind}"), "").await;
        assert_eq!((unknown.status, unknown.code()), (400, "bad_request"));
    }
}

#[tokio::test]
async fn a_stream_of_a_job_is_for_its_owner() {
    let place = Place::new().await;
    let job = json!({"files": [{"sources": ["https://a/x"], "destination": "https://b/x"}]}).to_string();
    let stored = place.ask(&place.jane, "POST /v1/jobs", &job).await.json;
    let id = stored["job_id"].as_str().unwrap();
    let refused = place.ask(&place.john, &format!("GET /v1/events?job={id}"), "").await;
    assert_eq!((refused.status, refused.code()), (404, "not_found"));
    let mut stream = Stream::open(&place, &place.jane, &format!("?job={id}"), "").await;
    place.queue.happen(event(1, Some("Jane Doe"), EventKind::State));
    let own = Event {
        job: Some(id.parse().unwrap()),
        ..event(2, Some("Jane Doe"), EventKind::State)
    };
    place.queue.happen(own);
    assert_eq!(stream.number().await, 2);
}

#[tokio::test]
async fn one_user_has_so_many_streams_and_no_more() {
    let place = Place::new().await;
    let mut streams = Vec::new();
    for _ in 0..EVENT_STREAMS_PER_USER_MAX {
        streams.push(Stream::open(&place, &place.jane, "", "").await);
    }
    let refused = place.ask(&place.jane, "GET /v1/events", "").await;
    assert_eq!(refused.code(), "share_used_up");
    Stream::open(&place, &place.john, "", "").await;
    // A stream that its client leaves makes room. The door learns of it a moment later.
    streams.pop();
    soon(async {
        while place.send(&place.jane, "GET /v1/events", "", "").await.head.status != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_dropped_and_can_come_back() {
    let place = Place::new().await;
    let mut stream = Stream::open(&place, &place.jane, "", "").await;
    place.queue.happen(event(1, Some("Jane Doe"), EventKind::State));
    assert_eq!(stream.number().await, 1);
    // More than the sockets between both ends take.
    let filling: Arc<str> = json!({"filling": "x".repeat(64 * 1024)}).to_string().into();
    let last = EVENTS_KEPT_MAX as i64 * 2;
    for sequence in 2..=last {
        let event = Event {
            message: filling.clone(),
            ..event(sequence, Some("Jane Doe"), EventKind::State)
        };
        place.queue.happen(event);
        // The reader of the door goes on meanwhile.
        tokio::task::yield_now().await;
    }
    let mut seen = 1;
    while let Some(record) = stream.next().await {
        let id = record.lines().find_map(|line| line.strip_prefix("id: "));
        let id: i64 = id.unwrap().parse().unwrap();
        assert_eq!(id, seen + 1, "an event is missing");
        seen = id;
    }
    assert!(seen < last, "it got all");
    let mut again = Stream::open(&place, &place.jane, "", &format!("Last-Event-ID: {seen}\n")).await;
    assert_eq!(again.number().await, seen + 1);
}

#[tokio::test]
async fn silence_is_broken_by_comments() {
    let place = Place::new().await;
    let mut stream = Stream::open(&place, &place.jane, "", "").await;
    tokio::time::pause();
    let begin = tokio::time::Instant::now();
    assert_eq!(stream.next().await.unwrap(), ":");
    assert!(begin.elapsed() >= Duration::from_secs(14), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_stream_ends_with_the_certificate_that_opened_it_and_says_so() {
    let place = Place::new().await;
    let jane = place.jane_for(4);
    let mut stream = Stream::open(&place, &jane, "", "").await;
    place.queue.happen(event(1, Some("Jane Doe"), EventKind::State));
    assert_eq!(stream.number().await, 1);
    let last = stream.next().await.unwrap();
    let data = last.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let told: Value = serde_json::from_str(data).unwrap();
    assert!(last.contains("event: ended") && !last.contains("id:"), "{last}");
    assert_eq!(told["error"]["code"], "certificate_expired");
    assert!(
        told["error"]["message"].as_str().unwrap().contains("with a new one"),
        "{told}"
    );
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_connection_that_outlives_its_certificate_is_anonymous() {
    let place = Place::new().await;
    let connection = place.connect(&place.jane_for(4)).await;
    let (answer, mut connection) = place.send_by(connection, "GET /v1/whoami", "", "").await.whole().await;
    assert_eq!(answer.status, 200);
    // The same connection, until the certificate has expired.
    let refused = soon(async {
        loop {
            let (answer, kept) = place.send_by(connection, "GET /v1/whoami", "", "").await.whole().await;
            if answer.status != 200 {
                return answer;
            }
            connection = kept;
            tokio::task::yield_now().await;
        }
    });
    let refused = refused.await;
    assert_eq!((refused.status, refused.code()), (401, "certificate_expired"));
}

#[tokio::test]
async fn a_right_that_is_taken_back_ends_in_open_streams() {
    let place = Place::new().await;
    let grant = UserRight {
        user: JANE.to_owned(),
        operation: Operation::Transfer,
        by: String::new(),
    };
    place.queue.lock().grants = vec![grant].into();
    let mut jane = Stream::open(&place, &place.jane, "", "").await;
    place.queue.happen(event(1, Some("John Roe"), EventKind::State));
    assert_eq!(jane.number().await, 1);
    place.queue.lock().grants = Vec::new().into();
    place.queue.happen(event(2, Some("John Roe"), EventKind::State));
    place.queue.happen(event(3, Some("Jane Doe"), EventKind::State));
    assert_eq!(jane.number().await, 3);
}
