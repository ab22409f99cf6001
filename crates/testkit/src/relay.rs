//! A TCP relay on loopback that delays, stalls or cuts what it forwards, to see how both sides bear
//! it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::Result;
use crate::socket_owner::holds_port;

/// Bytes moved at once. Small, so that a fault comes close to where it was asked for.
const BUFFER_BYTES: usize = 16 * 1024;
/// How long a connection to the target may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a blocked read or write looks whether the relay is being dropped.
const WAKE_INTERVAL: Duration = Duration::from_millis(100);

/// Which bytes a fault counts and hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the target (a server) to the client: downloads.
    ToClient,
    /// From the client to the target: uploads.
    ToTarget,
}

impl Direction {
    fn bit(self) -> u8 {
        match self {
            Self::ToClient => 1,
            Self::ToTarget => 2,
        }
    }
}

/// What the relay does to a connection. Bytes are counted per connection, as they are on the wire
/// (with TLS' own).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Resets both sides once exactly this many bytes were passed on.
    CutAfter(Direction, u64),
    /// Passes on this many bytes, then nothing more in that direction, while the connection stays
    /// open.
    StallAfter(Direction, u64),
    /// Turns one bit over in the byte behind so many, as memory that is going bad does.
    FlipBitAfter(Direction, u64),
    /// Holds back each piece (at most 16 KiB) for this long.
    Delay(Direction, Duration),
    /// Passes on at most so many bytes per second.
    Limit(Direction, u32),
    /// Closes new connections at once.
    Refuse,
    /// The target does what a request asks that begins with these words, and dies: the answer is
    /// lost, all connections are reset, and new ones closed until the relay is healed.
    DieAt(&'static str),
    /// A request that begins with the first words is not passed on: the second are its answer, and
    /// the connection ends.
    AnswerAt(&'static str, &'static str),
    /// Of a request that begins with these words, the head and so many bytes of the body are passed
    /// on, and then the end of the connection, as by a client that is killed. The client hears
    /// nothing more.
    EndBody(&'static str, u64),
    /// The target does not see these words of what clients send, wherever they stand, such as the
    /// name of a header that it is not to know.
    Hide(&'static str),
}

impl Fault {
    /// How long a piece of so many bytes is held back.
    fn delay(self, bytes: usize) -> Duration {
        match self {
            Self::Delay(_, delay) => delay,
            Self::Limit(_, bytes_s) => Duration::from_secs_f64(bytes as f64 / f64::from(bytes_s.max(1))),
            _ => Duration::ZERO,
        }
    }

    fn concerns(self, direction: Direction) -> bool {
        match self {
            Self::CutAfter(own, _)
            | Self::StallAfter(own, _)
            | Self::FlipBitAfter(own, _)
            | Self::Delay(own, _)
            | Self::Limit(own, _) => own == direction,
            Self::Refuse | Self::DieAt(_) | Self::AnswerAt(..) | Self::EndBody(..) => false,
            Self::Hide(_) => direction == Direction::ToTarget,
        }
    }
}

/// A relay; dropping it resets its connections and frees its port.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    /// The fault, and how many connections it may still strike.
    fault: Mutex<(Option<Fault>, usize)>,
    detour: Mutex<Option<Detour>>,
    stopping: Mutex<bool>,
    stopped: Condvar,
    connections: AtomicUsize,
    /// Connections whose client has closed its side, and whose server has not.
    abandoned: AtomicUsize,
    struck: AtomicUsize,
    /// The target has died ([`Fault::DieAt`]).
    is_dead: AtomicBool,
    to_client_bytes: AtomicU64,
    to_target_bytes: AtomicU64,
}

/// Where connections of one process and its descendants go instead.
#[derive(Debug, Clone, Copy)]
struct Detour {
    process: u32,
    target: SocketAddr,
}

/// The two sockets of one connection, and whether they are to be reset.
struct Pair {
    client: TcpStream,
    target: TcpStream,
    broken: AtomicBool,
    /// The request at which the target dies was passed on.
    is_last: AtomicBool,
    /// Nothing more is passed on to the client.
    is_muted: AtomicBool,
    /// The bits of the directions that have ended.
    ended: AtomicU8,
}

impl Relay {
    /// Forwards every connection to `target` unharmed, until [`Relay::set_fault`].
    ///
    /// # Errors
    /// [`crate::Error::Failed`] without a free port.
    pub fn start(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            target,
            fault: Mutex::new((None, 0)),
            detour: Mutex::new(None),
            stopping: Mutex::new(false),
            stopped: Condvar::new(),
            connections: AtomicUsize::new(0),
            abandoned: AtomicUsize::new(0),
            struck: AtomicUsize::new(0),
            is_dead: AtomicBool::new(false),
            to_client_bytes: AtomicU64::new(0),
            to_target_bytes: AtomicU64::new(0),
        });
        let for_acceptor = Arc::clone(&shared);
        let acceptor = thread::spawn(move || accept(&listener, &for_acceptor));
        Ok(Self {
            address,
            shared,
            acceptor: Some(acceptor),
        })
    }

    /// From now on `fault` strikes, at most `times` times ([`usize::MAX`]: always); open
    /// connections are struck too.
    pub fn set_fault(&self, fault: Fault, times: usize) {
        *lock(&self.shared.fault) = (Some(fault), times);
    }

    /// From now on everything flows; what stalled goes on.
    pub fn heal(&self) {
        *lock(&self.shared.fault) = (None, 0);
        self.shared.is_dead.store(false, Ordering::SeqCst);
        self.shared.stopped.notify_all();
    }

    /// From now on connections of this process and its descendants go to another target, such as a
    /// relay with a fault: then only the link between the two servers has it.
    pub fn set_detour(&self, process: u32, target: SocketAddr) {
        *lock(&self.shared.detour) = Some(Detour { process, target });
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port of [`Relay::address`].
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many connections the target still holds open although their client has closed them:
    /// requests that it has not heard to their end, or has not answered.
    #[must_use]
    pub fn abandoned_connections(&self) -> usize {
        self.shared.abandoned.load(Ordering::SeqCst)
    }

    /// How often a fault has struck so far.
    #[must_use]
    pub fn struck(&self) -> usize {
        self.shared.struck.load(Ordering::SeqCst)
    }

    /// How many bytes were passed on so far in `direction`, over all connections.
    #[must_use]
    pub fn passed_bytes(&self, direction: Direction) -> u64 {
        self.shared.passed(direction).load(Ordering::SeqCst)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        *lock(&self.shared.stopping) = true;
        self.shared.stopped.notify_all();
        // Wakes the acceptor, which then sees that it is to stop.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn is_stopping(&self) -> bool {
        *lock(&self.stopping)
    }

    fn passed(&self, direction: Direction) -> &AtomicU64 {
        match direction {
            Direction::ToClient => &self.to_client_bytes,
            Direction::ToTarget => &self.to_target_bytes,
        }
    }

    /// Where a connection goes.
    fn target_for(&self, client: &TcpStream) -> SocketAddr {
        let detour = *lock(&self.detour);
        let port = client.peer_addr().map_or(0, |address| address.port());
        match detour {
            Some(detour) if holds_port(detour.process, port) => detour.target,
            _ => self.target,
        }
    }

    fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::SeqCst)
    }

    fn fault(&self) -> Option<Fault> {
        let (fault, times) = *lock(&self.fault);
        fault.filter(|_| times > 0)
    }

    /// Uses up one of the times that `fault` may strike; false when another connection took the
    /// last.
    fn strike(&self, fault: Fault) -> bool {
        let mut state = lock(&self.fault);
        let allowed = state.0 == Some(fault) && state.1 > 0;
        if allowed {
            state.1 -= usize::from(state.1 != usize::MAX);
            self.struck.fetch_add(1, Ordering::SeqCst);
        }
        allowed
    }

    /// Waits for `limit`, or until the relay stops or is healed.
    fn pause(&self, limit: Duration) {
        let guard = lock(&self.stopping);
        if !*guard {
            drop(self.stopped.wait_timeout(guard, limit));
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut pumps = Vec::new();
    for client in listener.incoming() {
        if shared.is_stopping() {
            break;
        }
        let Ok(client) = client else { continue };
        shared.connections.fetch_add(1, Ordering::SeqCst);
        if shared.fault() == Some(Fault::Refuse) && shared.strike(Fault::Refuse) {
            continue;
        }
        if shared.is_dead() {
            continue;
        }
        let Ok(target) = TcpStream::connect_timeout(&shared.target_for(&client), CONNECT_TIMEOUT) else {
            continue;
        };
        pumps.retain(|pump: &JoinHandle<()>| !pump.is_finished());
        let pair = Arc::new(Pair {
            client,
            target,
            broken: AtomicBool::new(false),
            is_last: AtomicBool::new(false),
            is_muted: AtomicBool::new(false),
            ended: AtomicU8::new(0),
        });
        for direction in [Direction::ToClient, Direction::ToTarget] {
            let (pair, shared) = (Arc::clone(&pair), Arc::clone(shared));
            pumps.push(thread::spawn(move || {
                pump(&pair, &shared, direction);
                pair.note_end(&shared, direction);
            }));
        }
    }
    for pump in pumps {
        let _ = pump.join();
    }
}

impl Pair {
    /// Makes the close at the end a reset, and lets both pumps notice. `Shutdown::Read` wakes a
    /// local reader without telling the other end anything.
    fn break_off(&self) {
        self.broken.store(true, Ordering::SeqCst);
        for socket in [&self.client, &self.target] {
            let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
            let _ = socket.shutdown(Shutdown::Read);
        }
    }

    /// Counts the connections that only the target holds open. A pump ends when the side that it
    /// reads from ends.
    fn note_end(&self, shared: &Shared, direction: Direction) {
        let before = self.ended.fetch_or(direction.bit(), Ordering::SeqCst);
        match direction {
            Direction::ToTarget if before == 0 => {
                shared.abandoned.fetch_add(1, Ordering::SeqCst);
            }
            Direction::ToClient if before == Direction::ToTarget.bit() => {
                shared.abandoned.fetch_sub(1, Ordering::SeqCst);
            }
            _ => {}
        }
    }

    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }
}

/// Moves bytes in one direction until an end or a fault.
fn pump(pair: &Pair, shared: &Shared, direction: Direction) {
    let (mut from, mut to) = match direction {
        Direction::ToClient => (&pair.target, &pair.client),
        Direction::ToTarget => (&pair.client, &pair.target),
    };
    for socket in [from, to] {
        let _ = socket.set_nodelay(true);
        let _ = socket.set_read_timeout(Some(WAKE_INTERVAL));
        let _ = socket.set_write_timeout(Some(WAKE_INTERVAL));
    }
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut passed = 0;
    let mut body_end = None;
    loop {
        if shared.is_stopping() || shared.is_dead() {
            pair.break_off();
        }
        if pair.is_broken() {
            return;
        }
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(_) if direction == Direction::ToClient && pair.is_muted.load(Ordering::SeqCst) => {}
            Ok(mut length) => {
                if dies(&buffer[..length], pair, shared, direction) {
                    return pair.break_off();
                }
                if answers(&buffer[..length], pair, shared, direction) {
                    return drain(from, shared);
                }
                damage(&mut buffer[..length], passed, shared, direction);
                body_end = body_end.or_else(|| end_of_body(&buffer[..length], passed, shared, direction));
                let left = body_end.map_or(u64::MAX, |end: u64| end - passed);
                length = length.min(usize::try_from(left).unwrap_or(usize::MAX));
                if !forward(&buffer[..length], &mut to, &mut passed, pair, shared, direction) {
                    return;
                }
                if body_end == Some(passed) && shared.fault().is_some_and(|fault| shared.strike(fault)) {
                    pair.is_muted.store(true, Ordering::SeqCst);
                    let _ = to.shutdown(Shutdown::Write);
                    return drain(from, shared);
                }
            }
            Err(error) if is_timeout(&error) => {}
            Err(_) => return pair.break_off(),
        }
    }
    if !pair.is_broken() {
        let _ = to.shutdown(Shutdown::Write);
    }
}

/// Whether the target dies before it gives this answer.
fn dies(data: &[u8], pair: &Pair, shared: &Shared, direction: Direction) -> bool {
    let Some(fault @ Fault::DieAt(words)) = shared.fault() else {
        return false;
    };
    match direction {
        Direction::ToTarget => {
            pair.is_last
                .fetch_or(data.starts_with(words.as_bytes()), Ordering::SeqCst);
            false
        }
        Direction::ToClient => {
            let dies = pair.is_last.load(Ordering::SeqCst) && shared.strike(fault);
            shared.is_dead.fetch_or(dies, Ordering::SeqCst);
            dies
        }
    }
}

/// Whether the request that begins here is answered in the target's place.
fn answers(data: &[u8], pair: &Pair, shared: &Shared, direction: Direction) -> bool {
    let Some(fault @ Fault::AnswerAt(words, answer)) = shared.fault() else {
        return false;
    };
    let is_meant = direction == Direction::ToTarget && data.starts_with(words.as_bytes());
    if !is_meant || !shared.strike(fault) {
        return false;
    }
    // Nothing more comes from the target, whose pump then ends the client's side.
    let _ = (&pair.client).write_all(answer.as_bytes());
    let _ = pair.target.shutdown(Shutdown::Both);
    true
}

/// Where the body of the request ends that begins here, if it is ended early.
fn end_of_body(data: &[u8], passed: u64, shared: &Shared, direction: Direction) -> Option<u64> {
    let Some(Fault::EndBody(words, body_bytes)) = shared.fault() else {
        return None;
    };
    let is_meant = direction == Direction::ToTarget && data.starts_with(words.as_bytes());
    let head_bytes = data.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    is_meant.then_some(passed + head_bytes as u64 + body_bytes)
}

/// Reads what a client still sends, so that closing does not take its answer away.
fn drain(mut from: &TcpStream, shared: &Shared) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while !shared.is_stopping() {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(_) => return,
        }
    }
}

/// Turns a bit of `data`, which begins behind `passed` bytes, or hides words in it, where the fault
/// says so.
fn damage(data: &mut [u8], passed: u64, shared: &Shared, direction: Direction) {
    if let Some(Fault::Hide(words)) = shared.fault().filter(|fault| fault.concerns(direction)) {
        let mut from = 0;
        while let Some(found) = data[from..]
            .windows(words.len())
            .position(|seen| seen == words.as_bytes())
        {
            data[from + found..from + found + words.len()].fill(b'x');
            from += found + words.len();
        }
    }
    let Some(fault @ Fault::FlipBitAfter(_, at)) = shared.fault().filter(|fault| fault.concerns(direction)) else {
        return;
    };
    let index = at.checked_sub(passed).and_then(|index| usize::try_from(index).ok());
    if let Some(byte) = index.and_then(|index| data.get_mut(index))
        && shared.strike(fault)
    {
        *byte ^= 1;
    }
}

/// Forwards as much of `data` as the fault allows; false when the connection is over.
fn forward(
    mut data: &[u8],
    to: &mut &TcpStream,
    passed: &mut u64,
    pair: &Pair,
    shared: &Shared,
    direction: Direction,
) -> bool {
    let (started, piece) = (Instant::now(), data.len());
    while !data.is_empty() {
        if shared.is_stopping() {
            pair.break_off();
        }
        if pair.is_broken() {
            return false;
        }
        let fault = shared.fault().filter(|fault| fault.concerns(direction));
        let delay = fault.map_or(Duration::ZERO, |fault| fault.delay(piece));
        if started.elapsed() < delay {
            shared.pause(delay.saturating_sub(started.elapsed()));
            continue;
        }
        let allowed = match fault {
            Some(Fault::CutAfter(_, limit) | Fault::StallAfter(_, limit)) => limit.saturating_sub(*passed),
            _ => u64::MAX,
        };
        if allowed == 0 {
            match fault {
                Some(Fault::CutAfter(..)) if fault.is_some_and(|fault| shared.strike(fault)) => {
                    pair.break_off();
                    return false;
                }
                Some(Fault::StallAfter(..)) => stall(shared, pair, fault),
                _ => {}
            }
            continue;
        }
        let length = data.len().min(usize::try_from(allowed).unwrap_or(usize::MAX));
        match to.write(&data[..length]) {
            Ok(written) => {
                data = &data[written..];
                *passed += written as u64;
                shared.passed(direction).fetch_add(written as u64, Ordering::SeqCst);
            }
            Err(error) if is_timeout(&error) => {}
            Err(_) => {
                pair.break_off();
                return false;
            }
        }
    }
    true
}

/// Stays silent until the relay stops, is healed, or the connection ends otherwise.
fn stall(shared: &Shared, pair: &Pair, fault: Option<Fault>) {
    let Some(fault) = fault.filter(|fault| shared.strike(*fault)) else {
        return;
    };
    while !shared.is_stopping() && !pair.is_broken() && lock(&shared.fault).0 == Some(fault) {
        shared.pause(WAKE_INTERVAL);
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock | Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long enough for a busy machine, short enough to end a broken test.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// A server that sends `length` bytes to each of its clients and then closes.
    fn giver(length: usize) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
        let address = listener.local_addr().expect("address");
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let _ = client.write_all(&vec![7; length]);
            }
        });
        address
    }

    fn connect(relay: &Relay) -> TcpStream {
        let client = TcpStream::connect(relay.address()).expect("connect");
        client.set_read_timeout(Some(PATIENCE)).expect("timeout");
        client
    }

    #[test]
    fn without_a_fault_everything_passes() {
        let relay = Relay::start(giver(100_000)).expect("relay");
        let mut data = Vec::new();
        connect(&relay).read_to_end(&mut data).expect("whole");
        assert_eq!(data.len(), 100_000);
        assert_eq!(relay.connections(), 1);
        assert_eq!(relay.passed_bytes(Direction::ToClient), 100_000);
    }

    #[test]
    fn a_request_is_answered_in_the_targets_place() {
        // The target only listens, so that the answer is not its own.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
        let relay = Relay::start(listener.local_addr().expect("address")).expect("relay");
        relay.set_fault(Fault::AnswerAt("PUT /", "no"), 1);
        let (mut client, mut data) = (connect(&relay), Vec::new());
        client.write_all(b"PUT /a and its body").expect("sent");
        client.read_to_end(&mut data).expect("an end");
        assert_eq!(data, b"no");
        assert_eq!(relay.struck(), 1);
    }

    #[test]
    fn connections_of_a_process_take_a_detour() {
        let relay = Relay::start(giver(10)).expect("relay");
        relay.set_detour(std::process::id(), giver(20));
        let mut data = Vec::new();
        connect(&relay).read_to_end(&mut data).expect("whole");
        assert_eq!(data.len(), 20);
        // Others do not.
        relay.set_detour(u32::MAX, giver(20));
        data.clear();
        connect(&relay).read_to_end(&mut data).expect("whole");
        assert_eq!(data.len(), 10);
    }

    #[test]
    fn a_cut_comes_at_its_byte_as_a_reset_and_only_as_often_as_asked() {
        let relay = Relay::start(giver(1_000_000)).expect("relay");
        relay.set_fault(Fault::CutAfter(Direction::ToClient, 300_001), 1);
        let mut data = Vec::new();
        let error = connect(&relay).read_to_end(&mut data).expect_err("reset");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        assert!(data.len() <= 300_001);
        assert_eq!(relay.passed_bytes(Direction::ToClient), 300_001);
        data.clear();
        connect(&relay).read_to_end(&mut data).expect("the second passes");
        assert_eq!(data.len(), 1_000_000);
        assert_eq!(relay.struck(), 1);
    }

    #[test]
    fn a_stall_keeps_the_connection_and_ends_when_healed() {
        let relay = Relay::start(giver(50_000)).expect("relay");
        relay.set_fault(Fault::StallAfter(Direction::ToClient, 10_000), 1);
        let mut client = connect(&relay);
        let mut start = vec![0; 10_000];
        client.read_exact(&mut start).expect("the first bytes come");
        client
            .set_read_timeout(Some(Duration::from_millis(200)))
            .expect("timeout");
        assert!(is_timeout(&client.read(&mut [0; 1]).expect_err("nothing more comes")));
        relay.heal();
        client.set_read_timeout(Some(PATIENCE)).expect("timeout");
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).expect("the rest comes");
        assert_eq!(rest.len(), 40_000);
    }

    #[test]
    fn a_delay_holds_data_back() {
        let relay = Relay::start(giver(10)).expect("relay");
        let delay = Duration::from_millis(150);
        relay.set_fault(Fault::Delay(Direction::ToClient, delay), usize::MAX);
        let started = Instant::now();
        let mut data = Vec::new();
        connect(&relay).read_to_end(&mut data).expect("whole");
        assert_eq!(data.len(), 10);
        assert!(started.elapsed() >= delay);
    }

    #[test]
    fn a_connection_is_abandoned_while_only_the_target_holds_it() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
        let relay = Relay::start(listener.local_addr().expect("address")).expect("relay");
        let client = connect(&relay);
        let (mut server, _) = listener.accept().expect("accept");
        drop(client);
        assert_eq!(server.read(&mut [0; 1]).expect("the end"), 0);
        await_abandoned(&relay, 1);
        drop(server);
        await_abandoned(&relay, 0);
    }

    fn await_abandoned(relay: &Relay, count: usize) {
        let end = Instant::now() + PATIENCE;
        while relay.abandoned_connections() != count {
            assert!(Instant::now() < end, "{}", relay.abandoned_connections());
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn dropping_the_relay_ends_its_connections() {
        let relay = Relay::start(giver(50_000)).expect("relay");
        relay.set_fault(Fault::StallAfter(Direction::ToClient, 10), 1);
        let mut client = connect(&relay);
        client.read_exact(&mut [0; 10]).expect("the first bytes come");
        drop(relay);
        assert!(client.read(&mut [0; 1]).is_err());
    }
}
