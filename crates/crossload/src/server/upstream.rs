//! Exports whose files are on another server (`[[export]] remote`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use config::{Configuration, Export};
use endpoint::Store;
use net::address::AddressPolicy;
use net::tls::{ClientIdentity, ClientTls};
use remote::{Client, ClientOptions};
use serde_json::json;
use std::sync::Arc;
use storage_remote::{Credential, RemoteStore, Upstream};
use tokio::time::{MissedTickBehavior, interval};
use types::Secret;

use super::assemble::PRODUCT;
use super::log::Log;
use super::secret;
use crate::failure::Failure;

/// Time between two looks at the file of a token.
const LOOK_PERIOD: Duration = Duration::from_secs(10);

/// What a store over another server is made from. Exports with equal keys share a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UpstreamKey {
    url: String,
    token_file: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    connect: Duration,
    first_byte: Duration,
    stall: Duration,
}

impl UpstreamKey {
    /// That of an export; `None` if its files are on this machine.
    pub(super) fn of(export: &Export, configuration: &Configuration) -> Option<Self> {
        let limits = &configuration.limits;
        Some(Self {
            url: export.remote.clone()?,
            token_file: export.remote_token_file.clone(),
            certificate: export.remote_certificate.clone(),
            key: export.remote_key.clone(),
            connect: limits.connect_timeout,
            first_byte: limits.first_byte_timeout,
            stall: limits.stall_timeout,
        })
    }

    /// The directory on the other server, with our credential there.
    ///
    /// # Errors
    /// A credential that cannot be read.
    pub(crate) fn upstream(&self, trust: &ClientTls) -> Result<(Upstream, Credential), Failure> {
        let root = types::Location::parse(&self.url)?;
        let token = self.token_file.as_deref().map(read_token).transpose()?;
        let identity = self.certificate.as_deref().map(|certificate| {
            let key = self.key.as_deref().unwrap_or(certificate);
            ClientIdentity::load(certificate, key)
        });
        let credential = Credential::new(token, identity.transpose()?);
        let client = Client::new(ClientOptions {
            tls: trust.clone(),
            // It comes from the configuration, so it may be anywhere.
            addresses: AddressPolicy::ANY,
            connect: self.connect,
            first_byte: self.first_byte,
            stall: self.stall,
            user_agent: PRODUCT.to_owned(),
        });
        Ok((Upstream::new(client, root, credential.clone()), credential))
    }

    /// Opens the store. Nothing is asked yet: the other server may be away.
    ///
    /// # Errors
    /// As [`UpstreamKey::upstream`].
    pub(super) fn open(&self, trust: &ClientTls, log: &Log) -> Result<Store, Failure> {
        let (upstream, credential) = self.upstream(trust)?;
        if let Some(file) = self.token_file.clone() {
            tokio::spawn(follow(file, credential, self.url.clone(), log.clone()));
        }
        log.write("upstream_opened", &json!({"url": upstream.root().to_string()}));
        Ok(Store::of(Arc::new(RemoteStore::new(upstream))))
    }
}

/// The token in a file.
///
/// # Errors
/// Others may read the file, it cannot be read, or it is empty.
fn read_token(file: &Path) -> Result<Secret, Failure> {
    let text = secret::load_text("token for the upstream server", file)?;
    match text.trim() {
        "" => Err(Failure::invalid(format!(
            "the token for the upstream server: {} is empty",
            file.display()
        ))),
        token => Ok(Secret::new(token)),
    }
}

/// Reads the token again and again, as long as a store uses it.
async fn follow(file: PathBuf, credential: Credential, url: String, log: Log) {
    let credential = credential.downgrade();
    let mut times = interval(LOOK_PERIOD);
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut fault = None;
    loop {
        times.tick().await;
        let Some(credential) = credential.upgrade() else { return };
        match read_token(&file) {
            Ok(token) => {
                credential.renew(token);
                fault = None;
            }
            Err(failure) => {
                let words = Some(failure.words);
                if words != fault {
                    log.write("upstream_token_unreadable", &json!({"url": url, "error": words}));
                }
                fault = words;
            }
        }
    }
}
