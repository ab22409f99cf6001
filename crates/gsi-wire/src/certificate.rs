//! A certificate (RFC 5280), parsed but not verified.

use crate::limits::{CERTIFICATE_BYTES_MAX, CERTIFICATE_EXTENSIONS_MAX};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::der::{self, SEQUENCE};
use crate::proxy::{self, ProxyInfo, ProxyKind};
use crate::{Malformed, dn, malformed};

/// A certificate that could be read.
#[derive(Clone, Debug)]
pub struct Certificate<'a> {
    inner: X509Certificate<'a>,
    /// The algorithm of its signature, an `AlgorithmIdentifier` in DER.
    signature_algorithm: &'a [u8],
    /// The content of the same without tag and length.
    signature_algorithm_content: &'a [u8],
    /// The content of the key's `AlgorithmIdentifier`.
    key_algorithm_content: &'a [u8],
    subject: String,
    issuer: String,
}

/// A name in DER, with its one-line form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'c> {
    /// All of the name's DER. Names are equal when these bytes are.
    pub der: &'c [u8],
    /// As OpenSSL writes it, see [`dn::one_line`].
    pub one_line: &'c str,
}

/// An extension of a certificate.
#[derive(Clone, Copy, Debug)]
pub struct Extension<'c> {
    /// The content of its object identifier, without tag and length.
    oid: &'c [u8],
    /// Critical: a reader that does not know it must refuse the certificate.
    pub is_critical: bool,
    /// What is in its octet string.
    pub value: &'c [u8],
}

impl Extension<'_> {
    /// Its object identifier in dotted form.
    #[must_use]
    pub fn oid(&self) -> String {
        der::dotted(self.oid).unwrap_or_default()
    }
}

/// What a key may be used for (RFC 5280 §4.2.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUsage {
    /// To sign anything other than certificates and revocation lists.
    pub digital_signature: bool,
    /// To sign certificates.
    pub certificate_sign: bool,
    /// To sign revocation lists.
    pub revocation_list_sign: bool,
}

/// The kind of key that a certificate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicKeyKind {
    /// RSA with so many bits.
    Rsa(usize),
    /// ECDSA on P-256.
    EcP256,
    /// ECDSA on P-384.
    EcP384,
    /// Ed25519.
    Ed25519,
    /// Anything else.
    Other,
}

impl PublicKeyKind {
    /// That of a `SubjectPublicKeyInfo` in DER.
    pub(crate) fn of_info(der: &[u8]) -> Self {
        match SubjectPublicKeyInfo::from_der(der) {
            Ok((_, info)) => Self::of(&info),
            Err(_) => Self::Other,
        }
    }

    fn of(info: &SubjectPublicKeyInfo<'_>) -> Self {
        let curve = || {
            let parameters = info.algorithm.parameters.as_ref()?;
            Some(parameters.as_oid().ok()?.to_id_string())
        };
        match (info.parsed(), &*info.algorithm.algorithm.to_id_string()) {
            (Ok(PublicKey::RSA(key)), _) => Self::Rsa(key.key_size()),
            (Ok(PublicKey::EC(_)), _) => match curve().as_deref() {
                Some("1.2.840.10045.3.1.7") => Self::EcP256,
                Some("1.3.132.0.34") => Self::EcP384,
                _ => Self::Other,
            },
            (_, "1.3.101.112") => Self::Ed25519,
            _ => Self::Other,
        }
    }
}

impl<'a> Certificate<'a> {
    /// Reads a certificate of version 3 (or an authority's of version 1). `der` is exactly one
    /// certificate.
    ///
    /// # Errors
    /// When it cannot be read, has an extension twice, more than [`CERTIFICATE_EXTENSIONS_MAX`] of
    /// them, or is larger than [`CERTIFICATE_BYTES_MAX`].
    pub fn parse(der: &'a [u8]) -> Result<Self, Malformed> {
        if der.len() > CERTIFICATE_BYTES_MAX {
            return Err(malformed("the certificate is too large"));
        }
        // Before the library looks at it: what follows it, and the algorithms as bytes, which it
        // does not keep.
        let mut whole = der::only(der, SEQUENCE, "the certificate")?.inside();
        whole.expect(SEQUENCE, "the certificate's content")?;
        let algorithm = whole.expect(SEQUENCE, "the algorithm of the signature")?;
        whole.any()?;
        whole.finish()?;
        let (_, inner) = X509Certificate::from_der(der).map_err(|_| malformed("the certificate cannot be read"))?;
        let key_algorithm = der::only(inner.tbs_certificate.subject_pki.raw, SEQUENCE, "the public key")?
            .inside()
            .expect(SEQUENCE, "the algorithm of the key")?;
        let certificate = Self {
            signature_algorithm: algorithm.raw,
            signature_algorithm_content: algorithm.content,
            key_algorithm_content: key_algorithm.content,
            subject: dn::one_line(inner.subject().as_raw())?,
            issuer: dn::one_line(inner.issuer().as_raw())?,
            inner,
        };
        certificate.check_extensions()?;
        Ok(certificate)
    }

    fn check_extensions(&self) -> Result<(), Malformed> {
        let extensions = self.inner.extensions();
        if extensions.len() > CERTIFICATE_EXTENSIONS_MAX {
            return Err(malformed("the certificate has too many extensions"));
        }
        for (index, extension) in extensions.iter().enumerate() {
            if extensions[..index].iter().any(|earlier| earlier.oid == extension.oid) {
                return Err(malformed("the certificate has an extension twice"));
            }
            let known = matches!(
                extension.oid.to_id_string().as_str(),
                "2.5.29.15" | "2.5.29.17" | "2.5.29.19" | "2.5.29.37"
            );
            if known && matches!(extension.parsed_extension(), ParsedExtension::ParseError { .. }) {
                return Err(malformed("an extension of the certificate cannot be read"));
            }
        }
        Ok(())
    }

    /// All of it.
    #[must_use]
    pub fn der(&self) -> &'a [u8] {
        self.inner.as_raw()
    }

    /// What was signed.
    #[must_use]
    pub fn signed_part(&self) -> &[u8] {
        self.inner.tbs_certificate.as_ref()
    }

    /// The signature.
    #[must_use]
    pub fn signature(&self) -> &[u8] {
        &self.inner.signature_value.data
    }

    /// The algorithm of the signature, an `AlgorithmIdentifier` in DER.
    #[must_use]
    pub fn signature_algorithm(&self) -> &'a [u8] {
        self.signature_algorithm
    }

    /// The content of [`Self::signature_algorithm`], without its tag and length.
    #[must_use]
    pub fn signature_algorithm_content(&self) -> &'a [u8] {
        self.signature_algorithm_content
    }

    /// Who it names.
    #[must_use]
    pub fn subject(&self) -> Name<'_> {
        Name {
            der: self.inner.subject().as_raw(),
            one_line: &self.subject,
        }
    }

    /// Who signed it.
    #[must_use]
    pub fn issuer(&self) -> Name<'_> {
        Name {
            der: self.inner.issuer().as_raw(),
            one_line: &self.issuer,
        }
    }

    /// Its number, as the bytes of its integer.
    #[must_use]
    pub fn serial(&self) -> &'a [u8] {
        self.inner.raw_serial()
    }

    /// Valid from this time on, in seconds since 1970.
    #[must_use]
    pub fn not_before_s(&self) -> i64 {
        self.inner.validity().not_before.timestamp()
    }

    /// Valid until this time, in seconds since 1970.
    #[must_use]
    pub fn not_after_s(&self) -> i64 {
        self.inner.validity().not_after.timestamp()
    }

    /// The key: a `SubjectPublicKeyInfo` in DER.
    #[must_use]
    pub fn public_key_info(&self) -> &'a [u8] {
        self.inner.tbs_certificate.subject_pki.raw
    }

    /// The key's bits, without its algorithm: of RSA an `RSAPublicKey` in DER (RFC 8017 A.1.1).
    #[must_use]
    pub fn public_key(&self) -> &[u8] {
        &self.inner.public_key().subject_public_key.data
    }

    /// The content of the `AlgorithmIdentifier` of the key, without its tag and length.
    #[must_use]
    pub fn key_algorithm_content(&self) -> &'a [u8] {
        self.key_algorithm_content
    }

    /// The kind of the key.
    #[must_use]
    pub fn public_key_kind(&self) -> PublicKeyKind {
        PublicKeyKind::of(self.inner.public_key())
    }

    /// Whether its extension `basicConstraints` says that it is an authority's.
    #[must_use]
    pub fn is_ca(&self) -> bool {
        self.inner.is_ca()
    }

    /// What its key may be used for; `None`: it does not say, so anything.
    #[must_use]
    pub fn key_usage(&self) -> Option<KeyUsage> {
        let usage = self.inner.key_usage().ok()??.value;
        Some(KeyUsage {
            digital_signature: usage.digital_signature(),
            certificate_sign: usage.key_cert_sign(),
            revocation_list_sign: usage.crl_sign(),
        })
    }

    /// The purposes of its extended key usage in dotted form (RFC 5280 §4.2.1.12); `None`: it does
    /// not say.
    #[must_use]
    pub fn extended_key_usage(&self) -> Option<Vec<String>> {
        let usage = self.inner.extended_key_usage().ok()??.value;
        let named = [
            (usage.any, "2.5.29.37.0"),
            (usage.server_auth, "1.3.6.1.5.5.7.3.1"),
            (usage.client_auth, "1.3.6.1.5.5.7.3.2"),
            (usage.code_signing, "1.3.6.1.5.5.7.3.3"),
            (usage.email_protection, "1.3.6.1.5.5.7.3.4"),
            (usage.time_stamping, "1.3.6.1.5.5.7.3.8"),
            (usage.ocsp_signing, "1.3.6.1.5.5.7.3.9"),
        ];
        let known = named.iter().filter(|(has, _)| *has).map(|(_, oid)| (*oid).to_owned());
        Some(known.chain(usage.other.iter().map(|oid| oid.to_id_string())).collect())
    }

    /// The host names that its extension `subjectAltName` lists.
    #[must_use]
    pub fn dns_names(&self) -> Vec<&str> {
        let names = self.inner.subject_alternative_name();
        let names = names.ok().flatten().map(|found| found.value.general_names.as_slice());
        let dns = |name| match name {
            &GeneralName::DNSName(host) => Some(host),
            _ => None,
        };
        names.unwrap_or_default().iter().filter_map(dns).collect()
    }

    /// Its extensions, in order.
    pub fn extensions(&self) -> impl Iterator<Item = Extension<'_>> {
        self.inner.extensions().iter().map(|extension| Extension {
            oid: extension.oid.as_bytes(),
            is_critical: extension.critical,
            value: extension.value,
        })
    }

    /// The extension with this object identifier in dotted form.
    #[must_use]
    pub fn extension(&self, oid: &str) -> Option<Extension<'_>> {
        self.extensions().find(|extension| extension.oid() == oid)
    }

    /// What its extension `proxyCertInfo` says (RFC 3820 §3.8, or its draft of GT3); `None` when it
    /// has none.
    ///
    /// # Errors
    /// When the extension cannot be read, or both forms of it are there.
    pub fn proxy_info(&self) -> Result<Option<ProxyInfo<'_>>, Malformed> {
        proxy::info_of(self)
    }

    /// What kind of proxy it is; `None`: no proxy.
    ///
    /// # Errors
    /// As [`Self::proxy_info`].
    pub fn proxy_kind(&self) -> Result<Option<ProxyKind>, Malformed> {
        proxy::kind_of(self)
    }
}
