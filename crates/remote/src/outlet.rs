//! A file on its way to a server.
//!
//! An upload takes two calls a batch, straight from the engine. So those of our own protocols are
//! called through an enum, without an allocation; all else takes one boxed future a call.

use std::fmt;
use std::time::Instant;

use net::{Ends, Outgoing, Stream};
use types::{ByteRange, Checksum, Error, Result};

use crate::options::Stored;
use crate::resource::FileIdentity;
use crate::{http, root};

mod erased;

/// A file on its way to a server, in one protocol. Dropping it before [`FileUpload::finish`] tells
/// the server that the file is incomplete.
pub trait FileUpload: fmt::Debug + Send {
    /// As [`Outlet::ends`].
    fn ends(&self) -> Option<Ends> {
        None
    }

    /// As [`Outlet::created`].
    fn created(&self) -> Option<CreatedFile> {
        None
    }

    /// As [`Outlet::sent_bytes`].
    fn sent_bytes(&self) -> u64;

    /// As [`Outlet::outgoing`].
    fn outgoing(&mut self) -> impl Future<Output = Result<Outgoing>> + Send;

    /// As [`Outlet::send`].
    fn send(&mut self, outgoing: Outgoing, filled: usize) -> impl Future<Output = Result<()>> + Send;

    /// As [`Outlet::takes_any_order`].
    fn takes_any_order(&self) -> bool {
        false
    }

    /// As [`Outlet::go_to`]; called only after [`FileUpload::takes_any_order`] said so.
    fn go_to(&mut self, _offset: u64) {}

    /// As [`Outlet::bare_stream`].
    fn bare_stream(&mut self) -> Option<&mut Stream> {
        None
    }

    /// As [`Outlet::sent`]; called only after [`FileUpload::bare_stream`] gave a connection.
    fn sent(&mut self, _bytes: u64) {}

    /// As [`Outlet::check_answer`].
    fn check_answer(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// As [`Outlet::damaged`].
    fn damaged(&mut self) -> impl Future<Output = Result<Vec<ByteRange>>> + Send {
        async { Ok(Vec::new()) }
    }

    /// As [`Outlet::send_again`]; called only for what [`FileUpload::damaged`] returned.
    fn send_again(&mut self, _offset: u64, _page: &[u8]) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// As [`Outlet::explain`].
    fn explain(&mut self, cause: Error) -> impl Future<Output = Error> + Send {
        async { cause }
    }

    /// As [`Outlet::declare`].
    fn declare(&mut self, _checksums: &[Checksum]) {}

    /// As [`Outlet::finish`].
    fn finish(self) -> impl Future<Output = Result<Stored>> + Send;
}

/// The file that an upload has created or emptied, as the server described it then.
#[derive(Clone, Debug)]
pub struct CreatedFile {
    /// Which file it is.
    pub identity: FileIdentity,
    /// The server would have refused if the name had existed.
    pub is_new: bool,
    /// When it described the file.
    pub at: Instant,
}

/// A file on its way to a server. Dropping it before [`Outlet::finish`] closes the connection,
/// which tells the server that the file is incomplete.
#[derive(Debug)]
pub struct Outlet(Upload);

/// The upload of a protocol.
#[derive(Debug)]
enum Upload {
    Http(Box<http::Outlet>),
    Root(Box<root::Outlet>),
    Other(Box<dyn erased::FileUpload>),
}

/// Calls the upload, whichever protocol it is of.
macro_rules! call {
    ($upload:expr, $one:ident => $call:expr) => {
        match $upload {
            Upload::Http($one) => $call,
            Upload::Root($one) => $call,
            Upload::Other($one) => $call,
        }
    };
}

impl From<http::Outlet> for Outlet {
    fn from(upload: http::Outlet) -> Self {
        Self(Upload::Http(Box::new(upload)))
    }
}

impl From<root::Outlet> for Outlet {
    fn from(upload: root::Outlet) -> Self {
        Self(Upload::Root(Box::new(upload)))
    }
}

impl Outlet {
    /// An upload that was begun in some protocol. Each call takes a future on the heap.
    #[must_use]
    pub fn new(upload: impl FileUpload + 'static) -> Self {
        Self(Upload::Other(Box::new(upload)))
    }

    /// The addresses of the connection to the server that stores.
    #[must_use]
    pub fn ends(&self) -> Option<Ends> {
        call!(&self.0, upload => upload.ends())
    }

    /// The file that the upload writes to, where the server names files by more than their path.
    /// It recognises the file when the upload has failed.
    #[must_use]
    pub fn created(&self) -> Option<CreatedFile> {
        call!(&self.0, upload => upload.created())
    }

    /// Payload bytes sent so far.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        call!(&self.0, upload => upload.sent_bytes())
    }

    /// Whether the server takes the content in any order: [`Outlet::go_to`].
    #[must_use]
    pub fn takes_any_order(&self) -> bool {
        call!(&self.0, upload => upload.takes_any_order())
    }

    /// The next buffer is for this offset; each byte of the file must be sent once. Only where
    /// [`Outlet::takes_any_order`] says so. Without it the content comes from front to back.
    pub fn go_to(&mut self, offset: u64) {
        call!(&mut self.0, upload => upload.go_to(offset));
    }

    /// A buffer for the next payload, to be filled and given to [`Outlet::send`].
    ///
    /// # Errors
    /// What the server has answered meanwhile, or that the connection is lost.
    pub async fn outgoing(&mut self) -> Result<Outgoing> {
        call!(&mut self.0, upload => upload.outgoing().await)
    }

    /// Sends the first `filled` bytes of the buffer.
    ///
    /// # Errors
    /// The server's answer where there is one, else that the connection is lost or stalled;
    /// `internal` when more is sent than was announced.
    pub async fn send(&mut self, outgoing: Outgoing, filled: usize) -> Result<()> {
        call!(&mut self.0, upload => upload.send(outgoing, filled).await)
    }

    /// The connection itself, to send pieces of a file over it; it may be encrypted. Only for
    /// protocols that put nothing between two pieces of content. [`Outlet::sent`] counts what goes
    /// this way; between pieces [`Outlet::check_answer`] sees a refusal, and [`Outlet::explain`]
    /// says why a connection broke.
    pub fn bare_stream(&mut self) -> Option<&mut Stream> {
        call!(&mut self.0, upload => upload.bare_stream())
    }

    /// Counts payload that was sent over [`Outlet::bare_stream`].
    pub fn sent(&mut self, bytes: u64) {
        call!(&mut self.0, upload => upload.sent(bytes));
    }

    /// Whether the server has refused meanwhile.
    ///
    /// # Errors
    /// The refusal, or that the connection is lost.
    pub async fn check_answer(&mut self) -> Result<()> {
        call!(&mut self.0, upload => upload.check_answer().await)
    }

    /// Pages that arrived damaged, of all that was sent: waits for the answers to it. Each has to
    /// be sent again before [`Outlet::finish`], which fails otherwise.
    ///
    /// # Errors
    /// The server's refusal, a lost connection; `too_many_page_errors`.
    pub async fn damaged(&mut self) -> Result<Vec<ByteRange>> {
        call!(&mut self.0, upload => upload.damaged().await)
    }

    /// Sends a page again that arrived damaged.
    ///
    /// # Errors
    /// As [`Outlet::send`].
    pub async fn send_again(&mut self, offset: u64, page: &[u8]) -> Result<()> {
        call!(&mut self.0, upload => upload.send_again(offset, page).await)
    }

    /// Why a connection broke during sending: the server's answer, if one has still come, else
    /// `cause`.
    pub async fn explain(&mut self, cause: Error) -> Error {
        call!(&mut self.0, upload => upload.explain(cause).await)
    }

    /// Checksums of all that was sent, for the server to compare before it replaces a file. Only
    /// where it takes them behind the content ([`PutOptions::compares_trailers_at`]).
    ///
    /// [`PutOptions::compares_trailers_at`]: crate::PutOptions::compares_trailers_at
    pub fn declare(&mut self, checksums: &[Checksum]) {
        call!(&mut self.0, upload => upload.declare(checksums));
    }

    /// Ends the content and waits until the server has stored the file.
    ///
    /// # Errors
    /// The server's refusal, a lost connection, no answer in time; `internal` when fewer bytes were
    /// sent than announced.
    pub async fn finish(self) -> Result<Stored> {
        call!(self.0, upload => Box::pin(upload.finish()).await)
    }
}
