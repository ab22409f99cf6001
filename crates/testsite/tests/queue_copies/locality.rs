//! Where an existing destination lies decides whether it may be overwritten, and is reported.

use catalog::{Claimed, Overwrite};
use queue::{CopyResult, Roles};

use super::scripted::{Scripted, answer};
use super::site::{Server, claimed, copy, roles, with};
use super::{ROOM, reason, way};

/// A storage with a tape system that has the file where `place` says.
fn storage(method: &str, head: &str, stored: &mut Option<Vec<u8>>, place: &str) -> String {
    let path = head.split(' ').nth(1).unwrap_or_default();
    let host = head
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .unwrap_or_default();
    match (method, path) {
        (_, "/.well-known/wlcg-tape-rest-api") => {
            let uri = format!("http://{}/tape", host.trim());
            let document = format!(r#"{{"sitename": "s", "endpoints": [{{"uri": "{uri}", "version": "v1"}}]}}"#);
            answer("200 OK", &document)
        }
        ("post", "/tape/archiveinfo") => answer("200 OK", &format!(r#"[{{"path": "/f", {place}}}]"#)),
        ("copy", _) => {
            stored.replace(b"new".to_vec());
            answer("201 Created", "success: Created\n")
        }
        ("head", "/f") if stored.is_none() => {
            stored.replace(b"old".to_vec());
            String::new()
        }
        _ => String::new(),
    }
}

fn on_tape(method: &str, head: &str, stored: &mut Option<Vec<u8>>) -> String {
    storage(method, head, stored, r#""locality": "TAPE""#)
}

fn on_both(method: &str, head: &str, stored: &mut Option<Vec<u8>>) -> String {
    storage(method, head, stored, r#""locality": "DISK_AND_TAPE""#)
}

fn on_disk(method: &str, head: &str, stored: &mut Option<Vec<u8>>) -> String {
    storage(method, head, stored, r#""locality": "DISK""#)
}

fn unavailable(method: &str, head: &str, stored: &mut Option<Vec<u8>>) -> String {
    storage(method, head, stored, r#""locality": "UNAVAILABLE""#)
}

fn unknown(method: &str, head: &str, stored: &mut Option<Vec<u8>>) -> String {
    storage(method, head, stored, r#""error": "no such file""#)
}

/// Bad answers of the tape system.
fn broken(method: &str, head: &str, stored: &mut Option<Vec<u8>>) -> String {
    match head.contains("/tape/archiveinfo") {
        true => answer("500 Broken", ""),
        false => storage(method, head, stored, ""),
    }
}

const ON_TAPE: &str = "peer_on_tape DESTINATION [17] Destination file exists and is on tape \
                       (overwrite-when-only-on-disk requested): ";
const UNKNOWN: &str = "peer_locality_unknown DESTINATION [14] Could not check destination file locality \
                       (overwrite-when-only-on-disk requested): ";

/// A copy of three bytes that replaces what is on disk only, and asks for the report.
async fn order(from: &Server, to: &str, overwrite: Overwrite) -> Claimed {
    from.put("f", b"new").await;
    with(claimed(&from.url("f"), to, overwrite), |options| {
        options.reports_destination = true;
        options.archive_timeout_s = Some(60);
        options.checksum_mode = catalog::ChecksumMode::None;
    })
}

fn report(result: &CopyResult) -> Option<(bool, bool)> {
    let CopyResult::Failed { report, .. } = result else {
        panic!("{result:?}");
    };
    let report = report.as_ref()?;
    assert_eq!(report["file_size"], 3);
    assert_eq!(report["checksum_type"], "ADLER32");
    Some((report["file_on_disk"].as_bool()?, report["file_on_tape"].as_bool()?))
}

#[tokio::test]
async fn only_a_file_that_is_on_disk_only_is_overwritten() {
    let from = Server::http(ROOM);
    for overwrite in [Overwrite::OnlyOnDisk, Overwrite::HopsAndOnlyOnDisk] {
        for (place, words, reported) in [
            (
                on_tape as fn(&str, &str, &mut Option<Vec<u8>>) -> String,
                ON_TAPE,
                Some((false, true)),
            ),
            (on_both, ON_TAPE, Some((true, true))),
            (unavailable, UNKNOWN, None),
            (unknown, UNKNOWN, None),
        ] {
            let to = Scripted::start(place);
            let refused = copy(&order(&from, &to.url(), overwrite).await, roles()).await;
            let told = reason(&refused);
            assert!(told.starts_with(words), "{told}");
            assert_eq!(report(&refused), reported, "{told}");
            assert_eq!(to.stored().as_deref(), Some(&b"old"[..]), "{told}");
            assert!(!to.asked().contains(&"copy".to_owned()), "{told}");
        }
        let to = Scripted::start(on_disk);
        assert_eq!(
            way(&copy(&order(&from, &to.url(), overwrite).await, roles()).await),
            "3rd pull"
        );
        assert_eq!(to.stored().as_deref(), Some(&b"new"[..]));
        let refusing = Roles {
            refuses_disk_overwrite: true,
            ..roles()
        };
        let told = reason(&copy(&order(&from, &to.url(), overwrite).await, refusing).await);
        assert!(
            told.contains("overwrite_disk_enabled is false for the destination"),
            "{told}"
        );
    }
}

#[tokio::test]
async fn a_storage_that_cannot_say_where_a_file_lies_keeps_it() {
    let (from, to) = (Server::http(ROOM), Server::http(ROOM));
    to.put("f", b"old").await;
    let told = reason(&copy(&order(&from, &to.url("f"), Overwrite::OnlyOnDisk).await, roles()).await);
    assert!(told.starts_with(UNKNOWN), "{told}");
    assert_eq!(to.get("f").await.as_deref(), Some(&b"old"[..]));
    let to = Scripted::start(broken);
    let told = reason(&copy(&order(&from, &to.url(), Overwrite::OnlyOnDisk).await, roles()).await);
    assert!(told.starts_with("peer_failed DESTINATION "), "{told}");
    assert_eq!(to.stored().as_deref(), Some(&b"old"[..]));
    // The XRootD protocol has the answer in its stat.
    let to = Server::root();
    to.put("f", b"old").await;
    way(&copy(&order(&from, &to.url("f"), Overwrite::OnlyOnDisk).await, roles()).await);
    assert_eq!(to.get("f").await.as_deref(), Some(&b"new"[..]));
}

#[tokio::test]
async fn the_report_says_where_the_destinations_file_lies() {
    let from = Server::http(ROOM);
    for (place, wanted) in [
        (on_tape as fn(&str, &str, &mut Option<Vec<u8>>) -> String, (false, true)),
        (on_both, (true, true)),
        (on_disk, (true, false)),
        (unavailable, (false, false)),
        (broken, (false, false)),
    ] {
        let to = Scripted::start(place);
        let refused = copy(&order(&from, &to.url(), Overwrite::Never).await, roles()).await;
        assert!(reason(&refused).starts_with("peer_exists "), "{refused:?}");
        assert_eq!(report(&refused), Some(wanted), "{refused:?}");
    }
}
