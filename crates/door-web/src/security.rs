//! Headers for browsers, and requests that browsers were tricked into.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::limits::TRANSPORT_SECURITY_AGE;

/// What a page may load and run, and where (Content Security Policy 3): our style sheet, scripts,
/// pictures and events, nothing inline, in no frame.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                              img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// Adds them to an answer.
pub(crate) fn protect(headers: &mut HeaderMap, is_encrypted: bool) {
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if is_encrypted {
        let value = format!("max-age={}", TRANSPORT_SECURITY_AGE.as_secs());
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(header::STRICT_TRANSPORT_SECURITY, value);
        }
    }
}

/// Whether a request by this `Host` may be for a server on a loopback address. Otherwise a page
/// elsewhere could have its own name point to this machine, and read ours (DNS rebinding).
pub(crate) fn is_local_host(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_are_known() {
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "a.localhost:1",
            "127.0.0.1:8080",
            "[::1]:8080",
            "localhost.:1",
        ] {
            assert!(is_local_host(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "",
            "[::1",
        ] {
            assert!(!is_local_host(host), "{host}");
        }
    }
}
