//! Tokens for the storages of a job. They are kept apart from it, by name.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use indexmap::IndexMap;
use types::Secret;

use super::body::Texts;
use crate::fts::FtsError;
use crate::limits::TOKEN_BYTES_MAX;
use crate::queue::{GivenToken, TokenUse};

/// The tokens of a job so far, each once.
#[derive(Default)]
pub(super) struct Tokens(IndexMap<String, GivenToken>);

impl Tokens {
    /// The names of the tokens for a list of `count` URLs, in their order: one for each, or none at
    /// all.
    ///
    /// # Errors
    /// 400 if some URLs have a token and others have none, or for what cannot be a token.
    pub(super) fn add(
        &mut self,
        tokens: Option<Texts>,
        count: usize,
        purpose: TokenUse,
    ) -> Result<Vec<Option<String>>, FtsError> {
        let given = tokens.map(|texts| texts.0).unwrap_or_default();
        let given: Vec<String> = given.into_iter().flatten().filter(|token| !token.is_empty()).collect();
        if given.is_empty() {
            return Ok(vec![None; count]);
        }
        if given.len() != count {
            let side = match purpose {
                TokenUse::Source => "source",
                TokenUse::Destination => "destination",
            };
            let message = format!("{} {side} tokens for {count} URLs: each needs one", given.len());
            return Err(FtsError::invalid(message));
        }
        given
            .into_iter()
            .map(|token| self.name_of(token, purpose).map(Some))
            .collect()
    }

    /// The name of a token: the beginning of its SHA-1 digest, as in FTS.
    fn name_of(&mut self, token: String, purpose: TokenUse) -> Result<String, FtsError> {
        let token = Secret::new(token);
        let text = token.expose();
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain || text.len() > TOKEN_BYTES_MAX {
            return Err(FtsError::invalid("a token is malformed or too long"));
        }
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
        let name: String = hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let given = || GivenToken {
            name: name.clone(),
            token: token.clone(),
            purpose,
        };
        self.0.entry(name.clone()).or_insert_with(given);
        Ok(name)
    }

    pub(super) fn into_list(self) -> Vec<GivenToken> {
        self.0.into_values().collect()
    }
}
