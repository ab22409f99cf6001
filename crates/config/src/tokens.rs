//! Keys about tokens and their issuers.

use std::path::PathBuf;
use std::time::Duration;

use credentials::{IssuerRules, Strategy, is_user_name};
use types::{LogicalPath, limits};

use crate::section;
use crate::section::{LIVE, Purpose};

/// What of an issuer's tokens counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// Their scopes.
    Capability,
    /// Their groups.
    Group,
    /// The local user that they are mapped to.
    Mapping,
}

section! {
    /// JSON Web Tokens: of the WLCG profile 1, SciTokens 1 and 2, and OAuth access tokens, signed with RS256 or ES256. Whose
    /// tokens are taken is said in `[[issuer]]`.
    "tokens" false Tokens {
        /// The audiences by which this server is meant, compared byte by byte. When none is given: `server.name`, and
        /// `https://HOST:PORT` for each address that is listened on and each name in the certificate.
        audiences: Vec<String> = Some(Vec::new()) => LIVE;
        /// The difference of clocks that is put up with in the times of a token.
        clock_skew: Duration = Some(limits::TOKEN_CLOCK_SKEW) => LIVE;
        /// How long a request waits for the keys of an issuer when none of them is at hand.
        issuer_wait: Duration = Some(limits::ISSUER_WAIT) => LIVE;
        /// Time to fetch the keys of an issuer, all of it.
        issuer_timeout: Duration = Some(limits::ISSUER_FETCH_TIMEOUT) => LIVE;
        /// How often the keys of an issuer are fetched again, in the background; at least an hour.
        key_refresh: Duration = Some(limits::ISSUER_REFRESH) => LIVE;
        /// How long keys are used whose issuer cannot be reached any more.
        key_expiry: Duration = Some(limits::ISSUER_EXPIRY) => LIVE;
        /// A directory for the keys of issuers, so that a server that is started while an issuer is down knows them. Only
        /// the server's account may be able to write there. Not kept when not set.
        state_directory: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Private, "the state directory");
        /// How many tokens and macaroons that were verified are remembered.
        remembered: u32 = Some(limits::VERIFIED_TOKENS_MAX as u32) => LIVE;
        /// How long each of them is remembered, though never beyond its own time. A key that its issuer takes back counts
        /// for so long in tokens that were seen before.
        remembered_for: Duration = Some(limits::VERIFIED_TOKEN_LIFETIME) => LIVE;
        /// The `scitokens.cfg` of an XRootD server, whose issuers and audiences count beside those of this file. Read again
        /// when it changes.
        scitokens_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Rights, "the file");
    }
}

section! {
    /// An issuer whose tokens are taken. There may be several.
    "issuer" true Issuer {
        /// Its name, an https URL, exactly as its tokens have it (`iss`): a slash at the end makes a difference.
        url: String = None => LIVE;
        /// The virtual organisation that it speaks for, for rules and quotas.
        vo: Option<String> = Some(None) => LIVE;
        /// What the paths in the scopes of its tokens are seen from: with `/atlas`, the scope `storage.read:/data` is about
        /// `/atlas/data`.
        base_paths: Vec<LogicalPath> = Some(vec![LogicalPath::root()]) => LIVE;
        /// Where scopes count only, seen from the base paths too; everywhere when the list is empty.
        restricted_paths: Vec<LogicalPath> = Some(Vec::new()) => LIVE;
        /// What of its tokens counts: scopes (`capability`), groups for rules (`group`), the mapping to a local user
        /// (`mapping`). Scopes, where a token has them, are all that counts of it beside the mapping.
        strategy: Vec<Counts> = Some(vec![Counts::Capability, Counts::Group, Counts::Mapping]) => LIVE;
        /// The claim with the groups: `wlcg.groups`, `groups`, or an entitlement as AARC describes it.
        groups_claim: String = Some(IssuerRules::GROUPS_CLAIM.to_owned()) => LIVE;
        /// The claim with the name of the local user.
        username_claim: Option<String> = Some(None) => LIVE;
        /// Whether the subject is the name of the local user.
        map_subject: bool = Some(false) => LIVE;
        /// The local user of tokens that nothing else maps.
        default_user: Option<String> = Some(None) => LIVE;
        /// A file that maps subjects, user names and groups to local users: the `name_mapfile` of XRootD.
        name_map_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Rights, "the issuer's file");
        /// Its keys (a JSON Web Key Set) in a file, for sites from which it cannot be reached. It is never asked then.
        jwks_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Rights, "the issuer's file");
    }
}

impl Issuer {
    /// What is said about it, but for the content of files.
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

/// What is wrong with these sections: the section, and why.
pub(crate) fn faults(tokens: &Tokens, issuers: &[Issuer]) -> Vec<(&'static str, String)> {
    let mut faults = Vec::new();
    let mut issuer_fault = |words: String| faults.push(("issuer", words));
    for (index, issuer) in issuers.iter().enumerate() {
        let url = &issuer.url;
        if !url.starts_with("https://") || url.len() == "https://".len() || url.contains(['?', '#', ' ']) {
            issuer_fault(format!("url: \"{url}\" is not an https URL without a query"));
        }
        if issuers[..index].iter().any(|other| other.url == *url) {
            issuer_fault(format!("the issuer {url} is named twice"));
        }
        if issuer.base_paths.is_empty() {
            issuer_fault(format!("base_paths: the scopes of {url} could not count anywhere"));
        }
        if issuer.base_paths.len().max(issuer.restricted_paths.len()) > limits::ISSUER_PATHS_MAX {
            issuer_fault(format!("{url}: more than {} paths", limits::ISSUER_PATHS_MAX));
        }
        if issuer.default_user.as_ref().is_some_and(|user| !is_user_name(user)) {
            issuer_fault(format!("default_user of {url} cannot be the name of a user"));
        }
        if issuer.strategy.is_empty() {
            issuer_fault(format!("strategy: nothing of the tokens of {url} would count"));
        }
    }
    if issuers.len() > limits::ISSUERS_MAX {
        issuer_fault(format!("there are more than {}", limits::ISSUERS_MAX));
    }
    let mut token_fault = |words: &str| faults.push(("tokens", words.to_owned()));
    if tokens.key_refresh < limits::ISSUER_REFRESH_MIN {
        token_fault("key_refresh: must be at least \"1h\"");
    }
    if tokens.key_expiry < tokens.key_refresh {
        token_fault("key_expiry is shorter than key_refresh");
    }
    if tokens.issuer_timeout.is_zero() {
        token_fault("issuer_timeout: must be more than 0");
    }
    faults
}
