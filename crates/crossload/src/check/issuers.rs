//! Checks the issuers of tokens: their keys, names and base paths.

use std::time::Duration;

use config::Configuration;
use credentials::SciTokensConfig;
use remote::{Access, Client, GetOptions, Resource};
use serde_json::Value;
use types::limits::CONTROL_BODY_BYTES_MAX;
use types::{Error, ErrorCode, Location, LogicalPath, Phase, Side};

use super::finding::{Finding, Position};
use super::lines::Lines;
use super::rules::trees;
use crate::server::rules::meets;

/// Finds base paths of issuers outside of all exports. Scopes of their tokens have no effect.
pub(crate) fn paths(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut named: Vec<(String, Vec<LogicalPath>, Position)> = Vec::new();
    for (index, issuer) in configuration.issuers.iter().enumerate() {
        let position = lines.of_item("issuer", index, "base_paths");
        named.push((issuer.url.clone(), issuer.base_paths.clone(), position));
    }
    // An unreadable file is reported elsewhere.
    let text = configuration
        .tokens
        .scitokens_file
        .as_deref()
        .and_then(|file| std::fs::read_to_string(file).ok());
    if let Some(file) = text.and_then(|text| SciTokensConfig::parse(&text).ok()) {
        let of_file = file.issuers.into_iter();
        named.extend(of_file.map(|(rules, _)| (rules.url, rules.base_paths, lines.of("tokens", "scitokens_file"))));
    }
    let mut findings = Vec::new();
    for (url, bases, position) in named {
        let is_outside = |base: &&LogicalPath| {
            let mut trees = trees(configuration).into_iter();
            !trees.any(|tree| meets(base.as_str(), tree.path.as_str()))
        };
        for base in bases.iter().filter(is_outside) {
            let says = format!("the base path {base} of {url} is in no export: scopes below it have no effect");
            let finding = Finding::warning("issuer_path_outside", says).at(position.clone());
            findings.push(finding.change("use the path of an export, or a path below it"));
        }
    }
    findings
}

/// Time limit for an issuer's answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// What to do if it cannot be reached.
const ALLOW: &str = "allow connections to it, or give its keys in a file (jwks_file)";
/// The key types (RFC 7517) of the accepted algorithms: RS256 and ES256.
const KEY_KINDS: [&str; 2] = ["RSA", "EC"];

/// Fetches an issuer's keys as the server does: over HTTPS, with the server's authorities.
pub(crate) async fn check(client: &Client, issuer: &str, position: Position) -> Finding {
    let asked = async {
        let described = fetch(client, &discovery(issuer)).await?;
        let named = described["issuer"].as_str().unwrap_or_default().to_owned();
        let keys = match described["jwks_uri"].as_str() {
            Some(place) => Some(fetch(client, place).await?),
            None => None,
        };
        Ok::<_, Error>((named, keys))
    };
    let finding = match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
        Err(_) => {
            let why = format!("no answer within {} s", ANSWER_TIMEOUT.as_secs());
            unreachable(issuer, &why).change(ALLOW)
        }
        Ok(Err(error)) => unreachable(issuer, &error.public()).change(remedy(&error)),
        Ok(Ok((named, keys))) => judge(issuer, &named, keys.as_ref()),
    };
    finding.at(position)
}

/// The URL of an issuer's metadata (OpenID Connect Discovery 1.0 §4).
fn discovery(issuer: &str) -> String {
    format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))
}

fn unreachable(issuer: &str, why: &str) -> Finding {
    Finding::error(
        "issuer_unreachable",
        format!("cannot fetch the keys of {issuer}: {why}"),
    )
}

/// What to do, by what `net` says of TLS.
fn remedy(error: &Error) -> &'static str {
    let detail = error.detail().unwrap_or_default();
    match error.code() {
        ErrorCode::PeerTlsFailed if detail.starts_with("the certificate's issuer is not trusted") => {
            "name the authority of its certificate in [trust] ca_files, or give its keys in a file (jwks_file)"
        }
        ErrorCode::PeerTlsFailed => {
            "have its certificate mended, correct the host in url, or give its keys in a file (jwks_file)"
        }
        _ => ALLOW,
    }
}

/// Judges an issuer's metadata and keys.
pub(crate) fn judge(issuer: &str, named: &str, keys: Option<&Value>) -> Finding {
    if named != issuer {
        let says = format!("the issuer's name is \"{named}\", not \"{issuer}\": its tokens are refused");
        return Finding::error("issuer_name_differs", says).change(format!("set url = \"{named}\""));
    }
    let keys = keys
        .and_then(|keys| keys["keys"].as_array())
        .map(Vec::as_slice)
        .unwrap_or_default();
    let is_usable = |key: &&Value| {
        let kind = key["kty"].as_str().unwrap_or_default();
        KEY_KINDS.contains(&kind) && key["use"].as_str().is_none_or(|purpose| purpose == "sig")
    };
    match keys.iter().filter(is_usable).count() {
        0 => Finding::error("issuer_without_keys", format!("{issuer} has no key for RS256 or ES256"))
            .change("ask its administrator for such keys"),
        count => Finding::ok("issuer", format!("{count} keys of {issuer} fetched")),
    }
}

async fn fetch(client: &Client, url: &str) -> Result<Value, Error> {
    let document = Resource {
        location: Location::parse(url)?,
        access: Access::default(),
        side: Side::Active,
    };
    let mut download = client.get(&document, &GetOptions::default()).await?;
    let mut text = Vec::new();
    while let Some(batch) = download.next().await? {
        text.extend(batch.slices().flatten());
        if text.len() > CONTROL_BODY_BYTES_MAX {
            break;
        }
    }
    serde_json::from_slice(&text).map_err(|_| {
        let error = Error::new(ErrorCode::PeerMisbehaved, Side::Active, Phase::Transfer).with_subject(url);
        error.with_detail("the answer is not JSON")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_that_is_not_trusted_is_named_in_the_configuration() {
        let remedy = |code, detail: &str| remedy(&Error::new(code, Side::Active, Phase::Connect).with_detail(detail));
        let untrusted = "the certificate's issuer is not trusted (CN=Own CA)";
        assert!(remedy(ErrorCode::PeerTlsFailed, untrusted).contains("[trust] ca_files"));
        let other = remedy(ErrorCode::PeerTlsFailed, "the certificate is not for iam.example");
        assert!(!other.contains("ca_files") && other.contains("host in url"), "{other}");
        assert_eq!(remedy(ErrorCode::PeerConnectTimeout, "untrusted"), ALLOW);
    }
}
