//! A file on its way from a server.

use std::fmt;

use net::{Batch, Ends};
use types::{ByteRange, Result};

use crate::protocol::Pending;
use crate::resource::Facts;

/// A file on its way from a server, in one protocol. Dropping it early ends the download.
pub trait FileDownload: fmt::Debug + Send {
    /// As [`Download::facts`].
    fn facts(&self) -> &Facts;

    /// As [`Download::range`].
    fn range(&self) -> ByteRange;

    /// As [`Download::ends`].
    fn ends(&self) -> Option<Ends> {
        None
    }

    /// As [`Download::next`].
    fn next(&mut self) -> Pending<'_, Option<Batch>>;
}

/// A file, or a part of it, on its way from a server. Dropping it early closes the connection.
#[derive(Debug)]
pub struct Download(Box<dyn FileDownload>);

impl Download {
    /// A download that was begun in some protocol.
    #[must_use]
    pub fn new(download: impl FileDownload + 'static) -> Self {
        Self(Box::new(download))
    }

    /// What the server says of the file. Checksums that come behind the content are there once
    /// [`Download::next`] has returned `None`.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        self.0.facts()
    }

    /// Which bytes come. The end is `u64::MAX` when the whole file was requested and the server
    /// does not tell its size.
    #[must_use]
    pub fn range(&self) -> ByteRange {
        self.0.range()
    }

    /// The addresses of the connection over which the server sends.
    #[must_use]
    pub fn ends(&self) -> Option<Ends> {
        self.0.ends()
    }

    /// The next bytes in order; `None` when all have come.
    ///
    /// # Errors
    /// `peer_closed` or `peer_size_differs` when not exactly the announced bytes come,
    /// `peer_stalled`, and the server's own verdict where it sends one.
    pub async fn next(&mut self) -> Result<Option<Batch>> {
        self.0.next().await
    }

    /// The future of [`Download::next`], for callers that need it in a box: it already is in one.
    pub fn boxed_next(&mut self) -> Pending<'_, Option<Batch>> {
        self.0.next()
    }
}
