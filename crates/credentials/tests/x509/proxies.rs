//! Proxies: those of RFC 3820 are believed, each that breaks a rule is refused with its own code,
//! and OpenSSL is asked too.

use std::fs;
use std::process::Command;

use credentials::x509::{verify_chain, verify_gsi_chain, verify_request};
use gsi_wire::delegation::{CertificateRequest, ProxyDraft, certificate_request};
use gsi_wire::proxy::ProxyPolicy;
use gsi_wire::{Malformed, encode, to_pem};
use testkit::{CertificateOptions, KeyKind, ProxyFault, ProxyOptions, SigningPair, User};
use types::ErrorCode;

use crate::lab::{JANE, LAB, Lab, broken, now_s, plain, with};

#[test]
fn certificates_and_proxies_of_all_kinds_are_believed_as_by_openssl() {
    let Some(lab) = &*LAB else { return };
    let limited = with(|options| options.is_limited = true);
    let full = lab.jane.proxy().unwrap();
    let nested = full.proxy_with(&plain()).unwrap().proxy_with(&plain()).unwrap();
    let narrowed = full.proxy_with(&limited).unwrap().proxy_with(&limited).unwrap();
    let ec_user = CertificateOptions {
        key: KeyKind::EcdsaP256,
        ..CertificateOptions::default()
    };
    let ec_user = lab.authority.issue("/O=Crossload test/CN=EC", &ec_user).unwrap();
    let last = with(|options| options.path_length = Some(0));
    for (user, proxies, is_limited) in [
        (&lab.jane, 0, false),
        (&full, 1, false),
        (&nested, 3, false),
        (&narrowed, 3, true),
        (&ec_user.proxy_with(&plain()).unwrap(), 1, false),
        (&full.proxy_with(&last).unwrap(), 2, false),
    ] {
        let verified = lab.verify(user).unwrap();
        assert_eq!(verified.proxies, proxies);
        assert_eq!(verified.is_limited, is_limited);
        assert_eq!(verified.principal.dn, Some(user.dn().unwrap()));
        assert!(verified.expires_s > now_s());
        assert!(lab.openssl(user), "{proxies} {is_limited}");
    }
    assert_eq!(lab.verify(&nested).unwrap().principal.dn.as_deref(), Some(JANE));
}

/// Proxies with one fault each, made from the user's certificate; what we say of them, and whether
/// OpenSSL accepts them.
fn faults() -> Vec<(ProxyFault, ErrorCode, bool)> {
    let unknown = ProxyFault::Language("1.3.6.1.5.5.7.21.0".to_owned());
    vec![
        (ProxyFault::AlteredPolicy, ErrorCode::CertificateSignature, false),
        (ProxyFault::WrongSignature, ErrorCode::CertificateSignature, false),
        (ProxyFault::Legacy, ErrorCode::ProxyLegacy, false),
        (ProxyFault::Draft, ErrorCode::ProxyLegacy, false),
        (ProxyFault::TwoNames, ErrorCode::ProxyInvalid, false),
        (ProxyFault::OtherName, ErrorCode::ProxyInvalid, false),
        (ProxyFault::Authority, ErrorCode::ProxyInvalid, false),
        (ProxyFault::AlternativeName, ErrorCode::ProxyInvalid, false),
        (ProxyFault::UnknownExtension, ErrorCode::ProxyInvalid, false),
        (ProxyFault::Sha1, ErrorCode::CertificateWeak, false),
        // OpenSSL leaves a policy's meaning to its caller, and does not mind a missing mark.
        (ProxyFault::NotCritical, ErrorCode::ProxyInvalid, true),
        (ProxyFault::PolicyWords, ErrorCode::ProxyPolicyRefused, true),
        (unknown, ErrorCode::ProxyPolicyRefused, true),
    ]
}

fn check_refusal(lab: &Lab, what: &str, user: &User, code: ErrorCode, openssl: bool) {
    let error = lab.verify(user).expect_err(what);
    assert_eq!(error.code(), code, "{what}: {error}");
    assert_eq!(error.code().http_status(), 401);
    assert!(
        error.detail().is_some_and(|detail| detail.contains('/')),
        "{what}: {error}"
    );
    assert_eq!(lab.openssl(user), openssl, "{what}");
}

#[test]
fn each_broken_proxy_is_refused_with_its_own_code_and_openssl_agrees() {
    let Some(lab) = &*LAB else { return };
    let full = lab.jane.proxy_with(&plain()).unwrap();
    for (fault, code, openssl) in faults() {
        let what = format!("{fault:?}");
        let proxy = broken(fault);
        check_refusal(lab, &what, &lab.jane.proxy_with(&proxy).unwrap(), code, openssl);
        // The same one step further down, and in the middle.
        let second = full.proxy_with(&proxy).unwrap();
        check_refusal(lab, &what, &second, code, openssl);
        if openssl || code == ErrorCode::ProxyLegacy {
            continue;
        }
        assert!(lab.verify(&second.proxy_with(&plain()).unwrap()).is_err(), "{what}");
    }
}

#[test]
fn what_a_proxy_may_not_hand_on_and_when_it_is_over() {
    let Some(lab) = &*LAB else { return };
    let full = lab.jane.proxy_with(&plain()).unwrap();
    let limited = lab.jane.proxy_with(&with(|options| options.is_limited = true)).unwrap();
    let last = lab
        .jane
        .proxy_with(&with(|options| options.path_length = Some(0)))
        .unwrap();
    let one_more = lab
        .jane
        .proxy_with(&with(|options| options.path_length = Some(1)))
        .unwrap();
    let expired = with(|options| options.ends_s = -60);
    let early = with(|options| (options.starts_s, options.ends_s) = (3600, 7200));
    let generous = with(|options| options.path_length = Some(9));
    let next = |user: &User, options: &ProxyOptions| user.proxy_with(options).unwrap();
    let (widened, deep) = (ErrorCode::ProxyWidened, ErrorCode::ProxyTooDeep);
    let (over, not_yet) = (ErrorCode::CertificateExpired, ErrorCode::CertificateNotYetValid);
    for (what, user, code, openssl) in [
        ("limited then full", next(&limited, &plain()), widened, true),
        ("too deep", next(&last, &plain()), deep, false),
        (
            "too deep, whatever the next one says",
            next(&next(&one_more, &generous), &plain()),
            deep,
            false,
        ),
        ("expired", next(&full, &expired), over, false),
        (
            "expired in the middle",
            next(&next(&lab.jane, &expired), &plain()),
            over,
            false,
        ),
        ("early", next(&full, &early), not_yet, false),
    ] {
        check_refusal(lab, what, &user, code, openssl);
    }
}

#[test]
fn a_legacy_proxy_is_told_how_to_become_a_good_one() {
    let Some(lab) = &*LAB else { return };
    let proxy = lab.jane.proxy_with(&broken(ProxyFault::Legacy)).unwrap();
    let error = lab.verify(&proxy).unwrap_err();
    assert!(error.public().contains("-rfc"), "{error}");
}

#[test]
fn ten_certificates_are_not_too_many() {
    let Some(lab) = &*LAB else { return };
    let mut user = lab.jane.clone();
    for _ in 0..12 {
        user = user.proxy_with(&plain()).unwrap();
    }
    assert_eq!(lab.verify(&user).unwrap().proxies, 12);
}

#[test]
fn a_delegated_proxy_is_made_from_a_request_and_believed_by_us_and_openssl() {
    let Some(lab) = &*LAB else { return };
    for kind in [KeyKind::Rsa2048, KeyKind::EcdsaP256] {
        let receiver = SigningPair::new(kind).unwrap();
        let name = testkit::name_der("/CN=anything").unwrap();
        let key = receiver.public_key_info();
        let request = certificate_request(&name, &key, &[], receiver.kind(), |message| receiver.sign(message)).unwrap();
        let path = lab.scratch.path().join(format!("{kind:?}.csr"));
        fs::write(&path, to_pem("CERTIFICATE REQUEST", &request)).unwrap();
        let openssl = Command::new("openssl")
            .args(["req", "-verify", "-noout", "-in"])
            .arg(path)
            .output();
        assert!(openssl.unwrap().status.success());
        let request = CertificateRequest::parse(&request).unwrap();
        verify_request(&request).unwrap();
        assert_eq!(
            (&*request.subject_line, request.public_key_info),
            ("/CN=anything", &*key)
        );
        let altered = CertificateRequest {
            signed_part: request.subject,
            ..request.clone()
        };
        assert_eq!(
            verify_request(&altered).unwrap_err().code(),
            ErrorCode::CertificateSignature
        );
        let issuer = gsi_wire::Certificate::parse(lab.jane.end_entity()).unwrap();
        let draft = ProxyDraft {
            issuer: issuer.subject().der,
            common_name: "12345",
            serial: &[1, 2, 3, 4],
            public_key_info: request.public_key_info,
            not_before_s: now_s() - 300,
            not_after_s: now_s() + 3600,
            policy: ProxyPolicy::Limited,
            path_length: Some(2),
            extensions: Vec::new(),
        };
        let own = lab.jane.key();
        let sign = |message: &[u8]| own.sign(message).map_err(|error| Malformed(error.to_string().into()));
        let proxy = draft.encode(own.kind(), sign).unwrap();
        let chain = [&*proxy, lab.jane.end_entity()];
        let verified = verify_chain(&chain, &lab.rules(), now_s()).unwrap();
        assert!(verified.is_limited && verified.expires_s <= now_s() + 3600);
        assert!(lab.openssl_accepts(&chain));
    }
}

#[test]
fn no_bit_of_a_chain_can_be_changed() {
    let Some(lab) = &*LAB else { return };
    let options = CertificateOptions {
        key: KeyKind::EcdsaP256,
        ..CertificateOptions::default()
    };
    let user = lab.authority.issue(JANE, &options).unwrap();
    let proxy = user.proxy_with(&plain()).unwrap();
    let rules = lab.rules();
    let chain = proxy.chain();
    assert!(verify_chain(&chain, &rules, now_s()).is_ok());
    for (position, der) in chain.iter().enumerate() {
        for index in 0..der.len() {
            let mut changed = der.to_vec();
            changed[index] ^= 1 << (index % 8);
            let mut chain = chain.clone();
            chain[position] = &changed;
            let verdict = verify_chain(&chain, &rules, now_s());
            assert!(verdict.is_err(), "byte {index} of certificate {position}: {verdict:?}");
        }
    }
}

#[test]
fn gsi_takes_sha1_in_proxies_only_and_checks_it() {
    let Some(lab) = &*LAB else { return };
    let code = |user: &User| verify_gsi_chain(&user.chain(), &lab.rules(), now_s()).map_err(|error| error.code());
    assert!(code(&lab.jane.proxy().unwrap()).is_ok());
    // It claims SHA-1, and is signed with SHA-256.
    let claimed = lab.jane.proxy_with(&broken(ProxyFault::Sha1)).unwrap();
    assert_eq!(code(&claimed).unwrap_err(), ErrorCode::CertificateSignature);
    let sha1 = encode::object_identifier("1.2.840.113549.1.1.5");
    let options = CertificateOptions {
        claimed_algorithm: Some(encode::sequence(&[&sha1, &[5, 0]])),
        ..CertificateOptions::default()
    };
    let weak = lab.authority.issue(JANE, &options).unwrap();
    assert_eq!(code(&weak).unwrap_err(), ErrorCode::CertificateWeak);
    assert_eq!(code(&weak.proxy().unwrap()).unwrap_err(), ErrorCode::CertificateWeak);
}
