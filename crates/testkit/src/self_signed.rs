//! A certificate that vouches for itself: for tests of one server and one client, without an
//! authority.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::Result;

/// A certificate for `localhost` or other names, and its key on an elliptic curve. The files go
/// when it is dropped.
#[derive(Debug)]
pub struct SelfSigned {
    /// The certificate, a PEM file; to a client the authority as well.
    pub certificate: PathBuf,
    /// Its private key, a PEM file.
    pub key: PathBuf,
    /// The certificate in DER.
    pub der: Vec<u8>,
    _directory: TempDir,
}

impl SelfSigned {
    /// For `localhost`.
    ///
    /// # Errors
    /// [`crate::Error::Failed`] when the files cannot be written.
    pub fn localhost() -> Result<Self> {
        Self::for_names(vec!["localhost".to_owned()])
    }

    /// For these DNS names or IP addresses.
    ///
    /// # Errors
    /// [`crate::Error::Failed`] when a name is not valid or the files cannot be written.
    pub fn for_names(names: Vec<String>) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(names)?;
        let directory = tempfile::tempdir()?;
        let (certificate, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
        fs::write(&certificate, made.cert.pem())?;
        crate::authority::write_private(&key, &made.signing_key.serialize_pem())?;
        Ok(Self {
            certificate,
            key,
            der: made.cert.der().to_vec(),
            _directory: directory,
        })
    }
}
