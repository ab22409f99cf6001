//! Multistatus answers: ours have the shape that every client reads, and those of others are read.

use http_wire::delegation_fault;
use http_wire::webdav::{
    Entry, EntryPath, Failures, Href, LockFault, MultistatusParser, MultistatusWriter, Property, PropfindRequest,
    Quota, lock_error, parse_lock, parse_multistatus,
};
use types::{Checksum, LogicalPath};

fn path(text: &str) -> LogicalPath {
    LogicalPath::parse(text).unwrap()
}

fn directory(path: &LogicalPath) -> Entry<'_> {
    let quota = Quota {
        used_bytes: 10,
        available_bytes: 90,
    };
    Entry {
        place: EntryPath::At(path),
        is_directory: true,
        size_bytes: 4096,
        modified_s: 5,
        created_s: None,
        etag: None,
        quota: Some(quota),
        checksums: &[],
        locks: None,
        dead: None,
    }
}

fn listing(request: PropfindRequest) -> Vec<u8> {
    let top = path("/data");
    let href = Href::of(&top);
    let checksums = [Checksum::adler32(0x0000_00ff)];
    let entry = Entry {
        place: EntryPath::In(&href, "a b<&>\"ü%.root"),
        is_directory: false,
        size_bytes: 12813,
        modified_s: 1_795_287_684,
        created_s: Some(0),
        etag: Some("\"x\""),
        quota: Some(Quota::default()),
        checksums: &checksums,
        locks: None,
        dead: None,
    };
    let mut writer = MultistatusWriter::new(&request);
    let mut out = Vec::new();
    writer.begin(&mut out);
    writer.entry(&mut out, &directory(&top));
    writer.entry(&mut out, &entry);
    writer.end(&mut out);
    out
}

#[test]
fn what_is_written_is_read_again_however_it_is_cut() {
    let body = listing(PropfindRequest::AllProperties);
    let whole = parse_multistatus(&body).unwrap();
    assert_eq!(
        (whole[0].path.as_str(), whole[0].is_directory, whole[0].size_bytes),
        ("/data", true, None)
    );
    assert_eq!(
        (whole[0].quota_used_bytes, whole[0].quota_available_bytes),
        (Some(10), Some(90))
    );
    assert_eq!((whole[1].name(), whole[1].is_directory), ("a b<&>\"ü%.root", false));
    assert_eq!(
        (whole[1].size_bytes, whole[1].modified_s),
        (Some(12813), Some(1_795_287_684))
    );
    assert_eq!(
        (whole[1].etag.as_deref(), whole[1].checksums.as_slice()),
        (Some("\"x\""), [Checksum::adler32(255)].as_slice())
    );
    for size in [1, 7, 100] {
        let mut parser = MultistatusParser::new();
        let mut entries = Vec::new();
        for piece in body.chunks(size) {
            entries.extend(parser.feed(piece).unwrap());
        }
        parser.finish().unwrap();
        assert_eq!(entries, whole);
    }
    assert!(
        parse_multistatus(&body[..body.len() - 20]).is_err(),
        "a listing that was cut off"
    );
}

#[test]
fn the_shape_is_the_one_that_clients_compare_as_text() {
    let text = String::from_utf8(listing(PropfindRequest::Properties {
        known: vec![Property::ContentLength, Property::ResourceType],
        unknown: Vec::new(),
    }))
    .unwrap();
    let directory = "<D:response><D:href>/data/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype></D:prop>\
                     <D:status>HTTP/1.1 200 OK</D:status></D:propstat><D:propstat><D:prop><D:getcontentlength/></D:prop>\
                     <D:status>HTTP/1.1 404 Not Found</D:status></D:propstat></D:response>\n";
    assert!(text.contains(directory), "{text}");
    assert!(
        text.contains("<D:resourcetype/><D:getcontentlength>12813</D:getcontentlength></D:prop>"),
        "{text}"
    );
    assert!(
        text.contains("<D:href>/data/a%20b%3C%26%3E%22%C3%BC%25.root</D:href>"),
        "{text}"
    );
    assert_eq!(text.matches("<D:propstat>").count(), 3);
}

#[test]
fn a_file_is_written_with_all_that_is_known_of_it() {
    let directory = path("/data");
    let (href, root) = (Href::of(&directory), LogicalPath::root());
    let file = |name, modified_s| Entry {
        place: EntryPath::In(&href, name),
        is_directory: false,
        size_bytes: 12813,
        modified_s,
        created_s: Some(modified_s),
        etag: Some("\"320d-6a00b654.1-2f\""),
        quota: None,
        checksums: &[],
        locks: None,
        dead: None,
    };
    let expected = |href, name, date, iso_date| {
        format!(
            "<D:response><D:href>/data/{href}</D:href><D:propstat><D:prop><D:displayname>{name}</D:displayname>\
             <D:resourcetype/><D:getcontentlength>12813</D:getcontentlength><D:getlastmodified>{date} GMT</D:getlastmodified>\
             <D:creationdate>{iso_date}Z</D:creationdate><D:getetag>&quot;320d-6a00b654.1-2f&quot;</D:getetag>\
             <D:getcontenttype>application/octet-stream</D:getcontenttype></D:prop>\
             <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>\n"
        )
    };
    let mut writer = MultistatusWriter::new(&PropfindRequest::AllProperties);
    // Whatever came before: the same second, another one, another day, a directory in between.
    for (name, href, modified_s, date, iso_date) in [
        (
            "f1",
            "f1",
            1_795_287_684,
            "Sat, 21 Nov 2026 19:01:24",
            "2026-11-21T19:01:24",
        ),
        (
            "f2",
            "f2",
            1_795_287_684,
            "Sat, 21 Nov 2026 19:01:24",
            "2026-11-21T19:01:24",
        ),
        (
            "a b",
            "a%20b",
            1_795_287_685,
            "Sat, 21 Nov 2026 19:01:25",
            "2026-11-21T19:01:25",
        ),
        (
            "f3",
            "f3",
            951_782_400,
            "Tue, 29 Feb 2000 00:00:00",
            "2000-02-29T00:00:00",
        ),
        (
            "f4",
            "f4",
            1_795_287_684,
            "Sat, 21 Nov 2026 19:01:24",
            "2026-11-21T19:01:24",
        ),
    ] {
        let mut out = Vec::new();
        writer.entry(&mut out, &file(name, modified_s));
        assert_eq!(String::from_utf8(out).unwrap(), expected(href, name, date, iso_date));
        writer.entry(&mut Vec::new(), &self::directory(&root));
    }
}

#[test]
fn names_come_without_values() {
    let text = String::from_utf8(listing(PropfindRequest::Names)).unwrap();
    assert!(
        text.contains("<D:getcontentlength/>") && !text.contains("12813"),
        "{text}"
    );
}

#[test]
fn the_root_has_one_slash() {
    let root = LogicalPath::root();
    let mut out = Vec::new();
    MultistatusWriter::new(&PropfindRequest::AllProperties).entry(&mut out, &directory(&root));
    assert!(String::from_utf8(out).unwrap().contains("<D:href>/</D:href>"));
}

#[test]
fn a_name_in_a_directory_is_written_as_its_path_would_be() {
    let names = ["plain-1.root", "a b", "<&>\"'", "ü%", "x;y", "a+b=c@d:e,f~_"];
    for directory in ["/", "/data", "/a b<&>/ü"] {
        let directory = path(directory);
        let href = Href::of(&directory);
        for (name, is_directory) in names.into_iter().flat_map(|name| [(name, true), (name, false)]) {
            let whole = directory.join(name).unwrap();
            let written = |place| {
                let (mut out, entry) = (Vec::new(), self::directory(&whole));
                let entry = Entry {
                    place,
                    is_directory,
                    ..entry
                };
                MultistatusWriter::new(&PropfindRequest::AllProperties).entry(&mut out, &entry);
                String::from_utf8(out).unwrap()
            };
            assert_eq!(written(EntryPath::In(&href, name)), written(EntryPath::At(&whole)));
            let body = format!("<multistatus>{}</multistatus>", written(EntryPath::At(&whole)));
            assert_eq!(parse_multistatus(body.as_bytes()).unwrap()[0].path, whole.as_str());
        }
    }
}

/// Characters that XML cannot hold, in a name that a path can have.
#[test]
fn no_name_makes_a_document_unreadable() {
    let name = "a\u{fffe}\u{ffff}b";
    let (top, odd) = (path("/data"), path(&format!("/data/{name}")));
    let href = Href::of(&top);
    let mut listed = Vec::new();
    for place in [EntryPath::At(&odd), EntryPath::In(&href, name)] {
        let entry = Entry {
            place,
            ..directory(&top)
        };
        MultistatusWriter::new(&PropfindRequest::AllProperties).entry(&mut listed, &entry);
    }
    let writer = MultistatusWriter::new(&PropfindRequest::AllProperties);
    writer.description(&mut listed, name);
    let lock = format!(
        "<lockinfo xmlns=\"DAV:\"><lockscope><exclusive/></lockscope><locktype><write/></locktype>\
         <owner>{name}&#xffff;<c xmlns='urn:&#xfffe;'/></owner></lockinfo>"
    );
    for document in [
        String::from_utf8(listed).unwrap(),
        lock_error(LockFault::TokenNeeded, Some(&odd), name),
        Failures::because_of_member(&top, &odd, 423, name),
        delegation_fault(name),
        parse_lock(lock.as_bytes()).unwrap().owner,
    ] {
        assert!(!document.contains(['\u{fffe}', '\u{ffff}']), "{document:?}");
        assert!(document.contains('\u{fffd}'), "{document:?}");
        // Links lead to the file.
        let hrefs = document.matches("<D:href>").count();
        let exact = document.matches("/data/a%EF%BF%BE%EF%BF%BFb").count();
        assert_eq!(
            exact,
            hrefs - document.matches("<D:href>/data</D:href>").count(),
            "{document}"
        );
    }
}

const XROOTD: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\" xmlns:ns0=\"DAV:\">\n\
    <D:response xmlns:lp1=\"DAV:\" xmlns:lp3=\"LCGDM:\">\n<D:href>/data/100%</D:href>\n<D:propstat>\n<D:prop>\n\
    <lp1:getcontentlength>12813</lp1:getcontentlength>\n<lp1:getlastmodified>Sat, 21 Nov 2026 19:01:24 GMT</lp1:getlastmodified>\n\
    <lp1:iscollection>0</lp1:iscollection>\n<lp1:executable>F</lp1:executable>\n</D:prop>\n<D:status>HTTP/1.1 200 OK</D:status>\n\
    </D:propstat>\n</D:response>\n</D:multistatus>\n";

#[test]
fn listings_of_other_servers_are_read() {
    let xrootd = &parse_multistatus(XROOTD.as_bytes()).unwrap()[0];
    assert_eq!(
        (xrootd.path.as_str(), xrootd.size_bytes, xrootd.is_directory),
        ("/data/100%", Some(12813), false)
    );

    let dcache = "<d:multistatus xmlns:d=\"DAV:\" xmlns:n1=\"http://www.dcache.org/2013/webdav\"><d:response><d:href>https://h:2880/a%20b/</d:href>\
        <d:propstat><d:prop><n1:Checksums>adler32=0b6f26,md5=OXXw2MTh7LJfA17fsbonrA==</n1:Checksums><d:resourcetype><d:collection></d:collection>\
        </d:resourcetype></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat><d:propstat><d:prop><d:getcontentlength/></d:prop>\
        <d:status>HTTP/1.1 404 Not Found</d:status></d:propstat></d:response></d:multistatus>";
    let entry = &parse_multistatus(dcache.as_bytes()).unwrap()[0];
    assert_eq!(
        (
            entry.path.as_str(),
            entry.name(),
            entry.is_directory,
            entry.checksums.len()
        ),
        ("/a b", "a b", true, 2)
    );

    let apache = "<multistatus xmlns=\"DAV:\"><response><href>/x&amp;y&#x41;<![CDATA[&]]></href><propstat><prop><getetag>\"e\"</getetag></prop>\
        <status>HTTP/1.1 200 OK</status></propstat></response><response><href>/gone</href><status>HTTP/1.1 404 Not Found</status></response></multistatus>";
    let entries = parse_multistatus(apache.as_bytes()).unwrap();
    assert_eq!((entries.len(), entries[0].path.as_str()), (1, "/x&yA&"));
    assert_eq!(parse_multistatus(b"<D:multistatus xmlns:D=\"DAV:\"/>").unwrap(), []);
}

/// XRootD encodes nothing: `p%2Fq` is a name, and not `q` in a directory `p`.
#[test]
fn paths_that_were_not_encoded_are_taken_as_they_stand() {
    let path_of = |is_from_xrootd: bool, body: &str| {
        let mut parser = MultistatusParser::of_xrootd(is_from_xrootd);
        let entries = parser.feed(body.as_bytes()).unwrap();
        parser.finish().unwrap();
        entries[0].path.clone()
    };
    let of_xrootd = |href: &str| XROOTD.replace("/data/100%", href);
    let of_others = |href: &str| XROOTD.replace("/data/100%", href).replace("LCGDM:", "another");
    for (href, by_xrootd, by_others) in [
        ("/data/p%2Fq", "/data/p%2Fq", "/data/p%2Fq"),
        ("/data/p%2F", "/data/p%2F", "/data/p%2F"),
        ("/data/r%41", "/data/r%41", "/data/rA"),
        ("/data/a%20b", "/data/a%20b", "/data/a b"),
        ("/data/sp end ", "/data/sp end ", "/data/sp end "),
        ("/data/ x", "/data/ x", "/data/ x"),
        ("\n  /data/f\n  ", "/data/f", "/data/f"),
        ("/data/d /", "/data/d ", "/data/d "),
        ("/data/u#v", "/data/u#v", "/data/u#v"),
        ("https://h:1094/data/a%20b/", "/data/a%20b", "/data/a b"),
        ("/", "/", "/"),
    ] {
        assert_eq!(path_of(true, &of_xrootd(href)), by_xrootd, "{href}");
        assert_eq!(path_of(true, &of_others(href)), by_others, "another form: {href}");
        assert_eq!(path_of(false, &of_xrootd(href)), by_others, "another server: {href}");
    }
}

#[test]
fn a_listing_with_a_name_that_has_no_properties_is_incomplete() {
    let omitted = |response: &str| {
        let mut parser = MultistatusParser::new();
        let body = format!("<D:multistatus xmlns:D=\"DAV:\"><D:response>{response}</D:response></D:multistatus>");
        assert_eq!(parser.feed(body.as_bytes()).unwrap(), [], "{response}");
        parser.finish().unwrap();
        parser.description().map(str::to_owned)
    };
    let status = |code: &str| format!("<D:status>HTTP/1.1 {code}</D:status>");
    let refused = omitted(&format!("<D:href>/d/a</D:href>{}", status("403 Forbidden"))).unwrap();
    assert!(refused.contains("/d/a (HTTP/1.1 403 Forbidden)"), "{refused}");
    for incomplete in [
        "<D:href>/d/a</D:href>".to_owned(),
        status("200 OK"),
        // An href is a URL or an absolute path (RFC 4918 §8.3).
        format!(
            "<D:href>a</D:href><D:propstat><D:prop/>{}</D:propstat>",
            status("200 OK")
        ),
        format!(
            "<D:href>/d/a</D:href><D:propstat><D:prop/>{}</D:propstat>",
            status("404 Not Found")
        ),
    ] {
        assert!(omitted(&incomplete).is_some(), "{incomplete}");
    }
    for gone in ["404 Not Found", "410 Gone"] {
        assert_eq!(omitted(&format!("<D:href>/d/a</D:href>{}", status(gone))), None);
    }
}

#[test]
fn broken_listings_are_the_peers_fault() {
    let deep = format!("<m>{}</response>", "<a>".repeat(100));
    let long = format!(
        "<multistatus><response><href>{}",
        "x".repeat(http_wire::limits::MULTISTATUS_ENTRY_BYTES_MAX)
    );
    for bad in [
        "",
        "hello",
        "<html></html>",
        "<multistatus><response><href>/a</response></multistatus>",
        "<!DOCTYPE a><r><response></response>",
        "<r><response>&evil;</response>",
        &deep,
        &long,
    ] {
        assert!(parse_multistatus(bad.as_bytes()).is_err(), "{bad}");
    }
}
