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

/// A span of a trace, as a `traceparent` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace, never 0.
    pub trace: u128,
    /// The span, never 0.
    pub span: u64,
    /// Whether its spans are exported (§3.2.2.5).
    pub is_sampled: bool,
}

impl SpanContext {
    /// Reads a `traceparent`; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if !is_traceparent(text) {
            return None;
        }
        let mut parts = text.split('-').skip(1);
        let trace = u128::from_str_radix(parts.next()?, 16).ok()?;
        let span = u64::from_str_radix(parts.next()?, 16).ok()?;
        let flags = u8::from_str_radix(parts.next()?, 16).ok()?;
        Some(Self {
            trace,
            span,
            is_sampled: flags & 1 == 1,
        })
    }

    /// The `traceparent` of requests that belong to this span.
    #[must_use]
    pub fn traceparent(&self) -> String {
        let flags = u8::from(self.is_sampled);
        format!("00-{:032x}-{:016x}-{flags:02x}", self.trace, self.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_read_and_written() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let span = SpanContext::parse(text).unwrap();
        assert_eq!(span.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!((span.span, span.is_sampled), (0xb7ad_6b71_6920_3331, true));
        assert_eq!(span.traceparent(), text);
        let unsampled = text.replace("-01", "-02");
        assert!(
            !SpanContext::parse(&unsampled).unwrap().is_sampled,
            "only one bit says it"
        );
        for bad in [
            "",
            "00-0-0-01",
            &text.replace('b', "B"),
            &text.replace("b7ad6b7169203331", "0000000000000000"),
        ] {
            assert_eq!(SpanContext::parse(bad), None, "{bad}");
        }
    }
}
