//! What the server would make of a credential, on a machine that has its configuration and files: for explanations.

use std::sync::Arc;

use config::Configuration;
use credentials::{Bearer, Credential, KeySet, MacaroonKey, VerifiedMacaroon, duration_in_words};
use identity::{Authenticator, Certificates, Sources, stored_keys};
use net::tls::ClientTls;
use types::Result;

use super::secret;
use super::tokens::{TokenSources, fetcher};
use super::trust_files::{files, trust};
use crate::failure::Failure;

/// Judges certificates as the server of that configuration does.
pub(crate) fn authenticator(configuration: &Configuration) -> Authenticator {
    let certificates = files(configuration).map(|files| files.read(None).0);
    Authenticator::new(Sources {
        certificates: Certificates::new(certificates),
        ..Sources::default()
    })
}

/// A bearer token as it was read.
pub(crate) struct ReadToken {
    /// The credential, or why there is none.
    pub(crate) credential: Result<Arc<Credential>>,
    /// With which keys it was verified, and what could not be.
    pub(crate) notes: Vec<String>,
}

/// Reads a token as the server of that configuration would. Its issuer is asked for keys only with `online`; when there
/// are none the signature is not verified, and the notes say so.
///
/// # Errors
/// When a file that the configuration names cannot be used.
pub(crate) async fn bearer(
    configuration: &Configuration,
    token: &str,
    online: bool,
    now_s: i64,
) -> std::result::Result<ReadToken, Failure> {
    let sources = TokenSources::read(configuration, &configuration.server.listen)?;
    let macaroon_keys = keys(configuration)?;
    let mut notes = Vec::new();
    let credential = match Bearer::parse(token) {
        Ok(Bearer::Macaroon(macaroon)) => {
            let verified = VerifiedMacaroon::new(macaroon, &macaroon_keys);
            verified.map(|verified| Credential::Macaroon(Box::new(verified)))
        }
        Ok(Bearer::Token(token)) => match sources.rules.issuer(token.issuer()) {
            Ok(issuer) => match keys_of(&sources, configuration, &issuer.url, online, now_s, &mut notes).await {
                Ok(keys) => {
                    let signed = keys.map_or(Ok(()), |keys| token.check_signature(&keys));
                    let verified = signed.and_then(|()| token.read(&sources.rules, issuer, now_s));
                    verified.map(|verified| Credential::Token(Box::new(verified)))
                }
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    Ok(ReadToken {
        credential: credential.map(Arc::new),
        notes,
    })
}

/// The keys of an issuer: those that the site gave, those that the issuer gives, or those that the server keeps on disk.
async fn keys_of(
    sources: &TokenSources,
    configuration: &Configuration,
    url: &str,
    online: bool,
    now_s: i64,
    notes: &mut Vec<String>,
) -> Result<Option<Arc<KeySet>>> {
    let at = sources.rules.issuers.iter().position(|issuer| issuer.url == url);
    if let Some(keys) = at.and_then(|index| sources.fixed[index].clone()) {
        notes.push("its signature was checked with the keys of jwks_file".to_owned());
        return Ok(Some(keys));
    }
    if online {
        let (tls, _) = ClientTls::load(&trust(configuration))?;
        let fetched = fetcher(configuration, &tls).fetch(url).await?;
        notes.push("its signature was checked with keys that its issuer gave just now".to_owned());
        return Ok(Some(Arc::new(fetched.keys)));
    }
    let directory = configuration.tokens.state_directory.as_deref();
    let Some(stored) = directory.and_then(|directory| stored_keys(directory, url)) else {
        notes.push(
            "its signature was NOT checked, it could be forged: no keys of its issuer are here; --online fetches them"
                .to_owned(),
        );
        return Ok(None);
    };
    let age = duration_in_words(now_s.abs_diff(stored.fetched_s));
    notes.push(format!(
        "its signature was checked with the keys that the server fetched {age} ago"
    ));
    Ok(Some(Arc::new(stored.keys)))
}

/// The keys of the server's macaroons. None is made here: a new one would fit no macaroon.
fn keys(configuration: &Configuration) -> std::result::Result<Vec<MacaroonKey>, Failure> {
    let wanted = &configuration.macaroons;
    let Some(newest) = &wanted.secret_file else {
        return Ok(Vec::new());
    };
    let files = std::iter::once(newest).chain(&wanted.old_secret_files);
    files.map(|file| secret::load(file, false)).collect()
}
