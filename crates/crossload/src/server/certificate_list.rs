//! The certificates and revocation lists that a server uses, with their ends, for people.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use config::Configuration;
use door_web::Certificate;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::prelude::{CertificateRevocationList, FromDer as _, X509Certificate};

/// Files of one directory that are read.
const FILES_MAX: usize = 4096;
/// Bytes of a file that is read: the largest lists of grid authorities have some megabytes.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// What was found.
#[derive(Default)]
pub(crate) struct CertificateList {
    pub(crate) certificates: Vec<Certificate>,
    /// Files that could not be read.
    pub(crate) unread: usize,
}

/// Reads all of them. Blocks.
pub(crate) fn read(configuration: &Configuration) -> CertificateList {
    let mut found = CertificateList::default();
    if let Some(file) = &configuration.server.certificate {
        found.take_own(file);
    }
    let trust = &configuration.trust;
    let directories: BTreeSet<&PathBuf> = configuration
        .x509
        .trust_directory
        .iter()
        .chain(&trust.ca_directories)
        .collect();
    let mut files: Vec<PathBuf> = trust.ca_files.clone();
    for directory in directories {
        // One that is missing has no certificates; `crossload check` tells.
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut within: Vec<PathBuf> = entries.map(|entry| entry.path()).take(FILES_MAX).collect();
        within.sort();
        files.append(&mut within);
    }
    // Authorities are there by their names and by the hashes of their names.
    let mut known = BTreeSet::new();
    for file in &files {
        found.take(file, &mut known);
    }
    found
}

/// Whether a file holds a revocation list; `None`: neither a list nor certificates.
fn is_list(file: &Path) -> Option<bool> {
    let ending = file.extension()?.to_str()?;
    let is_digit = |text: &str| text.len() == 1 && text.bytes().all(|byte| byte.is_ascii_digit());
    match ending {
        "pem" | "crt" | "cer" => Some(false),
        "crl" => Some(true),
        ending if is_digit(ending) => Some(false),
        ending if ending.strip_prefix('r').is_some_and(is_digit) => Some(true),
        _ => None,
    }
}

impl CertificateList {
    fn take_own(&mut self, file: &Path) {
        let first = CertificateDer::pem_file_iter(file)
            .ok()
            .and_then(|mut chain| chain.next()?.ok());
        match first {
            Some(der) => self.take_certificate("server certificate", file, &der),
            None => self.unread += 1,
        }
    }

    fn take(&mut self, file: &Path, known: &mut BTreeSet<Vec<u8>>) {
        let Some(is_list) = is_list(file) else { return };
        let is_small = std::fs::metadata(file).is_ok_and(|facts| facts.len() <= FILE_BYTES_MAX);
        let Some(bytes) = is_small.then(|| std::fs::read(file).ok()).flatten() else {
            self.unread += 1;
            return;
        };
        if is_list {
            let der = CertificateRevocationListDer::from_pem_slice(&bytes).map_or(bytes, |list| list.to_vec());
            return self.take_list(file, &der, known);
        }
        for certificate in CertificateDer::pem_slice_iter(&bytes) {
            match certificate {
                Ok(der) if known.insert(der.to_vec()) => self.take_certificate("authority", file, &der),
                Ok(_) => {}
                Err(_) => self.unread += 1,
            }
        }
    }

    fn take_list(&mut self, file: &Path, der: &[u8], known: &mut BTreeSet<Vec<u8>>) {
        let Ok((_, list)) = CertificateRevocationList::from_der(der) else {
            self.unread += 1;
            return;
        };
        // Its end and issuer stand for the list, which can be large.
        let end = list.next_update().map(|time| time.timestamp());
        if known.insert(format!("{} {end:?}", list.issuer()).into_bytes()) {
            self.add("revocation list", list.issuer().to_string(), file, end);
        }
    }

    fn take_certificate(&mut self, kind: &'static str, file: &Path, der: &[u8]) {
        match X509Certificate::from_der(der) {
            Ok((_, parsed)) => {
                let end = parsed.validity().not_after.timestamp();
                self.add(kind, parsed.subject().to_string(), file, Some(end));
            }
            Err(_) => self.unread += 1,
        }
    }

    fn add(&mut self, kind: &'static str, of: String, file: &Path, ends_s: Option<i64>) {
        self.certificates.push(Certificate {
            kind,
            of: of.into(),
            file: file.display().to_string().into(),
            ends_s,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_certificate_authorities_and_lists_are_found_once() {
        let site = tempfile::tempdir().unwrap();
        let path = |name: &str| site.path().join(name);
        std::fs::create_dir(path("trust")).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        parameters.key_usages = vec![rcgen::KeyUsagePurpose::CrlSign, rcgen::KeyUsagePurpose::KeyCertSign];
        parameters.not_after = rcgen::date_time_ymd(2031, 2, 3);
        let authority = parameters.self_signed(&key).unwrap().pem();
        for name in ["trust/ca.pem", "trust/0a0b0c0d.0", "host.pem"] {
            std::fs::write(path(name), &authority).unwrap();
        }
        let list = rcgen::CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2026, 1, 1),
            next_update: rcgen::date_time_ymd(2026, 2, 3),
            crl_number: rcgen::SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: Vec::new(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&rcgen::Issuer::new(parameters, key)).unwrap();
        std::fs::write(path("trust/0a0b0c0d.r0"), list.pem().unwrap()).unwrap();
        std::fs::write(path("trust/broken.r0"), "none").unwrap();
        std::fs::write(path("trust/README"), "words").unwrap();
        let text = "[server]\ncertificate = \"host.pem\"\nkey = \"k\"\n[x509]\ntrust_directory = \"trust\"\n\
            [trust]\nca_directories = [\"trust\", \"missing\"]\n";
        let configuration = Configuration::parse(text, site.path(), "c").unwrap();
        let found = read(&configuration);
        let mut kinds: Vec<_> = found.certificates.iter().map(|one| (one.kind, one.ends_s)).collect();
        kinds.sort_unstable();
        let (long, short) = (Some(1_927_843_200), Some(1_770_076_800));
        assert_eq!(
            kinds,
            [
                ("authority", long),
                ("revocation list", short),
                ("server certificate", long)
            ]
        );
        assert_eq!(found.unread, 1);
    }
}
