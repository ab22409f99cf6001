//! Bucket and key in a URL.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use types::{Error, ErrorCode, Location, Phase, Side, decode_percent};
use url::Url;

use crate::account::{Addressing, is_service};
use crate::limits::{BUCKET_BYTES_MAX, KEY_BYTES_MAX};

/// All but the unreserved characters of RFC 3986 and the slash, as Signature Version 4 has it.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// An object, a directory or a bucket at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The server, with scheme `http` or `https` and without a path.
    server: String,
    /// The name of the bucket; empty for the server itself.
    pub bucket: String,
    /// The key; empty for the bucket itself.
    pub key: String,
    addressing: Addressing,
}

impl Place {
    /// The place that a URL names. `is_encrypted` says whether the server is reached over TLS.
    ///
    /// # Errors
    /// `path_refused` for a key that no URL can express (`.` and `..` are resolved by clients and
    /// servers), `name_too_long`, `bad_url` for escapes that are none.
    pub fn of(location: &Location, addressing: Addressing) -> Result<Self, Error> {
        let refuse = |code, words: &str| Error::new(code, Side::Client, Phase::Open).with_detail(words);
        let path = decode_percent(location.path())
            .ok_or_else(|| refuse(ErrorCode::BadUrl, "the path is not percent-encoded UTF-8"))?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        let (bucket, key) = match addressing {
            Addressing::Path => path.split_once('/').unwrap_or((path, "")),
            Addressing::VirtualHost => (bucket_of(location.host()), path),
        };
        if bucket.len() > BUCKET_BYTES_MAX || key.len() > KEY_BYTES_MAX {
            return Err(refuse(ErrorCode::NameTooLong, "a key has at most 1024 bytes"));
        }
        if bucket == "." || key.split('/').chain([bucket]).any(|name| name == "." || name == "..") {
            return Err(refuse(
                ErrorCode::PathRefused,
                "a key in a URL may not have \".\" or \"..\" as a name",
            ));
        }
        if bucket.is_empty() && !key.is_empty() {
            return Err(refuse(ErrorCode::BadUrl, "the URL names no bucket"));
        }
        let scheme = if location.is_encrypted() { "https" } else { "http" };
        let port = match (scheme, location.port()) {
            ("http", 80) | ("https", 443) => String::new(),
            (_, port) => format!(":{port}"),
        };
        Ok(Self {
            server: format!("{scheme}://{}{port}", location.host()),
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            addressing,
        })
    }

    /// The bucket, or the server where the place has none.
    #[must_use]
    pub fn root(&self) -> Self {
        self.with_key("")
    }

    /// Another key in the same bucket.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self {
            key: key.to_owned(),
            ..self.clone()
        }
    }

    /// The prefix of everything below this place: nothing for a bucket, else a key that ends with a
    /// slash.
    #[must_use]
    pub fn prefix(&self) -> String {
        let key = self.key.trim_end_matches('/');
        match key.is_empty() {
            true => String::new(),
            false => format!("{key}/"),
        }
    }

    /// The same place in another region: Amazon has a host for each, other stores have one for all.
    #[must_use]
    pub fn in_region(&self, region: &str) -> Self {
        let server = match self.server.split_once(".amazonaws.com") {
            Some((front, rest)) => {
                let (scheme, front) = front.split_once("://").unwrap_or(("https", front));
                let bucket: Vec<&str> = front.split('.').take_while(|label| !is_service(label)).collect();
                let bucket = bucket.iter().map(|label| format!("{label}.")).collect::<String>();
                format!("{scheme}://{bucket}s3.{region}.amazonaws.com{rest}")
            }
            None => self.server.clone(),
        };
        Self { server, ..self.clone() }
    }

    /// The object as the source of a copy within its server (`x-amz-copy-source`).
    #[must_use]
    pub fn copy_source(&self) -> String {
        format!("/{}/{}", encoded(&self.bucket), encoded(&self.key))
    }

    /// Whether both are reached at the same server, so that it can copy from one to the other.
    #[must_use]
    pub fn shares_server(&self, other: &Self) -> bool {
        self.service() == other.service()
    }

    /// Its path in a URL, encoded.
    #[must_use]
    pub fn path(&self) -> String {
        match self.addressing {
            Addressing::Path if self.bucket.is_empty() => "/".to_owned(),
            Addressing::Path => format!("/{}/{}", encoded(&self.bucket), encoded(&self.key)),
            Addressing::VirtualHost => format!("/{}", encoded(&self.key)),
        }
    }

    /// Whether a key of the same bucket is that of this place, or below it.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        match key.strip_prefix(self.key.as_str()) {
            Some(rest) => self.key.is_empty() || self.key.ends_with('/') || rest.is_empty() || rest.starts_with('/'),
            None => false,
        }
    }

    /// The server, with scheme and without a path.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The server without the bucket, where that is a part of its name.
    fn service(&self) -> (&str, &str) {
        let (scheme, authority) = self.server.split_once("://").unwrap_or(("", &self.server));
        let front = match self.addressing {
            Addressing::Path => None,
            Addressing::VirtualHost => authority.strip_prefix(&*self.bucket),
        };
        (
            scheme,
            front.and_then(|rest| rest.strip_prefix('.')).unwrap_or(authority),
        )
    }

    /// Its URL, without a query.
    pub(crate) fn url(&self) -> Option<Url> {
        let path = self.path();
        Url::parse(&format!("{}{path}", self.server))
            .ok()
            .filter(|url| url.path() == path)
    }
}

/// The bucket in a host. Its name may have dots at Amazon, where a label names the service.
fn bucket_of(host: &str) -> &str {
    let at_amazon = host
        .split('.')
        .position(is_service)
        .filter(|_| host.contains(".amazonaws.com"));
    let labels = at_amazon.unwrap_or(1);
    let end = host
        .match_indices('.')
        .nth(labels.max(1) - 1)
        .map_or(host.len(), |(at, _)| at);
    &host[..end]
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str, addressing: Addressing) -> Result<Place, Error> {
        Place::of(&Location::parse(url).unwrap(), addressing)
    }

    #[test]
    fn keys_are_encoded_once() {
        let there = place("s3://h:8333/b/a%20b/c+d%2Be/%C3%A4", Addressing::Path).unwrap();
        assert_eq!((there.bucket.as_str(), there.key.as_str()), ("b", "a b/c+d+e/ä"));
        let url = there.url().unwrap().to_string();
        assert_eq!(url, "http://h:8333/b/a%20b/c%2Bd%2Be/%C3%A4");
        assert_eq!(there.prefix(), "a b/c+d+e/ä/");
        let doubled = place("s3://h/b/a%2520b//c/", Addressing::Path).unwrap();
        assert_eq!(doubled.key, "a%20b//c/");
        assert_eq!(doubled.url().unwrap().as_str(), "http://h/b/a%2520b//c/");
    }

    #[test]
    fn the_bucket_is_in_the_path_or_the_host() {
        let there = place("s3s://b.s3.amazonaws.com/k/l", Addressing::VirtualHost).unwrap();
        assert_eq!((there.bucket.as_str(), there.key.as_str()), ("b", "k/l"));
        assert_eq!(there.url().unwrap().as_str(), "https://b.s3.amazonaws.com/k/l");
        let dotted = place("s3s://b.c.s3.r-1.amazonaws.com/k", Addressing::VirtualHost).unwrap();
        assert_eq!((dotted.bucket.as_str(), dotted.key.as_str()), ("b.c", "k"));
        assert!(dotted.contains("k") && dotted.contains("k/l") && !dotted.contains("kl") && !dotted.contains("l"));
        let bucket = place("s3s://h/b", Addressing::Path).unwrap();
        assert_eq!((bucket.key.as_str(), bucket.prefix().as_str()), ("", ""));
        assert_eq!(bucket.url().unwrap().as_str(), "https://h/b/");
        let server = place("s3s://h", Addressing::Path).unwrap();
        assert_eq!(server.url().unwrap().as_str(), "https://h/");
    }

    #[test]
    fn copies_are_made_within_one_server() {
        let of = |url: &str| place(url, Addressing::Path).unwrap();
        let there = of("s3://h/b/a%20b/c+d");
        assert_eq!(there.copy_source(), "/b/a%20b/c%2Bd");
        assert!(there.shares_server(&of("s3://h/other/x")));
        assert!(!there.shares_server(&of("s3://h:81/b/x")) && !there.shares_server(&of("s3s://h/b/x")));
        let in_host = |url: &str| place(url, Addressing::VirtualHost).unwrap();
        assert!(in_host("s3s://a.s3.amazonaws.com/x").shares_server(&in_host("s3s://b.s3.amazonaws.com/x")));
    }

    #[test]
    fn amazon_has_a_host_for_each_region() {
        for (host, moved) in [
            ("s3.amazonaws.com/b", "s3.r-1.amazonaws.com/b"),
            ("s3-eu-west-1.amazonaws.com/b", "s3.r-1.amazonaws.com/b"),
            ("b.c.s3.eu-west-1.amazonaws.com", "b.c.s3.r-1.amazonaws.com"),
            ("s3.cern.ch/b", "s3.cern.ch/b"),
        ] {
            let url = Location::parse(&format!("s3s://{host}")).unwrap();
            let there = Place::of(&url, Addressing::usual(url.host())).unwrap().in_region("r-1");
            assert_eq!(there.url().unwrap().as_str(), format!("https://{moved}/"), "{host}");
        }
    }

    #[test]
    fn names_that_no_url_can_express_are_refused() {
        for url in ["s3://h/b/a/../c", "s3://h/b/.", "s3://h/b/%2E%2E/x", "s3://h/../b/x"] {
            assert_eq!(
                place(url, Addressing::Path).unwrap_err().code(),
                ErrorCode::PathRefused,
                "{url}"
            );
        }
        let long = format!("s3://h/b/{}", "x".repeat(KEY_BYTES_MAX + 1));
        assert_eq!(
            place(&long, Addressing::Path).unwrap_err().code(),
            ErrorCode::NameTooLong
        );
        assert_eq!(
            place("s3://h//x", Addressing::Path).unwrap_err().code(),
            ErrorCode::BadUrl
        );
        assert_eq!(
            place("s3://h/b/%ff", Addressing::Path).unwrap_err().code(),
            ErrorCode::BadUrl
        );
    }
}
