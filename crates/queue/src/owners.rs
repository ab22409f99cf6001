//! Who an owner of jobs is.
//!
//! FTS names a user by `user_dn`: the name of a certificate, or the subject of a token. A subject
//! means something together with its issuer only, so users of two issuers may have the same one.
//! The name of the delegation is a digest of issuer and subject, written one after the other:
//! alone it could be that of another pair, but together with the subject it stands for one issuer.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use catalog::{Login, Owner};

/// FTS's name for a client: the beginning of SHA-1 over its names.
#[must_use]
pub fn delegation_id<'t>(parts: impl IntoIterator<Item = &'t str>) -> String {
    let whole: String = parts.into_iter().collect();
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, whole.as_bytes());
    hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether two owners are the same user. The delegation of a certificate also depends on its
/// VOMS attributes, and does not count.
#[must_use]
pub fn is_same_user(one: &Owner, other: &Owner) -> bool {
    one.login == other.login
        && match one.login {
            Login::Certificate => one.user == other.user,
            Login::Token => one.user == other.user && one.delegation_id == other.delegation_id,
            Login::Anonymous => true,
        }
}

/// Whether a user has this name, as operators write it: that of a certificate, or
/// `subject@issuer` of a token.
#[must_use]
pub fn is_named(owner: &Owner, name: &str) -> bool {
    match owner.login {
        Login::Certificate | Login::Anonymous => owner.user == name,
        Login::Token => {
            let issuer = name.strip_prefix(&*owner.user).and_then(|rest| rest.strip_prefix('@'));
            issuer.is_some_and(|issuer| delegation_id([issuer, &owner.user]) == owner.delegation_id)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(issuer: &str, subject: &str) -> Owner {
        Owner {
            user: subject.to_owned(),
            delegation_id: delegation_id([issuer, subject]),
            vo: "atlas".to_owned(),
            login: Login::Token,
        }
    }

    #[test]
    fn a_subject_is_of_one_issuer() {
        let jane = token("https://a/", "jane");
        let others = [
            token("https://b/", "jane"),
            // Issuer and subject are the same text one after the other.
            token("https://a/j", "ane"),
            Owner {
                login: Login::Certificate,
                ..jane.clone()
            },
        ];
        assert!(is_same_user(&jane, &jane.clone()) && is_named(&jane, "jane@https://a/"));
        for other in others {
            assert!(!is_same_user(&jane, &other), "{other:?}");
            assert!(!is_named(&other, "jane@https://a/"), "{other:?}");
            assert_ne!((jane.unique_name(), jane.login), (other.unique_name(), other.login));
        }
        for name in ["jane", "jane@", "jane@https://b/", "x", ""] {
            assert!(!is_named(&jane, name), "{name}");
        }
        let odd = token("https://a/", "jane@cern.ch");
        assert!(is_named(&odd, "jane@cern.ch@https://a/"));
    }
}
