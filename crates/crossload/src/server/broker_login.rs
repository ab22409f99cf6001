//! How we log in at brokers: a file with user and password, or a certificate.

use std::path::Path;

use broker::BrokerLogin;
use net::tls::ClientIdentity;
use types::Secret;

use super::secret;
use crate::failure::Failure;

/// The user of a file with `user:password`.
///
/// # Errors
/// The file cannot be read, others may read it, or it holds something else.
pub(crate) fn login(file: Option<&Path>) -> Result<Option<BrokerLogin>, Failure> {
    let Some(file) = file else { return Ok(None) };
    let lines = secret::load_passwords(file)?;
    let parts = lines.first().and_then(|line| line.split_once(':'));
    let (user, password) =
        parts.ok_or_else(|| Failure::invalid(format!("passwords {}: not user:password", file.display())))?;
    Ok(Some(BrokerLogin {
        user: user.to_owned(),
        password: Secret::new(password),
    }))
}

/// The certificate that brokers are shown, with its key.
///
/// # Errors
/// A file cannot be read, or the two do not belong together.
pub(crate) fn identity(certificate: Option<&Path>, key: Option<&Path>) -> Result<Option<ClientIdentity>, Failure> {
    let files = certificate.zip(key);
    let identity = files.map(|(certificate, key)| ClientIdentity::load(certificate, key));
    Ok(identity.transpose()?)
}
