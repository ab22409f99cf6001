//! Hosts that are this machine by their name.

use std::net::IpAddr;

/// Whether a host of a URL, with or without brackets, is this machine whatever the machine is
/// called: `localhost` (RFC 6761 §6.3) or a loopback address, mapped into IPv6 too.
///
/// ```
/// assert!(types::is_loopback_host("[::ffff:127.0.0.2]"));
/// assert!(!types::is_loopback_host("localhost.example.org"));
/// ```
#[must_use]
pub fn is_loopback_host(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_loopback_host;

    #[test]
    fn this_machine_is_known_in_every_spelling() {
        for host in [
            "localhost",
            "LocalHost",
            "127.0.0.1",
            "127.0.0.2",
            "[::1]",
            "::1",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in [
            "",
            "localhost.example.org",
            "128.0.0.1",
            "[::]",
            "0.0.0.0",
            "127.0.0.1.example.org",
        ] {
            assert!(!is_loopback_host(host), "{host}");
        }
    }
}
