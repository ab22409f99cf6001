//! Many small ranges of one file on a server, read together.

use std::fmt;

use types::limits::VECTOR_READ_BYTES_MAX;
use types::{ByteRange, ErrorCode, Phase, Result};

use crate::protocol::{Boxed, Pending};
use crate::resource::{Facts, Resource};

/// Reads ranges of one file, in one protocol.
pub trait RangeReader: fmt::Debug + Send {
    /// As [`Ranges::facts`].
    fn facts(&self) -> &Facts;

    /// As [`Ranges::read`].
    fn read<'a>(&'a mut self, ranges: &'a [ByteRange]) -> Pending<'a, Vec<Vec<u8>>>;

    /// As [`Ranges::close`].
    fn close(self: Box<Self>) -> Boxed<'static, ()>;
}

/// Checks that one read asks for no more than fits in memory.
///
/// # Errors
/// `bad_request` for more than [`VECTOR_READ_BYTES_MAX`] together.
pub(crate) fn check_total(ranges: &[ByteRange], file: &Resource) -> Result<()> {
    let total = ranges.iter().fold(0_u64, |sum, range| sum.saturating_add(range.len()));
    if total <= VECTOR_READ_BYTES_MAX {
        return Ok(());
    }
    let error = file.error(ErrorCode::BadRequest, Phase::Transfer);
    Err(error.with_detail(format!("at most {VECTOR_READ_BYTES_MAX} bytes are read at once")))
}

/// Reads ranges of one file. Dropping it during a read closes the connection.
#[derive(Debug)]
pub struct Ranges(Box<dyn RangeReader>);

impl Ranges {
    /// A file that was opened in some protocol.
    #[must_use]
    pub fn new(ranges: impl RangeReader + 'static) -> Self {
        Self(Box::new(ranges))
    }

    /// What the server says of the file.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        self.0.facts()
    }

    /// The content of each range, in their order. Large ranges and long lists are divided as the
    /// protocol wants it; in the XRootD protocol the requests are under way together.
    ///
    /// # Errors
    /// `bad_request` for more than [`VECTOR_READ_BYTES_MAX`] together; the server's
    /// refusal, also of a range behind the file's end; `source_changed`; a lost connection;
    /// `peer_unsupported` when an HTTP server sends the whole file instead. After any but the first
    /// a file of the XRootD protocol has to be opened again.
    pub async fn read(&mut self, ranges: &[ByteRange]) -> Result<Vec<Vec<u8>>> {
        self.0.read(ranges).await
    }

    /// Closes the file and keeps its connection for the next request.
    pub async fn close(self) {
        self.0.close().await;
    }
}
