//! Logins at token issuers: what `crossload login` keeps, a file for each issuer that only the user
//! may read.
//!
//! A refresh token may be good for one use. Its successor is on disk before its access token is
//! used, and one process at a time renews a login.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use types::Secret;
use url::form_urlencoded::byte_serialize;
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::remotes::{directory, replace};
use crate::server::secret::load_text;

/// The version of the file. Files without one have this version, too.
const VERSION: u64 = 1;

/// What a file of any version begins with.
#[derive(Deserialize)]
struct Head {
    #[serde(default = "first_version")]
    version: u64,
}

fn first_version() -> u64 {
    VERSION
}

/// What is kept of a login. It has secrets and is never printed.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Login {
    #[serde(default = "first_version")]
    version: u64,
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    client_secret: Option<String>,
    pub(crate) scopes: Vec<String>,
    pub(crate) audiences: Vec<String>,
    access: String,
    /// When the access token ends, in seconds since 1970.
    pub(crate) ends_s: i64,
    refresh: Option<String>,
}

impl Login {
    /// A login without tokens.
    pub(crate) fn new(issuer: &str, client_id: &str, client_secret: Option<&Secret>) -> Self {
        Self {
            version: VERSION,
            issuer: issuer.to_owned(),
            client_id: client_id.to_owned(),
            client_secret: client_secret.map(|secret| secret.expose().to_owned()),
            scopes: Vec::new(),
            audiences: Vec::new(),
            access: String::new(),
            ends_s: 0,
            refresh: None,
        }
    }

    /// The login at an issuer; `None` without one.
    ///
    /// # Errors
    /// Its file cannot be read, others may read it, it is damaged, or of a later release.
    pub(crate) fn load(issuer: &str) -> Result<Option<Self>, Failure> {
        let file = file(issuer)?;
        if !file.exists() {
            return Ok(None);
        }
        let text = load_text("login", &file)?;
        Self::parse(&text).map(Some).map_err(|words| {
            let shown = file.display();
            Failure::invalid(format!("login {shown}: {words}"))
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let damaged = |_| "it is damaged; log in again".to_owned();
        let head: Head = serde_json::from_str(text).map_err(damaged)?;
        match head.version {
            ..=VERSION => serde_json::from_str(text).map_err(damaged),
            version => Err(format!(
                "a later release has written it: its version is {version}, ours is {VERSION}; use that release, or \
                 remove the file and log in again"
            )),
        }
    }

    /// Writes it to disk.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn store(&self) -> Result<(), Failure> {
        let file = file(&self.issuer)?;
        let text = serde_json::to_vec(self).map(Zeroizing::new);
        let text = text.map_err(|error| Failure::invalid(error.to_string()))?;
        replace(&file, &text).map_err(|cause| Failure::system(file.display(), &cause))
    }

    /// Takes what the issuer gave.
    pub(crate) fn take(&mut self, access: &Secret, ends_s: i64, refresh: Option<&Secret>) {
        self.access = access.expose().to_owned();
        self.ends_s = ends_s;
        // Without a new one, the old one stays valid (RFC 6749 §6).
        if let Some(refresh) = refresh {
            self.refresh = Some(refresh.expose().to_owned());
        }
    }

    /// The access token.
    pub(crate) fn access(&self) -> Secret {
        Secret::new(self.access.as_str())
    }

    /// The refresh token.
    pub(crate) fn refresh(&self) -> Option<Secret> {
        self.refresh.as_deref().map(Secret::new)
    }

    /// The secret of this program at the issuer.
    pub(crate) fn client_secret(&self) -> Option<Secret> {
        self.client_secret.as_deref().map(Secret::new)
    }
}

/// Forgets the login at an issuer; whether there was one.
///
/// # Errors
/// The system's.
pub(crate) fn forget(issuer: &str) -> Result<bool, Failure> {
    let file = file(issuer)?;
    match std::fs::remove_file(&file) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(Failure::system(file.display(), &cause)),
    }
}

/// Waits until no other process renews a login; dropping the file lets the next one go on.
///
/// # Errors
/// The system's.
pub(crate) fn lock() -> Result<File, Failure> {
    let file = directory()?.join("logins/lock");
    lock_file(&file).map_err(|cause| Failure::system(file.display(), &cause))
}

/// The same file for all: one that is replaced would be two locks.
fn lock_file(file: &Path) -> std::io::Result<File> {
    let directory = file.parent().unwrap_or(file);
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mut options = OpenOptions::new();
    let opened = options
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(file)?;
    opened.lock()?;
    Ok(opened)
}

fn file(issuer: &str) -> Result<PathBuf, Failure> {
    let name: String = byte_serialize(issuer.as_bytes()).collect();
    Ok(directory()?.join("logins").join(format!("{name}.json")))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_login_of_a_later_release_is_refused() {
        let login = Login::new("https://issuer.example.org", "name", None);
        let text = serde_json::to_string(&login).unwrap();
        let refused = |text: &str| Login::parse(text).err().unwrap();
        assert!(Login::parse(&text).is_ok_and(|read| read.client_id == "name"));
        // As release 0.1 wrote it.
        let first = text.replace("\"version\":1,", "");
        assert!(first != text && Login::parse(&first).is_ok());
        let later = text.replace("\"version\":1,", "\"version\":2,");
        assert!(refused(&later).contains("its version is 2, ours is 1"));
        assert!(refused("{").contains("damaged"));
    }

    #[test]
    fn one_process_at_a_time_has_the_lock_the_first_time_too() {
        for _ in 0..50 {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("logins/lock");
            let (start, is_held) = (Barrier::new(4), AtomicBool::new(false));
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        start.wait();
                        let lock = lock_file(&file).unwrap();
                        assert!(!is_held.swap(true, Ordering::SeqCst), "another one has it");
                        std::thread::yield_now();
                        is_held.store(false, Ordering::SeqCst);
                        drop(lock);
                    });
                }
            });
        }
    }
}
