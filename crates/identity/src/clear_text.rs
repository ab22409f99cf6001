//! Whether credentials that anyone on the way could read and use again are taken in clear text.

use std::net::IpAddr;

use types::{Error, ErrorCode, Phase, Result, Side};

/// Where bearer tokens and macaroons, the requests for them, and tokens for the other side of a
/// copy are taken in clear text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClearText {
    /// Nowhere.
    Never,
    /// From loopback addresses, where no other host listens.
    Loopback,
    /// From everywhere: something in front of this server may have ended TLS.
    #[default]
    Always,
}

impl ClearText {
    /// Whether a credential that came in clear text from `peer` counts.
    ///
    /// # Errors
    /// `tls_required`: it does not.
    pub fn admits(self, peer: IpAddr) -> Result<()> {
        let admitted = match self {
            Self::Never => false,
            Self::Loopback => peer.to_canonical().is_loopback(),
            Self::Always => true,
        };
        if admitted {
            return Ok(());
        }
        let error = Error::new(ErrorCode::TlsRequired, Side::Client, Phase::Authenticate);
        Err(error.with_detail("tokens are not taken in clear text; others may have read one that was sent so"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_from_elsewhere_in_both_families() {
        for (policy, here, elsewhere) in [
            (ClearText::Never, false, false),
            (ClearText::Loopback, true, false),
            (ClearText::Always, true, true),
        ] {
            for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
                assert_eq!(policy.admits(address.parse().unwrap()).is_ok(), here, "{address}");
            }
            for address in ["192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1"] {
                assert_eq!(policy.admits(address.parse().unwrap()).is_ok(), elsewhere, "{address}");
            }
        }
    }
}
