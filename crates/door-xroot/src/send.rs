//! Sending ranges of open files, on the session's own connection or on a further one.

use std::sync::Arc;
use std::time::Instant;

use crate::limits::XROOT_PART_BYTES;
use endpoint::{Ending, Moved};
use net::Stream;
use storage::ReadHandle;
use transfer::{Progress, Site, serve, serve_pages};
use types::{ByteRange, Result};
use xroot_wire::response::{PageStatus, PageStatusKind, ResponseHeader, respond};
use xroot_wire::{Status, StreamId};

use crate::failure::{error_words, is_torn};
use crate::files::Traffic;

/// A range to send.
pub(crate) struct Task {
    /// The request that it answers.
    pub(crate) stream: StreamId,
    /// With page checksums.
    pub(crate) paged: bool,
    pub(crate) reader: Arc<dyn ReadHandle>,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) began: Instant,
}

impl Task {
    /// Sends the answer, and reports it.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(crate) async fn send(&self, stream: &mut Stream, site: &Site) -> Result<()> {
        let progress = Progress::new();
        let sent = match self.paged {
            true => self.send_pages(stream, &progress).await,
            false => self.send_plain(stream, &progress).await,
        };
        let moved = progress.moved_bytes();
        self.traffic.read(moved, stream);
        site.report_moved(&Moved {
            method: if self.paged { "page_read" } else { "read" },
            bytes_in: 0,
            bytes_out: moved,
            took: self.began.elapsed(),
            ending: ending(&sent),
        });
        sent
    }

    /// The part of the range that lies within the file.
    pub(crate) fn range(&self) -> ByteRange {
        let size = self.reader.stat().size_bytes;
        let end = self.offset.saturating_add(u64::from(self.length)).min(size);
        ByteRange::new(self.offset, end.max(self.offset))
    }

    async fn send_plain(&self, stream: &mut Stream, progress: &Progress) -> Result<()> {
        let mut left = self.range();
        loop {
            let part = ByteRange::new(left.start, left.end.min(left.start + XROOT_PART_BYTES));
            left = ByteRange::new(part.end, left.end);
            let status = if left.is_empty() { Status::Ok } else { Status::Partial };
            // A part is far below 2 GiB.
            let head = ResponseHeader::new(self.stream, status, part.len() as usize).encode();
            stream.queue_message(|out| out.extend_from_slice(&head));
            if !part.is_empty() {
                serve(self.reader.as_ref(), part, stream, None, progress).await?;
            }
            if left.is_empty() {
                return Ok(());
            }
        }
    }

    async fn send_pages(&self, stream: &mut Stream, progress: &Progress) -> Result<()> {
        let range = self.range();
        let head = |part: &transfer::PagesPart| {
            let kind = if part.is_last {
                PageStatusKind::Final
            } else {
                PageStatusKind::Partial
            };
            PageStatus::page_read(self.stream, kind, part.offset, part.wire_bytes).encode()
        };
        let sent = serve_pages(self.reader.as_ref(), range, stream, head, progress).await;
        match sent {
            // The connection is between two parts, so an error can be sent.
            Err(error) if !is_torn(&error) => {
                let words = error_words(&error);
                stream.queue_message(|out| respond::error(out, self.stream, error.code().into(), &words));
                Ok(())
            }
            done => done,
        }
    }
}

/// The ending of a request that sent data.
pub(crate) fn ending(sent: &Result<()>) -> Ending {
    match sent {
        Ok(()) => Ending::Answered,
        Err(error) => Ending::Failed(error.code().name(), error.side().name()),
    }
}
