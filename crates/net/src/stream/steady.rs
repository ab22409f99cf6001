//! Sending a file on a thread that waits for its socket itself.
//!
//! A reader on a fast network makes room for a megabyte within a millisecond. The runtime hears of
//! it when one of its few workers comes to look, and on busy processors the socket has run dry by
//! then: every part of the file is sent from a standing start. A thread that waits for this one
//! socket is woken by the reader's acknowledgement and refills the queue while there is something
//! in it, which takes a quarter less processor time
//! (docs/experiments/2026-11-24-sender-threads.md).
//!
//! Over TLS the same thread also reads the file and seals it, so that a connection does not take
//! the processor of the runtime's workers, which all other requests need. These threads have a
//! higher nice value: on busy processors the workers, and readers on the same machine, go first.
//! Beside 64 downloads a small request is answered in 0.4 ms instead of 87
//! (docs/experiments/2026-11-24-sender-threads.md). In clear text this holds only from
//! [`STEADY_EQUALS`](types::limits::STEADY_EQUALS) threads per processor on: fewer are in no one's
//! way, and on some machines a nicer one finds its queue dry.
//!
//! Such a thread in clear text waits within the call that sends, as long as it is not one of many
//! ([`Patient`]).
//!
//! That is for readers that keep up. One that leaves the queue full for [`STEADY_WAIT`] goes back
//! to the runtime, which waits for thousands of them without a thread for each.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use execution::senders::{Thread, give_way, is_crowded, places};
use rustix::io::Errno;
use rustix::net::{SendFlags, sockopt};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use types::limits::STEADY_WAIT;
use types::{ByteRange, Error, ErrorCode, Phase, Side};

use super::Stream;
use super::outgoing::Outgoing;
use super::session::TlsState;
use super::socket::takes_more_within;
use records::{RecordFault, Sealer};

/// What the kernel is asked to send in one call. It continues as long as the reader makes room
/// within [`STEADY_WAIT`]; meanwhile it reports no progress and cannot be stopped.
const CALL_BYTES: u64 = 2 * 1024 * 1024;

/// How far one turn came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Bytes that were sent.
    pub sent_bytes: u64,
    /// Whether the reader kept up. If so and nothing was sent, the file has ended.
    pub keeps_up: bool,
}

/// A part of a file on its way to a thread.
struct FileSend<F> {
    socket: TcpStream,
    tls: Option<Box<TlsState>>,
    file: File,
    range: ByteRange,
    /// Called with the number of sent bytes.
    moved: F,
    stopped: Arc<AtomicBool>,
    _permit: OwnedSemaphorePermit,
}

/// What comes back from the thread: all that was lent to it.
struct Done {
    socket: TcpStream,
    tls: Option<Box<TlsState>>,
    outcome: Result<SendState, Fault>,
}

/// How far the thread came.
struct SendState {
    turn: Turn,
    /// Sealed and not sent yet: it belongs to what was counted as sent.
    rest: Option<Rest>,
}

/// The end of a buffer that the socket had no room for.
struct Rest {
    outgoing: Outgoing,
    wire: Range<usize>,
}

/// Why the thread gave up.
enum Fault {
    Connection(io::Error),
    File(io::Error),
    Record(RecordFault),
}

/// Stops the thread when its future is dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Stream {
    /// Sends a part of a file as [`Stream::send_file`] does, or sealed where the connection is
    /// encrypted: all of it as long as the reader keeps up, on a thread of its own that may also
    /// wait for the disk. `moved` is called with bytes as soon as they are sent.
    ///
    /// `None` without a free thread; nothing was sent then. When the future is dropped, sending
    /// stops soon and the connection closes.
    ///
    /// # Errors
    /// Connection lost, or the file cannot be read.
    pub async fn send_file_steadily(
        &mut self,
        file: &File,
        range: ByteRange,
        moved: impl Fn(u64) + Send + 'static,
    ) -> Result<Option<Turn>, Error> {
        debug_assert!(self.queued.is_empty());
        if self.tls.as_ref().is_some_and(|tls| tls.has_unsent()) {
            self.flush().await?;
        }
        let Ok(permit) = places().try_acquire_owned() else {
            return Ok(None);
        };
        let Ok(file) = file.try_clone() else { return Ok(None) };
        // The thread is there before it is given the socket, which would be lost otherwise.
        let Ok(thread) = Thread::take(self.is_encrypted() || is_crowded()) else {
            return Ok(None);
        };
        self.begin_send()?;
        // A reader who does not keep up is sent to by a task, which has to wait for room as well.
        self.sends_much = true;
        let broken = |cause: &io::Error| self.role.broken(Phase::Transfer, cause);
        let socket = self.socket.take().map_err(|cause| broken(&cause))?;
        let stop = StopOnDrop(Arc::default());
        let job = FileSend {
            socket,
            tls: self.tls.take(),
            file,
            range,
            moved,
            stopped: stop.0.clone(),
            _permit: permit,
        };
        let (report, reported) = oneshot::channel();
        let work = move |park: &dyn Fn()| {
            let done = job.run();
            // Before the future learns of it and sends more.
            park();
            // Without a receiver the socket closes here.
            let _ = report.send(done);
        };
        thread.run(work).map_err(|cause| broken(&cause))?;
        let done = reported.await.map_err(|_| broken(&ended()))?;
        self.socket.give_back(done.socket);
        self.tls = done.tls;
        let progress = done.outcome.map_err(|fault| self.explain(fault))?;
        self.mid_send = false;
        if let Some(Rest { outgoing, wire }) = progress.rest {
            self.write_all(&outgoing.wire()[wire]).await?;
        }
        Ok(Some(progress.turn))
    }

    fn explain(&self, fault: Fault) -> Error {
        match fault {
            Fault::Connection(cause) => self.role.broken(Phase::Transfer, &cause),
            Fault::File(cause) => {
                Error::new(ErrorCode::StorageFailed, Side::Active, Phase::Transfer).with_private(cause)
            }
            Fault::Record(cause) => self.role.tls(cause),
        }
    }
}

fn ended() -> io::Error {
    io::Error::other("the sending thread ended")
}

impl<F: Fn(u64)> FileSend<F> {
    fn run(mut self) -> Done {
        let outcome = match self.tls.take() {
            None => self.send_clear(),
            Some(mut tls) => {
                let outcome = self.send_sealed(&mut tls.session.sealer);
                self.tls = Some(tls);
                outcome
            }
        };
        Done {
            socket: self.socket,
            tls: self.tls,
            outcome,
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn send_clear(&self) -> Result<SendState, Fault> {
        let mut left = self.range;
        let mut keeps_up = true;
        let mut patient = None;
        while keeps_up && !left.is_empty() && !self.is_stopped() {
            if is_crowded() {
                give_way();
                // One that comes late because it is nicer gains nothing by waiting in the call.
                patient = None;
            } else if patient.is_none() {
                patient = Some(Patient::with(&self.socket).map_err(Fault::Connection)?);
            }
            let want = left.len().min(CALL_BYTES);
            let mut position = left.start;
            let sent = match rustix::fs::sendfile(&self.socket, &self.file, Some(&mut position), want as usize) {
                Ok(0) => break,
                Ok(count) => count as u64,
                Err(Errno::AGAIN | Errno::INTR) => 0,
                Err(errno) => return Err(Fault::Connection(errno.into())),
            };
            (self.moved)(sent);
            left.take_front(sent);
            // What is left was not sent because the socket was full, if the file has not ended: to
            // try at once costs the look-up of the file's pages.
            let wait = if patient.is_some() { Duration::ZERO } else { STEADY_WAIT };
            keeps_up = sent == want || self.takes_more(wait)?;
        }
        Ok(self.progress(left, keeps_up, None))
    }

    fn send_sealed(&self, sealer: &mut Sealer) -> Result<SendState, Fault> {
        give_way();
        let mut left = self.range;
        while !left.is_empty() && !self.is_stopped() {
            // No buffer is held while the socket is full. The one that is taken then was given back
            // a moment ago, by whichever thread, and lies in the processor's cache.
            if !self.takes_more(STEADY_WAIT)? {
                return Ok(self.progress(left, false, None));
            }
            let mut outgoing = Outgoing::records(sealer);
            let filled = self.read(&mut outgoing, left)?;
            if filled == 0 {
                break;
            }
            let length = outgoing.seal(filled, Some(sealer)).map_err(Fault::Record)?;
            let sent = self.send_while_it_keeps_up(&outgoing.wire()[..length])?;
            (self.moved)(filled as u64);
            left.take_front(filled as u64);
            if sent < length {
                let wire = sent..length;
                return Ok(self.progress(left, false, Some(Rest { outgoing, wire })));
            }
            // Who sends next changes them. Asked last: a turn that sent nothing would mean that the
            // file has ended.
            if sealer.is_worn() {
                break;
            }
        }
        Ok(self.progress(left, true, None))
    }

    /// Reads as much of the file as there is room for.
    fn read(&self, outgoing: &mut Outgoing, left: ByteRange) -> Result<usize, Fault> {
        let want = outgoing
            .capacity()
            .min(usize::try_from(left.len()).unwrap_or(usize::MAX));
        loop {
            match rustix::io::preadv(&self.file, &mut outgoing.slots(want), left.start) {
                Err(Errno::INTR) => {}
                read => return read.map_err(|errno| Fault::File(errno.into())),
            }
        }
    }

    /// Sends all of it, unless the reader takes too long to make room. Returns how much was sent.
    fn send_while_it_keeps_up(&self, wire: &[u8]) -> Result<usize, Fault> {
        let mut sent = 0;
        while sent < wire.len() {
            match rustix::net::send(&self.socket, &wire[sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(count) => sent += count,
                Err(Errno::AGAIN) if self.is_stopped() || !self.takes_more(STEADY_WAIT)? => break,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(Fault::Connection(errno.into())),
            }
        }
        Ok(sent)
    }

    fn takes_more(&self, within: Duration) -> Result<bool, Fault> {
        takes_more_within(&self.socket, within).map_err(Fault::Connection)
    }

    fn progress(&self, left: ByteRange, keeps_up: bool, rest: Option<Rest>) -> SendState {
        let sent_bytes = left.start - self.range.start;
        SendState {
            turn: Turn { sent_bytes, keeps_up },
            rest,
        }
    }
}

/// A socket whose calls wait for room, up to [`STEADY_WAIT`], instead of returning: to come back
/// with the rest of a file costs two more system calls and another look-up of its pages. For the
/// runtime it has to be as it was.
struct Patient<'s>(&'s TcpStream);

impl<'s> Patient<'s> {
    fn with(socket: &'s TcpStream) -> io::Result<Self> {
        sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, Some(STEADY_WAIT))?;
        socket.set_nonblocking(false)?;
        Ok(Self(socket))
    }
}

impl Drop for Patient<'_> {
    fn drop(&mut self) {
        // It was so before, and cannot fail while the descriptor is open.
        let _ = self.0.set_nonblocking(true);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write as _;
    use std::sync::atomic::AtomicU64;

    use http_wire::Framing;
    use testkit::SelfSigned;
    use tokio::io::AsyncReadExt as _;
    use tokio::sync::Mutex;
    use types::limits::{STEADY_BYTES_MIN, STEADY_NICENESS, STEADY_SENDERS_MAX};

    use super::*;
    use crate::failure::Role;
    use crate::http::Connection;
    use crate::stream::Waits;
    use crate::stream::testing::{self, niceness};
    use crate::tls::{ClientTls, ServerTls, Trust};
    use records::RECORDS_PER_KEY_MAX;

    /// The threads are counted for the whole process, so these tests go one after the other.
    pub(in crate::stream) static ALONE: Mutex<()> = Mutex::const_new(());

    const FILE_BYTES: usize = 3 * STEADY_BYTES_MIN as usize + 17;

    async fn pair() -> (Stream, tokio::net::TcpStream) {
        let listener = crate::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let far = tokio::net::TcpStream::connect(listener.local_addr().unwrap());
        let (near, far) = tokio::join!(listener.accept(), far);
        let stream = Stream::clear(near.unwrap().0, Role::Peer(Side::Destination), Waits::default());
        (stream, far.unwrap())
    }

    /// Our end, encrypted, and the other one. Ours is the client, which sends no tickets: no record
    /// has been sealed yet.
    pub(in crate::stream) async fn encrypted_pair() -> (Stream, Stream) {
        let made = SelfSigned::localhost().unwrap();
        let server = ServerTls::load(&made.certificate, &made.key).unwrap();
        let trust = Trust {
            files: vec![made.certificate.clone()],
            ..Trust::default()
        };
        let (client, _) = ClientTls::load(&trust).unwrap();
        let (near, far) = pair().await;
        let far = Stream::clear(far, Role::Peer(Side::Source), Waits::default());
        let (near, far) = tokio::join!(near.upgrade_client(&client, "localhost"), far.upgrade_server(&server));
        (near.unwrap(), far.unwrap())
    }

    pub(in crate::stream) fn file() -> (File, Vec<u8>) {
        let content: Vec<u8> = (0..FILE_BYTES).map(|index| (index / 7 % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content).unwrap();
        (file, content)
    }

    /// All that comes, and whether it ended as it should.
    pub(in crate::stream) async fn body(stream: Stream, framing: Framing) -> (Vec<u8>, bool) {
        let mut connection = Connection::new(stream);
        let mut body = connection.body(framing);
        let mut seen = Vec::new();
        while let Some(batch) = body.next().await.unwrap() {
            batch.slices().for_each(|slice| seen.extend_from_slice(slice));
        }
        (seen, connection.stream.ended_cleanly())
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
        let flags = rustix::fs::fcntl_getfl(stream.socket.fd().unwrap()).unwrap();
        assert!(flags.contains(rustix::fs::OFlags::NONBLOCK), "{flags:?}");
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
    async fn nothing_is_read_and_sealed_for_a_socket_that_is_full() {
        let _alone = ALONE.lock().await;
        let ((mut stream, _far), (file, _)) = (encrypted_pair().await, file());
        let socket = stream.socket.fd().unwrap();
        while takes_more_within(socket, STEADY_WAIT).unwrap() {
            let _ = rustix::net::send(socket, &[0; 4096], SendFlags::DONTWAIT);
        }
        let turn = stream.send_file_steadily(&file, whole(), |_| panic!("sent")).await;
        let nothing = Turn {
            sent_bytes: 0,
            keeps_up: false,
        };
        assert_eq!(turn.unwrap(), Some(nothing));
    }

    #[tokio::test]
    async fn keys_that_are_worn_at_the_start_do_not_look_like_the_end() {
        let _alone = ALONE.lock().await;
        let ((mut stream, mut far), (file, content)) = (encrypted_pair().await, file());
        stream
            .tls
            .as_mut()
            .unwrap()
            .session
            .sealer
            .advance_to(RECORDS_PER_KEY_MAX - 1);
        far.tls
            .as_mut()
            .unwrap()
            .session
            .opener
            .advance_to(RECORDS_PER_KEY_MAX - 1);
        let reader = tokio::spawn(body(far, Framing::Length(4 + FILE_BYTES as u64)));
        stream.queue(b"head");
        let mut left = whole();
        let mut changes = 0;
        while !left.is_empty() {
            changes += u32::from(stream.tls.as_ref().unwrap().session.sealer.is_worn());
            stream.flush_with_more().await.unwrap();
            let turn = stream.send_file_steadily(&file, left, |_| {}).await.unwrap().unwrap();
            assert!(turn.sent_bytes > 0, "{turn:?}");
            left.take_front(turn.sent_bytes);
        }
        // The head wears them, and they are changed behind what is sent next.
        assert_eq!(changes, 1);
        assert!(reader.await.unwrap().0 == [b"head", content.as_slice()].concat());
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
        let all = places().acquire_many_owned(STEADY_SENDERS_MAX as u32).await.unwrap();
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

    /// How nice the thread is that sends the file in clear text, beside so many that are at work.
    async fn niceness_beside(senders: usize) -> i32 {
        let _others = places()
            .acquire_many_owned(u32::try_from(senders).unwrap())
            .await
            .unwrap();
        let ((mut stream, _far), (file, _)) = (pair().await, file());
        niceness_of(&mut stream, &file).await
    }

    async fn niceness_of(stream: &mut Stream, file: &File) -> i32 {
        let (tell, told) = std::sync::mpsc::channel();
        let moved = move |_| _ = tell.send(niceness());
        let _ = stream.send_file_steadily(file, whole(), moved).await.unwrap().unwrap();
        told.recv().unwrap()
    }

    #[tokio::test]
    async fn many_threads_give_way_to_the_others() {
        testing::start_background();
        let _alone = ALONE.lock().await;
        let equals = execution::senders::equals();
        assert_eq!(niceness_beside(equals - 1).await, niceness());
        assert_eq!(niceness_beside(equals).await, (niceness() + STEADY_NICENESS).min(19));
    }

    #[tokio::test]
    async fn a_thread_that_encrypts_always_gives_way() {
        testing::start_background();
        let _alone = ALONE.lock().await;
        let ((mut stream, _far), (file, _)) = (encrypted_pair().await, file());
        assert_eq!(
            niceness_of(&mut stream, &file).await,
            (niceness() + STEADY_NICENESS).min(19)
        );
    }
}
