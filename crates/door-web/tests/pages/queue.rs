//! The pages of a queue: whatever stands in names and reasons is text, and programs get the same.

use std::sync::Arc;

use door_web::Words;
use door_web::queue_facts::{
    Attempt, Contender, FailureCount, Fault, File, FileCounts, FileStory, Held, Job, JobFilter, LastHour, Link,
    LinkHour, Listed, Queue, QueueFuture, QueueNow, Suspect, Why, Worker,
};
use schedule::{FileId, FileState, JobId, JobState};

use crate::{NAME, ask, open, pages};

const JOB: JobId = JobId([0xab; 16]);

/// A queue in which all texts are [`NAME`].
struct Hostile;

fn name() -> Words {
    NAME.into()
}

fn later<'a, T: Send + 'a>(value: T) -> QueueFuture<'a, T> {
    Box::pin(std::future::ready(Ok(value)))
}

fn job(state: JobState) -> Job {
    Job {
        job_id: JOB,
        state,
        kind: "independent files",
        user: name(),
        vo: name(),
        priority: 3,
        submitted_ms: 1000,
        ended_ms: Some(2000),
        expires_ms: None,
        reason: Some(name()),
        source: Some(name()),
        destination: Some(name()),
        files: FileCounts {
            total: 2,
            failed: 1,
            finished: 1,
            ..FileCounts::default()
        },
    }
}

fn file() -> File {
    File {
        file_id: FileId(7),
        job_id: JOB,
        state: FileState::Failed,
        source: name(),
        destination: name(),
        hop: Some(name()),
        size_bytes: Some(2048),
        moved_bytes: 1024,
        failed_attempts: 1,
        started_ms: Some(1000),
        ended_ms: Some(2000),
        retry_ms: None,
        reason: Some(name()),
        code: Some(name()),
        way: Some(name()),
        worker: Some(name()),
        activity: name(),
        checksum: Some(name()),
    }
}

fn why() -> Why {
    Why {
        reasons: vec![name()],
        ahead: Some(3),
        contenders: vec![Contender {
            source: name(),
            destination: name(),
            vo: name(),
            activity: name(),
            active: 1,
            waiting: 2,
        }],
        start_ms: Some(1000),
        end_ms: None,
        credential_expires_ms: Some(1000),
    }
}

impl Queue for Hostile {
    fn now(&self) -> QueueFuture<'_, QueueNow> {
        let link = Link {
            source: name(),
            destination: name(),
            vo: name(),
            waiting: 2,
            oldest_ms: Some(1000),
            limit: Some(4),
            rationale: Some(name()),
            held: Some(Held {
                until_ms: 1000,
                detail: name(),
            }),
            reasons: vec![name()],
            ..Link::default()
        };
        let worker = Worker {
            name: name(),
            seen_ms: 1000,
            active: 1,
            is_draining: true,
            is_lost: true,
        };
        later(QueueNow {
            copies: 1,
            copies_maximum: 100,
            links: vec![link],
            workers: vec![worker],
        })
    }

    fn last_hour(&self) -> QueueFuture<'_, Arc<LastHour>> {
        let failure = FailureCount {
            code: name(),
            side: name(),
            phase: name(),
            count: 1,
        };
        let link = LinkHour {
            source: name(),
            destination: name(),
            copied: 3,
            failed: 1,
            bytes: 1 << 20,
            failures: vec![failure],
        };
        let fault = Fault {
            says: name(),
            is_certain: true,
            suspects: vec![Suspect::Source(name())],
        };
        later(Arc::new(LastHour {
            from_ms: 1000,
            to_ms: 3_601_000,
            links: vec![link],
            unlisted: 7,
            faults: vec![fault],
        }))
    }

    fn jobs(&self, filter: JobFilter) -> QueueFuture<'_, Listed<Job>> {
        let state = filter.states.first().copied().unwrap_or(JobState::Finished);
        later(Listed {
            items: vec![job(state)],
            next: Some(-5),
        })
    }

    fn job(&self, id: JobId) -> QueueFuture<'_, Option<Job>> {
        later((id == JOB).then(|| job(JobState::FinishedDirty)))
    }

    fn files(&self, _: JobId, after: Option<i64>, _: usize) -> QueueFuture<'_, Listed<File>> {
        later(Listed {
            items: vec![file()],
            next: after.is_none().then_some(9),
        })
    }

    fn file(&self, id: FileId) -> QueueFuture<'_, Option<FileStory>> {
        later((id == FileId(7)).then(|| FileStory {
            file: file(),
            why: Some(why()),
            attempts: vec![Attempt {
                number: 1,
                failed_ms: 2000,
                reason: name(),
                code: name(),
                worker: Some(name()),
            }],
            log: vec![name(), name()],
        }))
    }

    fn cancel(&self, _: JobId) -> QueueFuture<'_, ()> {
        later(())
    }

    fn drain(&self, _: String, _: bool, _: String) -> QueueFuture<'_, bool> {
        later(true)
    }
}

fn leads_to(head: &str, place: &str) -> bool {
    head.lines().any(|line| line == format!("location: {place}"))
}

fn hostile() -> std::net::SocketAddr {
    let mut pages = pages(true, Vec::new());
    pages.endpoint = None;
    pages.queue = Some(Arc::new(Hostile));
    open(pages)
}

#[tokio::test]
async fn whatever_jobs_name_stays_text() {
    let address = hostile();
    let job = format!("/queue/jobs/{JOB}");
    let query = "/queue?state=failed&vo=%3C%2Fp%3E%3Cscript%3E%22%20onmouseover%3D%22x";
    for path in ["/queue", "/links", query, &job, "/queue/files/7"] {
        let (head, body) = ask(address, &format!("GET {path}"), "localhost", "").await;
        assert!(head.starts_with("http/1.1 200"), "{path}: {head}");
        assert!(!body.contains("<script") && !body.contains("\" onmouseover"), "{body}");
        assert!(!body.contains(['\u{0}', '\u{202e}']), "{body}");
        assert!(body.contains("\\x0aline\\x00\\u{202e}"), "{body}");
        assert!(!body.contains("style=") && !body.contains("<style"), "nothing inline");
        let (head, body) = ask(
            address,
            &format!("GET {path}"),
            "localhost",
            "Accept: application/json\r\n",
        )
        .await;
        assert!(head.contains("content-type: application/json"), "{head}");
        let document: serde_json::Value = serde_json::from_str(&body).unwrap();
        let names = [
            &document["source"],
            &document["jobs"][0]["user"],
            &document["links"][0]["source"],
        ];
        assert!(names.iter().any(|name| **name == NAME), "{document}");
    }
}

#[tokio::test]
async fn a_cell_of_the_matrix_leads_to_the_jobs_of_its_link() {
    let (_, body) = ask(hostile(), "GET /links", "localhost", "").await;
    let (_, rest) = body.split_once("<table class=\"grid\">").unwrap();
    let (matrix, _) = rest.split_once("</table>").unwrap();
    let (_, rest) = matrix.split_once("<a href=\"").unwrap();
    let (place, cell) = rest.split_once('"').unwrap();
    assert!(
        place.starts_with("/queue?source=%3C%2Ftd%3E") && place.ends_with("#jobs"),
        "{place}"
    );
    assert!(cell.contains("75 %, 3 of 4") && cell.contains("291 B/s"), "{cell}");
    assert!(matrix.contains("at fault"), "{matrix}");
    assert!(body.contains("7 copies and failed attempts in all"), "{body}");
}

#[tokio::test]
async fn jobs_are_found_and_listed_in_pages() {
    let address = hostile();
    let get = |path: String| async move { ask(address, &format!("GET {path}"), "localhost", "").await };
    let (_, body) = get("/queue?state=failed&user=a%20b".to_owned()).await;
    assert!(body.contains("✕ failed"), "{body}");
    assert!(
        body.contains("href=\"/queue?state=failed&#38;user=a+b&#38;before=-5#jobs\""),
        "{body}"
    );
    assert!(body.contains("! not heard of") && !body.contains("✓ works"), "{body}");
    let (_, body) = get(format!("/queue/jobs/{JOB}")).await;
    assert!(body.contains("?after=9\">More files"), "{body}");
    let (_, body) = get(format!("/queue/jobs/{JOB}?after=9")).await;
    assert!(body.contains("First files") && !body.contains("More files"), "{body}");
    for (id, place) in [
        (JOB.to_string().to_uppercase(), format!("/queue/jobs/{JOB}")),
        ("+7+".to_owned(), "/queue/files/7".to_owned()),
    ] {
        let (head, _) = get(format!("/queue/find?id={id}")).await;
        assert!(head.starts_with("http/1.1 303") && leads_to(&head, &place), "{head}");
    }
    let other = JobId([1; 16]);
    for path in [
        "/queue/find?id=%3Cb%3E".to_owned(),
        "/queue/jobs/%3Cb%3E".to_owned(),
        format!("/queue/jobs/{other}"),
        "/queue/files/8".to_owned(),
        "/endpoint".to_owned(),
        "/now".to_owned(),
        "/now/events".to_owned(),
    ] {
        let (head, body) = get(path.clone()).await;
        assert!(head.starts_with("http/1.1 404"), "{path}: {head}");
        assert!(head.contains("text/html") && !body.contains("file <b>"), "{body}");
    }
    let (head, _) = get("/".to_owned()).await;
    assert!(leads_to(&head, "/queue"), "{head}");
    for path in ["/fts3/ftsmon", "/fts3/ftsmon/"] {
        let (head, body) = get(path.to_owned()).await;
        assert!(
            head.starts_with("http/1.1 200") && body.contains("src=\"/ftsmon.js\""),
            "{head}{body}"
        );
    }
    let (head, _) = get("/ftsmon.js".to_owned()).await;
    assert!(head.contains("text/javascript"), "{head}");
}
