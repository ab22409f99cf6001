//! The scopes of a token and the paths in them (WLCG Common JWT Profiles §2.2.1; SciTokens claims
//! and scopes language).

use crate::limits::SCOPE_DECODE_PASSES_MAX;
use types::{Error, ErrorCode, LogicalPath, decode_percent};

use super::profile::Profile;
use super::refused;
use crate::activity::{Activities, Activity};
use crate::grant::Scope;
use crate::inspect::shown;

/// The form in which SciTokens were written first.
const SCITOKENS_URL: &str = "https://scitokens.org/v1/authz/";

const READ: Activities = Activities::READ;
const CREATE: Activities = Activities::of(&[Activity::ReadMetadata, Activity::Upload]);
const MODIFY: Activities = Activities::of(&[
    Activity::ReadMetadata,
    Activity::UpdateMetadata,
    Activity::Upload,
    Activity::Manage,
    Activity::Delete,
]);
const STAGE: Activities = Activities::of(&[Activity::ReadMetadata, Activity::Stage]);

/// What one scope is to this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It grants; the path is seen from the issuer's base paths.
    Storage(Scope),
    /// It is a capability, which makes groups not count, but grants nothing here.
    Elsewhere,
    /// It says something else.
    Nothing,
}

/// Reads one scope.
///
/// # Errors
/// `token_scope` for a storage scope whose path is missing (WLCG) or invalid: the whole token is
/// refused then.
pub(super) fn read(scope: &str, profile: Profile) -> Result<Meaning, Error> {
    if profile.is_scitokens() {
        read_scitokens(scope)
    } else {
        read_wlcg(scope)
    }
}

fn read_wlcg(scope: &str) -> Result<Meaning, Error> {
    let (name, path) = match scope.split_once(':') {
        Some((name, path)) => (name, Some(path)),
        None => (scope, None),
    };
    let activities = match name {
        "storage.read" => READ,
        "storage.create" => CREATE,
        "storage.modify" => MODIFY,
        "storage.stage" => STAGE,
        // Where a file is (on disk, on tape) is asked of the tape service; storage needs no right
        // for it.
        "storage.poll" => Activities::NONE,
        _ if is_wlcg_capability(name) => return Ok(Meaning::Elsewhere),
        _ => return Ok(Meaning::Nothing),
    };
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        return Err(unsound(scope, "it has no path"));
    };
    let (path, inside_only) = normalised(path).map_err(|why| unsound(scope, why))?;
    if activities.is_empty() {
        return Ok(Meaning::Elsewhere);
    }
    Ok(Meaning::Storage(Scope {
        activities,
        path,
        inside_only,
    }))
}

/// Whether a scope of this name gives a right somewhere, so that the groups of the token do not
/// count.
pub(crate) fn is_wlcg_capability(name: &str) -> bool {
    name.starts_with("storage.") || name.starts_with("compute.")
}

fn read_scitokens(scope: &str) -> Result<Meaning, Error> {
    let short = scope.strip_prefix(SCITOKENS_URL).unwrap_or(scope);
    let (name, path) = short.split_once(':').unwrap_or((short, ""));
    let activities = match name {
        "read" => READ,
        "write" => CREATE.union(MODIFY),
        "queue" | "execute" | "condor" => return Ok(Meaning::Elsewhere),
        _ if is_wlcg_capability(name) => return Ok(Meaning::Elsewhere),
        _ => return Ok(Meaning::Nothing),
    };
    let path = match path {
        "" => LogicalPath::root(),
        path => normalised(path).map_err(|why| unsound(scope, why))?.0,
    };
    Ok(Meaning::Storage(Scope {
        activities,
        path,
        inside_only: false,
    }))
}

fn unsound(scope: &str, why: &str) -> Error {
    refused(ErrorCode::TokenScope, format!("the scope \"{}\": {why}", shown(scope)))
}

/// Brings the path of a scope into its one form, as strictly as libscitokens does: it is
/// percent-decoded until nothing is left to decode, and what two readers could take for two
/// different places is refused.
///
/// The flag says that the path ends in a slash: the scope covers the content, not the directory
/// itself. The root always includes itself.
fn normalised(raw: &str) -> Result<(LogicalPath, bool), &'static str> {
    let mut text = raw.to_owned();
    for _ in 0..SCOPE_DECODE_PASSES_MAX {
        if !text.contains('%') {
            break;
        }
        let lower = text.to_ascii_lowercase();
        if lower.contains("%2f") {
            return Err("its path holds an encoded slash");
        }
        text = decode_percent(&text).ok_or("its path is not valid percent-encoded UTF-8")?;
    }
    if text.contains('%') {
        return Err("its path is encoded too often");
    }
    if text.contains('\\') {
        return Err("its path holds a backslash");
    }
    if !text.starts_with('/') {
        return Err("its path is not absolute");
    }
    if text.split('/').any(|name| name == "..") {
        return Err("its path goes up with ..");
    }
    let path = LogicalPath::parse(&text).map_err(|_| "its path holds control characters or is too long")?;
    let inside_only = text.ends_with('/') && !path.is_root();
    Ok((path, inside_only))
}

/// The scope as it counts here: below each base path of the issuer, and only where the restricted
/// paths (seen from the base paths too, everywhere when there are none) allow.
pub(super) fn placed<'a>(
    scope: &'a Scope,
    base_paths: &'a [LogicalPath],
    restricted_paths: &'a [LogicalPath],
) -> impl Iterator<Item = Scope> + 'a {
    let narrowed: Vec<Scope> = match restricted_paths {
        [] => vec![scope.clone()],
        paths => paths.iter().filter_map(|path| narrowed(scope, path)).collect(),
    };
    narrowed.into_iter().flat_map(move |scope| {
        base_paths.iter().map(move |base| Scope {
            path: scope.path.under(base),
            ..scope.clone()
        })
    })
}

fn narrowed(scope: &Scope, only: &LogicalPath) -> Option<Scope> {
    if scope.path.is_within(only) {
        Some(scope.clone())
    } else if only.is_within(&scope.path) {
        Some(Scope {
            path: only.clone(),
            inside_only: false,
            ..scope.clone()
        })
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(scope: &str, profile: Profile) -> (String, String, bool) {
        match read(scope, profile).unwrap() {
            Meaning::Storage(scope) => (scope.activities.to_string(), scope.path.to_string(), scope.inside_only),
            other => panic!("{scope}: {other:?}"),
        }
    }

    #[test]
    fn wlcg_scopes_are_read() {
        for (scope, activities, path, inside) in [
            ("storage.read:/", "READ_METADATA,LIST,DOWNLOAD", "/", false),
            ("storage.read:/a%20b", "READ_METADATA,LIST,DOWNLOAD", "/a b", false),
            ("storage.create:/a//./b", "READ_METADATA,UPLOAD", "/a/b", false),
            ("storage.create:/a/b/", "READ_METADATA,UPLOAD", "/a/b", true),
            (
                "storage.modify:/a",
                "READ_METADATA,UPDATE_METADATA,UPLOAD,MANAGE,DELETE",
                "/a",
                false,
            ),
            ("storage.stage:/a:b", "READ_METADATA,STAGE", "/a:b", false),
        ] {
            let expected = (activities.to_owned(), path.to_owned(), inside);
            assert_eq!(storage(scope, Profile::Wlcg), expected, "{scope}");
        }
        for scope in ["storage.poll:/a", "compute.read", "storage.fly:/../x"] {
            assert_eq!(read(scope, Profile::Wlcg).unwrap(), Meaning::Elsewhere, "{scope}");
        }
        for scope in ["openid", "read:/", "wlcg.groups:/a", "Storage.read:/", ""] {
            assert_eq!(read(scope, Profile::Wlcg).unwrap(), Meaning::Nothing, "{scope}");
        }
    }

    #[test]
    fn scitokens_are_read_in_both_forms_with_a_default_path() {
        let read_all = "READ_METADATA,LIST,DOWNLOAD".to_owned();
        for (scope, path) in [
            ("read", "/"),
            ("read:", "/"),
            ("read:/a/", "/a"),
            ("https://scitokens.org/v1/authz/read:/a", "/a"),
        ] {
            assert_eq!(
                storage(scope, Profile::SciTokens2),
                (read_all.clone(), path.to_owned(), false),
                "{scope}"
            );
        }
        let (activities, ..) = storage("write:/a", Profile::SciTokens1);
        assert_eq!(activities, "READ_METADATA,UPDATE_METADATA,UPLOAD,MANAGE,DELETE");
        for scope in ["queue", "condor:/READ", "storage.read:/"] {
            assert_eq!(read(scope, Profile::SciTokens2).unwrap(), Meaning::Elsewhere, "{scope}");
        }
    }

    #[test]
    fn a_path_with_two_meanings_refuses_the_token() {
        for path in [
            "a",
            "/a/../b",
            "/..",
            "/a/%2e%2e/b",
            "/%252e%252e",
            "/a%2fb",
            "/a%252Fb",
            "/a%25252fb",
            "/a\\b",
            "/a%5cb",
            "/a%00b",
            "/a\u{1}b",
            "/a%",
            "/a%zz",
            "/a%ff",
            "/a%2525252525",
        ] {
            for scope in [format!("storage.read:{path}"), format!("storage.poll:{path}")] {
                assert_eq!(
                    read(&scope, Profile::Wlcg).unwrap_err().code(),
                    ErrorCode::TokenScope,
                    "{scope}"
                );
            }
            let scope = format!("read:{path}");
            assert!(read(&scope, Profile::SciTokens2).is_err(), "{scope}");
        }
        for scope in ["storage.read", "storage.read:", "storage.stage"] {
            let error = read(scope, Profile::Wlcg).unwrap_err();
            assert!(error.public().contains("no path"), "{error}");
        }
    }

    #[test]
    fn base_and_restricted_paths_place_a_scope() {
        let paths =
            |list: &[&str]| -> Vec<LogicalPath> { list.iter().map(|path| LogicalPath::parse(path).unwrap()).collect() };
        let Meaning::Storage(scope) = read("storage.read:/a/", Profile::Wlcg).unwrap() else {
            panic!("it grants");
        };
        let at = |bases: &[&str], restricted: &[&str]| -> Vec<String> {
            let (bases, restricted) = (paths(bases), paths(restricted));
            placed(&scope, &bases, &restricted)
                .map(|scope| format!("{}{}", scope.path, if scope.inside_only { "/" } else { "" }))
                .collect()
        };
        assert_eq!(at(&["/"], &[]), ["/a/"]);
        assert_eq!(at(&["/vo", "/scratch"], &[]), ["/vo/a/", "/scratch/a/"]);
        assert_eq!(at(&["/vo"], &["/a/b", "/c"]), ["/vo/a/b"]);
        assert_eq!(at(&["/vo"], &["/"]), ["/vo/a/"]);
        assert!(at(&["/vo"], &["/ab"]).is_empty() && at(&[], &[]).is_empty());
    }
}
