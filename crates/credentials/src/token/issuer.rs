//! What a site says about the issuers that it accepts.

use types::{Error, ErrorCode, LogicalPath};

use super::name_map::NameMap;
use super::refused;
use crate::inspect::shown;

/// What of an issuer's tokens counts (the words of XRootD's SciTokens plug-in).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// Scopes give rights by themselves.
    pub capability: bool,
    /// Groups can be named by rules.
    pub group: bool,
    /// The token is mapped to a local user.
    pub mapping: bool,
}

impl Strategy {
    /// All three, the default.
    pub const ALL: Self = Self {
        capability: true,
        group: true,
        mapping: true,
    };

    /// Reads words such as `capability group`.
    ///
    /// # Errors
    /// The word that is not known.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut strategy = Self {
            capability: false,
            group: false,
            mapping: false,
        };
        for word in words {
            match word.to_ascii_lowercase().as_str() {
                "capability" => strategy.capability = true,
                "group" => strategy.group = true,
                "mapping" => strategy.mapping = true,
                other => return Err(format!("\"{other}\" is not one of capability, group, mapping")),
            }
        }
        Ok(strategy)
    }
}

impl Default for Strategy {
    fn default() -> Self {
        Self::ALL
    }
}

/// One issuer whose tokens are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerRules {
    /// Its name, byte for byte as `iss` in its tokens has it.
    pub url: String,
    /// The virtual organisation that it speaks for.
    pub vo: Option<String>,
    /// What the paths in scopes are seen from.
    pub base_paths: Vec<LogicalPath>,
    /// Where scopes count only, seen from the base paths; everywhere below them when empty.
    pub restricted_paths: Vec<LogicalPath>,
    /// What of its tokens counts.
    pub strategy: Strategy,
    /// The claim with the groups.
    pub groups_claim: String,
    /// The claim with the name of the local user.
    pub username_claim: Option<String>,
    /// Whether the subject is the name of the local user.
    pub map_subject: bool,
    /// The local user of tokens that nothing else maps.
    pub default_user: Option<String>,
    /// Rules that map subjects, user names and groups to local users; they come first.
    pub name_map: NameMap,
}

impl IssuerRules {
    /// The claim of the WLCG profile.
    pub const GROUPS_CLAIM: &'static str = "wlcg.groups";

    /// An issuer with everything else as by default.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            vo: None,
            base_paths: vec![LogicalPath::root()],
            restricted_paths: Vec::new(),
            strategy: Strategy::ALL,
            groups_claim: Self::GROUPS_CLAIM.to_owned(),
            username_claim: None,
            map_subject: false,
            default_user: None,
            name_map: NameMap::default(),
        }
    }
}

/// What tokens are checked against, but for the keys.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TokenRules {
    /// The issuers that are accepted.
    pub issuers: Vec<IssuerRules>,
    /// The audiences that name this server.
    pub audiences: Vec<String>,
    /// The difference of clocks that is put up with, in seconds.
    pub skew_s: i64,
}

impl TokenRules {
    /// What the site says about this issuer. Names are compared byte by byte (WLCG Common JWT
    /// Profiles).
    ///
    /// # Errors
    /// `token_issuer_unknown`; of a name that differs from one of the list by little, it says by
    /// what.
    pub fn issuer(&self, name: &str) -> Result<&IssuerRules, Error> {
        if let Some(found) = self.issuers.iter().find(|issuer| issuer.url == name) {
            return Ok(found);
        }
        let mut words = format!("its issuer is \"{}\"", shown(name));
        match self
            .issuers
            .iter()
            .find_map(|known| Some((known, difference(&known.url, name)?)))
        {
            Some((known, difference)) => {
                words.push_str(&format!(
                    ", and the list of accepted issuers has \"{}\", {difference}",
                    known.url
                ));
            }
            None if self.issuers.is_empty() => words.push_str("; this server accepts tokens of no issuer"),
            None => {}
        }
        Err(refused(ErrorCode::TokenIssuerUnknown, words))
    }
}

/// By what two names of the same issuer differ; `None` when they are of two issuers.
fn difference(known: &str, name: &str) -> Option<&'static str> {
    let bare = |url: &str| url.trim_end_matches('/').to_ascii_lowercase();
    let rest = |url: &str| {
        let url = bare(url);
        let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest).to_owned();
        let (host, path) = rest.split_once('/').unwrap_or((&rest, ""));
        format!("{}/{path}", host.trim_end_matches(":443"))
    };
    if known.trim_end_matches('/') == name.trim_end_matches('/') {
        Some("which differs in the slash at the end")
    } else if bare(known) == bare(name) {
        Some("which differs in capital letters")
    } else if rest(known) == rest(name) {
        Some("which differs in the scheme or the port")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_is_found_by_its_very_name_and_near_misses_are_told() {
        let rules = TokenRules {
            issuers: vec![IssuerRules::new("https://wlcg.cloud.cnaf.infn.it/")],
            ..TokenRules::default()
        };
        assert!(rules.issuer("https://wlcg.cloud.cnaf.infn.it/").is_ok());
        for (name, words) in [
            ("https://wlcg.cloud.cnaf.infn.it", "slash at the end"),
            ("https://WLCG.cloud.cnaf.infn.it/", "capital"),
            ("https://wlcg.cloud.cnaf.infn.it:443/", "the port"),
            ("http://wlcg.cloud.cnaf.infn.it/", "the scheme"),
        ] {
            let error = rules.issuer(name).unwrap_err();
            assert_eq!(error.code(), ErrorCode::TokenIssuerUnknown);
            assert!(error.public().contains(words), "{error}");
        }
        let stranger = rules.issuer("https://evil.example.org/").unwrap_err().public();
        assert!(!stranger.contains("cnaf"), "{stranger}");
        let none = TokenRules::default().issuer("https://i").unwrap_err().public();
        assert!(none.contains("no issuer"), "{none}");
    }

    #[test]
    fn strategies_are_words() {
        let strategy = Strategy::parse(["Capability", "group"]).unwrap();
        assert!(strategy.capability && strategy.group && !strategy.mapping);
        assert!(Strategy::parse(["everything"]).is_err());
    }
}
