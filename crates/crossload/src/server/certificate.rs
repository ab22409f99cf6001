//! When the certificate in use expires, for metrics and readiness.

use std::path::Path;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::extensions::GeneralName;

/// The end of validity of the first certificate in the file, in seconds since 1970. `None` when
/// there is none to be read.
pub(crate) fn expiry_s(file: &Path) -> Option<i64> {
    let first = CertificateDer::pem_file_iter(file).ok()?.next()?.ok()?;
    let (_, parsed) = x509_parser::parse_x509_certificate(&first).ok()?;
    Some(parsed.validity().not_after.timestamp())
}

/// The names and addresses for which the first certificate in the file is good, without patterns.
pub(crate) fn names(file: &Path) -> Vec<String> {
    let first = || CertificateDer::pem_file_iter(file).ok()?.next()?.ok();
    let Some(first) = first() else {
        return Vec::new();
    };
    let Ok((_, parsed)) = x509_parser::parse_x509_certificate(&first) else {
        return Vec::new();
    };
    let alternatives = parsed.subject_alternative_name().ok().flatten();
    let names = alternatives.iter().flat_map(|extension| &extension.value.general_names);
    names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) if !name.contains('*') => Some(name.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_validity_is_that_of_the_certificate() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("host.pem");
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(2031, 2, 3);
        std::fs::write(&file, parameters.self_signed(&key).unwrap().pem()).unwrap();
        assert_eq!(expiry_s(&file), Some(1_927_843_200));
        assert_eq!(expiry_s(&directory.path().join("none")), None);
        assert_eq!(names(&file), ["localhost"]);
    }
}
