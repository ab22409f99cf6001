//! A temporary authority, and a certificate for this machine.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::failure::Failure;

/// The server's certificate chain in the demo's directory.
pub(super) const CERTIFICATE: &str = "host.pem";
/// Its key.
pub(super) const KEY: &str = "host.key";

/// The authority's common name.
const NAME: &str = "Crossload demo authority";

/// Makes both; returns the file of the authority.
pub(super) fn make(directory: &Path) -> Result<PathBuf, Failure> {
    let failed = |cause: rcgen::Error| Failure::invalid(format!("no certificate: {cause}"));
    let system = |cause: std::io::Error| Failure::system("no certificate", &cause);
    let key = KeyPair::generate().map_err(failed)?;
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, NAME);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = parameters.self_signed(&key).map_err(failed)?;
    let issuer = Issuer::new(parameters, key);
    let host_key = KeyPair::generate().map_err(failed)?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut host = CertificateParams::new(names).map_err(failed)?;
    host.distinguished_name.push(DnType::CommonName, "localhost");
    let host = host.signed_by(&host_key, &issuer).map_err(failed)?;
    let file = directory.join("ca.pem");
    fs::write(&file, authority.pem()).map_err(system)?;
    // gfal's programs need a directory.
    let certificates = directory.join("certificates");
    fs::create_dir(&certificates).map_err(system)?;
    fs::write(certificates.join(format!("{}.0", subject_hash(NAME))), authority.pem()).map_err(system)?;
    fs::write(directory.join(CERTIFICATE), host.pem()).map_err(system)?;
    write_secret(&directory.join(KEY), &host_key.serialize_pem()).map_err(system)?;
    Ok(file)
}

/// The file name by which OpenSSL finds an authority: the first four bytes, in reverse order, of
/// the SHA-1 of its subject in canonical form (lower case, UTF-8, without the outer sequence).
fn subject_hash(common_name: &str) -> String {
    let text = common_name.to_lowercase();
    let element = |tag: u8, content: &[u8]| [&[tag, content.len() as u8], content].concat();
    let common_name_type = [0x06, 0x03, 0x55, 0x04, 0x03];
    let pair = element(0x30, &[&common_name_type[..], &element(0x0c, text.as_bytes())].concat());
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &element(0x31, &pair));
    hash.as_ref()
        .iter()
        .take(4)
        .rev()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn write_secret(file: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut target = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?;
    target.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_for_openssl_is_that_of_openssl() {
        // From `openssl x509 -hash` of a certificate with this name alone.
        assert_eq!(subject_hash(NAME), "db96065a");
    }
}
