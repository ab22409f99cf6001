//! What the builders write, the parsers read; and the captured answers of real peers are read.

use http_wire::{
    BearerChallenge, ContentRange, ContentType, CopyPeer, CopyRequest, Depth, HeadLimits, Method, Multipart, Ranges,
    RequestBuilder, RequestHead, ResponseBuilder, ResponseHead, digest_trailer, parse_request, parse_response,
    status_trailer, trailer_digests, transfer_status,
};
use types::{ByteRange, Checksum, ChecksumAlgorithm, Location, Secret};

fn asked(builder: RequestBuilder) -> RequestHead {
    let bytes = builder.finish();
    let (head, consumed) = parse_request(&bytes, &HeadLimits::default()).unwrap().unwrap();
    assert_eq!(consumed, bytes.len());
    head
}

fn answered(builder: ResponseBuilder) -> ResponseHead {
    let bytes = builder.finish();
    let (head, consumed) = parse_response(&bytes, &HeadLimits::default()).unwrap().unwrap();
    assert_eq!(consumed, bytes.len());
    head
}

fn place(url: &str) -> Location {
    Location::parse(url).unwrap()
}

#[test]
fn a_get_says_what_its_builder_was_told() {
    let algorithms = [ChecksumAlgorithm::Adler32, ChecksumAlgorithm::Md5];
    let head = asked(
        RequestBuilder::new(&Method::Get, &place("davs://se.example.org:8443/a%20b?x=1"))
            .user_agent("crossload/1")
            .bearer(&Secret::new("abc"))
            .range(ByteRange::new(10, 20))
            .if_range("\"tag\"")
            .want_digests(&algorithms)
            .client_info("job-id=1")
            .scitag(66)
            .want_status_trailer(),
    );
    assert_eq!(
        (head.target.path_raw.as_str(), head.host()),
        ("/a%20b", Some("se.example.org:8443"))
    );
    assert_eq!(head.ranges(100), Ranges::Parts(vec![ByteRange::new(10, 20)]));
    assert_eq!(
        (head.want_digest(), head.want_repr_digest()),
        (algorithms.to_vec(), algorithms.to_vec())
    );
    assert_eq!(head.bearer().unwrap().expose(), "abc");
    assert!(head.wants_status_trailer() && head.scitag() == Some(66) && head.client_info() == Some("job-id=1"));
}

#[test]
fn a_checksum_of_object_stores_alone_is_not_asked_for() {
    let request = RequestBuilder::new(&Method::Head, &place("https://se/f"));
    let asked = request.want_digests(&[ChecksumAlgorithm::Crc64Nvme]).finish();
    assert!(!String::from_utf8(asked).unwrap().to_lowercase().contains("want-"));
}

#[test]
fn a_copy_says_what_its_builder_was_told() {
    let head = asked(
        RequestBuilder::new(&Method::Copy, &place("https://active/f"))
            .source(&place("davs://passive/f?t=1"))
            .credential_none()
            .transfer_bearer(&Secret::new("abc"))
            .number_of_streams(4)
            .overwrite(false)
            .require_checksum_verification(true)
            .repr_digest(&Checksum::adler32(5)),
    );
    let request = CopyRequest::parse(&head).unwrap();
    assert_eq!(request.peer, CopyPeer::Source(place("https://passive/f?t=1")));
    assert_eq!(
        (
            request.streams,
            request.overwrite,
            request.require_checksum_verification
        ),
        (Some(4), false, Some(true))
    );
    assert_eq!(request.expected_digests, [Checksum::adler32(5)]);
    let onward = asked(RequestBuilder::new(&Method::Get, &place("https://passive/f")).forwarded(&request.forwarded));
    assert_eq!(onward.bearer().unwrap().expose(), "abc");
}

#[test]
fn no_value_or_target_can_smuggle_a_line() {
    let head = asked(
        RequestBuilder::new(&Method::Get, &place("https://h/").with_path("/a b\r\nX: y"))
            .user_agent("x\r\nEvil: 1")
            .transfer_header("A\r\nEvil", &Secret::new("1"))
            .transfer_header("B", &Secret::new("1\r\nEvil: 1")),
    );
    assert_eq!(head.target.path_raw, "/a%20b%0D%0AX:%20y");
    assert!(!head.headers.contains("Evil") && !head.headers.contains("X"));
    let head = answered(
        ResponseBuilder::new(302)
            .location("/a\r\nEvil: 1")
            .www_authenticate("r\"\r\nEvil: 1", BearerChallenge::Missing),
    );
    assert!(!head.headers.contains("Evil"));
}

#[test]
fn a_builder_prints_no_secret() {
    let builder =
        RequestBuilder::new(&Method::Get, &place("https://h/f?authz=hunter2")).bearer(&Secret::new("hunter2"));
    assert!(!format!("{builder:?}").contains("hunter2"));
}

#[test]
fn xrootd_is_known_by_its_name_whatever_follows() {
    for (name, is_xrootd) in [
        ("XrootD/v5.5.3", true),
        ("xrootd", true),
        ("Xroot", false),
        ("Xroot\u{e9}", false),
        ("nginx/1.22.1", false),
    ] {
        let head = answered(ResponseBuilder::new(200).server(name).content_length(0));
        assert_eq!(head.is_from_xrootd(), is_xrootd, "{name}");
    }
    assert!(!answered(ResponseBuilder::new(200).content_length(0)).is_from_xrootd());
}

#[test]
fn our_servers_are_known_by_their_product() {
    for (name, is_ours) in [
        ("crossload/0.1.0", true),
        ("Crossload", true),
        ("crossloader/1", false),
        ("nginx/1.22.1", false),
    ] {
        let head = answered(ResponseBuilder::new(200).server(name).content_length(0));
        assert_eq!(head.is_from_crossload(), is_ours, "{name}");
    }
    assert!(!answered(ResponseBuilder::new(200).content_length(0)).is_from_crossload());
}

#[test]
fn an_answer_says_what_its_builder_was_told() {
    let adler = Checksum::adler32(0xdfca_84d2);
    let head = answered(
        ResponseBuilder::new(206)
            .content_length(4)
            .content_type(ContentType::Bytes)
            .content_range(ByteRange::new(0, 4), 12813)
            .etag("\"tag\"")
            .last_modified(1_795_287_684)
            .accept_ranges()
            .digest(&adler)
            .repr_digest(&adler)
            .retry_after(5)
            .keep_alive(false),
    );
    assert_eq!(
        (head.status, head.reason.as_str(), head.content_length()),
        (206, "Partial Content", Some(4))
    );
    assert_eq!(
        head.content_range(),
        Some(ContentRange {
            range: Some(ByteRange::new(0, 4)),
            size_bytes: Some(12813)
        })
    );
    assert_eq!(
        (head.etag(), head.last_modified(), head.retry_after()),
        (Some("\"tag\""), Some(1_795_287_684), Some(5))
    );
    assert_eq!(head.digests(), [adler]);
    assert_eq!(head.accepts_ranges(), Some(true));
    assert!(!head.keep_alive());
}

#[test]
fn a_date_to_come_again_is_counted_from_the_date_of_the_answer() {
    let wait = |lines: &str| {
        let text = format!("HTTP/1.1 503 Busy\r\n{lines}Content-Length: 0\r\n\r\n");
        let head = parse_response(text.as_bytes(), &HeadLimits::default()).unwrap();
        head.unwrap().0.retry_after()
    };
    let date = "Date: Fri, 27 Nov 2026 14:00:00 GMT\r\n";
    assert_eq!(
        wait(&format!("{date}Retry-After: Fri, 27 Nov 2026 14:01:30 GMT\r\n")),
        Some(90)
    );
    assert_eq!(
        wait(&format!("{date}Retry-After: Fri, 27 Nov 2026 13:59:00 GMT\r\n")),
        Some(0)
    );
    assert_eq!(wait("Retry-After: Fri, 27 Nov 2026 14:01:30 GMT\r\n"), None);
    assert_eq!(wait(&format!("{date}Retry-After: soon\r\n")), None);
    assert_eq!(wait("Retry-After: 7\r\n"), Some(7));
}

#[test]
fn options_are_offered_without_blanks() {
    let bytes = ResponseBuilder::new(200)
        .dav(false)
        .allow(&[Method::Get, Method::Propfind, Method::Mkcol])
        .finish();
    let text = String::from_utf8(bytes).unwrap();
    assert!(
        text.contains("\r\nAllow: GET,PROPFIND,MKCOL\r\n") && text.contains("\r\nDAV: 1\r\n"),
        "{text}"
    );
}

#[test]
fn challenges_name_their_reason() {
    let says = |why| {
        answered(ResponseBuilder::new(401).www_authenticate("se", why))
            .www_authenticate()
            .unwrap()
            .to_owned()
    };
    assert_eq!(says(BearerChallenge::Missing), "Bearer realm=\"se\"");
    assert_eq!(
        says(BearerChallenge::InvalidToken),
        "Bearer realm=\"se\", error=\"invalid_token\""
    );
    assert!(says(BearerChallenge::InsufficientScope).ends_with("error=\"insufficient_scope\""));
}

#[test]
fn multipart_answers_name_their_boundary() {
    let multipart = Multipart::new("abc123", 100);
    let head = answered(ResponseBuilder::new(206).multipart(&multipart));
    assert_eq!(head.multipart_boundary(), Some("abc123"));
    let quoted = parse_response(
        b"HTTP/1.1 206 X\r\nContent-Type: Multipart/ByteRanges; a=b; boundary=\"x y\"\r\n\r\n",
        &HeadLimits::default(),
    );
    assert_eq!(quoted.unwrap().unwrap().0.multipart_boundary(), Some("x y"));
}

#[test]
fn trailers_carry_outcome_and_digest() {
    assert_eq!(
        transfer_status(&status_trailer(500, "no\r\nway")),
        Some((500, "no  way"))
    );
    assert_eq!(
        trailer_digests(&digest_trailer(&Checksum::crc32c(7)), false).unwrap(),
        [Checksum::crc32c(7)]
    );
}

#[test]
fn digests_of_real_servers_are_read() {
    let read = |lines: &str| {
        let text = format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n");
        parse_response(text.as_bytes(), &HeadLimits::default())
            .unwrap()
            .unwrap()
            .0
            .digests()
    };
    let md5 = Checksum::from_base64(ChecksumAlgorithm::Md5, "OXXw2MTh7LJfA17fsbonrA==").unwrap();
    assert_eq!(read("Digest: adler32=dfca84d2"), [Checksum::adler32(0xdfca_84d2)]);
    assert_eq!(read("Digest: md5=OXXw2MTh7LJfA17fsbonrA=="), std::slice::from_ref(&md5));
    assert_eq!(read("Content-MD5: 3975f0d8c4e1ecb25f035edfb1ba27ac"), [md5]);
    assert_eq!(
        read("Content-MD5: 3975f0d8c4e1ecb25f035edfb1ba27ac\r\nContent-Range: bytes 0-1/2"),
        []
    );
    assert_eq!(read("OC-Checksum: ADLER32:1"), [Checksum::adler32(1)]);
    assert_eq!(read("Digest: adler32=zzz, crc32c=1"), [Checksum::crc32c(1)]);
}

#[test]
fn other_requests_are_built() {
    let head = asked(
        RequestBuilder::new(&Method::Propfind, &place("https://h/d"))
            .depth(Depth::One)
            .content_length(0),
    );
    assert_eq!(head.depth().unwrap(), Some(Depth::One));
    let head = asked(
        RequestBuilder::new(&Method::Put, &place("https://h/f"))
            .expect_continue()
            .if_absent()
            .chunked(),
    );
    assert!(head.expects_continue() && head.must_not_exist());
    let head = asked(
        RequestBuilder::new(&Method::Move, &place("https://h/f"))
            .destination(&place("https://h/g"))
            .overwrite(true),
    );
    assert_eq!(head.destination_path().unwrap().path.as_str(), "/g");
}
