//! Key exchange on the curve P-521, which rustls' provider lacks and ARC's clients offer alone.

use aws_lc_rs::agreement::{ECDH_P521, EphemeralPrivateKey, PublicKey, UnparsedPublicKey, agree_ephemeral};
use aws_lc_rs::rand::SystemRandom;
use rustls::crypto::{ActiveKeyExchange, GetRandomFailed, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved};

/// First byte of an uncompressed point, the only form that TLS 1.3 allows (RFC 8446 §4.2.8.2).
const UNCOMPRESSED: u8 = 4;

/// Ephemeral Diffie-Hellman on secp521r1 (RFC 8446 §4.2.7, RFC 8422 §5.1.1).
#[derive(Debug)]
pub(super) struct Secp521r1;

impl SupportedKxGroup for Secp521r1 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let private_key = EphemeralPrivateKey::generate(&ECDH_P521, &SystemRandom::new());
        let private_key = private_key.map_err(|_| GetRandomFailed)?;
        let public_key = private_key.compute_public_key().map_err(|_| GetRandomFailed)?;
        Ok(Box::new(Exchange {
            private_key,
            public_key,
        }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

struct Exchange {
    private_key: EphemeralPrivateKey,
    public_key: PublicKey,
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        if peer.first() != Some(&UNCOMPRESSED) {
            return Err(PeerMisbehaved::InvalidKeyShare.into());
        }
        let peer = UnparsedPublicKey::new(&ECDH_P521, peer);
        let invalid = Error::from(PeerMisbehaved::InvalidKeyShare);
        agree_ephemeral(self.private_key, peer, invalid, |secret| Ok(SharedSecret::from(secret)))
    }

    fn pub_key(&self) -> &[u8] {
        self.public_key.as_ref()
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_agree_on_a_secret() {
        let (ours, theirs) = (Secp521r1.start().unwrap(), Secp521r1.start().unwrap());
        let (our_share, their_share) = (ours.pub_key().to_vec(), theirs.pub_key().to_vec());
        let secret = ours.complete(&their_share).unwrap();
        assert_eq!(
            secret.secret_bytes(),
            theirs.complete(&our_share).unwrap().secret_bytes()
        );
        // The field has 521 bits (RFC 8446 §7.4.2: the coordinate is padded to the length of the
        // prime).
        assert_eq!(secret.secret_bytes().len(), 66);
    }

    #[test]
    fn shares_that_are_no_uncompressed_point_of_the_curve_are_refused() {
        let good = Secp521r1.start().unwrap().pub_key().to_vec();
        let compressed = [&[2], &good[1..67]].concat();
        let mut off_the_curve = good.clone();
        *off_the_curve.last_mut().unwrap() ^= 1;
        for share in [
            Vec::new(),
            vec![UNCOMPRESSED],
            compressed,
            off_the_curve,
            good[..good.len() - 1].to_vec(),
        ] {
            let refused = Secp521r1.start().unwrap().complete(&share);
            assert_eq!(refused.err(), Some(PeerMisbehaved::InvalidKeyShare.into()), "{share:?}");
        }
    }
}
