//! What requests say: the typed accessors, one table per rule.

use http_wire::{Authorization, Depth, HeadLimits, Ranges, RequestHead, parse_request};
use types::{ByteRange, Checksum, ChecksumAlgorithm, ErrorCode};

fn request(line: &str, headers: &str) -> RequestHead {
    let text = format!("{line} HTTP/1.1\r\nHost: h\r\n{headers}\r\n");
    parse_request(text.as_bytes(), &HeadLimits::default())
        .unwrap()
        .unwrap()
        .0
}

fn put(headers: &str) -> RequestHead {
    request("PUT /f", headers)
}

#[test]
fn ranges_count_for_get_and_only_once() {
    assert_eq!(
        request("GET /f", "Range: bytes=0-3\r\n").ranges(10),
        Ranges::Parts(vec![ByteRange::new(0, 4)])
    );
    assert_eq!(
        request("GET /f", "Range: bytes=0-3\r\nRange: bytes=5-6\r\n").ranges(10),
        Ranges::Whole
    );
    assert_eq!(request("HEAD /f", "Range: bytes=0-3\r\n").ranges(10), Ranges::Whole);
    assert_eq!(request("GET /f", "").ranges(10), Ranges::Whole);
}

#[test]
fn tokens_are_found_in_header_and_query_in_any_case() {
    let token = |line: &str, headers: &str| request(line, headers).bearer().map(|token| token.expose().to_owned());
    assert_eq!(token("GET /f", "Authorization: Bearer abc\r\n").as_deref(), Some("abc"));
    assert_eq!(
        token("GET /f", "authorization: bEARER  abc\r\n").as_deref(),
        Some("abc")
    );
    assert_eq!(token("GET /f?x=1&authz=Bearer%20a.b%3D", "").as_deref(), Some("a.b="));
    assert_eq!(token("GET /f?authz=abc", "").as_deref(), Some("abc"));
    assert_eq!(
        token("GET /f?authz=query", "Authorization: Bearer header\r\n").as_deref(),
        Some("header")
    );
    for (line, headers) in [
        ("GET /f", "Authorization: Basic abc\r\n"),
        ("GET /f", "Authorization: Bearer\r\n"),
        ("GET /f", "Authorization: Bearer a b\r\n"),
        ("GET /f?authz=", ""),
    ] {
        assert!(
            matches!(request(line, headers).authorization(), Authorization::Unsupported),
            "{line} {headers}"
        );
    }
    assert!(matches!(request("GET /f", "").authorization(), Authorization::Absent));
}

#[test]
fn a_token_is_never_printed() {
    let head = request(
        "GET /f?authz=hunter2",
        "Authorization: Bearer hunter2\r\nTransferHeaderAuthorization: hunter2\r\n",
    );
    assert!(!format!("{head:?} {:?}", head.authorization()).contains("hunter2"));
}

#[test]
fn the_same_credential_twice_counts_once_and_two_different_ones_contradict() {
    let twice = request("GET /f", "Authorization: Bearer a\r\nauthorization: Bearer a\r\n");
    assert_eq!(
        twice.bearer().map(|token| token.expose().to_owned()).as_deref(),
        Some("a")
    );
    assert_eq!(twice.authorization_field(), Some("Bearer a"));
    let different = request("GET /f", "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n");
    assert!(matches!(different.authorization(), Authorization::Contradictory));
    assert!(different.authorization_field().is_none() && different.bearer().is_none());
}

#[test]
fn depth_and_overwrite_take_their_words_only() {
    assert_eq!(put("").depth().unwrap(), None);
    assert_eq!(put("Depth: 0\r\n").depth().unwrap(), Some(Depth::Zero));
    assert_eq!(put("Depth: Infinity\r\n").depth().unwrap(), Some(Depth::Infinity));
    assert_eq!(put("Depth: 2\r\n").depth().unwrap_err().code(), ErrorCode::BadRequest);
    assert!(put("").overwrite().unwrap() && put("Overwrite: T\r\n").overwrite().unwrap());
    assert!(!put("Overwrite: F\r\n").overwrite().unwrap());
    assert_eq!(
        put("Overwrite: yes\r\n").overwrite().unwrap_err().code(),
        ErrorCode::BadRequest
    );
}

#[test]
fn destinations_of_a_move_are_urls_or_paths() {
    let to = |value: &str| request("MOVE /f", &format!("Destination: {value}\r\n")).destination_path();
    let found = to("https://se.example.org:8443//a%20b/c?x=1").unwrap();
    assert_eq!(
        (found.authority.as_deref(), found.path.as_str()),
        (Some("se.example.org:8443"), "/a b/c")
    );
    assert_eq!(to("/a/b").unwrap().authority, None);
    for bad in ["", "a/b", "ftp://h/a", "https:///a", "https://u:p@h/a", "https://h"] {
        assert_eq!(to(bad).unwrap_err().code(), ErrorCode::BadRequest, "{bad}");
    }
    assert_eq!(to("/a/../b").unwrap_err().code(), ErrorCode::PathRefused);
    assert!(request("MOVE /f", "").destination_path().is_err());
}

#[test]
fn declared_digests_are_read_in_all_forms() {
    let adler = Checksum::adler32(0xdfca_84d2);
    let md5 = Checksum::from_hex(ChecksumAlgorithm::Md5, "3975f0d8c4e1ecb25f035edfb1ba27ac").unwrap();
    for (headers, expected) in [
        ("Digest: adler32=dfca84d2\r\n", vec![adler.clone()]),
        ("Repr-Digest: adler=:38qE0g==:\r\n", vec![adler.clone()]),
        ("Content-Digest: adler=:38qE0g==:\r\n", vec![adler.clone()]),
        ("Content-MD5: 3975f0d8c4e1ecb25f035edfb1ba27ac\r\n", vec![md5.clone()]),
        (
            "Content-MD5: OXXw2MTh7LJfA17fsbonrA==\r\nDigest: adler32=DFCA84D2, sha=x\r\n",
            vec![adler, md5],
        ),
        ("Digest: sha=anything\r\n", vec![]),
    ] {
        assert_eq!(put(headers).declared_digests().unwrap(), expected, "{headers}");
    }
    for bad in [
        "Digest: adler32=xyz\r\n",
        "Content-MD5: abc\r\n",
        "Repr-Digest: md5=abc\r\n",
    ] {
        assert_eq!(
            put(bad).declared_digests().unwrap_err().code(),
            ErrorCode::BadRequest,
            "{bad}"
        );
    }
}

#[test]
fn browsers_are_told_from_programs() {
    assert!(put("Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n").prefers_html());
    for program in [
        "",
        "Accept: */*\r\n",
        "Accept: text/html;q=0\r\n",
        "Accept: text/html; Q=0.000\r\n",
        "Accept: application/json\r\n",
    ] {
        assert!(!put(program).prefers_html(), "{program}");
    }
    assert!(!put("Accept: text/html\r\n").wants_page());
}

#[test]
fn a_status_trailer_needs_both_headers() {
    assert!(put("TE: trailers\r\nX-Transfer-Status: true\r\n").wants_status_trailer());
    assert!(!put("X-Transfer-Status: true\r\n").wants_status_trailer());
    assert!(!put("TE: trailers\r\n").wants_status_trailer());
}

#[test]
fn traces_and_tags_count_only_when_well_formed() {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    assert_eq!(put(&format!("Traceparent: {trace}\r\n")).traceparent(), Some(trace));
    for bad in [
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4BF92F3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-01",
    ] {
        assert_eq!(put(&format!("Traceparent: {bad}\r\n")).traceparent(), None, "{bad}");
    }
    assert_eq!(
        put("SciTag: 65535\r\nTransferHeaderSciTag: 7\r\n").scitag(),
        Some(65535)
    );
    assert_eq!(put("TransferHeaderSciTag: 7\r\n").scitag(), Some(7));
    assert_eq!(put("SciTag: 65536\r\n").scitag(), None);
}

#[test]
fn encodings_and_types_are_told() {
    assert!(put("Content-Encoding: gzip\r\n").has_content_encoding());
    assert!(!put("Content-Encoding: identity\r\n").has_content_encoding());
    assert!(put("Content-Range: bytes 0-1/2\r\n").check_whole().is_err() && put("").check_whole().is_ok());
    assert_eq!(
        put("Content-Type: Application/Macaroon-Request; x=y\r\n")
            .media_type()
            .as_deref(),
        Some("application/macaroon-request")
    );
}

#[test]
fn the_time_of_an_upload_is_whole_seconds() {
    for (text, modified) in [
        ("1700000000", Some(1_700_000_000)),
        (" 1700000000.25 ", Some(1_700_000_000)),
        ("0", Some(0)),
        ("-1", None),
        ("1e9", None),
        ("1700000000.x", None),
        ("Mon, 12 Jan 1998 09:25:56 GMT", None),
        ("", None),
    ] {
        assert_eq!(put(&format!("X-OC-Mtime: {text}\r\n")).modified(), modified, "{text}");
    }
    assert_eq!(put("").modified(), None);
}
