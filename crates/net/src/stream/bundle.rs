//! Parts of files and what stands between them, gathered in the kernel and sent with one call.
//!
//! A `sendfile` for each part wakes the receiver with each: it takes the processor from the sender,
//! reads the little that has come, and waits again. A pipe holds pages of files, uncopied, and
//! small bytes in their order, and the kernel hands all of it to a socket at once (splice(2)).

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};
use types::limits::{BUNDLE_BYTES, BUNDLES_MAX};
use types::{Error, Phase};

use super::Stream;

/// Bytes that a pipe takes as a whole or not at all (`PIPE_BUF`, pipe(7)).
const WHOLE_BYTES: usize = 4096;

/// The pipes of one server or command.
#[derive(Default)]
struct Pipes(Mutex<Shelf>);

impl Pipes {
    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Empty pipes that wait to be used again.
#[derive(Default)]
struct Shelf {
    kept: Vec<Pipe>,
    lent: usize,
    /// The system does not grant pipes of the size; it is not asked again.
    is_refused: bool,
}

struct Pipe {
    front: OwnedFd,
    back: OwnedFd,
}

impl Pipe {
    fn new() -> io::Result<Self> {
        let (front, back) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        rustix::pipe::fcntl_setpipe_size(&back, BUNDLE_BYTES)?;
        Ok(Self { front, back })
    }
}

/// Parts of files and bytes between them, in the order in which [`Stream::send_bundle`] sends them.
/// It holds about [`BUNDLE_BYTES`]: as many pages, where the end of a part and small bytes take a
/// whole one each.
pub struct Bundle {
    /// There until it is dropped.
    pipe: Option<Pipe>,
    held_bytes: usize,
    pipes: Arc<Pipes>,
}

impl Bundle {
    /// An empty one; `None` while [`BUNDLES_MAX`] are in use, and where the system has none to
    /// give. What was to be bundled is then sent part by part.
    #[must_use]
    pub fn take() -> Option<Self> {
        let pipes = execution::shared::<Pipes>();
        let mut shelf = pipes.lock();
        if shelf.is_refused || shelf.lent == BUNDLES_MAX {
            return None;
        }
        let pipe = shelf.kept.pop().or_else(|| Pipe::new().ok());
        shelf.is_refused = pipe.is_none();
        shelf.lent += usize::from(pipe.is_some());
        drop(shelf);
        Some(Self {
            pipe: Some(pipe?),
            held_bytes: 0,
            pipes,
        })
    }

    /// Bytes that are in it.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Puts the beginning of `bytes` behind what is there; returns how much that was. 0 when there
    /// is no room.
    ///
    /// # Errors
    /// The system's, for want of memory.
    pub fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let whole = &bytes[..bytes.len().min(WHOLE_BYTES)];
        let put = self.with(|pipe| rustix::io::write(&pipe.back, whole))?;
        Ok(put.unwrap_or(0))
    }

    /// Puts up to `count` bytes of `file`, from `offset` on, behind what is there; returns how much
    /// that was. 0 when the file ends there, `None` when there is no room. The call may wait for
    /// the disk.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn put_file(&mut self, file: &File, offset: u64, count: usize) -> io::Result<Option<usize>> {
        let mut position = offset;
        let flags = SpliceFlags::NONBLOCK;
        self.with(|pipe| rustix::pipe::splice(file, Some(&mut position), &pipe.back, None, count, flags))
    }

    /// `None` when there is no room.
    fn with(&mut self, put: impl FnOnce(&Pipe) -> rustix::io::Result<usize>) -> io::Result<Option<usize>> {
        let Some(pipe) = &self.pipe else { return Ok(None) };
        match put(pipe) {
            Ok(count) => {
                self.held_bytes += count;
                Ok(Some(count))
            }
            Err(Errno::AGAIN) => Ok(None),
            Err(cause) => Err(cause.into()),
        }
    }

    /// Hands what is there to a socket, as much as it takes now.
    fn hand_to(&self, socket: BorrowedFd<'_>, more: bool) -> io::Result<usize> {
        let Some(pipe) = &self.pipe else { return Ok(0) };
        let mut flags = SpliceFlags::NONBLOCK;
        flags.set(SpliceFlags::MORE, more);
        Ok(rustix::pipe::splice(
            &pipe.front,
            None,
            socket,
            None,
            self.held_bytes,
            flags,
        )?)
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        let mut shelf = self.pipes.lock();
        shelf.lent -= 1;
        // What was not sent goes with its pipe.
        shelf.kept.extend(self.pipe.take().filter(|_| self.held_bytes == 0));
    }
}

impl Stream {
    /// Sends what is queued and all that is in the bundle, which is empty then. In clear text only.
    /// `more` says that more follows at once and may share a segment with the end of this.
    ///
    /// # Errors
    /// Connection lost or stalled.
    pub async fn send_bundle(&mut self, bundle: &mut Bundle, more: bool) -> Result<(), Error> {
        debug_assert!(self.tls.is_none());
        tokio::task::coop::consume_budget().await;
        if bundle.held_bytes == 0 {
            return self.flush().await;
        }
        self.flush_with_more().await?;
        self.begin_send()?;
        while bundle.held_bytes > 0 {
            let held = bundle.held_bytes;
            match self.socket.try_send_up_to(held, |socket| bundle.hand_to(socket, more)) {
                Ok(0) => return Err(self.role.closed(Phase::Transfer)),
                Ok(count) => bundle.held_bytes -= count,
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => self.wait_writable().await?,
                Err(cause) => return Err(self.role.broken(Phase::Transfer, &cause)),
            }
        }
        self.mid_send = false;
        Ok(())
    }
}
