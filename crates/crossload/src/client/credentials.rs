//! The user's credentials: which token and which certificate the client sends, and where it found
//! them.
//!
//! Both may be sent. Servers prefer the token, so it is named first.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use config::Remote;
use credentials::discovery::{FoundCertificate, FoundToken, bearer_token, user_certificate};
use http_wire::ForwardedHeaders;
use net::tls::ClientIdentity;
use types::limits::MACAROON_BYTES_MAX;
use types::{Error, ErrorCode, Phase, Result, Secret, Side};

use super::account::FoundAccount;
use crate::command_line::Access;
use crate::server::secret::load_passwords;

/// A user's credentials, and where they come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    pub(crate) token: Option<FoundToken>,
    pub(crate) identity: Option<ClientIdentity>,
    /// A user's name and password, and the file that has the password.
    login: Option<Login>,
    /// The account of a named remote at an S3 storage.
    pub(crate) account: Option<FoundAccount>,
    /// The certificate's subject and file, and the option or variable that named it.
    identity_words: String,
    /// The files of the certificate.
    pub(crate) identity_files: Option<FoundCertificate>,
    /// A certificate that was found but is not used, and why.
    pub(crate) passed_over: Option<String>,
}

/// A user's name and password at servers of HTTP.
#[derive(Clone, Debug)]
struct Login {
    user: String,
    password: Secret,
    file: PathBuf,
}

impl Credentials {
    /// The credentials of a named remote, and no others.
    ///
    /// # Errors
    /// One of them is unusable.
    pub(crate) fn of_remote(remote: &Remote) -> Result<Self> {
        let mut found = Self {
            token: match &remote.token_file {
                Some(file) => Some(found_in(file)?),
                None => None,
            },
            login: match (&remote.user, &remote.password_file) {
                (Some(user), Some(file)) => Some(Login {
                    user: user.clone(),
                    password: password_in(file)?,
                    file: file.clone(),
                }),
                _ => None,
            },
            account: FoundAccount::of_remote(remote)?,
            ..Self::default()
        };
        let certificate = match (&remote.proxy, &remote.cert) {
            (Some(proxy), _) => Some((proxy, proxy)),
            (None, Some(cert)) => Some((cert, remote.key.as_ref().unwrap_or(cert))),
            (None, None) => None,
        };
        if let Some((certificate, key)) = certificate {
            let files = FoundCertificate {
                certificate: certificate.clone(),
                key: key.clone(),
                variable: Some("the remote"),
            };
            found.take(&files, &format!("the remote {}", remote.name))?;
        }
        Ok(found)
    }

    /// The header with the user's name and password, if there are any.
    pub(crate) fn login(&self) -> ForwardedHeaders {
        match &self.login {
            Some(login) => ForwardedHeaders::of_user(&login.user, &login.password),
            None => ForwardedHeaders::default(),
        }
    }

    /// Finds a token and a certificate: those of the options, else those in the usual places.
    ///
    /// # Errors
    /// A credential that the user named is unusable. One in a usual place is skipped with a notice.
    pub(crate) fn find(access: &Access) -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        let mut found = Self {
            token: match (&access.token, &access.token_file) {
                (Some(token), _) => Some(FoundToken {
                    token: token.clone(),
                    place: "--fts-access-token".to_owned(),
                    file: None,
                }),
                (None, Some(file)) => bearer_token(|name| named_only(name, file), read_token, uid())?,
                (None, None) => bearer_token(variable, read_token, uid())?,
            },
            ..Self::default()
        };
        if let Some(certificate) =
            certificate_files(access.proxy.as_deref(), access.cert.as_deref(), access.key.as_deref())
        {
            found.take(&certificate.files, &certificate.by)?;
        }
        Ok(found)
    }

    fn take(&mut self, files: &FoundCertificate, why: &str) -> Result<()> {
        let place = files.certificate.display();
        let is_named = files.variable.is_some();
        let identity = match loaded(files, why) {
            Ok(identity) => identity,
            // A variable may be left from another session, and the server may ask for nothing.
            Err(_) if !why.starts_with("--") && is_named && !files.certificate.exists() => {
                self.passed_over = Some(format!(
                    "{why} names {place}, which does not exist: no certificate is sent"
                ));
                return Ok(());
            }
            Err(error) if is_named => return Err(error),
            Err(error) => {
                let why = error.detail().unwrap_or_default();
                self.passed_over = Some(format!("{place} is not used: {why}"));
                return Ok(());
            }
        };
        if has_ended(&identity) {
            let words = format!("the certificate in {place} ({why}) expired at {}", end_of(&identity));
            self.passed_over = Some(format!("{words}: it is not used"));
            // A token may be enough. Without one the command fails now, with the reason.
            return match &self.token {
                None if is_named => Err(expired(&words)),
                _ => Ok(()),
            };
        }
        self.identity_words = format!(
            "the certificate of {}, valid until {}, in {place} ({why})",
            identity.subject(),
            end_of(&identity)
        );
        self.identity = Some(identity);
        self.identity_files = Some(files.clone());
        Ok(())
    }

    /// Where a token and a certificate were looked for.
    fn looked_for(&self) -> String {
        let uid = uid();
        let set = std::env::var("XDG_RUNTIME_DIR")
            .ok()
            .filter(|set| !set.trim().is_empty());
        let directory = set.as_deref().unwrap_or("/tmp").trim_end_matches('/');
        let certificate = match &self.passed_over {
            Some(words) => words.clone(),
            None => Self::looked_for_certificate(),
        };
        format!("none: no token in BEARER_TOKEN, BEARER_TOKEN_FILE, {directory}/bt_u{uid}; {certificate}")
    }

    /// Where a certificate was looked for.
    pub(crate) fn looked_for_certificate() -> String {
        let places = "X509_USER_PROXY, X509_USER_CERT with X509_USER_KEY";
        format!("no certificate in {places}, /tmp/x509up_u{}", uid())
    }

    /// The credentials that servers receive, as a sentence.
    pub(crate) fn describe(&self) -> String {
        let token = self.token.as_ref();
        let token = token.map(|token| format!("the token found in {}", token.place));
        let login = self.login.as_ref();
        let login = login.map(|login| format!("the user {} with the password in {}", login.user, login.file.display()));
        if let Some(account) = &self.account {
            return account.describe();
        }
        let token = token.or(login);
        match (token, &self.identity) {
            (Some(token), Some(_)) => format!(
                "{token}, and {} to servers that ask for one; if both are accepted, the token counts",
                self.identity_words
            ),
            (Some(token), None) => token,
            (None, Some(_)) => format!("{} to servers that ask for one", self.identity_words),
            (None, None) => self.looked_for(),
        }
    }
}

/// The token in a file that the user names.
///
/// # Errors
/// It cannot be read, or has no token.
pub(crate) fn token_in(file: &Path) -> Result<Secret> {
    found_in(file).map(|found| found.token)
}

/// The certificate in files, with its key. An error says which file is wrong, and `by` what option
/// or variable it was named.
///
/// # Errors
/// They cannot be used.
pub(crate) fn loaded(files: &FoundCertificate, by: &str) -> Result<ClientIdentity> {
    ClientIdentity::load(&files.certificate, &files.key).map_err(|error| {
        let detail = error.detail().unwrap_or_default();
        let is_key = files.certificate != files.key && detail.starts_with(&format!("{}: ", files.key.display()));
        let by = match by {
            "--cert" if is_key => "--key",
            "cert" if is_key => "key",
            "X509_USER_CERT" if is_key => "X509_USER_KEY",
            by => by,
        };
        let unusable = Error::new(ErrorCode::CertificateUnusable, Side::Client, Phase::Authenticate);
        unusable.with_detail(format!("{by} names {detail}"))
    })
}

/// The certificate that a file of endpoints names, with its key.
///
/// # Errors
/// They cannot be used, or the certificate has expired.
pub(crate) fn identity_in(certificate: &Path, key: &Path) -> Result<ClientIdentity> {
    let option = if certificate == key { "proxy" } else { "cert" };
    let files = FoundCertificate {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        variable: Some(option),
    };
    let identity = loaded(&files, option)?;
    match has_ended(&identity) {
        true => {
            let (place, end) = (certificate.display(), end_of(&identity));
            Err(expired(&format!("the certificate in {place} expired at {end}")))
        }
        false => Ok(identity),
    }
}

fn found_in(file: &Path) -> Result<FoundToken> {
    let found = bearer_token(|name| named_only(name, file), read_token, uid())?;
    let found = found.filter(|found| Path::new(&found.place) == file);
    found.ok_or_else(|| {
        let error = Error::new(ErrorCode::Unauthenticated, Side::Client, Phase::Open);
        error.with_detail("the file has no token").with_subject(file.display())
    })
}

fn password_in(file: &Path) -> Result<Secret> {
    first_line(file, "password")
}

/// The secret in a file: its first line. `what` names it in messages.
///
/// # Errors
/// It cannot be read, others may read it, or it is empty.
pub(super) fn first_line(file: &Path, what: &str) -> Result<Secret> {
    let unusable = |words: String| {
        let error = Error::new(ErrorCode::Unauthenticated, Side::Client, Phase::Authenticate);
        error.with_detail(words)
    };
    let lines = load_passwords(file).map_err(|failure| unusable(failure.words))?;
    let first = lines.first().map(|line| Secret::new(line.as_str()));
    first.ok_or_else(|| unusable(format!("{} has no {what}", file.display())))
}

/// The files of the user's certificate, and who names them.
pub(crate) struct Found {
    pub(crate) files: FoundCertificate,
    /// The option or variable.
    pub(crate) by: String,
}

/// The certificate that options name, or that in the usual places.
pub(crate) fn certificate_files(proxy: Option<&Path>, certificate: Option<&Path>, key: Option<&Path>) -> Option<Found> {
    let (certificate, key, option) = match (proxy, certificate) {
        (Some(proxy), _) => (proxy, proxy, "--proxy"),
        (None, Some(certificate)) => (certificate, key.unwrap_or(certificate), "--cert"),
        (None, None) => {
            let files = user_certificate(|name| std::env::var(name).ok(), Path::is_file, uid())?;
            let by = files.variable.unwrap_or("the usual place").to_owned();
            return Some(Found { files, by });
        }
    };
    let files = FoundCertificate {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        variable: Some(option),
    };
    let by = option.to_owned();
    Some(Found { files, by })
}

fn expired(words: &str) -> Error {
    let error = Error::new(ErrorCode::CertificateUnusable, Side::Client, Phase::Authenticate);
    error.with_detail(words)
}

/// Whether the first certificate has expired.
fn has_ended(identity: &ClientIdentity) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.is_ok_and(|now| i64::try_from(now.as_secs()).is_ok_and(|now| identity.expires_s() <= now))
}

/// When the first certificate expires.
fn end_of(identity: &ClientIdentity) -> String {
    let time = time::OffsetDateTime::from_unix_timestamp(identity.expires_s()).ok();
    let text = time.and_then(|time| time.format(&time::format_description::well_known::Rfc3339).ok());
    text.unwrap_or_else(|| "no time".to_owned())
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// An environment that only has the named token file.
fn named_only(name: &str, file: &Path) -> Option<String> {
    (name == "BEARER_TOKEN_FILE").then(|| file.to_string_lossy().into_owned())
}

/// Reads a token file, up to the size limit of tokens.
fn read_token(path: &Path) -> std::io::Result<Option<String>> {
    use std::io::Read as _;
    let file = match std::fs::File::open(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut text = String::new();
    file.take(MACAROON_BYTES_MAX as u64 + 2).read_to_string(&mut text)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_may_name_a_file_that_is_gone_and_an_option_may_not() {
        let files = FoundCertificate {
            certificate: PathBuf::from("/nonexistent/proxy"),
            key: PathBuf::from("/nonexistent/proxy"),
            variable: Some("X509_USER_PROXY"),
        };
        let mut found = Credentials::default();
        found.take(&files, "X509_USER_PROXY").expect("it is passed over");
        assert!(
            found.describe().contains("X509_USER_PROXY names /nonexistent/proxy"),
            "{found:?}"
        );
        let error = Credentials::default()
            .take(&files, "--proxy")
            .expect_err("it was asked for");
        let words = error.public();
        assert!(
            words.starts_with("client authenticate: ") && words.contains("--proxy names /nonexistent/proxy: No such"),
            "{words}"
        );
    }

    #[test]
    fn the_places_that_were_looked_at_are_named() {
        let none = Credentials::default().describe();
        let proxy = format!("/tmp/x509up_u{}", uid());
        assert!(
            none.contains(&proxy) && none.contains(&format!("/bt_u{};", uid())),
            "{none}"
        );
        assert!(!none.contains('<'), "{none}");
        let expired = "the certificate in /tmp/p (--proxy) expired at 2024-01-01T00:00:00Z: it is not used";
        let passed_over = Credentials {
            passed_over: Some(expired.to_owned()),
            ..Credentials::default()
        };
        let words = passed_over.describe();
        assert!(words.ends_with(expired), "{words}");
    }
}
