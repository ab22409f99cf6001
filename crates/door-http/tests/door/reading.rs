//! GET, HEAD, PROPFIND, OPTIONS.

use door_http::limits::{LISTING_SORTED_ENTRIES, MULTISTATUS_PIECE_BYTES};
use policy::AnonymousAccess;
use storage::{Effect, Fault, Faulty, Memory, Operation, Posix, PosixOptions, Storage};
use types::LogicalPath;
use types::limits::LISTING_BATCH_ENTRIES;

use crate::harness::{Server, export, memory, pattern};

#[tokio::test]
async fn a_file_is_read_whole_in_part_and_by_its_head() {
    let server = Server::open().await;
    let content = pattern(700_000);
    server.put("/data/f", &content).await;
    let mut client = server.connect().await;
    let whole = client.ask("GET /data/f\n", b"").await;
    assert_eq!((whole.status, whole.body == content), (200, true));
    assert_eq!(whole.header("Accept-Ranges"), Some("bytes"));
    let head = client.ask("HEAD /data/f\n", b"").await;
    assert_eq!((head.status, head.header("Content-Length")), (200, Some("700000")));
    assert_eq!(head.header("ETag"), whole.header("ETag"));
    let part = client.ask("GET /data/f\nRange: bytes=5-300004\n", b"").await;
    assert_eq!((part.status, part.body == content[5..300_005]), (206, true));
    assert_eq!(part.header("Content-Range"), Some("bytes 5-300004/700000"));
    let behind = client.ask("GET /data/f\nRange: bytes=700000-\n", b"").await;
    assert_eq!(behind.status, 416);
    assert_eq!(behind.header("Content-Range"), Some("bytes */700000"));
    let broken = client.ask("GET /data/f\nRange: bytes=9-3\n", b"").await;
    assert_eq!((broken.status, broken.body.len()), (200, 700_000));
}

#[tokio::test]
async fn files_on_disk_are_sent_too() {
    let directory = tempfile::tempdir().unwrap();
    let content = pattern(3_000_001);
    std::fs::write(directory.path().join("f"), &content).unwrap();
    let posix = Posix::open(directory.path(), &PosixOptions::default()).unwrap();
    let server = Server::start(vec![export("/", AnonymousAccess::Read, posix)], |_| {}).await;
    let mut client = server.connect().await;
    assert!(client.ask("GET /f\n", b"").await.body == content);
    let part = client.ask("GET /f\nRange: bytes=-70000\n", b"").await;
    assert!(part.body == content[content.len() - 70_000..]);
    assert!(client.ask("GET /f\n", b"").await.body == content);
}

#[tokio::test]
async fn several_ranges_come_as_davix_reads_them() {
    let server = Server::open().await;
    let content = pattern(12_813);
    server.put("/data/f", &content).await;
    let answer = server.ask("GET /data/f\nRange: bytes=0-3,10-12\n", b"").await;
    assert_eq!(answer.status, 206);
    let boundary = answer
        .header("Content-Type")
        .unwrap()
        .split("boundary=")
        .nth(1)
        .unwrap();
    let mut expected: Vec<u8> = Vec::new();
    for (first, last) in [(0, 3), (10, 12)] {
        let head = format!(
            "\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes {first}-{last}/12813\r\n\r\n"
        );
        expected.extend(head.as_bytes());
        expected.extend(&content[first..=last]);
    }
    expected.extend(format!("\r\n--{boundary}--\r\n").as_bytes());
    assert_eq!(answer.body, expected);
}

#[tokio::test]
async fn conditions_are_weighed_before_anything_is_sent() {
    let server = Server::open().await;
    server.put("/data/f", b"abc").await;
    let mut client = server.connect().await;
    let head = client.ask("HEAD /data/f\n", b"").await;
    let (tag, date) = (head.header("ETag").unwrap(), head.header("Last-Modified").unwrap());
    let cases = [
        (format!("If-None-Match: {tag}"), 304),
        (format!("If-Modified-Since: {date}"), 304),
        (format!("If-Match: {tag}"), 200),
        ("If-Match: \"other\"".to_owned(), 412),
        ("If-None-Match: \"other\"".to_owned(), 200),
    ];
    for (condition, status) in cases {
        let answer = client.ask(&format!("GET /data/f\n{condition}\n"), b"").await;
        assert_eq!(answer.status, status, "{condition}");
    }
    let stale = client
        .ask("GET /data/f\nRange: bytes=0-0\nIf-Range: \"other\"\n", b"")
        .await;
    assert_eq!((stale.status, stale.body.as_slice()), (200, &b"abc"[..]));
    let fresh = client
        .ask(&format!("GET /data/f\nRange: bytes=0-0\nIf-Range: {tag}\n"), b"")
        .await;
    assert_eq!((fresh.status, fresh.body.as_slice()), (206, &b"a"[..]));
}

#[tokio::test]
async fn checksums_are_told_in_the_form_asked_for() {
    let server = Server::open().await;
    server.put("/data/f", b"Wikipedia").await;
    let mut client = server.connect().await;
    for method in ["HEAD", "GET"] {
        let classic = client
            .ask(&format!("{method} /data/f\nWant-Digest: adler32\n"), b"")
            .await;
        assert_eq!(classic.header("Digest"), Some("adler32=11e60398"));
        assert_eq!(classic.header("Repr-Digest"), None);
    }
    let modern = client.ask("HEAD /data/f\nWant-Repr-Digest: adler=5\n", b"").await;
    assert_eq!(modern.header("Repr-Digest"), Some("adler=:EeYDmA==:"));
    // Computed on demand, since only Adler-32 is computed when a file is stored.
    let computed = client
        .ask("HEAD /data/f\nWant-Digest: UNIXcksum, MD5;q=0.5\n", b"")
        .await;
    assert_eq!(computed.header("Digest"), Some("md5=nGdyhoZqrTj46bZg9UEYFA=="));
    let unknown = client.ask("GET /data/f\nWant-Digest: sha-512\n", b"").await;
    assert_eq!((unknown.status, unknown.header("Digest")), (200, None));
}

#[tokio::test]
async fn the_outcome_of_a_read_can_be_asked_for_in_a_trailer() {
    let content = pattern(600_000);
    let broken = Fault {
        operation: Operation::Read,
        nth: 3,
        effect: Effect::Fail(types::ErrorCode::StorageFailed),
    };
    let disk = memory();
    let exports = vec![
        export("/good", AnonymousAccess::Write, disk.clone()),
        export("/bad", AnonymousAccess::Read, Faulty::new(disk, vec![broken])),
    ];
    let server = Server::start(exports, |_| {}).await;
    server.put("/good/f", &content).await;
    let ask = |path| format!("GET {path}\nTE: trailers\nX-Transfer-Status: true\n");
    let mut client = server.connect().await;
    let good = client.ask(&ask("/good/f"), b"").await;
    assert_eq!(good.header("Trailer"), Some("X-Transfer-Status"));
    assert!(good.body == content);
    assert_eq!(good.trailer("X-Transfer-Status"), Some("200: OK"));
    let bad = client.ask(&ask("/bad/f"), b"").await;
    assert!(bad.body.len() < content.len());
    assert!(
        bad.trailer("X-Transfer-Status").unwrap().starts_with("500: "),
        "{bad:?}"
    );
}

#[tokio::test]
async fn a_directory_is_a_page_with_relative_links() {
    let server = Server::open().await;
    server.put("/data/d/a%20b&%3Cc%3E", b"1").await;
    server.put("/data/d/sub/x", b"1").await;
    let page = server.ask("GET /data/d/\n", b"").await;
    assert_eq!(
        (page.status, page.header("Content-Type")),
        (200, Some("text/html; charset=utf-8"))
    );
    let text = page.text();
    assert!(
        text.contains("href=\"./a%20b%26%3Cc%3E\">a b&amp;&lt;c&gt;</a>"),
        "{text}"
    );
    assert!(
        text.contains("href=\"./sub/\">sub/</a>") && text.contains("href=\"../\""),
        "{text}"
    );
    let bare = server
        .ask("GET /data/d\nAccept: text/html,*/*;q=0.8\n", b"")
        .await
        .text();
    assert!(bare.contains("href=\"./d/sub/\""), "{bare}");
    assert!(!text.contains("?sort=") && !text.contains("<nav"), "{text}");
    for needed in [
        "<li><a href=\"./\">data</a></li><li aria-current=\"page\">d</li>",
        "<th scope=\"col\"><a href=\"./d/?sort=size&amp;order=desc\" rel=\"nofollow\">Size</a></th>",
        "<td><data value=\"1\" title=\"1 byte\">1 B</data></td>",
        "<p class=\"sub\">1 directory, 1 file, <data value=\"1\"",
    ] {
        assert!(bare.contains(needed), "{needed} is missing in {bare}");
    }
    assert!(!bare.contains(">..<"), "{bare}");
    // A client that wants a file would store the page.
    for program in ["", "Accept: */*\n"] {
        let refused = server.ask(&format!("GET /data/d\n{program}"), b"").await;
        assert!(
            refused.status == 409 && refused.text().contains("is_directory"),
            "{refused:?}"
        );
    }
    assert_eq!(page.header("Content-Location"), Some("/data/d/"));
    let top = server.ask("GET /\n", b"").await.text();
    assert!(top.contains("href=\"./data/\"") && !top.contains("../"), "{top}");
    assert_eq!(server.ask("HEAD /data/d\n", b"").await.status, 200);
    assert_eq!(server.ask("GET /elsewhere\n", b"").await.status, 404);
}

#[tokio::test]
async fn a_page_is_in_order_unless_its_directory_is_large() {
    let server = Server::open().await;
    for name in ["d/b", "d/a", "d/z/x", "d/C"] {
        server.put(&format!("/data/{name}"), b"1").await;
    }
    let text = server.ask("GET /data/d/\n", b"").await.text();
    let links: Vec<&str> = text
        .split("href=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert_eq!(links, ["../", "./z/", "./C", "./a", "./b"], "{text}");
    // A large one is complete, in any order.
    for number in 0..LISTING_SORTED_ENTRIES {
        server.put(&format!("/data/large/{number}"), b"").await;
    }
    let browser = "Accept: text/html\n";
    let largest = server.ask(&format!("GET /data/large/\n{browser}"), b"").await.text();
    assert!(largest.contains("?sort=size") && !largest.contains("not sorted"));
    for number in 0..=LISTING_BATCH_ENTRIES {
        server.put(&format!("/data/large/more-{number}"), b"1").await;
    }
    let count = LISTING_SORTED_ENTRIES + LISTING_BATCH_ENTRIES + 1;
    for accept in ["", browser] {
        let text = server
            .ask(&format!("GET /data/large/?sort=size&order=desc\n{accept}"), b"")
            .await
            .text();
        let mut names: Vec<&str> = text
            .split("<th scope=\"row\"><a href=\"./")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(text.contains("not sorted") && !text.contains("?sort="));
        let bytes = LISTING_BATCH_ENTRIES + 1;
        let totals = format!("<p class=\"sub\">0 directories, {count} files, <data value=\"{bytes}\"");
        let (_, end) = text.split_once("</table>").unwrap();
        assert!(end.contains(&totals), "{end}");
    }
}

#[tokio::test]
async fn a_browser_gets_errors_as_pages() {
    let server = Server::open().await;
    server.put("/data/d/f", b"1").await;
    for (head, status) in [
        ("GET /data/d/none\n", 404),
        ("HEAD /data/d/none\n", 404),
        ("GET /data/d%2Ff\n", 400),
        ("GET /data/d/f\nRange: bytes=7-\n", 416),
    ] {
        let text = server.ask(head, b"").await;
        assert_eq!(text.header("Content-Type"), Some("text/plain; charset=utf-8"), "{head}");
        let page = server.ask(&format!("{head}Accept: text/html\n"), b"").await;
        for answer in [&text, &page] {
            assert_eq!(answer.header("Vary"), Some("Accept"), "{head}");
        }
        assert_eq!((page.status, text.status), (status, status), "{head}");
        assert_eq!(page.header("Content-Type"), Some("text/html; charset=utf-8"), "{head}");
        let policy = page.header("Content-Security-Policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
        assert_eq!(page.header("Content-Range"), text.header("Content-Range"), "{head}");
    }
    let page = server.ask("GET /data/d/none\nAccept: text/html\n", b"").await.text();
    for needed in [
        "<li><a href=\"../\">data</a></li><li><a href=\"./\">d</a></li>",
        "<dt>About</dt><dd>/data/d/none</dd>",
        "<dt>Code</dt><dd>not_found</dd>",
    ] {
        assert!(page.contains(needed), "{needed} is missing in {page}");
    }
    // Requests of other kinds come from programs.
    for head in ["DELETE /data/d/none", "PROPFIND /data/d/none", "PUT /data/d"] {
        let text = server.ask(&format!("{head}\nAccept: text/html\n"), b"").await;
        assert!(text.status >= 400, "{head}");
        assert_eq!(text.header("Content-Type"), Some("text/plain; charset=utf-8"), "{head}");
        assert_eq!(text.header("Vary"), None, "{head}");
    }
}

#[tokio::test]
async fn propfind_lists_the_directory_itself_first() {
    let server = Server::open().await;
    server.put("/data/d/f", b"Wikipedia").await;
    let one = server.ask("PROPFIND /data/d\nDepth: 1\n", b"").await;
    assert_eq!((one.status, one.text().matches("<D:response>").count()), (207, 2));
    let text = one.text();
    assert!(
        text.find("<D:href>/data/d/</D:href>") < text.find("<D:href>/data/d/f</D:href>"),
        "{text}"
    );
    assert!(text.contains("<D:getcontentlength>9</D:getcontentlength>"), "{text}");
    assert!(!text.contains("quota") && !text.contains("Checksums"), "{text}");
    let named = "<D:propfind xmlns:D='DAV:' xmlns:c='http://www.dcache.org/2013/webdav'><D:prop>\
                 <D:quota-used-bytes/><c:Checksums/></D:prop></D:propfind>";
    let one = server
        .ask("PROPFIND /data/d\nDepth: 1\n", named.as_bytes())
        .await
        .text();
    assert!(one.contains("<C:Checksums>adler32=11e60398</C:Checksums>"), "{one}");
    assert_eq!(one.matches("quota-used-bytes>").count(), 2, "{one}");
    let zero = server.ask("PROPFIND /data/d\nDepth: 0\n", b"").await.text();
    assert_eq!(zero.matches("<D:response>").count(), 1);
    let top = server.ask("PROPFIND /\nDepth: 1\n", b"").await.text();
    assert!(
        top.contains("<D:href>/</D:href>") && top.contains("<D:href>/data/</D:href>"),
        "{top}"
    );
    // In a listing, clients would take the used bytes for sizes.
    assert!(
        zero.contains("quota-available-bytes") && zero.contains("quota-used-bytes"),
        "{zero}"
    );

    assert_eq!(
        server.ask("PROPFIND /data/d\n", b"").await.text(),
        text,
        "no depth is 1"
    );
    for directory in ["/data/d", "/"] {
        let all = server
            .ask(&format!("PROPFIND {directory}\nDepth: infinity\n"), b"")
            .await;
        assert_eq!(all.status, 403);
        assert!(all.text().contains("<D:propfind-finite-depth/>"), "{all:?}");
    }
    let unknown = "<propfind xmlns='DAV:'><prop><getetag/><owner/><mode xmlns='LCGDM:'/></prop></propfind>";
    let answer = server
        .ask("PROPFIND /data/d\nDepth: 0\n", unknown.as_bytes())
        .await
        .text();
    let missing =
        "<D:getetag/><D:owner/><X:mode xmlns:X=\"LCGDM:\"/></D:prop><D:status>HTTP/1.1 404 Not Found</D:status>";
    assert!(answer.contains(missing), "{answer}");
    assert_eq!(server.ask("PROPFIND /data/d\nDepth: 2\n", b"").await.status, 400);
    assert_eq!(server.ask("PROPFIND /data/d\nDepth: 1\n", b"<x").await.status, 400);
}

#[tokio::test]
async fn a_hundred_thousand_entries_are_listed_in_pieces() {
    const COUNT: usize = 100_000;
    let disk = Memory::new(1 << 30);
    for number in 0..COUNT {
        let path = LogicalPath::parse(&format!("/n{number}")).unwrap();
        disk.make_directory(&path, false).unwrap();
    }
    let server = Server::start(vec![export("/data", AnonymousAccess::Read, disk)], |_| {}).await;
    let mut client = server.connect().await;
    client
        .send(crate::harness::head_text("PROPFIND /data\nDepth: 1\n", None))
        .await;
    assert_eq!(client.head().await.status, 207);
    let (mut entries, mut longest) = (0, 0);
    loop {
        let chunk = client.chunk().await;
        if chunk.is_empty() {
            break;
        }
        longest = longest.max(chunk.len());
        entries += String::from_utf8(chunk).unwrap().matches("<D:response>").count();
    }
    assert_eq!(entries, COUNT + 1);
    assert!(longest <= MULTISTATUS_PIECE_BYTES, "{longest}");
}

#[tokio::test]
async fn options_names_the_methods_without_blanks() {
    let server = Server::open().await;
    for target in ["*", "/data/none", "/"] {
        let answer = server.ask(&format!("OPTIONS {target}\n"), b"").await;
        assert_eq!((answer.status, answer.header("DAV")), (200, Some("1, 2")));
        let allow = answer.header("Allow").unwrap();
        assert!(allow.contains("PROPFIND") && !allow.contains(' '), "{allow}");
    }
}

#[tokio::test]
async fn exports_can_be_replaced_while_the_door_is_open() {
    let server = Server::open().await;
    server.put("/data/f", b"old").await;
    let mut client = server.connect().await;
    assert_eq!(client.ask("GET /data/f\n", b"").await.status, 200);
    let other = export("/other", AnonymousAccess::Read, memory());
    server.exports.replace(endpoint::Exports::new(vec![other]));
    assert_eq!(client.ask("GET /data/f\n", b"").await.status, 404);
    assert_eq!(client.ask("GET /other/\n", b"").await.status, 200);
}

#[tokio::test]
async fn a_listing_says_how_many_names_it_leaves_out() {
    use std::os::unix::ffi::OsStrExt as _;
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("d")).unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"odd\xff");
    std::fs::write(directory.path().join("d").join(odd), "x").unwrap();
    let posix = Posix::open(directory.path(), &PosixOptions::default()).unwrap();
    let server = Server::start(vec![export("/", AnonymousAccess::Read, posix)], |_| {}).await;
    let words = "1 name that no path can hold (not UTF-8, with control characters, or too long) is not shown";
    let page = server.ask("GET /d/\n", b"").await.text();
    assert!(page.contains(&format!("<p class=\"sub\">{words}</p>")), "{page}");
    let listed = server.ask("PROPFIND /d\nDepth: 1\n", b"").await.text();
    assert!(
        listed.contains(&format!("<D:responsedescription>{words}</D:responsedescription>")),
        "{listed}"
    );
    let mut parser = http_wire::webdav::MultistatusParser::new();
    assert_eq!(parser.feed(listed.as_bytes()).unwrap().len(), 1);
    assert_eq!(parser.description(), Some(words));
    for head in [
        "GET /\nAccept: text/html\n",
        "PROPFIND /\nDepth: 1\n",
        "PROPFIND /d\nDepth: 0\n",
    ] {
        let text = server.ask(head, b"").await.text();
        assert!(!text.contains("no path can hold"), "{head}: {text}");
    }
}
