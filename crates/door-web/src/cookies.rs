//! The cookie with the identifier of a session.

use axum::http::{HeaderMap, HeaderValue, header};

/// The cookie's name. Cookies do not know ports (RFC 6265 §8.5), so the name has that of the door:
/// signing in to another server of this host ends no session here. Over TLS, the prefix makes
/// browsers refuse the cookie from any other host (RFC 6265bis §4.1.3).
fn name(port: u16, is_encrypted: bool) -> String {
    let prefix = if is_encrypted { "__Host-" } else { "" };
    format!("{prefix}crossload-{port}")
}

/// The identifier that a browser sends.
pub(crate) fn identifier(headers: &HeaderMap, port: u16, is_encrypted: bool) -> Option<&str> {
    let wanted = name(port, is_encrypted);
    let cookies = headers.get_all(header::COOKIE).iter();
    let mut pairs = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// Lets the browser keep an identifier until it is closed, or forget it.
pub(crate) fn set(headers: &mut HeaderMap, port: u16, is_encrypted: bool, identifier: Option<&str>) {
    let value = identifier.unwrap_or_default();
    let end = if identifier.is_none() { "; Max-Age=0" } else { "" };
    let secure = if is_encrypted { "; Secure" } else { "" };
    let name = name(port, is_encrypted);
    let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{end}");
    if let Ok(mut cookie) = HeaderValue::try_from(cookie) {
        cookie.set_sensitive(true);
        headers.append(header::SET_COOKIE, cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_counts_at_its_port_and_on_its_kind_of_connection() {
        let cookies = "a=b; __Host-crossload-1=one;crossload-1=two; crossload-2=three";
        let headers = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_static(cookies))]);
        assert_eq!(identifier(&headers, 1, true), Some("one"));
        assert_eq!(identifier(&headers, 1, false), Some("two"));
        assert_eq!(identifier(&headers, 2, false), Some("three"));
        assert_eq!(identifier(&headers, 2, true), None);
    }

    #[test]
    fn a_cookie_is_kept_from_scripts_and_other_sites() {
        let cookie = |is_encrypted, identifier| {
            let mut headers = HeaderMap::new();
            set(&mut headers, 8450, is_encrypted, identifier);
            headers[header::SET_COOKIE].to_str().unwrap().to_owned()
        };
        assert_eq!(
            cookie(true, Some("x")),
            "__Host-crossload-8450=x; Path=/; HttpOnly; SameSite=Strict; Secure"
        );
        assert_eq!(
            cookie(false, Some("x")),
            "crossload-8450=x; Path=/; HttpOnly; SameSite=Strict"
        );
        assert_eq!(
            cookie(true, None),
            "__Host-crossload-8450=; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=0"
        );
    }
}
