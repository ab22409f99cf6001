//! Trace contexts (W3C Trace Context).

/// Whether a text is a `traceparent` (§3.2): `00-<32 hex>-<16 hex>-<2 hex>`, in lower case, with
/// identifiers that are not all zero. Later versions may be longer.
#[must_use]
pub fn is_traceparent(value: &str) -> bool {
    let hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let nonzero = |text: &str| text.bytes().any(|byte| byte != b'0');
    let parts: Vec<&str> = value.splitn(5, '-').collect();
    let [version, trace, parent, flags, ..] = parts.as_slice() else {
        return false;
    };
    let version_fits = hex(version, 2) && *version != "ff" && (*version != "00" || parts.len() == 4);
    version_fits && hex(trace, 32) && nonzero(trace) && hex(parent, 16) && nonzero(parent) && hex(flags, 2)
}
