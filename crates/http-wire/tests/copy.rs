//! COPY requests of third-party copy, as orchestrators send them and as they must be refused.

use http_wire::{CopyPeer, CopyRequest, Delegation, HeadLimits, parse_request};
use types::{Checksum, Error, ErrorCode};

fn copy(headers: &str) -> Result<CopyRequest, Error> {
    let text = format!("COPY /data/f HTTP/1.1\r\nHost: localhost:8443\r\n{headers}\r\n");
    CopyRequest::parse(&parse_request(text.as_bytes(), &HeadLimits::default())?.unwrap().0)
}

fn forwarded(request: &CopyRequest) -> Vec<(String, String)> {
    request
        .forwarded
        .iter()
        .map(|(name, value)| (name.to_owned(), value.expose().to_owned()))
        .collect()
}

#[test]
fn the_request_of_gfal_is_understood() {
    let request = copy(
        "User-Agent: gfal2-util/1.8.0 gfal2/2.21.3 neon/0.0.29\r\nTE: trailers\r\nSource: https://localhost:8444/data/private-file\r\n\
         X-Number-Of-Streams: 0\r\nSecure-Redirection: 1\r\nTransferHeaderAuthorization: Bearer abc\r\nCredential: none\r\n\
         Authorization: Bearer own\r\nRequireChecksumVerification: false\r\n",
    )
    .unwrap();
    let CopyPeer::Source(source) = &request.peer else {
        panic!("a pull")
    };
    assert_eq!(source.to_wire(), "https://localhost:8444/data/private-file");
    assert_eq!(
        forwarded(&request),
        [("Authorization".to_owned(), "Bearer abc".to_owned())]
    );
    assert_eq!(
        (request.streams, request.require_checksum_verification),
        (None, Some(false))
    );
    assert!(request.overwrite && request.secure_redirection && !request.skip_head && !request.same_host);
    assert!(!format!("{request:?}").contains("abc"));
}

#[test]
fn exactly_one_side_is_named() {
    for bad in [
        "",
        "Source: https://h/a\r\nDestination: https://h/b\r\n",
        "Source: https://h/a\r\nSource: https://h/b\r\n",
    ] {
        assert_eq!(copy(bad).unwrap_err().code(), ErrorCode::BadRequest, "{bad}");
    }
}

#[test]
fn schemes_are_rewritten_or_refused() {
    for (url, wire) in [
        ("davs://h/a", "https://h/a"),
        ("dav://h/a", "http://h/a"),
        ("s3s://h/a?sig=1", "https://h/a?sig=1"),
        ("S3://h/a", "https://h/a"),
        ("HTTPS://h/a?copy_mode=pull", "https://h/a?copy_mode=pull"),
        ("xroot://h//a%b", "root://h//a%b"),
    ] {
        for header in ["Source", "Destination"] {
            let (CopyPeer::Source(place) | CopyPeer::Destination(place)) =
                copy(&format!("{header}: {url}\r\n")).unwrap().peer
            else {
                panic!("a URL")
            };
            assert_eq!(place.to_wire(), wire);
        }
    }
    for bad in [
        "gsiftp://h/a",
        "file:///etc/passwd",
        "a/b",
        "-",
        "https://u:p@h/a",
        "/local",
    ] {
        assert_eq!(
            copy(&format!("Source: {bad}\r\n")).unwrap_err().code(),
            ErrorCode::BadUrl,
            "{bad}"
        );
    }
}

#[test]
fn copies_within_the_server_are_told_apart() {
    let CopyPeer::Local(place) = copy("Destination: /data/other\r\n").unwrap().peer else {
        panic!("local")
    };
    assert_eq!(place.path.as_str(), "/data/other");
    assert!(
        copy("Destination: https://LOCALHOST:8443/data/g\r\n")
            .unwrap()
            .same_host
    );
    assert!(!copy("Destination: https://localhost/data/g\r\n").unwrap().same_host);
}

#[test]
fn headers_for_the_other_side_are_collected_without_those_of_the_connection() {
    let request = copy(
        "Source: https://h/a\r\ntransferheaderX-Test: 1\r\nTransferHeader: blank\r\nCopy-Header: Authorization: bearer x\r\nCopy-Headers: Y: 2\r\n\
         TransferHeaderHost: evil\r\nTransferHeaderContent-Length: 5\r\nTransferHeaderTransfer-Encoding: chunked\r\nTransferHeaderRange: bytes=0-1\r\n\
         TransferHeaderExpect: x\r\nTransferHeaderConnection: close\r\nCopy-Header: Host: evil\r\nTransferHeaderSciTag: 66\r\n",
    )
    .unwrap();
    let pairs = [("X-Test", "1"), ("Authorization", "bearer x"), ("Y", "2")];
    assert_eq!(
        forwarded(&request),
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
    assert!(request.forwarded.has_authorization() && !request.forwarded.without_authorization().has_authorization());
    assert_eq!(request.scitag, Some(66));
    for bad in ["Copy-Header: nonsense\r\n", "Copy-Header: A B: c\r\n"] {
        assert_eq!(
            copy(&format!("Source: https://h/a\r\n{bad}")).unwrap_err().code(),
            ErrorCode::BadRequest,
            "{bad}"
        );
    }
    let mut headers = request.forwarded;
    assert!(headers.push("A", "x\r\nB: y").is_err() && headers.push("A\r\n", "x").is_err());
}

#[test]
fn credentials_of_unknown_kinds_are_not_offered() {
    let said = |line: &str| copy(&format!("Source: https://h/a\r\n{line}")).map(|copy| copy.delegation);
    assert_eq!(said("Credential: NONE\r\n").unwrap(), Delegation::None);
    assert_eq!(said("Credential: GridSite\r\n").unwrap(), Delegation::GridSite);
    assert_eq!(said("Credential:\r\n").unwrap(), Delegation::Unsaid);
    assert_eq!(said("X-No-Delegate: true\r\n").unwrap(), Delegation::None);
    for other in ["oidc", "x"] {
        let error = copy(&format!("Source: https://h/a\r\nCredential: {other}\r\n")).unwrap_err();
        assert_eq!(error.code(), ErrorCode::CredentialUnsupported);
    }
}

#[test]
fn numbers_and_switches_are_checked() {
    let with = |line: &str| copy(&format!("Source: https://h/a\r\n{line}\r\n"));
    assert_eq!(with("X-Number-Of-Streams: 100").unwrap().streams, Some(100));
    assert_eq!(
        with("RequireChecksumVerification: TRUE")
            .unwrap()
            .require_checksum_verification,
        Some(true)
    );
    assert_eq!(with("X: y").unwrap().require_checksum_verification, None);
    assert!(with("Copy-Flags: NoHead").unwrap().skip_head && !with("Overwrite: F").unwrap().overwrite);
    assert_eq!(
        with("Repr-Digest: adler=:38qE0g==:").unwrap().expected_digests,
        [Checksum::adler32(0xdfca_84d2)]
    );
    assert_eq!(
        with("ClientInfo: job-id=1;file-id=2").unwrap().client_info.as_deref(),
        Some("job-id=1;file-id=2")
    );
    for bad in [
        "X-Number-Of-Streams: 101",
        "X-Number-Of-Streams: -1",
        "X-Number-Of-Streams: many",
        "RequireChecksumVerification: maybe",
        "Overwrite: x",
        "Repr-Digest: adler=x",
    ] {
        assert_eq!(with(bad).unwrap_err().code(), ErrorCode::BadRequest, "{bad}");
    }
}
