//! Targets for the decoders of `http-wire`.

use http_wire::limits::{IF_CONDITIONS_MAX, LOCK_OWNER_BYTES_MAX, MARKER_LINE_BYTES_MAX};
use http_wire::webdav::{
    ActiveLock, DeadProperties, Entry, EntryPath, Href, LastPropfind, MultistatusParser, MultistatusWriter,
    PropertyChange, Quota, RemoteEntry, lock_answer, lock_discovery, parse_lock, parse_multistatus, parse_propfind,
    parse_proppatch, proppatch_answer,
};
use http_wire::{
    BodyDecoder, CopyProgress, CopyRequest, Framing, HeadLimits, LastHeaders, MarkerParser, Multipart,
    MultipartDecoder, MultipartPiece, Outcome, Ranges, RequestHead, ResourceState, State, parse_next_request,
    parse_request, parse_response,
};
use types::limits::{PROPPATCH_BODY_BYTES_MAX, RANGE_COUNT_MAX};
use types::{ByteRange, Error, ErrorCode, LogicalPath, Secret};

/// Pieces of heads.
pub(crate) const HEAD_WORDS: &[&str] = &[
    "GET ",
    "PUT ",
    "PROPFIND ",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/1.1 200 OK\r\n",
    "\r\n",
    "\n",
    "\r",
    " ",
    "\t",
    ":",
    "Host: a\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 05\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Expect: 100-continue\r\n",
    "http://a/",
    "*",
    "/",
    "%2e",
    "\0",
    "\u{80}",
];

/// Pieces of chunked bodies.
pub(crate) const CHUNK_WORDS: &[&str] = &[
    "0\r\n\r\n",
    "\r\n",
    "\n",
    "5\r\nhello\r\n",
    ";a=b",
    "FFFFFFFFFFFFFFFF",
    "0",
    "0\r\nA: b\r\n\r\n",
    "-1",
    "+",
    " ",
    "0x",
];

/// Bytes behind a head do not change it, and a head that was accepted states its framing or is
/// refused.
pub(crate) fn request_head(data: &[u8]) {
    let limits = HeadLimits::default();
    let Ok(Some((head, consumed))) = parse_request(data, &limits) else {
        return;
    };
    assert!(consumed <= data.len());
    let alone = parse_request(&data[..consumed], &limits).expect("accepted with more bytes behind it");
    assert_eq!(alone.map(|(_, consumed)| consumed), Some(consumed));
    let cut = parse_request(&data[..consumed - 1], &limits).expect("the beginning of a good head is no error");
    assert!(cut.is_none(), "a head ends at its empty line, not before");
    known_again(data, consumed);
    let framing = head.framing();
    assert!(
        !matches!(framing, Ok(Framing::UntilClose)),
        "a request's body never ends with the connection"
    );
}

/// A connection that has seen the head makes of its header lines behind another first line (what
/// stands behind the head) what it would have made of them without.
fn known_again(data: &[u8], consumed: usize) {
    let limits = HeadLimits::default();
    let mut last = LastHeaders::default();
    let (head, rest) = data.split_at(consumed);
    parse_next_request(head, &limits, &mut last).expect("accepted before");
    let cut = |bytes: &[u8]| {
        bytes
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(bytes.len(), |at| at + 1)
    };
    let first_line = head.iter().take_while(|byte| b"\r\n".contains(byte)).count();
    let lines = &head[first_line + cut(&head[first_line..])..];
    let (line, behind) = rest.split_at(cut(rest));
    let next = [line, lines, behind].concat();
    let told = |parsed: Result<Option<(RequestHead, usize)>, Error>| {
        let parsed = parsed.map_err(|error| error.code())?;
        Ok::<_, ErrorCode>(parsed.map(|(head, used)| {
            let fields: Vec<_> = head
                .headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}"))
                .collect();
            (
                head.method,
                head.target.text(),
                head.target.authority,
                head.version,
                fields,
                used,
            )
        }))
    };
    assert_eq!(
        told(parse_next_request(&next, &limits, &mut last)),
        told(parse_request(&next, &limits))
    );
}

/// The same for answers.
pub(crate) fn response_head(data: &[u8]) {
    let limits = HeadLimits::default();
    let Ok(Some((head, consumed))) = parse_response(data, &limits) else {
        return;
    };
    assert!(consumed <= data.len());
    assert!((100..=999).contains(&head.status));
    let alone = parse_response(&data[..consumed], &limits).expect("accepted with more bytes behind it");
    assert_eq!(alone.map(|(_, consumed)| consumed), Some(consumed));
}

/// How the bytes arrive does not change the body. The first byte of the input says how they are
/// cut.
pub(crate) fn body_chunked(data: &[u8]) {
    let Some((cut, body)) = data.split_first() else { return };
    let piece_bytes = usize::from(*cut % 16) + 1;
    assert_eq!(
        decode(body, body.len().max(1)),
        decode(body, piece_bytes),
        "pieces of {piece_bytes}"
    );
}

/// What a decoder makes of a body, or `None` when it refuses it.
#[derive(Debug, PartialEq, Eq)]
struct Body {
    payload: Vec<u8>,
    /// Where the body ended; `None` when more should come.
    end: Option<usize>,
}

fn decode(body: &[u8], piece_bytes: usize) -> Option<Body> {
    let mut decoder = BodyDecoder::new(Framing::Chunked);
    let mut payload = Vec::new();
    let mut position = 0;
    for piece in body.chunks(piece_bytes) {
        let mut rest = piece;
        while !rest.is_empty() && !decoder.is_done() {
            let step = decoder.decode(rest).ok()?;
            assert!(step.consumed > 0, "no progress with {} bytes", rest.len());
            assert!(step.payload.end <= step.consumed && step.consumed <= rest.len());
            payload.extend_from_slice(&rest[step.payload]);
            rest = &rest[step.consumed..];
            position += step.consumed;
        }
    }
    Some(Body {
        payload,
        end: decoder.is_done().then_some(position),
    })
}

/// Pieces of Range values.
pub(crate) const RANGE_WORDS: &[&str] = &[
    "bytes=",
    "0-0",
    "-5",
    "5-",
    "0-",
    ",",
    "18446744073709551615",
    "99999999999999999999999",
    "bytes",
    " ",
];

/// Pieces of answers with many ranges.
pub(crate) const MULTIPART_WORDS: &[&str] = &[
    "\r\n--b\r\n",
    "--b--",
    "Content-Range: bytes 0-3/9\r\n\r\nabcd",
    "Content-Range: bytes */9\r\n\r\n",
    "Content-Type: text/plain\r\n",
    "bytes 0-18446744073709551614/*",
    "\n\n",
];

/// How the bytes arrive does not change the parts, and no part has more bytes than it announced.
/// The first byte of the input says how they are cut.
pub(crate) fn multipart(data: &[u8]) {
    let Some((cut, body)) = data.split_first() else { return };
    let piece_bytes = usize::from(*cut % 16) + 1;
    assert_eq!(parts_of(body, body.len().max(1)), parts_of(body, piece_bytes));
}

/// The bytes of the file that a part holds.
type Part = (ByteRange, Vec<u8>);

/// What a decoder makes of a body, and whether it found its end; `None` when it refuses it.
fn parts_of(body: &[u8], piece_bytes: usize) -> Option<(Vec<Part>, bool)> {
    let mut decoder = MultipartDecoder::new("b");
    let mut parts: Vec<Part> = Vec::new();
    for mut piece in body.chunks(piece_bytes) {
        while let Some(found) = decoder.next(&mut piece).ok()? {
            match (found, parts.last_mut()) {
                (MultipartPiece::Part(range), _) => parts.push((range, Vec::new())),
                (MultipartPiece::Data(data), Some((range, held))) => {
                    held.extend_from_slice(data);
                    assert!(!data.is_empty() && held.len() as u64 <= range.len());
                }
                (MultipartPiece::Data(_), None) => panic!("data of no part"),
            }
        }
        assert!(piece.is_empty());
    }
    Some((parts, decoder.is_done()))
}

/// Pieces of digest headers.
pub(crate) const DIGEST_WORDS: &[&str] = &[
    "Digest: ",
    "Repr-Digest: ",
    "Content-Digest: ",
    "Content-MD5: ",
    "Want-Digest: ",
    "Want-Repr-Digest: ",
    "adler32=",
    "adler=:38qE0g==:",
    "md5=",
    "sha-256=",
    "crc32c=",
    ";q=0.5",
    "=10",
    ",",
    "38qE0g==",
    "dfca84d2",
    "3975f0d8c4e1ecb25f035edfb1ba27ac",
    "\r\n",
];

/// Pieces of COPY requests.
pub(crate) const COPY_WORDS: &[&str] = &[
    "Source: https://a/b\r\n",
    "Destination: davs://a/b\r\n",
    "Destination: /b\r\n",
    "TransferHeader",
    "TransferHeaderAuthorization: Bearer x\r\n",
    "Copy-Header: A: b\r\n",
    "Credential: none\r\n",
    "Credential: gridsite\r\n",
    "X-Number-Of-Streams: 3\r\n",
    "Overwrite: F\r\n",
    "RequireChecksumVerification: true\r\n",
    "Repr-Digest: adler=:38qE0g==:\r\n",
    "SciTag: 66\r\n",
    "TransferHeaderHost: a\r\n",
    "s3://",
    "\r\n",
];

/// Pieces of performance-marker streams.
pub(crate) const MARKER_WORDS: &[&str] = &[
    "Perf Marker\n",
    "    Timestamp: 5\n",
    "Stripe Index: 1\n",
    "Stripe Bytes Transferred: 18446744073709551615\n",
    "Total Stripe Count: 2\n",
    "RemoteConnections: tcp:[::1]:1,tcp:127.0.0.1:2\n",
    "End\n",
    "success: Created",
    "Success",
    "failure: x",
    "failed",
    "aborted: y\n",
    "\r\n",
    "\n",
];

/// Pieces of WebDAV's XML.
pub(crate) const XML_WORDS: &[&str] = &[
    "<propfind xmlns=\"DAV:\">",
    "</propfind>",
    "<prop>",
    "</prop>",
    "<allprop/>",
    "<propname/>",
    "<getetag/>",
    "<propertyupdate xmlns=\"DAV:\" xml:lang=\"en\">",
    "</propertyupdate>",
    "<set>",
    "</set>",
    "<remove>",
    "</remove>",
    "<x:a xmlns:x=\"urn:x\" b='1'>",
    "</x:a>",
    "<![CDATA[<]]>",
    "<D:multistatus xmlns:D=\"DAV:\">",
    "</D:multistatus>",
    "<D:response>",
    "</D:response>",
    "<D:href>/a%20b</D:href>",
    "<D:propstat>",
    "</D:propstat>",
    "<D:prop>",
    "</D:prop>",
    "<D:resourcetype><D:collection/></D:resourcetype>",
    "<D:status>HTTP/1.1 200 OK</D:status>",
    "<D:getcontentlength>5</D:getcontentlength>",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<!DOCTYPE a [",
    "&amp;",
    "&#x41;",
    "&evil;",
    "<?xml version=\"1.0\"?>",
];

/// A request of `method` with these header lines, when they make one.
fn head_with(method: &str, lines: &[u8]) -> Option<RequestHead> {
    let mut text = format!("{method} /f HTTP/1.1\r\nHost: h\r\n").into_bytes();
    text.extend_from_slice(lines);
    text.extend_from_slice(b"\r\n\r\n");
    Some(parse_request(&text, &HeadLimits::default()).ok()??.0)
}

/// Every part lies in the file and is not empty, and a multipart body is as long as was said. The
/// first eight bytes are the size of the file.
pub(crate) fn ranges(data: &[u8]) {
    let Some((size, value)) = data.split_first_chunk::<8>() else {
        return;
    };
    let size_bytes = u64::from_le_bytes(*size) >> 8;
    let Some(head) = head_with("GET", &[b"Range: ", value].concat()) else {
        return;
    };
    let Ranges::Parts(parts) = head.ranges(size_bytes) else {
        return;
    };
    assert!((1..=RANGE_COUNT_MAX).contains(&parts.len()));
    assert!(parts.iter().all(|part| !part.is_empty() && part.end <= size_bytes));
    let multipart = Multipart::new("boundary", size_bytes);
    let total: u64 = parts.iter().map(|part| part.len()).sum();
    assert!(parts.len() == 1 || u128::from(total) <= 2 * u128::from(size_bytes));
    assert!(multipart.length(&parts) > total);
}

/// The two sides read the same checksums out of the same headers, each of its algorithm's length.
pub(crate) fn digest_headers(data: &[u8]) {
    let Some(head) = head_with("PUT", data) else { return };
    for algorithms in [head.want_digest(), head.want_repr_digest()] {
        assert!(
            algorithms
                .iter()
                .all(|algorithm| algorithms.iter().filter(|other| *other == algorithm).count() == 1)
        );
    }
    let answer = [b"HTTP/1.1 200 OK\r\n", data, b"\r\n\r\n"].concat();
    let answered = parse_response(&answer, &HeadLimits::default()).ok().flatten();
    if let (Ok(declared), Some((answered, _))) = (head.declared_digests(), answered)
        && head.check_whole().is_ok()
    {
        for algorithm in declared.iter().map(types::Checksum::algorithm) {
            assert!(
                answered.digest(algorithm).is_some(),
                "{algorithm} is seen by one side only"
            );
        }
    }
}

/// Nothing that is forwarded can change the connection or end its line.
pub(crate) fn copy_request(data: &[u8]) {
    let Some(head) = head_with("COPY", data) else { return };
    let Ok(request) = CopyRequest::parse(&head) else { return };
    for (name, value) in request.forwarded.iter() {
        let value: &Secret = value;
        assert!(!value.expose().contains(['\r', '\n', '\0']));
        for reserved in [
            "host",
            "content-length",
            "transfer-encoding",
            "connection",
            "range",
            "expect",
            "te",
        ] {
            assert!(!name.eq_ignore_ascii_case(reserved), "{name}");
        }
    }
    assert!(request.streams.is_none_or(|count| (1..=100).contains(&count)));
}

/// How the bytes arrive does not change what is read. The first byte of the input says how they are
/// cut.
pub(crate) fn markers(data: &[u8]) {
    let Some((cut, body)) = data.split_first() else { return };
    let read = |piece_bytes: usize| -> (CopyProgress, Option<Outcome>) {
        let mut parser = MarkerParser::new();
        for piece in body.chunks(piece_bytes) {
            parser.feed(piece);
        }
        (parser.progress().clone(), parser.finish())
    };
    let (progress, outcome) = read(body.len().max(1));
    assert_eq!(
        (&progress, &outcome),
        (&read(usize::from(*cut % 16) + 1).0, &read(usize::from(*cut % 16) + 1).1)
    );
    if let Some(outcome) = outcome {
        let line = outcome.to_line();
        assert!(line.len() <= MARKER_LINE_BYTES_MAX && line.find('\n') == Some(line.len() - 1));
    }
}

/// What was asked for can be answered, and the answer read; one that comes again is understood as
/// before.
pub(crate) fn propfind(data: &[u8]) {
    let (front, behind) = data.split_at(data.len() / 2);
    let mut last = LastPropfind::default();
    for body in [front, data, front, data, behind, data, data] {
        assert_eq!(last.parse(body).ok().as_deref(), parse_propfind(body).ok().as_ref());
    }
    let Ok(request) = parse_propfind(data) else { return };
    let path = LogicalPath::parse("/a b/<&>").expect("a good path");
    let directory = Href::of(&LogicalPath::parse("/a b").expect("a good path"));
    let entry = Entry {
        place: EntryPath::At(&path),
        is_directory: data.len().is_multiple_of(2),
        size_bytes: 5,
        modified_s: 0,
        created_s: None,
        etag: Some("\"e\""),
        quota: Some(Quota {
            used_bytes: 1,
            available_bytes: 2,
        }),
        checksums: &[],
        locks: Some(""),
        dead: None,
    };
    let mut writer = MultistatusWriter::new(&request);
    for place in [entry.place, EntryPath::In(&directory, "<&>")] {
        let mut out = Vec::new();
        writer.begin(&mut out);
        writer.entry(&mut out, &Entry { place, ..entry });
        writer.end(&mut out);
        let entries = parse_multistatus(&out).expect("our own listing");
        assert_eq!(
            entries.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(),
            [path.as_str()]
        );
    }
}

/// Pieces of `If` headers.
pub(crate) const STATE_WORDS: &[&str] = &[
    "(<urn:uuid:1>)",
    "</f> ",
    "<http://h/f> ",
    "Not ",
    "<DAV:no-lock>",
    "[\"e\"]",
    "[W/\"e\"]",
    "(",
    ")",
    " ",
];

/// An accepted header has few conditions, and none is empty. A list that denies all states holds
/// where there is none, and no other does.
pub(crate) fn state_conditions(data: &[u8]) {
    let lines = [b"If: ", data].concat();
    let Some(head) = head_with("PUT", &lines) else { return };
    let Ok(Some(conditions)) = head.state_conditions() else {
        return;
    };
    let all = || conditions.lists.iter().flat_map(|list| &list.conditions);
    assert!((1..=IF_CONDITIONS_MAX).contains(&all().count()));
    for list in &conditions.lists {
        let denies = list.conditions.iter().all(|condition| condition.negated);
        assert!(!list.conditions.is_empty() && list.holds(&ResourceState::default()) == denies);
    }
    for condition in all() {
        match &condition.state {
            State::Token(token) => assert!(!token.is_empty() && !token.contains(['<', '>', ' '])),
            State::Tag(tag) => assert!(tag.len() >= 2 && tag.starts_with('"') && tag.ends_with('"')),
        }
    }
    let tokens = all().filter(|condition| matches!(condition.state, State::Token(_)));
    assert_eq!(conditions.tokens().count(), tokens.count());
}

/// Pieces of LOCK bodies.
pub(crate) const LOCK_WORDS: &[&str] = &[
    "<lockinfo xmlns=\"DAV:\">",
    "</lockinfo>",
    "<lockscope><exclusive/></lockscope>",
    "<lockscope><shared/></lockscope>",
    "<locktype><write/></locktype>",
    "<owner>",
    "</owner>",
    "<a:b xmlns:a=\"urn:x\"/>",
    "<![CDATA[<]]>",
    "&lt;",
    "&#x41;",
    "<!DOCTYPE a [",
];

/// A client's words about its user are shown to others as well-formed XML: a lock requested again
/// with them has the same.
pub(crate) fn lock(data: &[u8]) {
    let Ok(request) = parse_lock(data) else { return };
    assert!(request.owner.len() <= LOCK_OWNER_BYTES_MAX);
    let root = LogicalPath::parse("/a b/<&>").expect("a good path");
    let told = lock_answer(&lock_discovery([ActiveLock {
        root: &root,
        is_deep: true,
        is_shared: request.is_shared,
        owner: &request.owner,
        timeout_s: 1,
        token: "urn:uuid:1",
    }]));
    assert!(told.contains(&request.owner));
    let scope = if request.is_shared { "shared" } else { "exclusive" };
    let again = format!(
        "<D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:{scope}/></D:lockscope><D:locktype><D:write/></D:locktype>\
         <D:owner>{}</D:owner></D:lockinfo>",
        request.owner
    );
    assert_eq!(parse_lock(again.as_bytes()).ok(), Some(request));
}

/// What clients set is stored, read again, and shown in a listing that is well-formed; setting what
/// is shown changes nothing.
pub(crate) fn proppatch(data: &[u8]) {
    let Ok(changes) = parse_proppatch(data) else { return };
    let mut properties = DeadProperties::default();
    let done: Vec<bool> = changes.iter().map(|change| properties.change(change)).collect();
    let path = LogicalPath::parse("/a b/<&>").expect("a good path");
    let outcomes = changes.iter().zip(&done);
    let outcomes: Vec<_> = outcomes
        .map(|(change, done)| (change.name(), if *done { 200 } else { 507 }))
        .collect();
    parse_multistatus(proppatch_answer(&path, false, &outcomes).as_bytes()).expect("our own answer");
    if !done.iter().all(|done| *done) {
        return;
    }
    assert_eq!(DeadProperties::decode(&properties.encode()), properties);
    for change in &changes {
        let PropertyChange::Set { element, .. } = change else {
            continue;
        };
        let again =
            format!("<D:propertyupdate xmlns:D=\"DAV:\"><D:set><D:prop>{element}</D:prop></D:set></D:propertyupdate>");
        let Ok(again) = parse_proppatch(again.as_bytes()) else {
            assert!(again.len() > PROPPATCH_BODY_BYTES_MAX, "{again}");
            continue;
        };
        assert_eq!(again[0].name(), change.name());
    }
}

/// How the bytes arrive does not change the listing. The first byte of the input says how they are
/// cut.
pub(crate) fn multistatus(data: &[u8]) {
    let Some((cut, body)) = data.split_first() else { return };
    let read = |piece_bytes: usize| -> Option<Vec<RemoteEntry>> {
        let mut parser = MultistatusParser::new();
        let mut entries = Vec::new();
        for piece in body.chunks(piece_bytes) {
            entries.extend(parser.feed(piece).ok()?);
        }
        parser.finish().ok()?;
        Some(entries)
    };
    let whole = read(body.len().max(1));
    assert_eq!(whole, read(usize::from(*cut % 16) + 1));
    for entry in whole.unwrap_or_default() {
        assert!(
            entry.path.starts_with('/') && (entry.path == "/" || !entry.path.ends_with('/')),
            "{entry:?}"
        );
    }
}
