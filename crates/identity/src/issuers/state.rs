//! Keys of issuers on disk, so that a server which is started while an issuer is down still knows
//! its tokens.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credentials::KeySet;
use serde_json::{Value, json};
use types::limits::ISSUER_DOCUMENT_BYTES_MAX;

use super::fetch::FetchedKeys;

/// Keys that were kept, and when they were fetched.
#[derive(Clone, Debug)]
pub struct StoredKeys {
    /// The keys.
    pub keys: KeySet,
    /// When they came from the issuer, in seconds since 1970.
    pub fetched_s: i64,
}

/// The keys of an issuer in the directory; `None` when there are none that can be read.
#[must_use]
pub fn stored_keys(directory: &Path, issuer: &str) -> Option<StoredKeys> {
    let mut text = Vec::new();
    let limit = ISSUER_DOCUMENT_BYTES_MAX as u64 * 2;
    fs::File::open(place(directory, issuer))
        .ok()?
        .take(limit)
        .read_to_end(&mut text)
        .ok()?;
    let value: Value = serde_json::from_slice(&text).ok()?;
    if value.get("issuer")?.as_str()? != issuer {
        return None;
    }
    let document = STANDARD.decode(value.get("document")?.as_str()?).ok()?;
    Some(StoredKeys {
        keys: KeySet::parse(&document).ok()?,
        fetched_s: value.get("fetched_s")?.as_i64()?,
    })
}

/// Writes them, whole or not at all.
///
/// # Errors
/// What the system says.
pub(super) fn store(directory: &Path, issuer: &str, fetched: &FetchedKeys, fetched_s: i64) -> std::io::Result<()> {
    let file = place(directory, issuer);
    let text = json!({"issuer": issuer, "fetched_s": fetched_s, "document": STANDARD.encode(&fetched.document)});
    fs::create_dir_all(directory)?;
    let unfinished = file.with_extension(format!("{}.part", std::process::id()));
    let written = fs::File::create(&unfinished)
        .and_then(|mut out| out.write_all(text.to_string().as_bytes()))
        .and_then(|()| fs::rename(&unfinished, &file));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// One file for each issuer; a name made of its URL could be taken for a path.
fn place(directory: &Path, issuer: &str) -> PathBuf {
    let hash = digest(&SHA256, issuer.as_bytes());
    let name: String = hash.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    directory.join(format!("issuer-{name}.json"))
}
