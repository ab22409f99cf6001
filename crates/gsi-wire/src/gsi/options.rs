//! What a client is able and willing to do.

/// The client's options (`kOpts…` of `XrdSecProtocolgsi`). Bits that are not named here are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientOptions(pub u32);

impl ClientOptions {
    /// It wants to be asked for a delegated proxy.
    pub const DELEGATES: Self = Self(0x01);
    /// It would send the key of its own proxy. Never accepted.
    pub const SENDS_KEY: Self = Self(0x02);
    /// It can sign a request for a proxy.
    pub const SIGNS: Self = Self(0x04);
    /// It makes proxies for its user where there is none.
    pub const MAKES_PROXIES: Self = Self(0x80);

    /// Whether all of these are set.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether a request for a delegated proxy would be answered with a proxy. XRootD's clients set
    /// both bits; dCache asks clients that set the second. A client that would send its key instead
    /// must not be asked.
    #[must_use]
    pub fn would_delegate(self) -> bool {
        let signs = self.contains(Self::DELEGATES) || self.contains(Self::SIGNS);
        signs && !self.contains(Self::SENDS_KEY)
    }
}

impl std::ops::BitOr for ClientOptions {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_would_send_its_key_is_not_asked() {
        // The options of XRootD's xrdcp: by default, with XrdSecGSIDELEGPROXY=1, and =2.
        for (options, would) in [(0x80, false), (0x85, true), (0x04, true), (0x86, false), (0x87, false)] {
            assert_eq!(ClientOptions(options).would_delegate(), would, "{options:#x}");
        }
    }
}
