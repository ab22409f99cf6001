//! Whether the scopes of a token may be too narrow for a file, from what its client knows.
//!
//! Paths of scopes begin at a directory that a storage has for the issuer (WLCG Common JWT Profiles
//! §2.2.1), and a client does not know which: `/webdav/atlas/data/f` may be `/data/f` there. So a
//! path is compared from each of its directories on. Storages may also look at groups, or know the
//! subject. For all of these reasons the answer is good for a warning only.

use std::fmt;

use types::LogicalPath;

use super::UnverifiedToken;
use super::claims::{Rights, scopes};
use super::profile::Profile;
use crate::activity::Activities;
use crate::grant::Scope;
use crate::inspect::shown;
use crate::limits::SHORTFALL_SCOPES_MAX;

/// Why scopes may not be enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// Some scope allows it, but on other paths.
    pub is_elsewhere: bool,
    /// The scopes.
    scopes: Vec<String>,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self.is_elsewhere {
            true => "its scopes are for other paths (",
            false => "none of its scopes allows that (",
        })?;
        for (number, scope) in self.scopes.iter().take(SHORTFALL_SCOPES_MAX).enumerate() {
            let separator = if number == 0 { "" } else { " " };
            write!(to, "{separator}{}", shown(scope))?;
        }
        let rest = self.scopes.len().saturating_sub(SHORTFALL_SCOPES_MAX);
        match rest {
            0 => to.write_str(")"),
            _ => write!(to, " and {rest} more)"),
        }
    }
}

impl UnverifiedToken {
    /// Why the token may not allow `wanted` on the path of a URL. `None`: it seems to, or nothing
    /// can be said: it has no scopes for storages, groups that may count as well, scopes that
    /// cannot be read, or none whose path has to do with this one.
    #[must_use]
    pub fn shortfall(&self, wanted: Activities, path: &LogicalPath) -> Option<Shortfall> {
        let profile = Profile::accepted(self.claims(), self.is_access_token()).ok()?;
        let has_groups = self.claims().contains_key("wlcg.groups");
        let texts = scopes(self.claims()).ok().filter(|_| !has_groups)?;
        let storage = Rights::read(&texts, profile).ok()?.storage;
        if storage.is_empty() || may(&storage, wanted, path) {
            return None;
        }
        let is_elsewhere = granted(storage.iter()).contains(wanted);
        if is_elsewhere && !storage.iter().any(|scope| begins_in(scope, path)) {
            return None;
        }
        let is_of_storage = |text: &String| Rights::read(std::slice::from_ref(text), profile).is_ok_and(has_storage);
        Some(Shortfall {
            is_elsewhere,
            scopes: texts.into_iter().filter(is_of_storage).collect(),
        })
    }
}

fn has_storage(rights: Rights) -> bool {
    !rights.storage.is_empty()
}

fn granted<'a>(scopes: impl Iterator<Item = &'a Scope>) -> Activities {
    scopes.fold(Activities::NONE, |all, scope| all.union(scope.activities))
}

/// Whether there is a directory on the path such that the scopes allow it, seen from there.
fn may(scopes: &[Scope], wanted: Activities, path: &LogicalPath) -> bool {
    let names: Vec<&str> = path.components().collect();
    (0..=names.len()).any(|first| {
        let Ok(seen) = LogicalPath::parse(&format!("/{}", names[first..].join("/"))) else {
            return false;
        };
        granted(scopes.iter().filter(|scope| scope.covers(&seen))).contains(wanted)
    })
}

/// Whether the first directory of the scope is on the path.
fn begins_in(scope: &Scope, path: &LogicalPath) -> bool {
    let first = scope.path.components().next();
    first.is_some_and(|first| path.components().any(|name| name == first))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::{Value, json};

    use super::*;
    use crate::activity::Activity;

    const READ: Activities = Activities::of(&[Activity::Download]);
    const WRITE: Activities = Activities::of(&[Activity::Upload]);
    const REPLACE: Activities = Activities::of(&[Activity::Upload, Activity::Delete]);

    fn said(claims: &Value, wanted: Activities, path: &str) -> Option<String> {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let header = part("{\"alg\": \"RS256\"}");
        let token = format!("{header}.{}.{}", part(&claims.to_string()), part("signature"));
        let token = UnverifiedToken::parse(&token).unwrap();
        let path = LogicalPath::parse_url_path(path).unwrap();
        token.shortfall(wanted, &path).map(|shortfall| shortfall.to_string())
    }

    fn of_scopes(scopes: &str, wanted: Activities, path: &str) -> Option<String> {
        said(
            &json!({"iss": "https://i", "wlcg.ver": "1.0", "scope": scopes}),
            wanted,
            path,
        )
    }

    #[test]
    fn what_a_scope_may_cover_from_some_directory_is_enough() {
        for (scopes, wanted, path) in [
            ("storage.read:/", READ, "/webdav/atlas/data/f"),
            ("storage.read:/data", READ, "/webdav/atlas/data/f"),
            ("storage.read:/atlas/data/f", READ, "/webdav//atlas/data/f"),
            ("storage.create:/data", WRITE, "/data/f"),
            ("storage.modify:/data storage.read:/", REPLACE, "/data/f"),
            // Nothing of the scope is on the path: the storage may have any directory for it.
            ("storage.read:/user/jane", READ, "/export7/f"),
        ] {
            assert_eq!(of_scopes(scopes, wanted, path), None, "{scopes} {path}");
        }
    }

    #[test]
    fn what_no_scope_can_cover_is_named() {
        for (scopes, wanted, path, words) in [
            (
                "storage.modify:/ fts",
                READ,
                "/f",
                "none of its scopes allows that (storage.modify:/)",
            ),
            (
                "storage.read:/",
                WRITE,
                "/f",
                "none of its scopes allows that (storage.read:/)",
            ),
            (
                "storage.create:/",
                REPLACE,
                "/f",
                "none of its scopes allows that (storage.create:/)",
            ),
            (
                "storage.read:/atlas/scratch",
                READ,
                "/webdav/atlas/data/f",
                "its scopes are for other paths (storage.read:/atlas/scratch)",
            ),
            (
                "storage.read:/data storage.modify:/scratch",
                WRITE,
                "/webdav/data/f",
                "its scopes are for other paths (storage.read:/data storage.modify:/scratch)",
            ),
            (
                "storage.read:/a/b storage.read:/a/c storage.read:/a/d storage.read:/a/e storage.read:/a/f",
                READ,
                "/a/g",
                "its scopes are for other paths \
                 (storage.read:/a/b storage.read:/a/c storage.read:/a/d storage.read:/a/e and 1 more)",
            ),
        ] {
            assert_eq!(
                of_scopes(scopes, wanted, path).as_deref(),
                Some(words),
                "{scopes} {path}"
            );
        }
    }

    #[test]
    fn what_a_storage_decides_by_other_claims_is_not_judged() {
        let both = json!({"iss": "https://i", "wlcg.ver": "1.0", "scope": "storage.read:/", "wlcg.groups": ["/vo"]});
        assert_eq!(said(&both, WRITE, "/f"), None);
        for scopes in ["openid", "storage.read", "storage.read:/a/../b", "compute.create"] {
            assert_eq!(of_scopes(scopes, WRITE, "/f"), None, "{scopes}");
        }
        let other = json!({"iss": "https://i", "wlcg.ver": "9.0", "scope": "storage.read:/"});
        assert_eq!(said(&other, WRITE, "/f"), None);
        let scitoken = json!({"iss": "https://i", "ver": "scitoken:2.0", "scope": "read:/data"});
        assert_eq!(said(&scitoken, READ, "/x/data/f"), None);
        assert!(said(&scitoken, WRITE, "/x/data/f").is_some());
    }
}
