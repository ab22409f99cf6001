//! URLs with a signature in their query (presigned URLs). Each allows one method on one file until
//! it expires, and is a credential as a whole.
//!
//! Sources: "Authenticating Requests: Using Query Parameters" and "Signing and Authenticating REST
//! Requests" (Amazon S3, versions 4 and 2), "V4 signing process" (Google Cloud Storage), "Create a
//! service SAS" (Azure Storage).

use crate::location::Location;

/// What one PUT can store at Amazon and servers like it: 5 GiB.
const AWS_PUT_BYTES_MAX: u64 = 5 << 30;
/// The same at Azure, for `Put Blob`: 5000 MiB.
const AZURE_PUT_BYTES_MAX: u64 = 5000 << 20;

/// The kind of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// Amazon S3, version 4 or 2.
    Aws,
    /// Google Cloud Storage.
    Google,
    /// A shared access signature of Azure Storage.
    Azure,
}

/// The signature of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrlSignature {
    /// Its kind.
    pub signer: Signer,
    /// When it expires, in seconds since 1970; `None` if the URL does not say.
    pub expires_s: Option<i64>,
}

impl UrlSignature {
    /// The most that one PUT can store, in bytes; `None` without a limit.
    #[must_use]
    pub fn put_bytes_max(self) -> Option<u64> {
        match self.signer {
            Signer::Aws => Some(AWS_PUT_BYTES_MAX),
            Signer::Azure => Some(AZURE_PUT_BYTES_MAX),
            Signer::Google => None,
        }
    }

    /// Whether it has expired at this time (seconds since 1970).
    #[must_use]
    pub fn is_expired_at(self, now_s: i64) -> bool {
        self.expires_s.is_some_and(|end| now_s >= end)
    }
}

impl Location {
    /// The signature in the query of an HTTP URL. Its server takes this URL for one method, and
    /// refuses requests with a further credential.
    #[must_use]
    pub fn signature(&self) -> Option<UrlSignature> {
        let value = |name: &str| self.parameter(name);
        let lasting = |date: &str, lifetime: &str| {
            let begin = value(date).and_then(seconds_of)?;
            begin.checked_add(value(lifetime)?.parse().ok()?)
        };
        let by_number = || value("Expires")?.parse().ok();
        let (signer, expires_s) = if value("X-Amz-Signature").is_some() {
            (Signer::Aws, lasting("X-Amz-Date", "X-Amz-Expires"))
        } else if value("X-Goog-Signature").is_some() {
            (Signer::Google, lasting("X-Goog-Date", "X-Goog-Expires"))
        } else if value("AWSAccessKeyId").and(value("Signature")).is_some() {
            (Signer::Aws, by_number())
        } else if value("GoogleAccessId").and(value("Signature")).is_some() {
            (Signer::Google, by_number())
        } else if value("sig").and(value("sv")).is_some() {
            (Signer::Azure, value("se").and_then(seconds_of))
        } else {
            return None;
        };
        Some(UrlSignature { signer, expires_s })
    }

    /// Whether both URLs have the same signature.
    #[must_use]
    pub fn shares_signature(&self, other: &Self) -> bool {
        let text = |place: &Self| {
            let names = ["X-Amz-Signature", "X-Goog-Signature", "Signature", "sig"];
            names.iter().find_map(|name| place.parameter(name).map(str::to_owned))
        };
        self.signature().is_some() && text(self) == text(other)
    }

    /// A parameter of the query of an HTTP URL, if it has a value.
    fn parameter(&self, name: &str) -> Option<&str> {
        let query = self.query().filter(|_| self.is_http())?;
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let mut found = pairs.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value).filter(|value| !value.is_empty())
    }
}

/// A time in UTC as ISO 8601 writes it, with or without separators, as seconds since 1970:
/// `20261127T090959Z`, `2026-11-27T09:09:59.5Z`, `2026-11-27T09:09Z`, `2026-11-27`. Escaped colons
/// are colons.
fn seconds_of(text: &str) -> Option<i64> {
    let plain = text.replace("%3A", ":").replace("%3a", ":");
    let (date, time) = plain.split_once('T').unwrap_or((&plain, "000000Z"));
    let time = time.strip_suffix('Z')?;
    let digits = |text: &str| {
        let whole = text.split('.').next().unwrap_or_default();
        let digits: String = whole.chars().filter(|character| !"-:".contains(*character)).collect();
        digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(digits)
    };
    let (date, mut time) = (digits(date)?, digits(time)?);
    if time.len() == 4 {
        time.push_str("00");
    }
    if date.len() != 8 || time.len() != 6 {
        return None;
    }
    let number = |text: &str| text.parse::<i64>().ok();
    let (year, month, day) = (number(&date[..4])?, number(&date[4..6])?, number(&date[6..])?);
    let (hour, minute, second) = (number(&time[..2])?, number(&time[2..4])?, number(&time[4..])?);
    let is_valid = year >= 1970 && (1..=12).contains(&month) && (1..=31).contains(&day);
    let is_time = hour < 24 && minute < 60 && second <= 60;
    (is_valid && is_time).then(|| days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, counted in years that begin in March.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(query: &str) -> Option<UrlSignature> {
        Location::parse(&format!("https://h/bucket/key?{query}"))
            .unwrap()
            .signature()
    }

    #[test]
    fn signatures_of_all_kinds_are_seen_with_their_ends() {
        let end = 1_795_770_599;
        for (query, signer, expires_s) in [
            (
                "X-Amz-Signature=0a&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20261127T080959Z&X-Amz-Expires=3600",
                Signer::Aws,
                Some(end),
            ),
            (
                "x-amz-signature=0a&x-amz-date=20261127T080959Z&x-amz-expires=3600",
                Signer::Aws,
                Some(end),
            ),
            (
                "AWSAccessKeyId=a&Signature=b%3D&Expires=1795770599",
                Signer::Aws,
                Some(end),
            ),
            (
                "GoogleAccessId=a&Signature=b&Expires=1795770599",
                Signer::Google,
                Some(end),
            ),
            (
                "X-Goog-Signature=0a&X-Goog-Date=20261127T080959Z&X-Goog-Expires=3600",
                Signer::Google,
                Some(end),
            ),
            (
                "sv=2022-11-02&sr=b&sp=r&se=2026-11-27T09%3A09%3A59Z&sig=b",
                Signer::Azure,
                Some(end),
            ),
            ("sig=b&se=2026-11-27T09:09Z&sv=2", Signer::Azure, Some(end - 59)),
            ("sig=b&se=2026-11-27&sv=2", Signer::Azure, Some(1_795_737_600)),
            (
                "X-Amz-Signature=0a&X-Amz-Date=20261327T080959Z&X-Amz-Expires=3600",
                Signer::Aws,
                None,
            ),
            (
                "X-Amz-Signature=0a&X-Amz-Date=20261127T080959Z&X-Amz-Expires=9223372036854775807",
                Signer::Aws,
                None,
            ),
            ("X-Amz-Signature=0a&X-Amz-Date=é&X-Amz-Expires=1", Signer::Aws, None),
        ] {
            assert_eq!(signature(query), Some(UrlSignature { signer, expires_s }), "{query}");
        }
        let known = signature("sig=b&se=2026-11-27&sv=2").unwrap();
        assert!(known.is_expired_at(1_795_737_600) && !known.is_expired_at(1_795_737_599));
    }

    #[test]
    fn other_queries_are_no_signatures() {
        for query in [
            "authz=Bearer%20x",
            "X-Amz-Signature=",
            "Signature=a",
            "AWSAccessKeyId=a",
            "sig=a",
            "sv=a",
            "a=X-Amz-Signature=b",
        ] {
            assert_eq!(signature(query), None, "{query}");
        }
        assert_eq!(Location::parse("root://h//f?sig=a&sv=b").unwrap().signature(), None);
        assert_eq!(Location::parse("/f?sig=a&sv=b").unwrap().signature(), None);
    }

    #[test]
    fn days_are_counted_over_leap_years() {
        for (date, days) in [
            ((1970, 1, 1), 0),
            ((1970, 12, 31), 364),
            ((1972, 2, 29), 789),
            ((2000, 3, 1), 11_017),
            ((2026, 11, 27), 20_784),
            ((2100, 3, 1), 47_541),
        ] {
            assert_eq!(days_since_1970(date.0, date.1, date.2), days, "{date:?}");
        }
    }
}
