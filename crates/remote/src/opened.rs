//! A file that is opened once on a server, however many connections read it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use types::{ByteRange, Checksum, ChecksumAlgorithm, Result};

use crate::download::Download;
use crate::protocol::{Boxed, Pending};
use crate::resource::Facts;

/// A file that is open on a server, in one protocol.
pub trait SharedFile: fmt::Debug + Send + Sync {
    /// As [`Opened::facts`].
    fn facts(&self) -> &Facts;

    /// As [`Opened::distance`].
    fn distance(&self) -> Pending<'_, Duration>;

    /// As [`Opened::bind`].
    fn bind(&self) -> Boxed<'_, bool>;

    /// As [`Opened::get`].
    fn get(&self, range: ByteRange, is_compared: bool) -> Pending<'_, Download>;

    /// As [`Opened::read_alone`].
    fn read_alone(&self, is_compared: bool, wanted: Vec<ChecksumAlgorithm>) -> Pending<'_, Download>;

    /// As [`Opened::checksum`].
    fn checksum<'a>(&'a self, wanted: &'a [ChecksumAlgorithm]) -> Boxed<'a, Option<Checksum>>;

    /// As [`Opened::close`].
    fn close(&self) -> Boxed<'_, ()>;
}

/// A file that is open on a server. Clones are the same file.
#[derive(Clone, Debug)]
pub struct Opened(Arc<dyn SharedFile>);

impl Opened {
    /// A file that was opened in some protocol.
    #[must_use]
    pub fn new(opened: impl SharedFile + 'static) -> Self {
        Self(Arc::new(opened))
    }

    /// What the server says of the file.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        self.0.facts()
    }

    /// The server's answer time.
    ///
    /// # Errors
    /// A lost connection, or a refusal.
    pub async fn distance(&self) -> Result<Duration> {
        self.0.distance().await
    }

    /// Adds a connection on which [`Opened::get`] can read. `false` when the server takes no
    /// further one, or is out of reach; existing connections go on.
    pub async fn bind(&self) -> bool {
        self.0.bind().await
    }

    /// Reads a range on one of the added connections. `is_compared` as in [`crate::GetOptions`].
    ///
    /// # Errors
    /// `peer_closed` when all of them are in use and no other can be added.
    pub async fn get(&self, range: ByteRange, is_compared: bool) -> Result<Download> {
        self.0.get(range, is_compared).await
    }

    /// Reads the whole file on the connection over which it was opened, and ends that connection.
    /// The first of the `wanted` checksums that the server tells at the end is in the download's
    /// facts.
    ///
    /// # Errors
    /// `peer_closed` when this is the second time.
    pub async fn read_alone(&self, is_compared: bool, wanted: Vec<ChecksumAlgorithm>) -> Result<Download> {
        self.0.read_alone(is_compared, wanted).await
    }

    /// The first of the `wanted` checksums that the server tells of the open file. The key of a
    /// third-party copy allows that in the session in which the file is open, and nowhere else.
    /// Nothing may be read meanwhile.
    pub async fn checksum(&self, wanted: &[ChecksumAlgorithm]) -> Option<Checksum> {
        self.0.checksum(wanted).await
    }

    /// Closes the file and ends the added connections.
    pub async fn close(self) {
        self.0.close().await;
    }
}
