//! A chain of certificates: what was issued by authorities, and the proxies in front of it.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use gsi_wire::{Certificate, dn};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use types::limits::CERTIFICATE_CHAIN_MAX;
use types::{Error, ErrorCode};
use webpki::{EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeIdIter, KeyUsage};

use super::signature::ProxyDigests;
use super::trust::Authority;
use super::{CertificateRules, attributes, proxies, refused, signature, unreadable};
use crate::{CertificateIssuer, Principal, VerifiedCertificate};

/// How many names of a host's certificate an error lists when none is the wanted one.
const NAMES_TOLD_MAX: usize = 8;

/// A host's certificate that was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedHost {
    /// Its subject in one line.
    pub dn: String,
    /// The end of the first certificate of its chain that ends, in seconds since 1970.
    pub expires_s: i64,
}

/// Verifies what a client showed: the proxies, if it has some, the certificate that they were made
/// from, and whatever authorities' certificates it sent along, in DER, its own first.
///
/// Whether the client holds the key of the first certificate is for the caller to find out, as TLS
/// does.
///
/// # Errors
/// Each reason has its own code, `certificate_…` or `proxy_…`. VOMS attributes that are not
/// believed are no error: they are left out, and [`VerifiedCertificate::attribute_faults`] says
/// why.
pub fn verify_chain(chain: &[&[u8]], rules: &CertificateRules, now_s: i64) -> Result<VerifiedCertificate, Error> {
    verify_with(chain, rules, ProxyDigests::Strong, now_s)
}

/// As [`verify_chain`], for a chain that was shown by gsi: its proxies may be signed with SHA-1,
/// because XRootD 5 signs proxies in no other way. What an authority issued may not.
///
/// # Errors
/// As [`verify_chain`].
pub fn verify_gsi_chain(chain: &[&[u8]], rules: &CertificateRules, now_s: i64) -> Result<VerifiedCertificate, Error> {
    verify_with(chain, rules, ProxyDigests::AlsoSha1, now_s)
}

fn verify_with(
    chain: &[&[u8]],
    rules: &CertificateRules,
    digests: ProxyDigests,
    now_s: i64,
) -> Result<VerifiedCertificate, Error> {
    let certificates = parse(chain)?;
    let count = proxies::count(&certificates)?;
    let Some((holder, above)) = certificates[count..].split_first() else {
        return Err(refused(
            ErrorCode::CertificateUntrusted,
            "only proxies were sent, not the certificate that they were made from",
        ));
    };
    let path = verify_end_entity(holder, above, rules, Purpose::Client, now_s)?;
    let verified = proxies::verify(&certificates[..=count], digests, now_s)?;
    let attributes = attributes::verify(&certificates[..count], holder, rules, now_s);
    // Rules and maps name people in this spelling too.
    let dn = dn::canonical(holder.subject().one_line);
    let mapped = rules.grid_map.user(&dn);
    let user = mapped.or_else(|| rules.voms_map.user(&dn, &attributes.fqans));
    let ends = [Some(path.expires_s), verified.expires_s, attributes.expires_s];
    Ok(VerifiedCertificate {
        expires_s: ends.into_iter().flatten().min().unwrap_or(path.expires_s),
        proxies: count,
        is_limited: verified.is_limited,
        allows_proxies: verified.left != Some(0),
        attribute_faults: attributes.faults,
        issuer: path.issuer,
        principal: Principal {
            user: user.map(str::to_owned),
            dn: Some(dn),
            vos: attributes.vos,
            fqans: attributes.fqans,
            ..Principal::default()
        },
    })
}

/// Verifies what a server showed to a client that wants to speak with `host`, a name or an address:
/// its certificate and whatever authorities' certificates it sent along, in DER, its own first. The
/// name must be one of `subjectAltName`.
///
/// # Errors
/// Each reason has its own code; another name is `certificate_unsuitable`.
pub fn verify_host(chain: &[&[u8]], rules: &CertificateRules, host: &str, now_s: i64) -> Result<VerifiedHost, Error> {
    let certificates = parse(chain)?;
    let Some((own, above)) = certificates.split_first() else {
        return Err(refused(ErrorCode::CertificateMalformed, "no certificate was sent"));
    };
    let path = verify_end_entity(own, above, rules, Purpose::Server, now_s)?;
    let der = CertificateDer::from(own.der());
    let end_entity = EndEntityCert::try_from(&der).map_err(|error| refusal(&error, own))?;
    let is_for_host =
        ServerName::try_from(host).is_ok_and(|name| end_entity.verify_is_valid_for_subject_name(&name).is_ok());
    if !is_for_host {
        let name = own.subject().one_line;
        let others: Vec<&str> = end_entity.valid_dns_names().take(NAMES_TOLD_MAX).collect();
        let others = match others.is_empty() {
            true => String::new(),
            false => format!(", but for {}", others.join(", ")),
        };
        return Err(refused(
            ErrorCode::CertificateUnsuitable,
            format!("{name} is not for the host {host}{others}"),
        ));
    }
    Ok(VerifiedHost {
        dn: own.subject().one_line.to_owned(),
        expires_s: path.expires_s,
    })
}

fn parse<'c>(chain: &[&'c [u8]]) -> Result<Vec<Certificate<'c>>, Error> {
    if chain.len() > CERTIFICATE_CHAIN_MAX {
        return Err(refused(
            ErrorCode::CertificateChainTooLong,
            format!(
                "{} certificates were sent, {CERTIFICATE_CHAIN_MAX} are read",
                chain.len()
            ),
        ));
    }
    let parsed = chain.iter().map(|der| Certificate::parse(der));
    parsed.collect::<Result<_, _>>().map_err(|why| unreadable(&why))
}

/// What a certificate must be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Client,
    Server,
    /// Signing something that is no TLS handshake.
    Any,
}

impl ExtendedKeyUsageValidator for Purpose {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        match self {
            Self::Client => KeyUsage::client_auth().validate(purposes),
            Self::Server => KeyUsage::server_auth().validate(purposes),
            Self::Any => Ok(()),
        }
    }
}

/// The way from a certificate to an authority of the trust store.
pub(super) struct Path {
    /// The names in one line, from the certificate's own up to the authority's.
    pub(super) names: Vec<String>,
    /// Who issued the certificate.
    pub(super) issuer: CertificateIssuer,
    /// The end of the first of them that ends, in seconds since 1970.
    pub(super) expires_s: i64,
}

/// Verifies a certificate that an authority issued. `above` are certificates that may lie between.
///
/// # Errors
/// Each reason has its own code.
pub(super) fn verify_end_entity(
    own: &Certificate<'_>,
    above: &[Certificate<'_>],
    rules: &CertificateRules,
    purpose: Purpose,
    now_s: i64,
) -> Result<Path, Error> {
    let name = own.subject().one_line;
    if own.is_ca() {
        let why = format!("{name} is the certificate of an authority, as self-signed ones mostly are");
        return Err(refused(ErrorCode::CertificateUnsuitable, why));
    }
    check_time(own, now_s)?;
    signature::check_key(own, name)?;

    let der = CertificateDer::from(own.der());
    let end_entity = EndEntityCert::try_from(&der).map_err(|error| refusal(&error, own))?;
    let sent = above.iter().map(|certificate| CertificateDer::from(certificate.der()));
    let known = rules
        .trust
        .intermediates()
        .iter()
        .map(|der| CertificateDer::from(der.as_ref()));
    let between: Vec<CertificateDer<'_>> = sent.chain(known).collect();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now_s).unwrap_or(0)));
    let path = end_entity
        .verify_for_usage(
            signature::ALGORITHMS,
            rules.trust.anchors(),
            &between,
            now,
            purpose,
            None,
            None,
        )
        .map_err(|error| refusal(&error, own))?;

    let between: Vec<CertificateDer<'_>> = path.intermediate_certificates().map(webpki::Cert::der).collect();
    let mut links = vec![own.clone()];
    for der in &between {
        links.push(Certificate::parse(der).map_err(|why| unreadable(&why))?);
    }
    let top = links[links.len() - 1].issuer().der.to_vec();
    let key = path.anchor().subject_public_key_info.as_ref();
    // What `webpki` keeps of a key is without the outermost tag and length.
    let anchor = rules
        .trust
        .named(&top)
        .find(|authority| authority.public_key_info.ends_with(key));
    let anchor = anchor.ok_or_else(|| refusal(&webpki::Error::UnknownIssuer, own))?;
    check_links(&links, anchor, rules, now_s)
}

/// Checks what `webpki` does not: the authority's own time, the names that each may sign, and
/// revocation lists.
fn check_links(
    links: &[Certificate<'_>],
    anchor: &Authority,
    rules: &CertificateRules,
    now_s: i64,
) -> Result<Path, Error> {
    if !(anchor.not_before_s..=anchor.not_after_s).contains(&now_s) {
        return Err(refused(
            ErrorCode::CertificateUntrusted,
            format!(
                "the certificate of the authority {} is not valid now",
                anchor.subject_line
            ),
        ));
    }
    let mut names = Vec::new();
    let mut expires_s = anchor.not_after_s;
    for (index, link) in links.iter().enumerate() {
        let issuer = match links.get(index + 1) {
            Some(above) => rules
                .trust
                .named(above.subject().der)
                .find(|known| *known.der == *above.der()),
            None => Some(anchor),
        };
        let name = link.subject().one_line;
        if let Some(issuer) = issuer {
            issuer.names.check(name).map_err(|why| {
                refused(
                    ErrorCode::CertificateNameRefused,
                    format!("{} issued {name}, but {why}", issuer.subject_line),
                )
            })?;
        }
        let nothing = super::revocation::Knowledge::Nothing;
        let knowledge = issuer.map_or(&nothing, |issuer| &issuer.revocation);
        knowledge.check(link, rules.revocation, now_s)?;
        expires_s = expires_s.min(link.not_after_s());
        names.push(dn::canonical(name));
    }
    names.push(dn::canonical(&anchor.subject_line));
    let key = links
        .get(1)
        .map_or(&anchor.public_key_info[..], Certificate::public_key_info);
    let issuer = CertificateIssuer {
        dn: names.get(1).cloned().unwrap_or_default(),
        key_sha256: sha256(key),
    };
    Ok(Path {
        names,
        issuer,
        expires_s,
    })
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

/// Checks that a certificate is valid at this time.
///
/// # Errors
/// `certificate_expired`, `certificate_not_yet_valid`.
pub(super) fn check_time(certificate: &Certificate<'_>, now_s: i64) -> Result<(), Error> {
    let name = certificate.subject().one_line;
    let at = |time_s| crate::format_time(time_s);
    if now_s > certificate.not_after_s() {
        let why = format!("{name} was valid until {}", at(certificate.not_after_s()));
        return Err(refused(ErrorCode::CertificateExpired, why));
    }
    if now_s < certificate.not_before_s() {
        let why = format!("{name} is valid from {} on", at(certificate.not_before_s()));
        return Err(refused(ErrorCode::CertificateNotYetValid, why));
    }
    Ok(())
}

/// The refusal that an error of `webpki` means for the certificate.
fn refusal(error: &webpki::Error, own: &Certificate<'_>) -> Error {
    use webpki::Error as E;
    let (name, issuer) = (own.subject().one_line, own.issuer().one_line);
    let (code, why) = match error {
        E::UnknownIssuer => (
            ErrorCode::CertificateUntrusted,
            format!("{name} was issued by {issuer}, which is not trusted and does not lead to an authority that is"),
        ),
        E::EndEntityUsedAsCa => (
            ErrorCode::CertificateUntrusted,
            format!("{name} was issued by a certificate that is not an authority's"),
        ),
        E::InvalidSignatureForPublicKey => (
            ErrorCode::CertificateSignature,
            format!("{name} was altered, or {issuer} did not sign it"),
        ),
        E::CertExpired { .. } => (
            ErrorCode::CertificateExpired,
            format!("an authority between {name} and one that is trusted has expired"),
        ),
        E::CertNotValidYet { .. } => (
            ErrorCode::CertificateNotYetValid,
            format!("an authority between {name} and one that is trusted is not valid yet"),
        ),
        E::RequiredEkuNotFoundContext(_) | E::EmptyEkuExtension | E::CaUsedAsEndEntity => (
            ErrorCode::CertificateUnsuitable,
            format!("{name} is not made for this side of a connection"),
        ),
        E::NameConstraintViolation | E::PathLenConstraintViolated => (
            ErrorCode::CertificateNameRefused,
            format!("an authority above {name} may not issue such certificates"),
        ),
        E::UnsupportedSignatureAlgorithmContext(_) | E::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => (
            ErrorCode::CertificateWeak,
            format!("{name}, or an authority above it, is signed in a way that is not accepted, such as with SHA-1"),
        ),
        E::UnsupportedCriticalExtension => (
            ErrorCode::CertificateUnsuitable,
            format!("{name} has a critical extension that is not understood here"),
        ),
        E::MaximumPathBuildCallsExceeded
        | E::MaximumPathDepthExceeded
        | E::MaximumSignatureChecksExceeded
        | E::MaximumNameConstraintComparisonsExceeded => (
            ErrorCode::CertificateChainTooLong,
            format!("there are too many authorities above {name}"),
        ),
        _ => (ErrorCode::CertificateMalformed, format!("{name} cannot be read")),
    };
    refused(code, why).with_private(format_args!("{error:?}"))
}
