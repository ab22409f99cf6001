//! The server's certificate: for TLS, and its expiry for metrics and readiness.

use std::path::Path;

use config::Configuration;
use net::tls::ServerTls;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::json;
use types::Error;
use x509_parser::extensions::GeneralName;

use super::choices;
use super::log::Log;
use super::subsystem::{Change, Current, Ground, Renewal, Subsystem};
use crate::dates::date;
use crate::failure::Failure;
use crate::token::now_s;

/// The certificate in use.
pub(crate) struct OwnCertificate {
    /// `None`: clear text only.
    pub(crate) tls: Current<Option<ServerTls>>,
    /// The end of its validity, in seconds since 1970.
    expiry_s: Current<Option<i64>>,
    /// The expiry that was logged last.
    logged_expiry_s: Current<Option<i64>>,
}

/// The files of the certificate and its key, if configured.
fn files(configuration: &Configuration) -> Option<(&Path, &Path)> {
    let server = &configuration.server;
    server.certificate.as_deref().zip(server.key.as_deref())
}

fn unusable(error: Error) -> Failure {
    Failure::of_tls_files("[server] certificate, key", error)
}

fn session_bytes(configuration: &Configuration) -> usize {
    usize::try_from(configuration.limits.tls_session_bytes.0).unwrap_or(usize::MAX)
}

impl Subsystem for OwnCertificate {
    type Ground = Ground;

    fn build(_ground: &Ground, configuration: &Configuration) -> Result<Self, Failure> {
        let asks = choices::client_certificates(configuration);
        let load = |(certificate, key)| ServerTls::asking(certificate, key, asks).map_err(unusable);
        let tls = files(configuration).map(load).transpose()?;
        if let Some(tls) = &tls {
            tls.limit_sessions(session_bytes(configuration));
        }
        Ok(Self {
            tls: Current::new(tls),
            expiry_s: Current::new(files(configuration).and_then(|(certificate, _)| expiry_s(certificate))),
            logged_expiry_s: Current::new(None),
        })
    }

    /// Doors keep their `ServerTls` if TLS stays on: it is updated to the new certificate.
    fn renew<'a>(&'a self, change: &Change<'a>) -> Result<Renewal<'a>, Failure> {
        let asks = choices::client_certificates(change.fresh);
        let Some((certificate, key)) = files(change.fresh) else {
            return Ok(Box::new(|| {
                self.tls.set(None);
                self.expiry_s.set(None);
            }));
        };
        let expiry_s = expiry_s(certificate);
        let session_bytes = session_bytes(change.fresh);
        Ok(match self.tls.get() {
            Some(tls) => {
                let fresh = tls.prepare(certificate, key, asks).map_err(unusable)?;
                Box::new(move || {
                    tls.take(fresh);
                    tls.limit_sessions(session_bytes);
                    self.expiry_s.set(expiry_s);
                })
            }
            None => {
                let fresh = ServerTls::asking(certificate, key, asks).map_err(unusable)?;
                fresh.limit_sessions(session_bytes);
                Box::new(move || {
                    self.tls.set(Some(fresh));
                    self.expiry_s.set(expiry_s);
                })
            }
        })
    }
}

impl OwnCertificate {
    /// Logs that the certificate has expired, once per certificate.
    pub(crate) fn tell_expiry(&self, log: &Log) {
        let end = self.expiry_s.get();
        let Some(end) = end.filter(|end| *end <= now_s() && self.logged_expiry_s.get() != Some(*end)) else {
            return;
        };
        self.logged_expiry_s.set(Some(end));
        let error = format!(
            "the server's certificate expired on {}: clients refuse to connect",
            date(end)
        );
        log.write("certificate_expired", &json!({"error": error}));
    }

    /// When the current certificate expires, in seconds since 1970, for the admin door.
    pub(crate) fn expiry(&self) -> impl Fn() -> Option<i64> + Send + Sync + 'static {
        let expiry = self.expiry_s.clone();
        move || expiry.get()
    }
}

/// The end of validity of the first certificate in the file, in seconds since 1970. `None` if it
/// cannot be read.
pub(crate) fn expiry_s(file: &Path) -> Option<i64> {
    let first = CertificateDer::pem_file_iter(file).ok()?.next()?.ok()?;
    let (_, parsed) = x509_parser::parse_x509_certificate(&first).ok()?;
    Some(parsed.validity().not_after.timestamp())
}

/// The names and addresses in the first certificate of the file, without wildcards.
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
