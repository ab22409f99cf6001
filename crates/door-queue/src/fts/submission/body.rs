//! The members of a submission, as they stand in the text.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;

use crate::bounded::{AtMost, Json};
use crate::fts::FtsError;
use crate::limits::{
    ARCHIVE_METADATA_BYTES_MAX, FILE_METADATA_BYTES_MAX, JOB_FILES_MAX, NAME_BYTES_MAX, PARAMETERS_BYTES_MAX,
    REPLICAS_MAX, STAGING_METADATA_BYTES_MAX,
};

/// A list of URLs or tokens. A token may be missing for one of them.
pub(crate) type Texts = AtMost<Option<String>, REPLICAS_MAX>;
/// A number or a short text.
pub(crate) type Scalar = Json<NAME_BYTES_MAX>;

/// The whole. Members that are not known are skipped.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with files and params")]
pub(super) struct Body {
    pub(super) params: Option<Json<PARAMETERS_BYTES_MAX>>,
    pub(super) files: Option<AtMost<FileBody, JOB_FILES_MAX>>,
    pub(super) delete: Option<IgnoredAny>,
}

/// One file.
#[derive(Debug, Default, Deserialize)]
#[serde(expecting = "an object with sources and destinations")]
pub(crate) struct FileBody {
    pub(crate) sources: Option<Texts>,
    pub(crate) destinations: Option<Texts>,
    pub(crate) source_tokens: Option<Texts>,
    pub(crate) destination_tokens: Option<Texts>,
    pub(crate) checksum: Option<String>,
    pub(crate) filesize: Option<Scalar>,
    pub(crate) activity: Option<String>,
    pub(crate) selection_strategy: Option<String>,
    pub(crate) scitag: Option<Scalar>,
    pub(crate) metadata: Option<Json<FILE_METADATA_BYTES_MAX>>,
    pub(crate) staging_metadata: Option<Json<STAGING_METADATA_BYTES_MAX>>,
    pub(crate) archive_metadata: Option<Json<ARCHIVE_METADATA_BYTES_MAX>>,
}

impl Body {
    /// Reads the text.
    ///
    /// # Errors
    /// 400 for what is no JSON, or has members of the wrong kind or over a limit; 405 for a job
    /// that deletes.
    pub(super) fn read(text: &[u8]) -> Result<Self, FtsError> {
        let body: Self = serde_json::from_slice(text).map_err(|cause| match cause.classify() {
            Category::Data => FtsError::bad(format!("Malformed request: {cause}")),
            _ => FtsError::bad("Badly formatted JSON request"),
        })?;
        match body.delete {
            Some(_) => Err(FtsError::new(405, "Deletion jobs are no longer supported by FTS")),
            None => Ok(body),
        }
    }
}
