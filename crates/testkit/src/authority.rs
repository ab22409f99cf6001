//! A throw-away authority for certificates, with the hashed trust directory of OpenSSL-based grid
//! programs.

use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, RsaKeySize, SerialNumber,
};
use time::{Duration, OffsetDateTime};

use crate::certificate::{Signer, SigningPair};
use crate::programs::output_of;
use crate::user::parsed;
use crate::{Error, Result, require, secrets};

/// The kind of key that a certificate holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA with 2048 bits, what nearly every grid host has.
    #[default]
    Rsa2048,
    /// ECDSA on P-256.
    EcdsaP256,
}

/// A host's certificate and key, both PEM files.
#[derive(Debug, Clone)]
pub struct HostCertificate {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key, readable by its owner only.
    pub key: PathBuf,
}

/// An authority for one test run.
#[derive(Debug)]
pub struct Authority {
    directory: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// The same authority, for certificates that the library does not make.
    signer: Signer,
}

impl Authority {
    /// Makes an authority with files in `directory`: `ca.pem`, and the trust directory
    /// `certificates`.
    ///
    /// # Errors
    /// [`Error::Missing`] without the `openssl` program, which names the files of the trust
    /// directory.
    pub fn new(directory: &Path) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        // The library's own name would stand in front.
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "Crossload test");
        params.distinguished_name.push(DnType::CommonName, "Crossload test CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        limit_to_days(&mut params, 30);
        let key = key_pair(KeyKind::Rsa2048)?;
        let pair = SigningPair::of(KeyPair::from_pem(&key.serialize_pem())?, KeyKind::Rsa2048);
        let issuer = CertifiedIssuer::self_signed(params, key)?;
        let name = parsed(issuer.der())?.subject().der.to_vec();
        let authority = Self {
            directory: directory.to_owned(),
            issuer,
            signer: Signer { name, pair },
        };
        authority.write_trust()?;
        Ok(authority)
    }

    /// The authority's own certificate, a PEM file.
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// The directory with `HASH.0` (certificate), `HASH.r0` (empty revocation list) and
    /// `HASH.signing_policy`, for `X509_CERT_DIR` and `--capath`.
    #[must_use]
    pub fn trust_directory(&self) -> PathBuf {
        self.directory.join("certificates")
    }

    /// Issues a certificate for `names` (DNS names or IP addresses; the first is the common name
    /// too), good for servers and clients, into `NAME.pem` and `NAME.key` for the given file
    /// `label`.
    ///
    /// # Errors
    /// [`Error::Failed`] when a name is not valid or the files cannot be written.
    pub fn issue_host(&self, label: &str, names: &[&str], kind: KeyKind) -> Result<HostCertificate> {
        self.sign(label, names, kind, |params| limit_to_days(params, 10))
    }

    fn sign(
        &self,
        label: &str,
        names: &[&str],
        kind: KeyKind,
        limit: impl FnOnce(&mut CertificateParams),
    ) -> Result<HostCertificate> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names.clone())?;
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "Crossload test");
        if let Some(first) = names.iter().find(|name| name.parse::<IpAddr>().is_err()) {
            params.distinguished_name.push(DnType::CommonName, first.as_str());
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        limit(&mut params);
        let key = key_pair(kind)?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let host = HostCertificate {
            certificate: self.directory.join(format!("{label}.pem")),
            key: self.directory.join(format!("{label}.key")),
        };
        fs::write(&host.certificate, certificate.pem())?;
        write_private(&host.key, &key.serialize_pem())?;
        Ok(host)
    }

    /// A certificate for this machine under the names that tests use: `localhost`, `127.0.0.1` and
    /// `::1`.
    ///
    /// # Errors
    /// As [`Authority::issue_host`].
    pub fn issue_localhost(&self) -> Result<HostCertificate> {
        self.issue_host("localhost", &["localhost", "127.0.0.1", "::1"], KeyKind::Rsa2048)
    }

    /// A certificate for the same names that expired yesterday.
    ///
    /// # Errors
    /// As [`Authority::issue_host`].
    pub fn issue_expired_localhost(&self) -> Result<HostCertificate> {
        let names = ["localhost", "127.0.0.1", "::1"];
        self.sign("expired", &names, KeyKind::EcdsaP256, |params| {
            params.not_after = OffsetDateTime::now_utc() - Duration::days(1);
            params.not_before = params.not_after - Duration::days(10);
        })
    }

    /// The authority's own certificate in DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        self.issuer.der()
    }

    pub(crate) fn signer(&self) -> &Signer {
        &self.signer
    }

    /// Puts a revocation list with these numbers of certificates into the trust directory, in place
    /// of the one that is there. It was made an hour ago; the next one is due in `ends_s` seconds
    /// (negative: it is out of date).
    ///
    /// # Errors
    /// [`Error::Failed`] when it cannot be written.
    pub fn revoke(&self, serials: &[Vec<u8>], ends_s: i64) -> Result<()> {
        let list = self.revocation_list(serials, ends_s)?;
        for hash in self.hashes()? {
            replace(&self.trust_directory().join(format!("{hash}.r0")), &list)?;
        }
        Ok(())
    }

    /// Puts a file into the trust directory under the hash of this authority, such as
    /// `HASH.namespaces` for the ending `namespaces`, in place of one that is there.
    ///
    /// # Errors
    /// [`Error::Failed`] when it cannot be written.
    pub fn write_beside(&self, ending: &str, content: &str) -> Result<()> {
        for hash in self.hashes()? {
            replace(&self.trust_directory().join(format!("{hash}.{ending}")), content)?;
        }
        Ok(())
    }

    /// The files of the trust directory by their names, in order.
    ///
    /// # Errors
    /// [`Error::Failed`] when they cannot be read.
    pub fn trust_files(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(self.trust_directory())? {
            let entry = entry?;
            files.push((
                entry.file_name().to_string_lossy().into_owned(),
                fs::read(entry.path())?,
            ));
        }
        files.sort();
        Ok(files)
    }

    /// The names under which programs on OpenSSL 1 and 3, and those with the older hash, look for
    /// the authority.
    fn hashes(&self) -> Result<Vec<String>> {
        let openssl = require("openssl")?;
        let hash_of = |option: &str| -> Result<String> {
            let mut command = Command::new(&openssl);
            let hash = output_of(command.args(["x509", option, "-noout", "-in"]).arg(self.ca_file()))?;
            Ok(hash.trim().to_owned())
        };
        Ok(vec![hash_of("-subject_hash")?, hash_of("-subject_hash_old")?])
    }

    fn write_trust(&self) -> Result<()> {
        let trust = self.trust_directory();
        fs::create_dir_all(&trust)?;
        fs::write(self.ca_file(), self.issuer.pem())?;
        let list = self.revocation_list(&[], 30 * 86400)?;
        for hash in self.hashes()? {
            fs::write(trust.join(format!("{hash}.0")), self.issuer.pem())?;
            fs::write(trust.join(format!("{hash}.r0")), &list)?;
            fs::write(trust.join(format!("{hash}.signing_policy")), SIGNING_POLICY)?;
        }
        Ok(())
    }

    fn revocation_list(&self, serials: &[Vec<u8>], ends_s: i64) -> Result<String> {
        let now = OffsetDateTime::now_utc();
        let list = CertificateRevocationListParams {
            this_update: now - Duration::hours(1),
            next_update: now + Duration::seconds(ends_s),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(|serial| revoked(serial)).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(list.signed_by(&self.issuer)?.pem()?)
    }
}

/// What the authority may sign, in the format of Globus' signing policy files.
const SIGNING_POLICY: &str = "access_id_CA X509 '/O=Crossload test/CN=Crossload test CA'\n\
     pos_rights globus CA:sign\n\
     cond_subjects globus '\"/O=Crossload test/*\"'\n";

fn revoked(serial: &[u8]) -> RevokedCertParams {
    RevokedCertParams {
        serial_number: SerialNumber::from_slice(serial),
        revocation_time: OffsetDateTime::now_utc() - Duration::hours(2),
        reason_code: None,
        invalidity_date: None,
    }
}

/// Writes a file atomically.
fn replace(path: &Path, content: &str) -> Result<()> {
    let part = path.with_extension("part");
    fs::write(&part, content)?;
    Ok(fs::rename(part, path)?)
}

pub(crate) fn key_pair(kind: KeyKind) -> Result<KeyPair> {
    Ok(match kind {
        KeyKind::Rsa2048 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048)?,
        KeyKind::EcdsaP256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?,
    })
}

/// Valid from an hour ago, because clocks differ, for `days`.
fn limit_to_days(params: &mut CertificateParams, days: i64) {
    let now = OffsetDateTime::now_utc();
    params.not_before = now - Duration::hours(1);
    params.not_after = now + Duration::days(days);
}

pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    secrets::note(&path.display().to_string(), text);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .map_err(|e| Error::during(path.display(), e))?;
    Ok(file.write_all(text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scratch, available};

    fn openssl(arguments: &[&str], path: &Path) -> String {
        output_of(Command::new("openssl").args(arguments).arg(path)).expect("openssl agrees")
    }

    #[test]
    fn both_kinds_of_certificate_are_trusted_by_openssl() {
        let scratch = Scratch::new("authority").expect("scratch");
        let made = Authority::new(scratch.path());
        let Some(authority) = available("both_kinds_of_certificate_are_trusted_by_openssl", made) else {
            return;
        };
        let trust = authority.trust_directory();
        for (label, kind, algorithm) in [
            ("rsa", KeyKind::Rsa2048, "rsaEncryption"),
            ("ec", KeyKind::EcdsaP256, "id-ecPublicKey"),
        ] {
            let host = authority
                .issue_host(label, &["localhost", "127.0.0.1"], kind)
                .expect("issued");
            let trust = trust.to_str().expect("plain path");
            // -crl_check makes it read the revocation list too.
            let words = openssl(
                &[
                    "verify",
                    "-crl_check",
                    "-CApath",
                    trust,
                    "-verify_hostname",
                    "localhost",
                ],
                &host.certificate,
            );
            assert!(words.trim().ends_with(": OK"), "{words}");
            assert!(openssl(&["x509", "-noout", "-text", "-in"], &host.certificate).contains(algorithm));
            assert!(openssl(&["pkey", "-noout", "-check", "-in"], &host.key).contains("valid"));
        }
    }
}
