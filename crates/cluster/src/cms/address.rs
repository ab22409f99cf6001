//! Where a manager is.

use std::fmt;

/// Host and port of a manager.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ManagerAddress {
    /// A name, or an address; IPv6 in brackets.
    pub host: String,
    /// The port of its `cmsd`.
    pub port: u16,
}

impl ManagerAddress {
    /// Reads `HOST:PORT`, or `HOST` if there is a port for that case. `None` if it is neither.
    #[must_use]
    pub fn parse(text: &str, default_port: Option<u16>) -> Option<Self> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().ok()?)),
            _ => (text, None),
        };
        let port = port.or(default_port).filter(|port| *port != 0)?;
        let is_bracketed = host.starts_with('[') && host.ends_with(']') && host.len() > 2;
        let is_fit = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        let is_address = |letter: char| letter.is_ascii_hexdigit() || ":.%".contains(letter);
        let is_host = match is_bracketed {
            true => host[1..host.len() - 1].chars().all(is_address),
            false => !host.is_empty() && host.chars().all(is_fit),
        };
        is_host.then(|| Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for ManagerAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::ManagerAddress;

    #[test]
    fn a_manager_is_a_host_and_a_port() {
        let read = |text: &str| ManagerAddress::parse(text, None).map(|address| address.to_string());
        for text in ["localhost:1213", "cms-1.example.org:3121", "[::1]:1213", "192.0.2.1:9"] {
            assert_eq!(read(text).as_deref(), Some(text));
        }
        for text in [
            "",
            ":1",
            "host",
            "host:",
            "host:0",
            "host:65536",
            "host:x",
            "a b:1",
            "[::1]",
            "[]:1",
            "[x]:1",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let with_default = |text: &str| ManagerAddress::parse(text, Some(7)).map(|address| address.to_string());
        assert_eq!(with_default("host").as_deref(), Some("host:7"));
        assert_eq!(with_default("[::1]").as_deref(), Some("[::1]:7"));
        assert_eq!(with_default("host:8").as_deref(), Some("host:8"));
    }
}
