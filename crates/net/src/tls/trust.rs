//! Whose certificates are believed when connecting to others: authorities, and what they have
//! revoked.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{CertificateError, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use types::limits::{TRUST_FILE_BYTES_MAX, TRUST_FILES_MAX};
use types::{Error, ErrorCode, Phase, Side};

use super::{crypto, read_certificates};

/// Whose certificates are believed when connecting to others.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Authorities that were read before: their file may be a pipe.
    pub authorities: Vec<CertificateDer<'static>>,
    /// PEM files of authorities.
    pub files: Vec<PathBuf>,
    /// Directories with hashed files, as grid sites keep them: authorities (`*.0` … `*.9`, `*.pem`)
    /// and their lists of revoked certificates (`*.r0` … `*.r9`).
    pub directories: Vec<PathBuf>,
    /// The operating system's authorities too.
    pub system: bool,
    /// Believe everybody. For a person's client only, on demand.
    pub insecure: bool,
}

/// What was read of a [`Trust`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trusted {
    /// Certificates of authorities.
    pub authorities: usize,
    /// Lists of revoked certificates.
    pub revocation_lists: usize,
    /// What was left out because it cannot be read.
    pub faults: usize,
}

/// Reads everything and makes a verifier of it.
///
/// An authority without a list of revoked certificates counts as one that has revoked none, as is
/// usual on the grid; so does one whose list has ended or cannot be checked.
pub(super) fn verifier(trust: &Trust) -> Result<(Arc<dyn ServerCertVerifier>, Trusted), Error> {
    if trust.insecure {
        return Ok((Arc::new(Blind::new(true)), Trusted::default()));
    }
    let mut found = TrustFiles::default();
    found.authorities.extend(trust.authorities.iter().cloned());
    for file in &trust.files {
        found.authorities.extend(read_certificates(file)?);
    }
    for directory in &trust.directories {
        found.read_directory(directory);
    }
    if trust.system {
        found.authorities.extend(system_authorities());
    }
    let mut roots = RootCertStore::empty();
    let (_, unusable) = roots.add_parsable_certificates(found.authorities);
    let mut trusted = Trusted {
        authorities: roots.len(),
        revocation_lists: 0,
        faults: found.faults + unusable,
    };
    if roots.is_empty() {
        return Ok((Arc::new(Blind::new(false)), trusted));
    }
    let roots = Arc::new(roots);
    let provider = crypto();
    let build = |lists: Vec<CertificateRevocationListDer<'static>>| {
        WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone())
            .with_crls(lists)
            .allow_unknown_revocation_status()
            .build()
    };
    // A list that cannot be read would take all others with it.
    let count = found.lists.len();
    found.lists.retain(|list| build(vec![list.clone()]).is_ok());
    trusted.revocation_lists = found.lists.len();
    trusted.faults += count - found.lists.len();
    let internal = |cause| Error::new(ErrorCode::Internal, Side::Active, Phase::Tls).with_private(cause);
    let without = build(Vec::new()).map_err(internal)?;
    if found.lists.is_empty() {
        return Ok((without, trusted));
    }
    let with = build(found.lists.into_iter().collect()).map_err(internal)?;
    Ok((Arc::new(Revoking { with, without }), trusted))
}

/// The operating system's authorities. Those that cannot be read are left out.
#[must_use]
pub fn system_authorities() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

/// The contents of the files.
#[derive(Default)]
struct TrustFiles {
    authorities: HashSet<CertificateDer<'static>>,
    lists: HashSet<CertificateRevocationListDer<'static>>,
    faults: usize,
}

impl TrustFiles {
    /// A directory that is not there has nothing; a file that is broken is left out, as one bad
    /// authority must not cut off all others.
    fn read_directory(&mut self, directory: &Path) {
        let Ok(entries) = std::fs::read_dir(directory) else {
            return;
        };
        let files = entries.filter_map(Result::ok).map(|entry| entry.path());
        for file in files.take(TRUST_FILES_MAX) {
            let is_read = match kind(&file) {
                Some(Kind::Authority) => self.take_authorities(&file),
                Some(Kind::RevocationList) => self.take_lists(&file),
                None => Some(()),
            };
            self.faults += usize::from(is_read.is_none());
        }
    }

    fn take_authorities(&mut self, file: &Path) -> Option<()> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(file)?).collect();
        self.authorities.extend(read.ok().filter(|read| !read.is_empty())?);
        Some(())
    }

    /// Lists are PEM as a rule, and DER as authorities publish them.
    fn take_lists(&mut self, file: &Path) -> Option<()> {
        const SEQUENCE: u8 = 0x30;
        let bytes = read(file)?;
        if bytes.first() == Some(&SEQUENCE) {
            self.lists.insert(bytes.into());
            return Some(());
        }
        let read: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&bytes).collect();
        self.lists.extend(read.ok().filter(|read| !read.is_empty())?);
        Some(())
    }
}

enum Kind {
    Authority,
    RevocationList,
}

fn kind(file: &Path) -> Option<Kind> {
    match file.extension()?.as_encoded_bytes() {
        b"pem" | [b'0'..=b'9'] => Some(Kind::Authority),
        [b'r', b'0'..=b'9'] => Some(Kind::RevocationList),
        _ => None,
    }
}

fn read(file: &Path) -> Option<Vec<u8>> {
    // Opening something else, such as a pipe, could wait for ever.
    if !std::fs::metadata(file).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let limit = TRUST_FILE_BYTES_MAX as u64 + 1;
    let file = std::fs::File::open(file).ok()?;
    file.take(limit).read_to_end(&mut bytes).ok()?;
    (bytes.len() <= TRUST_FILE_BYTES_MAX).then_some(bytes)
}

/// Looks into the lists of revoked certificates, except where a list itself is at fault.
#[derive(Debug)]
struct Revoking {
    with: Arc<WebPkiServerVerifier>,
    without: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Revoking {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.with.verify_server_cert(certificate, others, name, ocsp, now) {
            Err(rustls::Error::InvalidCertRevocationList(_)) => {
                self.without.verify_server_cert(certificate, others, name, ocsp, now)
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.without.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.without.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.without.supported_verify_schemes()
    }
}

/// Checks signatures but no names and no chains: accepts every server for `--insecure`, and none
/// where no authority is known.
#[derive(Debug)]
struct Blind {
    provider: Arc<CryptoProvider>,
    believes: bool,
}

impl Blind {
    fn new(believes: bool) -> Self {
        Self {
            provider: crypto(),
            believes,
        }
    }
}

impl ServerCertVerifier for Blind {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.believes {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
    use rcgen::{CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber, date_time_ymd};

    use super::*;

    struct Authority {
        parameters: CertificateParams,
        key: KeyPair,
    }

    impl Authority {
        fn new(name: &str) -> Self {
            let mut parameters = CertificateParams::default();
            parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
            parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            let key = KeyPair::generate().unwrap();
            Self { parameters, key }
        }

        fn issuer(&self) -> Issuer<'_, &KeyPair> {
            Issuer::from_params(&self.parameters, &self.key)
        }

        fn pem(&self) -> String {
            self.parameters.self_signed(&self.key).unwrap().pem()
        }

        fn host(&self, serial: u64) -> CertificateDer<'static> {
            let mut host = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            host.serial_number = Some(SerialNumber::from(serial));
            let certificate = host.signed_by(&KeyPair::generate().unwrap(), &self.issuer());
            certificate.unwrap().der().clone()
        }

        /// A list with one certificate, signed with the given key.
        fn list(&self, serial: u64, next_year: i32, signer: &KeyPair) -> rcgen::CertificateRevocationList {
            let parameters = CertificateRevocationListParams {
                this_update: date_time_ymd(2020, 1, 1),
                next_update: date_time_ymd(next_year, 1, 1),
                crl_number: SerialNumber::from(1u64),
                issuing_distribution_point: None,
                revoked_certs: vec![RevokedCertParams {
                    serial_number: SerialNumber::from(serial),
                    revocation_time: date_time_ymd(2020, 1, 1),
                    reason_code: None,
                    invalidity_date: None,
                }],
                key_identifier_method: KeyIdMethod::Sha256,
            };
            let issuer = Issuer::from_params(&self.parameters, signer);
            parameters.signed_by(&issuer).unwrap()
        }
    }

    fn check(verifier: &dyn ServerCertVerifier, host: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        let name = ServerName::try_from("localhost").unwrap();
        verifier
            .verify_server_cert(host, &[], &name, &[], UnixTime::now())
            .map(|_| ())
    }

    #[test]
    fn revoked_hosts_are_refused_and_broken_files_take_nothing_with_them() {
        let (first, second, third) = (Authority::new("1"), Authority::new("2"), Authority::new("3"));
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(directory.path().join(name), bytes).unwrap();
        let pem = first.pem();
        write("aaaaaaaa.0", pem.as_bytes());
        write("first.pem", pem.as_bytes());
        write("aaaaaaaa.r0", first.list(7, 2100, &first.key).pem().unwrap().as_bytes());
        // As published, and past its end.
        write("bbbbbbbb.0", second.pem().as_bytes());
        write("bbbbbbbb.r0", second.list(7, 2021, &second.key).der());
        // Signed by another authority.
        write("cccccccc.0", third.pem().as_bytes());
        write("cccccccc.r0", third.list(7, 2100, &first.key).pem().unwrap().as_bytes());
        write(
            "dddddddd.0",
            b"-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n",
        );
        write("dddddddd.r0", b"\x30\x03abc");
        write("eeeeeeee.r0", b"");
        write("README.txt", b"nothing");
        let trust = Trust {
            directories: vec![directory.path().to_owned(), directory.path().join("none")],
            ..Trust::default()
        };
        let (verifier, trusted) = verifier(&trust).unwrap();
        let expected = Trusted {
            authorities: 3,
            revocation_lists: 3,
            faults: 3,
        };
        assert_eq!(trusted, expected);
        let revoked = rustls::Error::InvalidCertificate(CertificateError::Revoked);
        for (authority, outcome) in [
            (&first, Err(revoked.clone())),
            (&second, Err(revoked)),
            (&third, Ok(())),
        ] {
            assert_eq!(check(&*verifier, &authority.host(7)), outcome);
            assert_eq!(check(&*verifier, &authority.host(8)), Ok(()));
        }
        let unknown = check(&*verifier, &Authority::new("4").host(8)).unwrap_err();
        assert_eq!(
            unknown,
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)
        );
    }

    #[test]
    fn nobody_is_believed_without_authorities() {
        let (verifier, _) = verifier(&Trust::default()).unwrap();
        check(&*verifier, &Authority::new("1").host(1)).unwrap_err();
        let everybody = Trust {
            insecure: true,
            ..Trust::default()
        };
        let (verifier, _) = super::verifier(&everybody).unwrap();
        check(&*verifier, &Authority::new("1").host(1)).unwrap();
    }
}
