//! The socket below a connection.
//!
//! The runtime hears of every segment that arrives on a socket which it watches, whether or not
//! anybody waits for one. A connection that always has more to read than fits into a buffer never
//! waits; to wake a thread for each of its segments would only take the processor from the one that
//! reads. So such a socket is taken out of the runtime's watch until it has nothing to read, or has
//! to wait for something else.
//!
//! One that has to wait again and again, because its sender is a little slower, would be woken for
//! every 16 KiB record, and pay the cost of a batch for a sixteenth of one. So a task that waits
//! for much from a fast sender lets the kernel gather nearly a buffer first ([`Socket::gathered`]).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::limits::{GATHER_WAIT, GATHERED_BYTES};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::low_water::set_low_water;

/// Reads in a row that filled their room, after which a socket counts as one that has plenty.
const FULL_READS: u32 = 4;
/// The least room that says anything when it is filled.
const PLENTY_BYTES: usize = 64 * 1024;

/// A non-blocking socket.
pub(super) struct Socket {
    state: State,
    /// Full reads in a row.
    full_reads: u32,
    /// Whether the other end has lately sent much at once.
    is_fast: bool,
    /// Whether the kernel wakes us for [`GATHERED_BYTES`] only, and not for the first byte.
    gathers: bool,
    /// Bytes that have come since something was sent, which acknowledged all before it.
    heard_bytes: usize,
    /// Whether some have come since they were last acknowledged.
    owes_word: bool,
}

enum State {
    Watched(TcpStream),
    Unwatched(std::net::TcpStream),
    /// It could not be watched again, and is closed.
    Lost,
}

impl Socket {
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self {
            state: State::Watched(tcp),
            full_reads: 0,
            is_fast: false,
            gathers: false,
            heard_bytes: 0,
            owes_word: false,
        }
    }

    /// One read without waiting. Of payload, `room` is large.
    pub(super) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = match &self.state {
            // What little may have come meanwhile is left to be gathered.
            State::Watched(_) if self.gathers => self.read_out(room)?,
            State::Watched(tcp) => tcp.try_read(room)?,
            State::Unwatched(tcp) => receive(tcp, room)?,
            State::Lost => return Err(lost()),
        };
        self.is_fast |= count >= PLENTY_BYTES;
        self.hear(count);
        let is_full = count == room.len() && count >= PLENTY_BYTES;
        self.full_reads = if is_full { self.full_reads + 1 } else { 0 };
        if self.full_reads == FULL_READS {
            self.let_go();
        }
        Ok(count)
    }

    /// One read without waiting, of a message that is expected to fit. It is small: after gathered
    /// payload the kernel's low-water mark is reset, so that it wakes us.
    pub(super) fn read_message(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.gather(false);
        let count = self.read_out(room)?;
        self.hear(count);
        Ok(count)
    }

    fn hear(&mut self, count: usize) {
        self.heard_bytes = self.heard_bytes.saturating_add(count);
        self.owes_word = count > 0;
    }

    /// Acknowledges what has come, before a wait for the rest of a message. A sender that leaves
    /// Nagle's algorithm on holds a small rest back until then (RFC 9293 §3.7.4), and the system,
    /// which hopes for an answer to say it with, would take 40 ms. Where much has come the sender
    /// has more to send anyway, unless the rest is `small`.
    pub(super) fn acknowledge(&mut self, small: bool) {
        if self.owes_word && (small || self.heard_bytes <= PLENTY_BYTES) {
            self.owes_word = false;
            if let Some(socket) = self.fd() {
                // Without it the connection is only slower.
                let _ = rustix::net::sockopt::set_tcp_quickack(socket, true);
            }
        }
    }

    /// One read without waiting, of what is expected to fit. If it did, the socket is empty, and
    /// the runtime learns that: the next look costs no system call.
    fn read_out(&self, room: &mut [u8]) -> io::Result<usize> {
        let tcp = match &self.state {
            State::Watched(tcp) => tcp,
            State::Unwatched(tcp) => return receive(tcp, room),
            State::Lost => return Err(lost()),
        };
        let mut whole = None;
        let read = tcp.try_io(Interest::READABLE, || {
            let count = receive(tcp, room)?;
            if count > 0 && count < room.len() {
                whole = Some(count);
                // What the runtime noted before this read is out of date; what it notes from now on
                // stays.
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(count)
        });
        whole.map_or(read, Ok)
    }

    /// Tries something that sends, without waiting.
    pub(super) fn try_send<T>(&mut self, send: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>) -> io::Result<T> {
        (self.heard_bytes, self.owes_word) = (0, false);
        match &self.state {
            State::Watched(tcp) => tcp.try_io(Interest::WRITABLE, || send(tcp.as_fd())),
            State::Unwatched(tcp) => send(tcp.as_fd()),
            State::Lost => Err(lost()),
        }
    }

    /// The same for something that sends as much of `want` bytes as there is room for, and gives
    /// how much that was. If the socket is full then, the runtime learns that: the next send waits
    /// at once instead of trying first, which for a part of a file costs the kernel the look-up of
    /// its pages.
    pub(super) fn try_send_up_to(
        &mut self,
        want: usize,
        send: impl FnOnce(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        (self.heard_bytes, self.owes_word) = (0, false);
        let State::Watched(tcp) = &self.state else {
            return self.try_send(send);
        };
        let mut short = None;
        let sent = tcp.try_io(Interest::WRITABLE, || {
            let count = send(tcp.as_fd())?;
            if count > 0 && count < want && is_full(tcp) {
                short = Some(count);
                // As for what was read: only what the runtime noted before is out of date.
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(count)
        });
        short.map_or(sent, Ok)
    }

    /// Waits until there is something to read, or the other end has closed. May be dropped.
    pub(super) async fn readable(&mut self) -> io::Result<()> {
        self.watched()?.readable().await
    }

    /// Waits, when the other end has been fast and owes at least `owed_bytes`, until it would be
    /// worth a batch to read, or the other end has closed. Whether it came to that within
    /// [`GATHER_WAIT`]; otherwise there may be less to read, or nothing. May be dropped.
    pub(super) async fn gathered(&mut self, owed_bytes: usize) -> io::Result<bool> {
        if !self.is_fast || owed_bytes < GATHERED_BYTES || !self.gather(true) {
            return Ok(false);
        }
        let ready = tokio::time::timeout(GATHER_WAIT, self.watch()?.readable());
        match ready.await {
            Ok(ready) => ready.map(|()| true),
            Err(_) => {
                self.is_fast = false;
                Ok(false)
            }
        }
    }

    /// Tells the kernel how much is to come before it wakes us. Whether it is so now.
    fn gather(&mut self, gathers: bool) -> bool {
        if self.gathers != gathers {
            let bytes = if gathers { GATHERED_BYTES } else { 1 };
            // The kernel looks at once whether there is so much already.
            let told = self.fd().is_some_and(|socket| set_low_water(socket, bytes).is_ok());
            if told {
                self.gathers = gathers;
            }
        }
        self.gathers == gathers
    }

    /// Waits until there is room to send. May be dropped.
    pub(super) async fn writable(&mut self) -> io::Result<()> {
        self.watched()?.writable().await
    }

    /// Waits until a third of what the kernel keeps for sending is free, as [`Socket::writable`]
    /// does when there was no room at all. May be dropped.
    pub(super) async fn roomy(&mut self) -> io::Result<()> {
        loop {
            let looked = self.try_send(|socket| match takes_more_within(socket, Duration::ZERO)? {
                true => Ok(()),
                false => Err(io::ErrorKind::WouldBlock.into()),
            });
            match looked {
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                looked => return looked,
            }
        }
    }

    /// The socket under the runtime's watch, which reports at once what is there already.
    pub(super) fn watched(&mut self) -> io::Result<&TcpStream> {
        if !self.gather(false) {
            return Err(lost());
        }
        self.watch()
    }

    fn watch(&mut self) -> io::Result<&TcpStream> {
        self.full_reads = 0;
        self.state = match std::mem::replace(&mut self.state, State::Lost) {
            State::Unwatched(tcp) => State::Watched(TcpStream::from_std(tcp)?),
            state => state,
        };
        match &self.state {
            State::Watched(tcp) => Ok(tcp),
            State::Unwatched(_) | State::Lost => Err(lost()),
        }
    }

    /// Deregisters the socket from its runtime. The next use of the socket finds the failure: data
    /// read before it still has to be handed out.
    pub(super) fn let_go(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Lost) {
            State::Watched(tcp) => tcp.into_std().map_or(State::Lost, State::Unwatched),
            state => state,
        };
    }

    /// Hands the socket over to a thread. Until it is given back, this one is as good as closed.
    pub(super) fn take(&mut self) -> io::Result<std::net::TcpStream> {
        self.full_reads = 0;
        (self.heard_bytes, self.owes_word) = (0, false);
        match std::mem::replace(&mut self.state, State::Lost) {
            State::Watched(tcp) => tcp.into_std(),
            State::Unwatched(tcp) => Ok(tcp),
            State::Lost => Err(lost()),
        }
    }

    /// Takes it back.
    pub(super) fn give_back(&mut self, tcp: std::net::TcpStream) {
        self.state = State::Unwatched(tcp);
    }

    /// The descriptor; none when the socket was lost.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Watched(tcp) => Some(tcp.as_fd()),
            State::Unwatched(tcp) => Some(tcp.as_fd()),
            State::Lost => None,
        }
    }

    pub(super) fn peer_address(&self) -> Option<std::net::SocketAddr> {
        match &self.state {
            State::Watched(tcp) => tcp.peer_addr().ok(),
            State::Unwatched(tcp) => tcp.peer_addr().ok(),
            State::Lost => None,
        }
    }

    pub(super) fn local_address(&self) -> Option<std::net::SocketAddr> {
        match &self.state {
            State::Watched(tcp) => tcp.local_addr().ok(),
            State::Unwatched(tcp) => tcp.local_addr().ok(),
            State::Lost => None,
        }
    }

    /// Whether the runtime watches it.
    #[cfg(test)]
    pub(super) fn is_watched(&self) -> bool {
        matches!(self.state, State::Watched(_))
    }
}

fn lost() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

/// Whether the socket has no room to send, and nothing else that its sender should hear of.
fn is_full(tcp: &TcpStream) -> bool {
    matches!(takes_more_within(tcp, Duration::ZERO), Ok(false))
}

/// Whether the socket takes more, or has failed, before so much time is over.
pub(super) fn takes_more_within(socket: impl AsFd, wait: Duration) -> io::Result<bool> {
    let mut watched = [PollFd::new(&socket, PollFlags::OUT)];
    let wait = Timespec::try_from(wait).map_err(|_| io::ErrorKind::InvalidInput)?;
    loop {
        match poll(&mut watched, Some(&wait)) {
            Err(Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

fn receive(tcp: impl AsFd, room: &mut [u8]) -> io::Result<usize> {
    let (_, count) = rustix::net::recv(tcp, room, RecvFlags::DONTWAIT)?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    const ROOM_BYTES: usize = PLENTY_BYTES;

    async fn pair() -> (Socket, TcpStream) {
        let listener = crate::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (near, _) = listener.accept().await.unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&near, 4 * ROOM_BYTES).unwrap();
        (Socket::new(near), far)
    }

    /// Reads so often, each time when there is enough to fill the room.
    async fn take_full(socket: &mut Socket, reads: usize) {
        let mut room = vec![0; ROOM_BYTES];
        for _ in 0..reads {
            while rustix::io::ioctl_fionread(socket.fd().unwrap()).unwrap() < ROOM_BYTES as u64 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            loop {
                match socket.read(&mut room) {
                    Ok(count) => break assert_eq!(count, ROOM_BYTES),
                    Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => socket.readable().await.unwrap(),
                    Err(cause) => panic!("{cause}"),
                }
            }
        }
    }

    /// Reads so many bytes.
    async fn take(socket: &mut Socket, count: usize) {
        let (mut room, mut taken) = (vec![0; ROOM_BYTES], 0);
        while taken < count {
            let want = room.len().min(count - taken);
            match socket.read(&mut room[..want]) {
                Ok(0) => panic!("it ended after {taken} bytes"),
                Ok(more) => taken += more,
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => socket.readable().await.unwrap(),
                Err(cause) => panic!("{cause}"),
            }
        }
    }

    #[tokio::test]
    async fn it_is_let_go_while_there_is_plenty_and_watched_again_when_it_has_to_wait() {
        let (mut socket, mut far) = pair().await;
        let sender = tokio::spawn(async move {
            far.write_all(&vec![1; 6 * ROOM_BYTES]).await.unwrap();
            far
        });
        take_full(&mut socket, 3).await;
        assert!(socket.is_watched(), "after three full reads");
        take_full(&mut socket, 3).await;
        assert!(!socket.is_watched(), "after six");
        let mut far = sender.await.unwrap();
        // Nothing is there: an empty look says so, and waiting hears of what comes later.
        let empty = socket.read(&mut [0; 10]).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        let (waited, sent) = tokio::join!(socket.readable(), far.write_all(b"later"));
        waited.and(sent).unwrap();
        assert!(socket.is_watched());
        let mut room = [0; 10];
        assert_eq!(socket.read_message(&mut room).unwrap(), 5);
    }

    #[tokio::test]
    async fn what_came_while_nobody_watched_is_heard_of_and_so_is_the_end() {
        let (mut socket, mut far) = pair().await;
        let sender = tokio::spawn(async move {
            far.write_all(&vec![1; 64 * ROOM_BYTES]).await.unwrap();
            far.write_all(b"rest").await.unwrap();
        });
        take(&mut socket, 64 * ROOM_BYTES).await;
        sender.await.unwrap();
        socket.let_go();
        socket.readable().await.unwrap();
        let mut room = [0; 10];
        assert_eq!(socket.read_message(&mut room).unwrap(), 4);
        socket.let_go();
        assert_eq!(socket.read_message(&mut room).unwrap(), 0, "the other end has closed");
        socket.readable().await.unwrap();
    }

    #[tokio::test]
    async fn what_came_is_acknowledged_once_and_not_where_an_answer_did() {
        let (mut socket, mut far) = pair().await;
        let acknowledges = |socket: &mut Socket, small: bool| {
            rustix::net::sockopt::set_tcp_quickack(socket.fd().unwrap(), false).unwrap();
            socket.acknowledge(small);
            rustix::net::sockopt::tcp_quickack(socket.fd().unwrap()).unwrap()
        };
        assert!(!acknowledges(&mut socket, true), "nothing has come");
        far.write_all(b"GET /").await.unwrap();
        take(&mut socket, 5).await;
        assert!(acknowledges(&mut socket, false));
        assert!(!acknowledges(&mut socket, true), "nothing more has come");
        far.write_all(b" HTTP").await.unwrap();
        take(&mut socket, 5).await;
        socket.writable().await.unwrap();
        socket
            .try_send(|fd| Ok(rustix::net::send(fd, b"x", rustix::net::SendFlags::empty())?))
            .unwrap();
        assert!(!acknowledges(&mut socket, true), "the answer said it");
        far.write_all(&[7; 2 * ROOM_BYTES]).await.unwrap();
        take(&mut socket, 2 * ROOM_BYTES).await;
        assert!(!acknowledges(&mut socket, false), "much comes by itself");
        assert!(acknowledges(&mut socket, true), "and a small rest does not");
    }

    #[tokio::test]
    async fn no_send_is_tried_in_vain_behind_one_that_filled_the_socket() {
        let (mut socket, far) = pair().await;
        socket.writable().await.unwrap();
        // More than fits, however much is taken.
        let block = vec![3; 64 * 1024 * 1024];
        let tries = std::cell::Cell::new(0);
        let send = |socket: &mut Socket| {
            let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
            socket.try_send_up_to(block.len(), |fd| {
                tries.set(tries.get() + 1);
                Ok(rustix::net::send(fd, &block, flags)?)
            })
        };
        let (mut sent, mut sends) = (0, 0);
        let cause = loop {
            match send(&mut socket) {
                Ok(count) => (sent, sends) = (sent + count, sends + 1),
                Err(cause) => break cause,
            }
        };
        assert_eq!(cause.kind(), io::ErrorKind::WouldBlock);
        assert!(sends > 0 && tries.get() == sends, "{} tries", tries.get());
        let mut reader = Socket::new(far);
        let (room, ()) = tokio::join!(socket.writable(), take(&mut reader, sent));
        room.unwrap();
        assert!(send(&mut socket).unwrap() > 0);
    }

    #[tokio::test]
    async fn one_that_is_not_watched_sends_and_waits_for_room() {
        let (mut socket, far) = pair().await;
        socket.let_go();
        let block = vec![2; ROOM_BYTES];
        let send = |socket: &mut Socket| {
            let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
            socket.try_send(|fd| rustix::net::send(fd, &block, flags).map_err(io::Error::from))
        };
        let mut sent = 0;
        while let Ok(count) = send(&mut socket) {
            sent += count;
        }
        assert!(sent > 0 && !socket.is_watched());
        let mut reader = Socket::new(far);
        let (room, ()) = tokio::join!(socket.writable(), take(&mut reader, sent));
        room.unwrap();
        assert!(send(&mut socket).unwrap() > 0);
    }

    /// A socket whose other end has just sent much at once, and is owed to send more.
    async fn fast_pair() -> (Socket, TcpStream) {
        let (mut socket, mut far) = pair().await;
        rustix::net::sockopt::set_socket_recv_buffer_size(&far, 4 * GATHERED_BYTES).unwrap();
        far.write_all(&vec![1; 2 * PLENTY_BYTES]).await.unwrap();
        take(&mut socket, 2 * PLENTY_BYTES).await;
        assert!(socket.is_fast);
        (socket, far)
    }

    async fn pending_bytes(socket: &Socket, bytes: usize) {
        while rustix::io::ioctl_fionread(socket.fd().unwrap()).unwrap() < bytes as u64 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn much_is_gathered_before_a_reader_is_woken() {
        let (mut socket, mut far) = fast_pair().await;
        let empty = socket.read(&mut [0; 10]).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        let sent = async {
            // In pieces of a record each, as most senders do.
            for _ in 0..GATHERED_BYTES.div_ceil(16 * 1024) {
                far.write_all(&[2; 16 * 1024]).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let gathered = async {
            let gathered = socket.gathered(GATHERED_BYTES).await.unwrap();
            (gathered, rustix::io::ioctl_fionread(socket.fd().unwrap()).unwrap())
        };
        let (gathered, ()) = tokio::join!(gathered, sent);
        assert_eq!(gathered, (true, GATHERED_BYTES as u64), "within {GATHER_WAIT:?}");
        let mut room = vec![0; 2 * GATHERED_BYTES];
        assert_eq!(socket.read(&mut room).unwrap(), GATHERED_BYTES);
        // That was all, which is known without another look.
        let count = socket.read(&mut room).map_err(|cause| cause.kind());
        assert_eq!(count, Err(io::ErrorKind::WouldBlock));
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_that_has_become_slow_is_heard_of_at_once_from_then_on() {
        let (mut socket, mut far) = fast_pair().await;
        socket.read(&mut [0; 10]).unwrap_err();
        far.write_all(b"little").await.unwrap();
        pending_bytes(&socket, 6).await;
        let began = tokio::time::Instant::now();
        assert!(!socket.gathered(GATHERED_BYTES).await.unwrap());
        assert!(began.elapsed() >= GATHER_WAIT);
        socket.readable().await.unwrap();
        let mut room = [0; 10];
        assert_eq!(socket.read(&mut room).unwrap(), 6);
        assert!(
            !socket.gathered(GATHERED_BYTES).await.unwrap() && !socket.gathers,
            "still fast"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn little_that_is_owed_is_not_waited_for_and_what_follows_is_heard_of() {
        let (mut socket, mut far) = fast_pair().await;
        socket.read(&mut [0; 10]).unwrap_err();
        assert!(socket.gather(true));
        assert!(!socket.gathered(GATHERED_BYTES - 1).await.unwrap());
        let (ready, sent) = tokio::join!(socket.readable(), far.write_all(b"the next request"));
        ready.and(sent).unwrap();
        assert!(!socket.gathers);
        let mut room = [0; 100];
        assert_eq!(socket.read_message(&mut room).unwrap(), 16);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_behind_what_was_gathered_is_found_without_waiting_for_it() {
        let (mut socket, mut far) = fast_pair().await;
        socket.read(&mut [0; 10]).unwrap_err();
        assert!(socket.gather(true));
        far.write_all(b"refused").await.unwrap();
        let mut room = [0; 100];
        let mut found = Err(io::ErrorKind::WouldBlock);
        for _ in 0..10_000 {
            found = socket.read_message(&mut room).map_err(|cause| cause.kind());
            if found.is_ok() {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(found, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_is_heard_of_while_much_is_gathered() {
        let (mut socket, mut far) = fast_pair().await;
        socket.read(&mut [0; 10]).unwrap_err();
        far.write_all(b"and no more").await.unwrap();
        drop(far);
        assert!(socket.gathered(GATHERED_BYTES).await.unwrap());
        let mut room = [0; 100];
        assert_eq!(socket.read(&mut room).unwrap(), 11);
        // The end itself is not missed.
        socket.readable().await.unwrap();
        let end = loop {
            match socket.read(&mut room) {
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => socket.readable().await.unwrap(),
                end => break end.unwrap(),
            }
        };
        assert_eq!(end, 0);
    }
}
