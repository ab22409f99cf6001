//! Headers for browsers.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::limits::TRANSPORT_SECURITY_AGE;

/// What a page may load and run, and where (Content Security Policy 3): our style sheet, scripts,
/// pictures and events, nothing inline, in no frame.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                              img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// Adds them to an answer.
pub(crate) fn protect(headers: &mut HeaderMap, is_encrypted: bool) {
    // The page of a run has its own, which is as strict.
    let policy = HeaderValue::from_static(CONTENT_POLICY);
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(policy);
    let fixed = [
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
