//! Whether the server can do its work: one check for each thing that it needs, each with a plain
//! sentence.

use std::time::Duration;

use endpoint::Store;
use storage::UploadOptions;
use types::{LogicalPath, binary_size};

/// A check that takes longer has failed: a disk that hangs is not ready.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// The name under which an upload is begun, and given up at once, to see whether that is possible.
/// Nothing ever appears under it.
const TRIAL_NAME: &str = "/ready-check";

/// An export to look at.
#[derive(Clone, Debug)]
pub struct Export {
    /// Its URL path.
    pub path: String,
    /// Its files.
    pub store: Store,
    /// Whether it must be possible to write.
    pub writable: bool,
}

/// The outcome of one check.
#[derive(Clone, Debug)]
pub struct Check {
    /// What was looked at, such as `export /data`.
    pub name: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// Whether the server is unready while it is not.
    pub needed: bool,
    /// What was found, as a sentence.
    pub says: String,
}

/// Looks at an export: can it be read, and written where it should be?
pub(crate) async fn check_export(export: &Export) -> Check {
    let outcome = match tokio::time::timeout(CHECK_TIMEOUT, look_at(export)).await {
        Ok(outcome) => outcome,
        Err(_) => Err("The file system does not answer.".to_owned()),
    };
    let (ok, says) = match outcome {
        Ok(says) => (true, says),
        Err(says) => (false, says),
    };
    Check {
        name: format!("export {}", export.path),
        ok,
        needed: true,
        says,
    }
}

async fn look_at(export: &Export) -> Result<String, String> {
    export
        .store
        .stat(&LogicalPath::root())
        .await
        .map_err(|error| format!("It cannot be read: {error}."))?;
    if !export.writable {
        return Ok("It can be read.".to_owned());
    }
    let trial = LogicalPath::parse(TRIAL_NAME).map_err(|error| error.public())?;
    // An upload that is dropped leaves nothing behind.
    let upload = export.store.create(&trial, &UploadOptions::default()).await;
    drop(upload.map_err(|error| format!("It cannot be written: {error}."))?);
    let space = export
        .store
        .space()
        .await
        .map_err(|error| format!("Its space is not known: {error}."))?;
    if space.free_bytes == 0 {
        return Err("It has no space left.".to_owned());
    }
    let free = binary_size(space.free_bytes);
    Ok(format!("It can be read and written; {free} are free."))
}

/// Looks at the certificate: `None` means that there is none, which is as configured.
pub(crate) fn check_certificate(seconds_left: Option<i64>) -> Check {
    let (ok, says) = match seconds_left {
        None => (true, "There is none: clear text only.".to_owned()),
        Some(seconds) if seconds > 0 => (true, format!("It is valid for {} more days.", seconds / 86_400)),
        Some(_) => (false, "It has expired.".to_owned()),
    };
    Check {
        name: "certificate".to_owned(),
        ok,
        needed: true,
        says,
    }
}

/// Looks at the last reload: `None` means that it did not fail.
pub(crate) fn check_reload(fault: Option<String>) -> Check {
    let (ok, says) = match fault {
        None => (true, "Loaded; no reload has failed.".to_owned()),
        Some(why) => (
            false,
            format!("The old one stays in use, because the new one failed: {why}"),
        ),
    };
    Check {
        name: "configuration".to_owned(),
        ok,
        needed: false,
        says,
    }
}
