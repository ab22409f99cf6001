//! A forwarding proxy: the paths in which clients name a host, and the hosts that it may ask.

use crate::error::{Error, ErrorCode, Phase, Side};
use crate::location::{Location, Scheme};
use crate::path::{LogicalPath, decode_percent};

/// The first component of such a path, and the scheme that it means (XRootD 6, `XrdPssUtils.cc`).
const PROTOCOLS: [(&str, &str); 6] = [
    ("root:", "root"),
    ("roots:", "roots"),
    ("http:", "http"),
    ("https:", "https"),
    ("xroot:", "root"),
    ("xroots:", "roots"),
];
/// Further ones that proxies of XRootD know.
const OTHER_PROTOCOLS: [&str; 2] = ["pelican:", "s3:"];
/// A proxy behind this one could be sent to any host, or back here.
const SECOND_HOST: &str = "the path names a second host";

/// A path that names a host: `/root:/host:port/path`, as both doors read `//root://host:port//path`
/// (XRootD 6, `XrdPss.cc`, `P2OUT`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedPath {
    /// The server, without a path.
    pub server: Location,
    /// The path there.
    pub inner: LogicalPath,
}

impl ForwardedPath {
    /// Reads such a path, relative to the export.
    ///
    /// # Errors
    /// `path_refused`: it names no host, or one that is not written plainly, or a second
    /// one.
    pub fn parse(path: &LogicalPath) -> Result<Self, Error> {
        let refused = |words: &str| {
            let error = Error::new(ErrorCode::PathRefused, Side::Client, Phase::Open);
            error.with_detail(words).with_subject(path)
        };
        let no_host = || refused("the path names no host; write it as //root://HOST:PORT//PATH");
        let mut names = path.components();
        let word = names.next().ok_or_else(no_host)?;
        let scheme = PROTOCOLS.iter().find(|(known, _)| *known == word);
        let (_, scheme) = scheme.ok_or_else(no_host)?;
        let authority = names.next().ok_or_else(no_host)?;
        let server = is_plain(authority).then(|| Location::parse(&format!("{scheme}://{authority}/")).ok());
        let server = server
            .flatten()
            .filter(|server| server.port() != 0)
            .ok_or_else(|| refused("the host in the path is not valid"))?;
        let mut inner = LogicalPath::root();
        for name in names {
            if is_protocol(name) {
                return Err(refused(SECOND_HOST));
            }
            inner = inner.join(name)?;
        }
        Ok(Self { server, inner })
    }

    /// Whether a path is above all hosts: `/` and `/root:`, for instance.
    #[must_use]
    pub fn is_above(path: &LogicalPath) -> bool {
        let mut names = path.components();
        names
            .next()
            .is_none_or(|word| PROTOCOLS.iter().any(|(known, _)| *known == word))
            && names.next().is_none()
    }

    /// The same path as it is always written: the host in lower case, and its port. Rules and
    /// scopes of tokens are about this one.
    #[must_use]
    pub fn canonical(&self) -> LogicalPath {
        let scheme = format!("{}:", self.server.wire_scheme());
        let base = LogicalPath::root().join(&scheme);
        let base = base.and_then(|base| base.join(&host_and_port(&self.server)));
        // Both were components of a path before.
        base.map_or_else(|_| LogicalPath::root(), |base| self.inner.under(&base))
    }
}

/// The host and port of a server, also if it is the default one.
fn host_and_port(server: &Location) -> String {
    format!("{}:{}", server.host(), server.port())
}

fn is_protocol(name: &str) -> bool {
    PROTOCOLS.iter().any(|(known, _)| *known == name) || OTHER_PROTOCOLS.contains(&name)
}

/// Whether a host is written without user names, escapes and letters that look like others.
fn is_plain(authority: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    authority.bytes().all(is_plain)
}

/// The ports of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ports {
    /// The default one of the protocol.
    Default,
    One(u16),
    Any,
}

/// One host, or all hosts of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// The host; of a domain what follows the star, with its dot.
    host: String,
    is_domain: bool,
    ports: Ports,
}

/// The hosts that a forwarding proxy may ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedHosts(Vec<Entry>);

impl AllowedHosts {
    /// Reads entries: `disk.example.org` (the default port of each protocol),
    /// `disk.example.org:1095`, `disk.example.org:*` (any port), and the same with a domain,
    /// `*.example.org`.
    ///
    /// # Errors
    /// The first wrong entry and what is wrong with it, for its author.
    pub fn parse<S: AsRef<str>>(entries: &[S]) -> Result<Self, String> {
        let read = entries.iter().map(|text| {
            let text = text.as_ref();
            Entry::parse(text).map_err(|words| format!("\"{text}\": {words}"))
        });
        read.collect::<Result<_, _>>().map(Self)
    }

    /// Whether a server may be asked.
    #[must_use]
    pub fn allows(&self, server: &Location) -> bool {
        self.0.iter().any(|entry| entry.is_for(server))
    }

    /// Whether a server may be asked, and an entry names its host and not only its domain.
    #[must_use]
    pub fn names(&self, server: &Location) -> bool {
        self.0.iter().any(|entry| !entry.is_domain && entry.is_for(server))
    }

    /// Whether an entry names an address, or `localhost`, and this is the server. A name is no
    /// address: others decide what it leads to.
    #[must_use]
    pub fn names_address(&self, server: &Location) -> bool {
        Self::is_address(server.host()) && self.names(server)
    }

    /// Whether a host is an address, or the name of all loopback addresses (RFC 6761 §6.3).
    #[must_use]
    pub fn is_address(host: &str) -> bool {
        host == "localhost" || host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok()
    }

    /// The hosts that are listed by name or address.
    pub fn names_of_hosts(&self) -> impl Iterator<Item = &str> {
        let hosts = self.0.iter().filter(|entry| !entry.is_domain);
        hosts.map(|entry| entry.host.as_str())
    }

    /// The domains that are listed, with a dot before each.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        let domains = self.0.iter().filter(|entry| entry.is_domain);
        domains.map(|entry| entry.host.as_str())
    }

    /// Refuses a place that may not be asked.
    ///
    /// # Errors
    /// `host_not_allowed`; `path_refused` if its path names a second host.
    pub fn check(&self, place: &Location) -> Result<(), Error> {
        let refused = |code| Error::new(code, Side::Active, Phase::Open);
        if !self.allows(place) {
            return Err(refused(ErrorCode::HostNotAllowed).with_detail(host_and_port(place)));
        }
        let path = decode_percent(place.path()).unwrap_or_default();
        match path.split('/').any(is_protocol) {
            true => Err(refused(ErrorCode::PathRefused).with_detail(SECOND_HOST)),
            false => Ok(()),
        }
    }
}

impl Entry {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, ports) = match text.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((name, "*")) => (name, Ports::Any),
            Some((name, port)) => {
                let port = port.parse().ok().filter(|port| *port != 0);
                (
                    name,
                    Ports::One(port.ok_or("the port is not a number up to 65535, or *")?),
                )
            }
            None => (text, Ports::Default),
        };
        let bare = name.strip_prefix("*.");
        let is_domain = bare.is_some();
        let bare = bare.unwrap_or(name).to_ascii_lowercase();
        let wanted = "not a host such as \"disk.example.org\", \"disk.example.org:1095\" or \"*.example.org\"";
        let read = Location::parse(&format!("https://{bare}/"))
            .ok()
            .filter(|_| is_plain(&bare));
        let is_bad = |host: &str| host.ends_with('.') || (is_domain && AllowedHosts::is_address(host));
        let host = read
            .as_ref()
            .map(Location::host)
            .filter(|host| !is_bad(host))
            .ok_or(wanted)?;
        if host != bare {
            return Err(format!("write it as \"{host}\""));
        }
        Ok(Self {
            host: if is_domain { format!(".{bare}") } else { bare },
            is_domain,
            ports,
        })
    }

    fn is_for(&self, server: &Location) -> bool {
        let host = server.host();
        let is_host = match self.is_domain {
            true => host.len() > self.host.len() && host.ends_with(&self.host) && !AllowedHosts::is_address(host),
            false => host == self.host,
        };
        is_host
            && match self.ports {
                Ports::Any => true,
                Ports::One(port) => port == server.port(),
                Ports::Default => default_port(server.scheme()) == Some(server.port()),
            }
    }
}

fn default_port(scheme: Scheme) -> Option<u16> {
    match scheme {
        Scheme::Http => Some(80),
        Scheme::Https => Some(443),
        Scheme::Root | Scheme::Roots => Some(1094),
        Scheme::S3 | Scheme::S3s | Scheme::File | Scheme::Stdio => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> LogicalPath {
        LogicalPath::parse_url_path(text).unwrap()
    }

    fn canonical(text: &str) -> String {
        let named = ForwardedPath::parse(&path(text)).unwrap();
        assert_eq!(ForwardedPath::parse(&named.canonical()).unwrap(), named, "{text}");
        named.canonical().to_string()
    }

    #[test]
    fn each_spelling_of_a_host_becomes_one() {
        for (spelling, expected) in [
            (
                "//root://disk.example.org:1094//data/f",
                "/root:/disk.example.org:1094/data/f",
            ),
            ("/root:/disk.example.org/data/f", "/root:/disk.example.org:1094/data/f"),
            ("/xroot://DISK.Example.org:01094//f", "/root:/disk.example.org:1094/f"),
            ("/xroots://a/f", "/roots:/a:1094/f"),
            ("/https://a/f", "/https:/a:443/f"),
            ("/http://a:8080", "/http:/a:8080"),
            ("/root://[::FFFF:127.0.0.1]//f", "/root:/127.0.0.1:1094/f"),
            ("/root://0x7f.1//f", "/root:/127.0.0.1:1094/f"),
            ("/root://2130706433//f", "/root:/127.0.0.1:1094/f"),
            ("/root://[0:0::1]:1095//f", "/root:/[::1]:1095/f"),
            ("/root://%6cocalhost//f", "/root:/localhost:1094/f"),
        ] {
            assert_eq!(canonical(spelling), expected, "{spelling}");
        }
    }

    #[test]
    fn what_could_mean_another_host_is_refused() {
        for bad in [
            "/",
            "/root:",
            "/data/f",
            "/file://localhost/etc/passwd",
            "/ROOT://a//f",
            "/s3://a/f",
            "/root://user@a//f",
            "/root://a:1094@b//f",
            "/root://%256cocalhost//f",
            "/root://a%3Fb//f",
            "/root://a%23b//f",
            "/root://a b//f",
            "/root://a:0//f",
            "/root://a:99999//f",
            "/root://:1094//f",
            "/root://b\u{f6}se//f",
            "/root://a//root://b//f",
            "/root://a//deep/xroot://b//f",
            "/root://a//pelican://b//f",
        ] {
            let refused = ForwardedPath::parse(&path(bad)).unwrap_err();
            assert_eq!(refused.code(), ErrorCode::PathRefused, "{bad}");
        }
    }

    fn hosts() -> AllowedHosts {
        let entries = [
            "localhost:1095",
            "Disk.example.org",
            "*.cern.ch:1094",
            "*.pool.example:*",
            "[::1]:1094",
            "10.0.0.1",
        ];
        AllowedHosts::parse(&entries).unwrap()
    }

    #[test]
    fn what_is_listed_is_allowed_and_nothing_that_looks_like_it() {
        let allows = |url: &str| hosts().allows(&Location::parse(url).unwrap());
        for good in [
            "root://localhost:1095//f",
            "https://disk.example.org/f",
            "roots://disk.example.org//f",
            "root://DISK.example.org//f",
            "root://a.b.cern.ch//f",
            "https://eos.cern.ch:1094/f",
            "https://n1.pool.example:23456/f",
            "root://[::1]//f",
        ] {
            assert!(allows(good), "{good}");
        }
        for bad in [
            "root://localhost//f",
            "root://127.0.0.1:1095//f",
            "https://disk.example.org:8443/f",
            "https://disk.example.org.evil/f",
            "https://disk.example.org./f",
            "root://cern.ch//f",
            "root://evilcern.ch//f",
            "https://eos.cern.ch/f",
            "s3s://disk.example.org/f",
        ] {
            assert!(!allows(bad), "{bad}");
            let refused = hosts().check(&Location::parse(bad).unwrap()).unwrap_err();
            assert_eq!(refused.code(), ErrorCode::HostNotAllowed, "{bad}");
        }
        let nested = Location::parse("https://disk.example.org/x/root%3A/a/f").unwrap();
        assert_eq!(hosts().check(&nested).unwrap_err().code(), ErrorCode::PathRefused);
    }

    #[test]
    fn only_an_entry_that_is_an_address_names_one() {
        let hosts = hosts();
        let named = |url: &str| {
            let server = Location::parse(url).unwrap();
            (hosts.names(&server), hosts.names_address(&server))
        };
        assert_eq!(named("root://localhost:1095//f"), (true, true));
        assert_eq!(named("root://[::1]//f"), (true, true));
        assert_eq!(named("root://10.0.0.1//f"), (true, true));
        assert_eq!(named("root://disk.example.org//f"), (true, false));
        assert_eq!(named("root://a.cern.ch//f"), (false, false));
    }

    #[test]
    fn entries_that_mean_no_host_are_refused() {
        for (bad, words) in [
            ("*", "not a host"),
            ("*.", "not a host"),
            ("a*", "not a host"),
            ("", "not a host"),
            ("*.0.0.1", "not a host"),
            ("disk/x", "not a host"),
            ("https://disk", "the port"),
            ("user@disk", "not a host"),
            ("disk.", "not a host"),
            ("disk:99999", "the port"),
            ("disk:0", "the port"),
            ("0x7f.1", "write it as \"127.0.0.1\""),
            ("::1", "not a host"),
            ("[::ffff:127.0.0.1]", "write it as \"127.0.0.1\""),
        ] {
            let told = AllowedHosts::parse(&[bad]).unwrap_err();
            assert!(told.contains(words) && told.contains(bad), "{bad}: {told}");
        }
    }
}
