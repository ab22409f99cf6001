//! Copies that fail: what stays at the destination, what holds the link, and the words.

use std::net::TcpListener;
use std::time::Duration;

use catalog::Overwrite;
use queue::{Copier as _, CopyResult, Failure};
use schedule::optimizer::FailureClass;
use transfer::Progress;

use super::scripted::{Scripted, answer, begins};
use super::site::{Server, claimed, copier, copy, roles, with};
use super::{ROOM, content, reason};

/// The file of another client, shorter than ours.
const OTHER: &[u8] = b"another one's";

/// Fails with a part of the file, which stays.
fn keeps_a_part(method: &str, _: &str, stored: &mut Option<Vec<u8>>) -> String {
    match method {
        "copy" => {
            *stored = Some(content()[..10_000].to_vec());
            answer("201 Created", "failure: the disk is on fire\n")
        }
        "put" => answer("500 No", "no luck today"),
        _ => String::new(),
    }
}

/// The same, and another client stores its file at once.
fn keeps_a_part_and_gets_another(method: &str, head: &str, stored: &mut Option<Vec<u8>>) -> String {
    let answer = keeps_a_part(method, head, stored);
    if method == "copy" {
        *stored = Some(OTHER.to_vec());
    }
    answer
}

#[tokio::test]
async fn what_may_be_another_clients_part_stays() {
    let from = Server::http(ROOM);
    from.put("f", &content()).await;
    for is_strict in [false, true] {
        let order = |to: &Scripted| {
            with(claimed(&from.url("f"), &to.url(), Overwrite::Never), |options| {
                options.is_strict_copy = is_strict;
            })
        };
        let to = Scripted::start(keeps_a_part);
        let told = reason(&copy(&order(&to), roles()).await);
        assert!(to.stored().as_deref() == Some(&content()[..10_000]), "{told}");
        assert!(!to.asked().contains(&"delete".to_owned()), "{told}");
        assert!(told.contains("the disk is on fire"), "{told}");
        assert!(told.contains("10000 bytes are there"), "{told}");
        let to = Scripted::start(keeps_a_part_and_gets_another);
        let told = reason(&copy(&order(&to), roles()).await);
        assert_eq!(to.stored().as_deref(), Some(OTHER), "{told}");
        assert!(
            told.contains("a part of the file may remain at http://127.0.0.1:"),
            "{told}"
        );
    }
}

#[tokio::test]
async fn sizes_are_compared_although_the_job_compares_no_checksums() {
    let from = Server::http(ROOM);
    from.put("f", &content()).await;
    // It says that it has stored everything.
    let to = Scripted::start(|method, _, stored| match method {
        "put" => {
            *stored = Some(b"only this".to_vec());
            answer("201 Created", "")
        }
        _ => String::new(),
    });
    for mode in [catalog::ChecksumMode::None, catalog::ChecksumMode::Source] {
        let mut order = with(claimed(&from.url("f"), &to.url(), Overwrite::Always), |options| {
            options.checksum_mode = mode;
        });
        order.file.options.copy_mode = Some(catalog::CopyMode::Streamed);
        let told = reason(&copy(&order, roles()).await);
        assert!(told.starts_with("peer_size_differs DESTINATION"), "{told}");
        assert!(told.contains("3000000 bytes were sent, it stored 9"), "{told}");
    }
}

/// A destination accuses the source, or its own network: no other link of the source may suffer.
#[tokio::test]
async fn a_server_that_accuses_another_closes_no_storage() {
    let from = Server::http(ROOM);
    from.put("f", &content()).await;
    let refused: fn(&str, &str, &mut Option<Vec<u8>>) -> String = |method, _, _| match method {
        "copy" => answer("201 Created", "failure: source connect: connection refused\n"),
        _ => String::new(),
    };
    let unreachable: fn(&str, &str, &mut Option<Vec<u8>>) -> String = |method, _, _| match method {
        "copy" => answer("502 Bad Gateway", "failure: connection refused\n"),
        _ => String::new(),
    };
    for respond in [refused, unreachable] {
        let to = Scripted::start(respond);
        let mut order = claimed(&from.url("f"), &to.url(), Overwrite::Never);
        order.file.options.copy_mode = Some(catalog::CopyMode::Pull);
        let result = copy(&order, roles()).await;
        let (CopyResult::Failed { failure, problem, .. } | CopyResult::Hold { failure, problem, .. }) = result else {
            panic!("it fails: {result:?}");
        };
        assert_eq!(
            failure,
            Failure {
                class: FailureClass::EndpointDown,
                end: None
            },
            "{problem:?}"
        );
    }
}

fn held(result: &CopyResult) -> (&str, Option<Duration>) {
    match result {
        CopyResult::Hold { problem, after, .. } => (&problem.code, *after),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_storage_that_asks_to_wait_holds_the_link_and_no_other_way_is_tried() {
    let from = Server::http(ROOM);
    from.put("f", &content()).await;
    let to = Scripted::start(|method, _, _| match method {
        "copy" | "put" => {
            "HTTP/1.1 429 Slow\r\nRetry-After: 120\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into()
        }
        _ => String::new(),
    });
    let result = copy(&claimed(&from.url("f"), &to.url(), Overwrite::Never), roles()).await;
    assert_eq!(held(&result), ("peer_failed", Some(Duration::from_secs(120))));
    let asked = to.asked();
    assert!(
        asked.contains(&"copy".to_owned()) && !asked.contains(&"put".to_owned()),
        "{asked:?}"
    );
    // Before the copy, too; and no storage holds a link for days.
    let to = Scripted::start(|_, _, _| {
        "HTTP/1.1 503 Busy\r\nRetry-After: 999999\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into()
    });
    let result = copy(&claimed(&from.url("f"), &to.url(), Overwrite::Never), roles()).await;
    assert_eq!(held(&result), ("peer_failed", Some(Duration::from_secs(3600))));
    assert_eq!(to.asked(), ["head"]);
}

#[tokio::test]
async fn a_storage_that_takes_connections_and_never_answers_holds_the_link() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/f", silent.local_addr().unwrap());
    let order = with(claimed(&url, &url, Overwrite::Never), |options| {
        options.checksum_mode = catalog::ChecksumMode::None;
    });
    // The time that an answer may take passes at once.
    tokio::time::pause();
    let result = copier().copy(&order, roles(), &Progress::new()).await;
    assert_eq!(held(&result), ("peer_stalled", None));
    // The time that the job gives a copy is kept: the attempt counts.
    let order = with(order, |options| options.timeout_s = Some(5));
    let result = copier().copy(&order, roles(), &Progress::new()).await;
    let told = reason(&result);
    assert!(matches!(result, CopyResult::Failed { .. }), "{told}");
    assert!(told.contains("within the 5 s that the job gives a copy"), "{told}");
}

/// A directory with 1000 bytes left, as its properties say (RFC 4331).
fn has_little_space(method: &str, _: &str, _: &mut Option<Vec<u8>>) -> String {
    let properties = "<d:resourcetype><d:collection/></d:resourcetype>\
                      <d:quota-available-bytes>1000</d:quota-available-bytes>\
                      <d:quota-used-bytes>5</d:quota-used-bytes>";
    match method {
        "propfind" => answer(
            "207 Multi-Status",
            &format!(
                "<d:multistatus xmlns:d=\"DAV:\"><d:response><d:href>/d</d:href><d:propstat><d:prop>{properties}\
                 </d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response></d:multistatus>"
            ),
        ),
        _ => String::new(),
    }
}

#[tokio::test]
async fn a_file_larger_than_what_its_user_has_left_is_not_sent_and_holds_no_link() {
    let (from, to) = (Server::http(ROOM), Scripted::start(has_little_space));
    from.put("f", &content()).await;
    let url = to.url().replace("/f", "/d/f");
    let CopyResult::Hold { problem, .. } = copy(&claimed(&from.url("f"), &url, Overwrite::Never), roles()).await else {
        panic!("it waits");
    };
    // The properties are those of the user who asks: others may have room (RFC 4331).
    assert_eq!(problem.code, "quota_exceeded");
    assert!(
        problem
            .reason
            .contains("1000 bytes are left for the user (quota-available-bytes), the file has 3000000"),
        "{}",
        problem.reason
    );
    let asked = to.asked();
    assert!(
        !asked.contains(&"copy".to_owned()) && !asked.contains(&"put".to_owned()),
        "{asked:?}"
    );
}

/// Waits until something holds, by the time of the machine.
async fn until(mut holds: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "not in time");
        let pause = || std::thread::sleep(Duration::from_millis(2));
        tokio::task::spawn_blocking(pause).await.unwrap();
    }
}

/// A copy whose markers tell these bytes, each followed by a pause in seconds. Then it ends, or
/// says no more.
async fn copy_with_markers(markers: &[(u64, u64)], ends_well: bool) -> CopyResult {
    let from = Server::http(ROOM);
    from.put("f", &content()).await;
    let to = Scripted::start(|method, _, _| match method {
        "copy" => begins("202 Accepted"),
        _ => String::new(),
    });
    let order = with(claimed(&from.url("f"), &to.url(), Overwrite::Never), |options| {
        options.checksum_mode = catalog::ChecksumMode::None;
    });
    let (copier, progress) = (copier(), Progress::new());
    // A paused clock goes on by itself while nothing but servers work; a thread at work prevents
    // it.
    let (work, is_over) = std::sync::mpsc::channel::<()>();
    let working = tokio::task::spawn_blocking(move || is_over.recv().is_ok());
    tokio::time::pause();
    let tell = async {
        for (bytes, pause_s) in markers {
            let words = format!("Perf Marker\n Stripe Bytes Transferred: {bytes}\nEnd\n");
            let piece = format!("{:x}\r\n{words}\r\n", words.len());
            until(|| to.go_on(&piece)).await;
            until(|| progress.moved_bytes() == *bytes).await;
            tokio::time::advance(Duration::from_secs(*pause_s)).await;
        }
        // The pauses before the last questions pass at once.
        drop(work);
        if ends_well {
            tokio::time::resume();
            to.store(&content());
            to.go_on("11\r\nsuccess: Created\n\r\n0\r\n\r\n");
        }
    };
    let (result, ()) = tokio::join!(copier.copy(&order, roles(), &progress), tell);
    working.await.unwrap();
    result
}

#[tokio::test]
async fn markers_that_go_back_are_no_progress() {
    let result = copy_with_markers(&[(50, 100), (20, 79), (50, 1)], false).await;
    let CopyResult::Failed { problem, .. } = &result else {
        panic!("{result:?}");
    };
    // The storage may still write.
    assert_eq!(
        (problem.code.as_str(), problem.is_recoverable),
        ("outcome_unknown", true)
    );
    let words = "no further byte for 180 s";
    assert!(problem.reason.contains(words), "{}", problem.reason);
}

#[tokio::test]
async fn a_slow_copy_goes_on_as_long_as_its_markers_grow() {
    let result = copy_with_markers(&[(50, 100), (60, 100), (20, 79), (70, 100)], true).await;
    assert!(matches!(result, CopyResult::Finished { .. }), "{result:?}");
}

#[tokio::test]
async fn a_storage_that_cannot_fetch_is_not_asked_again() {
    let from = Server::http(ROOM);
    from.put("f", &content()).await;
    let to = Scripted::start(|method, _, stored| match method {
        "copy" => answer("405 No", ""),
        "put" => {
            *stored = Some(content());
            answer("201 Created", "")
        }
        _ => String::new(),
    });
    let mut order = claimed(&from.url("f"), &to.url(), Overwrite::Always);
    order.file.destination_storage = to.url().replace("/f", "");
    order.file.source_storage = from.base.replace("/data", "");
    let order = with(order, |options| options.checksum_mode = catalog::ChecksumMode::None);
    let copier = copier();
    let known = copier.capabilities();
    for copies in 1..=3 {
        let result = copier.copy(&order, roles(), &Progress::new()).await;
        assert_eq!(super::way(&result), "3rd push", "copy {copies}");
        let asked = to.asked().into_iter().filter(|method| method == "copy").count();
        assert_eq!(asked, 1, "copy {copies}");
        let cells = known.of(&order.file.destination_storage);
        let cannot = |one: &&queue::Capability| !one.known.can && one.cell.part == queue::Part::Active;
        assert_eq!(cells.iter().filter(cannot).count(), 1, "{cells:?}");
    }
}
