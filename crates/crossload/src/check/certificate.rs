//! Checks the server's certificate: key, names, validity, strength and chain.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use net::tls::ServerTls;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use types::is_open_to_others;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};
use x509_parser::public_key::PublicKey;

use super::finding::{Finding, Position};
use super::trust::Authorities;
use crate::dates::date;

const DAY_S: i64 = 24 * 3600;
/// Least size of an RSA key, in bits (NIST SP 800-131A).
const RSA_BITS_MIN: usize = 2048;
/// Least size of an elliptic curve key, in bits.
const CURVE_BITS_MIN: usize = 256;
/// Signature algorithms that clients refuse: MD2, MD5 and SHA-1 with RSA, SHA-1 with ECDSA.
const WEAK_SIGNATURES: [&str; 4] = [
    "1.2.840.113549.1.1.2",
    "1.2.840.113549.1.1.4",
    "1.2.840.113549.1.1.5",
    "1.2.840.10045.4.1",
];

/// The certificate to check.
pub(crate) struct Subject<'a> {
    pub(crate) certificate: &'a Path,
    pub(crate) key: &'a Path,
    pub(crate) certificate_position: Position,
    pub(crate) key_position: Position,
    /// The host name under which clients know the server.
    pub(crate) name: Option<&'a str>,
    pub(crate) authorities: &'a Authorities,
    pub(crate) now_s: i64,
    pub(crate) warn_days: u32,
}

impl Subject<'_> {
    /// Checks certificate and key.
    pub(crate) fn check(&self) -> Vec<Finding> {
        let file = self.certificate.display();
        let chain = match read(self.certificate) {
            Ok(chain) => chain,
            Err(why) => {
                let says = format!("the certificate {file} is unusable: {why}");
                return vec![
                    self.certificate(Finding::error("certificate_unreadable", says))
                        .change("name a PEM file with the server's certificate first, then those of its issuers"),
                ];
            }
        };
        if let Err(error) = std::fs::File::open(self.key) {
            let says = format!("the key {} cannot be read: {error}", self.key.display());
            let finding = Finding::error("key_unreadable", says).at(self.key_position.clone());
            return vec![finding.change("name a PEM file that the server's user can read")];
        }
        // A key that others may read is not loaded. `secrets` reports it.
        let key_is_open = std::fs::metadata(self.key).is_ok_and(|facts| is_open_to_others(facts.mode(), facts.uid()));
        let loaded = ServerTls::load(self.certificate, self.key);
        if let Some(error) = loaded.err().filter(|_| !key_is_open) {
            let says = format!(
                "certificate and key do not match: {}",
                error.detail().unwrap_or_default()
            );
            let finding = Finding::error("key_does_not_fit", says).at(self.key_position.clone());
            return vec![finding.change("name the key of this certificate")];
        }
        let parsed: Vec<X509Certificate<'_>> = chain
            .iter()
            .filter_map(|one| X509Certificate::from_der(one).ok().map(|(_, parsed)| parsed))
            .collect();
        let Some(own) = parsed.first() else {
            let says = format!("the certificate {file} cannot be parsed");
            let finding = self.certificate(Finding::error("certificate_unreadable", says));
            return vec![finding.change("name a PEM file with X.509 certificates")];
        };
        let mut findings = vec![self.validity(own)];
        findings.extend(self.names(own));
        findings.extend(self.strength(own));
        findings.extend(self.authority(own));
        findings.push(self.chain(&chain, &parsed));
        findings
    }

    fn certificate(&self, finding: Finding) -> Finding {
        finding.at(self.certificate_position.clone())
    }

    fn validity(&self, own: &X509Certificate<'_>) -> Finding {
        let validity = own.validity();
        let (begin, end) = (validity.not_before.timestamp(), validity.not_after.timestamp());
        let days = (end - self.now_s).div_euclid(DAY_S);
        let finding = if self.now_s < begin {
            Finding::error(
                "certificate_not_yet_valid",
                format!("the certificate is not valid before {}", date(begin)),
            )
            .change("check this machine's clock, or wait")
        } else if self.now_s >= end {
            Finding::error(
                "certificate_expired",
                format!("the certificate expired on {}", date(end)),
            )
            .change("renew it; a running server notices the new file by itself")
        } else if days < i64::from(self.warn_days) {
            let says = format!("the certificate expires in {days} days, on {}", date(end));
            Finding::warning("certificate_expires_soon", says)
                .change("renew it; a running server notices the new file by itself")
        } else {
            Finding::ok(
                "certificate",
                format!("valid for {days} more days, until {}", date(end)),
            )
        };
        self.certificate(finding)
    }

    fn names(&self, own: &X509Certificate<'_>) -> Option<Finding> {
        let names = names_of(own);
        if names.is_empty() {
            let says = "the certificate has no host name in subjectAltName: current clients refuse it";
            let finding = Finding::error("certificate_without_names", says);
            return Some(
                self.certificate(finding)
                    .change("request a certificate with the server's names"),
            );
        }
        let wanted = self.name?;
        let is_named = names.iter().any(|name| matches(name, wanted));
        let listed = names.join(", ");
        let finding = match is_named {
            true => Finding::ok("certificate_names", format!("valid for {wanted} (it names {listed})")),
            false => {
                let says = format!("the certificate is for {listed}, not for {wanted}: clients will refuse it");
                let change = format!("request one that also names {wanted}, or set server.name to a name in it");
                Finding::error("certificate_name_differs", says).change(change)
            }
        };
        Some(self.certificate(finding))
    }

    fn strength(&self, own: &X509Certificate<'_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        let size = match own.public_key().parsed() {
            Ok(PublicKey::RSA(key)) => Some(("RSA", key.key_size(), RSA_BITS_MIN)),
            Ok(PublicKey::EC(point)) => Some(("elliptic curve", point.key_size(), CURVE_BITS_MIN)),
            _ => None,
        };
        if let Some((kind, bits, least)) = size.filter(|(_, bits, least)| bits < least) {
            let says = format!("its {kind} key has {bits} bits, which many clients refuse");
            let change = format!("request one for a key of at least {least} bits");
            findings.push(self.certificate(Finding::warning("weak_key", says)).change(change));
        }
        let algorithm = own.signature_algorithm.algorithm.to_id_string();
        if WEAK_SIGNATURES.contains(&algorithm.as_str()) {
            let says = "it is signed with MD5 or SHA-1, which many clients refuse";
            let finding = self.certificate(Finding::warning("weak_signature", says));
            findings.push(finding.change("request a new one, signed with SHA-256 or better"));
        }
        findings
    }

    /// Most clients, ours included, refuse a server with an authority's certificate (RFC 5280
    /// §4.2.1.9).
    fn authority(&self, own: &X509Certificate<'_>) -> Option<Finding> {
        if !own.is_ca() {
            return None;
        }
        let says = "it is the certificate of an authority (CA:TRUE), which most clients refuse from a server";
        let finding = Finding::warning("certificate_is_authority", says);
        let change = "request one with CA:FALSE (openssl req -x509: -addext basicConstraints=critical,CA:FALSE)";
        Some(self.certificate(finding).change(change))
    }

    /// Each certificate must be followed by its issuer's, up to one issued by an authority that
    /// clients trust. The authorities trusted here stand in for those.
    fn chain(&self, chain: &[CertificateDer<'_>], parsed: &[X509Certificate<'_>]) -> Finding {
        for pair in parsed.windows(2) {
            if pair[0].issuer().as_raw() != pair[1].subject().as_raw() {
                let says = format!(
                    "the certificate of {} is followed by that of {}, which did not issue it",
                    pair[0].subject(),
                    pair[1].subject()
                );
                let finding = self.certificate(Finding::error("chain_out_of_order", says));
                return finding.change("put the server's certificate first, then its issuer's, then the next issuer's");
            }
        }
        let is_root = |one: &&X509Certificate<'_>| one.issuer().as_raw() == one.subject().as_raw();
        let last = parsed.iter().take_while(|one| !is_root(one)).last().or(parsed.first());
        let Some(last) = last else {
            return self.certificate(Finding::ok("chain", "self-signed"));
        };
        let of_last = parsed
            .iter()
            .position(|one| std::ptr::eq(one, last))
            .and_then(|at| chain.get(at));
        let issued = self
            .authorities
            .has_issued(last.issuer().as_raw(), of_last.map_or(&[], |der| der));
        let finding = match issued {
            Some(true) => Finding::ok("chain", format!("leads to {}, which is trusted here", last.issuer())),
            Some(false) => {
                let says = format!(
                    "an authority named {} is trusted here, but did not sign this certificate: clients \
                     will refuse it",
                    last.issuer()
                );
                Finding::error("chain_signature", says)
                    .change("add the authority that signed it to [trust], or request a new certificate")
            }
            None => {
                let says = format!(
                    "the chain ends at {}, an issuer that is not trusted here: clients may \
                     not be able to follow it",
                    last.issuer()
                );
                Finding::warning("chain_incomplete", says)
                    .change("append the intermediate certificates to the file, or add the authority to [trust]")
            }
        };
        self.certificate(finding)
    }
}

/// All certificates of a PEM file, at least one.
fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = std::fs::read(file).map_err(|cause| cause.to_string())?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match chain {
        Ok(chain) if chain.is_empty() => Err("it contains no certificate".to_owned()),
        Ok(chain) => Ok(chain),
        Err(cause) => Err(cause.to_string()),
    }
}

/// The hosts in a certificate. The common name does not count (RFC 9525 §2).
fn names_of(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let name = |general: &GeneralName<'_>| match general {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes),
        _ => None,
    };
    extension.value.general_names.iter().filter_map(name).collect()
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).ok().map(std::net::IpAddr::from);
    let address = v4.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(std::net::IpAddr::from));
    address.map(|address| address.to_string())
}

/// Whether a certificate's name matches a host; `*` stands for one whole label (RFC 9525 §6.3).
fn matches(name: &str, host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    match name.strip_prefix("*.") {
        Some(rest) => host
            .split_once('.')
            .is_some_and(|(label, parent)| !label.is_empty() && parent.eq_ignore_ascii_case(rest)),
        None => name.eq_ignore_ascii_case(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_clients_match_them() {
        assert!(matches("se.example.org", "SE.example.org") && matches("se.example.org", "se.example.org."));
        assert!(matches("*.example.org", "se.example.org"));
        assert!(!matches("*.example.org", "a.se.example.org") && !matches("*.example.org", "example.org"));
        assert!(matches("2001:db8::1", "[2001:db8::1]") && !matches("se.example.org", "example.org"));
    }
}
