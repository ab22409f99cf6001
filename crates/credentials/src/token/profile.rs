//! By which profile a token is read.

use serde_json::{Map, Value};
use types::{Error, ErrorCode};

use super::refused;
use crate::inspect::shown;

/// The profiles that are known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// WLCG Common JWT Profiles 1.x.
    Wlcg,
    /// SciTokens 1, which says nothing of its version.
    SciTokens1,
    /// SciTokens 2.
    SciTokens2,
    /// An OAuth access token (RFC 9068).
    AccessToken,
}

impl Profile {
    /// The words for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Wlcg => "WLCG",
            Self::SciTokens1 => "SciTokens 1",
            Self::SciTokens2 => "SciTokens 2",
            Self::AccessToken => "OAuth access token (RFC 9068)",
        }
    }

    /// Whether scopes are those of SciTokens.
    pub(crate) fn is_scitokens(self) -> bool {
        matches!(self, Self::SciTokens1 | Self::SciTokens2)
    }

    /// By what servers tell the profiles apart, whatever the versions.
    pub(crate) fn of(claims: &Map<String, Value>, is_access_token: bool) -> Self {
        if claims.contains_key("wlcg.ver") {
            Self::Wlcg
        } else if claims.contains_key("ver") {
            Self::SciTokens2
        } else if is_access_token {
            Self::AccessToken
        } else {
            Self::SciTokens1
        }
    }

    /// The profile of a token whose version is accepted here: 1 of WLCG with any minor number, 1 or
    /// 2 of SciTokens.
    pub(super) fn accepted(claims: &Map<String, Value>, is_access_token: bool) -> Result<Self, Error> {
        match Self::of(claims, is_access_token) {
            Self::Wlcg => match version(claims, "wlcg.ver")?.split_once('.') {
                Some(("1", minor)) if is_number(minor) => Ok(Self::Wlcg),
                _ => Err(unknown("wlcg.ver", claims)),
            },
            Self::SciTokens2 => {
                let version = version(claims, "ver")?;
                // The specification says "scitoken", its first library "scitokens".
                let number = version
                    .strip_prefix("scitokens:")
                    .or_else(|| version.strip_prefix("scitoken:"));
                match number.and_then(|number| number.split_once('.')) {
                    Some(("2", minor)) if is_number(minor) => Ok(Self::SciTokens2),
                    Some(("1", minor)) if is_number(minor) => Ok(Self::SciTokens1),
                    _ => Err(unknown("ver", claims)),
                }
            }
            other => Ok(other),
        }
    }
}

fn version<'a>(claims: &'a Map<String, Value>, name: &str) -> Result<&'a str, Error> {
    claims
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| unknown(name, claims))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn unknown(name: &str, claims: &Map<String, Value>) -> Error {
    let value = claims.get(name).map(ToString::to_string).unwrap_or_default();
    let words = format!("its version ({name}) is {}", shown(&value));
    refused(ErrorCode::TokenProfile, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(claims: &str, is_access_token: bool) -> Result<Profile, ErrorCode> {
        let claims = serde_json::from_str(claims).unwrap();
        Profile::accepted(&claims, is_access_token).map_err(|error| error.code())
    }

    #[test]
    fn versions_choose_the_profile() {
        for (claims, profile) in [
            (r#"{"wlcg.ver":"1.0"}"#, Profile::Wlcg),
            (r#"{"wlcg.ver":"1.3"}"#, Profile::Wlcg),
            (r#"{"wlcg.ver":"1.3","ver":"scitoken:2.0"}"#, Profile::Wlcg),
            (r#"{"ver":"scitoken:2.0"}"#, Profile::SciTokens2),
            (r#"{"ver":"scitokens:2.1"}"#, Profile::SciTokens2),
            (r#"{"ver":"scitokens:1.0"}"#, Profile::SciTokens1),
            ("{}", Profile::SciTokens1),
        ] {
            assert_eq!(accepted(claims, false), Ok(profile), "{claims}");
        }
        assert_eq!(accepted("{}", true), Ok(Profile::AccessToken));
        for claims in [
            r#"{"wlcg.ver":"2.0"}"#,
            r#"{"wlcg.ver":"10.0"}"#,
            r#"{"wlcg.ver":"1"}"#,
            r#"{"wlcg.ver":"1."}"#,
            r#"{"wlcg.ver":1.0}"#,
            r#"{"ver":"2.0"}"#,
            r#"{"ver":"scitoken:3.0"}"#,
        ] {
            assert_eq!(accepted(claims, false), Err(ErrorCode::TokenProfile), "{claims}");
        }
    }
}
