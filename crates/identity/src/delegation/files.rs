//! Delegated credentials on disk: one file each, readable by its owner only, sealed, and bound to
//! its name.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Error as IoError, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::limits::{DELEGATION_WRITE_MAX, DELEGATIONS_MAX};
use aws_lc_rs::rand;
use credentials::{CertificateIssuer, SEAL_SALT_BYTES, SealingKey};
use gsi_wire::to_pem;
use net::tls::ClientIdentity;
use rustls_pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use types::limits::CREDENTIAL_FILE_BYTES_MAX;
use types::{Error, ErrorCode, Phase, Result, Side};
use zeroize::Zeroizing;

use super::{Delegated, DelegationSettings, Delegator};

const PURPOSE: &[u8] = b"delegated credential 1";
const ENDING: &str = "delegated";
/// Permissions for others than the owner.
const OTHERS: u32 = 0o077;

/// What a directory holds.
#[derive(Default)]
pub(super) struct Stored {
    /// The credentials, by their slots.
    pub(super) all: Vec<(String, Delegated)>,
    /// Credentials that named no issuer, and were removed.
    pub(super) without_issuer: usize,
}

/// A file that could be read.
enum Read {
    Whole(Box<Delegated>),
    /// It may be the credential of either of two people.
    WithoutIssuer,
}

/// The directory.
pub(super) struct Files {
    directory: PathBuf,
    key: SealingKey,
}

impl Files {
    pub(super) fn open(settings: DelegationSettings) -> std::io::Result<Self> {
        let DelegationSettings { directory, key } = settings;
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let mode = std::fs::metadata(&directory)?.mode();
        if mode & OTHERS != 0 {
            let why = format!("others may look into it (mode {:o}); run chmod 700 on it", mode & 0o777);
            return Err(IoError::new(ErrorKind::PermissionDenied, why));
        }
        Ok(Self { directory, key })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, slot: &str) -> PathBuf {
        self.directory.join(format!("{slot}.{ENDING}"))
    }

    /// Whether a credential is still there: an administrator may have removed it.
    pub(super) fn has(&self, slot: &str) -> bool {
        let found = std::fs::metadata(self.path(slot));
        !matches!(found, Err(cause) if cause.kind() == ErrorKind::NotFound)
    }

    /// Everything that can be read and is still valid. Removes what has expired or names no issuer,
    /// and what a server left that died while it wrote.
    pub(super) fn read_all(&self, now_s: i64) -> std::io::Result<Stored> {
        let mut stored = Stored::default();
        for entry in std::fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if is_left_over(&path) {
                let _ = std::fs::remove_file(&path);
            }
            let slot = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
            let Some(slot) = slot.filter(|_| path.extension().is_some_and(|end| end == ENDING)) else {
                continue;
            };
            match self.read(&slot) {
                Some(Read::Whole(delegated)) if delegated.expires_s <= now_s => self.remove(&slot),
                Some(Read::Whole(delegated)) if stored.all.len() < DELEGATIONS_MAX => {
                    stored.all.push((slot, *delegated));
                }
                Some(Read::WithoutIssuer) => {
                    self.remove(&slot);
                    stored.without_issuer += 1;
                }
                Some(Read::Whole(_)) | None => {}
            }
        }
        Ok(stored)
    }

    fn read(&self, slot: &str) -> Option<Read> {
        let mut sealed = Vec::new();
        let file = File::open(self.path(slot)).ok()?;
        file.take(CREDENTIAL_FILE_BYTES_MAX as u64)
            .read_to_end(&mut sealed)
            .ok()?;
        let content = self.key.open(PURPOSE, slot.as_bytes(), &sealed)?;
        let value: Value = serde_json::from_slice(&content).ok()?;
        let Some(issuer) = issuer_in(&value) else {
            return Some(Read::WithoutIssuer);
        };
        let fqans = value["fqans"].as_array()?.iter();
        let pem = Zeroizing::new(value["pem"].as_str()?.to_owned());
        let identity = ClientIdentity::from_pem(pem.as_bytes(), pem.as_bytes()).ok()?;
        let owner = Delegator {
            dn: value["dn"].as_str()?.to_owned(),
            issuer,
            fqans: fqans.filter_map(Value::as_str).map(str::to_owned).collect(),
            is_limited: value["limited"].as_bool()?,
        };
        let expires_s = identity.expires_s().min(value["expires_s"].as_i64()?);
        Some(Read::Whole(Box::new(Delegated::new(owner, identity, expires_s))))
    }

    /// Writes a credential beside its place and moves it there, so that there is never half of one.
    pub(super) fn write(&self, slot: &str, delegated: &Delegated) -> Result<()> {
        let Delegated {
            owner,
            identity,
            expires_s,
            ..
        } = delegated;
        let failed = |cause: IoError| {
            let error = Error::new(code_of(&cause), Side::Active, Phase::Authenticate);
            error.with_private(format!("{}: {cause}", self.path(slot).display()))
        };
        let content = json!({
            "dn": owner.dn,
            "issuer": owner.issuer.dn,
            "issuer_key": super::hex(&owner.issuer.key_sha256),
            "fqans": owner.fqans,
            "limited": owner.is_limited,
            "expires_s": expires_s,
            "pem": pem_of(identity).as_str(),
        });
        let content = Zeroizing::new(content.to_string().into_bytes());
        let mut salt = [0; SEAL_SALT_BYTES];
        rand::fill(&mut salt).map_err(|_| failed(IoError::other("no random bytes")))?;
        let sealed = self.key.seal(PURPOSE, salt, slot.as_bytes(), &content);
        let sealed = sealed.ok_or_else(|| failed(IoError::other("it cannot be sealed")))?;
        let beside = self.directory.join(format!(".{slot}-{}", super::hex(&salt[..8])));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)
            .and_then(|mut file| file.write_all(&sealed).and_then(|()| file.sync_all()))
            .and_then(|()| std::fs::rename(&beside, self.path(slot)))
            .and_then(|()| File::open(&self.directory)?.sync_all());
        if written.is_err() {
            let _ = std::fs::remove_file(&beside);
        }
        written.map_err(failed)
    }

    /// Removes a credential; whether there was one does not matter.
    pub(super) fn remove(&self, slot: &str) {
        let _ = std::fs::remove_file(self.path(slot));
    }
}

/// Whether it was being written by a server that has died. Another server may share the directory,
/// so what is recent stays.
fn is_left_over(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_unfinished = name.strip_prefix('.').is_some_and(|rest| {
        let is_hex = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        rest.split_once('-')
            .is_some_and(|(slot, salt)| is_hex(slot) && is_hex(salt))
    });
    let age = std::fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    let age = age.ok().and_then(|modified| modified.elapsed().ok());
    is_unfinished && age.is_some_and(|age| age > DELEGATION_WRITE_MAX)
}

/// The issuer of the end-entity certificate. Servers before 0.2 did not note it.
fn issuer_in(value: &Value) -> Option<CertificateIssuer> {
    let digits = value["issuer_key"].as_str()?.as_bytes();
    let mut key_sha256 = [0; 32];
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.len() != key_sha256.len() || !rest.is_empty() {
        return None;
    }
    for (byte, pair) in key_sha256.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    let dn = value["issuer"].as_str()?.to_owned();
    Some(CertificateIssuer { dn, key_sha256 })
}

fn code_of(cause: &IoError) -> ErrorCode {
    match cause.kind() {
        ErrorKind::StorageFull => ErrorCode::NoSpace,
        ErrorKind::QuotaExceeded => ErrorCode::QuotaExceeded,
        _ => ErrorCode::StorageFailed,
    }
}

/// Chain and key in one text, as proxies are kept.
pub(super) fn pem_of(identity: &ClientIdentity) -> Zeroizing<String> {
    let label = match identity.private_key() {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    let mut text = Zeroizing::new(to_pem(label, identity.private_key().secret_der()));
    for certificate in identity.chain() {
        text.push_str(&to_pem("CERTIFICATE", certificate));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_said_as_such() {
        for (kind, code) in [
            (ErrorKind::StorageFull, ErrorCode::NoSpace),
            (ErrorKind::QuotaExceeded, ErrorCode::QuotaExceeded),
            (ErrorKind::PermissionDenied, ErrorCode::StorageFailed),
        ] {
            assert_eq!(code_of(&kind.into()), code);
        }
    }
}
