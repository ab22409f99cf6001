//! The issuers of tokens: whether their keys can be had, and what their tokens must be for.

use std::time::Duration;

use config::Configuration;
use credentials::SciTokensConfig;
use remote::{Access, Client, GetOptions, Resource};
use serde_json::Value;
use types::limits::CONTROL_BODY_BYTES_MAX;
use types::{Error, ErrorCode, Location, LogicalPath, Phase, Side};

use super::finding::{Finding, Spot};
use super::lines::Lines;
use super::rules::meets;

/// Base paths of issuers that lie in no export: the scopes of their tokens count nowhere.
pub(crate) fn paths(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut named: Vec<(String, Vec<LogicalPath>, Spot)> = Vec::new();
    for (index, issuer) in configuration.issuers.iter().enumerate() {
        let spot = lines.of_item("issuer", index, "base_paths");
        named.push((issuer.url.clone(), issuer.base_paths.clone(), spot));
    }
    // A file that cannot be read is a finding of its own.
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
    for (url, bases, spot) in named {
        let is_outside = |base: &&LogicalPath| {
            let exports = &mut configuration.exports.iter();
            !exports.any(|export| meets(base.as_str(), export.path.as_str()))
        };
        for base in bases.iter().filter(is_outside) {
            let says =
                format!("the base path {base} of {url} is in no export: scopes of its tokens count nowhere below it");
            let finding = Finding::warning("issuer_path_outside", says).at(spot.clone());
            findings.push(finding.change("correct it, so that it is the path of an export or below it"));
        }
    }
    findings
}

/// How long an issuer may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// The signature algorithms that are accepted, as keys name their kinds (RFC 7517): RS256 and ES256.
const KEY_KINDS: [&str; 2] = ["RSA", "EC"];

/// Asks an issuer for its keys, as the server does: over HTTPS, with the authorities that the server trusts.
pub(crate) async fn check(client: &Client, issuer: &str, spot: Spot) -> Finding {
    let asked = async {
        let described = fetch(client, &discovery(issuer)).await?;
        let named = described["issuer"].as_str().unwrap_or_default().to_owned();
        let keys = match described["jwks_uri"].as_str() {
            Some(place) => Some(fetch(client, place).await?),
            None => None,
        };
        Ok::<_, Error>((named, keys))
    };
    let finding = match tokio::time::timeout(PATIENCE, asked).await {
        Err(_) => unreachable(issuer, &format!("no answer within {} s", PATIENCE.as_secs())),
        Ok(Err(error)) => unreachable(issuer, &error.public()),
        Ok(Ok((named, keys))) => judge(issuer, &named, keys.as_ref()),
    };
    finding.at(spot)
}

/// Where an issuer describes itself (OpenID Connect Discovery 1.0 §4).
fn discovery(issuer: &str) -> String {
    format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))
}

fn unreachable(issuer: &str, why: &str) -> Finding {
    Finding::error(
        "issuer_unreachable",
        format!("the keys of {issuer} cannot be had: {why}"),
    )
    .change("open the way to it, or name its keys in a file (jwks_file)")
}

/// What is to be said of an issuer's description and its keys.
pub(crate) fn judge(issuer: &str, named: &str, keys: Option<&Value>) -> Finding {
    if named != issuer {
        let says = format!("the issuer calls itself \"{named}\", not \"{issuer}\": its tokens are not recognised");
        return Finding::error("issuer_name_differs", says).change(format!("write url = \"{named}\""));
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
        0 => Finding::error(
            "issuer_without_keys",
            format!("{issuer} shows no key for RS256 or ES256"),
        )
        .change("ask its administrator for such keys"),
        count => Finding::ok("issuer", format!("{count} keys of {issuer} are at hand")),
    }
}

async fn fetch(client: &Client, url: &str) -> Result<Value, Error> {
    let document = Resource {
        location: Location::parse(url)?,
        access: Access::default(),
        side: Side::Source,
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
        let error = Error::new(ErrorCode::PeerMisbehaved, Side::Source, Phase::Transfer).with_subject(url);
        error.with_detail("the answer is no JSON")
    })
}
