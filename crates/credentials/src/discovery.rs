//! Where a client finds its credentials: WLCG Bearer Token Discovery v1.0 and the grid's customary
//! trust directories.
//!
//! The environment and the file system are handed in as functions, so that only the binary touches
//! the real ones.

use std::path::{Path, PathBuf};

use types::limits::MACAROON_BYTES_MAX;
use types::{Error, ErrorCode, Phase, Secret, Side};

/// A token, and where it was found (a variable's name or a file's, never the token).
#[derive(Clone, Debug)]
pub struct FoundToken {
    /// The token without surrounding white space.
    pub token: Secret,
    /// Where it was found, for messages.
    pub place: String,
    /// The file that has it; `None`: it is in none.
    pub file: Option<PathBuf>,
}

/// What reading a file gave: its text, or `None` when there is no such file.
///
/// The reader must stop above [`MACAROON_BYTES_MAX`] bytes or so; longer tokens are refused here.
pub type FileText = std::io::Result<Option<String>>;

/// Looks for a bearer token: the variable `BEARER_TOKEN`; the file named by `BEARER_TOKEN_FILE`;
/// `bt_u<uid>` in `XDG_RUNTIME_DIR` when that is set; `/tmp/bt_u<uid>` when it is not. White space
/// around the token is dropped and an empty token passed over. `None` when there is none.
///
/// # Errors
/// `invalid_token` when a token cannot be one (RFC 6750 §2.1 says which characters it may have) and
/// `unauthenticated` when a file cannot be read, or one that is named explicitly is missing: going
/// on to the next place would use a credential that was not meant.
pub fn bearer_token(
    variable: impl Fn(&str) -> Option<String>,
    read_file: impl Fn(&Path) -> FileText,
    uid: u32,
) -> Result<Option<FoundToken>, Error> {
    if let Some(found) = variable("BEARER_TOKEN")
        .map(|text| accept(&text, "BEARER_TOKEN"))
        .transpose()?
        .flatten()
    {
        return Ok(Some(found));
    }
    let from_file = |path: &Path, must_exist: bool| match read_file(path) {
        Ok(Some(text)) => accept(&text, &path.display().to_string()).map(|found| {
            let file = Some(path.to_owned());
            found.map(|found| FoundToken { file, ..found })
        }),
        Ok(None) if !must_exist => Ok(None),
        Ok(None) => Err(unreadable(path, "there is no such file")),
        Err(error) => Err(unreadable(path, &error.to_string())),
    };
    let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    if let Some(name) = set("BEARER_TOKEN_FILE")
        && let Some(found) = from_file(Path::new(&name), true)?
    {
        return Ok(Some(found));
    }
    let directory = set("XDG_RUNTIME_DIR").unwrap_or_else(|| "/tmp".to_owned());
    from_file(&Path::new(&directory).join(format!("bt_u{uid}")), false)
}

/// The files of a certificate chain and its key, the same for a proxy, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCertificate {
    /// The PEM file with the chain.
    pub certificate: PathBuf,
    /// The PEM file with the key.
    pub key: PathBuf,
    /// The variable that names them; `None` for the customary place: an unusable file there is no
    /// error, since the user did not name it.
    pub variable: Option<&'static str>,
}

/// Looks for the certificate of a user: the proxy that `X509_USER_PROXY` names, even if it does not
/// exist; `X509_USER_CERT` with `X509_USER_KEY`, both set; the customary `/tmp/x509up_u<uid>` where
/// it exists. `None` when there is none.
#[must_use]
pub fn user_certificate(
    variable: impl Fn(&str) -> Option<String>,
    is_file: impl Fn(&Path) -> bool,
    uid: u32,
) -> Option<FoundCertificate> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(proxy) = set("X509_USER_PROXY") {
        return Some(FoundCertificate {
            certificate: proxy.clone(),
            key: proxy,
            variable: Some("X509_USER_PROXY"),
        });
    }
    if let (Some(certificate), Some(key)) = (set("X509_USER_CERT"), set("X509_USER_KEY")) {
        return Some(FoundCertificate {
            certificate,
            key,
            variable: Some("X509_USER_CERT"),
        });
    }
    let customary = PathBuf::from(format!("/tmp/x509up_u{uid}"));
    is_file(&customary).then(|| FoundCertificate {
        certificate: customary.clone(),
        key: customary,
        variable: None,
    })
}

/// The directory of trusted authorities: `X509_CERT_DIR` when set, even if it does not exist, else
/// `.globus/certificates` in `HOME`, else `/etc/grid-security/certificates`, the first that exists.
#[must_use]
pub fn trust_directory(
    variable: impl Fn(&str) -> Option<String>,
    is_directory: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("X509_CERT_DIR").or_else(|| {
        let home = set("HOME").map(|home| home.join(".globus/certificates"));
        let candidates = home
            .into_iter()
            .chain([PathBuf::from("/etc/grid-security/certificates")]);
        candidates.into_iter().find(|path| is_directory(path))
    })
}

fn accept(text: &str, place: &str) -> Result<Option<FoundToken>, Error> {
    let token = text.trim();
    if token.is_empty() {
        return Ok(None);
    }
    let plain = token
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte));
    if !plain || token.len() > MACAROON_BYTES_MAX {
        return Err(Error::new(ErrorCode::InvalidToken, Side::Client, Phase::Authenticate)
            .with_detail(format!("what stands in {place} is not a bearer token")));
    }
    Ok(Some(FoundToken {
        token: Secret::new(token),
        place: place.to_owned(),
        file: None,
    }))
}

fn unreadable(path: &Path, why: &str) -> Error {
    Error::new(ErrorCode::Unauthenticated, Side::Client, Phase::Authenticate)
        .with_detail(format!("the token file {} cannot be read: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(variables: &[(&str, &str)], files: &[(&str, &str)]) -> Result<Option<(String, String)>, ErrorCode> {
        let variable = |name: &str| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let file = |path: &Path| {
            let text = files
                .iter()
                .find(|(name, _)| Path::new(name) == path)
                .map(|(_, text)| (*text).to_owned());
            match text.as_deref() {
                Some("locked") => Err(std::io::ErrorKind::PermissionDenied.into()),
                _ => Ok(text),
            }
        };
        bearer_token(variable, file, 7)
            .map(|found| {
                found.map(|found| {
                    let has_file = found.file.is_some_and(|file| file == Path::new(&found.place));
                    assert_eq!(has_file, found.place != "BEARER_TOKEN", "{}", found.place);
                    (found.token.expose().to_owned(), found.place)
                })
            })
            .map_err(|error| error.code())
    }

    fn at(token: &str, place: &str) -> Result<Option<(String, String)>, ErrorCode> {
        Ok(Some((token.to_owned(), place.to_owned())))
    }

    #[test]
    fn places_in_their_order() {
        let files = [("/f", " file\n"), ("/run/bt_u7", "run"), ("/tmp/bt_u7", "tmp")];
        let variables = [
            ("BEARER_TOKEN", " var\n"),
            ("BEARER_TOKEN_FILE", "/f"),
            ("XDG_RUNTIME_DIR", "/run"),
        ];
        assert_eq!(find(&variables, &files), at("var", "BEARER_TOKEN"));
        assert_eq!(find(&variables[1..], &files), at("file", "/f"));
        assert_eq!(find(&variables[2..], &files), at("run", "/run/bt_u7"));
        assert_eq!(find(&[], &files), at("tmp", "/tmp/bt_u7"));
        assert_eq!(
            find(&variables[2..], &files[2..]),
            Ok(None),
            "/tmp only without XDG_RUNTIME_DIR"
        );
        assert_eq!(find(&[], &[]), Ok(None));
    }

    #[test]
    fn an_empty_token_is_passed_over_and_a_bad_one_stops_the_search() {
        let files = [("/f", "\n"), ("/tmp/bt_u7", "tmp")];
        assert_eq!(
            find(&[("BEARER_TOKEN", "  "), ("BEARER_TOKEN_FILE", "/f")], &files),
            at("tmp", "/tmp/bt_u7")
        );
        assert_eq!(
            find(&[("BEARER_TOKEN", "two words")], &files),
            Err(ErrorCode::InvalidToken)
        );
        assert_eq!(
            find(&[("BEARER_TOKEN", "a\r\nX: y")], &files),
            Err(ErrorCode::InvalidToken)
        );
        assert_eq!(
            find(&[("BEARER_TOKEN_FILE", "/none")], &files),
            Err(ErrorCode::Unauthenticated)
        );
        assert_eq!(find(&[], &[("/tmp/bt_u7", "locked")]), Err(ErrorCode::Unauthenticated));
    }

    #[test]
    fn user_certificates_in_their_order() {
        let variables = [
            ("X509_USER_PROXY", "/p"),
            ("X509_USER_CERT", "/c"),
            ("X509_USER_KEY", "/k"),
        ];
        let found = |variables: &[(&str, &str)], exists: bool| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            user_certificate(variable, |_| exists, 7).map(|found| {
                let files = format!("{} {}", found.certificate.display(), found.key.display());
                (files, found.variable)
            })
        };
        let files = |files: &str, variable| Some((files.to_owned(), variable));
        assert_eq!(found(&variables, true), files("/p /p", Some("X509_USER_PROXY")));
        assert_eq!(found(&variables[1..], true), files("/c /k", Some("X509_USER_CERT")));
        assert_eq!(
            found(&variables[2..], true),
            files("/tmp/x509up_u7 /tmp/x509up_u7", None),
            "a key alone is of no use"
        );
        assert_eq!(found(&[("X509_USER_PROXY", "")], false), None);
    }

    #[test]
    fn trust_directories_in_their_order() {
        let home = |name: &str| (name == "HOME").then(|| "/users/u".to_owned());
        let named = |name: &str| (name == "X509_CERT_DIR").then(|| "/ca".to_owned());
        let found = |path: &str| Some(PathBuf::from(path));
        assert_eq!(trust_directory(named, |_| false), found("/ca"));
        assert_eq!(trust_directory(home, |_| true), found("/users/u/.globus/certificates"));
        let system = |path: &Path| path.starts_with("/etc");
        assert_eq!(trust_directory(home, system), found("/etc/grid-security/certificates"));
        assert_eq!(trust_directory(home, |_| false), None);
    }
}
