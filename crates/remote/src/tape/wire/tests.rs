//! What a tape system may answer, and how it is read.

use super::*;

fn paths(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn the_newest_known_version_is_taken_without_its_last_slash() {
    let text = r#"{"sitename": "cern", "endpoints": [
        {"uri": "https://a:3880/api/v0", "version": "v0"},
        {"uri": "https://a:3880/api/v1/tape/", "version": "v1", "metadata": {}},
        {"uri": "https://a:3880/api/v2", "version": "v2"}, {"uri": 5}, null]}"#;
    let found = announced(text).unwrap();
    assert_eq!((found.uri.path(), found.uri.port()), ("/api/v1/tape", 3880));
    assert_eq!(found.site, "cern");
    for bad in [
        "",
        "[]",
        "{}",
        r#"{"endpoints": []}"#,
        r#"{"endpoints": [{"uri": "https://a/x", "version": "v2"}]}"#,
        r#"{"endpoints": [{"uri": "nonsense://a", "version": "v1"}]}"#,
    ] {
        assert!(announced(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_request_names_its_files_and_their_pins() {
    let metadata = json!({"default": {"activity": "x"}});
    let files = [
        ToStage {
            path: "/a//b",
            pin_s: Some(3600),
            metadata: Some(&metadata),
        },
        ToStage {
            path: "/c",
            pin_s: None,
            metadata: None,
        },
    ];
    let body: Value = serde_json::from_str(&stage_body(&files, "site")).unwrap();
    let expected = json!({"files": [
        {"path": "/a//b", "diskLifetime": "PT3600S", "targetedMetadata": {"site": {"activity": "x"}}},
        {"path": "/c"}]});
    assert_eq!(body, expected);
}

#[test]
fn a_request_is_named_by_the_body_or_by_its_place() {
    let id = |text, place| request_id(text, place);
    assert_eq!(
        id(r#"{"requestId": "8-a"}"#, Some("/stage/other")),
        Ok("8-a".to_owned())
    );
    assert_eq!(id("", Some("https://a/api/stage/77/")), Ok("77".to_owned()));
    let long = format!(r#"{{"requestId": "{}"}}"#, "x".repeat(300));
    for (text, place) in [
        ("", None),
        ("{}", Some("/")),
        (r#"{"requestId": "../x"}"#, None),
        (r#"{"requestId": ".."}"#, None),
        (&*long, None),
    ] {
        assert!(id(text, place).is_err(), "{text}");
    }
}

#[test]
fn each_file_has_the_state_that_the_answer_gives_it() {
    let text = r#"{"id": "1", "createdAt": 1, "files": [
        {"path": "/a//b", "onDisk": true}, {"path": "/c", "onDisk": false},
        {"path": "/d", "state": "COMPLETED", "error": null, "finishedAt": 5}, {"path": "/e", "state": "STARTED"},
        {"path": "/f", "state": "FAILED", "error": "no such tape"}, {"path": "/g", "state": "CANCELLED"},
        {"path": "/h", "state": "CANCELED"}, {"path": "/i", "state": "SUBMITTED", "error": ""},
        {"path": "/j", "state": "LIMBO"}, {"path": "/k", "error": "boom"}, {"no": 1}]}"#;
    let names = paths(&[
        "/a/b", "/c", "/d", "//e", "/f", "/g", "/h", "/i", "/j", "/k", "/missing",
    ]);
    let failed = |words: &str| StageState::Failed(words.to_owned());
    let expected = [
        StageState::OnDisk,
        StageState::Waiting,
        StageState::OnDisk,
        StageState::Started,
        failed("no such tape"),
        StageState::Canceled,
        StageState::Canceled,
        StageState::Waiting,
        failed("its state is \"LIMBO\""),
        failed("boom"),
        failed("the answer does not name this file"),
    ];
    assert_eq!(stage_states(text, &names).unwrap(), expected);
    for bad in ["", "[]", "{}", r#"{"files": {}}"#] {
        assert!(stage_states(bad, &names).is_err(), "{bad}");
    }
}

#[test]
fn localities_come_in_any_order_and_some_may_be_missing() {
    let text = r#"[{"path": "/b", "locality": "DISK_AND_TAPE"}, {"path": "/a", "locality": "DISK"},
        {"path": "/c", "error": "no such file"}, {"path": "/d", "locality": "MOON"}, {"path": "/e"},
        {"path": "/f", "locality": "LOST"}, {"path": "/g", "locality": "NONE"},
        {"path": "/h", "locality": "UNAVAILABLE"}, {"path": "/i", "locality": "TAPE"}]"#;
    let names = paths(&["/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h", "/i", "/z"]);
    let refused = |words: &str| ArchiveState::Refused(words.to_owned());
    let expected = [
        ArchiveState::At(Locality::Disk),
        ArchiveState::At(Locality::DiskAndTape),
        refused("no such file"),
        refused("its locality is \"MOON\""),
        refused("it gives no locality"),
        ArchiveState::At(Locality::Lost),
        ArchiveState::At(Locality::Nowhere),
        ArchiveState::At(Locality::Unavailable),
        ArchiveState::At(Locality::Tape),
        ArchiveState::Unanswered,
    ];
    assert_eq!(archive_states(text, &names).unwrap(), expected);
    assert!(archive_states("{}", &names).is_err());
}

#[test]
fn a_problem_document_is_told_in_its_own_words() {
    let words = problem_words(r#"{"title": "Bad request", "status": 400, "detail": "no path"}"#);
    assert_eq!(words, "Bad request: no path");
    assert_eq!(problem_words(r#"{"title": "Gone"}"#), "Gone");
    assert_eq!(problem_words("plain"), "plain");
    assert_eq!(problem_words(r#"{"x": 1}"#), r#"{"x": 1}"#);
}
