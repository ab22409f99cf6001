//! Checks secret files, which other users may not read.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use config::Purpose;
use types::is_open_to_others;

use super::finding::{Finding, Position};
use crate::server::secret;

/// The permission bit for others to write.
const ALL_WRITE: u32 = 0o002;
/// The bit that lets users rename only their own files in a directory.
const STICKY: u32 = 0o1000;

/// A secret file.
pub(crate) struct SecretFile {
    pub(crate) purpose: Purpose,
    pub(crate) path: PathBuf,
    pub(crate) position: Position,
}

/// Checks the files on behalf of the user `uid`.
pub(crate) fn check(files: &[SecretFile], uid: u32) -> Vec<Finding> {
    files.iter().flat_map(|file| file.check(uid)).collect()
}

impl SecretFile {
    fn check(&self, uid: u32) -> Vec<Finding> {
        let shown = self.path.display();
        let facts = match std::fs::metadata(&self.path) {
            Ok(facts) => facts,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return self.missing(),
            Err(cause) => {
                let finding = Finding::error("secret_unreadable", format!("{shown} cannot be read: {cause}"));
                return vec![
                    finding
                        .at(self.position.clone())
                        .change("run the check as the server's user; it must be able to access the file"),
                ];
            }
        };
        let mut findings = Vec::new();
        let mode = facts.mode() & 0o7777;
        if is_open_to_others(mode, facts.uid()) {
            let says = format!("other users may access the secret in {shown} (mode {mode:o})");
            let change = format!("chmod 600 {shown}; replace the secret if it may have leaked");
            let finding = Finding::error("secret_open_to_others", says).at(self.position.clone());
            findings.push(finding.change(change));
        }
        // Root checks for a server of another user, which owns the secrets that it made.
        if facts.uid() != uid && facts.uid() != 0 && uid != 0 {
            let says = format!(
                "the secret in {shown} belongs to user {}, not to user {uid}",
                facts.uid()
            );
            let finding = Finding::warning("secret_of_another", says).at(self.position.clone());
            findings.push(finding.change(format!(
                "run the check as the server's user; if that is user {uid}, chown {shown}"
            )));
        }
        if self.directory_is_open() {
            let says = format!("every user may replace the secret {shown}");
            let change = "run chmod o-w on its directory";
            let finding = Finding::error("secret_replaceable", says).at(self.position.clone());
            findings.push(finding.change(change));
        }
        if findings.is_empty() {
            findings.push(self.content());
        }
        findings
    }

    fn missing(&self) -> Vec<Finding> {
        let shown = self.path.display();
        let finding = match self.purpose {
            Purpose::Secret | Purpose::SealingKey if self.path.parent().is_some_and(is_directory) => Finding::note(
                "secret_not_made_yet",
                format!("{shown} will be made when the server starts"),
            ),
            _ => Finding::error("secret_missing", format!("{shown} does not exist"))
                .change("make the file or its directory, or correct the path"),
        };
        vec![finding.at(self.position.clone())]
    }

    /// Whether every user may rename files in the directory.
    fn directory_is_open(&self) -> bool {
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let facts = std::fs::metadata(directory.unwrap_or(Path::new(".")));
        facts.is_ok_and(|facts| facts.mode() & ALL_WRITE != 0 && facts.mode() & STICKY == 0)
    }

    fn content(&self) -> Finding {
        let shown = self.path.display();
        let read = match self.purpose {
            Purpose::Secret | Purpose::OldSecret => secret::load(&self.path, false).map(drop),
            Purpose::SealingKey => secret::load_sealing_key(&self.path, false).map(drop),
            // `certificate` checks private keys.
            _ => Ok(()),
        };
        match read {
            Ok(()) => Finding::ok("secret", format!("other users may not read {shown}")),
            Err(failure) => Finding::error("secret_unusable", failure.words)
                .at(self.position.clone())
                .change("fill it with base64 of at least 32 random bytes: openssl rand -base64 -out FILE 64"),
        }
    }
}

fn is_directory(path: &Path) -> bool {
    path.as_os_str().is_empty() || path.is_dir()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn root_finds_no_fault_with_what_the_user_of_the_server_owns() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        secret::load(&path, true).unwrap();
        let own = rustix::process::geteuid().as_raw();
        let codes = |uid: u32| {
            let file = SecretFile {
                purpose: Purpose::Secret,
                path: path.clone(),
                position: Position {
                    file: String::new(),
                    line: None,
                    key: String::new(),
                },
            };
            let findings = check(&[file], uid);
            findings.iter().map(|finding| finding.code).collect::<Vec<_>>()
        };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(codes(own), ["secret"]);
        assert_eq!(codes(0), ["secret"]);
        // A file of root is there for its group.
        let of_another = if own == 0 { "secret" } else { "secret_of_another" };
        assert_eq!(codes(own + 1), [of_another]);
    }
}
