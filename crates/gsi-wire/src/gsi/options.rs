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

    /// Whether a request for a delegated proxy would be answered. XRootD's clients set both bits;
    /// dCache asks clients that set the second.
    #[must_use]
    pub fn would_delegate(self) -> bool {
        self.contains(Self::DELEGATES) || self.contains(Self::SIGNS)
    }
}

impl std::ops::BitOr for ClientOptions {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
