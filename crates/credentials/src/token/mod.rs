//! JSON Web Tokens of issuers that a site trusts: the WLCG Common JWT Profiles 1.x, SciTokens 1 and
//! 2, and OAuth access tokens (RFC 9068).
//!
//! A token is parsed first ([`UnverifiedToken`]), so that a malformed one makes no request to its
//! issuer. Then come the issuer, which must be in the list, the key, the signature, and last the
//! claims.

mod claims;
mod discovery_document;
mod groups;
mod id_token;
mod issuer;
mod json;
mod jwt;
mod keys;
mod name_map;
mod profile;
mod scitokens_cfg;
mod scope;
mod shortfall;

pub(crate) use claims::{ANY_AUDIENCE, SCITOKENS_ANY_AUDIENCE};
pub use discovery_document::{https_location, key_set_place};
pub use id_token::IdTokenDemands;
pub use issuer::{IssuerRules, Strategy, TokenRules};
pub use jwt::UnverifiedToken;
pub(crate) use jwt::is_access_token;
pub use keys::KeySet;
pub use name_map::NameMap;
pub(crate) use profile::Profile;
pub use scitokens_cfg::SciTokensConfig;
pub(crate) use scope::is_wlcg_capability;
pub use shortfall::Shortfall;

use types::{Error, ErrorCode, Phase, Side};

use crate::credential::VerifiedToken;

/// A token that is refused, and why, in words that its sender may see.
fn refused(code: ErrorCode, why: impl Into<String>) -> Error {
    Error::new(code, Side::Client, Phase::Authenticate).with_detail(why)
}

/// Verifies a token with the keys of its issuer, which are those that `keys` gives.
///
/// # Errors
/// As [`TokenRules::issuer`], [`UnverifiedToken::check_signature`] and [`UnverifiedToken::read`];
/// what `keys` says when it has none.
pub fn verify_token(
    token: &UnverifiedToken,
    rules: &TokenRules,
    keys: impl FnOnce(&IssuerRules) -> Result<std::sync::Arc<KeySet>, Error>,
    now_s: i64,
) -> Result<VerifiedToken, Error> {
    let issuer = rules.issuer(token.issuer())?;
    token.check_signature(&*keys(issuer)?)?;
    token.read(rules, issuer, now_s)
}

#[cfg(test)]
mod tests;
