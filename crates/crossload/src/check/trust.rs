//! Checks the trusted authorities and the age of their revocation lists.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use credentials::x509::has_signed;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use types::limits::TRUST_FILES_MAX;
use x509_parser::prelude::{CertificateRevocationList, FromDer as _, X509Certificate};

use super::finding::{Finding, Position};
use crate::dates::date;

/// Most files that a finding lists.
const LISTED_MAX: usize = 5;

/// The authorities in the configured files and directories.
#[derive(Default)]
pub(crate) struct Authorities {
    /// Their certificates by subject. Several may have the same subject.
    by_subject: HashMap<Vec<u8>, Vec<Vec<u8>>>,
    /// Subjects of those with a revocation list.
    with_list: HashSet<Vec<u8>>,
    expired: Vec<String>,
    old_lists: Vec<String>,
    broken: Vec<(PathBuf, String)>,
    missing: Vec<PathBuf>,
    /// Directories without any authority.
    empty: Vec<PathBuf>,
}

impl Authorities {
    /// Reads all authorities of a configuration.
    pub(crate) fn read(files: &[PathBuf], directories: &[PathBuf], system: bool, now_s: i64) -> Self {
        let mut found = Self::default();
        for file in files {
            found.take_authorities(file, now_s);
        }
        for directory in directories {
            let Ok(entries) = std::fs::read_dir(directory) else {
                found.missing.push(directory.clone());
                continue;
            };
            let mut files: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
            files.sort();
            if !files.iter().any(|file| kind(file) == Some(true)) {
                found.empty.push(directory.clone());
            }
            for file in files.iter().take(TRUST_FILES_MAX) {
                match kind(file) {
                    Some(true) => found.take_authorities(file, now_s),
                    Some(false) => found.take_list(file, now_s),
                    None => {}
                }
            }
        }
        if system {
            for certificate in rustls_native_certs::load_native_certs().certs {
                found.take(&certificate, "the system's", now_s);
            }
        }
        found
    }

    /// `None`: no authority of this name; else whether one of this name signed the certificate.
    pub(crate) fn has_issued(&self, name: &[u8], certificate: &[u8]) -> Option<bool> {
        let authorities = self.by_subject.get(name)?;
        Some(authorities.iter().any(|authority| has_signed(authority, certificate)))
    }

    fn take_authorities(&mut self, file: &Path, now_s: i64) {
        let certificates = std::fs::read(file)
            .map_err(|cause| cause.to_string())
            .and_then(|bytes| {
                let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
                read.map_err(|cause| cause.to_string())
            });
        match certificates {
            Ok(certificates) if certificates.is_empty() => {
                self.broken
                    .push((file.to_owned(), "it contains no certificate".to_owned()));
            }
            Ok(certificates) => {
                for certificate in certificates {
                    self.take(&certificate, &file.display().to_string(), now_s);
                }
            }
            Err(why) => self.broken.push((file.to_owned(), why)),
        }
    }

    fn take(&mut self, certificate: &[u8], place: &str, now_s: i64) {
        let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
            return;
        };
        let of_name = self.by_subject.entry(parsed.subject().as_raw().to_vec()).or_default();
        of_name.push(certificate.to_vec());
        let end = parsed.validity().not_after.timestamp();
        // Expired authorities in the system's bundle are not the administrator's fault.
        if end <= now_s && place.starts_with('/') {
            let words = format!("{} ({place}, on {})", parsed.subject(), date(end));
            if !self.expired.contains(&words) {
                self.expired.push(words);
            }
        }
    }

    fn take_list(&mut self, file: &Path, now_s: i64) {
        let Ok(bytes) = std::fs::read(file) else {
            self.broken.push((file.to_owned(), "cannot be read".to_owned()));
            return;
        };
        let der = CertificateRevocationListDer::from_pem_slice(&bytes).map_or(bytes, |list| list.to_vec());
        let Ok((_, list)) = CertificateRevocationList::from_der(&der) else {
            self.broken.push((file.to_owned(), "not a revocation list".to_owned()));
            return;
        };
        self.with_list.insert(list.issuer().as_raw().to_vec());
        if let Some(end) = list
            .next_update()
            .map(|time| time.timestamp())
            .filter(|end| *end <= now_s)
        {
            self.old_lists
                .push(format!("{} ({}, since {})", list.issuer(), file.display(), date(end)));
        }
    }

    /// Judges them, as those for peers.
    pub(crate) fn check(&self, files: &Position, directories: &Position, wants_directory: bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (file, why) in &self.broken {
            let says = format!("{} is ignored: {why}", file.display());
            let finding = Finding::warning("authority_file_broken", says).at(directories.clone());
            findings.push(finding.change("fetch the file again, or remove it"));
        }
        if wants_directory {
            for directory in &self.missing {
                let says = format!("the directory of authorities {} cannot be read", directory.display());
                let finding = Finding::warning("authority_directory_missing", says).at(directories.clone());
                findings.push(finding.change("install the authorities of the grid (IGTF) there, or name another one"));
            }
        }
        for directory in self.empty.iter().filter(|_| wants_directory) {
            let says = format!("no authority in the directory {}", directory.display());
            let finding = Finding::warning("authority_directory_empty", says).at(directories.clone());
            findings.push(finding.change("install the authorities of the grid (IGTF) there, or name another one"));
        }
        if self.by_subject.is_empty() {
            let says = "no trusted authority: connections to peers over TLS fail";
            let finding = Finding::error("no_authorities", says).at(files.clone());
            findings.push(finding.change("set trust.ca_directories or trust.ca_files, or trust.system = true"));
        } else {
            findings.push(Finding::ok("authorities", format!("{} trusted", self.by_subject.len())));
        }
        if !self.expired.is_empty() {
            let says = format!("expired authorities: {}", listed(&self.expired));
            let finding = Finding::warning("authority_expired", says).at(directories.clone());
            findings.push(finding.change("update the package of authorities"));
        }
        if !self.old_lists.is_empty() {
            let says = format!(
                "outdated revocation lists, so that revoked certificates may be accepted: {}",
                listed(&self.old_lists)
            );
            let finding = Finding::warning("revocation_list_old", says).at(directories.clone());
            findings.push(finding.change("run fetch-crl every six hours"));
        } else if !self.with_list.is_empty() {
            let says = format!("{} revocation lists are up to date", self.with_list.len());
            findings.push(Finding::ok("revocation_lists", says));
        }
        findings
    }
}

impl Authorities {
    /// Judges them, as those of clients. `demanded`: whether each must have a revocation list;
    /// `None`: revocation lists are not used.
    pub(crate) fn check_of_clients(&self, directory: &Position, demanded: Option<bool>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for empty in &self.empty {
            let says = format!("no authority in {}: no client certificate is accepted", empty.display());
            let finding = Finding::error("client_authorities_none", says).at(directory.clone());
            findings
                .push(finding.change("install the authorities of the grid (IGTF) there, or name another directory"));
        }
        for (file, why) in &self.broken {
            let says = format!(
                "{} is ignored, and certificates of its authority are refused: {why}",
                file.display()
            );
            let finding = Finding::warning("client_authority_broken", says).at(directory.clone());
            findings.push(finding.change("fetch the file again, or remove it"));
        }
        if !self.expired.is_empty() {
            let says = format!("expired authorities of clients: {}", listed(&self.expired));
            let finding = Finding::warning("client_authority_expired", says).at(directory.clone());
            findings.push(finding.change("update the package of authorities"));
        }
        if demanded.is_some() && !self.old_lists.is_empty() {
            let says = format!(
                "outdated revocation lists, so that certificates of these authorities are refused: {}",
                listed(&self.old_lists)
            );
            let finding = Finding::error("client_revocation_list_old", says).at(directory.clone());
            findings.push(finding.change("run fetch-crl every six hours"));
        }
        let without = self
            .by_subject
            .keys()
            .filter(|name| !self.with_list.contains(*name))
            .count();
        if demanded == Some(true) && without > 0 {
            let says =
                format!("{without} authorities of clients have no revocation list: their certificates are refused");
            let finding = Finding::error("client_revocation_list_missing", says).at(directory.clone());
            findings.push(finding.change("run fetch-crl, or set x509.revocation = \"if-present\""));
        }
        if findings.is_empty() && !self.by_subject.is_empty() {
            let says = format!("{} authorities of clients are trusted", self.by_subject.len());
            findings.push(Finding::ok("client_authorities", says));
        }
        findings
    }
}

/// Whether a file of a trust directory is an authority (true) or a revocation list (false), by its
/// name.
fn kind(file: &Path) -> Option<bool> {
    let ending = file.extension()?.to_str()?;
    let is_digit = |text: &str| text.len() == 1 && text.bytes().all(|byte| byte.is_ascii_digit());
    match ending {
        "pem" => Some(true),
        ending if is_digit(ending) => Some(true),
        ending if ending.strip_prefix('r').is_some_and(is_digit) => Some(false),
        _ => None,
    }
}

fn listed(names: &[String]) -> String {
    let shown = names.len().min(LISTED_MAX);
    let mut text = names[..shown].join("; ");
    if names.len() > shown {
        text.push_str(&format!("; and {} others", names.len() - shown));
    }
    text
}
