//! A file at a peer that is opened once, however many connections read it.

use std::time::Duration;

use types::{ByteRange, Checksum, ChecksumAlgorithm, Result};

use crate::download::{Download, Way};
use crate::resource::Facts;
use crate::root;

/// A file that is open at a peer. Clones are the same.
#[derive(Clone, Debug)]
pub struct Opened(pub(crate) root::Opened);

impl Opened {
    /// What the peer says of the file.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        self.0.facts()
    }

    /// How long the peer takes to answer.
    ///
    /// # Errors
    /// A lost connection, or a refusal.
    pub async fn distance(&self) -> Result<Duration> {
        self.0.distance().await
    }

    /// Adds a connection on which [`Opened::get`] can read. `false` when the peer takes no further one, or it cannot be
    /// reached any more: what was there before goes on.
    pub async fn bind(&self) -> bool {
        self.0.bind().await
    }

    /// Reads a range on a connection of its own, which is one of those that were added. `is_compared` as in
    /// [`crate::GetOptions`].
    ///
    /// # Errors
    /// `peer_closed` when all of them are in use and no other can be added.
    pub async fn get(&self, range: ByteRange, is_compared: bool) -> Result<Download> {
        let download = self.0.get(range, is_compared).await?;
        Ok(Download(Way::Root(Box::new(download))))
    }

    /// Reads all of the file on the connection over which it was opened, which ends with that. The first of the `wanted`
    /// checksums that the peer tells at the end is in the download's facts.
    ///
    /// # Errors
    /// `peer_closed` when this is the second time.
    pub async fn read_alone(&self, is_compared: bool, wanted: Vec<ChecksumAlgorithm>) -> Result<Download> {
        let download = self.0.read_alone(is_compared, wanted).await?;
        Ok(Download(Way::Root(Box::new(download))))
    }

    /// The first of the `wanted` checksums that the peer tells of the open file. A key that opens the file allows that in
    /// the session in which it is open, and nowhere else. Nothing may be read meanwhile.
    pub async fn checksum(&self, wanted: &[ChecksumAlgorithm]) -> Option<Checksum> {
        self.0.checksum(wanted).await
    }

    /// Closes the file and ends the connections that were added.
    pub async fn close(self) {
        self.0.close().await;
    }
}
