//! A target for a login with gsi: genuine messages changed by an attacker in between, with keys of
//! the attacker's own.

use std::sync::{Arc, LazyLock};

use credentials::gsi::client::{Holder, Opened};
use credentials::gsi::server::{Host, Offer, Proving};
use gsi_wire::gsi::{ClientHello, ClientOptions, ServerEntry};
use gsi_wire::to_pem;
use rustls_pki_types::CertificateDer;

/// A certificate and its key, both in DER.
struct Made {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

/// What both ends have. Keys are made anew for each run, since none may lie in a repository.
struct Ends {
    host: Host,
    offer: Arc<Offer>,
    holder: Holder,
    chain: CertificateDer<'static>,
}

static ENDS: LazyLock<Option<Ends>> = LazyLock::new(|| {
    let (host, user) = (made("host")?, made("user")?);
    let holder = Holder::new(std::slice::from_ref(&user.certificate), &user.key).ok()?;
    let host = Host::new(&host.certificate, &host.key).ok()?;
    let offer = Arc::new(Offer::new(&host, &mut random).ok()?);
    Some(Ends {
        host,
        offer,
        holder,
        chain: user.certificate,
    })
});

fn made(name: &str) -> Option<Made> {
    let key = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).ok()?;
    let parameters = rcgen::CertificateParams::new(vec![name.to_owned()]).ok()?;
    Some(Made {
        certificate: parameters.self_signed(&key).ok()?.der().clone(),
        key: key.serialize_der(),
    })
}

fn random(out: &mut [u8]) {
    assert!(aws_lc_rs::rand::fill(out).is_ok());
}

/// The first byte says which message is changed, the next two where, and the rest how. A changed
/// message never changes the identity: a login ends as the client that began it, or fails.
///
/// # Panics
/// When the genuine login fails, without which this would show nothing.
pub(crate) fn login(data: &[u8]) {
    let ends = ENDS.as_ref().expect("keys and certificates can be made");
    let [which, place @ .., _] = data else { return };
    let (place, change) = match place {
        [high, low, change @ ..] => (usize::from(u16::from_be_bytes([*high, *low])), change),
        _ => (0, place),
    };
    let mut random = random;
    let options = ClientOptions::SIGNS;
    let (opened, mut opening) = Opened::begin(&ServerEntry::new([1]), options, &mut random);
    alter(&mut opening, *which == 0, place, change);
    let Ok((proving, mut answer)) = Proving::begin(&opening, &ends.host, ends.offer.clone(), &mut random) else {
        assert!(*which == 0 && !change.is_empty(), "a genuine opening is taken");
        return;
    };
    alter(&mut answer, *which == 1, place, change);
    let Ok(heard) = opened.hear(&answer) else {
        assert!(*which <= 1 && !change.is_empty(), "a genuine answer is taken");
        return;
    };
    let Ok((_, mut hello)) = heard.show(&ends.holder, &mut random) else {
        assert!(*which == 1, "a genuine agreement is taken");
        return;
    };
    if *which == 3 {
        hello = with_key(&hello, change);
    }
    alter(&mut hello, *which == 2, place, change);
    match proving.prove(&hello) {
        Ok(proved) => assert_eq!(proved.chain, std::slice::from_ref(&ends.chain)),
        Err(fault) => {
            let changed = *which == 3 || ((1..3).contains(which) && !change.is_empty());
            assert!(changed, "a genuine proof is taken: {fault:?}");
        }
    }
}

fn alter(message: &mut [u8], wanted: bool, place: usize, change: &[u8]) {
    if wanted && !message.is_empty() {
        let start = place % message.len();
        for (old, new) in message[start..].iter_mut().zip(change) {
            *old ^= new;
        }
    }
}

/// The message with another public key in it.
fn with_key(hello: &[u8], key: &[u8]) -> Vec<u8> {
    let public_key = to_pem("PUBLIC KEY", key).into_bytes();
    match ClientHello::parse(hello) {
        Ok(message) => ClientHello {
            public_key: &public_key,
            ..message
        }
        .encode(),
        Err(_) => Vec::new(),
    }
}
