//! PROPPATCH, and the dead properties that PROPFIND then shows.

use policy::AnonymousAccess;
use storage::{Posix, PosixOptions};
use types::limits::DEAD_PROPERTY_BYTES_MAX;

use crate::harness::{Answer, Server, export, macaroon, memory};

async fn filled() -> Server {
    let server = Server::open().await;
    server.put("/data/d/f", b"content").await;
    server
}

fn update(inner: &str) -> String {
    format!("<D:propertyupdate xmlns:D=\"DAV:\" xmlns:x=\"urn:x\">{inner}</D:propertyupdate>")
}

fn set(inner: &str) -> String {
    format!("<D:set><D:prop>{inner}</D:prop></D:set>")
}

async fn patch(server: &Server, path: &str, inner: &str) -> Answer {
    server
        .ask(&format!("PROPPATCH {path}\n"), update(inner).as_bytes())
        .await
}

async fn find(server: &Server, path: &str, depth: &str, inner: &str) -> String {
    let body = format!("<propfind xmlns=\"DAV:\" xmlns:x=\"urn:x\">{inner}</propfind>");
    let head = format!("PROPFIND {path}\nDepth: {depth}\n");
    let answer = server.ask(&head, body.as_bytes()).await;
    assert_eq!(answer.status, 207, "{}", answer.text());
    answer.text()
}

const NAMED: &str = "<prop><x:a/><x:b/></prop>";

#[tokio::test]
async fn what_is_set_is_shown_with_all_by_name_and_as_a_name() {
    let server = filled().await;
    let answer = patch(&server, "/data/d/f", &set("<x:a>one &amp; <b>two</b></x:a><c>none</c>")).await;
    assert_eq!(answer.status, 207);
    let text = answer.text();
    assert!(
        text.contains("<D:href>/data/d/f</D:href><D:propstat><D:prop><X:a xmlns:X=\"urn:x\"/><c/></D:prop>"),
        "{text}"
    );
    assert!(text.contains("HTTP/1.1 200 OK"), "{text}");
    let element = "<x:a xmlns:x=\"urn:x\" xmlns:D=\"DAV:\">one &amp; <b>two</b></x:a>";
    for (path, depth) in [("/data/d/f", "0"), ("/data/d", "1")] {
        let all = find(&server, path, depth, "<allprop/>").await;
        assert!(all.contains(element) && all.contains(">none</c>"), "{all}");
        let names = find(&server, path, depth, "<propname/>").await;
        assert!(names.contains("<X:a xmlns:X=\"urn:x\"/><c/>"), "{names}");
        let named = find(&server, path, depth, NAMED).await;
        assert!(
            named.contains(&format!("{element}</D:prop><D:status>HTTP/1.1 200")),
            "{named}"
        );
        assert!(
            named.contains("<X:b xmlns:X=\"urn:x\"/></D:prop><D:status>HTTP/1.1 404"),
            "{named}"
        );
    }
    // On a directory too; properties that are not requested are not read.
    assert_eq!(patch(&server, "/data/d", &set("<x:b/>")).await.status, 207);
    assert!(find(&server, "/data/d", "0", NAMED).await.contains("<x:b "));
    assert!(
        !find(&server, "/data/d/f", "0", "<prop><getetag/></prop>")
            .await
            .contains("urn:x")
    );
}

#[tokio::test]
async fn all_changes_of_a_request_are_made_or_none() {
    let server = filled().await;
    patch(&server, "/data/d/f", &set("<x:a>old</x:a>")).await;
    let long = "y".repeat(DEAD_PROPERTY_BYTES_MAX);
    for (bad, status) in [
        ("<D:getetag>mine</D:getetag>".to_owned(), 403),
        (format!("<x:b>{long}</x:b>"), 507),
    ] {
        let answer = patch(&server, "/data/d/f", &format!("{}{}", set("<x:a>new</x:a>"), set(&bad))).await;
        let text = answer.text();
        assert_eq!(answer.status, 207);
        assert!(
            text.contains(&format!("HTTP/1.1 {status} ")) && text.contains("HTTP/1.1 424 Failed Dependency"),
            "{text}"
        );
        assert_eq!(
            text.contains("<D:cannot-modify-protected-property/>"),
            status == 403,
            "{text}"
        );
        assert!(find(&server, "/data/d/f", "0", NAMED).await.contains(">old</x:a>"));
    }
    // In their order in the request.
    let inner = format!(
        "{}<D:remove><D:prop><x:a/><x:none/></D:prop></D:remove>{}",
        set("<x:b>1</x:b>"),
        set("<x:b>2</x:b>")
    );
    assert!(patch(&server, "/data/d/f", &inner).await.text().contains("200 OK"));
    let named = find(&server, "/data/d/f", "0", NAMED).await;
    assert!(
        named.contains(">2</x:b>") && named.contains("<X:a xmlns:X=\"urn:x\"/></D:prop><D:status>HTTP/1.1 404"),
        "{named}"
    );
    for bad in ["", "<D:set/>", "<D:set><D:prop><y:a/></D:prop></D:set>"] {
        assert_eq!(patch(&server, "/data/d/f", bad).await.status, 400, "{bad}");
    }
    assert_eq!(patch(&server, "/data/none", &set("<x:a/>")).await.status, 404);
}

#[tokio::test]
async fn who_may_only_read_sees_properties_and_changes_none() {
    let mut closed = export("/data", AnonymousAccess::Write, memory());
    let server = Server::start(vec![closed.clone()], |_| {}).await;
    server.put("/data/f", b"content").await;
    patch(&server, "/data/f", &set("<x:a>kept</x:a>")).await;
    closed.rules.anonymous = AnonymousAccess::Read;
    server.exports.replace(endpoint::Exports::new(vec![closed]));
    assert_eq!(patch(&server, "/data/f", &set("<x:a>mine</x:a>")).await.status, 401);
    for (activities, status) in [("DOWNLOAD,LIST,UPLOAD", 403), ("UPLOAD,DELETE", 207)] {
        let head = format!(
            "PROPPATCH /data/f\nAuthorization: Bearer {}\n",
            macaroon(&format!("activity:{activities}"))
        );
        let body = update(&set("<x:b>theirs</x:b>"));
        assert_eq!(server.ask(&head, body.as_bytes()).await.status, status, "{activities}");
    }
    let text = find(&server, "/data/f", "0", NAMED).await;
    assert!(text.contains(">kept</x:a>") && text.contains(">theirs</x:b>"), "{text}");
}

#[tokio::test]
async fn properties_go_with_the_name_through_copies_moves_and_new_content() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Posix::open(directory.path(), &PosixOptions::default()).unwrap();
    let exports = vec![
        export("/memory", AnonymousAccess::Write, memory()),
        export("/disk", AnonymousAccess::Write, disk),
    ];
    let server = Server::start(exports, |_| {}).await;
    for at in ["/memory", "/disk"] {
        let path = |name: &str| format!("{at}/{name}");
        server.put(&path("f"), b"content").await;
        let answer = patch(&server, &path("f"), &set("<x:a>kept</x:a>")).await;
        if answer.status == 501 {
            // A file system without attributes.
            continue;
        }
        assert_eq!(answer.status, 207, "{}", answer.text());
        let shows = async |name: &str| find(&server, &path(name), "0", NAMED).await.contains(">kept</x:a>");
        server.put(&path("f"), b"new content").await;
        assert!(shows("f").await, "{at}: PUT");
        server.put(&path("g"), b"other").await;
        patch(&server, &path("g"), &set("<x:a>other</x:a>")).await;
        for (verb, from, to) in [("COPY", "f", "c"), ("COPY", "f", "g"), ("MOVE", "f", "m")] {
            let head = format!("{verb} {}\nDestination: {}\n", path(from), path(to));
            assert!(matches!(server.ask(&head, b"").await.status, 201 | 204));
            assert!(shows(to).await, "{at}: {verb} {to}");
        }
        server.put(&path("plain"), b"plain").await;
        let head = format!("COPY {}\nDestination: {}\n", path("plain"), path("c"));
        assert_eq!(server.ask(&head, b"").await.status, 204);
        assert!(!shows("c").await, "{at}: the copy of one without properties has none");
        // A later file of that name has none of them.
        assert_eq!(server.ask(&format!("DELETE {}\n", path("m")), b"").await.status, 204);
        server.put(&path("m"), b"new").await;
        assert!(!shows("m").await, "{at}: DELETE");
    }
}
