//! Names of storages in settings and bans.

use crate::limits::NAME_BYTES_MAX;

/// The name of a storage in settings: `*` for all, or scheme and host with or without port, in
/// lower case. `None`: the text is something else.
pub(crate) fn storage_name(text: &str) -> Option<String> {
    if text == "*" {
        return Some(text.to_owned());
    }
    let name = text.trim_end_matches('/').to_ascii_lowercase();
    let (scheme, place) = name.split_once("://")?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    let port_begin = place.rfind(':').filter(|colon| !place[*colon..].contains(']'));
    let (host, port) = match port_begin {
        Some(colon) => (&place[..colon], Some(&place[colon + 1..])),
        None => (place, None),
    };
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|number| number > 0));
    if !is_scheme || !is_host(host) || !is_port || name.len() > NAME_BYTES_MAX {
        return None;
    }
    // The dot of a name that is whole names the same host.
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{scheme}://{}{port}", host.trim_end_matches('.')))
}

fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !host.trim_end_matches('.').is_empty() && host.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_has_a_scheme_and_a_host() {
        for (text, name) in [
            ("*", "*"),
            ("davs://Host.example", "davs://host.example"),
            ("https://h:443/", "https://h:443"),
            ("https://h.:443/", "https://h:443"),
            ("davs://h.", "davs://h"),
            ("root://[::1]:1094", "root://[::1]:1094"),
            ("https://[::1]", "https://[::1]"),
        ] {
            assert_eq!(storage_name(text).as_deref(), Some(name));
        }
        for text in [
            "",
            "host",
            "host:443",
            "davs://",
            "davs://.",
            "://host",
            "davs://host/path",
            "davs://u@host",
            "davs://host:x",
            "davs://host:0",
            "1davs://host",
            "davs://ho st",
            "davs://[::x]",
            "**",
        ] {
            assert_eq!(storage_name(text), None, "{text}");
        }
    }
}
