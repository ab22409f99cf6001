//! Many small ranges of one file elsewhere, read together.

use types::{ByteRange, Result};

use crate::resource::Facts;
use crate::root;

/// A file that is open for reading ranges of it. Dropping it closes the connection.
#[derive(Debug)]
pub struct Ranges(pub(crate) root::Ranges);

impl Ranges {
    /// What the server says of the file.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        self.0.facts()
    }

    /// The content of each range, in their order. Large ranges and long lists are divided as the
    /// protocol wants it, and the requests are under way together.
    ///
    /// # Errors
    /// `bad_request` for more than [`types::limits::VECTOR_READ_BYTES_MAX`] together; the server's
    /// refusal, which a range behind the file's end is; a lost connection. After any but the first
    /// the file has to be opened again.
    pub async fn read(&mut self, ranges: &[ByteRange]) -> Result<Vec<Vec<u8>>> {
        self.0.read(ranges).await
    }

    /// Closes the file and keeps its connection for the next request.
    pub async fn close(self) {
        self.0.close().await;
    }
}
