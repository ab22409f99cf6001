//! Verification of clients' credentials, and issuing of macaroons.

use std::path::Path;

use config::Configuration;
use credentials::{Lifetimes, MacaroonKey};
use door_http::MacaroonSettings;
use identity::Sources;
use serde_json::json;

use super::subsystem::{Change, Current, Ground, Renewal, Subsystem};
use super::tokens::TokenSources;
use super::{choices, secret};
use crate::failure::Failure;

/// Tokens and macaroons, and the rules for accepting them.
pub(crate) struct Identities {
    /// Settings for issuing macaroons; `None`: they are not issued.
    pub(crate) macaroons: Current<Option<MacaroonSettings>>,
    ground: Ground,
}

impl Subsystem for Identities {
    type Ground = Ground;

    fn build(ground: &Ground, configuration: &Configuration) -> Result<Self, Failure> {
        let (macaroons, keys) = macaroons(configuration)?;
        ground.authenticator.replace(sources(ground, configuration, keys)?);
        Ok(Self {
            macaroons: Current::new(macaroons),
            ground: ground.clone(),
        })
    }

    fn renew<'a>(&'a self, change: &Change<'a>) -> Result<Renewal<'a>, Failure> {
        let (macaroons, keys) = macaroons(change.fresh)?;
        let sources = sources(&self.ground, change.fresh, keys)?;
        Ok(Box::new(move || {
            self.macaroons.set(macaroons);
            self.ground.authenticator.replace(sources);
        }))
    }
}

/// The issuers, keys and rules that credentials are verified with. Known issuers keep their keys.
fn sources(
    ground: &Ground,
    configuration: &Configuration,
    macaroon_keys: Vec<MacaroonKey>,
) -> Result<Sources, Failure> {
    let (log, known) = (&ground.log, &ground.authenticator);
    let tokens = TokenSources::read(configuration, &ground.addresses)?;
    if !tokens.rules.issuers.is_empty() {
        let issuers: Vec<&str> = tokens.rules.issuers.iter().map(|issuer| issuer.url.as_str()).collect();
        log.write(
            "tokens",
            &json!({"issuers": issuers, "audiences": tokens.rules.audiences, "remarks": tokens.remarks}),
        );
    }
    Ok(Sources {
        macaroon_keys,
        certificates: known.judge(),
        clear_text: choices::clear_text(configuration),
        issuers: tokens.issuers(configuration, &ground.trust, log, &known.issuers()),
        token_rules: tokens.rules,
        verified_tokens_max: configuration.tokens.remembered as usize,
        verified_lifetime: configuration.tokens.remembered_for,
    })
}

/// Settings for issuing macaroons, and the keys of accepted ones.
fn macaroons(configuration: &Configuration) -> Result<(Option<MacaroonSettings>, Vec<MacaroonKey>), Failure> {
    let wanted = &configuration.macaroons;
    let Some(file) = &wanted.secret_file else {
        return Ok((None, Vec::new()));
    };
    let mut keys = vec![secret::load(file, true)?];
    for old in &wanted.old_secret_files {
        keys.push(secret::load(Path::new(old), false)?);
    }
    let name = configuration.server.name.clone();
    let settings = MacaroonSettings {
        key: keys[0].clone(),
        location: name.unwrap_or_else(|| "crossload".to_owned()),
        lifetimes: Lifetimes {
            default_s: wanted.default_lifetime.as_secs(),
            max_s: wanted.maximum_lifetime.as_secs(),
        },
    };
    Ok((Some(settings), keys))
}
