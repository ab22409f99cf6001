//! A message: the protocol's name, the step, and buckets, each with a kind, a length and bytes.

use super::{Fault, NAME, Result};

/// Buckets of one message; the fullest has seven.
const BUCKETS_MAX: usize = 32;

/// Which message of the exchange this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The client opens.
    Opening,
    /// The client sends its chain.
    Client,
    /// The client sends the proxy that it signed.
    Proxy,
    /// The server sends its certificate.
    Server,
    /// The server asks for a proxy.
    ProxyRequest,
}

impl Step {
    /// Its number on the wire (`kXGC_…` from 1000 on, `kXGS_…` from 2000 on).
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::Opening => 1000,
            Self::Client => 1001,
            Self::Proxy => 1002,
            Self::Server => 2001,
            Self::ProxyRequest => 2002,
        }
    }

    fn of(number: u32) -> Result<Self> {
        Ok(match number {
            1000 => Self::Opening,
            1001 => Self::Client,
            1002 => Self::Proxy,
            2001 => Self::Server,
            2002 => Self::ProxyRequest,
            _ => return Err(Fault("the message is of an unknown step")),
        })
    }
}

/// What a bucket holds (`kXRS_…` of `XrdSutBucket`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(pub u32);

impl Kind {
    /// Filled with what does not count any more.
    pub const INACTIVE: Self = Self(1);
    /// The name of the cryptographic library: `ssl`.
    pub const LIBRARY: Self = Self(3000);
    /// A message in the message, in clear or encrypted.
    pub const MAIN: Self = Self(3001);
    /// A public key, PEM.
    pub const PUBLIC_KEY: Self = Self(3004);
    /// One half of the key agreement.
    pub const AGREEMENT: Self = Self(3005);
    /// A tag that the other end is to sign.
    pub const TAG: Self = Self(3006);
    /// The other end's tag, signed.
    pub const SIGNED_TAG: Self = Self(3007);
    /// The name of the user that the client wants to be.
    pub const USER: Self = Self(3008);
    /// Words for a person.
    pub const WORDS: Self = Self(3011);
    /// SHA-256 of the certificate of the server that the client means (`kXRS_srvID`). XRootD and
    /// dCache know the kind and never look at it; our clients send it, and our servers check it.
    pub const SERVER: Self = Self(3012);
    /// The sender's version.
    pub const VERSION: Self = Self(3014);
    /// What the client is able and willing to do.
    pub const OPTIONS: Self = Self(3019);
    /// One or more certificates, PEM.
    pub const CERTIFICATES: Self = Self(3022);
    /// Hashes of the names of authorities.
    pub const AUTHORITIES: Self = Self(3023);
    /// A certificate request, PEM.
    pub const REQUEST: Self = Self(3024);
    /// Ciphers.
    pub const CIPHERS: Self = Self(3025);
    /// Digests.
    pub const DIGESTS: Self = Self(3026);

    /// Whether XRootD gives this number a meaning.
    fn is_known(self) -> bool {
        (Self::LIBRARY.0..=3027).contains(&self.0)
    }
}

/// A message and what is in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Buffer<'a> {
    step: Step,
    buckets: Vec<(Kind, &'a [u8])>,
}

impl std::fmt::Debug for Buffer<'_> {
    /// Kinds and lengths only.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lengths = self.buckets.iter().map(|(kind, bytes)| (kind.0, bytes.len()));
        write!(formatter, "{:?}", self.step)?;
        formatter.debug_map().entries(lengths).finish()
    }
}

impl<'a> Buffer<'a> {
    /// An empty message.
    #[must_use]
    pub fn new(step: Step) -> Self {
        Self {
            step,
            buckets: Vec::new(),
        }
    }

    /// The same with one more bucket behind the others.
    #[must_use]
    pub fn with(mut self, kind: Kind, bytes: &'a [u8]) -> Self {
        self.buckets.push((kind, bytes));
        self
    }

    /// Reads a message. What stands behind its end does not count.
    ///
    /// # Errors
    /// Another protocol's name, an unknown step, a bucket that is longer than the message or
    /// appears twice, no end.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let cut = Fault("the message is cut off");
        let rest = bytes
            .strip_prefix(NAME.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"\0"));
        let mut rest = rest.ok_or(Fault("the message is none of gsi"))?;
        let mut buffer = Self::new(Step::of(number(&mut rest).ok_or(cut)?)?);
        loop {
            let kind = Kind(number(&mut rest).ok_or(cut)?);
            if kind == Kind(0) {
                return Ok(buffer);
            }
            let length = number(&mut rest).and_then(|length| usize::try_from(length).ok());
            let (content, behind) = length.and_then(|length| rest.split_at_checked(length)).ok_or(cut)?;
            rest = behind;
            if kind == Kind::INACTIVE {
                continue;
            }
            if buffer.find(kind).is_some() {
                return Err(Fault("a part of the message appears twice"));
            }
            if buffer.buckets.len() == BUCKETS_MAX {
                return Err(Fault("the message has too many parts"));
            }
            buffer.buckets.push((kind, content));
        }
    }

    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let content: usize = self.buckets.iter().map(|(_, bytes)| bytes.len() + 8).sum();
        let mut out = Vec::with_capacity(NAME.len() + 9 + content);
        out.extend_from_slice(NAME.as_bytes());
        out.push(0);
        out.extend_from_slice(&self.step.number().to_be_bytes());
        for (kind, bytes) in &self.buckets {
            out.extend_from_slice(&kind.0.to_be_bytes());
            // Buckets are made of what fits into a message, far below the limit of the field.
            out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
            out.extend_from_slice(bytes);
        }
        out.extend_from_slice(&[0; 4]);
        out
    }

    /// Which message it is.
    #[must_use]
    pub fn step(&self) -> Step {
        self.step
    }

    /// The content of a bucket.
    #[must_use]
    pub fn find(&self, kind: Kind) -> Option<&'a [u8]> {
        let found = self.buckets.iter().find(|(other, _)| *other == kind);
        found.map(|(_, bytes)| *bytes)
    }

    /// The content of a bucket that must be there; `missing` says what it is.
    pub(super) fn need(&self, kind: Kind, missing: &'static str) -> Result<&'a [u8]> {
        self.find(kind).ok_or(Fault(missing))
    }

    /// The same message, if all kinds in it are known. What is encrypted is not authenticated: an
    /// attacker can turn a bucket into one of a random kind, but not choose the kind.
    pub(super) fn of_known_kinds(self) -> Result<Self> {
        match self.buckets.iter().all(|(kind, _)| kind.is_known()) {
            true => Ok(self),
            false => Err(Fault("a part of the message is of an unknown kind")),
        }
    }

    /// The same message, if it is of this step.
    pub(super) fn of_step(self, step: Step) -> Result<Self> {
        if self.step == step {
            Ok(self)
        } else {
            Err(Fault("the message is of another step"))
        }
    }
}

/// Takes a number off the front.
fn number(rest: &mut &[u8]) -> Option<u32> {
    let (front, behind) = rest.split_first_chunk::<4>()?;
    *rest = behind;
    Some(u32::from_be_bytes(*front))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_come_out_as_they_went_in() {
        let buffer = Buffer::new(Step::Client)
            .with(Kind::LIBRARY, b"ssl")
            .with(Kind::MAIN, &[0; 40]);
        let bytes = buffer.encode();
        assert_eq!(Buffer::parse(&bytes).unwrap(), buffer);
        assert_eq!(bytes[..8], *b"gsi\0\0\0\x03\xe9");
        assert!(format!("{buffer:?}").contains("3001: 40"));
    }

    #[test]
    fn every_cut_is_noticed() {
        let bytes = Buffer::new(Step::Opening).with(Kind::LIBRARY, b"ssl").encode();
        for length in 0..bytes.len() {
            assert!(Buffer::parse(&bytes[..length]).is_err(), "{length}");
        }
        let mut longer = bytes.clone();
        longer.extend_from_slice(b"behind");
        assert_eq!(Buffer::parse(&longer).unwrap().encode(), bytes);
    }

    #[test]
    fn what_appears_twice_or_too_often_is_refused() {
        let twice = Buffer::new(Step::Opening).with(Kind::TAG, b"a").with(Kind::TAG, b"b");
        assert!(Buffer::parse(&twice.encode()).is_err());
        let many = (5000..5100).fold(Buffer::new(Step::Opening), |buffer, kind| buffer.with(Kind(kind), b""));
        assert!(Buffer::parse(&many.encode()).is_err());
        let idle = Buffer::new(Step::Opening)
            .with(Kind::INACTIVE, b"a")
            .with(Kind::INACTIVE, b"b");
        assert!(Buffer::parse(&idle.encode()).is_ok());
    }
}
