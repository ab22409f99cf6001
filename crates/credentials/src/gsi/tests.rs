//! Both sides against each other, and what was captured from XRootD 5.5.3 with the keys that were
//! used.

use std::sync::{Arc, LazyLock};

use gsi_wire::gsi::key::PublicNumbers;
use gsi_wire::gsi::{
    Buffer, ClientHello, ClientOptions, ClientProof, Fault, Kind, ProxyAnswer, ProxyGrant, ProxyProof, ProxyRequest,
    ServerEntry, ServerHello, Step,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer};

use super::cipher::SessionKey;
use super::client::{Holder, Opened, Shown};
use super::rsa::RsaPublicKey;
use super::server::{Host, Offer, Proved, Proving};
use super::*;

/// A certificate in PEM and its key in DER.
struct Made {
    certificate: String,
    key: Vec<u8>,
}

static HOST: LazyLock<Made> = LazyLock::new(|| made("host"));
static USER: LazyLock<Made> = LazyLock::new(|| made("user"));

fn made(name: &str) -> Made {
    let key = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let parameters = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    Made {
        certificate: parameters.self_signed(&key).unwrap().pem().replace("\r\n", "\n"),
        key: key.serialize_der(),
    }
}

fn chain(of: &Made) -> Vec<CertificateDer<'static>> {
    vec![CertificateDer::from_pem_slice(of.certificate.as_bytes()).unwrap()]
}

fn random() -> impl FnMut(&mut [u8]) {
    |out: &mut [u8]| aws_lc_rs::rand::fill(out).unwrap()
}

fn host() -> Host {
    Host::new(&chain(&HOST)[0], &HOST.key).unwrap()
}

fn holder() -> Holder {
    Holder::new(&chain(&USER), &USER.key).unwrap()
}

/// A login up to the client's second message.
fn shown(offer: &Arc<Offer>) -> (Proving, Shown, Vec<u8>) {
    let mut random = random();
    let entry = ServerEntry::new([1, 2]);
    let options = ClientOptions::DELEGATES | ClientOptions::SIGNS;
    let (opened, message) = Opened::begin(&entry, options, &mut random);
    let (proving, answer) = Proving::begin(&message, &host(), offer.clone(), &mut random).unwrap();
    let heard = opened.hear(&answer).unwrap();
    assert_eq!(heard.certificate, chain(&HOST)[0]);
    let (shown, message) = heard.show(&holder(), &mut random).unwrap();
    (proving, shown, message)
}

fn offer() -> Arc<Offer> {
    Arc::new(Offer::new(&host(), &mut random()).unwrap())
}

#[test]
fn a_client_proves_its_chain_and_delegates() {
    let mut random = random();
    let (proving, shown, message) = shown(&offer());
    let proved: Proved = proving.prove(&message).unwrap();
    assert_eq!(proved.chain, chain(&USER));
    assert!(proved.would_delegate);
    let (delegating, message) = proved.ask_proxy(b"a request", &host(), &mut random).unwrap();
    let sign = |request: &[u8]| {
        assert_eq!(request, b"a request");
        Ok(USER.certificate.clone().into_bytes())
    };
    let answer = shown.delegate(&message, &holder(), sign, &mut random).unwrap();
    let proxy = delegating.receive(&answer).unwrap();
    assert_eq!(proxy, Ok(chain(&USER).remove(0)));
}

#[test]
fn a_client_may_refuse_to_delegate() {
    let mut random = random();
    let (proving, shown, message) = shown(&offer());
    let proved = proving.prove(&message).unwrap();
    let (delegating, message) = proved.ask_proxy(b"a request", &host(), &mut random).unwrap();
    let answer = shown.delegate(&message, &holder(), |_| Err("no".into()), &mut random);
    assert_eq!(delegating.receive(&answer.unwrap()).unwrap(), Err("no".into()));
}

#[test]
fn what_was_recorded_proves_nothing_a_second_time() {
    let offer = offer();
    let (first, _, recorded) = shown(&offer);
    assert!(first.prove(&recorded).is_ok());
    // The same half of the agreement, so that even decryption succeeds; the tag is another one.
    let (second, _, _) = shown(&offer);
    let fault = second.prove(&recorded).unwrap_err();
    assert_eq!(fault, Fault("the tag that was signed is not ours"));
    // A message out of its place.
    let (third, _, _) = shown(&offer);
    assert!(third.prove(&ProxyAnswer::seal(&[0; 32])).is_err());
}

#[test]
fn whatever_is_changed_is_refused() {
    let offer = offer();
    let (_, _, message) = shown(&offer);
    let buffer = Buffer::parse(&message).unwrap();
    for kind in [Kind::MAIN, Kind::AGREEMENT, Kind::PUBLIC_KEY] {
        let content = buffer.find(kind).unwrap();
        let start = message.windows(content.len()).position(|part| part == content).unwrap();
        for at in [0, 20, content.len() / 2, content.len() - 30] {
            let (proving, _, mut message) = shown(&offer);
            message[start + at] ^= 1;
            assert!(proving.prove(&message).is_err(), "{kind:?} {at}");
        }
    }
}

/// A message with one more part, or with something in front of one.
fn with_key_in(message: &[u8], place: Option<Kind>) -> Vec<u8> {
    let pem = "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    let buffer = Buffer::parse(message).unwrap();
    let kinds = [
        Kind::LIBRARY,
        Kind::MAIN,
        Kind::CIPHERS,
        Kind::DIGESTS,
        Kind::AGREEMENT,
        Kind::PUBLIC_KEY,
    ];
    let parts: Vec<_> = kinds
        .into_iter()
        .filter_map(|kind| Some((kind, buffer.find(kind)?)))
        .map(|(kind, part)| match place == Some(kind) {
            true => (kind, [pem.as_bytes(), part].concat()),
            false => (kind, part.to_vec()),
        })
        .collect();
    let whole = Buffer::new(buffer.step());
    let whole = parts.iter().fold(whole, |whole, (kind, part)| whole.with(*kind, part));
    match place {
        Some(_) => whole.encode(),
        None => whole.with(Kind(3999), pem.as_bytes()).encode(),
    }
}

#[test]
fn a_private_key_in_any_part_of_a_message_is_refused() {
    let mut random = self::random();
    let refusal = Fault("a private key was sent, which must never leave its owner");
    let offer = offer();
    let (_, opening) = Opened::begin(&ServerEntry::new([1]), ClientOptions::SIGNS, &mut random);
    let proved = |message: &[u8]| shown(&offer).0.prove(message).map(drop);
    let begun = |message: &[u8]| Proving::begin(message, &host(), offer.clone(), &mut self::random()).map(drop);
    assert_eq!(begun(&with_key_in(&opening, None)).unwrap_err(), refusal);
    let (_, _, message) = shown(&offer);
    for place in [None, Some(Kind::PUBLIC_KEY), Some(Kind::DIGESTS)] {
        assert_eq!(proved(&with_key_in(&message, place)).unwrap_err(), refusal, "{place:?}");
    }
    let (proving, client, message) = shown(&offer);
    let (delegating, message) = proving
        .prove(&message)
        .unwrap()
        .ask_proxy(b"a request", &host(), &mut random)
        .unwrap();
    let answer = client.delegate(&message, &holder(), |_| Err("no".into()), &mut random);
    let answer = with_key_in(&answer.unwrap(), None);
    assert_eq!(delegating.receive(&answer).unwrap_err(), refusal);
}

#[test]
fn a_server_without_the_key_of_its_certificate_is_not_believed() {
    let mut random = random();
    let (opened, message) = Opened::begin(&ServerEntry::new([]), ClientOptions::default(), &mut random);
    let (_, answer) = Proving::begin(&message, &host(), offer(), &mut random).unwrap();
    let hello = ServerHello::parse(&answer).unwrap();
    let theirs = pem(&chain(&USER)[0]);
    let forged = ServerHello {
        certificate: &theirs,
        ..hello
    };
    assert!(opened.hear(&forged.encode()).is_err());
    assert!(Host::new(&chain(&HOST)[0], &USER.key).is_err());
}

/// A server's first message as an attacker with a certificate passes it on: everything in it is
/// the server's own, signed by the attacker's key.
fn passed_on(answer: &[u8], attacker: &Made) -> Vec<u8> {
    let mut random = random();
    let hello = ServerHello::parse(answer).unwrap();
    let server = RsaPublicKey::of_certificate(&chain(&HOST)[0]).unwrap();
    let key = super::rsa::RsaPrivateKey::from_der(&attacker.key).unwrap();
    let open = |sealed: &[u8], most| server.open(sealed, most).unwrap();
    let agreement = open(hello.agreement, AGREEMENT_BYTES_MAX);
    let tag = open(hello.signed_tag, SIGNED_TAG_BYTES_MAX);
    ServerHello {
        signed_tag: &key.seal(&tag, &mut random).unwrap(),
        agreement: &key.seal(&agreement, &mut random).unwrap(),
        certificate: &pem(&chain(attacker)[0]),
        ..hello
    }
    .encode()
}

#[test]
fn a_login_at_another_server_cannot_be_passed_on() {
    let mut random = random();
    let attacker = made("attacker");
    let entry = ServerEntry::new([1]);
    let (opened, message) = Opened::begin(&entry, ClientOptions::default(), &mut random);
    let (proving, answer) = Proving::begin(&message, &host(), offer(), &mut random).unwrap();
    let heard = opened.hear(&passed_on(&answer, &attacker)).unwrap();
    assert_eq!(
        heard.certificate,
        chain(&attacker)[0],
        "the client believes the attacker"
    );
    let (_, message) = heard.show(&holder(), &mut random).unwrap();
    let fault = proving.prove(&message).unwrap_err();
    assert_eq!(
        fault,
        Fault("the login was meant for a server with another certificate")
    );
}

/// What a server says of a client whose proof names no server, once `change` has been at its plain
/// bytes.
fn proof_by_hand(change: impl FnOnce(&mut Vec<u8>)) -> Result<(), Fault> {
    let mut random = random();
    let (opened, message) = Opened::begin(&ServerEntry::new([1]), ClientOptions::default(), &mut random);
    let (proving, answer) = Proving::begin(&message, &host(), offer(), &mut random).unwrap();
    let hello = ServerHello::parse(&answer).unwrap();
    let server = RsaPublicKey::of_certificate(&chain(&HOST)[0]).unwrap();
    let theirs = server.open(hello.agreement, AGREEMENT_BYTES_MAX).unwrap();
    let theirs = gsi_wire::gsi::agreement::Half::parse(&theirs).unwrap();
    let ours = super::agreement::Agreement::answer(&theirs, &mut random).unwrap();
    let key = super::rsa::RsaPrivateKey::from_der(&USER.key).unwrap();
    let (_, shown) = opened.hear(&answer).unwrap().show(&holder(), &mut random).unwrap();
    let mut plain = ClientProof {
        signed_tag: &key.seal(&hello.tag, &mut random).unwrap(),
        server: None,
        chain: USER.certificate.as_bytes(),
        user: None,
        tag: *b"12345678",
    }
    .encode();
    change(&mut plain);
    let sealed = ours.key(&theirs, true).unwrap().encrypt(&plain, &mut random).unwrap();
    let agreement = key.seal(ours.half().encode().as_bytes(), &mut random).unwrap();
    let message = ClientHello {
        sealed: &sealed,
        agreement: &agreement,
        ..ClientHello::parse(&shown).unwrap()
    };
    proving.prove(&message.encode()).map(drop)
}

#[test]
fn a_client_that_does_not_name_the_server_is_accepted_and_unknown_parts_are_not() {
    assert_eq!(proof_by_hand(|_| {}), Ok(()));
    // Behind the signature: what an attacker makes of the name of the server is of a random kind.
    let behind = 16 + 256;
    for (kind, is_accepted) in [
        (3009_u32, true),
        (3027, true),
        (2999, false),
        (3028, false),
        (0x8765_4321, false),
    ] {
        let result = proof_by_hand(|plain| {
            let part = [&kind.to_be_bytes()[..], &[0, 0, 0, 8], b"whatever"].concat();
            plain.splice(behind..behind, part);
        });
        assert_eq!(result.is_ok(), is_accepted, "{kind}: {result:?}");
    }
    // Of another length than a hash.
    let short = |plain: &mut Vec<u8>| {
        let part = [&Kind::SERVER.0.to_be_bytes()[..], &[0, 0, 0, 4], b"name"].concat();
        plain.splice(behind..behind, part);
    };
    assert!(proof_by_hand(short).is_err());
}

#[test]
fn the_name_of_the_server_cannot_be_changed_on_the_way() {
    let offer = offer();
    let (_, _, message) = shown(&offer);
    let sealed = ClientHello::parse(&message).unwrap().sealed.to_vec();
    let start = message.windows(sealed.len()).position(|part| part == sealed).unwrap();
    // The vector, the head, the signature, and then the name with its head: 40 bytes.
    let name = start + 16 + 16 + 256;
    for at in (name - 16..name + 40).step_by(4) {
        let (proving, _, mut message) = shown(&offer);
        message[at] ^= 1;
        assert!(proving.prove(&message).is_err(), "{}", at - name);
    }
    // A signature that swallows the name.
    for length in [256 + 8, 256 + 8 + 32, 512_u32] {
        let (proving, _, mut message) = shown(&offer);
        for (byte, (old, new)) in message[start + 12..start + 16]
            .iter_mut()
            .zip(256_u32.to_be_bytes().into_iter().zip(length.to_be_bytes()))
        {
            *byte ^= old ^ new;
        }
        assert!(proving.prove(&message).is_err(), "{length}");
    }
}

#[test]
fn the_messages_of_another_login_are_not_the_servers() {
    let mut random = random();
    let not_ours = Fault("the tag that was signed is not ours");
    let begin = |random: &mut Random<'_>| {
        let options = ClientOptions::DELEGATES | ClientOptions::SIGNS;
        let (opened, message) = Opened::begin(&ServerEntry::new([1]), options, random);
        let (proving, answer) = Proving::begin(&message, &host(), offer(), random).unwrap();
        (opened, proving, answer)
    };
    // The server's first message, and its second: of each login its own key.
    let (_, _, recorded) = begin(&mut random);
    let (opened, _, _) = begin(&mut random);
    assert_eq!(opened.hear(&recorded).unwrap_err(), not_ours);
    let asked = |random: &mut Random<'_>| {
        let (proving, client, message) = shown(&offer());
        let proved = proving.prove(&message).unwrap();
        let (delegating, message) = proved.ask_proxy(b"a request", &host(), random).unwrap();
        (client, delegating, message)
    };
    let (_, _, recorded) = asked(&mut random);
    let (client, delegating, message) = asked(&mut random);
    let sign = |_: &[u8]| Ok(USER.certificate.clone().into_bytes());
    assert!(client.delegate(&recorded, &holder(), sign, &mut random).is_err());
    // One in the place of another.
    let (opened, proving, answer) = begin(&mut random);
    assert!(opened.hear(&message).is_err() && proving.prove(&answer).is_err());
    assert!(client.delegate(&answer, &holder(), sign, &mut random).is_err());
    // The client's last message, in a second login.
    let answer = client.delegate(&message, &holder(), sign, &mut random).unwrap();
    let (_, second, _) = asked(&mut random);
    assert!(second.receive(&answer).is_err());
    assert!(delegating.receive(&answer).unwrap().is_ok());
}

#[test]
fn an_agreement_that_nobody_signed_is_refused_by_both_ends() {
    let mut random = random();
    let unsigned = |message: &[u8], signer: &Made| {
        let buffer = Buffer::parse(message).unwrap();
        let key = RsaPublicKey::of_certificate(&chain(signer)[0]).unwrap();
        let plain = key
            .open(buffer.find(Kind::AGREEMENT).unwrap(), AGREEMENT_BYTES_MAX)
            .unwrap();
        let kinds = [Kind::LIBRARY, Kind::MAIN, Kind::CIPHERS, Kind::DIGESTS];
        let parts = kinds.into_iter().chain([Kind::CERTIFICATES]);
        let parts: Vec<_> = parts.filter_map(|kind| Some((kind, buffer.find(kind)?))).collect();
        // In the place of the signed one, and where versions before 10400 have it.
        [Kind::AGREEMENT, Kind::PUBLIC_KEY].map(|place| {
            let message = Buffer::new(buffer.step()).with(place, &plain);
            let message = parts
                .iter()
                .fold(message, |message, (kind, part)| message.with(*kind, part));
            match place {
                Kind::AGREEMENT if buffer.step() == Step::Client => {
                    let key = buffer.find(Kind::PUBLIC_KEY).unwrap();
                    message.with(Kind::PUBLIC_KEY, key).encode()
                }
                _ => message.encode(),
            }
        })
    };
    for place in 0..2 {
        let (opened, message) = Opened::begin(&ServerEntry::new([1]), ClientOptions::SIGNS, &mut random);
        let (_, answer) = Proving::begin(&message, &host(), offer(), &mut random).unwrap();
        assert!(opened.hear(&unsigned(&answer, &HOST)[place]).is_err());
        let (proving, _, message) = shown(&offer());
        assert!(proving.prove(&unsigned(&message, &USER)[place]).is_err());
    }
}

/// The answers of a captured exchange whose key was written down.
mod captured {
    use super::*;

    const KEY: [u8; 16] = [
        0xb1, 0x1d, 0x9a, 0x2a, 0x96, 0xbb, 0x28, 0x2b, 0x93, 0x1e, 0x41, 0xe2, 0x55, 0x27, 0x29, 0x84,
    ];

    fn messages() -> Vec<Vec<u8>> {
        let text = include_str!("../../../gsi-wire/tests/vectors/auth_gsi_delegation_keys_known.hex");
        let mut frames: Vec<Vec<u8>> = Vec::new();
        for line in text.lines() {
            match line.strip_prefix("  ") {
                Some(digits) => {
                    let nibble = |digit: u8| char::from(digit).to_digit(16).unwrap() as u8;
                    let pairs = digits.trim().as_bytes().chunks_exact(2);
                    let bytes = pairs.map(|pair| nibble(pair[0]) << 4 | nibble(pair[1]));
                    frames.last_mut().unwrap().extend(bytes);
                }
                None => frames.push(Vec::new()),
            }
        }
        let start = |frame: &[u8]| frame.windows(4).position(|part| part == b"gsi\0");
        let long = frames.iter().filter(|frame| frame.len() > 100);
        long.filter_map(|frame| {
            // A request names the protocol in its header as well.
            let first = start(frame)?;
            let second = start(&frame[first + 4..])
                .filter(|_| first == 16)
                .map(|at| first + 4 + at);
            Some(frame[second.unwrap_or(first)..].to_vec())
        })
        .collect()
    }

    #[test]
    fn agreements_signatures_and_contents_are_understood() {
        let messages = messages();
        let server = ServerHello::parse(&messages[1]).unwrap();
        let certificate = CertificateDer::from_pem_slice(server.certificate).unwrap();
        let host = RsaPublicKey::of_certificate(&certificate).unwrap();
        assert_eq!(host.open(server.signed_tag, 1024).unwrap(), b"ABCDEFG1");
        let authority = gsi_wire::Certificate::parse(&certificate).unwrap();
        let hashes = name_hashes(authority.issuer().der).unwrap();
        assert_eq!(hashes, [0x6629_c24d, 0xf36e_0485]);
        let theirs = host.open(server.agreement, 4096).unwrap();
        let half = gsi_wire::gsi::agreement::Half::parse(&theirs).unwrap();
        assert_eq!((half.prime.len(), &half.generator[..]), (64, &[5][..]));
        assert_eq!(half.encode().as_bytes(), theirs);

        let client = ClientHello::parse(&messages[2]).unwrap();
        let public = SubjectPublicKeyInfoDer::from_pem_slice(client.public_key).unwrap();
        let numbers = PublicNumbers::parse(&public).unwrap();
        assert_eq!(numbers.to_pem(), client.public_key);
        let user = RsaPublicKey::new(&numbers).unwrap();
        let theirs = user.open(client.agreement, 4096).unwrap();
        let answer = gsi_wire::gsi::agreement::Half::parse(&theirs).unwrap();
        assert_eq!((&answer.prime, answer.encode().as_bytes()), (&half.prime, &theirs[..]));

        let key = SessionKey::new(KEY);
        let plain = key.decrypt(client.sealed).unwrap();
        let proof = ClientProof::parse(&plain).unwrap();
        assert_eq!((proof.tag, proof.encode()), (*b"ABCDEFG2", plain.clone()));
        assert_eq!(user.open(proof.signed_tag, 1024).unwrap(), server.tag);

        let plain = key.decrypt(ProxyRequest::sealed(&messages[3]).unwrap()).unwrap();
        let request = ProxyRequest::parse(&plain).unwrap();
        assert_eq!(host.open(request.signed_tag, 1024).unwrap(), b"ABCDEFG2");
        assert!(request.request.starts_with(b"-----BEGIN CERTIFICATE REQUEST-----"));

        let plain = key.decrypt(ProxyAnswer::sealed(&messages[4]).unwrap()).unwrap();
        let answer = ProxyProof::parse(&plain).unwrap();
        assert_eq!(user.open(answer.signed_tag, 1024).unwrap(), request.tag);
        assert!(matches!(answer.grant, ProxyGrant::Signed(_)));
        assert_eq!(Buffer::parse(&plain).unwrap().step(), Step::Proxy);
    }
}
