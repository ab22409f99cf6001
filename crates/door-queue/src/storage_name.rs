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
    if !is_scheme || name.len() > NAME_BYTES_MAX {
        return None;
    }
    let host = host_name(host)?;
    let port = match port {
        Some(port) => format!(":{}", port_number(port)?),
        None => String::new(),
    };
    Some(format!("{scheme}://{host}{port}"))
}

/// A port without zeros before it, as URLs have it.
fn port_number(port: &str) -> Option<u16> {
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    port.parse().ok().filter(|number| is_number && *number > 0)
}

/// A host as URLs have it.
fn host_name(host: &str) -> Option<String> {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address: std::net::Ipv6Addr = address.parse().ok()?;
        return Some(format!("[{address}]"));
    }
    // The dot of a name that is whole names the same host.
    let host = host.trim_end_matches('.');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (!host.is_empty() && host.bytes().all(is_plain)).then(|| host.to_owned())
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
            ("https://[0:0::0001]:0443", "https://[::1]:443"),
            ("https://h:0443", "https://h:443"),
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
            "davs://host:+443",
            "1davs://host",
            "davs://ho st",
            "davs://[::x]",
            "**",
        ] {
            assert_eq!(storage_name(text), None, "{text}");
        }
    }
}
