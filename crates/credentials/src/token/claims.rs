//! From the claims of a token to what it grants and who its holder is.

use crate::limits::{GRANT_SCOPES_MAX, TOKEN_AUDIENCES_MAX, TOKEN_GROUPS_MAX, TOKEN_SCOPES_MAX};
use serde_json::{Map, Value};
use types::{Error, ErrorCode};

use super::groups;
use super::issuer::{IssuerRules, TokenRules};
use super::jwt::UnverifiedToken;
use super::profile::Profile;
use super::refused;
use super::scope::{self, Meaning};
use crate::credential::{VerifiedToken, is_user_name};
use crate::duration::duration_in_words;
use crate::grant::{Grant, Scope};
use crate::inspect::shown;
use crate::principal::Principal;

/// The audience that means every server (WLCG Common JWT Profiles).
pub(crate) const ANY_AUDIENCE: &str = "https://wlcg.cern.ch/jwt/v1/any";
/// The same in SciTokens 2.
pub(crate) const SCITOKENS_ANY_AUDIENCE: &str = "ANY";
/// What a SciToken of version 1 may hold: it has to be refused for a claim that could restrict it
/// and is not known.
const SCITOKENS_1_CLAIMS: [&str; 20] = [
    "iss",
    "sub",
    "aud",
    "exp",
    "nbf",
    "iat",
    "jti",
    "scope",
    "scp",
    "ver",
    "opt",
    "site",
    "client_id",
    "azp",
    "cid",
    "typ",
    "wlcg.groups",
    "auth_time",
    "acr",
    "sid",
];

impl UnverifiedToken {
    /// What it is worth here, if its signature is good: profile, times, audience, scopes, groups,
    /// user.
    ///
    /// `issuer` are the rules about the issuer that the token names, `now_s` is the time in seconds
    /// since 1970.
    ///
    /// # Errors
    /// `token_profile`, `token_claims`, `token_expired`, `token_not_yet_valid`, `token_audience`,
    /// `token_scope`, `token_too_large`, in this order.
    pub fn read(&self, rules: &TokenRules, issuer: &IssuerRules, now_s: i64) -> Result<VerifiedToken, Error> {
        let claims = self.claims();
        let profile = Profile::accepted(claims, self.is_access_token())?;
        for name in required(profile) {
            if !claims.contains_key(*name) {
                let words = format!("a token of the profile {} must have \"{name}\"", profile.name());
                return Err(refused(ErrorCode::TokenClaims, words));
            }
        }
        let (expires_s, not_before_s) = check_times(claims, rules.skew_s, now_s)?;
        let scopes = scopes(claims)?;
        let rights = Rights::read(&scopes, profile)?;
        let audiences = audiences(claims)?;
        check_audience(claims, &audiences, profile, &rights, rules)?;
        check_known(claims, profile, &rights, issuer)?;
        let subject = text(claims, "sub")?.map(str::to_owned);
        let checked = Checked {
            subject: subject.clone(),
            has_groups: !rights.is_capability,
            expires_s,
            not_before_s,
            audiences,
        };
        let token = self.of_holder(checked, issuer)?;
        Ok(VerifiedToken {
            grant: rights.grant(issuer, expires_s, subject)?,
            ..token
        })
    }

    /// The token with what the rules about its issuer say of its holder. It grants nothing yet.
    ///
    /// # Errors
    /// `token_claims` or `token_too_large` for a claim about the holder.
    pub(super) fn of_holder(&self, checked: Checked, issuer: &IssuerRules) -> Result<VerifiedToken, Error> {
        let claims = self.claims();
        let subject = checked.subject;
        let groups = match issuer.strategy.group && checked.has_groups {
            true => groups::read(claims, issuer)?,
            false => Vec::new(),
        };
        let user = match issuer.strategy.mapping {
            true => user(claims, issuer, subject.as_deref(), &groups)?,
            false => None,
        };
        Ok(VerifiedToken {
            grant: None,
            principal: Principal {
                dn: None,
                issuer: Some(self.issuer().to_owned()),
                subject,
                groups,
                vos: issuer.vo.iter().cloned().collect(),
                fqans: Vec::new(),
                user,
            },
            token_id: text(claims, "jti")?.map(str::to_owned),
            expires_s: checked.expires_s,
            not_before_s: checked.not_before_s,
            audiences: checked.audiences,
            text: None,
        })
    }
}

/// What was checked of a token before its holder is looked at.
pub(super) struct Checked {
    pub(super) subject: Option<String>,
    /// Whether groups of the holder count.
    pub(super) has_groups: bool,
    pub(super) expires_s: i64,
    pub(super) not_before_s: Option<i64>,
    pub(super) audiences: Vec<String>,
}

/// The scopes of a token, read.
pub(super) struct Rights {
    /// Seen from the issuer's base paths.
    pub(super) storage: Vec<Scope>,
    /// Some scope gives a right, here or elsewhere: the token says itself what it may be used for.
    is_capability: bool,
}

impl Rights {
    pub(super) fn read(scopes: &[String], profile: Profile) -> Result<Self, Error> {
        let mut rights = Self {
            storage: Vec::new(),
            is_capability: false,
        };
        for text in scopes {
            match scope::read(text, profile)? {
                Meaning::Storage(scope) => {
                    rights.storage.push(scope);
                    rights.is_capability = true;
                }
                Meaning::Elsewhere => rights.is_capability = true,
                Meaning::Nothing => {}
            }
        }
        Ok(rights)
    }

    /// A token with capabilities grants these and nothing else, regardless of rules about its
    /// holder. So does a token from an issuer whose scopes alone the site accepts.
    fn grant(&self, issuer: &IssuerRules, expires_s: i64, subject: Option<String>) -> Result<Option<Grant>, Error> {
        let strategy = issuer.strategy;
        if !self.is_capability && (strategy.group || strategy.mapping) {
            return Ok(None);
        }
        let mut scopes: Vec<Scope> = Vec::new();
        for scope in self.storage.iter().filter(|_| strategy.capability) {
            for placed in scope::placed(scope, &issuer.base_paths, &issuer.restricted_paths) {
                if scopes.contains(&placed) {
                    continue;
                }
                if scopes.len() == GRANT_SCOPES_MAX {
                    let words = format!("with its issuer's base paths it makes more than {GRANT_SCOPES_MAX} scopes");
                    return Err(refused(ErrorCode::TokenTooLarge, words));
                }
                scopes.push(placed);
            }
        }
        Ok(Some(Grant {
            except: Vec::new(),
            scopes,
            expires_s: Some(expires_s),
            addresses: Vec::new(),
            max_upload_bytes: None,
            subject,
        }))
    }
}

/// What each profile demands beside the issuer and the times that are looked at anyway.
fn required(profile: Profile) -> &'static [&'static str] {
    match profile {
        Profile::Wlcg => &["sub", "exp", "iat", "aud", "jti"],
        // RFC 9068 §2.2; the client does not matter here.
        Profile::AccessToken => &["sub", "exp", "iat", "aud"],
        Profile::SciTokens2 => &["exp", "iat", "nbf", "aud"],
        Profile::SciTokens1 => &["exp"],
    }
}

/// A text; `None` when there is none.
pub(super) fn text<'a>(claims: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Error> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(wrong_kind(name, "a text")),
    }
}

fn wrong_kind(name: &str, kind: &str) -> Error {
    refused(ErrorCode::TokenClaims, format!("\"{name}\" is not {kind}"))
}

/// A time in seconds since 1970; a fraction is dropped (RFC 7519 §2, NumericDate).
fn time_s(claims: &Map<String, Value>, name: &str) -> Result<Option<i64>, Error> {
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    let seconds = value
        .as_i64()
        .or_else(|| value.as_f64().map(|seconds| seconds.floor() as i64));
    seconds
        .map(Some)
        .ok_or_else(|| wrong_kind(name, "a time in seconds since 1970"))
}

/// The end of validity, and its beginning with the skew taken off.
pub(super) fn check_times(claims: &Map<String, Value>, skew_s: i64, now_s: i64) -> Result<(i64, Option<i64>), Error> {
    let expires_s =
        time_s(claims, "exp")?.ok_or_else(|| refused(ErrorCode::TokenClaims, "it has no time of expiry"))?;
    let begins_s = time_s(claims, "nbf")?.max(time_s(claims, "iat")?);
    if expires_s <= now_s {
        let words = format!("it expired {} ago", duration_in_words(now_s.abs_diff(expires_s)));
        return Err(refused(ErrorCode::TokenExpired, words));
    }
    let not_before_s = begins_s.map(|begins_s| begins_s.saturating_sub(skew_s));
    if let Some(begins_s) = begins_s.filter(|_| not_before_s.is_some_and(|from_s| now_s < from_s)) {
        let words = format!("it becomes valid in {}", duration_in_words(begins_s.abs_diff(now_s)));
        return Err(refused(ErrorCode::TokenNotYetValid, words));
    }
    Ok((expires_s, not_before_s))
}

/// The claim `scope` is a text with blanks between the scopes (RFC 8693 §4.2); early SciTokens have
/// a list, `scp`.
pub(super) fn scopes(claims: &Map<String, Value>) -> Result<Vec<String>, Error> {
    let scopes: Vec<String> = match (claims.get("scope"), claims.get("scp")) {
        (Some(Value::String(text)), _) | (None, Some(Value::String(text))) => text
            .split(' ')
            .filter(|scope| !scope.is_empty())
            .map(str::to_owned)
            .collect(),
        (Some(Value::Array(list)), _) | (None, Some(Value::Array(list))) => {
            list_of_texts(list).ok_or_else(|| wrong_kind("scope", "a list of texts"))?
        }
        (None, None) => Vec::new(),
        _ => return Err(wrong_kind("scope", "a text")),
    };
    if scopes.len() > TOKEN_SCOPES_MAX {
        let words = format!("it has more than {TOKEN_SCOPES_MAX} scopes");
        return Err(refused(ErrorCode::TokenTooLarge, words));
    }
    Ok(scopes)
}

pub(super) fn list_of_texts(list: &[Value]) -> Option<Vec<String>> {
    list.iter().map(|entry| entry.as_str().map(str::to_owned)).collect()
}

/// One audience or a list of them.
pub(super) fn audiences(claims: &Map<String, Value>) -> Result<Vec<String>, Error> {
    match claims.get("aud") {
        Some(Value::String(audience)) => Ok(vec![audience.clone()]),
        Some(Value::Array(list)) if list.len() <= TOKEN_AUDIENCES_MAX => {
            list_of_texts(list).ok_or_else(|| wrong_kind("aud", "a list of texts"))
        }
        Some(Value::Array(_)) => {
            let words = format!("it has more than {TOKEN_AUDIENCES_MAX} audiences");
            Err(refused(ErrorCode::TokenTooLarge, words))
        }
        Some(_) => Err(wrong_kind("aud", "a text or a list of texts")),
        None => Ok(Vec::new()),
    }
}

/// One of the audiences has to be ours, byte for byte.
fn check_audience(
    claims: &Map<String, Value>,
    audiences: &[String],
    profile: Profile,
    rights: &Rights,
    rules: &TokenRules,
) -> Result<(), Error> {
    // Only a capability of SciTokens' first version needs none.
    if audiences.is_empty() && profile == Profile::SciTokens1 && rights.is_capability && !claims.contains_key("aud") {
        return Ok(());
    }
    if audiences.is_empty() {
        return Err(refused(ErrorCode::TokenAudience, "it names no audience"));
    }
    let wildcard = match profile {
        Profile::Wlcg => Some(ANY_AUDIENCE),
        Profile::SciTokens2 => Some(SCITOKENS_ANY_AUDIENCE),
        Profile::SciTokens1 | Profile::AccessToken => None,
    };
    let is_ours = |audience: &String| rules.audiences.contains(audience) || wildcard == Some(audience.as_str());
    if audiences.iter().any(is_ours) {
        return Ok(());
    }
    let named: Vec<String> = audiences
        .iter()
        .take(4)
        .map(|audience| format!("\"{}\"", shown(audience)))
        .collect();
    let more = if audiences.len() > named.len() {
        " and others"
    } else {
        ""
    };
    let own = match rules.audiences.as_slice() {
        [] => "none".to_owned(),
        own => own
            .iter()
            .map(|audience| format!("\"{audience}\""))
            .collect::<Vec<_>>()
            .join(", "),
    };
    let words = format!("its audience is {}{more}; this server's are {own}", named.join(", "));
    Err(refused(ErrorCode::TokenAudience, words))
}

/// SciTokens 1: a claim that is not known may restrict the token in a way that cannot be honoured.
fn check_known(
    claims: &Map<String, Value>,
    profile: Profile,
    rights: &Rights,
    issuer: &IssuerRules,
) -> Result<(), Error> {
    if profile != Profile::SciTokens1 || rights.storage.is_empty() {
        return Ok(());
    }
    let is_known = |name: &str| {
        SCITOKENS_1_CLAIMS.contains(&name)
            || name == issuer.groups_claim
            || issuer.username_claim.as_deref() == Some(name)
    };
    match claims.keys().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => {
            let words = format!("it is read as SciTokens 1, which has no claim \"{}\"", shown(name));
            Err(refused(ErrorCode::TokenProfile, words))
        }
    }
}

/// The local user: by the rules of the map, by the claim or the subject, or the default one.
fn user(
    claims: &Map<String, Value>,
    issuer: &IssuerRules,
    subject: Option<&str>,
    groups: &[String],
) -> Result<Option<String>, Error> {
    let named = match &issuer.username_claim {
        Some(name) => text(claims, name)?,
        None => None,
    };
    let named = named.or(subject.filter(|_| issuer.map_subject));
    if let Some(user) = issuer.name_map.user(subject, named, groups) {
        return Ok(Some(user.to_owned()));
    }
    match named {
        Some(name) if is_user_name(name) => Ok(Some(name.to_owned())),
        Some(_) => Err(refused(
            ErrorCode::TokenClaims,
            "the name in it cannot be the name of a local user",
        )),
        None => Ok(issuer.default_user.clone()),
    }
}

/// Whether there are more groups than are taken.
pub(super) fn check_group_count(count: usize) -> Result<(), Error> {
    if count > TOKEN_GROUPS_MAX {
        let words = format!("it has more than {TOKEN_GROUPS_MAX} groups");
        return Err(refused(ErrorCode::TokenTooLarge, words));
    }
    Ok(())
}
