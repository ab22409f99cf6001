//! Proxies of every kind, sound or broken in one way.

use gsi_wire::proxy::{INHERIT_ALL, LIMITED, PROXY_CERT_INFO, PROXY_CERT_INFO_DRAFT};
use gsi_wire::{encode, voms};

use crate::certificate::{CertificateOptions, name_der, random_serial};
use crate::user::{User, parsed};
use crate::{KeyKind, Result};

/// What a proxy is to be; full and sound unless changed.
#[derive(Debug, Clone)]
pub struct ProxyOptions {
    /// The kind of its key.
    pub key: KeyKind,
    /// Whether it is a limited one.
    pub is_limited: bool,
    /// How many proxies may follow; `None`: any number.
    pub path_length: Option<u32>,
    /// Valid from so many seconds from now on.
    pub starts_s: i64,
    /// Valid until so many seconds from now; negative: it has expired.
    pub ends_s: i64,
    /// Attribute certificates of VOMS, in DER, see [`crate::VomsServer::attributes`].
    pub attributes: Vec<Vec<u8>>,
    /// What is wrong with it.
    pub fault: Option<ProxyFault>,
}

impl Default for ProxyOptions {
    fn default() -> Self {
        Self {
            key: KeyKind::Rsa2048,
            is_limited: false,
            path_length: None,
            starts_s: -300,
            ends_s: 12 * 3600,
            attributes: Vec::new(),
            fault: None,
        }
    }
}

/// One way in which a proxy can be broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyFault {
    /// Its policy was changed after it was signed.
    AlteredPolicy,
    /// It is of the Globus Toolkit 2: no extension, and the name `proxy` or `limited proxy`.
    Legacy,
    /// It has the extension of the draft that the Globus Toolkit 3 went by.
    Draft,
    /// Its name has two more parts than its issuer's.
    TwoNames,
    /// Its name is not below its issuer's.
    OtherName,
    /// It claims to be an authority.
    Authority,
    /// It has a `subjectAltName`.
    AlternativeName,
    /// Its extension `proxyCertInfo` is not critical.
    NotCritical,
    /// Its policy is in this language.
    Language(String),
    /// Its policy has words.
    PolicyWords,
    /// It has an unknown critical extension.
    UnknownExtension,
    /// It claims to be signed with RSA and SHA-1.
    Sha1,
    /// It is for this key, a `SubjectPublicKeyInfo` in DER, such as one that is too short.
    Key(Vec<u8>),
    /// Its signature is not its issuer's.
    WrongSignature,
}

impl User {
    /// A full proxy of RFC 3820, good for twelve hours.
    ///
    /// # Errors
    /// [`crate::Error::Failed`] when the library fails.
    pub fn proxy(&self) -> Result<User> {
        self.proxy_with(&ProxyOptions::default())
    }

    /// A proxy with the attributes of one or more VOs.
    ///
    /// # Errors
    /// As [`Self::proxy`].
    pub fn voms_proxy(&self, attributes: Vec<Vec<u8>>) -> Result<User> {
        self.proxy_with(&ProxyOptions {
            attributes,
            ..ProxyOptions::default()
        })
    }

    /// Any proxy, sound or not.
    ///
    /// # Errors
    /// As [`Self::proxy`].
    pub fn proxy_with(&self, options: &ProxyOptions) -> Result<User> {
        let subject = self.proxy_name(options)?;
        let mut certificate = CertificateOptions {
            key: options.key,
            starts_s: options.starts_s,
            ends_s: options.ends_s,
            ..CertificateOptions::default()
        };
        let mut signer = self.signer()?;
        match &options.fault {
            Some(ProxyFault::Sha1) => {
                let sha1 = encode::object_identifier("1.2.840.113549.1.1.5");
                certificate.claimed_algorithm = Some(encode::sequence(&[&sha1, &[5, 0]]));
            }
            Some(ProxyFault::Key(info)) => certificate.public_key_info = Some(info.clone()),
            Some(ProxyFault::WrongSignature) => signer.pair = signer.pair.another()?,
            _ => {}
        }
        let mut made = certificate.make_with(&subject, &extensions(options), &signer)?;
        if options.fault == Some(ProxyFault::AlteredPolicy) {
            alter_policy(&mut made.der);
        }
        let mut chain = vec![made.der];
        chain.extend(self.chain.iter().cloned());
        Ok(User {
            chain,
            pair: made.pair,
            proxies: self.proxies + 1,
        })
    }

    /// The name of a proxy: its issuer's and a number.
    fn proxy_name(&self, options: &ProxyOptions) -> Result<Vec<u8>> {
        let own = parsed(&self.chain[0])?.subject().one_line.to_owned();
        let digits = random_serial();
        let number = digits
            .iter()
            .take(4)
            .fold(0_u32, |sum, byte| (sum << 8) | u32::from(*byte));
        let last = match (&options.fault, options.is_limited) {
            (Some(ProxyFault::Legacy), false) => "proxy".to_owned(),
            (Some(ProxyFault::Legacy), true) => "limited proxy".to_owned(),
            _ => number.to_string(),
        };
        match &options.fault {
            Some(ProxyFault::TwoNames) => name_der(&format!("{own}/CN={last}/CN=2")),
            Some(ProxyFault::OtherName) => name_der(&format!("/O=Crossload test/CN=somebody else/CN={last}")),
            // The issuer's name byte by byte, however it is encoded.
            _ => {
                let mut parts = inside(parsed(&self.chain[0])?.subject().der).to_vec();
                parts.extend(inside(&name_der(&format!("/CN={last}"))?));
                Ok(encode::sequence(&[&parts]))
            }
        }
    }
}

/// The content of a short or long sequence.
fn inside(der: &[u8]) -> &[u8] {
    let header = match der[1] {
        short if short < 0x80 => 2,
        long => 2 + usize::from(long & 0x7f),
    };
    &der[header..]
}

fn extensions(options: &ProxyOptions) -> Vec<Vec<u8>> {
    let fault = options.fault.as_ref();
    let mut extensions = vec![encode::extension("2.5.29.15", true, &[3, 2, 5, 0xa0])];
    let is_critical = fault != Some(&ProxyFault::NotCritical);
    match fault {
        Some(ProxyFault::Legacy) => {}
        Some(ProxyFault::Draft) => extensions.push(encode::extension(PROXY_CERT_INFO_DRAFT, true, &info(options))),
        _ => extensions.push(encode::extension(PROXY_CERT_INFO, is_critical, &info(options))),
    }
    match fault {
        Some(ProxyFault::Authority) => {
            let basic = encode::sequence(&[&encode::boolean_true()]);
            extensions.push(encode::extension("2.5.29.19", true, &basic));
        }
        Some(ProxyFault::AlternativeName) => {
            let names = encode::sequence(&[&encode::element(0x82, &[b"localhost"])]);
            extensions.push(encode::extension("2.5.29.17", false, &names));
        }
        Some(ProxyFault::UnknownExtension) => extensions.push(encode::extension("1.3.6.1.4.1.55555.1", true, &[5, 0])),
        _ => {}
    }
    if !options.attributes.is_empty() {
        let list: Vec<&[u8]> = options.attributes.iter().map(Vec::as_slice).collect();
        let list = encode::sequence(&[&encode::sequence(&list)]);
        extensions.push(encode::extension(voms::ATTRIBUTE_CERTIFICATES, false, &list));
    }
    extensions
}

/// The content of `proxyCertInfo`.
fn info(options: &ProxyOptions) -> Vec<u8> {
    let language = match &options.fault {
        Some(ProxyFault::Language(language)) => language,
        _ if options.is_limited => LIMITED,
        _ => INHERIT_ALL,
    };
    let words = match &options.fault {
        Some(ProxyFault::PolicyWords) => encode::octet_string(b"all but that"),
        _ => Vec::new(),
    };
    let policy = encode::sequence(&[&encode::object_identifier(language), &words]);
    let length = options
        .path_length
        .map(|length| encode::positive_integer(&length.to_be_bytes()));
    encode::sequence(&[&length.unwrap_or_default(), &policy])
}

/// Turns "inherit all" into another language of the same length, under the same signature.
fn alter_policy(der: &mut [u8]) {
    let language = encode::object_identifier(INHERIT_ALL);
    let found = der.windows(language.len()).position(|window| window == language);
    if let Some(at) = found {
        der[at + language.len() - 1] ^= 3;
    }
}
