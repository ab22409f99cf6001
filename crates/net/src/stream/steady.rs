//! Sending a file on a thread that waits for its socket itself.
//!
//! A reader on a fast network makes room for a megabyte within a millisecond. The runtime hears of it when one of its few
//! workers comes to look, and on busy processors the socket has run dry by then: every part of the file is sent from a
//! standing start. A thread that waits for this one socket is woken by the reader's acknowledgement and refills the queue
//! while there is something in it, which takes a quarter less processor time (docs/performance.md).
//!
//! That is for readers that keep up. One that leaves the queue full for [`STEADY_WAIT`] goes back to the runtime, which
//! waits for thousands of them without a thread for each.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use types::limits::{STEADY_SENDERS_MAX, STEADY_WAIT};
use types::{ByteRange, Error, Phase};

use super::Stream;
use super::socket::takes_more_within;

/// What the kernel is asked to send in one call. It goes on as long as the reader makes room, and meanwhile nobody hears
/// how far it is.
const CALL_BYTES: u64 = 16 * 1024 * 1024;
/// What the thread needs: nothing but system calls.
const STACK_BYTES: usize = 128 * 1024;

static SENDERS: Semaphore = Semaphore::const_new(STEADY_SENDERS_MAX);

/// How far one turn came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Bytes that were sent.
    pub sent_bytes: u64,
    /// Whether the reader kept up. If so and nothing was sent, the file has ended.
    pub keeps_up: bool,
}

/// A part of a file on its way to a thread.
struct Job<F> {
    socket: TcpStream,
    file: File,
    range: ByteRange,
    /// Is told of bytes when they are sent.
    moved: F,
    stopped: Arc<AtomicBool>,
    _permit: SemaphorePermit<'static>,
}

/// Stops the thread when nobody waits for it any more.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Stream {
    /// Sends a part of a file as [`Stream::send_file`] does, all of it as long as the reader keeps up, on a thread of its
    /// own that may also wait for the disk. In clear text only. `moved` is told of bytes as soon as they are sent.
    ///
    /// `None` when no thread is to be had; nothing was sent then. When the future is dropped, sending stops soon and the
    /// connection closes.
    ///
    /// # Errors
    /// Connection lost, or the file cannot be read.
    pub async fn send_file_steadily(
        &mut self,
        file: &File,
        range: ByteRange,
        moved: impl Fn(u64) + Send + 'static,
    ) -> Result<Option<Turn>, Error> {
        debug_assert!(self.tls.is_none() && self.queued.is_empty());
        let Ok(permit) = SENDERS.try_acquire() else {
            return Ok(None);
        };
        let Ok(file) = file.try_clone() else { return Ok(None) };
        // The thread is there before it is given the socket, which would be lost otherwise.
        let (give, taken) = std::sync::mpsc::sync_channel::<Job<_>>(1);
        let (report, reported) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("send".to_owned())
            .stack_size(STACK_BYTES);
        let spawned = thread.spawn(move || {
            if let Ok(job) = taken.recv() {
                let outcome = send(&job);
                // Nobody listens: the socket closes here.
                let _ = report.send((job.socket, outcome));
            }
        });
        if spawned.is_err() {
            return Ok(None);
        }
        let broken = |cause: &io::Error| self.role.broken(Phase::Transfer, cause);
        let socket = self.socket.take().map_err(|cause| broken(&cause))?;
        let stop = StopOnDrop(Arc::default());
        let job = Job {
            socket,
            file,
            range,
            moved,
            stopped: stop.0.clone(),
            _permit: permit,
        };
        give.send(job).map_err(|_| broken(&ended()))?;
        let (socket, outcome) = reported.await.map_err(|_| broken(&ended()))?;
        let turn = outcome.map_err(|cause| broken(&cause));
        self.socket.give_back(socket);
        turn.map(Some)
    }
}

fn ended() -> io::Error {
    io::Error::other("the sending thread ended")
}

fn send(job: &Job<impl Fn(u64)>) -> io::Result<Turn> {
    let mut left = job.range;
    let mut keeps_up = true;
    while keeps_up && !left.is_empty() && !job.stopped.load(Ordering::Relaxed) {
        let want = left.len().min(CALL_BYTES);
        let mut position = left.start;
        let sent = match rustix::fs::sendfile(&job.socket, &job.file, Some(&mut position), want as usize) {
            Ok(0) => break,
            Ok(count) => count as u64,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(errno) => return Err(errno.into()),
        };
        (job.moved)(sent);
        left.take_front(sent);
        // What is left was not sent because the socket was full: to try at once costs the look-up of the file's pages.
        keeps_up = sent == want || takes_more_within(&job.socket, STEADY_WAIT)?;
    }
    Ok(Turn {
        sent_bytes: left.start - job.range.start,
        keeps_up,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::atomic::AtomicU64;

    use tokio::io::AsyncReadExt as _;
    use tokio::sync::Mutex;
    use types::Side;
    use types::limits::STEADY_BYTES_MIN;

    use super::*;
    use crate::failure::Role;
    use crate::stream::Waits;

    /// The threads are counted for the whole process, so these tests go one after the other.
    static ALONE: Mutex<()> = Mutex::const_new(());

    const FILE_BYTES: usize = 3 * STEADY_BYTES_MIN as usize + 17;

    async fn pair() -> (Stream, tokio::net::TcpStream) {
        let listener = crate::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let far = tokio::net::TcpStream::connect(listener.local_addr().unwrap());
        let (near, far) = tokio::join!(listener.accept(), far);
        let stream = Stream::clear(near.unwrap().0, Role::Peer(Side::Destination), Waits::default());
        (stream, far.unwrap())
    }

    fn file() -> (File, Vec<u8>) {
        let content: Vec<u8> = (0..FILE_BYTES).map(|index| (index / 7 % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content).unwrap();
        (file, content)
    }

    fn whole() -> ByteRange {
        ByteRange::new(0, FILE_BYTES as u64)
    }

    #[tokio::test]
    async fn a_reader_that_keeps_up_gets_all_of_it() {
        let _alone = ALONE.lock().await;
        let ((mut stream, mut far), (file, content)) = (pair().await, file());
        let moved = Arc::new(AtomicU64::new(0));
        let reader = tokio::spawn(async move {
            let mut seen = Vec::new();
            far.read_to_end(&mut seen).await.unwrap();
            seen
        });
        let mut left = ByteRange::new(3, FILE_BYTES as u64);
        let mut turns = Vec::new();
        // On a busy machine the best reader can fall behind.
        while !left.is_empty() {
            let count = moved.clone();
            let told = move |bytes| _ = count.fetch_add(bytes, Ordering::Relaxed);
            let turn = stream.send_file_steadily(&file, left, told).await.unwrap().unwrap();
            assert_eq!(turn.keeps_up, turn.sent_bytes == left.len(), "{turn:?}");
            left.take_front(turn.sent_bytes);
            turns.push(turn);
        }
        assert_eq!(moved.load(Ordering::Relaxed), FILE_BYTES as u64 - 3, "{turns:?}");
        // The stream goes on behind it.
        stream.queue(b"and more");
        stream.close().await.unwrap();
        let seen = reader.await.unwrap();
        assert!(
            seen == [&content[3..], b"and more"].concat(),
            "{} bytes came",
            seen.len()
        );
    }

    #[tokio::test]
    async fn a_slow_reader_is_left_to_the_runtime() {
        let _alone = ALONE.lock().await;
        let ((mut stream, mut far), (file, content)) = (pair().await, file());
        let turn = stream
            .send_file_steadily(&file, whole(), |_| {})
            .await
            .unwrap()
            .unwrap();
        assert!(!turn.keeps_up && turn.sent_bytes < FILE_BYTES as u64, "{turn:?}");
        let reader = tokio::spawn(async move {
            let mut seen = Vec::new();
            far.read_to_end(&mut seen).await.unwrap();
            seen
        });
        let mut at = turn.sent_bytes;
        while at < FILE_BYTES as u64 {
            match stream.send_file(&file, at, FILE_BYTES).unwrap() {
                Some(count) => at += count as u64,
                None => stream.writable().await.unwrap(),
            }
        }
        stream.close().await.unwrap();
        assert!(reader.await.unwrap() == content);
    }

    #[tokio::test]
    async fn a_file_that_has_ended_says_so() {
        let _alone = ALONE.lock().await;
        let ((mut stream, _far), (file, _)) = (pair().await, file());
        let behind = ByteRange::new(FILE_BYTES as u64, 2 * FILE_BYTES as u64);
        let turn = stream.send_file_steadily(&file, behind, |_| {}).await.unwrap().unwrap();
        assert_eq!(
            turn,
            Turn {
                sent_bytes: 0,
                keeps_up: true
            }
        );
    }

    #[tokio::test]
    async fn a_reader_that_goes_away_is_an_error() {
        let _alone = ALONE.lock().await;
        let ((mut stream, far), (file, _)) = (pair().await, file());
        drop(far);
        let sent = stream.send_file_steadily(&file, whole(), |_| {}).await;
        assert_eq!(sent.unwrap_err().side(), Side::Destination);
    }

    #[tokio::test]
    async fn without_a_thread_nothing_is_sent() {
        let _alone = ALONE.lock().await;
        let ((mut stream, _far), (file, _)) = (pair().await, file());
        let all = SENDERS.acquire_many(STEADY_SENDERS_MAX as u32).await.unwrap();
        let sent = stream
            .send_file_steadily(&file, whole(), |_| panic!("sent"))
            .await
            .unwrap();
        assert_eq!(sent, None);
        drop(all);
        assert!(
            stream
                .send_file_steadily(&file, whole(), |_| {})
                .await
                .unwrap()
                .is_some()
        );
    }

    #[tokio::test]
    async fn giving_up_closes_the_connection() {
        let _alone = ALONE.lock().await;
        let ((mut stream, mut far), (file, _)) = (pair().await, file());
        tokio::select! {
            biased;
            turn = stream.send_file_steadily(&file, whole(), |_| {}) => panic!("over at once: {turn:?}"),
            () = std::future::ready(()) => {}
        }
        stream.queue(b"behind it");
        stream.flush().await.unwrap_err();
        let mut seen = Vec::new();
        // The end comes although the stream is still there.
        far.read_to_end(&mut seen).await.unwrap();
        assert!(seen.len() < FILE_BYTES, "all of it came");
    }
}
