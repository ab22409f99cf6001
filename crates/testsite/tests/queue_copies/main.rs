//! What the queue does to copy one file, between doors of both protocols.
#![forbid(unsafe_code)]

mod failures;
mod hops;
mod locality;
mod scripted;
mod site;

use std::time::Duration;

use catalog::{CopyMode, Overwrite, ThirdPartyRole};
use queue::{Copier as _, CopyResult, Roles};
use transfer::{Progress, RateLimit};

use scripted::Scripted;
use site::{Server, claimed, copier, copy, roles, with};

const ROOM: u64 = 1 << 30;

fn content() -> Vec<u8> {
    (0..3_000_000_u32).map(|number| (number % 251) as u8).collect()
}

fn way(result: &CopyResult) -> &str {
    match result {
        CopyResult::Finished { way, .. } => way.as_deref().unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

fn reason(result: &CopyResult) -> String {
    match result {
        CopyResult::Failed { problem, .. } | CopyResult::Remains { problem, .. } => {
            format!("{} {}", problem.code, problem.reason)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_way_between_servers_of_http() {
    let (from, to) = (Server::http(ROOM), Server::http(ROOM));
    from.put("f", &content()).await;
    for (mode, words) in [
        (None, "3rd pull"),
        (Some(CopyMode::Pull), "3rd pull"),
        (Some(CopyMode::Push), "3rd push"),
        (Some(CopyMode::Streamed), "streamed"),
    ] {
        let name = format!("new/{words}/{mode:?}").replace(['(', ')', ' '], "_");
        let mut order = claimed(&from.url("f"), &to.url(&name), Overwrite::Never);
        order.file.options.copy_mode = mode;
        order.file.options.scitag = Some(131);
        assert_eq!(way(&copy(&order, roles()).await), words, "{mode:?}");
        assert!(to.get(&name).await == Some(content()), "{mode:?}");
    }
    for log in [&to.log, &from.log] {
        let start = log.transfer().await.start;
        let wanted = "job-id=07070707-0707-0707-0707-070707070707;file-id=17;retry=0";
        assert_eq!(start.client_info.as_deref(), Some(wanted));
        let trace = "00-07070707070707070707070707070707-";
        assert!(start.traceparent.starts_with(trace), "{}", start.traceparent);
        assert_eq!(start.scitag, Some(131));
    }
}

#[tokio::test]
async fn what_operators_say_of_a_storage_decides_the_way() {
    let (from, to) = (Server::http(ROOM), Server::http(ROOM));
    from.put("f", &content()).await;
    for (source, destination, words) in [
        (ThirdPartyRole::Full, ThirdPartyRole::None, "3rd push"),
        (ThirdPartyRole::Pull, ThirdPartyRole::Push, "streamed"),
        (ThirdPartyRole::None, ThirdPartyRole::Pull, "3rd pull"),
    ] {
        let order = claimed(&from.url("f"), &to.url("f"), Overwrite::Always);
        assert_eq!(
            way(&copy(
                &order,
                Roles {
                    source,
                    destination,
                    ..Roles::default()
                }
            )
            .await),
            words
        );
    }
}

#[tokio::test]
async fn a_copy_through_the_queue_keeps_the_rates_of_its_storages() {
    let (from, to) = (Server::http(ROOM), Server::http(ROOM));
    from.put("f", &content()).await;
    let streamed = |rates: Vec<RateLimit>| Roles {
        source: ThirdPartyRole::None,
        destination: ThirdPartyRole::None,
        rates,
        ..Roles::default()
    };
    // 3 MB at 3 MB/s: less than a second, because the first piece goes at once.
    let limits = [None, Some(3_000_000)].map(RateLimit::new);
    let progress = Progress::new();
    let order = claimed(&from.url("f"), &to.url("f"), Overwrite::Always);
    let copied = copier().copy(&order, streamed(limits.to_vec()), &progress).await;
    assert_eq!(way(&copied), "streamed");
    assert!(progress.paced() > Duration::from_millis(400), "{:?}", progress.paced());
}

#[tokio::test]
async fn between_the_protocols_and_within_xrootd() {
    let (http, root, other) = (Server::http(ROOM), Server::root(), Server::root());
    http.put("f", &content()).await;
    let order = claimed(&http.url("f"), &root.url("a/f"), Overwrite::Never);
    way(&copy(&order, roles()).await);
    assert!(root.get("a/f").await == Some(content()));
    let order = claimed(&root.url("a/f"), &http.url("b/g"), Overwrite::Never);
    way(&copy(&order, roles()).await);
    assert!(http.get("b/g").await == Some(content()));
    let order = claimed(&root.url("a/f"), &other.url("f"), Overwrite::Never);
    assert_eq!(way(&copy(&order, roles()).await), "3rd pull");
    assert!(other.get("f").await == Some(content()));
}

#[tokio::test]
async fn an_existing_destination_is_replaced_only_where_the_job_says_so() {
    let (from, to) = (Server::http(ROOM), Server::http(ROOM));
    from.put("f", &content()).await;
    let attempt = async |overwrite, attempts| {
        to.put("f", b"old").await;
        let mut order = claimed(&from.url("f"), &to.url("f"), overwrite);
        order.file.attempts = attempts;
        copy(&order, roles()).await
    };
    for (overwrite, attempts) in [(Overwrite::Never, 1), (Overwrite::OnRetry, 0), (Overwrite::Hops, 0)] {
        let told = reason(&attempt(overwrite, attempts).await);
        let wanted = "peer_exists DESTINATION [17] Destination file exists and overwrite is not enabled";
        assert!(told.starts_with(wanted), "{told}");
        assert_eq!(to.get("f").await.as_deref(), Some(&b"old"[..]), "{overwrite:?}");
    }
    for (overwrite, attempts) in [(Overwrite::Always, 0), (Overwrite::OnRetry, 1)] {
        way(&attempt(overwrite, attempts).await);
        assert!(to.get("f").await == Some(content()), "{overwrite:?}");
    }
}

#[tokio::test]
async fn all_but_the_last_file_of_a_chain_are_replaced_if_the_job_says_so_of_hops() {
    let (from, to) = (Server::http(ROOM), Server::http(ROOM));
    from.put("f", &content()).await;
    for overwrite in [Overwrite::Hops, Overwrite::HopsAndOnlyOnDisk] {
        for (index, is_replaced) in [(0, true), (1, false)] {
            to.put("f", b"old").await;
            let mut order = claimed(&from.url("f"), &to.url("f"), overwrite);
            order.file.index = index;
            let job = std::sync::Arc::make_mut(&mut order.job);
            (job.kind, job.files) = (schedule::JobKind::Multihop, 2);
            let result = copy(&order, roles()).await;
            assert_eq!(matches!(result, CopyResult::Finished { .. }), is_replaced, "{result:?}");
            let is_kept = to.get("f").await.as_deref() == Some(&b"old"[..]);
            assert_eq!(is_kept, !is_replaced, "{overwrite:?} {index}");
        }
    }
}

/// A storage whose file has the size of another one and the checksum 1.
fn has_another(method: &str, _: &str, stored: &mut Option<Vec<u8>>) -> String {
    let length = content().len();
    match method {
        "copy" => {
            *stored = Some(vec![b'x'; length]);
            scripted::answer("201 Created", "success: Created\n")
        }
        "head" if stored.is_some() => {
            format!(
                "HTTP/1.1 200 OK\r\nDigest: adler32=00000001\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            )
        }
        _ => String::new(),
    }
}

/// The side at which a copy failed; `None` if it did not.
fn failed_at(result: &CopyResult) -> Option<&str> {
    match result {
        CopyResult::Failed { problem, .. } => Some(problem.side.as_str()),
        finished => {
            way(finished);
            None
        }
    }
}

#[tokio::test]
async fn each_checksum_mode_compares_its_sides_and_a_strict_copy_none() {
    use catalog::ChecksumMode::{Both, Source, Target};
    const NONE: catalog::ChecksumMode = catalog::ChecksumMode::None;
    let from = Server::http(ROOM);
    from.put("f", &content()).await;
    let (at_source, at_destination) = (Some("source"), Some("destination"));
    // Where it fails if the destination stores something else, and if the job gives a checksum that
    // neither side has: a destination that is to have it looks at the source first.
    for (mode, is_strict, of_other, of_given) in [
        (NONE, false, None, None),
        (Source, false, None, at_source),
        (Target, false, at_destination, at_source),
        (Both, false, at_destination, at_source),
        (Both, true, None, None),
    ] {
        let order = |to: &str, checksum: &str| {
            let mut order = with(claimed(&from.url("f"), to, Overwrite::Always), |options| {
                options.checksum_mode = mode;
                options.is_strict_copy = is_strict;
            });
            order.file.options.checksum = Some(checksum.to_owned());
            // No side has this size.
            order.file.given_size_bytes = is_strict.then_some(5);
            order
        };
        let other = Scripted::start(has_another);
        let result = copy(&order(&other.url(), "ADLER32:5b72480e"), roles()).await;
        assert_eq!(failed_at(&result), of_other, "{mode:?} {is_strict}: {result:?}");
        let to = Server::http(ROOM);
        let result = copy(&order(&to.url("f"), "ADLER32:1"), roles()).await;
        assert_eq!(failed_at(&result), of_given, "{mode:?} {is_strict}: {result:?}");
    }
}

#[tokio::test]
async fn what_the_destination_has_instead_is_reported() {
    let (from, to) = (Server::http(ROOM), Server::http(ROOM));
    from.put("f", &content()).await;
    to.put("f", b"old").await;
    let order = with(claimed(&from.url("f"), &to.url("f"), Overwrite::Never), |options| {
        options.reports_destination = true;
    });
    let CopyResult::Failed { report, .. } = copy(&order, roles()).await else {
        panic!("it exists");
    };
    let report = report.unwrap();
    assert_eq!(report["file_size"], 3);
    assert_eq!(
        (&report["checksum_type"], &report["checksum_value"]),
        (&"ADLER32".into(), &"028c0140".into())
    );
    assert_eq!(
        (&report["file_on_disk"], &report["file_on_tape"]),
        (&true.into(), &false.into())
    );
}

#[tokio::test]
async fn a_wrong_checksum_and_a_missing_source_leave_nothing() {
    let (from, to) = (Server::http(ROOM), Server::http(ROOM));
    from.put("f", &content()).await;
    let mut order = claimed(&from.url("f"), &to.url("f"), Overwrite::Never);
    order.file.options.checksum = Some("ADLER32:1".to_owned());
    let told = reason(&copy(&order, roles()).await);
    assert!(
        told.starts_with("checksum_precondition SOURCE [5] Source and user-defined checksum do not match"),
        "{told}"
    );
    let order = with(order, |options| options.checksum_mode = catalog::ChecksumMode::Target);
    let told = reason(&copy(&order, roles()).await);
    assert!(told.starts_with("checksum_"), "{told}");
    let order = claimed(&from.url("none"), &to.url("f"), Overwrite::Never);
    let told = reason(&copy(&order, roles()).await);
    assert!(
        told.starts_with("peer_not_found SOURCE [2] No such file or directory"),
        "{told}"
    );
    assert_eq!(to.get("f").await, None);
}

#[tokio::test]
async fn files_wait_for_the_room_of_their_user_and_for_a_dead_destination() {
    let (from, to) = (Server::http(ROOM), Server::http(1_000_000));
    from.put("f", &content()).await;
    let order = claimed(&from.url("f"), &to.url("f"), Overwrite::Never);
    let CopyResult::Hold { problem, .. } = copy(&order, roles()).await else {
        panic!("it is full");
    };
    assert_eq!(
        (problem.code.as_str(), problem.side.as_str()),
        ("quota_exceeded", "destination")
    );
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = format!("http://{}/data/f", free.local_addr().unwrap());
    drop(free);
    let order = claimed(&from.url("f"), &dead, Overwrite::Never);
    let CopyResult::Hold { problem, .. } = copy(&order, roles()).await else {
        panic!("it is down");
    };
    assert_eq!(
        (problem.code.as_str(), problem.side.as_str()),
        ("peer_unreachable", "destination")
    );
}

#[tokio::test]
async fn the_end_of_a_copy_that_wrote_nothing_removes_no_file() {
    let (from, to) = (Server::http(ROOM), Server::http(ROOM));
    from.put("f", &content()).await;
    to.put("f", b"old").await;
    let copier = copier();
    for overwrite in [Overwrite::Never, Overwrite::Always] {
        let order = claimed(&from.url("f"), &to.url("f"), overwrite);
        // It is canceled before its first answer comes.
        let progress = Progress::new();
        tokio::select! {
            biased;
            _ = copier.copy(&order, roles(), &progress) => panic!("it cannot end at once"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(to.get("f").await.as_deref(), Some(&b"old"[..]), "{overwrite:?}");
    }
}

/// A file whose last worker was lost after so many bytes.
fn interrupted(order: catalog::Claimed, moved_bytes: u64) -> catalog::Claimed {
    let mut order = order;
    order.file.is_interrupted = true;
    order.file.moved_bytes = moved_bytes;
    order
}

#[tokio::test]
async fn a_copy_that_was_complete_when_its_worker_was_lost_is_not_copied_again() {
    for (from, to) in [
        (Server::http(ROOM), Server::http(ROOM)),
        (Server::http(ROOM), Server::root()),
    ] {
        from.put("f", &content()).await;
        to.put("f", &content()).await;
        for overwrite in [Overwrite::Never, Overwrite::Always] {
            let order = interrupted(claimed(&from.url("f"), &to.url("f"), overwrite), 5);
            let CopyResult::Found { size_bytes, note } = copy(&order, roles()).await else {
                panic!("{overwrite:?}: it is there");
            };
            assert_eq!(size_bytes, 3_000_000);
            let words = "the destination's file has the source's size and its checksum adler32";
            assert!(note.reason.contains(words), "{}", note.reason);
        }
        // Without an attempt of ours it is another client's file.
        let told = reason(&copy(&claimed(&from.url("f"), &to.url("f"), Overwrite::Never), roles()).await);
        assert!(told.starts_with("peer_exists DESTINATION [17] "), "{told}");
    }
}

#[tokio::test]
async fn a_file_that_differs_is_no_work_of_a_lost_attempt() {
    let (from, to) = (Server::http(ROOM), Server::http(ROOM));
    from.put("f", &content()).await;
    let mut other = content();
    other[2_000_000] ^= 1;
    for wrong in [&other[..], &content()[..2_999_999], b"old"] {
        to.put("f", wrong).await;
        let order = interrupted(claimed(&from.url("f"), &to.url("f"), Overwrite::Never), 0);
        let told = reason(&copy(&order, roles()).await);
        assert!(told.starts_with("peer_exists DESTINATION [17] "), "{told}");
        assert!(to.get("f").await.as_deref() == Some(wrong));
        let order = interrupted(claimed(&from.url("f"), &to.url("f"), Overwrite::Always), 0);
        assert_eq!(way(&copy(&order, roles()).await), "3rd pull");
        assert!(to.get("f").await == Some(content()));
    }
}

#[tokio::test]
async fn what_may_be_the_part_of_a_lost_attempt_stays() {
    let (from, to) = (Server::http(ROOM), Server::http(ROOM));
    from.put("f", &content()).await;
    let mut other = content()[..1_500_000].to_vec();
    other[4096..].fill(b'x');
    // A part of ours or of another client that stores the same file, an empty file of another one,
    // and one that begins like ours.
    for found in [&content()[..1_500_000], b"", &other] {
        to.put("f", found).await;
        let order = interrupted(claimed(&from.url("f"), &to.url("f"), Overwrite::Never), 1_000_000);
        for mode in [catalog::ChecksumMode::Both, catalog::ChecksumMode::None] {
            let order = with(order.clone(), |options| options.checksum_mode = mode);
            let told = reason(&copy(&order, roles()).await);
            assert!(told.starts_with("peer_exists DESTINATION [17] "), "{told}");
            let words = format!("its {} bytes may be a part that an earlier attempt left", found.len());
            assert!(told.contains(&words), "{told}");
            assert!(to.get("f").await.as_deref() == Some(found), "{told}");
        }
    }
}

#[tokio::test]
async fn a_file_waits_while_its_destination_may_remove_the_part_of_a_lost_attempt() {
    let (from, to) = (Server::http(ROOM), Server::http(ROOM));
    from.put("f", &content()).await;
    to.put("f", &content()[..1_500_000]).await;
    let order = |looks, is_strict| {
        let mut order = interrupted(claimed(&from.url("f"), &to.url("f"), Overwrite::Never), 0);
        order.file.lost_part_looks = looks;
        with(order, |options| options.is_strict_copy = is_strict)
    };
    // A strict copy learns of the file only from the refusal of its order.
    for is_strict in [false, true] {
        let mut pauses = Vec::new();
        for before in 0..7 {
            let CopyResult::Remains { problem, looks, .. } = copy(&order(before, is_strict), roles()).await else {
                panic!("it waits");
            };
            assert_eq!((looks, problem.is_recoverable), (before + 1, true));
            let (_, pause) = problem.reason.rsplit_once("looks again in ").expect("its next look");
            pauses.push(pause.to_owned());
        }
        assert_eq!(pauses, ["10 s", "20 s", "40 s", "80 s", "160 s", "300 s", "300 s"]);
        let last = copy(&order(7, is_strict), roles()).await;
        assert!(matches!(last, CopyResult::Failed { .. }), "{last:?}");
    }
    assert!(to.get("f").await.as_deref() == Some(&content()[..1_500_000]));
    // What is as long as the source is no part.
    let mut other = content();
    other[2_000_000] ^= 1;
    to.put("f", &other).await;
    let whole = copy(&order(0, false), roles()).await;
    assert!(matches!(whole, CopyResult::Failed { .. }), "{whole:?}");
}

#[tokio::test]
async fn a_file_of_a_lost_attempt_is_whole_only_by_its_checksum() {
    let from = Server::http(ROOM);
    from.put("f", &content()).await;
    // It tells no checksums.
    let to = Scripted::start(|_, _, _| String::new());
    to.store(&vec![b'x'; content().len()]);
    let order = interrupted(claimed(&from.url("f"), &to.url(), Overwrite::Never), 1_000_000);
    let order = with(order, |options| options.checksum_mode = catalog::ChecksumMode::None);
    let told = reason(&copy(&order, roles()).await);
    assert!(told.starts_with("peer_exists DESTINATION [17] "), "{told}");
}
