//! What the client signs when a server asks for a proxy, and every request that it refuses.

use credentials::x509::{Naming, ProxyTerms, Unsigned, proxy_terms, verify_request};
use gsi_wire::delegation::CertificateRequest;
use gsi_wire::proxy::{INDEPENDENT, INHERIT_ALL, LIMITED, PROXY_CERT_INFO, ProxyPolicy};
use gsi_wire::{Certificate, encode};
use testkit::{KeyKind, ProxyFault, SigningPair, User, name_der};

use crate::lab::{LAB, broken, plain, with};

/// A request, sound unless changed.
struct Draft<'a> {
    subject: String,
    /// `None`: the signer's.
    key: Option<Vec<u8>>,
    extensions: Vec<Vec<u8>>,
    signer: &'a SigningPair,
    algorithm: Vec<u8>,
    signature: Option<Vec<u8>>,
}

impl<'a> Draft<'a> {
    fn new(subject: String, signer: &'a SigningPair) -> Self {
        Self {
            subject,
            key: None,
            extensions: vec![usage(0xa0), info(None, INHERIT_ALL)],
            signer,
            algorithm: signer.kind().algorithm(),
            signature: None,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let extensions: Vec<&[u8]> = self.extensions.iter().map(Vec::as_slice).collect();
        let attribute = encode::sequence(&[
            &encode::object_identifier("1.2.840.113549.1.9.14"),
            &encode::set(&[&encode::sequence(&extensions)]),
        ]);
        let key = self.key.clone().unwrap_or_else(|| self.signer.public_key_info());
        let content = encode::sequence(&[
            &encode::positive_integer(&[0]),
            &name_der(&self.subject).unwrap(),
            &key,
            &encode::element(encode::context(0), &[&attribute]),
        ]);
        let signature = self.signature.clone();
        let signature = signature.unwrap_or_else(|| self.signer.sign(&content).unwrap());
        encode::sequence(&[&content, &self.algorithm, &encode::bit_string(&signature)])
    }
}

fn usage(bits: u8) -> Vec<u8> {
    encode::extension("2.5.29.15", true, &[3, 2, 0, bits])
}

fn info(path_length: Option<u8>, language: &str) -> Vec<u8> {
    let length = path_length.map(|length| encode::positive_integer(&[length]));
    let policy = encode::sequence(&[&encode::object_identifier(language)]);
    let content = encode::sequence(&[&length.unwrap_or_default(), &policy]);
    encode::extension(PROXY_CERT_INFO, true, &content)
}

fn terms(user: &User, request: &[u8], naming: Naming) -> Result<ProxyTerms, Unsigned> {
    let chain: Vec<_> = user
        .chain()
        .into_iter()
        .map(|der| Certificate::parse(der).unwrap())
        .collect();
    let request = CertificateRequest::parse(request).unwrap();
    proxy_terms(&chain, &request, naming)
}

/// The subject of the first certificate.
fn subject(user: &User) -> String {
    Certificate::parse(user.chain()[0])
        .unwrap()
        .subject()
        .one_line
        .to_owned()
}

fn numbered(user: &User) -> String {
    format!("{}/CN=4711", subject(user))
}

#[test]
fn a_proxy_says_what_its_request_asks_for_within_its_own_chain() {
    let Some(lab) = &*LAB else { return };
    let server = SigningPair::new(KeyKind::Rsa2048).unwrap();
    let proxy = lab.jane.proxy().unwrap();
    let limited = proxy.proxy_with(&with(|options| options.is_limited = true)).unwrap();
    let after_limited = limited.proxy_with(&with(|options| options.is_limited = true)).unwrap();
    let short = lab
        .jane
        .proxy_with(&with(|options| options.path_length = Some(3)))
        .unwrap();
    let shorter = short.proxy_with(&plain()).unwrap();
    let (full, narrow) = (ProxyPolicy::Full, ProxyPolicy::Limited);
    for (user, asked, language, policy, path_length) in [
        (&lab.jane, None, INHERIT_ALL, &full, None),
        (&proxy, None, INHERIT_ALL, &full, None),
        (&proxy, Some(1), INHERIT_ALL, &full, Some(1)),
        (&proxy, None, LIMITED, &narrow, None),
        (&limited, None, INHERIT_ALL, &narrow, None),
        (&after_limited, None, INHERIT_ALL, &narrow, None),
        (&short, None, INHERIT_ALL, &full, Some(2)),
        (&short, Some(9), INHERIT_ALL, &full, Some(2)),
        (&short, Some(0), INHERIT_ALL, &full, Some(0)),
        (&shorter, None, INHERIT_ALL, &full, Some(1)),
    ] {
        let mut draft = Draft::new(numbered(user), &server);
        draft.extensions = vec![usage(0xa0), info(asked, language)];
        let terms = terms(user, &draft.encode(), Naming::Numbered).unwrap();
        let wanted = ProxyTerms {
            number: Some(4711),
            policy: policy.clone(),
            path_length,
        };
        assert_eq!(terms, wanted, "{asked:?} {language}");
    }
    // A GridSite service names nothing in particular.
    let mut free = Draft::new("/CN=delegation".to_owned(), &server);
    free.extensions.clear();
    assert_eq!(terms(&proxy, &free.encode(), Naming::Free).unwrap().number, None);
}

#[test]
fn hostile_requests_are_refused_in_words() {
    let Some(lab) = &*LAB else { return };
    let proxy = lab.jane.proxy().unwrap();
    let server = SigningPair::new(KeyKind::Rsa2048).unwrap();
    let other = SigningPair::new(KeyKind::Rsa2048).unwrap();
    let own = numbered(&proxy);
    let good = || Draft::new(own.clone(), &server);
    let extended = |extension: Vec<u8>| Draft {
        extensions: vec![extension],
        ..good()
    };
    let authority = encode::sequence(&[&encode::boolean_true()]);
    let host = encode::sequence(&[&encode::element(0x82, &[b"localhost"])]);
    let cases = [
        (
            Draft {
                subject: "/CN=other/CN=1".into(),
                ..good()
            },
            "not for a proxy of",
        ),
        (
            Draft {
                subject: subject(&lab.jane),
                ..good()
            },
            "not for a proxy of",
        ),
        (
            Draft {
                subject: format!("{}/CN=x", subject(&proxy)),
                ..good()
            },
            "with a number",
        ),
        (
            Draft {
                subject: format!("{}/CN=0", subject(&proxy)),
                ..good()
            },
            "with a number",
        ),
        (
            Draft {
                subject: format!("{own}/CN=2"),
                ..good()
            },
            "with a number",
        ),
        (
            Draft {
                subject: format!("{}/CN=18446744073709551616", subject(&proxy)),
                ..good()
            },
            "with a number",
        ),
        (
            Draft {
                key: Some(other.public_key_info()),
                ..good()
            },
            "altered",
        ),
        (
            Draft {
                signature: Some(vec![7; 256]),
                ..good()
            },
            "altered",
        ),
        (
            Draft {
                key: Some(weak_key()),
                ..good()
            },
            "only 1024 bits",
        ),
        (
            Draft {
                algorithm: md5_with_rsa(),
                ..good()
            },
            "not accepted",
        ),
        (
            extended(encode::extension("2.5.29.19", true, &authority)),
            "of an authority",
        ),
        (extended(usage(0x84)), "signs certificates"),
        (extended(usage(0x82)), "signs certificates"),
        (
            extended(encode::extension("2.5.29.17", false, &host)),
            "alternative name",
        ),
        (extended(info(None, INDEPENDENT)), "unknown policy"),
        (extended(info(None, "1.2.3.4")), "unknown policy"),
        (extended(encode::extension(PROXY_CERT_INFO, true, b"")), "cut off"),
    ];
    for (draft, words) in cases {
        match terms(&proxy, &draft.encode(), Naming::Numbered) {
            Err(Unsigned::Request(said)) => assert!(said.contains(words), "{said}"),
            other => panic!("{words}: {other:?}"),
        }
    }
    assert!(terms(&proxy, &good().encode(), Naming::Numbered).is_ok());
}

#[test]
fn a_proxy_that_allows_no_other_signs_none() {
    let Some(lab) = &*LAB else { return };
    let server = SigningPair::new(KeyKind::Rsa2048).unwrap();
    let with_length = |user: &User, length| {
        user.proxy_with(&with(|options| options.path_length = Some(length)))
            .unwrap()
    };
    let last = with_length(&lab.jane, 0);
    let used_up = with_length(&lab.jane, 1).proxy_with(&plain()).unwrap();
    let language = ProxyFault::Language(INDEPENDENT.to_owned());
    for (user, words) in [
        (last, "path length 0"),
        (used_up, "path length 0"),
        (lab.jane.proxy_with(&broken(language)).unwrap(), "none of the rights"),
        (lab.jane.proxy_with(&broken(ProxyFault::Legacy)).unwrap(), "-rfc"),
        (lab.jane.proxy_with(&broken(ProxyFault::Draft)).unwrap(), "-rfc"),
    ] {
        let request = Draft::new(numbered(&user), &server).encode();
        match terms(&user, &request, Naming::Numbered) {
            Err(Unsigned::Own(said)) => assert!(said.contains(words), "{said}"),
            other => panic!("{words}: {other:?}"),
        }
    }
}

/// What XRootD 5.5.3 sent: signed with SHA-1, with a copy of the extensions of the client's proxy.
#[test]
fn the_request_of_xrootd_is_read() {
    let text = include_bytes!("xrootd_5.5.3_request.pem");
    let blocks = gsi_wire::pem_blocks(text).unwrap();
    let request = CertificateRequest::parse(&blocks[0].der).unwrap();
    verify_request(&request).unwrap();
    assert_eq!(request.extensions.len(), 6);
    assert!(!request.asks_for_authority().unwrap());
    assert_eq!(request.proxy_info().unwrap().unwrap().path_length, Some(0));
    assert!(
        request.subject_line.ends_with("/CN=678956607/CN=1087806317"),
        "{}",
        request.subject_line
    );
    let altered = CertificateRequest {
        signed_part: request.subject,
        ..request.clone()
    };
    assert!(verify_request(&altered).is_err());
}

/// A key of 1024 bits without its other half.
fn weak_key() -> Vec<u8> {
    let algorithm = encode::sequence(&[&encode::object_identifier("1.2.840.113549.1.1.1"), &[5, 0]]);
    let numbers = encode::sequence(&[
        &encode::positive_integer(&[0xc5; 128]),
        &encode::positive_integer(&[1, 0, 1]),
    ]);
    encode::sequence(&[&algorithm, &encode::bit_string(&numbers)])
}

fn md5_with_rsa() -> Vec<u8> {
    encode::sequence(&[&encode::object_identifier("1.2.840.113549.1.1.4"), &[5, 0]])
}
