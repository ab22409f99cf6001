//! Every verb with every way to be refused: the status is that of the error table, and the body
//! says what happened, what to do, and the name of the request in the log.

use policy::{AnonymousAccess, ExportRules};
use storage::{Effect, Fault, Faulty, Operation};
use types::{ErrorCode, LogicalPath};

use crate::harness::{Server, export, memory};

async fn server() -> Server {
    let full = |operation| Fault {
        operation,
        nth: 0,
        effect: Effect::Fail(ErrorCode::NoSpace),
    };
    let broken = Fault {
        operation: Operation::Open,
        nth: 0,
        effect: Effect::Fail(ErrorCode::StorageFailed),
    };
    let disk = memory();
    let mut frozen = export("/frozen", AnonymousAccess::Write, disk.clone());
    frozen.rules = ExportRules {
        path: LogicalPath::parse("/frozen").unwrap(),
        anonymous: AnonymousAccess::Write,
        read_only: true,
        ..ExportRules::default()
    };
    let exports = vec![
        export("/data", AnonymousAccess::Write, disk.clone()),
        export("/read", AnonymousAccess::Read, disk.clone()),
        export("/closed", AnonymousAccess::None, disk.clone()),
        export(
            "/full",
            AnonymousAccess::Write,
            Faulty::new(disk.clone(), vec![full(Operation::Create)]),
        ),
        export(
            "/filling",
            AnonymousAccess::Write,
            Faulty::new(disk.clone(), vec![full(Operation::Write)]),
        ),
        export("/broken", AnonymousAccess::Write, Faulty::new(disk, vec![broken])),
        frozen,
    ];
    let server = Server::start(exports, |_| {}).await;
    server.put("/data/f", b"content").await;
    server.put("/data/d/x", b"content").await;
    server
}

const TABLE: &[(&str, &str, ErrorCode)] = &[
    // Nothing there.
    ("GET /data/none", "", ErrorCode::NotFound),
    ("HEAD /data/none", "", ErrorCode::NotFound),
    ("DELETE /data/none", "", ErrorCode::NotFound),
    ("PROPFIND /data/none", "Depth: 0", ErrorCode::NotFound),
    ("MOVE /data/none", "Destination: /data/x", ErrorCode::NotFound),
    ("COPY /data/none", "Destination: /data/x", ErrorCode::NotFound),
    (
        "COPY /data/none",
        "Destination: http://127.0.0.1:1/x",
        ErrorCode::NotFound,
    ),
    ("GET /nowhere", "", ErrorCode::NotFound),
    ("PUT /nowhere/f", "", ErrorCode::NotFound),
    ("MKCOL /nowhere/d", "", ErrorCode::NotFound),
    // No credential.
    ("GET /closed/f", "", ErrorCode::Unauthenticated),
    ("GET /closed/none", "", ErrorCode::Unauthenticated),
    ("HEAD /closed/f", "", ErrorCode::Unauthenticated),
    ("PROPFIND /closed", "Depth: 1", ErrorCode::Unauthenticated),
    ("PUT /read/f", "", ErrorCode::Unauthenticated),
    ("DELETE /read/f", "", ErrorCode::Unauthenticated),
    ("MKCOL /read/n", "", ErrorCode::Unauthenticated),
    ("MOVE /read/f", "Destination: /read/g", ErrorCode::Unauthenticated),
    ("COPY /read/f", "Destination: /read/g", ErrorCode::Unauthenticated),
    (
        "COPY /read/g",
        "Source: http://127.0.0.1:1/x",
        ErrorCode::Unauthenticated,
    ),
    (
        "COPY /closed/f",
        "Destination: http://127.0.0.1:1/x",
        ErrorCode::Unauthenticated,
    ),
    // An invalid credential.
    ("GET /data/f", "Authorization: Bearer nonsense", ErrorCode::InvalidToken),
    ("GET /", "Authorization: Bearer nonsense", ErrorCode::InvalidToken),
    (
        "GET /nowhere",
        "Authorization: Bearer nonsense",
        ErrorCode::InvalidToken,
    ),
    ("PUT /data/f", "Authorization: Basic eDp5", ErrorCode::InvalidToken),
    (
        "GET /data/f",
        "Authorization: Bearer a\nAuthorization: Bearer b",
        ErrorCode::BadRequest,
    ),
    (
        "PROPFIND /data",
        "Depth: 0\nAuthorization: Bearer a.b.c",
        ErrorCode::TokenMalformed,
    ),
    // Never allowed.
    ("PUT /frozen/f", "", ErrorCode::Forbidden),
    ("DELETE /frozen/f", "", ErrorCode::Forbidden),
    ("MKCOL /frozen/n", "", ErrorCode::Forbidden),
    ("COPY /frozen/n", "Source: http://127.0.0.1:1/x", ErrorCode::Forbidden),
    ("DELETE /data", "", ErrorCode::Forbidden),
    // Something in the way.
    ("PUT /data/d", "", ErrorCode::IsDirectory),
    ("COPY /data/d", "Source: http://127.0.0.1:1/x", ErrorCode::IsDirectory),
    (
        "COPY /data/d",
        "Destination: http://127.0.0.1:1/x",
        ErrorCode::IsDirectory,
    ),
    ("COPY /data/d", "Destination: /data/d/n", ErrorCode::Forbidden),
    ("MOVE /data/f", "Destination: /data/d", ErrorCode::NotEmpty),
    ("PUT /data/f/x", "", ErrorCode::NotDirectory),
    ("GET /data/f/x", "", ErrorCode::NotDirectory),
    ("MKCOL /data/d", "", ErrorCode::DirectoryExists),
    ("MKCOL /data/f", "", ErrorCode::MethodNotAllowed),
    ("MKCOL /data/a/b", "", ErrorCode::ParentMissing),
    ("DELETE /data/d", "", ErrorCode::NotEmpty),
    ("PUT /data/f", "If-None-Match: *", ErrorCode::Exists),
    (
        "MOVE /data/f",
        "Destination: /data/d/x\nOverwrite: F",
        ErrorCode::Exists,
    ),
    (
        "COPY /data/f",
        "Destination: /data/d/x\nOverwrite: F",
        ErrorCode::Exists,
    ),
    (
        "COPY /data/f",
        "Source: http://127.0.0.1:1/x\nOverwrite: F",
        ErrorCode::Exists,
    ),
    ("MOVE /data/f", "Destination: /full/f", ErrorCode::CrossExport),
    // Both exports show this file.
    ("COPY /data/f", "Destination: /full/f", ErrorCode::Forbidden),
    ("COPY /data/d", "Destination: /full/d/x", ErrorCode::Forbidden),
    ("COPY /data/f", "Destination: /read/n", ErrorCode::Unauthenticated),
    ("COPY /closed/f", "Destination: /data/n", ErrorCode::Unauthenticated),
    ("COPY /data/f", "Destination: /frozen/n", ErrorCode::Forbidden),
    ("COPY /read/f", "Destination: /data/none/x", ErrorCode::ParentMissing),
    // The disk.
    ("PUT /full/n", "", ErrorCode::NoSpace),
    ("PUT /filling/n", "", ErrorCode::NoSpace),
    ("COPY /full/f", "Destination: /full/n", ErrorCode::NoSpace),
    ("COPY /data/f", "Destination: /full/n", ErrorCode::NoSpace),
    ("COPY /data/f", "Destination: /filling/n", ErrorCode::NoSpace),
    ("COPY /broken/f", "Destination: /data/n", ErrorCode::StorageFailed),
    ("GET /broken/f", "", ErrorCode::StorageFailed),
    // The request itself.
    ("GET /data/f", "Range: bytes=100-", ErrorCode::RangeUnsatisfiable),
    ("GET /data/f", "If-Match: \"x\"", ErrorCode::PreconditionFailed),
    ("HEAD /data/f", "If-Match: \"x\"", ErrorCode::PreconditionFailed),
    ("DELETE /data/f", "If-Match: \"x\"", ErrorCode::PreconditionFailed),
    ("PUT /data/n", "Digest: adler32=00000001", ErrorCode::ChecksumMismatch),
    ("PUT /data/n", "Digest: adler32=nonsense", ErrorCode::BadRequest),
    ("PUT /data/n", "Content-Range: bytes 0-6/9", ErrorCode::BadRequest),
    ("PUT /data/n", "Content-Encoding: br", ErrorCode::UnsupportedMediaType),
    ("POST /data/n", "", ErrorCode::UnsupportedMediaType),
    (
        "POST /data/n",
        "Content-Type: text/plain\nExpect: 100-continue",
        ErrorCode::UnsupportedMediaType,
    ),
    (
        "POST /.oauth2/token",
        "Content-Type: application/json",
        ErrorCode::UnsupportedMediaType,
    ),
    (
        "POST /data/n",
        "Content-Type: application/macaroon-request",
        ErrorCode::BadRequest,
    ),
    ("PROPFIND /closed", "Depth: infinity", ErrorCode::Unauthenticated),
    ("PROPFIND /closed", "", ErrorCode::Unauthenticated),
    ("PROPFIND /data", "Depth: x", ErrorCode::BadRequest),
    ("MOVE /data/f", "", ErrorCode::BadRequest),
    (
        "MOVE /data/f",
        "Destination: /data/n\nOverwrite: x",
        ErrorCode::BadRequest,
    ),
    ("COPY /data/f", "", ErrorCode::BadRequest),
    (
        "COPY /data/f",
        "Source: http://h/x\nDestination: http://h/y",
        ErrorCode::BadRequest,
    ),
    ("COPY /data/n", "Source: ftp://h/x", ErrorCode::BadUrl),
    (
        "COPY /data/n",
        "Source: http://h/x\nCredential: gridsite",
        ErrorCode::CredentialUnsupported,
    ),
    (
        "COPY /data/n",
        "Source: http://h/x\nX-Number-Of-Streams: 101",
        ErrorCode::BadRequest,
    ),
    ("GET /data/../x", "", ErrorCode::PathRefused),
    ("GET /data/a%2fb", "", ErrorCode::PathRefused),
    ("SEARCH /data/f", "", ErrorCode::NotImplemented),
    (
        "GET /data/f",
        "Transfer-Encoding: gzip, chunked",
        ErrorCode::NotImplemented,
    ),
    ("GET /data/f", "Transfer-Encoding: gzip", ErrorCode::BadRequest),
];

#[tokio::test]
async fn every_refusal_has_the_status_and_words_of_its_code() {
    let server = server().await;
    for (line, headers, code) in TABLE {
        let head = match headers.is_empty() {
            true => format!("{line}\n"),
            false => format!("{line}\n{headers}\n"),
        };
        let body: &[u8] = if line.starts_with("PUT") { b"content" } else { b"" };
        let answer = server.ask(&head, body).await;
        assert_eq!(answer.status, code.http_status(), "{line} {headers}: {answer:?}");
        if line.starts_with("HEAD") {
            continue;
        }
        let text = answer.text();
        let id = answer.header("X-Request-Id").unwrap();
        assert_eq!(answer.header("Content-Type"), Some("text/plain; charset=utf-8"));
        for part in [code.meaning(), code.for_client(), code.name(), id] {
            assert!(text.contains(part), "{line} {headers}: {part} is not in {text}");
        }
        if code.for_client().contains("the detail") {
            let sentence = text.lines().next().unwrap();
            let opened = format!("{} (", code.meaning());
            assert!(sentence.contains(&opened), "{line} {headers} has no detail: {sentence}");
        }
        let challenge = answer.header("WWW-Authenticate").unwrap_or_default();
        assert_eq!(
            answer.status == 401,
            challenge.starts_with("Bearer realm="),
            "{line}: {challenge}"
        );
        assert_eq!(code.refuses_token(), challenge.contains("invalid_token"), "{line}");
    }
    assert_eq!(server.ask("GET /data/f\n", b"").await.body, b"content");
    assert_eq!(server.ask("GET /data/d/x\n", b"").await.body, b"content");
    assert_eq!(server.ask("HEAD /data/n\n", b"").await.status, 404);
}

#[tokio::test]
async fn names_that_are_too_long_are_told_so() {
    let server = server().await;
    let long = format!("GET /data/{}\n", "x".repeat(300));
    assert_eq!(
        server.ask(&long, b"").await.status,
        ErrorCode::NameTooLong.http_status()
    );
}
