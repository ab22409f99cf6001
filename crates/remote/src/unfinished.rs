//! Uploads to object storages that have not ended. Their parts take space and appear in no listing.

use std::fmt;

use types::{Location, Result};

use crate::protocol::Pending;

/// An upload that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedUpload {
    /// The object that it would become.
    pub location: Location,
    /// What the server calls it.
    pub id: String,
    /// When it began, in seconds since 1970; `None`: the server does not say.
    pub begun_s: Option<i64>,
}

/// Uploads that have not ended, in one protocol.
pub trait UploadListing: fmt::Debug + Send {
    /// As [`UnfinishedUploads::next`].
    fn next(&mut self) -> Pending<'_, Option<Vec<UnfinishedUpload>>>;
}

/// Uploads that have not ended, as they come from the server.
#[derive(Debug)]
pub struct UnfinishedUploads(Box<dyn UploadListing>);

impl UnfinishedUploads {
    /// A list that was begun in some protocol.
    #[must_use]
    pub fn new(listing: impl UploadListing + 'static) -> Self {
        Self(Box::new(listing))
    }

    /// The next uploads; `None` at the end.
    ///
    /// # Errors
    /// The server's refusal, or an answer that cannot be understood.
    pub async fn next(&mut self) -> Result<Option<Vec<UnfinishedUpload>>> {
        self.0.next().await
    }
}
