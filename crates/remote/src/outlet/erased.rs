//! [`super::FileUpload`] as a trait object: its futures go to the heap.

use std::fmt;

use net::{Ends, Outgoing, Stream};
use types::{ByteRange, Checksum, Error};

use super::CreatedFile;
use crate::options::Stored;
use crate::protocol::{Boxed, Pending};

/// An upload of any type.
pub(super) trait FileUpload: fmt::Debug + Send {
    fn ends(&self) -> Option<Ends>;
    fn created(&self) -> Option<CreatedFile>;
    fn sent_bytes(&self) -> u64;
    fn takes_any_order(&self) -> bool;
    fn go_to(&mut self, offset: u64);
    fn outgoing(&mut self) -> Pending<'_, Outgoing>;
    fn send(&mut self, outgoing: Outgoing, filled: usize) -> Pending<'_, ()>;
    fn bare_stream(&mut self) -> Option<&mut Stream>;
    fn sent(&mut self, bytes: u64);
    fn check_answer(&mut self) -> Pending<'_, ()>;
    fn damaged(&mut self) -> Pending<'_, Vec<ByteRange>>;
    fn send_again<'a>(&'a mut self, offset: u64, page: &'a [u8]) -> Pending<'a, ()>;
    fn explain(&mut self, cause: Error) -> Boxed<'_, Error>;
    fn declare(&mut self, checksums: &[Checksum]);
    fn finish(self: Box<Self>) -> Pending<'static, Stored>;
}

impl<T: super::FileUpload + 'static> FileUpload for T {
    fn ends(&self) -> Option<Ends> {
        super::FileUpload::ends(self)
    }

    fn created(&self) -> Option<CreatedFile> {
        super::FileUpload::created(self)
    }

    fn sent_bytes(&self) -> u64 {
        super::FileUpload::sent_bytes(self)
    }

    fn takes_any_order(&self) -> bool {
        super::FileUpload::takes_any_order(self)
    }

    fn go_to(&mut self, offset: u64) {
        super::FileUpload::go_to(self, offset);
    }

    fn outgoing(&mut self) -> Pending<'_, Outgoing> {
        Box::pin(super::FileUpload::outgoing(self))
    }

    fn send(&mut self, outgoing: Outgoing, filled: usize) -> Pending<'_, ()> {
        Box::pin(super::FileUpload::send(self, outgoing, filled))
    }

    fn bare_stream(&mut self) -> Option<&mut Stream> {
        super::FileUpload::bare_stream(self)
    }

    fn sent(&mut self, bytes: u64) {
        super::FileUpload::sent(self, bytes);
    }

    fn check_answer(&mut self) -> Pending<'_, ()> {
        Box::pin(super::FileUpload::check_answer(self))
    }

    fn damaged(&mut self) -> Pending<'_, Vec<ByteRange>> {
        Box::pin(super::FileUpload::damaged(self))
    }

    fn send_again<'a>(&'a mut self, offset: u64, page: &'a [u8]) -> Pending<'a, ()> {
        Box::pin(super::FileUpload::send_again(self, offset, page))
    }

    fn explain(&mut self, cause: Error) -> Boxed<'_, Error> {
        Box::pin(super::FileUpload::explain(self, cause))
    }

    fn declare(&mut self, checksums: &[Checksum]) {
        super::FileUpload::declare(self, checksums);
    }

    fn finish(self: Box<Self>) -> Pending<'static, Stored> {
        Box::pin(super::FileUpload::finish(*self))
    }
}
