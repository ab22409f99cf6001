//! Progress of a running transfer, readable from other tasks.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use endpoint::StepTime;
use endpoint::ids::fresh_span;
use net::Ends;
use remote::{CreatedFile, PacketMark, Steps, Validator};
use telemetry::{Connection, Flowing, Marked};
use tokio::sync::Notify;
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::budget::{Budget, Flow};

/// Shared counters of one transfer.
///
/// They count bytes that reached the sink (stored here, or accepted by the peer's socket), not
/// those that were requested or are in a buffer. Clones share the counters.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    inner: Arc<Inner>,
    /// The flows over the connection for which these counters were made; none for those of the
    /// whole transfer.
    flows: Option<Arc<[Flowing; 2]>>,
}

#[derive(Debug)]
struct Inner {
    started: Instant,
    moved_bytes: AtomicU64,
    total_bytes: AtomicU64,
    phase: AtomicU8,
    attempts: AtomicU32,
    connections: Mutex<Connections>,
    marks: Mutex<Vec<(Phase, std::time::Duration)>>,
    begun: Mutex<Option<Instant>>,
    created: Mutex<Option<CreatedFile>>,
    replaced: Mutex<Option<Replaced>>,
    counted_in: OnceLock<(Budget, Flow)>,
    paced_ms: AtomicU64,
    flow_mark: OnceLock<FlowMark>,
    stop: Notify,
    ending: AtomicU8,
    span: u64,
    steps: Steps,
    /// When the first byte reached the sink, in microseconds from the start; 0 before that.
    first_byte_us: AtomicU64,
}

/// The end of the transfer is open.
const OPEN: u8 = 0;
/// An operator has ended it.
const STOPPED: u8 = 1;
/// Its file is being stored.
const STORING: u8 = 2;

/// What the flows of a transfer belong to.
#[derive(Clone, Debug)]
pub struct FlowMark {
    /// Their label, and who hears of them.
    pub marked: Marked,
    /// The name of the protocol that carries them.
    pub application: &'static str,
}

/// Peers' addresses. The last one stays listed until there is another, because a short copy ends
/// before anyone asks for its peer.
#[derive(Debug, Default)]
struct Connections {
    addresses: Vec<SocketAddr>,
    open: usize,
}

/// Stands for an unknown size.
const UNKNOWN: u64 = u64::MAX;

fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The index of a phase.
fn index_of(phase: Phase) -> u8 {
    let index = Phase::ALL.iter().position(|known| *known == phase);
    index.and_then(|index| u8::try_from(index).ok()).unwrap_or(0)
}

/// A file that a copy replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Its version.
    pub version: Validator,
    /// Its size, where the server told it.
    pub size_bytes: Option<u64>,
}

impl Default for Inner {
    fn default() -> Self {
        // The first random number takes a moment.
        let span = fresh_span();
        Self {
            started: Instant::now(),
            moved_bytes: AtomicU64::new(0),
            total_bytes: AtomicU64::new(UNKNOWN),
            phase: AtomicU8::new(index_of(Phase::Open)),
            attempts: AtomicU32::new(0),
            connections: Mutex::new(Connections::default()),
            marks: Mutex::new(Vec::new()),
            begun: Mutex::default(),
            created: Mutex::default(),
            replaced: Mutex::default(),
            counted_in: OnceLock::new(),
            paced_ms: AtomicU64::new(0),
            flow_mark: OnceLock::new(),
            stop: Notify::new(),
            ending: AtomicU8::new(OPEN),
            span,
            steps: Steps::kept(),
            first_byte_us: AtomicU64::new(0),
        }
    }
}

impl Progress {
    /// A transfer that has just begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, with bytes also counted in a budget.
    #[must_use]
    pub fn counted_in(budget: &Budget, flow: Flow) -> Self {
        let progress = Self::new();
        let _ = progress.inner.counted_in.set((budget.clone(), flow));
        progress
    }

    /// Also counts further bytes in `budget`, unless they are counted in one already.
    pub(crate) fn count_in(&self, budget: &Budget) {
        let _ = self.inner.counted_in.set((budget.clone(), Flow::Through));
    }

    /// The identifier of the transfer's span, where it is part of a trace.
    #[must_use]
    pub fn span(&self) -> u64 {
        self.inner.span
    }

    /// Bytes that have reached the sink.
    #[must_use]
    pub fn moved_bytes(&self) -> u64 {
        self.inner.moved_bytes.load(Ordering::Relaxed)
    }

    /// Size of the file, once known.
    #[must_use]
    pub fn total_bytes(&self) -> Option<u64> {
        Some(self.inner.total_bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes != UNKNOWN)
    }

    /// The current phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.inner.phase.load(Ordering::Relaxed)) % Phase::ALL.len()]
    }

    /// The number of times the copy resumed, after an interruption or from an earlier copy's part.
    #[must_use]
    pub fn resumed(&self) -> u32 {
        self.inner.attempts.load(Ordering::Relaxed)
    }

    /// Peers' addresses of the connections that carry payload now, or of the last one.
    #[must_use]
    pub fn connections(&self) -> Vec<SocketAddr> {
        self.lock_connections().addresses.clone()
    }

    /// Whether a connection that carries payload is open.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.lock_connections().open > 0
    }

    /// Whether such a connection has been open.
    #[must_use]
    pub fn was_connected(&self) -> bool {
        !self.lock_connections().addresses.is_empty()
    }

    /// When each phase began, since the start of the transfer.
    #[must_use]
    pub fn marks(&self) -> Vec<(Phase, std::time::Duration)> {
        self.inner.marks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Time since the transfer began.
    #[must_use]
    pub fn elapsed(&self) -> std::time::Duration {
        self.inner.started.elapsed()
    }

    /// Sets the size of the file.
    pub fn set_total(&self, bytes: u64) {
        self.inner.total_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that have reached the sink.
    pub fn add_moved(&self, bytes: u64) {
        let before = self.inner.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before == 0 && bytes > 0 {
            self.note_first_byte();
        }
        if let Some((budget, flow)) = self.inner.counted_in.get() {
            budget.add_moved(*flow, bytes);
        }
        self.flows
            .iter()
            .flat_map(|flows| flows.iter())
            .for_each(|flow| flow.add(bytes));
    }

    fn note_first_byte(&self) {
        let (unset, now_us) = (0, micros(self.inner.started.elapsed()).max(1));
        let first = &self.inner.first_byte_us;
        let _ = first.compare_exchange(unset, now_us, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Where the steps of the transfer's connections are noted.
    #[must_use]
    pub fn steps(&self) -> Steps {
        self.inner.steps.clone()
    }

    /// The steps of its connections, and its wait for the first byte.
    #[must_use]
    pub fn step_times(&self) -> Vec<StepTime> {
        let since = |moment: Instant| micros(moment.saturating_duration_since(self.inner.started));
        let connecting = self.inner.steps.all().into_iter().map(|step| StepTime {
            name: step.name,
            began_us: since(step.began),
            ended_us: since(step.ended),
        });
        let first_us = self.inner.first_byte_us.load(Ordering::Relaxed);
        let marks = self.marks();
        let begun = marks.iter().find(|(phase, _)| *phase == Phase::Transfer);
        let waiting = begun.filter(|_| first_us > 0).map(|(_, at)| StepTime {
            name: "first byte",
            began_us: micros(*at),
            ended_us: first_us.max(micros(*at)),
        });
        connecting.chain(waiting).collect()
    }

    /// Marks the flows of connections that begin from now on.
    pub fn mark_flows(&self, mark: FlowMark) {
        let _ = self.inner.flow_mark.set(mark);
    }

    /// The mark of packets of connections that begin from now on.
    pub(crate) fn packets(&self) -> Option<PacketMark> {
        let (label, excluded) = self.inner.flow_mark.get()?.marked.of_packets()?;
        let excluded = excluded.into();
        Some(PacketMark { label, excluded })
    }

    /// Ends the copy, by order of an operator. Returns whether that is still possible: a file that
    /// is being stored cannot be called back.
    #[must_use]
    pub fn stop(&self) -> bool {
        if self.decide(STOPPED) == Err(STORING) {
            return false;
        }
        // It is kept until the copy's owner waits: between two of its waits nothing is lost.
        self.inner.stop.notify_one();
        true
    }

    /// The file is about to be stored; from now on no operator ends the attempt.
    ///
    /// # Errors
    /// `ended_by_operator`: an operator was faster.
    pub(crate) fn begin_to_store(&self) -> Result<()> {
        match self.decide(STORING) {
            Err(STOPPED) => Err(Error::new(ErrorCode::EndedByOperator, Side::Active, self.phase())),
            _ => {
                self.enter(Phase::Commit);
                Ok(())
            }
        }
    }

    fn decide(&self, end: u8) -> std::result::Result<u8, u8> {
        let ending = &self.inner.ending;
        ending.compare_exchange(OPEN, end, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Waits until an operator ends the copy. One task waits at a time.
    pub(crate) async fn stopped(&self) {
        self.inner.stop.notified().await;
    }

    /// Takes bytes off the count that will be moved again.
    pub fn take_back(&self, bytes: u64) {
        let less = |moved: u64| Some(moved.saturating_sub(bytes));
        let _ = self
            .inner
            .moved_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Sets the count to `bytes`, when a transfer resumes an earlier part or starts over.
    pub fn set_moved(&self, bytes: u64) {
        self.inner.moved_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Enters a phase.
    pub fn enter(&self, phase: Phase) {
        self.inner.phase.store(index_of(phase), Ordering::Relaxed);
        let mut marks = self.inner.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if marks.iter().all(|(known, _)| *known != phase) {
            marks.push((phase, self.inner.started.elapsed()));
        }
    }

    /// Time for which the transfer has waited for our own rate limits.
    #[must_use]
    pub fn paced(&self) -> std::time::Duration {
        std::time::Duration::from_millis(self.inner.paced_ms.load(Ordering::Relaxed))
    }

    /// Counts such a wait.
    pub fn add_paced(&self, pause: std::time::Duration) {
        let milliseconds = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.inner.paced_ms.fetch_add(milliseconds, Ordering::Relaxed);
    }

    /// Counts a resumption.
    pub(crate) fn count_resumption(&self) {
        self.inner.attempts.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that an attempt begins, which may create a file at the destination from now on.
    pub(crate) fn note_begun(&self) {
        // The attempt before it has stored nothing.
        let ending = &self.inner.ending;
        let _ = ending.compare_exchange(STORING, OPEN, Ordering::AcqRel, Ordering::Acquire);
        *self.inner.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.note_created(None);
    }

    /// When the last attempt began.
    #[must_use]
    pub fn begun(&self) -> Option<Instant> {
        *self.inner.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the file that an attempt has created at the destination.
    pub(crate) fn note_created(&self, file: Option<CreatedFile>) {
        *self.inner.created.lock().unwrap_or_else(PoisonError::into_inner) = file;
    }

    /// The file that the last attempt has created, where the server named it.
    pub(crate) fn created(&self) -> Option<CreatedFile> {
        self.inner
            .created
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Notes the file that the copy replaces.
    pub(crate) fn note_replaced(&self, file: Option<Replaced>) {
        *self.inner.replaced.lock().unwrap_or_else(PoisonError::into_inner) = file;
    }

    /// The file that the copy replaces, where the server named its version.
    pub(crate) fn replaced(&self) -> Option<Replaced> {
        let replaced = self.inner.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        replaced.clone()
    }

    /// Whether the last attempt has created a file at the destination that the server named.
    #[must_use]
    pub fn has_created(&self) -> bool {
        self.created().is_some()
    }

    /// Lists the connections that carry the payload here and away from here, while the returned
    /// guard lives. What is counted by way of the guard is counted for their flows too.
    #[must_use]
    pub fn connected(&self, incoming: Option<Ends>, outgoing: Option<Ends>) -> ConnectionGuard {
        let peers = [incoming, outgoing].map(|ends| ends.map(|ends| ends.peer));
        for peer in peers.into_iter().flatten() {
            let mut list = self.lock_connections();
            if list.open == 0 {
                list.addresses.clear();
            }
            list.addresses.push(peer);
            list.open += 1;
        }
        let flows = [self.flow(incoming, false), self.flow(outgoing, true)];
        ConnectionGuard {
            progress: Self {
                inner: self.inner.clone(),
                flows: Some(Arc::new(flows)),
            },
            peers,
        }
    }

    /// Whether its flows are marked.
    pub(crate) fn is_marked(&self) -> bool {
        self.inner.flow_mark.get().is_some()
    }

    /// A connection begins to carry payload away from here that no guard counts.
    pub(crate) fn begin_outgoing(&self, ends: Ends) -> Flowing {
        self.flow(Some(ends), true)
    }

    fn flow(&self, ends: Option<Ends>, is_sent: bool) -> Flowing {
        let (Some(mark), Some(ends)) = (self.inner.flow_mark.get(), ends) else {
            return Flowing::default();
        };
        mark.marked.begin(Connection {
            local: ends.local,
            peer: ends.peer,
            is_sent,
            application: mark.application,
        })
    }

    /// Lists the peers that another server reports for the copy that it makes. Without any, those
    /// reported before stay.
    pub(crate) fn show_peers(&self, peers: impl Iterator<Item = SocketAddr>) {
        let peers: Vec<SocketAddr> = peers.collect();
        let mut list = self.lock_connections();
        if list.open == 0 && !peers.is_empty() {
            list.addresses = peers;
        }
    }

    fn lock_connections(&self) -> std::sync::MutexGuard<'_, Connections> {
        self.inner.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes connections from the list on drop, unless it is the last one, and ends their flows.
#[derive(Debug)]
pub struct ConnectionGuard {
    progress: Progress,
    peers: [Option<SocketAddr>; 2],
}

impl Deref for ConnectionGuard {
    type Target = Progress;

    fn deref(&self) -> &Progress {
        &self.progress
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        for peer in self.peers.into_iter().flatten() {
            let mut list = self.progress.lock_connections();
            list.open -= 1;
            if list.open > 0
                && let Some(index) = list.addresses.iter().position(|known| *known == peer)
            {
                list.addresses.swap_remove(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_listed_while_open_and_the_last_one_until_there_is_another() {
        let progress = Progress::new();
        let [first, second, third] = [1, 2, 3].map(|last| SocketAddr::from(([192, 0, 2, last], 443)));
        let from = |peer| Some(Ends { local: third, peer });
        let guards = (
            progress.connected(from(first), None),
            progress.connected(None, from(second)),
        );
        assert_eq!(progress.connections(), [first, second]);
        drop(guards.0);
        assert_eq!(progress.connections(), [second]);
        assert!(progress.is_connected());
        drop(guards.1);
        assert_eq!(progress.connections(), [second]);
        assert!(!progress.is_connected() && progress.was_connected());
        let _guard = progress.connected(from(third), None);
        assert_eq!(progress.connections(), [third]);
    }

    #[test]
    fn each_phase_is_marked_once_and_all_can_be_told_apart() {
        let progress = Progress::new();
        assert_eq!(progress.phase(), Phase::Open);
        for phase in Phase::ALL {
            progress.enter(phase);
            assert_eq!(progress.phase(), phase);
        }
        progress.enter(Phase::Transfer);
        assert_eq!(progress.marks().len(), Phase::ALL.len());
        assert!(progress.step_times().is_empty());
        progress.add_moved(1);
        let first = progress.step_times();
        progress.add_moved(1);
        assert_eq!(
            (progress.step_times(), first.len()),
            (first, 1),
            "the first byte counts"
        );
        assert_eq!(progress.total_bytes(), None);
    }
}
