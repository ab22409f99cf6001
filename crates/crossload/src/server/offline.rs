//! Reads credentials as the server would, from its configuration and files, for `explain`.

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

/// Verifies certificates as a server with this configuration does.
pub(crate) fn authenticator(configuration: &Configuration) -> Authenticator {
    let certificates = files(configuration).map(|files| files.read(None).0);
    Authenticator::new(Sources {
        certificates: Certificates::new(certificates),
        ..Sources::default()
    })
}

/// A bearer token after verification.
pub(crate) struct ReadToken {
    /// The credential, or why it is refused.
    pub(crate) credential: Result<Arc<Credential>>,
    /// Which keys verified it, and what was not verified.
    pub(crate) notes: Vec<String>,
}

/// Reads a token as a server with this configuration would. Fetches keys from its issuer only with
/// `online`. Without any keys the signature is not verified, and the notes say so.
///
/// # Errors
/// An unusable file that the configuration names.
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

/// The keys of an issuer: from `jwks_file`, from the issuer, or from the server's state directory.
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
        notes.push("signature verified with the keys of jwks_file".to_owned());
        return Ok(Some(keys));
    }
    if online {
        let (tls, _) = ClientTls::load(&trust(configuration))?;
        let fetched = fetcher(configuration, &tls).fetch(url).await?;
        notes.push("signature verified with keys that were just fetched from the issuer".to_owned());
        return Ok(Some(Arc::new(fetched.keys)));
    }
    let directory = configuration.tokens.state_directory.as_deref();
    let Some(stored) = directory.and_then(|directory| stored_keys(directory, url)) else {
        notes.push(
            "signature NOT verified, the token may be forged: no keys of its issuer here; --online fetches them"
                .to_owned(),
        );
        return Ok(None);
    };
    let age = duration_in_words(now_s.abs_diff(stored.fetched_s));
    notes.push(format!(
        "signature verified with the keys that the server fetched {age} ago"
    ));
    Ok(Some(Arc::new(stored.keys)))
}

/// The keys of the server's macaroons. A missing one is not made: it would fit no macaroon.
fn keys(configuration: &Configuration) -> std::result::Result<Vec<MacaroonKey>, Failure> {
    let wanted = &configuration.macaroons;
    let Some(newest) = &wanted.secret_file else {
        return Ok(Vec::new());
    };
    let files = std::iter::once(newest).chain(&wanted.old_secret_files);
    files.map(|file| secret::load(file, false)).collect()
}
