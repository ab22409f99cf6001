//! Conditional requests (RFC 9110 §13): entity tags, dates, and the order in which they count.

use crate::date::parse_date;
use crate::head::{Method, RequestHead};
use crate::names::{IF_MATCH, IF_NONE_MATCH, IF_RANGE};

const IF_MODIFIED_SINCE: &str = "If-Modified-Since";
const IF_UNMODIFIED_SINCE: &str = "If-Unmodified-Since";

/// What a file is recognised by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validators<'a> {
    /// The strong entity tag with its quotes.
    pub etag: &'a str,
    /// Time of the last change, in seconds since the epoch.
    pub modified_s: i64,
}

/// What the conditions of a request come to (RFC 9110 §13.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Do what was asked.
    Proceed,
    /// The client's copy is still good; for GET and HEAD only.
    NotModified,
    /// A condition does not hold: do nothing.
    Failed,
}

impl RequestHead {
    /// Weighs all conditions against the file as it is now; `None` when there is no such file.
    #[must_use]
    pub fn check_conditions(&self, current: Option<Validators<'_>>) -> Verdict {
        let since = |name: &str| self.headers.get(name).and_then(parse_date);
        if self.headers.contains(IF_MATCH) {
            if !self.lists(IF_MATCH, current, true) {
                return Verdict::Failed;
            }
        } else if let (Some(limit), Some(current)) = (since(IF_UNMODIFIED_SINCE), current)
            && current.modified_s > limit
        {
            return Verdict::Failed;
        }
        let reads = matches!(self.method, Method::Get | Method::Head);
        if self.headers.contains(IF_NONE_MATCH) {
            if self.lists(IF_NONE_MATCH, current, false) {
                return if reads { Verdict::NotModified } else { Verdict::Failed };
            }
        } else if let (true, Some(limit), Some(current)) = (reads, since(IF_MODIFIED_SINCE), current)
            && current.modified_s <= limit
        {
            return Verdict::NotModified;
        }
        Verdict::Proceed
    }

    /// Whether the request may only create a file, never replace one: `If-None-Match: *`.
    #[must_use]
    pub fn must_not_exist(&self) -> bool {
        self.headers.all(IF_NONE_MATCH).any(|value| value == "*")
    }

    /// Whether the request carries any condition that [`RequestHead::check_conditions`] weighs.
    #[must_use]
    pub fn has_conditions(&self) -> bool {
        [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE]
            .iter()
            .any(|name| self.headers.contains(name))
    }

    /// Whether a range may be served (RFC 9110 §13.1.5): no `If-Range`, or one that names exactly
    /// this file. When false the whole file is the answer.
    #[must_use]
    pub fn range_still_valid(&self, current: Validators<'_>) -> bool {
        match self.headers.get(IF_RANGE) {
            None => true,
            Some(value) if value.starts_with(['"', 'W']) && !is_date(value) => value == current.etag,
            Some(value) => parse_date(value) == Some(current.modified_s),
        }
    }

    /// Whether the list of tags in a header names the current file; `*` names any that exists.
    fn lists(&self, name: &str, current: Option<Validators<'_>>, strong: bool) -> bool {
        let Some(current) = current else { return false };
        self.headers
            .all(name)
            .any(|value| value == "*" || tags(value).any(|(weak, tag)| tag == current.etag && !(weak && strong)))
    }
}

/// `Wed, …` is a date, `W/"…"` a weak tag.
fn is_date(value: &str) -> bool {
    parse_date(value).is_some()
}

/// The tags of a list with their quotes, and whether each is weak. A comma may stand in a tag.
fn tags(list: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let start = rest.find('"')?;
        let length = rest[start + 1..].find('"')? + 2;
        let weak = rest[..start].ends_with("W/");
        let tag = &rest[start..start + length];
        rest = &rest[start + length..];
        Some((weak, tag))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HeadLimits, parse_request};

    const CURRENT: Validators<'static> = Validators {
        etag: "\"a,b\"",
        modified_s: 1_795_287_684,
    };
    const SAME: &str = "Sat, 21 Nov 2026 19:01:24 GMT";
    const EARLIER: &str = "Sat, 21 Nov 2026 19:01:23 GMT";

    fn request(method: &str, lines: &str) -> RequestHead {
        let text = format!("{method} /f HTTP/1.1\r\nHost: h\r\n{lines}\r\n\r\n");
        parse_request(text.as_bytes(), &HeadLimits::default())
            .unwrap()
            .unwrap()
            .0
    }

    #[test]
    fn conditions_count_in_the_order_of_the_rfc() {
        let table = [
            ("GET", "X: y".to_owned(), Verdict::Proceed),
            (
                "GET",
                "If-None-Match: \"x\", W/\"a,b\"".to_owned(),
                Verdict::NotModified,
            ),
            ("PUT", "If-None-Match: \"a,b\"".to_owned(), Verdict::Failed),
            ("PUT", "If-None-Match: *".to_owned(), Verdict::Failed),
            (
                "GET",
                format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {SAME}"),
                Verdict::Proceed,
            ),
            ("GET", format!("If-Modified-Since: {SAME}"), Verdict::NotModified),
            ("GET", format!("If-Modified-Since: {EARLIER}"), Verdict::Proceed),
            ("PUT", format!("If-Modified-Since: {SAME}"), Verdict::Proceed),
            ("GET", "If-Match: \"a,b\"".to_owned(), Verdict::Proceed),
            ("GET", "If-Match: W/\"a,b\"".to_owned(), Verdict::Failed),
            ("GET", "If-Match: \"x\"".to_owned(), Verdict::Failed),
            ("DELETE", format!("If-Unmodified-Since: {EARLIER}"), Verdict::Failed),
            ("DELETE", format!("If-Unmodified-Since: {SAME}"), Verdict::Proceed),
        ];
        for (method, lines, verdict) in table {
            assert_eq!(
                request(method, &lines).check_conditions(Some(CURRENT)),
                verdict,
                "{method} {lines}"
            );
        }
    }

    #[test]
    fn a_missing_file_fails_if_match_and_passes_if_none_match() {
        assert_eq!(request("PUT", "If-Match: *").check_conditions(None), Verdict::Failed);
        assert_eq!(
            request("PUT", "If-None-Match: *").check_conditions(None),
            Verdict::Proceed
        );
        assert!(request("PUT", "If-None-Match: *").must_not_exist());
    }

    #[test]
    fn a_range_is_served_only_of_the_same_file() {
        for (value, valid) in [
            ("\"a,b\"", true),
            ("W/\"a,b\"", false),
            ("\"x\"", false),
            (SAME, true),
            (EARLIER, false),
            ("Wed, 01 Jan 2020 00:00:00 GMT", false),
        ] {
            assert_eq!(
                request("GET", &format!("If-Range: {value}")).range_still_valid(CURRENT),
                valid,
                "{value}"
            );
        }
    }
}
