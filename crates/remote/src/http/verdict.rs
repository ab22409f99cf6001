//! What a refusal means: the one place where statuses and the words of servers become error codes.

use types::{Error, ErrorCode, PeerStatus, Phase, Side};

use crate::resource::{ADDRESS_REFUSED_WORDS, PATH_NOT_EXPORTED, Resource, says_delegation_expired, says_not_exported};

/// The code of a failure status.
pub(crate) fn code_of(status: u16) -> ErrorCode {
    match status {
        401 | 407 => ErrorCode::PeerDenied,
        403 => ErrorCode::PeerForbidden,
        404 | 410 => ErrorCode::PeerNotFound,
        405 | 501 => ErrorCode::PeerUnsupported,
        507 => ErrorCode::PeerNoSpace,
        _ => ErrorCode::PeerFailed,
    }
}

/// The error for a refusal, with the server's own words.
pub(crate) fn refusal(file: &Resource, code: ErrorCode, status: u16, words: &str) -> Error {
    let words = file.without_secrets(words);
    let has_expired = file.has_expired(status, &words);
    let code = if has_expired { ErrorCode::SignatureExpired } else { code };
    let phase = match code {
        ErrorCode::PeerDenied => Phase::Authenticate,
        ErrorCode::PeerForbidden | ErrorCode::SignatureExpired => Phase::Authorize,
        _ => Phase::Open,
    };
    let error = file
        .error(code, phase)
        .with_peer(Some(PeerStatus::Http(status)), &words);
    let error = match says_not_exported(&words) {
        true => error.with_detail(PATH_NOT_EXPORTED),
        false => error,
    };
    // Only the client that gave the URL can sign another one.
    if has_expired {
        error.at_side(Side::Client)
    } else {
        error
    }
}

/// How different servers phrase the same failures, in lower case. The first match counts.
const PHRASES: [(&str, ErrorCode); 27] = [
    (ADDRESS_REFUSED_WORDS, ErrorCode::PeerAddressRefused),
    // XRootD 6.2.
    ("local/private addresses", ErrorCode::PeerAddressRefused),
    ("checksum mismatch", ErrorCode::ChecksumMismatch),
    ("checksums do not match", ErrorCode::ChecksumMismatch),
    ("checksum do not match", ErrorCode::ChecksumMismatch),
    ("no such file", ErrorCode::PeerNotFound),
    ("not found", ErrorCode::PeerNotFound),
    ("no space left", ErrorCode::PeerNoSpace),
    ("quota exceeded", ErrorCode::PeerNoSpace),
    ("insufficient storage", ErrorCode::PeerNoSpace),
    ("file exists", ErrorCode::PeerExists),
    ("already exists", ErrorCode::PeerExists),
    ("unauthorized", ErrorCode::PeerDenied),
    ("authentication required", ErrorCode::PeerDenied),
    ("valid credential is needed", ErrorCode::PeerDenied),
    ("credential required", ErrorCode::PeerDenied),
    ("permission denied", ErrorCode::PeerForbidden),
    ("forbidden", ErrorCode::PeerForbidden),
    ("couldn't resolve host", ErrorCode::PeerUnresolved),
    ("could not resolve host", ErrorCode::PeerUnresolved),
    ("connection refused", ErrorCode::PeerUnreachable),
    ("no route to host", ErrorCode::PeerUnreachable),
    ("no bytes have been received", ErrorCode::PeerStalled),
    ("timed out", ErrorCode::PeerStalled),
    ("ssl certificate", ErrorCode::PeerTlsFailed),
    // libcurl.
    ("ssl peer certificate", ErrorCode::PeerTlsFailed),
    ("certificate verify failed", ErrorCode::PeerTlsFailed),
];

/// Whether a server refuses a file because it does not have the checksum that was declared.
pub(crate) fn says_checksum_differs(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    let differs = |(phrase, code): &(&str, ErrorCode)| *code == ErrorCode::ChecksumMismatch && words.contains(phrase);
    PHRASES.iter().any(differs)
}

/// What servers write before the status that the other side gave them.
const STATUS_MARKS: [&str; 7] = [
    "status code ",
    "rejected get: ",
    "rejected put: ",
    "rejected head: ",
    "the peer answered ",
    "returned http ",
    // XRootD 6.2.
    "remote host returned '",
];

/// The code of a failed copy, from the words of the active side.
pub(crate) fn code_of_words(words: &str) -> ErrorCode {
    if says_delegation_expired(words) {
        return ErrorCode::DelegationExpired;
    }
    if words.contains(ErrorCode::SignatureExpired.meaning()) {
        return ErrorCode::SignatureExpired;
    }
    if words.contains(ErrorCode::EndedByOperator.meaning()) {
        return ErrorCode::EndedByOperator;
    }
    let words = words.to_ascii_lowercase();
    let quoted = STATUS_MARKS.iter().find_map(|mark| {
        let behind = &words[words.find(mark)? + mark.len()..];
        behind.get(..3)?.parse::<u16>().ok()
    });
    let by_status = quoted.map(code_of).filter(|code| *code != ErrorCode::PeerFailed);
    let by_phrase = || {
        PHRASES
            .iter()
            .find(|(phrase, _)| words.contains(phrase))
            .map(|(_, code)| *code)
    };
    let by_our_words = || {
        let is_said = |code: &&ErrorCode| words.contains(&code.meaning().to_ascii_lowercase());
        let is_clear = |code: &&ErrorCode| code.name().starts_with("peer_") && **code != ErrorCode::PeerFailed;
        let of_peers = ErrorCode::ALL.iter().filter(is_clear);
        of_peers
            .filter(is_said)
            .max_by_key(|code| code.meaning().len())
            .copied()
    };
    by_status
        .or_else(by_our_words)
        .or_else(by_phrase)
        .unwrap_or(ErrorCode::PeerFailed)
}

/// The side at which a copy failed. Our servers name it in their first word. Others speak of the
/// remote side, which is not the active one.
pub(crate) fn side_of_words(words: &str, active: Side, other: Side) -> Side {
    let words = words.trim_start().to_ascii_lowercase();
    match words.split([' ', ':']).next() {
        Some("source") => return Side::Source,
        Some("destination") => return Side::Destination,
        Some("client") => return Side::Client,
        _ => {}
    }
    let speaks_of_other = [
        "remote side",
        "remote host returned",
        "rejected get",
        "rejected put",
        "rejected head",
        "source returned",
        "resolve host",
        "ssl peer certificate",
        "local/private addresses",
        // libcurl, when it has received less than was announced.
        "transferred a partial",
    ];
    if speaks_of_other.iter().any(|phrase| words.contains(phrase)) {
        other
    } else {
        active
    }
}

/// The phase in which a copy failed. Our servers name it in their second word.
pub(crate) fn phase_of_words(words: &str) -> Option<Phase> {
    let name = words.split_once(": ")?.0.rsplit(' ').next()?;
    Phase::ALL.into_iter().find(|phase| phase.name() == name)
}

/// An answer as plain words: the description in WebDAV's XML, roughly the text of HTML.
pub(crate) fn plain_words(body: &[u8], is_html: bool) -> String {
    let text = String::from_utf8_lossy(body);
    if let Some(words) = described(&text) {
        return on_one_line(&words);
    }
    if !is_html && !looks_like_html(&text) {
        return on_one_line(&text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut skipping: Option<&str> = None;
    for piece in text.split('<') {
        let (tag, rest) = piece.split_once('>').unwrap_or(("", piece));
        let name = tag
            .split([' ', '\t', '\r', '\n'])
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        match (skipping, name.as_str()) {
            (None, "style") => skipping = Some("/style"),
            (None, "script") => skipping = Some("/script"),
            (Some(end), name) if name == end => skipping = None,
            _ => {}
        }
        if skipping.is_none() {
            plain.push(' ');
            plain.push_str(rest);
        }
    }
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The description for people in WebDAV's XML (RFC 4918 §14.25).
fn described(text: &str) -> Option<String> {
    const ELEMENT: &str = "responsedescription>";
    let inner = &text[text.find(ELEMENT)? + ELEMENT.len()..];
    let mut words = inner[..inner.find('<')?].to_owned();
    // The ampersand comes last, so that it does not begin another reference.
    for (reference, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ] {
        words = words.replace(reference, character);
    }
    Some(words)
}

/// Joins lines with semicolons. An answer of our own servers keeps its first line and the request's
/// name, for `explain`; its other lines are advice for that server's client.
fn on_one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.as_slice() {
        [first, .., last] if last.starts_with('[') && last.contains("] ") => {
            let name = last.split("] ").nth(1).unwrap_or_default();
            format!("{first} (request {name})")
        }
        lines => lines.join("; "),
    }
}

fn looks_like_html(text: &str) -> bool {
    let start = text.trim_start().get(..14).unwrap_or_default().to_ascii_lowercase();
    start.starts_with("<html") || start.starts_with("<!doctype html") || start.starts_with("<?xml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_every_server_tell_code_and_side() {
        let cases = [
            (
                "source open: No such file or directory at the peer, https://a/f; the peer answered 404",
                ErrorCode::PeerNotFound,
                Side::Source,
            ),
            (
                "Remote side failed with status code 403; error message: \"no\"",
                ErrorCode::PeerForbidden,
                Side::Source,
            ),
            (
                "source authenticate: Permission denied: the delegated credential expired during the copy, https://a/f; \
                 the peer answered 403",
                ErrorCode::DelegationExpired,
                Side::Source,
            ),
            (
                "client authorize: The signed URL has expired, https://a/f; the peer answered 403: Request has expired",
                ErrorCode::SignatureExpired,
                Side::Client,
            ),
            (
                "destination transfer: Operation canceled by an operator",
                ErrorCode::EndedByOperator,
                Side::Destination,
            ),
            (
                "source authenticate: Permission denied by the peer: credential required, root://a//f",
                ErrorCode::PeerDenied,
                Side::Source,
            ),
            ("rejected GET: 404 Not Found", ErrorCode::PeerNotFound, Side::Source),
            (
                "Error when interacting with local filesystem: No space left on device",
                ErrorCode::PeerNoSpace,
                Side::Destination,
            ),
            ("Couldn't resolve host name", ErrorCode::PeerUnresolved, Side::Source),
            (
                "remote host returned '403 Forbidden' while fetching file size",
                ErrorCode::PeerForbidden,
                Side::Source,
            ),
            ("Transferred a partial file", ErrorCode::PeerFailed, Side::Source),
            (
                "source tls: Cannot set up a TLS connection to the peer (the certificate's issuer is not trusted here), \
                 https://a/f",
                ErrorCode::PeerTlsFailed,
                Side::Source,
            ),
            (
                "SSL peer certificate or SSH remote key was not OK",
                ErrorCode::PeerTlsFailed,
                Side::Source,
            ),
            (
                "connection to local/private addresses is forbidden",
                ErrorCode::PeerAddressRefused,
                Side::Source,
            ),
            ("something else", ErrorCode::PeerFailed, Side::Destination),
        ];
        for (words, code, side) in cases {
            assert_eq!(code_of_words(words), code, "{words}");
            assert_eq!(side_of_words(words, Side::Destination, Side::Source), side, "{words}");
        }
    }

    #[test]
    fn a_path_that_xrootd_does_not_export_is_told() {
        let file = Resource {
            location: types::Location::parse("http://a/x").unwrap(),
            access: crate::resource::Access::default(),
            side: Side::Source,
        };
        let detail = |words| refusal(&file, code_of(403), 403, words).detail().map(str::to_owned);
        let words = "Stating path &apos;/x&apos; is disallowed.";
        assert_eq!(detail(words).as_deref(), Some(PATH_NOT_EXPORTED));
        assert_eq!(detail("Unable to stat /x; permission denied"), None);
    }

    #[test]
    fn pages_become_plain_text() {
        let page =
            b"<html><head><title>404</title><style>p { x }</style></head>\n<body><p>Not <b>here</b></p></body></html>";
        assert_eq!(plain_words(page, true), "404 Not here");
        assert_eq!(plain_words(page, false), "404 Not here");
        assert_eq!(plain_words(b" a < b \n", false), "a < b");
        assert_eq!(plain_words(b"no\r\n\r\n  way\n", false), "no; way");
        let ours = b"client open: No such file or directory, /f\nCheck the path.\n[not_found] 1f2e\n";
        let words = "client open: No such file or directory, /f (request 1f2e)";
        assert_eq!(plain_words(ours, false), words);
        let locked = "<?xml version=\"1.0\"?>\n<D:error xmlns:D=\"DAV:\"><D:lock-token-submitted><D:href>/f</D:href>\
                      </D:lock-token-submitted><D:responsedescription>client open: Resource locked, /f&amp;lt;\nWait.\n\
                      [locked] 1f2e\n</D:responsedescription></D:error>";
        let words = "client open: Resource locked, /f&lt; (request 1f2e)";
        assert_eq!(plain_words(locked.as_bytes(), false), words);
    }
}
