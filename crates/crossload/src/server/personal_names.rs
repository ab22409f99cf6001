//! Personal names in the log, or hashes in their place.
//!
//! A hash shows that two requests came from the same person, but not from whom. Its key is made at
//! each start and never stored, so names cannot be tried against an old log.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use endpoint::ErrorFacts;
use net::random::random;
use types::ErrorCode;

/// Bytes of the hash in the log.
const SHOWN_BYTES: usize = 8;

/// Logs names, or hashes of them.
pub(crate) struct PersonalNames {
    shown: AtomicBool,
    key: Key,
}

impl PersonalNames {
    pub(crate) fn new(shown: bool) -> Self {
        Self {
            shown: AtomicBool::new(shown),
            key: Key::new(HMAC_SHA256, &random::<32>()),
        }
    }

    /// Sets whether names are logged from now on.
    pub(crate) fn set_shown(&self, shown: bool) {
        self.shown.store(shown, Ordering::Relaxed);
    }

    /// Whether names are logged.
    pub(crate) fn are_shown(&self) -> bool {
        self.shown.load(Ordering::Relaxed)
    }

    /// Replaces a name by its hash.
    pub(crate) fn hide(&self, name: &mut Option<String>) {
        let Some(text) = name else { return };
        let hash = sign(&self.key, text.as_bytes());
        let mut hidden = "name-".to_owned();
        for byte in &hash.as_ref()[..SHOWN_BYTES] {
            let _ = write!(hidden, "{byte:02x}");
        }
        *text = hidden;
    }

    /// Removes details that may name a person: those of failed authentication or authorisation.
    pub(crate) fn hide_in(&self, error: &mut Option<ErrorFacts>) {
        let Some(error) = error
            .as_mut()
            .filter(|error| matches!(error.phase, "authenticate" | "authorize"))
        else {
            return;
        };
        let code = ErrorCode::ALL.iter().find(|code| code.name() == error.code);
        error.message = code.map_or_else(String::new, |code| code.meaning().to_owned());
        error.private = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Error, Phase, Side};

    #[test]
    fn the_same_name_has_the_same_hash_until_the_next_start() {
        let (names, later) = (PersonalNames::new(false), PersonalNames::new(false));
        let hidden = |names: &PersonalNames, name: &str| {
            let mut name = Some(name.to_owned());
            names.hide(&mut name);
            name.unwrap()
        };
        let jane = hidden(&names, "/O=x/CN=Jane");
        assert_eq!(jane, hidden(&names, "/O=x/CN=Jane"));
        assert_ne!(jane, hidden(&names, "/O=x/CN=John"));
        assert_ne!(jane, hidden(&later, "/O=x/CN=Jane"));
        assert!(!jane.contains("Jane") && jane.len() == "name-".len() + 2 * SHOWN_BYTES);
        let mut nobody = None;
        names.hide(&mut nobody);
        assert_eq!(nobody, None);
    }

    #[test]
    fn errors_about_people_lose_their_details_and_others_do_not() {
        let names = PersonalNames::new(false);
        let facts = |code, phase| {
            let error = Error::new(code, Side::Client, phase).with_detail("/O=x/CN=Jane did it");
            let mut facts = Some(ErrorFacts::from(&error));
            names.hide_in(&mut facts);
            facts.unwrap().message
        };
        let refused = facts(ErrorCode::CertificateRevoked, Phase::Authenticate);
        assert_eq!(refused, ErrorCode::CertificateRevoked.meaning());
        assert!(facts(ErrorCode::NotFound, Phase::Open).contains("Jane"));
    }
}
