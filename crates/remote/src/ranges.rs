//! Many small ranges of one file elsewhere, read together.

use types::{ByteRange, Result};

use crate::resource::Facts;
use crate::{http, root};

/// A file of which ranges are read. Dropping it in the middle of a read closes the connection.
#[derive(Debug)]
pub struct Ranges(pub(crate) Way);

/// By which protocol.
#[derive(Debug)]
pub(crate) enum Way {
    /// With requests for several ranges over HTTP.
    Http(Box<http::Ranges>),
    /// With vector reads of the XRootD protocol.
    Root(Box<root::Ranges>),
}

impl Ranges {
    /// What the server says of the file.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        match &self.0 {
            Way::Http(ranges) => ranges.facts(),
            Way::Root(ranges) => ranges.facts(),
        }
    }

    /// The content of each range, in their order. Large ranges and long lists are divided as the
    /// protocol wants it; in the XRootD protocol the requests are under way together.
    ///
    /// # Errors
    /// `bad_request` for more than [`types::limits::VECTOR_READ_BYTES_MAX`] together; the server's
    /// refusal, which a range behind the file's end is; `source_changed`; a lost connection;
    /// `peer_unsupported` when an HTTP server sends the whole file instead. After any but the first a
    /// file of the XRootD protocol has to be opened again.
    pub async fn read(&mut self, ranges: &[ByteRange]) -> Result<Vec<Vec<u8>>> {
        match &mut self.0 {
            Way::Http(http) => http.read(ranges).await,
            Way::Root(root) => root.read(ranges).await,
        }
    }

    /// Closes the file and keeps its connection for the next request.
    pub async fn close(self) {
        match self.0 {
            // Its connection lies in the pool between two reads.
            Way::Http(_) => {}
            Way::Root(ranges) => ranges.close().await,
        }
    }
}
