//! Issuers of tokens: the plug-ins `oidc` and `scitoken` of gPlazma.

use super::exports::Tree;
use super::layout::Value;
use super::maps::{self, Principal};
use super::plugins::Stack;
use crate::document::DocumentKind;
use crate::migration::Migration;
use crate::rights::plain_path;
use crate::source::Source;

/// What any audience of WLCG's profile is called.
const ANY_AUDIENCE: &str = "https://wlcg.cern.ch/jwt/v1/any";

/// An issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Provider {
    /// Its name in dCache.
    pub(crate) name: String,
    /// The issuer in its tokens.
    pub(crate) url: String,
    /// The directory of the namespace to which scopes are relative.
    pub(crate) prefix: String,
    /// Whether scopes of its tokens count.
    pub(crate) has_scopes: bool,
    /// Whether groups are in `wlcg.groups`.
    pub(crate) is_wlcg: bool,
    /// Who tokens with scopes for storages become.
    pub(crate) authorized: Vec<Principal>,
    /// Who other tokens become.
    pub(crate) identified: Vec<Principal>,
    pub(crate) source: Source,
}

/// Reads the issuers of the plug-ins that the stack has.
pub(crate) fn providers(stack: &Stack<'_>, migration: &mut Migration) -> Vec<Provider> {
    let mut providers = Vec::new();
    for (plugin, prefix) in [
        ("oidc", "gplazma.oidc.provider!"),
        ("scitoken", "gplazma.scitoken.issuer!"),
    ] {
        if stack.find("auth", plugin).is_none() {
            continue;
        }
        for (name, value) in named(stack, prefix) {
            let source = value
                .source
                .clone()
                .unwrap_or_else(|| Source::of_file("dCache's defaults"));
            match provider(&name, plugin, &value.text, &source, migration) {
                Some(provider) if providers.iter().all(|known: &Provider| known.url != provider.url) => {
                    providers.push(provider);
                }
                Some(_) => migration.not_needed(&source, "the issuer is named twice, and the first one counts"),
                None => {
                    let words = "an issuer needs an https URL without a query";
                    migration.no_equivalent(&source, words, "Write an [[issuer]] by hand");
                }
            }
        }
    }
    providers
}

/// The settings that begin with a prefix, with the rest of their names.
fn named(stack: &Stack<'_>, prefix: &str) -> Vec<(String, Value)> {
    let mut names: Vec<&str> = Vec::new();
    for setting in stack.layout.settings() {
        if let Some(name) = setting.key.strip_prefix(prefix).filter(|name| !names.contains(name)) {
            names.push(name);
        }
    }
    let value = |name: &str| {
        stack
            .layout
            .value(stack.cell, &format!("{prefix}{name}"))
            .ok()
            .flatten()
    };
    names
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), value(name)?)))
        .collect()
}

fn provider(name: &str, plugin: &str, text: &str, source: &Source, migration: &mut Migration) -> Option<Provider> {
    let words = maps::words(text)?;
    let (url, options) = words.split_first()?;
    if !url.starts_with("https://") || url.len() == "https://".len() || url.contains(['?', '#']) {
        return None;
    }
    let is_scitoken = plugin == "scitoken";
    let mut provider = Provider {
        name: name.to_owned(),
        url: url.clone(),
        prefix: "/".to_owned(),
        has_scopes: is_scitoken,
        is_wlcg: is_scitoken,
        authorized: Vec::new(),
        identified: Vec::new(),
        source: source.clone(),
    };
    for option in options {
        match option.split_once('=') {
            Some(("-profile", profile)) => {
                provider.has_scopes = matches!(profile, "wlcg" | "scitokens");
                provider.is_wlcg = profile == "wlcg";
            }
            Some(("-prefix", prefix)) => provider.prefix = prefix.to_owned(),
            Some(("-authz-id", names)) => provider.authorized = principals(names),
            Some(("-non-authz-id", names)) => provider.identified = principals(names),
            None if option.starts_with('/') => provider.prefix = option.clone(),
            _ => {
                let words = format!("the option {option} is not taken over; here it has no effect");
                migration.in_part(source, words, "Tokens are judged as docs/tokens.md says");
            }
        }
    }
    Some(provider)
}

fn principals(names: &str) -> Vec<Principal> {
    names.split_whitespace().filter_map(Principal::parse).collect()
}

/// Writes an issuer. `is_mapped`: each of its tokens is mapped to a user; dCache refuses others.
pub(crate) fn write(provider: &Provider, is_mapped: bool, tree: &Tree, migration: &mut Migration) {
    let base = plain_path(&provider.prefix).and_then(|prefix| tree.url(&prefix));
    let counts = provider.has_scopes && is_mapped && base.is_some();
    if provider.has_scopes && base.is_none() {
        let words = "its prefix is outside of the tree that the doors show, so scopes of its tokens do not count";
        migration.in_part(&provider.source, words, "Set base_paths and strategy of the [[issuer]]");
    } else if provider.has_scopes && !is_mapped {
        let words = "no line maps all tokens of this issuer to a user, so scopes of its tokens do not count";
        let advice = "Add \"capability\" to its strategy, and a rule with its issuer and user";
        migration.in_part(&provider.source, words, advice);
    } else {
        migration.taken(&provider.source, "[[issuer]]");
    }
    let issuer = migration.document(DocumentKind::Endpoint).add("issuer");
    issuer.set("url", provider.url.as_str(), &provider.source);
    match (counts, base) {
        (true, Some(base)) => issuer.set("base_paths", vec![base], &provider.source),
        _ => issuer.set("strategy", vec!["group", "mapping"], &provider.source),
    };
    if !provider.is_wlcg {
        issuer.set("groups_claim", "groups", &provider.source);
    }
    for entry in issuer.entries.iter_mut().skip(1) {
        entry.sources.clear();
    }
}

/// Audiences that stand for this server.
pub(crate) fn audiences(stack: &Stack<'_>, migration: &mut Migration) {
    for (plugin, key) in [
        ("oidc", "gplazma.oidc.audience-targets"),
        ("scitoken", "gplazma.scitoken.audience-targets"),
    ] {
        let Some(line) = stack.find("auth", plugin) else {
            continue;
        };
        let value = stack.layout.value(stack.cell, key).ok().flatten();
        let Some(value) = value else { continue };
        let source = value.source.unwrap_or_else(|| line.source.clone());
        let named = value.text.split_whitespace();
        let (any, own): (Vec<&str>, Vec<&str>) = named.partition(|audience| *audience == ANY_AUDIENCE);
        for audience in own {
            migration.push(DocumentKind::Endpoint, "tokens.audiences", audience, &source);
        }
        if any.is_empty() {
            let words = "tokens for any audience of WLCG's profile are accepted, too";
            migration.in_part(
                &source,
                words,
                "Let clients ask for tokens with the audience of this server",
            );
        }
    }
}
