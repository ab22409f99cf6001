//! What a request says to a cache on its way (RFC 9111 §5.2.1).

use std::time::Duration;

use crate::head::RequestHead;
use crate::names::CACHE_CONTROL;

/// The directives of a request that a cache in front of files can follow. Others are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheDirectives {
    /// Only stored bytes are wanted: 504 if they are not stored (`only-if-cached`).
    pub only_if_cached: bool,
    /// How long ago the origin may have been asked at most (`max-age`); zero for `no-cache`.
    pub max_age: Option<Duration>,
}

impl RequestHead {
    /// The directives of `Cache-Control`. An age that is no number counts as zero, and of several
    /// the smallest.
    #[must_use]
    pub fn cache_directives(&self) -> CacheDirectives {
        let mut directives = CacheDirectives::default();
        for element in self.headers.elements(CACHE_CONTROL) {
            let (name, value) = element.split_once('=').unwrap_or((element, ""));
            let name = name.trim_end();
            let age = if name.eq_ignore_ascii_case("max-age") {
                seconds(value)
            } else if name.eq_ignore_ascii_case("no-cache") {
                Duration::ZERO
            } else {
                directives.only_if_cached |= name.eq_ignore_ascii_case("only-if-cached");
                continue;
            };
            directives.max_age = Some(directives.max_age.map_or(age, |before| before.min(age)));
        }
        directives
    }
}

/// A number of seconds; one that is too large is the largest (RFC 9111 §1.2.2).
fn seconds(value: &str) -> Duration {
    let digits = value.trim().trim_matches('"');
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match is_number {
        true => Duration::from_secs(digits.parse().unwrap_or(u64::MAX)),
        false => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HeadLimits, parse_request};

    fn directives(fields: &str) -> CacheDirectives {
        let text = format!("GET /f HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let (head, _) = parse_request(text.as_bytes(), &HeadLimits::default()).unwrap().unwrap();
        head.cache_directives()
    }

    fn with(only_if_cached: bool, max_age_s: Option<u64>) -> CacheDirectives {
        CacheDirectives {
            only_if_cached,
            max_age: max_age_s.map(Duration::from_secs),
        }
    }

    #[test]
    fn the_strictest_directive_counts() {
        for (fields, wanted) in [
            ("", with(false, None)),
            ("Cache-Control: no-store, no-transform\r\n", with(false, None)),
            ("Cache-Control: Only-If-Cached\r\n", with(true, None)),
            ("Cache-Control: no-cache\r\n", with(false, Some(0))),
            ("cache-control: max-age=60 , only-if-cached\r\n", with(true, Some(60))),
            ("Cache-Control: max-age=\"7\"\r\n", with(false, Some(7))),
            (
                "Cache-Control: max-age=9\r\nCache-Control: max-age=5\r\n",
                with(false, Some(5)),
            ),
            ("Cache-Control: max-age=5, no-cache\r\n", with(false, Some(0))),
            ("Cache-Control: max-age=-5\r\n", with(false, Some(0))),
            ("Cache-Control: max-age\r\n", with(false, Some(0))),
            (
                "Cache-Control: max-age=99999999999999999999999\r\n",
                with(false, Some(u64::MAX)),
            ),
        ] {
            assert_eq!(directives(fields), wanted, "{fields:?}");
        }
    }
}
