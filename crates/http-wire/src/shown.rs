//! Heads of requests and answers as a trace shows them: without credentials, and without queries of
//! URLs, which may be credentials, too.

use crate::headers::Headers;

/// Headers that are shown whole.
const WHOLE: [&str; 31] = [
    "accept",
    "accept-encoding",
    "accept-ranges",
    "allow",
    "connection",
    "content-length",
    "content-range",
    "content-type",
    "credential",
    "date",
    "dav",
    "depth",
    "digest",
    "etag",
    "expect",
    "host",
    "if-match",
    "if-none-match",
    "last-modified",
    "overwrite",
    "range",
    "repr-digest",
    "requirechecksumverification",
    "retry-after",
    "scitag",
    "server",
    "transfer-encoding",
    "user-agent",
    "want-digest",
    "want-repr-digest",
    "x-number-of-streams",
];
/// Headers with a URL.
const URLS: [&str; 4] = ["content-location", "destination", "location", "source"];

/// The header lines of a request.
#[must_use]
pub fn shown_request(head: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(head);
    let fields = text.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| shown(name, value.trim())).collect()
}

/// The header lines of an answer.
#[must_use]
pub fn shown_answer(headers: &Headers) -> Vec<String> {
    headers.iter().map(|(name, value)| shown(name, value)).collect()
}

/// A header line. What is not known to be harmless has no value.
fn shown(name: &str, value: &str) -> String {
    let known = name.to_ascii_lowercase();
    let value = match known.as_str() {
        known if WHOLE.contains(&known) => value,
        known if URLS.contains(&known) && !has_user(value) => value.split(['?', '#']).next().unwrap_or_default(),
        _ => "…",
    };
    format!("{name}: {value}")
}

/// Whether a URL names a user, perhaps with a password.
fn has_user(url: &str) -> bool {
    let host = url.split_once("//").map_or("", |(_, rest)| rest);
    host.split(['/', '?', '#'])
        .next()
        .is_some_and(|host| host.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_credential_is_shown() {
        let head = b"COPY /f?authz=SECRET HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer SECRET\r\n\
            TransferHeaderAuthorization: Bearer SECRET\r\nSource: https://b/f?X-Amz-Signature=SECRET\r\n\
            Destination: https://u:SECRET@c/f\r\nX-Other: SECRET\r\nCookie:SECRET\r\n\r\n";
        let expected = [
            "Host: a",
            "Authorization: …",
            "TransferHeaderAuthorization: …",
            "Source: https://b/f",
            "Destination: …",
            "X-Other: …",
            "Cookie: …",
        ];
        assert_eq!(shown_request(head), expected);
        let mut headers = Headers::new();
        headers.append("Location", "https://d/f@1#SECRET");
        headers.append("Set-Cookie", "SECRET");
        headers.append("ETag", "\"1\"");
        assert_eq!(
            shown_answer(&headers),
            ["Location: https://d/f@1", "Set-Cookie: …", "ETag: \"1\""]
        );
    }
}
