//! Secret files: base64, as XRootD's macaroon secret, made if missing.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credentials::{MacaroonKey, SealingKey};
use types::{Secret, is_open_to_others};
use zeroize::Zeroizing;

use crate::failure::Failure;

/// Random bytes of a new secret, as in XRootD's manual.
const SECRET_BYTES: usize = 64;
/// Largest secret file.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Shortest secret for a sealing key.
const SEALING_BYTES_MIN: usize = 32;

/// Reads a macaroon key. With `create`, makes a missing file.
///
/// # Errors
/// Others may access the file, it cannot be read or made, or it holds no valid secret.
pub(crate) fn load(file: &Path, create: bool) -> Result<MacaroonKey, Failure> {
    let text = read("macaroon secret", file, create)?;
    MacaroonKey::from_base64(&text)
        .map_err(|error| Failure::invalid(format!("macaroon secret {}: {}", file.display(), error.public())))
}

/// Reads a sealing key: only servers with the same file can open what it seals. With `create`,
/// makes a missing file.
///
/// # Errors
/// As [`load`].
pub(crate) fn load_sealing_key(file: &Path, create: bool) -> Result<SealingKey, Failure> {
    let text = read("key", file, create)?;
    let plain = Zeroizing::new(text.split_whitespace().collect::<String>());
    let secret = STANDARD.decode(plain.as_bytes()).map(Zeroizing::new);
    match secret {
        Ok(secret) if secret.len() >= SEALING_BYTES_MIN => Ok(SealingKey::new(&secret)),
        _ => Err(Failure::invalid(format!(
            "key {}: not base64 of at least {SEALING_BYTES_MIN} bytes",
            file.display()
        ))),
    }
}

/// Reads a file of secrets that must exist: its lines.
///
/// # Errors
/// Others may access the file, or it cannot be read.
pub(crate) fn load_text(what: &str, file: &Path) -> Result<Zeroizing<String>, Failure> {
    read(what, file, false)
}

/// Reads the secret of this server at a token issuer.
///
/// # Errors
/// Others may access the file, it cannot be read, or it is empty.
pub(crate) fn load_client_secret(file: &Path) -> Result<Secret, Failure> {
    let text = read("client secret", file, false)?;
    match text.trim() {
        "" => Err(Failure::invalid(format!(
            "client secret {}: the file is empty",
            file.display()
        ))),
        text => Ok(Secret::new(text)),
    }
}

/// Reads a file of passwords: the lines that are not empty.
///
/// # Errors
/// Others may access the file, or it cannot be read.
pub(crate) fn load_passwords(file: &Path) -> Result<Vec<Zeroizing<String>>, Failure> {
    let text = read("passwords", file, false)?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    Ok(lines.map(|line| Zeroizing::new(line.to_owned())).collect())
}

fn read(what: &str, file: &Path, create: bool) -> Result<Zeroizing<String>, Failure> {
    let about = |words: &str| Failure::invalid(format!("{what} {}: {words}", file.display()));
    let system = |cause: std::io::Error| Failure::system(format!("{what} {}", file.display()), &cause);
    let opened = match std::fs::File::open(file) {
        Err(cause) if create && cause.kind() == std::io::ErrorKind::NotFound => {
            make(file).map_err(system)?;
            std::fs::File::open(file)
        }
        other => other,
    }
    .map_err(system)?;
    let facts = opened.metadata().map_err(system)?;
    let mode = facts.mode();
    if is_open_to_others(mode, facts.uid()) {
        return Err(about(&format!(
            "others may read or write it (mode {:o}); run chmod 600, and replace the secret if it may have leaked",
            mode & 0o777
        )));
    }
    let mut text = Zeroizing::new(String::new());
    opened.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(system)?;
    Ok(text)
}

fn make(file: &Path) -> std::io::Result<()> {
    let mut secret = Zeroizing::new([0_u8; SECRET_BYTES]);
    aws_lc_rs::rand::fill(secret.as_mut()).map_err(|_| std::io::Error::other("no random bytes"))?;
    let text = Zeroizing::new(STANDARD.encode(secret.as_ref()));
    // Written to a temporary name and hard-linked, so that servers that start at the same time
    // agree on one secret.
    let beside = file.with_extension(format!("new-{}", std::process::id()));
    let mut target = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    let written = writeln!(target, "{}", text.as_str()).and_then(|()| target.sync_all());
    let linked = written.and_then(|()| match std::fs::hard_link(&beside, file) {
        Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    });
    std::fs::remove_file(&beside)?;
    linked
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_missing_secret_is_made_for_its_owner_only_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("macaroon.secret");
        assert!(load(&file, false).is_err());
        load(&file, true).expect("made");
        let first = std::fs::read_to_string(&file).unwrap();
        assert_eq!(STANDARD.decode(first.trim()).unwrap().len(), SECRET_BYTES);
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        load(&file, true).expect("read again");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), first);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn loose_permissions_and_other_content_are_refused_without_showing_the_secret() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("secret");
        load(&file, true).expect("made");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o660)).unwrap();
        let failure = load(&file, true).expect_err("others may read it");
        assert!(
            failure.words.contains("660") && failure.words.contains("chmod 600"),
            "{}",
            failure.words
        );
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&file, "hunter2").unwrap();
        let failure = load(&file, true).expect_err("too short");
        assert!(!failure.words.contains("hunter2"), "{}", failure.words);
    }
}
