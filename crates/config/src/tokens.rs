//! Keys about tokens and their issuers.

use std::path::PathBuf;
use std::time::Duration;

use credentials::{IssuerRules, Strategy, is_user_name};
use types::{LogicalPath, limits};

use crate::section;
use crate::section::{Conflict, LIVE, Purpose, Values as _};

/// The part of an issuer's tokens that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// Their scopes.
    Capability,
    /// Their groups.
    Group,
    /// The local user they are mapped to.
    Mapping,
}

section! {
    /// JSON Web Tokens: WLCG profile 1, SciTokens 1 and 2, and OAuth access tokens, signed with
    /// RS256 or ES256. `[[issuer]]` says whose tokens are accepted.
    "tokens" false Tokens {
        /// Audiences that stand for this server, compared byte by byte. When empty: `server.name`,
        /// and `https://HOST:PORT` for each listening address and each name in the certificate.
        audiences: Vec<String> = Some(Vec::new()) => LIVE;
        /// Clock difference that is tolerated in the times of a token.
        clock_skew: Duration = Some(limits::TOKEN_CLOCK_SKEW) => LIVE;
        /// How long a request waits for an issuer's keys when none are known yet.
        issuer_wait: Duration = Some(limits::ISSUER_WAIT) => LIVE;
        /// Time to fetch an issuer's keys.
        issuer_timeout: Duration = Some(limits::ISSUER_FETCH_TIMEOUT) => LIVE;
        /// How often an issuer's keys are fetched again, in the background; at least an hour.
        key_refresh: Duration = Some(limits::ISSUER_REFRESH) => LIVE;
        /// How long keys stay in use when their issuer cannot be reached.
        key_expiry: Duration = Some(limits::ISSUER_EXPIRY) => LIVE;
        /// Directory where issuers' keys are stored, so that a server can start while an issuer is
        /// down. Only the server's account may write there. Not stored when not set.
        state_directory: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Private, "the state directory");
        /// Most verified tokens and macaroons that are cached.
        remembered: u32 = Some(limits::VERIFIED_TOKENS_MAX as u32) => LIVE;
        /// How long a verified token is cached, but never beyond its own lifetime. Tokens already
        /// seen stay valid this long after their key is withdrawn.
        remembered_for: Duration = Some(limits::VERIFIED_TOKEN_LIFETIME) => LIVE;
        /// XRootD `scitokens.cfg`, whose issuers and audiences are added to those of this file. The
        /// file is read again when it changes.
        scitokens_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Rights, "the file");
    }
}

section! {
    /// An issuer whose tokens are accepted. Repeat the section for several.
    "issuer" true Issuer {
        /// Name of the issuer: an https URL, exactly as in the `iss` of its tokens. A trailing
        /// slash makes a difference.
        url: String = None => LIVE;
        /// Virtual organisation that the issuer speaks for, for rules and quotas.
        vo: Option<String> = Some(None) => LIVE;
        /// Paths to which scopes are relative: with `/atlas`, the scope `storage.read:/data` means
        /// `/atlas/data`.
        base_paths: Vec<LogicalPath> = Some(vec![LogicalPath::root()]) => LIVE;
        /// Paths in which scopes count, relative to the base paths. All paths when empty.
        restricted_paths: Vec<LogicalPath> = Some(Vec::new()) => LIVE;
        /// Which parts of its tokens count. `"capability"`: scopes; `"group"`: groups, for rules;
        /// `"mapping"`: the local user. A token with scopes gives no rights through its groups.
        strategy: Vec<Counts> = Some(vec![Counts::Capability, Counts::Group, Counts::Mapping]) => LIVE;
        /// Claim that holds the groups: `wlcg.groups`, `groups`, or an AARC entitlement.
        groups_claim: String = Some(IssuerRules::GROUPS_CLAIM.to_owned()) => LIVE;
        /// Claim that holds the name of the local user.
        username_claim: Option<String> = Some(None) => LIVE;
        /// Use the subject as the name of the local user.
        map_subject: bool = Some(false) => LIVE;
        /// Local user for tokens without any other mapping.
        default_user: Option<String> = Some(None) => LIVE;
        /// File that maps subjects, user names and groups to local users: XRootD's `name_mapfile`.
        name_map_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Rights, "the issuer's file");
        /// File with the issuer's keys (a JSON Web Key Set), for sites that cannot reach the
        /// issuer. The issuer is then never contacted.
        jwks_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Rights, "the issuer's file");
    }
}

impl Issuer {
    /// Its rules, without the content of files.
    pub fn rules(&self) -> IssuerRules {
        let counts = |what: Counts| self.strategy.contains(&what);
        IssuerRules {
            url: self.url.clone(),
            vo: self.vo.clone(),
            base_paths: self.base_paths.clone(),
            restricted_paths: self.restricted_paths.clone(),
            strategy: Strategy {
                capability: counts(Counts::Capability),
                group: counts(Counts::Group),
                mapping: counts(Counts::Mapping),
            },
            groups_claim: self.groups_claim.clone(),
            username_claim: self.username_claim.clone(),
            map_subject: self.map_subject,
            default_user: self.default_user.clone(),
            ..IssuerRules::new("")
        }
    }
}

impl Issuer {
    /// Mistakes in it. Those `before` it have other URLs.
    fn faults(&self, before: &[Self]) -> Vec<String> {
        let mut faults = Vec::new();
        let url = &self.url;
        if !url.starts_with("https://") || url.len() == "https://".len() || url.contains(['?', '#', ' ']) {
            faults.push(format!(
                "url: \"{url}\" is no issuer; write its https URL, without a query"
            ));
        }
        if before.iter().any(|other| other.url == *url) {
            faults.push(format!("url: the issuer {url} is named twice; remove one"));
        }
        if self.base_paths.is_empty() {
            faults.push(format!(
                "base_paths: no path is left where the scopes of {url} count; write one such as \"/\""
            ));
        }
        for (key, paths) in [
            ("base_paths", &self.base_paths),
            ("restricted_paths", &self.restricted_paths),
        ] {
            if paths.len() > limits::ISSUER_PATHS_MAX {
                faults.push(format!(
                    "{key}: more than {} paths; remove some",
                    limits::ISSUER_PATHS_MAX
                ));
            }
        }
        if let Some(user) = self.default_user.as_ref().filter(|user| !is_user_name(user)) {
            faults.push(format!(
                "default_user: \"{user}\" cannot be the name of a local user; write one"
            ));
        }
        if self.strategy.is_empty() {
            faults.push(format!(
                "strategy: no part of the tokens of {url} would count; name at least one"
            ));
        }
        faults
    }
}

/// Mistakes in the issuers.
pub(crate) fn issuer_faults(issuers: &[Issuer]) -> Vec<Conflict> {
    let section = Issuer::SECTION.name;
    let mut conflicts = Vec::new();
    for (index, issuer) in issuers.iter().enumerate() {
        let faults = issuer.faults(&issuers[..index]).into_iter();
        conflicts.extend(faults.map(|words| Conflict { section, index, words }));
    }
    if issuers.len() > limits::ISSUERS_MAX {
        conflicts.push(Conflict {
            section,
            index: limits::ISSUERS_MAX,
            words: format!("url: more than {} issuers; remove some", limits::ISSUERS_MAX),
        });
    }
    conflicts
}

impl Tokens {
    /// Mistakes that involve several keys.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.key_refresh < limits::ISSUER_REFRESH_MIN {
            faults.push("key_refresh: must be at least \"1h\"".to_owned());
        }
        if self.key_expiry < self.key_refresh {
            let words = "key_expiry: is shorter than key_refresh; raise it, or lower key_refresh";
            faults.push(words.to_owned());
        }
        if self.issuer_timeout.is_zero() {
            faults.push("issuer_timeout: must be more than 0".to_owned());
        }
        faults
    }
}
