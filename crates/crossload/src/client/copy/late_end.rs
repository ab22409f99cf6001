//! The end of standard input, a moment later: Ctrl-C also ends the program that writes into the
//! pipe, and its end is not to be taken for that of the file.

use std::io::Result;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::limits::INPUT_END_PAUSE;

/// An input that is empty, and says so after a pause. Behind standard input it gives the signal
/// that ended the writer the time to end this program first.
#[derive(Default)]
pub(super) struct LateEnd(Option<Pin<Box<Sleep>>>);

impl AsyncRead for LateEnd {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let pause = self.0.get_or_insert_with(|| Box::pin(sleep(INPUT_END_PAUSE)));
        pause.as_mut().poll(context).map(Ok)
    }
}
