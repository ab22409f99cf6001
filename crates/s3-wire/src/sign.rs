//! Signed URLs (Signature Version 4 in the query).
//!
//! The payload is never signed (`UNSIGNED-PAYLOAD`): over TLS it is protected by the connection,
//! and a second pass over it would cost more than all else. In clear text nothing protects it on
//! its way, as in HTTP without TLS.

use jiff::Timestamp;
use types::{Error, ErrorCode, Location, Phase, Side};

use crate::account::Account;
use crate::limits::LIFETIME_S_MAX;
use crate::part_sums::PartSum;
use crate::place::Place;

pub use rusty_s3::Method;

/// What is asked of a server. Names and values are not encoded.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The method for which the URL is good.
    pub method: Method,
    /// The query, in any order.
    pub query: &'a [(&'a str, &'a str)],
    /// Headers with names from [`crate::header`], which the request must have with these values, in
    /// any order.
    pub headers: &'a [(&'a str, &'a str)],
}

impl Request<'_> {
    /// A request without a query and without headers.
    #[must_use]
    pub fn plain(method: Method) -> Self {
        Self {
            method,
            query: &[],
            headers: &[],
        }
    }
}

/// The URL of a request, good for `lifetime_s` seconds from `now_s` (seconds since 1970). Without
/// an account it is not signed, as for public buckets. The query is a secret.
///
/// # Errors
/// `bad_url` for a place that no URL can name, or a time that no calendar has.
pub fn signed(
    account: Option<&Account>,
    region: &str,
    place: &Place,
    request: &Request<'_>,
    now_s: i64,
    lifetime_s: u64,
) -> Result<Location, Error> {
    let refuse = |words: &str| Error::new(ErrorCode::BadUrl, Side::Client, Phase::Open).with_detail(words);
    let mut url = place.url().ok_or_else(|| refuse("no URL can name this key"))?;
    let now = Timestamp::from_second(now_s).map_err(|_| refuse("the clock is wrong"))?;
    let mut query = request.query.to_vec();
    query.sort_unstable();
    let mut headers = request.headers.to_vec();
    headers.sort_unstable();
    let url = match account {
        Some(account) => rusty_s3::signing::sign(
            &now,
            request.method,
            url,
            &account.key_id,
            account.secret.expose(),
            account.token.as_ref().map(types::Secret::expose),
            region,
            lifetime_s.clamp(1, LIFETIME_S_MAX),
            query.into_iter(),
            headers.into_iter(),
        ),
        None => {
            if !query.is_empty() {
                url.query_pairs_mut().extend_pairs(query);
            }
            url
        }
    };
    Location::parse(url.as_str())
}

/// A part that is stored, as its upload is completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPart {
    /// Its entity tag with the quotes.
    pub etag: String,
    /// Its checksum, where the server keeps that of parts.
    pub sum: Option<PartSum>,
}

/// The body that completes an upload: its parts, in order from part 1.
#[must_use]
pub fn complete_body<'a>(parts: impl IntoIterator<Item = &'a StoredPart>) -> String {
    let mut body = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">".to_owned();
    for (number, part) in (1..).zip(parts) {
        let tag = quick_xml::escape::escape(&part.etag);
        let checksum = part.sum.as_ref().map_or(String::new(), |sum| {
            let element = sum.kind.element();
            format!("<{element}>{}</{element}>", sum.to_base64())
        });
        body.push_str(&format!(
            "<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag>{checksum}</Part>"
        ));
    }
    body.push_str("</CompleteMultipartUpload>");
    body
}

#[cfg(test)]
mod tests {
    use types::Secret;

    use super::*;
    use crate::account::Addressing;
    use crate::part_sums::SumKind;

    fn account(token: Option<&str>) -> Account {
        Account {
            key_id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            token: token.map(Secret::new),
            region: None,
            addressing: None,
        }
    }

    /// "Authenticating Requests: Using Query Parameters" of the Amazon S3 API reference.
    #[test]
    fn amazons_example_is_signed_as_there() {
        let url = Location::parse("s3s://examplebucket.s3.amazonaws.com/test.txt").unwrap();
        let place = Place::of(&url, Addressing::VirtualHost).unwrap();
        let request = Request::plain(Method::Get);
        let url = signed(
            Some(&account(None)),
            "us-east-1",
            &place,
            &request,
            1_369_353_600,
            86_400,
        )
        .unwrap();
        let query = url.query().unwrap();
        assert!(query.ends_with("X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"));
        assert!(
            query.contains("X-Amz-Expires=86400&X-Amz-SignedHeaders=host"),
            "{query}"
        );
        assert!(!url.to_string().contains("Signature"), "{url}");
    }

    #[test]
    fn queries_headers_and_tokens_are_part_of_the_signature() {
        let place = Place::of(&Location::parse("s3://h:1/b/k").unwrap(), Addressing::Path).unwrap();
        let request = Request {
            method: Method::Put,
            query: &[("uploadId", "a b/+"), ("partNumber", "2")],
            headers: &[
                ("x-amz-checksum-mode", "ENABLED"),
                ("x-amz-checksum-crc32c", "AAAAAA=="),
            ],
        };
        let url = signed(
            Some(&account(Some("t/k"))),
            "r",
            &place,
            &request,
            1_369_353_600,
            9_999_999,
        )
        .unwrap();
        let query = url.query().unwrap();
        assert!(query.contains("partNumber=2&uploadId=a%20b%2F%2B"), "{query}");
        assert!(query.contains("X-Amz-Security-Token=t%2Fk"), "{query}");
        assert!(
            query.contains("SignedHeaders=host%3Bx-amz-checksum-crc32c%3Bx-amz-checksum-mode"),
            "{query}"
        );
        assert!(query.contains("X-Amz-Expires=604800"), "{query}");
        assert_eq!(url.to_string(), "http://h:1/b/k");
        let public = signed(None, "r", &place, &request, 0, 1).unwrap();
        assert!(!public.query().unwrap().contains("X-Amz"));
    }

    #[test]
    fn the_list_of_parts_is_escaped() {
        let part = |etag: &str, sum| StoredPart {
            etag: etag.to_owned(),
            sum,
        };
        let sum = PartSum {
            kind: SumKind::Crc64Nvme,
            value: 1,
        };
        let body = complete_body(&[part("\"a\"", None), part("<", Some(sum))]);
        assert!(
            body.contains("</ETag></Part><Part><PartNumber>2</PartNumber><ETag>&lt;</ETag>"),
            "{body}"
        );
        assert!(
            body.contains("<ChecksumCRC64NVME>AAAAAAAAAAE=</ChecksumCRC64NVME></Part>"),
            "{body}"
        );
    }
}
