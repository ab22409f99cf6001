//! What the server would make of a credential, on a machine that has its configuration and files: for explanations.

use std::path::PathBuf;

use credentials::MacaroonKey;
use identity::{Authenticator, Certificates, Issuers, Sources};
use net::tls::ClientTls;

use super::log::Log;
use super::secret;
use super::tokens::TokenSources;
use super::trust_files::{files, trust};
use crate::configuration::Configuration;
use crate::failure::Failure;

/// Checks credentials as the server of that configuration does. The keys of issuers are those that lie on this machine,
/// or are fetched when they are needed. To be called within a runtime.
///
/// # Errors
/// When a file cannot be read.
pub(crate) fn authenticator(configuration: &Configuration) -> Result<Authenticator, Failure> {
    let nowhere = Log::open(Some(PathBuf::from("/dev/null")));
    let log = nowhere.map_err(|cause| Failure::system("/dev/null", &cause))?;
    let (tls, _) = ClientTls::load(&trust(configuration))?;
    let tokens = TokenSources::read(configuration, &configuration.server.listen)?;
    let certificates = files(configuration).map(|files| files.read(None).0);
    Ok(Authenticator::new(Sources {
        macaroon_keys: keys(configuration)?,
        issuers: tokens.issuers(configuration, &tls, &log, &Issuers::default()),
        token_rules: tokens.rules,
        certificates: Certificates::new(certificates),
        ..Sources::default()
    }))
}

/// The keys of the server's macaroons. None is made here: a new one would fit no macaroon.
fn keys(configuration: &Configuration) -> Result<Vec<MacaroonKey>, Failure> {
    let wanted = &configuration.macaroons;
    let Some(newest) = &wanted.secret_file else {
        return Ok(Vec::new());
    };
    let files = std::iter::once(newest).chain(&wanted.old_secret_files);
    files.map(|file| secret::load(file, false)).collect()
}
