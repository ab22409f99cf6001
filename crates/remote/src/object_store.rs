//! What only servers of objects have ([`Abilities::is_object_store`](crate::Abilities)).

use types::{Checksum, ChecksumAlgorithm, Result};

use crate::client::Client;
use crate::resource::Resource;

/// What a server of objects offers, as a trial has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreOffers {
    /// It refuses to replace an object when it is asked to store a new one only.
    pub creates_only: bool,
    /// It keeps tags of objects.
    pub keeps_tags: bool,
    /// The checksums that it reports of an object that was stored by one request.
    pub checksums: Vec<ChecksumAlgorithm>,
}

impl Client {
    /// Marks a directory, so that it is there without any file in it.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn mark_directory(&self, directory: &Resource) -> Result<()> {
        self.protocol(directory)?.mark_directory(directory).await
    }

    /// The checksums that were kept beside a file, if they are of the version with this entity tag.
    ///
    /// # Errors
    /// The server's refusal; `peer_unsupported` for other protocols.
    pub async fn kept_checksums(&self, file: &Resource, etag: &str) -> Result<Vec<Checksum>> {
        self.protocol(file)?.kept_checksums(file, etag).await
    }

    /// Keeps checksums beside a file, for the version with this entity tag.
    ///
    /// # Errors
    /// The server's refusal; `peer_unsupported` for other protocols, and for files beside which
    /// nothing more can be kept.
    pub async fn keep_checksums(&self, file: &Resource, etag: &str, checksums: &[Checksum]) -> Result<()> {
        self.protocol(file)?.keep_checksums(file, etag, checksums).await
    }

    /// Tries what the server offers, with a file in this directory that is removed again.
    ///
    /// # Errors
    /// The server's refusal of that file; `peer_unsupported` for other protocols.
    pub async fn store_offers(&self, directory: &Resource) -> Result<StoreOffers> {
        self.protocol(directory)?.store_offers(directory).await
    }
}
