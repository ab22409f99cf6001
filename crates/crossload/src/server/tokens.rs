//! Accepted token issuers, from the configuration and an XRootD `scitokens.cfg`, with their keys
//! and mappings.

use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use crate::limits::TOKEN_FILE_BYTES_MAX;
use config::Configuration;
use credentials::{IssuerRules, KeySet, NameMap, SciTokensConfig, TokenRules};
use identity::{IssuerEvent, IssuerSettings, Issuers, KeyFetcher, TellIssuerEvent};
use net::tls::ClientTls;
use serde_json::json;

use super::assemble::PRODUCT;
use super::certificate;
use super::log::Log;
use crate::failure::Failure;

/// The rules for tokens, with the contents of all files that they name.
pub(crate) struct TokenSources {
    /// The issuers and audiences.
    pub(crate) rules: TokenRules,
    /// The keys of each issuer that has a `jwks_file`.
    pub(crate) fixed: Vec<Option<Arc<KeySet>>>,
    /// Parts of the files that are ignored.
    pub(crate) remarks: Vec<String>,
}

impl TokenSources {
    /// Reads all files. `addresses` are the listening addresses.
    ///
    /// # Errors
    /// A file that cannot be read or is invalid.
    pub(crate) fn read(configuration: &Configuration, addresses: &[SocketAddr]) -> Result<Self, Failure> {
        let tokens = &configuration.tokens;
        let mut all = Self {
            rules: TokenRules {
                issuers: Vec::new(),
                audiences: tokens.audiences.clone(),
                skew_s: i64::try_from(tokens.clock_skew.as_secs()).unwrap_or(i64::MAX),
            },
            fixed: Vec::new(),
            remarks: Vec::new(),
        };
        for issuer in &configuration.issuers {
            let keys = issuer.jwks_file.as_deref().map(read_keys).transpose()?;
            all.add(issuer.rules(), issuer.name_map_file.as_deref(), keys)?;
        }
        if let Some(file) = &tokens.scitokens_file {
            all.add_file(file)?;
        }
        if all.rules.audiences.is_empty() {
            all.rules.audiences = own_audiences(configuration, addresses);
        }
        Ok(all)
    }

    fn add(&mut self, mut rules: IssuerRules, map: Option<&Path>, keys: Option<KeySet>) -> Result<(), Failure> {
        if let Some(file) = map {
            let (name_map, left_out) = NameMap::parse(&read(file)?).map_err(|why| fault(file, &why))?;
            rules.name_map = name_map;
            self.remarks
                .extend(left_out.iter().map(|words| format!("{}: {words}", file.display())));
        }
        self.rules.issuers.push(rules);
        self.fixed.push(keys.map(Arc::new));
        Ok(())
    }

    /// Adds the issuers of `scitokens.cfg`. The configuration wins for an issuer that both name.
    fn add_file(&mut self, file: &Path) -> Result<(), Failure> {
        let config = SciTokensConfig::parse(&read(file)?).map_err(|why| fault(file, &why))?;
        self.remarks.extend(
            config
                .remarks
                .iter()
                .map(|words| format!("{}: {words}", file.display())),
        );
        for audience in config.audiences {
            if !self.rules.audiences.contains(&audience) {
                self.rules.audiences.push(audience);
            }
        }
        let beside = file.parent().unwrap_or(Path::new(""));
        for (rules, map) in config.issuers {
            if self.rules.issuers.iter().any(|known| known.url == rules.url) {
                self.remarks
                    .push(format!("{}: {} is already configured", file.display(), rules.url));
                continue;
            }
            let map = map.map(|name| beside.join(name));
            self.add(rules, map.as_deref(), None)?;
        }
        Ok(())
    }

    /// The keys of all issuers, starting with those that `previous` knows.
    pub(crate) fn issuers(
        &self,
        configuration: &Configuration,
        trust: &ClientTls,
        log: &Log,
        previous: &Issuers,
    ) -> Issuers {
        let settings = IssuerSettings {
            fetcher: fetcher(configuration, trust),
            wait: configuration.tokens.issuer_wait,
            refresh: configuration.tokens.key_refresh,
            expiry: configuration.tokens.key_expiry,
            state_directory: configuration.tokens.state_directory.clone(),
            tell: log_events(log.clone()),
        };
        let named = self.rules.issuers.iter().map(|issuer| issuer.url.as_str());
        Issuers::new(named.zip(self.fixed.iter().cloned()), &settings, previous)
    }
}

/// Fetches issuers' keys.
pub(crate) fn fetcher(configuration: &Configuration, trust: &ClientTls) -> KeyFetcher {
    KeyFetcher {
        tls: trust.clone(),
        timeout: configuration.tokens.issuer_timeout,
        user_agent: PRODUCT.to_owned(),
    }
}

/// Logs events about issuers' keys.
fn log_events(log: Log) -> TellIssuerEvent {
    Arc::new(move |issuer, event| {
        match event {
        IssuerEvent::Fetched(keys) => {
            let names: Vec<&str> = keys.names().collect();
            log.write(
                "issuer_keys",
                &json!({"issuer": issuer, "keys": names, "passed_over": keys.passed_over()}),
            );
        }
        IssuerEvent::Failed(error) => log.write(
            "issuer_failed",
            &json!({"issuer": issuer, "code": error.code().name(), "error": error.public(),
                "private": error.private(), "next": error.code().for_administrator(), "kept": "keys that are known stay in use until they expire"}),
        ),
        IssuerEvent::NotStored(cause) => {
            log.write(
                "issuer_not_stored",
                &json!({"issuer": issuer, "error": cause.to_string()}),
            );
        }
    }
    })
}

/// All names of this server as audiences (WLCG Common JWT Profiles). With the default port there
/// are two forms, with and without it, because clients request either.
fn own_audiences(configuration: &Configuration, addresses: &[SocketAddr]) -> Vec<String> {
    let server = &configuration.server;
    let mut audiences: Vec<String> = server
        .name
        .iter()
        .map(|name| name.trim_end_matches('/').to_owned())
        .collect();
    let names = server
        .certificate
        .as_deref()
        .map(certificate::names)
        .unwrap_or_default();
    for address in addresses {
        let own = (!address.ip().is_unspecified()).then(|| address.to_string());
        let local = address
            .ip()
            .is_loopback()
            .then(|| format!("localhost:{}", address.port()));
        let named = names.iter().map(|name| format!("{name}:{}", address.port()));
        for place in own.into_iter().chain(local).chain(named) {
            if let Some(host) = place.strip_suffix(":443") {
                audiences.push(format!("https://{host}"));
            }
            audiences.push(format!("https://{place}"));
        }
    }
    let mut seen = std::collections::HashSet::new();
    audiences.retain(|audience| seen.insert(audience.clone()));
    audiences
}

fn read_keys(file: &Path) -> Result<KeySet, Failure> {
    KeySet::parse(read(file)?.as_bytes()).map_err(|error| fault(file, error.detail().unwrap_or_default()))
}

fn fault(file: &Path, why: &str) -> Failure {
    Failure::invalid(format!("{}: {why}", file.display()))
}

fn read(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let opened = fs::File::open(file).and_then(|open| open.take(TOKEN_FILE_BYTES_MAX + 1).read_to_string(&mut text));
    opened.map_err(|cause| Failure::system(file.display(), &cause))?;
    if text.len() as u64 > TOKEN_FILE_BYTES_MAX {
        return Err(fault(file, &format!("larger than {TOKEN_FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}
