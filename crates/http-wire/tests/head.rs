//! Heads: what is read, what is refused, and what the head says about body and connection.

use http_wire::{
    Framing, HeadLimits, LastHeaders, Method, RequestHead, ResponseHead, Version, parse_next_request, parse_request,
    parse_response,
};
use std::sync::Arc;
use types::{Error, ErrorCode};

fn request(text: &str) -> Result<RequestHead, Error> {
    let (head, consumed) = parse_request(text.as_bytes(), &HeadLimits::default())?.expect("a complete head");
    assert_eq!(consumed, text.len());
    Ok(head)
}

fn response(text: &str) -> Result<ResponseHead, Error> {
    Ok(parse_response(text.as_bytes(), &HeadLimits::default())?
        .expect("a complete head")
        .0)
}

fn with_headers(lines: &str) -> String {
    format!("PUT /f HTTP/1.1\r\nHost: h\r\n{lines}\r\n")
}

#[test]
fn a_request_of_davix_is_read_with_its_empty_header() {
    let head = request(
        "COPY /data/ap2?copy_mode=pull HTTP/1.1\r\nUser-Agent: libdavix/0.8.4 neon/0.0.29\r\nKeep-Alive:\r\n\
         Connection: Keep-Alive\r\nTE: trailers\r\nHost: localhost:8443\r\nX-Number-Of-Streams: 1\r\n\r\n",
    )
    .unwrap();
    assert_eq!((head.method.clone(), head.version), (Method::Copy, Version::Http11));
    assert_eq!(
        (head.target.path_raw.as_str(), head.target.query.as_deref()),
        ("/data/ap2", Some("copy_mode=pull"))
    );
    assert_eq!(head.headers.get("keep-alive"), Some(""));
    assert_eq!(head.headers.get("te"), Some("trailers"));
    assert!(head.keep_alive() && !head.expects_continue());
    assert_eq!(head.framing().unwrap(), Framing::Empty);
}

#[test]
fn a_head_is_incomplete_until_its_last_byte() {
    let text = "\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\nnext";
    let end = text.len() - 4;
    for cut in 0..end {
        assert!(
            parse_request(&text.as_bytes()[..cut], &HeadLimits::default())
                .unwrap()
                .is_none(),
            "{cut}"
        );
    }
    assert_eq!(
        parse_request(text.as_bytes(), &HeadLimits::default())
            .unwrap()
            .unwrap()
            .1,
        end
    );
}

#[test]
fn targets_come_in_their_three_forms() {
    let head = request("GET https://se.example.org:8443/a%20b?x=1 HTTP/1.1\r\nHost: other\r\n\r\n").unwrap();
    assert_eq!(head.target.authority.as_deref(), Some("se.example.org:8443"));
    assert_eq!(
        (head.target.path_raw.as_str(), head.target.query.as_deref()),
        ("/a%20b", Some("x=1"))
    );
    assert_eq!(
        request("GET http://h HTTP/1.1\r\nHost: h\r\n\r\n")
            .unwrap()
            .target
            .path_raw,
        "/"
    );
    assert_eq!(
        request("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n")
            .unwrap()
            .target
            .path_raw,
        "*"
    );
    assert_eq!(
        request("GET //a HTTP/1.1\r\nHost: h\r\n\r\n").unwrap().target.path_raw,
        "//a"
    );
    for bad in ["*", "a/b", "ftp://h/", "http:///x", "http://u@h/", "/a#b"] {
        let text = format!("GET {bad} HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(request(&text).unwrap_err().code(), ErrorCode::BadRequest, "{bad}");
    }
}

#[test]
fn malformed_request_heads_are_refused() {
    let bad = [
        "GET / HTTP/1.1\nHost: h\n\n",
        "GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n\n",
        "GET / HTTP/1.1\r\nHost: h\rX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n: x\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: h\r\n\r\n",
        "GET / HTTP/2.0\r\nHost: h\r\n\r\n",
        "GET /\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "G@T / HTTP/1.1\r\nHost: h\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    for text in bad {
        let error = parse_request(text.as_bytes(), &HeadLimits::default()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::BadRequest, "{text:?}");
    }
    let latin = parse_request(b"GET / HTTP/1.1\r\nHost: h\r\nX: \xe4\r\n\r\n", &HeadLimits::default());
    assert_eq!(latin.unwrap_err().code(), ErrorCode::BadRequest);
}

#[test]
fn limits_hold_whether_or_not_the_head_is_complete() {
    let limits = HeadLimits {
        head_bytes: 100,
        header_count: 3,
    };
    let long = format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(100));
    for text in [&long[..100], &long] {
        assert_eq!(
            parse_request(text.as_bytes(), &limits).unwrap_err().code(),
            ErrorCode::HeadTooLarge
        );
    }
    assert!(parse_request(&long.as_bytes()[..99], &limits).unwrap().is_none());
    let many = "GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n";
    assert_eq!(
        parse_request(many.as_bytes(), &limits).unwrap_err().code(),
        ErrorCode::HeadTooLarge
    );
    assert!(
        parse_request(
            many.as_bytes(),
            &HeadLimits {
                header_count: 4,
                ..limits
            }
        )
        .unwrap()
        .is_some()
    );
    assert!(
        parse_request(
            many.as_bytes(),
            &HeadLimits {
                header_count: usize::MAX,
                ..limits
            }
        )
        .unwrap()
        .is_some()
    );
}

#[test]
fn framing_of_requests_follows_the_smuggling_rules() {
    let good = [
        ("", Framing::Empty),
        ("Content-Length: 0\r\n", Framing::Empty),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", Framing::Length(5)),
        ("Content-Length: 18446744073709551615\r\n", Framing::Length(u64::MAX)),
        ("Transfer-Encoding: Chunked\r\n", Framing::Chunked),
    ];
    for (lines, framing) in good {
        assert_eq!(
            request(&with_headers(lines)).unwrap().framing().unwrap(),
            framing,
            "{lines}"
        );
    }
    let bad = [
        ("Content-Length: +5\r\n", ErrorCode::BadRequest),
        ("Content-Length: 5, 5\r\n", ErrorCode::BadRequest),
        ("Content-Length:\r\n", ErrorCode::BadRequest),
        ("Content-Length: 18446744073709551616\r\n", ErrorCode::BadRequest),
        ("Content-Length: 5\r\ncontent-length: 6\r\n", ErrorCode::BadRequest),
        (
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            ErrorCode::BadRequest,
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            ErrorCode::BadRequest,
        ),
        ("Transfer-Encoding: gzip, chunked\r\n", ErrorCode::NotImplemented),
        ("Transfer-Encoding: chunked, gzip\r\n", ErrorCode::BadRequest),
        ("Transfer-Encoding: \r\n", ErrorCode::BadRequest),
    ];
    for (lines, code) in bad {
        assert_eq!(
            request(&with_headers(lines)).unwrap().framing().unwrap_err().code(),
            code,
            "{lines}"
        );
    }
    let old = request("PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    assert_eq!(old.framing().unwrap_err().code(), ErrorCode::BadRequest);
}

#[test]
fn framing_of_answers_depends_on_the_request_and_status() {
    let framing = |status: u16, lines: &str, method: Method| {
        response(&format!("HTTP/1.1 {status} X\r\n{lines}\r\n"))
            .unwrap()
            .framing(&method)
    };
    assert_eq!(
        framing(200, "Content-Length: 5\r\n", Method::Head).unwrap(),
        Framing::Empty
    );
    assert_eq!(
        framing(204, "Content-Length: 5\r\n", Method::Get).unwrap(),
        Framing::Empty
    );
    assert_eq!(
        framing(100, "Content-Length: 5\r\n", Method::Put).unwrap(),
        Framing::Empty
    );
    assert_eq!(
        framing(200, "Content-Length: 5\r\n", Method::Get).unwrap(),
        Framing::Length(5)
    );
    assert_eq!(
        framing(202, "Transfer-Encoding: chunked\r\n", Method::Copy).unwrap(),
        Framing::Chunked
    );
    assert_eq!(framing(200, "", Method::Get).unwrap(), Framing::UntilClose);
    let error = framing(200, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Method::Get).unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerMisbehaved);
}

#[test]
fn connections_persist_as_each_version_says() {
    let keep = |text: &str| request(text).unwrap().keep_alive();
    assert!(keep("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    assert!(!keep("GET / HTTP/1.1\r\nHost: h\r\nConnection: te, Close\r\n\r\n"));
    assert!(!keep("GET / HTTP/1.0\r\n\r\n"));
    assert!(keep("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
    assert!(
        !response("HTTP/1.1 404 X\r\nConnection: Close\r\n\r\n")
            .unwrap()
            .keep_alive()
    );
}

#[test]
fn expectations_count_in_http11_only() {
    assert!(
        request(&with_headers("Expect: 100-Continue\r\n"))
            .unwrap()
            .expects_continue()
    );
    assert!(
        !request("PUT / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n")
            .unwrap()
            .expects_continue()
    );
}

#[test]
fn answers_of_real_peers_are_read() {
    let interim = "HTTP/1.1 100 Continue\r\nConnection: Close\r\nServer: XrootD/v5.5.3\r\n\r\n";
    let all = format!("{interim}HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n:-)");
    let (head, consumed) = parse_response(all.as_bytes(), &HeadLimits::default()).unwrap().unwrap();
    assert!(head.is_interim() && consumed == interim.len());
    let (head, _) = parse_response(&all.as_bytes()[consumed..], &HeadLimits::default())
        .unwrap()
        .unwrap();
    assert_eq!((head.status, head.reason.as_str()), (200, "OK"));

    let (head, _) = parse_response(b"HTTP/1.1 404 Gel\xf6scht\r\nX: \xe4b\r\n\r\n", &HeadLimits::default())
        .unwrap()
        .unwrap();
    assert_eq!((head.reason.as_str(), head.headers.get("x")), ("Gel?scht", Some("?b")));
    assert_eq!(response("HTTP/1.0 200\r\n\r\n").unwrap().reason, "");
}

#[test]
fn malformed_answers_are_the_peers_fault() {
    for text in [
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 200 OK\n\n",
        "ICY 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "HTTP/3.1 200 OK\r\n\r\n",
    ] {
        let error = parse_response(text.as_bytes(), &HeadLimits::default()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::PeerMisbehaved, "{text:?}");
    }
}

/// What a connection that has seen `first` makes of `next`, which must be what it would have made
/// of it alone.
fn after(first: &str, next: &str, limits: &HeadLimits) -> (bool, Result<Option<(RequestHead, usize)>, Error>) {
    let mut last = LastHeaders::default();
    let (known, _) = parse_next_request(first.as_bytes(), limits, &mut last)
        .unwrap()
        .unwrap();
    let then = parse_next_request(next.as_bytes(), limits, &mut last);
    match (&then, parse_request(next.as_bytes(), limits)) {
        (Ok(Some((head, used))), Ok(Some((alone, alone_used)))) => {
            assert_eq!(*used, alone_used, "{next:?}");
            assert_eq!(
                head.headers.iter().collect::<Vec<_>>(),
                alone.headers.iter().collect::<Vec<_>>()
            );
            assert_eq!(
                (&head.method, &head.target, head.version),
                (&alone.method, &alone.target, alone.version)
            );
        }
        (Ok(None), Ok(None)) => {}
        (Err(error), Err(alone)) => assert_eq!(error.code(), alone.code(), "{next:?}"),
        (then, alone) => panic!("{next:?}: {then:?}, alone {alone:?}"),
    }
    let is_shared = matches!(&then, Ok(Some((head, _))) if Arc::ptr_eq(&head.headers, &known.headers));
    (is_shared, then)
}

#[test]
fn the_same_header_lines_are_known_again_and_any_others_are_read() {
    let limits = HeadLimits::default();
    let lines = "Host: h\r\nAuthorization: Bearer one\r\nX:\r\n\r\n";
    let first = format!("GET /a HTTP/1.1\r\n{lines}");
    for same in [
        "GET /a HTTP/1.1",
        "PUT /b?c=d HTTP/1.1",
        "\r\nGET http://other/a HTTP/1.1",
        "BREW /a HTTP/1.1",
    ] {
        let (is_shared, next) = after(&first, &format!("{same}\r\n{lines}GET /next"), &limits);
        assert!(is_shared && next.is_ok(), "{same}");
    }
    let others = [
        "GET /a HTTP/1.0\r\n",
        "GET /a HTTP/1.1\n",
        "GET /a HTTP/2.0\r\n",
        "GET  /a HTTP/1.1\r\n",
        "GET /ä HTTP/1.1\r\n",
        "GET /a#b HTTP/1.1\r\n",
        "GET /a\r\n",
        "GET /a HTTP/1.1\r\nRange: bytes=0-1\r\n",
        "GET /a HTTP/1.1\r\nHost: g\r\n",
        "PRI * HTTP/2.0\r\n",
        "GET /a HTTP/1.1\r\n\r\n",
        "\nGET /a HTTP/1.1\r\n",
        "\r\n \r\n",
    ];
    for other in others {
        assert!(!after(&first, &format!("{other}{lines}"), &limits).0, "{other:?}");
    }
    for cut in 0..first.len() {
        assert!(
            matches!(after(&first, &first[..cut], &limits), (false, Ok(None))),
            "{cut}"
        );
    }
    for changed in [
        lines.replace("one", "onf"),
        lines.replace("Host", "host"),
        lines.replace("X:", "X: y"),
    ] {
        assert!(
            !after(&first, &format!("GET /a HTTP/1.1\r\n{changed}"), &limits).0,
            "{changed:?}"
        );
    }
}

#[test]
fn lines_that_are_known_again_keep_to_the_limits() {
    let lines = format!("Host: h\r\nX: {}\r\n\r\n", "x".repeat(60));
    let limits = HeadLimits {
        head_bytes: 110,
        header_count: 2,
    };
    let first = format!("GET / HTTP/1.1\r\n{lines}");
    let long = format!("GET /{} HTTP/1.1\r\n{lines}", "x".repeat(100));
    let (_, refused) = after(&first, &long, &limits);
    assert_eq!(refused.unwrap_err().code(), ErrorCode::HeadTooLarge);
    // The oldest version knows no duty to name the host, the newer one does.
    let (is_shared, refused) = after(
        "GET / HTTP/1.0\r\nX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nX: y\r\n\r\n",
        &limits,
    );
    assert!(!is_shared && refused.is_err());
    let large = format!(
        "GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n",
        "x".repeat(http_wire::limits::LAST_HEADERS_BYTES_MAX)
    );
    assert!(!after(&large, &large, &HeadLimits::default()).0, "too long to be kept");
}
