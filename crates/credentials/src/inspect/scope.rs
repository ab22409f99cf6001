//! What the scopes of a JSON Web Token mean to a storage server (WLCG Common JWT Profiles §2.2.1,
//! SciTokens claims and scopes language).

use types::{LogicalPath, decode_percent};

use crate::token::{Profile, is_wlcg_capability};

/// The meaning of a scope, and whether it is known here.
pub(super) fn meaning_of(scope: &str, profile: Profile) -> (String, bool) {
    let (name, path) = match scope.split_once(':') {
        Some((name, path)) => (name, Some(path)),
        None => (scope, None),
    };
    if let Some(verbs) = wlcg_verbs(name) {
        return match profile.is_scitokens() {
            true => (
                format!(
                    "{}; a scope of WLCG, which a SciToken does not have",
                    at(verbs, path, true)
                ),
                true,
            ),
            false => (at(verbs, path, true), true),
        };
    }
    let scitokens = match name {
        "read" => Some("read and list files"),
        "write" => Some("write, overwrite and delete files, and make directories"),
        _ => None,
    };
    if let Some(verbs) = scitokens {
        return match profile.is_scitokens() {
            true => (at(verbs, path, false), true),
            false => (
                format!(
                    "nothing: a scope of SciTokens in a token of the {} profile",
                    profile.name()
                ),
                true,
            ),
        };
    }
    match name {
        _ if name.starts_with("compute.") => (
            "for jobs, not for storage; but with it the groups do not count (WLCG)".to_owned(),
            true,
        ),
        "queue" | "execute" | "condor" => ("for jobs, not for storage".to_owned(), true),
        "wlcg.groups" | "wlcg" => ("asked the issuer for groups; gives no right by itself".to_owned(), true),
        "openid"
        | "profile"
        | "email"
        | "offline_access"
        | "address"
        | "phone"
        | "eduperson_entitlement"
        | "eduperson_scoped_affiliation"
        | "entitlements" => ("about who the bearer is; gives no right on storage".to_owned(), true),
        "host.auth" => (
            "the bearer is a service of the host that the subject names".to_owned(),
            true,
        ),
        _ => ("not known here; storage servers ignore it".to_owned(), false),
    }
}

/// Whether a scope gives a right, so that the groups of the token do not count.
pub(super) fn is_capability(scope: &str) -> bool {
    is_wlcg_capability(scope)
}

fn wlcg_verbs(name: &str) -> Option<&'static str> {
    Some(match name {
        "storage.read" => "read and list files",
        "storage.create" => "write new files and make directories, but neither overwrite nor delete",
        "storage.modify" => "write, overwrite, rename and delete files, but not read them",
        "storage.stage" => "bring files from tape, but not read them",
        "storage.poll" => "ask whether files are on disk",
        _ => return None,
    })
}

/// The verbs with their place. Paths are relative to the directory that the server has for the
/// issuer.
fn at(verbs: &str, path: Option<&str>, needs_path: bool) -> String {
    let Some(raw) = path.filter(|path| !path.is_empty()) else {
        return match needs_path {
            true => format!("{verbs}; but without a path, for which servers may refuse the whole token"),
            false => format!("{verbs}, everywhere"),
        };
    };
    match decode_percent(raw).and_then(|path| LogicalPath::parse(&path).ok()) {
        None => format!("{verbs}; but its path is invalid, so servers refuse the whole token"),
        Some(path) if path.is_root() => format!("{verbs}, everywhere below the issuer's directories"),
        Some(path) => format!(
            "{verbs}, on {} and below, seen from the issuer's directories",
            super::shown(path.as_str())
        ),
    }
}
