//! Where a file is, as a user writes it: a URL, a local path, or `-`.

use std::fmt;

use crate::error::{Error, ErrorCode, Phase, Side};
use crate::limits::HOST_BYTES_MAX;
use crate::path::encode_path;

/// How a file is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP or WebDAV in clear text (`http`, `dav`).
    Http,
    /// HTTP or WebDAV over TLS (`https`, `davs`).
    Https,
    /// The XRootD protocol (`root`, `xroot`); the server may still require TLS.
    Root,
    /// The XRootD protocol over TLS (`roots`, `xroots`).
    Roots,
    /// A file of this machine (`file://`, or a bare path).
    File,
    /// Standard input or output, written `-`.
    Stdio,
    /// Amazon's S3 protocol in clear text (`s3`).
    S3,
    /// Amazon's S3 protocol over TLS (`s3s`).
    S3s,
}

/// A source or destination of a copy.
///
/// The path is kept as written, because it goes to the peer unchanged: percent-encoded in HTTP
/// URLs, plain in those of the XRootD protocol, which has no escapes. In XRootD URLs the path
/// begins after the slash that ends the host part, so it is usually written with two:
/// `root://host//data/file`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Location {
    scheme: Scheme,
    scheme_text: String,
    host: String,
    port: u16,
    path: String,
    query: Option<String>,
}

impl Location {
    /// Parses a URL with a known scheme, `-`, or a local path.
    ///
    /// # Errors
    /// `bad_url` when a URL does not parse, has an unknown scheme, or contains a user name or
    /// password, which would end up in logs.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text == "-" {
            return Ok(Self::local(Scheme::Stdio, "-"));
        }
        // `dir/a://b` is a local path: a scheme is letters, digits and `+-.` (RFC 3986 §3.1).
        let is_scheme = |scheme: &str| {
            scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                && scheme
                    .chars()
                    .all(|character| character.is_ascii_alphanumeric() || "+-.".contains(character))
        };
        // `file:/path` (RFC 8089 §2).
        let is_file = |text: &str| {
            text.split_once(":/")
                .is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("file"))
        };
        if is_file(text) && !text.contains("://") {
            return Self::parse_file(&text["file:".len()..]);
        }
        match text.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) {
            None => Ok(Self::local(Scheme::File, text)),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("file") => Self::parse_file(rest),
            Some((scheme, _)) => Self::parse_url(&scheme.to_ascii_lowercase(), text),
        }
    }

    fn parse_file(rest: &str) -> Result<Self, Error> {
        let raw = rest.strip_prefix("localhost").unwrap_or(rest);
        if !raw.starts_with('/') {
            return Err(bad_url("a file URL needs an absolute path: file:///path"));
        }
        let path = crate::path::decode_percent(raw)
            .ok_or_else(|| bad_url("the file URL is not valid percent-encoded UTF-8"))?;
        Ok(Self::local(Scheme::File, &path))
    }

    fn parse_url(scheme_text: &str, text: &str) -> Result<Self, Error> {
        let (scheme, default_port) = match scheme_text {
            "http" | "dav" => (Scheme::Http, 80),
            "https" | "davs" => (Scheme::Https, 443),
            "root" | "xroot" => (Scheme::Root, 1094),
            "roots" | "xroots" => (Scheme::Roots, 1094),
            "s3" => (Scheme::S3, 80),
            "s3s" => (Scheme::S3s, 443),
            other => return Err(bad_url(&format!("unknown scheme \"{other}\""))),
        };
        // The standard parser leaves some of them out, and fragments are not looked at.
        if text.chars().any(char::is_control) {
            return Err(bad_url("a URL may not contain control characters"));
        }
        let rest = &text[scheme_text.len() + 3..];
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if !authority
            .chars()
            .all(|character| character.is_ascii() || character.is_alphanumeric())
        {
            return Err(bad_url("the host has a character that belongs in no name"));
        }
        // The standard parser handles host and port; the path goes to the peer as written.
        let parsed = url::Url::parse(&format!("http://{authority}")).map_err(|cause| bad_url(&cause.to_string()))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(bad_url("a URL may not contain a user name or password"));
        }
        let host = match parsed.host() {
            // Each host has one spelling: an IPv4-mapped IPv6 address becomes the IPv4 address.
            Some(url::Host::Ipv6(address)) => match address.to_ipv4_mapped() {
                Some(address) => address.to_string(),
                None => format!("[{address}]"),
            },
            Some(host) if !host.to_string().is_empty() => host.to_string(),
            _ => return Err(bad_url("the URL has no host")),
        };
        if host.len() > HOST_BYTES_MAX {
            return Err(bad_url(&format!("the host has more than {HOST_BYTES_MAX} characters")));
        }
        // `url` hides its own default port 80, so look for a written `:80` in the text.
        let port = parsed
            .port()
            .unwrap_or(if authority.ends_with(":80") { 80 } else { default_port });
        let is_xrootd = matches!(scheme, Scheme::Root | Scheme::Roots);
        let mut tail = &rest[authority.len()..];
        if !is_xrootd {
            tail = tail.split('#').next().unwrap_or_default();
        }
        let (raw_path, query) = match tail.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (tail, None),
        };
        let (path, query) = if is_xrootd {
            (
                format!("/{}", raw_path.trim_start_matches('/')),
                query.map(str::to_owned),
            )
        } else {
            let path = if raw_path.is_empty() { "/" } else { raw_path };
            check_escapes(path)?;
            (escape_unsafe(path), query.map(escape_unsafe))
        };
        Ok(Self {
            scheme,
            scheme_text: scheme_text.to_owned(),
            host,
            port,
            path,
            query,
        })
    }

    fn local(scheme: Scheme, path: &str) -> Self {
        Self {
            scheme,
            scheme_text: "file".into(),
            host: String::new(),
            port: 0,
            path: path.to_owned(),
            query: None,
        }
    }

    /// The scheme.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Whether this is an HTTP or WebDAV URL.
    #[must_use]
    pub fn is_http(&self) -> bool {
        matches!(self.scheme, Scheme::Http | Scheme::Https)
    }

    /// Whether this is a URL of the XRootD protocol.
    #[must_use]
    pub fn is_xrootd(&self) -> bool {
        matches!(self.scheme, Scheme::Root | Scheme::Roots)
    }

    /// Whether this is a URL of the S3 protocol.
    #[must_use]
    pub fn is_s3(&self) -> bool {
        matches!(self.scheme, Scheme::S3 | Scheme::S3s)
    }

    /// Whether this is on a server.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        !matches!(self.scheme, Scheme::File | Scheme::Stdio)
    }

    /// Whether paths are percent-encoded.
    fn has_escapes(&self) -> bool {
        self.is_http() || self.is_s3()
    }

    /// Host name or address. An IPv6 address is in brackets; an IPv4-mapped one is in IPv4 form.
    /// Empty for local files.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// TCP port; 0 for local files.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `host` or `host:port`, as requests write it: without the default port.
    #[must_use]
    pub fn authority(&self) -> String {
        match (self.scheme, self.port) {
            (Scheme::Http | Scheme::S3, 80) | (Scheme::Https | Scheme::S3s, 443) => self.host.clone(),
            (Scheme::Root | Scheme::Roots, 1094) => self.host.clone(),
            _ => format!("{}:{}", self.host, self.port),
        }
    }

    /// The path: percent-encoded for HTTP and S3, plain for local files and the XRootD protocol.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The query without its question mark. It may contain a credential, so keep it out of logs.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// Path and query: the request target.
    #[must_use]
    pub fn target(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }

    /// The URL for a peer: with the scheme's common name (`https` for `davs`, `root` for `xroot`)
    /// and with its query.
    #[must_use]
    pub fn to_wire(&self) -> String {
        let scheme = self.wire_scheme();
        match self.scheme {
            Scheme::Root | Scheme::Roots => format!("{scheme}://{}/{}", self.authority(), self.target()),
            Scheme::File | Scheme::Stdio => self.path.clone(),
            _ => format!("{scheme}://{}{}", self.authority(), self.target()),
        }
    }

    /// The common name of the scheme, as in [`Location::to_wire`].
    #[must_use]
    pub fn wire_scheme(&self) -> &str {
        match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Root => "root",
            Scheme::Roots => "roots",
            Scheme::S3 => "s3",
            Scheme::S3s => "s3s",
            Scheme::File | Scheme::Stdio => &self.scheme_text,
        }
    }

    /// A path without escapes, as URLs of this scheme write it.
    #[must_use]
    pub fn escaped(&self, path: &str) -> String {
        match self.has_escapes() {
            true => encode_path(path),
            false => path.to_owned(),
        }
    }

    /// The same location with another path (in the form of [`Location::path`]) and no query.
    #[must_use]
    pub fn with_path(&self, path: &str) -> Self {
        Self {
            path: path.to_owned(),
            query: None,
            ..self.clone()
        }
    }

    /// The same place for clients of the other protocol, as a server has it that speaks HTTP and
    /// the XRootD protocol on one port: encrypted if this one is. `None` for other schemes.
    #[must_use]
    pub fn in_other_protocol(&self) -> Option<Self> {
        let (scheme, text) = match self.scheme {
            Scheme::Http => (Scheme::Root, "root"),
            Scheme::Https => (Scheme::Roots, "roots"),
            Scheme::Root => (Scheme::Http, "http"),
            Scheme::Roots => (Scheme::Https, "https"),
            Scheme::S3 | Scheme::S3s | Scheme::File | Scheme::Stdio => return None,
        };
        let path = match self.is_http() {
            true => crate::path::decode_percent(&self.path)?,
            false => crate::path::encode_path(&self.path),
        };
        Some(Self {
            scheme,
            scheme_text: text.to_owned(),
            path,
            query: None,
            ..self.clone()
        })
    }

    /// The same location on another port.
    #[must_use]
    pub fn with_port(&self, port: u16) -> Self {
        Self { port, ..self.clone() }
    }

    /// The URL of another target on the same server; path and query are in the form of
    /// [`Location::target`].
    #[must_use]
    pub fn wire_of(&self, target: &str) -> String {
        let base = self.with_path("").to_wire();
        format!("{}{target}", base.trim_end_matches('/'))
    }

    /// Whether the scheme requires TLS.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        matches!(self.scheme, Scheme::Https | Scheme::Roots | Scheme::S3s)
    }

    /// The location of `name` (not percent-encoded) below this one; keeps the query.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        Self {
            path: format!("{}/{}", self.path.trim_end_matches('/'), self.escaped(name)),
            ..self.clone()
        }
    }

    /// The last component of the path, percent-decoded for HTTP. Empty for the root.
    #[must_use]
    pub fn file_name(&self) -> String {
        let raw = self.path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if self.has_escapes() {
            crate::path::decode_percent(raw).unwrap_or(raw.to_owned())
        } else {
            raw.to_owned()
        }
    }

    /// Whether scheme, host and port are the same.
    #[must_use]
    pub fn same_origin(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.host.eq_ignore_ascii_case(&other.host) && self.port == other.port
    }

    /// The names that lead from this place down to another one of the same server, decoded; none if
    /// both are the same. Schemes do not matter, since one port has one name space. `None` if the
    /// other place is elsewhere.
    #[must_use]
    pub fn names_to(&self, other: &Self) -> Option<Vec<String>> {
        let is_same_server = self.host.eq_ignore_ascii_case(&other.host) && self.port == other.port;
        let are_remote = [self, other].iter().all(|place| place.is_remote());
        let (above, mut names) = (self.names(), other.names());
        let leads_there = are_remote && is_same_server && names.starts_with(&above);
        leads_there.then(|| names.split_off(above.len()))
    }

    /// The names on the path, decoded; servers ignore empty ones and `.`.
    fn names(&self) -> Vec<String> {
        let decoded = match self.has_escapes() {
            true => crate::path::decode_percent(&self.path),
            false => None,
        };
        let path = decoded.as_deref().unwrap_or(&self.path);
        let names = path.split('/').filter(|name| !matches!(*name, "" | "."));
        names.map(str::to_owned).collect()
    }

    /// Follows a `Location` header: an absolute URL, or a path on the same server (RFC 3986 §5.2).
    ///
    /// # Errors
    /// `bad_url` when it is neither.
    pub fn resolve(&self, reference: &str) -> Result<Self, Error> {
        if reference.contains("://") {
            return Self::parse(reference);
        }
        if let Some(rest) = reference.strip_prefix("//") {
            return Self::parse(&format!("{}://{rest}", self.scheme_text));
        }
        let path = if reference.starts_with('/') {
            reference.to_owned()
        } else {
            let directory = self.path.rfind('/').map_or("", |cut| &self.path[..cut]);
            format!("{directory}/{reference}")
        };
        Self::parse(&format!("{}://{}:{}{path}", self.scheme_text, self.host, self.port))
    }
}

/// For users and logs: leaves out the query, which may contain a token.
impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scheme {
            Scheme::File | Scheme::Stdio => formatter.write_str(&self.path),
            Scheme::Root | Scheme::Roots => {
                let authority = self.authority();
                write!(formatter, "{}://{authority}/{}", self.scheme_text, self.path)
            }
            _ => {
                let authority = self.authority();
                write!(formatter, "{}://{authority}{}", self.scheme_text, self.path)
            }
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Escapes spaces and other bytes that would break a request line; existing escapes stay.
fn escape_unsafe(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'}' | b'|') {
            escaped.push(byte as char);
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// Checks that each `%` of a path begins an escape (RFC 3986 §2.1) of a byte that a name can have.
/// XRootD takes any other for the end of the name, and so another file.
fn check_escapes(path: &str) -> Result<(), Error> {
    for (start, _) in path.match_indices('%') {
        let digits = path.as_bytes().get(start + 1..start + 3);
        match digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            Some(b"00") => return Err(bad_url("a name has no NUL byte (%00)")),
            Some(_) => {}
            None => {
                return Err(bad_url(
                    "a % in a path must be followed by two hexadecimal digits; write %25 for the character itself",
                ));
            }
        }
    }
    Ok(())
}

fn bad_url(why: &str) -> Error {
    Error::new(ErrorCode::BadUrl, Side::Client, Phase::Open).with_detail(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percent_sign_begins_an_escape_or_is_refused() {
        for path in ["50%", "a%zz", "%1", "%00", "new%00x", "%\u{e9}", "a%2"] {
            for scheme in ["http", "https", "davs", "s3", "s3s"] {
                let error = Location::parse(&format!("{scheme}://h/{path}")).unwrap_err();
                assert_eq!(error.code(), ErrorCode::BadUrl, "{path}");
                assert!(error.detail().is_some_and(|words| words.contains('%')), "{error}");
            }
        }
        for url in [
            "https://h/50%25",
            "https://h/a%2Fb%0a",
            "https://h/f?x=%zz",
            "root://h//50%",
        ] {
            assert!(Location::parse(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn dav_is_http_and_ports_default() {
        let place = Location::parse("davs://se.example.org/a/b?x=1").unwrap();
        assert_eq!(
            (place.scheme(), place.port(), place.path()),
            (Scheme::Https, 443, "/a/b")
        );
        assert_eq!(place.to_wire(), "https://se.example.org/a/b?x=1");
        assert_eq!(place.to_string(), "davs://se.example.org/a/b");
        assert_eq!(Location::parse("https://h:80/").unwrap().port(), 80);
        assert_eq!(Location::parse("http://[::1]:8080").unwrap().authority(), "[::1]:8080");
        assert_eq!(place.with_port(1).to_wire(), "https://se.example.org:1/a/b?x=1");
    }

    #[test]
    fn an_address_has_one_spelling() {
        for (written, host) in [
            ("[::ffff:127.0.0.1]", "127.0.0.1"),
            ("[::FFFF:7f00:1]", "127.0.0.1"),
            ("127.0.0.1", "127.0.0.1"),
            ("[2001:DB8:0::7]", "[2001:db8::7]"),
            ("[::1]", "[::1]"),
        ] {
            for scheme in ["root", "https"] {
                let place = Location::parse(&format!("{scheme}://{written}:99//f")).unwrap();
                assert_eq!(place.host(), host, "{written}");
                assert!(
                    place.to_string().starts_with(&format!("{scheme}://{host}:99/")),
                    "{place}"
                );
            }
        }
    }

    #[test]
    fn local_paths_are_distinguished_from_urls() {
        assert_eq!(Location::parse("-").unwrap().scheme(), Scheme::Stdio);
        assert_eq!(Location::parse("dir/file").unwrap().path(), "dir/file");
        assert_eq!(Location::parse("/data/x://y").unwrap().scheme(), Scheme::File);
        assert_eq!(Location::parse("file:///a%20b").unwrap().path(), "/a b");
        assert_eq!(Location::parse("file:/a%20b").unwrap().path(), "/a b");
        assert!(Location::parse("file://host/x").is_err());
    }

    #[test]
    fn bad_urls_are_refused_and_passwords_never_kept() {
        for bad in ["gopher://x/", "https://", "https://user:pass@host/", "https://h:99999/"] {
            assert_eq!(Location::parse(bad).unwrap_err().code(), ErrorCode::BadUrl, "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_seen_is_in_no_part_of_a_url() {
        for bad in [
            "http://ho\nst/p",
            "http://h\tost/p",
            "http://host\u{200b}/p",
            "http://host/p#\x1b[2J",
            "root://h\r//f",
        ] {
            assert_eq!(Location::parse(bad).unwrap_err().code(), ErrorCode::BadUrl, "{bad:?}");
        }
        let long = vec!["a"; 127].join(".");
        assert!(Location::parse(&format!("https://{long}/f")).is_ok());
        assert!(Location::parse(&format!("https://a{long}/f")).is_err());
        assert_eq!(
            Location::parse("https://bücher.example/é").unwrap().host(),
            "xn--bcher-kva.example"
        );
    }

    #[test]
    fn redirects_resolve_absolute_and_relative() {
        let base = Location::parse("https://h:8443/dir/file").unwrap();
        assert_eq!(base.resolve("http://d:1/x?t=1").unwrap().to_wire(), "http://d:1/x?t=1");
        assert_eq!(base.resolve("/y").unwrap().to_wire(), "https://h:8443/y");
        assert_eq!(base.resolve("z").unwrap().to_wire(), "https://h:8443/dir/z");
        assert_eq!(base.resolve("//k/q").unwrap().to_wire(), "https://k/q");
    }

    #[test]
    fn root_paths_are_plain_and_begin_with_one_slash() {
        for text in [
            "root://h//a b%/#1?x=1",
            "xroot://h:1094///a b%/#1?x=1",
            "root://h/a b%/#1?x=1",
        ] {
            let place = Location::parse(text).unwrap();
            assert!(place.is_xrootd() && !place.is_http());
            assert_eq!(
                (place.port(), place.path(), place.query()),
                (1094, "/a b%/#1", Some("x=1"))
            );
            assert_eq!(place.to_wire(), "root://h//a b%/#1?x=1");
            assert_eq!(place.file_name(), "#1");
        }
        let place = Location::parse("roots://h:2000//d").unwrap();
        assert_eq!(
            (place.scheme(), place.to_string().as_str()),
            (Scheme::Roots, "roots://h:2000//d")
        );
        assert_eq!(place.child("100%").to_wire(), "roots://h:2000//d/100%");
        assert_eq!(Location::parse("root://h").unwrap().path(), "/");
        assert!(Location::parse("root://user@h//f").is_err());
    }

    #[test]
    fn a_place_of_a_server_has_many_spellings() {
        let names = |first: &str, second: &str| {
            let [first, second] = [first, second].map(|text| Location::parse(text).unwrap());
            first.names_to(&second)
        };
        let none: Option<Vec<String>> = Some(Vec::new());
        assert_eq!(names("https://h/d/a%20b", "davs://H:443//d/./a b?x=1"), none);
        assert_eq!(names("root://h//d/%41", "roots://h//d/%41/"), none);
        assert_eq!(names("https://h:1094/d/%41", "root://h//d/A"), none);
        assert_eq!(names("https://h/", "https://h/d/e%2Ff").unwrap(), ["d", "e", "f"]);
        for (first, second) in [
            ("https://h/d", "https://h/de"),
            ("https://h/d/e", "https://h/d"),
            ("https://h/d", "https://i/d"),
            ("https://h/d", "https://h:8443/d"),
            ("root://h//%41", "root://h//A"),
            ("/d", "/d"),
        ] {
            assert_eq!(names(first, second), None, "{first} {second}");
        }
    }

    #[test]
    fn the_query_is_not_shown() {
        let place = Location::parse("https://h/f?authz=Bearer%20secret").unwrap();
        assert!(!format!("{place} {place:?}").contains("secret"));
    }
}
